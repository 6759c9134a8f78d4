//! Generated playbooks: many through the binary with its ledger (tests/cli/playbooks.rs), a few dozen of the same through ansible-playbook.

use super::engine::Round;
use super::figures::Figures;
use super::labs::Yard;
use super::report;
use super::scenario::{Scenario, Side};
use crate::demo::Stage;
use crate::scenarios;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// One in so many also goes through ansible-playbook.
const THROUGH_ANSIBLE: u64 = 25;

/// All lines; those of the generator's progress go to standard error as well.
fn listen(lines: impl BufRead) -> String {
    let mut all = String::new();
    for l in lines.lines().map_while(Result::ok) {
        if l.starts_with("playbooks: seed") {
            eprintln!("xtask: {l}");
        }
        all.push_str(&l);
        all.push('\n');
    }
    all
}

/// The generator's test, with these variables; gives its line of figures and whether it passed.
fn generator(root: &Path, vars: &[(&str, String)]) -> Result<(String, bool), String> {
    let mut c = Command::new("cargo");
    c.args(["test", "--quiet", "--locked", "--package", "trueplan"])
        .args([
            "--test",
            "cli_generated",
            "playbooks::",
            "--",
            "--nocapture",
        ])
        .current_dir(root)
        .stdin(Stdio::null());
    for (k, v) in vars {
        c.env(k, v);
    }
    c.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = c.spawn().map_err(|e| format!("cargo test: {e}"))?;
    // A long run shows that it goes on, and each find at once.
    let heard = child
        .stderr
        .take()
        .map(|e| std::thread::spawn(move || listen(BufReader::new(e))));
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut said)
            .map_err(|e| format!("cargo test: {e}"))?;
    }
    let status = child.wait().map_err(|e| format!("cargo test: {e}"))?;
    let heard = heard.and_then(|h| h.join().ok()).unwrap_or_default();
    let text = format!("{heard}{said}");
    let line = text.lines().find(|l| {
        l.starts_with("playbooks: ") && l.contains(" disagreements") && !l.ends_with("so far")
    });
    match line {
        Some(_) if !status.success() => Ok((text, false)),
        Some(l) => Ok((l.to_owned(), true)),
        None => Err(format!("the generator did not run:\n{text}")),
    }
}

/// Playbooks mostly wait, for tasks and for guests that do not shut down: so many ranges of seeds run at a time.
const LANES: u64 = 4;

/// `cargo xtask truth --generate N --seed S`.
pub fn run(root: &Path, many: u64, seed: u64) -> Result<(), String> {
    let each = many.div_ceil(LANES).max(1);
    let ranges: Vec<(u64, u64)> = (0..many.div_ceil(each))
        .map(|lane| (seed + lane * each, each.min(many - lane * each)))
        .collect();
    let all: Vec<Result<(String, bool), String>> = std::thread::scope(|threads| {
        let lanes: Vec<_> = ranges
            .iter()
            .map(|(from, many)| {
                threads.spawn(move || {
                    let range = [
                        ("TRUEPLAN_TEST_SEED", from.to_string()),
                        ("TRUEPLAN_TEST_CASES", many.to_string()),
                    ];
                    generator(root, &range)
                })
            })
            .collect();
        lanes
            .into_iter()
            .map(|l| l.join().unwrap_or_else(|_| Err("a lane died".into())))
            .collect()
    });
    let mut good = true;
    for one in all {
        let (said, fine) = one?;
        println!("{said}");
        good &= fine;
    }
    if !good {
        return Err("check and real runs disagree, see above".into());
    }
    println!(
        "playbooks: {many} generated, seeds {seed}..{}: 0 disagreements",
        seed + many - 1
    );
    through_ansible(root, many.div_ceil(THROUGH_ANSIBLE), seed)
}

/// A binary whose pve_nic foresees nothing must be found out within 100 playbooks.
pub fn broken(root: &Path, binary: &Path) -> Result<(), String> {
    let (said, good) = generator(
        root,
        &[
            ("TRUEPLAN_TEST_SEED", "1".into()),
            ("TRUEPLAN_TEST_CASES", "100".into()),
            ("TRUEPLAN_TEST_SHOWN", "1".into()),
            ("TRUEPLAN_TEST_BINARY", binary.display().to_string()),
        ],
    )?;
    if good {
        return Err(format!("the broken pve_nic was not noticed: {said}"));
    }
    let line = said.lines().find(|l| l.starts_with("playbooks: seed"));
    println!(
        "with a planner broken on purpose, generated {}",
        line.unwrap_or_default()
    );
    Ok(())
}

/// The same with a binary that is built for it.
pub fn broken_alone(root: &Path) -> Result<(), String> {
    broken(root, &scenarios::broken_binary(root)?)
}

/// The first playbooks of that seed through ansible-playbook, one host each; ours only.
fn through_ansible(root: &Path, many: u64, seed: u64) -> Result<(), String> {
    let dump = root.join(".lab/generated.json");
    let _ = std::fs::remove_file(&dump);
    generator(
        root,
        &[
            ("TRUEPLAN_TEST_SEED", seed.to_string()),
            ("TRUEPLAN_TEST_CASES", many.to_string()),
            ("TRUEPLAN_TEST_DUMP", dump.display().to_string()),
        ],
    )?;
    let text = std::fs::read_to_string(&dump).map_err(|e| format!("{}: {e}", dump.display()))?;
    let all: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", dump.display()))?;
    let scenarios: Vec<Scenario> = all
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| {
            let seed = &p["seed"];
            let mut tasks = vec![];
            for (i, t) in p["tasks"].as_array().into_iter().flatten().enumerate() {
                let mut task = Map::new();
                task.insert("name".into(), json!(format!("Task {i}")));
                let module = t["module"].as_str().unwrap_or_default();
                task.insert(format!("trueplan.virt.{module}"), t["args"].clone());
                task.insert("ignore_errors".into(), json!(true));
                tasks.push(Value::Object(task));
            }
            // Scenarios are data of the program; these live as long as it does, too.
            let name: &'static str = Box::leak(format!("generated {seed}").into_boxed_str());
            let yaml: &'static str = Box::leak(json!(tasks).to_string().into_boxed_str());
            Scenario::new(name, "generated", p["world"].clone())
                .tasks(yaml)
                .without_peers()
        })
        .collect();
    let stage = Stage::install(root, true)?;
    let yard = Yard::open()?;
    let round = Round {
        root,
        stage: &stage,
        yard: &yard,
        seed: 1,
        side: Side::Ours,
    };
    let mut sum = Figures::default();
    for f in round.run(&scenarios)? {
        sum.add(&f);
    }
    println!(
        "playbooks through ansible-playbook: {} of seeds {seed}..{}: {} results, {} disagreements, {} announced, {} writes in check, {} of {} tasks honest",
        scenarios.len(),
        seed + many - 1,
        sum.right + sum.wrong,
        sum.wrong,
        sum.announced,
        sum.writes,
        sum.honest,
        sum.honest + sum.dishonest
    );
    // Generated tasks undo each other, so that a third run has much to do: `rest` says nothing here.
    if sum.wrong == 0 && sum.writes == 0 && sum.dishonest == 0 && sum.right > 0 {
        Ok(())
    } else {
        Err(report::list(&sum))
    }
}
