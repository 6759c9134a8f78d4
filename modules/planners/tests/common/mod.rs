//! A hand-made world for planner tests: it serves facts, sends nothing, and fails on a key that nobody gave it.
#![allow(dead_code)]

use plan::{
    Dry, Fact, Failure, Key, MemoryLedger, Module, Report, Request, RunOptions, Sent, Step, Wait,
    World, run,
};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Facts by key, and what was read.
#[derive(Clone, Default)]
pub struct Site {
    pub facts: BTreeMap<Key, Fact>,
    pub read: Vec<Key>,
    pub ledger: MemoryLedger,
}

struct Live<'a>(&'a mut Site);

impl World for Live<'_> {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        self.0.read.push(key.clone());
        match self.0.facts.get(key) {
            Some(f) => Ok(f.clone()),
            // Every bridge may be seen unless a test says otherwise.
            None if key
                .as_str()
                .starts_with("pve/perms/%2Fsdn%2Fzones%2Flocalnetwork%2F") =>
            {
                Ok(Fact::Known(json!({"SDN.Audit": 1})))
            }
            None => panic!("the planner asked for {key}, which this test did not give"),
        }
    }
    fn settle(&mut self, _: &Wait) -> Result<(), Failure> {
        unreachable!("Dry does not settle its live world")
    }
    fn send(&mut self, _: &Step, _: &[Value]) -> Result<Sent, Failure> {
        unreachable!("Dry sends nothing")
    }
    fn undo(&mut self, _: &Request, _: &[Value]) -> Result<(), Failure> {
        unreachable!("Dry undoes nothing")
    }
    fn forget(&mut self, _: &[Key]) {}
    fn pause(&mut self, _: f64) {}
}

impl Site {
    /// A cluster of two nodes with bridges, storages and a root login; no guests.
    pub fn new() -> Site {
        let mut s = Site::default();
        s.put(
            PveKey::Nodes,
            json!([{"node": "pve1", "status": "online"}, {"node": "pve2", "status": "online"}]),
        );
        s.put(PveKey::Guests, json!([]));
        s.put(
            PveKey::WhoAmI,
            json!({"user": "root@pam", "token": null, "root_login": true}),
        );
        s.put(PveKey::ClusterOptions, json!({}));
        s.put(PveKey::NextId, json!(100));
        s.put(PveKey::Pools, json!([{"poolid": "testpool"}]));
        s.put(PveKey::HaResources, json!([]));
        s.put(
            PveKey::SdnVnets,
            json!({"entries": [{"vnet": "v100", "zone": "z1", "tag": 100}], "digest": ""}),
        );
        s.put(PveKey::Perms("/vms".into()), json!({"VM.Audit": 1}));
        for node in ["pve1", "pve2"] {
            s.put(
                PveKey::Bridges(node.into()),
                json!(["vmbr0", "vmbr1", "v100"]),
            );
            s.put(
                PveKey::Storages(node.into()),
                json!([
                    {"storage": "local", "type": "dir", "content": ["images", "iso", "import", "snippets"], "enabled": true, "active": true, "shared": false},
                    {"storage": "lvm", "type": "lvmthin", "content": ["images"], "enabled": true, "active": true, "shared": false},
                    {"storage": "isoonly", "type": "dir", "content": ["iso"], "enabled": true, "active": true, "shared": false},
                    {"storage": "off", "type": "dir", "content": ["images"], "enabled": false, "active": false, "shared": false},
                ]),
            );
            s.put(
                PveKey::Perms(format!("/nodes/{node}")),
                json!({"Sys.Audit": 1}),
            );
            s.put(
                PveKey::Volumes { node: node.into(), storage: "local".into(), content: "iso".into(), vmid: None },
                json!([{"volid": "local:iso/test.iso", "format": "iso", "size": 358400, "content": "iso"}]),
            );
        }
        s
    }

    pub fn put(&mut self, key: PveKey, value: Value) -> &mut Self {
        self.facts.insert(key.key(), Fact::Known(value));
        self
    }

    pub fn fact(&mut self, key: PveKey, fact: Fact) -> &mut Self {
        self.facts.insert(key.key(), fact);
        self
    }

    /// A free id, with no volumes lying about.
    pub fn free(&mut self, vmid: u32) -> &mut Self {
        self.fact(PveKey::Guest(vmid), Fact::Absent);
        self.put(PveKey::IdFree(vmid), json!(true));
        self.put(PveKey::GuestTasks(vmid), json!([]));
        for node in ["pve1", "pve2"] {
            for storage in ["local", "lvm"] {
                self.put(
                    PveKey::Volumes {
                        node: node.into(),
                        storage: storage.into(),
                        content: "images".into(),
                        vmid: Some(vmid),
                    },
                    json!([]),
                );
            }
        }
        self
    }

    /// A stopped guest on pve1.
    pub fn guest(&mut self, vmid: u32, config: Value) -> &mut Self {
        self.free(vmid);
        let name = config.get("name").cloned().unwrap_or(Value::Null);
        self.put(
            PveKey::Guest(vmid),
            json!({"vmid": vmid, "node": "pve1", "type": "qemu", "config": config, "current": config, "pending": {}, "digest": "d1g35t", "template": config.get("template") == Some(&json!(1))}),
        );
        self.put(
            PveKey::GuestStatus(vmid),
            json!({"status": "stopped", "uptime": 0, "ha": {"managed": 0}}),
        );
        // The volumes that it names are there.
        for (key, value) in config.as_object().into_iter().flatten() {
            let Some(volid) = value.as_str().and_then(|v| v.split(',').next()) else {
                continue;
            };
            let disk = ["scsi", "sata", "ide", "virtio", "efidisk", "tpmstate"]
                .iter()
                .any(|b| key.starts_with(b) && key != "scsihw");
            if disk && volid.contains(':') {
                for node in ["pve1", "pve2"] {
                    let key = PveKey::Volume {
                        node: node.into(),
                        volid: volid.into(),
                    };
                    let size = value
                        .as_str()
                        .and_then(|v| v.split("size=").nth(1)?.split(',').next());
                    let size = size.and_then(pve::size::parse_size).unwrap_or(1 << 30);
                    if !self.facts.contains_key(&key.key()) {
                        self.put(key, json!({"size": size}));
                    }
                }
            }
        }
        self.put(PveKey::Replication(vmid), json!([]));
        self.put(PveKey::Snapshots(vmid), json!([]));
        self.put(PveKey::IdFree(vmid), json!(false));
        let mut all = self.facts[&PveKey::Guests.key()]
            .known()
            .cloned()
            .unwrap_or(json!([]));
        if let Some(a) = all.as_array_mut() {
            a.push(json!({"vmid": vmid, "node": "pve1", "type": "qemu", "name": name, "status": "stopped", "template": 0}));
        }
        self.put(PveKey::Guests, all)
    }

    /// The same guest, running.
    pub fn running(&mut self, vmid: u32) -> &mut Self {
        self.put(
            PveKey::GuestStatus(vmid),
            json!({"status": "running", "qmpstatus": "running", "uptime": 60, "ha": {"managed": 0}}),
        )
    }

    /// Changes a fact in place.
    pub fn edit(&mut self, key: PveKey, f: impl FnOnce(&mut Value)) -> &mut Self {
        match self.facts.get_mut(&key.key()) {
            Some(Fact::Known(v)) => f(v),
            _ => panic!("no such fact: {key:?}"),
        }
        self
    }

    /// Runs a module with these arguments in check mode; its effects stay in the ledger.
    pub fn check(&mut self, module: &str, args: Value) -> Report {
        let m = make(module, args);
        self.check_module(m.as_ref())
    }

    pub fn check_module(&mut self, m: &dyn Module) -> Report {
        let mut ledger = std::mem::take(&mut self.ledger);
        let mut live = Live(self);
        let report = {
            let mut dry = Dry::new(&mut live, &mut ledger, pve::overlay::overlay);
            run(
                &mut dry,
                m,
                &RunOptions {
                    diff: true,
                    ..RunOptions::default()
                },
            )
        };
        self.ledger = ledger;
        report
    }

    /// Runs it twice; the second must be unchanged (P4), and a run from the same start must plan the same (P5).
    pub fn converges(&mut self, module: &str, args: Value) -> Report {
        let mut twin = self.clone();
        let first = self.check(module, args.clone());
        assert!(!first.is_failed(), "{:#?}", first.keys);
        let again = self.check(module, args.clone());
        assert_eq!(
            again.keys["changed"],
            json!(false),
            "second run: {:#?}",
            again.keys
        );
        assert_eq!(again.keys["plan"], json!([]));
        let same = twin.check(module, args);
        assert_eq!(same.keys["plan"], first.keys["plan"]);
        assert_eq!(same.keys["diff"], first.keys["diff"]);
        first
    }
}

/// Coerces arguments and makes the module; panics with the errors.
pub fn make(module: &str, args: Value) -> Box<dyn Module> {
    match try_make(module, args) {
        Ok(m) => m,
        Err(e) => panic!("{e:#?}"),
    }
}

/// Coerces arguments and makes the module.
pub fn try_make(module: &str, args: Value) -> Result<Box<dyn Module>, Vec<spec::ArgError>> {
    let def = planners::find(module).expect("a module of the registry");
    let mut raw: Map<String, Value> =
        json!({"api_host": "pve1", "api_user": "root@pam", "api_password": "secret-secret"})
            .as_object()
            .expect("an object")
            .clone();
    raw.extend(args.as_object().expect("an object").clone());
    let args = spec::parse(def.spec, &raw, &|_| None)?;
    (def.make)(&args)
}

/// The parameters of the only step.
pub fn only_step(r: &Report) -> &Map<String, Value> {
    assert!(!r.is_failed(), "{:#?}", r.keys);
    let plan = r.keys["plan"].as_array().expect("a plan");
    assert_eq!(plan.len(), 1, "{plan:#?}");
    plan[0]["params"].as_object().expect("parameters")
}

/// The message of a failed run.
pub fn failure(r: &Report, kind: &str) -> String {
    assert!(r.is_failed(), "{:#?}", r.keys);
    assert_eq!(r.keys["error_kind"], kind, "{}", r.keys["msg"]);
    r.keys["msg"].as_str().expect("a message").to_owned()
}
