//! What pve_zone and pve_vnet share: reading the pending view, and the one transaction of lock, writes, apply.
//!
//! Applying is global on the server (docs/pve-sdn.md, trap 2), so what others left pending is never applied unasked, and the lock
//! (PVE 9) is held only around write and apply.

use crate::look::{Look, Stop};
use crate::pve_common::list;
use crate::pve_write;
use plan::{Arg, Await, Effect, ErrorKind, Fact, Plan, Refusal, Request, Step, Tolerance};
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
    fn allows(&self, id: &str) -> bool {
        match self {
            Allow::All => true,
            Allow::Named(n) => n.contains(id),
        }
    }
}

/// What is to be done with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its id.
    pub id: String,
    /// As it will be once all pending is applied, before this write.
    pub before: Option<Values>,
    /// After it; `None`: removed.
    pub after: Option<Values>,
    /// Guests can lose their network by it.
    pub disruptive: bool,
}

/// All that one task does.
pub struct Transaction<'t> {
    /// Zones or vnets.
    pub kind: Kind,
    /// In the order in which they are sent.
    pub writes: Vec<Write>,
    /// Objects of this task that wait to be applied with the wanted values: a run that crashed.
    pub settled: BTreeSet<String>,
    /// Whether to apply.
    pub apply: bool,
    /// Which others may be applied along.
    pub allow: &'t Allow,
    /// Seconds for the lock and for the apply.
    pub timeout_s: u64,
    /// Take somebody's lock away first.
    pub break_lock: bool,
    /// Completes `unable to ...`.
    pub what: String,
}

struct Book {
    zones: BTreeMap<String, Value>,
    vnets: BTreeMap<String, Value>,
    pending: Value,
}

impl Book {
    fn of(&mut self, kind: Kind) -> &mut BTreeMap<String, Value> {
        match kind {
            Kind::Zone => &mut self.zones,
            Kind::Vnet => &mut self.vnets,
        }
    }
    fn list(&self, kind: Kind) -> Value {
        let all = match kind {
            Kind::Zone => &self.zones,
            Kind::Vnet => &self.vnets,
        };
        json!({"entries": all.values().collect::<Vec<_>>(), "digest": ""})
    }
    fn effect(&self, kind: Kind, id: &str) -> Effect {
        let all = match kind {
            Kind::Zone => &self.zones,
            Kind::Vnet => &self.vnets,
        };
        match all.get(id) {
            Some(e) => Effect::Put(kind.one(id).key(), e.clone()),
            None => Effect::Gone(kind.one(id).key()),
        }
    }
    /// Keeps the list of what is pending in step with the entries.
    fn recount(&mut self, kind: Kind) {
        let all = match kind {
            Kind::Zone => &self.zones,
            Kind::Vnet => &self.vnets,
        };
        let ids: Vec<&String> = all
            .iter()
            .filter(|(_, e)| {
                e.get("state")
                    .is_some_and(|s| s.as_str().is_some_and(|s| !s.is_empty()))
            })
            .map(|(id, _)| id)
            .collect();
        self.pending[kind.plural()] = json!(ids);
    }
    /// All that is pending becomes real.
    fn applied(&mut self) -> Vec<Effect> {
        let mut out = Vec::new();
        for kind in [Kind::Zone, Kind::Vnet] {
            let states: Vec<(String, Option<Values>)> = self
                .of(kind)
                .values()
                .filter_map(|e| object(kind, e))
                .filter(|(_, o)| o.state.is_some())
                .map(|(id, o)| (id, o.wanted))
                .collect();
            for (id, wanted) in states {
                match wanted {
                    Some(v) => self.of(kind).insert(id.clone(), entry(kind, &id, &v, None)),
                    None => self.of(kind).remove(&id),
                };
                out.push(self.effect(kind, &id));
            }
            out.push(Effect::Put(kind.list().key(), self.list(kind)));
        }
        self.pending =
            json!({"zones": [], "vnets": [], "controllers": [], "subnets": [], "fabrics": []});
        out.push(Effect::Put(PveKey::SdnPending.key(), self.pending.clone()));
        out
    }
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

/// What others left pending, by kind and id: all that is not applied, except `own`.
fn foreign(pending: &Value, kind: Kind, own: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (plural, ids) in pending.as_object().into_iter().flatten() {
        let word = plural.trim_end_matches('s');
        for id in ids
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !(plural == kind.plural() && own.contains(id)) {
                out.push((word.to_owned(), id.to_owned()));
            }
        }
    }
    out
}

const HELD: &str = "invalid lock token provided";
const HELD_WAY_OUT: &str = "somebody else holds the SDN lock (the server does not say who); wait for the other run, or, if its holder is dead, \
     remove the lock with `pvesh delete /cluster/sdn/lock --force 1` or give `break_lock: true`";

impl Transaction<'_> {
    /// The steps.
    ///
    /// # Errors
    /// Missing facts, or a refusal.
    pub fn plan(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        if self.writes.is_empty() && (self.settled.is_empty() || !self.apply) {
            return Ok(plan);
        }
        look.want(&[
            PveKey::Version,
            PveKey::SdnPending,
            PveKey::SdnZones,
            PveKey::SdnVnets,
            PveKey::WhoAmI,
        ])?;
        let pending = look
            .aux(
                &PveKey::SdnPending,
                "what is pending in the SDN configuration",
            )?
            .and_then(Fact::known)
            .cloned()
            .unwrap_or_else(|| json!({}));
        let others = foreign(&pending, self.kind, &self.settled);
        self.check_foreign(&others)?;
        let has_lock = look
            .fact(&PveKey::Version)?
            .known()
            .and_then(|v| v["major"].as_u64())
            .is_none_or(|major| major >= 9);
        let dirty = !others.is_empty() || !self.settled.is_empty();
        let zones = known_list(look, Kind::Zone, &self.what)?;
        let vnets = known_list(look, Kind::Vnet, &self.what)?;
        let by_id = |kind: Kind, l: &Value| -> BTreeMap<String, Value> {
            l["entries"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|e| Some((e[kind.word()].as_str()?.to_owned(), e.clone())))
                .collect()
        };
        let mut book = Book {
            zones: by_id(Kind::Zone, zones),
            vnets: by_id(Kind::Vnet, vnets),
            pending,
        };
        let token = if has_lock {
            Some(self.lock_steps(&mut plan, dirty))
        } else {
            None
        };
        let digest = match self.kind {
            Kind::Zone => &zones["digest"],
            Kind::Vnet => &vnets["digest"],
        };
        let before: BTreeMap<String, Object> = objects(
            self.kind,
            if self.kind == Kind::Zone {
                zones
            } else {
                vnets
            },
        );
        for (n, w) in self.writes.iter().enumerate() {
            let mut step = self.write_step(w, (n == 0).then_some(digest), token.as_ref());
            if !has_lock || dirty {
                step.undo = Some(self.undo(w, token.as_ref()));
            }
            let running = before.get(&w.id).and_then(|o| o.running.clone());
            let state = match (&running, &w.after) {
                (None, _) => Some("new"),
                (Some(_), None) => Some("deleted"),
                (Some(r), Some(a)) if r == a => None,
                _ => Some("changed"),
            };
            let list = book.of(self.kind);
            match (&w.after, &running) {
                (Some(v), _) => {
                    list.insert(w.id.clone(), entry(self.kind, &w.id, v, state));
                }
                (None, Some(r)) => {
                    list.insert(w.id.clone(), entry(self.kind, &w.id, r, state));
                }
                (None, None) => {
                    list.remove(&w.id);
                }
            }
            book.recount(self.kind);
            step.effects.push(book.effect(self.kind, &w.id));
            step.effects
                .push(Effect::Put(self.kind.list().key(), book.list(self.kind)));
            step.effects
                .push(Effect::Put(PveKey::SdnPending.key(), book.pending.clone()));
            plan.push(step);
        }
        if self.apply {
            let step = self.apply_step(look, &mut plan, &mut book, &others, token.as_ref())?;
            plan.push(step);
        } else if let Some(t) = &token {
            plan.push(Step::new(
                Request::new("DELETE", "/cluster/sdn/lock").arg("lock-token", t.clone()),
                "release the SDN lock; a later task applies",
            ));
        }
        self.permitted(look, &plan)?;
        Ok(plan)
    }

    fn check_foreign(&self, others: &[(String, String)]) -> Result<(), Stop> {
        if !self.apply {
            return Ok(());
        }
        let stray: Vec<String> = others
            .iter()
            .filter(|(_, id)| !self.allow.allows(id))
            .map(|(word, id)| format!("{word} {id}"))
            .collect();
        if stray.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = others.iter().map(|(_, id)| id.as_str()).collect();
        Err(Refusal::new(format!(
            "unable to {}: {} wait to be applied, and applying is for all changes at once; apply them or roll them back first, or give `allow_pending: [{}]` to apply them along",
            self.what,
            stray.join(", "),
            names.join(", ")
        ))
        .with("pending", names)
        .into())
    }

    /// The lock; gives the argument that later steps carry.
    fn lock_steps(&self, plan: &mut Plan, dirty: bool) -> Arg {
        if self.break_lock {
            plan.push(
                Step::new(
                    Request::new("DELETE", "/cluster/sdn/lock").param("force", 1),
                    "take away whatever SDN lock there is",
                )
                .disruptive(),
            );
        }
        let mut lock = Request::new("POST", "/cluster/sdn/lock");
        let mut why = "take the SDN lock";
        if dirty {
            lock = lock.param("allow-pending", 1);
            why = "take the SDN lock, although something is pending";
        }
        let token = Arg::Answer {
            step: plan.steps.len(),
            symbol: "<lock token>".to_owned(),
        };
        // The rollback is for all changes at once: only where nobody else's can be among them.
        let undo = if dirty {
            Request::new("DELETE", "/cluster/sdn/lock").arg("lock-token", token.clone())
        } else {
            Request::new("POST", "/cluster/sdn/rollback")
                .arg("lock-token", token.clone())
                .param("release-lock", 1)
        };
        plan.push(
            Step::new(lock, why)
                .undo(undo)
                .tolerate(Tolerance::Busy {
                    contains: HELD,
                    timeout_s: self.timeout_s,
                    way_out: HELD_WAY_OUT,
                })
                .tolerate(Tolerance::Replan("configuration has pending changes")),
        );
        token
    }

    fn write_step(&self, w: &Write, digest: Option<&Value>, token: Option<&Arg>) -> Step {
        let (kind, id) = (self.kind, w.id.as_str());
        let word = kind.word();
        let (mut request, why) = match (&w.before, &w.after) {
            (_, None) => (
                Request::new("DELETE", kind.path(Some(id))),
                format!("remove {word} {id}"),
            ),
            (None, Some(after)) => (
                create_request(kind, id, after),
                format!("create {word} {id}"),
            ),
            (Some(before), Some(after)) => {
                let (request, changes) = update_request(kind, id, before, after);
                (
                    request,
                    format!("change {word} {id}: {}", changes.join(", ")),
                )
            }
        };
        // The digest is that of the whole file: after the first write it is another (docs/pve-sdn.md, section 7).
        if let (Some(d), "PUT") = (digest, request.verb.as_str()) {
            request = request.arg(
                "digest",
                Arg::Shown {
                    symbol: "<digest as read>".to_owned(),
                    value: d.clone(),
                },
            );
        }
        if let Some(t) = token {
            request = request.arg("lock-token", t.clone());
        }
        let mut step = Step::new(request, why)
            .tolerate(Tolerance::Replan("detected modified configuration"))
            .tolerate(Tolerance::Replan("already defined"));
        step.disruptive = w.disruptive;
        step
    }

    fn undo(&self, w: &Write, token: Option<&Arg>) -> Request {
        let (kind, id) = (self.kind, w.id.as_str());
        let request = match (&w.before, &w.after) {
            (None, _) => Request::new("DELETE", kind.path(Some(id))),
            (Some(before), None) => create_request(kind, id, before),
            (Some(before), Some(after)) => update_request(kind, id, after, before).0,
        };
        match token {
            Some(t) => request.arg("lock-token", t.clone()),
            None => request,
        }
    }

    fn apply_step(
        &self,
        look: &Look<'_>,
        plan: &mut Plan,
        book: &mut Book,
        others: &[(String, String)],
        token: Option<&Arg>,
    ) -> Result<Step, Stop> {
        let mut request = Request::new("PUT", "/cluster/sdn");
        if let Some(t) = token {
            // Without release-lock the lock stays, whatever the schema's default says (docs/pve-sdn.md, trap 1).
            request = request
                .arg("lock-token", t.clone())
                .param("release-lock", 1);
        }
        let mut why = "apply the SDN configuration on all nodes".to_owned();
        if !others.is_empty() {
            let along: Vec<String> = others.iter().map(|(w, id)| format!("{w} {id}")).collect();
            why = format!("{why}, with what was pending: {}", along.join(", "));
        }
        let effects = book.applied();
        let zones = self.zones_to_wait_for(look, plan, book)?;
        let mut step = Step::new(request, why).commits();
        step.effects = effects;
        step.wait = if zones.is_empty() {
            Await::Task {
                timeout_s: self.timeout_s,
            }
        } else {
            Await::Until {
                key: PveKey::SdnReady(zones.join(",")).key(),
                pointer: "/ready".to_owned(),
                equals: json!(true),
                timeout_s: self.timeout_s,
            }
        };
        for z in &zones {
            step.effects.push(Effect::Put(
                PveKey::SdnReady(z.clone()).key(),
                json!({"ready": true, "zones": {z.as_str(): {}}}),
            ));
        }
        Ok(step)
    }

    /// Zones of what was written, where a node is there to realise them and they are not broken already.
    fn zones_to_wait_for(
        &self,
        look: &Look<'_>,
        plan: &mut Plan,
        book: &Book,
    ) -> Result<Vec<String>, Stop> {
        let touched = self
            .writes
            .iter()
            .filter(|w| w.after.is_some())
            .map(|w| &w.id)
            .chain(&self.settled);
        let zones: BTreeSet<String> = touched
            .filter_map(|id| match self.kind {
                Kind::Zone => book.zones.contains_key(id).then(|| id.clone()),
                Kind::Vnet => book.vnets.get(id)?["zone"].as_str().map(str::to_owned),
            })
            .collect();
        let keys: Vec<PveKey> = zones
            .iter()
            .map(|z| PveKey::SdnReady(z.clone()))
            .chain([PveKey::Nodes])
            .collect();
        look.want(&keys)?;
        let online = online_nodes(look)?;
        let mut out = Vec::new();
        for z in zones {
            let on = book.zones.get(&z).and_then(|e| e["nodes"].as_str());
            let somewhere =
                on.is_none_or(|n| pve::check::split_list(n).any(|n| online.iter().any(|o| o == n)));
            let broken: Vec<String> = look
                .aux(&PveKey::SdnReady(z.clone()), &format!("status of zone {z}"))?
                .and_then(Fact::known)
                .and_then(|r| r["zones"][&z].as_object())
                .into_iter()
                .flatten()
                .filter(|(_, s)| *s == "error")
                .map(|(n, _)| n.clone())
                .collect();
            if !broken.is_empty() && self.kind == Kind::Vnet {
                plan.warnings.push(format!(
                    "zone {z} is in error on {} already, so it is not waited for; see `pvesh get /nodes/{}/sdn/zones/{z}/content`",
                    list(&broken),
                    broken[0]
                ));
            } else if somewhere {
                out.push(z);
            }
        }
        Ok(out)
    }

    fn permitted(&self, look: &Look<'_>, plan: &Plan) -> Result<(), Stop> {
        for s in &plan.steps {
            pve_write::permitted(look, &Map::new(), &s.request, &self.what)?;
        }
        Ok(())
    }
}

fn create_request(kind: Kind, id: &str, values: &Values) -> Request {
    let mut r = Request::new("POST", kind.path(None)).param(kind.word(), id);
    for (k, v) in values {
        r = r.param(k, json_of(kind, k, v));
    }
    r
}

/// A PUT from `before` to `after`, and what it changes in words.
fn update_request(kind: Kind, id: &str, before: &Values, after: &Values) -> (Request, Vec<String>) {
    let mut r = Request::new("PUT", kind.path(Some(id)));
    let mut words = Vec::new();
    for (k, v) in after {
        let old = before.get(k);
        if old != Some(v) {
            r = r.param(k, json_of(kind, k, v));
            words.push(match old {
                Some(o) => format!("{k} from {o} to {v}"),
                None => format!("{k} {v}"),
            });
        }
    }
    let gone: Vec<&str> = before
        .keys()
        .filter(|k| !after.contains_key(*k))
        .map(String::as_str)
        .collect();
    if !gone.is_empty() {
        words.push(format!("without {}", gone.join(", ")));
        r = r.param("delete", gone.join(","));
    }
    (r, words)
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
