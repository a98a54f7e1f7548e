//! Addresses of callers behind proxies, of networks, of hosts, and of connections that builds configure.

use http::{Request, header};
use platform::kit::address::{Ranges, TrustedProxies, client_address};
use platform::kit::origin::{host, without_port};
use platform::kit::outbound::is_allowed;
use reqwest::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Uses the same text in every place for an address, and its first bytes as an address.
pub fn addresses(data: &[u8]) {
    if let Some(bytes) = data.first_chunk::<16>() {
        check_private(Ipv6Addr::from(*bytes).into());
        let [.., a, b, c, d] = *bytes;
        check_private(Ipv4Addr::from([a, b, c, d]).into());
    }
    let Ok(text) = str::from_utf8(data) else { return };
    networks(text);
    callers(text);
    hosts(text);
    if let Ok(address) = text.parse() {
        check_private(address);
    }
    // Requests to addresses of builds parse it in this way.
    if let Ok(url) = Url::parse(text)
        && let Some(host) = url.host_str()
        && let Ok(address) = host.trim_matches(['[', ']']).parse()
    {
        check_private(address);
    }
}

fn networks(text: &str) {
    let entries: Vec<String> = text.split(',').map(str::to_owned).collect();
    if let Some(ranges) = Ranges::parse(&entries) {
        assert!(!ranges.is_empty(), "{text:?}");
        for (address, prefix) in entries.iter().filter_map(|entry| entry.split_once('/')) {
            let (Ok(address), Ok(prefix)) = (address.parse::<IpAddr>(), prefix.parse::<u8>()) else { continue };
            // A network wider than all mapped addresses is a network of IPv6, which contains no IPv4 address.
            let is_of_both = address.is_ipv6() && address.to_canonical().is_ipv4() && prefix < 96;
            assert!(is_of_both || ranges.contains(address), "{address} of {text:?}");
        }
        assert_eq!(Ranges::parse_list(text).as_ref(), Ok(&ranges), "settings take what a role takes");
    }
    if let Err(words) = Ranges::parse_list(text) {
        assert!(words.contains("is neither an address nor a network"), "{words}");
    }
}

/// The word of a trusted proxy counts, independent of the client's headers, and no other word counts.
fn callers(text: &str) {
    let (proxy, client) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([203, 0, 113, 7]));
    let trusted = TrustedProxies::parse("10.0.0.0/8").unwrap_or_default();
    assert_eq!(client_address(client, text.lines(), &trusted), client);
    let seen = client.to_string();
    assert_eq!(client_address(proxy, text.lines().chain([seen.as_str()]), &trusted), client, "{text:?}");
    let answer = client_address(proxy, text.lines(), &trusted);
    assert_eq!(answer, answer.to_canonical(), "{text:?}");
}

fn hosts(text: &str) {
    let Ok(request) = Request::builder().header(header::HOST, text).header("x-forwarded-host", text).body(()) else {
        return;
    };
    let (parts, ()) = request.into_parts();
    for trusted in [false, true] {
        let Ok(host) = host(&parts, trusted) else { continue };
        // The host is inserted into links and headers.
        assert!(host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)), "{host:?}");
        assert!(host.starts_with(without_port(&host)), "{host:?}");
    }
}

/// Private addresses of the standard library are refused, independent of their spelling.
fn check_private(address: IpAddr) {
    let nothing = Ranges::default();
    let is_open = is_allowed(address, &nothing);
    assert_eq!(is_open, is_allowed(address.to_canonical(), &nothing), "{address}");
    let is_private = |v4: Ipv4Addr| {
        v4.is_private()
            || v4.is_loopback()
            || v4.is_link_local()
            || v4.is_unspecified()
            || v4.is_broadcast()
            || v4.is_multicast()
    };
    let is_private = match address.to_canonical() {
        IpAddr::V4(v4) => is_private(v4),
        IpAddr::V6(v6) => {
            let translated = match v6.octets() {
                [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => Some([a, b, c, d]),
                // 6to4
                [0x20, 0x02, a, b, c, d, ..] => Some([a, b, c, d]),
                _ => None,
            };
            translated.is_some_and(|v4| is_private(v4.into()))
                || v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
        }
    };
    assert!(!(is_open && is_private), "{address} is open");
    if let Ok(itself) = Ranges::parse_list(&address.to_string()) {
        assert!(is_allowed(address, &itself), "{address} cannot be opened");
    }
}
