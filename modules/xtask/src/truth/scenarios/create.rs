//! Guests and networks that are made.

use crate::truth::scenario::{Scenario, cluster, guest, two_guests, with};
use serde_json::{Value, json};

const GROUP: &str = "create";

fn s(name: &'static str, world: Value) -> Scenario {
    Scenario::new(name, GROUP, world)
}

fn fresh() -> Value {
    cluster(json!([]), json!({}))
}

/// The scenarios.
pub fn all() -> Vec<Scenario> {
    let mut all = made();
    all.extend(in_the_way());
    all
}

fn made() -> Vec<Scenario> {
    vec![
        s("fresh: a guest, its NIC, its disk, started", fresh()).tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 512
    cores: 2
    ostype: l26
    scsihw: virtio-scsi-single
    net: {net0: 'virtio,bridge=vmbr0'}
    state: present
- name: Give it a second NIC
  NIC:
    vmid: 150
    interface: net1
    bridge: vmbr1
    tag: 30
- name: Give it a disk
  DISK:
    vmid: 150
    disk: scsi0
    storage: data
    size: '1'
    format: qcow2
- name: Start it
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    state: started
",
        ),
        s("fresh: zone, vnet, guest on the vnet", fresh()).tasks(
            r"
- name: Make the zone
  ZONE:
    zone: zlan
    type: vlan
    bridge: vmbr0
- name: Make the vnet
  VNET:
    vnet: v100
    zone: zlan
    tag: 100
- name: Make the guest
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 512
- name: Put it on the vnet
  NIC:
    vmid: 150
    interface: net0
    bridge: v100
",
        ),
        s("fresh: three guests in a loop", fresh()).tasks(
            r#"
- name: Make the guests
  SHELL:
    vmid: "{{ 200 + item }}"
    name: "node{{ item }}"
    node: pve1
    memory: 512
    net: {net0: 'virtio,bridge=vmbr0'}
  loop: [1, 2, 3]
- name: Tag them
  SHELL:
    vmid: "{{ 200 + item }}"
    name: "node{{ item }}"
    node: pve1
    tags: [cluster]
>   update: true
  loop: [1, 2, 3]
- name: Look at them
  GUESTS:
    node: pve1
    type: qemu
"#,
        ),
        s("fresh: cloud-init", fresh()).tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: cloud
    node: pve1
    memory: 1024
    agent: 'enabled=1'
    ide: {ide2: 'local:cloudinit'}
    ciuser: admin
    ipconfig: {ipconfig0: 'ip=192.0.2.9/24,gw=192.0.2.1'}
    nameservers: [192.0.2.53]
    searchdomains: [lab.example]
    net: {net0: 'virtio,bridge=vmbr0'}
    serial: {serial0: socket}
    vga: serial0
- name: Start it
  SHELL:
    vmid: 150
    node: pve1
    state: started
",
        ),
        s("fresh: UEFI, TPM, several disks", fresh()).tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: uefi
    node: pve1
    memory: 2048
    bios: ovmf
    machine: q35
    ostype: win11
    efidisk0: {storage: local, format: qcow2, efitype: 4m, pre_enrolled_keys: true}
    tpmstate0: {storage: local, version: '2.0'}
    scsihw: virtio-scsi-single
    scsi: {scsi0: 'local:1,format=qcow2,discard=on,iothread=1'}
    sata: {sata0: 'none,media=cdrom'}
- name: Boot from the disk
  SHELL:
    vmid: 150
    name: uefi
    node: pve1
    boot: order=scsi0;sata0
>   update: true
",
        ),
        s("fresh: a disk from an image, an ISO, started", fresh()).tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: appliance
    node: pve1
    memory: 512
    scsihw: virtio-scsi-single
- name: Import the disk
  DISK:
    vmid: 150
    disk: scsi0
    storage: data
    format: qcow2
    import_from: nfs:import/app.raw
- name: Insert the ISO
  DISK:
    vmid: 150
    disk: ide2
    media: cdrom
    iso_image: local:iso/test.iso
- name: Boot from the disk
  SHELL:
    vmid: 150
    name: appliance
    node: pve1
    boot: order=scsi0
>   update: true
- name: Start it
  SHELL:
    vmid: 150
    node: pve1
    state: started
",
        ),
        s("clone, then the clone's memory and NIC", two_guests()).tasks(
            r"
- name: Clone it
  SHELL:
    clone: web
    vmid: 100
    newid: 160
    name: web-copy
    node: pve1
    full: true
    timeout: 60
- name: Give the clone memory
  SHELL:
    vmid: 160
    name: web-copy
    node: pve1
    memory: 2048
>   update: true
- name: Put the clone on another network
  NIC:
    vmid: 160
    interface: net0
    bridge: vmbr1
",
        ),
        s("two clones without an id, one after the other", two_guests()).tasks(
            r"
- name: Clone it
  SHELL:
    clone: web
    vmid: 100
    name: first-copy
    node: pve1
    full: true
    timeout: 60
- name: Clone it once more
  SHELL:
    clone: web
    vmid: 100
    name: second-copy
    node: pve1
    full: true
    timeout: 60
",
        ),
        s("half made: the guest is there, with less memory and no disk", with(
            cluster(
                json!([{"vmid": 150, "node": "pve1", "status": "stopped", "config": {
                    "name": "fresh", "memory": "256", "cores": "2", "scsihw": "virtio-scsi-single"}}]),
                json!({}),
            ),
            |_| {},
        ))
        .tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 512
    cores: 2
    scsihw: virtio-scsi-single
- name: Give it its memory
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 512
>   update: true
- name: Give it a disk
  DISK:
    vmid: 150
    disk: scsi0
    storage: data
    size: '1'
    format: qcow2
- name: Give it a NIC
  NIC:
    vmid: 150
    interface: net0
    bridge: vmbr0
- name: Look at it
  GUESTS:
    vmid: 150
    config: current
",
        ),
    ]
}

fn in_the_way() -> Vec<Scenario> {
    vec![
        s("missing storage", two_guests()).tasks(
            r"
- name: Tag it
  SHELL:
    vmid: 100
    name: web
    node: pve1
    tags: [prod]
>   update: true
- name: Give it a disk
  DISK:
    vmid: 100
    disk: scsi1
    storage: nowhere
    size: '1'
",
        ),
        s("missing bridge", two_guests()).tasks(
            r"
- name: Put it on a network
  NIC:
    vmid: 100
    interface: net1
    bridge: vmbr7
- name: Start it
  SHELL:
    vmid: 100
    node: pve1
    state: started
",
        ),
        s("missing ISO", two_guests()).tasks(
            r"
- name: Insert the ISO
  DISK:
    vmid: 100
    disk: ide2
    media: cdrom
    iso_image: local:iso/none.iso
",
        ),
        s("missing import source", two_guests()).tasks(
            r"
- name: Import the disk
  DISK:
    vmid: 100
    disk: scsi1
    storage: data
    import_from: nfs:import/none.raw
",
        ),
        s("a container has the id", with(two_guests(), |w| {
            if let Some(l) = w["pve"]["guests"].as_array_mut() {
                l.push(json!({"vmid": 150, "node": "pve1", "type": "lxc", "status": "stopped", "config": {"hostname": "ct", "memory": "512"}}));
            }
        }))
        .tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 512
- name: Give it a NIC
  NIC:
    vmid: 150
    interface: net0
    bridge: vmbr0
",
        ),
        s("the name is taken twice", with(two_guests(), |w| {
            guest(w, 101)["config"]["name"] = json!("web");
        }))
        .tasks(
            r"
- name: Give it memory
  SHELL:
    name: web
    node: pve1
    memory: 2048
>   update: true
",
        ),
        s("no privilege on one of three steps", with(fresh(), |w| {
            if let Some(l) = w["pve"]["acl"].as_array_mut() {
                for (path, role) in [("/vms", "PVEVMAdmin"), ("/storage/local", "PVEDatastoreUser"), ("/sdn/zones/localnetwork/vmbr0", "PVESDNUser")] {
                    l.push(json!({"path": path, "type": "token", "ugid": "deploy@pve!ci", "roleid": role, "propagate": 1}));
                }
            }
        }))
        .login("deploy")
        .tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    net: {net0: 'virtio,bridge=vmbr0'}
- name: Give it a disk where one may not
  DISK:
    vmid: 150
    disk: scsi0
    storage: data
    size: '1'
  ignore_errors: true
- name: Give it memory
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 1024
>   update: true
",
        ),
        s("full storage", two_guests()).tasks(
            r"
- name: Import the disk
  DISK:
    vmid: 100
    disk: scsi1
    storage: small
    format: raw
    import_from: nfs:import/app.raw
",
        ),
        s("dead node", with(two_guests(), |w| {
            w["pve"]["nodes"][1]["status"] = json!("offline");
        }))
        .tasks(
            r"
- name: Make the guest there
  SHELL:
    vmid: 150
    name: fresh
    node: pve2
    memory: 512
    timeout: 10
",
        ),
        s("a value that the server refuses", fresh()).tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    memory: 512
- name: Give it too many cores
  SHELL:
    vmid: 150
    name: fresh
    node: pve1
    cores: 200
    sockets: 8
>   update: true
",
        ),
        s("slow tasks", with(fresh(), |w| {
            w["pve"]["timing"] = json!({"task_ms": 1500});
        }))
        .tasks(
            r"
- name: Make the guest
  SHELL:
    vmid: 150
    name: slow
    node: pve1
    memory: 512
    scsi: {scsi0: 'data:1,format=qcow2'}
- name: Start it
  SHELL:
    vmid: 150
    node: pve1
    state: started
",
        ),
    ]
}
