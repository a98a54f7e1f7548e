//! Outbound connections to hosts that builds name, such as mail servers and identity providers. They must not reach
//! the deployment's internal networks, except those in `CHANCERY_OUTBOUND_ALLOW` (`docs/operations.md`).
//!
//! A name is resolved once and each of its addresses is checked. The connection goes to a checked
//! address, so that a second answer of the resolver cannot lead elsewhere. An address in any spelling
//! (`127.1`, `0x7f.1`, `[::ffff:127.0.0.1]`) is checked as the address to which the system would connect.

use crate::address::Ranges;
use reqwest::{Client, ClientBuilder, Response, Url, redirect};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use web::tls;

/// The maximum number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;
/// The timeout of the attempt to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The networks to which builds may not connect unless an operator allows it: private, loopback,
/// link-local, shared, reserved, multicast.
static CLOSED: LazyLock<Ranges> = LazyLock::new(|| {
    let list = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, \
                192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3, 2001::/23, 2001:db8::/32, 2002::/16";
    Ranges::parse_list(list).unwrap_or_default()
});

/// The reason why there is no connection. It does not reveal whether an address is forbidden or unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoConnection {
    /// The host does not answer, or its address is not allowed.
    Unreachable,
    /// The TLS handshake failed, mostly because the certificate is not valid for the host.
    Insecure,
}

/// Returns whether a build may connect to an address: it is public, or in a network that the operator allows.
pub fn is_allowed(address: IpAddr, allow: &Ranges) -> bool {
    let address = address.to_canonical();
    allow.contains(address) || is_public(address)
}

/// Returns whether an address is public on the Internet.
pub fn is_public(address: IpAddr) -> bool {
    if CLOSED.contains(address) {
        return false;
    }
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => match behind_translation(v6) {
            Some(v4) => !CLOSED.contains(v4.into()),
            // Global unicast.
            None => v6.segments()[0] & 0xe000 == 0x2000,
        },
    }
}

/// Returns the IPv4 address behind a NAT64 address (RFC 6052, `64:ff9b::/96`).
fn behind_translation(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        _ => None,
    }
}

/// Resolves a host to the addresses to which a build may connect, at least one.
pub async fn resolve(host: &str, port: u16, allow: &Ranges) -> Result<Vec<SocketAddr>, NoConnection> {
    let bare = host_without_brackets(host);
    let lookup = lookup_host((bare, port)).await.map_err(|_| NoConnection::Unreachable)?;
    let allowed: Vec<SocketAddr> =
        lookup.filter(|address| is_allowed(address.ip(), allow)).take(MAX_ADDRESSES).collect();
    if allowed.is_empty() { Err(NoConnection::Unreachable) } else { Ok(allowed) }
}

/// Returns a host without the brackets that an IPv6 address has in a URL.
fn host_without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Connects to the first of a host's allowed addresses that answers.
pub async fn connect(host: &str, port: u16, allow: &Ranges) -> Result<TcpStream, NoConnection> {
    connect_to_one(resolve(host, port, allow).await?).await
}

/// Connects to the first address that answers.
async fn connect_to_one(addresses: Vec<SocketAddr>) -> Result<TcpStream, NoConnection> {
    for address in addresses {
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    Err(NoConnection::Unreachable)
}

/// Returns the TLS configuration, with the system's root certificates or those of `SSL_CERT_FILE`, which are read once.
pub fn tls() -> Arc<ClientConfig> {
    static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| Arc::new(tls::client(tls::roots())));
    TLS.clone()
}

/// Starts TLS on a connection. The certificate must be valid and name the host.
pub async fn secure(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, NoConnection> {
    let name = ServerName::try_from(host_without_brackets(host).to_owned()).map_err(|_| NoConnection::Insecure)?;
    TlsConnector::from(tls()).connect(name, stream).await.map_err(|_| NoConnection::Insecure)
}

/// An HTTP client that follows no redirects, uses no proxies, and checks certificates.
pub fn http_client() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .tls_backend_preconfigured(ClientConfig::clone(&tls()))
}

/// Connects to the host of a web address, encrypted for `https`. `http` is allowed only inside networks that the operator allows.
pub async fn connect_to(url: &Url, allow: &Ranges) -> Result<Box<dyn Stream>, NoConnection> {
    let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or(NoConnection::Unreachable)?;
    let addresses = resolve_for(url, host, port, allow).await?;
    let stream = connect_to_one(addresses).await?;
    // Requests are short, and the caller waits for each answer.
    let _ = stream.set_nodelay(true);
    Ok(if url.scheme() == "https" { Box::new(secure(stream, host).await?) } else { Box::new(stream) })
}

/// A connection that may be encrypted.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Returns the addresses to which a build may connect for a URL, at least one.
async fn resolve_for(url: &Url, host: &str, port: u16, allow: &Ranges) -> Result<Vec<SocketAddr>, NoConnection> {
    let mut addresses = resolve(host, port, allow).await?;
    match url.scheme() {
        "https" => {}
        "http" => addresses.retain(|address| allow.contains(address.ip())),
        _ => addresses.clear(),
    }
    if addresses.is_empty() { Err(NoConnection::Unreachable) } else { Ok(addresses) }
}

/// Returns an HTTP client for one URL of a build, bound to the current addresses of its host. `http`
/// is allowed only inside networks that the operator allows.
pub async fn http_client_for(url: &Url, allow: &Ranges) -> Result<Client, NoConnection> {
    let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or(NoConnection::Unreachable)?;
    let addresses = resolve_for(url, host, port, allow).await?;
    let client = http_client().resolve_to_addrs(host, &addresses).build();
    client.map_err(|_| NoConnection::Unreachable)
}

/// Returns the reason why a request had no answer.
pub fn reason(error: &reqwest::Error) -> NoConnection {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if error.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return NoConnection::Insecure;
        }
        cause = error.source();
    }
    NoConnection::Unreachable
}

/// Returns the text of an error with its causes, without the URL, which may contain a secret code.
pub fn error_text(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        words.push_str(&format!(": {next}"));
        cause = next.source();
    }
    words
}

/// Reads the body of an answer; `None` if it is larger than `most` bytes or incomplete.
pub async fn body(mut response: Response, most: usize) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > most {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_ranges() -> Ranges {
        Ranges::default()
    }

    #[test]
    fn addresses_that_are_not_public_are_refused() {
        for closed in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "2001:0:7f00:1::",
            "2002:7f00:1::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_allowed(closed.parse().unwrap(), &no_ranges()), "{closed}");
        }
        for open in ["1.1.1.1", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.169.0.1", "223.255.255.1"]
        {
            assert!(is_allowed(open.parse().unwrap(), &no_ranges()), "{open}");
        }
        for open in ["2606:4700:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"] {
            assert!(is_allowed(open.parse().unwrap(), &no_ranges()), "{open}");
        }
    }

    #[test]
    fn an_operator_opens_networks() {
        let allow = Ranges::parse_list("127.0.0.0/8, fd00::/8").unwrap();
        for open in ["127.0.0.1", "::ffff:127.0.0.1", "fd00::1"] {
            assert!(is_allowed(open.parse().unwrap(), &allow), "{open}");
        }
        for closed in ["10.0.0.1", "::1", "fc00::1"] {
            assert!(!is_allowed(closed.parse().unwrap(), &allow), "{closed}");
        }
    }

    #[tokio::test]
    async fn every_spelling_of_an_address_is_that_address() {
        for host in
            ["127.0.0.1", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "[::1]", "::ffff:127.0.0.1", "0", "localhost"]
        {
            assert_eq!(resolve(host, 25, &no_ranges()).await, Err(NoConnection::Unreachable), "{host}");
        }
        let allow = Ranges::parse_list("127.0.0.0/8").unwrap();
        for host in ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"] {
            let addresses = resolve(host, 25, &allow).await.unwrap();
            assert_eq!(addresses[0].ip().to_canonical(), "127.0.0.1".parse::<IpAddr>().unwrap(), "{host}");
        }
    }

    #[tokio::test]
    async fn an_address_of_the_web_is_bound_to_what_was_checked() {
        let allow = Ranges::parse_list("127.0.0.0/8").unwrap();
        for url in ["http://127.0.0.1/", "http://0x7f.1/token", "https://localhost/", "https://2130706433/"] {
            let url = Url::parse(url).unwrap();
            assert!(http_client_for(&url, &no_ranges()).await.is_err(), "{url}");
            assert!(http_client_for(&url, &allow).await.is_ok(), "{url}");
        }
        // Outside of allowed networks, the connection must be encrypted.
        assert!(http_client_for(&Url::parse("http://1.1.1.1/").unwrap(), &allow).await.is_err());
        assert!(http_client_for(&Url::parse("https://1.1.1.1/").unwrap(), &no_ranges()).await.is_ok());
    }
}
