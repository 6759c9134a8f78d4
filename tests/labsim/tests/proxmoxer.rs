//! A third party's client works on the lab: proxmoxer signs in by ticket and by token, creates, reads and deletes a guest.
//! Needs proxmoxer from PyPI; without it the test says so and passes.
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A Python with proxmoxer: one environment in the build's target folder, made once.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_labsim")).parent()?.parent()?;
    let venv = target.join("venv-proxmoxer");
    let python = venv.join("bin/python");
    let works = |p: &Path| {
        Command::new(p)
            .args(["-c", "import proxmoxer, requests"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    if works(&python) {
        return Some(python);
    }
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&venv)
        .status();
    made.ok().filter(|s| s.success())?;
    let _ = Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "proxmoxer==2.2.0",
            "requests",
        ])
        .status();
    works(&python).then_some(python)
}

#[test]
fn proxmoxer_creates_reads_and_deletes_a_guest() {
    let Some(python) = python() else {
        println!("skipped: proxmoxer cannot be installed from PyPI here");
        return;
    };
    let dir = std::env::temp_dir().join(format!("labsim-proxmoxer-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let world = json!({"pve": {
        "nodes": [{"node": "pve1"}],
        "storage": [{"storage": "local", "type": "dir", "path": "/var/lib/vz", "content": "images"}],
        "users": [{"userid": "root@pam", "password": "smoke-password"}],
        "tokens": {"root@pam": [{"tokenid": "ci", "privsep": 0, "secret": "smoke-secret"}]}
    }, "vcenter": {}});
    std::fs::write(dir.join("world.json"), world.to_string()).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_labsim"))
        .args(["serve", "--exit-with-stdin", "--world"])
        .arg(dir.join("world.json"))
        .arg("--state")
        .arg(&dir)
        .arg("--log")
        .arg(dir.join("log.jsonl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let at: Value = loop {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "labsim does not come up"
        );
        match std::fs::read_to_string(dir.join("lab.json")) {
            Ok(text) => break serde_json::from_str(&text).unwrap(),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let out = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxmoxer_smoke.py"))
        .arg(at["pve"].as_str().unwrap())
        .arg(at["ca"].as_str().unwrap())
        .output()
        .unwrap();
    drop(lab.stdin.take());
    lab.wait().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(
        out.status.success() && text.contains("proxmoxer works"),
        "{text}"
    );
}
