//! Tags of a guest, and how a datacenter wants them (`tag-style`).

use std::collections::BTreeSet;

/// The part of the datacenter option `tag-style` that changes what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TagStyle {
    /// Keep the case; else tags are lower-cased.
    pub case_sensitive: bool,
    /// Keep the order given; else tags are sorted.
    pub keep_order: bool,
}

impl TagStyle {
    /// Reads `tag-style` as `GET /cluster/options` returns it: `case-sensitive=1,ordering=config,...`.
    pub fn parse(text: &str) -> TagStyle {
        let mut style = TagStyle::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("case-sensitive", v)) => {
                    style.case_sensitive = crate::check::parse_bool(v) == Some(true)
                }
                Some(("ordering", v)) => style.keep_order = v == "config",
                _ => {}
            }
        }
        style
    }
}

/// Splits a list of tags: semicolons, commas, white space.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    crate::check::split_list(text)
}

/// Whether the server takes it as a tag.
pub fn is_tag(tag: &str) -> bool {
    let mut chars = tag.bytes();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric() || c == b'_')
        && chars.all(|c| c.is_ascii_alphanumeric() || b"_-+.".contains(&c))
}

/// The list as the server stores it: unique, by default lower-cased and sorted, joined by semicolons; empty is empty
/// (the server then stores one space).
pub fn normal(text: &str, style: TagStyle) -> String {
    let mut seen = BTreeSet::new();
    let mut tags: Vec<String> = split(text)
        .map(|t| {
            if style.case_sensitive {
                t.to_string()
            } else {
                t.to_lowercase()
            }
        })
        .filter(|t| seen.insert(t.clone()))
        .collect();
    if !style.keep_order {
        tags.sort();
    }
    tags.join(";")
}

/// Whether two lists hold the same tags; order never matters, case only where the style keeps it.
pub fn same(a: &str, b: &str, style: TagStyle) -> bool {
    let set = TagStyle {
        keep_order: false,
        ..style
    };
    normal(a, set) == normal(b, set)
}

/// The current list with tags added and removed; both by meaning, the others stay.
pub fn change(current: &str, add: &[String], remove: &[String], style: TagStyle) -> String {
    let fold = |t: &str| {
        if style.case_sensitive {
            t.to_string()
        } else {
            t.to_lowercase()
        }
    };
    let gone: BTreeSet<String> = remove.iter().map(|t| fold(t)).collect();
    let kept = split(current).filter(|t| !gone.contains(&fold(t)));
    let all: Vec<&str> = kept.chain(add.iter().map(String::as_str)).collect();
    normal(&all.join(";"), style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_stored_as_recorded() {
        for (given, stored) in [
            ("b;a", "a;b"),
            ("a,b", "a;b"),
            ("A;b", "a;b"),
            ("a;A", "a"),
            (";a", "a"),
            ("z;a,M", "a;m;z"),
        ] {
            assert_eq!(normal(given, TagStyle::default()), stored);
        }
        let style = TagStyle::parse("ordering=config,case-sensitive=1,shape=dense");
        assert_eq!(normal("b;A;a", style), "b;A;a");
        assert!(
            same("b;a", "a;b", style)
                && !same("A", "a", style)
                && same("A", "a", TagStyle::default())
        );
        assert_eq!(
            change(
                "migration-shell;prod",
                &["Migration-Done".into()],
                &["migration-shell".into()],
                TagStyle::default()
            ),
            "migration-done;prod"
        );
        assert!(is_tag("a_b.c+d") && !is_tag("-bad") && !is_tag("ä") && !is_tag(""));
    }
}
