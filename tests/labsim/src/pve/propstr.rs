//! Property strings, read and written by their recorded formats; and the named formats of plain values.
//!
//! Everything here is driven by the formats in api-schema.json; the texts are those that the real server answers
//! (recorded in property-strings.json). Judged against that recording by `tests/property_strings.rs`.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{LazyLock, Mutex};

use regex::Regex;
use serde_json::{Map, Value};

/// A property string, taken apart: aliases resolved, booleans as `1`/`0`, all else as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Values by key, in key order.
    pub keys: BTreeMap<String, String>,
}

impl Parsed {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// Whether a boolean key is set and true.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some("1")
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.keys.insert(key.to_string(), value.into());
    }

    /// Removes a key and returns what it held.
    pub fn take(&mut self, key: &str) -> Option<String> {
        self.keys.remove(key)
    }
}

/// Splits a list as the server does: at commas, semicolons, white space and NUL.
pub fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c == ';' || c == '\0' || c.is_whitespace())
        .filter(|p| !p.is_empty())
}

/// What the server takes for a boolean inside a property string.
pub fn parse_boolean(text: &str) -> Option<&'static str> {
    let low = text.to_ascii_lowercase();
    match low.as_str() {
        "1" | "on" | "yes" | "true" => Some("1"),
        "0" | "off" | "no" | "false" => Some("0"),
        _ => None,
    }
}

/// Bytes of a size such as `32G`, `1.5T`, `1GiB` or a plain number of bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    static RE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(\d+(?:\.\d+)?)(?:([KMGT])(?:iB)?)?$").expect("a constant"));
    let caps = RE.captures(text)?;
    let number: f64 = caps[1].parse().ok()?;
    let power = caps
        .get(2)
        .map_or(0, |u| "KMGT".find(u.as_str()).map_or(0, |p| p as i32 + 1));
    Some((number * 1024f64.powi(power)) as u64)
}

/// Bytes as the server prints them: the largest unit that divides them (zero prints as `0T`).
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes;
    let mut unit = "";
    for next in ["K", "M", "G", "T"] {
        if !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        unit = next;
    }
    format!("{value}{unit}")
}

/// A Perl pattern, anchored at both ends as the server does, cached.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    static CACHE: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let mut cache = CACHE.lock().unwrap_or_else(|e| e.into_inner());
    let re = cache.entry(pattern.to_string()).or_insert_with(|| {
        // Perl spells flags of an embedded pattern `(?^u:`, and a missing lower bound `{,16}`.
        let ours = pattern
            .replace("(?^u:", "(?:")
            .replace("(?^i:", "(?i:")
            // Too big for the regex crate with Unicode classes; `maxLength` says the same.
            .replace("{0,256}", "*")
            .replace("(?^:", "(?:")
            .replace("{,", "{0,")
            .replace("\\/", "/")
            .replace("\\0", "\\x00");
        Regex::new(&format!("^(?:{ours})$")).ok()
    });
    re.as_ref().is_some_and(|re| re.is_match(text))
}

/// Checks one scalar against its schema (type, limits, enumeration, pattern, format).
///
/// # Errors
/// The server's text for that value, without its path.
pub fn check_scalar(path: &str, schema: &Value, text: &str) -> Result<(), String> {
    let kind = schema["type"].as_str().unwrap_or("string");
    let fails = || Err(format!("type check ('{kind}') failed - got '{text}'"));
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[+-]?(\d+\.\d+|\d+|\.\d+|\d+\.)([eE][+-]?\d+)?$").expect("a constant")
    });
    match kind {
        "integer" => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return fails();
            }
        }
        "number" if !NUMBER.is_match(text) => return fails(),
        "boolean" if text != "0" && text != "1" => return fails(),
        _ => {}
    }
    match &schema["format"] {
        Value::String(name) => {
            check_format(name, text).map_err(|e| format!("invalid format - {e}"))
        }
        Value::Object(_) => check_named(path, schema, text)
            .map(|_| ())
            .map_err(|e| format!("invalid format - {e}")),
        _ => Ok(()),
    }?;
    if kind == "integer" || kind == "number" {
        let value: f64 = text.parse().unwrap_or(0.0);
        if let Some(min) = number(&schema["minimum"]).filter(|m| value < *m) {
            return Err(format!("value must have a minimum value of {min}"));
        }
        if let Some(max) = number(&schema["maximum"]).filter(|m| value > *m) {
            return Err(format!("value must have a maximum value of {max}"));
        }
    }
    if kind == "string" {
        let length = text.chars().count() as f64;
        if let Some(max) = number(&schema["maxLength"]).filter(|m| length > *m) {
            return Err(format!("value may only be {max} characters long"));
        }
        if let Some(min) = number(&schema["minLength"]).filter(|m| length < *m) {
            return Err(format!("value must be at least {min} characters long"));
        }
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !matches_pattern(pattern, text)
    {
        return Err("value does not match the regex pattern".to_string());
    }
    if let Some(values) = schema["enum"].as_array() {
        let names: Vec<String> = values.iter().map(plain).collect();
        if !names.iter().any(|n| n == text) {
            return Err(format!(
                "value '{text}' does not have a value in the enumeration '{}'",
                names.join(", ")
            ));
        }
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_string)
}

/// A limit may be recorded as a number or as text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Parses and checks a property string by its format (the value of `format` in the schema).
///
/// # Errors
/// What the server writes after `invalid format - `, for the parameter called `path`.
pub fn check(path: &str, format: &Map<String, Value>, text: &str) -> Result<Parsed, String> {
    let parsed = parse(format, text)?;
    let mut errors: BTreeMap<String, String> = BTreeMap::new();
    for (key, schema) in format {
        if schema.get("alias").is_some() {
            continue;
        }
        match parsed.get(key) {
            None if schema.get("optional").is_none() => {
                errors.insert(
                    format!("{path}.{key}"),
                    "property is missing and it is not optional".to_string(),
                );
            }
            None => {}
            Some(value) => {
                if let Some(other) = schema["requires"].as_str()
                    && parsed.get(other).is_none()
                {
                    errors.insert(
                        format!("{path}.{other}"),
                        format!("missing property required by '{path}.{key}'"),
                    );
                }
                if let Err(why) = check_scalar(&format!("{path}.{key}"), schema, value) {
                    errors.insert(format!("{path}.{key}"), why);
                }
            }
        }
    }
    for key in parsed.keys.keys() {
        if !format.contains_key(key) {
            let why = "property is not defined in schema and the schema does not allow additional properties";
            errors.insert(format!("{path}.{key}"), why.to_string());
        }
    }
    if errors.is_empty() {
        return Ok(parsed);
    }
    let lines: String = errors.iter().map(|(k, v)| format!("{k}: {v}\n")).collect();
    Err(format!("format error\n{lines}"))
}

/// Like [`check`] for a parameter's whole schema, with the validators that its `format_name` adds.
///
/// # Errors
/// What the server writes after `invalid format - `.
pub fn check_named(path: &str, schema: &Value, text: &str) -> Result<Parsed, String> {
    let Some(format) = schema["format"].as_object() else {
        return Err(format!("no format recorded for '{path}'\n"));
    };
    let parsed = check(path, format, text)?;
    if schema["format_name"] == "pve-vm-cpu-conf" {
        check_cpu(format, &parsed)?;
    }
    Ok(parsed)
}

/// Models that the server defines itself, beside those of QEMU (qemu-server, PVE::QemuServer::CPUConfig).
const OWN_CPU_MODELS: [&str; 4] = ["x86-64-v2", "x86-64-v2-AES", "x86-64-v3", "x86-64-v4"];

fn check_cpu(format: &Map<String, Value>, parsed: &Parsed) -> Result<(), String> {
    let Some(model) = parsed.get("cputype") else {
        return Err("CPU is missing cputype\n".to_string());
    };
    if let Some(custom) = model.strip_prefix("custom-") {
        return Err(format!("Custom cputype '{custom}' not found\n"));
    }
    let known = format["reported-model"]["enum"]
        .as_array()
        .is_some_and(|models| models.iter().any(|m| m == model));
    if !known && !OWN_CPU_MODELS.contains(&model) {
        return Err(format!(
            "Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)\n"
        ));
    }
    if parsed.get("reported-model").is_some() {
        return Err(
            "Property 'reported-model' not allowed in VM-specific CPU config.\n".to_string(),
        );
    }
    Ok(())
}

/// Takes a property string apart without judging its values.
///
/// # Errors
/// The server's text where the string itself is malformed.
pub fn parse(format: &Map<String, Value>, text: &str) -> Result<Parsed, String> {
    let mut out = Parsed::default();
    let default_key = format
        .iter()
        .find(|(_, s)| s.get("default_key").is_some())
        .map(|(k, _)| k.as_str());
    for part in text.split(',').filter(|p| !p.trim().is_empty()) {
        let (key, value) = match part.split_once('=') {
            Some((k, v)) if !k.is_empty() && !v.is_empty() => (k, v),
            Some(_) => return Err("missing key in comma-separated list property\n".to_string()),
            None => match default_key {
                Some(k) => (k, part),
                None => {
                    return Err(
                        "value without key, but schema does not define a default key\n".to_string(),
                    );
                }
            },
        };
        if out.keys.contains_key(key) {
            return Err(format!(
                "duplicate key in comma-separated list property: {key}\n"
            ));
        }
        let mut key = key;
        if let Some(alias) = format.get(key).and_then(|s| s["alias"].as_str()) {
            if let Some(model_key) = format[key]["keyAlias"].as_str() {
                if out.keys.contains_key(model_key) {
                    return Err(format!("key alias '{model_key}' is already defined\n"));
                }
                out.set(model_key, key);
            }
            if out.keys.contains_key(alias) {
                return Err(format!("key '{alias}' is already defined (via alias)\n"));
            }
            key = alias;
        }
        let is_boolean = format.get(key).is_some_and(|s| s["type"] == "boolean");
        let value = if is_boolean {
            parse_boolean(value).unwrap_or(value)
        } else {
            value
        };
        out.set(key, value);
    }
    Ok(out)
}

/// Prints in the server's order: the default key's value first (`model=MAC` for a NIC), then the required keys, then
/// the others, each sorted; sizes in their largest unit.
pub fn print(format: &Map<String, Value>, parsed: &Parsed) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut done: Vec<&str> = Vec::new();
    let shown = |key: &str, value: &str| -> String {
        if format.get(key).is_some_and(|s| s["format"] == "disk-size") {
            return parse_size(value).map_or_else(|| value.to_string(), format_size);
        }
        value.to_string()
    };
    for (key, schema) in format {
        if schema.get("default_key").is_none() {
            continue;
        }
        if let Some(value) = parsed.get(key) {
            // A key that names another one's alias: `virtio` with `virtio => {alias: macaddr, keyAlias: model}`.
            let alias = format
                .get(value)
                .filter(|s| s["keyAlias"] == *key)
                .and_then(|s| s["alias"].as_str());
            match alias.and_then(|a| parsed.get(a).map(|v| (a, v))) {
                Some((target, v)) => {
                    parts.push(format!("{value}={v}"));
                    done.push(target);
                }
                None => parts.push(shown(key, value)),
            }
            done.push(key);
        }
    }
    let is_required = |key: &str| format.get(key).is_some_and(|s| s.get("optional").is_none());
    for required in [true, false] {
        for (key, value) in &parsed.keys {
            if !done.contains(&key.as_str()) && is_required(key) == required {
                parts.push(format!("{key}={}", shown(key, value)));
            }
        }
    }
    parts.join(",")
}

/// Checks a plain value by a named format; names ending in `-list` check every element, `-opt` allows nothing.
///
/// # Errors
/// What the server writes after `invalid format - `. Names not known here are taken as they are.
pub fn check_format(name: &str, text: &str) -> Result<(), String> {
    if let Some(element) = name.strip_suffix("-list") {
        return split_list(text).try_for_each(|part| check_format(element, part));
    }
    if let Some(inner) = name.strip_suffix("-opt") {
        return if text.is_empty() {
            Ok(())
        } else {
            check_format(inner, text)
        };
    }
    let fine = |ok: bool, why: &str| if ok { Ok(()) } else { Err(format!("{why}\n")) };
    match name {
        "pve-vmid" => fine(
            matches_pattern(r"[1-9][0-9]{2,8}", text),
            "value does not look like a valid VM ID",
        ),
        "pve-node" => fine(is_label(text), "value does not look like a valid node name"),
        "pve-iface" => fine(
            matches_pattern(r"[a-zA-Z][a-zA-Z0-9_]{1,20}([:.]\d+)?", text),
            &format!("invalid network interface name '{text}'"),
        ),
        "pve-configid" => fine(
            matches_pattern(r"[a-zA-Z][a-zA-Z0-9\-_]+", text),
            &format!("invalid configuration ID '{text}'"),
        ),
        "pve-storage-id" => fine(
            matches_pattern(r"(?i:[a-z][a-z0-9\-_.]*[a-z0-9])", text),
            &format!("storage ID '{text}' contains illegal characters"),
        ),
        "pve-poolid" => fine(
            matches_pattern(r"[A-Za-z0-9._\-]+(/[A-Za-z0-9._\-]+){0,2}", text),
            &format!("value '{text}' does not look like a valid pool name"),
        ),
        "pve-bridge-id" => fine(
            matches_pattern(r"[-_.\w]+", text) && text.is_ascii(),
            &format!("invalid bridge ID '{text}'"),
        ),
        "pve-tag" => fine(
            matches_pattern(r"(?i:[a-z0-9_][a-z0-9_\-+.]*)", text),
            "invalid characters in tag",
        ),
        "dns-name" => fine(
            is_dns_name(text),
            "value does not look like a valid DNS name",
        ),
        "ipv4" => fine(
            text.parse::<Ipv4Addr>().is_ok(),
            "value does not look like a valid IPv4 address",
        ),
        "ipv6" => fine(
            text.parse::<Ipv6Addr>().is_ok(),
            "value does not look like a valid IPv6 address",
        ),
        "ip" => fine(is_ip(text), "value does not look like a valid IP address"),
        "address" => fine(
            is_ip(text) || is_dns_name(text),
            "value does not look like a valid address",
        ),
        "pve-ipv4-config" => fine(
            text == "dhcp"
                || text == "manual"
                || is_cidr(text, |a| a.parse::<Ipv4Addr>().is_ok(), 32),
            "value does not look like a valid ipv4 network configuration",
        ),
        "pve-ipv6-config" => fine(
            ["auto", "dhcp", "manual"].contains(&text)
                || is_cidr(text, |a| a.parse::<Ipv6Addr>().is_ok(), 128),
            "value does not look like a valid ipv6 network configuration",
        ),
        "mac-addr" => fine(
            matches_pattern(r"[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}", text),
            "value does not look like a valid unicast MAC address",
        ),
        "disk-size" => fine(
            parse_size(text).is_some(),
            &format!("value does not look like a valid disk size: {text}"),
        ),
        "urlencoded" => fine(
            matches_pattern(r"[-%a-zA-Z0-9_.!~*'()]*", text),
            &format!("invalid urlencoded string: {text}"),
        ),
        "pve-volume-id" => fine(
            is_volume_id(text),
            &format!("unable to parse volume ID '{text}'"),
        ),
        "pve-volume-id-or-absolute-path" => fine(
            text.starts_with('/') || is_volume_id(text),
            &format!("unable to parse volume ID '{text}'"),
        ),
        "pve-volume-id-or-qm-path" => fine(
            text == "none" || text == "cdrom" || text.starts_with('/') || is_volume_id(text),
            &format!("unable to parse volume ID '{text}'"),
        ),
        "pve-startup-order" => fine(
            !text.is_empty()
                && text
                    .split(',')
                    .all(|p| matches_pattern(r"(order=)?\d+|up=\d+|down=\d+", p)),
            "unable to parse startup options",
        ),
        "pve-hotplug-features" => {
            if text == "0" || text == "1" {
                return Ok(());
            }
            const FEATURES: [&str; 6] = ["network", "disk", "cpu", "memory", "usb", "cloudinit"];
            match split_list(text).find(|f| !FEATURES.contains(f)) {
                Some(bad) => Err(format!("invalid hotplug feature '{bad}'\n")),
                None => Ok(()),
            }
        }
        "pve-qm-bootdev" => {
            let fits =
                is_boot_disk(text) || indexed(text, &[("net", 31), ("usb", 13), ("hostpci", 15)]);
            fine(fits, &format!("invalid boot device '{text}'"))
        }
        "pve-qm-bootdisk" => fine(is_boot_disk(text), &format!("invalid boot disk '{text}'")),
        "pve-phys-bits" => fine(
            text == "host" || text.parse::<u32>().is_ok_and(|n| (8..=64).contains(&n)),
            "value must be an integer between 8 and 64 or 'host'",
        ),
        "pve-cpuset" => fine(
            matches_pattern(r"(\s*\d+(-\d+)?(\s*,\s*\d+(-\d+)?)*\s*)?", text),
            "unable to parse cpuset option",
        ),
        _ => Ok(()),
    }
}

fn is_boot_disk(text: &str) -> bool {
    indexed(
        text,
        &[("ide", 3), ("scsi", 30), ("virtio", 15), ("sata", 5)],
    )
}

/// Whether the text is one of the families with an index up to its last one, without leading zeros.
fn indexed(text: &str, families: &[(&str, u32)]) -> bool {
    families.iter().any(|(family, last)| {
        text.strip_prefix(family)
            .and_then(|n| n.parse::<u32>().ok().filter(|i| i.to_string() == n))
            .is_some_and(|index| index <= *last)
    })
}

fn is_ip(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str, address: impl Fn(&str) -> bool, bits: u32) -> bool {
    text.split_once('/')
        .is_some_and(|(a, p)| address(a) && p.parse::<u32>().is_ok_and(|p| p <= bits && p > 0))
}

fn is_label(text: &str) -> bool {
    matches_pattern(r"[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?", text)
}

/// Labels of letters, digits and inner dashes, joined by dots; the server sets no length.
fn is_dns_name(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(is_label)
}

/// `storage:volume`: both parts there, no white space in the volume.
fn is_volume_id(text: &str) -> bool {
    matches_pattern(r"(?i:[a-z][a-z0-9\-_.]*[a-z0-9]):\S+", text)
}

/// Checks a top-level parameter against its whole schema, as the `errors` of a 400 say it.
///
/// # Errors
/// The text for that parameter, without a trailing newline beyond the server's own.
pub fn check_param(name: &str, schema: &Value, text: &str) -> Result<(), String> {
    check_scalar(name, schema, text)
}
