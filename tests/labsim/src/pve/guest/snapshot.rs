//! Snapshots: as far as a migration meets them. Disks in qcow2 get real internal snapshots.
use super::conf::{self, Options, Snapshot};
use super::read::volumes;
use super::work::{self, FileLock, Work};
use super::{Guest, disks, load_guest};
use crate::pve::storage;
use crate::pve::{Call, Lab, PveError, State};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

fn guest(lab: &Lab, call: &Call) -> Result<Guest, PveError> {
    load_guest(lab, &call.arg("node"), call.vmid())
}

/// The disks that a snapshot holds.
fn disks_of(options: &Options) -> Vec<(String, String)> {
    let all = volumes(options)
        .into_iter()
        .filter(|(k, _, cdrom)| !cdrom && !k.starts_with("unused"));
    all.map(|(k, v, _)| (k, v)).collect()
}

/// Whether every disk is on something that knows snapshots: qcow2, or a block storage of that kind.
pub fn possible(st: &State, options: &Options) -> bool {
    disks_of(options).iter().all(|(_, volid)| {
        storage::parse_volid(st, volid).is_ok_and(|v| {
            v.format == "qcow2"
                || st
                    .storages
                    .get(&v.storage)
                    .is_some_and(|s| matches!(s.kind.as_str(), "lvmthin" | "zfspool" | "rbd"))
        })
    })
}

/// `GET .../snapshot`: all of them and `current`.
pub fn list(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let mut rows: Vec<Value> = g
        .snapshots
        .iter()
        .map(|s| {
            let mut row = Map::new();
            row.insert("name".into(), json!(s.name));
            row.insert(
                "vmstate".into(),
                json!(u8::from(s.config.contains_key("vmstate"))),
            );
            for key in ["snaptime", "description", "parent"] {
                if let Some(value) = conf::text(&s.config, key) {
                    row.insert(key.into(), conf::shown(key, value));
                }
            }
            Value::Object(row)
        })
        .collect();
    let mut now = json!({"name": "current", "description": "You are here!", "running": u8::from(g.run.is_some()), "digest": g.digest()});
    if let Some(parent) = conf::text(&g.config, "parent") {
        now["parent"] = json!(parent);
    }
    rows.push(now);
    Ok(json!(rows))
}

fn find<'a>(g: &'a Guest, name: &str) -> Result<&'a Snapshot, PveError> {
    g.snapshots
        .iter()
        .find(|s| s.name == name)
        .ok_or_else(|| PveError::die(format!("snapshot '{name}' does not exist")))
}

/// `GET .../snapshot/{snapname}/config`.
pub fn config(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let found = find(&g, &call.arg("snapname"))?;
    Ok(Value::Object(
        found
            .config
            .iter()
            .map(|(k, v)| (k.clone(), conf::shown(k, v.as_str().unwrap_or(""))))
            .collect(),
    ))
}

/// Runs `qemu-img snapshot` on every qcow2 disk.
fn on_disks(work: &Work, options: &Options, flag: &str, name: &str) -> Result<(), PveError> {
    for (key, volid) in disks_of(options) {
        let (path, format) = {
            let st = work.lab.st();
            (
                storage::path_of(&st, &work.node, &volid)?,
                storage::parse_volid(&st, &volid)?.format,
            )
        };
        if flag == "-c" {
            work.log(format!("snapshotting 'drive-{key}' ({volid})"));
        }
        if format == "qcow2" {
            disks::qemu_img(&["snapshot", flag, name, &path.to_string_lossy()])
                .map_err(PveError::die)?;
        }
    }
    Ok(())
}

/// `POST .../snapshot`.
pub fn create(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let (name, description) = (call.arg("snapname"), call.text("description"));
    let upid = work::start(
        lab,
        &g.node,
        "qmsnapshot",
        g.vmid,
        &call.auth,
        move |work| {
            work.pause("qmsnapshot")?;
            let _lock = FileLock::take(work.lab, work.vmid)?;
            let g = work.guest()?;
            g.check_lock()?;
            if g.snapshots.iter().any(|s| s.name == name) {
                return Err(PveError::die(format!(
                    "snapshot name '{name}' already used"
                )));
            }
            if !possible(&work.lab.st(), &g.config) {
                return Err(PveError::die("snapshot feature is not available"));
            }
            on_disks(work, &g.config, "-c", &name)?;
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_secs());
            work.edit(|g| {
                let mut config: Options = g
                    .config
                    .iter()
                    .filter(|(k, _)| !k.starts_with("unused"))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                config.shift_remove("description");
                config.insert("snaptime".into(), json!(now.to_string()));
                if let Some(text) = description {
                    config.insert("description".into(), json!(text));
                }
                g.snapshots.push(Snapshot {
                    name: name.clone(),
                    config,
                });
                g.config.insert("parent".into(), json!(name));
                Ok(())
            })
        },
    );
    Ok(json!(upid))
}

/// `DELETE .../snapshot/{snapname}`.
pub fn delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let name = call.arg("snapname");
    let upid = work::start(
        lab,
        &g.node,
        "qmdelsnapshot",
        g.vmid,
        &call.auth,
        move |work| {
            work.pause("qmdelsnapshot")?;
            let _lock = FileLock::take(work.lab, work.vmid)?;
            let g = work.guest()?;
            g.check_lock()?;
            let gone = find(&g, &name)?.config.clone();
            on_disks(work, &gone, "-d", &name)?;
            work.edit(|g| {
                g.snapshots.retain(|s| s.name != name);
                let older = gone.get("parent").cloned();
                let chains = std::iter::once(&mut g.config)
                    .chain(g.snapshots.iter_mut().map(|s| &mut s.config));
                for config in chains.filter(|c| conf::text(c, "parent") == Some(&name)) {
                    match &older {
                        Some(parent) => config.insert("parent".into(), parent.clone()),
                        None => config.shift_remove("parent"),
                    };
                }
                Ok(())
            })
        },
    );
    Ok(json!(upid))
}

/// `POST .../snapshot/{snapname}/rollback`.
pub fn rollback(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = guest(lab, call)?;
    let name = call.arg("snapname");
    let upid = work::start(
        lab,
        &g.node,
        "qmrollback",
        g.vmid,
        &call.auth,
        move |work| {
            work.pause("qmrollback")?;
            let _lock = FileLock::take(work.lab, work.vmid)?;
            let g = work.guest()?;
            g.check_lock()?;
            let mut old = find(&g, &name)?.config.clone();
            on_disks(work, &old, "-a", &name)?;
            for key in ["snaptime", "description", "vmstate"] {
                old.shift_remove(key);
            }
            old.insert("parent".into(), json!(name));
            work.edit(|g| {
                let kept: Vec<(String, Value)> = g
                    .config
                    .iter()
                    .filter(|(k, _)| k.starts_with("unused"))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                g.config = old;
                g.config.extend(kept);
                g.pending.clear();
                g.set_run(None);
                Ok(())
            })
        },
    );
    Ok(json!(upid))
}
