//! `trueplan prop KEY VALUE`: what the server's parser and printer make of one option's value.

use crate::check::refusal;
use crate::config_key::ConfigKey;
use crate::prop::PropString;
use crate::tags;
use serde_json::{Value, json};

/// Checks and reads one value: `{"parsed": ..., "printed": ...}`; the error says option, value and the way out.
/// A plain value is returned as it is (tags as the server stores them).
pub fn prop_command(key: &str, value: &str) -> Result<Value, String> {
    let parsed_key: ConfigKey = key.parse().map_err(|e| format!("{e}"))?;
    let schema = parsed_key.schema();
    if schema.keys.is_some() {
        let p = PropString::parse_checked(key, value).map_err(|e| e.to_string())?;
        return Ok(json!({"parsed": p.to_json(), "printed": p.print()}));
    }
    if let Some((why, way_out)) = refusal(schema, value) {
        return Err(format!("{key}={value:?} {why}: {way_out}"));
    }
    let printed = match key {
        "tags" => tags::normal(value, tags::TagStyle::default()),
        "description" => value.trim_end().to_string(),
        _ => value.to_string(),
    };
    Ok(json!({"parsed": value, "printed": printed}))
}
