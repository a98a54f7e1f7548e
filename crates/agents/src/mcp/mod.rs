//! The MCP server of a connector: `/mcp/{uuid}` (`docs/reference/mcp-server.md`). `server.rs` answers the messages of the protocol,
//! `tools.rs` declares the tools.

pub mod arguments;
mod classes;
pub mod message;
pub mod pages;
mod run;
mod server;
pub mod tools;

use crate::grants;
use http::{Method, header};
use kit::answer::Outcome;
use kit::origin;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::titled;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use url::{Host, Url};

pub fn routes() -> Vec<Route> {
    let post = Route::new(
        Method::POST,
        "/mcp/{uuid}/",
        "Model Context Protocol",
        Handler::Async(|request| Box::pin(post(request))),
    );
    let post = post
        .with_body(Schema::Json(message))
        .answers(200, Schema::Json(message))
        .also_answers(429, Schema::Json(message));
    vec![post.admits(grants::ADMISSION).internal()]
}

/// The schema of a message. The protocol declares its members.
fn message() -> Json {
    let schema = json!({"type": "object", "required": ["jsonrpc"], "properties": {"jsonrpc": {"const": "2.0"}}});
    titled("McpMessage", schema)
}

async fn post(request: Arc<Request>) -> Outcome {
    if request.headers.get(header::ORIGIN).is_some() && !is_from_known_page(&request) {
        return Err(Refusal::forbidden());
    }
    let answer = async {
        let admitted = grants::load_agent(&request).await?;
        server::answer(request.clone(), admitted).await
    };
    // A grant that ends during the call is refused like one that ended before.
    let refused = |refusal| {
        (grants::ADMISSION.refuse)(refusal, &request.app, &request.build, &request.path, &request.path_values)
    };
    answer.await.map_err(refused)
}

/// Returns whether the page that sends a request is at a host name of this build, at an IP address, or at a configured origin. A build
/// that answers for all hosts accepts every name, and the owner of a name can make it resolve to this server (DNS rebinding).
fn is_from_known_page(request: &Request) -> bool {
    let host_of = |address: &str| Some(Url::parse(address).ok()?.host()?.to_owned());
    let origin = request.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    match origin.and_then(host_of) {
        Some(Host::Domain(name)) => {
            let own = host_of(&request.app.address_of(&request.build));
            let is_own = name == "localhost" || name == request.build.domain || own == Some(Host::Domain(name));
            is_own || origin::configured(&request.app, &request.headers).is_some()
        }
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    }
}
