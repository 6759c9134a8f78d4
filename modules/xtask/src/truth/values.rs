//! Returned values against the world, by the names that both sides use.

use super::Line;
use serde_json::Value;

/// Every returned value that is not so.
pub fn wrong(l: &Line, world: &Value) -> Vec<String> {
    if l.status != "ok" && l.status != "changed" {
        return vec![];
    }
    let mut out = vec![];
    guest(l, world, &mut out);
    guests(l, world, &mut out);
    machine(l, world, &mut out);
    out
}

fn number(v: &Value) -> Option<u64> {
    v.as_u64().or_else(|| v.as_str()?.parse().ok())
}

fn plain(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        Value::Bool(b) => u8::from(*b).to_string(),
        other => other.to_string(),
    }
}

fn find<'a>(world: &'a Value, side: &str, list: &str, key: &str, is: &Value) -> Option<&'a Value> {
    world[side][list]
        .as_array()?
        .iter()
        .find(|x| plain(&x[key]) == plain(is))
}

/// What a task says of one Proxmox guest.
fn guest(l: &Line, world: &Value, out: &mut Vec<String>) {
    let r = &l.result;
    let Some(g) = number(&r["vmid"]).and_then(|n| find(world, "pve", "guests", "vmid", &n.into()))
    else {
        return;
    };
    // What waits for the next stop is part of what is configured.
    let config = |k: &str| -> String {
        let pending = g["pending"].get(k).filter(|v| !v.is_null());
        plain(pending.unwrap_or(&g["config"][k]))
    };
    let mut claim = |what: &str, said: &Value, is: String| {
        if !said.is_null() && plain(said) != is {
            out.push(format!("{what} {} is {is}", plain(said)));
        }
    };
    let status = if g["paused"] == true {
        "paused".into()
    } else {
        plain(&g["status"])
    };
    claim("status", &r["status"], status);
    if r["name"].is_string() {
        claim("name", &r["name"], config("name"));
    }
    if r["node"].is_string() {
        claim("node", &r["node"], plain(&g["node"]));
    }
    let mut holds = |key: &str, part: &Value| {
        let all = config(key).to_lowercase();
        if part.is_string() && !all.contains(&plain(part).to_lowercase()) {
            out.push(format!("{key} {} is {all}", plain(part)));
        }
    };
    for map in ["mac", "devices"] {
        for (k, v) in r[map].as_object().into_iter().flatten() {
            holds(k, v);
        }
    }
    if let Some(i) = r["interface"].as_str() {
        holds(i, &r["mac"]);
        holds(i, &r["bridge"]);
        if let Some(tag) = number(&r["tag"]) {
            holds(i, &format!("tag={tag}").into());
        }
    }
    if let Some(d) = r["disk"].as_str() {
        holds(d, &r["volume"]);
    }
}

/// A list of Proxmox guests.
fn guests(l: &Line, world: &Value, out: &mut Vec<String>) {
    for said in l.result["proxmox_vms"].as_array().into_iter().flatten() {
        match find(world, "pve", "guests", "vmid", &said["vmid"]) {
            None => out.push(format!("there is no guest {}", said["vmid"])),
            Some(g) => {
                for k in ["node", "status"] {
                    if !said[k].is_null() && said[k] != g[k] {
                        out.push(format!("{k} of {} {} is {}", said["vmid"], said[k], g[k]));
                    }
                }
            }
        }
    }
}

/// What a task says of one VMware machine.
fn machine(l: &Line, world: &Value, out: &mut Vec<String>) {
    let r = &l.result;
    let args = &r["invocation"]["module_args"];
    let named = [&r["moid"], &r["vm"]["moid"], &args["moid"]]
        .into_iter()
        .find(|v| v.is_string());
    let by_name = [&args["vm_name"], &args["name"]]
        .into_iter()
        .find(|v| v.is_string());
    let vm = match (named, by_name) {
        (Some(m), _) => find(world, "vcenter", "vms", "moid", m),
        (None, Some(n)) => find(world, "vcenter", "vms", "name", n),
        _ => None,
    };
    let Some(vm) = vm else {
        return;
    };
    let mut claim = |what: &str, said: &Value, is: &Value| {
        if said.is_string() && said != is {
            out.push(format!("{what} {said} is {is}"));
        }
    };
    claim("datastore", &r["datastore"], &vm["datastore"]);
    claim("power_state", &r["power_state"], &vm["power"]);
    claim("name", &r["vm"]["name"], &vm["name"]);
    if let Some(note) = r["note"].as_str()
        && !vm["annotation"].as_str().unwrap_or_default().contains(note)
    {
        out.push(format!("note {note:?} is {}", vm["annotation"]));
    }
}
