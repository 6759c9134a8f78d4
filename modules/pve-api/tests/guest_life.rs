//! A guest's life through the Live world, on the lab's own routes: made, read, changed, started, stopped, removed.
mod common;

use common::{Lab, known, read, world};
use plan::{Arg, Await, ErrorKind, Fact, Guard, Request, Step, Tolerance, Wait, World};
use pve::keys::PveKey;
use pve_api::{Connection, Live};
use serde_json::json;

fn cluster() -> Lab {
    let mut w = world();
    let pve = &mut w["pve"];
    pve["nodes"] =
        json!([{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}]);
    pve["network"] = json!([{"iface": "vmbr0", "type": "bridge", "active": 1}]);
    pve["storage"] = json!([{"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import"}]);
    pve["guests"] = json!([
        {"vmid": 300, "node": "pve2", "name": "other", "status": "running", "config": {"memory": "64", "net0": "virtio=BC:24:11:00:03:00,bridge=vmbr0"}},
        {"vmid": 301, "node": "pve2", "type": "lxc", "name": "ct"},
    ]);
    Lab::start(w)
}

fn live(lab: &Lab) -> Live {
    Live::new(Connection {
        node_hint: Some("pve1".into()),
        ..lab.connection()
    })
}

fn task(request: Request) -> Step {
    Step::new(request, "test").wait(Await::Task { timeout_s: 30 })
}

fn create() -> Step {
    task(
        Request::new("POST", "/nodes/pve1/qemu")
            .param("vmid", 100)
            .param("name", "web01")
            .param("memory", 64)
            .param("scsihw", "virtio-scsi-pci")
            .param("scsi0", "local:1,discard=on")
            .param("net0", "virtio=BC:24:11:00:01:00,bridge=vmbr0")
            .param("onboot", true)
            .param("description", "ü & = ; %41\nsecond line"),
    )
    .tolerate(Tolerance::Replan("already exists"))
}

#[test]
fn a_guest_is_made_read_changed_and_removed() {
    let lab = cluster();
    let mut live = live(&lab);
    let guest = PveKey::Guest(100);
    assert_eq!(read(&mut live, guest.clone()).unwrap(), Fact::Absent);

    let sent = live.send(&create(), &[]).unwrap();
    assert!(sent.answer.as_str().unwrap().contains(":qmcreate:100:"));
    live.forget(&[guest.key()]);
    let before = lab.requests().len();
    let g = known(&mut live, guest.clone());
    assert_eq!(lab.requests().len() - before, 1);
    assert_eq!(
        (&g["node"], &g["type"], &g["template"]),
        (&json!("pve1"), &json!("qemu"), &json!(false))
    );
    assert_eq!(g["config"]["net0"], "virtio=BC:24:11:00:01:00,bridge=vmbr0");
    assert_eq!(g["config"]["description"], "ü & = ; %41\nsecond line");
    assert_eq!(g["pending"], json!({}));
    assert_eq!(
        known(&mut live, PveKey::GuestStatus(100))["status"],
        "stopped"
    );
    assert_eq!(known(&mut live, PveKey::GuestTasks(100)), json!([]));
    assert_eq!(known(&mut live, PveKey::Snapshots(100)), json!([]));

    // Somebody took the id meanwhile.
    let f = live.send(&create(), &[]).unwrap_err();
    assert!(f.replan, "{}", f.msg);

    // The digest that was read is good once.
    let digest = |g: &serde_json::Value| Arg::Shown {
        symbol: "<digest as read>".into(),
        value: g["digest"].clone(),
    };
    let change = |cores: u64| {
        Step::new(
            Request::new("PUT", "/nodes/pve1/qemu/100/config")
                .param("cores", cores)
                .param("delete", json!(["onboot", "description"]))
                .arg("digest", digest(&g)),
            "change it",
        )
        .tolerate(Tolerance::Replan("checksum mismatch"))
    };
    live.send(&change(2), &[]).unwrap();
    let f = live.send(&change(3), &[]).unwrap_err();
    assert!(f.replan, "{}", f.msg);
    live.forget(&[guest.key()]);
    let g = known(&mut live, guest.clone());
    assert_eq!(g["config"]["cores"], 2);
    assert_eq!(
        (g["config"].get("onboot"), g["config"].get("description")),
        (None, None)
    );

    // A step that the lab refuses in its task, and one that it refuses at once.
    let resize = |disk: &str| {
        task(
            Request::new("PUT", "/nodes/pve1/qemu/100/resize")
                .param("disk", disk)
                .param("size", "+1G"),
        )
    };
    let f = live.send(&resize("scsi9"), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::TaskFailed);
    assert!(
        f.msg
            .starts_with("unable to resize scsi9 of guest 100: task UPID:")
            && f.msg.contains("disk 'scsi9' does not exist"),
        "{}",
        f.msg
    );
    live.send(&resize("scsi0"), &[]).unwrap();

    live.send(
        &task(Request::new("DELETE", "/nodes/pve1/qemu/100").param("purge", true)),
        &[],
    )
    .unwrap();
    live.forget(&[guest.key()]);
    assert_eq!(read(&mut live, guest).unwrap(), Fact::Absent);
}

#[test]
fn a_running_guest_on_another_node_is_found_changed_and_stopped() {
    let lab = cluster();
    let mut live = live(&lab);
    let status = PveKey::GuestStatus(300);
    assert_eq!(known(&mut live, PveKey::Guest(300))["node"], "pve2");
    assert_eq!(known(&mut live, status.clone())["status"], "running");
    assert_eq!(
        known(&mut live, PveKey::Guest(301)),
        json!({"vmid": 301, "node": "pve2", "type": "lxc", "name": "ct"})
    );
    assert!(matches!(
        read(&mut live, PveKey::AgentInterfaces(300)).unwrap(),
        Fact::Unreadable(_)
    ));

    // No guest answers the unplugging: stored all the same.
    let unplug = Step::new(
        Request::new("PUT", "/nodes/pve2/qemu/300/config").param("delete", "net0"),
        "remove it",
    )
    .tolerate(Tolerance::StoredAllTheSame("hotplug problem - "));
    let sent = live.send(&unplug, &[]).unwrap();
    assert_eq!(sent.warnings.len(), 1, "{sent:?}");
    live.forget(&[PveKey::Guest(300).key()]);
    let g = known(&mut live, PveKey::Guest(300));
    assert_eq!(g["pending"]["net0"], json!(null));
    assert!(g["config"].get("net0").is_none() && g["current"].get("net0").is_some());

    // It does not power off by itself: the guard lets the stop through, and the end is awaited.
    let stop = Step::new(
        Request::new("POST", "/nodes/pve2/qemu/300/status/stop"),
        "stop it",
    )
    .guard(Guard::UnlessWithin {
        key: status.key(),
        pointer: "/status".into(),
        equals: json!("stopped"),
        reached: "stopped".into(),
        seconds: 1,
    })
    .wait(Await::Until {
        key: status.key(),
        pointer: "/status".into(),
        equals: json!("stopped"),
        timeout_s: 20,
    });
    assert!(live.send(&stop, &[]).unwrap().done);
    assert!(!live.send(&stop, &[]).unwrap().done);
}

#[test]
fn out_of_sight_is_not_absent() {
    let lab = cluster();
    // Privilege-separated, without an ACL of its own.
    let mut live = Live::new(Connection {
        token_id: Some("deploy@pve!ci".into()),
        node_hint: Some("pve2".into()),
        ..lab.connection()
    });
    assert_eq!(known(&mut live, PveKey::Guests), json!([]));
    match read(&mut live, PveKey::Guest(300)).unwrap() {
        Fact::Unreadable(why) => assert!(why.contains("VM.Audit"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(read(&mut live, PveKey::Guest(302)).unwrap(), Fact::Absent);
    let f = live
        .send(
            &task(Request::new("POST", "/nodes/pve2/qemu/300/status/stop")),
            &[],
        )
        .unwrap_err();
    assert_eq!(f.kind, ErrorKind::Permission);
    assert!(
        f.msg
            .contains("VM.PowerMgmt is missing on /vms/300 for token deploy@pve!ci"),
        "{}",
        f.msg
    );
}

#[test]
fn a_lost_answer_is_looked_into_by_reading_again() {
    let lab = cluster();
    let mut live = live(&lab);
    lab.fault(json!({"method": "POST", "path": "/nodes/pve1/qemu$", "do": "drop_after"}));
    let f = live.send(&create(), &[]).unwrap_err();
    assert!(f.lost_answer);
    live.forget(&[PveKey::Guest(100).key()]);
    // It was carried out once: it is there, locked while its task runs.
    let locked = Wait {
        what: "lock create of guest 100".into(),
        joins: true,
        key: PveKey::Guest(100).key(),
        pointer: "/lock".into(),
        equals: json!(null),
        timeout_s: 20,
        assume: vec![],
        stale: vec![],
    };
    assert_ne!(read(&mut live, PveKey::Guest(100)).unwrap(), Fact::Absent);
    live.settle(&locked).unwrap();
    let g = known(&mut live, PveKey::Guest(100));
    assert_eq!(g["config"]["name"], "web01");
    let creates = lab
        .requests()
        .iter()
        .filter(|r| *r == "POST /nodes/pve1/qemu")
        .count();
    assert_eq!(creates, 1);
}
