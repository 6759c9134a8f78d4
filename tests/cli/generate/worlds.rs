//! Generated estates of the Proxmox side.

use super::Gen;
use crate::support::worlds;
use serde_json::{Map, Value, json};

const MIB: u64 = 1 << 20;
pub const MODELS: [&str; 4] = ["virtio", "e1000", "e1000e", "vmxnet3"];
/// Guests that every world has.
pub const GUESTS: [u32; 3] = [100, 101, 102];

/// Two nodes, storages of four kinds, three guests, perhaps a container, vnets and somebody's unfinished changes.
pub fn cluster(g: &mut Gen) -> Value {
    let mut content: Map<String, Value> = Map::new();
    let mut add = |key: String, file: Value| {
        let list = content.entry(key).or_insert_with(|| json!([]));
        list.as_array_mut().expect("a list").push(file);
    };
    for node in ["local", "local@pve2"] {
        add(
            node.into(),
            json!({"volid": "local:iso/test.iso", "size": 300 * 1024}),
        );
        add(
            node.into(),
            json!({"volid": "local:import/app.qcow2", "virtual_size": 3 * MIB}),
        );
    }
    add(
        "nfs".into(),
        json!({"volid": "nfs:import/app.raw", "size": 2 * MIB, "random": true}),
    );
    add(
        "nfs".into(),
        json!({"volid": "nfs:900/vm-900-disk-0.raw", "size": 2 * MIB, "random": true}),
    );
    let mut guests = vec![];
    for (i, vmid) in GUESTS.into_iter().enumerate() {
        let node = if g.chance(80) { "pve1" } else { "pve2" };
        let (guest, files) = guest(g, vmid, node, ["web", "db", "app"][i]);
        for (storage, file) in files {
            let shared = storage == "nfs";
            add(
                if shared || node == "pve1" {
                    storage
                } else {
                    format!("{storage}@{node}")
                },
                file,
            );
        }
        guests.push(guest);
    }
    if g.chance(30) {
        guests.push(json!({"vmid": 110, "node": "pve1", "type": "lxc", "config": {"hostname": "ct", "memory": "512"}}));
    }
    let mut world = worlds::small_with(json!({
        "guests": guests,
        "content": content,
        "sdn": {
            "zones": [{"zone": "zv", "type": "vlan", "bridge": "vmbr0"}, {"zone": "zs", "type": "simple"}],
            "vnets": [{"vnet": "v10", "zone": "zv", "tag": 10}, {"vnet": "v20", "zone": "zv", "tag": 20, "alias": "Office"}, {"vnet": "vs", "zone": "zs"}],
        },
        "timing": {"task_ms": 5, "kinds": {"hotunplug": 30}},
    }));
    world["seed"] = json!(1 + g.below(1000));
    let pve = &mut world["pve"];
    let storage = pve["storage"].as_array_mut().expect("storages");
    storage.push(json!({"storage": "lvm", "type": "lvmthin", "content": "images"}));
    if g.chance(5) {
        storage[1]["disable"] = json!(1);
    }
    if g.chance(5) {
        storage[1]["nodes"] = json!("pve2");
    }
    if g.chance(3) {
        pve["nodes"][1]["status"] = json!("offline");
    }
    if g.chance(5) {
        pve["ha"] = json!({"vm:101": {"state": "started"}});
    }
    for user in ["deploy@pve", "deploy@pve!ci"] {
        let kind = if user.contains('!') { "token" } else { "user" };
        let roles: &[&str] = if kind == "user" {
            &["PVEAdmin"]
        } else {
            &[
                "PVEVMAdmin",
                "PVEVMUser",
                "PVEAuditor",
                "PVEDatastoreUser",
                "PVESDNUser",
                "PVESDNAdmin",
                "PVEPoolUser",
            ]
        };
        for _ in 0..1 + g.below(3) {
            let path = g.pick(&[
                "/",
                "/vms",
                "/vms/100",
                "/storage",
                "/storage/local",
                "/sdn",
                "/sdn/zones/localnetwork",
                "/nodes",
            ]);
            let path = if kind == "user" { "/" } else { path };
            let role = g.pick(roles);
            let list = pve["acl"].as_array_mut().expect("acl");
            list.push(
                json!({"path": path, "type": kind, "ugid": user, "roleid": role, "propagate": 1}),
            );
        }
    }
    world
}

/// Who signs in; mostly root.
pub fn login(g: &mut Gen) -> &'static str {
    g.weighted(&[(82, "root"), (13, "deploy"), (5, "token")])
}

/// A network card's text.
pub fn card(g: &mut Gen, vmid: u32, n: usize) -> String {
    let model = g.pick(&MODELS);
    let mut s = format!("{model}=BC:24:11:0{}:{:02X}:{n:02X}", vmid % 10, g.below(3));
    if g.chance(95) {
        s += &format!(
            ",bridge={}",
            g.pick(&["vmbr0", "vmbr0", "vmbr1", "v10", "vs"])
        );
    }
    for (k, v) in [
        ("firewall", "1"),
        ("link_down", "1"),
        ("rate", "12.5"),
        ("tag", "7"),
        ("trunks", "10-12;20"),
    ] {
        if g.chance(15) {
            s += &format!(",{k}={v}");
        }
    }
    if model == "virtio" && g.chance(20) {
        s += g.pick(&[",mtu=1400", ",mtu=1", ",queues=2"]);
    }
    s
}

/// A guest and the files that it needs: storage, file.
fn guest(g: &mut Gen, vmid: u32, node: &str, name: &str) -> (Value, Vec<(String, Value)>) {
    let mut c: Map<String, Value> = Map::new();
    let mut files = vec![];
    let running = g.chance(35);
    c.insert("name".into(), json!(name));
    c.insert("memory".into(), json!(["512", "1024", "2048"][g.below(3)]));
    for (k, vs, p) in [
        ("cores", &["1", "2", "4"][..], 70),
        ("sockets", &["1", "2"], 25),
        (
            "scsihw",
            &["virtio-scsi-single", "virtio-scsi-pci", "lsi"],
            80,
        ),
        ("ostype", &["l26", "win11", "other"], 60),
        ("agent", &["1", "enabled=1,fstrim_cloned_disks=1", "0"], 40),
        ("tags", &["prod", "blue;prod", "a;b;c"], 30),
        ("description", &["A machine.", "first%0Asecond", "Büro"], 30),
        ("onboot", &["1", "0"], 30),
        ("balloon", &["0", "256"], 15),
        ("cpu", &["host", "x86-64-v2-AES", "kvm64,flags=+aes"], 30),
        ("hotplug", &["network,disk,usb", "disk", "1", "0"], 25),
        ("boot", &["order=net0", "order=scsi0;net0"], 20),
        ("numa", &["0", "1"], 20),
        ("vga", &["std", "serial0", "qxl,memory=32"], 10),
        ("machine", &["q35", "pc-q35-9.0", "pc"], 20),
        ("startup", &["order=2,up=10"], 10),
        ("protection", &["1"], 5),
        (
            "smbios1",
            &["uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0001"],
            30,
        ),
        ("ciuser", &["admin"], 8),
        ("ipconfig0", &["ip=dhcp", "ip=192.0.2.9/24,gw=192.0.2.1"], 8),
        ("nameserver", &["192.0.2.53", "192.0.2.53 192.0.2.54"], 8),
        ("serial0", &["socket"], 10),
        ("keyboard", &["de"], 5),
    ] {
        if g.chance(p) {
            c.insert(k.into(), json!(vs[g.below(vs.len())]));
        }
    }
    for n in 0..g.below(3) {
        c.insert(format!("net{n}"), json!(card(g, vmid, n)));
    }
    for n in 0..g.below(4) {
        let storage = g.pick(&["local", "local", "data", "nfs", "lvm"]);
        let bus = g.pick(&["scsi", "scsi", "virtio", "sata", "ide"]);
        let mib = [2, 4, 8][g.below(3)];
        let volid = if storage == "lvm" {
            format!("lvm:vm-{vmid}-disk-{n}")
        } else {
            let ext = g.pick(&["raw", "qcow2"]);
            format!("{storage}:{vmid}/vm-{vmid}-disk-{n}.{ext}")
        };
        files.push((
            storage.to_owned(),
            json!({"volid": volid, "virtual_size": mib * MIB, "size": mib * MIB}),
        ));
        let mut text = volid.clone();
        for o in [
            "cache=writeback",
            "discard=on",
            "backup=0",
            "ssd=1",
            "iothread=1",
            "mbps_rd=10",
            "serial=ABC1",
            "replicate=0",
        ] {
            let fits = match o {
                "ssd=1" => bus != "virtio",
                "iothread=1" => bus == "virtio" || bus == "scsi",
                _ => true,
            };
            if fits && g.chance(12) {
                text += &format!(",{o}");
            }
        }
        c.insert(format!("{bus}{n}"), json!(format!("{text},size={mib}M")));
    }
    if g.chance(25) {
        c.insert(
            "ide2".into(),
            json!(
                [
                    "none,media=cdrom",
                    "local:iso/test.iso,media=cdrom,size=300K"
                ][g.below(2)]
            ),
        );
    }
    if g.chance(20) {
        let volid = format!("local:{vmid}/vm-{vmid}-disk-9.raw");
        files.push(("local".into(), json!({"volid": volid, "size": 4 * MIB})));
        if g.chance(60) {
            c.insert("unused0".into(), json!(volid));
        }
    }
    if g.chance(3) {
        c.insert("lock".into(), json!(["backup", "migrate"][g.below(2)]));
    }
    if !running && g.chance(4) {
        c.insert("template".into(), json!("1"));
    }
    let status = if running { "running" } else { "stopped" };
    (
        json!({"vmid": vmid, "node": node, "status": status, "guest_os": true, "config": c}),
        files,
    )
}

/// What makes a guest's state odd before the task: pending changes, paused.
pub fn unrest(g: &mut Gen, world: &Value, vmid: u32) -> Vec<(&'static str, Value)> {
    let guest = world["pve"]["guests"]
        .as_array()
        .expect("guests")
        .iter()
        .find(|x| x["vmid"] == vmid);
    let mut out = vec![];
    if guest.is_some_and(|x| x["status"] == "running") {
        if g.chance(25) {
            out.push((
                "pve_vm_shell",
                json!({"vmid": vmid, "memory": 4096, "numa_enabled": false, "tags_add": ["late"]}),
            ));
        }
        if g.chance(15) {
            out.push((
                "pve_nic",
                json!({"vmid": vmid, "interface": "net0", "model": "e1000", "bridge": "vmbr1"}),
            ));
        }
        if g.chance(10) {
            out.push(("pve_vm_shell", json!({"vmid": vmid, "state": "paused"})));
        }
    }
    out
}

/// No system runs in most guests, so that what hangs on its cooperation can be foreseen too.
pub fn mostly_without_system(g: &mut Gen, world: &mut Value) {
    let some = g.chance(30);
    for guest in world["pve"]["guests"].as_array_mut().into_iter().flatten() {
        guest["guest_os"] = json!(some);
    }
}
