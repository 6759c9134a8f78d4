#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_user_info; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_user_info
short_description: Look at users of a Proxmox VE cluster
version_added: '0.1.0'
description:
  - Lists users with their groups and tokens.
  - A user who is named by its whole id (O(userid), or O(user) with O(domain)) and does not exist is a failure; a filter
    that nobody fits gives an empty list.
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
    details: This action does not modify state.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: N/A
    details: This action does not modify state.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
options:
  domain:
    description:
      - Only users of this realm.
    type: str
    aliases:
      - realm
  user:
    description:
      - Only users of this name. With O(domain) it is one user, who must exist.
    type: str
    aliases:
      - name
  userid:
    description:
      - 'The user of this id, C(user@realm), who must exist.'
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
  - Without C(User.Modify) or C(Sys.Audit) on V(/access/groups) the server shows only oneself, and is silent on the
    others; RV(unverified) then says so.
  - Keys of a second factor are not returned.
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(user) and O(userid) exclude each other.
  - O(domain) and O(userid) exclude each other.
  - 'Privilege for seeing others than oneself: C(User.Modify) or C(Sys.Audit) on C(/access/groups).'
seealso:
  - module: community.proxmox.proxmox_user_info
    description: The Python module that M(trueplan.virt.pve_user_info) replaces.
"""

EXAMPLES = r"""
- name: The owner must be known
  trueplan.virt.pve_user_info:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    userid: "{{ owner }}@example"
  register: owner_account
"""

RETURN = r"""
proxmox_users:
  description:
    - The users, by id.
  returned: success
  type: list
  elements: dict
  contains:
    userid:
      description:
        - Its id.
      returned: always
      type: str
    user:
      description:
        - Its name, without the realm.
      returned: always
      type: str
    domain:
      description:
        - Its realm.
      returned: always
      type: str
    enabled:
      description:
        - Whether it may sign in.
      returned: always
      type: bool
    expire:
      description:
        - 'When the account expires, in seconds since the epoch; V(0): never.'
      returned: when it is set
      type: int
    firstname:
      description:
        - First name.
      returned: when it is set
      type: str
    lastname:
      description:
        - Last name.
      returned: when it is set
      type: str
    email:
      description:
        - E-mail address.
      returned: when it is set
      type: str
    comment:
      description:
        - Free text.
      returned: when it is set
      type: str
    groups:
      description:
        - Groups that it belongs to.
      returned: always
      type: list
      elements: str
    tokens:
      description:
        - 'Its API tokens, without their secrets: C(tokenid), C(privsep), C(expire), C(comment).'
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
                "unable to run trueplan.virt.pve_user_info 0.1.0: its native binary for %s %s is not installed; "
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
            "domain": {"type": "str", "aliases": ["realm"]},
            "user": {"type": "str", "aliases": ["name"]},
            "userid": {"type": "str"},
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
        mutually_exclusive=[["user", "userid"], ["domain", "userid"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
