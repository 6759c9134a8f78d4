//! Bugs of the modules that ours replace, by their number in the project's list of them (P: reported by users, C: found in their code);
//! those that concern Proxmox VE. Others have their tests beside the planners and in the files of this folder.

use crate::support::{Call, Lab, TOKEN_SECRET, refused, triple, triple_with, worlds};
use serde_json::{Value, json};

fn config(lab: &Lab, vmid: u32) -> Value {
    lab.guest(vmid).expect("the guest")["config"].clone()
}

/// Guest 100 with a disk of that many GiB on `data`.
fn with_disk(gib: u64) -> Lab {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["config"]["scsi0"] = json!(format!(
        "data:100/vm-100-disk-0.raw,cache=writeback,size={gib}G"
    ));
    w["pve"]["content"] = json!({"data": [{"volid": "data:100/vm-100-disk-0.raw", "size": gib << 30, "virtual_size": gib << 30}]});
    Lab::start(w)
}

#[test]
fn p02_update_of_a_guest_that_is_not_there_creates_it() {
    let lab = Lab::start(worlds::small());
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 123, "name": "test", "node": "pve1", "update": true, "memory": 1024}),
    )
    .changed();
    assert_eq!(config(&lab, 123)["name"], "test");
}

#[test]
fn p05_p06_names_are_not_ids() {
    let lab = Lab::one_guest();
    // P05: by name it is found again.
    triple(
        &lab,
        "pve_vm_shell",
        json!({"name": "fresh", "node": "pve1"}),
    )
    .changed();
    assert_eq!(lab.world()["pve"]["guests"].as_array().unwrap().len(), 2);
    // P06: the name of another guest is no reason to leave this vmid alone, and the other is left alone.
    let before = config(&lab, 100);
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 5011, "name": "web", "node": "pve1"}),
    )
    .changed();
    assert_eq!(config(&lab, 5011)["name"], "web");
    assert_eq!(config(&lab, 100), before);
    // Now the name is ambiguous, and says which guests have it.
    let m = refused(
        &lab,
        "pve_nic",
        json!({"name": "web", "interface": "net1", "bridge": "vmbr0"}),
        "refused",
    );
    assert!(m.contains("100") && m.contains("5011"), "{m}");
}

#[test]
fn p09_force_ends_a_guest_that_does_not_listen() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["status"] = json!("running");
    let lab = Lab::start(w);
    lab.set(json!({"guest": 100, "status": "running", "guest_os": false}));
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 100, "state": "stopped", "timeout": 2}),
        )
        .run();
    assert!(d.is_failed(), "{}", d.value);
    assert_eq!(lab.guest(100).unwrap()["status"], "running");
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "stopped", "force": true, "timeout": 2}),
    )
    .changed();
    assert_eq!(t.apply["status"], "stopped");
    assert!(t.apply.took.as_secs() < 30);
    assert_eq!(lab.guest(100).unwrap()["status"], "stopped");
}

#[test]
fn p16_what_ha_holds_is_refused_before_it_is_stopped() {
    let mut w = worlds::one_guest();
    w["pve"]["ha"] = json!({"vm:100": {"state": "started"}});
    let lab = Lab::start(w);
    lab.set(json!({"guest": 100, "status": "running"}));
    let m = refused(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "absent", "force": true}),
        "refused",
    );
    assert!(m.contains("purge"), "{m}");
    assert_eq!(lab.guest(100).unwrap()["status"], "running");
    // Replication jobs likewise.
    let mut w = worlds::one_guest();
    w["pve"]["replication"] =
        json!([{"id": "100-0", "guest": 100, "jobnum": 0, "target": "pve2", "type": "local"}]);
    let lab = Lab::start(w);
    let m = refused(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "absent"}),
        "refused",
    );
    assert!(m.contains("replication"), "{m}");
    triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "state": "absent", "purge": true}),
    )
    .changed();
}

#[test]
fn p30_a_size_beside_an_import_is_refused_before_anything_is_made() {
    let lab = with_disk(1);
    let before = lab.files();
    for check in [true, false] {
        let d = lab
            .call("pve_disk_import", json!({"vmid": 100, "disk": "scsi1", "storage": "data", "import_from": "data:100/vm-100-disk-0.raw", "size": "10"}))
            .check(check)
            .run();
        assert!(d.is_failed() && d.msg().contains("size"), "{}", d.value);
    }
    assert_eq!(lab.files(), before);
    assert_eq!(lab.writes(), 0);
}

#[test]
fn p31_an_unused_volume_is_not_taken_for_the_disk_that_is_wanted() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["config"]["unused0"] = json!("data:100/vm-100-disk-1.raw");
    w["pve"]["content"] = json!({"data": [{"volid": "data:100/vm-100-disk-1.raw", "size": 10_u64 << 30, "virtual_size": 10_u64 << 30}]});
    let lab = Lab::start(w);
    let t = triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "storage": "data", "size": "2"}),
    )
    .changed();
    assert_eq!(t.apply["size_bytes"], 2_u64 << 30);
    assert_eq!(config(&lab, 100)["unused0"], "data:100/vm-100-disk-1.raw");
    // At once larger: the volume is there.
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "state": "resized", "size": "3G"}),
    )
    .changed();
}

#[test]
fn p32_a_resize_that_fails_is_a_failure_and_the_next_run_looks_at_what_is() {
    let lab = with_disk(1);
    let resize = lab.call(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "2G"}),
    );
    lab.fault(json!({"side": "pve", "method": "GET", "path": "/tasks/UPID.*/status$", "do": {"status": 200, "body": {"data":
        {"status": "stopped", "exitstatus": "command '/usr/bin/qemu-img resize' failed: got timeout", "upid": "UPID:pve1:0:0:0:resize:100:root@pam:", "type": "resize", "id": "100", "node": "pve1", "user": "root@pam"}}}}));
    let d = resize.run().failed("task_failed");
    assert!(d.msg().contains("got timeout"), "{}", d.msg());
    lab.no_faults();
    // In the lab it went through all the same, as it does when only the server's own patience ended.
    let again = resize.run().ok();
    let stored = config(&lab, 100)["scsi0"].as_str().unwrap().to_owned();
    assert!(stored.contains("size=2G"), "{stored}");
    assert!(!resize.run().ok().changed(), "{}", again.value);
}

#[test]
fn p42_an_image_of_another_content_type_is_refused_with_what_to_change() {
    let mut w = worlds::one_guest();
    w["pve"]["content"] = json!({"local": [{"volid": "local:iso/x.iso", "size": 1 << 20}]});
    let lab = Lab::start(w);
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": "local:iso/x.iso"}),
        "refused",
    );
    assert!(m.contains("iso") && m.contains("import"), "{m}");
    // An absolute path needs the login of root@pam.
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": "/srv/x.raw"}),
        "permission",
    );
    assert!(m.contains("root@pam"), "{m}");
}

#[test]
fn p54_a_second_factor_is_named_with_both_ways_out() {
    let lab = Lab::one_guest();
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/access/ticket$", "do": {"status": 200, "body": {"data":
        {"NeedTFA": 1, "ticket": "PVE:!tfa!%7B%22totp%22%3Atrue%7D:00000000::c2VjcmV0", "username": "root@pam", "CSRFPreventionToken": "00000000:abcdefgh"}}}}));
    let mut args = lab.user("root@pam");
    for (k, v) in [
        ("vmid", json!(100)),
        ("interface", json!("net0")),
        ("tag", json!(5)),
    ] {
        args[k] = v;
    }
    let d = lab
        .bare("pve_nic", args)
        .secret("PVE:!tfa!")
        .run()
        .failed("auth");
    assert!(
        d.msg().contains("api_otp") && d.msg().contains("token"),
        "{}",
        d.msg()
    );
    let others: Vec<_> = d
        .requests
        .iter()
        .filter(|r| r["path"] != "/api2/json/access/ticket")
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn p55_tasks_of_a_token_with_an_unusual_name_are_followed() {
    let mut w = worlds::small();
    w["pve"]["nodes"] = json!([{"node": "pve-1", "status": "online"}]);
    w["pve"]["users"]
        .as_array_mut()
        .unwrap()
        .push(json!({"userid": "ci.build@pve", "password": worlds::PASSWORD}));
    w["pve"]["tokens"]["ci.build@pve"] =
        json!([{"tokenid": "tok-1", "privsep": 0, "secret": TOKEN_SECRET}]);
    w["pve"]["acl"].as_array_mut().unwrap().push(json!({"path": "/", "type": "user", "ugid": "ci.build@pve", "roleid": "Administrator", "propagate": 1}));
    let lab = Lab::start(w);
    let call = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 100, "name": "x", "node": "pve-1", "scsi": {"scsi0": "data:1"}}),
        )
        .arg("api_token_id", "ci.build@pve!tok-1");
    let t = triple_with(&lab, &call).changed();
    assert!(
        t.apply.requests.iter().any(|r| r["path"]
            .as_str()
            .is_some_and(|p| p.contains("/tasks/UPID%3Apve-1%3A"))),
        "{:?}",
        t.apply.requests
    );
}

#[test]
fn p76_p77_model_and_address_are_those_that_were_asked_for() {
    let lab = Lab::one_guest();
    triple(&lab, "pve_nic", json!({"vmid": 100, "interface": "net1", "bridge": "vmbr0", "model": "virtio", "mac": "00:50:56:aa:bb:cc"})).changed();
    assert_eq!(
        config(&lab, 100)["net1"].as_str().unwrap().to_lowercase(),
        "virtio=00:50:56:aa:bb:cc,bridge=vmbr0"
    );
    triple(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "model": "vmxnet3"}),
    )
    .changed();
    assert_eq!(
        config(&lab, 100)["net1"].as_str().unwrap().to_lowercase(),
        "vmxnet3=00:50:56:aa:bb:cc,bridge=vmbr0"
    );
    // A group address is no address of a card.
    let d = lab.call("pve_nic", json!({"vmid": 100, "interface": "net2", "bridge": "vmbr0", "mac": "01:00:5e:00:00:01"})).check(true).run();
    assert!(d.is_failed() && d.msg().contains("01:00:5"), "{}", d.value);
}

#[test]
fn p89_an_import_that_the_source_cuts_off_is_a_failure_and_the_next_run_starts_clean() {
    let mut w = worlds::one_guest();
    w["pve"]["content"] = json!({"nfs": [{"volid": "nfs:import/a.raw", "size": 2 << 20}]});
    let lab = Lab::start(w);
    let import = lab.call("pve_disk_import", json!({"vmid": 100, "disk": "scsi0", "storage": "data", "format": "raw", "import_from": "nfs:import/a.raw"}));
    // The request is not carried out; its task, says the server, has failed.
    let upid = "UPID:pve1:0000AAAA:00000001:6B0D7E2A:qmconfig:100:root@pam!full:";
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/qemu/100/config$", "do": {"status": 200, "body": {"data": upid}}}));
    lab.fault(json!({"side": "pve", "method": "GET", "path": "/tasks/UPID.*/status$", "do": {"status": 200, "body": {"data":
        {"status": "stopped", "exitstatus": "import failed - curl: (22) The requested URL returned error: 500", "upid": upid, "type": "qmconfig", "id": "100", "node": "pve1", "user": "root@pam"}}}}));
    let d = import.run().failed("task_failed");
    assert!(d.msg().contains("returned error: 500"), "{}", d.msg());
    lab.no_faults();
    triple_with(&lab, &import).changed();
}

#[test]
fn c01_c02_only_what_was_given_is_sent() {
    let lab = Lab::start(worlds::small());
    let t = triple(
        &lab,
        "pve_vm_shell",
        json!({"vmid": 100, "name": "x", "node": "pve1", "bios": "ovmf", "efidisk0": {"storage": "data", "efitype": "4m"}, "net": {"net0": "virtio"}}),
    )
    .changed();
    let sent = t.apply["plan"][0]["params"].to_string();
    assert!(!sent.contains("None") && !sent.contains("null"), "{sent}");
    // C02
    let mac = t.apply["mac"]["net0"]
        .as_str()
        .expect("an address")
        .to_owned();
    assert!(config(&lab, 100)["net0"].as_str().unwrap().contains(&mac));
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 101, "name": "y", "node": "pve1", "efidisk0": {"efitype": "4m"}}),
        )
        .check(true)
        .run();
    d.failed("refused").says("storage");
}

#[test]
fn c03_an_unknown_name_is_never_an_empty_path() {
    let lab = Lab::one_guest();
    for (module, args) in [
        (
            "pve_vm_shell",
            json!({"name": "nope", "update": true, "memory": 2048}),
        ),
        ("pve_vm_shell", json!({"name": "nope", "state": "started"})),
        (
            "pve_nic",
            json!({"name": "nope", "interface": "net0", "bridge": "vmbr0"}),
        ),
        (
            "pve_disk_import",
            json!({"name": "nope", "disk": "scsi0", "storage": "data", "size": "1"}),
        ),
    ] {
        let d = lab.call(module, args).run();
        assert!(
            d.requests
                .iter()
                .all(|r| !r["path"].as_str().unwrap_or("").contains("/qemu/config")),
            "{module}"
        );
        // One is created from its name where a node can be chosen; the others have nothing to work on.
        if module != "pve_vm_shell" || d.is_failed() {
            assert!(
                d.is_failed() && d.of_kind("write").is_empty(),
                "{}",
                d.value
            );
        }
    }
}

#[test]
fn c05_c06_c10_what_is_not_there_is_absent_with_a_message_and_ids_are_numbers() {
    let lab = Lab::one_guest();
    for (module, args) in [
        ("pve_vm_shell", json!({"vmid": 300, "state": "absent"})),
        (
            "pve_nic",
            json!({"name": "nope", "interface": "net0", "state": "absent"}),
        ),
        (
            "pve_disk_import",
            json!({"vmid": 300, "disk": "scsi0", "state": "absent"}),
        ),
    ] {
        let t = triple(&lab, module, args).unchanged();
        assert!(!t.apply.msg().is_empty(), "{module}");
    }
    let d = lab
        .call("pve_vm_shell", json!({"name": "web", "node": "pve1"}))
        .run()
        .ok();
    assert_eq!(d["vmid"], json!(100));
    let d = lab
        .call("pve_vm_shell", json!({"name": "auto", "node": "pve1"}))
        .run()
        .ok();
    assert!(d["vmid"].is_u64(), "{}", d.value);
}

#[test]
fn c07_only_net0_to_net31_are_cards() {
    let lab = Lab::one_guest();
    for interface in ["memory", "net32", "net", "net-1", "NET0", "net00", ""] {
        for state in ["present", "absent"] {
            let d = lab
                .call(
                    "pve_nic",
                    json!({"vmid": 100, "interface": interface, "bridge": "vmbr0", "state": state}),
                )
                .run();
            d.failed("invalid_args");
        }
    }
    assert_eq!(lab.count("pve", "reads"), 0);
}

#[test]
fn c08_c09_cards_are_compared_by_meaning() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["config"]["net0"] =
        json!("e1000e=BC:24:11:00:00:01,bridge=vmbr0,rate=10,trunks=20;10");
    let lab = Lab::start(w);
    triple(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net0", "bridge": "vmbr0", "model": "e1000e", "mac": "bc:24:11:00:00:01", "firewall": false, "rate": 10.0, "trunks": [10, 20]}),
    )
    .unchanged();
    triple(
        &lab,
        "pve_nic",
        json!({"vmid": 100, "interface": "net0", "tag": 3}),
    )
    .changed();
    let stored = config(&lab, 100)["net0"].as_str().unwrap().to_owned();
    for part in ["e1000e=BC:24:11:00:00:01", "rate=10", "trunks=", "tag=3"] {
        assert!(stored.contains(part), "{stored}");
    }
}

#[test]
fn c11_c14_a_disk_without_wishes_is_left_alone_and_sizes_are_compared_by_meaning() {
    let lab = with_disk(10);
    let before = config(&lab, 100)["scsi0"].clone();
    triple(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0"}),
    )
    .unchanged();
    for size in ["10G", "10240M"] {
        triple(
            &lab,
            "pve_disk_import",
            json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": size}),
        )
        .unchanged();
    }
    assert_eq!(config(&lab, 100)["scsi0"], before);
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "resized", "size": "5G"}),
        "refused",
    );
    assert!(m.contains("shr") || m.contains("smaller"), "{m}");
}

#[test]
fn c15_a_disk_that_moved_to_another_guest_stays_there() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"]
        .as_array_mut()
        .unwrap()
        .push(worlds::guest(200, "db"));
    w["pve"]["guests"][0]["config"]["scsi1"] = json!("data:100/vm-100-disk-0.raw,size=1G");
    w["pve"]["content"] = json!({"data": [{"volid": "data:100/vm-100-disk-0.raw", "size": 1 << 30, "virtual_size": 1 << 30}]});
    let lab = Lab::start(w);
    triple(&lab, "pve_disk_import", json!({"vmid": 100, "disk": "scsi1", "state": "moved", "target_vmid": 200, "target_disk": "scsi5"})).changed();
    assert!(config(&lab, 200)["scsi5"].is_string());
    assert!(config(&lab, 100).get("scsi1").is_none());
}

#[test]
fn c20_c21_the_given_authority_counts_and_tokens_are_taken_in_both_spellings() {
    let (lab, other) = (Lab::one_guest(), Lab::one_guest());
    let nic = json!({"vmid": 100, "interface": "net0", "tag": 5});
    lab.call("pve_nic", nic.clone())
        .arg("ca_path", other.ca())
        .check(true)
        .run()
        .failed("unreachable");
    lab.call("pve_nic", nic.clone())
        .arg("ca_path", "/nonexistent.pem")
        .check(true)
        .run()
        .failed("invalid_args");
    // C21
    lab.call("pve_nic", nic.clone())
        .arg("api_user", "root@pam")
        .arg("api_token_id", "full")
        .check(true)
        .run()
        .ok();
    lab.call("pve_nic", nic.clone())
        .arg("api_user", "root@pam")
        .arg("api_token_id", "root@pam!full")
        .check(true)
        .run()
        .ok();
    // Two users in one task contradict each other.
    let d = lab
        .call("pve_nic", nic)
        .arg("api_user", "deploy@pve")
        .arg("api_token_id", "root@pam!full")
        .check(true)
        .run();
    if d.is_failed() {
        assert!(
            d.msg().contains("api_user") || d.msg().contains("token"),
            "{}",
            d.msg()
        );
    }
}

#[test]
fn c25_a_comma_in_a_source_is_refused_with_the_reason() {
    let lab = Lab::one_guest();
    let m = refused(
        &lab,
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "storage": "data", "import_from": "esx:dc/ds/a,b/a.vmdk"}),
        "invalid_args",
    );
    assert!(m.contains("comma"), "{m}");
}

/// Templated values arrive as text.
#[test]
fn values_arrive_as_text() {
    let lab = Lab::one_guest();
    let d = Call::clone(&lab.call("pve_nic", json!({"vmid": "100", "interface": "net1", "bridge": "vmbr0", "tag": "20", "firewall": "yes", "trunks": "10,20"})));
    triple_with(&lab, &d).changed();
    assert!(
        config(&lab, 100)["net1"]
            .as_str()
            .unwrap()
            .contains("tag=20")
    );
    let d = lab.call("pve_vm_shell", json!({"vmid": "100", "memory": "2048", "net": "{'net2': 'virtio,bridge=vmbr1'}", "tags": "a,b", "onboot": "True"}));
    triple_with(&lab, &d).changed();
}
