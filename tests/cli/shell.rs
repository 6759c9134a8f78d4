//! pve_vm_shell from the outside.

use crate::support::{Lab, refused, triple, triple_with, worlds};
use serde_json::{Value, json};

fn config(lab: &Lab, vmid: u32) -> Value {
    lab.guest(vmid).expect("the guest")["config"].clone()
}

#[test]
fn a_guest_is_created_changed_and_removed() {
    let lab = Lab::start(worlds::small());
    let args = json!({
        "vmid": 120, "name": "app", "node": "pve2", "memory": 2048, "cores": 2, "ostype": "l26", "scsihw": "virtio-scsi-single",
        "net": {"net0": "virtio,bridge=vmbr0,tag=10"}, "scsi": {"scsi0": "data:1"}, "tags": ["beta", "alpha"],
        "description": "two lines\nand ümlauts",
    });
    let t = triple(&lab, "pve_vm_shell", args).changed();
    assert_eq!(t.apply["vmid"], 120);
    let c = config(&lab, 120);
    assert!(c["net0"].as_str().unwrap().contains("tag=10"), "{c}");
    assert!(c["scsi0"].as_str().unwrap().starts_with("data:"), "{c}");
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 120, "memory": 4096, "net": {"net0": "virtio,bridge=vmbr1"}}),
    )
    .changed();
    let after = config(&lab, 120);
    assert!(
        after["net0"].as_str().unwrap().contains("tag=10"),
        "{after}"
    );
    let mac = |c: &Value| {
        c["net0"]
            .as_str()
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(mac(&c), mac(&after));
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 120, "state": "absent"}),
    )
    .changed();
    assert!(lab.guest(120).is_none());
}

#[test]
fn power_states() {
    let lab = Lab::one_guest();
    for state in ["started", "paused", "started", "stopped"] {
        let call = lab.call(
            "pve_vm_shell",
            json!({"vmid": 100, "state": state, "force": true, "timeout": 20}),
        );
        let t = triple_with(&lab, &call).changed();
        assert_eq!(t.check["status"], t.apply["status"], "{state}");
    }
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "template"}),
    )
    .changed();
}

#[test]
fn a_clone_is_made_once_and_takes_the_other_options() {
    let lab = Lab::one_guest();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "scsi": {"scsi0": "data:1"}}),
    )
    .changed();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"clone": "web", "vmid": 100, "newid": 201, "name": "copy", "memory": 4096, "full": true}),
    ).changed();
    assert_eq!(
        config(&lab, 201)["memory"].to_string().trim_matches('"'),
        "4096"
    );
}

#[test]
fn refusals_are_the_same_in_check_mode_and_in_earnest() {
    let lab = Lab::one_guest();
    lab.set(json!({"guest": 100, "status": "running"}));
    let cases = [
        // P63
        (
            json!({"vmid": 130, "name": "debian_12_homelab", "node": "pve1"}),
            "invalid_args",
            "name",
        ),
        // C24
        (
            json!({"vmid": 99, "name": "x", "node": "pve1"}),
            "invalid_args",
            "vmid",
        ),
        (
            json!({"vmid": 1_000_000_000, "name": "x", "node": "pve1"}),
            "invalid_args",
            "vmid",
        ),
        // P43
        (
            json!({"vmid": 130, "name": "x", "node": "pve1", "scsi": {"scsi0": "nowhere:1"}}),
            "refused",
            "nowhere",
        ),
        (
            json!({"vmid": 130, "name": "x", "node": "pve1", "net": {"net0": "virtio,bridge=vmbr9"}}),
            "refused",
            "vmbr9",
        ),
        // P41
        (
            json!({"vmid": 130, "name": "x", "node": "pve1", "boot": "order=scsi0"}),
            "refused",
            "scsi0",
        ),
        // Another guest's name: a wrong vmid must not overwrite a stranger.
        (
            json!({"vmid": 100, "name": "other", "memory": 4096}),
            "refused",
            "rename",
        ),
        // C04
        (json!({"vmid": 100, "state": "absent"}), "refused", "force"),
        (
            json!({"vmid": 130, "name": "x", "node": "nope"}),
            "refused",
            "nope",
        ),
    ];
    for (args, kind, word) in cases {
        let m = refused(&lab, "pve_vm_shell", args.clone(), kind);
        assert!(m.contains(word), "{args}: {m}");
    }
}
