//! Two small wrappers around a ledger: one for tasks that really run inside a check run, one that leaves no trace.

use plan::{Fact, Failure, Key, Ledger, MemoryLedger, Request, Sent, Step, Wait, World};
use serde_json::Value;
use std::rc::Rc;

/// A live world that deletes what the ledger says of the objects it changes: a task with `check_mode: false` in a check run makes
/// the plans for these objects obsolete.
pub struct Touched<'a> {
    live: &'a mut dyn World,
    ledger: &'a mut dyn Ledger,
}

impl<'a> Touched<'a> {
    /// Wraps a live world.
    pub fn new(live: &'a mut dyn World, ledger: &'a mut dyn Ledger) -> Self {
        Touched { live, ledger }
    }
}

impl World for Touched<'_> {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        self.live.read(key)
    }
    fn share(&mut self, key: &Key) -> Result<Rc<Fact>, Failure> {
        self.live.share(key)
    }
    fn expect(&mut self, keys: &[Key]) {
        self.live.expect(keys);
    }
    fn settle(&mut self, wait: &Wait) -> Result<(), Failure> {
        self.live.settle(wait)
    }
    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure> {
        for e in &step.effects {
            self.ledger.forget(e.key());
        }
        self.live.send(step, answers)
    }
    fn undo(&mut self, request: &Request, answers: &[Value]) -> Result<(), Failure> {
        self.live.undo(request, answers)
    }
    fn forget(&mut self, keys: &[Key]) {
        self.live.forget(keys);
    }
    fn pause(&mut self, seconds: f64) {
        self.live.pause(seconds);
    }
}

/// Reads through to a ledger, writes to memory.
pub struct Scratch<'a> {
    under: &'a mut dyn Ledger,
    own: MemoryLedger,
    gone: Vec<Key>,
}

impl<'a> Scratch<'a> {
    /// Over that ledger.
    pub fn over(under: &'a mut dyn Ledger) -> Self {
        Scratch {
            under,
            own: MemoryLedger::default(),
            gone: vec![],
        }
    }
}

impl Ledger for Scratch<'_> {
    fn get(&self, key: &Key) -> Option<Fact> {
        self.own.get(key).or_else(|| {
            (!self.gone.contains(key))
                .then(|| self.under.get(key))
                .flatten()
        })
    }
    fn starting_with(&self, prefix: &str) -> Vec<(Key, Fact)> {
        let mut all = self.own.starting_with(prefix);
        for (k, f) in self.under.starting_with(prefix) {
            if !self.gone.contains(&k) && all.iter().all(|(o, _)| *o != k) {
                all.push((k, f));
            }
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
    fn put(&mut self, key: &Key, fact: &Fact) {
        self.own.put(key, fact);
    }
    fn forget(&mut self, key: &Key) {
        self.own.forget(key);
        self.gone.push(key.clone());
    }
    fn hold(&mut self, keys: &[Key]) {
        self.under.hold(keys);
    }
    fn warnings(&self) -> Vec<String> {
        self.under.warnings()
    }
}
