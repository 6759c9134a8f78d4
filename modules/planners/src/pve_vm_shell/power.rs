//! Starting, stopping, pausing, converting to a template.

use super::desired::{Shell, State};
use crate::look::{Look, Stop};
use crate::pve_common::{self as common, Guest, is_running, text};
use crate::pve_foresee as foresee;
use crate::pve_write;
use plan::{Await, Effect, Fact, Plan, Refusal, Request, Step};
use pve::keys::PveKey;
use pve::{ConfigKey, Family, PropString};
use serde_json::{Value, json};

/// Seconds beside the guest's own time, for the task that shuts it down.
const MARGIN_S: u64 = 60;

/// Options that only a hibernated guest has.
const HIBERNATED: &[&str] = &["lock", "vmstate", "runningmachine", "runningcpu"];

fn is_paused(status: &Value) -> bool {
    status["qmpstatus"] == "paused"
}

fn is_managed(status: &Value) -> bool {
    status["ha"]["managed"].as_u64() == Some(1) || status["ha"]["managed"] == true
}

impl Shell {
    fn cannot(&self, guest: &Guest<'_>, why: impl std::fmt::Display) -> Stop {
        Refusal::new(format!(
            "unable to {} guest {}: {why}",
            self.verb(),
            guest.vmid()
        ))
        .into()
    }

    /// A state between running and stopped.
    pub(super) fn power(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let guest = common::find_existing(look, &self.target, self.verb())?;
        common::check_guard(&guest, self.guard.as_deref(), self.verb())?;
        if !self.skiplock && guest.lock().is_some_and(|l| common::IN_FLUX.contains(&l)) {
            common::settled(look, &guest, self.timeout_s, self.verb(), &[])?;
        }
        let status = common::status(look, guest.vmid(), self.verb())?;
        let (running, paused) = (is_running(status), is_paused(status));
        let mut after = vec![];
        let step = match self.state {
            State::Started if running && !paused => return Ok(Plan::empty()),
            State::Started if running => self.resume(&guest, status),
            State::Started => self.start(look, &guest, status)?,
            State::Stopped if !running => return Ok(Plan::empty()),
            State::Stopped => self.shut_down(&guest, status)?,
            State::Restarted if !running => return Ok(Plan::empty()),
            State::Restarted if paused && !self.force => {
                return Err(self.cannot(&guest, "it is paused and cannot shut itself down; start it (which resumes it), or give force=true"));
            }
            State::Restarted => {
                // A reset machine is as paused as before.
                if paused {
                    after.push(self.resume(&guest, status));
                }
                self.restart(&guest, status, paused)
            }
            State::Paused if paused => return Ok(Plan::empty()),
            State::Hibernated if guest.lock() == Some("suspended") && !running => {
                return Ok(Plan::empty());
            }
            _ if !running => return Err(self.cannot(&guest, "it is not running; start it first")),
            State::Paused => self.suspend(&guest, status),
            _ => self.hibernate(&guest, status),
        };
        after.insert(0, step);
        self.finish(look, &guest, after)
    }

    /// Waits for what runs, asks for privileges, adds `skiplock`.
    pub(super) fn finish(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        steps: Vec<Step>,
    ) -> Result<Plan, Stop> {
        if !self.skiplock {
            let ok: &[&str] = if self.state == State::Started {
                &["suspended"]
            } else {
                &[]
            };
            common::settled(look, guest, self.timeout_s, self.verb(), ok)?;
        }
        let what = format!("{} guest {}", self.verb(), guest.vmid());
        let mut plan = Plan::empty();
        for mut step in steps {
            if self.skiplock && !step.request.path.ends_with("/template") {
                step.request = step.request.param("skiplock", "1");
            }
            pve_write::permitted(look, guest.config(), &step.request, &what)?;
            plan.push(step);
        }
        Ok(plan)
    }

    fn status_request(&self, guest: &Guest<'_>, verb: &str) -> Request {
        Request::new("POST", guest.path(&format!("/status/{verb}")))
    }

    fn waits(&self, guest: &Guest<'_>, status: &Value, wanted: &str, seconds: u64) -> Await {
        // An HA resource is only asked to change: the task ends before it has (pve-ha-manager).
        match is_managed(status) {
            true => Await::Until {
                key: PveKey::GuestStatus(guest.vmid()).key(),
                pointer: "/status".to_owned(),
                equals: json!(wanted),
                timeout_s: seconds,
            },
            false => Await::Task { timeout_s: seconds },
        }
    }

    /// The status as it becomes; who manages the guest stays as it was.
    fn now(&self, guest: &Guest<'_>, old: &Value, status: &str, qmp: &str) -> Effect {
        let mut new = json!({"status": status, "qmpstatus": qmp});
        if !old["ha"].is_null() {
            new["ha"] = old["ha"].clone();
        }
        Effect::Put(PveKey::GuestStatus(guest.vmid()).key(), new)
    }

    fn resume(&self, guest: &Guest<'_>, status: &Value) -> Step {
        Step::new(
            self.status_request(guest, "resume"),
            format!("resume paused guest {}", guest.vmid()),
        )
        .wait(Await::Task {
            timeout_s: self.timeout_s,
        })
        .effect(self.now(guest, status, "running", "running"))
    }

    fn start(&self, look: &Look<'_>, guest: &Guest<'_>, status: &Value) -> Result<Step, Stop> {
        if guest.is_template() {
            return Err(self.cannot(guest, "it is a template; clone it and start the clone"));
        }
        // Source: `start-nobridge` of create-config-cases.json: only the task fails.
        for nic in pve::config::nics(guest.config()) {
            if let Some(b) = nic.get("bridge") {
                common::check_bridge(
                    look,
                    guest.node(),
                    b,
                    &format!("start guest {}", guest.vmid()),
                )?;
            }
        }
        crate::pve_drives::check_volumes(
            look,
            guest,
            true,
            &format!("start guest {}", guest.vmid()),
        )?;
        // What was pending when it was hibernated applies now.
        let mut awake = match guest.pending().is_empty() {
            true => guest.0.clone(),
            false => foresee::stopped(guest),
        };
        for part in ["config", "current"] {
            if let Some(c) = awake[part].as_object_mut() {
                c.retain(|k, _| !HIBERNATED.contains(&k.as_str()));
            }
        }
        if let Some(o) = awake.as_object_mut() {
            o.remove("lock");
        }
        Ok(Step::new(
            self.status_request(guest, "start"),
            format!("start guest {}", guest.vmid()),
        )
        .wait(self.waits(guest, status, "running", self.timeout_s))
        .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), awake))
        .effect(self.now(guest, status, "running", "running")))
    }

    /// Shutdown by the guest; with `force` the server ends it when the time is over (its own forceStop).
    pub(super) fn shut_down(&self, guest: &Guest<'_>, status: &Value) -> Result<Step, Stop> {
        if is_paused(status) && !self.force {
            return Err(self.cannot(guest, "it is paused and cannot shut itself down; start it (which resumes it), or give force=true"));
        }
        let request = self
            .status_request(guest, "shutdown")
            .param("forceStop", u8::from(self.force).to_string())
            .param("timeout", self.timeout_s.to_string());
        let why = match self.force {
            true => format!(
                "shut down guest {}, by force after {} s",
                guest.vmid(),
                self.timeout_s
            ),
            false => format!("shut down guest {}", guest.vmid()),
        };
        Ok(Step::new(request, why)
            .wait(self.waits(guest, status, "stopped", self.timeout_s + MARGIN_S))
            .effect(Effect::Put(
                PveKey::Guest(guest.vmid()).key(),
                foresee::stopped(guest),
            ))
            .effect(self.now(guest, status, "stopped", "stopped"))
            .disruptive())
    }

    fn restart(&self, guest: &Guest<'_>, status: &Value, paused: bool) -> Step {
        let step = match self.force {
            true => Step::new(
                self.status_request(guest, "reset"),
                format!("reset guest {}", guest.vmid()),
            ),
            false => Step::new(
                self.status_request(guest, "reboot")
                    .param("timeout", self.timeout_s.to_string()),
                format!("reboot guest {}", guest.vmid()),
            )
            // The guest is stopped and started anew, with what was pending.
            .effect(Effect::Put(
                PveKey::Guest(guest.vmid()).key(),
                foresee::stopped(guest),
            )),
        };
        step.wait(Await::Task {
            timeout_s: self.timeout_s + MARGIN_S,
        })
        .effect(self.now(
            guest,
            status,
            "running",
            if paused { "paused" } else { "running" },
        ))
        .disruptive()
    }

    fn suspend(&self, guest: &Guest<'_>, status: &Value) -> Step {
        Step::new(
            self.status_request(guest, "suspend"),
            format!("pause guest {}", guest.vmid()),
        )
        .wait(Await::Task {
            timeout_s: self.timeout_s,
        })
        .effect(self.now(guest, status, "running", "paused"))
        .disruptive()
    }

    fn hibernate(&self, guest: &Guest<'_>, status: &Value) -> Step {
        // Its devices must be the same when it wakes up: nothing that is pending applies yet.
        let mut asleep = guest.0.clone();
        asleep["lock"] = json!("suspended");
        Step::new(
            self.status_request(guest, "suspend").param("todisk", "1"),
            format!("hibernate guest {}", guest.vmid()),
        )
        .wait(Await::Task {
            timeout_s: self.timeout_s,
        })
        .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), asleep))
        .effect(self.now(guest, status, "stopped", "stopped"))
        .disruptive()
    }

    /// Converts to a template; its volumes get the names of base volumes.
    pub(super) fn to_template(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let guest = common::find_existing(look, &self.target, self.verb())?;
        common::check_guard(&guest, self.guard.as_deref(), self.verb())?;
        if guest.is_template() {
            return Ok(Plan::empty());
        }
        let status = common::status(look, guest.vmid(), self.verb())?;
        let mut steps = Vec::new();
        let mut base = guest.0.clone();
        if is_running(status) {
            if !self.force {
                return Err(self.cannot(&guest, "it is running; stop it first, or give force=true"));
            }
            steps.push(self.shut_down(&guest, status)?);
            base = foresee::stopped(&guest);
        }
        let snapshots = look.aux(&PveKey::Snapshots(guest.vmid()), "whether it has snapshots")?;
        if let Some(n) = snapshots
            .and_then(Fact::known)
            .and_then(Value::as_array)
            .filter(|a| !a.is_empty())
        {
            let names: Vec<&str> = n.iter().filter_map(|s| s["name"].as_str()).collect();
            return Err(self.cannot(
                &guest,
                format_args!(
                    "it has snapshots ({}); remove them first",
                    common::list(&names)
                ),
            ));
        }
        crate::pve_drives::check_volumes(
            look,
            &guest,
            false,
            &format!("make a template of guest {}", guest.vmid()),
        )?;
        let template = as_template(base, guest.vmid());
        steps.push(
            Step::new(
                Request::new("POST", guest.path("/template")),
                format!("convert guest {} to a template", guest.vmid()),
            )
            .wait(Await::Task {
                timeout_s: self.timeout_s,
            })
            .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), template)),
        );
        self.finish(look, &guest, steps)
    }
}

/// Source: `template` of create-config-cases.json: `vm-N-disk-0` becomes `base-N-disk-0`.
fn as_template(mut guest: Value, vmid: u32) -> Value {
    let (vm, base) = (format!("vm-{vmid}-disk-"), format!("base-{vmid}-disk-"));
    for part in ["config", "current"] {
        let Some(config) = guest[part].as_object_mut() else {
            continue;
        };
        for (key, v) in config.iter_mut() {
            let disk = key
                .parse::<ConfigKey>()
                .is_ok_and(|k| k.is_drive() && k.family() != Family::Unused);
            let parsed = PropString::parse(key, &text(v));
            if let (true, Ok(mut p)) = (disk, parsed)
                && !pve::boot::is_cdrom(&p)
                && let Some(f) = p.get("file").map(|f| f.replace(&vm, &base))
                && p.set("file", &f).is_ok()
            {
                *v = json!(p.print());
            }
        }
        config.insert("template".into(), json!(1));
    }
    guest["template"] = json!(true);
    guest["digest"] = json!("");
    guest
}
