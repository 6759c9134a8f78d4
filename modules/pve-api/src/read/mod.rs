//! Facts out of answers. Files mirror the API's URL space.

mod access;
pub(crate) mod cluster;
pub(crate) mod guest;
mod node;
mod sdn;
pub(crate) mod storage;

use crate::error::ApiError;
use crate::live::Live;
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Map, Value};

impl Live {
    /// Reads one key. A 403 that gets out of here becomes `Unreadable`.
    pub(crate) fn observe(&mut self, key: &PveKey) -> Result<Fact, ApiError> {
        match key {
            PveKey::Guest(v) => self.guest(*v),
            PveKey::GuestStatus(v) => self.guest_status(*v),
            PveKey::GuestTasks(v) => self.guest_tasks(*v),
            PveKey::GuestHistory(v) => self.guest_history(*v),
            PveKey::AgentInterfaces(v) => self.agent_interfaces(*v),
            PveKey::Snapshots(v) => self.snapshots(*v),
            PveKey::SnapshotConfig(v, name) => self.snapshot_config(*v, name),
            PveKey::Guests => self.guests(),
            PveKey::NodeGuests(node) => self.node_guests(node),
            PveKey::NextId => self.next_id(),
            PveKey::IdFree(v) => self.id_free(*v).map(|b| Fact::Known(b.into())),
            PveKey::ClusterOptions => self.get_for_one("/cluster/options").map(Fact::Known),
            PveKey::HaResources => self.ha_resources(),
            PveKey::HaResource(sid) => self.ha_resource(sid),
            PveKey::Pools => self.pools(),
            PveKey::Pool(id) => self.pool(id),
            PveKey::PoolMember(id, member) => self.pool_member(id, member),
            PveKey::Acl => self.acl(),
            PveKey::AclPath(path) => self.acl_path(path),
            PveKey::Role(r) => self.role(r),
            PveKey::User(u) => self.user(u),
            PveKey::Users => self.users(),
            PveKey::Group(g) => self.group(g),
            PveKey::Replication(v) => self.replication(*v),
            PveKey::Version => self.version(),
            PveKey::Nodes => self.nodes(),
            PveKey::Bridges(node) => self.bridges(node),
            PveKey::Task(upid) => self.task(upid),
            PveKey::Storages(node) => self.storages(node),
            PveKey::StorageConfig(s) => self.storage_config(s),
            PveKey::Volumes {
                node,
                storage,
                content,
                vmid,
            } => self.volumes(node, storage, content, *vmid),
            PveKey::Volume { node, volid } => self.volume(node, volid),
            PveKey::Perms(path) => self.perms(path),
            PveKey::WhoAmI => self.who_am_i(),
            PveKey::SdnZones => self.sdn_list("zones"),
            PveKey::SdnVnets => self.sdn_list("vnets"),
            PveKey::SdnZone(z) => self.sdn_one(&PveKey::SdnZones, "zone", z),
            PveKey::SdnVnet(v) => self.sdn_one(&PveKey::SdnVnets, "vnet", v),
            PveKey::SdnPending => self.sdn_pending(),
            PveKey::SdnStatus => self.sdn_status(),
            PveKey::SdnDigest(kind) => self.sdn_digest(kind),
            PveKey::SdnReady(zones) => self.sdn_ready(zones),
            PveKey::SdnSubnets(v) => self.sdn_subnets(v),
        }
    }
}

/// A key in words, for `unable to read ...`.
pub(crate) fn describe(key: &PveKey) -> String {
    match key {
        PveKey::Guest(v) => format!("guest {v}"),
        PveKey::GuestStatus(v) => format!("the status of guest {v}"),
        PveKey::GuestTasks(v) => format!("the tasks of guest {v}"),
        PveKey::GuestHistory(v) => format!("the past tasks of guest {v}"),
        PveKey::AgentInterfaces(v) => format!("the agent's interfaces of guest {v}"),
        PveKey::Snapshots(v) => format!("the snapshots of guest {v}"),
        PveKey::SnapshotConfig(v, name) => format!("snapshot {name} of guest {v}"),
        PveKey::Guests => "the list of guests".to_owned(),
        PveKey::NodeGuests(n) => format!("the guests of node {n}"),
        PveKey::NextId => "the next free guest id".to_owned(),
        PveKey::IdFree(v) => format!("whether guest id {v} is free"),
        PveKey::ClusterOptions => "the datacenter options".to_owned(),
        PveKey::HaResources => "the HA resources".to_owned(),
        PveKey::HaResource(sid) => format!("HA resource {sid}"),
        PveKey::Pools => "the pools".to_owned(),
        PveKey::Pool(id) => format!("pool {id}"),
        PveKey::PoolMember(id, m) => format!("whether pool {id} has {m}"),
        PveKey::Acl => "the access control list".to_owned(),
        PveKey::AclPath(p) => format!("the access control list of {p}"),
        PveKey::Role(r) => format!("role {r}"),
        PveKey::User(u) => format!("user {u}"),
        PveKey::Users => "the users".to_owned(),
        PveKey::Group(g) => format!("group {g}"),
        PveKey::Replication(v) => format!("the replication jobs of guest {v}"),
        PveKey::Version => "the version".to_owned(),
        PveKey::Nodes => "the list of nodes".to_owned(),
        PveKey::Bridges(n) => format!("the bridges of node {n}"),
        PveKey::Task(u) => format!("task {u}"),
        PveKey::Storages(n) => format!("the storages of node {n}"),
        PveKey::StorageConfig(s) => format!("storage {s}"),
        PveKey::Volumes { node, storage, .. } => {
            format!("the content of storage {storage} on node {node}")
        }
        PveKey::Volume { volid, .. } => format!("volume {volid}"),
        PveKey::Perms(p) => format!("the privileges on {p}"),
        PveKey::WhoAmI => "who we are".to_owned(),
        PveKey::SdnZones => "the SDN zones".to_owned(),
        PveKey::SdnVnets => "the SDN vnets".to_owned(),
        PveKey::SdnZone(z) => format!("SDN zone {z}"),
        PveKey::SdnVnet(v) => format!("SDN vnet {v}"),
        PveKey::SdnPending => "pending SDN changes".to_owned(),
        PveKey::SdnStatus => "the SDN status of the nodes".to_owned(),
        PveKey::SdnDigest(kind) => format!("the digest of the SDN {kind}"),
        PveKey::SdnReady(z) => format!("the status of zone {z} on the nodes"),
        PveKey::SdnSubnets(v) => format!("the subnets of vnet {v}"),
    }
}

/// The entries of a list; what is no object is left out.
pub(crate) fn entries(answer: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    answer
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_object)
}

/// A text field.
pub(crate) fn text<'a>(o: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    o.get(name).and_then(Value::as_str)
}

/// Those fields of an object that are there and not null.
pub(crate) fn pick(o: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names
        .iter()
        .filter_map(|n| {
            o.get(*n)
                .filter(|v| !v.is_null())
                .map(|v| ((*n).to_owned(), v.clone()))
        })
        .collect()
}

/// Objects, sorted by a text or number field: the server's order is not ours to show.
pub(crate) fn sorted(mut list: Vec<Map<String, Value>>, by: &str) -> Value {
    list.sort_by(|a, b| {
        let n = |o: &Map<String, Value>| o.get(by).and_then(Value::as_u64);
        n(a).cmp(&n(b)).then_with(|| text(a, by).cmp(&text(b, by)))
    });
    list.into_iter().map(Value::Object).collect()
}
