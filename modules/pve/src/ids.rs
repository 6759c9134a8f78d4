//! Names of things on a Proxmox VE cluster: guests, nodes, storages, tasks, volumes, network cards.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A name that the server would refuse; `what` is the kind of name, `way_out` says what it takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not valid: {way_out}")]
pub struct IdError {
    /// Kind of name, such as `vmid`.
    pub what: &'static str,
    /// The value as given.
    pub value: String,
    /// What the server takes.
    pub way_out: &'static str,
}

fn refuse<T>(what: &'static str, value: &str, way_out: &'static str) -> Result<T, IdError> {
    Err(IdError {
        what,
        value: value.to_string(),
        way_out,
    })
}

/// Number of a guest, 100 to 999999999 (api-schema.json, `pve-vmid`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VmId(u32);

impl VmId {
    /// Checks the limits of the server.
    pub fn new(id: u32) -> Result<Self, IdError> {
        match id {
            100..=999_999_999 => Ok(VmId(id)),
            _ => refuse(
                "vmid",
                &id.to_string(),
                "give a number from 100 to 999999999",
            ),
        }
    }
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}
impl TryFrom<u32> for VmId {
    type Error = IdError;
    fn try_from(id: u32) -> Result<Self, IdError> {
        VmId::new(id)
    }
}
impl From<VmId> for u32 {
    fn from(id: VmId) -> u32 {
        id.0
    }
}
impl FromStr for VmId {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        match s.trim().parse() {
            Ok(id) => VmId::new(id),
            Err(_) => refuse("vmid", s, "give a number from 100 to 999999999"),
        }
    }
}
impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $ok:expr, $way_out:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);
        impl $name {
            /// Checks the name as the server does.
            pub fn new(name: impl Into<String>) -> Result<Self, IdError> {
                let name = name.into();
                let ok: fn(&str) -> bool = $ok;
                if ok(&name) { Ok($name(name)) } else { refuse($what, &name, $way_out) }
            }
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(s: String) -> Result<Self, IdError> {
                $name::new(s)
            }
        }
        impl From<$name> for String {
            fn from(n: $name) -> String {
                n.0
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                $name::new(s)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// Name of a cluster node (a host name without dots).
    NodeName, "node", is_node_name,
    "letters, digits and '-', not at the ends"
);
text_id!(
    /// Name of a storage.
    StorageId, "storage", is_storage_id,
    "at least two characters: a letter first, then letters, digits and '-_.', a letter or digit last"
);

/// Whether this is a node name (format `pve-node`).
pub fn is_node_name(s: &str) -> bool {
    let b = s.as_bytes();
    !b.is_empty()
        && b.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
        && b[0] != b'-'
        && b[b.len() - 1] != b'-'
}

/// Whether this is a storage name (format `pve-storage-id`; also the part before the colon of a volume id).
pub fn is_storage_id(s: &str) -> bool {
    let b = s.as_bytes();
    b.len() >= 2
        && b[0].is_ascii_alphabetic()
        && b[b.len() - 1].is_ascii_alphanumeric()
        && b.iter()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
}

/// Percent-encodes everything but unreserved characters (RFC 3986), as a path segment or form value needs it.
pub fn percent_encode(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for b in s.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
            out.push(b as char);
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// Undoes percent-encoding; a `%` without two hex digits stays as it is, bytes that are no UTF-8 are replaced.
pub fn percent_decode(s: &str) -> String {
    let b = s.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut i = 0;
    let hex = |c: Option<&u8>| c.and_then(|c| (*c as char).to_digit(16));
    while i < b.len() {
        match (b[i], hex(b.get(i + 1)), hex(b.get(i + 2))) {
            (b'%', Some(h), Some(l)) => {
                out.push((h * 16 + l) as u8);
                i += 3;
            }
            (c, _, _) => {
                out.push(c);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A task's id: `UPID:node:pid:pstart:starttime:type:id:user:` (pve-facts.md, Tasks).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upid {
    text: String,
    node: String,
    started: u64,
    kind: String,
    id: String,
    user: String,
}

impl Upid {
    /// Node on which the task runs.
    pub fn node(&self) -> &str {
        &self.node
    }
    /// Start, seconds since 1970.
    pub fn started(&self) -> u64 {
        self.started
    }
    /// Type of the task, such as `qmcreate`.
    pub fn kind(&self) -> &str {
        &self.kind
    }
    /// What it works on, usually a vmid; empty where the task has no object.
    pub fn id(&self) -> &str {
        &self.id
    }
    /// Who started it; a token as `user@realm!token`.
    pub fn user(&self) -> &str {
        &self.user
    }
    /// The whole id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// For use as a path segment: a token's `!` and the colons are encoded.
    pub fn path_segment(&self) -> String {
        percent_encode(&self.text)
    }
}
impl FromStr for Upid {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let parts: Vec<&str> = s.split(':').collect();
        let hex = |p: &str| (8..=9).contains(&p.len()) && p.bytes().all(|c| c.is_ascii_hexdigit());
        if parts.len() == 9
            && parts[0] == "UPID"
            && is_node_name(parts[1])
            && hex(parts[2])
            && hex(parts[3])
            && hex(parts[4])
            && !parts[5].is_empty()
            && !parts[7].is_empty()
            && parts[8].is_empty()
            && let Ok(started) = u64::from_str_radix(parts[4], 16)
        {
            return Ok(Upid {
                text: s.to_string(),
                node: parts[1].into(),
                started,
                kind: parts[5].into(),
                id: parts[6].into(),
                user: parts[7].into(),
            });
        }
        refuse("task id", s, "UPID:node:pid:pstart:starttime:type:id:user:")
    }
}
impl TryFrom<String> for Upid {
    type Error = IdError;
    fn try_from(s: String) -> Result<Self, IdError> {
        s.parse()
    }
}
impl From<Upid> for String {
    fn from(u: Upid) -> String {
        u.text
    }
}
impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A volume: `storage:name`, for instance `local:201/vm-201-disk-0.raw` or `lvm:vm-201-disk-0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Volid {
    storage: String,
    name: String,
}

impl Volid {
    /// Name of the storage.
    pub fn storage(&self) -> &str {
        &self.storage
    }
    /// All after the first colon.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The part after the last slash.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
    /// Kind of content that the name's folder says (`iso`, `import`, `snippets`, `vztmpl`, `backup`), else None: an image.
    pub fn content(&self) -> Option<&str> {
        let (folder, _) = self.name.split_once('/')?;
        ["iso", "import", "snippets", "vztmpl", "backup"]
            .contains(&folder)
            .then_some(folder)
    }
    /// The guest that owns the image: folder `N/` on directory storages, `vm-N-`, `base-N-` elsewhere; for a linked
    /// clone the clone, not the base.
    pub fn owner(&self) -> Option<u32> {
        if self.content().is_some() {
            return None;
        }
        let parts: Vec<&str> = self.name.split('/').collect();
        if parts.len() >= 2
            && let Ok(id) = parts[parts.len() - 2].parse()
        {
            return Some(id);
        }
        let rest = self.file_name();
        let rest = ["vm-", "base-", "subvol-", "basevol-"]
            .iter()
            .find_map(|p| rest.strip_prefix(p))?;
        rest.split('-').next()?.parse().ok()
    }
    /// Format that the ending says (`raw`, `qcow2`, `vmdk`, ...); None where there is none (block storages: raw).
    pub fn format(&self) -> Option<&str> {
        match self.file_name().rsplit_once('.')?.1 {
            "subvol" => Some("subvol"),
            f @ ("raw" | "qcow2" | "vmdk" | "qcow" | "qed" | "vdi" | "vhdx" | "iso" | "img"
            | "ova") => Some(f),
            _ => None,
        }
    }
}
impl FromStr for Volid {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        match s.split_once(':') {
            Some((storage, name))
                if is_storage_id(storage) && !name.is_empty() && !name.contains('\n') =>
            {
                Ok(Volid {
                    storage: storage.into(),
                    name: name.into(),
                })
            }
            _ => refuse(
                "volume",
                s,
                "give <storage>:<name>, such as local:101/vm-101-disk-0.qcow2",
            ),
        }
    }
}
impl TryFrom<String> for Volid {
    type Error = IdError;
    fn try_from(s: String) -> Result<Self, IdError> {
        s.parse()
    }
}
impl From<Volid> for String {
    fn from(v: Volid) -> String {
        v.to_string()
    }
}
impl fmt::Display for Volid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.storage, self.name)
    }
}

/// A unicast MAC address; kept and printed as given (the server keeps its case), compared without case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddr(String);

impl MacAddr {
    /// As given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// In upper case, as the server makes its own.
    pub fn upper(&self) -> String {
        self.0.to_ascii_uppercase()
    }
}
impl PartialEq for MacAddr {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}
impl Eq for MacAddr {}
impl std::hash::Hash for MacAddr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.upper().hash(state);
    }
}
impl FromStr for MacAddr {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let parts: Vec<&str> = s.split(':').collect();
        let hex = |p: &&str| p.len() == 2 && p.bytes().all(|c| c.is_ascii_hexdigit());
        if parts.len() == 6
            && parts.iter().all(hex)
            && b"02468aceACE".contains(&parts[0].as_bytes()[1])
        {
            Ok(MacAddr(s.to_string()))
        } else {
            refuse(
                "MAC address",
                s,
                "give a unicast address such as BC:24:11:00:00:01",
            )
        }
    }
}
impl TryFrom<String> for MacAddr {
    type Error = IdError;
    fn try_from(s: String) -> Result<Self, IdError> {
        s.parse()
    }
}
impl From<MacAddr> for String {
    fn from(m: MacAddr) -> String {
        m.0
    }
}
impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokens_task_id_is_read_and_encoded() {
        let u: Upid = "UPID:pve1:0000035F:0003BD3F:6B0D7E2D:qmcreate:205:deploy@pve!ci:"
            .parse()
            .unwrap();
        assert_eq!(
            (u.node(), u.kind(), u.id(), u.user()),
            ("pve1", "qmcreate", "205", "deploy@pve!ci")
        );
        assert_eq!(u.started(), 0x6B0D_7E2D);
        assert!(u.path_segment().contains("%21ci%3A"));
        assert_eq!(percent_decode(&u.path_segment()), u.as_str());
        assert!("UPID:pve1:1:2:3:x:y:z".parse::<Upid>().is_err());
    }

    #[test]
    fn volumes_say_owner_and_format() {
        let of = |s: &str| {
            let v: Volid = s.parse().unwrap();
            (
                v.owner(),
                v.format().map(str::to_string),
                v.content().map(str::to_string),
            )
        };
        assert_eq!(
            of("local:201/vm-201-disk-0.raw"),
            (Some(201), Some("raw".into()), None)
        );
        assert_eq!(
            of("local:210/base-210-disk-0.raw/226/vm-226-disk-0.qcow2"),
            (Some(226), Some("qcow2".into()), None)
        );
        assert_eq!(of("lvm:vm-7001-disk-3"), (Some(7001), None, None));
        assert_eq!(
            of("zfs:base-100-disk-0/vm-101-disk-0"),
            (Some(101), None, None)
        );
        assert_eq!(
            of("nfs:20042/disk0.vmdk"),
            (Some(20042), Some("vmdk".into()), None)
        );
        assert_eq!(
            of("local:iso/x.iso"),
            (None, Some("iso".into()), Some("iso".into()))
        );
        assert!("l:1".parse::<Volid>().is_err() && "local:".parse::<Volid>().is_err());
    }

    #[test]
    fn mac_addresses_compare_without_case() {
        let m: MacAddr = "bc:24:11:00:00:0a".parse().unwrap();
        assert_eq!(m, "BC:24:11:00:00:0A".parse().unwrap());
        assert_eq!(m.to_string(), "bc:24:11:00:00:0a");
        for bad in [
            "01:00:5E:00:00:01",
            "BC-24-11-00-00-01",
            "bc24.1100.0001",
            "BC:24:11:00:00",
            "ZZ:24:11:00:00:01",
        ] {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn vmids_have_limits() {
        assert!(
            VmId::new(99).is_err()
                && VmId::new(100).is_ok()
                && "1000000000".parse::<VmId>().is_err()
        );
        assert!(
            VmId::new(99)
                .unwrap_err()
                .to_string()
                .contains("from 100 to 999999999")
        );
    }
}
