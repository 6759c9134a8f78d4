#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# GENERATED from the argument spec of trueplan.virt 0.1.0 by `cargo xtask docs`; do not edit.
"""Documentation of trueplan.virt.pve_vm_shell; the module itself is the native binary beside this file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pve_vm_shell
short_description: Create, change, start, stop and remove Proxmox VE virtual machines
version_added: '0.1.0'
description:
  - Creates a virtual machine, compares an existing one option by option and writes only what differs, in one request.
  - Everything can be foreseen with check mode; what the server would refuse, or accept although it does not work, is
    refused before anything is written.
  - Disks of an existing guest are never made anew; a size that is larger grows the disk, other differences are reported
    as drift.
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
      - Id of the guest. Without it an existing guest is found by O(name), and a new one gets the next free id.
    type: int
  name:
    description:
      - 'Name of the guest, a DNS name. With O(vmid): an existing guest of another name is refused unless O(rename).'
    type: str
  node:
    description:
      - Where a new guest is made. An existing one is found wherever it lives.
    type: str
  state:
    description:
      - State of the guest.
    type: str
    choices:
      - present
      - absent
      - stopped
      - started
      - restarted
      - current
      - template
      - paused
      - hibernated
    default: present
  update:
    description:
      - Write the differences of an existing guest. On by default when O(vmid) is given; off when it was found by name.
    type: bool
    default: false
  update_unsafe:
    description:
      - Accepted; disks and cards are always compared here, and never lost.
    type: bool
    default: false
  rename:
    description:
      - Let an existing guest get another name.
    type: bool
    default: false
  cipassword_update:
    description:
      - 'The server does not show O(cipassword). V(on_create): it is written where none is set. V(always): in every run,
        which then always changes something.'
    type: str
    choices:
      - on_create
      - always
    default: on_create
  create_only:
    description:
      - Options that are written at creation and not compared later.
    type: list
    elements: str
  unset:
    description:
      - Options to be removed from the guest.
    type: list
    elements: str
  delete:
    description:
      - Options to be removed from the guest, separated by commas.
    type: str
  revert:
    description:
      - Pending changes to be dropped, separated by commas.
    type: str
  digest:
    description:
      - Write only if the configuration has this digest.
    type: str
  force:
    description:
      - 'Let a running guest be stopped: for O(state=absent), O(state=stopped), O(state=template), O(state=restarted).'
    type: bool
  purge:
    description:
      - On removal also remove the guest from HA, backup and replication jobs.
    type: bool
    default: false
  destroy_unreferenced_disks:
    description:
      - On removal also destroy disks with the guest's id that its configuration does not name.
    type: bool
    default: false
  skiplock:
    description:
      - 'Ignore locks. Needs the root@pam login.'
    type: bool
  timeout:
    description:
      - Seconds to wait for tasks, locks and shutdowns.
      - From V(1) to V(864000).
    type: int
    default: 600
  pool:
    description:
      - Pool that a new guest joins.
    type: str
  storage:
    description:
      - Storage of a new disk that names only its size, and target of a clone.
    type: str
  format:
    description:
      - Format of the disks of a clone.
    type: str
    choices:
      - cloop
      - cow
      - qcow
      - qcow2
      - qed
      - raw
      - vmdk
      - unspecified
  clone:
    description:
      - 'Guest to be cloned: its name, or anything when O(vmid) names it.'
    type: str
  newid:
    description:
      - Id of the clone.
    type: int
  full:
    description:
      - Copy all disks of a clone.
    type: bool
    default: true
  snapname:
    description:
      - Snapshot to be cloned.
    type: str
  target:
    description:
      - Node of the clone.
    type: str
  migrate:
    description:
      - Move the guest to O(node).
    type: bool
    default: false
  with_local_disks:
    description:
      - Move local disks too.
    type: bool
    default: false
  archive:
    description:
      - Backup to restore from.
    type: str
  unique:
    description:
      - New MAC addresses for a guest restored from O(archive).
    type: bool
  live_restore:
    description:
      - Start the guest while it is restored from O(archive).
    type: bool
    aliases:
      - live-restore
  bwlimit:
    description:
      - Limit for a restore or a clone, in KiB/s.
      - From V(0) to V(9223372036854775807).
    type: int
  start:
    description:
      - Start a new guest once it is made.
    type: bool
  ha_managed:
    description:
      - Make a new guest an HA resource.
    type: bool
    aliases:
      - ha-managed
  import_working_storage:
    description:
      - Storage for disks that are first taken out of an OVA.
    type: str
    aliases:
      - import-working-storage
  acpi:
    description:
      - ACPI.
    type: bool
  affinity:
    description:
      - 'Host cores that run the guest, such as V(0,5,8-11). Needs the root@pam login.'
    type: str
  agent:
    description:
      - 'QEMU guest agent: a boolean, or keys such as V(enabled=1,fstrim_cloned_disks=1). Named keys converge, others
        stay.'
    type: str
  allow_ksm:
    description:
      - Let the host merge equal memory pages of this guest.
    type: bool
    aliases:
      - allow-ksm
  amd_sev:
    description:
      - 'AMD memory encryption. Needs the root@pam login.'
    type: str
    aliases:
      - amd-sev
  arch:
    description:
      - 'Virtual processor architecture. Needs the root@pam login.'
    type: str
    choices:
      - x86_64
      - aarch64
  args:
    description:
      - 'Arguments for KVM. Needs the root@pam login.'
    type: str
  autostart:
    description:
      - Start after a crash (the server ignores it today).
    type: bool
  balloon:
    description:
      - Least memory in MiB; V(0) switches the balloon off.
      - From V(0) to V(9223372036854775807).
    type: int
  bios:
    description:
      - Firmware.
    type: str
    choices:
      - seabios
      - ovmf
  boot:
    description:
      - Boot order, V(order=scsi0;net0), or the old letters such as V(cnd). Every device must exist.
    type: str
  bootdisk:
    description:
      - Disk that the old letter V(c) means.
    type: str
  cicustom:
    description:
      - Cloud-init files that replace generated ones.
    type: str
  cipassword:
    description:
      - 'Cloud-init password. The server does not show it: it is written where none is set, and not compared later; see
        O(cipassword_update).'
    type: str
  citype:
    description:
      - Cloud-init format.
    type: str
    choices:
      - nocloud
      - configdrive2
      - opennebula
  ciupgrade:
    description:
      - Let cloud-init upgrade packages at first boot.
    type: bool
  ciuser:
    description:
      - Cloud-init user.
    type: str
  cores:
    description:
      - Cores per socket.
      - From V(1) to V(9223372036854775807).
    type: int
  cpu:
    description:
      - Processor type and its keys; replaced as a whole.
    type: str
  cpulimit:
    description:
      - Limit in processors; V(0) is none.
    type: float
  cpuunits:
    description:
      - Processor weight.
      - From V(1) to V(262144).
    type: int
  description:
    description:
      - Notes.
    type: str
  freeze:
    description:
      - Do not start the processor at start.
    type: bool
  hookscript:
    description:
      - 'Volume of a hook script. Needs the root@pam login.'
    type: str
  hotplug:
    description:
      - 'What may be plugged into the running guest: V(0), V(1), or a list such as V(network,disk,usb).'
    type: str
  hugepages:
    description:
      - Size of huge pages in MiB.
    type: str
    choices:
      - any
      - '2'
      - '1024'
  intel_tdx:
    description:
      - 'Intel memory encryption. Needs the root@pam login.'
    type: str
    aliases:
      - intel-tdx
  ivshmem:
    description:
      - 'Shared memory between guests. Needs the root@pam login.'
    type: str
  keephugepages:
    description:
      - Keep huge pages after stop.
    type: bool
  keyboard:
    description:
      - Keyboard layout for VNC.
    type: str
    choices:
      - de
      - de-ch
      - da
      - en-gb
      - en-us
      - es
      - fi
      - fr
      - fr-be
      - fr-ca
      - fr-ch
      - hu
      - is
      - it
      - ja
      - lt
      - mk
      - nl
      - 'no'
      - pl
      - pt
      - pt-br
      - sv
      - sl
      - tr
  kvm:
    description:
      - Hardware virtualisation.
    type: bool
  localtime:
    description:
      - The clock of the guest is local time.
    type: bool
  lock:
    description:
      - 'Lock of the guest. Needs the root@pam login.'
    type: str
    choices:
      - backup
      - clone
      - create
      - migrate
      - rollback
      - snapshot
      - snapshot-delete
      - suspending
      - suspended
  machine:
    description:
      - Machine type; V(q35) equals any pinned V(pc-q35-N).
    type: str
  memory:
    description:
      - Memory in MiB.
      - From V(16) to V(9223372036854775807).
    type: int
  migrate_downtime:
    description:
      - Longest downtime of a migration in seconds.
    type: float
  migrate_speed:
    description:
      - Speed of a migration in MB/s; V(0) is no limit.
      - From V(0) to V(9223372036854775807).
    type: int
  numa_enabled:
    description:
      - NUMA.
    type: bool
  onboot:
    description:
      - Start with the node.
    type: bool
  ostype:
    description:
      - Operating system.
    type: str
    choices:
      - other
      - wxp
      - w2k
      - w2k3
      - w2k8
      - wvista
      - win7
      - win8
      - win10
      - win11
      - l24
      - l26
      - solaris
  protection:
    description:
      - Refuse removal of the guest and of its disks.
    type: bool
  reboot:
    description:
      - Let the guest reboot; if not, it stops instead.
    type: bool
  rng0:
    description:
      - Source of random numbers, such as V(source=/dev/urandom); replaced as a whole.
    type: str
  scsihw:
    description:
      - SCSI controller.
    type: str
    choices:
      - lsi
      - lsi53c810
      - virtio-scsi-pci
      - virtio-scsi-single
      - megasas
      - pvscsi
  shares:
    description:
      - Memory weight; V(0) switches automatic ballooning off.
      - From V(0) to V(50000).
    type: int
  smbios:
    description:
      - SMBIOS fields, such as V(uuid=...); named keys converge, others stay.
    type: str
    aliases:
      - smbios1
  smp:
    description:
      - Number of processors (old; use O(cores)).
      - From V(1) to V(9223372036854775807).
    type: int
  sockets:
    description:
      - Processor sockets.
      - From V(1) to V(9223372036854775807).
    type: int
  spice_enhancements:
    description:
      - 'SPICE extras, such as V(videostreaming=all). Needs the root@pam login.'
    type: str
  sshkeys:
    description:
      - Cloud-init public keys, one a line, as plain text.
    type: str
  startdate:
    description:
      - 'First time of the clock: V(now), V(2026-01-31) or V(2026-01-31T16:01:21).'
    type: str
  startup:
    description:
      - Start order, such as V(order=3,up=10); replaced as a whole. Needs Sys.Modify on /.
    type: str
  tablet:
    description:
      - USB tablet as pointer.
    type: bool
  tdf:
    description:
      - Time drift fix.
    type: bool
  template:
    description:
      - The flag of a template. O(state=template) converts the disks too and is what you want.
    type: bool
  vcpus:
    description:
      - Processors plugged at start.
      - From V(1) to V(9223372036854775807).
    type: int
  vga:
    description:
      - Display; replaced as a whole.
    type: str
  vmgenid:
    description:
      - 'Generation id; V(1) makes one, V(0) has none. Needs the root@pam login.'
    type: str
  vmstatestorage:
    description:
      - Storage for the state of a hibernated guest.
    type: str
  watchdog:
    description:
      - Watchdog device.
    type: str
  audio:
    description:
      - Audio device (V(audio0)); replaced as a whole.
    type: dict
  hostpci:
    description:
      - By slot (V(hostpci0) to V(hostpci15)); replaced as a whole.
    type: dict
  ide:
    description:
      - 'Disks and CD-ROMs by slot (V(ide0) to V(ide3)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id, or
        an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.'
    type: dict
  ipconfig:
    description:
      - By slot (V(ipconfig0) to V(ipconfig31)); replaced as a whole.
    type: dict
  net:
    description:
      - 'Network cards by slot (V(net0) to V(net31)): V(virtio,bridge=vmbr0,tag=5). Named keys converge, others stay; a
        card without a MAC address keeps its own, a new one gets one that follows from vmid and slot.'
    type: dict
  numa:
    description:
      - By slot (V(numa0) to V(numa7)); replaced as a whole.
    type: dict
  parallel:
    description:
      - By slot (V(parallel0) to V(parallel2)); replaced as a whole.
    type: dict
  sata:
    description:
      - 'Disks and CD-ROMs by slot (V(sata0) to V(sata5)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id, or
        an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.'
    type: dict
  scsi:
    description:
      - 'Disks and CD-ROMs by slot (V(scsi0) to V(scsi30)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id,
        or an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.'
    type: dict
  serial:
    description:
      - By slot (V(serial0) to V(serial3)); replaced as a whole.
    type: dict
  usb:
    description:
      - By slot (V(usb0) to V(usb13)); replaced as a whole.
    type: dict
  virtio:
    description:
      - 'Disks and CD-ROMs by slot (V(virtio0) to V(virtio15)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume
        id, or an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.'
    type: dict
  virtiofs:
    description:
      - By slot (V(virtiofs0) to V(virtiofs9)); replaced as a whole.
    type: dict
  unused:
    description:
      - By slot (V(unused0) to V(unused255)); replaced as a whole.
    type: dict
  cdrom:
    description:
      - 'Another name for V(ide2): an ISO, V(none), or V(cdrom).'
    type: str
  efidisk0:
    description:
      - Disk for UEFI variables; made when it is missing. A difference in type or keys is refused, since only a new,
        empty disk would mend it.
    type: dict
    suboptions:
      storage:
        description:
          - Where it is made.
        type: str
      format:
        description:
          - Format of its file.
        type: str
      efitype:
        description:
          - Size of the variables; V(4m) for a new disk unless given.
        type: str
        choices:
          - '2m'
          - '4m'
      pre_enrolled_keys:
        description:
          - Whether keys for secure boot are enrolled; not for a new disk unless given.
        type: bool
        aliases:
          - pre-enrolled-keys
  tpmstate0:
    description:
      - State of a TPM; made when it is missing. A difference in version is refused.
    type: dict
    suboptions:
      storage:
        description:
          - Where it is made.
        type: str
        required: true
      version:
        description:
          - TPM version; the default counts at creation only.
        type: str
        choices:
          - '2.0'
          - '1.2'
        default: '2.0'
  nameservers:
    description:
      - Cloud-init name servers.
    type: list
    elements: str
    aliases:
      - nameserver
  searchdomains:
    description:
      - Cloud-init search domains.
    type: list
    elements: str
    aliases:
      - searchdomain
  tags:
    description:
      - Tags, as an exact set.
    type: list
    elements: str
  tags_add:
    description:
      - Tags to be there, beside any others.
    type: list
    elements: str
  tags_remove:
    description:
      - Tags not to be there.
    type: list
    elements: str
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
  - At least one of O(name) and O(vmid) is required.
  - At least one of O(api_password) and O(api_token_id) is required.
  - O(api_token_id) and O(api_token_secret) must be given together.
  - O(delete) and O(revert) exclude each other.
  - O(clone) and O(delete) exclude each other.
  - O(clone) and O(revert) exclude each other.
  - O(tags) and O(tags_add) exclude each other.
  - O(tags) and O(tags_remove) exclude each other.
  - 'Privilege for reading the guest: C(VM.Audit) on C(/vms/VMID).'
  - 'Privilege for seeing that O(pool) is there: C(Pool.Audit) on C(/pool/POOL).'
  - 'Privilege for creating; O(state=absent), O(state=template): C(VM.Allocate) on C(/vms/VMID), or at creation
    C(/pool/POOL).'
  - 'Privilege for the options of each class: C(VM.Config.CPU), C(VM.Config.Memory), C(VM.Config.Network),
    C(VM.Config.HWType), C(VM.Config.Options), C(VM.Config.Cloudinit) on C(/vms/VMID), or at creation C(/pool/POOL).'
  - 'Privilege for disks, boot order and CD drives of a guest that is there: C(VM.Config.Disk), C(VM.Config.CDROM) on
    C(/vms/VMID).'
  - 'Privilege for the bridge or vnet that a card has, and the one that it gets: C(SDN.Use) on
    C(/sdn/zones/localnetwork/BRIDGE) or C(/sdn/zones/ZONE/VNET), with a VLAN tag below it on C(TAG).'
  - 'Privilege for new, grown, moved and imported disks; EFI disks and TPM states: C(Datastore.AllocateSpace) on
    C(/storage/STORAGE).'
  - 'Privilege for ISO images, and sources under C(import/): C(Datastore.Audit) or C(Datastore.AllocateSpace) on
    C(/storage/STORAGE).'
  - 'Privilege for importing a volume that bears the number of another guest: C(VM.Clone) on C(/vms/OWNER).'
  - 'Privilege for start, stop, shutdown, restart, pause, hibernation: C(VM.PowerMgmt) on C(/vms/VMID).'
  - 'Privilege for O(clone), with C(VM.Allocate) on the new id: C(VM.Clone) on C(/vms/SOURCE).'
  - 'Privilege for O(migrate): C(VM.Migrate) on C(/vms/VMID).'
  - 'Privilege for O(startup): C(Sys.Modify) on C(/).'
  - 'Privilege for mapped PCI and USB devices and folders: C(Mapping.Use) on C(/mapping/...).'
  - 'Privilege for O(args), O(hookscript), raw devices, import by absolute path; no token passes: the login of root@pam
    by password on the server.'
  - 'Privilege for telling another user''s task from a dead lock; without it only one''s own tasks are seen:
    C(Sys.Audit) on C(/nodes/NODE).'
seealso:
  - module: community.proxmox.proxmox_kvm
    description: The Python module that M(trueplan.virt.pve_vm_shell) replaces.
"""

EXAMPLES = r"""
- name: Make an empty guest
  trueplan.virt.pve_vm_shell:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    node: pve1
    vmid: 20042
    name: app01
    cores: 2
    memory: 2048
    scsihw: virtio-scsi-single
    net:
      net0: virtio,bridge=vmbr0

- name: Remove it, running or not
  trueplan.virt.pve_vm_shell:
    vmid: 20042
    state: absent
    force: true
"""

RETURN = r"""
vmid:
  description:
    - Id of the guest.
  returned: success
  type: int
  sample: 115
name:
  description:
    - Its name, or null.
  returned: success
  type: str
node:
  description:
    - Where it lives.
  returned: success
  type: str
status:
  description:
    - V(running), V(stopped) or V(paused) afterwards; null where it was not looked at.
  returned: success
  type: str
  sample: running
uuid:
  description:
    - Its BIOS uuid, or null.
  returned: success
  type: str
mac:
  description:
    - MAC address by card.
  returned: success
  type: dict
  sample:
    net0: 'BC:24:11:00:00:01'
devices:
  description:
    - Volume by disk.
  returned: success
  type: dict
  sample:
    scsi0: 'local:115/vm-115-disk-0.raw'
config:
  description:
    - Its configuration, pending changes included.
  returned: success
  type: dict
pending:
  description:
    - What waits for the next stop; null means removal.
  returned: success
  type: dict
restart_required:
  description:
    - Whether something waits for the next stop.
  returned: success
  type: bool
drift:
  description:
    - Differences that this task does not mend, each with what does.
  returned: when there is any
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
                "unable to run trueplan.virt.pve_vm_shell 0.1.0: its native binary for %s %s is not installed; "
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
            "state": {
                "type": "str",
                "default": "present",
                "choices": [
                    "present",
                    "absent",
                    "stopped",
                    "started",
                    "restarted",
                    "current",
                    "template",
                    "paused",
                    "hibernated",
                ],
            },
            "update": {"type": "bool", "default": False},
            "update_unsafe": {"type": "bool", "default": False},
            "rename": {"type": "bool", "default": False},
            "cipassword_update": {
                "type": "str",
                "default": "on_create",
                "choices": ["on_create", "always"],
                "no_log": False,
            },
            "create_only": {"type": "list", "elements": "str"},
            "unset": {"type": "list", "elements": "str"},
            "delete": {"type": "str"},
            "revert": {"type": "str"},
            "digest": {"type": "str"},
            "force": {"type": "bool"},
            "purge": {"type": "bool", "default": False},
            "destroy_unreferenced_disks": {"type": "bool", "default": False},
            "skiplock": {"type": "bool"},
            "timeout": {"type": "int", "default": 600},
            "pool": {"type": "str"},
            "storage": {"type": "str"},
            "format": {
                "type": "str",
                "choices": ["cloop", "cow", "qcow", "qcow2", "qed", "raw", "vmdk", "unspecified"],
            },
            "clone": {"type": "str"},
            "newid": {"type": "int"},
            "full": {"type": "bool", "default": True},
            "snapname": {"type": "str"},
            "target": {"type": "str"},
            "migrate": {"type": "bool", "default": False},
            "with_local_disks": {"type": "bool", "default": False},
            "archive": {"type": "str"},
            "unique": {"type": "bool"},
            "live_restore": {"type": "bool", "aliases": ["live-restore"]},
            "bwlimit": {"type": "int"},
            "start": {"type": "bool"},
            "ha_managed": {"type": "bool", "aliases": ["ha-managed"]},
            "import_working_storage": {"type": "str", "aliases": ["import-working-storage"]},
            "acpi": {"type": "bool"},
            "affinity": {"type": "str"},
            "agent": {"type": "str"},
            "allow_ksm": {"type": "bool", "aliases": ["allow-ksm"]},
            "amd_sev": {"type": "str", "aliases": ["amd-sev"]},
            "arch": {"type": "str", "choices": ["x86_64", "aarch64"]},
            "args": {"type": "str"},
            "autostart": {"type": "bool"},
            "balloon": {"type": "int"},
            "bios": {"type": "str", "choices": ["seabios", "ovmf"]},
            "boot": {"type": "str"},
            "bootdisk": {"type": "str"},
            "cicustom": {"type": "str"},
            "cipassword": {"type": "str", "no_log": True},
            "citype": {"type": "str", "choices": ["nocloud", "configdrive2", "opennebula"]},
            "ciupgrade": {"type": "bool"},
            "ciuser": {"type": "str"},
            "cores": {"type": "int"},
            "cpu": {"type": "str"},
            "cpulimit": {"type": "float"},
            "cpuunits": {"type": "int"},
            "description": {"type": "str"},
            "freeze": {"type": "bool"},
            "hookscript": {"type": "str"},
            "hotplug": {"type": "str"},
            "hugepages": {"type": "str", "choices": ["any", "2", "1024"]},
            "intel_tdx": {"type": "str", "aliases": ["intel-tdx"]},
            "ivshmem": {"type": "str"},
            "keephugepages": {"type": "bool"},
            "keyboard": {
                "type": "str",
                "choices": [
                    "de",
                    "de-ch",
                    "da",
                    "en-gb",
                    "en-us",
                    "es",
                    "fi",
                    "fr",
                    "fr-be",
                    "fr-ca",
                    "fr-ch",
                    "hu",
                    "is",
                    "it",
                    "ja",
                    "lt",
                    "mk",
                    "nl",
                    "no",
                    "pl",
                    "pt",
                    "pt-br",
                    "sv",
                    "sl",
                    "tr",
                ],
                "no_log": False,
            },
            "kvm": {"type": "bool"},
            "localtime": {"type": "bool"},
            "lock": {
                "type": "str",
                "choices": [
                    "backup",
                    "clone",
                    "create",
                    "migrate",
                    "rollback",
                    "snapshot",
                    "snapshot-delete",
                    "suspending",
                    "suspended",
                ],
            },
            "machine": {"type": "str"},
            "memory": {"type": "int"},
            "migrate_downtime": {"type": "float"},
            "migrate_speed": {"type": "int"},
            "numa_enabled": {"type": "bool"},
            "onboot": {"type": "bool"},
            "ostype": {
                "type": "str",
                "choices": [
                    "other",
                    "wxp",
                    "w2k",
                    "w2k3",
                    "w2k8",
                    "wvista",
                    "win7",
                    "win8",
                    "win10",
                    "win11",
                    "l24",
                    "l26",
                    "solaris",
                ],
            },
            "protection": {"type": "bool"},
            "reboot": {"type": "bool"},
            "rng0": {"type": "str"},
            "scsihw": {
                "type": "str",
                "choices": ["lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"],
            },
            "shares": {"type": "int"},
            "smbios": {"type": "str", "aliases": ["smbios1"]},
            "smp": {"type": "int"},
            "sockets": {"type": "int"},
            "spice_enhancements": {"type": "str"},
            "sshkeys": {"type": "str", "no_log": False},
            "startdate": {"type": "str"},
            "startup": {"type": "str"},
            "tablet": {"type": "bool"},
            "tdf": {"type": "bool"},
            "template": {"type": "bool"},
            "vcpus": {"type": "int"},
            "vga": {"type": "str"},
            "vmgenid": {"type": "str"},
            "vmstatestorage": {"type": "str"},
            "watchdog": {"type": "str"},
            "audio": {"type": "dict"},
            "hostpci": {"type": "dict"},
            "ide": {"type": "dict"},
            "ipconfig": {"type": "dict"},
            "net": {"type": "dict"},
            "numa": {"type": "dict"},
            "parallel": {"type": "dict"},
            "sata": {"type": "dict"},
            "scsi": {"type": "dict"},
            "serial": {"type": "dict"},
            "usb": {"type": "dict"},
            "virtio": {"type": "dict"},
            "virtiofs": {"type": "dict"},
            "unused": {"type": "dict"},
            "cdrom": {"type": "str"},
            "efidisk0": {
                "type": "dict",
                "options": {
                    "storage": {"type": "str"},
                    "format": {"type": "str"},
                    "efitype": {"type": "str", "choices": ["2m", "4m"]},
                    "pre_enrolled_keys": {"type": "bool", "aliases": ["pre-enrolled-keys"]},
                },
            },
            "tpmstate0": {
                "type": "dict",
                "options": {
                    "storage": {"type": "str", "required": True},
                    "version": {"type": "str", "default": "2.0", "choices": ["2.0", "1.2"]},
                },
            },
            "nameservers": {"type": "list", "elements": "str", "aliases": ["nameserver"]},
            "searchdomains": {"type": "list", "elements": "str", "aliases": ["searchdomain"]},
            "tags": {"type": "list", "elements": "str"},
            "tags_add": {"type": "list", "elements": "str"},
            "tags_remove": {"type": "list", "elements": "str"},
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
        required_one_of=[["name", "vmid"], ["api_password", "api_token_id"]],
        required_together=[["api_token_id", "api_token_secret"]],
        mutually_exclusive=[
            ["delete", "revert"],
            ["clone", "delete"],
            ["clone", "revert"],
            ["tags", "tags_add"],
            ["tags", "tags_remove"],
        ],
    )
    module.fail_json()


if __name__ == "__main__":
    main()
