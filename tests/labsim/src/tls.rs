//! A certificate authority of our own and one leaf certificate per server.
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// What one server needs, and the fingerprint a client may pin.
pub struct Leaf {
    /// For the acceptor; HTTP/1.1 only.
    pub config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, upper-case hex with colons.
    pub fingerprint: String,
}

/// Makes the authority, writes its certificate to `ca_file`, and makes a leaf per name (each valid for localhost and 127.0.0.1).
/// Errors: text.
pub fn make(ca_file: &Path, names: &[&str]) -> Result<Vec<Leaf>, String> {
    let say = |e: rcgen::Error| format!("certificate: {e}");
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    ca.distinguished_name
        .push(DnType::CommonName, "labsim authority");
    let ca_key = KeyPair::generate().map_err(say)?;
    let ca_cert = ca.self_signed(&ca_key).map_err(say)?;
    std::fs::write(ca_file, ca_cert.pem()).map_err(|e| format!("{}: {e}", ca_file.display()))?;
    names
        .iter()
        .map(|name| {
            let mut params =
                CertificateParams::new(vec!["localhost".to_string(), "127.0.0.1".to_string()])
                    .map_err(say)?;
            params.distinguished_name.push(DnType::CommonName, *name);
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate().map_err(say)?;
            let cert = params.signed_by(&key, &ca_cert, &ca_key).map_err(say)?;
            let der: CertificateDer<'static> = cert.der().clone();
            let fingerprint = Sha256::digest(&der)
                .iter()
                .map(|b| format!("{b:02X}"))
                .collect::<Vec<_>>()
                .join(":");
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(|b| {
                    b.with_no_client_auth()
                        .with_single_cert(vec![der, ca_cert.der().clone()], key)
                })
                .map_err(|e| format!("TLS: {e}"))?;
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Leaf {
                config: Arc::new(config),
                fingerprint,
            })
        })
        .collect()
}
