//! Virtual machines from their short descriptions in the world file.
use super::build::{Ids, list, text, vm_folder};
use super::model::{Ctrl, Disk, Nic, Snap, State, Vm, escape_name, splitmix};
use super::xml::mo;
use super::{files, render};
use serde_json::{Value, json};

const KNOWN: &[&str] = &[
    "name",
    "moid",
    "uuid",
    "instance_uuid",
    "datacenter",
    "folder",
    "host",
    "pool",
    "datastore",
    "guest_id",
    "hw",
    "cpus",
    "cores_per_socket",
    "memory_mb",
    "firmware",
    "secure_boot",
    "vtpm",
    "disks",
    "nics",
    "cdrom",
    "tools_iso",
    "snapshots",
    "tools",
    "ignores_shutdown",
    "shutdown_ms",
    "power",
    "annotation",
    "template",
    "question",
    "boot_disk",
    "encrypted",
    "connection",
    "disabled_methods",
    "props",
    "hostname",
    "dir",
    "comment",
];
const KNOWN_DISK: &[&str] = &[
    "controller",
    "bus",
    "unit",
    "size_mib",
    "bytes",
    "datastore",
    "mode",
    "rdm",
    "sharing",
    "thin",
    "bus_sharing",
    "file",
    "uuid",
    "linked",
];
const KNOWN_NIC: &[&str] = &["model", "mac", "portgroup", "address_type", "connected"];

fn check(v: &Value, known: &[&str], what: &str) -> Result<(), String> {
    match v
        .as_object()
        .into_iter()
        .flatten()
        .find(|(k, _)| !known.contains(&k.as_str()))
    {
        Some((k, _)) => Err(format!("{what}: unknown key {k:?}")),
        None => Ok(()),
    }
}

/// Wire type, first device key, keys per bus, of a controller kind; and the descriptor's adapter type.
/// Source: device keys as real servers give them, see vSphere API reference, VirtualDevice.key.
fn ctrl_kind(kind: &str) -> Option<(&'static str, i64, &'static str)> {
    Some(match kind {
        "pvscsi" => ("ParaVirtualSCSIController", 1000, "lsilogic"),
        "lsilogic" => ("VirtualLsiLogicController", 1000, "lsilogic"),
        "lsisas" => ("VirtualLsiLogicSASController", 1000, "lsilogic"),
        "buslogic" => ("VirtualBusLogicController", 1000, "buslogic"),
        "sata" => ("VirtualAHCIController", 15000, "lsilogic"),
        "nvme" => ("VirtualNVMEController", 31000, "lsilogic"),
        "ide" => ("VirtualIDEController", 200, "ide"),
        _ => return None,
    })
}

fn disk_key(ctrl: i64, bus: i64, unit: i64) -> i64 {
    match ctrl {
        1000..2000 => 2000 + bus * 16 + unit,
        15000..16000 => 16000 + bus * 30 + unit,
        31000..32000 => 32000 + bus * 15 + unit,
        _ => 3000 + bus * 2 + unit,
    }
}

fn uuid_of(rng: &mut u64, prefix: &str) -> String {
    let r = format!("{prefix}{:016x}{:016x}", splitmix(rng), splitmix(rng));
    let p = |a: usize, b: usize| r.get(a..b).unwrap_or("");
    format!(
        "{}-{}-{}-{}-{}",
        p(0, 8),
        p(8, 12),
        p(12, 16),
        p(16, 20),
        p(20, 32)
    )
}

/// powerState from a short or full word.
pub fn power(word: &str) -> Option<&'static str> {
    Some(match word {
        "on" | "poweredOn" => "poweredOn",
        "off" | "poweredOff" => "poweredOff",
        "suspended" => "suspended",
        _ => return None,
    })
}

/// A question: a text, or text and choices.
pub fn question(v: &Value) -> Option<(String, Vec<String>)> {
    let choices = |q: &Value| {
        let c: Vec<String> = list(q, "choices")
            .iter()
            .filter_map(Value::as_str)
            .map(String::from)
            .collect();
        if c.is_empty() {
            vec!["Cancel".into(), "I moved it".into(), "I copied it".into()]
        } else {
            c
        }
    };
    match v {
        Value::String(s) => Some((s.clone(), choices(&Value::Null))),
        Value::Object(_) => Some((text(v, "text").unwrap_or_default(), choices(v))),
        _ => None,
    }
}

fn disks(vm: &mut Vm, ids: &Ids, w: &Value, rng: &mut u64, what: &str) -> Result<(), String> {
    for (i, d) in list(w, "disks").iter().enumerate() {
        let what = format!("{what}, disk {i}");
        check(d, KNOWN_DISK, &what)?;
        let kind = text(d, "controller").unwrap_or_else(|| "pvscsi".into());
        let (ty, base, adapter) =
            ctrl_kind(&kind).ok_or_else(|| format!("{what}: unknown controller {kind:?}"))?;
        let bus = d["bus"].as_i64().unwrap_or(0);
        let ctrl = base + bus;
        match vm.ctrls.iter().find(|c| c.key == ctrl) {
            Some(c) if c.ty != ty => {
                return Err(format!("{what}: bus {bus} is already a {}", c.ty));
            }
            Some(_) => {}
            None => vm.ctrls.push(Ctrl {
                key: ctrl,
                ty,
                bus,
                sharing: text(d, "bus_sharing").unwrap_or_else(|| "noSharing".into()),
            }),
        }
        let unit = d["unit"].as_i64().unwrap_or_else(|| {
            (0..)
                .find(|u| {
                    (base != 1000 || *u != 7)
                        && !vm.disks.iter().any(|x| x.ctrl == ctrl && x.unit == *u)
                })
                .unwrap_or(0)
        });
        if base == 1000 && unit == 7 {
            return Err(format!("{what}: SCSI unit 7 is the controller's own"));
        }
        let key = disk_key(base, bus, unit);
        if vm.disks.iter().any(|x| x.key == key) {
            return Err(format!("{what}: its place is taken"));
        }
        let ds = match text(d, "datastore") {
            Some(n) => ids
                .stores
                .get(&n)
                .cloned()
                .ok_or_else(|| format!("{what}: no datastore {n:?}"))?,
            None => vm.ds.clone(),
        };
        let rdm = match text(d, "rdm").as_deref() {
            Some("physical") => Some("physicalMode".to_string()),
            Some("virtual") => Some("virtualMode".to_string()),
            Some(x) => return Err(format!("{what}: rdm {x:?} is neither physical nor virtual")),
            None => None,
        };
        let sharing = match text(d, "sharing").as_deref() {
            Some("multiwriter" | "sharingMultiWriter") => "sharingMultiWriter",
            _ => "sharingNone",
        };
        let bytes = d["bytes"]
            .as_u64()
            .unwrap_or_else(|| d["size_mib"].as_u64().unwrap_or(2) * 1024 * 1024);
        let uuid = text(d, "uuid").unwrap_or_else(|| uuid_of(rng, "6000C29"));
        // The file name is settled below, when the folder on that datastore is known.
        vm.disks.push(Disk {
            key,
            n: i + 1,
            ctrl,
            unit,
            bytes,
            ds,
            layers: vec![text(d, "file").unwrap_or_default()],
            mode: text(d, "mode").unwrap_or_else(|| {
                if rdm.as_deref() == Some("physicalMode") {
                    "independent_persistent"
                } else {
                    "persistent"
                }
                .into()
            }),
            sharing: sharing.into(),
            thin: d["thin"].as_bool().unwrap_or(true),
            uuid,
            rdm,
            adapter,
        });
    }
    Ok(())
}

fn nics(vm: &mut Vm, ids: &Ids, w: &Value, rng: &mut u64, what: &str) -> Result<(), String> {
    for (i, n) in list(w, "nics").iter().enumerate() {
        check(n, KNOWN_NIC, &format!("{what}, nic {i}"))?;
        let model = text(n, "model").unwrap_or_else(|| "vmxnet3".into());
        let ty = match model.as_str() {
            "vmxnet3" => "VirtualVmxnet3",
            "vmxnet2" => "VirtualVmxnet2",
            "e1000" => "VirtualE1000",
            "e1000e" => "VirtualE1000e",
            "pcnet32" => "VirtualPCNet32",
            "sriov" => "VirtualSriovEthernetCard",
            other => return Err(format!("{what}: unknown NIC model {other:?}")),
        };
        let name =
            text(n, "portgroup").ok_or_else(|| format!("{what}: a NIC without a portgroup"))?;
        let network = ids
            .networks
            .borrow()
            .get(&name)
            .cloned()
            .ok_or_else(|| format!("{what}: no portgroup {name:?}"))?;
        let r = splitmix(rng);
        let mac = text(n, "mac")
            .unwrap_or_else(|| {
                format!(
                    "00:50:56:{:02x}:{:02x}:{:02x}",
                    0x80 + (r >> 16) % 0x40,
                    (r >> 8) & 0xff,
                    r & 0xff
                )
            })
            .to_lowercase();
        let address_type = text(n, "address_type").unwrap_or_else(|| {
            if n["mac"].is_string() {
                "manual"
            } else {
                "assigned"
            }
            .into()
        });
        vm.nics.push(Nic {
            key: 4000 + i as i64,
            ty,
            mac,
            address_type,
            network,
            connected: n["connected"].as_bool().unwrap_or(true),
        });
    }
    Ok(())
}

/// Adds a virtual machine of the world to the inventory, files included.
///
/// # Errors
/// A text that says what in the description is wrong.
pub fn add(st: &mut State, dcs: &mut [Ids], w: &Value, seed: u64) -> Result<(), String> {
    let name = text(w, "name").ok_or("a vm without a name")?;
    let what = format!("vm {name}");
    check(w, KNOWN, &what)?;
    let ids = match text(w, "datacenter") {
        Some(n) => dcs
            .iter_mut()
            .find(|d| d.name == n)
            .ok_or_else(|| format!("{what}: no datacenter {n:?}"))?,
        None => dcs
            .first_mut()
            .ok_or_else(|| format!("{what}: the world has no datacenter"))?,
    };
    let moid = st.id_of(w, "vm");
    if st.objs.contains_key(&moid) {
        return Err(format!("{what}: {moid} exists already"));
    }
    // What identifies a guest does not depend on the seed of a run, only on its id.
    let mut fixed = moid.bytes().fold(0xcbf2_9ce4_8422_2325u64, |a, b| {
        (a ^ u64::from(b)).wrapping_mul(1_099_511_628_211)
    });
    let host = match text(w, "host") {
        Some(n) => ids
            .hosts
            .iter()
            .find(|(h, _)| *h == n)
            .ok_or_else(|| format!("{what}: no host {n:?}"))?,
        None => ids
            .hosts
            .first()
            .ok_or_else(|| format!("{what}: its datacenter has no host"))?,
    };
    let pool = match text(w, "pool") {
        Some(p) => ids
            .pools
            .iter()
            .find(|(n, _)| *n == p)
            .map(|(_, i)| i.clone())
            .ok_or_else(|| format!("{what}: no pool {p:?}"))?,
        None => ids.root_pool.get(&host.1).cloned().unwrap_or_default(),
    };
    let ds = match text(w, "datastore") {
        Some(n) => ids
            .stores
            .get(&n)
            .cloned()
            .ok_or_else(|| format!("{what}: no datastore {n:?}"))?,
        None => ids
            .stores
            .values()
            .next()
            .cloned()
            .ok_or_else(|| format!("{what}: its datacenter has no datastore"))?,
    };
    let word = text(w, "power").unwrap_or_else(|| "on".into());
    let tools = text(w, "tools").unwrap_or_else(|| "running".into());
    if !["running", "not_running", "not_installed", "scripts"].contains(&tools.as_str()) {
        return Err(format!(
            "{what}: tools {tools:?} is none of running, not_running, not_installed, scripts"
        ));
    }
    let template = w["template"].as_bool().unwrap_or(false);
    let state = power(if template { "off" } else { &word })
        .ok_or_else(|| format!("{what}: power {word:?} is none of on, off, suspended"))?;
    let host_id = host.1.clone();
    let cpus = w["cpus"].as_i64().unwrap_or(1);
    let mut vm = Vm {
        moid: moid.clone(),
        uuid: text(w, "uuid").unwrap_or_else(|| uuid_of(&mut fixed, "42")),
        instance_uuid: text(w, "instance_uuid").unwrap_or_else(|| uuid_of(&mut fixed, "50")),
        host: host_id,
        pool,
        ds: ds.clone(),
        template,
        power: state.into(),
        tools,
        ignores_shutdown: w["ignores_shutdown"].as_bool().unwrap_or(false),
        asked: false,
        shutdown_ms: w["shutdown_ms"].as_u64().unwrap_or(400),
        annotation: text(w, "annotation").unwrap_or_default(),
        guest_id: text(w, "guest_id").unwrap_or_else(|| "debian12_64Guest".into()),
        hostname: text(w, "hostname").unwrap_or_else(|| name.to_lowercase().replace(' ', "-")),
        hw: w["hw"].as_i64().unwrap_or(19),
        cpus,
        cores: w["cores_per_socket"].as_i64().unwrap_or(1),
        memory_mb: w["memory_mb"].as_i64().unwrap_or(1024),
        firmware: text(w, "firmware").unwrap_or_else(|| "bios".into()),
        secure_boot: w["secure_boot"].as_bool().unwrap_or(false),
        vtpm: w["vtpm"].as_bool().unwrap_or(false),
        encrypted: w["encrypted"].as_bool().unwrap_or(false),
        cdrom: match &w["cdrom"] {
            Value::Null | Value::Bool(false) => None,
            Value::Bool(true) => Some((String::new(), false)),
            c => Some((
                text(c, "iso").unwrap_or_default(),
                c["connected"].as_bool().unwrap_or(true),
            )),
        },
        tools_iso: w["tools_iso"].as_bool().unwrap_or(false),
        question: question(&w["question"]),
        connection: text(w, "connection").unwrap_or_else(|| "connected".into()),
        disabled: list(w, "disabled_methods")
            .iter()
            .filter_map(Value::as_str)
            .map(String::from)
            .collect(),
        overrides: w["props"].as_object().cloned().unwrap_or_default(),
        shuffle: st.random(),
        boot_time: (state == "poweredOn").then(|| "2024-03-02T10:00:00Z".to_string()),
        name,
        ..Vm::default()
    };
    if vm.tools_iso && vm.cdrom.is_none() {
        vm.cdrom = Some((String::new(), true));
    }
    if vm.cores < 1 || vm.cpus % vm.cores != 0 {
        return Err(format!(
            "{what}: {} CPUs do not divide by {} cores per socket",
            vm.cpus, vm.cores
        ));
    }
    vm.folder = vm_folder(st, ids, &text(w, "folder").unwrap_or_default());
    disks(&mut vm, ids, w, &mut fixed, &what)?;
    nics(&mut vm, ids, w, &mut fixed, &what)?;
    if let Some(n) = w["boot_disk"].as_u64() {
        let d = vm
            .disks
            .get(usize::try_from(n).unwrap_or(usize::MAX))
            .ok_or_else(|| format!("{what}: boot_disk {n} is no disk"))?;
        vm.boot_disk = Some(d.key);
    }
    place_files(st, &mut vm, w);
    for s in list(w, "snapshots") {
        let n = text(s, "name")
            .or_else(|| s.as_str().map(String::from))
            .ok_or_else(|| format!("{what}: a snapshot without a name"))?;
        let id = st.new_id("snapshot");
        add_snapshot(
            &mut vm,
            id,
            &n,
            &text(s, "description").unwrap_or_default(),
            "2024-04-01T12:00:00Z",
        );
    }
    files::create_all(st, &vm, seed).map_err(|e| format!("{what}: {e}"))?;
    files::sync_runtime(st, &mut vm).map_err(|e| format!("{what}: {e}"))?;
    let folder = vm.folder.clone();
    st.vms.insert(moid.clone(), vm);
    render::refresh_vm(st, &moid);
    st.add_child(&folder, mo("VirtualMachine", &moid));
    Ok(())
}

/// Folder and file names of a new virtual machine.
fn place_files(st: &State, vm: &mut Vm, w: &Value) {
    let name = escape_name(&vm.name);
    let taken = |ds: &str, dir: &str| st.vms.values().any(|v| v.ds == ds && v.dir == dir);
    let root = |ds: &str| {
        st.stores
            .get(ds)
            .map(|s| s.root.clone())
            .unwrap_or_default()
    };
    vm.dir = text(w, "dir")
        .unwrap_or_else(|| files::free_dir(&root(&vm.ds), &name, &|d| taken(&vm.ds, d)));
    vm.stem.clone_from(&name);
    let ending = if vm.template { ".vmtx" } else { ".vmx" };
    vm.aux = [ending, ".nvram", ".vmsd", "vmware.log"]
        .map(String::from)
        .to_vec();
    let mut dirs: Vec<(String, String)> = vec![(vm.ds.clone(), vm.dir.clone())];
    let mut count = std::collections::BTreeMap::<String, usize>::new();
    for d in &mut vm.disks {
        let dir = match dirs.iter().find(|(ds, _)| *ds == d.ds) {
            Some((_, dir)) => dir.clone(),
            None => {
                let dir = files::free_dir(&root(&d.ds), &name, &|x| taken(&d.ds, x));
                dirs.push((d.ds.clone(), dir.clone()));
                dir
            }
        };
        // Source: docs/vsphere-facts.md section 3: first `<vm>.vmdk`, then `<vm>_1.vmdk` ...; each datastore counts anew.
        let n = count.entry(d.ds.clone()).or_default();
        let given = d.layers.first().filter(|l| !l.is_empty()).cloned();
        let file = given.unwrap_or_else(|| {
            if *n == 0 {
                name.clone()
            } else {
                format!("{name}_{n}")
            }
        });
        *n += 1;
        d.layers = vec![if file.contains('/') {
            file
        } else {
            format!("{dir}/{}.vmdk", file.trim_end_matches(".vmdk"))
        }];
        // A delta without a snapshot, as linked clones and forgotten backups leave it.
        let linked = list(w, "disks")
            .get(d.n - 1)
            .is_some_and(|x| x["linked"] == json!(true));
        if linked
            && let Some(base) = d
                .layers
                .first()
                .map(|l| l.trim_end_matches(".vmdk").to_string())
        {
            d.layers.push(format!("{base}-000001.vmdk"));
        }
    }
}

/// Adds a snapshot to the chain: every dependent disk gets a further layer.
pub fn add_snapshot(vm: &mut Vm, moid: String, name: &str, description: &str, time: &str) {
    let id = vm.snaps.last().map_or(1, |s| s.id + 1);
    for d in &mut vm.disks {
        // Source: vSphere API reference, VirtualDiskMode: independent disks take no part in snapshots.
        if d.mode.starts_with("independent") {
            continue;
        }
        let base = d
            .layers
            .first()
            .map(|l| l.trim_end_matches(".vmdk").to_string())
            .unwrap_or_default();
        let free = (1..)
            .map(|n| format!("{base}-{n:06}.vmdk"))
            .find(|l| !d.layers.contains(l));
        d.layers.extend(free);
    }
    vm.aux.push(format!("-Snapshot{id}.vmsn"));
    vm.snaps.push(Snap {
        moid,
        name: name.into(),
        description: description.into(),
        id,
        time: time.into(),
        power: vm.power.clone(),
    });
}

/// A virtual machine for `dump`.
pub fn dump(st: &State, vm: &Vm) -> Value {
    let disks: Vec<Value> = vm
        .disks
        .iter()
        .map(|d| {
            let last = d.layers.len().saturating_sub(1);
            let kind = st.stores.get(&d.ds).map_or("", |s| s.kind.as_str());
            let root = st.stores.get(&d.ds).map(|s| s.root.display().to_string()).unwrap_or_default();
            json!({ "key": d.key, "label": format!("Hard disk {}", d.n), "controller": d.ctrl, "unit": d.unit, "bytes": d.bytes, "datastore": st.stores.get(&d.ds).map(|s| &s.name), "mode": d.mode,
                "rdm": d.rdm, "descriptors": d.layers, "data": files::extent(d, last, kind), "file": format!("{root}/{}", files::extent(d, last, kind)), "uuid": d.uuid })
        })
        .collect();
    let nics: Vec<Value> = vm
        .nics
        .iter()
        .map(|n| json!({ "key": n.key, "mac": n.mac, "network": n.network, "model": n.ty }))
        .collect();
    json!({ "moid": vm.moid, "name": vm.name, "power": vm.power, "asked": vm.asked, "annotation": vm.annotation, "datastore": st.stores.get(&vm.ds).map(|s| &s.name), "dir": vm.dir, "vmx": format!("{}/{}.vmx", vm.dir, vm.stem),
        "uuid": vm.uuid, "instance_uuid": vm.instance_uuid, "template": vm.template, "host": vm.host, "pool": vm.pool, "disks": disks, "nics": nics,
        "snapshots": vm.snaps.iter().map(|s| &s.name).collect::<Vec<_>>(), "tools": vm.tools, "firmware": vm.firmware, "question": vm.question.as_ref().map(|q| &q.0) })
}
