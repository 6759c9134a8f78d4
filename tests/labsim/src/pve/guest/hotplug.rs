//! What of a change applies to a running guest at once, what waits for its next start, and what is refused by the guest
//! (docs/pve-running.md, "Rules"; held to running.json by `tests/running_replay.rs`).
use super::Guest;
use super::conf::{self, Options, Pending};
use super::drive;
use super::pending::{self, Errors};
use super::perms::Scope;
use super::work::Work;
use crate::pve::propstr::{self, Parsed};
use crate::pve::{PveError, State};
use std::collections::BTreeSet;

/// What to do with one pending entry now.
enum Step {
    /// It is applied.
    Live,
    /// It stays pending; nobody is told.
    Wait,
    /// It stays pending, and the request fails with `hotplug problem - ...`.
    Refuse(String),
}

/// Options that touch nothing of the running machine: they apply before anything else.
const FREE: [&str; 13] = [
    "description",
    "hookscript",
    "lock",
    "migrate_downtime",
    "migrate_speed",
    "name",
    "onboot",
    "protection",
    "shares",
    "startup",
    "tags",
    "vmstatestorage",
    "allow-ksm",
];

/// Keys of a disk whose change needs a new start.
const COLD_DISK_KEYS: [&str; 9] = [
    "discard", "ssd", "iothread", "queues", "cache", "aio", "product", "vendor", "ro",
];

/// Keys of a NIC whose change needs the NIC to be unplugged first; adding or removing the bridge does too.
const COLD_NET_KEYS: [&str; 4] = ["model", "macaddr", "queues", "mtu"];

/// Keys of `agent` that the running machine does not know about.
const FREE_AGENT_KEYS: [&str; 2] = ["fstrim_cloned_disks", "freeze-fs"];

fn family(key: &str) -> &str {
    key.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn is_free(key: &str) -> bool {
    let cloudinit = matches!(
        key,
        "cicustom"
            | "cipassword"
            | "citype"
            | "ciuser"
            | "ciupgrade"
            | "nameserver"
            | "searchdomain"
            | "sshkeys"
    );
    FREE.contains(&key) || cloudinit || family(key) == "ipconfig"
}

/// The features that may be hot-plugged, by the option `hotplug`.
fn features(config: &Options) -> BTreeSet<&str> {
    match conf::text(config, "hotplug").unwrap_or("1").trim() {
        "1" => ["network", "disk", "usb"].into(),
        "0" | "" => BTreeSet::new(),
        list => propstr::split_list(list).collect(),
    }
}

/// Whether the running machine lets go of a device: the guest's system answers, or the device was plugged in after the
/// start and nobody took it, or it is a SCSI disk at a controller that stays.
fn lets_go(guest: &Guest, key: &str) -> Result<(), String> {
    let single = conf::text(&guest.config, "scsihw") == Some("virtio-scsi-single");
    let plugged = guest.run.as_ref().is_some_and(|r| r.plugged.contains(key));
    if guest.guest_os || plugged || (family(key) == "scsi" && !single) {
        return Ok(());
    }
    let device = if family(key) == "scsi" {
        format!("virtio{key}")
    } else {
        key.to_string()
    };
    Err(format!(
        "error on hot-unplugging device '{device}' - still busy in guest?\n"
    ))
}

fn unplug(guest: &Guest, key: &str) -> Step {
    if drive::is_drive(key) && conf::boot_order(&guest.config).iter().any(|d| d == key) {
        return Step::Refuse(format!("can't unplug bootdisk '{key}'\n"));
    }
    match lets_go(guest, key) {
        Ok(()) => Step::Live,
        Err(text) => Step::Refuse(text),
    }
}

/// What becomes of a pending deletion.
fn on_delete(guest: &Guest, key: &str, has: &BTreeSet<&str>) -> Step {
    let when = |ok: bool| if ok { Step::Live } else { Step::Wait };
    match (key, family(key)) {
        ("hotplug", _) => when(
            !conf::text(&guest.config, key)
                .is_some_and(|v| v.contains("cpu") || v.contains("memory")),
        ),
        ("tablet", _) => when(has.contains("usb")),
        ("vcpus", _) => when(has.contains("cpu")),
        ("balloon", _) => when(conf::text(&guest.config, key) != Some("0")),
        ("memory", _) => when(has.contains("memory")),
        ("cpuunits" | "cpulimit", _) => Step::Live,
        (_, "usb") => when(has.contains("usb") && usb_hotplug(&guest.config)),
        (_, "net") if has.contains("network") => unplug(guest, key),
        (_, "scsi" | "virtio") if has.contains("disk") => unplug(guest, key),
        _ => when(is_free(key)),
    }
}

/// Devices of the kind are plugged only into systems that are known to take them.
fn usb_hotplug(config: &Options) -> bool {
    matches!(
        conf::text(config, "ostype"),
        Some("l26" | "win8" | "win10" | "win11")
    )
}

/// What becomes of a pending value.
fn on_set(st: &State, guest: &Guest, key: &str, new: &str, has: &BTreeSet<&str>) -> Step {
    let old = conf::text(&guest.config, key);
    let when = |ok: bool| if ok { Step::Live } else { Step::Wait };
    let number = |v: Option<&str>| {
        v.and_then(|v| {
            conf::parse_option(key, v)
                .and_then(|p| p.get("current").map(str::to_string))
                .or(Some(v.into()))
        })
        .and_then(|v| v.parse::<u64>().ok())
    };
    match (key, family(key)) {
        ("hotplug", _) => when(
            ![Some(new), old]
                .iter()
                .flatten()
                .any(|v| v.contains("memory") || v.contains("cpu")),
        ),
        ("tablet", _) => when(has.contains("usb")),
        ("vcpus", _) if !has.contains("cpu") => Step::Wait,
        ("vcpus", _) if number(Some(new)) < number(old) && !guest.guest_os => {
            Step::Refuse(format!(
                "400 Parameter verification failed.\nvcpus: error unplugging cpu{}\n",
                old.unwrap_or("1")
            ))
        }
        ("vcpus", _) => Step::Live,
        ("balloon", _) => when((new != "0") == (old != Some("0"))),
        ("memory", _) if !has.contains("memory") => Step::Wait,
        ("memory", _) if number(Some(new)) < number(old) && !guest.guest_os => Step::Refuse(
            "400 Parameter verification failed.\ndimm0: error unplug memory module\n".to_string(),
        ),
        ("memory", _) => Step::Live,
        ("cpuunits" | "cpulimit", _) => Step::Live,
        ("agent", _) => when(old.is_some_and(|old| {
            differing("agent", old, new)
                .iter()
                .all(|k| FREE_AGENT_KEYS.contains(&k.as_str()))
        })),
        ("efidisk0" | "tpmstate0", _) => Step::Wait,
        (_, "usb") => when(has.contains("usb") && usb_hotplug(&guest.config)),
        (_, "net") => on_net(st, guest, key, old, new, has.contains("network")),
        _ if drive::is_drive(key) => on_drive(guest, key, old, new, has.contains("disk")),
        _ => when(is_free(key)),
    }
}

/// The keys in which two property strings of an option differ.
fn differing(key: &str, old: &str, new: &str) -> BTreeSet<String> {
    let (old, new) = (
        conf::parse_option(key, old).unwrap_or_default(),
        conf::parse_option(key, new).unwrap_or_default(),
    );
    let all = old.keys.keys().chain(new.keys.keys());
    all.filter(|k| old.get(k) != new.get(k)).cloned().collect()
}

fn on_net(
    st: &State,
    guest: &Guest,
    key: &str,
    old: Option<&str>,
    new: &str,
    allowed: bool,
) -> Step {
    let parsed: Parsed = conf::parse_option(key, new).unwrap_or_default();
    let bridge = parsed.get("bridge");
    let bridge_is_there = bridge.is_none_or(|b| {
        st.nodes
            .iter()
            .any(|n| n.name == guest.node && n.has_bridge(b))
    });
    if let Some(old) = old {
        let changed = differing(key, old, new);
        let old_bridge = conf::parse_option(key, old).is_some_and(|p| p.get("bridge").is_some());
        let cold =
            COLD_NET_KEYS.iter().any(|k| changed.contains(*k)) || !(bridge.is_some() && old_bridge);
        if !cold {
            return match bridge_is_there {
                true => Step::Live,
                false => Step::Refuse(format!(
                    "bridge '{}' does not exist\n",
                    bridge.unwrap_or("")
                )),
            };
        }
        if !allowed {
            return Step::Wait;
        }
        if let Step::Refuse(text) = unplug(guest, key) {
            return Step::Refuse(text);
        }
    }
    if !allowed {
        return Step::Wait;
    }
    match bridge_is_there {
        true => Step::Live,
        false => Step::Refuse(format!(
            "VM {} qmp command 'netdev_add' failed - network script /usr/libexec/qemu-server/pve-bridge-hotplug failed with status 512\n",
            guest.vmid
        )),
    }
}

fn on_drive(guest: &Guest, key: &str, old: Option<&str>, new: &str, allowed: bool) -> Step {
    let parsed = drive::parse(key, new).unwrap_or_default();
    if let Some(old) = old.and_then(|v| drive::parse(key, v)) {
        let kind = |d: &Parsed| d.get("media").unwrap_or("disk").to_string();
        if kind(&old) != kind(&parsed) {
            return Step::Refuse("unable to change media type\n".to_string());
        }
        if kind(&old) == "cdrom" {
            return Step::Live;
        }
        if old.get("file") == parsed.get("file") {
            let cold = COLD_DISK_KEYS.iter().any(|k| old.get(k) != parsed.get(k));
            return if cold { Step::Wait } else { Step::Live };
        }
        if !allowed {
            return Step::Wait;
        }
        if let Step::Refuse(text) = unplug(guest, key) {
            return Step::Refuse(text);
        }
    }
    if allowed && !matches!(family(key), "ide" | "sata") {
        Step::Live
    } else {
        Step::Wait
    }
}

/// Applies what can be applied of the pending entries that this request touched; options without any impact always.
///
/// # Errors
/// Only if the guest is gone; what the guest refuses is in the result.
pub fn apply(work: &Work, scope: &Scope, touched: &BTreeSet<String>) -> Result<Errors, PveError> {
    let mut errors = Errors::new();
    let first = work.guest()?;
    // As they are before this request: a new `hotplug` counts from the next one on (qemu-server, vmconfig_hotplug_pending).
    let has = features(&first.config);
    let mut keys: Vec<String> = first.pending.keys().cloned().collect();
    // Deletions come first, as in the server.
    keys.sort_by_key(|k| (first.pending[k].is_string(), k.clone()));
    for key in keys {
        if !touched.contains(&key) && !is_free(&key) {
            continue;
        }
        let guest = work.guest()?;
        let (step, value) = match conf::pending(&guest.pending, &key) {
            Pending::No => continue,
            Pending::Delete(_) => (on_delete(&guest, &key, &has), None),
            Pending::Value(v) => (
                on_set(&work.lab.st(), &guest, &key, v, &has),
                Some(v.to_string()),
            ),
        };
        match step {
            Step::Wait => continue,
            Step::Refuse(text) => {
                // The server asks the guest for some seconds before it gives up.
                work.pause("hotunplug")?;
                errors.insert(key.clone(), format!("hotplug problem - {text}"));
                continue;
            }
            Step::Live => {}
        }
        if let (Pending::Delete(force), Some(old), true) = (
            conf::pending(&guest.pending, &key),
            conf::text(&guest.config, &key),
            drive::is_drive(&key),
        ) && let Err(e) = pending::drop_drive(work, scope, &key, old, force)
        {
            errors.insert(key.clone(), format!("hotplug problem - {}", e.nested()));
            continue;
        }
        work.edit(|g| {
            let is_new_device = !g.config.contains_key(&key);
            match &value {
                Some(v) => {
                    let replaced = changes_device(&key, conf::text(&g.config, &key), v);
                    pending::set(g, &key, v);
                    if let Some(run) = g.run.as_mut().filter(|_| is_new_device || replaced) {
                        run.plugged.insert(key.clone());
                    }
                }
                None => {
                    g.config.shift_remove(&key);
                    if let Some(run) = g.run.as_mut() {
                        run.plugged.remove(&key);
                    }
                }
            }
            g.pending.shift_remove(&key);
            Ok(())
        })?;
    }
    Ok(errors)
}

/// Whether a device was taken out and another one put in.
fn changes_device(key: &str, old: Option<&str>, new: &str) -> bool {
    let Some(old) = old else { return false };
    let changed = differing(key, old, new);
    match family(key) {
        "net" => COLD_NET_KEYS.iter().any(|k| changed.contains(*k)),
        _ => drive::is_drive(key) && changed.contains("file"),
    }
}
