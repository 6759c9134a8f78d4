//! What a task shows and returns.

use super::desired::{Shell, State};
use crate::pve_common::{self as common, Guest, Target, text};
use crate::pve_foresee as foresee;
use plan::{Facts, Outcome, SERVER};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Entries of a configuration that come and go by themselves.
const PASSING: &[&str] = &["digest", "lock", "vmstate", "runningmachine", "runningcpu"];

/// `running`, `stopped` or `paused`, if it was looked at.
fn status_in(facts: &Facts, vmid: u32) -> Option<String> {
    let s = facts.known(PveKey::GuestStatus(vmid).key())?;
    match s["qmpstatus"].as_str() {
        Some("paused") => Some("paused".to_owned()),
        _ => s["status"].as_str().map(str::to_owned),
    }
}

impl Shell {
    /// The diff's dictionary: what the server chooses is masked, the same in both worlds.
    pub(super) fn shown(&self, facts: &Facts) -> Value {
        let Some((vmid, guest)) = self
            .vmid_in(facts)
            .and_then(|v| Some((v, common::guest_of(facts, v)?)))
        else {
            return json!({});
        };
        let mut v = Map::new();
        v.insert("vmid".into(), json!(vmid));
        v.insert("node".into(), json!(guest.node()));
        if let Some(s) = status_in(facts, vmid) {
            v.insert("status".into(), json!(s));
        }
        if guest.is_template() {
            v.insert("template".into(), json!(true));
        }
        v.insert("config".into(), self.shown_config(&guest));
        Value::Object(v)
    }

    fn shown_config(&self, guest: &Guest<'_>) -> Value {
        let mut out: BTreeMap<String, Value> = guest
            .config()
            .iter()
            .filter(|(k, _)| !PASSING.contains(&k.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let mut mask = |key: &str| {
            if let Some(v) = out.get_mut(key) {
                *v = json!(SERVER);
            }
        };
        mask("meta");
        if self.want.get("vmgenid").is_none_or(|w| w == "1") {
            mask("vmgenid");
        }
        if let Some(v) = out.get_mut("cipassword") {
            *v = json!(plan::MASKED);
        }
        let gives_uuid = self
            .want
            .get("smbios1")
            .and_then(|s| pve::parse("smbios1", s).ok())
            .is_some_and(|p| p.get("uuid").is_some());
        if !gives_uuid
            && let Some(v) = out.get_mut("smbios1")
            && let Ok(mut p) = pve::parse("smbios1", &text(v))
            && p.get("uuid").is_some()
            && p.set("uuid", SERVER).is_ok()
        {
            *v = json!(p.print());
        }
        let pinned = |m: &String| m.contains("pc-q35-") || m.contains("pc-i440fx-");
        let windows = out.get("ostype").is_some_and(|o| text(o).starts_with('w'));
        if windows
            && !self.want.get("machine").is_some_and(pinned)
            && let Some(v) = out.get_mut("machine")
        {
            *v = json!(foresee::mask_machine(&text(v)));
        }
        Value::Object(out.into_iter().collect())
    }

    /// The module's own result keys.
    pub(super) fn results(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let vmid = self.vmid_in(o.after).or_else(|| self.vmid_in(o.before));
        let before = vmid.and_then(|v| common::guest_of(o.before, v));
        let after = vmid.and_then(|v| common::guest_of(o.after, v));
        let known = after.or(before);
        let name = after
            .or(before)
            .and_then(|g| g.name())
            .or_else(|| self.name.clone());
        let config = after.map(|g| g.config().clone()).unwrap_or_default();
        let mut mac = Map::new();
        for nic in pve::config::nics(&config) {
            if let Some(m) = nic.get("macaddr") {
                mac.insert(nic.key().as_str().to_owned(), json!(m));
            }
        }
        let mut devices = Map::new();
        for drive in pve::config::drives(&config) {
            if let Some(f) = drive.get("file").filter(|f| f.contains(':')) {
                devices.insert(drive.key().as_str().to_owned(), json!(f));
            }
        }
        let pending = after.map(|g| foresee::pending_of(&g)).unwrap_or_default();
        let status = vmid
            .filter(|_| after.is_some())
            .and_then(|v| status_in(o.after, v));
        let mut shown: Map<String, Value> = config;
        shown.retain(|k, _| !PASSING.contains(&k.as_str()));
        if let Some(v) = shown.get_mut("cipassword") {
            *v = json!(plan::MASKED);
        }
        let mut r = Map::new();
        r.insert(
            "msg".into(),
            json!(self.message(o, vmid, name.as_deref(), before, status.as_deref())),
        );
        r.insert("vmid".into(), json!(vmid));
        r.insert("name".into(), json!(name));
        r.insert("node".into(), json!(known.map(|g| g.node().to_owned())));
        r.insert("status".into(), json!(status));
        r.insert("uuid".into(), json!(after.and_then(|g| g.uuid())));
        r.insert("mac".into(), Value::Object(mac));
        r.insert("devices".into(), Value::Object(devices));
        r.insert("config".into(), Value::Object(shown));
        r.insert("restart_required".into(), json!(!pending.is_empty()));
        r.insert("pending".into(), Value::Object(pending));
        r
    }

    /// In the peer's words (docs/peers-proxmox.md, section 2.2), since people test for them.
    fn message(
        &self,
        o: &Outcome<'_>,
        vmid: Option<u32>,
        name: Option<&str>,
        before: Option<Guest<'_>>,
        status: Option<&str>,
    ) -> String {
        let id = vmid.map_or_else(|| "?".to_owned(), |v| v.to_string());
        let called = name.map_or_else(|| id.clone(), str::to_owned);
        let by_name = |t: &Target| match t {
            Target::Name(n) => Some(n.clone()),
            Target::Vmid(_) => None,
        };
        match (self.state, o.changed) {
            (State::Present, true) if self.migrate => {
                let from = before.map_or(String::new(), |g| g.node().to_owned());
                format!(
                    "VM {id} has been migrated from {from} to {}",
                    self.node.as_deref().unwrap_or_default()
                )
            }
            (State::Present, false) if self.migrate => {
                format!(
                    "VM {id} is already on {}",
                    before.map_or(String::new(), |g| g.node().to_owned())
                )
            }
            (State::Present, true) if before.is_none() => match &self.clone {
                Some(c) => format!(
                    "VM {called} with newid {id} cloned from vm with vmid {}",
                    common::resolve(o.before, &c.source)
                        .map_or_else(|| "?".to_owned(), |v| v.to_string())
                ),
                None => format!("VM {called} with vmid {id} deployed"),
            },
            (State::Present, true) if !self.revert.is_empty() && self.want.is_empty() => {
                format!("Settings has reverted on VM {called} with vmid {id}")
            }
            (State::Present, true) if self.said_delete && self.want.is_empty() => {
                format!("Settings has deleted on VM {called} with vmid {id}")
            }
            (State::Present, true) => format!("VM {called} with vmid {id} updated"),
            (State::Present, false) => match (by_name(&self.target), &self.clone) {
                (_, Some(_)) => format!("vmid {id} with VM name {called} already exists"),
                (Some(n), None) => format!("VM with name <{n}> already exists"),
                (None, None) => format!("VM with vmid <{id}> already exists"),
            },
            (State::Absent, true) => format!("VM {id} removed"),
            (State::Absent, false) => match by_name(&self.target) {
                Some(n) => format!("VM with name = {n} is already absent"),
                None => format!("VM {id} is already absent"),
            },
            (State::Started, true) => format!("VM {id} started"),
            (State::Started, false) => format!("VM {id} is already running"),
            (State::Stopped, true) => format!("VM {id} is shutting down"),
            (State::Stopped, false) => format!("VM {id} is already stopped"),
            (State::Restarted, true) => format!("VM {id} is restarted"),
            (State::Restarted, false) => format!("VM {id} is not running"),
            (State::Template, true) => format!("VM {id} is converting to template"),
            (State::Template, false) => format!("VM {id} is already a template"),
            (State::Paused, true) => format!("VM {id} is pausing"),
            (State::Paused, false) => format!("VM {id} is already paused"),
            (State::Hibernated, true) => format!("VM {id} is hibernating"),
            (State::Hibernated, false) => format!("VM {id} is already hibernated"),
            (State::Current, _) => format!(
                "VM {called} with vmid = {id} is {}",
                status.unwrap_or("unknown")
            ),
        }
    }
}
