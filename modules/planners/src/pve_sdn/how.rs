//! What both modules are asked beside the object itself: how changes are applied.

use super::{Kind, Values, canonical};
use crate::common::PLAN_ONLY;
use crate::pve_common::arg_error;
use plan::Key;
use pve::keys::PveKey;
use serde_json::Value;
use spec::shared::EXPECT_PLAN;
use spec::{ArgError, Args, Opt};
use std::collections::BTreeSet;

/// Options of pve_zone and pve_vnet that say how changes are applied.
pub const APPLYING: &[Opt] = &[
    Opt::bool(
        "apply",
        "Apply the change on the nodes. With V(false) it is only stored and left to a later task, which needs O(allow_pending).",
    )
    .default("true"),
    Opt::raw(
        "allow_pending",
        "Other SDN changes that wait to be applied and may be applied along: a list of ids, or V(true) for all. Applying is for all changes at once, so without this the task is refused when there are any.",
    ),
    Opt::bool(
        "break_lock",
        "Take away the SDN lock of somebody else first (Proxmox VE 9). Only when its holder is dead.",
    )
    .default("false"),
    Opt::int(
        "timeout",
        "Seconds to wait for somebody's SDN lock, and for the nodes to have applied the change.",
    )
    .default("60")
    .range(0, 86_400),
    PLAN_ONLY,
    EXPECT_PLAN,
];

/// Notes of both modules.
pub const NOTES: &[&str] = &[
    "Applying SDN changes is for the whole cluster: what others left pending would be applied along. The task is refused then, unless O(allow_pending) names it.",
    "Nobody can see whether the SDN lock is held, also not in check mode; it is waited for when a change is made.",
];

/// Which pending changes of others may be applied along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// All.
    All,
    /// Only these ids.
    Named(BTreeSet<String>),
}

impl Allow {
    /// From `allow_pending`: a bool, or names.
    ///
    /// # Errors
    /// What it should be.
    pub fn from_value(value: Option<&Value>) -> Result<Allow, String> {
        let none = Allow::Named(BTreeSet::new());
        let word = |s: &str| match s.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(Allow::All),
            "false" | "no" | "off" | "0" | "" => Some(none.clone()),
            _ => None,
        };
        let names = |list: Vec<String>| Allow::Named(list.into_iter().collect());
        match value {
            None | Some(Value::Null) => Ok(none),
            Some(Value::Bool(true)) => Ok(Allow::All),
            Some(Value::Bool(false)) => Ok(none),
            Some(Value::String(s)) => Ok(word(s).unwrap_or_else(|| {
                names(s.split(',').map(|p| p.trim().to_owned()).collect())
            })),
            Some(Value::Array(a)) if a.iter().all(Value::is_string) => Ok(names(
                a.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect(),
            )),
            Some(_) => Err("is neither true nor a list of names; give the ids of the zones, vnets and others that may be applied along".to_owned()),
        }
    }
    pub(super) fn allows(&self, id: &str) -> bool {
        match self {
            Allow::All => true,
            Allow::Named(n) => n.contains(id),
        }
    }
}

/// How changes are applied.
#[derive(Clone, Debug)]
pub struct How {
    /// Whether they are.
    pub apply: bool,
    /// What may be applied along.
    pub allow: Allow,
    /// Take somebody's lock away.
    pub break_lock: bool,
    /// Seconds.
    pub timeout_s: u64,
}

impl How {
    /// From coerced arguments.
    pub fn from_args(args: &Args, errors: &mut Vec<ArgError>) -> How {
        let allow = Allow::from_value(args.get("allow_pending")).unwrap_or_else(|e| {
            errors.push(arg_error("allow_pending", None, e));
            Allow::All
        });
        How {
            apply: args.bool("apply").unwrap_or(true),
            allow,
            break_lock: args.flag("break_lock"),
            timeout_s: args
                .int("timeout")
                .and_then(|t| u64::try_from(t).ok())
                .unwrap_or(60),
        }
    }
}

/// The API's name of an option.
pub fn api_name(option: &str) -> String {
    option.replace('_', "-")
}

/// The options that were given, by their API names.
pub fn named(kind: Kind, get: impl Fn(&str) -> Option<Value>) -> Values {
    kind.options()
        .filter(|n| *n != kind.word())
        .filter_map(|n| {
            let text = pve::config::text_of(&get(&n.replace('-', "_"))?)?;
            Some((n.to_owned(), canonical(kind, n, &text)))
        })
        .collect()
}

/// Keys that no two tasks of a check run may plan at once: the lists are changed as wholes.
pub fn held() -> Vec<Key> {
    vec![
        PveKey::SdnZones.key(),
        PveKey::SdnVnets.key(),
        PveKey::SdnPending.key(),
    ]
}
