//! Internet addresses: sets of networks, and the address of a request's client behind proxies.
//!
//! An IPv4 address may arrive as an IPv4-mapped IPv6 one (`::ffff:10.0.0.1`). Both sides of each
//! comparison are converted to the canonical form first, so the spelling makes no difference.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net};

/// A set of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<IpNet>);

impl Ranges {
    /// Parses networks with a prefix length (`10.0.0.0/8`, `2001:db8::/32`). Host bits may be set, as in
    /// `10.1.2.3/8`. Returns `None` if an entry has another form, such as an address without a prefix length.
    pub fn parse(ranges: &[String]) -> Option<Ranges> {
        ranges.iter().map(|range| parse_network(range)).collect::<Option<_>>().map(Ranges)
    }

    /// Parses a comma-separated list of addresses and networks, as in settings; it may be empty. The error names the
    /// first bad entry.
    pub fn parse_list(list: &str) -> Result<Ranges, String> {
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let network = |entry: &str| {
            parse_network(entry)
                .or_else(|| Some(IpNet::from(entry.parse::<IpAddr>().ok()?.to_canonical())))
                .ok_or_else(|| format!("{entry:?} is neither an address nor a network"))
        };
        entries.map(network).collect::<Result<_, _>>().map(Ranges)
    }

    /// Returns whether one of the networks contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Parses an address with its prefix length. ipnet's own parser is not used, since it reads the octal `010` as ten.
fn parse_network(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IpNet::new(address.parse().ok()?, prefix.parse().ok()?).ok().map(canonical)
}

/// Turns a network of IPv4-mapped addresses into the IPv4 network. A wider one, such as `::/0`, stays
/// an IPv6 network. It contains no IPv4 address in either spelling.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;
    match network {
        IpNet::V6(v6) if v6.prefix_len() >= MAPPED => match v6.addr().to_ipv4_mapped() {
            Some(v4) => Ipv4Net::new(v4, v6.prefix_len() - MAPPED).map_or(network, IpNet::V4),
            None => network,
        },
        other => other,
    }
}

/// The proxies whose `X-Forwarded-…` headers are trusted (`CHANCERY_TRUSTED_PROXIES`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Ranges);

impl TrustedProxies {
    /// Parses a comma-separated list of addresses and networks; the error names the first bad entry.
    pub fn parse(list: &str) -> Result<TrustedProxies, String> {
        Ranges::parse_list(list).map(TrustedProxies)
    }

    /// Returns whether the address is that of a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(address)
    }
}

/// Returns the address of a request's client (`docs/reference/sign-in.md`). It is the peer's address. If
/// the peer is a trusted proxy, it is the last entry of `X-Forwarded-For` that is not a trusted proxy.
///
/// `forwarded_for` yields the values of the header's lines in order. Each proxy appends the address of its
/// peer, so the list is read from its end while its entries are trusted. At an entry that is not an
/// address, the entry after it is the result. Entries may have ports and brackets. The result is canonical.
pub fn client_address<'a>(
    peer: IpAddr,
    forwarded_for: impl Iterator<Item = &'a str>,
    trusted: &TrustedProxies,
) -> IpAddr {
    let peer = peer.to_canonical();
    if !trusted.contains(peer) {
        return peer;
    }
    // The lines come in order, so the list is read forwards, with the same result: the last untrusted entry.
    // Without one, it is the first trusted entry after the last entry that is not an address, or after the start.
    let mut answer = None;
    for entry in forwarded_for.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty()) {
        answer = match parse_entry(entry) {
            None => None,
            Some(address) if trusted.contains(address) => answer.or(Some(address)),
            untrusted => untrusted,
        };
    }
    answer.unwrap_or(peer)
}

/// Parses `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:443`.
fn parse_entry(entry: &str) -> Option<IpAddr> {
    let in_brackets = |text: &str| text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let address = entry
        .parse::<IpAddr>()
        .ok()
        .or_else(|| entry.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
        .or_else(|| in_brackets(entry).map(IpAddr::V6))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn ranges(list: &[&str]) -> Option<Ranges> {
        Ranges::parse(&list.iter().map(|range| range.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_hold_the_addresses_of_their_networks() {
        let ranges = ranges(&["10.1.2.3/8", "2001:db8::/32", "192.0.2.7/32"]).unwrap();
        for inside in ["10.255.0.1", "2001:db8::9", "192.0.2.7", "::ffff:10.0.0.1"] {
            assert!(ranges.contains(ip(inside)), "{inside}");
        }
        for outside in ["11.0.0.1", "2001:db9::9", "192.0.2.8", "::10.0.0.1"] {
            assert!(!ranges.contains(ip(outside)), "{outside}");
        }
    }

    #[test]
    fn mapped_networks_are_the_ipv4_networks_that_they_are() {
        let ranges = ranges(&["::ffff:10.0.0.0/104"]).unwrap();
        assert!(ranges.contains(ip("10.2.3.4")));
        assert!(ranges.contains(ip("::ffff:10.2.3.4")));
        assert!(!ranges.contains(ip("11.2.3.4")));
    }

    #[test]
    fn networks_that_are_wider_hold_none_of_ipv4() {
        let ranges = ranges(&["::/0", "::ffff:10.0.0.0/95"]).unwrap();
        assert!(ranges.contains(ip("2001:db8::1")));
        for outside in ["10.2.3.4", "::ffff:10.2.3.4"] {
            assert!(!ranges.contains(ip(outside)), "{outside}");
        }
    }

    #[test]
    fn a_range_needs_its_prefix() {
        for bad in
            ["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0/8", "010.0.0.0/8", "", "x/8", "10.0.0.0/ 8", "10.0.0.0/+8"]
        {
            assert_eq!(ranges(&["10.0.0.0/8", bad]), None, "{bad}");
        }
        assert!(ranges(&[]).unwrap().is_empty());
    }

    #[test]
    fn lists_of_settings_take_addresses_too() {
        let trusted = TrustedProxies::parse("127.0.0.1, 10.0.0.0/8,::1").unwrap();
        for inside in ["127.0.0.1", "10.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(trusted.contains(ip(inside)), "{inside}");
        }
        assert!(!trusted.contains(ip("127.0.0.2")));
        assert_eq!(TrustedProxies::parse("").unwrap(), TrustedProxies::default());
        assert_eq!(
            TrustedProxies::parse("10.0.0.0/8,proxy").unwrap_err(),
            "\"proxy\" is neither an address nor a network"
        );
    }

    #[test]
    fn the_client_is_the_last_untrusted_address() {
        let trusted = TrustedProxies::parse("10.0.0.0/8, ::1").unwrap();
        let client = |peer: &str, lines: &[&str]| client_address(ip(peer), lines.iter().copied(), &trusted).to_string();

        // The header of a peer that is not a proxy is ignored.
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1", &[]), "192.0.2.1");
        // One proxy, two proxies, several lines. A forged entry stands before the true address.
        assert_eq!(client("10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &["203.0.113.9, 198.51.100.7, 10.0.0.2"]), "198.51.100.7");
        assert_eq!(client("::ffff:10.0.0.1", &["203.0.113.9", "198.51.100.7", "10.0.0.2"]), "198.51.100.7");
        // Without a forwarded address, or with proxies only: the first proxy.
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
        // An invalid entry stops the walk at the entry behind it.
        assert_eq!(client("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.3, 10.0.0.2"]), "10.0.0.3");
        assert_eq!(client("10.0.0.1", &["203.0.113.9, unknown"]), "10.0.0.1");
    }

    #[test]
    fn entries_may_have_ports_and_brackets() {
        let trusted = TrustedProxies::parse("10.0.0.1").unwrap();
        for (entry, expected) in [
            ("198.51.100.7:5000", "198.51.100.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:5000", "2001:db8::7"),
            ("::ffff:198.51.100.7", "198.51.100.7"),
            ("[198.51.100.7]", "10.0.0.1"),
            ("198.51.100.7:x", "10.0.0.1"),
        ] {
            assert_eq!(client_address(ip("10.0.0.1"), [entry].into_iter(), &trusted).to_string(), expected, "{entry}");
        }
    }
}
