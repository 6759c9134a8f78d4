//! Lock, writes, apply: what one task does, as steps.

use super::{
    Allow, Kind, Object, Values, entry, json_of, known_list, object, objects, online_nodes,
};
use crate::look::{Look, Stop};
use crate::pve_common::list;
use crate::pve_write;
use plan::{Arg, Await, Effect, Fact, Plan, Refusal, Request, Step, Tolerance};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

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
        json!({"entries": all.values().collect::<Vec<_>>()})
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
        // Of the whole file, so only the first request can carry it; creations and removals take none.
        let updates = self
            .writes
            .first()
            .is_some_and(|w| w.before.is_some() && w.after.is_some());
        let digest = match updates {
            true => look
                .aux(
                    &PveKey::SdnDigest(self.kind.plural().to_owned()),
                    "whether somebody else changes the same",
                )?
                .and_then(Fact::known),
            false => None,
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
            let mut step = self.write_step(w, digest.filter(|_| n == 0), token.as_ref());
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
