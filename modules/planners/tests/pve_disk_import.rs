//! Planner tests of `pve_disk_import`; numbers are those of docs/bugs.md (p.., c..) and docs/peers-proxmox.md (d..).
mod common;

use common::{Site, failure, make, only_step, try_make};
use plan::{Fact, Facts, Report};
use proptest::prelude::*;
use pve::keys::PveKey;
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

/// Guest 100 with one disk, a shared export `nfs` and a source on it.
fn site() -> Site {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"name": "web", "boot": "order=scsi0", "scsihw": "virtio-scsi-pci",
            "scsi0": "local:100/vm-100-disk-0.raw,discard=on,iothread=1,size=8G,ssd=1", "ide2": "local:iso/test.iso,media=cdrom,size=350K"}),
    );
    s.edit(PveKey::Storages("pve1".into()), |v| {
        let list = v.as_array_mut().expect("a list");
        list.push(json!({"storage": "nfs", "type": "nfs", "content": ["images", "import"], "enabled": true, "active": true, "shared": true}));
        list.push(json!({"storage": "esx", "type": "esxi", "content": ["import"], "enabled": true, "active": true, "shared": true}));
    });
    images(
        &mut s,
        100,
        "local",
        json!([{"volid": "local:100/vm-100-disk-0.raw", "size": 8 * GIB, "vmid": 100}]),
    );
    images(
        &mut s,
        100,
        "nfs",
        json!([{"volid": "nfs:100/disk0.vmdk", "size": 16 * GIB, "vmid": 100}]),
    );
    volume(&mut s, "nfs:100/disk0.vmdk", 16 * GIB);
    s
}

fn images(s: &mut Site, vmid: u32, storage: &str, list: Value) {
    s.put(
        PveKey::Volumes {
            node: "pve1".into(),
            storage: storage.into(),
            content: "images".into(),
            vmid: Some(vmid),
        },
        list,
    );
}

fn key(volid: &str) -> PveKey {
    PveKey::Volume {
        node: "pve1".into(),
        volid: volid.into(),
    }
}

fn volume(s: &mut Site, volid: &str, bytes: u64) {
    s.put(key(volid), json!({"size": bytes, "format": "vmdk"}));
}

fn token(s: &mut Site, granted: &[(&str, Value)]) {
    s.put(
        PveKey::WhoAmI,
        json!({"user": "deploy@pve", "token": "ci", "root_login": false}),
    );
    for (path, privileges) in granted {
        s.put(PveKey::Perms((*path).into()), privileges.clone());
    }
}

fn disk(s: &mut Site, args: Value) -> Report {
    let mut all = json!({"vmid": 100});
    all.as_object_mut()
        .expect("an object")
        .extend(args.as_object().expect("an object").clone());
    s.check("pve_disk_import", all)
}

fn import() -> Value {
    json!({"vmid": 100, "disk": "scsi1", "storage": "lvm", "import_from": "nfs:100/disk0.vmdk", "source_bytes": 16 * GIB})
}

fn refused(args: Value) -> String {
    failure(&disk(&mut site(), args), "refused")
}

fn arg_error(args: Value) -> (String, String) {
    let e = try_make("pve_disk_import", args).err().expect("refused");
    (e[0].path.clone(), e[0].msg.clone())
}

#[test]
fn an_import_is_one_request_that_is_waited_for() {
    let mut s = site();
    let r = s.converges("pve_disk_import", import());
    let p = only_step(&r);
    assert_eq!(
        Value::Object(p.clone()),
        json!({"scsi1": "lvm:0,import-from=nfs:100/disk0.vmdk", "digest": "<digest as read>"})
    );
    assert_eq!(
        r.keys["plan"][0]["request"],
        "POST /nodes/pve1/qemu/100/config"
    );
    assert_eq!(r.keys["msg"], "Disk scsi1 imported into VM 100");
    assert_eq!(r.keys["volume"], "lvm:vm-100-disk-0");
    assert_eq!(r.keys["size_bytes"], json!(16 * GIB));
    assert_eq!(
        (r.keys["imported"].clone(), r.keys["vmid"].clone()),
        (json!(true), json!(100))
    );
    assert_eq!(
        r.keys["diff"]["after"]["scsi1"],
        "lvm:vm-100-disk-0,size=16G"
    );
    // On storages with files the format is always named: the server would keep VMware's.
    let mut s = site();
    let r = s.converges("pve_disk_import", json!({"vmid": 100, "disk": "scsi1", "storage": "local", "import_from": "nfs:100/disk0.vmdk", "ssd": true, "discard": "on"}));
    assert_eq!(
        only_step(&r)["scsi1"],
        "local:0,discard=on,format=qcow2,import-from=nfs:100/disk0.vmdk,ssd=1"
    );
    assert_eq!(r.keys["volume"], "local:100/vm-100-disk-1.qcow2");
}

#[test]
fn p28_d02_a_disk_that_is_there_is_never_imported_over() {
    let mut s = site();
    disk(&mut s, import());
    let mut again = import();
    again["cache"] = json!("none");
    let r = s.converges("pve_disk_import", again);
    assert_eq!(only_step(&r)["scsi1"], "lvm:vm-100-disk-0,cache=none");
    assert_eq!(r.keys["imported"], json!(false));
    assert_eq!(r.keys["msg"], "Disk scsi1 updated in VM 100");
    // Another size: it is another disk.
    let msg =
        refused(json!({"disk": "scsi0", "storage": "lvm", "import_from": "nfs:100/disk0.vmdk"}));
    assert!(
        msg.contains(&(8 * GIB).to_string()) && msg.contains(&(16 * GIB).to_string()),
        "{msg}"
    );
    // The source may have gone since.
    let mut s = site();
    disk(&mut s, import());
    s.fact(key("nfs:100/disk0.vmdk"), Fact::Absent);
    let mut args = import();
    args.as_object_mut()
        .expect("an object")
        .remove("source_bytes");
    let r = s.check("pve_disk_import", args);
    assert_eq!(
        (r.keys["changed"].clone(), r.keys["imported"].clone()),
        (json!(false), json!(false))
    );
}

#[test]
fn d01_c11_p36_options_that_are_not_named_stay() {
    let mut s = site();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "cache": "none"}),
    );
    assert_eq!(
        only_step(&r)["scsi0"],
        "local:100/vm-100-disk-0.raw,cache=none,discard=on,iothread=1,ssd=1"
    );
    assert_eq!(
        r.keys["plan"][0]["request"],
        "PUT /nodes/pve1/qemu/100/config"
    );
    assert_eq!(
        r.keys["diff"]["after"]["scsi0"],
        "local:100/vm-100-disk-0.raw,cache=none,discard=on,iothread=1,size=8G,ssd=1"
    );
    let r = s.check("pve_disk_import", json!({"vmid": 100, "disk": "scsi0"}));
    assert_eq!(r.keys["msg"], "Disk scsi0 is up to date in VM 100");
    let r = s.converges("pve_disk_import", json!({"vmid": 100, "disk": "scsi0", "unset": ["cache", "ssd"], "iothread": true, "discard": true}));
    assert_eq!(
        only_step(&r)["scsi0"],
        "local:100/vm-100-disk-0.raw,discard=on,iothread=1"
    );
    let mut s = Site::new();
    s.guest(100, json!({"efidisk0": "local:100/vm-100-disk-1.raw,efitype=4m,ms-cert=2023w,pre-enrolled-keys=1,size=528K"}));
    let r = disk(&mut s, json!({"disk": "efidisk0"}));
    assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    assert_eq!(s.read, [PveKey::Guest(100).key()], "one fact tells");
}

#[test]
fn d04_p34_notation_is_no_difference_and_a_missing_size_no_crash() {
    let mut s = Site::new();
    s.guest(100, json!({"scsi1": "/dev/disk/by-id/nvme-x,backup=0,mbps=10", "scsi2": "local:100/vm-100-disk-2.raw,mbps_rd=10.5"}));
    for args in [
        json!({"disk": "scsi1", "mbps": 10.0, "backup": false}),
        json!({"disk": "scsi2", "mbps_rd": "10.50", "ro": false}),
    ] {
        let r = disk(&mut s, args);
        assert_eq!(r.keys["changed"], json!(false), "{:#?}", r.keys);
    }
}

#[test]
fn c12_size_and_storage_of_a_disk_that_is_there_are_drift() {
    let mut s = site();
    let r = disk(
        &mut s,
        json!({"disk": "scsi0", "storage": "lvm", "size": "64", "format": "qcow2"}),
    );
    assert_eq!(r.keys["changed"], json!(false));
    let options: Vec<&str> = r.keys["drift"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|d| d["option"].as_str())
        .collect();
    assert_eq!(options, ["size", "storage", "format"]);
    // P33: sizes by meaning.
    let r = disk(&mut s, json!({"disk": "scsi0", "size": "8192M"}));
    assert!(r.keys.get("drift").is_none());
}

#[test]
fn c13_d05_what_a_new_disk_needs_is_asked_for() {
    assert_eq!(
        arg_error(json!({"vmid": 100, "disk": "scsi1", "import_from": "nfs:100/disk0.vmdk"})).0,
        "storage"
    );
    assert!(refused(json!({"disk": "scsi1", "storage": "lvm"})).contains("size"));
    assert!(refused(json!({"disk": "scsi1"})).contains("storage"));
    assert!(
        refused(json!({"disk": "efidisk0", "storage": "lvm", "size": 1})).contains("pve_vm_shell")
    );
    for storage in ["off", "isoonly", "esx"] {
        assert!(refused(json!({"disk": "scsi1", "storage": storage, "size": 1})).contains(storage));
    }
    let mut s = site();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "storage": "local", "size": "1.5"}),
    );
    assert_eq!(only_step(&r)["scsi1"], "local:1.5,format=raw");
    assert_eq!(r.keys["msg"], "Disk scsi1 created in VM 100");
    assert_eq!(r.keys["size_bytes"], json!(3 * GIB / 2));
    let r = disk(
        &mut site(),
        json!({"disk": "scsi1", "storage": "local", "size": "1", "create": "disabled"}),
    );
    assert_eq!(
        r.keys["msg"],
        "Disk scsi1 not found in VM 100 and creation was disabled in parameters."
    );
}

#[test]
fn p35_d11_options_that_the_bus_does_not_have_are_argument_errors() {
    for (disk, option) in [
        ("virtio0", "ssd"),
        ("sata0", "iothread"),
        ("ide0", "queues"),
        ("unused0", "cache"),
    ] {
        let value = match option {
            "queues" => json!(2),
            "cache" => json!("none"),
            _ => json!(true),
        };
        assert_eq!(
            arg_error(json!({"vmid": 100, "disk": disk, option: value})).0,
            option,
            "{disk}"
        );
    }
    for bad in [
        "scsi31",
        "ide4",
        "sata6",
        "virtio16",
        "unused256",
        "scsi0x",
        "memory",
        "net0",
    ] {
        assert_eq!(arg_error(json!({"vmid": 100, "disk": bad})).0, "disk");
    }
}

#[test]
fn sources_that_the_server_refuses_are_refused_before_sending() {
    let args =
        |from: &str| json!({"vmid": 100, "disk": "scsi1", "storage": "lvm", "import_from": from});
    // What can be seen from the name alone.
    for (from, word) in [
        ("/mnt/pve/nfs/app01/app01-flat.vmdk", "vmdk_descriptor"),
        ("nfs:import/app01-flat.vmdk", "vmdk_descriptor"),
        ("nfs:100/app01-000002.vmdk", "snapshot"),
        ("/mnt/x/app01-000001-sesparse.vmdk", "snapshot"),
        ("nfs:100/app01-delta.vmdk", "snapshot"),
        ("esx:dc/ds/a,b/a.vmdk", "comma"),
        ("app01.vmdk", "volume id"),
    ] {
        let (path, msg) = arg_error(args(from));
        assert_eq!(path, "import_from");
        assert!(msg.contains(word), "{from}: {msg}");
    }
    // What the world says.
    let mut s = site();
    s.put(PveKey::Version, json!({"major": 9, "minor": 2}));
    s.put(
        PveKey::Volumes { node: "pve1".into(), storage: "nfs".into(), content: "import".into(), vmid: None },
        json!([{"volid": "nfs:import/two.vmdk"}, {"volid": "nfs:import/two-flat.vmdk"}, {"volid": "nfs:import/one.vmdk"}]),
    );
    volume(&mut s, "nfs:import/one.vmdk", GIB);
    for (from, word) in [
        ("/mnt/pve/nfs/app01/app01.vmdk", "source_layout"),
        ("nfs:import/app01/app01.vmdk", "folder under import/"),
        ("nfs:import/two.vmdk", "beside it"),
        ("nfs:100/my disk.vmdk", "white space"),
        ("local:iso/x.img", "content type iso"),
    ] {
        let msg = failure(&s.check("pve_disk_import", args(from)), "refused");
        assert!(msg.contains(word), "{from}: {msg}");
    }
    s.check("pve_disk_import", args("nfs:import/one.vmdk"));
    let r = s.clone().check("pve_disk_import", json!({"vmid": 100, "disk": "scsi2", "storage": "lvm", "import_from": "/srv/x.vmdk", "source_layout": "single_file"}));
    assert!(!r.is_failed(), "{:#?}", r.keys);
    // Before 8.3 the server did not look.
    s.put(PveKey::Version, json!({"major": 8, "minor": 2}));
    let r = s.check(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi2", "storage": "lvm", "import_from": "/srv/x.vmdk"}),
    );
    assert!(
        !r.is_failed() && r.keys["unverified"].is_array(),
        "{:#?}",
        r.keys
    );
    // A path of the node is for the login root@pam alone.
    token(&mut s, &[]);
    let r = s.check(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi3", "storage": "lvm", "import_from": "/srv/x.raw"}),
    );
    assert!(failure(&r, "permission").contains("root@pam"));
}

#[test]
fn p69_names_of_an_esxi_storage_pass_as_they_are() {
    let mut s = site();
    let from = "esx:ha-datacenter/tmp (ds) [1]/Crypt 01/Crypt 01.vmdk";
    s.fact(key(from), Fact::Unreadable("not supported".into()));
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "storage": "lvm", "import_from": from}),
    );
    assert_eq!(only_step(&r)["scsi1"], format!("lvm:0,import-from={from}"));
    assert_eq!(
        r.keys["diff"]["after"]["scsi1"],
        format!("lvm:vm-100-disk-0,size={}", plan::SERVER)
    );
}

#[test]
fn a_missing_source_is_an_error_unless_an_earlier_task_makes_it() {
    let mut s = site();
    s.fact(key("nfs:100/disk0.vmdk"), Fact::Absent);
    failure(&s.check("pve_disk_import", import()), "not_found");
    let mut args = import();
    args["source_pending"] = json!(true);
    let r = s.converges("pve_disk_import", args);
    assert!(
        r.keys["unverified"][0]
            .as_str()
            .is_some_and(|u| u.contains("nfs:100/disk0.vmdk"))
    );
    assert_eq!(r.keys["size_bytes"], json!(16 * GIB));
    let mut s = site();
    volume(&mut s, "nfs:100/disk0.vmdk", GIB);
    let msg = failure(&s.check("pve_disk_import", import()), "refused");
    assert!(msg.contains("source_bytes"), "{msg}");
}

#[test]
fn attaching_copies_nothing_and_takes_only_ones_own() {
    let mut s = site();
    let args =
        json!({"vmid": 100, "disk": "scsi1", "attach_from": "nfs:100/disk0.vmdk", "discard": "on"});
    let r = s.converges("pve_disk_import", args.clone());
    assert_eq!(only_step(&r)["scsi1"], "nfs:100/disk0.vmdk,discard=on");
    assert_eq!(
        r.keys["plan"][0]["request"],
        "PUT /nodes/pve1/qemu/100/config"
    );
    assert_eq!(r.keys["size_bytes"], json!(16 * GIB));
    assert!(
        refused(json!({"disk": "scsi1", "attach_from": "nfs:101/disk0.vmdk"}))
            .contains("guest 101")
    );
    let r = disk(
        &mut s,
        json!({"disk": "scsi2", "attach_from": "nfs:100/disk0.vmdk"}),
    );
    assert!(failure(&r, "refused").contains("scsi1"));
    // Moved to its final storage later: still the same disk.
    let r = disk(
        &mut s,
        json!({"disk": "scsi1", "state": "moved", "target_storage": "local"}),
    );
    assert_eq!(only_step(&r)["format"], "qcow2");
    assert_eq!(r.keys["unused"], "unused0");
    let again = s.check("pve_disk_import", args);
    assert_eq!(again.keys["changed"], json!(false), "{:#?}", again.keys);
    assert_eq!(again.keys["drift"][0]["option"], "attach_from");
    // An unused volume comes back.
    let mut s = site();
    disk(&mut s, json!({"disk": "scsi0", "state": "detached"}));
    volume(&mut s, "local:100/vm-100-disk-0.raw", 8 * GIB);
    let r = disk(
        &mut s,
        json!({"disk": "scsi3", "attach_from": "local:100/vm-100-disk-0.raw"}),
    );
    assert_eq!(r.keys["diff"]["after"].get("unused0"), None);
}

#[test]
fn p27_a_running_import_is_joined_and_not_started_again() {
    let upid = "UPID:pve1:0001:00:00:qmconfig:100:deploy@pve!ci:";
    let mut s = site();
    s.put(
        PveKey::GuestTasks(100),
        json!([{"upid": upid, "node": "pve1", "type": "qmconfig"}]),
    );
    let r = s.check("pve_disk_import", import());
    assert_eq!(r.keys["changed"], json!(true));
    assert_eq!(
        r.keys["plan"],
        json!([{"request": "JOIN", "what": format!("task {upid} of guest 100 (qmconfig)")}])
    );
    assert_eq!(r.keys["imported"], json!(true));
    // A backup is only waited for.
    let mut s = site();
    s.put(PveKey::GuestTasks(100), json!([{"upid": "UPID:pve1:0001:00:00:vzdump:100:root@pam:", "node": "pve1", "type": "vzdump"}]));
    let r = s.check("pve_disk_import", import());
    assert_eq!(r.keys["plan"].as_array().map(Vec::len), Some(1));
    assert!(
        r.keys["waited_for"][0]
            .as_str()
            .is_some_and(|w| w.contains("vzdump"))
    );
    // C17, and wait: false: the request is sent, its task not waited for.
    for more in [json!({"timeout": 0}), json!({"wait": false})] {
        let mut args = import();
        args.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        let s = site();
        let m = make("pve_disk_import", args.clone());
        let mut f = Facts::new();
        for (k, v) in &s.facts {
            f.put(k.clone(), v.clone());
        }
        assert_eq!(
            m.plan(&f).expect("a plan").steps[0].wait,
            plan::Await::NoWait
        );
        let r = site().check("pve_disk_import", args);
        assert_eq!(r.keys["volume"], Value::Null);
    }
}

#[test]
fn d10_forced_detaches_the_old_one() {
    let mut s = site();
    let r = disk(
        &mut s,
        json!({"disk": "scsi0", "storage": "local", "size": 1, "create": "forced"}),
    );
    assert_eq!(only_step(&r)["scsi0"], "local:1,format=raw");
    assert_eq!(r.keys["plan"][0]["disruptive"], json!(true));
    assert_eq!(r.keys["unused"], "unused0");
    assert_eq!(
        r.keys["diff"]["after"]["unused0"],
        "local:100/vm-100-disk-0.raw"
    );
}

#[test]
fn p40_p90_volumes_that_no_disk_names_are_reported() {
    let mut s = site();
    images(
        &mut s,
        100,
        "lvm",
        json!([{"volid": "lvm:vm-100-disk-0", "size": 16 * GIB, "vmid": 100}]),
    );
    let r = s.check("pve_disk_import", import());
    assert!(
        r.keys["warnings"][0]
            .as_str()
            .is_some_and(|w| w.contains("lvm:vm-100-disk-0"))
    );
    assert_eq!(r.keys["volume"], "lvm:vm-100-disk-1");
}

#[test]
fn d06_c14_sizes_compare_by_meaning_and_never_shrink() {
    let mut s = site();
    for same in ["8G", "8192M", "8589934592"] {
        let r = disk(
            &mut s,
            json!({"disk": "scsi0", "state": "resized", "size": same}),
        );
        assert_eq!(r.keys["msg"], "Disk scsi0 is already 8G size in VM 100");
    }
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "10240M"}),
    );
    assert_eq!(only_step(&r)["size"], "10G");
    assert_eq!(r.keys["size_bytes"], json!(10 * GIB));
    let r = disk(
        &mut s,
        json!({"disk": "scsi0", "state": "resized", "size": "+5G"}),
    );
    assert_eq!(only_step(&r)["size"], "15G");
    assert!(
        failure(
            &disk(
                &mut s,
                json!({"disk": "scsi0", "state": "resized", "size": "1G"})
            ),
            "refused"
        )
        .contains("shrinking")
    );
    failure(
        &disk(
            &mut s,
            json!({"disk": "scsi9", "state": "resized", "size": "1G"}),
        ),
        "not_found",
    );
    // What waits for the next stop is renewed, so that it does not bring the old size back.
    let mut s = site();
    s.running(100);
    disk(&mut s, json!({"disk": "scsi0", "cache": "none"}));
    let mut grown = s.clone();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "10G"}),
    );
    let plan = r.keys["plan"].as_array().expect("a plan");
    assert_eq!(plan.len(), 2, "{plan:#?}");
    assert_eq!(
        plan[1]["params"],
        json!({"scsi0": "local:100/vm-100-disk-0.raw,cache=none,discard=on,iothread=1,ssd=1"})
    );
    assert_eq!(
        r.keys["pending"]["scsi0"],
        "local:100/vm-100-disk-0.raw,cache=none,discard=on,iothread=1,size=10G,ssd=1"
    );
    let r = disk(
        &mut s,
        json!({"disk": "scsi0", "state": "moved", "target_storage": "lvm"}),
    );
    assert!(failure(&r, "refused").contains("waits for the next stop"));
    // Somebody grew it elsewhere: only what waits is renewed.
    let key = PveKey::Guest(100).key();
    let mut guest = plan::Ledger::get(&grown.ledger, &key)
        .and_then(|f| f.known().cloned())
        .expect("planned");
    guest["current"]["scsi0"] =
        json!("local:100/vm-100-disk-0.raw,discard=on,iothread=1,size=10G,ssd=1");
    plan::Ledger::put(&mut grown.ledger, &key, &Fact::Known(guest));
    let r = grown.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "10G"}),
    );
    assert_eq!(only_step(&r)["digest"], "<digest as read>");
}

#[test]
fn d07_c15_moving_is_repeatable() {
    let mut s = site();
    let r = s.converges("pve_disk_import", json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_storage": "lvm", "delete_moved": true}));
    assert_eq!(
        Value::Object(only_step(&r).clone()),
        json!({"disk": "scsi0", "storage": "lvm", "delete": 1, "digest": "<digest as read>"})
    );
    assert_eq!(
        (r.keys["volume"].clone(), r.keys["unused"].clone()),
        (json!("lvm:vm-100-disk-0"), Value::Null)
    );
    // Only another format.
    let mut s = site();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "moved", "format": "qcow2"}),
    );
    assert_eq!(only_step(&r)["format"], "qcow2");
    assert_eq!(r.keys["volume"], "local:100/vm-100-disk-1.qcow2");
    // To another guest, twice.
    s.guest(200, json!({"name": "other"}));
    let args = json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_vmid": 200, "target_disk": "scsi4"});
    images(&mut s, 200, "local", json!([]));
    let r = s.converges("pve_disk_import", args.clone());
    assert_eq!(only_step(&r)["target-disk"], "scsi4");
    assert_eq!(r.keys["volume"], "local:200/vm-200-disk-0.qcow2");
    s.fact(PveKey::Guest(300), Fact::Absent);
    failure(
        &disk(
            &mut s,
            json!({"disk": "ide2", "state": "moved", "target_vmid": 200}),
        ),
        "refused",
    );
    failure(
        &disk(
            &mut s,
            json!({"disk": "scsi0", "state": "moved", "target_vmid": 200}),
        ),
        "not_found",
    );
    assert_eq!(
        arg_error(json!({"vmid": 100, "disk": "scsi0", "state": "moved"})).0,
        "target_storage"
    );
}

#[test]
fn removing_is_two_steps_and_destroys_only_ones_own() {
    let mut s = site();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "absent"}),
    );
    let plan = r.keys["plan"].as_array().expect("a plan");
    assert_eq!(plan.len(), 2);
    assert_eq!(
        (
            plan[0]["params"]["delete"].clone(),
            plan[0].get("destructive")
        ),
        (json!("scsi0"), None)
    );
    assert_eq!(
        (
            plan[1]["params"]["idlist"].clone(),
            plan[1]["destructive"].clone()
        ),
        (json!("unused0"), json!(true))
    );
    assert_eq!(r.keys["diff"]["after"]["boot"], " ");
    // Its name is free again for a later task.
    let r = disk(
        &mut s,
        json!({"disk": "scsi0", "storage": "local", "size": 1}),
    );
    assert_eq!(r.keys["volume"], "local:100/vm-100-disk-0.raw");
    // A CD-ROM drive has no data of the guest.
    let r = site().converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "ide2", "state": "absent"}),
    );
    assert_eq!(r.keys["plan"].as_array().map(Vec::len), Some(1));
    assert_eq!(r.keys["plan"][0].get("destructive"), None);
    // D9: a running guest lets go when it stops; the server then destroys the volume itself.
    let mut s = site();
    s.edit(PveKey::Guest(100), |v| {
        for part in ["config", "current"] {
            v[part]["scsihw"] = json!("virtio-scsi-single");
        }
    });
    s.running(100);
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "absent"}),
    );
    assert_eq!(only_step(&r)["force"], json!(1));
    // The boot order that it leaves waits as well.
    assert_eq!(r.keys["pending"], json!({"scsi0": null, "boot": " "}));
    assert!(r.keys["warnings"].is_array());
    // What is not there is unchanged, also with the whole guest (P39 needs no volume to be removed).
    let r = disk(&mut site(), json!({"disk": "scsi5", "state": "absent"}));
    assert_eq!(r.keys["msg"], "Disk scsi5 is already absent in VM 100");
    let mut s = Site::new();
    s.free(100);
    assert_eq!(
        disk(&mut s, json!({"disk": "scsi5", "state": "absent"})).keys["changed"],
        json!(false)
    );
    failure(&disk(&mut s, json!({"disk": "scsi5"})), "not_found");
    let mut s = site();
    s.edit(PveKey::Guest(100), |v| v["config"]["protection"] = json!(1));
    assert!(
        failure(
            &disk(&mut s, json!({"disk": "scsi0", "state": "absent"})),
            "refused"
        )
        .contains("protect")
    );
}

#[test]
fn detaching_keeps_the_volume() {
    let mut s = site();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "detached"}),
    );
    assert_eq!(only_step(&r)["delete"], "scsi0");
    assert_eq!(
        (r.keys["unused"].clone(), r.keys["msg"].clone()),
        (json!("unused0"), json!("Disk scsi0 detached from VM 100"))
    );
    let r = disk(&mut s, json!({"disk": "unused0", "state": "detached"}));
    assert_eq!(r.keys["msg"], "Disk unused0 already detached in VM 100");
    let r = disk(&mut s, json!({"disk": "scsi0", "state": "detached"}));
    assert_eq!(r.keys["msg"], "Disk scsi0 not present in VM 100 config");
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "unused0", "state": "absent"}),
    );
    assert_eq!(only_step(&r)["idlist"], "unused0");
}

#[test]
fn media_converge() {
    let mut s = site();
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "ide2", "media": "cdrom", "iso_image": "none"}),
    );
    assert_eq!(only_step(&r)["ide2"], "none,media=cdrom");
    let r = s.converges(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "ide0", "media": "cdrom", "iso_image": "local:iso/test.iso"}),
    );
    assert_eq!(r.keys["msg"], "CD-ROM was created on ide0 bus in VM 100");
    failure(
        &disk(
            &mut s,
            json!({"disk": "ide1", "media": "cdrom", "iso_image": "local:iso/none.iso"}),
        ),
        "not_found",
    );
    failure(
        &disk(
            &mut s,
            json!({"disk": "scsi0", "media": "cdrom", "iso_image": "none"}),
        ),
        "refused",
    );
    let r = disk(&mut s, json!({"disk": "scsi0", "cyls": 10}));
    assert_eq!(r.keys["changed"], json!(false), "C16");
}

#[test]
fn a_missing_privilege_is_named_before_anything_is_sent() {
    let mut s = site();
    token(
        &mut s,
        &[
            ("/vms/100", json!({"VM.Config.Disk": 1, "VM.Audit": 1})),
            ("/storage/lvm", json!({"Datastore.AllocateSpace": 1})),
        ],
    );
    let msg = failure(&s.check("pve_disk_import", import()), "permission");
    assert!(msg.contains("VM.Clone on /vms/100"), "{msg}");
    s.put(
        PveKey::Perms("/vms/100".into()),
        json!({"VM.Config.Disk": 1, "VM.Clone": 1}),
    );
    assert!(!s.check("pve_disk_import", import()).is_failed());
}

#[test]
fn guard_lock_and_digest() {
    let mut s = site();
    let mut args = import();
    args["guard_uuid"] = json!("4cb0ed3b-8c40-4209-9308-61dbc673aa90");
    assert!(failure(&s.check("pve_disk_import", args), "refused").contains("guard_uuid"));
    s.edit(PveKey::Guest(100), |v| v["lock"] = json!("backup"));
    assert!(failure(&s.check("pve_disk_import", import()), "refused").contains("qm unlock"));
    let r = s.check("pve_disk_import", json!({"vmid": 100, "disk": "scsi0"}));
    assert_eq!(
        r.keys["changed"],
        json!(false),
        "nothing to do needs no lock"
    );
}

#[test]
fn every_option_of_the_peer_is_taken() {
    let spec = planners::find("pve_disk_import").expect("registered").spec;
    assert_eq!(spec::lint(spec), Vec::<String>::new());
    let peer: Value = serde_json::from_str(include_str!(
        "../../../tests/fixtures/peers/proxmox_disk.json"
    ))
    .expect("json");
    let gaps: Vec<String> = spec::peer_gaps(spec, &peer)
        .into_iter()
        // Deviations of all pve_* modules: validate_certs and api_timeout (MODULES.md), api_user may be part of the token.
        .filter(|g| {
            !g.contains("api_timeout: default")
                && !g.contains("validate_certs: default")
                && !g.contains("api_user: ")
        })
        .collect();
    assert_eq!(gaps, Vec::<String>::new());
}

proptest! {
    #[test]
    fn any_wish_converges_and_touches_only_what_it_names(
        cache in prop::option::of(prop::sample::select(vec!["none", "writeback", "unsafe"])), ssd in prop::option::of(any::<bool>()),
        iops in prop::option::of(1u32..9999), mbps in prop::option::of(0u32..1000), backup in prop::option::of(any::<bool>()),
        unset in prop::sample::subsequence(vec!["discard", "ssd", "iothread", "cache"], 0..4), running in any::<bool>(), existing in any::<bool>(),
    ) {
        let mut s = site();
        if running { s.running(100); }
        let disk = if existing { "scsi0" } else { "scsi7" };
        let mut args = json!({"vmid": 100, "disk": disk, "storage": "local", "size": "8"});
        if let Some(v) = cache { args["cache"] = json!(v); }
        if let Some(v) = ssd { args["ssd"] = json!(v); }
        if let Some(v) = iops { args["iops"] = json!(v); }
        if let Some(v) = mbps { args["mbps"] = json!(f64::from(v) / 4.0); }
        if let Some(v) = backup { args["backup"] = json!(v); }
        let given = args.clone();
        let unset: Vec<&str> = unset.into_iter().filter(|u| given.get(*u).is_none()).collect();
        args["unset"] = json!(unset);
        let first = s.check("pve_disk_import", args.clone());
        prop_assert!(!first.is_failed(), "{:#?}", first.keys);
        let before = pve::PropString::parse(disk, if existing { "local:100/vm-100-disk-0.raw,discard=on,iothread=1,size=8G,ssd=1" } else { "local:8,format=raw" }).expect("a drive");
        for step in first.keys["plan"].as_array().expect("a plan") {
            for (k, v) in step["params"].as_object().expect("parameters") {
                prop_assert!(k == disk || k == "digest", "{k}");
                if k == disk {
                    let after = pve::PropString::parse(disk, v.as_str().expect("a text")).expect("a drive");
                    for d in before.diff(&after) {
                        let mine = given.get(&d.name).is_some() || unset.contains(&d.name.as_str()) || d.name == "size";
                        prop_assert!(mine, "{} was touched", d.name);
                    }
                }
            }
        }
        let again = s.check("pve_disk_import", args);
        prop_assert_eq!(&again.keys["changed"], &json!(false), "{:#?}", again.keys);
        prop_assert!(first.keys.get("warnings").is_none(), "{:#?}", first.keys);
    }
}

/// Found by the generated triples.
#[test]
fn a_disk_is_not_moved_to_the_guest_that_has_it() {
    let args = json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_vmid": 100, "target_disk": "scsi5"});
    let e = try_make("pve_disk_import", args).err().expect("an error");
    assert_eq!(e[0].path, "target_vmid");
}
