//! Drives of a guest: names, property strings with the rules that no format says, sizes.
use super::conf;
use crate::pve::PveError;
use crate::pve::propstr::{self, Parsed};

/// How many of each bus the server knows, in the order in which it looks for a boot disk.
const BUSES: [(&str, u32); 4] = [("ide", 4), ("scsi", 31), ("virtio", 16), ("sata", 6)];

/// Names of drives that can be booted from, in the server's order.
pub fn boot_drive_names() -> impl Iterator<Item = String> {
    BUSES
        .iter()
        .flat_map(|(bus, count)| (0..*count).map(move |n| format!("{bus}{n}")))
}

/// Whether an option is a drive (disk, CD, EFI disk, TPM state; not `unusedN`).
pub fn is_drive(key: &str) -> bool {
    if key == "efidisk0" || key == "tpmstate0" {
        return true;
    }
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let index = key[family.len()..].parse::<u32>();
    BUSES
        .iter()
        .any(|(bus, count)| *bus == family && index.as_ref().is_ok_and(|i| i < count))
}

/// Pairs of which the second is needed by the first, and groups that exclude each other (PVE::QemuServer::Drive::parse_drive).
const NEEDS: [(&str, &str); 12] = [
    ("mbps_max", "mbps"),
    ("mbps_rd_max", "mbps_rd"),
    ("mbps_wr_max", "mbps_wr"),
    ("iops_max", "iops"),
    ("iops_rd_max", "iops_rd"),
    ("iops_wr_max", "iops_wr"),
    ("bps_max_length", "mbps_max"),
    ("bps_rd_max_length", "mbps_rd_max"),
    ("bps_wr_max_length", "mbps_wr_max"),
    ("iops_max_length", "iops_max"),
    ("iops_rd_max_length", "iops_rd_max"),
    ("iops_wr_max_length", "iops_wr_max"),
];

/// Parses a drive. `None` where the server says `unable to parse drive options`.
pub fn parse(key: &str, value: &str) -> Option<Parsed> {
    let mut drive = conf::parse_option(key, value)?;
    drive.get("file")?;
    for old in ["bps", "bps_rd", "bps_wr"] {
        if drive.take(old).is_some() {
            let new = format!("m{old}");
            if drive.get(&new).is_some() {
                return None;
            }
            // The real parser tests whether the old key was set and divides that 1 (recorded: 1048576 prints 0.000).
            drive.set(&new, "0.000");
        }
    }
    let on = |key: &str| drive.get(key).is_some_and(|v| v != "0");
    if NEEDS.iter().any(|(key, other)| on(key) && !on(other)) {
        return None;
    }
    for family in ["mbps", "mbps_max", "iops", "iops_max"] {
        let (stem, tail) = family
            .split_once('_')
            .map_or((family, ""), |(s, _)| (s, "_max"));
        if on(family) && (on(&format!("{stem}_rd{tail}")) || on(&format!("{stem}_wr{tail}"))) {
            return None;
        }
    }
    if drive.get("media") == Some("cdrom")
        && (on("snapshot") || drive.get("format").is_some() || key.starts_with("virtio"))
    {
        return None;
    }
    if let Some(size) = drive.get("size") {
        let bytes = propstr::parse_size(size)?;
        drive.set("size", bytes.to_string());
    }
    Some(drive)
}

/// [`parse`], refusing as a parameter check does.
///
/// # Errors
/// 400 `unable to parse drive options` for that option.
pub fn parse_param(key: &str, value: &str) -> Result<Parsed, PveError> {
    parse(key, value).ok_or_else(|| PveError::param(key, "unable to parse drive options"))
}

/// Prints a drive: the volume first, then the other keys sorted.
pub fn print(key: &str, drive: &Parsed) -> String {
    conf::option_schema(key)
        .and_then(|s| s["format"].as_object())
        .map_or_else(String::new, |format| propstr::print(format, drive))
}

/// Whether a drive's value is a CD drive (a cloud-init drive too).
pub fn is_cdrom(key: &str, value: &str) -> bool {
    parse(key, value).is_some_and(|d| d.get("media") == Some("cdrom"))
}

/// Whether a drive is the cloud-init drive.
pub fn is_cloudinit(drive: &Parsed) -> bool {
    let file = drive.get("file").unwrap_or("");
    file.ends_with(":cloudinit")
        || propstr::matches_pattern(r".*[:/]vm-\d+-cloudinit(\.[^.]+)?", file)
}

/// A drive that asks for a new volume: `local:32` or `32`, as (storage if named, GiB as written).
pub fn new_disk(file: &str) -> Option<(Option<&str>, &str)> {
    let (storage, size) = match file.split_once(':') {
        Some((s, n)) => (Some(s), n),
        None => (None, file),
    };
    let named = storage
        .is_none_or(|s| !s.is_empty() && !s.contains('/') && !s.contains(char::is_whitespace));
    (named && propstr::matches_pattern(r"\d+(\.\d+)?", size)).then_some((storage, size))
}

/// Bytes of a size in GiB as written in `local:0.1`: rounded up to whole KiB, as the allocation does.
pub fn new_disk_bytes(gib: &str) -> u64 {
    let kib = gib.parse::<f64>().unwrap_or(0.0) * 1024.0 * 1024.0;
    // A hair below the next integer is a rounding error of the decimal, not a started KiB.
    ((kib - 1e-6).ceil().max(0.0) as u64) * 1024
}
