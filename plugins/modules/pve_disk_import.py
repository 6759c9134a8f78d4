#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_disk_import; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_disk_import
short_description: Import and manage disks of Proxmox VE virtual machines
version_added: '0.1.0'
description:
  - Makes, imports, attaches, changes, resizes, moves, detaches and removes one disk.
  - Options that are not named keep their values. Data is never imported over a disk that is there.
  - An import, a move or a change that runs on the guest already is waited for, so that a task that was cut off goes on
    with the next run instead of starting again.
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
  vmid:
    description:
      - Id of the guest. It is found wherever it lives.
    type: int
  name:
    description:
      - Name of the guest; used when O(vmid) is not given. Exactly one virtual machine must have it.
    type: str
  node:
    description:
      - 'Node on which the guest probably is: saves the search for it. It is found wherever it lives.'
    type: str
  disk:
    description:
      - 'The disk: V(ide0) to V(ide3), V(scsi0) to V(scsi30), V(sata0) to V(sata5), V(virtio0) to V(virtio15),
        V(efidisk0), V(tpmstate0), V(unused0) to V(unused255).'
    type: str
    required: true
  state:
    description:
      - 'V(present): it is there, made or imported if it is missing. V(resized): it has O(size). V(moved): it is on
        another storage, in another format, or another guest''s. V(detached): it is off the guest, its volume stays as
        V(unusedN). V(absent): it is gone with its data.'
    type: str
    choices:
      - present
      - resized
      - detached
      - moved
      - absent
    default: present
  create:
    description:
      - 'V(regular): a missing disk is made. V(disabled): never. V(forced): a new one is made even if there is one,
        which is detached and stays as V(unusedN); this is not repeatable.'
    type: str
    choices:
      - disabled
      - regular
      - forced
    default: regular
  storage:
    description:
      - Storage for a new disk.
    type: str
  size:
    description:
      - 'For O(state=present): size of a new, empty disk in GiB. For O(state=resized): the size that the disk shall
        have, such as V(40G), in bytes without a unit; V(+5G) adds, on every run.'
    type: str
  format:
    description:
      - Format of a new or moved disk on a storage that keeps files. Without it an imported disk becomes V(qcow2), an
        empty one V(raw); it is always sent, since the server would keep VMware's format.
    type: str
    choices:
      - raw
      - cow
      - qcow
      - qed
      - qcow2
      - vmdk
      - cloop
  import_from:
    description:
      - 'What a missing disk is made of: C(<storage>:<vmid>/<name>), C(<storage>:import/<file>), a path of an C(esxi)
        storage, or an absolute path (only for the login root@pam).'
    type: str
  import_working_storage:
    description:
      - Storage where a disk inside an OVA is unpacked; that of the OVA if it is not given.
    type: str
  source_layout:
    description:
      - 'Needed to import an absolute path that ends in C(.vmdk): says that it is one file (monolithicSparse,
        streamOptimized), since servers refuse a descriptor with a separate data file there.'
    type: str
    choices:
      - single_file
  source_bytes:
    description:
      - Size that the source must have, in bytes.
      - From V(1) to V(9223372036854775807).
    type: int
  source_pending:
    description:
      - 'For check mode: an earlier task of this run makes the source, so that it cannot be looked at yet. It is listed
        in RV(unverified) then.'
    type: bool
    default: false
  attach_from:
    description:
      - 'A volume of this guest, C(<storage>:<vmid>/<name>), that becomes the missing disk as it is, without copying.'
    type: str
  iso_image:
    description:
      - Volume id of an ISO image for a CD-ROM drive (O(media=cdrom)), or V(none) for an empty one, or V(cdrom) for the
        node's own.
    type: str
  target_storage:
    description:
      - Storage to move the disk to.
    type: str
  target_vmid:
    description:
      - Guest to move the disk to.
    type: int
  target_disk:
    description:
      - Which disk of O(target_vmid) it becomes; the same name if it is not given.
    type: str
  delete_moved:
    description:
      - Remove the volume on the old storage after moving; otherwise it stays as V(unusedN).
    type: bool
  bwlimit:
    description:
      - Limit for moving, in KiB/s.
      - From V(0) to V(9223372036854775807).
    type: int
  unset:
    description:
      - Options to be removed from the disk.
    type: list
    elements: str
    choices:
      - aio
      - backup
      - bps_max_length
      - bps_rd_max_length
      - bps_wr_max_length
      - cache
      - detect_zeroes
      - discard
      - iops
      - iops_max
      - iops_max_length
      - iops_rd
      - iops_rd_max
      - iops_rd_max_length
      - iops_wr
      - iops_wr_max
      - iops_wr_max_length
      - iothread
      - mbps
      - mbps_max
      - mbps_rd
      - mbps_rd_max
      - mbps_wr
      - mbps_wr_max
      - queues
      - replicate
      - rerror
      - ro
      - scsiblock
      - serial
      - shared
      - snapshot
      - ssd
      - werror
      - wwn
  wait:
    description:
      - Wait for the server's task. With V(false) its id is returned at once.
    type: bool
    default: true
  timeout:
    description:
      - Seconds to wait for a lock, for a running task of the guest, and for the task of this change; V(0) does not wait
        for that of this change.
      - From V(0) to V(1000000).
    type: int
    default: 600
  aio:
    description:
      - Asynchronous input and output.
    type: str
    choices:
      - native
      - threads
      - io_uring
  backup:
    description:
      - Whether backups contain the disk.
    type: bool
  bps_max_length:
    description:
      - Length of bursts, in seconds.
    type: int
  bps_rd_max_length:
    description:
      - Length of read bursts, in seconds.
    type: int
  bps_wr_max_length:
    description:
      - Length of write bursts, in seconds.
    type: int
  cache:
    description:
      - Cache mode.
    type: str
    choices:
      - 'none'
      - writethrough
      - writeback
      - unsafe
      - directsync
  cyls:
    description:
      - Geometry; the server no longer stores it, so it is not used.
    type: int
  detect_zeroes:
    description:
      - Whether zeroes are detected and not written.
    type: bool
  discard:
    description:
      - Whether discard requests are passed on.
    type: str
    choices:
      - ignore
      - 'on'
  heads:
    description:
      - Geometry; the server no longer stores it, so it is not used.
    type: int
  iops:
    description:
      - Limit in operations per second.
    type: int
  iops_max:
    description:
      - Limit of bursts, operations per second.
    type: int
  iops_max_length:
    description:
      - Length of bursts, in seconds.
    type: int
  iops_rd:
    description:
      - Limit in reads per second.
    type: int
  iops_rd_max:
    description:
      - Limit of bursts, reads per second.
    type: int
  iops_rd_max_length:
    description:
      - Length of read bursts, in seconds.
    type: int
  iops_wr:
    description:
      - Limit in writes per second.
    type: int
  iops_wr_max:
    description:
      - Limit of bursts, writes per second.
    type: int
  iops_wr_max_length:
    description:
      - Length of write bursts, in seconds.
    type: int
  iothread:
    description:
      - An own thread for the disk; V(scsi) (with C(virtio-scsi-single)) and V(virtio).
    type: bool
  mbps:
    description:
      - Limit in megabytes per second.
    type: float
  mbps_max:
    description:
      - Limit of bursts, megabytes per second.
    type: float
  mbps_rd:
    description:
      - Read limit in megabytes per second.
    type: float
  mbps_rd_max:
    description:
      - Limit of read bursts, megabytes per second.
    type: float
  mbps_wr:
    description:
      - Write limit in megabytes per second.
    type: float
  mbps_wr_max:
    description:
      - Limit of write bursts, megabytes per second.
    type: float
  media:
    description:
      - Disk or CD-ROM.
    type: str
    choices:
      - cdrom
      - disk
  queues:
    description:
      - Queues of a V(scsi) disk.
    type: int
  replicate:
    description:
      - Whether replication jobs contain the disk.
    type: bool
  rerror:
    description:
      - What happens on a read error.
    type: str
    choices:
      - ignore
      - report
      - stop
  ro:
    description:
      - Read-only.
    type: bool
  scsiblock:
    description:
      - Pass SCSI commands through.
    type: bool
  secs:
    description:
      - Geometry; the server no longer stores it, so it is not used.
    type: int
  serial:
    description:
      - Serial number that the guest sees, at most 20 characters.
    type: str
  shared:
    description:
      - Says that the volume is available on all nodes.
    type: bool
  snapshot:
    description:
      - Whether writes go to a temporary file.
    type: bool
  ssd:
    description:
      - Whether the guest sees an SSD; not on V(virtio).
    type: bool
  trans:
    description:
      - Geometry; the server no longer stores it, so it is not used.
    type: str
    choices:
      - auto
      - lba
      - 'none'
  werror:
    description:
      - What happens on a write error.
    type: str
    choices:
      - enospc
      - ignore
      - report
      - stop
  wwn:
    description:
      - World wide name that the guest sees.
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
  guard_uuid:
    description:
      - The guest found must have this BIOS uuid (in `smbios1`); with another one, or none, the task is refused.
    type: str
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
  - 'What the server would refuse is refused before anything is sent: a descriptor with a separate data file under
    C(import/) or behind an absolute path, a data file (C(-flat.vmdk)) by itself, a snapshot''s file, white space in a
    volume id of a directory storage, a comma anywhere.'
  - At least one of O(name) and O(vmid) is required.
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(target_vmid) and O(target_storage) exclude each other.
  - O(mbps) and O(mbps_rd) exclude each other.
  - O(mbps) and O(mbps_wr) exclude each other.
  - O(iops) and O(iops_rd) exclude each other.
  - O(iops) and O(iops_wr) exclude each other.
  - O(import_from) and O(size) exclude each other.
  - O(attach_from) and O(size) exclude each other.
  - O(import_from), O(attach_from) and O(iso_image) exclude each other.
  - O(target_disk) needs O(target_vmid).
  - O(mbps_max) needs O(mbps).
  - O(mbps_rd_max) needs O(mbps_rd).
  - O(mbps_wr_max) needs O(mbps_wr).
  - O(bps_max_length) needs O(mbps_max).
  - O(bps_rd_max_length) needs O(mbps_rd_max).
  - O(bps_wr_max_length) needs O(mbps_wr_max).
  - O(iops_max) needs O(iops).
  - O(iops_rd_max) needs O(iops_rd).
  - O(iops_wr_max) needs O(iops_wr).
  - O(iops_max_length) needs O(iops_max).
  - O(iops_rd_max_length) needs O(iops_rd_max).
  - O(iops_wr_max_length) needs O(iops_wr_max).
  - O(iso_image) needs O(media).
  - With O(create=forced) at least one of O(storage) and O(attach_from) is required.
  - O(state=resized) needs O(size).
  - 'Privilege for reading the guest: C(VM.Audit) on C(/vms/VMID).'
  - 'Privilege for writing a disk; for a CD drive C(VM.Config.CDROM), for a cloud-init drive C(VM.Config.Cloudinit) too:
    C(VM.Config.Disk) on C(/vms/VMID).'
  - 'Privilege for new, grown, moved and imported disks; EFI disks and TPM states: C(Datastore.AllocateSpace) on
    C(/storage/STORAGE).'
  - 'Privilege for ISO images, and sources under C(import/): C(Datastore.Audit) or C(Datastore.AllocateSpace) on
    C(/storage/STORAGE).'
  - 'Privilege for importing a volume that bears the number of another guest: C(VM.Clone) on C(/vms/OWNER).'
  - 'Privilege for moving a disk to another guest: C(VM.Audit), C(VM.Config.Disk) on C(/vms/TARGET_VMID).'
  - 'Privilege for telling another user''s task from a dead lock; without it only one''s own tasks are seen:
    C(Sys.Audit) on C(/nodes/NODE).'
seealso:
  - module: community.proxmox.proxmox_disk
    description: The Python module that M(trueplan.virt.pve_disk_import) replaces.
"""

EXAMPLES = r"""
- name: Import the first disk from the shared export
  trueplan.virt.pve_disk_import:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    vmid: 20042
    disk: scsi0
    storage: local-lvm
    import_from: nfs-migration:20042/disk0.vmdk
    source_bytes: 17179869184

- name: Later, onto another storage
  trueplan.virt.pve_disk_import:
    vmid: 20042
    disk: scsi0
    state: moved
    target_storage: ceph
    delete_moved: true
"""

RETURN = r"""
vmid:
  description:
    - Id of the guest.
  returned: success
  type: int
  sample: 101
disk:
  description:
    - The disk.
  returned: success
  type: str
  sample: scsi0
volume:
  description:
    - Volume id of the disk, or null.
  returned: success
  type: str
  sample: 'local-lvm:vm-101-disk-0'
size_bytes:
  description:
    - Size of the disk in bytes, or null.
  returned: success
  type: int
imported:
  description:
    - Whether this run imported data.
  returned: success
  type: bool
available_bytes:
  description:
    - Room on the storage that the disk goes to, before this run.
  returned: success, when the storage was looked at
  type: int
unused:
  description:
    - Where the volume stayed that was detached or replaced, such as V(unused0), or null.
  returned: success
  type: str
upid:
  description:
    - Id of the server's task, or null.
  returned: success
  type: str
pending:
  description:
    - What of the disk waits for the next stop of the guest; null means removal.
  returned: success
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
                "unable to run trueplan.virt.pve_disk_import 0.1.0: its native binary for %s %s is not installed; "
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
            "vmid": {"type": "int"},
            "name": {"type": "str"},
            "node": {"type": "str"},
            "disk": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "default": "present",
                "choices": ["present", "resized", "detached", "moved", "absent"],
            },
            "create": {"type": "str", "default": "regular", "choices": ["disabled", "regular", "forced"]},
            "storage": {"type": "str"},
            "size": {"type": "str"},
            "format": {"type": "str", "choices": ["raw", "cow", "qcow", "qed", "qcow2", "vmdk", "cloop"]},
            "import_from": {"type": "str"},
            "import_working_storage": {"type": "str"},
            "source_layout": {"type": "str", "choices": ["single_file"]},
            "source_bytes": {"type": "int"},
            "source_pending": {"type": "bool", "default": False},
            "attach_from": {"type": "str"},
            "iso_image": {"type": "str"},
            "target_storage": {"type": "str"},
            "target_vmid": {"type": "int"},
            "target_disk": {"type": "str"},
            "delete_moved": {"type": "bool"},
            "bwlimit": {"type": "int"},
            "unset": {
                "type": "list",
                "elements": "str",
                "choices": [
                    "aio",
                    "backup",
                    "bps_max_length",
                    "bps_rd_max_length",
                    "bps_wr_max_length",
                    "cache",
                    "detect_zeroes",
                    "discard",
                    "iops",
                    "iops_max",
                    "iops_max_length",
                    "iops_rd",
                    "iops_rd_max",
                    "iops_rd_max_length",
                    "iops_wr",
                    "iops_wr_max",
                    "iops_wr_max_length",
                    "iothread",
                    "mbps",
                    "mbps_max",
                    "mbps_rd",
                    "mbps_rd_max",
                    "mbps_wr",
                    "mbps_wr_max",
                    "queues",
                    "replicate",
                    "rerror",
                    "ro",
                    "scsiblock",
                    "serial",
                    "shared",
                    "snapshot",
                    "ssd",
                    "werror",
                    "wwn",
                ],
            },
            "wait": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 600},
            "aio": {"type": "str", "choices": ["native", "threads", "io_uring"]},
            "backup": {"type": "bool"},
            "bps_max_length": {"type": "int"},
            "bps_rd_max_length": {"type": "int"},
            "bps_wr_max_length": {"type": "int"},
            "cache": {"type": "str", "choices": ["none", "writethrough", "writeback", "unsafe", "directsync"]},
            "cyls": {"type": "int"},
            "detect_zeroes": {"type": "bool"},
            "discard": {"type": "str", "choices": ["ignore", "on"]},
            "heads": {"type": "int"},
            "iops": {"type": "int"},
            "iops_max": {"type": "int"},
            "iops_max_length": {"type": "int"},
            "iops_rd": {"type": "int"},
            "iops_rd_max": {"type": "int"},
            "iops_rd_max_length": {"type": "int"},
            "iops_wr": {"type": "int"},
            "iops_wr_max": {"type": "int"},
            "iops_wr_max_length": {"type": "int"},
            "iothread": {"type": "bool"},
            "mbps": {"type": "float"},
            "mbps_max": {"type": "float"},
            "mbps_rd": {"type": "float"},
            "mbps_rd_max": {"type": "float"},
            "mbps_wr": {"type": "float"},
            "mbps_wr_max": {"type": "float"},
            "media": {"type": "str", "choices": ["cdrom", "disk"]},
            "queues": {"type": "int"},
            "replicate": {"type": "bool"},
            "rerror": {"type": "str", "choices": ["ignore", "report", "stop"]},
            "ro": {"type": "bool"},
            "scsiblock": {"type": "bool"},
            "secs": {"type": "int"},
            "serial": {"type": "str"},
            "shared": {"type": "bool"},
            "snapshot": {"type": "bool"},
            "ssd": {"type": "bool"},
            "trans": {"type": "str", "choices": ["auto", "lba", "none"]},
            "werror": {"type": "str", "choices": ["enospc", "ignore", "report", "stop"]},
            "wwn": {"type": "str"},
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
            "guard_uuid": {"type": "str"},
            "expect_plan": {"type": "str"},
            "plan_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
        required_if=[("create", "forced", ["storage", "attach_from"], True), ("state", "resized", ["size"])],
        required_one_of=[["name", "vmid"], ["api_password", "api_token_id"]],
        required_together=[["api_token_id", "api_token_secret"]],
        mutually_exclusive=[
            ["target_vmid", "target_storage"],
            ["mbps", "mbps_rd"],
            ["mbps", "mbps_wr"],
            ["iops", "iops_rd"],
            ["iops", "iops_wr"],
            ["import_from", "size"],
            ["attach_from", "size"],
            ["import_from", "attach_from", "iso_image"],
        ],
        required_by={
            "target_disk": ["target_vmid"],
            "mbps_max": ["mbps"],
            "mbps_rd_max": ["mbps_rd"],
            "mbps_wr_max": ["mbps_wr"],
            "bps_max_length": ["mbps_max"],
            "bps_rd_max_length": ["mbps_rd_max"],
            "bps_wr_max_length": ["mbps_wr_max"],
            "iops_max": ["iops"],
            "iops_rd_max": ["iops_rd"],
            "iops_wr_max": ["iops_wr"],
            "iops_max_length": ["iops_max"],
            "iops_rd_max_length": ["iops_rd_max"],
            "iops_wr_max_length": ["iops_wr_max"],
            "iso_image": ["media"],
        },
    )
    module.fail_json()


if __name__ == "__main__":
    main()
