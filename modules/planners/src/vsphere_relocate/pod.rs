//! Datastore clusters: the datastore that Storage DRS recommends, or, where that is off, the one with the most room.

use super::place::{Goal, can_take, lies_on, seen_by};
use crate::look::{Look, Stop};
use crate::vsphere_target::Target;
use serde_json::{Map, Value, json};
use vsphere::keys::VcKey;
use vsphere::value::{flag, int, list, moid, text};

/// The cluster, and what is known when it is asked.
pub struct Pod<'a> {
    /// Its fact.
    pub pod: &'a Value,
    /// All datastores.
    pub stores: &'a [Value],
    /// The datastore that the task gives a single disk, in the order of the goal's disks.
    pub fixed: Vec<Option<&'a Value>>,
    /// Where the vmx lies.
    pub home: Option<&'a Value>,
    /// Another host that was asked for.
    pub host: Option<&'a Value>,
}

/// Where the vmx and a disk are to go that do not lie in the cluster yet.
struct Choice<'a> {
    home: Option<&'a Value>,
    /// By the disk's key; others go with the vmx.
    disks: Vec<(i64, &'a Value)>,
}

impl<'a> Choice<'a> {
    fn disk(&self, disk: &Value) -> Option<&'a Value> {
        let own = self
            .disks
            .iter()
            .find(|(k, _)| int(disk, "key") == Some(*k));
        own.map(|(_, s)| *s).or(self.home)
    }
}

impl<'a> Pod<'a> {
    fn name(&self) -> &'a str {
        text(self.pod, "name").unwrap_or("")
    }

    fn holds(&self, store: &Value) -> bool {
        let mut members = list(self.pod, "datastores")
            .iter()
            .filter_map(Value::as_str);
        members.any(|m| Some(moid(m)) == text(store, "moid"))
    }

    fn by_moid(&self, m: &str) -> Option<&'a Value> {
        let found = self.stores.iter().find(|s| text(s, "moid") == Some(m));
        found.filter(|s| self.holds(s))
    }

    /// The member with the most room that can take it and is seen.
    fn roomiest(&self, vm: &Value) -> Option<&'a Value> {
        let host = self.host.unwrap_or(&vm["host"]);
        self.stores
            .iter()
            .filter(|s| self.holds(s) && can_take(s))
            .filter(|s| text(host, "moid").is_none_or(|h| seen_by(s, h)))
            .max_by(|a, b| {
                (int(a, "free"), text(b, "name")).cmp(&(int(b, "free"), text(a, "name")))
            })
    }
}

/// Puts into the goal where everything goes; what lies in the cluster stays where it is.
///
/// # Errors
/// Missing facts; the server's reason where it recommends nothing.
pub fn place<'a>(
    t: &Target,
    look: &Look<'a>,
    vm: &'a Value,
    p: &Pod<'a>,
    goal: &mut Goal<'a>,
) -> Result<(), Stop> {
    let home_in = p.home.is_some_and(|s| p.holds(s));
    let now: Vec<Option<&Value>> = goal
        .disks
        .iter()
        .map(|g| p.stores.iter().find(|s| lies_on(g.disk, s)))
        .map(|s| s.filter(|s| p.holds(s)))
        .collect();
    let all_in = home_in
        && now
            .iter()
            .zip(&p.fixed)
            .all(|(n, f)| f.is_some() || n.is_some());
    let choice = if all_in {
        Choice {
            home: p.home,
            disks: vec![],
        }
    } else {
        choose(t, look, vm, p, goal)?
    };
    goal.home = if home_in { p.home } else { choice.home };
    goal.home_moves = !home_in;
    for (g, n) in goal.disks.iter_mut().zip(now) {
        g.to = n.or_else(|| choice.disk(g.disk));
    }
    let homeless = goal.home.is_none()
        || goal
            .disks
            .iter()
            .zip(&p.fixed)
            .any(|(g, f)| f.is_none() && g.to.is_none());
    if homeless {
        return Err(t.refusal(format!("datastore cluster {} has no datastore that is accessible, out of maintenance and seen by the host; look at its members", p.name())).into());
    }
    Ok(())
}

fn choose<'a>(
    t: &Target,
    look: &Look<'a>,
    vm: &'a Value,
    p: &Pod<'a>,
    goal: &mut Goal<'a>,
) -> Result<Choice<'a>, Stop> {
    let by_room = |goal: &mut Goal<'a>, why: &str| {
        goal.notes.push(format!(
            "{why}, so that of datastore cluster {} the datastore with the most free space was chosen",
            p.name()
        ));
        Choice {
            home: p.roomiest(vm),
            disks: vec![],
        }
    };
    // Source: terraform-provider-vsphere and community.vmware ask for recommendations only where Storage DRS is on.
    if !flag(p.pod, "sdrs") {
        return Ok(by_room(goal, "Storage DRS is off"));
    }
    let key = VcKey::Placement {
        vm: text(vm, "moid").unwrap_or("").to_owned(),
        pod: text(p.pod, "moid").unwrap_or("").to_owned(),
        spec: fixed_spec(p, goal).to_string(),
    };
    let fact = look.aux(&key, "which datastore Storage DRS recommends")?;
    let Some(answer) = fact.and_then(|f| f.known()) else {
        return Ok(by_room(goal, "Storage DRS cannot be asked"));
    };
    let nowhere = |why: String| -> Stop {
        t.refusal(format!(
            "vCenter recommends no datastore of datastore cluster {}: {why}; make room in it, or name a datastore",
            p.name()
        ))
        .into()
    };
    // The server's order counts among recommendations of one rating.
    let alone = list(answer, "recommended")
        .iter()
        .filter(|r| flag(r, "alone"));
    let best = alone.rev().max_by_key(|r| int(r, "rating"));
    let Some(best) = best else {
        let reasons: Vec<&str> = list(answer, "reasons")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        return Err(nowhere(match reasons.as_slice() {
            [] if !list(answer, "recommended").is_empty() => {
                "other machines would have to be moved first".to_owned()
            }
            [] => "it gives no reason".to_owned(),
            some => some
                .iter()
                .map(|r| r.trim_end_matches('.'))
                .collect::<Vec<_>>()
                .join("; "),
        }));
    };
    if let Some(w) = text(best, "warning") {
        goal.notes
            .push(format!("vCenter warns of its recommendation: {w}"));
    }
    let store = |v: &Value, k: &str| text(v, k).and_then(|m| p.by_moid(m));
    let choice = Choice {
        home: store(best, "home"),
        disks: list(best, "disks")
            .iter()
            .filter_map(|d| Some((int(d, "key")?, store(d, "datastore")?)))
            .collect(),
    };
    if choice.home.is_none() {
        return Err(nowhere(format!(
            "what it recommends ({}) is no datastore of it that this user may see",
            text(best, "home").unwrap_or("nothing")
        )));
    }
    Ok(choice)
}

/// What the task itself says, as the server shall take it into account.
fn fixed_spec(p: &Pod<'_>, goal: &Goal<'_>) -> Value {
    let mut spec = Map::new();
    let disks: Vec<Value> = goal
        .disks
        .iter()
        .zip(&p.fixed)
        .filter_map(|(g, f)| {
            let store = text((*f)?, "moid")?;
            Some(json!({"diskId": g.disk["key"], "datastore": format!("Datastore:{store}")}))
        })
        .collect();
    if !disks.is_empty() {
        spec.insert("disk".into(), json!(disks));
    }
    if let Some(h) = p.host.and_then(|h| text(h, "moid")) {
        spec.insert("host".into(), json!(format!("HostSystem:{h}")));
    }
    Value::Object(spec)
}
