//! Planner tests of `vsphere_relocate`; V-numbers are those of docs/peers-vsphere.md.
mod vc;

use plan::{Await, ErrorKind, Fact, Report};
use proptest::prelude::*;
use serde_json::{Value, json};
use vc::{Site, failure, only_step};
use vsphere::keys::VcKey;

const GIB: i64 = 1 << 30;

fn disk(n: i64, store: &str, moid: &str, file: &str) -> Value {
    json!({"key": 1999 + n, "label": format!("Hard disk {n}"), "bus": "scsi", "bus_number": 0, "unit": n - 1, "path": format!("[{store}] {file}.vmdk"),
           "datastore": store, "datastore_moid": moid, "data_file": format!("[{store}] {file}-flat.vmdk"), "bytes": 10 * GIB, "mode": "persistent",
           "thin": true, "rdm": null, "sharing": null, "shared_bus": null, "snapshot_parent": null, "delta": false, "boot": n == 1})
}

fn store(moid: &str, name: &str, more: Value) -> Value {
    let mut v = json!({"moid": moid, "name": name, "datacenter": "DC0", "datacenter_moid": "datacenter-1", "pod": null, "pod_moid": null, "type": "VMFS",
        "accessible": true, "maintenance": "normal", "capacity": 1000 * GIB, "free": 500 * GIB, "multiple_hosts": true,
        "hosts": [{"moid": "host-1", "mode": "readWrite", "mounted": true, "accessible": true}, {"moid": "host-2", "mode": "readWrite", "mounted": true, "accessible": true}]});
    for (k, x) in more.as_object().unwrap() {
        v[k] = x.clone();
    }
    v
}

fn host(moid: &str, name: &str, cluster: (&str, &str), more: Value) -> Value {
    let mut v = json!({"moid": moid, "name": name, "datacenter": "DC0", "parent": format!("ClusterComputeResource:{}", cluster.0), "cluster": cluster.1, "cluster_moid": cluster.0,
        "connection": "connected", "maintenance": false, "power": "poweredOn", "datastores": [], "pool": format!("resgroup-{}", cluster.0)});
    for (k, x) in more.as_object().unwrap() {
        v[k] = x.clone();
    }
    v
}

/// vmx and two disks on local, one disk on san already; an ISO on nfs.
fn site() -> Site {
    let mut s = Site::new();
    s.vm(
        "vm-1",
        "web",
        json!({
            "disks": [disk(1, "local", "datastore-1", "web/web"), disk(2, "local", "datastore-1", "web/web_1"), disk(3, "san", "datastore-2", "web/web")],
            "vmx": {"path": "[local] web/web.vmx", "datastore": "local", "folder": "web"},
            "files": [{"name": "[local] web/web.vmx", "type": "config", "bytes": 3000}, {"name": "[local] web/web-flat.vmdk", "type": "diskExtent", "bytes": 4 * GIB},
                      {"name": "[local] web/web.nvram", "type": "nvram", "bytes": 8684}],
            "devices": [{"key": 3000, "label": "CD/DVD drive 1", "kind": "cdrom", "connected": true, "start_connected": true, "file": "[nfs] iso/x.iso"}],
            "datastores": ["datastore-1", "datastore-2", "datastore-3"],
        }),
    );
    s.put(
        VcKey::Datastores,
        json!([
            store("datastore-1", "local", json!({})),
            store("datastore-2", "san", json!({})),
            store("datastore-3", "nfs", json!({"type": "NFS"})),
            store("datastore-4", "hidden", json!({"hosts": [{"moid": "host-9", "mode": "readWrite", "mounted": true, "accessible": true}]})),
            store("datastore-5", "dead", json!({"accessible": false})),
            store("datastore-6", "closing", json!({"maintenance": "enteringMaintenance"})),
            store("datastore-7", "other", json!({"datacenter": "DC1", "datacenter_moid": "datacenter-2"})),
            store("datastore-8", "pod-a", json!({"pod": "pod", "pod_moid": "group-p1", "free": 100 * GIB})),
            store("datastore-9", "pod-b", json!({"pod": "pod", "pod_moid": "group-p1", "free": 200 * GIB})),
            store("datastore-10", "small", json!({"free": 5 * GIB})),
        ]),
    );
    s.put(
        VcKey::Datacenters,
        json!([{"moid": "datacenter-1", "name": "DC0"}, {"moid": "datacenter-2", "name": "DC1"}]),
    );
    s.put(
        VcKey::Hosts,
        json!([
            host("host-1", "esx1", ("domain-c1", "C1"), json!({})),
            host("host-2", "esx2", ("domain-c1", "C1"), json!({})),
            host(
                "host-3",
                "esx3",
                ("domain-c2", "C2"),
                json!({"maintenance": true})
            ),
            host("host-4", "esx4", ("domain-c2", "C2"), json!({})),
        ]),
    );
    s.put(
        VcKey::Clusters,
        json!([{"moid": "domain-c1", "type": "ClusterComputeResource", "name": "C1", "datacenter": "DC0", "pool": "resgroup-1", "hosts": ["host-1", "host-2"], "datastores": [], "drs": true},
               {"moid": "domain-c2", "type": "ClusterComputeResource", "name": "C2", "datacenter": "DC0", "pool": "resgroup-domain-c2", "hosts": ["host-3", "host-4"], "datastores": [], "drs": false}]),
    );
    s.put(
        VcKey::Pools,
        json!([{"moid": "resgroup-1", "name": "Resources", "parent": "ClusterComputeResource:domain-c1", "owner": "ClusterComputeResource:domain-c1", "path": "/DC0/host/C1"},
               {"moid": "resgroup-2", "name": "gold", "parent": "ResourcePool:resgroup-1", "owner": "ClusterComputeResource:domain-c1", "path": "/DC0/host/C1"},
               {"moid": "resgroup-3", "name": "gold", "parent": "ResourcePool:resgroup-domain-c2", "owner": "ClusterComputeResource:domain-c2", "path": "/DC0/host/C2"},
               {"moid": "resgroup-domain-c2", "name": "Resources", "parent": "ClusterComputeResource:domain-c2", "owner": "ClusterComputeResource:domain-c2", "path": "/DC0/host/C2"}]),
    );
    s.put(VcKey::Pods, json!([{"moid": "group-p1", "name": "pod", "datacenter": "DC0", "capacity": 2000 * GIB, "free": 300 * GIB, "datastores": ["datastore-8", "datastore-9"], "sdrs": true}]));
    s.put(VcKey::Tasks, json!([]));
    s
}

fn go(s: &mut Site, args: Value) -> Report {
    let mut all = json!({"vm_name": "web"});
    for (k, v) in args.as_object().unwrap() {
        all[k] = v.clone();
    }
    s.check("vsphere_relocate", all)
}

/// Plans, plans again, and gives the spec that is sent.
fn spec(s: &mut Site, args: Value) -> (Value, Report) {
    let mut all = json!({"vm_name": "web"});
    for (k, v) in args.as_object().unwrap() {
        all[k] = v.clone();
    }
    let r = s.converges("vsphere_relocate", all);
    let step = only_step(&r);
    assert_eq!(step["request"], "RelocateVM_Task VirtualMachine:vm-1");
    (step["params"]["spec"].clone(), r)
}

fn refused(args: Value) -> String {
    failure(&go(&mut site(), args), ErrorKind::Refused)
}

#[test]
fn v2_1_a_part_there_is_not_all_there() {
    let (s, r) = spec(&mut site(), json!({"destination_datastore": "san"}));
    assert_eq!(s, json!({"datastore": "Datastore:datastore-2"}));
    assert_eq!(
        r.keys["diff"]["after"],
        json!({"name": "web", "datastore": "san", "disks": {"Hard disk 1 (2000)": "san", "Hard disk 2 (2001)": "san", "Hard disk 3 (2002)": "san"}})
    );
    assert_eq!(r.keys["datastore"], "san");
    // Only the ISO lies on nfs.
    let (s, r) = spec(&mut site(), json!({"destination_datastore": "nfs"}));
    assert_eq!(s, json!({"datastore": "Datastore:datastore-3"}));
    let w = r.keys["warnings"].to_string();
    assert!(w.contains("CD/DVD drive 1 holds [nfs] iso/x.iso"), "{w}");
    // Everything lies on local but one disk, whatever else is touched.
    let mut there = site();
    there.edit("vm-1", |v| {
        v["disks"][2] = disk(3, "local", "datastore-1", "web/web_2")
    });
    let r = go(&mut there, json!({"destination_datastore": "local"}));
    assert_eq!(r.keys["changed"], false);
    assert_eq!(there.read.len(), 1, "names alone tell: {:?}", there.read);
    assert_eq!(r.keys["plan"], json!([]));
    // A disk whose base lies elsewhere is not there.
    there.edit("vm-1", |v| {
        v["disks"][0]["snapshot_parent"] = json!("[san] web/base.vmdk")
    });
    assert_eq!(
        go(&mut there, json!({"destination_datastore": "local"})).keys["changed"],
        true
    );
}

#[test]
fn v2_2_v2_7_names_that_do_not_exist_are_errors() {
    for (args, want) in [
        (
            json!({"destination_host": "esx1", "destination_datastore": "sam"}),
            "there is no datastore sam in datacenter DC0; did you mean san?",
        ),
        (
            json!({"destination_host": "esx11"}),
            "there is no host esx11; did you mean esx1?",
        ),
        (
            json!({"destination_cluster": "C3"}),
            "there is no cluster C3",
        ),
        (
            json!({"destination_datastore_cluster": "pots"}),
            "there is no datastore cluster pots",
        ),
        (
            json!({"destination_datastore": "san", "destination_datacenter": "DC9"}),
            "there is no datacenter DC9",
        ),
        (
            json!({"destination_datastore": "other"}),
            "there is no datastore other in datacenter DC0; there is one in DC1: give destination_datacenter",
        ),
        (
            json!({"destination_resourcepool": "silver"}),
            "there is no resource pool silver",
        ),
        (
            json!({"disks": [{"key": 2009, "datastore": "san"}]}),
            "it has no disk key 2009; it has Hard disk 1 (key 2000)",
        ),
    ] {
        let msg = failure(&go(&mut site(), args), ErrorKind::NotFound);
        assert!(msg.contains(want), "{msg}");
        assert!(msg.starts_with("unable to relocate VM web: "), "{msg}");
    }
}

#[test]
fn v2_3_v2_12_the_machine_is_found_or_not() {
    let mut s = site();
    s.absent(VcKey::Vm {
        by: vsphere::keys::VmBy::Moid("vm-77".into()),
        datacenter: None,
    });
    let r = s.check(
        "vsphere_relocate",
        json!({"moid": "vm-77", "destination_datastore": "san"}),
    );
    assert!(failure(&r, ErrorKind::NotFound).contains("VM vm-77: there is none"));
    let r = go(
        &mut s,
        json!({"destination_datastore": "san", "guard_uuid": "564d0000-0000-0000-0000-000000000002"}),
    );
    assert!(failure(&r, ErrorKind::Refused).contains("another machine"));
    for args in [
        json!({"vm_name": "a", "moid": "vm-1", "destination_host": "x"}),
        json!({"vm_name": "a"}),
        json!({"vm_name": "a", "destination_host": "x", "destination_cluster": "y"}),
        json!({"vm_name": "a", "disks": [{"datastore": "x"}]}),
    ] {
        s.args_error("vsphere_relocate", args);
    }
}

#[test]
fn v2_4_what_runs_is_joined_and_not_doubled() {
    let mut s = site();
    s.edit("vm-1", |v| v["running_tasks"] = json!([{"moid": "task-7", "state": "running", "operation": "VirtualMachine.relocate", "progress": 30, "entity": "VirtualMachine:vm-1"}]));
    let r = s.clone().converges(
        "vsphere_relocate",
        json!({"vm_name": "web", "destination_datastore": "san"}),
    );
    assert_eq!(
        r.keys["plan"],
        json!([{"request": "JOIN", "what": "task task-7 (VirtualMachine.relocate) of VM web (vm-1)"}])
    );
    assert_eq!(
        (&r.keys["changed"], &r.keys["task"], &r.keys["datastore"]),
        (&json!(true), &json!("task-7"), &json!("san"))
    );
    let r = go(
        &mut s,
        json!({"destination_datastore": "san", "wait": false}),
    );
    assert_eq!(
        (&r.keys["changed"], &r.keys["task"], &r.keys["plan"]),
        (&json!(false), &json!("task-7"), &json!([]))
    );
    // A refusal comes after the wait, alike in both worlds.
    failure(
        &go(&mut s, json!({"destination_datastore": "dead"})),
        ErrorKind::Refused,
    );
    // Anything else that runs is waited for.
    let mut s = site();
    s.edit("vm-1", |v| v["running_tasks"] = json!([{"moid": "task-8", "state": "queued", "operation": "VirtualMachine.createSnapshot"}]));
    let (_, r) = spec(&mut s, json!({"destination_datastore": "san"}));
    assert_eq!(
        r.keys["waited_for"],
        json!(["task task-8 (VirtualMachine.createSnapshot) of VM web (vm-1)"])
    );
}

#[test]
fn v2_5_v2_6_the_pool_is_kept_or_looked_for_where_it_belongs() {
    assert_eq!(
        spec(&mut site(), json!({"destination_host": "esx2"})).0,
        json!({"host": "HostSystem:host-2"})
    );
    assert_eq!(
        spec(&mut site(), json!({"destination_resourcepool": "gold"})).0,
        json!({"pool": "ResourcePool:resgroup-2"})
    );
    let both = json!({"destination_datastore": "san", "resource_pool": "gold"});
    assert_eq!(
        spec(&mut site(), both).0,
        json!({"datastore": "Datastore:datastore-2", "pool": "ResourcePool:resgroup-2"})
    );
    let r = go(
        &mut site(),
        json!({"destination_resourcepool": "Resources"}),
    );
    assert_eq!(r.keys["changed"], false);
    let mut s = site();
    see(&mut s, "host-4");
    assert_eq!(
        spec(&mut s.clone(), json!({"destination_host": "esx4"})).0,
        json!({"host": "HostSystem:host-4", "pool": "ResourcePool:resgroup-domain-c2"})
    );
    assert_eq!(
        spec(
            &mut s,
            json!({"destination_host": "esx4", "destination_resourcepool": "gold"})
        )
        .0,
        json!({"host": "HostSystem:host-4", "pool": "ResourcePool:resgroup-3"})
    );
}

fn see(s: &mut Site, host: &str) {
    let mut all = s.facts[&VcKey::Datastores.key()].known().cloned().unwrap();
    for d in all.as_array_mut().unwrap() {
        d["hosts"]
            .as_array_mut()
            .unwrap()
            .push(json!({"moid": host, "mode": "readWrite", "mounted": true, "accessible": true}));
    }
    s.put(VcKey::Datastores, all);
}

#[test]
fn v2_8_clusters() {
    assert_eq!(
        go(&mut site(), json!({"destination_cluster": "C1"})).keys["changed"],
        false
    );
    let msg = refused(json!({"destination_cluster": "C2"}));
    assert!(
        msg.contains(
            "no host of cluster C2 is connected, out of maintenance and sees all of local, san"
        ),
        "{msg}"
    );
    let mut s = site();
    see(&mut s, "host-4");
    let (sp, r) = spec(&mut s.clone(), json!({"destination_cluster": "C2"}));
    assert_eq!(
        sp,
        json!({"host": "HostSystem:host-4", "pool": "ResourcePool:resgroup-domain-c2"})
    );
    assert_eq!(r.keys["running_host"], "esx4");
    let mut c = s.facts[&VcKey::Clusters.key()].known().cloned().unwrap();
    c[1]["drs"] = json!(true);
    s.put(VcKey::Clusters, c);
    let (sp, r) = spec(&mut s, json!({"destination_cluster": "C2"}));
    assert_eq!(sp, json!({"pool": "ResourcePool:resgroup-domain-c2"}));
    assert_eq!(
        (&r.keys["diff"]["after"]["cluster"], &r.keys["running_host"]),
        (&json!("C2"), &Value::Null)
    );
}

fn recommends(home: &str, more: Value) -> Option<Fact> {
    let mut r = json!({"key": "1", "rating": 3, "reason": "best", "warning": null, "alone": true, "home": home, "disks": []});
    for (k, x) in more.as_object().unwrap() {
        r[k] = x.clone();
    }
    Some(Fact::Known(json!({"recommended": [r], "reasons": []})))
}

#[test]
fn v2_8_v2_9_datastore_clusters() {
    let args = || json!({"destination_datastore_cluster": "pod"});
    // What Storage DRS recommends is done, although the other member has more room.
    let mut s = site();
    s.placement = recommends("datastore-8", json!({"warning": "it becomes rather full"}));
    let (sp, r) = spec(&mut s, args());
    assert_eq!(sp, json!({"datastore": "Datastore:datastore-8"}));
    assert!(
        r.keys["warnings"]
            .to_string()
            .contains("it becomes rather full")
    );
    // A disk of its own place, by the recommendation and by the task.
    let mut s = site();
    s.placement = recommends(
        "datastore-8",
        json!({"disks": [{"key": 2001, "datastore": "datastore-9"}]}),
    );
    let (sp, _) = spec(
        &mut s,
        json!({"destination_datastore_cluster": "pod", "disks": [{"key": 2002, "datastore": "nfs"}]}),
    );
    assert_eq!(
        sp,
        json!({"datastore": "Datastore:datastore-8", "disk": [{"diskId": 2001, "datastore": "Datastore:datastore-9"}, {"diskId": 2002, "datastore": "Datastore:datastore-3"}]})
    );
    let asked = s.read.iter().find_map(|k| match VcKey::parse(k) {
        Some(VcKey::Placement { vm, pod, spec }) => Some(json!([
            vm,
            pod,
            serde_json::from_str::<Value>(&spec).unwrap()
        ])),
        _ => None,
    });
    assert_eq!(
        asked,
        Some(
            json!(["vm-1", "group-p1", {"disk": [{"datastore": "Datastore:datastore-3", "diskId": 2002}]}])
        )
    );
    // What lies in it stays, also where a name has a blank.
    let mut s = site();
    s.edit("vm-1", |v| {
        v["vmx"] = json!({"path": "[pod-a] web/web.vmx", "datastore": "pod-a", "folder": "web"});
        v["disks"][0] = disk(1, "pod-a", "datastore-8", "web/web");
    });
    s.placement = recommends("datastore-9", json!({}));
    let (sp, r) = spec(&mut s, args());
    assert_eq!(
        sp,
        json!({"disk": [{"diskId": 2001, "datastore": "Datastore:datastore-9"}, {"diskId": 2002, "datastore": "Datastore:datastore-9"}]})
    );
    assert_eq!(r.keys["datastore"], "pod-a");
    // All of it there: nobody is asked (this site would panic).
    let mut s = site();
    s.edit("vm-1", |v| {
        v["vmx"] = json!({"path": "[pod-a] web/web.vmx", "datastore": "pod-a", "folder": "web"});
        for n in 0..3 {
            v["disks"][n] = disk(1 + n as i64, "pod-b", "datastore-9", "web/web");
        }
    });
    assert_eq!(go(&mut s, args()).keys["changed"], false);
}

/// P72: the reason where nothing is recommended; no guess in its place.
#[test]
fn p72_no_recommendation_has_its_reason() {
    let none = |reasons: Value, recommended: Value| {
        let mut s = site();
        s.placement = Some(Fact::Known(
            json!({"recommended": recommended, "reasons": reasons}),
        ));
        failure(
            &go(&mut s, json!({"destination_datastore_cluster": "pod"})),
            ErrorKind::Refused,
        )
    };
    let msg = none(json!(["Insufficient space.", "Not seen."]), json!([]));
    assert!(
        msg.contains(
            "vCenter recommends no datastore of datastore cluster pod: Insufficient space; Not seen; make room in it"
        ),
        "{msg}"
    );
    let msg = none(json!([]), json!([]));
    assert!(msg.contains("it gives no reason"), "{msg}");
    let msg = none(
        json!([]),
        json!([{"key": "1", "rating": 5, "alone": false, "home": "datastore-8", "disks": []}]),
    );
    assert!(
        msg.contains("other machines would have to be moved first"),
        "{msg}"
    );
    let msg = none(
        json!([]),
        json!([{"key": "1", "rating": 5, "alone": true, "home": "datastore-1", "disks": []}]),
    );
    assert!(msg.contains("(datastore-1) is no datastore of it"), "{msg}");
    // Where nobody can be asked, the one with the most room, and that is said.
    let mut s = site();
    s.placement = Some(Fact::Unreadable("no permission".into()));
    let (sp, r) = spec(&mut s, json!({"destination_datastore_cluster": "pod"}));
    assert_eq!(sp, json!({"datastore": "Datastore:datastore-9"}));
    assert!(
        r.keys["warnings"]
            .to_string()
            .contains("Storage DRS cannot be asked")
            && r.keys["unverified"].to_string().contains("no permission"),
        "{:?}",
        r.keys
    );
    let mut s = site();
    let mut pods = s.facts[&VcKey::Pods.key()].known().cloned().unwrap();
    pods[0]["sdrs"] = json!(false);
    s.put(VcKey::Pods, pods);
    let (sp, r) = spec(&mut s, json!({"destination_datastore_cluster": "pod"}));
    assert_eq!(sp, json!({"datastore": "Datastore:datastore-9"}));
    assert!(
        r.keys["warnings"]
            .to_string()
            .contains("Storage DRS is off")
    );
}

#[test]
fn v2_11_the_servers_own_check_counts() {
    let mut s = site();
    s.check = Some(Fact::Known(
        json!({"errors": ["The CPU of the host is older.", "No vMotion network."], "warnings": ["A CD."]}),
    ));
    let args = || json!({"destination_datastore": "san"});
    let msg = failure(&go(&mut s, args()), ErrorKind::Refused);
    assert!(
        msg.contains("vCenter's check says: The CPU of the host is older; No vMotion network; "),
        "{msg}"
    );
    s.check = Some(Fact::Known(json!({"errors": [], "warnings": ["A CD."]})));
    let r = go(&mut s, args());
    assert!(
        r.keys["warnings"]
            .to_string()
            .contains("vCenter's check warns: A CD."),
        "{:?}",
        r.keys
    );
    let mut s = site();
    s.check = Some(Fact::Unreadable("no permission".into()));
    let r = go(&mut s, args());
    assert!(
        r.keys["changed"] == true && r.keys["unverified"].to_string().contains("no permission"),
        "{:?}",
        r.keys
    );
}

#[test]
fn v2_10_single_disks_and_formats() {
    let (sp, _) = spec(
        &mut site(),
        json!({"disks": [{"key": 2001, "datastore": "nfs"}]}),
    );
    assert_eq!(
        sp,
        json!({"disk": [{"diskId": 2001, "datastore": "Datastore:datastore-3"}]})
    );
    let (sp, r) = spec(
        &mut site(),
        json!({"destination_datastore": "nfs", "disks": [{"label": "Hard disk 3", "datastore": "san"}]}),
    );
    assert_eq!(
        sp,
        json!({"datastore": "Datastore:datastore-3", "disk": [{"diskId": 2002, "datastore": "Datastore:datastore-2"}]})
    );
    let path = |n: usize| r.keys["disks"][n]["path"].clone();
    assert_eq!(
        (path(0), path(1), path(2)),
        (
            json!("[nfs] web/web.vmdk"),
            json!("[nfs] web/web_1.vmdk"),
            json!("[san] web/web.vmdk")
        )
    );
    assert_eq!(r.keys["disks"][0]["path_before"], "[local] web/web.vmdk");
    let shown = json!([r.keys["plan"], r.keys["diff"]]).to_string();
    assert!(!shown.contains(".vmdk"), "the server names files: {shown}");
    let (sp, r) = spec(
        &mut site(),
        json!({"disks": [{"key": 2000, "datastore": "nfs"}], "disk_format": "thick"}),
    );
    assert_eq!(
        sp["disk"][0]["diskBackingInfo"],
        json!({"_type": "VirtualDiskFlatVer2BackingInfo", "fileName": "", "diskMode": "persistent", "thinProvisioned": false, "eagerlyScrub": false})
    );
    assert!(
        r.keys["warnings"]
            .to_string()
            .contains("thick has no effect on NFS")
    );
    let msg = refused(
        json!({"disks": [{"key": 2000, "datastore": "nfs"}, {"label": "Hard disk 1", "datastore": "san"}]}),
    );
    assert!(msg.contains("Hard disk 1 to two datastores"), "{msg}");
}

#[test]
fn v2_11_v2_13_what_the_server_would_refuse() {
    for (args, want) in [
        (
            json!({"destination_datastore": "dead"}),
            "datastore dead is not accessible",
        ),
        (
            json!({"destination_datastore": "closing"}),
            "datastore closing is in maintenance mode (enteringMaintenance)",
        ),
        (
            json!({"destination_datastore": "hidden"}),
            "host esx1 does not see datastore hidden",
        ),
        (
            json!({"destination_host": "esx3"}),
            "host esx3 is in maintenance mode",
        ),
        (
            json!({"destination_host": "esx4"}),
            "host esx4 does not see datastore local, san",
        ),
        (
            json!({"destination_datastore": "other", "destination_datacenter": "DC1"}),
            "datastore other is in datacenter DC1, the VM in DC0",
        ),
    ] {
        let msg = refused(args);
        assert!(msg.contains(want), "{msg}");
    }
    type Edit = fn(&mut Value);
    let edits: [(Edit, &str); 10] = [
        (|v| v["template"] = json!(true), "it is a template"),
        (
            |v| v["disks"][1]["rdm"] = json!("physical"),
            "Hard disk 2 is a physical raw device mapping",
        ),
        (
            |v| v["disks"][1]["rdm"] = json!("virtual"),
            "Hard disk 2 is a virtual raw device mapping, which NFS cannot hold",
        ),
        (
            |v| v["disks"][0]["mode"] = json!("independent_nonpersistent"),
            "Hard disk 1 is independent nonpersistent",
        ),
        (
            |v| v["disks"][0]["sharing"] = json!("multiwriter"),
            "Hard disk 1 is shared",
        ),
        (
            |v| v["fault_tolerance"] = json!("running"),
            "Fault Tolerance is on",
        ),
        (
            |v| v["tools"]["installer_mounted"] = json!(true),
            "installer is mounted",
        ),
        (
            |v| v["disabled_methods"] = json!(["RelocateVM_Task"]),
            "has disabled RelocateVM_Task",
        ),
        (
            |v| v["question"] = json!({"id": "1", "text": "disk full?"}),
            "disk full?",
        ),
        (|v| v["connection"] = json!("disconnected"), "disconnected"),
    ];
    for (edit, want) in edits {
        let mut s = site();
        s.edit("vm-1", edit);
        let msg = failure(
            &go(&mut s, json!({"destination_datastore": "nfs"})),
            ErrorKind::Refused,
        );
        assert!(msg.contains(want), "{msg}");
    }
    // What does not move is nobody's business.
    let mut s = site();
    s.edit("vm-1", |v| v["disks"][1]["rdm"] = json!("physical"));
    assert_eq!(
        go(
            &mut s,
            json!({"disks": [{"key": 2000, "datastore": "san"}]})
        )
        .keys["changed"],
        true
    );
}

#[test]
fn v2_11_space_and_snapshots() {
    // Thin, 4 GiB of 10 taken: 5 GiB free may do.
    let one = json!({"disks": [{"key": 2000, "datastore": "small"}]});
    let r = go(&mut site(), one.clone());
    let w = r.keys["warnings"].to_string();
    assert!(
        w.contains("datastore small has 5.0 GiB free, the disks have 10.0 GiB in all"),
        "{w}"
    );
    let mut thick = one.clone();
    thick["disk_format"] = json!("thick");
    let msg = refused(thick);
    assert!(
        msg.contains("has 5.0 GiB free, and the disks need at least 10.0 GiB"),
        "{msg}"
    );
    let mut s = site();
    s.edit("vm-1", |v| v["disks"][0]["thin"] = json!(false));
    failure(&go(&mut s, one), ErrorKind::Refused);
    let mut s = site();
    s.edit("vm-1", |v| {
        v["snapshots"] = json!([{"moid": "snapshot-1", "name": "before update"}])
    });
    s.edit("vm-1", |v| {
        v["disks"][0]["path"] = json!("[local] web/web-000001.vmdk")
    });
    let (_, r) = spec(&mut s, json!({"destination_datastore": "nfs"}));
    assert!(
        r.keys["warnings"]
            .to_string()
            .contains("snapshots (before update)")
    );
    assert_eq!(r.keys["disks"][0]["path"], "[nfs] web/web-000001.vmdk");
}

#[test]
fn max_running_waits_for_one_that_ends() {
    let task = |n: u32, op: &str, p: Value| json!({"moid": format!("task-{n}"), "state": "running", "operation": op, "entity": format!("VirtualMachine:vm-{n}"), "entity_name": format!("m{n}"), "progress": p});
    let mut s = site();
    s.put(
        VcKey::Tasks,
        json!([
            task(21, "VirtualMachine.relocate", json!(10)),
            task(22, "VirtualMachine.relocate", json!(70)),
            task(23, "VirtualMachine.powerOn", json!(99)),
            task(24, "VirtualMachine.relocate", Value::Null)
        ]),
    );
    let r = go(
        &mut s.clone(),
        json!({"destination_datastore": "san", "max_running": 4}),
    );
    assert!(!r.keys.contains_key("waited_for"));
    let (_, r) = spec(
        &mut s,
        json!({"destination_datastore": "san", "max_running": 2}),
    );
    assert_eq!(
        r.keys["waited_for"],
        json!([
            "task task-22 (VirtualMachine.relocate) of VM m22, since 3 relocations run and max_running is 2",
            "task task-21 (VirtualMachine.relocate) of VM m21, since 2 relocations run and max_running is 2"
        ])
    );
}

#[test]
fn a_machine_moves_without_waiting() {
    let mut s = site();
    let m = vc::make(
        "vsphere_relocate",
        json!({"vm_name": "web", "destination_datastore": "san", "wait": "no"}),
    );
    let facts = s.gather(m.as_ref());
    assert_eq!(m.plan(&facts).unwrap().steps[0].wait, Await::NoWait);
    let r = s.check_module(m.as_ref());
    assert_eq!(r.keys["diff"]["after"]["datastore"], "(not waited for)");
    let r = site().apply(
        "vsphere_relocate",
        json!({"vm_name": "web", "destination_datastore": "san", "wait": false}),
    );
    assert_eq!(
        (&r.keys["task"], &r.keys["diff"]["after"]["datastore"]),
        (&json!("task-1"), &json!("(not waited for)"))
    );
}

#[test]
fn later_tasks_of_a_check_run_see_the_new_places() {
    let mut s = site();
    go(&mut s, json!({"destination_datastore": "nfs"}));
    let vm = plan::Ledger::get(&s.ledger, &VcKey::vm("vm-1"))
        .and_then(|f| f.known().cloned())
        .unwrap();
    assert_eq!(vm["disks"][0]["data_file"], "[nfs] web/web-flat.vmdk");
    assert_eq!(
        vm["vmx"],
        json!({"path": "[nfs] web/web.vmx", "datastore": "nfs", "folder": "web"})
    );
    let files: Vec<&str> = vm["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["name"].as_str())
        .collect();
    assert_eq!(
        files,
        [
            "[nfs] web/web.vmx",
            "[nfs] web/web-flat.vmdk",
            "[nfs] web/web.nvram"
        ]
    );
    assert_eq!(vm["datastores"], json!(["datastore-3"]));
    assert_eq!(vm["disks"][0]["thin"], true);
}

#[test]
fn the_table_is_sound() {
    let d = planners::find("vsphere_relocate").unwrap();
    assert_eq!(spec::lint(d.spec), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// After its effects the next plan is empty, planning is deterministic, and what was asked for is what is foreseen.
    #[test]
    fn relocations_converge(
        on in proptest::collection::vec(0usize..4, 1..5),
        home in 0usize..4,
        to in 0usize..4,
        single in proptest::option::of((0usize..5, 0usize..4)),
        general in any::<bool>(),
        format in prop_oneof![Just("same"), Just("thin"), Just("thick")],
    ) {
        let stores = [("local", "datastore-1"), ("san", "datastore-2"), ("nfs", "datastore-3"), ("pod-a", "datastore-8")];
        let mut s = site();
        let disks: Vec<Value> = on.iter().enumerate().map(|(i, x)| disk(i as i64 + 1, stores[*x].0, stores[*x].1, &format!("web/d{i}"))).collect();
        s.edit("vm-1", |v| {
            v["disks"] = json!(disks);
            v["vmx"] = json!({"path": format!("[{}] web/web.vmx", stores[home].0), "datastore": stores[home].0, "folder": "web"});
        });
        let mut args = json!({"vm_name": "web", "disk_format": format});
        if general || single.is_none() {
            args["destination_datastore"] = json!(stores[to].0);
        }
        let single = single.map(|(d, x)| (d % on.len(), x));
        if let Some((d, x)) = single {
            args["disks"] = json!([{"key": 2000 + d, "datastore": stores[x].0}]);
        }
        let general = args.get("destination_datastore").is_some();
        let r = s.converges("vsphere_relocate", args);
        for (i, x) in on.iter().enumerate() {
            let want = match single {
                Some((d, y)) if d == i => stores[y].0,
                _ if general => stores[to].0,
                _ => stores[*x].0,
            };
            prop_assert_eq!(&r.keys["disks"][i]["datastore"], want);
        }
        prop_assert_eq!(&r.keys["datastore"], if general { stores[to].0 } else { stores[home].0 });
    }
}
