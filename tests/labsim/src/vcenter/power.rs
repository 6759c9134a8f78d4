//! Power, guest, snapshots, configuration of a virtual machine.
use super::Inner;
use super::fault::Fault;
use super::model::{Disk, State, Vm, now};
use super::render::{refresh_vm, relink};
use super::tasks::{self, Finish};
use super::xml::mo;
use super::{files, vms};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Gives a virtual machine another power state, files included.
pub fn set_power(st: &mut State, id: &str, state: &str) {
    let Some(mut vm) = st.vms.get(id).cloned() else {
        return;
    };
    if state == "poweredOn" && vm.power != "poweredOn" {
        vm.boot_time = Some(now());
    }
    vm.power = state.into();
    vm.guest_state = None;
    // A file that cannot be written here shows as missing in layoutEx.
    let _ = files::sync_runtime(st, &mut vm);
    let _ = files::write_texts(st, &vm);
    st.vms.insert(id.into(), vm);
    refresh_vm(st, id);
}

fn io(e: std::io::Error) -> Fault {
    Fault::new("CannotAccessFile", &e.to_string(), json!({ "file": "" }))
}

/// PowerOnVM_Task and its kin: a task.
///
/// # Errors
/// Never at once: what does not fit is the task's error, as on a real server.
pub fn power_task(inner: &Arc<Inner>, st: &mut State, vm: &Vm, method: &str, user: &str) -> Value {
    let (from, to): (&[&str], &'static str) = match method {
        "PowerOnVM_Task" => (&["poweredOff", "suspended"], "poweredOn"),
        "PowerOffVM_Task" => (&["poweredOn", "suspended"], "poweredOff"),
        "SuspendVM_Task" => (&["poweredOn"], "suspended"),
        _ => (&["poweredOn"], "poweredOn"),
    };
    let id = vm.moid.clone();
    let fits = from.contains(&vm.power.as_str());
    let (existing, template, reset) = (vm.power.clone(), vm.template, method == "ResetVM_Task");
    let question = vm.question.clone();
    let ms = st.cfg.power_ms + st.random() % (st.cfg.power_ms / 2 + 1);
    let finish: Finish = Box::new(move |st| {
        if template {
            return Err(Fault::new(
                "NotSupported",
                "The operation is not supported on the object: it is a template.",
                json!({}),
            ));
        }
        if let Some((text, _)) = question {
            return Err(Fault::new(
                "QuestionPending",
                "The virtual machine is waiting for an answer to a question.",
                json!({ "text": text }),
            ));
        }
        if !fits {
            return Err(Fault::power_state(to, &existing));
        }
        if reset && let Some(v) = st.vms.get_mut(&id) {
            v.boot_time = Some(now());
        }
        set_power(st, &id, to);
        Ok(None)
    });
    tasks::start(
        inner,
        st,
        method,
        ("VirtualMachine", &vm.moid),
        user,
        ms,
        finish,
    )
}

/// ShutdownGuest, RebootGuest: no task; the guest does it in its own time, or not.
/// Source: docs/vsphere-facts.md section 6.
///
/// # Errors
/// InvalidPowerState, ToolsUnavailable, QuestionPending.
pub fn guest(inner: &Arc<Inner>, st: &mut State, vm: &Vm, reboot: bool) -> Result<(), Fault> {
    let wanted = if reboot { "poweredOn" } else { "poweredOff" };
    if vm.power != "poweredOn" {
        return Err(Fault::power_state(wanted, &vm.power));
    }
    if let Some((text, _)) = &vm.question {
        return Err(Fault::new(
            "QuestionPending",
            "The virtual machine is waiting for an answer to a question.",
            json!({ "text": text }),
        ));
    }
    if !matches!(vm.tools.as_str(), "running" | "scripts") {
        return Err(Fault::new(
            "ToolsUnavailable",
            "Cannot complete operation because VMware Tools is not running in this virtual machine.",
            json!({}),
        ));
    }
    if vm.ignores_shutdown {
        if let Some(v) = st.vms.get_mut(&vm.moid) {
            v.asked = true;
        }
        return Ok(());
    }
    if let Some(v) = st.vms.get_mut(&vm.moid) {
        v.guest_state = Some(if reboot { "resetting" } else { "shuttingDown" }.into());
    }
    refresh_vm(st, &vm.moid);
    let (inner, generation, id) = (Arc::clone(inner), st.generation, vm.moid.clone());
    let wait = Duration::from_millis(vm.shutdown_ms + st.random() % (vm.shutdown_ms / 4 + 1));
    std::thread::spawn(move || {
        std::thread::sleep(wait);
        let mut st = inner.lock();
        if st.generation == generation
            && st
                .vms
                .get(&id)
                .is_some_and(|v| v.guest_state.is_some() && v.power == "poweredOn")
        {
            if let Some(v) = st.vms.get_mut(&id) {
                v.boot_time = Some(now());
            }
            set_power(&mut st, &id, wanted);
            inner.cond.notify_all();
        }
    });
    Ok(())
}

/// Takes a virtual machine out of the inventory; its files stay.
///
/// # Errors
/// InvalidPowerState unless it is off. Source: vSphere Web Services API, VirtualMachine.UnregisterVM.
pub fn unregister(st: &mut State, vm: &Vm) -> Result<(), Fault> {
    if vm.power != "poweredOff" {
        return Err(Fault::power_state("poweredOff", &vm.power));
    }
    st.vms.remove(&vm.moid);
    st.objs.remove(&vm.moid);
    for s in &vm.snaps {
        st.objs.remove(&s.moid);
    }
    if let Some(Value::Array(kids)) = st
        .objs
        .get_mut(&vm.folder)
        .and_then(|o| o.props.get_mut("childEntity"))
    {
        kids.retain(|k| super::xml::mo_id(k) != Some(vm.moid.as_str()));
    }
    relink(st);
    Ok(())
}

/// Destroy_Task: the machine, its home's files and all its disks are gone, whoever else uses them.
/// Source: vSphere Web Services API, ManagedEntity.Destroy_Task ("destroys this object, deleting its contents").
pub fn destroy(inner: &Arc<Inner>, st: &mut State, vm: &Vm, user: &str) -> Value {
    let id = vm.moid.clone();
    let ms = st.cfg.power_ms;
    let finish: Finish = Box::new(move |st| {
        let Some(vm) = st.vms.get(&id).cloned() else {
            return Err(Fault::not_found("VirtualMachine", &id));
        };
        unregister(st, &vm)?;
        files::delete_all(st, &vm);
        Ok(None)
    });
    tasks::start(
        inner,
        st,
        "Destroy_Task",
        ("VirtualMachine", &vm.moid),
        user,
        ms,
        finish,
    )
}

/// ReconfigVM_Task for what this server changes: notes, name, the CD-ROM. Anything else is NotSupported, and names itself.
pub fn reconfigure(inner: &Arc<Inner>, st: &mut State, vm: &Vm, spec: &Value, user: &str) -> Value {
    let known = ["_t", "annotation", "changeVersion", "name", "deviceChange"];
    let extra: Vec<String> = spec
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, _)| k.clone())
        .filter(|k| !known.contains(&k.as_str()))
        .collect();
    let (id, spec) = (vm.moid.clone(), spec.clone());
    let finish: Finish = Box::new(move |st| {
        if !extra.is_empty() {
            return Err(Fault::new(
                "NotSupported",
                &format!(
                    "labsim does not change {} with ReconfigVM_Task",
                    extra.join(", ")
                ),
                json!({}),
            ));
        }
        let current = st
            .objs
            .get(&id)
            .and_then(|o| o.props.get("config"))
            .map(|c| c["changeVersion"].clone());
        if spec["changeVersion"].is_string() && current.as_ref() != Some(&spec["changeVersion"]) {
            return Err(Fault::new(
                "ConcurrentAccess",
                "The virtual machine's configuration has been changed meanwhile.",
                json!({}),
            ));
        }
        let mut vm = st
            .vms
            .get(&id)
            .cloned()
            .ok_or_else(|| Fault::not_found("VirtualMachine", &id))?;
        for c in spec["deviceChange"].as_array().into_iter().flatten() {
            let dev = &c["device"];
            if c["operation"] != "edit" || dev["_t"] != "VirtualCdrom" || vm.cdrom.is_none() {
                return Err(Fault::new(
                    "NotSupported",
                    "labsim edits no device but the CD-ROM drive",
                    json!({}),
                ));
            }
            vm.cdrom = Some((
                dev["backing"]["fileName"]
                    .as_str()
                    .unwrap_or("")
                    .to_string(),
                dev["connectable"]["connected"] == json!(true),
            ));
            vm.tools_iso = false;
        }
        // Source: docs/vsphere-facts.md section 10: an empty string clears, unset leaves.
        if let Some(a) = spec["annotation"].as_str() {
            vm.annotation = a.into();
        }
        if let Some(n) = spec["name"].as_str() {
            vm.name = n
                .replace("%2f", "/")
                .replace("%5c", "\\")
                .replace("%25", "%");
        }
        st.vms.insert(id.clone(), vm);
        refresh_vm(st, &id);
        relink(st);
        Ok(None)
    });
    tasks::start(
        inner,
        st,
        "ReconfigVM_Task",
        ("VirtualMachine", &vm.moid),
        user,
        40,
        finish,
    )
}

/// CreateSnapshot_Task.
pub fn create_snapshot(
    inner: &Arc<Inner>,
    st: &mut State,
    vm: &Vm,
    args: &Value,
    user: &str,
    seed: u64,
) -> Value {
    let (id, ms) = (vm.moid.clone(), st.cfg.snapshot_ms);
    let (name, description) = (
        args["name"].as_str().unwrap_or("").to_string(),
        args["description"].as_str().unwrap_or("").to_string(),
    );
    let finish: Finish = Box::new(move |st| {
        let mut vm = st
            .vms
            .get(&id)
            .cloned()
            .ok_or_else(|| Fault::not_found("VirtualMachine", &id))?;
        if let Some(d) = vm.disks.iter().find(|d| {
            d.sharing != "sharingNone"
                || (d.rdm.as_deref() == Some("physicalMode") && !d.mode.starts_with("independent"))
        }) {
            return Err(Fault::new(
                "SnapshotFault",
                &format!("Hard disk {} cannot take part in a snapshot.", d.n),
                json!({}),
            ));
        }
        let snap = st.new_id("snapshot");
        vms::add_snapshot(&mut vm, snap.clone(), &name, &description, &now());
        files::create_all(st, &without_disks(&vm), seed).map_err(io)?;
        for d in vm
            .disks
            .iter()
            .filter(|d| !d.mode.starts_with("independent"))
        {
            files::create_layer(st, d, d.layers.len() - 1, seed).map_err(io)?;
        }
        files::write_texts(st, &vm).map_err(io)?;
        files::sync_runtime(st, &mut vm).map_err(io)?;
        st.vms.insert(id.clone(), vm);
        Ok(Some(
            json!({ "$p": ["VirtualMachineSnapshot", false, mo("VirtualMachineSnapshot", &snap)] }),
        ))
    });
    tasks::start(
        inner,
        st,
        "CreateSnapshot_Task",
        ("VirtualMachine", &vm.moid),
        user,
        ms,
        finish,
    )
}

/// The virtual machine without disks: its small files only.
fn without_disks(vm: &Vm) -> Vm {
    Vm {
        disks: vec![],
        ..vm.clone()
    }
}

/// RemoveSnapshot_Task (one, perhaps with those below it) and RemoveAllSnapshots_Task (`which` is `None`).
pub fn remove_snapshots(
    inner: &Arc<Inner>,
    st: &mut State,
    vm: &Vm,
    which: Option<(&str, bool)>,
    method: &str,
    user: &str,
) -> Value {
    let (id, ms) = (vm.moid.clone(), st.cfg.snapshot_ms);
    let which = which.map(|(s, children)| (s.to_string(), children));
    let finish: Finish = Box::new(move |st| {
        let mut vm = st
            .vms
            .get(&id)
            .cloned()
            .ok_or_else(|| Fault::not_found("VirtualMachine", &id))?;
        let range = match &which {
            None => 0..vm.snaps.len(),
            Some((s, children)) => {
                let i = vm
                    .snaps
                    .iter()
                    .position(|x| x.moid == *s)
                    .ok_or_else(|| Fault::not_found("VirtualMachineSnapshot", s))?;
                i..if *children { vm.snaps.len() } else { i + 1 }
            }
        };
        for i in range.rev() {
            let count = vm.snaps.len();
            let snap = vm.snaps.remove(i);
            let ending = format!("-Snapshot{}.vmsn", snap.id);
            let root = |ds: &str| {
                st.stores
                    .get(ds)
                    .map(|s| s.root.clone())
                    .unwrap_or_default()
            };
            let _ = std::fs::remove_file(
                root(&vm.ds)
                    .join(&vm.dir)
                    .join(files::aux_name(&vm, &ending)),
            );
            vm.aux.retain(|a| *a != ending);
            files::unlock(st, &vm);
            let dependent = |d: &&mut Disk| !d.mode.starts_with("independent");
            for d in vm.disks.iter_mut().filter(dependent) {
                // Layers below the first snapshot's delta stay, more than one for a linked clone.
                let layer = d.layers.len().saturating_sub(count) + i;
                let kind = st
                    .stores
                    .get(&d.ds)
                    .map(|s| s.kind.clone())
                    .unwrap_or_default();
                let data = root(&d.ds).join(files::extent(d, layer, &kind));
                let descriptor = root(&d.ds).join(d.layers.remove(layer));
                let _ = std::fs::remove_file(data);
                let _ = std::fs::remove_file(descriptor);
            }
        }
        files::write_texts(st, &vm).map_err(io)?;
        files::sync_runtime(st, &mut vm).map_err(io)?;
        st.vms.insert(id.clone(), vm);
        Ok(None)
    });
    tasks::start(
        inner,
        st,
        method,
        ("VirtualMachine", &vm.moid),
        user,
        ms,
        finish,
    )
}
