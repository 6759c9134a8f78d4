//! What a server, a network and other people can do to a run.

use crate::support::{Lab, worlds};
use serde_json::json;

const NIC: &str = "/qemu/100/config$";

fn nic(lab: &Lab) -> crate::support::Call<'_> {
    lab.call(
        "pve_nic",
        json!({"vmid": 100, "interface": "net0", "tag": 5}),
    )
}

#[test]
fn c22_another_writer_between_read_and_write_leads_to_a_new_plan() {
    let lab = Lab::one_guest();
    // The write waits at the server while somebody else changes the same guest.
    lab.fault(json!({"side": "pve", "path": NIC, "nth": 1, "do": {"delay_ms": 1500}}));
    let (child, _folder) = nic(&lab).spawn();
    let started = std::time::Instant::now();
    while started.elapsed().as_millis() < 900 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    lab.set(json!({"guest": 100, "config": {"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1", "memory": "2048"}}));
    let out = child.wait_with_output().unwrap();
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(v["failed"], json!(null), "{v:#}");
    assert!(v["replanned"].is_array(), "{v:#}");
    let c = lab.guest(100).unwrap()["config"].clone();
    // Theirs is kept, ours is added.
    assert_eq!(
        c["net0"],
        "virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1,tag=5"
    );
    assert_eq!(c["memory"], "2048");
}

#[test]
fn a_world_that_changes_again_and_again_is_a_conflict() {
    let lab = Lab::one_guest();
    lab.fault(json!({"side": "pve", "path": NIC, "do": {"status": 500, "reason": "checksum mismatch (file change by other user?)"}}));
    let d = nic(&lab).run().failed("conflict");
    assert_eq!(d["changed"], false);
    assert_eq!(d["replanned"].as_array().unwrap().len(), 3);
}

#[test]
fn p44_a_privilege_that_is_missing_is_named_before_anything_is_written() {
    let mut w = worlds::one_guest();
    w["pve"]["acl"].as_array_mut().unwrap().push(
        json!({"path": "/vms", "type": "token", "ugid": "deploy@pve!ci", "roleid": "PVEVMAdmin", "propagate": 1}),
    );
    let lab = Lab::start(w);
    let mut args = json!({"vmid": 100, "interface": "net1", "bridge": "vmbr1", "api_token_id": "deploy@pve!ci"});
    for check in [true, false] {
        let d = lab
            .call("pve_nic", args.clone())
            .check(check)
            .run()
            .failed("permission");
        assert!(
            d.msg().contains("SDN.Use") && d.msg().contains("vmbr1"),
            "{}",
            d.msg()
        );
        // P46: the token is privilege-separated, and the message says so.
        assert!(
            d.msg().contains("token ci") && d.msg().contains("separat"),
            "{}",
            d.msg()
        );
    }
    assert_eq!(lab.writes(), 0);
    // The user may; by password it goes.
    args["api_token_id"] = json!(null);
    args["api_token_secret"] = json!(null);
    args["api_user"] = json!("deploy@pve");
    args["api_password"] = json!(worlds::PASSWORD);
    assert!(lab.call("pve_nic", args).run().ok().changed());
}

#[test]
fn p46_a_token_without_rights_creates_nothing_over_what_it_cannot_see() {
    let lab = Lab::one_guest();
    let blind = |module: &str, args| lab.call(module, args).arg("api_token_id", "deploy@pve!ci");
    for check in [true, false] {
        let d = blind(
            "pve_vm_shell",
            json!({"vmid": 100, "name": "web", "node": "pve1"}),
        )
        .check(check)
        .run();
        assert!(d.is_failed());
        let d = blind(
            "pve_nic",
            json!({"vmid": 100, "interface": "net1", "bridge": "vmbr0"}),
        )
        .check(check)
        .run();
        assert!(d.is_failed());
        assert!(
            d.msg().contains("privilege") || d.msg().contains("missing"),
            "{}",
            d.msg()
        );
        let d = blind("pve_zone", json!({"zone": "z1", "type": "simple"}))
            .check(check)
            .run();
        d.failed("permission");
    }
    assert_eq!(lab.writes(), 0);
}

#[test]
fn wrong_password_and_wrong_token_are_auth() {
    let lab = Lab::one_guest();
    nic(&lab)
        .arg("api_token_secret", "00000000-0000-0000-0000-000000000000")
        .run()
        .failed("auth");
    let mut args = lab.user("root@pam");
    for (k, v) in [
        ("api_password", json!("not-the-password")),
        ("vmid", json!(100)),
        ("interface", json!("net0")),
        ("tag", json!(5)),
    ] {
        args[k] = v;
    }
    lab.bare("pve_nic", args)
        .secret("not-the-password")
        .run()
        .failed("auth");
    assert_eq!(lab.writes(), 0);
}

#[test]
fn a_read_that_fails_twice_is_tried_again_and_a_dead_server_is_unreachable() {
    let lab = Lab::one_guest();
    for n in [1, 2] {
        lab.fault(json!({"side": "pve", "method": "GET", "path": "/pending$", "nth": n, "do": {"status": 596, "reason": "Broken pipe"}}));
    }
    assert!(nic(&lab).run().ok().changed());
    lab.fault(json!({"side": "pve", "method": "GET", "path": "/pending$", "do": "drop"}));
    nic(&lab).run().failed("unreachable");
}

#[test]
fn p15_a_task_that_fails_is_told_with_its_reason_and_at_once() {
    let lab = Lab::start(worlds::small());
    let args = json!({"vmid": 140, "name": "x", "node": "pve1", "scsi": {"scsi0": "data:1"}, "timeout": 60});
    lab.fault(json!({"side": "pve", "method": "GET", "path": "/tasks/UPID.*/status$", "do": {"status": 200, "body": {"data":
        {"status": "stopped", "exitstatus": "unable to create VM 140 - no space left", "upid": "UPID:pve1:0:0:0:qmcreate:140:root@pam:", "type": "qmcreate", "id": "140", "node": "pve1", "user": "root@pam"}}}}));
    let d = lab.call("pve_vm_shell", args).run().failed("task_failed");
    assert!(d.msg().contains("no space left"), "{}", d.msg());
    assert!(d.took.as_secs() < 10);
}

#[test]
fn p13_a_task_that_ends_with_warnings_is_a_success_with_a_warning() {
    let lab = Lab::start(worlds::small());
    lab.fault(json!({"side": "pve", "method": "GET", "path": "/tasks/UPID.*/status$", "nth": 3, "do": {"status": 200, "body": {"data":
        {"status": "stopped", "exitstatus": "WARNINGS: 1", "upid": "UPID:pve1:0:0:0:qmcreate:140:root@pam:", "type": "qmcreate", "id": "140", "node": "pve1", "user": "root@pam"}}}}));
    lab.set(json!({"timing": {"task_ms": 1500}}));
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 140, "name": "x", "node": "pve1", "scsi": {"scsi0": "data:1"}}),
        )
        .run()
        .ok();
    assert!(d.changed());
    assert!(
        d.warnings()
            .iter()
            .any(|w| w.contains("WARNINGS: 1") || w.to_lowercase().contains("warning")),
        "{:?}",
        d.warnings()
    );
}

#[test]
fn p14_a_task_that_outlives_the_timeout_still_runs_and_the_next_run_joins_it() {
    let lab = Lab::start(worlds::small());
    lab.set(json!({"timing": {"kinds": {"qmcreate": 5000}}}));
    let make = lab.call(
        "pve_vm_shell",
        json!({"vmid": 140, "name": "x", "node": "pve1", "scsi": {"scsi0": "data:1"}}),
    );
    let d = make.clone().arg("timeout", 1).run().failed("timeout");
    assert!(
        d.msg().contains("still running") && d.msg().contains("UPID:"),
        "{}",
        d.msg()
    );
    assert_eq!(d["changed"], true);
    let seen = lab.log().len();
    let d = make.arg("timeout", 60).run().ok();
    assert!(
        lab.requests_from(seen)
            .iter()
            .all(|r| !r.starts_with("POST")),
        "{:?}",
        lab.requests_from(seen)
    );
    assert_eq!(d["vmid"], 140);
    assert_eq!(lab.world()["pve"]["guests"].as_array().unwrap().len(), 1);
}

#[test]
fn p47_lock_file_contention_is_waited_for() {
    let lab = Lab::one_guest();
    for n in [1, 2] {
        lab.fault(json!({"side": "pve", "path": NIC, "nth": n, "do": {"status": 500, "reason": "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"}}));
    }
    assert!(nic(&lab).run().ok().changed());
}

#[test]
fn p48_a_lock_that_no_task_explains_is_refused_in_check_mode_too() {
    let lab = Lab::one_guest();
    lab.set(json!({"guest": 100, "config": {"lock": "backup"}}));
    for check in [true, false] {
        let d = nic(&lab).check(check).run();
        assert!(d.is_failed());
        assert!(
            d.msg().contains("backup") && d.msg().contains("qm unlock 100"),
            "{}",
            d.msg()
        );
    }
    assert_eq!(lab.writes(), 0);
}

#[test]
fn a_lock_of_somebody_else_on_the_sdn_is_named_with_the_way_out() {
    let lab = Lab::start(worlds::small());
    lab.set(json!({"sdn_lock": true}));
    let zone = lab.call(
        "pve_zone",
        json!({"zone": "zvlan", "type": "vlan", "bridge": "vmbr0", "timeout": 2}),
    );
    let d = zone.run();
    assert!(d.is_failed());
    assert!(d.msg().contains("break_lock"), "{}", d.msg());
    assert_eq!(d["changed"], false);
    assert!(zone.arg("break_lock", true).run().ok().changed());
}

#[test]
fn p18_p19_p52_the_guest_is_found_where_it_lives() {
    let mut w = worlds::one_guest();
    w["pve"]["guests"][0]["node"] = json!("pve2");
    w["pve"]["guests"]
        .as_array_mut()
        .unwrap()
        .push(json!({"vmid": 101, "node": "pve1", "type": "lxc", "config": {"hostname": "ct"}}));
    w["pve"]["guests"]
        .as_array_mut()
        .unwrap()
        .push(worlds::guest(102, "near"));
    let lab = Lab::start(w);
    // P18: `node` only says where a new one is made.
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 100, "node": "pve1", "memory": 2048}),
        )
        .run()
        .ok();
    assert_eq!(d["node"], "pve2");
    // P19
    let d = lab
        .call(
            "pve_nic",
            json!({"vmid": 101, "interface": "net0", "bridge": "vmbr0"}),
        )
        .run();
    assert!(
        d.is_failed() && d.msg().contains("container"),
        "{}",
        d.msg()
    );
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 101, "name": "ct", "node": "pve1"}),
        )
        .run();
    assert!(
        d.is_failed() && d.msg().contains("container"),
        "{}",
        d.msg()
    );
    // P52: the other node is down.
    lab.set(json!({"node": "pve2", "online": false}));
    assert!(
        lab.call(
            "pve_nic",
            json!({"vmid": 102, "interface": "net0", "tag": 5})
        )
        .run()
        .ok()
        .changed()
    );
    let d = lab.call("pve_vm_info", json!({"type": "qemu"})).run().ok();
    assert_eq!(
        d["proxmox_vms"].as_array().map(Vec::len),
        Some(2),
        "{}",
        d.value
    );
}

#[test]
fn p49_p50_an_id_that_somebody_takes_meanwhile_is_not_touched() {
    let lab = Lab::one_guest();
    let exists =
        json!({"status": 500, "reason": "unable to create VM 101: config file already exists"});
    // By name: the next id is tried.
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/nodes/pve1/qemu$", "nth": 1, "do": exists}));
    let d = lab
        .call("pve_vm_shell", json!({"name": "auto", "node": "pve1"}))
        .run()
        .ok();
    assert!(d.changed());
    assert!(d["replanned"].is_array());
    // Nothing was deleted.
    assert!(lab.log().iter().all(|r| r["method"] != "DELETE"));
    assert_eq!(lab.guest(100).unwrap()["config"]["name"], "web");
}

#[test]
fn c23_a_worker_that_does_not_start_is_a_failure_and_not_sent_again() {
    let lab = Lab::start(worlds::small());
    lab.fault(json!({"side": "pve", "method": "POST", "path": "/nodes/pve1/qemu$", "do": {"status": 500, "reason": "got no worker upid - start worker failed"}}));
    let d = lab
        .call(
            "pve_vm_shell",
            json!({"vmid": 140, "name": "x", "node": "pve1"}),
        )
        .run()
        .failed("api");
    let posts = d.requests.iter().filter(|r| r["method"] == "POST").count();
    assert_eq!(posts, 1);
    assert!(d.msg().contains("start worker failed"), "{}", d.msg());
}
