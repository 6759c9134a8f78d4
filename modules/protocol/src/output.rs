//! The result on standard output: masked, one JSON object, and the exit code.

use plan::{ErrorKind, MASKED, Report};
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;

/// Prints a result; every occurrence of a secret of 8 characters and more is masked, shorter ones are masked by type elsewhere.
/// The exit code is for people: Ansible only looks at `failed` (STYLE.md F1).
pub fn emit(report: Report, secrets: &[String], pretty: bool) -> ExitCode {
    let failed = report.is_failed();
    let mut v = Value::Object(report.keys);
    // Also as they are written within a JSON text that is part of a message.
    let escaped: Vec<String> = secrets
        .iter()
        .map(|s| Value::from(s.as_str()).to_string())
        .map(|quoted| quoted[1..quoted.len() - 1].to_owned())
        .collect();
    let mut secrets: Vec<&str> = secrets
        .iter()
        .chain(&escaped)
        .map(String::as_str)
        .filter(|s| s.len() >= 8)
        .collect();
    // The longest first, or a secret that contains another would be left in part.
    secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
    mask(&mut v, &secrets);
    print_json(&v, pretty);
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn mask(v: &mut Value, secrets: &[&str]) {
    match v {
        Value::String(s) => mask_text(s, secrets),
        Value::Array(a) => a.iter_mut().for_each(|v| mask(v, secrets)),
        Value::Object(o) => {
            if o.keys().any(|k| secrets.iter().any(|s| k.contains(s))) {
                let old = std::mem::take(o);
                for (mut k, v) in old {
                    mask_text(&mut k, secrets);
                    o.insert(k, v);
                }
            }
            o.values_mut().for_each(|v| mask(v, secrets));
        }
        _ => {}
    }
}

fn mask_text(s: &mut String, secrets: &[&str]) {
    for x in secrets {
        if s.contains(x) {
            *s = s.replace(x, MASKED);
        }
    }
}

/// Prints one JSON value and a line feed.
pub fn print_json(v: &Value, pretty: bool) {
    let text = if pretty {
        serde_json::to_string_pretty(v)
    } else {
        serde_json::to_string(v)
    };
    print_text(&text.unwrap_or_default());
}

/// Prints a text and a line feed; a closed pipe is no failure of ours.
pub fn print_text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Standard output for what is too large to be held: the inventory, written as it is read.
pub fn stream() -> impl Write {
    std::io::stdout().lock()
}

/// Turns a panic into a result of kind `internal`: a module must always answer with JSON, and a fault of ours must not look like a
/// success or like Ansible's own failure. The message has the place, not the values, since those could hold a secret.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let at = info
            .location()
            .map(|l| format!("{}:{}", l.file(), l.line()))
            .unwrap_or_default();
        let r = Report::failed(
            ErrorKind::Internal,
            &format!(
                "unable to go on: a fault of trueplan itself at {at}; what was done before it is in TRUEPLAN_JOURNAL if that was set; please report it with the task"
            ),
        );
        print_json(&Value::Object(r.keys), false);
        #[allow(clippy::exit)]
        std::process::exit(70);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_masked_in_keys_and_values_but_short_ones_are_left() {
        let mut v =
            json!({"msg": "no: s3cr3t-s3cr3t, s3cr3t-s3cr3t-long", "s3cr3t-s3cr3t": ["short"]});
        mask(&mut v, &["s3cr3t-s3cr3t-long", "s3cr3t-s3cr3t"]);
        assert_eq!(
            v,
            json!({"msg": "no: ********, ********", "********": ["short"]})
        );
    }
}
