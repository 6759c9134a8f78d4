//! A guest's configuration as the server keeps it: the stored text, its digest, pending values, what GET shows.
use super::drive;
use crate::pve::{propstr, schema};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Options by name; every value is text.
pub type Options = Map<String, Value>;

/// A snapshot: the options as they were.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The options, with `snaptime`, `parent` and `description` of the snapshot itself.
    pub config: Options,
}

/// The text of an option.
pub fn text<'a>(options: &'a Options, key: &str) -> Option<&'a str> {
    options.get(key).and_then(Value::as_str)
}

/// Whether an option is set and neither `0` nor empty.
pub fn is_on(options: &Options, key: &str) -> bool {
    text(options, key).is_some_and(|v| v != "0" && !v.is_empty())
}

/// What is pending for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending<'a> {
    /// Nothing.
    No,
    /// A new value.
    Value(&'a str),
    /// It will be removed; with `true` a disk's volume is destroyed.
    Delete(bool),
}

/// Reads a pending entry: text is a new value, `null` a deletion, `true` a forced one.
pub fn pending<'a>(pending: &'a Options, key: &str) -> Pending<'a> {
    match pending.get(key) {
        None => Pending::No,
        Some(Value::String(s)) => Pending::Value(s),
        Some(Value::Bool(force)) => Pending::Delete(*force),
        Some(_) => Pending::Delete(false),
    }
}

/// The value that stands for a pending deletion.
pub fn deletion(force: bool) -> Value {
    if force {
        Value::Bool(true)
    } else {
        Value::Null
    }
}

/// Parameters of PUT config that are no options of a guest.
const NO_OPTIONS: [&str; 11] = [
    "node",
    "vmid",
    "digest",
    "delete",
    "revert",
    "skiplock",
    "force",
    "background_delay",
    "cdrom",
    "import-working-storage",
    "live-restore",
];

/// What PUT and POST config may set, and what only the server writes.
static SERVER_KEYS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    [
        "meta",
        "parent",
        "snaptime",
        "vmstate",
        "runningmachine",
        "runningcpu",
    ]
    .into()
});

/// The schema of an option of a guest (`net3` finds that of `net[n]`).
pub fn option_schema(key: &str) -> Option<&'static Value> {
    if NO_OPTIONS.contains(&key) {
        return None;
    }
    let all =
        &schema::method("/nodes/{node}/qemu/{vmid}/config", "POST")?["parameters"]["properties"];
    if let Some(found) = all.get(key) {
        return Some(found);
    }
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let index: u64 = key[family.len()..].parse().ok()?;
    let found = all.get(format!("{family}[n]"))?;
    let last = found["index_max"].as_u64()?;
    (index <= last && key == format!("{family}{index}")).then_some(found)
}

/// Whether a guest can have such an option (`delete` and `revert` of others are refused).
pub fn option_exists(key: &str) -> bool {
    option_schema(key).is_some() || SERVER_KEYS.contains(key)
}

/// Parses an option's property string by its schema. `None` if it has no such format or is malformed.
pub fn parse_option(key: &str, value: &str) -> Option<propstr::Parsed> {
    propstr::parse(option_schema(key)?["format"].as_object()?, value).ok()
}

/// The stored text of a guest: options, `[PENDING]`, snapshots.
pub fn stored_text(config: &Options, pending: &Options, snapshots: &[Snapshot]) -> String {
    let mut out = section(config);
    if !pending.is_empty() {
        out.push_str("\n[PENDING]\n");
        let gone: Vec<String> = sorted(pending)
            .filter(|(_, v)| !v.is_string())
            .map(|(k, v)| {
                if *v == Value::Bool(true) {
                    format!("!{k}")
                } else {
                    k.clone()
                }
            })
            .collect();
        if !gone.is_empty() {
            out.push_str(&format!("delete: {}\n", gone.join(",")));
        }
        let values: Options = pending
            .iter()
            .filter(|(_, v)| v.is_string())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        out.push_str(&section(&values));
    }
    for snapshot in snapshots {
        out.push_str(&format!(
            "\n[{}]\n{}",
            snapshot.name,
            section(&snapshot.config)
        ));
    }
    out
}

fn section(options: &Options) -> String {
    let mut out = String::new();
    for line in text(options, "description")
        .into_iter()
        .flat_map(str::lines)
    {
        out.push_str(&format!("#{}\n", line.replace('%', "%25")));
    }
    for (key, value) in sorted(options) {
        if key != "description"
            && let Some(value) = value.as_str()
        {
            out.push_str(&format!("{key}: {value}\n"));
        }
    }
    out
}

fn sorted(options: &Options) -> impl Iterator<Item = (&String, &Value)> {
    let mut all: Vec<_> = options.iter().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all.into_iter()
}

/// SHA-1 of a text, in hexadecimal: the digest that PUT config compares.
pub fn sha1_hex(text: &str) -> String {
    use sha1::{Digest, Sha1};
    Sha1::digest(text.as_bytes())
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// An option's value as GET shows it: integers and booleans as numbers, all else as text, passwords masked.
pub fn shown(key: &str, value: &str) -> Value {
    if key == "cipassword" {
        return json!("**********");
    }
    let kind = option_schema(key).map_or("", |s| s["type"].as_str().unwrap_or(""));
    if matches!(kind, "integer" | "boolean") || key == "snaptime" {
        return value
            .parse::<i64>()
            .map_or_else(|_| json!(value), |n| json!(n));
    }
    json!(value)
}

/// What an option is stored as; the server normalises some when it writes them.
///
/// # Errors
/// 500 `unable to parse value of 'cores' - ...`, for an integer that the file's parser does not take (`+2`).
pub fn normalise(key: &str, value: &str, options: &Map<String, Value>) -> Result<String, String> {
    let kind = option_schema(key).map_or("", |s| s["type"].as_str().unwrap_or(""));
    if kind == "integer"
        && !value
            .trim_start_matches('-')
            .bytes()
            .all(|b| b.is_ascii_digit())
    {
        return Err(format!(
            "unable to parse value of '{key}' - type check ('integer') failed - got '{value}'"
        ));
    }
    let out = match key {
        "cpuunits" => value
            .parse::<u64>()
            .map_or_else(|_| value.to_string(), |n| n.clamp(1, 10_000).to_string()),
        "tags" => tags(value, options),
        // Stored as comment lines and as a value that does not parse back: empty ones vanish.
        "description" => return Ok(value.trim_end().to_string()),
        "affinity" => return Ok(value.trim().to_string()),
        _ => value.to_string(),
    };
    Ok(if out.is_empty() { " ".to_string() } else { out })
}

/// Unique tags joined by `;`; sorted and lower-cased unless the datacenter's `tag-style` says otherwise.
fn tags(value: &str, options: &Map<String, Value>) -> String {
    let style = &options.get("tag-style").cloned().unwrap_or_default();
    let has = |key: &str, want: &str| {
        style[key].as_str() == Some(want)
            || style
                .as_str()
                .is_some_and(|s| s.split(',').any(|p| p == format!("{key}={want}")))
    };
    let keeps_case = has("case-sensitive", "1")
        || style["case-sensitive"] == 1
        || style["case-sensitive"] == true;
    let mut seen = BTreeSet::new();
    let mut all: Vec<String> = propstr::split_list(value)
        .map(|t| {
            if keeps_case {
                t.to_string()
            } else {
                t.to_lowercase()
            }
        })
        .filter(|t| seen.insert(t.clone()))
        .collect();
    if !has("ordering", "config") {
        all.sort();
    }
    all.join(";")
}

/// The boot devices in order; empty if the order is of the old kind or not set.
pub fn boot_order(config: &Options) -> Vec<String> {
    let order = text(config, "boot")
        .and_then(|b| parse_option("boot", b))
        .and_then(|mut p| p.take("order"));
    order
        .iter()
        .flat_map(|o| propstr::split_list(o))
        .map(str::to_string)
        .collect()
}

/// `boot` for these devices; one space if there are none, as the server stores it.
pub fn print_boot_order(devices: &[String]) -> String {
    if devices.is_empty() {
        " ".to_string()
    } else {
        format!("order={}", devices.join(";"))
    }
}

/// What the server boots from when nobody says: the first disk, the first CD drive, the first NIC.
pub fn default_boot(config: &Options) -> String {
    let first = |cdrom: bool| {
        drive::boot_drive_names()
            .find(|key| text(config, key).is_some_and(|v| drive::is_cdrom(key, v) == cdrom))
    };
    let mut devices: Vec<String> = [first(false), first(true)].into_iter().flatten().collect();
    devices.extend(
        (0..32)
            .map(|n| format!("net{n}"))
            .find(|key| config.contains_key(key)),
    );
    print_boot_order(&devices)
}

/// Volumes that drives of these options use (not those in `unusedN`).
pub fn used_volumes(options: &Options) -> BTreeSet<String> {
    options
        .iter()
        .filter(|(k, _)| drive::is_drive(k))
        .filter_map(|(k, v)| drive::parse(k, v.as_str()?))
        .filter_map(|d| d.get("file").map(str::to_string))
        .collect()
}

/// Puts a volume into the first free `unusedN` unless it is there already. Returns the key.
pub fn add_unused(config: &mut Options, volid: &str) -> String {
    let free = (0..256)
        .map(|n| format!("unused{n}"))
        .find(|key| text(config, key).is_none_or(|v| v == volid));
    let present = config
        .iter()
        .find(|(k, v)| k.starts_with("unused") && v.as_str() == Some(volid))
        .map(|(k, _)| k.clone());
    let key = present.or(free).unwrap_or_else(|| "unused0".to_string());
    config.insert(key.clone(), json!(volid));
    key
}

/// Drops the `unusedN` whose volume a drive uses again, as the server does whenever it writes a configuration.
pub fn drop_used_unused(config: &mut Options) {
    let used = used_volumes(config);
    let gone: Vec<String> = config
        .iter()
        .filter(|(k, v)| k.starts_with("unused") && v.as_str().is_some_and(|v| used.contains(v)))
        .map(|(k, _)| k.clone())
        .collect();
    for key in gone {
        config.shift_remove(&key);
    }
}

/// Drops pending entries that change nothing.
pub fn cleanup_pending(config: &Options, pending: &mut Options) {
    pending.retain(|key, value| match value {
        Value::String(new) => text(config, key) != Some(new),
        _ => config.contains_key(key),
    });
}

/// The options as GET config shows them: pending values merged in. The server drops pending-deleted ones only if their
/// value is true (recorded: `kvm: 0` stays visible while its deletion is pending).
pub fn merged(config: &Options, pending: &Options) -> Options {
    let mut out = config.clone();
    for (key, value) in pending {
        match value {
            Value::String(_) => {
                out.insert(key.clone(), value.clone());
            }
            _ if text(config, key) == Some("0") => {}
            _ => {
                out.shift_remove(key);
            }
        }
    }
    out
}

/// The disk that the server counts as the guest's (`maxdisk`): the first that is booted from, else the first there is.
pub fn default_boot_disk(config: &Options) -> Option<String> {
    let is_disk = |key: &String| {
        text(config, key).is_some_and(|v| drive::is_drive(key) && !drive::is_cdrom(key, v))
    };
    boot_order(config)
        .into_iter()
        .find(is_disk)
        .or_else(|| drive::boot_drive_names().find(is_disk))
}
