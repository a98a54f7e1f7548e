//! `GET /api/openapi.json`: every endpoint, from the routes, fields and filters that serve it.

use crate::files::CONTENT_PATH;
use crate::service::{API_KEY, Access, CLIENT_ID, EVENT_ID, Endpoint, ROUTES, Route};
use crate::{batch, create_event, event_files, lists, tenants};
use serde_json::{Map, Value as Json, json};

/// The OpenAPI 3.1 document of a service that takes so many events in a batch.
pub fn document(batch_events: usize) -> Json {
    let mut paths = Map::new();
    for route in &ROUTES {
        paths.insert(
            route.path.to_owned(),
            json!({route.method.as_str().to_ascii_lowercase(): operation(route, batch_events)}),
        );
    }
    paths.insert(format!("{CONTENT_PATH}{{database_name}}/{{file_id}}"), content());
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
            "schemas": {"Refusal": object([("detail", needed(text()))]), "Problems": problems()},
        },
    })
}

/// Whether a field must be sent, or is always answered, and its schema.
pub type Field = (bool, Json);

/// A field that must be there.
pub fn needed(schema: Json) -> Field {
    (true, schema)
}

/// A field that may be missing.
pub fn optional(schema: Json) -> Field {
    (false, schema)
}

/// An object of fields.
pub fn object<const N: usize>(fields: [(&str, Field); N]) -> Json {
    let required: Vec<&str> = fields.iter().filter(|(_, (needed, _))| *needed).map(|(name, _)| *name).collect();
    let properties: Map<String, Json> =
        fields.iter().map(|(name, (_, schema))| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// A string.
pub fn text() -> Json {
    json!({"type": "string"})
}

/// A whole number of 64 bits.
pub fn int() -> Json {
    json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX})
}

/// A UUID.
pub fn uuid() -> Json {
    json!({"type": "string", "format": "uuid"})
}

/// A moment.
pub fn moment() -> Json {
    json!({"type": "string", "format": "date-time", "description": "From 1900 to 2299"})
}

/// The number of a name; the first has the number 1.
pub fn member(names: &[&str]) -> Json {
    json!({"type": "integer", "minimum": 1, "maximum": names.len(), "description": names.join(", ")})
}

/// The number of a name, or 0 for none.
pub fn member_or_zero(names: &[&str]) -> Json {
    let mut schema = member(names);
    schema["minimum"] = 0.into();
    schema
}

/// What may be null, too.
pub fn nullable(mut schema: Json) -> Json {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

fn problems() -> Json {
    let place = json!({"type": "array", "items": {"type": ["string", "integer"]}});
    let problem = object([("loc", needed(place)), ("msg", needed(text())), ("type", needed(text()))]);
    object([("detail", needed(json!({"type": "array", "minItems": 1, "items": problem})))])
}

fn list(item: Json) -> Json {
    object([
        ("limit", needed(int())),
        ("offset", needed(int())),
        ("total_count", needed(int())),
        ("filtered_count", needed(int())),
        ("results", needed(json!({"type": "array", "items": item}))),
    ])
}

/// What is told of an endpoint beyond its route: summary, parameters, body, and the answer with its status.
fn told(endpoint: Endpoint, batch_events: usize) -> (&'static str, Vec<Json>, Option<Json>, u16, Option<Json>) {
    let status = |words: &[&str]| object([("status", needed(json!({"type": "string", "enum": words})))]);
    let created = |summary, (body, answer)| (summary, Vec::new(), Some(body), 201, Some(answer));
    match endpoint {
        Endpoint::Health => ("Whether the process answers", Vec::new(), None, 200, Some(status(&["ok"]))),
        Endpoint::Readiness => ("Whether the engine answers", Vec::new(), None, 200, Some(status(&["ok"]))),
        Endpoint::Description => ("This description", Vec::new(), None, 200, Some(json!({"type": "object"}))),
        Endpoint::CreateEvent => created("Store a history event", create_event::schemas()),
        Endpoint::Batch => created("Store system events", batch::schemas(batch_events)),
        Endpoint::Initialize => created("Make a tenant", tenants::schemas()),
        Endpoint::SystemEvents => {
            ("List of system events", lists::system_parameters(), None, 200, Some(list(lists::system_event())))
        }
        Endpoint::HistoryEvents => {
            ("List of history events", lists::history_parameters(), None, 200, Some(list(lists::history_event())))
        }
        Endpoint::EventFile => {
            let name = EVENT_ID.trim_matches(['{', '}']);
            let id = json!({"name": name, "in": "path", "required": true, "schema": uuid()});
            ("Redirect to the file of an event", vec![id], None, 302, None)
        }
        Endpoint::Delete => ("Delete a tenant with its events and files", Vec::new(), None, 204, None),
        Endpoint::UploadUrl => {
            ("An address that takes the content of a new file", Vec::new(), None, 200, Some(event_files::address()))
        }
    }
}

fn operation(route: &Route, batch_events: usize) -> Json {
    let (summary, parameters, body, status, answer) = told(route.endpoint, batch_events);
    let mut responses = Map::new();
    responses.insert(status.to_string(), response("Done", answer));
    if status == 302 {
        responses["302"]["headers"]["Location"] = json!({"required": true, "schema": text()});
    }
    let has_key = route.access != Access::Public;
    let has_tenant = matches!(route.access, Access::Client | Access::KeyOrClient);
    let is_list = matches!(route.endpoint, Endpoint::HistoryEvents | Endpoint::SystemEvents);
    let refusals = [
        (400, "Refused: the tenant, or a body that is no JSON", has_tenant || body.is_some()),
        (401, "Not the key", has_key),
        (404, "Not found", route.endpoint == Endpoint::EventFile),
        (408, "The body did not come in time", body.is_some()),
        (413, "The body is too large", body.is_some()),
        (415, "An unknown content encoding", body.is_some()),
        (422, "What is wrong with the values", body.is_some() || is_list),
        (500, "The engine failed", has_key),
        (503, "Out of reach; try again", has_key),
    ];
    for (status, text, _) in refusals.into_iter().filter(|(_, _, when)| *when) {
        responses.insert(status.to_string(), refusal(status, text));
    }
    if route.endpoint == Endpoint::Readiness {
        let unavailable = object([("status", needed(json!({"type": "string", "enum": ["unavailable"]})))]);
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

/// The signed addresses of files in the data directory.
fn content() -> Json {
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
