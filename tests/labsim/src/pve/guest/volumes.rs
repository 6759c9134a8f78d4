//! Resizing and moving disks.
use super::conf::{self, Pending};
use super::perms::{self, Scope};
use super::work::{self, FileLock, Work};
use super::{disks, drive, load_guest, volume_owner};
use crate::pve::propstr;
use crate::pve::storage;
use crate::pve::{Call, Lab, PveError};
use serde_json::{Value, json};
use std::sync::Arc;

fn check_digest(lab: &Lab, call: &Call) -> Result<(), PveError> {
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    match call.text("digest").filter(|d| !d.is_empty()) {
        Some(digest) if digest != g.digest() => Err(PveError::die(
            "checksum mismatch (file change by other user?)",
        )),
        _ => Ok(()),
    }
}

/// `PUT .../resize`: everything but the digest is found out by the task.
pub fn resize(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let skiplock = perms::skiplock(&call.auth, &call.params)?;
    check_digest(lab, call)?;
    let (key, size) = (call.arg("disk"), call.arg("size"));
    let upid = work::start(
        lab,
        &call.arg("node"),
        "resize",
        call.vmid(),
        &call.auth,
        move |work| {
            work.pause("resize")?;
            let _lock = FileLock::take(work.lab, work.vmid)?;
            grow(work, &key, &size, skiplock)
        },
    );
    Ok(json!(upid))
}

fn grow(work: &Work, key: &str, size: &str, skiplock: bool) -> Result<(), PveError> {
    let g = work.guest()?;
    if !skiplock {
        g.check_lock()?;
    }
    let Some(value) = conf::text(&g.config, key) else {
        return Err(PveError::die(format!("disk '{key}' does not exist")));
    };
    let mut parsed = drive::parse_param(key, value)?;
    let volid = parsed.get("file").unwrap_or("").to_string();
    if parsed.get("media") == Some("cdrom") {
        return Err(PveError::die("you can't resize a cdrom"));
    }
    if drive::is_cloudinit(&parsed) || propstr::check_format("pve-volume-id", &volid).is_err() {
        return Err(PveError::die(format!(
            "disk '{key}' has no associated volume"
        )));
    }
    let (path, format) = {
        let st = work.lab.st();
        let volume = storage::parse_volid(&st, &volid)?;
        st.check(
            &work.auth,
            &format!("/storage/{}", volume.storage),
            &["Datastore.AllocateSpace"],
        )?;
        (storage::path_of(&st, &work.node, &volid)?, volume.format)
    };
    let old = disks::volume_size(work.lab, &work.node, &volid)?;
    let wanted = propstr::parse_size(size.trim_start_matches('+')).unwrap_or(0);
    let new = if size.starts_with('+') {
        old + wanted
    } else {
        wanted
    };
    if new < old {
        return Err(PveError::die("shrinking disks is not supported"));
    }
    if new == old {
        return Ok(());
    }
    if format == "vmdk" {
        return Err(PveError::die("can't resize vmdk images"));
    }
    // The volume gets whole KiB, on a block storage whole extents; the configuration the number as it was asked for
    // (pve-storage, volume_resize; qemu-server, resize_vm).
    let storage = volid.split(':').next().unwrap_or("");
    let bytes = disks::rounded(work.lab, storage, new.next_multiple_of(1024));
    disks::qemu_img(&[
        "resize",
        "-q",
        "-f",
        &format,
        &path.to_string_lossy(),
        &bytes.to_string(),
    ])
    .map_err(|e| PveError::die(format!("command '/usr/bin/qemu-img resize' failed: {e}")))?;
    if g.run.is_none() {
        work.log("Image resized.");
    }
    work.edit(|g| {
        parsed.set("size", new.to_string());
        g.config
            .insert(key.to_string(), json!(drive::print(key, &parsed)));
        Ok(())
    })
}

/// `POST .../move_disk`: to another storage or format, or to another guest.
pub fn move_disk(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    check_digest(lab, call)?;
    let key = call.arg("disk");
    let scope = Scope {
        auth: &call.auth,
        vmid: call.vmid(),
        pool: None,
    };
    if let Some(target) = call
        .int("target-vmid")
        .and_then(|v| u32::try_from(v).ok())
        .filter(|v| *v != call.vmid())
    {
        return reassign(lab, call, target);
    }
    let g = load_guest(lab, &call.arg("node"), call.vmid())?;
    g.check_lock()?;
    let Some(storage_id) = call.text("storage") else {
        return Err(PveError::param(
            "storage",
            "property is missing and it is not optional",
        ));
    };
    lab.st().check(
        scope.auth,
        &format!("/storage/{storage_id}"),
        &["Datastore.AllocateSpace"],
    )?;
    let format = call.text("format");
    let plan = movable(lab, &g, &key, &storage_id, format.as_deref())?;
    storage::usable(&lab.st(), &storage_id, &g.node)?;
    let delete = call.flag("delete");
    let upid = work::start(lab, &g.node, "qmmove", g.vmid, &call.auth, move |work| {
        work.pause("qmmove")?;
        let _lock = FileLock::take(work.lab, work.vmid)?;
        relocate(work, &key, &plan, &storage_id, format.as_deref(), delete)
    });
    Ok(json!(upid))
}

/// The volume that a key names, if it can be moved there.
fn movable(
    lab: &Lab,
    g: &super::Guest,
    key: &str,
    target: &str,
    format: Option<&str>,
) -> Result<String, PveError> {
    let Some(value) = conf::text(&g.config, key) else {
        return Err(PveError::die(format!("disk '{key}' does not exist")));
    };
    let file = match key.starts_with("unused") {
        true => conf::parse_option(key, value).and_then(|mut p| p.take("file")),
        false => drive::parse_param(key, value)?.take("file"),
    };
    let volid = file.unwrap_or_default();
    if !key.starts_with("unused") && drive::is_cdrom(key, value) {
        return Err(PveError::die("you can't move a cdrom"));
    }
    let st = lab.st();
    let volume = storage::parse_volid(&st, &volid)
        .map_err(|_| PveError::die(format!("disk '{key}' has no associated volume")))?;
    let Some(found) = st.storages.get(target) else {
        return Err(PveError::die(format!("storage '{target}' does not exist")));
    };
    if !found.content.iter().any(|c| c == "images") {
        return Err(PveError::die(format!(
            "storage '{target}' does not support content-type 'images'"
        )));
    }
    if volume.storage == target && format.is_none_or(|f| f == volume.format) {
        return Err(PveError::die(
            "you can't move to the same storage with same format",
        ));
    }
    Ok(volid)
}

fn relocate(
    work: &Work,
    key: &str,
    volid: &str,
    target: &str,
    format: Option<&str>,
    delete: bool,
) -> Result<(), PveError> {
    work.guest()?.check_lock()?;
    let from = volid.split(':').next().unwrap_or("");
    work.log(format!(
        "copying volume '{volid}' from current storage '{from}' to target storage '{target}'"
    ));
    work.log(format!("create full clone of drive {key} ({volid})"));
    let format = disks::hinted(work.lab, target, format);
    let (new, bytes) = disks::clone_volume(work, volid, target, work.vmid, format)?;
    let own = volume_owner(volid) == Some(work.vmid);
    let in_snapshot = work
        .guest()?
        .snapshots
        .iter()
        .any(|s| conf::used_volumes(&s.config).contains(volid));
    work.edit(|g| {
        if key.starts_with("unused") {
            g.config.insert(key.to_string(), json!(new));
        } else {
            let mut parsed = drive::parse_param(key, conf::text(&g.config, key).unwrap_or(""))?;
            parsed.set("file", new.clone());
            parsed.set("size", bytes.to_string());
            parsed.take("format");
            g.config
                .insert(key.to_string(), json!(drive::print(key, &parsed)));
        }
        // A pending change of other options of the disk keeps its options, on the new volume.
        if let Pending::Value(waiting) = conf::pending(&g.pending, key)
            && let Some(mut parsed) = drive::parse(key, waiting)
            && parsed.get("file") == Some(volid)
        {
            parsed.set("file", new.clone());
            g.pending
                .insert(key.to_string(), json!(drive::print(key, &parsed)));
        }
        if own && (!delete || in_snapshot) {
            let unused = conf::add_unused(&mut g.config, volid);
            work.log(format!(
                "adding source volume '{volid}' as '{unused}' to config"
            ));
        }
        Ok(())
    })?;
    if own && delete && !in_snapshot {
        storage::free_volume(&work.lab.st(), &work.node, volid)?;
    }
    Ok(())
}

/// Gives a disk to another guest of the same node: the volume is renamed on its storage.
fn reassign(lab: &Arc<Lab>, call: &Call, target: u32) -> Result<Value, PveError> {
    let (node, vmid, key) = (call.arg("node"), call.vmid(), call.arg("disk"));
    let target_key = call.text("target-disk").unwrap_or_else(|| key.clone());
    let source = load_guest(lab, &node, vmid)?;
    let Some(value) = conf::text(&source.config, &key).map(str::to_string) else {
        return Err(PveError::die(format!(
            "Disk '{key}' for VM '{vmid}' does not exist"
        )));
    };
    let dest = load_guest(lab, &node, target)?;
    {
        let st = lab.st();
        st.check(&call.auth, &format!("/vms/{target}"), &["VM.Config.Disk"])?;
        let id = value.split(':').next().unwrap_or("");
        st.check(
            &call.auth,
            &format!("/storage/{id}"),
            &["Datastore.AllocateSpace"],
        )?;
    }
    source.check_lock()?;
    dest.check_lock()?;
    if source.run.is_some() && !key.starts_with("unused") {
        return Err(PveError::die("Cannot move disk of running VM"));
    }
    if dest.config.contains_key(&target_key) {
        return Err(PveError::die(format!(
            "Target disk key '{target_key}' is already in use for VM '{target}'"
        )));
    }
    let place = node.clone();
    let upid = work::start(lab, &place, "qmmove", vmid, &call.auth, move |work| {
        work.pause("qmmove")?;
        let _lock = FileLock::take(work.lab, vmid)?;
        let _other = FileLock::take(work.lab, target)?;
        let mut parsed = conf::parse_option(
            if key.starts_with("unused") {
                "unused0"
            } else {
                &key
            },
            &value,
        )
        .unwrap_or_default();
        let volid = parsed.get("file").unwrap_or("").to_string();
        let new = rename(work, &volid, target)?;
        parsed.set("file", new.clone());
        let printed = match target_key.starts_with("unused") {
            true => new,
            false => drive::print(&target_key, &parsed),
        };
        work.log(format!(
            "moving disk '{key}' from VM '{vmid}' to '{target}'"
        ));
        let mut st = work.lab.st();
        for (id, remove) in [(vmid, true), (target, false)] {
            let g = st
                .guests
                .get_mut(&id)
                .ok_or_else(|| super::missing(&node, id))?;
            if remove {
                g.config.shift_remove(&key);
                let order: Vec<String> = conf::boot_order(&g.config)
                    .into_iter()
                    .filter(|d| *d != key)
                    .collect();
                if conf::boot_order(&g.config) != order {
                    g.config
                        .insert("boot".to_string(), json!(conf::print_boot_order(&order)));
                }
            } else {
                g.config.insert(target_key.clone(), json!(printed));
            }
        }
        Ok(())
    });
    Ok(json!(upid))
}

/// Gives a volume a free name of another guest on the same storage.
fn rename(work: &Work, volid: &str, vmid: u32) -> Result<String, PveError> {
    let st = work.lab.st();
    let volume = storage::parse_volid(&st, volid)?;
    let new = storage::next_volid(&st, &work.node, &volume.storage, vmid, &volume.format, &[])?;
    let (from, to) = (
        storage::path_of(&st, &work.node, volid)?,
        storage::path_of(&st, &work.node, &new)?,
    );
    let fails = |e: std::io::Error| PveError::die(format!("rename failed: {e}"));
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(fails)?;
    }
    std::fs::rename(from, to).map_err(fails)?;
    Ok(new)
}
