//! Cases of vsphere_relocate, vsphere_powerstate, vsphere_note and vmdk_descriptor.

use super::{Case, Gen};
use crate::support::worlds;
use serde_json::{Value, json};

/// Machines of every world.
const VMS: usize = 3;
const NAMES: [&str; VMS] = ["web01", "Büro Server [1]", "db"];

/// The demo's datacenters with three generated machines.
fn world(g: &mut Gen) -> Value {
    let mut w = worlds::demo();
    w["seed"] = json!(1 + g.below(1000));
    w["vcenter"]["relocate_min_ms"] = json!(20);
    w["vcenter"]["relocate_bytes_per_s"] = json!(100_000_000_000u64);
    w["vcenter"]["power_ms"] = json!(10);
    w["vcenter"]["vms"] = (0..VMS).map(|n| machine(g, n)).collect();
    let stores = w["vcenter"]["datacenters"][0]["datastores"]
        .as_array_mut()
        .expect("datastores");
    if g.chance(4) {
        stores[1]["maintenance"] = json!("inMaintenance");
    }
    if g.chance(4) {
        stores[1]["accessible"] = json!(false);
    }
    if g.chance(4) {
        stores[2]["capacity_gib"] = json!(1);
        stores[2]["used_gib"] = json!(1);
    }
    // A datastore cluster of a roomy and a rather full member, and a cluster whose hosts DRS chooses.
    let dc = &mut w["vcenter"]["datacenters"][0];
    let full = 60 + g.below(35);
    let pod = json!([{"name": "pod a", "capacity_gib": 100, "used_gib": 60}, {"name": "pod b", "capacity_gib": 400, "used_gib": 4 * full}]);
    if let (Some(l), Some(more)) = (dc["datastores"].as_array_mut(), pod.as_array()) {
        l.extend(more.iter().cloned());
    }
    dc["datastore_clusters"] =
        json!([{"name": "Pod 1", "sdrs": g.chance(75), "datastores": ["pod a", "pod b"]}]);
    let b = json!({"name": "Cluster B", "drs": g.chance(60), "hosts": [{"name": "esx5.lab.example", "maintenance": g.chance(50)}, {"name": "esx6.lab.example", "older_cpu": g.chance(30)}]});
    if let Some(l) = dc["clusters"].as_array_mut() {
        l.push(b);
    }
    w["pve"]["guests"] = json!([]);
    w
}

fn machine(g: &mut Gen, n: usize) -> Value {
    let store = g.pick(&["esx-ssd", "esx-ssd", "esx-hdd", "migration-nfs"]);
    let mut v = json!({
        "moid": format!("vm-{}", 101 + n),
        "name": NAMES[n],
        "folder": g.pick(&["Linux", "Prod/a", "Test"]),
        "guest_id": g.pick(&["debian12_64Guest", "windows2019srv_64Guest"]),
        "cpus": 1, "memory_mb": 64 << g.below(2),
        "datastore": store,
        "host": g.pick(&["esx1.lab.example", "esx2.lab.example"]),
        "power": g.weighted(&[(65, "on"), (30, "off"), (5, "suspended")]),
        "tools": g.weighted(&[(75, "running"), (10, "not_running"), (10, "not_installed")]),
        "shutdown_ms": 10 + 140 * g.below(2),
    });
    let mut disks = vec![];
    for unit in 0..1 + g.below(3) {
        let mut d = json!({"controller": g.pick(&["pvscsi", "pvscsi", "lsisas", "sata"]), "bus": 0, "unit": unit, "size_mib": 1 + g.below(2)});
        if !disks.is_empty() {
            d["controller"] = Value::clone(
                &disks
                    .first()
                    .map_or(Value::Null, |f: &Value| f["controller"].clone()),
            );
        }
        if g.chance(20) {
            d["datastore"] = json!(g.pick(&["esx-hdd", "esx-ssd", "migration-nfs"]));
        }
        if g.chance(20) {
            d["thin"] = json!(false);
        }
        if g.chance(4) {
            d["mode"] = json!(g.pick(&["independent_persistent", "independent_nonpersistent"]));
        }
        if unit > 0 && g.chance(3) {
            d["rdm"] = json!(g.pick(&["physical", "virtual"]));
            d["controller"] = json!("lsisas");
            d["bus"] = json!(1);
        }
        disks.push(d);
    }
    v["disks"] = json!(disks);
    let cards: Vec<Value> = (0..g.below(3))
        .map(|i| json!({"portgroup": g.pick(&["pg-vlan100-a", "pg-vlan200", "VM Network"]), "mac": format!("00:50:56:81:0{n}:0{i}"), "address_type": "assigned"}))
        .collect();
    v["nics"] = json!(cards);
    if g.chance(45) {
        v["annotation"] = json!(g.pick(&[
            "Second web server.\nOwner: web team",
            "[trueplan] gone to pve1",
            "a\r\nb\r\n",
            "[trueplan] one\nx\n[trueplan] two",
            "[other:key] text\n\n",
            "  [trueplan] indented"
        ]));
    }
    if g.chance(10) && v["power"] != "suspended" {
        v["snapshots"] = json!([{"name": "before update"}, {"name": "after"}]);
    }
    if g.chance(5) && v["power"] == "off" {
        v["template"] = json!(true);
    }
    if g.chance(4) && v["power"] == "on" {
        v["question"] = json!({"text": "msg.uuid.altered: moved or copied?", "choices": ["Cancel", "I moved it"]});
    }
    if g.chance(3) {
        v["connection"] = json!(g.pick(&["disconnected", "inaccessible"]));
    }
    if g.chance(10) {
        v["cdrom"] = json!({"iso": "[esx-ssd] a.iso", "connected": false});
    }
    v
}

/// Names the machine somehow.
fn target(g: &mut Gen, by_name: &str) -> Value {
    let n = g.below(VMS);
    match g.below(20) {
        0..=12 => json!({"moid": format!("vm-{}", 101 + n)}),
        13..=18 => json!({by_name: NAMES[n]}),
        _ => json!({by_name: "nobody"}),
    }
}

pub fn relocate(g: &mut Gen) -> Case {
    let w = world(g);
    let mut a = target(g, "vm_name");
    if g.chance(75) {
        a["destination_datastore"] = json!(g.weighted(&[
            (12, "migration-nfs"),
            (10, "esx-hdd"),
            (8, "esx-ssd"),
            (1, "nowhere"),
            (1, "branch-local")
        ]));
    }
    if g.chance(35) || a["destination_datastore"].is_null() {
        a["destination_host"] = json!(g.weighted(&[
            (8, "esx2.lab.example"),
            (6, "esx1.lab.example"),
            (3, "esx3.lab.example"),
            (1, "esx9.branch.example"),
            (1, "nohost")
        ]));
    }
    if g.chance(20) {
        a["destination_resourcepool"] =
            json!(g.weighted(&[(5, "test"), (5, "production"), (1, "nopool")]));
    }
    if g.chance(20) {
        a["destination_cluster"] = json!(g.pick(&["Cluster A", "Cluster B"]));
    }
    if g.chance(25) {
        a["destination_datastore_cluster"] = json!(g.weighted(&[(8, "Pod 1"), (1, "no pod")]));
        // Both of a pair are refused; mostly only one is given.
        if g.chance(90) {
            a.as_object_mut().map(|o| o.remove("destination_datastore"));
        }
    }
    if a["destination_cluster"].is_string() && g.chance(80) {
        a.as_object_mut().map(|o| o.remove("destination_host"));
    }
    if g.chance(25) {
        let mut disks = vec![];
        for i in 0..1 + g.below(2) {
            let mut d = json!({"datastore": g.pick(&["esx-hdd", "migration-nfs", "esx-ssd"])});
            if g.chance(60) {
                d["label"] = json!(format!("Hard disk {}", i + 1));
            } else {
                d["key"] = g.int(2000 + i as i64);
            }
            disks.push(d);
        }
        a["disks"] = json!(disks);
    }
    if g.chance(30) {
        a["disk_format"] = json!(g.pick(&["same", "thin", "thick"]));
    }
    if g.chance(10) {
        a["max_running"] = g.int(4);
    }
    a["timeout"] = g.int(30);
    Case::new("vsphere_relocate", w, a)
}

pub fn power(g: &mut Gen) -> Case {
    let w = world(g);
    let mut a = target(g, "name");
    let state = g.weighted(&[
        (20, "powered-on"),
        (20, "powered-off"),
        (25, "shutdown-guest"),
        (12, "suspended"),
        (10, "restarted"),
        (8, "reboot-guest"),
    ]);
    a["state"] = json!(state);
    if g.chance(30) {
        a["force"] = g.bool();
    }
    if state == "shutdown-guest" && g.chance(40) || g.chance(3) {
        a["force_off_after"] = g.int(20);
    }
    if g.chance(30) {
        a["despite_note"] = g.bool();
    }
    if g.chance(25) {
        a["question_answers"] = json!([{"question": "msg.uuid.altered", "response": "I moved it"}]);
    }
    if g.chance(10) {
        a["scheduled_at"] = json!(g.weighted(&[
            (4, "31/12/2099 23:30"),
            (2, "31/12/2099 23:30 +01:00"),
            (1, "01/01/2020 00:00"),
            (1, "soon")
        ]));
        if g.chance(40) {
            a["scheduled_task_name"] = json!("mine");
        }
    }
    a["timeout"] = g.int(20);
    let mut c = Case::new("vsphere_powerstate", w, a);
    c.repeatable = state != "restarted" && state != "reboot-guest";
    c
}

pub fn note(g: &mut Gen) -> Case {
    let w = world(g);
    let mut a = target(g, "name");
    if g.chance(30) {
        a["state"] = json!("absent");
    }
    if a["state"].is_null() || g.chance(20) {
        a["text"] = json!(g.weighted(&[
            (5, "gone to pve1"),
            (5, "gone to pve2 as 101"),
            (2, "  spaces  "),
            (2, "[other] text"),
            (1, "two\nlines"),
            (1, ""),
            (2, "Größe ✓")
        ]));
    }
    if g.chance(40) {
        a["key"] = json!(g.weighted(&[
            (5, "trueplan"),
            (5, "other:key"),
            (2, "x.1"),
            (1, "Bad Key")
        ]));
    }
    let mut c = Case::new("vsphere_note", w, a);
    if g.chance(20) {
        c.before
            .push(("vsphere_note", json!({"moid": "vm-101", "text": "earlier"})));
    }
    c
}

pub fn descriptor(g: &mut Gen) -> Case {
    let mut w = worlds::small();
    w["pve"]["storage"] =
        json!([{"storage": "nfs", "type": "nfs", "export": true, "content": "images"}]);
    let names = [
        "app01/app01-flat.vmdk",
        "My VM [1]/My VM-flat.vmdk",
        "Büro/Büro_1-flat.vmdk",
        "app01/app01_2-flat.vmdk",
    ];
    let source = g.pick(&names);
    let sectors = 1 + g.below(4000);
    let bytes = 512 * sectors as i64;
    let disk = g.below(3);
    let mut a = json!({"export": "EXPORT", "vmid": g.int(100), "disk": g.int(disk as i64)});
    if g.chance(60) {
        a["storage"] = json!("nfs");
    }
    let absent = g.chance(20);
    if absent {
        a["state"] = json!("absent");
    }
    if !absent || g.chance(30) {
        a["source"] = json!(match g.below(20) {
            0 => "app01/none-flat.vmdk",
            1 => "../outside-flat.vmdk",
            2 => "app01/app01-000001-delta.vmdk",
            _ => source,
        });
        let n = match g.below(12) {
            0 => bytes + 512,
            1 => bytes + 1,
            _ => bytes,
        };
        a["bytes"] = g.int(n);
    }
    if g.chance(30) {
        a["key"] = g.int(2000);
    }
    if g.chance(10) {
        a["source_pending"] = g.spell(false);
    }
    let mut c = Case::new("vmdk_descriptor", w, a);
    c.files.push(("app01/app01-000001-delta.vmdk".into(), 512));
    for n in names {
        if n == source || g.chance(50) {
            c.files.push((n.to_owned(), bytes as usize));
        }
    }
    if g.chance(10) {
        // Somebody else's file in its place.
        c.files.push((format!("images/100/disk{disk}.vmdk"), 700));
    }
    if g.chance(40) {
        let d = if g.chance(70) { disk } else { 7 };
        let other = g.pick(&names);
        c.before.push((
            "vmdk_descriptor",
            json!({"export": "EXPORT", "vmid": 100, "disk": d, "source": other, "bytes": bytes}),
        ));
    }
    c
}

/// Cases of vsphere_vm: what is removed may be on, in use by another, busy, or not there.
pub fn removal(g: &mut Gen) -> Case {
    let mut w = world(g);
    // Half of them are ready to go; the rest is as for the other modules.
    if g.chance(50) {
        for v in w["vcenter"]["vms"].as_array_mut().expect("machines") {
            v["power"] = json!("off");
            v.as_object_mut().expect("an object").remove("question");
        }
    }
    // Somebody else's disk is the first one's.
    if g.chance(15) {
        let first = &w["vcenter"]["vms"][0];
        let store = first["disks"][0]
            .get("datastore")
            .unwrap_or(&first["datastore"])
            .clone();
        let file = format!("{0}/{0}.vmdk", NAMES[0]);
        let disks = w["vcenter"]["vms"][2]["disks"].as_array_mut();
        disks
            .expect("disks")
            .push(json!({"controller": "sata", "bus": 1, "unit": 0, "size_mib": 1, "datastore": store, "file": file}));
    }
    let mut a = target(g, "name");
    a["state"] = json!("absent");
    if g.chance(50) {
        a["delete_from_inventory"] = g.bool();
    }
    if g.chance(30) {
        a["force"] = g.bool();
    }
    let mut c = Case::new("vsphere_vm", w, a);
    if g.chance(10) {
        c.before.push((
            "vsphere_vm",
            json!({"moid": "vm-101", "state": "absent", "delete_from_inventory": true, "force": true}),
        ));
    }
    c
}
