//! A lab in the test process, and what tests say to it.
#![allow(dead_code)]

use labsim::server::{self, Options, Running};
use plan::{Fact, Failure, World};
use serde_json::{Value, json};
use vsphere::keys::{VcKey, VmBy};
use vsphere_api::{Connection, Live, Secret};

pub const USER: &str = "administrator@vsphere.local";
pub const PASSWORD: &str = "lab-Vsphere-Admin-1";

/// Ends with the test.
pub struct Lab {
    _runtime: tokio::runtime::Runtime,
    running: Running,
    pub dir: tempfile::TempDir,
}

/// The demo estate, with changes to its vCenter.
pub fn estate(changes: Value) -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/lab/demo-world.json"
    );
    let mut w: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    w["vcenter"]["relocate_min_ms"] = json!(50);
    for (k, v) in changes.as_object().unwrap() {
        w["vcenter"][k] = v.clone();
    }
    w
}

/// One datacenter with that many machines and portgroups, without files.
pub fn many(vms: usize, portgroups: usize) -> Value {
    let pgs: Vec<Value> = (0..portgroups)
        .map(|i| json!({"name": format!("pg-{i}"), "vlan": i + 1}))
        .collect();
    let vms: Vec<Value> = (0..vms)
        .map(|i| {
            json!({"name": format!("vm-{i:04}"), "guest_id": "debian12_64Guest", "cpus": 2, "memory_mb": 512, "datastore": "ds",
                   "folder": format!("f{}", i % 7), "disks": [{"controller": "pvscsi", "size_mib": 1}], "nics": [{"portgroup": "pg-0"}]})
        })
        .collect();
    json!({"seed": 3, "pve": {}, "vcenter": {
        "version": "8.0.3", "files": false, "users": [{"name": USER, "password": PASSWORD}],
        "datacenters": [{"name": "DC0", "hosts": [{"name": "esx1"}], "datastores": [{"name": "ds", "capacity_gib": 100}],
                         "switches": [{"name": "dvs", "version": "7.0.3", "portgroups": pgs}]}],
        "vms": vms,
    }})
}

impl Lab {
    pub fn start(world: Value) -> Lab {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let options = Options {
            world,
            pve: any,
            vcenter: any,
            dir: dir.path().to_path_buf(),
            log: dir.path().join("requests.log"),
            seed: None,
        };
        let running = runtime.block_on(server::start(options)).unwrap();
        Lab {
            _runtime: runtime,
            running,
            dir,
        }
    }

    pub fn connection(&self) -> Connection {
        let address = self.running.lab["vcenter"]
            .as_str()
            .unwrap()
            .trim_start_matches("https://")
            .trim_end_matches('/')
            .to_owned();
        let (host, port) = address.rsplit_once(':').unwrap();
        Connection {
            host: host.into(),
            port: port.parse().unwrap(),
            username: USER.into(),
            password: Secret::new(PASSWORD),
            ca_path: Some(self.running.lab["ca"].as_str().unwrap().into()),
            api_timeout_s: 10,
            ..Connection::default()
        }
    }

    pub fn fingerprint(&self) -> String {
        self.running.lab["fingerprint_vcenter"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub fn live(&self) -> Live {
        Live::new(self.connection())
    }

    pub fn fault(&self, rule: Value) {
        self.running.servers.faults.add(&rule).unwrap();
    }

    pub fn set(&self, patch: Value) {
        self.running.servers.vcenter.set(&patch).unwrap();
    }

    /// The lab's own view: `vms`, `tasks`, `sessions`, `session_objects`, `open_retrievals`.
    pub fn dump(&self) -> Value {
        self.running.servers.vcenter.dump()
    }

    /// `auths`, `reads` or `writes` so far.
    pub fn count(&self, what: &str) -> u64 {
        self.running.servers.log.counts()["vcenter"][what]
            .as_u64()
            .unwrap()
    }

    /// SOAP methods of all requests so far.
    pub fn methods(&self) -> Vec<String> {
        std::fs::read_to_string(self.dir.path().join("requests.log"))
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap())
            .map(|e| e["note"].as_str().unwrap_or("").to_owned())
            .collect()
    }
}

pub fn read(live: &mut Live, key: VcKey) -> Result<Fact, Failure> {
    live.read(&key.key())
}

pub fn known(live: &mut Live, key: VcKey) -> Value {
    match read(live, key).unwrap() {
        Fact::Known(v) => v,
        other => panic!("{other:?}"),
    }
}

pub fn by_name(name: &str, datacenter: Option<&str>) -> VcKey {
    VcKey::Vm {
        by: VmBy::Name(name.into()),
        datacenter: datacenter.map(str::to_owned),
    }
}
