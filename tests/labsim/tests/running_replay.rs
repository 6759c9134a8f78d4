//! The 129 recorded changes of a running guest: live, pending, refused by the guest, refused at once.
mod support;
use serde_json::{Value, json};
use support::{Rig, masked};

const MAC: &str = "BC:24:11:00:00:01";

/// The guest of the recordings: firmware only, so that nothing that needs a system in it comes off.
fn world() -> Value {
    json!({
        "nodes": [{"node": "pve1", "status": "online"}],
        "network": [{"iface": "vmbr0", "type": "bridge", "active": 1}, {"iface": "vmbr1", "type": "bridge", "active": 1}],
        "storage": [
            {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "import,iso,images,snippets"},
            {"storage": "data", "type": "dir", "path": "/srv/data", "content": "import,images"},
            {"storage": "isoonly", "type": "dir", "path": "/srv/isoonly", "content": "iso"}],
        "content": {
            "local": [
                {"volid": "local:iso/test.iso", "content": "iso", "format": "iso", "size": 358_400, "virtual_size": 358_400},
                {"volid": "local:import/small.raw", "content": "import", "format": "raw", "size": 67_108_864},
                {"volid": "local:import/tiny.vmdk", "content": "import", "format": "vmdk", "size": 65_536, "virtual_size": 67_108_864},
                {"volid": "local:snippets/user.yaml", "content": "snippets", "format": "snippet", "size": 31, "text": "#cloud-config\n"}],
            "isoonly": [{"volid": "isoonly:iso/other.iso", "content": "iso", "format": "iso", "size": 358_400, "virtual_size": 358_400}]},
        "users": [{"userid": "root@pam", "enable": 1}],
        "timing": {"task_ms": 1},
    })
}

/// A value as both sides must have it: numbers as text, the recording's short forms for MACs and volumes.
fn short(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(s) => s.clone(),
        other => other.to_string(),
    };
    let volume =
        regex::Regex::new(r"^[a-z]+:\d+/vm-\d+-(disk-\d+)\.[a-z0-9]+").expect("a constant");
    let text = volume
        .replace(&text, "$1")
        .replace(MAC, "…:01")
        .replace("BC:24:11:00:00:02", "…:02")
        .replace("BC:24:11:00:00:05", "…:05");
    Some(masked(&text))
}

fn judge(rig: &Rig, vmid: u64, case: &Value) -> Vec<String> {
    let mut params = case["params"].clone();
    let mut wrong = Vec::new();
    let mut body = json!({
        "vmid": vmid, "ostype": "l26", "scsihw": "virtio-scsi-single", "scsi0": "data:1", "scsi1": "data:1", "memory": 128, "cores": 1, "sockets": 1,
        "net0": format!("virtio={MAC},bridge=vmbr0"), "ide2": "none,media=cdrom", "serial0": "socket", "boot": "order=scsi0;net0",
        "kvm": 0, "name": "n1",
    });
    for (key, value) in case["conf"].as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    // Options that a case takes away are there before.
    if let Some(list) = params["delete"].as_str() {
        for (key, value) in [("description", "d1"), ("tags", "t1")] {
            if list == key {
                body[key] = json!(value);
            }
        }
    }
    let base = format!("/nodes/pve1/qemu/{vmid}");
    rig.done("POST", "/nodes/pve1/qemu", body);
    rig.done("POST", &format!("{base}/status/start"), json!({}));
    if case["pre"].is_object() {
        rig.done("PUT", &format!("{base}/config"), case["pre"].clone());
    }
    // The recorded guest had another id.
    let own = regex::Regex::new(r"data:\d+/vm-\d+-").expect("a constant");
    for (_, value) in params.as_object_mut().into_iter().flatten() {
        if let Some(text) = value.as_str() {
            *value = json!(own.replace(text, format!("data:{vmid}/vm-{vmid}-").as_str()));
        }
    }
    let answer = rig.root(
        case["method"].as_str().unwrap_or("PUT"),
        &format!("{base}/config"),
        params.clone(),
    );
    let task = answer.data.as_str().map(|u| rig.follow(u).0);
    if case["status"].as_u64() != Some(u64::from(answer.status)) {
        wrong.push(format!(
            "status {} {} {:?}, recorded {}",
            answer.status,
            answer.message.trim(),
            answer.errors,
            case["status"]
        ));
    }
    let recorded = case["task"].as_str().map(|t| t.trim().to_string());
    if recorded.is_some() && task.as_deref().map(str::trim) != recorded.as_deref() {
        wrong.push(format!("task {task:?}, recorded {recorded:?}"));
    }
    for (name, current) in [("config", false), ("current", true)] {
        let ours = rig.config(vmid, current);
        for (key, value) in case[name].as_object().into_iter().flatten() {
            // The recorder shows a few keys only; a generation id given anew is random on both sides.
            if short(&ours[key]) != short(value) {
                wrong.push(format!(
                    "{name} {key}: {:?}, recorded {:?}",
                    short(&ours[key]),
                    short(value)
                ));
            }
        }
    }
    let rows = rig.root("GET", &format!("{base}/pending"), json!({})).data;
    let waiting = |key: &str| {
        rows.as_array()
            .into_iter()
            .flatten()
            .find(|r| r["key"] == key)
            .cloned()
            .unwrap_or_default()
    };
    for (key, entry) in case["pending_endpoint"].as_object().into_iter().flatten() {
        let ours = waiting(key);
        for part in ["pending", "delete"] {
            if short(&ours[part]) != short(&entry[part]) {
                wrong.push(format!(
                    "pending {key} {part}: {:?}, recorded {:?}",
                    short(&ours[part]),
                    short(&entry[part])
                ));
            }
        }
    }
    for key in case["other_pending"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if waiting(key).get("pending").is_none() && waiting(key).get("delete").is_none() {
            wrong.push(format!("nothing pending for {key}"));
        }
    }
    rig.root("POST", &format!("{base}/status/stop"), json!({}));
    wrong
}

#[test]
fn recorded_changes_of_running_guests() {
    let recording: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/running.json")).expect("JSON");
    let rig = Rig::new("running", world());
    let (mut judged, mut agree, mut apart) = (0, 0, 0);
    for (n, case) in recording["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .enumerate()
    {
        let title = case["title"].as_str().unwrap_or("");
        if case.get("environment").is_some() || case["status"].is_null() {
            apart += 1;
            continue;
        }
        judged += 1;
        let wrong = judge(&rig, 60_000 + n as u64, case);
        if wrong.is_empty() {
            agree += 1;
        } else {
            println!("{title} {} -> {}:", case["params"], case["verdict"]);
            wrong.iter().for_each(|w| println!("    {w}"));
        }
    }
    println!("running: {agree} of {judged} agree ({apart} not counted)");
    assert!(agree * 100 >= judged * 95, "only {agree} of {judged} agree");
}
