//! `/nodes/{node}`: bridges and tasks.

use super::cluster::names;
use super::{pick, text};
use crate::error::ApiError;
use crate::live::{Live, seg};
use crate::tasks;
use plan::Fact;
use serde_json::{Map, Value, json};

impl Live {
    /// `any_bridge` has Linux and OVS bridges and applied vnets; only those that we may see (SDN.Audit or SDN.Use; source:
    /// docs/pve-privileges.md, "Silent filtering").
    pub(crate) fn bridges(&mut self, node: &str) -> Result<Fact, ApiError> {
        let answer = self.get(&format!("/nodes/{}/network?type=any_bridge", seg(node)))?;
        Ok(Fact::Known(names(&answer, "iface")))
    }

    pub(crate) fn task(&mut self, upid: &str) -> Result<Fact, ApiError> {
        let Some(path) = tasks::path(upid) else {
            return Ok(Fact::Absent);
        };
        let answer = match self.get(&format!("{path}/status")) {
            Ok(a) => a,
            Err(ApiError::Refused(r)) if r.says("no such task") => return Ok(Fact::Absent),
            Err(e) => return Err(e),
        };
        let empty = Map::new();
        let mut o = pick(
            answer.as_object().unwrap_or(&empty),
            &[
                "status",
                "exitstatus",
                "type",
                "node",
                "id",
                "user",
                "starttime",
            ],
        );
        o.insert("upid".into(), json!(upid));
        let ended_badly = text(&o, "status") == Some("stopped")
            && text(&o, "exitstatus").is_some_and(|e| !tasks::is_success(e));
        if ended_badly {
            let log = self.get(&format!("{path}/log?limit={}", tasks::LOG_LINES))?;
            o.insert("log_tail".into(), json!(tasks::tail(&log)));
        }
        Ok(Fact::Known(Value::Object(o)))
    }
}
