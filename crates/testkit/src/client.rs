//! An HTTP client for tests.

use crate::reply::Reply;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Method;
use serde_json::{Value as Json, json};
use std::net::SocketAddr;

/// A client of one build of a server, signed in or not. Clones have the same token.
#[derive(Clone)]
pub struct ApiClient {
    http: reqwest::Client,
    address: SocketAddr,
    headers: Vec<(String, String)>,
    /// The id of the signed-in user, or 0.
    pub id: i64,
    /// The username of the signed-in user.
    pub username: String,
    /// The access token; empty when not signed in.
    pub token: String,
    /// The refresh token; empty when not signed in.
    pub refresh_token: String,
}

impl ApiClient {
    /// Creates a client of the build that serves `host`, not signed in.
    pub fn new(address: SocketAddr, host: &str) -> ApiClient {
        ApiClient {
            http: http(),
            address,
            headers: vec![("host".to_owned(), host.to_owned())],
            id: 0,
            username: String::new(),
            token: String::new(),
            refresh_token: String::new(),
        }
    }

    /// Returns the same client, with a header in every call.
    pub fn with_header(&self, name: &str, value: &str) -> ApiClient {
        let mut client = self.clone();
        client.headers.retain(|(header_name, _)| !header_name.eq_ignore_ascii_case(name));
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// Returns the same client with another access token.
    pub fn with_token(&self, token: &str) -> ApiClient {
        let mut client = self.with_header("authorization", &format!("JWT {token}"));
        client.token = token.to_owned();
        client
    }

    /// Returns the same client, for another server of the same build.
    pub fn for_server(&self, address: SocketAddr) -> ApiClient {
        ApiClient { address, ..self.clone() }
    }

    /// The address of its server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the same client without a token.
    pub fn anonymous(&self) -> ApiClient {
        let mut client = self.clone();
        client.headers.retain(|(name, _)| name != "authorization");
        (client.id, client.username, client.token, client.refresh_token) = Default::default();
        client
    }

    /// Calls the sign-in endpoint.
    pub async fn login(&self, username: &str, password: &str) -> Reply {
        self.post("/api/auth/login/", json!({"username": username, "password": password})).await
    }

    /// Returns the same client, signed in with a password. Panics when the sign-in fails.
    #[track_caller]
    pub fn sign_in(&self, username: &str, password: &str) -> impl Future<Output = ApiClient> + use<> {
        let (client, username, password) = (self.anonymous(), username.to_owned(), password.to_owned());
        async move {
            let reply = client.login(&username, &password).await;
            assert!(reply.status == 200, "{username} cannot sign in: {reply:?}");
            client.with_pair(&username, &reply.json)
        }
    }

    /// Returns the same client, with the pair of tokens in the answer to a sign-in or a refresh.
    pub fn with_pair(&self, username: &str, pair: &Json) -> ApiClient {
        let mut client = self.with_token(pair["access_token"].as_str().unwrap_or(""));
        client.id = user_of(&client.token);
        client.username = username.to_owned();
        client.refresh_token = pair["refresh_token"].as_str().unwrap_or("").to_owned();
        client
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path).send().await
    }

    /// Sends an OPTIONS request.
    pub async fn options(&self, path: &str) -> Reply {
        self.call("OPTIONS", path).send().await
    }

    /// Sends a DELETE request without a body.
    pub async fn delete(&self, path: &str) -> Reply {
        self.call("DELETE", path).send().await
    }

    /// Sends a DELETE request with a JSON body, as for a batch.
    pub async fn delete_all(&self, path: &str, body: Json) -> Reply {
        self.call("DELETE", path).json(&body).send().await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, body: Json) -> Reply {
        self.call("POST", path).json(&body).send().await
    }

    /// Sends a PATCH request with a JSON body.
    pub async fn patch(&self, path: &str, body: Json) -> Reply {
        self.call("PATCH", path).json(&body).send().await
    }

    /// Uploads a file and returns its token.
    pub async fn upload(&self, name: &str, bytes: impl Into<Bytes>) -> String {
        let call = self.call("POST", "/api/files/upload/");
        let disposition = format!("attachment; filename*=UTF-8''{}", encode(name));
        let reply =
            call.header("content-disposition", &disposition).body("application/octet-stream", bytes).send().await;
        reply.expect_created()["token"].as_str().expect("a token").to_owned()
    }

    /// Begins a request with any method, to be sent by [`PreparedCall::send`].
    pub fn call(&self, method: &str, path: &str) -> PreparedCall {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_else(|_| panic!("{method} is no method"));
        let mut request = self.http.request(method, format!("http://{}{path}", self.address));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        PreparedCall(request)
    }
}

/// Creates a plain HTTP client that ignores proxies and redirects.
pub(crate) fn http() -> reqwest::Client {
    // A second installation of the provider fails, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    http.build().expect("a client of plain HTTP needs nothing that could fail")
}

/// Returns the user id in the `sub` of a token.
fn user_of(token: &str) -> i64 {
    let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    let claims: Option<Json> = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    claims.and_then(|claims| claims["sub"].as_str()?.parse().ok()).unwrap_or(0)
}

/// A request before it is sent.
pub struct PreparedCall(reqwest::RequestBuilder);

impl PreparedCall {
    /// Adds a header.
    pub fn header(self, name: &str, value: &str) -> PreparedCall {
        PreparedCall(self.0.header(name, value))
    }

    /// Sets a JSON body.
    pub fn json(self, body: &Json) -> PreparedCall {
        self.body("application/json", body.to_string())
    }

    /// Sets a form as the body, encoded as browsers do.
    pub fn form(self, fields: &[(&str, &str)]) -> PreparedCall {
        let encoded: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        self.body("application/x-www-form-urlencoded", encoded.join("&"))
    }

    /// Sets the body and its content type.
    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> PreparedCall {
        PreparedCall(self.0.header("content-type", content_type).body(body.into()))
    }

    /// Sends the request. Panics without a complete answer.
    pub async fn send(self) -> Reply {
        self.send_if_connected().await.unwrap_or_else(|| panic!("no connection"))
    }

    /// Sends the request. Returns `None` if the connection failed, so that a load balancer would try another server.
    pub async fn send_if_connected(self) -> Option<Reply> {
        match self.reply().await {
            Ok(reply) => Some(reply),
            Err(error) if error.is_connect() => None,
            Err(error) => panic!("no answer, or half of one: {error:?}"),
        }
    }

    /// Sends the request. Returns `None` if it fails in any way.
    pub async fn try_send(self) -> Option<Reply> {
        self.reply().await.ok()
    }

    /// Sends the request, and returns at the first bytes of a successful answer.
    pub async fn download(self) -> Download {
        let response_result = self.0.send().await.and_then(reqwest::Response::error_for_status);
        let mut response = response_result.unwrap_or_else(|error| panic!("no answer, or a refusal: {error:?}"));
        let first = response.chunk().await.unwrap_or_else(|error| panic!("no body: {error:?}"));
        Download { response, body: first.unwrap_or_default().to_vec() }
    }

    async fn reply(self) -> reqwest::Result<Reply> {
        let response = self.0.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Reply::new(status, headers, response.bytes().await?))
    }
}

/// An answer whose remaining bytes are still to be read.
pub struct Download {
    response: reqwest::Response,
    body: Vec<u8>,
}

impl Download {
    /// Returns the whole body, and whether it is complete.
    pub async fn read(mut self) -> (String, bool) {
        let is_whole = loop {
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.body.extend(chunk),
                outcome => break outcome.is_ok(),
            }
        };
        (String::from_utf8_lossy(&self.body).into_owned(), is_whole)
    }
}

/// Percent-encodes every byte that is not an ASCII letter or digit.
pub(crate) fn encode(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}
