//! Guests and networks that go.

use crate::truth::scenario::{Scenario, guest, two_guests, with};
use serde_json::{Value, json};

const GROUP: &str = "remove";

fn s(name: &'static str, world: Value) -> Scenario {
    Scenario::new(name, GROUP, world)
}

/// The scenarios.
pub fn all() -> Vec<Scenario> {
    vec![
        s("remove a stopped guest", two_guests()).tasks(
            r"
- name: Remove it
  SHELL:
    vmid: 100
    node: pve1
    state: absent
",
        ),
        s("remove a running guest without force", two_guests()).tasks(
            r"
- name: Remove it
  SHELL:
    vmid: 101
    node: pve1
    state: absent
",
        ),
        s("stop, then remove", two_guests()).tasks(
            r"
- name: Stop it
  SHELL:
    vmid: 101
    node: pve1
    state: stopped
    force: true
    timeout: 20
- name: Remove it
  SHELL:
    vmid: 101
    node: pve1
    state: absent
- name: Look at what is left
  GUESTS:
    node: pve1
",
        ),
        s("remove with force", two_guests()).tasks(
            r"
- name: Remove it
  SHELL:
    vmid: 101
    node: pve1
    state: absent
    force: true
    timeout: 20
",
        ),
        s(
            "remove NIC, disk, guest, vnet and zone",
            with(two_guests(), |w| {
                w["pve"]["sdn"] = json!({
                    "zones": [{"zone": "zlan", "type": "vlan", "bridge": "vmbr0"}],
                    "vnets": [{"vnet": "v100", "zone": "zlan", "tag": 100}],
                });
                guest(w, 100)["config"]["net0"] = json!("virtio=BC:24:11:00:01:00,bridge=v100");
            }),
        )
        .tasks(
            r"
- name: Remove the NIC
  NIC:
    vmid: 100
    interface: net0
    state: absent
- name: Remove the disk
  DISK:
    vmid: 100
    disk: scsi0
    state: absent
- name: Remove the guest
  SHELL:
    vmid: 100
    node: pve1
    state: absent
- name: Remove the vnet
  VNET:
    vnet: v100
>   zone: zlan
    state: absent
- name: Remove the zone
  ZONE:
    zone: zlan
>   type: vlan
    state: absent
",
        ),
        s("remove what is not there", two_guests()).tasks(
            r"
- name: Remove a guest
  SHELL:
    vmid: 199
    node: pve1
    state: absent
- name: Remove a NIC
  NIC:
    vmid: 100
    interface: net7
    state: absent
- name: Remove a disk
  DISK:
    vmid: 100
    disk: scsi7
    state: absent
- name: Remove a vnet
  VNET:
    vnet: v999
>   zone: zlan
    state: absent
",
        ),
        s(
            "protected: remove it",
            with(two_guests(), |w| {
                guest(w, 100)["config"]["protection"] = json!("1");
            }),
        )
        .tasks(
            r"
- name: Remove it
  SHELL:
    vmid: 100
    node: pve1
    state: absent
",
        ),
        s(
            "protected: remove its disk",
            with(two_guests(), |w| {
                guest(w, 100)["config"]["protection"] = json!("1");
            }),
        )
        .tasks(
            r"
- name: Remove the disk
  DISK:
    vmid: 100
    disk: scsi0
    state: absent
",
        ),
        s(
            "a zone that still has vnets",
            with(two_guests(), |w| {
                w["pve"]["sdn"] = json!({
                    "zones": [{"zone": "zlan", "type": "vlan", "bridge": "vmbr0"}],
                    "vnets": [{"vnet": "v100", "zone": "zlan", "tag": 100}],
                });
            }),
        )
        .tasks(
            r"
- name: Remove the zone
  ZONE:
    zone: zlan
>   type: vlan
    state: absent
",
        ),
        s(
            "remove a guest that somebody removes meanwhile",
            two_guests(),
        )
        .on(
            crate::truth::scenario::When::Meanwhile,
            crate::truth::scenario::Event::Set(json!({"pve": {"guest": 100, "remove": true}})),
        )
        .unforeseeable(&["Remove it"])
        .tasks(
            r"
- name: Remove it
  SHELL:
    vmid: 100
    node: pve1
    state: absent
",
        ),
    ]
}
