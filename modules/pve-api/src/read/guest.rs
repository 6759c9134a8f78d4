//! `/nodes/{node}/qemu/{vmid}`.

use super::{entries, pick, sorted, text};
use crate::error::{ApiError, Refused};
use crate::live::{Live, seg};
use crate::wire;
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One call for the whole cluster, shared by everything that asks where a guest is.
pub(crate) const LISTING: &str = "/cluster/resources?type=vm";

/// Where a guest is.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) lxc: bool,
}

fn guest_path(node: &str, vmid: u32) -> String {
    format!("/nodes/{}/qemu/{vmid}", seg(node))
}

/// What [`Live::guest`] reads.
pub(crate) fn pending_path(node: &str, vmid: u32) -> String {
    format!("{}/pending", guest_path(node, vmid))
}

/// What [`Live::guest_status`] reads.
pub(crate) fn status_path(place: &Place, vmid: u32) -> String {
    let kind = if place.lxc { "lxc" } else { "qemu" };
    format!("/nodes/{}/{kind}/{vmid}/status/current", seg(&place.node))
}

/// What [`Live::agent_interfaces`] reads.
pub(crate) fn interfaces_path(node: &str, vmid: u32) -> String {
    format!("{}/agent/network-get-interfaces", guest_path(node, vmid))
}

/// Where the guests of the cluster's list are.
pub(crate) fn places(listing: Option<Result<&Value, &Refused>>) -> BTreeMap<u32, Place> {
    let Some(Ok(answer)) = listing else {
        return BTreeMap::new();
    };
    entries(answer)
        .filter_map(|e| Some((u32::try_from(wire::int(e.get("vmid"))?).ok()?, place_of(e))))
        .collect()
}

fn place_of(entry: &Map<String, Value>) -> Place {
    Place {
        node: text(entry, "node").unwrap_or_default().to_owned(),
        lxc: text(entry, "type") == Some("lxc"),
    }
}

impl Live {
    /// Config, pending and digest by one call where the guest probably is; found by the cluster's list otherwise.
    pub(crate) fn guest(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        let hint = self
            .places
            .get(&vmid)
            .or(self.connection.node_hint.as_ref())
            .cloned();
        if let Some(node) = &hint {
            match self.guest_on(node, vmid) {
                Ok(f) => return Ok(f),
                // It may live elsewhere (500), be out of our sight (403), or the hint be wrong or down: the list tells. What is
                // really wrong with this node comes back when the list names it.
                Err(ApiError::Refused(r)) if r.status != 401 => {}
                Err(ApiError::Proxy(..)) => {}
                Err(e) => return Err(e),
            }
        }
        self.places.remove(&vmid);
        let mut listed = self.listed(vmid)?;
        if let Some(p) = &listed
            && !p.lxc
        {
            match self.guest_on(&p.node, vmid) {
                // It moved, or went, between the two calls: look once more.
                Err(ApiError::Refused(r)) if r.is_missing_guest() => {
                    let stale = pending_path(&p.node, vmid);
                    self.drop_get(LISTING);
                    self.drop_get(&stale);
                    listed = self.listed(vmid)?;
                    if let Some(p) = &listed
                        && !p.lxc
                    {
                        return self.guest_on(&p.node, vmid);
                    }
                }
                other => return other,
            }
        }
        if let Some(p) = listed {
            let answer = self.get(LISTING)?;
            let name = entries(&answer)
                .find(|e| wire::int(e.get("vmid")) == Some(u64::from(vmid)))
                .and_then(|e| text(e, "name").map(str::to_owned));
            return Ok(Fact::Known(
                json!({"vmid": vmid, "node": p.node, "type": "lxc", "name": name}),
            ));
        }
        // The list is filtered by VM.Audit: absence from it proves nothing, a free id does.
        if self.id_free(vmid)? {
            return Ok(Fact::Absent);
        }
        let path = format!("/vms/{vmid}");
        let audit = match &*self.fact(&PveKey::Perms(path.clone()))? {
            Fact::Known(p) => p.get("VM.Audit").is_some(),
            _ => false,
        };
        if !audit {
            return Ok(Fact::Unreadable(format!(
                "guest {vmid} exists, but privilege VM.Audit is missing on {path} for {}",
                self.who()
            )));
        }
        // May be seen and is not listed yet: it is new. Ask the nodes.
        for node in self.online_nodes()? {
            match self.guest_on(&node, vmid) {
                Ok(f) => return Ok(f),
                Err(ApiError::Refused(r)) if r.is_missing_guest() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Fact::Unreadable(format!(
            "guest {vmid} exists, but no node shows it"
        )))
    }

    fn guest_on(&mut self, node: &str, vmid: u32) -> Result<Fact, ApiError> {
        let answer = self.get_for_one(&pending_path(node, vmid))?;
        self.places.insert(vmid, node.to_owned());
        Ok(Fact::Known(guest_fact(vmid, node, &answer)))
    }

    fn listed(&mut self, vmid: u32) -> Result<Option<Place>, ApiError> {
        let answer = self.get(LISTING)?;
        Ok(entries(&answer)
            .find(|e| wire::int(e.get("vmid")) == Some(u64::from(vmid)))
            .map(place_of))
    }

    /// Where the guest is: `Err(fact)` is what to answer instead.
    fn place(&mut self, vmid: u32) -> Result<Result<Place, Fact>, ApiError> {
        Ok(match &*self.fact(&PveKey::Guest(vmid))? {
            Fact::Known(v) => Ok(Place {
                node: v["node"].as_str().unwrap_or_default().to_owned(),
                lxc: v["type"] == "lxc",
            }),
            other => Err(other.clone()),
        })
    }

    pub(crate) fn guest_status(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        // A guest that was just seen somewhere needs no second look for its place: this is what is polled.
        let place = match self.places.get(&vmid) {
            Some(node) => Ok(Place {
                node: node.clone(),
                lxc: false,
            }),
            None => self.place(vmid)?,
        };
        let mut place = match place {
            Ok(p) => p,
            Err(fact) => return Ok(fact),
        };
        for again in [false, true] {
            match self.get_for_one(&status_path(&place, vmid)) {
                Ok(answer) => return Ok(Fact::Known(status_fact(&answer))),
                Err(ApiError::Refused(r)) if r.is_missing_guest() && !again => {
                    self.places.remove(&vmid);
                    let key = PveKey::Guest(vmid).key();
                    plan::World::forget(self, &[key]);
                    self.drop_get(LISTING);
                    match self.place(vmid)? {
                        Ok(p) => place = p,
                        Err(fact) => return Ok(fact),
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Fact::Unreadable(format!("guest {vmid} keeps moving")))
    }

    pub(crate) fn guest_tasks(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        let node = match self.place(vmid)? {
            Ok(p) => p.node,
            // What makes a guest runs where it will be.
            Err(Fact::Absent) => match self.connection.node_hint.clone() {
                Some(n) => n,
                None => return Ok(Fact::Known(json!([]))),
            },
            Err(other) => return Ok(other),
        };
        let path = format!(
            "/nodes/{}/tasks?vmid={vmid}&source=active&limit=500",
            seg(&node)
        );
        let answer = self.get(&path)?;
        // The active list keeps tasks for a while after their end; those have an end time or a status other than RUNNING.
        let list = entries(&answer)
            .filter(|t| !t.contains_key("endtime"))
            .filter(|t| matches!(text(t, "status"), None | Some("" | "RUNNING" | "running")))
            .map(|t| pick(t, &["upid", "node", "type", "user", "starttime"]))
            .collect();
        Ok(Fact::Known(sorted(list, "starttime")))
    }

    pub(crate) fn agent_interfaces(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        let place = match self.place(vmid)? {
            Ok(p) => p,
            Err(fact) => return Ok(fact),
        };
        match self.get_for_one(&interfaces_path(&place.node, vmid)) {
            Ok(mut answer) => Ok(Fact::Known(
                answer.get_mut("result").map_or(Value::Null, Value::take),
            )),
            // No agent, not running, not answering: all 500 with a text.
            Err(ApiError::Refused(r)) if r.status == 500 => Ok(Fact::Unreadable(r.text())),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn snapshots(&mut self, vmid: u32) -> Result<Fact, ApiError> {
        let place = match self.place(vmid)? {
            Ok(p) => p,
            Err(fact) => return Ok(fact),
        };
        let kind = if place.lxc { "lxc" } else { "qemu" };
        let answer = self.get(&format!(
            "/nodes/{}/{kind}/{vmid}/snapshot",
            seg(&place.node)
        ))?;
        let list = entries(&answer)
            .filter(|s| text(s, "name") != Some("current"))
            .cloned()
            .collect();
        Ok(Fact::Known(sorted(list, "name")))
    }

    pub(crate) fn snapshot_config(&mut self, vmid: u32, name: &str) -> Result<Fact, ApiError> {
        let place = match self.place(vmid)? {
            Ok(p) => p,
            Err(fact) => return Ok(fact),
        };
        let path = format!(
            "/nodes/{}/qemu/{vmid}/snapshot/{}/config",
            seg(&place.node),
            seg(name)
        );
        match self.get_for_one(&path) {
            // Source: qemu-server, API2/Qemu.pm, get_snapshot_config.
            Err(ApiError::Refused(r)) if r.status == 500 && r.says("does not exist") => {
                Ok(Fact::Absent)
            }
            answer => Ok(Fact::Known(answer?)),
        }
    }
}

/// `/pending` lists `{key, value?, pending?, delete?}`; the digest and the lock are among the entries (source: docs/pve-running.md, rule
/// 5, and docs/pve-facts.md, "Config").
fn guest_fact(vmid: u32, node: &str, answer: &Value) -> Value {
    let (mut config, mut current, mut pending) = (Map::new(), Map::new(), Map::new());
    let (mut digest, mut lock) = (json!(""), None);
    let mut destroys: Vec<String> = Vec::new();
    for e in entries(answer) {
        let Some(key) = text(e, "key") else { continue };
        let value = e.get("value").filter(|v| !v.is_null());
        if key == "digest" {
            digest = value.cloned().unwrap_or(digest);
            continue;
        }
        if key == "lock" {
            lock = value.cloned();
        }
        if let Some(v) = value {
            current.insert(key.to_owned(), v.clone());
        }
        if let Some(n) = wire::int(e.get("delete")).filter(|n| *n > 0) {
            pending.insert(key.to_owned(), Value::Null);
            // 2 is a removal by force: the volume goes too (source: api-schema.json, /nodes/{node}/qemu/{vmid}/pending).
            if n > 1 {
                destroys.push(key.to_owned());
            }
        } else if let Some(p) = e.get("pending").filter(|v| !v.is_null()) {
            pending.insert(key.to_owned(), p.clone());
            config.insert(key.to_owned(), p.clone());
        } else if let Some(v) = value {
            config.insert(key.to_owned(), v.clone());
        }
    }
    for map in [&mut config, &mut current, &mut pending] {
        map.sort_keys();
    }
    let template = wire::truth(current.get("template"));
    let mut o = json!({
        "vmid": vmid, "node": node, "type": "qemu", "config": config, "current": current, "pending": pending,
        "digest": digest, "template": template,
    });
    if let Some(l) = lock {
        o["lock"] = l;
    }
    if !destroys.is_empty() {
        destroys.sort();
        o["destroys"] = json!(destroys);
    }
    o
}

fn status_fact(answer: &Value) -> Value {
    let empty = Map::new();
    let o = answer.as_object().unwrap_or(&empty);
    let mut s = pick(
        o,
        &[
            "status",
            "qmpstatus",
            "lock",
            "pid",
            "uptime",
            "agent",
            "ha",
        ],
    );
    if let Some(m) = o.get("running-machine") {
        s.insert("running_machine".to_owned(), m.clone());
    }
    Value::Object(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_alone_is_the_whole_guest() {
        let answer = json!([
            {"key": "net0", "value": "virtio=A,bridge=vmbr0", "pending": "virtio=A,bridge=vmbr1"},
            {"key": "digest", "value": "abc"},
            {"key": "serial0", "value": "socket", "delete": 1},
            {"key": "cores", "pending": 4},
            {"key": "lock", "value": "backup"},
            {"key": "memory", "value": "512"},
        ]);
        assert_eq!(
            guest_fact(100, "pve1", &answer),
            json!({
                "vmid": 100, "node": "pve1", "type": "qemu",
                "config": {"cores": 4, "lock": "backup", "memory": "512", "net0": "virtio=A,bridge=vmbr1"},
                "current": {"lock": "backup", "memory": "512", "net0": "virtio=A,bridge=vmbr0", "serial0": "socket"},
                "pending": {"cores": 4, "net0": "virtio=A,bridge=vmbr1", "serial0": null},
                "digest": "abc", "template": false, "lock": "backup",
            })
        );
    }
}
