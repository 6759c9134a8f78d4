//! `vsphere_relocate`: a virtual machine's files, disks and place to run, moved where asked.

mod check;
mod place;
mod pod;
mod predict;
mod table;

pub use table::DEF;

use crate::look::{self, Look, Stop, Think};
use crate::vsphere_target::{self as vt, Names, Target};
use place::Goal;
use plan::{Await, Effect, Facts, Key, Module, Outcome, Plan, Refusal, Wait};
use serde_json::{Map, Value, json};
use spec::{ArgError, Args};
use vsphere::keys::VcKey;
use vsphere::value::{int, list, text};

/// The operation of a task that moves a machine; the same in all locales.
const RELOCATE: &str = "VirtualMachine.relocate";

/// Where one disk shall lie.
struct DiskWish {
    key: Option<i64>,
    label: Option<String>,
    datastore: String,
}

/// What the task asks for, by name.
struct Wanted {
    host: Option<String>,
    cluster: Option<String>,
    datastore: Option<String>,
    pod: Option<String>,
    datacenter: Option<String>,
    pool: Option<String>,
    disks: Vec<DiskWish>,
    /// `None`: each disk keeps its own.
    thin: Option<bool>,
}

struct Relocate {
    target: Target,
    wanted: Wanted,
    timeout_s: u64,
    wait: bool,
    max_running: Option<usize>,
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let own = |n: &str| a.str(n).map(str::to_owned);
    let mut errors = vec![];
    let mut disks = vec![];
    for (i, d) in a.list("disks").into_iter().flatten().enumerate() {
        let (key, label) = (int(d, "key"), text(d, "label"));
        if key.is_some() == label.is_some() {
            errors.push(ArgError {
                path: format!("disks[{i}]"),
                value: None,
                msg: "name the disk by key or by label, one of the two".into(),
            });
        }
        disks.push(DiskWish {
            key,
            label: label.map(str::to_owned),
            datastore: text(d, "datastore").unwrap_or("").to_owned(),
        });
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let names = Names {
        name: "vm_name",
        uuid: "vm_uuid",
    };
    Ok(Box::new(Relocate {
        target: Target::new(a, &names, "relocate"),
        wanted: Wanted {
            host: own("destination_host"),
            cluster: own("destination_cluster"),
            datastore: own("destination_datastore"),
            pod: own("destination_datastore_cluster"),
            datacenter: own("destination_datacenter"),
            pool: own("destination_resourcepool"),
            disks,
            thin: match a.str("disk_format") {
                Some("thin") => Some(true),
                Some("thick") => Some(false),
                _ => None,
            },
        },
        timeout_s: a
            .int("timeout")
            .and_then(|t| t.try_into().ok())
            .unwrap_or(3600),
        wait: a.bool("wait").unwrap_or(true),
        max_running: a.int("max_running").and_then(|n| n.try_into().ok()),
    }))
}

fn is_relocate(task: &Value) -> bool {
    text(task, "operation") == Some(RELOCATE)
}

fn store_ref(v: &Value) -> Value {
    json!(format!("Datastore:{}", text(v, "moid").unwrap_or("")))
}

impl Relocate {
    /// The VirtualMachineRelocateSpec. For a move of files alone neither host nor pool is sent, so that both are kept.
    /// Source: docs/vsphere-facts.md section 3.
    fn spec(&self, goal: &Goal<'_>) -> Value {
        let mut spec = Map::new();
        let home = goal.home.filter(|_| goal.home_moves);
        if let Some(h) = home {
            spec.insert("datastore".into(), store_ref(h));
        }
        let mut locators = vec![];
        for g in &goal.disks {
            // With a datastore for the machine, a disk without a locator goes there too.
            let goes_along = match (home, g.to) {
                (Some(h), Some(t)) => h["moid"] == t["moid"],
                (Some(_), None) => false,
                (None, _) => !g.moves,
            };
            let formatted = g.moves && self.wanted.thin.is_some();
            if goes_along && !formatted {
                continue;
            }
            let mut l = Map::new();
            l.insert("diskId".into(), g.disk["key"].clone());
            l.insert(
                "datastore".into(),
                g.to.map_or_else(
                    || {
                        json!(format!(
                            "Datastore:{}",
                            text(g.disk, "datastore_moid").unwrap_or("")
                        ))
                    },
                    store_ref,
                ),
            );
            if let Some(thin) = self.wanted.thin.filter(|_| formatted) {
                // Of this backing only the format counts. Source: docs/vsphere-facts.md section 3.
                l.insert(
                    "diskBackingInfo".into(),
                    json!({
                        "_type": "VirtualDiskFlatVer2BackingInfo",
                        "fileName": "",
                        "diskMode": g.disk["mode"],
                        "thinProvisioned": thin,
                        "eagerlyScrub": false,
                    }),
                );
            }
            locators.push(Value::Object(l));
        }
        if !locators.is_empty() {
            spec.insert("disk".into(), json!(locators));
        }
        if let Some(h) = goal.host {
            spec.insert(
                "host".into(),
                json!(format!("HostSystem:{}", text(h, "moid").unwrap_or(""))),
            );
        }
        if let Some(p) = goal.pool {
            spec.insert(
                "pool".into(),
                json!(format!("ResourcePool:{}", text(p, "moid").unwrap_or(""))),
            );
        }
        Value::Object(spec)
    }

    fn after(&self, vm: &Value, goal: &Goal<'_>) -> Value {
        predict::predict(vm, goal, self.wanted.thin)
    }

    /// A relocation that runs on this machine is joined; what check mode assumes afterwards is what was asked for.
    fn join(&self, look: &Look<'_>, vm: &Value, task: &Value) -> Result<Stop, Stop> {
        let free = vt::without_task(vm, task);
        let mut unsaid = Plan::empty();
        let after = place::goal(&self.wanted, &self.target, look, vm).and_then(|goal| {
            let thin = self.wanted.thin;
            check::check(&self.target, look, &free, &goal, thin, &mut unsaid)?;
            Ok(self.after(&free, &goal))
        });
        let after = match after {
            Ok(after) => after,
            Err(Stop::Missing) => return Err(Stop::Missing),
            // It is refused after the wait, alike in both worlds.
            Err(_) => free,
        };
        Ok(vt::wait_for(&self.target, vm, task, self.timeout_s, true, &after).into())
    }

    /// Waits while too many relocations run; one that ends lets everything be looked at again.
    fn throttle(&self, look: &Look<'_>, vm: &Value) -> Result<(), Stop> {
        let Some(max) = self.max_running else {
            return Ok(());
        };
        let key = VcKey::Tasks;
        let Some(fact) = look.aux(&key, "how many relocations run")? else {
            return Ok(());
        };
        let all: &[Value] = match fact.known() {
            Some(Value::Array(a)) => a,
            _ => &[],
        };
        let mut running: Vec<&Value> = all
            .iter()
            .filter(|t| is_relocate(t) && t["entity"] != vt::path(vm).as_str())
            .filter(|t| matches!(text(t, "state"), Some("running" | "queued")))
            .collect();
        if running.len() < max {
            return Ok(());
        }
        // The one that ends first, as far as one can see.
        running.sort_by_key(|t| {
            (
                -int(t, "progress").unwrap_or(-1),
                text(t, "moid").map(str::to_owned),
            )
        });
        let first = running[0];
        let moid = text(first, "moid").unwrap_or("").to_owned();
        let rest: Vec<&Value> = all.iter().filter(|t| t["moid"] != first["moid"]).collect();
        Err(Wait {
            what: format!(
                "task {moid} ({RELOCATE}) of VM {}, since {} relocations run and max_running is {max}",
                text(first, "entity_name").unwrap_or("?"),
                running.len()
            ),
            joins: false,
            key: VcKey::Task(moid).key(),
            pointer: "/state".into(),
            equals: json!("success"),
            timeout_s: self.timeout_s,
            assume: vec![Effect::Put(key.key(), json!(rest))],
            stale: vec![key.key()],
        }
        .into())
    }

    /// What the server says beforehand, where it can be asked: it knows more than we do (CPUs, licences, rules).
    fn ask(&self, look: &Look<'_>, vm: &Value, spec: &Value, plan: &mut Plan) -> Result<(), Stop> {
        let key = VcKey::RelocateCheck {
            vm: text(vm, "moid").unwrap_or("").to_owned(),
            spec: spec.to_string(),
        };
        let fact = look.aux(&key, "whether vCenter finds anything against it")?;
        let Some(said) = fact.and_then(|f| f.known()) else {
            return Ok(());
        };
        let texts = |k: &str| list(said, k).iter().filter_map(Value::as_str);
        let errors: Vec<&str> = texts("errors").map(|e| e.trim_end_matches('.')).collect();
        if !errors.is_empty() {
            let why = format!(
                "vCenter's check says: {}; mend that, or choose another place",
                errors.join("; ")
            );
            return Err(self.target.refusal(why).into());
        }
        plan.warnings
            .extend(texts("warnings").map(|w| format!("vCenter's check warns: {w}")));
        Ok(())
    }

    fn why(&self, goal: &Goal<'_>) -> String {
        let name = |v: &Value| text(v, "name").unwrap_or("").to_owned();
        let mut parts = vec![];
        if let Some(h) = goal.home.filter(|_| goal.home_moves) {
            parts.push(format!("its own files to {}", name(h)));
        }
        for g in goal.disks.iter().filter(|g| g.moves) {
            let to = g.to.map(name).unwrap_or_default();
            parts.push(format!(
                "{} to {to}",
                text(g.disk, "label").unwrap_or("a disk")
            ));
        }
        if let Some(h) = goal.host {
            parts.push(format!("it to host {}", name(h)));
        }
        if let Some(c) = goal.drs {
            parts.push(format!("it to cluster {}", name(c)));
        }
        if let Some(p) = goal.pool {
            parts.push(format!("it to resource pool {}", name(p)));
        }
        format!("move {}", parts.join(", "))
    }
}

impl Think for Relocate {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let vm = self.target.find(look)?;
        let mut plan = Plan::empty();
        let running = vt::running(vm);
        if let Some(task) = running.iter().find(|t| is_relocate(t)) {
            if self.wait {
                return Err(self.join(look, vm, task)?);
            }
            plan.warnings.push(format!(
                "a relocation of VM {} is running already (task {}): it is not joined, since wait is false, and no second one is started",
                vt::title(vm),
                text(task, "moid").unwrap_or("")
            ));
            return Ok(plan);
        }
        let goal = place::goal(&self.wanted, &self.target, look, vm)?;
        if goal.is_reached() {
            return Ok(plan);
        }
        if let Some(task) = running.first() {
            let after = vt::without_task(vm, task);
            return Err(vt::wait_for(&self.target, vm, task, self.timeout_s, false, &after).into());
        }
        if let Some(about) = look.aux(&VcKey::About, "what kind of server this is")?
            && about.known().and_then(|a| text(a, "apiType")) == Some("HostAgent")
        {
            let why = "this is a standalone host, and only a vCenter moves machines; add the host to one, or copy the files while it is off";
            return Err(self.target.refusal(why).into());
        }
        check::check(&self.target, look, vm, &goal, self.wanted.thin, &mut plan)?;
        plan.warnings.extend(goal.notes.iter().cloned());
        self.throttle(look, vm)?;
        let spec = self.spec(&goal);
        self.ask(look, vm, &spec, &mut plan)?;
        let mut step = vt::step(vm, "RelocateVM_Task", &[("spec", spec)], self.why(&goal))
            .effect(vt::put(&self.after(vm, &goal)));
        if self.wait {
            step = step.wait(Await::Task {
                timeout_s: self.timeout_s,
            });
        } else {
            step = step.wait(Await::NoWait).effect(Effect::Put(
                vt::unwaited(text(vm, "moid").unwrap_or("")),
                json!(true),
            ));
        }
        plan.push(step);
        Ok(plan)
    }
}

impl Module for Relocate {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        vec![self.target.key()]
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        self.target.subject(facts)
    }

    /// Datastores only: folders and files are named by the server. Host, cluster and pool only where they were asked for,
    /// since DRS may move the machine at any moment.
    fn view(&self, facts: &Facts) -> Value {
        let Some(vm) = self.target.in_facts(facts) else {
            return Value::Null;
        };
        let running = facts.has(vt::unwaited(text(vm, "moid").unwrap_or("")));
        let show = |v: Value| {
            if running { json!(vt::STILL_RUNNING) } else { v }
        };
        let mut v = Map::new();
        v.insert("name".into(), vm["name"].clone());
        v.insert("datastore".into(), show(json!(text(vm, "vmx.datastore"))));
        let disks: Map<String, Value> = list(vm, "disks")
            .iter()
            .map(|d| {
                (
                    format!("{} ({})", text(d, "label").unwrap_or(""), d["key"]),
                    show(d["datastore"].clone()),
                )
            })
            .collect();
        v.insert("disks".into(), Value::Object(disks));
        if self.wanted.host.is_some() {
            v.insert("host".into(), show(json!(text(vm, "host.name"))));
        }
        if self.wanted.cluster.is_some() {
            v.insert("cluster".into(), show(json!(text(vm, "cluster.name"))));
        }
        if self.wanted.pool.is_some() {
            v.insert("resource_pool".into(), show(vm["resource_pool"].clone()));
        }
        Value::Object(v)
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let before = self.target.in_facts(o.before).unwrap_or(&Value::Null);
        let vm = self.target.in_facts(o.after).unwrap_or(before);
        let disks: Vec<Value> = list(vm, "disks")
            .iter()
            .map(|d| {
                let old = list(before, "disks").iter().find(|b| b["key"] == d["key"]);
                json!({
                    "key": d["key"],
                    "label": d["label"],
                    "path_before": old.map(|b| b["path"].clone()),
                    "path": d["path"],
                    "datastore": d["datastore"],
                    "bytes": d["bytes"],
                })
            })
            .collect();
        // `task task-7 (VirtualMachine.relocate) of VM ...`: the one that was joined last.
        let joined = o.joined.last().and_then(|w| w.split(' ').nth(1));
        let going_on = vt::running(before)
            .into_iter()
            .find(|t| is_relocate(t))
            .filter(|_| !self.wait);
        let task = match (vt::task_of(o.answers.first()), joined, going_on) {
            (Value::String(t), ..) => json!(t),
            (_, Some(t), _) if o.plan.steps.is_empty() => json!(t),
            (_, _, Some(t)) => t["moid"].clone(),
            _ => Value::Null,
        };
        let datastore = text(vm, "vmx.datastore");
        let what = match (o.changed, self.wait) {
            (true, true) => "relocated",
            (true, false) => "is being relocated",
            (false, _) => "lies where asked already",
        };
        let what = if going_on.is_some() {
            "is being relocated already"
        } else {
            what
        };
        let mut m = Map::new();
        m.insert("msg".into(), json!(format!("VM {} {what}", vt::title(vm))));
        m.insert("running_host".into(), json!(text(vm, "host.name")));
        m.insert("datastore".into(), json!(datastore));
        m.insert("moid".into(), vm["moid"].clone());
        m.insert("task".into(), task);
        m.insert("disks".into(), json!(disks));
        m
    }

    fn title(&self) -> String {
        format!("place of {}", self.target.named())
    }
}
