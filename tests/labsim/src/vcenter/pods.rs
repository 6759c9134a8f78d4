//! Datastore clusters, and what Storage DRS recommends.
use super::build::{Ids, entity, list, text};
use super::fault::Fault;
use super::model::{State, Vm, now};
use super::relocate;
use super::render::set_path;
use super::types::Types;
use super::xml::{mo, mo_id, mo_of};
use serde_json::{Value, json};

/// Above this share of its capacity Storage DRS fills no datastore.
const FULL_PERCENT: u64 = 80;

/// Makes a datastore cluster of datastores that exist already.
pub fn add(st: &mut State, ids: &Ids, folder: &str, w: &Value) -> Result<(), String> {
    let name = text(w, "name").ok_or("a datastore cluster without a name")?;
    let id = st.id_of(w, "group-p").replace("group-p-", "group-p");
    let mut o = entity("StoragePod", &name, mo("Folder", folder));
    let mut children = vec![];
    for d in list(w, "datastores") {
        let d = d.as_str().unwrap_or("");
        let store = ids
            .stores
            .get(d)
            .ok_or_else(|| format!("datastore cluster {name}: there is no datastore {d:?}"))?;
        children.push(mo("Datastore", store));
        let up = mo("StoragePod", &id);
        if let Some(o) = st.objs.get_mut(store) {
            o.props.insert("parent".into(), up);
        }
    }
    let sdrs = w["sdrs"].as_bool().unwrap_or(true);
    o.props.insert("childType".into(), json!(["Datastore"]));
    o.props.insert(
        "summary".into(),
        json!({ "name": name, "capacity": 0, "freeSpace": 0 }),
    );
    o.props.insert("podStorageDrsEntry".into(), json!({
        "storageDrsConfig": { "podConfig": {
            "enabled": sdrs, "ioLoadBalanceEnabled": false, "defaultVmBehavior": "manual", "loadBalanceInterval": 480, "defaultIntraVmAffinity": true,
            "spaceLoadBalanceConfig": { "spaceThresholdMode": "utilization", "spaceUtilizationThreshold": FULL_PERCENT, "minSpaceUtilizationDifference": 5 },
        } },
    }));
    // What lies in the cluster lies no longer in the folder.
    if let Some(kids) = st
        .objs
        .get_mut(folder)
        .and_then(|f| f.props.get_mut("childEntity"))
        .and_then(Value::as_array_mut)
    {
        kids.retain(|k| !children.contains(k));
    }
    o.props.insert("childEntity".into(), json!(children));
    st.objs.insert(id.clone(), o);
    st.add_child(folder, mo("StoragePod", &id));
    Ok(())
}

/// Capacity and free space of all clusters, after those of their members.
pub fn refresh(st: &mut State) {
    let pods: Vec<String> = st
        .objs
        .iter()
        .filter(|(_, o)| o.ty == "StoragePod")
        .map(|(id, _)| id.clone())
        .collect();
    for id in pods {
        let (mut capacity, mut free) = (0, 0);
        for m in st.refs(&id, "childEntity") {
            capacity += st.stores.get(&m).map_or(0, |s| s.capacity);
            free += free_of(st, &m);
        }
        if let Some(o) = st.objs.get_mut(&id) {
            set_path(&mut o.props, "summary.capacity", &json!(capacity));
            set_path(&mut o.props, "summary.freeSpace", &json!(free));
        }
    }
}

fn free_of(st: &State, store: &str) -> u64 {
    st.objs
        .get(store)
        .and_then(|o| o.props.get("summary"))
        .and_then(|s| s["freeSpace"].as_u64())
        .unwrap_or(0)
}

/// RecommendDatastores for a relocation: all members that can take the machine, the emptiest first; or why none can.
/// Source: vSphere Web Services API, StoragePlacementSpec, StoragePlacementResult, ClusterRecommendation.
///
/// # Errors
/// InvalidArgument, ManagedObjectNotFound, NotSupported.
pub fn recommend(st: &State, spec: &Value) -> Result<Value, Fault> {
    if spec["type"] != "relocate" {
        let msg = "labsim recommends datastores for relocations only";
        return Err(Fault::new("NotSupported", msg, json!({})));
    }
    let pod = mo_of(&spec["podSelectionSpec"]["storagePod"]);
    let (_, pod) = pod.ok_or_else(|| Fault::invalid_argument("storageSpec.podSelectionSpec"))?;
    let entry = match st.objs.get(pod) {
        Some(o) if o.ty == "StoragePod" => &o.props["podStorageDrsEntry"],
        Some(_) => {
            return Err(Fault::invalid_argument(
                "storageSpec.podSelectionSpec.storagePod",
            ));
        }
        None => return Err(Fault::not_found("StoragePod", pod)),
    };
    let vm = mo_id(&spec["vm"]).ok_or_else(|| Fault::invalid_argument("storageSpec.vm"))?;
    let vm = st
        .vms
        .get(vm)
        .ok_or_else(|| Fault::not_found("VirtualMachine", vm))?;
    if spec["relocateSpec"].is_null() {
        return Err(Fault::invalid_argument("storageSpec.relocateSpec"));
    }
    // What a vCenter answers here is not known to us: a client has no reason to ask.
    if entry["storageDrsConfig"]["podConfig"]["enabled"] != true {
        return Err(Fault::invalid_argument(
            "storageSpec.podSelectionSpec.storagePod",
        ));
    }
    let mut fits = vec![];
    let mut faults = vec![];
    for store in st.refs(pod, "childEntity") {
        match try_one(st, vm, &store, &spec["relocateSpec"])? {
            Ok((before, after, full)) => fits.push((store, before, after, full)),
            Err(f) => faults.push(f.0),
        }
    }
    fits.sort_by(|a, b| (a.2, &a.0).cmp(&(b.2, &b.0)));
    let mut result = json!({ "_t": "StoragePlacementResult" });
    if fits.is_empty() {
        let disks: Vec<Value> = vm
            .disks
            .iter()
            .map(|d| json!({ "_t": "ClusterDrsFaultsFaultsByVirtualDisk", "vm": mo("VirtualMachine", &vm.moid), "fault": faults,
                             "disk": { "vm": mo("VirtualMachine", &vm.moid), "diskId": d.key } }))
            .collect();
        result["drsFault"] = json!({ "reason": "storagePlacement", "faultsByVm": disks });
        return Ok(result);
    }
    let made: Vec<Value> = fits
        .into_iter()
        .enumerate()
        .map(|(n, (store, before, after, full))| {
            json!({
                "key": (n + 1).to_string(), "type": "V1", "time": now(), "rating": 5 - (n.min(4)), "reason": "storagePlacement",
                "reasonText": "Satisfy storage initial placement requests", "target": mo("StoragePod", pod),
                "action": [{ "_t": "StoragePlacementAction", "type": "StoragePlacementV1", "target": mo("VirtualMachine", &vm.moid),
                    "vm": mo("VirtualMachine", &vm.moid), "relocateSpec": full, "destination": mo("Datastore", &store),
                    "spaceUtilBefore": before as f64, "spaceUtilAfter": after as f64 }],
            })
        })
        .collect();
    result["recommendations"] = json!(made);
    Ok(result)
}

/// Per cent used before and afterwards, and the whole spec, if the machine went there.
fn try_one(
    st: &State,
    vm: &Vm,
    store: &str,
    fixed: &Value,
) -> Result<Result<(u64, u64, Value), Fault>, Fault> {
    let mut full = fixed.clone();
    full["datastore"] = mo("Datastore", store);
    let target = relocate::target(st, vm, &full)?;
    let (errors, _) = relocate::check(st, vm, &target);
    if let Some(f) = errors.into_iter().next() {
        return Ok(Err(f));
    }
    let capacity = st.stores.get(store).map_or(1, |s| s.capacity).max(1);
    let free = free_of(st, store);
    let bytes = relocate::bytes_to(vm, &target, store);
    let percent = |free: u64| 100 - free.min(capacity) * 100 / capacity;
    let after = percent(free.saturating_sub(bytes));
    if after > FULL_PERCENT && bytes > 0 {
        let msg = "Insufficient space to satisfy the storage placement request within the space threshold of the datastore cluster.";
        return Ok(Err(Fault::new("InsufficientStorageSpace", msg, json!({}))));
    }
    let disks: Vec<Value> = relocate::places(&target)
        .map(|(key, ds)| json!({ "diskId": key, "datastore": mo("Datastore", ds) }))
        .collect();
    full["disk"] = json!(disks);
    debug_assert!(Types::get().is_a("StoragePlacementAction", "ClusterAction"));
    Ok(Ok((percent(free), after, full)))
}
