//! Guests: their records and their routes.
pub mod clone;
pub mod conf;
pub mod create;
pub mod destroy;
pub mod disks;
pub mod drive;
pub mod hotplug;
pub mod newdisks;
pub mod pending;
pub mod perms;
pub mod power;
pub mod read;
pub mod snapshot;
pub mod update;
pub mod volumes;
pub mod work;

use super::{Lab, PveError, Router, State, propstr};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A virtual machine or container of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    /// Its id, 100..=999999999.
    pub vmid: u32,
    /// The node that holds it.
    pub node: String,
    /// `qemu` or `lxc`.
    pub kind: String,
    /// `running` or `stopped`, as `/cluster/resources` says it; follows `run`.
    pub status: String,
    /// Whether it is a template; follows the option.
    pub template: bool,
    /// Applied configuration; all values are text.
    pub config: Map<String, Value>,
    /// Pending values; `null` stands for a pending deletion, `true` for one that destroys the volume.
    pub pending: Map<String, Value>,
    /// When it was made, on `Lab::now_ms`'s clock: the cluster lists it `listing_lag_ms` later.
    pub created_ms: u64,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<conf::Snapshot>,
    /// Set while it runs.
    pub run: Option<Run>,
    /// Whether a system runs in it that answers shutdown, unplug and (with the option `agent`) the agent.
    pub guest_os: bool,
    /// The configuration's file lock is held.
    pub flock: bool,
    /// Addresses that its agent reports, by NIC (`net0`).
    pub addresses: Map<String, Value>,
}

/// A guest's running machine.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Since when, on `Lab::now_ms`'s clock.
    pub since_ms: u64,
    /// Suspended in memory.
    pub paused: bool,
    /// Devices plugged in since the start.
    pub plugged: BTreeSet<String>,
}

impl Guest {
    /// A new, empty, stopped machine.
    pub fn new(vmid: u32, node: &str, created_ms: u64) -> Guest {
        Guest {
            vmid,
            node: node.to_string(),
            kind: "qemu".to_string(),
            status: "stopped".to_string(),
            created_ms,
            ..Guest::default()
        }
    }

    /// The digest that PUT config compares.
    pub fn digest(&self) -> String {
        conf::sha1_hex(&conf::stored_text(
            &self.config,
            &self.pending,
            &self.snapshots,
        ))
    }

    /// Refuses if an operation holds the guest.
    ///
    /// # Errors
    /// 500 `VM is locked (backup)`.
    pub fn check_lock(&self) -> Result<(), PveError> {
        match conf::text(&self.config, "lock") {
            Some(lock) => Err(PveError::die(format!("VM is locked ({lock})"))),
            None => Ok(()),
        }
    }

    /// Starts or ends its machine.
    pub fn set_run(&mut self, run: Option<Run>) {
        self.status = if run.is_some() { "running" } else { "stopped" }.to_string();
        self.run = run;
    }
}

/// 500 as for every guest that is not on that node.
pub fn missing(node: &str, vmid: u32) -> PveError {
    PveError::die(format!(
        "Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist"
    ))
}

/// A copy of a machine of a node.
///
/// # Errors
/// 500 `Configuration file '...' does not exist`.
pub fn load_guest(lab: &Lab, node: &str, vmid: u32) -> Result<Guest, PveError> {
    let st = lab.st();
    st.guests
        .get(&vmid)
        .filter(|g| g.node == node && g.kind == "qemu")
        .cloned()
        .ok_or_else(|| missing(node, vmid))
}

/// The guest that a volume's name says it belongs to.
pub fn volume_owner(volid: &str) -> Option<u32> {
    let name = volid.split_once(':')?.1;
    let last = name.rsplit('/').next()?;
    let by_name = last
        .split('-')
        .nth(1)
        .filter(|_| last.starts_with("vm-") || last.starts_with("base-"));
    let folder = name.rsplit('/').nth(1);
    folder.or(by_name)?.parse().ok()
}

/// A MAC address of Proxmox's own range, by the seed.
pub fn random_mac(lab: &Lab) -> String {
    let bits = lab.rng().next_u64();
    format!(
        "BC:24:11:{:02X}:{:02X}:{:02X}",
        bits & 0xff,
        (bits >> 8) & 0xff,
        (bits >> 16) & 0xff
    )
}

/// A random uuid (version 4), by the seed.
pub fn new_uuid(lab: &Lab) -> String {
    let (a, b) = {
        let mut rng = lab.rng();
        (rng.next_u64(), rng.next_u64())
    };
    let hex = format!(
        "{:016x}{:016x}",
        (a & !0xf000) | 0x4000,
        (b & !(3 << 62)) | (1 << 63)
    );
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// A NIC as the server stores it: canonical, with a MAC of its own if the request named none.
pub fn with_mac(lab: &Lab, key: &str, net: &str) -> String {
    let Some(mut parsed) = conf::parse_option(key, net) else {
        return net.to_string();
    };
    if parsed.get("macaddr").is_none() {
        parsed.set("macaddr", random_mac(lab));
    }
    conf::option_schema(key)
        .and_then(|s| s["format"].as_object())
        .map_or_else(|| net.to_string(), |f| propstr::print(f, &parsed))
}

/// Adds the routes of this folder.
pub fn register(r: &mut Router) {
    r.add("GET", "/nodes/{node}/qemu", read::list);
    r.add("POST", "/nodes/{node}/qemu", create::create);
    let mut add = |method: &str, tail: &str, handler: super::Handler| {
        r.add(
            method,
            &format!("/nodes/{{node}}/qemu/{{vmid}}{tail}"),
            handler,
        );
    };
    add("DELETE", "", destroy::destroy);
    add("GET", "", read::index);
    add("GET", "/config", read::config);
    add("PUT", "/config", update::put);
    add("POST", "/config", update::post);
    add("GET", "/pending", read::pending);
    add("GET", "/feature", read::feature);
    add("GET", "/status", read::status_index);
    add("GET", "/status/current", read::current);
    add("GET", "/cloudinit", read::cloudinit);
    add("PUT", "/cloudinit", read::regenerate_cloudinit);
    add("PUT", "/unlink", update::unlink);
    add("PUT", "/resize", volumes::resize);
    add("POST", "/move_disk", volumes::move_disk);
    add("POST", "/template", clone::template);
    add("POST", "/clone", clone::clone);
    add("GET", "/migrate", clone::migrate_check);
    add("POST", "/migrate", clone::migrate);
    add("GET", "/snapshot", snapshot::list);
    add("POST", "/snapshot", snapshot::create);
    add("DELETE", "/snapshot/{snapname}", snapshot::delete);
    add("GET", "/snapshot/{snapname}/config", snapshot::config);
    add("POST", "/snapshot/{snapname}/rollback", snapshot::rollback);
    add("POST", "/status/start", power::start);
    add("POST", "/status/stop", power::stop);
    add("POST", "/status/shutdown", power::shutdown);
    add("POST", "/status/reboot", power::reboot);
    add("POST", "/status/reset", power::reset);
    add("POST", "/status/suspend", power::suspend);
    add("POST", "/status/resume", power::resume);
    add("POST", "/agent/ping", power::agent_ping);
    add(
        "GET",
        "/agent/network-get-interfaces",
        power::agent_interfaces,
    );
    add("GET", "/agent/get-osinfo", power::agent_osinfo);
    add("GET", "/agent/get-host-name", power::agent_host_name);
}

/// Takes the guests of a world: `{"vmid", "node", "type", "name", "status", "pool", "guest_os", "config": {...},
/// "addresses": {"net0": ["192.0.2.7/24"]}}`.
///
/// # Errors
/// What is wrong in it.
pub fn load(st: &mut State, world: &Value) -> Result<(), String> {
    for item in world["guests"].as_array().into_iter().flatten() {
        let number = item["vmid"].as_u64().and_then(|n| u32::try_from(n).ok());
        let vmid = number.ok_or_else(|| format!("guest without a vmid: {item}"))?;
        let node = item["node"]
            .as_str()
            .ok_or_else(|| format!("guest {vmid} is on no node"))?;
        let mut guest = Guest::new(vmid, node, 0);
        guest.kind = item["type"].as_str().unwrap_or("qemu").to_string();
        guest.guest_os = item["guest_os"] == true;
        guest.addresses = item["addresses"].as_object().cloned().unwrap_or_default();
        change_options(&mut guest, &item["config"]);
        if let Some(name) = item["name"].as_str() {
            guest.config.entry("name").or_insert_with(|| json!(name));
        }
        guest.template = conf::is_on(&guest.config, "template");
        if item["status"] == "running" {
            guest.set_run(Some(Run::default()));
        }
        if st.guests.insert(vmid, guest).is_some() {
            return Err(format!("guest {vmid} is in the world twice"));
        }
        if let Some(pool) = item["pool"].as_str() {
            st.set_pool(vmid, Some(pool));
        }
    }
    Ok(())
}

/// Sets options as text; `null` removes one.
fn change_options(guest: &mut Guest, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        match value {
            Value::Null => guest.config.shift_remove(key),
            Value::String(s) => guest.config.insert(key.clone(), json!(s)),
            Value::Bool(b) => guest
                .config
                .insert(key.clone(), json!(u8::from(*b).to_string())),
            other => guest.config.insert(key.clone(), json!(other.to_string())),
        };
    }
}

/// One guest for `GET /labsim/world`.
pub fn dump(g: &Guest) -> Value {
    let mut config = g.config.clone();
    if config.contains_key("cipassword") {
        config.insert("cipassword".to_string(), json!("**********"));
    }
    json!({"vmid": g.vmid, "node": g.node, "type": g.kind, "status": g.status, "config": config, "pending": g.pending,
        "paused": g.run.as_ref().is_some_and(|r| r.paused), "guest_os": g.guest_os, "digest": g.digest(), "flock": g.flock,
        "snapshots": g.snapshots.iter().map(|s| s.name.clone()).collect::<Vec<_>>()})
}

/// `POST /labsim/set` with `{"guest": VMID, ...}`: changes the guest from outside: `config` (null removes), `lock`, `status`
/// (`running`, `stopped`), `guest_os`, `flock`, `addresses`, `pool`, `remove`.
///
/// # Errors
/// What is unknown.
pub fn set(lab: &Arc<Lab>, patch: &Value) -> Result<(), String> {
    const KNOWN: [&str; 9] = [
        "guest",
        "lock",
        "config",
        "status",
        "guest_os",
        "flock",
        "addresses",
        "pool",
        "remove",
    ];
    if let Some(other) = patch
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, _)| k)
        .find(|k| !KNOWN.contains(&k.as_str()))
    {
        return Err(format!(
            "labsim: nothing known to set as '{other}' of a guest"
        ));
    }
    let vmid = patch["guest"]
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .ok_or("labsim: guest is no vmid")?;
    let now = lab.now_ms();
    let mut st = lab.st();
    if patch["remove"] == true {
        return st
            .guests
            .remove(&vmid)
            .map(|_| ())
            .ok_or_else(|| format!("labsim: no guest {vmid}"));
    }
    let guest = st
        .guests
        .get_mut(&vmid)
        .ok_or_else(|| format!("labsim: no guest {vmid}"))?;
    change_options(guest, &patch["config"]);
    if let Some(lock) = patch.get("lock") {
        change_options(guest, &json!({"lock": lock}));
    }
    guest.template = conf::is_on(&guest.config, "template");
    match patch["status"].as_str() {
        Some("running") => guest.set_run(Some(Run {
            since_ms: now,
            ..Run::default()
        })),
        Some("stopped") => guest.set_run(None),
        Some(other) => return Err(format!("labsim: no such status '{other}'")),
        None => {}
    }
    if let Some(b) = patch["guest_os"].as_bool() {
        guest.guest_os = b;
    }
    if let Some(b) = patch["flock"].as_bool() {
        guest.flock = b;
    }
    if let Some(map) = patch["addresses"].as_object() {
        guest.addresses = map.clone();
    }
    if let Some(pool) = patch.get("pool") {
        st.set_pool(vmid, pool.as_str());
    }
    Ok(())
}
