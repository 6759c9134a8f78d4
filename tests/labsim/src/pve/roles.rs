//! Privileges and built-in roles of PVE 9.
use std::collections::BTreeSet;

/// Every privilege of PVE 9.
pub(super) const PRIVS: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];

/// Privileges only `Administrator` has (recorded: what PVEAdmin lacks, create-config-cases.json `perm-list`).
const ADMIN_ONLY: &[&str] = &[
    "Mapping.Modify",
    "Permissions.Modify",
    "Realm.Allocate",
    "Sys.AccessNetwork",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
];

/// The privileges of a built-in role.
pub(super) fn builtin(role: &str) -> Option<BTreeSet<String>> {
    let pick = |f: &dyn Fn(&str) -> bool| {
        PRIVS
            .iter()
            .filter(|p| f(p))
            .map(|p| p.to_string())
            .collect::<BTreeSet<_>>()
    };
    let list = |names: &[&str]| names.iter().map(|s| s.to_string()).collect::<BTreeSet<_>>();
    Some(match role {
        "Administrator" => pick(&|_| true),
        "NoAccess" => BTreeSet::new(),
        "PVEAdmin" => pick(&|p| !ADMIN_ONLY.contains(&p)),
        "PVEAuditor" => pick(&|p| p.ends_with(".Audit")),
        "PVEVMAdmin" => pick(&|p| p.starts_with("VM.")),
        "PVEVMUser" => list(&[
            "VM.Audit",
            "VM.Backup",
            "VM.Config.CDROM",
            "VM.Config.Cloudinit",
            "VM.Console",
            "VM.GuestAgent.Audit",
            "VM.PowerMgmt",
        ]),
        "PVETemplateUser" => list(&["VM.Audit", "VM.Clone"]),
        "PVEDatastoreAdmin" => pick(&|p| p.starts_with("Datastore.")),
        "PVEDatastoreUser" => list(&["Datastore.AllocateSpace", "Datastore.Audit"]),
        "PVEPoolAdmin" => pick(&|p| p.starts_with("Pool.")),
        "PVEPoolUser" => list(&["Pool.Audit"]),
        "PVESDNAdmin" => pick(&|p| p.starts_with("SDN.")),
        "PVESDNUser" => list(&["SDN.Audit", "SDN.Use"]),
        "PVESysAdmin" => list(&["Sys.Audit", "Sys.Console", "Sys.Syslog"]),
        "PVEUserAdmin" => list(&["Group.Allocate", "Realm.AllocateUser", "User.Modify"]),
        "PVEMappingAdmin" => pick(&|p| p.starts_with("Mapping.")),
        "PVEMappingAuditor" => list(&["Mapping.Audit"]),
        "PVEMappingUser" => list(&["Mapping.Audit", "Mapping.Use"]),
        _ => return None,
    })
}

/// The built-in roles.
pub(super) const BUILTIN_ROLES: &[&str] = &[
    "Administrator",
    "NoAccess",
    "PVEAdmin",
    "PVEAuditor",
    "PVEDatastoreAdmin",
    "PVEDatastoreUser",
    "PVEMappingAdmin",
    "PVEMappingAuditor",
    "PVEMappingUser",
    "PVEPoolAdmin",
    "PVEPoolUser",
    "PVESDNAdmin",
    "PVESDNUser",
    "PVESysAdmin",
    "PVETemplateUser",
    "PVEUserAdmin",
    "PVEVMAdmin",
    "PVEVMUser",
];
