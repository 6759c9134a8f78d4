//! Volume names, boot orders and comparison judged against what the real server did
//! (tests/fixtures/pve/create-config-cases.json, in its order).
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use pve::config::{Compare, Config, differing, drives};
use pve::volume::{DriveFile, Namer, allocation_order};
use pve::{PropString, Volid};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn cases() -> Vec<Value> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/pve/create-config-cases.json");
    let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    json["cases"].as_array().unwrap().clone()
}

/// The guest, whether the request creates it, and the options; None for other requests.
fn config_request(case: &Value) -> Option<(u32, bool, Map<String, Value>)> {
    let path = case["request"]["path"].as_str()?;
    let params = case["request"]["params"].as_object()?.clone();
    let parts: Vec<&str> = path.split('/').collect();
    match (case["request"]["method"].as_str()?, parts.as_slice()) {
        ("POST", ["", "nodes", _, "qemu"]) => {
            Some((params.get("vmid")?.as_u64()? as u32, true, params))
        }
        ("PUT" | "POST", ["", "nodes", _, "qemu", id, "config"]) => {
            Some((id.parse().ok()?, false, params))
        }
        _ => None,
    }
}

fn guest_of(case: &Value) -> Option<u32> {
    case["request"]["path"]
        .as_str()?
        .split('/')
        .nth(4)?
        .parse()
        .ok()
}

fn volumes(config: &Config) -> Vec<Volid> {
    drives(config)
        .iter()
        .filter_map(|d| match DriveFile::of(d)? {
            DriveFile::Volume(v) => Some(v),
            _ => None,
        })
        .collect()
}

#[test]
fn new_volumes_get_the_predicted_names() {
    let mut before: BTreeMap<u32, Config> = BTreeMap::new();
    let (mut right, mut wrong) = (0, Vec::new());
    for case in cases() {
        // A request that is only replayed for its effect leaves the guest's volumes unknown.
        let Some(after) = case["config_after"].as_object().cloned() else {
            guest_of(&case).map(|id| before.remove(&id));
            continue;
        };
        let Some((vmid, create, params)) = config_request(&case) else {
            guest_of(&case).map(|id| before.insert(id, after));
            continue;
        };
        if case["outcome"] == "ok" {
            let known = match before.get(&vmid) {
                _ if create => Vec::new(),
                Some(config) => volumes(config),
                None => {
                    before.insert(vmid, after);
                    continue;
                }
            };
            let mut namer = Namer::new(vmid);
            for storage in ["local", "data", "imgonly"] {
                namer.storage(storage, "dir", &known);
            }
            let working = params.get("import-working-storage").and_then(Value::as_str);
            for key in allocation_order(params.keys().map(String::as_str)) {
                let Some(drive) = params[key]
                    .as_str()
                    .and_then(|t| PropString::parse(key, t).ok())
                else {
                    continue;
                };
                if !drive.key().is_drive() {
                    continue;
                }
                let Some(predicted) = namer.for_drive(&drive, working) else {
                    continue;
                };
                let stored = after
                    .get(key)
                    .and_then(Value::as_str)
                    .and_then(|t| PropString::parse(key, t).ok());
                match stored.as_ref().and_then(|s| s.get("file")) {
                    Some(file) if file == predicted.to_string() => right += 1,
                    other => wrong.push(format!(
                        "{} {key}: predicted {predicted}, server {other:?}",
                        case["id"]
                    )),
                }
            }
        }
        before.insert(vmid, after);
    }
    println!(
        "volume names: {right} of {} as predicted",
        right + wrong.len()
    );
    assert!(wrong.is_empty() && right >= 20, "{}", wrong.join("\n"));
}

#[test]
fn a_new_guest_gets_the_predicted_boot_order() {
    let (mut right, mut wrong) = (0, Vec::new());
    for case in cases() {
        let Some((_, true, params)) = config_request(&case) else {
            continue;
        };
        let Some(after) = case["config_after"].as_object() else {
            continue;
        };
        if case["outcome"] != "ok" || params.contains_key("boot") || params.contains_key("archive")
        {
            continue;
        }
        let predicted = pve::boot::print_order(&pve::boot::default_order(after));
        match after.get("boot").and_then(Value::as_str) {
            Some(boot) if boot.trim() == predicted => right += 1,
            other => wrong.push(format!(
                "{}: predicted {predicted:?}, server {other:?}",
                case["id"]
            )),
        }
    }
    println!(
        "boot orders of new guests: {right} of {} as predicted",
        right + wrong.len()
    );
    assert!(wrong.is_empty() && right >= 15, "{}", wrong.join("\n"));
}

/// After a request that went well, its options do not differ from what the server stored, as comparison sees it.
#[test]
fn what_was_written_is_no_difference_afterwards() {
    let (mut same, mut differ) = (0, Vec::new());
    for case in cases() {
        let Some((_, _, params)) = config_request(&case) else {
            continue;
        };
        let Some(after) = case["config_after"].as_object() else {
            continue;
        };
        if case["outcome"] != "ok" || params.contains_key("archive") {
            continue;
        }
        let mut wish = Map::new();
        for (key, value) in &params {
            let Ok(k) = key.parse::<pve::ConfigKey>() else {
                continue;
            };
            // Only what is stored under its own name: new volumes get names, masked and generated values stay unseen.
            let generated = key == "cipassword"
                || key == "cdrom"
                || !after.contains_key(key) && value.as_str() != Some("");
            if generated || value.is_null() {
                continue;
            }
            let text = pve::config::text_of(value).unwrap();
            if k.is_drive() {
                let (Ok(wanted), Some(stored)) =
                    (PropString::parse(key, &text), after[key].as_str())
                else {
                    continue;
                };
                let stored = PropString::parse(key, stored).unwrap();
                let (wanted, stored) = (wanted.options_only(), stored.options_only());
                match wanted.diff(&stored) {
                    d if d.is_empty() => same += 1,
                    d => differ.push(format!("{} {key}: {d:?}", case["id"])),
                }
                continue;
            }
            if k.is_net() {
                // The server adds an address: what was named must be there.
                let wanted = PropString::parse(key, &text).unwrap();
                let stored = PropString::parse(key, after[key].as_str().unwrap()).unwrap();
                if stored.merge(&wanted) == stored || stored.merge(&wanted).same_as(&stored) {
                    same += 1;
                } else {
                    differ.push(format!("{} {key}: {text} / {stored}", case["id"]));
                }
                continue;
            }
            wish.insert(key.clone(), value.clone());
        }
        let compare = Compare::default();
        let found = differing(after, &wish, &compare);
        same += wish.len() - found.len();
        differ.extend(found.iter().map(|k| {
            format!(
                "{} {k}: wished {}, stored {:?}",
                case["id"],
                wish[*k],
                after.get(*k)
            )
        }));
    }
    println!(
        "written options: {same} of {} compare equal",
        same + differ.len()
    );
    assert!(
        differ.is_empty() && same > 80,
        "{same} same; {}",
        differ.join("\n")
    );
}
