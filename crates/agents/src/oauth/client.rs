//! The client that an agent is: a connector with its secret, and where its sign-ins may return to.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header;
use kit::request::Request;
use percent_encoding::percent_decode_str;
use std::net::IpAddr;
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use url::{Host, Url};
use web::clock::sha256_hex;

/// A connector as a client.
pub struct OAuthClient {
    pub id: i64,
    pub uuid: String,
    pub name: String,
    pub client_id: String,
    /// The tools that it offers, by their names.
    pub tools: Vec<String>,
    /// Whether connector and integration are both enabled.
    pub is_enabled: bool,
    secret: String,
    redirect_uris: Vec<String>,
}

impl OAuthClient {
    /// The client of an id. `lock` keeps it and its integration as they are until the end of the transaction.
    pub fn find(conn: &mut Conn, client_id: &str, lock: bool) -> Result<Option<OAuthClient>, StoreError> {
        // PostgreSQL refuses it, and no client has one.
        if client_id.contains('\0') {
            return Ok(None);
        }
        let mut sql = Sql::new(
            "SELECT c.id, c.uuid, c.name, c.client_id, c.client_secret, c.allowed_tools, i.redirect_uris, \
             CASE WHEN c.is_enabled = 1 AND i.is_enabled = 1 THEN 1 ELSE 0 END \
             FROM mcp_connectors c JOIN integrations i ON i.id = c.integration WHERE c.client_id = ",
        );
        sql.bind(client_id).push(if lock { " FOR SHARE" } else { "" });
        conn.query_optional(&sql, |row| {
            let list = |at| Ok::<Vec<String>, StoreError>(serde_json::from_str(row.text(at)?).unwrap_or_default());
            Ok(OAuthClient {
                id: row.int(0)?,
                uuid: row.text(1)?.to_owned(),
                name: row.text(2)?.to_owned(),
                client_id: row.text(3)?.to_owned(),
                secret: row.text(4)?.to_owned(),
                tools: list(5)?,
                redirect_uris: list(6)?,
                is_enabled: row.flag(7)?,
            })
        })
    }

    /// Whether a secret is the client's.
    pub fn has_secret(&self, secret: &str) -> bool {
        !self.secret.is_empty() && bool::from(sha256_hex(secret).as_bytes().ct_eq(self.secret.as_bytes()))
    }

    /// Whether sign-ins may return to an address: one of those that the integration names, character by character, but for
    /// the port of one at this computer.
    pub fn may_return_to(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|known| allows(known, uri))
    }
}

/// Whether an address that an integration names allows a return to another. One that cannot stand in a header is none, though it may
/// have been stored before that was asked.
pub fn allows(known: &str, uri: &str) -> bool {
    let is_same = known == uri || is_loopback(known) && is_same_but_port(known, uri);
    is_same && uri.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether an address is one of the computer on which it is opened.
pub fn is_loopback(uri: &str) -> bool {
    match Url::parse(uri).as_ref().map(Url::host) {
        Ok(Some(Host::Domain(name))) => name == "localhost",
        Ok(Some(Host::Ipv4(address))) => IpAddr::from(address).is_loopback(),
        Ok(Some(Host::Ipv6(address))) => IpAddr::from(address).is_loopback(),
        _ => false,
    }
}

/// Whether two addresses are the same text but for their ports.
fn is_same_but_port(known: &str, sent: &str) -> bool {
    let (Some(known), Some(sent)) = (without_port(known), without_port(sent)) else { return false };
    known == sent
}

/// The parts of an address around its port; `None` where something else than a port stands there.
fn without_port(uri: &str) -> Option<(&str, &str)> {
    let begin = uri.find("://")? + 3;
    let end = uri[begin..].find(['/', '?', '#', '\\']).map_or(uri.len(), |at| begin + at);
    // Colons stand in IPv6 addresses too, in brackets.
    let host = uri[begin..end].rfind(']').map_or(begin, |at| begin + at);
    let Some(colon) = uri[host..end].find(':').map(|at| host + at) else { return Some((&uri[..end], &uri[end..])) };
    let port = &uri[colon + 1..end];
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_port.then(|| (&uri[..colon], &uri[end..]))
}

/// The id and the secret of a client as a request sends them: by HTTP Basic or in its form. `None` where it sends none,
/// only half, or both.
pub fn credentials(request: &Request, id: Option<&str>, secret: Option<&str>) -> Option<(String, String)> {
    let mut headers = request.headers.get_all(header::AUTHORIZATION).iter();
    let basic = match (headers.next(), headers.next()) {
        (None, _) => return Some((id?.to_owned(), secret?.to_owned())),
        (Some(sent), None) => sent.to_str().ok()?,
        _ => return None,
    };
    let (name, password) = self::basic(basic).filter(|_| secret.is_none())?;
    if id.is_some_and(|id| id != name) { None } else { Some((name, password)) }
}

/// The name and the password of an `Authorization` header with HTTP Basic.
pub fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = plain.split_once(':')?;
    // They are encoded like a form's fields first (RFC 6749, section 2.3.1).
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().map(|text| text.into_owned());
    Some((decoded(name).ok()?, decoded(password).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returning_to(uris: &[&str]) -> OAuthClient {
        OAuthClient {
            id: 1,
            uuid: String::new(),
            name: String::new(),
            client_id: String::new(),
            tools: Vec::new(),
            is_enabled: true,
            secret: String::new(),
            redirect_uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        }
    }

    #[test]
    fn a_sign_in_returns_to_what_is_named_and_to_any_port_of_this_computer() {
        let client = returning_to(&[
            "https://agent.example/callback",
            "http://127.0.0.1/callback",
            "http://localhost:3000/cb?x=1",
            "http://[::1]/cb",
            "https://agent.example/ü",
            "https://agent.example/\n",
        ]);
        for uri in [
            "https://agent.example/callback",
            "http://127.0.0.1/callback",
            "http://127.0.0.1:1/callback",
            "http://127.0.0.1:65535/callback",
            "http://localhost:3000/cb?x=1",
            "http://localhost/cb?x=1",
            "http://[::1]:9/cb",
        ] {
            assert!(client.may_return_to(uri), "{uri}");
        }
        for uri in [
            "",
            "https://agent.example/callback/",
            "https://agent.example/Callback",
            "https://agent.example/callback?x=1",
            "https://agent.example/callback#x",
            "https://agent.example/callback/../callback",
            "https://agent.example:443/callback",
            "https://AGENT.example/callback",
            "https://x@agent.example/callback",
            "https://agent.example.evil.example/callback",
            "http://agent.example/callback",
            "https://127.0.0.1/callback",
            "http://127.0.0.1:65536/callback",
            "http://127.0.0.1:0/callback",
            "http://127.0.0.1:/callback",
            "http://127.0.0.1:80x/callback",
            "http://127.0.0.1:80@evil.example/callback",
            "http://127.0.0.1@evil.example/callback",
            "http://127.0.0.1:80\\@evil.example/callback",
            "http://127.0.0.1.evil.example/callback",
            "http://127.0.0.2/callback",
            "http://127.0.0.1:80/callback/x",
            "http://127.0.0.1:80/callback#x",
            "http://localhost:80/callback",
            "http://localhost:3000/cb",
            "http://[::1]:9:9/cb",
            "http://[::2]/cb",
            "https://agent.example/ü",
            "https://agent.example/\n",
        ] {
            assert!(!client.may_return_to(uri), "{uri}");
        }
    }
}
