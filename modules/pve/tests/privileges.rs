//! The privileges predicted for writing requests, judged against what the real server granted and denied
//! (tests/fixtures/pve/privileges.json).
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use pve::needs::{Request, needs, root_only};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// What cannot be predicted from the path and its privileges, with the reason (docs/pve-privileges.md).
const EXCEPTIONS: &[(&str, &str)] = &[(
    "create: pool that does not exist",
    "a 403 that is no permission problem: the pool does not exist",
)];

fn cases() -> Vec<Value> {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pve/privileges.json");
    let text = std::fs::read_to_string(file)
        .unwrap()
        .replace("{vmid}", "5000")
        .replace("{vmid2}", "5001");
    serde_json::from_str::<Value>(&text).unwrap()["cases"]
        .as_array()
        .unwrap()
        .clone()
}

/// The guest as the recording's requests found it; which drives it had is told by the operations' names.
fn current(operation: &str) -> Map<String, Value> {
    let mut config = json!({
        "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
        "scsi0": "data:5000/vm-5000-disk-0.raw,size=1G",
        "name": "n",
    });
    if operation.contains("unused0") {
        config["unused0"] = json!("data:5000/vm-5000-disk-0.raw");
        config.as_object_mut().unwrap().remove("scsi0");
    }
    if operation.contains("sata0") {
        config["sata0"] = json!("none,media=cdrom");
    }
    if operation.starts_with("create") {
        config = json!({});
    }
    config.as_object().unwrap().clone()
}

/// `Permission check failed (/vms/100, VM.Config.Disk|VM.Config.CDROM)`: the path, and the privileges of which one is enough.
fn refused_for(message: &str) -> Option<(String, Vec<String>)> {
    let (path, rest) = message.split_once("check failed (")?.1.split_once(", ")?;
    let (any, _) = rest.split_once(')')?;
    // `(/, Sys.Modify for modifying tag 'X')` depends on options of the datacenter.
    (path.starts_with('/') && !any.contains(' '))
        .then(|| (path.to_owned(), any.split('|').map(str::to_owned).collect()))
}

#[test]
fn denials_are_predicted() {
    let zone_of = |vnet: &str| match vnet {
        "vn1" => Some("zs".to_string()),
        "vq1" => Some("zq".to_string()),
        _ => None,
    };
    let (mut agree, mut total, mut unexpected, mut known) = (0, 0, Vec::new(), 0);
    let (mut named, mut named_right, mut misnamed) = (0, 0, Vec::new());
    for case in cases() {
        let operation = case["operation"].as_str().unwrap();
        let method = case["request"]["method"].as_str().unwrap();
        if method == "GET" {
            continue;
        }
        let params = case["request"]["params"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let request = Request {
            method,
            path: case["request"]["path"].as_str().unwrap(),
            params: &params,
        };
        let config = current(operation);
        let granted: Vec<(String, String, bool)> = case["granted"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|g| {
                (
                    g[0].as_str().unwrap().into(),
                    g[1].as_str().unwrap().into(),
                    g[2] == 1,
                )
            })
            .collect();
        let missing: Vec<_> = needs(&request, &config, &zone_of)
            .into_iter()
            .filter(|n| {
                !n.met(|path, privilege| {
                    granted.iter().any(|(p, g, propagate)| {
                        g == privilege
                            && (p == path || *propagate && path.starts_with(&format!("{p}/")))
                    })
                })
            })
            .collect();
        let root = root_only(&request, &config);
        let message = case["message"].as_str().unwrap_or_default();
        let root_refused = message.contains("nly root");
        let (ok, denied) = (case["ok"] == true, case["denied"] == true);
        if !ok && !denied && !root_refused {
            continue; // Refused for its values or the guest's state, whatever the privileges.
        }
        total += 1;
        // The server names the first that is missing; ours must be among what we say is missing.
        if let Some((path, any)) = refused_for(message).filter(|_| denied) {
            named += 1;
            if missing.iter().any(|n| {
                any.iter()
                    .all(|p| n.0.iter().any(|(at, has)| *at == path && has == p))
            }) {
                named_right += 1;
            } else {
                misnamed.push(format!(
                    "{operation}: server {path} {any:?}; we {missing:?}"
                ));
            }
        }
        let right = match (denied, root_refused) {
            (true, _) => !missing.is_empty() || !root.is_empty(),
            (_, true) => !root.is_empty(),
            _ => missing.is_empty() && root.is_empty(),
        };
        match (right, EXCEPTIONS.iter().find(|(o, _)| *o == operation)) {
            (true, _) => agree += 1,
            (false, Some((o, reason))) => {
                known += 1;
                println!("exception: {o}: {reason}");
            }
            (false, None) => unexpected.push(format!(
                "{operation} [{}]: granted {granted:?}; denied {denied} ({message:?}); predicted missing {missing:?}, root {root:?}",
                case["role"]
            )),
        }
    }
    println!("privileges: {agree} of {total}");
    println!("privileges: path and privilege of {named_right} of {named} denials that name them");
    for m in &misnamed {
        println!("exception: {m}");
    }
    assert!(
        named > 300 && named_right * 100 >= named * 98,
        "{named_right} of {named}"
    );
    assert!(
        unexpected.is_empty(),
        "{} unexpected:\n{}",
        unexpected.len(),
        unexpected.join("\n")
    );
    assert!(known <= 1 && total > 1000, "{known} {total}");
}
