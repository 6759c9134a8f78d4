//! Named formats of plain parameters that occur in no property string (those are in propstr.rs); texts from PVE::JSONSchema,
//! PVE::AccessControl and the recordings.
use super::propstr::matches_pattern;
use std::net::IpAddr;

/// Splits what Proxmox VE calls a list: at commas, semicolons, white space and NUL; empty items are dropped.
pub fn split_list(text: &str) -> Vec<String> {
    super::propstr::split_list(text)
        .map(str::to_string)
        .collect()
}

fn is_cidr(value: &str, v4: bool, v6: bool) -> bool {
    let Some((ip, mask)) = value.split_once('/') else {
        return false;
    };
    let Ok(mask) = mask.parse::<u8>() else {
        return false;
    };
    match ip.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => v4 && (1..=32).contains(&mask),
        Ok(IpAddr::V6(_)) => v6 && (1..=128).contains(&mask),
        Err(_) => false,
    }
}

/// Checks a value against a named format; names not known here are taken as they are.
/// Errors: the text behind `invalid format - `, with its trailing newline.
pub fn check(name: &str, value: &str) -> Result<(), String> {
    if let Some(item) = name.strip_suffix("-list") {
        return split_list(value).iter().try_for_each(|v| check(item, v));
    }
    let fine = |ok: bool, text: String| if ok { Ok(()) } else { Err(format!("{text}\n")) };
    let fits = |pattern: &str| matches_pattern(pattern, value);
    match name {
        "pve-userid" => fine(
            fits("[^\\s:/]+@[A-Za-z][A-Za-z0-9.\\-_]+"),
            format!("value '{value}' does not look like a valid user name"),
        ),
        "pve-tokenid" => fine(
            fits("[^\\s:/]+@[A-Za-z][A-Za-z0-9.\\-_]+![A-Za-z][A-Za-z0-9.\\-_]+"),
            format!("value '{value}' does not look like a valid token ID"),
        ),
        "pve-realm" => fine(
            fits("[A-Za-z][A-Za-z0-9.\\-_]+"),
            "value does not look like a valid realm".into(),
        ),
        "pve-roleid" => fine(
            fits("[A-Za-z0-9.\\-_]+"),
            format!("role name '{value}' contains invalid characters"),
        ),
        "pve-groupid" => fine(
            fits("[A-Za-z0-9.\\-_]+"),
            format!("group name '{value}' contains invalid characters"),
        ),
        "CIDR" => fine(
            is_cidr(value, true, true),
            "value does not look like a valid CIDR network".into(),
        ),
        "CIDRv4" => fine(
            is_cidr(value, true, false),
            "value does not look like a valid IPv4 network".into(),
        ),
        "CIDRv6" => fine(
            is_cidr(value, false, true),
            "value does not look like a valid IPv6 network".into(),
        ),
        "pve-sdn-subnet-id" => fine(
            is_cidr(value, true, true) || fits("[^-/]+-[^/-]+-\\d+"),
            "value does not look like a valid CIDR network".into(),
        ),
        "pve-storage-content" => fine(
            [
                "images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none",
            ]
            .contains(&value),
            format!("invalid content type '{value}'"),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alias_pattern_takes_any_script_but_no_percent() {
        let alias = "(?^i:[\\(\\)-_.\\w\\d\\s]{0,256})";
        assert!(matches_pattern(alias, "Büro 1 (a):;/[x]"));
        assert!(!matches_pattern(alias, "50%"));
    }

    #[test]
    fn lists_are_checked_item_by_item() {
        assert!(check("pve-userid-list", "root@pam,deploy@pve").is_ok());
        assert!(check("pve-userid-list", "root@pam,deploy").is_err());
    }
}
