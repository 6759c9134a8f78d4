//! The table on the terminal and docs/TRUTH.md.

use super::figures::{Figures, Finding, Kind};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A scenario with its figures over all seeds.
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its group.
    pub group: &'static str,
    /// Ours.
    pub ours: Figures,
    /// Theirs, where they have modules for it.
    pub peers: Option<Figures>,
}

fn of(n: usize, m: usize) -> String {
    if n + m == 0 {
        "-".into()
    } else {
        format!("{n}/{}", n + m)
    }
}

fn cells(f: &Figures) -> [String; 6] {
    [
        of(f.right, f.wrong),
        of(f.announced_right, f.announced - f.announced_right),
        of(
            f.unforeseeable_right,
            f.unforeseeable - f.unforeseeable_right,
        ),
        f.writes.to_string(),
        f.rest.to_string(),
        of(f.honest, f.dishonest),
    ]
}

fn percent(n: usize, m: usize) -> String {
    if n + m == 0 {
        return "-".into();
    }
    // Never rounded up to 100.
    #[expect(clippy::cast_precision_loss)]
    let p = (n as f64 * 1000.0 / (n + m) as f64).floor() / 10.0;
    format!("{p:.1} %")
}

fn total(rows: &[Row], theirs: bool) -> Figures {
    let mut t = Figures::default();
    for r in rows {
        if theirs {
            r.peers.iter().for_each(|p| t.add(p));
        } else {
            t.add(&r.ours);
        }
    }
    t
}

const HEAD: [&str; 6] = [
    "truth",
    "announced",
    "unforeseeable",
    "silence",
    "rest",
    "honesty",
];

/// For the terminal: a line for each scenario and side, then the totals.
pub fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|r| r.name.chars().count())
        .max()
        .unwrap_or(10);
    let mut out = format!("{:width$}  {:5}", "", "");
    for h in HEAD {
        let _ = write!(out, " {h:>13}");
    }
    out.push('\n');
    let mut line = |name: &str, side: &str, f: Option<&Figures>| {
        let _ = write!(out, "{name:width$}  {side:5}");
        match f {
            Some(f) => cells(f).iter().for_each(|c| {
                let _ = write!(out, " {c:>13}");
            }),
            None => out.push_str("          none"),
        }
        out.push('\n');
    };
    let peers = rows.iter().any(|r| r.peers.is_some());
    for r in rows {
        line(r.name, "ours", Some(&r.ours));
        if peers {
            line("", "peers", r.peers.as_ref());
        }
    }
    line("TOTAL", "ours", Some(&total(rows, false)));
    if peers {
        line("", "peers", Some(&total(rows, true)));
    }
    out
}

/// What is behind the figures, one line each.
pub fn findings(rows: &[Row]) -> String {
    let mut out = String::new();
    for r in rows {
        for (side, f) in [("ours", Some(&r.ours)), ("peers", r.peers.as_ref())] {
            for x in f.iter().flat_map(|f| &f.findings) {
                let _ = writeln!(out, "{side}: {:?}: {}", x.kind, x.text);
            }
        }
    }
    out
}

/// The differences of one side.
pub fn list(f: &Figures) -> String {
    let lines: Vec<String> = f
        .findings
        .iter()
        .map(|x| format!("  {:?}: {}", x.kind, x.text))
        .collect();
    lines.join("\n")
}

/// One sentence on each kind.
fn sentence(k: Kind) -> &'static str {
    match k {
        Kind::Skipped => {
            "The module has no check mode: Ansible skips the task in the check run, and for real it does something or fails."
        }
        Kind::NotReached => {
            "The check run had stopped at an earlier task, or lacked its result, so that nobody learned anything about this one."
        }
        Kind::FailsForReal => {
            "The check run said that the task would succeed, and for real it failed: what was asked for had not been held against the server."
        }
        Kind::FailsInCheck => {
            "The check run failed and the real run does not: the task builds on what an earlier task of the same playbook makes."
        }
        Kind::Changed => "Both runs succeed, but not both with a change.",
        Kind::Content => {
            "Both runs end alike, but the diff, the plan or the kind of failure is another."
        }
        Kind::OnlyInCheck => {
            "The check run went on to a task that the real run never came to, since it had failed before."
        }
        Kind::Unforeseen => "The server did something else than the module had foreseen.",
        Kind::Write => "The check run wrote.",
        Kind::Again => {
            "The task reports a change each time it runs, although all is as it is wanted."
        }
        Kind::NothingDone => "The real run says `changed`, and the world is as it was.",
        Kind::Silently => "The real run says `ok`, and the world has changed.",
        Kind::FailedSilently => {
            "The task fails after it has changed something, and does not say so."
        }
        Kind::Value => "A value in the result is not what the world shows after the task.",
    }
}

fn measure(k: Kind) -> &'static str {
    match k {
        Kind::Write => "silence",
        Kind::Again => "rest",
        Kind::NothingDone | Kind::Silently | Kind::FailedSilently | Kind::Value => "honesty",
        _ => "truth",
    }
}

fn escape(s: &str) -> String {
    s.replace('|', "\\|").replace(['<', '>'], "'")
}

/// docs/TRUTH.md.
pub fn document(rows: &[Row], seeds: &[u64]) -> String {
    let (ours, peers) = (total(rows, false), total(rows, true));
    let mut out = String::from(
        "# Check mode that tells the truth: the figures\n\nGenerated by `cargo xtask truth --write`; not written by hand.\n\n",
    );
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let _ = write!(
        out,
        "{} scenarios, each a playbook against a lab of its own (tests/labsim), run three times (`--check --diff`, for real, for real again) with \
         the lab seeds {}. Each is written once; the lines in which the peers' spelling differs are marked in modules/xtask/src/truth/scenarios. \
         The peers are those of `ansible` 14.5.0: community.proxmox 2.0.0, community.vmware 6.5.0, vmware.vmware 2.11.0. Both sides run in the same \
         command, with the same Ansible, against worlds of the same seeds, and are judged by the same code.\n\n",
        rows.len(),
        seeds.join(", ")
    );
    out.push_str(
        "- **truth**: of the results (task, host, item) that can be foreseen, those whose status, `changed` and diff in the check run were those of the \
         real run. A task that the check run skipped or never reached counts as wrong. For ours, plan and kind of failure must be equal as well, and the server must \
         not have done something else than foreseen.\n\
         - **announced**: results about which the check run itself said that it could not look at everything, or that it waits for something that runs; of these, those that came as foretold.\n\
         - **unforeseeable**: results that depend on what happens after the check run (a fault, a timeout, a change by somebody else); of these, those that came as foretold.\n\
         - **silence**: writes that the lab saw in the check run.\n\
         - **rest**: tasks that had succeeded in the second run and changed something in the third.\n\
         - **honesty**: tasks of the real run whose `changed` and returned values fit the lab's world before the next task.\n\n\
         A task that is skipped by its condition in both runs is not counted. Peers' modules return no diff, which counts as an equal diff.\n\n",
    );
    out.push_str("## In total\n\n| | ours | | peers | |\n|---|---:|---:|---:|---:|\n");
    let mut line = |name: &str, a: (usize, usize), b: (usize, usize)| {
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} |",
            of(a.0, a.1),
            percent(a.0, a.1),
            of(b.0, b.1),
            percent(b.0, b.1)
        );
    };
    line(
        "truth",
        (ours.right, ours.wrong),
        (peers.right, peers.wrong),
    );
    line(
        "announced",
        (ours.announced_right, ours.announced - ours.announced_right),
        (
            peers.announced_right,
            peers.announced - peers.announced_right,
        ),
    );
    line(
        "unforeseeable",
        (
            ours.unforeseeable_right,
            ours.unforeseeable - ours.unforeseeable_right,
        ),
        (
            peers.unforeseeable_right,
            peers.unforeseeable - peers.unforeseeable_right,
        ),
    );
    line(
        "honesty",
        (ours.honest, ours.dishonest),
        (peers.honest, peers.dishonest),
    );
    let _ = writeln!(
        out,
        "| silence (writes in check) | {} | | {} | |\n| rest (changed again) | {} | | {} | |\n",
        ours.writes, peers.writes, ours.rest, peers.rest
    );
    let without: Vec<&Row> = rows.iter().filter(|r| r.peers.is_none()).collect();
    if !without.is_empty() {
        let alone = {
            let mut t = Figures::default();
            without.iter().for_each(|r| t.add(&r.ours));
            t
        };
        let _ = writeln!(
            out,
            "Of these, {} scenarios are about what the peers have no module for (`none` in the table). In the scenarios that both have, ours are {} true and {} honest.\n",
            without.len(),
            of(ours.right - alone.right, ours.wrong - alone.wrong),
            of(ours.honest - alone.honest, ours.dishonest - alone.dishonest)
        );
    }
    out.push_str("## By scenario\n\nEach cell: ours · peers.\n\n| scenario | truth | announced | unforeseeable | silence | rest | honesty |\n|---|---|---|---|---|---|---|\n");
    let mut group = "";
    for r in rows {
        if r.group != group {
            group = r.group;
            let _ = writeln!(out, "| **{group}** | | | | | | |");
        }
        let _ = write!(out, "| {} |", escape(r.name));
        let theirs = r.peers.as_ref().map(cells);
        for (i, c) in cells(&r.ours).iter().enumerate() {
            let t = theirs.as_ref().map_or("none", |t| t[i].as_str());
            let _ = write!(out, " {c} · {t} |");
        }
        out.push('\n');
    }
    out.push_str("\n## The kinds of difference\n\n| kind | counts against | ours | peers | an example of the peers' |\n|---|---|---:|---:|---|\n");
    let mut kinds: BTreeMap<Kind, (usize, usize, Option<&Finding>)> = BTreeMap::new();
    for f in &ours.findings {
        kinds.entry(f.kind).or_default().0 += 1;
    }
    for f in &peers.findings {
        let e = kinds.entry(f.kind).or_default();
        e.1 += 1;
        e.2.get_or_insert(f);
    }
    for (k, (a, b, example)) in kinds {
        let text: String = example.map_or_else(String::new, |f| {
            escape(&f.text.replace('\n', " "))
                .chars()
                .take(260)
                .collect()
        });
        let _ = writeln!(
            out,
            "| {} | {} | {a} | {b} | {text} |",
            sentence(k),
            measure(k)
        );
    }
    out
}
