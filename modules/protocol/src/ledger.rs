//! The ledger on disk: what earlier tasks of the same check run planned.
//!
//! A folder per endpoint, one JSON file per object, names percent-encoded. The folder lives in Ansible's own per-run temporary
//! folder, so that it belongs to one run and is gone with it.

use plan::{Fact, Key, Ledger};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A ledger in a folder. Anything wrong with it makes it silent, with a warning: then each task is truthful on its own only.
#[derive(Debug)]
pub struct FileLedger {
    dir: PathBuf,
    usable: bool,
    warnings: std::cell::RefCell<Vec<String>>,
    held: Vec<File>,
    /// What this task planned and could not write down: it is known to this task alone, which must still say it.
    own: BTreeMap<Key, Fact>,
}

impl FileLedger {
    /// Opens the ledger of one endpoint (`host:port`) in a run's folder, making it where needed.
    pub fn open(folder: &Path, endpoint: &str) -> Self {
        let mut l = FileLedger {
            dir: folder.join(encode(endpoint)),
            usable: true,
            warnings: std::cell::RefCell::new(vec![]),
            held: vec![],
            own: BTreeMap::new(),
        };
        if let Err(why) = l.prepare(folder) {
            l.usable = false;
            l.warn(&why);
        }
        l
    }

    fn prepare(&self, folder: &Path) -> Result<(), String> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|e| format!("{} cannot be made: {e}", self.dir.display()))?;
        let owner = |p: &Path| fs::metadata(p).map(|m| m.uid());
        // /proc/self belongs to the effective user.
        if let (Ok(ours), Ok(theirs)) = (owner(Path::new("/proc/self")), owner(folder))
            && ours != theirs
        {
            return Err(format!("{} belongs to another user", folder.display()));
        }
        Ok(())
    }

    fn warn(&self, why: &str) {
        let w = format!(
            "what earlier tasks of this check run planned is not known here ({why}): this task was checked against the real state only"
        );
        let mut all = self.warnings.borrow_mut();
        if !all.contains(&w) {
            all.push(w);
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.json", encode(key.as_str())))
    }

    fn read(&self, path: &Path) -> Option<Fact> {
        let text = match fs::read_to_string(path) {
            Ok(t) => t,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
            Err(e) => {
                self.warn(&format!("{} cannot be read: {e}", path.display()));
                return None;
            }
        };
        match serde_json::from_str(&text) {
            Ok(f) => Some(f),
            Err(_) => {
                self.warn(&format!("{} is damaged", path.display()));
                None
            }
        }
    }

    fn write(&self, key: &Key, fact: &Fact) -> Result<(), String> {
        let path = self.path(key);
        let tmp = path.with_extension(format!("{}.tmp", std::process::id()));
        let io = |e: std::io::Error| format!("{} cannot be written: {e}", path.display());
        let text = serde_json::to_vec(fact).map_err(|e| e.to_string())?;
        let mut f = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&tmp)
            .map_err(io)?;
        f.write_all(&text).map_err(io)?;
        drop(f);
        fs::rename(&tmp, &path).map_err(io)
    }
}

impl FileLedger {
    /// What is written down under that prefix, in no order.
    fn listed(&self, prefix: &str) -> Vec<(Key, Fact)> {
        if !self.usable {
            return vec![];
        }
        let Ok(entries) = fs::read_dir(&self.dir) else {
            self.warn(&format!("{} cannot be listed", self.dir.display()));
            return vec![];
        };
        entries
            .flatten()
            .filter_map(|e| {
                let name = e.file_name().into_string().ok()?;
                let text = decode(name.strip_suffix(".json")?);
                if !text.starts_with(prefix) {
                    return None;
                }
                let parts: Vec<String> = text
                    .split('/')
                    .map(|p| p.replace("%2F", "/").replace("%25", "%"))
                    .collect();
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                Some((Key::from_parts(&parts), self.read(&e.path())?))
            })
            .collect()
    }
}

impl Ledger for FileLedger {
    fn get(&self, key: &Key) -> Option<Fact> {
        if let Some(f) = self.own.get(key) {
            return Some(f.clone());
        }
        if !self.usable {
            return None;
        }
        self.read(&self.path(key))
    }

    fn starting_with(&self, prefix: &str) -> Vec<(Key, Fact)> {
        let mut found = self.listed(prefix);
        found.retain(|(k, _)| !self.own.contains_key(k));
        let own = self.own.iter();
        found.extend(
            own.filter(|(k, _)| k.as_str().starts_with(prefix))
                .map(|(k, f)| (k.clone(), f.clone())),
        );
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    fn put(&mut self, key: &Key, fact: &Fact) {
        if !self.usable {
            self.own.insert(key.clone(), fact.clone());
            return;
        }
        self.own.remove(key);
        if let Err(why) = self.write(key, fact) {
            self.own.insert(key.clone(), fact.clone());
            // An old entry would now be a wrong answer for the next task.
            let _ = fs::remove_file(self.path(key));
            self.warn(&why);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.own.remove(key);
        if self.usable {
            let _ = fs::remove_file(self.path(key));
        }
    }

    fn hold(&mut self, keys: &[Key]) {
        if !self.usable {
            return;
        }
        // In one order for everybody, so that two tasks never wait for each other.
        let mut keys: Vec<&Key> = keys.iter().collect();
        keys.sort();
        keys.dedup();
        for k in keys {
            let path = self.path(k).with_extension("lock");
            let locked = File::create(&path).and_then(|f| f.lock().map(|()| f));
            match locked {
                Ok(f) => self.held.push(f),
                Err(e) => self.warn(&format!("{} cannot be locked: {e}", path.display())),
            }
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }
}

/// Percent-encodes everything but letters, digits, dash and underscore: one object, one file name.
fn encode(text: &str) -> String {
    let mut s = String::new();
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b == b'-' || b == b'_' {
            s.push(b as char);
        } else {
            s.push_str(&format!("%{b:02X}"));
        }
    }
    s
}

fn decode(name: &str) -> String {
    let (b, mut out, mut i) = (name.as_bytes(), vec![], 0);
    while i < b.len() {
        if b[i] == b'%'
            && let Some(h) = name.get(i + 1..i + 3)
            && let Ok(v) = u8::from_str_radix(h, 16)
        {
            out.push(v);
            i += 3;
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_one_task_plans_the_next_sees() {
        let d = tempfile::tempdir().unwrap();
        let k = Key::from_parts(&["pve", "volume", "pve1", "nfs:100/disk 0%.vmdk"]);
        let mut a = FileLedger::open(d.path(), "127.0.0.1:8006");
        a.hold(std::slice::from_ref(&k));
        a.put(&k, &Fact::Known(json!({"x": 1})));
        drop(a);
        let b = FileLedger::open(d.path(), "127.0.0.1:8006");
        assert_eq!(b.get(&k), Some(Fact::Known(json!({"x": 1}))));
        assert_eq!(
            b.starting_with("pve/volume/"),
            vec![(k.clone(), b.get(&k).unwrap())]
        );
        assert_eq!(FileLedger::open(d.path(), "127.0.0.1:8007").get(&k), None);
        assert!(b.warnings().is_empty());
    }

    #[test]
    fn a_damaged_entry_is_a_warning_not_an_answer() {
        let d = tempfile::tempdir().unwrap();
        let k = Key::from_parts(&["pve", "guest", "100"]);
        let mut l = FileLedger::open(d.path(), "e");
        l.put(&k, &Fact::Absent);
        std::fs::write(l.path(&k), "{").unwrap();
        assert_eq!(l.get(&k), None);
        assert_eq!(l.warnings().len(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_a_warning() {
        let mut l = FileLedger::open(Path::new("/proc/no-such-place"), "e");
        let k = Key::from_parts(&["pve", "guest", "100"]);
        l.put(&k, &Fact::Absent);
        // The task itself must still say what it plans; nobody else knows it.
        assert_eq!(l.get(&k), Some(Fact::Absent));
        assert_eq!(l.warnings().len(), 1);
    }
}
