//! Starting and stopping labsim.

use crate::env;
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
}

impl Lab {
    /// Builds and starts a lab on free ports with a fresh state folder.
    pub fn start(root: &Path, world: &Path, state: &Path, seed: u64) -> Result<Lab, String> {
        env::run(root, "cargo", &["build", "--quiet", "--package", "labsim"])?;
        let _ = std::fs::remove_dir_all(state);
        std::fs::create_dir_all(state).map_err(|e| e.to_string())?;
        let log = state.join("requests.jsonl");
        let child = Command::new(root.join("target/debug/labsim"))
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
        let mut lab = Lab {
            child,
            state: state.to_path_buf(),
            pve: String::new(),
            vcenter: String::new(),
            log,
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
    let s = lab.child.wait().map_err(|e| e.to_string())?;
    if s.success() {
        Ok(())
    } else {
        Err(format!("labsim: {s}"))
    }
}
