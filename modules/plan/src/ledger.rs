//! What earlier tasks of the same check run have planned.

use crate::{Fact, Key};
use std::collections::BTreeMap;

/// A store of planned facts, one per object. It never holds a secret.
pub trait Ledger {
    /// The planned fact of that key, if an earlier task planned one.
    fn get(&self, key: &Key) -> Option<Fact>;
    /// All planned facts whose key starts with that prefix.
    fn starting_with(&self, prefix: &str) -> Vec<(Key, Fact)>;
    /// Stores a planned fact.
    fn put(&mut self, key: &Key, fact: &Fact);
    /// Forgets a planned fact: the real world has moved on.
    fn forget(&mut self, key: &Key);
    /// Keeps others out of these objects from now until the ledger is dropped: from read to store.
    fn hold(&mut self, keys: &[Key]);
    /// Anything that made the ledger less than whole (damaged, unwritable): then each task is truthful on its own only.
    fn warnings(&self) -> Vec<String>;
}

/// A ledger for one process: tests, and runs without a ledger folder.
#[derive(Clone, Debug, Default)]
pub struct MemoryLedger(BTreeMap<Key, Fact>);

impl Ledger for MemoryLedger {
    fn get(&self, key: &Key) -> Option<Fact> {
        self.0.get(key).cloned()
    }
    fn starting_with(&self, prefix: &str) -> Vec<(Key, Fact)> {
        self.0
            .iter()
            .filter(|(k, _)| k.as_str().starts_with(prefix))
            .map(|(k, f)| (k.clone(), f.clone()))
            .collect()
    }
    fn put(&mut self, key: &Key, fact: &Fact) {
        self.0.insert(key.clone(), fact.clone());
    }
    fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
    fn hold(&mut self, _keys: &[Key]) {}
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
