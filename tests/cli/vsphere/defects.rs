//! Defects of the peers that show only from the outside: standalone hosts, slow waits, the inventory through `ansible-inventory`.
//! Numbers are those of docs/peers-vsphere.md; docs/bugs-tested-vsphere.md has all of them.

use crate::support::{Lab, VC_PASSWORD, VC_USER, worlds};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A standalone ESXi with two machines.
fn esxi() -> Lab {
    Lab::start(json!({"seed": 9, "pve": {}, "vcenter": {
        "api_type": "HostAgent", "version": "7.0.3", "power_ms": 10, "users": [{"name": VC_USER, "password": VC_PASSWORD}],
        "datacenters": [{"name": "ha-datacenter", "hosts": [{"name": "esx1.lab.example"}], "datastores": [{"name": "datastore1", "capacity_gib": 100}, {"name": "datastore2", "capacity_gib": 100}],
                         "standard_portgroups": [{"name": "VM Network", "vlan": 0}, {"name": "VLAN 20", "vlan": 20}]}],
        "vms": [
            {"name": "one", "guest_id": "debian12_64Guest", "cpus": 1, "memory_mb": 64, "datastore": "datastore1", "disks": [{"controller": "pvscsi", "size_mib": 1}], "nics": [{"portgroup": "VM Network"}]},
            {"name": "two", "guest_id": "debian12_64Guest", "cpus": 1, "memory_mb": 64, "datastore": "datastore1", "power": "off", "disks": [{"controller": "pvscsi", "size_mib": 1}], "nics": [{"portgroup": "VLAN 20"}]},
        ],
    }}))
}

/// V1.6, V4.9: the peer has nothing to say of a host, and its inventory breaks on one.
#[test]
fn a_standalone_host_is_served_as_a_vcenter_is() {
    let lab = esxi();
    let r = lab.call("vsphere_portgroups", json!({})).run().ok();
    let names: Vec<&str> = r["portgroups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|p| p["name"].as_str())
        .collect();
    assert!(
        names.contains(&"VM Network") && names.contains(&"VLAN 20"),
        "{names:?}"
    );
    assert_eq!(r["dvs_portgroup_info"], json!({}));
    // One shape for the VLAN, whatever kind it is.
    for p in r["portgroups"].as_array().into_iter().flatten() {
        for k in ["mode", "id", "ranges", "pvlan_id"] {
            assert!(p["vlan"].get(k).is_some(), "{p}");
        }
    }
    let vm = lab
        .call("vsphere_vm_info", json!({"name": "two"}))
        .run()
        .ok();
    assert_eq!(
        (&vm["vm"]["host"]["name"], &vm["vm"]["power"]),
        (&json!("esx1.lab.example"), &json!("poweredOff"))
    );
    let on = crate::support::triple(
        &lab,
        "vsphere_powerstate",
        json!({"name": "two", "state": "powered-on"}),
    )
    .changed();
    assert_eq!(on.apply["power_state"], "poweredOn");
    let noted = json!({"moid": vm["vm"]["moid"], "text": "gone to pve1"});
    let _ = crate::support::triple(&lab, "vsphere_note", noted).changed();
    // Only a vCenter moves machines: refused in check mode as well, and nothing is sent.
    let writes = lab.writes();
    let why = crate::support::refused(
        &lab,
        "vsphere_relocate",
        json!({"vm_name": "one", "destination_datastore": "datastore2"}),
        "refused",
    );
    assert!(why.contains("is a standalone host"), "{why}");
    assert_eq!(lab.writes(), writes);
    let there = json!({"vm_name": "one", "destination_datastore": "datastore1"});
    let _ = crate::support::triple(&lab, "vsphere_relocate", there).unchanged();
    let Some(bin) = ansible() else {
        return;
    };
    let (hosts, _, _) = inventory(&bin, &lab, json!({}));
    let names: Vec<&String> = hosts.as_object().expect("hosts").keys().collect();
    assert_eq!(names, ["one", "two"]);
}

/// V2.16: the peer sleeps up to 64 s between two looks.
#[test]
fn the_end_of_a_move_is_seen_soon() {
    let mut w = worlds::demo();
    w["vcenter"]["relocate_min_ms"] = json!(6000);
    let lab = Lab::start(w);
    let r = lab
        .call(
            "vsphere_relocate",
            json!({"moid": "vm-101", "destination_datastore": "migration-nfs"}),
        )
        .run()
        .ok();
    assert!(r.took > Duration::from_secs(5), "{:?}", r.took);
    assert!(r.took < Duration::from_secs(16), "{:?}", r.took);
}

/// A folder with `ansible-inventory`, of any core that is at hand.
fn ansible() -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect::<Vec<_>>());
    let known = [
        "/work/venvs/v221/bin",
        "/work/venvs/v219/bin",
        "/work/venvs/v217/bin",
        "/tmp/ansvenv/bin",
    ]
    .map(PathBuf::from);
    let found = on_path
        .into_iter()
        .flatten()
        .chain(known)
        .find(|d| d.join("ansible-inventory").is_file());
    if found.is_none() {
        println!("skipped: no ansible-inventory on PATH; pip install ansible-core");
    }
    found
}

/// A folder with the collection, and `lab.vms.yml` with these options.
fn with_plugin(lab: &Lab, more: Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("ansible_collections/trueplan/virt");
    std::fs::create_dir_all(root.join("plugins/bin")).expect("a folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for part in ["plugins/inventory", "galaxy.yml", "meta"] {
        std::os::unix::fs::symlink(here.join(part), root.join(part)).expect("a link");
    }
    std::os::unix::fs::symlink(
        env!("CARGO_BIN_EXE_trueplan"),
        root.join("plugins/bin/trueplan"),
    )
    .expect("a link");
    let (host, port) = lab.vcenter();
    let mut o = json!({"plugin": "trueplan.virt.vms", "hostname": host, "port": port, "username": VC_USER, "password": VC_PASSWORD, "validate_certs": false});
    for (k, v) in more.as_object().expect("an object") {
        o[k] = v.clone();
    }
    std::fs::write(folder.path().join("lab.vms.yml"), o.to_string()).expect("a file");
    folder
}

/// `ansible-inventory --list` with our plugin and these options and variables.
fn listed(bin: &Path, lab: &Lab, more: Value, env: &[(&str, &str)]) -> std::process::Output {
    let folder = with_plugin(lab, more);
    Command::new(bin.join("ansible-inventory"))
        .arg("-i")
        .arg(folder.path().join("lab.vms.yml"))
        .arg("--list")
        .env("ANSIBLE_COLLECTIONS_PATH", folder.path())
        .env("ANSIBLE_INVENTORY_ENABLED", "trueplan.virt.vms")
        .env("ANSIBLE_NOCOLOR", "1")
        .envs(env.iter().copied())
        .output()
        .expect("ansible-inventory runs")
}

/// Host variables, groups and standard error.
fn inventory(bin: &Path, lab: &Lab, more: Value) -> (Value, Value, String) {
    let out = listed(
        bin,
        lab,
        more,
        &[("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "true")],
    );
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{err}");
    assert!(!err.contains(VC_PASSWORD));
    let mut v: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    (v["_meta"]["hostvars"].take(), v, err)
}

/// Ansible goes on with an empty inventory, as with every plugin; the reason stands there at normal verbosity on every core, and where
/// ANSIBLE_INVENTORY_UNPARSED_FAILED is set it ends.
#[test]
fn a_wrong_password_is_said_by_the_inventory() {
    let lab = Lab::demo();
    let wrong = "wrong-password-of-the-inventory";
    let mut cores = 0;
    let known = ["/work/venvs/v217/bin", "/work/venvs/v219/bin"].map(PathBuf::from);
    let known = known
        .into_iter()
        .filter(|d| d.join("ansible-inventory").is_file());
    for bin in ansible().into_iter().chain(known) {
        cores += 1;
        let out = listed(&bin, &lab, json!({"password": wrong}), &[]);
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&out.stderr),
            String::from_utf8_lossy(&out.stdout)
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("Unable to log on to the vCenter or ESXi API at")
                && words.contains("Login failure"),
            "{}: {words}",
            bin.display()
        );
        assert!(!text.contains(wrong));
        let failing = [("ANSIBLE_INVENTORY_UNPARSED_FAILED", "true")];
        let out = listed(&bin, &lab, json!({"password": wrong}), &failing);
        assert!(!out.status.success(), "{}", bin.display());
    }
    println!("inventory: a wrong password is said by {cores} cores");
}

/// What is read again (`meta: refresh_inventory`) takes the place of what was there, in memory too.
#[test]
fn an_inventory_that_is_read_again_lets_go_of_the_old_one() {
    let Some(bin) = ansible() else {
        return;
    };
    let python = bin.join("python3");
    if !python.is_file() {
        println!("skipped: no python3 beside ansible-inventory");
        return;
    }
    let lab = Lab::demo();
    let folder = with_plugin(&lab, json!({}));
    let script = r#"
import gc, sys, weakref
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
m = InventoryManager(loader=DataLoader(), sources=[sys.argv[1]])
old = []
for n in range(3):
    old.append(weakref.ref(m.hosts["web01"]))
    m.refresh_inventory()
    gc.collect()
print(len(m.hosts), sum(r() is not None for r in old), gc.isenabled())
"#;
    let out = Command::new(python)
        .args(["-c", script])
        .arg(folder.path().join("lab.vms.yml"))
        .env("ANSIBLE_COLLECTIONS_PATH", folder.path())
        .env("ANSIBLE_INVENTORY_ENABLED", "trueplan.virt.vms")
        .output()
        .expect("python runs");
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "15 0 True\n",
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// V4.1, V4.3, V4.4, V4.6, V4.8.
#[test]
fn the_inventory_keeps_all_machines_and_says_what_is_odd() {
    let Some(bin) = ansible() else {
        return;
    };
    let lab = Lab::demo();
    lab.set_vcenter(json!({"vms": [{"moid": "vm-106", "connection": "inaccessible"}]}));
    let (hosts, groups, err) = inventory(
        &bin,
        &lab,
        json!({"search_paths": ["/DC1/vm", "/DC1/vm/Nowhere"]}),
    );
    let words = err.split_whitespace().collect::<Vec<_>>().join(" ");
    // V4.3: both of one name, each with its moid, and a warning.
    let names: Vec<&String> = hosts.as_object().expect("hosts").keys().collect();
    assert_eq!(names.len(), 15, "{names:?}");
    assert!(
        names.iter().any(|n| *n == "app01_vm-114")
            && names.iter().any(|n| *n == "app01_vm-115")
            && !names.iter().any(|n| *n == "app01"),
        "{names:?}"
    );
    assert!(words.contains("app01"), "{words}");
    // V4.6: one without a configuration is there (whatever name the server has for it), and named.
    let bare = json!({"__ansible_unsafe": "vm-106"});
    assert!(
        hosts.as_object().is_some_and(|h| h
            .values()
            .any(|v| v["moid"] == bare || v["moid"] == "vm-106")),
        "{names:?}"
    );
    assert!(
        words.contains("have no configuration") && words.contains("vm-106"),
        "{words}"
    );
    // V4.8: a search path that is not there is named.
    assert!(words.contains("/DC1/vm/Nowhere"), "{words}");
    assert!(
        groups["debian12_64Guest"]["hosts"].is_array()
            || groups["debian12_64guest"]["hosts"].is_array(),
        "{groups}"
    );
    // V4.4: `name` is a word of Ansible's own; the peer's option renames it.
    let (renamed, _, _) = inventory(&bin, &lab, json!({"rename_reserved_variables": true}));
    let web = &renamed["web01"];
    assert!(
        web.get("name").is_none() && web.get("vmware_name").is_some(),
        "{web}"
    );
    // V4.1: all properties.
    let (all, _, _) = inventory(&bin, &lab, json!({"properties": ["all"]}));
    assert_eq!(all.as_object().map(serde_json::Map::len), Some(15));
    let web = &all["web01"];
    assert!(
        web["config"]["hardware"]["device"].is_array()
            && web["layoutEx"]["file"].is_array()
            && web["guest"].is_object(),
        "{web}"
    );
}
