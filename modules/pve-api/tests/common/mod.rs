//! A lab in the test process, and what tests say to it.
#![allow(dead_code)]

use labsim::server::{self, Options, Running};
use plan::{Fact, Failure, World};
use pve::keys::PveKey;
use pve_api::{Connection, Live, Secret};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const TOKEN_SECRET: &str = "11111111-2222-3333-4444-555555555555";
pub const PASSWORD: &str = "correct horse battery";

/// Ends with the test.
pub struct Lab {
    _runtime: tokio::runtime::Runtime,
    running: Running,
    pub dir: tempfile::TempDir,
}

/// Users, tokens and privileges that all tests share.
pub fn world() -> Value {
    json!({"seed": 7, "pve": {
        "users": [
            {"userid": "root@pam", "password": PASSWORD},
            {"userid": "deploy@pve", "password": PASSWORD},
            {"userid": "nobody@pve", "password": PASSWORD},
        ],
        "tokens": {
            "root@pam": [{"tokenid": "full", "privsep": 0, "secret": TOKEN_SECRET}],
            "deploy@pve": [{"tokenid": "ci", "privsep": 1, "secret": TOKEN_SECRET}],
        },
        "acl": [{"path": "/", "type": "user", "ugid": "deploy@pve", "roleid": "PVEAdmin", "propagate": 1}],
        "pools": [{"poolid": "testpool"}],
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

    pub fn address(&self) -> String {
        self.running.lab["pve"].as_str().unwrap().to_owned()
    }

    pub fn fingerprint(&self) -> String {
        self.running.lab["fingerprint_pve"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub fn ca(&self) -> PathBuf {
        self.running.lab["ca"].as_str().unwrap().into()
    }

    /// Root's token: sees everything.
    pub fn connection(&self) -> Connection {
        Connection {
            host: self.address(),
            token_id: Some("root@pam!full".into()),
            token_secret: Some(Secret::new(TOKEN_SECRET)),
            ca_path: Some(self.ca()),
            timeout_s: 10,
            ..Connection::default()
        }
    }

    /// A user with a password.
    pub fn user(&self, user: &str) -> Connection {
        Connection {
            user: Some(user.into()),
            password: Some(Secret::new(PASSWORD)),
            token_id: None,
            token_secret: None,
            ..self.connection()
        }
    }

    pub fn live(&self) -> Live {
        Live::new(self.connection())
    }

    pub fn fault(&self, rule: Value) {
        self.running.servers.faults.add(&rule).unwrap();
    }

    pub fn no_faults(&self) {
        self.running.servers.faults.clear();
    }

    /// Answers that route with that data, every time: a recorded answer of the real API.
    pub fn answer(&self, method: &str, path: &str, data: Value) {
        self.fault(json!({"side": "pve", "method": method, "path": format!("^/api2/json{path}$"), "do": {"status": 200, "body": {"data": data}}}));
    }

    /// Answers the nth request of that route.
    pub fn answer_nth(&self, nth: u64, method: &str, path: &str, data: Value) {
        self.fault(json!({"side": "pve", "method": method, "path": format!("^/api2/json{path}$"), "nth": nth, "do": {"status": 200, "body": {"data": data}}}));
    }

    /// Refuses that route as the real API does: a message, and parameters' errors for a 400.
    pub fn refuse(&self, method: &str, path: &str, status: u16, message: &str, errors: Value) {
        let mut body = json!({"data": null, "message": message});
        if !errors.is_null() {
            body["errors"] = errors;
        }
        let reason = message.lines().next().unwrap_or("");
        self.fault(json!({"side": "pve", "method": method, "path": format!("^/api2/json{path}$"), "do": {"status": status, "reason": reason, "body": body}}));
    }

    /// `auths`, `reads` or `writes` so far.
    pub fn count(&self, what: &str) -> u64 {
        self.running.servers.log.counts()["pve"][what]
            .as_u64()
            .unwrap()
    }

    /// The request log's entries.
    pub fn log(&self) -> Vec<Value> {
        std::fs::read_to_string(self.dir.path().join("requests.log"))
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// `METHOD path` of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.log()
            .iter()
            .map(|e| {
                format!(
                    "{} {}",
                    e["method"].as_str().unwrap(),
                    e["path"].as_str().unwrap().trim_start_matches("/api2/json")
                )
            })
            .collect()
    }

    pub fn world(&self) -> Value {
        self.running.servers.pve.dump()
    }

    pub fn set(&self, patch: Value) {
        self.running.servers.pve.set(&patch).unwrap();
    }
}

/// Reads a key.
pub fn read(live: &mut Live, key: PveKey) -> Result<Fact, Failure> {
    live.read(&key.key())
}

/// Reads a key that must be known.
pub fn known(live: &mut Live, key: PveKey) -> Value {
    match read(live, key).unwrap() {
        Fact::Known(v) => v,
        other => panic!("{other:?}"),
    }
}

static UPIDS: AtomicUsize = AtomicUsize::new(1);

/// A UPID as the server makes them.
pub fn upid(kind: &str, id: &str) -> String {
    let n = UPIDS.fetch_add(1, Ordering::SeqCst);
    format!("UPID:pve1:{n:08X}:0003BBFA:6B0D7E2A:{kind}:{id}:root@pam!full:")
}
