//! The pipeline: gather, settle, plan, execute, look again.

use crate::{
    ErrorKind, Fact, Facts, Failure, Key, Module, Outcome, Plan, Refusal, Report, Step, World,
};
use serde_json::{Map, Value, json};

/// How many plans one run may make before it gives up: the first, and 3 anew.
const ROUNDS: usize = 4;
/// How many waits one run may have before it gives up; each ends, or fails by its own timeout.
const WAITS: usize = 20;
/// How many keys a world is told of at once: what it fetched ahead lies in memory until it is read.
const AHEAD: usize = 64;

/// What the user asked for beside the module's own arguments.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// `expect_plan`: refuse any other plan than the one with this id.
    pub expect_plan: Option<String>,
    /// TRUEPLAN_DENY names `destructive`.
    pub deny_destructive: bool,
    /// TRUEPLAN_DENY names `disruptive`.
    pub deny_disruptive: bool,
    /// Put `diff` into the result.
    pub diff: bool,
}

struct Progress {
    before: Option<Facts>,
    joined: Vec<String>,
    waited: Vec<String>,
    replanned: Vec<String>,
    warnings: Vec<String>,
    /// Steps that were sent in earlier rounds.
    earlier: Vec<Value>,
}

/// Runs a module in a world and gives its result. This is the same code in check mode and in earnest.
pub fn run(world: &mut dyn World, module: &dyn Module, options: &RunOptions) -> Report {
    let mut p = Progress {
        before: None,
        joined: vec![],
        waited: vec![],
        replanned: vec![],
        warnings: vec![],
        earlier: vec![],
    };
    let mut facts = Facts::new();
    let mut rounds = 0;
    loop {
        if let Err(f) = gather_and_settle(world, module, &mut facts, &mut p) {
            return failed(f, &p, module, &[], options, None);
        }
        let plan = match module.plan(&facts) {
            Ok(plan) => plan,
            Err(r) => return failed(r.into(), &p, module, &[], options, None),
        };
        if let Err(f) = permitted(&plan, &p, options) {
            return failed(f, &p, module, &plan.steps, options, None);
        }
        match execute(world, &plan, &mut p) {
            Ok(answers) => return finish(world, module, &facts, &plan, &answers, p, options),
            Err(stop) => {
                let again = stop.failure.replan || stop.failure.lost_answer;
                rounds += 1;
                if again && rounds < ROUNDS {
                    p.replanned.push(stop.failure.msg.clone());
                    p.earlier.extend(stop.applied);
                    let keys: Vec<Key> = facts.iter().map(|(k, _)| k.clone()).collect();
                    world.forget(&keys);
                    world.pause(0.2 * f64::from(1 << rounds));
                    facts = Facts::new();
                    continue;
                }
                let mut failure = stop.failure;
                if again {
                    failure.kind = ErrorKind::Conflict;
                    failure.msg = format!(
                        "the world changed under the run {ROUNDS} times, last: {}",
                        failure.msg
                    );
                }
                return failed(
                    failure,
                    &p,
                    module,
                    &plan.steps,
                    options,
                    Some((stop.applied, stop.undone, stop.undo_failed)),
                );
            }
        }
    }
}

/// Reads what the module needs, waits for what must end first, and reads again what the wait made stale.
fn gather_and_settle(
    world: &mut dyn World,
    module: &dyn Module,
    facts: &mut Facts,
    p: &mut Progress,
) -> Result<(), Failure> {
    for _ in 0..WAITS {
        gather(world, module, facts)?;
        if p.before.is_none() {
            p.before = Some(facts.clone());
        }
        let Some(wait) = module.settle(facts)? else {
            return Ok(());
        };
        world.settle(&wait)?;
        if wait.joins {
            p.joined.push(wait.what.clone());
        } else {
            p.waited.push(wait.what.clone());
        }
        let mut stale = wait.stale.clone();
        stale.push(wait.key.clone());
        world.forget(&stale);
        for k in &stale {
            facts.forget(k);
        }
    }
    Err(Failure::new(
        ErrorKind::Conflict,
        format!(
            "waited {WAITS} times and something else was running each time, last: {}",
            p.waited.last().or(p.joined.last()).map_or("", |s| s)
        ),
    ))
}

fn gather(world: &mut dyn World, module: &dyn Module, facts: &mut Facts) -> Result<(), Failure> {
    loop {
        let new: Vec<Key> = module
            .needs(facts)
            .into_iter()
            .filter(|k| !facts.has(k))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        for portion in new.chunks(AHEAD) {
            world.expect(portion);
            for k in portion {
                if !facts.has(k) {
                    facts.share(k.clone(), world.share(k)?);
                }
            }
        }
    }
}

fn permitted(plan: &Plan, p: &Progress, options: &RunOptions) -> Result<(), Failure> {
    for s in &plan.steps {
        for (denied, is, word) in [
            (options.deny_destructive, s.destructive, "destructive"),
            (options.deny_disruptive, s.disruptive, "disruptive"),
        ] {
            if denied && is {
                return Err(Failure::new(
                    ErrorKind::Refused,
                    format!(
                        "unable to {}: the step is {word} and TRUEPLAN_DENY forbids such steps; unset it for this run if it is meant",
                        s.why
                    ),
                ));
            }
        }
    }
    if let Some(expected) = &options.expect_plan {
        let id = plan_id(&shown(p, &plan.steps));
        if p.replanned.is_empty() && *expected != id {
            return Err(Failure::new(
                ErrorKind::Refused,
                format!(
                    "unable to go on: the plan is {id}, but expect_plan is {expected}; look at the plan of a check run and give its plan_id"
                ),
            ));
        }
    }
    Ok(())
}

struct Stop {
    failure: Failure,
    applied: Vec<Value>,
    undone: Vec<String>,
    undo_failed: Vec<String>,
}

fn execute(world: &mut dyn World, plan: &Plan, p: &mut Progress) -> Result<Vec<Value>, Box<Stop>> {
    let mut answers: Vec<Value> = vec![];
    let mut applied: Vec<Value> = vec![];
    for (i, step) in plan.steps.iter().enumerate() {
        match world.send(step, &answers) {
            Ok(sent) => {
                answers.push(sent.answer);
                p.warnings.extend(sent.warnings);
                if sent.done {
                    applied.push(step.show());
                }
            }
            Err(failure) => {
                // Accepted, and going on: a new plan does not send it again.
                if failure.replan && failure.extra.get("changed") == Some(&json!(true)) {
                    applied.push(step.show());
                }
                let (mut undone, mut undo_failed) = (vec![], vec![]);
                // Worlds name the task of a request that was accepted.
                let final_before = if step.commits && failure.extra.contains_key("upid") {
                    0
                } else {
                    i
                };
                for s in plan.steps[..final_before].iter().rev() {
                    let Some(u) = &s.undo else { continue };
                    let name = format!("{} {}", u.verb, u.path);
                    match world.undo(u, &answers) {
                        Ok(()) => {
                            undone.push(name);
                            let shown = s.show();
                            applied.retain(|a| *a != shown);
                        }
                        Err(e) => undo_failed.push(format!("{name}: {}", e.msg)),
                    }
                }
                return Err(Box::new(Stop {
                    failure,
                    applied,
                    undone,
                    undo_failed,
                }));
            }
        }
    }
    Ok(answers)
}

fn finish(
    world: &mut dyn World,
    module: &dyn Module,
    facts: &Facts,
    plan: &Plan,
    answers: &[Value],
    mut p: Progress,
    options: &RunOptions,
) -> Report {
    let steps = shown(&p, &plan.steps);
    let before = p.before.clone().unwrap_or_default();
    // After a lost answer the new plan can be empty because the lost request did all: the facts tell.
    let changed = !steps.is_empty()
        || (!p.replanned.is_empty() && module.view(&before) != module.view(facts));
    let subject = module.subject(facts, answers);
    let mut after = plan.predict(facts);
    if changed {
        world.forget(&subject);
        for k in &subject {
            match world.read(k) {
                Ok(f) => after.put(k.clone(), f),
                Err(e) => {
                    after.put(k.clone(), Fact::Unreadable(e.msg.clone()));
                    p.warnings.push(format!(
                        "done, but {k} could not be read afterwards: {}",
                        e.msg
                    ));
                }
            }
        }
    }
    let (view_before, view_after) = (module.view(&before), module.view(&after));
    if changed {
        let foreseen = module.view(&plan.predict(facts));
        if let Some(d) = first_difference(&foreseen, &view_after, String::new()) {
            p.warnings
                .push(format!("the server did something else than foreseen: {d}"));
        }
    }
    let outcome = Outcome {
        before: &before,
        after: &after,
        plan,
        answers,
        changed,
        joined: &p.joined,
    };
    let mut r = Report {
        keys: module.result(&outcome),
    };
    r.set("changed", changed);
    common(&mut r, &p, steps, plan);
    if options.diff {
        let title = module.title();
        r.set(
            "diff",
            json!({"before": view_before, "after": view_after, "before_header": title, "after_header": title}),
        );
    }
    r
}

fn common(r: &mut Report, p: &Progress, steps: Vec<Value>, plan: &Plan) {
    r.set("plan_id", plan_id(&steps));
    r.set("plan", steps);
    let mut warnings: Vec<String> = plan.warnings.clone();
    warnings.extend(p.warnings.iter().cloned());
    if let Some(Value::Array(more)) = r.keys.remove("warnings") {
        warnings.extend(more.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    for (name, list) in [
        ("warnings", warnings),
        ("waited_for", p.waited.clone()),
        ("unverified", plan.unverified.clone()),
        ("replanned", p.replanned.clone()),
    ] {
        if !list.is_empty() {
            r.set(name, list);
        }
    }
    if !plan.drift.is_empty() {
        r.set("drift", plan.drift.clone());
    }
}

fn failed(
    failure: Failure,
    p: &Progress,
    module: &dyn Module,
    steps: &[Step],
    options: &RunOptions,
    done: Option<(Vec<Value>, Vec<String>, Vec<String>)>,
) -> Report {
    let mut r = Report::failed(failure.kind, &failure.msg);
    // A task that was started and still runs when our patience ends changes something.
    let runs_on = done.is_some()
        && failure.kind == ErrorKind::Timeout
        && (failure.extra.contains_key("upid") || failure.extra.contains_key("task"));
    for (k, v) in failure.extra {
        r.keys.insert(k, v);
    }
    let (applied, undone, undo_failed) = done.unwrap_or_default();
    let mut all_applied = p.earlier.clone();
    all_applied.extend(applied);
    if !all_applied.is_empty() || !p.joined.is_empty() || runs_on {
        r.set("changed", true);
    }
    let all = shown(p, steps);
    if !all.is_empty() {
        let remaining: Vec<Value> = all
            .iter()
            .filter(|s| !all_applied.contains(s))
            .cloned()
            .collect();
        r.set("plan_id", plan_id(&all));
        r.set("plan", all);
        r.set("applied", all_applied);
        r.set("remaining", remaining);
    }
    for (name, list) in [
        ("warnings", &p.warnings),
        ("waited_for", &p.waited),
        ("replanned", &p.replanned),
        ("undone", &undone),
        ("undo_failed", &undo_failed),
    ] {
        if !list.is_empty() {
            r.set(name, list.clone());
        }
    }
    if options.diff
        && let Some(b) = &p.before
    {
        // A failed run shows what was there; both worlds say the same.
        let v = module.view(b);
        let title = module.title();
        r.set(
            "diff",
            json!({"before": v, "after": v, "before_header": title, "after_header": title}),
        );
    }
    r
}

fn shown(p: &Progress, steps: &[Step]) -> Vec<Value> {
    let joined = p.joined.iter().map(|what| {
        let mut o = Map::new();
        o.insert("request".into(), json!("JOIN"));
        o.insert("what".into(), json!(what));
        Value::Object(o)
    });
    joined
        .chain(p.earlier.iter().cloned())
        .chain(steps.iter().map(Step::show))
        .collect()
}

/// FNV-1a, 64 bits: the id only tells plans apart, it proves nothing.
fn plan_id(steps: &[Value]) -> String {
    let text = Value::Array(steps.to_vec()).to_string();
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for b in text.bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{h:016x}")
}

fn first_difference(a: &Value, b: &Value, at: String) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            for k in x.keys().chain(y.keys().filter(|k| !x.contains_key(*k))) {
                let (u, v) = (
                    x.get(k).unwrap_or(&Value::Null),
                    y.get(k).unwrap_or(&Value::Null),
                );
                let next = if at.is_empty() {
                    k.clone()
                } else {
                    format!("{at}.{k}")
                };
                if let Some(d) = first_difference(u, v, next) {
                    return Some(d);
                }
            }
            None
        }
        _ if a == b => None,
        _ => Some(format!("{at} is {b}, foreseen was {a}")),
    }
}

impl From<Refusal> for Failure {
    fn from(r: Refusal) -> Self {
        let mut f = Failure::new(r.kind, r.msg);
        f.extra = r.extra;
        f
    }
}
