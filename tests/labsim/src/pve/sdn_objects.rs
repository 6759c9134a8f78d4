//! Zones, vnets and subnets: reading, checking and writing them in the pending configuration.
//! Texts and order of checks: docs/pve-sdn.md and tests/fixtures/pve/sdn-cases.json.
use super::sdn::{Config, Objects, digest, view};
use super::{Call, Lab, PveError, Router, State, formats};
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use std::sync::Arc;

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("GET", "/cluster/sdn/zones", zones);
    r.add("POST", "/cluster/sdn/zones", zone_add);
    r.add("GET", "/cluster/sdn/zones/{zone}", zone_show);
    r.add("PUT", "/cluster/sdn/zones/{zone}", zone_update);
    r.add("DELETE", "/cluster/sdn/zones/{zone}", zone_delete);
    r.add("GET", "/cluster/sdn/vnets", vnets);
    r.add("POST", "/cluster/sdn/vnets", vnet_add);
    r.add("GET", "/cluster/sdn/vnets/{vnet}", vnet_show);
    r.add("PUT", "/cluster/sdn/vnets/{vnet}", vnet_update);
    r.add("DELETE", "/cluster/sdn/vnets/{vnet}", vnet_delete);
    r.add("GET", "/cluster/sdn/vnets/{vnet}/subnets", subnets);
    r.add("POST", "/cluster/sdn/vnets/{vnet}/subnets", subnet_add);
    r.add(
        "DELETE",
        "/cluster/sdn/vnets/{vnet}/subnets/{subnet}",
        subnet_delete,
    );
}

/// Options of a zone type: (required, optional). From pve-network's plugins (PVE::Network::SDN::Zones).
fn zone_options(kind: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        "vlan" => (
            &["bridge"],
            &[
                "bridge-disable-mac-learning",
                "nodes",
                "mtu",
                "dns",
                "reversedns",
                "dnszone",
                "ipam",
            ],
        ),
        "qinq" => (
            &["tag", "bridge"],
            &[
                "vlan-protocol",
                "bridge-disable-mac-learning",
                "nodes",
                "mtu",
                "dns",
                "reversedns",
                "dnszone",
                "ipam",
            ],
        ),
        "vxlan" => (
            &[],
            &[
                "peers",
                "fabric",
                "vxlan-port",
                "nodes",
                "mtu",
                "dns",
                "reversedns",
                "dnszone",
                "ipam",
            ],
        ),
        "evpn" => (
            &["vrf-vxlan", "controller"],
            &[
                "exitnodes",
                "exitnodes-local-routing",
                "exitnodes-primary",
                "advertise-subnets",
                "disable-arp-nd-suppression",
                "bridge-disable-mac-learning",
                "rt-import",
                "vxlan-port",
                "mac",
                "nodes",
                "mtu",
                "dns",
                "reversedns",
                "dnszone",
                "ipam",
            ],
        ),
        "faucet" => (&["dp-id"], &["nodes", "mtu", "bridge-disable-mac-learning"]),
        _ => (
            &[],
            &[
                "nodes",
                "mtu",
                "dns",
                "reversedns",
                "dnszone",
                "ipam",
                "dhcp",
            ],
        ),
    }
}

const NOT_OPTIONS: &[&str] = &["lock-token", "digest", "delete"];

/// What SectionConfig's check_config says to parameters that the type does not have, or lacks.
fn check_zone(kind: &str, call: &Call, create: bool) -> Result<(), PveError> {
    let (required, optional) = zone_options(kind);
    for k in call
        .params
        .keys()
        .filter(|k| !NOT_OPTIONS.contains(&k.as_str()) && *k != "type" && *k != "zone")
    {
        if !required.contains(&k.as_str()) && !optional.contains(&k.as_str()) {
            return Err(PveError::die(format!("unexpected property '{k}'")));
        }
    }
    if create && let Some(missing) = required.iter().find(|k| !call.params.contains_key(**k)) {
        return Err(PveError::die(format!(
            "missing value for required option '{missing}'"
        )));
    }
    Ok(())
}

fn zone_hook(zone: &Map<String, Value>) -> Result<(), PveError> {
    if zone.get("type") == Some(&json!("vxlan"))
        && zone.contains_key("peers") == zone.contains_key("fabric")
    {
        let why = "must have exactly one of peers / fabric defined".to_string();
        return Err(PveError::params(
            [("fabric".into(), why.clone()), ("peers".into(), why)].into(),
        ));
    }
    Ok(())
}

/// The parameters that are options of the object named by the parameter `id`.
fn options(call: &Call, id: &str) -> Map<String, Value> {
    call.params
        .iter()
        .filter(|(k, _)| !NOT_OPTIONS.contains(&k.as_str()) && *k != id)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Sets and deletes options of an object as SectionConfig's delete_from_config does.
fn change(
    object: &mut Map<String, Value>,
    call: &Call,
    id: &str,
    required: &[&str],
    optional: &[&str],
) -> Result<(), PveError> {
    for k in formats::split_list(&call.arg("delete")) {
        if required.contains(&k.as_str()) {
            return Err(PveError::die(format!(
                "unable to delete required option '{k}'"
            )));
        }
        if !optional.contains(&k.as_str()) {
            return Err(PveError::die(format!("no such option '{k}'")));
        }
        if call.params.contains_key(&k) {
            return Err(PveError::die(format!(
                "cannot set and delete property '{k}' at the same time!"
            )));
        }
        object.remove(&k);
    }
    object.extend(options(call, id));
    Ok(())
}

fn check_digest(objects: &Objects, call: &Call) -> Result<(), PveError> {
    match call.text("digest") {
        Some(d) if d != digest(objects) => Err(PveError::die(
            "detected modified configuration - file changed by other user? Try again.",
        )),
        _ => Ok(()),
    }
}

fn no_zone(id: &str) -> PveError {
    PveError::die(format!("sdn '{id}' does not exist"))
}

fn no_vnet(id: &str) -> PveError {
    PveError::die(format!("sdn vnet '{id}' does not exist"))
}

fn zones(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let kind = call.text("type");
    Ok(
        view("zone", &st.sdn.config.zones, &st.sdn.running.zones, call)
            .into_iter()
            .filter(|z| kind.as_ref().is_none_or(|k| z["type"] == k.as_str()))
            .filter(|z| {
                let path = format!("/sdn/zones/{}", z["zone"].as_str().unwrap_or(""));
                st.may_any(&call.auth, &path, &["SDN.Audit", "SDN.Allocate"])
            })
            .map(Value::Object)
            .collect(),
    )
}

fn zone_show(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("zone");
    let found = view("zone", &st.sdn.config.zones, &st.sdn.running.zones, call)
        .into_iter()
        .find(|z| z["zone"] == id.as_str());
    found.map(Value::Object).ok_or_else(|| no_zone(&id))
}

fn zone_add(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    // Wrong options are refused before the lock is looked at, without the prefix (recorded: zone-badopt).
    check_zone(&call.arg("type"), call, true)?;
    let mut st = lab.st();
    add_zone(&mut st, call).map_err(|e| e.wrap("create sdn zone object failed"))
}

fn add_zone(st: &mut State, call: &Call) -> Result<Value, PveError> {
    let id = call.arg("zone");
    st.sdn.check_lock(call)?;
    if st.sdn.config.zones.contains_key(&id) {
        return Err(PveError::die(format!(
            "sdn zone object ID '{id}' already defined"
        )));
    }
    let zone = options(call, "zone");
    zone_hook(&zone)?;
    st.sdn.config.zones.insert(id, zone);
    Ok(Value::Null)
}

fn zone_update(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    update_zone(&mut st, call).map_err(|e| e.wrap("update sdn zone object failed"))
}

fn update_zone(st: &mut State, call: &Call) -> Result<Value, PveError> {
    let id = call.arg("zone");
    st.sdn.check_lock(call)?;
    check_digest(&st.sdn.config.zones, call)?;
    let mut zone = st
        .sdn
        .config
        .zones
        .get(&id)
        .cloned()
        .ok_or_else(|| no_zone(&id))?;
    let kind = zone
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("simple")
        .to_string();
    check_zone(&kind, call, false)?;
    let (required, optional) = zone_options(&kind);
    change(&mut zone, call, "zone", required, optional)?;
    zone_hook(&zone)?;
    st.sdn.config.zones.insert(id, zone);
    Ok(Value::Null)
}

fn zone_delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    delete_zone(&mut st, call).map_err(|e| e.wrap("delete sdn zone object failed"))
}

fn delete_zone(st: &mut State, call: &Call) -> Result<Value, PveError> {
    let id = call.arg("zone");
    st.sdn.check_lock(call)?;
    if !st.sdn.config.zones.contains_key(&id) {
        return Err(no_zone(&id));
    }
    if let Some((vnet, _)) = st
        .sdn
        .config
        .vnets
        .iter()
        .find(|(_, v)| v.get("zone") == Some(&json!(id)))
    {
        return Err(PveError::die(format!(
            "zone {id} is used by vnet {vnet} at /usr/share/perl5/PVE/Network/SDN/Zones/Plugin.pm line 149."
        )));
    }
    st.sdn.config.zones.remove(&id);
    Ok(Value::Null)
}

fn vnets(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    Ok(
        view("vnet", &st.sdn.config.vnets, &st.sdn.running.vnets, call)
            .into_iter()
            .filter(|v| {
                let zone = v
                    .get("zone")
                    .or_else(|| v.get("pending")?.get("zone"))
                    .and_then(Value::as_str)
                    .unwrap_or("");
                let path = format!("/sdn/zones/{zone}/{}", v["vnet"].as_str().unwrap_or(""));
                st.may_any(&call.auth, &path, &["SDN.Audit", "SDN.Allocate"])
            })
            .map(Value::Object)
            .collect(),
    )
}

/// The vnet must exist in the pending config before anybody's privilege is looked at: its zone makes the ACL path.
fn vnet_path(st: &State, id: &str) -> Result<String, PveError> {
    let zone = st.sdn.zone_of(id).ok_or_else(|| no_vnet(id))?;
    Ok(format!("/sdn/zones/{zone}/{id}"))
}

fn vnet_show(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("vnet");
    st.check_any(
        &call.auth,
        &vnet_path(&st, &id)?,
        &["SDN.Audit", "SDN.Allocate"],
    )?;
    let found = view("vnet", &st.sdn.config.vnets, &st.sdn.running.vnets, call)
        .into_iter()
        .find(|v| v["vnet"] == id.as_str());
    found.map(Value::Object).ok_or_else(|| no_vnet(&id))
}

/// What a zone's type says to a vnet's tag.
fn vnet_hook(config: &Config, id: &str, vnet: &Map<String, Value>) -> Result<(), PveError> {
    let zone_id = vnet.get("zone").and_then(Value::as_str).unwrap_or("");
    let Some(zone) = config.zones.get(zone_id) else {
        return Err(PveError::die(
            "cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Network/SDN/Vnets.pm line 326.",
        ));
    };
    let tag = vnet.get("tag").and_then(Value::as_u64);
    let (name, max) = match zone.get("type").and_then(Value::as_str).unwrap_or("") {
        "vlan" | "qinq" => ("vlan", 4096),
        "vxlan" | "evpn" => ("vxlan", 16_777_216),
        _ if tag.is_some() => {
            return Err(PveError::param(
                "tag",
                "vlan tag is not allowed on simple zone",
            ));
        }
        _ => return Ok(()),
    };
    let Some(tag) = tag else {
        return Err(PveError::param("tag", format!("missing {name} tag")));
    };
    if tag > max {
        return Err(PveError::param(
            "tag",
            format!("{name} tag max value is {max}"),
        ));
    }
    let same = |v: &Map<String, Value>| {
        v.get("zone") == vnet.get("zone") && v.get("tag").and_then(Value::as_u64) == Some(tag)
    };
    match config
        .vnets
        .iter()
        .find(|(other, v)| *other != id && same(v))
    {
        Some((other, _)) => Err(PveError::param(
            "tag",
            format!("tag {tag} already exist in vnet {other}"),
        )),
        None => Ok(()),
    }
}

fn vnet_add(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    add_vnet(&mut st, call).map_err(|e| e.wrap("create sdn vnet object failed"))
}

fn add_vnet(st: &mut State, call: &Call) -> Result<Value, PveError> {
    let id = call.arg("vnet");
    st.sdn.check_lock(call)?;
    if st.sdn.config.vnets.contains_key(&id) {
        return Err(PveError::die(format!(
            "sdn vnet object ID '{id}' already defined"
        )));
    }
    let mut vnet = options(call, "vnet");
    vnet.insert("type".into(), json!("vnet"));
    vnet_hook(&st.sdn.config, &id, &vnet)?;
    st.sdn.config.vnets.insert(id, vnet);
    Ok(Value::Null)
}

fn vnet_update(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let path = vnet_path(&st, &call.arg("vnet"))?;
    st.check(&call.auth, &path, &["SDN.Allocate"])?;
    update_vnet(&mut st, call).map_err(|e| e.wrap("update sdn vnet object failed"))
}

fn update_vnet(st: &mut State, call: &Call) -> Result<Value, PveError> {
    let id = call.arg("vnet");
    st.sdn.check_lock(call)?;
    check_digest(&st.sdn.config.vnets, call)?;
    let mut vnet = st
        .sdn
        .config
        .vnets
        .get(&id)
        .cloned()
        .ok_or_else(|| no_vnet(&id))?;
    change(
        &mut vnet,
        call,
        "vnet",
        &["zone"],
        &["tag", "alias", "vlanaware", "isolate-ports"],
    )?;
    vnet_hook(&st.sdn.config, &id, &vnet)?;
    st.sdn.config.vnets.insert(id, vnet);
    Ok(Value::Null)
}

fn vnet_delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let id = call.arg("vnet");
    let path = vnet_path(&st, &id)?;
    st.check(&call.auth, &path, &["SDN.Allocate"])?;
    let fail = |e: PveError| e.wrap("delete sdn vnet object failed");
    st.sdn.check_lock(call).map_err(fail)?;
    if st
        .sdn
        .config
        .subnets
        .values()
        .any(|s| s.get("vnet") == Some(&json!(id)))
    {
        return Err(fail(PveError::param(
            "vnet",
            "Can't delete vnet if subnets exists",
        )));
    }
    st.sdn.config.vnets.remove(&id);
    Ok(Value::Null)
}

fn subnets(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("vnet");
    st.check_any(
        &call.auth,
        &vnet_path(&st, &id)?,
        &["SDN.Audit", "SDN.Allocate"],
    )?;
    Ok(view(
        "subnet",
        &st.sdn.config.subnets,
        &st.sdn.running.subnets,
        call,
    )
    .into_iter()
    .filter(|s| s.get("vnet").or_else(|| s.get("pending")?.get("vnet")) == Some(&json!(id)))
    .map(|mut s| {
        let name = s["subnet"].as_str().unwrap_or("").to_string();
        let mut parts = name.splitn(2, '-');
        let zone = parts.next().unwrap_or("");
        let (network, mask) = parts
            .next()
            .and_then(|r| r.rsplit_once('-'))
            .unwrap_or(("", ""));
        for (k, v) in [
            ("id", name.as_str()),
            ("zone", zone),
            ("network", network),
            ("mask", mask),
        ] {
            s.insert(k.into(), json!(v));
        }
        s.insert("cidr".into(), json!(format!("{network}/{mask}")));
        s.entry("dhcp-range").or_insert(json!([]));
        Value::Object(s)
    })
    .collect())
}

fn contains(network: &str, mask: u32, ip: &str) -> bool {
    match (network.parse(), ip.parse()) {
        (Ok(IpAddr::V4(n)), Ok(IpAddr::V4(i))) => {
            let m = u32::MAX.checked_shl(32 - mask).unwrap_or(0);
            u32::from(n) & m == u32::from(i) & m
        }
        (Ok(IpAddr::V6(n)), Ok(IpAddr::V6(i))) => {
            let m = u128::MAX.checked_shl(128 - mask).unwrap_or(0);
            u128::from(n) & m == u128::from(i) & m
        }
        _ => false,
    }
}

fn subnet_add(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let path = vnet_path(&st, &call.arg("vnet"))?;
    st.check(&call.auth, &path, &["SDN.Allocate"])?;
    add_subnet(&mut st, call).map_err(|e| e.wrap("create sdn subnet object failed"))
}

fn add_subnet(st: &mut State, call: &Call) -> Result<Value, PveError> {
    st.sdn.check_lock(call)?;
    let (vnet, cidr) = (call.arg("vnet"), call.arg("subnet"));
    let zone = st.sdn.zone_of(&vnet).ok_or_else(|| no_vnet(&vnet))?;
    let (network, mask) = cidr.split_once('/').unwrap_or((&cidr, "32"));
    let id = format!("{zone}-{network}-{mask}");
    if st.sdn.config.subnets.contains_key(&id) {
        return Err(PveError::die(format!(
            "sdn subnet object ID '{id}' already defined"
        )));
    }
    if let Some(gateway) = call.text("gateway")
        && !contains(network, mask.parse().unwrap_or(32), &gateway)
    {
        return Err(PveError::param(
            "gateway",
            format!("{gateway} is not in subnet {cidr}"),
        ));
    }
    let mut subnet = options(call, "subnet");
    subnet.insert("vnet".into(), json!(vnet));
    st.sdn.config.subnets.insert(id, subnet);
    Ok(Value::Null)
}

fn subnet_delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let mut st = lab.st();
    let path = vnet_path(&st, &call.arg("vnet"))?;
    st.check(&call.auth, &path, &["SDN.Allocate"])?;
    let fail = |e: PveError| e.wrap("delete sdn subnet object failed");
    st.sdn.check_lock(call).map_err(fail)?;
    let id = call.arg("subnet");
    st.sdn
        .config
        .subnets
        .remove(&id)
        .map(|_| Value::Null)
        .ok_or_else(|| PveError::die(format!("sdn subnet '{id}' does not exist")))
}
