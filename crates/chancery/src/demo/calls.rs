//! Calls of the main API from this command: HTTP requests over a connection in memory that other programs cannot reach. The server
//! answers them like those of any client. The API therefore checks everything in the demo, including uploads and changes of
//! classes. Calls within a request (`kit/inner_call.rs`) cannot send those.

use crate::open::CommandFailure;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use platform::kit;
use platform::kit::app::App;
use serde_json::{Value as Json, json};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

/// The maximum bytes of a request or an answer in transit.
const IN_FLIGHT: usize = 64 * 1024;
/// The maximum number of characters of a refusal in messages.
const MAX_TOLD: usize = 300;

/// A caller who is signed in to a build, on a connection of their own.
pub struct DemoCaller {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    authorization: String,
}

impl DemoCaller {
    /// Signs in with a password.
    pub async fn sign_in(
        app: &App,
        domain: &str,
        username: &str,
        password: &str,
    ) -> Result<DemoCaller, CommandFailure> {
        let (client_stream, far) = tokio::io::duplex(IN_FLIGHT);
        let app = app.clone();
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answered = kit::serve::answer(app.clone(), platform::table(), request, peer);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            // The connection ends when the caller is dropped.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(far), answer).await;
        });
        let (sender, connection) = handshake(TokioIo::new(client_stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        let mut caller = DemoCaller { sender, host: domain.to_owned(), authorization: String::new() };
        let tokens = caller.post("/api/auth/login/", json!({"username": username, "password": password})).await?;
        let token = tokens["access_token"].as_str().ok_or_else(|| format!("{username} got no token"))?;
        caller.authorization = format!("Bearer {token}");
        Ok(caller)
    }

    pub async fn get(&mut self, path: &str) -> Result<Json, CommandFailure> {
        self.send(self.request(Method::GET, path), Bytes::new()).await
    }

    pub async fn post(&mut self, path: &str, body: Json) -> Result<Json, CommandFailure> {
        self.send_json(Method::POST, path, body).await
    }

    pub async fn patch(&mut self, path: &str, body: Json) -> Result<Json, CommandFailure> {
        self.send_json(Method::PATCH, path, body).await
    }

    /// Creates an object and returns its id.
    pub async fn make(&mut self, path: &str, body: Json) -> Result<i64, CommandFailure> {
        let answer = self.post(path, body).await?;
        answer["id"].as_i64().ok_or_else(|| format!("POST {path}: an answer without an id: {answer}"))
    }

    /// Uploads a file and returns its token. The name must have plain characters.
    pub async fn upload(&mut self, name: &str, content: &'static [u8]) -> Result<Json, CommandFailure> {
        let request = self
            .request(Method::POST, "/api/files/upload/")
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_DISPOSITION, format!("attachment; filename={name}"));
        let mut uploaded = self.send(request, Bytes::from_static(content)).await?;
        Ok(uploaded["token"].take())
    }

    async fn send_json(&mut self, method: Method, path: &str, body: Json) -> Result<Json, CommandFailure> {
        let request = self.request(method, path).header(header::CONTENT_TYPE, "application/json");
        self.send(request, body.to_string().into()).await
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path).header(header::HOST, &self.host);
        match self.authorization.as_str() {
            "" => request,
            authorization => request.header(header::AUTHORIZATION, authorization),
        }
    }

    /// Returns the answer to a request, or a failure that names the refused request.
    async fn send(&mut self, request: http::request::Builder, body: Bytes) -> Result<Json, CommandFailure> {
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let failed = |reason: &dyn std::fmt::Display| format!("{method} {path}: {reason}");
        self.sender.ready().await.map_err(|error| failed(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let text = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        if !status.is_success() {
            let excerpt: String = String::from_utf8_lossy(&text).chars().take(MAX_TOLD).collect();
            return Err(failed(&format!("{} {excerpt}", status.as_u16())));
        }
        if status == StatusCode::NO_CONTENT {
            return Ok(Json::Null);
        }
        serde_json::from_slice(&text).map_err(|error| failed(&error))
    }
}
