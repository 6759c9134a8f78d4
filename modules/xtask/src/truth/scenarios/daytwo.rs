//! Guests that are changed.

use crate::truth::scenario::{Event, Scenario, When, guest, two_guests, with};
use serde_json::{Value, json};

const GROUP: &str = "day two";

fn s(name: &'static str, world: Value) -> Scenario {
    Scenario::new(name, GROUP, world)
}

/// The scenarios.
pub fn all() -> Vec<Scenario> {
    let mut all = hardware();
    all.extend(disks());
    all.extend(states());
    all.extend(obstacles());
    all
}

fn hardware() -> Vec<Scenario> {
    vec![
        s("CPU and memory, stopped", two_guests()).tasks(
            r"
- name: Give it cores
  SHELL:
    vmid: 100
    name: web
    node: pve1
    cores: 4
    sockets: 2
    cpu: host
>   update: true
- name: Give it memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 4096
    balloon: 2048
>   update: true
",
        ),
        s(
            "CPU and memory, running: they wait for the next stop",
            two_guests(),
        )
        .tasks(
            r"
- name: Give it cores
  SHELL:
    vmid: 101
    name: db
    node: pve1
    cores: 4
    cpu: host
>   update: true
- name: Give it memory
  SHELL:
    vmid: 101
    name: db
    node: pve1
    memory: 4096
>   update: true
",
        ),
        s("nothing to change", two_guests()).tasks(
            r"
- name: The memory that it has
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 1024
    cores: 2
>   update: true
- name: The NIC that it has
  NIC:
    vmid: 100
    interface: net0
    bridge: vmbr0
    mac: BC:24:11:00:01:00
    firewall: true
- name: The size that its disk has
  DISK:
    vmid: 100
    disk: scsi0
    size: 8M
    state: resized
",
        ),
        s(
            "drifted: every option family",
            with(two_guests(), |w| {
                let c = &mut guest(w, 100)["config"];
                for (k, v) in [
                    ("cpu", "kvm64"),
                    ("balloon", "512"),
                    ("agent", "0"),
                    ("vga", "qxl"),
                    ("machine", "pc"),
                    ("onboot", "0"),
                    ("startup", "order=9"),
                    ("tags", "old;blue"),
                    ("description", "was edited"),
                    ("hotplug", "0"),
                    ("tablet", "0"),
                    ("numa", "1"),
                    ("keyboard", "fr"),
                    ("localtime", "1"),
                    ("nameserver", "192.0.2.1"),
                    ("ciuser", "root"),
                    ("ipconfig0", "ip=dhcp"),
                    ("serial0", "socket"),
                    ("rng0", "source=/dev/random"),
                    ("watchdog", "model=ib700"),
                ] {
                    c[k] = json!(v);
                }
            }),
        )
        .tasks(
            r#"
- name: CPU
  SHELL:
    vmid: 100
    name: web
    node: pve1
    cpu: host
    cores: 2
    numa_enabled: false
>   update: true
- name: Memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 1024
    balloon: 1024
>   update: true
- name: Machine, display and input
  SHELL:
    vmid: 100
    name: web
    node: pve1
    machine: q35
    vga: std
    tablet: true
    keyboard: de
    localtime: false
>   update: true
- name: Boot and start
  SHELL:
    vmid: 100
    name: web
    node: pve1
    boot: order=scsi0;net0
    onboot: true
    startup: order=2,up=30
>   update: true
- name: Agent, random numbers and watchdog
  SHELL:
    vmid: 100
    name: web
    node: pve1
    agent: enabled=1,fstrim_cloned_disks=1
    rng0: source=/dev/urandom
    watchdog: model=i6300esb,action=reset
>   update: true
- name: Tags and description
  SHELL:
    vmid: 100
    name: web
    node: pve1
    tags: [prod, web]
    description: "Made by the play."
>   update: true
- name: Cloud-init
  SHELL:
    vmid: 100
    name: web
    node: pve1
    ciuser: admin
    ipconfig: {ipconfig0: 'ip=192.0.2.9/24,gw=192.0.2.1'}
    nameservers: [192.0.2.53, 192.0.2.54]
>   update: true
- name: NIC
  NIC:
    vmid: 100
    interface: net0
    model: e1000
    bridge: vmbr1
    mac: BC:24:11:00:01:00
    tag: 12
    rate: 10
- name: Disk
  DISK:
    vmid: 100
    disk: scsi0
    cache: writeback
    discard: 'on'
    ssd: true
"#,
        ),
        s(
            "options are taken away",
            with(two_guests(), |w| {
                let c = &mut guest(w, 100)["config"];
                c["balloon"] = json!("512");
                c["description"] = json!("old");
            }),
        )
        .tasks(
            r"
- name: Take them away
  SHELL:
    vmid: 100
    name: web
    node: pve1
    delete: balloon,description
",
        ),
        s("NIC's VLAN, stopped", two_guests()).tasks(
            r"
- name: Another VLAN
  NIC:
    vmid: 100
    interface: net0
    bridge: vmbr0
    mac: BC:24:11:00:01:00
    firewall: true
    tag: 200
",
        ),
        s("NIC's VLAN, running", two_guests()).tasks(
            r"
- name: Another VLAN
  NIC:
    vmid: 101
    interface: net0
    bridge: vmbr0
    mac: BC:24:11:00:01:01
    firewall: true
    tag: 200
- name: A second NIC
  NIC:
    vmid: 101
    interface: net1
    bridge: vmbr1
    mac: BC:24:11:00:01:99
",
        ),
        s("NIC's VLANs, as text", two_guests()).tasks(
            r"
- name: A trunk
  NIC:
    vmid: 100
    interface: net0
    bridge: vmbr0
    mac: bc:24:11:00:01:00
    firewall: true
    trunks: ['10', '20']
",
        ),
    ]
}

fn disks() -> Vec<Scenario> {
    vec![
        s("disk: options", two_guests()).tasks(
            r"
- name: Cache, discard and limits
  DISK:
    vmid: 100
    disk: scsi0
    cache: writeback
    discard: 'on'
    iothread: true
    mbps_rd: '50'
    backup: false
",
        ),
        s("disk: options, running", two_guests()).tasks(
            r"
- name: Limits
  DISK:
    vmid: 101
    disk: scsi0
    iops_rd: 500
    backup: false
- name: Cache
  DISK:
    vmid: 101
    disk: scsi0
    cache: writeback
",
        ),
        s("disk: grow", two_guests()).tasks(
            r"
- name: Grow it
  DISK:
    vmid: 100
    disk: scsi0
    size: 16M
    state: resized
- name: Grow the running one
  DISK:
    vmid: 101
    disk: scsi0
    size: 24M
    state: resized
",
        ),
        s("disk: shrink", two_guests()).tasks(
            r"
- name: Shrink it
  DISK:
    vmid: 100
    disk: scsi0
    size: 4M
    state: resized
",
        ),
        s("disk: move to another storage", two_guests()).tasks(
            r"
- name: Move it
  DISK:
    vmid: 100
    disk: scsi0
    target_storage: data
    format: qcow2
    delete_moved: true
    state: moved
- name: Move the running one
  DISK:
    vmid: 101
    disk: scsi0
    target_storage: data
    format: qcow2
    delete_moved: true
    state: moved
",
        ),
        s(
            "disk: move an empty one to a storage that is nearly full",
            two_guests(),
        )
        .tasks(
            r"
- name: Grow it
  DISK:
    vmid: 100
    disk: scsi0
    size: 16M
    state: resized
- name: Move it
  DISK:
    vmid: 100
    disk: scsi0
    target_storage: small
    format: raw
    delete_moved: true
    state: moved
",
        ),
        s("disk: a new one, grown, then detached", two_guests()).tasks(
            r"
- name: A new disk
  DISK:
    vmid: 100
    disk: scsi1
    storage: data
    size: '1'
    format: qcow2
  when: first_time | default(true)
- name: Grow it
  DISK:
    vmid: 100
    disk: scsi1
    size: 2G
    state: resized
- name: Its options
  DISK:
    vmid: 100
    disk: scsi1
    discard: 'on'
",
        ),
        s("disk: detach", two_guests()).tasks(
            r"
- name: Detach it
  DISK:
    vmid: 100
    disk: scsi0
    state: detached
",
        ),
        s("disk: insert an ISO, running", two_guests()).tasks(
            r"
- name: Insert it
  DISK:
    vmid: 101
    disk: ide2
    media: cdrom
    iso_image: local:iso/test.iso
",
        ),
    ]
}

fn states() -> Vec<Scenario> {
    vec![
        s("start, stop, and what is so already", two_guests()).tasks(
            r"
- name: Start the stopped one
  SHELL:
    vmid: 100
    node: pve1
    state: started
- name: Start the running one
  SHELL:
    vmid: 101
    node: pve1
    state: started
",
        ),
        s("stop: the guest's system answers", two_guests()).tasks(
            r"
- name: Stop the running one
  SHELL:
    vmid: 101
    node: pve1
    state: stopped
    timeout: 20
- name: Stop the stopped one
  SHELL:
    vmid: 100
    node: pve1
    state: stopped
    timeout: 20
",
        ),
        s(
            "stop: the guest's system does not answer",
            with(two_guests(), |w| {
                guest(w, 101)["guest_os"] = json!(false);
            }),
        )
        .unforeseeable(&["Stop it"])
        .tasks(
            r"
- name: Tag it
  SHELL:
    vmid: 101
    name: db
    node: pve1
    tags: [late]
>   update: true
- name: Stop it
  SHELL:
    vmid: 101
    node: pve1
    state: stopped
    timeout: 3
",
        ),
        s("restart a stopped guest", two_guests()).tasks(
            r"
- name: Restart it
  SHELL:
    vmid: 100
    node: pve1
    state: restarted
    timeout: 20
",
        ),
        s("pause", two_guests()).tasks(
            r"
- name: Pause it
  SHELL:
    vmid: 101
    node: pve1
    state: paused
",
        ),
        s("migrate to another node", two_guests()).tasks(
            r"
- name: Migrate the stopped one
  SHELL:
    vmid: 100
    name: web
    node: pve2
    migrate: true
    with_local_disks: true
    timeout: 60
- name: Give it memory there
  SHELL:
    vmid: 100
    name: web
    node: pve2
    memory: 2048
>   update: true
",
        ),
        s("make a template", two_guests()).tasks(
            r"
- name: Make it one
  SHELL:
    vmid: 100
    node: pve1
    state: template
",
        ),
        s("running with pending changes: more of them", two_guests())
            .on(
                When::Start,
                Event::Call(
                    "pve_vm_shell",
                    json!({"vmid": 101, "memory": 2048, "numa_enabled": true}),
                ),
            )
            .tasks(
                r"
- name: Cores that wait too
  SHELL:
    vmid: 101
    name: db
    node: pve1
    cores: 1
>   update: true
- name: Take the memory back
  SHELL:
    vmid: 101
    name: db
    node: pve1
    revert: memory
- name: Look at it
  GUESTS:
    vmid: 101
    config: pending
",
            ),
        s(
            "pending changes, then a stop that applies them",
            two_guests(),
        )
        .tasks(
            r"
- name: Memory that waits
  SHELL:
    vmid: 101
    name: db
    node: pve1
    memory: 2048
>   update: true
- name: Stop it
  SHELL:
    vmid: 101
    node: pve1
    state: stopped
    timeout: 20
- name: More cores
  SHELL:
    vmid: 101
    name: db
    node: pve1
    cores: 1
>   update: true
",
        ),
    ]
}

fn obstacles() -> Vec<Scenario> {
    vec![
        s("locked by a backup", with(two_guests(), |w| {
            guest(w, 100)["config"]["lock"] = json!("backup");
        }))
        .tasks(
            r"
- name: Look at it
  GUESTS:
    vmid: 100
- name: Give it memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 2048
    timeout: 3
>   update: true
",
        ),
        s("wrong node", two_guests()).tasks(
            r"
- name: Give it memory
  SHELL:
    vmid: 100
    name: web
    node: pve2
    memory: 2048
>   update: true
",
        ),
        s("no such guest", two_guests()).tasks(
            r"
- name: A NIC for nobody
  NIC:
    vmid: 199
    interface: net0
    bridge: vmbr0
  ignore_errors: true
- name: A disk for nobody
  DISK:
    vmid: 199
    disk: scsi0
    storage: data
    size: '1'
  ignore_errors: true
- name: Start nobody
  SHELL:
    vmid: 199
    node: pve1
    state: started
  ignore_errors: true
",
        ),
        s("a container is changed", with(two_guests(), |w| {
            if let Some(l) = w["pve"]["guests"].as_array_mut() {
                l.push(json!({"vmid": 110, "node": "pve1", "type": "lxc", "status": "stopped", "config": {"hostname": "ct", "memory": "512"}}));
            }
        }))
        .tasks(
            r"
- name: Give it memory
  SHELL:
    vmid: 110
    node: pve1
    memory: 1024
>   update: true
  ignore_errors: true
- name: Give it a disk
  DISK:
    vmid: 110
    disk: scsi1
    storage: data
    size: '1'
  ignore_errors: true
",
        ),
        s("no privilege for the NIC's bridge", with(two_guests(), |w| {
            if let Some(l) = w["pve"]["acl"].as_array_mut() {
                for (path, role) in [("/vms", "PVEVMAdmin"), ("/sdn/zones/localnetwork/vmbr0", "PVESDNUser")] {
                    l.push(json!({"path": path, "type": "token", "ugid": "deploy@pve!ci", "roleid": role, "propagate": 1}));
                }
            }
        }))
        .login("deploy")
        .tasks(
            r"
- name: Tag it
  SHELL:
    vmid: 100
    name: web
    node: pve1
    tags: [prod]
>   update: true
- name: Another network
  NIC:
    vmid: 100
    interface: net0
    bridge: vmbr1
    mac: BC:24:11:00:01:00
  ignore_errors: true
- name: Memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 2048
>   update: true
",
        ),
        s("storage disabled", with(two_guests(), |w| {
            w["pve"]["storage"][1]["disable"] = json!(1);
        }))
        .tasks(
            r"
- name: Move it there
  DISK:
    vmid: 100
    disk: scsi0
    target_storage: data
    state: moved
",
        ),
        s("a server task that fails", two_guests())
            .on(
                When::Meanwhile,
                Event::Fault(json!({"side": "pve", "method": "POST", "path": "/qemu/100/move_disk$", "every": 1,
                    "do": {"status": 500, "reason": "storage is broken", "body": {"data": null, "message": "storage is broken\n"}}})),
            )
            .unforeseeable(&["Move it", "Start it"])
            .tasks(
                r"
- name: Give it memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 2048
>   update: true
- name: Move it
  DISK:
    vmid: 100
    disk: scsi0
    target_storage: data
    format: qcow2
    delete_moved: true
    state: moved
- name: Start it
  SHELL:
    vmid: 100
    node: pve1
    state: started
",
            ),
        s("an answer is lost", two_guests())
            .on(
                When::Meanwhile,
                Event::Fault(json!({"side": "pve", "method": "PUT", "path": "/qemu/100/config$", "nth": 1, "do": "drop_after"})),
            )
            .on(When::Meanwhile, Event::Fault(json!({"side": "pve", "method": "POST", "path": "/qemu/100/config$", "nth": 1, "do": "drop_after"})))
            .on(When::Later, Event::Mended)
            .unforeseeable(&["Give it memory", "Start it"])
            .tasks(
                r"
- name: Give it memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 2048
>   update: true
- name: Start it
  SHELL:
    vmid: 100
    node: pve1
    state: started
",
            ),
        s("somebody else changes it meanwhile", two_guests())
            .on(
                When::Meanwhile,
                Event::Set(json!({"pve": {"guest": 100, "config": {"memory": "2048"}}})),
            )
            .unforeseeable(&["Give it memory"])
            .tasks(
                r"
- name: Give it memory
  SHELL:
    vmid: 100
    name: web
    node: pve1
    memory: 2048
>   update: true
- name: Give it cores
  SHELL:
    vmid: 100
    name: web
    node: pve1
    cores: 4
>   update: true
",
            ),
        s("SDN: a vnet's alias, a zone's MTU, a second zone", with(two_guests(), |w| {
            w["pve"]["sdn"] = json!({
                "zones": [{"zone": "zlan", "type": "vlan", "bridge": "vmbr0"}],
                "vnets": [{"vnet": "v100", "zone": "zlan", "tag": 100}, {"vnet": "v200", "zone": "zlan", "tag": 200, "alias": "Office"}],
            });
        }))
        .tasks(
            r"
- name: What is so already
  VNET:
    vnet: v200
    zone: zlan
    tag: 200
    alias: Office
- name: Another alias
  VNET:
    vnet: v100
    zone: zlan
    tag: 100
    alias: Lab
- name: An MTU
  ZONE:
    zone: zlan
    type: vlan
    bridge: vmbr0
    mtu: 1400
- name: A second zone
  ZONE:
    zone: zother
    type: simple
",
        ),
        s("SDN: a vnet's VLAN under its guests", with(two_guests(), |w| {
            w["pve"]["sdn"] = json!({
                "zones": [{"zone": "zlan", "type": "vlan", "bridge": "vmbr0"}],
                "vnets": [{"vnet": "v100", "zone": "zlan", "tag": 100}],
            });
        }))
        .tasks(
            r"
- name: Another VLAN
  VNET:
    vnet: v100
    zone: zlan
    tag: 101
",
        ),
    ]
}
