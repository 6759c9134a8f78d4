//! Replays the recorded requests of tokens with exactly known privileges, as far as they ask the platform (not a guest's own routes).
mod common;
use common::{Client, TestLab};
use labsim::http::Req;
use labsim::pve::guest::Guest;
use labsim::pve::tasks::spawn_as;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const VMID: u32 = 4999;

/// The world that a case starts from: what its operation needs is there.
fn world(operation: &str, granted: &[(String, String)], dir: &std::path::Path) -> Value {
    let mut world = common::starting_world();
    let qcow2 = dir.join("data.qcow2");
    world["content"] = json!({
        "local": [{"volid": "local:iso/test.iso", "size": 4096}],
        "data": [
            {"volid": "data:import/data.qcow2", "source": qcow2},
            {"volid": format!("data:{VMID}/vm-{VMID}-disk-0.raw"), "size": 4096}
        ]
    });
    world["pools"] = json!([{"poolid": "testpool", "members": if operation == "add VM to pool" { json!([]) } else { json!([VMID]) }}]);
    world["users"]
        .as_array_mut()
        .unwrap()
        .push(json!({"userid": "t@pve"}));
    world["tokens"]["t@pve"] =
        json!([{"tokenid": "k", "privsep": 1, "secret": "a-secret-of-the-tests"}]);
    let mut zones = vec![json!({"zone": "zs", "type": "simple"})];
    let mut vnets = vec![json!({"vnet": "vn1", "zone": "zs"})];
    if !operation.starts_with("zone create") {
        zones.push(json!({"zone": "zq", "type": "simple"}));
        if operation != "vnet create" && operation != "zone delete" {
            vnets.push(json!({"vnet": "vq1", "zone": "zq"}));
        }
    }
    world["sdn"] = json!({"zones": zones, "vnets": vnets});
    let privs: BTreeSet<&str> = granted
        .iter()
        .map(|(_, p)| p.as_str())
        .chain(["VM.Audit", "Datastore.Audit", "SDN.Use"])
        .collect();
    world["roles"] = privs
        .iter()
        .map(|p| (format!("P-{p}"), json!([p])))
        .collect::<Map<_, _>>()
        .into();
    let acl = world["acl"].as_array_mut().unwrap();
    acl.push(json!({"path": "/", "type": "user", "ugid": "t@pve", "roleid": "Administrator", "propagate": 1}));
    for (path, p) in granted {
        acl.push(json!({"path": path, "type": "token", "ugid": "t@pve!k", "roleid": format!("P-{p}"), "propagate": 0}));
    }
    world
}

/// What an answer contains if the entry that the operation is about was not filtered out.
fn marker(operation: &str) -> Option<&'static str> {
    Some(match operation {
        o if o.contains("lists vmbr0") => "\"vmbr0\"",
        o if o.contains("lists vnet vn1") => "\"vn1\"",
        "GET /cluster/sdn/vnets (lists vnet)" => "\"vn1\"",
        "GET /nodes/{n}/storage (lists storage)" | "GET /storage (lists)" => "\"data\"",
        o if o.contains("lists iso") => "test.iso",
        o if o.contains("lists import image") => "data.qcow2",
        o if o.contains("lists disk image") => "vm-4999-disk-0",
        "GET /pools (lists)" => "testpool",
        "resources: node cpu/mem" => "maxmem",
        "resources: VM" => "qemu/4999",
        "resources: pool name on VM" => "\"pool\":\"testpool\"",
        "resources: storage" => "storage/pve1/data",
        "resources: zone zs" => "zone/zs",
        o if o.contains("contains other user's task") => "qmcreate",
        _ => return None,
    })
}

fn lab(operation: &str, granted: &[(String, String)], dir: &std::path::Path) -> (TestLab, String) {
    let lab = common::lab(&world(operation, granted, dir));
    let guest = Guest {
        vmid: VMID,
        node: "pve1".into(),
        kind: "qemu".into(),
        status: "stopped".into(),
        ..Guest::default()
    };
    lab.pve.lab.st().guests.insert(VMID, guest);
    let upid = spawn_as(
        &lab.pve.lab,
        "pve1",
        "qmcreate",
        &VMID.to_string(),
        "root@pam",
        |_| Ok(()),
    );
    while lab
        .pve
        .lab
        .tasks
        .get(&upid)
        .is_some_and(|t| t.exitstatus().is_none())
    {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    (lab, upid)
}

#[test]
fn recorded_privileges_of_the_platform() {
    let dir = std::env::temp_dir().join(format!("labsim-privileges-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    labsim::pve::storage::create_image(&dir.join("data.qcow2"), "qcow2", 1 << 20).unwrap();
    let recorded: Value =
        serde_json::from_str(include_str!("../../fixtures/pve/privileges.json")).unwrap();
    let (mut agree, mut all, mut wrong) = (0, 0, Vec::new());
    for case in recorded["cases"].as_array().unwrap() {
        let path = case["request"]["path"].as_str().unwrap();
        if path.starts_with("/nodes/pve1/qemu") {
            continue;
        }
        all += 1;
        let fill = |t: &str| t.replace("{vmid}", &VMID.to_string());
        let granted: Vec<(String, String)> = case["granted"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|g| {
                (
                    fill(g[0].as_str().unwrap()),
                    g[1].as_str().unwrap().to_string(),
                )
            })
            .collect();
        let operation = case["operation"].as_str().unwrap();
        let (lab, upid) = lab(operation, &granted, &dir);
        let mut path = fill(path);
        if let Some(at) = path.find("UPID:") {
            let end = path[at..].find('/').map_or(path.len(), |e| at + e);
            path.replace_range(at..end, &upid.replace('@', "%40"));
        }
        let client: Client = common::with_token(&lab, "t@pve!k");
        let mut params = Map::new();
        for (k, v) in case["request"]["params"].as_object().into_iter().flatten() {
            params.insert(
                k.clone(),
                v.as_str().map_or_else(|| v.clone(), |t| json!(fill(t))),
            );
        }
        let answer = client.call(case["request"]["method"].as_str().unwrap(), &path, &params);
        let mut why = Vec::new();
        if json!(answer.status) != case["status"] {
            why.push(format!("status {} not {}", answer.status, case["status"]));
        }
        if let Some(message) = case["message"].as_str() {
            let mut ours = answer.body["message"]
                .as_str()
                .unwrap_or("")
                .trim_end()
                .to_string();
            if answer.body["errors"].is_object() {
                ours = format!(
                    "{ours} | {}",
                    answer.body["errors"].to_string().replace("\":\"", "\": \"")
                );
            }
            if ours != fill(message) {
                why.push(format!("message {ours:?} not {message:?}"));
            }
        } else if let Some(mark) = marker(operation) {
            let seen = answer.body["data"].to_string().contains(mark);
            let wanted = case["silently_filtered"] != true;
            if seen != wanted {
                why.push(format!("{mark} seen: {seen}, wanted: {wanted}"));
            }
        }
        if why.is_empty() {
            agree += 1;
        } else {
            wrong.push(format!("{operation} {granted:?}: {}", why.join("; ")));
        }
    }
    println!("privileges (platform): {agree} of {all} agree");
    for w in &wrong {
        println!("  {w}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(
        agree * 100 >= all * 95,
        "privileges: only {agree} of {all} agree"
    );
}

#[test]
fn a_ticket_expires_is_renewed_and_needs_its_csrf_token() {
    let mut world = common::starting_world();
    world["ticket_lifetime_s"] = json!(1);
    let lab = common::lab(&world);
    let root = common::signed(&lab, "root");
    assert_eq!(root.call("GET", "/version", &Map::new()).status, 200);
    // Timestamps have whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(root.call("GET", "/version", &Map::new()).status, 401);

    let lab = common::lab(&common::starting_world());
    let nobody = common::anonymous(&lab);
    let sign_in = |password: &str| {
        let form = json!({"username": "root@pam", "password": password})
            .as_object()
            .unwrap()
            .clone();
        nobody.call("POST", "/access/ticket", &form)
    };
    let first = sign_in("a-password-of-the-tests");
    let ticket = first.body["data"]["ticket"].as_str().unwrap();
    assert_eq!(sign_in(ticket).status, 200, "a ticket renews itself");
    let forged = sign_in(&ticket.replace("root", "toor"));
    assert_eq!(
        (forged.status, &forged.body["message"]),
        (401, &json!("authentication failure\n"))
    );
    let put = Req {
        method: "POST".into(),
        path: "/api2/json/cluster/sdn/lock".into(),
        headers: vec![("cookie".into(), format!("PVEAuthCookie={ticket}"))],
        ..Req::default()
    };
    assert_eq!(nobody.send_with(put).status, 401, "no CSRF token");
}

#[test]
fn the_deepest_acl_replaces_the_inherited_ones_and_privsep_cuts() {
    let mut world = common::starting_world();
    world["roles"] = json!({"Audit": "VM.Audit", "Power": "VM.PowerMgmt"});
    world["acl"].as_array_mut().unwrap().extend([
        json!({"path": "/", "type": "user", "ugid": "nobody@pve", "roleid": "Audit", "propagate": 1}),
        json!({"path": "/vms", "type": "user", "ugid": "nobody@pve", "roleid": "Power", "propagate": 1}),
        json!({"path": "/vms/7000", "type": "user", "ugid": "nobody@pve", "roleid": "Audit", "propagate": 0}),
        json!({"path": "/vms/7000", "type": "user", "ugid": "nobody@pve", "roleid": "Power", "propagate": 0}),
    ]);
    let lab = common::lab(&world);
    let nobody = common::with_token(&lab, "nobody@pve!none");
    let ask = |path: &str| {
        let params = json!({"path": path}).as_object().unwrap().clone();
        nobody.call("GET", "/access/permissions", &params).body["data"][path].clone()
    };
    assert_eq!(ask("/vms/4000"), json!({"VM.PowerMgmt": 1}));
    assert_eq!(ask("/storage/data"), json!({"VM.Audit": 1}));
    assert_eq!(ask("/vms/7000"), json!({"VM.Audit": 0, "VM.PowerMgmt": 0}));
    // root@pam!sep has PVEVMAdmin on / and nothing else, though its owner may everything.
    let sep = common::with_token(&lab, "root@pam!sep");
    assert_eq!(sep.call("GET", "/cluster/status", &Map::new()).status, 403);
}
