//! A hand-made vCenter for planner tests: it serves facts, believes what is sent, and fails on a key that nobody gave it.
#![allow(dead_code)]

use plan::{
    Dry, ErrorKind, Fact, Facts, Failure, Key, MemoryLedger, Module, Report, Request, RunOptions,
    Sent, Step, Wait, World, run,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vsphere::keys::{VcKey, VmBy};

/// Facts by key, and what was read.
#[derive(Clone, Default)]
pub struct Site {
    pub facts: BTreeMap<Key, Fact>,
    pub read: Vec<Key>,
    pub ledger: MemoryLedger,
    /// What the next send ends with.
    pub fail: Option<Failure>,
    /// What the server says of any relocation beforehand; without it the server cannot be asked.
    pub check: Option<Fact>,
    /// What Storage DRS says of any placement.
    pub placement: Option<Fact>,
}

struct Live<'a>(&'a mut Site);

impl World for Live<'_> {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        self.0.read.push(key.clone());
        match self.0.facts.get(key) {
            Some(f) => Ok(f.clone()),
            None if matches!(VcKey::parse(key), Some(VcKey::RelocateCheck { .. })) => {
                Ok(self.0.check.clone().unwrap_or(Fact::Absent))
            }
            None if matches!(VcKey::parse(key), Some(VcKey::Placement { .. }))
                && self.0.placement.is_some() =>
            {
                Ok(self.0.placement.clone().unwrap_or(Fact::Absent))
            }
            None => panic!("the planner asked for {key}, which this test did not give"),
        }
    }
    fn settle(&mut self, _: &Wait) -> Result<(), Failure> {
        unreachable!("no test waits in earnest")
    }
    fn send(&mut self, step: &Step, _: &[Value]) -> Result<Sent, Failure> {
        match self.0.fail.take() {
            Some(f) => Err(f),
            None => {
                for e in &step.effects {
                    self.0.facts.insert(e.key().clone(), e.fact());
                }
                Ok(Sent::answer(json!("task-1")))
            }
        }
    }
    fn undo(&mut self, _: &Request, _: &[Value]) -> Result<(), Failure> {
        unreachable!("nothing is undone")
    }
    fn forget(&mut self, _: &[Key]) {}
    fn pause(&mut self, _: f64) {}
}

fn options() -> RunOptions {
    RunOptions {
        diff: true,
        ..RunOptions::default()
    }
}

impl Site {
    pub fn new() -> Site {
        let mut s = Site::default();
        s.put(VcKey::VmNames, json!([]));
        s.put(VcKey::About, json!({"apiType": "VirtualCenter"}));
        s
    }

    pub fn put(&mut self, key: VcKey, value: Value) -> &mut Self {
        self.fact(key, Fact::Known(value))
    }

    pub fn fact(&mut self, key: VcKey, fact: Fact) -> &mut Self {
        self.facts.insert(key.key(), fact);
        self
    }

    pub fn absent(&mut self, key: VcKey) -> &mut Self {
        self.fact(key, Fact::Absent)
    }

    /// A running machine with Tools, found by moid, name and uuid; `more` replaces keys of its fact.
    pub fn vm(&mut self, moid: &str, name: &str, more: Value) -> &mut Self {
        let n: u32 = moid.trim_start_matches("vm-").parse().unwrap();
        let uuid = format!("564d0000-0000-0000-0000-{n:012}");
        let mut v = json!({
            "moid": moid, "name": name, "raw_name": name, "path": "/DC0/vm", "datacenter": {"moid": "datacenter-1", "name": "DC0"},
            "host": {"moid": "host-1", "name": "esx1"}, "cluster": {"moid": "domain-c1", "name": "C1"}, "resource_pool": "resgroup-1", "in_vapp": false,
            "uuid": uuid, "instance_uuid": format!("5012-{n}"), "template": false, "annotation": "", "firmware": "bios",
            "power": "poweredOn", "connection": "connected", "question": null, "consolidation_needed": false, "fault_tolerance": null, "encrypted": false,
            "tools": {"running": "guestToolsRunning", "version": "guestToolsCurrent", "installer_mounted": false},
            "guest": {"state": "running"}, "nics": [], "disks": [], "devices": [], "snapshots": [], "vmx": null, "files": [],
            "datastores": [], "disabled_methods": [], "running_tasks": [], "has_config": true, "unreadable": [],
        });
        for (k, x) in more.as_object().unwrap() {
            v[k] = x.clone();
        }
        let keys = [
            VmBy::Moid(moid.into()),
            VmBy::Name(name.into()),
            VmBy::Uuid(uuid.clone()),
        ];
        for by in keys {
            self.put(
                VcKey::Vm {
                    by,
                    datacenter: None,
                },
                v.clone(),
            );
        }
        let mut names = self.facts[&VcKey::VmNames.key()].known().cloned().unwrap();
        names.as_array_mut().unwrap().push(
            json!({"moid": moid, "name": name, "raw_name": name, "uuid": uuid, "path": v["path"], "datacenter": "DC0", "template": v["template"]}),
        );
        self.put(VcKey::VmNames, names)
    }

    /// Changes a machine wherever it stands.
    pub fn edit(&mut self, moid: &str, f: impl Fn(&mut Value)) -> &mut Self {
        for fact in self.facts.values_mut() {
            if let Fact::Known(v) = fact
                && v.is_object()
                && v["moid"] == moid
                && v["has_config"].is_boolean()
            {
                f(v);
            }
        }
        self
    }

    pub fn machine(&self, moid: &str) -> Value {
        self.facts[&VcKey::vm(moid)].known().cloned().unwrap()
    }

    /// Runs a module with these arguments in check mode; its effects stay in the ledger.
    pub fn check(&mut self, module: &str, args: Value) -> Report {
        self.check_module(make(module, args).as_ref())
    }

    pub fn check_module(&mut self, m: &dyn Module) -> Report {
        let mut ledger = std::mem::take(&mut self.ledger);
        let mut live = Live(self);
        let report = run(
            &mut Dry::new(&mut live, &mut ledger, vsphere::overlay),
            m,
            &options(),
        );
        self.ledger = ledger;
        report
    }

    /// Runs it in earnest against this hand-made world.
    pub fn apply(&mut self, module: &str, args: Value) -> Report {
        let m = make(module, args);
        run(&mut Live(self), m.as_ref(), &options())
    }

    /// All facts that a module asks for.
    pub fn gather(&mut self, m: &dyn Module) -> Facts {
        let mut facts = Facts::new();
        loop {
            let new: Vec<Key> = m
                .needs(&facts)
                .into_iter()
                .filter(|k| !facts.has(k))
                .collect();
            if new.is_empty() {
                return facts;
            }
            for k in new {
                let f = Live(self).read(&k).unwrap();
                facts.put(k, f);
            }
        }
    }

    /// Runs it twice; the second must be unchanged (P4), and a run from the same start must plan the same (P5).
    pub fn converges(&mut self, module: &str, args: Value) -> Report {
        let mut twin = self.clone();
        let first = self.check(module, args.clone());
        assert!(!first.is_failed(), "{:#?}", first.keys);
        assert!(
            !first
                .keys
                .get("warnings")
                .is_some_and(|w| w.to_string().contains("foreseen")),
            "{:#?}",
            first.keys
        );
        let again = self.check(module, args.clone());
        assert_eq!(
            again.keys["changed"],
            json!(false),
            "second run: {:#?}",
            again.keys
        );
        assert_eq!(again.keys["plan"], json!([]));
        assert_eq!(first.keys, twin.check(module, args).keys);
        first
    }

    pub fn args_error(&self, module: &str, args: Value) -> String {
        match try_make(module, args) {
            Ok(_) => panic!("the arguments were accepted"),
            Err(e) => e,
        }
    }
}

pub fn try_make(module: &str, args: Value) -> Result<Box<dyn Module>, String> {
    let def = planners::find(module).unwrap();
    let Value::Object(mut o) = args else {
        panic!("an object")
    };
    o.insert("hostname".into(), json!("vcenter"));
    let join = |e: Vec<spec::ArgError>| {
        e.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let args = spec::parse(def.spec, &o, &|_| None).map_err(join)?;
    (def.make)(&args).map_err(join)
}

pub fn make(module: &str, args: Value) -> Box<dyn Module> {
    match try_make(module, args) {
        Ok(m) => m,
        Err(e) => panic!("{e}"),
    }
}

pub fn steps(r: &Report) -> Vec<Value> {
    match r.keys.get("plan") {
        Some(Value::Array(a)) => a.clone(),
        _ => panic!("no plan: {:#?}", r.keys),
    }
}

pub fn only_step(r: &Report) -> Value {
    let all = steps(r);
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}

pub fn failure(r: &Report, kind: ErrorKind) -> String {
    assert!(r.is_failed(), "{:#?}", r.keys);
    assert_eq!(r.keys["error_kind"], kind.as_str(), "{:#?}", r.keys);
    r.keys["msg"].as_str().unwrap().to_owned()
}
