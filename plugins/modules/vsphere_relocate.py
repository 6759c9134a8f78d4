#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.vsphere_relocate; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vsphere_relocate
short_description: Move vSphere VMs and their disks to other datastores and hosts
version_added: '0.1.0'
description:
  - 'Moves a virtual machine''s files, single disks, or the machine itself. It is done when its own files and every disk
    lie where asked, whatever else it touches: an inserted ISO image does not count.'
  - A relocation that already runs on the VM is joined, never doubled; then everything is looked at again.
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
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: full
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
options:
  vm_name:
    description:
      - Name of the VM. Two VMs of one name are an error that lists them.
    type: str
    aliases:
      - vm
  vm_uuid:
    description:
      - BIOS uuid of the VM, or the instance uuid with O(use_instance_uuid).
    type: str
    aliases:
      - uuid
  moid:
    description:
      - Managed object id of the VM, such as C(vm-42).
    type: str
  use_instance_uuid:
    description:
      - Whether O(vm_uuid) is vCenter's own instance uuid.
    type: bool
    default: false
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
  destination_host:
    description:
      - Name of the host that the VM shall run on.
    type: str
    aliases:
      - destination
  destination_cluster:
    description:
      - Name of the cluster that the VM shall run in. DRS chooses the host; without DRS it is the first by name that
        sees all datastores.
    type: str
  destination_datastore:
    description:
      - Name of the datastore that the VM's own files and all disks not named by O(disks) shall lie on.
    type: str
    aliases:
      - datastore
  destination_datastore_cluster:
    description:
      - Name of the datastore cluster in which the VM's files and disks shall lie. What lies in it stays; the rest goes
        where Storage DRS recommends, or, where that is off or may not be asked, to the usable datastore with the most
        free space.
    type: str
  destination_datacenter:
    description:
      - Name of the datacenter in which the destination's names are looked for. If not given, it is that of the
        destination's host or cluster, else the VM's.
    type: str
  destination_resourcepool:
    description:
      - Name of the resource pool, looked for in the destination's cluster or host. If not given, the VM keeps its own,
        or gets the root pool when it goes to another cluster.
    type: str
    aliases:
      - resource_pool
  disks:
    description:
      - Datastores of single disks.
    type: list
    elements: dict
    suboptions:
      key:
        description:
          - Key of the disk's device, such as V(2000).
        type: int
      label:
        description:
          - Label of the disk, such as C(Hard disk 1).
        type: str
      datastore:
        description:
          - Name of the datastore that the disk shall lie on.
        type: str
        required: true
  disk_format:
    description:
      - Format of the disks that are moved. It alone moves nothing. On NFS without hardware acceleration disks are thin
        whatever is asked for.
    type: str
    choices:
      - same
      - thin
      - thick
    default: same
  max_running:
    description:
      - Waits while so many relocations run in this vCenter; it does not say where they go, so all count. Two tasks that
        look at the same moment may both start.
      - From V(1) to V(1000).
    type: int
  timeout:
    description:
      - Seconds to wait for the end. After that the task fails, the relocation goes on, and the next run joins it.
      - From V(1) to V(604800).
    type: int
    default: 3600
  wait:
    description:
      - Whether to wait for the end. If not, RV(task) says what to look at.
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
  - At least one of O(vm_name), O(vm_uuid) and O(moid) is required.
  - At least one of O(destination_host), O(destination_cluster), O(destination_datastore),
    O(destination_datastore_cluster), O(destination_resourcepool) and O(disks) is required.
  - O(vm_name), O(vm_uuid) and O(moid) exclude each other.
  - O(destination_host) and O(destination_cluster) exclude each other.
  - O(destination_datastore) and O(destination_datastore_cluster) exclude each other.
  - 'Privilege for reading: C(System.Read) on the VM, its hosts, datastores and networks.'
  - 'Privilege for moving: C(Resource.HotMigrate); C(Resource.ColdMigrate) while it is off on the VM.'
  - 'Privilege for another host or resource pool: C(Resource.AssignVMToPool) on the resource pool that it goes to.'
  - 'Privilege for its files and disks: C(Datastore.AllocateSpace) on the datastore that it goes to.'
seealso:
  - module: community.vmware.vmware_vmotion
    description: The Python module that M(trueplan.virt.vsphere_relocate) replaces.
"""

EXAMPLES = r"""
- name: Move the VM to the NFS export that both sides mount
  trueplan.virt.vsphere_relocate:
    hostname: vcenter.example.com
    username: migrate@vsphere.local
    password: "{{ vault_vcenter_password }}"
    moid: vm-1042
    destination_datastore: nfs-migration
    max_running: 4
"""

RETURN = r"""
running_host:
  description:
    - Name of the host after the task; null in check mode where DRS chooses it.
  returned: on success
  type: str
datastore:
  description:
    - Name of the datastore of the VM's own files after the task.
  returned: on success
  type: str
moid:
  description:
    - The VM's managed object id.
  returned: on success
  type: str
task:
  description:
    - Managed object id of vCenter's task that was started or joined; null if there was none, and in check mode.
  returned: on success
  type: str
percent:
  description:
    - How far the task is, if vCenter says so.
  returned: on timeout
  type: int
disks:
  description:
    - The disks, in the order in which the guest meets them.
  returned: on success
  type: list
  elements: dict
  contains:
    key:
      description:
        - Key of the disk's device.
      returned: always
      type: int
    label:
      description:
        - Its label.
      returned: always
      type: str
    path_before:
      description:
        - Its descriptor before.
      returned: always
      type: str
    path:
      description:
        - Its descriptor after; in check mode the best guess, since the server names folders and files.
      returned: always
      type: str
    datastore:
      description:
        - The datastore after.
      returned: always
      type: str
    bytes:
      description:
        - Size of the disk.
      returned: always
      type: int
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
                "unable to run trueplan.virt.vsphere_relocate 0.1.0: its native binary for %s %s is not installed; "
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
            "vm_name": {"type": "str", "aliases": ["vm"]},
            "vm_uuid": {"type": "str", "aliases": ["uuid"]},
            "moid": {"type": "str"},
            "use_instance_uuid": {"type": "bool", "default": False},
            "datacenter": {"type": "str", "aliases": ["datacenter_name"]},
            "guard_uuid": {"type": "str"},
            "destination_host": {"type": "str", "aliases": ["destination"]},
            "destination_cluster": {"type": "str"},
            "destination_datastore": {"type": "str", "aliases": ["datastore"]},
            "destination_datastore_cluster": {"type": "str"},
            "destination_datacenter": {"type": "str"},
            "destination_resourcepool": {"type": "str", "aliases": ["resource_pool"]},
            "disks": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "key": {"type": "int", "no_log": False},
                    "label": {"type": "str"},
                    "datastore": {"type": "str", "required": True},
                },
            },
            "disk_format": {"type": "str", "default": "same", "choices": ["same", "thin", "thick"]},
            "max_running": {"type": "int"},
            "timeout": {"type": "int", "default": 3600},
            "wait": {"type": "bool", "default": True},
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
            "expect_plan": {"type": "str"},
            "plan_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
        required_one_of=[
            ["vm_name", "vm_uuid", "moid"],
            ["destination_host", "destination_cluster", "destination_datastore", "destination_datastore_cluster", "destination_resourcepool", "disks"],
        ],
        mutually_exclusive=[
            ["vm_name", "vm_uuid", "moid"],
            ["destination_host", "destination_cluster"],
            ["destination_datastore", "destination_datastore_cluster"],
        ],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
