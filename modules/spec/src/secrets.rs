//! Secrets within arguments: found before anything is shown, masked where arguments are shown.

use crate::args::MASK;
use crate::opt::Opt;
use crate::parse::Env;
use serde_json::{Map, Value};

/// Every string or number in a value, as text.
pub(crate) fn leaves(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(s) => {
            out.push(s.clone());
            if s.trim() != s {
                out.push(s.trim().to_owned());
            }
        }
        Value::Number(n) => out.push(n.to_string()),
        Value::Array(items) => items.iter().for_each(|v| leaves(v, out)),
        Value::Object(map) => map.values().for_each(|v| leaves(v, out)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Secrets as they arrive, before anything can go wrong with them.
pub(crate) fn collect_raw_secrets(
    opts: &'static [Opt],
    raw: &Map<String, Value>,
    env: Env<'_>,
    out: &mut Vec<String>,
) {
    for opt in opts {
        let given = raw
            .iter()
            .filter(|(key, _)| opt.answers_to(key))
            .map(|(_, value)| value);
        if opt.secret {
            given.for_each(|v| leaves(v, out));
            if let Some(text) = opt.env.and_then(env) {
                leaves(&Value::String(text), out);
            }
        } else if opt.holds_secret() {
            for value in given {
                let objects = match value {
                    Value::Array(items) => items.iter().collect(),
                    other => vec![other],
                };
                for map in objects.into_iter().filter_map(Value::as_object) {
                    collect_raw_secrets(opt.options, map, env, out);
                }
            }
        }
    }
}

/// The typed values with secrets masked.
pub(crate) fn masked(groups: &[&'static [Opt]], values: &Map<String, Value>) -> Map<String, Value> {
    let mask_all = |opt: &Opt, value: &Value| -> Value {
        if opt.secret {
            return Value::String(MASK.to_owned());
        }
        match value {
            Value::Object(map) if opt.holds_secret() => Value::Object(masked(&[opt.options], map)),
            Value::Array(items) if opt.holds_secret() => items
                .iter()
                .map(|item| match item {
                    Value::Object(map) => Value::Object(masked(&[opt.options], map)),
                    other => other.clone(),
                })
                .collect(),
            other => other.clone(),
        }
    };
    values
        .iter()
        .map(|(name, value)| {
            let opt = groups
                .iter()
                .flat_map(|g| g.iter())
                .find(|o| o.name == name);
            let shown = opt.map_or_else(|| value.clone(), |opt| mask_all(opt, value));
            (name.clone(), shown)
        })
        .collect()
}
