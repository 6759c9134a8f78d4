//! Public SSH keys, as the server judges them before it stores `sshkeys`.

use crate::smbios::base64_decode;

/// The first line that holds no public key; empty lines and comments are none.
///
/// The server has each line read by `ssh-keygen -l` and refuses all of them with `SSH public key validation error`.
/// Source: docs/pve-facts.md and pve-common PVE::Tools, validate_ssh_public_keys.
pub fn no_public_key(text: &str) -> Option<&str> {
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .find(|l| !is_public_key(l))
}

/// Whether two neighbouring words are a type and its key; options may stand before, a comment behind.
fn is_public_key(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words
        .windows(2)
        .any(|w| base64_decode(w[1]).is_some_and(|bytes| is_key_of(w[0], &bytes)))
}

/// A row of fields with their lengths, the type first (RFC 4253, section 6.6).
fn is_key_of(kind: &str, bytes: &[u8]) -> bool {
    let (mut rest, mut fields) = (bytes, Vec::new());
    while let Some((length, tail)) = rest.split_at_checked(4) {
        let length = length.iter().fold(0, |n, b| n << 8 | usize::from(*b));
        let Some((field, tail)) = tail.split_at_checked(length) else {
            return false;
        };
        fields.push(field);
        rest = tail;
    }
    let whole = kind != "ssh-ed25519" || fields.get(1).is_some_and(|key| key.len() == 32);
    rest.is_empty() && whole && fields.len() > 1 && fields[0] == kind.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f a@b";

    #[test]
    fn keys_are_told_from_other_text() {
        assert_eq!(no_public_key(&format!("{GOOD}\n\n# mine\n")), None);
        assert_eq!(no_public_key(&format!("no-pty {GOOD}")), None);
        for bad in [
            "ssh-ed25519 AAAA a@b",
            "ssh-ed25519",
            "nonsense",
            "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIJ0Vf8",
        ] {
            assert_eq!(no_public_key(&format!("{GOOD}\n{bad}")), Some(bad));
        }
    }
}
