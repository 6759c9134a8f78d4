//! From VMware to Proxmox VE: the five stages, and what stands in their way.

use crate::truth::scenario::{Event, Scenario, When, estate, with};
use serde_json::{Value, json};
use std::path::Path;

const GROUP: &str = "migrate";

fn s(name: &'static str, world: Value) -> Scenario {
    Scenario::new(name, GROUP, world)
}

/// That machine of a world.
fn vm<'a>(w: &'a mut Value, name: &str) -> &'a mut Value {
    let all = w["vcenter"]["vms"].as_array().cloned().unwrap_or_default();
    let at = all
        .iter()
        .position(|v| v["name"] == name)
        .unwrap_or(all.len());
    &mut w["vcenter"]["vms"][at]
}

/// The networks as the stage sdn leaves them.
fn networks(w: &mut Value) {
    w["pve"]["sdn"] = json!({
        "zones": [{"zone": "vmware", "type": "vlan", "bridge": "vmbr0"}],
        "vnets": [{"vnet": "v100", "zone": "vmware", "tag": 100}, {"vnet": "v200", "zone": "vmware", "tag": 200}],
    });
}

/// The shell as the stage build leaves it.
fn shell(w: &mut Value) {
    w["pve"]["guests"] = json!([{"vmid": 20101, "node": "pve1", "status": "stopped", "config": {
        "name": "web01", "memory": "1024", "cores": "2", "sockets": "1", "ostype": "l26", "scsihw": "pvscsi", "tags": "migration-shell",
        "smbios1": "uuid=0c8ad2a8-5b3c-4b51-8a5a-0d7e1b7e0101", "net0": "vmxnet3=00:50:56:81:01:01,bridge=v100"}}]);
}

const BUILD: &str = r"
- name: Build the shell
  SHELL:
    vmid: 20101
    name: web01
    node: pve1
    cores: 2
    sockets: 1
    memory: 1024
    ostype: l26
    scsihw: pvscsi
    tags: [migration-shell]
- name: Put its NIC on its network
  NIC:
    vmid: 20101
    interface: net0
    mac: 00:50:56:81:01:01
    model: vmxnet3
    bridge: v100
";

const CUTOVER: &str = r#"
- name: Describe the data file
< trueplan.virt.vmdk_descriptor:
<   export: "{{ lab_export }}"
<   storage: nfs
<   vmid: 20101
<   disk: 0
<   source: web01/web01-flat.vmdk
<   bytes: 8388608
<   key: 2000
<   source_pending: "{{ ansible_check_mode and relocated.changed | default(false) }}"
> ansible.builtin.copy:
>   dest: "{{ lab_export }}/images/20101/disk0.vmdk"
>   content: |
>     # Disk DescriptorFile
>     version=1
>     CID=fffffffe
>     parentCID=ffffffff
>     createType="monolithicFlat"
>     RW 16384 FLAT "../../web01/web01-flat.vmdk" 0
  register: described
- name: Shut it down
  POWER:
    moid: vm-101
    datacenter: DC1
    state: shutdown-guest
    timeout: 60
- name: Bring the disk over
  DISK:
    vmid: 20101
    disk: scsi0
    storage: data
    format: qcow2
    import_from: nfs:20101/disk0.vmdk
<   source_bytes: 8388608
<   source_pending: "{{ ansible_check_mode and described.changed }}"
- name: Boot from it
  SHELL:
    vmid: 20101
    name: web01
    node: pve1
    boot: order=scsi0
>   update: true
- name: Mark the VMware machine
< trueplan.virt.vsphere_note:
<   moid: vm-101
<   text: gone over
> vmware.vmware.vm:
>   moid: vm-101
>   annotation: gone over
- name: Mark the shell as done
  SHELL:
    vmid: 20101
    name: web01
    node: pve1
    tags: [migration-done]
>   update: true
"#;

const ALL: &str = r#"
- name: Make the zone
  ZONE:
    zone: vmware
    type: vlan
    bridge: vmbr0
- name: Make the vnet
  VNET:
    vnet: v100
    zone: vmware
    tag: 100
- name: Build the shell
  SHELL:
    vmid: 20101
    name: web01
    node: pve1
    cores: 2
    memory: 1024
    ostype: l26
    scsihw: pvscsi
- name: Put its NIC on its network
  NIC:
    vmid: 20101
    interface: net0
    mac: 00:50:56:81:01:01
    model: vmxnet3
    bridge: v100
- name: Relocate it to the export
  RELOCATE:
    moid: vm-101
    destination_datastore: migration-nfs
  register: relocated
"#;

/// The scenarios.
///
/// Errors: the demo's world cannot be read.
pub fn all(root: &Path) -> Result<Vec<Scenario>, String> {
    let mut all = stages(root)?;
    all.extend(relocations(root)?);
    all.extend(power(root)?);
    Ok(all)
}

fn stages(root: &Path) -> Result<Vec<Scenario>, String> {
    let two = estate(root, &["web01", "app01"])?;
    let one = estate(root, &["web01"])?;
    let moved = with(one.clone(), |w| {
        vm(w, "web01")["datastore"] = json!("migration-nfs");
    });
    // A text of its own: both parts are constants.
    let whole: &'static str = Box::leak(format!("{ALL}{CUTOVER}").into_boxed_str());
    Ok(vec![
        s("stage discover", two.clone()).tasks(
            r"
- name: Read the portgroups
  PORTGROUPS:
    datacenter: DC1
- name: Read the machine
  MACHINE:
    moid: vm-101
- name: Read the guests
  GUESTS:
    type: qemu
    config: current
",
        ),
        s("stage sdn", two.clone()).tasks(
            r#"
- name: Make the zone
  ZONE:
    zone: vmware
    type: vlan
    bridge: vmbr0
- name: Make the vnets
  VNET:
    vnet: "v{{ item }}"
    zone: vmware
    tag: "{{ item }}"
  loop: [100, 200]
"#,
        ),
        s("stage build", with(one.clone(), networks)).tasks(BUILD),
        s("stage relocate", two.clone()).tasks(
            r#"
- name: Relocate them to the export
  RELOCATE:
    moid: "{{ item }}"
    destination_datastore: migration-nfs
  loop: [vm-101, vm-114]
"#,
        ),
        s(
            "stage cutover",
            with(moved.clone(), |w| {
                networks(w);
                shell(w);
            }),
        )
        .tasks(CUTOVER),
        s("all stages in one playbook", one.clone()).tasks(whole),
        s(
            "half migrated: networks, shell and relocation are there",
            with(moved.clone(), |w| {
                networks(w);
                shell(w);
                vm(w, "web01")["power"] = json!("off");
            }),
        )
        .tasks(whole),
        s("an export that cannot be written", one.clone())
            .without_peers()
            .tasks(
                r#"
- name: Describe a data file that is not there
  trueplan.virt.vmdk_descriptor:
    export: "{{ lab_export }}"
    storage: nfs
    vmid: 20101
    disk: 0
    source: nobody/nobody-flat.vmdk
    bytes: 8388608
    key: 2000
  ignore_errors: true
- name: Describe it where there is no export
  trueplan.virt.vmdk_descriptor:
    export: "{{ lab_export }}/nowhere"
    storage: nfs
    vmid: 20101
    disk: 0
    source: web01/web01-flat.vmdk
    bytes: 8388608
    key: 2000
  ignore_errors: true
"#,
            ),
        s("notes: set, changed, removed, one of several", one)
            .without_peers()
            .tasks(
                r"
- name: Set it
  trueplan.virt.vsphere_note:
    moid: vm-101
    text: planned for Monday
    key: window
- name: A second one
  trueplan.virt.vsphere_note:
    moid: vm-101
    text: goes over to guest 20101
- name: One that is not there
  trueplan.virt.vsphere_note:
    moid: vm-101
    key: other
    state: absent
",
            ),
    ])
}

fn relocations(root: &Path) -> Result<Vec<Scenario>, String> {
    let one = estate(root, &["web01"])?;
    let two = estate(root, &["web01", "app01"])?;
    let plain = r"
- name: Relocate it
  RELOCATE:
    moid: vm-101
    destination_datastore: migration-nfs
    timeout: 60
";
    Ok(vec![
        s(
            "one of two disks is there already",
            with(one.clone(), |w| {
                vm(w, "web01")["disks"] = json!([
                    {"controller": "pvscsi", "size_mib": 4},
                    {"controller": "pvscsi", "size_mib": 3, "datastore": "migration-nfs"},
                ]);
            }),
        )
        .tasks(plain),
        s("a relocation is running", one.clone())
            .before(
                "vsphere_relocate",
                json!({"moid": "vm-101", "destination_datastore": "migration-nfs", "wait": false}),
            )
            .on(
                When::Start,
                Event::Set(json!({"vcenter": {"relocate_min_ms": 60000}})),
            )
            .on(
                When::Meanwhile,
                Event::Set(json!({"vcenter": {"relocate_min_ms": 60000}})),
            )
            .tasks(
                r"
- name: Relocate it
  RELOCATE:
    moid: vm-101
    destination_datastore: migration-nfs
    timeout: 300
",
            ),
        s("to another host in the cluster", one.clone()).tasks(
            r"
- name: Move it
  RELOCATE:
    moid: vm-101
    destination_host: esx2.lab.example
",
        ),
        s("the destination does not exist", one.clone()).tasks(
            r"
- name: Relocate it to a typing error, host and all
  RELOCATE:
    moid: vm-101
    destination_host: esx1.lab.example
    destination_datastore: migration-nsf
  ignore_errors: true
- name: Relocate it to a typing error
  RELOCATE:
    moid: vm-101
    destination_datastore: migration-nsf
",
        ),
        s("two machines of one name", two.clone()).tasks(
            r"
- name: Relocate one of them
  RELOCATE:
    vm_name: app01
    destination_datastore: migration-nfs
",
        ),
        s("a snapshot chain", estate(root, &["snap-chain"])?).tasks(
            r"
- name: Relocate it
  RELOCATE:
    moid: vm-107
    destination_datastore: migration-nfs
",
        ),
        s("a raw device", estate(root, &["rdm-host"])?).tasks(
            r"
- name: Relocate it
  RELOCATE:
    moid: vm-108
    destination_datastore: migration-nfs
    timeout: 30
",
        ),
        s(
            "the datastore is full",
            with(one.clone(), |w| {
                w["vcenter"]["datacenters"][0]["datastores"][2]["capacity_gib"] = json!(1);
                w["vcenter"]["datacenters"][0]["datastores"][2]["used_gib"] = json!(1);
            }),
        )
        .tasks(plain),
        s(
            "the datastore is in maintenance",
            with(one.clone(), |w| {
                w["vcenter"]["datacenters"][0]["datastores"][2]["maintenance"] =
                    json!("inMaintenance");
            }),
        )
        .tasks(plain),
        s(
            "the vCenter user may not relocate",
            with(one.clone(), |w| {
                w["vcenter"]["users"][0]["deny"] = json!(["RelocateVM_Task"]);
            }),
        )
        .unforeseeable(&["Relocate it"])
        .tasks(plain),
        s(
            "the machine's host is dead",
            with(one.clone(), |w| {
                vm(w, "web01")["connection"] = json!("disconnected");
            }),
        )
        .tasks(plain),
        s("the relocation breaks off", one)
            .on(
                When::Meanwhile,
                Event::Set(
                    json!({"vcenter": {"task_faults": [{"method": "RelocateVM_Task", "percent": 40}]}}),
                ),
            )
            .unforeseeable(&["Relocate it"])
            .tasks(plain),
        s(
            "slow relocations of two machines",
            with(two, |w| {
                w["vcenter"]["relocate_min_ms"] = json!(2500);
            }),
        )
        .tasks(
            r#"
- name: Relocate them
  RELOCATE:
    moid: "{{ item }}"
    destination_datastore: migration-nfs
  loop: [vm-101, vm-115]
"#,
        ),
    ])
}

fn power(root: &Path) -> Result<Vec<Scenario>, String> {
    let one = estate(root, &["web01"])?;
    Ok(vec![
        s(
            "power: off, and what is so already",
            estate(root, &["web01", "archive-sata"])?,
        )
        .tasks(
            r"
- name: Power one off
  POWER:
    moid: vm-101
    datacenter: DC1
    state: powered-off
- name: Power the other off, which is
  POWER:
    moid: vm-109
    datacenter: DC1
    state: powered-off
- name: Shut it down, which is off
  POWER:
    moid: vm-109
    datacenter: DC1
    state: shutdown-guest
",
        ),
        s(
            "power: shutdown without VMware Tools",
            estate(root, &["no-tools"])?,
        )
        .tasks(
            r"
- name: Shut it down
  POWER:
    moid: vm-111
    datacenter: DC1
    state: shutdown-guest
    timeout: 20
",
        ),
        s("power: a suspended machine", estate(root, &["sleeper"])?).tasks(
            r"
- name: Power it off
  POWER:
    moid: vm-112
    datacenter: DC1
    state: powered-off
  ignore_errors: true
- name: Power it on
  POWER:
    moid: vm-112
    datacenter: DC1
    state: powered-on
",
        ),
        s("power: a template", estate(root, &["tmpl-debian12"])?).tasks(
            r"
- name: Power it on
  POWER:
    moid: vm-113
    datacenter: DC1
    state: powered-on
",
        ),
        s("power: a machine of another datacenter", one.clone()).tasks(
            r"
- name: Power it off
  POWER:
    name: web01
    datacenter: DC2
    state: powered-off
",
        ),
        s(
            "power: the guest ignores the shutdown",
            with(one, |w| {
                vm(w, "web01")["ignores_shutdown"] = json!(true);
            }),
        )
        .unforeseeable(&["Shut it down"])
        .tasks(
            r"
- name: Read the machine
  MACHINE:
    moid: vm-101
- name: Shut it down
  POWER:
    moid: vm-101
    datacenter: DC1
    state: shutdown-guest
    timeout: 5
",
        ),
    ])
}
