//! The workshop: where we are, which programs are there, virtual environments, running commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's top folder.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .unwrap_or(here)
}

/// Runs a command, its output going where ours goes.
pub fn run<S: AsRef<OsStr>>(
    cwd: &Path,
    program: impl AsRef<OsStr>,
    args: &[S],
) -> Result<(), String> {
    let mut c = Command::new(&program);
    c.args(args).current_dir(cwd).stdin(Stdio::null());
    let what = format!("{:?} in {}", c, cwd.display());
    let status = c.status().map_err(|e| format!("{what}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{what}: {status}"))
    }
}

/// Runs a command and gives its standard output; its standard error only on failure.
pub fn output<S: AsRef<OsStr>>(
    cwd: &Path,
    program: impl AsRef<OsStr>,
    args: &[S],
) -> Result<String, String> {
    let mut c = Command::new(&program);
    c.args(args).current_dir(cwd).stdin(Stdio::null());
    let what = format!("{:?}", c);
    let o = c.output().map_err(|e| format!("{what}: {e}"))?;
    if o.status.success() {
        Ok(String::from_utf8_lossy(&o.stdout).into_owned())
    } else {
        Err(format!(
            "{what}: {}\n{}{}",
            o.status,
            String::from_utf8_lossy(&o.stdout),
            String::from_utf8_lossy(&o.stderr)
        ))
    }
}

/// A Python of at least that minor version of 3, by looking at PATH and at pyenv's folder.
pub fn python(min: u32, max: u32) -> Option<PathBuf> {
    let mut names: Vec<PathBuf> = (min..=max)
        .rev()
        .map(|m| PathBuf::from(format!("python3.{m}")))
        .collect();
    names.push("python3".into());
    if let Some(home) = std::env::var_os("HOME")
        && let Ok(dir) = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"))
    {
        names.extend(dir.flatten().map(|e| e.path().join("bin/python3")));
    }
    let code = "import sys, venv, ensurepip; print(sys.version_info[1])";
    let fits = |p: &PathBuf| {
        output(Path::new("/"), p, &["-c", code])
            .ok()
            .and_then(|t| t.trim().parse::<u32>().ok())
            .filter(|m| (min..=max).contains(m))
    };
    names
        .iter()
        .filter_map(|p| Some((fits(p)?, p.clone())))
        .max_by_key(|(m, _)| *m)
        .map(|(_, p)| p)
}

/// A virtual environment with these packages; made once, and made anew when the list changes.
pub fn venv(root: &Path, name: &str, python: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let dir = root.join(name);
    let stamp = dir.join("trueplan.packages");
    let wanted = format!("{}\n{}", python.display(), packages.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|t| t == wanted) {
        return Ok(dir);
    }
    eprintln!("xtask: making {name} with {}", packages.join(", "));
    let _ = std::fs::remove_dir_all(&dir);
    run(
        root,
        python,
        &[OsStr::new("-m"), OsStr::new("venv"), dir.as_os_str()],
    )?;
    let mut args = vec![
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    args.extend(packages);
    run(root, dir.join("bin/python"), &args)?;
    std::fs::write(&stamp, wanted).map_err(|e| e.to_string())?;
    Ok(dir)
}

/// The peers: the `ansible` bundle of that version carries their collections, and these are the libraries that they need.
pub const PEERS: &[&str] = &[
    "ansible==14.5.0",
    "proxmoxer==2.3.0",
    "requests",
    "pyvmomi==9.1.1.0",
];

/// The environment with the peers: Ansible's own bundle, which needs Python 3.12 or newer.
pub fn peers(root: &Path) -> Result<PathBuf, String> {
    // Half a gigabyte: who has it somewhere names it.
    if let Some(v) = std::env::var_os("TRUEPLAN_PEERS_VENV") {
        return Ok(v.into());
    }
    let python = python(12, 14).ok_or(
        "the peers (ansible 14.5.0) need Python 3.12 or newer, and none with venv and ensurepip was found; install one; `cargo xtask truth --ours` does without",
    )?;
    venv(root, ".venv-peers", &python, PEERS)
}

/// Makes sure that qemu-img is there: installs it where that may be done, else says what to do.
pub fn qemu_img() -> Result<(), String> {
    let there = || output(Path::new("/"), "qemu-img", &["--version"]).is_ok();
    if there() {
        return Ok(());
    }
    eprintln!("xtask: qemu-img is missing, trying apt-get install qemu-utils");
    let apt = |args: &[&str]| run(Path::new("/"), "apt-get", args);
    let _ = apt(&["update", "-q"]).and_then(|()| {
        apt(&[
            "install",
            "-y",
            "-q",
            "--no-install-recommends",
            "qemu-utils",
        ])
    });
    if there() {
        Ok(())
    } else {
        Err("qemu-img is missing and could not be installed; install the package qemu-utils (Debian, Ubuntu) or qemu-img (Fedora, RHEL) and run this again".into())
    }
}
