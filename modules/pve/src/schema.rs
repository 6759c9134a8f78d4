//! The options that the server knows, read once from `formats.json` (an extract of the recorded API schema).

use regex::Regex;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{LazyLock, OnceLock};

/// How a value is typed on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    String,
    /// A whole number, a sign is allowed.
    Integer,
    /// A decimal number.
    Number,
    /// `1` or `0` (inside property strings also yes/no, on/off, true/false).
    Boolean,
    /// A list of texts (SDN only).
    Array,
}

/// One option, or one key of a property string.
#[derive(Debug)]
pub struct Schema {
    /// Its type.
    pub kind: Kind,
    /// The values allowed, if they are listed.
    pub choices: Vec<String>,
    /// Default as the schema says; some are prose, see [`Schema::usable_default`].
    pub default: Option<String>,
    /// Smallest value.
    pub minimum: Option<f64>,
    /// Largest value.
    pub maximum: Option<f64>,
    /// Most characters.
    pub max_length: Option<usize>,
    /// Name of a named format, such as `dns-name`.
    pub format: Option<String>,
    /// May be left out.
    pub optional: bool,
    /// Another name for this key.
    pub alias: Option<String>,
    /// The key whose value is the name of this one (`virtio=MAC` sets `model=virtio`).
    pub key_alias: Option<String>,
    /// A value without a key belongs to this one.
    pub default_key: bool,
    /// Another key that must be present too.
    pub requires: Option<String>,
    /// Largest index of a numbered option.
    pub index_max: Option<u32>,
    /// The keys, where the value is a property string.
    pub keys: Option<BTreeMap<String, Schema>>,
    pattern: Option<String>,
    regex: OnceLock<Option<Regex>>,
}

impl Schema {
    fn read(json: &Value) -> Schema {
        let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_string);
        let number = |name: &str| match json.get(name) {
            Some(Value::Number(n)) => n.as_f64(),
            Some(Value::String(s)) => s.parse().ok(),
            _ => None,
        };
        let flag = |name: &str| {
            json.get(name)
                .is_some_and(|v| v.as_u64() == Some(1) || v.as_bool() == Some(true))
        };
        Schema {
            kind: match json.get("type").and_then(Value::as_str) {
                Some("integer") => Kind::Integer,
                Some("number") => Kind::Number,
                Some("boolean") => Kind::Boolean,
                Some("array") => Kind::Array,
                _ => Kind::String,
            },
            choices: json
                .get("enum")
                .and_then(Value::as_array)
                .map(|a| {
                    a.iter()
                        .filter_map(Value::as_str)
                        .map(str::to_string)
                        .collect()
                })
                .unwrap_or_default(),
            default: match json.get("default") {
                Some(Value::String(s)) => Some(s.clone()),
                Some(Value::Number(n)) => Some(n.to_string()),
                _ => None,
            },
            minimum: number("minimum"),
            maximum: number("maximum"),
            max_length: number("maxLength").map(|n| n as usize),
            format: text("format"),
            optional: flag("optional"),
            alias: text("alias"),
            key_alias: text("keyAlias"),
            default_key: flag("default_key"),
            requires: text("requires"),
            index_max: number("index_max").map(|n| n as u32),
            keys: json.get("format").and_then(Value::as_object).map(|keys| {
                keys.iter()
                    .map(|(name, s)| (name.clone(), Schema::read(s)))
                    .collect()
            }),
            pattern: text("pattern"),
            regex: OnceLock::new(),
        }
    }

    /// Whether the value matches the pattern; true where there is none.
    pub fn matches_pattern(&self, value: &str) -> bool {
        let regex = self.regex.get_or_init(|| {
            self.pattern
                .as_deref()
                .and_then(|p| Regex::new(&from_perl(p)).ok())
        });
        regex.as_ref().is_none_or(|r| r.is_match(value))
    }

    /// The pattern as the server writes it (Perl).
    pub fn pattern(&self) -> Option<&str> {
        self.pattern.as_deref()
    }

    /// The default, if it is a value and not prose such as `cgroup v1: 1024, cgroup v2: 100`.
    pub fn usable_default(&self) -> Option<&str> {
        let d = self.default.as_deref()?;
        let numeric = matches!(self.kind, Kind::Integer | Kind::Number | Kind::Boolean);
        ((!numeric || d.parse::<f64>().is_ok()) && self.matches_pattern(d)).then_some(d)
    }

    /// Name of the key that a value without a key belongs to.
    pub fn default_key_name(&self) -> Option<&str> {
        self.keys
            .as_ref()?
            .iter()
            .find(|(_, s)| s.default_key)
            .map(|(n, _)| n.as_str())
    }
}

/// Turns the server's Perl pattern into one of the regex crate, anchored at both ends.
fn from_perl(pattern: &str) -> String {
    let p = pattern
        .replace("(?^u:", "(?:")
        .replace("(?^i:", "(?i:")
        .replace("(?^:", "(?:")
        .replace("{,", "{0,");
    // 256 copies of a Unicode class are beyond what the regex crate compiles; maxLength holds that limit as well.
    let p = p.replace("{0,256}", "*");
    format!("^(?:{})$", p.replace("\\d", "[0-9]"))
}

/// One option of a table. It is parsed when somebody looks at it: a run looks at a handful, and all of them take as long to parse as a
/// read over the network.
#[derive(Debug)]
pub struct Entry {
    text: &'static RawValue,
    parsed: OnceLock<Schema>,
}

impl Deref for Entry {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        self.parsed.get_or_init(|| {
            // The file is our own, and a test reads all of it.
            Schema::read(&serde_json::from_str(self.text.get()).unwrap_or_default())
        })
    }
}

/// Options by name.
pub type Table = BTreeMap<String, Entry>;

static TABLES: LazyLock<BTreeMap<String, Table>> = LazyLock::new(|| {
    let all: BTreeMap<String, BTreeMap<String, &'static RawValue>> =
        serde_json::from_str(include_str!("formats.json")).unwrap_or_default();
    let entry = |text| Entry {
        text,
        parsed: OnceLock::new(),
    };
    all.into_iter()
        .map(|(t, options)| {
            let options = options.into_iter().map(|(n, text)| (n, entry(text)));
            (t, options.collect())
        })
        .collect()
});

/// All options of a guest; numbered ones as `net[n]`.
pub fn guest_options() -> &'static Table {
    &TABLES["guest"]
}

/// Options of `sdn_zone`, `sdn_vnet` or `sdn_subnet`.
pub fn sdn_options(object: &str) -> Option<&'static Table> {
    TABLES.get(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_schema_compiles() {
        let mut patterns = 0;
        for table in TABLES.values() {
            for (name, option) in table {
                // What cannot be parsed would be an option without a type.
                let json: Value = serde_json::from_str(option.text.get()).expect(name);
                assert!(json.get("type").is_some(), "{name}");
                let itself: (&String, &Schema) = (name, option);
                for (key, s) in std::iter::once(itself).chain(option.keys.iter().flatten()) {
                    if let Some(p) = &s.pattern {
                        assert!(Regex::new(&from_perl(p)).is_ok(), "{name} {key}: {p}");
                        patterns += 1;
                    }
                }
            }
        }
        assert!(patterns > 30);
    }

    #[test]
    fn prose_is_no_default() {
        assert_eq!(guest_options()["cpuunits"].usable_default(), None);
        assert_eq!(guest_options()["vmgenid"].usable_default(), None);
        assert_eq!(guest_options()["cores"].usable_default(), Some("1"));
        assert_eq!(
            guest_options()["hotplug"].usable_default(),
            Some("network,disk,usb")
        );
    }
}
