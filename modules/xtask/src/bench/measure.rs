//! What a command takes: the runner in tests/bench/measure.py, and medians.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A command to measure.
#[derive(Clone)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// What it reads.
    pub stdin: Option<PathBuf>,
}

/// What one run took.
#[derive(Clone, Copy, Default)]
pub struct Took {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of CPU, user and system, children included.
    pub cpu: f64,
    /// Peak of resident memory, in MiB.
    pub mib: f64,
    /// Requests that the lab saw.
    pub calls: f64,
}

impl Took {
    /// The median of each figure by itself.
    pub fn median(all: &[Took]) -> Took {
        let of = |f: fn(&Took) -> f64| {
            let mut v: Vec<f64> = all.iter().map(f).collect();
            v.sort_by(f64::total_cmp);
            match v.len() {
                0 => 0.0,
                n if n % 2 == 1 => v[n / 2],
                n => f64::midpoint(v[n / 2 - 1], v[n / 2]),
            }
        };
        Took {
            wall: of(|t| t.wall),
            cpu: of(|t| t.cpu),
            mib: of(|t| t.mib),
            calls: of(|t| t.calls),
        }
    }
}

/// The runner.
pub struct Runner {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    out: PathBuf,
}

impl Runner {
    /// Starts it; `folder` is for what the commands print.
    pub fn start(root: &Path, python: &Path, folder: &Path) -> Result<Runner, String> {
        let mut child = Command::new(python)
            .args(["-S", "-E"])
            .arg(root.join("tests/bench/measure.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", python.display()))?;
        let to = child.stdin.take().ok_or("no standard input")?;
        let from = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Runner {
            child,
            to,
            from,
            out: folder.join("out"),
        })
    }

    /// Runs it, and gives what it took with what it printed. A status other than `rc` is an error.
    pub fn run(&mut self, job: &Job, rc: i64) -> Result<(Took, String), String> {
        let line =
            json!({"argv": job.argv, "env": job.env, "stdin": job.stdin, "stdout": self.out});
        writeln!(self.to, "{line}").map_err(|e| format!("the runner: {e}"))?;
        let mut answer = String::new();
        self.from
            .read_line(&mut answer)
            .map_err(|e| format!("the runner: {e}"))?;
        let v: Value = serde_json::from_str(&answer).map_err(|e| format!("the runner: {e}"))?;
        let text =
            String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned();
        if v["rc"] != rc {
            let tail: Vec<&str> = text.lines().rev().take(15).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            return Err(format!(
                "{:?} ended with {}:\n{}",
                job.argv,
                v["rc"],
                tail.join("\n")
            ));
        }
        let of = |k: &str| v[k].as_f64().unwrap_or_default();
        Ok((
            Took {
                wall: of("wall"),
                cpu: of("cpu"),
                mib: of("rss_kb") / 1024.0,
                calls: 0.0,
            },
            text,
        ))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
