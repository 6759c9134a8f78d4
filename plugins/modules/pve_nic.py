#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_nic; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_nic
short_description: Manage network cards of Proxmox VE virtual machines
version_added: '0.1.0'
description:
  - Adds, changes and removes one network card.
  - Options that are not named keep their values, also those that this module does not know.
author:
  - 'The trueplan authors (@trueplan)'
attributes:
  action_group:
    description: Use one of these groups in C(module_defaults) to set defaults for all its modules.
    support: full
    membership:
      - trueplan.virt.pve
      - trueplan.virt.proxmox
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: full
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
options:
  vmid:
    description:
      - Id of the guest. It is found wherever it lives.
    type: int
  name:
    description:
      - Name of the guest; used when O(vmid) is not given. Exactly one virtual machine must have it.
    type: str
  node:
    description:
      - 'Node on which the guest probably is: saves the search for it. It is found wherever it lives.'
    type: str
  interface:
    description:
      - The card, V(net0) to V(net31).
    type: str
    required: true
  state:
    description:
      - Whether the card shall be there.
    type: str
    choices:
      - present
      - absent
    default: present
  bridge:
    description:
      - Bridge or vnet of the node. It must be there, applied and not only pending.
    type: str
  firewall:
    description:
      - Whether the firewall filters this card. The default counts for a new card only.
    type: bool
    default: false
  link_down:
    description:
      - Whether the cable is pulled. The default counts for a new card only.
    type: bool
    default: false
  mac:
    description:
      - MAC address. An existing card keeps its own; a new one gets one that follows from the vmid and the card's
        number.
    type: str
  model:
    description:
      - Model of the card. The default counts for a new card only.
    type: str
    choices:
      - e1000
      - e1000-82540em
      - e1000-82544gc
      - e1000-82545em
      - e1000e
      - i82551
      - i82557b
      - i82559er
      - ne2k_isa
      - ne2k_pci
      - pcnet
      - rtl8139
      - virtio
      - vmxnet3
    default: virtio
  mtu:
    description:
      - MTU, for V(virtio) only; V(1) takes that of the bridge.
      - From V(1) to V(65520).
    type: int
  queues:
    description:
      - Packet queues of a V(virtio) card.
      - From V(0) to V(64).
    type: int
  rate:
    description:
      - Limit in megabytes per second.
    type: float
  tag:
    description:
      - VLAN of untagged frames.
      - From V(1) to V(4094).
    type: int
  trunks:
    description:
      - 'VLANs let through: numbers and ranges such as V(10-20), compared as a set.'
    type: list
    elements: str
  unset:
    description:
      - Options to be removed from the card.
    type: list
    elements: str
    choices:
      - bridge
      - firewall
      - link_down
      - mtu
      - queues
      - rate
      - tag
      - trunks
  timeout:
    description:
      - Seconds to wait for a lock or a running task of the guest.
      - From V(0) to V(86400).
    type: int
    default: 60
  api_host:
    description:
      - 'Host name or address of any node of the cluster; `host:port` works too.'
      - If not given, the environment variable E(PROXMOX_HOST) is used.
    type: str
    required: true
  api_port:
    description:
      - Port of the API; 8006 unless given here or in `api_host`.
      - If not given, the environment variable E(PROXMOX_PORT) is used.
    type: int
  api_user:
    description:
      - 'Who signs in, as `user@realm`. Not needed when `api_token_id` names the user too.'
      - If not given, the environment variable E(PROXMOX_USER) is used.
    type: str
  api_password:
    description:
      - Password of the user. A token wins over it.
      - If not given, the environment variable E(PROXMOX_PASSWORD) is used.
    type: str
  api_token_id:
    description:
      - 'Id of the API token: `tokenid` or `user@realm!tokenid`.'
      - If not given, the environment variable E(PROXMOX_TOKEN_ID) is used.
    type: str
  api_token_secret:
    description:
      - Secret of the API token.
      - If not given, the environment variable E(PROXMOX_TOKEN_SECRET) is used.
    type: str
  api_otp:
    description:
      - One-time password, for a user with two factors who signs in by password.
      - If not given, the environment variable E(PROXMOX_OTP) is used.
    type: str
  validate_certs:
    description:
      - Check the server's certificate.
      - If not given, the environment variable E(PROXMOX_VALIDATE_CERTS) is used.
    type: bool
    default: true
  ca_path:
    description:
      - File with the certificates of the authorities to trust, in PEM format.
      - If not given, the environment variable E(PROXMOX_CA_PATH) is used.
    type: path
  api_timeout:
    description:
      - Seconds for a connection and for a short answer.
      - From V(1) to V(86400).
      - If not given, the environment variable E(PROXMOX_API_TIMEOUT) is used.
    type: int
    default: 30
  api_fingerprint:
    description:
      - SHA-256 fingerprint of the server's certificate, as Proxmox's own tools show it. It pins the certificate, also
        with `validate_certs=false`.
      - If not given, the environment variable E(PROXMOX_FINGERPRINT) is used.
    type: str
  guard_uuid:
    description:
      - The guest found must have this BIOS uuid (in `smbios1`); with another one, or none, the task is refused.
    type: str
  expect_plan:
    description:
      - The RV(plan_id) of an earlier run, usually of one with C(--check). If the plan has become another one, the task
        fails before anything is written.
    type: str
  plan_only:
    description:
      - 'Only plan: nothing is sent or remembered, RV(would_change) says what would be.'
    type: bool
    default: false
notes:
  - At least one of O(name) and O(vmid) is required.
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - 'Privilege for reading the guest: C(VM.Audit) on C(/vms/VMID).'
  - 'Privilege for writing the card: C(VM.Config.Network) on C(/vms/VMID).'
  - 'Privilege for the bridge or vnet that a card has, and the one that it gets: C(SDN.Use) on
    C(/sdn/zones/localnetwork/BRIDGE) or C(/sdn/zones/ZONE/VNET), with a VLAN tag below it on C(TAG).'
  - 'Privilege for telling another user''s task from a dead lock; without it only one''s own tasks are seen:
    C(Sys.Audit) on C(/nodes/NODE).'
seealso:
  - module: community.proxmox.proxmox_nic
    description: The Python module that M(trueplan.virt.pve_nic) replaces.
"""

EXAMPLES = r"""
- name: Put the first card onto vnet v100
  trueplan.virt.pve_nic:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    vmid: 20042
    interface: net0
    bridge: v100
    mac: 00:50:56:aa:bb:cc

- name: Take the VLAN tag off, keep all else
  trueplan.virt.pve_nic:
    vmid: 20042
    interface: net1
    unset: [tag]
"""

RETURN = r"""
vmid:
  description:
    - Id of the guest.
  returned: success
  type: int
  sample: 103
interface:
  description:
    - The card.
  returned: success
  type: str
  sample: net0
mac:
  description:
    - Its MAC address; null if there is no such card.
  returned: success
  type: str
bridge:
  description:
    - Its bridge or vnet, or null.
  returned: success
  type: str
tag:
  description:
    - Its VLAN, or null.
  returned: success
  type: int
before:
  description:
    - The card as the server stored it before, or null.
  returned: success
  type: str
after:
  description:
    - The card as the server stores it now, or null.
  returned: success
  type: str
pending:
  description:
    - What of the card waits for the next stop of the guest; null means removal.
  returned: success
  type: dict
msg:
  description:
    - What was done, or why the task failed.
  returned: always
  type: str
unverified:
  description:
    - Facts that could not be read and were therefore not checked.
  returned: when something could not be read
  type: list
  elements: str
error_kind:
  description:
    - 'The kind of failure: V(invalid_args), V(unreachable), V(auth), V(permission), V(not_found), V(refused), V(api),
      V(conflict), V(task_failed), V(timeout) or V(internal).'
  returned: on failure
  type: str
plan:
  description:
    - The requests that are sent, in their order, each with its reason; the same in check mode.
  returned: always
  type: list
  elements: dict
plan_id:
  description:
    - The hash of RV(plan), for O(expect_plan).
  returned: always
  type: str
would_change:
  description:
    - Whether something would be changed; C(changed) is then V(false), as nothing is.
  returned: with C(plan_only)
  type: bool
diff:
  description:
    - The state before and after, read after execution.
  returned: when run with C(--diff)
  type: dict
  contains:
    before:
      description:
        - The state before.
      returned: always
      type: dict
    after:
      description:
        - The state after.
      returned: always
      type: dict
waited_for:
  description:
    - Locks and running tasks that were waited for before planning.
  returned: when something was waited for
  type: list
  elements: str
replanned:
  description:
    - Why the plan was made anew during the run.
  returned: when the plan was made anew
  type: list
  elements: str
applied:
  description:
    - The steps of RV(plan) that had been done when the task failed.
  returned: on failure
  type: list
  elements: dict
remaining:
  description:
    - The steps of RV(plan) that had not been done when the task failed.
  returned: on failure
  type: list
  elements: dict
"""

import platform

from ansible.module_utils.basic import AnsibleModule, env_fallback


class MissingBinary(AnsibleModule):
    """Answers everything, wrong arguments included, with the one thing that is wrong here."""

    def fail_json(self, msg=None, **kwargs):
        super().fail_json(
            msg=(
                "unable to run trueplan.virt.pve_nic 0.1.0: its native binary for %s %s is not installed; "
                "install a release of the collection that holds it (ansible-galaxy collection install --force trueplan.virt), "
                "build it from source (cargo xtask dist), or run the task on a host of a supported platform "
                "(delegate_to: localhost)" % (platform.system(), platform.machine())
            ),
            changed=False,
            error_kind="internal",
        )


def main():
    module = MissingBinary(
        argument_spec={
            "vmid": {"type": "int"},
            "name": {"type": "str"},
            "node": {"type": "str"},
            "interface": {"type": "str", "required": True},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "bridge": {"type": "str"},
            "firewall": {"type": "bool", "default": False},
            "link_down": {"type": "bool", "default": False},
            "mac": {"type": "str"},
            "model": {
                "type": "str",
                "default": "virtio",
                "choices": [
                    "e1000",
                    "e1000-82540em",
                    "e1000-82544gc",
                    "e1000-82545em",
                    "e1000e",
                    "i82551",
                    "i82557b",
                    "i82559er",
                    "ne2k_isa",
                    "ne2k_pci",
                    "pcnet",
                    "rtl8139",
                    "virtio",
                    "vmxnet3",
                ],
            },
            "mtu": {"type": "int"},
            "queues": {"type": "int"},
            "rate": {"type": "float"},
            "tag": {"type": "int"},
            "trunks": {"type": "list", "elements": "str"},
            "unset": {
                "type": "list",
                "elements": "str",
                "choices": ["bridge", "firewall", "link_down", "mtu", "queues", "rate", "tag", "trunks"],
            },
            "timeout": {"type": "int", "default": 60},
            "api_host": {"type": "str", "required": True, "fallback": (env_fallback, ["PROXMOX_HOST"])},
            "api_port": {"type": "int", "fallback": (env_fallback, ["PROXMOX_PORT"])},
            "api_user": {"type": "str", "fallback": (env_fallback, ["PROXMOX_USER"])},
            "api_password": {"type": "str", "fallback": (env_fallback, ["PROXMOX_PASSWORD"]), "no_log": True},
            "api_token_id": {"type": "str", "fallback": (env_fallback, ["PROXMOX_TOKEN_ID"]), "no_log": False},
            "api_token_secret": {"type": "str", "fallback": (env_fallback, ["PROXMOX_TOKEN_SECRET"]), "no_log": True},
            "api_otp": {"type": "str", "fallback": (env_fallback, ["PROXMOX_OTP"]), "no_log": True},
            "validate_certs": {"type": "bool", "default": True, "fallback": (env_fallback, ["PROXMOX_VALIDATE_CERTS"])},
            "ca_path": {"type": "path", "fallback": (env_fallback, ["PROXMOX_CA_PATH"])},
            "api_timeout": {"type": "int", "default": 30, "fallback": (env_fallback, ["PROXMOX_API_TIMEOUT"])},
            "api_fingerprint": {"type": "str", "fallback": (env_fallback, ["PROXMOX_FINGERPRINT"])},
            "guard_uuid": {"type": "str"},
            "expect_plan": {"type": "str"},
            "plan_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
        required_one_of=[["name", "vmid"], ["api_password", "api_token_id"]],
        required_together=[["api_token_id", "api_token_secret"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
