//! `GET /api/openapi.json` and `GET /api/docs/` (document 4, section 2).

use crate::table;
use bytes::Bytes;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::openapi;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use serde_json::json;
use std::sync::LazyLock;

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/api/openapi.json", "This description", Handler::NoDatabase(json_document))
            .public()
            .answers(200, Schema::Json(|| json!({"type": "object"}))),
        Route::new(Method::GET, "/api/docs/", "This description, as a page", Handler::NoDatabase(page))
            .public()
            .answers(200, Schema::Html),
    ]
}

/// The description as JSON. It is large and public, so it is made once and shared by all builds; the server's address
/// in it is therefore relative.
fn json_document(_: &Request) -> Outcome {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
        let mut document = openapi::document(table());
        document["servers"] = json!([{"url": "/"}]);
        document.to_string().into()
    });
    Ok(Answer::json(StatusCode::OK, DOCUMENT.clone()))
}

fn page(_: &Request) -> Outcome {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| openapi::html(table()).into());
    Ok(Answer::page(StatusCode::OK, PAGE.clone()))
}
