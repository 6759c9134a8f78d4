//! Whom we trust: the system's roots, a CA file, or one pinned certificate.

use crate::Connection;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::sync::{Arc, Mutex};

/// The certificate that was turned away: its SHA-256 and why. An error through hyper keeps only the text.
pub(crate) type Rejected = Arc<Mutex<Option<(String, String)>>>;

/// Why there is no TLS configuration; the text is for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("ca_path {path} cannot be read: {why}")]
    CaFile { path: String, why: String },
    #[error("thumbprint is neither a SHA-1 (20 bytes) nor a SHA-256 (32 bytes) in hexadecimal")]
    Thumbprint,
    #[error("TLS cannot be set up")]
    Setup(#[source] Error),
}

/// The bytes of `AA:BB:…` or `aabb…`, if they are a SHA-1 or a SHA-256.
pub(crate) fn parse_thumbprint(text: &str) -> Option<Vec<u8>> {
    let hex: String = text
        .chars()
        .filter(|c| !matches!(c, ':' | ' ' | '-'))
        .collect();
    if !hex.is_ascii() || !matches!(hex.len(), 40 | 64) {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).ok())
        .collect()
}

/// The client's TLS configuration, and where a rejected certificate is remembered.
pub(crate) fn config(connection: &Connection) -> Result<(ClientConfig, Rejected), TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let rejected = Rejected::default();
    let mut named: Vec<CertificateDer<'static>> = vec![];
    if let Some(path) = &connection.ca_path {
        let say = |why: String| TlsError::CaFile {
            path: path.clone(),
            why,
        };
        for c in CertificateDer::pem_file_iter(path).map_err(|e| say(e.to_string()))? {
            named.push(c.map_err(|e| say(e.to_string()))?);
        }
        if named.is_empty() {
            return Err(say("it holds no PEM certificate".to_owned()));
        }
    }
    let trust = if let Some(t) = &connection.thumbprint {
        Trust::Pinned(parse_thumbprint(t).ok_or(TlsError::Thumbprint)?)
    } else if !connection.validate_certs {
        Trust::Anything
    } else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(named.iter().cloned());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .ok();
        Trust::Roots { inner, named }
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
        named: Vec<CertificateDer<'static>>,
    },
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
    rejected: Rejected,
}

fn why(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "it is self-signed, or its issuer is not known here".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "it has expired".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "it was not issued for this host name or address".to_owned(),
        e if is_ca_as_leaf(e) => "it is self-signed".to_owned(),
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
                let algorithm = if pin.len() == 20 {
                    &SHA1_FOR_LEGACY_USE_ONLY
                } else {
                    &SHA256
                };
                if digest(algorithm, leaf).as_ref() == pin.as_slice() {
                    return Ok(ServerCertVerified::assertion());
                }
                let e = CertificateError::ApplicationVerificationFailure.into();
                Err(self.refuse(leaf, "it is not the one that thumbprint pins".to_owned(), e))
            }
            Trust::Roots { inner, named } => {
                let verdict = match inner {
                    Some(v) => v.verify_server_cert(leaf, intermediates, name, ocsp, now),
                    None => Err(CertificateError::UnknownIssuer.into()),
                };
                match verdict {
                    Ok(v) => Ok(v),
                    // A self-signed certificate that ca_path names itself is trusted, as OpenSSL does; webpki has checked the dates.
                    Err(e) if is_ca_as_leaf(&e) && named.iter().any(|c| c == leaf) => {
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
        if matches!(self.trust, Trust::Anything) {
            // Nobody is authenticated anyway; keys that are too short for ring (1024 bits of old appliances) pass.
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if matches!(self.trust, Trust::Anything) {
            // Nobody is authenticated anyway; keys that are too short for ring (1024 bits of old appliances) pass.
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::parse_thumbprint;

    #[test]
    fn thumbprints() {
        assert_eq!(
            parse_thumbprint(&"aB:".repeat(20)).map(|b| b.len()),
            Some(20)
        );
        assert_eq!(
            parse_thumbprint(&"0f".repeat(32)).map(|b| b.len()),
            Some(32)
        );
        for bad in [
            "",
            "zz",
            &"0f".repeat(31),
            &"zz".repeat(20),
            &"ü".repeat(20),
        ] {
            assert_eq!(parse_thumbprint(bad), None, "{bad}");
        }
    }
}
