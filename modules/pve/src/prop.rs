//! Property strings: `virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=5`.
//!
//! [`PropString::parse`] reads what a server returned: keys it does not know are kept. [`PropString::parse_checked`]
//! reads what a person asks for and refuses what the server would refuse.

use crate::check::{is_cpu_type, parse_bool, refusal};
use crate::config_key::{ConfigKey, Family};
use crate::meaning::same_value;
pub use crate::prop_error::{Problem, PropError};
use crate::schema::{Kind, Schema};
use crate::size::{format_size, parse_size};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A difference of one key, by meaning; None: not set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct KeyDiff {
    /// Key inside the property string.
    pub name: String,
    /// Value before.
    pub before: Option<String>,
    /// Value after.
    pub after: Option<String>,
}

/// A property string of one option, as keys and values; booleans are `1`/`0`, sizes in the server's notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropString {
    key: ConfigKey,
    known: BTreeMap<String, String>,
    extra: BTreeMap<String, String>,
}

impl PropString {
    /// Without any key set; errors if the option is unknown or has a plain value.
    pub fn empty(key: &str) -> Result<Self, PropError> {
        let key: ConfigKey = key.parse()?;
        if key.schema().keys.is_none() {
            return Err(PropError::Plain(key.to_string()));
        }
        Ok(PropString {
            key,
            known: BTreeMap::new(),
            extra: BTreeMap::new(),
        })
    }

    /// Reads a stored value; unknown keys and odd values are kept as they are, only a broken structure is an error.
    pub fn parse(key: &str, text: &str) -> Result<Self, PropError> {
        let mut p = PropString::empty(key)?;
        let option = key.to_string();
        for part in text.split(',').filter(|p| !p.trim().is_empty()) {
            match part.split_once('=') {
                Some(("", _)) => {
                    return Err(PropError::Syntax {
                        option,
                        part: part.into(),
                        missing: "key",
                    });
                }
                Some((_, "")) => {
                    return Err(PropError::Syntax {
                        option,
                        part: part.into(),
                        missing: "value",
                    });
                }
                Some((name, value)) => {
                    let taken = |name: &str| p.get(name).is_some();
                    let schema = p.keys().get(name);
                    let target = schema
                        .and_then(|s| s.alias.as_deref())
                        .unwrap_or(name)
                        .to_string();
                    let model = schema.and_then(|s| s.key_alias.clone());
                    for n in model.iter().chain([&target]) {
                        if taken(n) {
                            return Err(PropError::Duplicate {
                                option,
                                name: n.clone(),
                            });
                        }
                    }
                    if let Some(model) = model {
                        p.known.insert(model, name.to_string());
                    }
                    p.put(&target, value);
                }
                None => {
                    let Some(name) = p.key.schema().default_key_name().map(str::to_string) else {
                        let keys = p.names().join(", ");
                        return Err(PropError::NoDefaultKey {
                            option,
                            part: part.into(),
                            keys,
                        });
                    };
                    if p.get(&name).is_some() {
                        return Err(PropError::Duplicate { option, name });
                    }
                    p.put(&name, part);
                }
            }
        }
        p.convert_limits();
        Ok(p)
    }

    /// Reads a wish and refuses, all at once, what the server would refuse.
    pub fn parse_checked(key: &str, text: &str) -> Result<Self, PropError> {
        let p = PropString::parse(key, text)?;
        // The server drops these before its schema looks at them; only the raw text shows whether they were right.
        for part in text.split(',') {
            if let Some((name @ ("bps" | "bps_rd" | "bps_wr"), value)) = part.split_once('=')
                && p.key.is_bus_drive()
                && !crate::check::is_integer(value)
            {
                let problem = Problem {
                    name: name.into(),
                    value: value.into(),
                    why: "is no whole number".into(),
                    way_out: "give mbps instead".into(),
                };
                return Err(PropError::Invalid {
                    option: key.into(),
                    problems: vec![problem],
                });
            }
        }
        p.check()?;
        Ok(p)
    }

    fn keys(&self) -> &'static BTreeMap<String, Schema> {
        static NONE: BTreeMap<String, Schema> = BTreeMap::new();
        self.key.schema().keys.as_ref().unwrap_or(&NONE)
    }

    /// The keys that the server knows, other names for them left out.
    fn names(&self) -> Vec<&'static str> {
        self.keys()
            .iter()
            .filter(|(_, s)| s.alias.is_none())
            .map(|(n, _)| n.as_str())
            .collect()
    }

    /// Resolves another name (`volume`) to the real one (`file`).
    fn real_name<'a>(&self, name: &'a str) -> &'a str
    where
        Self: 'a,
    {
        self.keys()
            .get(name)
            .and_then(|s| s.alias.as_deref())
            .unwrap_or(name)
    }

    fn put(&mut self, name: &str, value: &str) {
        let Some(schema) = self.keys().get(name) else {
            self.extra.insert(name.into(), value.into());
            return;
        };
        let value = match schema.kind {
            Kind::Boolean => match parse_bool(value) {
                Some(b) => u8::from(b).to_string(),
                None => value.to_string(),
            },
            _ if schema.format.as_deref() == Some("disk-size") => {
                parse_size(value).map_or_else(|| value.to_string(), format_size)
            }
            _ => value.to_string(),
        };
        self.known.insert(name.into(), value);
    }

    /// `bps*` becomes `mbps*` with the value 0.000 whatever was given: so the server does it (property-strings.json).
    fn convert_limits(&mut self) {
        if !self.key.is_drive() {
            return;
        }
        for suffix in ["", "_rd", "_wr"] {
            let mbps = format!("mbps{suffix}");
            if !self.known.contains_key(&mbps)
                && self.known.remove(&format!("bps{suffix}")).is_some()
            {
                self.known.insert(mbps, "0.000".into());
            }
        }
    }

    /// Errors with all that the server would refuse.
    pub fn check(&self) -> Result<(), PropError> {
        let mut problems = Vec::new();
        let mut add = |name: &str, value: &str, why: String, way_out: String| {
            problems.push(Problem {
                name: name.into(),
                value: value.into(),
                why,
                way_out,
            });
        };
        for (name, value) in &self.extra {
            add(
                name,
                value,
                "is not known".into(),
                format!("give one of {}", self.names().join(", ")),
            );
        }
        for (name, value) in &self.known {
            let schema = &self.keys()[name];
            if let Some((why, way_out)) = refusal(schema, value) {
                add(name, value, why, way_out);
            }
            if let Some(other) = &schema.requires
                && self.get(other).is_none()
            {
                add(
                    name,
                    value,
                    format!("needs {other}"),
                    format!("give {other} too"),
                );
            }
        }
        for (name, schema) in self.keys() {
            if schema.alias.is_none() && !schema.optional && self.get(name).is_none() {
                add(name, "", "is missing".into(), "give it".into());
            }
        }
        if self.key.as_str() == "cpu" {
            let models = self
                .keys()
                .get("reported-model")
                .map_or(&[][..], |s| &s.choices);
            match self.get("cputype") {
                None => add(
                    "cputype",
                    "",
                    "is missing".into(),
                    "give it, such as x86-64-v2-AES".into(),
                ),
                Some(t) if !is_cpu_type(t, models) => {
                    add(
                        "cputype",
                        t,
                        "is no CPU type".into(),
                        "give a built-in one or custom-<name>".into(),
                    );
                }
                _ => {}
            }
            if let Some(v) = self.get("reported-model") {
                add(
                    "reported-model",
                    v,
                    "is for custom CPU types only".into(),
                    "leave it out".into(),
                );
            }
        }
        if self.key.is_drive() {
            self.check_drive(&mut add);
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(PropError::Invalid {
                option: self.key.to_string(),
                problems,
            })
        }
    }

    /// The rules between a drive's keys (qemu-server; property-strings.json, `parse_returns_undef`).
    fn check_drive(&self, add: &mut dyn FnMut(&str, &str, String, String)) {
        let set = |name: &str| self.get(name).filter(|v| !v.is_empty() && *v != "0");
        for suffix in ["", "_rd", "_wr"] {
            let bps = format!("bps{suffix}");
            if let Some(v) = self.get(&bps) {
                add(
                    &bps,
                    v,
                    format!("contradicts mbps{suffix}"),
                    "give only mbps".into(),
                );
            }
            for unit in ["mbps", "iops"] {
                let (max, base) = (format!("{unit}{suffix}_max"), format!("{unit}{suffix}"));
                if let Some(v) = set(&max)
                    && set(&base).is_none()
                {
                    add(&max, v, format!("needs {base}"), format!("give {base} too"));
                }
                let length = format!("{}{suffix}_max_length", unit.trim_start_matches('m'));
                if let Some(v) = set(&length)
                    && set(&max).is_none()
                {
                    add(
                        &length,
                        v,
                        format!("needs {max}"),
                        format!("give {max} too"),
                    );
                }
                if let Some(v) = set(&base)
                    && !suffix.is_empty()
                    && set(unit).is_some()
                {
                    add(
                        &base,
                        v,
                        format!("contradicts {unit}"),
                        format!("give {unit}, or {unit}_rd and {unit}_wr"),
                    );
                }
            }
        }
        if self.get("media") == Some("cdrom") {
            for name in ["snapshot", "format"] {
                if let Some(v) = set(name) {
                    add(
                        name,
                        v,
                        "does not go with media=cdrom".into(),
                        "leave it out".into(),
                    );
                }
            }
            if self.key.stem() == "virtio" {
                add(
                    "media",
                    "cdrom",
                    "is not possible on virtio".into(),
                    "use ide, sata or scsi".into(),
                );
            }
        }
    }

    /// The option.
    pub fn key(&self) -> &ConfigKey {
        &self.key
    }
    /// Value of a key, also by its other name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let name = self.real_name(name);
        self.known
            .get(name)
            .or_else(|| self.extra.get(name))
            .map(String::as_str)
    }
    /// Value of a boolean key; None if not set or no boolean.
    pub fn get_bool(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(parse_bool)
    }
    /// Value of `size` or another size, bytes.
    pub fn get_size(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(parse_size)
    }
    /// Sets a key, also by its other name (`virtio` sets model and MAC address). A value with a comma or without
    /// any character cannot be written: it is a [`PropError::Invalid`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PropError> {
        if value.is_empty() || value.contains(',') || name.is_empty() || name.contains([',', '=']) {
            let problem = Problem {
                name: name.into(),
                value: value.into(),
                why: "cannot be written".into(),
                way_out: "give a value without commas, or unset the key".into(),
            };
            return Err(PropError::Invalid {
                option: self.key.to_string(),
                problems: vec![problem],
            });
        }
        if let Some(model) = self.keys().get(name).and_then(|s| s.key_alias.clone()) {
            self.known.insert(model, name.to_string());
        }
        let real = self.real_name(name).to_string();
        self.put(&real, value);
        Ok(())
    }
    /// Removes a key, also by its other name; returns its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let name = self.real_name(name);
        self.known.remove(name).or_else(|| self.extra.remove(name))
    }
    /// Keys and values, sorted; unknown ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let all: BTreeMap<&str, &str> = self
            .known
            .iter()
            .chain(&self.extra)
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        all.into_iter()
    }
    /// The keys that this version does not know.
    pub fn extra(&self) -> &BTreeMap<String, String> {
        &self.extra
    }

    /// Prints in the server's order: the default key without its name, required keys, the others, each sorted
    /// (network cards: `model=MAC` first; drives: the volume first).
    pub fn print(&self) -> String {
        let mut parts = Vec::new();
        let default = self.key.schema().default_key_name();
        let by_class = !self.key.is_net() && !self.key.is_drive();
        if self.key.is_net() {
            match (self.get("model"), self.get("macaddr")) {
                (Some(model), Some(mac)) => parts.push(format!("{model}={mac}")),
                (Some(model), None) => parts.push(model.to_string()),
                (None, Some(mac)) => parts.push(format!("macaddr={mac}")),
                (None, None) => {}
            }
        } else if let Some(value) = default.and_then(|d| self.get(d)) {
            // A value with '=' would be read as a key and its value.
            match (value.contains('='), default) {
                (true, Some(name)) => parts.push(format!("{name}={value}")),
                _ => parts.push(value.to_string()),
            }
        }
        let done = |name: &str| Some(name) == default || (self.key.is_net() && name == "macaddr");
        let required = |name: &str| by_class && self.keys().get(name).is_some_and(|s| !s.optional);
        for class in [true, false] {
            parts.extend(
                self.iter()
                    .filter(|(n, _)| !done(n) && required(n) == class)
                    .map(|(n, v)| format!("{n}={v}")),
            );
        }
        parts.join(",")
    }

    /// Whether this means what is wanted (`other`): order, other names, case of MACs, notation of numbers, defaults do not matter.
    pub fn same_as(&self, other: &PropString) -> bool {
        self.diff(other).is_empty()
    }

    /// What differs by meaning between this (what is there) and what is wanted, sorted by key.
    pub fn diff(&self, after: &PropString) -> Vec<KeyDiff> {
        let smbios =
            |p: &PropString| (self.key.as_str() == "smbios1").then(|| crate::smbios::decoded(p));
        let (a, b) = match (smbios(self), smbios(after)) {
            (Some(a), Some(b)) => (a, b),
            _ => (
                self.iter()
                    .map(|(n, v)| (n.to_string(), v.to_string()))
                    .collect(),
                after
                    .iter()
                    .map(|(n, v)| (n.to_string(), v.to_string()))
                    .collect(),
            ),
        };
        // The size of an EFI disk, a TPM state or a medium is information, never a wish (pve-facts.md).
        let size_counts = !matches!(self.key.family(), Family::Efidisk | Family::Tpmstate)
            && ![self, after]
                .iter()
                .any(|p| p.get("media") == Some("cdrom"));
        let names: BTreeSet<&String> = a
            .keys()
            .chain(b.keys())
            .filter(|n| size_counts || *n != "size")
            .collect();
        names
            .into_iter()
            .filter(|n| {
                !same_value(
                    &self.key,
                    n,
                    a.get(*n).map(String::as_str),
                    b.get(*n).map(String::as_str),
                )
            })
            .map(|n| KeyDiff {
                name: n.clone(),
                before: a.get(n).cloned(),
                after: b.get(n).cloned(),
            })
            .collect()
    }

    /// This value with the keys of `named` set to theirs; the others stay, unknown ones too. A key that means the
    /// same already keeps its notation.
    pub fn merge(&self, named: &PropString) -> PropString {
        let mut out = self.clone();
        for (name, value) in named.iter() {
            if self.get(name).is_some() && same_value(&self.key, name, self.get(name), Some(value))
            {
                continue;
            }
            out.extra.remove(name);
            out.known.remove(name);
            match named.extra.contains_key(name) {
                true => out.extra.insert(name.into(), value.into()),
                false => out.known.insert(name.into(), value.into()),
            };
        }
        out
    }

    /// This value without the named keys.
    pub fn unset<S: AsRef<str>>(&self, names: &[S]) -> PropString {
        let mut out = self.clone();
        for name in names {
            out.remove(name.as_ref());
        }
        out
    }

    /// A drive without what only its making decides (volume, size, format, source): the options that converge.
    pub fn options_only(&self) -> PropString {
        self.unset(&["file", "size", "format", "import-from"])
    }

    /// Keys and values as the server's own parser returns them: texts; drives with `interface`, `index` and their size
    /// in bytes.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out: BTreeMap<String, Value> = self
            .iter()
            .map(|(n, v)| (n.to_string(), Value::from(v.to_string())))
            .collect();
        if self.key.is_drive() {
            if let Some(bytes) = self.get_size("size") {
                out.insert("size".into(), bytes.to_string().into());
            }
            out.insert("interface".into(), self.key.stem().into());
            out.insert(
                "index".into(),
                self.key.index().unwrap_or(0).to_string().into(),
            );
        }
        out.into_iter().collect()
    }
}
impl fmt::Display for PropString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print())
    }
}

/// Reads a stored value; see [`PropString::parse`].
pub fn parse(key: &str, text: &str) -> Result<PropString, PropError> {
    PropString::parse(key, text)
}

/// Whether what is there (`a`) means what is wanted (`b`); a text that cannot be read only equals itself.
pub fn same_meaning(key: &str, a: &str, b: &str) -> bool {
    match (PropString::parse(key, a), PropString::parse(key, b)) {
        (Ok(a), Ok(b)) => a.same_as(&b),
        _ => a == b,
    }
}
