//! Arguments of `pve_vm_shell`: those of the peer, every option of the server's guest schema, and ours.

use crate::privileges;
use crate::pve_common as common;
use spec::{Kind, ModuleSpec, Opt, Ret};

/// Options that are one option of the guest: name of the argument, name in the configuration.
pub(super) const PLAIN: &[(&str, &str)] = &[
    ("acpi", "acpi"),
    ("affinity", "affinity"),
    ("agent", "agent"),
    ("allow_ksm", "allow-ksm"),
    ("amd_sev", "amd-sev"),
    ("arch", "arch"),
    ("args", "args"),
    ("autostart", "autostart"),
    ("balloon", "balloon"),
    ("bios", "bios"),
    ("boot", "boot"),
    ("bootdisk", "bootdisk"),
    ("cicustom", "cicustom"),
    ("cipassword", "cipassword"),
    ("citype", "citype"),
    ("ciupgrade", "ciupgrade"),
    ("ciuser", "ciuser"),
    ("cores", "cores"),
    ("cpu", "cpu"),
    ("cpulimit", "cpulimit"),
    ("cpuunits", "cpuunits"),
    ("description", "description"),
    ("freeze", "freeze"),
    ("hookscript", "hookscript"),
    ("hotplug", "hotplug"),
    ("hugepages", "hugepages"),
    ("intel_tdx", "intel-tdx"),
    ("ivshmem", "ivshmem"),
    ("keephugepages", "keephugepages"),
    ("keyboard", "keyboard"),
    ("kvm", "kvm"),
    ("localtime", "localtime"),
    ("lock", "lock"),
    ("machine", "machine"),
    ("memory", "memory"),
    ("migrate_downtime", "migrate_downtime"),
    ("migrate_speed", "migrate_speed"),
    ("numa_enabled", "numa"),
    ("onboot", "onboot"),
    ("ostype", "ostype"),
    ("protection", "protection"),
    ("reboot", "reboot"),
    ("rng0", "rng0"),
    ("scsihw", "scsihw"),
    ("shares", "shares"),
    ("smbios", "smbios1"),
    ("smp", "smp"),
    ("sockets", "sockets"),
    ("spice_enhancements", "spice_enhancements"),
    ("sshkeys", "sshkeys"),
    ("startdate", "startdate"),
    ("startup", "startup"),
    ("tablet", "tablet"),
    ("tdf", "tdf"),
    ("template", "template"),
    ("vcpus", "vcpus"),
    ("vga", "vga"),
    ("vmgenid", "vmgenid"),
    ("vmstatestorage", "vmstatestorage"),
    ("watchdog", "watchdog"),
];

/// Options that are a dictionary of numbered options.
pub(super) const FAMILIES: &[&str] = &[
    "audio", "hostpci", "ide", "ipconfig", "net", "numa", "parallel", "sata", "scsi", "serial",
    "usb", "virtio", "virtiofs", "unused",
];

const GUEST: &[Opt] = &[
    Opt::bool("acpi", "ACPI."),
    Opt::str("affinity", "Host cores that run the guest, such as V(0,5,8-11). Needs the root@pam login."),
    Opt::str("agent", "QEMU guest agent: a boolean, or keys such as V(enabled=1,fstrim_cloned_disks=1). Named keys converge, others stay."),
    Opt::bool("allow_ksm", "Let the host merge equal memory pages of this guest.").alias(&["allow-ksm"]),
    Opt::str("amd_sev", "AMD memory encryption. Needs the root@pam login.").alias(&["amd-sev"]),
    Opt::str("arch", "Virtual processor architecture. Needs the root@pam login.").choices(&["x86_64", "aarch64"]),
    Opt::str("args", "Arguments for KVM. Needs the root@pam login."),
    Opt::bool("autostart", "Start after a crash (the server ignores it today)."),
    Opt::int("balloon", "Least memory in MiB; V(0) switches the balloon off.").range(0, i64::MAX),
    Opt::str("bios", "Firmware.").choices(&["seabios", "ovmf"]),
    Opt::str("boot", "Boot order, V(order=scsi0;net0), or the old letters such as V(cnd). Every device must exist."),
    Opt::str("bootdisk", "Disk that the old letter V(c) means."),
    Opt::str("cicustom", "Cloud-init files that replace generated ones."),
    Opt::str("cipassword", "Cloud-init password. The server does not show it: it is written where none is set, and not compared later; see O(cipassword_update).").secret(),
    Opt::str("citype", "Cloud-init format.").choices(&["nocloud", "configdrive2", "opennebula"]),
    Opt::bool("ciupgrade", "Let cloud-init upgrade packages at first boot."),
    Opt::str("ciuser", "Cloud-init user."),
    Opt::int("cores", "Cores per socket.").range(1, i64::MAX),
    Opt::str("cpu", "Processor type and its keys; replaced as a whole."),
    Opt::float("cpulimit", "Limit in processors; V(0) is none."),
    Opt::int("cpuunits", "Processor weight.").range(1, 262_144),
    Opt::str("description", "Notes."),
    Opt::bool("freeze", "Do not start the processor at start."),
    Opt::str("hookscript", "Volume of a hook script. Needs the root@pam login."),
    Opt::str("hotplug", "What may be plugged into the running guest: V(0), V(1), or a list such as V(network,disk,usb)."),
    Opt::str("hugepages", "Size of huge pages in MiB.").choices(&["any", "2", "1024"]),
    Opt::str("intel_tdx", "Intel memory encryption. Needs the root@pam login.").alias(&["intel-tdx"]),
    Opt::str("ivshmem", "Shared memory between guests. Needs the root@pam login."),
    Opt::bool("keephugepages", "Keep huge pages after stop."),
    Opt::str("keyboard", "Keyboard layout for VNC.").choices(&["de", "de-ch", "da", "en-gb", "en-us", "es", "fi", "fr", "fr-be", "fr-ca", "fr-ch", "hu", "is", "it", "ja", "lt", "mk", "nl", "no", "pl", "pt", "pt-br", "sv", "sl", "tr"]),
    Opt::bool("kvm", "Hardware virtualisation."),
    Opt::bool("localtime", "The clock of the guest is local time."),
    Opt::str("lock", "Lock of the guest. Needs the root@pam login.").choices(&["backup", "clone", "create", "migrate", "rollback", "snapshot", "snapshot-delete", "suspending", "suspended"]),
    Opt::str("machine", "Machine type; V(q35) equals any pinned V(pc-q35-N)."),
    Opt::int("memory", "Memory in MiB.").range(16, i64::MAX),
    Opt::float("migrate_downtime", "Longest downtime of a migration in seconds."),
    Opt::int("migrate_speed", "Speed of a migration in MB/s; V(0) is no limit.").range(0, i64::MAX),
    Opt::bool("numa_enabled", "NUMA."),
    Opt::bool("onboot", "Start with the node."),
    Opt::str("ostype", "Operating system.").choices(&["other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24", "l26", "solaris"]),
    Opt::bool("protection", "Refuse removal of the guest and of its disks."),
    Opt::bool("reboot", "Let the guest reboot; if not, it stops instead."),
    Opt::str("rng0", "Source of random numbers, such as V(source=/dev/urandom); replaced as a whole."),
    Opt::str("scsihw", "SCSI controller.").choices(&["lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"]),
    Opt::int("shares", "Memory weight; V(0) switches automatic ballooning off.").range(0, 50_000),
    Opt::str("smbios", "SMBIOS fields, such as V(uuid=...); named keys converge, others stay.").alias(&["smbios1"]),
    Opt::int("smp", "Number of processors (old; use O(cores)).").range(1, i64::MAX),
    Opt::int("sockets", "Processor sockets.").range(1, i64::MAX),
    Opt::str("spice_enhancements", "SPICE extras, such as V(videostreaming=all). Needs the root@pam login."),
    Opt::str("sshkeys", "Cloud-init public keys, one a line, as plain text."),
    Opt::str("startdate", "First time of the clock: V(now), V(2026-01-31) or V(2026-01-31T16:01:21)."),
    Opt::str("startup", "Start order, such as V(order=3,up=10); replaced as a whole. Needs Sys.Modify on /."),
    Opt::bool("tablet", "USB tablet as pointer."),
    Opt::bool("tdf", "Time drift fix."),
    Opt::bool("template", "The flag of a template. O(state=template) converts the disks too and is what you want."),
    Opt::int("vcpus", "Processors plugged at start.").range(1, i64::MAX),
    Opt::str("vga", "Display; replaced as a whole."),
    Opt::str("vmgenid", "Generation id; V(1) makes one, V(0) has none. Needs the root@pam login."),
    Opt::str("vmstatestorage", "Storage for the state of a hibernated guest."),
    Opt::str("watchdog", "Watchdog device."),
];

const DEVICES: &[Opt] = &[
    Opt::dict(
        "audio",
        "Audio device (V(audio0)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "hostpci",
        "By slot (V(hostpci0) to V(hostpci15)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "ide",
        "Disks and CD-ROMs by slot (V(ide0) to V(ide3)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id, or an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.",
        &[],
    ),
    Opt::dict(
        "ipconfig",
        "By slot (V(ipconfig0) to V(ipconfig31)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "net",
        "Network cards by slot (V(net0) to V(net31)): V(virtio,bridge=vmbr0,tag=5). Named keys converge, others stay; a card without a MAC address keeps its own, a new one gets one that follows from vmid and slot.",
        &[],
    ),
    Opt::dict(
        "numa",
        "By slot (V(numa0) to V(numa7)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "parallel",
        "By slot (V(parallel0) to V(parallel2)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "sata",
        "Disks and CD-ROMs by slot (V(sata0) to V(sata5)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id, or an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.",
        &[],
    ),
    Opt::dict(
        "scsi",
        "Disks and CD-ROMs by slot (V(scsi0) to V(scsi30)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id, or an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.",
        &[],
    ),
    Opt::dict(
        "serial",
        "By slot (V(serial0) to V(serial3)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "usb",
        "By slot (V(usb0) to V(usb13)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "virtio",
        "Disks and CD-ROMs by slot (V(virtio0) to V(virtio15)): V(storage:32,ssd=1) for a new disk of 32 GiB, a volume id, or an ISO with V(media=cdrom). Named keys converge, others stay; an existing disk is never made anew.",
        &[],
    ),
    Opt::dict(
        "virtiofs",
        "By slot (V(virtiofs0) to V(virtiofs9)); replaced as a whole.",
        &[],
    ),
    Opt::dict(
        "unused",
        "By slot (V(unused0) to V(unused255)); replaced as a whole.",
        &[],
    ),
    Opt::str(
        "cdrom",
        "Another name for V(ide2): an ISO, V(none), or V(cdrom).",
    ),
    Opt::dict(
        "efidisk0",
        "Disk for UEFI variables; made when it is missing. A difference in type or keys is refused, since only a new, empty disk would mend it.",
        &[
            Opt::str("storage", "Where it is made."),
            Opt::str("format", "Format of its file."),
            Opt::str(
                "efitype",
                "Size of the variables; V(4m) for a new disk unless given.",
            )
            .choices(&["2m", "4m"]),
            Opt::bool(
                "pre_enrolled_keys",
                "Whether keys for secure boot are enrolled; not for a new disk unless given.",
            )
            .alias(&["pre-enrolled-keys"]),
        ],
    ),
    Opt::dict(
        "tpmstate0",
        "State of a TPM; made when it is missing. A difference in version is refused.",
        &[
            Opt::str("storage", "Where it is made.").required(),
            Opt::str(
                "version",
                "TPM version; the default counts at creation only.",
            )
            .choices(&["2.0", "1.2"])
            .default("\"2.0\""),
        ],
    ),
    Opt::strs("nameservers", "Cloud-init name servers.").alias(&["nameserver"]),
    Opt::strs("searchdomains", "Cloud-init search domains.").alias(&["searchdomain"]),
    Opt::strs("tags", "Tags, as an exact set."),
    Opt::strs("tags_add", "Tags to be there, beside any others."),
    Opt::strs("tags_remove", "Tags not to be there."),
];

const TASK: &[Opt] = &[
    Opt::int("vmid", "Id of the guest. Without it an existing guest is found by O(name), and a new one gets the next free id."),
    Opt::str("name", "Name of the guest, a DNS name. With O(vmid): an existing guest of another name is refused unless O(rename)."),
    Opt::str("node", "Where a new guest is made. An existing one is found wherever it lives."),
    Opt::str("state", "State of the guest.")
        .choices(&["present", "absent", "stopped", "started", "restarted", "current", "template", "paused", "hibernated"])
        .default("\"present\""),
    Opt::bool("update", "Write the differences of an existing guest. On by default when O(vmid) is given; off when it was found by name.")
        .default("false"),
    Opt::bool("update_unsafe", "Accepted; disks and cards are always compared here, and never lost.").default("false"),
    Opt::bool("rename", "Let an existing guest get another name.").default("false"),
    Opt::str("cipassword_update", "The server does not show O(cipassword). V(on_create): it is written where none is set. V(always): in every run, which then always changes something.")
        .choices(&["on_create", "always"])
        .default("\"on_create\""),
    Opt::strs("create_only", "Options that are written at creation and not compared later."),
    Opt::strs("unset", "Options to be removed from the guest."),
    Opt::str("delete", "Options to be removed from the guest, separated by commas."),
    Opt::str("revert", "Pending changes to be dropped, separated by commas."),
    Opt::str("digest", "Write only if the configuration has this digest."),
    Opt::bool("force", "Let a running guest be stopped: for O(state=absent), O(state=stopped), O(state=template), O(state=restarted)."),
    Opt::bool("purge", "On removal also remove the guest from HA, backup and replication jobs.").default("false"),
    Opt::bool("destroy_unreferenced_disks", "On removal also destroy disks with the guest's id that its configuration does not name.")
        .default("false"),
    Opt::bool("skiplock", "Ignore locks. Needs the root@pam login."),
    Opt::int("timeout", "Seconds to wait for tasks, locks and shutdowns.").default("600").range(1, 864_000),
    Opt::str("pool", "Pool that a new guest joins."),
    Opt::str("storage", "Storage of a new disk that names only its size, and target of a clone."),
    Opt::str("format", "Format of the disks of a clone.").choices(&["cloop", "cow", "qcow", "qcow2", "qed", "raw", "vmdk", "unspecified"]),
    Opt::str("clone", "Guest to be cloned: its name, or anything when O(vmid) names it."),
    Opt::int("newid", "Id of the clone."),
    Opt::bool("full", "Copy all disks of a clone.").default("true"),
    Opt::str("snapname", "Snapshot to be cloned."),
    Opt::str("target", "Node of the clone."),
    Opt::bool("migrate", "Move the guest to O(node).").default("false"),
    Opt::bool("with_local_disks", "Move local disks too.").default("false"),
    Opt::str("archive", "Backup to restore from."),
    Opt::bool("unique", "New MAC addresses for a guest restored from O(archive)."),
    Opt::bool("live_restore", "Start the guest while it is restored from O(archive).").alias(&["live-restore"]),
    Opt::int("bwlimit", "Limit for a restore or a clone, in KiB/s.").range(0, i64::MAX),
    Opt::bool("start", "Start a new guest once it is made."),
    Opt::bool("ha_managed", "Make a new guest an HA resource.").alias(&["ha-managed"]),
    Opt::str("import_working_storage", "Storage for disks that are first taken out of an OVA.").alias(&["import-working-storage"]),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_vm_shell",
    short: "Create, change, start, stop and remove Proxmox VE virtual machines",
    doc: &[
        "Creates a virtual machine, compares an existing one option by option and writes only what differs, in one request.",
        "Everything can be foreseen with check mode; what the server would refuse, or accept although it does not work, is refused before anything is written.",
        "Disks of an existing guest are never made anew; a size that is larger grows the disk, other differences are reported as drift.",
    ],
    options: &[TASK, GUEST, DEVICES, common::SIGN_IN, common::GUARDS],
    required_one_of: &[&["name", "vmid"], common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    mutually_exclusive: &[
        &["delete", "revert"],
        &["clone", "delete"],
        &["clone", "revert"],
        &["tags", "tags_add"],
        &["tags", "tags_remove"],
    ],
    returns: &[
        &[
            Ret::new("vmid", Kind::Int, "success", "Id of the guest.").sample("115"),
            Ret::new("name", Kind::Str, "success", "Its name, or null."),
            Ret::new("node", Kind::Str, "success", "Where it lives."),
            Ret::new(
                "status",
                Kind::Str,
                "success",
                "V(running), V(stopped) or V(paused) afterwards; null where it was not looked at.",
            )
            .sample("\"running\""),
            Ret::new("uuid", Kind::Str, "success", "Its BIOS uuid, or null."),
            Ret::new("mac", Kind::Dict, "success", "MAC address by card.")
                .sample("{\"net0\": \"BC:24:11:00:00:01\"}"),
            Ret::new("devices", Kind::Dict, "success", "Volume by disk.")
                .sample("{\"scsi0\": \"local:115/vm-115-disk-0.raw\"}"),
            Ret::new(
                "config",
                Kind::Dict,
                "success",
                "Its configuration, pending changes included.",
            ),
            Ret::new(
                "pending",
                Kind::Dict,
                "success",
                "What waits for the next stop; null means removal.",
            ),
            Ret::new(
                "restart_required",
                Kind::Bool,
                "success",
                "Whether something waits for the next stop.",
            ),
            Ret::list_of(
                "drift",
                Kind::Dict,
                "when there is any",
                "Differences that this task does not mend, each with what does.",
            ),
        ],
        spec::shared::RETURNS,
        spec::shared::RETURNS_WRITING,
    ],
    examples: r#"- name: Make an empty guest
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
"#,
    privileges: &[
        privileges::READS,
        (
            "C(/pool/POOL)",
            "C(Pool.Audit)",
            "seeing that O(pool) is there",
        ),
        (
            "C(/vms/VMID), or at creation C(/pool/POOL)",
            "C(VM.Allocate)",
            "creating; O(state=absent), O(state=template)",
        ),
        (
            "C(/vms/VMID), or at creation C(/pool/POOL)",
            "C(VM.Config.CPU), C(VM.Config.Memory), C(VM.Config.Network), C(VM.Config.HWType), C(VM.Config.Options), C(VM.Config.Cloudinit)",
            "the options of each class",
        ),
        (
            "C(/vms/VMID)",
            "C(VM.Config.Disk), C(VM.Config.CDROM)",
            "disks, boot order and CD drives of a guest that is there",
        ),
        privileges::BRIDGE,
        privileges::ALLOCATES,
        privileges::MEDIA,
        privileges::OWNER,
        (
            "C(/vms/VMID)",
            "C(VM.PowerMgmt)",
            "start, stop, shutdown, restart, pause, hibernation",
        ),
        (
            "C(/vms/SOURCE)",
            "C(VM.Clone)",
            "O(clone), with C(VM.Allocate) on the new id",
        ),
        ("C(/vms/VMID)", "C(VM.Migrate)", "O(migrate)"),
        ("C(/)", "C(Sys.Modify)", "O(startup)"),
        (
            "C(/mapping/...)",
            "C(Mapping.Use)",
            "mapped PCI and USB devices and folders",
        ),
        (
            "the server",
            "the login of root@pam by password",
            "O(args), O(hookscript), raw devices, import by absolute path; no token passes",
        ),
        privileges::TASKS,
    ],
    replaces: Some("community.proxmox.proxmox_kvm"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};
