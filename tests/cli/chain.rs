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

/// The files of a ledger, over all endpoints.
fn entries(ledger: &std::path::Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(ledger)
        .unwrap()
        .flatten()
        .flat_map(|e| std::fs::read_dir(e.path()).unwrap().flatten())
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "json"))
        .collect()
}

/// What the same task says without any ledger, and with this one, which must warn.
#[track_caller]
fn as_if_alone(nic: &crate::support::Call<'_>, ledger: &std::path::Path) {
    let alone = nic.clone().check(true).run().ok();
    let with = nic.clone().ledger(ledger).check(true).run().ok();
    assert!(
        with.warnings()
            .iter()
            .any(|w| w.contains("real state only")),
        "{:?}",
        with.warnings()
    );
    crate::support::triple::agree(&alone, &with);
}

fn tag(lab: &Lab, tag: u32) -> crate::support::Call<'_> {
    lab.call(
        "pve_nic",
        json!({"vmid": 100, "interface": "net0", "tag": tag}),
    )
}

#[test]
fn an_unreadable_ledger_is_a_warning() {
    let lab = Lab::one_guest();
    // An entry that cannot be read, even by root.
    let ledger = tempfile::tempdir().unwrap();
    tag(&lab, 5).ledger(ledger.path()).check(true).run().ok();
    for p in entries(ledger.path()) {
        std::fs::remove_file(&p).unwrap();
        std::fs::create_dir(&p).unwrap();
    }
    as_if_alone(&tag(&lab, 5), ledger.path());
    // A ledger that is no folder.
    let file = tempfile::NamedTempFile::new().unwrap();
    as_if_alone(&tag(&lab, 5), file.path());
}

#[test]
fn a_full_disk_is_a_warning_and_leaves_no_older_plan() {
    let lab = Lab::one_guest();
    let ledger = tempfile::tempdir().unwrap();
    let full = tag(&lab, 5)
        .ledger(ledger.path())
        .check(true)
        .without_room()
        .run()
        .ok();
    assert!(full.changed());
    crate::support::triple::agree(&tag(&lab, 5).check(true).run().ok(), &full);
    assert!(
        full.warnings().iter().any(|w| w.contains("planned")),
        "{:?}",
        full.warnings()
    );
    // The next one does not know that plan, and says what it finds.
    let next = tag(&lab, 5).ledger(ledger.path()).check(true).run().ok();
    assert!(
        next.changed(),
        "a plan that was not written down was believed"
    );
    // An older plan of the same object must not be believed once a newer one could not be written.
    let older = tag(&lab, 6).ledger(ledger.path()).check(true).run().ok();
    assert!(older.changed());
    tag(&lab, 7)
        .ledger(ledger.path())
        .check(true)
        .without_room()
        .run()
        .ok();
    let alone = tag(&lab, 6).check(true).run().ok();
    let after = tag(&lab, 6).ledger(ledger.path()).check(true).run().ok();
    crate::support::triple::agree(&alone, &after);
    assert_eq!(lab.writes(), 0);
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

#[test]
fn a_copy_that_may_not_fit_is_announced() {
    let mut world = worlds::one_guest();
    let storages = world["pve"]["storage"].as_array_mut().unwrap();
    storages.push(json!({"storage": "small", "type": "dir", "path": "/srv/small", "content": "images", "total": 64 << 20, "used": 63 << 20}));
    world["pve"]["content"] = json!({"nfs": [
        {"volid": "nfs:import/full.raw", "size": 2 << 20, "random": true},
        {"volid": "nfs:import/empty.raw", "size": 2 << 20},
    ]});
    let lab = Lab::start(world);
    let import = |disk: &str, file: &str| {
        lab.call(
            "pve_disk_import",
            json!({"vmid": 100, "disk": disk, "storage": "small", "format": "raw", "import_from": format!("nfs:import/{file}")}),
        )
    };
    let full = import("scsi0", "full.raw");
    let check = full.clone().check(true).run().ok();
    assert!(
        check["unverified"]
            .to_string()
            .contains("room on storage small"),
        "{}",
        *check
    );
    full.run().failed("task_failed").says("No space left");
    assert_eq!(lab.guest(100).unwrap()["config"]["scsi0"], Value::Null);
    // Holes take no room: nothing to announce, and it works.
    let empty = import("scsi1", "empty.raw");
    assert_eq!(
        empty.clone().check(true).run().ok()["unverified"],
        Value::Null
    );
    empty.run().ok();
}

/// Found by the generated playbooks, seed 17.
#[test]
fn an_id_that_the_server_chose_is_announced_where_it_is_replaced() {
    let lab = Lab::start(worlds::small());
    let ledger = tempfile::tempdir().unwrap();
    let check = |args: Value| {
        lab.call("pve_vm_shell", args)
            .ledger(ledger.path())
            .check(true)
            .run()
            .ok()
    };
    check(json!({"vmid": 300, "name": "made", "node": "pve1"}));
    let plain = check(json!({"vmid": 300, "memory": 1024}));
    assert_eq!(plain["unverified"], Value::Null);
    let named = check(json!({"vmid": 300, "smbios": "uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0002"}));
    assert!(
        named["unverified"]
            .to_string()
            .contains("smbios1 of guest 300"),
        "{}",
        *named
    );
}

/// Found by the generated playbooks, seed 546.
#[test]
fn a_guest_that_is_switched_stays_managed() {
    let lab = Lab::start(worlds::small_with(json!({
        "guests": [worlds::guest(100, "web")],
        "ha": {"vm:100": {"state": "started"}},
    })));
    let ledger = tempfile::tempdir().unwrap();
    let run = |args: Value, check: bool| {
        lab.call("pve_vm_shell", args)
            .ledger(ledger.path())
            .check(check)
            .run()
    };
    let start = json!({"vmid": 100, "state": "started"});
    let remove = json!({"vmid": 100, "state": "absent", "force": true});
    run(start.clone(), true).ok();
    let check = run(remove.clone(), true)
        .failed("refused")
        .says("HA resource");
    lab.call("pve_vm_shell", start).run().ok();
    let real = lab.call("pve_vm_shell", remove).run();
    crate::support::triple::agree(&check, &real);
}
