//! The arguments of `vsphere_relocate`.

use crate::common::PLAN_ONLY;
use crate::privileges;
use crate::vsphere_common::{CONNECTION, DATACENTER, GUARD_UUID};
use crate::{Def, Side};
use spec::shared::{EXPECT_PLAN, RETURNS, RETURNS_WRITING};
use spec::{Kind, ModuleSpec, Opt, Ret};

const DISK: &[Opt] = &[
    Opt::int("key", "Key of the disk's device, such as V(2000)."),
    Opt::str("label", "Label of the disk, such as C(Hard disk 1)."),
    Opt::str(
        "datastore",
        "Name of the datastore that the disk shall lie on.",
    )
    .required(),
];

const OWN: &[Opt] = &[
    Opt::str("vm_name", "Name of the VM. Two VMs of one name are an error that lists them.").alias(&["vm"]),
    Opt::str("vm_uuid", "BIOS uuid of the VM, or the instance uuid with O(use_instance_uuid).").alias(&["uuid"]),
    Opt::str("moid", "Managed object id of the VM, such as C(vm-42)."),
    Opt::bool("use_instance_uuid", "Whether O(vm_uuid) is vCenter's own instance uuid.").default("false"),
    DATACENTER,
    GUARD_UUID,
    Opt::str("destination_host", "Name of the host that the VM shall run on.").alias(&["destination"]),
    Opt::str("destination_cluster", "Name of the cluster that the VM shall run in. DRS chooses the host; without DRS it is the first by name that sees all datastores."),
    Opt::str("destination_datastore", "Name of the datastore that the VM's own files and all disks not named by O(disks) shall lie on.").alias(&["datastore"]),
    Opt::str("destination_datastore_cluster", "Name of the datastore cluster in which the VM's files and disks shall lie. What lies in it stays; the rest goes where Storage DRS recommends, or, where that is off or may not be asked, to the usable datastore with the most free space."),
    Opt::str("destination_datacenter", "Name of the datacenter in which the destination's names are looked for. If not given, it is that of the destination's host or cluster, else the VM's."),
    Opt::str("destination_resourcepool", "Name of the resource pool, looked for in the destination's cluster or host. If not given, the VM keeps its own, or gets the root pool when it goes to another cluster.").alias(&["resource_pool"]),
    Opt::dicts("disks", "Datastores of single disks.", DISK),
    Opt::str("disk_format", "Format of the disks that are moved. It alone moves nothing. On NFS without hardware acceleration disks are thin whatever is asked for.").choices(&["same", "thin", "thick"]).default("\"same\""),
    Opt::int("max_running", "Waits while so many relocations run in this vCenter; it does not say where they go, so all count. Two tasks that look at the same moment may both start.").range(1, 1000),
    Opt::int("timeout", "Seconds to wait for the end. After that the task fails, the relocation goes on, and the next run joins it.").default("3600").range(1, 604_800),
    Opt::bool("wait", "Whether to wait for the end. If not, RV(task) says what to look at.").default("true"),
];

const DISKS: &[Ret] = &[
    Ret::new("key", Kind::Int, "always", "Key of the disk's device."),
    Ret::new("label", Kind::Str, "always", "Its label."),
    Ret::new("path_before", Kind::Str, "always", "Its descriptor before."),
    Ret::new(
        "path",
        Kind::Str,
        "always",
        "Its descriptor after; in check mode the best guess, since the server names folders and files.",
    ),
    Ret::new("datastore", Kind::Str, "always", "The datastore after."),
    Ret::new("bytes", Kind::Int, "always", "Size of the disk."),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::new(
        "running_host",
        Kind::Str,
        "on success",
        "Name of the host after the task; null in check mode where DRS chooses it.",
    ),
    Ret::new(
        "datastore",
        Kind::Str,
        "on success",
        "Name of the datastore of the VM's own files after the task.",
    ),
    Ret::new(
        "moid",
        Kind::Str,
        "on success",
        "The VM's managed object id.",
    ),
    Ret::new(
        "task",
        Kind::Str,
        "on success",
        "Managed object id of vCenter's task that was started or joined; null if there was none, and in check mode.",
    ),
    Ret::new(
        "percent",
        Kind::Int,
        "on timeout",
        "How far the task is, if vCenter says so.",
    ),
    Ret::list_of(
        "disks",
        Kind::Dict,
        "on success",
        "The disks, in the order in which the guest meets them.",
    )
    .contains(DISKS),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vsphere_relocate",
    short: "Move vSphere VMs and their disks to other datastores and hosts",
    doc: &[
        "Moves a virtual machine's files, single disks, or the machine itself. It is done when its own files and every disk lie where asked, whatever else it touches: an inserted ISO image does not count.",
        "A relocation that already runs on the VM is joined, never doubled; then everything is looked at again.",
    ],
    options: &[OWN, CONNECTION, &[EXPECT_PLAN, PLAN_ONLY]],
    required_one_of: &[
        &["vm_name", "vm_uuid", "moid"],
        &[
            "destination_host",
            "destination_cluster",
            "destination_datastore",
            "destination_datastore_cluster",
            "destination_resourcepool",
            "disks",
        ],
    ],
    mutually_exclusive: &[
        &["vm_name", "vm_uuid", "moid"],
        &["destination_host", "destination_cluster"],
        &["destination_datastore", "destination_datastore_cluster"],
    ],
    returns: &[OWN_RETURNS, RETURNS, RETURNS_WRITING],
    examples: "- name: Move the VM to the NFS export that both sides mount\n  trueplan.virt.vsphere_relocate:\n    hostname: vcenter.example.com\n    username: migrate@vsphere.local\n    password: \"{{ vault_vcenter_password }}\"\n    moid: vm-1042\n    destination_datastore: nfs-migration\n    max_running: 4\n",
    privileges: &[
        privileges::VSPHERE_READS,
        (
            "the VM",
            "C(Resource.HotMigrate); C(Resource.ColdMigrate) while it is off",
            "moving",
        ),
        (
            "the resource pool that it goes to",
            "C(Resource.AssignVMToPool)",
            "another host or resource pool",
        ),
        (
            "the datastore that it goes to",
            "C(Datastore.AllocateSpace)",
            "its files and disks",
        ),
    ],
    replaces: Some("community.vmware.vmware_vmotion"),
    action_groups: &["vsphere", "vmware"],
    ..ModuleSpec::EMPTY
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Vsphere,
    make: super::make,
};
