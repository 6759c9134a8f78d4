//! `cargo xtask test`: every check of the project, in the order in which they are cheapest to fail.

use crate::{ansible, demo, docs, env, scenarios, truth};
use std::path::Path;
use std::time::Instant;

type Check<'a> = (&'a str, Box<dyn Fn() -> Result<(), String> + 'a>);

/// Runs all checks; stops at the first that fails. `full` runs the large counts: generated tests, several lab seeds.
pub fn run(root: &Path, full: bool) -> Result<(), String> {
    let cargo = |args: &'static [&'static str]| move || env::run(root, "cargo", args);
    let clippy = &[
        "clippy",
        "--quiet",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let seeds: &[u64] = if full { &[1, 2, 3] } else { &[1] };
    let checks: Vec<Check<'_>> = vec![
        ("qemu-img", Box::new(env::qemu_img)),
        ("formatting", Box::new(cargo(&["fmt", "--all", "--check"]))),
        ("lints", Box::new(cargo(clippy))),
        (
            "generated documentation",
            Box::new(|| docs::run(root, true)),
        ),
        ("tests", Box::new(move || tests(root, full))),
        ("Ansible", Box::new(move || ansible::run(root, full, None))),
        (
            "scenarios of the playbook",
            Box::new(move || scenarios::step(root, None, full)),
        ),
        (
            "check mode against the real run, in figures",
            Box::new(|| truth::command::fast(root)),
        ),
        (
            "a planner broken on purpose is caught",
            Box::new(|| scenarios::broken_planner(root)),
        ),
        (
            "the demo, all stages",
            Box::new(move || seeds.iter().try_for_each(|s| demo::run(root, *s, true))),
        ),
    ];
    let mut passed = 0;
    for (name, check) in &checks {
        eprintln!("xtask: {name}");
        let started = Instant::now();
        if let Err(e) = check() {
            println!("{passed} passed, 1 failed");
            return Err(format!("{name}: {e}"));
        }
        passed += 1;
        eprintln!("xtask: {name}: {:.0} s", started.elapsed().as_secs_f64());
    }
    println!("{passed} passed, 0 failed");
    Ok(())
}

fn tests(root: &Path, full: bool) -> Result<(), String> {
    let cargo = ["cargo", "test", "--quiet", "--locked", "--workspace"];
    if full {
        // Read by the generated and the seeded tests.
        env::run(
            root,
            "env",
            &[&["TRUEPLAN_TEST_FULL=1"], &cargo[..]].concat(),
        )
    } else {
        env::run(root, cargo[0], &cargo[1..])
    }
}
