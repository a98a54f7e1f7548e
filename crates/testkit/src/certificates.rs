//! Certificate authorities and certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: String,
}

impl Authority {
    /// Creates an authority with a new key and a self-signed root certificate.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are no wrong names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let root = params.self_signed(&key).expect("a root can be signed").pem();
        Authority { issuer: Issuer::new(params, key), root }
    }

    /// Writes the root certificate to `root.pem` in a directory and returns the path, as for `SSL_CERT_FILE`.
    pub fn write_root(&self, directory: &Path) -> PathBuf {
        let path = directory.join("root.pem");
        write(&path, &self.root);
        path
    }

    /// Writes a certificate for these names and addresses, and its key. Returns both paths.
    pub(crate) fn write_certificate(&self, directory: &Path, names: &[String]) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(names.to_vec()).expect("names or addresses");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be signed");
        let (certificate_path, key_path) = (directory.join("certificate.pem"), directory.join("key.pem"));
        write(&certificate_path, &certificate.pem());
        write(&key_path, &key.serialize_pem());
        (certificate_path, key_path)
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
