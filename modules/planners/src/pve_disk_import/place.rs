//! The other states: resized, moved, detached, absent.

use super::source::Storage;
use super::{Disk, Size, is_state_volume};
use crate::look::{Look, Stop};
use crate::pve_common::{self as common, Guest, Target, text};
use crate::pve_foresee::{self as foresee, Change, Setting};
use plan::{Effect, Fact, Plan, Request, Step, Tolerance};
use pve::keys::PveKey;
use pve::size::{format_size, same_size_rounded};
use pve::{Family, PropString, Volid};
use serde_json::{Map, Value, json};

impl Disk {
    /// Disks of a protected guest cannot be taken away (source: qemu-server, check_protection).
    pub(super) fn check_unprotected(&self, guest: &Guest<'_>) -> Result<(), Stop> {
        if guest.text("protection").as_deref() == Some("1") {
            return Err(self.refused(
                guest,
                "the guest is protected; take that off first with pve_vm_shell (protection: false)",
            ));
        }
        Ok(())
    }

    pub(super) fn detached(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        let Some(old) = self.stored(guest)? else {
            return Ok(plan);
        };
        if old.key().family() == Family::Unused {
            return Ok(plan);
        }
        self.check_unprotected(guest)?;
        let running = self.running(look, guest)?;
        let step = self.put(
            look,
            guest,
            running,
            &self.deletion(&self.disk),
            format!("detach {}; its volume stays", self.disk),
        );
        plan.push(if running { step.disruptive() } else { step });
        Ok(plan)
    }

    fn deletion(&self, key: &str) -> Change {
        Change {
            delete: vec![key.to_owned()],
            ..Change::default()
        }
    }

    pub(super) fn absent(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        let Some(old) = self.stored(guest)? else {
            return Ok(plan);
        };
        self.check_unprotected(guest)?;
        let running = self.running(look, guest)?;
        let volume: Option<Volid> = old.get("file").and_then(|f| f.parse().ok());
        let keeps_data = volume
            .as_ref()
            .is_some_and(|v| v.owner() == Some(guest.vmid()))
            && (!pve::boot::is_cdrom(&old) || pve::boot::is_cloudinit(&old));
        let Some(volume) = volume.filter(|_| keeps_data) else {
            // A CD-ROM drive, a path, somebody else's volume: nothing is destroyed.
            let step = self.put(
                look,
                guest,
                running,
                &self.deletion(&self.disk),
                format!("remove {}", self.disk),
            );
            plan.push(step);
            return Ok(plan);
        };
        if old.key().family() == Family::Unused || pve::boot::is_cdrom(&old) {
            plan.push(self.destroy(guest, &self.disk, &volume));
            return Ok(plan);
        }
        let mut first = self.put(
            look,
            guest,
            running,
            &self.deletion(&self.disk),
            format!("detach {}", self.disk),
        );
        if running {
            first = first.disruptive();
        }
        let after = first.effects.iter().find_map(|e| match e {
            Effect::Put(_, v) => Some(v.clone()),
            Effect::Gone(_) => None,
        });
        let after = after.unwrap_or(Value::Null);
        let shown = volume.to_string();
        let unused = after["config"]
            .as_object()
            .into_iter()
            .flatten()
            .find(|(k, v)| k.starts_with("unused") && text(v) == shown)
            .map(|(k, _)| k.clone());
        match unused {
            // Two requests, so that the second destroys nothing but what has become unused by the first.
            Some(key) => {
                plan.push(first);
                plan.push(self.destroy(&Guest(&after), &key, &volume));
            }
            // It comes off at the next stop only; then the server destroys it itself.
            None => {
                let forced = Change {
                    force: true,
                    ..self.deletion(&self.disk)
                };
                let why = format!("remove {} with its volume {shown}", self.disk);
                let step = self.put(look, guest, running, &forced, why);
                plan.warnings.push(format!(
                    "guest {} runs: {} and its volume go when the guest lets go of it, at the latest when it stops",
                    guest.vmid(),
                    self.disk
                ));
                plan.push(step.disruptive().destructive());
            }
        }
        Ok(plan)
    }

    fn destroy(&self, guest: &Guest<'_>, key: &str, volume: &Volid) -> Step {
        let mut after = guest.0.clone();
        for part in ["config", "current"] {
            if let Some(o) = after[part].as_object_mut() {
                o.remove(key);
            }
        }
        after["digest"] = json!("");
        Step::new(
            Request::new("PUT", guest.path("/unlink"))
                .param("idlist", key)
                .param("force", 1),
            format!("destroy the volume {volume}"),
        )
        .destructive()
        .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), after))
        .effect(Effect::Gone(
            PveKey::Volume {
                node: guest.node().to_owned(),
                volid: volume.to_string(),
            }
            .key(),
        ))
    }

    pub(super) fn resized(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        let Some(old) = self.stored(guest)? else {
            return Err(self.missing(guest));
        };
        if is_state_volume(&old)
            || pve::boot::is_cdrom(&old)
            || old.key().family() == Family::Unused
        {
            return Err(self.refused(guest, "only disks on a bus have a size that can change"));
        }
        // What runs says the size: a change that waits for the next stop may carry an older one.
        let runs = guest
            .current()
            .get(&self.disk)
            .and_then(|v| PropString::parse(&self.disk, &text(v)).ok())
            .filter(|p| p.get("file") == old.get("file"));
        let have = match runs.as_ref().unwrap_or(&old).get_size("size") {
            Some(b) => Some(b),
            None => self.volume_bytes(look, guest, &old)?,
        };
        let Some(have) = have else {
            return Err(self.refused(
                guest,
                "its present size cannot be seen; let the server look (qm disk rescan)",
            ));
        };
        let want = match self.size {
            Some(Size::Bytes(b)) => b,
            Some(Size::More(b)) => have.saturating_add(b),
            None => have,
        };
        let as_wanted = want == have
            || same_size_rounded(want, have) && matches!(self.size, Some(Size::Bytes(_)));
        if as_wanted {
            if old.get_size("size").is_some_and(|b| b != have) {
                self.renew_pending(look, guest, &old, have, &mut plan)?;
            }
            return Ok(plan);
        }
        if want < have {
            return Err(self.refused(
                guest,
                format!(
                    "it has {}, and shrinking disks is not supported; make a new one of {} and copy",
                    format_size(have),
                    format_size(want)
                ),
            ));
        }
        let what = format!("{} guest {}", self.verb(), guest.vmid());
        crate::pve_drives::check_drives(look, guest, std::slice::from_ref(&old), &what)?;
        // The server pads the volume, and writes the size as it was asked for into the configuration (pve-storage, volume_resize;
        // qemu-server, resize_vm): what is asked for is what it makes of it, so that both say the same.
        let storage: Option<Volid> = old.get("file").and_then(|f| f.parse().ok());
        let kib = want.next_multiple_of(1024);
        let bytes = match &storage {
            Some(v) => self
                .storage_for_images(look, guest, v.storage())?
                .map_or(kib, |k| k.rounded(kib)),
            None => kib,
        };
        let mut after = guest.0.clone();
        after["digest"] = json!("");
        // The server writes the new size into what runs only (source: qemu-server, API2/Qemu.pm, resize_vm).
        let waits = guest.pending().contains_key(&self.disk);
        for part in ["config", "current"] {
            let Some(v) = after[part].get(&self.disk).map(text) else {
                continue;
            };
            if part == "config" && waits {
                continue;
            }
            if let Ok(mut p) = PropString::parse(&self.disk, &v)
                && p.get("file") == old.get("file")
                && p.set("size", &format_size(bytes)).is_ok()
            {
                after[part][&self.disk] = json!(p.print());
            }
        }
        let step = Step::new(
            Request::new("PUT", guest.path("/resize"))
                .param("disk", self.disk.clone())
                .param("size", format_size(bytes))
                .arg("digest", guest.digest()),
            format!(
                "grow {} from {} to {}",
                self.disk,
                format_size(have),
                format_size(bytes)
            ),
        )
        .wait(self.awaiting())
        .tolerate(Tolerance::Replan("checksum mismatch"))
        .effect(Effect::Put(
            PveKey::Guest(guest.vmid()).key(),
            after.clone(),
        ));
        plan.push(step);
        if waits && self.wait {
            self.renew_pending(look, &Guest(&after), &old, bytes, &mut plan)?;
        }
        Ok(plan)
    }

    /// Writes what waits for the next stop again, so that it does not bring back an old size: the server computes it anew.
    fn renew_pending(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        waiting: &PropString,
        bytes: u64,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        let mut stored = waiting.clone();
        stored
            .set("size", &format_size(bytes))
            .map_err(|e| self.plain(guest, e))?;
        let change = Change {
            set: vec![Setting {
                key: self.disk.clone(),
                sent: waiting.unset(&["size"]).print(),
                stored: stored.print(),
            }],
            ..Change::default()
        };
        let running = self.running(look, guest)?;
        let why = format!(
            "renew what of {} waits for the next stop, with its size",
            self.disk
        );
        let mut step = self.put(look, guest, running, &change, why);
        if !plan.steps.is_empty() {
            // The step before has changed the digest.
            step.request.params.retain(|(name, _)| name != "digest");
        }
        plan.push(step);
        Ok(())
    }

    fn volume_bytes(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        drive: &PropString,
    ) -> Result<Option<u64>, Stop> {
        let Some(v) = drive.get("file").filter(|f| f.contains(':')) else {
            return Ok(None);
        };
        let key = PveKey::Volume {
            node: guest.node().to_owned(),
            volid: v.to_owned(),
        };
        let f = look.aux(&key, &format!("size of {v}"))?;
        Ok(f.and_then(Fact::known).and_then(|v| v["size"].as_u64()))
    }

    pub(super) fn moved(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        if let Some(other) = self.target_vmid {
            return self.reassigned(look, guest, other);
        }
        let mut plan = Plan::empty();
        let Some(old) = self.stored(guest)? else {
            return Err(self.missing(guest));
        };
        let volume: Option<Volid> = old.get("file").and_then(|f| f.parse().ok());
        let Some(volume) = volume.filter(|_| !pve::boot::is_cdrom(&old)) else {
            return Err(self.refused(guest, "only a disk with a volume can be moved"));
        };
        if old.key().family() == Family::Unused {
            return Err(self.refused(
                guest,
                "an unused volume cannot be moved to another storage; attach it first",
            ));
        }
        let to = self.target_storage.as_deref().unwrap_or(volume.storage());
        let has = volume.format().unwrap_or("raw");
        let same_format = self.format.as_deref().is_none_or(|f| f == has);
        if to == volume.storage() && same_format {
            return Ok(plan);
        }
        self.check_nothing_waits(guest)?;
        let what = format!("{} guest {}", self.verb(), guest.vmid());
        crate::pve_drives::check_drives(look, guest, std::slice::from_ref(&old), &what)?;
        let kind = self.storage_for_images(look, guest, to)?;
        self.note_room(look, guest, to, &volume, old.get_size("size"))?;
        let format = self.format_moved(guest, kind, to, has)?;
        let mut request = Request::new("POST", guest.path("/move_disk"))
            .param("disk", self.disk.clone())
            .param("storage", to);
        if let Some(f) = &format {
            request = request.param("format", f.clone());
        }
        if let Some(d) = self.delete_moved {
            request = request.param("delete", u8::from(d));
        }
        if let Some(b) = self.bwlimit {
            request = request.param("bwlimit", b);
        }
        let file_format = kind
            .filter(Storage::is_file)
            .map(|_| format.as_deref().unwrap_or(has));
        let next = self
            .next_volume(look, guest, to, kind, file_format)?
            .map(|(v, _)| v);
        let mut after = guest.0.clone();
        after["digest"] = json!("");
        for part in ["config", "current", "pending"] {
            let Some(v) = after[part].get(&self.disk).map(text) else {
                continue;
            };
            let Ok(mut p) = PropString::parse(&self.disk, &v) else {
                continue;
            };
            if p.get("file") != old.get("file") {
                continue;
            }
            let name = next
                .as_ref()
                .map_or_else(|| plan::SERVER.to_owned(), Volid::to_string);
            p.set("file", &name).map_err(|e| self.plain(guest, e))?;
            if let (Some(b), Some(k)) = (p.get_size("size"), kind) {
                p.set("size", &format_size(k.rounded(b)))
                    .map_err(|e| self.plain(guest, e))?;
            }
            after[part][&self.disk] = json!(p.print());
        }
        if self.delete_moved != Some(true) {
            let merged: Map<String, Value> = [guest.config(), guest.current()]
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            if let Some(free) = pve::volume::free_unused(&merged) {
                for part in ["config", "current"] {
                    after[part][&free] = json!(volume.to_string());
                }
            }
        }
        let mut step = Step::new(
            request.arg("digest", guest.digest()),
            format!("move {} from {} to {to}", self.disk, volume.storage()),
        )
        .wait(self.awaiting())
        .tolerate(Tolerance::Replan("checksum mismatch"))
        .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), after));
        if self.delete_moved == Some(true) {
            step = step.effect(Effect::Gone(
                PveKey::Volume {
                    node: guest.node().to_owned(),
                    volid: volume.to_string(),
                }
                .key(),
            ));
        }
        plan.push(step);
        Ok(plan)
    }

    /// A change that waits for the next stop names the old volume, and would bring it back.
    fn check_nothing_waits(&self, guest: &Guest<'_>) -> Result<(), Stop> {
        match guest.pending().get(&self.disk) {
            Some(v) if !v.is_null() => Err(self.refused(
                guest,
                format!(
                    "a change of it waits for the next stop ({}) and would bring the old volume back; stop the guest first, or take the change back",
                    text(v)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The format that is sent: what was asked for; never VMware's own by default.
    fn format_moved(
        &self,
        guest: &Guest<'_>,
        kind: Option<Storage<'_>>,
        storage: &str,
        has: &str,
    ) -> Result<Option<String>, Stop> {
        let file = kind.is_none_or(|k| k.is_file());
        match self.format.as_deref() {
            Some(f) if !file && f != "raw" => Err(self.refused(
                guest,
                format!("storage {storage} keeps no disk of format {f}; leave the format out"),
            )),
            Some(f) => Ok(file.then(|| f.to_owned())),
            None if file && kind.is_some() && has == "vmdk" => Ok(Some("qcow2".to_owned())),
            None => Ok(None),
        }
    }

    /// The disk becomes another guest's.
    fn reassigned(&self, look: &Look<'_>, guest: &Guest<'_>, other: u32) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        let key = self.other_disk();
        let target = common::find_existing(look, &Target::Vmid(other), &self.verb())?;
        let there = target.text(&key);
        let Some(old) = self.stored(guest)? else {
            // Done by an earlier run, if the other guest has it.
            return match there {
                Some(_) => Ok(plan),
                None => Err(self.missing(guest)),
            };
        };
        let volume: Option<Volid> = old.get("file").and_then(|f| f.parse().ok());
        let Some(volume) = volume.filter(|_| !pve::boot::is_cdrom(&old)) else {
            return Err(self.refused(guest, "only a disk with a volume can be moved"));
        };
        if other == guest.vmid() && key == self.disk {
            return Ok(plan);
        }
        if let Some(t) = there {
            return Err(self.refused(
                guest,
                format!(
                    "guest {other} has a {key} already ({t}); name a free one with target_disk"
                ),
            ));
        }
        if target.node() != guest.node() {
            return Err(self.refused(
                guest,
                format!(
                    "guest {other} is on node {} and this one on {}; a disk is handed over on one node only, migrate one of them first",
                    target.node(),
                    guest.node()
                ),
            ));
        }
        // Source: qemu-server, API2/Qemu.pm, move_disk: `Cannot move disk of running VM`.
        if old.key().family() != Family::Unused && self.running(look, guest)? {
            return Err(self.refused(
                guest,
                "the guest runs, and hands over no disk that it uses; stop it first, or detach the disk",
            ));
        }
        self.check_nothing_waits(guest)?;
        self.check_unprotected(guest)?;
        let kind = self.storage_for_images(look, guest, volume.storage())?;
        let format = kind.filter(Storage::is_file).and_then(|_| volume.format());
        let next = match kind {
            Some(_) => self
                .next_volume(look, &target, volume.storage(), kind, format)?
                .map(|(v, _)| v),
            None => None,
        };
        let name = next.map_or_else(|| plan::SERVER.to_owned(), |v| v.to_string());
        let mut source_after = foresee::changed(guest, false, &self.deletion(&self.disk));
        let shown = volume.to_string();
        for part in ["config", "current"] {
            if let Some(o) = source_after[part].as_object_mut() {
                o.retain(|k, v| !(k.starts_with("unused") && text(v) == shown));
            }
        }
        let mut p = old.clone();
        p.set("file", &name).map_err(|e| self.plain(guest, e))?;
        // An unused volume has no options beside its name.
        let stored = match key.starts_with("unused") {
            true => name,
            false => p.print(),
        };
        let mut target_after = target.0.clone();
        target_after["digest"] = json!("");
        for part in ["config", "current"] {
            target_after[part][&key] = json!(stored);
        }
        let mut request = Request::new("POST", guest.path("/move_disk"))
            .param("disk", self.disk.clone())
            .param("target-vmid", other)
            .param("target-disk", key.clone())
            .arg("digest", guest.digest());
        request = request.arg("target-digest", target.digest());
        plan.push(
            Step::new(
                request,
                format!("hand {} over to guest {other} as {key}", self.disk),
            )
            .wait(self.awaiting())
            .tolerate(Tolerance::Replan("checksum mismatch"))
            .tolerate(Tolerance::Replan("modified by other user"))
            .effect(Effect::Put(PveKey::Guest(guest.vmid()).key(), source_after))
            .effect(Effect::Put(PveKey::Guest(other).key(), target_after)),
        );
        Ok(plan)
    }
}
