//! How values travel: percent-encoding, booleans as 0/1, arrays as comma lists.

use serde_json::Value;

/// Percent-encodes everything but unreserved characters. The server splits pairs on every `=`, so that one must be encoded too
/// (source: docs/pve-facts.md, "Wire format").
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// Encodes the segments of a path of a step; `%XX` that is there already stays (a volume id in a path has its slash as `%2F`).
pub(crate) fn encode_path(path: &str) -> String {
    let is_escape = |rest: &str| {
        rest.len() >= 3
            && rest.as_bytes()[0] == b'%'
            && rest.as_bytes()[1..3].iter().all(u8::is_ascii_hexdigit)
    };
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        if is_escape(rest) {
            out.push_str(&rest[..3]);
            rest = &rest[3..];
        } else {
            let (one, after) = rest.split_at(c.len_utf8());
            out.push_str(if c == '/' { "/" } else { "" });
            if c != '/' {
                out.push_str(&encode(one));
            }
            rest = after;
        }
    }
    out
}

/// A value as the form has it; `None` for what has no form (an object, null).
pub(crate) fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(b) => if *b { "1" } else { "0" }.to_owned(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => s.clone(),
        Value::Array(a) => a.iter().map(text).collect::<Option<Vec<_>>>()?.join(","),
        Value::Null | Value::Object(_) => return None,
    })
}

/// `a=b&c=d`.
pub(crate) fn form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(k, v)| format!("{}={}", encode(k), encode(v)))
        .collect();
    pairs.join("&")
}

/// A boolean as the API may give it: a JSON boolean, 0/1, or a text of that.
pub(crate) fn truth(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(b)) => *b,
        Some(Value::Number(n)) => n.as_f64() != Some(0.0),
        Some(Value::String(s)) => !matches!(s.as_str(), "" | "0"),
        _ => false,
    }
}

/// An integer as the API may give it: a number or a text of one.
pub(crate) fn int(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => s.parse().ok(),
        _ => None,
    }
}

/// Removes ` at /usr/share/perl5/PVE/X.pm line 12.`: it tells people nothing and changes between versions.
pub(crate) fn trim_perl(message: &str) -> String {
    let mut s = message.trim().to_owned();
    let mut from = 0;
    while let Some(i) = s[from..].find(" at /").map(|i| i + from) {
        let rest = &s[i + 4..];
        let end = rest.find(" line ").and_then(|l| {
            let digits = rest[l + 6..].bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0 && !rest[..l].contains(char::is_whitespace)).then_some(l + 6 + digits)
        });
        match end {
            Some(n) => {
                let mut to = i + 4 + n;
                if s[to..].starts_with('.') {
                    to += 1;
                }
                s.replace_range(i..to, "");
                from = i;
            }
            None => from = i + 4,
        }
    }
    s.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equals_signs_are_encoded() {
        assert_eq!(
            form([("net0", "virtio,bridge=vmbr0"), ("a b", "é/")]),
            "net0=virtio%2Cbridge%3Dvmbr0&a%20b=%C3%A9%2F"
        );
    }

    #[test]
    fn values() {
        assert_eq!(text(&json!(true)).as_deref(), Some("1"));
        assert_eq!(
            text(&json!(["net0", "scsi1"])).as_deref(),
            Some("net0,scsi1")
        );
        assert_eq!(text(&json!(null)), None);
        assert!(truth(Some(&json!("1"))) && truth(Some(&json!(1))) && !truth(Some(&json!("0"))));
    }

    #[test]
    fn paths_keep_escapes() {
        assert_eq!(
            encode_path("/nodes/a/tasks/UPID:a:1:root@pam!t:/x%2Fy"),
            "/nodes/a/tasks/UPID%3Aa%3A1%3Aroot%40pam%21t%3A/x%2Fy"
        );
        assert_eq!(encode_path("/50%"), "/50%25");
    }

    #[test]
    fn perl_places_are_trimmed() {
        assert_eq!(
            trim_perl(
                "could not acquire lock for SDN config: invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291.\n"
            ),
            "could not acquire lock for SDN config: invalid lock token provided!"
        );
        assert_eq!(
            trim_perl("a at /x/Y.pm line 1.\nb at /srv stays"),
            "a\nb at /srv stays"
        );
    }
}
