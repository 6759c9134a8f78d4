//! Many tasks of one check run: what one plans, the next works on; what was planned is what happens.

use crate::support::{Done, Lab, worlds};
use serde_json::{Value, json};

/// Runs all in check mode with one ledger, then all in earnest; plans, diffs and messages are equal one by one.
#[track_caller]
fn chain(lab: &Lab, tasks: &[(&str, Value)]) -> Vec<(Done, Done)> {
    let ledger = tempfile::tempdir().expect("a folder");
    let writes = lab.writes();
    let checks: Vec<Done> = tasks
        .iter()
        .map(|(m, a)| {
            lab.call(m, a.clone())
                .ledger(ledger.path())
                .check(true)
                .run()
                .ok()
        })
        .collect();
    assert_eq!(lab.writes(), writes, "the check run wrote");
    let mut out = vec![];
    for ((m, a), check) in tasks.iter().zip(checks) {
        let apply = lab.call(m, a.clone()).run().ok();
        crate::support::triple::agree(&check, &apply);
        if apply.warnings().iter().any(|w| w.contains("foreseen")) {
            apply.fail("the server did something else than foreseen");
        }
        let again = lab.call(m, a.clone()).run().ok();
        if again.changed() {
            again.fail("a second run is not unchanged");
        }
        out.push((check, apply));
    }
    out
}

#[test]
fn a_whole_build_is_planned_in_one_check_run() {
    let lab = Lab::start(worlds::small());
    let all = chain(
        &lab,
        &[
            (
                "pve_zone",
                json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}),
            ),
            (
                "pve_vnet",
                json!({"vnet": "v100", "zone": "zvlan", "tag": 100}),
            ),
            (
                "pve_vm_shell",
                json!({"vmid": 150, "name": "built", "node": "pve1", "memory": 512, "scsihw": "virtio-scsi-pci"}),
            ),
            (
                "pve_nic",
                json!({"vmid": 150, "interface": "net0", "bridge": "v100"}),
            ),
            (
                "pve_nic",
                json!({"vmid": 150, "interface": "net1", "bridge": "vmbr1", "tag": 7}),
            ),
            (
                "pve_vm_shell",
                json!({"vmid": 150, "memory": 1024, "tags": ["built"]}),
            ),
            ("pve_vm_shell", json!({"vmid": 150, "state": "started"})),
        ],
    );
    assert!(all.iter().all(|(c, a)| c.changed() && a.changed()));
    assert_eq!(lab.guest(150).unwrap()["status"], "running");
}

#[test]
fn a_whole_removal_is_planned_in_one_check_run() {
    let lab = Lab::start(worlds::small());
    for (m, a) in [
        (
            "pve_zone",
            json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0"}),
        ),
        (
            "pve_vnet",
            json!({"vnet": "v100", "zone": "zvlan", "tag": 100}),
        ),
        (
            "pve_vm_shell",
            json!({"vmid": 150, "name": "built", "node": "pve1", "net": {"net0": "virtio,bridge=v100"}}),
        ),
    ] {
        lab.call(m, a).run().ok();
    }
    chain(
        &lab,
        &[
            (
                "pve_nic",
                json!({"vmid": 150, "interface": "net0", "state": "absent"}),
            ),
            ("pve_vm_shell", json!({"vmid": 150, "state": "absent"})),
            ("pve_vnet", json!({"vnet": "v100", "state": "absent"})),
            ("pve_zone", json!({"zone": "zvlan", "state": "absent"})),
        ],
    );
    let w = lab.world();
    assert_eq!(w["pve"]["guests"], json!([]));
    assert_eq!(w["pve"]["sdn"]["running"]["zones"], json!({}));
}

#[test]
fn ids_that_are_only_planned_are_not_given_twice() {
    let lab = Lab::start(worlds::small());
    let ledger = tempfile::tempdir().unwrap();
    let check = |name: &str| {
        lab.call("pve_vm_shell", json!({"name": name, "node": "pve1"}))
            .ledger(ledger.path())
            .check(true)
            .run()
            .ok()["vmid"]
            .clone()
    };
    let (a, b) = (check("first"), check("second"));
    assert!(a.is_u64() && b.is_u64(), "{a} {b}");
    assert_ne!(a, b);
    // The same guest again is the same plan, not a third one.
    let again = lab
        .call("pve_vm_shell", json!({"name": "first", "node": "pve1"}))
        .ledger(ledger.path())
        .check(true)
        .run()
        .ok();
    assert!(!again.changed());
    assert_eq!(again["vmid"], a);
}

#[test]
fn a_task_that_really_runs_in_a_check_run_makes_the_plans_obsolete() {
    let lab = Lab::one_guest();
    let ledger = tempfile::tempdir().unwrap();
    let nic = |tag: u32| {
        lab.call(
            "pve_nic",
            json!({"vmid": 100, "interface": "net0", "tag": tag}),
        )
        .ledger(ledger.path())
    };
    nic(5).check(true).run().ok();
    // `check_mode: false` on the task.
    assert!(nic(6).run().ok().changed());
    let d = nic(6).check(true).run().ok();
    assert!(!d.changed());
}

#[test]
fn a_damaged_ledger_is_a_warning() {
    let lab = Lab::one_guest();
    let ledger = tempfile::tempdir().unwrap();
    let nic = lab
        .call(
            "pve_nic",
            json!({"vmid": 100, "interface": "net0", "tag": 5}),
        )
        .ledger(ledger.path())
        .check(true);
    nic.run().ok();
    let folder = std::fs::read_dir(ledger.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for e in std::fs::read_dir(folder).unwrap().flatten() {
        if e.path().extension().is_some_and(|x| x == "json") {
            std::fs::write(e.path(), "{").unwrap();
        }
    }
    let d = nic.run().ok();
    assert!(d.changed());
    assert!(
        d.warnings().iter().any(|w| w.contains("damaged")),
        "{:?}",
        d.warnings()
    );
}

#[test]
fn the_plan_that_was_seen_is_the_plan_that_is_carried_out() {
    let lab = Lab::one_guest();
    let nic = lab.call(
        "pve_nic",
        json!({"vmid": 100, "interface": "net0", "tag": 5}),
    );
    let id = nic.clone().check(true).run().ok()["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();
    // Somebody changes the same NIC meanwhile: the plan is another one.
    lab.set(json!({"guest": 100, "config": {"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr1"}}));
    let writes = lab.writes();
    nic.clone()
        .arg("expect_plan", id.as_str())
        .run()
        .failed("refused")
        .says("expect_plan");
    assert_eq!(lab.writes(), writes);
    lab.set(json!({"guest": 100, "config": {"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1"}}));
    assert!(nic.arg("expect_plan", id.as_str()).run().ok().changed());
}

#[test]
fn steps_that_are_denied_are_not_sent() {
    let lab = Lab::one_guest();
    for (args, word) in [
        (json!({"vmid": 100, "state": "absent"}), "destructive"),
        (
            json!({"vmid": 100, "state": "absent"}),
            "disruptive,destructive",
        ),
    ] {
        for check in [true, false] {
            let d = lab
                .call("pve_vm_shell", args.clone())
                .env("TRUEPLAN_DENY", word)
                .check(check)
                .run();
            d.failed("refused").says("TRUEPLAN_DENY");
        }
    }
    assert_eq!(lab.writes(), 0);
    // What is neither goes on.
    let d = lab
        .call("pve_vm_shell", json!({"vmid": 100, "memory": 2048}))
        .env("TRUEPLAN_DENY", "destructive,disruptive")
        .run()
        .ok();
    assert!(d.changed());
}

#[test]
fn a_size_that_only_the_real_run_knows_is_announced_by_the_later_tasks_too() {
    let lab = Lab::one_guest();
    let ledger = tempfile::tempdir().unwrap();
    let check = |module: &str, args: Value| {
        lab.call(module, args)
            .ledger(ledger.path())
            .check(true)
            .run()
            .ok()
    };
    let boot = json!({"vmid": 100, "boot": "order=scsi0"});
    check(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": "nfs:100/disk0.vmdk", "source_pending": true}),
    );
    let d = check("pve_vm_shell", boot.clone());
    let unverified = d["unverified"].to_string();
    assert!(unverified.contains("size of scsi0"), "{unverified}");
    // Where the size is given, everything is known.
    let ledger = tempfile::tempdir().unwrap();
    for (module, args) in [
        (
            "pve_disk_import",
            json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": "nfs:100/disk0.vmdk", "source_pending": true,
                "source_bytes": 2 << 20}),
        ),
        ("pve_vm_shell", boot),
    ] {
        let d = lab
            .call(module, args)
            .ledger(ledger.path())
            .check(true)
            .run()
            .ok();
        if module == "pve_vm_shell" {
            assert_eq!(d["unverified"], Value::Null);
        }
    }
}
