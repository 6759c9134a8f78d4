//! What pve_zone and pve_vnet share: reading the pending view, and the one transaction of lock, writes, apply.
//!
//! Applying is global on the server (docs/pve-sdn.md, trap 2), so what others left pending is never applied unasked, and the lock
//! (PVE 9) is held only around write and apply.

mod how;
mod transaction;

pub use how::{APPLYING, Allow, How, NOTES, api_name, held, named};
pub use transaction::{Transaction, Write};

use crate::look::{Look, Stop};
use plan::{ErrorKind, Fact, Refusal};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Which list an object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A zone.
    Zone,
    /// A vnet.
    Vnet,
}

impl Kind {
    /// Field of the id, and the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Zone => "zone",
            Kind::Vnet => "vnet",
        }
    }
    fn plural(self) -> &'static str {
        match self {
            Kind::Zone => "zones",
            Kind::Vnet => "vnets",
        }
    }
    /// The list's key.
    pub fn list(self) -> PveKey {
        match self {
            Kind::Zone => PveKey::SdnZones,
            Kind::Vnet => PveKey::SdnVnets,
        }
    }
    fn one(self, id: &str) -> PveKey {
        match self {
            Kind::Zone => PveKey::SdnZone(id.to_owned()),
            Kind::Vnet => PveKey::SdnVnet(id.to_owned()),
        }
    }
    fn schema(self) -> &'static str {
        match self {
            Kind::Zone => "sdn_zone",
            Kind::Vnet => "sdn_vnet",
        }
    }
    /// Options of such an object, beside its id; a zone's `type` too.
    pub fn options(self) -> impl Iterator<Item = &'static str> {
        let own = pve::schema::sdn_options(self.schema())
            .into_iter()
            .flat_map(|o| o.keys().map(String::as_str))
            .filter(|n| *n != "type");
        own.chain((self == Kind::Zone).then_some("type"))
    }
    fn path(self, id: Option<&str>) -> String {
        match id {
            Some(id) => format!("/cluster/sdn/{}/{id}", self.plural()),
            None => format!("/cluster/sdn/{}", self.plural()),
        }
    }
}

/// Options by their names in the API, as texts.
pub type Values = BTreeMap<String, String>;

/// One object in the pending view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// `new`, `changed` or `deleted` while it is not applied.
    pub state: Option<String>,
    /// As the nodes have it; `None` while it is new.
    pub running: Option<Values>,
    /// As it will be once all is applied; `None` if its deletion is pending.
    pub wanted: Option<Values>,
}

/// The canonical text of an option: lists sorted, booleans in digits.
pub fn canonical(kind: Kind, name: &str, value: &str) -> String {
    let schema = pve::schema::sdn_options(kind.schema()).and_then(|o| o.get(name));
    match schema.map(|s| (s.kind, s.format.as_deref())) {
        Some((pve::schema::Kind::Boolean, _)) => pve::check::parse_bool(value)
            .map_or_else(|| value.to_owned(), |b| u8::from(b).to_string()),
        Some((_, Some(f))) if f.ends_with("-list") => {
            let set: BTreeSet<&str> = pve::check::split_list(value).collect();
            set.into_iter().collect::<Vec<_>>().join(",")
        }
        _ => value.to_owned(),
    }
}

fn values(kind: Kind, o: &Map<String, Value>) -> Values {
    kind.options()
        .filter_map(|n| {
            let text = pve::config::text_of(o.get(n)?)?;
            let text = canonical(kind, n, &text);
            // Not set and switched off are the same.
            let off = text.is_empty() || same_option(kind, n, None, Some(&text));
            (!off).then(|| (n.to_owned(), text))
        })
        .collect()
}

/// Whether two values of an option mean the same.
pub fn same_option(kind: Kind, name: &str, a: Option<&str>, b: Option<&str>) -> bool {
    pve::sdn::same_option(kind.schema(), name, a, b)
}

/// One entry of a list in the pending view (docs/pve-sdn.md, section 6), or one that an earlier task of a check run planned.
pub fn object(kind: Kind, entry: &Value) -> Option<(String, Object)> {
    let o = entry.as_object()?;
    let id = o.get(kind.word())?.as_str()?.to_owned();
    let state = o
        .get("state")
        .and_then(Value::as_str)
        .filter(|s| !s.is_empty());
    let mut merged = o.clone();
    if let Some(Value::Object(pending)) = o.get("pending") {
        for (k, v) in pending {
            match v.as_str() {
                Some("deleted") => merged.remove(k),
                _ => merged.insert(k.clone(), v.clone()),
            };
        }
    }
    let gone = state == Some("deleted");
    Some((
        id,
        Object {
            state: state.map(str::to_owned),
            running: (state != Some("new")).then(|| values(kind, o)),
            wanted: (!gone).then(|| values(kind, &merged)),
        },
    ))
}

/// All objects of a list fact.
pub fn objects(kind: Kind, list: &Value) -> BTreeMap<String, Object> {
    list["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|e| object(kind, e))
        .collect()
}

/// An option as the server returns it.
fn json_of(kind: Kind, name: &str, text: &str) -> Value {
    let schema = pve::schema::sdn_options(kind.schema()).and_then(|o| o.get(name));
    match (schema.map(|s| s.kind), text.parse::<i64>()) {
        (Some(pve::schema::Kind::Boolean | pve::schema::Kind::Integer), Ok(n)) => json!(n),
        _ => json!(text),
    }
}

/// An object for diffs: its options, and whether it waits to be applied.
pub fn show(kind: Kind, object: Option<&Object>) -> Value {
    let Some(o) = object else { return Value::Null };
    let mut m = Map::new();
    for (k, v) in o
        .wanted
        .as_ref()
        .or(o.running.as_ref())
        .into_iter()
        .flatten()
    {
        m.insert(k.clone(), json_of(kind, k, v));
    }
    match o.state.as_deref() {
        Some("deleted") => m.insert("pending".into(), json!("deleted")),
        s => m.insert("pending".into(), json!(s.is_some())),
    };
    Value::Object(m)
}

fn entry(kind: Kind, id: &str, values: &Values, state: Option<&str>) -> Value {
    let mut m = Map::new();
    m.insert(kind.word().into(), json!(id));
    if kind == Kind::Vnet {
        m.insert("type".into(), json!("vnet"));
    }
    for (k, v) in values {
        m.insert(k.clone(), json_of(kind, k, v));
    }
    if let Some(s) = state {
        m.insert("state".into(), json!(s));
    }
    Value::Object(m)
}

fn known_list<'a>(look: &Look<'a>, kind: Kind, what: &str) -> Result<&'a Value, Stop> {
    match look.fact(&kind.list())? {
        Fact::Known(v) => Ok(v),
        Fact::Absent => Err(Refusal::kind(
            ErrorKind::Api,
            format!(
                "unable to {what}: the server has no SDN; install libpve-network-perl on its nodes"
            ),
        )
        .into()),
        Fact::Unreadable(why) => Err(Refusal::kind(
            ErrorKind::Permission,
            format!(
                "unable to {what}: the {} cannot be read: {why}; give SDN.Audit on /sdn",
                kind.plural()
            ),
        )
        .into()),
    }
}

/// The objects of a list.
///
/// # Errors
/// `permission` if the list cannot be read.
pub fn read(look: &Look<'_>, kind: Kind, what: &str) -> Result<BTreeMap<String, Object>, Stop> {
    Ok(objects(kind, known_list(look, kind, what)?))
}

/// Makes sure that an object that no list shows is not there: lists are filtered by privilege.
///
/// # Errors
/// `permission` if that cannot be known.
pub fn surely_absent(look: &Look<'_>, kind: Kind, id: &str, what: &str) -> Result<(), Stop> {
    match look.fact(&kind.one(id))? {
        Fact::Unreadable(why) => {
            Err(Refusal::kind(ErrorKind::Permission, format!("unable to {what}: {why}")).into())
        }
        _ => Ok(()),
    }
}

/// Names of the nodes that are online.
///
/// # Errors
/// [`Stop::Missing`].
pub fn online_nodes(look: &Look<'_>) -> Result<Vec<String>, Stop> {
    let nodes = look.fact(&PveKey::Nodes)?.known().and_then(Value::as_array);
    Ok(nodes
        .into_iter()
        .flatten()
        .filter(|n| n["status"] == "online")
        .filter_map(|n| n["node"].as_str().map(str::to_owned))
        .collect())
}

/// Lays the named options over those that are there: what was not named stays, `unset` goes, what means the same keeps its notation.
pub fn converge(kind: Kind, base: &Values, named: &Values, unset: &[String]) -> Values {
    let mut out = base.clone();
    for name in unset {
        out.remove(name);
    }
    for (k, v) in named {
        if !same_option(kind, k, out.get(k).map(String::as_str), Some(v)) {
            out.insert(k.clone(), v.clone());
        }
    }
    // Switched off is not set.
    out.retain(|k, v| !same_option(kind, k, None, Some(v)));
    out
}
