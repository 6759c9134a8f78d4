//! Troubles of the peers' users by their number (docs/bugs.md P and C; docs/peers-proxmox.md K, D, N, S, I) that no other test
//! names. docs/bugs-tested.md says where each number is tested.

use crate::support::{Lab, refused, triple, worlds};
use serde_json::{Value, json};

fn config(lab: &Lab, vmid: u32, key: &str) -> Value {
    lab.guest(vmid).expect("the guest")["config"][key].clone()
}

/// Guest 100 on pve1 with these keys in its configuration, running or not, and a disk `scsi0` of `mib` MiB.
fn with_disk(mib: u64, running: bool, more: Value) -> Lab {
    let mut g = worlds::guest(100, "web");
    g["config"]["scsi0"] = json!(format!("data:100/vm-100-disk-0.raw,size={mib}M"));
    g["config"]["scsihw"] = json!("virtio-scsi-pci");
    for (k, v) in more.as_object().expect("an object") {
        g["config"][k] = v.clone();
    }
    if running {
        g["status"] = json!("running");
    }
    Lab::start(worlds::small_with(json!({
        "guests": [g],
        "content": {
            "data": [{"volid": "data:100/vm-100-disk-0.raw", "size": mib * 1_048_576}],
            "local": [{"volid": "local:import/disk.raw", "content": "import", "format": "raw", "size": 64 * 1_048_576},
                {"volid": "local:iso/x.iso", "size": 350 * 1024}],
        },
        "timing": {"task_ms": 5, "kinds": {"hotunplug": 1}},
    })))
}

fn running() -> Lab {
    let lab = Lab::one_guest();
    lab.set(json!({"guest": 100, "status": "running"}));
    lab
}

/// The lab's guest has no system, so that it never hears a shutdown.
#[test]
fn p09_k15_forced_stop_stops_within_the_timeout_and_says_stopped() {
    let lab = running();
    let args = json!({"vmid": 100, "state": "stopped", "timeout": 1});
    let d = lab.call("pve_vm_shell", args).run();
    assert!(d.is_failed(), "without force it must fail: {}", d.msg());
    assert_eq!(lab.guest(100).unwrap()["status"], "running");
    let args = json!({"vmid": 100, "state": "stopped", "force": true, "timeout": 2});
    let t = triple(&lab, "pve_vm_shell", args).changed();
    assert_eq!(t.apply["status"], "stopped");
    assert_eq!(t.check["status"], "stopped");
    assert_eq!(lab.guest(100).unwrap()["status"], "stopped");
}

#[test]
fn k11_the_status_is_the_one_after() {
    let lab = Lab::one_guest();
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "started"}),
    )
    .changed();
    assert_eq!(
        (&t.check["status"], &t.apply["status"]),
        (&json!("running"), &json!("running"))
    );
}

#[test]
fn p30_a_source_larger_than_wanted_is_refused_before_the_import() {
    let lab = with_disk(64, false, json!({}));
    let args = json!({"vmid": 100, "disk": "scsi1", "storage": "data", "import_from": "local:import/disk.raw", "source_bytes": 1_048_576});
    let m = refused(&lab, "pve_disk_import", args, "refused");
    assert!(m.contains("67108864") && m.contains("1048576"), "{m}");
    let both = json!({"vmid": 100, "disk": "scsi1", "storage": "data", "import_from": "local:import/disk.raw", "size": 10});
    let d = lab.call("pve_disk_import", both).check(true).run();
    assert!(d.is_failed() && d.msg().contains("size"), "{}", d.msg());
}

#[test]
fn p39_a_disk_whose_volume_is_gone_is_read_and_removed() {
    let lab = Lab::one_guest();
    lab.set(json!({"guest": 100, "config": {"scsi1": "data:100/vm-100-disk-9.raw,size=1G"}}));
    let d = lab
        .call("pve_vm_info", json!({"vmid": 100, "config": "current"}))
        .run()
        .ok();
    assert!(d.stdout.contains("vm-100-disk-9"), "{}", d.stdout);
    let options = json!({"vmid": 100, "disk": "scsi1", "cache": "none"});
    let m = refused(&lab, "pve_disk_import", options, "refused");
    assert!(
        m.contains("vm-100-disk-9") && m.contains("does not exist"),
        "{m}"
    );
    let options = json!({"vmid": 100, "scsi": {"scsi1": "data:100/vm-100-disk-9.raw,cache=none"}});
    let m = refused(&lab, "pve_vm_shell", options, "refused");
    assert!(
        m.contains("vm-100-disk-9") && m.contains("does not exist"),
        "{m}"
    );
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "state": "detached"}),
    )
    .changed();
    assert!(config(&lab, 100, "scsi1").is_null());
}

#[test]
fn p42_a_source_of_the_wrong_kind_says_what_to_do() {
    let lab = with_disk(64, false, json!({}));
    let iso =
        json!({"vmid": 100, "disk": "scsi1", "storage": "data", "import_from": "local:iso/x.iso"});
    let m = refused(&lab, "pve_disk_import", iso, "refused");
    assert!(m.contains("local:iso/x.iso") && m.contains("import"), "{m}");
    let path =
        json!({"vmid": 100, "disk": "scsi1", "storage": "data", "import_from": "/srv/x.raw"});
    let m = refused(&lab, "pve_disk_import", path, "permission");
    assert!(m.contains("root@pam"), "{m}");
}

/// A user and a token with every sign that Proxmox allows: the task's id repeats them.
#[test]
fn p55_c21_tasks_of_a_token_with_an_unusual_name_are_followed() {
    let mut w = worlds::small();
    w["pve"]["users"] = json!([{"userid": "c.i+x_1-y@pve", "password": worlds::PASSWORD}]);
    w["pve"]["tokens"] = json!({"c.i+x_1-y@pve": [{"tokenid": "tok-1_a", "privsep": 0, "secret": worlds::TOKEN_SECRET}]});
    w["pve"]["acl"] = json!([{"path": "/", "type": "user", "ugid": "c.i+x_1-y@pve", "roleid": "PVEAdmin", "propagate": 1}]);
    let lab = Lab::start(w);
    for (vmid, user, id) in [
        (200, None, "c.i+x_1-y@pve!tok-1_a"),
        (201, Some("c.i+x_1-y@pve"), "tok-1_a"),
        (202, Some("c.i+x_1-y@pve"), "c.i+x_1-y@pve!tok-1_a"),
    ] {
        let mut args = json!({"api_host": lab.pve(), "ca_path": lab.ca(), "api_token_id": id, "api_token_secret": worlds::TOKEN_SECRET,
            "vmid": vmid, "name": "t", "node": "pve1"});
        if let Some(u) = user {
            args["api_user"] = json!(u);
        }
        assert!(lab.bare("pve_vm_shell", args).run().ok().changed(), "{id}");
    }
}

#[test]
fn c01_k05_only_named_suboptions_of_an_efi_disk_are_sent() {
    let lab = Lab::start(worlds::small());
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 130, "name": "u", "node": "pve1", "bios": "ovmf", "efidisk0": {"storage": "local", "efitype": "4m"}}),
    )
    .changed();
    assert!(!t.apply.plan().contains("None"), "{}", t.apply.plan());
    assert!(
        config(&lab, 130, "efidisk0")
            .as_str()
            .unwrap()
            .contains("efitype=4m")
    );
    let m = refused(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 131, "name": "u", "node": "pve1", "efidisk0": {"efitype": "4m"}}),
        "refused",
    );
    assert!(m.contains("efidisk0") && m.contains("storage"), "{m}");
}

#[test]
fn c02_k04_a_card_of_a_bare_model_is_made_and_its_address_returned() {
    let lab = Lab::start(worlds::small());
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 130, "name": "n", "node": "pve1", "net": {"net0": "virtio"}}),
    )
    .changed();
    let mac = t.apply["mac"]["net0"].as_str().expect("an address");
    assert!(mac.starts_with("BC:24:11:"), "{mac}");
}

#[test]
fn c03_k02_c10_a_name_that_nobody_has() {
    let lab = Lab::start(worlds::small());
    let m = refused(
        &lab,
        "pve_vm_shell",
        json!({"name": "nope", "state": "started"}),
        "not_found",
    );
    assert!(m.contains("nope"), "{m}");
    // Without a node nothing can be made of it.
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"name": "nope", "update": true, "memory": 64}),
        )
        .run();
    assert!(
        d.is_failed() && d.of_kind("write").is_empty(),
        "{}",
        d.msg()
    );
    triple(
        &lab,
        "pve_nic",
        json!({"name": "nope", "interface": "net0", "state": "absent"}),
    )
    .unchanged();
    triple(
        &lab,
        "pve_disk_import",
        json!({"name": "nope", "disk": "scsi0", "state": "absent"}),
    )
    .unchanged();
}

#[test]
fn c04_c05_c06_absent_and_ids() {
    let lab = running();
    let m = refused(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "absent"}),
        "refused",
    );
    assert!(m.contains("running") && m.contains("force"), "{m}");
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 300, "state": "absent"}),
    )
    .unchanged();
    assert!(!t.apply.msg().is_empty());
    let t = triple(&lab, "pve_vm_shell", json!({"name": "web", "node": "pve1"})).unchanged();
    assert_eq!(t.apply["vmid"], json!(100));
}

#[test]
fn c16_geometry_that_the_server_drops_is_refused() {
    let lab = with_disk(64, false, json!({}));
    let d = lab
        .call(
            "pve_disk_import",
            json!({"vmid": 100, "disk": "scsi0", "cyls": 10}),
        )
        .run();
    let again = lab
        .call(
            "pve_disk_import",
            json!({"vmid": 100, "disk": "scsi0", "cyls": 10}),
        )
        .run();
    let told = d.is_failed() || d.warnings().iter().any(|w| w.contains("cyls"));
    assert!(told && !again.changed(), "{} {:?}", d.msg(), d.warnings());
}

#[test]
fn c17_d08_a_timeout_of_nothing_is_no_crash() {
    let lab = with_disk(64, false, json!({}));
    let d = lab
        .call(
            "pve_disk_import",
            json!({"vmid": 100, "disk": "scsi1", "storage": "data", "size": 1, "timeout": 0}),
        )
        .run();
    assert!(d["error_kind"] != "internal", "{}", d.stdout);
    assert!(!d.msg().is_empty());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let made = config(&lab, 100, "scsi1");
    assert_eq!(
        d["error_kind"] == "invalid_args",
        made.is_null(),
        "{} {made}",
        d.msg()
    );
}

#[test]
fn k17_a_stopped_guest_migrates_and_a_second_time_is_unchanged() {
    let lab = with_disk(64, false, json!({}));
    let args = json!({"vmid": 100, "node": "pve2", "migrate": true, "with_local_disks": true});
    let t = triple(&lab, "pve_vm_shell", args).changed();
    assert_eq!(lab.guest(100).unwrap()["node"], "pve2");
    assert_eq!(t.apply["node"], "pve2");
}

#[test]
fn k14_k16_values_that_the_server_knows_and_the_peer_does_not() {
    let lab = Lab::start(worlds::small());
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 130, "name": "n", "node": "pve1", "citype": "opennebula", "cpulimit": "0.5", "vmstatestorage": "local",
            "migrate_downtime": "0.2"}),
    )
    .changed();
    assert_eq!(config(&lab, 130, "citype"), "opennebula");
    // Restored, not built: said, not half done.
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 131, "node": "pve1", "archive": "local:backup/vzdump-qemu-100.vma"}),
        )
        .check(true)
        .run();
    assert!(d.is_failed() && d.msg().contains("archive"), "{}", d.msg());
}

#[test]
fn d09_a_disk_that_only_waits_to_be_detached_is_not_called_absent() {
    // No system in the guest: the disk of a controller of its own does not come off.
    let lab = with_disk(
        64,
        true,
        json!({"scsihw": "virtio-scsi-single", "boot": "order=net0"}),
    );
    let args = json!({"vmid": 100, "disk": "scsi0", "state": "detached"});
    let d = lab.call("pve_disk_import", args.clone()).run().ok();
    assert!(d["pending"].get("scsi0").is_some(), "{}", d["pending"]);
    let again = lab.call("pve_disk_import", args).run().ok();
    assert!(!again.changed());
    assert!(
        again["pending"].get("scsi0").is_some(),
        "{}",
        again["pending"]
    );
}

#[test]
fn d12_what_a_disk_task_returns() {
    let lab = with_disk(64, false, json!({}));
    let d = lab
        .call("pve_disk_import", json!({"vmid": 100, "disk": "scsi0"}))
        .run()
        .ok();
    for key in [
        "vmid",
        "disk",
        "volume",
        "size_bytes",
        "imported",
        "unused",
        "upid",
        "pending",
    ] {
        assert!(d.value.get(key).is_some(), "{key}: {}", d.stdout);
    }
    assert_eq!(d["size_bytes"], json!(64 * 1_048_576));
}

/// Whatever fails after the lock was taken, the lock is given back.
#[test]
fn s04_s07_a_failure_after_the_lock_leaves_no_lock_and_nothing_pending() {
    let lab = Lab::start(worlds::small());
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "bridge": "vmbr0"}),
    )
    .changed();
    let args = json!({"vnet": "v1", "zone": "z1", "tag": 10});
    for path in ["/cluster/sdn/vnets$", "/cluster/sdn$"] {
        lab.fault(json!({"side": "pve", "path": path, "method": if path.ends_with("vnets$") { "POST" } else { "PUT" },
            "do": {"status": 500, "reason": "no quorum"}}));
        let d = lab.call("pve_vnet", args.clone()).run();
        assert!(
            d.is_failed() && d.msg().contains("no quorum"),
            "{}",
            d.msg()
        );
        lab.no_faults();
        let sdn = lab.world()["pve"]["sdn"].clone();
        assert!(!sdn.to_string().contains("\"v1\""), "{path}: {sdn}");
        triple(
            &lab,
            "pve_vnet",
            json!({"vnet": "v2", "zone": "z1", "tag": 11}),
        )
        .changed();
        triple(&lab, "pve_vnet", json!({"vnet": "v2", "state": "absent"})).changed();
    }
    triple(&lab, "pve_vnet", args).changed();
}

#[test]
fn s06_nodes_are_a_set() {
    let lab = Lab::start(worlds::small());
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "bridge": "vmbr0", "nodes": "pve2,pve1"}),
    )
    .changed();
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "bridge": "vmbr0", "nodes": "pve1, pve2"}),
    )
    .unchanged();
}

#[test]
fn sixty_vnets_in_one_task_have_one_lock_and_one_apply() {
    let lab = Lab::start(worlds::small());
    triple(
        &lab,
        "pve_zone",
        json!({"zone": "z1", "type": "vlan", "bridge": "vmbr0"}),
    )
    .changed();
    let vnets: Vec<Value> = (0..60)
        .map(|n| json!({"vnet": format!("v{}", 100 + n), "zone": "z1", "tag": 100 + n}))
        .collect();
    let t = triple(&lab, "pve_vnet", json!({"vnets": vnets})).changed();
    let sent = t.apply.of_kind("write");
    let of = |r: &str| sent.iter().filter(|s| s.starts_with(r)).count();
    assert_eq!(of("POST /cluster/sdn/vnets"), 60);
    assert_eq!(of("POST /cluster/sdn/lock"), 1);
    assert_eq!(of("PUT /cluster/sdn "), 1, "{sent:?}");
    println!(
        "60 vnets: {} writes, {} reads",
        sent.len(),
        t.apply.of_kind("read").len()
    );
}

/// I1-I5: one shape, numbers as numbers, what waits told apart, and calls that do not grow with the guests.
#[test]
fn i01_i02_i03_i05_what_is_read_about_guests() {
    let mut guests = vec![worlds::guest(100, "web")];
    guests[0]["status"] = json!("running");
    for n in 101..120 {
        let mut g = worlds::guest(n, "more");
        g["config"]["net0"] = json!("virtio=BC:24:11:00:01:01,bridge=vmbr0");
        guests.push(g);
    }
    let lab = Lab::start(worlds::small_with(json!({"guests": guests})));
    lab.call("pve_vm_shell", json!({"vmid": 100, "cores": 4}))
        .run()
        .ok();
    let d = lab.call("pve_vm_info", json!({"network": true})).run().ok();
    let all = d["proxmox_vms"].as_array().expect("a list");
    assert_eq!(all.len(), 20);
    assert!(all.iter().all(|g| g["vmid"].is_u64()));
    assert!(
        all.windows(2)
            .all(|w| w[0]["vmid"].as_u64() < w[1]["vmid"].as_u64())
    );
    let list = lab.call("pve_vm_info", json!({})).run().ok();
    assert!(
        list.of_kind("read").len() <= 4,
        "{:?}",
        list.of_kind("read")
    );
    let one = lab
        .call("pve_vm_info", json!({"vmid": 100, "config": "pending"}))
        .run()
        .ok();
    let g = &one["proxmox_vms"][0];
    assert!(g["pending"].get("cores").is_some(), "{g}");
}

/// The server never shows a password: written where none is set, and in every run only when told.
#[test]
fn p04_a_cloud_init_password_is_written_when_told() {
    let lab = Lab::start(worlds::small());
    let args = json!({"vmid": 130, "name": "c", "node": "pve1", "ciuser": "u", "cipassword": "hunter2hunter2"});
    triple(&lab, "pve_vm_shell", args.clone()).changed();
    let call = lab
        .call("pve_vm_shell", args)
        .arg("cipassword_update", "always")
        .secret("hunter2hunter2");
    let check = call.clone().check(true).run().ok();
    assert!(check.changed() && check.of_kind("write").is_empty());
    let d = call.run().ok();
    assert!(d.changed());
    assert_eq!(d.of_kind("write").len(), 1);
    assert_eq!(check.plan(), d.plan());
}

/// docs/bugs-tested.md names tests that are there.
#[test]
fn the_table_of_tests_is_true() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("docs/bugs-tested.md")).expect("the table");
    let (mut rows, mut named, mut wrong) = (0, 0, vec![]);
    for row in table
        .lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| number"))
    {
        rows += 1;
        for entry in row.split('`').filter(|e| e.contains(".rs::")) {
            named += 1;
            let (file, test) = entry.split_once("::").expect("file::test");
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            if !text.contains(&format!("fn {test}(")) {
                wrong.push(entry.to_owned());
            }
        }
    }
    println!("troubles by number: {rows} rows, {named} tests named");
    assert!(
        rows > 150 && wrong.is_empty(),
        "{rows} rows; not there: {wrong:?}"
    );
}
