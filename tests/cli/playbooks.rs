//! Generated playbooks: all tasks in one check run, through the ledger, and then in earnest; each is what was foretold.
//!
//! `cargo xtask truth --generate N --seed S` runs these; TRUEPLAN_TEST_BINARY runs another binary than the one of this build.

use crate::generate::Gen;
use crate::generate::playbook::{self, Playbook};
use crate::support::triple::agree_but;
use crate::support::{Done, Lab, full};
use serde_json::{Value, json};
use std::io::Write;

/// So many always; with TRUEPLAN_TEST_FULL=1 as many as the issue asks for.
const FEW: u64 = 25;
const MANY: u64 = 1000;
/// So often a disagreement is tried with less.
const SHRINKS: usize = 80;
/// A word after so many.
const PROGRESS: u64 = 50;
/// A lab's request log grows with every run.
const PLAYBOOKS_A_LAB: u64 = 20;

/// What came of a playbook: results, and how many of them were failures and changes.
#[derive(Default)]
struct Came {
    results: usize,
    failed: usize,
    changed: usize,
    announced: usize,
}

/// Check, real, and the last task once more; panics where they disagree.
fn attempt(lab: &Lab, p: &Playbook) -> Came {
    lab.reset(Some(p.world.clone()));
    let mut came = Came::default();
    // Twice: the second time on what the first has made.
    for round in ["first", "second"] {
        let ledger = tempfile::tempdir().expect("a folder");
        let (writes, files) = (lab.writes(), lab.files());
        let checks: Vec<Done> = p
            .tasks
            .iter()
            .map(|t| {
                super::call(lab, t.module, &Value::Object(t.args.clone()), p.login)
                    .check(true)
                    .ledger(ledger.path())
                    .run()
            })
            .collect();
        if lab.writes() != writes || lab.files() != files {
            checks[0].fail("the check run wrote");
        }
        for (n, (t, check)) in p.tasks.iter().zip(&checks).enumerate() {
            if check["error_kind"] == "internal" {
                check.fail("an internal error");
            }
            let call = super::call(lab, t.module, &Value::Object(t.args.clone()), p.login);
            let real = call.run();
            if std::env::var_os("TRUEPLAN_TEST_WHY").is_some() {
                let _ = writeln!(
                    std::io::stderr(),
                    "  {:?} {:?} {} {}",
                    check.took,
                    real.took,
                    t.module,
                    real.msg()
                );
            }
            came.results += 1;
            came.failed += usize::from(real.is_failed());
            came.changed += usize::from(real.changed());
            if check["unverified"].is_array() {
                // What the check run itself did not promise; the tasks after it build on that.
                came.announced += checks.len() - n;
                return came;
            }
            agree_but(check, &real, &[]);
            if real.warnings().iter().any(|w| w.contains("foreseen")) {
                real.fail("the server did something else than foreseen");
            }
            if n + 1 == checks.len() && t.repeatable && !real.is_failed() && round == "first" {
                let again = call.run();
                if again.is_failed() || again.changed() {
                    again.fail("once more, it is not unchanged");
                }
            }
        }
    }
    came
}

fn shrink(lab: &Lab, mut p: Playbook, mut why: String) -> (Playbook, String) {
    let mut left = SHRINKS;
    'again: loop {
        for s in playbook::smaller(&p) {
            if left == 0 {
                break 'again;
            }
            left -= 1;
            if let Err(e) = super::caught(|| attempt(lab, &s))
                && super::kind(&e).split(" differs").next()
                    == super::kind(&why).split(" differs").next()
            {
                (p, why) = (s, e);
                continue 'again;
            }
        }
        break;
    }
    (p, why)
}

fn show(p: &Playbook) -> String {
    let tasks: Vec<String> = p
        .tasks
        .iter()
        .map(|t| format!("   {} {}", t.module, Value::Object(t.args.clone())))
        .collect();
    format!(
        "as {}, of guests {}\n{}",
        p.login,
        p.world["pve"]["guests"],
        tasks.join("\n")
    )
}

/// Writes them down for `cargo xtask truth --generate`, which runs them through ansible-playbook as root.
fn dump(seeds: std::ops::Range<u64>, file: &std::path::Path) {
    let all: Vec<Value> = seeds
        .clone()
        .map(|seed| (seed, playbook::playbook(&mut Gen::new(seed))))
        .map(|(seed, p)| {
            let tasks: Vec<Value> = p
                .tasks
                .iter()
                .map(|t| json!({"module": t.module, "args": t.args}))
                .collect();
            json!({"seed": seed, "world": p.world, "tasks": tasks})
        })
        .collect();
    std::fs::write(file, json!(all).to_string()).expect("the file");
    let _ = writeln!(
        std::io::stderr(),
        "playbooks: {} written down, 0 disagreements",
        all.len()
    );
}

#[test]
fn playbooks() {
    let first = super::number("TRUEPLAN_TEST_SEED").unwrap_or(1);
    let many = super::number("TRUEPLAN_TEST_CASES").unwrap_or(if full() { MANY } else { FEW });
    let most = super::number("TRUEPLAN_TEST_SHOWN").unwrap_or(10);
    if let Some(file) = std::env::var_os("TRUEPLAN_TEST_DUMP") {
        return dump(first..first + many, std::path::Path::new(&file));
    }
    let mut lab = None;
    let mut sum = Came::default();
    let mut wrong: Vec<String> = vec![];
    let mut done: u64 = 0;
    for seed in first..first + many {
        let p = playbook::playbook(&mut Gen::new(seed));
        if (seed - first).is_multiple_of(PLAYBOOKS_A_LAB) {
            lab = None;
        }
        let lab = lab.get_or_insert_with(|| Lab::start(p.world.clone()));
        done += 1;
        if done.is_multiple_of(PROGRESS) {
            let _ = writeln!(
                std::io::stderr(),
                "playbooks: seeds {first}..{seed}: {} disagreements so far",
                wrong.len()
            );
        }
        let since = std::time::Instant::now();
        let outcome = super::caught(|| attempt(lab, &p));
        if std::env::var_os("TRUEPLAN_TEST_WHY").is_some() {
            let _ = writeln!(std::io::stderr(), "seed {seed}: {:?}", since.elapsed());
        }
        match outcome {
            Ok(c) => {
                sum.results += c.results;
                sum.failed += c.failed;
                sum.changed += c.changed;
                sum.announced += c.announced;
            }
            Err(why) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "playbooks: seed {seed}: {}",
                    super::kind(&why)
                );
                let (p, why) = if super::number("TRUEPLAN_TEST_NO_SHRINK").is_some() {
                    (p, why)
                } else {
                    shrink(lab, p, why)
                };
                wrong.push(format!("==== seed {seed}\n{}\n{why}", show(&p)));
            }
        }
        if wrong.len() as u64 >= most {
            break;
        }
    }
    let line = format!(
        "playbooks: {done} of 2 to 8 tasks, {} disagreements ({} results: {} failed, {} changed; {} announced), seeds {first}..{}",
        wrong.len(),
        sum.results,
        sum.failed,
        sum.changed,
        sum.announced,
        first + done - 1
    );
    let _ = writeln!(std::io::stderr(), "{line}");
    assert!(wrong.is_empty(), "{line}\n{}", wrong.join("\n"));
}
