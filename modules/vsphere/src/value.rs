//! Small helpers for raw property trees.

use serde_json::{Map, Value};

/// The value at a dotted path; `None` if it, or something above it, is missing or null.
pub fn at<'a>(v: &'a Value, path: &str) -> Option<&'a Value> {
    let mut v = v;
    for p in path.split('.') {
        v = v.get(p)?;
    }
    (!v.is_null()).then_some(v)
}

/// The string at a dotted path.
pub fn text<'a>(v: &'a Value, path: &str) -> Option<&'a str> {
    at(v, path).and_then(Value::as_str)
}

/// The boolean at a dotted path; false if missing.
pub fn flag(v: &Value, path: &str) -> bool {
    at(v, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The integer at a dotted path.
pub fn int(v: &Value, path: &str) -> Option<i64> {
    at(v, path).and_then(Value::as_i64)
}

/// The list at a dotted path; empty if missing.
pub fn list<'a>(v: &'a Value, path: &str) -> &'a [Value] {
    at(v, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Puts a value at a dotted path, making what is missing above it; objects are merged.
pub fn put(into: &mut Map<String, Value>, path: &str, value: Value) {
    let (first, rest) = path
        .split_once('.')
        .map_or((path, None), |(f, r)| (f, Some(r)));
    match rest {
        Some(rest) => {
            let slot = into
                .entry(first)
                .or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(m) = slot {
                put(m, rest, value);
            }
        }
        None => match (into.get_mut(first), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                for (k, v) in new {
                    put(old, &k, v);
                }
            }
            (_, value) => {
                into.insert(first.to_owned(), value);
            }
        },
    }
}

/// The moid of a reference printed as `vim.Type:moid`, `Type:moid`, with or without quotes.
pub fn moid(reference: &str) -> &str {
    let r = reference.trim_matches('\'');
    r.split_once(':').map_or(r, |(_, m)| m)
}

/// The moid at a dotted path.
pub fn moid_at<'a>(v: &'a Value, path: &str) -> Option<&'a str> {
    text(v, path).map(moid)
}

/// The last part of a `_vimtype`: `vim.vm.device.VirtualDisk` -> `VirtualDisk`.
pub fn class(v: &Value) -> &str {
    text(v, "_vimtype").map_or("", |t| t.rsplit('.').next().unwrap_or(t))
}

/// The WSDL type and moid of a reference printed as `vim.Type:moid`, as `Type:moid`.
pub fn wsdl_ref(reference: &str) -> String {
    let r = reference.trim_matches('\'');
    let (ty, moid) = r.split_once(':').unwrap_or(("ManagedObject", r));
    let ty = crate::schema::schema()
        .any(ty)
        .map_or_else(|| ty.rsplit('.').next().unwrap_or(ty), |t| t.name);
    format!("{ty}:{moid}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_make_and_merge_trees() {
        let mut m = Map::new();
        put(&mut m, "config.name", json!("a"));
        put(&mut m, "config", json!({"uuid": "u"}));
        put(&mut m, "config.hardware.numCPU", json!(2));
        let v = Value::Object(m);
        assert_eq!(
            v,
            json!({"config": {"name": "a", "uuid": "u", "hardware": {"numCPU": 2}}})
        );
        assert_eq!(int(&v, "config.hardware.numCPU"), Some(2));
        assert_eq!(moid("'vim.Datastore:ha:/x'"), "ha:/x");
        assert_eq!(wsdl_ref("vim.HostSystem:host-1"), "HostSystem:host-1");
    }
}
