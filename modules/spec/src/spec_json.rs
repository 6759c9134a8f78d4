//! The spec as JSON, for tools.

use crate::coerce;
use crate::opt::{Groups, Kind, ModuleSpec, Opt};
use serde_json::{Map, Value, json};

/// What `trueplan spec MODULE` prints: options with type, choices, aliases, default, environment, and the rules between them.
///
/// Every option has every key; what does not apply is null, false or an empty list.
pub fn spec_json(spec: &ModuleSpec) -> Value {
    let mut options = Map::new();
    for opt in spec.all() {
        options.insert(opt.name.to_owned(), option(opt));
    }
    let required_if: Vec<Value> = spec
        .required_if
        .iter()
        .map(|(name, value, needs, any)| {
            let value = spec
                .option(name)
                .map_or_else(|| json!(value), |opt| typed(opt, value));
            if *any {
                json!([name, value, needs, true])
            } else {
                json!([name, value, needs])
            }
        })
        .collect();
    let required_by: Map<String, Value> = spec
        .required_by
        .iter()
        .map(|(name, needs)| ((*name).to_owned(), json!(needs)))
        .collect();
    json!({
        "module": spec.name,
        "options": options,
        "required_if": required_if,
        "required_one_of": groups(spec.required_one_of),
        "required_together": groups(spec.required_together),
        "mutually_exclusive": groups(spec.mutually_exclusive),
        "required_by": required_by,
    })
}

fn groups(groups: Groups) -> Value {
    json!(groups)
}

fn option(opt: &Opt) -> Value {
    let choices = match opt.choices {
        [] => Value::Null,
        some => some.iter().map(|c| typed(opt, c)).collect(),
    };
    let options = match opt.options {
        [] => Value::Null,
        some => Value::Object(
            some.iter()
                .map(|o| (o.name.to_owned(), option(o)))
                .collect(),
        ),
    };
    json!({
        "type": opt.kind.as_str(),
        "elements": opt.elements.map(Kind::as_str),
        "required": opt.required,
        "default": default(opt),
        "choices": choices,
        "aliases": opt.aliases,
        "env": opt.env.map_or_else(Vec::new, |v| vec![v]),
        "no_log": opt.secret,
        "options": options,
    })
}

/// The default as a JSON value; null: none.
pub(crate) fn default(opt: &Opt) -> Value {
    opt.default
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null)
}

/// A word of the table (a choice, the value of a rule) in the option's type.
pub(crate) fn typed(opt: &Opt, text: &str) -> Value {
    let word = json!(text);
    let kind = if opt.kind == Kind::List {
        opt.elements.unwrap_or(Kind::Raw)
    } else {
        opt.kind
    };
    match kind {
        Kind::Int => coerce::int(&word).map_or(word, Value::from),
        Kind::Float => coerce::float(&word).map_or(word, coerce::number),
        Kind::Bool => coerce::boolean(&word).map_or(word, Value::Bool),
        _ => word,
    }
}
