//! How many SOAP calls a run takes, sign-in and sign-out included, as the lab's log counts them.

use crate::support::lab::short;
use crate::support::{Lab, VC_PASSWORD, VC_USER};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What a server may send in one page at most (docs/vsphere-facts.md section 2).
const PAGE: usize = 100;

/// One datacenter with that many machines and portgroups, without files.
fn many(vms: usize, portgroups: usize) -> Value {
    let pgs: Vec<Value> = (0..portgroups)
        .map(|i| json!({"name": format!("pg-{i}"), "vlan": i + 1}))
        .collect();
    let vms: Vec<Value> = (0..vms)
        .map(|i| {
            json!({"name": format!("vm-{i:04}"), "guest_id": "debian12_64Guest", "cpus": 2, "memory_mb": 512, "datastore": "ds",
                   "folder": format!("f{}", i % 7), "disks": [{"controller": "pvscsi", "size_mib": 1}], "nics": [{"portgroup": "pg-0"}]})
        })
        .collect();
    json!({"seed": 3, "pve": {}, "vcenter": {
        "version": "8.0.3", "files": false, "users": [{"name": VC_USER, "password": VC_PASSWORD}],
        "datacenters": [{"name": "DC0", "hosts": [{"name": "esx1"}], "datastores": [{"name": "ds", "capacity_gib": 100}],
                         "switches": [{"name": "dvs", "version": "7.0.3", "portgroups": pgs}]}],
        "vms": vms,
    }})
}

#[test]
fn portgroups_take_the_same_calls_however_many_there_are() {
    let count = |n: usize| {
        let lab = Lab::start(many(1, n));
        let r = lab.call("vsphere_portgroups", json!({})).run().ok();
        let listed = r["portgroups"].as_array().expect("a list").len();
        assert!(listed >= n, "{listed} of {n}");
        // Portgroups, their switch, the host, folders and datacenter come in the same pages.
        let objects = lab.world()["vcenter"]["networks"]
            .as_array()
            .map_or(n, Vec::len)
            + 8;
        (r.requests.len(), objects.div_ceil(PAGE) - 1)
    };
    let ((small, p), (large, q)) = (count(13), count(200));
    println!("calls: portgroups 13 -> {small}, 200 -> {large}");
    assert!(small <= 8 + p, "{small}");
    assert_eq!(
        large - small,
        q - p,
        "one more for each further page, and no other"
    );
}

#[test]
fn an_inventory_takes_one_call_a_page() {
    let n = 2000;
    let lab = Lab::start(many(n, 2));
    let (host, port) = lab.vcenter();
    let options = json!({"hostname": host, "port": port, "username": VC_USER, "password": VC_PASSWORD, "ca_path": lab.ca(), "validate_certs": true,
        "properties": ["name", "config.hardware.device"], "gather_path": true, "gather_compute_objects": true, "search_paths": []});
    let mut child = Command::new(env!("CARGO_BIN_EXE_trueplan"))
        .arg("inventory")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    child
        .stdin
        .take()
        .expect("stdin")
        .write_all(options.to_string().as_bytes())
        .expect("written");
    let out = child.wait_with_output().expect("it ends");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let v: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let vms = v["vms"].as_array().expect("machines");
    let unique: std::collections::BTreeSet<&str> =
        vms.iter().filter_map(|v| v["moid"].as_str()).collect();
    assert_eq!((vms.len(), unique.len()), (n, n));
    assert!(
        vms.iter()
            .all(|v| v["config"]["hardware"]["device"].is_array()
                && v["esxi_host"]["name"] == "esx1")
    );
    let calls = lab.log().len();
    println!("calls: inventory {n} -> {calls}");
    assert!(
        calls <= n.div_ceil(PAGE) + 8,
        "{calls}: {:?}",
        lab.requests_from(0)
    );
}

/// A run on one machine by moid asks for that machine and its host, and for nothing else of the estate.
#[test]
fn one_machine_by_moid_takes_five_calls() {
    let lab = Lab::demo();
    let mut lines = vec![];
    for (module, args, most) in [
        (
            "vsphere_powerstate",
            json!({"moid": "vm-101", "state": "powered-on"}),
            5,
        ),
        (
            "vsphere_vm_info",
            json!({"moid": "vm-101", "concerns": false}),
            5,
        ),
        (
            "vsphere_relocate",
            json!({"moid": "vm-101", "destination_datastore": "esx-ssd"}),
            5,
        ),
        (
            "vsphere_note",
            json!({"moid": "vm-101", "state": "absent"}),
            5,
        ),
        (
            "vsphere_powerstate",
            json!({"uuid": lab.world()["vcenter"]["vms"][0]["uuid"], "state": "powered-on"}),
            6,
        ),
    ] {
        let r = lab.call(module, args).run().ok();
        assert!(!r.changed(), "{}", *r);
        let all: Vec<String> = r.requests.iter().map(short).collect();
        lines.push(format!("calls: {module} unchanged -> {}", all.len()));
        assert!(all.len() <= most, "{module}: {all:#?}");
    }
    println!("{}", lines.join("\n"));
}
