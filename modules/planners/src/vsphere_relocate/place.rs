//! Where everything shall lie: names of the task to objects of the server, and what differs from now.

use super::Wanted;
use super::pod::{self, Pod};
use crate::look::{Look, Stop};
use crate::vsphere_target::{Target, no_datacenter};
use plan::{ErrorKind, Fact, Refusal};
use serde_json::Value;
use vsphere::keys::VcKey;
use vsphere::path::{DsPath, same_name};
use vsphere::value::{flag, int, list, moid, text};

/// One disk, and where it goes.
pub struct DiskGoal<'a> {
    /// The disk's fact.
    pub disk: &'a Value,
    /// The datastore it shall lie on; `None`: where it is.
    pub to: Option<&'a Value>,
    /// It does not lie there yet.
    pub moves: bool,
}

/// What must change; all empty if nothing.
pub struct Goal<'a> {
    /// The datastore of the vmx; `None`: where it is.
    pub home: Option<&'a Value>,
    /// The vmx does not lie there yet.
    pub home_moves: bool,
    /// In the order of their keys.
    pub disks: Vec<DiskGoal<'a>>,
    /// Another host.
    pub host: Option<&'a Value>,
    /// Another cluster, whose DRS chooses the host.
    pub drs: Option<&'a Value>,
    /// Another resource pool, or one that must be said.
    pub pool: Option<&'a Value>,
    /// What the user should know of how it was chosen.
    pub notes: Vec<String>,
}

impl Goal<'_> {
    /// Whether any file moves.
    pub fn storage_moves(&self) -> bool {
        self.home_moves || self.disks.iter().any(|d| d.moves)
    }

    /// Whether there is nothing to do.
    pub fn is_reached(&self) -> bool {
        !self.storage_moves() && self.host.is_none() && self.drs.is_none() && self.pool.is_none()
    }
}

/// A list of the server, with what a message calls one of its objects.
fn all<'a>(look: &Look<'a>, t: &Target, key: VcKey, what: &str) -> Result<&'a [Value], Stop> {
    match look.fact(&key)? {
        Fact::Known(Value::Array(a)) => Ok(a),
        Fact::Unreadable(why) => Err(Refusal::kind(
            ErrorKind::Permission,
            format!("{}: {what}s cannot be read: {why}", unable(t)),
        )
        .into()),
        _ => Ok(&[]),
    }
}

fn unable(t: &Target) -> String {
    format!("unable to {} {}", t.verb, t.named())
}

/// The one object of that name, in that datacenter if one is said.
fn named<'a>(
    t: &Target,
    objects: impl Iterator<Item = &'a Value> + Clone,
    what: &str,
    name: &str,
    datacenter: Option<&str>,
) -> Result<&'a Value, Stop> {
    let here = |v: &&Value| datacenter.is_none_or(|d| text(v, "datacenter") == Some(d));
    let found: Vec<&Value> = objects
        .clone()
        .filter(here)
        .filter(|v| same_name(text(v, "name").unwrap_or(""), name))
        .collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let place = datacenter.map_or_else(String::new, |d| format!(" in datacenter {d}"));
            let names = objects.clone().filter(here).filter_map(|v| text(v, "name"));
            let elsewhere: Vec<&str> = objects
                .filter(|v| same_name(text(v, "name").unwrap_or(""), name))
                .filter_map(|v| text(v, "datacenter"))
                .collect();
            let hint = if !elsewhere.is_empty() {
                format!(
                    "there is one in {}: give destination_datacenter",
                    elsewhere.join(", ")
                )
            } else if let Some(near) = spec::nearest(name, names) {
                format!("did you mean {near}?")
            } else {
                "check the name, and that this user may see it".to_owned()
            };
            Err(Refusal::kind(
                ErrorKind::NotFound,
                format!("{}: there is no {what} {name}{place}; {hint}", unable(t)),
            )
            .into())
        }
        several => {
            let each: Vec<String> = several
                .iter()
                .map(|v| {
                    format!(
                        "{} in {}",
                        text(v, "moid").unwrap_or("?"),
                        text(v, "datacenter")
                            .or_else(|| text(v, "path"))
                            .unwrap_or("?")
                    )
                })
                .collect();
            Err(t
                .refusal(format!(
                    "there are {} {what}s named {name}: {}; give destination_datacenter",
                    several.len(),
                    each.join(", ")
                ))
                .into())
        }
    }
}

/// A machine's data lies where its descriptor is, and with a snapshot also where the base is.
pub fn lies_on(disk: &Value, store: &Value) -> bool {
    let by_moid = text(disk, "datastore_moid").is_none_or(|m| Some(m) == text(store, "moid"));
    let base = text(disk, "snapshot_parent").and_then(DsPath::parse);
    by_moid
        && text(disk, "datastore") == text(store, "name")
        && base.is_none_or(|p| Some(p.datastore.as_str()) == text(store, "name"))
}

/// Whether a disk's names say that it lies on a datastore of that name.
fn named_so(disk: &Value, name: &str) -> bool {
    let base = text(disk, "snapshot_parent").and_then(DsPath::parse);
    text(disk, "datastore").is_some_and(|d| same_name(d, name))
        && base.is_none_or(|p| same_name(&p.datastore, name))
}

/// Whether anything may be put there now.
pub fn can_take(store: &Value) -> bool {
    flag(store, "accessible") && text(store, "maintenance") == Some("normal")
}

/// Whether that host sees the datastore well enough to write there.
pub fn seen_by(store: &Value, host: &str) -> bool {
    list(store, "hosts").iter().any(|h| {
        text(h, "moid") == Some(host)
            && h["accessible"] != false
            && h["mounted"] != false
            && text(h, "mode") != Some("readOnly")
    })
}

struct Placer<'a, 'l> {
    w: &'l Wanted,
    t: &'l Target,
    look: &'l Look<'a>,
    vm: &'a Value,
}

/// What the task asks for, against what is.
///
/// # Errors
/// Missing facts; names that do not exist or are ambiguous; disks that the machine does not have.
pub fn goal<'a>(w: &Wanted, t: &Target, look: &Look<'a>, vm: &'a Value) -> Result<Goal<'a>, Stop> {
    let p = Placer { w, t, look, vm };
    let scope = p.destination_datacenter()?;
    let (host, cluster) = p.compute(scope)?;
    let store_scope = scope
        .or_else(|| host.or(cluster).and_then(|v| text(v, "datacenter")))
        .or_else(|| text(vm, "datacenter.name"));
    let mut goal = p.storage(store_scope, host)?;
    p.place_compute(host, cluster, &mut goal)?;
    Ok(goal)
}

impl<'a> Placer<'a, '_> {
    fn destination_datacenter(&self) -> Result<Option<&'a str>, Stop> {
        let Some(name) = &self.w.datacenter else {
            return Ok(None);
        };
        let own = text(self.vm, "datacenter.name").filter(|d| same_name(d, name));
        if own.is_some() {
            return Ok(own);
        }
        let dcs = all(self.look, self.t, VcKey::Datacenters, "datacenter")?;
        dcs.iter()
            .find(|v| {
                same_name(text(v, "name").unwrap_or(""), name)
                    || text(v, "moid") == Some(name.as_str())
            })
            .and_then(|v| text(v, "name"))
            .map(Some)
            .ok_or_else(|| no_datacenter(&unable(self.t), name, dcs))
    }

    /// The host or the cluster to go to; `None` where the machine is there already.
    fn compute(&self, scope: Option<&str>) -> Result<(Option<&'a Value>, Option<&'a Value>), Stop> {
        let there = |what: &str, name: &str| {
            text(self.vm, what).is_some_and(|n| same_name(n, name))
                && scope.is_none_or(|d| text(self.vm, "datacenter.name") == Some(d))
        };
        if let Some(name) = self.w.host.as_deref().filter(|n| !there("host.name", n)) {
            let hosts = all(self.look, self.t, VcKey::Hosts, "host")?;
            return Ok((
                Some(named(self.t, hosts.iter(), "host", name, scope)?),
                None,
            ));
        }
        if let Some(name) = self
            .w
            .cluster
            .as_deref()
            .filter(|n| !there("cluster.name", n))
        {
            let clusters = all(self.look, self.t, VcKey::Clusters, "cluster")?;
            return Ok((
                None,
                Some(named(self.t, clusters.iter(), "cluster", name, scope)?),
            ));
        }
        Ok((None, None))
    }

    /// The disk that an item of `disks` means.
    fn disk_index(&self, key: Option<i64>, label: Option<&str>) -> Result<usize, Stop> {
        let disks = list(self.vm, "disks");
        let hit = |d: &Value| match key {
            Some(k) => int(d, "key") == Some(k),
            None => text(d, "label") == label,
        };
        disks.iter().position(hit).ok_or_else(|| {
            let has: Vec<String> = disks
                .iter()
                .map(|d| format!("{} (key {})", text(d, "label").unwrap_or(""), d["key"]))
                .collect();
            let asked = key.map_or_else(
                || label.unwrap_or_default().to_owned(),
                |k| format!("key {k}"),
            );
            Refusal::kind(
                ErrorKind::NotFound,
                format!(
                    "{}: it has no disk {asked}; it has {}",
                    unable(self.t),
                    has.join(", ")
                ),
            )
            .into()
        })
    }

    fn storage(&self, scope: Option<&str>, host: Option<&'a Value>) -> Result<Goal<'a>, Stop> {
        let disks = list(self.vm, "disks");
        // Which name each disk is given, by the disk's own item or else by the machine's.
        let mut own: Vec<Option<&str>> = vec![None; disks.len()];
        for d in &self.w.disks {
            let i = self.disk_index(d.key, d.label.as_deref())?;
            if own[i].is_some_and(|n| n != d.datastore) {
                return Err(self
                    .t
                    .refusal(format!(
                        "disks gives {} to two datastores; name it once",
                        text(&disks[i], "label").unwrap_or("")
                    ))
                    .into());
            }
            own[i] = Some(d.datastore.as_str());
        }
        let home_now = text(self.vm, "vmx.datastore").unwrap_or("");
        let same_dc = scope.is_none_or(|d| text(self.vm, "datacenter.name").is_none_or(|n| n == d));
        let mut goal = Goal {
            home: None,
            home_moves: false,
            disks: disks
                .iter()
                .map(|disk| DiskGoal {
                    disk,
                    to: None,
                    moves: false,
                })
                .collect(),
            host: None,
            drs: None,
            pool: None,
            notes: vec![],
        };
        let general = self.w.datastore.as_deref();
        // Datastore names are unique in a datacenter: where all names fit, nothing else must be read.
        let names_fit = self.w.pod.is_none()
            && same_dc
            && general.is_none_or(|n| same_name(home_now, n))
            && disks
                .iter()
                .zip(&own)
                .all(|(d, o)| o.or(general).is_none_or(|n| named_so(d, n)));
        if names_fit {
            return Ok(goal);
        }
        let stores = all(self.look, self.t, VcKey::Datastores, "datastore")?;
        let store = |name: &str| named(self.t, stores.iter(), "datastore", name, scope);
        let home_store = stores.iter().find(|s| {
            text(s, "name") == Some(home_now)
                && text(s, "datacenter") == text(self.vm, "datacenter.name")
        });
        let is_home = |s: &Value| home_store.is_some_and(|h| h["moid"] == s["moid"]);
        if let Some(name) = general {
            let s = store(name)?;
            goal.home = Some(s);
            goal.home_moves = !is_home(s);
        }
        if let Some(name) = &self.w.pod {
            let pods = all(self.look, self.t, VcKey::Pods, "datastore cluster")?;
            let pod = named(self.t, pods.iter(), "datastore cluster", name, scope)?;
            // A disk with an item of its own goes where that says.
            let fixed = own.iter().map(|o| o.map(&store).transpose());
            let fixed: Vec<Option<&Value>> = fixed.collect::<Result<_, _>>()?;
            let p = Pod {
                pod,
                stores,
                fixed,
                home: home_store,
                host,
            };
            pod::place(self.t, self.look, self.vm, &p, &mut goal)?;
        }
        for (g, o) in goal.disks.iter_mut().zip(&own) {
            match (o, general) {
                (Some(n), _) => g.to = Some(store(n)?),
                (None, Some(_)) => g.to = goal.home,
                (None, None) => {}
            }
            g.moves = g.to.is_some_and(|s| !lies_on(g.disk, s));
        }
        Ok(goal)
    }

    /// All datastores that the machine touches when it is done.
    fn finally_on(&self, goal: &Goal<'a>) -> Result<Vec<&'a Value>, Stop> {
        let stores = all(self.look, self.t, VcKey::Datastores, "datastore")?;
        let mut on: Vec<&Value> = vec![];
        let home_now = text(self.vm, "vmx.datastore");
        let here = |s: &&Value| text(s, "datacenter") == text(self.vm, "datacenter.name");
        on.extend(goal.home.or_else(|| {
            stores
                .iter()
                .filter(here)
                .find(|s| text(s, "name") == home_now)
        }));
        for g in &goal.disks {
            on.extend(g.to.or_else(|| stores.iter().filter(here).find(|s| lies_on(g.disk, s))));
        }
        Ok(on)
    }

    fn place_compute(
        &self,
        host: Option<&'a Value>,
        cluster: Option<&'a Value>,
        goal: &mut Goal<'a>,
    ) -> Result<(), Stop> {
        let mut host = host;
        if let Some(h) = host {
            self.fit(h, goal)?;
        }
        if let Some(c) = cluster {
            let hosts = all(self.look, self.t, VcKey::Hosts, "host")?;
            let on = self.finally_on(goal)?;
            let mut fit: Vec<&Value> = hosts
                .iter()
                .filter(|h| {
                    text(h, "cluster_moid") == text(c, "moid")
                        || text(h, "parent").map(moid) == text(c, "moid")
                })
                .filter(|h| usable(h).is_ok())
                .filter(|h| on.iter().all(|s| seen_by(s, text(h, "moid").unwrap_or(""))))
                .collect();
            fit.sort_by_key(|h| text(h, "name"));
            let Some(first) = fit.first() else {
                return Err(self.t.refusal(format!(
                    "no host of cluster {} is connected, out of maintenance and sees all of {}; mount them there, or move the disks first",
                    text(c, "name").unwrap_or(""),
                    names(&on)
                )).into());
            };
            if flag(c, "drs") {
                goal.drs = Some(c);
            } else {
                host = Some(first);
            }
        }
        goal.host = host;
        // The compute resource that it will belong to, as `Type:moid` or a bare moid.
        let owner_now = text(self.vm, "cluster.moid");
        let owner = host
            .and_then(|h| text(h, "parent"))
            .or_else(|| goal.drs.and_then(|c| text(c, "moid")))
            .map(moid)
            .or(owner_now);
        if let Some(name) = &self.w.pool {
            let pools = all(self.look, self.t, VcKey::Pools, "resource pool")?;
            let of_owner = pools
                .iter()
                .filter(|p| owner.is_none() || text(p, "owner").map(moid) == owner);
            let pool = named(self.t, of_owner, "resource pool", name, None)?;
            if text(pool, "moid") != text(self.vm, "resource_pool") || goal.drs.is_some() {
                goal.pool = Some(pool);
            }
        } else if owner.is_some() && owner != owner_now && (host.is_some() || goal.drs.is_some()) {
            // Source: docs/vsphere-facts.md section 3: the pool cannot be kept across compute resources.
            let root = host
                .and_then(|h| text(h, "pool"))
                .or_else(|| goal.drs.and_then(|c| text(c, "pool")))
                .map(moid);
            let pools = all(self.look, self.t, VcKey::Pools, "resource pool")?;
            goal.pool = pools.iter().find(|p| text(p, "moid") == root);
            if goal.pool.is_none() {
                return Err(self.t.refusal("the root resource pool of the destination cannot be seen; give destination_resourcepool").into());
            }
        }
        Ok(())
    }

    /// A host that was named must take the machine as it will lie.
    fn fit(&self, host: &Value, goal: &Goal<'a>) -> Result<(), Stop> {
        let name = text(host, "name").unwrap_or("");
        if let Err(why) = usable(host) {
            return Err(self
                .t
                .refusal(format!("host {name} {why}; choose another"))
                .into());
        }
        let on = self.finally_on(goal)?;
        let moid = text(host, "moid").unwrap_or("");
        let hidden: Vec<&Value> = on.into_iter().filter(|s| !seen_by(s, moid)).collect();
        if !hidden.is_empty() {
            return Err(self
                .t
                .refusal(format!(
                    "host {name} does not see datastore {}; mount it there, or name a datastore that it sees",
                    names(&hidden)
                ))
                .into());
        }
        Ok(())
    }
}

fn names(stores: &[&Value]) -> String {
    let mut n: Vec<&str> = stores.iter().filter_map(|s| text(s, "name")).collect();
    n.sort_unstable();
    n.dedup();
    n.join(", ")
}

fn usable(host: &Value) -> Result<(), String> {
    match text(host, "connection") {
        None | Some("connected") => {}
        Some(s) => return Err(format!("is {s}")),
    }
    if flag(host, "maintenance") {
        return Err("is in maintenance mode".to_owned());
    }
    Ok(())
}
