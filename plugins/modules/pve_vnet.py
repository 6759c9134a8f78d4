#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_vnet; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_vnet
short_description: Manage SDN vnets of a Proxmox VE cluster
version_added: '0.1.0'
description:
  - Adds, changes and removes vnets and applies the change on the nodes, where a vnet is a bridge afterwards.
  - 'Vnets that are as wanted are left alone: no lock, no apply, no reload of the network. Options that are not named
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
  vnet:
    description:
      - 'Id of the vnet, which is the bridge''s name on the nodes: a letter, then letters and digits, 2 to 8
        characters.'
    type: str
  zone:
    description:
      - Zone of the vnet. A new one needs it.
    type: str
  alias:
    description:
      - Description of the vnet. Characters that the server does not take become C(_), with a warning.
    type: str
  isolate_ports:
    description:
      - Isolate the ports of the vnet from each other. It counts only where it is given.
    type: bool
    default: false
  tag:
    description:
      - VLAN or VXLAN id. It is unique in its zone.
      - From V(1) to V(16777215).
    type: int
  vlanaware:
    description:
      - Let guests use VLANs inside the vnet.
    type: bool
  state:
    description:
      - Whether the vnet shall be there.
    type: str
    choices:
      - present
      - absent
    default: present
  update:
    description:
      - Whether a vnet that is there is changed; with V(false) the task fails if it differs.
    type: bool
    default: true
  move:
    description:
      - A vnet that is there with another zone or another tag is refused, since its guests would find themselves in
        another network; with V(true) it is changed.
    type: bool
    default: false
  unset:
    description:
      - Options to be removed from the vnet.
    type: list
    elements: str
    choices:
      - alias
      - isolate_ports
      - tag
      - vlanaware
  vnets:
    description:
      - Many vnets with one lock and one apply, instead of O(vnet).
    type: list
    elements: dict
    suboptions:
      vnet:
        description:
          - 'Id of the vnet, which is the bridge''s name on the nodes: a letter, then letters and digits, 2 to 8
            characters.'
        type: str
        required: true
      zone:
        description:
          - Zone of the vnet; that of the task if it is not given.
        type: str
      alias:
        description:
          - Description of the vnet. Characters that the server does not take become C(_), with a warning.
        type: str
      isolate_ports:
        description:
          - Isolate the ports of the vnet from each other. It counts only where it is given.
        type: bool
      tag:
        description:
          - VLAN or VXLAN id. It is unique in its zone.
          - From V(1) to V(16777215).
        type: int
      vlanaware:
        description:
          - Let guests use VLANs inside the vnet.
        type: bool
      state:
        description:
          - As for the task; that of the task if it is not given.
        type: str
        choices:
          - present
          - absent
      update:
        description:
          - As for the task; that of the task if it is not given.
        type: bool
      move:
        description:
          - As for the task; that of the task if it is not given.
        type: bool
      unset:
        description:
          - Options to be removed from the vnet.
        type: list
        elements: str
        choices:
          - alias
          - isolate_ports
          - tag
          - vlanaware
  delete:
    description:
      - Options to be removed, separated by commas; O(unset) is the same as a list.
    type: str
  lock_token:
    description:
      - 'Not needed: the task takes the lock itself. Accepted and not used.'
    type: str
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
  - At least one of O(vnet) and O(vnets) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(vnet) and O(vnets) exclude each other.
  - 'Privilege for writing a vnet: C(SDN.Allocate) on C(/sdn/zones/ZONE) for a new one, else C(/sdn/zones/ZONE/VNET).'
  - 'Privilege for the lock and applying: C(SDN.Allocate) on C(/sdn).'
  - 'Privilege for seeing zones, vnets and bridges: lists leave out silently what one may not see: C(SDN.Audit) on
    C(/sdn/zones).'
  - 'Privilege for following the reload of each node; without it the state of the zones is asked instead: C(Sys.Audit)
    on C(/nodes/NODE).'
seealso:
  - module: community.proxmox.proxmox_vnet
    description: The Python module that M(trueplan.virt.pve_vnet) replaces.
"""

EXAMPLES = r"""
- name: Two VLANs of one zone
  trueplan.virt.pve_vnet:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    zone: zvlan
    vnets:
      - vnet: v100
        tag: 100
        alias: Office
      - vnet: v200
        tag: 200
"""

RETURN = r"""
vnet:
  description:
    - Id of the vnet, or null for O(vnets).
  returned: success
  type: str
  sample: v100
config:
  description:
    - 'By id: the vnet as it is stored now, or null.'
  returned: success
  type: dict
pending:
  description:
    - Ids of the vnets of this task that still wait to be applied.
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
                "unable to run trueplan.virt.pve_vnet 0.1.0: its native binary for %s %s is not installed; "
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
            "vnet": {"type": "str"},
            "zone": {"type": "str"},
            "alias": {"type": "str"},
            "isolate_ports": {"type": "bool", "default": False},
            "tag": {"type": "int"},
            "vlanaware": {"type": "bool"},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "update": {"type": "bool", "default": True},
            "move": {"type": "bool", "default": False},
            "unset": {"type": "list", "elements": "str", "choices": ["alias", "isolate_ports", "tag", "vlanaware"]},
            "vnets": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "vnet": {"type": "str", "required": True},
                    "zone": {"type": "str"},
                    "alias": {"type": "str"},
                    "isolate_ports": {"type": "bool"},
                    "tag": {"type": "int"},
                    "vlanaware": {"type": "bool"},
                    "state": {"type": "str", "choices": ["present", "absent"]},
                    "update": {"type": "bool"},
                    "move": {"type": "bool"},
                    "unset": {
                        "type": "list",
                        "elements": "str",
                        "choices": ["alias", "isolate_ports", "tag", "vlanaware"],
                    },
                },
            },
            "delete": {"type": "str"},
            "lock_token": {"type": "str", "no_log": True},
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
        required_one_of=[["api_password", "api_token_id"], ["vnet", "vnets"]],
        required_together=[["api_token_id", "api_token_secret"]],
        mutually_exclusive=[["vnet", "vnets"]],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
