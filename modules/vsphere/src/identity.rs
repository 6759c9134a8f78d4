//! What a guest sees as its own identity.

/// The number in a hardware version such as `vmx-19`.
pub fn hardware_version(version: &str) -> Option<u32> {
    version.strip_prefix("vmx-")?.parse().ok()
}

/// The uuid that QEMU must be given so that the guest goes on seeing the same.
///
/// VMware puts the raw bytes of `config.uuid` into SMBIOS; Windows, and Linux from hardware version 13 on, read the first three
/// groups little-endian and so show them swapped. QEMU stores them little-endian itself, so its text is what such a guest
/// shows. Linux up to hardware version 12 shows the raw order. Source: docs/vsphere-facts.md section 7.
/// `None` if it is no uuid. An unknown hardware version counts as new.
pub fn smbios_uuid(
    config_uuid: &str,
    guest_is_windows: bool,
    hw_version: Option<u32>,
) -> Option<String> {
    let hex: String = config_uuid
        .chars()
        .filter(|c| *c != '-')
        .collect::<String>()
        .to_ascii_lowercase();
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let group = |from: usize, to: usize, swap: bool| -> String {
        let bytes: Vec<&str> = (from..to).map(|i| &hex[2 * i..2 * i + 2]).collect();
        if swap {
            bytes.into_iter().rev().collect()
        } else {
            bytes.concat()
        }
    };
    let swap = guest_is_windows || hw_version.is_none_or(|v| v >= 13);
    Some(format!(
        "{}-{}-{}-{}-{}",
        group(0, 4, swap),
        group(4, 6, swap),
        group(6, 8, swap),
        group(8, 10, false),
        group(10, 16, false)
    ))
}

/// The serial number that VMware shows: `VMware-56 4d a1 ... -...`, always in the raw byte order.
pub fn smbios_serial(config_uuid: &str) -> Option<String> {
    let hex: String = config_uuid
        .chars()
        .filter(|c| *c != '-')
        .collect::<String>()
        .to_ascii_lowercase();
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bytes: Vec<&str> = (0..16).map(|i| &hex[2 * i..2 * i + 2]).collect();
    Some(format!(
        "VMware-{}-{}",
        bytes[..8].join(" "),
        bytes[8..].join(" ")
    ))
}

/// True for the guest ids of Windows (`windows9_64Guest`, `winNetStandardGuest`, `win2000ServGuest`).
pub fn is_windows(guest_id: &str) -> bool {
    guest_id.to_ascii_lowercase().starts_with("win")
}

#[cfg(test)]
mod tests {
    use super::*;

    const U: &str = "564d1234-5678-9abc-def0-112233445566";

    #[test]
    fn byte_order_follows_guest_and_hardware() {
        let swapped = Some("34124d56-7856-bc9a-def0-112233445566".to_owned());
        assert_eq!(smbios_uuid(U, true, Some(8)), swapped);
        assert_eq!(smbios_uuid(U, false, Some(13)), swapped);
        assert_eq!(smbios_uuid(U, false, None), swapped);
        assert_eq!(smbios_uuid(U, false, Some(12)), Some(U.to_owned()));
        assert_eq!(smbios_uuid("nonsense", true, None), None);
    }

    #[test]
    fn serial_is_raw() {
        assert_eq!(
            smbios_serial(U).as_deref(),
            Some("VMware-56 4d 12 34 56 78 9a bc-de f0 11 22 33 44 55 66")
        );
        assert!(
            is_windows("windows2019srv_64Guest")
                && is_windows("winXPProGuest")
                && !is_windows("debian10_64Guest")
        );
    }
}
