//! The machine as it will be: the best guess, since the server names folders and files.

use super::place::Goal;
use crate::vsphere_target as vt;
use serde_json::{Value, json};
use vsphere::path::{DsPath, flat_name, is_delta_name};
use vsphere::value::{list, text};

/// On NFS only thin disks exist without hardware acceleration, whatever is asked for.
/// Source: docs/vsphere-facts.md section 3.
pub fn is_nfs(store: &Value) -> bool {
    text(store, "type").is_some_and(|t| t.to_ascii_uppercase().starts_with("NFS"))
}

fn at(store: &Value, folder: &str, file: &str) -> String {
    DsPath {
        datastore: text(store, "name").unwrap_or("").to_owned(),
        path: format!("{folder}/{file}"),
    }
    .to_string()
}

/// Predicts the fact. `thin`: the format that was asked for.
///
/// A move renames files to the inventory's name, further disks get `_1`, `_2`, ... in the order of their keys.
/// Source: docs/vsphere-facts.md section 3, "Names at destination".
pub fn predict(vm: &Value, goal: &Goal<'_>, thin: Option<bool>) -> Value {
    let name = text(vm, "raw_name")
        .or_else(|| text(vm, "name"))
        .unwrap_or("vm");
    let mut renamed: Vec<(String, String)> = vec![];
    let mut order: Vec<usize> = (0..goal.disks.len()).collect();
    order.sort_by_key(|i| goal.disks[*i].disk["key"].as_i64());
    let mut disks: Vec<Value> = goal.disks.iter().map(|g| g.disk.clone()).collect();
    for (n, i) in order.into_iter().enumerate() {
        let g = &goal.disks[i];
        let Some(store) = g.to.filter(|_| g.moves) else {
            continue;
        };
        let old = text(g.disk, "path").and_then(DsPath::parse);
        let base = if n == 0 {
            format!("{name}.vmdk")
        } else {
            format!("{name}_{n}.vmdk")
        };
        // A delta keeps its number.
        let file = match &old {
            Some(p) if is_delta_name(p.file()) => {
                let stem = base.trim_end_matches(".vmdk");
                let number = &p.file()[p.file().len() - 12..];
                format!("{stem}{number}")
            }
            _ => base.clone(),
        };
        let d = &mut disks[i];
        d["path"] = json!(at(store, name, &file));
        d["datastore"] = store["name"].clone();
        d["datastore_moid"] = store["moid"].clone();
        if text(g.disk, "data_file").is_some() {
            d["data_file"] = json!(at(store, name, &flat_name(&file)));
        }
        if text(g.disk, "snapshot_parent").is_some() {
            d["snapshot_parent"] = json!(at(store, name, &base));
        }
        if is_nfs(store) {
            d["thin"] = json!(true);
        } else if let Some(t) = thin {
            d["thin"] = json!(t);
        }
        for k in ["path", "data_file", "snapshot_parent"] {
            if let (Some(a), Some(b)) = (text(g.disk, k), text(d, k)) {
                renamed.push((a.to_owned(), b.to_owned()));
            }
        }
    }
    let mut changes: Vec<(&str, Value)> = vec![("disks", json!(disks))];
    let old_home = text(vm, "vmx.path").and_then(DsPath::parse);
    let mut home = None;
    if let Some(store) = goal.home.filter(|_| goal.home_moves) {
        let vmx = at(store, name, &format!("{name}.vmx"));
        changes.push((
            "vmx",
            json!({"path": vmx, "datastore": store["name"], "folder": name}),
        ));
        home = Some(store);
    }
    let files: Vec<Value> = list(vm, "files")
        .iter()
        .map(|f| {
            let mut f = f.clone();
            let now = text(&f, "name").unwrap_or("").to_owned();
            if let Some((_, new)) = renamed.iter().find(|(old, _)| *old == now) {
                f["name"] = json!(new);
            } else if let (Some(store), Some(old), Some(p)) = (home, &old_home, DsPath::parse(&now))
                && p.datastore == old.datastore
                && p.folder() == old.folder()
                && !disks.iter().any(|d| {
                    text(d, "path") == Some(now.as_str())
                        || text(d, "data_file") == Some(now.as_str())
                })
            {
                f["name"] = json!(at(store, name, p.file()));
            }
            f
        })
        .collect();
    if !files.is_empty() {
        changes.push(("files", json!(files)));
    }
    changes.push(("datastores", json!(datastores(vm, goal))));
    if let Some(h) = goal.host {
        changes.push(("host", json!({"moid": h["moid"], "name": h["name"]})));
        if text(h, "cluster").is_some() {
            changes.push((
                "cluster",
                json!({"moid": h["cluster_moid"], "name": h["cluster"]}),
            ));
        }
    }
    if let Some(c) = goal.drs {
        changes.push(("host", Value::Null));
        changes.push(("cluster", json!({"moid": c["moid"], "name": c["name"]})));
    }
    if let Some(p) = goal.pool {
        changes.push(("resource_pool", p["moid"].clone()));
    }
    vt::with(vm, &changes)
}

/// The datastores that it touches then: those it leaves with everything are gone, one with an inserted image stays.
fn datastores(vm: &Value, goal: &Goal<'_>) -> Vec<Value> {
    let media: Vec<String> = list(vm, "devices")
        .iter()
        .filter_map(|d| text(d, "file"))
        .filter_map(DsPath::parse)
        .map(|p| p.datastore)
        .collect();
    let stays: Vec<&Value> = goal
        .disks
        .iter()
        .filter(|g| !g.moves)
        .map(|g| &g.disk["datastore_moid"])
        .collect();
    let home_name = text(vm, "vmx.datastore").unwrap_or("");
    let mut out: Vec<Value> = list(vm, "datastores")
        .iter()
        .filter(|m| {
            let name = goal
                .disks
                .iter()
                .find(|g| g.disk["datastore_moid"] == **m)
                .and_then(|g| text(g.disk, "datastore"));
            let holds_home = !goal.home_moves && name == Some(home_name);
            let holds_media = name.is_none_or(|n| media.iter().any(|x| x == n));
            // One that held no disk held the vmx, or an image: only the former is sure to be left.
            let only_home = name.is_none() && goal.home_moves && media.is_empty();
            stays.contains(m)
                || holds_home
                || (holds_media && !only_home)
                || (name.is_none() && !goal.home_moves)
        })
        .cloned()
        .collect();
    let to = goal
        .disks
        .iter()
        .filter(|g| g.moves)
        .filter_map(|g| g.to)
        .chain(goal.home.filter(|_| goal.home_moves));
    for s in to {
        if !out.contains(&s["moid"]) {
            out.push(s["moid"].clone());
        }
    }
    out
}
