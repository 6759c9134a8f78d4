//! The recorded API schema: finds routes, validates parameters, checks permissions, frames answers.
use super::access::Auth;
use super::{Call, Lab, PveError, Router, State, formats, propstr};
use crate::http::{Kind, Req, Resp};
use crate::log;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../fixtures/pve/api-schema.json"))
        .unwrap_or_else(|e| panic!("api-schema.json: {e}"))
});

/// The recorded description of a method, or `None`.
pub fn method(template: &str, method: &str) -> Option<&'static Value> {
    SCHEMA["paths"].get(template)?.get(method)
}

/// What a path's placeholders hold.
type Found = Vec<(String, String)>;

/// Finds the template of a path and what its placeholders hold; literal segments win over placeholders. `{volume}` takes the rest.
fn find(path: &str) -> Option<(&'static str, Found)> {
    let segments: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let mut best: Option<(&str, Found, usize)> = None;
    for template in SCHEMA["paths"].as_object()?.keys() {
        let parts: Vec<&str> = template.split('/').collect();
        let rest = parts.last() == Some(&"{volume}") && segments.len() >= parts.len();
        if parts.len() != segments.len() && !rest {
            continue;
        }
        let mut found = Vec::new();
        let mut literal = 0;
        let fits = parts.iter().enumerate().all(|(i, part)| {
            if let Some(name) = part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
                let raw = if rest && i == parts.len() - 1 {
                    segments[i..].join("/")
                } else {
                    segments[i].to_string()
                };
                found.push((name.to_string(), log::decode(&raw, false)));
                !segments[i].is_empty()
            } else {
                literal += 1;
                *part == segments[i]
            }
        });
        if fits && best.as_ref().is_none_or(|(_, _, n)| literal > *n) {
            best = Some((template, found, literal));
        }
    }
    best.map(|(t, f, _)| (t, f))
}

/// Answers one request.
pub fn handle(lab: &Arc<Lab>, router: &Router, req: &Req) -> Resp {
    let mut resp = Resp {
        kind: if req.method == "GET" {
            Kind::Read
        } else {
            Kind::Write
        },
        ..Resp::default()
    };
    resp.headers.push((
        "content-type".into(),
        "application/json;charset=UTF-8".into(),
    ));
    let bare = |mut resp: Resp, status: u16, reason: &str| {
        resp.status = status;
        resp.reason = Some(reason.to_string());
        resp
    };
    let Some(path) = req.path.strip_prefix("/api2/json") else {
        return bare(resp, 404, &format!("no such file '{}'", req.path));
    };
    if !["GET", "POST", "PUT", "DELETE"].contains(&req.method.as_str()) {
        return bare(resp, 501, &format!("method '{}' not available", req.method));
    }
    if path == "/access/ticket" {
        resp.kind = Kind::Auth;
    }
    let auth = if path == "/access/ticket" {
        Auth::default()
    } else {
        match lab.authenticate(req) {
            Ok(auth) => auth,
            Err(text) => return bare(resp, 401, &text),
        }
    };
    resp.user = auth.authid();
    if !req.body.is_empty() && !matches!(req.method.as_str(), "POST" | "PUT") {
        return bare(
            resp,
            501,
            &format!("Unexpected content for method '{}'", req.method),
        );
    }
    let result = answer(lab, router, req, path, auth, &mut resp);
    let body = match result {
        Ok(data) => {
            resp.status = 200;
            // Lists with a total carry it beside the data, as the task list and log do.
            match data {
                Value::Object(mut o) if o.contains_key("\0total") => {
                    let total = o.remove("\0total");
                    json!({"data": o.remove("\0data"), "total": total})
                }
                data => json!({"data": data}),
            }
        }
        Err(e) => {
            resp.status = e.status;
            resp.reason = Some(e.message.lines().next().unwrap_or("").to_string());
            if e.status == 595 || e.status == 506 {
                return resp;
            }
            // 501 for an unknown path has no newline at its end, everything else has one (recorded: bad-path).
            let message = if e.status == 501 {
                e.message.clone()
            } else {
                format!("{}\n", e.message.trim_end_matches('\n'))
            };
            if e.errors.is_empty() {
                json!({"data": null, "message": message})
            } else {
                json!({"data": null, "message": message, "errors": e.errors})
            }
        }
    };
    resp.body = body.to_string().into_bytes();
    resp
}

/// A list together with its total, as `/nodes/N/tasks` answers.
pub fn with_total(data: Value, total: usize) -> Value {
    json!({"\0data": data, "\0total": total})
}

fn answer(
    lab: &Arc<Lab>,
    router: &Router,
    req: &Req,
    path: &str,
    auth: Auth,
    resp: &mut Resp,
) -> Result<Value, PveError> {
    let sent = parameters(req)?;
    let unknown = || {
        PveError::new(
            501,
            format!(
                "Method '{} {}' not implemented",
                req.method,
                log::decode(path, false)
            ),
        )
    };
    let (template, found) = find(path).ok_or_else(unknown)?;
    let info = method(template, &req.method).ok_or_else(unknown)?;
    resp.note = info["name"].as_str().unwrap_or("").to_string();
    let mut raw: Vec<(String, Value)> = found
        .into_iter()
        .map(|(k, v)| (k, Value::String(v)))
        .collect();
    for (k, v) in sent {
        // What the path says cannot be said otherwise in the body.
        if !raw.iter().any(|(have, _)| *have == k) {
            raw.push((k, v));
        }
    }
    let mut call = Call {
        method: req.method.clone(),
        template: template.to_string(),
        params: raw.iter().cloned().collect(),
        auth,
    };
    if call.auth.token.is_some() && info["allowtoken"].as_i64() == Some(0) {
        return Err(PveError::denied(&format!(
            "URI '{path}' not available with API token, need proper ticket.\n"
        )));
    }
    let denied = {
        let st = lab.st();
        permitted(&st, &call, &info["permissions"]).err()
    };
    if let Some(e) = denied {
        return Err(e);
    }
    if let Some(node) = call
        .text("node")
        .filter(|_| template.starts_with("/nodes/{node}"))
    {
        let st = lab.st();
        match st.nodes.iter().find(|n| n.name == node) {
            None => {
                return Err(PveError::die(format!(
                    "hostname lookup '{node}' failed - failed to get address info for: {node}: Temporary failure in name resolution"
                )));
            }
            Some(n) if !n.online => return Err(PveError::new(595, "No route to host")),
            Some(_) => {}
        }
    }
    call.params = validate(&info["parameters"], &raw)?;
    let Some(handler) = router.get(&req.method, template) else {
        return Err(PveError::new(
            501,
            format!("labsim: not implemented: {} {template}", req.method),
        ));
    };
    handler(lab, &call)
}

/// Query and body parameters as the real server reads them.
fn parameters(req: &Req) -> Result<Vec<(String, Value)>, PveError> {
    let mut all: Vec<(String, Value)> = Vec::new();
    let mut add_form = |text: &str| {
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            // The real server splits each pair at EVERY `=` and keeps the first two parts (docs/pve-facts.md, wire format).
            let mut parts = pair.split('=');
            let key = log::decode(parts.next().unwrap_or(""), true);
            let value = log::decode(parts.next().unwrap_or(""), true);
            match all.iter_mut().find(|(k, _)| *k == key) {
                Some((_, Value::Array(list))) => list.push(value.into()),
                Some((_, old)) => *old = json!([old.clone(), value]),
                None => all.push((key, Value::String(value))),
            }
        }
    };
    add_form(&req.query);
    if req.body.is_empty() {
        return Ok(all);
    }
    let kind = req
        .header("content-type")
        .unwrap_or("application/x-www-form-urlencoded");
    match kind.split(';').next().unwrap_or("").trim() {
        "application/x-www-form-urlencoded" => add_form(&String::from_utf8_lossy(&req.body)),
        "application/json" => match serde_json::from_slice(&req.body) {
            Ok(Value::Object(map)) => all.extend(map.into_iter().filter(|(_, v)| !v.is_null())),
            _ => return Err(PveError::new(400, "unable to decode JSON body")),
        },
        other => {
            return Err(PveError::new(
                506,
                format!("upload 'Content-Type '{other}' not implemented"),
            ));
        }
    }
    Ok(all)
}

/// The schema of a parameter, with `[n]` families resolved.
fn property<'a>(properties: &BTreeMap<&str, &'a Value>, name: &str) -> Option<&'a Value> {
    if let Some(p) = properties.get(name) {
        return Some(p);
    }
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 {
        return None;
    }
    let (stem, number) = name.split_at(name.len() - digits);
    let p = properties.get(format!("{stem}[n]").as_str())?;
    let n: i64 = number.parse().ok()?;
    (n.to_string() == number && n >= p["index_min"].as_i64()? && n <= p["index_max"].as_i64()?)
        .then_some(p)
}

fn validate(
    schema: &'static Value,
    raw: &[(String, Value)],
) -> Result<Map<String, Value>, PveError> {
    let mut properties: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut take = |part: &'static Value| {
        for (k, v) in part["properties"].as_object().into_iter().flatten() {
            properties.insert(k, v);
        }
    };
    take(schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        take(part);
        part["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(&mut take);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        if let Some(name) = part["type-property"].as_str() {
            properties.insert(name, &part["type-property-schema"]);
        }
    }
    let mut errors = BTreeMap::new();
    let mut good = Map::new();
    for (name, value) in raw {
        let Some(p) = property(&properties, name) else {
            errors.insert(
                name.clone(),
                "property is not defined in schema and the schema does not allow additional properties".to_string(),
            );
            continue;
        };
        match check_param(name, p, value) {
            Ok(v) => {
                good.insert(name.clone(), v);
            }
            Err(e) => {
                errors.insert(name.clone(), e);
            }
        }
    }
    for (name, p) in &properties {
        let sent = raw.iter().any(|(k, _)| k == *name);
        if !sent && p["optional"].as_i64() != Some(1) && !name.ends_with("[n]") {
            errors.insert(
                name.to_string(),
                "property is missing and it is not optional".into(),
            );
        }
        if let Some(other) = p["requires"]
            .as_str()
            .filter(|o| sent && !raw.iter().any(|(k, _)| k == o))
        {
            errors.insert(
                other.to_string(),
                format!("missing property - '{name}' requires this property"),
            );
        }
    }
    if errors.is_empty() {
        Ok(good)
    } else {
        Err(PveError::params(errors))
    }
}

fn check_param(name: &str, p: &Value, value: &Value) -> Result<Value, String> {
    if p["type"] == "array" {
        let items = match value {
            Value::Array(items) => items.clone(),
            one => vec![one.clone()],
        };
        return Ok(Value::Array(items));
    }
    let text = match value {
        Value::String(s) => s.clone(),
        Value::Bool(b) => u8::from(*b).to_string(),
        Value::Number(n) => n.to_string(),
        // Repeated form keys and JSON arrays are lists; only list formats can read them.
        Value::Array(items) => items
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_string))
            .collect::<Vec<_>>()
            .join("\0"),
        Value::Object(_) => {
            return Err(format!(
                "type check ('{}') failed - got HASH",
                p["type"].as_str().unwrap_or("string")
            ));
        }
        Value::Null => String::new(),
    };
    if let Some(variants) = p["oneOf"].as_array() {
        let mut last = Ok(Value::String(text.clone()));
        for v in variants {
            last = check_param(name, v, value);
            if last.is_ok() {
                break;
            }
        }
        return last;
    }
    propstr::check_param(name, p, &text)?;
    if let Some(format) = p["format"].as_str() {
        formats::check(format, &text).map_err(|e| format!("invalid format - {e}"))?;
    }
    Ok(match p["type"].as_str() {
        Some("integer" | "boolean") if !text.starts_with('+') => {
            text.parse::<i64>().map_or(Value::String(text), Value::from)
        }
        _ => Value::String(text),
    })
}

/// The schema's own `permissions`. Errors: 403 in the real texts.
fn permitted(st: &State, call: &Call, permissions: &Value) -> Result<(), PveError> {
    if permissions["user"] == "all" || permissions["user"] == "world" {
        return Ok(());
    }
    match permissions.get("check") {
        Some(check) => rule(st, call, check),
        // Without a rule only the real root may call it.
        None if call.auth.is_root() => Ok(()),
        None => Err(PveError::denied("")),
    }
}

fn rule(st: &State, call: &Call, check: &Value) -> Result<(), PveError> {
    let words = |v: &Value| -> Vec<String> {
        v.as_array()
            .into_iter()
            .flatten()
            .filter_map(|p| p.as_str().map(str::to_string))
            .collect()
    };
    let fill = |template: &str| {
        let mut path = template.to_string();
        for (k, v) in &call.params {
            let text = v.as_str().map_or_else(|| v.to_string(), str::to_string);
            path = path.replace(&format!("{{{k}}}"), &text);
        }
        path
    };
    match check[0].as_str().unwrap_or("") {
        "perm" => {
            let option = |name: &str| {
                let list = check.as_array()?;
                let at = list.iter().position(|v| v == name)?;
                list.get(at + 1)
            };
            if let Some(param) = option("require_param").and_then(Value::as_str)
                && !call.params.contains_key(param)
            {
                return Err(PveError::denied(""));
            }
            let path = fill(check[1].as_str().unwrap_or("/"));
            let privs = words(&check[2]);
            let privs: Vec<&str> = privs.iter().map(String::as_str).collect();
            if option("any").is_some() {
                st.check_any(&call.auth, &path, &privs)
            } else {
                st.check(&call.auth, &path, &privs)
            }
        }
        "and" => check
            .as_array()
            .into_iter()
            .flatten()
            .skip(1)
            .try_for_each(|c| rule(st, call, c)),
        "or" => {
            let ok = check
                .as_array()
                .into_iter()
                .flatten()
                .skip(1)
                .any(|c| rule(st, call, c).is_ok());
            if ok {
                Ok(())
            } else {
                Err(PveError::denied(""))
            }
        }
        "perm-modify" => {
            let path = fill(check[1].as_str().unwrap_or("/"));
            let extra = match path.split('/').nth(1) {
                Some("storage") => vec!["Datastore.Allocate"],
                Some("vms") => vec!["VM.Allocate"],
                Some("pool") => vec!["Pool.Allocate"],
                _ => vec![],
            };
            let privs: Vec<&str> = std::iter::once("Permissions.Modify").chain(extra).collect();
            st.check_any(&call.auth, &path, &privs)
        }
        "userid-param" => {
            let userid = call.arg("userid");
            let ok = if check[1] == "self" {
                call.auth.authid() == userid
            } else {
                let realm = userid.rsplit('@').next().unwrap_or("").to_string();
                let wanted = check[1].as_str().unwrap_or("");
                return st.check(&call.auth, &format!("/access/realm/{realm}"), &[wanted]);
            };
            if ok {
                Ok(())
            } else {
                Err(PveError::denied(""))
            }
        }
        "userid-group" => {
            let privs = words(&check[1]);
            let privs: Vec<&str> = privs.iter().map(String::as_str).collect();
            // Whoever asks is told that there is no such user, but for a user to be made (pve-access-control, RPCEnvironment.pm).
            let userid = call.arg("userid");
            if check[3] != "create" && !st.access.users.contains_key(&userid) {
                return Err(PveError::die(format!("no such user ('{userid}')")));
            }
            st.check_any(&call.auth, "/access/groups", &privs)
                .map_err(|_| PveError::denied(""))
        }
        _ => Err(PveError::denied("")),
    }
}
