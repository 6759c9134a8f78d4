//! `/labsim/...` on the pve port: look at the world, count requests, inject faults, start anew. Not logged.
use crate::http::{Req, Resp};
use crate::server::Servers;
use crate::world;
use serde_json::{Value, json};

fn answer(result: Result<Value, String>) -> Resp {
    let (status, value) = match result {
        Ok(v) => (200, v),
        Err(e) => (400, json!({"error": e})),
    };
    Resp {
        status,
        headers: vec![("content-type".into(), "application/json".into())],
        body: value.to_string().into_bytes(),
        ..Resp::default()
    }
}

/// Answers a control request; `None` if the path is not ours.
pub fn handle(servers: &Servers, req: &Req) -> Option<Resp> {
    let path = req.path.strip_prefix("/labsim/")?;
    let body = || -> Result<Value, String> {
        if req.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&req.body).map_err(|e| format!("body: {e}"))
    };
    Some(answer(match (req.method.as_str(), path) {
        ("GET", "world") => {
            Ok(json!({"pve": servers.pve.dump(), "vcenter": servers.vcenter.dump()}))
        }
        ("GET", "counts") => Ok(servers.log.counts()),
        ("POST", "faults") => body()
            .and_then(|b| servers.faults.add(&b))
            .map(|()| json!({})),
        ("DELETE", "faults") => {
            servers.faults.clear();
            Ok(json!({}))
        }
        ("POST", "reset") => body().and_then(|b| reset(servers, b)).map(|()| json!({})),
        ("POST", "set") => body().and_then(|b| set(servers, &b)).map(|()| json!({})),
        (method, _) => Err(format!("labsim: no such control: {method} {}", req.path)),
    }))
}

/// Files, state, faults and counters back to the start: of that world, or of the one the program started with.
fn reset(servers: &Servers, new: Value) -> Result<(), String> {
    let world = if new.is_null() {
        servers.world.clone()
    } else {
        new
    };
    servers.faults.clear();
    // Tasks of the old state must not write into the new one's folders.
    servers.pve.reset(&json!({}))?;
    for folder in ["storage", "export"] {
        world::empty_folder(&servers.dir.join(folder))?;
    }
    servers.vcenter.reset(&world["vcenter"])?;
    servers.pve.reset(&world["pve"])?;
    servers.faults.add(&world["faults"])?;
    servers.log.reset();
    Ok(())
}

/// `{"pve": patch or list, "vcenter": patch or list}`.
fn set(servers: &Servers, patch: &Value) -> Result<(), String> {
    let object = patch
        .as_object()
        .ok_or("set takes an object with pve and/or vcenter")?;
    for (side, patches) in object {
        let site = match side.as_str() {
            "pve" => &servers.pve,
            "vcenter" => &servers.vcenter,
            other => return Err(format!("set: unknown side '{other}'")),
        };
        match patches {
            Value::Array(list) => list.iter().try_for_each(|p| site.set(p))?,
            one => site.set(one)?,
        }
    }
    Ok(())
}
