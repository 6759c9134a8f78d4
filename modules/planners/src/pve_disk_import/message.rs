//! What is said of a run: the peer's wording.

use super::{Create, Disk, State};
use crate::pve_common::{self as common, Guest};
use plan::Outcome;
use pve::PropString;
use pve::size::format_size;

impl Disk {
    /// The peer's wording.
    pub(super) fn message(&self, o: &Outcome<'_>, before: Option<&Guest<'_>>) -> String {
        let vmid = common::resolve(o.after, &self.target)
            .map_or_else(|| self.target.to_string(), |v| v.to_string());
        let d = &self.disk;
        let was = before.is_some_and(|g| g.config().contains_key(d));
        if o.changed && !self.wait && self.state != State::Detached {
            return format!("Disk {d} in VM {vmid}: the server's task was started");
        }
        match (self.state, o.changed) {
            (State::Present, false) if !was => {
                format!("Disk {d} not found in VM {vmid} and creation was disabled in parameters.")
            }
            (State::Present, false) => format!("Disk {d} is up to date in VM {vmid}"),
            (State::Present, true) if was && self.create != Create::Forced => {
                format!("Disk {d} updated in VM {vmid}")
            }
            (State::Present, true) if self.import_from.is_some() => {
                format!("Disk {d} imported into VM {vmid}")
            }
            (State::Present, true) if self.iso_image.is_some() => {
                format!("CD-ROM was created on {d} bus in VM {vmid}")
            }
            (State::Present, true) if self.attach_from.is_some() => {
                format!("Disk {d} attached in VM {vmid}")
            }
            (State::Present, true) => format!("Disk {d} created in VM {vmid}"),
            (State::Absent, true) => format!("Disk {d} removed from VM {vmid}"),
            (State::Absent, false) => format!("Disk {d} is already absent in VM {vmid}"),
            (State::Detached, true) => format!("Disk {d} detached from VM {vmid}"),
            (State::Detached, false) if was => format!("Disk {d} already detached in VM {vmid}"),
            (State::Detached, false) => format!("Disk {d} not present in VM {vmid} config"),
            (State::Resized, true) => format!("Disk {d} resized in VM {vmid}"),
            (State::Resized, false) => {
                let size = before
                    .and_then(|g| g.text(d))
                    .and_then(|s| PropString::parse(d, &s).ok()?.get_size("size"))
                    .map_or_else(String::new, format_size);
                format!("Disk {d} is already {size} size in VM {vmid}")
            }
            (State::Moved, true) => match self.target_vmid {
                Some(t) => format!("Disk {d} moved from VM {vmid} to VM {t}"),
                None => format!(
                    "Disk {d} moved from VM {vmid} storage {}",
                    self.target_storage.as_deref().unwrap_or("")
                ),
            },
            (State::Moved, false) => match (self.target_vmid, &self.target_storage) {
                (Some(t), _) => format!("Disk {d} is already in VM {t}"),
                (None, Some(s)) => format!("Disk {d} already at {s} storage in VM {vmid}"),
                (None, None) => format!("Disk {d} has that format already in VM {vmid}"),
            },
        }
    }
}
