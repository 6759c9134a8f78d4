//! Worlds to start a lab with.

use serde_json::{Value, json};

/// Of every user of the small worlds.
pub const PASSWORD: &str = "correct-horse-battery-1";
/// Of every token.
pub const TOKEN_SECRET: &str = "1f0c9d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f";
/// The vCenter's administrator in demo-world.json.
pub const VC_USER: &str = "administrator@vsphere.local";
/// Of that administrator.
pub const VC_PASSWORD: &str = "lab-Vsphere-Admin-1";

/// Two nodes, three storages, a token of root, and an administrator whose token has no privileges of its own.
pub fn small() -> Value {
    json!({"seed": 11, "pve": {
        "nodes": [{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}],
        "network": [
            {"iface": "vmbr0", "type": "bridge", "active": 1, "bridge_vlan_aware": 1},
            {"iface": "vmbr1", "type": "bridge", "active": 1, "bridge_vlan_aware": 1},
            {"iface": "ens18", "type": "eth", "active": 1},
        ],
        "storage": [
            {"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import"},
            {"storage": "data", "type": "dir", "path": "/srv/data", "content": "images"},
            {"storage": "nfs", "type": "nfs", "export": true, "content": "images,import"},
        ],
        "users": [
            {"userid": "root@pam", "password": PASSWORD},
            {"userid": "deploy@pve", "password": PASSWORD},
            {"userid": "nobody@pve", "password": PASSWORD},
        ],
        "tokens": {
            "root@pam": [{"tokenid": "full", "privsep": 0, "secret": TOKEN_SECRET}],
            "deploy@pve": [{"tokenid": "ci", "privsep": 1, "secret": TOKEN_SECRET}],
        },
        "acl": [{"path": "/", "type": "user", "ugid": "deploy@pve", "roleid": "PVEAdmin", "propagate": 1}],
        "pools": [{"poolid": "testpool"}],
        "timing": {"task_ms": 10},
    }})
}

/// The same with these keys of the Proxmox side.
pub fn small_with(pve: Value) -> Value {
    let mut w = small();
    for (k, v) in pve.as_object().expect("an object") {
        w["pve"][k] = v.clone();
    }
    w
}

/// A stopped guest with one NIC and no disk.
pub fn guest(vmid: u32, name: &str) -> Value {
    json!({"vmid": vmid, "node": "pve1", "config": {
        "name": name, "memory": "1024", "cores": 2,
        "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1",
    }})
}

/// The small world with guest 100, `web`, on pve1.
pub fn one_guest() -> Value {
    small_with(json!({"guests": [guest(100, "web")]}))
}

/// tests/lab/demo-world.json, with quick relocations.
pub fn demo() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/demo-world.json");
    let text = std::fs::read_to_string(path).expect(path);
    let mut w: Value = serde_json::from_str(&text).expect(path);
    w["vcenter"]["relocate_min_ms"] = json!(50);
    w["vcenter"]["power_ms"] = json!(20);
    w["pve"]["timing"] = json!({"task_ms": 10});
    w
}
