//! Tasks: making, showing, running them in the background.
use super::Inner;
use super::fault::Fault;
use super::model::{Obj, State, Task, now};
use super::render::refresh_vm;
use super::xml::mo;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(20);
const KEPT: usize = 400;

/// descriptionId of a method, as in `VirtualMachine.relocate`.
fn description_id(ty: &str, method: &str) -> String {
    let base = method.trim_end_matches("_Task").trim_end_matches("VM");
    let mut name = match method {
        "ReconfigVM_Task" => "reconfigure".to_string(),
        "CheckRelocate_Task" => return "vm.check.ProvisioningChecker.checkRelocate".into(),
        _ => base.to_string(),
    };
    if let Some(c) = name.get_mut(..1) {
        c.make_ascii_lowercase();
    }
    format!("{ty}.{name}")
}

/// Makes a task.
pub fn create(
    st: &mut State,
    method: &str,
    entity: (&str, &str),
    user: &str,
    cancelable: bool,
) -> String {
    let id = st.new_id("task");
    st.tasks.push(Task {
        id: id.clone(),
        method: method.into(),
        entity: (entity.0.into(), entity.1.into()),
        state: "queued",
        progress: None,
        cancelable,
        cancelled: false,
        error: None,
        result: None,
        queued_at: now(),
        started_at: None,
        ended_at: None,
        user: user.into(),
        datastores: vec![],
    });
    while st.tasks.len() > KEPT {
        let Some(i) = st.tasks.iter().position(|t| !t.active()) else {
            break;
        };
        let old = st.tasks.remove(i);
        st.objs.remove(&old.id);
    }
    show(st, &id, true);
    id
}

/// Renders a task; `lists` also renews the lists of recent tasks.
fn show(st: &mut State, id: &str, lists: bool) {
    let Some(t) = st.tasks.iter().find(|t| t.id == id).cloned() else {
        return;
    };
    let name = st
        .objs
        .get(&t.entity.1)
        .and_then(|o| o.props.get("name"))
        .cloned()
        .unwrap_or_default();
    let mut info = json!({
        "_t": "TaskInfo",
        "key": id, "task": mo("Task", id), "name": t.method, "descriptionId": description_id(&t.entity.0, &t.method),
        "entity": mo(&t.entity.0, &t.entity.1), "entityName": name, "state": t.state, "cancelled": t.cancelled, "cancelable": t.cancelable && t.active(),
        "reason": { "_t": "TaskReasonUser", "userName": t.user }, "queueTime": t.queued_at, "eventChainId": t.id.trim_start_matches("task-").parse::<i64>().unwrap_or(0),
    });
    for (k, v) in [("error", &t.error), ("result", &t.result)] {
        if let Some(v) = v {
            info[k] = v.clone();
        }
    }
    for (k, v) in [("startTime", &t.started_at), ("completeTime", &t.ended_at)] {
        if let Some(v) = v {
            info[k] = json!(v);
        }
    }
    if let (Some(p), true) = (t.progress, t.state == "running") {
        info["progress"] = json!(p);
    }
    let mut props = Map::new();
    props.insert("info".into(), info);
    st.objs.insert(
        id.into(),
        Obj {
            ty: "Task".into(),
            props,
        },
    );
    if lists {
        let of = |entity: Option<&str>, st: &State| {
            json!(
                st.tasks
                    .iter()
                    .filter(|t| entity.is_none_or(|e| t.entity.1 == e))
                    .map(|t| mo("Task", &t.id))
                    .collect::<Vec<_>>()
            )
        };
        let (all, mine) = (of(None, st), of(Some(&t.entity.1), st));
        let manager = st.content("taskManager");
        if let Some(o) = st.objs.get_mut(&manager) {
            o.props.insert("recentTask".into(), all);
        }
        if let Some(o) = st.objs.get_mut(&t.entity.1) {
            o.props.insert("recentTask".into(), mine);
        }
    }
}

/// Changes a task and shows it.
pub fn update(st: &mut State, id: &str, f: impl FnOnce(&mut Task)) {
    if let Some(t) = st.tasks.iter_mut().find(|t| t.id == id) {
        f(t);
    }
    show(st, id, false);
}

/// Ends a task.
pub fn end(st: &mut State, id: &str, result: Result<Option<Value>, Fault>) {
    update(st, id, |t| {
        t.ended_at = Some(now());
        t.progress = None;
        match result {
            Ok(v) => {
                t.state = "success";
                t.result = v;
            }
            Err(f) => {
                t.state = "error";
                t.error = Some(f.0);
            }
        }
    });
}

/// A task that was cancelled.
pub fn canceled() -> Fault {
    Fault::new(
        "RequestCanceled",
        "The task was canceled by a user.",
        json!({}),
    )
}

/// Waits for a task's time to pass, with progress.
///
/// # Errors
/// RequestCanceled; `None` when the world was reset meanwhile.
pub fn run_clock(inner: &Inner, generation: u64, id: &str, ms: u64) -> Result<(), Option<Fault>> {
    let (start, total) = (Instant::now(), Duration::from_millis(ms));
    let mut shown = -1i64;
    loop {
        let gone = start.elapsed();
        {
            let mut st = inner.lock();
            if st.generation != generation {
                return Err(None);
            }
            if st.tasks.iter().any(|t| t.id == id && t.cancelled) {
                return Err(Some(canceled()));
            }
            let p = if gone >= total {
                99
            } else {
                i64::try_from(gone.as_millis() * 100 / total.as_millis().max(1))
                    .unwrap_or(99)
                    .min(99)
            };
            if let Some(f) = broken(&mut st, id, p) {
                return Err(Some(f));
            }
            if p != shown {
                shown = p;
                update(&mut st, id, |t| t.progress = Some(p));
                inner.cond.notify_all();
            }
        }
        if gone >= total {
            return Ok(());
        }
        std::thread::sleep(STEP.min(total - gone));
    }
}

/// What ends a task before its time: a patch said so, or its machine's host has gone.
fn broken(st: &mut State, id: &str, percent: i64) -> Option<Fault> {
    let t = st.tasks.iter().find(|t| t.id == id)?;
    let (method, entity) = (t.method.clone(), t.entity.1.clone());
    let hit = st
        .task_faults
        .iter()
        .position(|(m, p)| *m == method && percent >= *p);
    if let Some(i) = hit {
        st.task_faults.remove(i);
        return Some(Fault::new(
            "GenericVmConfigFault",
            "A general system error occurred: the copy was interrupted.",
            json!({ "reason": "the copy was interrupted" }),
        ));
    }
    let vm = st.vms.get(&entity)?;
    (vm.connection == "disconnected").then(|| {
        Fault::new(
            "HostCommunication",
            "Unable to communicate with the remote host, since it is disconnected.",
            json!({}),
        )
    })
}

/// What an operation does when its time has passed.
pub type Finish = Box<dyn FnOnce(&mut State) -> Result<Option<Value>, Fault> + Send>;

/// Starts a task that takes `ms` and then does something to the state; answers its reference.
pub fn start(
    inner: &Arc<Inner>,
    st: &mut State,
    method: &str,
    entity: (&str, &str),
    user: &str,
    ms: u64,
    finish: Finish,
) -> Value {
    let id = create(st, method, entity, user, false);
    update(st, &id, |t| {
        t.state = "running";
        t.started_at = Some(now());
    });
    let (inner, generation, task, vm) = (
        Arc::clone(inner),
        st.generation,
        id.clone(),
        entity.1.to_string(),
    );
    std::thread::spawn(move || {
        let done = run_clock(&inner, generation, &task, ms);
        let mut st = inner.lock();
        if st.generation != generation || matches!(done, Err(None)) {
            return;
        }
        let result = match done {
            Err(Some(f)) => Err(f),
            _ => finish(&mut st),
        };
        end(&mut st, &task, result);
        if st.vms.contains_key(&vm) {
            refresh_vm(&mut st, &vm);
        }
        inner.cond.notify_all();
    });
    mo("Task", &id)
}
