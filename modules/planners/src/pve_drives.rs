//! What becomes of the drives that a request sets: names, sizes and formats as the server will choose them, and what is refused.

use crate::look::{Look, Stop};
use crate::pve_common::{Guest, granted, list};
use crate::pve_foresee::Setting;
use plan::{ErrorKind, Fact, Refusal};
use pve::config::Config;
use pve::keys::PveKey;
use pve::size::{format_size, parse_size};
use pve::volume::{DriveFile, Namer, is_file_storage};
use pve::{ConfigKey, Family, PropString, Volid};
use serde_json::Value;

/// What a copy of a disk can become; a drive's own `format` has more choices (api-schema.json: move_disk and clone against
/// qemu's `format`).
pub const COPIED_FORMATS: &[&str] = &["raw", "qcow2", "vmdk"];
/// Why another one is no argument.
pub const NO_COPIED_FORMAT: &str =
    "is nothing that the server copies a disk to; give raw, qcow2 or vmdk";

/// Refuses what needs a guest's volumes where its node cannot reach their storages; `what` completes `unable to ...`.
///
/// A start and a conversion to a template activate the volumes, and only their task fails with `storage 'x' is not available on node 'n'`
/// (source: pve-storage, PVE/Storage.pm, `activate_storage` and `storage_check_enabled`). A storage that is not shown to us is not missing.
/// With `cdroms` their media count too: a start opens them.
///
/// # Errors
/// [`Stop::Missing`]; the refusal.
pub fn check_volumes(
    look: &Look<'_>,
    guest: &Guest<'_>,
    cdroms: bool,
    what: &str,
) -> Result<(), Stop> {
    let mut drives = pve::config::drives(guest.config());
    drives.retain(|d| d.key().family() != Family::Unused && (cdroms || !pve::boot::is_cdrom(d)));
    check_drives(look, guest, &drives, what)
}

/// The same for these drives: what copies, grows or moves them activates them too.
///
/// # Errors
/// [`Stop::Missing`]; the refusal.
pub fn check_drives(
    look: &Look<'_>,
    guest: &Guest<'_>,
    drives: &[PropString],
    what: &str,
) -> Result<(), Stop> {
    let mut names: Vec<String> = drives
        .iter()
        .filter_map(|d| d.get("file")?.parse::<Volid>().ok())
        .map(|v| v.storage().to_owned())
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let node = guest.node();
    for name in names {
        let why = match reach(look, node, &name)? {
            Reach::Here(_) | Reach::Untold => continue,
            Reach::Hidden => {
                look.note(format!(
                    "whether node {node} has storage {name}: it is not shown to us"
                ));
                continue;
            }
            Reach::Off(why) => why,
            Reach::Missing(_) => format!(
                "storage `{name}`, where a volume of guest {} lies, is not available on node {node}; give it to the node, or move the guest",
                guest.vmid()
            ),
        };
        return Err(Refusal::new(format!("unable to {what}: {why}")).into());
    }
    Ok(())
}

/// What a node's list of storages says of one.
enum Reach<'a> {
    /// It can be used.
    Here(&'a Value),
    /// It cannot, for this reason and with this way out.
    Off(String),
    /// It is not on that node, which has these.
    Missing(Vec<&'a str>),
    /// It is not in the list, but would not be shown to us either.
    Hidden,
    /// The server does not show the list.
    Untold,
}

fn reach<'a>(look: &Look<'a>, node: &str, name: &str) -> Result<Reach<'a>, Stop> {
    let key = PveKey::Storages(node.to_owned());
    let Some(fact) = look.aux(&key, &format!("storages of node {node}"))? else {
        return Ok(Reach::Untold);
    };
    let all = fact
        .known()
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let Some(s) = all.iter().find(|s| s["storage"] == name) else {
        let perms = look.fact(&PveKey::Perms(format!("/storage/{name}")))?;
        return Ok(match perms.known().is_some_and(|p| !sees(p)) {
            true => Reach::Hidden,
            false => Reach::Missing(all.iter().filter_map(|s| s["storage"].as_str()).collect()),
        });
    };
    let off = |k: &str| s.get(k).is_some_and(|v| v == &Value::Bool(false) || v == 0);
    Ok(if off("enabled") {
        Reach::Off(format!("storage `{name}` is disabled; enable it"))
    } else if off("active") {
        Reach::Off(format!(
            "storage `{name}` is not active on node {node}; see why it is not mounted"
        ))
    } else {
        Reach::Here(s)
    })
}

/// Whether these privileges on a storage show it in a node's list (source: pve-manager, PVE/API2/Storage/Status.pm, `index`).
fn sees(perms: &Value) -> bool {
    [
        "Datastore.Audit",
        "Datastore.AllocateSpace",
        "Datastore.Allocate",
    ]
    .iter()
    .any(|d| granted(perms, d))
}

/// Foresees the drives of one request for one guest.
pub struct Drives<'l, 'a> {
    look: &'l Look<'a>,
    node: String,
    what: String,
    namer: Namer,
    working_storage: Option<String>,
}

impl<'l, 'a> Drives<'l, 'a> {
    /// Looks at the storages that the wanted drives allocate on; `what` completes `unable to ...`.
    ///
    /// # Errors
    /// [`Stop::Missing`]; a refusal for a storage that cannot take them.
    pub fn new(
        look: &'l Look<'a>,
        node: &str,
        vmid: u32,
        config: &Config,
        wanted: &[&PropString],
        working_storage: Option<&str>,
        what: &str,
    ) -> Result<Self, Stop> {
        let mut drives = Drives {
            look,
            node: node.to_owned(),
            what: what.to_owned(),
            namer: Namer::new(vmid),
            working_storage: working_storage.map(str::to_owned),
        };
        let mut storages: Vec<String> = wanted
            .iter()
            .filter_map(|d| match DriveFile::of(d)? {
                DriveFile::New { storage, .. } | DriveFile::NewCloudinit { storage } => {
                    Some(storage)
                }
                _ => None,
            })
            .collect();
        storages.sort();
        storages.dedup();
        if storages.is_empty() {
            return Ok(drives);
        }
        let volumes = |s: &str| PveKey::Volumes {
            node: node.to_owned(),
            storage: s.to_owned(),
            content: "images".to_owned(),
            vmid: Some(vmid),
        };
        let known = PveKey::Storages(node.to_owned());
        look.fact(&known)?;
        for s in &storages {
            drives.storage(s, "images")?;
        }
        let keys: Vec<PveKey> = storages.iter().map(|s| volumes(s)).collect();
        look.want(&keys)?;
        let own: Vec<Volid> = pve::config::drives(config)
            .iter()
            .filter_map(|d| d.get("file")?.parse().ok())
            .collect();
        for s in &storages {
            let kind = drives.storage(s, "images")?.unwrap_or_default();
            let listed = look.aux(&volumes(s), &format!("names of volumes on storage {s}"))?;
            let mut taken: Vec<Volid> = listed
                .and_then(Fact::known)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|v| v["volid"].as_str()?.parse().ok())
                .collect();
            taken.extend(own.iter().cloned());
            drives.namer.storage(s, &kind, &taken);
        }
        Ok(drives)
    }

    fn refuse(&self, why: impl std::fmt::Display) -> Stop {
        Refusal::new(format!("unable to {}: {why}", self.what)).into()
    }

    /// The storage's type; refuses one that the node does not have or that takes no such content. `None`: the server does not say.
    fn storage(&self, name: &str, content: &str) -> Result<Option<String>, Stop> {
        let node = &self.node;
        let s = match reach(self.look, node, name)? {
            Reach::Here(s) => s,
            Reach::Untold => return Ok(None),
            Reach::Hidden => {
                return Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!(
                        "unable to {}: storage `{name}` is not shown: Datastore.AllocateSpace on /storage/{name} is missing; grant it",
                        self.what
                    ),
                )
                .into());
            }
            Reach::Missing(has) => {
                return Err(self.refuse(format_args!(
                    "storage `{name}` is not available on node {node} (it has: {}); name one of these, or give it to the node",
                    list(&has)
                )));
            }
            Reach::Off(why) => return Err(self.refuse(format_args!("{why}, or take another"))),
        };
        let takes = |c: &Value| match c {
            Value::Array(a) => a.iter().any(|c| c == content),
            Value::String(t) => t.split(',').any(|c| c.trim() == content),
            _ => true,
        };
        if !takes(&s["content"]) {
            return Err(self.refuse(format_args!(
                "storage `{name}` does not take content `{content}`; allow it there or take another storage"
            )));
        }
        Ok(s["type"].as_str().map(str::to_owned))
    }

    /// What a drive that is sent becomes.
    ///
    /// # Errors
    /// [`Stop::Missing`]; refusals for missing media, volumes and sources.
    pub fn place(&mut self, drive: &PropString) -> Result<Setting, Stop> {
        let key = drive.key().as_str().to_owned();
        let sent = drive.print();
        let mut stored = drive.unset(&["format", "import-from", "size"]);
        let file = match DriveFile::of(drive) {
            Some(f) => f,
            None => {
                return Err(self.refuse(format_args!(
                    "{key}={sent} names no volume; give <storage>:<size in GiB>, <storage>:<volume>, or none,media=cdrom"
                )));
            }
        };
        match file {
            DriveFile::New { storage, gib } => {
                let bytes = match drive.get("import-from") {
                    Some(source) => self.source_bytes(&key, source)?,
                    None if gib <= 0.0 => {
                        return Err(self.refuse(format_args!(
                            "{key}: a new disk needs a size; give <storage>:<size in GiB>"
                        )));
                    }
                    None => file_bytes(drive, gib),
                };
                let kind = self.storage(&storage, "images")?.unwrap_or_default();
                if !is_file_storage(&kind)
                    && drive.get("format").is_some_and(|f| f != "raw")
                    && !kind.is_empty()
                {
                    return Err(self.refuse(format_args!(
                        "{key}: storage `{storage}` ({kind}) holds format raw only; leave format out"
                    )));
                }
                let volume = self.namer.for_drive(drive, self.working_storage.as_deref());
                let name = volume.map_or_else(|| plan::SERVER.to_owned(), |v| v.to_string());
                self.set(&mut stored, "file", &name)?;
                match bytes {
                    Some(b) => self.set(&mut stored, "size", &format_size(rounded(b, &kind)))?,
                    None => self.look.note(format!("size of {key}")),
                }
            }
            DriveFile::NewCloudinit { storage } => {
                let volume = self.namer.cloudinit(&storage);
                let name = volume.map_or_else(|| plan::SERVER.to_owned(), |v| v.to_string());
                self.set(&mut stored, "file", &name)?;
                self.set(&mut stored, "media", "cdrom")?;
            }
            DriveFile::Volume(v) if v.content() == Some("iso") => {
                if drive.get("media") != Some("cdrom") {
                    return Err(
                        self.refuse(format_args!("{key}: an ISO needs media=cdrom; add it"))
                    );
                }
                self.storage(v.storage(), "iso")?;
                if let Some(bytes) = self.iso_bytes(&key, &v)? {
                    self.set(&mut stored, "size", &format_size(bytes))?;
                }
            }
            DriveFile::Volume(v) => {
                if let Some(bytes) = self.volume_bytes(&v, &format!("{key}: volume {v}"))? {
                    self.set(&mut stored, "size", &format_size(bytes))?;
                }
            }
            DriveFile::Empty | DriveFile::Physical | DriveFile::Path(_) => {}
        }
        Ok(Setting {
            key,
            sent,
            stored: stored.print(),
        })
    }

    fn set(&self, drive: &mut PropString, name: &str, value: &str) -> Result<(), Stop> {
        drive.set(name, value).map_err(|e| self.refuse(e))
    }

    fn iso_bytes(&self, key: &str, iso: &Volid) -> Result<Option<u64>, Stop> {
        let all = PveKey::Volumes {
            node: self.node.clone(),
            storage: iso.storage().to_owned(),
            content: "iso".to_owned(),
            vmid: None,
        };
        let Some(fact) = self.look.aux(&all, &format!("whether {iso} is there"))? else {
            return Ok(None);
        };
        let listed = fact
            .known()
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        match listed.iter().find(|v| v["volid"] == iso.to_string()) {
            Some(v) => Ok(v["size"].as_u64()),
            None => Err(self.refuse(format_args!(
                "{key}: {iso} is not on storage `{}` of node {}; upload it, or correct the name",
                iso.storage(),
                self.node
            ))),
        }
    }

    fn volume_bytes(&self, volume: &Volid, what: &str) -> Result<Option<u64>, Stop> {
        let k = PveKey::Volume {
            node: self.node.clone(),
            volid: volume.to_string(),
        };
        match self.look.aux(&k, &format!("size of {volume}"))? {
            Some(Fact::Absent) => {
                Err(self.refuse(format_args!("{what} does not exist; correct the name")))
            }
            Some(f) => Ok(f.known().and_then(|v| v["size"].as_u64())),
            None => Ok(None),
        }
    }

    fn source_bytes(&self, key: &str, source: &str) -> Result<Option<u64>, Stop> {
        match source.parse::<Volid>() {
            Ok(v) => self.volume_bytes(&v, &format!("{key}: import source {source}")),
            Err(_) => Ok(None),
        }
    }
}

/// The volume of a disk whose options change: the server looks at it, and refuses the change if it is gone
/// (docs/bugs.md P39). Says which volume is missing. Not asked for a guest that an earlier task of a check run changed: its
/// volumes may be planned only.
pub fn gone(
    look: &Look<'_>,
    guest: &Guest<'_>,
    drive: &PropString,
) -> Result<Option<String>, Stop> {
    if guest.only_planned() {
        return Ok(None);
    }
    let volume = match DriveFile::of(drive) {
        Some(DriveFile::Volume(v)) if !pve::boot::is_cdrom(drive) => v,
        _ => return Ok(None),
    };
    let k = PveKey::Volume {
        node: guest.node().to_owned(),
        volid: volume.to_string(),
    };
    let fact = look.aux(&k, &format!("whether {volume} is there"))?;
    Ok(matches!(fact, Some(Fact::Absent)).then(|| {
        format!("its volume {volume} does not exist; detach the disk, or bring the volume back")
    }))
}

/// Size of a new volume: that of the template for EFI and TPM volumes, whatever was asked for (docs/pve-facts.md, NICs and disks).
fn file_bytes(drive: &PropString, gib: f64) -> Option<u64> {
    match drive.key().family() {
        Family::Efidisk if drive.get("efitype") == Some("4m") => Some(528 << 10),
        Family::Efidisk => Some(128 << 10),
        Family::Tpmstate => Some(4 << 20),
        _ => Some(pve::size::new_disk_bytes(gib)),
    }
}

/// Block storages round up: LVM to its extents of 4 MiB, ZFS to 1 MiB (pve-storage, LVMPlugin and ZFSPoolPlugin).
fn rounded(bytes: u64, kind: &str) -> u64 {
    match kind {
        "lvm" | "lvmthin" => bytes.next_multiple_of(4 << 20),
        "zfspool" | "zfs" => bytes.next_multiple_of(1 << 20),
        _ => bytes,
    }
}

/// What is to be done about a drive that is there already.
#[derive(Debug, Default)]
pub struct Existing {
    /// Its new value, if options or the medium differ.
    pub set: Option<PropString>,
    /// Its new size in bytes, if it grows.
    pub grow: Option<u64>,
    /// Differences that are not mended: what, what it is, what was asked for, what mends it.
    pub drift: Vec<(String, String, String, String)>,
    /// Cannot be: a disk where a CD-ROM is wanted, or the other way.
    pub clash: Option<String>,
}

/// Compares a drive with the wish for it; an existing disk is never made anew.
pub fn compare(old: &PropString, wish: &PropString) -> Existing {
    let mut out = Existing::default();
    let key = old.key().as_str();
    let own = ["file", "format", "import-from", "size"];
    let options = wish.unset(&own);
    let mut new = old.merge(&options);
    let (was_cd, is_cd) = (pve::boot::is_cdrom(old), pve::boot::is_cdrom(wish));
    if was_cd != is_cd {
        let name = |cd: bool| if cd { "a CD-ROM drive" } else { "a disk" };
        out.clash = Some(format!(
            "{key} is {} and {} is asked for; take another slot, or remove it first",
            name(was_cd),
            name(is_cd)
        ));
        return out;
    }
    let have = old.get("file").unwrap_or_default().to_owned();
    let mut drift = |what: &str, is: &str, want: &str, by: &str| {
        out.drift.push((
            what.to_owned(),
            is.to_owned(),
            want.to_owned(),
            by.to_owned(),
        ));
    };
    match DriveFile::of(wish) {
        Some(DriveFile::NewCloudinit { .. }) if pve::boot::is_cloudinit(old) => {}
        Some(_) if is_cd => {
            let want = wish.get("file").unwrap_or_default();
            if want != have {
                new.remove("size");
                // Both values were read by the same parser, so this one can be written.
                let _ = new.set("file", want);
            }
        }
        Some(DriveFile::New { storage, .. }) => {
            let volume: Option<Volid> = have.parse().ok();
            if let Some(v) = &volume {
                if v.storage() != storage {
                    drift(
                        "storage",
                        v.storage(),
                        &storage,
                        "pve_disk_import with state=moved and storage",
                    );
                }
                let format = v.format().unwrap_or("raw");
                if let Some(f) = wish.get("format").filter(|f| *f != format) {
                    drift(
                        "format",
                        format,
                        f,
                        "pve_disk_import with state=moved and format",
                    );
                }
            }
            let informational = matches!(old.key().family(), Family::Efidisk | Family::Tpmstate);
            let want = DriveFile::of(wish)
                .and_then(|f| f.new_bytes())
                .filter(|b| *b > 0 && !informational);
            if let (Some(want), Some(have)) = (want, old.get("size").and_then(parse_size)) {
                if want > have {
                    out.grow = Some(want);
                } else if !pve::size::same_size_rounded(want, have) {
                    drift(
                        "size",
                        &format_size(have),
                        &format_size(want),
                        "nothing: disks cannot shrink; make a new one with pve_disk_import",
                    );
                }
            }
        }
        Some(DriveFile::Volume(v)) if v.to_string() != have => {
            drift(
                "volume",
                &have,
                &v.to_string(),
                "pve_disk_import with attach_from, or state=detached first",
            );
        }
        Some(DriveFile::Path(p)) if p != have => {
            drift(
                "volume",
                &have,
                &p,
                "pve_disk_import with state=detached first",
            );
        }
        _ => {}
    }
    if !old.same_as(&new) {
        out.set = Some(new);
    }
    out
}

/// Whether a key is a drive on a bus.
pub fn is_bus_drive(key: &str) -> bool {
    key.parse::<ConfigKey>().is_ok_and(|k| k.is_bus_drive())
}
