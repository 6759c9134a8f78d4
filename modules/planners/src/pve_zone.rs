//! `pve_zone`: one SDN zone, applied on the nodes.

use crate::look::{self, Look, Stop, Think};
use crate::privileges;
use crate::pve_common::{self as common, arg_error, granted, list};
use crate::pve_sdn::{
    self as sdn, APPLYING, How, Kind, NOTES, Transaction, Values, Write, api_name, held, named,
};
use crate::{Def, Side};
use plan::{Fact, Facts, Key, Module, Outcome, Plan, Refusal};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::shared::{RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind as T, ModuleSpec, Opt, Ret};
use std::collections::BTreeSet;

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

const OPTIONS: &[Opt] = &[
    Opt::str(
        "zone",
        "Id of the zone: a letter, then letters and digits, 2 to 8 characters.",
    ),
    Opt::str("state", "Whether the zone shall be there.")
        .choices(&["present", "absent"])
        .default("\"present\""),
    Opt::str("type", "Type of the zone. It cannot be changed later.")
        .choices(&["evpn", "faucet", "qinq", "simple", "vlan", "vxlan"]),
    Opt::bool("update", "Whether a zone that is there is changed.").default("true"),
    Opt::strs("unset", "Options to be removed from the zone.").choices(&UNSETTABLE),
    Opt::bool(
        "advertise_subnets",
        "Advertise the subnets of an EVPN zone.",
    ),
    Opt::str(
        "bridge",
        "Bridge of the nodes that a V(vlan) or V(qinq) zone uses. It must be there on every node of the zone.",
    ),
    Opt::bool(
        "bridge_disable_mac_learning",
        "Switch off the learning of MAC addresses.",
    ),
    Opt::str("controller", "Controller of an EVPN zone."),
    Opt::str("dhcp", "DHCP server of the zone.").choices(&["dnsmasq"]),
    Opt::bool(
        "disable_arp_nd_suppression",
        "Switch off the suppression of ARP and ND.",
    ),
    Opt::str("dns", "DNS API server."),
    Opt::str("dnszone", "Domain of the DNS zone."),
    Opt::int("dp_id", "Dataplane id of a faucet zone."),
    Opt::str(
        "exitnodes",
        "Exit nodes of an EVPN zone, separated by commas; a set.",
    ),
    Opt::bool(
        "exitnodes_local_routing",
        "Let exit nodes reach the guests.",
    ),
    Opt::str("exitnodes_primary", "The exit node that is preferred."),
    Opt::str("fabric", "Fabric of a V(vxlan) zone, instead of O(peers)."),
    Opt::str("ipam", "IP address management."),
    Opt::str("mac", "MAC address of the gateways of an EVPN zone."),
    Opt::int("mtu", "MTU of the zone's vnets."),
    Opt::str(
        "nodes",
        "Nodes of the zone, separated by commas; a set. Without it, all.",
    ),
    Opt::str(
        "peers",
        "Addresses of the peers of a V(vxlan) zone, separated by commas; a set.",
    ),
    Opt::str("reversedns", "Reverse DNS API server."),
    Opt::str("rt_import", "Route targets that an EVPN zone imports."),
    Opt::int("tag", "Service VLAN of a V(qinq) zone.").range(0, 16_777_215),
    Opt::str(
        "vlan_protocol",
        "Protocol of the service VLAN of a V(qinq) zone.",
    )
    .choices(&["802.1q", "802.1ad"]),
    Opt::int("vrf_vxlan", "VRF of an EVPN zone.").range(1, 16_777_215),
    Opt::int("vxlan_port", "UDP port of a V(vxlan) zone.").range(1, 65_536),
];

const UNSETTABLE: [&str; 21] = [
    "advertise_subnets",
    "bridge_disable_mac_learning",
    "dhcp",
    "disable_arp_nd_suppression",
    "dns",
    "dnszone",
    "exitnodes",
    "exitnodes_local_routing",
    "exitnodes_primary",
    "fabric",
    "ipam",
    "mac",
    "mtu",
    "nodes",
    "peers",
    "reversedns",
    "rt_import",
    "tag",
    "vlan_protocol",
    "vrf_vxlan",
    "vxlan_port",
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_zone",
    short: "Manage SDN zones of a Proxmox VE cluster",
    doc: &[
        "Adds, changes and removes an SDN zone and applies the change on the nodes.",
        "A zone that is as wanted is left alone: no lock, no apply, no reload of the network. Options that are not named keep their values.",
    ],
    options: &[OPTIONS, APPLYING, common::SIGN_IN],
    required_if: &[
        ("state", "present", &["type", "zone"], false),
        ("state", "absent", &["zone"], false),
    ],
    required_one_of: &[common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    returns: &[
        &[
            Ret::new("zone", T::Str, "success", "Id of the zone.").sample("\"zvlan\""),
            Ret::new(
                "config",
                T::Dict,
                "success",
                "The zone as it is stored now, or null.",
            ),
            Ret::list_of(
                "pending",
                T::Str,
                "success",
                "The zone's id if it still waits to be applied, else nothing.",
            ),
        ],
        RETURNS,
        RETURNS_WRITING,
    ],
    examples: r#"- name: A zone for the VLANs of vmbr1
  trueplan.virt.pve_zone:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    zone: zvlan
    type: vlan
    bridge: vmbr1
"#,
    notes: NOTES,
    privileges: &[
        (
            "C(/sdn/zones) for a new one, else C(/sdn/zones/ZONE)",
            "C(SDN.Allocate)",
            "writing a zone",
        ),
        privileges::SDN_LOCK,
        privileges::SDN_LISTS,
        privileges::SDN_RELOAD,
    ],
    replaces: Some("community.proxmox.proxmox_zone"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Zone {
    id: String,
    absent: bool,
    update: bool,
    named: Values,
    unset: Vec<String>,
    /// How it is applied.
    how: How,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = common::sign_in_errors(args);
    let id = args.str("zone").unwrap_or_default().to_owned();
    if !pve::sdn::is_zone_id(&id) {
        errors.push(arg_error(
            "zone",
            Some(id.clone()),
            "is no zone id; give a letter and then letters and digits, 2 to 8 characters",
        ));
    }
    let given = |n: &str| args.given(n).then(|| args.get(n).cloned()).flatten();
    let named = named(Kind::Zone, given);
    let unset: Vec<String> = args
        .strs("unset")
        .unwrap_or_default()
        .iter()
        .map(|n| api_name(n))
        .collect();
    for u in &unset {
        if named.contains_key(u) {
            errors.push(arg_error(
                "unset",
                Some(u.clone()),
                format!("`{u}` is also given a value; leave one out"),
            ));
        }
    }
    if let (Some(kind), false) = (named.get("type"), args.str("state") == Some("absent")) {
        for n in named.keys().filter(|n| !fits(kind, n)) {
            errors.push(arg_error(
                &n.replace('-', "_"),
                named.get(n).cloned(),
                format!("a zone of type {kind} has no such option; leave it out"),
            ));
        }
        if let Some(peers) = named.get("peers")
            && let Some(way_out) = pve::check::format_refusal("ip-list", peers)
        {
            errors.push(arg_error("peers", Some(peers.clone()), way_out));
        }
        if named.contains_key("peers") && named.contains_key("fabric") {
            errors.push(arg_error(
                "fabric",
                named.get("fabric").cloned(),
                "excludes `peers`; give one of them",
            ));
        }
    }
    let how = How::from_args(args, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Box::new(Zone {
        id,
        absent: args.str("state") == Some("absent"),
        update: args.bool("update").unwrap_or(true),
        named,
        unset,
        how,
    }))
}

/// Whether a type of zone takes that option; the server refuses `unexpected property` (source: pve-network,
/// PVE/Network/SDN/Zones/*Plugin.pm, options). Only options that clearly belong to other types are judged.
fn fits(zone_type: &str, option: &str) -> bool {
    let owners: &[&str] = match option {
        "tag" | "vlan-protocol" => &["qinq"],
        "peers" | "fabric" => &["vxlan"],
        "vxlan-port" => &["vxlan", "evpn"],
        "bridge-disable-mac-learning" => &["vlan", "qinq", "evpn", "faucet"],
        "controller"
        | "vrf-vxlan"
        | "exitnodes"
        | "exitnodes-local-routing"
        | "exitnodes-primary"
        | "advertise-subnets"
        | "disable-arp-nd-suppression"
        | "rt-import"
        | "mac" => &["evpn"],
        "dp-id" => &["faucet"],
        "bridge" => &["vlan", "qinq", "faucet"],
        _ => return true,
    };
    owners.contains(&zone_type)
}

/// Options that a type cannot do without; of a group one (source: the same).
fn required(zone_type: &str) -> &'static [&'static [&'static str]] {
    match zone_type {
        "vlan" => &[&["bridge"]],
        "qinq" => &[&["bridge"], &["tag"]],
        "vxlan" => &[&["peers", "fabric"]],
        "evpn" => &[&["controller"], &["vrf-vxlan"]],
        "faucet" => &[&["dp-id"]],
        _ => &[],
    }
}

impl Zone {
    fn what(&self) -> String {
        let verb = if self.absent { "remove" } else { "set" };
        format!("{verb} zone {}", self.id)
    }

    fn refused(&self, why: String) -> Stop {
        Refusal::new(format!("unable to {}: {why}", self.what())).into()
    }

    /// The change, and whether the zone waits to be applied as it is.
    fn change(
        &self,
        look: &Look<'_>,
        drift: &mut Vec<Value>,
    ) -> Result<(Option<Write>, bool), Stop> {
        let what = self.what();
        let zones = sdn::read(look, Kind::Zone, &what)?;
        let found = zones.get(&self.id);
        let before = found.and_then(|o| o.wanted.clone());
        let waits = found.is_some_and(|o| o.state.is_some());
        let write = |before: Option<Values>, after: Option<Values>, disruptive: bool| Write {
            id: self.id.clone(),
            before,
            after,
            disruptive,
        };
        if self.absent {
            let Some(b) = before else {
                if found.is_none() {
                    sdn::surely_absent(look, Kind::Zone, &self.id, &what)?;
                }
                return Ok((None, waits));
            };
            self.check_unused(look)?;
            return Ok((Some(write(Some(b), None, true)), waits));
        }
        let Some(b) = before else {
            if found.is_none() {
                sdn::surely_absent(look, Kind::Zone, &self.id, &what)?;
            }
            let after = sdn::converge(Kind::Zone, &Values::new(), &self.named, &[]);
            self.check_complete(&after)?;
            self.check_bridge(look, &after)?;
            return Ok((Some(write(None, Some(after), false)), waits));
        };
        if b.get("type") != self.named.get("type") {
            return Err(self.refused(format!(
                "it is of type {}, not {}, and a zone's type cannot be changed; remove it first, or choose another id",
                b.get("type").map_or("", String::as_str),
                self.named.get("type").map_or("", String::as_str)
            )));
        }
        let mut after = sdn::converge(Kind::Zone, &b, &self.named, &self.unset);
        // One excludes the other: naming one means that the other goes.
        for (one, other) in [("peers", "fabric"), ("fabric", "peers")] {
            if self.named.contains_key(one) {
                after.remove(other);
            }
        }
        if after == b {
            return Ok((None, waits));
        }
        if !self.update {
            drift.push(json!({"zone": self.id, "wanted": sdn_values(&after), "found": sdn_values(&b), "mended_by": "update: true"}));
            return Ok((None, false));
        }
        self.check_complete(&after)?;
        if after.get("bridge") != b.get("bridge") || after.get("nodes") != b.get("nodes") {
            self.check_bridge(look, &after)?;
        }
        let rewired = ["bridge", "tag", "vlan-protocol", "nodes"]
            .iter()
            .any(|n| after.get(*n) != b.get(*n));
        Ok((Some(write(Some(b), Some(after), rewired)), waits))
    }

    fn check_complete(&self, after: &Values) -> Result<(), Stop> {
        let kind = after.get("type").map_or("", String::as_str);
        for group in required(kind) {
            if !group.iter().any(|n| after.contains_key(*n)) {
                let names: Vec<String> = group.iter().map(|n| n.replace('-', "_")).collect();
                return Err(self.refused(format!(
                    "a zone of type {kind} needs {}; give it",
                    names.join(" or ")
                )));
            }
        }
        Ok(())
    }

    /// The server does not look whether the bridge is there (docs/pve-sdn.md, section 4, bad case).
    fn check_bridge(&self, look: &Look<'_>, after: &Values) -> Result<(), Stop> {
        let Some(bridge) = after.get("bridge") else {
            return Ok(());
        };
        let mut nodes = sdn::online_nodes(look)?;
        if let Some(only) = after.get("nodes") {
            nodes.retain(|n| pve::check::split_list(only).any(|o| o == n));
        }
        let keys: Vec<PveKey> = nodes.iter().map(|n| PveKey::Bridges(n.clone())).collect();
        look.want(&keys)?;
        let mut lacking = Vec::new();
        for n in nodes {
            let what = format!("whether node {n} has bridge {bridge}");
            let known = look.aux(&PveKey::Bridges(n.clone()), &what)?;
            let there = known.and_then(Fact::known).is_none_or(|l| {
                l.as_array()
                    .is_some_and(|a| a.iter().any(|b| b == bridge.as_str()))
            });
            if !there {
                lacking.push(n);
            }
        }
        if lacking.is_empty() {
            return Ok(());
        }
        // Bridges are listed for those who may see them only (docs/pve-privileges.md, filtering).
        let path = format!("/sdn/zones/localnetwork/{bridge}");
        let sees = look
            .fact(&PveKey::Perms(path.clone()))?
            .known()
            .is_some_and(|p| granted(p, "SDN.Audit") || granted(p, "SDN.Use"));
        if sees {
            return Err(self.refused(format!(
                "there is no bridge {bridge} on {}; make it there first, or name the nodes of the zone with `nodes`",
                list(&lacking)
            )));
        }
        look.note(format!(
            "whether {} has bridge {bridge}: SDN.Audit on {path} is missing",
            list(&lacking)
        ));
        Ok(())
    }

    fn check_unused(&self, look: &Look<'_>) -> Result<(), Stop> {
        let used: Vec<String> = sdn::read(look, Kind::Vnet, &self.what())?
            .into_iter()
            .filter(|(_, v)| {
                v.wanted
                    .as_ref()
                    .is_some_and(|w| w.get("zone") == Some(&self.id))
            })
            .map(|(id, _)| id)
            .collect();
        if used.is_empty() {
            return Ok(());
        }
        Err(self.refused(format!(
            "it is used by vnet {}; remove that first",
            used.join(", ")
        )))
    }
}

fn sdn_values(v: &Values) -> Value {
    v.iter()
        .map(|(k, v)| (k.clone(), json!(v)))
        .collect::<Map<_, _>>()
        .into()
}

impl Think for Zone {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let mut drift = Vec::new();
        let (write, waits) = self.change(look, &mut drift)?;
        let settled: BTreeSet<String> = (waits && write.is_none())
            .then(|| self.id.clone())
            .into_iter()
            .collect();
        let mut plan = Transaction {
            kind: Kind::Zone,
            writes: write.into_iter().collect(),
            settled,
            apply: self.how.apply,
            allow: &self.how.allow,
            timeout_s: self.how.timeout_s,
            break_lock: self.how.break_lock,
            what: self.what(),
        }
        .plan(look)?;
        plan.drift = drift;
        Ok(plan)
    }
}

impl Module for Zone {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        held()
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _: &Facts, _: &[Value]) -> Vec<Key> {
        vec![PveKey::SdnZones.key()]
    }

    fn view(&self, facts: &Facts) -> Value {
        json!({"zone": self.id, "config": self.config(facts)})
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let was = self.found(o.before);
        let id = &self.id;
        let msg = match (self.absent, was.is_some(), o.changed) {
            (true, _, true) => format!("Successfully deleted zone {id}"),
            (true, _, false) => format!("zone {id} is absent."),
            (false, false, _) => format!("Created new Zone - {id}"),
            (false, true, true) => format!("Updated zone - {id}"),
            (false, true, false) if !self.update => {
                format!("Zone {id} already exists and update is false!")
            }
            (false, true, false) => format!("zone {id} is up to date"),
        };
        let now = self.found(o.after);
        let mut r = Map::new();
        r.insert("msg".into(), json!(msg));
        r.insert("zone".into(), json!(id));
        r.insert("config".into(), self.config(o.after));
        let pending: Vec<&String> = now
            .as_ref()
            .filter(|z| z.state.is_some())
            .map(|_| id)
            .into_iter()
            .collect();
        r.insert("pending".into(), json!(pending));
        r
    }

    fn title(&self) -> String {
        format!("zone {}", self.id)
    }
}

impl Zone {
    fn found(&self, facts: &Facts) -> Option<sdn::Object> {
        let list = facts.known(PveKey::SdnZones.key())?;
        sdn::objects(Kind::Zone, list).remove(&self.id)
    }
    fn config(&self, facts: &Facts) -> Value {
        sdn::show(Kind::Zone, self.found(facts).as_ref())
    }
}
