//! What earlier tasks of one check run planned, merged into the lists that are read.
//!
//! Objects are overlaid by the world itself (a planned guest is its own fact); lists must be overlaid entry by entry: a planned
//! guest is in the list of guests, its id is not free, its volumes take names, and a planned vnet is a bridge on every node.

use crate::boot::is_cdrom;
use crate::config;
use crate::ids::Volid;
use crate::keys::PveKey;
use plan::{Fact, Key, Ledger};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Merges what is planned into a fact that was read.
pub fn overlay(key: &Key, fact: Fact, ledger: &dyn Ledger) -> Fact {
    let Some(k) = PveKey::parse(key) else {
        return fact;
    };
    match k {
        PveKey::Guests => edit_list(fact, |list| {
            guests(list, ledger);
            pools_of_guests(list, ledger);
        }),
        PveKey::NodeGuests(_) => edit_list(fact, |list| node_guests(list, ledger)),
        PveKey::NextId => match fact {
            Fact::Known(v) => Fact::Known(next_id(&v, ledger)),
            other => other,
        },
        PveKey::IdFree(id) => match planned_guest(ledger, id) {
            Some(Fact::Known(_)) => Fact::Known(json!(false)),
            Some(Fact::Absent) => Fact::Known(json!(true)),
            _ => fact,
        },
        PveKey::GuestStatus(id) => match planned_guest(ledger, id) {
            // A guest that is only planned has no status of its own yet.
            Some(Fact::Known(_)) if fact.known().is_none() => {
                Fact::Known(json!({"status": "stopped"}))
            }
            Some(Fact::Absent) => Fact::Absent,
            _ => fact,
        },
        PveKey::GuestTasks(id) | PveKey::Replication(id) | PveKey::Snapshots(id) => {
            // The server answers an error for a guest that it does not have; a planned one has none of these.
            match (planned_guest(ledger, id), &fact) {
                (Some(_), Fact::Known(_)) | (None, _) => fact,
                (Some(_), _) => Fact::Known(json!([])),
            }
        }
        PveKey::AgentInterfaces(id) => match (planned_guest(ledger, id), &fact) {
            (Some(_), Fact::Absent) => Fact::Unreadable("the guest is only planned".to_owned()),
            _ => fact,
        },
        PveKey::Volumes {
            node,
            storage,
            content,
            vmid,
        } if content == "images" => edit_list(fact, |list| {
            list.retain(|v| !is_destroyed(ledger, &node, v));
            volumes(list, &storage, vmid, ledger);
        }),
        PveKey::Volume { volid, .. } => match fact {
            Fact::Known(v) => Fact::Known(v),
            other => planned_volume(ledger, &volid).unwrap_or(other),
        },
        PveKey::Pool(id) => match fact {
            Fact::Known(v) => Fact::Known(pool(v, &id, ledger)),
            other => other,
        },
        PveKey::PoolMember(id, member) => match planned_membership(ledger, &id, &member) {
            Some(is) if fact.known().is_some() => Fact::Known(json!(is)),
            _ => fact,
        },
        PveKey::Acl => edit_list(fact, |list| acl(list, ledger)),
        PveKey::Bridges(_) => edit_list(fact, |list| bridges(list, ledger)),
        PveKey::SdnVnets => edit_entries(fact, "vnet", "sdn-vnet", ledger),
        PveKey::SdnZones => edit_entries(fact, "zone", "sdn-zone", ledger),
        PveKey::SdnStatus => match fact {
            Fact::Known(v) => Fact::Known(zone_status(v, ledger)),
            other => other,
        },
        _ => fact,
    }
}

fn edit_list(fact: Fact, f: impl FnOnce(&mut Vec<Value>)) -> Fact {
    match fact {
        Fact::Known(Value::Array(mut list)) => {
            f(&mut list);
            Fact::Known(Value::Array(list))
        }
        other => other,
    }
}

fn prefix(kind: &str) -> String {
    format!("pve/{kind}/")
}

fn planned_guest(ledger: &dyn Ledger, id: u32) -> Option<Fact> {
    ledger.get(&PveKey::Guest(id).key())
}

/// Planned guests by id; `Absent`: planned to be removed.
fn planned_guests(ledger: &dyn Ledger) -> Vec<(u32, Fact)> {
    ledger
        .starting_with(&prefix("guest"))
        .into_iter()
        .filter_map(|(k, f)| match PveKey::parse(&k) {
            Some(PveKey::Guest(id)) => Some((id, f)),
            _ => None,
        })
        .collect()
}

fn is_entry(id: u32) -> impl Fn(&Value) -> bool {
    move |g| g["vmid"].as_u64() == Some(u64::from(id))
}

fn guests(list: &mut Vec<Value>, ledger: &dyn Ledger) {
    for (id, fact) in planned_guests(ledger) {
        let at = list.iter().position(is_entry(id));
        let Fact::Known(guest) = fact else {
            if fact.is_absent()
                && let Some(i) = at
            {
                list.remove(i);
            }
            continue;
        };
        let status = ledger
            .get(&PveKey::GuestStatus(id).key())
            .and_then(|f| f.known().and_then(|s| s.get("status").cloned()));
        let mut entry = at.map_or_else(
            || json!({"status": "stopped", "template": 0}),
            |i| list[i].clone(),
        );
        entry["vmid"] = json!(id);
        entry["node"] = guest["node"].clone();
        entry["type"] = guest["type"].clone();
        entry["template"] = json!(u8::from(guest["template"].as_bool() == Some(true)));
        if let Some(s) = status {
            entry["status"] = s;
        }
        for name in ["name", "tags"] {
            match guest["config"].get(name) {
                Some(v) => entry[name] = v.clone(),
                None => {
                    if let Some(o) = entry.as_object_mut() {
                        o.remove(name);
                    }
                }
            }
        }
        if let Some(pool) = guest.get("pool") {
            entry["pool"] = pool.clone();
        }
        match at {
            Some(i) => list[i] = entry,
            None => list.push(entry),
        }
    }
}

/// What is planned of a member by itself, or follows from what is planned of the guest.
fn planned_membership(ledger: &dyn Ledger, pool: &str, member: &str) -> Option<bool> {
    let guest = member
        .strip_prefix("vm/")
        .and_then(|v| planned_guest(ledger, v.parse().ok()?));
    if guest.as_ref().is_some_and(Fact::is_absent) {
        return Some(false);
    }
    let key = PveKey::PoolMember(pool.to_owned(), member.to_owned());
    if let Some(Fact::Known(Value::Bool(b))) = ledger.get(&key.key()) {
        return Some(b);
    }
    let joins = guest.as_ref().and_then(Fact::known)?.get("pool")?;
    (joins == pool).then_some(true)
}

fn pool(mut pool: Value, id: &str, ledger: &dyn Ledger) -> Value {
    let mut touched: BTreeSet<String> = ledger
        .starting_with(&prefix("pool-member"))
        .into_iter()
        .filter_map(|(k, _)| match PveKey::parse(&k) {
            Some(PveKey::PoolMember(p, m)) if p == id => Some(m),
            _ => None,
        })
        .collect();
    touched.extend(
        planned_guests(ledger)
            .iter()
            .map(|(v, _)| format!("vm/{v}")),
    );
    for member in touched {
        let Some(is) = planned_membership(ledger, id, &member) else {
            continue;
        };
        let (list, value) = match member.split_once('/') {
            Some(("vm", v)) => ("vms", v.parse::<u32>().map_or(Value::Null, Value::from)),
            Some((_, s)) => ("storages", json!(s)),
            None => continue,
        };
        if let Some(list) = pool[list].as_array_mut() {
            list.retain(|m| *m != value);
            if is {
                list.push(value);
            }
        }
    }
    for list in ["vms", "storages"] {
        if let Some(l) = pool[list].as_array_mut() {
            l.sort_by(|a, b| {
                a.as_u64()
                    .cmp(&b.as_u64())
                    .then_with(|| a.as_str().cmp(&b.as_str()))
            });
        }
    }
    pool
}

/// The pool that the list of guests names, after what is planned of memberships.
fn pools_of_guests(list: &mut [Value], ledger: &dyn Ledger) {
    for (key, fact) in ledger.starting_with(&prefix("pool-member")) {
        let Some(PveKey::PoolMember(pool, member)) = PveKey::parse(&key) else {
            continue;
        };
        let id = member.strip_prefix("vm/").and_then(|v| v.parse().ok());
        let Some(entry) = id.and_then(|id: u32| list.iter_mut().find(|g| is_entry(id)(g))) else {
            continue;
        };
        let is = fact.known() == Some(&json!(true));
        if is {
            entry["pool"] = json!(pool);
        } else if entry["pool"] == json!(pool)
            && let Some(o) = entry.as_object_mut()
        {
            o.remove("pool");
        }
    }
}

fn acl(list: &mut Vec<Value>, ledger: &dyn Ledger) {
    for (key, fact) in ledger.starting_with(&prefix("acl-path")) {
        let Some(PveKey::AclPath(path)) = PveKey::parse(&key) else {
            continue;
        };
        list.retain(|e| e["path"] != json!(path));
        for e in fact.known().and_then(Value::as_array).into_iter().flatten() {
            let mut e = e.clone();
            e["path"] = json!(path);
            list.push(e);
        }
    }
}

/// A node's own list: planned states of the guests in it; planned guests are in the cluster's list.
fn node_guests(list: &mut Vec<Value>, ledger: &dyn Ledger) {
    for (id, fact) in planned_guests(ledger) {
        if fact.is_absent() {
            list.retain(|g| !is_entry(id)(g));
        }
    }
    for g in list {
        let id = g["vmid"].as_u64().and_then(|v| u32::try_from(v).ok());
        let planned = id.and_then(|id| ledger.get(&PveKey::GuestStatus(id).key()));
        if let Some(s) = planned
            .as_ref()
            .and_then(Fact::known)
            .and_then(|s| s.get("status"))
        {
            g["status"] = s.clone();
        }
    }
}

fn next_id(from: &Value, ledger: &dyn Ledger) -> Value {
    let claimed: BTreeSet<u64> = planned_guests(ledger)
        .into_iter()
        .filter(|(_, f)| f.known().is_some())
        .map(|(id, _)| u64::from(id))
        .collect();
    let number = from.as_u64().or_else(|| from.as_str()?.parse().ok());
    match number {
        // The server's answer is the lowest free one; ids above it that are taken for real are found when they are asked for.
        Some(n) => json!((n..).find(|n| !claimed.contains(n)).unwrap_or(n)),
        None => from.clone(),
    }
}

/// Volumes that a planned configuration holds.
fn volumes_of(guest: &Value) -> Vec<(Volid, Value)> {
    let Some(config) = guest["config"].as_object() else {
        return Vec::new();
    };
    config::drives(config)
        .iter()
        .filter(|d| !is_cdrom(d) || crate::boot::is_cloudinit(d))
        .filter_map(|d| {
            let v: Volid = d.get("file")?.parse().ok()?;
            let size = d.get_size("size");
            let format = v.format().unwrap_or("raw").to_owned();
            let entry = json!({"volid": v.to_string(), "format": format, "size": size, "vmid": v.owner(), "content": "images"});
            Some((v, entry))
        })
        .collect()
}

fn volumes(list: &mut Vec<Value>, storage: &str, of: Option<u32>, ledger: &dyn Ledger) {
    for (id, fact) in planned_guests(ledger) {
        let Fact::Known(guest) = fact else {
            if fact.is_absent() {
                list.retain(|v| v["vmid"].as_u64() != Some(u64::from(id)));
            }
            continue;
        };
        for (volid, entry) in volumes_of(&guest) {
            let asked_for =
                volid.storage() == storage && of.is_none_or(|id| volid.owner() == Some(id));
            let known = list.iter().any(|v| v["volid"] == entry["volid"]);
            if asked_for && !known {
                list.push(entry);
            }
        }
    }
}

/// Whether an earlier task planned to destroy the volume, so that its name is free.
fn is_destroyed(ledger: &dyn Ledger, node: &str, volume: &Value) -> bool {
    let Some(volid) = volume["volid"].as_str() else {
        return false;
    };
    let key = PveKey::Volume {
        node: node.to_owned(),
        volid: volid.to_owned(),
    };
    ledger.get(&key.key()).is_some_and(|f| f.is_absent())
}

fn planned_volume(ledger: &dyn Ledger, volid: &str) -> Option<Fact> {
    planned_guests(ledger)
        .into_iter()
        .filter_map(|(_, f)| f.known().cloned())
        .flat_map(|g| volumes_of(&g))
        .find(|(v, _)| v.to_string() == volid)
        .map(|(_, e)| {
            Fact::Known(
                json!({"size": e["size"], "format": e["format"], "used": null, "path": null}),
            )
        })
}

/// A planned vnet or zone is there once it is applied; a plan that leaves that to a later task says `state`.
fn is_applied(object: &Value) -> bool {
    object.get("state").is_none()
}

fn bridges(list: &mut Vec<Value>, ledger: &dyn Ledger) {
    for (key, fact) in ledger.starting_with(&prefix("sdn-vnet")) {
        let Some(PveKey::SdnVnet(id)) = PveKey::parse(&key) else {
            continue;
        };
        let here = list.iter().position(|b| *b == json!(id));
        match (fact, here) {
            (Fact::Known(v), None) if is_applied(&v) => list.push(json!(id)),
            (Fact::Absent, Some(i)) => {
                list.remove(i);
            }
            _ => {}
        }
    }
}

fn edit_entries(fact: Fact, id_name: &str, kind: &str, ledger: &dyn Ledger) -> Fact {
    let Fact::Known(mut v) = fact else {
        return fact;
    };
    if let Some(list) = v["entries"].as_array_mut() {
        for (key, planned) in ledger.starting_with(&prefix(kind)) {
            let Some(id) = key.parts().get(2).cloned() else {
                continue;
            };
            let at = list.iter().position(|e| e[id_name] == json!(id));
            match (planned, at) {
                (Fact::Known(e), Some(i)) => list[i] = e,
                (Fact::Known(e), None) => list.push(e),
                (Fact::Absent, Some(i)) => {
                    list.remove(i);
                }
                _ => {}
            }
        }
    }
    Fact::Known(v)
}

fn zone_status(mut status: Value, ledger: &dyn Ledger) -> Value {
    let planned: Vec<(String, Fact)> = ledger
        .starting_with(&prefix("sdn-zone"))
        .into_iter()
        .filter_map(|(k, f)| Some((k.parts().get(2)?.clone(), f)))
        .collect();
    for (node, list) in status.as_object_mut().into_iter().flat_map(Map::iter_mut) {
        let Some(list) = list.as_array_mut() else {
            continue;
        };
        for (id, fact) in &planned {
            let at = list.iter().position(|z| z["zone"] == json!(id));
            match (fact, at) {
                (Fact::Known(z), None) if is_applied(z) && on_node(z, node) => {
                    list.push(json!({"zone": id, "status": "available"}));
                }
                (Fact::Absent, Some(i)) => {
                    list.remove(i);
                }
                _ => {}
            }
        }
    }
    status
}

/// A zone without `nodes` is on all of them.
fn on_node(zone: &Value, node: &str) -> bool {
    match zone.get("nodes").and_then(Value::as_str) {
        Some(nodes) => crate::check::split_list(nodes).any(|n| n == node),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::MemoryLedger;

    fn ledger() -> MemoryLedger {
        let mut l = MemoryLedger::default();
        let config = json!({"name": "web", "scsi0": "local:100/vm-100-disk-0.raw,size=4G", "ide2": "local:iso/a.iso,media=cdrom"});
        l.put(
            &PveKey::Guest(100).key(),
            &Fact::Known(json!({"vmid": 100, "node": "pve1", "type": "qemu", "config": config, "template": false})),
        );
        l.put(&PveKey::Guest(102).key(), &Fact::Absent);
        l.put(
            &PveKey::SdnVnet("v5".into()).key(),
            &Fact::Known(json!({"vnet": "v5", "zone": "z1", "tag": 5})),
        );
        l.put(
            &PveKey::SdnVnet("v6".into()).key(),
            &Fact::Known(json!({"vnet": "v6", "zone": "z1", "state": "new"})),
        );
        l.put(
            &PveKey::SdnZone("z1".into()).key(),
            &Fact::Known(json!({"zone": "z1", "type": "vlan", "nodes": "pve1"})),
        );
        l
    }

    fn seen(key: PveKey, real: Value) -> Value {
        overlay(&key.key(), Fact::Known(real), &ledger())
            .known()
            .cloned()
            .expect("known")
    }

    #[test]
    fn planned_guests_are_in_the_lists_and_their_ids_taken() {
        let list = seen(
            PveKey::Guests,
            json!([{"vmid": 102, "type": "qemu", "name": "old"}, {"vmid": 7, "type": "lxc"}]),
        );
        assert_eq!(list[0]["vmid"], 7);
        assert_eq!(
            (list[1]["vmid"].clone(), list[1]["name"].clone()),
            (json!(100), json!("web"))
        );
        assert_eq!(list.as_array().map(Vec::len), Some(2));
        assert_eq!(seen(PveKey::NextId, json!(100)), json!(101));
        assert_eq!(seen(PveKey::IdFree(100), json!(true)), json!(false));
        assert_eq!(seen(PveKey::IdFree(102), json!(false)), json!(true));
        let status = overlay(&PveKey::GuestStatus(100).key(), Fact::Absent, &ledger());
        assert_eq!(status, Fact::Known(json!({"status": "stopped"})));
    }

    #[test]
    fn planned_volumes_take_their_names() {
        let of = |storage: &str, vmid| PveKey::Volumes {
            node: "pve1".into(),
            storage: storage.into(),
            content: "images".into(),
            vmid,
        };
        let list = seen(
            of("local", Some(100)),
            json!([{"volid": "local:102/vm-102-disk-0.raw", "vmid": 102}]),
        );
        assert_eq!(list[0]["volid"], "local:100/vm-100-disk-0.raw");
        assert_eq!(list[0]["size"], json!(4u64 << 30));
        assert_eq!(
            list.as_array().map(Vec::len),
            Some(1),
            "the removed guest's volume is gone, the ISO is none of the guest's"
        );
        assert_eq!(seen(of("lvm", None), json!([])), json!([]));
    }

    #[test]
    fn a_planned_vnet_is_a_bridge_once_it_is_applied() {
        assert_eq!(
            seen(PveKey::Bridges("pve2".into()), json!(["vmbr0"])),
            json!(["vmbr0", "v5"])
        );
        let vnets = seen(
            PveKey::SdnVnets,
            json!({"entries": [{"vnet": "v5", "zone": "other"}], "digest": "d"}),
        );
        assert_eq!(vnets["entries"][0]["zone"], "z1");
        assert_eq!(vnets["entries"].as_array().map(Vec::len), Some(2));
        let status = seen(PveKey::SdnStatus, json!({"pve1": [], "pve2": []}));
        assert_eq!(
            status,
            json!({"pve1": [{"zone": "z1", "status": "available"}], "pve2": []})
        );
    }

    #[test]
    fn planned_members_and_entries_are_in_their_lists() {
        let mut l = ledger();
        let member = |p: &str, m: &str| PveKey::PoolMember(p.into(), m.into()).key();
        l.put(&member("old", "vm/101"), &Fact::Known(json!(false)));
        l.put(&member("new", "vm/101"), &Fact::Known(json!(true)));
        l.put(&member("new", "storage/nfs"), &Fact::Known(json!(true)));
        // Planned to be in it, and then to be gone.
        l.put(&member("new", "vm/102"), &Fact::Known(json!(true)));
        l.put(
            &PveKey::Guest(103).key(),
            &Fact::Known(
                json!({"vmid": 103, "node": "pve1", "type": "qemu", "config": {}, "pool": "new"}),
            ),
        );
        l.put(
            &PveKey::AclPath("/vms/101".into()).key(),
            &Fact::Known(json!([{"type": "user", "ugid": "a@pve", "roleid": "R", "propagate": 1}])),
        );
        let seen = |key: PveKey, real: Value| {
            overlay(&key.key(), Fact::Known(real), &l)
                .known()
                .cloned()
                .expect("known")
        };
        assert_eq!(
            seen(
                PveKey::Pool("new".into()),
                json!({"poolid": "new", "vms": [99], "storages": []})
            ),
            json!({"poolid": "new", "vms": [99, 101, 103], "storages": ["nfs"]})
        );
        assert_eq!(
            seen(
                PveKey::Pool("old".into()),
                json!({"poolid": "old", "vms": [101, 102], "storages": []})
            ),
            json!({"poolid": "old", "vms": [], "storages": []})
        );
        assert_eq!(
            seen(
                PveKey::PoolMember("new".into(), "vm/103".into()),
                json!(false)
            ),
            json!(true)
        );
        assert_eq!(
            seen(
                PveKey::PoolMember("old".into(), "vm/102".into()),
                json!(true)
            ),
            json!(false)
        );
        let guests = seen(
            PveKey::Guests,
            json!([{"vmid": 101, "type": "qemu", "node": "pve1", "pool": "old"}]),
        );
        assert_eq!(guests[0]["pool"], "new");
        assert_eq!(
            seen(
                PveKey::Acl,
                json!([{"path": "/vms/101", "type": "user", "ugid": "b@pve", "roleid": "R", "propagate": 1}])
            ),
            json!([{"type": "user", "ugid": "a@pve", "roleid": "R", "propagate": 1, "path": "/vms/101"}])
        );
    }

    #[test]
    fn what_cannot_be_read_stays_so() {
        let f = Fact::Unreadable("403".into());
        assert_eq!(overlay(&PveKey::Guests.key(), f.clone(), &ledger()), f);
    }
}
