//! `vsphere_note`: one line of ours in a virtual machine's notes.

use crate::look::{self, Look, Stop, Think};
use crate::privileges;

use crate::common::PLAN_ONLY;
use crate::vsphere_common::CONNECTION;
use crate::vsphere_target::{self as vt, Names, SELECT, Target};
use crate::{Def, Side};
use plan::{Arg, Await, ErrorKind, Facts, Key, Module, Outcome, Plan, Refusal, Wait};
use serde_json::{Map, Value, json};
use spec::shared::{EXPECT_PLAN, RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};
use vsphere::value::{list, text};

const OWN: &[Opt] = &[
    Opt::str("state", "V(present) writes the line or replaces the one with this O(key); V(absent) removes it. All other lines stay as they are.").choices(&["present", "absent"]).default("\"present\""),
    Opt::str("text", "What the line says after its key; one line. Needed for O(state=present)."),
    Opt::str("key", "The word in square brackets by which the line is known: lower-case letters, digits, C(.), C(_), C(:) and C(-). M(trueplan.virt.vsphere_powerstate) refuses to power on a VM that carries such a line, whatever its key.").default("\"trueplan\""),
    Opt::str("stamp", "A date or time that stands in parentheses at the end of a line that is written. A line that differs in nothing else is up to date and keeps its own; plans and differences show a new one as C(<stamp>)."),
    Opt::int("timeout", "Seconds to wait for another running task of the VM, and again for our own.").default("600").range(1, 604_800),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::new("vm", Kind::Dict, "on success", "The VM.").contains(&[
        Ret::new("moid", Kind::Str, "always", "Its managed object id."),
        Ret::new("name", Kind::Str, "always", "Its name."),
    ]),
    Ret::new(
        "note",
        Kind::Str,
        "on success",
        "The line after the task, without its key; null if there is none.",
    ),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vsphere_note",
    short: "Keep one line in a vSphere VM's notes",
    doc: &[
        "Writes, replaces or removes one line C([key] text) in the notes (annotation) of a virtual machine, so that people and tools see that it has gone over to another platform.",
        "Only the notes are sent, and in them only this line changes.",
    ],
    options: &[OWN, SELECT, CONNECTION, &[EXPECT_PLAN, PLAN_ONLY]],
    required_if: &[("state", "present", &["text"], false)],
    required_one_of: &[&["name", "uuid", "moid"]],
    mutually_exclusive: &[&["name", "uuid", "moid"]],
    returns: &[OWN_RETURNS, RETURNS, RETURNS_WRITING],
    examples: "- name: Say where it went\n  trueplan.virt.vsphere_note:\n    hostname: vcenter.example.com\n    username: migrate@vsphere.local\n    password: \"{{ vault_vcenter_password }}\"\n    moid: vm-1042\n    text: migrated to Proxmox VE as 20042\n",
    privileges: &[
        privileges::VSPHERE_READS,
        (
            "the VM",
            "C(VirtualMachine.Config.Annotation)",
            "writing the notes",
        ),
    ],
    action_groups: &["vsphere", "vmware"],
    ..ModuleSpec::EMPTY
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Vsphere,
    make,
};

struct Note {
    target: Target,
    key: String,
    /// `None`: no such line.
    text: Option<String>,
    stamp: Option<String>,
    timeout_s: u64,
}

/// Whether that is a key of a note of ours.
fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b':' | b'-')
        })
}

/// The key and text of a line of ours, such as `[trueplan] gone over`.
pub fn parse_line(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line
        .trim_end_matches('\r')
        .strip_prefix('[')?
        .split_once(']')?;
    let text = rest.strip_prefix(' ').filter(|t| !t.trim().is_empty())?;
    is_key(key).then_some((key, text))
}

/// The first line of ours in a machine's notes, whatever its key.
pub fn any_note(annotation: &str) -> Option<&str> {
    annotation
        .split('\n')
        .map(|l| l.trim_end_matches('\r'))
        .find(|l| parse_line(l).is_some())
}

fn is_ours(line: &str, key: &str) -> bool {
    line.strip_prefix('[')
        .and_then(|l| l.strip_prefix(key))
        .and_then(|l| l.strip_prefix(']'))
        .is_some_and(|l| l.is_empty() || l.starts_with([' ', '\r']))
}

/// The text of the line with that key.
fn current<'a>(annotation: &'a str, key: &str) -> Option<&'a str> {
    let line = annotation.split('\n').find(|l| is_ours(l, key))?;
    Some(line[key.len() + 2..].trim())
}

/// The notes with exactly one line of that key, or none; all other lines and line ends stay.
fn edit(annotation: &str, key: &str, text: Option<&str>) -> String {
    let mut lines: Vec<String> = vec![];
    let mut done = text.is_none();
    for l in annotation.split('\n') {
        if !is_ours(l, key) {
            lines.push(l.to_owned());
        } else if !done {
            done = true;
            let end = if l.ends_with('\r') { "\r" } else { "" };
            lines.push(format!("[{key}] {}{end}", text.unwrap_or_default()));
        }
    }
    if !done {
        let line = format!("[{key}] {}", text.unwrap_or_default());
        match lines.last().map(String::as_str) {
            Some("") if lines.len() == 1 => lines[0] = line,
            // Before the last line end, so that taking the line away again leaves what was there.
            Some("") => lines.insert(lines.len() - 1, line),
            _ => lines.push(line),
        }
    }
    lines.join("\n")
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = vec![];
    let mut bad = |path: &str, value: &str, msg: &str| {
        errors.push(ArgError {
            path: path.into(),
            value: Some(value.into()),
            msg: msg.into(),
        })
    };
    let key = a.str("key").unwrap_or("trueplan").to_owned();
    if !is_key(&key) {
        bad(
            "key",
            &key,
            "a key is made of lower-case letters, digits, `.`, `_`, `:` and `-`",
        );
    }
    let absent = a.str("state") == Some("absent");
    let text = a
        .str("text")
        .map(|t| t.trim().to_owned())
        .filter(|_| !absent);
    if let Some(t) = &text {
        if t.contains(['\n', '\r']) {
            bad("text", t, "a note is one line; give it without line feeds");
        }
        if t.is_empty() {
            bad(
                "text",
                t,
                "a note needs a text; to remove it give state: absent",
            );
        }
    }
    let stamp = a.str("stamp").map(|s| s.trim().to_owned());
    if let Some(s) = &stamp
        && s.contains(['\n', '\r', '(', ')'])
    {
        bad("stamp", s, "a stamp is a date or time without parentheses");
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let names = Names {
        name: "name",
        uuid: "uuid",
    };
    Ok(Box::new(Note {
        target: Target::new(a, &names, "change the notes of"),
        key,
        text,
        stamp,
        timeout_s: a
            .int("timeout")
            .and_then(|t| t.try_into().ok())
            .unwrap_or(600),
    }))
}

impl Note {
    /// The line's text: the one that is there if it differs in its stamp only.
    fn wanted(&self, annotation: &str) -> Option<String> {
        let text = self.text.as_ref()?;
        let Some(stamp) = &self.stamp else {
            return Some(text.clone());
        };
        let kept = current(annotation, &self.key).filter(|c| {
            let rest = c.strip_prefix(text.as_str());
            rest.is_some_and(|r| {
                r.starts_with(" (") && r.ends_with(')') && r.matches('(').count() == 1
            })
        });
        Some(kept.map_or_else(|| format!("{text} ({stamp})"), str::to_owned))
    }

    /// Notes as they are shown: a stamp of this run differs from that of the check run.
    fn masked(&self, annotation: &str) -> String {
        match (&self.text, &self.stamp) {
            (Some(t), Some(s)) => {
                annotation.replace(&format!("{t} ({s})"), &format!("{t} (<stamp>)"))
            }
            _ => annotation.to_owned(),
        }
    }
}

impl Think for Note {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let vm = self.target.find(look)?;
        if list(vm, "unreadable").iter().any(|p| {
            p.as_str()
                .is_some_and(|p| p == "config" || p == "config.annotation")
        }) {
            return Err(Refusal::kind(
                ErrorKind::Permission,
                format!(
                    "unable to {} {}: the notes cannot be read, and writing them would drop what others wrote; grant System.Read on the VM",
                    self.target.verb,
                    self.target.named()
                ),
            )
            .into());
        }
        let old = text(vm, "annotation").unwrap_or("");
        let new = edit(old, &self.key, self.wanted(old).as_deref());
        let mut plan = Plan::empty();
        if new == old {
            return Ok(plan);
        }
        if let Some(task) = vt::running(vm).first() {
            let after = vt::without_task(vm, task);
            return Err(vt::wait_for(&self.target, vm, task, self.timeout_s, false, &after).into());
        }
        let why = match (&self.text, current(old, &self.key)) {
            (None, _) => "remove our line from the notes; the others stay",
            (Some(_), None) => "add our line to the notes; the others stay",
            (Some(_), Some(_)) => "replace our line in the notes; the others stay",
        };
        let after = vt::with(vm, &[("annotation", json!(new))]);
        let mut step = vt::step(vm, "ReconfigVM_Task", &[], why);
        let spec = json!({"annotation": new});
        step.request = step.request.arg(
            "spec",
            match &self.stamp {
                None => Arg::Lit(spec),
                Some(_) => Arg::Shown {
                    symbol: json!({"annotation": self.masked(&new)}).to_string(),
                    value: spec,
                },
            },
        );
        plan.push(
            step.wait(Await::Task {
                timeout_s: self.timeout_s,
            })
            .effect(vt::put(&after)),
        );
        Ok(plan)
    }
}

impl Module for Note {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        vec![self.target.key()]
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        self.target.subject(facts)
    }

    fn view(&self, facts: &Facts) -> Value {
        match self.target.in_facts(facts) {
            Some(vm) => json!({
                "name": vm["name"],
                "notes": self.masked(text(vm, "annotation").unwrap_or("")).split('\n').map(|l| l.trim_end_matches('\r')).collect::<Vec<_>>(),
            }),
            None => Value::Null,
        }
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let vm = self.target.in_facts(o.after).unwrap_or(&Value::Null);
        let note = current(text(vm, "annotation").unwrap_or(""), &self.key);
        let what = match (self.text.is_some(), o.changed) {
            (true, true) => "written",
            (true, false) => "is up to date",
            (false, true) => "removed",
            (false, false) => "is absent",
        };
        let mut m = Map::new();
        m.insert(
            "msg".into(),
            json!(format!(
                "Note [{}] of VM {} {what}",
                self.key,
                vt::title(vm)
            )),
        );
        m.insert("vm".into(), json!({"moid": vm["moid"], "name": vm["name"]}));
        m.insert("note".into(), json!(note));
        m
    }

    fn title(&self) -> String {
        format!("notes of {}", self.target.named())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines() {
        assert_eq!(edit("", "trueplan", Some("x")), "[trueplan] x");
        assert_eq!(edit("a", "trueplan", Some("x")), "a\n[trueplan] x");
        assert_eq!(edit("a\n", "trueplan", Some("x")), "a\n[trueplan] x\n");
        assert_eq!(
            edit("a\r\n[trueplan] y\r\nb", "trueplan", Some("x")),
            "a\r\n[trueplan] x\r\nb"
        );
        assert_eq!(
            edit("[trueplan] y\nb\n[trueplan] z", "trueplan", Some("x")),
            "[trueplan] x\nb"
        );
        assert_eq!(edit("[trueplan] y", "trueplan", None), "");
        assert_eq!(
            edit("[trueplan2] y\n[TRUEPLAN] z", "trueplan", None),
            "[trueplan2] y\n[TRUEPLAN] z"
        );
        assert_eq!(
            any_note("hello\n[other.key] there\r\n"),
            Some("[other.key] there")
        );
        for no in [
            "[INFO] x",
            "x [trueplan] y",
            "[a b] c",
            "[trueplan]",
            "[] x",
            "[x]y",
        ] {
            assert_eq!(any_note(no), None, "{no}");
        }
    }

    proptest! {
        /// Other lines stay, the line is there once, taking it away leaves what was there, and doing it twice is doing it once.
        #[test]
        fn others_stay(lines in proptest::collection::vec("[ -~äß\r]{0,12}|\\[trueplan\\] [a-z]{0,4}|\\[other\\] x", 0..8), text in "[a-z]{1,8}") {
            let old = lines.join("\n");
            let others = |s: &str| s.split('\n').filter(|l| !is_ours(l, "trueplan")).filter(|l| !l.is_empty()).map(str::to_owned).collect::<Vec<_>>();
            let new = edit(&old, "trueplan", Some(&text));
            prop_assert_eq!(others(&new), others(&old));
            prop_assert_eq!(new.split('\n').filter(|l| is_ours(l, "trueplan")).count(), 1);
            prop_assert_eq!(current(&new, "trueplan"), Some(text.as_str()));
            prop_assert_eq!(&edit(&new, "trueplan", Some(&text)), &new);
            let gone = edit(&new, "trueplan", None);
            prop_assert_eq!(others(&gone), others(&old));
            prop_assert_eq!(&edit(&gone, "trueplan", None), &gone);
            if current(&old, "trueplan").is_none() {
                prop_assert_eq!(gone, old);
            }
        }
    }
}
