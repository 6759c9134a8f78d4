//! PropertyCollector: selection by traversal, property paths, pages, updates.
use super::fault::Fault;
use super::model::{Obj, Seen, Session, State};
use super::types::Types;
use super::xml::{mo, mo_id, mo_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a client may see of one property: a value, nothing, or the reason why not.
pub enum Read {
    /// Typed for an anyType slot.
    Value(Value),
    /// Unset.
    Absent,
    /// Goes to missingSet.
    Denied(Fault),
}

/// Who reads, and with which version of the schema.
pub struct Ctx<'a> {
    /// The session, when signed in.
    pub session: Option<&'a Session>,
    /// Version of the SOAPAction, as numbers.
    pub version: Vec<u32>,
}

// Properties that an older schema version does not have: type, property, since.
// Source: docs/vsphere-facts.md section 1 ("hides e.g. DVPG backingType") and peers-vsphere.md V1.1.
const SINCE: &[(&str, &str, [u32; 2])] = &[
    ("DVPortgroupConfigInfo", "backingType", [7, 0]),
    ("DVPortgroupConfigInfo", "transportZoneUuid", [7, 0]),
    ("DVPortgroupConfigInfo", "transportZoneName", [7, 0]),
    ("DVPortgroupConfigInfo", "logicalSwitchUuid", [7, 0]),
    ("DVPortgroupConfigInfo", "segmentId", [7, 0]),
    ("VMwareDVSPortSetting", "macManagementPolicy", [6, 7]),
    ("VirtualMachineConfigSummary", "tpmPresent", [6, 7]),
];

fn hide_newer(v: &mut Value, version: &[u32]) {
    match v {
        Value::Array(list) => list.iter_mut().for_each(|x| hide_newer(x, version)),
        Value::Object(map) => {
            if let Some(ty) = map.get("_t").and_then(Value::as_str).map(String::from) {
                for (t, p, since) in SINCE {
                    if *t == ty && version < since.as_slice() {
                        map.remove(*p);
                    }
                }
            }
            map.values_mut().for_each(|x| hide_newer(x, version));
        }
        _ => {}
    }
}

fn path_too_new(path: &str, version: &[u32]) -> bool {
    SINCE
        .iter()
        .any(|(_, p, since)| version < since.as_slice() && path.split('.').any(|x| x == *p))
}

/// Children that a container view descends to.
fn children(st: &State, id: &str) -> Vec<String> {
    let Some(o) = st.objs.get(id) else {
        return vec![];
    };
    let t = Types::get();
    let props: &[&str] = if t.is_a(&o.ty, "Folder") {
        &["childEntity"]
    } else if t.is_a(&o.ty, "Datacenter") {
        &["vmFolder", "hostFolder", "datastoreFolder", "networkFolder"]
    } else if t.is_a(&o.ty, "ComputeResource") {
        &["host", "resourcePool", "datastore", "network"]
    } else if t.is_a(&o.ty, "ResourcePool") {
        &["resourcePool", "vm"]
    } else if t.is_a(&o.ty, "HostSystem") {
        &["vm", "datastore", "network"]
    } else {
        &[]
    };
    props.iter().flat_map(|p| st.refs(id, p)).collect()
}

/// The objects of a container view.
fn container_view(st: &State, o: &Obj) -> Value {
    let t = Types::get();
    let types: Vec<&str> = o
        .props
        .get("type")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let recursive = o.props.get("recursive") == Some(&json!(true));
    let mut seen = BTreeSet::new();
    let mut out = vec![];
    let mut queue: Vec<String> = o
        .props
        .get("container")
        .and_then(mo_id)
        .map(|c| children(st, c))
        .unwrap_or_default();
    queue.reverse();
    while let Some(id) = queue.pop() {
        let Some(obj) = st.objs.get(&id) else {
            continue;
        };
        if !seen.insert(id.clone()) {
            continue;
        }
        if types.is_empty() || types.iter().any(|x| t.is_a(&obj.ty, x)) {
            out.push(mo(&obj.ty, &id));
        }
        if recursive {
            let mut kids = children(st, &id);
            kids.reverse();
            queue.extend(kids);
        }
    }
    json!(out)
}

fn user_session(s: &Session) -> Value {
    json!({ "_t": "UserSession", "key": s.key, "userName": s.user, "fullName": s.user, "loginTime": s.login_time, "lastActiveTime": super::model::now(), "locale": "en", "messageLocale": "en",
        "extensionSession": false, "ipAddress": "127.0.0.1", "userAgent": "", "callCount": s.calls })
}

/// The UserSession of a session.
pub fn session_value(s: &Session) -> Value {
    user_session(s)
}

fn step<'v>(v: &'v Value, part: &str) -> Option<&'v Value> {
    let Some((name, key)) = part.split_once('[') else {
        return v.get(part);
    };
    let key = key.trim_end_matches(']').trim_matches('"');
    let items = v.get(name)?.as_array()?;
    items
        .iter()
        .find(|i| i["key"] == key || i["key"].as_i64().is_some_and(|k| k.to_string() == key))
}

/// An object of values that are moved into it: `json!` copies each, which a page of large ones would pay three times.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(
        members
            .map(|(k, v)| (k.to_owned(), v))
            .into_iter()
            .collect(),
    )
}

/// Reads one property path of an object.
///
/// # Errors
/// InvalidProperty for a path that the type does not have.
pub fn read(st: &State, ctx: &Ctx, id: &str, o: &Obj, path: &str) -> Result<Read, Fault> {
    let p = Types::get()
        .path(&o.ty, path)
        .filter(|_| !path_too_new(path, &ctx.version))
        .ok_or_else(|| Fault::invalid_property(path))?;
    let denied = |(obj, prop): &(String, String)| {
        (obj == "*" || obj == id)
            && (path == prop
                || path.starts_with(&format!("{prop}."))
                || prop.starts_with(&format!("{path}.")))
    };
    if st.unreadable.iter().any(denied) {
        return Ok(Read::Denied(Fault::no_permission(
            mo(&o.ty, id),
            "System.Read",
        )));
    }
    let computed = match (o.ty.as_str(), path) {
        ("ContainerView", "view") => Some(container_view(st, o)),
        ("SessionManager", "currentSession") => ctx.session.map(user_session),
        ("ServiceInstance", "serverClock") => Some(json!(super::model::now())),
        ("PropertyCollector", "filter") | ("ViewManager", "viewList") => Some(json!([])),
        _ => {
            let mut parts = path.split('.');
            let first = parts.next().unwrap_or("");
            let mut at = match first.split_once('[') {
                Some(_) => o
                    .props
                    .get(first.split('[').next().unwrap_or(""))
                    .and_then(|v| {
                        step(&json!({ first.split('[').next().unwrap_or(""): v }), first).cloned()
                    }),
                None => None,
            };
            if at.is_none() && !first.contains('[') {
                let mut v = o.props.get(first);
                for part in parts {
                    v = v.and_then(|x| step(x, part));
                }
                at = v.cloned();
            }
            at
        }
    };
    Ok(match computed {
        None | Some(Value::Null) => Read::Absent,
        Some(mut v) => {
            if ctx.version.first().is_some_and(|major| *major < 8) {
                hide_newer(&mut v, &ctx.version);
            }
            let typed = Value::Array(vec![json!(p.ty), json!(p.array), v]);
            Read::Value(object([("$p", typed)]))
        }
    })
}

/// Objects that an ObjectSpec selects, in the order found.
fn select(st: &State, ctx: &Ctx, spec: &Value, out: &mut Vec<String>) -> Result<(), Fault> {
    let (ty, id) =
        mo_of(&spec["obj"]).ok_or_else(|| Fault::invalid_argument("specSet.objectSet.obj"))?;
    if !st.objs.contains_key(id) {
        return Err(Fault::not_found(ty, id));
    }
    let mut named: BTreeMap<&str, &Value> = BTreeMap::new();
    fn collect<'a>(set: &'a Value, named: &mut BTreeMap<&'a str, &'a Value>) {
        for s in set.as_array().into_iter().flatten() {
            if s["_t"] == "TraversalSpec" {
                if let Some(n) = s["name"].as_str() {
                    named.insert(n, s);
                }
                collect(&s["selectSet"], named);
            }
        }
    }
    collect(&spec["selectSet"], &mut named);
    let mut visited: BTreeSet<(String, usize)> = BTreeSet::new();
    let mut work: Vec<(String, &Value)> = vec![(id.to_string(), &spec["selectSet"])];
    if spec["skip"] != json!(true) && !out.iter().any(|o| o == id) {
        out.push(id.to_string());
    }
    let mut have: BTreeSet<String> = out.iter().cloned().collect();
    while let Some((at, set)) = work.pop() {
        let Some(o) = st.objs.get(&at) else { continue };
        let mut next = vec![];
        for s in set.as_array().into_iter().flatten() {
            let t = if s["_t"] == "TraversalSpec" {
                s
            } else {
                let name = s["name"].as_str().unwrap_or("");
                named
                    .get(name)
                    .copied()
                    .ok_or_else(|| Fault::invalid_argument("specSet.objectSet.selectSet"))?
            };
            let (tty, path) = (
                t["type"].as_str().unwrap_or(""),
                t["path"].as_str().unwrap_or(""),
            );
            if Types::get().path(tty, path).is_none() {
                return Err(Fault::invalid_property(path));
            }
            if !Types::get().is_a(&o.ty, tty)
                || !visited.insert((at.clone(), std::ptr::from_ref(t) as usize))
            {
                continue;
            }
            let Read::Value(v) = read(st, ctx, &at, o, path)? else {
                continue;
            };
            let v = &v["$p"][2];
            let refs: Vec<&str> = match v {
                Value::Array(list) => list.iter().filter_map(mo_id).collect(),
                v => mo_id(v).into_iter().collect(),
            };
            for r in refs {
                if t["skip"] != json!(true) && st.objs.contains_key(r) && have.insert(r.to_string())
                {
                    out.push(r.to_string());
                }
                next.push((r.to_string(), &t["selectSet"]));
            }
        }
        next.reverse();
        work.extend(next);
    }
    Ok(())
}

/// Object contents for a list of PropertyFilterSpec.
///
/// # Errors
/// InvalidProperty, ManagedObjectNotFound, InvalidArgument.
pub fn retrieve(st: &State, ctx: &Ctx, spec_set: &Value) -> Result<Vec<Value>, Fault> {
    let mut out = vec![];
    for spec in spec_set.as_array().into_iter().flatten() {
        let props = spec["propSet"].as_array().map_or(&[][..], Vec::as_slice);
        for p in props {
            let ty = p["type"].as_str().unwrap_or("");
            if !Types::get().is_managed(ty) {
                return Err(Fault::invalid_argument("specSet.propSet.type"));
            }
            for path in p["pathSet"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                if Types::get().path(ty, path).is_none() {
                    return Err(Fault::invalid_property(path));
                }
            }
        }
        let mut ids = vec![];
        for o in spec["objectSet"].as_array().into_iter().flatten() {
            select(st, ctx, o, &mut ids)?;
        }
        for id in ids {
            let Some(o) = st.objs.get(&id) else { continue };
            let mine: Vec<&Value> = props
                .iter()
                .filter(|p| Types::get().is_a(&o.ty, p["type"].as_str().unwrap_or("")))
                .collect();
            if mine.is_empty() {
                continue;
            }
            let mut paths: Vec<String> = vec![];
            for p in mine {
                if p["all"] == json!(true) {
                    paths.extend(
                        Types::get()
                            .managed(&o.ty)
                            .unwrap_or_default()
                            .iter()
                            .map(|p| p.name.clone()),
                    );
                } else {
                    paths.extend(
                        p["pathSet"]
                            .as_array()
                            .into_iter()
                            .flatten()
                            .filter_map(Value::as_str)
                            .map(String::from),
                    );
                }
            }
            let mut seen = BTreeSet::new();
            paths.retain(|p| seen.insert(p.clone()));
            let (mut set, mut missing) = (vec![], vec![]);
            for path in &paths {
                match read(st, ctx, &id, o, path)? {
                    Read::Value(v) => set.push(object([("name", json!(path)), ("val", v)])),
                    Read::Denied(f) => missing.push(json!({ "path": path, "fault": f.0 })),
                    Read::Absent => {}
                }
            }
            out.push(object([
                ("obj", mo(&o.ty, &id)),
                ("propSet", Value::Array(set)),
                ("missingSet", Value::Array(missing)),
            ]));
        }
    }
    Ok(out)
}

/// What a filter's client would know now.
///
/// # Errors
/// As [`retrieve`].
pub fn snapshot(st: &State, ctx: &Ctx, spec: &Value) -> Result<Seen, Fault> {
    let mut seen = Seen::new();
    for o in retrieve(st, ctx, &json!([spec]))? {
        let id = mo_id(&o["obj"]).unwrap_or("").to_string();
        seen.insert((id.clone(), String::new()), o["obj"].clone());
        for p in o["propSet"].as_array().into_iter().flatten() {
            seen.insert(
                (id.clone(), p["name"].as_str().unwrap_or("").to_string()),
                p["val"].clone(),
            );
        }
    }
    Ok(seen)
}

/// The ObjectUpdates from one state of knowledge to another.
pub fn diff(old: &Seen, new: &Seen) -> Vec<Value> {
    let mut out: BTreeMap<&str, (String, Vec<Value>)> = BTreeMap::new();
    let objects = |s: &Seen| {
        s.keys()
            .filter(|(_, p)| p.is_empty())
            .map(|(o, _)| o.clone())
            .collect::<BTreeSet<String>>()
    };
    let (before, after) = (objects(old), objects(new));
    let kind = |o: &str| {
        if before.contains(o) {
            "modify"
        } else {
            "enter"
        }
    };
    for ((o, p), v) in new {
        if p.is_empty() {
            if !before.contains(o) {
                out.entry(o).or_insert_with(|| ("enter".into(), vec![]));
            }
        } else if old.get(&(o.clone(), p.clone())) != Some(v) {
            let e = out.entry(o).or_insert_with(|| (kind(o).into(), vec![]));
            e.1.push(json!({ "name": p, "op": "assign", "val": v }));
        }
    }
    for (o, p) in old.keys() {
        if p.is_empty() {
            if !after.contains(o) {
                out.insert(o, ("leave".into(), vec![]));
            }
        } else if after.contains(o) && !new.contains_key(&(o.clone(), p.clone())) {
            // An optional property that became unset: assigned nothing.
            let e = out.entry(o).or_insert_with(|| (kind(o).into(), vec![]));
            e.1.push(json!({ "name": p, "op": "assign" }));
        }
    }
    out.into_iter()
        .map(|(o, (kind, changes))| {
            let key = (o.to_string(), String::new());
            json!({ "kind": kind, "obj": new.get(&key).or_else(|| old.get(&key)), "changeSet": changes })
        })
        .collect()
}
