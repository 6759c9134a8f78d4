//! Facts: one function per kind of key.

use crate::collect::{Found, Spec, moid_of, refs};
use crate::error::CallError;
use crate::live::Live;
use crate::place::{self, Tree};
use plan::{ErrorKind, Fact, Failure};
use serde_json::{Map, Value, json};
use vsphere::keys::VcKey;
use vsphere::networks;
use vsphere::path::decode_name;
use vsphere::value::{at, flag, int, list, moid, moid_at, text, wsdl_ref};
use vsphere::vm::{self, STATE_PATHS};

impl Live {
    /// Reads one key.
    pub(crate) fn read_key(&mut self, key: &VcKey) -> Result<Fact, Failure> {
        let known = |v: Value| Ok(Fact::Known(v));
        match key {
            VcKey::Vm { by, datacenter } => self.vm(by, datacenter.as_deref()),
            VcKey::Vms { datacenter } => known(json!(self.vms(datacenter.as_deref())?)),
            VcKey::VmNames => known(json!(self.names()?)),
            VcKey::VmState(m) => self.one("VirtualMachine", m, STATE_PATHS, |_, t, f| {
                readable(f, t, vm::state)
            }),
            VcKey::Networks { datacenter } => known(self.networks(datacenter.as_deref())?),
            VcKey::Datastores => known(self.list(
                "Datastore",
                &["name", "parent", "summary", "host"],
                datastore,
            )?),
            VcKey::Hosts => self.hosts().map(Fact::Known),
            VcKey::Clusters => self.clusters().map(Fact::Known),
            VcKey::Placement { vm, pod, spec } => self.placement(vm, pod, spec),
            VcKey::RelocateCheck { vm, spec } => self.relocate_check(vm, spec),
            VcKey::Pools => known(self.list("ResourcePool", &["name", "parent", "owner"], pool)?),
            VcKey::Pods => known(self.list(
                "StoragePod",
                &[
                    "name",
                    "parent",
                    "summary",
                    "podStorageDrsEntry",
                    "childEntity",
                ],
                pod,
            )?),
            VcKey::Datacenters => {
                let tree = self.tree()?;
                let dcs = tree.all(|t| t == "Datacenter");
                known(
                    dcs.into_iter()
                        .map(|(m, n)| json!({"moid": m, "name": decode_name(&n.name)}))
                        .collect(),
                )
            }
            VcKey::Task(m) => self.one("Task", m, &["info"], |_, t, f| {
                readable(f, t, |t| vm::task(&f.moid, &t["info"]))
            }),
            VcKey::Tasks => known(json!(self.tasks()?)),
            VcKey::About => known(self.session()?.about()),
            VcKey::Object { ty, moid, paths } => {
                let p: Vec<&str> = paths.iter().map(String::as_str).collect();
                self.one(ty, moid, &p, |_, t, _| Fact::Known(t))
            }
        }
    }

    /// The properties of one object; `Absent` if there is none.
    fn one(
        &mut self,
        ty: &str,
        moid: &str,
        paths: &[&str],
        make: impl FnOnce(&Tree, Value, &Found) -> Fact,
    ) -> Result<Fact, Failure> {
        let what = format!("read {ty} {moid}");
        let spec = Spec {
            ty: known_type(ty)?,
            paths: Some(paths.iter().map(|p| (*p).to_owned()).collect()),
        };
        match self.session()?.objects(&[format!("{ty}:{moid}")], spec) {
            Ok(found) => Ok(found
                .first()
                .map_or(Fact::Absent, |f| make(&Tree::default(), f.tree(), f))),
            Err(e) if e.is("ManagedObjectNotFound") => Ok(Fact::Absent),
            Err(e) => Err(e.failure(&what)),
        }
    }

    /// The tree of folders, datacenters, compute resources and hosts; read once per run.
    pub(crate) fn tree(&mut self) -> Result<Tree, Failure> {
        if self.tree.is_none() {
            let mut tree = Tree::default();
            self.session()?
                .collect(None, &place::specs(), &mut |f| {
                    let (f, t) = f.split();
                    tree.add(&f, &t);
                    Ok(())
                })
                .map_err(|e| e.failure("read the inventory's folders"))?;
            self.tree = Some(tree);
        }
        Ok(self.tree.clone().unwrap_or_default())
    }

    /// The one datacenter of that name.
    pub(crate) fn datacenter(&mut self, name: &str) -> Result<String, Failure> {
        let tree = self.tree()?;
        let mut found = tree.datacenters(name);
        match (found.pop(), found.is_empty()) {
            (Some(m), true) => Ok(m),
            (Some(_), false) => {
                let paths: Vec<String> = tree
                    .datacenters(name)
                    .iter()
                    .map(|m| format!("{} ({m})", tree.path(m)))
                    .collect();
                Err(Failure::new(
                    ErrorKind::Refused,
                    format!(
                        "unable to find datacenter {name}: several have that name: {}; give its moid",
                        paths.join(", ")
                    ),
                ))
            }
            (None, _) => {
                let all: Vec<String> = tree
                    .all(|t| t == "Datacenter")
                    .iter()
                    .map(|(_, n)| decode_name(&n.name))
                    .collect();
                let there = if all.is_empty() {
                    "this user can see none".to_owned()
                } else {
                    format!("there are {}", all.join(", "))
                };
                Err(Failure::new(
                    ErrorKind::NotFound,
                    format!(
                        "unable to find datacenter {name}: {there}; check the name, or the user's privileges on it"
                    ),
                ))
            }
        }
    }

    fn networks(&mut self, datacenter: Option<&str>) -> Result<Value, Failure> {
        let mut specs = vec![
            Spec::new(
                "DistributedVirtualSwitch",
                &["name", "parent", "uuid", "portgroup", "config"],
            ),
            Spec::new(
                "DistributedVirtualPortgroup",
                &["name", "parent", "key", "config", "tag"],
            ),
            Spec::new("OpaqueNetwork", &["name", "parent", "summary", "host"]),
            Spec::new("Network", &["name", "parent", "host"]),
            Spec::new(
                "HostSystem",
                &["name", "parent", "config.network.portgroup"],
            ),
        ];
        specs.extend(place::specs().into_iter().filter(|s| s.ty != "HostSystem"));
        let mut tree = Tree::default();
        let mut found: Vec<(Found, Value)> = vec![];
        self.session()?
            .collect(None, &specs, &mut |f| {
                let (f, t) = f.split();
                if matches!(f.ty.as_str(), "Folder" | "Datacenter" | "StoragePod")
                    || f.ty.ends_with("ComputeResource")
                {
                    tree.add(&f, &t);
                } else {
                    found.push((f, t));
                }
                Ok(())
            })
            .map_err(|e| e.failure("read the networks"))?;
        for (f, t) in found.iter().filter(|(f, _)| f.ty == "HostSystem") {
            tree.add(f, t);
        }
        if self.tree.is_none() {
            self.tree = Some(tree.clone());
        }
        let dc = datacenter.map(|d| self.datacenter(d)).transpose()?;
        let mut objects = vec![];
        for (f, props) in found {
            let up = moid_of(&props, "parent").unwrap_or_default();
            let datacenter = tree.datacenter(&up);
            if dc.is_none() || text(&datacenter, "moid") == dc.as_deref() {
                objects.push(networks::Object {
                    ty: f.ty,
                    moid: f.moid,
                    props,
                    datacenter,
                });
            }
        }
        Ok(networks::report(&objects))
    }

    /// All objects of a type, each made into its shape.
    fn list(
        &mut self,
        ty: &'static str,
        paths: &[&str],
        make: fn(&Tree, &Found, &Value) -> Value,
    ) -> Result<Value, Failure> {
        let tree = self.tree()?;
        let mut out = vec![];
        self.session()?
            .collect(None, &[Spec::new(ty, paths)], &mut |f| {
                let (f, t) = f.split();
                out.push(make(&tree, &f, &t));
                Ok(())
            })
            .map_err(|e| e.failure(&format!("read the {ty} objects")))?;
        Ok(Value::Array(out))
    }

    /// Clusters and standalone compute resources, and of the former whether DRS is on.
    fn clusters(&mut self) -> Result<Value, Failure> {
        let mut all = self.list(
            "ComputeResource",
            &["name", "parent", "resourcePool", "host", "datastore"],
            cluster,
        )?;
        let drs = self.list(
            "ClusterComputeResource",
            &["configuration.drsConfig.enabled"],
            |_, f, t| json!([f.moid, flag(t, "configuration.drsConfig.enabled")]),
        )?;
        for c in all.as_array_mut().into_iter().flatten() {
            let on = drs
                .as_array()
                .into_iter()
                .flatten()
                .any(|d| d[0] == c["moid"] && d[1] == true);
            c["drs"] = json!(on);
        }
        Ok(all)
    }

    fn hosts(&mut self) -> Result<Value, Failure> {
        let tree = self.tree()?;
        let mut found: Vec<(Found, Value)> = vec![];
        let mut pools: Vec<(String, Option<String>)> = vec![];
        let specs = [
            Spec::new(
                "HostSystem",
                &[
                    "name",
                    "parent",
                    "runtime.connectionState",
                    "runtime.inMaintenanceMode",
                    "runtime.powerState",
                    "datastore",
                ],
            ),
            Spec::new("ComputeResource", &["resourcePool"]),
        ];
        self.session()?
            .collect(None, &specs, &mut |f| {
                let (f, t) = f.split();
                if f.ty == "HostSystem" {
                    found.push((f, t));
                } else {
                    pools.push((f.moid, moid_of(&t, "resourcePool")));
                }
                Ok(())
            })
            .map_err(|e| e.failure("read the hosts"))?;
        let made = found.iter().map(|(f, t)| {
            let parent = moid_of(t, "parent");
            let cluster = parent.as_deref().and_then(|p| tree.get(p)).filter(|n| n.ty == "ClusterComputeResource");
            json!({
                "moid": f.moid,
                "name": decode_name(text(t, "name").unwrap_or("")),
                "datacenter": tree.datacenter(&f.moid)["name"],
                "parent": text(t, "parent").map(wsdl_ref),
                "cluster": cluster.map(|n| decode_name(&n.name)),
                "cluster_moid": cluster.and(parent.clone()),
                "connection": text(t, "runtime.connectionState"),
                "maintenance": flag(t, "runtime.inMaintenanceMode"),
                "power": text(t, "runtime.powerState"),
                "datastores": bare(t, "datastore"),
                "pool": pools.iter().find(|(m, _)| Some(m) == parent.as_ref()).and_then(|(_, p)| p.clone()),
            })
        });
        Ok(made.collect())
    }

    /// The unfinished of these tasks.
    pub(crate) fn running(&mut self, moids: &[String]) -> Result<Vec<Value>, Failure> {
        if moids.is_empty() {
            return Ok(vec![]);
        }
        let refs: Vec<String> = moids.iter().map(|m| format!("Task:{m}")).collect();
        let spec = Spec::new("Task", &["info"]);
        let found = match self.session()?.objects(&refs, spec.clone()) {
            Ok(f) => f,
            // Old tasks are forgotten by the server: then each on its own.
            Err(e) if e.is("ManagedObjectNotFound") => {
                let mut out = vec![];
                for r in &refs {
                    match self
                        .session()?
                        .objects(std::slice::from_ref(r), spec.clone())
                    {
                        Ok(f) => out.extend(f),
                        Err(e) if e.is("ManagedObjectNotFound") => {}
                        Err(e) => return Err(e.failure(&format!("read {r}"))),
                    }
                }
                out
            }
            Err(e) => return Err(e.failure("read the tasks")),
        };
        Ok(unfinished(&found))
    }

    fn tasks(&mut self) -> Result<Vec<Value>, Failure> {
        let Some(manager) = self.session()?.maybe_manager("taskManager") else {
            return Ok(vec![]);
        };
        let found = self
            .session()?
            .objects(&[manager], Spec::new("TaskManager", &["recentTask"]))
            .map_err(|e| e.failure("read the task list"))?;
        let t = found.first().map(Found::tree).unwrap_or_default();
        let moids: Vec<String> = refs(&t, "recentTask")
            .iter()
            .map(|r| moid(r).to_owned())
            .collect();
        self.running(&moids)
    }

    /// The names of custom fields by key; empty where they cannot be read.
    pub(crate) fn custom_fields(&mut self) -> Result<Map<String, Value>, Failure> {
        let Some(manager) = self.session()?.maybe_manager("customFieldsManager") else {
            return Ok(Map::new());
        };
        let found = match self
            .session()?
            .objects(&[manager], Spec::new("CustomFieldsManager", &["field"]))
        {
            Ok(f) => f,
            Err(CallError::Fault(_)) => vec![],
            Err(e) => return Err(e.failure("read the custom fields")),
        };
        let t = found.first().map(Found::tree).unwrap_or_default();
        let mut out = Map::new();
        for f in list(&t, "field") {
            let key = match f.get("key") {
                Some(Value::String(s)) => s.clone(),
                Some(v) => v.to_string(),
                None => continue,
            };
            out.insert(key, json!(text(f, "name")));
        }
        Ok(out)
    }
}

/// `&'static str` of a type that the schema knows (or of `VirtualApp`, which it does not).
fn known_type(ty: &str) -> Result<&'static str, Failure> {
    let unknown = || Failure::new(ErrorKind::Internal, format!("{ty} is no type of the API"));
    vsphere::schema::schema()
        .get(ty)
        .map(|t| t.name)
        .ok_or_else(unknown)
}

/// Nothing of it may be read.
pub(crate) fn hidden(f: &Found) -> bool {
    f.props.is_empty() && f.missing.iter().any(|(_, t)| t == "NoPermission")
}

fn readable(f: &Found, tree: Value, make: impl FnOnce(&Value) -> Value) -> Fact {
    if hidden(f) {
        Fact::Unreadable(format!(
            "{} {} may not be read: System.Read is missing on it",
            f.ty, f.moid
        ))
    } else {
        Fact::Known(make(&tree))
    }
}

fn bare(t: &Value, path: &str) -> Vec<String> {
    refs(t, path).iter().map(|r| moid(r).to_owned()).collect()
}

/// Those of these tasks that have not ended, as facts.
pub(crate) fn unfinished(tasks: &[Found]) -> Vec<Value> {
    let made = tasks.iter().map(|f| vm::task(&f.moid, &f.tree()["info"]));
    made.filter(|t| matches!(text(t, "state"), Some("queued" | "running")))
        .collect()
}

fn datastore(tree: &Tree, f: &Found, t: &Value) -> Value {
    let parent = moid_of(t, "parent");
    let pod = parent
        .as_deref()
        .and_then(|p| tree.get(p))
        .filter(|n| n.ty == "StoragePod");
    let dc = tree.datacenter(parent.as_deref().unwrap_or(""));
    let hosts: Vec<Value> = list(t, "host")
        .iter()
        .map(|h| {
            let mount = at(h, "mountInfo").unwrap_or(&Value::Null);
            json!({
                "moid": moid_at(h, "key"),
                "mode": text(mount, "accessMode"),
                // Unset counts as true (API, HostMountInfo).
                "mounted": at(mount, "mounted").and_then(Value::as_bool).unwrap_or(true),
                "accessible": at(mount, "accessible").and_then(Value::as_bool).unwrap_or(true),
            })
        })
        .collect();
    json!({
        "moid": f.moid,
        "name": decode_name(text(t, "name").unwrap_or("")),
        "datacenter": dc["name"],
        "datacenter_moid": dc["moid"],
        "pod": pod.map(|n| decode_name(&n.name)),
        "pod_moid": pod.and(parent.clone()),
        "type": text(t, "summary.type"),
        "accessible": flag(t, "summary.accessible"),
        "maintenance": text(t, "summary.maintenanceMode").unwrap_or("normal"),
        "capacity": int(t, "summary.capacity"),
        "free": int(t, "summary.freeSpace"),
        "multiple_hosts": at(t, "summary.multipleHostAccess"),
        "hosts": hosts,
    })
}

fn cluster(tree: &Tree, f: &Found, t: &Value) -> Value {
    json!({
        "moid": f.moid,
        "type": f.ty,
        "name": decode_name(text(t, "name").unwrap_or("")),
        "datacenter": tree.datacenter(&f.moid)["name"],
        "pool": moid_of(t, "resourcePool"),
        "hosts": bare(t, "host"),
        "datastores": bare(t, "datastore"),
    })
}

fn pool(tree: &Tree, f: &Found, t: &Value) -> Value {
    let owner = moid_of(t, "owner");
    json!({
        "moid": f.moid,
        "name": decode_name(text(t, "name").unwrap_or("")),
        "parent": text(t, "parent").map(wsdl_ref),
        "owner": text(t, "owner").map(wsdl_ref),
        "path": owner.as_deref().map(|o| tree.path(o)),
    })
}

fn pod(tree: &Tree, f: &Found, t: &Value) -> Value {
    json!({
        "moid": f.moid,
        "name": decode_name(text(t, "name").unwrap_or("")),
        "datacenter": tree.datacenter(&f.moid)["name"],
        "capacity": int(t, "summary.capacity"),
        "free": int(t, "summary.freeSpace"),
        "datastores": bare(t, "childEntity"),
        "sdrs": flag(t, "podStorageDrsEntry.storageDrsConfig.podConfig.enabled"),
    })
}
