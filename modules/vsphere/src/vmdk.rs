//! VMDK descriptors of our own, and the names that VMware gives to data files.
//!
//! Why they exist: a Proxmox server refuses ESXi's own descriptor for an import by path or from `import/`, but takes a descriptor in
//! `images/<vmid>/` whose extent points by relative path to VMware's data file. Source: docs/pve-facts.md, "Importing a VMDK that
//! ESXi wrote" (tried on the real API).

use regex::Regex;
use std::sync::LazyLock;

/// The first words of the comment by which we know a descriptor that we wrote.
pub const MARKER: &str = "# Written by trueplan.virt";
/// The line of a descriptor that was written while the machine was off.
const AT_REST: &str = "# The data file was at rest when this was written";
/// Bytes of a sector in a descriptor's extent line.
pub const SECTOR_BYTES: u64 = 512;

/// Our descriptor for a flat data file: `relative` is the path from the descriptor's folder to it; `at_rest` records that nobody
/// writes to it any more, so that whatever changes it later is known to be newer than the descriptor.
pub fn print_descriptor(relative: &str, bytes: u64, at_rest: bool) -> String {
    let sectors = bytes / SECTOR_BYTES;
    let rest = if at_rest {
        format!("{AT_REST}.\n")
    } else {
        String::new()
    };
    format!(
        "# Disk DescriptorFile\n{MARKER}; points to a data file of VMware, which is only read. Remove it with state: absent.\n{rest}version=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"vmfs\"\n\n# Extent description\nRW {sectors} VMFS \"{relative}\"\n\n# The Disk Data Base\n#DDB\nddb.adapterType = \"lsilogic\"\nddb.virtualHWVersion = \"19\"\n"
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
    /// Whether the data file was at rest when it was written.
    pub at_rest: bool,
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
        at_rest: text.lines().any(|l| l.starts_with(AT_REST)),
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
        for at_rest in [false, true] {
            let t = print_descriptor("../../My VM [1] ü/My VM-flat.vmdk", 16 << 20, at_rest);
            let d = parse_descriptor(&t).unwrap();
            assert_eq!(
                d,
                Descriptor {
                    extent: "../../My VM [1] ü/My VM-flat.vmdk".into(),
                    bytes: 16 << 20,
                    ours: true,
                    at_rest
                }
            );
        }
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
