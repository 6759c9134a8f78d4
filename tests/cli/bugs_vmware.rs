//! The same for VMware: what would make a migration fail or surprise is found before it starts.

use crate::support::{Lab, refused, worlds};
use serde_json::{Value, json};

fn estate() -> Lab {
    let mut w = worlds::demo();
    let vms = w["vcenter"]["vms"].as_array_mut().expect("machines");
    let disk = |extra: Value| {
        let mut d = json!({"controller": "pvscsi", "size_mib": 2});
        for (k, v) in extra.as_object().expect("an object") {
            d[k] = v.clone();
        }
        d
    };
    let mut add = |moid: &str, name: &str, disks: Vec<Value>, extra: Value| {
        let mut v = json!({"moid": moid, "name": name, "guest_id": "debian12_64Guest", "cpus": 1, "memory_mb": 512, "datastore": "esx-ssd", "power": "off",
            "disks": disks, "nics": [{"portgroup": "pg-vlan100-a"}]});
        for (k, x) in extra.as_object().expect("an object") {
            v[k] = x.clone();
        }
        vms.push(v);
    };
    add(
        "vm-201",
        "independent",
        vec![disk(json!({"mode": "independent_nonpersistent"}))],
        json!({}),
    );
    add(
        "vm-202",
        "shared-a",
        vec![
            disk(json!({})),
            disk(json!({"sharing": "multiwriter", "bus": 1, "unit": 0, "controller": "lsisas"})),
        ],
        json!({}),
    );
    add(
        "vm-203",
        "nvme",
        vec![disk(json!({"controller": "nvme"}))],
        json!({}),
    );
    add(
        "vm-204",
        "opaque",
        vec![disk(json!({}))],
        json!({"nics": [{"portgroup": "nvds-segment-db", "mac": "00:50:56:81:0a:04"}]}),
    );
    add(
        "vm-205",
        "linked",
        vec![disk(json!({"linked": true}))],
        json!({}),
    );
    add(
        "vm-206",
        "many-buses",
        vec![
            disk(json!({"controller": "ide", "bus": 0, "unit": 0})),
            disk(json!({"controller": "sata", "bus": 0, "unit": 3})),
            disk(json!({"controller": "pvscsi", "bus": 0, "unit": 10})),
            disk(json!({"controller": "pvscsi", "bus": 0, "unit": 2})),
        ],
        json!({}),
    );
    Lab::start(w)
}

fn vm(lab: &Lab, moid: &str) -> Value {
    let d = lab
        .call("vsphere_vm_info", json!({"moid": moid}))
        .run()
        .ok();
    d["vms"][0].clone()
}

fn concern(vm: &Value, id: &str) -> Option<String> {
    vm["concerns"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["id"] == id)
        .map(|c| c["severity"].as_str().unwrap_or("").to_owned())
}

#[test]
fn p81_to_p87_blockers_are_named_before_anything_moves() {
    let lab = estate();
    for (moid, id, severity) in [
        // P80, P81
        ("vm-107", "snapshots", "blocker"),
        ("vm-205", "linked_clone", "blocker"),
        // P82
        ("vm-201", "independent_nonpersistent", "blocker"),
        // P83
        ("vm-202", "shared_disk", "blocker"),
        // P85
        ("vm-108", "rdm_physical", "blocker"),
        // P87
        ("vm-104", "vtpm", "blocker"),
        ("vm-104", "secure_boot", "warning"),
        ("vm-113", "template", "blocker"),
        ("vm-111", "tools_not_running", "blocker"),
        ("vm-112", "suspended", "blocker"),
    ] {
        let v = vm(&lab, moid);
        assert_eq!(
            concern(&v, id).as_deref(),
            Some(severity),
            "{moid} {id}: {:#}",
            v["concerns"]
        );
    }
    let plain = vm(&lab, "vm-101");
    assert!(
        plain["concerns"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["severity"] != "blocker"),
        "{:#}",
        plain["concerns"]
    );
    assert_eq!(lab.writes(), 0);
}

#[test]
fn p80_p86_deltas_are_never_described_or_imported() {
    let lab = estate();
    let folder = lab.export().join("vm");
    std::fs::create_dir_all(&folder).unwrap();
    for name in [
        "vm-000002.vmdk",
        "vm-000002-delta.vmdk",
        "vm-000001-sesparse.vmdk",
    ] {
        std::fs::write(folder.join(name), vec![0; 1 << 20]).unwrap();
    }
    // VMware's own descriptor is text, and far shorter than the disk.
    std::fs::write(folder.join("vm.vmdk"), "# Disk DescriptorFile\n").unwrap();
    for name in [
        "vm-000002.vmdk",
        "vm-000002-delta.vmdk",
        "vm-000001-sesparse.vmdk",
        "vm.vmdk",
    ] {
        let args = json!({"export": lab.export(), "storage": "nfs", "vmid": 100, "disk": 0, "source": format!("vm/{name}"), "bytes": 1 << 20});
        for check in [true, false] {
            let d = lab.call("vmdk_descriptor", args.clone()).check(check).run();
            assert!(d.is_failed(), "{name}: {}", d.value);
        }
    }
    assert!(!lab.export().join("images/100").exists());
    // The way in of each disk of a machine with snapshots says that its file is a delta.
    let v = vm(&lab, "vm-107");
    assert!(
        v["disks"][0]["data_file"]
            .as_str()
            .unwrap_or("")
            .contains("-0000")
            || v["disks"][0]["parent"].is_string()
            || v["disks"][0]["delta"] == true,
        "{:#}",
        v["disks"]
    );
}

#[test]
fn p78_p84_disks_come_in_the_guests_order_with_their_bus() {
    let lab = estate();
    let v = vm(&lab, "vm-206");
    let order: Vec<String> = v["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| {
            format!(
                "{}{}:{}",
                d["bus"].as_str().unwrap_or("?"),
                d["bus_number"],
                d["unit"]
            )
        })
        .collect();
    // SCSI by unit as numbers, then SATA, then IDE.
    let buses: Vec<&str> = v["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["bus"].as_str().unwrap_or("?"))
        .collect();
    assert_eq!(buses, ["scsi", "scsi", "sata", "ide"], "{order:?}");
    let units: Vec<i64> = v["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["unit"].as_i64().unwrap_or(-1))
        .collect();
    assert_eq!(units[..2], [2, 10], "{order:?}");
    // P84: NVMe is a bus of its own, and the roles map it.
    assert_eq!(vm(&lab, "vm-203")["disks"][0]["bus"], "nvme");
}

#[test]
fn p73_p74_trunks_private_vlans_and_opaque_networks_are_never_translated_silently() {
    let lab = estate();
    let d = lab
        .call("vsphere_portgroups", json!({"datacenter": "DC1"}))
        .run()
        .ok();
    let of = |name: &str| {
        d["portgroups"]
            .as_array()
            .unwrap()
            .iter()
            .find(|p| p["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {:#}", d.value))
            .clone()
    };
    let trunk = of("pg-trunk");
    assert_eq!(trunk["vlan"]["mode"], "trunk");
    // Ranges are kept as ranges.
    assert!(
        trunk["vlan"]["ranges"].to_string().contains("300"),
        "{trunk:#}"
    );
    assert_eq!(of("pg-pvlan-iso")["vlan"]["mode"], "pvlan");
    assert_eq!(of("pg-pvlan-iso")["vlan"]["pvlan_id"], 1501);
    assert_eq!(of("nvds-segment-db")["kind"], "opaque");
    let map = d["vlan_map"].as_object().unwrap();
    assert_eq!(map.get("dvportgroup-42"), Some(&json!(100)));
    for key in [
        "dvportgroup-41",
        "dvportgroup-46",
        "dvportgroup-47",
        "dvportgroup-48",
        "dvportgroup-49",
    ] {
        assert!(!map.contains_key(key), "{key} is translated");
        assert!(
            d["not_translated"].to_string().contains(key),
            "{key} is not explained"
        );
    }
    // P74: the card is listed with the network's own id.
    let v = vm(&lab, "vm-204");
    assert_eq!(v["nics"].as_array().unwrap().len(), 1);
    assert_eq!(v["nics"][0]["kind"], "opaque", "{:#}", v["nics"]);
    assert!(v["nics"][0]["portgroup_key"].is_string());
}

/// The name that the vCenter uses stays in the description, and the guest is known by its number.
#[test]
fn p68_names_become_dns_names_and_the_old_one_is_kept() {
    let names = ["Crypt 01", "Büro-Server", "джум", "a_b", &"x".repeat(70)];
    let mut w = worlds::demo();
    let vms = w["vcenter"]["vms"].as_array_mut().expect("machines");
    for (i, name) in names.iter().enumerate() {
        vms.push(json!({"moid": format!("vm-30{i}"), "name": name, "guest_id": "debian12_64Guest", "cpus": 1, "memory_mb": 512,
            "datastore": "esx-ssd", "power": "off", "disks": [], "nics": []}));
    }
    let lab = Lab::start(w);
    for (i, (name, wanted)) in names
        .iter()
        .zip(["Crypt-01", "Buero-Server", "", "a-b", ""])
        .enumerate()
    {
        let v = vm(&lab, &format!("vm-30{i}"));
        assert_eq!(v["name"], *name);
        let dns = v["dns_name"].as_str().expect("a name");
        assert!(wanted.is_empty() || dns == wanted, "{name}: {dns}");
        assert!(pve::check::is_dns_name(dns), "{name}: {dns}");
        let args = json!({"vmid": 700 + i, "node": "pve1", "name": dns, "description": name, "create_only": ["name", "description"]});
        crate::support::triple(&lab, "pve_vm_shell", args).changed();
        let made = lab
            .guest(u32::try_from(700 + i).expect("an id"))
            .expect("the guest");
        assert_eq!(made["config"]["name"], dns);
        assert_eq!(made["config"]["description"], *name);
    }
}

#[test]
fn p69_names_with_spaces_and_brackets_are_found() {
    let lab = estate();
    let d = lab
        .call("vsphere_vm_info", json!({"name": "Büro Server 1"}))
        .run()
        .ok();
    let disk = &d["vms"][0]["disks"][0];
    assert!(
        disk["data_file"]
            .as_str()
            .unwrap()
            .starts_with("[esx-ssd] Büro Server 1/"),
        "{disk:#}"
    );
    // P72: a destination that is not there is said, not guessed.
    let m = refused(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-101", "destination_datastore": "nope"}),
        "not_found",
    );
    assert!(m.contains("nope"), "{m}");
    let m = refused(
        &lab,
        "vsphere_relocate",
        json!({"moid": "vm-101", "destination_datastore_cluster": "nope"}),
        "not_found",
    );
    assert!(m.contains("nope"), "{m}");
    // Two machines of one name are listed.
    let m = refused(
        &lab,
        "vsphere_powerstate",
        json!({"name": "app01", "state": "powered-off"}),
        "refused",
    );
    assert!(m.contains("vm-114") && m.contains("vm-115"), "{m}");
}

#[test]
fn p82_p83_p85_what_cannot_move_is_refused_before_it_starts() {
    let lab = estate();
    for (moid, word) in [
        ("vm-108", "RDM"),
        ("vm-201", "independent"),
        ("vm-113", "template"),
    ] {
        let d = lab.call(
            "vsphere_relocate",
            json!({"moid": moid, "destination_datastore": "migration-nfs"}),
        );
        let (a, b) = (d.clone().check(true).run(), d.run());
        assert!(a.is_failed() && b.is_failed());
        assert_eq!(a.msg(), b.msg());
        assert!(
            a.msg().to_lowercase().contains(&word.to_lowercase()) || a.msg().contains("raw device"),
            "{moid}: {}",
            a.msg()
        );
    }
    assert_eq!(lab.writes(), 0);
}
