//! From raw arguments to typed ones, with all errors at once.

use crate::args::{ArgError, Args, MASK, mask_text, searchable};
use crate::coerce::{self, FALSE, TRUE};
use crate::opt::{Kind, ModuleSpec, Opt};
use crate::secrets::{collect_raw_secrets, leaves, masked};
use crate::suggest::nearest;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// How much of a bad value an error shows, in characters.
const SHOWN_CHARS: usize = 80;

/// Reads the environment.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Checks and converts the arguments of one run.
///
/// Keys that start with `_ansible_` are Ansible's own and are skipped. Null counts as not given, and so does an empty string
/// where it cannot be a value: in the environment, in a suboption, for another type than `str`, for a `str` with choices.
///
/// # Errors
/// Every argument that cannot be accepted, in the order of the spec; secrets are masked.
pub fn parse(
    spec: &ModuleSpec,
    raw: &Map<String, Value>,
    env: Env<'_>,
) -> Result<Args, Vec<ArgError>> {
    let mut early = Vec::new();
    for group in spec.options {
        collect_raw_secrets(group, raw, env, &mut early);
    }
    let mut walk = Walk {
        env,
        module: spec.name,
        errors: Vec::new(),
        warnings: Vec::new(),
        given: BTreeSet::new(),
        failed: BTreeSet::new(),
        found: early.clone(),
        searched: searchable(early),
    };
    let values = walk.object(spec.options, raw, &Place::top());
    walk.rules(spec, &values);
    let secrets = searchable(std::mem::take(&mut walk.found));
    if !walk.errors.is_empty() {
        for error in &mut walk.errors {
            error.path = mask_text(&error.path, &secrets);
            error.msg = mask_text(&error.msg, &secrets);
            error.value = error.value.take().map(|v| mask_text(&v, &secrets));
        }
        return Err(walk.errors);
    }
    Ok(Args {
        masked: masked(spec.options, &values),
        warnings: walk
            .warnings
            .iter()
            .map(|w| mask_text(w, &secrets))
            .collect(),
        values,
        given: walk.given,
        secrets,
    })
}

/// Where in the arguments the walk is.
#[derive(Clone)]
struct Place {
    /// Path of the enclosing object; empty at the top.
    path: String,
    /// The object was read from a text that may hold secrets in wrong places: nothing of it may be shown.
    hide: bool,
}

impl Place {
    fn top() -> Place {
        Place {
            path: String::new(),
            hide: false,
        }
    }

    fn is_top(&self) -> bool {
        self.path.is_empty()
    }

    fn of(&self, name: &str) -> String {
        if self.is_top() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

pub(crate) struct Walk<'a> {
    env: Env<'a>,
    module: &'a str,
    pub(crate) errors: Vec<ArgError>,
    warnings: Vec<String>,
    pub(crate) given: BTreeSet<String>,
    /// Options that were given but not accepted; the rules take them as present, so that one mistake is one error.
    pub(crate) failed: BTreeSet<String>,
    found: Vec<String>,
    searched: Vec<String>,
}

impl Walk<'_> {
    fn object(
        &mut self,
        groups: &[&'static [Opt]],
        raw: &Map<String, Value>,
        place: &Place,
    ) -> Map<String, Value> {
        let opts = || groups.iter().flat_map(|g| g.iter());
        for key in raw.keys() {
            let own = place.is_top() && key.starts_with("_ansible_");
            if !own && !opts().any(|o| o.answers_to(key)) {
                self.unknown(key, opts(), place);
            }
        }
        let mut out = Map::new();
        for opt in opts() {
            let path = place.of(opt.name);
            if let Some(value) = self.option(opt, raw, place, &path) {
                out.insert(opt.name.to_owned(), value);
            } else if opt.required && !self.failed.contains(&path) {
                let way_out = match opt.env {
                    Some(variable) => format!(
                        "required and not given; set it in the task or in the environment variable {variable}"
                    ),
                    None => "required and not given".to_owned(),
                };
                self.errors.push(ArgError {
                    path,
                    value: None,
                    msg: way_out,
                });
            }
        }
        out
    }

    fn unknown(&mut self, key: &str, opts: impl Iterator<Item = &'static Opt>, place: &Place) {
        let kind = if place.is_top() {
            "option"
        } else {
            "suboption"
        };
        if place.hide {
            self.errors.push(ArgError {
                path: place.path.clone(),
                value: Some(MASK.to_owned()),
                msg: format!(
                    "holds an unknown {kind} (its name is not shown, as the text may hold secrets)"
                ),
            });
            return;
        }
        let names: Vec<&str> = opts
            .flat_map(|o| std::iter::once(o.name).chain(o.aliases.iter().copied()))
            .collect();
        let hint = match nearest(key, names.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None if place.is_top() => format!("`trueplan spec {}` lists them", self.module),
            None => format!("known are {}", quoted(&names)),
        };
        self.errors.push(ArgError {
            path: place.of(&shorten(key)),
            value: None,
            msg: format!("unknown {kind}; {hint}"),
        });
    }

    /// The value of one option from its name, its aliases, the environment or its default.
    fn option(
        &mut self,
        opt: &'static Opt,
        raw: &Map<String, Value>,
        place: &Place,
        path: &str,
    ) -> Option<Value> {
        let mut taken: Option<(&str, Value)> = None;
        for name in std::iter::once(&opt.name).chain(opt.aliases) {
            let Some(value) = raw.get(*name) else {
                continue;
            };
            if not_given(opt, value, place.is_top()) {
                continue;
            }
            self.given.insert(path.to_owned());
            let Some(value) = self.value(opt, value, path, place.hide) else {
                self.failed.insert(path.to_owned());
                continue;
            };
            match &taken {
                None => taken = Some((name, value)),
                Some((first, kept)) if *kept == value => self.warnings.push(format!(
                    "`{}` and `{}` are one option; give only `{path}`",
                    place.of(first),
                    place.of(name)
                )),
                Some((first, _)) => {
                    self.errors.push(ArgError {
                        path: path.to_owned(),
                        value: None,
                        msg: format!(
                            "`{first}` and `{name}` are one option and have different values; give only `{}`",
                            opt.name
                        ),
                    });
                    self.failed.insert(path.to_owned());
                }
            }
        }
        if taken.is_some() || self.failed.contains(path) {
            return taken.map(|(_, value)| value);
        }
        if let Some(text) = opt
            .env
            .and_then(|v| (self.env)(v))
            .filter(|t| !t.is_empty())
        {
            self.given.insert(path.to_owned());
            let before = self.errors.len();
            let value = self.value(opt, &Value::String(text), path, false);
            for error in &mut self.errors[before..] {
                error.msg = format!(
                    "{} (from the environment variable {})",
                    error.msg,
                    opt.env.unwrap_or_default()
                );
            }
            if value.is_none() {
                self.failed.insert(path.to_owned());
            }
            return value;
        }
        let default = serde_json::from_str(opt.default?).ok()?;
        self.value(opt, &default, path, false)
    }

    /// Converts one value and checks choices and range; on failure the errors are noted and there is none.
    fn value(&mut self, opt: &'static Opt, raw: &Value, path: &str, hide: bool) -> Option<Value> {
        if opt.secret {
            leaves(raw, &mut self.found);
        }
        let before = self.errors.len();
        let value = match opt.kind {
            Kind::List => {
                let Some(items) = coerce::list(raw) else {
                    self.bad(
                        opt,
                        raw,
                        path,
                        hide,
                        "expected a list or comma-separated text",
                    );
                    return None;
                };
                let hide = hide || (!raw.is_array() && opt.holds_secret());
                let mut out = Vec::new();
                for (n, item) in items.iter().enumerate() {
                    let path = format!("{path}[{n}]");
                    if item.is_null() {
                        self.bad(opt, item, &path, hide, "is null; leave the item out");
                    } else if let Some(item) =
                        self.scalar(opt, opt.elements.unwrap_or(Kind::Raw), item, &path, hide)
                    {
                        out.push(item);
                    }
                }
                Value::Array(out)
            }
            kind => self.scalar(opt, kind, raw, path, hide)?,
        };
        (self.errors.len() == before).then_some(value)
    }

    fn scalar(
        &mut self,
        opt: &'static Opt,
        kind: Kind,
        raw: &Value,
        path: &str,
        hide: bool,
    ) -> Option<Value> {
        let value = match kind {
            Kind::Raw => Some(raw.clone()),
            Kind::Str => Some(Value::String(match_choice(
                coerce::python_str(raw),
                opt.choices,
            ))),
            Kind::Path => Some(Value::String(coerce::expand_path(
                &coerce::python_str(raw),
                self.env,
            ))),
            Kind::Int => coerce::int(raw).map(Value::from),
            Kind::Float => coerce::float(raw).map(coerce::number),
            Kind::Bool => coerce::boolean(raw).map(Value::Bool),
            Kind::List => coerce::list(raw).map(Value::Array),
            Kind::Dict => {
                let map = match coerce::dict(raw) {
                    Ok(map) => map,
                    Err(why) => {
                        self.bad(
                            opt,
                            raw,
                            path,
                            hide,
                            &format!("expected a dictionary; {why}"),
                        );
                        return None;
                    }
                };
                if opt.options.is_empty() {
                    return Some(Value::Object(map));
                }
                let hide = hide || (!raw.is_object() && opt.holds_secret());
                let place = Place {
                    path: path.to_owned(),
                    hide,
                };
                return Some(Value::Object(self.object(&[opt.options], &map, &place)));
            }
        };
        let Some(value) = value else {
            let expected = match kind {
                Kind::Int => "expected a whole number of 64 bits",
                Kind::Float => "expected a number",
                Kind::Bool => "expected true or false (yes, no, on, off, 1, 0)",
                _ => "expected a list",
            };
            self.bad(opt, raw, path, hide, expected);
            return None;
        };
        if opt.secret && kind != Kind::Raw {
            leaves(&value, &mut self.found);
        }
        let text = plain(&value);
        if !opt.choices.is_empty() && !opt.choices.iter().any(|c| same_choice(c, &text, kind)) {
            let hint = match nearest(&text, opt.choices.iter().copied()) {
                _ if opt.secret || hide || kind != Kind::Str => String::new(),
                _ if matches!(text.as_str(), "True" | "False") => {
                    " (YAML reads on, off, yes and no as booleans: quote the word)".to_owned()
                }
                Some(choice) => format!("; did you mean `{choice}`?"),
                None => String::new(),
            };
            let msg = format!("expected one of {}{hint}", quoted(opt.choices));
            self.bad(opt, raw, path, hide, &msg);
            return None;
        }
        if let (Some((min, max)), Some(number)) = (opt.range, value.as_f64()) {
            let inside = match value.as_i64() {
                Some(n) => (min..=max).contains(&n),
                None => number >= min as f64 && number <= max as f64,
            };
            if !inside {
                self.bad(opt, raw, path, hide, &format!("expected {min} to {max}"));
                return None;
            }
        }
        Some(value)
    }

    /// Notes an error about a value; the value is shown only if no secret can be in it.
    fn bad(&mut self, opt: &Opt, raw: &Value, path: &str, hide: bool, msg: &str) {
        let shown = if hide || opt.holds_secret() {
            MASK.to_owned()
        } else {
            shorten(&mask_text(&plain(raw), &self.searched))
        };
        self.errors.push(ArgError {
            path: path.to_owned(),
            msg: format!("{msg}, got `{shown}`"),
            value: Some(shown),
        });
    }
}

/// Whether a raw value counts as not given.
fn not_given(opt: &Opt, value: &Value, top: bool) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) if s.is_empty() && !opt.keep_empty => {
            let choice = !opt.choices.is_empty() && !opt.choices.contains(&"");
            !top || opt.kind != Kind::Str || choice
        }
        _ => false,
    }
}

/// YAML reads an unquoted `on` as a boolean: if exactly one choice is such a word, it is meant.
///
/// Source: ansible-core lib/ansible/module_utils/common/parameters.py, `_validate_argument_values`.
fn match_choice(text: String, choices: &[&str]) -> String {
    if choices.contains(&text.as_str()) {
        return text;
    }
    let words = match text.as_str() {
        "True" => &TRUE,
        "False" => &FALSE,
        _ => return text,
    };
    let mut meant = choices.iter().filter(|c| words.contains(c));
    match (meant.next(), meant.next()) {
        (Some(choice), None) => (*choice).to_owned(),
        _ => text,
    }
}

/// Choices are text; booleans and floats have more than one spelling.
pub(crate) fn same_choice(choice: &str, text: &str, kind: Kind) -> bool {
    choice == text
        || match kind {
            Kind::Bool => choice.eq_ignore_ascii_case(text),
            Kind::Float => choice.parse::<f64>().ok() == text.parse::<f64>().ok(),
            Kind::Raw => matches!(text, "true" | "false") && choice.eq_ignore_ascii_case(text),
            _ => false,
        }
}

/// A string as it is, anything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    names.join(", ")
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
