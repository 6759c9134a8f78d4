//! Sizes in every notation, that mean what they mean on the first day and on the second.

use crate::support::{Lab, refused, triple, worlds};
use serde_json::{Value, json};

fn scsi0(lab: &Lab, vmid: u32) -> Value {
    lab.guest(vmid).expect("the guest")["config"]["scsi0"].clone()
}

/// `storage:size` of the server's own notation is in GiB, and fractions are taken.
#[test]
fn sizes_of_a_new_disk_are_unchanged_on_a_rerun() {
    let lab = Lab::start(worlds::small());
    for (n, (size, stored)) in [
        ("1", "1G"),
        ("0.5", "512M"),
        ("0.1", "104858K"),
        ("32.768", "34359739K"),
        ("0.0625", "64M"),
    ]
    .iter()
    .enumerate()
    {
        let vmid = 200 + u32::try_from(n).expect("a few");
        let args = json!({"vmid": vmid, "name": "s", "node": "pve1", "scsi": {"scsi0": format!("data:{size}")}});
        triple(&lab, "pve_vm_shell", args).changed();
        let is = scsi0(&lab, vmid);
        println!("shell {size} GiB: {is}");
        let disk = 300 + u32::try_from(n).expect("a few");
        triple(
            &lab,
            "pve_vm_shell",
            json!({"vmid": disk, "name": "d", "node": "pve1"}),
        )
        .changed();
        triple(
            &lab,
            "pve_disk_import",
            json!({"vmid": disk, "disk": "scsi0", "storage": "data", "size": size}),
        )
        .changed();
        let is = (is, scsi0(&lab, disk));
        println!("disk {size} GiB: {}", is.1);
        let want = format!("size={stored}");
        assert!(
            is.0.to_string().contains(&want) && is.1.to_string().contains(&want),
            "{is:?}"
        );
    }
}

#[test]
fn c14_d06_p33_every_unit_means_the_same() {
    let lab = Lab::start(worlds::small());
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 200, "name": "s", "node": "pve1", "scsi": {"scsi0": "data:1"}}),
    )
    .changed();
    for same in ["1G", "1024M", "1048576K", "1073741824"] {
        let args = json!({"vmid": 200, "disk": "scsi0", "state": "resized", "size": same});
        triple(&lab, "pve_disk_import", args).unchanged();
    }
    // Day two: it grows by the notation of either module, in any unit, and stays.
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 200, "scsi": {"scsi0": "data:2"}}),
    )
    .changed();
    assert!(scsi0(&lab, 200).to_string().contains("size=2G"));
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 200, "disk": "scsi0", "state": "resized", "size": "2560M"}),
    )
    .changed();
    assert!(scsi0(&lab, 200).to_string().contains("size=2560M"));
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 200, "disk": "scsi0", "state": "resized", "size": "128G"}),
    )
    .changed();
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 200, "disk": "scsi0", "state": "resized", "size": "131072M"}),
    )
    .unchanged();
    // Within what storages round to (4 MiB) it is the same size; smaller than that is drift, never a loss.
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 200, "scsi": {"scsi0": "data:1"}}),
    )
    .unchanged();
    assert!(
        t.apply["drift"].to_string().contains("scsi0"),
        "{}",
        t.apply["drift"]
    );
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 200, "disk": "scsi0", "state": "resized", "size": "1G"}),
        "refused",
    );
    assert!(m.contains("shrink"), "{m}");
    // Documented as not repeatable.
    let more = json!({"vmid": 200, "disk": "scsi0", "state": "resized", "size": "+1G"});
    assert!(
        lab.call("pve_disk_import", more.clone())
            .run()
            .ok()
            .changed()
    );
    assert!(lab.call("pve_disk_import", more).run().ok().changed());
    assert!(scsi0(&lab, 200).to_string().contains("size=130G"));
}

/// Memory is in MiB in both notations of the server.
#[test]
fn numbers_as_texts_are_no_difference() {
    let lab = Lab::one_guest();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "memory": "2048", "cores": "2", "cpulimit": "0.50", "onboot": "yes"}),
    )
    .changed();
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "memory": 2048, "cores": 2, "cpulimit": 0.5, "onboot": true}),
    )
    .unchanged();
}
