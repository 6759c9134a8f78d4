//! Equality by meaning of the values inside property strings, and of small formats.

use crate::check::parse_bool;
use crate::config_key::ConfigKey;
use crate::schema::Kind;
use crate::size::parse_size;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Keys whose absence means this value although the schema does not say so (documented behaviour of qemu-server).
const IMPLIED: &[(&str, &str, &str)] = &[
    ("net", "firewall", "0"),
    ("net", "link_down", "0"),
    ("net", "host-tunnel", "0"),
    ("net", "rate", "0"),
    ("net", "queues", "0"),
    ("drive", "backup", "1"),
    ("drive", "discard", "ignore"),
    ("drive", "iothread", "0"),
    ("drive", "ro", "0"),
    ("drive", "snapshot", "0"),
    ("drive", "ssd", "0"),
    ("drive", "mbps", "0"),
    ("drive", "mbps_rd", "0"),
    ("drive", "mbps_wr", "0"),
    ("drive", "iops", "0"),
    ("drive", "iops_rd", "0"),
    ("drive", "iops_wr", "0"),
    ("smbios1", "base64", "0"),
    ("machine", "enable-s3", "0"),
    ("machine", "enable-s4", "0"),
];

/// What a key that is not set means, where that is certain.
pub fn implied_default(key: &ConfigKey, name: &str) -> Option<&'static str> {
    let class = if key.is_net() {
        "net"
    } else if key.is_drive() {
        "drive"
    } else {
        key.as_str()
    };
    let implied = IMPLIED
        .iter()
        .find(|(c, n, _)| *c == class && *n == name)
        .map(|(_, _, d)| *d);
    // An address that is not set is not the same as dhcp: nothing is configured.
    let none = matches!(
        (key.stem(), name),
        ("ipconfig", _) | ("cpu", "cputype") | ("watchdog", "model")
    );
    let schema = key.schema().keys.as_ref()?.get(name);
    implied.or_else(|| schema.filter(|_| !none).and_then(|s| s.usable_default()))
}

/// Whether two values of one key mean the same: what is there (`a`) and what is wanted (`b`, which matters for machine
/// types only); None: not set.
pub fn same_value(key: &ConfigKey, name: &str, a: Option<&str>, b: Option<&str>) -> bool {
    let default = implied_default(key, name);
    match (a.or(default), b.or(default)) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || same_text(key, name, a, b),
        _ => false,
    }
}

fn same_text(key: &ConfigKey, name: &str, a: &str, b: &str) -> bool {
    let schema = key.schema().keys.as_ref().and_then(|k| k.get(name));
    match (key.stem(), name) {
        ("net", "macaddr")
        | ("smbios", "uuid")
        | (_, "wwn")
        | ("hostpci", _)
        | ("amd-sev", "type") => {
            return a.eq_ignore_ascii_case(b);
        }
        ("net", "trunks") | ("numa", "cpus" | "hostnodes") => {
            return same_some(int_set(a), int_set(b));
        }
        ("cpu", "flags") => {
            return a.split(';').collect::<BTreeSet<_>>() == b.split(';').collect::<BTreeSet<_>>();
        }
        ("usb", "host") => {
            let plain = |s: &str| s.to_ascii_lowercase().replace("0x", "");
            return plain(a) == plain(b);
        }
        ("ipconfig", "ip6" | "gw6") => return same_some(ip6(a), ip6(b)),
        ("boot", "order") => return boot_list(a) == boot_list(b),
        ("machine", "type") => return same_machine(a, b),
        _ => {}
    }
    let Some(schema) = schema else { return false };
    match schema.kind {
        Kind::Boolean => same_some(parse_bool(a), parse_bool(b)),
        Kind::Integer | Kind::Number => same_some(a.parse::<f64>().ok(), b.parse::<f64>().ok()),
        _ if schema.format.as_deref() == Some("disk-size") => {
            same_some(parse_size(a), parse_size(b))
        }
        _ => false,
    }
}

fn same_some<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.is_some() && a == b
}

fn ip6(text: &str) -> Option<(Ipv6Addr, Option<u8>)> {
    match text.split_once('/') {
        Some((a, n)) => Some((a.parse().ok()?, Some(n.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// The devices of a boot order, in order.
pub fn boot_list(order: &str) -> Vec<&str> {
    crate::check::split_list(order).collect()
}

/// Reads numbers and ranges (`10;20-30`, `0,2-5`) into merged, sorted ranges; None if it is no such list or a range
/// runs backwards.
pub fn int_set(text: &str) -> Option<Vec<(u32, u32)>> {
    let mut ranges = Vec::new();
    for part in crate::check::split_list(text) {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b): (u32, u32) = (a.parse().ok()?, b.parse().ok()?);
        if a > b {
            return None;
        }
        ranges.push((a, b));
    }
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (a, b) in ranges {
        match merged.last_mut() {
            Some(last) if a <= last.1.saturating_add(1) => last.1 = last.1.max(b),
            _ => merged.push((a, b)),
        }
    }
    Some(merged)
}

/// Prints ranges with the separator of the option (`;` for trunks, `,` for CPU sets).
pub fn print_int_set(ranges: &[(u32, u32)], separator: &str) -> String {
    let one = |(a, b): &(u32, u32)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        }
    };
    ranges.iter().map(one).collect::<Vec<_>>().join(separator)
}

/// Whether a machine type satisfies a wish: `q35` is satisfied by any pinned `pc-q35-N`, `pc` by any pinned i440fx,
/// `virt` by any `virt-N`; a wish for a pinned one only by the same.
pub fn same_machine(have: &str, want: &str) -> bool {
    fn family(m: &str) -> Option<(&'static str, bool)> {
        match m {
            "q35" => Some(("q35", false)),
            "pc" => Some(("pc", false)),
            "virt" => Some(("virt", false)),
            _ if m.starts_with("pc-q35-") => Some(("q35", true)),
            _ if m.starts_with("pc-") => Some(("pc", true)),
            _ if m.starts_with("virt-") => Some(("virt", true)),
            _ => None,
        }
    }
    match (family(have), family(want)) {
        (Some((have_family, _)), Some((want_family, false))) => have_family == want_family,
        _ => have == want,
    }
}

/// Start order, delay after start and after stop (seconds) of `startup`; None if the server would refuse it.
pub fn startup(text: &str) -> Option<[Option<u64>; 3]> {
    let mut out = [None; 3];
    let mut any = false;
    for part in text.split(',') {
        let (slot, value) = match part.split_once('=') {
            Some(("order", v)) => (0, v),
            Some(("up", v)) => (1, v),
            Some(("down", v)) => (2, v),
            Some(_) => return None,
            None => (0, part),
        };
        if value.is_empty() || !value.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        out[slot] = value.parse().ok();
        any = true;
    }
    any.then_some(out)
}
