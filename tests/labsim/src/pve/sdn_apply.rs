//! Applying the SDN configuration: tasks per node, and what each node has generated (docs/pve-sdn.md sections 4 and 5).
use super::nodes::Node;
use super::tasks::{spawn_as, spawn_task};
use super::{Auth, Call, Lab, PveError, Router, State, sdn};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOT_GENERATED: &str = "vnet is not generated. Please check the 'reload network' task log.";

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("PUT", "/cluster/sdn", apply);
    r.add("GET", "/cluster/sdn/dry-run", dry_run);
    r.add("GET", "/nodes/{node}/sdn/zones", node_zones);
    r.add("GET", "/nodes/{node}/sdn/zones/{zone}", node_zone);
    r.add(
        "GET",
        "/nodes/{node}/sdn/zones/{zone}/content",
        node_content,
    );
}

/// Why a vnet's bridge cannot come up on a node: the missing bridge of its zone, if that is it.
fn missing_bridge(st: &State, node: &Node, zone: &str) -> Option<String> {
    let zone = st.sdn.running.zones.get(zone)?;
    let kind = zone.get("type").and_then(Value::as_str)?;
    let bridge = zone
        .get("bridge")
        .and_then(Value::as_str)
        .filter(|_| matches!(kind, "vlan" | "qinq"))?;
    let there = node.ifaces.iter().any(|i| i["iface"] == bridge);
    (!there).then(|| bridge.to_string())
}

/// Makes a node's bridges those of the running config, as a network reload does, and returns the lines of the task's log.
pub fn generate(st: &mut State, name: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(at) = st.nodes.iter().position(|n| n.name == name) else {
        return lines;
    };
    let mut vnets = BTreeMap::new();
    let mut zones = BTreeMap::new();
    for (id, zone) in &st.sdn.running.zones {
        if sdn::zone_is_on(zone, name) {
            zones.insert(id.clone(), "available".to_string());
        }
    }
    for (vnet, zone, _) in st.sdn.running_vnets_on(name) {
        let aware = st.sdn.running.vnets[&vnet]
            .get("vlanaware")
            .is_some_and(|v| *v == json!(1));
        let missing = missing_bridge(st, &st.nodes[at], &zone);
        if let Some(bridge) = &missing {
            lines.push(format!(
                "zone {zone} : vnet {vnet} : can't find bridge {bridge} at /usr/share/perl5/PVE/Network/SDN/Zones/VlanPlugin.pm line 83."
            ));
        }
        let up = missing.is_none() && !(aware && st.sdn.no_vlan_filtering);
        if !up {
            zones.insert(zone, "error".into());
        }
        vnets.insert(vnet, up);
    }
    let loaded = interfaces(st, name);
    let version = st.sdn.version;
    let node = &mut st.nodes[at];
    node.vnets = vnets;
    node.zones = zones;
    node.loaded = BTreeMap::from([
        ("version".to_string(), json!(version)),
        ("interfaces".to_string(), json!(loaded)),
    ]);
    lines
}

fn apply(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let members: Vec<String> = {
        let mut st = lab.st();
        sdn::commit(&mut st, call)?;
        st.nodes
            .iter()
            .filter(|n| n.member && n.online)
            .map(|n| n.name.clone())
            .collect()
    };
    let first = members
        .first()
        .cloned()
        .ok_or_else(|| PveError::die("no node is online"))?;
    let upid = spawn_task(
        lab,
        &first,
        "reloadnetworkall",
        "",
        &call.auth,
        move |ctx| {
            let mut started = Vec::new();
            for node in &members {
                ctx.log(format!("{node}: reloading network config"));
                let on = node.clone();
                // What the node does by itself belongs to root@pam, whoever applied.
                started.push(spawn_as(
                    &ctx.lab,
                    node,
                    "srvreload",
                    "networking",
                    "root@pam",
                    move |task| {
                        task.work("srvreload")?;
                        let lines = generate(&mut task.lab.st(), &on);
                        for line in lines {
                            task.log(line);
                        }
                        Ok(())
                    },
                ));
            }
            for upid in &started {
                while ctx
                    .lab
                    .tasks
                    .get(upid)
                    .is_some_and(|t| t.exitstatus().is_none())
                {
                    ctx.sleep(5)?;
                }
            }
            ctx.work("reloadnetworkall")
        },
    );
    Ok(json!(upid))
}

fn node<'a>(st: &'a State, name: &str) -> Result<&'a Node, PveError> {
    st.nodes
        .iter()
        .find(|n| n.name == name)
        .ok_or_else(|| PveError::die(format!("no such cluster node '{name}'")))
}

/// (vnet, status, statusmsg) of a zone's vnets on a node, and whether the node has yet to reload.
fn vnets_of(st: &State, node: &Node, zone: &str) -> Vec<(String, &'static str, Option<String>)> {
    let stale = is_stale(st, node);
    st.sdn
        .running_vnets_on(&node.name)
        .into_iter()
        .filter(|(_, z, _)| z == zone)
        .map(|(vnet, z, _)| match node.vnets.get(&vnet) {
            Some(true) if stale => (vnet, "pending", None),
            Some(true) => (vnet, "available", None),
            Some(false) => {
                let why = missing_bridge(st, node, &z)
                    .map_or(NOT_GENERATED.to_string(), |b| format!("missing {b}"));
                (vnet, "error", Some(why))
            }
            None => (vnet, "pending", Some(NOT_GENERATED.to_string())),
        })
        .collect()
}

fn is_stale(st: &State, node: &Node) -> bool {
    node.loaded.get("version") != Some(&json!(st.sdn.version))
}

fn zone_status(st: &State, node: &Node, zone: &str) -> &'static str {
    let vnets = vnets_of(st, node, zone);
    if vnets.iter().any(|(_, s, _)| *s == "error") {
        "error"
    } else if is_stale(st, node) {
        "pending"
    } else {
        "available"
    }
}

fn running_zones<'a>(
    st: &'a State,
    node: &'a str,
) -> impl Iterator<Item = (&'a String, &'a serde_json::Map<String, Value>)> {
    st.sdn
        .running
        .zones
        .iter()
        .filter(move |(_, z)| sdn::zone_is_on(z, node))
}

fn node_zones(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let n = node(&st, &call.arg("node"))?;
    Ok(running_zones(&st, &n.name)
        .map(|(id, _)| json!({"zone": id, "status": zone_status(&st, n, id)}))
        .collect())
}

fn node_zone(_lab: &Arc<Lab>, _call: &Call) -> Result<Value, PveError> {
    Ok(json!([{"subdir": "content"}, {"subdir": "bridges"}, {"subdir": "ip-vrf"}]))
}

fn node_content(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let n = node(&st, &call.arg("node"))?;
    let zone = call.arg("zone");
    Ok(vnets_of(&st, n, &zone)
        .into_iter()
        .map(
            |(vnet, status, message)| json!({"vnet": vnet, "status": status, "statusmsg": message}),
        )
        .collect())
}

/// The networks of a node for `/cluster/resources`.
pub fn resources(st: &State, auth: &Auth, n: &Node) -> Vec<Value> {
    let mut all = Vec::new();
    if st.may(auth, "/sdn/zones/localnetwork", &["SDN.Audit"]) {
        all.push(json!({"id": format!("network/{}/zone/localnetwork", n.name), "type": "network", "network-type": "zone",
            "network": "localnetwork", "node": n.name, "status": "ok"}));
    }
    for (id, zone) in running_zones(st, &n.name) {
        if st.may(auth, &format!("/sdn/zones/{id}"), &["SDN.Audit"]) {
            all.push(json!({"id": format!("network/{}/zone/{id}", n.name), "type": "network", "network-type": "zone", "network": id,
                "node": n.name, "zone-type": zone.get("type"), "status": zone_status(st, n, id)}));
        }
    }
    all
}

/// The interfaces file that a node generates from a configuration (the parts that simple and vlan zones have).
fn interfaces_of(config: &sdn::Config, name: &str) -> String {
    let mut blocks: BTreeMap<String, String> = BTreeMap::new();
    for (id, vnet) in &config.vnets {
        let Some(zone) = vnet
            .get("zone")
            .and_then(Value::as_str)
            .and_then(|z| config.zones.get(z))
        else {
            continue;
        };
        if !sdn::zone_is_on(zone, name) {
            continue;
        }
        let option = |m: &serde_json::Map<String, Value>, k: &str| {
            m.get(k)
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_string))
        };
        let mtu = option(zone, "mtu")
            .map(|m| format!("\tmtu {m}\n"))
            .unwrap_or_default();
        let alias = option(vnet, "alias")
            .map(|a| format!("\talias {a}\n"))
            .unwrap_or_default();
        let aware = if option(vnet, "vlanaware").as_deref() == Some("1") {
            "\tbridge-vlan-aware yes\n\tbridge-vids 2-4094\n"
        } else {
            ""
        };
        let ports = match (
            option(zone, "type").as_deref(),
            option(zone, "bridge"),
            option(vnet, "tag"),
        ) {
            (Some("vlan" | "qinq"), Some(bridge), Some(tag)) => {
                for (a, b) in [
                    (format!("ln_{id}"), format!("pr_{id}")),
                    (format!("pr_{id}"), format!("ln_{id}")),
                ] {
                    blocks.insert(
                        a.clone(),
                        format!(
                            "auto {a}\niface {a}\n\tlink-type veth\n\tveth-peer-name {b}\n{mtu}\n"
                        ),
                    );
                }
                let between = format!("{bridge}v{tag}");
                blocks.insert(
                    between.clone(),
                    format!("auto {between}\niface {between}\n\tbridge_ports  pr_{id}\n\tbridge_stp off\n\tbridge_fd 0\n{mtu}\n"),
                );
                format!("ln_{id}")
            }
            _ => "none".to_string(),
        };
        blocks.insert(
            id.clone(),
            format!("auto {id}\niface {id}\n\tbridge_ports {ports}\n\tbridge_stp off\n\tbridge_fd 0\n{aware}{mtu}{alias}\n"),
        );
    }
    blocks.into_values().collect()
}

fn interfaces(st: &State, name: &str) -> String {
    interfaces_of(&st.sdn.running, name)
}

fn dry_run(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let name = call.arg("node");
    let n = node(&st, &name)?;
    st.check(&call.auth, &format!("/nodes/{name}"), &["Sys.Audit"])?;
    let old = n
        .loaded
        .get("interfaces")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_string();
    let new = interfaces_of(&st.sdn.config, &name);
    let diff = if old == new {
        Value::Null
    } else {
        let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        let tail = a[head..]
            .iter()
            .rev()
            .zip(b[head..].iter().rev())
            .take_while(|(x, y)| x == y)
            .count();
        let mut text = format!(
            "--- /etc/network/interfaces.d/sdn\n+++ /proc/self/fd/13\n@@ -1,{} +1,{} @@\n #version:{}\n",
            a.len(),
            b.len(),
            st.sdn.version
        );
        let mut add = |mark: char, lines: &[&str]| {
            for l in lines {
                text.push_str(&format!("{mark}{l}\n"));
            }
        };
        add('-', &a[head..a.len() - tail]);
        add('+', &b[head..b.len() - tail]);
        json!(text)
    };
    Ok(json!({"frr-diff": null, "interfaces-diff": diff}))
}
