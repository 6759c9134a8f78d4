//! Facts that are answers to a question with arguments: what the server would do, or would refuse. Nothing is changed by asking.

use crate::error::{CallError, Fault};
use crate::live::Live;
use crate::soap::Call;
use plan::{ErrorKind, Fact, Failure};
use serde_json::{Value, json};
use vsphere::keys::VcKey;
use vsphere::value::{class, int, list, moid, moid_at, text};

/// A check looks at one machine and some hosts; longer than this a server does not think.
const CHECK_S: u64 = 120;

/// Faults that say that this server or this user cannot ask, not that the relocation is bad.
const CANNOT_ASK: &[&str] = &[
    "NoPermission",
    "MethodNotFound",
    "ManagedObjectNotFound",
    "NotSupported",
    "NotImplemented",
    "NotEnoughLicenses",
    "RestrictedVersion",
];

impl Live {
    /// StorageResourceManager.RecommendDatastores for a relocation. Migrations of others are not asked for (`disallowPrerequisiteMoves`).
    /// Source: vSphere Web Services API, StoragePlacementSpec; terraform-provider-vsphere asks likewise.
    pub(crate) fn placement(&mut self, vm: &str, pod: &str, spec: &str) -> Result<Fact, Failure> {
        let session = self.session()?;
        let Some(manager) = session.maybe_manager("storageResourceManager") else {
            return Ok(Fact::Absent);
        };
        let params = [(
            "storageSpec".to_owned(),
            json!({
                "type": "relocate",
                "priority": "defaultPriority",
                "vm": format!("VirtualMachine:{vm}"),
                "podSelectionSpec": {"storagePod": format!("StoragePod:{pod}")},
                "relocateSpec": parsed(spec)?,
                "disallowPrerequisiteMoves": true,
            }),
        )];
        let call = Call {
            this: &manager,
            method: "RecommendDatastores",
            params: &params,
            shown: None,
            long: false,
        };
        match session.patiently(&call) {
            Ok(v) => Ok(Fact::Known(recommendations(&v, vm))),
            Err(CallError::Fault(f)) if CANNOT_ASK.contains(&f.ty.as_str()) => {
                Ok(Fact::Unreadable(f.show()))
            }
            Err(CallError::Fault(f)) if f.ty != "NotAuthenticated" => Ok(Fact::Known(
                json!({"recommended": [], "reasons": [f.show()]}),
            )),
            Err(e) => Err(e.failure(&format!("ask for a datastore for {vm}"))),
        }
    }

    /// VirtualMachineProvisioningChecker.CheckRelocate_Task, which only a vCenter has (docs/vsphere-facts.md section 3).
    pub(crate) fn relocate_check(&mut self, vm: &str, spec: &str) -> Result<Fact, Failure> {
        let session = self.session()?;
        let Some(checker) = session.maybe_manager("vmProvisioningChecker") else {
            return Ok(Fact::Absent);
        };
        let params = [
            ("vm".to_owned(), json!(format!("VirtualMachine:{vm}"))),
            ("spec".to_owned(), parsed(spec)?),
        ];
        let call = Call {
            this: &checker,
            method: "CheckRelocate_Task",
            params: &params,
            shown: None,
            long: false,
        };
        let what = format!("check a relocation of {vm}");
        let task = match session.patiently(&call) {
            Ok(v) => v.as_str().map(|r| moid(r).to_owned()).unwrap_or_default(),
            Err(CallError::Fault(f)) if f.ty != "NotAuthenticated" => {
                return Ok(Fact::Unreadable(f.show()));
            }
            Err(e) => return Err(e.failure(&what)),
        };
        match self.await_task(&task, CHECK_S, &what) {
            Ok(_) => {}
            Err(f) if f.kind == ErrorKind::Unreachable => return Err(f),
            // It could not be checked, which is no verdict.
            Err(f) => return Ok(Fact::Unreadable(f.msg)),
        }
        let key = VcKey::Object {
            ty: "Task".into(),
            moid: task,
            paths: vec!["info".into()],
        };
        Ok(match self.read_key(&key)? {
            Fact::Known(t) => Fact::Known(verdict(&t["info"]["result"])),
            _ => Fact::Unreadable(
                "the server has forgotten the check before its result was read".into(),
            ),
        })
    }
}

fn parsed(spec: &str) -> Result<Value, Failure> {
    serde_json::from_str(spec)
        .map_err(|e| Failure::new(ErrorKind::Internal, format!("a relocate spec: {e}")))
}

/// A fault inside of an answer, in words.
fn words(fault: &Value) -> String {
    Fault::new(fault.clone(), "").show()
}

/// A StoragePlacementResult.
fn recommendations(v: &Value, vm: &str) -> Value {
    let made: Vec<Value> = list(v, "recommendations")
        .iter()
        .map(|r| {
            let actions = list(r, "action");
            let ours = |a: &&Value| class(a) == "StoragePlacementAction" && moid_at(a, "vm").is_none_or(|m| m == vm);
            let one = actions.iter().find(ours).unwrap_or(&Value::Null);
            let disks: Vec<Value> = list(one, "relocateSpec.disk")
                .iter()
                .map(|d| json!({"key": int(d, "diskId"), "datastore": moid_at(d, "datastore")}))
                .collect();
            json!({
                "key": text(r, "key"),
                "rating": int(r, "rating"),
                "reason": text(r, "reasonText"),
                "warning": text(r, "warningText"),
                "alone": !actions.is_empty() && actions.iter().all(|a| ours(&a)),
                "home": moid_at(one, "relocateSpec.datastore").or_else(|| moid_at(one, "destination")),
                "disks": disks,
            })
        })
        .collect();
    let mut reasons: Vec<String> = vec![];
    for f in list(v, "drsFault.faultsByVm")
        .iter()
        .flat_map(|m| list(m, "fault"))
        .map(words)
    {
        if !reasons.contains(&f) {
            reasons.push(f);
        }
    }
    json!({"recommended": made, "reasons": reasons})
}

/// A list of CheckResult, one for each host that was looked at.
fn verdict(results: &Value) -> Value {
    let all = |kind: &str| {
        let mut out: Vec<String> = vec![];
        for r in results.as_array().into_iter().flatten() {
            // An operation that came between is met when the relocation is sent.
            let faults = list(r, kind)
                .iter()
                .filter(|f| class(f) != "TaskInProgress");
            for t in faults.map(words) {
                if !out.contains(&t) {
                    out.push(t);
                }
            }
        }
        out
    };
    json!({"errors": all("error"), "warnings": all("warning")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_others_is_told() {
        let action = |ty: &str, vm: &str| {
            json!({"_vimtype": format!("vim.storageDrs.{ty}"), "vm": format!("vim.VirtualMachine:{vm}"), "destination": "vim.Datastore:ds-2",
            "relocateSpec": {"datastore": "vim.Datastore:ds-2", "disk": [{"diskId": 2000, "datastore": "vim.Datastore:ds-3"}]}})
        };
        let v = json!({"recommendations": [
            {"key": "1", "rating": 4, "reasonText": "space", "action": [action("StorageMigrationAction", "vm-9"), action("StoragePlacementAction", "vm-1")]},
            {"key": "2", "rating": 3, "reasonText": "space", "action": [action("StoragePlacementAction", "vm-1")]}],
            "drsFault": {"reason": "x", "faultsByVm": [{"fault": [{"_vimtype": "vim.fault.Own", "msg": "too small"}, {"_vimtype": "vim.fault.Own", "msg": "too small"}]}]}});
        let r = recommendations(&v, "vm-1");
        assert_eq!(r["recommended"][0]["alone"], false);
        assert_eq!(
            r["recommended"][1],
            json!({"key": "2", "rating": 3, "reason": "space", "warning": null, "alone": true, "home": "ds-2", "disks": [{"key": 2000, "datastore": "ds-3"}]})
        );
        assert_eq!(r["reasons"], json!(["too small"]));
    }

    #[test]
    fn a_task_in_progress_is_no_verdict() {
        let v = json!([{"error": [{"_vimtype": "vim.fault.TaskInProgress", "msg": "busy"}, {"_vimtype": "vim.fault.Cpu", "msg": "older CPU"}], "warning": []}]);
        assert_eq!(
            verdict(&v),
            json!({"errors": ["older CPU"], "warnings": []})
        );
    }
}
