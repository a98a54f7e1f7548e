//! TLS to other servers, and the certificates that it trusts.

use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, LazyLock};

/// Returns the system's root certificates, or those of `SSL_CERT_FILE`, which are read once. Unreadable
/// ones are logged and omitted.
pub fn roots() -> Arc<RootCertStore> {
    static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        let certificates = rustls_native_certs::load_native_certs();
        for error in &certificates.errors {
            tracing::warn!(%error, "root certificates were not read");
        }
        roots.add_parsable_certificates(certificates.certs);
        Arc::new(roots)
    });
    ROOTS.clone()
}

/// Returns a client configuration that trusts these certificates.
pub fn client(roots: Arc<RootCertStore>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of TLS 1.2 and 1.3");
    config.with_root_certificates(roots).with_no_client_auth()
}
