//! Software-defined network: pending and running configuration, locks, writes. Apply and node state are in `sdn_apply.rs`.
//! Texts and order of checks: docs/pve-sdn.md and tests/fixtures/pve/sdn-cases.json.
use super::{Call, Lab, PveError, Router, State, formats, sdn_apply, sdn_objects};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use super::guest::conf::sha1_hex;
pub use sdn_apply::resources;

/// Objects by id, each with its options (and `type`).
pub type Objects = BTreeMap<String, Map<String, Value>>;

/// One version of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// zones.cfg
    pub zones: Objects,
    /// vnets.cfg
    pub vnets: Objects,
    /// subnets.cfg
    pub subnets: Objects,
}

/// Pending and running configuration.
#[derive(Clone, Debug, Default)]
pub struct Sdn {
    /// As written.
    pub config: Config,
    /// As last applied.
    pub running: Config,
    /// Counts applies.
    pub version: u64,
    /// The token of the lock, while somebody holds it.
    pub lock: Option<String>,
    /// The nodes' kernel has no VLAN filtering: VLAN-aware bridges do not come up (the installation of the recordings).
    pub no_vlan_filtering: bool,
}

const BAD_TOKEN: &str =
    "invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291.";

impl Sdn {
    /// The zone of a vnet by the pending config.
    pub fn zone_of(&self, vnet: &str) -> Option<String> {
        self.config
            .vnets
            .get(vnet)?
            .get("zone")?
            .as_str()
            .map(str::to_string)
    }

    /// Vnets of the running config that belong on a node: (vnet, zone, alias).
    pub fn running_vnets_on(&self, node: &str) -> Vec<(String, String, Option<String>)> {
        self.running
            .vnets
            .iter()
            .filter_map(|(id, v)| {
                let zone = v.get("zone")?.as_str()?;
                let on = self
                    .running
                    .zones
                    .get(zone)
                    .is_some_and(|z| zone_is_on(z, node));
                on.then(|| {
                    (
                        id.clone(),
                        zone.to_string(),
                        v.get("alias").and_then(Value::as_str).map(str::to_string),
                    )
                })
            })
            .collect()
    }

    /// Whether the call brings the token of the lock, if there is one. Errors: 500 `invalid lock token provided! ...`.
    pub(super) fn check_lock(&self, call: &Call) -> Result<(), PveError> {
        match &self.lock {
            // Without a lock any token, also a stale one, is let through.
            Some(token) if call.text("lock-token").as_ref() != Some(token) => {
                Err(PveError::die(BAD_TOKEN))
            }
            _ => Ok(()),
        }
    }

    fn has_pending(&self) -> bool {
        self.config != self.running
    }
}

/// Whether a zone is on a node: no `nodes`, or the node among them.
pub fn zone_is_on(zone: &Map<String, Value>, node: &str) -> bool {
    zone.get("nodes")
        .and_then(Value::as_str)
        .is_none_or(|n| formats::split_list(n).iter().any(|x| x == node))
}

/// The digest of a whole file of objects.
pub(super) fn digest(objects: &Objects) -> String {
    sha1_hex(&json!(objects).to_string())
}

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("GET", "/cluster/sdn", index);
    r.add("POST", "/cluster/sdn/lock", lock);
    r.add("DELETE", "/cluster/sdn/lock", unlock);
    r.add("POST", "/cluster/sdn/rollback", rollback);
    r.add("GET", "/cluster/sdn/controllers", nothing);
    r.add("GET", "/cluster/sdn/ipams", ipams);
    sdn_objects::register(r);
    sdn_apply::register(r);
}

fn nothing(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok(json!([]))
}

fn ipams(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok(json!([{"ipam": "pve", "type": "pve"}]))
}

fn index(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok(["vnets", "zones", "controllers", "ipams", "dns", "fabrics"]
        .iter()
        .map(|n| json!({"id": n}))
        .collect())
}

fn lock(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let (a, b) = {
        let mut rng = lab.rng();
        (rng.next_u64(), rng.next_u64())
    };
    let ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_millis() as u64)
        .unwrap_or(0);
    let mut st = lab.st();
    let fail = |t: &str| Err(PveError::die(t).wrap("could not acquire lock for SDN config"));
    if st.sdn.lock.is_some() {
        return fail(BAD_TOKEN);
    }
    if st.sdn.has_pending() && !call.flag("allow-pending") {
        return fail(
            "configuration has pending changes at /usr/share/perl5/PVE/API2/Network/SDN.pm line 150.",
        );
    }
    let token = format!(
        "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}",
        (ms >> 16) as u32,
        ms & 0xffff,
        a & 0xfff,
        0x8000 | ((a >> 16) & 0x3fff),
        b & 0xffff_ffff_ffff
    );
    st.sdn.lock = Some(token.clone());
    Ok(json!(token))
}

fn unlock(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    if !call.flag("force") {
        st.sdn
            .check_lock(call)
            .map_err(|e| e.wrap("could not release lock"))?;
    }
    st.sdn.lock = None;
    Ok(Value::Null)
}

/// `release-lock` has default 1 in the schema, but the real code does not apply it: only an explicit 1 releases.
pub(super) fn release_if_asked(st: &mut State, call: &Call) {
    if call.flag("release-lock") {
        st.sdn.lock = None;
    }
}

fn rollback(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    st.sdn
        .check_lock(call)
        .map_err(|e| e.wrap("could not rollback SDN configuration"))?;
    st.sdn.config = st.sdn.running.clone();
    release_if_asked(&mut st, call);
    Ok(Value::Null)
}

/// Makes pending the running config, as `PUT /cluster/sdn` does before it starts any task. Errors: wrong lock token.
pub(super) fn commit(st: &mut State, call: &Call) -> Result<(), PveError> {
    st.sdn
        .check_lock(call)
        .map_err(|e| e.wrap("could not commit SDN config"))?;
    st.sdn.running = st.sdn.config.clone();
    st.sdn.version += 1;
    release_if_asked(st, call);
    Ok(())
}

/// The three views of one kind of object. `key` is `zone` or `vnet`.
pub(super) fn view(
    key: &str,
    config: &Objects,
    running: &Objects,
    call: &Call,
) -> Vec<Map<String, Value>> {
    let with = |id: &str, props: &Map<String, Value>, digest: Value| {
        let mut v = props.clone();
        v.insert(key.into(), json!(id));
        v.insert("digest".into(), digest);
        v
    };
    if call.flag("running") {
        return running
            .iter()
            .map(|(id, p)| with(id, p, Value::Null))
            .collect();
    }
    if !call.flag("pending") {
        let d = digest(config);
        return config.iter().map(|(id, p)| with(id, p, json!(d))).collect();
    }
    let mut ids: Vec<&String> = config.keys().chain(running.keys()).collect();
    ids.sort();
    ids.dedup();
    ids.into_iter()
        .map(|id| match (config.get(id), running.get(id)) {
            (Some(new), None) => {
                let mut pending = new.clone();
                let kind = pending.remove("type").unwrap_or(Value::Null);
                let mut v = Map::new();
                v.insert("type".into(), kind);
                v.insert("state".into(), json!("new"));
                v.insert("pending".into(), pending.into());
                with(id, &v, Value::Null)
            }
            (None, Some(old)) => {
                let mut v = with(id, old, Value::Null);
                v.insert("state".into(), json!("deleted"));
                v.insert("pending".into(), json!({}));
                v
            }
            (Some(new), Some(old)) => {
                let mut v = with(id, old, Value::Null);
                let mut pending = Map::new();
                for (k, value) in new.iter().filter(|(k, value)| old.get(*k) != Some(value)) {
                    pending.insert(k.clone(), value.clone());
                }
                for k in old.keys().filter(|k| !new.contains_key(*k)) {
                    pending.insert(k.clone(), json!("deleted"));
                }
                if let Some(kind) = pending.remove("type") {
                    v.insert("type".into(), kind);
                    v.insert("state".into(), json!("changed"));
                }
                if !pending.is_empty() {
                    v.insert("state".into(), json!("changed"));
                }
                if v.contains_key("state") {
                    v.insert("pending".into(), pending.into());
                }
                v
            }
            (None, None) => Map::new(),
        })
        .collect()
}

/// Takes the SDN objects of a world: `sdn: {zones, vnets, subnets}` are applied, `sdn: {pending: {zones, vnets, subnets}}` are not yet.
/// Errors: what is wrong in it.
pub fn load(st: &mut State, world: &Value) -> Result<(), String> {
    let read = |part: &Value, into: &mut Config| -> Result<(), String> {
        for (list, key) in [("zones", "zone"), ("vnets", "vnet"), ("subnets", "subnet")] {
            for entry in part[list].as_array().into_iter().flatten() {
                let mut object = entry.as_object().cloned().unwrap_or_default();
                let id = object
                    .remove(key)
                    .and_then(|v| v.as_str().map(str::to_string))
                    .ok_or_else(|| format!("sdn: {list}: no {key}"))?;
                match list {
                    "zones" => into.zones.insert(id, object),
                    "vnets" => {
                        object.insert("type".into(), json!("vnet"));
                        into.vnets.insert(id, object)
                    }
                    _ => into.subnets.insert(id, object),
                };
            }
        }
        Ok(())
    };
    let part = &world["sdn"];
    read(part, &mut st.sdn.running)?;
    st.sdn.config = st.sdn.running.clone();
    let mut config = st.sdn.config.clone();
    read(&part["pending"], &mut config)?;
    st.sdn.config = config;
    st.sdn.no_vlan_filtering = part["no_vlan_filtering"] == true;
    st.sdn.version = 1;
    let names: Vec<String> = st.nodes.iter().map(|n| n.name.clone()).collect();
    for name in names {
        sdn_apply::generate(st, &name);
    }
    Ok(())
}

/// For `GET /labsim/world`.
pub fn dump(st: &State) -> Value {
    let show = |c: &Config| json!({"zones": c.zones, "vnets": c.vnets, "subnets": c.subnets});
    json!({"pending": show(&st.sdn.config), "running": show(&st.sdn.running), "locked": st.sdn.lock.is_some(), "version": st.sdn.version})
}
