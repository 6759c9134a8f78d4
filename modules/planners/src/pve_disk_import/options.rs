//! The argument table of pve_disk_import.

use crate::privileges;
use crate::pve_common as common;
use spec::shared::{RETURNS, RETURNS_WRITING};
use spec::{Kind as T, ModuleSpec, Opt, Ret};

/// Options of a drive that converge; the names are the server's own. All but the geometry, which the server drops.
pub const DRIVE: &[&str] = &[
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
    "media",
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
];

/// Disk geometry: today's servers drop these (source: qemu-server, Drive.pm, DROPPED_PROPERTIES).
pub const GEOMETRY: &[&str] = &["cyls", "heads", "secs", "trans"];

const UNSETTABLE: &[&str] = &[
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
];

const MAIN: &[Opt] = &[
    Opt::int("vmid", "Id of the guest. It is found wherever it lives."),
    Opt::str("name", "Name of the guest; used when O(vmid) is not given. Exactly one virtual machine must have it."),
    Opt::str("node", "Node on which the guest probably is: saves the search for it. It is found wherever it lives."),
    Opt::str("disk", "The disk: V(ide0) to V(ide3), V(scsi0) to V(scsi30), V(sata0) to V(sata5), V(virtio0) to V(virtio15), V(efidisk0), V(tpmstate0), V(unused0) to V(unused255).").required(),
    Opt::str("state", "V(present): it is there, made or imported if it is missing. V(resized): it has O(size). V(moved): it is on another storage, in another format, or another guest's. V(detached): it is off the guest, its volume stays as V(unusedN). V(absent): it is gone with its data.")
        .choices(&["present", "resized", "detached", "moved", "absent"])
        .default("\"present\""),
    Opt::str("create", "V(regular): a missing disk is made. V(disabled): never. V(forced): a new one is made even if there is one, which is detached and stays as V(unusedN); this is not repeatable.")
        .choices(&["disabled", "regular", "forced"])
        .default("\"regular\""),
    Opt::str("storage", "Storage for a new disk."),
    Opt::str("size", "For O(state=present): size of a new, empty disk in GiB. For O(state=resized): the size that the disk shall have, such as V(40G), in bytes without a unit; V(+5G) adds, on every run."),
    Opt::str("format", "Format of a new or moved disk on a storage that keeps files. Without it an imported disk becomes V(qcow2), an empty one V(raw); it is always sent, since the server would keep VMware's format.")
        .choices(&["raw", "cow", "qcow", "qed", "qcow2", "vmdk", "cloop"]),
    Opt::str("import_from", "What a missing disk is made of: C(<storage>:<vmid>/<name>), C(<storage>:import/<file>), a path of an C(esxi) storage, or an absolute path (only for the login root@pam)."),
    Opt::str("import_working_storage", "Storage where a disk inside an OVA is unpacked; that of the OVA if it is not given."),
    Opt::str("source_layout", "Needed to import an absolute path that ends in C(.vmdk): says that it is one file (monolithicSparse, streamOptimized), since servers refuse a descriptor with a separate data file there.")
        .choices(&["single_file"]),
    Opt::int("source_bytes", "Size that the source must have, in bytes.").range(1, i64::MAX),
    Opt::bool("source_pending", "For check mode: an earlier task of this run makes the source, so that it cannot be looked at yet. It is listed in RV(unverified) then.").default("false"),
    Opt::str("attach_from", "A volume of this guest, C(<storage>:<vmid>/<name>), that becomes the missing disk as it is, without copying."),
    Opt::str("iso_image", "Volume id of an ISO image for a CD-ROM drive (O(media=cdrom)), or V(none) for an empty one, or V(cdrom) for the node's own."),
    Opt::str("target_storage", "Storage to move the disk to."),
    Opt::int("target_vmid", "Guest to move the disk to."),
    Opt::str("target_disk", "Which disk of O(target_vmid) it becomes; the same name if it is not given."),
    Opt::bool("delete_moved", "Remove the volume on the old storage after moving; otherwise it stays as V(unusedN)."),
    Opt::int("bwlimit", "Limit for moving, in KiB/s.").range(0, i64::MAX),
    Opt::strs("unset", "Options to be removed from the disk.").choices(UNSETTABLE),
    Opt::bool("wait", "Wait for the server's task. With V(false) its id is returned at once.").default("true"),
    Opt::int("timeout", "Seconds to wait for a lock, for a running task of the guest, and for the task of this change; V(0) does not wait for that of this change.")
        .default("600")
        .range(0, 1_000_000),
];

const TUNING: &[Opt] = &[
    Opt::str("aio", "Asynchronous input and output.").choices(&["native", "threads", "io_uring"]),
    Opt::bool("backup", "Whether backups contain the disk."),
    Opt::int("bps_max_length", "Length of bursts, in seconds."),
    Opt::int("bps_rd_max_length", "Length of read bursts, in seconds."),
    Opt::int("bps_wr_max_length", "Length of write bursts, in seconds."),
    Opt::str("cache", "Cache mode.").choices(&[
        "none",
        "writethrough",
        "writeback",
        "unsafe",
        "directsync",
    ]),
    Opt::int(
        "cyls",
        "Geometry; the server no longer stores it, so it is not used.",
    ),
    Opt::bool(
        "detect_zeroes",
        "Whether zeroes are detected and not written.",
    ),
    Opt::str("discard", "Whether discard requests are passed on.").choices(&["ignore", "on"]),
    Opt::int(
        "heads",
        "Geometry; the server no longer stores it, so it is not used.",
    ),
    Opt::int("iops", "Limit in operations per second."),
    Opt::int("iops_max", "Limit of bursts, operations per second."),
    Opt::int("iops_max_length", "Length of bursts, in seconds."),
    Opt::int("iops_rd", "Limit in reads per second."),
    Opt::int("iops_rd_max", "Limit of bursts, reads per second."),
    Opt::int("iops_rd_max_length", "Length of read bursts, in seconds."),
    Opt::int("iops_wr", "Limit in writes per second."),
    Opt::int("iops_wr_max", "Limit of bursts, writes per second."),
    Opt::int("iops_wr_max_length", "Length of write bursts, in seconds."),
    Opt::bool(
        "iothread",
        "An own thread for the disk; V(scsi) (with C(virtio-scsi-single)) and V(virtio).",
    ),
    Opt::float("mbps", "Limit in megabytes per second."),
    Opt::float("mbps_max", "Limit of bursts, megabytes per second."),
    Opt::float("mbps_rd", "Read limit in megabytes per second."),
    Opt::float("mbps_rd_max", "Limit of read bursts, megabytes per second."),
    Opt::float("mbps_wr", "Write limit in megabytes per second."),
    Opt::float(
        "mbps_wr_max",
        "Limit of write bursts, megabytes per second.",
    ),
    Opt::str("media", "Disk or CD-ROM.").choices(&["cdrom", "disk"]),
    Opt::int("queues", "Queues of a V(scsi) disk."),
    Opt::bool("replicate", "Whether replication jobs contain the disk."),
    Opt::str("rerror", "What happens on a read error.").choices(&["ignore", "report", "stop"]),
    Opt::bool("ro", "Read-only."),
    Opt::bool("scsiblock", "Pass SCSI commands through."),
    Opt::int(
        "secs",
        "Geometry; the server no longer stores it, so it is not used.",
    ),
    Opt::str(
        "serial",
        "Serial number that the guest sees, at most 20 characters.",
    ),
    Opt::bool("shared", "Says that the volume is available on all nodes."),
    Opt::bool("snapshot", "Whether writes go to a temporary file."),
    Opt::bool("ssd", "Whether the guest sees an SSD; not on V(virtio)."),
    Opt::str(
        "trans",
        "Geometry; the server no longer stores it, so it is not used.",
    )
    .choices(&["auto", "lba", "none"]),
    Opt::str("werror", "What happens on a write error.")
        .choices(&["enospc", "ignore", "report", "stop"]),
    Opt::str("wwn", "World wide name that the guest sees."),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_disk_import",
    short: "Import and manage disks of Proxmox VE virtual machines",
    doc: &[
        "Makes, imports, attaches, changes, resizes, moves, detaches and removes one disk.",
        "Options that are not named keep their values. Data is never imported over a disk that is there.",
        "An import, a move or a change that runs on the guest already is waited for, so that a task that was cut off goes on with the next run instead of starting again.",
    ],
    options: &[MAIN, TUNING, common::SIGN_IN, common::GUARDS],
    required_one_of: &[&["name", "vmid"], common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    required_if: &[
        ("create", "forced", &["storage", "attach_from"], true),
        ("state", "resized", &["size"], false),
    ],
    mutually_exclusive: &[
        &["target_vmid", "target_storage"],
        &["mbps", "mbps_rd"],
        &["mbps", "mbps_wr"],
        &["iops", "iops_rd"],
        &["iops", "iops_wr"],
        &["import_from", "size"],
        &["attach_from", "size"],
        &["import_from", "attach_from", "iso_image"],
    ],
    required_by: &[
        ("target_disk", &["target_vmid"]),
        ("mbps_max", &["mbps"]),
        ("mbps_rd_max", &["mbps_rd"]),
        ("mbps_wr_max", &["mbps_wr"]),
        ("bps_max_length", &["mbps_max"]),
        ("bps_rd_max_length", &["mbps_rd_max"]),
        ("bps_wr_max_length", &["mbps_wr_max"]),
        ("iops_max", &["iops"]),
        ("iops_rd_max", &["iops_rd"]),
        ("iops_wr_max", &["iops_wr"]),
        ("iops_max_length", &["iops_max"]),
        ("iops_rd_max_length", &["iops_rd_max"]),
        ("iops_wr_max_length", &["iops_wr_max"]),
        ("iso_image", &["media"]),
    ],
    returns: &[
        &[
            Ret::new("vmid", T::Int, "success", "Id of the guest.").sample("101"),
            Ret::new("disk", T::Str, "success", "The disk.").sample("\"scsi0\""),
            Ret::new(
                "volume",
                T::Str,
                "success",
                "Volume id of the disk, or null.",
            )
            .sample("\"local-lvm:vm-101-disk-0\""),
            Ret::new(
                "size_bytes",
                T::Int,
                "success",
                "Size of the disk in bytes, or null.",
            ),
            Ret::new(
                "imported",
                T::Bool,
                "success",
                "Whether this run imported data.",
            ),
            Ret::new(
                "available_bytes",
                T::Int,
                "success, when the storage was looked at",
                "Room on the storage that the disk goes to, before this run.",
            ),
            Ret::new(
                "unused",
                T::Str,
                "success",
                "Where the volume stayed that was detached or replaced, such as V(unused0), or null.",
            ),
            Ret::new(
                "upid",
                T::Str,
                "success",
                "Id of the server's task, or null.",
            ),
            Ret::new(
                "pending",
                T::Dict,
                "success",
                "What of the disk waits for the next stop of the guest; null means removal.",
            ),
        ],
        RETURNS,
        RETURNS_WRITING,
    ],
    examples: r#"- name: Import the first disk from the shared export
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
"#,
    notes: &[
        "What the server would refuse is refused before anything is sent: a descriptor with a separate data file under C(import/) or behind an absolute path, a data file (C(-flat.vmdk)) by itself, a snapshot's file, white space in a volume id of a directory storage, a comma anywhere.",
    ],
    privileges: &[
        privileges::READS,
        (
            "C(/vms/VMID)",
            "C(VM.Config.Disk)",
            "writing a disk; for a CD drive C(VM.Config.CDROM), for a cloud-init drive C(VM.Config.Cloudinit) too",
        ),
        privileges::ALLOCATES,
        privileges::MEDIA,
        privileges::OWNER,
        (
            "C(/vms/TARGET_VMID)",
            "C(VM.Audit), C(VM.Config.Disk)",
            "moving a disk to another guest",
        ),
        privileges::TASKS,
    ],
    replaces: Some("community.proxmox.proxmox_disk"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};
