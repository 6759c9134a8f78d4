//! A scheduled task of vCenter that changes a virtual machine's power once.

use crate::look::{Look, Stop};
use crate::vsphere_target::{self as vt, Target};
use plan::{Arg, Effect, ErrorKind, Fact, Facts, Key, Plan, Refusal, Request, Step};
use serde_json::{Value, json};
use spec::{ArgError, Args};
use vsphere::keys::VcKey;
use vsphere::value::{list, moid, text};

/// What is read of each scheduled task.
const INFO: &[&str] = &[
    "info.name",
    "info.entity",
    "info.enabled",
    "info.scheduler",
    "info.action",
];

/// One scheduled change.
pub struct Schedule {
    name: Option<String>,
    description: Option<String>,
    enabled: bool,
    /// As the user wrote it.
    given: String,
    /// Minutes since 1970, UTC.
    minute: i64,
    /// The zone was not given.
    assumed_utc: bool,
    state: String,
    method: &'static str,
}

/// Days since 1970-01-01 of a date, in the proleptic Gregorian calendar.
fn days(y: i64, m: i64, d: i64) -> i64 {
    // Years begin in March, so that the leap day is the last.
    let (y, m) = if m > 2 { (y, m - 3) } else { (y - 1, m + 9) };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * m + 2) / 5 + d - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

fn is_date(y: i64, m: i64, d: i64) -> bool {
    let leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    let last = match m {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last).contains(&d)
}

/// Minutes of an offset such as `+02:00`, `-0530`, `Z`.
fn offset(s: &str) -> Option<i64> {
    if matches!(s, "Z" | "z" | "UTC") {
        return Some(0);
    }
    let sign = match s.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits: String = s[1..].chars().filter(|c| *c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (h, m): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    (h <= 14 && m < 60).then_some(sign * (h * 60 + m))
}

fn numbers<const N: usize>(text: &str, seps: &[char]) -> Option<[i64; N]> {
    let parts: Vec<i64> = text
        .split(seps)
        .map(|p| {
            p.parse()
                .ok()
                .filter(|_| p.bytes().all(|b| b.is_ascii_digit()))
        })
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// Minutes since 1970 (UTC) of `dd/mm/yyyy hh:mm`, perhaps with an offset; and whether there was one.
fn parse_given(s: &str) -> Option<(i64, bool)> {
    let mut words = s.split_whitespace();
    let [d, m, y] = numbers::<3>(words.next()?, &['/'])?;
    let time = words.next()?;
    let (time, zone) = match (time.find(['+', '-', 'Z']), words.next()) {
        (Some(i), None) => (&time[..i], Some(&time[i..])),
        (None, zone) => (time, zone),
        _ => return None,
    };
    let [h, min] = numbers::<2>(time, &[':'])?;
    let zone_minutes = zone.map_or(Some(0), offset)?;
    if words.next().is_some() || !is_date(y, m, d) || h > 23 || min > 59 || y < 1970 {
        return None;
    }
    Some((
        days(y, m, d) * 1440 + h * 60 + min - zone_minutes,
        zone.is_some(),
    ))
}

/// Minutes since 1970 (UTC) of an XML dateTime; without a zone it is taken as UTC.
fn parse_server(s: &str) -> Option<i64> {
    let (date, rest) = s.split_once('T')?;
    let [y, m, d] = numbers::<3>(date, &['-'])?;
    let time = rest.get(..5)?;
    let [h, min] = numbers::<2>(time, &[':'])?;
    let tail = &rest[5..];
    let zone = tail.find(['+', '-', 'Z']).map(|i| &tail[i..]);
    Some(days(y, m, d) * 1440 + h * 60 + min - zone.map_or(Some(0), offset)?)
}

/// `2026-11-30T18:20:00Z`.
fn print_utc(minute: i64) -> String {
    let (day, of_day) = (minute.div_euclid(1440), minute.rem_euclid(1440));
    let mut y = 1970 + day / 366;
    while days(y + 1, 1, 1) <= day {
        y += 1;
    }
    let m = (1..=12).rev().find(|m| days(y, *m, 1) <= day).unwrap_or(1);
    let d = day - days(y, m, 1) + 1;
    format!(
        "{y:04}-{m:02}-{d:02}T{:02}:{:02}:00Z",
        of_day / 60,
        of_day % 60
    )
}

fn service() -> VcKey {
    VcKey::Object {
        ty: "ServiceInstance".into(),
        moid: "ServiceInstance".into(),
        paths: vec!["content.scheduledTaskManager".into(), "serverClock".into()],
    }
}

fn all_of(manager: &str) -> VcKey {
    VcKey::Object {
        ty: "ScheduledTaskManager".into(),
        moid: manager.to_owned(),
        paths: vec!["scheduledTask".into()],
    }
}

fn one(task: &str) -> VcKey {
    VcKey::Object {
        ty: "ScheduledTask".into(),
        moid: task.to_owned(),
        paths: INFO.iter().map(|p| (*p).to_owned()).collect(),
    }
}

fn manager(service: &Value) -> Option<&str> {
    text(service, "content.scheduledTaskManager").map(moid)
}

impl Schedule {
    /// From the arguments; `None` without `scheduled_at`.
    ///
    /// # Errors
    /// A time that is none.
    pub fn new(a: &Args, state: &str, method: &'static str) -> Result<Option<Schedule>, ArgError> {
        let own = |n: &str| a.str(n).map(str::to_owned);
        let Some(given) = own("scheduled_at") else {
            return Ok(None);
        };
        let Some((minute, zoned)) = parse_given(&given) else {
            return Err(ArgError {
                path: "scheduled_at".into(),
                msg: format!(
                    "{given:?} is no time; write it as 'dd/mm/yyyy hh:mm', with an offset such as +02:00 behind it if it is not UTC"
                ),
                value: Some(given),
            });
        };
        Ok(Some(Schedule {
            name: own("scheduled_task_name"),
            description: own("scheduled_task_description"),
            enabled: a.bool("scheduled_task_enabled").unwrap_or(true),
            given,
            minute,
            assumed_utc: !zoned,
            state: state.to_owned(),
            method,
        }))
    }

    /// When, in UTC.
    pub fn at(&self) -> String {
        print_utc(self.minute)
    }

    /// A name of our own says everything that tells two tasks apart, so that a second run finds it.
    fn name(&self, moid: &str) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("trueplan {} {moid} {}", self.state, self.at()))
    }

    fn is_method(&self, action: &str) -> bool {
        let bare = |s: &str| {
            s.rsplit('.')
                .next()
                .unwrap_or(s)
                .trim_end_matches("_Task")
                .trim_end_matches("VM")
                .to_ascii_lowercase()
        };
        bare(action) == bare(self.method)
    }

    /// A scheduled task as the diff shows it.
    fn show(&self, info: &Value) -> Value {
        let action = text(info, "action.name").unwrap_or("");
        let minute = text(info, "scheduler.runAt").and_then(parse_server);
        json!({
            "name": info["name"],
            "at": minute.map(print_utc),
            "state": if self.is_method(action) { &self.state } else { action },
            "enabled": info["enabled"],
        })
    }

    fn wanted(&self, vm: &Value) -> Value {
        json!({
            "name": self.name(text(vm, "moid").unwrap_or("")),
            "entity": vt::path(vm),
            "enabled": self.enabled,
            "scheduler": {"runAt": self.at()},
            "action": {"name": self.method},
        })
    }

    /// Plans the scheduled task unless there is one already.
    ///
    /// # Errors
    /// No vCenter, a time that has passed, another task of that name.
    pub fn plan(
        &self,
        target: &Target,
        look: &Look<'_>,
        vm: &Value,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        let service = match look.fact(&service())? {
            Fact::Known(v) => v,
            Fact::Unreadable(why) => {
                return Err(Refusal::kind(
                    ErrorKind::Permission,
                    format!("unable to schedule a task: {why}"),
                )
                .into());
            }
            Fact::Absent => &Value::Null,
        };
        let Some(manager) = manager(service) else {
            return Err(target
                .refusal(format!(
                    "scheduling for {} requires vCenter, and this is a standalone host; leave out scheduled_at",
                    self.given
                ))
                .into());
        };
        match text(service, "serverClock").and_then(parse_server) {
            Some(now) if now > self.minute => {
                return Err(target
                    .refusal(format!(
                        "scheduled_at {} ({}) has already passed: the server's clock says {}; give a later time",
                        self.given,
                        self.at(),
                        print_utc(now)
                    ))
                    .into());
            }
            Some(_) => {}
            None => look
                .note("whether scheduled_at lies ahead: the server's clock cannot be read".into()),
        }
        if self.assumed_utc {
            plan.warnings.push(format!(
                "scheduled_at is taken as UTC ({}); write an offset such as +02:00 behind it for another zone",
                self.at()
            ));
        }
        let moid_of_vm = text(vm, "moid").unwrap_or("");
        let name = self.name(moid_of_vm);
        let all = look.aux(&all_of(manager), "scheduled tasks of that name")?;
        let mut ids: Vec<Value> = vec![];
        if let Some(Fact::Known(v)) = all {
            ids.extend(list(v, "scheduledTask").iter().cloned());
        }
        let keys: Vec<VcKey> = ids
            .iter()
            .filter_map(Value::as_str)
            .map(|r| one(moid(r)))
            .collect();
        look.want(&keys)?;
        let wanted = self.wanted(vm);
        for k in &keys {
            let Some(v) = look.fact(k)?.known() else {
                continue;
            };
            let info = &v["info"];
            if text(info, "name") != Some(name.as_str()) {
                continue;
            }
            let same_vm = text(info, "entity").map(moid) == Some(moid_of_vm);
            if same_vm && self.show(info) == self.show(&wanted) {
                return Ok(());
            }
            let what = if same_vm {
                format!("for this VM, but otherwise: {}", self.show(info))
            } else {
                "for another object".to_owned()
            };
            return Err(target
                .refusal(format!(
                    "vCenter has a scheduled task named {name:?} {what}; remove it there, or give another scheduled_task_name"
                ))
                .into());
        }
        let description = self.description.clone().unwrap_or_else(|| {
            format!(
                "Scheduled task for vm {} for operation {} at {}",
                text(vm, "name").unwrap_or(""),
                self.state,
                self.given
            )
        });
        // As pyVmomi sends it: the WSDL name of the method, no arguments.
        let spec = json!({
            "name": name,
            "description": description,
            "enabled": self.enabled,
            "scheduler": {"_type": "OnceTaskScheduler", "runAt": self.at()},
            "action": {"_type": "MethodAction", "name": self.method},
        });
        let planned = format!("planned-{name}");
        ids.push(json!(format!("ScheduledTask:{planned}")));
        plan.push(
            Step::new(
                Request::new(
                    "CreateScheduledTask",
                    format!("ScheduledTaskManager:{manager}"),
                )
                .arg("entity", Arg::Lit(json!(vt::path(vm))))
                .arg("spec", Arg::Lit(spec)),
                format!("have vCenter do it at {}", self.at()),
            )
            .effect(Effect::Put(
                all_of(manager).key(),
                json!({"scheduledTask": ids}),
            ))
            .effect(Effect::Put(one(&planned).key(), json!({"info": wanted}))),
        );
        Ok(())
    }

    /// The list, and the task that was made.
    pub fn subject(&self, facts: &Facts, answers: &[Value]) -> Vec<Key> {
        let Some(m) = facts.known(service().key()).and_then(manager) else {
            return vec![];
        };
        let mut keys = vec![all_of(m).key()];
        let made = answers.last().and_then(Value::as_str);
        if let Some(r) = made.filter(|r| !r.starts_with('<')) {
            keys.push(one(moid(r)).key());
        }
        keys
    }

    /// Our task in the facts.
    pub fn view(&self, facts: &Facts, vm: &str) -> Value {
        let name = self.name(vm);
        let of = |k: &VcKey| facts.known(k.key());
        let all = of(&service())
            .and_then(manager)
            .and_then(|m| of(&all_of(m)))
            .map_or(&[][..], |v| list(v, "scheduledTask"));
        all.iter()
            .filter_map(Value::as_str)
            .filter_map(|r| of(&one(moid(r))))
            .map(|v| &v["info"])
            .filter(|i| text(i, "name") == Some(name.as_str()))
            .map(|i| self.show(i))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times() {
        let utc = |s: &str| parse_given(s).map(|(m, z)| (print_utc(m), z));
        assert_eq!(
            utc("09/01/2018 10:18"),
            Some(("2018-01-09T10:18:00Z".into(), false))
        );
        assert_eq!(
            utc("1/3/2028 00:30 +02:00"),
            Some(("2028-02-29T22:30:00Z".into(), true))
        );
        assert_eq!(
            utc("31/12/2026 23:59-0100"),
            Some(("2027-01-01T00:59:00Z".into(), true))
        );
        for no in [
            "2018-01-09 10:18",
            "30/02/2024 10:00",
            "01/13/2024 10:00",
            "01/01/2024 24:00",
            "01/01/2024",
            "01/01/2024 10:00 CET",
            "+1/01/2024 10:00",
        ] {
            assert_eq!(utc(no), None, "{no}");
        }
        assert_eq!(
            parse_server("2018-01-09T11:18:42.123456+01:00"),
            parse_given("09/01/2018 10:18").map(|(m, _)| m)
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(minute in 0i64..100_000_000) {
            prop_assert_eq!(parse_server(&print_utc(minute)), Some(minute));
        }
    }
}
