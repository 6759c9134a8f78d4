//! Whether the server would take a value: type, limits, choices, pattern, named format.

use crate::config_key::ConfigKey;
use crate::ids::{MacAddr, Volid, is_node_name, is_storage_id};
use crate::schema::{Kind, Schema};
use crate::size::parse_size;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a value is refused, and what would be taken: (`is above the maximum 4094`, `give a number from 1 to 4094`).
pub type Refusal = (String, String);

/// Reads a boolean as inside property strings (yes/no, on/off, true/false, 1/0, any case).
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Whether the text is a whole number to the server (an optional sign, digits).
pub fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
}

/// Whether the text is a number to the server (sign, digits, point, exponent).
pub fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.ends_with(|c: char| c.is_ascii_digit())
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn range(schema: &Schema) -> String {
    match (schema.minimum, schema.maximum) {
        (Some(a), Some(b)) => format!("give a number from {a} to {b}"),
        (Some(a), None) => format!("give a number of at least {a}"),
        (None, Some(b)) => format!("give a number of at most {b}"),
        (None, None) => "give a number".to_string(),
    }
}

/// Checks one value (of an option, or of a key inside a property string); None means that the server takes it.
pub fn refusal(schema: &Schema, value: &str) -> Option<Refusal> {
    let no = |why: String, way_out: String| Some((why, way_out));
    match schema.kind {
        Kind::Boolean if value != "0" && value != "1" => {
            return no("is no boolean".into(), "give 1 or 0".into());
        }
        Kind::Integer if !is_integer(value) => {
            return no("is no whole number".into(), range(schema));
        }
        Kind::Number if !is_number(value) => return no("is no number".into(), range(schema)),
        Kind::Integer | Kind::Number => {
            let n: f64 = value.parse().unwrap_or(f64::NAN);
            if let Some(min) = schema.minimum
                && n < min
            {
                return no(format!("is below the minimum {min}"), range(schema));
            }
            if let Some(max) = schema.maximum
                && n > max
            {
                return no(format!("is above the maximum {max}"), range(schema));
            }
        }
        _ => {}
    }
    if let Some(max) = schema.max_length
        && value.chars().count() > max
    {
        return no(
            format!("is longer than {max} characters"),
            "shorten it".into(),
        );
    }
    if !schema.choices.is_empty() && !schema.choices.iter().any(|c| c == value) {
        return no(
            "is none of the choices".into(),
            format!("give one of {}", schema.choices.join(", ")),
        );
    }
    if let Some(format) = &schema.format
        && let Some(way_out) = format_refusal(format, value)
    {
        return no("has the wrong form".into(), way_out.into());
    }
    if !schema.matches_pattern(value) {
        let pattern = schema.pattern().unwrap_or_default();
        return no(
            "has the wrong form".into(),
            format!("give a value that matches {pattern}"),
        );
    }
    None
}

fn is_name(s: &str) -> bool {
    s.len() >= 2
        && s.starts_with(|c: char| c.is_ascii_alphabetic())
        && s.bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c))
}

/// Whether the server takes it as a guest's name (format `dns-name`). It has no limit for the length of a label:
/// the recording shows 64 characters taken.
pub fn is_dns_name(s: &str) -> bool {
    let label = |l: &str| {
        let b = l.as_bytes();
        !b.is_empty()
            && b.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
            && b[0] != b'-'
            && b[b.len() - 1] != b'-'
    };
    s.split('.').all(label)
}

/// Splits a list as the server does: commas, semicolons, white space; empty entries do not count.
pub fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c == ';' || c == '\0' || c.is_whitespace())
        .filter(|p| !p.is_empty())
}

/// Whether a device can be named in `boot: order=`.
pub fn is_boot_device(name: &str) -> bool {
    name.parse::<ConfigKey>().is_ok_and(|k| {
        k.as_str() != "cdrom"
            && (k.is_bus_drive() || k.is_net() || matches!(k.stem(), "usb" | "hostpci"))
    })
}

fn cidr<A: std::str::FromStr>(s: &str, most: u8) -> bool {
    s.split_once('/').is_some_and(|(a, n)| {
        a.parse::<A>().is_ok() && n.parse::<u8>().is_ok_and(|n| (1..=most).contains(&n))
    })
}

/// The features that `hotplug` can name.
pub const HOTPLUG_FEATURES: &[&str] = &["network", "disk", "cpu", "memory", "usb", "cloudinit"];

/// Checks a named format of the schema; Some(way out) if the value does not fit. Unknown formats take anything.
pub fn format_refusal(format: &str, value: &str) -> Option<&'static str> {
    if let Some(item) = format
        .strip_suffix("-list")
        .filter(|f| !["pve-tag"].contains(f))
    {
        return split_list(value).find_map(|v| format_refusal(item, v));
    }
    let is_volume = || value.parse::<Volid>().is_ok();
    let (ok, way_out) = match format {
        "pve-volume-id-or-qm-path" => (
            value == "none" || value == "cdrom" || value.starts_with('/') || is_volume(),
            "give <storage>:<size in GiB> for a new disk, <storage>:<volume>, none, cdrom or an absolute path",
        ),
        "pve-volume-id-or-absolute-path" => (
            value.starts_with('/') || is_volume(),
            "give <storage>:<volume> or an absolute path",
        ),
        "pve-volume-id" => (is_volume(), "give <storage>:<volume>"),
        "urlencoded" => (
            value
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || b"-%_.!~*'()".contains(&c)),
            "percent-encode it (a space is %20)",
        ),
        "disk-size" => (
            parse_size(value).is_some(),
            "give a number with K, M, G or T, such as 32G",
        ),
        "pve-configid" => (
            is_name(value),
            "a letter first, then letters, digits, '-' and '_', at least two characters",
        ),
        "pve-storage-id" => (is_storage_id(value), "give the name of a storage"),
        "pve-cpuset" => (
            crate::meaning::int_set(value).is_some(),
            "give CPU numbers and ranges, such as 0,2-5",
        ),
        "pve-qm-bootdev" => (
            is_boot_device(value),
            "give devices such as scsi0, net0, usb0 or hostpci0, separated by semicolons",
        ),
        "pve-qm-bootdisk" => (
            value
                .parse::<ConfigKey>()
                .is_ok_and(|k| k.is_bus_drive() && value != "cdrom"),
            "give the name of a disk, such as scsi0",
        ),
        "pve-phys-bits" => (
            value == "host" || value.parse::<u32>().is_ok_and(|n| (8..=64).contains(&n)),
            "give host or 8 to 64",
        ),
        "pve-hotplug-features" => (
            value == "0"
                || value == "1"
                || split_list(value).all(|f| HOTPLUG_FEATURES.contains(&f)),
            "give 0, 1 or a list of network, disk, cpu, memory, usb, cloudinit",
        ),
        "ipv4" => (value.parse::<Ipv4Addr>().is_ok(), "give an IPv4 address"),
        "ipv6" => (value.parse::<Ipv6Addr>().is_ok(), "give an IPv6 address"),
        "ip" => (value.parse::<IpAddr>().is_ok(), "give an IP address"),
        "address" => (
            value.parse::<IpAddr>().is_ok() || is_dns_name(value),
            "give IP addresses or names",
        ),
        "pve-ipv4-config" => (
            value == "dhcp" || value == "manual" || cidr::<Ipv4Addr>(value, 32),
            "give dhcp or an address with its prefix, such as 192.0.2.5/24",
        ),
        "pve-ipv6-config" => (
            ["auto", "dhcp", "manual"].contains(&value) || cidr::<Ipv6Addr>(value, 128),
            "give auto, dhcp or an address with its prefix, such as 2001:db8::5/64",
        ),
        "dns-name" => (
            is_dns_name(value),
            "letters, digits and '-', not at the ends, in parts separated by dots (no spaces, no '_')",
        ),
        "pve-bridge-id" => (
            !value.is_empty()
                && value
                    .bytes()
                    .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c)),
            "give the name of a bridge or vnet: letters, digits and '-_.'",
        ),
        "mac-addr" => (
            value.parse::<MacAddr>().is_ok(),
            "give a unicast address such as BC:24:11:00:00:01",
        ),
        "pve-node" => (is_node_name(value), "give the name of a node"),
        "pve-poolid" => (
            !value.is_empty()
                && value.split('/').count() <= 3
                && value.split('/').all(|p| {
                    !p.is_empty()
                        && p.bytes()
                            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
                }),
            "letters, digits and '-_.', at most three levels",
        ),
        "pve-startup-order" => (
            crate::meaning::startup(value).is_some(),
            "give order=N,up=N,down=N (each optional, at least one)",
        ),
        "pve-tag-list" => (
            crate::tags::split(value).all(crate::tags::is_tag),
            "a tag has letters, digits and '_-+.', and starts with a letter, a digit or '_'",
        ),
        _ => (true, ""),
    };
    (!ok).then_some(way_out)
}

/// Checks the virtual CPU type: a built-in one, or `custom-...` (whether that one exists only the server knows).
pub fn is_cpu_type(name: &str, models: &[String]) -> bool {
    let own = ["x86-64-v2", "x86-64-v2-AES", "x86-64-v3", "x86-64-v4"];
    models.iter().any(|m| m == name)
        || own.contains(&name)
        || name.strip_prefix("custom-").is_some_and(|n| !n.is_empty())
}
