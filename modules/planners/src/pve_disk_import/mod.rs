//! `pve_disk_import`: one disk of a guest, made, imported, attached, changed, resized, moved, detached or removed.

mod message;
mod options;
mod place;
mod present;
mod source;
mod wish;

use crate::look::{self, Look, Stop, Think};
use crate::pve_common::{self as common, Guest, Target, text};
use crate::pve_foresee::{self as foresee, Change};
use crate::pve_write;
use crate::{Def, Side};
use plan::{
    Await, Effect, ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Step, Wait,
};
use pve::keys::PveKey;
use pve::{Family, PropError, PropString};
use serde_json::{Map, Value, json};
use source::Source;
use spec::{ArgError, Args};

/// The module.
pub const DEF: Def = Def {
    spec: &options::SPEC,
    side: Side::Pve,
    make,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Present,
    Absent,
    Detached,
    Moved,
    Resized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Create {
    Disabled,
    Regular,
    Forced,
}

/// A size that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    Bytes(u64),
    More(u64),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Disk {
    target: Target,
    disk: String,
    state: State,
    create: Create,
    /// The named options, without a volume.
    named: PropString,
    unset: Vec<String>,
    storage: Option<String>,
    size: Option<Size>,
    format: Option<String>,
    import_from: Option<Source>,
    attach_from: Option<pve::Volid>,
    iso_image: Option<String>,
    working_storage: Option<String>,
    source_bytes: Option<u64>,
    source_pending: bool,
    single_file: bool,
    target_storage: Option<String>,
    target_vmid: Option<u32>,
    target_disk: Option<String>,
    delete_moved: Option<bool>,
    bwlimit: Option<i64>,
    guard: Option<String>,
    timeout_s: u64,
    wait: bool,
    warnings: Vec<String>,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    Ok(Box::new(Disk::new(args)?))
}

impl Disk {
    fn verb(&self) -> String {
        let what = match self.state {
            State::Present if self.import_from.is_some() => "import",
            State::Present if self.attach_from.is_some() => "attach",
            State::Present => "set",
            State::Absent => "remove",
            State::Detached => "detach",
            State::Moved => "move",
            State::Resized => "resize",
        };
        format!("{what} {} of", self.disk)
    }

    fn refused(&self, guest: &Guest<'_>, why: impl std::fmt::Display) -> Stop {
        Refusal::new(format!(
            "unable to {} guest {}: {why}",
            self.verb(),
            guest.vmid()
        ))
        .into()
    }

    fn missing(&self, guest: &Guest<'_>) -> Stop {
        Refusal::kind(
            ErrorKind::NotFound,
            format!(
                "Unable to process missing disk {} in VM {}; check the disk's name",
                self.disk,
                guest.vmid()
            ),
        )
        .into()
    }

    /// The stored drive.
    fn stored(&self, guest: &Guest<'_>) -> Result<Option<PropString>, Stop> {
        let Some(s) = guest.text(&self.disk) else {
            return Ok(None);
        };
        PropString::parse(&self.disk, &s).map(Some).map_err(|e| {
            self.refused(
                guest,
                format!("its stored value {s:?} cannot be read: {e}; set it by hand first"),
            )
        })
    }

    fn plain(&self, guest: &Guest<'_>, e: PropError) -> Stop {
        self.refused(guest, e)
    }

    fn awaiting(&self) -> Await {
        if self.wait {
            Await::Task {
                timeout_s: self.timeout_s,
            }
        } else {
            Await::NoWait
        }
    }

    /// Types of tasks that may be doing what this task asks for.
    fn own_tasks(&self) -> &'static [&'static str] {
        match self.state {
            State::Present => &["qmconfig", "imgcopy", "importdisk"],
            State::Moved => &["qmmove", "move_disk"],
            State::Resized => &["resize", "qmresize"],
            State::Absent | State::Detached => &["qmconfig"],
        }
    }

    /// Waits for what runs on the guest; a task that may be ours is joined: the next look tells what it has done.
    fn settled(&self, look: &Look<'_>, guest: &Guest<'_>, plan: &Plan) -> Result<(), Stop> {
        let vmid = guest.vmid();
        let tasks = PveKey::GuestTasks(vmid);
        let running = look.aux(&tasks, &format!("running tasks of guest {vmid}"))?;
        let ours = running
            .and_then(Fact::known)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|t| {
                t["type"]
                    .as_str()
                    .is_some_and(|t| self.own_tasks().contains(&t))
            })
            .filter_map(|t| Some((t["upid"].as_str()?, t["type"].as_str()?)))
            .min();
        let Some((upid, kind)) = ours else {
            return common::settled(look, guest, self.timeout_s, &self.verb(), &[]);
        };
        let mut assume = vec![Effect::Put(tasks.key(), json!([]))];
        assume.extend(plan.steps.iter().flat_map(|s| s.effects.clone()));
        // It holds the guest's lock as long as it runs.
        for e in &mut assume {
            if let Effect::Put(k, Value::Object(o)) = e
                && *k == PveKey::Guest(vmid).key()
            {
                o.remove("lock");
            }
        }
        let mut stale: Vec<Key> = assume.iter().map(|e| e.key().clone()).collect();
        stale.extend([PveKey::Guest(vmid).key(), PveKey::GuestStatus(vmid).key()]);
        Err(Wait {
            what: format!("task {upid} of guest {vmid} ({kind})"),
            joins: true,
            key: PveKey::Task(upid.to_owned()).key(),
            pointer: "/status".to_owned(),
            equals: json!("stopped"),
            timeout_s: self.timeout_s,
            assume,
            stale,
        }
        .into())
    }

    /// A step that writes the configuration synchronously.
    fn put(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        running: bool,
        change: &Change,
        why: String,
    ) -> Step {
        pve_write::put_config(guest, change, running, why).effect(Effect::Put(
            PveKey::Guest(guest.vmid()).key(),
            pve_write::foreseen(look, guest, running, change),
        ))
    }

    fn running(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<bool, Stop> {
        let status = common::status(look, guest.vmid(), &self.verb())?;
        Ok(common::is_running(status))
    }

    fn steps(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        match self.state {
            State::Present => self.present(look, guest),
            State::Absent => self.absent(look, guest),
            State::Detached => self.detached(look, guest),
            State::Moved => self.moved(look, guest),
            State::Resized => self.resized(look, guest),
        }
    }
}

impl Think for Disk {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let verb = self.verb();
        let guest = if self.state == State::Absent {
            match common::find(look, &self.target, &verb)? {
                Some(g) => g,
                None => return Ok(Plan::empty()),
            }
        } else {
            common::find_existing(look, &self.target, &verb)?
        };
        common::check_guard(&guest, self.guard.as_deref(), &verb)?;
        if guest.lock().is_some_and(|l| common::IN_FLUX.contains(&l)) {
            common::settled(look, &guest, self.timeout_s, &verb, &[])?;
        }
        let mut plan = self.steps(look, &guest)?;
        plan.warnings.extend(self.warnings.iter().cloned());
        if plan.steps.is_empty() {
            return Ok(plan);
        }
        self.settled(look, &guest, &plan)?;
        let what = format!("{verb} guest {}", guest.vmid());
        pve_write::permitted_steps(look, &guest, &plan.steps, &what)?;
        Ok(plan)
    }
}

impl Disk {
    /// The guest and the disk where the result is: the target's, once the disk has gone there.
    fn home<'a>(&self, facts: &'a Facts) -> Option<(Guest<'a>, String)> {
        let own = common::guest_in(facts, &self.target)?;
        if let (State::Moved, Some(t)) = (self.state, self.target_vmid)
            && !own.config().contains_key(&self.disk)
            && let Some(other) = common::guest_of(facts, t)
        {
            return Some((other, self.other_disk()));
        }
        Some((own, self.disk.clone()))
    }

    fn other_disk(&self) -> String {
        self.target_disk
            .clone()
            .unwrap_or_else(|| self.disk.clone())
    }

    /// Whether the size of what is imported or attached can be known from these facts; if not, no diff shows it.
    fn size_is_known(&self, facts: &Facts) -> bool {
        let source = match (&self.import_from, &self.attach_from) {
            (Some(Source::Volume(v)), _) | (None, Some(v)) => v,
            (Some(Source::Path(_)), _) => return self.source_bytes.is_some(),
            (None, None) => return true,
        };
        let node = common::guest_in(facts, &self.target).map(|g| g.node().to_owned());
        let key = node.map(|node| PveKey::Volume {
            node,
            volid: source.to_string(),
        });
        // A source that nobody had to look at: nothing was imported.
        let looked = key.and_then(|k| facts.get(k.key()));
        looked.is_none_or(|f| f.known().is_some_and(|v| v["size"].is_u64()))
            || self.source_bytes.is_some()
    }

    fn shown(&self, facts: &Facts, key: &str, value: &str) -> String {
        if self.size_is_known(facts) {
            return value.to_owned();
        }
        let Ok(mut p) = PropString::parse(key, value) else {
            return value.to_owned();
        };
        p.remove("size");
        format!("{},size={}", p.print(), plan::SERVER)
    }
}

impl Module for Disk {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        let own = match self.target {
            Target::Vmid(v) => Some(v),
            Target::Name(_) => None,
        };
        own.into_iter()
            .chain(self.target_vmid)
            .map(|v| PveKey::Guest(v).key())
            .collect()
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        // What still runs is masked: it would be another thing at every look.
        if !self.wait {
            return Vec::new();
        }
        common::resolve(facts, &self.target)
            .into_iter()
            .chain(self.target_vmid)
            .map(|v| PveKey::Guest(v).key())
            .collect()
    }

    fn view(&self, facts: &Facts) -> Value {
        let Some(guest) = common::guest_in(facts, &self.target) else {
            return json!({});
        };
        let drive = |g: &Guest<'_>, key: &str| match self.wait {
            true => g.text(key).map(|v| self.shown(facts, key, &v)),
            false => Some("(not waited for)".to_owned()),
        };
        let mut v = Map::new();
        v.insert("vmid".into(), json!(guest.vmid()));
        v.insert(self.disk.clone(), json!(drive(&guest, &self.disk)));
        if let Some(boot) = guest.text("boot") {
            v.insert("boot".into(), json!(boot));
        }
        // On a running guest a volume becomes unused when the guest lets go of it, which nobody can foresee.
        let stopped = facts
            .known(PveKey::GuestStatus(guest.vmid()).key())
            .is_some_and(|s| s["status"] == "stopped");
        if stopped {
            for (k, value) in guest
                .config()
                .iter()
                .filter(|(k, _)| k.starts_with("unused") && **k != self.disk)
            {
                v.insert(k.clone(), json!(text(value)));
            }
        }
        if let Some(other) = self.target_vmid.and_then(|t| common::guest_of(facts, t)) {
            let key = self.other_disk();
            v.insert(
                format!("{key} of {}", other.vmid()),
                json!(drive(&other, &key)),
            );
        }
        Value::Object(v)
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let home = self.home(o.after);
        let parsed = home.as_ref().and_then(|(g, key)| {
            let s = g.text(key)?;
            PropString::parse(key, &s).ok()
        });
        // What is not waited for is not there yet.
        let parsed = parsed.filter(|_| self.wait || !o.changed);
        let volume = parsed
            .as_ref()
            .and_then(|p| p.get("file"))
            .map(str::to_owned);
        let before = common::guest_in(o.before, &self.target);
        let after = common::guest_in(o.after, &self.target);
        // Also by a request whose answer was lost, or a task that was joined.
        let imported = o.changed
            && self.import_from.is_some()
            && (self.create == Create::Forced
                || before.is_none_or(|g| !g.config().contains_key(&self.disk)));
        let old = before.and_then(|g| source::file_of(&self.disk, g.config().get(&self.disk)?));
        let unused = after.and_then(|g| {
            let (old, config) = (old.as_ref()?, g.config());
            let key = config
                .iter()
                .find(|(k, v)| k.starts_with("unused") && text(v) == *old)?;
            Some(key.0.clone())
        });
        let upid = o
            .answers
            .iter()
            .rev()
            .find_map(|a| a.as_str().filter(|a| a.starts_with("UPID:")));
        let boots = matches!(self.state, State::Absent | State::Detached)
            || parsed.as_ref().is_some_and(pve::boot::is_cdrom);
        let pending: Map<String, Value> = after
            .map(|g| foresee::pending_of(&g))
            .unwrap_or_default()
            .into_iter()
            // A drive that goes, or a CD-ROM that comes, changes the boot order, which on a running guest waits too.
            .filter(|(k, _)| *k == self.disk || k == "boot" && boots)
            .collect();
        let mut r = Map::new();
        r.insert("msg".into(), json!(self.message(o, before.as_ref())));
        r.insert("vmid".into(), json!(common::resolve(o.after, &self.target)));
        r.insert("disk".into(), json!(self.disk));
        r.insert("volume".into(), json!(volume));
        r.insert(
            "size_bytes".into(),
            json!(parsed.as_ref().and_then(|p| p.get_size("size"))),
        );
        r.insert("imported".into(), json!(imported));
        r.insert(
            "available_bytes".into(),
            json!(self.available(o.before, before.as_ref())),
        );
        r.insert("unused".into(), json!(unused));
        r.insert("upid".into(), json!(upid));
        r.insert("pending".into(), Value::Object(pending));
        r
    }

    fn title(&self) -> String {
        format!("{} of {}", self.disk, self.target)
    }
}

impl Disk {
    /// Room on the storage that the disk goes to, in bytes, if it was looked at.
    pub(super) fn available(&self, facts: &plan::Facts, guest: Option<&Guest<'_>>) -> Option<u64> {
        let name = self.target_storage.as_ref().or(self.storage.as_ref())?;
        facts
            .known(PveKey::Storages(guest?.node().to_owned()).key())?
            .as_array()?
            .iter()
            .find(|s| s["storage"] == **name)?["avail"]
            .as_u64()
    }
}

/// Whether the volume is what the guest itself needs, not a disk with data that may grow or move freely.
fn is_state_volume(key: &PropString) -> bool {
    matches!(key.key().family(), Family::Efidisk | Family::Tpmstate)
}
