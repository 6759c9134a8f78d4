#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_pool_member; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_pool_member
short_description: Manage the members of a pool of a Proxmox VE cluster
version_added: '0.1.0'
description:
  - Puts guests and storages into a pool, and takes them out.
  - 'Both spellings of the peer are taken: O(member) with O(type), and O(members) with O(exclusive).'
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
  poolid:
    description:
      - Id of the pool. It must exist.
    type: str
    required: true
    aliases:
      - name
  members:
    description:
      - The members, each either a guest or a storage. The spelling of community.proxmox 2.0.0.
    type: list
    elements: dict
    suboptions:
      vm:
        description:
          - Id or name of a guest; containers are guests too.
        type: str
      storage:
        description:
          - Id of a storage.
        type: str
  member:
    description:
      - 'One member: id or name of a guest, or id of a storage. The spelling of community.proxmox 1.6.0.'
    type: str
  type:
    description:
      - What O(member) is.
    type: str
    choices:
      - vm
      - storage
    default: vm
  state:
    description:
      - Whether the members shall be in the pool.
    type: str
    choices:
      - present
      - absent
    default: present
  exclusive:
    description:
      - 'The named members shall be the only ones: all others leave the pool. O(state) does not count then.'
    type: bool
    default: false
  allow_move:
    description:
      - A guest that is in another pool leaves that one. Without it the task is refused, since a guest is in one pool at
        most.
    type: bool
    default: false
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
  - A guest that is removed leaves its pool with it.
  - At least one of O(api_password) and O(api_token_id) is required.
  - At least one of O(members) and O(member) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(members) and O(member) exclude each other.
  - 'Privilege for reading its members, and whether a guest is in another pool: C(Pool.Audit) on C(/pool) and
    C(/pool/POOL).'
  - 'Privilege for seeing a guest that is named: C(VM.Audit) on C(/vms/VMID).'
  - 'Privilege for changing its members: C(Pool.Allocate) on C(/pool/POOL).'
  - 'Privilege for a guest that joins or leaves: C(VM.Allocate) or C(Permissions.Modify) on C(/vms/VMID).'
  - 'Privilege for a storage that joins or leaves: C(Datastore.Allocate) or C(Permissions.Modify) on
    C(/storage/STORAGE).'
seealso:
  - module: community.proxmox.proxmox_pool_member
    description: The Python module that M(trueplan.virt.pve_pool_member) replaces.
"""

EXAMPLES = r"""
- name: Put a guest into its pool
  trueplan.virt.pve_pool_member:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    poolid: production
    members:
      - vm: "20042"

- name: Exactly these are in it
  trueplan.virt.pve_pool_member:
    poolid: production
    exclusive: true
    members:
      - vm: web
      - vm: "101"
      - storage: nfs
"""

RETURN = r"""
poolid:
  description:
    - Id of the pool.
  returned: success
  type: str
  sample: test
members:
  description:
    - 'All members of the pool now: guests by id, then storages.'
  returned: success
  type: list
  elements: dict
  contains:
    vm:
      description:
        - Its id.
      returned: for a guest
      type: str
    storage:
      description:
        - Its id.
      returned: for a storage
      type: str
member:
  description:
    - The member, as it was given.
  returned: with O(member)
  type: str
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
                "unable to run trueplan.virt.pve_pool_member 0.1.0: its native binary for %s %s is not installed; "
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
            "poolid": {"type": "str", "required": True, "aliases": ["name"]},
            "members": {
                "type": "list",
                "elements": "dict",
                "options": {"vm": {"type": "str"}, "storage": {"type": "str"}},
            },
            "member": {"type": "str"},
            "type": {"type": "str", "default": "vm", "choices": ["vm", "storage"]},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "exclusive": {"type": "bool", "default": False},
            "allow_move": {"type": "bool", "default": False},
            "expect_plan": {"type": "str"},
            "plan_only": {"type": "bool", "default": False},
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
        required_one_of=[["api_password", "api_token_id"], ["members", "member"]],
        required_together=[["api_token_id", "api_token_secret"]],
        mutually_exclusive=[["members", "member"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
