//! `/nodes/{node}`: bridges and tasks.

use super::cluster::names;
use super::{entries, pick, sorted, text};
use crate::error::ApiError;
use crate::live::{Live, seg};
use crate::tasks;
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Map, Value, json};

/// Tasks of one guest that are asked for on each node; the default of the API is 50.
const HISTORY: usize = 5000;

impl Live {
    /// `any_bridge` has Linux and OVS bridges and applied vnets; only those that we may see (SDN.Audit or SDN.Use; source:
    /// docs/pve-privileges.md, "Silent filtering").
    pub(crate) fn bridges(&mut self, node: &str) -> Result<Fact, ApiError> {
        let answer = self.get(&format!("/nodes/{}/network?type=any_bridge", seg(node)))?;
        Ok(Fact::Known(names(&answer, "iface")))
    }

    /// A guest's tasks on every node, since it may have been started elsewhere and have come back. A list shows other people's tasks only
    /// with Sys.Audit (source: docs/pve-privileges.md, "Silent filtering"); the archive drops its oldest entries.
    pub(crate) fn guest_history(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        let nodes = self.fact(&PveKey::Nodes)?;
        let Fact::Known(nodes) = &*nodes else {
            return Ok(Fact::Unreadable("the list of nodes cannot be read".into()));
        };
        let (mut all, mut unseen) = (Vec::new(), Vec::new());
        for n in entries(nodes) {
            let node = text(n, "node").unwrap_or_default().to_owned();
            if text(n, "status") != Some("online") {
                unseen.push(format!("node {node} does not answer"));
                continue;
            }
            let path = format!("/nodes/{node}");
            let audit = match &*self.fact(&PveKey::Perms(path.clone()))? {
                Fact::Known(p) => p.get("Sys.Audit").is_some(),
                _ => false,
            };
            let list = format!(
                "/nodes/{}/tasks?vmid={vmid}&source=all&limit={HISTORY}",
                seg(&node)
            );
            let answer = match self.get(&list) {
                Ok(a) => a,
                Err(ApiError::Proxy(r, _)) => {
                    unseen.push(format!("node {node} does not answer: {}", r.text()));
                    continue;
                }
                Err(e) => return Err(e),
            };
            let tasks: Vec<Map<String, Value>> = entries(&answer)
                .map(|t| {
                    let fields = [
                        "upid",
                        "node",
                        "type",
                        "user",
                        "starttime",
                        "endtime",
                        "status",
                    ];
                    let mut o = pick(t, &fields);
                    o.entry("node").or_insert_with(|| json!(node));
                    o
                })
                .collect();
            if !audit {
                unseen.push(format!(
                    "privilege Sys.Audit is missing on {path} for {}",
                    self.who()
                ));
            } else if tasks.len() >= HISTORY {
                unseen.push(format!("node {node} has more than {HISTORY} tasks of it"));
            }
            all.extend(tasks);
        }
        Ok(Fact::Known(
            json!({"tasks": sorted(all, "starttime"), "unseen": unseen}),
        ))
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
