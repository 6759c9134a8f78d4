//! RelocateVM_Task and CheckRelocate_Task.
use super::Inner;
use super::fault::Fault;
use super::files;
use super::model::{Disk, State, Vm, now};
use super::render::{refresh_vm, relink};
use super::tasks;
use super::xml::{mo, mo_id};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where everything shall lie.
#[derive(Clone, Debug)]
pub struct Target {
    home: String,
    disks: BTreeMap<i64, String>,
    thin: BTreeMap<i64, bool>,
    host: String,
    pool: String,
}

/// Reads a VirtualMachineRelocateSpec.
///
/// # Errors
/// ManagedObjectNotFound, InvalidArgument, NotSupported.
pub fn target(st: &State, vm: &Vm, spec: &Value) -> Result<Target, Fault> {
    let known = |v: &Value| -> Result<Option<String>, Fault> {
        match super::xml::mo_of(v) {
            None => Ok(None),
            Some((_, id)) if st.objs.contains_key(id) => Ok(Some(id.to_string())),
            Some((ty, id)) => Err(Fault::not_found(ty, id)),
        }
    };
    for k in ["service", "deviceChange", "cryptoSpec", "folder"] {
        if spec
            .get(k)
            .is_some_and(|v| !v.is_null() && v.as_array().is_none_or(|a| !a.is_empty()))
        {
            return Err(Fault::new(
                "NotSupported",
                &format!("labsim does not relocate with spec.{k}"),
                json!({}),
            ));
        }
    }
    let ds = known(&spec["datastore"])?;
    let named = known(&spec["host"])?;
    let pool = known(&spec["pool"])?.unwrap_or_else(|| vm.pool.clone());
    let host = match named {
        Some(h) => h,
        None => host_of_pool(st, vm, &pool)?,
    };
    let home = ds.clone().unwrap_or_else(|| vm.ds.clone());
    let mut t = Target {
        home,
        disks: BTreeMap::new(),
        thin: BTreeMap::new(),
        host,
        pool,
    };
    for d in &vm.disks {
        t.disks
            .insert(d.key, ds.clone().unwrap_or_else(|| d.ds.clone()));
    }
    for l in spec["disk"].as_array().into_iter().flatten() {
        let key = l["diskId"].as_i64().unwrap_or(-1);
        let to = known(&l["datastore"])?
            .ok_or_else(|| Fault::invalid_argument("spec.disk.datastore"))?;
        if t.disks.insert(key, to).is_none() {
            return Err(Fault::invalid_argument("spec.disk.diskId"));
        }
        if let Some(thin) = l["diskBackingInfo"]["thinProvisioned"].as_bool() {
            t.thin.insert(key, thin);
        }
    }
    match spec["transform"].as_str() {
        Some("sparse") => vm
            .disks
            .iter()
            .for_each(|d| _ = t.thin.entry(d.key).or_insert(true)),
        Some("flat") => vm
            .disks
            .iter()
            .for_each(|d| _ = t.thin.entry(d.key).or_insert(false)),
        _ => {}
    }
    Ok(t)
}

/// The host where none is named: the present one, or one that DRS chooses in the pool's cluster.
/// Source: vSphere Web Services API, VirtualMachineRelocateSpec.host.
fn host_of_pool(st: &State, vm: &Vm, pool: &str) -> Result<String, Fault> {
    let up = |id: &str, prop: &str| {
        let v = st.objs.get(id).and_then(|o| o.props.get(prop));
        v.and_then(mo_id).map(String::from)
    };
    let owner = up(pool, "owner");
    let Some(owner) = owner.filter(|o| Some(o) != up(&vm.host, "parent").as_ref()) else {
        return Ok(vm.host.clone());
    };
    let drs = st
        .objs
        .get(&owner)
        .and_then(|o| o.props.get("configuration"));
    let mut hosts = st.refs(&owner, "host");
    hosts.sort();
    if hosts.len() > 1 && drs.is_none_or(|d| d["drsConfig"]["enabled"] != true) {
        return Err(Fault::invalid_argument("spec.host"));
    }
    let usable = hosts.into_iter().find(|h| {
        let run = st.objs.get(h).and_then(|o| o.props.get("runtime"));
        run.is_some_and(|r| r["connectionState"] == "connected" && r["inMaintenanceMode"] != true)
    });
    usable.ok_or_else(|| Fault::invalid_argument("spec.pool"))
}

/// Where each disk goes.
pub fn places(t: &Target) -> impl Iterator<Item = (i64, &str)> {
    t.disks.iter().map(|(k, ds)| (*k, ds.as_str()))
}

/// The bytes that come to a datastore.
pub fn bytes_to(vm: &Vm, t: &Target, store: &str) -> u64 {
    vm.disks
        .iter()
        .filter(|d| {
            d.rdm.is_none() && d.ds != store && t.disks.get(&d.key).is_some_and(|s| s == store)
        })
        .map(|d| d.bytes)
        .sum()
}

fn not_supported(msg: &str) -> Fault {
    Fault::new("NotSupported", msg, json!({}))
}

/// What speaks against it, and what one should know: errors, warnings.
/// Source: docs/vsphere-facts.md section 3.
pub fn check(st: &State, vm: &Vm, t: &Target) -> (Vec<Fault>, Vec<Fault>) {
    let (mut errors, mut warnings) = (vec![], vec![]);
    if vm.template {
        errors.push(not_supported("The operation is not supported on the object: a template's files are moved after MarkAsVirtualMachine."));
    }
    if vm.connection != "connected" {
        errors.push(Fault::new(
            "InvalidState",
            &format!(
                "The operation is not allowed in the current connection state ({}).",
                vm.connection
            ),
            json!({}),
        ));
    }
    if let Some((text, _)) = &vm.question {
        errors.push(Fault::new(
            "QuestionPending",
            "The virtual machine is waiting for an answer to a question.",
            json!({ "text": text }),
        ));
    }
    if vm.tools_iso {
        errors.push(Fault::new(
            "ToolsInstallationInProgress",
            "Cannot migrate while VMware Tools is being installed or upgraded.",
            json!({}),
        ));
    }
    let moved: Vec<&Disk> = vm
        .disks
        .iter()
        .filter(|d| t.disks.get(&d.key) != Some(&d.ds))
        .collect();
    let on = vm.power == "poweredOn";
    if on && t.host != vm.host && st.older_cpu.contains(&t.host) && !st.older_cpu.contains(&vm.host)
    {
        errors.push(Fault::new(
            "FeatureRequirementsNotMet",
            "The target host does not support the virtual machine's current hardware requirements.",
            json!({}),
        ));
    }
    let mut need: BTreeMap<&str, u64> = BTreeMap::new();
    for d in &moved {
        let to = t.disks.get(&d.key).map(String::as_str).unwrap_or("");
        let store = st.stores.get(to);
        let label = format!("Hard disk {}", d.n);
        if d.rdm.is_some() && store.is_some_and(|s| s.kind.starts_with("NFS")) {
            let name = store.map(|s| s.name.clone()).unwrap_or_default();
            let msg = format!(
                "Virtual disk '{label}' is a mapped direct-access LUN, which is not supported on the datastore '{name}'."
            );
            errors.push(Fault::new(
                "RDMNotSupportedOnDatastore",
                &msg,
                json!({ "device": label, "datastore": mo("Datastore", to), "datastoreName": name }),
            ));
        }
        if on && d.mode == "independent_nonpersistent" {
            errors.push(Fault::new("IndependentDiskVMotionNotSupported", &format!("Virtual disk '{label}' is in independent nonpersistent mode and cannot be moved while powered on."), json!({})));
        }
        if on && d.sharing != "sharingNone" {
            errors.push(Fault::new(
                "DiskNotSupported",
                &format!("Virtual disk '{label}' is shared and cannot be moved while powered on."),
                json!({ "disk": d.key }),
            ));
        }
        if d.rdm.is_none() {
            *need.entry(to).or_default() += d.bytes;
        }
    }
    let mut stores: Vec<&String> = t
        .disks
        .values()
        .chain([&t.home])
        .filter(|s| {
            **s != vm.ds
                || vm
                    .disks
                    .iter()
                    .any(|d| t.disks.get(&d.key) == Some(s) && d.ds != **s)
        })
        .collect();
    stores.sort();
    stores.dedup();
    for id in stores {
        let Some(s) = st.stores.get(id) else {
            errors.push(Fault::new(
                "InvalidDatastore",
                "The datastore is not valid.",
                json!({}),
            ));
            continue;
        };
        let fields = json!({ "datastore": mo("Datastore", id), "name": s.name });
        if !s.accessible {
            errors.push(Fault::new(
                "InaccessibleDatastore",
                &format!("The datastore '{}' is not accessible.", s.name),
                fields,
            ));
        } else if s.maintenance != "normal" {
            errors.push(Fault::new(
                "InvalidDatastore",
                &format!("The datastore '{}' is in maintenance mode.", s.name),
                fields,
            ));
        } else if !s.hosts.contains(&t.host) {
            errors.push(Fault::new(
                "InvalidDatastore",
                &format!("The datastore '{}' is not mounted on the host.", s.name),
                fields,
            ));
        } else if s.access != "readWrite" {
            let host = st
                .objs
                .get(&t.host)
                .and_then(|o| o.props.get("name"))
                .cloned()
                .unwrap_or_default();
            let mut f = fields;
            f["host"] = host;
            errors.push(Fault::new(
                "DatastoreNotWritableOnHost",
                &format!("The datastore '{}' is read-only on the host.", s.name),
                f,
            ));
        }
        let free = st
            .objs
            .get(id)
            .and_then(|o| o.props.get("summary"))
            .and_then(|s| s["freeSpace"].as_u64())
            .unwrap_or(0);
        if need.get(id.as_str()).copied().unwrap_or(0) > free {
            errors.push(Fault::new(
                "NoDiskSpace",
                &format!("Insufficient disk space on datastore '{}'.", s.name),
                json!({ "file": "", "datastore": s.name }),
            ));
        }
    }
    if on
        && vm
            .cdrom
            .as_ref()
            .is_some_and(|(iso, connected)| *connected && !iso.is_empty())
    {
        let inner = Fault::new(
            "VirtualHardwareCompatibilityIssue",
            "Device 'CD/DVD drive 1' uses a backing that the target may not see.",
            json!({}),
        );
        warnings.push(Fault::new(
            "DisallowedMigrationDeviceAttached",
            "Device 'CD/DVD drive 1' uses an image that is not moved along.",
            json!({ "fault": inner.0 }),
        ));
    }
    (errors, warnings)
}

/// CheckRelocate_Task: the task's result is a list of CheckResult.
pub fn start_check(inner: &Arc<Inner>, st: &mut State, vm: &Vm, t: &Target, user: &str) -> Value {
    let (errors, warnings) = check(st, vm, t);
    let faults = |l: Vec<Fault>| l.into_iter().map(|f| f.0).collect::<Vec<Value>>();
    let mut r = json!({ "_t": "CheckResult", "vm": mo("VirtualMachine", &vm.moid), "host": mo("HostSystem", &t.host) });
    if !errors.is_empty() {
        r["error"] = json!(faults(errors));
    }
    if !warnings.is_empty() {
        r["warning"] = json!(faults(warnings));
    }
    let result = json!({ "$p": ["CheckResult", true, [r]] });
    tasks::start(
        inner,
        st,
        "CheckRelocate_Task",
        ("VirtualMachine", &vm.moid),
        user,
        40,
        Box::new(move |_| Ok(Some(result))),
    )
}

/// RelocateVM_Task: makes the task, works in the background.
pub fn start(inner: &Arc<Inner>, st: &mut State, vm: &Vm, t: Target, user: &str) -> Value {
    let id = tasks::create(
        st,
        "RelocateVM_Task",
        ("VirtualMachine", &vm.moid),
        user,
        true,
    );
    let mut touched: Vec<String> = vm
        .disks
        .iter()
        .filter(|d| t.disks.get(&d.key) != Some(&d.ds))
        .flat_map(|d| {
            [
                d.ds.clone(),
                t.disks.get(&d.key).cloned().unwrap_or_default(),
            ]
        })
        .collect();
    if t.home != vm.ds {
        touched.extend([vm.ds.clone(), t.home.clone()]);
    }
    touched.sort();
    touched.dedup();
    tasks::update(st, &id, |k| k.datastores = touched);
    let (inner, generation, task, moid) = (
        Arc::clone(inner),
        st.generation,
        id.clone(),
        vm.moid.clone(),
    );
    std::thread::spawn(move || {
        let result = work(&inner, generation, &task, &moid, &t);
        let mut st = inner.lock();
        if st.generation != generation {
            return;
        }
        match result {
            Err(None) => return,
            Err(Some(f)) => tasks::end(&mut st, &task, Err(f)),
            Ok(()) => tasks::end(&mut st, &task, Ok(None)),
        }
        refresh_vm(&mut st, &moid);
        relink(&mut st);
        inner.cond.notify_all();
    });
    mo("Task", &id)
}

fn work(
    inner: &Inner,
    generation: u64,
    task: &str,
    moid: &str,
    t: &Target,
) -> Result<(), Option<Fault>> {
    // Queued while too many relocations work on one of the datastores.
    // Source: docs/vsphere-facts.md section 3, "Concurrency".
    let ms = loop {
        let mut st = inner.lock();
        if st.generation != generation {
            return Err(None);
        }
        let mine = st
            .tasks
            .iter()
            .find(|k| k.id == task)
            .cloned()
            .ok_or(None)?;
        if mine.cancelled {
            return Err(Some(tasks::canceled()));
        }
        let limit = st.cfg.relocate_per_datastore;
        let place = st.tasks.iter().position(|k| k.id == task).unwrap_or(0);
        let busy = mine.datastores.iter().any(|d| {
            // First come, first served: those that wait in front of this one count, too.
            let ahead =
                |i: usize, state: &str| state == "running" || (state == "queued" && i < place);
            st.tasks
                .iter()
                .enumerate()
                .filter(|(i, k)| {
                    k.method == "RelocateVM_Task" && ahead(*i, k.state) && k.datastores.contains(d)
                })
                .count()
                >= limit
        });
        if !busy {
            tasks::update(&mut st, task, |k| {
                k.state = "running";
                k.started_at = Some(now());
            });
            inner.cond.notify_all();
            let vm = st
                .vms
                .get(moid)
                .cloned()
                .ok_or_else(|| Some(Fault::not_found("VirtualMachine", moid)))?;
            if let (Some(first), _) = {
                let (e, w) = check(&st, &vm, t);
                (e.into_iter().next(), w)
            } {
                drop(st);
                std::thread::sleep(Duration::from_millis(60));
                return Err(Some(first));
            }
            let bytes: u64 = vm
                .disks
                .iter()
                .filter(|d| t.disks.get(&d.key) != Some(&d.ds))
                .map(|d| d.bytes)
                .sum();
            // Durations vary by seed.
            let jitter = st.random() % 100;
            break st.cfg.relocate_min_ms
                + jitter
                + bytes.saturating_mul(1000) / st.cfg.relocate_bytes_per_s;
        }
        drop(st);
        std::thread::sleep(Duration::from_millis(25));
    };
    tasks::run_clock(inner, generation, task, ms)?;
    let io = |e: std::io::Error| {
        Some(Fault::new(
            "CannotAccessFile",
            &format!("labsim could not move the files: {e}"),
            json!({ "file": "" }),
        ))
    };
    let (old, mut mv, copy) = {
        let mut st = inner.lock();
        if st.generation != generation {
            return Err(None);
        }
        let vm = st.vms.get(moid).cloned().ok_or(None)?;
        // Source: docs/vsphere-facts.md section 3: storage vMotion renames, cold moves may keep old names.
        let rename = vm.power == "poweredOn"
            || match st.cfg.cold_rename.as_str() {
                "always" => true,
                "never" => false,
                _ => st.random() & 1 == 0,
            };
        let mut mv = files::plan_move(
            &st,
            &vm,
            &t.home,
            &|d| t.disks.get(&d.key).cloned().unwrap_or_else(|| d.ds.clone()),
            rename,
        );
        for d in &mut mv.vm.disks {
            let nfs = st
                .stores
                .get(&d.ds)
                .is_some_and(|s| s.kind.starts_with("NFS"));
            if let Some(thin) = t.thin.get(&d.key).filter(|_| !nfs) {
                d.thin = *thin;
            }
        }
        let copy = st.cfg.files;
        if copy {
            // The folders are taken before the lock is given back.
            let home = st.stores.get(&mv.vm.ds).map(|s| s.root.join(&mv.vm.dir));
            let dirs = home.into_iter().chain(
                mv.copies
                    .iter()
                    .filter_map(|(_, b)| b.parent().map(Into::into)),
            );
            for d in dirs {
                std::fs::create_dir_all(d).map_err(io)?;
            }
        }
        // From here on it is too late to cancel.
        tasks::update(&mut st, task, |k| k.cancelable = false);
        (vm, mv, copy)
    };
    if copy {
        files::copy_all(&mv).map_err(io)?;
    }
    let mut st = inner.lock();
    if st.generation != generation {
        return Err(None);
    }
    // What was changed meanwhile (notes, power by the guest) is kept; only places and names are new.
    let mut vm = st.vms.get(moid).cloned().ok_or(None)?;
    (vm.ds, vm.dir, vm.stem, vm.disks) = (
        mv.vm.ds.clone(),
        mv.vm.dir.clone(),
        mv.vm.stem.clone(),
        mv.vm.disks.clone(),
    );
    vm.host.clone_from(&t.host);
    vm.pool.clone_from(&t.pool);
    if copy {
        files::unlock(&st, &old);
        mv.remove.retain(|f| !mv.copies.iter().any(|(_, b)| b == f));
        files::write_texts(&st, &vm).map_err(io)?;
        files::remove_old(&mv);
        files::sync_runtime(&st, &mut vm).map_err(io)?;
    }
    st.vms.insert(moid.into(), vm);
    Ok(())
}

/// The id of the datastore that a spec names, for the request log.
pub fn spec_note(spec: &Value) -> String {
    mo_id(&spec["datastore"])
        .map(|d| format!(" to {d}"))
        .unwrap_or_default()
}
