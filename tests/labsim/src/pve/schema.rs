//! The recorded API schema: finds routes, validates parameters, checks permissions, frames answers.
use super::{Lab, Router};
use crate::http::{Req, Resp};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../fixtures/pve/api-schema.json"))
        .unwrap_or_else(|e| panic!("api-schema.json: {e}"))
});

/// The recorded description of a method, or `None`.
pub fn method(template: &str, method: &str) -> Option<&'static Value> {
    SCHEMA["paths"].get(template)?.get(method)
}

/// Answers one request.
pub fn handle(_lab: &Arc<Lab>, _router: &Router, req: &Req) -> Resp {
    Resp {
        status: 501,
        reason: Some(format!(
            "labsim: not implemented: {} {}",
            req.method, req.path
        )),
        ..Resp::default()
    }
}
