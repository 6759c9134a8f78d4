//! What the pages of the modules say of privileges: exactly these, on exactly these paths, are enough.

use crate::support::{Lab, TOKEN_SECRET, triple_with, worlds};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What stands in `C(...)`.
fn code(text: &str) -> Vec<&str> {
    text.split("C(")
        .skip(1)
        .filter_map(|t| t.split(')').next())
        .collect()
}

/// The paths of a row, in the world of this test; an option stands for its value.
fn paths(on: &str, args: &Value) -> Vec<String> {
    let named = code(on).into_iter().filter(|p| p.starts_with('/'));
    let id = args["vmid"].as_str().unwrap_or("100");
    // The copy is a guest too.
    let ids = [id, args["newid"].as_str().unwrap_or(id)];
    let mut found: Vec<String> = named
        .flat_map(|p| ids.map(|i| (p, i)))
        .flat_map(|(p, i)| {
            let p = p
                .replace("TARGET_VMID", "101")
                .replace("VMID", i)
                .replace("SOURCE", id)
                .replace("OWNER", "101")
                .replace("BRIDGE", "vmbr1")
                .replace("ZONE", "zone1")
                .replace("VNET", "v100")
                .replace("NODE", "pve1")
                .replace("POOL", "testpool");
            ["local", "data", "nfs"]
                .iter()
                .map(|s| p.replace("STORAGE", s))
                .collect::<BTreeSet<_>>()
        })
        .collect();
    if on.contains("O(path)") {
        found.push(args["path"].as_str().expect("a path").to_owned());
    }
    found
}

/// The world with a token that has the privileges of these modules' pages, and of several alternatives the first.
fn world(modules: &[&str], args: &Value) -> Value {
    let mut has: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for m in modules {
        let spec = planners::find(m).expect("a module").spec;
        for (on, privileges, _) in spec.privileges {
            let first = privileges.split(" or ").next().unwrap_or_default();
            for path in paths(on, args) {
                let all = has.entry(path).or_default();
                all.extend(code(first).into_iter().map(str::to_owned));
            }
        }
    }
    let mut w = worlds::one_guest();
    // The deepest path with a role replaces what it inherits.
    let above = |path: &str| -> BTreeSet<String> {
        let over = has
            .iter()
            .filter(|(p, _)| *p == "/" || path == p.as_str() || path.starts_with(&format!("{p}/")));
        over.flat_map(|(_, v)| v.clone()).collect()
    };
    let acl = w["pve"]["acl"].as_array_mut().expect("a list");
    acl.clear();
    acl.push(json!({"path": "/", "type": "user", "ugid": "deploy@pve", "roleid": "Administrator", "propagate": 1}));
    let mut roles = json!({});
    for (n, path) in has.keys().enumerate() {
        let role = format!("R{n}");
        acl.push(json!({"path": path, "type": "token", "ugid": "deploy@pve!ci", "roleid": role, "propagate": 1}));
        roles[role] = json!(above(path));
    }
    w["pve"]["roles"] = roles;
    let mut other = worlds::guest(101, "app");
    other["config"]["net0"] = json!("virtio=BC:24:11:00:00:02,bridge=vmbr1");
    let guests = w["pve"]["guests"].as_array_mut().expect("a list");
    guests.push(other);
    guests[0]["config"]["scsi0"] = json!("local:100/vm-100-disk-0.raw,size=2M");
    guests[0]["config"]["net0"] = json!("virtio=BC:24:11:00:00:01,bridge=vmbr1");
    w
}

/// Check, apply and again, with nothing unverified.
fn enough(module: &'static str, args: Value) {
    let mut given = args.clone();
    // Paths need text, and an option that is an id takes it too.
    if let Some(v) = args["vmid"].as_u64() {
        given["vmid"] = json!(v.to_string());
    }
    let lab = Lab::start(world(&[module], &given));
    for (k, v) in [
        ("api_host", json!(lab.pve())),
        ("ca_path", json!(lab.ca())),
        ("api_token_id", json!("deploy@pve!ci")),
        ("api_token_secret", json!(TOKEN_SECRET)),
    ] {
        given[k] = v;
    }
    let images = lab.storage("local").join("images/100");
    std::fs::create_dir_all(&images).expect("a folder");
    std::fs::write(images.join("vm-100-disk-0.raw"), vec![0; 2 << 20]).expect("an image");
    if module == "pve_vnet" {
        let zone = json!({"zone": "zone1", "type": "vlan", "bridge": "vmbr1"});
        lab.call("pve_zone", zone).run().ok();
    }
    let t = triple_with(&lab, &lab.bare(module, given));
    let reads = module.ends_with("_info");
    for d in [&t.check, &t.apply] {
        if d.is_failed() || d["unverified"].is_array() || d.changed() == reads {
            d.fail("with the privileges of its page it is not done, or not verified");
        }
    }
}

#[test]
fn the_privileges_of_a_page_are_enough() {
    enough(
        "pve_nic",
        json!({"vmid": 100, "interface": "net1", "bridge": "vmbr1", "tag": 7}),
    );
    enough(
        "pve_vm_shell",
        json!({"vmid": 120, "name": "new", "node": "pve1", "cores": 2, "memory": 512, "onboot": true, "startup": "order=3",
            "tags": ["a"], "nameservers": ["192.0.2.1"], "scsihw": "virtio-scsi-single", "pool": "testpool",
            "net": {"net0": "virtio,bridge=vmbr1"}, "scsi": {"scsi0": "local:1"}, "boot": "order=scsi0"}),
    );
    enough("pve_vm_shell", json!({"vmid": 101, "state": "started"}));
    enough("pve_vm_shell", json!({"vmid": 101, "state": "absent"}));
    enough(
        "pve_vm_shell",
        json!({"vmid": 101, "clone": "app", "newid": "140", "name": "copy"}),
    );
    enough(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi1", "storage": "data", "size": "1"}),
    );
    enough(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_storage": "data"}),
    );
    enough(
        "pve_disk_import",
        json!({"vmid": 100, "disk": "scsi0", "state": "moved", "target_vmid": 101}),
    );
    enough("pve_ha_resource", json!({"vmid": 100}));
    enough(
        "pve_zone",
        json!({"zone": "zone1", "type": "vlan", "bridge": "vmbr1"}),
    );
    enough(
        "pve_vnet",
        json!({"vnet": "v100", "zone": "zone1", "tag": 100}),
    );
    enough(
        "pve_acl",
        json!({"path": "/vms/100", "type": "user", "ugid": "nobody@pve", "roleid": "PVEVMUser"}),
    );
    enough(
        "pve_pool_member",
        json!({"poolid": "testpool", "members": [{"vm": 100}]}),
    );
    enough(
        "pve_vm_info",
        json!({"vmid": 100, "paths": true, "capacity": true, "history": true}),
    );
    enough("pve_user_info", json!({}));
}
