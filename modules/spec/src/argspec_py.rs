//! The argument spec as Python text, for `AnsibleModule` in the generated module file.
//!
//! Nothing runs by it (the binary has its own table), but `ansible-test sanity` holds the documentation to it.

use crate::opt::{Groups, Kind, ModuleSpec, Opt};
use crate::spec_json::{default, typed};
use serde_json::Value;

/// Longest line written where it can be broken.
const WIDTH: usize = 120;

/// The keyword arguments of the `AnsibleModule` call, one a line or more, indented by `indent` blanks.
pub(crate) fn keywords(spec: &ModuleSpec, indent: usize) -> String {
    let mut out = vec![
        format!(
            "argument_spec={}",
            options(spec.all(), indent, "argument_spec=".len())
        ),
        "supports_check_mode=True".to_owned(),
    ];
    if !spec.required_if.is_empty() {
        let items = spec
            .required_if
            .iter()
            .map(|(name, value, needs, any)| {
                let value = spec
                    .option(name)
                    .map_or_else(|| Value::from(*value), |opt| typed(opt, value));
                let any = if *any { ", True" } else { "" };
                format!(
                    "({}, {}, {}{any})",
                    string(name),
                    literal(&value),
                    strings(needs)
                )
            })
            .collect();
        out.push(format!(
            "required_if={}",
            wrapped('[', items, ']', indent, 12)
        ));
    }
    for (word, rule) in [
        ("required_one_of", spec.required_one_of),
        ("required_together", spec.required_together),
        ("mutually_exclusive", spec.mutually_exclusive),
    ] {
        if !rule.is_empty() {
            out.push(format!("{word}={}", groups(rule, indent, word.len() + 1)));
        }
    }
    if !spec.required_by.is_empty() {
        let items = spec
            .required_by
            .iter()
            .map(|(name, needs)| format!("{}: {}", string(name), strings(needs)))
            .collect();
        out.push(format!(
            "required_by={}",
            wrapped('{', items, '}', indent, 12)
        ));
    }
    let pad = " ".repeat(indent);
    out.iter().map(|k| format!("{pad}{k},\n")).collect()
}

/// Whether the table uses the environment, so that the generated file imports what that needs.
pub(crate) fn uses_env(spec: &ModuleSpec) -> bool {
    fn any(opt: &Opt) -> bool {
        opt.env.is_some() || opt.options.iter().any(any)
    }
    spec.all().any(any)
}

fn groups(groups: Groups, indent: usize, used: usize) -> String {
    wrapped(
        '[',
        groups.iter().map(|g| strings(g)).collect(),
        ']',
        indent,
        used,
    )
}

fn options<'a>(opts: impl Iterator<Item = &'a Opt>, indent: usize, used: usize) -> String {
    let items = opts
        .map(|opt| {
            let key = format!("{}: ", string(opt.name));
            let value = option(opt, indent + 4, key.len());
            key + &value
        })
        .collect();
    wrapped('{', items, '}', indent, used)
}

fn option(opt: &Opt, indent: usize, used: usize) -> String {
    let mut items = vec![format!("\"type\": {}", string(opt.kind.as_str()))];
    let mut add = |key: &str, value: String| items.push(format!("\"{key}\": {value}"));
    if let Some(kind) = opt.elements {
        add("elements", string(kind.as_str()));
    }
    if opt.required {
        add("required", "True".to_owned());
    }
    if opt.default.is_some() {
        add("default", literal(&default(opt)));
    }
    if !opt.choices.is_empty() {
        let choices: Vec<String> = opt
            .choices
            .iter()
            .map(|c| literal(&typed(opt, c)))
            .collect();
        add("choices", wrapped('[', choices, ']', indent + 4, 11));
    }
    if !opt.aliases.is_empty() {
        add("aliases", strings(opt.aliases));
    }
    if let Some(variable) = opt.env {
        add(
            "fallback",
            format!("(env_fallback, [{}])", string(variable)),
        );
    }
    // Ansible takes names like these for secrets unless told otherwise.
    let sounds_secret = ["pass", "secret", "token", "key"]
        .iter()
        .any(|w| opt.name.contains(w));
    if opt.secret {
        add("no_log", "True".to_owned());
    } else if sounds_secret && opt.kind != Kind::Bool {
        add("no_log", "False".to_owned());
    }
    if !opt.options.is_empty() {
        add("options", options(opt.options.iter(), indent + 4, 11));
    }
    wrapped('{', items, '}', indent, used)
}

/// Items on one line if they fit, else one a line; `used`: characters that precede the bracket on its line.
fn wrapped(open: char, items: Vec<String>, close: char, indent: usize, used: usize) -> String {
    let line = format!("{open}{}{close}", items.join(", "));
    if !line.contains('\n') && indent + used + line.chars().count() < WIDTH {
        return line;
    }
    let pad = " ".repeat(indent + 4);
    let lines: String = items.iter().map(|i| format!("{pad}{i},\n")).collect();
    format!("{open}\n{lines}{}{close}", " ".repeat(indent))
}

fn strings(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|w| string(w)).collect();
    format!("[{}]", words.join(", "))
}

/// A JSON string is a Python string.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}: {}", string(k), literal(v)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
        other => other.to_string(),
    }
}
