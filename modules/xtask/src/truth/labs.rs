//! Labs in this process: one for each scenario, so that all of them can share one ansible-playbook.

use labsim::server::{self, Options, Running};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Where the labs run; all of them end with it.
pub struct Yard(tokio::runtime::Runtime);

impl Yard {
    /// Threads for any number of labs.
    pub fn open() -> Result<Yard, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map(Yard)
            .map_err(|e| format!("tokio: {e}"))
    }

    /// A Proxmox cluster and a vCenter on free ports, with an empty state folder.
    pub fn lab(&self, world: &Value, dir: &Path, seed: u64) -> Result<Site, String> {
        let _ = std::fs::remove_dir_all(dir);
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let any = "127.0.0.1:0".parse().map_err(|e| format!("address: {e}"))?;
        let running = self.0.block_on(server::start(Options {
            world: world.clone(),
            pve: any,
            vcenter: any,
            dir: dir.to_path_buf(),
            log: dir.join("requests.jsonl"),
            seed: Some(seed),
        }))?;
        Ok(Site {
            running,
            dir: dir.to_path_buf(),
        })
    }
}

/// One running lab.
pub struct Site {
    running: Running,
    dir: PathBuf,
}

impl Site {
    fn text(&self, key: &str) -> &str {
        self.running.lab[key].as_str().unwrap_or_default()
    }

    /// Host and port of a side, `pve` or `vcenter`.
    pub fn address(&self, side: &str) -> (&str, u16) {
        let (host, port) = self
            .text(side)
            .rsplit_once(':')
            .unwrap_or(("127.0.0.1", "0"));
        (host, port.parse().unwrap_or_default())
    }

    /// The certificate to trust.
    pub fn ca(&self) -> &str {
        self.text("ca")
    }

    /// The state folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder that both sides share.
    pub fn export(&self) -> PathBuf {
        self.dir.join("export")
    }

    /// The world that it started with.
    pub fn start(&self) -> &Value {
        &self.running.servers.world
    }

    /// The whole present state of both sides.
    pub fn dump(&self) -> Value {
        json!({"pve": self.running.servers.pve.dump(), "vcenter": self.running.servers.vcenter.dump()})
    }

    /// Adds a fault rule.
    pub fn fault(&self, rule: &Value) -> Result<(), String> {
        self.running.servers.faults.add(rule)
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) {
        self.running.servers.faults.clear();
    }

    /// Changes something from outside: `{"pve": PATCH or list, "vcenter": PATCH or list}`.
    pub fn set(&self, patch: &Value) -> Result<(), String> {
        self.control("set", patch)
    }

    /// Starts anew with another world.
    pub fn reset(&self, world: &Value) -> Result<(), String> {
        self.control("reset", world)
    }

    fn control(&self, what: &str, body: &Value) -> Result<(), String> {
        let req = labsim::http::Req {
            method: "POST".into(),
            path: format!("/labsim/{what}"),
            body: body.to_string().into_bytes(),
            ..Default::default()
        };
        let answer = labsim::control::handle(&self.running.servers, &req)
            .ok_or_else(|| format!("{what}: no control path"))?;
        if answer.status == 200 {
            Ok(())
        } else {
            Err(format!("{what}: {}", String::from_utf8_lossy(&answer.body)))
        }
    }

    /// How many lines the request log has.
    pub fn mark(&self) -> usize {
        self.log().len()
    }

    /// Writes after that mark, but for those of somebody else.
    pub fn writes_from(&self, mark: usize, but: &str) -> Vec<String> {
        self.log()
            .iter()
            .skip(mark)
            .filter_map(|l| serde_json::from_str::<Value>(l).ok())
            .filter(|e| e["kind"] == "write" && e["user"] != but)
            .map(|e| format!("{} {} {}", e["method"], e["path"], e["note"]))
            .collect()
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.join("requests.jsonl")).unwrap_or_default();
        // What stands behind the last line feed is being written.
        text[..text.rfind('\n').map_or(0, |i| i + 1)]
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Files of the export and of the storages with their lengths: what a check run must leave as they are.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut found = vec![];
        let mut folders = vec![self.export(), self.dir.join("storage")];
        while let Some(f) = folders.pop() {
            for e in std::fs::read_dir(&f).into_iter().flatten().flatten() {
                match e.path().symlink_metadata() {
                    Ok(m) if m.is_dir() => folders.push(e.path()),
                    Ok(m) => found.push((e.path(), m.len())),
                    Err(_) => {}
                }
            }
        }
        found.sort();
        found
    }
}
