//! The authorities, read when they are needed.
//!
//! The system's are some 140 certificates in one file and again in a directory of several hundred links: to read them all takes as long
//! as the rest of a run. What one set of authorities vouches for, a larger one does too, so the smallest is asked first.

use crate::is_ca_as_leaf;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, Error, RootCertStore};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Sets of authorities; each holds those before it, the last is all that is trusted.
#[derive(Clone, Copy)]
enum Set {
    /// Of `ca_path`.
    Named,
    /// And of the system's one file.
    Bundle,
    /// And of the system's directory.
    All,
}

type Built = OnceLock<Option<Arc<WebPkiServerVerifier>>>;

/// The authorities of `ca_path` and of the system.
#[derive(Debug)]
pub(crate) struct Roots {
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    built: [Built; 3],
}

impl Roots {
    pub(crate) fn new(named: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Self {
        Roots {
            named,
            provider,
            built: Default::default(),
        }
    }

    /// Whether `ca_path` holds this very certificate.
    pub(crate) fn names(&self, leaf: &CertificateDer<'_>) -> bool {
        self.named.iter().any(|c| c == leaf)
    }

    /// The first yes, or the no of all together.
    pub(crate) fn try_each<T>(
        &self,
        verify: impl Fn(&WebPkiServerVerifier) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // Without any root every certificate is unknown.
        let mut verdict = Err(CertificateError::UnknownIssuer.into());
        for set in [Set::Named, Set::Bundle, Set::All] {
            let Some(verifier) = self.built[set as usize].get_or_init(|| self.build(set)) else {
                continue;
            };
            verdict = verify(verifier);
            // Of a certificate that is its own authority webpki says so before it looks at any root: more of them change nothing.
            if verdict.as_ref().map_or_else(is_ca_as_leaf, |_| true) {
                break;
            }
        }
        verdict
    }

    fn build(&self, set: Set) -> Option<Arc<WebPkiServerVerifier>> {
        // A store that is partly broken is used as far as it goes.
        let system = match set {
            Set::Named => vec![],
            Set::Bundle => rustls_native_certs::load_certs_from_paths(Some(&bundle()?), None).certs,
            Set::All => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system);
        roots.add_parsable_certificates(self.named.iter().cloned());
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .ok()
    }
}

/// The one file with all of the system's authorities, by the rules of rustls-native-certs: either variable stands for the whole store.
fn bundle() -> Option<PathBuf> {
    let env = |name: &str| std::env::var_os(name);
    match (env("SSL_CERT_FILE"), env("SSL_CERT_DIR")) {
        (Some(file), _) => Some(file.into()),
        (None, Some(_)) => None,
        (None, None) => openssl_probe::probe().cert_file,
    }
}
