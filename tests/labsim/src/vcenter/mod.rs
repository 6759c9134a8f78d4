//! The vCenter side.
use crate::http::{Req, Resp, Site};
use serde_json::{Value, json};
use std::path::Path;

/// The simulated vCenter.
pub struct Vcenter {}

impl Vcenter {
    /// Builds it from its part of the world file; `state_dir` holds `export/`, the folder of its NFS datastore.
    /// Errors: what in the world is wrong.
    pub fn new(_world: &Value, _state_dir: &Path, _seed: u64) -> Result<Vcenter, String> {
        Ok(Vcenter {})
    }
}

impl Site for Vcenter {
    fn handle(&self, _req: &Req) -> Resp {
        Resp {
            status: 501,
            reason: Some("labsim: not implemented".into()),
            ..Resp::default()
        }
    }
    fn dump(&self) -> Value {
        json!({})
    }
    fn reset(&self, _world: &Value) -> Result<(), String> {
        Ok(())
    }
    fn set(&self, _patch: &Value) -> Result<(), String> {
        Ok(())
    }
}
