//! `pve_vnet`: vnets of SDN zones, one or many with one lock and one apply.

use crate::look::{self, Look, Stop, Think};
use crate::privileges;
use crate::pve_common::{self as common, arg_error};
use crate::pve_sdn::{
    self as sdn, APPLYING, How, Kind, NOTES, Object, Transaction, Values, Write, api_name, held,
    named,
};
use crate::{Def, Side};
use plan::{ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::shared::{RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind as T, ModuleSpec, Opt, Ret};
use std::collections::{BTreeMap, BTreeSet};

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

const VNET_DOC: &str = "Id of the vnet, which is the bridge's name on the nodes: a letter, then letters and digits, 2 to 8 characters.";
const ZONE_DOC: &str = "Zone of the vnet. A new one needs it.";
const ALIAS_DOC: &str = "Description of the vnet. Characters that the server does not take become C(_), with a warning.";
const TAG_DOC: &str = "VLAN or VXLAN id. It is unique in its zone.";
const AWARE_DOC: &str = "Let guests use VLANs inside the vnet.";
const ISOLATE_DOC: &str =
    "Isolate the ports of the vnet from each other. It counts only where it is given.";
const UPDATE_DOC: &str =
    "Whether a vnet that is there is changed; with V(false) the task fails if it differs.";
const MOVE_DOC: &str = "A vnet that is there with another zone or another tag is refused, since its guests would find themselves in another network; with V(true) it is changed.";
const UNSET_DOC: &str = "Options to be removed from the vnet.";
const UNSETTABLE: &[&str] = &["alias", "isolate_ports", "tag", "vlanaware"];

const ITEM: &[Opt] = &[
    Opt::str("vnet", VNET_DOC).required(),
    Opt::str(
        "zone",
        "Zone of the vnet; that of the task if it is not given.",
    ),
    Opt::str("alias", ALIAS_DOC),
    Opt::bool("isolate_ports", ISOLATE_DOC),
    Opt::int("tag", TAG_DOC).range(1, 16_777_215),
    Opt::bool("vlanaware", AWARE_DOC),
    Opt::str(
        "state",
        "As for the task; that of the task if it is not given.",
    )
    .choices(&["present", "absent"]),
    Opt::bool(
        "update",
        "As for the task; that of the task if it is not given.",
    ),
    Opt::bool(
        "move",
        "As for the task; that of the task if it is not given.",
    ),
    Opt::strs("unset", UNSET_DOC).choices(UNSETTABLE),
];

const OPTIONS: &[Opt] = &[
    Opt::str("vnet", VNET_DOC),
    Opt::str("zone", ZONE_DOC),
    Opt::str("alias", ALIAS_DOC),
    Opt::bool("isolate_ports", ISOLATE_DOC).default("false"),
    Opt::int("tag", TAG_DOC).range(1, 16_777_215),
    Opt::bool("vlanaware", AWARE_DOC),
    Opt::str("state", "Whether the vnet shall be there.")
        .choices(&["present", "absent"])
        .default("\"present\""),
    Opt::bool("update", UPDATE_DOC).default("true"),
    Opt::bool("move", MOVE_DOC).default("false"),
    Opt::strs("unset", UNSET_DOC).choices(UNSETTABLE),
    Opt::dicts(
        "vnets",
        "Many vnets with one lock and one apply, instead of O(vnet).",
        ITEM,
    ),
    Opt::str(
        "delete",
        "Options to be removed, separated by commas; O(unset) is the same as a list.",
    ),
    Opt::str(
        "lock_token",
        "Not needed: the task takes the lock itself. Accepted and not used.",
    )
    .secret(),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_vnet",
    short: "Manage SDN vnets of a Proxmox VE cluster",
    doc: &[
        "Adds, changes and removes vnets and applies the change on the nodes, where a vnet is a bridge afterwards.",
        "Vnets that are as wanted are left alone: no lock, no apply, no reload of the network. Options that are not named keep their values.",
    ],
    options: &[OPTIONS, APPLYING, common::SIGN_IN],
    required_one_of: &[common::SIGN_IN_ONE_OF, &["vnet", "vnets"]],
    mutually_exclusive: &[&["vnet", "vnets"]],
    required_together: &[common::SIGN_IN_TOGETHER],
    returns: &[
        &[
            Ret::new(
                "vnet",
                T::Str,
                "success",
                "Id of the vnet, or null for O(vnets).",
            )
            .sample("\"v100\""),
            Ret::new(
                "config",
                T::Dict,
                "success",
                "By id: the vnet as it is stored now, or null.",
            ),
            Ret::list_of(
                "pending",
                T::Str,
                "success",
                "Ids of the vnets of this task that still wait to be applied.",
            ),
        ],
        RETURNS,
        RETURNS_WRITING,
    ],
    examples: r#"- name: Two VLANs of one zone
  trueplan.virt.pve_vnet:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    zone: zvlan
    vnets:
      - vnet: v100
        tag: 100
        alias: Office
      - vnet: v200
        tag: 200
"#,
    notes: NOTES,
    privileges: &[
        (
            "C(/sdn/zones/ZONE) for a new one, else C(/sdn/zones/ZONE/VNET)",
            "C(SDN.Allocate)",
            "writing a vnet",
        ),
        privileges::SDN_LOCK,
        privileges::SDN_LISTS,
        privileges::SDN_RELOAD,
    ],
    replaces: Some("community.proxmox.proxmox_vnet"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// One vnet that is asked for.
#[derive(Clone, Debug)]
struct Wish {
    id: String,
    absent: bool,
    update: bool,
    may_move: bool,
    named: Values,
    unset: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Vnets {
    wishes: Vec<Wish>,
    single: bool,
    how: How,
    warnings: Vec<String>,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = common::sign_in_errors(args);
    let mut warnings = Vec::new();
    let mut wishes = Vec::new();
    let single = args.list("vnets").is_none();
    let get = |n: &str| match n {
        "isolate_ports" if !args.given(n) => None,
        n => args.get(n).cloned(),
    };
    if single {
        wishes.extend(wish(args, "", &get, &mut errors, &mut warnings));
    }
    for (i, item) in args.list("vnets").into_iter().flatten().enumerate() {
        let at = format!("vnets[{i}].");
        let own = |n: &str| item.get(n).filter(|v| !v.is_null()).cloned();
        // What says which network it is stands in the item; the rest may stand in the task.
        let get = |n: &str| match n {
            "zone" | "state" | "update" | "move" => own(n).or_else(|| args.get(n).cloned()),
            n => own(n),
        };
        wishes.extend(wish(args, &at, &get, &mut errors, &mut warnings));
    }
    let mut seen = BTreeSet::new();
    for (i, w) in wishes.iter().enumerate() {
        if !seen.insert(&w.id) {
            errors.push(arg_error(
                &format!("vnets[{i}].vnet"),
                Some(w.id.clone()),
                "is named twice; leave one out",
            ));
        }
    }
    let how = How::from_args(args, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Box::new(Vnets {
        wishes,
        single,
        how,
        warnings,
    }))
}

fn wish(
    args: &Args,
    at: &str,
    get: &dyn Fn(&str) -> Option<Value>,
    errors: &mut Vec<ArgError>,
    warnings: &mut Vec<String>,
) -> Option<Wish> {
    let text = |n: &str| get(n).and_then(|v| v.as_str().map(str::to_owned));
    let flag = |n: &str| get(n).and_then(|v| v.as_bool());
    let id = text("vnet").unwrap_or_default();
    if !pve::sdn::is_vnet_id(&id) {
        errors.push(arg_error(
            &format!("{at}vnet"),
            Some(id),
            "is no vnet id; give a letter and then letters and digits, 2 to 8 characters",
        ));
        return None;
    }
    let absent = text("state").as_deref() == Some("absent");
    let mut named = named(Kind::Vnet, get);
    if let Some(alias) = named.get("alias")
        && !pve::sdn::is_alias(alias)
    {
        let clean = pve::sdn::clean_alias(alias);
        warnings.push(format!(
            "the alias of vnet {id} has characters that the server does not take; it becomes {clean:?}"
        ));
        named.insert("alias".into(), clean);
    }
    let mut unset: Vec<String> = get("unset")
        .and_then(|v| v.as_array().cloned())
        .unwrap_or_default()
        .iter()
        .filter_map(|v| v.as_str().map(api_name))
        .collect();
    if at.is_empty() {
        for d in args
            .str("delete")
            .into_iter()
            .flat_map(pve::check::split_list)
        {
            let name = api_name(d);
            if UNSETTABLE.iter().any(|u| api_name(u) == name) {
                unset.push(name);
            } else {
                errors.push(arg_error(
                    "delete",
                    Some(d.to_owned()),
                    format!(
                        "is no option that can be removed; give one of {}",
                        UNSETTABLE.join(", ")
                    ),
                ));
            }
        }
    }
    for u in &unset {
        if named.contains_key(u) {
            errors.push(arg_error(
                &format!("{at}unset"),
                Some(u.clone()),
                format!("`{u}` is also given a value; leave one out"),
            ));
        }
    }
    Some(Wish {
        id,
        absent,
        update: flag("update").unwrap_or(true),
        may_move: flag("move").unwrap_or(false),
        named,
        unset,
    })
}

impl Vnets {
    fn what(&self) -> String {
        let verb = match self.wishes.iter().all(|w| w.absent) {
            true => "remove",
            false => "set",
        };
        let ids: Vec<&str> = self.wishes.iter().map(|w| w.id.as_str()).collect();
        format!("{verb} vnet {}", ids.join(", "))
    }

    fn refused(id: &str, why: String) -> Stop {
        Refusal::new(format!("unable to set vnet {id}: {why}")).into()
    }

    /// What one wish makes of what is there; `None`: it is as wanted.
    fn change(
        &self,
        look: &Look<'_>,
        w: &Wish,
        found: Option<&Object>,
    ) -> Result<Option<Write>, Stop> {
        let what = format!("{} vnet {}", if w.absent { "remove" } else { "set" }, w.id);
        let before = found.and_then(|o| o.wanted.clone());
        if before.is_none() && found.is_none() {
            sdn::surely_absent(look, Kind::Vnet, &w.id, &what)?;
        }
        let write = |before: Option<Values>, after: Option<Values>, disruptive: bool| Write {
            id: w.id.clone(),
            before,
            after,
            disruptive,
        };
        if w.absent {
            let Some(b) = before else { return Ok(None) };
            self.check_no_subnets(look, w)?;
            return Ok(Some(write(Some(b), None, true)));
        }
        let base = before.clone().unwrap_or_default();
        let after = sdn::converge(Kind::Vnet, &base, &w.named, &w.unset);
        let Some(b) = before else {
            if !after.contains_key("zone") {
                return Err(Self::refused(
                    &w.id,
                    "it is missing, and a new one needs `zone`; say in which zone it is".to_owned(),
                ));
            }
            return Ok(Some(write(None, Some(after), false)));
        };
        if after == b {
            return Ok(None);
        }
        let differs = |n: &str| b.contains_key(n) && b.get(n) != after.get(n);
        let moved: Vec<String> = ["zone", "tag"]
            .iter()
            .filter(|n| differs(n))
            .map(|n| {
                format!(
                    "{n} {} (wanted: {})",
                    b.get(*n).map_or("", String::as_str),
                    after.get(*n).map_or("none", String::as_str)
                )
            })
            .collect();
        if !moved.is_empty() && !w.may_move {
            return Err(Self::refused(
                &w.id,
                format!(
                    "it is there with {}, and its guests would find themselves in another network; choose another id, or give `move: true`",
                    moved.join(" and ")
                ),
            ));
        }
        if !w.update {
            return Err(Self::refused(
                &w.id,
                "it is there, differs from what is wanted, and `update` is false; set `update: true` to change it".to_owned(),
            ));
        }
        Ok(Some(write(Some(b), Some(after), !moved.is_empty())))
    }

    fn check_no_subnets(&self, look: &Look<'_>, w: &Wish) -> Result<(), Stop> {
        let key = PveKey::SdnSubnets(w.id.clone());
        let Some(f) = look.aux(&key, &format!("subnets of vnet {}", w.id))? else {
            return Ok(());
        };
        let there: Vec<&str> = f
            .known()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|s| s["state"] != "deleted")
            .filter_map(|s| s["subnet"].as_str())
            .collect();
        if there.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "unable to remove vnet {}: it has subnets: {}; remove them first",
            w.id,
            there.join(", ")
        ))
        .into())
    }

    /// What the zone says to the vnet: it must be there, and its type decides about tags (source: pve-network,
    /// PVE/Network/SDN/Zones/*Plugin.pm, verify_tag).
    fn check_zone(
        &self,
        look: &Look<'_>,
        zones: &BTreeMap<String, Object>,
        id: &str,
        after: &Values,
    ) -> Result<(), Stop> {
        let zone = after.get("zone").map_or("", String::as_str);
        let Some(found) = zones.get(zone) else {
            return match look.fact(&PveKey::SdnZone(zone.to_owned()))? {
                Fact::Unreadable(why) => {
                    look.note(format!("whether there is a zone {zone}: {why}"));
                    Ok(())
                }
                _ => Err(Refusal::kind(
                    ErrorKind::NotFound,
                    format!(
                        "unable to set vnet {id}: zone {zone} does not exist; create it first with pve_zone"
                    ),
                )
                .into()),
            };
        };
        let Some(z) = &found.wanted else {
            return Err(Self::refused(
                id,
                format!("the removal of its zone {zone} is pending; apply or roll that back first"),
            ));
        };
        let kind = z.get("type").map_or("", String::as_str);
        let tag = after.get("tag").and_then(|t| t.parse::<u32>().ok());
        let why = match (kind, tag) {
            ("simple", Some(_)) => "a zone of type simple has no tags; leave the tag out",
            ("vlan" | "qinq" | "vxlan" | "evpn", None) => "its zone's type needs a tag; give one",
            ("vlan" | "qinq", Some(t)) if t > 4094 => {
                "the tag is no VLAN; give a number from 1 to 4094"
            }
            _ => return Ok(()),
        };
        Err(Self::refused(id, format!("{why} (zone {zone}: {kind})")))
    }
}

/// The vnet that has that tag in that zone.
fn twin<'a>(now: &'a BTreeMap<String, Values>, id: &str, after: &Values) -> Option<&'a str> {
    let tag = after.get("tag")?;
    now.iter()
        .find(|(other, v)| {
            *other != id && v.get("zone") == after.get("zone") && v.get("tag") == Some(tag)
        })
        .map(|(other, _)| other.as_str())
}

impl Think for Vnets {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let what = self.what();
        let vnets = sdn::read(look, Kind::Vnet, &what)?;
        let mut writes = Vec::new();
        let mut settled = BTreeSet::new();
        for w in &self.wishes {
            let found = vnets.get(&w.id);
            match self.change(look, w, found)? {
                Some(write) => writes.push(write),
                None if found.is_some_and(|o| o.state.is_some()) => {
                    settled.insert(w.id.clone());
                }
                None => {}
            }
        }
        // Removals free tags, changes carry the digest, so this order; within each as the task has them.
        writes.sort_by_key(|w| match (&w.before, &w.after) {
            (Some(_), Some(_)) => 0,
            (_, None) => 1,
            (None, Some(_)) => 2,
        });
        if writes.iter().any(|w| w.after.is_some()) {
            let zones = sdn::read(look, Kind::Zone, &what)?;
            let mut now: BTreeMap<String, Values> = vnets
                .iter()
                .filter_map(|(id, o)| Some((id.clone(), o.wanted.clone()?)))
                .collect();
            for w in &writes {
                let Some(after) = &w.after else {
                    now.remove(&w.id);
                    continue;
                };
                self.check_zone(look, &zones, &w.id, after)?;
                if let Some(other) = twin(&now, &w.id, after) {
                    return Err(Self::refused(
                        &w.id,
                        format!(
                            "tag {} is that of vnet {other} in zone {} already; choose another, or use that vnet",
                            after.get("tag").map_or("", String::as_str),
                            after.get("zone").map_or("", String::as_str)
                        ),
                    ));
                }
                now.insert(w.id.clone(), after.clone());
            }
        }
        let mut plan = Transaction {
            kind: Kind::Vnet,
            writes,
            settled,
            apply: self.how.apply,
            allow: &self.how.allow,
            timeout_s: self.how.timeout_s,
            break_lock: self.how.break_lock,
            what,
        }
        .plan(look)?;
        plan.warnings.extend(self.warnings.iter().cloned());
        Ok(plan)
    }
}

impl Vnets {
    fn config(&self, facts: &Facts) -> Value {
        let list = facts.known(PveKey::SdnVnets.key());
        let all = list
            .map(|l| sdn::objects(Kind::Vnet, l))
            .unwrap_or_default();
        self.wishes
            .iter()
            .map(|w| (w.id.clone(), sdn::show(Kind::Vnet, all.get(&w.id))))
            .collect::<Map<_, _>>()
            .into()
    }
}

impl Module for Vnets {
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
        vec![PveKey::SdnVnets.key()]
    }

    fn view(&self, facts: &Facts) -> Value {
        self.config(facts)
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let (was, now) = (self.config(o.before), self.config(o.after));
        let word = |w: &Wish| {
            let (a, b) = (&was[&w.id], &now[&w.id]);
            match (w.absent, a.is_null(), a == b) {
                (true, true, _) => format!("vnet {} is absent.", w.id),
                (true, false, _) => format!("Deleted vnet {}", w.id),
                (false, true, _) => format!("Created new vnet - {}", w.id),
                (false, false, false) => format!("Updated vnet - {}", w.id),
                (false, false, true) => format!("vnet {} is up to date", w.id),
            }
        };
        let msg: Vec<String> = self.wishes.iter().map(word).collect();
        let pending: Vec<&str> = self
            .wishes
            .iter()
            .filter(|w| now[&w.id].is_object() && now[&w.id]["pending"] != false)
            .map(|w| w.id.as_str())
            .collect();
        let mut r = Map::new();
        r.insert("msg".into(), json!(msg.join("; ")));
        let id = self.wishes.first().map(|w| w.id.as_str());
        r.insert("vnet".into(), json!(id.filter(|_| self.single)));
        r.insert("pending".into(), json!(pending));
        r.insert("config".into(), now);
        r
    }

    fn title(&self) -> String {
        match &self.wishes[..] {
            [one] => format!("vnet {}", one.id),
            many => format!("{} vnets", many.len()),
        }
    }
}
