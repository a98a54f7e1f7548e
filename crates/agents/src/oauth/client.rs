//! Connectors as clients of OAuth: their secrets, and the addresses to which their sign-ins may return.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header;
use kit::ids::ConnectorId;
use kit::request::Request;
use percent_encoding::percent_decode_str;
use std::net::IpAddr;
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use url::{Host, Url};
use web::clock::sha256_hex;

/// A connector as a client.
pub struct OAuthClient {
    pub id: ConnectorId,
    pub uuid: String,
    pub name: String,
    pub client_id: String,
    /// The names of the tools that the connector offers.
    pub tools: Vec<String>,
    /// Is true if the connector and its integration are enabled.
    pub is_enabled: bool,
    secret: String,
    redirect_uris: Vec<String>,
}

impl OAuthClient {
    /// Loads the client with an id. `lock` locks the client and its integration until the end of the transaction.
    pub fn find(conn: &mut Conn, client_id: &str, lock: bool) -> Result<Option<OAuthClient>, StoreError> {
        // PostgreSQL refuses NUL, and no id contains it.
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
            Ok(OAuthClient {
                id: row.id(0)?,
                uuid: row.text(1)?.to_owned(),
                name: row.text(2)?.to_owned(),
                client_id: row.text(3)?.to_owned(),
                secret: row.text(4)?.to_owned(),
                tools: row.json(5)?,
                redirect_uris: row.json(6)?,
                is_enabled: row.flag(7)?,
            })
        })
    }

    /// Returns whether a secret is that of the client. The comparison takes constant time.
    pub fn has_secret(&self, secret: &str) -> bool {
        !self.secret.is_empty() && bool::from(sha256_hex(secret).as_bytes().ct_eq(self.secret.as_bytes()))
    }

    /// Returns whether sign-ins may return to an address: the integration lists it, character by character. The port of a loopback
    /// address may differ.
    pub fn may_return_to(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|listed| allows(listed, uri))
    }
}

/// Returns whether an address of an integration allows a return to another one. An address that is not valid in a header is refused.
/// It may be older than the check that refuses it at storage.
pub fn allows(listed: &str, uri: &str) -> bool {
    let is_same = listed == uri || is_loopback(listed) && is_same_except_port(listed, uri);
    is_same && uri.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns whether an address is a loopback address.
pub fn is_loopback(uri: &str) -> bool {
    match Url::parse(uri).as_ref().map(Url::host) {
        Ok(Some(Host::Domain(name))) => name == "localhost",
        Ok(Some(Host::Ipv4(address))) => IpAddr::from(address).is_loopback(),
        Ok(Some(Host::Ipv6(address))) => IpAddr::from(address).is_loopback(),
        _ => false,
    }
}

/// Returns whether two addresses are the same text except for their ports.
fn is_same_except_port(listed: &str, uri: &str) -> bool {
    let (Some(listed), Some(uri)) = (without_port(listed), without_port(uri)) else { return false };
    listed == uri
}

/// The text of an address around its port.
#[derive(PartialEq, Eq)]
struct AddressWithoutPort<'a> {
    before: &'a str,
    after: &'a str,
}

/// Removes the port of an address; `None`: the text after the colon is not a port.
fn without_port(uri: &str) -> Option<AddressWithoutPort<'_>> {
    let begin = uri.find("://")? + 3;
    let end = uri[begin..].find(['/', '?', '#', '\\']).map_or(uri.len(), |at| begin + at);
    // An IPv6 address contains colons too, in brackets.
    let host = uri[begin..end].rfind(']').map_or(begin, |at| begin + at);
    let Some(colon) = uri[host..end].find(':').map(|at| host + at) else {
        return Some(AddressWithoutPort { before: &uri[..end], after: &uri[end..] });
    };
    let port = &uri[colon + 1..end];
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_port.then(|| AddressWithoutPort { before: &uri[..colon], after: &uri[end..] })
}

/// The id and the secret of a client.
pub struct ClientCredentials {
    pub id: String,
    pub secret: String,
}

/// The credentials of a request, by HTTP Basic or in its form. `None`: they are missing, incomplete, or sent in both ways.
pub fn credentials(request: &Request, id: Option<&str>, secret: Option<&str>) -> Option<ClientCredentials> {
    let mut headers = request.headers.get_all(header::AUTHORIZATION).iter();
    let basic = match (headers.next(), headers.next()) {
        (None, _) => return Some(ClientCredentials { id: id?.to_owned(), secret: secret?.to_owned() }),
        (Some(header), None) => header.to_str().ok()?,
        _ => return None,
    };
    let credentials = self::basic(basic).filter(|_| secret.is_none())?;
    Some(credentials).filter(|credentials| id.is_none_or(|id| id == credentials.id))
}

/// The credentials of an `Authorization` header with HTTP Basic.
pub fn basic(header: &str) -> Option<ClientCredentials> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = plain.split_once(':')?;
    // Id and secret are encoded like the fields of a form (RFC 6749, section 2.3.1).
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().map(|text| text.into_owned());
    Some(ClientCredentials { id: decoded(id).ok()?, secret: decoded(secret).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returning_to(uris: &[&str]) -> OAuthClient {
        OAuthClient {
            id: ConnectorId::new(1),
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
