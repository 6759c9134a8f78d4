//! `/cluster/...`, `/version`, `/pools`.
use super::{Lab, Router, State};
use serde_json::Value;
use std::sync::Arc;

/// Adds the routes of this file.
pub fn register(_r: &mut Router) {}

/// Takes options and HA resources of a world. Errors: what is wrong in it.
pub fn load(_st: &mut State, _world: &Value) -> Result<(), String> {
    Ok(())
}

/// `POST /labsim/set` for everything but guests. Errors: what of it is unknown.
pub fn set(_lab: &Arc<Lab>, patch: &Value) -> Result<(), String> {
    Err(format!("labsim: nothing known to set in {patch}"))
}
