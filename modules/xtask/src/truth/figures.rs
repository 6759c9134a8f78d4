//! Truth, silence, rest and honesty, by the same rules for both sides.

use super::Line;
use super::scenario::Scenario;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Actions that only steer a playbook: nothing is claimed about the world.
const STEERING: &[&str] = &[
    "ansible.builtin.set_fact",
    "ansible.builtin.assert",
    "ansible.builtin.debug",
    "ansible.builtin.include_tasks",
    "ansible.builtin.import_tasks",
    "ansible.builtin.fail",
    "ansible.builtin.meta",
    "ansible.builtin.pause",
];

/// What kind of difference it is: one sentence each in docs/TRUTH.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The module has no check mode.
    Skipped,
    /// The check run had stopped before.
    NotReached,
    /// Check succeeded, the real run failed.
    FailsForReal,
    /// Check failed, the real run succeeded.
    FailsInCheck,
    /// Both succeeded, with different `changed`.
    Changed,
    /// Both succeeded, with a different diff, plan or kind of failure.
    Content,
    /// Only the check run came so far.
    OnlyInCheck,
    /// The server did something else than the module foresaw.
    Unforeseen,
    /// A write in check mode.
    Write,
    /// Changed again in the third run.
    Again,
    /// "changed", and the world is as before.
    NothingDone,
    /// "ok", and the world has changed.
    Silently,
    /// Failed without saying that it had changed something.
    FailedSilently,
    /// A returned value is not so.
    Value,
}

/// One difference.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Where and what.
    pub text: String,
}

/// The figures of a scenario, or of many.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Foreseeable results that were foretold.
    pub right: usize,
    /// Foreseeable results that were not.
    pub wrong: usize,
    /// Results about which the check run said that it could not look at everything.
    pub announced: usize,
    /// Of these, those that came as foretold.
    pub announced_right: usize,
    /// Results that nobody can foresee.
    pub unforeseeable: usize,
    /// Of these, those that came as foretold.
    pub unforeseeable_right: usize,
    /// Writes in the check run.
    pub writes: usize,
    /// Tasks that changed something in the third run as well.
    pub rest: usize,
    /// Results of the real run that fit the world afterwards.
    pub honest: usize,
    /// Results of the real run that do not.
    pub dishonest: usize,
    /// What is behind them.
    pub findings: Vec<Finding>,
}

impl Figures {
    /// Adds others.
    pub fn add(&mut self, o: &Figures) {
        self.right += o.right;
        self.wrong += o.wrong;
        self.announced += o.announced;
        self.announced_right += o.announced_right;
        self.unforeseeable += o.unforeseeable;
        self.unforeseeable_right += o.unforeseeable_right;
        self.writes += o.writes;
        self.rest += o.rest;
        self.honest += o.honest;
        self.dishonest += o.dishonest;
        self.findings.extend(o.findings.iter().cloned());
    }

    /// Everything foretold that can be, nothing written in check, nothing left to do, nothing false said.
    pub fn clean(&self) -> bool {
        self.wrong == 0 && self.writes == 0 && self.rest == 0 && self.dishonest == 0
    }

    fn found(&mut self, kind: Kind, text: String) {
        self.findings.push(Finding { kind, text });
    }
}

fn counts(l: &Line) -> bool {
    !STEERING.contains(&l.action.as_str()) && !l.key.contains("| Somebody else, ")
}

/// The task's name, in a line's key.
fn task(key: &str) -> &str {
    key.split(" | ").nth(1).unwrap_or_default()
}

fn short(l: &Line) -> String {
    let item = l.key.split(" | ").nth(4).unwrap_or_default();
    format!(
        "{}: {} ({}{})",
        l.host,
        task(&l.key),
        l.action,
        if item.starts_with(" #") || item.starts_with('#') {
            String::new()
        } else {
            format!(", {}", item.split(" #").next().unwrap_or_default())
        }
    )
}

fn msg(l: &Line) -> String {
    let m = l.result["msg"].as_str().unwrap_or_default();
    m.chars().take(300).collect::<String>().replace('\n', " ")
}

/// Compares the check run with the real one.
pub fn truth(f: &mut Figures, s: &Scenario, check: &[Line], real: &[Line]) {
    let index = |lines: &[Line]| -> BTreeMap<String, Line> {
        lines
            .iter()
            .filter(|l| counts(l))
            .map(|l| (l.key.clone(), l.clone()))
            .collect()
    };
    let (check, real) = (index(check), index(real));
    let keys: BTreeSet<&String> = check.keys().chain(real.keys()).collect();
    for k in keys {
        let (c, r) = (check.get(k), real.get(k));
        // Skipped in both runs by a condition: nobody claimed anything.
        if [c, r]
            .iter()
            .all(|l| l.is_none_or(|l| l.status == "skipped"))
        {
            continue;
        }
        let wrong = difference(c, r);
        let says = |l: &Line| {
            let some = |k: &str| l.result[k].as_array().is_some_and(|a| !a.is_empty());
            let joins = |s: &Value| s["request"] == "JOIN";
            let plan = l.result["plan"].as_array();
            some("unverified") || some("waited_for") || plan.is_some_and(|p| p.iter().any(joins))
        };
        if s.unforeseeable.contains(&task(k)) {
            f.unforeseeable += 1;
            f.unforeseeable_right += usize::from(wrong.is_none());
        } else if c.is_some_and(says) {
            f.announced += 1;
            f.announced_right += usize::from(wrong.is_none());
        } else if let Some((kind, text)) = wrong {
            f.wrong += 1;
            let at = c.or(r).map(short).unwrap_or_default();
            f.found(kind, format!("{at}: {text}"));
        } else {
            f.right += 1;
        }
    }
}

fn difference(c: Option<&Line>, r: Option<&Line>) -> Option<(Kind, String)> {
    let (c, r) = match (c, r) {
        (None, Some(r)) => {
            return Some((
                Kind::NotReached,
                format!("not reached in check, {} for real", r.status),
            ));
        }
        (Some(c), None) => {
            return Some((
                Kind::OnlyInCheck,
                format!("{} in check, not reached for real", c.status),
            ));
        }
        (Some(c), Some(r)) => (c, r),
        (None, None) => return None,
    };
    let failed = |l: &Line| l.status == "failed" || l.status == "unreachable";
    if c.status != r.status {
        let kind = if c.status == "skipped" {
            Kind::Skipped
        } else if failed(r) {
            Kind::FailsForReal
        } else if failed(c) {
            Kind::FailsInCheck
        } else {
            Kind::Changed
        };
        return Some((
            kind,
            format!(
                "check said {} ({}), the real run {} ({})",
                c.status,
                msg(c),
                r.status,
                msg(r)
            ),
        ));
    }
    for k in ["changed", "diff", "plan", "error_kind"] {
        let pick = |l: &Line| l.result.get(k).cloned().unwrap_or(Value::Null);
        let (a, b) = (pick(c), pick(r));
        let same = if k == "changed" {
            (a == json!(true)) == (b == json!(true))
        } else {
            a == b
        };
        if !same {
            return Some((
                Kind::Content,
                format!("{k}: check said {a}, the real run {b}"),
            ));
        }
    }
    r.result["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|w| w.contains("something else than foreseen"))
        .map(|w| (Kind::Unforeseen, w.to_owned()))
}

/// Writes of the check run.
pub fn silence(f: &mut Figures, writes: &[String]) {
    f.writes = writes.len();
    for w in writes {
        f.found(Kind::Write, w.clone());
    }
}

/// What changed again in the third run, of what had succeeded in the second.
pub fn rest(f: &mut Figures, real: &[Line], again: &[Line]) {
    let done: BTreeSet<&str> = real
        .iter()
        .filter(|l| l.status == "ok" || l.status == "changed")
        .map(|l| l.key.as_str())
        .collect();
    for l in again.iter().filter(|l| counts(l)) {
        if l.status == "changed" && done.contains(l.key.as_str()) {
            f.rest += 1;
            f.found(Kind::Again, format!("{}: {}", short(l), msg(l)));
        }
    }
}

/// A task of the real run with the world after it.
pub struct Step {
    lines: Vec<Line>,
    looped: bool,
    changed: bool,
    world: Value,
}

/// The tasks of a log that has worlds, by host.
pub fn steps(log: &Path) -> Result<BTreeMap<String, Vec<Step>>, String> {
    let text = std::fs::read_to_string(log).map_err(|e| format!("{}: {e}", log.display()))?;
    let lines = super::read(log, Path::new("/nowhere"))?;
    let mut next = lines.into_iter();
    let mut open: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let mut out: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for l in text.lines() {
        let v: Value = serde_json::from_str(l).map_err(|e| format!("{}: {e}", log.display()))?;
        let host = v["host"].as_str().unwrap_or_default().to_owned();
        if v["kind"] == "world" {
            out.entry(host.clone()).or_default().push(Step {
                lines: open.remove(&host).unwrap_or_default(),
                looped: v["loop"] == true,
                changed: v["changed"] == true,
                world: v["world"].clone(),
            });
        } else if let Some(line) = next.next() {
            open.entry(host).or_default().push(line);
        }
    }
    Ok(out)
}

/// Compares what the real run said with what is.
pub fn honesty(f: &mut Figures, start: &Value, steps: &[Step]) {
    let mut before = essence(start);
    for s in steps {
        let after = essence(&s.world);
        let moved = before != after;
        before = after;
        let counted: Vec<&Line> = s
            .lines
            .iter()
            .filter(|l| counts(l) && l.status != "skipped")
            .collect();
        let Some(last) = counted.last() else {
            continue;
        };
        // The items of a loop share one look at the world.
        let changed = if s.looped {
            s.changed
        } else {
            last.result["changed"] == true
        };
        let mut wrong: Vec<(Kind, String)> = vec![];
        if changed && !moved {
            wrong.push((
                Kind::NothingDone,
                "said changed, and the world is as it was".into(),
            ));
        } else if moved && !changed {
            wrong.push(if last.status == "failed" {
                (
                    Kind::FailedSilently,
                    format!(
                        "failed without saying that it had changed something: {}",
                        msg(last)
                    ),
                )
            } else {
                (
                    Kind::Silently,
                    format!(
                        "said {}, and the world has changed: {}",
                        last.status,
                        msg(last)
                    ),
                )
            });
        }
        for l in &counted {
            for w in super::values::wrong(l, &s.world) {
                wrong.push((Kind::Value, w));
            }
        }
        if wrong.is_empty() {
            f.honest += 1;
        } else {
            f.dishonest += 1;
            // One verdict a task, whatever number of things is wrong with it.
            let (kind, _) = wrong[0];
            let all: Vec<String> = wrong.into_iter().map(|(_, t)| t).collect();
            f.found(kind, format!("{}: {}", short(last), all.join("; ")));
        }
    }
}

/// The world without what changes by itself, and with what leaves no other trace than a task: a guest that was started anew.
fn essence(world: &Value) -> Value {
    let p = &world["pve"];
    let strip = |v: &Value, keys: &[&str]| -> Value {
        let mut o = v.clone();
        for k in keys {
            if let Some(m) = o.as_object_mut() {
                m.remove(*k);
            }
        }
        o
    };
    let guests: Vec<Value> = p["guests"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|g| {
            let mut g = strip(g, &["digest", "flock"]);
            g["config"] = strip(&g["config"], &["meta", "vmgenid"]);
            g
        })
        .collect();
    let tasks = |side: &str, key: &str, names: &[&str], done: &dyn Fn(&Value) -> bool| {
        world[side]["tasks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|t| t[key].as_str().is_some_and(|n| names.contains(&n)) && done(t))
            .count()
    };
    let v = &world["vcenter"];
    // As they were set; when they ran and will run changes by itself.
    let scheduled: Vec<Value> = v["scheduled"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|t| {
            json!([
                t["name"],
                t["entity"],
                t["enabled"],
                t["scheduler"],
                t["action"]
            ])
        })
        .collect();
    json!({
        "guests": guests,
        "restarts": [
            tasks("pve", "type", &["qmreboot", "qmreset"], &|t| t["status"] == "OK"),
            tasks("vcenter", "method", &["ResetVM_Task"], &|t| t["state"] == "success"),
        ],
        "nodes": p["nodes"], "storages": p["storages"], "sdn": strip(&p["sdn"], &["locked", "version"]), "access": p["access"], "ha": p["ha"],
        "vms": v["vms"], "datastores": v["datastores"], "scheduled": scheduled,
    })
}
