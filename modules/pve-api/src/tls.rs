//! Whom we trust: the system's roots, a CA file, or one pinned certificate.

use crate::Connection;
use crate::connection::parse_fingerprint;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedCipherSuite,
};
use std::sync::{Arc, Mutex};

/// The certificate that was turned away: its fingerprint and why. An error through hyper keeps only the text.
pub(crate) type Rejected = Arc<Mutex<Option<(String, String)>>>;

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("ca_path {path} cannot be read: {why}")]
    CaFile { path: String, why: String },
    #[error("api_fingerprint is not a SHA-256 fingerprint")]
    Fingerprint,
    #[error("TLS cannot be set up")]
    Setup(#[source] Error),
}

/// The client's TLS configuration, and where a rejected certificate is remembered.
pub(crate) fn config(connection: &Connection) -> Result<(ClientConfig, Rejected), TlsError> {
    let provider = Arc::new(ring::default_provider());
    let rejected = Rejected::default();
    let mut extra: Vec<CertificateDer<'static>> = vec![];
    if let Some(path) = &connection.ca_path {
        let say = |why: String| TlsError::CaFile {
            path: path.display().to_string(),
            why,
        };
        for c in CertificateDer::pem_file_iter(path).map_err(|e| say(e.to_string()))? {
            extra.push(c.map_err(|e| say(e.to_string()))?);
        }
        if extra.is_empty() {
            return Err(say("it holds no PEM certificate".to_owned()));
        }
    }
    let trust = if let Some(f) = &connection.fingerprint {
        Trust::Pinned(parse_fingerprint(f).ok_or(TlsError::Fingerprint)?)
    } else if !connection.validate_certs {
        Trust::Anything
    } else {
        let mut roots = RootCertStore::empty();
        // A store that is partly broken is used as far as it goes; without any root every certificate is unknown.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(extra.iter().cloned());
        let inner = if roots.is_empty() {
            None
        } else {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .ok()
        };
        Trust::Roots { inner, extra }
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
    // pveproxy speaks HTTP/1.1 only.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, rejected))
}

#[derive(Debug)]
enum Trust {
    /// This leaf and no other, whoever signed it and whatever name it bears.
    Pinned(Vec<u8>),
    /// validate_certs: false.
    Anything,
    /// The system's roots and those of `ca_path`.
    Roots {
        inner: Option<Arc<WebPkiServerVerifier>>,
        extra: Vec<CertificateDer<'static>>,
    },
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
    rejected: Rejected,
}

impl Verifier {
    fn sha256(&self, der: &[u8]) -> Vec<u8> {
        // The provider has the hash only inside its cipher suites.
        self.provider
            .cipher_suites
            .iter()
            .find_map(|s| match s {
                SupportedCipherSuite::Tls13(s) if s.common.hash_provider.output_len() == 32 => {
                    Some(s.common.hash_provider.hash(der).as_ref().to_vec())
                }
                _ => None,
            })
            .unwrap_or_default()
    }

    fn refuse(&self, leaf: &[u8], why: &str, error: Error) -> Error {
        let hex: Vec<String> = leaf.iter().map(|b| format!("{b:02X}")).collect();
        if let Ok(mut r) = self.rejected.lock() {
            *r = Some((hex.join(":"), why.to_owned()));
        }
        error
    }
}

/// In words for people.
fn why(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(c) => match c {
            CertificateError::UnknownIssuer => {
                "it is self-signed, or its issuer is not known here".to_owned()
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
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

fn is_ca_as_leaf(error: &Error) -> bool {
    // A certificate that is its own CA: rustls has no variant of its own for it, the text of webpki's does.
    matches!(error, Error::InvalidCertificate(CertificateError::Other(o)) if o.to_string().contains("CaUsedAsEndEntity"))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let print = self.sha256(end_entity);
        match &self.trust {
            Trust::Anything => Ok(ServerCertVerified::assertion()),
            Trust::Pinned(pin) if !print.is_empty() && *pin == print => {
                Ok(ServerCertVerified::assertion())
            }
            Trust::Pinned(_) => Err(self.refuse(
                &print,
                "it is not the one that api_fingerprint pins",
                CertificateError::ApplicationVerificationFailure.into(),
            )),
            Trust::Roots { inner, extra } => {
                let unknown = || Err(Error::from(CertificateError::UnknownIssuer));
                let verdict = inner.as_ref().map_or_else(unknown, |v| {
                    v.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
                });
                match verdict {
                    Ok(v) => Ok(v),
                    // Named in ca_path itself: trusted as OpenSSL does, once dates have been checked (webpki checks them first).
                    Err(e) if is_ca_as_leaf(&e) && extra.iter().any(|c| c == end_entity) => {
                        let parsed = rustls::server::ParsedCertificate::try_from(end_entity)?;
                        rustls::client::verify_server_name(&parsed, server_name)
                            .map(|()| ServerCertVerified::assertion())
                            .map_err(|e| {
                                let w = why(&e);
                                self.refuse(&print, &w, e)
                            })
                    }
                    Err(e) if is_ca_as_leaf(&e) => Err(self.refuse(
                        &print,
                        "it is self-signed, or its issuer is not known here",
                        e,
                    )),
                    Err(e) => {
                        let w = why(&e);
                        Err(self.refuse(&print, &w, e))
                    }
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
