//! The host and the scheme of a request, and the origin of the page that sent it (`docs/reference/conventions.md`): CORS.

use crate::answer::Answer;
use crate::app::App;
use crate::refusal::Refusal;
use http::Method;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use std::net::{Ipv4Addr, Ipv6Addr};
use url::Url;

/// The header in which a browser states how the site of the requesting page is related to this server.
const SEC_FETCH_SITE: &str = "sec-fetch-site";
/// The request headers that a front end of a configured origin may send.
const ALLOWED_HEADERS: &str = "authorization, content-type, content-disposition, if-match, if-none-match, range, \
                               x-request-id, idempotency-key, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id, \
                               x-requested-with, traceparent, tracestate, baggage, sentry-trace";
/// The answer headers that such a front end may read.
const EXPOSED_HEADERS: &str = "etag, x-request-id, retry-after, www-authenticate, content-disposition, content-range, \
                               idempotency-replayed, x-change-id, ratelimit, ratelimit-policy";

/// Returns the host of a request with its port. It comes from a trusted proxy's `X-Forwarded-Host`, else
/// from the absolute address in the request line, else from `Host`. `Host` must be sent exactly once.
pub fn host(parts: &Parts, trusted: bool) -> Result<String, Refusal> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let (Some(value), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::bad_request("Exactly one Host header is required."));
    };
    let named = forwarded(&parts.headers, "x-forwarded-host", trusted)
        .or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
        .or_else(|| value.to_str().ok())
        .unwrap_or("");
    // The domain of a build has no other characters, and answers repeat the host in links.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let is_name = !named.is_empty() && named.bytes().all(is_plain);
    if is_name { Ok(named.to_owned()) } else { Err(Refusal::not_found()) }
}

/// Returns the scheme of a request: from a trusted proxy's `X-Forwarded-Proto`, else `http`.
pub fn scheme(parts: &Parts, trusted: bool) -> &'static str {
    match forwarded(&parts.headers, "x-forwarded-proto", trusted) {
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    }
}

fn forwarded<'a>(headers: &'a HeaderMap, name: &'static str, trusted: bool) -> Option<&'a str> {
    let value = headers.get(name).filter(|_| trusted)?.to_str().ok()?;
    value.split(',').next().map(str::trim).filter(|value| !value.is_empty())
}

/// Returns whether clients reach the deployment by TLS, according to its base URL.
pub fn is_by_tls(app: &App) -> bool {
    app.settings.base_url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Returns whether a trusted proxy reports a request without TLS. A proxy that reports nothing may terminate TLS nevertheless.
pub fn is_marked_plain(headers: &HeaderMap, trusted: bool) -> bool {
    forwarded(headers, "x-forwarded-proto", trusted).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"))
}

/// Returns the address of a request at the scheme and the port of the base URL.
pub fn address_by_tls(app: &App, parts: &Parts, host: &str) -> String {
    let port = Url::parse(&app.settings.base_url).ok().and_then(|url| url.port());
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    format!("https://{}{port}{path}", without_port(host))
}

/// Returns whether a fallback build is visible to browsers at a host without its port: an IP literal,
/// `localhost` or the host of the base URL. By DNS rebinding any other name can lead a browser here.
/// Pages of that name would have the same origin as this server.
pub fn is_open_to_browsers(app: &App, name: &str) -> bool {
    let in_brackets = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_ip_literal = match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    };
    is_ip_literal || name.eq_ignore_ascii_case("localhost") || is_of_base_url(app, name)
}

fn is_of_base_url(app: &App, name: &str) -> bool {
    let base = Url::parse(&app.settings.base_url);
    base.is_ok_and(|base| base.host_str().is_some_and(|host| host.eq_ignore_ascii_case(name)))
}

/// Returns whether a browser sends a request for a page. Programs send neither header.
pub fn is_by_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key(SEC_FETCH_SITE)
}

/// Returns a host without its port.
pub fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Refuses with 403 if a page of another site calls a public POST. It could act in a visitor's name or
/// use up login attempts. Clients other than browsers send neither header and pass.
pub fn require_public_origin(app: &App, parts: &Parts, host: &str) -> Result<(), Refusal> {
    let may_call = configured(app, &parts.headers).is_some() || is_own_page(&parts.headers, host);
    if may_call { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// Returns whether a request comes from a page of the host that it names, or does not come from a page.
pub fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
    match headers.get(SEC_FETCH_SITE) {
        Some(site) => ["same-origin", "none"].iter().any(|own| site == own),
        None => headers.get(header::ORIGIN).is_none_or(|origin| names_host(origin, host)),
    }
}

/// Refuses with 403 unless a request comes from a page of the host that it names, or not from a
/// browser. Unlike for other public POSTs, a configured origin does not pass. An address that a person
/// typed does not pass either, since forms are not sent that way.
pub fn require_cookie_origin(parts: &Parts, host: &str) -> Result<(), Refusal> {
    let mut sites = parts.headers.get_all(SEC_FETCH_SITE).iter().peekable();
    let may_call = match sites.peek() {
        Some(_) => sites.all(|site| site == "same-origin"),
        None => parts.headers.get_all(header::ORIGIN).iter().all(|origin| names_host(origin, host)),
    };
    if may_call { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// Returns whether an origin has the host and port of a request. The scheme may differ, since a proxy
/// may terminate TLS. A default port counts as an absent one.
fn names_host(origin: &HeaderValue, host: &str) -> bool {
    let authority = |url: &str| {
        let url = Url::parse(url).ok()?;
        Some((url.host_str()?.to_owned(), url.port().filter(|port| !matches!(port, 80 | 443))))
    };
    let origin = origin.to_str().ok().and_then(authority);
    origin.is_some() && origin == authority(&format!("http://{host}"))
}

/// Returns the origin of a request, if it is configured in `CHANCERY_CORS_ORIGINS`.
pub fn configured<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().ok()?;
    app.settings
        .cors_origins
        .iter()
        .any(|allowed_origin| allowed_origin.trim_end_matches('/') == text)
        .then_some(origin)
}

/// Returns the answer to a preflight request of a configured origin, without authentication; `None` for any other request.
pub fn preflight(parts: &Parts, from_configured_origin: bool) -> Option<Answer> {
    let is_preflight =
        parts.method == Method::OPTIONS && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight || !from_configured_origin {
        return None;
    }
    let mut answer = Answer::empty();
    answer.headers = vec![
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PATCH, PUT, DELETE, OPTIONS")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS)),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    Some(answer)
}

/// Adds the CORS headers to an answer, if any origins are configured.
pub fn allow(app: &App, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    if app.settings.cors_origins.is_empty() {
        return;
    }
    if headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        // The answer is for every origin.
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        // Single sign-on needs its cookie.
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_the_host_by_name_and_port_whatever_its_scheme() {
        for (origin, host) in [
            ("http://a.example:8000", "a.example:8000"),
            ("https://a.example", "a.example"),
            ("https://A.example", "a.EXAMPLE:443"),
            ("https://a.example:443", "a.example:80"),
            ("http://[::1]:8000", "[::1]:8000"),
        ] {
            assert!(names_host(&HeaderValue::from_static(origin), host), "{origin} {host}");
        }
        for (origin, host) in [
            ("null", "a.example"),
            ("https://b.example", "a.example"),
            ("https://a.example.b.example", "a.example"),
            ("https://a.example:8443", "a.example"),
            ("https://a.example", "a.example:8000"),
            ("a.example", "a.example"),
            ("", "a.example"),
        ] {
            assert!(!names_host(&HeaderValue::from_static(origin), host), "{origin} {host}");
        }
    }
}
