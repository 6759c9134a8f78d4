//! A guest that is there: what differs is written, in one request; disks are never made anew.

use super::create::{new_card, new_efi, new_tpm, tag_style};
use super::desired::Shell;
use crate::look::{Look, Stop};
use crate::pve_common::{self as common, Guest, Target};
use crate::pve_drives::{self as drives_of, Drives};
use crate::pve_foresee::{Change, Setting, json_of};
use crate::pve_write;
use plan::{Await, Effect, ErrorKind, Plan, Refusal, Request, Step};
use pve::config::{Compare, semantic_eq};
use pve::keys::PveKey;
use pve::volume::DriveFile;
use pve::{ConfigKey, Family, PropString};
use serde_json::{Map, Value, json};

/// What differs.
#[derive(Default)]
struct Draft {
    /// Plain options and cards that are there.
    set: Vec<Setting>,
    /// Cards that are not there, as named.
    cards: Vec<PropString>,
    /// Drives that are new or get another medium.
    place: Vec<PropString>,
    delete: Vec<String>,
    revert: Vec<String>,
    grow: Vec<(String, u64)>,
    drift: Vec<Value>,
    notes: Vec<String>,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.set.is_empty()
            && self.cards.is_empty()
            && self.place.is_empty()
            && self.delete.is_empty()
            && self.revert.is_empty()
            && self.grow.is_empty()
    }
}

fn drift(option: &str, is: &str, wanted: &str, by: &str) -> Value {
    json!({"option": option, "is": is, "wanted": wanted, "mended_by": by})
}

impl Shell {
    fn no(&self, guest: &Guest<'_>, why: impl std::fmt::Display) -> Stop {
        Refusal::new(format!("unable to change guest {}: {why}", guest.vmid())).into()
    }

    /// Brings an existing guest to what is asked for.
    pub(super) fn converge(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        if !self.skiplock && guest.lock().is_some_and(|l| common::IN_FLUX.contains(&l)) {
            common::settled(look, guest, self.timeout_s, "change", &[])?;
        }
        let draft = self.compare(look, guest)?;
        for n in &draft.notes {
            look.note(n.clone());
        }
        let by_name = matches!(self.target, Target::Name(_)) && self.clone.is_none();
        let explicit = !self.unset.is_empty() || !self.revert.is_empty();
        let write = self.update.unwrap_or(!by_name || explicit);
        if !write {
            return Ok(self.only_drift(guest, draft));
        }
        if draft.is_empty() {
            return Ok(Plan {
                drift: draft.drift,
                ..Plan::empty()
            });
        }
        self.write(look, guest, draft)
    }

    /// `update: false`, or found by name only: differences are listed, not mended.
    fn only_drift(&self, guest: &Guest<'_>, draft: Draft) -> Plan {
        let by = "this module with update=true";
        let mut all = draft.drift;
        let mut add = |key: &str, wanted: &str| {
            let is = guest.text(key).unwrap_or_else(|| "unset".to_owned());
            all.push(drift(key, &is, wanted, by));
        };
        for s in &draft.set {
            let secret = pve_write::SECRET.contains(&s.key.as_str());
            add(&s.key, if secret { plan::MASKED } else { &s.sent });
        }
        for p in draft.cards.iter().chain(&draft.place) {
            add(p.key().as_str(), &p.print());
        }
        for (key, bytes) in &draft.grow {
            add(key, &format!("size={}", pve::size::format_size(*bytes)));
        }
        for key in &draft.delete {
            add(key, "unset");
        }
        Plan {
            drift: all,
            ..Plan::empty()
        }
    }

    fn compare(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Draft, Stop> {
        let mut d = Draft::default();
        self.compare_name(guest, &mut d)?;
        for (key, value) in &self.want {
            if self.only_at_creation(key) {
                continue;
            }
            let k: ConfigKey = key.parse().map_err(|e: pve::KeyError| self.no(guest, e))?;
            if k.is_bus_drive() {
                self.compare_drive(look, guest, key, value, &mut d)?;
            } else if k.is_net() {
                self.compare_card(guest, key, value, &mut d)?;
            } else {
                self.compare_option(guest, key, value, &mut d)?;
            }
        }
        self.compare_efi(guest, &mut d)?;
        self.compare_tpm(guest, &mut d)?;
        self.compare_tags(look, guest, &mut d)?;
        for key in &self.unset {
            let there =
                guest.config().contains_key(key) || (key == "lock" && guest.lock().is_some());
            if there && !d.delete.contains(key) {
                d.delete.push(key.clone());
            }
        }
        d.revert = self
            .revert
            .iter()
            .filter(|k| guest.pending().contains_key(*k))
            .cloned()
            .collect();
        self.check_balloon(guest, &d)?;
        Ok(d)
    }

    /// The server compares both when one of them is written (qemu-server, API2/Qemu.pm, update_vm_api).
    fn check_balloon(&self, guest: &Guest<'_>, d: &Draft) -> Result<(), Stop> {
        let written = |key: &str| d.set.iter().find(|s| s.key == key).map(|s| s.sent.clone());
        if written("memory").is_none() && written("balloon").is_none() {
            return Ok(());
        }
        let mib = |key: &str| {
            let value = written(key).or_else(|| guest.text(key))?;
            value.trim_start_matches("current=").parse::<u64>().ok()
        };
        let (balloon, memory) = (mib("balloon").unwrap_or(0), mib("memory").unwrap_or(512));
        if balloon > memory {
            return Err(self.no(
                guest,
                format_args!("balloon {balloon} MiB is more than its memory of {memory} MiB; give a smaller balloon, or more memory"),
            ));
        }
        Ok(())
    }

    fn compare_name(&self, guest: &Guest<'_>, d: &mut Draft) -> Result<(), Stop> {
        let Some(wanted) = &self.name else {
            return Ok(());
        };
        let is = guest.name();
        if is.as_ref() == Some(wanted) || self.only_at_creation("name") {
            return Ok(());
        }
        if !self.rename {
            let called = is.map_or("it has no name".to_owned(), |n| {
                format!("it is called `{n}`")
            });
            return Err(self.no(
                guest,
                format_args!("{called}, not `{wanted}`; check the vmid, or give rename=true if it is to be renamed"),
            ));
        }
        d.set.push(Setting::plain("name", wanted));
        Ok(())
    }

    fn compare_drive(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        key: &str,
        value: &str,
        d: &mut Draft,
    ) -> Result<(), Stop> {
        let wish = PropString::parse(key, value).map_err(|e| self.no(guest, e))?;
        let Some(stored) = guest.text(key) else {
            d.place.push(wish);
            return Ok(());
        };
        let old = PropString::parse(key, &stored).map_err(|e| self.no(guest, e))?;
        let found = drives_of::compare(&old, &wish);
        if let Some(clash) = found.clash {
            return Err(self.no(guest, clash));
        }
        for (what, is, wanted, by) in found.drift {
            d.drift
                .push(drift(&format!("{key}.{what}"), &is, &wanted, &by));
        }
        if let Some(bytes) = found.grow {
            d.grow.push((key.to_owned(), bytes));
        }
        if let Some(new) = found.set {
            if new.get("file") == old.get("file") {
                if let Some(why) = drives_of::gone(look, guest, &old)? {
                    return Err(self.no(guest, format_args!("{key}: {why}")));
                }
                d.set.push(Setting::plain(key, new.print()));
            } else {
                d.place.push(new);
            }
        }
        Ok(())
    }

    fn compare_card(
        &self,
        guest: &Guest<'_>,
        key: &str,
        value: &str,
        d: &mut Draft,
    ) -> Result<(), Stop> {
        let named = PropString::parse(key, value).map_err(|e| self.no(guest, e))?;
        let Some(stored) = guest.text(key) else {
            d.cards.push(named);
            return Ok(());
        };
        let old = PropString::parse(key, &stored).map_err(|e| self.no(guest, e))?;
        let new = old.merge(&named);
        if !old.same_as(&new) {
            d.set.push(Setting::plain(key, new.print()));
        }
        Ok(())
    }

    fn compare_option(
        &self,
        guest: &Guest<'_>,
        key: &str,
        value: &str,
        d: &mut Draft,
    ) -> Result<(), Stop> {
        let stored = guest.config().get(key);
        if pve::config::MASKED.contains(&key) {
            match stored.filter(|_| key != "cipassword" || !self.cipassword_always) {
                Some(_) => d.notes.push(format!(
                    "{key}: the server does not show it, so it is not compared"
                )),
                None => d.set.push(Setting {
                    key: key.to_owned(),
                    sent: value.to_owned(),
                    stored: "**********".to_owned(),
                }),
            }
            return Ok(());
        }
        let wanted = json!(value);
        let same = match (key, stored.and_then(pve::config::text_of)) {
            ("boot", Some(have)) => {
                // Letters and devices compare on the guest as it will be.
                let mut future = guest.config().clone();
                future.extend(self.want.iter().map(|(k, v)| (k.clone(), json!(v))));
                pve::boot::same_boot(&have, value, &future)
            }
            _ => semantic_eq(key, stored, Some(&wanted), &Compare::default()),
        };
        if same {
            return Ok(());
        }
        // Named keys converge, others stay; all other options are replaced, as the server does (MODULES.md).
        let merges = ["agent", "smbios1"].contains(&key);
        let sent = match guest.text(key).filter(|_| merges) {
            Some(stored) => {
                let old = PropString::parse(key, &stored).map_err(|e| self.no(guest, e))?;
                let new = old.merge(&PropString::parse(key, value).map_err(|e| self.no(guest, e))?);
                if old.same_as(&new) {
                    return Ok(());
                }
                new.print()
            }
            None => value.to_owned(),
        };
        if let Ok(mut p) = PropString::parse(key, &sent) {
            // The uuid of a guest that is only planned is what the server will choose.
            if p.get("uuid") == Some(plan::SERVER) {
                p = p.unset(&["uuid"]);
            }
            p.check().map_err(|e| self.no(guest, e))?;
        }
        let stored = match key {
            "description" => sent.trim_end().to_owned(),
            "cpuunits" => sent
                .parse::<u32>()
                .map_or(sent.clone(), |n| n.min(10_000).to_string()),
            _ => sent.clone(),
        };
        d.set.push(Setting {
            key: key.to_owned(),
            sent,
            stored,
        });
        Ok(())
    }

    fn compare_efi(&self, guest: &Guest<'_>, d: &mut Draft) -> Result<(), Stop> {
        let Some(e) = self
            .efi
            .as_ref()
            .filter(|_| !self.only_at_creation("efidisk0"))
        else {
            return Ok(());
        };
        let Some(stored) = guest.text("efidisk0") else {
            d.place
                .push(new_efi(e, None).map_err(|e| self.no(guest, e))?);
            return Ok(());
        };
        let old = PropString::parse("efidisk0", &stored).map_err(|e| self.no(guest, e))?;
        let only_new = "only a new, empty EFI disk would change that, and the guest would lose its boot entries; remove efidisk0 by hand first if that is meant";
        let is = old.get("efitype").unwrap_or("2m");
        if let Some(t) = e.efitype.as_deref().filter(|t| *t != is) {
            return Err(self.no(
                guest,
                format_args!("efidisk0 has efitype {is}, not {t}; {only_new}"),
            ));
        }
        let is = old.get_bool("pre-enrolled-keys").unwrap_or(false);
        if let Some(k) = e.keys.filter(|k| *k != is) {
            let say = |k: bool| if k { "with" } else { "without" };
            return Err(self.no(
                guest,
                format_args!(
                    "efidisk0 was made {} pre-enrolled keys, not {} them; {only_new}",
                    say(is),
                    say(k)
                ),
            ));
        }
        self.compare_storage("efidisk0", &old, e.storage.as_deref(), d);
        Ok(())
    }

    fn compare_tpm(&self, guest: &Guest<'_>, d: &mut Draft) -> Result<(), Stop> {
        let Some(t) = self
            .tpm
            .as_ref()
            .filter(|_| !self.only_at_creation("tpmstate0"))
        else {
            return Ok(());
        };
        let Some(stored) = guest.text("tpmstate0") else {
            d.place.push(new_tpm(t).map_err(|e| self.no(guest, e))?);
            return Ok(());
        };
        let old = PropString::parse("tpmstate0", &stored).map_err(|e| self.no(guest, e))?;
        // Source: api-schema.json, tpmstate0: version defaults to v1.2.
        let is = old.get("version").unwrap_or("v1.2");
        if t.version_named && is != t.version {
            return Err(self.no(
                guest,
                format_args!("tpmstate0 has version {is}, not {}; a TPM cannot be converted, remove tpmstate0 by hand first if that is meant", t.version),
            ));
        }
        self.compare_storage("tpmstate0", &old, Some(&t.storage), d);
        Ok(())
    }

    fn compare_storage(&self, key: &str, old: &PropString, wanted: Option<&str>, d: &mut Draft) {
        let is = match DriveFile::of(old) {
            Some(DriveFile::Volume(v)) => v.storage().to_owned(),
            _ => return,
        };
        if let Some(w) = wanted.filter(|w| *w != is) {
            d.drift.push(drift(
                &format!("{key}.storage"),
                &is,
                w,
                "pve_disk_import with state=moved and storage",
            ));
        }
    }

    fn compare_tags(&self, look: &Look<'_>, guest: &Guest<'_>, d: &mut Draft) -> Result<(), Stop> {
        if self.only_at_creation("tags") {
            return Ok(());
        }
        let is = guest.text("tags").unwrap_or_default();
        let is = is.trim();
        let mut all: Vec<String> = self
            .tags
            .iter()
            .flatten()
            .chain(&self.tags_add)
            .chain(&self.tags_remove)
            .cloned()
            .collect();
        if self.tags.is_none() && all.is_empty() {
            return Ok(());
        }
        all.push(is.to_owned());
        let style = tag_style(look, &all)?;
        let wanted = match &self.tags {
            Some(t) => pve::tags::normal(&t.join(";"), style),
            None => pve::tags::change(is, &self.tags_add, &self.tags_remove, style),
        };
        if pve::tags::same(is, &wanted, style) {
            return Ok(());
        }
        match wanted.is_empty() {
            true => d.delete.push("tags".to_owned()),
            false => d
                .set
                .push(Setting::plain("tags", pve::tags::normal(&wanted, style))),
        }
        Ok(())
    }

    /// Turns the differences into requests, after a look at all that they depend on.
    fn write(&self, look: &Look<'_>, guest: &Guest<'_>, draft: Draft) -> Result<Plan, Stop> {
        let vmid = guest.vmid();
        let what = format!("change guest {vmid}");
        if let Some(d) = self.digest.as_deref().filter(|d| guest.0["digest"] != **d) {
            return Err(Refusal::kind(
                ErrorKind::Conflict,
                format!(
                    "unable to {what}: its configuration no longer has digest {d}; look at it again"
                ),
            )
            .into());
        }
        if !self.skiplock {
            common::settled(look, guest, self.timeout_s, "change", &[])?;
        }
        let running = common::is_running(common::status(look, vmid, "change")?);
        let allocates = draft
            .place
            .iter()
            .any(|p| matches!(DriveFile::of(p), Some(DriveFile::New { .. })));
        let change = self.settle_values(look, guest, &draft, &what)?;
        let mut future = guest.config().clone();
        for k in &change.delete {
            future.remove(k);
        }
        for s in &change.set {
            future.insert(s.key.clone(), json_of(&s.key, &s.stored));
        }
        self.check_config(look, guest.node(), &future, guest.config(), &what)?;
        let mut plan = Plan {
            drift: draft.drift,
            ..Plan::empty()
        };
        let mut after = guest.0.clone();
        if !change.is_empty() {
            after = pve_write::foreseen(look, guest, running, &change);
            let step = self.config_step(guest, &change, running, allocates, after.clone());
            pve_write::permitted(look, guest.config(), &step.request, &what)?;
            plan.push(step);
        }
        self.grow_steps(look, guest, after, &draft.grow, &what, &mut plan)?;
        if self.want.get("bios").is_some_and(|b| b == "ovmf") {
            self.warn_efi(&future, &mut plan);
        }
        Ok(plan)
    }

    /// A request for each disk that grows; `after` is the guest as it is then.
    pub(super) fn grow_steps(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        mut after: Value,
        grow: &[(String, u64)],
        what: &str,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        let mut drives = pve::config::drives(guest.config());
        drives.retain(|d| grow.iter().any(|(k, _)| k == d.key().as_str()));
        crate::pve_drives::check_drives(look, guest, &drives, what)?;
        for (key, bytes) in grow {
            let size = pve::size::format_size(*bytes);
            after = grown(after, key, &size);
            let request = Request::new("PUT", guest.path("/resize"))
                .param("disk", key.clone())
                .param("size", size.clone());
            pve_write::permitted(look, guest.config(), &request, what)?;
            let step = Step::new(request, format!("grow {key} to {size}"))
                .wait(Await::Task {
                    timeout_s: self.timeout_s,
                })
                .effect(Effect::Put(
                    PveKey::Guest(guest.vmid()).key(),
                    after.clone(),
                ));
            plan.push(step);
        }
        Ok(())
    }

    /// All differences as one change and the disks that grow, for a guest that this run makes.
    pub(super) fn change_of(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        what: &str,
    ) -> Result<(Change, Vec<(String, u64)>), Stop> {
        let draft = self.compare(look, guest)?;
        let change = self.settle_values(look, guest, &draft, what)?;
        let mut future = guest.config().clone();
        for s in &change.set {
            future.insert(s.key.clone(), json_of(&s.key, &s.stored));
        }
        self.check_config(look, guest.node(), &future, guest.config(), what)?;
        Ok((change, draft.grow))
    }

    fn settle_values(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        draft: &Draft,
        what: &str,
    ) -> Result<Change, Stop> {
        let mut change = Change {
            set: draft.set.clone(),
            delete: draft.delete.clone(),
            revert: draft.revert.clone(),
            ..Change::default()
        };
        let mut place: Vec<&PropString> = draft.place.iter().collect();
        place.sort_by(|a, b| a.key().as_str().cmp(b.key().as_str()));
        let mut placer = Drives::new(
            look,
            guest.node(),
            guest.vmid(),
            guest.config(),
            &place,
            self.working_storage.as_deref(),
            what,
        )?;
        for p in place {
            change.set.push(placer.place(p)?);
        }
        for c in &draft.cards {
            let card = new_card(look, guest.vmid(), c, what)?;
            change
                .set
                .push(Setting::plain(c.key().as_str(), card.print()));
        }
        change.set.sort_by(|a, b| a.key.cmp(&b.key));
        change.delete.sort();
        Ok(change)
    }

    fn config_step(
        &self,
        guest: &Guest<'_>,
        change: &Change,
        running: bool,
        allocates: bool,
        after: Value,
    ) -> Step {
        let mut parts = Vec::new();
        let keys: Vec<&str> = change.set.iter().map(|s| s.key.as_str()).collect();
        for (verb, keys) in [
            ("set", keys),
            ("remove", change.delete.iter().map(String::as_str).collect()),
            ("revert", change.revert.iter().map(String::as_str).collect()),
        ] {
            if !keys.is_empty() {
                parts.push(format!("{verb} {}", common::list(&keys)));
            }
        }
        let mut step = pve_write::put_config(guest, change, running, parts.join("; "));
        if self.skiplock {
            step.request = step.request.param("skiplock", "1");
        }
        if allocates {
            // Allocation can take long: the asynchronous call answers with a task (docs/pve-facts.md, Config).
            step.request.verb = "POST".to_owned();
            step = step.wait(Await::Task {
                timeout_s: self.timeout_s,
            });
            if let Some(s) = &self.working_storage {
                step.request = step.request.param("import-working-storage", s.clone());
            }
        }
        let destroys = |k: &String| {
            let unused = k
                .parse::<ConfigKey>()
                .is_ok_and(|k| k.family() == Family::Unused);
            let cloudinit = guest
                .text(k)
                .and_then(|v| PropString::parse(k, &v).ok())
                .is_some_and(|d| d.key().is_drive() && pve::boot::is_cloudinit(&d));
            unused || cloudinit
        };
        if change.delete.iter().any(destroys) {
            step = step.destructive();
        }
        if running && pve_write::interrupts(guest, change) {
            step = step.disruptive();
        }
        step.effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), after))
    }
}

fn grown(mut guest: Value, key: &str, size: &str) -> Value {
    for part in ["config", "current"] {
        let drives: Option<&mut Map<String, Value>> = guest[part].as_object_mut();
        if let Some(v) = drives.and_then(|d| d.get_mut(key))
            && let Ok(mut p) = PropString::parse(key, &common::text(v))
            && p.set("size", size).is_ok()
        {
            *v = json!(p.print());
        }
    }
    if let Some(o) = guest.as_object_mut() {
        o.insert("digest".into(), json!(""));
    }
    guest
}
