//! Where the cluster is, and who we are.

use plan::{ErrorKind, Failure, MASKED};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The port of the API (source: pveproxy(8)).
const DEFAULT_PORT: u16 = 8006;

/// A secret text; neither `Debug` nor `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, to be sent and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASKED)
    }
}

/// How to reach a cluster's API, and as whom. Made from the common `api_*` arguments.
#[derive(Clone, Debug)]
pub struct Connection {
    /// `host`, `host:port`, an IPv6 address (with a port in brackets) or `https://...`; `http://` for loopback only.
    pub host: String,
    /// Over a port in `host`; 8006 if neither is given.
    pub port: Option<u16>,
    /// `user@realm`; not needed where `token_id` names it.
    pub user: Option<String>,
    /// For a ticket. A token wins over it.
    pub password: Option<Secret>,
    /// `tok` or `user@realm!tok`.
    pub token_id: Option<String>,
    /// The token's secret.
    pub token_secret: Option<Secret>,
    /// A one-time password, for users with a second factor.
    pub otp: Option<Secret>,
    /// Whether the certificate must be trusted by the system's roots or `ca_path`; a `fingerprint` replaces that.
    pub validate_certs: bool,
    /// A PEM file with further roots.
    pub ca_path: Option<PathBuf>,
    /// SHA-256 of the server's certificate, with or without colons; pins it, also when `validate_certs` is false.
    pub fingerprint: Option<String>,
    /// Seconds, for a connection and again for a short answer; an answer to a write may take four times as long (a config change of a
    /// running guest unplugs devices, 5 to 17 s each; source: docs/pve-running.md).
    pub timeout_s: u64,
    /// Where a guest probably lives: saves the search.
    pub node_hint: Option<String>,
    /// Every request is appended to this file (TRUEPLAN_JOURNAL).
    pub journal: Option<PathBuf>,
    /// A ticket is renewed when it is that old. Tickets live 2 hours (source: pve-access-control, AccessControl.pm, `$ticket_lifetime`).
    pub renew_after: Duration,
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            host: String::new(),
            port: None,
            user: None,
            password: None,
            token_id: None,
            token_secret: None,
            otp: None,
            validate_certs: true,
            ca_path: None,
            fingerprint: None,
            timeout_s: 30,
            node_hint: None,
            journal: None,
            renew_after: Duration::from_secs(3600),
        }
    }
}

/// Who signs in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Identity {
    /// With an API token.
    Token { user: String, token: String },
    /// With a password.
    User(String),
}

impl Identity {
    /// For messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Identity::Token { user, token } => format!("token {user}!{token}"),
            Identity::User(user) => format!("user {user}"),
        }
    }
}

/// The address, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    pub(crate) scheme: &'static str,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// `https://host:port`.
    pub(crate) fn base(&self) -> String {
        format!("{}://{}", self.scheme, self.host_port())
    }

    pub(crate) fn host_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl Connection {
    /// Checks everything that can be checked without a connection.
    ///
    /// # Errors
    /// `invalid_args`, naming all that does not fit at once.
    pub fn check(&self) -> Result<(), Failure> {
        let mut wrong = vec![];
        if let Err(e) = self.address() {
            wrong.push(e);
        }
        if let Err(e) = self.identity() {
            wrong.push(e);
        }
        if let Err(e) = self.trust() {
            wrong.push(e);
        }
        if self.timeout_s == 0 {
            wrong.push("api_timeout: must be at least 1 second".to_owned());
        }
        if let Some(p) = &self.ca_path
            && !p.is_file()
        {
            wrong.push(format!("ca_path: there is no file {}", p.display()));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::new(
            ErrorKind::InvalidArgs,
            format!(
                "unable to sign in to Proxmox VE: {}; correct these arguments",
                wrong.join("; ")
            ),
        ))
    }

    /// `host:port` of the endpoint, as the ledger names it.
    ///
    /// # Errors
    /// What is wrong with the host.
    pub fn endpoint(&self) -> Result<String, String> {
        self.address().map(|a| a.host_port())
    }

    pub(crate) fn address(&self) -> Result<Address, String> {
        let text = self.host.trim().trim_end_matches('/');
        let (scheme, rest) = if let Some(r) = text.strip_prefix("https://") {
            ("https", r)
        } else if let Some(r) = text.strip_prefix("http://") {
            ("http", r)
        } else {
            ("https", text)
        };
        let bad = || format!("api_host: '{text}' is not a host name or address");
        let (host, port) = if let Some(r) = rest.strip_prefix('[') {
            let (h, after) = r.split_once(']').ok_or_else(bad)?;
            (h, after.strip_prefix(':'))
        } else if rest.parse::<std::net::Ipv6Addr>().is_ok() {
            (rest, None)
        } else {
            match rest.split_once(':') {
                Some((h, p)) => (h, Some(p)),
                None => (rest, None),
            }
        };
        let named = match port {
            Some(p) => Some(p.parse::<u16>().map_err(|_| bad())?),
            None => None,
        };
        if host.is_empty() {
            return Err("api_host: is missing".to_owned());
        }
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if !host.chars().all(legal) {
            return Err(bad());
        }
        let address = Address {
            scheme,
            host: host.to_owned(),
            port: self.port.or(named).unwrap_or(DEFAULT_PORT),
        };
        if scheme == "http" && !address.is_loopback() {
            return Err(format!(
                "api_host: '{text}' would send secrets in clear; http:// is for loopback only, use https://"
            ));
        }
        Ok(address)
    }

    /// Whom to trust.
    pub(crate) fn trust(&self) -> Result<tls::Wanted, String> {
        let pin = |f: &String| {
            // As Proxmox VE's own tools print it.
            let digest = tls::parse_digest(f, &[32]).ok_or(format!(
                "api_fingerprint: '{f}' is not a SHA-256 fingerprint (32 bytes in hex, with or without colons)"
            ))?;
            let option = "api_fingerprint";
            Ok::<_, String>(tls::Pin { digest, option })
        };
        Ok(tls::Wanted {
            ca_path: self.ca_path.clone(),
            pin: self.fingerprint.as_ref().map(pin).transpose()?,
            validate: self.validate_certs,
        })
    }

    pub(crate) fn identity(&self) -> Result<Identity, String> {
        let set = |o: &Option<String>| o.clone().filter(|t| !t.is_empty());
        let user = set(&self.user);
        if let Some(id) = set(&self.token_id) {
            if self.token_secret.is_none() {
                return Err("api_token_secret: is missing beside api_token_id".to_owned());
            }
            let (user, token) = match id.split_once('!') {
                Some((u, t)) => (u.to_owned(), t.to_owned()),
                None => (
                    user.ok_or(
                        "api_user: is missing beside an api_token_id without it (`user@realm!name` names both)",
                    )?,
                    id,
                ),
            };
            return Ok(Identity::Token {
                user: realm(user, "api_token_id")?,
                token,
            });
        }
        let user = user.ok_or("api_user: is missing (or give api_token_id `user@realm!name`)")?;
        if self.password.is_none() {
            return Err(
                "api_password: is missing (or give api_token_id and api_token_secret)".to_owned(),
            );
        }
        Ok(Identity::User(realm(user, "api_user")?))
    }
}

fn realm(user: String, what: &str) -> Result<String, String> {
    match user.rsplit_once('@') {
        Some((u, r)) if !u.is_empty() && !r.is_empty() => Ok(user),
        _ => Err(format!(
            "{what}: '{user}' has no realm (`root@pam`, `deploy@pve`)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str) -> Result<String, String> {
        Connection {
            host: host.to_owned(),
            ..Connection::default()
        }
        .address()
        .map(|a| a.base())
    }

    #[test]
    fn hosts() {
        for (given, base) in [
            ("pve1", "https://pve1:8006"),
            ("pve1:443", "https://pve1:443"),
            ("https://pve1/", "https://pve1:8006"),
            ("https://pve1:8443", "https://pve1:8443"),
            ("fd00::1", "https://[fd00::1]:8006"),
            ("[fd00::1]:443", "https://[fd00::1]:443"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ] {
            assert_eq!(at(given).as_deref(), Ok(base), "{given}");
        }
        for bad in [
            "",
            "http://pve1",
            "pve1:x",
            "a b",
            "https://u:p@h",
            "h/path",
        ] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn identities() {
        let mut c = Connection {
            user: Some("deploy@pve".into()),
            password: Some(Secret::new("pw")),
            token_id: Some("ci".into()),
            token_secret: Some(Secret::new("s")),
            ..Connection::default()
        };
        let ci = Identity::Token {
            user: "deploy@pve".into(),
            token: "ci".into(),
        };
        assert_eq!(c.identity(), Ok(ci.clone()));
        c.user = None;
        assert!(c.identity().is_err());
        c.token_id = Some("deploy@pve!ci".into());
        assert_eq!(c.identity(), Ok(ci));
        c.token_secret = None;
        assert!(c.identity().is_err());
        c.token_id = None;
        c.user = Some("root".into());
        assert!(c.identity().unwrap_err().contains("realm"));
        assert!(!format!("{c:?}").contains("pw"));
    }

    #[test]
    fn check_names_everything_at_once() {
        let c = Connection {
            host: "http://pve1".into(),
            fingerprint: Some("zz".into()),
            ..Connection::default()
        };
        let msg = c.check().unwrap_err().msg;
        for part in ["api_host", "api_user", "api_fingerprint"] {
            assert!(msg.contains(part), "{msg}");
        }
    }
}
