//! The live world: reads, waits, sends.

use crate::connection::Connection;
use crate::error::task_failed;
use crate::place::Tree;
use crate::session::Session;
use crate::soap::Call;
use plan::{
    Arg, Await, ErrorKind, Fact, Failure, Guard, Key, Request, Sent, Step, Tolerance, Wait, World,
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vsphere::keys::VcKey;
use vsphere::value::{int, text, wsdl_ref};

/// Polling starts at this pace and slows down to the other (DESIGN.md section 7).
const POLL_FIRST: Duration = Duration::from_millis(100);
const POLL_LAST: Duration = Duration::from_secs(2);
/// So long a server may be out of reach while a task of its runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A vCenter or a standalone host, one session per run, opened at the first read.
pub struct Live {
    connection: Connection,
    session: Option<Session>,
    pub(crate) tree: Option<Tree>,
    pub(crate) names: Option<Vec<Value>>,
    pub(crate) vapps: HashMap<String, Option<String>>,
}

struct Pace(Duration);

impl Pace {
    fn new() -> Self {
        Pace(POLL_FIRST)
    }
    fn wait(&mut self, at_most: Duration) {
        sleep(self.0.min(at_most));
        self.0 = (self.0 * 3 / 2).min(POLL_LAST);
    }
}

impl Live {
    /// A world that signs in when it is first needed.
    pub fn new(connection: Connection) -> Self {
        Live {
            connection,
            session: None,
            tree: None,
            names: None,
            vapps: HashMap::new(),
        }
    }

    /// The session; signs in if there is none.
    pub(crate) fn session(&mut self) -> Result<&mut Session, Failure> {
        if self.session.is_none() {
            self.session = Some(Session::open(&self.connection)?);
        }
        let lost = || Failure::new(ErrorKind::Internal, "the session is gone");
        self.session.as_mut().ok_or_else(lost)
    }

    /// Ends the session now; otherwise that happens when the world is dropped.
    pub fn sign_out(&mut self) {
        self.session = None;
    }

    /// How many SOAP calls were sent so far in the session that is open, sign-in included.
    pub fn calls(&self) -> usize {
        self.session.as_ref().map_or(0, Session::calls)
    }

    /// Calls any method of any object and gives its answer: `verb` is the WSDL name, `path` `Type:moid`; `path` may also be
    /// `ServiceContent:NAME`, the manager of that name. Nothing is waited for.
    ///
    /// # Errors
    /// The server's fault, mapped; `lost_answer` where it is not known whether it was carried out.
    pub fn call(&mut self, request: &Request, answers: &[Value]) -> Result<Value, Failure> {
        let this = match request.path.strip_prefix("ServiceContent:") {
            Some(name) => self.session()?.manager(name)?,
            None => request.path.clone(),
        };
        let mut params = vec![];
        let mut shown = Map::new();
        for (name, arg) in &request.params {
            let v = resolve(arg, answers).ok_or_else(|| {
                Failure::new(
                    ErrorKind::Internal,
                    format!("{}: no answer for {name}", request.verb),
                )
            })?;
            shown.insert(name.clone(), arg.show());
            params.push((name.clone(), v));
        }
        let what = what(request);
        let call = Call {
            this: &this,
            method: &request.verb,
            params: &params,
            shown: Some(shown),
            long: false,
        };
        self.session()?.value(&call).map_err(|e| e.failure(&what))
    }

    /// Waits for the end of a task and gives its info as a fact.
    ///
    /// # Errors
    /// `task_failed`; `timeout` with `task` and `percent`, the task still running.
    pub fn await_task(&mut self, task: &str, timeout_s: u64, what: &str) -> Result<Value, Failure> {
        self.await_task_of(task, timeout_s, what, None)
    }

    /// The machine's state, if the step is to be planned anew once that machine waits with a question.
    fn may_ask(step: &Step) -> Option<VcKey> {
        let moid = step.request.path.strip_prefix("VirtualMachine:")?;
        step.tolerance
            .contains(&Tolerance::Replan("QuestionPending"))
            .then(|| VcKey::VmState(moid.to_owned()))
    }

    /// The same; a task whose machine waits with a question ends for us as `QuestionPending`, since it waits for ever.
    fn await_task_of(
        &mut self,
        task: &str,
        timeout_s: u64,
        what: &str,
        asks: Option<&VcKey>,
    ) -> Result<Value, Failure> {
        let started = Instant::now();
        let mut pace = Pace::new();
        let key = VcKey::Task(task.to_owned());
        let mut percent = None;
        let mut heard = Instant::now();
        loop {
            let fact = match self.read_key(&key) {
                Ok(f) => {
                    heard = Instant::now();
                    f
                }
                // The task goes on without us: a server that restarts is waited for a while.
                Err(f) if f.kind == ErrorKind::Unreachable && heard.elapsed() < PATIENCE => {
                    pace.wait(POLL_LAST);
                    continue;
                }
                Err(mut f) => {
                    f.msg = format!("{}; task {task} may still be running", f.msg);
                    return Err(f.with("task", task));
                }
            };
            let info = match fact {
                Fact::Known(v) => v,
                Fact::Absent => {
                    return Err(Failure::new(ErrorKind::TaskFailed, format!("unable to {what}: the server has forgotten task {task} before its end was seen")).with("task", task));
                }
                Fact::Unreadable(why) => {
                    return Err(Failure::new(
                        ErrorKind::Permission,
                        format!("unable to {what}: task {task} cannot be watched: {why}"),
                    )
                    .with("task", task));
                }
            };
            match text(&info, "state") {
                Some("success") => return Ok(info),
                Some("error") => return Err(self.failed(task, what)),
                // Null between phases: the last number seen is kept.
                _ => percent = int(&info, "progress").or(percent),
            }
            if let Some(key) = asks
                && let Ok(Fact::Known(state)) = self.read_key(key)
                && let Some(question) = text(&state, "question.text")
            {
                let msg = format!("unable to {what}: the machine waits for an answer: {question}");
                return Err(Failure::new(ErrorKind::Refused, msg)
                    .with("fault", "QuestionPending")
                    .with("changed", true)
                    .with("task", task));
            }
            let left = Duration::from_secs(timeout_s).saturating_sub(started.elapsed());
            if left.is_zero() {
                let at = percent.map_or_else(String::new, |p| format!(" at {p} %"));
                return Err(Failure::new(
                    ErrorKind::Timeout,
                    format!("unable to {what} within {timeout_s} s: task {task} is still running{at}; run again to join it, or give a longer timeout"),
                )
                .with("task", task)
                .with("percent", percent.map_or(Value::Null, |p| json!(p))));
            }
            pace.wait(left);
        }
    }

    fn failed(&mut self, task: &str, what: &str) -> Failure {
        let key = VcKey::Object {
            ty: "Task".into(),
            moid: task.to_owned(),
            paths: vec!["info".into()],
        };
        match self.read_key(&key) {
            Ok(Fact::Known(t)) => task_failed(task, &t["info"], what),
            _ => task_failed(task, &Value::Null, what),
        }
    }

    /// True once the value at `pointer` is `equals`; a null means that the object is to be gone.
    fn reached(&mut self, key: &Key, pointer: &str, equals: &Value) -> Result<bool, Failure> {
        Ok(match self.read(key)? {
            Fact::Known(v) => v.pointer(pointer) == Some(equals),
            Fact::Absent => equals.is_null(),
            Fact::Unreadable(_) => false,
        })
    }

    /// Polls until then; `false` if the time is over.
    fn poll(
        &mut self,
        key: &Key,
        pointer: &str,
        equals: &Value,
        seconds: u64,
    ) -> Result<bool, Failure> {
        let started = Instant::now();
        let mut pace = Pace::new();
        loop {
            if self.reached(key, pointer, equals)? {
                return Ok(true);
            }
            let left = Duration::from_secs(seconds).saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            pace.wait(left);
        }
    }

    /// A task's moid if the answer is a reference to one.
    fn task_of(answer: &Value) -> Option<String> {
        let r = wsdl_ref(answer.as_str()?);
        r.strip_prefix("Task:").map(str::to_owned)
    }

    fn carry_out(&mut self, step: &Step, answers: &[Value]) -> Result<Value, Failure> {
        let answer = self.call(&step.request, answers)?;
        // What was accepted goes on, whether we see its end or not.
        self.follow(step, answer).map_err(|f| {
            if f.kind == ErrorKind::Timeout {
                f.with("changed", true)
            } else {
                f
            }
        })
    }

    /// Waits as the step says.
    fn follow(&mut self, step: &Step, answer: Value) -> Result<Value, Failure> {
        let task = Self::task_of(&answer);
        let what = what(&step.request);
        match (&step.wait, task) {
            (Await::Answer, None) => Ok(answer),
            (Await::Task { timeout_s }, Some(t)) => {
                let asks = Self::may_ask(step);
                self.await_task_of(&t, *timeout_s, &what, asks.as_ref())?;
                Ok(json!(t))
            }
            // The method answered no task: it was done at once.
            (Await::Task { .. }, None) => Ok(answer),
            (Await::NoWait | Await::Answer, t) => Ok(t.map_or(answer, |t| json!(t))),
            (
                Await::Until {
                    key,
                    pointer,
                    equals,
                    timeout_s,
                },
                t,
            ) => {
                let started = Instant::now();
                if let Some(t) = &t {
                    self.await_task(t, *timeout_s, &what)?;
                }
                let left = timeout_s.saturating_sub(started.elapsed().as_secs());
                if !self.poll(key, pointer, equals, left)? {
                    return Err(Failure::new(
                        ErrorKind::Timeout,
                        format!(
                            "unable to {what} within {timeout_s} s: it was asked for, but {} is not {equals} yet; run again, or give a longer timeout",
                            pointer.trim_start_matches('/')
                        ),
                    ));
                }
                Ok(t.map_or(answer, |t| json!(t)))
            }
        }
    }
}

fn resolve(arg: &Arg, answers: &[Value]) -> Option<Value> {
    arg.resolve(answers)
}

/// `RelocateVM_Task of vm-12`, for messages.
fn what(request: &Request) -> String {
    let (_, moid) = request.path.split_once(':').unwrap_or(("", &request.path));
    format!("{} {moid}", request.verb)
}

impl World for Live {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        let unknown = || Failure::new(ErrorKind::Internal, format!("{key} is no fact of vSphere"));
        let k = VcKey::parse(key).ok_or_else(unknown)?;
        self.read_key(&k)
    }

    fn settle(&mut self, wait: &Wait) -> Result<(), Failure> {
        let started = Instant::now();
        let mut pace = Pace::new();
        let mut percent = None;
        loop {
            let fact = self.read(&wait.key)?;
            match &fact {
                Fact::Absent => return Ok(()),
                Fact::Known(v) => {
                    if v.pointer(&wait.pointer) == Some(&wait.equals) {
                        return Ok(());
                    }
                    // A task that ended otherwise has ended too: what it left behind is read again and planned with.
                    let ended = matches!(VcKey::parse(&wait.key), Some(VcKey::Task(_)))
                        && matches!(text(v, "state"), Some("success" | "error"));
                    if ended {
                        return Ok(());
                    }
                    percent = int(v, "progress").or(percent);
                }
                Fact::Unreadable(_) => {}
            }
            let left = Duration::from_secs(wait.timeout_s).saturating_sub(started.elapsed());
            if left.is_zero() {
                let at = percent.map_or_else(String::new, |p| format!(" at {p} %"));
                let mut f = Failure::new(ErrorKind::Timeout, format!("unable to go on: {} did not end within {} s, still running{at}; run again to go on waiting, or give a longer timeout", wait.what, wait.timeout_s))
                    .with("percent", percent.map_or(Value::Null, |p| json!(p)));
                if let Some(VcKey::Task(t)) = VcKey::parse(&wait.key) {
                    f = f.with("task", t);
                }
                return Err(f);
            }
            pace.wait(left);
        }
    }

    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure> {
        if let Some(Guard::UnlessWithin {
            key,
            pointer,
            equals,
            seconds,
            ..
        }) = &step.guard
            && self.poll(key, pointer, equals, *seconds)?
        {
            return Ok(Sent {
                answer: Value::Null,
                done: false,
                warnings: vec![],
            });
        }
        let sent = self.carry_out(step, answers);
        // Whatever came of it, names and places may be others now.
        self.names = None;
        match sent {
            Ok(answer) => Ok(Sent::answer(answer)),
            Err(mut f) => {
                let fault = f
                    .extra
                    .get("fault")
                    .and_then(Value::as_str)
                    .unwrap_or("")
                    .to_owned();
                for t in &step.tolerance {
                    match t {
                        Tolerance::AlreadyDone(s) if f.msg.contains(s) || fault == *s => {
                            return Ok(Sent::answer(Value::Null));
                        }
                        Tolerance::Replan(s) if f.msg.contains(s) || fault == *s => f.replan = true,
                        _ => {}
                    }
                }
                Err(f)
            }
        }
    }

    fn undo(&mut self, request: &Request, answers: &[Value]) -> Result<(), Failure> {
        let answer = self.call(request, answers)?;
        if let Some(t) = Self::task_of(&answer) {
            self.await_task(&t, 3600, &what(request))?;
        }
        Ok(())
    }

    fn forget(&mut self, _keys: &[Key]) {
        // Folders, datacenters, compute resources and hosts are not ours to change: the tree stays.
        self.names = None;
    }

    fn pause(&mut self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds.clamp(0.0, 60.0)));
    }
}
