//! Names of guest options, with their number: `net0`, `scsi30`, `efidisk0`, `cores`.

use crate::schema::{Schema, guest_options};
use std::fmt;
use std::str::FromStr;

/// An option name that no guest has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} is not an option of a guest: {way_out}")]
pub struct KeyError {
    /// The name as given.
    pub option: String,
    /// What would be right.
    pub way_out: String,
}

/// What sort of option a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `net0` to `net31`.
    Net,
    /// `ide0` to `ide3` (and `cdrom`, the server's other name for `ide2`).
    Ide,
    /// `scsi0` to `scsi30`.
    Scsi,
    /// `sata0` to `sata5`.
    Sata,
    /// `virtio0` to `virtio15`.
    Virtio,
    /// `efidisk0`.
    Efidisk,
    /// `tpmstate0`.
    Tpmstate,
    /// `unused0` to `unused255`.
    Unused,
    /// Any other.
    Other,
}

/// A valid option name of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigKey {
    name: String,
    table_name: &'static str,
    index: Option<u32>,
    family: Family,
}

impl ConfigKey {
    /// As given, such as `net0`.
    pub fn as_str(&self) -> &str {
        &self.name
    }
    /// Name in the schema: `net[n]` for `net0`.
    pub fn table_name(&self) -> &'static str {
        self.table_name
    }
    /// The number of a numbered option (for `efidisk0`, `tpmstate0` 0).
    pub fn index(&self) -> Option<u32> {
        self.index
    }
    /// Which family it belongs to.
    pub fn family(&self) -> Family {
        self.family
    }
    /// The option's schema.
    pub fn schema(&self) -> &'static Schema {
        &guest_options()[self.table_name]
    }
    /// The name without its number (`interface` in the server's own parsed drives).
    pub fn stem(&self) -> &str {
        self.name.trim_end_matches(|c: char| c.is_ascii_digit())
    }
    /// Whether its value names a volume first: disks, CD-ROMs, EFI disk, TPM state, unused volumes.
    pub fn is_drive(&self) -> bool {
        !matches!(self.family, Family::Net | Family::Other)
    }
    /// Whether it is a disk or CD-ROM on a bus of the guest.
    pub fn is_bus_drive(&self) -> bool {
        matches!(
            self.family,
            Family::Ide | Family::Scsi | Family::Sata | Family::Virtio
        )
    }
    /// Whether it is a network card.
    pub fn is_net(&self) -> bool {
        self.family == Family::Net
    }
}

impl FromStr for ConfigKey {
    type Err = KeyError;
    fn from_str(name: &str) -> Result<Self, KeyError> {
        let options = guest_options();
        let err = |way_out: String| {
            Err(KeyError {
                option: name.to_string(),
                way_out,
            })
        };
        if let Some((table_name, _)) = options.get_key_value(name)
            && !name.contains('[')
        {
            let (family, index) = match name {
                "efidisk0" => (Family::Efidisk, Some(0)),
                "tpmstate0" => (Family::Tpmstate, Some(0)),
                "cdrom" => (Family::Ide, Some(2)),
                _ => (Family::Other, None),
            };
            return Ok(ConfigKey {
                name: name.into(),
                table_name,
                index,
                family,
            });
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let Some((table_name, schema)) = options.get_key_value(&format!("{stem}[n]")) else {
            return err(
                "see `qm help` or the API documentation for the names the server knows".into(),
            );
        };
        let digits = &name[stem.len()..];
        let last = schema.index_max.unwrap_or(0);
        match digits.parse::<u32>() {
            Ok(n) if n <= last && n.to_string() == digits => {
                let family = match stem {
                    "net" => Family::Net,
                    "ide" => Family::Ide,
                    "scsi" => Family::Scsi,
                    "sata" => Family::Sata,
                    "virtio" => Family::Virtio,
                    "unused" => Family::Unused,
                    _ => Family::Other,
                };
                Ok(ConfigKey {
                    name: name.into(),
                    table_name,
                    index: Some(n),
                    family,
                })
            }
            _ => err(format!("give {stem}0 to {stem}{last}")),
        }
    }
}
impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The names of all bus drives in the order in which the server looks for a boot disk: ide, scsi, virtio, sata
/// (qemu-server, valid drive names).
pub fn bus_drive_names() -> impl Iterator<Item = String> {
    [("ide", 4), ("scsi", 31), ("virtio", 16), ("sata", 6)]
        .into_iter()
        .flat_map(|(bus, n)| (0..n).map(move |i| format!("{bus}{i}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_server() {
        for (good, bad) in [
            ("net31", "net32"),
            ("ide3", "ide4"),
            ("scsi30", "scsi31"),
            ("sata5", "sata6"),
            ("virtio15", "virtio16"),
            ("unused255", "unused256"),
            ("usb13", "usb14"),
            ("hostpci15", "hostpci16"),
            ("serial3", "serial4"),
            ("parallel2", "parallel3"),
            ("ipconfig31", "ipconfig32"),
            ("numa7", "numa8"),
            ("virtiofs9", "virtiofs10"),
            ("efidisk0", "efidisk1"),
            ("tpmstate0", "tpmstate1"),
            ("cores", "net00"),
            ("numa", "net"),
            ("rng0", "bogusoption"),
            ("audio0", "net[n]"),
        ] {
            assert!(good.parse::<ConfigKey>().is_ok(), "{good}");
            assert!(bad.parse::<ConfigKey>().is_err(), "{bad}");
        }
        let e = "scsi31".parse::<ConfigKey>().unwrap_err().to_string();
        assert!(e.contains("scsi31") && e.contains("scsi0 to scsi30"), "{e}");
        assert_eq!(bus_drive_names().count(), 57);
    }
}
