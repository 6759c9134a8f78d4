#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_vm_info; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_vm_info
short_description: Look at guests of a Proxmox VE cluster
version_added: '0.1.0'
description:
  - Lists guests; none is a result too.
  - The configuration is read when O(config) asks for it, and always for guests that O(vmid) or O(name) select.
  - A guest whose node or agent does not answer stays in the list, with a warning.
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
    details: This action does not modify state. In check mode it shows what earlier tasks of the run have planned.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: N/A
    details: This action does not modify state.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
options:
  node:
    description:
      - Only guests on this node.
    type: str
  type:
    description:
      - Only guests of this type.
    type: str
    choices:
      - lxc
      - qemu
      - all
    default: all
  vmid:
    description:
      - Only the guest with this id.
    type: int
  name:
    description:
      - Only guests with this name.
    type: str
  config:
    description:
      - Whether the configuration is returned, the one that runs (V(current)) or the one of the next start (V(pending)).
    type: str
    choices:
      - 'none'
      - current
      - pending
    default: 'none'
  network:
    description:
      - Whether the network interfaces that the guest agent reports are returned.
    type: bool
    default: false
  history:
    description:
      - 'Whether RV(proxmox_vms[].history) is returned, for guests that O(vmid) or O(name) select: whether the guest
        ever ran, and which tasks of it run now. Needs Sys.Audit on the nodes to be certain.'
    type: bool
    default: false
  paths:
    description:
      - 'Whether RV(proxmox_vms[].disks) have a C(path), for guests that O(vmid) or O(name) select: where the disk is on
        its node.'
    type: bool
    default: false
  capacity:
    description:
      - 'Whether RV(nodes) and RV(storages) are returned: what there is room for.'
    type: bool
    default: false
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
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - 'Privilege for seeing a guest: without it, it is left out silently: C(VM.Audit) on C(/vms/VMID).'
  - 'Privilege for O(network): C(VM.GuestAgent.Audit) on C(/vms/VMID).'
  - 'Privilege for O(history), and the memory of the nodes with O(capacity): C(Sys.Audit) on C(/nodes/NODE).'
  - 'Privilege for O(paths) (with C(VM.Config.Disk) on the guest) and the room with O(capacity): C(Datastore.Audit) on
    C(/storage/STORAGE).'
seealso:
  - module: community.proxmox.proxmox_vm_info
    description: The Python module that M(trueplan.virt.pve_vm_info) replaces.
"""

EXAMPLES = r"""
- name: Look at one guest
  trueplan.virt.pve_vm_info:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    vmid: 20042
    config: current
  register: found
"""

RETURN = r"""
proxmox_vms:
  description:
    - The guests, by id.
  returned: success
  type: list
  elements: dict
  contains:
    vmid:
      description:
        - Its id.
      returned: always
      type: int
    name:
      description:
        - Its name.
      returned: always
      type: str
    node:
      description:
        - Where it lives.
      returned: always
      type: str
    type:
      description:
        - V(qemu) or V(lxc).
      returned: always
      type: str
    status:
      description:
        - V(running), V(stopped), ...
      returned: always
      type: str
    template:
      description:
        - Whether it is a template.
      returned: always
      type: bool
    config:
      description:
        - Its configuration; empty where it cannot be read.
      returned: when asked for
      type: dict
    network:
      description:
        - Interfaces as the guest agent reports them, or null.
      returned: when asked for
      type: list
    uuid:
      description:
        - Its BIOS uuid.
      returned: when the configuration was read
      type: str
    nics:
      description:
        - Its network cards, parsed.
      returned: when the configuration was read
      type: list
    disks:
      description:
        - Its drives, parsed; sizes in bytes; with O(paths) also C(path) and C(path_format), null where the storage does
          not say.
      returned: when the configuration was read
      type: list
    history:
      description:
        - 'C(ran): whether it ever ran, null if that is not known, and C(why) says how it is known; C(created): when it
          was made, in seconds since 1970, or null; C(starts): tasks that started it; C(running): its tasks that run
          now; C(unseen): what could not be looked at. A guest that was made and started before the task lists begin, or
          started without Proxmox VE, cannot be told.'
      returned: with O(history)
      type: dict
    mac:
      description:
        - MAC address by card.
      returned: when the configuration was read
      type: dict
    pending:
      description:
        - What waits for the next stop; null means removal.
      returned: when the configuration was read
      type: dict
    ha_managed:
      description:
        - Whether HA manages it.
      returned: for guests that O(vmid) or O(name) select
      type: bool
    tag_list:
      description:
        - Its tags.
      returned: always
      type: list
nodes:
  description:
    - 'The nodes: C(node), C(status), C(maxmem) and C(mem) (bytes), C(maxcpu).'
  returned: with O(capacity)
  type: list
  elements: dict
storages:
  description:
    - 'The storages of the nodes that answer: C(node), C(storage), C(type), C(content), C(shared), C(total), C(used),
      C(avail) (bytes).'
  returned: with O(capacity)
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
                "unable to run trueplan.virt.pve_vm_info 0.1.0: its native binary for %s %s is not installed; "
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
            "node": {"type": "str"},
            "type": {"type": "str", "default": "all", "choices": ["lxc", "qemu", "all"]},
            "vmid": {"type": "int"},
            "name": {"type": "str"},
            "config": {"type": "str", "default": "none", "choices": ["none", "current", "pending"]},
            "network": {"type": "bool", "default": False},
            "history": {"type": "bool", "default": False},
            "paths": {"type": "bool", "default": False},
            "capacity": {"type": "bool", "default": False},
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
        required_one_of=[["api_password", "api_token_id"]],
        required_together=[["api_token_id", "api_token_secret"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
