//! Storages with real files: records, volume ids, images. The routes are in `content.rs`.
use super::{Auth, PveError, Router, State, content, formats, propstr};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A storage.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Its name.
    pub id: String,
    /// `dir`, `nfs`, `lvmthin`, `esxi`, ...
    pub kind: String,
    /// The real folder by node; a shared storage has the same one everywhere.
    pub roots: BTreeMap<String, PathBuf>,
    /// Content types it takes: `images`, `import`, `iso`, ...
    pub content: Vec<String>,
    /// Nodes it is limited to; empty = all.
    pub nodes: Vec<String>,
    /// Switched off.
    pub disabled: bool,
    /// The same files on every node.
    pub shared: bool,
    /// Size as the storage reports it, bytes.
    pub total: u64,
    /// Taken by things that the lab does not hold, bytes.
    pub foreign: u64,
    /// `esxi` only: the host's datastores, by name, and where they are below the state folder.
    pub datastores: BTreeMap<String, String>,
    /// As `GET /storage` shows it, without digest.
    pub decl: Map<String, Value>,
}

impl Storage {
    /// Whether it keeps files (`dir`, `nfs`, `cifs`) rather than volumes of a block storage (raw only).
    pub fn is_file_based(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "dir" | "nfs" | "cifs" | "cephfs" | "btrfs"
        )
    }

    /// The real folder on a node.
    pub fn root(&self, node: &str) -> Option<&Path> {
        self.roots.get(node).map(PathBuf::as_path)
    }

    /// Whether it takes that content type.
    pub fn takes(&self, content: &str) -> bool {
        self.content.iter().any(|c| c == content)
    }

    /// The folder as the API names it, such as `/var/lib/vz`.
    pub fn shown_path(&self) -> String {
        match self.decl.get("path").and_then(Value::as_str) {
            Some(p) => p.to_string(),
            None => format!("/mnt/pve/{}", self.id),
        }
    }

    /// Bytes used (what its files take on disk, and `foreign`) on a node.
    pub fn used(&self, node: &str) -> u64 {
        fn du(dir: &Path) -> u64 {
            let Ok(entries) = fs::read_dir(dir) else {
                return 0;
            };
            entries
                .flatten()
                .map(|e| match e.metadata() {
                    Ok(m) if m.is_dir() => du(&e.path()),
                    Ok(m) => m.blocks() * 512,
                    Err(_) => 0,
                })
                .sum()
        }
        // An esxi storage only shows what is another's.
        let root = self.root(node).filter(|_| self.kind != "esxi");
        self.foreign + root.map_or(0, du)
    }
}

/// What a volume id means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// The storage.
    pub storage: String,
    /// The part behind the colon.
    pub name: String,
    /// `images`, `import`, `iso`, `snippets`, `vztmpl`, `backup`.
    pub vtype: String,
    /// The guest that owns it (`images` only).
    pub owner: Option<u32>,
    /// `raw`, `qcow2`, `vmdk`, `iso`, `ova`, `ova+vmdk` (a disk inside an OVA), ...
    pub format: String,
    /// Where the file is, below the storage's folder.
    pub relative: String,
}

/// Reads `STORAGE:NAME` as that storage's plugin does; the volume need not exist.
/// Errors: 500 `unable to parse volume ID 'x'`, `storage 'x' does not exist`, `unable to parse directory volume name 'x'`, ...
pub fn parse_volid(st: &State, volid: &str) -> Result<Volume, PveError> {
    propstr::check_format("pve-volume-id", volid).map_err(|e| PveError::die(e.trim_end()))?;
    let (id, name) = volid.split_once(':').unwrap_or((volid, ""));
    let storage = st
        .storages
        .get(id)
        .ok_or_else(|| PveError::die(format!("storage '{id}' does not exist")))?;
    let volume = |vtype: &str, owner: Option<u32>, format: &str, relative: String| Volume {
        storage: id.into(),
        name: name.into(),
        vtype: vtype.into(),
        owner,
        format: format.into(),
        relative,
    };
    let extension = |file: &str| {
        file.rsplit_once('.')
            .map(|(_, e)| e.to_ascii_lowercase())
            .unwrap_or_default()
    };
    if storage.kind == "esxi" {
        let mut parts = name.splitn(3, '/');
        let (_datacenter, datastore, path) = (parts.next(), parts.next(), parts.next());
        let folder = datastore.and_then(|d| storage.datastores.get(d));
        return match (folder, path) {
            (Some(folder), Some(path))
                if !path.is_empty() && !path.split('/').any(|p| p == "..") =>
            {
                Ok(volume(
                    "import",
                    None,
                    &extension(path),
                    format!("{folder}/{path}"),
                ))
            }
            _ => Err(PveError::die(format!(
                "unable to parse esxi volume name '{name}'"
            ))),
        };
    }
    if !storage.is_file_based() {
        let owner = name
            .strip_prefix("vm-")
            .or_else(|| name.strip_prefix("base-"))
            .and_then(|r| r.split_once('-'))
            .and_then(|(n, rest)| (!rest.is_empty()).then(|| n.parse::<u32>().ok()).flatten());
        return match owner {
            Some(owner) if !name.contains('/') => {
                Ok(volume("images", Some(owner), "raw", name.to_string()))
            }
            _ => Err(PveError::die(format!(
                "unable to parse lvm volume name '{name}'"
            ))),
        };
    }
    let wrong = || PveError::die(format!("unable to parse directory volume name '{name}'"));
    let parts: Vec<&str> = name.split('/').collect();
    if parts
        .iter()
        .any(|p| p.is_empty() || *p == "." || *p == "..")
    {
        return Err(wrong());
    }
    let first = parts[0];
    if let Ok(owner) = first.parse::<u32>() {
        let file = match parts.len() {
            2 => parts[1],
            // A linked clone names its base first.
            4 => parts[3],
            _ => return Err(wrong()),
        };
        let owner = if parts.len() == 4 {
            parts[2].parse().map_err(|_| wrong())?
        } else {
            owner
        };
        let format = extension(file);
        if !["raw", "qcow2", "vmdk", "subvol"].contains(&format.as_str()) {
            return Err(PveError::die(format!(
                "unable to parse volume filename '{file}'"
            )));
        }
        return Ok(volume(
            "images",
            Some(owner),
            &format,
            format!("images/{owner}/{file}"),
        ));
    }
    let ends =
        |file: &str, list: &[&str]| list.iter().any(|e| file.to_ascii_lowercase().ends_with(e));
    match (first, parts.len()) {
        ("iso", 2) if ends(parts[1], &[".iso", ".img"]) => Ok(volume(
            "iso",
            None,
            "iso",
            format!("template/iso/{}", parts[1]),
        )),
        ("vztmpl", 2) if ends(parts[1], &[".tar.gz", ".tar.xz", ".tar.zst"]) => Ok(volume(
            "vztmpl",
            None,
            "tgz",
            format!("template/cache/{}", parts[1]),
        )),
        ("snippets", 2) => Ok(volume(
            "snippets",
            None,
            "snippet",
            format!("snippets/{}", parts[1]),
        )),
        ("backup", 2) => Ok(volume(
            "backup",
            None,
            &extension(parts[1]),
            format!("dump/{}", parts[1]),
        )),
        ("import", 2)
            if ends(
                parts[1],
                &[".ova", ".ovf", ".qcow2", ".raw", ".vmdk", ".img"],
            ) =>
        {
            let format = if ends(parts[1], &[".img"]) {
                "raw".to_string()
            } else {
                extension(parts[1])
            };
            Ok(volume(
                "import",
                None,
                &format,
                format!("import/{}", parts[1]),
            ))
        }
        ("import", 3)
            if ends(parts[1], &[".ova"]) && ends(parts[2], &[".vmdk", ".qcow2", ".raw"]) =>
        {
            Ok(volume(
                "import",
                None,
                &format!("ova+{}", extension(parts[2])),
                format!("import/{}", parts[1]),
            ))
        }
        _ => Err(wrong()),
    }
}

/// The real file of a volume on a node (it need not exist). Errors: as `parse_volid` and `usable`.
pub fn path_of(st: &State, node: &str, volid: &str) -> Result<PathBuf, PveError> {
    let volume = parse_volid(st, volid)?;
    usable(st, &volume.storage, node)?;
    let root = st.storages[&volume.storage].root(node);
    root.map(|r| r.join(&volume.relative))
        .ok_or_else(|| PveError::die(format!("storage '{}' has no folder", volume.storage)))
}

/// The path of a volume as the API shows it (`/var/lib/vz/images/100/vm-100-disk-0.raw`). Errors: as `parse_volid`.
pub fn shown_path(st: &State, volid: &str) -> Result<String, PveError> {
    let v = parse_volid(st, volid)?;
    let s = &st.storages[&v.storage];
    Ok(match s.kind.as_str() {
        "esxi" => format!("/run/pve/import/esxi/{}/mnt/{}", s.id, v.name),
        _ if s.is_file_based() => format!("{}/{}", s.shown_path(), v.relative),
        _ => format!(
            "/dev/{}/{}",
            s.decl
                .get("vgname")
                .and_then(Value::as_str)
                .unwrap_or("pve"),
            v.name
        ),
    })
}

/// Whether the storage can be used on the node. Errors: 500 `storage 'x' does not exist`, `storage 'x' is disabled`,
/// `storage 'x' is not available on node 'n'`.
pub fn usable(st: &State, storage: &str, node: &str) -> Result<(), PveError> {
    let s = st
        .storages
        .get(storage)
        .ok_or_else(|| PveError::die(format!("storage '{storage}' does not exist")))?;
    if s.disabled {
        return Err(PveError::die(format!("storage '{storage}' is disabled")));
    }
    if !s.nodes.is_empty() && !s.nodes.iter().any(|n| n == node) {
        return Err(PveError::die(format!(
            "storage '{storage}' is not available on node '{node}'"
        )));
    }
    Ok(())
}

/// A free name for a guest's new disk and its volume id (`local:100/vm-100-disk-0.qcow2`, `thin:vm-100-disk-0`), without making it.
/// Numbers in use (files on disk of any format, and `taken` volume ids) are left out. Errors: as `usable`.
pub fn next_volid(
    st: &State,
    node: &str,
    storage: &str,
    vmid: u32,
    format: &str,
    taken: &[String],
) -> Result<String, PveError> {
    usable(st, storage, node)?;
    let s = &st.storages[storage];
    let root = s.root(node).unwrap_or(Path::new("/nonexistent"));
    let folder = if s.is_file_based() {
        root.join(format!("images/{vmid}"))
    } else {
        root.to_path_buf()
    };
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.extend(
        taken
            .iter()
            .filter(|v| v.starts_with(&format!("{storage}:")))
            .map(|v| v.rsplit(['/', ':']).next().unwrap_or("").to_string()),
    );
    let free = |n: &u32| {
        // A template's volumes count too (source: pve-storage, Plugin.pm, get_vm_disk_number: `(vm|base)-$vmid-disk-(\d+)`).
        ["vm", "base"].iter().all(|kind| {
            let stem = format!("{kind}-{vmid}-disk-{n}");
            !names
                .iter()
                .any(|f| *f == stem || f.starts_with(&format!("{stem}.")))
        })
    };
    let n = (0..10_000)
        .find(free)
        .ok_or_else(|| PveError::die("unable to allocate an image name"))?;
    Ok(if s.is_file_based() {
        format!("{storage}:{vmid}/vm-{vmid}-disk-{n}.{format}")
    } else {
        format!("{storage}:vm-{vmid}-disk-{n}")
    })
}

fn qemu_img(args: &[&str]) -> Result<String, String> {
    let out = Command::new("qemu-img")
        .args(args)
        .output()
        .map_err(|e| format!("qemu-img: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&out.stderr).trim().to_string())
}

/// Makes an empty image, with its folders; size in bytes. Errors: the command's text, or that it exists already.
pub fn create_image(path: &Path, format: &str, bytes: u64) -> Result<(), String> {
    if path.exists() {
        return Err(format!("disk image '{}' already exists", path.display()));
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|e| format!("mkdir {}: {e}", parent.display()))?;
    }
    if format == "raw" {
        let file = fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        return file
            .set_len(bytes)
            .map_err(|e| format!("{}: {e}", path.display()));
    }
    qemu_img(&[
        "create",
        "-q",
        "-f",
        format,
        &path.to_string_lossy(),
        &bytes.to_string(),
    ])
    .map(|_| ())
}

/// What an image is: (format, virtual size in bytes, size on disk in bytes). `format` is what its name says; raw is not opened.
/// Errors: `qemu-img info`'s text, or that it is not there.
pub fn image_info(path: &Path, format: &str) -> Result<(String, u64, u64), String> {
    let meta = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if matches!(format, "raw" | "iso" | "img" | "") {
        return Ok(("raw".into(), meta.len(), meta.blocks() * 512));
    }
    // -U: a reader must not be stopped by a guest or task that has the image open.
    let text = qemu_img(&[
        "info",
        "-U",
        "--output=json",
        "-f",
        format,
        &path.to_string_lossy(),
    ])?;
    let info: Value = serde_json::from_str(&text).map_err(|e| format!("qemu-img info: {e}"))?;
    let virtual_size = info["virtual-size"]
        .as_u64()
        .ok_or("qemu-img info: no virtual-size")?;
    Ok((
        info["format"].as_str().unwrap_or(format).to_string(),
        virtual_size,
        info["actual-size"].as_u64().unwrap_or(0),
    ))
}

/// Deletes a volume's file, and its folder if that is empty then. A volume that is not there is fine, as on the real server's
/// directory storages. Errors: 500 texts.
pub fn free_volume(st: &State, node: &str, volid: &str) -> Result<(), PveError> {
    let path = path_of(st, node, volid)?;
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(PveError::die(format!(
                "unlink '{}' failed - {e}",
                shown_path(st, volid)?
            )));
        }
        _ => {}
    }
    if let Some(parent) = path
        .parent()
        .filter(|p| p.parent().is_some_and(|g| g.ends_with("images")))
    {
        // Fails while other disks are in it: right so.
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}

/// Whether somebody may use a volume (docs/pve-privileges.md): images need Datastore.Audit on the storage and VM.Config.Disk on their
/// owner unless that is `vmid`; iso, templates and imports Datastore.AllocateSpace or Datastore.Audit; everything goes with
/// Datastore.Allocate. Errors: 403; 500 as `parse_volid`.
pub fn check_volume_access(
    st: &State,
    auth: &Auth,
    vmid: Option<u32>,
    volid: &str,
) -> Result<(), PveError> {
    let v = parse_volid(st, volid)?;
    let path = format!("/storage/{}", v.storage);
    match (v.vtype.as_str(), v.owner) {
        _ if st.storages[&v.storage].kind == "esxi" => {
            st.check(auth, &path, &["Datastore.Allocate"])
        }
        ("iso" | "vztmpl" | "import", _) => {
            st.check_any(auth, &path, &["Datastore.AllocateSpace", "Datastore.Audit"])
        }
        ("images", owner) if owner.is_some() && owner == vmid => Ok(()),
        _ if st.may(auth, &path, &["Datastore.Allocate"]) => Ok(()),
        ("images", Some(owner)) => {
            st.check(auth, &path, &["Datastore.Audit"])?;
            st.check(auth, &format!("/vms/{owner}"), &["VM.Config.Disk"])
        }
        _ => st.check(auth, &path, &["Datastore.Allocate"]),
    }
}

/// Adds the routes of this part.
pub fn register(r: &mut Router) {
    content::register(r);
}

/// Takes the storages of a world and lays out their files below `dir`. Errors: what is wrong in it.
pub fn load(st: &mut State, world: &Value, dir: &Path) -> Result<(), String> {
    let names: Vec<String> = st.nodes.iter().map(|n| n.name.clone()).collect();
    for entry in world["storage"].as_array().into_iter().flatten() {
        let id = entry["storage"]
            .as_str()
            .ok_or("storage: an entry has no name")?
            .to_string();
        let kind = entry["type"]
            .as_str()
            .ok_or_else(|| format!("storage {id}: no type"))?
            .to_string();
        let flag = |k: &str| entry[k].as_bool().unwrap_or(false) || entry[k].as_i64() == Some(1);
        let exported = entry["export"] == true;
        let shared = flag("shared")
            || exported
            || matches!(kind.as_str(), "nfs" | "cifs" | "esxi" | "cephfs" | "rbd");
        let mut decl = Map::new();
        for (k, v) in entry.as_object().into_iter().flatten() {
            let ours = ["total", "used", "datastores"].contains(&k.as_str())
                || (k == "export" && exported);
            if !ours {
                decl.insert(k.clone(), v.clone());
            }
        }
        if kind == "nfs" {
            for (k, v) in [
                ("server", "192.0.2.10".to_string()),
                ("export", "/export".into()),
                ("path", format!("/mnt/pve/{id}")),
            ] {
                decl.entry(k).or_insert(json!(v));
            }
        }
        let mut datastores = BTreeMap::new();
        if kind == "esxi" {
            datastores.insert("datastore1".to_string(), "export".to_string());
            if let Some(map) = entry["datastores"].as_object() {
                let folder = |v: &Value| v.as_str().unwrap_or("export").to_string();
                datastores = map.iter().map(|(k, v)| (k.clone(), folder(v))).collect();
            }
        }
        let mut roots = BTreeMap::new();
        for (i, node) in names.iter().enumerate() {
            let root = match (exported, shared || i == 0) {
                _ if kind == "esxi" => dir.to_path_buf(),
                (true, _) => dir.join("export"),
                (_, true) => dir.join("storage").join(&id),
                _ => dir.join("storage").join(format!("{id}@{node}")),
            };
            fs::create_dir_all(&root).map_err(|e| format!("{}: {e}", root.display()))?;
            roots.insert(node.clone(), root);
        }
        let content = formats::split_list(entry["content"].as_str().unwrap_or("images"));
        if matches!(kind.as_str(), "dir" | "nfs" | "cifs") {
            for root in roots.values() {
                for (c, folder) in [
                    ("images", "images"),
                    ("import", "import"),
                    ("iso", "template/iso"),
                    ("snippets", "snippets"),
                ] {
                    // On the export only what is used is made: the vCenter side sees that folder too.
                    if content.iter().any(|x| x == c) && !exported {
                        fs::create_dir_all(root.join(folder))
                            .map_err(|e| format!("{}: {e}", root.display()))?;
                    }
                }
            }
        }
        st.storages.insert(
            id.clone(),
            Storage {
                nodes: formats::split_list(entry["nodes"].as_str().unwrap_or("")),
                disabled: flag("disable") || flag("disabled"),
                shared,
                total: entry["total"].as_u64().unwrap_or(100 << 30),
                foreign: entry["used"].as_u64().unwrap_or(0),
                id,
                kind,
                roots,
                datastores,
                content,
                decl,
            },
        );
    }
    content::lay_out(st, world)
}

/// For `GET /labsim/world`: every storage with its files and their sizes.
pub fn dump(st: &State) -> Value {
    fn walk(root: &Path, dir: &Path, out: &mut Map<String, Value>) {
        let mut entries: Vec<_> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        entries.sort();
        for path in entries {
            match fs::metadata(&path) {
                Ok(m) if m.is_dir() => walk(root, &path, out),
                Ok(m) => {
                    let name = path
                        .strip_prefix(root)
                        .unwrap_or(&path)
                        .to_string_lossy()
                        .into_owned();
                    out.insert(name, json!(m.len()));
                }
                Err(_) => {}
            }
        }
    }
    st.storages
        .values()
        .filter(|s| s.kind != "esxi")
        .map(|s| {
            let mut roots: BTreeMap<&PathBuf, Vec<&String>> = BTreeMap::new();
            for (node, root) in &s.roots {
                roots.entry(root).or_default().push(node);
            }
            let folders: Vec<Value> = roots
                .into_iter()
                .map(|(root, nodes)| {
                    let mut files = Map::new();
                    walk(root, root, &mut files);
                    json!({"nodes": nodes, "path": root, "files": files})
                })
                .collect();
            json!({"storage": s.id, "type": s.kind, "disabled": s.disabled, "shared": s.shared, "folders": folders})
        })
        .collect()
}
