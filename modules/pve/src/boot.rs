//! Boot order: devices (`order=scsi0;net0`), the old letters (`cdn`), and what the server makes of none.

use crate::config::{Config, text};
use crate::config_key::bus_drive_names;
use crate::meaning::boot_list;
use crate::prop::PropString;
use serde_json::Value;

/// Whether a drive is a CD-ROM to the server: by its medium, or an empty, physical or cloud-init drive.
pub fn is_cdrom(drive: &PropString) -> bool {
    let file = drive.get("file").unwrap_or_default();
    drive.get("media") == Some("cdrom") || file == "none" || file == "cdrom" || is_cloudinit(drive)
}

/// Whether a drive carries cloud-init data (made, or still to be made).
pub fn is_cloudinit(drive: &PropString) -> bool {
    let name = drive
        .get("file")
        .unwrap_or_default()
        .rsplit([':', '/'])
        .next()
        .unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    stem == "cloudinit" || (stem.starts_with("vm-") && stem.ends_with("-cloudinit"))
}

fn drive(config: &Config, key: &str) -> Option<PropString> {
    PropString::parse(key, &text(config, key)?).ok()
}

fn nets(config: &Config) -> impl Iterator<Item = String> + '_ {
    (0..32)
        .map(|n| format!("net{n}"))
        .filter(|n| config.contains_key(n))
}

/// The order that the server stores for a new guest that names none: the first disk, the first CD-ROM, the first
/// network card (create-config-cases.json).
pub fn default_order(config: &Config) -> Vec<String> {
    let first = |cdrom: bool| {
        bus_drive_names().find(|k| drive(config, k).is_some_and(|d| is_cdrom(&d) == cdrom))
    };
    first(false)
        .into_iter()
        .chain(first(true))
        .chain(nets(config).next())
        .collect()
}

/// The devices that the old letters mean: `c` is the disk named by `bootdisk`, `d` every CD-ROM, `n` every network card.
pub fn legacy_order(letters: &str, config: &Config) -> Vec<String> {
    let mut out = Vec::new();
    for letter in letters.chars() {
        match letter {
            'c' => out.extend(
                text(config, "bootdisk")
                    .filter(|d| drive(config, d).is_some_and(|d| !is_cdrom(&d))),
            ),
            'd' => {
                out.extend(bus_drive_names().filter(|k| {
                    drive(config, k).is_some_and(|d| is_cdrom(&d) && !is_cloudinit(&d))
                }))
            }
            'n' => out.extend(nets(config)),
            _ => {}
        }
    }
    out
}

/// The devices that a value of `boot` means on this guest, in order.
pub fn order_of(boot: &str, config: &Config) -> Vec<String> {
    let Ok(p) = PropString::parse("boot", boot.trim()) else {
        return Vec::new();
    };
    match (p.get("order"), p.get("legacy")) {
        (Some(order), _) => boot_list(order).into_iter().map(str::to_string).collect(),
        (None, Some(letters)) => legacy_order(letters, config),
        // Set, but empty: nothing boots.
        (None, None) => Vec::new(),
    }
}

/// The devices from which this guest boots, in order; a guest without `boot` has the old letters `cdn`.
pub fn effective_order(config: &Config) -> Vec<String> {
    match config.get("boot").and_then(Value::as_str) {
        Some(boot) => order_of(boot, config),
        None => legacy_order("cdn", config),
    }
}

/// Whether two values of `boot` mean the same on this guest; letters and devices compare.
pub fn same_boot(a: &str, b: &str, config: &Config) -> bool {
    a.trim() == b.trim() || order_of(a, config) == order_of(b, config)
}

/// The value to send for these devices; empty for none (the server then stores one space).
pub fn print_order<S: AsRef<str>>(devices: &[S]) -> String {
    let list: Vec<&str> = devices.iter().map(AsRef::as_ref).collect();
    if list.is_empty() {
        String::new()
    } else {
        format!("order={}", list.join(";"))
    }
}

fn stored(devices: &[String]) -> String {
    let text = print_order(devices);
    if text.is_empty() {
        " ".to_string()
    } else {
        text
    }
}

/// What `boot` becomes on the server when options are deleted: the devices leave the order; None if it stays.
pub fn after_delete<S: AsRef<str>>(boot: &str, keys: &[S]) -> Option<String> {
    let p = PropString::parse("boot", boot.trim()).ok()?;
    let before = boot_list(p.get("order")?);
    let left: Vec<String> = before
        .iter()
        .filter(|d| !keys.iter().any(|k| k.as_ref() == **d))
        .map(|d| (*d).to_string())
        .collect();
    (left.len() != before.len()).then(|| stored(&left))
}

/// What `boot` becomes on the server when a CD-ROM drive is added: it joins the end of the order (recorded for PUT
/// config; new disks and network cards do not join); None if it stays.
pub fn after_new_cdrom(boot: &str, key: &str) -> Option<String> {
    let p = PropString::parse("boot", boot.trim()).ok()?;
    let mut list: Vec<String> = boot_list(p.get("order")?)
        .into_iter()
        .map(str::to_string)
        .collect();
    if list.iter().any(|d| d == key) {
        return None;
    }
    list.push(key.to_string());
    Some(stored(&list))
}

/// The devices of an order that the guest does not have: PUT refuses them, create takes them (pve-facts.md).
pub fn missing_devices(order: &[String], config: &Config) -> Vec<String> {
    order
        .iter()
        .filter(|d| !config.contains_key(*d))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn letters_and_devices_compare() {
        let c = json!({"bootdisk": "scsi0", "scsi0": "l1:1/a.raw", "scsi1": "l1:1/b.raw", "ide2": "none,media=cdrom",
            "net0": "virtio", "net3": "virtio", "ide0": "l1:1/vm-1-cloudinit.qcow2,media=cdrom"});
        let c = c.as_object().unwrap();
        assert_eq!(legacy_order("cdn", c), ["scsi0", "ide2", "net0", "net3"]);
        assert!(same_boot("cdn", "order=scsi0;ide2;net0;net3", c));
        assert!(same_boot("legacy=c", "order=scsi0", c) && !same_boot("c", "order=scsi1", c));
        assert!(same_boot(" ", "", c) && !same_boot(" ", "c", c));
        assert_eq!(effective_order(c), legacy_order("cdn", c));
        assert_eq!(
            missing_devices(&["scsi0".into(), "scsi9".into()], c),
            ["scsi9"]
        );
    }

    #[test]
    fn the_order_follows_its_devices() {
        assert_eq!(
            after_delete("order=scsi0;net0", &["net0", "tags"]).as_deref(),
            Some("order=scsi0")
        );
        assert_eq!(
            after_delete("order=scsi0", &["scsi0"]).as_deref(),
            Some(" ")
        );
        assert_eq!(after_delete("order=scsi0", &["net0"]), None);
        assert_eq!(after_delete("cdn", &["scsi0"]), None);
        assert_eq!(
            after_new_cdrom("order=scsi0;net0", "ide2").as_deref(),
            Some("order=scsi0;net0;ide2")
        );
        assert_eq!(after_new_cdrom("order=ide2", "ide2"), None);
        assert_eq!(print_order::<&str>(&[]), "");
    }
}
