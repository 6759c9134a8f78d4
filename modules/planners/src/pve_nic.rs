//! `pve_nic`: one network card of a guest. Options that are named converge, all others stay.

use crate::look::{self, Look, Stop, Think};
use crate::privileges;
use crate::pve_common::{self as common, Guest, Target, arg_error};
use crate::pve_foresee::{self as foresee, Change, Setting};
use crate::pve_write;
use crate::{Def, Side};
use plan::{Effect, Facts, Key, Module, Outcome, Plan, Refusal, Wait};
use pve::keys::PveKey;
use pve::{MacAddr, PropString};
use serde_json::{Map, Value, json};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};
use std::collections::BTreeMap;

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

/// Card models that the server knows (api-schema.json, `net[n]`).
const MODELS: &[&str] = &[
    "e1000",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "e1000e",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
];

const OPTIONS: &[Opt] = &[
    Opt::int("vmid", "Id of the guest. It is found wherever it lives."),
    Opt::str(
        "name",
        "Name of the guest; used when O(vmid) is not given. Exactly one virtual machine must have it.",
    ),
    Opt::str(
        "node",
        "Node on which the guest probably is: saves the search for it. It is found wherever it lives.",
    ),
    Opt::str("interface", "The card, V(net0) to V(net31).").required(),
    Opt::str("state", "Whether the card shall be there.")
        .choices(&["present", "absent"])
        .default("\"present\""),
    Opt::str(
        "bridge",
        "Bridge or vnet of the node. It must be there, applied and not only pending.",
    ),
    Opt::bool(
        "firewall",
        "Whether the firewall filters this card. The default counts for a new card only.",
    )
    .default("false"),
    Opt::bool(
        "link_down",
        "Whether the cable is pulled. The default counts for a new card only.",
    )
    .default("false"),
    Opt::str(
        "mac",
        "MAC address. An existing card keeps its own; a new one gets one that follows from the vmid and the card's number.",
    ),
    Opt::str(
        "model",
        "Model of the card. The default counts for a new card only.",
    )
    .choices(MODELS)
    .default("\"virtio\""),
    Opt::int(
        "mtu",
        "MTU, for V(virtio) only; V(1) takes that of the bridge.",
    )
    .range(1, 65520),
    Opt::int("queues", "Packet queues of a V(virtio) card.").range(0, 64),
    Opt::float("rate", "Limit in megabytes per second."),
    Opt::int("tag", "VLAN of untagged frames.").range(1, 4094),
    Opt::strs(
        "trunks",
        "VLANs let through: numbers and ranges such as V(10-20), compared as a set.",
    ),
    Opt::strs("unset", "Options to be removed from the card.").choices(&[
        "bridge",
        "firewall",
        "link_down",
        "mtu",
        "queues",
        "rate",
        "tag",
        "trunks",
    ]),
    Opt::int(
        "timeout",
        "Seconds to wait for a lock or a running task of the guest.",
    )
    .default("60")
    .range(0, 86_400),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_nic",
    short: "Manage network cards of Proxmox VE virtual machines",
    doc: &[
        "Adds, changes and removes one network card.",
        "Options that are not named keep their values, also those that this module does not know.",
    ],
    options: &[OPTIONS, common::SIGN_IN, common::GUARDS],
    required_one_of: &[&["name", "vmid"], common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    returns: &[
        &[
            Ret::new("vmid", Kind::Int, "success", "Id of the guest.").sample("103"),
            Ret::new("interface", Kind::Str, "success", "The card.").sample("\"net0\""),
            Ret::new(
                "mac",
                Kind::Str,
                "success",
                "Its MAC address; null if there is no such card.",
            ),
            Ret::new(
                "bridge",
                Kind::Str,
                "success",
                "Its bridge or vnet, or null.",
            ),
            Ret::new("tag", Kind::Int, "success", "Its VLAN, or null."),
            Ret::new(
                "before",
                Kind::Str,
                "success",
                "The card as the server stored it before, or null.",
            ),
            Ret::new(
                "after",
                Kind::Str,
                "success",
                "The card as the server stores it now, or null.",
            ),
            Ret::new(
                "pending",
                Kind::Dict,
                "success",
                "What of the card waits for the next stop of the guest; null means removal.",
            ),
        ],
        spec::shared::RETURNS,
        spec::shared::RETURNS_WRITING,
    ],
    examples: r#"- name: Put the first card onto vnet v100
  trueplan.virt.pve_nic:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    vmid: 20042
    interface: net0
    bridge: v100
    mac: 00:50:56:aa:bb:cc

- name: Take the VLAN tag off, keep all else
  trueplan.virt.pve_nic:
    vmid: 20042
    interface: net1
    unset: [tag]
"#,
    privileges: &[
        privileges::READS,
        ("C(/vms/VMID)", "C(VM.Config.Network)", "writing the card"),
        privileges::BRIDGE,
        privileges::TASKS,
    ],
    replaces: Some("community.proxmox.proxmox_nic"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Nic {
    target: Target,
    interface: String,
    absent: bool,
    /// Keys that the task named.
    named: BTreeMap<&'static str, String>,
    unset: Vec<String>,
    guard: Option<String>,
    timeout_s: u64,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    Ok(Box::new(Nic::new(args)?))
}

/// Why the server would not take that key of a card; the card's own name is judged elsewhere.
fn unacceptable(interface: &str, name: &str, value: &str) -> Option<String> {
    let mut card = PropString::empty(interface).ok()?;
    card.set("model", "virtio").ok()?;
    match card.set(name, value) {
        Ok(_) => PropString::parse_checked(interface, &card.print())
            .err()
            .map(|e| e.to_string()),
        Err(e) => Some(e.to_string()),
    }
}

impl Nic {
    /// From coerced arguments.
    ///
    /// # Errors
    /// All that is wrong with them beyond the table.
    pub fn new(args: &Args) -> Result<Nic, Vec<ArgError>> {
        let mut errors = common::sign_in_errors(args);
        let target = Target::from_args(args, &mut errors);
        let interface = args.str("interface").unwrap_or_default().to_owned();
        if !interface
            .parse::<pve::ConfigKey>()
            .is_ok_and(|k| k.is_net())
        {
            errors.push(arg_error(
                "interface",
                Some(interface.clone()),
                "is no network card; give net0 to net31",
            ));
        }
        let mut named = BTreeMap::new();
        for name in ["bridge", "model"] {
            if args.given(name)
                && let Some(v) = args.str(name)
            {
                named.insert(name, v.to_owned());
            }
        }
        for name in ["firewall", "link_down"] {
            if args.given(name)
                && let Some(v) = args.bool(name)
            {
                named.insert(name, u8::from(v).to_string());
            }
        }
        for name in ["mtu", "queues", "tag"] {
            if let Some(v) = args.int(name) {
                named.insert(name, v.to_string());
            }
        }
        if let Some(v) = args.float("rate") {
            named.insert("rate", v.to_string());
        }
        if let Some(mac) = args.str("mac") {
            match mac.parse::<MacAddr>() {
                Ok(m) => {
                    named.insert("macaddr", m.as_str().to_owned());
                }
                Err(e) => errors.push(arg_error("mac", Some(mac.to_owned()), e.to_string())),
            }
        }
        let mut unset = args.strs("unset").unwrap_or_default();
        if let Some(trunks) = args.strs("trunks") {
            let joined = trunks.join(";");
            match pve::meaning::int_set(&joined) {
                Some(s) if s.is_empty() => unset.push("trunks".into()),
                Some(s) if s.iter().all(|(a, b)| *a >= 1 && *b <= 4094) => {
                    named.insert("trunks", pve::meaning::print_int_set(&s, ";"));
                }
                _ => errors.push(arg_error(
                    "trunks",
                    Some(joined),
                    "is no list of VLANs; give numbers from 1 to 4094 and ranges such as 10-20",
                )),
            }
        }
        for (name, value) in &named {
            if let Some(e) = unacceptable(&interface, name, value) {
                let path = if *name == "macaddr" { "mac" } else { name };
                errors.push(arg_error(path, Some(value.clone()), e));
            }
        }
        for u in &unset {
            if named.contains_key(u.as_str()) {
                errors.push(arg_error(
                    "unset",
                    Some(u.clone()),
                    format!("`{u}` is also given a value; leave one out"),
                ));
            }
        }
        match (errors.is_empty(), target) {
            (true, Some(target)) => Ok(Nic {
                target,
                interface,
                absent: args.str("state") == Some("absent"),
                named,
                unset,
                guard: args.str("guard_uuid").map(str::to_owned),
                timeout_s: args
                    .int("timeout")
                    .and_then(|t| u64::try_from(t).ok())
                    .unwrap_or(60),
            }),
            _ => Err(errors),
        }
    }

    fn verb(&self) -> String {
        let what = if self.absent { "remove" } else { "set" };
        format!("{what} {} of", self.interface)
    }

    /// The card as it shall be.
    fn wanted(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        old: Option<&PropString>,
    ) -> Result<PropString, Stop> {
        let verb = self.verb();
        let refused = |e: String| -> Stop {
            Refusal::new(format!("unable to {verb} guest {}: {e}", guest.vmid())).into()
        };
        let empty = PropString::empty(&self.interface).map_err(|e| refused(e.to_string()))?;
        let mut named = empty.clone();
        for (name, value) in &self.named {
            named.set(name, value).map_err(|e| refused(e.to_string()))?;
        }
        let base = match old {
            Some(o) => o.unset(&self.unset),
            None => {
                // The peer's defaults count at creation only.
                let mut fresh = empty;
                let model = self.named.get("model").map_or("virtio", String::as_str);
                fresh
                    .set("model", model)
                    .map_err(|e| refused(e.to_string()))?;
                fresh
            }
        };
        let mut new = base.merge(&named);
        if new.get("macaddr").is_none() {
            let mac = pve_write::mac_for(look, guest.vmid(), &self.interface)?;
            new.set("macaddr", &mac)
                .map_err(|e| refused(e.to_string()))?;
        }
        Ok(new)
    }

    fn check(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        old: Option<&PropString>,
        new: &PropString,
    ) -> Result<(), Stop> {
        let verb = self.verb();
        let refused = |e: String| -> Stop {
            Refusal::new(format!("unable to {verb} guest {}: {e}", guest.vmid())).into()
        };
        if let Some(mtu) = self.named.get("mtu")
            && new.get("model") != Some("virtio")
        {
            return Err(refused(format!(
                "mtu {mtu} is for model virtio only, and this card is {}; leave mtu out or take model virtio",
                new.get("model").unwrap_or("without a model")
            )));
        }
        let same_mac = |o: &PropString| {
            let mac = |p: &PropString| p.get("macaddr").map(str::to_ascii_uppercase);
            mac(o) == mac(new)
        };
        if !old.is_some_and(same_mac) {
            pve_write::check_duplicate_mac(guest, &self.interface, new.get("macaddr"))
                .map_err(refused)?;
        }
        let moved = old.and_then(|o| o.get("bridge")) != new.get("bridge");
        if let (true, Some(bridge)) = (moved, new.get("bridge")) {
            common::check_bridge(
                look,
                guest.node(),
                bridge,
                &format!("{verb} guest {}", guest.vmid()),
            )?;
        }
        Ok(())
    }

    fn change(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Change, Stop> {
        let stored = guest.text(&self.interface);
        if self.absent {
            let delete = stored.map(|_| self.interface.clone()).into_iter().collect();
            return Ok(Change {
                delete,
                ..Change::default()
            });
        }
        let old = match &stored {
            Some(s) => Some(PropString::parse(&self.interface, s).map_err(|e| {
                Refusal::new(format!(
                    "unable to {} guest {}: its stored value {s:?} cannot be read: {e}; set it by hand first",
                    self.verb(),
                    guest.vmid()
                ))
            })?),
            None => None,
        };
        let new = self.wanted(look, guest, old.as_ref())?;
        if old.as_ref().is_some_and(|o| o.same_as(&new)) {
            return Ok(Change::default());
        }
        self.check(look, guest, old.as_ref(), &new)?;
        Ok(Change {
            set: vec![Setting::plain(&self.interface, new.print())],
            ..Change::default()
        })
    }
}

impl Think for Nic {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let verb = self.verb();
        let guest = if self.absent {
            match common::find(look, &self.target, &verb)? {
                Some(g) => g,
                None => return Ok(Plan::empty()),
            }
        } else {
            common::find_existing(look, &self.target, &verb)?
        };
        common::check_guard(&guest, self.guard.as_deref(), &verb)?;
        if guest.lock().is_some_and(|l| common::IN_FLUX.contains(&l)) {
            common::settled(look, &guest, self.timeout_s, &verb, &[])?;
        }
        let change = self.change(look, &guest)?;
        if change.is_empty() {
            return Ok(Plan::empty());
        }
        common::settled(look, &guest, self.timeout_s, &verb, &[])?;
        let running = common::is_running(common::status(look, guest.vmid(), &verb)?);
        let why = match (self.absent, guest.text(&self.interface)) {
            (true, _) => format!("remove {}", self.interface),
            (false, None) => format!("add {}", self.interface),
            (false, Some(old)) => {
                pve_write::why_changed(&self.interface, &old, &change.set[0].stored)
            }
        };
        let mut step = pve_write::put_config(&guest, &change, running, why);
        step = step.effect(Effect::Put(
            PveKey::Guest(guest.vmid()).key(),
            pve_write::foreseen(look, &guest, running, &change),
        ));
        if running && (self.absent || pve_write::interrupts(&guest, &change)) {
            step = step.disruptive();
        }
        pve_write::permitted(
            look,
            guest.config(),
            &step.request,
            &format!("{verb} guest {}", guest.vmid()),
        )?;
        let mut plan = Plan::empty();
        plan.push(step);
        Ok(plan)
    }
}

impl Module for Nic {
    fn holds(&self) -> Vec<Key> {
        match self.target {
            Target::Vmid(v) => vec![PveKey::Guest(v).key()],
            Target::Name(_) => vec![PveKey::Guests.key()],
        }
    }

    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        let plan = look::plan(self, facts);
        #[cfg(feature = "broken-planner")]
        let plan = plan.map(|mut p| {
            p.steps.iter_mut().for_each(|s| s.effects.clear());
            p
        });
        plan
    }

    fn subject(&self, facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        common::resolve(facts, &self.target)
            .map(|v| PveKey::Guest(v).key())
            .into_iter()
            .collect()
    }

    fn view(&self, facts: &Facts) -> Value {
        let Some(guest) = common::guest_in(facts, &self.target) else {
            return json!({});
        };
        let mut v = Map::new();
        v.insert("vmid".into(), json!(guest.vmid()));
        v.insert(self.interface.clone(), json!(guest.text(&self.interface)));
        if let Some(boot) = guest.text("boot") {
            v.insert("boot".into(), json!(boot));
        }
        Value::Object(v)
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let (before, after) = (
            common::guest_in(o.before, &self.target),
            common::guest_in(o.after, &self.target),
        );
        let card = |g: Option<Guest<'_>>| g.and_then(|g| g.text(&self.interface));
        let (was, is) = (card(before), card(after));
        let parsed = is
            .as_deref()
            .and_then(|s| PropString::parse(&self.interface, s).ok());
        let get = |name: &str| parsed.as_ref().and_then(|p| p.get(name)).map(str::to_owned);
        let waiting: Map<String, Value> = after
            .map(|g| foresee::pending_of(&g))
            .unwrap_or_default()
            .into_iter()
            // The server takes a card that goes out of the boot order, which on a running guest waits too.
            .filter(|(k, _)| *k == self.interface || self.absent && k == "boot")
            .collect();
        let vmid = common::resolve(o.after, &self.target);
        let on = match (&self.target, vmid) {
            (_, Some(v)) => format!("VM with vmid {v}"),
            (t, None) => t.to_string(),
        };
        let nic = &self.interface;
        let msg = match (self.absent, o.changed) {
            (true, true) => format!("Nic {nic} deleted on {on}"),
            (true, false) if waiting.contains_key(nic) => {
                format!("Nic {nic} on {on} is already to be removed at the next stop")
            }
            (true, false) => format!("Nic {nic} does not exist on {on}"),
            (false, true) => format!("Nic {nic} updated on {on}"),
            (false, false) => format!("Nic {nic} unchanged on {on}"),
        };
        let mut r = Map::new();
        r.insert("msg".into(), json!(msg));
        r.insert("vmid".into(), json!(vmid));
        r.insert("interface".into(), json!(nic));
        r.insert("mac".into(), json!(get("macaddr")));
        r.insert("bridge".into(), json!(get("bridge")));
        r.insert(
            "tag".into(),
            json!(get("tag").and_then(|t| t.parse::<u32>().ok())),
        );
        r.insert("before".into(), json!(was));
        r.insert("after".into(), json!(is));
        r.insert("pending".into(), Value::Object(waiting));
        r
    }

    fn title(&self) -> String {
        format!("{} of {}", self.interface, self.target)
    }
}
