//! PropertyCollector's methods: pages with tokens, filters, waiting for updates.
use super::Reply;
use super::collector;
use super::fault::Fault;
use super::methods::Call;
use super::model::{Collector, State};
use super::xml::{mo, mo_id};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

impl Call<'_> {
    pub(super) fn collector(&self, mut st: MutexGuard<'_, State>) -> Result<Reply, Fault> {
        let a = self.args;
        let state = &mut *st;
        match self.method {
            "RetrieveProperties" => Ok(Reply::Many(
                "ObjectContent",
                collector::retrieve(state, &self.ctx(state), &a["specSet"])?,
            )),
            "RetrievePropertiesEx" => {
                let page = match a["options"]["maxObjects"].as_i64() {
                    // Source: docs/vsphere-facts.md section 2.
                    Some(n) if n <= 0 => return Err(Fault::invalid_argument("options.maxObjects")),
                    Some(n) => usize::try_from(n).unwrap_or(usize::MAX).min(state.cfg.page),
                    None => state.cfg.page,
                };
                let all = collector::retrieve(state, &self.ctx(state), &a["specSet"])?;
                self.page(state, all, page)
            }
            "ContinueRetrievePropertiesEx" => {
                let token = a["token"].as_str().unwrap_or("").to_string();
                let key = format!("{}/{token}", self.id);
                let (rest, page) = self
                    .session(state)?
                    .tokens
                    .remove(&key)
                    .ok_or_else(|| Fault::invalid_argument("token"))?;
                self.page(state, rest, page)
            }
            "CancelRetrievePropertiesEx" => {
                let key = format!("{}/{}", self.id, a["token"].as_str().unwrap_or(""));
                self.session(state)?
                    .tokens
                    .remove(&key)
                    .map(|_| Reply::Void)
                    .ok_or_else(|| Fault::invalid_argument("token"))
            }
            "CreatePropertyCollector" => {
                let key = self.session(state)?.key.clone();
                let id = format!("session[{key}]{}", state.new_id(""));
                self.session(state)?
                    .collectors
                    .insert(id.clone(), Collector::default());
                Ok(Reply::One(
                    "PropertyCollector",
                    mo("PropertyCollector", &id),
                ))
            }
            "DestroyPropertyCollector" => {
                let id = self.id.to_string();
                let gone = self
                    .session(state)?
                    .collectors
                    .remove(&id)
                    .unwrap_or_default();
                for (f, _) in gone.filters {
                    self.session(state)?.owned.retain(|o| *o != f);
                    state.objs.remove(&f);
                }
                Ok(Reply::Void)
            }
            "CreateFilter" => {
                // Bad paths are told at once.
                collector::snapshot(state, &self.ctx(state), &a["spec"])?;
                let reply = self.own(
                    state,
                    "PropertyFilter",
                    "session",
                    json!({ "spec": a["spec"], "partialUpdates": a["partialUpdates"] }),
                )?;
                if let Reply::One(_, v) = &reply {
                    let (fid, spec) = (mo_id(v).unwrap_or("").to_string(), a["spec"].clone());
                    if let Some(c) = self.session(state)?.collectors.get_mut(self.id) {
                        c.filters.push((fid, spec));
                    }
                }
                Ok(reply)
            }
            "WaitForUpdatesEx" | "WaitForUpdates" | "CheckForUpdates" => self.wait(st),
            "CancelWaitForUpdates" => Ok(Reply::Void),
            "Fetch" => self.fetch(state),
            _ => Err(self.unknown()),
        }
    }

    fn page(&self, st: &mut State, mut all: Vec<Value>, page: usize) -> Result<Reply, Fault> {
        if all.is_empty() {
            // Source: docs/vsphere-facts.md section 2: the whole result may be absent.
            return Ok(Reply::Void);
        }
        let rest = if all.len() > page {
            all.split_off(page)
        } else {
            vec![]
        };
        let mut out = collector::object([("objects", Value::Array(all))]);
        if !rest.is_empty() {
            let session = self.session(st)?;
            let n = session.calls;
            // An opaque token; "0" happens. Source: docs/vsphere-facts.md section 2.
            let token = (0..)
                .map(|i| (if session.tokens.is_empty() { 0 } else { n } + i).to_string())
                .find(|t| !session.tokens.contains_key(&format!("{}/{t}", self.id)))
                .unwrap_or_default();
            session
                .tokens
                .insert(format!("{}/{token}", self.id), (rest, page));
            out["token"] = json!(token);
        }
        Ok(Reply::One("RetrieveResult", out))
    }

    fn wait(&self, mut st: MutexGuard<'_, State>) -> Result<Reply, Fault> {
        let a = self.args;
        let max = match a["options"]["maxWaitSeconds"].as_i64() {
            Some(n) if n < 0 => return Err(Fault::invalid_argument("options.maxWaitSeconds")),
            Some(n) => u64::try_from(n).unwrap_or(0),
            // Server policy may answer early with nothing. Source: docs/vsphere-facts.md section 2.
            None if self.method == "CheckForUpdates" => 0,
            None => 25,
        };
        let most = a["options"]["maxObjectUpdates"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(usize::MAX)
            .max(1);
        let until = Instant::now() + Duration::from_secs(max);
        let asked = a["version"].as_str().unwrap_or("").to_string();
        loop {
            let c = st
                .sessions
                .get(self.cookie)
                .ok_or_else(Fault::not_authenticated)?
                .collectors
                .get(self.id)
                .cloned()
                .ok_or_else(|| Fault::not_found("PropertyCollector", self.id))?;
            let known = if asked.is_empty() {
                BTreeMap::new()
            } else {
                let v: u64 = asked.parse().map_err(|_| {
                    Fault::new(
                        "InvalidCollectorVersion",
                        "The collector version is not valid.",
                        json!({}),
                    )
                })?;
                c.seen
                    .iter()
                    .find(|(n, _)| *n == v)
                    .map(|(_, s)| s.clone())
                    .ok_or_else(|| {
                        Fault::new(
                            "InvalidCollectorVersion",
                            "The collector version is not valid.",
                            json!({}),
                        )
                    })?
            };
            let (mut sets, mut next, mut count, mut truncated) =
                (vec![], known.clone(), 0usize, false);
            for (fid, spec) in &c.filters {
                let fresh = match collector::snapshot(&st, &self.ctx(&st), spec) {
                    // An object that is gone has left the filter.
                    Err(f) if f.ty() == "ManagedObjectNotFound" => Default::default(),
                    other => other?,
                };
                let old = known.get(fid).cloned().unwrap_or_default();
                let mut updates = collector::diff(&old, &fresh);
                if count + updates.len() > most {
                    truncated = true;
                    updates.truncate(most - count);
                }
                count += updates.len();
                let mut seen = old;
                for u in &updates {
                    let id = mo_id(&u["obj"]).unwrap_or("");
                    seen.retain(|(o, _), _| o != id);
                    seen.extend(
                        fresh
                            .iter()
                            .filter(|((o, _), _)| o == id)
                            .map(|(k, v)| (k.clone(), v.clone())),
                    );
                }
                next.insert(fid.clone(), seen);
                if !updates.is_empty() {
                    sets.push(json!({ "filter": mo("PropertyFilter", fid), "objectSet": updates }));
                }
            }
            if !sets.is_empty() || (asked.is_empty() && !c.filters.is_empty()) {
                let c = self
                    .session(&mut st)?
                    .collectors
                    .get_mut(self.id)
                    .ok_or_else(|| Fault::not_found("PropertyCollector", self.id))?;
                c.version += 1;
                let v = c.version;
                c.seen.push((v, next));
                if c.seen.len() > 3 {
                    c.seen.remove(0);
                }
                let mut out = json!({ "version": v.to_string(), "filterSet": sets });
                if truncated {
                    out["truncated"] = json!(true);
                }
                return Ok(Reply::One("UpdateSet", out));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Reply::Void);
            }
            let (guard, _) = self
                .inner
                .cond
                .wait_timeout(st, left.min(Duration::from_millis(500)))
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            st = guard;
            // Waiting is traffic: the session does not idle. Source: docs/vsphere-facts.md section 1.
            self.session(&mut st)?.last = Instant::now();
        }
    }
}
