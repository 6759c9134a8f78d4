//! Tasks of the server: names, ends, logs.

use crate::error::{ApiError, refusal};
use crate::live::{Live, seg};
use plan::{ErrorKind, Failure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Polling begins with that pause and grows to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// For so long a task that was just answered may be unknown to its node (source: bpg/terraform-provider-proxmox,
/// proxmox/nodes/tasks/tasks.go).
const FRESH: Duration = Duration::from_secs(5);
/// Lines of a log that are asked for; the default of 50 would be the first ones.
pub(crate) const LOG_LINES: u32 = 5000;
/// Lines of a log that are shown.
const TAIL: usize = 8;

/// Growing pauses up to a deadline.
pub(crate) struct Pace {
    deadline: Instant,
    pause: Duration,
}

impl Pace {
    pub(crate) fn new(seconds: u64) -> Self {
        Pace {
            deadline: Instant::now() + Duration::from_secs(seconds),
            pause: FIRST_PAUSE,
        }
    }

    /// Sleeps until the next look; false if the time is up.
    pub(crate) fn wait(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 3 / 2).min(LAST_PAUSE);
        true
    }
}

/// Whether an answer names a task.
pub(crate) fn upid(answer: &Value) -> Option<&str> {
    answer.as_str().filter(|s| s.starts_with("UPID:"))
}

/// The task's API path; the whole UPID is percent-encoded, since those of tokens contain `!`.
pub(crate) fn path(upid: &str) -> Option<String> {
    let node = upid.strip_prefix("UPID:")?.split(':').next()?;
    (!node.is_empty()).then(|| format!("/nodes/{}/tasks/{}", seg(node), seg(upid)))
}

/// `OK` and `WARNINGS: n` are success, all else is failure (source: docs/pve-facts.md, "Tasks").
pub(crate) fn is_success(exitstatus: &str) -> bool {
    exitstatus == "OK" || exitstatus.starts_with("WARNINGS: ")
}

fn lines(log: &Value) -> Vec<String> {
    crate::read::entries(log)
        .filter_map(|l| crate::read::text(l, "t"))
        .map(|t| crate::wire::trim_perl(t.trim_end()))
        .filter(|t| !t.is_empty() && t != "no content")
        .collect()
}

/// The last lines of a log.
pub(crate) fn tail(log: &Value) -> Vec<String> {
    let all = lines(log);
    all[all.len().saturating_sub(TAIL)..].to_vec()
}

/// How a task ended.
pub(crate) enum End {
    /// Well, perhaps with warnings.
    Good(Vec<String>),
    /// Badly: the exit status, and the log's last lines.
    Bad { exit: String, tail: Vec<String> },
}

impl Live {
    /// Waits for a task's end. `what` is in words, as in `unable to {what}`.
    pub(crate) fn await_task(
        &mut self,
        upid: &str,
        timeout_s: u64,
        what: &str,
    ) -> Result<End, Failure> {
        let who = self.who();
        let named = |e: &ApiError| {
            let mut f = e
                .failure(&format!("{what} (task {upid})"), &who)
                .with("upid", upid);
            // The task itself was started; only its end is not known.
            f.lost_answer = false;
            f
        };
        let Some(path) = path(upid) else {
            return Err(Failure::new(
                ErrorKind::Api,
                format!(
                    "unable to {what}: the server named the task '{upid}', which is not a UPID"
                ),
            ));
        };
        let status = format!("{path}/status");
        let begun = Instant::now();
        let mut pace = Pace::new(timeout_s);
        loop {
            let answer = self.session().and_then(|s| s.get(&status));
            match answer {
                Ok(a) if a["status"] == "stopped" => {
                    let exit = a["exitstatus"].as_str().unwrap_or("").to_owned();
                    if exit == "OK" {
                        return Ok(End::Good(vec![]));
                    }
                    let log = self
                        .session()
                        .and_then(|s| s.get(&format!("{path}/log?limit={LOG_LINES}")))
                        .unwrap_or(Value::Null);
                    if is_success(&exit) {
                        let mut warnings: Vec<String> = lines(&log)
                            .into_iter()
                            .filter(|l| l.starts_with("WARN: ") || l.starts_with("WARNING: "))
                            .map(|l| self.scrubbed(&l))
                            .collect();
                        if warnings.is_empty() {
                            warnings.push(format!("task {upid} ended with {exit}"));
                        }
                        return Ok(End::Good(warnings));
                    }
                    let tail = tail(&log).iter().map(|l| self.scrubbed(l)).collect();
                    let exit = self.scrubbed(&crate::wire::trim_perl(&exit));
                    return Ok(End::Bad { exit, tail });
                }
                Ok(_) => {}
                Err(ApiError::Refused(r))
                    if matches!(r.status, 400 | 500) && begun.elapsed() < FRESH => {}
                Err(e) => return Err(named(&e)),
            }
            if !pace.wait() {
                return Err(Failure::new(
                    ErrorKind::Timeout,
                    format!(
                        "unable to {what} within {timeout_s} s: task {upid} is still running; it goes on, the next run picks it up (or set a longer timeout)"
                    ),
                )
                .with("upid", upid));
            }
        }
    }

    pub(crate) fn scrubbed(&self, text: &str) -> String {
        self.session()
            .map_or_else(|_| text.to_owned(), |s| s.scrub(text))
    }

    /// A bad end as a failure.
    pub(crate) fn task_failure(
        &self,
        upid: &str,
        exit: &str,
        tail: &[String],
        what: &str,
    ) -> Failure {
        let mut f = refusal(exit, false, what, &self.who());
        if f.kind == ErrorKind::Api {
            let said = if exit.is_empty() {
                "ended without saying how".to_owned()
            } else {
                format!("failed: {exit}")
            };
            // The last line of a log repeats the exit status.
            let more: Vec<&str> = tail
                .iter()
                .map(String::as_str)
                .filter(|l| l.strip_prefix("TASK ERROR: ") != Some(exit))
                .collect();
            let log = if more.is_empty() {
                String::new()
            } else {
                format!(" (log: {})", more.join(" | "))
            };
            f = Failure::new(
                ErrorKind::TaskFailed,
                format!("unable to {what}: task {upid} {said}{log}"),
            );
        }
        f.with("upid", upid)
            .with("exitstatus", exit)
            .with("task_log", json!(tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upids_are_encoded_whole() {
        assert_eq!(
            path("UPID:pve1:0001:00:00:qmcreate:100:root@pam!t:").as_deref(),
            Some(
                "/nodes/pve1/tasks/UPID%3Apve1%3A0001%3A00%3A00%3Aqmcreate%3A100%3Aroot%40pam%21t%3A"
            )
        );
        assert_eq!(path("nonsense"), None);
    }

    #[test]
    fn ends() {
        assert!(is_success("OK") && is_success("WARNINGS: 2"));
        assert!(!is_success("VM 221 already running") && !is_success(""));
    }
}
