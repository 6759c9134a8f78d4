//! Where the server has a say in the place: Storage DRS, DRS, and its own check of a relocation.

use crate::support::{Done, Lab, VC_PASSWORD, VC_USER, refused, triple, triple_with, worlds};
use serde_json::{Value, json};

/// The demo with two datastore clusters and a cluster with DRS.
///
/// Of `Pod 1` the larger member has more room and is fuller, so that Storage DRS and a look at the free space disagree.
fn world() -> Value {
    let mut w = worlds::demo();
    let dc = &mut w["vcenter"]["datacenters"][0];
    let more = json!([
        {"name": "pod a", "capacity_gib": 100, "used_gib": 70}, {"name": "pod b", "capacity_gib": 400, "used_gib": 350},
        {"name": "off-a", "capacity_gib": 100, "used_gib": 70}, {"name": "off-b", "capacity_gib": 400, "used_gib": 350},
    ]);
    let list = dc["datastores"].as_array_mut().expect("datastores");
    list.extend(more.as_array().expect("a list").iter().cloned());
    dc["datastore_clusters"] = json!([{"name": "Pod 1", "datastores": ["pod a", "pod b"]}, {"name": "Pod off", "sdrs": false, "datastores": ["off-a", "off-b"]}]);
    let b = json!({"name": "Cluster B", "drs": true, "hosts": [{"name": "esx5.lab.example", "maintenance": true}, "esx6.lab.example"]});
    dc["clusters"].as_array_mut().expect("clusters").push(b);
    let old = json!({"name": "esx4.lab.example", "older_cpu": true});
    dc["hosts"].as_array_mut().expect("hosts").push(old);
    w
}

/// A world in which that method is denied.
fn without(method: &str) -> Value {
    let mut w = world();
    w["vcenter"]["users"] = json!([{"name": VC_USER, "password": VC_PASSWORD, "deny": [method]}]);
    w
}

fn asked(r: &Done, method: &str) -> usize {
    let notes = r.requests.iter().filter_map(|e| e["note"].as_str());
    notes.filter(|n| n.starts_with(method)).count()
}

fn unverified(r: &Done) -> String {
    r["unverified"].to_string()
}

#[test]
fn storage_drs_is_asked_and_followed() {
    let lab = Lab::start(world());
    let args = json!({"moid": "vm-101", "destination_datastore_cluster": "Pod 1"});
    let t = triple(&lab, "vsphere_relocate", args).changed();
    assert_eq!(t.apply["datastore"], "pod a", "{}", *t.apply);
    for d in t.apply["disks"].as_array().expect("disks") {
        assert_eq!(d["datastore"], "pod a");
    }
    for r in [&t.check, &t.apply] {
        assert_eq!(asked(r, "RecommendDatastores"), 1);
        assert_eq!(asked(r, "CheckRelocate_Task"), 1);
    }
    // What lies there is not asked about again.
    assert_eq!(asked(&t.again, "RecommendDatastores"), 0);
    assert_eq!(asked(&t.again, "CheckRelocate_Task"), 0);
    // One disk of its own place; the rest as recommended, on the host that is asked for.
    let args = json!({"moid": "vm-115", "destination_datastore_cluster": "Pod 1", "destination_host": "esx2.lab.example",
        "disks": [{"label": "Hard disk 2", "datastore": "esx-hdd"}]});
    let t = triple(&lab, "vsphere_relocate", args).changed();
    let stores: Vec<&str> = t.apply["disks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|d| d["datastore"].as_str())
        .collect();
    assert_eq!(
        (t.apply["datastore"].as_str(), stores),
        (Some("pod a"), vec!["pod a", "esx-hdd"])
    );
}

/// P72, V2.8.
#[test]
fn no_recommendation_has_the_servers_reason() {
    let lab = Lab::start(world());
    lab.set_vcenter(json!({"datastores": [{"name": "pod a", "used_gib": 95}]}));
    let args = json!({"moid": "vm-101", "destination_datastore_cluster": "Pod 1"});
    let msg = refused(&lab, "vsphere_relocate", args.clone(), "refused");
    assert!(
        msg.contains("vCenter recommends no datastore of datastore cluster Pod 1: Insufficient space to satisfy"),
        "{msg}"
    );
    lab.set_vcenter(json!({"datastores": [{"name": "pod a", "used_gib": 70, "maintenance": "inMaintenance"}, {"name": "pod b", "accessible": false}]}));
    let msg = refused(&lab, "vsphere_relocate", args, "refused");
    assert!(
        msg.contains("'pod a' is in maintenance mode") && msg.contains("'pod b' is not accessible"),
        "{msg}"
    );
    assert_eq!(lab.writes(), 0);
}

#[test]
fn where_storage_drs_is_off_the_room_decides() {
    let lab = Lab::start(world());
    let args = json!({"moid": "vm-101", "destination_datastore_cluster": "Pod off"});
    let t = triple(&lab, "vsphere_relocate", args).changed();
    assert_eq!(t.apply["datastore"], "off-b");
    assert!(
        t.check
            .warnings()
            .iter()
            .any(|w| w.contains("Storage DRS is off")),
        "{:?}",
        t.check.warnings()
    );
    assert_eq!(asked(&t.check, "RecommendDatastores"), 0);
    let lab = Lab::start(without("RecommendDatastores"));
    let args = json!({"moid": "vm-101", "destination_datastore_cluster": "Pod 1"});
    let t = triple(&lab, "vsphere_relocate", args).changed();
    assert_eq!(t.apply["datastore"], "pod b");
    assert!(
        unverified(&t.apply).contains("which datastore Storage DRS recommends"),
        "{}",
        *t.apply
    );
}

#[test]
fn what_only_the_server_knows_is_asked_first() {
    let lab = Lab::start(world());
    // Running, it cannot go to an older CPU, which only vCenter sees; powered off it can.
    let args = |vm: &str| json!({"moid": vm, "destination_host": "esx4.lab.example"});
    let msg = refused(&lab, "vsphere_relocate", args("vm-101"), "refused");
    assert!(
        msg.contains("vCenter's check says: The target host does not support the virtual machine's current hardware requirements"),
        "{msg}"
    );
    assert_eq!(lab.writes(), 0);
    assert_eq!(
        triple(&lab, "vsphere_relocate", args("vm-109"))
            .changed()
            .apply["running_host"],
        "esx4.lab.example"
    );
    // Where it may not be asked, the server's answer to the real thing decides.
    let lab = Lab::start(without("CheckRelocate_Task"));
    let check = lab
        .call("vsphere_relocate", args("vm-101"))
        .check(true)
        .run()
        .ok();
    assert!(
        unverified(&check).contains("whether vCenter finds anything against it"),
        "{}",
        *check
    );
    lab.call("vsphere_relocate", args("vm-101"))
        .run()
        .failed("task_failed")
        .says("hardware requirements");
}

/// In a check run the server would judge the machine as it is, not as an earlier task will leave it.
#[test]
fn a_planned_machine_is_not_judged_by_the_present() {
    let lab = Lab::start(world());
    let folder = tempfile::tempdir().expect("a folder");
    let off = json!({"moid": "vm-101", "state": "powered-off"});
    lab.call("vsphere_powerstate", off)
        .check(true)
        .ledger(folder.path())
        .run()
        .ok();
    let args = json!({"moid": "vm-101", "destination_host": "esx4.lab.example"});
    let check = lab
        .call("vsphere_relocate", args)
        .check(true)
        .ledger(folder.path())
        .run()
        .ok();
    assert!(
        check.changed() && unverified(&check).contains("an earlier task of this check run"),
        "{}",
        *check
    );
}

#[test]
fn drs_chooses_the_host() {
    let lab = Lab::start(world());
    let call = lab.call(
        "vsphere_relocate",
        json!({"moid": "vm-102", "destination_cluster": "Cluster B"}),
    );
    let t = triple_with(&lab, &call).changed();
    assert_eq!(t.apply["running_host"], "esx6.lab.example", "{}", *t.apply);
    let sent = t.apply.plan();
    assert!(
        sent.contains("ResourcePool:") && !sent.contains("HostSystem:"),
        "{sent}"
    );
}
