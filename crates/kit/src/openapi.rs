//! The description of the API (document 4, section 2): every endpoint, from the routes and declarations that serve it.

use crate::caller::Access;
use crate::html::escape;
use crate::path::placeholders;
use crate::route::{Route, Schema};
use crate::table::Table;
use http::Method;
use resource::openapi;
use serde_json::{Map, Value as Json, json};

/// The OpenAPI 3.1 document.
pub fn document(table: &Table) -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for route in table.routes() {
        let operations = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        operations[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Chancery", "version": env!("CARGO_PKG_VERSION"), "description": "Records, workflow and administration of an organisation."},
        "paths": paths,
        "components": {
            "securitySchemes": security_schemes(table),
            "schemas": {"UserReference": openapi::user_reference(), "Errors": errors(), "Messages": messages()},
        },
    })
}

fn security_schemes(table: &Table) -> Json {
    let mut schemes = json!({"jwt": {
        "type": "apiKey", "in": "header", "name": "Authorization",
        "description": "`JWT <access token>`, the token from `POST /api/auth/login/`",
    }});
    if table.routes().any(|route| route.access == Access::ApiKey) {
        schemes["deployment"] = json!({
            "type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The key of the deployment's operators",
        });
    }
    schemes
}

fn errors() -> Json {
    json!({
        "type": "object",
        "description": "`detail` with a text, or the name of each wrong field with its messages",
        "properties": {"error_code": {"type": "string"}},
        "additionalProperties": {"$ref": "#/components/schemas/Messages"},
    })
}

fn messages() -> Json {
    json!({
        "description": "One, several, or those of the parts by their names",
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Messages"}},
        ],
    })
}

fn operation(route: &Route) -> Json {
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "parameters": parameters(route),
        "responses": responses(route),
    });
    let content_type = match route.body {
        Schema::Form(_) => "application/x-www-form-urlencoded",
        Schema::Binary => "application/octet-stream",
        _ => "application/json",
    };
    if !matches!(route.body, Schema::Nothing) {
        let schema = route.body.to_json();
        // No body is an empty object, which will do where no field is required.
        let is_required = schema["type"] != "object" || schema.get("required").is_some();
        operation["requestBody"] = json!({"required": is_required, "content": {content_type: {"schema": schema}}});
    }
    match route.access {
        Access::Public => operation["security"] = json!([]),
        Access::Authenticated => operation["security"] = json!([{"jwt": []}]),
        Access::Permission(resource, action) => {
            operation["security"] = json!([{"jwt": []}]);
            operation["x-permission"] = format!("{resource}.{action}").into();
        }
        Access::Instance(permission) => {
            operation["security"] = json!([{"jwt": []}]);
            operation["x-permission"] = permission.into();
        }
        Access::ApiKey => operation["security"] = json!([{"deployment": []}]),
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let words = route
        .path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "api")
        .map(|part| part.trim_matches(['{', '*', '}']).replace(['-', '.'], "_"));
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.collect::<Vec<_>>().join("_"))
}

fn tag(path: &str) -> &str {
    path.split('/').find(|part| !part.is_empty() && *part != "api").unwrap_or("api")
}

fn parameters(route: &Route) -> Vec<Json> {
    let in_path = placeholders(route.path);
    let mut list: Vec<Json> = in_path
        .map(|(name, kind)| json!({"name": name, "in": "path", "required": true, "schema": kind.schema()}))
        .collect();
    if let Some(declared) = route.selects {
        list.extend(openapi::parameters(declared));
    } else if route.is_list() {
        list.extend(openapi::open_parameters());
    }
    if is_conditional(route) && (route.is_instance() || matches!(route.answer, Schema::Nothing)) {
        list.push(json!({"name": "If-Match", "in": "header", "schema": {"type": "string"}}));
    }
    list
}

/// Whether it changes an instance, which has a state that `If-Match` can name; a collection has none, and operators are
/// not asked for one.
fn is_conditional(route: &Route) -> bool {
    let is_change = matches!(route.method, Method::PATCH | Method::DELETE);
    is_change && !matches!(route.body, Schema::Ids) && route.access != Access::ApiKey
}

fn responses(route: &Route) -> Json {
    let mut responses = Map::new();
    let mut add = |status: u16, text: &str, schema: &Schema| {
        let response = responses.entry(status.to_string()).or_insert_with(|| json!({"description": text}));
        let content_type = match schema {
            Schema::Nothing => None,
            Schema::Html => Some("text/html"),
            Schema::Binary => Some("application/octet-stream"),
            _ => Some("application/json"),
        };
        if let Some(content_type) = content_type {
            response["content"][content_type]["schema"] = schema.to_json();
        }
        if let Some(header) = header(status, schema) {
            response["headers"][header] = json!({"required": true, "schema": {"type": "string"}});
        }
    };
    add(route.status, "Done", &route.answer);
    for (status, schema) in &route.otherwise {
        add(*status, if *status < 400 { "Done" } else { "Refused" }, schema);
    }
    let is_public = route.access == Access::Public;
    let writes = !matches!(route.method, Method::GET | Method::OPTIONS);
    let refusals = [
        (400, "What is wrong with the request", writes || route.selects.is_some() || route.is_list()),
        (401, "Not signed in", !is_public || route.path.starts_with("/api/auth/") || route.optional_sign_in),
        // Of a public POST: to the page of another site.
        (403, "Not allowed", !is_public || route.optional_sign_in || writes),
        (404, "Not found", route.path.contains('{')),
        (408, "The body did not arrive in time", writes),
        (412, "Changed meanwhile", is_conditional(route)),
        (413, "The body is too large", writes),
        (415, "Not JSON", writes && !matches!(route.body, Schema::Binary)),
        (429, "Too many requests", is_public && writes),
        (503, "Busy or not available; try again", true),
    ];
    for (status, text, _) in refusals.into_iter().filter(|(_, _, when)| *when) {
        add(status, text, &Schema::Refusal);
    }
    if matches!(route.answer, Schema::Html) && writes {
        for status in [400, 401, 429] {
            add(status, "The page, with what is wrong", &Schema::Html);
        }
    }
    Json::Object(responses)
}

/// The header that an answer always has.
fn header(status: u16, schema: &Schema) -> Option<&'static str> {
    match (status, schema) {
        (200 | 201, Schema::One(_) | Schema::OneOf(_)) => Some("ETag"),
        (302, _) => Some("Location"),
        (401, Schema::Refusal) => Some("WWW-Authenticate"),
        (429 | 503, Schema::Refusal) => Some("Retry-After"),
        _ => None,
    }
}

/// The description as a page without scripts.
pub fn html(table: &Table) -> String {
    let mut body = String::new();
    let mut last = "";
    for route in table.routes().filter(|route| route.method != Method::OPTIONS) {
        let tag = tag(route.path);
        if tag != last {
            body.push_str(&format!("<h2 id=\"{tag}\">{}</h2>", escape(tag)));
            last = tag;
        }
        let access = match route.access {
            Access::Public => "public".to_owned(),
            Access::Authenticated => "signed in".to_owned(),
            Access::Permission(resource, action) => format!("{resource}.{action}"),
            Access::Instance(permission) => permission.to_owned(),
            Access::ApiKey => "X-API-Key".to_owned(),
        };
        body.push_str(&format!(
            "<details><summary><b>{}</b> <code>{}</code> {} <small>{}</small></summary>{}{}</details>",
            route.method,
            escape(route.path),
            escape(route.summary),
            escape(&access),
            described("Request", &route.body),
            described("Answer", &route.answer),
        ));
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>API · Chancery</title>\
         <style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2430}}\
         details{{border-bottom:1px solid #dde1e7;padding:.3rem 0}}small{{color:#5a6675}}pre{{overflow:auto;background:#f6f7f9;padding:.6rem}}</style></head>\
         <body><h1>Chancery API</h1><p>The machine-readable form is <a href=\"/api/openapi.json\">openapi.json</a>. \
         Sign in with <code>POST /api/auth/login/</code> and send <code>Authorization: JWT &lt;access token&gt;</code>.</p>{body}</body></html>"
    )
}

fn described(title: &str, schema: &Schema) -> String {
    match schema {
        Schema::Nothing | Schema::Html | Schema::Binary | Schema::Refusal => String::new(),
        schema => format!(
            "<h4>{title}</h4><pre>{}</pre>",
            escape(&serde_json::to_string_pretty(&schema.to_json()).unwrap_or_default())
        ),
    }
}
