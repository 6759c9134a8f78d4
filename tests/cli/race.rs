//! Two clients at once, and a cluster that lists a new guest late.

use crate::support::{Lab, triple, worlds};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The next free id is not reserved by the server: whoever creates first has it (docs/bugs.md P49).
#[test]
fn p49_two_clients_race_for_the_next_id_fifty_times() {
    let lab = Lab::start(worlds::small_with(json!({"timing": {"task_ms": 5}})));
    let mut ids = BTreeSet::new();
    let mut replanned = 0;
    for round in 0..50 {
        let children: Vec<_> = ["a", "b"]
            .iter()
            .map(|who| {
                let name = format!("race-{round}-{who}");
                let args = json!({"name": name, "node": "pve1", "memory": 64});
                (name, lab.call("pve_vm_shell", args).spawn())
            })
            .collect();
        for (name, (child, _folder)) in children {
            let out = child.wait_with_output().expect("the process ends");
            let r: Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
            assert_eq!(r["changed"], true, "{name}: {r}");
            assert!(out.status.success(), "{name}: {r}");
            let id = r["vmid"].as_u64().expect("a vmid");
            assert!(ids.insert(id), "{name}: {id} was given twice");
            let guest = lab
                .guest(u32::try_from(id).expect("a vmid"))
                .expect("the guest");
            assert_eq!(
                guest["config"]["name"],
                json!(name),
                "{id} is somebody else's"
            );
            replanned += usize::from(
                r.get("replanned")
                    .is_some_and(|v| !v.is_null() && *v != json!(0)),
            );
        }
    }
    println!(
        "race: {} guests with {} ids, {replanned} times another client was first",
        ids.len(),
        ids.len()
    );
    assert_eq!(ids.len(), 100);
    assert_eq!(
        lab.world()["pve"]["guests"]
            .as_array()
            .expect("guests")
            .len(),
        100
    );
}

/// `cluster/resources` lists a new guest seconds later; the next task must find it all the same.
#[test]
fn a_new_guest_is_usable_by_the_next_task_without_a_pause() {
    let lab = Lab::start(worlds::small_with(
        json!({"timing": {"task_ms": 5, "listing_lag_ms": 1500}}),
    ));
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 300, "name": "late", "node": "pve1", "memory": 64}),
    )
    .changed();
    let made = json!({"vmid": 301, "name": "later", "node": "pve1", "memory": 64});
    lab.call("pve_vm_shell", made).run().ok();
    let nic = json!({"vmid": 301, "interface": "net0", "bridge": "vmbr0"});
    let done = lab.call("pve_nic", nic).run().ok();
    assert!(done.changed());
    let disk = json!({"vmid": 301, "disk": "scsi0", "storage": "data", "size": 1});
    lab.call("pve_disk_import", disk).run().ok();
    let on = lab
        .call("pve_vm_shell", json!({"vmid": 301, "state": "started"}))
        .run()
        .ok();
    assert_eq!(on["status"], "running");
}
