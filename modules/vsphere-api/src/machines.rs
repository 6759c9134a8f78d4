//! Facts of machines: found by moid, name or uuid, listed, placed in the tree.

use crate::collect::{Found, Spec, moid_of, refs};
use crate::live::Live;
use crate::place::{self, Tree};
use crate::read::{hidden, unfinished};
use crate::soap::Call;
use plan::{ErrorKind, Fact, Failure};
use serde_json::{Value, json};
use vsphere::keys::VmBy;
use vsphere::path::{decode_name, same_name};
use vsphere::value::{at, flag, int, moid, moid_at, text};
use vsphere::vm::{self, PATHS, Place};

/// What one machine's name list needs.
const NAME_PATHS: &[&str] = &[
    "name",
    "parent",
    "parentVApp",
    "config.uuid",
    "config.instanceUuid",
    "config.template",
];

impl Live {
    /// Names of all machines: read once per run, together with the tree if that was not read yet.
    pub(crate) fn names(&mut self) -> Result<Vec<Value>, Failure> {
        if self.names.is_none() {
            let mut specs = vec![Spec::new("VirtualMachine", NAME_PATHS)];
            let with_tree = self.tree.is_none();
            if with_tree {
                specs.extend(place::specs());
            }
            let mut tree = Tree::default();
            let mut vms: Vec<(Found, Value)> = vec![];
            self.session()?
                .collect(None, &specs, &mut |f| {
                    let (f, t) = f.split();
                    if f.ty == "VirtualMachine" {
                        vms.push((f, t));
                    } else {
                        tree.add(&f, &t);
                    }
                    Ok(())
                })
                .map_err(|e| e.failure("read the names of the machines"))?;
            if with_tree {
                self.tree = Some(tree);
            }
            let mut out = vec![];
            for (f, t) in vms {
                let place = self.place(&t)?;
                out.push(json!({
                    "moid": f.moid,
                    "name": decode_name(text(&t, "name").unwrap_or("")),
                    "raw_name": text(&t, "name"),
                    "uuid": text(&t, "config.uuid"),
                    "instance_uuid": text(&t, "config.instanceUuid"),
                    "template": flag(&t, "config.template"),
                    "path": place.path,
                    "datacenter": place.datacenter,
                }));
            }
            self.names = Some(out);
        }
        Ok(self.names.clone().unwrap_or_default())
    }

    /// The folder of a machine that is in a vApp: that of the outermost vApp.
    fn vapp_folder(&mut self, vapp: &str) -> Result<Option<String>, Failure> {
        let mut at = vapp.to_owned();
        for _ in 0..32 {
            if let Some(f) = self.vapps.get(&at) {
                return Ok(f.clone());
            }
            let spec = Spec::new("VirtualApp", &["parentFolder", "parent"]);
            let found = match self.session()?.objects(&[format!("VirtualApp:{at}")], spec) {
                Ok(f) => f,
                Err(e) if e.fault().is_some() => vec![],
                Err(e) => return Err(e.failure(&format!("read vApp {at}"))),
            };
            let t = found.first().map(Found::tree).unwrap_or_default();
            if let Some(folder) = moid_of(&t, "parentFolder") {
                self.vapps.insert(vapp.to_owned(), Some(folder.clone()));
                return Ok(Some(folder));
            }
            match moid_of(&t, "parent") {
                Some(p) => at = p,
                None => break,
            }
        }
        self.vapps.insert(vapp.to_owned(), None);
        Ok(None)
    }

    /// Where a machine is.
    pub(crate) fn place(&mut self, props: &Value) -> Result<Place, Failure> {
        let mut folder = moid_of(props, "parent");
        if folder.is_none()
            && let Some(v) = moid_of(props, "parentVApp")
        {
            folder = self.vapp_folder(&v)?;
        }
        if self.tree.is_none() {
            self.tree()?;
        }
        let empty = Tree::default();
        let tree = self.tree.as_ref().unwrap_or(&empty);
        Ok(placed(tree, folder, moid_at(props, "runtime.host")))
    }

    pub(crate) fn vm(&mut self, by: &VmBy, datacenter: Option<&str>) -> Result<Fact, Failure> {
        let dc = datacenter.map(|d| self.datacenter(d)).transpose()?;
        let inside = |v: &Value| {
            dc.as_deref()
                .is_none_or(|d| text(v, "datacenter.moid") == Some(d))
        };
        let moid = match by {
            VmBy::Moid(m) => m.clone(),
            VmBy::Uuid(u) | VmBy::InstanceUuid(u) => {
                let instance = matches!(by, VmBy::InstanceUuid(_));
                let mut found = self.by_uuid(u, instance, dc.as_deref())?;
                match (found.pop(), found.is_empty()) {
                    (None, _) => return Ok(Fact::Absent),
                    (Some(m), true) => m,
                    (Some(m), false) => {
                        found.push(m);
                        let all: Vec<Value> = self
                            .names()?
                            .into_iter()
                            .filter(|n| {
                                text(n, "moid").is_some_and(|m| found.iter().any(|f| f == m))
                            })
                            .collect();
                        return Err(ambiguous(&format!("uuid {u}"), &all));
                    }
                }
            }
            VmBy::Name(name) => {
                let all: Vec<Value> = self
                    .names()?
                    .into_iter()
                    .filter(|n| {
                        inside(n) && text(n, "raw_name").is_some_and(|r| same_name(r, name))
                    })
                    .collect();
                match all.as_slice() {
                    [] => return Ok(Fact::Absent),
                    [one] => text(one, "moid").unwrap_or("").to_owned(),
                    several => return Err(ambiguous(&format!("name {name}"), several)),
                }
            }
        };
        // One query for the machine, its tasks and what it lies in. In two, a relocation that ends between them would be neither
        // running nor done, and a second one would be started.
        let spec = Spec::new("VirtualMachine", PATHS);
        let tasks = Spec::new("Task", &["info"]);
        let read = self.session()?.with_ancestors(
            &format!("VirtualMachine:{moid}"),
            spec,
            &[("recentTask", tasks), ("datastore", store_spec())],
        );
        let found = match read {
            Ok(f) => f,
            // A machine can vanish between its listing and its reading.
            Err(e) if e.is("ManagedObjectNotFound") => vec![],
            Err(e) => return Err(e.failure(&format!("read machine {moid}"))),
        };
        let (mut tasks, mut machine, mut above, mut stores) = (vec![], None, vec![], vec![]);
        for f in found {
            match f.ty.as_str() {
                "Task" => tasks.push(f),
                "Datastore" => {
                    let (f, t) = f.split();
                    stores.push(store(&f, &t));
                }
                "VirtualMachine" => machine = Some(f),
                _ => above.push(f),
            }
        }
        let Some(f) = machine else {
            return Ok(Fact::Absent);
        };
        let masked = hidden(&f);
        let (f, props) = f.split();
        if masked {
            return Ok(Fact::Unreadable(format!(
                "machine {moid} may not be read: System.Read is missing on it"
            )));
        }
        let place = self.place_above(&props, &above)?;
        let fact = fact(&f, &props, &place, json!(unfinished(&tasks)), &stores);
        if !inside(&fact) {
            return Ok(Fact::Absent);
        }
        Ok(Fact::Known(fact))
    }

    /// Where a machine is, from what was read above it; the whole tree is only read for one in a vApp, which has no folder itself.
    fn place_above(&mut self, props: &Value, above: &[Found]) -> Result<Place, Failure> {
        let Some(folder) = moid_of(props, "parent").filter(|_| self.tree.is_none()) else {
            return self.place(props);
        };
        let mut tree = Tree::default();
        let host = moid_at(props, "runtime.host").map(str::to_owned);
        let hosts = match &host {
            Some(h) => {
                let spec = Spec::new("HostSystem", &["name", "parent"]);
                match self
                    .session()?
                    .with_ancestors(&format!("HostSystem:{h}"), spec, &[])
                {
                    Ok(f) => f,
                    // Taken out of the inventory since, or not for this user's eyes.
                    Err(e) if e.is("ManagedObjectNotFound") || e.is("NoPermission") => vec![],
                    Err(e) => return Err(e.failure(&format!("read host {h}"))),
                }
            }
            None => vec![],
        };
        for f in above.iter().chain(&hosts).filter(|f| !hidden(f)) {
            tree.add(f, &f.tree());
        }
        Ok(placed(&tree, Some(folder), host.as_deref()))
    }

    fn by_uuid(
        &mut self,
        uuid: &str,
        instance: bool,
        dc: Option<&str>,
    ) -> Result<Vec<String>, Failure> {
        let index = self.session()?.manager("searchIndex")?;
        let mut params = vec![
            ("uuid".to_owned(), json!(uuid)),
            ("vmSearch".to_owned(), json!(true)),
            ("instanceUuid".to_owned(), json!(instance)),
        ];
        if let Some(d) = dc {
            params.push(("datacenter".to_owned(), json!(format!("Datacenter:{d}"))));
        }
        let call = Call {
            this: &index,
            method: "FindAllByUuid",
            params: &params,
            shown: None,
            long: false,
        };
        let found = self
            .session()?
            .patiently(&call)
            .map_err(|e| e.failure(&format!("find uuid {uuid}")))?;
        Ok(found
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|r| moid(r).to_owned())
            .collect())
    }

    pub(crate) fn vms(&mut self, datacenter: Option<&str>) -> Result<Vec<Value>, Failure> {
        let dc = datacenter.map(|d| self.datacenter(d)).transpose()?;
        let container = dc.map(|d| format!("Datacenter:{d}"));
        // What they lie in comes first, so that each becomes a fact as it streams in: as it was read it is many times larger.
        let mut above = vec![store_spec()];
        if self.tree.is_none() {
            above.extend(place::specs());
        }
        let mut tree = self.tree.take().unwrap_or_default();
        let mut stores: Vec<Value> = vec![];
        let mut out: Vec<Value> = vec![];
        // Machines in vApps need one more query each vApp, which cannot be sent while the stream is read.
        let mut later: Vec<(usize, Found, Value)> = vec![];
        let machines = [Spec::new("VirtualMachine", PATHS)];
        self.session()?
            .collect_in_turn(container.as_deref(), &[&above, &machines], &mut |f| {
                let (f, t) = f.split();
                match (f.ty.as_str(), moid_of(&t, "parent")) {
                    ("VirtualMachine", None) => {
                        later.push((out.len(), f, t));
                        out.push(Value::Null);
                    }
                    ("VirtualMachine", folder) => {
                        let place = placed(&tree, folder, moid_at(&t, "runtime.host"));
                        out.push(fact(&f, &t, &place, Value::Null, &stores));
                    }
                    ("Datastore", _) => stores.push(store(&f, &t)),
                    _ => tree.add(&f, &t),
                }
                Ok(())
            })
            .map_err(|e| e.failure("read the machines"))?;
        self.tree = Some(tree);
        for (at, f, t) in later {
            let place = self.place(&t)?;
            out[at] = fact(&f, &t, &place, Value::Null, &stores);
        }
        Ok(out)
    }
}

/// The fact, with the datastores of the machine among `stores`.
fn fact(f: &Found, props: &Value, place: &Place, tasks: Value, stores: &[Value]) -> Value {
    let unreadable: Vec<String> = f.missing.iter().map(|(p, _)| p.clone()).collect();
    let mut v = vm::fact(&f.moid, props, place, tasks, &unreadable);
    let its = refs(props, "datastore");
    v["datastore_states"] = stores
        .iter()
        .filter(|s| its.iter().any(|r| Some(moid(r)) == text(s, "moid")))
        .cloned()
        .collect();
    v
}

fn store_spec() -> Spec {
    Spec::new("Datastore", &["name", "summary"])
}

/// `{moid, name, accessible, maintenance, capacity, free}`, bytes; `accessible` is null where it cannot be read.
fn store(f: &Found, t: &Value) -> Value {
    json!({
        "moid": f.moid,
        "name": decode_name(text(t, "name").unwrap_or("")),
        "accessible": at(t, "summary.accessible"),
        "maintenance": text(t, "summary.maintenanceMode").unwrap_or("normal"),
        "capacity": int(t, "summary.capacity"),
        "free": int(t, "summary.freeSpace"),
    })
}

fn placed(tree: &Tree, folder: Option<String>, host: Option<&str>) -> Place {
    let compute = host
        .and_then(|h| tree.get(h))
        .and_then(|n| n.parent.clone());
    let up = folder.as_deref().or(host);
    Place {
        path: folder.as_deref().map(|f| tree.path(f)).unwrap_or_default(),
        datacenter: up.map_or(Value::Null, |m| tree.datacenter(m)),
        host: tree.named(host),
        cluster: tree.named(compute.as_deref()),
    }
}

fn ambiguous(by: &str, all: &[Value]) -> Failure {
    let l: Vec<String> = all
        .iter()
        .map(|n| {
            format!(
                "{} in {} (uuid {})",
                text(n, "moid").unwrap_or("?"),
                text(n, "path").unwrap_or("?"),
                text(n, "uuid").unwrap_or("unknown")
            )
        })
        .collect();
    Failure::new(
        ErrorKind::Refused,
        format!(
            "unable to choose a machine by {by}: {} match: {}; give moid or datacenter",
            all.len(),
            l.join(", ")
        ),
    )
    .with("matches", all.to_vec())
}
