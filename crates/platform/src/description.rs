//! `GET /api/openapi.json` and `GET /api/docs/` (document 4, section 2). With `audience=clients` the document leaves out
//! what nobody generates clients for.

use crate::table;
use bytes::Bytes;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::openapi::{self, Audience};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::message;
use resource::openapi::document_schema;
use std::sync::LazyLock;

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/api/openapi.json", "This description", Handler::NoDatabase(json_document))
            .public()
            .parameters(Audience::parameters)
            .answers(200, Schema::Json(document_schema)),
        Route::new(Method::GET, "/api/docs/", "This description, as a page", Handler::NoDatabase(page))
            .public()
            .answers(200, Schema::Html),
    ]
}

/// The description as JSON. It is large and public, so it is made once for each audience and shared by all builds; the
/// server's address in it is therefore relative.
fn json_document(request: &Request) -> Outcome {
    static ALL: LazyLock<Bytes> = LazyLock::new(|| openapi::document(table(), Audience::All).to_string().into());
    static FOR_CLIENTS: LazyLock<Bytes> =
        LazyLock::new(|| openapi::document(table(), Audience::Clients).to_string().into());
    let document = match Audience::of(&request.query) {
        Some(Audience::All) => &ALL,
        Some(Audience::Clients) => &FOR_CLIENTS,
        None => {
            let sent = request.query.last(Audience::PARAMETER).unwrap_or_default();
            return Err(Refusal::field(Audience::PARAMETER, message::select_choice(sent)));
        }
    };
    Ok(Answer::json(StatusCode::OK, Bytes::clone(document)))
}

fn page(_: &Request) -> Outcome {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| openapi::html(table()).into());
    Ok(Answer::page(StatusCode::OK, PAGE.clone()))
}
