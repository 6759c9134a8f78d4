//! `pve_vm_info`: what there is, and how it is configured. It reads the ledger too, so that a check run sees what it planned.

use crate::look::{self, Look, Stop, Think};
use crate::pve_common::{self as common, Guest};
use crate::pve_history;
use crate::{Def, Side};
use plan::{ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal};
use pve::PropString;
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret, Support};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make: |args| Ok(Box::new(VmInfo::new(args)?)),
};

const OPTIONS: &[Opt] = &[
    Opt::str("node", "Only guests on this node."),
    Opt::str("type", "Only guests of this type.")
        .choices(&["lxc", "qemu", "all"])
        .default("\"all\""),
    Opt::int("vmid", "Only the guest with this id."),
    Opt::str("name", "Only guests with this name."),
    Opt::str(
        "config",
        "Whether the configuration is returned, the one that runs (V(current)) or the one of the next start (V(pending)).",
    )
    .choices(&["none", "current", "pending"])
    .default("\"none\""),
    Opt::bool("network", "Whether the network interfaces that the guest agent reports are returned.").default("false"),
    Opt::bool("history", "Whether RV(proxmox_vms[].history) is returned, for guests that O(vmid) or O(name) select: whether the guest ever ran, and which tasks of it run now. Needs Sys.Audit on the nodes to be certain.").default("false"),
    Opt::bool("paths", "Whether RV(proxmox_vms[].disks) have a C(path), for guests that O(vmid) or O(name) select: where the disk is on its node.").default("false"),
    Opt::bool("capacity", "Whether RV(nodes) and RV(storages) are returned: what there is room for.").default("false"),
];

const GUEST: &[Ret] = &[
    Ret::new("vmid", Kind::Int, "always", "Its id."),
    Ret::new("name", Kind::Str, "always", "Its name."),
    Ret::new("node", Kind::Str, "always", "Where it lives."),
    Ret::new("type", Kind::Str, "always", "V(qemu) or V(lxc)."),
    Ret::new("status", Kind::Str, "always", "V(running), V(stopped), ..."),
    Ret::new(
        "template",
        Kind::Bool,
        "always",
        "Whether it is a template.",
    ),
    Ret::new(
        "config",
        Kind::Dict,
        "when asked for",
        "Its configuration; empty where it cannot be read.",
    ),
    Ret::new(
        "network",
        Kind::List,
        "when asked for",
        "Interfaces as the guest agent reports them, or null.",
    ),
    Ret::new(
        "uuid",
        Kind::Str,
        "when the configuration was read",
        "Its BIOS uuid.",
    ),
    Ret::new(
        "nics",
        Kind::List,
        "when the configuration was read",
        "Its network cards, parsed.",
    ),
    Ret::new(
        "disks",
        Kind::List,
        "when the configuration was read",
        "Its drives, parsed; sizes in bytes; with O(paths) also C(path) and C(path_format), null where the storage does not say.",
    ),
    Ret::new(
        "history",
        Kind::Dict,
        "with O(history)",
        "C(ran): whether it ever ran, null if that is not known, and C(why) says how it is known; C(created): when it was made, in seconds since 1970, or null; C(starts): tasks that started it; C(running): its tasks that run now; C(unseen): what could not be looked at. A guest that was made and started before the task lists begin, or started without Proxmox VE, cannot be told.",
    ),
    Ret::new(
        "mac",
        Kind::Dict,
        "when the configuration was read",
        "MAC address by card.",
    ),
    Ret::new(
        "pending",
        Kind::Dict,
        "when the configuration was read",
        "What waits for the next stop; null means removal.",
    ),
    Ret::new(
        "ha_managed",
        Kind::Bool,
        "for guests that O(vmid) or O(name) select",
        "Whether HA manages it.",
    ),
    Ret::new("tag_list", Kind::List, "always", "Its tags."),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_vm_info",
    short: "Look at guests of a Proxmox VE cluster",
    doc: &[
        "Lists guests; none is a result too.",
        "The configuration is read when O(config) asks for it, and always for guests that O(vmid) or O(name) select.",
        "A guest whose node or agent does not answer stays in the list, with a warning.",
    ],
    options: &[OPTIONS, common::SIGN_IN],
    required_one_of: &[common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    writes: false,
    check_mode: Support {
        support: "full",
        details: "This action does not modify state. In check mode it shows what earlier tasks of the run have planned.",
    },
    diff_mode: Support::READS,
    returns: &[
        &[
            Ret::list_of("proxmox_vms", Kind::Dict, "success", "The guests, by id.")
                .contains(GUEST),
            Ret::list_of(
                "nodes",
                Kind::Dict,
                "with O(capacity)",
                "The nodes: C(node), C(status), C(maxmem) and C(mem) (bytes), C(maxcpu).",
            ),
            Ret::list_of(
                "storages",
                Kind::Dict,
                "with O(capacity)",
                "The storages of the nodes that answer: C(node), C(storage), C(type), C(content), C(shared), C(total), C(used), C(avail) (bytes).",
            ),
        ],
        spec::shared::RETURNS,
    ],
    examples: r#"- name: Look at one guest
  trueplan.virt.pve_vm_info:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    vmid: 20042
    config: current
  register: found
"#,
    privileges: &[
        (
            "C(/vms/VMID)",
            "C(VM.Audit)",
            "seeing a guest: without it, it is left out silently",
        ),
        ("C(/vms/VMID)", "C(VM.GuestAgent.Audit)", "O(network)"),
        (
            "C(/nodes/NODE)",
            "C(Sys.Audit)",
            "O(history), and the memory of the nodes with O(capacity)",
        ),
        (
            "C(/storage/STORAGE)",
            "C(Datastore.Audit)",
            "O(paths) (with C(VM.Config.Disk) on the guest) and the room with O(capacity)",
        ),
    ],
    replaces: Some("community.proxmox.proxmox_vm_info"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// Which configuration is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    None,
    Current,
    Pending,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct VmInfo {
    node: Option<String>,
    kind: Option<String>,
    vmid: Option<u32>,
    name: Option<String>,
    config: Shown,
    network: bool,
    history: bool,
    paths: bool,
    capacity: bool,
}

/// An entry of the cluster's list, or one made of a guest that is not in it yet.
type Entry<'f> = Cow<'f, Map<String, Value>>;
/// Entries of the nodes' own lists.
type ByNodes<'f> = BTreeMap<String, HashMap<u64, &'f Map<String, Value>>>;

/// Why a container has no `config` here.
const CONTAINER: &str = "containers' configurations are not read";

impl VmInfo {
    /// From coerced arguments.
    ///
    /// # Errors
    /// All that is wrong with them beyond the table.
    pub fn new(args: &Args) -> Result<VmInfo, Vec<ArgError>> {
        let mut errors = common::sign_in_errors(args);
        let vmid = common::vmid_arg(args, "vmid", &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(VmInfo {
            node: args.str("node").map(str::to_owned),
            kind: args.str("type").filter(|t| *t != "all").map(str::to_owned),
            vmid,
            name: args.str("name").map(str::to_owned),
            config: match args.str("config") {
                Some("current") => Shown::Current,
                Some("pending") => Shown::Pending,
                _ => Shown::None,
            },
            network: args.flag("network"),
            history: args.flag("history"),
            paths: args.flag("paths"),
            capacity: args.flag("capacity"),
        })
    }

    fn narrow(&self) -> bool {
        self.vmid.is_some() || self.name.is_some()
    }

    fn reads_config(&self) -> bool {
        self.narrow() || self.config != Shown::None
    }

    fn selects(&self, g: &Value) -> bool {
        self.node.as_ref().is_none_or(|n| g["node"] == **n)
            && self.kind.as_ref().is_none_or(|k| g["type"] == **k)
            && self.vmid.is_none_or(|v| g["vmid"] == v)
            && self.name.as_ref().is_none_or(|n| g["name"] == **n)
    }

    /// The cluster's entries that fit, by id. A new guest may not be in the cluster's list yet: its own fact is enough.
    fn selected<'f>(&self, facts: &'f Facts) -> Vec<Entry<'f>> {
        let all = facts.known(PveKey::Guests.key()).and_then(Value::as_array);
        let mut out: Vec<Entry<'f>> = all
            .into_iter()
            .flatten()
            .filter(|g| self.selects(g))
            .filter_map(|g| g.as_object().map(Cow::Borrowed))
            .collect();
        if let (Some(v), true) = (self.vmid, out.is_empty())
            && let Some(g) = facts.known(PveKey::Guest(v).key())
        {
            let name = match g["type"] == "lxc" {
                true => g["name"].clone(),
                false => g["config"]["name"].clone(),
            };
            let entry = json!({"vmid": v, "node": g["node"], "type": g["type"], "name": name, "template": g["template"] == true});
            if self.selects(&entry) {
                out.extend(entry.as_object().cloned().map(Cow::Owned));
            }
        }
        out.sort_by_key(|g| g["vmid"].as_u64());
        out
    }

    fn online(facts: &Facts) -> BTreeSet<String> {
        facts
            .known(PveKey::Nodes.key())
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|n| n["status"] != "offline")
            .filter_map(|n| n["node"].as_str().map(str::to_owned))
            .collect()
    }

    /// Whether that node answers; a reason if not.
    fn silent(facts: &Facts, node: &str) -> Option<String> {
        if facts.known(PveKey::Nodes.key()).is_some() && !Self::online(facts).contains(node) {
            return Some(format!("node {node} is offline"));
        }
        match facts.get(PveKey::NodeGuests(node.to_owned()).key()) {
            Some(Fact::Unreadable(why)) => Some(why.clone()),
            _ => None,
        }
    }

    fn guest_of(entry: &Map<String, Value>) -> Option<(u32, String)> {
        let vmid = u32::try_from(entry.get("vmid")?.as_u64()?).ok()?;
        Some((vmid, entry.get("node")?.as_str()?.to_owned()))
    }

    /// What the nodes of those guests say of each, by id: in a search per guest the time would grow with the square of their number.
    fn by_nodes<'f>(facts: &'f Facts, guests: &[Entry<'_>]) -> ByNodes<'f> {
        let nodes: BTreeSet<String> = guests
            .iter()
            .filter_map(|g| Self::guest_of(g).map(|(_, node)| node))
            .collect();
        let mut out = ByNodes::new();
        for node in nodes {
            let list = facts.known(PveKey::NodeGuests(node.clone()).key());
            let list = list.and_then(Value::as_array).into_iter().flatten();
            let by_id = list.filter_map(|o| Some((o["vmid"].as_u64()?, o.as_object()?)));
            out.insert(node, by_id.collect());
        }
        out
    }

    /// One guest as it is returned, and what could not be read of it.
    fn described(
        &self,
        facts: &Facts,
        by_nodes: &ByNodes<'_>,
        entry: &Map<String, Value>,
    ) -> (Value, Vec<String>) {
        let mut entry = entry.clone();
        let mut warnings = Vec::new();
        let Some((vmid, node)) = Self::guest_of(&entry) else {
            return (Value::Object(entry), warnings);
        };
        if let Some(o) = by_nodes.get(&node).and_then(|l| l.get(&u64::from(vmid))) {
            for (k, v) in o
                .iter()
                .filter(|(k, _)| !["vmid", "template", "name", "tags"].contains(&k.as_str()))
            {
                entry.insert(k.clone(), v.clone());
            }
        }
        if let Some(s) = facts.known(PveKey::GuestStatus(vmid).key()) {
            for k in ["status", "qmpstatus"] {
                if let Some(v) = s.get(k) {
                    entry.insert(k.to_owned(), v.clone());
                }
            }
            let managed = &s["ha"]["managed"];
            entry.insert(
                "ha_managed".into(),
                json!(*managed == json!(1) || *managed == json!(true)),
            );
        }
        entry.insert("vmid".into(), json!(vmid));
        let template = entry
            .get("template")
            .is_some_and(|t| *t == json!(true) || *t == json!(1));
        entry.insert("template".into(), json!(template));
        let tags = entry
            .get("tags")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let tags: Vec<&str> = pve::tags::split(tags).collect();
        let tags = json!(tags);
        entry.insert("tag_list".into(), tags);
        if self.reads_config() {
            match facts.get(PveKey::Guest(vmid).key()) {
                Some(Fact::Known(g)) if g["type"] != "lxc" => {
                    self.add_config(&mut entry, &Guest(g))
                }
                other => {
                    let why = match other {
                        Some(Fact::Unreadable(why)) => why.clone(),
                        Some(Fact::Known(_)) => CONTAINER.to_owned(),
                        _ if entry.get("type") == Some(&json!("lxc")) => CONTAINER.to_owned(),
                        Some(Fact::Absent) => "it is gone".to_owned(),
                        None => Self::silent(facts, &node)
                            .unwrap_or_else(|| format!("node {node} does not answer")),
                    };
                    warnings.push(format!("configuration of guest {vmid} was not read: {why}"));
                    self.add_nothing(&mut entry);
                }
            }
        }
        if self.network {
            let running = entry.get("status") == Some(&json!("running"));
            let read = facts.get(PveKey::AgentInterfaces(vmid).key());
            let shown = match read {
                Some(Fact::Known(v)) => v.clone(),
                Some(Fact::Unreadable(why)) if running => {
                    warnings.push(format!(
                        "network of guest {vmid} was not read: {}",
                        why.trim()
                    ));
                    Value::Null
                }
                _ => Value::Null,
            };
            entry.insert("network".into(), shown);
        }
        if self.history && self.narrow() {
            let runs = matches!(entry.get("status"), Some(s) if *s != json!("stopped"));
            let known = match facts.get(PveKey::GuestHistory(vmid).key()) {
                Some(Fact::Known(h)) => h.clone(),
                Some(Fact::Unreadable(why)) => json!({"tasks": [], "unseen": [why]}),
                _ => json!({"tasks": [], "unseen": ["the guest cannot be read"]}),
            };
            entry.insert("history".into(), pve_history::told(&known, runs));
        }
        if self.paths
            && let Some(Value::Array(disks)) = entry.get_mut("disks")
        {
            for d in disks {
                let at = volume_key(&node, d).and_then(|k| facts.known(k.key()));
                d["path"] = at.map_or(Value::Null, |v| v["path"].clone());
                d["path_format"] = at.map_or(Value::Null, |v| v["format"].clone());
            }
        }
        (Value::Object(entry), warnings)
    }

    fn add_nothing(&self, entry: &mut Map<String, Value>) {
        entry.insert("config".into(), json!({}));
        for (k, v) in [
            ("uuid", Value::Null),
            ("nics", json!([])),
            ("disks", json!([])),
            ("mac", json!({})),
            ("pending", json!({})),
        ] {
            entry.insert(k.into(), v);
        }
    }

    fn add_config(&self, entry: &mut Map<String, Value>, guest: &Guest<'_>) {
        // What is parsed is what the next start uses, unless what runs was asked for.
        let config = match self.config {
            Shown::Current => guest.current(),
            _ => guest.config(),
        };
        if self.config != Shown::None {
            let mut shown = config.clone();
            if let Some(d) = guest.0.get("digest").filter(|d| **d != json!("")) {
                shown.insert("digest".into(), d.clone());
            }
            if let Some(p) = shown.get_mut("cipassword") {
                *p = json!(plan::MASKED);
            }
            entry.insert("config".into(), Value::Object(shown));
        }
        if let Some(t) = guest.text("tags") {
            let list: Vec<&str> = pve::tags::split(&t).collect();
            entry.insert("tag_list".into(), json!(list));
            entry.insert("tags".into(), json!(t));
        }
        let mut mac = Map::new();
        let mut nics = Vec::new();
        for nic in pve::config::nics(config) {
            if let Some(m) = nic.get("macaddr") {
                mac.insert(nic.key().as_str().to_owned(), json!(m));
            }
            nics.push(nic_json(&nic));
        }
        let disks: Vec<Value> = pve::config::drives(config).iter().map(disk_json).collect();
        entry.insert("uuid".into(), json!(common::uuid_of(config)));
        entry.insert("nics".into(), json!(nics));
        entry.insert("disks".into(), json!(disks));
        entry.insert("mac".into(), Value::Object(mac));
        let mut pending = crate::pve_foresee::pending_of(guest);
        if let Some(p) = pending.get_mut("cipassword") {
            *p = json!(plan::MASKED);
        }
        entry.insert("pending".into(), Value::Object(pending));
    }
}

/// Where a parsed disk's volume is asked for; none for what is no volume.
fn volume_key(node: &str, disk: &Value) -> Option<PveKey> {
    Some(PveKey::Volume {
        node: node.to_owned(),
        volid: disk["volume"].as_str()?.to_owned(),
    })
}

fn nic_json(nic: &PropString) -> Value {
    let number = |k: &str| nic.get(k).and_then(|v| v.parse::<u32>().ok());
    json!({
        "interface": nic.key().as_str(),
        "model": nic.get("model"),
        "mac": nic.get("macaddr"),
        "bridge": nic.get("bridge"),
        "tag": number("tag"),
        "trunks": nic.get("trunks"),
        "firewall": nic.get_bool("firewall").unwrap_or(false),
        "link_down": nic.get_bool("link_down").unwrap_or(false),
        "mtu": number("mtu"),
        "queues": number("queues"),
        "rate": nic.get("rate").and_then(|v| v.parse::<f64>().ok()),
        "value": nic.print(),
    })
}

fn disk_json(drive: &PropString) -> Value {
    let file = drive.get("file").unwrap_or_default();
    let volume: Option<pve::Volid> = file.parse().ok();
    json!({
        "disk": drive.key().as_str(),
        "volume": volume.as_ref().map(ToString::to_string),
        "storage": volume.as_ref().map(|v| v.storage().to_owned()),
        "format": volume.as_ref().and_then(|v| v.format().map(str::to_owned)),
        "size_bytes": drive.get_size("size"),
        "media": if pve::boot::is_cdrom(drive) { "cdrom" } else { "disk" },
        "value": drive.print(),
    })
}

impl Think for VmInfo {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        look.want(&[PveKey::Guests, PveKey::Nodes])?;
        let nodes = look.fact(&PveKey::Nodes)?;
        if let (Some(node), Some(all)) = (&self.node, nodes.known().and_then(Value::as_array))
            && !all.iter().any(|n| n["node"] == **node)
        {
            return Err(Refusal::kind(
                ErrorKind::NotFound,
                format!("unable to list guests: Node {node} doesn't exist in PVE cluster; correct `node`"),
            )
            .into());
        }
        if let Fact::Unreadable(why) = look.fact(&PveKey::Guests)? {
            return Err(Refusal::kind(
                ErrorKind::Permission,
                format!("unable to list guests: {why}; give VM.Audit on /vms"),
            )
            .into());
        }
        // Facts that are there already decide which others are asked for.
        let facts = look.facts();
        if self.capacity {
            let ask: Vec<PveKey> = Self::online(facts)
                .into_iter()
                .map(PveKey::Storages)
                .collect();
            look.want(&ask)?;
        }
        let listed = self.selected(facts);
        if let (Some(v), true) = (self.vmid, listed.is_empty()) {
            look.fact(&PveKey::Guest(v))?;
        }
        let guests = self.selected(facts);
        let places: Vec<(u32, String, bool)> = guests
            .iter()
            .filter_map(|g| Self::guest_of(g).map(|(v, n)| (v, n, g["type"] == "lxc")))
            .collect();
        let nodes: BTreeSet<&String> = places.iter().map(|(_, n, _)| n).collect();
        let online = Self::online(facts);
        let ask: Vec<PveKey> = nodes
            .into_iter()
            .filter(|n| online.contains(*n))
            .map(|n| PveKey::NodeGuests(n.clone()))
            .collect();
        look.want(&ask)?;
        let mut ask = Vec::new();
        for (vmid, node, lxc) in places {
            if Self::silent(facts, &node).is_some() || lxc {
                continue;
            }
            if self.reads_config() {
                ask.push(PveKey::Guest(vmid));
            }
            if self.narrow() {
                ask.push(PveKey::GuestStatus(vmid));
            }
            if self.network {
                ask.push(PveKey::AgentInterfaces(vmid));
            }
            if self.history && self.narrow() {
                ask.push(PveKey::GuestHistory(vmid));
            }
        }
        look.want(&ask)?;
        if self.paths && self.narrow() {
            let mut ask = Vec::new();
            let by_nodes = Self::by_nodes(facts, &guests);
            for (vmid, g) in guests
                .iter()
                .filter_map(|g| Some((Self::guest_of(g)?.0, g)))
            {
                let (seen, _) = self.described(facts, &by_nodes, g);
                let node = seen["node"].as_str().unwrap_or_default();
                let known = facts.known(PveKey::Guest(vmid).key()).is_some();
                let disks = seen["disks"].as_array().filter(|_| known);
                ask.extend(
                    disks
                        .into_iter()
                        .flatten()
                        .filter_map(|d| volume_key(node, d)),
                );
            }
            look.want(&ask)?;
        }
        Ok(Plan::empty())
    }
}

impl Module for VmInfo {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        Vec::new()
    }

    fn view(&self, _facts: &Facts) -> Value {
        json!({})
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let mut vms = Vec::new();
        let mut warnings = Vec::new();
        let guests = self.selected(o.after);
        let by_nodes = Self::by_nodes(o.after, &guests);
        for entry in &guests {
            let (vm, more) = self.described(o.after, &by_nodes, entry);
            vms.push(vm);
            warnings.extend(more);
        }
        let mut r = Map::new();
        r.insert("msg".into(), json!(format!("{} guests found", vms.len())));
        r.insert("proxmox_vms".into(), Value::Array(vms));
        if self.capacity {
            let nodes = o.after.known(PveKey::Nodes.key());
            r.insert("nodes".into(), nodes.cloned().unwrap_or_else(|| json!([])));
            let mut storages = vec![];
            for node in Self::online(o.after) {
                let list = o.after.known(PveKey::Storages(node.clone()).key());
                for s in list.and_then(Value::as_array).into_iter().flatten() {
                    let mut s = s.clone();
                    s["node"] = json!(node);
                    storages.push(s);
                }
            }
            r.insert("storages".into(), json!(storages));
        }
        if !warnings.is_empty() {
            r.insert("warnings".into(), json!(warnings));
        }
        r
    }

    fn title(&self) -> String {
        "guests".to_owned()
    }
}
