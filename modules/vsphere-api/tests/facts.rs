//! Facts of the demo estate and of large ones.
#![allow(
    clippy::print_stdout,
    reason = "figures that the reader of a test run wants"
)]

mod common;

use common::*;
use plan::{ErrorKind, Fact};
use serde_json::{Value, json};
use vsphere::keys::{VcKey, VmBy};
use vsphere::value::{list, text};

fn vm(by: VmBy) -> VcKey {
    VcKey::Vm {
        by,
        datacenter: None,
    }
}

#[test]
fn a_machine_is_the_same_by_whatever_it_is_found() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    let f = known(&mut live, vm(VmBy::Moid("vm-103".into())));
    let s = |k: &str| text(&f, k).unwrap().to_owned();
    for by in [
        VmBy::Name("db-uefi".into()),
        VmBy::Uuid(s("uuid")),
        VmBy::InstanceUuid(s("instance_uuid")),
    ] {
        for dc in [None, Some("DC1".to_owned())] {
            let key = VcKey::Vm {
                by: by.clone(),
                datacenter: dc,
            };
            assert_eq!(known(&mut live, key.clone())["moid"], "vm-103", "{key:?}");
        }
        let elsewhere = VcKey::Vm {
            by,
            datacenter: Some("DC2".into()),
        };
        assert_eq!(read(&mut live, elsewhere).unwrap(), Fact::Absent);
    }
    assert_eq!(
        (s("firmware"), s("path")),
        ("efi".into(), "/DC1/vm/Linux/Database".into())
    );
    let disks: Vec<(&str, i64, i64, &str)> = list(&f, "disks")
        .iter()
        .map(|d| {
            (
                d["bus"].as_str().unwrap(),
                d["bus_number"].as_i64().unwrap(),
                d["unit"].as_i64().unwrap(),
                d["data_file"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        disks,
        [
            ("scsi", 0, 0, "[esx-ssd] db-uefi/db-uefi-flat.vmdk"),
            ("scsi", 0, 10, "[esx-ssd] db-uefi/db-uefi_1-flat.vmdk"),
            ("scsi", 1, 0, "[esx-hdd] db-uefi/db-uefi-flat.vmdk"),
        ]
    );
}

#[test]
fn what_is_not_there_is_absent_and_two_are_an_error() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    for by in [
        VmBy::Moid("vm-9999".into()),
        VmBy::Name("nobody".into()),
        VmBy::Uuid("00000000-0000-0000-0000-000000000000".into()),
    ] {
        assert_eq!(read(&mut live, vm(by)).unwrap(), Fact::Absent);
    }
    let f = read(&mut live, vm(VmBy::Name("app01".into()))).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Refused);
    assert!(
        f.msg.contains("vm-114 in /DC1/vm/Prod") && f.msg.contains("vm-115 in /DC1/vm/Test"),
        "{}",
        f.msg
    );
    let f = read(&mut live, by_name("web01", Some("DC9"))).unwrap_err();
    assert_eq!(f.kind, ErrorKind::NotFound);
    assert!(f.msg.contains("DC1, DC2"), "{}", f.msg);
}

#[test]
fn what_may_not_be_read_is_said_so() {
    let lab = Lab::start(estate(json!({})));
    lab.set(json!({"no_permission": [{"object": "vm-101", "property": "config.annotation"}]}));
    let mut live = lab.live();
    let f = known(&mut live, vm(VmBy::Moid("vm-101".into())));
    assert_eq!(f["unreadable"], json!(["config.annotation"]));
    assert_eq!(f["name"], "web01");
}

#[test]
fn networks_are_told_apart() {
    let lab = Lab::start(estate(json!({})));
    let mut live = lab.live();
    let all = known(&mut live, VcKey::Networks { datacenter: None });
    let one = known(
        &mut live,
        VcKey::Networks {
            datacenter: Some("DC2".into()),
        },
    );
    assert_eq!(list(&all, "switches").len(), 2);
    assert_eq!(list(&one, "switches").len(), 1);
    let cause = |name: &str| {
        let n = list(&all, "networks")
            .iter()
            .find(|n| n["name"] == name)
            .unwrap_or_else(|| panic!("{name}"));
        vsphere::networks::not_translated(n).map(|(id, _)| id)
    };
    for (name, wanted) in [
        ("pg-vlan100-a", None),
        ("pg-vlan300", None),
        // Its switch is of version 6.5: no MAC policy, no crash (docs/peers-vsphere.md V1.1).
        ("pg-branch-500", None),
        ("pg-trunk", Some("trunk")),
        ("pg-pvlan-iso", Some("pvlan")),
        ("pg-untagged", Some("untagged")),
        ("nsx-segment-web", Some("nsx")),
        ("dvs-main-DVUplinks-40", Some("uplink")),
        ("nvds-segment-db", Some("opaque")),
        ("Std VLAN 400", Some("standard")),
    ] {
        assert_eq!(cause(name), wanted, "{name}");
    }
}

/// Pages of 100 are followed, and the number of calls grows by one for each further page only.
#[test]
fn calls_do_not_grow_with_objects() {
    let portgroups = |n: usize| {
        let lab = Lab::start(many(1, n));
        let mut live = lab.live();
        let r = known(&mut live, VcKey::Networks { datacenter: None });
        assert!(list(&r, "networks").len() >= n);
        drop(live);
        lab.methods().len()
    };
    let (small, large) = (portgroups(13), portgroups(200));
    println!("calls: portgroups 13 -> {small}, 200 -> {large}");
    assert!(small <= 8 && large <= small + 3, "{small} {large}");

    let lab = Lab::start(many(450, 2));
    let mut out = vec![];
    let o = vsphere_api::Options {
        properties: vec!["config.hardware.device".into(), "customValue".into()],
        gather_compute_objects: true,
        ..Default::default()
    };
    vsphere_api::inventory(lab.connection(), &o, &mut out).unwrap();
    let v: Value = serde_json::from_slice(&out).unwrap();
    let names: std::collections::BTreeSet<&str> = list(&v, "vms")
        .iter()
        .filter_map(|v| text(v, "name"))
        .collect();
    let calls = lab.methods().len();
    println!("calls: inventory 450 -> {calls}");
    assert_eq!(names.len(), 450);
    assert!(calls <= 5 + 7, "{calls}: {:?}", lab.methods());
    assert!(
        v["vms"][0]["path"]
            .as_str()
            .unwrap()
            .starts_with("/DC0/vm/f")
    );
    assert_eq!(v["vms"][0]["esxi_host"]["name"], "esx1");
    assert_eq!(lab.dump()["open_retrievals"], 0);
}

#[test]
fn the_inventory_has_the_peers_shape() {
    let lab = Lab::start(estate(json!({})));
    let get = |o: Value| -> Value {
        let mut out = vec![];
        vsphere_api::inventory(
            lab.connection(),
            &vsphere_api::Options::from_json(&o),
            &mut out,
        )
        .unwrap();
        serde_json::from_slice(&out).unwrap()
    };
    let v = get(
        json!({"properties": ["config.hardware.device", "config.firmware", "datastore"], "search_paths": ["/DC1/vm/Linux/Database", "/DC1/vm/Nowhere"]}),
    );
    assert_eq!(
        v["warnings"].as_array().unwrap().len(),
        1,
        "{}",
        v["warnings"]
    );
    let db = list(&v, "vms")
        .iter()
        .find(|v| v["name"] == "db-uefi")
        .expect("db-uefi");
    let disk = list(db, "config.hardware.device")
        .iter()
        .find(|d| d["_vimtype"] == "vim.vm.device.VirtualDisk" && d["key"] == 2000)
        .expect("disk");
    assert_eq!(disk["backing"]["datastore"], "vim.Datastore:datastore-21");
    assert_eq!(
        (
            &disk["iofilter"],
            &disk["vDiskId"],
            &disk["shares"]["_vimtype"]
        ),
        (&json!([]), &Value::Null, &json!("vim.SharesInfo"))
    );
    assert_eq!(db["datastore"][0], "'vim.Datastore:datastore-21'");
    assert_eq!(
        (
            &db["moid"],
            &db["config"]["firmware"],
            &db["summary"]["runtime"]["powerState"]
        ),
        (&json!("vm-103"), &json!("efi"), &json!("poweredOn"))
    );
    assert_eq!(db["path"], "/DC1/vm/Linux/Database");
    // What only we need is not shown.
    assert!(db.get("parent").is_none() && db.get("cluster").is_none());
    let all = get(json!({"properties": ["all"]}));
    assert_eq!(list(&all, "vms").len(), 15);
    assert!(all["vms"][0]["config"]["hardware"]["device"].is_array());
}
