//! One virtual machine as a fact.

use crate::device;
use crate::identity::{hardware_version, is_windows, smbios_serial, smbios_uuid};
use crate::path::{DsPath, decode_name};
use crate::value::{at, flag, int, list, moid_at, text, wsdl_ref};
use serde_json::{Map, Value, json};

/// The properties that [`fact`] is made from; all exist since vSphere 6.5 (docs/vsphere-facts.md section 1: an unknown path
/// fails the whole call). Leaf paths where the whole is large.
pub const PATHS: &[&str] = &[
    "name",
    "parent",
    "parentVApp",
    "resourcePool",
    "datastore",
    "network",
    "disabledMethod",
    "recentTask",
    "config.uuid",
    "config.instanceUuid",
    "config.version",
    "config.guestId",
    "config.guestFullName",
    "config.template",
    "config.annotation",
    "config.firmware",
    "config.bootOptions",
    "config.files",
    "config.changeTrackingEnabled",
    "config.keyId",
    "config.hardware",
    "runtime.host",
    "runtime.connectionState",
    "runtime.powerState",
    "runtime.question",
    "runtime.consolidationNeeded",
    "runtime.faultToleranceState",
    "runtime.toolsInstallerMounted",
    "guest.toolsRunningStatus",
    "guest.toolsVersionStatus2",
    "guest.guestState",
    "guest.guestFamily",
    "guest.hostName",
    "guest.ipAddress",
    "snapshot",
    "layoutEx",
];

/// The properties of [`state`].
pub const STATE_PATHS: &[&str] = &[
    "runtime.powerState",
    "runtime.connectionState",
    "runtime.question",
    "guest.toolsRunningStatus",
    "guest.guestState",
];

/// Where a machine is, as the reader found it beside the machine's own properties.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Inventory path of the folder that holds it, such as `/DC0/vm/web`.
    pub path: String,
    /// `{moid, name}` or null.
    pub datacenter: Value,
    /// `{moid, name}` or null.
    pub host: Value,
    /// `{moid, name}` or null: a standalone host's own compute resource counts.
    pub cluster: Value,
}

/// A task's info as a fact: `{moid, state, progress, operation, entity, entity_name, cancelable, cancelled, error, error_type, result}`.
pub fn task(moid: &str, info: &Value) -> Value {
    json!({
        "moid": moid,
        "state": text(info, "state"),
        "progress": int(info, "progress"),
        // `VirtualMachine.relocate`: the same in all locales (docs/vsphere-facts.md section 1).
        "operation": text(info, "descriptionId"),
        "entity": text(info, "entity").map(wsdl_ref),
        "entity_name": text(info, "entityName").map(decode_name),
        "cancelable": flag(info, "cancelable"),
        "cancelled": flag(info, "cancelled"),
        "error": at(info, "error").map(|e| text(e, "msg").filter(|m| !m.is_empty()).unwrap_or_else(|| crate::value::class(e)).to_owned()),
        "error_type": at(info, "error").map(|e| crate::value::class(e).to_owned()),
        "result": at(info, "result"),
    })
}

/// What changes while one waits.
pub fn state(props: &Value) -> Value {
    json!({
        "power": text(props, "runtime.powerState"),
        "connection": text(props, "runtime.connectionState"),
        "question": at(props, "runtime.question").map(|q| json!({"id": text(q, "id"), "text": text(q, "text")})),
        "tools_running": text(props, "guest.toolsRunningStatus"),
        "guest_state": text(props, "guest.guestState"),
    })
}

/// A machine, from its properties (a tree with the [`PATHS`]), its place, its unfinished tasks (null if they were not read), and
/// the paths that could not be read.
///
/// `{moid, name, raw_name, path, datacenter, host, cluster, parent, resource_pool, in_vapp, uuid, instance_uuid, smbios_uuid,
/// smbios_serial, hardware_version, guest_id, guest_full_name, windows, template, annotation, firmware, secure_boot, vtpm, cpus,
/// cores_per_socket, memory_mb, power, connection, question, consolidation_needed, fault_tolerance, encrypted, encrypted_home, cbt, tools, guest,
/// nics, disks, devices, snapshots, current_snapshot, vmx, files, datastores, networks, disabled_methods, running_tasks, has_config,
/// unreadable}`. Names are decoded once; `raw_name` is the server's.
pub fn fact(
    moid: &str,
    props: &Value,
    place: &Place,
    tasks: Value,
    unreadable: &[String],
) -> Value {
    let raw_name = text(props, "name").unwrap_or("");
    let uuid = text(props, "config.uuid");
    let version = text(props, "config.version");
    let guest_id = text(props, "config.guestId").unwrap_or("");
    let windows = is_windows(guest_id);
    let devices = list(props, "config.hardware.device");
    let layout = at(props, "layoutEx").filter(|l| !list(l, "file").is_empty());
    let others = device::others(devices);
    let vtpm = others.iter().any(|d| text(d, "kind") == Some("tpm"));
    let refs = |path: &str| -> Vec<&str> {
        list(props, path)
            .iter()
            .filter_map(Value::as_str)
            .map(crate::value::moid)
            .collect()
    };
    let mut snapshots = vec![];
    flatten(
        list(props, "snapshot.rootSnapshotList"),
        &Value::Null,
        &mut snapshots,
    );
    let disks = device::disks(devices, list(props, "config.bootOptions.bootOrder"), layout);
    // A vTPM encrypts the home files, not the disks (docs/vsphere-facts.md section 3).
    let encrypted = disks.iter().any(|d| flag(d, "encrypted"));
    let files: Vec<Value> = list(props, "layoutEx.file")
        .iter()
        .map(|f| json!({"name": text(f, "name"), "type": text(f, "type"), "bytes": int(f, "size")}))
        .collect();
    let vmx = text(props, "config.files.vmPathName").and_then(DsPath::parse);
    let s = state(props);
    json!({
        "moid": moid,
        "name": decode_name(raw_name),
        "raw_name": raw_name,
        "path": place.path,
        "datacenter": place.datacenter,
        "host": place.host,
        "cluster": place.cluster,
        "parent": text(props, "parent").map(wsdl_ref),
        "in_vapp": at(props, "parentVApp").is_some(),
        "resource_pool": moid_at(props, "resourcePool"),
        "uuid": uuid,
        "instance_uuid": text(props, "config.instanceUuid"),
        "smbios_uuid": uuid.and_then(|u| smbios_uuid(u, windows, version.and_then(hardware_version))),
        "smbios_serial": uuid.and_then(smbios_serial),
        "hardware_version": version,
        "guest_id": guest_id,
        "guest_full_name": text(props, "config.guestFullName"),
        "windows": windows,
        "template": flag(props, "config.template"),
        "annotation": text(props, "config.annotation").unwrap_or(""),
        // Unset counts as bios (docs/vsphere-facts.md section 8).
        "firmware": text(props, "config.firmware").unwrap_or("bios"),
        "secure_boot": flag(props, "config.bootOptions.efiSecureBootEnabled"),
        "vtpm": vtpm,
        "cpus": int(props, "config.hardware.numCPU"),
        "cores_per_socket": int(props, "config.hardware.numCoresPerSocket").filter(|n| *n > 0).or(Some(1)),
        "memory_mb": int(props, "config.hardware.memoryMB"),
        "power": s["power"],
        "connection": s["connection"],
        "question": s["question"],
        "consolidation_needed": flag(props, "runtime.consolidationNeeded"),
        "fault_tolerance": text(props, "runtime.faultToleranceState").filter(|f| *f != "notConfigured"),
        "encrypted": encrypted,
        "encrypted_home": at(props, "config.keyId").is_some(),
        "cbt": flag(props, "config.changeTrackingEnabled"),
        "tools": {
            "running": s["tools_running"],
            "version": text(props, "guest.toolsVersionStatus2"),
            "installer_mounted": flag(props, "runtime.toolsInstallerMounted"),
        },
        "guest": {
            "state": s["guest_state"],
            "family": text(props, "guest.guestFamily"),
            "host_name": text(props, "guest.hostName"),
            "ip_address": text(props, "guest.ipAddress"),
        },
        "nics": device::nics(devices),
        "disks": disks,
        "devices": others,
        "snapshots": snapshots,
        "current_snapshot": moid_at(props, "snapshot.currentSnapshot"),
        "vmx": vmx.map(|p| json!({"path": p.to_string(), "datastore": p.datastore, "folder": p.folder()})),
        "files": files,
        "datastores": refs("datastore"),
        "networks": refs("network"),
        "disabled_methods": list(props, "disabledMethod"),
        "running_tasks": tasks,
        "has_config": at(props, "config").is_some(),
        "unreadable": unreadable,
    })
}

fn flatten(tree: &[Value], parent: &Value, out: &mut Vec<Value>) {
    for s in tree {
        let id = json!(moid_at(s, "snapshot"));
        let mut o = Map::new();
        o.insert("moid".into(), id.clone());
        o.insert("name".into(), json!(text(s, "name").map(decode_name)));
        o.insert(
            "description".into(),
            json!(text(s, "description").unwrap_or("")),
        );
        o.insert("id".into(), json!(int(s, "id")));
        o.insert("created".into(), json!(text(s, "createTime")));
        o.insert("power".into(), json!(text(s, "state")));
        o.insert("quiesced".into(), json!(flag(s, "quiesced")));
        o.insert("parent".into(), parent.clone());
        out.push(Value::Object(o));
        flatten(list(s, "childSnapshotList"), &id, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_exists_in_the_schema() {
        let s = crate::schema::schema();
        for path in PATHS.iter().chain(STATE_PATHS) {
            let mut ty = "VirtualMachine";
            for part in path.split('.') {
                let t = s.get(ty).unwrap_or_else(|| panic!("{path}: {ty}"));
                ty = s
                    .props(t)
                    .iter()
                    .find(|p| p.name == part)
                    .unwrap_or_else(|| panic!("{path}: no {part} in {ty}"))
                    .ty;
            }
        }
    }

    #[test]
    fn a_machine_without_config_is_a_fact_all_the_same() {
        let f = fact(
            "vm-1",
            &json!({"name": "gone", "runtime": {"connectionState": "inaccessible"}}),
            &Place::default(),
            json!([]),
            &[],
        );
        assert_eq!(
            (&f["has_config"], &f["firmware"], &f["uuid"]),
            (&json!(false), &json!("bios"), &Value::Null)
        );
        assert_eq!(f["connection"], "inaccessible");
    }

    #[test]
    fn snapshots_are_flat_with_parents() {
        let props = json!({"name": "x", "snapshot": {"rootSnapshotList": [
            {"snapshot": "vim.vm.Snapshot:snapshot-1", "name": "a%2fb", "id": 1, "childSnapshotList": [
                {"snapshot": "vim.vm.Snapshot:snapshot-2", "name": "c", "id": 2, "childSnapshotList": []}]}]}});
        let f = fact("vm-1", &props, &Place::default(), Value::Null, &[]);
        assert_eq!(f["snapshots"][0]["name"], "a/b");
        assert_eq!(f["snapshots"][1]["parent"], "snapshot-1");
    }
}
