//! VMDK descriptors of our own, and the names that VMware gives to data files.
//!
//! Why they exist: a Proxmox server refuses ESXi's own descriptor for an import by path or from `import/`, but takes a descriptor in
//! `images/<vmid>/` whose extent points by relative path to VMware's data file. Source: docs/pve-facts.md, "Importing a VMDK that
//! ESXi wrote" (tried on the real API).

use regex::Regex;
use std::sync::LazyLock;

/// The first words of the comment by which we know a descriptor that we wrote.
pub const MARKER: &str = "# Written by trueplan.virt";
/// Bytes of a sector in a descriptor's extent line.
pub const SECTOR_BYTES: u64 = 512;

/// Our descriptor for a flat data file: `relative` is the path from the descriptor's folder to it.
pub fn print_descriptor(relative: &str, bytes: u64) -> String {
    let sectors = bytes / SECTOR_BYTES;
    format!(
        "# Disk DescriptorFile\n{MARKER}; points to a data file of VMware, which is only read. Remove it with state: absent.\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"vmfs\"\n\n# Extent description\nRW {sectors} VMFS \"{relative}\"\n\n# The Disk Data Base\n#DDB\nddb.adapterType = \"lsilogic\"\nddb.virtualHWVersion = \"19\"\n"
    )
}

/// What a descriptor says, as far as we need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Path to the data file, relative to the descriptor's folder unless it starts with a slash.
    pub extent: String,
    /// Size of the disk.
    pub bytes: u64,
    /// Whether we wrote it.
    pub ours: bool,
}

/// Reads a descriptor with one extent; `None` if the text is none.
pub fn parse_descriptor(text: &str) -> Option<Descriptor> {
    static EXTENT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?m)^RW\s+(\d+)\s+\w+\s+"(.*)"\s*\d*\s*$"#).ok());
    if !is_descriptor(text) {
        return None;
    }
    let c = EXTENT.as_ref()?.captures(text)?;
    Some(Descriptor {
        extent: c[2].to_owned(),
        bytes: c[1].parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?,
        ours: text.lines().any(|l| l.starts_with(MARKER)),
    })
}

/// Whether a text is a VMDK descriptor at all.
pub fn is_descriptor(text: &str) -> bool {
    text.starts_with("# Disk DescriptorFile")
}

/// Whether a file name is that of a snapshot's delta (or its descriptor), which holds only a part of the disk.
/// Source: docs/vsphere-facts.md section 4 (`x-000001.vmdk`, `-delta`, `-sesparse`).
pub fn is_snapshot_delta(name: &str) -> bool {
    static DELTA: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"-\d{6}(-delta|-sesparse|-flat)?\.vmdk$").ok());
    DELTA.as_ref().is_some_and(|r| r.is_match(name))
        || name.ends_with("-delta.vmdk")
        || name.ends_with("-sesparse.vmdk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_descriptor_reads_back() {
        let t = print_descriptor("../../My VM [1] ü/My VM-flat.vmdk", 16 << 20);
        let d = parse_descriptor(&t).unwrap();
        assert_eq!(
            d,
            Descriptor {
                extent: "../../My VM [1] ü/My VM-flat.vmdk".into(),
                bytes: 16 << 20,
                ours: true
            }
        );
    }

    #[test]
    fn deltas_are_known_by_name() {
        for n in [
            "a-000001.vmdk",
            "a-000001-delta.vmdk",
            "a-000012-sesparse.vmdk",
        ] {
            assert!(is_snapshot_delta(n), "{n}");
        }
        for n in ["a-flat.vmdk", "srv-100000-x-flat.vmdk", "a_1-flat.vmdk"] {
            assert!(!is_snapshot_delta(n), "{n}");
        }
    }
}
