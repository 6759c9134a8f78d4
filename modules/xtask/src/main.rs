//! `cargo xtask`: everything that is more than one `cargo` call.

mod ansible;
mod awx;
mod bench;
mod demo;
mod dist;
mod docs;
mod env;
mod lab;
mod leaks;
mod report;
mod scenarios;
mod test;
mod truth;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Build, document, package, test and demonstrate trueplan.virt"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate plugins/modules/*.py, docs/modules/*.md, meta/runtime.yml and the module table of README.md from the argument tables.
    Docs {
        /// Only say what is out of date, and fail then.
        #[arg(long)]
        check: bool,
    },
    /// Build the release binary and the collection's tarball under dist/.
    Dist {
        /// Also compare the tarball's content with the module registry.
        #[arg(long)]
        check: bool,
        /// Pack the development build, for tests.
        #[arg(long)]
        debug: bool,
        /// Release binaries for these architectures (x86_64, aarch64), with cargo-zigbuild, for glibc 2.17 and newer.
        #[arg(long, value_delimiter = ',', conflicts_with = "debug")]
        arch: Vec<String>,
    },
    /// Formatting, lints, every test, documentation check, Ansible end to end.
    Test {
        /// The full counts (minutes instead of seconds for the generated tests, and several seeds).
        #[arg(long)]
        full: bool,
    },
    /// Migrate the lab's estate: check mode, for real, again; compare every result and every byte.
    Demo {
        /// Seed for what a server may choose.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Use the development build of the binary, which compiles faster.
        #[arg(long)]
        debug: bool,
    },
    /// The collection on the oldest and the newest ansible-core, ansible-lint, ansible-test sanity, galaxy-importer, and the search for secrets.
    Ansible {
        /// Only the steps whose name contains this.
        only: Option<String>,
        /// Also ansible-core 2.19, ansible-test sanity on each ansible-core, and what sets AWX up.
        #[arg(long)]
        full: bool,
    },
    /// The playbook where things go otherwise than in the demo.
    Scenarios {
        /// Only those whose name contains this (or one of these, separated by commas); `broken` runs the planner that is broken on purpose.
        only: Option<String>,
        /// Also the long ones, with the full counts.
        #[arg(long)]
        full: bool,
    },
    /// Check mode against the real run, in figures: ours beside the peers', scenario by scenario.
    Truth {
        /// Only scenarios whose name or group contains this.
        only: Option<String>,
        /// Without the peers, whose bundle needs Python 3.12 or newer.
        #[arg(long)]
        ours: bool,
        /// Seeds of the labs.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
        seeds: Vec<u64>,
        /// Write docs/TRUTH.md.
        #[arg(long)]
        write: bool,
        /// Show every difference.
        #[arg(long)]
        verbose: bool,
        /// Instead of the scenarios: so many generated playbooks, ours only.
        #[arg(long, value_name = "N")]
        generate: Option<u64>,
        /// Seed of the first generated playbook.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// With --generate: a planner that is broken on purpose, which must be found out within 100.
        #[arg(long)]
        broken: bool,
        /// Instead of the scenarios: the ledger, however Ansible cuts a check run up.
        #[arg(long)]
        ledger: bool,
    },
    /// Measure ours and the peers' side by side; writes docs/BENCHMARKS.md.
    Bench {
        /// Only the cases whose name contains this; writes no file then.
        only: Option<String>,
        /// Each case once with development builds, to see that it works; writes no file.
        #[arg(long)]
        quick: bool,
    },
    /// Start the lab in the foreground and print how to reach it.
    Lab {
        /// World file.
        #[arg(long, default_value = "tests/lab/demo-world.json")]
        world: String,
        /// Seed for what a server may choose.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let root = env::root();
    let done = match cli.command {
        Command::Docs { check } => docs::run(&root, check),
        Command::Dist { check, debug, arch } => dist::run(
            &root,
            &dist::Wanted {
                check,
                debug,
                archs: &arch,
            },
        )
        .map(|_| ()),
        Command::Test { full } => test::run(&root, full),
        Command::Demo { seed, debug } => demo::run(&root, seed, debug),
        Command::Ansible { full, only } => ansible::run(&root, full, only.as_deref()),
        Command::Scenarios { only, .. } if only.as_deref() == Some("broken") => {
            scenarios::broken_planner(&root)
        }
        Command::Scenarios { only, full } => scenarios::step(&root, only.as_deref(), full),
        Command::Truth { broken: true, .. } => truth::generate::broken_alone(&root),
        Command::Truth {
            generate: Some(many),
            seed,
            ..
        } => truth::generate::run(&root, many, seed),
        Command::Truth { ledger: true, .. } => truth::command::ledger(&root),
        Command::Truth {
            only,
            ours,
            seeds,
            write,
            verbose,
            ..
        } => truth::command::run(
            &root,
            &truth::command::Options {
                only: only.as_deref(),
                every: 1,
                ours,
                seeds: &seeds,
                write,
                verbose,
            },
        ),
        Command::Bench { only, quick } => bench::run(&root, only.as_deref(), quick),
        Command::Lab { world, seed } => lab::foreground(&root, &world, seed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
