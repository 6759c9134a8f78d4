//! What can be wrong with a property string.

use crate::config_key::KeyError;
use std::fmt;

/// One thing wrong inside a property string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Key inside the property string; empty where the whole is meant.
    pub name: String,
    /// Its value as given.
    pub value: String,
    /// What is wrong.
    pub why: String,
    /// What would be taken.
    pub way_out: String,
}
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.as_str(), self.value.as_str()) {
            ("", "") => write!(f, "{}: {}", self.why, self.way_out),
            ("", value) => write!(f, "{value} {}: {}", self.why, self.way_out),
            (name, "") => write!(f, "{name} {}: {}", self.why, self.way_out),
            (name, value) => write!(f, "{name}={value} {}: {}", self.why, self.way_out),
        }
    }
}

/// Why a property string cannot be read or would be refused; names option, value and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropError {
    /// No such option.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The option has a plain value.
    #[error("{0} has a plain value: give it without keys")]
    Plain(String),
    /// A part `name=` or `=value`.
    #[error("{option}: {part:?} has no {missing}: give key=value parts separated by commas")]
    Syntax {
        /// The option.
        option: String,
        /// The part as given.
        part: String,
        /// `key` or `value`.
        missing: &'static str,
    },
    /// One key twice, also by another name.
    #[error("{option}: {name} is given twice: leave one out")]
    Duplicate {
        /// The option.
        option: String,
        /// The key.
        name: String,
    },
    /// A value without a key where none is foreseen.
    #[error("{option}: {part:?} has no key: give one of {keys}")]
    NoDefaultKey {
        /// The option.
        option: String,
        /// The part as given.
        part: String,
        /// The keys there are.
        keys: String,
    },
    /// Values that the server would refuse, all of them.
    #[error("{option}: {}", .problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// The option.
        option: String,
        /// What is wrong.
        problems: Vec<Problem>,
    },
}
