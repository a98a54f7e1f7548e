//! Detects a proxy that `CHANCERY_TRUSTED_PROXIES` does not name. All callers behind it have the proxy's
//! address. The failed sign-ins of one client therefore soon block all others (`CHANCERY_ADDRESS_ATTEMPTS`).

use crate::address::TrustedProxies;
use crate::outbound::is_public;
use http::HeaderMap;
use std::net::IpAddr;
use std::sync::OnceLock;

/// The headers by which a proxy forwards the client's request.
const FORWARDED: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// The first peers outside the trusted proxies that sent forwarded headers.
///
/// Any client can send such headers, and so can an operator who tests on the machine. Therefore at most
/// three peers are stored and logged: the first one with a public address, the first one of this
/// machine, and the first one of a private network. Proxies are usually in a private network.
#[derive(Default)]
pub struct UnnamedProxy {
    public: OnceLock<IpAddr>,
    loopback: OnceLock<IpAddr>,
    private: OnceLock<IpAddr>,
}

impl UnnamedProxy {
    /// Checks a request, and logs a warning if its peer is stored.
    pub fn check_request(&self, peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) {
        let is_known = self.private.get().is_some();
        if is_known || trusted.contains(peer) || !FORWARDED.iter().any(|name| headers.contains_key(*name)) {
            return;
        }
        let peer = peer.to_canonical();
        let place = match () {
            () if is_public(peer) => &self.public,
            () if peer.is_loopback() => &self.loopback,
            () => &self.private,
        };
        if place.set(peer).is_ok() {
            tracing::warn!(peer = %peer, setting = "CHANCERY_TRUSTED_PROXIES", "{}", words(peer));
        }
    }

    /// Returns the warning for operators. A peer of a private network takes precedence over one of this
    /// machine, and that one over a public peer.
    pub fn warning(&self) -> Option<String> {
        self.private.get().or(self.loopback.get()).or(self.public.get()).map(|peer| words(*peer))
    }
}

fn words(peer: IpAddr) -> String {
    format!(
        "{peer} sends X-Forwarded-… headers and is not in CHANCERY_TRUSTED_PROXIES: if it is a proxy of yours, name it \
         there; until then all who come through it count as one address, and failed sign-ins of some refuse all"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded() -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static("x-forwarded-for"), "198.51.100.7".parse().unwrap())])
    }

    #[test]
    fn a_private_peer_counts_more_than_a_public_one_and_the_first_more_than_later_ones() {
        let (proxy, trusted) = (UnnamedProxy::default(), TrustedProxies::parse("10.0.0.1").unwrap());
        let warning_after = |peer: &str, headers: &HeaderMap| {
            proxy.check_request(peer.parse().unwrap(), headers, &trusted);
            proxy.warning().map(|warning| warning.split(' ').next().unwrap().to_owned())
        };
        assert_eq!(warning_after("10.0.0.2", &HeaderMap::new()), None, "nothing is forwarded");
        assert_eq!(warning_after("10.0.0.1", &forwarded()), None, "it is trusted");
        assert_eq!(warning_after("8.8.8.8", &forwarded()).as_deref(), Some("8.8.8.8"));
        assert_eq!(warning_after("9.9.9.9", &forwarded()).as_deref(), Some("8.8.8.8"));
        assert_eq!(warning_after("127.0.0.1", &forwarded()).as_deref(), Some("127.0.0.1"));
        assert_eq!(warning_after("::ffff:10.0.0.2", &forwarded()).as_deref(), Some("10.0.0.2"));
        assert_eq!(warning_after("10.0.0.3", &forwarded()).as_deref(), Some("10.0.0.2"));
    }
}
