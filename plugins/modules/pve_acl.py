#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_acl; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_acl
short_description: Manage entries of the access control list of a Proxmox VE cluster
version_added: '0.1.0'
description:
  - Gives a role to a user, a group or an API token on a path, and takes it away.
  - An entry is one role of one subject on one path; whether it propagates is changed in place. Other entries of the
    path stay.
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
  state:
    description:
      - Whether the entry shall be there.
    type: str
    choices:
      - present
      - absent
    default: present
  path:
    description:
      - Path of the object, such as V(/vms/100), V(/pool/production) or V(/). The object need not be there yet.
    type: str
  roleid:
    description:
      - The role. With O(state=absent), only entries of this role; without it, of every role.
    type: str
  type:
    description:
      - What O(ugid) is. With O(state=absent), only entries of this kind; without it, of every kind.
    type: str
    choices:
      - user
      - group
      - token
  ugid:
    description:
      - 'User (C(user@realm)), token (C(user@realm!tokenid)) or group. With O(state=absent), only its entries; without
        it, everybody''s.'
    type: str
  propagate:
    description:
      - Whether the entry holds for what is below O(path) too. With O(state=absent) it selects only where the task names
        it.
    type: bool
    default: true
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
  - 'A deeper path replaces what is inherited: the first role of a user on V(/vms/100) ends what it has there from
    V(/vms).'
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(state=present) needs O(path), O(roleid), O(type) and O(ugid).
  - O(state=absent) needs O(path).
  - 'Privilege for seeing that the user or group is there: C(Sys.Audit) or C(User.Modify) on C(/access/groups).'
  - 'Privilege for writing entries: C(Permissions.Modify) on O(path).'
  - 'Privilege for handing out, without C(Permissions.Modify), roles that have no privilege which one lacks oneself:
    C(VM.Allocate) on a guest, C(Datastore.Allocate) on a storage, C(Pool.Allocate) on a pool on O(path).'
seealso:
  - module: community.proxmox.proxmox_access_acl
    description: The Python module that M(trueplan.virt.pve_acl) replaces.
"""

EXAMPLES = r"""
- name: Let the owner use the guest
  trueplan.virt.pve_acl:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    path: /vms/20042
    type: user
    ugid: anna@example
    roleid: PVEVMUser

- name: Nobody but administrators sees the pool
  trueplan.virt.pve_acl:
    path: /pool/secret
    state: absent
"""

RETURN = r"""
acls:
  description:
    - 'The entries of O(path) now: C(type), C(ugid), C(roleid), C(propagate).'
  returned: success
  type: list
  elements: dict
old_acls:
  description:
    - All entries that one may see, of every path, as they were.
  returned: success
  type: list
  elements: dict
new_acls:
  description:
    - All entries that one may see, of every path, as they are now.
  returned: success
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
                "unable to run trueplan.virt.pve_acl 0.1.0: its native binary for %s %s is not installed; "
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
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "path": {"type": "str"},
            "roleid": {"type": "str"},
            "type": {"type": "str", "choices": ["user", "group", "token"]},
            "ugid": {"type": "str"},
            "propagate": {"type": "bool", "default": True},
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
        required_if=[("state", "present", ["path", "roleid", "type", "ugid"]), ("state", "absent", ["path"])],
        required_one_of=[["api_password", "api_token_id"]],
        required_together=[["api_token_id", "api_token_secret"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
