#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.demo; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: demo
short_description: Manage demonstrations
version_added: '0.1.0'
description:
  - Shows what is generated.
  - 'Two: paragraphs.'
author:
  - 'The trueplan authors (@trueplan)'
requirements:
  - A server.
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
  vmid:
    description:
      - Id of the guest.
      - 'It''s found "wherever" it lives: on any node; a very long paragraph follows here so that the line must be
        broken at least once, and perhaps even twice: it speaks of C(--check), of \backslashes and of #hashes - like
        this one.'
      - From V(100) to V(999999999).
    type: int
    aliases:
      - id
  name:
    description:
      - Name of the guest.
    type: str
  state:
    description:
      - Wanted state.
    type: str
    choices:
      - present
      - absent
    default: present
  trunks:
    description:
      - VLAN ids.
      - From V(1) to V(4094).
    type: list
    elements: int
    choices:
      - 1
      - 2
  tags:
    description:
      - Tags.
    type: list
    elements: str
    default:
      - a
      - 'yes'
  wait:
    description:
      - Whether to wait.
    type: bool
    default: true
    version_added: '0.2.0'
  timeout:
    description:
      - Seconds to wait.
    type: int
    default: 600
  rate:
    description:
      - Rate limit in MB/s.
    type: float
    default: 1.5
  ca_path:
    description:
      - File with certificates.
    type: path
  any:
    description:
      - Anything.
    type: raw
  net:
    description:
      - Network devices.
    type: dict
  disks:
    description:
      - Disks.
    type: list
    elements: dict
    suboptions:
      datastore:
        description:
          - 'Where the disk goes: a name, or O(disks[].key).'
        type: str
        required: true
      key:
        description:
          - The device key.
        type: int
      mode:
        description:
          - The mode.
        type: str
        choices:
          - 'on'
          - 'off'
          - '2.0'
        default: 'on'
  expect_plan:
    description:
      - The RV(plan_id) of an earlier run, usually of one with C(--check). If the plan has become another one, the task
        fails before anything is written.
    type: str
  api_host:
    description:
      - Host of the API.
      - If not given, the environment variable E(DEMO_HOST) is used.
    type: str
    required: true
  api_password:
    description:
      - Password.
      - If not given, the environment variable E(DEMO_PASSWORD) is used.
    type: str
notes:
  - A note.
  - At least one of O(vmid) and O(name) is required.
  - O(net) and O(disks) must be given together.
  - O(vmid) and O(name) exclude each other.
  - O(rate) needs O(timeout).
  - O(state=present) needs O(tags).
  - With O(wait=true) at least one of O(timeout) and O(rate) is required.
seealso:
  - module: community.proxmox.proxmox_nic
    description: The Python module that M(trueplan.virt.demo) replaces.
"""

EXAMPLES = r"""
- name: Show it
  trueplan.virt.demo:
    api_host: pve1
    vmid: 100
"""

RETURN = r"""
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
vmid:
  description:
    - Id of the guest.
  returned: on success
  type: int
  sample: 100
disks:
  description:
    - The disks.
  returned: always
  type: list
  elements: dict
  sample:
    - key: 2000
  contains:
    key:
      description:
        - The key.
      returned: always
      type: int
"""

import platform

from ansible.module_utils.basic import AnsibleModule, env_fallback


class MissingBinary(AnsibleModule):
    """Answers everything, wrong arguments included, with the one thing that is wrong here."""

    def fail_json(self, msg=None, **kwargs):
        super().fail_json(
            msg=(
                "unable to run trueplan.virt.demo 0.1.0: its native binary for %s %s is not installed; "
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
            "vmid": {"type": "int", "aliases": ["id"]},
            "name": {"type": "str"},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "trunks": {"type": "list", "elements": "int", "choices": [1, 2]},
            "tags": {"type": "list", "elements": "str", "default": ["a", "yes"]},
            "wait": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 600},
            "rate": {"type": "float", "default": 1.5},
            "ca_path": {"type": "path"},
            "any": {"type": "raw"},
            "net": {"type": "dict"},
            "disks": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "datastore": {"type": "str", "required": True},
                    "key": {"type": "int", "no_log": False},
                    "mode": {"type": "str", "default": "on", "choices": ["on", "off", "2.0"]},
                },
            },
            "expect_plan": {"type": "str"},
            "api_host": {"type": "str", "required": True, "fallback": (env_fallback, ["DEMO_HOST"])},
            "api_password": {"type": "str", "fallback": (env_fallback, ["DEMO_PASSWORD"]), "no_log": True},
        },
        supports_check_mode=True,
        required_if=[("state", "present", ["tags"]), ("wait", True, ["timeout", "rate"], True)],
        required_one_of=[["vmid", "name"]],
        required_together=[["net", "disks"]],
        mutually_exclusive=[["vmid", "name"]],
        required_by={"rate": ["timeout"]},
    )
    module.fail_json()


if __name__ == "__main__":
    main()
