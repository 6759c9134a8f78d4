//! TRUEPLAN_JOURNAL: one line of JSON per request sent.

use plan::{ErrorKind, Failure, MASKED};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// Longer answers are cut.
const ANSWER_CHARS: usize = 400;

/// The open file.
pub(crate) struct Journal(File);

impl Journal {
    /// Opens it for appending; created readable for its owner only, since it tells a lot.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|e| {
            Failure::new(
                ErrorKind::InvalidArgs,
                format!("the journal {} cannot be written: {e}", path.display()),
            )
        })?;
        Ok(Journal(file))
    }

    /// Appends a line. A journal that can no longer be written does not stop the run.
    pub(crate) fn write(
        &mut self,
        method: &str,
        this: &str,
        shown: &Map<String, Value>,
        status: u16,
        answer: &str,
        took: Duration,
    ) {
        let mut params = shown.clone();
        for (k, v) in &mut params {
            if k.to_ascii_lowercase().contains("password") {
                *v = json!(MASKED);
            }
        }
        let mut answer = answer.to_owned();
        if let Some((cut, _)) = answer.char_indices().nth(ANSWER_CHARS) {
            answer.truncate(cut);
            answer.push('…');
        }
        let line = json!({"method": method, "path": this, "params": params, "status": status, "answer": answer, "ms": took.as_millis() as u64});
        // One write per line, so that lines of several processes do not mix.
        let _ = self.0.write_all(format!("{line}\n").as_bytes());
    }
}
