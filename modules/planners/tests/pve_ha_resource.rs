//! Planner tests of `pve_ha_resource`.
mod common;

use common::{Site, failure};
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Value, json};

fn site() -> Site {
    let mut s = Site::new();
    s.guest(
        100,
        json!({"name": "web", "smbios1": "uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7"}),
    );
    s.fact(PveKey::HaResource("vm:100".into()), Fact::Absent);
    s
}

fn plan(r: &plan::Report) -> Vec<Value> {
    assert!(!r.is_failed(), "{:#?}", r.keys);
    r.keys["plan"].as_array().cloned().unwrap()
}

#[test]
fn a_guest_that_is_off_is_not_started_by_the_way() {
    let r = site().converges("pve_ha_resource", json!({"vmid": 100, "max_restart": 3}));
    let step = &plan(&r)[0];
    let text = step.to_string();
    assert!(
        text.contains("POST") && text.contains("/cluster/ha/resources\""),
        "{text}"
    );
    assert!(step.to_string().contains("\"stopped\""), "{step}");
    let mut s = site();
    s.running(100);
    let r = s.converges("pve_ha_resource", json!({"vmid": 100}));
    assert!(plan(&r)[0].to_string().contains("\"started\""));
    let r = site().converges(
        "pve_ha_resource",
        json!({"vmid": 100, "ha_state": "started"}),
    );
    assert!(plan(&r)[0].to_string().contains("HA starts it"));
}

#[test]
fn only_what_is_named_and_differs_is_sent() {
    let mut s = site();
    s.put(
        PveKey::HaResource("vm:100".into()),
        json!({"sid": "vm:100", "state": "enabled", "digest": "abc", "comment": "x"}),
    );
    // `enabled` is `started`, and the server does not list its defaults.
    let r = s.clone().converges(
        "pve_ha_resource",
        json!({"vmid": 100, "ha_state": "started", "max_restart": 1, "failback": true}),
    );
    assert_eq!(plan(&r).len(), 0);
    let r = s.converges("pve_ha_resource", json!({"vmid": 100, "max_relocate": 0}));
    let step = plan(&r)[0].to_string();
    assert!(
        step.contains("PUT")
            && step.contains("max_relocate")
            && step.contains("<digest as read>")
            && !step.contains("comment"),
        "{step}"
    );
}

#[test]
fn out_of_ha_and_then_nothing() {
    let mut s = site();
    s.put(
        PveKey::HaResource("vm:100".into()),
        json!({"sid": "vm:100", "state": "started", "digest": "abc"}),
    );
    let r = s.converges("pve_ha_resource", json!({"vmid": 100, "state": "absent"}));
    assert!(plan(&r)[0].to_string().contains("DELETE"));
    let other = s.check(
        "pve_ha_resource",
        json!({"vmid": 100, "guard_uuid": "00000000-0000-0000-0000-000000000000"}),
    );
    failure(&other, "refused");
}

#[test]
fn without_the_privilege_nothing_is_promised() {
    let mut s = site();
    s.put(
        PveKey::WhoAmI,
        json!({"user": "a@pve", "token": "t", "root_login": false}),
    );
    s.put(PveKey::Perms("/".into()), json!({"Sys.Audit": 1}));
    let msg = failure(
        &s.check("pve_ha_resource", json!({"vmid": 100})),
        "permission",
    );
    assert!(msg.contains("Sys.Console"), "{msg}");
    let mut s = site();
    s.fact(
        PveKey::HaResource("vm:100".into()),
        Fact::Unreadable("403".into()),
    );
    failure(
        &s.check("pve_ha_resource", json!({"vmid": 100})),
        "permission",
    );
}
