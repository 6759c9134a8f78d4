//! `/cluster`, `/pools`, `/version`.

use super::guest::LISTING;
use super::{entries, pick, sorted, text};
use crate::error::ApiError;
use crate::live::{Live, seg};
use crate::wire;
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Value, json};

impl Live {
    pub(crate) fn guests(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get(LISTING)?;
        let list = entries(&answer)
            .filter_map(|e| {
                let mut o = e.clone();
                o.retain(|_, v| !v.is_null());
                o.insert("vmid".into(), json!(wire::int(e.get("vmid"))?));
                o.insert("template".into(), json!(wire::truth(e.get("template"))));
                Some(o)
            })
            .collect();
        Ok(Fact::Known(sorted(list, "vmid")))
    }

    /// A node that does not answer is no reason to fail: the others do (docs/bugs.md P52).
    pub(crate) fn node_guests(&mut self, node: &str) -> Result<Fact, ApiError> {
        match self.get_for_one(&node_guests_path(node)) {
            Ok(answer) => Ok(Fact::Known(sorted(
                entries(&answer).cloned().collect(),
                "vmid",
            ))),
            Err(ApiError::Proxy(r, _)) => Ok(Fact::Unreadable(format!(
                "node {node} does not answer: {}",
                r.text()
            ))),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn next_id(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/cluster/nextid")?;
        match wire::int(Some(&answer)) {
            Some(n) => Ok(Fact::Known(json!(n))),
            None => Err(ApiError::Internal(format!(
                "the next free id is {answer}, which is no number"
            ))),
        }
    }

    /// Whether no guest, seen or unseen, has that id: the only check that needs no VM.Audit (source: docs/pve-privileges.md).
    pub(crate) fn id_free(&mut self, vmid: u32) -> Result<bool, ApiError> {
        match self.get(&format!("/cluster/nextid?vmid={vmid}")) {
            Ok(_) => Ok(true),
            Err(ApiError::Refused(r)) if r.status == 400 && r.says("already exists") => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn ha_resources(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/cluster/ha/resources")?;
        let list = entries(&answer)
            .map(|e| pick(e, &["sid", "state"]))
            .collect();
        Ok(Fact::Known(sorted(list, "sid")))
    }

    /// By the list, which one may see in whole or not at all (Sys.Audit on `/`): who is not in it is not managed.
    pub(crate) fn ha_resource(&mut self, sid: &str) -> Result<Fact, ApiError> {
        let answer = self.get("/cluster/ha/resources")?;
        let found = entries(&answer).find(|e| text(e, "sid") == Some(sid));
        Ok(found.map_or(Fact::Absent, |e| Fact::Known(Value::Object(e.clone()))))
    }

    pub(crate) fn pools(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/pools")?;
        let list = entries(&answer).map(|e| pick(e, &["poolid"])).collect();
        Ok(Fact::Known(sorted(list, "poolid")))
    }

    /// By the query, which tells the members to everybody and takes a nested pool's name (source: docs/pve-privileges.md, "not
    /// filtered although expected"); servers before 8.1 only have the path.
    pub(crate) fn pool(&mut self, id: &str) -> Result<Fact, ApiError> {
        let by_query = self.get(&format!("/pools?poolid={}", wire::encode(id)));
        let answer = match by_query {
            Err(ApiError::Refused(r)) if r.status == 400 => {
                self.get(&format!("/pools/{}", seg(id)))
            }
            other => other,
        };
        let answer = match answer {
            Ok(a) => a,
            Err(ApiError::Refused(r)) if r.says("does not exist") => return Ok(Fact::Absent),
            Err(e) => return Err(e),
        };
        let pool = match &*answer {
            Value::Array(l) => l.first().cloned().unwrap_or_default(),
            other => other.clone(),
        };
        let (mut vms, mut storages) = (vec![], vec![]);
        for m in entries(&pool["members"]) {
            match text(m, "type") {
                Some("storage") => storages.extend(text(m, "storage").map(str::to_owned)),
                _ => vms.extend(wire::int(m.get("vmid"))),
            }
        }
        vms.sort_unstable();
        storages.sort_unstable();
        storages.dedup();
        let mut o = json!({"poolid": id, "vms": vms, "storages": storages});
        if let Some(c) = pool["comment"].as_str() {
            o["comment"] = json!(c);
        }
        Ok(Fact::Known(o))
    }

    pub(crate) fn pool_member(&mut self, id: &str, member: &str) -> Result<Fact, ApiError> {
        let pool = self.fact(&PveKey::Pool(id.to_owned()))?;
        let pool = match &*pool {
            Fact::Known(p) => p,
            other => return Ok(other.clone()),
        };
        let has = |list: &str, m: Value| pool[list].as_array().is_some_and(|l| l.contains(&m));
        Ok(Fact::Known(json!(match member.split_once('/') {
            Some(("vm", v)) => v.parse::<u32>().is_ok_and(|v| has("vms", json!(v))),
            Some((_, s)) => has("storages", json!(s)),
            None => false,
        })))
    }

    pub(crate) fn replication(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        let answer = self.get("/cluster/replication")?;
        let list = entries(&answer)
            .filter(|e| wire::int(e.get("guest")) == Some(u64::from(vmid)))
            .map(|e| pick(e, &["id", "target", "type", "schedule"]))
            .collect();
        Ok(Fact::Known(sorted(list, "id")))
    }

    pub(crate) fn version(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/version")?;
        let version = answer["version"].as_str().unwrap_or_default().to_owned();
        let mut numbers = version
            .split(|c: char| !c.is_ascii_digit())
            .map(|p| p.parse::<u64>().unwrap_or(0));
        let (major, minor) = (numbers.next(), numbers.next());
        Ok(Fact::Known(json!({
            "release": answer.get("release"), "version": version, "major": major.unwrap_or(0), "minor": minor.unwrap_or(0),
        })))
    }

    /// Nodes that answer now.
    pub(crate) fn online_nodes(&mut self) -> Result<Vec<String>, ApiError> {
        let nodes = self.fact(&PveKey::Nodes)?;
        let Fact::Known(nodes) = &*nodes else {
            return Ok(vec![]);
        };
        Ok(entries(nodes)
            .filter(|n| text(n, "status") == Some("online"))
            .filter_map(|n| text(n, "node").map(str::to_owned))
            .collect())
    }

    pub(crate) fn nodes(&mut self) -> Result<Fact, ApiError> {
        let answer = self.get("/nodes")?;
        let list = entries(&answer)
            .map(|e| pick(e, &["node", "status", "maxmem", "mem", "maxcpu"]))
            .collect();
        Ok(Fact::Known(sorted(list, "node")))
    }
}

/// What [`Live::node_guests`] reads.
pub(crate) fn node_guests_path(node: &str) -> String {
    format!("/nodes/{}/qemu", seg(node))
}

/// The names of a list's entries, sorted.
pub(crate) fn names(answer: &Value, field: &str) -> Value {
    let mut names: Vec<&str> = entries(answer).filter_map(|e| text(e, field)).collect();
    names.sort_unstable();
    names.dedup();
    json!(names)
}
