#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.vsphere_portgroups; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vsphere_portgroups
short_description: List the networks of a vCenter with their VLANs
version_added: '0.1.0'
description:
  - Reads distributed portgroups, standard portgroups and opaque networks in one query, however many there are.
  - A standalone ESXi host has standard portgroups only.
author:
  - 'The trueplan authors (@trueplan)'
attributes:
  action_group:
    description: Use one of these groups in C(module_defaults) to set defaults for all its modules.
    support: full
    membership:
      - trueplan.virt.vsphere
      - trueplan.virt.vmware
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details: This action does not modify state.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: N/A
    details: This action does not modify state.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
options:
  datacenter:
    description:
      - Name (or moid) of the datacenter in which names are looked for. Without it they are looked for everywhere; two
        matches are an error.
    type: str
    aliases:
      - datacenter_name
  dvswitch:
    description:
      - Only the portgroups of that distributed switch.
    type: str
    aliases:
      - dvs
  show_mac_learning:
    description:
      - Whether C(mac_learning) is filled.
    type: bool
    default: true
  show_network_policy:
    description:
      - Whether C(network_policy) is filled.
    type: bool
    default: true
  show_port_policy:
    description:
      - Whether C(port_policy) is filled.
    type: bool
    default: true
  show_teaming_policy:
    description:
      - Whether C(teaming_policy) is filled.
    type: bool
    default: true
  show_uplinks:
    description:
      - Whether C(active_uplinks) and C(standby_uplinks) are filled.
    type: bool
    default: true
  show_vlan_info:
    description:
      - Whether C(vlan_info) is filled.
    type: bool
    default: true
  hostname:
    description:
      - Host name or address of the vCenter or of the standalone ESXi host.
      - If not given, the environment variable E(VMWARE_HOST) is used.
    type: str
  username:
    description:
      - User name.
      - If not given, the environment variable E(VMWARE_USER) is used.
    type: str
    aliases:
      - user
      - admin
  password:
    description:
      - Password.
      - If not given, the environment variable E(VMWARE_PASSWORD) is used.
    type: str
    aliases:
      - pass
      - pwd
  port:
    description:
      - TCP port of the API.
      - From V(1) to V(65535).
      - If not given, the environment variable E(VMWARE_PORT) is used.
    type: int
    default: 443
  validate_certs:
    description:
      - Whether the server's certificate must be valid. A O(thumbprint) replaces that.
      - If not given, the environment variable E(VMWARE_VALIDATE_CERTS) is used.
    type: bool
    default: true
  proxy_host:
    description:
      - An HTTP proxy to reach the server through.
      - If not given, the environment variable E(VMWARE_PROXY_HOST) is used.
    type: str
  proxy_port:
    description:
      - The proxy's port.
      - From V(1) to V(65535).
      - If not given, the environment variable E(VMWARE_PROXY_PORT) is used.
    type: int
  ca_path:
    description:
      - A PEM file with the CA's certificate, or with the server's own if it is self-signed.
      - If not given, the environment variable E(VMWARE_CA_PATH) is used.
    type: path
  thumbprint:
    description:
      - SHA-1 or SHA-256 of the server's certificate, in hexadecimal; pins it, also with O(validate_certs=false).
      - If not given, the environment variable E(VMWARE_THUMBPRINT) is used.
    type: str
  api_timeout:
    description:
      - Seconds for a connection, and again for a short answer; a page of a report may take ten times as long.
      - From V(1) to V(3600).
      - If not given, the environment variable E(VMWARE_API_TIMEOUT) is used.
    type: int
    default: 30
notes:
  - 'Privilege for reading; without it on a switch the VLANs of its portgroups are not known: C(System.Read) on the
    networks and their distributed switches.'
seealso:
  - module: community.vmware.vmware_dvs_portgroup_info
    description: The Python module that M(trueplan.virt.vsphere_portgroups) replaces.
"""

EXAMPLES = r"""
- name: Which portgroup is which VLAN
  trueplan.virt.vsphere_portgroups:
    hostname: vcenter.example.com
    username: administrator@vsphere.local
    password: "{{ vcenter_password }}"
    datacenter: DC1
  register: networks
"""

RETURN = r"""
dvs_portgroup_info:
  description:
    - For each distributed switch, by name, the list of its portgroups, in the shape of
      C(community.vmware.vmware_dvs_portgroup_info). A section that the switch does not have, or that was not asked for,
      is empty.
  returned: always
  type: dict
portgroups:
  description:
    - All distributed portgroups, standard portgroups and opaque networks in one shape. A standard portgroup on which
      hosts disagree stands once for each variant.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description:
        - Name.
      returned: always
      type: str
    key:
      description:
        - 'What a network card refers to: the portgroup''s key, a standard network''s moid, an opaque network''s id.'
      returned: always
      type: str
    switch:
      description:
        - Name of its switch; null for an opaque network.
      returned: always
      type: str
    kind:
      description:
        - V(distributed), V(standard) or V(opaque).
      returned: always
      type: str
    uplink:
      description:
        - Whether it is a switch's uplink portgroup.
      returned: always
      type: bool
    vlan:
      description:
        - C(mode) is V(access), V(trunk), V(pvlan) or V(none); C(id), C(ranges) as pairs, C(pvlan_id).
      returned: always
      type: dict
    nsx:
      description:
        - Whether NSX backs it.
      returned: always
      type: bool
vlan_map:
  description:
    - From the key of a distributed portgroup to its VLAN id, for those with one VLAN of 1 to 4094 that are neither
      uplink nor backed by NSX.
  returned: always
  type: dict
  sample:
    dvportgroup-42: 100
not_translated:
  description:
    - All other networks, each with C(key), C(name), C(switch), C(kind), C(cause) (V(untagged), V(trunk), V(pvlan),
      V(uplink), V(nsx), V(opaque), V(standard)) and C(reason) in words.
  returned: always
  type: list
  elements: dict
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
"""

import platform

from ansible.module_utils.basic import AnsibleModule, env_fallback


class MissingBinary(AnsibleModule):
    """Answers everything, wrong arguments included, with the one thing that is wrong here."""

    def fail_json(self, msg=None, **kwargs):
        super().fail_json(
            msg=(
                "unable to run trueplan.virt.vsphere_portgroups 0.1.0: its native binary for %s %s is not installed; "
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
            "datacenter": {"type": "str", "aliases": ["datacenter_name"]},
            "dvswitch": {"type": "str", "aliases": ["dvs"]},
            "show_mac_learning": {"type": "bool", "default": True},
            "show_network_policy": {"type": "bool", "default": True},
            "show_port_policy": {"type": "bool", "default": True},
            "show_teaming_policy": {"type": "bool", "default": True},
            "show_uplinks": {"type": "bool", "default": True},
            "show_vlan_info": {"type": "bool", "default": True},
            "hostname": {"type": "str", "fallback": (env_fallback, ["VMWARE_HOST"])},
            "username": {"type": "str", "aliases": ["user", "admin"], "fallback": (env_fallback, ["VMWARE_USER"])},
            "password": {
                "type": "str",
                "aliases": ["pass", "pwd"],
                "fallback": (env_fallback, ["VMWARE_PASSWORD"]),
                "no_log": True,
            },
            "port": {"type": "int", "default": 443, "fallback": (env_fallback, ["VMWARE_PORT"])},
            "validate_certs": {"type": "bool", "default": True, "fallback": (env_fallback, ["VMWARE_VALIDATE_CERTS"])},
            "proxy_host": {"type": "str", "fallback": (env_fallback, ["VMWARE_PROXY_HOST"])},
            "proxy_port": {"type": "int", "fallback": (env_fallback, ["VMWARE_PROXY_PORT"])},
            "ca_path": {"type": "path", "fallback": (env_fallback, ["VMWARE_CA_PATH"])},
            "thumbprint": {"type": "str", "fallback": (env_fallback, ["VMWARE_THUMBPRINT"])},
            "api_timeout": {"type": "int", "default": 30, "fallback": (env_fallback, ["VMWARE_API_TIMEOUT"])},
        },
        supports_check_mode=True,
    )
    module.fail_json()


if __name__ == "__main__":
    main()
