//! Reads the URL of the database as an operator writes it. The driver reads all of it except the settings of
//! encryption. They have the names of libpq, `sslmode` and `sslrootcert`, and are read here.

use std::path::Path;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::client::error_text;
use crate::error::StoreError;

/// Returns the settings of a connection and the TLS settings; `None` without encryption.
///
/// With TLS the certificate and its host name are always checked, as libpq does for `verify-full`. So `prefer` and
/// `allow`, which leave the encryption of a connection uncertain, are not supported.
///
/// # Errors
/// [`StoreError::Url`] with the reason. It contains neither the password nor the user.
pub(super) fn read(url: &str) -> Result<(Config, Option<MakeRustlsConnect>), StoreError> {
    let Encryption { rest: url_without_options, is_encrypted, roots } = Encryption::take_from(url)?;
    let mut config: Config = url_without_options.parse().map_err(|error| StoreError::Url(error_text(&error)))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let expected = "expected a host, as in postgres://host/db or postgres:///db?host=/run/postgresql";
        return Err(StoreError::Url(expected.to_owned()));
    }
    let tls = match (is_encrypted, roots) {
        (true, _) if config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_))) => {
            return Err(StoreError::Url(
                "sslmode: connections by a Unix socket are not encrypted; leave it out".to_owned(),
            ));
        }
        (true, roots) => Some(tls(roots.as_deref())?),
        (false, Some(_)) => {
            return Err(StoreError::Url("sslrootcert: counts only with sslmode=verify-full".to_owned()));
        }
        (false, None) => None,
    };
    config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
    Ok((config, tls))
}

/// The settings of encryption in a URL.
struct Encryption {
    /// The URL without these settings.
    rest: String,
    is_encrypted: bool,
    /// The file of root certificates; `None` for the certificates of the system.
    roots: Option<String>,
}

impl Encryption {
    fn take_from(url: &str) -> Result<Encryption, StoreError> {
        let mut encryption = Encryption { rest: url.to_owned(), is_encrypted: false, roots: None };
        // The driver reads everything before the first `@` as user and password.
        let behind_password = url.find('@').unwrap_or(0);
        let Some(query) = url[behind_password..].find('?').map(|at| behind_password + at) else {
            return Ok(encryption);
        };
        let mut other_parameters = Vec::new();
        for parameter in url[query + 1..].split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match name {
                "sslmode" => encryption.is_encrypted = is_encrypted(&value)?,
                "sslrootcert" => encryption.roots = (value != "system").then(|| value.into_owned()),
                _ => other_parameters.push(parameter),
            }
        }
        encryption.rest = url[..query].to_owned();
        if !other_parameters.is_empty() {
            encryption.rest = format!("{}?{}", encryption.rest, other_parameters.join("&"));
        }
        Ok(encryption)
    }
}

fn is_encrypted(mode: &str) -> Result<bool, StoreError> {
    match mode {
        "disable" => Ok(false),
        "require" | "verify-ca" | "verify-full" => Ok(true),
        _ => Err(StoreError::Url(format!("sslmode: {mode:?} is none of disable, require, verify-ca, verify-full"))),
    }
}

/// Returns a TLS connector that trusts the root certificates of a file, or those of the system.
fn tls(roots_file: Option<&str>) -> Result<MakeRustlsConnect, StoreError> {
    let roots = match roots_file {
        Some(file) => {
            let mut roots = RootCertStore::empty();
            let wrong = |problem: String| StoreError::Url(format!("sslrootcert: {file}: {problem}"));
            let certificates =
                CertificateDer::pem_file_iter(Path::new(file)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let (added, _) = roots.add_parsable_certificates(certificates.map_err(|error| wrong(error.to_string()))?);
            if added == 0 {
                return Err(wrong("no root certificate is in it".to_owned()));
            }
            Arc::new(roots)
        }
        None => web::tls::roots(),
    };
    if roots.is_empty() {
        return Err(StoreError::Unavailable("the system has no root certificates".to_owned()));
    }
    Ok(MakeRustlsConnect::new(web::tls::client(roots)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> String {
        read(url).map(|_| ()).expect_err(url).to_string()
    }

    #[test]
    fn encryption_is_read_as_libpq_names_it() {
        let file = tempfile::tempdir().unwrap();
        for (query, encrypted) in
            [("", false), ("?sslmode=disable", false), ("?sslmode=disable&application_name=x", false)]
        {
            let (_, tls) = read(&format!("postgres://u:p@db.example/chancery{query}")).unwrap();
            assert_eq!(tls.is_some(), encrypted, "{query}");
        }
        assert_eq!(
            problem("postgres://u:p@h/d?sslmode=prefer"),
            "sslmode: \"prefer\" is none of disable, require, verify-ca, verify-full"
        );
        assert_eq!(
            problem("postgres://u:p@h/d?sslmode"),
            "sslmode: \"\" is none of disable, require, verify-ca, verify-full"
        );
        assert_eq!(
            problem("postgres://u:p@h/d?sslrootcert=/etc/ca.pem"),
            "sslrootcert: counts only with sslmode=verify-full"
        );
        assert!(
            problem("postgres://u:p@h/d?sslmode=require&sslrootcert=%2Fno%2Ffile")
                .starts_with("sslrootcert: /no/file: ")
        );
        let empty = file.path().join("empty.pem");
        std::fs::write(&empty, "not a certificate\n").unwrap();
        let line = problem(&format!("postgres://u:p@h/d?sslmode=verify-full&sslrootcert={}", empty.display()));
        assert_eq!(line, format!("sslrootcert: {}: no root certificate is in it", empty.display()));
        let line = problem("postgres:///d?host=/run/postgresql&sslmode=verify-full&sslrootcert=/no/file");
        assert_eq!(line, "sslmode: connections by a Unix socket are not encrypted; leave it out");
    }

    #[test]
    fn a_host_may_be_a_directory_of_sockets() {
        for url in
            ["postgres:///d?host=/run/postgresql", "postgres://u@%2Frun%2Fpostgresql/d", "postgres:///d?user=u&host=h"]
        {
            let (config, tls) = read(url).unwrap();
            assert!(tls.is_none() && config.get_dbname() == Some("d") && config.get_hosts().len() == 1, "{url}");
        }
        assert!(problem("postgres:///d").starts_with("expected a host, as in "));
    }

    #[test]
    fn unknown_parameters_are_named_without_secrets() {
        for (url, word) in [
            ("postgres://u:hidden@h/d?sslcert=x", "sslcert"),
            ("postgres://u:hid?den@h/d?sslcert=x", "sslcert"),
            ("postgres://u:hidden@h:port/d", "port"),
        ] {
            let line = problem(url);
            assert!(line.contains(word) && !line.contains("hid"), "{line}");
        }
    }
}
