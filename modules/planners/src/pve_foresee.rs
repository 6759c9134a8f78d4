//! What a change of a guest's configuration makes of the guest: the effects of configuration steps.
//!
//! A stopped guest takes everything at once. On a running one some options apply live and others stay pending
//! (source: docs/pve-running.md). Where that depends on the guest's own cooperation (unplugging a PCI device), it is foreseen
//! as pending, and no diff shows it.

use crate::pve_common::{Guest, text};
use pve::schema::Kind;
use pve::{ConfigKey, Family, PropString};
use serde_json::{Map, Value, json};

/// One option to be set: what is sent, and what the server makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Option, such as `net0`.
    pub key: String,
    /// The parameter's value.
    pub sent: String,
    /// As GET config will show it.
    pub stored: String,
}

impl Setting {
    /// An option that is stored as it is sent.
    pub fn plain(key: impl Into<String>, value: impl Into<String>) -> Self {
        let value = value.into();
        Setting {
            key: key.into(),
            sent: value.clone(),
            stored: value,
        }
    }
}

/// A change of one configuration, in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Options to be set, in the order in which they are sent.
    pub set: Vec<Setting>,
    /// Options to be removed.
    pub delete: Vec<String>,
    /// Whether the volumes of removed drives are destroyed, instead of becoming unused.
    pub force: bool,
    /// Pending changes to be dropped.
    pub revert: Vec<String>,
}

impl Change {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.delete.is_empty() && self.revert.is_empty()
    }
}

/// A value in the type in which GET config returns it (docs/pve-facts.md, Types).
pub fn json_of(key: &str, text: &str) -> Value {
    let number = key
        .parse::<ConfigKey>()
        .is_ok_and(|k| matches!(k.schema().kind, Kind::Integer | Kind::Boolean));
    match text.parse::<i64>() {
        Ok(n) if number => json!(n),
        _ => json!(text),
    }
}

fn drive(key: &str, value: &str) -> Option<PropString> {
    PropString::parse(key, value).ok()
}

/// Whether a drive's value is a CD-ROM (cloud-init drives too).
pub fn is_cdrom(key: &str, value: &str) -> bool {
    drive(key, value).is_some_and(|d| pve::boot::is_cdrom(&d))
}

fn volume(value: &str) -> &str {
    let first = value.split(',').next().unwrap_or("");
    first
        .strip_prefix("file=")
        .or(first.strip_prefix("volume="))
        .unwrap_or(first)
}

/// The guest after the change; its digest is unknown then and left empty.
pub fn changed(guest: &Guest<'_>, running: bool, change: &Change) -> Value {
    let mut config = guest.config().clone();
    let mut touched: Vec<String> = Vec::new();
    let explicit_boot =
        change.set.iter().any(|s| s.key == "boot") || change.delete.iter().any(|d| d == "boot");
    for key in &change.revert {
        match guest.current().get(key) {
            Some(v) => config.insert(key.clone(), v.clone()),
            None => config.remove(key),
        };
    }
    let mut detached: Vec<String> = Vec::new();
    for key in &change.delete {
        let Some(old) = config.remove(key).map(|v| text(&v)) else {
            continue;
        };
        touched.push(key.clone());
        let boot = config.get("boot").map(text).unwrap_or_default();
        if !explicit_boot && let Some(b) = pve::boot::after_delete(&boot, &[key.as_str()]) {
            config.insert("boot".into(), json!(b));
            touched.push("boot".into());
        }
        let disk = key
            .parse::<ConfigKey>()
            .is_ok_and(|k| k.is_drive() && k.family() != Family::Unused);
        if disk && !change.force && !is_cdrom(key, &old) && volume(&old).contains(':') {
            detached.push(volume(&old).to_owned());
        }
    }
    for s in &change.set {
        let old = config
            .insert(s.key.clone(), json_of(&s.key, &s.stored))
            .map(|v| text(&v));
        touched.push(s.key.clone());
        let Ok(key) = s.key.parse::<ConfigKey>() else {
            continue;
        };
        if !key.is_drive() {
            continue;
        }
        if let Some(old) = old
            && !is_cdrom(&s.key, &old)
            && volume(&old) != volume(&s.stored)
            && volume(&old).contains(':')
        {
            detached.push(volume(&old).to_owned());
        }
        // Source: docs/pve-running.md rule 8, and `put-add-cdrom` of create-config-cases.json: a CD-ROM that is set joins the order.
        let boot = config.get("boot").map(text).unwrap_or_default();
        let joins = key.is_bus_drive()
            && drive(&s.key, &s.stored)
                .is_some_and(|d| pve::boot::is_cdrom(&d) && !pve::boot::is_cloudinit(&d));
        if joins
            && !explicit_boot
            && let Some(b) = pve::boot::after_new_cdrom(&boot, &s.key)
        {
            config.insert("boot".into(), json!(b));
            touched.push("boot".into());
        }
        // A volume that is attached again is no longer unused.
        let file = volume(&s.stored).to_owned();
        config.retain(|k, v| !(k.starts_with("unused") && text(v) == file));
    }
    // Recorded for `ostype` (running.json). No recording has `machine` alone set on a Windows guest; it is taken as it is sent.
    if is_windows_unpinned(&config) && change.set.iter().any(|s| s.key == "ostype") {
        let pinned = pinned_machine(config.get("machine").map(text).as_deref());
        config.insert("machine".into(), json!(pinned));
        touched.push("machine".into());
    }
    let mut out = guest.0.clone();
    let (mut current, mut pending) = (guest.current().clone(), guest.pending().clone());
    for key in &change.revert {
        pending.remove(key);
    }
    if running {
        let was = guest.current();
        for key in &touched {
            let (old, new) = (was.get(key).map(text), config.get(key).map(text));
            if old == new {
                pending.remove(key);
            } else if is_live(key, old.as_deref(), new.as_deref(), was) {
                pending.remove(key);
                match config.get(key) {
                    Some(v) => current.insert(key.clone(), v.clone()),
                    None => current.remove(key),
                };
            } else {
                pending.insert(key.clone(), config.get(key).cloned().unwrap_or(Value::Null));
            }
        }
        // A disk becomes unused when it is really gone from the guest.
        for v in detached {
            let still = current
                .iter()
                .any(|(k, c)| !k.starts_with("unused") && volume(&text(c)) == v);
            if !still {
                add_unused(&mut config, &v);
                add_unused(&mut current, &v);
            }
        }
    } else {
        for v in detached {
            add_unused(&mut config, &v);
        }
        current = config.clone();
        pending.clear();
    }
    if let Some(o) = out.as_object_mut() {
        o.insert("config".into(), Value::Object(config));
        o.insert("current".into(), Value::Object(current));
        o.insert("pending".into(), Value::Object(pending));
        o.insert("digest".into(), json!(""));
    }
    let mut keys = destroys(guest.0);
    keys.retain(|k| !change.delete.contains(k));
    if change.force {
        keys.extend(change.delete.iter().cloned());
    }
    keep_destroys(&mut out, keys);
    out
}

fn add_unused(config: &mut Map<String, Value>, volume: &str) {
    if config
        .iter()
        .any(|(k, v)| k.starts_with("unused") && text(v) == volume)
    {
        return;
    }
    if let Some(free) = pve::volume::free_unused(config) {
        config.insert(free, json!(volume));
    }
}

/// The guest after it was stopped: what was pending is applied (docs/pve-running.md, rule 6).
pub fn stopped(guest: &Guest<'_>) -> Value {
    let mut out = guest.0.clone();
    let mut config = guest.config().clone();
    let gone: Vec<String> = guest
        .pending()
        .iter()
        .filter(|(k, v)| {
            let disk = k
                .parse::<ConfigKey>()
                .is_ok_and(|k| k.is_drive() && k.family() != Family::Unused);
            v.is_null() && disk && !destroys(guest.0).contains(k)
        })
        .filter_map(|(k, _)| guest.current().get(k).map(|v| (k, text(v))))
        .filter(|(k, old)| !is_cdrom(k, old) && volume(old).contains(':'))
        .map(|(_, old)| volume(&old).to_owned())
        .collect();
    for v in gone {
        add_unused(&mut config, &v);
    }
    if let Some(o) = out.as_object_mut() {
        o.insert("current".into(), Value::Object(config.clone()));
        o.insert("config".into(), Value::Object(config));
        o.insert("pending".into(), json!({}));
        o.remove(DESTROYS);
        o.insert("digest".into(), json!(""));
    }
    out
}

/// The key of a guest's fact that lists the drives whose pending removal destroys their volumes; it is left out when there are none.
const DESTROYS: &str = "destroys";

fn destroys(guest: &Value) -> Vec<String> {
    let all = guest[DESTROYS].as_array().into_iter().flatten();
    all.filter_map(|k| k.as_str().map(str::to_owned)).collect()
}

/// Writes that list; what is not waiting for its removal is no part of it.
fn keep_destroys(guest: &mut Value, mut keys: Vec<String>) {
    keys.retain(|k| guest["pending"].get(k).is_some_and(Value::is_null));
    keys.sort();
    if let Some(o) = guest.as_object_mut() {
        match keys.is_empty() {
            true => o.remove(DESTROYS),
            false => o.insert(DESTROYS.into(), json!(keys)),
        };
    }
}

/// Whether the server pins the machine's version: Windows guests without one (docs/pve-facts.md).
pub fn is_windows_unpinned(config: &Map<String, Value>) -> bool {
    let windows = config
        .get("ostype")
        .map(text)
        .is_some_and(|o| o.starts_with('w'));
    let machine = config.get("machine").map(text).unwrap_or_default();
    windows
        && !machine
            .split(',')
            .any(|p| p.contains("pc-q35-") || p.contains("pc-i440fx-"))
}

/// The pinned machine type, with the version that only the node knows left open.
pub fn pinned_machine(machine: Option<&str>) -> String {
    let wanted = machine.unwrap_or("pc");
    let (kind, rest) = wanted
        .split_once(',')
        .map_or((wanted, None), |(k, r)| (k, Some(r)));
    let family = if kind == "q35" || kind == "type=q35" {
        "pc-q35"
    } else {
        "pc-i440fx"
    };
    let pinned = format!("{family}-{}", plan::SERVER);
    match rest {
        Some(r) => format!("{pinned},{r}"),
        None => pinned,
    }
}

/// A machine type with its version masked when the server chose it.
pub fn mask_machine(stored: &str) -> String {
    stored
        .split(',')
        .map(|p| {
            for family in ["pc-q35-", "pc-i440fx-"] {
                if p.strip_prefix("type=").unwrap_or(p).starts_with(family) {
                    return format!("{family}{}", plan::SERVER);
                }
            }
            p.to_owned()
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// Options that are applied to a running guest by themselves (docs/pve-running.md, table).
const LIVE: &[&str] = &[
    "name",
    "description",
    "tags",
    "onboot",
    "startup",
    "protection",
    "cpulimit",
    "cpuunits",
    "shares",
    "lock",
    "migrate_downtime",
    "migrate_speed",
    "hookscript",
    "vmstatestorage",
    "ciuser",
    "cipassword",
    "citype",
    "cicustom",
    "ciupgrade",
    "nameserver",
    "searchdomain",
    "sshkeys",
    "affinity",
];
/// Keys of a disk that make the whole disk pending; any other applies live, if only on paper (rule 9, and qemu-server,
/// QemuServer.pm, vmconfig_update_disk).
const PENDING_DISK: &[&str] = &[
    "file", "media", "aio", "cache", "discard", "iothread", "product", "queues", "ro", "ssd",
    "vendor",
];
/// Keys of a NIC that need the device unplugged and plugged again (rule 10).
const REPLUG_NIC: &[&str] = &["model", "macaddr", "queues", "mtu", "host-tunnel"];

/// Whether a changed card is unplugged and plugged again. A number that is given and one that is not differ to the server, 0 too
/// (source: qemu-server, QemuServer.pm, vmconfig_update_net with safe_num_ne).
fn replugs(before: &PropString, after: &PropString) -> bool {
    before
        .diff(after)
        .iter()
        .any(|d| REPLUG_NIC.contains(&d.name.as_str()))
        || ["queues", "mtu"]
            .iter()
            .any(|n| before.get(n).is_some() != after.get(n).is_some())
}

fn hotplugs(current: &Map<String, Value>, feature: &str) -> bool {
    match current.get("hotplug").map(text).as_deref() {
        None | Some("1") => ["network", "disk", "usb"].contains(&feature),
        Some(list) => list.split([',', ';']).any(|f| f.trim() == feature),
    }
}

/// Whether a change of that option applies to the running guest at once.
fn is_live(key: &str, old: Option<&str>, new: Option<&str>, current: &Map<String, Value>) -> bool {
    if LIVE.contains(&key) || key.starts_with("ipconfig") {
        return true;
    }
    let number = |v: Option<&str>| v.and_then(|v| v.parse::<u64>().ok());
    match key {
        "tablet" => return hotplugs(current, "usb"),
        "hotplug" => {
            let has = |v: Option<&str>| {
                v.is_some_and(|v| v.split([',', ';']).any(|f| ["cpu", "memory"].contains(&f)))
            };
            return !has(old) && !has(new);
        }
        "balloon" => return number(old) != Some(0) && number(new) != Some(0),
        "vcpus" => return hotplugs(current, "cpu"),
        "memory" => return hotplugs(current, "memory") && number(new) > number(old),
        "agent" => {
            let part = |v: Option<&str>| {
                let p = v.and_then(|v| pve::parse("agent", v).ok());
                p.map(|p| (p.get_bool("enabled"), p.get("type").map(str::to_owned)))
            };
            return part(old) == part(new);
        }
        _ => {}
    }
    let Ok(k) = key.parse::<ConfigKey>() else {
        return false;
    };
    let parsed = |v: Option<&str>| v.and_then(|v| PropString::parse(key, v).ok());
    let (before, after) = (parsed(old), parsed(new));
    if k.is_net() {
        return match (before, after) {
            (None, Some(_)) => hotplugs(current, "network"),
            (Some(b), Some(a)) => {
                b.get("bridge").is_some() == a.get("bridge").is_some() && !replugs(&b, &a)
            }
            _ => false,
        };
    }
    if k.is_bus_drive() {
        let pluggable =
            matches!(k.family(), Family::Scsi | Family::Virtio) && hotplugs(current, "disk");
        let single = current.get("scsihw").map(text).as_deref() == Some("virtio-scsi-single");
        return match (before, after) {
            (None, Some(_)) => pluggable,
            (Some(_), None) => {
                pluggable && k.family() == Family::Scsi && !single && !boots_from(current, key)
            }
            (Some(b), Some(a)) => {
                if is_cdrom(key, old.unwrap_or("")) && is_cdrom(key, new.unwrap_or("")) {
                    return true;
                }
                !b.diff(&a)
                    .iter()
                    .any(|d| PENDING_DISK.contains(&d.name.as_str()))
            }
            (None, None) => true,
        };
    }
    if k.stem() == "usb" {
        let os = current.get("ostype").map(text).unwrap_or_default();
        return hotplugs(current, "usb")
            && ["l26", "win8", "win10", "win11"].contains(&os.as_str());
    }
    k.family() == Family::Unused
}

/// Whether the guest boots from that device: the server never unplugs it (docs/pve-running.md, rule 8).
fn boots_from(current: &Map<String, Value>, key: &str) -> bool {
    let boot = current.get("boot").map(text).unwrap_or_default();
    pve::boot::after_delete(&boot, &[key]).is_some()
}

/// The options of a change that the running guest itself decides about: whether it lets go of a device, of memory or of a CPU
/// at once is seen only when it is asked (docs/pve-running.md, rules 3, 8, 10, 12).
pub fn guest_decides(guest: &Guest<'_>, change: &Change) -> Vec<String> {
    let was = guest.current();
    let number = |v: &str| v.parse::<u64>().ok();
    let decides = |key: &str, new: Option<&str>| -> bool {
        let Some(old) = was.get(key).map(text) else {
            return false;
        };
        match key {
            "vcpus" => {
                return hotplugs(was, "cpu") && new.and_then(number) < number(&old);
            }
            "memory" => {
                return hotplugs(was, "memory") && new.and_then(number) < number(&old);
            }
            _ => {}
        }
        let Ok(k) = key.parse::<ConfigKey>() else {
            return false;
        };
        let parsed = |v: &str| PropString::parse(key, v).ok();
        let differs = |names: &[&str]| match (parsed(&old), new.and_then(parsed)) {
            (Some(b), Some(a)) => b.diff(&a).iter().any(|d| names.contains(&d.name.as_str())),
            _ => true,
        };
        if k.is_net() {
            let replugged = match (parsed(&old), new.and_then(parsed)) {
                (Some(b), Some(a)) => replugs(&b, &a),
                _ => true,
            };
            return hotplugs(was, "network")
                && (replugged || differs(&["bridge"]))
                && !is_live(key, Some(&old), new, was);
        }
        let pluggable = matches!(k.family(), Family::Scsi | Family::Virtio);
        pluggable
            && hotplugs(was, "disk")
            && !is_cdrom(key, &old)
            && differs(&["file"])
            && !boots_from(was, key)
            && !is_live(key, Some(&old), new, was)
    };
    let set = change.set.iter().map(|s| (&s.key, Some(s.stored.as_str())));
    let gone = change.delete.iter().map(|d| (d, None));
    set.chain(gone)
        .filter(|(key, new)| decides(key, *new))
        .map(|(key, _)| key.clone())
        .collect()
}

/// What is pending, for results: option to new value, null where it is to be removed; by name, since the server's order follows
/// the order of its changes.
pub fn pending_of(guest: &Guest<'_>) -> Map<String, Value> {
    let mut pending = guest.pending().clone();
    pending.sort_keys();
    pending
}
