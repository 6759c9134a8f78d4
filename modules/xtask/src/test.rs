//! `cargo xtask test`: every check of the project, in the order in which they are cheapest to fail.

use crate::{docs, env};
use std::path::Path;

/// Runs all checks; stops at the first that fails.
pub fn run(root: &Path, full: bool) -> Result<(), String> {
    env::qemu_img()?;
    step("formatting", || {
        env::run(root, "cargo", &["fmt", "--all", "--check"])
    })?;
    step("lints", || {
        env::run(
            root,
            "cargo",
            &[
                "clippy",
                "--quiet",
                "--locked",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        )
    })?;
    step("generated documentation", || docs::run(root, true))?;
    step("tests", || {
        if full {
            // Read by the generated and the seeded tests.
            env::run(
                root,
                "env",
                &[
                    "TRUEPLAN_TEST_FULL=1",
                    "cargo",
                    "test",
                    "--locked",
                    "--workspace",
                ],
            )
        } else {
            env::run(root, "cargo", &["test", "--locked", "--workspace"])
        }
    })
}

fn step(name: &str, f: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    eprintln!("xtask: {name}");
    f().map_err(|e| format!("{name}: {e}"))
}
