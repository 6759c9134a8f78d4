//! New drives of a request: empty volumes, imports, volumes that are there already; and the rules that no format says.
use super::conf::{self, Options};
use super::disks::{
    EFI_BYTES_2M, EFI_BYTES_4M, TPM_BYTES, allocate, clone_volume, copy, fill, format_by_name,
    free, image_size, ova_member, real_path, reserve, utf8, volume_size,
};
use super::drive;
use super::perms::Scope;
use super::work::Work;
use crate::pve::propstr::{self, Parsed};
use crate::pve::storage;
use crate::pve::{PveError, State};
use serde_json::json;
use std::process::Command;

/// What [`create`] made.
#[derive(Default)]
pub struct Created {
    /// Volumes that were made, to be removed if the rest fails.
    pub volumes: Vec<String>,
    /// The options to store.
    pub options: Options,
}

/// Makes or looks up the volumes of all drives among the parameters, in the order of their keys.
///
/// # Errors
/// 500 and 403; what was made is removed again.
pub fn create(
    work: &Work,
    scope: &Scope,
    params: &Options,
    working: Option<&str>,
) -> Result<Created, PveError> {
    let mut keys: Vec<&String> = params.keys().filter(|k| drive::is_drive(k)).collect();
    keys.sort();
    let mut made = Created::default();
    for key in keys {
        let value = conf::text(params, key).unwrap_or("");
        let result = drive::parse_param(key, value)
            .and_then(|d| create_one(work, scope, key, d, working, &mut made));
        if let Err(e) = result {
            made.volumes
                .iter()
                .for_each(|v| free(work.lab, &work.node, v));
            return Err(e);
        }
    }
    Ok(made)
}

fn create_one(
    work: &Work,
    scope: &Scope,
    key: &str,
    mut parsed: Parsed,
    working: Option<&str>,
    made: &mut Created,
) -> Result<(), PveError> {
    let file = parsed.get("file").unwrap_or("").to_string();
    let mut report = true;
    if file == "none" || file == "cdrom" {
        if parsed.get("media") == Some("disk") {
            return Err(PveError::die(format!("unable to parse volume ID '{file}'")));
        }
        parsed.take("size");
        report = false;
    } else if let Some(id) = file.strip_suffix(":cloudinit") {
        let volid = cloudinit(work, id, work.vmid)?;
        made.volumes.push(volid.clone());
        parsed.set("file", volid);
        parsed.set("media", "cdrom");
        parsed.take("format");
        parsed.take("size");
    } else if let (Some((Some(target), gib)), false) =
        (drive::new_disk(&file), parsed.get("media") == Some("cdrom"))
    {
        let (volid, bytes) = match parsed.take("import-from") {
            Some(source) => import(work, target, &source, parsed.get("format"), working)?,
            None => {
                let format = parsed.get("format").unwrap_or("raw");
                let bytes = match key {
                    "efidisk0" if parsed.get("efitype") == Some("4m") => EFI_BYTES_4M,
                    "efidisk0" => EFI_BYTES_2M,
                    "tpmstate0" => TPM_BYTES,
                    _ => drive::new_disk_bytes(gib),
                };
                (allocate(work, target, work.vmid, format, bytes)?, bytes)
            }
        };
        made.volumes.push(volid.clone());
        // A block storage may have rounded up.
        let bytes = volume_size(work.lab, &work.node, &volid).unwrap_or(bytes);
        parsed.set("file", volid);
        parsed.set("size", bytes.to_string());
        parsed.take("format");
    } else {
        {
            let st = work.lab.st();
            scope.volume(&st, &file)?;
        }
        let size = match file.starts_with('/') {
            true => std::fs::metadata(real_path(work, &file))
                .ok()
                .map(|m| m.len())
                .filter(|n| *n > 0),
            false => {
                let id = file.split(':').next().unwrap_or("");
                storage::usable(&work.lab.st(), id, &work.node)?;
                volume_size(work.lab, &work.node, &file).ok()
            }
        };
        let Some(size) = size else {
            let quoted = if file.starts_with('/') {
                file
            } else {
                format!("'{file}'")
            };
            return Err(PveError::die(format!("volume {quoted} does not exist")));
        };
        if drive::is_cloudinit(&parsed) {
            parsed.set("media", "cdrom");
        } else {
            parsed.set("size", size.to_string());
        }
        report = false;
    }
    let printed = drive::print(key, &parsed);
    if report {
        work.log(format!("{key}: successfully created disk '{printed}'"));
    }
    made.options.insert(key.to_string(), json!(printed));
    Ok(())
}

/// A new cloud-init volume of that guest.
pub fn cloudinit(work: &Work, target: &str, vmid: u32) -> Result<String, PveError> {
    let (volid, path, shown, format) = {
        let st = work.lab.st();
        storage::usable(&st, target, &work.node)?;
        let file_based = st
            .storages
            .get(target)
            .is_some_and(storage::Storage::is_file_based);
        let volid = match file_based {
            true => format!("{target}:{vmid}/vm-{vmid}-cloudinit.qcow2"),
            false => format!("{target}:vm-{vmid}-cloudinit"),
        };
        let path = storage::path_of(&st, &work.node, &volid)?;
        reserve(&path)?;
        let shown = storage::shown_path(&st, &volid)?;
        (volid, path, shown, if file_based { "qcow2" } else { "raw" })
    };
    fill(work, &path, &shown, format, TPM_BYTES)?;
    Ok(volid)
}

fn import(
    work: &Work,
    target: &str,
    source: &str,
    format: Option<&str>,
    working: Option<&str>,
) -> Result<(String, u64), PveError> {
    if source.starts_with('/') {
        let path = real_path(work, source);
        let from_format = format_by_name(source);
        let bytes = image_size(&path, source, from_format, true)?;
        let format = format.unwrap_or("raw");
        let volid = allocate(work, target, work.vmid, format, bytes)?;
        let to = { storage::path_of(&work.lab.st(), &work.node, &volid)? };
        copy(work, &path, from_format, &to, format, bytes)
            .inspect_err(|_| free(work.lab, &work.node, &volid))?;
        return Ok((volid, bytes));
    }
    if let Some((archive, member)) = ova_member(source) {
        let extracted = extract(work, archive, member, working)?;
        work.log(format!("create full clone of drive ({extracted})"));
        let done = check_source(work, &extracted, true)
            .and_then(|()| clone_volume(work, &extracted, target, work.vmid, format));
        free(work.lab, &work.node, &extracted);
        work.log(format!("cleaned up extracted image {extracted}"));
        return done;
    }
    let untrusted = {
        let st = work.lab.st();
        let volume = storage::parse_volid(&st, source)?;
        // What an ESXi host serves is trusted, what people put into import/ is not.
        volume.vtype == "import"
            && st
                .storages
                .get(&volume.storage)
                .is_some_and(|s| s.kind != "esxi")
    };
    check_source(work, source, untrusted)?;
    work.log(format!("create full clone of drive ({source})"));
    clone_volume(work, source, target, work.vmid, format)
}

fn check_source(work: &Work, volid: &str, untrusted: bool) -> Result<(), PveError> {
    let (path, shown, format) = {
        let st = work.lab.st();
        let volume = storage::parse_volid(&st, volid)?;
        storage::usable(&st, &volume.storage, &work.node)?;
        let path = storage::path_of(&st, &work.node, volid)?;
        (path, storage::shown_path(&st, volid)?, volume.format)
    };
    image_size(&path, &shown, &format, untrusted).map(|_| ())
}

/// Takes a member out of an OVA (a tar archive) into a volume of the guest on the working storage.
fn extract(
    work: &Work,
    archive: &str,
    member: &str,
    working: Option<&str>,
) -> Result<String, PveError> {
    work.log(format!("extracting {archive}/{member}"));
    let (path, shown, default) = {
        let st = work.lab.st();
        let path = storage::path_of(&st, &work.node, archive)?;
        (
            path,
            storage::shown_path(&st, archive)?,
            storage::parse_volid(&st, archive)?.storage,
        )
    };
    if !path.exists() {
        return Err(PveError::die(format!("failed to stat '{shown}'")));
    }
    let volid = allocate(
        work,
        working.unwrap_or(&default),
        work.vmid,
        format_by_name(member),
        1 << 20,
    )?;
    let to = { storage::path_of(&work.lab.st(), &work.node, &volid)? };
    let file =
        std::fs::File::create(&to).map_err(|e| PveError::die(format!("unable to extract: {e}")))?;
    let ran = Command::new("tar")
        .args(["--force-local", "-xOf", &utf8(&path), member])
        .stdout(file)
        .status();
    if !ran.is_ok_and(|s| s.success()) {
        free(work.lab, &work.node, &volid);
        return Err(PveError::die(format!(
            "failed to extract '{member}' from '{shown}'"
        )));
    }
    work.log(format!("finished extracting to {volid}"));
    Ok(volid)
}

/// The rules for a drive as it comes in a request, beyond its format: `import-from` needs size 0, a path must belong to a
/// storage, an empty drive is a CD drive. Returns the drive as the server prints it.
///
/// # Errors
/// 400 for that option.
pub fn clean(st: &State, key: &str, value: &str) -> Result<String, PveError> {
    let mut parsed = drive::parse_param(key, value)?;
    let file = parsed.get("file").unwrap_or("").to_string();
    if parsed.get("import-from").is_some() {
        let zero = drive::new_disk(&file).is_some_and(|(_, size)| size.parse::<f64>() == Ok(0.0));
        if !zero {
            return Err(PveError::param(
                key,
                "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>",
            ));
        }
        let required: &[&str] = match key {
            "efidisk0" => &["efitype", "pre-enrolled-keys"],
            "tpmstate0" => &["version"],
            _ => &[],
        };
        if let Some(missing) = required.iter().find(|r| parsed.get(r).is_none()) {
            return Err(PveError::param(
                key,
                format!("need to specify '{missing}' when using 'import-from'"),
            ));
        }
    }
    if file == "none" || file == "cdrom" {
        if parsed.get("media").is_none() {
            parsed.set("media", "cdrom");
        }
    } else if file.starts_with('/') && !file.starts_with("/dev/") {
        let found = volume_of_path(st, &file);
        let Some(volid) = found else {
            return Err(PveError::param(
                key,
                format!("unable to associate path '{file}' to any storage"),
            ));
        };
        parsed.set("file", volid);
    } else if file.ends_with(":cloudinit") && parsed.get("format").is_none() {
        parsed.set("media", "cdrom");
    }
    Ok(drive::print(key, &parsed))
}

/// The volume id of an absolute path below `images/` or `template/iso/` of a storage.
fn volume_of_path(st: &State, path: &str) -> Option<String> {
    st.storages.iter().find_map(|(id, found)| {
        let rest = path
            .strip_prefix(&found.shown_path())?
            .trim_start_matches('/');
        let name = rest
            .strip_prefix("images/")
            .map(str::to_string)
            .or_else(|| {
                rest.strip_prefix("template/iso/")
                    .map(|n| format!("iso/{n}"))
            })?;
        let volid = format!("{id}:{name}");
        (propstr::check_format("pve-volume-id", &volid).is_ok()
            && storage::parse_volid(st, &volid).is_ok())
        .then_some(volid)
    })
}
