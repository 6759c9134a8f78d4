//! The world of check mode.

use crate::{Effect, Fact, Failure, Key, Ledger, Request, SERVER, Sent, Step, Wait, World};
use serde_json::{Value, json};
use std::rc::Rc;

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
        self.share(key).map(Rc::unwrap_or_clone)
    }

    fn share(&mut self, key: &Key) -> Result<Rc<Fact>, Failure> {
        if let Some(f) = self.ledger.get(key) {
            return Ok(Rc::new(f));
        }
        let base = self.live.share(key)?;
        let laid = (self.overlay)(key, Fact::clone(&base), self.ledger);
        // Mostly nothing is planned of it: then the world's own is held, not a second one.
        Ok(if laid == *base { base } else { Rc::new(laid) })
    }

    fn expect(&mut self, keys: &[Key]) {
        let real: Vec<Key> = keys
            .iter()
            .filter(|k| self.ledger.get(k).is_none())
            .cloned()
            .collect();
        self.live.expect(&real);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLedger;

    struct Told(Vec<Key>);

    impl World for Told {
        fn expect(&mut self, keys: &[Key]) {
            self.0.extend_from_slice(keys);
        }
        fn read(&mut self, _key: &Key) -> Result<Fact, Failure> {
            Ok(Fact::Absent)
        }
        fn settle(&mut self, _wait: &Wait) -> Result<(), Failure> {
            Ok(())
        }
        fn send(&mut self, _step: &Step, _answers: &[Value]) -> Result<Sent, Failure> {
            Ok(Sent::answer(Value::Null))
        }
        fn undo(&mut self, _request: &Request, _answers: &[Value]) -> Result<(), Failure> {
            Ok(())
        }
        fn forget(&mut self, _keys: &[Key]) {}
        fn pause(&mut self, _seconds: f64) {}
    }

    /// What the ledger answers is not fetched from the server.
    #[test]
    fn only_what_is_read_from_the_live_world_is_expected_of_it() {
        let [planned, real] = ["planned", "real"].map(|k| Key::from_parts(&[k]));
        let mut ledger = MemoryLedger::default();
        ledger.put(&planned, &Fact::Known(json!(1)));
        let mut live = Told(vec![]);
        let mut dry = Dry::new(&mut live, &mut ledger, |_, f, _| f);
        dry.expect(&[planned, real.clone()]);
        assert_eq!(live.0, [real]);
    }
}
