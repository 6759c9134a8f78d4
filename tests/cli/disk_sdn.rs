//! pve_disk_import, pve_zone and pve_vnet from the outside: check, apply, again over HTTPS; real bytes on the shared export.

mod support;

use serde_json::{Value, json};
use support::triple::agree;
use support::{Call, Lab, refused, triple, triple_with, worlds};

const MIB: usize = 1 << 20;

/// Guest 100 without disks, guest 101 with one, and a data file as ESXi leaves it on the export.
fn lab() -> (Lab, Vec<u8>) {
    let mut two = worlds::guest(101, "db");
    two["config"]["scsihw"] = json!("virtio-scsi-pci");
    two["config"]["scsi0"] = json!("local:101/vm-101-disk-0.raw,discard=on,size=64M");
    two["config"]["boot"] = json!("order=scsi0");
    let world = worlds::small_with(json!({
        "guests": [worlds::guest(100, "web"), two],
        "content": {"local": [
            {"volid": "local:101/vm-101-disk-0.raw", "size": 64 * MIB},
            {"volid": "local:iso/test.iso", "size": 350 * 1024},
        ]},
    }));
    let lab = Lab::start(world);
    let bytes: Vec<u8> = (0..32 * MIB as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let folder = lab.export().join("My VM [1]");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("My VM-flat.vmdk"), &bytes).expect("a data file");
    (lab, bytes)
}

/// The descriptor, made as a playbook does it.
fn describe(lab: &Lab) -> Value {
    let args = json!({"export": lab.export(), "storage": "nfs", "vmid": 100, "disk": 0, "source": "My VM [1]/My VM-flat.vmdk", "bytes": 32 * MIB});
    triple(lab, "vmdk_descriptor", args).apply["volume"].clone()
}

fn config(lab: &Lab, vmid: u32, key: &str) -> Value {
    lab.guest(vmid).expect("the guest")["config"][key].clone()
}

#[test]
fn a_vmware_disk_is_imported_byte_for_byte_and_never_twice() {
    let (lab, bytes) = lab();
    let volume = describe(&lab);
    let args = json!({"vmid": 100, "disk": "scsi0", "storage": "data", "format": "raw", "import_from": volume, "source_bytes": 32 * MIB, "discard": "on"});
    let t = triple(&lab, "pve_disk_import", args.clone());
    assert_eq!(t.apply["volume"], "data:100/vm-100-disk-0.raw");
    assert_eq!(t.apply["size_bytes"], json!(32 * MIB));
    assert_eq!(
        (t.apply["imported"].clone(), t.again["imported"].clone()),
        (json!(true), json!(false))
    );
    assert!(
        t.apply["upid"]
            .as_str()
            .is_some_and(|u| u.starts_with("UPID:"))
    );
    assert_eq!(
        config(&lab, 100, "scsi0"),
        "data:100/vm-100-disk-0.raw,discard=on,size=32M"
    );
    let copy =
        std::fs::read(lab.storage("data").join("images/100/vm-100-disk-0.raw")).expect("the copy");
    assert!(copy == bytes, "the bytes differ");
    let source = std::fs::read(lab.export().join("My VM [1]/My VM-flat.vmdk")).expect("the source");
    assert!(source == bytes, "VMware's file was touched");
    // P28: a changed option is no import; D1: the others stay.
    let mut more = args;
    more["cache"] = json!("none");
    let t = triple(&lab, "pve_disk_import", more);
    assert_eq!(
        config(&lab, 100, "scsi0"),
        "data:100/vm-100-disk-0.raw,cache=none,discard=on,size=32M"
    );
    assert_eq!(
        t.apply.of_kind("write"),
        ["PUT /nodes/pve1/qemu/100/config -> 200"]
    );
    // Of another size: it is another disk.
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi0", "storage": "data", "import_from": describe(&lab)}),
        "refused",
    );
    assert!(m.contains("never imported over"), "{m}");
}

#[test]
fn a_disk_is_attached_at_once_and_moved_later() {
    let (lab, bytes) = lab();
    let volume = describe(&lab);
    let args = json!({"vmid": 100, "disk": "scsi0", "attach_from": volume});
    let t = triple(&lab, "pve_disk_import", args.clone());
    assert_eq!(t.apply["volume"], "nfs:100/disk0.vmdk");
    assert_eq!(config(&lab, 100, "scsi0"), "nfs:100/disk0.vmdk,size=32M");
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_storage": "data", "format": "raw"}),
    );
    assert_eq!(
        (t.apply["volume"].clone(), t.apply["unused"].clone()),
        (json!("data:100/vm-100-disk-0.raw"), json!("unused0"))
    );
    let copy =
        std::fs::read(lab.storage("data").join("images/100/vm-100-disk-0.raw")).expect("the copy");
    assert!(copy == bytes, "the bytes differ");
    // The task that attached it stays green.
    let d = lab.call("pve_disk_import", args).run().ok();
    assert!(!d.changed() && d["drift"][0]["option"] == "attach_from");
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi1", "attach_from": "nfs:100/disk0.vmdk"}),
        "refused",
    );
    assert!(m.contains("guest 100"), "{m}");
}

#[test]
fn a_disk_is_made_grown_moved_detached_and_removed() {
    let (lab, _) = lab();
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "virtio1", "storage": "local", "size": "0.0625", "format": "qcow2", "iothread": true}),
    );
    assert_eq!(t.apply["msg"], "Disk virtio1 created in VM 100");
    assert_eq!(
        config(&lab, 100, "virtio1"),
        "local:100/vm-100-disk-0.qcow2,iothread=1,size=64M"
    );
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "virtio1", "state": "resized", "size": "96M"}),
    );
    assert_eq!(t.apply["size_bytes"], json!(96 * MIB));
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "virtio1", "state": "resized", "size": "32M"}),
        "refused",
    );
    assert!(m.contains("shrinking"), "{m}");
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "virtio1", "state": "moved", "target_storage": "data", "delete_moved": true}),
    );
    assert_eq!(
        (t.apply["volume"].clone(), t.apply["unused"].clone()),
        (json!("data:100/vm-100-disk-0.qcow2"), Value::Null)
    );
    // To another guest, and again.
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "virtio1", "state": "moved", "target_vmid": 101}),
    );
    assert_eq!(t.apply["volume"], "data:101/vm-101-disk-0.qcow2");
    assert!(config(&lab, 100, "virtio1").is_null());
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "virtio1", "state": "detached"}),
    );
    assert_eq!(t.apply["unused"], "unused0");
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "unused0", "state": "absent"}),
    );
    assert_eq!(t.apply["plan"][0]["destructive"], json!(true));
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi0", "state": "absent"}),
    );
    assert_eq!(t.apply.of_kind("write").len(), 2);
    assert!(
        !lab.storage("local")
            .join("images/101/vm-101-disk-0.raw")
            .exists(),
        "the data is gone"
    );
    assert_eq!(config(&lab, 101, "boot"), " ");
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "ide2", "media": "cdrom", "iso_image": "local:iso/test.iso"}),
    );
    assert_eq!(t.apply["msg"], "CD-ROM was created on ide2 bus in VM 101");
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "ide2", "media": "cdrom", "iso_image": "none"}),
    )
    .ok();
}

#[test]
fn forced_makes_a_new_disk_and_keeps_the_old_volume() {
    let (lab, _) = lab();
    let call = lab.call("pve_disk_import", json!({"vmid": 101, "disk": "scsi0", "storage": "local", "size": "0.03125", "create": "forced"}));
    let check = call.clone().check(true).run().ok();
    let apply = call.run().ok();
    agree(&check, &apply);
    assert_eq!(config(&lab, 101, "unused0"), "local:101/vm-101-disk-0.raw");
    assert_eq!(apply["volume"], "local:101/vm-101-disk-1.raw");
    assert_eq!(apply.warnings(), Vec::<String>::new());
}

#[test]
fn what_the_server_would_refuse_is_refused_before_it_is_sent() {
    let (lab, _) = lab();
    let args =
        |from: &str| json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": from});
    std::fs::create_dir_all(lab.export().join("import")).expect("a folder");
    for name in ["two.vmdk", "two-flat.vmdk"] {
        std::fs::write(lab.export().join("import").join(name), b"x").expect("a file");
    }
    for (from, kind, word) in [
        ("nfs:100/disk7.vmdk", "not_found", "disk7"),
        ("nfs:import/two.vmdk", "refused", "beside it"),
        ("nfs:import/app/app.vmdk", "refused", "folder"),
        ("local:iso/test.iso", "refused", "content type"),
        ("/mnt/pve/nfs/app/app.vmdk", "permission", "root@pam"),
        (
            "nfs:import/app-flat.vmdk",
            "invalid_args",
            "vmdk_descriptor",
        ),
        ("nosuch:100/disk0.vmdk", "refused", "nosuch"),
    ] {
        let m = refused(&lab, "pve_disk_import", args(from), kind);
        assert!(m.contains(word), "{from}: {m}");
    }
    // An earlier task of the same check run makes it: unverified.
    let d = lab
        .call("pve_disk_import", args("nfs:100/disk7.vmdk"))
        .arg("source_pending", true)
        .check(true)
        .run()
        .ok();
    assert!(
        d["unverified"][0]
            .as_str()
            .is_some_and(|u| u.contains("disk7"))
    );
    // The token of deploy has no rights of its own.
    let mut bare = json!({"api_host": lab.pve(), "api_token_id": "deploy@pve!ci", "api_token_secret": worlds::TOKEN_SECRET, "ca_path": lab.ca()});
    for (k, v) in json!({"vmid": 101, "disk": "scsi0", "cache": "none"})
        .as_object()
        .expect("an object")
    {
        bare[k] = v.clone();
    }
    triple_with(&lab, &lab.bare("pve_disk_import", bare))
        .check
        .failed("permission");
    let m = Call::nowhere("pve_disk_import", json!({"api_host": "127.0.0.1:1", "api_user": "a@pve", "api_password": "long-secret-password", "vmid": 100, "disk": "virtio0", "ssd": true}))
        .secret("long-secret-password")
        .run()
        .failed("invalid_args");
    assert!(m.msg().contains("ssd"), "{}", m.msg());
}

#[test]
fn p27_an_import_that_still_runs_is_joined_by_the_next_run() {
    let (lab, _) = lab();
    let volume = describe(&lab);
    lab.set(json!({"timing": {"task_ms": 10, "kinds": {"qmconfig": 4000}}}));
    let args = json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": volume, "timeout": 1});
    let d = lab
        .call("pve_disk_import", args.clone())
        .run()
        .failed("timeout");
    assert!(
        d["upid"].as_str().is_some_and(|u| d.msg().contains(u))
            && d.msg().contains("still running"),
        "{}",
        d.msg()
    );
    let writes = lab.writes();
    let mut patient = args;
    patient["timeout"] = json!(60);
    let check = lab
        .call("pve_disk_import", patient.clone())
        .check(true)
        .run()
        .ok();
    let apply = lab.call("pve_disk_import", patient.clone()).run().ok();
    agree(&check, &apply);
    assert_eq!(apply["plan"][0]["request"], "JOIN");
    assert_eq!(apply["imported"], json!(true));
    assert_eq!(lab.writes(), writes, "it was not started again");
    assert!(!lab.call("pve_disk_import", patient).run().ok().changed());
    // wait: false gives the task at once; the next run waits for it.
    let later =
        json!({"vmid": 100, "disk": "scsi1", "storage": "data", "size": "0.03125", "wait": false});
    let d = lab.call("pve_disk_import", later.clone()).run().ok();
    assert!(d["upid"].as_str().is_some_and(|u| u.starts_with("UPID:")) && d["volume"].is_null());
    let mut waits = later;
    waits["wait"] = json!(true);
    assert_eq!(
        lab.call("pve_disk_import", waits).run().ok()["volume"],
        "data:100/vm-100-disk-1.raw"
    );
}

#[test]
fn plan_only_sends_and_remembers_nothing() {
    let (lab, _) = lab();
    let ledger = tempfile::tempdir().expect("a folder");
    let args = json!({"vmid": 100, "disk": "scsi0", "storage": "data", "size": "1"});
    for check in [true, false] {
        let d = lab
            .call("pve_disk_import", args.clone())
            .arg("plan_only", true)
            .ledger(ledger.path())
            .check(check)
            .run()
            .ok();
        assert_eq!(
            (d["changed"].clone(), d["would_change"].clone()),
            (json!(false), json!(true))
        );
    }
    assert_eq!(lab.writes(), 0);
    let d = lab
        .call("pve_disk_import", args)
        .ledger(ledger.path())
        .check(true)
        .run()
        .ok();
    assert!(d.changed(), "what was only planned was not remembered");
    // What a check run planned is there for its next task.
    let d = lab
        .call(
            "pve_disk_import",
            json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "2G"}),
        )
        .ledger(ledger.path())
        .check(true)
        .run()
        .ok();
    assert_eq!(d["size_bytes"], json!(2u64 << 30));
    assert_eq!(lab.writes(), 0);
}

#[test]
fn a_vnet_that_a_check_run_planned_takes_a_card() {
    let lab = Lab::one_guest();
    let ledger = tempfile::tempdir().expect("a folder");
    let check = |module: &str, args: Value| {
        lab.call(module, args)
            .ledger(ledger.path())
            .check(true)
            .run()
    };
    check(
        "pve_zone",
        json!({"zone": "zv", "type": "vlan", "bridge": "vmbr1"}),
    )
    .ok();
    check("pve_vnet", json!({"vnet": "v7", "zone": "zv", "tag": 7})).ok();
    check(
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "bridge": "v7"}),
    )
    .ok();
    assert_eq!(lab.writes(), 0);
    let run = |module: &str, args: Value| lab.call(module, args).run().ok();
    run(
        "pve_zone",
        json!({"zone": "zv", "type": "vlan", "bridge": "vmbr1"}),
    );
    run("pve_vnet", json!({"vnet": "v7", "zone": "zv", "tag": 7}));
    run(
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "bridge": "v7"}),
    );
}

#[test]
fn a_held_lock_is_waited_for_and_the_error_says_how_to_remove_it() {
    let lab = Lab::one_guest();
    lab.set(json!({"sdn_lock": true}));
    let args = json!({"zone": "zs", "type": "simple", "timeout": 1});
    let d = lab
        .call("pve_zone", args.clone())
        .run()
        .failed("timeout")
        .says("--force 1")
        .says("break_lock");
    assert!(d.took.as_millis() >= 1000, "it waited");
    assert_eq!(lab.world()["pve"]["sdn"]["pending"]["zones"], json!({}));
    let d = lab
        .call("pve_zone", args)
        .arg("break_lock", true)
        .run()
        .ok();
    assert!(d.changed());
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let lab = Lab::one_guest();
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "zv", "type": "vlan", "bridge": "vmbr0"}),
    )
    .ok();
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/cluster/sdn/vnets$", "nth": 2, "do": {"status": 500, "reason": "disk full", "body": {"data": null, "message": "disk full"}}}));
    let vnets =
        json!({"zone": "zv", "vnets": [{"vnet": "v1", "tag": 1}, {"vnet": "v2", "tag": 2}]});
    let d = lab.call("pve_vnet", vnets.clone()).run().failed("api");
    assert_eq!(d["undone"], json!(["POST /cluster/sdn/rollback"]));
    lab.no_faults();
    assert_eq!(lab.world()["pve"]["sdn"]["locked"], json!(false));
    assert_eq!(lab.world()["pve"]["sdn"]["pending"]["vnets"], json!({}));
    triple(&lab, "pve_vnet", vnets).ok();
}

#[test]
fn a_run_that_was_cut_off_is_finished_by_the_next() {
    let pending = json!({"zones": [], "vnets": [{"vnet": "v1", "zone": "zv", "tag": 1}]});
    let world = worlds::small_with(
        json!({"sdn": {"zones": [{"zone": "zv", "type": "vlan", "bridge": "vmbr0"}], "vnets": [], "pending": pending}}),
    );
    let lab = Lab::start(world);
    let t = triple(
        &lab,
        "pve_vnet",
        json!({"vnet": "v1", "zone": "zv", "tag": 1}),
    );
    assert_eq!(
        t.apply.of_kind("write"),
        ["POST /cluster/sdn/lock -> 200", "PUT /cluster/sdn -> 200"]
    );
    // Stored now, applied by a later task.
    let left = lab.call(
        "pve_vnet",
        json!({"vnet": "v2", "zone": "zv", "tag": 2, "apply": false}),
    );
    let t = triple_with(&lab, &left);
    assert_eq!(t.apply["pending"], json!(["v2"]));
    let m = refused(
        &lab,
        "pve_vnet",
        json!({"vnet": "v3", "zone": "zv", "tag": 3}),
        "refused",
    );
    assert!(m.contains("vnet v2"), "{m}");
    let t = triple(
        &lab,
        "pve_vnet",
        json!({"vnet": "v3", "zone": "zv", "tag": 3, "allow_pending": ["v2"]}),
    );
    assert!(t.apply.changed());
}

#[test]
fn an_apply_that_ends_badly_is_not_undone() {
    let lab = Lab::one_guest();
    // A node never says that the zone is available; it is stored and applied all the same.
    lab.fault(
        json!({"side": "pve", "method": "GET", "path": "/nodes/pve2/sdn/zones$", "every": 1,
        "do": {"status": 200, "body": {"data": [{"zone": "zs", "status": "error"}]}}}),
    );
    let call = lab.call(
        "pve_zone",
        json!({"zone": "zs", "type": "simple", "timeout": 1}),
    );
    let d = call.run().failed("timeout");
    assert!(d.changed() && d["upid"].is_string());
    assert_eq!(
        d["undone"],
        Value::Null,
        "what the nodes have is not taken back"
    );
    lab.no_faults();
    assert_eq!(lab.world()["pve"]["sdn"]["locked"], json!(false));
    triple(&lab, "pve_vnet", json!({"vnet": "v1", "zone": "zs"})).ok();
}

#[test]
fn a_running_guest_takes_a_disk_and_lets_go_of_it_when_it_stops() {
    let (lab, _) = lab();
    lab.set(json!({"timing": {"task_ms": 10, "kinds": {"hotunplug": 50}}}));
    lab.set(json!({"guest": 101, "config": {"scsihw": "virtio-scsi-single"}}));
    lab.set(json!({"guest": 101, "status": "running"}));
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi1", "storage": "local", "size": "0.03125"}),
    );
    assert_eq!(t.apply["pending"], json!({}));
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi1", "cache": "none"}),
    );
    assert_eq!(
        t.apply["pending"]["scsi1"],
        "local:101/vm-101-disk-1.raw,cache=none,size=32M"
    );
    // The size of what is pending grows with the volume.
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi1", "state": "resized", "size": "64M"}),
    );
    assert_eq!(t.apply["size_bytes"], json!(64 * MIB));
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "sata0", "storage": "local", "size": "0.03125"}),
    );
    assert!(t.apply["pending"]["sata0"].is_string());
    // Whether it lets go at once nobody can foresee (here it does, since nothing has taken the disk yet): no diff depends on it.
    let call = lab.call(
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi1", "state": "detached"}),
    );
    let check = call.clone().check(true).run().ok();
    let apply = call.run().ok();
    assert_eq!(
        (check.plan(), &check["diff"]),
        (apply.plan(), &apply["diff"])
    );
    assert_eq!(apply.warnings(), Vec::<String>::new());
    // Nothing in the guest lets go of this one.
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 101, "disk": "scsi0", "state": "absent"}),
    );
    assert_eq!(t.apply["plan"][0]["params"]["force"], json!(1));
    assert_eq!(t.apply["pending"], json!({"boot": " ", "scsi0": null}));
}

#[test]
fn a_digest_of_yesterday_and_a_lost_answer_lead_to_a_new_look() {
    let (lab, _) = lab();
    let volume = describe(&lab);
    let stale = json!({"status": 500, "reason": "checksum mismatch (file change by other user?)", "body": {"data": null, "message": "checksum mismatch (file change by other user?)\n"}});
    lab.fault(
        json!({"side": "pve", "method": "PUT", "path": "/qemu/101/config$", "nth": 1, "do": stale}),
    );
    let d = lab
        .call(
            "pve_disk_import",
            json!({"vmid": 101, "disk": "scsi0", "cache": "none"}),
        )
        .run()
        .ok();
    assert!(d.changed() && d["replanned"].is_array());
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/qemu/100/config$", "nth": 1, "do": "drop_after"}));
    let import = json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": volume});
    let d = lab.call("pve_disk_import", import.clone()).run().ok();
    assert!(d.changed() && d["imported"] == true, "{}", d.stdout);
    assert_eq!(d["volume"], "data:100/vm-100-disk-0.qcow2");
    assert!(!lab.call("pve_disk_import", import).run().ok().changed());
    assert_eq!(
        std::fs::read_dir(lab.storage("data").join("images/100"))
            .expect("a folder")
            .count(),
        1,
        "imported once"
    );
    // The same with the apply of a vnet.
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "zv", "type": "vlan", "bridge": "vmbr0"}),
    )
    .ok();
    for (method, path) in [("PUT", "/cluster/sdn$"), ("POST", "/cluster/sdn/vnets$")] {
        lab.no_faults();
        lab.fault(
            json!({"side": "pve", "method": method, "path": path, "nth": 1, "do": "drop_after"}),
        );
        let tag = path.len();
        let vnet = json!({"vnet": format!("v{tag}"), "zone": "zv", "tag": tag});
        let d = lab.call("pve_vnet", vnet.clone()).run().ok();
        assert!(d.changed(), "{}", d.stdout);
        assert!(!lab.call("pve_vnet", vnet).run().ok().changed());
        assert_eq!(lab.world()["pve"]["sdn"]["locked"], json!(false));
        assert_eq!(
            lab.world()["pve"]["sdn"]["pending"],
            lab.world()["pve"]["sdn"]["running"]
        );
    }
}

#[test]
fn block_storages_name_no_format_and_round_up() {
    let mut world = worlds::small_with(json!({"guests": [worlds::guest(100, "web")]}));
    let lvm = json!({"storage": "lvm", "type": "lvmthin", "content": "images"});
    world["pve"]["storage"]
        .as_array_mut()
        .expect("a list")
        .push(lvm);
    let lab = Lab::start(world);
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "storage": "lvm", "size": "0.03125"}),
    );
    assert_eq!(t.apply["volume"], "lvm:vm-100-disk-0");
    assert_eq!(t.apply["plan"][0]["params"]["scsi0"], "lvm:0.03125");
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "storage": "lvm", "size": "1", "format": "qcow2"}),
        "refused",
    );
    assert!(m.contains("qcow2"), "{m}");
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"name": "web", "disk": "scsi0", "state": "moved", "target_storage": "local", "format": "qcow2", "delete_moved": true}),
    );
    assert_eq!(t.apply["volume"], "local:100/vm-100-disk-0.qcow2");
}
