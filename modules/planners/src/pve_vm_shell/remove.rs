//! A guest that shall be gone.

use super::desired::Shell;
use crate::look::{Look, Stop};
use crate::pve_common::{self as common, text};
use plan::{Await, Effect, Fact, Plan, Refusal, Request, Step};
use pve::keys::PveKey;
use serde_json::{Value, json};

impl Shell {
    /// Stops (with `force`) and removes it; all that the server would refuse is refused before anything is stopped.
    pub(super) fn remove(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let Some(guest) = common::find(look, &self.target, self.verb())? else {
            return Ok(Plan::empty());
        };
        common::check_guard(&guest, self.guard.as_deref(), self.verb())?;
        let vmid = guest.vmid();
        let no = |why: String| -> Stop {
            Refusal::new(format!("unable to remove guest {vmid}: {why}")).into()
        };
        if guest.config().get("protection").map(text).as_deref() == Some("1") {
            return Err(no(
                "its protection is on; set protection=false first".to_owned()
            ));
        }
        let replication = PveKey::Replication(vmid);
        look.want(&[PveKey::GuestStatus(vmid), replication.clone()])?;
        let status = common::status(look, vmid, self.verb())?;
        let managed =
            status["ha"]["managed"].as_u64() == Some(1) || status["ha"]["managed"] == true;
        if managed && !self.purge {
            return Err(no(
                "it is an HA resource; give purge=true to remove it from HA too".to_owned(),
            ));
        }
        let jobs = look.aux(&replication, "whether it is replicated")?;
        let jobs = jobs
            .and_then(Fact::known)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        if jobs > 0 && !self.purge {
            return Err(no(format!(
                "it has {jobs} replication jobs; remove them first, or give purge=true"
            )));
        }
        let mut steps = Vec::new();
        if common::is_running(status) {
            if !self.force {
                return Err(no(
                    "VM is running. Stop it before deletion or use force=true".to_owned(),
                ));
            }
            steps.push(self.shut_down(&guest, status)?);
        }
        let mut request = Request::new("DELETE", guest.path(""));
        for (name, on) in [
            ("purge", self.purge),
            ("destroy-unreferenced-disks", self.destroy_unreferenced),
        ] {
            if on {
                request = request.param(name, "1");
            }
        }
        steps.push(
            Step::new(request, format!("remove guest {vmid} and its disks"))
                .wait(Await::Task {
                    timeout_s: self.timeout_s,
                })
                .effect(Effect::Gone(PveKey::Guest(vmid).key()))
                .effect(Effect::Gone(PveKey::GuestStatus(vmid).key()))
                // The server drops its entries, and with it those of its pool (source: pve-access-control, `remove_vm_access`).
                .effect(Effect::Put(
                    PveKey::AclPath(format!("/vms/{vmid}")).key(),
                    json!([]),
                ))
                .destructive(),
        );
        self.finish(look, &guest, steps)
    }
}
