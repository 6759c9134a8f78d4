//! The world that is real.

use crate::ahead::Answer;
use crate::connection::Connection;
use crate::error::{ApiError, Refused};
use crate::session::Session;
use crate::wire;
use once_cell::unsync::OnceCell;
use plan::{ErrorKind, Fact, Failure, Key, Request, Sent, Step, Wait, World};
use pve::keys::PveKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

struct Remembered {
    fact: Rc<Fact>,
    /// The requests it was made of.
    gets: BTreeSet<String>,
}

/// A Proxmox VE cluster. Nothing is sent before the first read.
pub struct Live {
    pub(crate) connection: Connection,
    session: OnceCell<Session>,
    facts: BTreeMap<Key, Remembered>,
    /// Answers by path; a refusal is an answer too.
    gets: BTreeMap<String, Result<Rc<Value>, Refused>>,
    /// Answers that no read has asked for yet.
    pub(crate) ahead: BTreeMap<String, Answer>,
    /// The requests behind the fact that is being read.
    using: BTreeSet<String>,
    /// Where guests were last seen; tried first, never believed.
    pub(crate) places: BTreeMap<u32, String>,
}

impl Live {
    /// A world behind that connection, which is opened at the first read.
    pub fn new(connection: Connection) -> Self {
        Live {
            connection,
            session: OnceCell::new(),
            facts: BTreeMap::new(),
            gets: BTreeMap::new(),
            ahead: BTreeMap::new(),
            using: BTreeSet::new(),
            places: BTreeMap::new(),
        }
    }

    pub(crate) fn session(&self) -> Result<&Session, ApiError> {
        self.session
            .get_or_try_init(|| Session::open(&self.connection))
    }

    /// The session, if there is one already.
    pub(crate) fn signed_in(&self) -> Option<&Session> {
        self.session.get()
    }

    /// What was answered to that path and is remembered.
    pub(crate) fn answered(&self, path: &str) -> Option<Result<&Value, &Refused>> {
        self.gets
            .get(path)
            .map(|r| r.as_ref().map(|answer| answer.as_ref()))
    }

    /// Whether that fact needs no request.
    pub(crate) fn remembers(&self, key: &PveKey) -> bool {
        self.facts.contains_key(&key.key())
    }

    /// For messages.
    pub(crate) fn who(&self) -> String {
        self.connection
            .identity()
            .map_or_else(|_| "nobody".to_owned(), |i| i.describe())
    }

    /// A read, remembered under its path. The path is encoded by the caller.
    pub(crate) fn get(&mut self, path: &str) -> Result<Rc<Value>, ApiError> {
        if let Some(Ok(answer)) = self.gets.get(path) {
            self.using.insert(path.to_owned());
            return Ok(Rc::clone(answer));
        }
        let answer = Rc::new(self.get_for_one(path)?);
        self.gets.insert(path.to_owned(), Ok(Rc::clone(&answer)));
        Ok(answer)
    }

    /// A read of which nothing but the present fact is made. The fact is remembered, so its answer need not be; a refusal is.
    pub(crate) fn get_for_one(&mut self, path: &str) -> Result<Value, ApiError> {
        self.using.insert(path.to_owned());
        match self.gets.get(path) {
            Some(Ok(answer)) => return Ok(Value::clone(answer)),
            Some(Err(r)) => return Err(ApiError::Refused(r.clone())),
            None => {}
        }
        let result = match self.ahead.remove(path) {
            Some(answer) => answer.map_err(ApiError::Refused),
            None => self.session()?.get(path),
        };
        if let Err(ApiError::Refused(r)) = &result
            && r.status != 401
        {
            self.gets.insert(path.to_owned(), Err(r.clone()));
        }
        result
    }

    /// Drops one remembered answer, to ask again within the same read.
    pub(crate) fn drop_get(&mut self, path: &str) {
        self.gets.remove(path);
        self.ahead.remove(path);
    }

    /// Drops all remembered answers: something was written. Facts stay until they are forgotten.
    pub(crate) fn drop_gets(&mut self) {
        self.gets.clear();
        self.ahead.clear();
    }

    /// Reads a key anew.
    pub(crate) fn fresh(&mut self, key: &Key) -> Result<Fact, Failure> {
        self.forget(std::slice::from_ref(key));
        self.read(key)
    }

    /// The fact of a key, as errors of this crate.
    pub(crate) fn fact(&mut self, key: &PveKey) -> Result<Rc<Fact>, ApiError> {
        let k = key.key();
        if let Some(r) = self.facts.get(&k) {
            self.using.extend(r.gets.iter().cloned());
            return Ok(Rc::clone(&r.fact));
        }
        let outer = std::mem::take(&mut self.using);
        let result = match self.observe(key) {
            Err(ApiError::Refused(r)) if r.status == 403 => {
                let text = r.text();
                let reason = crate::error::missing_privilege(&text, &self.who());
                Ok(Fact::Unreadable(reason.unwrap_or(text)))
            }
            other => other,
        };
        let gets = std::mem::replace(&mut self.using, outer);
        self.using.extend(gets.iter().cloned());
        let fact = Rc::new(result?);
        self.facts.insert(
            k,
            Remembered {
                fact: Rc::clone(&fact),
                gets,
            },
        );
        Ok(fact)
    }
}

impl World for Live {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        self.share(key).map(Rc::unwrap_or_clone)
    }

    fn share(&mut self, key: &Key) -> Result<Rc<Fact>, Failure> {
        let Some(k) = PveKey::parse(key) else {
            return Err(Failure::new(
                ErrorKind::Internal,
                format!("unable to read {key}: it is not a fact of Proxmox VE; please report this"),
            ));
        };
        let fact = self.fact(&k);
        self.using.clear();
        fact.map_err(|e| e.failure(&format!("read {}", crate::read::describe(&k)), &self.who()))
    }

    fn expect(&mut self, keys: &[Key]) {
        let keys: Vec<PveKey> = keys.iter().filter_map(PveKey::parse).collect();
        self.fetch_ahead(&keys);
    }

    fn settle(&mut self, wait: &Wait) -> Result<(), Failure> {
        self.settle_wait(wait)
    }

    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure> {
        self.send_step(step, answers)
    }

    fn undo(&mut self, request: &Request, answers: &[Value]) -> Result<(), Failure> {
        self.send_undo(request, answers)
    }

    fn forget(&mut self, keys: &[Key]) {
        // It belongs to no fact yet, so nobody knows whether it belongs to one of these.
        self.ahead.clear();
        for k in keys {
            if let Some(r) = self.facts.remove(k) {
                for g in r.gets {
                    self.gets.remove(&g);
                }
            }
        }
    }

    fn pause(&mut self, seconds: f64) {
        if seconds > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
    }
}

/// One segment of a path.
pub(crate) fn seg(text: &str) -> String {
    wire::encode(text)
}
