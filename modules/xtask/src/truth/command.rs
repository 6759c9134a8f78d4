//! `cargo xtask truth`.

use super::engine::Round;
use super::figures::Figures;
use super::labs::Yard;
use super::report::{self, Row};
use super::scenario::Side;
use super::scenarios;
use crate::demo::Stage;
use crate::env;
use std::path::Path;
use std::time::Instant;

/// What to run.
pub struct Options<'a> {
    /// Only scenarios whose name contains this.
    pub only: Option<&'a str>,
    /// Only every n-th of them.
    pub every: usize,
    /// Without the peers.
    pub ours: bool,
    /// Of the labs.
    pub seeds: &'a [u64],
    /// Write docs/TRUTH.md.
    pub write: bool,
    /// Show every difference.
    pub verbose: bool,
}

/// Runs the scenarios, prints the table, and fails unless ours are all as they should be.
pub fn run(root: &Path, o: &Options<'_>) -> Result<(), String> {
    env::qemu_img()?;
    let started = Instant::now();
    let mut stage = Stage::install(root, true)?;
    if !o.ours {
        stage.venv = env::peers(root)?;
    }
    let yard = Yard::open()?;
    let all: Vec<_> = scenarios::all(root)?
        .into_iter()
        .filter(|s| {
            o.only
                .is_none_or(|n| s.name.contains(n) || s.group.contains(n))
        })
        .step_by(o.every.max(1))
        .collect();
    let mut rows: Vec<Row> = all
        .iter()
        .map(|s| Row {
            name: s.name,
            group: s.group,
            ours: Figures::default(),
            peers: (s.peers && !o.ours).then(Figures::default),
        })
        .collect();
    for (done, seed) in o.seeds.iter().enumerate() {
        for side in [Side::Ours, Side::Peers] {
            if side == Side::Peers && o.ours {
                continue;
            }
            let chosen: Vec<usize> = (0..all.len())
                .filter(|i| side == Side::Ours || all[*i].peers)
                .collect();
            let scenarios: Vec<_> = chosen.iter().map(|i| all[*i].clone()).collect();
            if scenarios.is_empty() {
                continue;
            }
            let since = Instant::now();
            let round = Round {
                root,
                stage: &stage,
                yard: &yard,
                seed: *seed,
                side,
            };
            for (i, f) in chosen.iter().zip(round.run(&scenarios)?) {
                let row = &mut rows[*i];
                match side {
                    Side::Ours => row.ours.add(&f),
                    Side::Peers => row.peers.iter_mut().for_each(|p| p.add(&f)),
                }
            }
            eprintln!(
                "xtask: {side:?}, seed {seed}: {} scenarios in {:.0} s",
                scenarios.len(),
                since.elapsed().as_secs_f64()
            );
        }
        // After each seed, since a long run may be broken off.
        if o.write {
            let file = root.join("docs/TRUTH.md");
            std::fs::write(&file, report::document(&rows, &o.seeds[..=done]))
                .map_err(|e| format!("{}: {e}", file.display()))?;
            println!("truth: wrote {}", file.display());
        }
    }
    let text = report::table(&rows);
    println!("{text}");
    if o.verbose {
        println!("{}", report::findings(&rows));
    }
    let mut total = Figures::default();
    rows.iter().for_each(|r| total.add(&r.ours));
    println!(
        "truth: {} scenarios, seeds {:?}, {:.0} s",
        rows.len(),
        o.seeds,
        started.elapsed().as_secs_f64()
    );
    if total.right + total.announced + total.unforeseeable == 0 {
        return Err("nothing was compared".into());
    }
    if total.clean() {
        Ok(())
    } else {
        Err(format!(
            "ours are not as they should be:\n{}",
            report::list(&total)
        ))
    }
}

/// The ledger through ansible-playbook.
pub fn ledger(root: &Path) -> Result<(), String> {
    super::ledger::run(root, &Stage::install(root, true)?, &Yard::open()?)
}

/// What `cargo xtask test` runs: every fourth scenario, ours only, one seed; and the ledger.
pub fn fast(root: &Path) -> Result<(), String> {
    run(
        root,
        &Options {
            only: None,
            every: 4,
            ours: true,
            seeds: &[1],
            write: false,
            verbose: false,
        },
    )?;
    ledger(root)
}
