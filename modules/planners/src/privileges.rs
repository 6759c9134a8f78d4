//! Rows of the privileges' tables that several modules share; what the tables are for stands in `spec::Privilege`.

use spec::Privilege;

/// To see tasks of others.
pub const TASKS: Privilege = (
    "C(/nodes/NODE)",
    "C(Sys.Audit)",
    "telling another user's task from a dead lock; without it only one's own tasks are seen",
);
/// For a card.
pub const BRIDGE: Privilege = (
    "C(/sdn/zones/localnetwork/BRIDGE) or C(/sdn/zones/ZONE/VNET), with a VLAN tag below it on C(TAG)",
    "C(SDN.Use)",
    "the bridge or vnet that a card has, and the one that it gets",
);
/// For a disk that takes room.
pub const ALLOCATES: Privilege = (
    "C(/storage/STORAGE)",
    "C(Datastore.AllocateSpace)",
    "new, grown, moved and imported disks; EFI disks and TPM states",
);
/// For what is read from a storage.
pub const MEDIA: Privilege = (
    "C(/storage/STORAGE)",
    "C(Datastore.Audit) or C(Datastore.AllocateSpace)",
    "ISO images, and sources under C(import/)",
);
/// For somebody else's volume.
pub const OWNER: Privilege = (
    "C(/vms/OWNER)",
    "C(VM.Clone)",
    "importing a volume that bears the number of another guest",
);
/// To read a guest.
pub const READS: Privilege = ("C(/vms/VMID)", "C(VM.Audit)", "reading the guest");
/// For a change of the SDN.
pub const SDN_LOCK: Privilege = ("C(/sdn)", "C(SDN.Allocate)", "the lock and applying");
/// To see the SDN.
pub const SDN_LISTS: Privilege = (
    "C(/sdn/zones)",
    "C(SDN.Audit)",
    "seeing zones, vnets and bridges: lists leave out silently what one may not see",
);
/// To see that a change has come to the nodes.
pub const SDN_RELOAD: Privilege = (
    "C(/nodes/NODE)",
    "C(Sys.Audit)",
    "following the reload of each node; without it the state of the zones is asked instead",
);
/// To read a machine.
pub const VSPHERE_READS: Privilege = (
    "the VM, its hosts, datastores and networks",
    "C(System.Read)",
    "reading",
);
