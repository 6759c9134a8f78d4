//! Contradictions within a table.

use crate::opt::{Kind, ModuleSpec, Opt, Ret};
use crate::parse::parse;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What is wrong with a table, for the tests of whoever writes one; empty: nothing.
///
/// Names and aliases are used once, defaults are JSON that their own option accepts, rules and texts name options and results that
/// exist, everything is documented.
pub fn lint(spec: &ModuleSpec) -> Vec<String> {
    let mut out = Vec::new();
    let all: Vec<&'static Opt> = spec.all().collect();
    options(&all, "", &mut out);
    let known = |n: &str| all.iter().any(|o| o.name == n);
    let mut rules: Vec<&str> = Vec::new();
    for groups in [
        spec.required_one_of,
        spec.required_together,
        spec.mutually_exclusive,
    ] {
        rules.extend(groups.iter().flat_map(|g| g.iter().copied()));
    }
    for (name, needs) in spec.required_by {
        rules.push(name);
        rules.extend(needs.iter().copied());
    }
    for (name, value, needs, _) in spec.required_if {
        rules.push(name);
        rules.extend(needs.iter().copied());
        let choices = spec.option(name).map_or(&[][..], |o| o.choices);
        if !choices.is_empty() && !choices.contains(value) {
            out.push(format!("required_if: `{name}` is never `{value}`"));
        }
    }
    for name in rules {
        if !known(name) {
            out.push(format!("a rule names `{name}`, which is no option"));
        }
    }
    if spec.name.is_empty() || spec.short.is_empty() || spec.doc.is_empty() {
        out.push("name, short and doc are needed".to_owned());
    }
    for text in texts(spec) {
        for (mark, name) in names_in(text) {
            let there = match mark {
                "O" => find_option(&all, &name),
                _ => find_return(spec, &name),
            };
            if !there {
                out.push(format!("{mark}({name}) names nothing, in: {text}"));
            }
        }
    }
    if spec.short.ends_with('.') {
        out.push("short ends with a full stop".to_owned());
    }
    out
}

/// All that is written for people.
fn texts(spec: &ModuleSpec) -> Vec<&'static str> {
    fn of_option(o: &'static Opt, out: &mut Vec<&'static str>) {
        out.push(o.doc);
        o.options.iter().for_each(|o| of_option(o, out));
    }
    fn of_return(r: &'static Ret, out: &mut Vec<&'static str>) {
        out.extend([r.doc, r.when]);
        r.contains.iter().for_each(|r| of_return(r, out));
    }
    let mut out = vec![spec.short, spec.check_mode.details, spec.idempotent.details];
    out.extend(spec.doc.iter().chain(spec.notes).copied());
    for (on, privilege, what) in spec.privileges {
        out.extend([*on, *privilege, *what]);
    }
    spec.all().for_each(|o| of_option(o, &mut out));
    let returns = spec.returns.iter().flat_map(|g| g.iter());
    returns.for_each(|r| of_return(r, &mut out));
    out
}

/// What `O(...)` and `RV(...)` name, without a value; what names another module is its own affair.
fn names_in(text: &str) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    for (mark, open) in [("O", "O("), ("RV", "RV(")] {
        for (at, _) in text.match_indices(open) {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            let inner = text[at + open.len()..].split(')').next().unwrap_or("");
            let name = inner.split('=').next().unwrap_or("");
            if !before.is_alphanumeric() && !name.contains('#') {
                out.push((mark, name.to_owned()));
            }
        }
    }
    out
}

fn find_option(all: &[&'static Opt], path: &str) -> bool {
    let mut level: Vec<&Opt> = all.to_vec();
    for part in path.split('.') {
        let Some(o) = level
            .iter()
            .find(|o| o.answers_to(part.trim_end_matches("[]")))
        else {
            return false;
        };
        level = o.options.iter().collect();
    }
    true
}

fn find_return(spec: &ModuleSpec, path: &str) -> bool {
    let mut level: Vec<&Ret> = spec.returns.iter().flat_map(|g| g.iter()).collect();
    for part in path.split('.') {
        let Some(r) = level.iter().find(|r| r.name == part.trim_end_matches("[]")) else {
            return false;
        };
        level = r.contains.iter().collect();
    }
    true
}

fn options(opts: &[&'static Opt], path: &str, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for opt in opts {
        let at = if path.is_empty() {
            opt.name.to_owned()
        } else {
            format!("{path}.{}", opt.name)
        };
        for name in std::iter::once(&opt.name).chain(opt.aliases) {
            if !seen.insert(*name) {
                out.push(format!("{at}: the name `{name}` is used twice"));
            }
        }
        if opt.doc.trim().is_empty() {
            out.push(format!("{at}: no documentation"));
        }
        if opt.required && opt.default.is_some() {
            out.push(format!("{at}: required, yet it has a default"));
        }
        if (opt.kind == Kind::List) != opt.elements.is_some() {
            out.push(format!(
                "{at}: elements belong to lists, and lists need them"
            ));
        }
        let dicts = opt.kind == Kind::Dict || opt.elements == Some(Kind::Dict);
        if !opt.options.is_empty() && !dicts {
            out.push(format!("{at}: only dictionaries have suboptions"));
        }
        default(opt, &at, out);
        let sub: Vec<&'static Opt> = opt.options.iter().collect();
        options(&sub, &at, out);
    }
}

/// The default must pass the option's own checks.
fn default(opt: &'static Opt, at: &str, out: &mut Vec<String>) {
    let Some(text) = opt.default else { return };
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => return out.push(format!("{at}: the default is not JSON: {e}")),
    };
    let group: &'static [Opt] = std::slice::from_ref(opt);
    let mut raw = Map::new();
    raw.insert(opt.name.to_owned(), value.clone());
    // Leaked: lint runs in tests only, and a spec is made of 'static parts.
    let groups: &'static [&'static [Opt]] = Box::leak(Box::new([group]));
    let spec = ModuleSpec {
        options: groups,
        ..ModuleSpec::EMPTY
    };
    match parse(&spec, &raw, &|_| None) {
        Ok(args) if opt.kind != Kind::Path && args.get(opt.name) != Some(&value) => {
            out.push(format!("{at}: the default is not of type {}", opt.kind));
        }
        Ok(_) => {}
        Err(errors) => out.extend(errors.iter().map(|e| format!("default of {e}"))),
    }
}
