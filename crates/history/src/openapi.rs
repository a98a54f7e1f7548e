//! `GET /api/openapi.json`: every endpoint, described from the routes, fields and filters that serve it.

use crate::files::CONTENT_PATH;
use crate::lists::{HISTORY_FILTERS, SYSTEM_FILTERS};
use crate::routes::{API_KEY, CLIENT_ID, Endpoint, HistoryRoute, ROUTES, RequiredCredentials, SERVICE_ID};
use crate::schema::{int, object, one_of, optional, required, text, uuid};
use crate::{batch, create_event, event_files, lists, tenants};
use resource::openapi::{Audience, document_schema, etag, if_none_match, not_modified, share, titled};
use serde_json::{Map, Value as Json, json};

/// Creates the OpenAPI 3.1 document of a service that accepts batches of up to `batch_events` events.
pub fn document(batch_events: usize, audience: Audience) -> Json {
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| audience == Audience::All || !is_internal(route.endpoint)) {
        paths.insert(
            route.path.to_owned(),
            json!({route.method.as_str().to_ascii_lowercase(): operation(route, batch_events)}),
        );
    }
    if audience == Audience::All {
        paths.insert(format!("{CONTENT_PATH}{{database_name}}/{{file_id}}"), file_content());
    }
    let header = |name: &str, text: &str| json!({"type": "apiKey", "in": "header", "name": name, "description": text});
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Chancery history",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": "Apache License 2.0", "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/", "description": "The server of this document"}],
        "tags": TAGS.map(|(name, text)| json!({"name": name, "description": text})),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": header(API_KEY.as_str(), "The key of the service"),
                "client": header(CLIENT_ID.as_str(), "The tenant: a UUID of version 4"),
            },
        },
    });
    share(&mut document);
    document
}

const DESCRIPTION: &str = "What happened, per tenant, for years.

Every call has the service's key in `X-API-Key` and names its tenant by `X-Client-Id`. Events are stored once, however \
often they are sent. Lists answer a page at a time, newest first; each filter has a twin `…__exclude`, which leaves out \
what the filter would show.";

const EVENTS: &str = "events";
const TENANTS: &str = "tenants";
const SERVICE: &str = "service";
const TAGS: [(&str, &str); 3] = [
    (EVENTS, "Storing and listing events, and their files."),
    (TENANTS, "Making and deleting tenants."),
    (SERVICE, "Health and description of the service."),
];

/// `{"detail": "…"}`
fn detail_schema() -> Json {
    let reason_schema = json!({"type": "string", "description": "The reason, in a sentence"});
    titled("Refusal", object([("detail", required(reason_schema))]))
}

fn problems() -> Json {
    let place = json!({
        "type": "array", "items": {"type": ["string", "integer"]},
        "description": "The way to the wrong value: `body` or `query`, then names and places",
    });
    let problem = object([("loc", required(place)), ("msg", required(text())), ("type", required(text()))]);
    let list = json!({"type": "array", "minItems": 1, "items": titled("Problem", problem)});
    titled("Problems", object([("detail", required(list))]))
}

fn list(item: Json) -> Json {
    let name = format!("{}Page", item["title"].as_str().unwrap_or_default());
    let page = object([
        ("limit", required(int())),
        ("offset", required(int())),
        ("total_count", required(int())),
        ("filtered_count", required(int())),
        ("results", required(json!({"type": "array", "items": item}))),
    ]);
    titled(name, page)
}

/// The body of `/readyz`.
fn readiness(title: &str, status: &str) -> Json {
    let files = object([
        ("status", required(one_of(&["ok", "unavailable"]))),
        ("since", required(json!({"type": "string", "format": "date-time"}))),
    ]);
    let warnings = json!({"type": "array", "items": {"type": "string"}});
    titled(
        title,
        object([("status", required(one_of(&[status]))), ("files", optional(files)), ("warnings", optional(warnings))]),
    )
}

/// The part of an endpoint's description that is not in its route.
#[derive(Default)]
struct Description {
    summary: &'static str,
    parameters: Vec<Json>,
    body: Option<Json>,
    /// The status of success.
    status: u16,
    answer: Option<Json>,
}

fn describe(endpoint: Endpoint, batch_events: usize) -> Description {
    let reads = |summary, answer| Description { summary, status: 200, answer: Some(answer), ..Description::default() };
    let lists = |summary, parameters, item| Description { parameters, ..reads(summary, list(item)) };
    let creates = |summary, (body, answer)| Description { body: Some(body), status: 201, ..reads(summary, answer) };
    let status = || titled("Health", object([("status", required(one_of(&["ok"])))]));
    match endpoint {
        Endpoint::Health => reads("Liveness of the process", status()),
        Endpoint::Readiness => reads("Readiness of the engine and of the store of files", readiness("Readiness", "ok")),
        Endpoint::Description => {
            Description { parameters: Audience::parameters(), ..reads("This description", document_schema()) }
        }
        Endpoint::Service => {
            reads("The id that tells this service from every other one", object([("id", required(uuid()))]))
        }
        Endpoint::Home => {
            let summary = "Redirect to the page of this description";
            Description { summary, status: 302, ..Description::default() }
        }
        Endpoint::Page => Description { summary: "This description, as a page", status: 200, ..Description::default() },
        Endpoint::PageFile => Description { summary: "A file of the page", status: 200, ..Description::default() },
        Endpoint::CreateEvent => creates("Store a history event", create_event::schemas()),
        Endpoint::Batch => creates("Store system events", batch::schemas(batch_events)),
        Endpoint::Initialize => creates("Make a tenant", tenants::schemas()),
        Endpoint::SystemEvents => {
            lists("List of system events", lists::parameters(&SYSTEM_FILTERS), lists::system_event_schema())
        }
        Endpoint::HistoryEvents => {
            lists("List of history events", lists::parameters(&HISTORY_FILTERS), lists::history_event_schema())
        }
        Endpoint::EventFile => {
            let summary = "Redirect to the file of an event";
            Description { summary, status: 302, ..Description::default() }
        }
        Endpoint::Delete => {
            let summary = "Delete a tenant with its events and files";
            Description { summary, status: 204, ..Description::default() }
        }
        Endpoint::UploadUrl => {
            reads("An address that takes the content of a new file", event_files::upload_address_schema())
        }
    }
}

fn operation(route: &HistoryRoute, batch_events: usize) -> Json {
    let Description { summary, mut parameters, body, status, answer } = describe(route.endpoint, batch_events);
    if let Some(name) = route.value_name() {
        let schema = if route.endpoint == Endpoint::EventFile { uuid() } else { text() };
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
    }
    if route.access != RequiredCredentials::Public {
        let about = "The id of the service that the request is meant for; any other one refuses it";
        let header = json!({"name": SERVICE_ID.as_str(), "in": "header", "description": about, "schema": text()});
        parameters.push(header);
    }
    if route.endpoint.is_tagged() {
        parameters.push(if_none_match());
    }
    let responses = responses(route, status, answer, body.is_some());
    let security = match route.access {
        RequiredCredentials::Public => json!([]),
        RequiredCredentials::Key => json!([{"key": []}]),
        RequiredCredentials::KeyOrClient => json!([{"key": [], "client": []}, {"key": []}]),
        RequiredCredentials::Client => json!([{"key": [], "client": []}]),
    };
    let tag = match route.endpoint {
        Endpoint::Health | Endpoint::Readiness | Endpoint::Description | Endpoint::Service => SERVICE,
        endpoint if is_internal(endpoint) => SERVICE,
        Endpoint::Initialize | Endpoint::Delete => TENANTS,
        _ => EVENTS,
    };
    let mut operation = json!({
        "summary": summary, "operationId": operation_id(route), "tags": [tag], "security": security,
        "parameters": parameters, "responses": responses,
    });
    if is_internal(route.endpoint) {
        operation["x-internal"] = true.into();
    }
    if let Some(body) = body {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": body}}});
    }
    operation
}

/// Returns the answers of a route by their status: its usual one, and the refusals.
fn responses(route: &HistoryRoute, status: u16, answer: Option<Json>, has_body: bool) -> Map<String, Json> {
    let mut responses = Map::new();
    responses.insert(status.to_string(), response("Done", answer));
    if status == 302 {
        responses["302"]["headers"]["Location"] = json!({"required": true, "schema": text()});
    }
    if route.endpoint.is_tagged() {
        responses["200"]["headers"]["ETag"] = etag();
        responses.insert("304".to_owned(), not_modified());
    }
    let has_key = route.access != RequiredCredentials::Public;
    let has_tenant = matches!(route.access, RequiredCredentials::Client | RequiredCredentials::KeyOrClient);
    let is_list = matches!(route.endpoint, Endpoint::HistoryEvents | Endpoint::SystemEvents);
    let refusals = [
        (400, "Refused: the tenant, or a body that is no JSON", has_tenant || has_body),
        (401, "Not the key", has_key),
        (404, "Not found", route.value_name().is_some()),
        (408, "The body did not come in time", has_body),
        (413, "The body is too large", has_body),
        (415, "An unknown content encoding", has_body),
        (421, "Not the service that X-History-Service names", has_key),
        (422, "Errors of the values", has_body || is_list || route.endpoint == Endpoint::Description),
        (500, "The engine failed", has_key),
        (503, "Out of reach; try again", has_key),
    ];
    for (status, text, _) in refusals.into_iter().filter(|(_, _, is_possible)| *is_possible) {
        responses.insert(status.to_string(), refusal(status, text));
    }
    if route.endpoint == Endpoint::Readiness {
        let text = "The engine does not answer, or the store of files never did";
        responses.insert("503".to_owned(), response(text, Some(readiness("Unavailable", "unavailable"))));
    }
    responses
}

/// Returns whether the endpoint is only for browsers, not for clients.
fn is_internal(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::Home | Endpoint::Page | Endpoint::PageFile)
}

/// Returns the words of a path, without `api` and values, and the action if the path does not contain it.
fn operation_id(route: &HistoryRoute) -> String {
    let words = route.path.split('/').filter(|word| !matches!(*word, "" | "api") && !word.starts_with('{'));
    let words = words.map(|word| word.trim_end_matches(".json").replace('-', "_"));
    let action = match route.endpoint {
        Endpoint::HistoryEvents | Endpoint::SystemEvents => Some("list"),
        Endpoint::Home => Some("home"),
        Endpoint::Page => Some("retrieve"),
        Endpoint::PageFile => Some("file"),
        _ => None,
    };
    words.chain(action.map(str::to_owned)).collect::<Vec<_>>().join(".")
}

fn response(text: &str, schema: Option<Json>) -> Json {
    match schema {
        Some(schema) => json!({"description": text, "content": {"application/json": {"schema": schema}}}),
        None => json!({"description": text}),
    }
}

fn refusal(status: u16, text: &str) -> Json {
    let mut refusal = response(text, Some(if status == 422 { problems() } else { detail_schema() }));
    if status == 503 {
        refusal["headers"] = json!({"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}});
    }
    refusal
}

/// The operations on the signed addresses of files in the data directory.
fn file_content() -> Json {
    let named =
        |place: &'static str| move |name| json!({"name": name, "in": place, "required": true, "schema": text()});
    let parameters: Vec<Json> = ["database_name", "file_id"]
        .map(named("path"))
        .into_iter()
        .chain(["client", "expires", "signature"].map(named("query")))
        .collect();
    let bytes = json!({"application/octet-stream": {"schema": {}}});
    let refusals = |list: &[(u16, &str)]| -> Map<String, Json> {
        list.iter().map(|(status, text)| (status.to_string(), refusal(*status, text))).collect()
    };
    let mut get =
        refusals(&[(403, "Not an address of this service, or too old"), (404, "Not found"), (500, "The disk failed")]);
    get.insert("200".to_owned(), json!({"description": "The file", "content": bytes}));
    let mut put = refusals(&[
        (400, "The body broke off"),
        (403, "Not an address of this service, or too old"),
        (404, "The tenant is gone"),
        (408, "The body did not come in time"),
        (409, "The file is there already"),
        (413, "The file is too large"),
        (500, "The disk failed"),
        (503, "The disk is full"),
    ]);
    put.insert("200".to_owned(), response("Done", None));
    let body = json!({"required": true, "content": bytes});
    // Clients cannot use them, since their addresses are signed and returned as a whole.
    let operation = |id: &str, summary: &str, responses: Map<String, Json>| {
        json!({
            "summary": summary, "operationId": id, "tags": [EVENTS], "x-internal": true, "security": [],
            "parameters": parameters, "responses": responses,
        })
    };
    let mut upload = operation("files.upload", "Upload a file", put);
    upload["requestBody"] = body;
    json!({"get": operation("files.download", "The content of a file", get), "put": upload})
}
