//! `cargo xtask bench`: ours and the peers' side by side, in alternation, in one run; the table goes to docs/BENCHMARKS.md.

mod cases;
mod measure;
mod report;
mod worlds;

use crate::demo::Stage;
use crate::lab::Lab;
use crate::{dist, env};
use cases::{Case, Side};
use measure::{Job, Runner, Took};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Latency that is added to each call for the second half of the table, in milliseconds.
const LATENCY_MS: u64 = 10;

/// What a case needs to make its commands.
pub struct Bench<'a> {
    lab: &'a Lab,
    folder: PathBuf,
    venv: PathBuf,
    binary: PathBuf,
    collections: PathBuf,
}

impl Bench<'_> {
    fn ca(&self) -> String {
        self.lab.state.join("ca.pem").display().to_string()
    }

    /// Writes a file of JSON, which YAML is too; gives its path.
    fn file(&self, name: &str, content: &Value) -> Result<String, String> {
        let path = self.folder.join(name);
        std::fs::write(&path, content.to_string())
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path.display().to_string())
    }

    fn job(&self, program: &Path, args: &[String]) -> Job {
        let mut argv = vec![program.display().to_string()];
        argv.extend(args.iter().cloned());
        let mut all: BTreeMap<String, String> = ["PATH", "HOME"]
            .into_iter()
            .filter_map(|k| Some((k.to_owned(), std::env::var(k).ok()?)))
            .collect();
        for (k, v) in [
            ("LANG", "C.UTF-8".to_owned()),
            (
                "ANSIBLE_COLLECTIONS_PATH",
                self.collections.display().to_string(),
            ),
            (
                "ANSIBLE_LIBRARY",
                self.folder.join("library").display().to_string(),
            ),
            ("ANSIBLE_LOCALHOST_WARNING", "false".to_owned()),
            ("ANSIBLE_INVENTORY_UNPARSED_FAILED", "true".to_owned()),
            ("ANSIBLE_DEPRECATION_WARNINGS", "false".to_owned()),
            // The peers' way to trust the lab: their modules know no CA option.
            ("SSL_CERT_FILE", self.ca()),
            ("REQUESTS_CA_BUNDLE", self.ca()),
        ] {
            all.insert(k.to_owned(), v);
        }
        Job {
            argv,
            env: all,
            stdin: None,
        }
    }
}

/// A case's figures: medians, and what each side's last run said of itself.
pub struct Measured {
    name: String,
    ours: Took,
    theirs: Took,
    /// With latency.
    slow_ours: Took,
    slow_theirs: Took,
    said: (String, String),
}

/// Runs everything whose name contains `only`; `quick` runs each once with development builds, to see that it works.
pub fn run(root: &Path, only: Option<&str>, quick: bool) -> Result<(), String> {
    let venv = env::peers(root)?;
    let tarball = dist::run(
        root,
        &dist::Wanted {
            check: true,
            debug: quick,
            archs: &[],
        },
    )?;
    let stage = Stage::install_tarball(root, &tarball)?;
    let folder = root.join(".lab/bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("library")).map_err(|e| e.to_string())?;
    empty_module(&folder.join("library/empty"))?;
    let binary = stage
        .collections
        .join("ansible_collections/trueplan/virt/plugins/bin/trueplan");
    let cases: Vec<Case> = cases::all()
        .into_iter()
        .filter(|c| only.is_none_or(|o| c.name.contains(o)))
        .collect();
    let world = folder.join("world.json");
    let mut now = cases.first().map_or((2, 10), |c| c.world);
    std::fs::write(&world, worlds::world(now.0, now.1).to_string()).map_err(|e| e.to_string())?;
    let state = folder.join("state");
    let mut lab = if quick {
        Lab::start(root, &world, &state, 1)?
    } else {
        Lab::start_optimized(root, &world, &state, 1)?
    };
    let mut runner = Runner::start(root, &venv.join("bin/python"), &folder)?;
    let mut done = vec![];
    for case in &cases {
        if case.world != now {
            lab.reset(&worlds::world(case.world.0, case.world.1))?;
            now = case.world;
        }
        let bench = Bench {
            lab: &lab,
            folder: folder.clone(),
            venv: venv.clone(),
            binary: binary.clone(),
            collections: stage.collections.clone(),
        };
        for m in measured(&bench, &mut runner, case, quick)? {
            println!("{}", report::line(&m));
            done.push(m);
        }
    }
    // The parts around the table can be asked for by their own names.
    let wants = |part: &str| only.is_none_or(|o| part.contains(o));
    let bench = Bench {
        lab: &lab,
        folder: folder.clone(),
        venv: venv.clone(),
        binary,
        collections: stage.collections.clone(),
    };
    let mut floor = vec![];
    if wants("floors") {
        floor = floors(&bench, &mut runner, quick)?;
    }
    drop(bench);
    let mut grown = vec![];
    if wants("growth") {
        grown = growth(&mut lab, &mut runner, &folder, &venv, &stage, quick)?;
    }
    if only.is_some() || quick {
        print!("{}", report::around(&floor, &grown));
        return Ok(());
    }
    report::write(root, &venv, &done, &floor, &grown)
}

/// Ours and theirs by turns, so that a slow minute of the machine meets both; and a part of ours that stands against the same of theirs.
fn measured(
    bench: &Bench<'_>,
    runner: &mut Runner,
    case: &Case,
    quick: bool,
) -> Result<Vec<Measured>, String> {
    let rounds = if quick { (1, 1) } else { case.rounds };
    let mut makes = vec![(Side::Ours, &case.make), (Side::Theirs, &case.make)];
    makes.extend(case.part.iter().map(|(_, make)| (Side::Ours, make)));
    let mut took = [vec![vec![]; makes.len()], vec![vec![]; makes.len()]];
    let mut said = vec![String::new(); makes.len()];
    // Once beforehand, not counted: caches of files, byte code of Python.
    let mut round = 0;
    for (slow, n) in [(0, rounds.0), (1, rounds.1)] {
        if slow == 1 {
            let rule = |side: &str| json!({"side": side, "path": ".*", "every": 1, "do": {"delay_ms": LATENCY_MS}});
            bench.lab.fault(&json!([rule("pve"), rule("vcenter")]))?;
        }
        let warm = usize::from(slow == 0 && !quick && case.rounds.0 > 1);
        for i in 0..n + warm {
            for (k, (side, make)) in makes.iter().enumerate() {
                let job = make(bench, *side, round)?;
                let before = bench.lab.requests()?;
                let (mut t, text) = runner
                    .run(&job, 0)
                    .map_err(|e| format!("{}: {e}", case.name))?;
                #[allow(clippy::cast_precision_loss)]
                {
                    t.calls = (bench.lab.requests()? - before) as f64;
                }
                if i >= warm {
                    took[slow][k].push(t);
                }
                said[k] = report::said(&text);
            }
            round += 1;
        }
    }
    bench.lab.clear_faults()?;
    let median = |slow: usize, k: usize| Took::median(&took[slow][k]);
    let names = std::iter::once((case.name.clone(), 0));
    let parts = case.part.iter().map(|(name, _)| (name.clone(), 2));
    let lines = names.chain(parts).map(|(name, ours)| Measured {
        name,
        ours: median(0, ours),
        theirs: median(0, 1),
        slow_ours: median(1, ours),
        slow_theirs: median(1, 1),
        said: (said[ours].clone(), said[1].clone()),
    });
    Ok(lines.collect())
}

/// What nothing can be faster than: a name and its figures.
pub struct Floor {
    name: &'static str,
    took: Took,
}

/// An empty module in Ansible, an empty program, one TLS handshake; and the steps of one unchanged run of ours, told apart by where it ends.
fn floors(bench: &Bench<'_>, runner: &mut Runner, quick: bool) -> Result<Vec<Floor>, String> {
    let rounds = |n: usize| if quick { 1 } else { n };
    let mut all = vec![];
    let mut many = |name: &'static str, n: usize, rc: i64, job: &Job| -> Result<(), String> {
        let mut took = vec![];
        for _ in 0..rounds(n) {
            took.push(runner.run(job, rc).map_err(|e| format!("{name}: {e}"))?.0);
        }
        all.push(Floor {
            name,
            took: Took::median(&took),
        });
        Ok(())
    };
    let tasks: Vec<_> = (0..40)
        .map(|i| (format!("empty {i}"), "empty", json!({})))
        .collect();
    let play = empty_play(bench, &tasks)?;
    many(
        "playbook: 40 tasks of an empty module (a shell script)",
        3,
        0,
        &play,
    )?;
    many(
        "an empty program (/bin/true)",
        50,
        0,
        &bench.job(Path::new("/bin/true"), &[]),
    )?;
    many(
        "trueplan --version",
        50,
        0,
        &bench.job(&bench.binary, &["--version".into()]),
    )?;
    // What ansible-inventory needs for its printing, however the hosts came to be: as long a text as it prints of 2,000 machines with devices.
    let print = env::root().join("tests/bench/print_only.py");
    many(
        "ansible-inventory --list: no host, a text of 73 MB",
        3,
        0,
        &bench.job(
            &bench.venv.join("bin/python"),
            &[print.display().to_string(), "73018343".into()],
        ),
    )?;
    let wrong = bench.file("wrong.json", &json!({"vmid": "x", "interface": "scsi0"}))?;
    many(
        "pve_nic, wrong arguments",
        50,
        1,
        &bench.job(&bench.binary, &["pve_nic".into(), wrong]),
    )?;
    let mut nic = cases::sign_in(bench, "pve_");
    nic["vmid"] = json!(worlds::FIRST);
    nic["node"] = json!("pve1");
    nic["interface"] = json!("net0");
    nic["tag"] = json!(20);
    nic["api_token_secret"] = json!("00000000-0000-0000-0000-000000000000");
    let file = bench.file("stranger.json", &nic)?;
    many(
        "pve_nic, token refused: TLS handshake and one call",
        20,
        1,
        &bench.job(&bench.binary, &["pve_nic".into(), file]),
    )?;
    nic["api_token_secret"] = json!(worlds::TOKEN);
    let file = bench.file("nic.json", &nic)?;
    many(
        "pve_nic, unchanged",
        20,
        0,
        &bench.job(&bench.binary, &["pve_nic".into(), file]),
    )?;
    Ok(all)
}

fn empty_play(bench: &Bench<'_>, tasks: &[(String, &'static str, Value)]) -> Result<Job, String> {
    let tasks: Vec<Value> = tasks
        .iter()
        .map(|(name, module, args)| json!({"name": name, *module: args}))
        .collect();
    let book = bench.file(
        "empty.yml",
        &json!([{"name": "Floor", "hosts": "all", "gather_facts": false, "tasks": tasks}]),
    )?;
    let hosts = bench.file(
        "empty-hosts.yml",
        &json!({"all": {"hosts": {"one": {"ansible_connection": "local"}}}}),
    )?;
    Ok(bench.job(
        &bench.venv.join("bin/ansible-playbook"),
        &["-i".into(), hosts, book],
    ))
}

fn empty_module(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let io = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::write(path, "#!/bin/sh\necho '{\"changed\": false}'\n").map_err(io)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(io)
}

/// Ours on a growing estate: guests, and what an unchanged nic, vm_info and the inventory's query take.
pub struct Growth {
    guests: usize,
    nic: Took,
    info: Took,
    inventory: Took,
}

fn growth(
    lab: &mut Lab,
    runner: &mut Runner,
    folder: &Path,
    venv: &Path,
    stage: &Stage,
    quick: bool,
) -> Result<Vec<Growth>, String> {
    let binary = stage
        .collections
        .join("ansible_collections/trueplan/virt/plugins/bin/trueplan");
    let mut all = vec![];
    for guests in [100, 200, 400, 800, 1600, 3200] {
        lab.reset(&worlds::world(guests, guests))?;
        let bench = Bench {
            lab,
            folder: folder.to_path_buf(),
            venv: venv.to_path_buf(),
            binary: binary.clone(),
            collections: stage.collections.clone(),
        };
        let with = |more: Value| {
            let mut a = cases::sign_in(&bench, "pve_");
            if let (Some(a), Some(b)) = (a.as_object_mut(), more.as_object()) {
                a.extend(b.clone());
            }
            a
        };
        let nic = bench.file(
            "nic.json",
            &with(json!({"vmid": worlds::FIRST, "node": "pve1", "interface": "net0", "tag": 20})),
        )?;
        let info = bench.file("info.json", &with(json!({})))?;
        let jobs = [
            bench.job(&bench.binary, &["pve_nic".into(), nic]),
            bench.job(&bench.binary, &["pve_vm_info".into(), info]),
            cases::inventory_alone(&bench, true)?,
        ];
        let mut took = vec![];
        for job in &jobs {
            let mut each = vec![];
            for _ in 0..if quick { 1 } else { 15 } {
                each.push(runner.run(job, 0)?.0);
            }
            took.push(Took::median(&each));
        }
        all.push(Growth {
            guests,
            nic: took[0],
            info: took[1],
            inventory: took[2],
        });
    }
    Ok(all)
}
