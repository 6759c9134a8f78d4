//! Compares what a check run said with what the real run did, for every (task, host, item) of our modules; and `cargo xtask truth`.

pub mod command;
mod engine;
mod figures;
pub mod generate;
mod labs;
mod ledger;
mod report;
mod scenario;
mod scenarios;
mod values;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// One result of a run.
#[derive(Clone, Debug)]
pub struct Line {
    /// What is the same in both runs: play, task, its place, host, item.
    pub key: String,
    /// Host name.
    pub host: String,
    /// Fully qualified name of the module.
    pub action: String,
    /// ok, changed, failed, skipped, unreachable.
    pub status: String,
    /// The whole result.
    pub result: Value,
}

impl Line {
    /// Whether it is a task of ours.
    pub fn ours(&self) -> bool {
        self.action.starts_with("trueplan.virt.")
    }
}

/// Reads a log of the callback plugin truth_log.
///
/// The lab's own folder reads `<lab>`: two labs of one seed differ in it, and in nothing else.
pub fn read(path: &Path, lab: &Path) -> Result<Vec<Line>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("{}: {e}", path.display()))?
        .replace(&lab.display().to_string(), "<lab>");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = vec![];
    for l in text.lines() {
        let v: Value = serde_json::from_str(l).map_err(|e| format!("{}: {e}", path.display()))?;
        if v["kind"] == "world" {
            continue;
        }
        let s = |k: &str| v[k].as_str().unwrap_or_default().to_owned();
        let base = [s("play"), s("task"), s("path"), s("host"), s("item")].join(" | ");
        // Two items of one label (two NICs on one network) are told apart by their order.
        let n = seen.entry(base.clone()).or_default();
        *n += 1;
        lines.push(Line {
            key: format!("{base} #{n}"),
            host: s("host"),
            action: s("action"),
            status: s("status"),
            result: v["result"].clone(),
        });
    }
    Ok(lines)
}

/// How far a check run told the truth.
#[derive(Debug, Default)]
pub struct Truth {
    /// Results of our modules in either run.
    pub all: usize,
    /// Of these, equal in status, changed, plan and diff.
    pub equal: usize,
    /// One line for each that is not.
    pub lies: Vec<String>,
}

/// Compares two runs; a result that only one of them has counts as wrong.
pub fn compare(check: &[Line], real: &[Line]) -> Truth {
    let index = |lines: &[Line]| -> BTreeMap<String, Line> {
        lines
            .iter()
            .filter(|l| l.ours())
            .map(|l| (l.key.clone(), l.clone()))
            .collect()
    };
    let (check, real) = (index(check), index(real));
    let mut t = Truth::default();
    let keys: std::collections::BTreeSet<&String> = check.keys().chain(real.keys()).collect();
    for k in keys {
        t.all += 1;
        match (check.get(k), real.get(k)) {
            (Some(c), Some(r)) => match difference(c, r) {
                None => t.equal += 1,
                Some(d) => t.lies.push(format!("{k}: {d}")),
            },
            (None, _) => t.lies.push(format!("{k}: only in the real run")),
            (_, None) => t.lies.push(format!("{k}: only in the check run")),
        }
    }
    t
}

fn difference(c: &Line, r: &Line) -> Option<String> {
    let pick = |l: &Line, k: &str| l.result.get(k).cloned().unwrap_or(Value::Null);
    let warned = |l: &Line| {
        l.result["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|w| w.contains("something else than foreseen"))
            .map(str::to_owned)
    };
    if c.status != r.status {
        return Some(format!(
            "check said {}, real was {} ({})",
            c.status,
            r.status,
            pick(r, "msg")
        ));
    }
    for k in ["changed", "plan", "diff", "error_kind"] {
        let (a, b) = (pick(c, k), pick(r, k));
        if a != b {
            return Some(format!("{k}: check said {a}, real was {b}"));
        }
    }
    warned(r)
}
