//! Nodes and their networks.
use super::{Auth, Call, Lab, PveError, Router, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it answers; requests to an offline node are 595.
    pub online: bool,
    /// Whether it is listed at all (a folder of a former node is known by its guests only).
    pub member: bool,
    /// Network interfaces as `/nodes/N/network` lists them: bridges, NICs, bonds (no vnets).
    pub ifaces: Vec<Value>,
    /// SDN as this node has it since its last reload: vnet to whether its bridge exists.
    pub vnets: BTreeMap<String, bool>,
    /// Zones as of the last reload: `available` or `error`.
    pub zones: BTreeMap<String, String>,
    /// The vnet configuration of the last reload, for what changed since.
    pub loaded: BTreeMap<String, Value>,
    /// Bytes of memory.
    pub maxmem: u64,
    /// Logical CPUs.
    pub maxcpu: u64,
}

impl Node {
    /// Whether a bridge or vnet of that name exists on the node right now (a guest can start on it).
    pub fn has_bridge(&self, name: &str) -> bool {
        self.vnets.get(name) == Some(&true)
            || self.ifaces.iter().any(|i| {
                i["iface"] == name && matches!(i["type"].as_str(), Some("bridge" | "OVSBridge"))
            })
    }
}

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("GET", "/nodes", list);
    r.add("GET", "/nodes/{node}/status", status);
    r.add("GET", "/nodes/{node}/version", version);
    r.add("GET", "/nodes/{node}/network", network);
    r.add("GET", "/nodes/{node}/network/{iface}", iface);
    r.add("GET", "/nodes/{node}/capabilities/qemu/machines", machines);
    r.add("GET", "/nodes/{node}/capabilities/qemu/cpu", cpus);
}

/// A node for `/nodes` and `/cluster/resources`; load only with Sys.Audit (docs/pve-privileges.md).
pub fn show(st: &State, auth: &Auth, n: &Node) -> Value {
    let mut v = json!({"id": format!("node/{}", n.name), "type": "node", "node": n.name, "level": "",
        "status": if n.online { "online" } else { "offline" }});
    if n.online && st.may(auth, &format!("/nodes/{}", n.name), &["Sys.Audit"]) {
        for (k, value) in load_of(st, n) {
            v[k] = value;
        }
    }
    v
}

fn load_of(st: &State, n: &Node) -> Vec<(&'static str, Value)> {
    let running = st
        .guests
        .values()
        .filter(|g| g.node == n.name && g.status == "running")
        .count() as u64;
    vec![
        ("cpu", json!(0.01 * running as f64)),
        ("maxcpu", json!(n.maxcpu)),
        ("mem", json!((2 << 30) + running * (256 << 20))),
        ("maxmem", json!(n.maxmem)),
        ("disk", json!(5u64 << 30)),
        ("maxdisk", json!(50u64 << 30)),
        ("uptime", json!(86_400)),
    ]
}

fn list(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    Ok(st
        .nodes
        .iter()
        .filter(|n| n.member)
        .map(|n| {
            let mut v = show(&st, &call.auth, n);
            v["ssl_fingerprint"] = json!("");
            v
        })
        .collect())
}

fn node<'a>(st: &'a State, call: &Call) -> Result<&'a Node, PveError> {
    let name = call.arg("node");
    st.nodes
        .iter()
        .find(|n| n.name == name)
        .ok_or_else(|| PveError::die(format!("no such cluster node '{name}'")))
}

fn status(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let n = node(&st, call)?;
    Ok(json!({
        "uptime": 86_400, "cpu": 0.01, "wait": 0, "loadavg": ["0.10", "0.10", "0.10"], "pveversion": format!("pve-manager/{}/{REPOID}", VERSION),
        "memory": {"total": n.maxmem, "used": 2u64 << 30, "free": n.maxmem.saturating_sub(2 << 30)},
        "swap": {"total": 0, "used": 0, "free": 0}, "rootfs": {"total": 50u64 << 30, "used": 5u64 << 30, "free": 45u64 << 30, "avail": 45u64 << 30},
        "cpuinfo": {"cpus": n.maxcpu, "cores": n.maxcpu, "sockets": 1, "model": "labsim", "mhz": "2000", "user_hz": 100, "hvm": "1", "flags": ""},
        "ksm": {"shared": 0}, "idle": 0,
    }))
}

/// Of the recordings (docs/pve-facts.md).
pub const VERSION: &str = "9.2.11";
/// Of the recordings.
pub const REPOID: &str = "14a22df35955d97d";

fn version(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok(json!({"version": VERSION, "release": "9.2", "repoid": REPOID}))
}

/// Whether somebody sees a bridge: SDN.Audit or SDN.Use on it, or on any ACL path `BRIDGE/VLAN` below it.
fn sees(st: &State, auth: &Auth, path: &str) -> bool {
    const SEE: &[&str] = &["SDN.Audit", "SDN.Use"];
    let below = format!("{path}/");
    st.may_any(auth, path, SEE)
        || st
            .access
            .acl
            .iter()
            .any(|a| a.path.starts_with(&below) && st.may_any(auth, &a.path, SEE))
}

fn network(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let n = node(&st, call)?;
    let wanted = call.text("type");
    let mut all: Vec<Value> = n
        .ifaces
        .iter()
        .filter(|i| {
            let kind = i["type"].as_str().unwrap_or("");
            match wanted.as_deref() {
                None | Some("include_sdn") => true,
                Some("any_bridge" | "any_local_bridge") => matches!(kind, "bridge" | "OVSBridge"),
                Some(w) => w == kind,
            }
        })
        .filter(|i| {
            let bridge = matches!(i["type"].as_str(), Some("bridge" | "OVSBridge"));
            !bridge
                || sees(
                    &st,
                    &call.auth,
                    &format!(
                        "/sdn/zones/localnetwork/{}",
                        i["iface"].as_str().unwrap_or("")
                    ),
                )
        })
        .cloned()
        .collect();
    if matches!(
        wanted.as_deref(),
        Some("any_bridge" | "vnet" | "include_sdn")
    ) {
        // From the running config: from the moment of the apply, before the bridge exists (docs/pve-sdn.md section 4).
        for (vnet, zone, alias) in st.sdn.running_vnets_on(&n.name) {
            if sees(&st, &call.auth, &format!("/sdn/zones/{zone}/{vnet}")) {
                let mut v = json!({"iface": vnet, "type": "vnet", "active": 1});
                if let Some(a) = alias {
                    v["comments"] = json!(a);
                }
                all.push(v);
            }
        }
    }
    all.sort_by_key(|i| i["iface"].as_str().unwrap_or("").to_string());
    Ok(all.into())
}

fn iface(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let name = call.arg("iface");
    let found = node(&st, call)?
        .ifaces
        .iter()
        .find(|i| i["iface"] == name.as_str());
    let mut v = found
        .cloned()
        .ok_or_else(|| PveError::param("iface", "interface does not exist"))?;
    if let Some(o) = v.as_object_mut() {
        o.remove("iface");
    }
    Ok(v)
}

fn machines(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    let mut all = Vec::new();
    for (kind, stem) in [("i440fx", "pc-i440fx"), ("q35", "pc-q35")] {
        for v in [
            "10.0+pve1",
            "10.0",
            "9.2+pve1",
            "9.2",
            "9.1",
            "9.0",
            "8.2",
            "8.1",
            "8.0",
            "7.2",
        ] {
            all.push(json!({"id": format!("{stem}-{v}"), "type": kind, "version": v}));
        }
    }
    Ok(all.into())
}

fn cpus(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok([
        "host",
        "kvm64",
        "qemu64",
        "max",
        "x86-64-v2",
        "x86-64-v2-AES",
        "x86-64-v3",
        "x86-64-v4",
    ]
    .iter()
    .map(|n| json!({"name": n, "custom": 0, "vendor": "default"}))
    .collect())
}

/// Takes the nodes of a world. Errors: what is wrong in it.
pub fn load(st: &mut State, world: &Value) -> Result<(), String> {
    let common: Vec<Value> = world["network"].as_array().cloned().unwrap_or_default();
    let default = [json!({"node": "pve1"})];
    for n in world["nodes"]
        .as_array()
        .map_or(default.as_slice(), Vec::as_slice)
    {
        let name = n["node"]
            .as_str()
            .ok_or("nodes: an entry has no node")?
            .to_string();
        let state = n["status"].as_str().unwrap_or("online");
        if !state.starts_with("online") && !state.starts_with("offline") {
            return Err(format!(
                "nodes: {name}: status is online or offline, not '{state}'"
            ));
        }
        let mut ifaces = n["network"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| common.clone());
        if ifaces.is_empty() {
            ifaces.push(json!({"iface": "vmbr0", "type": "bridge", "active": 1}));
        }
        st.nodes.push(Node {
            online: state.starts_with("online"),
            // starting-world.json describes a folder left by a node that never was a member: `offline (holds guest ...)`.
            member: n["member"]
                .as_bool()
                .unwrap_or(!state.starts_with("offline (")),
            name,
            ifaces,
            maxmem: n["maxmem"].as_u64().unwrap_or(64 << 30),
            maxcpu: n["maxcpu"].as_u64().unwrap_or(16),
            ..Node::default()
        });
    }
    Ok(())
}

/// For `GET /labsim/world`.
pub fn dump(n: &Node) -> Value {
    json!({"node": n.name, "online": n.online, "network": n.ifaces, "vnets": n.vnets, "zones": n.zones})
}
