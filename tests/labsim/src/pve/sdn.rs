//! Software-defined network.
use super::{Router, State};
use serde_json::{Value, json};

/// Pending and running configuration.
#[derive(Clone, Debug, Default)]
pub struct Sdn {}

impl Sdn {
    /// The zone of a vnet by the pending config.
    pub fn zone_of(&self, _vnet: &str) -> Option<String> {
        None
    }
}

/// Adds the routes of this file.
pub fn register(_r: &mut Router) {}

/// Takes the SDN objects of a world. Errors: what is wrong in it.
pub fn load(_st: &mut State, _world: &Value) -> Result<(), String> {
    Ok(())
}

/// For `GET /labsim/world`.
pub fn dump(_st: &State) -> Value {
    json!({})
}
