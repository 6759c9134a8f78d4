//! Templates, clones, and moving a guest to another node.
use super::conf::{self, Options};
use super::perms::Scope;
use super::read::{own_volumes, volumes};
use super::work::{self, FileLock, Work};
use super::{Guest, Run, disks, drive, load_guest, new_uuid, newdisks, random_mac};
use crate::pve::propstr;
use crate::pve::storage;
use crate::pve::{Call, Lab, PveError};
use serde_json::{Value, json};
use std::sync::Arc;

/// `POST .../template`: renames the disks to `base-N-disk-M`.
pub fn template(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    g.check_lock()?;
    if !g.snapshots.is_empty() {
        return Err(PveError::die(
            "unable to create template, because VM contains snapshots",
        ));
    }
    if g.template {
        return Err(PveError::die("you can't convert a template to a template"));
    }
    if g.run.is_some() {
        return Err(PveError::die(
            "you can't convert a VM to template if VM is running",
        ));
    }
    let upid = work::start(
        lab,
        &g.node,
        "qmtemplate",
        g.vmid,
        &call.auth,
        move |work| {
            work.pause("qmtemplate")?;
            let _lock = FileLock::take(work.lab, work.vmid)?;
            let g = work.guest()?;
            for (key, volid) in own_volumes(&g)
                .into_iter()
                .filter(|(k, _)| drive::is_drive(k))
                // Cloud-init drives are CD-ROMs to template_create of qemu-server and keep their names.
                .filter(|(k, _)| !drive::is_cdrom(k, conf::text(&g.config, k).unwrap_or("")))
            {
                let base =
                    volid.replacen(&format!("vm-{}-", g.vmid), &format!("base-{}-", g.vmid), 1);
                if base == volid {
                    continue;
                }
                {
                    let st = work.lab.st();
                    let (from, to) = (
                        storage::path_of(&st, &work.node, &volid)?,
                        storage::path_of(&st, &work.node, &base)?,
                    );
                    std::fs::rename(from, to)
                        .map_err(|e| PveError::die(format!("unable to create base image: {e}")))?;
                }
                work.edit(|g| {
                    let mut parsed =
                        drive::parse_param(&key, conf::text(&g.config, &key).unwrap_or(""))?;
                    parsed.set("file", base);
                    g.config
                        .insert(key.clone(), json!(drive::print(&key, &parsed)));
                    Ok(())
                })?;
            }
            work.edit(|g| {
                g.config.insert("template".to_string(), json!("1"));
                Ok(())
            })
        },
    );
    Ok(json!(upid))
}

/// What a clone was asked to be.
struct Wish {
    vmid: u32,
    node: String,
    name: Option<String>,
    description: Option<String>,
    storage: Option<String>,
    format: Option<String>,
    pool: Option<String>,
    snapshot: Option<String>,
    full: bool,
}

/// `POST .../clone`: a full copy; of a template a linked one unless `full` is said.
pub fn clone(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    let newid = call
        .int("newid")
        .and_then(|v| u32::try_from(v).ok())
        .unwrap_or(0);
    let wish = Wish {
        vmid: newid,
        node: call.text("target").unwrap_or_else(|| g.node.clone()),
        name: call.text("name"),
        description: call.text("description"),
        storage: call.text("storage"),
        format: call.text("format"),
        pool: call.text("pool"),
        snapshot: call.text("snapname"),
        full: call.text("full").map_or(!g.template, |f| f == "1"),
    };
    g.check_lock()?;
    if !wish.full && !g.template {
        return Err(PveError::param("full", "Linked clone requires a template"));
    }
    if let Some(name) = &wish.snapshot
        && !g.snapshots.iter().any(|s| s.name == *name)
    {
        return Err(PveError::die(format!("snapshot '{name}' does not exist")));
    }
    let created_ms = lab.now_ms();
    {
        let mut st = lab.st();
        let by_pool = wish
            .pool
            .as_ref()
            .is_some_and(|p| st.may(&call.auth, &format!("/pool/{p}"), &["VM.Allocate"]));
        if !by_pool && !st.may(&call.auth, &format!("/vms/{newid}"), &["VM.Allocate"]) {
            return Err(PveError::denied(""));
        }
        let scope = Scope {
            auth: &call.auth,
            vmid: newid,
            pool: wish.pool.as_deref(),
        };
        for (_, net) in g.config.iter().filter(|(k, _)| k.starts_with("net")) {
            scope.bridge(&st, net.as_str().unwrap_or(""))?;
        }
        for (_, volid, _) in volumes(&g.config) {
            let id = wish
                .storage
                .clone()
                .unwrap_or_else(|| volid.split(':').next().unwrap_or("").to_string());
            st.check(
                &call.auth,
                &format!("/storage/{id}"),
                &["Datastore.AllocateSpace"],
            )?;
        }
        if st.guests.contains_key(&newid) {
            return Err(PveError::die(format!(
                "unable to create VM {newid}: config file already exists"
            )));
        }
        let mut fresh = Guest::new(newid, &wish.node, created_ms);
        fresh.config.insert("lock".to_string(), json!("clone"));
        st.guests.insert(newid, fresh);
        st.set_pool(newid, wish.pool.as_deref());
    }
    let upid = work::start(lab, &g.node, "qmclone", g.vmid, &call.auth, move |work| {
        let made = work.pause("qmclone").and_then(|()| copy_all(work, &wish));
        let waiting = match wish.snapshot {
            Some(_) => Default::default(),
            None => work.guest()?.pending,
        };
        let mut st = work.lab.st();
        match made {
            Ok(config) => {
                if let Some(fresh) = st.guests.get_mut(&wish.vmid) {
                    fresh.config = config;
                    // What waits goes along, word for word (qemu-server, clone_vm).
                    fresh.pending = waiting;
                }
                Ok(())
            }
            Err(e) => {
                st.guests.remove(&wish.vmid);
                st.set_pool(wish.vmid, None);
                Err(PveError::die(format!(
                    "clone failed: {}",
                    work::one_line(&e)
                )))
            }
        }
    });
    Ok(json!(upid))
}

/// Copies (or links) every disk; returns the new guest's options.
fn copy_all(work: &Work, wish: &Wish) -> Result<Options, PveError> {
    let g = work.guest()?;
    work.log(format!(
        "creating a clone of VM {} with ID {}",
        g.vmid, wish.vmid
    ));
    let kept = g
        .snapshots
        .iter()
        .find(|s| Some(&s.name) == wish.snapshot.as_ref());
    let mut config: Options = kept
        .map_or(&g.config, |s| &s.config)
        .iter()
        .filter(|(k, _)| !k.starts_with("unused"))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for key in ["template", "parent", "lock", "snaptime", "vmstate"] {
        config.shift_remove(key);
    }
    let mut done: Vec<String> = Vec::new();
    for (key, volid, cdrom) in volumes(&config) {
        if cdrom {
            continue;
        }
        let is_cloudinit = drive::parse_param(&key, conf::text(&config, &key).unwrap_or(""))
            .is_ok_and(|d| drive::is_cloudinit(&d));
        let copied = if is_cloudinit {
            // It is made anew for the clone, on the target storage (qemu-server, clone_disk).
            let own = volid.split(':').next().unwrap_or("").to_string();
            newdisks::cloudinit(work, wish.storage.as_ref().unwrap_or(&own), wish.vmid)
        } else if wish.full {
            work.log(format!("create full clone of drive {key} ({volid})"));
            let target = wish
                .storage
                .clone()
                .unwrap_or_else(|| volid.split(':').next().unwrap_or("").to_string());
            let format = disks::hinted(work.lab, &target, wish.format.as_deref());
            let of = wish.snapshot.as_deref();
            disks::clone_snapshot(work, &volid, of, &target, wish.vmid, format).map(|(v, _)| v)
        } else {
            work.log(format!("create linked clone of drive {key} ({volid})"));
            link(work, &volid, wish.vmid)
        };
        let new = copied.inspect_err(|_| {
            done.iter()
                .for_each(|v| disks::free(work.lab, &work.node, v))
        })?;
        done.push(new.clone());
        let mut parsed = drive::parse_param(&key, conf::text(&config, &key).unwrap_or(""))?;
        parsed.set("file", new);
        config.insert(key.clone(), json!(drive::print(&key, &parsed)));
    }
    let nets: Vec<String> = config
        .keys()
        .filter(|k| k.starts_with("net"))
        .cloned()
        .collect();
    for key in nets {
        if let (Some(mut parsed), Some(format)) = (
            conf::text(&config, &key).and_then(|v| conf::parse_option(&key, v)),
            conf::option_schema(&key).and_then(|s| s["format"].as_object()),
        ) {
            parsed.set("macaddr", random_mac(work.lab));
            config.insert(key, json!(propstr::print(format, &parsed)));
        }
    }
    let mut smbios = conf::text(&config, "smbios1")
        .and_then(|v| conf::parse_option("smbios1", v))
        .unwrap_or_default();
    smbios.set("uuid", new_uuid(work.lab));
    if let Some(format) = conf::option_schema("smbios1").and_then(|s| s["format"].as_object()) {
        config.insert(
            "smbios1".to_string(),
            json!(propstr::print(format, &smbios)),
        );
    }
    // A new one only where the source has one (qemu-server, clone_vm).
    if config.contains_key("vmgenid") {
        config.insert("vmgenid".to_string(), json!(new_uuid(work.lab)));
    }
    let copy_name = || {
        format!(
            "Copy-of-VM-{}",
            conf::text(&g.config, "name").map_or_else(|| g.vmid.to_string(), str::to_string)
        )
    };
    config.insert(
        "name".to_string(),
        json!(wish.name.clone().unwrap_or_else(copy_name)),
    );
    if let Some(text) = &wish.description {
        config.insert("description".to_string(), json!(text.trim_end()));
    }
    Ok(config)
}

/// A qcow2 image whose backing file is the base image.
fn link(work: &Work, base: &str, vmid: u32) -> Result<String, PveError> {
    let (volid, path, back) = {
        let st = work.lab.st();
        let volume = storage::parse_volid(&st, base)?;
        let plain = storage::next_volid(&st, &work.node, &volume.storage, vmid, "qcow2", &[])?;
        let path = storage::path_of(&st, &work.node, &plain)?;
        let name = plain.split_once(':').map_or("", |(_, n)| n);
        let back = base.split_once(':').map_or("", |(_, n)| n);
        let from = storage::path_of(&st, &work.node, base)?;
        work.log(format!(
            "clone {back}: images, {}, {vmid} to {} (base=../{back})",
            name.rsplit('/').next().unwrap_or(""),
            name.rsplit('/').next().unwrap_or("")
        ));
        (format!("{base}/{name}"), path, (from, volume.format))
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| PveError::die(format!("unable to create image: {e}")))?;
    }
    let (from, format) = (back.0.to_string_lossy().into_owned(), back.1);
    disks::qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        &from,
        "-F",
        &format,
        &path.to_string_lossy(),
    ])
    .map_err(|e| PveError::die(format!("unable to create image: {e}")))?;
    Ok(volid)
}

/// `GET .../migrate`: where the guest could go.
pub fn migrate_check(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    let st = lab.st();
    let local: Vec<Value> = volumes(&g.config)
        .into_iter()
        .filter(|(_, volid, _)| !storage_shared(&st, volid))
        .map(|(key, volid, cdrom)| json!({"volid": volid, "drivename": key, "cdrom": u8::from(cdrom), "is_unused": u8::from(key.starts_with("unused"))}))
        .collect();
    let others: Vec<&str> = st
        .nodes
        .iter()
        .filter(|n| n.name != g.node && n.online)
        .map(|n| n.name.as_str())
        .collect();
    Ok(
        json!({"running": u8::from(g.run.is_some()), "local_disks": local, "local_resources": [], "allowed_nodes": others,
        "not_allowed_nodes": {}, "mapped-resources": [], "mapped-resource-info": {}, "has-dbus-vmstate": 1}),
    )
}

fn storage_shared(st: &crate::pve::State, volid: &str) -> bool {
    st.storages
        .get(volid.split(':').next().unwrap_or(""))
        .is_some_and(|s| s.shared)
}

/// `POST .../migrate`: to another node; local disks are copied to the storage of the same name there.
pub fn migrate(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    let target = call.arg("target");
    if target == g.node {
        return Err(PveError::param("target", "target is local node."));
    }
    {
        let st = lab.st();
        match st.nodes.iter().find(|n| n.name == target) {
            None => return Err(PveError::die(format!("no such cluster node '{target}'"))),
            Some(n) if !n.online => {
                return Err(PveError::die(format!("target node '{target}' is offline")));
            }
            Some(_) => {}
        }
    }
    g.check_lock()?;
    let online = call.flag("online");
    if g.run.is_some() && !online {
        return Err(PveError::die("can't migrate running VM without --online"));
    }
    let with_disks = call.flag("with-local-disks") || g.run.is_none();
    let upid = work::start(lab, &g.node, "qmigrate", g.vmid, &call.auth, move |work| {
        let _lock = FileLock::take(work.lab, work.vmid)?;
        work.edit(|g| {
            g.config.insert("lock".to_string(), json!("migrate"));
            Ok(())
        })?;
        let moved = move_to(work, &target, with_disks);
        let since_ms = work.lab.now_ms();
        work.edit(|g| {
            g.config.shift_remove("lock");
            if moved.is_ok() {
                g.node = target.clone();
                if let Some(run) = g.run.as_mut() {
                    *run = Run {
                        since_ms,
                        ..run.clone()
                    };
                }
            }
            Ok(())
        })?;
        moved.map_err(|e| PveError::die(format!("migration aborted: {}", work::one_line(&e))))
    });
    Ok(json!(upid))
}

fn move_to(work: &Work, target: &str, with_disks: bool) -> Result<(), PveError> {
    work.log(format!(
        "starting migration of VM {} to node '{target}'",
        work.vmid
    ));
    work.pause("qmigrate")?;
    let g = work.guest()?;
    let mut moves = Vec::new();
    for (key, volid, cdrom) in volumes(&g.config) {
        let st = work.lab.st();
        storage::usable(&st, volid.split(':').next().unwrap_or(""), target)?;
        if storage_shared(&st, &volid) {
            continue;
        }
        if cdrom {
            return Err(PveError::die(format!(
                "can't migrate local cdrom drive '{volid}'"
            )));
        }
        if !with_disks {
            return Err(PveError::die(format!(
                "can't migrate local disk '{volid}': local disk migration not requested"
            )));
        }
        work.log(format!("found local disk '{volid}' ({key})"));
        moves.push((
            storage::path_of(&st, &work.node, &volid)?,
            storage::path_of(&st, target, &volid)?,
        ));
    }
    for (from, to) in moves {
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).map_err(|e| PveError::die(e.to_string()))?;
        }
        std::fs::rename(&from, &to)
            .map_err(|e| PveError::die(format!("storage migration failed: {e}")))?;
    }
    Ok(())
}
