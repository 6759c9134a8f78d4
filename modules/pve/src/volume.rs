//! What a drive's first value means, and the name that the server gives a new volume.

use crate::ids::{IdError, Volid};
use crate::prop::PropString;
use crate::size::new_disk_bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The first value of a drive, read.
#[derive(Debug, Clone, PartialEq)]
pub enum DriveFile {
    /// `storage:4`: a new volume of so many GiB (0 beside `import-from`: the source's size).
    New {
        /// Where.
        storage: String,
        /// Size in GiB.
        gib: f64,
    },
    /// `storage:cloudinit`: a new cloud-init volume.
    NewCloudinit {
        /// Where.
        storage: String,
    },
    /// `none`: an empty CD-ROM drive.
    Empty,
    /// `cdrom`: the node's own drive.
    Physical,
    /// An absolute path or device on the node (only for the root@pam login).
    Path(String),
    /// A volume that exists.
    Volume(Volid),
}

impl DriveFile {
    /// Reads it as the server does.
    pub fn parse(text: &str) -> Result<DriveFile, IdError> {
        match text {
            "none" => return Ok(DriveFile::Empty),
            "cdrom" => return Ok(DriveFile::Physical),
            _ if text.starts_with('/') => return Ok(DriveFile::Path(text.into())),
            _ => {}
        }
        let volume: Volid = text.parse()?;
        let storage = volume.storage().to_string();
        let size = |t: &str| {
            let ok = t
                .split_once('.')
                .map_or_else(|| digits(t), |(a, b)| digits(a) && digits(b));
            t.parse::<f64>().ok().filter(|_| ok)
        };
        Ok(match (volume.name(), size(volume.name())) {
            (_, Some(gib)) => DriveFile::New { storage, gib },
            ("cloudinit", _) => DriveFile::NewCloudinit { storage },
            _ => DriveFile::Volume(volume),
        })
    }

    /// Of a parsed drive; None if it has no first value or one that cannot be read.
    pub fn of(drive: &PropString) -> Option<DriveFile> {
        DriveFile::parse(drive.get("file")?).ok()
    }

    /// Size in bytes of a volume to be made; None for all else.
    pub fn new_bytes(&self) -> Option<u64> {
        match self {
            DriveFile::New { gib, .. } => Some(new_disk_bytes(*gib)),
            _ => None,
        }
    }
}

fn digits(t: &str) -> bool {
    !t.is_empty() && t.bytes().all(|c| c.is_ascii_digit())
}

/// Whether a storage of this type keeps images as files `N/vm-N-disk-M.format`; else they are `vm-N-disk-M`.
pub fn is_file_storage(kind: &str) -> bool {
    matches!(
        kind,
        "dir" | "nfs" | "cifs" | "glusterfs" | "cephfs" | "btrfs"
    )
}

/// Number of a guest's volume (`vm-101-disk-3.raw`, `base-101-disk-3`): 3; None for other names and other guests.
pub fn disk_number(volume: &Volid, vmid: u32) -> Option<u32> {
    let name = volume.file_name();
    let rest = ["vm", "base", "subvol", "basevol"]
        .iter()
        .find_map(|p| name.strip_prefix(&format!("{p}-{vmid}-disk-")))?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// The order in which one request allocates: option names sorted as text (recorded: efidisk0, scsi0, tpmstate0).
pub fn allocation_order<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_unstable();
    keys
}

/// Predicts the names of a guest's next volumes: per storage the lowest free number, whatever the format.
#[derive(Debug, Clone)]
pub struct Namer {
    vmid: u32,
    storages: BTreeMap<String, (bool, BTreeSet<u32>)>,
}

impl Namer {
    /// For one guest.
    pub fn new(vmid: u32) -> Namer {
        Namer {
            vmid,
            storages: BTreeMap::new(),
        }
    }

    /// Tells a storage's type and the volumes known on it (those of other guests do not matter).
    pub fn storage<'a>(
        &mut self,
        name: &str,
        kind: &str,
        volumes: impl IntoIterator<Item = &'a Volid>,
    ) {
        let numbers = volumes
            .into_iter()
            .filter(|v| v.storage() == name)
            .filter_map(|v| disk_number(v, self.vmid));
        let entry = self
            .storages
            .entry(name.to_string())
            .or_insert_with(|| (is_file_storage(kind), BTreeSet::new()));
        entry.1.extend(numbers);
    }

    /// Whether the storage was told.
    pub fn knows(&self, storage: &str) -> bool {
        self.storages.contains_key(storage)
    }

    fn volid(&self, storage: &str, file: bool, stem: &str, format: &str) -> Option<Volid> {
        let name = if file {
            format!("{}/{stem}.{format}", self.vmid)
        } else {
            stem.to_string()
        };
        format!("{storage}:{name}").parse().ok()
    }

    /// The next volume of this format (`raw` by default); None if the storage was not told.
    pub fn next(&mut self, storage: &str, format: Option<&str>) -> Option<Volid> {
        let (file, taken) = self.storages.get_mut(storage)?;
        let number = (0..).find(|n| !taken.contains(n))?;
        taken.insert(number);
        let file = *file;
        self.volid(
            storage,
            file,
            &format!("vm-{}-disk-{number}", self.vmid),
            format.unwrap_or("raw"),
        )
    }

    /// The cloud-init volume: its name has no number; `qcow2` on file storages.
    pub fn cloudinit(&self, storage: &str) -> Option<Volid> {
        let (file, _) = self.storages.get(storage)?;
        self.volid(
            storage,
            *file,
            &format!("vm-{}-cloudinit", self.vmid),
            "qcow2",
        )
    }

    /// The volume that a drive's value leads to when it is sent now; None where nothing is allocated or the storage was
    /// not told. `working_storage`: the request's `import-working-storage`.
    ///
    /// A disk inside an OVA is first extracted to the working storage (default: the OVA's own) and holds a number there
    /// meanwhile (recorded: the imported disk is disk-1).
    pub fn for_drive(
        &mut self,
        drive: &PropString,
        working_storage: Option<&str>,
    ) -> Option<Volid> {
        match DriveFile::of(drive)? {
            DriveFile::NewCloudinit { storage } => self.cloudinit(&storage),
            DriveFile::New { storage, .. } => {
                let source: Option<Volid> = drive.get("import-from").and_then(|s| s.parse().ok());
                let inside_ova = source.as_ref().filter(|s| s.name().contains(".ova/"));
                let extracted = inside_ova
                    .and_then(|s| self.next(working_storage.unwrap_or(s.storage()), Some("raw")));
                let kept = source.as_ref().and_then(Volid::format).map(str::to_string);
                let volume = self.next(&storage, drive.get("format").or(kept.as_deref()));
                if let Some(e) = extracted
                    && let Some((_, taken)) = self.storages.get_mut(e.storage())
                    && let Some(n) = disk_number(&e, self.vmid)
                {
                    taken.remove(&n);
                }
                volume
            }
            _ => None,
        }
    }
}

/// The lowest free `unusedN`; None if all 256 are taken.
pub fn free_unused(config: &crate::config::Config) -> Option<String> {
    (0..256)
        .map(|n| format!("unused{n}"))
        .find(|k| !config.contains_key(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_values_are_read() {
        let read = |t: &str| DriveFile::parse(t).unwrap();
        assert_eq!(
            read("local:1.5"),
            DriveFile::New {
                storage: "local".into(),
                gib: 1.5
            }
        );
        assert_eq!(read("local:0.1").new_bytes(), Some(104_858 * 1024));
        assert_eq!(
            read("local:cloudinit"),
            DriveFile::NewCloudinit {
                storage: "local".into()
            }
        );
        assert_eq!(read("none"), DriveFile::Empty);
        assert!(matches!(read("/dev/sda"), DriveFile::Path(_)));
        for volume in [
            "local:1e1",
            "local:-1",
            "lvm:vm-100-disk-0",
            "nfs:20042/disk0.vmdk",
        ] {
            assert!(matches!(read(volume), DriveFile::Volume(_)), "{volume}");
        }
    }

    #[test]
    fn the_lowest_free_number_is_taken_whatever_the_format() {
        let taken: Vec<Volid> = [
            "nfs:101/vm-101-disk-0.raw",
            "nfs:101/disk1.vmdk",
            "nfs:101/base-101-disk-2.qcow2",
            "nfs:102/vm-102-disk-1.raw",
        ]
        .iter()
        .map(|v| v.parse().unwrap())
        .collect();
        let mut n = Namer::new(101);
        n.storage("nfs", "nfs", &taken);
        n.storage("lvm", "lvmthin", []);
        assert_eq!(
            n.next("nfs", Some("qcow2")).unwrap().to_string(),
            "nfs:101/vm-101-disk-1.qcow2"
        );
        assert_eq!(
            n.next("nfs", None).unwrap().to_string(),
            "nfs:101/vm-101-disk-3.raw"
        );
        assert_eq!(
            n.next("lvm", Some("raw")).unwrap().to_string(),
            "lvm:vm-101-disk-0"
        );
        assert_eq!(
            n.cloudinit("lvm").unwrap().to_string(),
            "lvm:vm-101-cloudinit"
        );
        assert_eq!(n.next("other", None), None);
        assert_eq!(
            allocation_order(["scsi2", "scsi10", "efidisk0"]),
            ["efidisk0", "scsi10", "scsi2"]
        );
    }
}
