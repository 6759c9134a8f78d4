//! `vsphere_powerstate`: a virtual machine's power, by hand or at a given time.

mod question;
mod schedule;
mod table;

pub use table::DEF;

use crate::look::{self, Look, Stop, Think};
use crate::vsphere_note::any_note;
use crate::vsphere_target::{self as vt, Names, Target};
use plan::{
    Await, Effect, Facts, Guard, Key, Module, Outcome, Plan, Refusal, Step, Tolerance, Wait,
};
use schedule::Schedule;
use serde_json::{Map, Value, json};
use spec::{ArgError, Args};
use vsphere::keys::VcKey;
use vsphere::value::{flag, list, text};

/// How long running scripts of the Tools may hold up a shutdown, in seconds.
const SCRIPTS_TIMEOUT_S: u64 = 120;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    On,
    Off,
    Suspended,
    Reset,
    GuestShutdown,
    GuestReboot,
}

impl State {
    fn parse(s: &str) -> State {
        match s {
            "powered-off" => State::Off,
            "suspended" => State::Suspended,
            "restarted" => State::Reset,
            "shutdown-guest" => State::GuestShutdown,
            "reboot-guest" => State::GuestReboot,
            _ => State::On,
        }
    }

    /// The power state that it ends in.
    fn power(self) -> &'static str {
        match self {
            State::Off | State::GuestShutdown => "poweredOff",
            State::Suspended => "suspended",
            State::On | State::Reset | State::GuestReboot => "poweredOn",
        }
    }

    /// Whether a machine that is so already is left alone.
    fn is_a_state(self) -> bool {
        !matches!(self, State::Reset | State::GuestReboot)
    }

    fn method(self) -> &'static str {
        match self {
            State::On => "PowerOnVM_Task",
            State::Off => "PowerOffVM_Task",
            State::Suspended => "SuspendVM_Task",
            State::Reset => "ResetVM_Task",
            State::GuestShutdown => "ShutdownGuest",
            State::GuestReboot => "RebootGuest",
        }
    }

    fn by_tools(self) -> bool {
        matches!(self, State::GuestShutdown | State::GuestReboot)
    }

    fn verb(self) -> &'static str {
        match self {
            State::On => "power on",
            State::Off => "power off",
            State::Suspended => "suspend",
            State::Reset => "restart",
            State::GuestShutdown => "shut down",
            State::GuestReboot => "reboot",
        }
    }
}

struct Powerstate {
    target: Target,
    state: State,
    force: bool,
    despite_note: bool,
    /// 0: do not wait.
    timeout_s: u64,
    force_off_after_s: Option<u64>,
    /// (message id, label of the choice).
    answers: Vec<(String, String)>,
    schedule: Option<Schedule>,
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = vec![];
    let wanted = a.str("state").unwrap_or("powered-on");
    let state = State::parse(wanted);
    let names = Names {
        name: "name",
        uuid: "uuid",
    };
    let target = Target::new(a, &names, state.verb());
    let seconds = |n: &str| a.int(n).and_then(|s| u64::try_from(s).ok());
    let force_off_after_s = seconds("force_off_after");
    if force_off_after_s.is_some() && state != State::GuestShutdown {
        errors.push(ArgError {
            path: "force_off_after".into(),
            value: None,
            msg: "counts only with state: shutdown-guest; leave it out, or change the state".into(),
        });
    }
    let schedule = match Schedule::new(a, wanted, state.method()) {
        Ok(s) => s,
        Err(e) => {
            errors.push(e);
            None
        }
    };
    if schedule.is_some() && force_off_after_s.is_some() {
        errors.push(ArgError {
            path: "force_off_after".into(),
            value: None,
            msg: "vCenter's scheduled tasks cannot wait; leave out force_off_after or scheduled_at"
                .into(),
        });
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let own = |v: &Value, k: &str| text(v, k).unwrap_or("").to_owned();
    Ok(Box::new(Powerstate {
        target,
        state,
        force: a.flag("force"),
        despite_note: a.flag("despite_note"),
        timeout_s: seconds("timeout").unwrap_or(3600),
        force_off_after_s,
        answers: a
            .list("question_answers")
            .into_iter()
            .flatten()
            .map(|v| (own(v, "question"), own(v, "response")))
            .collect(),
        schedule,
    }))
}

/// What a machine will be when it has that power: what the guest says of itself is stale once it is off.
/// Source: docs/vsphere-facts.md section 6.
fn powered(vm: &Value, power: &str) -> Value {
    let mut tools = vm["tools"].clone();
    let mut guest = vm["guest"].clone();
    let installed = text(vm, "tools.version").is_some_and(|v| v != "guestToolsNotInstalled");
    let runs = match power {
        "poweredOn" if text(vm, "power") == Some("poweredOn") => None,
        "poweredOn" if installed => Some(("guestToolsRunning", "running")),
        _ => Some(("guestToolsNotRunning", "notRunning")),
    };
    if let Some((t, g)) = runs {
        tools["running"] = json!(t);
        guest["state"] = json!(g);
    }
    vt::with(
        vm,
        &[
            ("power", json!(power)),
            ("question", Value::Null),
            ("tools", tools),
            ("guest", guest),
        ],
    )
}

/// Which power a running operation of the server leads to.
fn leads_to(operation: &str) -> Option<&'static str> {
    let (_, op) = operation.rsplit_once('.').unwrap_or(("", operation));
    Some(match op {
        "powerOn" => "poweredOn",
        "powerOff" => "poweredOff",
        "suspend" => "suspended",
        "reset" => "poweredOn",
        _ => return None,
    })
}

impl Powerstate {
    fn refuse(&self, why: impl std::fmt::Display) -> Stop {
        self.target.refusal(why).into()
    }

    /// Seconds that a wait for somebody else's task may take: `timeout: 0` speaks of our own only.
    fn patience_s(&self) -> u64 {
        if self.timeout_s == 0 {
            600
        } else {
            self.timeout_s
        }
    }

    fn own_wait(&self) -> Await {
        match self.timeout_s {
            0 => Await::NoWait,
            timeout_s => Await::Task { timeout_s },
        }
    }

    /// Waits for what runs: for a change of power always, since the power shown lags behind it; for all else only before a step.
    fn settle_tasks(&self, vm: &Value, all: bool) -> Result<(), Stop> {
        for task in vt::running(vm) {
            let to = leads_to(text(task, "operation").unwrap_or(""));
            if to.is_some() || all {
                let rest = vt::without_task(vm, task);
                let after = to.map_or_else(|| rest.clone(), |p| powered(&rest, p));
                return Err(
                    vt::wait_for(&self.target, vm, task, self.patience_s(), false, &after).into(),
                );
            }
        }
        Ok(())
    }

    /// What the machine's state forbids.
    fn check(&self, look: &Look<'_>, vm: &Value) -> Result<(), Stop> {
        let power = text(vm, "power").unwrap_or("");
        if flag(vm, "template") {
            return Err(self.refuse(
                "it is a template, which has no power; convert it to a virtual machine first",
            ));
        }
        match (self.state, power) {
            (State::On | State::Off, "suspended") if !self.force => {
                let loses = if self.state == State::Off {
                    " (what its memory holds is lost then)"
                } else {
                    ""
                };
                return Err(self.refuse(format!(
                    "it is suspended; resume it, or give force: true{loses}"
                )));
            }
            (State::GuestShutdown | State::GuestReboot, "suspended") => {
                return Err(self.refuse("it is suspended, so that its guest cannot hear of it; resume it first (powered-on with force: true)"));
            }
            (State::GuestReboot, "poweredOff") => {
                return Err(self.refuse("it is powered off; give state: powered-on"));
            }
            (State::Reset, "poweredOff" | "suspended") => {
                return Err(self.refuse(format!(
                    "it is {}; give state: powered-on",
                    if power == "suspended" {
                        "suspended"
                    } else {
                        "powered off"
                    }
                )));
            }
            (State::Suspended, "poweredOff") => {
                return Err(self.refuse("it is powered off, and only a running VM can be suspended; give state: powered-on before"));
            }
            _ => {}
        }
        if self.state == State::On
            && !self.despite_note
            && let Some(note) = any_note(text(vm, "annotation").unwrap_or(""))
        {
            return Err(self.refuse(format!("its notes say \"{note}\": it has gone over, and must not run twice; remove the note (vsphere_note with state: absent), or give despite_note: true")));
        }
        if self.state.by_tools() {
            self.check_tools(look, vm)?;
        }
        Ok(())
    }

    fn check_tools(&self, look: &Look<'_>, vm: &Value) -> Result<(), Stop> {
        let hidden = list(vm, "unreadable")
            .iter()
            .filter_map(Value::as_str)
            .any(|p| p == "guest" || p == "guest.toolsRunningStatus");
        match text(vm, "tools.running") {
            Some("guestToolsRunning") => Ok(()),
            // Source: docs/vsphere-facts.md section 6: they are there, and will listen in a little while.
            Some("guestToolsExecutingScripts") => {
                let mut tools = vm["tools"].clone();
                tools["running"] = json!("guestToolsRunning");
                let after = vt::with(vm, &[("tools", tools)]);
                Err(Wait {
                    what: format!("scripts of the VMware Tools in VM {}", vt::title(vm)),
                    joins: false,
                    key: VcKey::VmState(text(vm, "moid").unwrap_or("").to_owned()).key(),
                    pointer: "/tools_running".into(),
                    equals: json!("guestToolsRunning"),
                    timeout_s: self.patience_s().min(SCRIPTS_TIMEOUT_S),
                    assume: vec![vt::put(&after)],
                    stale: self.target.stale(vm),
                }
                .into())
            }
            None if hidden => {
                look.note("whether VMware Tools are running: guest.toolsRunningStatus cannot be read".into());
                Ok(())
            }
            _ => Err(self.refuse("VMware tools should be installed for guest shutdown/reboot, and they are not running in it; start them, shut it down from inside, or give state: powered-off")),
        }
    }

    fn steps(&self, vm: &Value, plan: &mut Plan) {
        let after = powered(vm, self.state.power());
        let done = |s: Step| s.effect(vt::put(&after)).effect(vt::put_state(&after));
        let call = |why: &str| vt::step(vm, self.state.method(), &[], why);
        let why = match self.state {
            State::On => "power it on",
            State::Off => "power it off at once, without asking the guest",
            State::Suspended => "suspend it",
            State::Reset => "restart it at once, without asking the guest",
            State::GuestShutdown => "ask the guest to shut down",
            State::GuestReboot => "ask the guest to reboot",
        };
        let moid = text(vm, "moid").unwrap_or("").to_owned();
        match self.state {
            // InvalidPowerState of these two can only mean that it is so already: they are allowed from every other state.
            State::On => {
                plan.push(done(
                    call(why)
                        .wait(self.own_wait())
                        .tolerate(Tolerance::AlreadyDone("InvalidPowerState"))
                        .tolerate(Tolerance::Replan("QuestionPending")),
                ));
            }
            State::Off => {
                plan.push(done(
                    call(why)
                        .wait(self.own_wait())
                        .destructive()
                        .disruptive()
                        .tolerate(Tolerance::AlreadyDone("InvalidPowerState")),
                ));
            }
            State::Suspended => {
                plan.push(done(
                    call(why)
                        .wait(self.own_wait())
                        .disruptive()
                        .tolerate(Tolerance::Replan("InvalidPowerState")),
                ));
            }
            State::Reset => {
                plan.push(done(
                    call(why)
                        .wait(self.own_wait())
                        .destructive()
                        .disruptive()
                        .tolerate(Tolerance::Replan("InvalidPowerState")),
                ));
            }
            State::GuestReboot => {
                plan.push(done(
                    call(why)
                        .disruptive()
                        .tolerate(Tolerance::Replan("InvalidPowerState")),
                ));
            }
            State::GuestShutdown => {
                let ask = call(why)
                    .disruptive()
                    .tolerate(Tolerance::Replan("InvalidPowerState"));
                let state = VcKey::VmState(moid).key();
                let (pointer, off) = ("/power".to_owned(), json!("poweredOff"));
                match (self.force_off_after_s, self.timeout_s) {
                    (Some(seconds), _) => {
                        // The second step waits; the first one must not fail for want of time.
                        plan.push(done(ask));
                        plan.push(done(
                            vt::step(
                                vm,
                                "PowerOffVM_Task",
                                &[],
                                "power it off, since the guest did not go",
                            )
                            .guard(Guard::UnlessWithin {
                                key: state,
                                pointer,
                                equals: off,
                                reached: "powered off".into(),
                                seconds,
                            })
                            .wait(Await::Task {
                                timeout_s: self.patience_s(),
                            })
                            .destructive()
                            .disruptive()
                            .tolerate(Tolerance::AlreadyDone("InvalidPowerState")),
                        ));
                    }
                    (None, 0) => {
                        plan.push(done(ask));
                    }
                    (None, timeout_s) => {
                        plan.push(done(ask.wait(Await::Until {
                            key: state,
                            pointer,
                            equals: off,
                            timeout_s,
                        })));
                    }
                }
            }
        }
        if self.timeout_s == 0
            && self.force_off_after_s.is_none()
            && let Some(last) = plan.steps.last_mut()
        {
            let moid = text(vm, "moid").unwrap_or("");
            last.effects
                .push(Effect::Put(vt::unwaited(moid), json!(true)));
        }
        if flag(vm, "in_vapp") && self.state.power() == "poweredOff" {
            plan.warnings.push(format!(
                "VM {} belongs to a vApp, which may start it again",
                vt::title(vm)
            ));
        }
    }
}

impl Think for Powerstate {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let vm = self.target.find(look)?;
        let mut plan = Plan::empty();
        let asked = question::plan(self, look, vm, &mut plan)?;
        let vm = asked.as_ref().unwrap_or(vm);
        let is_so =
            |vm: &Value| self.state.is_a_state() && text(vm, "power") == Some(self.state.power());
        if asked.is_none() {
            self.settle_tasks(vm, false)?;
        }
        if is_so(vm) {
            return Ok(plan);
        }
        self.check(look, vm)?;
        if let Some(s) = &self.schedule {
            s.plan(&self.target, look, vm, &mut plan)?;
            return Ok(plan);
        }
        if asked.is_none() {
            self.settle_tasks(vm, true)?;
        }
        self.steps(vm, &mut plan);
        Ok(plan)
    }
}

impl Module for Powerstate {
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

    fn subject(&self, facts: &Facts, answers: &[Value]) -> Vec<Key> {
        let mut keys = self.target.subject(facts);
        if let Some(s) = &self.schedule {
            keys.extend(s.subject(facts, answers));
        }
        keys
    }

    fn view(&self, facts: &Facts) -> Value {
        let Some(vm) = self.target.in_facts(facts) else {
            return Value::Null;
        };
        let moid = text(vm, "moid").unwrap_or("");
        let power = if facts.has(vt::unwaited(moid)) {
            json!(vt::STILL_RUNNING)
        } else {
            vm["power"].clone()
        };
        let mut v = json!({"name": vm["name"], "moid": moid, "power": power});
        if let Some(s) = &self.schedule {
            v["scheduled_tasks"] = s.view(facts, moid);
        }
        v
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let vm = self.target.in_facts(o.after).unwrap_or(&Value::Null);
        // Whether the guard let it through is only known afterwards.
        let forced =
            o.plan
                .steps
                .iter()
                .position(|s| s.guard.is_some())
                .map_or(json!(false), |i| match o.answers.get(i) {
                    Some(Value::String(s)) if s.starts_with('<') => Value::Null,
                    answer => json!(answer.is_some_and(|a| !a.is_null())),
                });
        let what = match (o.changed, &self.schedule) {
            (true, Some(s)) => format!("scheduled for {}", s.at()),
            (true, None) => format!(
                "asked to {}: {}",
                self.state.verb(),
                text(vm, "power").unwrap_or("")
            ),
            (false, _) => format!("is {} already", text(vm, "power").unwrap_or("")),
        };
        let mut m = Map::new();
        m.insert("msg".into(), json!(format!("VM {} {what}", vt::title(vm))));
        m.insert("vm".into(), json!({"moid": vm["moid"], "name": vm["name"]}));
        m.insert("power_state".into(), vm["power"].clone());
        m.insert("forced".into(), forced);
        // The edge has a clock and fills it in; in check mode nothing takes time.
        m.insert("duration_s".into(), json!(0.0));
        m
    }

    fn title(&self) -> String {
        self.target.named()
    }
}
