#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.vsphere_vm_info; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vsphere_vm_info
short_description: Read what a migration must know of virtual machines
version_added: '0.1.0'
description:
  - Returns identity, hardware, disks, network cards, snapshots and state of one machine or of many, in one query, and
    the concerns about migrating each.
  - In check mode, machines that earlier tasks of the run would have changed are returned as they would be then.
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
  name:
    description:
      - Name of one machine. Several of that name are an error that lists them.
    type: str
    aliases:
      - vm_name
  uuid:
    description:
      - BIOS uuid of one machine, or its instance uuid with O(use_instance_uuid=true).
    type: str
    aliases:
      - vm_uuid
  moid:
    description:
      - Managed object id of one machine, such as V(vm-12).
    type: str
  use_instance_uuid:
    description:
      - Whether O(uuid) is vCenter's instance uuid.
    type: bool
    default: false
  names:
    description:
      - Names of several machines. Without this and all of the above, all machines are returned.
    type: list
    elements: str
  moids:
    description:
      - Managed object ids of several machines.
    type: list
    elements: str
  datacenter:
    description:
      - Name (or moid) of the datacenter in which names are looked for. Without it they are looked for everywhere; two
        matches are an error.
    type: str
    aliases:
      - datacenter_name
  guard_uuid:
    description:
      - The machine found must have this BIOS uuid (C(config.uuid)); another one, or none, is refused.
    type: str
  destination_datastore:
    description:
      - 'Name of a datastore that the machines are to move to: its free space is compared with their bytes, see
        RV(batch).'
    type: str
  concerns:
    description:
      - Whether C(concerns) are found out, for which networks and the names of all machines are read as well.
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
  - O(name), O(uuid), O(moid), O(names) and O(moids) exclude each other.
  - 'Privilege for reading: C(System.Read) on the VM, its hosts, datastores and networks.'
"""

EXAMPLES = r"""
- name: Look at the machine right before its cutover
  trueplan.virt.vsphere_vm_info:
    hostname: vcenter.example.com
    username: administrator@vsphere.local
    password: "{{ vcenter_password }}"
    moid: "{{ vm_moid }}"
    guard_uuid: "{{ config.uuid }}"
  register: source
"""

RETURN = r"""
vms:
  description:
    - The machines.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description:
        - Name.
      returned: always
      type: str
    moid:
      description:
        - Managed object id.
      returned: always
      type: str
    uuid:
      description:
        - BIOS uuid as vCenter writes it; what O(guard_uuid) is compared with.
      returned: always
      type: str
    instance_uuid:
      description:
        - vCenter's own uuid.
      returned: always
      type: str
    smbios_uuid:
      description:
        - The uuid that a Proxmox guest must be given so that the guest goes on seeing the same.
      returned: always
      type: str
    dns_name:
      description:
        - 'The name as Proxmox VE takes it: a valid DNS name, made of the machine''s name in always the same way.'
      returned: always
      type: str
    smbios_serial:
      description:
        - The serial number that the guest sees.
      returned: always
      type: str
    firmware:
      description:
        - V(bios) or V(efi).
      returned: always
      type: str
    secure_boot:
      description:
        - Whether Secure Boot is on.
      returned: always
      type: bool
    vtpm:
      description:
        - Whether there is a virtual TPM.
      returned: always
      type: bool
    cpus:
      description:
        - vCPUs in all.
      returned: always
      type: int
    cores_per_socket:
      description:
        - Cores per socket.
      returned: always
      type: int
    memory_mb:
      description:
        - Memory in MiB.
      returned: always
      type: int
    power:
      description:
        - V(poweredOn), V(poweredOff) or V(suspended).
      returned: always
      type: str
    guest_id:
      description:
        - VMware's id of the guest's system.
      returned: always
      type: str
    tools:
      description:
        - 'VMware Tools: C(running), C(version), C(installer_mounted).'
      returned: always
      type: dict
    nics:
      description:
        - 'Network cards in slot order: C(mac), C(model), C(kind), C(portgroup_key), C(portgroup), C(switch), C(vlan),
          C(label), C(key).'
      returned: always
      type: list
      elements: dict
    disks:
      description:
        - 'Disks in the order in which the guest meets them (SCSI, SATA, NVMe, IDE; bus number; unit): C(key), C(label),
          C(bus), C(bus_number), C(unit), C(path), C(datastore), C(data_file), C(bytes), C(mode), C(rdm), C(sharing),
          C(snapshot_parent), C(boot).'
      returned: always
      type: list
      elements: dict
    snapshots:
      description:
        - Snapshots, parents first.
      returned: always
      type: list
      elements: dict
    datastore_states:
      description:
        - 'The datastores that it lies on: C(moid), C(name), C(accessible), C(maintenance), C(capacity), C(free)
          (bytes).'
      returned: always
      type: list
      elements: dict
    concerns:
      description:
        - 'What would make a migration fail or surprise: C(id), C(severity) (V(blocker) or V(warning)), C(message).'
      returned: with O(concerns=true)
      type: list
      elements: dict
vm:
  description:
    - The same as the only item of RV(vms).
  returned: when one machine was asked for
  type: dict
batch:
  description:
    - C(bytes) of these machines' disks that are not on C(datastore) yet, its C(free) and C(capacity), and whether they
      C(fits); null where it cannot be read.
  returned: with O(destination_datastore)
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
"""

import platform

from ansible.module_utils.basic import AnsibleModule, env_fallback


class MissingBinary(AnsibleModule):
    """Answers everything, wrong arguments included, with the one thing that is wrong here."""

    def fail_json(self, msg=None, **kwargs):
        super().fail_json(
            msg=(
                "unable to run trueplan.virt.vsphere_vm_info 0.1.0: its native binary for %s %s is not installed; "
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
            "name": {"type": "str", "aliases": ["vm_name"]},
            "uuid": {"type": "str", "aliases": ["vm_uuid"]},
            "moid": {"type": "str"},
            "use_instance_uuid": {"type": "bool", "default": False},
            "names": {"type": "list", "elements": "str"},
            "moids": {"type": "list", "elements": "str"},
            "datacenter": {"type": "str", "aliases": ["datacenter_name"]},
            "guard_uuid": {"type": "str"},
            "destination_datastore": {"type": "str"},
            "concerns": {"type": "bool", "default": True},
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
        mutually_exclusive=[["name", "uuid", "moid", "names", "moids"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
