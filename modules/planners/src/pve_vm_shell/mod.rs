//! `pve_vm_shell`: virtual machines, from nothing to nothing.

mod clone;
mod create;
mod desired;
mod power;
mod remove;
mod report;
mod spec;
mod update;

use crate::look::{self, Look, Stop, Think};
use crate::pve_common::{self as common, Target};
use crate::{Def, Side};
use desired::{Shell, State};
use plan::{Facts, Key, Module, Outcome, Plan, Refusal, Wait};
use pve::keys::PveKey;
use serde_json::{Map, Value};

/// The module.
pub const DEF: Def = Def {
    spec: &spec::SPEC,
    side: Side::Pve,
    make: |args| Ok(Box::new(Shell::new(args)?)),
};

impl Shell {
    /// What is being done, for `unable to ...`.
    fn verb(&self) -> &'static str {
        match self.state {
            State::Present => "change",
            State::Absent => "remove",
            State::Stopped => "stop",
            State::Started => "start",
            State::Restarted => "restart",
            State::Current => "look at",
            State::Template => "convert",
            State::Paused => "pause",
            State::Hibernated => "hibernate",
        }
    }

    fn present(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let found = common::find(look, &self.target, self.verb())?;
        if let Some(guest) = found {
            common::check_guard(&guest, self.guard.as_deref(), self.verb())?;
            if self.migrate {
                return self.move_to_node(look, &guest);
            }
            return self.converge(look, &guest);
        }
        if let Some(c) = &self.clone {
            return self.copy(look, c);
        }
        if self.migrate || self.said_delete || !self.revert.is_empty() {
            // These only mean something for a guest that is there.
            common::find_existing(look, &self.target, self.verb())?;
        }
        self.create(look)
    }

    /// The id of the guest in these facts; for a new one without a given id, the free one that is taken.
    fn vmid_in(&self, facts: &Facts) -> Option<u32> {
        common::resolve(facts, &self.target).or_else(|| match (&self.target, self.state) {
            (Target::Name(_), State::Present) => create::free_id_in(facts),
            _ => None,
        })
    }
}

impl Shell {
    /// An earlier task of this check run makes the guest, and the server chooses the id that this task gives another value: which one it
    /// was before is shown only for real.
    fn unknown_ids(&self, look: &Look<'_>) {
        for (key, fact) in look.facts().iter() {
            let (Some(PveKey::Guest(vmid)), Some(guest)) = (PveKey::parse(key), fact.known())
            else {
                continue;
            };
            for id in ["smbios1", "vmgenid"] {
                let planned = guest["config"][id].as_str().unwrap_or_default();
                if guest["digest"] == ""
                    && self.want.contains_key(id)
                    && planned.contains(plan::SERVER)
                {
                    look.note(format!(
                        "{id} of guest {vmid} before this task: the server chooses it when an earlier task of this run makes the guest"
                    ));
                }
            }
        }
    }
}

/// An earlier task of this check run imports a disk whose source is only planned, too: the configuration that is shown lacks its size.
fn unknown_sizes(look: &Look<'_>) {
    for (key, fact) in look.facts().iter() {
        let (Some(PveKey::Guest(vmid)), Some(guest)) = (PveKey::parse(key), fact.known()) else {
            continue;
        };
        // Only planned guests have no digest.
        if guest["digest"] != "" {
            continue;
        }
        for d in pve::config::drives(common::Guest(guest).config()) {
            let key = d.key();
            // Drives without a medium and cloud-init's have none; unused volumes never show one.
            let volume = d.get("file").unwrap_or("none");
            if key.is_bus_drive()
                && d.get("size").is_none()
                && d.get("media") != Some("cdrom")
                && volume != "none"
                && !volume.contains("cloudinit")
            {
                look.note(format!(
                    "size of {} of guest {vmid}: its source is made by an earlier task of this run",
                    key.as_str()
                ));
            }
        }
    }
}

impl Shell {
    fn steps(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        match self.state {
            State::Present => self.present(look),
            State::Absent => self.remove(look),
            State::Current => {
                let guest = common::find_existing(look, &self.target, self.verb())?;
                common::check_guard(&guest, self.guard.as_deref(), self.verb())?;
                common::status(look, guest.vmid(), self.verb())?;
                Ok(Plan::empty())
            }
            State::Template => self.to_template(look),
            _ => self.power(look),
        }
    }
}

impl Think for Shell {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let made = self.steps(look);
        unknown_sizes(look);
        self.unknown_ids(look);
        match made {
            Ok(mut plan) => {
                plan.warnings.splice(0..0, self.warnings.iter().cloned());
                Ok(plan)
            }
            // What is shown of the guest is not all known then either.
            Err(Stop::Refused(r)) if !look.notes().is_empty() => {
                Err(Stop::Refused(Box::new(r.with("unverified", look.notes()))))
            }
            Err(other) => Err(other),
        }
    }
}

impl Module for Shell {
    fn holds(&self) -> Vec<Key> {
        match self.target {
            Target::Vmid(v) => vec![PveKey::Guest(v).key()],
            // Whoever takes the next free id must see what others took.
            Target::Name(_) => vec![PveKey::NextId.key(), PveKey::Guests.key()],
        }
    }

    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn settle(&self, facts: &Facts) -> Result<Option<Wait>, Refusal> {
        look::settle(self, facts)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        let Some(vmid) = self.vmid_in(facts) else {
            return Vec::new();
        };
        let (guest, status) = (PveKey::Guest(vmid).key(), PveKey::GuestStatus(vmid).key());
        match self.state {
            State::Absent | State::Current => vec![guest],
            // Only a new guest's status is news: changing options changes no status.
            State::Present if facts.known(&guest).is_some() => vec![guest],
            _ => vec![guest, status],
        }
    }

    fn view(&self, facts: &Facts) -> Value {
        self.shown(facts)
    }

    fn result(&self, outcome: &Outcome<'_>) -> Map<String, Value> {
        self.results(outcome)
    }

    fn title(&self) -> String {
        self.target.to_string()
    }
}
