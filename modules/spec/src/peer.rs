//! A table against the recorded spec of the Python module that it replaces.

use crate::coerce;
use crate::opt::{Kind, ModuleSpec, Opt};
use crate::spec_json::default;
use serde_json::{Map, Value};

/// Where a task written for the peer would not be taken as it is; empty: nowhere.
///
/// `peer` is a recording as in tests/fixtures/peers (`{"versions": {VERSION: {"options": ..}}}`); each line reads
/// `VERSION OPTION: what`, so that a test can set known deviations apart. Checked are names, types, elements, choices, aliases,
/// defaults, environment, secrets, suboptions, and that nothing is required or excluded that the peer lets through.
pub fn peer_gaps(spec: &ModuleSpec, peer: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let Some(versions) = peer["versions"].as_object() else {
        return vec!["the recording has no versions".to_owned()];
    };
    let ours: Vec<&Opt> = spec.all().collect();
    for (version, recorded) in versions {
        let mut gaps = Vec::new();
        if let Some(options) = recorded["options"].as_object() {
            compare(&ours, options, "", &mut gaps);
            for opt in &ours {
                if opt.required && !options.contains_key(opt.name) {
                    gaps.push(format!(
                        "{}: required, yet the peer does not know it",
                        opt.name
                    ));
                }
            }
            stricter(spec, recorded, options, &mut gaps);
        }
        out.extend(gaps.into_iter().map(|gap| format!("{version} {gap}")));
    }
    out
}

fn compare(ours: &[&Opt], theirs: &Map<String, Value>, path: &str, out: &mut Vec<String>) {
    for (name, their) in theirs {
        let at = format!("{path}{name}");
        let Some(our) = ours.iter().find(|o| o.answers_to(name)) else {
            out.push(format!("{at}: missing"));
            continue;
        };
        let kind = their["type"].as_str().unwrap_or("str");
        if our.kind.as_str() != kind {
            out.push(format!("{at}: type {}, the peer's is {kind}", our.kind));
        }
        let elements = their["elements"].as_str();
        if elements.is_some() && our.elements.map(Kind::as_str) != elements {
            out.push(format!(
                "{at}: elements differ from the peer's {}",
                their["elements"]
            ));
        }
        if our.required && their["required"] != Value::Bool(true) {
            out.push(format!("{at}: required, the peer's is not"));
        }
        for choice in their["choices"].as_array().into_iter().flatten() {
            let text = choice
                .as_str()
                .map_or_else(|| choice.to_string(), str::to_owned);
            if !our.choices.is_empty() && !our.choices.contains(&text.as_str()) {
                out.push(format!("{at}: choice `{text}` is missing"));
            }
        }
        if !our.choices.is_empty() && their["choices"].as_array().is_none_or(Vec::is_empty) {
            out.push(format!("{at}: choices, the peer has none"));
        }
        for alias in texts(&their["aliases"]) {
            if !our.answers_to(alias) {
                out.push(format!("{at}: alias `{alias}` is missing"));
            }
        }
        for variable in texts(&their["env_fallback"]) {
            if our.env != Some(variable) {
                out.push(format!("{at}: environment variable {variable} is not used"));
            }
        }
        if their["no_log"] == Value::Bool(true) && !our.secret {
            out.push(format!("{at}: not secret, the peer's is"));
        }
        if !same(our, &default(our), &their["default"]) {
            out.push(format!(
                "{at}: default {}, the peer's is {}",
                default(our),
                their["default"]
            ));
        }
        if let Some(options) = their["options"].as_object() {
            let sub: Vec<&Opt> = our.options.iter().collect();
            compare(&sub, options, &format!("{at}."), out);
        }
    }
}

/// Defaults are compared in the option's type: a peer writes `"600"` for an int.
fn same(opt: &Opt, ours: &Value, theirs: &Value) -> bool {
    let in_type = |v: &Value| match (opt.kind, v) {
        (_, Value::Null) => Value::Null,
        (Kind::Int, v) => coerce::int(v).map_or_else(|| v.clone(), Value::from),
        (Kind::Bool, v) => coerce::boolean(v).map_or_else(|| v.clone(), Value::from),
        (Kind::Float, v) => coerce::float(v).map_or_else(|| v.clone(), coerce::number),
        (Kind::Str | Kind::Path, v) => Value::from(coerce::python_str(v)),
        (_, v) => v.clone(),
    };
    in_type(ours) == in_type(theirs)
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Rules of ours that speak only of the peer's options and that the peer does not have.
fn stricter(
    spec: &ModuleSpec,
    recorded: &Value,
    options: &Map<String, Value>,
    out: &mut Vec<String>,
) {
    for (word, groups) in [
        ("required_one_of", spec.required_one_of),
        ("required_together", spec.required_together),
        ("mutually_exclusive", spec.mutually_exclusive),
    ] {
        for group in groups {
            let known = group.iter().all(|n| options.contains_key(*n));
            let has = recorded[word].as_array().into_iter().flatten().any(|g| {
                let mut theirs: Vec<&str> = texts(g).collect();
                let mut ours: Vec<&str> = group.to_vec();
                theirs.sort_unstable();
                ours.sort_unstable();
                theirs == ours
            });
            if known && !has {
                out.push(format!(
                    "{word} {}: the peer has no such rule",
                    group.join(", ")
                ));
            }
        }
    }
    for (name, value, needs, any) in spec.required_if {
        let has = recorded["required_if"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|rule| {
                let their_value = rule[1]
                    .as_str()
                    .map_or_else(|| rule[1].to_string(), str::to_owned);
                let theirs: Vec<&str> = texts(&rule[2]).collect();
                let covered = if *any {
                    theirs.iter().any(|n| needs.contains(n))
                } else {
                    needs.iter().all(|n| theirs.contains(n))
                };
                rule[0].as_str() == Some(name) && their_value.eq_ignore_ascii_case(value) && covered
            });
        if options.contains_key(*name) && !has {
            out.push(format!(
                "required_if {name}={value}: the peer has no such rule"
            ));
        }
    }
    for (name, needs) in spec.required_by {
        let theirs = &recorded["required_by"][*name];
        let has = needs
            .iter()
            .all(|n| theirs.as_str() == Some(n) || texts(theirs).any(|t| t == *n));
        if options.contains_key(*name) && !has {
            out.push(format!("required_by {name}: the peer has no such rule"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn gaps_are_named() {
        const SPEC: ModuleSpec = ModuleSpec {
            options: &[&[
                Opt::int("same", "S.").default("600").env("X"),
                Opt::str("kind", "K."),
                Opt::strs("items", "I.").required(),
                Opt::str("state", "S.")
                    .choices(&["present"])
                    .default("\"absent\""),
                Opt::str("free", "F.").choices(&["a"]),
                Opt::dict("sub", "S.", &[Opt::str("a", "A.")]),
                Opt::str("password", "P."),
                Opt::str("own", "O.").required(),
            ]],
            required_one_of: &[&["kind", "items"], &["own", "kind"]],
            required_if: &[("state", "present", &["kind"], false)],
            required_by: &[("kind", &["items"])],
            mutually_exclusive: &[&["kind", "items"]],
            ..ModuleSpec::EMPTY
        };
        let peer = json!({"versions": {"1.0": {
            "options": {
                "same": {"type": "int", "default": "600", "env_fallback": ["X"]},
                "kind": {"type": "int", "aliases": ["sort"]},
                "items": {"type": "list", "elements": "int", "env_fallback": ["Y"]},
                "state": {"type": "str", "choices": ["present", "gone"], "default": "present"},
                "free": {"type": "str"},
                "sub": {"type": "dict", "options": {"a": {"type": "bool"}, "b": {"type": "str"}}},
                "password": {"type": "str", "no_log": true},
                "lost": {"type": "str"},
            },
            "mutually_exclusive": [["items", "kind"]],
        }}});
        assert_eq!(
            peer_gaps(&SPEC, &peer),
            [
                "1.0 kind: type str, the peer's is int",
                "1.0 kind: alias `sort` is missing",
                "1.0 items: elements differ from the peer's \"int\"",
                "1.0 items: required, the peer's is not",
                "1.0 items: environment variable Y is not used",
                "1.0 state: choice `gone` is missing",
                "1.0 state: default \"absent\", the peer's is \"present\"",
                "1.0 free: choices, the peer has none",
                "1.0 sub.a: type str, the peer's is bool",
                "1.0 sub.b: missing",
                "1.0 password: not secret, the peer's is",
                "1.0 lost: missing",
                "1.0 own: required, yet the peer does not know it",
                "1.0 required_one_of kind, items: the peer has no such rule",
                "1.0 required_if state=present: the peer has no such rule",
                "1.0 required_by kind: the peer has no such rule",
            ]
        );
    }
}
