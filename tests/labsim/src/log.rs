//! The request log: JSON lines, and counts of reads and writes.
use crate::http::Kind;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// One answered (or dropped) request.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// `pve` or `vcenter`.
    pub side: &'static str,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Parameters, decoded, secrets masked.
    pub params: Value,
    /// Who asked.
    pub user: String,
    /// HTTP status; 0 if the connection was dropped.
    pub status: u16,
    /// How it is counted.
    pub kind: Kind,
    /// In the site's own words; `fault: ...` if a rule struck.
    pub note: String,
    /// When it arrived, milliseconds since the start.
    pub t_ms: u64,
    /// How long it took, milliseconds.
    pub ms: u64,
}

#[derive(Default)]
struct Inner {
    file: Option<File>,
    n: u64,
    counts: [[u64; 3]; 2],
}

/// The log of both servers.
#[derive(Default)]
pub struct Log {
    inner: Mutex<Inner>,
}

impl Log {
    /// Appends to that file. Errors: the file system's text.
    pub fn open(path: &Path) -> Result<Log, String> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|e| format!("log {}: {e}", path.display()))?;
        Ok(Log {
            inner: Mutex::new(Inner {
                file: Some(file),
                ..Inner::default()
            }),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds one entry and counts it.
    pub fn add(&self, e: &Entry) {
        let mut inner = self.lock();
        inner.n += 1;
        let kind = match e.kind {
            Kind::Auth => 0,
            Kind::Read => 1,
            Kind::Write => 2,
        };
        inner.counts[usize::from(e.side == "vcenter")][kind] += 1;
        let name = ["auth", "read", "write"][kind];
        let line = json!({"n": inner.n, "t_ms": e.t_ms, "side": e.side, "method": e.method, "path": e.path, "params": e.params,
            "user": e.user, "status": e.status, "kind": name, "note": e.note, "ms": e.ms});
        if let Some(file) = &mut inner.file {
            // A log that cannot be written must not change what the servers answer; the counts stay right.
            // In one piece: `writeln!` makes a system call of every token.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// `{pve: {auths, reads, writes}, vcenter: {...}}`.
    pub fn counts(&self) -> Value {
        let inner = self.lock();
        let side = |i: usize| json!({"auths": inner.counts[i][0], "reads": inner.counts[i][1], "writes": inner.counts[i][2]});
        json!({"pve": side(0), "vcenter": side(1)})
    }

    /// Sets the counters to zero; the file keeps its lines and its numbering.
    pub fn reset(&self) {
        self.lock().counts = Default::default();
    }
}

/// Whether a parameter's value must not be written down.
fn is_secret(name: &str) -> bool {
    let n = name.to_ascii_lowercase();
    [
        "password",
        "secret",
        "otp",
        "tfa-challenge",
        "sshkeys",
        "keyring",
        "encryption-key",
    ]
    .iter()
    .any(|s| n.contains(s))
}

/// Query and body parameters for the log: form or JSON; secrets become `***`.
pub fn params(query: &str, content_type: &str, body: &[u8]) -> Value {
    let mut all = Map::new();
    let mut put = |k: String, v: Value| {
        let v = if is_secret(&k) { json!("***") } else { v };
        match all.get_mut(&k) {
            Some(Value::Array(list)) => list.push(v),
            Some(old) => *old = json!([old.clone(), v]),
            None => {
                all.insert(k, v);
            }
        }
    };
    for (k, v) in form(query) {
        put(k, Value::String(v));
    }
    if content_type.starts_with("application/json") {
        if let Ok(Value::Object(map)) = serde_json::from_slice(body) {
            for (k, v) in map {
                put(k, v);
            }
        }
    } else if content_type.starts_with("application/x-www-form-urlencoded") {
        for (k, v) in form(&String::from_utf8_lossy(body)) {
            put(k, Value::String(v));
        }
    }
    Value::Object(all)
}

/// Splits a form as browsers write it; a pair without `=` has an empty value.
pub fn form(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|p| !p.is_empty())
        .map(|pair| {
            let (k, v) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(k, true), decode(v, true))
        })
        .collect()
}

/// Percent-decoding; `plus` says whether `+` is a space. Broken escapes stay as they are.
pub fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes
            .get(i + 1..i + 3)
            .and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match (bytes[i], hex) {
            (b'%', Some(b)) => {
                out.push(b);
                i += 2;
            }
            (b'+', _) if plus => out.push(b' '),
            (b, _) => out.push(b),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_repeats_kept() {
        let v = params(
            "a=1&a=2",
            "application/x-www-form-urlencoded",
            b"username=root%40pam&password=hunter2&net0=virtio%3D1",
        );
        assert_eq!(
            v,
            json!({"a": ["1", "2"], "username": "root@pam", "password": "***", "net0": "virtio=1"})
        );
    }
}
