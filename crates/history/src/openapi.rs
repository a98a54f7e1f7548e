//! `GET /api/openapi.json`: every endpoint, described from the routes, fields and filters that serve it.

use crate::files::CONTENT_PATH;
use crate::lists::{HISTORY_FILTERS, SYSTEM_FILTERS};
use crate::routes::{API_KEY, Access, CLIENT_ID, EVENT_ID, Endpoint, ROUTES, Route, SERVICE_ID};
use crate::schema::{int, object, one_of, required, text, uuid};
use crate::{batch, create_event, event_files, lists, tenants};
use serde_json::{Map, Value as Json, json};

/// The OpenAPI 3.1 document of a service that accepts batches of up to so many events.
pub fn document(batch_events: usize) -> Json {
    let mut paths = Map::new();
    for route in &ROUTES {
        paths.insert(
            route.path.to_owned(),
            json!({route.method.as_str().to_ascii_lowercase(): operation(route, batch_events)}),
        );
    }
    paths.insert(format!("{CONTENT_PATH}{{database_name}}/{{file_id}}"), file_content());
    let header = |name: &str, text: &str| json!({"type": "apiKey", "in": "header", "name": name, "description": text});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Chancery history", "version": env!("CARGO_PKG_VERSION"), "description": "What happened, per tenant, for years."},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": header(API_KEY.as_str(), "The key of the service"),
                "client": header(CLIENT_ID.as_str(), "The tenant: a UUID of version 4"),
            },
            "schemas": {"Refusal": object([("detail", required(text()))]), "Problems": problems()},
        },
    })
}

fn problems() -> Json {
    let place = json!({"type": "array", "items": {"type": ["string", "integer"]}});
    let problem = object([("loc", required(place)), ("msg", required(text())), ("type", required(text()))]);
    object([("detail", required(json!({"type": "array", "minItems": 1, "items": problem})))])
}

fn list(item: Json) -> Json {
    object([
        ("limit", required(int())),
        ("offset", required(int())),
        ("total_count", required(int())),
        ("filtered_count", required(int())),
        ("results", required(json!({"type": "array", "items": item}))),
    ])
}

/// What the document says about an endpoint beyond its route.
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
    let status = || object([("status", required(one_of(&["ok"])))]);
    match endpoint {
        Endpoint::Health => reads("Whether the process answers", status()),
        Endpoint::Readiness => reads("Whether the engine answers", status()),
        Endpoint::Description => reads("This description", json!({"type": "object"})),
        Endpoint::Service => {
            reads("The id that tells this service from every other one", object([("id", required(uuid()))]))
        }
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
            let name = EVENT_ID.trim_matches(['{', '}']);
            let id = json!({"name": name, "in": "path", "required": true, "schema": uuid()});
            let summary = "Redirect to the file of an event";
            Description { summary, parameters: vec![id], status: 302, ..Description::default() }
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

fn operation(route: &Route, batch_events: usize) -> Json {
    let Description { summary, mut parameters, body, status, answer } = describe(route.endpoint, batch_events);
    let mut responses = Map::new();
    responses.insert(status.to_string(), response("Done", answer));
    if status == 302 {
        responses["302"]["headers"]["Location"] = json!({"required": true, "schema": text()});
    }
    let has_key = route.access != Access::Public;
    if has_key {
        let text = "The id of the service that the request is meant for; any other one refuses it";
        let header = json!({"name": SERVICE_ID.as_str(), "in": "header", "description": text, "schema": uuid()});
        parameters.push(header);
    }
    let has_tenant = matches!(route.access, Access::Client | Access::KeyOrClient);
    let is_list = matches!(route.endpoint, Endpoint::HistoryEvents | Endpoint::SystemEvents);
    let refusals = [
        (400, "Refused: the tenant, or a body that is no JSON", has_tenant || body.is_some()),
        (401, "Not the key", has_key),
        (404, "Not found", route.endpoint == Endpoint::EventFile),
        (408, "The body did not come in time", body.is_some()),
        (413, "The body is too large", body.is_some()),
        (415, "An unknown content encoding", body.is_some()),
        (421, "Not the service that X-History-Service names", has_key),
        (422, "What is wrong with the values", body.is_some() || is_list),
        (500, "The engine failed", has_key),
        (503, "Out of reach; try again", has_key),
    ];
    for (status, text, _) in refusals.into_iter().filter(|(_, _, when)| *when) {
        responses.insert(status.to_string(), refusal(status, text));
    }
    if route.endpoint == Endpoint::Readiness {
        let unavailable = object([("status", required(one_of(&["unavailable"])))]);
        responses.insert("503".to_owned(), response("The engine does not answer", Some(unavailable)));
    }
    let security = match route.access {
        Access::Public => json!([]),
        Access::Key => json!([{"key": []}]),
        Access::KeyOrClient => json!([{"key": [], "client": []}, {"key": []}]),
        Access::Client => json!([{"key": [], "client": []}]),
    };
    let id = format!("{:?}", route.endpoint);
    let mut operation = json!({
        "summary": summary, "operationId": id, "security": security, "parameters": parameters, "responses": responses,
    });
    if let Some(body) = body {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": body}}});
    }
    operation
}

fn response(text: &str, schema: Option<Json>) -> Json {
    match schema {
        Some(schema) => json!({"description": text, "content": {"application/json": {"schema": schema}}}),
        None => json!({"description": text}),
    }
}

fn refusal(status: u16, text: &str) -> Json {
    let schema = if status == 422 { "Problems" } else { "Refusal" };
    let mut refusal = response(text, Some(json!({"$ref": format!("#/components/schemas/{schema}")})));
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
    json!({
        "parameters": parameters,
        "get": {"summary": "The content of a file", "operationId": "Download", "security": [], "responses": get},
        "put": {"summary": "Upload a file", "operationId": "Upload", "security": [], "requestBody": body, "responses": put},
    })
}
