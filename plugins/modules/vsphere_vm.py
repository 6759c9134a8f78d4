#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.vsphere_vm; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vsphere_vm
short_description: Remove a vSphere VM, with its files or from the inventory only
version_added: '0.1.0'
description:
  - 'Takes a virtual machine out of vCenter: out of the inventory only, or with all its files. Options and meaning are
    those of M(community.vmware.vmware_guest) with O(state=absent).'
  - 'Says beforehand what must not be removed: a VM that is on, and disks that another VM uses.'
  - A VM that is not there is unchanged. One that this user may not see looks the same.
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
  state:
    description:
      - 'V(absent): there is no such VM. Making and changing VMs is none of this module''s business.'
    type: str
    required: true
    choices:
      - absent
  delete_from_inventory:
    description:
      - 'Only take the VM out of the inventory (unregister it): every file stays, and the VM can be registered again
        from RV(vmx). Otherwise its files are deleted with all its disks.'
    type: bool
    default: false
  force:
    description:
      - Power off a VM that is on, or drop the memory of a suspended one, before it goes. Without it such a VM is
        refused.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait for another running task of the VM, and again for our own.
      - From V(1) to V(604800).
    type: int
    default: 3600
  name:
    description:
      - Name of the VM. Two VMs of one name are an error that lists them, unless O(name_match) or O(folder) tells which
        is meant.
    type: str
  uuid:
    description:
      - BIOS uuid of the VM, or the instance uuid with O(use_instance_uuid).
    type: str
  moid:
    description:
      - Managed object id of the VM, such as C(vm-42).
    type: str
  use_instance_uuid:
    description:
      - Whether O(uuid) is vCenter's own instance uuid.
    type: bool
    default: false
  name_match:
    description:
      - 'Which of several VMs of one name is meant, by the order in which vCenter made them. Counts only when it is
        written in the task: unlike in the peer, the default picks none of several.'
    type: str
    choices:
      - first
      - last
    default: first
  datacenter:
    description:
      - Name (or moid) of the datacenter in which names are looked for. Without it they are looked for everywhere; two
        matches are an error.
    type: str
    aliases:
      - datacenter_name
  folder:
    description:
      - 'The VM must be in this folder or below it; with or without C(<datacenter>/vm/) in front. Counts when the VM is
        named by O(name).'
    type: str
  folder_paths_are_absolute:
    description:
      - Whether O(folder) is a whole inventory path.
    type: bool
    default: false
  guard_uuid:
    description:
      - The machine found must have this BIOS uuid (C(config.uuid)); another one, or none, is refused.
    type: str
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
  - At least one of O(name), O(uuid) and O(moid) is required.
  - O(name), O(uuid) and O(moid) exclude each other.
  - 'Privilege for reading: C(System.Read) on the VM, its hosts, datastores and networks.'
  - 'Privilege for taking it out of the inventory: C(VirtualMachine.Inventory.Unregister) on the VM.'
  - 'Privilege for deleting it with its files: C(VirtualMachine.Inventory.Delete) on the VM and its folder.'
"""

EXAMPLES = r"""
- name: Take the migrated VM out of the inventory, and keep its files
  trueplan.virt.vsphere_vm:
    hostname: vcenter.example.com
    username: migrate@vsphere.local
    password: "{{ vault_vcenter_password }}"
    moid: vm-1042
    state: absent
    delete_from_inventory: true
"""

RETURN = r"""
vm:
  description:
    - The VM, or null if there was none.
  returned: on success
  type: dict
  contains:
    moid:
      description:
        - Its managed object id.
      returned: always
      type: str
    name:
      description:
        - Its name.
      returned: always
      type: str
vmx:
  description:
    - Path of its configuration file, by which it can be registered again; null if there was no VM.
  returned: on success
  type: str
files:
  description:
    - 'Its files: those that stay with O(delete_from_inventory), else those that are gone.'
  returned: on success
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
                "unable to run trueplan.virt.vsphere_vm 0.1.0: its native binary for %s %s is not installed; "
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
            "state": {"type": "str", "required": True, "choices": ["absent"]},
            "delete_from_inventory": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 3600},
            "name": {"type": "str"},
            "uuid": {"type": "str"},
            "moid": {"type": "str"},
            "use_instance_uuid": {"type": "bool", "default": False},
            "name_match": {"type": "str", "default": "first", "choices": ["first", "last"]},
            "datacenter": {"type": "str", "aliases": ["datacenter_name"]},
            "folder": {"type": "str"},
            "folder_paths_are_absolute": {"type": "bool", "default": False},
            "guard_uuid": {"type": "str"},
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
        required_one_of=[["name", "uuid", "moid"]],
        mutually_exclusive=[["name", "uuid", "moid"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
