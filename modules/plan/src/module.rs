//! The two traits of the pipeline: what a module says, and what a world does.

use crate::{Effect, ErrorKind, Fact, Facts, Failure, Key, Plan, Step};
use serde_json::{Map, Value};
use std::rc::Rc;

/// A refusal by our own planner: the same in both worlds.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// `refused` unless it is something more specific (`not_found`, `permission`, `invalid_args`).
    pub kind: ErrorKind,
    /// `unable to <verb> <what> <id>: <cause>; <what to do>`.
    pub msg: String,
    /// Keys for the result, such as `upid`.
    pub extra: Map<String, Value>,
}

impl Refusal {
    /// A refusal of kind `refused`.
    pub fn new(msg: impl Into<String>) -> Self {
        Refusal {
            kind: ErrorKind::Refused,
            msg: msg.into(),
            extra: Map::new(),
        }
    }

    /// A refusal of another kind.
    pub fn kind(kind: ErrorKind, msg: impl Into<String>) -> Self {
        Refusal {
            kind,
            ..Refusal::new(msg)
        }
    }

    /// Adds a key for the result.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }
}

/// What must end before planning makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// In words, such as `task UPID:... of guest 100` or `lock backup of guest 100`.
    pub what: String,
    /// Its end is part of what was asked for: it is shown in the plan, and the run counts as changed.
    pub joins: bool,
    /// What is polled: a task, or a lock. The wait ends when the fact at `pointer` equals `equals`, or is `Absent` if `equals` is null.
    pub key: Key,
    /// JSON pointer into the fact.
    pub pointer: String,
    /// The value that ends the wait.
    pub equals: Value,
    /// Seconds.
    pub timeout_s: u64,
    /// What `Dry` assumes to be so afterwards.
    pub assume: Vec<Effect>,
    /// Keys whose facts are stale after the wait, so that they are read again.
    pub stale: Vec<Key>,
}

/// One Ansible module's pure part, made from its coerced arguments.
pub trait Module {
    /// Facts that are still missing; called again until it names nothing new.
    fn needs(&self, facts: &Facts) -> Vec<Key>;

    /// Objects whose planned state this task may replace, as far as the arguments alone tell. In check mode they are held in the
    /// ledger from read to store, so that two forks do not plan the same object (or claim the same id) at once.
    fn holds(&self) -> Vec<Key> {
        Vec::new()
    }

    /// What must be waited for before planning, if anything.
    ///
    /// # Errors
    /// A refusal, for instance a lock that nothing explains.
    fn settle(&self, _facts: &Facts) -> Result<Option<Wait>, Refusal> {
        Ok(None)
    }

    /// The steps, or why not.
    ///
    /// # Errors
    /// A refusal with our own message, the same in both worlds.
    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal>;

    /// Keys that are read again after execution: what the diff and the result show. Called with the facts before and, for an id
    /// that was only chosen at execution, with the answers of the steps (empty in `Dry`).
    fn subject(&self, facts: &Facts, answers: &[Value]) -> Vec<Key>;

    /// The diff's dictionary, from facts read before or after; free of secrets, with the server's own choices masked.
    fn view(&self, facts: &Facts) -> Value;

    /// The module's own result keys, in one shape whichever branch was taken.
    fn result(&self, outcome: &Outcome<'_>) -> Map<String, Value>;

    /// Header of the diff, such as `guest 100`.
    fn title(&self) -> String;
}

/// What [`Module::result`] is told.
pub struct Outcome<'a> {
    /// Facts before.
    pub before: &'a Facts,
    /// Facts after: read again in `Live`, predicted in `Dry`.
    pub after: &'a Facts,
    /// The plan that was carried out.
    pub plan: &'a Plan,
    /// Answers of its steps; symbols in `Dry`.
    pub answers: &'a [Value],
    /// Whether anything changed (or will).
    pub changed: bool,
    /// What was joined, in words.
    pub joined: &'a [String],
}

/// `Live` reads, waits, sends. [`Dry`](crate::Dry) reads through the ledger, assumes, predicts.
pub trait World {
    /// Reads one key.
    ///
    /// # Errors
    /// Only what makes the whole run impossible: unreachable, auth, a server error. A missing privilege is `Fact::Unreadable`.
    fn read(&mut self, key: &Key) -> Result<Fact, Failure>;

    /// The same, for the facts of a run: a world that remembers what it read shares it.
    ///
    /// # Errors
    /// Those of [`World::read`].
    fn share(&mut self, key: &Key) -> Result<Rc<Fact>, Failure> {
        self.read(key).map(Rc::new)
    }

    /// These keys are read next: a world may fetch ahead what it needs for them. Nothing is decided by it, and nothing fails.
    fn expect(&mut self, _keys: &[Key]) {}

    /// Waits.
    ///
    /// # Errors
    /// `timeout`, naming what still runs.
    fn settle(&mut self, wait: &Wait) -> Result<(), Failure>;

    /// Sends one step (guard, request, wait) and gives its answer.
    ///
    /// # Errors
    /// Whatever the server said, unless the step tolerates it.
    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure>;

    /// Sends an undo request.
    ///
    /// # Errors
    /// Whatever the server said.
    fn undo(&mut self, request: &crate::Request, answers: &[Value]) -> Result<(), Failure>;

    /// Called once after the plan: drops what was remembered of these keys, so that they are read anew.
    fn forget(&mut self, keys: &[Key]);

    /// Seconds to pause before a new plan; `Dry` does not pause.
    fn pause(&mut self, seconds: f64);
}

/// What sending gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// The server's answer; a symbol in `Dry`.
    pub answer: Value,
    /// False if the guard found it unnecessary.
    pub done: bool,
    /// For people: a task that ended with warnings, a hot-plug that must wait for the next start.
    pub warnings: Vec<String>,
}

impl Sent {
    /// An answer without anything else to say.
    pub fn answer(answer: Value) -> Self {
        Sent {
            answer,
            done: true,
            warnings: Vec::new(),
        }
    }
}
