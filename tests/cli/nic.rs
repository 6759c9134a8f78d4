//! pve_nic from the outside.

use crate::support::{Lab, refused, triple};
use serde_json::json;

#[test]
fn a_nic_is_added_changed_and_removed() {
    let lab = Lab::one_guest();
    triple(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "bridge": "vmbr1", "tag": 20}),
    )
    .changed();
    let stored = lab.guest(100).unwrap()["config"]["net1"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        stored.contains("bridge=vmbr1") && stored.contains("tag=20"),
        "{stored}"
    );
    let t = triple(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net0", "tag": 5}),
    );
    assert_eq!(
        lab.guest(100).unwrap()["config"]["net0"],
        "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,tag=5"
    );
    assert_eq!(t.apply["mac"], "BC:24:11:00:00:01");
    triple(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "state": "absent"}),
    )
    .changed();
    assert!(lab.guest(100).unwrap()["config"].get("net1").is_none());
}

#[test]
fn refusals_are_the_same_in_check_mode_and_in_earnest() {
    let lab = Lab::one_guest();
    let m = refused(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "bridge": "vmbr7"}),
        "refused",
    );
    assert!(m.contains("vmbr7"), "{m}");
    let m = refused(
        &lab,
        "pve_nic",
        json!({"vmid": 999, "interface": "net1", "bridge": "vmbr0"}),
        "not_found",
    );
    assert!(m.contains("999"), "{m}");
    let m = refused(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "memory", "state": "absent"}),
        "invalid_args",
    );
    assert!(m.contains("net0"), "{m}");
}
