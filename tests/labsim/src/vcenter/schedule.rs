//! ScheduledTaskManager: power operations at a given moment.
use super::fault::Fault;
use super::methods::Call;
use super::model::{Obj, State, now};
use super::xml::{mo, mo_id};
use super::{Inner, Reply, power};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const METHODS: &[&str] = &[
    "PowerOnVM_Task",
    "PowerOffVM_Task",
    "SuspendVM_Task",
    "ResetVM_Task",
    "ShutdownGuest",
    "RebootGuest",
];

/// An xsd:dateTime as a moment; without a zone it is UTC.
fn moment(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once('T')?;
    let mut ymd = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (ymd.next()??, ymd.next()??, ymd.next()??);
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at_checked(zone_at)?;
    let mut hms = clock.splitn(3, ':').map(|p| p.parse::<f64>().ok());
    let (h, m, s) = (
        hms.next()??,
        hms.next()??,
        hms.next().flatten().unwrap_or(0.0),
    );
    let offset = match zone
        .strip_prefix(['+', '-'])
        .and_then(|z| z.split_once(':'))
    {
        Some((zh, zm)) => {
            let minutes = zh.parse::<f64>().ok()? * 60.0 + zm.parse::<f64>().ok()?;
            if zone.starts_with('-') {
                -minutes
            } else {
                minutes
            }
        }
        None => 0.0,
    };
    // Days from a civil date, the inverse of `model::iso`.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468;
    let secs = days as f64 * 86_400.0 + h * 3600.0 + m * 60.0 + s - offset * 60.0;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(secs).ok()?)
}

fn all(st: &State, entity: Option<&str>) -> Vec<Value> {
    st.objs
        .iter()
        .filter(|(_, o)| o.ty == "ScheduledTask")
        .filter(|(_, o)| entity.is_none_or(|e| mo_id(&o.props["info"]["entity"]) == Some(e)))
        .map(|(id, _)| mo("ScheduledTask", id))
        .collect()
}

fn relist(st: &mut State) {
    let tasks = all(st, None);
    let manager = st.content("scheduledTaskManager");
    if let Some(o) = st.objs.get_mut(&manager) {
        o.props.insert("scheduledTask".into(), json!(tasks));
    }
}

fn note(st: &mut State, id: &str, f: impl FnOnce(&mut Value)) {
    if let Some(info) = st.objs.get_mut(id).and_then(|o| o.props.get_mut("info")) {
        f(info);
    }
}

/// Does what was scheduled.
fn fire(inner: &Arc<Inner>, st: &mut State, id: &str, vm: &str, method: &str, user: &str) {
    let result = match st.vms.get(vm).cloned() {
        None => Err(Fault::not_found("VirtualMachine", vm)),
        Some(_) if st.active_task(vm).is_some() => {
            let blocker = st.active_task(vm).map(|t| t.id.clone()).unwrap_or_default();
            Err(Fault::in_progress(&blocker))
        }
        Some(v) if matches!(method, "ShutdownGuest" | "RebootGuest") => {
            power::guest(inner, st, &v, method == "RebootGuest").map(|()| None)
        }
        Some(v) => Ok(Some(power::power_task(inner, st, &v, method, user))),
    };
    note(st, id, |info| {
        info["prevRunTime"] = json!(now());
        info["nextRunTime"] = Value::Null;
        match result {
            Ok(task) => {
                info["state"] = json!("success");
                info["activeTask"] = task.unwrap_or_default();
            }
            Err(f) => {
                info["state"] = json!("error");
                info["error"] = f.0;
            }
        }
    });
    inner.cond.notify_all();
}

impl Call<'_> {
    /// CreateScheduledTask, RetrieveEntityScheduledTask, RemoveScheduledTask.
    ///
    /// # Errors
    /// DuplicateName, InvalidArgument, NotSupported, ManagedObjectNotFound.
    pub(super) fn schedule(&self, st: &mut State) -> Result<Reply, Fault> {
        let (a, spec) = (self.args, &self.args["spec"]);
        match self.method {
            "CreateScheduledTask" => {
                let vm = mo_id(&a["entity"]).unwrap_or("").to_string();
                if !st.vms.contains_key(&vm) {
                    return Err(Fault::not_found("VirtualMachine", &vm));
                }
                let name = spec["name"].as_str().unwrap_or("");
                let double = all(st, None).into_iter().find(|t| {
                    let o = mo_id(t).and_then(|id| st.objs.get(id));
                    o.is_some_and(|o| o.props["info"]["name"] == name)
                });
                if let Some(t) = double {
                    let msg = format!("The name '{name}' already exists.");
                    return Err(Fault::new(
                        "DuplicateName",
                        &msg,
                        json!({ "name": name, "object": t }),
                    ));
                }
                let method = spec["action"]["name"].as_str().unwrap_or("").to_string();
                if !METHODS.contains(&method.as_str())
                    || spec["scheduler"]["_t"] != "OnceTaskScheduler"
                {
                    let msg = "labsim schedules power operations, once";
                    return Err(Fault::new("NotSupported", msg, json!({})));
                }
                let at = spec["scheduler"]["runAt"]
                    .as_str()
                    .unwrap_or("")
                    .to_string();
                let wait = moment(&at)
                    .and_then(|m| m.duration_since(SystemTime::now()).ok())
                    .ok_or_else(|| Fault::invalid_argument("spec.scheduler.runAt"))?;
                let user = self.session(st)?.user.clone();
                let id = st.new_id("schedule");
                let mut info = spec.clone();
                info["_t"] = json!("ScheduledTaskInfo");
                info["scheduledTask"] = mo("ScheduledTask", &id);
                info["entity"] = a["entity"].clone();
                info["taskObject"] = a["entity"].clone();
                info["lastModifiedTime"] = json!(now());
                info["lastModifiedUser"] = json!(user);
                info["nextRunTime"] = json!(at);
                info["state"] = json!("queued");
                let mut props = Map::new();
                props.insert("info".into(), info);
                st.objs.insert(
                    id.clone(),
                    Obj {
                        ty: "ScheduledTask".into(),
                        props,
                    },
                );
                relist(st);
                let reply = Reply::One("ScheduledTask", mo("ScheduledTask", &id));
                if spec["enabled"] == json!(true) {
                    let (inner, generation) = (Arc::clone(self.inner), st.generation);
                    std::thread::spawn(move || {
                        std::thread::sleep(wait);
                        let mut st = inner.lock();
                        // Removed meanwhile, or another world.
                        if st.generation == generation && st.objs.contains_key(&id) {
                            fire(&inner, &mut st, &id, &vm, &method, &user);
                        }
                    });
                }
                Ok(reply)
            }
            "RetrieveEntityScheduledTask" => {
                Ok(Reply::Many("ScheduledTask", all(st, mo_id(&a["entity"]))))
            }
            "RemoveScheduledTask" => {
                st.objs.remove(self.id);
                relist(st);
                Ok(Reply::Void)
            }
            _ => Err(self.unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcenter::model::iso;

    #[test]
    fn moments_are_the_inverse_of_iso() {
        for secs in [
            0u64,
            951_782_400,
            1_709_251_199,
            1_796_053_031,
            4_102_444_800,
        ] {
            let t = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
            assert_eq!(moment(&iso(t)), Some(t));
        }
        assert_eq!(
            moment("2026-11-30T17:00:00+01:00"),
            moment("2026-11-30T16:00:00Z")
        );
        assert_eq!(
            moment("2026-11-30T16:00:00"),
            moment("2026-11-30T16:00:00.0Z")
        );
        assert_eq!(moment("soon"), None);
    }
}
