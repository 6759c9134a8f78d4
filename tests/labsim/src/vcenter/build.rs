//! The inventory, built from the world file.
use super::model::{Obj, State, Store, escape_name};
use super::setup::{self, about, config};
use super::xml::mo;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

/// The text of a field.
pub fn text(w: &Value, key: &str) -> Option<String> {
    w.get(key).and_then(Value::as_str).map(String::from)
}

/// The list of a field, empty when there is none.
pub fn list<'a>(w: &'a Value, key: &str) -> &'a [Value] {
    w.get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Ids of a datacenter while it is built.
#[derive(Default)]
pub struct Ids {
    /// Its name.
    pub name: String,
    /// vmFolder.
    pub vm_folder: String,
    /// networkFolder.
    pub network_folder: String,
    /// Host names and ids.
    pub hosts: Vec<(String, String)>,
    /// Root pool of each host's compute resource.
    pub root_pool: BTreeMap<String, String>,
    /// Pools by path below the root pool, and id.
    pub pools: Vec<(String, String)>,
    /// Datastores by name.
    pub stores: BTreeMap<String, String>,
    /// Networks by name.
    pub networks: RefCell<BTreeMap<String, String>>,
    /// Folders of virtual machines by path.
    pub folders: BTreeMap<String, String>,
}

impl Ids {
    /// References to all hosts.
    pub fn host_refs(&self) -> Value {
        json!(
            self.hosts
                .iter()
                .map(|(_, h)| mo("HostSystem", h))
                .collect::<Vec<_>>()
        )
    }

    /// Remembers a network by its name; the first of a name wins.
    pub fn note_network(&self, name: &str, id: &str) {
        self.networks
            .borrow_mut()
            .entry(name.into())
            .or_insert_with(|| id.into());
    }
}

/// A managed entity with what all of them have.
pub fn entity(ty: &str, name: &str, parent: Value) -> Obj {
    let empty: Vec<Value> = vec![];
    let mut props = Map::new();
    if !parent.is_null() {
        props.insert("parent".into(), parent);
    }
    for (k, v) in [("overallStatus", "green"), ("configStatus", "green")] {
        props.insert(k.into(), json!(v));
    }
    for k in [
        "customValue",
        "configIssue",
        "permission",
        "disabledMethod",
        "recentTask",
        "declaredAlarmState",
        "triggeredAlarmState",
        "tag",
    ] {
        props.insert(k.into(), json!(empty));
    }
    props.insert("effectiveRole".into(), json!([-1]));
    props.insert("alarmActionsEnabled".into(), json!(true));
    props.insert("name".into(), json!(escape_name(name)));
    Obj {
        ty: ty.into(),
        props,
    }
}

impl State {
    /// The id that the world gives, or a new one.
    pub fn id_of(&mut self, w: &Value, prefix: &str) -> String {
        text(w, "moid").unwrap_or_else(|| self.new_id(prefix))
    }

    /// Adds a child to a folder.
    pub fn add_child(&mut self, folder: &str, child: Value) {
        if let Some(kids) = self
            .objs
            .get_mut(folder)
            .and_then(|o| o.props.get_mut("childEntity"))
            .and_then(Value::as_array_mut)
        {
            kids.push(child);
        }
    }

    fn folder(&mut self, id: &str, name: &str, parent: Value, types: &[&str]) {
        let mut o = entity("Folder", name, parent);
        o.props.insert("childType".into(), json!(types));
        o.props.insert("childEntity".into(), json!([]));
        self.objs.insert(id.into(), o);
    }

    fn set(&mut self, id: &str, prop: &str, v: Value) {
        if let Some(o) = self.objs.get_mut(id) {
            o.props.insert(prop.into(), v);
        }
    }
}

const VM_TYPES: &[&str] = &["Folder", "VirtualMachine", "VirtualApp"];

/// The folder of virtual machines at a path, made when missing.
pub fn vm_folder(st: &mut State, ids: &mut Ids, path: &str) -> String {
    let mut at = ids.vm_folder.clone();
    let mut so_far = String::new();
    for part in path.split('/').filter(|p| !p.is_empty()) {
        so_far = format!("{so_far}/{part}");
        if let Some(id) = ids.folders.get(&so_far) {
            at.clone_from(id);
            continue;
        }
        let id = st.new_id("group-v");
        let id = id.replace("group-v-", "group-v");
        st.folder(&id, part, mo("Folder", &at), VM_TYPES);
        st.add_child(&at, mo("Folder", &id));
        ids.folders.insert(so_far.clone(), id.clone());
        at = id;
    }
    at
}

fn pool(st: &mut State, id: &str, name: &str, parent: Value, owner: &Value) {
    let mut o = entity("ResourcePool", name, parent);
    let alloc = json!({ "reservation": 0, "expandableReservation": true, "limit": -1, "shares": { "shares": 4000, "level": "normal" } });
    let use_ = json!({ "reservationUsed": 0, "reservationUsedForVm": 0, "unreservedForPool": 100_000, "unreservedForVm": 100_000, "overallUsage": 0, "maxUsage": 100_000 });
    o.props.insert("summary".into(), json!({ "name": name, "config": { "entity": mo("ResourcePool", id), "cpuAllocation": alloc, "memoryAllocation": alloc }, "runtime": { "memory": use_, "cpu": use_, "overallStatus": "green" } }));
    o.props
        .insert("config".into(), o.props["summary"]["config"].clone());
    o.props
        .insert("runtime".into(), o.props["summary"]["runtime"].clone());
    o.props.insert("owner".into(), owner.clone());
    o.props.insert("resourcePool".into(), json!([]));
    o.props.insert("vm".into(), json!([]));
    st.objs.insert(id.into(), o);
}

fn host(st: &mut State, id: &str, name: &str, parent: Value, about: &Value, w: &Value) {
    let mut o = entity("HostSystem", name, parent);
    let run = json!({ "connectionState": text(w, "connection").unwrap_or_else(|| "connected".into()), "powerState": "poweredOn", "standbyMode": "none", "inMaintenanceMode": w["maintenance"].as_bool().unwrap_or(false), "inQuarantineMode": false, "bootTime": "2024-02-01T06:00:00Z" });
    let mut product = about.clone();
    product["name"] = json!("VMware ESXi");
    product["apiType"] = json!("HostAgent");
    product["productLineId"] = json!("embeddedEsx");
    o.props.insert("runtime".into(), run.clone());
    o.props.insert("summary".into(), json!({
        "host": mo("HostSystem", id),
        "hardware": { "vendor": "Dell Inc.", "model": "PowerEdge R650", "uuid": format!("4c4c4544-0000-1000-8000-{:012x}", id.len() * 7919), "memorySize": 549_755_813_888u64, "cpuModel": "Intel(R) Xeon(R) Gold 6326 CPU @ 2.90GHz", "cpuMhz": 2900, "numCpuPkgs": 2, "numCpuCores": 32, "numCpuThreads": 64, "numNics": 4, "numHBAs": 3 },
        "runtime": run,
        "config": { "name": name, "port": 443, "product": product, "vmotionEnabled": true, "faultToleranceEnabled": false },
        "quickStats": { "overallCpuUsage": 1200, "overallMemoryUsage": 65_536, "uptime": 864_000 },
        "overallStatus": "green", "rebootRequired": false,
    }));
    o.props.insert("config".into(), json!({ "product": product, "network": { "vswitch": [], "proxySwitch": [], "portgroup": [], "pnic": [] } }));
    for k in ["vm", "datastore", "network"] {
        o.props.insert(k.into(), json!([]));
    }
    st.objs.insert(id.into(), o);
}

/// A cluster with its hosts, or a standalone host.
fn compute(
    st: &mut State,
    ids: &mut Ids,
    folder: &str,
    about: &Value,
    w: &Value,
    cluster: bool,
) -> Result<(), String> {
    let named = if w.is_string() {
        json!({ "name": w })
    } else {
        w.clone()
    };
    let w = &named;
    let name = text(w, "name").ok_or("a cluster or host without a name")?;
    let (ty, prefix) = if cluster {
        ("ClusterComputeResource", "domain-c")
    } else {
        ("ComputeResource", "domain-s")
    };
    let id = if cluster {
        st.id_of(w, prefix)
    } else {
        st.new_id(prefix)
    }
    .replace("domain-c-", "domain-c")
    .replace("domain-s-", "domain-s");
    let mut o = entity(ty, &name, mo("Folder", folder));
    let members: Vec<Value> = if cluster {
        list(w, "hosts").to_vec()
    } else {
        vec![w.clone()]
    };
    let n = members.len();
    let mut summary = json!({ "totalCpu": 92_800 * n, "totalMemory": 549_755_813_888u64 * n as u64, "numCpuCores": 32 * n, "numCpuThreads": 64 * n, "effectiveCpu": 90_000 * n, "effectiveMemory": 500_000 * n, "numHosts": n, "numEffectiveHosts": n, "overallStatus": "green" });
    if cluster {
        summary["_t"] = json!("ClusterComputeResourceSummary");
        summary["currentFailoverLevel"] = json!(0);
        summary["numVmotions"] = json!(0);
        let drs = w["drs"].as_bool().unwrap_or(false);
        o.props.insert("configuration".into(), json!({ "dasConfig": { "enabled": false, "vmMonitoring": "vmMonitoringDisabled", "hostMonitoring": "enabled" }, "drsConfig": { "enabled": drs, "enableVmBehaviorOverrides": true, "defaultVmBehavior": "fullyAutomated", "vmotionRate": 3 } }));
    }
    let me = mo(ty, &id);
    let root = st.new_id("resgroup");
    pool(st, &root, "Resources", me.clone(), &me);
    let mut hosts = vec![];
    for m in members {
        let m = if m.is_string() {
            json!({ "name": m })
        } else {
            m
        };
        let hname = text(&m, "name").ok_or("a host without a name")?;
        let hid = st.id_of(&m, "host");
        host(st, &hid, &hname, me.clone(), about, &m);
        hosts.push(mo("HostSystem", &hid));
        if m["older_cpu"] == true {
            st.older_cpu.push(hid.clone());
        }
        ids.root_pool.insert(hid.clone(), root.clone());
        ids.hosts.push((hname, hid));
    }
    st.shuffle(&mut hosts);
    o.props
        .insert("resourcePool".into(), mo("ResourcePool", &root));
    o.props.insert("host".into(), json!(hosts));
    o.props.insert("summary".into(), summary);
    for k in ["datastore", "network"] {
        o.props.insert(k.into(), json!([]));
    }
    st.objs.insert(id.clone(), o);
    st.add_child(folder, me.clone());
    for p in list(w, "pools") {
        let path = p
            .as_str()
            .map(String::from)
            .or_else(|| text(p, "path"))
            .ok_or("a pool without a path")?;
        let (parent_path, leaf) = path.rsplit_once('/').unwrap_or(("", &path));
        let parent = if parent_path.is_empty() {
            root.clone()
        } else {
            ids.pools
                .iter()
                .find(|(n, _)| n == parent_path)
                .map(|(_, i)| i.clone())
                .ok_or_else(|| format!("pool {path}: no pool {parent_path} before it"))?
        };
        let pid = st.id_of(p, "resgroup");
        pool(st, &pid, leaf, mo("ResourcePool", &parent), &me);
        let mut kids: Vec<Value> = st
            .refs(&parent, "resourcePool")
            .iter()
            .map(|k| mo("ResourcePool", k))
            .collect();
        kids.push(mo("ResourcePool", &pid));
        st.set(&parent, "resourcePool", json!(kids));
        ids.pools.push((path.clone(), pid));
    }
    Ok(())
}

fn datastore(
    st: &mut State,
    ids: &mut Ids,
    folder: &str,
    state_dir: &Path,
    w: &Value,
) -> Result<(), String> {
    let name = text(w, "name").ok_or("a datastore without a name")?;
    let export = w["export"].as_bool().unwrap_or(false);
    let kind = match text(w, "type").as_deref() {
        Some("nfs41") => "NFS41",
        Some("vsan") => "vsan",
        Some("nfs") => "NFS",
        None if export => "NFS",
        None | Some("vmfs") => "VMFS",
        Some(other) => return Err(format!("datastore {name}: unknown type {other:?}")),
    };
    let id = st.id_of(w, "datastore");
    let root = if export {
        state_dir.join("export")
    } else {
        state_dir.join("datastore").join(escape_name(&name))
    };
    std::fs::create_dir_all(&root).map_err(|e| format!("{}: {e}", root.display()))?;
    let wanted: Vec<&str> = list(w, "hosts").iter().filter_map(Value::as_str).collect();
    let hosts: Vec<String> = ids
        .hosts
        .iter()
        .filter(|(n, _)| wanted.is_empty() || wanted.contains(&n.as_str()))
        .map(|(_, h)| h.clone())
        .collect();
    let capacity = w["capacity_gib"].as_u64().unwrap_or(2048) * 1024 * 1024 * 1024;
    let accessible = w["accessible"].as_bool().unwrap_or(true);
    let access = text(w, "access").unwrap_or_else(|| "readWrite".into());
    let maintenance = text(w, "maintenance").unwrap_or_else(|| "normal".into());
    let used = w["used_gib"].as_u64().unwrap_or(0) * 1024 * 1024 * 1024;
    let url = format!("ds:///vmfs/volumes/{id}/");
    let mut o = entity("Datastore", &name, mo("Folder", folder));
    let mounts: Vec<Value> = hosts
        .iter()
        .map(|h| json!({ "key": mo("HostSystem", h), "mountInfo": { "path": format!("/vmfs/volumes/{id}"), "accessMode": access, "mounted": true, "accessible": accessible } }))
        .collect();
    let mut info = json!({ "name": name, "url": url, "freeSpace": capacity, "maxFileSize": 70_368_744_177_664u64, "maxVirtualDiskCapacity": 68_169_720_922_112u64, "maxMemoryFileSize": 70_368_744_177_664u64, "timestamp": "2024-03-01T08:00:00Z" });
    if kind.starts_with("NFS") {
        info["_t"] = json!("NasDatastoreInfo");
        info["nas"] = json!({ "type": kind, "name": name, "capacity": capacity, "remoteHost": "nfs.lab.example", "remotePath": "/export", "remoteHostNames": ["nfs.lab.example"], "securityType": "AUTH_SYS" });
    } else {
        info["_t"] = json!("VmfsDatastoreInfo");
        info["maxPhysicalRDMFileSize"] = json!(70_368_744_177_664u64);
        info["maxVirtualRDMFileSize"] = json!(68_169_720_922_112u64);
        info["vmfs"] = json!({ "type": "VMFS", "name": name, "capacity": capacity, "blockSizeMb": 1, "maxBlocks": 63_963_136, "majorVersion": 6, "version": "6.82", "uuid": id, "extent": [{ "diskName": "naa.600a098038303053453f463045727a66", "partition": 1 }], "vmfsUpgradable": false, "ssd": true, "local": hosts.len() == 1 });
    }
    o.props.insert("info".into(), info);
    o.props.insert("summary".into(), json!({ "datastore": mo("Datastore", &id), "name": escape_name(&name), "url": url, "capacity": capacity, "freeSpace": capacity, "uncommitted": 0, "accessible": accessible, "multipleHostAccess": hosts.len() > 1, "type": kind, "maintenanceMode": maintenance }));
    o.props.insert("host".into(), json!(mounts));
    o.props.insert(
        "browser".into(),
        mo(
            "HostDatastoreBrowser",
            &id.replace("datastore", "datastoreBrowser-datastore"),
        ),
    );
    o.props.insert("capability".into(), json!({ "directoryHierarchySupported": true, "rawDiskMappingsSupported": kind == "VMFS", "perFileThinProvisioningSupported": true, "storageIORMSupported": true, "nativeSnapshotSupported": false }));
    st.objs.insert(id.clone(), o);
    st.add_child(folder, mo("Datastore", &id));
    ids.stores.insert(name.clone(), id.clone());
    st.stores.insert(
        id,
        Store {
            name,
            root,
            kind: kind.into(),
            hosts,
            accessible,
            maintenance,
            capacity,
            used,
            access,
        },
    );
    Ok(())
}

fn datacenter(st: &mut State, state_dir: &Path, about: &Value, w: &Value) -> Result<Ids, String> {
    let name = text(w, "name").ok_or("a datacenter without a name")?;
    let dc = st.id_of(w, "datacenter");
    let num = dc.trim_start_matches("datacenter-").to_string();
    let me = mo("Datacenter", &dc);
    let [vmf, hostf, storef, netf] =
        ["v", "h", "s", "n"].map(|k| format!("group-{k}{num}{}", if k == "v" { "" } else { "0" }));
    st.folder(&vmf, "vm", me.clone(), VM_TYPES);
    st.folder(&hostf, "host", me.clone(), &["Folder", "ComputeResource"]);
    st.folder(
        &storef,
        "datastore",
        me.clone(),
        &["Folder", "Datastore", "StoragePod"],
    );
    st.folder(
        &netf,
        "network",
        me.clone(),
        &["Folder", "Network", "DistributedVirtualSwitch"],
    );
    let mut o = entity("Datacenter", &name, mo("Folder", &st.content("rootFolder")));
    for (k, f) in [
        ("vmFolder", &vmf),
        ("hostFolder", &hostf),
        ("datastoreFolder", &storef),
        ("networkFolder", &netf),
    ] {
        o.props.insert(k.into(), mo("Folder", f));
    }
    st.objs.insert(dc.clone(), o);
    let root = st.content("rootFolder");
    st.add_child(&root, me);
    let mut ids = Ids {
        name,
        vm_folder: vmf,
        network_folder: netf.clone(),
        ..Ids::default()
    };
    for c in list(w, "clusters") {
        compute(st, &mut ids, &hostf, about, c, true)?;
    }
    for h in list(w, "hosts") {
        compute(st, &mut ids, &hostf, about, h, false)?;
    }
    for d in list(w, "datastores") {
        datastore(st, &mut ids, &storef, state_dir, d)?;
    }
    for p in list(w, "datastore_clusters") {
        super::pods::add(st, &ids, &storef, p)?;
    }
    for n in list(w, "standard_portgroups") {
        super::net::standard(st, &ids, n)?;
    }
    for s in list(w, "switches") {
        super::net::switch(st, &ids, s)?;
    }
    for n in list(w, "opaque_networks") {
        super::net::opaque(st, &ids, n)?;
    }
    for f in list(w, "vm_folders") {
        vm_folder(st, &mut ids, f.as_str().unwrap_or(""));
    }
    // What hosts and compute resources see.
    let stores: Vec<(String, Vec<String>)> = ids
        .stores
        .values()
        .map(|s| {
            (
                s.clone(),
                st.stores
                    .get(s)
                    .map(|x| x.hosts.clone())
                    .unwrap_or_default(),
            )
        })
        .collect();
    let mut nets: Vec<Value> = st
        .refs(&netf, "childEntity")
        .iter()
        .filter_map(|n| Some(mo(&st.objs.get(n)?.ty, n)))
        .filter(|v| v["$mo"][0] != "VmwareDistributedVirtualSwitch")
        .collect();
    st.shuffle(&mut nets);
    let mut all: Vec<Value> = ids.stores.values().map(|s| mo("Datastore", s)).collect();
    st.shuffle(&mut all);
    for (_, h) in &ids.hosts {
        let mine: Vec<Value> = all
            .iter()
            .filter(|s| {
                stores
                    .iter()
                    .any(|(id, hosts)| s["$mo"][1] == id.as_str() && hosts.contains(h))
            })
            .cloned()
            .collect();
        st.set(h, "datastore", json!(mine));
        let sees: Vec<Value> = nets
            .iter()
            .filter(|n| {
                st.refs(n["$mo"][1].as_str().unwrap_or(""), "host")
                    .contains(h)
            })
            .cloned()
            .collect();
        st.set(h, "network", json!(sees));
    }
    for c in st.refs(&hostf, "childEntity") {
        for k in ["datastore", "network"] {
            let mut seen: Vec<Value> = vec![];
            for h in st.refs(&c, "host") {
                let of: Vec<Value> = st
                    .objs
                    .get(&h)
                    .and_then(|o| o.props.get(k))
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                seen.extend(
                    of.into_iter()
                        .filter(|v| !seen.contains(v))
                        .collect::<Vec<_>>(),
                );
            }
            st.set(&c, k, json!(seen));
        }
    }
    st.set(&dc, "datastore", json!(all));
    st.set(&dc, "network", json!(nets));
    Ok(ids)
}

/// Builds the whole state of a world.
///
/// # Errors
/// A text that says what in the world is wrong.
pub fn build(w: &Value, state_dir: &Path, seed: u64) -> Result<State, String> {
    let mut st = State {
        rng: seed ^ 0x0076_6365_6e74_6572,
        next_id: 1000,
        task_faults: vec![],
        cfg: config(w)?,
        ..State::default()
    };
    let about = about(w);
    let mut content = json!({ "_t": "ServiceContent", "about": about });
    for (prop, ty, id) in setup::content(&about) {
        content[*prop] = mo(ty, id);
        if *prop != "rootFolder" {
            st.objs.insert(
                (*id).into(),
                Obj {
                    ty: (*ty).into(),
                    props: Map::new(),
                },
            );
        }
    }
    let mut si = Obj {
        ty: "ServiceInstance".into(),
        props: Map::new(),
    };
    si.props.insert("content".into(), content);
    st.objs.insert("ServiceInstance".into(), si);
    let empty: Vec<Value> = vec![];
    st.set(&st.content("taskManager"), "recentTask", json!(empty));
    st.set(&st.content("taskManager"), "maxCollector", json!(32));
    st.set(
        &st.content("scheduledTaskManager"),
        "scheduledTask",
        json!(empty),
    );
    st.set(&st.content("customFieldsManager"), "field", json!(empty));
    st.set(&st.content("sessionManager"), "defaultLocale", json!("en"));
    st.folder(
        &st.content("rootFolder"),
        "Datacenters",
        Value::Null,
        &["Folder", "Datacenter"],
    );
    let mut dcs = vec![];
    for d in list(w, "datacenters") {
        dcs.push(datacenter(&mut st, state_dir, &about, d)?);
    }
    for v in list(w, "vms") {
        super::vms::add(&mut st, &mut dcs, v, seed)?;
    }
    super::render::relink(&mut st);
    let folders: Vec<String> = st
        .objs
        .iter()
        .filter(|(_, o)| o.ty == "Folder")
        .map(|(k, _)| k.clone())
        .collect();
    for f in folders {
        let mut kids = st
            .objs
            .get(&f)
            .and_then(|o| o.props.get("childEntity"))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        st.shuffle(&mut kids);
        st.set(&f, "childEntity", json!(kids));
    }
    for p in list(w, "no_permission") {
        st.unreadable.push((
            text(p, "object").unwrap_or_else(|| "*".into()),
            text(p, "property").ok_or("no_permission without a property")?,
        ));
    }
    Ok(st)
}
