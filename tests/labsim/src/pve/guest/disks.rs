//! Volumes of guests: real files, made and copied with `qemu-img`, at the speed of the world.
use super::work::Work;
use crate::pve::storage;
use crate::pve::{Lab, PveError, State};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

/// Sizes that the server gives to the EFI variable store and the TPM state, bytes.
pub const EFI_BYTES_4M: u64 = 540_672;
/// The same for `efitype=2m`, which is the default.
pub const EFI_BYTES_2M: u64 = 131_072;
/// The TPM state's size, bytes.
pub const TPM_BYTES: u64 = 4 << 20;
/// LVM gives out whole extents, bytes.
const EXTENT: u64 = 4 << 20;

/// Runs `qemu-img`.
///
/// # Errors
/// The last line of what it writes to standard error.
pub fn qemu_img(args: &[&str]) -> Result<String, String> {
    let out = Command::new("qemu-img")
        .args(args)
        .output()
        .map_err(|e| format!("qemu-img: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    Err(text.lines().last().unwrap_or("qemu-img failed").to_string())
}

/// A path as text for a command line.
pub fn utf8(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The real file behind an absolute path of the node: below a storage's path, or below `DIR/root` for all else.
pub fn real_path(work: &Work, path: &str) -> PathBuf {
    let st = work.lab.st();
    for found in st.storages.values().filter(|s| s.is_file_based()) {
        if let (Ok(rest), Some(root)) = (
            Path::new(path).strip_prefix(found.shown_path()),
            found.root(&work.node),
        ) {
            return root.join(rest);
        }
    }
    work.lab.dir.join("root").join(path.trim_start_matches('/'))
}

/// The image format that the server derives from a file's name.
pub fn format_by_name(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("qcow2") => "qcow2",
        Some("vmdk") => "vmdk",
        _ => "raw",
    }
}

/// The archive and its member, if a volume id points into an OVA.
pub fn ova_member(volid: &str) -> Option<(&str, &str)> {
    let at = volid.find(".ova/")? + 4;
    Some((&volid[..at], &volid[at + 1..]))
}

/// Looks at an image as the server does before it copies one; returns its virtual size in bytes.
///
/// # Errors
/// `failed to stat '...'`; for untrusted ones `backing file not allowed ...` and `multiple children or extents are not
/// allowed!`; else what `qemu-img` says (`invalid VMDK image descriptor`).
pub fn image_size(
    path: &Path,
    shown: &str,
    format: &str,
    untrusted: bool,
) -> Result<u64, PveError> {
    let Ok(meta) = std::fs::metadata(path) else {
        return Err(PveError::die(format!("failed to stat '{shown}'")));
    };
    if format == "raw" {
        return Ok(meta.len());
    }
    let text = qemu_img(&["info", "-U", "--output=json", "-f", format, &utf8(path)])
        .map_err(|e| PveError::die(e.rsplit(": ").next().unwrap_or(&e).to_string()))?;
    let info: Value = serde_json::from_str(&text)
        .map_err(|e| PveError::die(format!("could not parse qemu-img info: {e}")))?;
    if untrusted {
        if info.get("backing-filename").is_some()
            || info["format-specific"]["data"].get("data-file").is_some()
        {
            return Err(PveError::die(format!(
                "backing file not allowed for untrusted image '{shown}'!"
            )));
        }
        let children = info["children"].as_array().map_or(0, Vec::len);
        let extents = info["format-specific"]["data"]["extents"]
            .as_array()
            .map_or(0, Vec::len);
        if children > 1 || extents > 1 {
            return Err(PveError::die(format!(
                "{shown}: multiple children or extents are not allowed!"
            )));
        }
    }
    info["virtual-size"]
        .as_u64()
        .ok_or_else(|| PveError::die("could not read the virtual size"))
}

/// The virtual size of an existing volume in bytes.
///
/// # Errors
/// 500 as [`image_size`], or what is wrong with the volume id.
pub fn volume_size(lab: &Lab, node: &str, volid: &str) -> Result<u64, PveError> {
    let (path, shown, format) = {
        let st = lab.st();
        let path = storage::path_of(&st, node, volid)?;
        (
            path,
            storage::shown_path(&st, volid)?,
            storage::parse_volid(&st, volid)?.format,
        )
    };
    if !matches!(format.as_str(), "raw" | "qcow2" | "vmdk") {
        return std::fs::metadata(&path)
            .map(|m| m.len())
            .map_err(|_| PveError::die(format!("failed to stat '{shown}'")));
    }
    image_size(&path, &shown, &format, false)
}

/// Makes a new, empty volume with the next free name and says so in the log.
///
/// # Errors
/// 500: storage unknown, disabled or elsewhere, format not possible there, disk full.
pub fn allocate(
    work: &Work,
    target: &str,
    vmid: u32,
    format: &str,
    bytes: u64,
) -> Result<String, PveError> {
    let (volid, path, shown) = {
        let st = work.lab.st();
        storage::usable(&st, target, &work.node)?;
        let file_based = st
            .storages
            .get(target)
            .is_some_and(storage::Storage::is_file_based);
        match (file_based, format) {
            (true, "raw" | "qcow2" | "vmdk") | (false, "raw") => {}
            (true, _) => {
                return Err(PveError::die(format!(
                    "unable to parse volume filename 'vm-{vmid}-disk-0.{format}'"
                )));
            }
            (false, _) => return Err(PveError::die(format!("unsupported format '{format}'"))),
        }
        let volid = storage::next_volid(&st, &work.node, target, vmid, format, &[])?;
        let path = storage::path_of(&st, &work.node, &volid)?;
        reserve(&path)?;
        let shown = storage::shown_path(&st, &volid)?;
        (volid, path, shown)
    };
    fill(work, &path, &shown, format, bytes)?;
    Ok(volid)
}

/// Makes the file, so that its name is taken while the image is made.
///
/// # Errors
/// 500 if it is there already or cannot be made.
pub fn reserve(path: &Path) -> Result<(), PveError> {
    let fails = |e: std::io::Error| PveError::die(format!("unable to create image: {e}"));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fails)?;
    }
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map(|_| ())
        .map_err(fails)
}

/// Makes the image in a file that [`reserve`] made, and says so in the log.
///
/// # Errors
/// 500 with the text of `qemu-img`.
pub fn fill(
    work: &Work,
    path: &Path,
    shown: &str,
    format: &str,
    bytes: u64,
) -> Result<(), PveError> {
    let details = match format {
        "qcow2" => format!(
            "cluster_size=65536 extended_l2=off preallocation=metadata compression_type=zlib size={bytes} lazy_refcounts=off refcount_bits=16"
        ),
        "vmdk" => format!("size={bytes} compat6=off hwversion=undefined"),
        _ => format!("size={bytes} preallocation=off"),
    };
    let mut size = bytes;
    if shown.starts_with('/') && path.extension().is_none() {
        size = bytes.div_ceil(EXTENT) * EXTENT;
        work.log(format!(
            "  Logical volume \"{}\" created.",
            utf8(Path::new(path.file_name().unwrap_or_default()))
        ));
    } else {
        work.log(format!("Formatting '{shown}', fmt={format} {details}"));
    }
    if format == "raw" {
        return std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|f| f.set_len(size))
            .map_err(|e| PveError::die(format!("unable to create image: {e}")));
    }
    let size = size.to_string();
    let mut args = vec!["create", "-q", "-f", format];
    if format == "qcow2" {
        args.extend(["-o", "preallocation=metadata"]);
    }
    let file = utf8(path);
    args.extend([file.as_str(), size.as_str()]);
    qemu_img(&args)
        .map(|_| ())
        .map_err(|e| PveError::die(format!("unable to create image: {e}")))
}

/// Bytes as the copy's progress lines show them.
fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// Copies an image into an existing one of at least its size, as fast as the world allows, with progress in the log.
///
/// # Errors
/// What `qemu-img convert` says; `received interrupt`.
pub fn copy(
    work: &Work,
    from: &Path,
    from_format: &str,
    to: &Path,
    to_format: &str,
    bytes: u64,
) -> Result<(), PveError> {
    copy_snapshot(work, from, None, from_format, to, to_format, bytes)
}

/// What is left on the storage that this file lies on.
fn room(work: &Work, file: &Path) -> u64 {
    let st = work.lab.st();
    for s in st.storages.values() {
        for (node, root) in &s.roots {
            if file.starts_with(root) {
                return s.total.saturating_sub(s.used(node));
            }
        }
    }
    u64::MAX
}

fn copy_snapshot(
    work: &Work,
    from: &Path,
    snapshot: Option<&str>,
    from_format: &str,
    to: &Path,
    to_format: &str,
    bytes: u64,
) -> Result<(), PveError> {
    let progress = |done: u64| {
        let percent = if bytes == 0 {
            100.0
        } else {
            done as f64 * 100.0 / bytes as f64
        };
        work.log(format!(
            "transferred {} of {} ({percent:.2}%)",
            human(done),
            human(bytes)
        ));
    };
    let rate = work.lab.st().timing.copy_bytes_per_s;
    let start = Instant::now();
    progress(0);
    // Holes are not written: what the source really holds must fit.
    let held = std::fs::metadata(from).map_or(0, |m| m.blocks() * 512);
    if held > room(work, to) {
        let why = "qemu-img: error while writing at byte 0: No space left on device";
        work.log(why);
        return Err(PveError::die(format!("copy failed: {why}")));
    }
    let (source, target) = (utf8(from), utf8(to));
    let kept = snapshot.map(|s| format!("snapshot.name={s}"));
    let mut args = vec!["convert", "-n", "-f", from_format, "-O", to_format];
    if let Some(k) = &kept {
        args.extend(["-l", k]);
    }
    args.extend([source.as_str(), target.as_str()]);
    qemu_img(&args).map_err(|e| PveError::die(format!("copy failed: {e}")))?;
    if rate > 0 {
        let total = u64::try_from(u128::from(bytes) * 1000 / u128::from(rate)).unwrap_or(u64::MAX);
        let step = (total / 50).clamp(20, 1000);
        let mut next = step;
        while next < total {
            let elapsed = start.elapsed().as_millis() as u64;
            work.sleep(next.saturating_sub(elapsed))?;
            progress(
                u64::try_from(u128::from(bytes) * u128::from(next) / u128::from(total))
                    .unwrap_or(bytes),
            );
            next += step;
        }
        work.sleep(total.saturating_sub(start.elapsed().as_millis() as u64))?;
    }
    progress(bytes);
    Ok(())
}

/// Copies a volume into a new one of a guest; returns the new volume id and its size in bytes.
///
/// # Errors
/// As [`allocate`] and [`copy`]; a half-made copy is removed.
pub fn clone_volume(
    work: &Work,
    volid: &str,
    target: &str,
    vmid: u32,
    format: Option<&str>,
) -> Result<(String, u64), PveError> {
    clone_snapshot(work, volid, None, target, vmid, format)
}

/// The same of what a snapshot kept of the volume: only qcow2 images have those here.
///
/// # Errors
/// As [`clone_volume`].
pub fn clone_snapshot(
    work: &Work,
    volid: &str,
    snapshot: Option<&str>,
    target: &str,
    vmid: u32,
    format: Option<&str>,
) -> Result<(String, u64), PveError> {
    let (path, from_format, file_based) = {
        let st = work.lab.st();
        let file_based = st
            .storages
            .get(target)
            .is_some_and(storage::Storage::is_file_based);
        (
            storage::path_of(&st, &work.node, volid)?,
            storage::parse_volid(&st, volid)?.format,
            file_based,
        )
    };
    let bytes = volume_size(work.lab, &work.node, volid)?;
    let format = match format {
        Some(f) => f.to_string(),
        None if file_based => from_format.clone(),
        None => "raw".to_string(),
    };
    let new = allocate(work, target, vmid, &format, bytes)?;
    work.log(format!("allocated target volume '{new}'"));
    let to = { storage::path_of(&work.lab.st(), &work.node, &new)? };
    copy_snapshot(work, &path, snapshot, &from_format, &to, &format, bytes)
        .inspect_err(|_| free(work.lab, &work.node, &new))?;
    // The new volume's own size, which a block storage has rounded up.
    let bytes = volume_size(work.lab, &work.node, &new)?;
    Ok((new, bytes))
}

/// The format of a move or a clone: one that the storage does not have is a hint only, and it takes its own
/// (qemu-server, resolve_dst_disk_format). Importing into a new disk does not take it so.
pub fn hinted<'a>(lab: &Lab, storage: &str, format: Option<&'a str>) -> Option<&'a str> {
    let st = lab.st();
    format.filter(|_| {
        st.storages
            .get(storage)
            .is_some_and(storage::Storage::is_file_based)
    })
}

/// A size as that storage can hold it, in bytes: LVM gives out whole extents.
pub fn rounded(lab: &Lab, storage: &str, bytes: u64) -> u64 {
    let st = lab.st();
    match st.storages.get(storage) {
        Some(s) if !s.is_file_based() => bytes.div_ceil(EXTENT) * EXTENT,
        _ => bytes,
    }
}

/// Removes a volume, whatever it says: for cleaning up after an error.
pub fn free(lab: &Arc<Lab>, node: &str, volid: &str) {
    let _ = storage::free_volume(&lab.st(), node, volid);
}

/// The volume ids of a guest's images that lie on a storage, named by the guest or not.
pub fn images_of(st: &State, node: &str, id: &str, vmid: u32) -> Vec<String> {
    let Some((found, root)) = st.storages.get(id).and_then(|s| Some((s, s.root(node)?))) else {
        return Vec::new();
    };
    let folder = if found.is_file_based() {
        root.join(format!("images/{vmid}"))
    } else {
        root.to_path_buf()
    };
    let names = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned());
    let volids = names.map(|n| {
        if found.is_file_based() {
            format!("{id}:{vmid}/{n}")
        } else {
            format!("{id}:{n}")
        }
    });
    let mut all: Vec<String> = volids
        .filter(|v| storage::parse_volid(st, v).is_ok_and(|p| p.owner == Some(vmid)))
        .collect();
    all.sort();
    all
}
