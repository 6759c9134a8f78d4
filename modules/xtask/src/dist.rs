//! The collection's tarball: staged from exactly the files that belong into it, built by ansible-galaxy, and checked.

use crate::{docs, env};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Folders and files of the repository that ship.
const SHIPPED: &[&str] = &[
    "galaxy.yml",
    // galaxy-importer lints what it imports, and must know which modules of other collections a playbook may name.
    ".ansible-lint",
    "README.md",
    "LICENSE",
    "CHANGELOG.rst",
    "changelogs",
    "meta",
    "plugins",
    "playbooks",
    "roles",
    "docs",
    "execution-environment.yml",
];

/// The architecture whose binary lies directly under plugins/bin; others lie in a folder of their own (plugins/action/native.py).
const DEFAULT_ARCH: &str = "x86_64";
/// The oldest glibc that a binary for others must run on; Rust's own floor (https://doc.rust-lang.org/rustc/platform-support.html).
const GLIBC: &str = "2.17";

/// A built binary and where it runs.
pub struct Built {
    arch: String,
    path: PathBuf,
}

impl Built {
    /// A binary of this machine's architecture that is already there.
    pub fn here(path: PathBuf) -> Self {
        Self {
            arch: std::env::consts::ARCH.into(),
            path,
        }
    }
}

/// What `cargo xtask dist` is asked for.
pub struct Wanted<'a> {
    /// Compare the tarball's content with the registry.
    pub check: bool,
    /// Take the development build of this machine, for tests.
    pub debug: bool,
    /// Architectures to build for with cargo-zigbuild; none: this machine's, by plain cargo.
    pub archs: &'a [String],
}

/// Builds the binaries and the tarball; gives the tarball's path.
pub fn run(root: &Path, wanted: &Wanted<'_>) -> Result<PathBuf, String> {
    let built = if wanted.archs.is_empty() {
        vec![build(root, wanted.debug)?]
    } else {
        wanted
            .archs
            .iter()
            .map(|a| cross(root, a))
            .collect::<Result<_, _>>()?
    };
    let tarball = pack(root, &built)?;
    if wanted.check {
        verify(root, &tarball, &built)?;
    }
    println!("dist: {}", tarball.display());
    Ok(tarball)
}

/// The binary of this machine, by plain cargo: it needs this machine's glibc or a newer one.
fn build(root: &Path, debug: bool) -> Result<Built, String> {
    let (flags, folder): (&[&str], _) = if debug {
        (&[], "debug")
    } else {
        (&["--release"], "release")
    };
    let mut args = vec!["build", "--quiet", "--locked", "--package", "trueplan"];
    args.extend(flags);
    env::run(root, "cargo", &args)?;
    Ok(Built::here(
        root.join("target").join(folder).join("trueplan"),
    ))
}

/// A release binary for an architecture that runs wherever glibc is not older than [`GLIBC`].
fn cross(root: &Path, arch: &str) -> Result<Built, String> {
    if !matches!(arch, "x86_64" | "aarch64") {
        return Err(format!(
            "unable to build for {arch}: x86_64 and aarch64 are the architectures that are shipped"
        ));
    }
    if env::output(root, "cargo", &["zigbuild", "--version"]).is_err() {
        return Err("cargo-zigbuild is missing; `cargo install --locked cargo-zigbuild` and `pip install ziglang`, or leave --arch out to build for this machine".into());
    }
    let triple = format!("{arch}-unknown-linux-gnu");
    env::run(
        root,
        "cargo",
        &[
            "zigbuild",
            "--quiet",
            "--locked",
            "--release",
            "--package",
            "trueplan",
            "--target",
            &format!("{triple}.{GLIBC}"),
        ],
    )
    .map_err(|e| format!("{e}; is the target there? `rustup target add {triple}`"))?;
    Ok(Built {
        arch: arch.into(),
        path: root.join("target").join(triple).join("release/trueplan"),
    })
}

/// Where a binary and its links lie under plugins/: as plugins/action/native.py and plugins/inventory/vms.py look for them.
fn places(arch: &str) -> (String, String, String) {
    if arch == DEFAULT_ARCH {
        ("bin".into(), "modules".into(), "../bin/trueplan".into())
    } else {
        let link = format!("../../bin/{arch}/trueplan");
        (format!("bin/{arch}"), format!("modules/{arch}"), link)
    }
}

/// Puts a binary to its folder, with a link for each module.
fn place(plugins: &Path, built: &Built) -> Result<(), String> {
    let io = |e: std::io::Error| format!("{}: {e}", plugins.display());
    let (bin, modules, link) = places(&built.arch);
    fs::create_dir_all(plugins.join(&bin)).map_err(io)?;
    fs::create_dir_all(plugins.join(&modules)).map_err(io)?;
    let target = plugins.join(&bin).join("trueplan");
    // Replaced by renaming: the old one may be running.
    let tmp = plugins.join(&bin).join(".trueplan.new");
    fs::copy(&built.path, &tmp).map_err(io)?;
    // Ansible copies the file for each task, and three quarters of a development build are debug information. Without `strip` it is
    // only slower; a release is stripped already.
    let _ = env::output(&plugins.join(&bin), "strip", &[".trueplan.new"]);
    fs::rename(&tmp, &target).map_err(io)?;
    for s in docs::modules() {
        let l = plugins.join(&modules).join(s.name);
        let _ = fs::remove_file(&l);
        symlink(&link, &l).map_err(io)?;
    }
    Ok(())
}

/// Stages and packs the collection with those binaries.
pub fn pack(root: &Path, built: &[Built]) -> Result<PathBuf, String> {
    let python = env::python(11, 14).ok_or("no Python from 3.11 to 3.14 with venv and ensurepip was found; install python3 and python3-venv")?;
    let venv = env::venv(root, ".venv", &python, &["ansible-core>=2.17"])?;
    let stage = root.join("target/collection");
    let io = |e: std::io::Error| format!("{}: {e}", stage.display());
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(&stage).map_err(io)?;
    for name in SHIPPED {
        copy(&root.join(name), &stage.join(name)).map_err(io)?;
    }
    for b in built {
        place(&stage.join("plugins"), b)?;
    }
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

/// The tarball holds each binary once, every module's documentation and its link for each of them, and no stray file under plugins/.
fn verify(root: &Path, tarball: &Path, built: &[Built]) -> Result<(), String> {
    let list = env::output(root, "tar", &["-tzf", &tarball.display().to_string()])?;
    let have: Vec<&str> = list
        .lines()
        .filter(|l| l.starts_with("plugins/") && !l.ends_with('/'))
        .collect();
    let mut want: Vec<String> = vec![
        "plugins/action/native.py".into(),
        "plugins/inventory/vms.py".into(),
    ];
    for s in docs::modules() {
        want.push(format!("plugins/modules/{}.py", s.name));
        want.push(format!("plugins/action/{}.py", s.name));
    }
    for b in built {
        let (bin, modules, _) = places(&b.arch);
        want.push(format!("plugins/{bin}/trueplan"));
        want.extend(
            docs::modules()
                .iter()
                .map(|s| format!("plugins/{modules}/{}", s.name)),
        );
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
            "dist: {} modules for {} in the tarball, nothing missing, nothing stray",
            docs::modules().len(),
            built
                .iter()
                .map(|b| b.arch.as_str())
                .collect::<Vec<_>>()
                .join(" and ")
        );
        Ok(())
    } else {
        Err(format!(
            "the tarball does not fit the registry: missing {missing:?}, stray {stray:?}"
        ))
    }
}
