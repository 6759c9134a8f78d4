//! Writing, tasks, guards, what the server refuses.
mod common;

use common::*;
use plan::{Await, ErrorKind, Guard, Request, Step, Tolerance, Wait, World};
use serde_json::{Value, json};
use vsphere::keys::VcKey;
use vsphere::value::{list, text};
use vsphere_api::{Connection, Live, Secret};

fn relocate(vm: &str, timeout_s: u64) -> Step {
    Step::new(
        Request::new("RelocateVM_Task", format!("VirtualMachine:{vm}"))
            .param("spec", json!({"datastore": "Datastore:datastore-23"})),
        "move it",
    )
    .wait(Await::Task { timeout_s })
}

fn by_moid(live: &mut Live, moid: &str) -> Value {
    known(
        live,
        VcKey::Vm {
            by: vsphere::keys::VmBy::Moid(moid.into()),
            datacenter: None,
        },
    )
}

#[test]
fn a_relocate_is_awaited_and_its_paths_are_read_again() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    let sent = live.send(&relocate("vm-103", 60), &[]).unwrap();
    assert!(
        text(&json!({"t": sent.answer}), "t").is_some_and(|t| t.starts_with("task-")),
        "{sent:?}"
    );
    let vm = by_moid(&mut live, "vm-103");
    assert!(
        list(&vm, "disks")
            .iter()
            .all(|d| d["datastore"] == "migration-nfs" && d["data_file"].is_string()),
        "{}",
        vm["disks"]
    );
    assert_eq!(vm["running_tasks"], json!([]));
}

#[test]
fn a_timeout_names_task_and_percent_and_the_next_run_can_join() {
    let lab = Lab::start(estate(json!({"relocate_min_ms": 4000})));
    let mut live = lab.live();
    let f = live.send(&relocate("vm-101", 1), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Timeout);
    let task = f.extra["task"].as_str().unwrap().to_owned();
    assert!(
        f.msg.contains("still running") && f.msg.contains(&task) && f.extra["percent"].is_i64(),
        "{f:?}"
    );
    let vm = by_moid(&mut live, "vm-101");
    let running = &vm["running_tasks"][0];
    assert_eq!(
        (&running["moid"], &running["operation"]),
        (&json!(task), &json!("VirtualMachine.relocate"))
    );
    // A second one is refused by the server, and asks for a new plan that joins the first.
    let f = live.send(&relocate("vm-101", 1), &[]).unwrap_err();
    assert!(f.replan && f.extra["task"] == task.as_str(), "{f:?}");
    assert!(
        list(&json!({"l": known(&mut live, VcKey::Tasks)}), "l")
            .iter()
            .any(|t| t["moid"] == task.as_str())
    );
    let wait = Wait {
        what: format!("task {task}"),
        joins: true,
        key: VcKey::Task(task).key(),
        pointer: "/state".into(),
        equals: json!("success"),
        timeout_s: 30,
        assume: vec![],
        stale: vec![],
    };
    live.settle(&wait).unwrap();
    assert_eq!(
        by_moid(&mut live, "vm-101")["disks"][0]["datastore"],
        "migration-nfs"
    );
}

#[test]
fn a_failed_task_says_why() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    let f = live
        .send(
            &Step::new(
                Request::new("PowerOnVM_Task", "VirtualMachine:vm-113"),
                "start the template",
            )
            .wait(Await::Task { timeout_s: 20 }),
            &[],
        )
        .unwrap_err();
    assert!(
        matches!(f.kind, ErrorKind::TaskFailed | ErrorKind::Api),
        "{f:?}"
    );
    let off = Step::new(
        Request::new("PowerOffVM_Task", "VirtualMachine:vm-109"),
        "power off",
    )
    .wait(Await::Task { timeout_s: 20 });
    let f = live.send(&off.clone(), &[]).unwrap_err();
    assert_eq!(f.extra["fault"], "InvalidPowerState", "{f:?}");
    live.send(
        &off.tolerate(Tolerance::AlreadyDone("InvalidPowerState")),
        &[],
    )
    .unwrap();
}

#[test]
fn a_missing_privilege_is_named() {
    let lab = Lab::start(estate(json!({})));
    let mut live = Live::new(Connection {
        username: "reader@vsphere.local".into(),
        password: Secret::new("lab-Vsphere-Reader-1"),
        ..lab.connection()
    });
    let f = live.send(&relocate("vm-101", 5), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Permission, "{f:?}");
    assert!(f.msg.contains("missing: "), "{}", f.msg);
    assert_eq!(lab.dump()["tasks"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn a_guard_looks_first_and_shutdown_is_polled() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    let key = VcKey::VmState("vm-101".into()).key();
    let shutdown = Step::new(
        Request::new("ShutdownGuest", "VirtualMachine:vm-101"),
        "shut down",
    )
    .wait(Await::Until {
        key: key.clone(),
        pointer: "/power".into(),
        equals: json!("poweredOff"),
        timeout_s: 30,
    });
    live.send(&shutdown, &[]).unwrap();
    let forced = Step::new(
        Request::new("PowerOffVM_Task", "VirtualMachine:vm-101"),
        "force",
    )
    .guard(Guard::UnlessWithin {
        key,
        pointer: "/power".into(),
        equals: json!("poweredOff"),
        reached: "powered off".into(),
        seconds: 5,
    });
    assert!(!live.send(&forced, &[]).unwrap().done);
    assert!(!lab.methods().iter().any(|m| m == "PowerOffVM_Task"));
}

/// A machine that is gone has not been powered off: the step is sent, and says so.
#[test]
fn a_guard_is_not_reached_by_what_is_gone() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    let off = Step::new(
        Request::new("PowerOffVM_Task", "VirtualMachine:vm-9999"),
        "force",
    )
    .guard(Guard::UnlessWithin {
        key: VcKey::VmState("vm-9999".into()).key(),
        pointer: "/power".into(),
        equals: json!("poweredOff"),
        reached: "powered off".into(),
        seconds: 0,
    });
    assert_eq!(live.send(&off, &[]).unwrap_err().kind, ErrorKind::NotFound);
}

/// The connection breaks while a task runs: it is waited for all the same, and not started twice.
#[test]
fn a_task_is_awaited_through_a_broken_connection() {
    let lab = Lab::start(estate(json!({"relocate_min_ms": 1500})));
    let mut live = lab.live();
    known(&mut live, VcKey::About);
    // More in a row than a read's own tries.
    for nth in 2..7 {
        lab.fault(
            json!({"side": "vcenter", "method": "RetrievePropertiesEx", "nth": nth, "do": "drop"}),
        );
    }
    live.send(&relocate("vm-101", 60), &[]).unwrap();
    assert_eq!(lab.count("writes"), 1);
}
