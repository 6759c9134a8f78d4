//! Sizes of disks as text, in bytes, with the server's roundings.

/// Storages such as LVM round a size up to their extent; this much is no difference (4 MiB).
pub const STORAGE_ROUNDING: u64 = 4 * 1024 * 1024;

/// Reads `32G`, `1.5T`, `528K`, `1GiB`, `4096`; bytes. None where the server would refuse it.
pub fn parse_size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit
        .strip_suffix("iB")
        .filter(|u| !u.is_empty())
        .unwrap_or(unit)
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let (whole, part) = number
        .split_once('.')
        .map_or((number, None), |(w, p)| (w, Some(p)));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|c| c.is_ascii_digit());
    if !digits(whole) || part.is_some_and(|p| !digits(p)) {
        return None;
    }
    match part {
        None => whole.parse::<u64>().ok()?.checked_mul(1 << shift),
        Some(_) => {
            let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
            (bytes < u64::MAX as f64).then_some(bytes as u64)
        }
    }
}

/// Prints as the server does: the largest unit that divides without rest (`1536M`, not `1.5G`; zero is `0T`).
pub fn format_size(bytes: u64) -> String {
    let mut n = bytes;
    for unit in ["", "K", "M", "G"] {
        if !n.is_multiple_of(1024) {
            return format!("{n}{unit}");
        }
        n /= 1024;
    }
    format!("{n}T")
}

/// Size in bytes of a new disk given in GiB as in `storage:0.1`: whole KiB, rounded up (recorded: 0.1 gives 104858K).
pub fn new_disk_bytes(gib: f64) -> u64 {
    ((gib * 1024.0 * 1024.0).ceil() as u64) * 1024
}

/// Whether a disk of `have` bytes is what a storage makes of a wish for `want` bytes (it only ever rounds up).
pub fn same_size_rounded(want: u64, have: u64) -> bool {
    have >= want && have - want < STORAGE_ROUNDING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_as_the_server_prints_them() {
        for (text, bytes, printed) in [
            ("1", 1, "1"),
            ("512", 512, "512"),
            ("512K", 524_288, "512K"),
            ("1.5G", 1_610_612_736, "1536M"),
            ("1024M", 1 << 30, "1G"),
            ("1.5T", 1_649_267_441_664, "1536G"),
            ("1GiB", 1 << 30, "1G"),
            ("0", 0, "0T"),
            ("1048576", 1 << 20, "1M"),
            ("1.0001G", 1_073_849_198, "1073849198"),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(format_size(bytes), printed);
        }
        for bad in ["1g", "1GB", "-1G", "", "1P", "1.G", ".5G", "iB", "1iB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
        assert_eq!(format_size(new_disk_bytes(0.1)), "104858K");
        assert!(
            same_size_rounded(1 << 30, (1 << 30) + 1024)
                && !same_size_rounded((1 << 30) + 1, 1 << 30)
        );
        assert!(!same_size_rounded(0, STORAGE_ROUNDING));
    }
}
