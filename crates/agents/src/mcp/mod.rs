//! The MCP server of a connector: `/mcp/{uuid}/` (`docs/reference/mcp-server.md`). The messages of the protocol are in `server.rs`, what agents
//! can do in `tools.rs`.

mod arguments;
mod classes;
mod run;
mod server;
pub mod tools;

use crate::grants;
use http::Method;
use kit::answer::Outcome;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::titled;
use serde_json::{Value as Json, json};
use server::Agent;
use std::sync::Arc;

pub fn routes() -> Vec<Route> {
    let post = Route::new(Method::POST, "/mcp/{uuid}/", "Model Context Protocol", Handler::Async(|request| Box::pin(post(request))));
    vec![post.takes(Schema::Json(message)).answers(200, Schema::Json(message)).admits(grants::ADMISSION).internal()]
}

/// The schema of a message, which the protocol describes.
fn message() -> Json {
    let schema = json!({"type": "object", "required": ["jsonrpc"], "properties": {"jsonrpc": {"const": "2.0"}}});
    titled("McpMessage", schema)
}

async fn post(request: Arc<Request>) -> Outcome {
    let answer = async {
        let admitted = grants::of_request(&request).await?;
        let body = request.sent_text()?.to_owned();
        server::answer(Arc::new(Agent::of(request.clone(), admitted)), body).await
    };
    // What ended meanwhile is refused as it is before.
    let refused = |refusal| (grants::ADMISSION.refuse)(refusal, &request.app, &request.build, &request.path_values);
    answer.await.map_err(refused)
}
