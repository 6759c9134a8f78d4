//! Steps: tasks, guards, tolerances, waits. Answers that the lab is told to give are those recorded from the real API
//! (tests/fixtures/pve/running.json, create-config-cases.json, sdn-cases.json).
mod common;

use common::{Lab, upid, world};
use plan::{Await, Effect, ErrorKind, Guard, Request, Step, Tolerance, Wait, World};
use pve::keys::PveKey;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CONFIG: &str = "/nodes/pve1/qemu/100/config";

fn start() -> Step {
    Step::new(
        Request::new("POST", "/nodes/pve1/qemu/100/status/start"),
        "start it",
    )
    .wait(Await::Task { timeout_s: 20 })
}

fn change(how: Tolerance) -> Step {
    let request = Request::new("POST", CONFIG)
        .param("cores", 2)
        .param("delete", json!(["net0"]));
    Step::new(request, "change it")
        .wait(Await::Task { timeout_s: 20 })
        .tolerate(how)
}

/// A lab whose `start` gives a task that runs for some polls and ends with that status and log.
fn task(polls: u64, exit: &str, log: &[&str]) -> (Lab, String) {
    let lab = Lab::start(world());
    let u = upid("qmstart", "100");
    lab.answer(
        "POST",
        "/nodes/pve1/qemu/100/(status/start|config)",
        json!(u),
    );
    let status = "/nodes/pve1/tasks/[^/]+/status";
    for n in 1..=polls {
        lab.answer_nth(
            n,
            "GET",
            status,
            json!({"upid": u, "status": "running", "node": "pve1"}),
        );
    }
    lab.answer("GET", status, json!({"upid": u, "status": "stopped", "exitstatus": exit, "node": "pve1", "type": "qmstart"}));
    let lines: Vec<Value> = log
        .iter()
        .enumerate()
        .map(|(i, t)| json!({"n": i + 1, "t": t}))
        .collect();
    lab.answer("GET", "/nodes/pve1/tasks/[^/]+/log", json!(lines));
    (lab, u)
}

#[test]
fn a_task_is_waited_for_and_its_name_is_encoded() {
    let (lab, u) = task(2, "OK", &["TASK OK"]);
    let sent = lab.live().send(&start(), &[]).unwrap();
    assert_eq!(
        (sent.answer, sent.done, sent.warnings.len()),
        (json!(u), true, 0)
    );
    let requests = lab.requests();
    // No log is read of a task that ended well.
    assert_eq!(requests.len(), 4, "{requests:?}");
    assert!(
        requests[1].contains("root%40pam%21full%3A/status"),
        "{}",
        requests[1]
    );
}

#[test]
fn a_task_that_is_not_known_yet_is_asked_again() {
    let (lab, u) = task(0, "OK", &[]);
    lab.no_faults();
    lab.answer("POST", "/nodes/pve1/qemu/100/status/start", json!(u));
    lab.fault(json!({"method": "GET", "path": "/status$", "nth": 1, "do": {"status": 500, "reason": "no such task"}}));
    lab.answer(
        "GET",
        "/nodes/pve1/tasks/[^/]+/status",
        json!({"status": "stopped", "exitstatus": "OK"}),
    );
    lab.live().send(&start(), &[]).unwrap();
}

#[test]
fn warnings_are_success_and_are_carried() {
    let (lab, _) = task(
        1,
        "WARNINGS: 1",
        &[
            "some line",
            "WARN: no efidisk configured! Using temporary efivars disk.",
            "TASK WARNINGS: 1",
        ],
    );
    let sent = lab.live().send(&start(), &[]).unwrap();
    assert_eq!(
        sent.warnings,
        ["WARN: no efidisk configured! Using temporary efivars disk."]
    );
}

#[test]
fn a_failed_task_says_why_with_the_end_of_its_log() {
    let (lab, u) = task(
        1,
        "bridge 'vmbr77' does not exist",
        &["preparing", "TASK ERROR: bridge 'vmbr77' does not exist"],
    );
    let f = lab.live().send(&start(), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::TaskFailed);
    assert_eq!(
        f.msg,
        format!(
            "unable to start guest 100: task {u} failed: bridge 'vmbr77' does not exist (log: preparing)"
        )
    );
    assert_eq!(f.extra["upid"], u.as_str());
    assert_eq!(f.extra["exitstatus"], "bridge 'vmbr77' does not exist");
    assert!(!f.replan && !f.lost_answer);
}

#[test]
fn a_privilege_that_only_the_task_misses_is_named() {
    let (lab, _) = task(
        0,
        "unable to create VM 100 - 403 Permission check failed (/vms/100, VM.Config.Options)",
        &[],
    );
    let f = lab.live().send(&start(), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Permission);
    assert!(
        f.msg
            .contains("privilege VM.Config.Options is missing on /vms/100"),
        "{}",
        f.msg
    );
}

#[test]
fn a_task_that_takes_too_long_is_still_running() {
    let (lab, u) = task(1_000, "OK", &[]);
    let mut step = start();
    step.wait = Await::Task { timeout_s: 1 };
    let begun = Instant::now();
    let f = lab.live().send(&step, &[]).unwrap_err();
    assert!(begun.elapsed() >= Duration::from_secs(1) && begun.elapsed() < Duration::from_secs(4));
    assert_eq!(f.kind, ErrorKind::Timeout);
    assert!(
        f.msg.contains("still running") && f.msg.contains(&u),
        "{}",
        f.msg
    );
    assert_eq!(f.extra["upid"], u.as_str());
}

#[test]
fn polling_slows_down() {
    let (lab, _) = task(1_000, "OK", &[]);
    let mut step = start();
    step.wait = Await::Task { timeout_s: 3 };
    lab.live().send(&step, &[]).unwrap_err();
    let polls = lab.requests().len() - 1;
    // 0.1, 0.15, 0.225, ... sums to 3 s after 7 pauses.
    assert!((6..=10).contains(&polls), "{polls}");
}

#[test]
fn nothing_is_waited_for_when_the_plan_does_not_want_it() {
    let (lab, u) = task(5, "OK", &[]);
    for wait in [Await::NoWait, Await::Answer] {
        let before = lab.requests().len();
        let mut step = start();
        step.wait = wait;
        assert_eq!(lab.live().send(&step, &[]).unwrap().answer, u.as_str());
        assert_eq!(lab.requests().len() - before, 1);
    }
}

#[test]
fn a_hotplug_problem_is_stored_all_the_same() {
    let lab = Lab::start(world());
    lab.refuse(
        "POST",
        CONFIG,
        400,
        "Parameter verification failed.\n",
        json!({"net0": "hotplug problem - error on hot-unplugging device 'net0' - still busy in guest?\n"}),
    );
    let sent = lab
        .live()
        .send(
            &change(Tolerance::StoredAllTheSame("hotplug problem - ")),
            &[],
        )
        .unwrap();
    assert!(sent.done);
    assert_eq!(sent.warnings.len(), 1);
    assert!(sent.warnings[0].contains("net0") && sent.warnings[0].contains("still busy"));
    assert_eq!(lab.log()[0]["params"]["delete"], "net0");

    // Strict: the same answer is a failure.
    let f = lab
        .live()
        .send(&change(Tolerance::Strict), &[])
        .unwrap_err();
    assert_eq!(f.kind, ErrorKind::Api);
    assert!(f.msg.contains("net0: hotplug problem"), "{}", f.msg);

    // One more message of another kind: not all was stored.
    lab.no_faults();
    lab.refuse(
        "POST",
        CONFIG,
        400,
        "Parameter verification failed.\n",
        json!({"net0": "hotplug problem - x\n", "cores": "type check failed\n"}),
    );
    assert!(
        lab.live()
            .send(
                &change(Tolerance::StoredAllTheSame("hotplug problem - ")),
                &[]
            )
            .is_err()
    );
}

#[test]
fn a_hotplug_problem_in_a_task_is_stored_all_the_same() {
    let exit = "400 Parameter verification failed. net0: hotplug problem - error on hot-unplugging device 'net0' - still busy in guest? ";
    let log = format!("TASK ERROR: {exit}");
    let (lab, _) = task(1, exit, &["update VM 100: -delete net0", &log]);
    let sent = lab
        .live()
        .send(
            &change(Tolerance::StoredAllTheSame("hotplug problem - ")),
            &[],
        )
        .unwrap();
    assert!(sent.done && sent.warnings[0].contains("net0"), "{sent:?}");
    let (lab, _) = task(
        1,
        "400 Parameter verification failed. cores: type check failed",
        &[],
    );
    let f = lab
        .live()
        .send(
            &change(Tolerance::StoredAllTheSame("hotplug problem - ")),
            &[],
        )
        .unwrap_err();
    assert_eq!(f.kind, ErrorKind::TaskFailed);
}

#[test]
fn a_stale_digest_asks_for_a_new_plan_and_an_end_reached_is_no_failure() {
    let lab = Lab::start(world());
    lab.refuse(
        "POST",
        CONFIG,
        500,
        "checksum mismatch (file change by other user?)\n",
        json!(null),
    );
    let f = lab
        .live()
        .send(&change(Tolerance::Replan("checksum mismatch")), &[])
        .unwrap_err();
    assert!(f.replan && f.kind == ErrorKind::Api, "{f:?}");
    let f = lab
        .live()
        .send(&change(Tolerance::Strict), &[])
        .unwrap_err();
    assert!(!f.replan);

    let (lab, _) = task(
        1,
        "VM 100 already running",
        &["TASK ERROR: VM 100 already running"],
    );
    let sent = lab
        .live()
        .send(
            &start().tolerate(Tolerance::AlreadyDone("already running")),
            &[],
        )
        .unwrap();
    assert!(!sent.done);
}

fn status(lab: &Lab, nth: Option<u64>, status: &str) {
    let path = "/nodes/pve1/qemu/100/status/current";
    let data = json!({"status": status, "vmid": 100, "ha": {"managed": 0}});
    match nth {
        Some(n) => lab.answer_nth(n, "GET", path, data),
        None => lab.answer("GET", path, data),
    }
}

fn guest(lab: &Lab) {
    lab.answer(
        "GET",
        "/cluster/resources",
        json!([{"id": "qemu/100", "vmid": 100, "node": "pve1", "type": "qemu"}]),
    );
    lab.answer(
        "GET",
        "/nodes/pve1/qemu/100/pending",
        json!([{"key": "digest", "value": "d"}]),
    );
}

fn stop_if_needed(seconds: u64) -> Step {
    Step::new(
        Request::new("POST", "/nodes/pve1/qemu/100/status/stop"),
        "stop it",
    )
    .guard(Guard::UnlessWithin {
        key: PveKey::GuestStatus(100).key(),
        pointer: "/status".into(),
        equals: json!("stopped"),
        reached: "stopped".into(),
        seconds,
    })
}

#[test]
fn a_guard_makes_a_step_unnecessary_or_not() {
    let lab = Lab::start(world());
    guest(&lab);
    status(&lab, Some(1), "running");
    status(&lab, Some(2), "running");
    status(&lab, None, "stopped");
    let sent = lab.live().send(&stop_if_needed(10), &[]).unwrap();
    assert!(!sent.done);
    assert!(!lab.requests().iter().any(|r| r.starts_with("POST")));

    let lab = Lab::start(world());
    guest(&lab);
    status(&lab, None, "running");
    let u = upid("qmstop", "100");
    lab.answer("POST", "/nodes/pve1/qemu/100/status/stop", json!(u));
    let begun = Instant::now();
    let sent = lab.live().send(&stop_if_needed(1), &[]).unwrap();
    assert!(sent.done && begun.elapsed() >= Duration::from_secs(1));
}

#[test]
fn until_polls_a_fact_after_the_task() {
    let (lab, _) = task(1, "OK", &[]);
    guest(&lab);
    status(&lab, Some(1), "stopped");
    status(&lab, None, "running");
    let until = |equals: &str, timeout_s| Await::Until {
        key: PveKey::GuestStatus(100).key(),
        pointer: "/status".into(),
        equals: json!(equals),
        timeout_s,
    };
    lab.live()
        .send(&start().wait(until("running", 10)), &[])
        .unwrap();
    let f = lab
        .live()
        .send(&start().wait(until("paused", 1)), &[])
        .unwrap_err();
    assert_eq!(f.kind, ErrorKind::Timeout);
    assert!(f.extra.contains_key("upid"));
}

fn wait(key: PveKey, pointer: &str, timeout_s: u64) -> Wait {
    Wait {
        what: "lock backup of guest 100".into(),
        joins: false,
        key: key.key(),
        pointer: pointer.into(),
        equals: Value::Null,
        timeout_s,
        assume: vec![Effect::Gone(PveKey::GuestTasks(100).key())],
        stale: vec![],
    }
}

#[test]
fn a_lock_is_waited_for_and_named_when_it_stays() {
    let lab = Lab::start(world());
    let pending = "/nodes/pve1/qemu/100/pending";
    let locked = json!([{"key": "digest", "value": "d"}, {"key": "lock", "value": "backup"}]);
    lab.answer(
        "GET",
        "/cluster/resources",
        json!([{"vmid": 100, "node": "pve1", "type": "qemu"}]),
    );
    lab.answer_nth(1, "GET", pending, locked.clone());
    lab.answer_nth(2, "GET", pending, locked.clone());
    lab.answer("GET", pending, json!([{"key": "digest", "value": "e"}]));
    lab.live()
        .settle(&wait(PveKey::Guest(100), "/lock", 10))
        .unwrap();
    assert_eq!(
        lab.requests()
            .iter()
            .filter(|r| r.ends_with("pending"))
            .count(),
        3
    );

    let lab = Lab::start(world());
    lab.answer(
        "GET",
        "/cluster/resources",
        json!([{"vmid": 100, "node": "pve1", "type": "qemu"}]),
    );
    lab.answer("GET", pending, locked);
    let u = upid("vzdump", "100");
    lab.answer("GET", "/nodes/pve1/tasks", json!([
        {"upid": "UPID:old", "node": "pve1", "type": "qmstart", "user": "root@pam", "starttime": 1, "endtime": 2, "status": "OK"},
        {"upid": u, "node": "pve1", "type": "vzdump", "user": "root@pam", "starttime": 3},
    ]));
    let f = lab
        .live()
        .settle(&wait(PveKey::Guest(100), "/lock", 1))
        .unwrap_err();
    assert_eq!(f.kind, ErrorKind::Timeout);
    for part in ["lock backup of guest 100", &u, "still running"] {
        assert!(f.msg.contains(part), "{}", f.msg);
    }
    assert!(!f.msg.contains("UPID:old"));
    assert_eq!(f.extra["upid"], u.as_str());
}

#[test]
fn a_task_that_ends_in_any_way_ends_the_wait() {
    let (lab, u) = task(2, "got timeout", &["TASK ERROR: got timeout"]);
    let mut w = wait(PveKey::Task(u), "/exitstatus", 10);
    w.equals = json!("OK");
    lab.live().settle(&w).unwrap();
}

#[test]
fn an_undo_waits_for_its_task() {
    let lab = Lab::start(world());
    let u = upid("qmdestroy", "100");
    lab.answer("DELETE", "/nodes/pve1/qemu/100", json!(u));
    lab.answer(
        "GET",
        "/nodes/pve1/tasks/[^/]+/status",
        json!({"status": "stopped", "exitstatus": "VM is locked (create)"}),
    );
    let request = Request::new("DELETE", "/nodes/pve1/qemu/100").param("purge", true);
    let f = lab.live().undo(&request, &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::TaskFailed);
    // A DELETE has its parameters in the query, a boolean is 1.
    assert_eq!(lab.log()[0]["params"]["purge"], "1");
}

#[test]
fn an_answer_that_is_missing_is_a_fault_of_the_plan() {
    let lab = Lab::start(world());
    let request = Request::new("POST", "/cluster/sdn/zones").arg(
        "lock-token",
        plan::Arg::Answer {
            step: 0,
            symbol: "<lock token>".into(),
        },
    );
    let f = lab.live().send(&Step::new(request, "x"), &[]).unwrap_err();
    assert_eq!(f.kind, ErrorKind::Internal);
    assert!(lab.log().is_empty());
}
