//! `cargo xtask ansible`: the collection as Ansible sees it, on the oldest and the newest ansible-core, and what Ansible's own tools say.

use crate::demo::{self, Stage};
use crate::lab::Lab;
use crate::{dist, docs, env, leaks, truth};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Versions of ansible-core and the minor versions of Python 3 on which they control.
/// Source: docs.ansible.com, "ansible-core support matrix".
const CORES: &[(u32, u32, u32)] = &[
    (17, 10, 12),
    (18, 11, 13),
    (19, 11, 13),
    (20, 12, 14),
    (21, 12, 14),
];

/// Guests of the stages that run on every version: BIOS, UEFI, Windows.
const GUESTS: &str = "web01,db-uefi,win-app";

/// An ansible-core that can run here.
struct Core {
    minor: u32,
    python: PathBuf,
    venv: PathBuf,
}

/// All checks, or those whose name contains `only`; `full` adds one ansible-core between, ansible-test sanity on all of them, and AWX.
pub fn run(root: &Path, full: bool, only: Option<&str>) -> Result<(), String> {
    let tarball = dist::run(
        root,
        &dist::Wanted {
            check: true,
            debug: true,
            archs: &[],
        },
    )?;
    let cores = cores(root, full)?;
    let step = |name: &str, f: &dyn Fn() -> Result<String, String>| {
        if only.is_some_and(|o| !name.contains(o)) {
            return Ok(());
        }
        let started = Instant::now();
        let said = f().map_err(|e| format!("{name}: {e}"))?;
        println!(
            "ansible: {name}: {said} ({:.0} s)",
            started.elapsed().as_secs_f64()
        );
        Ok::<(), String>(())
    };
    for c in &cores {
        install(root, c, &tarball)?;
        step(&format!("ansible-core 2.{}", c.minor), &|| on_core(root, c))?;
    }
    let newest = cores.last().ok_or("no ansible-core can run here")?;
    let stage = Stage {
        venv: newest.venv.clone(),
        collections: installed(root, newest),
    };
    step("secrets", &|| leaks::run(root, &stage))?;
    let unavailable = |why: String| Ok(format!("SKIPPED: {why}"));
    step("ansible-lint, profile production", &|| match tools(root) {
        Ok(venv) => lint(root, &venv, &stage),
        Err(why) => unavailable(why),
    })?;
    step("galaxy-importer", &|| match tools(root) {
        Ok(venv) => import(root, &venv, &tarball),
        Err(why) => unavailable(why),
    })?;
    step("ansible-builder", &|| crate::awx::builder(root))?;
    // 50 MB of package for one collection: not in every run.
    if full || only.is_some_and(|o| "AWX set up".contains(o)) {
        step("AWX set up", &|| crate::awx::setup(root, &stage))?;
    }
    // Half a minute with each, and as much again where its environments are not there yet: the newest always, the others in full.
    for c in cores.iter().filter(|c| full || c.minor == newest.minor) {
        step(&format!("ansible-test sanity 2.{}", c.minor), &|| {
            sanity(root, c)
        })?;
    }
    step("antsibull-changelog lint", &|| changelog(root))?;
    Ok(())
}

/// The oldest and the newest that this machine's Pythons allow, each in its own environment.
fn cores(root: &Path, full: bool) -> Result<Vec<Core>, String> {
    let can: Vec<(u32, PathBuf)> = CORES
        .iter()
        .filter_map(|(minor, min, max)| Some((*minor, env::python(*min, *max)?)))
        .collect();
    let mut wanted: Vec<u32> = can
        .first()
        .into_iter()
        .chain(can.last())
        .map(|c| c.0)
        .collect();
    if full {
        wanted.push(19);
        wanted.sort_unstable();
    }
    wanted.dedup();
    if wanted.len() < 2 {
        println!(
            "ansible: this machine's Python allows only one ansible-core; from 2.17 (Python 3.10 to 3.12) to 2.21 (3.12 to 3.14) are supported"
        );
    }
    can.into_iter()
        .filter(|(minor, _)| wanted.contains(minor))
        .map(|(minor, python)| {
            let package = format!("ansible-core>=2.{minor},<2.{}", minor + 1);
            let venv = env::venv(root, &format!(".venv-core2{minor}"), &python, &[&package])?;
            Ok(Core {
                minor,
                python,
                venv,
            })
        })
        .collect()
}

fn installed(root: &Path, core: &Core) -> PathBuf {
    root.join(format!(".lab/core2{}", core.minor))
}

fn install(root: &Path, core: &Core, tarball: &Path) -> Result<(), String> {
    let collections = installed(root, core);
    let _ = std::fs::remove_dir_all(&collections);
    let args: [&OsStr; 6] = [
        "collection".as_ref(),
        "install".as_ref(),
        "--force".as_ref(),
        "--collections-path".as_ref(),
        collections.as_os_str(),
        tarball.as_os_str(),
    ];
    env::output(root, core.venv.join("bin/ansible-galaxy"), &args).map(|_| ())
}

/// Documentation, syntax, and two stages on one version.
fn on_core(root: &Path, core: &Core) -> Result<String, String> {
    let collections = installed(root, core);
    let program = |name: &str| core.venv.join("bin").join(name);
    let ask = |name: &str, args: &[&str]| -> Result<String, String> {
        let mut c = Command::new(program(name));
        c.args(args)
            .current_dir(root)
            .stdin(Stdio::null())
            .env("ANSIBLE_COLLECTIONS_PATH", &collections)
            .env("ANSIBLE_NOCOLOR", "true");
        output(c)
    };
    let names: Vec<String> = docs::modules()
        .iter()
        .map(|s| format!("trueplan.virt.{}", s.name))
        .collect();
    let want: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let listed = ask("ansible-doc", &["-l", "trueplan.virt"])?;
    let have: BTreeSet<&str> = listed
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .filter(|w| w.starts_with("trueplan."))
        .collect();
    if have != want {
        return Err(format!(
            "ansible-doc -l lists {have:?}, the registry has {want:?}"
        ));
    }
    let modules: Vec<&str> = names.iter().map(String::as_str).collect();
    let text: Value =
        serde_json::from_str(&ask("ansible-doc", &[&["--json"], &modules[..]].concat())?)
            .map_err(|e| format!("ansible-doc --json: {e}"))?;
    for m in &modules {
        for part in ["doc", "examples", "return"] {
            if text[m][part].is_null() {
                return Err(format!("ansible-doc {m}: no {part}"));
            }
        }
    }
    // The printed form has failures of its own, such as markup that it cannot show.
    ask("ansible-doc", &modules)?;
    let inventory = ask("ansible-doc", &["-t", "inventory", "trueplan.virt.vms"])?;
    if !inventory.contains("filter_expressions") {
        return Err(format!(
            "the inventory plugin's documentation is not shown: {inventory}"
        ));
    }
    ask(
        "ansible-playbook",
        &[
            "--syntax-check",
            "-i",
            "localhost,",
            "trueplan.virt.migrate",
        ],
    )?;

    let stage = Stage {
        venv: core.venv.clone(),
        collections,
    };
    let lab = Lab::start(
        root,
        &root.join("tests/lab/demo-world.json"),
        &root.join(format!(".lab/lab-core2{}", core.minor)),
        1,
    )?;
    let starts = in_place(root, &stage, &lab)?;
    let play = |name: &str, more: &[&str]| {
        let args = [&["--limit", GUESTS], more].concat();
        demo::play(root, &stage, &lab, name, "sdn,build", &args)
    };
    let check = play("check", &["--check"])?;
    let real = play("real", &[])?;
    let again = play("again", &[])?;
    let t = truth::compare(&check.lines, &real.lines);
    let changed = |r: &demo::Run| {
        r.lines
            .iter()
            .filter(|l| l.ours() && l.status == "changed")
            .count()
    };
    let failed: Vec<String> = [&check, &real, &again]
        .iter()
        .flat_map(|r| &r.lines)
        .filter(|l| l.status == "failed")
        .map(|l| format!("{}: {}", l.key, l.result["msg"]))
        .collect();
    let said = format!(
        "{} modules documented; {starts}; truth {} of {}, {} writes in check, {} changed for real, {} again",
        modules.len(),
        t.equal,
        t.all,
        check.writes,
        changed(&real),
        changed(&again)
    );
    let good = t.all > 0
        && t.equal == t.all
        && check.writes == 0
        && changed(&real) > 0
        && changed(&again) == 0
        && again.writes == 0
        && failed.is_empty();
    if good {
        Ok(said)
    } else {
        Err(format!(
            "{said}\n  {}\n  {}",
            t.lies.join("\n  "),
            failed.join("\n  ")
        ))
    }
}

/// Tasks of tests/ansible/in_place.yml that are started in place.
const IN_PLACE: usize = 7;

/// What Ansible promises of a task holds where the action plugin starts the binary by itself; a task's end is the module's.
fn in_place(root: &Path, stage: &Stage, lab: &Lab) -> Result<String, String> {
    let log = lab.state.join("in-place.jsonl");
    // A server that takes a connection and says nothing.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let port = deaf.local_addr().map_err(|e| e.to_string())?.port();
    let mut c = stage.command(root, lab, "ansible-playbook", &log, "whole");
    let password = lab.world["pve"]["users"][0]["password"].as_str();
    c.env_remove("PROXMOX_TOKEN_ID")
        .env_remove("PROXMOX_TOKEN_SECRET")
        .env("PROXMOX_USER", "root@pam")
        .env("PROXMOX_PASSWORD", password.unwrap_or_default());
    c.arg(root.join("tests/ansible/in_place.yml"))
        .args(["-vvv", "-i", "localhost,", "-e"])
        .arg(json!({"slow_host": "127.0.0.1", "slow_port": port}).to_string())
        .arg("--vault-password-file")
        .arg(root.join("tests/ansible/vault-password"));
    let (out, err, ok) = all(c)?;
    if !ok {
        return Err(format!("in_place.yml:\n{out}\n{err}"));
    }
    let starts = out.lines().filter(|l| l.contains("(in place)")).count();
    if starts != IN_PLACE {
        return Err(format!(
            "in_place.yml: {starts} starts in place, expected {IN_PLACE}:\n{out}"
        ));
    }
    let marker = format!("{}/", stage.collections.display());
    let left = running(&marker);
    if !left.is_empty() {
        return Err(format!("in_place.yml: still running: {left:?}"));
    }
    Ok(format!("{starts} started in place"))
}

/// Command lines of processes that have this in them.
fn running(text: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text) && line.contains("pve_user_info -"))
        .collect()
}

/// Environment of ansible-lint and galaxy-importer.
fn tools(root: &Path) -> Result<PathBuf, String> {
    // galaxy-importer pins libraries that have no wheels for newer ones.
    let python = env::python(11, 12)
        .or_else(|| env::python(13, 14))
        .ok_or("they need a Python from 3.11 on")?;
    env::venv(
        root,
        ".venv-galaxy",
        &python,
        &["galaxy-importer", "ansible-lint", "ansible-core"],
    )
}

/// A command that finds the environment's programs first.
fn with_path(venv: &Path, program: &str) -> Command {
    let mut c = Command::new(venv.join("bin").join(program));
    let old = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(venv.join("bin")).chain(std::env::split_paths(&old));
    if let Ok(path) = std::env::join_paths(folders) {
        c.env("PATH", path);
    }
    c.stdin(Stdio::null()).env("ANSIBLE_NOCOLOR", "true");
    c
}

fn lint(root: &Path, venv: &Path, stage: &Stage) -> Result<String, String> {
    let mut c = with_path(venv, "ansible-lint");
    c.args([
        "--offline",
        "--nocolor",
        "-p",
        "--profile",
        "production",
        "-c",
    ])
    .arg(root.join(".ansible-lint"))
    .current_dir(stage.collections.join("ansible_collections/trueplan/virt"))
    .env("ANSIBLE_COLLECTIONS_PATH", &stage.collections);
    let (out, err, ok) = all(c)?;
    let last = err
        .lines()
        .rfind(|l| !l.trim().is_empty())
        .unwrap_or_default();
    // Given a folder by name it looks at one "file" only, and passes.
    let processed: usize = last
        .split(" files processed")
        .next()
        .and_then(|l| l.rsplit(' ').next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    if ok && out.trim().is_empty() && last.starts_with("Passed:") && processed > 50 {
        Ok(last.to_owned())
    } else {
        Err(format!("{out}\n{err}"))
    }
}

fn import(root: &Path, venv: &Path, tarball: &Path) -> Result<String, String> {
    let folder = root.join(".lab/importer");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let mut c = with_path(venv, "python");
    c.args(["-m", "galaxy_importer.main", "--print-result"])
        .arg(tarball)
        .current_dir(&folder);
    let (out, err, ok) = all(c)?;
    let complaints: Vec<&str> = out
        .lines()
        .chain(err.lines())
        .filter(|l| l.starts_with("WARNING") || l.starts_with("ERROR"))
        .collect();
    let (before, result) = out.split_once("\n{").unwrap_or((&out, ""));
    let result = format!("{{{result}");
    let result: Value = serde_json::Deserializer::from_str(&result)
        .into_iter()
        .next()
        .and_then(Result::ok)
        .unwrap_or_default();
    let contents = result["docs_blob"]["contents"].as_array();
    let documented: Vec<&str> = contents
        .into_iter()
        .flatten()
        .filter(|c| c["content_type"] == "module" && c["doc_strings"]["doc"]["options"].is_array())
        .filter_map(|c| c["content_name"].as_str())
        .collect();
    let missing: Vec<&str> = docs::modules()
        .iter()
        .map(|s| s.name)
        .filter(|n| !documented.contains(n))
        .collect();
    if ok && complaints.is_empty() && missing.is_empty() {
        Ok(format!(
            "{} modules documented, no warning",
            documented.len()
        ))
    } else {
        Err(format!(
            "not documented: {missing:?}; complaints: {complaints:#?}\n{before}\n{err}"
        ))
    }
}

/// ansible-test sanity, in a copy that is a git work tree of its own, since files that an outer one ignores are left out.
fn sanity(root: &Path, core: &Core) -> Result<String, String> {
    let top = root.join(format!(".lab/sanity2{}", core.minor));
    let io = |e: std::io::Error| format!("{}: {e}", top.display());
    std::fs::create_dir_all(&top).map_err(io)?;
    let copy = top.join("ansible_collections");
    // ansible-test's environments lie there, at paths of their own: made once (a minute), kept for the next run.
    let (output, kept) = (copy.join("trueplan/virt/tests/output"), top.join("output"));
    if output.is_dir() {
        let _ = std::fs::remove_dir_all(&kept);
        std::fs::rename(&output, &kept).map_err(io)?;
    }
    let _ = std::fs::remove_dir_all(&copy);
    let from = installed(root, core).join("ansible_collections");
    let args: [&OsStr; 3] = ["-a".as_ref(), from.as_os_str(), copy.as_os_str()];
    env::run(root, "cp", &args)?;
    let here = copy.join("trueplan/virt");
    std::fs::create_dir_all(here.join("tests")).map_err(io)?;
    let from = root.join("tests/sanity");
    let to = here.join("tests/sanity");
    let args: [&OsStr; 3] = ["-a".as_ref(), from.as_os_str(), to.as_os_str()];
    env::run(root, "cp", &args)?;
    if kept.is_dir() {
        std::fs::rename(&kept, &output).map_err(io)?;
    }
    env::run(&here, "git", &["init", "--quiet", "."])?;
    // Where ansible-test keeps its own environment.
    std::fs::write(here.join(".git/info/exclude"), "/tests/output/\n").map_err(io)?;
    let home = root.join(".lab/home");
    let pip = pip_stub(&home, &core.venv)?;

    let version = env::output(
        root,
        &core.python,
        &["-c", "import sys; print('3.%d' % sys.version_info[1])"],
    )?;
    let mut c = with_path(&core.venv, "ansible-test");
    c.args([
        "sanity",
        "--venv",
        "--color",
        "no",
        "--lint",
        "--python",
        version.trim(),
    ])
    .current_dir(&here)
    .env("HOME", &home);
    // Its environments and its stub of get-pip are ours; what pip has fetched before is everybody's.
    if let Some(h) = std::env::var_os("HOME") {
        c.env("PIP_CACHE_DIR", Path::new(&h).join(".cache/pip"));
    }
    let (out, err, ok) = all(c)?;
    let ran = err
        .lines()
        .filter(|l| l.starts_with("Running sanity test"))
        .count();
    if ok && out.trim().is_empty() && ran > 10 {
        Ok(format!("{ran} tests, no finding (pip {pip})"))
    } else {
        let tail: Vec<&str> = err.lines().rev().take(15).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        Err(format!("{ran} tests\n{out}\n{}", tail.join("\n")))
    }
}

/// ansible-test fetches get-pip from a host of its own, which a closed network does not reach; Python's ensurepip does the same.
fn pip_stub(home: &Path, venv: &Path) -> Result<String, String> {
    let code = "import ansible_test, os, re; t = open(os.path.join(os.path.dirname(ansible_test.__file__), '_internal/python_requirements.py')).read(); print(' '.join(re.findall(r\"pip='([0-9.]+)'\", t)))";
    let versions = env::output(
        home.parent().unwrap_or(home),
        venv.join("bin/python"),
        &["-c", code],
    )?;
    let cache = home.join(".ansible/test/cache");
    std::fs::create_dir_all(&cache).map_err(|e| format!("{}: {e}", cache.display()))?;
    for v in versions.split_whitespace() {
        let file = cache.join(format!("get_pip_{}.py", v.replace('.', "_")));
        std::fs::write(&file, "import ensurepip\nensurepip.bootstrap()\n")
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(versions.split_whitespace().collect::<Vec<_>>().join(", "))
}

fn changelog(root: &Path) -> Result<String, String> {
    let python = env::python(11, 14).ok_or("no Python from 3.11 to 3.14")?;
    let venv = match env::venv(root, ".venv-changelog", &python, &["antsibull-changelog"]) {
        Ok(v) => v,
        Err(why) => return Ok(format!("SKIPPED: {why}")),
    };
    let mut c = with_path(&venv, "antsibull-changelog");
    c.arg("lint").current_dir(root);
    let (out, err, ok) = all(c)?;
    let mut c = with_path(&venv, "antsibull-changelog");
    c.arg("lint-changelog-yaml")
        .arg("changelogs/changelog.yaml")
        .current_dir(root);
    let (out2, err2, ok2) = all(c)?;
    if ok && ok2 {
        Ok("fragments and changelog.yaml are as they should be".into())
    } else {
        Err(format!("{out}{err}{out2}{err2}"))
    }
}

fn all(mut c: Command) -> Result<(String, String, bool), String> {
    let o = c.output().map_err(|e| format!("{c:?}: {e}"))?;
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    Ok((text(&o.stdout), text(&o.stderr), o.status.success()))
}

fn output(c: Command) -> Result<String, String> {
    let what = format!("{c:?}");
    let (out, err, ok) = all(c)?;
    if ok {
        Ok(out)
    } else {
        Err(format!("{what}\n{out}\n{err}"))
    }
}
