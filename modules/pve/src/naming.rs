//! Names and addresses that we choose ourselves, always the same for the same input.

use crate::ids::MacAddr;

/// The MAC address of a network card that names none: BC:24:11 (Proxmox's own prefix), then 24 bits from vmid and card
/// number, mixed with the cluster's node names so that two clusters differ (DESIGN.md section 1).
pub fn mac_for<S: AsRef<str>>(vmid: u32, card: u32, nodes: &[S]) -> MacAddr {
    let mut names: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    names.dedup();
    // FNV-1a, folded to 24 bits: stable over versions, unlike the standard library's hasher.
    let mut hash: u32 = 0x811c_9dc5;
    for byte in names.join("\n").bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let hash = (hash >> 24) ^ (hash & 0x00ff_ffff);
    let bits = (((vmid % (1 << 19)) << 5) | (card & 31)) ^ hash;
    let [_, a, b, c] = bits.to_be_bytes();
    let text = format!("BC:24:11:{a:02X}:{b:02X}:{c:02X}");
    MacAddr::try_from(text).unwrap_or_else(|_| unreachable!("six hex pairs, first even"))
}

/// What a letter is in plain ASCII; None if it has no such form.
fn transliterate(c: char) -> Option<&'static str> {
    Some(match c {
        'ä' | 'æ' => "ae",
        'Ä' | 'Æ' => "Ae",
        'ö' | 'ø' | 'œ' => "oe",
        'Ö' | 'Ø' | 'Œ' => "Oe",
        'ü' => "ue",
        'Ü' => "Ue",
        'ß' => "ss",
        'ẞ' => "SS",
        'á' | 'à' | 'â' | 'ã' | 'ā' | 'ă' | 'ą' | 'å' => "a",
        'Á' | 'À' | 'Â' | 'Ã' | 'Ā' | 'Ă' | 'Ą' | 'Å' => "A",
        'ç' | 'ć' | 'č' => "c",
        'Ç' | 'Ć' | 'Č' => "C",
        'ď' | 'đ' | 'ð' => "d",
        'Ď' | 'Đ' | 'Ð' => "D",
        'é' | 'è' | 'ê' | 'ë' | 'ē' | 'ė' | 'ę' | 'ě' => "e",
        'É' | 'È' | 'Ê' | 'Ë' | 'Ē' | 'Ė' | 'Ę' | 'Ě' => "E",
        'ğ' | 'ģ' => "g",
        'Ğ' | 'Ģ' => "G",
        'í' | 'ì' | 'î' | 'ï' | 'ī' | 'į' | 'ı' => "i",
        'Í' | 'Ì' | 'Î' | 'Ï' | 'Ī' | 'Į' | 'İ' => "I",
        'ł' | 'ľ' | 'ĺ' => "l",
        'Ł' | 'Ľ' | 'Ĺ' => "L",
        'ñ' | 'ń' | 'ň' => "n",
        'Ñ' | 'Ń' | 'Ň' => "N",
        'ó' | 'ò' | 'ô' | 'õ' | 'ō' | 'ő' => "o",
        'Ó' | 'Ò' | 'Ô' | 'Õ' | 'Ō' | 'Ő' => "O",
        'ř' | 'ŕ' => "r",
        'Ř' | 'Ŕ' => "R",
        'ś' | 'š' | 'ş' | 'ș' => "s",
        'Ś' | 'Š' | 'Ş' | 'Ș' => "S",
        'ť' | 'ţ' | 'ț' => "t",
        'Ť' | 'Ţ' | 'Ț' => "T",
        'þ' => "th",
        'Þ' => "Th",
        'ú' | 'ù' | 'û' | 'ū' | 'ů' | 'ű' | 'ų' => "u",
        'Ú' | 'Ù' | 'Û' | 'Ū' | 'Ů' | 'Ű' | 'Ų' => "U",
        'ý' | 'ÿ' => "y",
        'Ý' => "Y",
        'ź' | 'ż' | 'ž' => "z",
        'Ź' | 'Ż' | 'Ž' => "Z",
        _ => return None,
    })
}

/// A valid DNS name made from any name: umlauts and accents in ASCII, all else that does not belong becomes a dash;
/// parts of at most 63 characters, at most 253 in all, never empty (`vm`). A valid name stays as it is.
pub fn dns_name(name: &str) -> String {
    // A letter followed by a combining diaeresis is the same letter to a reader.
    let name = ["aä", "oö", "uü", "AÄ", "OÖ", "UÜ"]
        .iter()
        .fold(name.to_string(), |n, pair| {
            let mut c = pair.chars();
            let (plain, composed) = (c.next().unwrap_or_default(), c.next().unwrap_or_default());
            n.replace(&format!("{plain}\u{308}"), &composed.to_string())
        });
    let mut labels: Vec<String> = Vec::new();
    for part in name.split('.') {
        let mut label = String::new();
        for c in part.chars() {
            match (c, transliterate(c)) {
                (c, _) if c.is_ascii_alphanumeric() || c == '-' => label.push(c),
                (_, Some(ascii)) => label.push_str(ascii),
                // Combining marks vanish; other characters separate.
                ('\u{300}'..='\u{36f}', _) => {}
                _ if label.ends_with('-') => {}
                _ => label.push('-'),
            }
        }
        let label = label.trim_matches('-');
        let label = label[..label.len().min(63)].trim_end_matches('-');
        if !label.is_empty() {
            labels.push(label.to_string());
        }
    }
    while labels.len() > 1 && labels.join(".").len() > 253 {
        labels.pop();
    }
    if labels.is_empty() {
        "vm".to_string()
    } else {
        labels.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_depends_on_guest_card_and_cluster_only() {
        let m = mac_for(20042, 0, &["pve1", "pve2"]);
        assert_eq!(
            m.as_str(),
            mac_for(20042, 0, &["pve2", "pve1", "pve1"]).as_str()
        );
        assert!(m.as_str().starts_with("BC:24:11:"));
        let mut seen = std::collections::BTreeSet::new();
        for vmid in [100, 101, 20042, 524_288 + 102, 999_999_999] {
            for card in 0..32 {
                assert!(
                    seen.insert(mac_for(vmid, card, &["pve1"]).upper()),
                    "{vmid} {card}"
                );
            }
        }
        assert_ne!(mac_for(100, 0, &["pve1"]), mac_for(100, 0, &["other"]));
        // Pinned: an address must not change with a later version.
        assert_eq!(mac_for(100, 0, &["pve1"]).as_str(), "BC:24:11:0A:09:DB");
    }

    #[test]
    fn any_name_becomes_a_dns_name() {
        for (name, dns) in [
            ("web01", "web01"),
            ("vm.example.com", "vm.example.com"),
            ("Büro Server_1", "Buero-Server-1"),
            ("Bu\u{308}ro", "Buero"),
            ("Straße", "Strasse"),
            ("My VM [1]", "My-VM-1"),
            ("--a--", "a"),
            ("a..b.", "a.b"),
            ("Łódź (test)", "Lodz-test"),
            ("日本", "vm"),
            ("", "vm"),
            ("...", "vm"),
            ("a - b", "a--b"),
        ] {
            assert_eq!(dns_name(name), dns, "{name}");
        }
        assert_eq!(dns_name(&"x".repeat(80)).len(), 63);
    }
}
