//! `DELETE /nodes/{node}/qemu/{vmid}`.
use super::conf;
use super::perms;
use super::read::own_volumes;
use super::work::{self, FileLock, Work};
use super::{disks, load_guest, volume_owner};
use crate::pve::storage;
use crate::pve::{Call, Lab, PveError, State};
use serde_json::{Value, json};
use std::sync::Arc;

/// The handler. A lock fails the task only; running, protected or HA-managed guests are refused at once.
pub fn destroy(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    let (purge, unreferenced) = (call.flag("purge"), call.flag("destroy-unreferenced-disks"));
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    let vmid = g.vmid;
    if conf::is_on(&g.config, "protection") {
        return Err(PveError::die(format!(
            "can't remove VM {vmid} - protection mode enabled"
        )));
    }
    if !purge && lab.st().ha.contains_key(&format!("vm:{vmid}")) {
        return Err(PveError::die(format!(
            "unable to remove VM {vmid} - used in HA resources and purge parameter not set."
        )));
    }
    // Source: qemu-server API2/Qemu.pm `destroy_vm`, pve-guest-common ReplicationConfig.pm `check_for_existing_jobs`.
    if !purge && let Some(job) = replicated(&lab.st(), vmid) {
        return Err(PveError::die(format!(
            "There is a replication job '{job}' for guest '{vmid}' - Please remove that first."
        )));
    }
    if g.run.is_some() {
        return Err(PveError::die(format!(
            "VM {vmid} is running - destroy failed"
        )));
    }
    let upid = work::start(lab, &g.node, "qmdestroy", vmid, &call.auth, move |work| {
        work.pause("qmdestroy")?;
        let _lock = FileLock::take(work.lab, vmid)?;
        let g = work.guest()?;
        if !skiplock {
            g.check_lock()?;
        }
        if g.run.is_some() {
            return Err(PveError::die(format!(
                "VM {vmid} is running - destroy failed"
            )));
        }
        destroy_volumes(work, unreferenced)?;
        if purge {
            work.log(format!("purging VM {vmid} from related configurations.."));
        }
        let mut st = work.lab.st();
        if purge {
            st.ha.remove(&format!("vm:{vmid}"));
            st.replication.retain(|j| j["guest"] != vmid);
        }
        st.guests.remove(&vmid);
        st.forget_guest(vmid);
        Ok(())
    });
    Ok(json!(upid))
}

/// The first replication job of the guest.
fn replicated(st: &State, vmid: u32) -> Option<String> {
    let job = st.replication.iter().find(|j| j["guest"] == vmid)?;
    Some(job["id"].as_str().unwrap_or_default().to_owned())
}

/// Destroys the volumes that the guest owns and names; with `unreferenced` also those that nobody names.
fn destroy_volumes(work: &Work, unreferenced: bool) -> Result<(), PveError> {
    let g = work.guest()?;
    let own: Vec<String> = own_volumes(&g)
        .into_iter()
        .map(|(_, volid)| volid)
        .collect();
    {
        let st = work.lab.st();
        for base in own.iter().filter(|v| v.contains("base-")) {
            let used = st.guests.values().filter(|o| o.vmid != g.vmid).any(|o| {
                conf::used_volumes(&o.config)
                    .iter()
                    .any(|v| v.starts_with(&format!("{base}/")))
            });
            if used {
                return Err(PveError::die(format!(
                    "base volume '{base}' is still in use by linked cloned"
                )));
            }
        }
    }
    for volid in own {
        if let Err(e) = storage::free_volume(&work.lab.st(), &work.node, &volid) {
            work.log(format!(
                "Could not remove disk '{volid}', check manually: {}",
                e.message
            ));
        }
    }
    if !unreferenced {
        return Ok(());
    }
    let others = {
        let st = work.lab.st();
        let usable = st.storages.values().filter(|s| {
            s.content.iter().any(|c| c == "images")
                && storage::usable(&st, &s.id, &work.node).is_ok()
        });
        usable
            .flat_map(|s| disks::images_of(&st, &work.node, &s.id, work.vmid))
            .collect::<Vec<String>>()
    };
    for volid in others.iter().filter(|v| volume_owner(v) == Some(work.vmid)) {
        work.log(format!("Removing image: {volid}"));
        if let Err(e) = storage::free_volume(&work.lab.st(), &work.node, volid) {
            work.log(format!(
                "Could not remove disk '{volid}', check manually: {}",
                e.message
            ));
        }
    }
    Ok(())
}
