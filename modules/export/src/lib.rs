//! The live world of files on an export that is mounted where the task runs.
//!
//! Its verbs are `MKDIR`, `WRITE`, `REMOVE`, `RMDIR`; VMware's files are only ever read.

use plan::{ErrorKind, Fact, Failure, Key, Request, Sent, Step, Tolerance, Wait, World};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as Io, Read, Write};
use std::path::Path;
use vsphere::export::ExportKey;

/// Larger files are not read as text: descriptors are far smaller, data files far larger.
const TEXT_BYTES: u64 = 64 << 10;

/// Reads and writes the mounted files.
#[derive(Debug, Default)]
pub struct Live;

impl World for Live {
    fn read(&mut self, key: &Key) -> Result<Fact, Failure> {
        match ExportKey::parse(key) {
            Some(ExportKey::File(p)) => Ok(read_file(Path::new(&p))),
            Some(ExportKey::Folder(p)) => Ok(read_folder(Path::new(&p))),
            None => Err(Failure::new(
                ErrorKind::Internal,
                format!("unable to read {key}: it is no file of an export"),
            )),
        }
    }

    fn settle(&mut self, wait: &Wait) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorKind::Internal,
            format!("unable to wait for {}: files do not run", wait.what),
        ))
    }

    fn send(&mut self, step: &Step, answers: &[Value]) -> Result<Sent, Failure> {
        let r = &step.request;
        match carry_out(r, answers) {
            Ok(()) => Ok(Sent::answer(json!(r.path))),
            Err(e) => {
                let text = explain(&e);
                let done = step
                    .tolerance
                    .iter()
                    .any(|t| matches!(t, Tolerance::AlreadyDone(words) if text.contains(words)));
                if done {
                    let mut s = Sent::answer(Value::Null);
                    s.done = false;
                    return Ok(s);
                }
                let (kind, way) = match e.kind() {
                    Io::PermissionDenied => (
                        ErrorKind::Permission,
                        "run the task as a user who may write there (root, where the export is mounted without root squash)",
                    ),
                    Io::StorageFull => (ErrorKind::Api, "make room on the export"),
                    _ => (ErrorKind::Api, "look at the mount on this host"),
                };
                let verb = r.verb.to_lowercase();
                Err(Failure::new(
                    kind,
                    format!("unable to {verb} {}: {text}; {way}", r.path),
                ))
            }
        }
    }

    fn undo(&mut self, request: &Request, answers: &[Value]) -> Result<(), Failure> {
        carry_out(request, answers)
            .map_err(|e| Failure::new(ErrorKind::Api, format!("{}: {}", request.path, explain(&e))))
    }

    fn forget(&mut self, _keys: &[Key]) {}

    fn pause(&mut self, seconds: f64) {
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
    }
}

fn explain(e: &std::io::Error) -> String {
    match e.kind() {
        Io::DirectoryNotEmpty => "the folder is not empty".into(),
        Io::AlreadyExists => "somebody else made a file of that name meanwhile".into(),
        _ => e.to_string(),
    }
}

fn read_file(path: &Path) -> Fact {
    let meta = match fs::metadata(path) {
        Ok(m) => m,
        Err(e) => return missing(&e),
    };
    let kind = match (meta.is_file(), meta.is_dir()) {
        (true, _) => "file",
        (_, true) => "folder",
        _ => "other",
    };
    let mut v = json!({"bytes": meta.len(), "kind": kind});
    if let Some(t) = meta
        .modified()
        .ok()
        .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
        .and_then(|t| u64::try_from(t.as_nanos()).ok())
    {
        v["modified_ns"] = json!(t);
    }
    if kind == "file" && meta.len() <= TEXT_BYTES {
        let mut bytes = vec![];
        match File::open(path).and_then(|f| f.take(TEXT_BYTES).read_to_end(&mut bytes)) {
            Ok(_) => {
                if let Ok(t) = String::from_utf8(bytes) {
                    v["text"] = json!(t);
                }
            }
            Err(e) => return missing(&e),
        }
    }
    Fact::Known(v)
}

fn read_folder(path: &Path) -> Fact {
    match fs::read_dir(path) {
        Ok(dir) => {
            let mut names: Vec<String> = dir
                .flatten()
                .map(|e| e.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            Fact::Known(json!({"entries": names}))
        }
        Err(e) => missing(&e),
    }
}

fn missing(e: &std::io::Error) -> Fact {
    match e.kind() {
        Io::NotFound | Io::NotADirectory => Fact::Absent,
        _ => Fact::Unreadable(e.to_string()),
    }
}

fn carry_out(r: &Request, answers: &[Value]) -> std::io::Result<()> {
    let path = Path::new(&r.path);
    match r.verb.as_str() {
        // A mount that is gone must not be papered over by folders on the local disk: only `images` and the guest's folder are made.
        "MKDIR" => match path.parent() {
            Some(images) if !images.exists() => {
                fs::create_dir(images).or_else(existing)?;
                fs::create_dir(path).or_else(existing)
            }
            _ => fs::create_dir(path).or_else(existing),
        },
        "WRITE" => {
            let value = |name: &str| {
                r.params
                    .iter()
                    .find(|(n, _)| n == name)
                    .and_then(|(_, a)| a.resolve(answers))
            };
            let text = value("text").unwrap_or_default();
            let replace = value("replace") == Some(json!(true));
            write_whole(path, text.as_str().unwrap_or_default(), replace)
        }
        "REMOVE" => fs::remove_file(path),
        "RMDIR" => fs::remove_dir(path),
        verb => Err(std::io::Error::other(format!("no such verb: {verb}"))),
    }
}

fn existing(e: std::io::Error) -> std::io::Result<()> {
    if e.kind() == Io::AlreadyExists {
        Ok(())
    } else {
        Err(e)
    }
}

/// Writes beside the target and puts it in place in one go: nobody ever sees half a descriptor. A new file never replaces one that
/// somebody else made meanwhile.
fn write_whole(path: &Path, text: &str, replace: bool) -> std::io::Result<()> {
    let tmp = path.with_extension(format!("trueplan-{}.tmp", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&tmp)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
        .and_then(|()| {
            if replace {
                fs::rename(&tmp, path)
            } else {
                fs::hard_link(&tmp, path)
            }
        });
    let _ = fs::remove_file(&tmp);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_meanwhile_is_not_replaced() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("images/100/disk0.vmdk");
        let path = |p: &Path| p.display().to_string();
        let mut live = Live;
        let mkdir = Step::new(Request::new("MKDIR", path(p.parent().unwrap())), "");
        live.send(&mkdir, &[]).unwrap();
        let write = |replace: bool, text: &str| {
            Step::new(
                Request::new("WRITE", path(&p))
                    .param("text", text)
                    .param("replace", replace),
                "",
            )
        };
        live.send(&write(false, "one"), &[]).unwrap();
        let e = live.send(&write(false, "two"), &[]).unwrap_err();
        assert!(e.msg.contains("meanwhile"), "{}", e.msg);
        live.send(&write(true, "three"), &[]).unwrap();
        let f = live.read(&ExportKey::File(path(&p)).key()).unwrap();
        assert_eq!(f.known().unwrap()["text"], "three");
        let f = live
            .read(&ExportKey::Folder(path(p.parent().unwrap())).key())
            .unwrap();
        assert_eq!(f.known().unwrap()["entries"], json!(["disk0.vmdk"]));
    }
}
