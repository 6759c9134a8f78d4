//! A lab in the test process, and what tests say to it.

use super::call::Call;
use super::worlds;
use labsim::server::{self, Options, Running};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Both servers; they end with the test.
pub struct Lab {
    runtime: Option<tokio::runtime::Runtime>,
    running: Running,
    dir: tempfile::TempDir,
}

impl Lab {
    /// Starts both servers on free ports.
    pub fn start(world: Value) -> Lab {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let dir = tempfile::tempdir().expect("a folder");
        let any = "127.0.0.1:0".parse().expect("an address");
        let options = Options {
            world,
            pve: any,
            vcenter: any,
            dir: dir.path().to_path_buf(),
            log: dir.path().join("requests.jsonl"),
            seed: None,
        };
        let running = match runtime.block_on(server::start(options)) {
            Ok(r) => r,
            Err(e) => panic!("the lab does not start: {e}"),
        };
        Lab {
            runtime: Some(runtime),
            running,
            dir,
        }
    }

    /// The small world with guest 100.
    pub fn one_guest() -> Lab {
        Lab::start(worlds::one_guest())
    }

    /// The demo estate: a vCenter and a cluster that share an export.
    pub fn demo() -> Lab {
        Lab::start(worlds::demo())
    }

    /// `host:port` of the Proxmox side.
    pub fn pve(&self) -> &str {
        self.running.lab["pve"].as_str().expect("an address")
    }

    /// Host and port of the vCenter side.
    pub fn vcenter(&self) -> (&str, u16) {
        let a = self.running.lab["vcenter"].as_str().expect("an address");
        let (host, port) = a.rsplit_once(':').expect("host:port");
        (host, port.parse().expect("a port"))
    }

    /// The certificate to trust.
    pub fn ca(&self) -> &str {
        self.running.lab["ca"].as_str().expect("a path")
    }

    /// Of one side's certificate, `pve` or `vcenter`.
    pub fn fingerprint(&self, side: &str) -> &str {
        self.running.lab[format!("fingerprint_{side}")]
            .as_str()
            .expect("a fingerprint")
    }

    /// The folder that both sides share.
    pub fn export(&self) -> PathBuf {
        self.dir.path().join("export")
    }

    /// The folder of a storage that is not the export.
    pub fn storage(&self, name: &str) -> PathBuf {
        self.dir.path().join("storage").join(name)
    }

    /// Root's API token of the small worlds.
    pub fn token(&self) -> Value {
        json!({"api_host": self.pve(), "api_token_id": "root@pam!full", "api_token_secret": worlds::TOKEN_SECRET, "ca_path": self.ca()})
    }

    /// A user of the small worlds, by password.
    pub fn user(&self, user: &str) -> Value {
        json!({"api_host": self.pve(), "api_user": user, "api_password": worlds::PASSWORD, "ca_path": self.ca()})
    }

    /// How a module of that name signs in where a test says nothing else.
    pub fn sign_in(&self, module: &str) -> Value {
        if module.starts_with("pve_") {
            let demo = self.running.servers.world["pve"]["tokens"]["migrate@pve"][0]["secret"]
                .as_str()
                .map(|s| json!({"api_host": self.pve(), "api_token_id": "migrate@pve!trueplan", "api_token_secret": s, "ca_path": self.ca()}));
            demo.unwrap_or_else(|| self.token())
        } else if module.starts_with("vsphere_") {
            let (host, port) = self.vcenter();
            json!({"hostname": host, "port": port, "username": worlds::VC_USER, "password": worlds::VC_PASSWORD, "ca_path": self.ca()})
        } else {
            json!({})
        }
    }

    /// A call of a module with these arguments and [`Lab::sign_in`].
    pub fn call(&self, module: &str, args: Value) -> Call<'_> {
        let mut all = self.sign_in(module);
        for (k, v) in args.as_object().expect("an object of arguments") {
            all[k] = v.clone();
        }
        Call::new(Some(self), module, all)
    }

    /// A call with exactly these arguments.
    pub fn bare(&self, module: &str, args: Value) -> Call<'_> {
        Call::new(Some(self), module, args)
    }

    /// Adds fault rules.
    pub fn fault(&self, rule: Value) {
        if let Err(e) = self.running.servers.faults.add(&rule) {
            panic!("{e}: {rule}");
        }
    }

    /// Removes them.
    pub fn no_faults(&self) {
        self.running.servers.faults.clear();
    }

    /// Changes the Proxmox side from outside.
    pub fn set(&self, patch: Value) {
        if let Err(e) = self.running.servers.pve.set(&patch) {
            panic!("{e}: {patch}");
        }
    }

    /// Changes the vCenter side from outside.
    pub fn set_vcenter(&self, patch: Value) {
        if let Err(e) = self.running.servers.vcenter.set(&patch) {
            panic!("{e}: {patch}");
        }
    }

    /// State, files, faults and counters back to the start of that world, or of the first one.
    pub fn reset(&self, world: Option<Value>) {
        let body = world.unwrap_or_else(|| self.running.servers.world.clone());
        let (answer, ok) = self.control("POST", "/labsim/reset", &body);
        assert!(ok, "reset: {answer}");
    }

    /// What somebody else asks of the Proxmox side, by root's token; the parameters are the query.
    #[track_caller]
    pub fn other(&self, method: &str, path: &str, query: &str) {
        use labsim::http::Site;
        let token = format!("PVEAPIToken=root@pam!full={}", worlds::TOKEN_SECRET);
        let req = labsim::http::Req {
            method: method.into(),
            path: format!("/api2/json{path}"),
            query: query.into(),
            headers: vec![("authorization".into(), token)],
            ..Default::default()
        };
        let r = self.running.servers.pve.handle(&req);
        assert_eq!(r.status, 200, "{method} {path}: {:?}", r.reason);
    }

    fn control(&self, method: &str, path: &str, body: &Value) -> (String, bool) {
        let req = labsim::http::Req {
            method: method.into(),
            path: path.into(),
            body: body.to_string().into_bytes(),
            ..Default::default()
        };
        let r = labsim::control::handle(&self.running.servers, &req).expect("a control path");
        (
            String::from_utf8_lossy(&r.body).into_owned(),
            r.status == 200,
        )
    }

    /// The whole present state of both sides.
    pub fn world(&self) -> Value {
        json!({"pve": self.running.servers.pve.dump(), "vcenter": self.running.servers.vcenter.dump()})
    }

    /// The guest of that vmid in the world.
    pub fn guest(&self, vmid: u32) -> Option<Value> {
        self.running.servers.pve.dump()["guests"]
            .as_array()
            .expect("a list of guests")
            .iter()
            .find(|g| g["vmid"] == vmid)
            .cloned()
    }

    /// `auths`, `reads` or `writes` of a side so far.
    pub fn count(&self, side: &str, what: &str) -> u64 {
        self.running.servers.log.counts()[side][what]
            .as_u64()
            .expect("a count")
    }

    /// Writes of both sides so far.
    pub fn writes(&self) -> u64 {
        self.count("pve", "writes") + self.count("vcenter", "writes")
    }

    /// All requests so far.
    pub fn log(&self) -> Vec<Value> {
        self.log_since(0)
    }

    /// How long the log is now, for [`Lab::log_since`]: to read all of it with each call made the generated tests slow.
    pub fn log_end(&self) -> u64 {
        std::fs::metadata(self.dir.path().join("requests.jsonl"))
            .expect("the request log")
            .len()
    }

    /// The requests that came after the log was that long.
    pub fn log_since(&self, end: u64) -> Vec<Value> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file =
            std::fs::File::open(self.dir.path().join("requests.jsonl")).expect("the request log");
        file.seek(SeekFrom::Start(end)).expect("a place in it");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        // What stands behind the last line feed is being written.
        text[..text.rfind('\n').map_or(0, |i| i + 1)]
            .lines()
            .map(|l| serde_json::from_str(l).expect("a JSON line"))
            .collect()
    }

    /// `METHOD path` (or the SOAP method) of all requests after the first `from`.
    pub fn requests_from(&self, from: usize) -> Vec<String> {
        self.log().iter().skip(from).map(short).collect()
    }

    /// The state folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Every file of the export and of the storages, with its length: what a check run must leave as it is.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut found = vec![];
        let mut folders = vec![self.export(), self.dir.path().join("storage")];
        while let Some(f) = folders.pop() {
            for e in std::fs::read_dir(&f).into_iter().flatten().flatten() {
                let m = e.path().symlink_metadata().expect("what a file is");
                if m.is_dir() {
                    folders.push(e.path());
                } else {
                    found.push((e.path(), m.len()));
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(r) = self.runtime.take() {
            // Requests that a fault delays must not hold the test.
            r.shutdown_background();
        }
    }
}

/// One line of the request log for people.
pub fn short(e: &Value) -> String {
    let text = |k: &str| e[k].as_str().unwrap_or("").to_owned();
    let what = if e["side"] == "vcenter" {
        format!("SOAP {}", text("note"))
    } else {
        format!(
            "{} {}",
            text("method"),
            text("path").trim_start_matches("/api2/json")
        )
    };
    format!("{what} -> {}", e["status"])
}
