//! TRUEPLAN_JOURNAL: one line of JSON per request sent.

use crate::error::ApiError;
use plan::MASKED;
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

/// Longer answers are cut.
const ANSWER_CHARS: usize = 400;

/// The open file.
pub(crate) struct Journal(Mutex<File>);

/// What one line says.
pub(crate) struct Line<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// As plans show them: secrets masked by type.
    pub(crate) params: Map<String, Value>,
    /// 0 if no answer came.
    pub(crate) status: u16,
    /// Shortened by the journal.
    pub(crate) answer: String,
    pub(crate) ms: u128,
}

impl Journal {
    /// Opens it for appending; created readable for its owner only, since it tells a lot.
    pub(crate) fn open(path: &Path) -> Result<Self, ApiError> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|e| {
            ApiError::Arguments(format!(
                "the journal {} cannot be written: {e}",
                path.display()
            ))
        })?;
        Ok(Journal(Mutex::new(file)))
    }

    /// Appends a line. A journal that can no longer be written does not stop the run.
    pub(crate) fn write(&self, line: Line<'_>) {
        let mut answer = if secret_answer(line.method, line.path) && line.status == 200 {
            MASKED.to_owned()
        } else {
            line.answer
        };
        if let Some((cut, _)) = answer.char_indices().nth(ANSWER_CHARS) {
            answer.truncate(cut);
            answer.push('…');
        }
        let o = json!({
            "method": line.method, "path": line.path, "params": line.params, "status": line.status, "answer": answer, "ms": line.ms as u64,
        });
        if let Ok(mut f) = self.0.lock() {
            // One write per line, so that lines of several processes do not mix.
            let _ = f.write_all(format!("{o}\n").as_bytes());
        }
    }
}

/// Requests whose answer is a secret: tickets, token secrets, lock tokens, consoles.
pub(crate) fn secret_answer(method: &str, path: &str) -> bool {
    let has = |s: &str| path.contains(s);
    method != "GET"
        && (path == "/access/ticket"
            || path == "/cluster/sdn/lock"
            || has("/token/")
            || has("proxy")
            || path.starts_with("/access/tfa"))
}

/// Parameters whose value is a secret by its name, should a plan not have said so.
pub(crate) fn secret_name(name: &str) -> bool {
    matches!(
        name,
        "password"
            | "cipassword"
            | "lock-token"
            | "otp"
            | "tfa-challenge"
            | "secret"
            | "encryption-key"
    )
}
