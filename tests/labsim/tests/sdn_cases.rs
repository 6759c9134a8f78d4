//! Replays the recorded SDN sequence in its order from the recorded starting world, and prints how much agrees.
mod common;
use common::{Client, signed};
use serde_json::{Map, Value, json};

/// What the recording installation had and a simulation cannot know: see `data/README.md` and docs/pve-sdn.md (limits of the installation).
fn world() -> Value {
    let mut world = common::starting_world();
    // Its kernel had no VLAN filtering, so the VLAN-aware vnet never came up.
    world["sdn"]["no_vlan_filtering"] = json!(true);
    world
}

/// Values that differ between any two runs.
fn neutral(v: &Value) -> Value {
    match v {
        Value::Object(o) => {
            let mut out = Map::new();
            for (k, v) in o {
                let v = if k == "digest" && v.is_string() {
                    json!("<digest>")
                } else {
                    neutral(v)
                };
                out.insert(k.clone(), v);
            }
            out.into()
        }
        Value::Array(a) => {
            let mut list: Vec<Value> = a.iter().map(neutral).collect();
            // The real lists come out of hashes.
            list.sort_by_key(|v| {
                let key = |k: &str| v[k].as_str().unwrap_or("").to_string();
                format!(
                    "{}|{}|{}|{}",
                    key("vnet"),
                    key("zone"),
                    key("id"),
                    key("subnet")
                )
            });
            list.into()
        }
        other => other.clone(),
    }
}

fn is_upid(v: &Value) -> bool {
    v.as_str().is_some_and(|s| s.starts_with("UPID:"))
}

fn is_uuid(v: &Value) -> bool {
    v.as_str()
        .is_some_and(|s| s.len() == 36 && s.split('-').count() == 5)
}

/// The interfaces of a dry run that are to come: the rest of the diff holds times and process numbers.
fn autos(v: &Value) -> Vec<String> {
    let text = v["interfaces-diff"].as_str().unwrap_or("");
    text.lines()
        .filter(|l| l.starts_with("+auto "))
        .map(str::to_string)
        .collect()
}

fn same_data(id: &str, ours: &Value, theirs: &Value) -> bool {
    if id == "sdn-dry-run" {
        return autos(ours) == autos(theirs) && !autos(ours).is_empty();
    }
    if is_upid(theirs) {
        let kind = |v: &Value| {
            v.as_str()
                .map(|s| s.split(':').skip(5).map(str::to_string).collect::<Vec<_>>())
        };
        return is_upid(ours) && kind(ours) == kind(theirs);
    }
    if is_uuid(theirs) {
        return is_uuid(ours);
    }
    if id == "resources-all-sdn" {
        // The recording kept the network entries only.
        let networks: Vec<Value> = ours
            .as_array()
            .into_iter()
            .flatten()
            .filter(|r| r["type"] == "network")
            .cloned()
            .collect();
        return neutral(&networks.into()) == neutral(theirs);
    }
    neutral(ours) == neutral(theirs)
}

#[test]
fn sdn_cases_agree() {
    let lab = common::lab(&world());
    let recorded: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/sdn-cases.json")).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    let mut tokens: Map<String, Value> = Map::new();
    let (mut agree, mut wrong) = (0, Vec::new());
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let client: Client = signed(&lab, case["as_"].as_str().unwrap());
        let mut params = case["request"]["params"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        if let Some(token) = params
            .get("lock-token")
            .and_then(Value::as_str)
            .and_then(|t| tokens.get(t))
        {
            params.insert("lock-token".into(), token.clone());
        }
        let method = case["request"]["method"].as_str().unwrap();
        let answer = client.call(method, case["request"]["path"].as_str().unwrap(), &params);
        let want = &case["response"];
        let mut why = Vec::new();
        if json!(answer.status) != want["status"] {
            why.push(format!("status {} not {}", answer.status, want["status"]));
        }
        // The real reason phrase of a success is OK.
        let reason = answer.reason.clone().unwrap_or_else(|| "OK".into());
        if json!(reason) != want["reason"] {
            why.push(format!("reason {reason:?} not {}", want["reason"]));
        }
        for key in ["message", "errors"] {
            if answer.body[key] != want[key] {
                why.push(format!("{key} {} not {}", answer.body[key], want[key]));
            }
        }
        if !same_data(id, &answer.body["data"], &want["data"]) {
            why.push(format!("data {} not {}", answer.body["data"], want["data"]));
        }
        if is_upid(&want["data"]) && is_upid(&answer.body["data"]) {
            let (exit, log) = client.wait(answer.body["data"].as_str().unwrap());
            if json!(exit) != want["task_exitstatus"] || json!(log) != want["task_log"] {
                why.push(format!(
                    "task {exit:?} {log:?} not {} {}",
                    want["task_exitstatus"], want["task_log"]
                ));
            }
        }
        if is_uuid(&want["data"]) {
            tokens.insert(
                want["data"].as_str().unwrap().to_string(),
                answer.body["data"].clone(),
            );
        }
        if let Some(after) = case["after"].as_object() {
            let root = signed(&lab, "root");
            for (view, want) in after {
                let (kind, flag) = view.split_once('_').unwrap_or((view, ""));
                let mut query = Map::new();
                if !flag.is_empty() {
                    query.insert(flag.into(), json!(1));
                }
                let got = root
                    .call("GET", &format!("/cluster/sdn/{kind}"), &query)
                    .body["data"]
                    .clone();
                if neutral(&got) != neutral(want) {
                    why.push(format!("afterwards {view} {got} not {want}"));
                }
            }
        }
        if why.is_empty() {
            agree += 1;
        } else {
            wrong.push(format!("{id}: {}", why.join("; ")));
        }
    }
    println!("sdn-cases: {agree} of {} agree", cases.len());
    for w in &wrong {
        println!("  {w}");
    }
    assert!(
        agree * 100 >= cases.len() * 95,
        "sdn-cases: only {agree} of {} agree",
        cases.len()
    );
}
