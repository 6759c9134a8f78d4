//! Tasks: UPIDs, threads that take time, status and log.
use super::{Auth, Call, Lab, PveError, Router, schema};
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
            // The real worker puts its error on one line (PVE::RESTEnvironment, fork_worker).
            Err(text) => text.trim_end().replace('\n', " "),
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
        inner.exitstatus = Some(exit);
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

    /// Asks every task to stop, waits (up to 10 seconds) until they have, and forgets them all: what still ran after that would
    /// write into a world that is no longer its own.
    pub fn abandon(&self) {
        let old: Vec<Arc<Task>> = self.list().drain(..).collect();
        for task in &old {
            task.stop.store(true, Ordering::SeqCst);
        }
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while old.iter().any(|t| t.exitstatus().is_none()) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
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

/// Waits up to `ms` for a task: `null` if it has ended well by then, its UPID if it still runs (what `delay` and `background_delay`
/// do). Errors: 500 with the exit status if it has failed by then.
pub fn null_if_done(lab: &Lab, upid: &str, ms: u64) -> Result<Value, PveError> {
    let end = lab.now_ms() + ms;
    while lab.now_ms() < end {
        match lab.tasks.get(upid).and_then(|t| t.exitstatus()) {
            Some(s) if s == "OK" || s.starts_with("WARNINGS") => return Ok(Value::Null),
            Some(s) => return Err(PveError::die(s)),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(json!(upid))
}

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("GET", "/nodes/{node}/tasks", list);
    r.add("GET", "/nodes/{node}/tasks/{upid}", index);
    r.add("DELETE", "/nodes/{node}/tasks/{upid}", stop);
    r.add("GET", "/nodes/{node}/tasks/{upid}/status", status);
    r.add("GET", "/nodes/{node}/tasks/{upid}/log", log);
    r.add("GET", "/cluster/tasks", cluster);
}

/// The starter, or the owner of the token that started it, needs no privilege.
fn is_own(task: &Task, auth: &Auth) -> bool {
    let me = auth.authid();
    task.user == me || (auth.token.is_none() && Auth::parse(&task.user).userid == me)
}

fn find(lab: &Lab, call: &Call) -> Result<Arc<Task>, PveError> {
    let upid = call.arg("upid");
    let parts: Vec<&str> = upid.split(':').collect();
    let hex = |i: usize, n: usize| {
        parts
            .get(i)
            .is_some_and(|p| p.len() >= n && p.chars().all(|c| c.is_ascii_hexdigit()))
    };
    if parts.len() != 9
        || parts[0] != "UPID"
        || !hex(2, 8)
        || !hex(3, 8)
        || !hex(4, 8)
        || parts[5].is_empty()
    {
        return Err(PveError::param("upid", "unable to parse worker upid"));
    }
    lab.tasks
        .get(&upid)
        .filter(|t| t.node == call.arg("node"))
        .ok_or_else(|| PveError::param("upid", "no such task"))
}

fn readable(lab: &Lab, call: &Call) -> Result<Arc<Task>, PveError> {
    let task = find(lab, call)?;
    if !is_own(&task, &call.auth) {
        lab.st()
            .check(&call.auth, &format!("/nodes/{}", task.node), &["Sys.Audit"])?;
    }
    Ok(task)
}

/// What all views of a task share; a token's name is shown apart from its owner's.
fn show(t: &Task) -> Value {
    let who = Auth::parse(&t.user);
    let mut v = json!({"upid": t.upid, "node": t.node, "type": t.kind, "id": t.id, "user": who.userid, "starttime": t.starttime});
    if let Some(token) = who.token {
        v["tokenid"] = json!(token);
    }
    v
}

fn index(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    find(lab, call)?;
    Ok(json!([{"name": "log"}, {"name": "status"}]))
}

fn status(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let t = readable(lab, call)?;
    let mut v = show(&t);
    v["pid"] = json!(t.pid);
    v["pstart"] = json!(t.pstart);
    match t.exitstatus() {
        Some(exit) => {
            v["status"] = json!("stopped");
            v["exitstatus"] = json!(exit);
        }
        None => v["status"] = json!("running"),
    }
    Ok(v)
}

fn log(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let t = readable(lab, call)?;
    let inner = t.inner();
    let start = call.int("start").unwrap_or(0).max(0) as usize;
    let limit = match call.int("limit").unwrap_or(50) {
        0 => usize::MAX,
        n => n.max(0) as usize,
    };
    if inner.log.is_empty() {
        return Ok(schema::with_total(json!([{"n": 1, "t": "no content"}]), 1));
    }
    let lines: Vec<Value> = inner
        .log
        .iter()
        .enumerate()
        .skip(start)
        .take(limit)
        .map(|(i, l)| json!({"n": i + 1, "t": l}))
        .collect();
    Ok(schema::with_total(lines.into(), inner.log.len()))
}

fn stop(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let t = find(lab, call)?;
    if !is_own(&t, &call.auth) {
        lab.st()
            .check(&call.auth, &format!("/nodes/{}", t.node), &["Sys.Modify"])?;
    }
    t.stop.store(true, Ordering::SeqCst);
    Ok(Value::Null)
}

fn list(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let node = call.arg("node");
    let audit = lab
        .st()
        .may(&call.auth, &format!("/nodes/{node}"), &["Sys.Audit"]);
    let source = call.text("source").unwrap_or_else(|| "archive".into());
    let wanted = super::formats::split_list(&call.arg("statusfilter"));
    let tasks: Vec<Arc<Task>> = lab.tasks.list().iter().rev().cloned().collect();
    let mut all = Vec::new();
    for t in tasks
        .iter()
        .filter(|t| t.node == node && (audit || is_own(t, &call.auth)))
    {
        let (exit, end) = {
            let inner = t.inner();
            (inner.exitstatus.clone(), inner.endtime)
        };
        let fits = match source.as_str() {
            "archive" => exit.is_some(),
            "active" => exit.is_none(),
            _ => true,
        };
        let bad = exit
            .as_ref()
            .is_some_and(|e| e != "OK" && !e.starts_with("WARNINGS"));
        let class = match exit.as_deref() {
            Some("OK") => "ok",
            Some(e) if e.starts_with("WARNINGS") => "warning",
            Some(_) => "error",
            None => "unknown",
        };
        let (start, low, high) = (t.starttime as i64, call.int("since"), call.int("until"));
        if !fits
            || call.text("vmid").is_some_and(|v| v != t.id)
            || call.text("typefilter").is_some_and(|k| k != t.kind)
            || call
                .text("userfilter")
                .is_some_and(|u| !t.user.to_lowercase().contains(&u.to_lowercase()))
            || (call.flag("errors") && !bad)
            || (!wanted.is_empty() && !wanted.iter().any(|w| w == class))
            || low.is_some_and(|n| start < n)
            || high.is_some_and(|n| start > n)
        {
            continue;
        }
        let mut v = show(t);
        v["pid"] = json!(t.pid);
        v["pstart"] = json!(t.pstart);
        if let (Some(exit), Some(end)) = (exit, end) {
            v["status"] = json!(exit);
            v["endtime"] = json!(end);
        }
        all.push(v);
    }
    let total = all.len();
    let (start, limit) = (
        call.int("start").unwrap_or(0).max(0),
        call.int("limit").unwrap_or(50).max(0),
    );
    let page: Vec<Value> = all
        .into_iter()
        .skip(start as usize)
        .take(if limit == 0 {
            usize::MAX
        } else {
            limit as usize
        })
        .collect();
    Ok(schema::with_total(page.into(), total))
}

fn cluster(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let audit = lab.st().may(&call.auth, "/", &["Sys.Audit"]);
    let tasks: Vec<Arc<Task>> = lab.tasks.list().iter().rev().cloned().collect();
    Ok(tasks
        .iter()
        .filter(|t| audit || is_own(t, &call.auth))
        // Every node publishes its newest 25 only.
        .take(25)
        .map(|t| {
            let inner = t.inner();
            let mut v = show(t);
            v["saved"] = json!("0");
            if let (Some(exit), Some(end)) = (&inner.exitstatus, inner.endtime) {
                v["status"] = json!(exit);
                v["endtime"] = json!(end);
                v["saved"] = json!("1");
            }
            v
        })
        .collect())
}
