//! Parsed arguments, errors and secrets.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// What is shown in place of a secret.
pub const MASK: &str = "********";

/// Shorter secrets are masked by type only: searching text for them would garble unrelated words.
const SEARCHED_CHARS: usize = 8;

/// A secret string; `Debug` and `Display` show [`MASK`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into())
    }

    /// The secret itself, for the request that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// One argument that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {msg}")]
pub struct ArgError {
    /// Where it is, such as `vmid` or `disks[0].datastore`.
    pub path: String,
    /// The value given, shortened, or [`MASK`] for a secret; none where there is no value.
    pub value: Option<String>,
    /// What is wrong and what to do about it.
    pub msg: String,
}

/// Typed arguments of one run, and which of them were given.
#[derive(Clone, Default)]
pub struct Args {
    pub(crate) values: Map<String, Value>,
    pub(crate) masked: Map<String, Value>,
    pub(crate) given: BTreeSet<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Args {
    /// The typed value under its canonical name; `None`: not given and no default.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Whether the task or the environment named it (a default does not count).
    ///
    /// Suboptions are asked by path: `given("tpmstate0.version")`, `given("disks[0].datastore")`.
    pub fn given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// A string or path.
    pub fn str(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    /// A boolean.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// A boolean, false when it is not there.
    pub fn flag(&self, name: &str) -> bool {
        self.bool(name).unwrap_or(false)
    }

    /// A floating point number.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// A list.
    pub fn list(&self, name: &str) -> Option<&Vec<Value>> {
        self.get(name)?.as_array()
    }

    /// A dictionary; suboptions are under their canonical names, with their defaults.
    pub fn dict(&self, name: &str) -> Option<&Map<String, Value>> {
        self.get(name)?.as_object()
    }

    /// A list of strings.
    pub fn strs(&self, name: &str) -> Option<Vec<String>> {
        Some(
            self.list(name)?
                .iter()
                .map(|v| match v {
                    Value::String(s) => s.clone(),
                    other => other.to_string(),
                })
                .collect(),
        )
    }

    /// A string option wrapped as a secret.
    pub fn secret(&self, name: &str) -> Option<Secret> {
        self.str(name).map(Secret::new)
    }

    /// All typed values, secrets in clear; never to be shown.
    pub fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// All typed values with secrets masked, fit to be shown.
    pub fn to_value(&self) -> Value {
        Value::Object(self.masked.clone())
    }

    /// What the user should know although the arguments are accepted.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Args")
            .field("values", &self.masked)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

/// Secret values of 8 characters and more, also nested ones, longest first: what output is searched for.
pub fn secrets(args: &Args) -> Vec<String> {
    args.secrets.clone()
}

/// Sorts secrets for searching: long enough, once each, longest first so that one within another leaves no rest.
pub(crate) fn searchable(mut found: Vec<String>) -> Vec<String> {
    found.retain(|s| s.chars().count() >= SEARCHED_CHARS);
    found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found.dedup();
    found
}

/// Replaces every occurrence of the given secrets by [`MASK`].
pub fn mask_text(text: &str, secrets: &[String]) -> String {
    let mut out = text.to_owned();
    for secret in secrets {
        if !secret.is_empty() && out.contains(secret.as_str()) {
            out = out.replace(secret.as_str(), MASK);
        }
    }
    out
}
