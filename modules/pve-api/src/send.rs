//! Steps: guard, request, tolerance, wait.

use crate::error::{ApiError, Refused};
use crate::journal;
use crate::live::Live;
use crate::session::Param;
use crate::tasks::{self, End, Pace};
use crate::wire;
use plan::{
    Arg, Await, ErrorKind, Fact, Failure, Guard, Key, Request, Sent, Step, Tolerance, Wait,
};
use pve::keys::PveKey;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds that an undo may take.
const UNDO_TIMEOUT_S: u64 = 600;
/// How often a write is sent again after the server waited in vain (10 s) for a configuration's file lock.
const CONTENDED: u32 = 3;

impl Live {
    pub(crate) fn send_step(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure> {
        if let Some(Guard::UnlessWithin {
            key,
            pointer,
            equals,
            seconds,
            ..
        }) = &step.guard
            && self.reached(key, pointer, equals, *seconds)?
        {
            return Ok(Sent {
                answer: Value::Null,
                done: false,
                warnings: vec![],
            });
        }
        let what = describe(&step.request);
        let params = self.resolve(&step.request, answers, &what)?;
        let result = self.write_patiently(step, &params);
        let answer = match result {
            Ok(a) => a,
            Err(e) => {
                let failure = e.failure(&what, &self.who());
                return match e {
                    ApiError::Refused(r) => tolerated(step, &Said::Answer(&r), &params, failure),
                    _ => Err(failure),
                };
            }
        };
        if journal::secret_answer(&step.request.verb, &step.request.path)
            && let (Some(s), Ok(session)) = (answer.as_str(), self.session())
        {
            session.keep_secret(s);
        }
        let mut sent = Sent::answer(answer.clone());
        let (task_s, until) = match &step.wait {
            Await::Answer | Await::NoWait => return Ok(sent),
            Await::Task { timeout_s } => (*timeout_s, None),
            Await::Until {
                key,
                pointer,
                equals,
                timeout_s,
            } => (*timeout_s, Some((key, pointer, equals))),
        };
        let mut pace = Pace::new(task_s);
        if let Some(upid) = tasks::upid(&answer) {
            match self.await_task(upid, task_s, &what)? {
                End::Good(warnings) => sent.warnings.extend(warnings),
                End::Bad { exit, tail } => {
                    let failure = self.task_failure(upid, &exit, &tail, &what);
                    return tolerated(
                        step,
                        &Said::Task {
                            exit: &exit,
                            tail: &tail,
                        },
                        &params,
                        failure,
                    );
                }
            }
        }
        if let Some((key, pointer, equals)) = until {
            loop {
                let fact = self.fresh(key)?;
                if holds(&fact, pointer, equals) {
                    break;
                }
                if !pace.wait() {
                    let mut f = Failure::new(
                        ErrorKind::Timeout,
                        format!(
                            "unable to {what} within {task_s} s: the request was accepted, but {key} {}is not yet {}; it may still come, the next run looks again",
                            at(pointer),
                            wanted(equals)
                        ),
                    );
                    if let Some(upid) = tasks::upid(&answer) {
                        f = f.with("upid", upid);
                    }
                    return Err(f);
                }
            }
        }
        Ok(sent)
    }

    pub(crate) fn send_undo(
        &mut self,
        request: &Request,
        answers: &[Value],
    ) -> Result<(), Failure> {
        let what = describe(request);
        let params = self.resolve(request, answers, &what)?;
        let answer = self
            .write(request, &params)
            .map_err(|e| e.failure(&what, &self.who()))?;
        if let Some(upid) = tasks::upid(&answer)
            && let End::Bad { exit, tail } = self.await_task(upid, UNDO_TIMEOUT_S, &what)?
        {
            return Err(self.task_failure(upid, &exit, &tail, &what));
        }
        Ok(())
    }

    pub(crate) fn settle_wait(&mut self, wait: &Wait) -> Result<(), Failure> {
        let mut pace = Pace::new(wait.timeout_s);
        loop {
            let fact = self.fresh(&wait.key)?;
            let key = PveKey::parse(&wait.key);
            let ended = matches!((&key, fact.known()), (Some(PveKey::Task(_)), Some(t)) if t["status"] == "stopped");
            if ended || holds(&fact, &wait.pointer, &wait.equals) {
                return Ok(());
            }
            if let Fact::Unreadable(reason) = &fact {
                return Err(Failure::new(
                    ErrorKind::Permission,
                    format!("unable to wait for {}: {reason}", wait.what),
                ));
            }
            if pace.wait() {
                continue;
            }
            let mut now = vec![];
            let mut upid = None;
            match key {
                Some(PveKey::Task(u)) => upid = Some(u),
                Some(PveKey::Guest(v)) => {
                    if let Some(l) = fact.known().and_then(|g| g["lock"].as_str()) {
                        now.push(format!("lock {l}"));
                    }
                    let tasks = self.fresh(&PveKey::GuestTasks(v).key())?;
                    for t in tasks.known().into_iter().flat_map(crate::read::entries) {
                        if let Some(u) = crate::read::text(t, "upid") {
                            now.push(format!("task {u}"));
                            upid.get_or_insert_with(|| u.to_owned());
                        }
                    }
                }
                _ => {}
            }
            let now = if now.is_empty() {
                String::new()
            } else {
                format!(" ({})", now.join(", "))
            };
            let mut f = Failure::new(
                ErrorKind::Timeout,
                format!(
                    "unable to go on: {} has not ended within {} s{now}, it is still running; run again later or set a longer timeout",
                    wait.what, wait.timeout_s
                ),
            );
            if let Some(u) = upid {
                f = f.with("upid", u);
            }
            return Err(f);
        }
    }

    /// Whether the fact comes to be so within that time.
    fn reached(
        &mut self,
        key: &Key,
        pointer: &str,
        equals: &Value,
        seconds: u64,
    ) -> Result<bool, Failure> {
        let mut pace = Pace::new(seconds);
        loop {
            let fact = self.fresh(key)?;
            if holds(&fact, pointer, equals) {
                return Ok(true);
            }
            if !pace.wait() {
                return Ok(false);
            }
        }
    }

    /// Sends, and sends again while somebody is in the way.
    fn write_patiently(&mut self, step: &Step, params: &[Param]) -> Result<Value, ApiError> {
        let mut pace: Option<Pace> = None;
        let mut contended = 0;
        loop {
            let result = self.write(&step.request, params);
            // The server gave up waiting for the file lock of a configuration and has done nothing.
            // Source: pve-guest-common PVE/AbstractConfig.pm, `lock_config_full`; pve-common PVE/Tools.pm, `lock_file_full`.
            if let Err(ApiError::Refused(r)) = &result
                && r.says("can't lock file")
                && r.says("got timeout")
                && contended < CONTENDED
            {
                contended += 1;
                std::thread::sleep(Duration::from_millis(500 << contended));
                continue;
            }
            let busy = match &result {
                Err(ApiError::Refused(r)) => step.tolerance.iter().find_map(|t| match t {
                    Tolerance::Busy {
                        contains,
                        timeout_s,
                        ..
                    } if r.says(contains) => Some(*timeout_s),
                    _ => None,
                }),
                _ => None,
            };
            let Some(timeout_s) = busy else {
                return result;
            };
            if !pace.get_or_insert_with(|| Pace::new(timeout_s)).wait() {
                return result;
            }
        }
    }

    fn write(&mut self, request: &Request, params: &[Param]) -> Result<Value, ApiError> {
        let path = wire::encode_path(&request.path);
        let result = self
            .session()
            .and_then(|s| s.call(&request.verb, &path, params));
        // Whatever was answered, the world may be another now.
        self.drop_gets();
        result
    }

    fn resolve(
        &self,
        request: &Request,
        answers: &[Value],
        what: &str,
    ) -> Result<Vec<Param>, Failure> {
        let fault = |why: String| {
            Failure::new(
                ErrorKind::Internal,
                format!("unable to {what}: {why}; please report this"),
            )
        };
        request
            .params
            .iter()
            .map(|(name, arg)| {
                let value = arg.resolve(answers).ok_or_else(|| {
                    fault(format!(
                        "{name} is bound to the answer of a step that gave none"
                    ))
                })?;
                let text = wire::text(&value)
                    .ok_or_else(|| fault(format!("{name} has no form that can be sent")))?;
                Ok(match arg {
                    Arg::Secret(_) => Param::secret(name, text),
                    _ if journal::secret_name(name) => Param::secret(name, text),
                    Arg::Answer { symbol, .. } => Param {
                        shown: symbol.as_str().into(),
                        ..Param::plain(name, text)
                    },
                    Arg::Lit(_) | Arg::Shown { .. } => Param::plain(name, text),
                })
            })
            .collect()
    }
}

/// Whether a fact is as wanted: the value at the pointer, or absence (of the object or of the value) where null is wanted.
fn holds(fact: &Fact, pointer: &str, equals: &Value) -> bool {
    match fact {
        Fact::Absent => equals.is_null(),
        Fact::Unreadable(_) => false,
        Fact::Known(v) => match v.pointer(pointer) {
            Some(found) => found == equals,
            None => equals.is_null(),
        },
    }
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!("({}) ", pointer.trim_start_matches('/'))
    }
}

fn wanted(equals: &Value) -> String {
    match equals {
        Value::Null => "gone".to_owned(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// What the server said to a step.
enum Said<'a> {
    Answer(&'a Refused),
    Task { exit: &'a str, tail: &'a [String] },
}

impl Said<'_> {
    fn contains(&self, part: &str) -> bool {
        match self {
            Said::Answer(r) => r.says(part),
            Said::Task { exit, tail } => {
                exit.contains(part) || tail.iter().any(|l| l.contains(part))
            }
        }
    }

    /// The messages by parameter. In a task they stand behind each other in one line (source: data/pve/running.json, "POST async"):
    /// `400 Parameter verification failed. net0: hotplug problem - ... net1: ...`; the parameters' names tell where each begins.
    fn by_parameter(&self, names: &[String]) -> BTreeMap<String, String> {
        match self {
            Said::Answer(r) => r.errors.clone(),
            Said::Task { exit, .. } => {
                let Some((_, rest)) = exit.split_once("Parameter verification failed.") else {
                    return BTreeMap::new();
                };
                let mut starts: Vec<(usize, &str)> = names
                    .iter()
                    .filter_map(|n| {
                        let mark = format!("{n}: ");
                        rest.match_indices(&mark)
                            .find(|(i, _)| {
                                rest[..*i]
                                    .chars()
                                    .next_back()
                                    .is_none_or(char::is_whitespace)
                            })
                            .map(|(i, _)| (i, n.as_str()))
                    })
                    .collect();
                starts.sort_unstable();
                // Anything before the first name is a message that we cannot place: then nothing is known of it.
                if starts
                    .first()
                    .is_none_or(|(i, _)| !rest[..*i].trim().is_empty())
                {
                    return BTreeMap::new();
                }
                let ends = starts.iter().skip(1).map(|(i, _)| *i).chain([rest.len()]);
                starts
                    .iter()
                    .zip(ends)
                    .map(|((i, n), end)| {
                        (
                            (*n).to_owned(),
                            rest[i + n.len() + 2..end].trim().to_owned(),
                        )
                    })
                    .collect()
            }
        }
    }
}

/// The options that a request touches, those that it deletes or reverts too.
fn touched(params: &[Param]) -> Vec<String> {
    let mut names: Vec<String> = params
        .iter()
        .filter(|p| !p.secret)
        .flat_map(|p| match p.name.as_str() {
            "delete" | "revert" => p.text.split(',').map(str::to_owned).collect(),
            n => vec![n.to_owned()],
        })
        .collect();
    names.push("boot".to_owned());
    names.sort_unstable();
    names.dedup();
    names
}

fn tolerated(
    step: &Step,
    said: &Said<'_>,
    params: &[Param],
    failure: Failure,
) -> Result<Sent, Failure> {
    let sent = |done, warnings| {
        Ok(Sent {
            answer: Value::Null,
            done,
            warnings,
        })
    };
    for t in &step.tolerance {
        match t {
            Tolerance::Strict => {}
            Tolerance::StoredAllTheSame(prefix) => {
                let each = said.by_parameter(&touched(params));
                if !each.is_empty() && each.values().all(|v| v.starts_with(prefix)) {
                    let warnings = each
                        .iter()
                        .map(|(k, v)| {
                            format!("{k} is stored and takes effect at the next start: {v}")
                        })
                        .collect();
                    return sent(true, warnings);
                }
            }
            Tolerance::Replan(part) if said.contains(part) => return Err(failure.replan()),
            Tolerance::AlreadyDone(part) if said.contains(part) => return sent(false, vec![]),
            Tolerance::Busy {
                contains,
                timeout_s,
                way_out,
            } if said.contains(contains) => {
                let mut f = failure;
                f.kind = ErrorKind::Timeout;
                f.msg = format!("{} (waited {timeout_s} s); {way_out}", f.msg);
                return Err(f);
            }
            Tolerance::Replan(_) | Tolerance::AlreadyDone(_) | Tolerance::Busy { .. } => {}
        }
    }
    Err(failure)
}

/// A request in words: `unable to {..}: ...`.
fn describe(request: &Request) -> String {
    let parts: Vec<&str> = request.path.split('/').filter(|p| !p.is_empty()).collect();
    let verb = request.verb.as_str();
    let param = |name: &str| {
        request
            .params
            .iter()
            .find(|(n, _)| n == name)
            .and_then(|(_, a)| wire::text(&a.show()))
            .unwrap_or_default()
    };
    let change = match verb {
        "POST" => "create",
        "DELETE" => "remove",
        _ => "change",
    };
    match (verb, parts.as_slice()) {
        ("POST", ["nodes", _, "qemu"]) => format!("create guest {}", param("vmid")),
        ("DELETE", ["nodes", _, "qemu", v]) => format!("remove guest {v}"),
        (_, ["nodes", _, "qemu", v, "config"]) => format!("change guest {v}"),
        (_, ["nodes", _, "qemu", v, "status", action]) => match *action {
            "shutdown" => format!("shut down guest {v}"),
            a => format!("{a} guest {v}"),
        },
        (_, ["nodes", _, "qemu", v, "resize"]) => format!("resize {} of guest {v}", param("disk")),
        (_, ["nodes", _, "qemu", v, "move_disk"]) => format!("move {} of guest {v}", param("disk")),
        (_, ["nodes", _, "qemu", v, "unlink"]) => {
            format!("unlink {} of guest {v}", param("idlist"))
        }
        (_, ["nodes", _, "qemu", v, "clone"]) => format!("clone guest {v}"),
        (_, ["nodes", _, "qemu", v, "template"]) => format!("make a template of guest {v}"),
        (_, ["nodes", _, "qemu", v, "migrate"]) => format!("migrate guest {v}"),
        ("POST", ["cluster", "sdn", "lock"]) => "take the SDN lock".to_owned(),
        ("DELETE", ["cluster", "sdn", "lock"]) => "release the SDN lock".to_owned(),
        (_, ["cluster", "sdn", "rollback"]) => "roll back the SDN configuration".to_owned(),
        ("PUT", ["cluster", "sdn"]) => "apply the SDN configuration".to_owned(),
        (_, ["cluster", "sdn", "zones"]) => format!("{change} zone {}", param("zone")),
        (_, ["cluster", "sdn", "zones", z]) => format!("{change} zone {z}"),
        (_, ["cluster", "sdn", "vnets"]) => format!("{change} vnet {}", param("vnet")),
        (_, ["cluster", "sdn", "vnets", v]) => format!("{change} vnet {v}"),
        (_, ["access", "acl"]) => format!("change the ACL of {}", param("path")),
        (_, ["pools"]) => format!("{change} pool {}", param("poolid")),
        (_, ["pools", p]) => format!("{change} pool {p}"),
        (_, ["nodes", _, "storage", _, "content", v]) => format!("{change} volume {v}"),
        _ => format!("send {verb} {}", request.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn a_task_line_is_taken_apart_by_the_parameters_names() {
        let exit = "400 Parameter verification failed. net0: hotplug problem - error on hot-unplugging device 'net0' - still busy in guest? memory: hotplug problem - 400 Parameter verification failed. dimm0: error unplug";
        let said = Said::Task { exit, tail: &[] };
        let each = said.by_parameter(&names(&["memory", "net0", "net1"]));
        assert_eq!(each.len(), 2);
        assert!(each.values().all(|v| v.starts_with("hotplug problem - ")));
        // A message under a name that we did not send is not swallowed.
        let said = Said::Task {
            exit: "400 Parameter verification failed. scsi9: no such disk net0: hotplug problem - x",
            tail: &[],
        };
        assert!(said.by_parameter(&names(&["net0"])).is_empty());
    }

    #[test]
    fn what_holds() {
        let f = Fact::Known(json!({"status": "stopped"}));
        assert!(holds(&f, "/status", &json!("stopped")));
        assert!(!holds(&f, "/status", &json!("running")));
        assert!(holds(&f, "/lock", &Value::Null));
        assert!(!holds(&f, "", &Value::Null));
        assert!(holds(&Fact::Absent, "", &Value::Null));
        assert!(!holds(&Fact::Absent, "/status", &json!("stopped")));
        assert!(!holds(&Fact::Unreadable("x".into()), "/lock", &Value::Null));
    }

    #[test]
    fn requests_in_words() {
        let r = Request::new("POST", "/nodes/a/qemu").param("vmid", 100);
        assert_eq!(describe(&r), "create guest 100");
        let r =
            Request::new("DELETE", "/cluster/sdn/lock").arg("lock-token", Arg::Secret("x".into()));
        assert_eq!(describe(&r), "release the SDN lock");
    }
}
