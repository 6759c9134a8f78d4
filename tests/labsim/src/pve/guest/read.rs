//! What can be read of guests.
use super::conf::{self, Options};
use super::create::{QEMU_VERSION, may_see};
use super::{Guest, load_guest};
use super::{drive, volume_owner};
use crate::pve::{Call, Lab, PveError, propstr};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn guest(lab: &Lab, call: &Call) -> Result<Guest, PveError> {
    load_guest(lab, &call.arg("node"), call.vmid())
}

/// An option's whole number, also inside a property string (`memory`).
fn number(config: &Options, key: &str, inner: &str) -> Option<u64> {
    let value = conf::text(config, key)?;
    value
        .parse()
        .ok()
        .or_else(|| conf::parse_option(key, value)?.get(inner)?.parse().ok())
}

/// Sizes and state as lists and `/cluster/resources` show them.
pub fn summary(lab: &Lab, g: &Guest) -> Map<String, Value> {
    let up = g
        .run
        .as_ref()
        .map(|r| lab.now_ms().saturating_sub(r.since_ms) / 1000);
    let cores =
        number(&g.config, "cores", "").unwrap_or(1) * number(&g.config, "sockets", "").unwrap_or(1);
    let memory = number(&g.config, "memory", "current").unwrap_or(512) << 20;
    let disk = conf::default_boot_disk(&g.config).and_then(|key| {
        let parsed = drive::parse(&key, conf::text(&g.config, &key)?)?;
        parsed.get("size").and_then(|s| s.parse::<u64>().ok())
    });
    let mut out = Map::new();
    out.insert("vmid".into(), json!(g.vmid));
    let prefix = if g.kind == "lxc" { "CT" } else { "VM" };
    let name = conf::text(&g.config, "name")
        .or(conf::text(&g.config, "hostname"))
        .map_or_else(|| format!("{prefix} {}", g.vmid), str::to_string);
    out.insert("name".into(), json!(name));
    out.insert("status".into(), json!(g.status));
    out.insert(
        "cpus".into(),
        json!(number(&g.config, "vcpus", "").unwrap_or(cores)),
    );
    out.insert("maxmem".into(), json!(memory));
    out.insert("maxdisk".into(), json!(disk.unwrap_or(0)));
    out.insert("uptime".into(), json!(up.unwrap_or(0)));
    out.insert(
        "mem".into(),
        json!(if up.is_some() { memory / 4 } else { 0 }),
    );
    for zero in [
        "cpu",
        "disk",
        "netin",
        "netout",
        "memhost",
        "diskread",
        "diskwrite",
    ] {
        out.insert(zero.into(), json!(0));
    }
    for key in ["lock", "tags"] {
        if let Some(value) = conf::text(&g.config, key).filter(|v| !v.trim().is_empty()) {
            out.insert(key.into(), json!(value));
        }
    }
    if conf::is_on(&g.config, "template") {
        out.insert("template".into(), json!(1));
    }
    out
}

/// `GET /nodes/{node}/qemu`: only guests that the asker may audit.
pub fn list(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let guests: Vec<Guest> = {
        let st = lab.st();
        let node = call.arg("node");
        st.guests
            .values()
            .filter(|g| g.node == node && g.kind == "qemu" && may_see(&st, call, g.vmid))
            .cloned()
            .collect()
    };
    let mut rows: Vec<Value> = guests
        .iter()
        .map(|g| Value::Object(summary(lab, g)))
        .collect();
    // The server lists a hash: any order is possible.
    let turn = lab.rng().below(rows.len() as u64) as usize;
    rows.rotate_left(turn);
    Ok(json!(rows))
}

/// `GET /nodes/{node}/qemu/{vmid}`.
pub fn index(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    guest(lab, call)?;
    let names = [
        "config", "pending", "status", "unlink", "vncproxy", "migrate", "resize", "move", "rrd",
        "agent", "snapshot", "firewall",
    ];
    Ok(names.iter().map(|n| json!({"subdir": n})).collect())
}

/// `GET .../status`.
pub fn status_index(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    guest(lab, call)?;
    Ok([
        "current", "start", "stop", "reset", "shutdown", "suspend", "reboot",
    ]
    .iter()
    .map(|n| json!({"subdir": n}))
    .collect())
}

/// `GET .../config`: with pending values merged in, unless `current=1`; or of a snapshot.
pub fn config(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let options = match call.text("snapshot") {
        Some(name) => {
            let found = g.snapshots.iter().find(|s| s.name == name);
            found
                .ok_or_else(|| PveError::die(format!("snapshot '{name}' does not exist")))?
                .config
                .clone()
        }
        None if call.flag("current") => g.config.clone(),
        None => conf::merged(&g.config, &g.pending),
    };
    let mut out: Map<String, Value> = options
        .iter()
        .map(|(k, v)| (k.clone(), conf::shown(k, v.as_str().unwrap_or(""))))
        .collect();
    out.insert("digest".into(), json!(g.digest()));
    Ok(Value::Object(out))
}

/// `GET .../pending`: every option with its value, its pending value, its pending deletion (2 = with the volume).
pub fn pending(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let mut rows = Vec::new();
    for (key, value) in &g.config {
        let mut row = json!({"key": key, "value": conf::shown(key, value.as_str().unwrap_or(""))});
        match conf::pending(&g.pending, key) {
            conf::Pending::Value(new) => row["pending"] = conf::shown(key, new),
            conf::Pending::Delete(force) => row["delete"] = json!(if force { 2 } else { 1 }),
            conf::Pending::No => {}
        }
        rows.push(row);
    }
    for (key, value) in g
        .pending
        .iter()
        .filter(|(k, v)| v.is_string() && !g.config.contains_key(*k))
    {
        rows.push(json!({"key": key, "pending": conf::shown(key, value.as_str().unwrap_or(""))}));
    }
    rows.push(json!({"key": "digest", "value": g.digest()}));
    Ok(json!(rows))
}

/// `GET .../status/current`.
pub fn current(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let mut out = summary(lab, &g);
    let managed = lab.st().ha.contains_key(&format!("vm:{}", g.vmid));
    out.insert("ha".into(), json!({"managed": u8::from(managed)}));
    let paused = g.run.as_ref().is_some_and(|r| r.paused);
    out.insert(
        "qmpstatus".into(),
        json!(if paused { "paused" } else { g.status.as_str() }),
    );
    if g.run.is_some() {
        out.insert("pid".into(), json!(g.vmid + 1000));
        out.insert("running-qemu".into(), json!(QEMU_VERSION));
        let machine = conf::text(&g.config, "machine").unwrap_or("pc-i440fx-10.0");
        out.insert(
            "running-machine".into(),
            json!(machine.split('+').next().unwrap_or(machine)),
        );
    }
    if agent_enabled(&g.config) {
        out.insert("agent".into(), json!(1));
    }
    Ok(Value::Object(out))
}

/// Whether the option `agent` enables it.
pub fn agent_enabled(config: &Options) -> bool {
    conf::text(config, "agent")
        .and_then(|a| conf::parse_option("agent", a))
        .is_some_and(|a| a.is_on("enabled"))
}

/// `GET .../feature`: whether clone, copy or snapshot are possible.
pub fn feature(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let has = match call.arg("feature").as_str() {
        "snapshot" => super::snapshot::possible(&lab.st(), &g.config),
        _ => true,
    };
    Ok(json!({"hasFeature": u8::from(has), "nodes": [g.node]}))
}

/// `GET .../cloudinit`: the options that go into the drive.
pub fn cloudinit(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let keys = [
        "ciuser",
        "cipassword",
        "citype",
        "ciupgrade",
        "cicustom",
        "nameserver",
        "searchdomain",
        "sshkeys",
    ];
    Ok(keys
        .iter()
        .filter_map(|k| Some(json!({"key": k, "value": conf::shown(k, conf::text(&g.config, k)?)})))
        .collect())
}

/// `PUT .../cloudinit`: writes the drive anew; it holds nothing that the lab would read.
pub fn regenerate_cloudinit(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    guest(lab, call)?;
    Ok(Value::Null)
}

/// Every volume that a guest's options name, by key, unused ones too; `(key, volume id, is a CD)`.
pub fn volumes(options: &Options) -> Vec<(String, String, bool)> {
    let mut out: Vec<(String, String, bool)> = Vec::new();
    for (key, value) in options {
        let value = value.as_str().unwrap_or("");
        if drive::is_drive(key) {
            if let Some(parsed) = drive::parse(key, value) {
                let file = parsed.get("file").unwrap_or("").to_string();
                let cdrom = parsed.get("media") == Some("cdrom") && !drive::is_cloudinit(&parsed);
                out.push((key.clone(), file, cdrom));
            }
        } else if key.starts_with("unused") {
            let file = conf::parse_option(key, value)
                .and_then(|mut p| p.take("file"))
                .unwrap_or_default();
            out.push((key.clone(), file, false));
        }
    }
    out.retain(|(_, file, _)| propstr::check_format("pve-volume-id", file).is_ok());
    out.sort();
    out
}

/// The volumes that belong to the guest itself.
pub fn own_volumes(g: &Guest) -> Vec<(String, String)> {
    let mut all = volumes(&g.config);
    all.extend(volumes(&g.pending));
    g.snapshots
        .iter()
        .for_each(|s| all.extend(volumes(&s.config)));
    let mut out: Vec<(String, String)> = Vec::new();
    for (key, file, cdrom) in all {
        if !cdrom && volume_owner(&file) == Some(g.vmid) && !out.iter().any(|(_, f)| *f == file) {
            out.push((key, file));
        }
    }
    out
}
