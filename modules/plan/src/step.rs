//! Steps: the exact requests of a plan, with their reasons and their effects.

use crate::{Fact, Facts, Key, MASKED};
use serde_json::{Map, Value, json};

/// One parameter of a request: what is sent, and how plans and diffs show it.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Sent and shown as it is.
    Lit(Value),
    /// Sent, never shown.
    Secret(String),
    /// Known while planning, but shown as a symbol, since a second run would see another value (a digest).
    Shown {
        /// The symbol, such as `<digest as read>`.
        symbol: String,
        /// What is sent.
        value: Value,
    },
    /// Taken from the answer of an earlier step of the same plan (0-based); shown as `<answer of step N>` or the given symbol.
    Answer {
        /// Which step's answer.
        step: usize,
        /// The symbol, such as `<lock token>`.
        symbol: String,
    },
}

impl Arg {
    /// How plans show it.
    pub fn show(&self) -> Value {
        match self {
            Arg::Lit(v) => v.clone(),
            Arg::Secret(_) => json!(MASKED),
            Arg::Shown { symbol, .. } | Arg::Answer { symbol, .. } => json!(symbol),
        }
    }

    /// What is sent, given the answers of the steps before. `None` if the step it refers to gave no answer.
    pub fn resolve(&self, answers: &[Value]) -> Option<Value> {
        match self {
            Arg::Lit(v) => Some(v.clone()),
            Arg::Secret(s) => Some(json!(s)),
            Arg::Shown { value, .. } => Some(value.clone()),
            Arg::Answer { step, .. } => answers.get(*step).cloned(),
        }
    }
}

/// The request itself.
///
/// For Proxmox VE: `verb` is the HTTP method, `path` the API path without `/api2/json`. For vSphere: `verb` is the SOAP method,
/// `path` is `Type:moid` of the object. For files: `verb` is `WRITE` or `REMOVE`, `path` the absolute path.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Method.
    pub verb: String,
    /// Object.
    pub path: String,
    /// Parameters in the order in which they are sent.
    pub params: Vec<(String, Arg)>,
}

impl Request {
    /// A request without parameters.
    pub fn new(verb: &str, path: impl Into<String>) -> Self {
        Request {
            verb: verb.to_owned(),
            path: path.into(),
            params: Vec::new(),
        }
    }

    /// Adds a parameter.
    pub fn arg(mut self, name: &str, arg: Arg) -> Self {
        self.params.push((name.to_owned(), arg));
        self
    }

    /// Adds a literal parameter.
    pub fn param(self, name: &str, value: impl Into<Value>) -> Self {
        self.arg(name, Arg::Lit(value.into()))
    }
}

/// What the world waits for after the answer.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Await {
    /// The answer is the end of it.
    #[default]
    Answer,
    /// The answer names a task (a UPID, a Task moid): wait for its end, at most so many seconds; its failure is the step's failure.
    Task {
        /// Seconds.
        timeout_s: u64,
    },
    /// The answer names a task; do not wait for it.
    NoWait,
    /// The answer names a task or nothing; afterwards poll a fact until it is as wanted, at most so many seconds.
    Until {
        /// What is polled.
        key: Key,
        /// JSON pointer into the fact, and the value that ends the wait.
        pointer: String,
        /// The value that ends the wait; `Null` with an empty pointer means: the object is gone.
        equals: Value,
        /// Seconds.
        timeout_s: u64,
    },
}

/// A condition that is only decided at execution. The list is closed; anything else is planned.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// Send this step only if the fact has not come to be so within the given time (a guest that does not power off).
    UnlessWithin {
        /// What is polled.
        key: Key,
        /// JSON pointer into the fact.
        pointer: String,
        /// The value that makes the step unnecessary.
        equals: Value,
        /// In words, such as `powered off`.
        reached: String,
        /// Seconds.
        seconds: u64,
    },
}

/// What a step does to the facts, as the planner foresees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The object is now this.
    Put(Key, Value),
    /// The object is gone.
    Gone(Key),
}

impl Effect {
    /// The key it is about.
    pub fn key(&self) -> &Key {
        match self {
            Effect::Put(k, _) | Effect::Gone(k) => k,
        }
    }

    /// The fact it leaves behind.
    pub fn fact(&self) -> Fact {
        match self {
            Effect::Put(_, v) => Fact::Known(v.clone()),
            Effect::Gone(_) => Fact::Absent,
        }
    }

    /// Applies it.
    pub fn apply(&self, facts: &mut Facts) {
        facts.put(self.key().clone(), self.fact());
    }
}

/// Which error answer of the server is no failure of this step.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Tolerance {
    /// None.
    #[default]
    Strict,
    /// An answer whose every message starts with this text means that the change was stored all the same
    /// (`hotplug problem - `; source: docs/pve-running.md, rule 2).
    StoredAllTheSame(&'static str),
    /// An answer that contains this text means that somebody took what we planned with (an id, a digest): plan anew.
    Replan(&'static str),
    /// An answer that contains this text means that the end was reached already.
    AlreadyDone(&'static str),
    /// An answer that contains this text means that somebody is in the way: the same request is sent again, with growing pauses,
    /// for so many seconds. Only for answers that say that nothing was done.
    Busy {
        /// Part of the answer.
        contains: &'static str,
        /// Seconds.
        timeout_s: u64,
        /// What people can do when the time is up.
        way_out: &'static str,
    },
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is sent.
    pub request: Request,
    /// Why, in words for people.
    pub why: String,
    /// Decided at execution.
    pub guard: Option<Guard>,
    /// Waited for afterwards.
    pub wait: Await,
    /// What it does to the facts.
    pub effects: Vec<Effect>,
    /// Sent when a later step fails.
    pub undo: Option<Request>,
    /// Data can be lost by it.
    pub destructive: bool,
    /// Somebody's work is interrupted by it.
    pub disruptive: bool,
    /// Error answers that are none. Several may be given.
    pub tolerance: Vec<Tolerance>,
    /// Once its request is accepted, what was done before is final: a bad end of the task that it started undoes nothing.
    pub commits: bool,
}

impl Step {
    /// A step with that request and reason, and nothing else.
    pub fn new(request: Request, why: impl Into<String>) -> Self {
        Step {
            request,
            why: why.into(),
            guard: None,
            wait: Await::Answer,
            effects: Vec::new(),
            undo: None,
            destructive: false,
            disruptive: false,
            tolerance: Vec::new(),
            commits: false,
        }
    }

    /// Adds an effect.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Sets what is waited for.
    pub fn wait(mut self, wait: Await) -> Self {
        self.wait = wait;
        self
    }

    /// Sets what is sent when a later step fails.
    pub fn undo(mut self, undo: Request) -> Self {
        self.undo = Some(undo);
        self
    }

    /// Sets the guard.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Marks it: data can be lost by it.
    pub fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }

    /// Marks it: somebody's work is interrupted by it.
    pub fn disruptive(mut self) -> Self {
        self.disruptive = true;
        self
    }

    /// Marks it: once it is accepted, what was done before is final.
    pub fn commits(mut self) -> Self {
        self.commits = true;
        self
    }

    /// Adds a tolerated answer.
    pub fn tolerate(mut self, tolerance: Tolerance) -> Self {
        self.tolerance.push(tolerance);
        self
    }

    /// The step as plans show it: equal in both worlds, free of secrets.
    pub fn show(&self) -> Value {
        let mut o = Map::new();
        o.insert(
            "request".into(),
            json!(format!("{} {}", self.request.verb, self.request.path)),
        );
        let params: Map<String, Value> = self
            .request
            .params
            .iter()
            .map(|(k, a)| (k.clone(), a.show()))
            .collect();
        o.insert("params".into(), Value::Object(params));
        o.insert("why".into(), json!(self.why));
        if let Some(Guard::UnlessWithin {
            reached, seconds, ..
        }) = &self.guard
        {
            o.insert(
                "only_if".into(),
                json!(format!("not {reached} within {seconds} s")),
            );
        }
        for (name, on) in [
            ("destructive", self.destructive),
            ("disruptive", self.disruptive),
        ] {
            if on {
                o.insert(name.into(), json!(true));
            }
        }
        Value::Object(o)
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// What could not be looked at, and is therefore not promised.
    pub unverified: Vec<String>,
    /// For people.
    pub warnings: Vec<String>,
    /// Differences that this module does not mend, each naming what does.
    pub drift: Vec<Value>,
}

impl Plan {
    /// Nothing to do.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a step and returns its index, for [`Arg::Answer`].
    pub fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// The facts after all steps, as the effects foresee them.
    pub fn predict(&self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        for e in self.steps.iter().flat_map(|s| &s.effects) {
            e.apply(&mut facts);
        }
        facts
    }
}
