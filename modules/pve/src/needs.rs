//! The privileges that a writing request needs, known before it is sent (docs/pve-privileges.md).
//!
//! Ask `GET /access/permissions?path=...` for each [`AnyOf::paths`], then [`AnyOf::met`]. What is not visible there
//! (options for the root@pam login, tags a datacenter restricts) is [`root_only`] or the planner's to look at.

use crate::boot::{is_cdrom, is_cloudinit};
use crate::config::{Config, text, text_of};
use crate::config_key::{ConfigKey, Family};
use crate::ids::{Volid, percent_decode};
use crate::meaning::int_set;
use crate::prop::PropString;
use crate::volume::DriveFile;
use std::fmt;

/// A request that would be sent; the path without `/api2/json`.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `POST`, `PUT` or `DELETE`.
    pub method: &'a str,
    /// For instance `/nodes/pve1/qemu/101/config`.
    pub path: &'a str,
    /// Its parameters.
    pub params: &'a Config,
}

/// One of these privileges, each on its path, is enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnyOf(pub Vec<(String, &'static str)>);

impl AnyOf {
    /// Whether one of them is granted.
    pub fn met(&self, granted: impl Fn(&str, &str) -> bool) -> bool {
        self.0
            .iter()
            .any(|(path, privilege)| granted(path, privilege))
    }
    /// The paths to ask for.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(p, _)| p.as_str())
    }
}
impl fmt::Display for AnyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self
            .0
            .iter()
            .map(|(path, privilege)| format!("{privilege} on {path}"))
            .collect();
        f.write_str(&each.join(" or "))
    }
}

const ANY_CONFIG: &[&str] = &[
    "VM.Config.Disk",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.HWType",
    "VM.Config.Options",
    "VM.Config.Cloudinit",
];
const STORAGE_READ: &[&str] = &[
    "Datastore.Audit",
    "Datastore.AllocateSpace",
    "Datastore.Allocate",
];

/// The class of privileges that an option belongs to.
fn option_privileges(key: &ConfigKey) -> &'static [&'static str] {
    match key.as_str() {
        "memory" | "balloon" | "shares" | "allow-ksm" => &["VM.Config.Memory"],
        "cores" | "sockets" | "cpu" | "numa" | "vcpus" | "cpulimit" | "cpuunits" | "smp" => {
            &["VM.Config.CPU"]
        }
        "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "smbios1" | "tablet" | "vga"
        | "watchdog" | "audio0" | "rng0" => &["VM.Config.HWType"],
        "boot" | "bootdisk" | "vmstatestorage" => &["VM.Config.Disk"],
        "cicustom" | "cipassword" | "citype" | "ciuser" | "ciupgrade" | "nameserver"
        | "searchdomain" | "sshkeys" => &["VM.Config.Cloudinit", "VM.Config.Network"],
        "freeze" => &["VM.PowerMgmt"],
        _ => match key.stem() {
            "net" => &["VM.Config.Network"],
            "ipconfig" => &["VM.Config.Cloudinit", "VM.Config.Network"],
            "numa" => &["VM.Config.CPU"],
            "serial" | "usb" | "hostpci" => &["VM.Config.HWType"],
            "virtiofs" => &["VM.Config.Options"],
            _ => &["VM.Config.Options"],
        },
    }
}

/// Parameters of create and config requests that are no option of the guest.
fn is_no_option(name: &str) -> bool {
    matches!(
        name,
        "vmid"
            | "node"
            | "pool"
            | "start"
            | "archive"
            | "storage"
            | "force"
            | "unique"
            | "bwlimit"
            | "live-restore"
            | "import-working-storage"
            | "ha-managed"
            | "delete"
            | "revert"
            | "digest"
            | "skiplock"
            | "background_delay"
    )
}

/// Options that only the real root@pam login may set; a token gets a 500, root's too (docs/pve-privileges.md).
pub fn is_root_only(key: &str, value: &str) -> bool {
    let real = |name: &str, unless: &str| {
        PropString::parse(key, value)
            .is_ok_and(|p| p.get(name).is_some_and(|v| !v.eq_ignore_ascii_case(unless)))
    };
    let path = |p: &PropString, name: &str| {
        p.get(name)
            .is_some_and(|v| v.starts_with('/') || v == "cdrom")
    };
    match key {
        "args" | "hookscript" | "lock" | "vmgenid" | "affinity" | "ivshmem" | "arch"
        | "spice_enhancements" | "amd-sev" | "intel-tdx" | "hugepages" | "keephugepages"
        | "skiplock" => true,
        _ if key.starts_with("parallel") => true,
        _ if key.starts_with("usb") => real("host", "spice"),
        _ if key.starts_with("hostpci") => real("host", ""),
        _ if key.starts_with("serial") => value.starts_with('/'),
        _ => {
            key.parse::<ConfigKey>().is_ok_and(|k| k.is_drive())
                && PropString::parse(key, value)
                    .is_ok_and(|p| path(&p, "file") || path(&p, "import-from"))
        }
    }
}

/// The options of a request that only the real root@pam login may set, change or delete.
pub fn root_only(request: &Request, current: &Config) -> Vec<String> {
    let set = request
        .params
        .iter()
        .filter(|(k, v)| text_of(v).is_some_and(|v| is_root_only(k, &v)));
    let mut out: Vec<String> = set.map(|(k, _)| k.clone()).collect();
    for key in list(request.params, "delete") {
        if text(current, &key).is_some_and(|v| is_root_only(&key, &v)) {
            out.push(key);
        }
    }
    out
}

fn list(params: &Config, name: &str) -> Vec<String> {
    match params.get(name) {
        Some(serde_json::Value::Array(items)) => items.iter().filter_map(text_of).collect(),
        Some(v) => text_of(v)
            .map(|t| crate::check::split_list(&t).map(str::to_string).collect())
            .unwrap_or_default(),
        None => Vec::new(),
    }
}

struct Collector<'a> {
    vmid: String,
    pool: Option<String>,
    create: bool,
    working_storage: Option<String>,
    current: &'a Config,
    zone_of: &'a dyn Fn(&str) -> Option<String>,
    needs: Vec<AnyOf>,
}

impl Collector<'_> {
    fn add(&mut self, path: String, privileges: &[&'static str]) {
        self.push(AnyOf(
            privileges.iter().map(|p| (path.clone(), *p)).collect(),
        ));
    }
    fn push(&mut self, need: AnyOf) {
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }
    /// On the guest, or at creation on the pool that it joins.
    fn on_guest(&mut self, privileges: &[&'static str]) {
        let mut any: Vec<_> = privileges
            .iter()
            .map(|p| (format!("/vms/{}", self.vmid), *p))
            .collect();
        if let Some(pool) = &self.pool {
            any.extend(privileges.iter().map(|p| (format!("/pool/{pool}"), *p)));
        }
        self.push(AnyOf(any));
    }
    fn on_storage(&mut self, storage: &str, privileges: &[&'static str]) {
        self.add(format!("/storage/{storage}"), privileges);
    }

    /// A bridge or vnet; with VLANs, each of them instead.
    fn bridge(&mut self, nic: &PropString) {
        let Some(bridge) = nic.get("bridge") else {
            return;
        };
        let zone = (self.zone_of)(bridge).unwrap_or_else(|| "localnetwork".into());
        let base = format!("/sdn/zones/{zone}/{bridge}");
        let trunks = nic.get("trunks").and_then(int_set).unwrap_or_default();
        let vlans = trunks
            .iter()
            .flat_map(|(a, b)| *a..=(*b).min(4094))
            .map(|t| t.to_string());
        let vlans: Vec<String> = nic
            .get("tag")
            .map(str::to_string)
            .into_iter()
            .chain(vlans)
            .collect();
        if vlans.is_empty() {
            self.add(base.clone(), &["SDN.Use"]);
        }
        for vlan in vlans {
            self.add(format!("{base}/{vlan}"), &["SDN.Use"]);
        }
    }

    fn current_prop(&self, key: &str) -> Option<PropString> {
        PropString::parse(key, &text(self.current, key)?).ok()
    }

    /// What holds for a drive that is set, changed or removed.
    fn drive_class(&mut self, drive: &PropString) {
        if self.create {
            return;
        }
        if is_cloudinit(drive) {
            self.on_guest(&["VM.Config.Cloudinit"]);
            self.on_guest(&["VM.Config.CDROM"]);
        } else if is_cdrom(drive) {
            self.on_guest(&["VM.Config.CDROM"]);
        } else {
            self.on_guest(&["VM.Config.Disk"]);
        }
    }

    fn source(&mut self, source: &Volid) {
        match (source.owner(), source.name().contains(".ova/")) {
            (Some(owner), _) => self.add(format!("/vms/{owner}"), &["VM.Clone"]),
            (None, inside_ova) => {
                self.on_storage(source.storage(), STORAGE_READ);
                if inside_ova {
                    let storage = self
                        .working_storage
                        .clone()
                        .unwrap_or_else(|| source.storage().to_string());
                    self.on_storage(&storage, &["Datastore.AllocateSpace"]);
                }
            }
        }
    }

    fn set_drive(&mut self, drive: &PropString) {
        self.drive_class(drive);
        if let Some(old) = self.current_prop(drive.key().as_str()) {
            self.drive_class(&old);
        }
        if let Some(source) = drive.get("import-from").and_then(|s| s.parse().ok()) {
            self.source(&source);
        }
        match DriveFile::of(drive) {
            Some(DriveFile::New { storage, .. }) => {
                self.on_storage(&storage, &["Datastore.AllocateSpace"])
            }
            // Recorded: a cloud-init volume needs nothing on its storage.
            Some(DriveFile::Volume(v)) => match v.owner() {
                Some(owner) if owner.to_string() == self.vmid => {}
                Some(owner) => {
                    self.on_storage(v.storage(), &["Datastore.Audit"]);
                    self.add(format!("/vms/{owner}"), &["VM.Config.Disk"]);
                }
                None => self.on_storage(v.storage(), STORAGE_READ),
            },
            _ => {}
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let Ok(key) = name.parse::<ConfigKey>() else {
            return;
        };
        if key.is_drive() {
            if let Ok(drive) = PropString::parse(name, value) {
                self.set_drive(&drive);
            }
            return;
        }
        // Tags are looked at after the guest exists: its pool does not count (recorded).
        if name == "tags" {
            self.add(format!("/vms/{}", self.vmid), &["VM.Config.Options"]);
            return;
        }
        self.on_guest(option_privileges(&key));
        match name {
            "startup" => self.add("/".into(), &["Sys.Modify"]),
            "vmstatestorage" => self.on_storage(value, &["Datastore.AllocateSpace"]),
            _ => {}
        }
        let Ok(p) = PropString::parse(name, value) else {
            return;
        };
        if key.is_net() {
            self.bridge(&p);
            if let Some(old) = self.current_prop(name) {
                self.bridge(&old);
            }
        }
        match (key.stem(), p.get("mapping"), p.get("source")) {
            ("hostpci", Some(m), _) => self.add(format!("/mapping/pci/{m}"), &["Mapping.Use"]),
            ("usb", Some(m), _) => self.add(format!("/mapping/usb/{m}"), &["Mapping.Use"]),
            ("rng", _, Some("/dev/hwrng")) => self.add("/mapping/hwrng".into(), &["Mapping.Use"]),
            ("virtiofs", ..) => {
                if let Some(dir) = p.get("dirid") {
                    self.add(format!("/mapping/dir/{dir}"), &["Mapping.Use"]);
                }
            }
            _ => {}
        }
    }

    fn delete(&mut self, name: &str, destroy: bool) {
        let Ok(key) = name.parse::<ConfigKey>() else {
            return;
        };
        let old = self.current_prop(name);
        if !key.is_drive() {
            self.on_guest(option_privileges(&key));
            if let Some(old) = old.filter(|_| key.is_net()) {
                self.bridge(&old);
            }
            return;
        }
        match &old {
            Some(drive) => self.drive_class(drive),
            None => self.on_guest(&["VM.Config.Disk"]),
        }
        if (destroy || key.family() == Family::Unused)
            && let Some(DriveFile::Volume(v)) = old.as_ref().and_then(DriveFile::of)
            && !old.as_ref().is_some_and(is_cdrom)
        {
            self.on_storage(v.storage(), &["Datastore.AllocateSpace"]);
        }
    }

    fn storage_of(&self, disk: &str) -> Option<String> {
        match self.current_prop(disk).as_ref().and_then(DriveFile::of)? {
            DriveFile::Volume(v) => Some(v.storage().to_string()),
            _ => None,
        }
    }
}

/// The privileges that a writing request needs, all of them; empty for requests that this table does not know.
///
/// `current`: the guest's configuration (empty at creation); `zone_of`: the zone of a vnet, None for a bridge.
pub fn needs(
    request: &Request,
    current: &Config,
    zone_of: &dyn Fn(&str) -> Option<String>,
) -> Vec<AnyOf> {
    let params = request.params;
    let get = |name: &str| params.get(name).and_then(text_of);
    let is_set = |name: &str| get(name).is_some_and(|v| v != "0" && !v.is_empty());
    let path = percent_decode(request.path);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let mut c = Collector {
        vmid: parts
            .get(3)
            .map_or_else(|| get("vmid").unwrap_or_default(), |v| (*v).to_string()),
        pool: None,
        create: false,
        working_storage: get("import-working-storage"),
        current,
        zone_of,
        needs: Vec::new(),
    };
    let guest = format!("/vms/{}", c.vmid);
    match (request.method, parts.as_slice()) {
        ("POST", ["nodes", _, "qemu"]) => {
            c.create = true;
            c.pool = get("pool");
            c.on_guest(&["VM.Allocate"]);
            if is_set("start") {
                c.add(guest, &["VM.PowerMgmt"]);
            }
            set_options(&mut c, params);
        }
        ("PUT" | "POST", ["nodes", _, "qemu", _, "config"]) => {
            c.on_guest(ANY_CONFIG);
            set_options(&mut c, params);
            for name in list(params, "delete") {
                c.delete(&name, is_set("force"));
            }
        }
        ("PUT", ["nodes", _, "qemu", _, "unlink"]) => {
            c.add(guest, &["VM.Config.Disk"]);
            for name in list(params, "idlist") {
                c.delete(&name, is_set("force"));
            }
        }
        ("PUT", ["nodes", _, "qemu", _, "resize"]) => {
            c.add(guest, &["VM.Config.Disk"]);
            if let Some(storage) = get("disk").and_then(|d| c.storage_of(&d)) {
                c.on_storage(&storage, &["Datastore.AllocateSpace"]);
            }
        }
        ("POST", ["nodes", _, "qemu", _, "move_disk"]) => {
            c.add(guest, &["VM.Config.Disk"]);
            if let Some(target) = get("target-vmid") {
                c.add(format!("/vms/{target}"), &["VM.Config.Disk"]);
            }
            let storage = get("storage").or_else(|| get("disk").and_then(|d| c.storage_of(&d)));
            if let Some(storage) = storage {
                c.on_storage(&storage, &["Datastore.AllocateSpace"]);
            }
        }
        ("POST", ["nodes", _, "qemu", _, "clone"]) => {
            c.add(guest, &["VM.Clone"]);
            let mut any = vec![(
                format!("/vms/{}", get("newid").unwrap_or_default()),
                "VM.Allocate",
            )];
            any.extend(get("pool").map(|p| (format!("/pool/{p}"), "VM.Allocate")));
            c.push(AnyOf(any));
            for drive in crate::config::drives(current) {
                if let Some(DriveFile::Volume(v)) = DriveFile::of(&drive)
                    && drive.key().family() != Family::Unused
                {
                    match is_cdrom(&drive) && !is_cloudinit(&drive) {
                        true => c.on_storage(v.storage(), STORAGE_READ),
                        false => {
                            let storage = get("storage").unwrap_or_else(|| v.storage().to_string());
                            c.on_storage(&storage, &["Datastore.AllocateSpace"]);
                        }
                    }
                }
            }
            for nic in crate::config::nics(current) {
                c.bridge(&nic);
            }
        }
        ("POST", ["nodes", _, "qemu", _, "status", _]) => c.add(guest, &["VM.PowerMgmt"]),
        ("POST", ["nodes", _, "qemu", _, "template"]) | ("DELETE", ["nodes", _, "qemu", _]) => {
            c.add(guest, &["VM.Allocate"]);
        }
        ("POST", ["nodes", _, "qemu", _, "migrate"]) => c.add(guest, &["VM.Migrate"]),
        ("POST" | "DELETE" | "PUT", ["nodes", _, "qemu", _, "snapshot", ..]) => {
            c.add(guest, &["VM.Snapshot"])
        }
        ("POST", ["nodes", _, "storage", storage, "content"]) => {
            c.on_storage(storage, &["Datastore.AllocateSpace"])
        }
        ("DELETE", ["nodes", _, "storage", storage, "content", ..]) => {
            c.on_storage(storage, &["Datastore.Allocate"])
        }
        ("PUT", ["pools", rest @ ..]) => {
            let pool = match rest {
                [] => get("poolid").unwrap_or_default(),
                name => name.join("/"),
            };
            c.add(format!("/pool/{pool}"), &["Pool.Allocate"]);
            for vmid in list(params, "vms") {
                c.add(
                    format!("/vms/{vmid}"),
                    &["Permissions.Modify", "VM.Allocate"],
                );
            }
            for storage in list(params, "storage") {
                c.add(
                    format!("/storage/{storage}"),
                    &["Permissions.Modify", "Datastore.Allocate"],
                );
            }
        }
        // Source: the API schema's permissions of /cluster/ha/resources.
        ("POST" | "PUT" | "DELETE", ["cluster", "ha", "resources", ..]) => {
            c.add("/".into(), &["Sys.Console"]);
        }
        ("PUT", ["access", "acl"]) => acl(&mut c, &get("path").unwrap_or_default()),
        (_, ["cluster", "sdn", ..]) => sdn(&mut c, request.method, &parts[2..], get("zone")),
        _ => {}
    }
    c.needs
}

fn set_options(c: &mut Collector, params: &Config) {
    for (name, value) in params.iter().filter(|(n, _)| !is_no_option(n)) {
        let Some(value) = text_of(value) else {
            continue;
        };
        let name = if name == "cdrom" { "ide2" } else { name };
        if !is_root_only(name, &value) {
            c.set(name, &value);
        }
    }
}

fn sdn(c: &mut Collector, method: &str, rest: &[&str], zone: Option<String>) {
    let allocate = &["SDN.Allocate"];
    let zone_of = |vnet: &str| (c.zone_of)(vnet).unwrap_or_default();
    let path = match (method, rest) {
        ("POST", ["zones"]) => "/sdn/zones".to_string(),
        ("PUT" | "DELETE", ["zones", zone]) => format!("/sdn/zones/{zone}"),
        ("POST", ["vnets"]) => format!("/sdn/zones/{}", zone.unwrap_or_default()),
        ("PUT" | "DELETE" | "POST", ["vnets", vnet, ..]) => {
            format!("/sdn/zones/{}/{vnet}", zone_of(vnet))
        }
        ("PUT", []) | ("POST" | "DELETE", ["lock"]) | ("POST", ["rollback"]) => "/sdn".to_string(),
        _ => return,
    };
    c.add(path, allocate);
}

/// Any of these lets one change the access control list of that path (source: pve-access-control, RPCEnvironment.pm,
/// `check_perm_modify`); with another than Permissions.Modify one may hand out only what one has oneself.
pub fn modifies(path: &str) -> &'static [&'static str] {
    match path
        .trim_matches('/')
        .split('/')
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["vms", _] => &["Permissions.Modify", "VM.Allocate"],
        ["storage", _] => &["Permissions.Modify", "Datastore.Allocate"],
        ["pool", _, ..] => &["Permissions.Modify", "Pool.Allocate"],
        _ => &["Permissions.Modify"],
    }
}

fn acl(c: &mut Collector, path: &str) {
    // Which roles one may hand out without Permissions.Modify is the planner's to look at.
    c.add(path.to_string(), modifies(path));
}
