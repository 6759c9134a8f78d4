//! `/version`, `/cluster/...` but for SDN and tasks, `/pools`.
use super::access::Pool;
use super::{Call, Lab, PveError, Router, State, content, formats, nodes};
use crate::world::Rng;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("GET", "/version", version);
    r.add("GET", "/cluster/resources", resources);
    r.add("GET", "/cluster/nextid", nextid);
    r.add("GET", "/cluster/status", status);
    r.add("GET", "/cluster/options", options);
    r.add("PUT", "/cluster/options", set_options);
    r.add("GET", "/cluster/ha/resources", ha_list);
    r.add("POST", "/cluster/ha/resources", ha_add);
    r.add("GET", "/cluster/ha/resources/{sid}", ha_show);
    r.add("PUT", "/cluster/ha/resources/{sid}", ha_update);
    r.add("DELETE", "/cluster/ha/resources/{sid}", ha_delete);
    r.add("GET", "/cluster/replication", replication);
    r.add("GET", "/pools", pools);
    r.add("POST", "/pools", pool_add);
    r.add("PUT", "/pools", pool_update);
    r.add("DELETE", "/pools", pool_delete);
    r.add("GET", "/pools/{poolid}", pool_show);
    r.add("PUT", "/pools/{poolid}", pool_update);
    r.add("DELETE", "/pools/{poolid}", pool_delete);
}

fn version(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok(json!({"version": nodes::VERSION, "release": "9.2", "repoid": nodes::REPOID}))
}

/// One guest as `/cluster/resources` shows it.
fn guest(st: &State, call: &Call, vmid: u32) -> Value {
    let g = &st.guests[&vmid];
    let reachable = st.nodes.iter().any(|n| n.name == g.node && n.online);
    let text = |k: &str| {
        g.config
            .get(k)
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_string))
    };
    let number = |k: &str, default: u64| {
        text(k)
            .and_then(|t| t.trim_start_matches("current=").parse().ok())
            .unwrap_or(default)
    };
    let mut v = json!({"id": format!("{}/{vmid}", g.kind), "type": g.kind, "vmid": vmid, "node": g.node,
        "status": if reachable { g.status.as_str() } else { "unknown" }, "template": u8::from(g.template)});
    if reachable {
        let running = g.status == "running";
        let memory = number("memory", 512) << 20;
        let more = json!({
            "name": text("name").or_else(|| text("hostname")).unwrap_or_else(|| format!("VM{vmid}")),
            "maxcpu": number("cores", 1) * number("sockets", 1), "cpu": 0, "maxmem": memory, "mem": if running { memory / 2 } else { 0 },
            "maxdisk": 0, "disk": 0, "uptime": if running { 600 } else { 0 }, "netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0,
        });
        for (k, value) in more.as_object().into_iter().flatten() {
            v[k] = value.clone();
        }
        for k in ["tags", "lock"] {
            if let Some(t) = text(k).filter(|t| !t.trim().is_empty()) {
                v[k] = json!(t);
            }
        }
    }
    if let Some(pool) = st.pool_of(vmid)
        && st.may(&call.auth, &format!("/pool/{pool}"), &["Pool.Audit"])
    {
        v["pool"] = json!(pool);
    }
    v
}

fn resources(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let now = lab.now_ms();
    let st = lab.st();
    let wanted = call.text("type");
    let wants = |kind: &str| wanted.as_deref().is_none_or(|w| w == kind);
    let mut all = Vec::new();
    if wanted.is_none() {
        for (name, _) in st
            .access
            .pools
            .iter()
            .filter(|(n, _)| st.may(&call.auth, &format!("/pool/{n}"), &["Pool.Audit"]))
        {
            all.push(json!({"id": format!("/pool/{name}"), "type": "pool", "pool": name}));
        }
    }
    if wants("vm") {
        let lag = st.timing.listing_lag_ms;
        let mut ids: Vec<u32> = st
            .guests
            .values()
            .filter(|g| g.created_ms == 0 || g.created_ms + lag <= now)
            .filter(|g| st.may(&call.auth, &format!("/vms/{}", g.vmid), &["VM.Audit"]))
            .map(|g| g.vmid)
            .collect();
        // The real list comes out of a hash: its order means nothing.
        let mut rng = Rng::new(lab.seed);
        for i in (1..ids.len()).rev() {
            ids.swap(i, rng.below(i as u64 + 1) as usize);
        }
        all.extend(ids.into_iter().map(|id| guest(&st, call, id)));
    }
    for n in st.nodes.iter().filter(|n| n.member) {
        if wants("node") {
            let mut v = nodes::show(&st, &call.auth, n);
            v["cgroup-mode"] = json!(2);
            all.push(v);
        }
        if wants("storage") {
            all.extend(content::resources(&st, &call.auth, &n.name));
        }
        if wants("sdn") && n.online {
            all.extend(super::sdn::resources(&st, &call.auth, n));
        }
    }
    Ok(all.into())
}

fn nextid(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    if let Some(vmid) = call.int("vmid") {
        return if st.guests.contains_key(&(vmid as u32)) {
            Err(PveError::param("vmid", format!("VM {vmid} already exists")))
        } else {
            Ok(json!(vmid.to_string()))
        };
    }
    let free = (100..1_000_000_000u32).find(|n| !st.guests.contains_key(n));
    free.map(|n| json!(n.to_string()))
        .ok_or_else(|| PveError::die("unable to get any free VMID in range [100, 1000000]"))
}

fn status(lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let members: Vec<_> = st.nodes.iter().filter(|n| n.member).collect();
    let mut all = vec![
        json!({"type": "cluster", "id": "cluster", "name": "labsim", "nodes": members.len(), "quorate": 1, "version": 2}),
    ];
    all.extend(members.iter().enumerate().map(|(i, n)| {
        json!({"type": "node", "id": format!("node/{}", n.name), "name": n.name, "nodeid": i + 1, "online": u8::from(n.online),
            "local": u8::from(i == 0), "level": "", "ip": format!("192.0.2.{}", 11 + i)})
    }));
    Ok(all.into())
}

/// Tags that exist or are allowed by the datacenter's options, as every token may read them.
fn allowed_tags(st: &State) -> Vec<String> {
    let mut tags = std::collections::BTreeSet::new();
    if let Some(list) = st.options.get("registered-tags").and_then(Value::as_str) {
        tags.extend(formats::split_list(list));
    }
    for g in st.guests.values() {
        tags.extend(formats::split_list(
            g.config.get("tags").and_then(Value::as_str).unwrap_or(""),
        ));
    }
    tags.into_iter().collect()
}

fn options(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let mut v = Map::new();
    let all = st.may(&call.auth, "/", &["Sys.Audit"]);
    for (k, value) in &st.options {
        if all || ["console", "tag-style"].contains(&k.as_str()) {
            v.insert(k.clone(), value.clone());
        }
    }
    v.insert("allowed-tags".into(), json!(allowed_tags(&st)));
    Ok(v.into())
}

fn set_options(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    for (k, v) in call.params.iter().filter(|(k, _)| *k != "delete") {
        st.options.insert(k.clone(), v.clone());
    }
    for k in formats::split_list(&call.arg("delete")) {
        st.options.remove(&k);
    }
    Ok(Value::Null)
}

fn ha_view(sid: &str, props: &Map<String, Value>) -> Value {
    let mut v = props.clone();
    v.insert("sid".into(), json!(sid));
    v.insert("type".into(), json!(sid.split(':').next().unwrap_or("vm")));
    v.insert(
        "digest".into(),
        json!(super::sdn::sha1_hex(
            &Value::Object(props.clone()).to_string()
        )),
    );
    v.into()
}

fn ha_list(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let kind = call.text("type");
    Ok(lab
        .st()
        .ha
        .iter()
        .filter(|(s, _)| {
            kind.as_ref()
                .is_none_or(|k| s.starts_with(&format!("{k}:")))
        })
        .map(|(s, p)| ha_view(s, p))
        .collect())
}

/// Jobs of guests that the caller may see. Source: pve-manager PVE/API2/ReplicationConfig.pm, `index`.
fn replication(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    Ok(st
        .replication
        .iter()
        .filter(|j| st.may(&call.auth, &format!("/vms/{}", j["guest"]), &["VM.Audit"]))
        .cloned()
        .collect())
}

/// `100` means `vm:100`.
fn sid(call: &Call) -> String {
    let sid = call.arg("sid");
    if sid.contains(':') {
        sid
    } else {
        format!("vm:{sid}")
    }
}

fn ha_props(call: &Call) -> Map<String, Value> {
    call.params
        .iter()
        .filter(|(k, _)| !["sid", "type", "digest", "delete"].contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn ha_add(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let sid = sid(call);
    let mut st = lab.st();
    let vmid: u32 = sid
        .rsplit(':')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    if !st.guests.contains_key(&vmid) {
        return Err(PveError::die(format!("unable to read vm {vmid} config")));
    }
    if st.ha.contains_key(&sid) {
        return Err(PveError::die(format!(
            "create ha resource failed: resource ID '{sid}' already defined"
        )));
    }
    let mut props = ha_props(call);
    props.entry("state").or_insert(json!("started"));
    st.ha.insert(sid, props);
    Ok(Value::Null)
}

fn no_ha(sid: &str) -> PveError {
    PveError::die(format!("no such resource '{sid}'"))
}

fn ha_show(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let sid = sid(call);
    lab.st()
        .ha
        .get(&sid)
        .map(|p| ha_view(&sid, p))
        .ok_or_else(|| no_ha(&sid))
}

fn ha_update(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let sid = sid(call);
    let mut st = lab.st();
    let props = st.ha.get_mut(&sid).ok_or_else(|| no_ha(&sid))?;
    props.extend(ha_props(call));
    for k in formats::split_list(&call.arg("delete")) {
        props.remove(&k);
    }
    Ok(Value::Null)
}

fn ha_delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let sid = sid(call);
    lab.st()
        .ha
        .remove(&sid)
        .map(|_| Value::Null)
        .ok_or_else(|| PveError::die(format!("cannot delete service '{sid}', not HA managed!")))
}

fn members(st: &State, call: &Call, pool: &Pool) -> Value {
    let kind = call.text("type");
    let mut all = Vec::new();
    for vmid in pool.vms.iter().filter(|v| st.guests.contains_key(v)) {
        let v = guest(st, call, *vmid);
        if kind.as_deref().is_none_or(|k| v["type"] == k) {
            all.push(v);
        }
    }
    if kind.as_deref().is_none_or(|k| k == "storage") {
        for s in &pool.storages {
            all.extend(st.nodes.iter().filter(|n| n.member).map(|n| json!({"id": format!("storage/{}/{s}", n.name), "type": "storage", "storage": s, "node": n.name})));
        }
    }
    all.into()
}

fn no_pool(id: &str) -> PveError {
    PveError::die(format!("pool '{id}' does not exist"))
}

fn pool_view(st: &State, call: &Call, id: &str, pool: &Pool) -> Value {
    let mut v = json!({"members": members(st, call, pool), "poolid": id});
    if let Some(c) = &pool.comment {
        v["comment"] = json!(c);
    }
    v
}

fn pools(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    // With `poolid` the members are shown to everybody (recorded, docs/pve-privileges.md).
    if let Some(id) = call.text("poolid") {
        let pool = st.access.pools.get(&id).ok_or_else(|| no_pool(&id))?;
        return Ok(json!([pool_view(&st, call, &id, pool)]));
    }
    Ok(st
        .access
        .pools
        .iter()
        .filter(|(n, _)| st.may(&call.auth, &format!("/pool/{n}"), &["Pool.Audit"]))
        .map(|(n, p)| match &p.comment {
            Some(c) => json!({"poolid": n, "comment": c}),
            None => json!({"poolid": n}),
        })
        .collect())
}

fn pool_show(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("poolid");
    let pool = st.access.pools.get(&id).ok_or_else(|| no_pool(&id))?;
    let mut v = pool_view(&st, call, &id, pool);
    if let Some(o) = v.as_object_mut() {
        o.remove("poolid");
    }
    Ok(v)
}

fn pool_add(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("poolid");
    if st.access.pools.contains_key(&id) {
        return Err(PveError::die(format!(
            "create pool failed: pool '{id}' already exists"
        )));
    }
    st.access.pools.insert(
        id,
        Pool {
            comment: call.text("comment"),
            ..Pool::default()
        },
    );
    Ok(Value::Null)
}

fn pool_update(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("poolid");
    update_members(&mut st, call, &id).map_err(|e| e.wrap("update pools failed"))?;
    Ok(Value::Null)
}

fn update_members(st: &mut State, call: &Call, id: &str) -> Result<(), PveError> {
    if !st.access.pools.contains_key(id) {
        return Err(PveError::die(format!("pool '{id}' does not exist")));
    }
    let remove = call.flag("delete");
    // Everything is checked before anything is changed: the real code writes the file once, at the end.
    let mut next = st.access.pools.clone();
    if let (Some(c), Some(p)) = (call.text("comment"), next.get_mut(id)) {
        p.comment = Some(c);
    }
    for vmid in formats::split_list(&call.arg("vms"))
        .iter()
        .filter_map(|v| v.parse::<u32>().ok())
    {
        st.check_any(
            &call.auth,
            &format!("/vms/{vmid}"),
            &["Permissions.Modify", "VM.Allocate"],
        )?;
        let inside = next.get(id).is_some_and(|p| p.vms.contains(&vmid));
        let elsewhere = next
            .iter()
            .find(|(n, p)| *n != id && p.vms.contains(&vmid))
            .map(|(n, _)| n.clone());
        match (remove, inside) {
            (true, false) => return Err(PveError::die(format!("VM {vmid} is not a pool member"))),
            (false, true) => {
                return Err(PveError::die(format!("VM {vmid} is already a pool member")));
            }
            _ => {}
        }
        if let (false, Some(other)) = (remove, elsewhere) {
            if !call.flag("allow-move") {
                return Err(PveError::die(format!(
                    "VM {vmid} belongs already to pool '{other}' and 'allow-move' is not set"
                )));
            }
            st.check(&call.auth, &format!("/pool/{other}"), &["Pool.Allocate"])?;
            if let Some(p) = next.get_mut(&other) {
                p.vms.remove(&vmid);
            }
        }
        if let Some(p) = next.get_mut(id) {
            if remove {
                p.vms.remove(&vmid)
            } else {
                p.vms.insert(vmid)
            };
        }
    }
    for s in formats::split_list(&call.arg("storage")) {
        st.check_any(
            &call.auth,
            &format!("/storage/{s}"),
            &["Permissions.Modify", "Datastore.Allocate"],
        )?;
        if let Some(p) = next.get_mut(id) {
            match (remove, p.storages.contains(&s)) {
                (true, false) => {
                    return Err(PveError::die(format!("Storage '{s}' is not a pool member")));
                }
                (false, true) => {
                    return Err(PveError::die(format!(
                        "Storage '{s}' is already a pool member"
                    )));
                }
                (true, true) => p.storages.remove(&s),
                (false, false) => p.storages.insert(s),
            };
        }
    }
    st.access.pools = next;
    Ok(())
}

fn pool_delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("poolid");
    let fail = |t: String| PveError::die(format!("delete pool failed: {t}"));
    let pool = st
        .access
        .pools
        .get(&id)
        .ok_or_else(|| fail(format!("pool '{id}' does not exist")))?;
    if !pool.vms.is_empty() || !pool.storages.is_empty() {
        return Err(fail(format!("pool '{id}' is not empty")));
    }
    st.access.pools.remove(&id);
    Ok(Value::Null)
}

/// Takes options and HA resources of a world. Errors: what is wrong in it.
pub fn load(st: &mut State, world: &Value) -> Result<(), String> {
    st.options = world["options"].as_object().cloned().unwrap_or_default();
    st.replication = world["replication"].as_array().cloned().unwrap_or_default();
    for (sid, props) in world["ha"].as_object().into_iter().flatten() {
        st.ha
            .insert(sid.clone(), props.as_object().cloned().unwrap_or_default());
    }
    Ok(())
}

/// `POST /labsim/set` for everything but guests:
/// `{"node": "pve2", "online": false}`, `{"storage": "data", "disabled": true, "total": N, "used": N}`,
/// `{"sdn_lock": true|false}`, `{"timing": {"task_ms": 5000, "copy_bytes_per_s": N, "listing_lag_ms": N, "kinds": {"imgcopy": N}}}`,
/// `{"options": {...}}`, `{"bridge": "vmbr7", "node": "pve1", "exists": true}`, `{"user": "a@pve", "enable": false}`.
/// Errors: what of it is unknown.
pub fn set(lab: &Arc<Lab>, patch: &Value) -> Result<(), String> {
    let text = |k: &str| patch[k].as_str().map(str::to_string);
    let mut st = lab.st();
    if let Some(bridge) = text("bridge") {
        let name = text("node").ok_or("set bridge: no node")?;
        let n = st
            .nodes
            .iter_mut()
            .find(|n| n.name == name)
            .ok_or_else(|| format!("set: no node '{name}'"))?;
        n.ifaces.retain(|i| i["iface"] != bridge.as_str());
        if patch["exists"] != false {
            n.ifaces
                .push(json!({"iface": bridge, "type": "bridge", "active": 1}));
        }
    } else if let Some(name) = text("node") {
        let n = st
            .nodes
            .iter_mut()
            .find(|n| n.name == name)
            .ok_or_else(|| format!("set: no node '{name}'"))?;
        n.online = patch["online"]
            .as_bool()
            .ok_or("set node: online is true or false")?;
    } else if let Some(name) = text("storage") {
        let s = st
            .storages
            .get_mut(&name)
            .ok_or_else(|| format!("set: no storage '{name}'"))?;
        if let Some(off) = patch["disabled"].as_bool() {
            s.disabled = off;
            s.decl.remove("disable");
            if off {
                s.decl.insert("disable".into(), json!(1));
            }
        }
        s.total = patch["total"].as_u64().unwrap_or(s.total);
        s.foreign = patch["used"].as_u64().unwrap_or(s.foreign);
    } else if let Some(held) = patch["sdn_lock"].as_bool() {
        st.sdn.lock = held.then(|| "00000000-0000-7000-8000-00000000beef".to_string());
    } else if patch["timing"].is_object() {
        let t = &patch["timing"];
        st.timing.task_ms = t["task_ms"].as_u64().unwrap_or(st.timing.task_ms);
        st.timing.copy_bytes_per_s = t["copy_bytes_per_s"]
            .as_u64()
            .unwrap_or(st.timing.copy_bytes_per_s);
        st.timing.listing_lag_ms = t["listing_lag_ms"]
            .as_u64()
            .unwrap_or(st.timing.listing_lag_ms);
        for (k, v) in t["kinds"].as_object().into_iter().flatten() {
            st.timing.kinds.insert(
                k.clone(),
                v.as_u64().ok_or("set timing: kinds are milliseconds")?,
            );
        }
    } else if let Some(o) = patch["options"].as_object() {
        st.options.extend(o.clone());
    } else if let Some(name) = text("user") {
        let u = st
            .access
            .users
            .get_mut(&name)
            .ok_or_else(|| format!("set: no user '{name}'"))?;
        u.enable = patch["enable"]
            .as_bool()
            .ok_or("set user: enable is true or false")?;
    } else {
        return Err(format!("set: nothing known in {patch}"));
    }
    Ok(())
}
