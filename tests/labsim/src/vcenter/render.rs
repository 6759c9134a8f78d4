//! A virtual machine as a managed object: every property tree from the few facts of the model.
use super::devices::{devices, ds_path, layout};
use super::files;
use super::model::{Obj, State, Vm, escape_name, now};
use super::xml::mo;
use serde_json::{Map, Value, json};

/// Full name and family of a guest id.
fn guest_names(id: &str) -> (String, &'static str) {
    let full = match id {
        "debian10_64Guest" => "Debian GNU/Linux 10 (64-bit)",
        "debian11_64Guest" => "Debian GNU/Linux 11 (64-bit)",
        "debian12_64Guest" => "Debian GNU/Linux 12 (64-bit)",
        "ubuntu64Guest" => "Ubuntu Linux (64-bit)",
        "rhel8_64Guest" => "Red Hat Enterprise Linux 8 (64-bit)",
        "rhel9_64Guest" => "Red Hat Enterprise Linux 9 (64-bit)",
        "centos7_64Guest" => "CentOS 7 (64-bit)",
        "sles15_64Guest" => "SUSE Linux Enterprise 15 (64-bit)",
        "other5xLinux64Guest" => "Other 5.x or later Linux (64-bit)",
        "windows9Server64Guest" => "Microsoft Windows Server 2016 (64-bit)",
        "windows2019srv_64Guest" => "Microsoft Windows Server 2019 (64-bit)",
        "windows2019srvNext_64Guest" => "Microsoft Windows Server 2022 (64-bit)",
        "winXPProGuest" => "Microsoft Windows XP Professional (32-bit)",
        other => other,
    };
    let family = if id.starts_with("win") {
        "windowsGuest"
    } else {
        "linuxGuest"
    };
    (full.into(), family)
}

fn config(st: &State, vm: &Vm, full: &str) -> Value {
    let alloc = |shares: i64| json!({ "reservation": 0, "expandableReservation": true, "limit": -1, "shares": { "shares": shares, "level": "normal" } });
    let vmx = if vm.template { ".vmtx" } else { ".vmx" };
    let home = ds_path(st, &vm.ds, &format!("{}/", vm.dir));
    let mut boot = json!({ "bootDelay": 0, "enterBIOSSetup": false, "efiSecureBootEnabled": vm.secure_boot, "bootRetryEnabled": false, "bootRetryDelay": 10000, "networkBootProtocol": "ipv4" });
    if let Some(key) = vm.boot_disk {
        boot["bootOrder"] =
            json!([{ "_t": "VirtualMachineBootOptionsBootableDiskDevice", "deviceKey": key }]);
    }
    let installed = vm.tools != "not_installed";
    let mut stores: Vec<&String> = vm.disks.iter().map(|d| &d.ds).chain([&vm.ds]).collect();
    stores.sort();
    stores.dedup();
    let urls: Vec<Value> = stores
        .iter()
        .filter_map(|d| Some((st.stores.get(*d)?, d)))
        .map(|(s, d)| json!({ "name": s.name, "url": format!("ds:///vmfs/volumes/{d}/") }))
        .collect();
    let mut c = json!({
        "_t": "VirtualMachineConfigInfo",
        "changeVersion": format!("{}.{}", now(), vm.change),
        "modified": "1970-01-01T00:00:00Z",
        "name": escape_name(&vm.name),
        "guestFullName": full,
        "version": format!("vmx-{:02}", vm.hw),
        "uuid": vm.uuid,
        "createDate": "2024-03-01T08:00:00Z",
        "instanceUuid": vm.instance_uuid,
        "npivTemporaryDisabled": true,
        "locationId": "564d0000-0000-0000-0000-000000000000",
        "template": vm.template,
        "guestId": vm.guest_id,
        "alternateGuestName": full,
        "annotation": vm.annotation,
        "files": { "vmPathName": ds_path(st, &vm.ds, &format!("{}/{}", vm.dir, files::aux_name(vm, vmx))), "snapshotDirectory": home, "suspendDirectory": home, "logDirectory": home },
        "tools": { "toolsVersion": if installed { 12389 } else { 0 }, "toolsInstallType": if installed { "guestToolsTypeOpenVMTools" } else { "guestToolsTypeUnknown" }, "afterPowerOn": true, "afterResume": true, "beforeGuestStandby": true, "beforeGuestShutdown": true, "toolsUpgradePolicy": "manual", "syncTimeWithHostAllowed": true, "syncTimeWithHost": false },
        "flags": { "disableAcceleration": false, "enableLogging": true, "useToe": false, "runWithDebugInfo": false, "monitorType": "release", "htSharing": "any", "snapshotDisabled": false, "snapshotLocked": false, "diskUuidEnabled": false, "virtualMmuUsage": "automatic", "virtualExecUsage": "hvAuto", "snapshotPowerOffBehavior": "powerOff", "recordReplayEnabled": false, "faultToleranceType": "unset", "cbrcCacheEnabled": false, "vvtdEnabled": false, "vbsEnabled": false },
        "defaultPowerOps": { "powerOffType": "soft", "suspendType": "hard", "resetType": "soft", "defaultPowerOffType": "soft", "defaultSuspendType": "hard", "defaultResetType": "soft", "standbyAction": "checkpoint" },
        "rebootPowerOff": false,
    });
    let more = json!({
        "hardware": { "numCPU": vm.cpus, "numCoresPerSocket": vm.cores, "autoCoresPerSocket": false, "memoryMB": vm.memory_mb, "virtualICH7MPresent": false, "virtualSMCPresent": false, "device": devices(st, vm), "motherboardLayout": "i440bxHostBridge", "simultaneousThreads": 1 },
        "cpuAllocation": alloc(vm.cpus * 1000),
        "memoryAllocation": alloc(vm.memory_mb * 10),
        "latencySensitivity": { "level": "normal" },
        "memoryHotAddEnabled": false,
        "cpuHotAddEnabled": false,
        "cpuHotRemoveEnabled": false,
        "extraConfig": [
            { "_t": "OptionValue", "key": "nvram", "value": format!("{}.nvram", vm.stem) },
            { "_t": "OptionValue", "key": "svga.present", "value": "TRUE" },
            { "_t": "OptionValue", "key": "tools.guest.desktop.autolock", "value": "FALSE" },
        ],
        "datastoreUrl": urls,
        "swapPlacement": "inherit",
        "bootOptions": boot,
        "vAssertsEnabled": false,
        "changeTrackingEnabled": false,
        "firmware": vm.firmware,
        "maxMksConnections": 40,
        "guestAutoLockEnabled": false,
        "memoryReservationLockedToMax": false,
        "nestedHVEnabled": false,
        "vPMCEnabled": false,
        "messageBusTunnelEnabled": false,
        "guestIntegrityInfo": { "enabled": false },
        "migrateEncryption": if vm.encrypted { "required" } else { "opportunistic" },
        "sevEnabled": false,
    });
    if let (Some(to), Value::Object(from)) = (c.as_object_mut(), more) {
        to.extend(from);
    }
    // Source: docs/vsphere-facts.md section 3, "Encryption": a virtual TPM encrypts the home.
    if vm.encrypted || vm.vtpm {
        c["keyId"] = json!({ "keyId": "key-1", "providerId": { "id": "kms-1" } });
    }
    c
}

fn runtime(vm: &Vm) -> Value {
    let on = vm.power == "poweredOn";
    let mut r = json!({
        "host": mo("HostSystem", &vm.host),
        "connectionState": vm.connection,
        "powerState": vm.power,
        "faultToleranceState": "notConfigured",
        "toolsInstallerMounted": vm.tools_iso,
        "maxCpuUsage": vm.cpus * 2400,
        "maxMemoryUsage": vm.memory_mb,
        "numMksConnections": 0,
        "recordReplayState": "inactive",
        "onlineStandby": false,
        "consolidationNeeded": false,
        "paused": false,
        "snapshotInBackground": false,
        "quiescedForkParent": false,
        "instantCloneFrozen": false,
        "cryptoState": if vm.encrypted || vm.vtpm { "unlocked" } else { "" },
    });
    if r["cryptoState"] == "" {
        r["cryptoState"] = Value::Null;
    }
    if let Some(t) = vm.boot_time.as_ref().filter(|_| on) {
        r["bootTime"] = json!(t);
    }
    if vm.power == "poweredOff" {
        r["cleanPowerOff"] = json!(true);
    }
    if let Some((text, choices)) = &vm.question {
        let list: Vec<Value> = choices
            .iter()
            .enumerate()
            .map(|(i, c)| json!({ "_t": "ElementDescription", "label": c, "summary": c, "key": i.to_string() }))
            .collect();
        r["question"] = json!({ "id": "q-1", "text": text, "choice": { "choiceInfo": list, "defaultIndex": 0 } });
    }
    r
}

fn ip(vm: &Vm, n: usize) -> String {
    let num: u64 = vm.moid.trim_start_matches("vm-").parse().unwrap_or(1);
    format!("10.{}.{}.{}", 20 + n, num / 250 % 250, num % 250 + 1)
}

fn guest(st: &State, vm: &Vm, full: &str, family: &str) -> Value {
    let on = vm.power == "poweredOn";
    let up = on && matches!(vm.tools.as_str(), "running" | "scripts");
    let (status, version_status, running) = match (vm.tools.as_str(), on) {
        ("not_installed", _) => (
            "toolsNotInstalled",
            "guestToolsNotInstalled",
            "guestToolsNotRunning",
        ),
        ("scripts", true) => (
            "toolsOk",
            "guestToolsUnmanaged",
            "guestToolsExecutingScripts",
        ),
        ("running", true) => ("toolsOk", "guestToolsUnmanaged", "guestToolsRunning"),
        _ => (
            "toolsNotRunning",
            "guestToolsUnmanaged",
            "guestToolsNotRunning",
        ),
    };
    let mut g = json!({
        "toolsStatus": status,
        "toolsVersionStatus": version_status,
        "toolsVersionStatus2": version_status,
        "toolsRunningStatus": running,
        "toolsVersion": if status == "toolsNotInstalled" { "0" } else { "12389" },
        "guestState": vm.guest_state.clone().unwrap_or_else(|| if up { "running".into() } else { "notRunning".into() }),
        "guestOperationsReady": up,
        "interactiveGuestOperationsReady": false,
        "guestStateChangeSupported": up,
        "hwVersion": format!("vmx-{:02}", vm.hw),
    });
    if up {
        g["guestId"] = json!(vm.guest_id);
        g["guestFamily"] = json!(family);
        g["guestFullName"] = json!(full);
        g["hostName"] = json!(vm.hostname);
        let net: Vec<Value> = vm
            .nics
            .iter()
            .enumerate()
            .map(|(i, n)| {
                let name = st.objs.get(&n.network).and_then(|o| o.props.get("name")).cloned().unwrap_or_default();
                json!({ "network": name, "ipAddress": [ip(vm, i)], "macAddress": n.mac, "connected": n.connected, "deviceConfigId": n.key })
            })
            .collect();
        if !net.is_empty() {
            g["ipAddress"] = json!(ip(vm, 0));
            g["net"] = json!(net);
        }
    }
    g
}

fn snapshot(vm: &Vm) -> Option<Value> {
    let last = vm.snaps.last()?;
    let mut tree = Value::Null;
    for s in vm.snaps.iter().rev() {
        let mut node = json!({
            "snapshot": mo("VirtualMachineSnapshot", &s.moid), "vm": mo("VirtualMachine", &vm.moid), "name": escape_name(&s.name),
            "description": s.description, "id": s.id, "createTime": s.time, "state": s.power, "quiesced": false, "replaySupported": false,
        });
        if !tree.is_null() {
            node["childSnapshotList"] = json!([tree]);
        }
        tree = node;
    }
    Some(
        json!({ "currentSnapshot": mo("VirtualMachineSnapshot", &last.moid), "rootSnapshotList": [tree] }),
    )
}

/// Sets a property path in a tree, making what is missing; null removes.
pub fn set_path(props: &mut Map<String, Value>, path: &str, v: &Value) {
    let Some((first, rest)) = path.split_once('.') else {
        if v.is_null() {
            props.remove(path);
        } else {
            props.insert(path.into(), v.clone());
        }
        return;
    };
    if let Some(map) = props
        .entry(first)
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        set_path(map, rest, v);
    }
}

/// The object that clients see.
pub fn vm_object(st: &State, vm: &Vm) -> Obj {
    let (full, family) = guest_names(&vm.guest_id);
    let on = vm.power == "poweredOn";
    let readable = !matches!(vm.connection.as_str(), "inaccessible" | "invalid");
    let cfg = config(st, vm, &full);
    let run = runtime(vm);
    let g = guest(st, vm, &full, family);
    let lay = layout(st, vm);
    let mut stores: Vec<String> = vm
        .disks
        .iter()
        .map(|d| d.ds.clone())
        .chain([vm.ds.clone()])
        .collect();
    if let Some(ds) = cfg["hardware"]["device"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|d| d["_t"] == "VirtualCdrom")
        .find_map(|d| d["backing"]["datastore"]["$mo"][1].as_str())
    {
        stores.push(ds.into());
    }
    stores.sort();
    stores.dedup();
    let mut nets: Vec<&String> = vm.nics.iter().map(|n| &n.network).collect();
    nets.sort();
    nets.dedup();
    let net_refs: Vec<Value> = nets
        .iter()
        .map(|n| mo(st.objs.get(*n).map_or("Network", |o| o.ty.as_str()), n))
        .collect();
    let committed: u64 = lay["file"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|f| f["size"].as_u64())
        .sum();
    let usage: Vec<Value> = stores
        .iter()
        .map(|s| {
            let provisioned: u64 = vm.disks.iter().filter(|d| d.ds == *s).map(|d| d.bytes).sum();
            json!({ "datastore": mo("Datastore", s), "committed": provisioned, "uncommitted": 0, "unshared": provisioned })
        })
        .collect();
    let status = if readable { "green" } else { "gray" };
    let custom: Vec<Value> = vec![];
    let mut summary = json!({
        "vm": mo("VirtualMachine", &vm.moid),
        "runtime": run,
        "guest": { "guestId": g["guestId"], "guestFullName": g["guestFullName"], "toolsStatus": g["toolsStatus"], "toolsVersionStatus": g["toolsVersionStatus"], "toolsVersionStatus2": g["toolsVersionStatus2"], "toolsRunningStatus": g["toolsRunningStatus"], "hostName": g["hostName"], "ipAddress": g["ipAddress"], "hwVersion": g["hwVersion"] },
        "config": {
            "name": cfg["name"], "template": vm.template, "vmPathName": cfg["files"]["vmPathName"], "memorySizeMB": vm.memory_mb, "cpuReservation": 0, "memoryReservation": 0,
            "numCpu": vm.cpus, "numEthernetCards": vm.nics.len(), "numVirtualDisks": vm.disks.len(), "uuid": vm.uuid, "instanceUuid": vm.instance_uuid, "guestId": vm.guest_id,
            "guestFullName": full, "annotation": vm.annotation, "installBootRequired": false, "tpmPresent": vm.vtpm, "numVmiopBackings": 0, "hwVersion": cfg["version"],
        },
        "storage": { "committed": committed, "uncommitted": 0, "unshared": committed, "timestamp": now() },
        "quickStats": { "overallCpuUsage": if on { 120 } else { 0 }, "guestMemoryUsage": if on { vm.memory_mb / 10 } else { 0 }, "hostMemoryUsage": if on { vm.memory_mb } else { 0 }, "guestHeartbeatStatus": if on && vm.tools == "running" { "green" } else { "gray" }, "uptimeSeconds": if on { 86_400 } else { 0 } },
        "overallStatus": status,
        "customValue": custom,
    });
    let mut props = json!({
        "parent": mo("Folder", &vm.folder),
        "name": cfg["name"],
        "customValue": custom,
        "overallStatus": status,
        "configStatus": status,
        "configIssue": custom,
        "effectiveRole": [-1],
        "permission": custom,
        "disabledMethod": vm.disabled,
        "declaredAlarmState": custom,
        "triggeredAlarmState": custom,
        "alarmActionsEnabled": true,
        "tag": custom,
        "capability": capability(),
        "config": cfg,
        "layoutEx": lay,
        "storage": { "perDatastoreUsage": usage, "timestamp": now() },
        "environmentBrowser": mo("EnvironmentBrowser", &vm.moid.replace("vm-", "envbrowser-")),
        "resourcePool": mo("ResourcePool", &vm.pool),
        "runtime": run,
        "guest": g,
        "datastore": stores.iter().map(|s| mo("Datastore", s)).collect::<Vec<_>>(),
        "network": net_refs,
        "guestHeartbeatStatus": summary["quickStats"]["guestHeartbeatStatus"],
    });
    if vm.template {
        // A template has no resource pool. Source: vSphere API reference, VirtualMachine.resourcePool.
        props["resourcePool"] = Value::Null;
    }
    if let Some(s) = snapshot(vm) {
        props["snapshot"] = s;
        let root = vm.snaps.first().map(|s| s.moid.as_str()).unwrap_or("");
        props["rootSnapshot"] = json!([mo("VirtualMachineSnapshot", root)]);
    }
    if !readable {
        // Source: docs/vsphere-facts.md section 2, "VM states without config".
        for p in [
            "config",
            "layoutEx",
            "storage",
            "resourcePool",
            "guest",
            "snapshot",
            "capability",
        ] {
            props[p] = Value::Null;
        }
        let path = summary["config"]["vmPathName"].clone();
        summary["config"] = json!({ "name": path, "template": false, "vmPathName": path });
        summary["guest"] = Value::Null;
        summary["storage"] = Value::Null;
        props["name"] = path;
    }
    props["summary"] = summary;
    let mut props = match props {
        Value::Object(m) => m,
        _ => Map::new(),
    };
    props.retain(|_, v| !v.is_null());
    for (path, v) in &vm.overrides {
        set_path(&mut props, path, v);
    }
    Obj {
        ty: "VirtualMachine".into(),
        props,
    }
}

fn capability() -> Value {
    let names = super::types::Types::get()
        .data("VirtualMachineCapability")
        .unwrap_or_default();
    let yes: Map<String, Value> = names
        .iter()
        .filter(|p| p.ty == "bool")
        .map(|p| {
            (
                p.name.clone(),
                json!(!matches!(
                    p.name.as_str(),
                    "recordReplaySupported" | "sevSupported" | "sevSnpSupported" | "tdxSupported"
                )),
            )
        })
        .collect();
    Value::Object(yes)
}

/// Renders a virtual machine anew, with what tasks say about it, and its snapshots.
pub fn refresh_vm(st: &mut State, id: &str) {
    let Some(mut vm) = st.vms.get(id).cloned() else {
        return;
    };
    vm.change += 1;
    let mut obj = vm_object(st, &vm);
    let recent: Vec<Value> = st
        .tasks
        .iter()
        .filter(|t| t.entity.1 == id)
        .map(|t| mo("Task", &t.id))
        .collect();
    obj.props.insert("recentTask".into(), json!(recent));
    let gone: Vec<String> = st
        .objs
        .iter()
        .filter(|(_, o)| {
            o.ty == "VirtualMachineSnapshot"
                && o.props.get("vm").and_then(super::xml::mo_id) == Some(id)
        })
        .map(|(k, _)| k.clone())
        .collect();
    if !gone.is_empty() {
        st.objs.retain(|k, _| !gone.contains(k));
    }
    for (i, s) in vm.snaps.iter().enumerate() {
        let mut props = Map::new();
        props.insert("vm".into(), mo("VirtualMachine", id));
        let kids: Vec<Value> = vm
            .snaps
            .get(i + 1)
            .map(|c| mo("VirtualMachineSnapshot", &c.moid))
            .into_iter()
            .collect();
        props.insert("childSnapshot".into(), json!(kids));
        st.objs.insert(
            s.moid.clone(),
            Obj {
                ty: "VirtualMachineSnapshot".into(),
                props,
            },
        );
    }
    st.objs.insert(id.into(), obj);
    st.vms.insert(id.into(), vm);
}

/// Lists of virtual machines on datastores, networks, hosts and pools, and the free space, computed anew.
pub fn relink(st: &mut State) {
    let mut lists: std::collections::BTreeMap<String, Vec<Value>> =
        std::collections::BTreeMap::new();
    let mut used: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for (id, vm) in &st.vms {
        let me = mo("VirtualMachine", id);
        let mut at: Vec<String> = st.refs(id, "datastore");
        at.extend(st.refs(id, "network"));
        at.push(vm.host.clone());
        if !vm.template {
            at.push(vm.pool.clone());
        }
        for a in at {
            lists.entry(a).or_default().push(me.clone());
        }
        for d in vm.disks.iter().filter(|d| d.rdm.is_none()) {
            *used.entry(d.ds.clone()).or_default() += d.bytes;
        }
    }
    for (id, o) in &mut st.objs {
        if matches!(
            o.ty.as_str(),
            "Datastore"
                | "Network"
                | "OpaqueNetwork"
                | "DistributedVirtualPortgroup"
                | "HostSystem"
                | "ResourcePool"
        ) {
            o.props
                .insert("vm".into(), json!(lists.remove(id).unwrap_or_default()));
        }
        if let (Some(s), true) = (st.stores.get(id), o.ty == "Datastore") {
            let free = s
                .capacity
                .saturating_sub(s.used)
                .saturating_sub(used.get(id).copied().unwrap_or(0));
            set_path(&mut o.props, "summary.freeSpace", &json!(free));
            set_path(&mut o.props, "info.freeSpace", &json!(free));
        }
    }
    super::pods::refresh(st);
}
