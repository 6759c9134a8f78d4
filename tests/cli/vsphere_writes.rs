//! vsphere_relocate, vsphere_powerstate and vsphere_note from the outside, over HTTPS.

use crate::support::{Lab, refused, triple, worlds};
use serde_json::{Value, json};
use std::time::Duration;

/// What a real server may choose differs by the lab's seed.
fn demo(more: Value) -> Lab {
    let mut w = worlds::demo();
    for (k, v) in more.as_object().expect("an object") {
        w["vcenter"][k] = v.clone();
    }
    Lab::start(w)
}

fn vm(lab: &Lab, moid: &str) -> Value {
    lab.world()["vcenter"]["vms"]
        .as_array()
        .expect("machines")
        .iter()
        .find(|v| v["moid"] == moid)
        .cloned()
        .expect(moid)
}

fn sent(lab: &Lab, method: &str) -> usize {
    let named = |e: &&Value| e["note"].as_str().is_some_and(|n| n.starts_with(method));
    lab.log().iter().filter(named).count()
}

fn relocate(moid: &str, more: Value) -> Value {
    let mut a = json!({"moid": moid, "destination_datastore": "migration-nfs"});
    for (k, v) in more.as_object().expect("an object") {
        a[k] = v.clone();
    }
    a
}

#[test]
fn all_files_go_to_the_export() {
    let lab = Lab::demo();
    // One disk; three disks on two datastores; IDE and powered off; a name with blanks.
    for moid in ["vm-101", "vm-103", "vm-109", "vm-105"] {
        let t = triple(&lab, "vsphere_relocate", relocate(moid, json!({})));
        assert!(t.apply.changed(), "{moid}");
        assert_eq!(t.apply["datastore"], "migration-nfs");
        assert_eq!(
            t.check["plan"][0]["params"],
            json!({"spec": {"datastore": "Datastore:datastore-23"}})
        );
        for d in t.apply["disks"].as_array().expect("disks") {
            assert_eq!(d["datastore"], "migration-nfs", "{moid} {d}");
            assert!(
                d["path"]
                    .as_str()
                    .expect("a path")
                    .starts_with("[migration-nfs] ")
            );
            assert!(
                !d["path_before"]
                    .as_str()
                    .expect("a path")
                    .starts_with("[migration-nfs]")
            );
        }
        assert!(
            t.apply["task"]
                .as_str()
                .expect("a task")
                .starts_with("task-")
        );
    }
    let world = lab.world();
    assert_eq!(
        (&world["vcenter"]["sessions"], sent(&lab, "RelocateVM_Task")),
        (&json!(0), 4)
    );
}

#[test]
fn unchanged_is_one_read_beside_sign_in() {
    let lab = Lab::demo();
    let r = lab
        .call(
            "vsphere_relocate",
            json!({"moid": "vm-101", "destination_datastore": "esx-ssd"}),
        )
        .run()
        .ok();
    assert!(!r.changed());
    assert_eq!(r.of_kind("write").len(), 0);
    let methods: Vec<String> = r.requests.iter().map(crate::support::lab::short).collect();
    assert_eq!(
        methods.iter().filter(|m| m.contains("Retrieve")).count(),
        3,
        "the service, the machine with its tasks, the tree that it lies in: {methods:?}"
    );
}

#[test]
fn single_disks_hosts_and_pools() {
    let lab = Lab::demo();
    let t = triple(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-103", "disks": [{"label": "Hard disk 2", "datastore": "esx-hdd"}], "disk_format": "thick"}),
    );
    let on: Vec<&str> = t.apply["disks"]
        .as_array()
        .expect("disks")
        .iter()
        .filter_map(|d| d["datastore"].as_str())
        .collect();
    assert_eq!(on, ["esx-ssd", "esx-hdd", "esx-hdd"]);
    // The pool is kept (V2.5).
    let pool = vm(&lab, "vm-103")["pool"].clone();
    let t = triple(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-103", "destination_host": "esx2.lab.example"}),
    );
    assert_eq!(
        (&t.apply["running_host"], &vm(&lab, "vm-103")["pool"]),
        (&json!("esx2.lab.example"), &pool)
    );
    let t = triple(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-103", "destination_resourcepool": "test"}),
    );
    assert!(t.apply.changed());
    // Another compute resource: its root pool.
    let t = triple(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-101", "destination_host": "esx3.lab.example"}),
    );
    assert_eq!(t.apply["running_host"], "esx3.lab.example");
}

#[test]
fn slower_than_its_timeout_is_joined_and_never_doubled() {
    let lab = demo(json!({"relocate_min_ms": 4000, "relocate_bytes_per_s": 100_000_000_000u64}));
    let args = relocate("vm-101", json!({"timeout": 1}));
    let first = lab.call("vsphere_relocate", args).run().failed("timeout");
    let task = first["task"].as_str().expect("a task").to_owned();
    let percent = first["percent"].as_i64().expect("a percentage");
    assert!((1..100).contains(&percent), "{percent}");
    for part in [&task, &format!("{percent} %"), "still running"] {
        assert!(first.msg().contains(part), "{}", first.msg());
    }
    assert!(first.changed(), "it was started");
    // A check run in between joins in thought, and writes nothing.
    let writes = lab.writes();
    let check = lab
        .call("vsphere_relocate", relocate("vm-101", json!({})))
        .check(true)
        .run()
        .ok();
    assert_eq!(lab.writes(), writes);
    let next = lab
        .call("vsphere_relocate", relocate("vm-101", json!({})))
        .run()
        .ok();
    assert!(next.changed() && check.changed());
    assert_eq!(
        next["plan"],
        json!([{"request": "JOIN", "what": format!("task {task} (VirtualMachine.relocate) of VM web01 (vm-101)")}])
    );
    assert_eq!((next.plan(), &next["diff"]), (check.plan(), &check["diff"]));
    assert_eq!(
        (&next["task"], &next["datastore"]),
        (&json!(task), &json!("migration-nfs"))
    );
    let again = lab
        .call("vsphere_relocate", relocate("vm-101", json!({})))
        .run()
        .ok();
    assert!(!again.changed());
    assert_eq!(
        sent(&lab, "RelocateVM_Task"),
        1,
        "{:?}",
        lab.requests_from(0)
    );
}

#[test]
fn started_without_waiting() {
    let lab = demo(json!({"relocate_min_ms": 1500, "relocate_bytes_per_s": 100_000_000_000u64}));
    let args = relocate("vm-101", json!({"wait": false}));
    let check = lab
        .call("vsphere_relocate", args.clone())
        .check(true)
        .run()
        .ok();
    let apply = lab.call("vsphere_relocate", args.clone()).run().ok();
    crate::support::triple::agree(&check, &apply);
    assert_eq!(apply["diff"]["after"]["datastore"], "(not waited for)");
    assert!(apply["task"].as_str().expect("a task").starts_with("task-"));
    let more = lab.call("vsphere_relocate", args).run().ok();
    assert_eq!(
        (&more["changed"], &more["task"]),
        (&json!(false), &apply["task"])
    );
    // Power waits for it.
    let r = lab
        .call(
            "vsphere_powerstate",
            json!({"moid": "vm-101", "state": "shutdown-guest"}),
        )
        .run()
        .ok();
    assert_eq!(r["waited_for"].as_array().map(Vec::len), Some(1));
    assert_eq!(vm(&lab, "vm-101")["power"], "poweredOff");
    assert_eq!(sent(&lab, "RelocateVM_Task"), 1);
}

/// Wherever the relocation is when we look again: running, ending, done.
#[test]
fn a_lost_answer_is_looked_up_not_sent_again() {
    for ms in [150, 300, 400, 450, 900] {
        let lab = demo(json!({"relocate_min_ms": ms}));
        lab.fault(
            json!({"side": "vcenter", "method": "RelocateVM_Task", "nth": 1, "do": "drop_after"}),
        );
        let r = lab
            .call("vsphere_relocate", relocate("vm-102", json!({})))
            .run()
            .ok();
        assert!(r.changed());
        assert_eq!(r["datastore"], "migration-nfs");
        if sent(&lab, "RelocateVM_Task") != 1 {
            r.fail("it was sent twice");
        }
    }
}

/// List orders, folder names, renames of cold moves and durations are the server's choice.
#[test]
fn truth_does_not_hang_on_the_seed() {
    for seed in [2, 3, 4] {
        let mut w = worlds::demo();
        w["seed"] = json!(seed);
        let lab = Lab::start(w);
        for moid in ["vm-103", "vm-109", "vm-115"] {
            triple(&lab, "vsphere_relocate", relocate(moid, json!({}))).changed();
            let was_on = vm(&lab, moid)["power"] == "poweredOn";
            let t = triple(
                &lab,
                "vsphere_powerstate",
                json!({"moid": moid, "state": "shutdown-guest", "force_off_after": 20}),
            );
            let t = if was_on { t.changed() } else { t.unchanged() };
            assert_eq!(t.apply["power_state"], "poweredOff");
            triple(&lab, "vsphere_note", json!({"moid": moid, "text": "gone"})).changed();
        }
    }
}

#[test]
fn max_running_waits_for_a_free_place() {
    let lab = demo(json!({"relocate_min_ms": 1200, "relocate_bytes_per_s": 100_000_000_000u64}));
    lab.call(
        "vsphere_relocate",
        relocate("vm-101", json!({"wait": false})),
    )
    .run()
    .ok();
    let r = lab
        .call(
            "vsphere_relocate",
            relocate("vm-102", json!({"max_running": 1})),
        )
        .run()
        .ok();
    let waited = r["waited_for"].to_string();
    assert!(
        waited.contains("of VM web01, since 1 relocations run and max_running is 1"),
        "{waited}"
    );
}

#[test]
fn what_cannot_be_relocated_is_refused_alike() {
    let lab = Lab::demo();
    for (moid, want) in [
        ("vm-108", "physical raw device mapping"),
        ("vm-113", "it is a template"),
    ] {
        let msg = refused(
            &lab,
            "vsphere_relocate",
            relocate(moid, json!({})),
            "refused",
        );
        assert!(msg.contains(want), "{msg}");
    }
    let by_name = |name: &str, ds: &str| json!({"vm_name": name, "destination_datastore": ds});
    let msg = refused(
        &lab,
        "vsphere_relocate",
        by_name("app01", "migration-nfs"),
        "refused",
    );
    assert!(msg.contains("vm-114") && msg.contains("vm-115"), "{msg}");
    refused(
        &lab,
        "vsphere_relocate",
        by_name("nobody", "migration-nfs"),
        "not_found",
    );
    let msg = refused(
        &lab,
        "vsphere_relocate",
        by_name("web01", "migration-nsf"),
        "not_found",
    );
    assert!(msg.contains("did you mean migration-nfs?"), "{msg}");
    let msg = refused(
        &lab,
        "vsphere_relocate",
        by_name("web01", "branch-local"),
        "not_found",
    );
    assert!(msg.contains("there is one in DC2"), "{msg}");
    let msg = refused(
        &lab,
        "vsphere_relocate",
        json!({"vm_name": "web01", "destination_host": "esx9.branch.example"}),
        "refused",
    );
    assert!(msg.contains("does not see datastore esx-ssd"), "{msg}");
    lab.set_vcenter(
        json!({"datastores": [{"name": "migration-nfs", "maintenance": "inMaintenance"}]}),
    );
    let msg = refused(
        &lab,
        "vsphere_relocate",
        relocate("vm-101", json!({})),
        "refused",
    );
    assert!(msg.contains("maintenance mode (inMaintenance)"), "{msg}");
    lab.set_vcenter(json!({"datastores": [{"name": "migration-nfs", "maintenance": "normal", "accessible": false}]}));
    let msg = refused(
        &lab,
        "vsphere_relocate",
        relocate("vm-101", json!({})),
        "refused",
    );
    assert!(msg.contains("not accessible"), "{msg}");
    assert_eq!(lab.count("vcenter", "writes"), 0);
    let msg = refused(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-101", "destination_datastore": "esx-hdd", "guard_uuid": "564d0000-0000-0000-0000-000000000001"}),
        "refused",
    );
    assert!(msg.contains("another machine"), "{msg}");
}

#[test]
fn snapshots_go_along_with_a_warning() {
    let lab = Lab::demo();
    let t = triple(&lab, "vsphere_relocate", relocate("vm-107", json!({})));
    let w = t.check.warnings().join("\n");
    assert!(w.contains("before update, after update"), "{w}");
    assert_eq!(t.apply["disks"][0]["datastore"], "migration-nfs");
}

#[test]
fn power_goes_where_it_is_told() {
    let lab = Lab::demo();
    for (state, power) in [
        ("powered-on", "poweredOn"),
        ("suspended", "suspended"),
        ("powered-off", "poweredOff"),
        ("powered-on", "poweredOn"),
        ("shutdown-guest", "poweredOff"),
    ] {
        let was = vm(&lab, "vm-101")["power"].clone();
        let t = triple(
            &lab,
            "vsphere_powerstate",
            json!({"name": "web01", "state": state, "force": true}),
        );
        assert_eq!(t.apply["power_state"], power, "{state}");
        assert_eq!(t.apply.changed(), was != power, "{state}");
        assert_eq!(t.apply["vm"], json!({"moid": "vm-101", "name": "web01"}));
        assert_eq!(vm(&lab, "vm-101")["power"], power);
        lab.set_vcenter(json!({"vms": [{"moid": "vm-101", "tools": "running"}]}));
    }
    // These act every time.
    for state in ["restarted", "reboot-guest"] {
        let check = lab
            .call(
                "vsphere_powerstate",
                json!({"moid": "vm-102", "state": state}),
            )
            .check(true)
            .run()
            .ok();
        let apply = lab
            .call(
                "vsphere_powerstate",
                json!({"moid": "vm-102", "state": state}),
            )
            .run()
            .ok();
        crate::support::triple::agree(&check, &apply);
        assert!(apply.changed() && apply.of_kind("write").len() == 1);
    }
}

#[test]
fn a_guest_that_does_not_go_is_powered_off() {
    let lab = Lab::demo();
    lab.set_vcenter(json!({"vms": [{"moid": "vm-101", "ignores_shutdown": true}]}));
    let args = |more: Value| {
        let mut a = json!({"moid": "vm-101", "state": "shutdown-guest"});
        for (k, v) in more.as_object().expect("an object") {
            a[k] = v.clone();
        }
        a
    };
    // V3.6: it failed, and yet it asked the guest to go.
    let r = lab
        .call("vsphere_powerstate", args(json!({"timeout": 1})))
        .run()
        .failed("timeout");
    assert!(r.changed(), "{}", *r);
    let t = triple(
        &lab,
        "vsphere_powerstate",
        args(json!({"force_off_after": 1})),
    );
    assert_eq!(
        (&t.check["forced"], &t.apply["forced"], &t.again["forced"]),
        (&Value::Null, &json!(true), &json!(false))
    );
    assert_eq!(t.apply["power_state"], "poweredOff");
    assert!(t.apply["duration_s"].as_f64().expect("a number") >= 1.0);
    // One that goes is not powered off; the plan is the same.
    let t = triple(
        &lab,
        "vsphere_powerstate",
        json!({"moid": "vm-102", "state": "shutdown-guest", "force_off_after": 30}),
    );
    assert_eq!(t.apply["forced"], false);
    assert_eq!(sent(&lab, "PowerOffVM_Task"), 1);
}

#[test]
fn power_is_refused_alike() {
    let lab = Lab::demo();
    for (args, kind, want) in [
        (
            json!({"moid": "vm-111", "state": "shutdown-guest"}),
            "refused",
            "VMware tools should be installed",
        ),
        (
            json!({"moid": "vm-112", "state": "powered-off"}),
            "refused",
            "it is suspended",
        ),
        (
            json!({"moid": "vm-112", "state": "shutdown-guest", "force": true}),
            "refused",
            "it is suspended",
        ),
        (
            json!({"moid": "vm-109", "state": "restarted"}),
            "refused",
            "it is powered off",
        ),
        (
            json!({"moid": "vm-113", "state": "powered-on"}),
            "refused",
            "it is a template",
        ),
        (
            json!({"name": "app01", "state": "powered-off"}),
            "refused",
            "vm-115",
        ),
        (
            json!({"name": "web01", "datacenter": "NOPE"}),
            "not_found",
            "NOPE",
        ),
        (
            json!({"name": "web01", "datacenter": "DC2"}),
            "not_found",
            "DC2",
        ),
        (
            json!({"uuid": "564d0000-0000-0000-0000-00000000dead"}),
            "not_found",
            "564d0000",
        ),
    ] {
        let msg = refused(&lab, "vsphere_powerstate", args, kind);
        assert!(msg.contains(want), "{msg}");
    }
    assert_eq!(lab.count("vcenter", "writes"), 0);
    let t = triple(
        &lab,
        "vsphere_powerstate",
        json!({"name": "app01", "folder": "Test", "state": "powered-off"}),
    );
    assert_eq!(t.apply["vm"]["moid"], "vm-115");
    let t = triple(
        &lab,
        "vsphere_powerstate",
        json!({"moid": "vm-109", "state": "shutdown-guest"}),
    );
    assert!(!t.check.changed() && !t.apply.changed());
}

#[test]
fn a_question_is_answered_wherever_it_comes() {
    let lab = demo(json!({"power_ms": 1500}));
    let question = json!({"text": "msg.uuid.altered: moved or copied?", "choices": ["button.uuid.cancel", "button.uuid.movedTheVM"]});
    lab.set_vcenter(json!({"vms": [{"moid": "vm-109", "question": question}]}));
    let on = json!({"moid": "vm-109", "state": "powered-on"});
    let msg = refused(&lab, "vsphere_powerstate", on.clone(), "refused");
    assert!(msg.contains("moved or copied?"), "{msg}");
    let mut with = on;
    with["question_answers"] =
        json!([{"question": "msg.uuid.altered", "response": "button.uuid.movedTheVM"}]);
    let t = triple(&lab, "vsphere_powerstate", with.clone());
    assert_eq!(
        (
            t.apply["plan"].as_array().map(Vec::len),
            &t.apply["power_state"]
        ),
        (Some(2), &json!("poweredOn"))
    );
    // While it is being powered on: with an answer, and without.
    let (answers, mut on) = (sent(&lab, "AnswerVM"), with.clone());
    on.as_object_mut()
        .expect("an object")
        .remove("question_answers");
    for (args, good) in [(with, true), (on, false)] {
        lab.call(
            "vsphere_powerstate",
            json!({"moid": "vm-109", "state": "powered-off"}),
        )
        .run()
        .ok();
        let from = lab.log().len();
        let (child, _folder) = lab.call("vsphere_powerstate", args).spawn();
        for _ in 0..200 {
            let all = lab.requests_from(from);
            if all.iter().any(|r| r.contains("PowerOnVM_Task")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        lab.set_vcenter(json!({"vms": [{"moid": "vm-109", "question": question}]}));
        let out = child.wait_with_output().expect("it ends");
        let r: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(
            (&r["changed"], r["failed"] == true),
            (&json!(true), !good),
            "{r}"
        );
        if good {
            assert_eq!(r["power_state"], "poweredOn");
        } else {
            let msg = r["msg"].as_str().expect("a message");
            assert!(msg.contains("moved or copied?"), "{msg}");
        }
    }
    assert_eq!(sent(&lab, "AnswerVM"), answers + 1);
}

#[test]
fn a_scheduled_task_is_made_once() {
    let lab = Lab::demo();
    let args = json!({"moid": "vm-101", "state": "powered-off", "scheduled_at": "31/12/2099 23:30 +01:00"});
    let t = triple(&lab, "vsphere_powerstate", args);
    assert!(t.apply.changed());
    assert_eq!(
        t.apply["diff"]["after"]["scheduled_tasks"][0]["at"],
        "2099-12-31T22:30:00Z"
    );
    let msg = refused(
        &lab,
        "vsphere_powerstate",
        json!({"moid": "vm-101", "state": "powered-off", "scheduled_at": "01/01/2020 00:00"}),
        "refused",
    );
    assert!(msg.contains("already passed"), "{msg}");
}

#[test]
fn a_note_keeps_the_others_and_keeps_it_off() {
    let lab = Lab::demo();
    let before = vm(&lab, "vm-102")["annotation"]
        .as_str()
        .expect("notes")
        .to_owned();
    let t = triple(
        &lab,
        "vsphere_note",
        json!({"moid": "vm-102", "text": "migrated to Proxmox VE as 20102 & gone <ü>"}),
    );
    assert_eq!(
        vm(&lab, "vm-102")["annotation"],
        format!("{before}\n[trueplan] migrated to Proxmox VE as 20102 & gone <ü>")
    );
    assert_eq!(
        t.apply["note"],
        "migrated to Proxmox VE as 20102 & gone <ü>"
    );
    lab.call(
        "vsphere_powerstate",
        json!({"moid": "vm-102", "state": "powered-off"}),
    )
    .run()
    .ok();
    let on = json!({"moid": "vm-102", "state": "powered-on"});
    let msg = refused(&lab, "vsphere_powerstate", on.clone(), "refused");
    assert!(msg.contains("despite_note"), "{msg}");
    triple(
        &lab,
        "vsphere_note",
        json!({"moid": "vm-102", "state": "absent"}),
    )
    .changed();
    assert_eq!(vm(&lab, "vm-102")["annotation"], before);
    triple(&lab, "vsphere_powerstate", on).changed();
}

#[test]
fn a_check_run_of_several_tasks_sees_what_it_plans() {
    let lab = Lab::demo();
    let ledger = tempfile::tempdir().expect("a folder");
    let writes = lab.writes();
    let check = |module: &str, args: Value| {
        lab.call(module, args)
            .ledger(ledger.path())
            .check(true)
            .run()
            .ok()
    };
    assert!(check("vsphere_relocate", relocate("vm-101", json!({}))).changed());
    assert!(
        check(
            "vsphere_powerstate",
            json!({"name": "web01", "state": "shutdown-guest"})
        )
        .changed()
    );
    assert!(check("vsphere_note", json!({"moid": "vm-101", "text": "gone"})).changed());
    assert!(
        !check(
            "vsphere_powerstate",
            json!({"name": "web01", "state": "powered-off"})
        )
        .changed()
    );
    let info = check("vsphere_vm_info", json!({"moid": "vm-101"}));
    let vm = &info["vm"];
    assert_eq!(
        (&vm["power"], &vm["disks"][0]["datastore"]),
        (&json!("poweredOff"), &json!("migration-nfs"))
    );
    lab.call("vsphere_powerstate", json!({"name": "web01"}))
        .ledger(ledger.path())
        .check(true)
        .run()
        .failed("refused")
        .says("[trueplan] gone");
    assert_eq!(lab.writes(), writes);
}

#[test]
fn a_missing_privilege_is_named() {
    let lab = Lab::demo();
    let mut args = relocate("vm-101", json!({}));
    args["username"] = json!("reader@vsphere.local");
    args["password"] = json!("lab-Vsphere-Reader-1");
    lab.call("vsphere_relocate", args)
        .run()
        .failed("permission")
        .says("Resource.HotMigrate");
}
