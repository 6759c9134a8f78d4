//! The world of check mode.

use crate::{Effect, Fact, Failure, Key, Ledger, Request, SERVER, Sent, Step, Wait, World};
use serde_json::{Value, json};

/// Merges planned entries into a list that was read (a planned vnet is a bridge on every node). The domain crates supply it.
pub type Overlay = fn(&Key, Fact, &dyn Ledger) -> Fact;

/// Reads through what earlier tasks of this run planned, sends nothing, and believes every step's effects.
pub struct Dry<'a> {
    /// Only ever read from.
    live: &'a mut dyn World,
    ledger: &'a mut dyn Ledger,
    overlay: Overlay,
}

impl<'a> Dry<'a> {
    /// A dry world over a live one.
    pub fn new(live: &'a mut dyn World, ledger: &'a mut dyn Ledger, overlay: Overlay) -> Self {
        Dry {
            live,
            ledger,
            overlay,
        }
    }

    fn assume(&mut self, effects: &[Effect]) {
        for e in effects {
            self.ledger.put(e.key(), &e.fact());
        }
    }
}

impl World for Dry<'_> {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        if let Some(f) = self.ledger.get(key) {
            return Ok(f);
        }
        let base = self.live.read(key)?;
        Ok((self.overlay)(key, base, self.ledger))
    }

    fn settle(&mut self, wait: &Wait) -> Result<(), Failure> {
        self.assume(&wait.assume);
        Ok(())
    }

    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure> {
        self.assume(&step.effects);
        Ok(Sent::answer(json!(format!(
            "<answer of step {}>",
            answers.len() + 1
        ))))
    }

    fn undo(&mut self, _request: &Request, _answers: &[Value]) -> Result<(), Failure> {
        debug_assert!(
            false,
            "nothing fails in Dry, so nothing is undone: {SERVER}"
        );
        Ok(())
    }

    fn forget(&mut self, _keys: &[Key]) {}

    fn pause(&mut self, _seconds: f64) {}
}
