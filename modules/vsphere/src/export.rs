//! Facts of an export that is mounted where the task runs: files and folders.

use plan::Key;

/// A file or folder, by absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportKey {
    /// `{bytes: n, kind: "file"|"folder"|"other", modified_ns: n, text: "…"}`; `text` only for files of at most 64 KiB of UTF-8,
    /// `modified_ns` (since 1970, by the export's clock) not for what is only planned.
    File(String),
    /// `{entries: [name]}`, sorted.
    Folder(String),
}

impl ExportKey {
    /// The opaque key.
    pub fn key(&self) -> Key {
        match self {
            ExportKey::File(p) => Key::from_parts(&["export", "file", p]),
            ExportKey::Folder(p) => Key::from_parts(&["export", "folder", p]),
        }
    }

    /// The typed key back; `None` if it is not ours.
    pub fn parse(key: &Key) -> Option<ExportKey> {
        let parts = key.parts();
        match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["export", "file", p] => Some(ExportKey::File(p.to_owned())),
            ["export", "folder", p] => Some(ExportKey::Folder(p.to_owned())),
            _ => None,
        }
    }
}
