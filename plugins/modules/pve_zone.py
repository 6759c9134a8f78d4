#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_zone; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_zone
short_description: Manage SDN zones of a Proxmox VE cluster
version_added: '0.1.0'
description:
  - Adds, changes and removes an SDN zone and applies the change on the nodes.
  - 'A zone that is as wanted is left alone: no lock, no apply, no reload of the network. Options that are not named
    keep their values.'
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
  zone:
    description:
      - 'Id of the zone: a letter, then letters and digits, 2 to 8 characters.'
    type: str
  state:
    description:
      - Whether the zone shall be there.
    type: str
    choices:
      - present
      - absent
    default: present
  type:
    description:
      - Type of the zone. It cannot be changed later.
    type: str
    choices:
      - evpn
      - faucet
      - qinq
      - simple
      - vlan
      - vxlan
  update:
    description:
      - Whether a zone that is there is changed.
    type: bool
    default: true
  unset:
    description:
      - Options to be removed from the zone.
    type: list
    elements: str
    choices:
      - advertise_subnets
      - bridge_disable_mac_learning
      - dhcp
      - disable_arp_nd_suppression
      - dns
      - dnszone
      - exitnodes
      - exitnodes_local_routing
      - exitnodes_primary
      - fabric
      - ipam
      - mac
      - mtu
      - nodes
      - peers
      - reversedns
      - rt_import
      - tag
      - vlan_protocol
      - vrf_vxlan
      - vxlan_port
  advertise_subnets:
    description:
      - Advertise the subnets of an EVPN zone.
    type: bool
  bridge:
    description:
      - Bridge of the nodes that a V(vlan) or V(qinq) zone uses. It must be there on every node of the zone.
    type: str
  bridge_disable_mac_learning:
    description:
      - Switch off the learning of MAC addresses.
    type: bool
  controller:
    description:
      - Controller of an EVPN zone.
    type: str
  dhcp:
    description:
      - DHCP server of the zone.
    type: str
    choices:
      - dnsmasq
  disable_arp_nd_suppression:
    description:
      - Switch off the suppression of ARP and ND.
    type: bool
  dns:
    description:
      - DNS API server.
    type: str
  dnszone:
    description:
      - Domain of the DNS zone.
    type: str
  dp_id:
    description:
      - Dataplane id of a faucet zone.
    type: int
  exitnodes:
    description:
      - Exit nodes of an EVPN zone, separated by commas; a set.
    type: str
  exitnodes_local_routing:
    description:
      - Let exit nodes reach the guests.
    type: bool
  exitnodes_primary:
    description:
      - The exit node that is preferred.
    type: str
  fabric:
    description:
      - Fabric of a V(vxlan) zone, instead of O(peers).
    type: str
  ipam:
    description:
      - IP address management.
    type: str
  mac:
    description:
      - MAC address of the gateways of an EVPN zone.
    type: str
  mtu:
    description:
      - MTU of the zone's vnets.
    type: int
  nodes:
    description:
      - Nodes of the zone, separated by commas; a set. Without it, all.
    type: str
  peers:
    description:
      - Addresses of the peers of a V(vxlan) zone, separated by commas; a set.
    type: str
  reversedns:
    description:
      - Reverse DNS API server.
    type: str
  rt_import:
    description:
      - Route targets that an EVPN zone imports.
    type: str
  tag:
    description:
      - Service VLAN of a V(qinq) zone.
      - From V(0) to V(16777215).
    type: int
  vlan_protocol:
    description:
      - Protocol of the service VLAN of a V(qinq) zone.
    type: str
    choices:
      - '802.1q'
      - '802.1ad'
  vrf_vxlan:
    description:
      - VRF of an EVPN zone.
      - From V(1) to V(16777215).
    type: int
  vxlan_port:
    description:
      - UDP port of a V(vxlan) zone.
      - From V(1) to V(65536).
    type: int
  apply:
    description:
      - Apply the change on the nodes. With V(false) it is only stored and left to a later task, which needs
        O(allow_pending).
    type: bool
    default: true
  allow_pending:
    description:
      - 'Other SDN changes that wait to be applied and may be applied along: a list of ids, or V(true) for all. Applying
        is for all changes at once, so without this the task is refused when there are any.'
    type: raw
  break_lock:
    description:
      - Take away the SDN lock of somebody else first (Proxmox VE 9). Only when its holder is dead.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait for somebody's SDN lock, and for the nodes to have applied the change.
      - From V(0) to V(86400).
    type: int
    default: 60
  plan_only:
    description:
      - 'Only plan: nothing is sent or remembered, RV(would_change) says what would be.'
    type: bool
    default: false
  expect_plan:
    description:
      - The RV(plan_id) of an earlier run, usually of one with C(--check). If the plan has become another one, the task
        fails before anything is written.
    type: str
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
notes:
  - 'Applying SDN changes is for the whole cluster: what others left pending would be applied along. The task is refused
    then, unless O(allow_pending) names it.'
  - Nobody can see whether the SDN lock is held, also not in check mode; it is waited for when a change is made.
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(state=present) needs O(type) and O(zone).
  - O(state=absent) needs O(zone).
  - 'Privilege for writing a zone: C(SDN.Allocate) on C(/sdn/zones) for a new one, else C(/sdn/zones/ZONE).'
  - 'Privilege for the lock and applying: C(SDN.Allocate) on C(/sdn).'
  - 'Privilege for seeing zones, vnets and bridges: lists leave out silently what one may not see: C(SDN.Audit) on
    C(/sdn/zones).'
  - 'Privilege for following the reload of each node; without it the state of the zones is asked instead: C(Sys.Audit)
    on C(/nodes/NODE).'
seealso:
  - module: community.proxmox.proxmox_zone
    description: The Python module that M(trueplan.virt.pve_zone) replaces.
"""

EXAMPLES = r"""
- name: A zone for the VLANs of vmbr1
  trueplan.virt.pve_zone:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    zone: zvlan
    type: vlan
    bridge: vmbr1
"""

RETURN = r"""
zone:
  description:
    - Id of the zone.
  returned: success
  type: str
  sample: zvlan
config:
  description:
    - The zone as it is stored now, or null.
  returned: success
  type: dict
pending:
  description:
    - The zone's id if it still waits to be applied, else nothing.
  returned: success
  type: list
  elements: str
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
                "unable to run trueplan.virt.pve_zone 0.1.0: its native binary for %s %s is not installed; "
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
            "zone": {"type": "str"},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "type": {"type": "str", "choices": ["evpn", "faucet", "qinq", "simple", "vlan", "vxlan"]},
            "update": {"type": "bool", "default": True},
            "unset": {
                "type": "list",
                "elements": "str",
                "choices": [
                    "advertise_subnets",
                    "bridge_disable_mac_learning",
                    "dhcp",
                    "disable_arp_nd_suppression",
                    "dns",
                    "dnszone",
                    "exitnodes",
                    "exitnodes_local_routing",
                    "exitnodes_primary",
                    "fabric",
                    "ipam",
                    "mac",
                    "mtu",
                    "nodes",
                    "peers",
                    "reversedns",
                    "rt_import",
                    "tag",
                    "vlan_protocol",
                    "vrf_vxlan",
                    "vxlan_port",
                ],
            },
            "advertise_subnets": {"type": "bool"},
            "bridge": {"type": "str"},
            "bridge_disable_mac_learning": {"type": "bool"},
            "controller": {"type": "str"},
            "dhcp": {"type": "str", "choices": ["dnsmasq"]},
            "disable_arp_nd_suppression": {"type": "bool"},
            "dns": {"type": "str"},
            "dnszone": {"type": "str"},
            "dp_id": {"type": "int"},
            "exitnodes": {"type": "str"},
            "exitnodes_local_routing": {"type": "bool"},
            "exitnodes_primary": {"type": "str"},
            "fabric": {"type": "str"},
            "ipam": {"type": "str"},
            "mac": {"type": "str"},
            "mtu": {"type": "int"},
            "nodes": {"type": "str"},
            "peers": {"type": "str"},
            "reversedns": {"type": "str"},
            "rt_import": {"type": "str"},
            "tag": {"type": "int"},
            "vlan_protocol": {"type": "str", "choices": ["802.1q", "802.1ad"]},
            "vrf_vxlan": {"type": "int"},
            "vxlan_port": {"type": "int"},
            "apply": {"type": "bool", "default": True},
            "allow_pending": {"type": "raw"},
            "break_lock": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
            "plan_only": {"type": "bool", "default": False},
            "expect_plan": {"type": "str"},
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
        },
        supports_check_mode=True,
        required_if=[("state", "present", ["type", "zone"]), ("state", "absent", ["zone"])],
        required_one_of=[["api_password", "api_token_id"]],
        required_together=[["api_token_id", "api_token_secret"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
