//! The recorded requests on guests by tokens with exactly the privileges granted: allowed, refused, refused by the task.
mod support;
use labsim::pve::access::Acl;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::Rig;

const OWN_MAC: &str = "virtio=BC:24:11:00:00:01,bridge=vmbr0";

fn world() -> Value {
    let mut world: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/starting-world.json")).expect("JSON");
    world["timing"] = json!({"task_ms": 0});
    world["users"]
        .as_array_mut()
        .expect("users")
        .push(json!({"userid": "t@pve", "enable": 1}));
    world["tokens"]["t@pve"] = json!([{"tokenid": "k", "privsep": 1}]);
    world["acl"].as_array_mut().expect("acl").push(json!({"path": "/", "type": "user", "ugid": "t@pve", "roleid": "Administrator", "propagate": 1}));
    world["sdn"] = json!({"zones": [{"zone": "zs", "type": "simple"}], "vnets": [{"vnet": "vn1", "zone": "zs"}]});
    world["content"]["imgonly"] = json!([{"volid": "imgonly:7777/disk.vmdk", "content": "images", "format": "vmdk", "size": 65_536}]);
    world
}

/// The guests and volumes that an operation starts from, as its name tells.
fn prepare(rig: &Rig, operation: &str, group: &str, path: &str, vmid: u64, other: u64) {
    if operation.contains("other storage") {
        rig.done(
            "POST",
            "/nodes/pve1/qemu",
            json!({"vmid": other, "scsi0": "imgonly:0.01"}),
        );
    }
    if group == "create" {
        if operation.contains("existing own volume") {
            let folder = rig.dir.join(format!("storage/data/images/{vmid}"));
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(format!("vm-{vmid}-disk-0.raw")), vec![0; 4096])
                .expect("a volume");
        }
        return;
    }
    if operation.contains("does not exist")
        || !path.contains("{vmid}") && !operation.contains("pool")
    {
        return;
    }
    let mut body = json!({"vmid": vmid, "memory": 32, "kvm": 0, "name": "n1", "net0": OWN_MAC, "scsi0": "data:0.01"});
    match operation {
        o if o.contains("unused0") => body["unused0"] = json!(""),
        o if o.contains("sata0 eject") || o.contains("with ISO") => {
            body["sata0"] = json!("local:iso/test.iso,media=cdrom")
        }
        o if o.contains("delete=tags") => body["tags"] = json!("aa"),
        _ => {}
    }
    if operation.contains("from pool") {
        body["pool"] = json!("testpool");
    }
    let unused = body
        .as_object_mut()
        .and_then(|b| b.shift_remove("unused0"))
        .is_some();
    rig.done("POST", "/nodes/pve1/qemu", body);
    if unused {
        rig.done(
            "PUT",
            &format!("/nodes/pve1/qemu/{vmid}/config"),
            json!({"delete": "scsi0"}),
        );
    }
    if operation.contains("running") || operation.contains("shutdown") {
        rig.done(
            "POST",
            &format!("/nodes/pve1/qemu/{vmid}/status/start"),
            json!({}),
        );
    }
}

fn fill(value: &Value, vmid: u64, other: u64) -> Value {
    let text = value
        .to_string()
        .replace("{vmid2}", &other.to_string())
        .replace("{vmid}", &vmid.to_string());
    serde_json::from_str(&text).expect("still JSON")
}

fn grant(rig: &Rig, granted: &Value) {
    let mut st = rig.pve.lab.st();
    st.access.acl.retain(|a| a.ugid != "t@pve!k");
    let mut by_path: Vec<(String, bool, BTreeSet<String>)> = Vec::new();
    for pair in granted.as_array().into_iter().flatten() {
        let (path, privilege) = (
            pair[0].as_str().unwrap_or("").to_string(),
            pair[1].as_str().unwrap_or("").to_string(),
        );
        let propagate = pair[2] == 1;
        match by_path.iter_mut().find(|(p, _, _)| *p == path) {
            Some((_, _, set)) => drop(set.insert(privilege)),
            None => by_path.push((path, propagate, [privilege].into())),
        }
    }
    for (n, (path, propagate, privileges)) in by_path.into_iter().enumerate() {
        let role = format!("P-{n}");
        st.access.roles.insert(role.clone(), privileges);
        st.access.acl.push(Acl {
            path,
            kind: "token".into(),
            ugid: "t@pve!k".into(),
            role,
            propagate,
        });
    }
}

fn judge(rig: &Rig, case: &Value, vmid: u64, other: u64) -> Vec<String> {
    let (operation, group) = (
        case["operation"].as_str().unwrap_or(""),
        case["group"].as_str().unwrap_or(""),
    );
    let request = &case["request"];
    prepare(
        rig,
        operation,
        group,
        request["path"].as_str().unwrap_or(""),
        vmid,
        other,
    );
    grant(rig, &fill(&case["granted"], vmid, other));
    let request = fill(request, vmid, other);
    let (method, path) = (
        request["method"].as_str().unwrap_or(""),
        request["path"].as_str().unwrap_or(""),
    );
    let answer = rig.send("t@pve!k token", method, path, &request["params"], false);
    let task = answer
        .data
        .as_str()
        .filter(|d| d.starts_with("UPID"))
        .map(|u| rig.follow(u).0);
    let mut wrong = Vec::new();
    if case["status"].as_u64() != Some(u64::from(answer.status)) {
        wrong.push(format!(
            "status {} {} {:?}, recorded {} {}",
            answer.status,
            answer.message.trim(),
            answer.errors,
            case["status"],
            case["message"]
        ));
    }
    let first = |t: &str| {
        t.lines()
            .next()
            .unwrap_or("")
            .split(" | ")
            .next()
            .unwrap_or("")
            .trim()
            .to_string()
    };
    if let Some(recorded) = fill(&case["message"], vmid, other).as_str().map(first)
        && recorded != first(&answer.message)
    {
        wrong.push(format!(
            "says {:?}, recorded {recorded:?}",
            first(&answer.message)
        ));
    }
    if let Some(recorded) = fill(&case["task"], vmid, other).as_str()
        && task.as_deref() != Some(recorded)
    {
        wrong.push(format!("task {task:?}, recorded {recorded:?}"));
    }
    for id in [vmid, other] {
        let _ = labsim::http::Site::set(&rig.pve, &json!({"guest": id, "remove": true}));
        let _ = std::fs::remove_dir_all(rig.dir.join(format!("storage/data/images/{id}")));
    }
    wrong
}

#[test]
fn recorded_requests_by_tokens() {
    let recording: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/privileges.json")).expect("JSON");
    let rig = Rig::new("privileges", world());
    rig.done(
        "POST",
        "/nodes/pve1/qemu",
        json!({"vmid": 4999, "scsi0": "data:0.01"}),
    );
    let (mut judged, mut agree) = (0_u32, 0_u32);
    for (n, case) in (0_u64..).zip(recording["cases"].as_array().expect("cases")) {
        if !matches!(case["group"].as_str(), Some("create" | "update" | "vm")) {
            continue;
        }
        judged += 1;
        let wrong = judge(&rig, case, 10_000 + n, 20_000 + n);
        if wrong.is_empty() {
            agree += 1;
        } else {
            println!(
                "{} ({}) {}:",
                case["operation"], case["role"], case["granted"]
            );
            wrong.iter().for_each(|w| println!("    {w}"));
        }
    }
    println!("privileges: {agree} of {judged} agree");
    assert!(agree * 100 >= judged * 95, "only {agree} of {judged} agree");
}
