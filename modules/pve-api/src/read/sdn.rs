//! `/cluster/sdn` and the nodes' view of it.

use super::{entries, pick, sorted, text};
use crate::error::ApiError;
use crate::live::{Live, seg};
use plan::Fact;
use pve::keys::PveKey;
use serde_json::{Map, Value, json};

impl Live {
    /// The pending view tells all but the digest (source: docs/pve-sdn.md, section 6).
    pub(crate) fn sdn_list(&mut self, kind: &str) -> Result<Fact, ApiError> {
        let pending = self.get(&format!("/cluster/sdn/{kind}?pending=1"))?;
        let list = entries(&pending)
            .map(|e| {
                let mut e = e.clone();
                e.remove("digest");
                e
            })
            .collect();
        let by = if kind == "zones" { "zone" } else { "vnet" };
        Ok(Fact::Known(json!({"entries": sorted(list, by)})))
    }

    /// That of the whole file: every entry has the same (source: docs/pve-sdn.md, section 7).
    pub(crate) fn sdn_digest(&mut self, kind: &str) -> Result<Fact, ApiError> {
        let plain = self.get(&format!("/cluster/sdn/{kind}"))?;
        let digest = entries(&plain)
            .find_map(|e| text(e, "digest"))
            .unwrap_or_default();
        Ok(Fact::Known(json!(digest)))
    }

    /// One object as it will be once all that is pending is applied; one whose deletion is pending is absent.
    pub(crate) fn sdn_one(
        &mut self,
        list: &PveKey,
        field: &str,
        id: &str,
    ) -> Result<Fact, ApiError> {
        let list = self.fact(list)?;
        let list = match &*list {
            Fact::Known(v) => v,
            other => return Ok(other.clone()),
        };
        let found = entries(&list["entries"]).find(|e| text(e, field) == Some(id));
        let Some(e) = found.filter(|e| text(e, "state") != Some("deleted")) else {
            return self.sdn_absent(field, id);
        };
        let mut o = e.clone();
        o.remove("state");
        if let Some(Value::Object(pending)) = o.remove("pending") {
            for (k, v) in pending {
                if v == "deleted" {
                    o.remove(&k);
                } else {
                    o.insert(k, v);
                }
            }
        }
        Ok(Fact::Known(Value::Object(o)))
    }

    /// The lists show only what we have SDN.Audit or SDN.Allocate for: an absence is believed where we may see.
    fn sdn_absent(&mut self, field: &str, id: &str) -> Result<Fact, ApiError> {
        let path = if field == "zone" {
            format!("/sdn/zones/{id}")
        } else {
            "/sdn/zones".to_owned()
        };
        let sees = match &*self.fact(&PveKey::Perms(path.clone()))? {
            Fact::Known(p) => ["SDN.Audit", "SDN.Allocate"]
                .iter()
                // What does not propagate says nothing of the vnets below.
                .any(|name| {
                    p.get(*name)
                        .is_some_and(|v| field == "zone" || crate::wire::truth(Some(v)))
                }),
            _ => false,
        };
        Ok(if sees {
            Fact::Absent
        } else {
            Fact::Unreadable(format!(
                "{field} {id} is not listed, but lists show only what one may see: privilege SDN.Audit is missing on {path} for {}",
                self.who()
            ))
        })
    }

    pub(crate) fn sdn_pending(&mut self) -> Result<Fact, ApiError> {
        let mut all = Map::new();
        for (kind, path, id) in [
            ("zones", "/cluster/sdn/zones?pending=1", "zone"),
            ("vnets", "/cluster/sdn/vnets?pending=1", "vnet"),
            (
                "controllers",
                "/cluster/sdn/controllers?pending=1",
                "controller",
            ),
            ("fabrics", "/cluster/sdn/fabrics/fabric?pending=1", "id"),
        ] {
            let list = self.pending_ids(path, id)?;
            all.insert(kind.to_owned(), json!(list));
        }
        let vnets = self.get("/cluster/sdn/vnets?pending=1")?;
        let vnets: Vec<String> = entries(&vnets)
            .filter_map(|e| text(e, "vnet").map(str::to_owned))
            .collect();
        let mut subnets = vec![];
        for v in vnets {
            subnets.extend(self.pending_ids(
                &format!("/cluster/sdn/vnets/{}/subnets?pending=1", seg(&v)),
                "subnet",
            )?);
        }
        all.insert("subnets".to_owned(), json!(subnets));
        Ok(Fact::Known(Value::Object(all)))
    }

    /// Those with a state. What we may not list, or what this version does not have (fabrics before PVE 9), is left out: the key says
    /// "that the caller may see".
    fn pending_ids(&mut self, path: &str, id: &str) -> Result<Vec<String>, ApiError> {
        let answer = match self.get(path) {
            Ok(a) => a,
            Err(ApiError::Refused(r))
                if matches!(r.status, 403 | 501)
                    // A vnet whose creation or deletion is pending may have no subnet list.
                    || (r.status == 500 && r.says("does not exist")) =>
            {
                return Ok(vec![]);
            }
            Err(e) => return Err(e),
        };
        let mut ids: Vec<String> = entries(&answer)
            .filter(|e| text(e, "state").is_some_and(|s| !s.is_empty()))
            .filter_map(|e| text(e, id).map(str::to_owned))
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }

    pub(crate) fn sdn_ready(&mut self, zones: &str) -> Result<Fact, ApiError> {
        // Not through the remembered fact: this key is polled.
        let status = match self.sdn_status()? {
            Fact::Known(v) => v,
            other => return Ok(other),
        };
        let mut all = Map::new();
        let mut ready = true;
        for zone in zones.split(',') {
            let on: Map<String, Value> = status
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(node, list)| {
                    let z = entries(list).find(|z| text(z, "zone") == Some(zone))?;
                    Some((node.clone(), z.get("status").cloned().unwrap_or_default()))
                })
                .collect();
            ready &= !on.is_empty() && on.values().all(|s| s == "available");
            all.insert(zone.to_owned(), Value::Object(on));
        }
        Ok(Fact::Known(json!({"ready": ready, "zones": all})))
    }

    pub(crate) fn sdn_subnets(&mut self, vnet: &str) -> Result<Fact, ApiError> {
        let path = format!("/cluster/sdn/vnets/{}/subnets?pending=1", seg(vnet));
        let answer = match self.get(&path) {
            Ok(a) => a,
            Err(ApiError::Refused(r)) if r.status == 500 && r.says("does not exist") => {
                return Ok(Fact::Known(json!([])));
            }
            Err(e) => return Err(e),
        };
        let list = entries(&answer)
            .map(|e| pick(e, &["subnet", "state"]))
            .collect();
        Ok(Fact::Known(sorted(list, "subnet")))
    }

    pub(crate) fn sdn_status(&mut self) -> Result<Fact, ApiError> {
        let mut all = Map::new();
        for node in self.online_nodes()? {
            let answer = self.get(&format!("/nodes/{}/sdn/zones", seg(&node)))?;
            let list = entries(&answer)
                .map(|e| pick(e, &["zone", "status"]))
                .collect();
            all.insert(node, sorted(list, "zone"));
        }
        Ok(Fact::Known(Value::Object(all)))
    }
}
