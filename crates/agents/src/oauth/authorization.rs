//! The request of an agent at `/oauth/authorize`, and the redirect back to the agent.

use super::client::{OAuthClient, is_loopback};
use crate::connectors::server_url;
use kit::request::Request;
use resource::Query;
use store::{Conn, StoreError};
use url::{Origin, Url, form_urlencoded};

/// The maximum length of a request's query, in bytes. The cookie of a sign-in at a provider contains the query.
pub const MAX_QUERY: usize = 2_400;

/// The parameters that are read. Others are ignored.
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

/// A valid request.
pub struct AuthorizationRequest {
    pub client: OAuthClient,
    pub redirect_uri: String,
    pub challenge: String,
    /// The query of the request, without ignored parameters.
    pub query: String,
    state: Option<String>,
}

/// The error of a request.
pub enum AuthorizationError {
    /// A sentence for the person, since the address of the agent is not trusted.
    Page(&'static str),
    /// The address at which the agent gets the error.
    Redirect(String),
    /// The database failed.
    Store(StoreError),
}

impl From<StoreError> for AuthorizationError {
    fn from(error: StoreError) -> AuthorizationError {
        AuthorizationError::Store(error)
    }
}

/// An error of OAuth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OAuthError {
    /// The error code.
    pub code: &'static str,
    /// The description, a sentence.
    pub why: &'static str,
}

impl OAuthError {
    fn invalid_request(reason: &'static str) -> OAuthError {
        OAuthError { code: "invalid_request", why: reason }
    }
}

impl AuthorizationRequest {
    /// Checks a request. An address that the client's integration does not list gets no data. `lock` locks the client until the end
    /// of the transaction.
    pub fn check(
        request: &Request,
        conn: &mut Conn,
        parameters: &Query,
        lock: bool,
    ) -> Result<AuthorizationRequest, AuthorizationError> {
        let query = to_query_text(parameters);
        if query.len() > MAX_QUERY {
            return Err(AuthorizationError::Page("The request of the agent is too long."));
        }
        let RedirectTarget { client_id, redirect_uri, state } = RedirectTarget::from_query(parameters);
        let Some(client) = OAuthClient::find(conn, client_id, lock)? else {
            return Err(AuthorizationError::Page("This agent is not known here."));
        };
        if !client.is_enabled {
            return Err(AuthorizationError::Page("This agent's connector is disabled."));
        }
        if !client.may_return_to(redirect_uri) {
            return Err(AuthorizationError::Page("This agent may not return to the address that it named."));
        }
        let (redirect_uri, state) = (redirect_uri.to_owned(), state.map(str::to_owned));
        let mut authorization = AuthorizationRequest { client, redirect_uri, challenge: String::new(), query, state };
        let is_own = |resource: &str| are_resource(request, &authorization.client, std::iter::once(resource));
        match challenge(parameters, is_own) {
            Ok(challenge) => {
                authorization.challenge = challenge;
                Ok(authorization)
            }
            Err(error) => Err(AuthorizationError::Redirect(authorization.error_address(request, error))),
        }
    }

    /// The address at which the agent gets an error.
    pub fn error_address(&self, request: &Request, error: OAuthError) -> String {
        self.answer_address(request, &[("error", error.code), ("error_description", error.why)])
    }

    /// The address at which the agent gets a code.
    pub fn code_address(&self, request: &Request, code: &str) -> String {
        self.answer_address(request, &[("code", code)])
    }

    fn answer_address(&self, request: &Request, parameters: &[(&str, &str)]) -> String {
        let issuer = request.app.address_of(&request.build);
        redirect_address(&self.redirect_uri, parameters, self.state.as_deref(), &issuer)
    }

    /// The host to which the person returns, with its port, in ASCII.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.redirect_uri).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or("");
        match url.as_ref().and_then(Url::port) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Returns whether the request returns to the person's own computer.
    pub fn returns_to_loopback(&self) -> bool {
        is_loopback(&self.redirect_uri)
    }
}

/// The parameters that decide who gets an answer. A repeated parameter counts as missing.
pub struct RedirectTarget<'a> {
    pub client_id: &'a str,
    pub redirect_uri: &'a str,
    pub state: Option<&'a str>,
}

impl RedirectTarget<'_> {
    pub fn from_query(parameters: &Query) -> RedirectTarget<'_> {
        let named = |name| single_parameter(parameters, name).unwrap_or(None);
        RedirectTarget {
            client_id: named("client_id").unwrap_or(""),
            redirect_uri: named("redirect_uri").unwrap_or(""),
            state: named("state"),
        }
    }
}

/// Checks the parameters whose errors the agent gets, and returns the challenge.
pub fn challenge(parameters: &Query, is_own_resource: impl Fn(&str) -> bool) -> Result<String, OAuthError> {
    let invalid = OAuthError::invalid_request;
    let single = |name| single_parameter(parameters, name).map_err(|()| invalid("A parameter was sent twice."));
    single("state")?;
    match single("response_type")? {
        None => return Err(invalid("response_type is required.")),
        Some("code") => {}
        Some(_) => {
            return Err(OAuthError { code: "unsupported_response_type", why: "response_type must be code." });
        }
    }
    if single("request")?.is_some() {
        return Err(OAuthError { code: "request_not_supported", why: "request is not supported." });
    }
    if single("request_uri")?.is_some() {
        return Err(OAuthError { code: "request_uri_not_supported", why: "request_uri is not supported." });
    }
    if single("response_mode")?.is_some_and(|mode| mode != "query") {
        return Err(invalid("response_mode must be query."));
    }
    let challenge = single("code_challenge")?.ok_or(invalid("code_challenge is required."))?;
    if single("code_challenge_method")? != Some("S256") {
        return Err(invalid("code_challenge_method must be S256."));
    }
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if challenge.len() != 43 || !challenge.bytes().all(is_encoded) {
        return Err(invalid("code_challenge is not that of S256."));
    }
    let mut resources = parameters.pairs().filter(|(name, _)| *name == "resource").map(|(_, value)| value);
    match resources.all(is_own_resource) {
        true => Ok(challenge.to_owned()),
        false => {
            let reason = "resource is not the address of the agent's connector.";
            Err(OAuthError { code: "invalid_target", why: reason })
        }
    }
}

/// The address at which an agent gets parameters, with the state that it sent.
pub fn redirect_address(redirect_uri: &str, parameters: &[(&str, &str)], state: Option<&str>, issuer: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    query.extend_pairs(state.map(|state| ("state", state)));
    // The agent compares the issuer and detects an answer of another server (RFC 9207).
    query.append_pair("iss", issuer);
    let joint = if redirect_uri.contains('?') { '&' } else { '?' };
    format!("{redirect_uri}{joint}{}", query.finish())
}

/// Returns whether all of these texts name a client's connector.
pub fn are_resource<'a>(request: &Request, client: &OAuthClient, mut resources: impl Iterator<Item = &'a str>) -> bool {
    let own = server_url(&request.app, &request.build, &client.uuid);
    resources.all(|resource| names_connector(&own, resource))
}

/// Returns whether a text is the address of a connector or its origin, each with or without a slash at its end. The comparison of
/// scheme and host ignores case. A default port equals a missing one.
fn names_connector(server_url: &str, text: &str) -> bool {
    let (Some((own_origin, own_path)), Some((origin, path))) = (parts(server_url), parts(text)) else { return false };
    let path = path.strip_suffix('/').unwrap_or(path);
    origin == own_origin && (path == own_path || path.is_empty())
}

/// The origin of an address and the text of its path; `None`: the text is not an address, or has other parts.
fn parts(text: &str) -> Option<(Origin, &str)> {
    let url = Url::parse(text).ok()?;
    let has_others = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
    // The parser corrects and strips some characters, but the path is compared as text.
    let is_written_so = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if has_others || url.fragment().is_some() || !is_written_so {
        return None;
    }
    let (_, host_and_path) = text.split_once("://")?;
    Some((url.origin(), host_and_path.find('/').map_or("", |at| &host_and_path[at..])))
}

/// The value of a parameter; `None`: it is missing or empty. A repeated parameter is an error.
fn single_parameter<'a>(parameters: &'a Query, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = parameters.pairs().filter(|(parameter, _)| *parameter == name).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(()),
        (value, None) => Ok(value.filter(|value| !value.is_empty())),
    }
}

/// The query of the parameters that are read.
pub fn to_query_text(parameters: &Query) -> String {
    let pairs = parameters.pairs().filter(|(name, _)| PARAMETERS.contains(name));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
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
        // A connector below a path has the origin of its address.
        assert!(names_connector("https://a.example/chancery/mcp/0f8f", "https://a.example"));
        assert!(!names_connector("https://a.example/chancery/mcp/0f8f", "https://a.example/mcp/0f8f"));
    }
}
