//! `GET /api/openapi.json`, its page at `/api/docs/`, and `/`, which leads there (`docs/reference/descriptions.md`).
//! With `audience=clients` the document omits operations that generated clients do not need.

use crate::answer::{Answer, Outcome};
use crate::domain::table;
use crate::openapi::{self, Audience};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::route::{Handler, Route, Schema};
use bytes::Bytes;
use http::{Method, StatusCode, header};
use resource::message;
use resource::openapi::document_schema;
use std::sync::LazyLock;
use web::tag::etag;
use web::viewer::{self, ViewerAnswer};

/// The document that the page shows.
const DOCUMENT_OF_PAGE: &str = "/api/openapi.json?audience=clients";

pub fn routes() -> Vec<Route> {
    let get = |path, summary, handler| Route::new(Method::GET, path, summary, Handler::NoDatabase(handler)).public();
    vec![
        get("/", "Redirect to the page of this description", to_page)
            .answers(302, Schema::Nothing)
            .action("home")
            .internal(),
        get("/api/openapi.json", "This description", json_document)
            .parameters(Audience::parameters)
            .answers(200, Schema::Json(document_schema)),
        get(viewer::PATH, "This description, as a page", page).answers(200, Schema::Html),
        get("/api/docs/{name}/", "A file of the page", file)
            .answers(200, Schema::Binary)
            .comes_compressed()
            .tags_itself()
            .action("file")
            .internal(),
    ]
}

fn to_page(_: &Request) -> Outcome {
    let mut answer = Answer::empty();
    answer.status = StatusCode::FOUND;
    answer.headers.push((header::LOCATION, http::HeaderValue::from_static(viewer::PATH)));
    Ok(answer)
}

/// Answers the description as JSON. It is large and public, so it is created once for each audience and
/// all builds share it. The server's address in it is therefore relative.
fn json_document(request: &Request) -> Outcome {
    static ALL: LazyLock<Bytes> = LazyLock::new(|| openapi::document(table(), Audience::All).to_string().into());
    static FOR_CLIENTS: LazyLock<Bytes> =
        LazyLock::new(|| openapi::document(table(), Audience::Clients).to_string().into());
    let document = match Audience::from_query(&request.query) {
        Some(Audience::All) => &ALL,
        Some(Audience::Clients) => &FOR_CLIENTS,
        None => {
            let audience = request.query.last_value(Audience::PARAMETER).unwrap_or_default();
            return Err(Refusal::field(Audience::PARAMETER, message::select_choice(audience)));
        }
    };
    Ok(Answer { tag: Some(etag(document)), ..Answer::json(StatusCode::OK, Bytes::clone(document)) })
}

fn page(_: &Request) -> Outcome {
    Ok(answer(viewer::page("Chancery API", DOCUMENT_OF_PAGE)))
}

fn file(request: &Request) -> Outcome {
    viewer::file(request.name(), &request.headers).map(answer).ok_or_else(Refusal::not_found)
}

fn answer(served: ViewerAnswer) -> Answer {
    let ViewerAnswer { content_type, tag, headers, body } = served;
    Answer { content_type: Some(content_type), tag, headers, ..Answer::json(StatusCode::OK, body) }
}
