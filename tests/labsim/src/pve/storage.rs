//! Storages with real files.
use super::{PveError, Router, State};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A storage.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Its name.
    pub id: String,
    /// `dir`, `nfs`, `lvmthin`, `esxi`, ...
    pub kind: String,
    /// The real folder on this machine.
    pub root: PathBuf,
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
    /// As `GET /storage` shows it.
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
    /// `raw`, `qcow2`, `vmdk`, `iso`, `ova`, ...
    pub format: String,
}

/// Reads `STORAGE:NAME` as that storage's plugin does.
/// Errors: 500 `storage 'x' does not exist`, `unable to parse directory volume name 'x'`, ...
pub fn parse_volid(_st: &State, volid: &str) -> Result<Volume, PveError> {
    Err(PveError::die(format!(
        "unable to parse volume ID '{volid}'"
    )))
}

/// The real file of a volume (which need not exist). Errors: as `parse_volid`.
pub fn path_of(_st: &State, volid: &str) -> Result<PathBuf, PveError> {
    Err(PveError::die(format!(
        "unable to parse volume ID '{volid}'"
    )))
}

/// Whether the storage can be used on the node. Errors: 500 `storage 'x' does not exist`, `storage 'x' is disabled`,
/// `storage 'x' is not available on node 'n'`.
pub fn usable(_st: &State, storage: &str, _node: &str) -> Result<(), PveError> {
    Err(PveError::die(format!("storage '{storage}' does not exist")))
}

/// A free name for a guest's new disk and its volume id (`local:100/vm-100-disk-0.qcow2`, `thin:vm-100-disk-0`), without making it.
pub fn next_volid(
    _st: &State,
    _storage: &str,
    _vmid: u32,
    _format: &str,
) -> Result<String, PveError> {
    Err(PveError::die("not yet"))
}

/// Makes an empty image with `qemu-img create`, size in bytes. Errors: the command's text.
pub fn create_image(_path: &Path, _format: &str, _bytes: u64) -> Result<(), String> {
    Err("not yet".into())
}

/// What `qemu-img info` says: (format, virtual size in bytes, size on disk in bytes). Errors: the command's text.
pub fn image_info(_path: &Path) -> Result<(String, u64, u64), String> {
    Err("not yet".into())
}

/// Deletes a volume's file and its folder if that is empty then. Errors: 500 texts.
pub fn free_volume(_st: &State, _volid: &str) -> Result<(), PveError> {
    Err(PveError::die("not yet"))
}

/// Adds the routes of this file.
pub fn register(_r: &mut Router) {}

/// Takes the storages of a world and lays out their files below `dir`. Errors: what is wrong in it.
pub fn load(_st: &mut State, _world: &Value, _dir: &Path) -> Result<(), String> {
    Ok(())
}

/// For `GET /labsim/world`.
pub fn dump(_st: &State) -> Value {
    json!({})
}
