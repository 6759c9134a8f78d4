//! A YAML writer for documentation blocks: block style, wrapped lines, scalars quoted where a reader could mistake them.

use serde_json::Value;

/// Longest line written where it can be broken: ansible-test's pep8 check allows 160 characters.
const WIDTH: usize = 120;

/// A value as a YAML document in block style, with a newline at its end.
///
/// The text never holds three double quotes in a row, so that it can stand in a Python `r"""` string.
pub(crate) fn print(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                pad(indent, out);
                out.push_str(&scalar(key, indent, usize::MAX));
                out.push(':');
                nested(value, indent, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                pad(indent, out);
                out.push('-');
                match item {
                    // The first key stands beside the dash.
                    Value::Object(map) if !map.is_empty() => {
                        let mut text = String::new();
                        block(item, indent + 2, &mut text);
                        out.push(' ');
                        out.push_str(text.trim_start_matches(' '));
                    }
                    other => nested(other, indent, out),
                }
            }
        }
        other => {
            pad(indent, out);
            out.push_str(&leaf(other, indent));
            out.push('\n');
        }
    }
}

/// What follows `key:` or `-`.
fn nested(value: &Value, indent: usize, out: &mut String) {
    let full = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if full {
        out.push('\n');
        block(value, indent + 2, out);
    } else {
        out.push(' ');
        out.push_str(&leaf(value, indent));
        out.push('\n');
    }
}

fn leaf(value: &Value, indent: usize) -> String {
    match value {
        Value::String(s) => scalar(s, indent, WIDTH),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        other => other.to_string(),
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(text: &str, indent: usize, width: usize) -> String {
    if text.chars().any(|c| c.is_control() || is_odd(c)) || text.contains("\"\"\"") {
        return double_quoted(text);
    }
    let written = if is_plain(text) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    };
    wrap(&written, indent + 2, width)
}

/// Characters that YAML does not print as they are, or reads as a line break.
fn is_odd(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') || ('\u{fffe}'..='\u{ffff}').contains(&c)
}

/// Whether YAML 1.1 reads the bare text as this very string.
fn is_plain(text: &str) -> bool {
    // Words that are booleans or null, whatever their case; y and n for older readers.
    const WORDS: [&str; 11] = [
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan",
    ];
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let last = text.ends_with(|c: char| !c.is_whitespace() && c != ':');
    let safe = text.chars().all(|c| {
        c.is_alphanumeric()
            || matches!(
                c,
                ' ' | '.'
                    | ','
                    | '_'
                    | '-'
                    | '/'
                    | '('
                    | ')'
                    | ';'
                    | '='
                    | '+'
                    | '?'
                    | '!'
                    | '\''
                    | '"'
                    | '`'
                    | '%'
            )
    });
    first && last && safe && !WORDS.contains(&text.to_lowercase().as_str())
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_odd(c) => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Breaks a plain or single-quoted scalar at single blanks; YAML folds each break back into one blank.
fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    let chars: Vec<char> = text.chars().collect();
    for (i, c) in chars.iter().enumerate() {
        let blank = |j: Option<&char>| j.is_none_or(|c| *c == ' ');
        let word = chars[i..].iter().skip(1).take_while(|c| **c != ' ').count();
        let single = *c == ' ' && i > 0 && !blank(chars.get(i - 1)) && !blank(chars.get(i + 1));
        // In plain text a line must not begin with what would be a comment or an indicator; in quotes it does no harm.
        let starts_well = text.starts_with('\'')
            || chars
                .get(i + 1)
                .is_some_and(|c| c.is_alphanumeric() || *c == '(');
        if single && starts_well && column + 1 + word > width {
            out.push('\n');
            pad(indent, &mut out);
            column = indent;
        } else {
            out.push(*c);
            column += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_are_quoted_where_needed() {
        for (text, want) in [
            ("plain words, and more.", "plain words, and more."),
            ("yes", "'yes'"),
            ("Off", "'Off'"),
            ("2.0", "'2.0'"),
            ("a: b", "'a: b'"),
            ("it's", "it's"),
            ("'tis", "'''tis'"),
            ("", "''"),
            ("x ", "'x '"),
            ("a\nb", "\"a\\nb\""),
            ("a\"\"\"b", "\"a\\\"\\\"\\\"b\""),
            ("*a", "'*a'"),
            ("a #b", "'a #b'"),
        ] {
            assert_eq!(scalar(text, 0, WIDTH), want);
        }
    }

    #[test]
    fn blocks() {
        let value = json!({"a": [1, {"b": "x", "c": []}, ["d"]], "e": {}, "f": {"g": true}});
        assert_eq!(
            print(&value),
            "a:\n  - 1\n  - b: x\n    c: []\n  -\n    - d\ne: {}\nf:\n  g: true\n"
        );
    }

    #[test]
    fn long_lines_are_broken() {
        let text = "a: word ".repeat(60);
        let text = text.trim();
        let printed = print(&json!({"k": [text]}));
        assert!(
            printed.lines().all(|l| l.chars().count() <= WIDTH + 4),
            "{printed}"
        );
        let folded: Vec<&str> = printed.lines().skip(1).map(str::trim).collect();
        assert_eq!(folded.join(" "), format!("- '{text}'"));
    }
}
