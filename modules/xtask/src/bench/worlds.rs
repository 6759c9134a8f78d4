//! Worlds for the benchmarks: as many guests, machines and portgroups as asked for, without disks that take room.

use serde_json::{Value, json};

/// Token of root@pam on the Proxmox side, and the vCenter's user: both sides of a comparison sign in the same way.
pub const TOKEN: &str = "b2f6f2a4-0d53-4c1b-9c55-5f7c7b1e9a10";
/// Password of [`VC_USER`].
pub const VC_PASSWORD: &str = "bench-Vsphere-1";
/// Who signs in to the vCenter.
pub const VC_USER: &str = "administrator@vsphere.local";
/// The first guest's vmid; guests that a benchmark creates lie far above.
pub const FIRST: usize = 1000;

/// A cluster of two nodes with that many guests, two NICs each.
pub fn pve(guests: usize) -> Value {
    let guests: Vec<Value> = (0..guests)
        .map(|i| {
            let mut config = json!({
                "name": format!("guest{i}"), "cores": 2, "sockets": 1, "memory": "2048", "ostype": "l26", "scsihw": "virtio-scsi-single",
                "net0": format!("virtio=BC:24:11:00:{:02X}:{:02X},bridge=vmbr0,firewall=1,tag=20", i / 256, i % 256),
                "net1": format!("virtio=BC:24:11:01:{:02X}:{:02X},bridge=vmbr0", i / 256, i % 256),
            });
            // The first two have a disk: one is ours, one the peer's.
            if i < 2 {
                config["scsi0"] = json!(format!("data:{0}/vm-{0}-disk-0.raw,cache=none,discard=on,size=64M,ssd=1", FIRST + i));
            }
            json!({"vmid": FIRST + i, "node": if i < 2 || i % 2 == 0 { "pve1" } else { "pve2" }, "name": format!("guest{i}"), "status": "stopped", "config": config})
        })
        .collect();
    let disk = |i: usize| json!({"volid": format!("data:{0}/vm-{0}-disk-0.raw", FIRST + i), "size": 64 << 20});
    let disks: Vec<Value> = (0..guests.len().min(2)).map(disk).collect();
    json!({
        "nodes": [{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}],
        "network": [{"iface": "vmbr0", "type": "bridge", "active": 1, "bridge_vlan_aware": 1}],
        "storage": [{"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images,iso,import"},
                    {"storage": "data", "type": "nfs", "content": "images", "shared": 1}],
        "content": {"data": disks},
        "users": [{"userid": "root@pam", "password": "bench-Pve-1", "enable": 1}],
        "tokens": {"root@pam": [{"tokenid": "bench", "secret": TOKEN, "privsep": 0}]},
        "guests": guests,
        "sdn": {"zones": [{"zone": "bench", "type": "vlan", "bridge": "vmbr0"}], "vnets": [{"vnet": "v20", "zone": "bench", "tag": 20, "alias": "web"}]},
        "timing": {"task_ms": 20},
    })
}

/// A vCenter with that many machines of two disks and two NICs in one datacenter, and in two more 13 and 200 portgroups.
pub fn vcenter(machines: usize) -> Value {
    let portgroups = |n: usize| -> Vec<Value> {
        (0..n)
            .map(|i| json!({"name": format!("pg-{n}-{i}"), "vlan": i + 1}))
            .collect()
    };
    let datacenter = |name: &str, n: usize| {
        json!({"name": name, "clusters": [{"name": format!("{name}-cluster"), "hosts": [format!("{name}-esx1"), format!("{name}-esx2")]}],
               "datastores": [{"name": format!("{name}-ds"), "capacity_gib": 100_000}, {"name": format!("{name}-ds2"), "capacity_gib": 100_000}],
               "switches": [{"name": format!("{name}-dvs"), "version": "7.0.3", "portgroups": portgroups(n)}]})
    };
    let vms: Vec<Value> = (0..machines)
        .map(|i| {
            json!({"name": format!("vm-{i:04}"), "datacenter": "DC", "guest_id": "debian12_64Guest", "cpus": 2, "memory_mb": 2048, "datastore": "DC-ds",
                   "folder": format!("f{}", i % 7), "disks": [{"controller": "pvscsi", "size_mib": 1}, {"controller": "pvscsi", "size_mib": 1}],
                   "nics": [{"portgroup": "pg-3-0"}, {"portgroup": "pg-3-1"}]})
        })
        .collect();
    json!({
        "version": "8.0.3", "files": false, "users": [{"name": VC_USER, "password": VC_PASSWORD}],
        "datacenters": [datacenter("DC", 3), datacenter("DC13", 13), datacenter("DC200", 200)],
        "vms": vms,
    })
}

/// Both sides.
pub fn world(guests: usize, machines: usize) -> Value {
    json!({"seed": 1, "pve": pve(guests), "vcenter": vcenter(machines)})
}
