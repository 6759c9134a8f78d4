//! `/storage`, `/nodes/N/storage/...`: the routes of storages and their content.
use super::storage::{self, Storage, parse_volid};
use super::tasks::{self, spawn_task};
use super::{Auth, Call, Lab, PveError, Router, State, formats};
use crate::world::Rng;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Adds the routes of this file.
pub fn register(r: &mut Router) {
    r.add("GET", "/storage", list_all);
    r.add("GET", "/storage/{storage}", show);
    r.add("GET", "/nodes/{node}/storage", list_node);
    r.add("GET", "/nodes/{node}/storage/{storage}/status", status);
    r.add("GET", "/nodes/{node}/storage/{storage}/content", list);
    r.add("POST", "/nodes/{node}/storage/{storage}/content", allocate);
    r.add(
        "GET",
        "/nodes/{node}/storage/{storage}/content/{volume}",
        volume,
    );
    r.add(
        "DELETE",
        "/nodes/{node}/storage/{storage}/content/{volume}",
        delete,
    );
}

const SEE: &[&str] = &["Datastore.Audit", "Datastore.AllocateSpace"];

fn declared(s: &Storage, digest: &str) -> Value {
    let mut v = s.decl.clone();
    v.insert("digest".into(), json!(digest));
    Value::Object(v)
}

fn digest(st: &State) -> String {
    let text: String = st
        .storages
        .values()
        .map(|s| Value::Object(s.decl.clone()).to_string())
        .collect();
    super::sdn::sha1_hex(&text)
}

fn list_all(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let (kind, digest) = (call.text("type"), digest(&st));
    Ok(st
        .storages
        .values()
        .filter(|s| {
            kind.as_ref().is_none_or(|k| *k == s.kind)
                && st.may_any(&call.auth, &format!("/storage/{}", s.id), SEE)
        })
        .map(|s| declared(s, &digest))
        .collect())
}

fn show(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let id = call.arg("storage");
    let s = st
        .storages
        .get(&id)
        .ok_or_else(|| PveError::die(format!("storage '{id}' does not exist")))?;
    Ok(declared(s, &digest(&st)))
}

/// A storage's numbers on a node, as the status routes and `/cluster/resources` show them.
fn numbers(s: &Storage, node: &str) -> Value {
    let mut content = s.content.clone();
    content.sort();
    let mut v = json!({"type": s.kind, "content": content.join(","), "shared": u8::from(s.shared), "enabled": u8::from(!s.disabled),
        "active": u8::from(!s.disabled)});
    let used = if s.disabled {
        0
    } else {
        s.used(node).min(s.total)
    };
    let total = if s.disabled { 0 } else { s.total };
    v["total"] = json!(total);
    v["used"] = json!(used);
    v["avail"] = json!(total - used);
    v
}

fn list_node(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let node = call.arg("node");
    let wanted = formats::split_list(&call.arg("content"));
    let target = call.text("target");
    Ok(st
        .storages
        .values()
        .filter(|s| s.nodes.is_empty() || s.nodes.contains(&node))
        .filter(|s| {
            target
                .as_ref()
                .is_none_or(|t| s.shared && (s.nodes.is_empty() || s.nodes.contains(t)))
        })
        .filter(|s| !(call.flag("enabled") && s.disabled))
        .filter(|s| call.text("storage").is_none_or(|only| only == s.id))
        .filter(|s| wanted.is_empty() || wanted.iter().any(|c| s.takes(c)))
        .filter(|s| st.may_any(&call.auth, &format!("/storage/{}", s.id), SEE))
        .map(|s| {
            let mut v = numbers(s, &node);
            v["storage"] = json!(s.id);
            if s.total > 0 && !s.disabled {
                v["used_fraction"] = json!(v["used"].as_f64().unwrap_or(0.0) / s.total as f64);
            }
            v
        })
        .collect())
}

fn status(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let st = lab.st();
    let (node, id) = (call.arg("node"), call.arg("storage"));
    storage::usable(&st, &id, &node)?;
    Ok(numbers(&st.storages[&id], &node))
}

/// The storages of a node for `/cluster/resources`.
pub fn resources(st: &State, auth: &Auth, node: &str) -> Vec<Value> {
    st.storages
        .values()
        .filter(|s| s.nodes.is_empty() || s.nodes.iter().any(|n| n == node))
        .filter(|s| st.may(auth, &format!("/storage/{}", s.id), &["Datastore.Audit"]))
        .map(|s| {
            let n = numbers(s, node);
            json!({"id": format!("storage/{node}/{}", s.id), "type": "storage", "storage": s.id, "node": node,
                "status": if s.disabled { "unknown" } else { "available" }, "plugintype": s.kind, "content": n["content"],
                "shared": n["shared"], "maxdisk": n["total"], "disk": n["used"]})
        })
        .collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Every volume id of a storage on a node, of one content type or of all.
pub fn volids(st: &State, node: &str, id: &str, content: Option<&str>) -> Vec<String> {
    let Some(s) = st.storages.get(id) else {
        return Vec::new();
    };
    let Some(root) = s.root(node) else {
        return Vec::new();
    };
    let wants = |c: &str| s.takes(c) && content.is_none_or(|x| x == c);
    let mut found = Vec::new();
    if s.kind == "esxi" {
        for (datastore, below) in &s.datastores {
            for folder in files(&root.join(below)).into_iter().filter(|p| p.is_dir()) {
                let is_listed =
                    |p: &PathBuf| p.extension().is_some_and(|e| e == "vmx" || e == "vmdk");
                for f in files(&folder).into_iter().filter(is_listed) {
                    let (folder, file) = (name(&folder), name(&f));
                    found.push(format!("{id}:ha-datacenter/{datastore}/{folder}/{file}"));
                }
            }
        }
        return found;
    }
    if wants("images") || wants("rootdir") {
        if s.is_file_based() {
            for folder in files(&root.join("images"))
                .into_iter()
                .filter(|p| p.is_dir())
            {
                for f in files(&folder) {
                    found.push(format!("{id}:{}/{}", name(&folder), name(&f)));
                }
            }
        } else {
            found.extend(files(root).iter().map(|f| format!("{id}:{}", name(f))));
        }
    }
    for (c, folder, prefix) in [
        ("import", "import", "import"),
        ("iso", "template/iso", "iso"),
        ("vztmpl", "template/cache", "vztmpl"),
        ("snippets", "snippets", "snippets"),
        ("backup", "dump", "backup"),
    ] {
        if wants(c) && s.is_file_based() {
            found.extend(
                files(&root.join(folder))
                    .iter()
                    .filter(|f| f.is_file())
                    .map(|f| format!("{id}:{prefix}/{}", name(f))),
            );
        }
    }
    found.retain(|v| parse_volid(st, v).is_ok());
    found
}

fn describe(st: &State, node: &str, volid: &str) -> Option<Value> {
    let v = parse_volid(st, volid).ok()?;
    let path = storage::path_of(st, node, volid).ok()?;
    let meta = fs::metadata(&path).ok()?;
    let mut out = json!({"volid": volid, "content": v.vtype, "format": v.format, "size": meta.len(), "ctime": meta.ctime()});
    if let Some(owner) = v.owner {
        let (_, size, used) = storage::image_info(&path, &v.format).ok()?;
        let lxc = st.guests.get(&owner).is_some_and(|g| g.kind == "lxc");
        out["content"] = json!(if lxc { "rootdir" } else { "images" });
        out["vmid"] = json!(owner);
        out["size"] = json!(size);
        if st.storages[&v.storage].is_file_based() {
            out["used"] = json!(used);
            out["parent"] = Value::Null;
        }
    }
    Some(out)
}

fn list(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let (node, id) = (call.arg("node"), call.arg("storage"));
    // qemu-img may take its time over many images: work on a copy of the state.
    let st = lab.st().clone();
    storage::usable(&st, &id, &node)?;
    let vmid = call.int("vmid");
    let mut all: Vec<Value> = volids(&st, &node, &id, call.text("content").as_deref())
        .iter()
        // `vmid` filters images only: imports and snippets are listed all the same (docs/pve-privileges.md).
        .filter(|v| {
            vmid.is_none_or(|n| {
                parse_volid(&st, v).is_ok_and(|p| p.owner.is_none_or(|o| i64::from(o) == n))
            })
        })
        .filter(|v| storage::check_volume_access(&st, &call.auth, None, v).is_ok())
        .filter_map(|v| describe(&st, &node, v))
        .collect();
    all.sort_by_key(|v| v["volid"].as_str().unwrap_or("").to_string());
    Ok(all.into())
}

/// `local:100/x` or, when the storage is in the path, `100/x`.
fn volid_of(call: &Call) -> Result<String, PveError> {
    let (volume, id) = (call.arg("volume"), call.arg("storage"));
    match volume.split_once(':') {
        None => Ok(format!("{id}:{volume}")),
        Some((s, _)) if s == id => Ok(volume),
        Some((s, _)) => Err(PveError::param(
            "storage",
            format!("storage ID does not match volume ID ({s} != {id})"),
        )),
    }
}

fn volume(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let volid = volid_of(call)?;
    let node = call.arg("node");
    let (path, format, shown) = {
        let st = lab.st();
        storage::check_volume_access(&st, &call.auth, None, &volid)?;
        let v = parse_volid(&st, &volid)?;
        (
            storage::path_of(&st, &node, &volid)?,
            v.format,
            storage::shown_path(&st, &volid)?,
        )
    };
    let (_, size, used) = storage::image_info(&path, if format == "ova" { "raw" } else { &format })
        .map_err(|_| PveError::die(format!("volume_size_info on '{volid}' failed - no format")))?;
    Ok(json!({"path": shown, "size": size, "used": used, "format": format}))
}

fn allocate(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let (node, id, vmid, file) = (
        call.arg("node"),
        call.arg("storage"),
        call.vmid(),
        call.arg("filename"),
    );
    let st = lab.st();
    storage::usable(&st, &id, &node)?;
    let s = &st.storages[&id];
    let extension = file
        .rsplit_once('.')
        .map(|(_, e)| e.to_string())
        .filter(|e| ["raw", "qcow2", "vmdk"].contains(&e.as_str()));
    let format = call
        .text("format")
        .or_else(|| extension.clone())
        .unwrap_or_else(|| "raw".into());
    if extension.as_ref().is_some_and(|e| *e != format) {
        return Err(PveError::param(
            "format",
            format!(
                "different storage formats ({format} != {})",
                extension.unwrap_or_default()
            ),
        ));
    }
    if !file.starts_with(&format!("vm-{vmid}-")) {
        return Err(PveError::die(format!(
            "illegal name '{file}' - should be 'vm-{vmid}-*'"
        )));
    }
    if !s.is_file_based() && format != "raw" {
        return Err(PveError::die(format!("unsupported format '{format}'")));
    }
    let size = call.arg("size");
    let (digits, factor) = match size
        .strip_suffix('M')
        .map(|d| (d, 1u64 << 20))
        .or(size.strip_suffix('G').map(|d| (d, 1 << 30)))
    {
        Some(pair) => pair,
        None => (size.as_str(), 1024),
    };
    let bytes = digits.parse::<u64>().unwrap_or(0) * factor;
    let volid = match (s.is_file_based(), &extension) {
        (true, Some(_)) => format!("{id}:{vmid}/{file}"),
        (true, None) => format!("{id}:{vmid}/{file}.{format}"),
        (false, _) => format!("{id}:{file}"),
    };
    let path = storage::path_of(&st, &node, &volid)?;
    if path.exists() {
        return Err(PveError::die(format!(
            "disk image '{}' already exists",
            storage::shown_path(&st, &volid)?
        )));
    }
    storage::create_image(&path, &format, bytes).map_err(PveError::die)?;
    Ok(json!(volid))
}

fn delete(lab: &Arc<Lab>, call: &Call) -> Result<Value, PveError> {
    let volid = volid_of(call)?;
    let (node, id) = (call.arg("node"), call.arg("storage"));
    {
        let st = lab.st();
        storage::usable(&st, &id, &node)?;
        parse_volid(&st, &volid)?;
        st.check(
            &call.auth,
            &format!("/storage/{id}"),
            &["Datastore.Allocate"],
        )?;
    }
    let worker = {
        let st = lab.st();
        parse_volid(&st, &volid)?
            .owner
            .map(|o| o.to_string())
            .unwrap_or_default()
    };
    let (on, vol) = (node.clone(), volid.clone());
    let upid = spawn_task(
        lab,
        &node,
        "imgdel",
        &format!("{worker}@{id}"),
        &call.auth,
        move |ctx| {
            ctx.work("imgdel")?;
            let st = ctx.lab.st();
            let path = storage::path_of(&st, &on, &vol).map_err(|e| e.message)?;
            if !path.exists() {
                return Err(format!("volume '{vol}' does not exist"));
            }
            storage::free_volume(&st, &on, &vol).map_err(|e| e.message)?;
            drop(st);
            ctx.log(format!("Removed volume '{vol}'"));
            Ok(())
        },
    );
    tasks::null_if_done(
        lab,
        &upid,
        call.int("delay").unwrap_or(0).max(0) as u64 * 1000,
    )
}

fn run(program: &str, args: &[&str], dir: &Path) -> Result<(), String> {
    let out = Command::new(program)
        .args(args)
        .current_dir(dir)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        ))
    }
}

/// Makes the files that `content` of the world names: `{STORAGE or STORAGE@NODE: [{volid, size, virtual_size, source, random, text, backing}]}`.
/// Errors: what is wrong in it.
pub fn lay_out(st: &State, world: &Value) -> Result<(), String> {
    let mut rng = Rng::new(world["seed"].as_u64().unwrap_or(7));
    for (key, entries) in world["content"].as_object().into_iter().flatten() {
        let (id, node) = key.split_once('@').unwrap_or((key, ""));
        let s = st
            .storages
            .get(id)
            .ok_or_else(|| format!("content: no storage '{id}'"))?;
        let node = if node.is_empty() {
            st.nodes.first().map(|n| n.name.as_str()).unwrap_or("")
        } else {
            node
        };
        for e in entries.as_array().into_iter().flatten() {
            let volid = e["volid"]
                .as_str()
                .ok_or("content: an entry has no volid")?;
            let v = parse_volid(st, volid).map_err(|e| format!("content: {}", e.message))?;
            let path = s
                .root(node)
                .ok_or_else(|| format!("content: no node '{node}'"))?
                .join(&v.relative);
            let remark = world["remarks"][volid].as_str().unwrap_or("");
            make(&path, &v, e, remark, &mut rng).map_err(|e| format!("content {volid}: {e}"))?;
        }
    }
    Ok(())
}

fn make(
    path: &Path,
    v: &storage::Volume,
    e: &Value,
    remark: &str,
    rng: &mut Rng,
) -> Result<(), String> {
    let say = |x: std::io::Error| x.to_string();
    let dir = path.parent().ok_or("no folder")?;
    fs::create_dir_all(dir).map_err(say)?;
    if path.exists() {
        return Ok(());
    }
    if let Some(source) = e["source"].as_str() {
        return fs::copy(source, path).map(|_| ()).map_err(say);
    }
    if let Some(text) = e["text"].as_str() {
        return fs::write(path, text).map_err(say);
    }
    let size = e["size"].as_u64().unwrap_or(1 << 20);
    let gib = remark
        .strip_prefix("virtual size ")
        .and_then(|r| r.split(' ').next())
        .and_then(|n| n.parse::<u64>().ok());
    let image = v.owner.is_some();
    let virtual_size = e["virtual_size"]
        .as_u64()
        .or(gib.map(|g| g << 30))
        .unwrap_or(
            if image || !matches!(v.format.as_str(), "qcow2" | "vmdk" | "ova") {
                size
            } else {
                64 << 20
            },
        );
    let file = path.to_string_lossy();
    let backing = e["backing"]
        .as_str()
        .or(remark.contains("backing file").then_some("/etc/hostname"));
    match (v.format.as_str(), backing) {
        (format @ ("qcow2" | "vmdk"), Some(b)) => {
            run(
                "qemu-img",
                &[
                    "create",
                    "-q",
                    "-f",
                    format,
                    "-u",
                    "-b",
                    b,
                    "-F",
                    "raw",
                    &file,
                    &virtual_size.to_string(),
                ],
                dir,
            )?;
        }
        (format @ ("qcow2" | "vmdk"), None) => storage::create_image(path, format, virtual_size)?,
        ("ova", _) => return make_ova(path, dir, virtual_size),
        _ => {
            let f = fs::File::create(path).map_err(say)?;
            f.set_len(virtual_size.max(if image { 0 } else { size }))
                .map_err(say)?;
        }
    }
    if e["random"] == true {
        scribble(path, &v.format, virtual_size, rng)?;
    }
    // Import files are listed with their file size: pad to the recorded one (trailing zeros mean nothing to qemu).
    let now = fs::metadata(path).map_err(say)?.len();
    if !image && now < size && e["size"].is_u64() {
        fs::File::options()
            .write(true)
            .open(path)
            .and_then(|f| f.set_len(size))
            .map_err(say)?;
    }
    Ok(())
}

/// Fills an image with random bytes of the seed.
fn scribble(path: &Path, format: &str, bytes: u64, rng: &mut Rng) -> Result<(), String> {
    let say = |x: std::io::Error| x.to_string();
    let raw = if format == "raw" || format == "iso" {
        path.to_path_buf()
    } else {
        path.with_extension("labsim-raw")
    };
    let mut out = Vec::with_capacity(bytes as usize);
    while (out.len() as u64) < bytes {
        out.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    out.truncate(bytes as usize);
    fs::write(&raw, out).map_err(say)?;
    if raw != path {
        let end = run(
            "qemu-img",
            &[
                "convert",
                "-f",
                "raw",
                "-O",
                format,
                &raw.to_string_lossy(),
                &path.to_string_lossy(),
            ],
            Path::new("/"),
        );
        fs::remove_file(&raw).map_err(say)?;
        end?;
    }
    Ok(())
}

/// An OVA with an OVF and one VMDK.
fn make_ova(path: &Path, dir: &Path, bytes: u64) -> Result<(), String> {
    let say = |x: std::io::Error| x.to_string();
    let stem = path
        .file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    let work = dir.join(format!(".{stem}.labsim"));
    fs::create_dir_all(&work).map_err(say)?;
    run(
        "qemu-img",
        &[
            "create",
            "-q",
            "-f",
            "vmdk",
            "disk1.vmdk",
            &bytes.to_string(),
        ],
        &work,
    )?;
    let ovf = format!(
        "<?xml version=\"1.0\"?>\n<Envelope xmlns=\"http://schemas.dmtf.org/ovf/envelope/1\" xmlns:ovf=\"http://schemas.dmtf.org/ovf/envelope/1\">\n\
         <References><File ovf:id=\"file1\" ovf:href=\"disk1.vmdk\"/></References>\n\
         <DiskSection><Disk ovf:diskId=\"vmdisk1\" ovf:fileRef=\"file1\" ovf:capacity=\"{bytes}\"/></DiskSection>\n\
         <VirtualSystem ovf:id=\"{stem}\"><Name>{stem}</Name></VirtualSystem>\n</Envelope>\n"
    );
    fs::write(work.join(format!("{stem}.ovf")), ovf).map_err(say)?;
    run(
        "tar",
        &[
            "-cf",
            &path.to_string_lossy(),
            &format!("{stem}.ovf"),
            "disk1.vmdk",
        ],
        &work,
    )?;
    fs::remove_dir_all(&work).map_err(say)
}
