//! Tasks: UPIDs, threads that take time, status and log.
use super::{Auth, Call, Lab, PveError, Router};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One task's record.
#[derive(Debug)]
pub struct Task {
    /// `UPID:node:pid:pstart:start:type:id:user:`.
    pub upid: String,
    /// The node it runs on.
    pub node: String,
    /// `qmcreate`, `srvreload`, ...
    pub kind: String,
    /// The worker's id, often a vmid; may be empty.
    pub id: String,
    /// Who started it, with token: `root@pam!full`.
    pub user: String,
    /// Seconds since the epoch.
    pub starttime: u64,
    pid: u64,
    pstart: u64,
    stop: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    endtime: Option<u64>,
    exitstatus: Option<String>,
    log: Vec<String>,
    warnings: u32,
}

impl Task {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// `None` while it runs.
    pub fn exitstatus(&self) -> Option<String> {
        self.inner().exitstatus.clone()
    }
}

/// All tasks, oldest first.
#[derive(Default)]
pub struct Tasks {
    list: Mutex<Vec<Arc<Task>>>,
    next: AtomicU64,
}

/// What a running task has in hand.
pub struct TaskCtx {
    /// The cluster.
    pub lab: Arc<Lab>,
    task: Arc<Task>,
}

impl TaskCtx {
    /// This task's UPID.
    pub fn upid(&self) -> &str {
        &self.task.upid
    }

    /// Adds a line to the task's log.
    pub fn log(&self, line: impl Into<String>) {
        self.task.inner().log.push(line.into());
    }

    /// Adds a `WARN: ` line; the task then ends `WARNINGS: n` instead of OK.
    pub fn warn(&self, line: &str) {
        let mut inner = self.task.inner();
        inner.log.push(format!("WARN: {line}"));
        inner.warnings += 1;
    }

    /// Whether somebody asked this task to stop.
    pub fn stopped(&self) -> bool {
        self.task.stop.load(Ordering::SeqCst)
    }

    /// Waits. Errors: `received interrupt` as soon as the task is stopped.
    pub fn sleep(&self, ms: u64) -> Result<(), String> {
        let mut left = ms;
        while left > 0 {
            if self.stopped() {
                return Err("received interrupt".into());
            }
            let step = left.min(20);
            std::thread::sleep(Duration::from_millis(step));
            left -= step;
        }
        if self.stopped() {
            Err("received interrupt".into())
        } else {
            Ok(())
        }
    }

    /// Waits as long as a task of that type takes (by world and seed). Errors: as `sleep`.
    pub fn work(&self, kind: &str) -> Result<(), String> {
        self.sleep(self.lab.task_ms(kind))
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_secs())
        .unwrap_or(0)
}

/// Starts a task on a thread of its own and returns its UPID. `Ok` ends it `OK` (or `WARNINGS: n`), `Err` with that text.
pub fn spawn_task<F>(
    lab: &Arc<Lab>,
    node: &str,
    kind: &str,
    id: &str,
    auth: &Auth,
    work: F,
) -> String
where
    F: FnOnce(&TaskCtx) -> Result<(), String> + Send + 'static,
{
    spawn_as(lab, node, kind, id, &auth.authid(), work)
}

/// `spawn_task` for a user named by text, such as `root@pam` for what the node does by itself.
pub fn spawn_as<F>(lab: &Arc<Lab>, node: &str, kind: &str, id: &str, user: &str, work: F) -> String
where
    F: FnOnce(&TaskCtx) -> Result<(), String> + Send + 'static,
{
    let n = lab.tasks.next.fetch_add(1, Ordering::SeqCst);
    let (pid, pstart, starttime) = (
        0x1000 + n * 7 + lab.seed % 97,
        0x00A0_0000 + lab.now_ms() / 10,
        now(),
    );
    let upid = format!("UPID:{node}:{pid:08X}:{pstart:08X}:{starttime:08X}:{kind}:{id}:{user}:");
    let task = Arc::new(Task {
        upid: upid.clone(),
        node: node.into(),
        kind: kind.into(),
        id: id.into(),
        user: user.into(),
        starttime,
        pid,
        pstart,
        stop: AtomicBool::new(false),
        inner: Mutex::default(),
    });
    lab.tasks.list().push(task.clone());
    let ctx = TaskCtx {
        lab: lab.clone(),
        task,
    };
    std::thread::spawn(move || {
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&ctx)))
            .unwrap_or_else(|_| Err("labsim: the task panicked".into()));
        let mut inner = ctx.task.inner();
        let exit = match end {
            Ok(()) if inner.warnings > 0 => format!("WARNINGS: {}", inner.warnings),
            Ok(()) => "OK".to_string(),
            Err(_) if ctx.stopped() => "unexpected status".to_string(),
            Err(text) => text.trim_end().to_string(),
        };
        match exit.as_str() {
            "OK" => inner.log.push("TASK OK".into()),
            w if w.starts_with("WARNINGS") => inner.log.push(format!("TASK {w}")),
            e => {
                let line = format!("TASK ERROR: {e}");
                inner.log.push(line);
            }
        }
        inner.endtime = Some(now());
        // The real API answers the first line only (`exitstatus` is read from the last line of the log).
        inner.exitstatus = Some(exit.lines().next().unwrap_or("").to_string());
    });
    upid
}

impl Tasks {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Task>>> {
        self.list.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The task of that UPID.
    pub fn get(&self, upid: &str) -> Option<Arc<Task>> {
        self.list().iter().find(|t| t.upid == upid).cloned()
    }

    /// Asks every task to stop and forgets them all; those that still run end on their own.
    pub fn abandon(&self) {
        for task in self.list().drain(..) {
            task.stop.store(true, Ordering::SeqCst);
        }
    }

    /// All tasks for `GET /labsim/world`.
    pub fn dump(&self) -> Value {
        self.list()
            .iter()
            .map(|t| {
                let inner = t.inner();
                json!({"upid": t.upid, "node": t.node, "type": t.kind, "id": t.id, "user": t.user,
                    "status": inner.exitstatus, "log": inner.log})
            })
            .collect()
    }
}

/// Adds the routes of this file.
pub fn register(_r: &mut Router) {}

#[allow(dead_code)]
fn todo(_lab: &Arc<Lab>, _call: &Call, t: &Task) -> Result<Value, PveError> {
    Ok(json!([t.pid, t.pstart]))
}
