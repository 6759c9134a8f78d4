//! Guests: their records and their routes.
use super::{Lab, Router, State};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A virtual machine or container of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    /// Its id, 100..=999999999.
    pub vmid: u32,
    /// The node that holds it.
    pub node: String,
    /// `qemu` or `lxc`.
    pub kind: String,
    /// `running`, `stopped`, ... as `/cluster/resources` says it.
    pub status: String,
    /// Whether it is a template.
    pub template: bool,
    /// The pool it is a member of.
    pub pool: Option<String>,
    /// Applied configuration, in file order.
    pub config: Map<String, Value>,
    /// Pending values; `Value::Null` stands for a pending deletion.
    pub pending: Map<String, Value>,
    /// When it was made, on `Lab::now_ms`'s clock: the cluster lists it `listing_lag_ms` later.
    pub created_ms: u64,
}

/// Adds the routes of this folder.
pub fn register(_r: &mut Router) {}

/// Takes the guests of a world (`guests` of the pve part). Errors: what is wrong in it.
pub fn load(_st: &mut State, _world: &Value) -> Result<(), String> {
    Ok(())
}

/// One guest for `GET /labsim/world`.
pub fn dump(g: &Guest) -> Value {
    json!({"vmid": g.vmid, "node": g.node, "type": g.kind, "status": g.status, "config": g.config, "pending": g.pending})
}

/// `POST /labsim/set` with `{"guest": VMID, ...}`: changes the guest from outside. Errors: what is unknown.
pub fn set(_lab: &Arc<Lab>, _patch: &Value) -> Result<(), String> {
    Err("setting guests is not implemented".into())
}
