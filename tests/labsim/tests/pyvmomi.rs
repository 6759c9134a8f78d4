//! A third party's client works on the lab: pyVmomi signs in, reads all guests' devices, relocates, shuts down.
//! Needs pyVmomi from PyPI; without it the test says so and passes.
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A Python with pyVmomi: one environment in the build's target folder, made once.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_labsim")).parent()?.parent()?;
    let venv = target.join("venv-pyvmomi");
    let python = venv.join("bin/python");
    let works = |p: &Path| {
        Command::new(p)
            .args(["-c", "import pyVmomi, pyVim.task"])
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
            "pyvmomi==9.1.1.0",
        ])
        .status();
    works(&python).then_some(python)
}

#[test]
fn pyvmomi_reads_moves_and_stops_guests() {
    let Some(python) = python() else {
        println!("skipped: pyVmomi cannot be installed from PyPI here");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let world = root.join("../lab/demo-world.json");
    let text = std::fs::read_to_string(&world).expect("demo world");
    let parsed: Value = serde_json::from_str(&text).expect("demo world is JSON");
    let user = &parsed["vcenter"]["users"][0];
    let dir = std::env::temp_dir().join(format!("labsim-pyvmomi-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("state folder");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_labsim"))
        .args(["serve", "--exit-with-stdin", "--world"])
        .arg(&world)
        .arg("--state")
        .arg(&dir)
        .arg("--log")
        .arg(dir.join("log.jsonl"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("labsim starts");
    let lab_json = dir.join("lab.json");
    let begun = Instant::now();
    while !lab_json.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let out = Command::new(python)
        .arg(root.join("tests/pyvmomi_smoke.py"))
        .arg(&lab_json)
        .arg(user["name"].as_str().unwrap_or(""))
        .arg(user["password"].as_str().unwrap_or(""))
        .output()
        .expect("python runs");
    drop(lab.stdin.take());
    let _ = lab.wait();
    let log = std::fs::read_to_string(dir.join("log.jsonl")).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&dir);
    println!("{}", String::from_utf8_lossy(&out.stdout));
    assert!(
        out.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&out.stderr),
        log.lines().rev().take(5).collect::<Vec<_>>().join("\n")
    );
    assert!(!log.contains("UNKNOWN"), "pyVmomi called something unknown");
}
