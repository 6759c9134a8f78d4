//! Names and descriptions of SDN objects.

/// Whether the server takes it as a zone's id: a letter, then letters or digits, two to eight characters.
pub fn is_zone_id(id: &str) -> bool {
    is_sdn_id(id)
}

/// Whether the server takes it as a vnet's id: a letter, then letters or digits, two to eight characters; upper case
/// is taken (api-schema.json).
pub fn is_vnet_id(id: &str) -> bool {
    is_sdn_id(id)
}

fn is_sdn_id(id: &str) -> bool {
    (2..=8).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.bytes().all(|c| c.is_ascii_alphanumeric())
}

/// Most characters of an alias.
pub const ALIAS_MAX: usize = 256;

fn is_alias_char(c: char) -> bool {
    c.is_alphanumeric() || c == ' ' || "-_.,:;/()[]".contains(c)
}

/// Whether the server takes it as a vnet's alias: letters of any script, digits, spaces and `-_.,:;/()[]`.
pub fn is_alias(text: &str) -> bool {
    text.chars().all(is_alias_char) && text.chars().count() <= ALIAS_MAX
}

/// An acceptable alias: other characters become `_`, white space one space, cut at the limit, trimmed.
pub fn clean_alias(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean: String = words
        .join(" ")
        .chars()
        .map(|c| if is_alias_char(c) { c } else { '_' })
        .take(ALIAS_MAX)
        .collect();
    clean.trim().to_string()
}

/// One alias for several names: each made acceptable, sorted, each once, joined by `, `; names that no longer fit are
/// left out whole (the first is cut instead).
pub fn alias_of<S: AsRef<str>>(names: &[S]) -> String {
    let mut clean: Vec<String> = names
        .iter()
        .map(|n| clean_alias(n.as_ref()))
        .filter(|n| !n.is_empty())
        .collect();
    clean.sort();
    clean.dedup();
    let mut out = String::new();
    for name in clean {
        let separator = if out.is_empty() { "" } else { ", " };
        if out.chars().count() + separator.len() + name.chars().count() > ALIAS_MAX {
            break;
        }
        out = out + separator + &name;
    }
    out
}

/// Whether two comma-separated lists (nodes, peers, exit nodes) hold the same entries; order has no meaning.
pub fn same_list(a: &str, b: &str) -> bool {
    let set = |t| crate::check::split_list(t).collect::<std::collections::BTreeSet<_>>();
    set(a) == set(b)
}

/// Whether two values of an option of a zone, vnet or subnet (`sdn_zone`, ...) mean the same; None: not set.
pub fn same_option(object: &str, name: &str, a: Option<&str>, b: Option<&str>) -> bool {
    use crate::schema::Kind;
    let schema = crate::schema::sdn_options(object).and_then(|o| o.get(name));
    let implied = match schema.map(|s| s.kind) {
        Some(Kind::Boolean) => Some("0"),
        _ => schema.and_then(|s| s.usable_default()),
    };
    match (a.or(implied), b.or(implied)) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a == b
                || match schema.map(|s| (s.kind, s.format.as_deref())) {
                    Some((Kind::Boolean, _)) => {
                        crate::check::parse_bool(a) == crate::check::parse_bool(b)
                    }
                    Some((Kind::Integer | Kind::Number, _)) => {
                        matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
                    }
                    Some((_, Some(f))) if f.ends_with("-list") => same_list(a, b),
                    Some((_, Some("mac-addr"))) => a.eq_ignore_ascii_case(b),
                    _ => false,
                }
        }
        // Nothing and an empty list are the same.
        (Some(t), None) | (None, Some(t)) => t.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_aliases() {
        assert!(
            is_vnet_id("v1")
                && !is_vnet_id("v")
                && is_vnet_id("Vlan1234")
                && !is_vnet_id("vlan12345")
                && !is_vnet_id("1v")
        );
        assert!(!is_vnet_id("v_1") && !is_zone_id("z") && is_zone_id("zq") && !is_vnet_id(""));
        assert_eq!(clean_alias(" Büro/DMZ (100%)\t[a] "), "Büro/DMZ (100_) [a]");
        assert!(is_alias(&clean_alias("a\"b<c>%\n")));
        assert_eq!(alias_of(&["web", "db", "web", ""]), "db, web");
        assert!(is_alias(&alias_of(&vec!["n".repeat(100); 1])));
        assert!(
            alias_of(&(0..200).map(|n| format!("name{n}")).collect::<Vec<_>>())
                .chars()
                .count()
                <= ALIAS_MAX
        );
    }

    #[test]
    fn options_compare_by_meaning() {
        assert!(same_option(
            "sdn_zone",
            "nodes",
            Some("pve2,pve1"),
            Some("pve1, pve2")
        ));
        assert!(
            same_option("sdn_vnet", "vlanaware", Some("0"), None)
                && !same_option("sdn_vnet", "tag", Some("5"), None)
        );
        assert!(
            same_option("sdn_vnet", "tag", Some("5"), Some("05"))
                && !same_option("sdn_vnet", "alias", Some("a"), Some("b"))
        );
        assert!(same_option("sdn_zone", "vxlan-port", Some("4789"), None));
    }
}
