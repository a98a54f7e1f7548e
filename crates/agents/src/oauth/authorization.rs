//! What an agent asks for at `/oauth/authorize`, and the way back to it.

use super::client::{OAuthClient, is_loopback};
use crate::connectors::server_url;
use kit::request::Request;
use resource::Query;
use store::{Conn, StoreError};
use url::{Origin, Url, form_urlencoded};

/// The longest query of a request, in bytes: it stands in the cookie of a sign-in at a provider.
pub const MAX_QUERY: usize = 2_400;

/// The parameters that are read; others are ignored.
const PARAMETERS: [&str; 10] = [
    "client_id",
    "redirect_uri",
    "response_type",
    "response_mode",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "request",
    "request_uri",
];

/// A request that was checked.
pub struct AuthorizationRequest {
    pub client: OAuthClient,
    pub redirect_uri: String,
    pub challenge: String,
    /// Its query, without what is ignored.
    pub query: String,
    state: Option<String>,
}

/// What is wrong with a request.
pub enum AuthorizationError {
    /// It is told to the person, since it is not known whom else it may be told: a sentence.
    Page(&'static str),
    /// It is told to the agent, at this address.
    Redirect(String),
}

impl AuthorizationRequest {
    /// Checks a request. Nothing of it is told to an address that the client's integration does not name. `lock` keeps the
    /// client as it is until the end of the transaction.
    pub fn check(
        request: &Request,
        conn: &mut Conn,
        sent: &Query,
        lock: bool,
    ) -> Result<Result<AuthorizationRequest, AuthorizationError>, StoreError> {
        let query = to_query_text(sent);
        if query.len() > MAX_QUERY {
            return Ok(Err(AuthorizationError::Page("What the agent sent is too long.")));
        }
        let RedirectTarget { client_id, redirect_uri, state } = RedirectTarget::from_query(sent);
        let Some(client) = OAuthClient::find(conn, client_id, lock)? else {
            return Ok(Err(AuthorizationError::Page("This agent is not known here.")));
        };
        if !client.is_enabled {
            return Ok(Err(AuthorizationError::Page("This agent's connector is disabled.")));
        }
        if !client.may_return_to(redirect_uri) {
            return Ok(Err(AuthorizationError::Page("This agent may not return to the address that it named.")));
        }
        let (redirect_uri, state) = (redirect_uri.to_owned(), state.map(str::to_owned));
        let mut asked = AuthorizationRequest { client, redirect_uri, challenge: String::new(), query, state };
        let is_own = |resource: &str| are_resource(request, &asked.client, std::iter::once(resource));
        Ok(match challenge(sent, is_own) {
            Ok(challenge) => {
                asked.challenge = challenge;
                Ok(asked)
            }
            Err((error, why)) => Err(AuthorizationError::Redirect(asked.error_address(request, error, why))),
        })
    }

    /// The address to which the agent is told of an error.
    pub fn error_address(&self, request: &Request, error: &str, why: &str) -> String {
        self.answer_address(request, &[("error", error), ("error_description", why)])
    }

    /// The address to which the agent is told of a code.
    pub fn code_address(&self, request: &Request, code: &str) -> String {
        self.answer_address(request, &[("code", code)])
    }

    fn answer_address(&self, request: &Request, what: &[(&str, &str)]) -> String {
        let issuer = request.app.address_of(&request.build);
        redirect_address(&self.redirect_uri, what, self.state.as_deref(), &issuer)
    }

    /// The host that the person is sent back to, with its port, in the form that shows what it is.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.redirect_uri).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or("");
        match url.as_ref().and_then(Url::port) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Whether it returns to the person's own computer.
    pub fn returns_to_loopback(&self) -> bool {
        is_loopback(&self.redirect_uri)
    }
}

/// The parameters by which it is known whom an answer goes to. One that is sent twice counts as none.
pub struct RedirectTarget<'a> {
    pub client_id: &'a str,
    pub redirect_uri: &'a str,
    pub state: Option<&'a str>,
}

impl RedirectTarget<'_> {
    pub fn from_query(sent: &Query) -> RedirectTarget<'_> {
        let named = |name| single_parameter(sent, name).unwrap_or(None);
        RedirectTarget {
            client_id: named("client_id").unwrap_or(""),
            redirect_uri: named("redirect_uri").unwrap_or(""),
            state: named("state"),
        }
    }
}

/// Checks what the agent may be told of, and returns the challenge; else the error and why, as OAuth has them.
pub fn challenge(sent: &Query, is_own_resource: impl Fn(&str) -> bool) -> Result<String, (&'static str, &'static str)> {
    let one = |name| single_parameter(sent, name).map_err(|()| ("invalid_request", "A parameter was sent twice."));
    one("state")?;
    match one("response_type")? {
        None => return Err(("invalid_request", "response_type is required.")),
        Some("code") => {}
        Some(_) => return Err(("unsupported_response_type", "response_type must be code.")),
    }
    if one("request")?.is_some() {
        return Err(("request_not_supported", "request is not supported."));
    }
    if one("request_uri")?.is_some() {
        return Err(("request_uri_not_supported", "request_uri is not supported."));
    }
    if one("response_mode")?.is_some_and(|mode| mode != "query") {
        return Err(("invalid_request", "response_mode must be query."));
    }
    let challenge = one("code_challenge")?.ok_or(("invalid_request", "code_challenge is required."))?;
    if one("code_challenge_method")? != Some("S256") {
        return Err(("invalid_request", "code_challenge_method must be S256."));
    }
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if challenge.len() != 43 || !challenge.bytes().all(is_encoded) {
        return Err(("invalid_request", "code_challenge is not that of S256."));
    }
    let mut resources = sent.pairs().filter(|(name, _)| *name == "resource").map(|(_, value)| value);
    match resources.all(is_own_resource) {
        true => Ok(challenge.to_owned()),
        false => Err(("invalid_target", "resource is not the address of the agent's connector.")),
    }
}

/// The address by which an agent is told something, with the state that it sent.
pub fn redirect_address(redirect_uri: &str, what: &[(&str, &str)], state: Option<&str>, issuer: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(what);
    query.extend_pairs(state.map(|state| ("state", state)));
    // So that the agent notices an answer of another server (RFC 9207).
    query.append_pair("iss", issuer);
    let joint = if redirect_uri.contains('?') { '&' } else { '?' };
    format!("{redirect_uri}{joint}{}", query.finish())
}

/// Whether every one of these texts names a client's connector.
pub fn are_resource<'a>(request: &Request, client: &OAuthClient, mut sent: impl Iterator<Item = &'a str>) -> bool {
    let own = server_url(&request.app, &request.build, &client.uuid);
    sent.all(|resource| names_connector(&own, resource))
}

/// Whether a text is the address of a connector or its origin, each with or without a slash at its end. Scheme and host are compared
/// ignoring case, and a default port equals none.
fn names_connector(server_url: &str, text: &str) -> bool {
    let (Some((own_origin, own_path)), Some((origin, path))) = (parts(server_url), parts(text)) else { return false };
    let path = path.strip_suffix('/').unwrap_or(path);
    origin == own_origin && (path == own_path || path.is_empty())
}

/// The origin of an address, and its path as it was written; `None` where it is no address, or has other parts.
fn parts(text: &str) -> Option<(Origin, &str)> {
    let url = Url::parse(text).ok()?;
    let has_others = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
    // A parser of addresses mends and strips; the text is compared as it is.
    let is_written_so = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if has_others || url.fragment().is_some() || !is_written_so {
        return None;
    }
    let (_, rest) = text.split_once("://")?;
    Some((url.origin(), rest.find('/').map_or("", |at| &rest[at..])))
}

/// The value of a parameter, `None` where it is not sent or empty; an error where it is sent twice.
fn single_parameter<'a>(sent: &'a Query, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = sent.pairs().filter(|(sent, _)| *sent == name).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(()),
        (value, None) => Ok(value.filter(|value| !value.is_empty())),
    }
}

/// The parameters that are read, as a query.
pub fn to_query_text(sent: &Query) -> String {
    let known = sent.pairs().filter(|(name, _)| PARAMETERS.contains(name));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(known).finish()
}

#[cfg(test)]
mod tests {
    use super::names_connector;

    #[test]
    fn a_connector_is_named_by_its_address_and_its_origin() {
        let named = |text: &str| names_connector("https://a.example/mcp/0f8f", text);
        for text in [
            "https://a.example/mcp/0f8f",
            "https://a.example/mcp/0f8f/",
            "HTTPS://A.example:443/mcp/0f8f",
            "https://a.example",
            "https://a.example/",
        ] {
            assert!(named(text), "{text}");
        }
        for text in [
            "",
            "a.example/mcp/0f8f",
            "http://a.example/mcp/0f8f",
            "https://a.example:8443/mcp/0f8f",
            "https://b.example/mcp/0f8f",
            "https://a.example/mcp/0F8F",
            "https://a.example/mcp/0f8f//",
            "https://a.example//",
            "https://a.example/x/../mcp/0f8f",
            "https://a.example/mcp/0f8e",
            "https://a.example/mcp",
            "https://a.example/mcp/0f8f?x=1",
            "https://a.example/mcp/0f8f#x",
            "https://x@a.example/mcp/0f8f",
            " https://a.example/mcp/0f8f",
            "https:\\\\a.example/mcp/0f8f",
        ] {
            assert!(!named(text), "{text}");
        }
        // Behind a path of its own the origin is that of the address.
        assert!(names_connector("https://a.example/chancery/mcp/0f8f", "https://a.example"));
        assert!(!names_connector("https://a.example/chancery/mcp/0f8f", "https://a.example/mcp/0f8f"));
    }
}
