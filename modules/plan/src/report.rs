//! What a run says.

use serde_json::{Map, Value, json};

/// The kinds of failure; `error_kind` of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The task's arguments do not fit.
    InvalidArgs,
    /// No connection, or no valid certificate.
    Unreachable,
    /// Sign-in refused.
    Auth,
    /// A privilege is missing.
    Permission,
    /// A named object does not exist.
    NotFound,
    /// Our planner will not do it.
    Refused,
    /// The server would not do it, at once.
    Api,
    /// Somebody else changed the same thing, again and again.
    Conflict,
    /// A task of the server ended badly.
    TaskFailed,
    /// Not in time; it may still be running.
    Timeout,
    /// A fault of ours.
    Internal,
}

impl ErrorKind {
    /// All of them, in the order in which docs/troubleshooting.md explains them. What was done before a failure stands in `applied`
    /// beside any of these, so that there is no kind for it.
    pub const ALL: [Self; 11] = [
        Self::InvalidArgs,
        Self::Unreachable,
        Self::Auth,
        Self::Permission,
        Self::NotFound,
        Self::Refused,
        Self::Api,
        Self::Conflict,
        Self::TaskFailed,
        Self::Timeout,
        Self::Internal,
    ];

    /// As it stands in results.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgs => "invalid_args",
            ErrorKind::Unreachable => "unreachable",
            ErrorKind::Auth => "auth",
            ErrorKind::Permission => "permission",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Refused => "refused",
            ErrorKind::Api => "api",
            ErrorKind::Conflict => "conflict",
            ErrorKind::TaskFailed => "task_failed",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Internal => "internal",
        }
    }
}

/// A failure met by a world.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Its kind.
    pub kind: ErrorKind,
    /// For people; the whole chain of causes, free of secrets.
    pub msg: String,
    /// Somebody took what we planned with: read again, plan anew.
    pub replan: bool,
    /// It is not known whether the request was carried out: read again, go on from what is found.
    pub lost_answer: bool,
    /// Keys for the result, such as `upid`, `percent`.
    pub extra: Map<String, Value>,
}

impl Failure {
    /// A plain failure.
    pub fn new(kind: ErrorKind, msg: impl Into<String>) -> Self {
        Failure {
            kind,
            msg: msg.into(),
            replan: false,
            lost_answer: false,
            extra: Map::new(),
        }
    }

    /// The same, asking for a new plan.
    pub fn replan(mut self) -> Self {
        self.replan = true;
        self
    }

    /// Adds a key for the result.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }
}

/// The result of one run, before the edge masks and prints it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All keys of the result.
    pub keys: Map<String, Value>,
}

impl Report {
    /// Sets a key.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.keys.insert(name.to_owned(), value.into());
    }

    /// A failed report that changed nothing.
    pub fn failed(kind: ErrorKind, msg: &str) -> Self {
        let mut r = Report::default();
        r.set("failed", true);
        r.set("changed", false);
        r.set("msg", msg);
        r.set("error_kind", kind.as_str());
        r
    }

    /// Whether it is a failure.
    pub fn is_failed(&self) -> bool {
        self.keys.get("failed") == Some(&json!(true))
    }
}
