//! The collection's tarball: staged from exactly the files that belong into it, built by ansible-galaxy, and checked.

use crate::{docs, env};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Folders and files of the repository that ship.
const SHIPPED: &[&str] = &[
    "galaxy.yml",
    "README.md",
    "LICENSE",
    "CHANGELOG.rst",
    "changelogs",
    "meta",
    "plugins",
    "playbooks",
    "roles",
    "docs",
];

/// Builds the binary and the tarball; gives the tarball's path. `debug` takes the development build, for tests.
pub fn run(root: &Path, check: bool, debug: bool) -> Result<PathBuf, String> {
    let (flags, folder): (&[&str], _) = if debug {
        (&[], "debug")
    } else {
        (&["--release"], "release")
    };
    let mut args = vec!["build", "--quiet", "--locked", "--package", "trueplan"];
    args.extend(flags);
    env::run(root, "cargo", &args)?;
    let tarball = pack(root, &root.join("target").join(folder).join("trueplan"))?;
    if check {
        verify(root, &tarball)?;
    }
    println!("dist: {}", tarball.display());
    Ok(tarball)
}

/// Puts the binary to plugins/bin, with a link for each module.
fn place(plugins: &Path, binary: &Path) -> Result<(), String> {
    let io = |e: std::io::Error| format!("{}: {e}", plugins.display());
    fs::create_dir_all(plugins.join("bin")).map_err(io)?;
    let target = plugins.join("bin/trueplan");
    // Replaced by renaming: the old one may be running.
    let tmp = plugins.join("bin/.trueplan.new");
    fs::copy(binary, &tmp).map_err(io)?;
    fs::rename(&tmp, &target).map_err(io)?;
    for s in docs::modules() {
        let l = plugins.join("modules").join(s.name);
        let _ = fs::remove_file(&l);
        symlink("../bin/trueplan", &l).map_err(io)?;
    }
    Ok(())
}

/// Stages and packs the collection with that binary.
pub fn pack(root: &Path, binary: &Path) -> Result<PathBuf, String> {
    let python = env::python(11, 14).ok_or("no Python from 3.11 to 3.14 with venv and ensurepip was found; install python3 and python3-venv")?;
    let venv = env::venv(root, ".venv", &python, &["ansible-core>=2.17"])?;
    let stage = root.join("target/collection");
    let io = |e: std::io::Error| format!("{}: {e}", stage.display());
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(&stage).map_err(io)?;
    for name in SHIPPED {
        copy(&root.join(name), &stage.join(name)).map_err(io)?;
    }
    place(&stage.join("plugins"), binary)?;
    let dist = root.join("dist");
    env::output(
        &stage,
        venv.join("bin/ansible-galaxy"),
        &[
            "collection",
            "build",
            "--force",
            "--output-path",
            &dist.display().to_string(),
        ],
    )?;
    Ok(dist.join(format!(
        "trueplan-virt-{}.tar.gz",
        env!("CARGO_PKG_VERSION")
    )))
}

/// Copies what is tracked in kind: no caches, no built binaries, no links.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(from) else {
        return Ok(());
    };
    if meta.is_dir() {
        let name = from.file_name().unwrap_or_default();
        if name == "__pycache__" || name == "bin" {
            return Ok(());
        }
        fs::create_dir_all(to)?;
        for e in fs::read_dir(from)? {
            let e = e?;
            copy(&e.path(), &to.join(e.file_name()))?;
        }
    } else if meta.is_file() {
        fs::copy(from, to)?;
    }
    Ok(())
}

/// The tarball holds every module twice (documentation and link), the binary once, and no stray file under plugins/.
pub fn verify(root: &Path, tarball: &Path) -> Result<(), String> {
    let list = env::output(root, "tar", &["-tzf", &tarball.display().to_string()])?;
    let have: Vec<&str> = list
        .lines()
        .filter(|l| l.starts_with("plugins/") && !l.ends_with('/'))
        .collect();
    let mut want: Vec<String> = vec![
        "plugins/bin/trueplan".into(),
        "plugins/action/native.py".into(),
        "plugins/inventory/vms.py".into(),
    ];
    for s in docs::modules() {
        want.push(format!("plugins/modules/{}", s.name));
        want.push(format!("plugins/modules/{}.py", s.name));
    }
    let missing: Vec<_> = want
        .iter()
        .filter(|w| !have.contains(&w.as_str()))
        .collect();
    let stray: Vec<_> = have
        .iter()
        .filter(|h| want.iter().all(|w| w != *h))
        .collect();
    if missing.is_empty() && stray.is_empty() {
        println!(
            "dist: {} modules in the tarball, nothing missing, nothing stray",
            docs::modules().len()
        );
        Ok(())
    } else {
        Err(format!(
            "the tarball does not fit the registry: missing {missing:?}, stray {stray:?}"
        ))
    }
}
