//! Whether a guest ever ran, as far as the task lists of the nodes tell.
//!
//! Whatever starts a guest through Proxmox VE (API, `qm`, HA, the start of a node, a rollback to a snapshot with memory) leaves a task of
//! its id on the node where it starts; the lists drop their oldest entries only. So where the task that made the guest is still listed, all
//! that came after it is too. What leaves no task: a qemu that was started by hand, and a node that left the cluster.

use serde_json::{Map, Value, json};

/// Tasks after which a guest has run.
const STARTS: &[&str] = &["qmstart", "qmresume", "qmreboot", "qmreset"];
/// Tasks after which it may have run, or holds what ran elsewhere.
const DOUBTFUL: &[&str] = &["qmrollback", "qmrestore", "qmsuspend", "qmigrate"];

fn is(t: &Value, kinds: &[&str]) -> bool {
    t["type"].as_str().is_some_and(|k| kinds.contains(&k))
}

fn ended_well(t: &Value) -> bool {
    t["status"]
        .as_str()
        .is_some_and(|s| s == "OK" || s.starts_with("WARNINGS"))
}

fn ended_badly(t: &Value) -> bool {
    t["endtime"].is_u64() && !ended_well(t)
}

fn short(t: &Value) -> Value {
    let mut o = Map::new();
    for k in ["upid", "node", "type", "user", "starttime", "status"] {
        o.insert(k.to_owned(), t.get(k).cloned().unwrap_or(Value::Null));
    }
    Value::Object(o)
}

/// `{ran: bool | null, why, created, starts: [task], running: [task], unseen: [text]}` of a guest, from [`pve::keys::PveKey::GuestHistory`]
/// and whether it runs now; times are seconds since 1970.
pub fn told(history: &Value, runs_now: bool) -> Value {
    let tasks: Vec<&Value> = history["tasks"].as_array().into_iter().flatten().collect();
    let unseen: Vec<&str> = history["unseen"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // The last one that succeeded: earlier guests may have had this id.
    let made = tasks
        .iter()
        .rposition(|t| is(t, &["qmcreate"]) && ended_well(t));
    let since = &tasks[made.map_or(0, |i| i + 1)..];
    let created = made.map(|i| tasks[i]["starttime"].clone());
    let starts: Vec<&Value> = since.iter().copied().filter(|t| is(t, STARTS)).collect();
    let good = starts.iter().find(|t| !ended_badly(t));
    let doubtful = since.iter().find(|t| is(t, DOUBTFUL));
    let named = |t: &Value| {
        format!(
            "{} of {} on node {}",
            t["type"].as_str().unwrap_or("a task"),
            t["user"].as_str().unwrap_or("somebody"),
            t["node"].as_str().unwrap_or("?")
        )
    };
    let (ran, why) = if runs_now {
        (Some(true), "it runs now".to_owned())
    } else if let Some(t) = good {
        (Some(true), format!("it was started: {}", named(t)))
    } else if let Some(t) = starts.first() {
        let end = t["status"].as_str().unwrap_or("with no status");
        (
            None,
            format!(
                "a start of it failed ({}: {end}), and whether it ran for a moment is not known",
                named(t)
            ),
        )
    } else if let Some(t) = doubtful {
        (
            None,
            format!("{} may have started it, or brought what ran", named(t)),
        )
    } else if !unseen.is_empty() {
        (
            None,
            format!("not all task lists are known: {}", unseen.join("; ")),
        )
    } else if made.is_none() {
        let why = "the task that made it is in no node's list any more, so that starts may have been dropped as well";
        (None, why.to_owned())
    } else {
        let why = "no node's task list has a start of it since it was made";
        (Some(false), why.to_owned())
    };
    let running: Vec<Value> = tasks
        .iter()
        .filter(|t| {
            t["endtime"].is_null()
                && matches!(
                    t["status"].as_str(),
                    None | Some("" | "RUNNING" | "running")
                )
        })
        .map(|t| short(t))
        .collect();
    let starts: Vec<Value> = starts.into_iter().map(short).collect();
    json!({"ran": ran, "why": why, "created": created, "starts": starts, "running": running, "unseen": unseen})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(kind: &str, at: u64, status: &str) -> Value {
        json!({"type": kind, "starttime": at, "endtime": at + 1, "status": status, "node": "pve1", "user": "root@pam", "upid": "UPID:x"})
    }

    fn ran(tasks: Value, unseen: &[&str]) -> Option<bool> {
        told(&json!({"tasks": tasks, "unseen": unseen}), false)["ran"].as_bool()
    }

    #[test]
    fn only_a_whole_list_says_no() {
        let made = task("qmcreate", 10, "OK");
        assert_eq!(ran(json!([made]), &[]), Some(false));
        assert_eq!(ran(json!([]), &[]), None);
        assert_eq!(ran(json!([task("qmconfig", 20, "OK")]), &[]), None);
        assert_eq!(ran(json!([made]), &["node pve2 does not answer"]), None);
        assert_eq!(
            told(&json!({"tasks": [made], "unseen": []}), true)["ran"],
            true
        );
    }

    #[test]
    fn a_start_is_a_start_of_this_guest() {
        let (made, start) = (task("qmcreate", 10, "OK"), task("qmstart", 20, "OK"));
        assert_eq!(ran(json!([made, start]), &[]), Some(true));
        assert_eq!(ran(json!([start]), &["x"]), Some(true));
        // Another guest had the id before; a create that failed made none.
        let again = task("qmcreate", 30, "OK");
        let failed = task("qmcreate", 30, "unable to create");
        assert_eq!(ran(json!([made, start, again]), &[]), Some(false));
        assert_eq!(ran(json!([made, start, failed]), &[]), Some(true));
        assert_eq!(
            ran(json!([made, task("qmstart", 20, "WARNINGS: 1")]), &[]),
            Some(true)
        );
        assert_eq!(
            ran(json!([made, {"type": "qmstart", "starttime": 20}]), &[]),
            Some(true)
        );
    }

    #[test]
    fn what_may_have_run_is_not_known() {
        let made = task("qmcreate", 10, "OK");
        for (kind, status) in [
            ("qmstart", "start failed"),
            ("qmrollback", "OK"),
            ("qmrestore", "OK"),
            ("qmigrate", "OK"),
        ] {
            assert_eq!(
                ran(json!([made, task(kind, 20, status)]), &[]),
                None,
                "{kind}"
            );
        }
    }
}
