//! Where the server is, and who we are.

use plan::MASKED;
use std::fmt;
use std::path::PathBuf;

/// A secret text; `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
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

/// How to reach a vCenter or a standalone host, and as whom. Made from the common connection options.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Host name or address; an IPv6 address with or without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User name.
    pub username: String,
    /// Password.
    pub password: Secret,
    /// Whether the certificate must be trusted by the system's roots or `ca_path`; a `thumbprint` replaces that.
    pub validate_certs: bool,
    /// A PEM file with further roots, or with the server's own certificate.
    pub ca_path: Option<String>,
    /// SHA-1 or SHA-256 of the server's certificate; pins it, also when `validate_certs` is false.
    pub thumbprint: Option<String>,
    /// An HTTP proxy.
    pub proxy_host: Option<String>,
    /// Its port.
    pub proxy_port: Option<u16>,
    /// Seconds, for a connection and again for a short answer; a page of a report may take ten times as long.
    pub api_timeout_s: u64,
    /// Every request is appended to this file (TRUEPLAN_JOURNAL).
    pub journal: Option<PathBuf>,
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            host: String::new(),
            port: 443,
            username: String::new(),
            password: Secret::default(),
            validate_certs: true,
            ca_path: None,
            thumbprint: None,
            proxy_host: None,
            proxy_port: None,
            api_timeout_s: 30,
            journal: None,
        }
    }
}

impl Connection {
    /// Whom to trust.
    pub(crate) fn trust(&self) -> Result<tls::Wanted, String> {
        let pin = |t: &String| {
            let digest = tls::parse_digest(t, &[20, 32]).ok_or(
                "thumbprint is neither a SHA-1 (20 bytes) nor a SHA-256 (32 bytes) in hexadecimal",
            )?;
            let option = "thumbprint";
            Ok::<_, String>(tls::Pin { digest, option })
        };
        Ok(tls::Wanted {
            ca_path: self.ca_path.as_ref().map(Into::into),
            pin: self.thumbprint.as_ref().map(pin).transpose()?,
            validate: self.validate_certs,
        })
    }

    /// `host:port`, brackets around an IPv6 address.
    pub fn host_port(&self) -> String {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        if host.contains(':') {
            format!("[{host}]:{}", self.port)
        } else {
            format!("{host}:{}", self.port)
        }
    }
}
