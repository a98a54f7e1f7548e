//! `GET /api/openapi.json`, its page at `/api/docs/` (document 4, section 2), and `/`, which leads there.

use crate::table;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use kit::answer::{Answer, Outcome};
use kit::openapi;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use serde_json::json;
use std::sync::LazyLock;
use web::viewer::{self, Served};

/// What the page shows: the endpoints that programs use.
const DOCUMENT_OF_PAGE: &str = "/api/openapi.json?audience=clients";

pub fn routes() -> Vec<Route> {
    let get = |path, summary, handler| Route::new(Method::GET, path, summary, Handler::NoDatabase(handler)).public();
    vec![
        get("/", "Redirect to the page of this description", to_page).answers(302, Schema::Nothing),
        get("/api/openapi.json", "This description", json_document)
            .answers(200, Schema::Json(|| json!({"type": "object"}))),
        get(viewer::PATH, "This description, as a page", page).answers(200, Schema::Html),
        get("/api/docs/{name}/", "A file of the page", file).answers(200, Schema::Binary),
    ]
}

fn to_page(_: &Request) -> Outcome {
    let mut answer = Answer::empty();
    answer.status = StatusCode::FOUND;
    answer.headers.push((header::LOCATION, http::HeaderValue::from_static(viewer::PATH)));
    Ok(answer)
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
    Ok(answer(viewer::page("Chancery API", DOCUMENT_OF_PAGE)))
}

fn file(request: &Request) -> Outcome {
    viewer::file(request.name(), &request.headers).map(answer).ok_or_else(Refusal::not_found)
}

fn answer(served: Served) -> Answer {
    let Served { content_type, headers, body } = served;
    Answer { content_type: Some(content_type), headers, ..Answer::json(StatusCode::OK, body) }
}
