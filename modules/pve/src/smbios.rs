//! The BIOS identity of a guest: `smbios1`, its uuid and its base64 texts.

use crate::prop::{PropError, PropString};
use std::collections::BTreeMap;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes as base64 with padding, as `smbios1` wants its texts.
pub fn base64_encode(data: &[u8]) -> String {
    let mut out = String::new();
    for chunk in data.chunks(3) {
        let n = chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(ALPHABET[(n >> (18 - 6 * i) & 63) as usize] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Decodes base64, padding optional; None if a character does not belong.
pub fn base64_decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .trim_end_matches('=')
        .bytes()
        .map(|b| ALPHABET.iter().position(|c| *c == b).map(|p| p as u32))
        .collect::<Option<_>>()?;
    let mut out = Vec::new();
    for chunk in digits.chunks(4) {
        if chunk.len() == 1 {
            return None;
        }
        let n = chunk.iter().fold(0u32, |n, d| n << 6 | d) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&n.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

/// The keys that are texts and may be base64.
pub const TEXT_KEYS: &[&str] = &[
    "family",
    "manufacturer",
    "product",
    "serial",
    "sku",
    "version",
];

/// Keys and values with texts decoded and the uuid in lower case, so that both notations compare equal.
pub fn decoded(p: &PropString) -> BTreeMap<String, String> {
    let base64 = p.get_bool("base64") == Some(true);
    p.iter()
        .filter(|(name, _)| *name != "base64")
        .map(|(name, value)| {
            let text = match TEXT_KEYS.contains(&name) && base64 {
                true => base64_decode(value).map(|b| String::from_utf8_lossy(&b).into_owned()),
                false if name == "uuid" => Some(value.to_ascii_lowercase()),
                false => None,
            };
            (name.to_string(), text.unwrap_or_else(|| value.to_string()))
        })
        .collect()
}

/// Makes a `smbios1` value from plain texts; base64 whenever a text is given. `fields` are keys such as `uuid`, `serial`.
pub fn build(fields: &[(&str, &str)]) -> Result<PropString, PropError> {
    let mut p = PropString::empty("smbios1")?;
    for (name, value) in fields.iter().filter(|(_, v)| !v.is_empty()) {
        if TEXT_KEYS.contains(name) {
            p.set("base64", "1")?;
            p.set(name, &base64_encode(value.as_bytes()))?;
        } else {
            p.set(name, value)?;
        }
    }
    p.check()?;
    Ok(p)
}

/// A uuid in lower case with its dashes; None if it is not one (dashes and spaces in other places are accepted).
pub fn normal_uuid(text: &str) -> Option<String> {
    let hex: String = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' ' | '{' | '}'))
        .collect::<String>()
        .to_ascii_lowercase();
    if hex.len() != 32 || !hex.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    Some(
        [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-"),
    )
}

/// The uuid with the bytes of its first three groups reversed: the other of the two byte orders in which a guest may
/// see it (vsphere-facts.md section 7). Doing it twice gives the first again.
pub fn swap_uuid(text: &str) -> Option<String> {
    let u = normal_uuid(text)?;
    let reversed = |s: &str| {
        s.as_bytes()
            .chunks(2)
            .rev()
            .flatten()
            .map(|b| *b as char)
            .collect::<String>()
    };
    let groups: Vec<&str> = u.split('-').collect();
    Some(
        [
            &reversed(groups[0]),
            &reversed(groups[1]),
            &reversed(groups[2]),
            groups[3],
            groups[4],
        ]
        .join("-"),
    )
}

/// Whether two uuids are the same, whatever their case and dashes.
pub fn same_uuid(a: &str, b: &str) -> bool {
    normal_uuid(a).is_some_and(|a| normal_uuid(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_swapped_in_its_first_three_groups_only() {
        let u = "564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7";
        let s = swap_uuid(&u.to_uppercase()).unwrap();
        assert_eq!(s, "2b1a4d56-4d3c-6f5e-7081-92a3b4c5d6e7");
        assert_eq!(swap_uuid(&s).unwrap(), u);
        assert!(same_uuid("564d1a2b3c4d5e6f708192a3b4c5d6e7", u) && !same_uuid("", ""));
        assert_eq!(normal_uuid("bad"), None);
    }

    #[test]
    fn base64_goes_both_ways() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("ACME", "QUNNRQ=="),
        ] {
            assert_eq!(base64_encode(plain.as_bytes()), coded);
            assert_eq!(base64_decode(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(base64_decode("A"), None);
        assert_eq!(base64_decode("a b="), None);
    }

    #[test]
    fn plain_and_base64_texts_compare_equal() {
        let p = build(&[
            ("uuid", "564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7"),
            ("manufacturer", "ACME"),
            ("sku", ""),
        ])
        .unwrap();
        assert_eq!(
            p.print(),
            "base64=1,manufacturer=QUNNRQ==,uuid=564d1a2b-3c4d-5e6f-7081-92a3b4c5d6e7"
        );
        let q = PropString::parse(
            "smbios1",
            "uuid=564D1A2B-3C4D-5E6F-7081-92A3B4C5D6E7,manufacturer=ACME",
        )
        .unwrap();
        assert!(p.same_as(&q));
        assert!(!p.same_as(&q.unset(&["manufacturer"])));
    }
}
