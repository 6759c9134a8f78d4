//! TRUEPLAN_JOURNAL: one line of JSON per request sent.

use plan::{ErrorKind, Failure, MASKED};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// Longer answers are cut.
const ANSWER_CHARS: usize = 400;

/// Shorter secrets are masked by the parameter's name only.
const SEARCHED_CHARS: usize = 8;

/// The open file, and how the password may be written in what is put down: as it is, and within JSON.
pub(crate) struct Journal {
    file: File,
    secrets: Vec<String>,
}

impl Journal {
    /// Opens it for appending; created readable for its owner only, since it tells a lot.
    pub(crate) fn open(path: &Path, password: &str) -> Result<Self, Failure> {
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
        let mut secrets = vec![];
        if password.chars().count() >= SEARCHED_CHARS {
            let quoted = json!(password).to_string();
            secrets.push(password.to_owned());
            // Without the two quotes around it; a password may itself begin or end with one.
            secrets.push(quoted[1..quoted.len() - 1].to_owned());
        }
        Ok(Journal { file, secrets })
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
            self.scrub_value(v);
        }
        let mut answer = self.scrub(answer);
        if let Some((cut, _)) = answer.char_indices().nth(ANSWER_CHARS) {
            answer.truncate(cut);
            answer.push('…');
        }
        let line = json!({"method": method, "path": this, "params": params, "status": status, "answer": answer, "ms": took.as_millis() as u64});
        // One write per line, so that lines of several processes do not mix.
        let _ = self.file.write_all(format!("{line}\n").as_bytes());
    }

    fn scrub(&self, text: &str) -> String {
        self.secrets
            .iter()
            .fold(text.to_owned(), |t, s| t.replace(s.as_str(), MASKED))
    }

    fn scrub_value(&self, v: &mut Value) {
        match v {
            Value::String(s) => *s = self.scrub(s),
            Value::Array(a) => a.iter_mut().for_each(|v| self.scrub_value(v)),
            Value::Object(o) => o.values_mut().for_each(|v| self.scrub_value(v)),
            _ => {}
        }
    }
}
