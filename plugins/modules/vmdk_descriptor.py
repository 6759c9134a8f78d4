#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.vmdk_descriptor; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vmdk_descriptor
short_description: Make a VMware data file importable by Proxmox VE
version_added: '0.1.0'
description:
  - 'Writes a small text file, C(images/<vmid>/disk<N>.vmdk), on an NFS export that both hypervisors mount. It points to
    the data file (C(-flat.vmdk)) that VMware wrote, so that Proxmox VE imports or attaches it by volume id.'
  - VMware's own files are only read. A file that this module did not write is never overwritten and never removed.
  - Runs on a host that mounts the export; delegate it there.
author:
  - 'The trueplan authors (@trueplan)'
attributes:
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
  export:
    description:
      - The folder where the NFS export is mounted on the host where the task runs, such as C(/mnt/pve/nfs).
    type: path
    required: true
  vmid:
    description:
      - 'Id of the Proxmox guest that the disk is for; the descriptor lies in C(images/<vmid>/) of the export.'
      - From V(100) to V(999999999).
    type: int
    required: true
  disk:
    description:
      - 'Number of the disk; the descriptor is called C(disk<N>.vmdk), since a volume id allows no white space.'
      - From V(0) to V(255).
    type: int
    required: true
  storage:
    description:
      - Id of the Proxmox storage that mounts the export; only for the returned volume id.
    type: str
  source:
    description:
      - Path of VMware's data file, relative to the export, such as C(app01/app01-flat.vmdk). Needed for
        O(state=present).
    type: str
  bytes:
    description:
      - Size that the data file must have exactly, in bytes. Needed for O(state=present).
    type: int
  key:
    description:
      - Key of the disk's device in vCenter; only names the disk in plans and differences.
    type: int
  source_pending:
    description:
      - 'In check mode only: an earlier task of this run makes the data file, so that it cannot be looked at yet.
        Ignored in earnest.'
    type: bool
    default: false
  at_rest:
    description:
      - Record in the descriptor that the machine is off, so that nobody writes to the data file any more. What is
        written to it later makes RV(written_since) true, and the descriptor is then written anew.
    type: bool
    default: false
  state:
    description:
      - Whether the descriptor is there.
    type: str
    choices:
      - present
      - absent
    default: present
  expect_plan:
    description:
      - The RV(plan_id) of an earlier run, usually of one with C(--check). If the plan has become another one, the task
        fails before anything is written.
    type: str
notes:
  - O(state=present) needs O(source) and O(bytes).
"""

EXAMPLES = r"""
- name: Describe the first disk
  trueplan.virt.vmdk_descriptor:
    export: /mnt/pve/nfs-migration
    storage: nfs-migration
    vmid: 20042
    disk: 0
    source: app01/app01-flat.vmdk
    bytes: 17179869184
  delegate_to: pve1
"""

RETURN = r"""
path:
  description:
    - Absolute path of the descriptor.
  returned: always
  type: str
volume:
  description:
    - 'Volume id of the descriptor, C(<storage>:<vmid>/disk<N>.vmdk).'
  returned: when O(storage) is given
  type: str
bytes:
  description:
    - Size of the disk in bytes.
  returned: for O(state=present)
  type: int
found:
  description:
    - 'What was there before: V(none), V(same) for a descriptor of this data file, V(other) for one of another file or
      size.'
  returned: for O(state=present)
  type: str
written_since:
  description:
    - Whether the data file was written to after the descriptor that was found recorded it as at rest.
  returned: for O(state=present)
  type: bool
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

from ansible.module_utils.basic import AnsibleModule


class MissingBinary(AnsibleModule):
    """Answers everything, wrong arguments included, with the one thing that is wrong here."""

    def fail_json(self, msg=None, **kwargs):
        super().fail_json(
            msg=(
                "unable to run trueplan.virt.vmdk_descriptor 0.1.0: its native binary for %s %s is not installed; "
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
            "export": {"type": "path", "required": True},
            "vmid": {"type": "int", "required": True},
            "disk": {"type": "int", "required": True},
            "storage": {"type": "str"},
            "source": {"type": "str"},
            "bytes": {"type": "int"},
            "key": {"type": "int", "no_log": False},
            "source_pending": {"type": "bool", "default": False},
            "at_rest": {"type": "bool", "default": False},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "expect_plan": {"type": "str"},
        },
        supports_check_mode=True,
        required_if=[("state", "present", ["source", "bytes"])],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
