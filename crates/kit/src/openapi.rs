//! The description of the API (`docs/reference/descriptions.md`): every endpoint, from the routes and declarations that serve it.
//!
//! | | |
//! |---|---|
//! | readers | [`Audience`]: everybody, or generators of clients |
//! | name of an operation | [`operation_id`]: `users.list`, `users.send_activation_link` |
//! | shared parts | [`openapi::share`]: schemas with a title, and repeated parameters and answers |

use crate::caller::RouteAccess;
use crate::domain::registered;
use crate::idempotency::sent_key::KeySupport;
use crate::jobs;
use crate::path::placeholders;
use crate::refusal;
use crate::route::{Route, Schema};
use crate::table::Table;
use http::Method;
use resource::openapi;

pub use resource::openapi::Audience;
use serde_json::{Map, Value as Json, json};

/// The tag of the health operations.
const SERVICE: &str = "service";

/// The tags of operations that do not belong to a module.
const TAGS: [(&str, &str); 3] = [
    ("description", "Description of the API: this document, and its page."),
    ("pages", "Pages for people: signing in, activating an account, choosing a new password."),
    (SERVICE, "Health of the service."),
];

const DESCRIPTION: &str = "Records, workflow and administration of an organisation.

Sign in with `POST /api/auth/login/` and send the access token as `Authorization: Bearer <access token>`, or as \
`Authorization: JWT <access token>`, which means the same. Each build (tenant) has a host of its own, which chooses it.

Lists answer a page at a time; `limit` and `offset` choose it, filters and `ordering` what is in it. A change may be made \
to depend on the state that was read: send the `ETag` of the answer as `If-Match`, and the change is refused with 412 if \
somebody else was faster. What is wrong with a request is answered with 400 and the messages of each field.";

/// The OpenAPI 3.1 document.
pub fn document(table: &Table, audience: Audience) -> Json {
    let mut paths: Map<String, Json> = Map::new();
    let mut tags: Vec<&str> = Vec::new();
    for route in table.routes().filter(|route| audience == Audience::All || !is_internal(route)) {
        let operations = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        operations[route.method.as_str().to_ascii_lowercase()] = operation(table, route);
        if !tags.contains(&tag(route.path)) {
            tags.push(tag(route.path));
        }
    }
    paths.extend(health());
    tags.push(SERVICE);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Chancery",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": "Apache License 2.0", "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/", "description": "The server of this document"}],
        "tags": tags.into_iter().map(described_tag).collect::<Vec<_>>(),
        "paths": paths,
        "components": {"securitySchemes": security_schemes(table, audience)},
    });
    openapi::share(&mut document);
    document
}

/// Returns the OpenAPI 3.1 document of some operations, for a resource that a build has declared. `describe` gets the path and
/// the operation of a route from the document for all classes. It returns those of the resource, or `None` to omit the route.
pub fn document_of(
    table: &Table,
    title: &str,
    description: &str,
    describe: impl Fn(&Route, Json) -> Option<(String, Json)>,
) -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for route in table.routes() {
        if let Some((path, operation)) = describe(route, operation(table, route)) {
            let operations = paths.entry(path).or_insert_with(|| json!({}));
            operations[route.method.as_str().to_ascii_lowercase()] = operation;
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": title, "version": env!("CARGO_PKG_VERSION"), "description": description},
        "servers": [{"url": "/", "description": "The server of this document"}],
        "paths": paths,
        "components": {"securitySchemes": security_schemes(table, Audience::Clients)},
    });
    openapi::share(&mut document);
    document
}

/// Returns whether clients do not call a route: a schema document, or a page for people.
fn is_internal(route: &Route) -> bool {
    let is_page = |schema: &Schema| matches!(schema, Schema::Html | Schema::Form(_) | Schema::Multipart(_));
    let answers = || std::iter::once(&route.answer).chain(route.otherwise.iter().map(|(_, schema)| schema));
    route.is_internal || route.method == Method::OPTIONS || is_page(&route.body) || answers().any(is_page)
}

fn described_tag(name: &str) -> Json {
    let of_domains = registered().iter().flat_map(|domain| domain.tags);
    let text = TAGS.iter().chain(of_domains).find(|(tag, _)| *tag == name).map_or("", |(_, text)| *text);
    json!({"name": name, "description": text})
}

fn security_schemes(table: &Table, audience: Audience) -> Json {
    let mut schemes = json!({
        "bearer": {
            "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
            "description": "The access token from `POST /api/auth/login/`",
        },
        "jwt": {
            "type": "apiKey", "in": "header", "name": "Authorization",
            "description": "`JWT <access token>`, which means the same as `Bearer <access token>`",
        },
    });
    if audience == Audience::All {
        for (name, description) in table.routes().filter_map(|route| Some(route.own_admission?.scheme)) {
            schemes[name] = json!({"type": "http", "scheme": "bearer", "description": description});
        }
    }
    if table.routes().any(|route| route.access == RouteAccess::ApiKey) {
        schemes["deployment"] = json!({
            "type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The key of the deployment's operators",
        });
    }
    schemes
}

fn operation(table: &Table, route: &Route) -> Json {
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "parameters": parameters(table, route),
        "responses": responses(table, route),
    });
    if is_internal(route) {
        operation["x-internal"] = true.into();
    }
    let content_type = match route.body {
        Schema::Form(_) => "application/x-www-form-urlencoded",
        Schema::Multipart(_) => "multipart/form-data",
        Schema::Binary => "application/octet-stream",
        _ => route.media_type.unwrap_or("application/json"),
    };
    if !matches!(route.body, Schema::Nothing) {
        let schema = route.body.to_json();
        // An absent body is an empty object, which is valid if no field is required.
        let is_required = schema["type"] != "object" || schema.get("required").is_some();
        operation["requestBody"] = json!({"required": is_required, "content": {content_type: {"schema": schema}}});
    }
    let signed_in = [json!({"bearer": []}), json!({"jwt": []})];
    operation["security"] = match route.access {
        RouteAccess::Public if route.optional_sign_in => [json!({})].into_iter().chain(signed_in).collect(),
        RouteAccess::Public => json!([]),
        RouteAccess::ApiKey => json!([{"deployment": []}]),
        _ if let Some(own) = route.own_admission => json!([{own.scheme.0: []}]),
        _ => json!(signed_in),
    };
    match route.access {
        RouteAccess::Permission(resource, action) => operation["x-permission"] = format!("{resource}.{action}").into(),
        RouteAccess::Instance(permission) => operation["x-permission"] = permission.into(),
        _ => {}
    }
    operation
}

/// Returns the words of a path, without `api` and placeholders, then the action of the route.
fn operation_id(route: &Route) -> String {
    let names = words(route.path).filter(|word| !word.starts_with('{'));
    let names = names.map(|word| word.trim_end_matches(".json").replace(['-', '.'], "_"));
    let prefix = if is_of_api(route.path) { None } else { Some("pages".to_owned()) };
    let action = route.action.or(matches!(route.body, Schema::Form(_) | Schema::Multipart(_)).then_some("submit"));
    prefix.into_iter().chain(names).chain(action.map(str::to_owned)).collect::<Vec<_>>().join(".")
}

/// Returns the health operations. They are the same for every host.
fn health() -> [(String, Json); 2] {
    let operation = |name: &str, summary: &str, schema: fn() -> Json| {
        let mut responses = Map::new();
        add(&mut responses, 200, &Schema::Json(schema), "application/json");
        if name == "readyz" {
            add(&mut responses, 503, &Schema::Json(unready_schema), "application/json");
        }
        let operation = json!({
            "summary": summary, "operationId": name, "tags": [SERVICE], "parameters": [], "responses": responses,
            "security": [],
        });
        (format!("/{name}"), json!({"get": operation}))
    };
    [
        operation("healthz", "Liveness of the process", || openapi::titled("Health", openapi::object([status_ok()]))),
        operation("readyz", "Readiness of the stores, and numbers of waiting work", readiness_schema),
    ]
}

/// Returns the schema of a 503 of `/readyz`: a refusal if the database fails, the whole state if the store of files fails.
fn unready_schema() -> Json {
    let mut schema = readiness_schema();
    schema["properties"]["status"] = json!({"type": "string", "enum": ["unavailable"]});
    openapi::titled("Unready", json!({"anyOf": [refusal::schema(), openapi::titled("UnreadyState", schema)]}))
}

fn status_ok() -> (&'static str, Json) {
    ("status", json!({"type": "string", "enum": ["ok"]}))
}

fn readiness_schema() -> Json {
    let mut schema = openapi::object([status_ok(), ("jobs", jobs::health_schema())]);
    for (name, of_domain) in registered().iter().filter_map(|domain| domain.health_schema) {
        schema["properties"][name] = of_domain();
    }
    schema["properties"]["warnings"] = json!({
        "type": "array", "items": {"type": "string"}, "description": "Problems that an operator should solve",
    });
    openapi::titled("Readiness", schema)
}

fn words(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|word| !word.is_empty() && *word != "api")
}

fn is_of_api(path: &str) -> bool {
    path.starts_with("/api/") || path.starts_with("/ui-config/")
}

fn tag(path: &str) -> &str {
    match words(path).next() {
        _ if path == "/" => "description",
        _ if !is_of_api(path) => "pages",
        None | Some("openapi.json" | "docs") => "description",
        Some(word) => word,
    }
}

fn parameters(table: &Table, route: &Route) -> Vec<Json> {
    let in_path = placeholders(route.path);
    let mut list: Vec<Json> = in_path
        .map(|(name, kind)| json!({"name": name, "in": "path", "required": true, "schema": kind.schema()}))
        .collect();
    match (route.parameters, route.selects) {
        (Some(parameters), _) => list.extend(parameters()),
        (None, Some(declared)) => list.extend(openapi::parameters(declared)),
        (None, None) if route.is_list() => list.extend(openapi::open_parameters()),
        (None, None) => {}
    }
    if is_conditional(table, route) {
        list.push(json!({
            "name": "If-Match", "in": "header", "schema": {"type": "string"},
            "description": "The `ETag` of the state that is to be changed; 412 if it is another by now",
        }));
    }
    if is_repeatable(route) {
        list.push(openapi::if_none_match());
    }
    if route.key_support() == KeySupport::Stored {
        list.push(json!({
            "name": "Idempotency-Key", "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            "description": "A name of the request. Within 24 hours a repetition has no effect and gets the first answer",
        }));
    }
    list
}

/// Returns whether a route changes an instance whose path answers an `ETag`, so that `If-Match` can
/// name the state. A collection has no `ETag`, and operators do not need one.
fn is_conditional(table: &Table, route: &Route) -> bool {
    let has_state = |is_read: fn(&Route) -> bool| {
        let routes_at_path = || table.routes().filter(|candidate| candidate.path == route.path && !candidate.is_list());
        routes_at_path().any(|candidate| candidate.is_tagged() && is_read(candidate))
    };
    let changes_state = match route.method {
        Method::PATCH | Method::PUT | Method::DELETE => has_state(|_| true),
        // A POST to the path of an instance replaces it.
        Method::POST => {
            has_state(|candidate| candidate.method == Method::GET) && matches!(route.body, Schema::Body(..))
        }
        _ => false,
    };
    changes_state && !matches!(route.body, Schema::Ids) && route.access != RouteAccess::ApiKey
}

/// Returns whether a route answers 304 to clients that have the current state.
fn is_repeatable(route: &Route) -> bool {
    route.method == Method::GET && route.is_tagged()
}

/// The meaning of a refusal, by its status.
const REFUSALS: [(u16, &str); 13] = [
    (400, "Errors of the request"),
    (401, "Not signed in, or not known"),
    (403, "Not allowed"),
    (404, "Not found; also when no build (tenant) has this host"),
    (408, "The body did not arrive in time"),
    (409, "A request with the same `Idempotency-Key` is at work; `Retry-After` says when to try again"),
    (412, "Changed meanwhile: `If-Match` names another state"),
    (413, "The body is too large"),
    (415, "Not JSON"),
    (416, "The range begins behind the end of the file"),
    (422, "The `Idempotency-Key` was used with another body"),
    (429, "Too many requests; `Retry-After` says when to try again"),
    (503, "Busy or not available; try again"),
];

fn responses(table: &Table, route: &Route) -> Json {
    let mut responses = Map::new();
    let json = route.media_type.unwrap_or("application/json");
    let mut add = |status: u16, schema: &Schema| add(&mut responses, status, schema, json);
    add(route.status, &route.answer);
    for (status, schema) in &route.otherwise {
        add(*status, schema);
    }
    let is_public = route.access == RouteAccess::Public;
    let writes = !matches!(route.method, Method::GET | Method::OPTIONS);
    // Pages and downloads ignore wrong parameters.
    let is_lenient = route.answers_pages() || matches!(route.answer, Schema::File);
    let has_checked_parameters = route.parameters.is_some() && !is_lenient;
    let takes_key = route.key_support() == KeySupport::Stored;
    let refusals = [
        (400, writes || route.selects.is_some() || has_checked_parameters || route.is_list()),
        (401, !is_public || route.path.starts_with("/api/auth/") || route.optional_sign_in),
        // A public POST refuses the page of another site.
        (403, !is_public || route.optional_sign_in || writes),
        (404, true),
        (408, writes),
        (409, takes_key),
        (412, is_conditional(table, route)),
        (413, writes),
        (415, writes && !matches!(route.body, Schema::Binary)),
        (422, takes_key),
        (429, route.may_throttle()),
        (503, true),
    ];
    let refusal = if route.answers_pages() { Schema::Html } else { Schema::Refusal };
    for (status, _) in refusals.into_iter().filter(|(_, is_possible)| *is_possible) {
        add(status, &refusal);
    }
    if matches!(route.answer, Schema::Html) && writes {
        for status in [400, 401, 429] {
            add(status, &Schema::Html);
        }
    }
    if route.is_tagged() {
        responses[&route.status.to_string()]["headers"]["ETag"] = openapi::etag();
    }
    if is_repeatable(route) {
        responses.insert("304".to_owned(), openapi::not_modified());
    }
    Json::Object(responses)
}

/// Adds an answer to those of an operation, with the content type of JSON. A status may have several content types.
fn add(responses: &mut Map<String, Json>, status: u16, schema: &Schema, json: &'static str) {
    let text = REFUSALS.iter().find(|(refusal_status, _)| *refusal_status == status).map_or("Done", |(_, text)| *text);
    let response = responses.entry(status.to_string()).or_insert_with(|| json!({"description": text}));
    let content_types: &[&str] = match schema {
        Schema::Nothing => &[],
        Schema::Html => &["text/html"],
        Schema::Binary => &["application/octet-stream"],
        // The header names the first type. Generators of clients recognize the second one as a file.
        Schema::File => &["application/force-download", "application/octet-stream"],
        Schema::Text(types) => types,
        _ => &[json],
    };
    for content_type in content_types {
        let is_about_fields = status == 400 && matches!(schema, Schema::Refusal);
        response["content"][content_type]["schema"] =
            if is_about_fields { refusal::errors_schema() } else { schema.to_json() };
    }
    if let Some((header, text)) = header(status, schema) {
        let described = json!({"required": true, "description": text, "schema": {"type": "string"}});
        response["headers"][header] = described;
    }
}

/// Returns the header that an answer of a kind always has, and its description.
fn header(status: u16, schema: &Schema) -> Option<(&'static str, &'static str)> {
    match (status, schema) {
        (302, _) => Some(("Location", "The next address")),
        (206, _) => Some(("Content-Range", "Which part of how many bytes")),
        (416, _) => Some(("Content-Range", "`bytes */` and how many the file has")),
        (401, Schema::Refusal) => Some(("WWW-Authenticate", "`JWT`")),
        (409 | 429 | 503, Schema::Refusal) => Some(("Retry-After", "Seconds")),
        _ => None,
    }
}
