//! Planner tests of `vsphere_vm`, and of the stamp of `vsphere_note`.
mod vc;

use plan::{ErrorKind, Fact};
use serde_json::{Value, json};
use vc::{Site, failure, only_step, steps};
use vsphere::keys::{VcKey, VmBy};

fn site() -> Site {
    let mut s = Site::new();
    let disk = |f: &str| json!([{"key": 2000, "label": "Hard disk 1", "path": f, "data_file": f.replace(".vmdk", "-flat.vmdk"), "snapshot_parent": null}]);
    s.vm("vm-1", "web", json!({"power": "poweredOff", "disks": disk("[ds] web/web.vmdk"),
        "vmx": {"path": "[ds] web/web.vmx"}, "files": [{"name": "[ds] web/web.vmx"}, {"name": "[ds] web/web.vmdk"}, {"name": "[ds] web/web-flat.vmdk"}]}));
    s.vm(
        "vm-2",
        "other",
        json!({"disks": disk("[ds] other/other.vmdk")}),
    );
    list(&mut s);
    s
}

fn list(s: &mut Site) {
    let all = json!([s.machine("vm-1"), s.machine("vm-2")]);
    s.put(VcKey::Vms { datacenter: None }, all);
}

fn gone(extra: Value) -> Value {
    let mut a = json!({"moid": "vm-1", "state": "absent"});
    for (k, v) in extra.as_object().unwrap() {
        a[k] = v.clone();
    }
    a
}

#[test]
fn unregistered_or_deleted_and_then_nothing() {
    for (args, verb) in [
        (json!({}), "Destroy_Task"),
        (json!({"delete_from_inventory": true}), "UnregisterVM"),
    ] {
        let r = site().converges("vsphere_vm", gone(args));
        assert!(only_step(&r).to_string().contains(verb));
        assert_eq!(r.keys["vmx"], "[ds] web/web.vmx");
        assert!(r.keys["files"].to_string().contains("web-flat.vmdk"));
        assert_eq!(
            r.keys["diff"]["after"],
            Value::Null,
            "{:#?}",
            r.keys["diff"]
        );
    }
    // By name too, and one that was never there.
    let r = site().converges("vsphere_vm", json!({"name": "web", "state": "absent"}));
    assert_eq!(steps(&r).len(), 1);
    let mut s = site();
    s.absent(VcKey::Vm {
        by: VmBy::Moid("vm-9".into()),
        datacenter: None,
    });
    let r = s.converges("vsphere_vm", json!({"moid": "vm-9", "state": "absent"}));
    assert_eq!(
        (&r.keys["changed"], &r.keys["vm"]),
        (&json!(false), &Value::Null)
    );
}

#[test]
fn what_is_on_stays_unless_forced() {
    for power in ["poweredOn", "suspended"] {
        let mut s = site();
        s.edit("vm-1", |v| v["power"] = json!(power));
        list(&mut s);
        let msg = failure(&s.check("vsphere_vm", gone(json!({}))), ErrorKind::Refused);
        assert!(msg.contains("force: true"), "{msg}");
        let r = s.converges("vsphere_vm", gone(json!({"force": true})));
        let all = steps(&r);
        assert!(
            all.len() == 2
                && all[0].to_string().contains("PowerOffVM_Task")
                && all[1].to_string().contains("Destroy_Task")
        );
    }
}

#[test]
fn disks_that_others_use_are_not_deleted() {
    for (key, path) in [
        ("path", "[ds] web/web.vmdk"),
        ("snapshot_parent", "[ds] web/web.vmdk"),
    ] {
        let mut s = site();
        s.edit("vm-2", |v| v["disks"][0][key] = json!(path));
        list(&mut s);
        let msg = failure(&s.check("vsphere_vm", gone(json!({}))), ErrorKind::Refused);
        assert!(msg.contains("other (vm-2) uses [ds] web/web.vmdk"), "{msg}");
        // Out of the inventory it may go: the files stay.
        s.converges("vsphere_vm", gone(json!({"delete_from_inventory": true})));
    }
    let mut s = site();
    s.fact(
        VcKey::Vms { datacenter: None },
        Fact::Unreadable("no".into()),
    );
    failure(
        &s.check("vsphere_vm", gone(json!({}))),
        ErrorKind::Permission,
    );
}

#[test]
fn another_machine_than_was_meant_stays() {
    let mut s = site();
    let r = s.check(
        "vsphere_vm",
        gone(json!({"guard_uuid": "00000000-0000-0000-0000-000000000000"})),
    );
    failure(&r, ErrorKind::Refused);
}

#[test]
fn a_stamp_is_no_difference() {
    let note =
        |stamp: &str| json!({"moid": "vm-1", "text": "gone over; do not start", "stamp": stamp});
    let mut s = site();
    let r = s.converges("vsphere_note", note("2026-11-30"));
    assert_eq!(r.keys["note"], "gone over; do not start (2026-11-30)");
    let plan = r.keys["plan"].to_string() + &r.keys["diff"].to_string();
    assert!(
        plan.contains("<stamp>") && !plan.contains("2026-11-30"),
        "{plan}"
    );
    // Next day: the line keeps its own.
    let r = s.check("vsphere_note", note("2026-12-01"));
    assert_eq!(
        (&r.keys["changed"], &r.keys["note"]),
        (
            &json!(false),
            &json!("gone over; do not start (2026-11-30)")
        )
    );
    // Another text gets another stamp; a longer one that merely begins so is another text.
    let mut s = site();
    s.edit("vm-1", |v| {
        v["annotation"] = json!("[trueplan] gone over; do not start (a) (2026-11-30)")
    });
    let r = s.converges("vsphere_note", note("2026-12-01"));
    assert_eq!(r.keys["note"], "gone over; do not start (2026-12-01)");
}
