//! Whom both clients trust: the system's roots, a CA file, or one pinned certificate.

mod roots;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use roots::Roots;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The certificate that was turned away: its SHA-256 and why. An error through hyper keeps only the text.
pub type Rejected = Arc<Mutex<Option<(String, String)>>>;

/// Why there is no TLS configuration; the text is for people.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing, unreadable or without a certificate.
    #[error("ca_path {path} cannot be read: {why}")]
    CaFile {
        /// As it was given.
        path: String,
        /// In words.
        why: String,
    },
    /// rustls refuses the configuration.
    #[error("TLS cannot be set up")]
    Setup(#[source] Error),
}

/// One certificate that is trusted, and no other.
#[derive(Clone, Debug)]
pub struct Pin {
    /// Its SHA-1 (20 bytes) or SHA-256 (32 bytes).
    pub digest: Vec<u8>,
    /// The option that gave it, for the message.
    pub option: &'static str,
}

/// Whom to trust.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Certificates of authorities, in PEM format, beside the system's.
    pub ca_path: Option<PathBuf>,
    /// Goes before everything else.
    pub pin: Option<Pin>,
    /// False trusts anybody.
    pub validate: bool,
}

/// The bytes of a digest in hexadecimal, `AA:BB:…` or `aabb…`, if it is of one of those lengths. Read from a file, it ends with a line break.
pub fn parse_digest(text: &str, lengths: &[usize]) -> Option<Vec<u8>> {
    let hex: String = text
        .chars()
        .filter(|c| !matches!(c, ':' | '-') && !c.is_whitespace())
        .collect();
    if !hex.bytes().all(|b| b.is_ascii_hexdigit()) || !lengths.iter().any(|l| hex.len() == 2 * l) {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).ok())
        .collect()
}

/// The client's TLS configuration (HTTP/1.1 only), and where a rejected certificate is remembered.
///
/// # Errors
/// A file of authorities that cannot be used.
pub fn config(wanted: &Wanted) -> Result<(ClientConfig, Rejected), TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let rejected = Rejected::default();
    let mut named: Vec<CertificateDer<'static>> = vec![];
    if let Some(path) = &wanted.ca_path {
        let say = |why: String| TlsError::CaFile {
            path: path.display().to_string(),
            why,
        };
        for c in CertificateDer::pem_file_iter(path).map_err(|e| say(e.to_string()))? {
            named.push(c.map_err(|e| say(e.to_string()))?);
        }
        if named.is_empty() {
            return Err(say("it holds no PEM certificate".to_owned()));
        }
    }
    let trust = if let Some(pin) = &wanted.pin {
        Trust::Pinned(pin.clone())
    } else if wanted.validate {
        Trust::Roots(Roots::new(named, provider.clone()))
    } else {
        Trust::Anything
    };
    let verifier = Verifier {
        trust,
        provider: provider.clone(),
        rejected: rejected.clone(),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // pveproxy and vCenter's proxy speak HTTP/1.1 for what we send.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, rejected))
}

#[derive(Debug)]
enum Trust {
    /// This leaf and no other, whoever signed it and whatever name it bears.
    Pinned(Pin),
    /// validate_certs: false.
    Anything,
    /// The system's roots and those of `ca_path`.
    Roots(Roots),
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
    rejected: Rejected,
}

/// In words for people.
fn why(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(c) => match c {
            CertificateError::UnknownIssuer => {
                "it is self-signed, or its issuer is not known here".to_owned()
            }
            CertificateError::BadSignature => {
                "its issuer has the name of one that is known here, but another key (an older or a newer one of the same cluster?)".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "it has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "it is not valid yet".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "it was not issued for this host name or address".to_owned()
            }
            _ if is_ca_as_leaf(error) => {
                "it is self-signed, or its issuer is not known here".to_owned()
            }
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// A certificate that is its own CA: rustls has no variant for it, the text of webpki's error does.
fn is_ca_as_leaf(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(o)) if o.to_string().contains("CaUsedAsEndEntity"))
}

impl Verifier {
    fn refuse(&self, leaf: &CertificateDer<'_>, why: String, error: Error) -> Error {
        let hex: Vec<String> = digest(&SHA256, leaf)
            .as_ref()
            .iter()
            .map(|b| format!("{b:02X}"))
            .collect();
        if let Ok(mut r) = self.rejected.lock() {
            *r = Some((hex.join(":"), why));
        }
        error
    }

    /// What the handshake is signed with; none where nobody is authenticated anyway: keys that are too short for ring (1024 bits of old
    /// appliances) pass there.
    fn algorithms(&self) -> Option<&WebPkiSupportedAlgorithms> {
        match self.trust {
            Trust::Anything => None,
            _ => Some(&self.provider.signature_verification_algorithms),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.trust {
            Trust::Anything => Ok(ServerCertVerified::assertion()),
            Trust::Pinned(pin) => {
                let algorithm = if pin.digest.len() == 20 {
                    &SHA1_FOR_LEGACY_USE_ONLY
                } else {
                    &SHA256
                };
                if digest(algorithm, leaf).as_ref() == pin.digest.as_slice() {
                    return Ok(ServerCertVerified::assertion());
                }
                let e = CertificateError::ApplicationVerificationFailure.into();
                let why = format!("it is not the one that {} pins", pin.option);
                Err(self.refuse(leaf, why, e))
            }
            Trust::Roots(roots) => {
                let verdict =
                    roots.try_each(|v| v.verify_server_cert(leaf, intermediates, name, ocsp, now));
                match verdict {
                    Ok(v) => Ok(v),
                    // A self-signed certificate that ca_path names itself is trusted, as OpenSSL does; webpki has checked the dates.
                    Err(e) if is_ca_as_leaf(&e) && roots.names(leaf) => {
                        let parsed = rustls::server::ParsedCertificate::try_from(leaf)?;
                        rustls::client::verify_server_name(&parsed, name)
                            .map(|()| ServerCertVerified::assertion())
                            .map_err(|e| self.refuse(leaf, why(&e), e))
                    }
                    Err(e) => Err(self.refuse(leaf, why(&e), e)),
                }
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.algorithms()
            .map_or(Ok(HandshakeSignatureValid::assertion()), |a| {
                verify_tls12_signature(message, cert, dss, a)
            })
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.algorithms()
            .map_or(Ok(HandshakeSignatureValid::assertion()), |a| {
                verify_tls13_signature(message, cert, dss, a)
            })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::parse_digest;

    #[test]
    fn digests() {
        let both = |t: &str| parse_digest(t, &[20, 32]).map(|b| b.len());
        assert_eq!(both(&"aB:".repeat(20)), Some(20));
        assert_eq!(both(&"0f".repeat(32)), Some(32));
        assert_eq!(both(&format!("\t{}\r\n", "0f".repeat(32))), Some(32));
        assert_eq!(parse_digest(&"0f".repeat(20), &[32]), None);
        for bad in [
            "",
            "zz",
            &"0f".repeat(31),
            &"zz".repeat(20),
            &"+f".repeat(20),
            &"ü".repeat(20),
        ] {
            assert_eq!(both(bad), None, "{bad}");
        }
    }
}
