//! Where data comes from and goes to: what the server would refuse is refused here (docs/pve-facts.md, import table).

use super::Disk;
use crate::look::{Look, Stop};
use crate::pve_common::{Guest, granted, text};
use plan::{ErrorKind, Fact, Refusal};
use pve::Volid;
use pve::keys::PveKey;
use pve::volume::{Namer, is_file_storage};
use serde_json::Value;

/// What a source is.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A volume.
    Volume(Volid),
    /// An absolute path on the node.
    Path(String),
}

/// Reads the argument; what is wrong with any source is an argument error.
///
/// # Errors
/// The cause and the way out.
pub fn parse(text: &str) -> Result<Source, String> {
    if text.contains(',') {
        return Err(
            "holds a comma, which no disk option can carry; rename the file or its folder"
                .to_owned(),
        );
    }
    let name = text.rsplit('/').next().unwrap_or(text);
    if let Some(why) = part_of_a_disk(name) {
        return Err(why);
    }
    if text.starts_with('/') {
        return Ok(Source::Path(text.to_owned()));
    }
    text.parse().map(Source::Volume).map_err(|_| {
        "is neither a volume id such as `nfs:20042/disk0.vmdk` nor an absolute path".to_owned()
    })
}

/// Files that hold only a part of what makes a VMware disk.
fn part_of_a_disk(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".vmdk")?;
    if stem.ends_with("-flat") {
        return Some(
            "is VMware's data file alone, which the server takes for a broken descriptor; describe it with vmdk_descriptor and import `<storage>:<vmid>/disk<N>.vmdk`".to_owned(),
        );
    }
    if vsphere::vmdk::is_snapshot_delta(name) {
        return Some(
            "belongs to a snapshot and holds only what changed since; remove the VM's snapshots (consolidate) first".to_owned(),
        );
    }
    None
}

/// A storage as a node sees it.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'a>(pub &'a Value);

impl Storage<'_> {
    /// Whether it keeps volumes as files with a format each.
    pub fn is_file(&self) -> bool {
        is_file_storage(self.kind())
    }
    /// Its type.
    pub fn kind(&self) -> &str {
        self.0["type"].as_str().unwrap_or("")
    }
    /// What it makes of a size: block storages round up (source: pve-storage, *Plugin.pm, alloc_image).
    pub fn rounded(&self, bytes: u64) -> u64 {
        let unit = match self.kind() {
            "lvm" | "lvmthin" => 4 << 20,
            "zfspool" | "zfs" | "rbd" => 1 << 20,
            _ => 512,
        };
        bytes.div_ceil(unit) * unit
    }
}

impl Disk {
    /// The storage, if the node says anything of its storages; refuses one where no disk can be made.
    pub(super) fn storage_for_images<'a>(
        &self,
        look: &Look<'a>,
        guest: &Guest<'_>,
        name: &str,
    ) -> Result<Option<Storage<'a>>, Stop> {
        let node = guest.node();
        let Some(s) = self.storage(look, guest, name)? else {
            return Ok(None);
        };
        let usable = s.0["enabled"] != false && s.0["active"] != false;
        let images = s.0["content"]
            .as_array()
            .is_none_or(|c| c.iter().any(|c| c == "images"));
        if !usable {
            return Err(self.refused(
                guest,
                format!("storage {name} is disabled or not active on node {node}; enable it, or choose another"),
            ));
        }
        if !images {
            return Err(self.refused(
                guest,
                format!("storage {name} takes no disk images; add `images` to its content, or choose another"),
            ));
        }
        Ok(Some(s))
    }

    fn storage<'a>(
        &self,
        look: &Look<'a>,
        guest: &Guest<'_>,
        name: &str,
    ) -> Result<Option<Storage<'a>>, Stop> {
        let node = guest.node();
        let Some(f) = look.aux(
            &PveKey::Storages(node.to_owned()),
            &format!("storages of node {node}"),
        )?
        else {
            return Ok(None);
        };
        let list = f.known().and_then(Value::as_array);
        if let Some(s) = list.into_iter().flatten().find(|s| s["storage"] == name) {
            return Ok(Some(Storage(s)));
        }
        // The list is filtered (docs/pve-privileges.md): what we may not see is not missing.
        let path = format!("/storage/{name}");
        let root = look
            .aux(&PveKey::WhoAmI, "who we are")?
            .and_then(Fact::known)
            .is_some_and(|w| w["root_login"] == true);
        let sees = root
            || look
                .fact(&PveKey::Perms(path.clone()))?
                .known()
                .is_some_and(|p| {
                    granted(p, "Datastore.Audit") || granted(p, "Datastore.AllocateSpace")
                });
        if sees {
            return Err(self.refused(
                guest,
                format!("node {node} has no storage {name}; check the name, and on which nodes the storage is"),
            ));
        }
        look.note(format!(
            "storage {name} of node {node}: Datastore.Audit on {path} is missing"
        ));
        Ok(None)
    }

    /// Refuses a source that the server would refuse; gives its size in bytes where that can be known.
    pub(super) fn check_source(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        source: &Source,
    ) -> Result<Option<u64>, Stop> {
        let volid = match source {
            Source::Path(path) => {
                self.check_path(look, guest, path)?;
                look.note(format!(
                    "{path}: no way to look at a file of node {}",
                    guest.node()
                ));
                return Ok(self.source_bytes);
            }
            Source::Volume(v) => v,
        };
        let kind = self.storage(look, guest, volid.storage())?;
        let esxi = kind.is_some_and(|k| k.kind() == "esxi");
        let shown = volid.to_string();
        let bad = |why: &str| Err(self.refused(guest, format!("the source {shown} {why}")));
        if !esxi {
            if shown.contains(char::is_whitespace) {
                return bad(
                    "has white space in its volume id, which the server refuses; describe it with vmdk_descriptor under a plain name",
                );
            }
            let inner = volid.name().strip_prefix("import/").unwrap_or("");
            if inner.contains('/') && !inner.contains(".ova/") {
                return bad(
                    "lies in a folder under import/, and the server takes none there; describe it with vmdk_descriptor, or move it up",
                );
            }
            match volid.content() {
                Some("import") | None => {}
                Some(other) => {
                    return bad(&format!(
                        "is of content type {other}, and the server imports only images and import; put it into the folder import/ of a storage with that content"
                    ));
                }
            }
        }
        if volid.content() == Some("import") && shown.ends_with(".vmdk") && !shown.contains(".ova/")
        {
            self.check_no_sibling(look, guest, volid)?;
        }
        self.look_at(look, guest, volid)
    }

    fn check_path(&self, look: &Look<'_>, guest: &Guest<'_>, path: &str) -> Result<(), Stop> {
        let root = look
            .aux(&PveKey::WhoAmI, "who we are")?
            .and_then(Fact::known)
            .is_none_or(|w| w["root_login"] == true);
        if !root {
            return Err(Refusal::kind(
                ErrorKind::Permission,
                format!(
                    "unable to {} guest {}: only the login root@pam with its password may import a path of the node, no token, not even root's; name a volume such as `nfs:{}/disk0.vmdk` (see vmdk_descriptor)",
                    self.verb(),
                    guest.vmid(),
                    guest.vmid()
                ),
            )
            .into());
        }
        if !path.ends_with(".vmdk") || self.single_file {
            return Ok(());
        }
        // Source: docs/pve-facts.md: the check on untrusted images is in PVE 8.3 and later.
        let strict = look.fact(&PveKey::Version)?.known().is_none_or(|v| {
            let n = |name: &str| v[name].as_u64().unwrap_or(0);
            (n("major"), n("minor")) >= (8, 3)
        });
        if strict {
            return Err(self.refused(
                guest,
                format!(
                    "{path} is a .vmdk behind an absolute path, and the server refuses a descriptor with a separate data file there; describe it with vmdk_descriptor, or say `source_layout: single_file` if it is one file"
                ),
            ));
        }
        Ok(())
    }

    /// A descriptor under import/ with its data file beside it.
    fn check_no_sibling(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        volid: &Volid,
    ) -> Result<(), Stop> {
        let key = PveKey::Volumes {
            node: guest.node().to_owned(),
            storage: volid.storage().to_owned(),
            content: "import".to_owned(),
            vmid: None,
        };
        let Some(f) = look.aux(&key, &format!("files beside {volid}"))? else {
            return Ok(());
        };
        let shown = volid.to_string();
        let flat = format!("{}-flat.vmdk", shown.trim_end_matches(".vmdk"));
        let there = f
            .known()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|v| v["volid"] == flat.as_str());
        if there {
            return Err(self.refused(
                guest,
                format!(
                    "the source {volid} is a descriptor with its data file beside it, which the server refuses under import/; put both into images/<vmid>/, or describe the data file with vmdk_descriptor"
                ),
            ));
        }
        Ok(())
    }

    /// Whether the volume is there, and its size.
    pub(super) fn look_at(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        volid: &Volid,
    ) -> Result<Option<u64>, Stop> {
        let key = PveKey::Volume {
            node: guest.node().to_owned(),
            volid: volid.to_string(),
        };
        let what = format!("the source {volid}");
        let Some(f) = look.aux(&key, &what)? else {
            return Ok(self.source_bytes);
        };
        let Some(v) = f.known() else {
            if self.source_pending {
                look.note(format!("{what}: an earlier task of this run makes it"));
                return Ok(self.source_bytes);
            }
            return Err(Refusal::kind(
                ErrorKind::NotFound,
                format!(
                    "unable to {} guest {}: there is no volume {volid} on node {}; check the storage and the file's name",
                    self.verb(),
                    guest.vmid(),
                    guest.node()
                ),
            )
            .into());
        };
        let size = v["size"].as_u64();
        match (size, self.source_bytes) {
            (Some(has), Some(wanted)) if has != wanted => Err(self.refused(
                guest,
                format!(
                    "the source {volid} has {has} bytes, not {wanted} as source_bytes says; read the disk's size in vCenter again, it may be another disk"
                ),
            )),
            (has, wanted) => Ok(has.or(wanted)),
        }
    }

    /// Says where a copy may not fit. Nobody knows before: the server does not write what is empty, and others write meanwhile.
    ///
    /// # Errors
    /// A [`Stop`].
    pub(super) fn note_room(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        storage: &str,
        source: &Volid,
        size: Option<u64>,
    ) -> Result<(), Stop> {
        let Some(left) = self.available(look.facts(), Some(guest)) else {
            return Ok(());
        };
        if size.is_none_or(|s| s <= left) {
            return Ok(());
        }
        let key = PveKey::Volume {
            node: guest.node().to_owned(),
            volid: source.to_string(),
        };
        let held = look
            .aux(&key, &format!("what {source} holds"))?
            .and_then(|f| f.known())
            .and_then(|v| v["used"].as_u64());
        if held.is_none_or(|h| h > left) {
            look.note(format!(
                "room on storage {storage}: it has {left} bytes left, and {source} holds {}",
                held.map_or_else(|| "an unknown number".into(), |h| h.to_string())
            ));
        }
        Ok(())
    }

    /// The volume that the server will make next on that storage.
    pub(super) fn next_volume(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        storage: &str,
        kind: Option<Storage<'_>>,
        format: Option<&str>,
    ) -> Result<Option<(Volid, Vec<Volid>)>, Stop> {
        let Some(kind) = kind else { return Ok(None) };
        let what = format!("volumes of guest {} on storage {storage}", guest.vmid());
        let key = volumes_key(guest, storage);
        let Some(f) = look.aux(&key, &what)? else {
            return Ok(None);
        };
        let listed: Vec<Volid> = volids(f.known());
        let own: Vec<Volid> = volumes_in(guest);
        let mut namer = Namer::new(guest.vmid());
        namer.storage(storage, kind.kind(), listed.iter().chain(&own));
        let strays = listed
            .into_iter()
            .filter(|v| !own.contains(v) && pve::volume::disk_number(v, guest.vmid()).is_some())
            .collect();
        Ok(namer.next(storage, format).map(|v| (v, strays)))
    }
}

/// The list of a guest's volumes on a storage.
pub fn volumes_key(guest: &Guest<'_>, storage: &str) -> PveKey {
    PveKey::Volumes {
        node: guest.node().to_owned(),
        storage: storage.to_owned(),
        content: "images".to_owned(),
        vmid: Some(guest.vmid()),
    }
}

fn volids(list: Option<&Value>) -> Vec<Volid> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|v| v["volid"].as_str()?.parse().ok())
        .collect()
}

/// Volumes that a guest's configuration names, running or pending.
fn volumes_in(guest: &Guest<'_>) -> Vec<Volid> {
    [guest.config(), guest.current()]
        .into_iter()
        .flat_map(pve::config::drives)
        .filter_map(|d| d.get("file")?.parse().ok())
        .collect()
}

/// The first value of a drive's text.
pub fn file_of(key: &str, value: &Value) -> Option<String> {
    let p = pve::PropString::parse(key, &text(value)).ok()?;
    p.get("file").map(str::to_owned)
}
