//! The facts of a Proxmox VE cluster that planners ask for, each with its JSON shape.
//!
//! `pve-api` reads them, planners decode them; nobody else knows the shapes.

use plan::Key;

/// One object or list of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PveKey {
    /// One guest, found wherever it lives:
    /// `{vmid, node, type: "qemu", config: {..pending merged..}, current: {..}, pending: {key: value | null (= to be deleted)}, digest, lock?, template: bool}`;
    /// for a container only `{vmid, node, type: "lxc", name}`. `Absent` only when no list has it and its id is free.
    /// A planned guest (ledger) has the same shape with digest `""`.
    Guest(u32),
    /// `{status: running|stopped, qmpstatus?, lock?, pid?, uptime, agent?, ha: {managed}, running_machine?}` (GET status/current). A planned guest: `{status: "stopped"}`.
    GuestStatus(u32),
    /// Running tasks of the guest that the caller may see: `[{upid, node, type, user, starttime}]`.
    GuestTasks(u32),
    /// What the nodes' task lists say of a guest, ended tasks too:
    /// `{tasks: [{upid, node, type, user, starttime, endtime?, status?}] by start, unseen: [why]}`; `unseen` names every node whose
    /// list is not known in whole (no answer, no Sys.Audit, too long).
    GuestHistory(u32),
    /// All guests that the caller may see: `[{vmid, node, type, name, status, template, tags, pool, lock?}]`, with whatever else the
    /// server says of them (load, sizes).
    Guests,
    /// The virtual machines of one node as that node itself lists them: `[{vmid, status, pid?, cpus?, ...}]`; `Unreadable` when the
    /// node does not answer.
    NodeGuests(String),
    /// The next free id: a number.
    NextId,
    /// Whether that id is free: a bool (GET /cluster/nextid?vmid=N; works without VM.Audit).
    IdFree(u32),
    /// `[{node, status: online|offline|unknown, maxmem?, mem?, maxcpu?}]`, bytes; sizes only of nodes that answer.
    Nodes,
    /// Names of everything that a NIC can use as bridge on that node now (bridges, OVS bridges and applied vnets): `[name]`.
    Bridges(String),
    /// `[{storage, type, content: [..], enabled, active, shared, avail, total, used}]` as that node sees them.
    Storages(String),
    /// One storage's configuration, `{storage, type, path?, content, nodes?, disable?}` (GET /storage/{s}).
    StorageConfig(String),
    /// Content of a storage on a node, of one kind (`images`, `iso`, `import`, `snippets`, ...), for one guest or all:
    /// `[{volid, format, size, vmid?, parent?, content}]`.
    Volumes {
        /// Node name.
        node: String,
        /// Storage id.
        storage: String,
        /// Content kind.
        content: String,
        /// Only volumes of that guest.
        vmid: Option<u32>,
    },
    /// One volume, `{path, size, used, format}` (GET storage/{s}/content/{volid}); size in bytes.
    Volume {
        /// Node name.
        node: String,
        /// Volume id, `storage:...`.
        volid: String,
    },
    /// Granted privileges on a path: `{Priv.Name: 0|1}`; a key that is there is granted (source: docs/pve-privileges.md).
    Perms(String),
    /// `{user: "u@realm", token: "id" | null, root_login: bool}`: who we are; `root_login` only for the real root@pam ticket.
    WhoAmI,
    /// `{release, version, major: n, minor: n}`.
    Version,
    /// Datacenter options: `{tag-style?, allowed-tags?: [..], mac_prefix?, ...}`.
    ClusterOptions,
    /// All zones in the pending view: `{entries: [{zone, type, state?, pending?, ...}]}`.
    SdnZones,
    /// All vnets in the pending view: `{entries: [{vnet, zone, tag?, alias?, state?, pending?, ...}]}`.
    SdnVnets,
    /// Digest of the file of all `zones` or `vnets`: a text, `""` if there are none. The pending view has none (docs/pve-sdn.md).
    SdnDigest(String),
    /// Whether something is pending that the caller may see, by kind: `{zones: [id], vnets: [id], controllers: [id], subnets: [id], fabrics: [id]}`.
    SdnPending,
    /// Zones as the nodes have them: `{node: [{zone, status}]}` over all online nodes.
    SdnStatus,
    /// Whether the nodes have realised these zones (ids joined by commas): `{ready: bool, zones: {zone: {node: status}}}` over all online
    /// nodes; ready: each zone is `available` wherever a node lists it, and some node does.
    SdnReady(String),
    /// Subnets of a vnet, pending ones too: `[{subnet, state?}]`; empty if there is no such vnet.
    SdnSubnets(String),
    /// One planned or applied vnet (exists for the ledger's sake: a planned vnet overlays lists): `{vnet, zone, tag, ...}`.
    SdnVnet(String),
    /// One planned or applied zone, likewise.
    SdnZone(String),
    /// One task: `{upid, status: running|stopped, exitstatus?, type, node, log_tail?: [..]}`.
    Task(String),
    /// HA resources: `[{sid, state}]`.
    HaResources,
    /// One HA resource, by its id (`vm:100`): `{sid, state?, max_restart?, max_relocate?, failback?, group?, comment?, digest}`.
    HaResource(String),
    /// Pools: `[{poolid}]`.
    Pools,
    /// One pool: `{poolid, comment?, vms: [vmid], storages: [id]}`; containers are among the vms.
    Pool(String),
    /// Whether a pool has that member, `vm/100` or `storage/local`: a bool. What is planned is kept per member, so that tasks about
    /// several members of one pool do not undo each other in the ledger.
    PoolMember(String, String),
    /// All entries of the access control list that the caller may see: `[{path, type: user|group|token, ugid, roleid, propagate: 0|1}]`.
    Acl,
    /// Those of one path, the same without `path`; `Unreadable` where the caller may not see them.
    AclPath(String),
    /// One role: `{privs: [name]}`.
    Role(String),
    /// One user: `{userid, enable: bool, expire?, firstname?, lastname?, email?, comment?, groups: [id], tokens: [{tokenid, privsep: bool,
    /// expire?, comment?}]}`; keys of a second factor are left out.
    User(String),
    /// All users that the caller may see, each as [`PveKey::User`] and with `realm-type?`.
    Users,
    /// One group: `{groupid, members: [userid]}`.
    Group(String),
    /// Replication jobs of a guest: `[{id}]`.
    Replication(u32),
    /// Network interfaces that the guest agent reports, as the server gives them; `Unreadable` when there is no agent.
    AgentInterfaces(u32),
    /// Snapshots of a guest: `[{name, parent?, ...}]` without `current`.
    Snapshots(u32),
    /// The configuration that a snapshot of a guest kept: `{OPTION: value}`.
    SnapshotConfig(u32, String),
}

impl PveKey {
    /// The opaque key.
    pub fn key(&self) -> Key {
        let p = |parts: &[&str]| {
            let mut all = vec!["pve"];
            all.extend_from_slice(parts);
            Key::from_parts(&all)
        };
        let n = |v: &u32| v.to_string();
        match self {
            PveKey::Guest(v) => p(&["guest", &n(v)]),
            PveKey::GuestStatus(v) => p(&["status", &n(v)]),
            PveKey::GuestTasks(v) => p(&["guest-tasks", &n(v)]),
            PveKey::GuestHistory(v) => p(&["guest-history", &n(v)]),
            PveKey::Guests => p(&["guests"]),
            PveKey::NodeGuests(node) => p(&["node-guests", node]),
            PveKey::NextId => p(&["next-id"]),
            PveKey::IdFree(v) => p(&["id-free", &n(v)]),
            PveKey::Nodes => p(&["nodes"]),
            PveKey::Bridges(node) => p(&["bridges", node]),
            PveKey::Storages(node) => p(&["storages", node]),
            PveKey::StorageConfig(s) => p(&["storage-config", s]),
            PveKey::Volumes {
                node,
                storage,
                content,
                vmid,
            } => p(&[
                "volumes",
                node,
                storage,
                content,
                &vmid.map_or_else(|| "all".to_owned(), |v| v.to_string()),
            ]),
            PveKey::Volume { node, volid } => p(&["volume", node, volid]),
            PveKey::Perms(path) => p(&["perms", path]),
            PveKey::WhoAmI => p(&["who-am-i"]),
            PveKey::Version => p(&["version"]),
            PveKey::ClusterOptions => p(&["cluster-options"]),
            PveKey::SdnZones => p(&["sdn-zones"]),
            PveKey::SdnVnets => p(&["sdn-vnets"]),
            PveKey::SdnPending => p(&["sdn-pending"]),
            PveKey::SdnStatus => p(&["sdn-status"]),
            PveKey::SdnDigest(kind) => p(&["sdn-digest", kind]),
            PveKey::SdnReady(z) => p(&["sdn-ready", z]),
            PveKey::SdnSubnets(v) => p(&["sdn-subnets", v]),
            PveKey::SdnVnet(v) => p(&["sdn-vnet", v]),
            PveKey::SdnZone(z) => p(&["sdn-zone", z]),
            PveKey::Task(upid) => p(&["task", upid]),
            PveKey::HaResources => p(&["ha-resources"]),
            PveKey::HaResource(sid) => p(&["ha-resource", sid]),
            PveKey::Pools => p(&["pools"]),
            PveKey::Pool(id) => p(&["pool", id]),
            PveKey::PoolMember(id, m) => p(&["pool-member", id, m]),
            PveKey::Acl => p(&["acl"]),
            PveKey::AclPath(path) => p(&["acl-path", path]),
            PveKey::Role(r) => p(&["role", r]),
            PveKey::User(u) => p(&["user", u]),
            PveKey::Users => p(&["users"]),
            PveKey::Group(g) => p(&["group", g]),
            PveKey::Replication(v) => p(&["replication", &n(v)]),
            PveKey::AgentInterfaces(v) => p(&["agent-interfaces", &n(v)]),
            PveKey::Snapshots(v) => p(&["snapshots", &n(v)]),
            PveKey::SnapshotConfig(v, name) => p(&["snapshot-config", &n(v), name]),
        }
    }

    /// The typed key back from the opaque one; `None` if it is not ours.
    pub fn parse(key: &Key) -> Option<PveKey> {
        let parts = key.parts();
        let s = |i: usize| parts.get(i).cloned();
        let v = |i: usize| parts.get(i).and_then(|t| t.parse::<u32>().ok());
        if s(0)? != "pve" {
            return None;
        }
        Some(match parts.get(1)?.as_str() {
            "guest" => PveKey::Guest(v(2)?),
            "status" => PveKey::GuestStatus(v(2)?),
            "guest-tasks" => PveKey::GuestTasks(v(2)?),
            "guest-history" => PveKey::GuestHistory(v(2)?),
            "guests" => PveKey::Guests,
            "node-guests" => PveKey::NodeGuests(s(2)?),
            "next-id" => PveKey::NextId,
            "id-free" => PveKey::IdFree(v(2)?),
            "nodes" => PveKey::Nodes,
            "bridges" => PveKey::Bridges(s(2)?),
            "storages" => PveKey::Storages(s(2)?),
            "storage-config" => PveKey::StorageConfig(s(2)?),
            "volumes" => PveKey::Volumes {
                node: s(2)?,
                storage: s(3)?,
                content: s(4)?,
                vmid: v(5),
            },
            "volume" => PveKey::Volume {
                node: s(2)?,
                volid: s(3)?,
            },
            "perms" => PveKey::Perms(s(2)?),
            "who-am-i" => PveKey::WhoAmI,
            "version" => PveKey::Version,
            "cluster-options" => PveKey::ClusterOptions,
            "sdn-zones" => PveKey::SdnZones,
            "sdn-vnets" => PveKey::SdnVnets,
            "sdn-pending" => PveKey::SdnPending,
            "sdn-status" => PveKey::SdnStatus,
            "sdn-digest" => PveKey::SdnDigest(s(2)?),
            "sdn-ready" => PveKey::SdnReady(s(2)?),
            "sdn-subnets" => PveKey::SdnSubnets(s(2)?),
            "sdn-vnet" => PveKey::SdnVnet(s(2)?),
            "sdn-zone" => PveKey::SdnZone(s(2)?),
            "task" => PveKey::Task(s(2)?),
            "ha-resources" => PveKey::HaResources,
            "ha-resource" => PveKey::HaResource(s(2)?),
            "pools" => PveKey::Pools,
            "pool" => PveKey::Pool(s(2)?),
            "pool-member" => PveKey::PoolMember(s(2)?, s(3)?),
            "acl" => PveKey::Acl,
            "acl-path" => PveKey::AclPath(s(2)?),
            "role" => PveKey::Role(s(2)?),
            "user" => PveKey::User(s(2)?),
            "users" => PveKey::Users,
            "group" => PveKey::Group(s(2)?),
            "replication" => PveKey::Replication(v(2)?),
            "agent-interfaces" => PveKey::AgentInterfaces(v(2)?),
            "snapshots" => PveKey::Snapshots(v(2)?),
            "snapshot-config" => PveKey::SnapshotConfig(v(2)?, s(3)?),
            _ => return None,
        })
    }
}

impl From<PveKey> for Key {
    fn from(k: PveKey) -> Key {
        k.key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        for k in [
            PveKey::Guest(100),
            PveKey::Perms("/storage/a b".into()),
            PveKey::Volumes {
                node: "pve1".into(),
                storage: "nfs".into(),
                content: "images".into(),
                vmid: None,
            },
            PveKey::Volume {
                node: "pve1".into(),
                volid: "nfs:100/disk0.vmdk".into(),
            },
            PveKey::Task("UPID:pve1:0001:00:00:qmcreate:100:root@pam!t:".into()),
            PveKey::PoolMember("a/b".into(), "vm/100".into()),
            PveKey::AclPath("/vms/100".into()),
            PveKey::User("anna@pve".into()),
        ] {
            assert_eq!(PveKey::parse(&k.key()), Some(k));
        }
    }
}
