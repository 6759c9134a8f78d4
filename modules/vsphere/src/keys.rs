//! The facts of a vCenter or a standalone host that planners ask for, each with its JSON shape.
//!
//! `vsphere-api` reads them, planners decode them; nobody else knows the shapes. A reference stands as `Type:moid` with the WSDL
//! type wherever we shape the fact, and as pyVmomi prints it (`vim.Type:moid`) inside raw property trees.

use plan::Key;

/// By what a virtual machine is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmBy {
    /// Managed object id, such as `vm-12`.
    Moid(String),
    /// Name; percent-decoded once, as people write it.
    Name(String),
    /// BIOS uuid (`config.uuid`).
    Uuid(String),
    /// vCenter's own uuid (`config.instanceUuid`).
    InstanceUuid(String),
}

/// One object or list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VcKey {
    /// One virtual machine, in the shape of [`crate::vm::fact`]; `Absent` when there is none (or none that we may see). Two
    /// matches are a failure of the read. Effects are put on the key that [`VcKey::vm`] gives; the overlay finds them whatever
    /// the machine was asked for by.
    Vm {
        /// By what.
        by: VmBy,
        /// Only inside that datacenter.
        datacenter: Option<String>,
    },
    /// All virtual machines, each in the shape of [`crate::vm::fact`] (`running_tasks` is null: not read).
    Vms {
        /// Only inside that datacenter.
        datacenter: Option<String>,
    },
    /// `[{moid, name, uuid, instance_uuid, path, datacenter, template}]` of all that the caller may see: for duplicates.
    VmNames,
    /// What changes while one waits, of one machine by moid: `{power, tools_running, guest_state, question, connection}`.
    /// Power is `poweredOn`, `poweredOff` or `suspended`.
    VmState(String),
    /// `{switches: [..], networks: [..]}` in the shape of [`crate::networks::report`].
    Networks {
        /// Only inside that datacenter.
        datacenter: Option<String>,
    },
    /// `[{moid, name, datacenter, datacenter_moid, pod, pod_moid, type, accessible, maintenance, capacity, free, multiple_hosts, hosts: [{moid, accessible, mode, mounted}]}]`,
    /// bytes; `maintenance` is `normal` when there is none.
    Datastores,
    /// `[{moid, name, datacenter, parent: "Type:moid", cluster, cluster_moid, connection, maintenance, power, datastores: [moid], pool}]`;
    /// `pool` is the root pool of its compute resource.
    Hosts,
    /// `[{moid, type, name, datacenter, pool, hosts: [moid], datastores: [moid], drs}]`: clusters and standalone compute resources.
    Clusters,
    /// `[{moid, name, parent: "Type:moid", owner: "Type:moid", path}]`: resource pools and vApps.
    Pools,
    /// What the server recommends for a machine that shall lie in a datastore cluster: `{recommended: [{key, rating, reason, warning,
    /// alone, home: moid, disks: [{key, datastore: moid}]}], reasons: [text]}` in the server's order; `alone` is false where other
    /// machines would move as well; `reasons` says why there is none. `Absent` where the server has no storage manager.
    Placement {
        /// The machine's moid.
        vm: String,
        /// The datastore cluster's moid.
        pod: String,
        /// What is fixed already, a VirtualMachineRelocateSpec as JSON.
        spec: String,
    },
    /// What the server itself says of a relocation beforehand: `{errors: [text], warnings: [text]}`; `Absent` where it cannot be asked.
    RelocateCheck {
        /// The machine's moid.
        vm: String,
        /// The VirtualMachineRelocateSpec that would be sent, as JSON.
        spec: String,
    },
    /// Datastore clusters: `[{moid, name, datacenter, capacity, free, datastores: [moid], sdrs}]`.
    Pods,
    /// `[{moid, name}]`.
    Datacenters,
    /// `{moid, state: queued|running|success|error, progress?, operation, entity, entity_name, cancelable, error?, result?}`.
    Task(String),
    /// Running or queued tasks that the server's task manager remembers: the list of [`VcKey::Task`] shapes.
    Tasks,
    /// `{name, fullName, version, build, apiType, apiVersion, instanceUuid}`.
    About,
    /// Any properties of any object, as a tree of raw values, with the leaf paths asked for nested.
    Object {
        /// WSDL type.
        ty: String,
        /// Managed object id.
        moid: String,
        /// Property paths.
        paths: Vec<String>,
    },
}

impl VcKey {
    /// The key under which a machine's planned state is kept.
    pub fn vm(moid: &str) -> Key {
        VcKey::Vm {
            by: VmBy::Moid(moid.to_owned()),
            datacenter: None,
        }
        .key()
    }

    /// The opaque key.
    pub fn key(&self) -> Key {
        let p = |parts: &[&str]| {
            let mut all = vec!["vc"];
            all.extend_from_slice(parts);
            Key::from_parts(&all)
        };
        let dc = |d: &Option<String>| d.clone().unwrap_or_default();
        match self {
            VcKey::Vm { by, datacenter } => {
                let (how, what) = match by {
                    VmBy::Moid(v) => ("moid", v),
                    VmBy::Name(v) => ("name", v),
                    VmBy::Uuid(v) => ("uuid", v),
                    VmBy::InstanceUuid(v) => ("instance-uuid", v),
                };
                match datacenter {
                    Some(d) => p(&["vm", how, what, d]),
                    None => p(&["vm", how, what]),
                }
            }
            VcKey::Vms { datacenter } => p(&["vms", &dc(datacenter)]),
            VcKey::VmNames => p(&["vm-names"]),
            VcKey::VmState(v) => p(&["vm-state", v]),
            VcKey::Networks { datacenter } => p(&["networks", &dc(datacenter)]),
            VcKey::Datastores => p(&["datastores"]),
            VcKey::Hosts => p(&["hosts"]),
            VcKey::Clusters => p(&["clusters"]),
            VcKey::Pools => p(&["pools"]),
            VcKey::Placement { vm, pod, spec } => p(&["placement", vm, pod, spec]),
            VcKey::RelocateCheck { vm, spec } => p(&["relocate-check", vm, spec]),
            VcKey::Pods => p(&["pods"]),
            VcKey::Datacenters => p(&["datacenters"]),
            VcKey::Task(v) => p(&["task", v]),
            VcKey::Tasks => p(&["tasks"]),
            VcKey::About => p(&["about"]),
            VcKey::Object { ty, moid, paths } => p(&["object", ty, moid, &paths.join(",")]),
        }
    }

    /// The typed key back from the opaque one; `None` if it is not ours.
    pub fn parse(key: &Key) -> Option<VcKey> {
        let parts = key.parts();
        let s = |i: usize| parts.get(i).cloned();
        let dc = |i: usize| s(i).filter(|d| !d.is_empty());
        if s(0)? != "vc" {
            return None;
        }
        Some(match parts.get(1)?.as_str() {
            "vm" => VcKey::Vm {
                by: match parts.get(2)?.as_str() {
                    "moid" => VmBy::Moid(s(3)?),
                    "name" => VmBy::Name(s(3)?),
                    "uuid" => VmBy::Uuid(s(3)?),
                    "instance-uuid" => VmBy::InstanceUuid(s(3)?),
                    _ => return None,
                },
                datacenter: dc(4),
            },
            "vms" => VcKey::Vms { datacenter: dc(2) },
            "vm-names" => VcKey::VmNames,
            "vm-state" => VcKey::VmState(s(2)?),
            "networks" => VcKey::Networks { datacenter: dc(2) },
            "datastores" => VcKey::Datastores,
            "hosts" => VcKey::Hosts,
            "clusters" => VcKey::Clusters,
            "pools" => VcKey::Pools,
            "placement" => VcKey::Placement {
                vm: s(2)?,
                pod: s(3)?,
                spec: s(4)?,
            },
            "relocate-check" => VcKey::RelocateCheck {
                vm: s(2)?,
                spec: s(3)?,
            },
            "pods" => VcKey::Pods,
            "datacenters" => VcKey::Datacenters,
            "task" => VcKey::Task(s(2)?),
            "tasks" => VcKey::Tasks,
            "about" => VcKey::About,
            "object" => VcKey::Object {
                ty: s(2)?,
                moid: s(3)?,
                paths: s(4)?.split(',').map(str::to_owned).collect(),
            },
            _ => return None,
        })
    }
}

impl From<VcKey> for Key {
    fn from(k: VcKey) -> Key {
        k.key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        let vm = |by, d: Option<&str>| VcKey::Vm {
            by,
            datacenter: d.map(str::to_owned),
        };
        for k in [
            vm(VmBy::Moid("vm-1".into()), None),
            vm(VmBy::Name("a/b %2f".into()), Some("DC 0")),
            vm(VmBy::Uuid("42".into()), None),
            vm(VmBy::InstanceUuid("42".into()), Some("x/y")),
            VcKey::Vms { datacenter: None },
            VcKey::Networks {
                datacenter: Some("DC0".into()),
            },
            VcKey::VmState("vm-1".into()),
            VcKey::Placement {
                vm: "vm-1".into(),
                pod: "group-p1".into(),
                spec: r#"{"disk":[{"datastore":"Datastore:ds/1","diskId":2000}]}"#.into(),
            },
            VcKey::RelocateCheck {
                vm: "vm-1".into(),
                spec: "{}".into(),
            },
            VcKey::Task("task-3".into()),
            VcKey::Object {
                ty: "Datastore".into(),
                moid: "ha:/x".into(),
                paths: vec!["name".into(), "summary".into()],
            },
        ] {
            assert_eq!(VcKey::parse(&k.key()), Some(k));
        }
        assert_eq!(VcKey::vm("vm-1").as_str(), "vc/vm/moid/vm-1");
    }
}
