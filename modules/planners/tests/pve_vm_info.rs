//! Planner tests of `pve_vm_info`; numbers are those of docs/bugs.md.
mod common;

use common::{Site, failure};
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Value, json};

fn site() -> Site {
    let mut s = Site::new();
    s.guest(100, json!({"name": "web", "tags": "a;b", "smbios1": "uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7",
        "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=5", "scsi0": "local:100/vm-100-disk-0.raw,size=8G", "ide2": "none,media=cdrom"}));
    s.guest(101, json!({"name": "db"})).running(101);
    s.put(PveKey::NodeGuests("pve1".into()), json!([{"vmid": 100, "status": "stopped", "cpus": 2}, {"vmid": 101, "status": "running", "pid": 7}]));
    s
}

fn vms(r: &plan::Report) -> &Vec<Value> {
    assert!(!r.is_failed(), "{:#?}", r.keys);
    assert_eq!(r.keys["changed"], json!(false));
    r.keys["proxmox_vms"].as_array().expect("a list")
}

#[test]
fn one_guest_with_what_roles_need() {
    let mut s = site();
    let r = s.check("pve_vm_info", json!({"vmid": "100", "config": "current"}));
    let v = &vms(&r)[0];
    assert_eq!(
        (
            v["vmid"].clone(),
            v["name"].clone(),
            v["status"].clone(),
            v["cpus"].clone()
        ),
        (json!(100), json!("web"), json!("stopped"), json!(2))
    );
    assert_eq!(
        v["config"]["net0"],
        "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=5"
    );
    assert_eq!(v["uuid"], "564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7");
    assert_eq!(v["tag_list"], json!(["a", "b"]));
    assert_eq!(v["mac"], json!({"net0": "BC:24:11:00:00:01"}));
    assert_eq!(
        (v["nics"][0]["bridge"].clone(), v["nics"][0]["tag"].clone()),
        (json!("vmbr0"), json!(5))
    );
    let disks: Vec<(&Value, &Value)> = v["disks"]
        .as_array()
        .expect("disks")
        .iter()
        .map(|d| (&d["disk"], &d["size_bytes"]))
        .collect();
    assert_eq!(
        disks,
        [
            (&json!("ide2"), &Value::Null),
            (&json!("scsi0"), &json!(8u64 << 30))
        ]
    );
}

#[test]
fn a_list_asks_each_node_once_and_no_guest() {
    let mut s = site();
    let r = s.check("pve_vm_info", json!({}));
    assert_eq!(vms(&r).len(), 2);
    assert_eq!(s.read.len(), 3, "{:?}", s.read);
    let none = s.check("pve_vm_info", json!({"name": "nobody"}));
    assert_eq!(vms(&none).len(), 0);
}

#[test]
fn p52_a_silent_node_keeps_its_guests_in_the_list() {
    let mut s = site();
    s.edit(PveKey::Guests, |g| g.as_array_mut().expect("list").push(json!({"vmid": 900, "node": "pve2", "type": "qemu", "name": "far", "status": "unknown"})));
    s.fact(
        PveKey::NodeGuests("pve2".into()),
        Fact::Unreadable("node pve2 does not answer: 595".into()),
    );
    let r = s.check("pve_vm_info", json!({"config": "pending"}));
    assert_eq!(vms(&r).len(), 3);
    assert_eq!(
        (vms(&r)[2]["vmid"].clone(), vms(&r)[2]["config"].clone()),
        (json!(900), json!({}))
    );
    assert!(
        r.keys["warnings"][0]
            .as_str()
            .is_some_and(|w| w.contains("900") && w.contains("595"))
    );
    s.edit(PveKey::Nodes, |n| n[1]["status"] = json!("offline"));
    let r = s.check("pve_vm_info", json!({"vmid": 900}));
    assert!(
        r.keys["warnings"][0]
            .as_str()
            .is_some_and(|w| w.contains("offline"))
    );
    let r = s.check("pve_vm_info", json!({"node": "px"}));
    assert!(failure(&r, "not_found").contains("Node px doesn't exist"));
}

#[test]
fn p53_a_guest_without_agent_is_not_the_end() {
    let mut s = site();
    s.fact(
        PveKey::AgentInterfaces(100),
        Fact::Unreadable("VM 100 is not running".into()),
    );
    s.fact(
        PveKey::AgentInterfaces(101),
        Fact::Unreadable("QEMU guest agent is not running".into()),
    );
    let r = s.check("pve_vm_info", json!({"network": true}));
    assert_eq!(
        (vms(&r)[0]["network"].clone(), vms(&r)[1]["network"].clone()),
        (Value::Null, Value::Null)
    );
    let w = r.keys["warnings"].as_array().expect("warnings");
    assert!(
        w.len() == 1 && w[0].as_str().is_some_and(|w| w.contains("101")),
        "only the running guest should have one: {w:?}"
    );
}

#[test]
fn a_guest_that_the_list_lags_behind_is_found() {
    let mut s = site();
    s.put(PveKey::Guests, json!([]));
    let r = s.check("pve_vm_info", json!({"vmid": 100}));
    assert_eq!(
        (vms(&r)[0]["name"].clone(), vms(&r)[0]["node"].clone()),
        (json!("web"), json!("pve1"))
    );
}

#[test]
fn planned_guests_are_seen_and_removed_ones_are_not() {
    let mut s = site();
    s.free(200);
    s.check("pve_vm_shell", json!({"vmid": 200, "name": "new", "node": "pve1", "tags": ["t"], "net": {"net0": "virtio,bridge=vmbr0"}}));
    s.check("pve_vm_shell", json!({"vmid": 100, "state": "absent"}));
    let r = s.check("pve_vm_info", json!({"config": "current"}));
    let ids: Vec<&Value> = vms(&r).iter().map(|v| &v["vmid"]).collect();
    assert_eq!(ids, [&json!(101), &json!(200)]);
    assert_eq!(
        (vms(&r)[1]["tag_list"].clone(), vms(&r)[1]["status"].clone()),
        (json!(["t"]), json!("stopped"))
    );
}

#[test]
fn every_option_of_the_peer_is_there() {
    let peers: Value = serde_json::from_str(include_str!(
        "../../../tests/fixtures/peers/proxmox_vm_info.json"
    ))
    .expect("JSON");
    let spec = planners::find("pve_vm_info").expect("module").spec;
    assert_eq!(spec::lint(spec), Vec::<String>::new());
    for (version, v) in peers["versions"].as_object().expect("versions") {
        for name in v["options"].as_object().expect("options").keys() {
            assert!(spec.option(name).is_some(), "{name} of {version}");
        }
    }
}
