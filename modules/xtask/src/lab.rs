//! Starting and stopping labsim.

use crate::env;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running lab; ended when dropped.
pub struct Lab {
    child: Child,
    /// Its state folder, with `lab.json`, `ca.pem` and the export.
    pub state: PathBuf,
    /// `127.0.0.1:PORT` of the Proxmox side.
    pub pve: String,
    /// `127.0.0.1:PORT` of the vCenter side.
    pub vcenter: String,
    /// The request log.
    pub log: PathBuf,
    /// The world that it started with.
    pub world: Value,
    http: reqwest::blocking::Client,
}

impl Lab {
    /// Builds and starts a lab on free ports with a fresh state folder.
    pub fn start(root: &Path, world: &Path, state: &Path, seed: u64) -> Result<Lab, String> {
        Self::build(root)?;
        Self::spawn(root, world, state, seed)
    }

    /// Only builds it.
    pub fn build(root: &Path) -> Result<(), String> {
        env::run(root, "cargo", &["build", "--quiet", "--package", "labsim"])
    }

    /// Only starts it, once it is built.
    pub fn spawn(root: &Path, world: &Path, state: &Path, seed: u64) -> Result<Lab, String> {
        Self::serve(&root.join("target/debug/labsim"), world, state, seed)
    }

    /// The same with an optimized lab, for measurements: what it takes to answer must not hide what is measured.
    pub fn start_optimized(
        root: &Path,
        world: &Path,
        state: &Path,
        seed: u64,
    ) -> Result<Lab, String> {
        env::run(
            root,
            "cargo",
            &[
                "build",
                "--quiet",
                "--package",
                "labsim",
                "--profile",
                "lab",
            ],
        )?;
        Self::serve(&root.join("target/lab/labsim"), world, state, seed)
    }

    fn serve(program: &Path, world: &Path, state: &Path, seed: u64) -> Result<Lab, String> {
        let _ = std::fs::remove_dir_all(state);
        std::fs::create_dir_all(state).map_err(|e| e.to_string())?;
        let log = state.join("requests.jsonl");
        let child = Command::new(program)
            .args(["serve", "--pve", "127.0.0.1:0", "--vcenter", "127.0.0.1:0"])
            .args(["--seed", &seed.to_string()])
            .arg("--world")
            .arg(world)
            .arg("--state")
            .arg(state)
            .arg("--log")
            .arg(&log)
            .arg("--exit-with-stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| format!("labsim: {e}"))?;
        let text =
            std::fs::read_to_string(world).map_err(|e| format!("{}: {e}", world.display()))?;
        let mut lab = Lab {
            child,
            state: state.to_path_buf(),
            pve: String::new(),
            vcenter: String::new(),
            log,
            world: serde_json::from_str(&text).map_err(|e| format!("{}: {e}", world.display()))?,
            http: client()?,
        };
        let started = Instant::now();
        loop {
            if let Some(j) = std::fs::read_to_string(state.join("lab.json"))
                .ok()
                .and_then(|t| serde_json::from_str::<serde_json::Value>(&t).ok())
            {
                lab.pve = j["pve"].as_str().unwrap_or_default().to_owned();
                lab.vcenter = j["vcenter"].as_str().unwrap_or_default().to_owned();
                return Ok(lab);
            }
            if let Ok(Some(s)) = lab.child.try_wait() {
                return Err(format!("labsim ended at once: {s}"));
            }
            if started.elapsed() > Duration::from_secs(60) {
                return Err("labsim does not listen after 60 s".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn control(&self, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let url = format!("https://{}/labsim/{path}", self.pve);
        let request = match body {
            None => self.http.get(&url),
            Some(b) => self.http.post(&url).body(b.to_string()),
        };
        let answer = request.send().map_err(|e| format!("{url}: {e}"))?;
        let ok = answer.status().is_success();
        let text = answer.text().map_err(|e| format!("{url}: {e}"))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| format!("{url}: {e}"))?;
        if ok {
            Ok(value)
        } else {
            Err(format!("{url}: {value}"))
        }
    }

    /// The whole present state of both sides.
    pub fn dump(&self) -> Result<Value, String> {
        self.control("world", None)
    }

    /// Writes that both sides have seen since the start.
    pub fn writes(&self) -> Result<usize, String> {
        let c = self.control("counts", None)?;
        let of = |side: &str| c[side]["writes"].as_u64().unwrap_or_default();
        usize::try_from(of("pve") + of("vcenter")).map_err(|e| e.to_string())
    }

    /// All requests that both sides have seen since the start.
    pub fn requests(&self) -> Result<u64, String> {
        let c = self.control("counts", None)?;
        let of = |side: &str| -> u64 {
            ["auths", "reads", "writes"]
                .iter()
                .map(|k| c[side][k].as_u64().unwrap_or_default())
                .sum()
        };
        Ok(of("pve") + of("vcenter"))
    }

    /// Adds fault rules.
    pub fn fault(&self, rules: &Value) -> Result<(), String> {
        self.control("faults", Some(rules)).map(|_| ())
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) -> Result<(), String> {
        let url = format!("https://{}/labsim/faults", self.pve);
        self.http
            .delete(&url)
            .send()
            .map(|_| ())
            .map_err(|e| format!("{url}: {e}"))
    }

    /// Changes something from outside.
    pub fn set(&self, patch: &Value) -> Result<(), String> {
        self.control("set", Some(patch)).map(|_| ())
    }

    /// Starts anew with another world.
    pub fn reset(&mut self, world: &Value) -> Result<(), String> {
        self.control("reset", Some(world))?;
        self.world = world.clone();
        Ok(())
    }

    /// Every descriptor and data file that VMware has on the shared export.
    pub fn vmware_files(&self) -> Result<Vec<PathBuf>, String> {
        let mut found = vec![];
        let mut folders = vec![self.state.join("export")];
        while let Some(d) = folders.pop() {
            for e in std::fs::read_dir(&d)
                .map_err(|e| format!("{}: {e}", d.display()))?
                .flatten()
            {
                let p = e.path();
                if p.is_dir() {
                    // images/ belongs to Proxmox.
                    if e.file_name() != "images" {
                        folders.push(p);
                    }
                } else if p.extension().is_some_and(|x| x == "vmdk") {
                    found.push(p);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The lab's certificate is its own; nothing secret goes over this connection.
fn client() -> Result<reqwest::blocking::Client, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::blocking::Client::builder()
        .danger_accept_invalid_certs(true)
        .build()
        .map_err(|e| e.to_string())
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It ends by itself when its standard input closes; the kill is for one that hangs.
        drop(self.child.stdin.take());
        for _ in 0..40 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `cargo xtask lab`: runs until interrupted.
pub fn foreground(root: &Path, world: &str, seed: u64) -> Result<(), String> {
    let state = root.join(".lab/manual");
    let mut lab = Lab::start(root, &root.join(world), &state, seed)?;
    println!(
        "Proxmox VE  https://{}\nvCenter     https://{}/sdk\nstate       {}\nlog         {}",
        lab.pve,
        lab.vcenter,
        lab.state.display(),
        lab.log.display()
    );
    // Waiting would close its standard input, which ends it.
    let _open = lab.child.stdin.take();
    let s = lab.child.wait().map_err(|e| e.to_string())?;
    if s.success() {
        Ok(())
    } else {
        Err(format!("labsim: {s}"))
    }
}
