//! What the generated triples (tests/cli/generated.rs) found, each as a small case.

use crate::support::{Lab, refused, triple, worlds};
use serde_json::{Value, json};

const PVE1: &str = "pve1";

/// Guest 100 with this configuration and a raw disk `scsi0` of 2 MiB.
fn guest(running: bool, os: bool, more: Value) -> Lab {
    let mut g = worlds::guest(100, "web");
    for (k, v) in more.as_object().expect("an object") {
        g["config"][k] = v.clone();
    }
    g["config"]["scsi0"] = json!("data:100/vm-100-disk-0.raw,size=2M");
    g["guest_os"] = json!(os);
    g["status"] = json!(if running { "running" } else { "stopped" });
    Lab::start(worlds::small_with(json!({
        "guests": [g],
        "content": {"data": [{"volid": "data:100/vm-100-disk-0.raw", "size": 2 << 20, "virtual_size": 2 << 20}]},
    })))
}

/// Guest 100 with a qcow2 disk of 2 MiB in that slot.
fn one_disk(slot: &str) -> Value {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["config"][slot] = json!("data:100/vm-100-disk-0.qcow2,size=2M");
    w["pve"]["content"] =
        json!({"data": [{"volid": "data:100/vm-100-disk-0.qcow2", "virtual_size": 2 << 20}]});
    w
}

fn config(lab: &Lab, vmid: u32, key: &str) -> Value {
    lab.guest(vmid).expect("the guest")["config"][key].clone()
}

fn shell(lab: &Lab, args: Value) -> crate::support::Triple {
    triple(lab, "pve_vm_shell", args)
}

/// A copy keeps the protection, what waits for the next stop, and has a generation id only if its source has one.
#[test]
fn a_copy_is_what_the_server_makes_of_its_source() {
    let lab = guest(true, false, json!({"protection": "1"}));
    shell(&lab, json!({"vmid": 100, "cores": 4})).changed();
    let copy = |newid: u32| json!({"vmid": 100, "clone": "web", "newid": newid, "full": true});
    let t = shell(&lab, copy(300)).changed();
    assert_eq!(t.apply["config"]["protection"], 1);
    assert!(t.apply["config"]["vmgenid"].is_null());
    assert_eq!(config(&lab, 300, "cores"), "4");
    // A disk that waits would be one volume of two guests.
    let disk = json!({"vmid": 100, "disk": "scsi0", "cache": "none"});
    triple(&lab, "pve_disk_import", disk).changed();
    let m = refused(&lab, "pve_vm_shell", copy(301), "refused");
    assert!(m.contains("scsi0") && m.contains("same volume"), "{m}");
}

/// The copy of a snapshot has what the snapshot kept, and not what the guest has now.
#[test]
fn a_copy_of_a_snapshot_has_its_configuration() {
    let lab = Lab::start(one_disk("scsi0"));
    lab.other("POST", "/nodes/pve1/qemu/100/snapshot", "snapname=before");
    for _ in 0..100 {
        if lab.guest(100).expect("the guest")["snapshots"][0] == "before" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    shell(
        &lab,
        json!({"vmid": 100, "cores": 8, "net": {"net1": "virtio,bridge=vmbr1"}}),
    )
    .changed();
    let copy = |snapshot: &str| json!({"vmid": 100, "clone": "web", "newid": 300, "full": true, "snapname": snapshot});
    let m = refused(&lab, "pve_vm_shell", copy("never"), "not_found");
    assert!(m.contains("never"), "{m}");
    let t = shell(&lab, copy("before")).changed();
    assert_eq!(t.apply["config"]["cores"], 2);
    assert!(config(&lab, 300, "net1").is_null());
}

/// `hotplug` of the same request does not count yet.
#[test]
fn a_new_hotplug_counts_from_the_next_request_on() {
    let lab = guest(true, false, json!({"hotplug": "0"}));
    let more = json!({"vmid": 100, "hotplug": "disk", "virtio": {"virtio1": "data:1"}});
    let t = shell(&lab, more).changed();
    assert!(
        t.apply["pending"]["virtio1"].is_string(),
        "{}",
        t.apply["pending"]
    );
    let t = shell(&lab, json!({"vmid": 100, "virtio": {"virtio2": "data:1"}})).changed();
    assert!(
        t.apply["pending"]["virtio2"].is_null(),
        "{}",
        t.apply["pending"]
    );
}

/// The server pads a volume to whole KiB (LVM: to extents), and writes what was asked for into the configuration.
#[test]
fn a_size_with_a_part_of_a_sector() {
    for name in ["vm-100-disk-0.raw", "vm-100-disk-0.qcow2"] {
        let volid = format!("data:100/{name}");
        let mut w = worlds::one_guest();
        w["pve"]["guests"][0]["config"]["scsi0"] = json!(format!("{volid},size=2M"));
        w["pve"]["content"] = json!({"data": [{"volid": volid, "virtual_size": 2 << 20}]});
        let lab = Lab::start(w);
        let args = json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "12345678"});
        let t = triple(&lab, "pve_disk_import", args).changed();
        assert_eq!(t.apply["size_bytes"], json!(12_057 * 1024), "{name}");
        let stored = config(&lab, 100, "scsi0");
        assert!(
            stored.as_str().is_some_and(|v| v.contains("size=12057K")),
            "{stored}"
        );
    }
}

/// A running guest moves its local disks only when told so, and an image on one node keeps any guest there.
#[test]
fn what_lies_on_one_node_moves_only_when_told() {
    let lab = guest(true, true, json!({}));
    let to = |more: Value| {
        let mut args = json!({"vmid": 100, "node": "pve2", "migrate": true});
        for (k, v) in more.as_object().expect("an object") {
            args[k] = v.clone();
        }
        args
    };
    let m = refused(&lab, "pve_vm_shell", to(json!({})), "refused");
    assert!(m.contains("scsi0") && m.contains("with_local_disks"), "{m}");
    let t = shell(&lab, to(json!({"with_local_disks": true}))).changed();
    assert_eq!(t.apply["node"], "pve2");
    assert_eq!(t.apply["status"], "running");

    let lab = guest(false, false, json!({"ide2": "local:iso/x.iso,media=cdrom"}));
    let m = refused(&lab, "pve_vm_shell", to(json!({})), "refused");
    assert!(m.contains("ide2") && m.contains("eject"), "{m}");
    assert_eq!(lab.guest(100).expect("the guest")["node"], PVE1);
}

/// Which keys of a disk wait for the next stop and which apply at once, each alone.
#[test]
fn keys_of_a_disk_that_apply_at_once() {
    let lab = guest(true, false, json!({}));
    for (key, value, waits) in [
        ("backup", json!(false), false),
        ("replicate", json!(false), false),
        ("serial", json!("ABC"), false),
        ("detect_zeroes", json!(false), false),
        ("werror", json!("report"), false),
        ("iops", json!(100), false),
        ("cache", json!("none"), true),
        ("discard", json!("on"), true),
        ("ssd", json!(true), true),
        ("aio", json!("threads"), true),
    ] {
        let mut args = json!({"vmid": 100, "disk": "scsi0"});
        args[key] = value;
        let t = triple(&lab, "pve_disk_import", args).changed();
        assert_eq!(
            t.apply["pending"]["scsi0"].is_string(),
            waits,
            "{key}: {}",
            t.apply["pending"]
        );
        if waits {
            lab.call("pve_vm_shell", json!({"vmid": 100, "revert": "scsi0"}))
                .run()
                .ok();
        }
    }
}

/// The server lists what waits in the order of its changes; results have it by name.
#[test]
fn what_waits_is_listed_by_name() {
    let lab = guest(true, false, json!({}));
    for change in [
        json!({"sockets": 2}),
        json!({"cores": 4}),
        json!({"numa_enabled": true}),
    ] {
        let mut args = change;
        args["vmid"] = json!(100);
        shell(&lab, args).changed();
    }
    let one = json!({"vmid": 100, "bios": "ovmf"});
    let t = shell(&lab, one).changed();
    for d in [&t.check, &t.apply, &t.again] {
        let names: Vec<String> = d["pending"]
            .as_object()
            .expect("pending")
            .keys()
            .cloned()
            .collect();
        assert_eq!(names, ["bios", "cores", "numa", "sockets"]);
    }
}

/// As the peer's documentation has it: a cloud-init drive with the format that it is made in.
#[test]
fn a_cloud_init_drive_with_a_format() {
    let lab = Lab::start(worlds::small());
    let t = shell(
        &lab,
        json!({"vmid": 130, "name": "c", "node": "pve1", "ide": {"ide2": "local:cloudinit,format=qcow2"}, "ciuser": "u"}),
    )
    .changed();
    assert_eq!(
        t.apply["config"]["ide2"],
        "local:130/vm-130-cloudinit.qcow2,media=cdrom"
    );
}

/// A drive's own format has seven choices, a copy of a disk three: said before anything is sent (playbook of seed 5003).
#[test]
fn what_a_copy_cannot_become_is_an_argument_error() {
    let lab = guest(false, false, json!({}));
    for f in ["cow", "qcow", "qed", "cloop"] {
        for (module, args) in [
            (
                "pve_disk_import",
                json!({"vmid": 100, "disk": "scsi0", "state": "moved", "format": f}),
            ),
            (
                "pve_vm_shell",
                json!({"vmid": 100, "clone": "web", "newid": 140, "name": "copy", "format": f}),
            ),
        ] {
            let d = triple(&lab, module, args).apply.failed("invalid_args");
            assert!(d.msg().contains("format"), "{}", d.msg());
        }
    }
}

/// The server moves no disk of a running guest to another one (playbook of seed 104), and imports none into an EFI disk or a TPM state
/// without what they are (seed 112).
#[test]
fn what_cannot_be_handed_over_or_imported_is_refused() {
    let lab = Lab::start(worlds::small_with(json!({"guests": [
        {"vmid": 100, "node": "pve1", "status": "running", "config": {"name": "web", "scsi0": "local:100/vm-100-disk-0.raw,size=2M"}},
        {"vmid": 101, "node": "pve1", "status": "running", "config": {"name": "app"}},
    ]})));
    let args = json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_vmid": 101});
    let d = triple(&lab, "pve_disk_import", args)
        .apply
        .failed("refused");
    assert!(d.msg().contains("the guest runs"), "{}", d.msg());
    for disk in ["efidisk0", "tpmstate0"] {
        let args = json!({"vmid": 100, "disk": disk, "storage": "nfs", "import_from": "nfs:900/vm-900-disk-0.raw"});
        triple(&lab, "pve_disk_import", args)
            .apply
            .failed("invalid_args");
    }
}

/// To the server a number that is given differs from one that is not, 0 too: the card is plugged anew (playbook of seed 124).
#[test]
fn queues_that_are_given_plug_a_card_anew() {
    let lab = guest(
        true,
        false,
        json!({"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}),
    );
    let args = json!({"vmid": 100, "interface": "net0", "queues": 0, "link_down": true});
    let t = triple(&lab, "pve_nic", args).changed();
    assert!(
        t.check["pending"]["net0"].is_string(),
        "{}",
        t.check["pending"]
    );
}

/// What later tasks of a check run say of a guest that is only planned: its uuid is the server's to choose (seeds 76, 232, 281).
#[test]
fn the_uuid_of_a_planned_guest() {
    let tasks = [
        (
            "pve_vm_shell",
            json!({"smbios": "manufacturer=QUNNRQ==,base64=1"}),
            true,
        ),
        (
            "pve_nic",
            json!({"interface": "net1", "guard_uuid": "0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0001"}),
            false,
        ),
        (
            "pve_vm_shell",
            json!({"smbios": "uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0002", "name": "other"}),
            true,
        ),
    ];
    for (module, mut args, announced) in tasks {
        let lab = Lab::start(worlds::small());
        let ledger = tempfile::tempdir().expect("a folder");
        let first = lab.call("pve_vm_shell", json!({"vmid": 300, "node": "pve1"}));
        first.clone().check(true).ledger(ledger.path()).run().ok();
        args["vmid"] = json!(300);
        let check = lab
            .call(module, args.clone())
            .check(true)
            .ledger(ledger.path())
            .run();
        first.run().ok();
        let real = lab.call(module, args).run();
        if announced {
            assert!(check["unverified"].is_array());
            assert_eq!(check["msg"], real["msg"]);
        } else {
            crate::support::triple::agree(&check, &real);
        }
    }
}

/// A start and a template need every storage of the guest on its node; generated playbooks, seed 375.
#[test]
fn a_storage_that_the_node_lost_stops_a_start_and_a_template() {
    let w = one_disk("scsi0");
    let lab = Lab::start(w.clone());
    let storage = |patch: &[(&str, Value)]| {
        let mut w = w.clone();
        let data = w["pve"]["storage"]
            .as_array_mut()
            .and_then(|all| all.iter_mut().find(|s| s["storage"] == "data"))
            .expect("storage data");
        for (k, v) in patch {
            data[*k] = v.clone();
        }
        lab.reset(Some(w));
    };
    storage(&[("nodes", json!("pve2"))]);
    for (state, verb) in [("started", "start"), ("template", "template")] {
        let m = refused(
            &lab,
            "pve_vm_shell",
            json!({"vmid": 100, "state": state}),
            "refused",
        );
        assert!(
            m.contains(verb) && m.contains("`data`") && m.contains("not available on node pve1"),
            "{m}"
        );
    }
    let moved = json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_storage": "local"});
    let grown = json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "4M"});
    for args in [moved, grown] {
        let m = refused(&lab, "pve_disk_import", args, "refused");
        assert!(m.contains("not available on node pve1"), "{m}");
    }
    let copy = json!({"vmid": 100, "clone": "web", "newid": 300, "full": true});
    let m = refused(&lab, "pve_vm_shell", copy, "refused");
    assert!(m.contains("not available on node pve1"), "{m}");
    storage(&[("disable", json!(1))]);
    let m = refused(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "started"}),
        "refused",
    );
    assert!(m.contains("`data` is disabled"), "{m}");
    storage(&[]);
    shell(&lab, json!({"vmid": 100, "state": "template"})).changed();
}

/// Destroying a volume needs a privilege on its storage, and detaching it first is no reason to find that out half-way; seed 489.
#[test]
fn a_volume_that_may_not_be_destroyed_is_not_detached() {
    let mut w = one_disk("scsi0");
    w["pve"]["acl"] = json!([{"path": "/", "type": "user", "ugid": "deploy@pve", "roleid": "PVEVMAdmin", "propagate": 1}]);
    let lab = Lab::start(w);
    let mut args = lab.user("deploy@pve");
    for (k, v) in [
        ("vmid", json!(100)),
        ("disk", json!("scsi0")),
        ("state", json!("absent")),
    ] {
        args[k] = v;
    }
    for check in [true, false] {
        let call = lab.bare("pve_disk_import", args.clone()).check(check);
        let done = call.run().failed("permission");
        let m = done.msg();
        assert!(
            m.contains("Datastore.AllocateSpace") && m.contains("/storage/data"),
            "{m}"
        );
    }
    assert_eq!(
        config(&lab, 100, "scsi0"),
        "data:100/vm-100-disk-0.qcow2,size=2M"
    );
}

/// What waits for its removal with its volume leaves no unused disk behind when the guest stops; seed 777.
#[test]
fn a_stop_destroys_what_was_removed_with_its_volume() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["config"]["ide0"] = json!("data:100/vm-100-disk-0.qcow2,size=2M");
    w["pve"]["guests"][0]["status"] = json!("running");
    w["pve"]["guests"][0]["guest_os"] = json!(false);
    w["pve"]["content"] =
        json!({"data": [{"volid": "data:100/vm-100-disk-0.qcow2", "virtual_size": 2 << 20}]});
    let lab = Lab::start(w);
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "ide0", "state": "absent"}),
    )
    .changed();
    // Read from the server, by the check run and the real one alike.
    let t = shell(
        &lab,
        json!({"vmid": 100, "state": "stopped", "force": true, "timeout": 1}),
    )
    .changed();
    assert!(t.apply["config"]["unused0"].is_null());
    assert!(config(&lab, 100, "unused0").is_null());
}

/// The server pins the machine of a guest that becomes a Windows guest, and takes one that is set by itself as it is; seed 940.
#[test]
fn a_machine_by_itself_is_not_pinned() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["config"]["ostype"] = json!("win11");
    let lab = Lab::start(w);
    shell(&lab, json!({"vmid": 100, "machine": "q35"})).changed();
    assert_eq!(config(&lab, 100, "machine"), "q35");
    let lab = Lab::start(worlds::one_guest());
    shell(&lab, json!({"vmid": 100, "ostype": "win11"})).changed();
    let pinned = config(&lab, 100, "machine");
    assert!(
        pinned.as_str().is_some_and(|m| m.starts_with("pc-i440fx-")),
        "{pinned}"
    );
}
