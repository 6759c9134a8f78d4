//! `vsphere_portgroups`: the networks of a vCenter, and which of them are one VLAN.

use crate::look::{self, Look, Stop, Think};
use crate::vsphere_common::{CONNECTION, DATACENTER};
use crate::{Def, Side};
use plan::{ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Wait};
use serde_json::{Map, Value, json};
use spec::shared::RETURNS;
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};
use std::collections::HashMap;
use vsphere::keys::VcKey;
use vsphere::networks::not_translated;
use vsphere::path::same_name;
use vsphere::value::{at, class, flag, int, list, text};

const OWN: &[Opt] = &[
    DATACENTER,
    Opt::str(
        "dvswitch",
        "Only the portgroups of that distributed switch.",
    )
    .alias(&["dvs"]),
    Opt::bool("show_mac_learning", "Whether C(mac_learning) is filled.").default("true"),
    Opt::bool(
        "show_network_policy",
        "Whether C(network_policy) is filled.",
    )
    .default("true"),
    Opt::bool("show_port_policy", "Whether C(port_policy) is filled.").default("true"),
    Opt::bool(
        "show_teaming_policy",
        "Whether C(teaming_policy) is filled.",
    )
    .default("true"),
    Opt::bool(
        "show_uplinks",
        "Whether C(active_uplinks) and C(standby_uplinks) are filled.",
    )
    .default("true"),
    Opt::bool("show_vlan_info", "Whether C(vlan_info) is filled.").default("true"),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::new(
        "dvs_portgroup_info",
        Kind::Dict,
        "always",
        "For each distributed switch, by name, the list of its portgroups, in the shape of C(community.vmware.vmware_dvs_portgroup_info). A section that the switch does not have, or that was not asked for, is empty.",
    ),
    Ret::list_of(
        "portgroups",
        Kind::Dict,
        "always",
        "All distributed portgroups, standard portgroups and opaque networks in one shape. A standard portgroup on which hosts disagree stands once for each variant.",
    )
    .contains(&[
        Ret::new("name", Kind::Str, "always", "Name."),
        Ret::new("key", Kind::Str, "always", "What a network card refers to: the portgroup's key, a standard network's moid, an opaque network's id."),
        Ret::new("switch", Kind::Str, "always", "Name of its switch; null for an opaque network."),
        Ret::new("kind", Kind::Str, "always", "V(distributed), V(standard) or V(opaque)."),
        Ret::new("uplink", Kind::Bool, "always", "Whether it is a switch's uplink portgroup."),
        Ret::new("vlan", Kind::Dict, "always", "C(mode) is V(access), V(trunk), V(pvlan) or V(none); C(id), C(ranges) as pairs, C(pvlan_id)."),
        Ret::new("nsx", Kind::Bool, "always", "Whether NSX backs it."),
    ]),
    Ret::new(
        "vlan_map",
        Kind::Dict,
        "always",
        "From the key of a distributed portgroup to its VLAN id, for those with one VLAN of 1 to 4094 that are neither uplink nor backed by NSX.",
    )
    .sample("{\"dvportgroup-42\": 100}"),
    Ret::list_of(
        "not_translated",
        Kind::Dict,
        "always",
        "All other networks, each with C(key), C(name), C(switch), C(kind), C(cause) (V(untagged), V(trunk), V(pvlan), V(uplink), V(nsx), V(opaque), V(standard)) and C(reason) in words.",
    ),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vsphere_portgroups",
    short: "List the networks of a vCenter with their VLANs",
    doc: &[
        "Reads distributed portgroups, standard portgroups and opaque networks in one query, however many there are.",
        "A standalone ESXi host has standard portgroups only.",
    ],
    options: &[OWN, CONNECTION],
    returns: &[OWN_RETURNS, RETURNS],
    examples: "- name: Which portgroup is which VLAN\n  trueplan.virt.vsphere_portgroups:\n    hostname: vcenter.example.com\n    username: administrator@vsphere.local\n    password: \"{{ vcenter_password }}\"\n    datacenter: DC1\n  register: networks\n",
    privileges: &[(
        "the networks and their distributed switches",
        "C(System.Read)",
        "reading; without it on a switch the VLANs of its portgroups are not known",
    )],
    replaces: Some("community.vmware.vmware_dvs_portgroup_info"),
    action_groups: &["vsphere", "vmware"],
    ..ModuleSpec::READS
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Vsphere,
    make,
};

struct Portgroups {
    key: VcKey,
    switch: Option<String>,
    datacenter: Option<String>,
    show: Show,
}

#[derive(Clone, Copy, Default)]
struct Show {
    mac_learning: bool,
    network_policy: bool,
    port_policy: bool,
    teaming_policy: bool,
    uplinks: bool,
    vlan_info: bool,
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let datacenter = a.str("datacenter").map(str::to_owned);
    Ok(Box::new(Portgroups {
        key: VcKey::Networks {
            datacenter: datacenter.clone(),
        },
        switch: a.str("dvswitch").map(str::to_owned),
        datacenter,
        show: Show {
            mac_learning: a.flag("show_mac_learning"),
            network_policy: a.flag("show_network_policy"),
            port_policy: a.flag("show_port_policy"),
            teaming_policy: a.flag("show_teaming_policy"),
            uplinks: a.flag("show_uplinks"),
            vlan_info: a.flag("show_vlan_info"),
        },
    }))
}

impl Portgroups {
    /// The switches that were asked for.
    fn switches<'a>(&self, report: &'a Value) -> Result<Vec<&'a Value>, Refusal> {
        let all = list(report, "switches");
        let Some(name) = &self.switch else {
            return Ok(all.iter().collect());
        };
        let found: Vec<&Value> = all
            .iter()
            .filter(|s| {
                text(s, "raw_name").is_some_and(|r| same_name(r, name))
                    || text(s, "moid") == Some(name)
            })
            .collect();
        let within = self
            .datacenter
            .as_ref()
            .map_or_else(String::new, |d| format!(" in datacenter {d}"));
        match found.len() {
            1 => Ok(found),
            0 => {
                let names: Vec<&str> = all.iter().filter_map(|s| text(s, "name")).collect();
                let there = if names.is_empty() {
                    "there is none".to_owned()
                } else {
                    format!("there are {}", names.join(", "))
                };
                Err(Refusal::kind(
                    ErrorKind::NotFound,
                    format!(
                        "unable to find distributed switch {name}{within}: {there}; check the name"
                    ),
                ))
            }
            _ => {
                let l: Vec<String> = found
                    .iter()
                    .map(|s| {
                        format!(
                            "{} in {}",
                            text(s, "moid").unwrap_or("?"),
                            text(s, "datacenter.name").unwrap_or("?")
                        )
                    })
                    .collect();
                Err(Refusal::new(format!(
                    "unable to choose distributed switch {name}{within}: several have that name: {}; give datacenter, or the moid as dvswitch",
                    l.join(", ")
                )))
            }
        }
    }
}

impl Think for Portgroups {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        match look.fact(&self.key)? {
            Fact::Known(report) => {
                self.switches(report)?;
                Ok(Plan::empty())
            }
            Fact::Absent => Ok(Plan::empty()),
            Fact::Unreadable(why) => Err(Refusal::kind(
                ErrorKind::Permission,
                format!("unable to read the networks: {why}"),
            )
            .into()),
        }
    }
}

impl Module for Portgroups {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        vec![]
    }

    fn view(&self, _facts: &Facts) -> Value {
        json!({})
    }

    fn result(&self, outcome: &Outcome<'_>) -> Map<String, Value> {
        let empty = json!({});
        let report = outcome.before.known(self.key.key()).unwrap_or(&empty);
        let switches = self.switches(report).unwrap_or_default();
        let networks = list(report, "networks");
        let mut info: Map<String, Value> = Map::new();
        for s in &switches {
            let groups = of_switch(s, networks)
                .into_iter()
                .map(|n| entry(s, n, self.show));
            let name = text(s, "name").unwrap_or("").to_owned();
            // Two switches of one name (in two folders or datacenters) share a list: nothing is lost.
            if let Some(l) = info.entry(name).or_insert_with(|| json!([])).as_array_mut() {
                l.extend(groups);
            }
        }
        let wanted = |n: &&Value| {
            self.switch.is_none()
                || switches
                    .iter()
                    .any(|s| at(n, "switch_moid").is_some() && n["switch_moid"] == s["moid"])
        };
        let mut portgroups = vec![];
        let mut vlan_map = Map::new();
        let mut not = vec![];
        for n in networks.iter().filter(wanted) {
            let mut flat = Map::new();
            for k in [
                "name", "key", "moid", "switch", "kind", "uplink", "vlan", "nsx", "hosts",
            ] {
                flat.insert(k.to_owned(), n[k].clone());
            }
            flat.insert("datacenter".into(), n["datacenter"]["name"].clone());
            portgroups.push(Value::Object(flat));
            match not_translated(n) {
                None => {
                    vlan_map.insert(text(n, "key").unwrap_or("").to_owned(), n["vlan"]["id"].clone());
                }
                Some((cause, reason)) => not.push(json!({
                    "key": n["key"], "name": n["name"], "switch": n["switch"], "kind": n["kind"], "cause": cause, "reason": reason,
                })),
            }
        }
        let mut m = Map::new();
        m.insert(
            "msg".into(),
            json!(format!(
                "{} networks, {} of them one VLAN each",
                portgroups.len(),
                vlan_map.len()
            )),
        );
        m.insert("dvs_portgroup_info".into(), Value::Object(info));
        m.insert("portgroups".into(), json!(portgroups));
        m.insert("vlan_map".into(), Value::Object(vlan_map));
        m.insert("not_translated".into(), json!(not));
        m
    }

    fn title(&self) -> String {
        "networks".to_owned()
    }
}

/// A switch's portgroups, in its own order; those that it does not list itself come after.
fn of_switch<'a>(switch: &Value, networks: &'a [Value]) -> Vec<&'a Value> {
    let order: HashMap<&str, usize> = list(switch, "portgroups")
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
        .map(|(i, m)| (m, i))
        .collect();
    let mut mine: Vec<&Value> = networks
        .iter()
        .filter(|n| at(n, "switch_moid").is_some() && n["switch_moid"] == switch["moid"])
        .collect();
    mine.sort_by_cached_key(|n| {
        let at = text(n, "moid").and_then(|m| order.get(m));
        at.copied().unwrap_or(usize::MAX)
    });
    mine
}

/// One portgroup in the peer's shape (docs/peers-vsphere.md section 1).
fn entry(switch: &Value, n: &Value, show: Show) -> Value {
    let c = &n["config"];
    let port = at(c, "defaultPortConfig").unwrap_or(&Value::Null);
    let teaming = at(port, "uplinkTeamingPolicy").unwrap_or(&Value::Null);
    let mac = at(port, "macManagementPolicy");
    let uplinks = |k: &str| {
        json!(if show.uplinks {
            list(teaming, &format!("uplinkPortOrder.{k}"))
        } else {
            &[]
        })
    };
    let or_empty = |on: bool, v: Option<Value>| v.filter(|_| on).unwrap_or_else(|| json!({}));
    let kind = text(c, "type");
    json!({
        "portgroup_name": n["name"],
        "moid": n["moid"],
        "key": n["key"],
        "num_ports": int(c, "numPorts"),
        "dvswitch_name": switch["name"],
        "description": at(c, "description"),
        "type": kind,
        "port_binding": if kind == Some("ephemeral") { "ephemeral" } else { "static" },
        "port_allocation": if flag(c, "autoExpand") { "elastic" } else { "fixed" },
        "active_uplinks": uplinks("activeUplinkPort"),
        "standby_uplinks": uplinks("standbyUplinkPort"),
        "teaming_policy": or_empty(show.teaming_policy, at(port, "uplinkTeamingPolicy").map(|t| json!({
            "policy": at(t, "policy.value"),
            "inbound_policy": at(t, "reversePolicy.value"),
            "notify_switches": at(t, "notifySwitches.value"),
            "rolling_order": at(t, "rollingOrder.value"),
        }))),
        "port_policy": or_empty(show.port_policy, at(c, "policy").map(port_policy)),
        "mac_learning": or_empty(show.mac_learning, mac.and_then(|m| at(m, "macLearningPolicy")).map(|l| json!({
            "allow_unicast_flooding": at(l, "allowUnicastFlooding"),
            "enabled": at(l, "enabled"),
            "limit": at(l, "limit"),
            "limit_policy": at(l, "limitPolicy"),
        }))),
        "network_policy": or_empty(show.network_policy, network_policy(mac, at(port, "securityPolicy"))),
        "vlan_info": or_empty(show.vlan_info, Some(vlan_info(at(port, "vlan")))),
    })
}

fn port_policy(p: &Value) -> Value {
    json!({
        "block_override": at(p, "blockOverrideAllowed"),
        "ipfix_override": at(p, "ipfixOverrideAllowed"),
        "live_port_move": at(p, "livePortMovingAllowed"),
        "network_rp_override": at(p, "networkResourcePoolOverrideAllowed"),
        "port_config_reset_at_disconnect": at(p, "portConfigResetAtDisconnect"),
        "shaping_override": at(p, "shapingOverrideAllowed"),
        "traffic_filter_override": at(p, "trafficFilterOverrideAllowed"),
        "uplink_teaming_override": at(p, "uplinkTeamingOverrideAllowed"),
        "vendor_config_override": at(p, "vendorConfigOverrideAllowed"),
        "vlan_override": at(p, "vlanOverrideAllowed"),
    })
}

/// From 6.7 and switch version 6.6 on in the MAC policy, before that in the security policy (docs/peers-vsphere.md V1.1).
fn network_policy(mac: Option<&Value>, security: Option<&Value>) -> Option<Value> {
    if let Some(m) = mac {
        return Some(json!({
            "forged_transmits": at(m, "forgedTransmits"),
            "promiscuous": at(m, "allowPromiscuous"),
            "mac_changes": at(m, "macChanges"),
        }));
    }
    security.map(|s| {
        json!({
            "forged_transmits": at(s, "forgedTransmits.value"),
            "promiscuous": at(s, "allowPromiscuous.value"),
            "mac_changes": at(s, "macChanges.value"),
        })
    })
}

/// Ids are text, as the peer returns them.
fn vlan_info(vlan: Option<&Value>) -> Value {
    let plain = |id: i64| json!({"trunk": false, "pvlan": false, "vlan_id": id.to_string()});
    let Some(v) = vlan else {
        return plain(0);
    };
    match class(v) {
        "TrunkVlanSpec" => {
            let ranges: Vec<String> = list(v, "vlanId")
                .iter()
                .map(
                    |r| match (int(r, "start").unwrap_or(0), int(r, "end").unwrap_or(0)) {
                        (a, b) if a == b => a.to_string(),
                        (a, b) => format!("{a}-{b}"),
                    },
                )
                .collect();
            json!({"trunk": true, "pvlan": false, "vlan_id": ranges})
        }
        "PvlanSpec" => {
            json!({"trunk": false, "pvlan": true, "vlan_id": int(v, "pvlanId").unwrap_or(0).to_string()})
        }
        _ => plain(int(v, "vlanId").unwrap_or(0)),
    }
}
