//! Nodes and their networks.
use super::{Router, State};
use serde_json::{Value, json};

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it answers; requests to an offline node are 595.
    pub online: bool,
    /// Network interfaces as `/nodes/N/network` lists them: bridges, NICs, bonds (no vnets).
    pub ifaces: Vec<Value>,
    /// SDN as this node has it since its last reload: vnet to whether its bridge exists.
    pub vnets: std::collections::BTreeMap<String, bool>,
}

impl Node {
    /// Whether a bridge or vnet of that name exists on the node right now (a guest can start on it).
    pub fn has_bridge(&self, name: &str) -> bool {
        self.vnets.get(name) == Some(&true)
            || self
                .ifaces
                .iter()
                .any(|i| i["iface"] == name && i["type"] == "bridge")
    }
}

/// Adds the routes of this file.
pub fn register(_r: &mut Router) {}

/// Takes the nodes of a world. Errors: what is wrong in it.
pub fn load(_st: &mut State, _world: &Value) -> Result<(), String> {
    Ok(())
}

/// For `GET /labsim/world`.
pub fn dump(n: &Node) -> Value {
    json!({"node": n.name, "online": n.online, "network": n.ifaces, "vnets": n.vnets})
}
