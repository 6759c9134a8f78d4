//! Whole options of a guest as `GET config` and `pending` return them, compared by meaning.

use crate::check::{HOTPLUG_FEATURES, split_list};
use crate::config_key::ConfigKey;
use crate::ids::percent_decode;
use crate::meaning::{int_set, startup};
use crate::prop::PropString;
use crate::tags::{self, TagStyle};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A guest's configuration: option names and values as the server returns them.
pub type Config = Map<String, Value>;

/// What comparison needs to know about the datacenter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compare {
    /// How tags are stored.
    pub tag_style: TagStyle,
}

/// Options whose value the server masks: equality cannot be seen.
pub const MASKED: &[&str] = &["cipassword"];

/// What it means that an option is not set, where the schema has no default for the whole option
/// (qemu-server's own behaviour; x86 guests).
const UNSET_MEANS: &[(&str, &str)] = &[
    ("agent", "0"),
    ("cpu", "kvm64"),
    ("description", ""),
    ("freeze", "0"),
    ("machine", "pc"),
    ("memory", "512"),
    ("nameserver", ""),
    ("searchdomain", ""),
    ("smbios1", ""),
    ("spice_enhancements", ""),
    ("sshkeys", ""),
    ("tags", ""),
    ("vga", "std"),
];

/// A value as text, as it would be sent: numbers in digits, booleans as `1`/`0`; None for null and nested values.
pub fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(u8::from(*b).to_string()),
        _ => None,
    }
}

/// An option's text in a configuration; the server's single space for "set, but empty" becomes empty.
pub fn text(config: &Config, key: &str) -> Option<String> {
    config
        .get(key)
        .and_then(text_of)
        .map(|t| if t == " " { String::new() } else { t })
}

/// What an option that is not set means; None: nothing that a value could equal.
pub fn default_of(key: &str) -> Option<String> {
    if let Some((_, d)) = UNSET_MEANS.iter().find(|(k, _)| *k == key) {
        return Some((*d).to_string());
    }
    let key: ConfigKey = key.parse().ok()?;
    match key.schema().keys {
        Some(_) => None,
        None => key.schema().usable_default().map(str::to_string),
    }
}

/// Whether what is there (`a`) means what is wanted (`b`); None: not set, which equals the default. The order matters
/// only where a wish is wider than a value: `machine: q35` and `vmgenid: 1` (any) are satisfied, not the other way round.
///
/// Sizes of disks count to the byte ([`crate::size::same_size_rounded`] is for wishes); masked options equal only by
/// their text; `boot` as devices against old letters needs [`crate::boot::same_boot`].
pub fn semantic_eq(key: &str, a: Option<&Value>, b: Option<&Value>, compare: &Compare) -> bool {
    let read = |v: Option<&Value>| {
        let text = v.and_then(text_of).or_else(|| default_of(key));
        text.map(|t| if t == " " { String::new() } else { t })
    };
    match (read(a), read(b)) {
        (Some(a), Some(b)) => a == b || same_option_text(key, &a, &b, compare),
        (None, None) => true,
        _ => false,
    }
}

fn same_option_text(key: &str, a: &str, b: &str, compare: &Compare) -> bool {
    let both = |x: Option<Vec<String>>, y: Option<Vec<String>>| x.is_some() && x == y;
    let list = |t: &str| split_list(t).map(str::to_string).collect::<Vec<_>>();
    match key {
        "tags" => return tags::same(a, b, compare.tag_style),
        "description" => return a.trim_end() == b.trim_end(),
        "nameserver" | "searchdomain" => return list(a) == list(b),
        "hotplug" => return hotplug(a) == hotplug(b),
        "sshkeys" => return both(Some(ssh_lines(a)), Some(ssh_lines(b))),
        "startup" => return startup(a).is_some() && startup(a) == startup(b),
        "affinity" => return int_set(a).is_some() && int_set(a) == int_set(b),
        // Above 10000 the server stores 10000 (recorded, cgroup v2).
        "cpuunits" => {
            let clamp = |t: &str| t.parse::<u64>().ok().map(|n| n.min(10_000));
            return clamp(a).is_some() && clamp(a) == clamp(b);
        }
        // `1` asks for a generated one: any that is there satisfies it.
        "vmgenid" => {
            return (b == "1" && a != "0") || a.eq_ignore_ascii_case(b);
        }
        _ => {}
    }
    let Ok(config_key) = key.parse::<ConfigKey>() else {
        return false;
    };
    if config_key.schema().keys.is_some() {
        return match (PropString::parse(key, a), PropString::parse(key, b)) {
            (Ok(a), Ok(b)) => a.same_as(&b),
            _ => false,
        };
    }
    match config_key.schema().kind {
        crate::schema::Kind::String => false,
        _ => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        },
    }
}

fn hotplug(text: &str) -> BTreeSet<&str> {
    match text {
        "0" => BTreeSet::new(),
        "1" => BTreeSet::from(["network", "disk", "usb"]),
        _ => split_list(text)
            .filter(|f| HOTPLUG_FEATURES.contains(f))
            .collect(),
    }
}

fn ssh_lines(encoded: &str) -> Vec<String> {
    percent_decode(encoded)
        .lines()
        .map(|l| l.trim().to_string())
        .filter(|l| !l.is_empty())
        .collect()
}

/// Which of the wished options differ by meaning from the configuration, in the order wished.
pub fn differing<'a>(config: &Config, wish: &'a Config, compare: &Compare) -> Vec<&'a str> {
    let differs = |(k, v): &(&'a String, &Value)| match k.as_str() {
        "boot" => {
            let wanted = text_of(v).unwrap_or_default();
            !text_of(config.get("boot").unwrap_or(&Value::Null))
                .is_some_and(|have| crate::boot::same_boot(&have, &wanted, config))
        }
        k => !semantic_eq(k, config.get(k), Some(*v), compare),
    };
    wish.iter()
        .filter(differs)
        .map(|(k, _)| k.as_str())
        .collect()
}

/// The drives of a configuration: key and parsed value, sorted by key; `unusedN` included.
pub fn drives(config: &Config) -> Vec<PropString> {
    let mut out: Vec<PropString> = config
        .keys()
        .filter(|k| k.parse::<ConfigKey>().is_ok_and(|k| k.is_drive()))
        .filter_map(|k| PropString::parse(k, &text(config, k)?).ok())
        .collect();
    out.sort_by(|a, b| a.key().as_str().cmp(b.key().as_str()));
    out
}

/// The network cards of a configuration, by number.
pub fn nics(config: &Config) -> Vec<PropString> {
    (0..32)
        .filter_map(|n| {
            let key = format!("net{n}");
            PropString::parse(&key, &text(config, &key)?).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn eq(key: &str, a: Value, b: Value) -> bool {
        let present = |v: &Value| !v.is_null();
        semantic_eq(
            key,
            Some(&a).filter(|v| present(v)),
            Some(&b).filter(|v| present(v)),
            &Compare::default(),
        )
    }

    #[test]
    fn options_compare_by_meaning() {
        for (key, a, b, same) in [
            ("cores", json!(2), json!("2"), true),
            ("cores", json!(null), json!(1), true),
            ("cores", json!(null), json!(2), false),
            ("memory", json!("2048"), json!(2048), true),
            ("memory", json!("current=2048"), json!("2048"), true),
            ("memory", json!(null), json!(512), true),
            ("onboot", json!(false), json!(null), true),
            ("onboot", json!(true), json!(1), true),
            ("agent", json!("1"), json!("enabled=1,type=virtio"), true),
            ("agent", json!(null), json!("enabled=0"), true),
            ("agent", json!(null), json!("1"), false),
            ("tags", json!(" "), json!(null), true),
            ("tags", json!("a;b"), json!("B,a"), true),
            ("boot", json!(" "), json!(""), true),
            ("boot", json!(" "), json!(null), false),
            ("description", json!("x"), json!("x\n\n"), true),
            ("description", json!(null), json!(""), true),
            (
                "nameserver",
                json!("192.0.2.1 192.0.2.2"),
                json!("192.0.2.1,192.0.2.2"),
                true,
            ),
            (
                "nameserver",
                json!("192.0.2.1 192.0.2.2"),
                json!("192.0.2.2 192.0.2.1"),
                false,
            ),
            ("hotplug", json!("1"), json!(null), true),
            ("hotplug", json!("usb;disk,network"), json!(null), true),
            ("hotplug", json!("0"), json!(null), false),
            ("hotplug", json!(" "), json!("0"), true),
            (
                "sshkeys",
                json!("ssh-ed25519%20AAA%20me%40host%0A"),
                json!("ssh-ed25519 AAA me@host"),
                true,
            ),
            ("startup", json!("order=1,up=30"), json!("up=30,1"), true),
            ("machine", json!("pc-q35-9.0+pve1"), json!("q35"), true),
            ("machine", json!("q35"), json!("pc-q35-9.0+pve1"), false),
            ("machine", json!(null), json!("pc"), true),
            ("machine", json!(null), json!("q35"), false),
            (
                "vmgenid",
                json!("4cb0ed3b-8c40-4209-9308-61dbc673aa90"),
                json!("1"),
                true,
            ),
            (
                "vmgenid",
                json!("4cb0ed3b-8c40-4209-9308-61dbc673aa90"),
                json!("0"),
                false,
            ),
            ("affinity", json!("0,1"), json!("0-1"), true),
            ("cpulimit", json!("1.50"), json!(1.5), true),
            ("scsihw", json!(null), json!("lsi"), true),
            ("name", json!("web"), json!(null), false),
            ("rng0", json!("source=/dev/urandom"), json!(null), false),
            (
                "net0",
                json!("virtio=BC:24:11:00:00:01,bridge=vmbr0"),
                json!("model=virtio,macaddr=bc:24:11:00:00:01,bridge=vmbr0,firewall=0"),
                true,
            ),
            (
                "efidisk0",
                json!("l1:1/vm-1-disk-0.raw,efitype=4m,size=528K"),
                json!("l1:1/vm-1-disk-0.raw,efitype=4m"),
                true,
            ),
            (
                "ide2",
                json!("l1:iso/a.iso,media=cdrom,size=350K"),
                json!("l1:iso/a.iso,media=cdrom"),
                true,
            ),
            ("numa", json!(0), json!(null), true),
        ] {
            assert_eq!(eq(key, a.clone(), b.clone()), same, "{key}: {a} / {b}");
            if !["machine", "vmgenid"].contains(&key) {
                assert_eq!(eq(key, b.clone(), a.clone()), same, "{key}: {b} / {a}");
            }
        }
    }

    #[test]
    fn only_what_differs_is_named() {
        let config = json!({"cores": 2, "boot": "cdn", "bootdisk": "scsi0", "scsi0": "l1:1/a.raw", "name": "a"});
        let wish =
            json!({"cores": "2", "sockets": 1, "boot": "order=scsi0", "name": "b", "tags": ""});
        let (config, wish) = (config.as_object().unwrap(), wish.as_object().unwrap());
        assert_eq!(differing(config, wish, &Compare::default()), ["name"]);
    }
}
