//! Pending values of a stopped guest, and what becomes of the volume of a drive that goes.
use super::conf::{self, Options, Pending};
use super::drive;
use super::perms::Scope;
use super::work::Work;
use super::{Guest, volume_owner};
use crate::pve::PveError;
use crate::pve::storage;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What could not be applied, by option.
pub type Errors = BTreeMap<String, String>;

/// Keeps the volume of a drive that goes as `unusedN`, if it is the guest's own and no longer used.
pub fn keep_as_unused(guest: &mut Guest, key: &str, value: &str) {
    let Some(parsed) = drive::parse(key, value) else {
        return;
    };
    let volid = parsed.get("file").unwrap_or("");
    if parsed.get("media") == Some("cdrom") || volume_owner(volid) != Some(guest.vmid) {
        return;
    }
    conf::add_unused(&mut guest.config, volid);
}

/// Destroys a volume that an option names, if it is the guest's own.
///
/// # Errors
/// 403 without `Datastore.AllocateSpace`; 500 if something else of the guest still uses it.
pub fn deallocate(
    work: &Work,
    scope: &Scope,
    guest: &Guest,
    key: &str,
    volid: &str,
) -> Result<(), PveError> {
    if volume_owner(volid) != Some(guest.vmid) {
        return Ok(());
    }
    let st = work.lab.st();
    let id = volid.split(':').next().unwrap_or("");
    st.check(
        scope.auth,
        &format!("/storage/{id}"),
        &["Datastore.AllocateSpace"],
    )?;
    let elsewhere: Options = guest
        .config
        .iter()
        .filter(|(k, _)| *k != key)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let in_snapshot = guest
        .snapshots
        .iter()
        .any(|s| conf::used_volumes(&s.config).contains(volid));
    if in_snapshot || conf::used_volumes(&elsewhere).contains(volid) {
        return Err(PveError::die(format!(
            "unable to delete '{volid}' - volume is still in use (snapshot?)"
        )));
    }
    storage::free_volume(&st, &work.node, volid)
}

/// Detaches a drive for good: its volume becomes `unusedN`, or is destroyed (`force`, cloud-init drives).
///
/// # Errors
/// 403; 500 as [`deallocate`].
pub fn drop_drive(
    work: &Work,
    scope: &Scope,
    key: &str,
    value: &str,
    force: bool,
) -> Result<(), PveError> {
    let guest = work.guest()?;
    let parsed = drive::parse(key, value).unwrap_or_default();
    let volid = parsed.get("file").unwrap_or("").to_string();
    let cloudinit = drive::is_cloudinit(&parsed);
    if (force && parsed.get("media") != Some("cdrom")) || cloudinit {
        scope.drive(&work.lab.st(), key, value)?;
        return deallocate(work, scope, &guest, key, &volid);
    }
    work.edit(|g| {
        g.config.shift_remove(key);
        keep_as_unused(g, key, value);
        Ok(())
    })
}

/// Applies everything pending to a guest that does not run.
pub fn apply(work: &Work, scope: &Scope) -> Result<Errors, PveError> {
    let mut errors = Errors::new();
    let guest = work.guest()?;
    let mut keys: Vec<&String> = guest.pending.keys().collect();
    keys.sort();
    for key in &keys {
        let Pending::Delete(force) = conf::pending(&guest.pending, key) else {
            continue;
        };
        let current = conf::text(&guest.config, key);
        if let Some(value) = current.filter(|_| drive::is_drive(key))
            && let Err(e) = drop_drive(work, scope, key, value, force)
        {
            errors.insert(
                (*key).clone(),
                format!("unable to apply pending change {key} : {}", e.nested()),
            );
            continue;
        }
        work.edit(|g| {
            g.config.shift_remove(*key);
            g.pending.shift_remove(*key);
            Ok(())
        })?;
    }
    for key in &keys {
        let Pending::Value(value) = conf::pending(&guest.pending, key) else {
            continue;
        };
        work.edit(|g| {
            g.pending.shift_remove(*key);
            set(g, key, value);
            Ok(())
        })?;
    }
    Ok(errors)
}

/// Makes a value the current one; the volume of a replaced disk is kept as `unusedN`.
pub fn set(guest: &mut Guest, key: &str, value: &str) {
    let old = match value {
        "" => guest.config.shift_remove(key),
        value => guest.config.insert(key.to_string(), json!(value)),
    };
    if let Some(old) = old.as_ref().and_then(Value::as_str)
        && drive::is_drive(key)
    {
        let volume = |v: &str| drive::parse(key, v).and_then(|d| d.get("file").map(str::to_string));
        if volume(old) != volume(value) {
            keep_as_unused(guest, key, old);
        }
    }
}
