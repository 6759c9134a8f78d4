//! state=present: a missing disk is made, imported or attached; one that is there converges and keeps its data.

use super::source::{Source, Storage};
use super::{Create, Disk, Size, is_state_volume};
use crate::look::{Look, Stop};
use crate::pve_common::Guest;
use crate::pve_foresee::{Change, Setting};
use crate::pve_write;
use plan::{Effect, Fact, Plan, Request, Step, Tolerance};
use pve::keys::PveKey;
use pve::size::{format_size, same_size_rounded};
use pve::{Family, PropString, Volid};
use serde_json::{Value, json};

impl Disk {
    pub(super) fn present(&self, look: &Look<'_>, guest: &Guest<'_>) -> Result<Plan, Stop> {
        match self.stored(guest)? {
            Some(old) if self.create != Create::Forced => self.converge(look, guest, &old),
            None if self.create == Create::Disabled => Ok(Plan::empty()),
            old => self.make(look, guest, old.as_ref()),
        }
    }

    fn converge(&self, look: &Look<'_>, guest: &Guest<'_>, old: &PropString) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        self.compare_data(look, guest, old, &mut plan)?;
        let mut new = old.merge(&self.named).unset(&self.unset);
        if let Some(iso) = &self.iso_image
            && old.get("file") != Some(iso)
        {
            if !pve::boot::is_cdrom(old) {
                return Err(self.refused(
                    guest,
                    "it is a disk and not a CD-ROM drive; detach it first, or choose another",
                ));
            }
            new.remove("size");
            new.set("file", iso).map_err(|e| self.plain(guest, e))?;
            if let Some(bytes) = self.iso_bytes(look, guest, iso)? {
                new.set("size", &format_size(bytes))
                    .map_err(|e| self.plain(guest, e))?;
            }
        }
        if old.same_as(&new) {
            return Ok(plan);
        }
        if old.key().family() == Family::Unused {
            return Err(self.refused(guest, "an unused volume has no options; attach it first"));
        }
        if new.get("media") != old.get("media")
            && pve::boot::is_cdrom(&new) != pve::boot::is_cdrom(old)
        {
            return Err(self.refused(
                guest,
                "a disk does not become a CD-ROM drive nor the other way; detach it first",
            ));
        }
        if let Err(pve::PropError::Invalid { option, problems }) = new.check() {
            // What is stored already is the server's own business.
            let mine: Vec<_> = problems
                .into_iter()
                .filter(|p| self.named.get(&p.name).is_some())
                .collect();
            if !mine.is_empty() {
                return Err(self.plain(
                    guest,
                    pve::PropError::Invalid {
                        option,
                        problems: mine,
                    },
                ));
            }
        }
        if new.get("file") == old.get("file")
            && let Some(why) = crate::pve_drives::gone(look, guest, old)?
        {
            return Err(self.refused(guest, why));
        }
        let running = self.running(look, guest)?;
        let why = pve_write::why_changed(&self.disk, &old.print(), &new.print());
        let setting = Setting {
            key: self.disk.clone(),
            // The server computes the size itself; an old one must not come back with a pending change.
            sent: new.unset(&["size"]).print(),
            stored: new.print(),
        };
        let change = Change {
            set: vec![setting],
            ..Change::default()
        };
        plan.push(self.put(look, guest, running, &change, why));
        Ok(plan)
    }

    /// What is there and will not be mended: data is never made anew, sizes and places are other states' business.
    fn compare_data(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        old: &PropString,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        let file = old.get("file").unwrap_or_default();
        let volume: Option<Volid> = file.parse().ok();
        let have = old.get_size("size");
        let source = match (&self.import_from, &self.attach_from) {
            (Some(Source::Volume(v)), _) => Some(v),
            (None, Some(v)) if v.to_string() != file => Some(v),
            _ => None,
        };
        let mut source_bytes = self.source_bytes;
        if let (None, Some(v)) = (source_bytes, source) {
            let key = PveKey::Volume {
                node: guest.node().to_owned(),
                volid: v.to_string(),
            };
            // The source may be gone by now: that is no fault of the disk that is there.
            source_bytes = look
                .aux(&key, &format!("size of the source {v}"))?
                .and_then(Fact::known)
                .and_then(|v| v["size"].as_u64());
        }
        let from_source = self.import_from.is_some() || source.is_some();
        if let (true, Some(want), Some(have)) = (from_source, source_bytes, have)
            && !same_size_rounded(want, have)
        {
            return Err(self.refused(
                guest,
                format!(
                    "there is a disk of {have} bytes already ({file}), and the source has {want} bytes; data is never imported over a disk: look what it is, and detach it first, or give `create: forced`, or leave the source out"
                ),
            ));
        }
        if let (None, Some(v)) = (&self.import_from, source) {
            plan.drift.push(json!({"option": "attach_from", "wanted": v.to_string(), "found": file, "mended_by": "state: detached, then attach_from"}));
        }
        if is_state_volume(old) || pve::boot::is_cdrom(old) {
            return Ok(());
        }
        if let (Some(Size::Bytes(want)), Some(have)) = (self.size, have)
            && !same_size_rounded(want, have)
        {
            let by = match want > have {
                true => "state: resized",
                false => "nothing: disks cannot shrink",
            };
            plan.drift.push(json!({"option": "size", "wanted": format_size(want), "found": format_size(have), "mended_by": by}));
        }
        let Some(v) = volume else { return Ok(()) };
        if let Some(s) = self.storage.as_deref().filter(|s| *s != v.storage()) {
            plan.drift.push(json!({"option": "storage", "wanted": s, "found": v.storage(), "mended_by": "state: moved with target_storage"}));
        }
        let format = v.format().unwrap_or("raw");
        if let Some(f) = self.format.as_deref().filter(|f| *f != format) {
            plan.drift.push(json!({"option": "format", "wanted": f, "found": format, "mended_by": "state: moved with format"}));
        }
        Ok(())
    }

    fn make(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        old: Option<&PropString>,
    ) -> Result<Plan, Stop> {
        if self.named.key().family() == Family::Unused {
            return Err(self.refused(
                guest,
                "an unused volume is not made; it comes from detaching a disk",
            ));
        }
        if old.is_some() {
            self.check_unprotected(guest)?;
        }
        let drive = self.named.unset(&self.unset);
        let mut plan = Plan::empty();
        if let Some(v) = &self.attach_from {
            self.attach(look, guest, drive, v, &mut plan)?;
        } else if let Some(iso) = &self.iso_image {
            self.cdrom(look, guest, drive, iso, &mut plan)?;
        } else {
            self.allocate(look, guest, drive, &mut plan)?;
        }
        if old.is_some() {
            for s in &mut plan.steps {
                s.disruptive = true;
            }
        }
        Ok(plan)
    }

    fn attach(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        mut drive: PropString,
        volume: &Volid,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        let shown = volume.to_string();
        if shown.contains(char::is_whitespace) {
            return Err(self.refused(
                guest,
                format!("the volume {shown} has white space in its name, which the server refuses; describe it with vmdk_descriptor under a plain name"),
            ));
        }
        match volume.owner() {
            Some(o) if o == guest.vmid() => {}
            Some(o) => {
                return Err(self.refused(
                    guest,
                    format!("the volume {shown} is that of guest {o}; attach it there, or move it with `target_vmid`"),
                ));
            }
            None => {
                return Err(self.refused(
                    guest,
                    format!("{shown} is no volume of a guest; import it with import_from"),
                ));
            }
        }
        let elsewhere = pve::config::drives(guest.config()).into_iter().find(|d| {
            d.get("file") == Some(&shown)
                && d.key().family() != Family::Unused
                && d.key().as_str() != self.disk
        });
        if let Some(other) = elsewhere {
            return Err(self.refused(
                guest,
                format!(
                    "the volume {shown} is its {} already; detach that first",
                    other.key().as_str()
                ),
            ));
        }
        let bytes = self.look_at(look, guest, volume)?;
        drive
            .set("file", &shown)
            .map_err(|e| self.plain(guest, e))?;
        let setting = self.setting(guest, &drive, drive.print(), bytes)?;
        let change = Change {
            set: vec![setting],
            ..Change::default()
        };
        let running = self.running(look, guest)?;
        plan.push(self.put(
            look,
            guest,
            running,
            &change,
            format!("attach {shown} as {}, without copying", self.disk),
        ));
        Ok(())
    }

    fn cdrom(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        mut drive: PropString,
        iso: &str,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        drive.set("file", iso).map_err(|e| self.plain(guest, e))?;
        let bytes = self.iso_bytes(look, guest, iso)?;
        let setting = self.setting(guest, &drive, drive.print(), bytes)?;
        let change = Change {
            set: vec![setting],
            ..Change::default()
        };
        let running = self.running(look, guest)?;
        plan.push(self.put(
            look,
            guest,
            running,
            &change,
            format!("add the CD-ROM drive {} with {iso}", self.disk),
        ));
        Ok(())
    }

    /// Size of an ISO image; refuses one that is not there.
    fn iso_bytes(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        iso: &str,
    ) -> Result<Option<u64>, Stop> {
        if iso == "none" || iso == "cdrom" {
            return Ok(None);
        }
        let Ok(volid) = iso.parse::<Volid>() else {
            return Err(self.refused(
                guest,
                format!("{iso} is no volume id; give `<storage>:iso/<file>`, none or cdrom"),
            ));
        };
        if volid.content() != Some("iso") {
            return Err(self.refused(
                guest,
                format!("{iso} is no ISO image; give `<storage>:iso/<file>`"),
            ));
        }
        let key = PveKey::Volumes {
            node: guest.node().to_owned(),
            storage: volid.storage().to_owned(),
            content: "iso".to_owned(),
            vmid: None,
        };
        let Some(f) = look.aux(&key, &format!("whether {iso} is there"))? else {
            return Ok(None);
        };
        let list = f.known().and_then(Value::as_array);
        match list.into_iter().flatten().find(|v| v["volid"] == iso) {
            Some(v) => Ok(v["size"].as_u64()),
            None => Err(plan::Refusal::kind(
                plan::ErrorKind::NotFound,
                format!(
                    "unable to {} guest {}: {iso} is not on storage {} of node {}; upload it, or correct the name",
                    self.verb(),
                    guest.vmid(),
                    volid.storage(),
                    guest.node()
                ),
            )
            .into()),
        }
    }

    /// A new volume, empty or imported.
    fn allocate(
        &self,
        look: &Look<'_>,
        guest: &Guest<'_>,
        mut drive: PropString,
        plan: &mut Plan,
    ) -> Result<(), Stop> {
        let Some(storage) = self.storage.clone() else {
            return Err(self.refused(
                guest,
                "it is missing, and a new one needs `storage` and `size`, or `import_from`, `attach_from` or `iso_image`; give these",
            ));
        };
        let source_text = self.import_from.as_ref().map(|s| match s {
            Source::Volume(v) => v.to_string(),
            Source::Path(p) => p.clone(),
        });
        let new = match (&source_text, self.size) {
            (Some(_), _) => format!("{storage}:0"),
            (None, Some(Size::Bytes(b))) => format!("{storage}:{}", gib(b)),
            (None, _) => {
                return Err(self.refused(
                    guest,
                    "it is missing, and a new one needs `size`, or `import_from`; give one of them",
                ));
            }
        };
        if is_state_volume(&drive) && source_text.is_none() {
            return Err(self.refused(
                guest,
                format!(
                    "a new {} needs a type and keys; make it with pve_vm_shell",
                    self.disk
                ),
            ));
        }
        let kind = self.storage_for_images(look, guest, &storage)?;
        let format = self.format_on(guest, kind, &storage, source_text.is_some())?;
        let wanted = match &self.import_from {
            Some(s) => self.check_source(look, guest, s)?,
            None => match self.size {
                Some(Size::Bytes(b)) => Some(b),
                _ => None,
            },
        };
        if let Some(Source::Volume(v)) = &self.import_from {
            self.note_room(look, guest, &storage, v, wanted)?;
        }
        let bytes = wanted.map(|b| kind.map_or(b, |k| k.rounded(b)));
        if wanted.is_none() {
            look.note(format!("size of {}: that of the source", self.disk));
        }
        let mut sent = drive.clone();
        let mut put = |name: &str, value: &str| sent.set(name, value);
        put("file", &new)
            .and_then(|()| format.as_deref().map_or(Ok(()), |f| put("format", f)))
            .and_then(|()| {
                source_text
                    .as_deref()
                    .map_or(Ok(()), |s| put("import-from", s))
            })
            .map_err(|e| self.plain(guest, e))?;
        let next = self.next_volume(look, guest, &storage, kind, format.as_deref())?;
        let (volume, strays) = next.map_or((None, vec![]), |(v, s)| (Some(v), s));
        for v in strays {
            plan.warnings.push(format!(
                "volume {v} is of guest {} but none of its disks; if it is what is wanted, attach it with attach_from",
                guest.vmid()
            ));
        }
        let file = volume
            .as_ref()
            .map_or_else(|| plan::SERVER.to_owned(), Volid::to_string);
        drive.set("file", &file).map_err(|e| self.plain(guest, e))?;
        let setting = self.setting(guest, &drive, sent.print(), bytes)?;
        let running = self.running(look, guest)?;
        let change = Change {
            set: vec![setting],
            ..Change::default()
        };
        let why = match &source_text {
            Some(s) => format!("import {s} as {} onto {storage}", self.disk),
            None => format!("make {} on {storage}", self.disk),
        };
        let mut request =
            pve_write::with_settings(Request::new("POST", guest.path("/config")), &change);
        if let Some(w) = &self.working_storage {
            request = request.param("import-working-storage", w.clone());
        }
        let mut step = Step::new(request.arg("digest", guest.digest()), why)
            .wait(self.awaiting())
            .tolerate(Tolerance::Replan("checksum mismatch"));
        if running {
            step = step.tolerate(Tolerance::StoredAllTheSame("hotplug problem - "));
        }
        step = step.effect(Effect::Put(
            PveKey::Guest(guest.vmid()).key(),
            pve_write::foreseen(look, guest, running, &change),
        ));
        plan.push(step);
        Ok(())
    }

    /// The format that is sent: always where volumes are files, since the server would keep the source's; none elsewhere.
    fn format_on(
        &self,
        guest: &Guest<'_>,
        kind: Option<Storage<'_>>,
        storage: &str,
        import: bool,
    ) -> Result<Option<String>, Stop> {
        let Some(kind) = kind else {
            return Ok(self.format.clone());
        };
        if kind.is_file() {
            let default = match (kind.kind(), import) {
                ("btrfs", _) | (_, false) => "raw",
                (_, true) => "qcow2",
            };
            let format = self.format.as_deref().unwrap_or(default);
            if !["raw", "qcow2", "vmdk"].contains(&format) {
                return Err(self.refused(
                    guest,
                    format!("storage {storage} makes no disk of format {format}; give raw, qcow2 or vmdk"),
                ));
            }
            return Ok(Some(format.to_owned()));
        }
        match self.format.as_deref() {
            // LVM can hold qcow2 since PVE 9 (snapshots as a chain of volumes).
            Some(f) if f != "raw" && !(kind.kind() == "lvm" && f == "qcow2") => Err(self.refused(
                guest,
                format!(
                    "storage {storage} ({}) keeps no disk of format {f}; leave the format out",
                    kind.kind()
                ),
            )),
            f => Ok(f.filter(|f| *f != "raw").map(str::to_owned)),
        }
    }

    /// What is sent, and how the server stores it.
    fn setting(
        &self,
        guest: &Guest<'_>,
        drive: &PropString,
        sent: String,
        bytes: Option<u64>,
    ) -> Result<Setting, Stop> {
        let mut stored = drive.clone();
        if let Some(b) = bytes {
            stored
                .set("size", &format_size(b))
                .map_err(|e| self.plain(guest, e))?;
        }
        Ok(Setting {
            key: self.disk.clone(),
            sent,
            stored: stored.print(),
        })
    }
}

/// GiB as the server reads them, exact to the KiB.
fn gib(bytes: u64) -> String {
    let exact = bytes as f64 / f64::from(1u32 << 30);
    // The shortest text of which the server makes these bytes; a rounded one could be a KiB more.
    let texts = (0..12).map(|digits| format!("{exact:.digits$}"));
    texts
        .into_iter()
        .find(|t| {
            t.parse()
                .is_ok_and(|g| pve::size::new_disk_bytes(g) == bytes)
        })
        .unwrap_or_else(|| exact.to_string())
}
