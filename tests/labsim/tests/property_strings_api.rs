//! What a real request made of every recorded property string: accepted or not, which parameter failed, what was stored.
mod support;
use serde_json::{Value, json};
use support::{Rig, masked};

fn world() -> Value {
    let mut world: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/starting-world.json")).expect("JSON");
    for entry in world["content"]["data"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        entry["virtual_size"] = json!(2_147_483_648_u64);
    }
    world["timing"] = json!({"task_ms": 0});
    world
}

#[test]
fn requests_with_every_recorded_string() {
    let recording: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/property-strings.json"))
            .expect("JSON");
    let rig = Rig::new("property-strings", world());
    let absolute = rig.dir.join("root/root/abs.qcow2");
    let made = std::process::Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&absolute)
        .arg("1G")
        .status();
    assert!(made.is_ok_and(|s| s.success()));
    let (mut judged, mut agree) = (0, 0);
    for entry in recording["entries"].as_array().expect("entries") {
        let (key, input, api) = (
            entry["key"].as_str().unwrap_or(""),
            &entry["input"],
            &entry["api"],
        );
        if !api.is_object() {
            continue;
        }
        let create = api["method"]
            .as_str()
            .is_some_and(|m| m.starts_with("POST"));
        let vmid = if create { 5000 } else { 5001 };
        for id in [5000, 5001] {
            let _ = labsim::http::Site::set(&rig.pve, &json!({"guest": id, "remove": true}));
            for storage in ["local", "data", "imgonly"] {
                let _ =
                    std::fs::remove_dir_all(rig.dir.join(format!("storage/{storage}/images/{id}")));
            }
        }
        let answer = if create {
            rig.root(
                "POST",
                "/nodes/pve1/qemu",
                json!({"vmid": vmid, key: input}),
            )
        } else {
            rig.done("POST", "/nodes/pve1/qemu", json!({"vmid": vmid}));
            rig.root("PUT", "/nodes/pve1/qemu/5001/config", json!({key: input}))
        };
        let exit = answer
            .data
            .as_str()
            .filter(|d| d.starts_with("UPID"))
            .map(|u| rig.follow(u).0);
        let accepted = answer.status == 200 && exit.as_deref().is_none_or(|e| e == "OK");
        let stored = rig.config(vmid, false)[key].clone();
        let plain = |v: &Value| {
            v.as_str()
                .map_or_else(|| v.to_string(), str::to_string)
                .replace("<AUTO-MAC>", "<RANDOM>")
                .replace("<AUTO-UUID>", "<RANDOM>")
        };
        let mut wrong = Vec::new();
        if api["status"].as_u64() != Some(u64::from(answer.status)) || api["accepted"] != accepted {
            wrong.push(format!(
                "{} {accepted} {:?} {} {exit:?}",
                answer.status,
                answer.errors,
                answer.message.trim()
            ));
        } else if accepted && masked(&plain(&stored)) != masked(&plain(&api["stored"])) {
            wrong.push(format!("stored {stored}"));
        }
        judged += 1;
        if wrong.is_empty() {
            agree += 1;
        } else {
            println!("{key} {input}: {wrong:?}\n    recorded {api}");
        }
    }
    println!("property-strings by request: {agree} of {judged} agree");
    assert!(agree * 100 >= judged * 95, "only {agree} of {judged} agree");
}
