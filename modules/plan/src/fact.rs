//! What is known of the world.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The name of one object or list of the world, such as `pve/guest/100`.
///
/// The domain crates give keys their meaning and turn them to and from their own enums; here they are only compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(String);

impl Key {
    /// Builds a key from its parts; a slash or percent sign inside a part is escaped, so that parts never run together.
    pub fn from_parts(parts: &[&str]) -> Self {
        let esc = |p: &&str| p.replace('%', "%25").replace('/', "%2F");
        Key(parts.iter().map(esc).collect::<Vec<_>>().join("/"))
    }

    /// The parts as they were given to [`Key::from_parts`].
    pub fn parts(&self) -> Vec<String> {
        self.0
            .split('/')
            .map(|p| p.replace("%2F", "/").replace("%25", "%"))
            .collect()
    }

    /// The whole key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What reading one key gave.
///
/// `Unreadable` is not `Absent`: nothing may be refused or created because of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The object, in the domain's own JSON shape.
    Known(Value),
    /// It is certain that there is no such object.
    Absent,
    /// The server did not say; the text is its reason.
    Unreadable(String),
}

impl Fact {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&Value> {
        match self {
            Fact::Known(v) => Some(v),
            _ => None,
        }
    }

    /// True only where the absence is certain.
    pub fn is_absent(&self) -> bool {
        matches!(self, Fact::Absent)
    }
}

/// The facts gathered for one run. A copy shares them: a run keeps several, and they may be those of hundreds of guests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(BTreeMap<Key, Rc<Fact>>);

impl Facts {
    /// No facts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The fact of that key, if it was read.
    pub fn get<K: Borrow<Key>>(&self, key: K) -> Option<&Fact> {
        self.0.get(key.borrow()).map(Rc::as_ref)
    }

    /// The value of that key, if it was read and is known.
    pub fn known<K: Borrow<Key>>(&self, key: K) -> Option<&Value> {
        self.get(key).and_then(Fact::known)
    }

    /// True if the key was read.
    pub fn has<K: Borrow<Key>>(&self, key: K) -> bool {
        self.0.contains_key(key.borrow())
    }

    /// Stores a fact.
    pub fn put(&mut self, key: Key, fact: Fact) {
        self.share(key, Rc::new(fact));
    }

    /// Stores a fact that somebody else holds too.
    pub fn share(&mut self, key: Key, fact: Rc<Fact>) {
        self.0.insert(key, fact);
    }

    /// Forgets a fact, so that it is read again.
    pub fn forget<K: Borrow<Key>>(&mut self, key: K) {
        self.0.remove(key.borrow());
    }

    /// All facts, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Fact)> {
        self.0.iter().map(|(k, f)| (k, f.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_parts_never_run_together() {
        let k = Key::from_parts(&["pve", "volumes", "a/b", "50%2F"]);
        assert_eq!(k.parts(), ["pve", "volumes", "a/b", "50%2F"]);
        assert_ne!(k, Key::from_parts(&["pve", "volumes", "a", "b", "50%2F"]));
    }
}
