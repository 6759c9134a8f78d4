//! One function for `needs`, `settle` and `plan`: it thinks with the facts that are there and names those that are not.
//!
//! A planner that lists its needs apart from its planning must decide everything twice. Here it decides once: [`Look`] hands out
//! facts, and a fact that was not read yet ends the thought with [`Stop::Missing`]; the pipeline reads it and asks again.

use plan::{Fact, Facts, Key, Plan, Refusal, Wait};
use std::cell::RefCell;

/// Why a thought ended without a plan.
#[derive(Debug)]
pub enum Stop {
    /// Facts must be read first; [`Look`] knows which.
    Missing,
    /// Something must end first.
    Wait(Box<Wait>),
    /// It will not be done.
    Refused(Box<Refusal>),
}

impl From<Refusal> for Stop {
    fn from(r: Refusal) -> Self {
        Stop::Refused(Box::new(r))
    }
}

impl From<Wait> for Stop {
    fn from(w: Wait) -> Self {
        Stop::Wait(Box::new(w))
    }
}

/// The facts of a run, with a note of what was asked for in vain.
pub struct Look<'a> {
    facts: &'a Facts,
    missing: RefCell<Vec<Key>>,
    unverified: RefCell<Vec<String>>,
}

impl<'a> Look<'a> {
    /// Looks at these facts.
    pub fn new(facts: &'a Facts) -> Self {
        Look {
            facts,
            missing: RefCell::default(),
            unverified: RefCell::default(),
        }
    }

    /// All facts that were read so far.
    pub fn facts(&self) -> &'a Facts {
        self.facts
    }

    /// The fact of that key.
    ///
    /// # Errors
    /// [`Stop::Missing`] if it was not read yet.
    pub fn fact<K: Clone + Into<Key>>(&self, key: &K) -> Result<&'a Fact, Stop> {
        let key: Key = key.clone().into();
        match self.facts.get(&key) {
            Some(f) => Ok(f),
            None => {
                self.missing.borrow_mut().push(key);
                Err(Stop::Missing)
            }
        }
    }

    /// The value of a key if it was read already; it is not asked for.
    pub fn seen(&self, key: &Key) -> Option<&'a serde_json::Value> {
        self.facts.known(key)
    }

    /// Asks for several keys in one round.
    ///
    /// # Errors
    /// [`Stop::Missing`] if one was not read yet.
    pub fn want<'k, K: Clone + Into<Key> + 'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
    ) -> Result<(), Stop> {
        let mut all = Ok(());
        for k in keys {
            if let Err(e) = self.fact(k) {
                all = Err(e);
            }
        }
        all
    }

    /// An auxiliary fact: `None` if the server does not say, which is noted as unverified under `what` and refuses nothing.
    ///
    /// # Errors
    /// [`Stop::Missing`] if it was not read yet.
    pub fn aux<K: Clone + Into<Key>>(&self, key: &K, what: &str) -> Result<Option<&'a Fact>, Stop> {
        match self.fact(key)? {
            Fact::Unreadable(why) => {
                self.note(format!("{what}: {why}"));
                Ok(None)
            }
            f => Ok(Some(f)),
        }
    }

    /// Notes something that is not promised because it could not be looked at.
    pub fn note(&self, what: String) {
        let mut u = self.unverified.borrow_mut();
        if !u.contains(&what) {
            u.push(what);
        }
    }

    /// What was noted so far.
    pub fn notes(&self) -> Vec<String> {
        self.unverified.borrow().clone()
    }
}

/// A planner that thinks with a [`Look`].
pub trait Think {
    /// The plan, or what stands in its way.
    ///
    /// # Errors
    /// A [`Stop`].
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop>;
}

/// [`plan::Module::needs`] of a thinker.
pub fn needs(t: &impl Think, facts: &Facts) -> Vec<Key> {
    let look = Look::new(facts);
    match t.think(&look) {
        Err(Stop::Missing) => look.missing.into_inner(),
        _ => Vec::new(),
    }
}

/// [`plan::Module::settle`] of a thinker.
///
/// # Errors
/// Never: what is refused is refused by [`plan`], which the pipeline calls next.
pub fn settle(t: &impl Think, facts: &Facts) -> Result<Option<Wait>, Refusal> {
    match t.think(&Look::new(facts)) {
        Err(Stop::Wait(w)) => Ok(Some(*w)),
        _ => Ok(None),
    }
}

/// [`plan::Module::plan`] of a thinker.
///
/// # Errors
/// The refusal.
pub fn plan(t: &impl Think, facts: &Facts) -> Result<Plan, Refusal> {
    let look = Look::new(facts);
    let internal = |msg: String| Refusal::kind(plan::ErrorKind::Internal, msg);
    match t.think(&look) {
        Ok(mut p) => {
            p.unverified.extend(look.unverified.into_inner());
            Ok(p)
        }
        Err(Stop::Refused(r)) => Err(*r),
        Err(Stop::Wait(w)) => Err(internal(format!("{} was not waited for", w.what))),
        Err(Stop::Missing) => Err(internal(format!(
            "facts were not read: {:?}",
            look.missing.into_inner()
        ))),
    }
}
