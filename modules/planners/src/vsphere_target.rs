//! The one virtual machine that a writing vsphere module works on: found, guarded, waited for.

use crate::look::{Look, Stop};
use crate::vsphere_common::{DATACENTER, GUARD_UUID, same_uuid};
use plan::{Arg, Effect, ErrorKind, Fact, Facts, Key, Refusal, Step, Wait};
use serde_json::{Map, Value, json};
use spec::{Args, Opt};
use vsphere::keys::{VcKey, VmBy};
use vsphere::path::same_name;
use vsphere::value::{flag, list, text};

/// The options by which a task names its machine, as the peer's vm_powerstate has them.
pub const SELECT: &[Opt] = &[
    Opt::str("name", "Name of the VM. Two VMs of one name are an error that lists them, unless O(name_match) or O(folder) tells which is meant."),
    Opt::str("uuid", "BIOS uuid of the VM, or the instance uuid with O(use_instance_uuid)."),
    Opt::str("moid", "Managed object id of the VM, such as C(vm-42)."),
    Opt::bool("use_instance_uuid", "Whether O(uuid) is vCenter's own instance uuid.").default("false"),
    Opt::str("name_match", "Which of several VMs of one name is meant, by the order in which vCenter made them. Counts only when it is written in the task: unlike in the peer, the default picks none of several.").choices(&["first", "last"]).default("\"first\""),
    DATACENTER,
    Opt::str("folder", "The VM must be in this folder or below it; with or without C(<datacenter>/vm/) in front. Counts when the VM is named by O(name)."),
    Opt::bool("folder_paths_are_absolute", "Whether O(folder) is a whole inventory path.").default("false"),
    GUARD_UUID,
];

/// Which of several machines of one name is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The one that was made first (lowest number in its moid).
    First,
    /// The one that was made last.
    Last,
}

/// How a task names its machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// By what.
    pub by: VmBy,
    /// Only inside that datacenter.
    pub datacenter: Option<String>,
    /// Only in or below that folder.
    pub folder: Option<String>,
    /// The folder is a whole inventory path.
    pub folder_is_absolute: bool,
    /// Among several of one name; without it several are refused.
    pub pick: Option<Pick>,
    /// The machine must have this `config.uuid`.
    pub guard_uuid: Option<String>,
    /// For messages, such as `power on`.
    pub verb: String,
}

/// The names under which a module's options stand.
pub struct Names {
    /// Option of the name.
    pub name: &'static str,
    /// Option of the uuid.
    pub uuid: &'static str,
}

fn refuse(kind: ErrorKind, msg: String) -> Stop {
    Refusal::kind(kind, msg).into()
}

/// The number at the end of a moid: machines get them in the order in which they are made.
fn number(moid: &str) -> u64 {
    let digits = moid.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|d| d.parse().ok()).unwrap_or(u64::MAX)
}

impl Target {
    /// From the arguments; one of the three ways to name it is given, as the table requires.
    pub fn new(a: &Args, names: &Names, verb: &str) -> Target {
        let own = |n: &str| a.str(n).map(str::to_owned);
        let by = match (own("moid"), own(names.uuid)) {
            (Some(m), _) => VmBy::Moid(m),
            (None, Some(u)) if a.flag("use_instance_uuid") => VmBy::InstanceUuid(u),
            (None, Some(u)) => VmBy::Uuid(u),
            (None, None) => VmBy::Name(own(names.name).unwrap_or_default()),
        };
        let pick = match a.str("name_match").filter(|_| a.given("name_match")) {
            Some("first") => Some(Pick::First),
            Some("last") => Some(Pick::Last),
            _ => None,
        };
        Target {
            by,
            datacenter: own("datacenter"),
            folder: own("folder").filter(|f| !f.trim_matches('/').is_empty()),
            folder_is_absolute: a.flag("folder_paths_are_absolute"),
            pick,
            guard_uuid: own("guard_uuid"),
            verb: verb.to_owned(),
        }
    }

    fn by_moid(&self, moid: &str) -> VcKey {
        VcKey::Vm {
            by: VmBy::Moid(moid.to_owned()),
            datacenter: None,
        }
    }

    /// The key under which it is asked for; machines sought by folder or by order are asked for by the moid that was chosen.
    pub fn key(&self) -> Key {
        VcKey::Vm {
            by: self.by.clone(),
            datacenter: self.datacenter.clone(),
        }
        .key()
    }

    fn by_list(&self) -> bool {
        matches!(self.by, VmBy::Name(_)) && (self.folder.is_some() || self.pick.is_some())
    }

    /// As the user named it.
    pub fn named(&self) -> String {
        match &self.by {
            VmBy::Moid(v) => format!("VM {v}"),
            VmBy::Name(v) => format!("VM {v}"),
            VmBy::Uuid(v) => format!("VM with uuid {v}"),
            VmBy::InstanceUuid(v) => format!("VM with instance uuid {v}"),
        }
    }

    fn unable(&self, why: impl std::fmt::Display) -> String {
        format!("unable to {} {}: {why}", self.verb, self.named())
    }

    /// A refusal about this machine.
    pub fn refusal(&self, why: impl std::fmt::Display) -> Refusal {
        Refusal::new(self.unable(why))
    }

    /// The candidates of that name, folder and datacenter, oldest first.
    fn candidates<'v>(&self, names: &'v [Value]) -> Vec<&'v Value> {
        let VmBy::Name(name) = &self.by else {
            return vec![];
        };
        let mut all: Vec<&Value> = names
            .iter()
            .filter(|v| {
                let own = |k: &str| text(v, k).unwrap_or("");
                same_name(own("name"), name) || own("raw_name") == name
            })
            .filter(|v| {
                self.datacenter
                    .as_deref()
                    .is_none_or(|d| datacenter_of(v) == Some(d) || datacenter_moid(v) == Some(d))
            })
            .filter(|v| self.in_folder(v))
            .collect();
        all.sort_by_key(|v| number(text(v, "moid").unwrap_or("")));
        all
    }

    /// As in the peer the folder may be written with or without `<datacenter>/vm/`, and what lies below it counts.
    fn in_folder(&self, v: &Value) -> bool {
        let Some(folder) = &self.folder else {
            return true;
        };
        let folder = folder.trim_matches('/');
        let path = text(v, "path").unwrap_or("").trim_matches('/');
        let within = |whole: &str| {
            path == whole || path.strip_prefix(whole).is_some_and(|r| r.starts_with('/'))
        };
        if within(folder) {
            return true;
        }
        let Some(dc) = datacenter_of(v).filter(|_| !self.folder_is_absolute) else {
            return false;
        };
        // The datacenter itself may lie in a folder.
        let root = format!("{dc}/vm");
        let start = path
            .find(&format!("{root}/"))
            .filter(|i| *i == 0 || path.as_bytes()[i - 1] == b'/');
        start.is_some_and(|i| within(&format!("{}{root}/{folder}", &path[..i])))
    }

    /// The machine's fact, checked against `guard_uuid`.
    ///
    /// # Errors
    /// Missing facts; not found, ambiguous, unreadable, another uuid, no configuration.
    pub fn find<'a>(&self, look: &Look<'a>) -> Result<&'a Value, Stop> {
        let found = if self.by_list() {
            self.find_listed(look)?
        } else {
            match look.fact(&self.key())? {
                Fact::Known(v) => v,
                Fact::Unreadable(why) => {
                    return Err(refuse(ErrorKind::Permission, self.unable(why)));
                }
                Fact::Absent => return Err(self.missing(look)?),
            }
        };
        let vm = latest(look, found);
        if let Some(guard) = &self.guard_uuid {
            let own = text(vm, "uuid").unwrap_or("");
            if !same_uuid(own, guard) {
                let is = if own.is_empty() { "none" } else { own };
                return Err(self.refusal(format!("its uuid (config.uuid) is {is}, but guard_uuid is {guard}: it is another machine; look up which one is meant")).into());
            }
        }
        match text(vm, "connection") {
            None | Some("connected") => {}
            Some(s) => return Err(self.refusal(format!("vCenter says `{s}` of it, so that nothing can be done with it; mend its host or its registration")).into()),
        }
        if !flag(vm, "has_config") {
            return Err(self.refusal("its configuration cannot be read (it is being made, inaccessible, or System.Read is missing); mend that first").into());
        }
        Ok(vm)
    }

    /// Whether there is none, for what is to be absent.
    ///
    /// # Errors
    /// Missing facts; a datacenter that does not exist; unreadable.
    pub fn is_absent(&self, look: &Look<'_>) -> Result<bool, Stop> {
        let absent = if self.by_list() {
            match look.fact(&VcKey::VmNames)? {
                Fact::Known(Value::Array(all)) => self.candidates(all).is_empty(),
                Fact::Unreadable(why) => {
                    return Err(refuse(ErrorKind::Permission, self.unable(why)));
                }
                _ => true,
            }
        } else {
            look.fact(&self.key())?.is_absent()
        };
        if let (true, Some(d)) = (absent, &self.datacenter)
            && let Some(Value::Array(all)) = look.fact(&VcKey::Datacenters)?.known()
            && !all
                .iter()
                .any(|v| same_name(text(v, "name").unwrap_or(""), d) || text(v, "moid") == Some(d))
        {
            return Err(no_datacenter(&self.unable(""), d, all));
        }
        Ok(absent)
    }

    fn find_listed<'a>(&self, look: &Look<'a>) -> Result<&'a Value, Stop> {
        let names: &[Value] = match look.fact(&VcKey::VmNames)? {
            Fact::Known(Value::Array(all)) => all,
            Fact::Unreadable(why) => {
                return Err(refuse(ErrorKind::Permission, self.unable(why)));
            }
            _ => &[],
        };
        let all = self.candidates(names);
        let one = match (all.as_slice(), self.pick) {
            ([], _) => return Err(self.missing(look)?),
            ([one], _) => *one,
            (_, Some(Pick::First)) => all[0],
            (_, Some(Pick::Last)) => all[all.len() - 1],
            (several, None) => {
                let each: Vec<String> = several
                    .iter()
                    .map(|v| {
                        let own = |k: &str| text(v, k).unwrap_or("?");
                        format!("{} in {}", own("moid"), own("path"))
                    })
                    .collect();
                return Err(self
                    .refusal(format!(
                        "there are {}: {}; give moid, or a folder that holds only one",
                        several.len(),
                        each.join(", ")
                    ))
                    .into());
            }
        };
        let moid = text(one, "moid").unwrap_or("");
        match look.fact(&self.by_moid(moid))? {
            Fact::Known(v) => Ok(v),
            Fact::Unreadable(why) => Err(refuse(ErrorKind::Permission, self.unable(why))),
            Fact::Absent => Err(refuse(
                ErrorKind::NotFound,
                self.unable(format!("{moid} was removed meanwhile; run again")),
            )),
        }
    }

    /// Why there is none: a datacenter that does not exist is told apart.
    fn missing(&self, look: &Look<'_>) -> Result<Stop, Stop> {
        if let Some(d) = &self.datacenter
            && let Some(Value::Array(all)) = look.fact(&VcKey::Datacenters)?.known()
            && !all
                .iter()
                .any(|v| same_name(text(v, "name").unwrap_or(""), d) || text(v, "moid") == Some(d))
        {
            return Ok(no_datacenter(&self.unable(""), d, all));
        }
        let mut places = vec![];
        if let Some(d) = &self.datacenter {
            places.push(format!(" in datacenter {d}"));
        }
        if let Some(f) = &self.folder {
            places.push(format!(" in folder {f}"));
        }
        Ok(refuse(
            ErrorKind::NotFound,
            self.unable(format!(
                "there is none{}, or this user may not see it; check the name and System.Read",
                places.concat()
            )),
        ))
    }

    /// The machine in facts from before or after; the planned state of its moid goes first.
    pub fn in_facts<'f>(&self, facts: &'f Facts) -> Option<&'f Value> {
        let found = if self.by_list() {
            let names = facts.known(VcKey::VmNames.key())?.as_array()?;
            let all = self.candidates(names);
            let one = match self.pick {
                Some(Pick::Last) => all.last(),
                _ => all.first(),
            };
            return facts.known(VcKey::vm(text(one?, "moid")?));
        } else {
            facts.known(self.key())?
        };
        let by_moid = text(found, "moid").and_then(|m| facts.known(VcKey::vm(m)));
        Some(by_moid.unwrap_or(found))
    }

    /// What is read again after execution.
    pub fn subject(&self, facts: &Facts) -> Vec<Key> {
        let moid = self.in_facts(facts).and_then(|v| text(v, "moid"));
        vec![moid.map_or_else(|| self.key(), VcKey::vm)]
    }

    /// All keys under which it may have been read, stale after a wait.
    pub fn stale(&self, vm: &Value) -> Vec<Key> {
        let moid = text(vm, "moid").unwrap_or("");
        let mut keys = vec![VcKey::vm(moid), VcKey::VmState(moid.to_owned()).key()];
        if !self.by_list() && !keys.contains(&self.key()) {
            keys.push(self.key());
        }
        keys
    }
}

fn datacenter_of(v: &Value) -> Option<&str> {
    text(v, "datacenter.name").or_else(|| text(v, "datacenter"))
}

fn datacenter_moid(v: &Value) -> Option<&str> {
    text(v, "datacenter.moid").or_else(|| text(v, "datacenter_moid"))
}

/// The refusal of a datacenter that does not exist; `unable` ends before the cause.
pub fn no_datacenter(unable: &str, given: &str, all: &[Value]) -> Stop {
    let names: Vec<&str> = all.iter().filter_map(|v| text(v, "name")).collect();
    let near = spec::nearest(given, names.iter().copied());
    let hint = near.map_or_else(
        || format!("there are: {}", names.join(", ")),
        |n| format!("did you mean {n}?"),
    );
    refuse(
        ErrorKind::NotFound,
        format!(
            "{}: there is no datacenter {given}; {hint}",
            unable.trim_end_matches([':', ' '])
        ),
    )
}

/// The fact of the same moid if it was put beside the one that was found by another key.
fn latest<'a>(look: &Look<'a>, found: &'a Value) -> &'a Value {
    text(found, "moid")
        .and_then(|m| look.seen(&VcKey::vm(m)))
        .unwrap_or(found)
}

/// The path of a machine's requests.
pub fn path(vm: &Value) -> String {
    format!("VirtualMachine:{}", text(vm, "moid").unwrap_or(""))
}

/// `web (vm-12)`.
pub fn title(vm: &Value) -> String {
    format!(
        "{} ({})",
        text(vm, "name").unwrap_or(""),
        text(vm, "moid").unwrap_or("")
    )
}

/// The same machine with some keys replaced.
pub fn with(vm: &Value, changes: &[(&str, Value)]) -> Value {
    let mut o: Map<String, Value> = vm.as_object().cloned().unwrap_or_default();
    for (k, v) in changes {
        o.insert((*k).to_owned(), v.clone());
    }
    Value::Object(o)
}

/// The machine is now this.
pub fn put(vm: &Value) -> Effect {
    Effect::Put(VcKey::vm(text(vm, "moid").unwrap_or("")), vm.clone())
}

/// What changes while one waits is now this.
pub fn put_state(vm: &Value) -> Effect {
    let moid = text(vm, "moid").unwrap_or("").to_owned();
    Effect::Put(
        VcKey::VmState(moid).key(),
        json!({
            "power": vm["power"],
            "connection": vm["connection"],
            "question": vm["question"],
            "tools_running": vm["tools"]["running"],
            "guest_state": vm["guest"]["state"],
        }),
    )
}

/// Operations that change nothing: they block nobody.
const CHECKS: &[&str] = &[
    "checkRelocate",
    "checkMigrate",
    "checkClone",
    "checkCompatibility",
];

/// A machine's unfinished tasks, checks left out, by number.
pub fn running(vm: &Value) -> Vec<&Value> {
    let mut all: Vec<&Value> = list(vm, "running_tasks")
        .iter()
        .filter(|t| matches!(text(t, "state"), Some("running" | "queued")))
        .filter(|t| {
            !CHECKS
                .iter()
                .any(|c| text(t, "operation").unwrap_or("").ends_with(c))
        })
        .collect();
    all.sort_by_key(|t| number(text(t, "moid").unwrap_or("")));
    all
}

/// The machine without that task. While one runs, the server disables the methods that it excludes.
pub fn without_task(vm: &Value, task: &Value) -> Value {
    let rest: Vec<Value> = list(vm, "running_tasks")
        .iter()
        .filter(|t| t["moid"] != task["moid"])
        .cloned()
        .collect();
    let mut changes = vec![];
    if rest.is_empty() {
        changes.push(("disabled_methods", json!([])));
    }
    changes.push(("running_tasks", json!(rest)));
    with(vm, &changes)
}

/// Waits for the end of a machine's task; `after` is what check mode assumes the machine to be then.
pub fn wait_for(
    target: &Target,
    vm: &Value,
    task: &Value,
    timeout_s: u64,
    joins: bool,
    after: &Value,
) -> Wait {
    let moid = text(task, "moid").unwrap_or("").to_owned();
    Wait {
        what: format!(
            "task {moid} ({}) of VM {}",
            text(task, "operation").unwrap_or("an operation"),
            title(vm)
        ),
        joins,
        key: VcKey::Task(moid).key(),
        pointer: "/state".into(),
        equals: json!("success"),
        timeout_s,
        assume: vec![put(after)],
        stale: target.stale(vm),
    }
}

/// A step of a machine; a task that came between is waited for, then everything is looked at again.
pub fn step(vm: &Value, method: &str, params: &[(&str, Value)], why: impl Into<String>) -> Step {
    let mut request = plan::Request::new(method, path(vm));
    for (k, v) in params {
        request = request.arg(k, Arg::Lit(v.clone()));
    }
    Step::new(request, why).tolerate(plan::Tolerance::Replan("TaskInProgress"))
}

/// A task's moid among the answers; `null` for the symbols of check mode.
pub fn task_of(answer: Option<&Value>) -> Value {
    match answer.and_then(Value::as_str) {
        Some(s) if !s.starts_with('<') => json!(vsphere::value::moid(s)),
        _ => Value::Null,
    }
}

/// A key that marks a machine whose last operation is not waited for. Only the effects of this run put it, so that differences
/// mask what is still running, alike in both worlds.
pub fn unwaited(moid: &str) -> Key {
    Key::from_parts(&["vc", "unwaited", moid])
}

/// Stands in differences for what is still running when the task ends.
pub const STILL_RUNNING: &str = "(not waited for)";

#[cfg(test)]
mod tests {
    use super::*;

    fn target(folder: &str, absolute: bool) -> Target {
        Target {
            by: VmBy::Name("web".into()),
            datacenter: None,
            folder: Some(folder.into()),
            folder_is_absolute: absolute,
            pick: None,
            guard_uuid: None,
            verb: "power on".into(),
        }
    }

    #[test]
    fn folders_are_found_as_the_peer_finds_them() {
        let v = json!({"path": "/site/DC0/vm/a/b", "datacenter": "DC0"});
        for (folder, absolute, hit) in [
            ("a/b", false, true),
            ("/a/", false, true),
            ("b", false, false),
            ("a/b/c", false, false),
            ("site/DC0/vm/a", true, true),
            ("/site/DC0/vm", false, true),
            ("a/b", true, false),
            ("a/bb", false, false),
        ] {
            assert_eq!(
                target(folder, absolute).in_folder(&v),
                hit,
                "{folder} {absolute}"
            );
        }
    }

    #[test]
    fn moids_are_numbers() {
        assert!(number("vm-9") < number("vm-10"));
    }
}
