//! Coercion of single values, as Ansible's `check_type_*` do it.
//!
//! Source: ansible-core 2.17 and 2.19, lib/ansible/module_utils/common/validation.py and parsing/convert_bool.py.

use crate::literal::{parse_literal, parse_pairs};
use serde_json::{Map, Number, Value};

/// What Ansible reads as true, in lower case.
pub(crate) const TRUE: [&str; 6] = ["y", "yes", "on", "1", "true", "t"];
/// What Ansible reads as false, in lower case.
pub(crate) const FALSE: [&str; 6] = ["n", "no", "off", "0", "false", "f"];

/// A boolean from a boolean, one of Ansible's words (any case, blanks around), 0 or 1.
pub fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::Number(n) if n.as_f64() == Some(1.0) => Some(true),
        Value::Number(n) if n.as_f64() == Some(0.0) => Some(false),
        Value::String(s) => {
            let word = s.trim().to_lowercase();
            if TRUE.contains(&word.as_str()) {
                Some(true)
            } else {
                FALSE.contains(&word.as_str()).then_some(false)
            }
        }
        _ => None,
    }
}

/// An integer from a number or text without a fraction (`"2"`, `2.0`, `" 2 "`, `"1e3"`); a boolean is 1 or 0, as in Python.
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(b) => Some(i64::from(*b)),
        Value::Number(n) => n.as_i64().or_else(|| {
            let f = n.as_f64()?;
            // 2^63 itself is out; every float below it without a fraction is an exact integer.
            (f.fract() == 0.0 && f.abs() < 9_223_372_036_854_775_808.0).then_some(f as i64)
        }),
        Value::String(s) => decimal(s),
        _ => None,
    }
}

/// The integer that a decimal text says exactly, like Python's `int(Decimal(text))` without a remainder.
fn decimal(text: &str) -> Option<i64> {
    // Python's Decimal takes `_` anywhere.
    let text = text.trim().replace('_', "");
    let (negative, bare) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, &text[..]),
    };
    let (mantissa, exponent) = match bare.find(['e', 'E']) {
        Some(at) => (&bare[..at], bare[at + 1..].parse::<i32>().ok()?),
        None => (bare, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut scale = i64::from(exponent) - i64::try_from(fraction.len()).ok()?;
    while scale < 0 && digits.ends_with('0') && digits.len() > 1 {
        digits.pop();
        scale += 1;
    }
    if digits.bytes().all(|b| b == b'0') {
        return Some(0);
    }
    if !(0..=19).contains(&scale) {
        return None;
    }
    let mut number: i128 = digits.parse().ok()?;
    for _ in 0..scale {
        number = number.checked_mul(10)?;
    }
    i64::try_from(if negative { -number } else { number }).ok()
}

/// Python's float takes `_` between digits only.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    for (i, b) in bytes.iter().enumerate() {
        let digit = |j: Option<usize>| j.and_then(|j| bytes.get(j)).is_some_and(u8::is_ascii_digit);
        if *b == b'_' && !(digit(i.checked_sub(1)) && digit(Some(i + 1))) {
            return None;
        }
    }
    Some(text.replace('_', ""))
}

/// A finite float from a number, a boolean or text.
pub fn float(value: &Value) -> Option<f64> {
    let f = match value {
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Number(n) => n.as_f64()?,
        Value::String(s) => without_underscores(s.trim())?.parse().ok()?,
        _ => return None,
    };
    f.is_finite().then_some(f)
}

/// What Python's `str(value)` prints: `True`, `2.0`, `{'a': 1}`.
pub fn python_str(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => python_repr(other),
    }
}

fn python_repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(n) if n.is_f64() => float_repr(n.as_f64().unwrap_or(0.0)),
        Value::Number(n) => n.to_string(),
        Value::String(s) => string_repr(s),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python_repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{}: {}", string_repr(k), python_repr(v)))
                .collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

/// Python's `repr(float)`: shortest digits, exponents from 1e16 up and below 1e-4, of at least two digits.
fn float_repr(f: f64) -> String {
    if f != 0.0 && (f.abs() >= 1e16 || f.abs() < 1e-4) {
        let text = format!("{f:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{f:?}")
}

fn string_repr(s: &str) -> String {
    let quote = if s.contains('\'') && !s.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 || u32::from(c) == 0x7f => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// A list from a list, a list literal, text split at commas, or a single number.
///
/// A whole list literal (`"[1, 2]"`) is read as such: core 2.17 turns it into a list before the module sees it, core 2.19 does not.
pub(crate) fn list(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items.clone()),
        Value::String(s) => {
            if s.trim_start().starts_with('[') {
                let literal = serde_json::from_str(s)
                    .ok()
                    .or_else(|| parse_literal(s).ok());
                if let Some(Value::Array(items)) = literal {
                    return Some(items);
                }
            }
            Some(
                s.split(',')
                    .map(|part| Value::String(part.to_owned()))
                    .collect(),
            )
        }
        Value::Number(_) | Value::Bool(_) => Some(vec![Value::String(python_str(value))]),
        _ => None,
    }
}

/// A dictionary from a dictionary, JSON, a Python literal or `k=v` text.
///
/// # Errors
/// Why the text cannot be read, without repeating it.
pub(crate) fn dict(value: &Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map.clone()),
        Value::String(s) if s.trim_start().starts_with('{') => {
            if let Ok(Value::Object(map)) = serde_json::from_str(s) {
                return Ok(map);
            }
            match parse_literal(s) {
                Ok(Value::Object(map)) => Ok(map),
                Ok(_) => Err("it is not a dictionary".to_owned()),
                Err(e) => Err(format!("neither JSON nor a Python literal: {e}")),
            }
        }
        Value::String(s) if s.contains('=') => parse_pairs(s),
        _ => Err("give a dictionary, JSON text or k=v pairs".to_owned()),
    }
}

/// Expands `~` and `$VARIABLE` / `${VARIABLE}`, as Python's `expanduser(expandvars(path))`; unknown variables stay.
pub(crate) fn expand_path(path: &str, env: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let (name, len) = match tail.strip_prefix('{') {
            Some(inner) => match inner.find('}') {
                Some(end) => (&inner[..end], end + 2),
                None => ("", 0),
            },
            None => {
                let end = tail
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .unwrap_or(tail.len());
                (&tail[..end], end)
            }
        };
        match Some(name).filter(|n| !n.is_empty()).and_then(env) {
            Some(value) => out.push_str(&value),
            None => {
                out.push('$');
                out.push_str(&tail[..len]);
            }
        }
        rest = &tail[len..];
    }
    out.push_str(rest);
    match out.strip_prefix('~') {
        Some(tail) if tail.is_empty() || tail.starts_with('/') => match env("HOME") {
            Some(home) => format!("{}{tail}", home.trim_end_matches('/')),
            None => out,
        },
        _ => out,
    }
}

/// A JSON number of a finite float.
pub(crate) fn number(f: f64) -> Value {
    Number::from_f64(f).map_or(Value::Null, Value::Number)
}
