//! Who may what, who belongs where: pve_acl, pve_pool_member, pve_user_info.
//!
//! What the modules that they replace get wrong, read in their code (community.proxmox 1.6.0 and 2.0.0), by our own numbers:
//! - A01 access_acl: `propagate: false` never compares, so an entry that propagates stays so.
//! - A02 access_acl: `absent` without `propagate` leaves entries that do not propagate, since the default selects.
//! - A03 access_acl: a path with a slash too many is never found again, and is set on every run.
//! - A04 access_acl: no check mode: the whole task is skipped.
//! - M01 pool_member 2.0.0: an exclusive list that adds a guest does not remove the others.
//! - M02 pool_member 2.0.0: adding guests while storages leave sends one request with `delete`, which removes what was to be added.
//! - M03 pool_member: a vmid that nobody has becomes a member; a wrong storage is only noticed outside check mode.
//! - M04 pool_member: a guest of another pool is a bare error of the server.
//! - U01 user_info: `user` without `domain` is ignored.
//! - U02 user_info: a user who does not exist, and one who may not be seen, are both an empty list.

use crate::support::{Lab, TOKEN_SECRET, refused, triple, triple_with, worlds};
use serde_json::{Value, json};

fn lab() -> Lab {
    let mut w = worlds::small_with(json!({
        "guests": [worlds::guest(100, "web"), worlds::guest(101, "db"),
            {"vmid": 110, "node": "pve2", "type": "lxc", "config": {"hostname": "ct"}}],
        "pools": [{"poolid": "testpool"}, {"poolid": "other", "members": [101, "nfs"]}, {"poolid": "other/inner"}],
    }));
    let users = w["pve"]["users"].as_array_mut().expect("users");
    users.push(json!({"userid": "anna@pve", "password": worlds::PASSWORD, "groups": "admins,staff", "comment": "Owner"}));
    users.push(json!({"userid": "anna@example", "enable": 0}));
    Lab::start(w)
}

fn acl(lab: &Lab, path: &str) -> Vec<String> {
    let w = lab.world();
    let all = w["pve"]["access"]["acl"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut out: Vec<String> = all
        .iter()
        .filter(|e| e["path"] == path)
        .map(|e| {
            let below = if e["propagate"] == true { "" } else { " alone" };
            format!(
                "{} {}{below}",
                e["ugid"].as_str().unwrap(),
                e["roleid"].as_str().unwrap()
            )
        })
        .collect();
    out.sort();
    out
}

fn pool(lab: &Lab, id: &str) -> Value {
    let w = lab.world();
    let all = w["pve"]["access"]["pools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let p = all
        .iter()
        .find(|p| p["poolid"] == id)
        .cloned()
        .expect("the pool");
    json!([p["vms"], p["storages"]])
}

fn entry(role: &str) -> Value {
    json!({"path": "/vms/100", "type": "user", "ugid": "anna@pve", "roleid": role})
}

#[test]
fn an_entry_is_given_changed_and_taken_away() {
    let lab = lab();
    let t = triple(&lab, "pve_acl", entry("PVEVMUser")).changed();
    assert_eq!(acl(&lab, "/vms/100"), ["anna@pve PVEVMUser"]);
    assert_eq!(t.check["msg"], "anna@pve has role PVEVMUser on /vms/100");
    // A04: what the peer returns, and what it does not say in check mode.
    assert_eq!(
        t.check["diff"]["after"]["entries"][0]["roleid"],
        "PVEVMUser"
    );
    for run in [&t.check, &t.apply, &t.again] {
        assert_eq!(
            run["new_acls"].as_array().map(Vec::len),
            Some(2),
            "{}",
            run.value
        );
    }
    assert_eq!(t.apply["old_acls"].as_array().map(Vec::len), Some(1));
    triple(&lab, "pve_acl", entry("PVEAuditor")).changed();
    // A01, and another role of the same user stays.
    let mut alone = entry("PVEVMUser");
    alone["propagate"] = json!("no");
    triple(&lab, "pve_acl", alone).changed();
    assert_eq!(
        acl(&lab, "/vms/100"),
        ["anna@pve PVEAuditor", "anna@pve PVEVMUser alone"]
    );
    // A02.
    let mut gone = entry("PVEVMUser");
    gone["state"] = json!("absent");
    triple(&lab, "pve_acl", gone).changed();
    assert_eq!(acl(&lab, "/vms/100"), ["anna@pve PVEAuditor"]);
    // A03: the same path, spelt otherwise.
    let mut slashes = entry("PVEAuditor");
    slashes["path"] = json!("//vms/100/");
    triple(&lab, "pve_acl", slashes).unchanged();
}

#[test]
fn absent_takes_all_that_it_selects() {
    let lab = lab();
    for (kind, who) in [
        ("user", "anna@pve"),
        ("group", "staff"),
        ("token", "deploy@pve!ci"),
    ] {
        triple(
            &lab,
            "pve_acl",
            json!({"path": "/pool/other", "type": kind, "ugid": who, "roleid": "PVEVMUser"}),
        )
        .changed();
    }
    triple(
        &lab,
        "pve_acl",
        json!({"path": "/pool/other", "state": "absent", "type": "group"}),
    )
    .changed();
    assert_eq!(
        acl(&lab, "/pool/other"),
        ["anna@pve PVEVMUser", "deploy@pve!ci PVEVMUser"]
    );
    let keep = json!({"path": "/pool/other", "state": "absent", "propagate": false});
    triple(&lab, "pve_acl", keep).unchanged();
    let t = triple(
        &lab,
        "pve_acl",
        json!({"path": "/pool/other", "state": "absent"}),
    )
    .changed();
    assert_eq!(t.apply["msg"], "2 entries on /pool/other removed");
    assert_eq!(acl(&lab, "/pool/other"), Vec::<String>::new());
    // Of guests that are not there too.
    triple(
        &lab,
        "pve_acl",
        json!({"path": "/vms/4711", "state": "absent"}),
    )
    .unchanged();
}

#[test]
fn what_the_server_refuses_of_an_entry_is_refused_before() {
    let lab = lab();
    let say = |patch: Value, kind: &str| {
        let mut a = entry("PVEVMUser");
        for (k, v) in patch.as_object().unwrap() {
            a[k] = v.clone();
        }
        refused(&lab, "pve_acl", a, kind)
    };
    assert!(
        say(json!({"ugid": "nobody@nowhere"}), "not_found").contains("no user `nobody@nowhere`")
    );
    assert!(say(json!({"ugid": "anna@pve!x", "type": "token"}), "not_found").contains("no token"));
    assert!(say(json!({"ugid": "nogroup", "type": "group"}), "not_found").contains("no group"));
    assert!(say(json!({"roleid": "PVENothing"}), "not_found").contains("no role"));
    assert!(say(json!({"ugid": "anna"}), "invalid_args").contains("user@realm"));
    assert!(say(json!({"ugid": "anna@pve!x"}), "invalid_args").contains("type=token"));
    assert!(
        say(json!({"ugid": "anna@pve", "type": "group"}), "invalid_args").contains("type=user")
    );
    for path in ["vms/100", "/vms/99", "/vm/100", "/vms/100/x", "/pool/a b"] {
        assert!(
            say(json!({"path": path}), "invalid_args").contains("no path"),
            "{path}"
        );
    }
    let m = refused(&lab, "pve_acl", json!({"path": "/vms/100"}), "invalid_args");
    assert!(m.contains("roleid"), "{m}");
}

#[test]
fn who_may_not_give_a_role_is_told_before() {
    let lab = lab();
    let of = |user: &str, role: &str, below: bool| {
        let mut a = lab.user(user);
        for (k, v) in entry(role).as_object().unwrap() {
            a[k] = v.clone();
        }
        a["propagate"] = json!(below);
        lab.bare("pve_acl", a)
    };
    let grant = |path: &str, role: &str, below: bool| {
        lab.call("pve_acl", json!({"path": path, "type": "user", "ugid": "anna@pve", "roleid": role, "propagate": below}))
            .run()
            .ok();
    };
    let t = triple_with(&lab, &of("anna@pve", "PVEVMUser", true))
        .check
        .failed("permission")
        .msg()
        .to_owned();
    assert!(t.contains("Sys.Audit on /access"), "{t}");
    // VM.Allocate lets one hand out what one has, as far as one has it.
    grant("/vms/100", "PVEVMAdmin", false);
    let t = triple_with(&lab, &of("anna@pve", "PVEVMUser", true));
    assert!(
        t.check
            .failed("permission")
            .msg()
            .contains("and that propagate")
    );
    triple_with(&lab, &of("anna@pve", "PVEAuditor", false))
        .check
        .failed("permission");
    triple_with(&lab, &of("anna@pve", "PVEVMUser", false)).changed();
    // PVEAdmin is less than Administrator; and a token without privileges of its own gives none.
    triple_with(&lab, &of("deploy@pve", "Administrator", true))
        .check
        .failed("permission");
    grant("/vms", "PVEAuditor", true);
    let token = json!({"api_host": lab.pve(), "ca_path": lab.ca(), "api_token_id": "deploy@pve!ci", "api_token_secret": TOKEN_SECRET,
        "path": "/vms/100", "type": "user", "ugid": "anna@pve", "roleid": "PVEVMUser"});
    triple_with(&lab, &lab.bare("pve_acl", token))
        .check
        .failed("permission");
}

#[test]
fn a_check_run_knows_entries_that_it_planned() {
    let lab = lab();
    let book = tempfile::tempdir().unwrap();
    let run = |module: &str, args: Value| {
        lab.call(module, args)
            .check(true)
            .ledger(book.path())
            .run()
            .ok()
    };
    assert!(
        run(
            "pve_vm_shell",
            json!({"vmid": 300, "node": "pve1", "name": "new", "pool": "testpool"})
        )
        .changed()
    );
    let mut a = entry("PVEVMUser");
    a["path"] = json!("/vms/300");
    assert!(run("pve_acl", a.clone()).changed());
    assert!(!run("pve_acl", a.clone()).changed());
    // The pool of its creation, and another one.
    let member = json!({"poolid": "testpool", "members": [{"vm": "new"}]});
    assert!(!run("pve_pool_member", member.clone()).changed());
    let d = run(
        "pve_pool_member",
        json!({"poolid": "other", "members": [{"vm": 300}], "allow_move": true}),
    );
    assert!(d.changed());
    assert_eq!(
        d["members"],
        json!([{"vm": "101"}, {"vm": "300"}, {"storage": "nfs"}])
    );
    let none = json!({"poolid": "testpool", "members": [], "exclusive": true});
    assert!(!run("pve_pool_member", none).changed());
    let all = run("pve_vm_info", json!({"vmid": 300}));
    assert_eq!(all["proxmox_vms"][0]["pool"], "other");
    // With the guest its entries and its membership go.
    assert!(run("pve_vm_shell", json!({"vmid": 300, "state": "absent"})).changed());
    assert!(!run("pve_acl", json!({"path": "/vms/300", "state": "absent"})).changed());
    assert!(
        !run(
            "pve_pool_member",
            json!({"poolid": "other", "member": "new", "state": "absent"})
        )
        .changed()
    );
    let d = run(
        "pve_pool_member",
        json!({"poolid": "other", "members": [{"vm": 101}]}),
    );
    assert_eq!(d["members"], json!([{"vm": "101"}, {"storage": "nfs"}]));
}

#[test]
fn members_in_both_spellings() {
    let lab = lab();
    let t = triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "testpool", "member": "web"}),
    )
    .changed();
    assert_eq!(t.apply["msg"], "New member web added to the pool testpool");
    assert_eq!(
        (t.check["member"].clone(), t.check["members"].clone()),
        (json!("web"), json!([{"vm": "100"}]))
    );
    assert_eq!(t.check["diff"]["before"]["members"], json!([]));
    triple(
        &lab,
        "pve_pool_member",
        json!({"name": "testpool", "member": 100}),
    )
    .unchanged();
    triple(
        &lab,
        "pve_pool_member",
        json!({"name": "testpool", "member": "data", "type": "storage"}),
    )
    .changed();
    triple(&lab, "pve_pool_member", json!({"poolid": "testpool", "members": [{"vm": "110"}, {"storage": "local"}, {"vm": 100}]})).changed();
    assert_eq!(
        pool(&lab, "testpool"),
        json!([[100, 110], ["data", "local"]])
    );
    let t = triple(&lab, "pve_pool_member", json!({"poolid": "testpool", "members": "[{'vm': 'ct'}, {'storage': 'local'}]", "state": "absent"})).changed();
    assert_eq!(
        t.apply["members"],
        json!([{"vm": "100"}, {"storage": "data"}])
    );
    let t = triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "testpool", "member": "100", "state": "absent"}),
    )
    .changed();
    assert_eq!(t.apply["msg"], "Member 100 deleted from the pool testpool");
    // A guest that is gone is no member.
    triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "testpool", "member": "nosuch", "state": "absent"}),
    )
    .unchanged();
    triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "testpool", "member": 4711, "state": "absent"}),
    )
    .unchanged();
    // A nested pool.
    triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "other/inner", "member": 100}),
    )
    .changed();
    assert_eq!(pool(&lab, "other/inner"), json!([[100], []]));
}

#[test]
fn m01_m02_an_exclusive_list_is_the_whole_list() {
    let lab = lab();
    let t = triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "other", "members": [{"vm": "web"}], "exclusive": true}),
    )
    .changed();
    assert_eq!(pool(&lab, "other"), json!([[100], []]));
    assert_eq!(t.check["plan"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        t.check["diff"]["before"]["members"],
        json!([{"vm": "101"}, {"storage": "nfs"}])
    );
    assert_eq!(t.check["diff"]["after"]["members"], json!([{"vm": "100"}]));
    triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "other", "members": [], "exclusive": true, "state": "absent"}),
    )
    .changed();
    assert_eq!(pool(&lab, "other"), json!([[], []]));
}

#[test]
fn m03_m04_what_cannot_be_a_member_is_refused() {
    let lab = lab();
    let say = |args: Value, kind: &str| refused(&lab, "pve_pool_member", args, kind);
    assert!(
        say(json!({"poolid": "testpool", "member": 4711}), "not_found")
            .contains("does not exist in cluster")
    );
    assert!(
        say(
            json!({"poolid": "testpool", "member": "nosuch"}),
            "not_found"
        )
        .contains("No VM with name nosuch")
    );
    assert!(
        say(
            json!({"poolid": "testpool", "member": "tape", "type": "storage"}),
            "not_found"
        )
        .contains("doesn't exist")
    );
    assert!(
        say(json!({"poolid": "nopool", "member": 100}), "not_found").contains("no pool `nopool`")
    );
    assert!(
        say(
            json!({"poolid": "testpool", "members": [{"vm": 1, "storage": "data"}]}),
            "invalid_args"
        )
        .contains("either `vm` or `storage`")
    );
    assert!(
        say(
            json!({"poolid": "testpool", "members": [{"vm": 99}]}),
            "invalid_args"
        )
        .contains("no vmid")
    );
    assert!(say(json!({"poolid": "testpool"}), "invalid_args").contains("member"));
    assert!(
        say(
            json!({"poolid": "test pool", "member": 100}),
            "invalid_args"
        )
        .contains("no pool")
    );
    let m = say(json!({"poolid": "testpool", "member": "db"}), "refused");
    assert!(
        m.contains("in pool other") && m.contains("allow_move"),
        "{m}"
    );
    let t = triple(
        &lab,
        "pve_pool_member",
        json!({"poolid": "testpool", "member": "db", "allow_move": true}),
    )
    .changed();
    assert!(
        t.check.plan().contains("from pool other"),
        "{}",
        t.check.plan()
    );
    assert_eq!(pool(&lab, "other"), json!([[], ["nfs"]]));
    // Two guests of one name.
    lab.set(json!({"guest": 101, "config": {"name": "web"}}));
    let m = say(json!({"poolid": "testpool", "member": "web"}), "refused");
    assert!(m.contains("100, 101"), "{m}");
}

#[test]
fn who_may_not_change_a_pool_is_told_before() {
    let lab = lab();
    let of = |args: Value| {
        let mut a = lab.user("anna@pve");
        for (k, v) in args.as_object().unwrap() {
            a[k] = v.clone();
        }
        lab.bare("pve_pool_member", a)
    };
    let grant = |path: &str, role: &str| {
        lab.call(
            "pve_acl",
            json!({"path": path, "type": "user", "ugid": "anna@pve", "roleid": role}),
        )
        .run()
        .ok();
    };
    let lacks = |args: Value, what: &str| {
        let t = triple_with(&lab, &of(args));
        let m = t.check.failed("permission").msg().to_owned();
        assert!(m.contains(what), "{m}");
    };
    lacks(
        json!({"poolid": "testpool", "member": 100}),
        "Pool.Allocate on /pool/testpool",
    );
    grant("/pool/testpool", "PVEPoolAdmin");
    lacks(
        json!({"poolid": "testpool", "member": 100}),
        "VM.Allocate on /vms/100",
    );
    lacks(
        json!({"poolid": "testpool", "member": "web"}),
        "VM.Audit on /vms",
    );
    grant("/vms", "PVEVMAdmin");
    triple_with(&lab, &of(json!({"poolid": "testpool", "member": "web"}))).changed();
    grant("/pool/other", "PVEPoolUser");
    lacks(
        json!({"poolid": "testpool", "member": 101, "allow_move": true}),
        "Pool.Allocate on /pool/other",
    );
    grant("/pool/other", "PVEPoolAdmin");
    triple_with(
        &lab,
        &of(json!({"poolid": "testpool", "member": 101, "allow_move": true})),
    )
    .changed();
}

#[test]
fn a_member_that_came_in_between_leads_to_a_new_plan() {
    let lab = lab();
    lab.fault(json!({"side": "pve", "method": "PUT", "path": "/pools$", "nth": 1,
        "do": {"status": 500, "reason": "update pools failed: VM 100 is already a pool member",
               "body": {"data": null, "message": "update pools failed: VM 100 is already a pool member\n"}}}));
    let d = lab
        .call(
            "pve_pool_member",
            json!({"poolid": "testpool", "member": 100}),
        )
        .run()
        .ok();
    assert!(
        d["replanned"].to_string().contains("already a pool member"),
        "{}",
        d.value
    );
    assert_eq!(pool(&lab, "testpool"), json!([[100], []]));
}

fn users(d: &Value) -> Vec<&str> {
    d["proxmox_users"]
        .as_array()
        .unwrap()
        .iter()
        .map(|u| u["userid"].as_str().unwrap())
        .collect()
}

#[test]
fn users_are_looked_at() {
    let lab = lab();
    let run = |args: Value| lab.call("pve_user_info", args).run();
    let d = run(json!({})).ok();
    assert_eq!(
        users(&d),
        [
            "anna@example",
            "anna@pve",
            "deploy@pve",
            "nobody@pve",
            "root@pam"
        ]
    );
    let one = run(json!({"userid": "anna@pve"})).ok();
    let same = run(json!({"user": "anna", "realm": "pve"})).ok();
    assert_eq!(one["proxmox_users"], same["proxmox_users"]);
    let u = &one["proxmox_users"][0];
    for (k, v) in [
        ("user", json!("anna")),
        ("domain", json!("pve")),
        ("enabled", json!(true)),
        ("groups", json!(["admins", "staff"])),
        ("tokens", json!([])),
        ("comment", json!("Owner")),
    ] {
        assert_eq!(u[k], v, "{k}");
    }
    let listed = d["proxmox_users"]
        .as_array()
        .unwrap()
        .iter()
        .find(|u| u["userid"] == "anna@pve")
        .cloned()
        .unwrap();
    assert_eq!(listed["groups"], u["groups"]);
    let d = run(json!({"domain": "pve"})).ok();
    assert_eq!(users(&d), ["anna@pve", "deploy@pve", "nobody@pve"]);
    assert_eq!(d["proxmox_users"][1]["tokens"][0]["tokenid"], "ci");
    assert_eq!(d["proxmox_users"][1]["tokens"][0]["privsep"], true);
    // U01.
    assert_eq!(
        users(&run(json!({"name": "anna"})).ok()),
        ["anna@example", "anna@pve"]
    );
    assert_eq!(
        users(&run(json!({"name": "nosuch"})).ok()),
        Vec::<&str>::new()
    );
    assert_eq!(
        run(json!({"user": "anna"})).ok()["proxmox_users"][0]["enabled"],
        false
    );
}

#[test]
fn u02_a_user_who_is_not_there_is_not_one_who_may_not_be_seen() {
    let lab = lab();
    let as_anna = |args: Value| {
        let mut a = lab.user("anna@pve");
        for (k, v) in args.as_object().unwrap() {
            a[k] = v.clone();
        }
        lab.bare("pve_user_info", a).run()
    };
    for check in [true, false] {
        let d = lab
            .call("pve_user_info", json!({"userid": "ghost@pve"}))
            .check(check)
            .run();
        d.failed("not_found").says("no such user");
    }
    assert!(
        as_anna(json!({"userid": "ghost@pve"}))
            .failed("not_found")
            .msg()
            .contains("no such user")
    );
    assert!(
        as_anna(json!({"userid": "deploy@pve"}))
            .failed("permission")
            .msg()
            .contains("/access/groups")
    );
    let own = as_anna(json!({"userid": "anna@pve"})).ok();
    assert_eq!(users(&own), ["anna@pve"]);
    let d = as_anna(json!({})).ok();
    assert_eq!(users(&d), ["anna@pve"]);
    assert!(
        d["unverified"].to_string().contains("Sys.Audit"),
        "{}",
        d.value
    );
    for wrong in [
        json!({"userid": "anna"}),
        json!({"user": "a", "userid": "a@pve"}),
        json!({"realm": "pve", "userid": "a@pve"}),
    ] {
        lab.call("pve_user_info", wrong)
            .run()
            .failed("invalid_args");
    }
}
