//! `GET /api/openapi.json`: the description of every endpoint, and the names in generated clients.

use crate::TestServer;
use crate::message;
use crate::routes::{compare, create_rows, routes, with_ids, with_ids_of};
use http::Method;
use platform::kit::openapi::{self, Audience};
use platform::kit::route::Route;
use platform::table;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::API_KEY;

#[test]
fn each_operation_has_a_name_of_its_own() {
    let document = openapi::document(table(), Audience::All);
    let ids: Vec<&str> =
        operations(&document).map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "each operation has a name of its own");
    assert_eq!(ids.len(), routes().len() + HEALTH.len());
}

/// Clients put the operations of a group into a module, whose name cannot also be a function.
#[test]
fn no_name_of_an_operation_is_that_of_a_group() {
    for document in [openapi::document(table(), Audience::All), history::openapi::document(10_000, Audience::All)] {
        let ids: BTreeSet<&str> =
            operations(&document).map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect();
        for id in &ids {
            let of_group = ids.iter().find(|other| other.strip_prefix(id).is_some_and(|rest| rest.starts_with('.')));
            assert_eq!(of_group, None, "{id}");
        }
    }
}

/// The addresses that are answered on every host. They are not in a table of routes.
const HEALTH: [&str; 2] = ["GET /healthz", "GET /readyz"];

#[tokio::test]
async fn health_is_described_as_it_is_answered() {
    let server = TestServer::start().await;
    let document = openapi::document(table(), Audience::All);
    let schemas = &document["components"]["schemas"];
    for (path, schema) in [("/healthz", "Health"), ("/readyz", "Readiness")] {
        let described = &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(*described, json!({"$ref": format!("#/components/schemas/{schema}")}));
        let answer = server.anonymous().get(path).await.ok();
        let properties = schemas[schema]["properties"].as_object().unwrap();
        assert!(answer.as_object().unwrap().keys().all(|name| properties.contains_key(name)), "{answer}");
        for name in schemas[schema]["required"].as_array().unwrap() {
            assert!(answer.get(name.as_str().unwrap()).is_some(), "{answer}");
        }
        let described: Vec<&String> =
            answer.get("jobs").map(|jobs| jobs.as_object().unwrap().keys().collect()).unwrap_or_default();
        let expected = if path == "/readyz" { vec!["waiting", "running", "failed"] } else { Vec::new() };
        assert_eq!(described, expected);
        let described = answer.get("files").map(|files| files["status"].clone());
        assert_eq!(described, (path == "/readyz").then(|| json!("ok")));
    }
    let of_delivery = &schemas["Readiness"]["properties"]["history"]["properties"];
    let names: Vec<&String> = of_delivery.as_object().unwrap().keys().collect();
    assert_eq!(names, ["waiting", "lag_seconds", "is_reachable", "refused", "warning"]);
}

/// Returns whether an operation has a parameter of this name. Resolves shared parameters.
fn has_parameter(document: &Value, operation: &Value, name: &str) -> bool {
    operation["parameters"].as_array().unwrap().iter().any(|parameter| {
        let shared = parameter["$ref"].as_str().map(|address| document.pointer(&address[1..]).unwrap());
        shared.unwrap_or(parameter)["name"] == name
    })
}

/// Returns the answer of an operation with this status, if it is described.
fn answer_with<'a>(document: &'a Value, operation: &'a Value, status: &str) -> Option<&'a Value> {
    responses(document, operation).find(|(of, _)| *of == status).map(|(_, answer)| answer)
}

fn operation<'a>(document: &'a Value, route: &Route) -> &'a Value {
    &document["paths"][route.path.replace("{*", "{")][route.method.as_str().to_ascii_lowercase()]
}

#[tokio::test]
async fn reads_with_an_etag_are_described_with_it_and_with_304() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await.with_header("x-api-key", API_KEY);
    let document = openapi::document(table(), Audience::All);
    let mut tagged = 0;
    for route in routes().into_iter().filter(|route| route.method == Method::GET) {
        let path = with_ids_of(&server, route.path, &[1]).await;
        let reply = admin.get(&path).await;
        if reply.status != route.status {
            continue;
        }
        let (has_tag, operation) = (!reply.header("etag").is_empty(), operation(&document, route));
        let shown = answer_with(&document, operation, "200").map_or(&Value::Null, |answer| &answer["headers"]["ETag"]);
        assert_eq!(shown.is_object(), has_tag, "{path}: {shown}");
        assert_eq!(has_parameter(&document, operation, "If-None-Match"), has_tag, "{path}");
        let unchanged = answer_with(&document, operation, "304");
        assert_eq!(unchanged.is_some(), has_tag, "{path}");
        if let Some(unchanged) = unchanged {
            assert_eq!(unchanged.get("content"), None, "{path}");
            let known = admin.call("GET", &path).header("if-none-match", reply.header("etag")).send().await;
            assert_eq!((known.status, known.text.as_str()), (304, ""), "{path}");
            tagged += 1;
        }
    }
    assert!(tagged > 15, "{tagged}");
    let components = &document["components"];
    assert_eq!(components["parameters"]["header.If-None-Match"]["schema"], json!({"type": "string"}));
    assert_eq!(components["responses"]["NotModified"]["headers"]["ETag"]["required"], true);
}

#[tokio::test]
async fn where_412_is_described_another_state_is_answered_with_it() {
    let server = TestServer::start().await;
    create_rows(&server, 2).await;
    let admin = server.admin().await;
    let session = admin.get("/api/users/me/sessions/").await.ok()["results"][0]["id"].as_i64().unwrap();
    let sets = admin.get("/api/user-groups/2/permission-sets/").await.ok();
    let set = sets["results"][0]["id"].as_i64().unwrap();
    let service = admin.get("/api/users/?account_type=service_external").await.ids()[0];
    let comment = admin.post("/api/tasks/2/comments/", json!({"text": "Said"})).await.id();
    let document = openapi::document(table(), Audience::All);
    let mut conditional = Vec::new();
    for route in routes() {
        let (operation, name) = (operation(&document, route), format!("{} {}", route.method, route.path));
        let is_conditional = answer_with(&document, operation, "412").is_some();
        assert_eq!(has_parameter(&document, operation, "If-Match"), is_conditional, "{name}");
        // Directories have tokens of their own (`crates/scim/tests/api/users.rs`).
        if is_conditional && route.own_admission.is_none() {
            let path = match route.path {
                "/api/users/{user_id}/api-keys/{id}/" => with_ids(route.path, &[service, 2]),
                "/api/object-records/{record_id}/comments/{comment_id}/" => with_ids(route.path, &[2, 2]),
                "/api/tasks/{task_id}/comments/{comment_id}/" => with_ids(route.path, &[2, comment]),
                path => with_ids_of(&server, path, &[2, set]).await,
            };
            let call = admin.call(route.method.as_str(), &path).header("if-match", "\"x\"");
            let reply = match route.method {
                Method::DELETE => call,
                Method::PATCH => call.json(&json!({})),
                // The server checks the new value of these first.
                _ => call.json(&json!({"value": 1, "content": "1"})),
            };
            let reply = reply.send().await;
            assert_eq!(reply, (412, message::detail("Object has been changed.")), "{name}");
            conditional.push(name);
        }
    }
    assert!(conditional.len() > 12, "{conditional:?}");
    // A session has no address that can be read, so it has no ETag.
    assert!(!conditional.contains(&"DELETE /api/users/me/sessions/{id}/".to_owned()));
    let end = admin.call("DELETE", &format!("/api/users/me/sessions/{session}/")).header("if-match", "\"x\"");
    end.send().await.expect_empty();
}

#[test]
fn query_parameters_are_described() {
    let document = openapi::document(table(), Audience::All);
    let address = "/api/single-sign-on/{id}";
    for (path, names) in [("callback", vec!["state", "code", "error", "iss"]), ("logout", vec!["ticket"])] {
        let operation = &document["paths"][format!("{address}/{path}/")]["get"];
        for name in names {
            assert!(has_parameter(&document, operation, name), "{path}: {name}");
        }
    }
}

#[test]
fn the_detail_of_a_refusal_may_be_a_list() {
    let document = openapi::document(table(), Audience::All);
    let detail = &document["components"]["schemas"]["Errors"]["properties"]["detail"];
    // The form of `POST /api/single-sign-on/` above its limit.
    assert_eq!(detail["anyOf"], json!([{"type": "string"}, {"type": "array", "items": {"type": "string"}}]));
}

/// Calls a function with every object in a document, and its path.
fn each_object(value: &Value, place: &str, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| each_object(item, &format!("{place}/{at}"), visit));
        }
        Value::Object(members) => {
            visit(place, value);
            members.iter().for_each(|(name, member)| each_object(member, &format!("{place}/{name}"), visit));
        }
        _ => {}
    }
}

/// Returns the documents of both services, with the names of the services.
fn documents() -> [(&'static str, Value); 2] {
    [
        ("main", openapi::document(table(), Audience::All)),
        ("history", history::openapi::document(10_000, Audience::All)),
    ]
}

/// Generators of Go and TypeScript create a type for each member.
#[test]
fn each_member_of_any_of_has_a_type() {
    for (service, document) in documents() {
        each_object(&document, service, &mut |place, object| {
            for member in object["anyOf"].as_array().into_iter().flatten() {
                assert!(member.get("type").is_some() || member.get("$ref").is_some(), "{place}: {member}");
            }
        });
    }
}

#[test]
fn a_required_property_is_named_once() {
    for (service, document) in documents() {
        each_object(&document, service, &mut |place, object| {
            let required: Vec<&str> =
                object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert_eq!(required.iter().collect::<BTreeSet<_>>().len(), required.len(), "{place}: {required:?}");
        });
    }
}

/// Go names the constructor of `Role` `NewRole`.
#[test]
fn no_schema_is_new_and_the_name_of_another() {
    for (service, document) in documents() {
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys() {
            assert!(name.strip_prefix("New").is_none_or(|of| !schemas.contains_key(of)), "{service}: {name}");
        }
        for name in ["McpConnectorCreated", "CustomComponentRepositoryCreated", "CustomComponentRepositoryImport"] {
            assert!(service != "main" || schemas.contains_key(name), "{name}");
        }
    }
}

#[test]
fn non_empty_strings_and_lists_have_a_minimum_length() {
    let document = openapi::document(table(), Audience::All);
    let schemas = &document["components"]["schemas"];
    for (schema, names) in [
        ("Login", vec!["username", "password"]),
        ("Refresh", vec!["refresh_token"]),
        ("Activation", vec!["token", "password"]),
        ("PasswordReset", vec!["username"]),
        ("Ticket", vec!["ticket"]),
    ] {
        for name in names {
            assert_eq!(schemas[schema]["properties"][name]["minLength"], 1, "{schema}.{name}");
        }
    }
    let ids = &document["paths"]["/api/user-groups/{group_id}/members/users/"]["post"]["requestBody"]["content"];
    let ids = &ids["application/json"]["schema"];
    assert_eq!(*ids, json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}));
}

#[test]
fn messages_of_a_field_may_be_a_text() {
    let document = openapi::document(table(), Audience::All);
    let members = &document["components"]["schemas"]["Errors"]["additionalProperties"]["anyOf"];
    let types: Vec<&Value> = members.as_array().unwrap().iter().map(|member| &member["type"]).collect();
    assert_eq!(types, [&json!("string"), &json!("array"), &Value::Null]);
    assert_eq!(members[2], json!({"$ref": "#/components/schemas/Errors"}));
}

/// In tests, the server answers with an error if a handler refuses with 429 and its route does not declare it.
#[test]
fn rate_limited_operations_describe_status_429() {
    let document = openapi::document(table(), Audience::All);
    for (path, method) in [
        ("/api/auth/login/", "post"),
        ("/api/single-sign-on/{id}/link/", "post"),
        ("/api/single-sign-on/{id}/test/", "post"),
        ("/api/users/{id}/send-activation-link/", "post"),
    ] {
        assert!(answer_with(&document, &document["paths"][path][method], "429").is_some(), "{method} {path}");
    }
}

#[test]
fn downloads_are_files_for_generators() {
    let document = openapi::document(table(), Audience::All);
    let answer = &document["paths"]["/api/files/public-storage/{uuid}/"]["get"]["responses"]["200"]["content"];
    for content_type in ["application/force-download", "application/octet-stream"] {
        assert_eq!(answer[content_type]["schema"], json!({"type": "string", "format": "binary"}), "{content_type}");
    }
}

#[test]
fn a_user_reference_names_the_types_of_accounts() {
    let document = openapi::document(table(), Audience::All);
    let schemas = &document["components"]["schemas"];
    let [of_user, of_reference] = ["User", "UserReference"].map(|name| &schemas[name]["properties"]["account_type"]);
    assert_eq!(of_reference["enum"].as_array().unwrap().len(), 7);
    assert_eq!(of_reference["enum"], of_user["enum"]);
}

/// Returns the operations of a document, each with its method and path.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, operations)| {
        let named = move |(method, operation): (&String, _)| (format!("{} {path}", method.to_uppercase()), operation);
        operations.as_object().unwrap().iter().map(named)
    })
}

/// Code of clients contains these names, so a change of a name must be deliberate.
#[test]
fn operations_are_named_after_their_paths_and_what_they_do() {
    let document = openapi::document(table(), Audience::Clients);
    let named: Vec<String> = operations(&document)
        .map(|(route, operation)| format!("{route} {}", operation["operationId"].as_str().unwrap()))
        .collect();
    assert_eq!(named.join("\n"), NAMES.trim());
}

/// The addresses below `/api/` that only browsers visit.
const OF_BROWSERS: [&str; 4] = [
    "GET /api/docs/",
    "GET /api/docs/{name}/",
    "GET /api/single-sign-on/{id}/callback/",
    "GET /api/single-sign-on/{id}/logout/",
];

#[test]
fn clients_get_everything_but_pages_and_schema_documents() {
    let (all, for_clients) = (openapi::document(table(), Audience::All), openapi::document(table(), Audience::Clients));
    let is_internal = |operation: &Value| operation["x-internal"] == true;
    let expected: Vec<String> =
        operations(&all).filter(|(_, operation)| !is_internal(operation)).map(|(route, _)| route).collect();
    let named: Vec<String> = operations(&for_clients).map(|(route, _)| route).collect();
    assert_eq!(named, expected);
    for (route, operation) in operations(&all) {
        let is_of_no_client = route.starts_with("OPTIONS ")
            || !route.contains(" /api/") && !route.contains(" /ui-config/") && !HEALTH.contains(&route.as_str())
            // Directories use the schemas of the standard.
            || route.contains(" /api/scim/v2/")
            || OF_BROWSERS.contains(&route.as_str());
        assert_eq!(is_internal(operation), is_of_no_client, "{route}");
    }
}

/// The name of a component is the name of the type in clients.
#[test]
fn bodies_and_answers_are_named_schemas() {
    let document = openapi::document(table(), Audience::Clients);
    let is_named = |schema: &Value| {
        let of_one = |schema: &Value| schema["$ref"].is_string();
        of_one(schema)
            || schema["anyOf"].as_array().is_some_and(|all| all.iter().all(of_one))
            || of_one(&schema["items"])
            || schema["items"] == json!({"type": "integer"})
    };
    for (route, operation) in operations(&document) {
        let body = &operation["requestBody"];
        for (status, answer) in [("body", body)].into_iter().chain(responses(&document, operation)) {
            for (kind, content) in answer["content"].as_object().into_iter().flatten() {
                let (schema, label) = (&content["schema"], format!("{route} {status} {kind}"));
                match kind.as_str() {
                    "application/json" => assert!(is_named(schema), "{label}: {schema}"),
                    "application/octet-stream" | "application/force-download" => {
                        let is_file = answer["content"].get("application/force-download").is_some();
                        let expected = if is_file { json!({"type": "string", "format": "binary"}) } else { json!({}) };
                        assert_eq!(*schema, expected, "{label}");
                    }
                    _ => assert_eq!(*schema, json!({"type": "string"}), "{label}"),
                }
            }
        }
    }
    let user = &document["components"]["schemas"]["User"];
    assert_eq!(
        user["properties"]["_meta"]["properties"]["permissions"]["required"],
        json!(["list", "view", "create", "edit", "delete"])
    );
    assert_eq!(
        document["components"]["schemas"]["Errors"]["additionalProperties"]["anyOf"][2],
        json!({"$ref": "#/components/schemas/Errors"})
    );
}

/// Returns the answers of an operation by status. Resolves shared answers.
fn responses<'a>(document: &'a Value, operation: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
    operation["responses"].as_object().unwrap().iter().map(|(status, answer)| match answer["$ref"].as_str() {
        Some(address) => (status.as_str(), document.pointer(&address[1..]).unwrap()),
        None => (status.as_str(), answer),
    })
}

#[test]
fn everything_is_explained() {
    let document = openapi::document(table(), Audience::All);
    let tags: BTreeMap<&str, &str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| (tag["name"].as_str().unwrap(), tag["description"].as_str().unwrap()))
        .collect();
    for (route, operation) in operations(&document) {
        let tag = operation["tags"][0].as_str().unwrap();
        assert!(!tags[tag].is_empty(), "{route}: the tag {tag} has no text");
        for parameter in operation["parameters"].as_array().unwrap() {
            let address = parameter["$ref"].as_str().map(|address| &address[1..]);
            let parameter = address.map_or(parameter, |address| document.pointer(address).unwrap());
            let has_text = parameter["description"].is_string() || parameter["in"] == "path";
            assert!(has_text, "{route}: {parameter}");
        }
    }
}

#[tokio::test]
async fn the_description_is_served_to_anyone_with_the_address_of_the_request() {
    let server = TestServer::start().await;
    let served = server.anonymous().get("/api/openapi.json").await.ok();
    assert_eq!(served, openapi::document(table(), Audience::All));
    assert_eq!(served["servers"][0]["url"], "/");
    let for_clients = server.anonymous().get("/api/openapi.json?audience=clients").await.ok();
    assert_eq!(for_clients, openapi::document(table(), Audience::Clients));
    let unknown = server.anonymous().get("/api/openapi.json?audience=robots").await;
    unknown
        .expect_reply(400, json!({"audience": ["Select a valid choice. robots is not one of the available choices."]}));
}

#[test]
fn openapi_json_is_up_to_date() {
    compare("openapi.json", &openapi::document(table(), Audience::All));
    compare("openapi-history.json", &history::openapi::document(10_000, Audience::All));
}

const NAMES: &str = "
GET /api/openapi.json openapi.retrieve
GET /api/administration/system/ administration.system.retrieve
GET /api/sequences/ sequences.list
POST /api/sequences/ sequences.create
GET /api/sequences/autocomplete/ sequences.autocomplete
GET /api/sequences/{id}/ sequences.retrieve
PATCH /api/sequences/{id}/ sequences.update
DELETE /api/sequences/{id}/ sequences.delete
POST /api/sequences/{id}/publish/ sequences.publish
POST /api/sequences/{id}/pause/ sequences.pause
POST /api/sequences/{id}/resume/ sequences.resume
POST /api/sequences/{id}/take-over/ sequences.take_over
GET /api/sequences/{id}/versions/ sequences.versions.list
GET /api/sequences/{sequence_id}/versions/{version_id}/ sequences.versions.retrieve
GET /api/sequences/{id}/schedule/ sequences.schedule.retrieve
POST /api/sequences/{id}/start/ sequences.start
GET /api/object-records/{record_id}/sequences/ object_records.sequences.list
GET /api/sequence-runs/ sequence_runs.list
GET /api/sequences/{id}/runs/ sequences.runs.list
GET /api/sequence-runs/{uuid}/ sequence_runs.retrieve
POST /api/sequence-runs/{uuid}/cancel/ sequence_runs.cancel
POST /api/sequence-runs/{uuid}/retry/ sequence_runs.retry
POST /api/sequences/{id}/runs/cancel/ sequences.runs.cancel
GET /api/sequence-runs/{uuid}/steps/ sequence_runs.steps.list
GET /api/object-records/{record_id}/sequence-runs/ object_records.sequence_runs.list
GET /api/sequences/{id}/skipped/ sequences.skipped.list
GET /api/mcp/connectors/ mcp.connectors.list
POST /api/mcp/connectors/ mcp.connectors.create
GET /api/mcp/connectors/{id}/ mcp.connectors.retrieve
PATCH /api/mcp/connectors/{id}/ mcp.connectors.update
DELETE /api/mcp/connectors/{id}/ mcp.connectors.delete
POST /api/mcp/connectors/{id}/reset-client-secret/ mcp.connectors.reset_client_secret
GET /api/mcp/connectors/{id}/activity/ mcp.connectors.activity.list
GET /api/integrations/ integrations.list
POST /api/integrations/ integrations.create
GET /api/integrations/{uuid}/ integrations.retrieve
PATCH /api/integrations/{uuid}/ integrations.update
DELETE /api/integrations/{uuid}/ integrations.delete
GET /api/integrations/{uuid}/deliveries/ integrations.deliveries.list
POST /api/integrations/{uuid}/test/ integrations.test
GET /api/custom-components/ custom_components.list
POST /api/custom-components/ custom_components.create
GET /api/custom-components/{id}/ custom_components.retrieve
PATCH /api/custom-components/{id}/ custom_components.update
DELETE /api/custom-components/{id}/ custom_components.delete
GET /api/custom-components/frames/{id}/ custom_components.frames.retrieve
POST /api/custom-components/repository/ custom_components.repository.create
GET /api/custom-components/repository/{id}/ custom_components.repository.retrieve
DELETE /api/custom-components/repository/{id}/ custom_components.repository.delete
POST /api/custom-components/repository/{id}/import/ custom_components.repository.import
GET /ui-config/{component}/ ui_config.retrieve
POST /ui-config/{component}/ ui_config.create
GET /api/object-records/{record_id}/comments/ object_records.comments.list
POST /api/object-records/{record_id}/comments/ object_records.comments.create
GET /api/object-records/{record_id}/comments/{comment_id}/ object_records.comments.retrieve
PATCH /api/object-records/{record_id}/comments/{comment_id}/ object_records.comments.update
DELETE /api/object-records/{record_id}/comments/{comment_id}/ object_records.comments.delete
GET /api/tasks/{task_id}/comments/ tasks.comments.list
POST /api/tasks/{task_id}/comments/ tasks.comments.create
GET /api/tasks/{task_id}/comments/{comment_id}/ tasks.comments.retrieve
PATCH /api/tasks/{task_id}/comments/{comment_id}/ tasks.comments.update
DELETE /api/tasks/{task_id}/comments/{comment_id}/ tasks.comments.delete
GET /api/task-templates/ task_templates.list
POST /api/task-templates/ task_templates.create
GET /api/task-templates/{id}/ task_templates.retrieve
PATCH /api/task-templates/{id}/ task_templates.update
DELETE /api/task-templates/{id}/ task_templates.delete
GET /api/object-records/{record_id}/task-templates/ object_records.task_templates.list
GET /api/tasks/ tasks.list
POST /api/tasks/ tasks.create
GET /api/tasks/{task_id}/ tasks.retrieve
PATCH /api/tasks/{task_id}/ tasks.update
DELETE /api/tasks/{task_id}/ tasks.delete
POST /api/tasks/{task_id}/send-link/ tasks.send_link
POST /api/tasks/{task_id}/complete/ tasks.complete
POST /api/tasks/{task_id}/approve/ tasks.approve
POST /api/tasks/{task_id}/reject/ tasks.reject
POST /api/tasks/{task_id}/cancel/ tasks.cancel
POST /api/tasks/{task_id}/reopen/ tasks.reopen
GET /api/tasks/{task_id}/log/ tasks.log.list
GET /api/files/response/file/{uuid}/ files.response.file.retrieve
POST /api/auth/task/ auth.task
GET /api/object-classes/{class_id}/document-templates/ object_classes.document_templates.list
POST /api/object-classes/{class_id}/document-templates/ object_classes.document_templates.create
GET /api/object-classes/{class_id}/document-templates/{template_id}/ object_classes.document_templates.retrieve
PATCH /api/object-classes/{class_id}/document-templates/{template_id}/ object_classes.document_templates.update
DELETE /api/object-classes/{class_id}/document-templates/{template_id}/ object_classes.document_templates.delete
GET /api/object-classes/{class_id}/document-templates/{template_id}/download/ object_classes.document_templates.download
POST /api/object-classes/{class_id}/document-templates/check/ object_classes.document_templates.check
POST /api/object-records/documents/ object_records.documents.create
GET /api/object-records/{record_id}/documents/ object_records.documents.list
GET /api/object-records/{record_id}/documents/{template_id}/ object_records.documents.retrieve
POST /api/object-records/{record_id}/documents/{template_id}/cancel/ object_records.documents.cancel
GET /api/object-records/{record_id}/documents/{template_id}/download/{uuid}/ object_records.documents.download
GET /api/object-records/{record_id}/document-fields/ object_records.document_fields.list
GET /api/object-classes/ object_classes.list
POST /api/object-classes/ object_classes.create
GET /api/object-classes/autocomplete/ object_classes.autocomplete
GET /api/object-classes/{class_id}/ object_classes.retrieve
PATCH /api/object-classes/{class_id}/ object_classes.update
DELETE /api/object-classes/{class_id}/ object_classes.delete
GET /api/object-classes/{class_id}/openapi.json object_classes.openapi.retrieve
GET /api/object-classes/{class_id}/fields/ object_classes.fields.list
POST /api/object-classes/{class_id}/fields/ object_classes.fields.create
GET /api/object-classes/{class_id}/fields/{field_id}/ object_classes.fields.retrieve
PATCH /api/object-classes/{class_id}/fields/{field_id}/ object_classes.fields.update
DELETE /api/object-classes/{class_id}/fields/{field_id}/ object_classes.fields.delete
GET /api/object-classes/{class_id}/owners/ object_classes.owners.list
POST /api/object-classes/{class_id}/owners/ object_classes.owners.add
DELETE /api/object-classes/{class_id}/owners/{ownership_id}/ object_classes.owners.delete
GET /api/object-classes/{class_id}/permission-sets/ object_classes.permission_sets.list
POST /api/object-classes/{class_id}/permission-sets/ object_classes.permission_sets.create
PATCH /api/object-classes/{class_id}/permission-sets/{set_id}/ object_classes.permission_sets.update
DELETE /api/object-classes/{class_id}/permission-sets/{set_id}/ object_classes.permission_sets.delete
GET /api/object-classes/{class_id}/permission-sets/{set_id}/assignees/users/ object_classes.permission_sets.assignees.users.list
POST /api/object-classes/{class_id}/permission-sets/{set_id}/assignees/users/ object_classes.permission_sets.assignees.users.add
DELETE /api/object-classes/{class_id}/permission-sets/{set_id}/assignees/users/ object_classes.permission_sets.assignees.users.remove
GET /api/object-classes/{class_id}/permission-sets/{set_id}/assignees/user-groups/ object_classes.permission_sets.assignees.user_groups.list
POST /api/object-classes/{class_id}/permission-sets/{set_id}/assignees/user-groups/ object_classes.permission_sets.assignees.user_groups.add
DELETE /api/object-classes/{class_id}/permission-sets/{set_id}/assignees/user-groups/ object_classes.permission_sets.assignees.user_groups.remove
GET /api/object-classes/{class_id}/access/ object_classes.access.retrieve
GET /api/object-classes/{class_id}/record-permission-sets/ object_classes.record_permission_sets.list
POST /api/object-classes/{class_id}/record-permission-sets/ object_classes.record_permission_sets.create
PATCH /api/object-classes/{class_id}/record-permission-sets/{set_id}/ object_classes.record_permission_sets.update
DELETE /api/object-classes/{class_id}/record-permission-sets/{set_id}/ object_classes.record_permission_sets.delete
GET /api/object-classes/{class_id}/object-records/ object_classes.object_records.list
POST /api/object-classes/{class_id}/object-records/ object_classes.object_records.create
GET /api/object-classes/{class_id}/object-records/autocomplete/ object_classes.object_records.autocomplete
GET /api/object-records/{record_id}/ object_records.retrieve
PATCH /api/object-records/{record_id}/ object_records.update
DELETE /api/object-records/{record_id}/ object_records.delete
POST /api/object-classes/{class_id}/object-records/batch/ object_classes.object_records.batch.create
PATCH /api/object-classes/{class_id}/object-records/batch/ object_classes.object_records.batch.update
DELETE /api/object-classes/{class_id}/object-records/batch/ object_classes.object_records.batch.delete
GET /api/object-classes/{class_id}/object-records/export/ object_classes.object_records.export.retrieve
POST /api/object-classes/{class_id}/object-records/export/link/ object_classes.object_records.export.link
GET /api/object-classes/{class_id}/object-records/export/download/ object_classes.object_records.export.download.retrieve
GET /api/object-classes/{class_id}/object-records/deleted/ object_classes.object_records.deleted.list
DELETE /api/object-classes/{class_id}/object-records/deleted/{record_id}/ object_classes.object_records.deleted.delete
POST /api/object-records/{record_id}/restore/ object_records.restore
GET /api/object-records/{record_id}/children/ object_records.children.list
GET /api/object-records/{record_id}/files/{uuid}/ object_records.files.retrieve
GET /api/object-records/{record_id}/history/ object_records.history.list
GET /api/object-records/{record}/owners/ object_records.owners.list
POST /api/object-records/{record}/owners/ object_records.owners.add
DELETE /api/object-records/{record_id}/owners/{ownership_id}/ object_records.owners.delete
GET /api/object-records/{record_id}/permission-sets/{set_id}/assignees/ object_records.permission_sets.assignees.list
POST /api/object-records/{record_id}/permission-sets/{set_id}/assignees/ object_records.permission_sets.assignees.add
DELETE /api/object-records/{record_id}/permission-sets/{set_id}/assignees/ object_records.permission_sets.assignees.remove
GET /api/object-records/{record_id}/permission-sets/{set_id}/assignees/user-groups/ object_records.permission_sets.assignees.user_groups.list
POST /api/object-records/{record_id}/permission-sets/{set_id}/assignees/user-groups/ object_records.permission_sets.assignees.user_groups.add
DELETE /api/object-records/{record_id}/permission-sets/{set_id}/assignees/user-groups/ object_records.permission_sets.assignees.user_groups.remove
GET /api/object-records/{record_id}/access/ object_records.access.retrieve
GET /api/object-classes/{class_id}/object-records/aggregate/ object_classes.object_records.aggregate.aggregate
GET /api/object-class-forms/ object_class_forms.list
POST /api/object-class-forms/ object_class_forms.create
GET /api/object-class-forms/{uuid}/ object_class_forms.retrieve
PATCH /api/object-class-forms/{uuid}/ object_class_forms.update
DELETE /api/object-class-forms/{uuid}/ object_class_forms.delete
GET /api/object-class-forms/{uuid}/configuration/ object_class_forms.configuration.retrieve
GET /api/search/ search.list
GET /api/scim/tokens/ scim.tokens.list
POST /api/scim/tokens/ scim.tokens.create
DELETE /api/scim/tokens/{id}/ scim.tokens.delete
POST /api/auth/login/ auth.login
POST /api/auth/refresh/ auth.refresh
POST /api/auth/logout/ auth.logout
POST /api/auth/second-factor/ auth.second_factor
POST /api/auth/passkey/ auth.passkey.begin
POST /api/auth/passkey/confirm/ auth.passkey.confirm
POST /api/auth/activate/ auth.activate
POST /api/auth/password-reset/ auth.password_reset.request
POST /api/auth/password-reset/confirm/ auth.password_reset.confirm
POST /api/auth/password-change/ auth.password_change
POST /api/auth/browser/token/ auth.browser.token
POST /api/auth/browser/logout/ auth.browser.logout
GET /api/users/ users.list
POST /api/users/ users.create
GET /api/users/permissions/ users.permissions.retrieve
GET /api/users/{id}/ users.retrieve
PATCH /api/users/{id}/ users.update
DELETE /api/users/{id}/ users.delete
POST /api/users/{id}/send-activation-link/ users.send_activation_link
POST /api/users/{id}/activation-link/ users.activation_link
POST /api/users/{id}/deactivate/ users.deactivate
POST /api/users/{id}/reactivate/ users.reactivate
POST /api/users/{id}/unlock/ users.unlock
POST /api/users/{id}/anonymize/ users.anonymize
GET /api/users/autocomplete/ users.autocomplete
GET /api/users/me/ users.me.retrieve
PATCH /api/users/me/ users.me.update
GET /api/users/me/sessions/ users.me.sessions.list
DELETE /api/users/me/sessions/{id}/ users.me.sessions.delete
GET /api/users/{user_id}/api-keys/ users.api_keys.list
POST /api/users/{user_id}/api-keys/ users.api_keys.create
GET /api/users/{user_id}/api-keys/{id}/ users.api_keys.retrieve
DELETE /api/users/{user_id}/api-keys/{id}/ users.api_keys.delete
GET /api/users/me/preferences/ users.me.preferences.list
GET /api/users/me/preferences/{key}/ users.me.preferences.retrieve
PUT /api/users/me/preferences/{key}/ users.me.preferences.replace
DELETE /api/users/me/preferences/{key}/ users.me.preferences.delete
GET /api/roles/ roles.list
POST /api/roles/ roles.create
GET /api/roles/autocomplete/ roles.autocomplete
GET /api/roles/{id}/ roles.retrieve
PATCH /api/roles/{id}/ roles.update
DELETE /api/roles/{id}/ roles.delete
GET /api/user-groups/ user_groups.list
POST /api/user-groups/ user_groups.create
GET /api/user-groups/autocomplete/ user_groups.autocomplete
GET /api/user-groups/{group_id}/ user_groups.retrieve
PATCH /api/user-groups/{group_id}/ user_groups.update
DELETE /api/user-groups/{group_id}/ user_groups.delete
GET /api/user-groups/{group_id}/members/users/ user_groups.members.users.list
POST /api/user-groups/{group_id}/members/users/ user_groups.members.users.add
DELETE /api/user-groups/{group_id}/members/users/ user_groups.members.users.remove
GET /api/user-groups/{group_id}/owners/users/ user_groups.owners.users.list
POST /api/user-groups/{group_id}/owners/users/ user_groups.owners.users.add
DELETE /api/user-groups/{group_id}/owners/users/ user_groups.owners.users.remove
GET /api/user-groups/{group_id}/permission-sets/ user_groups.permission_sets.list
POST /api/user-groups/{group_id}/permission-sets/ user_groups.permission_sets.create
PATCH /api/user-groups/{group_id}/permission-sets/{set_id}/ user_groups.permission_sets.update
DELETE /api/user-groups/{group_id}/permission-sets/{set_id}/ user_groups.permission_sets.delete
GET /api/user-groups/{group_id}/permission-sets/{set_id}/assignees/users/ user_groups.permission_sets.assignees.users.list
POST /api/user-groups/{group_id}/permission-sets/{set_id}/assignees/users/ user_groups.permission_sets.assignees.users.add
DELETE /api/user-groups/{group_id}/permission-sets/{set_id}/assignees/users/ user_groups.permission_sets.assignees.users.remove
GET /api/user-groups/{group_id}/permission-sets/{set_id}/assignees/user-groups/ user_groups.permission_sets.assignees.user_groups.list
POST /api/user-groups/{group_id}/permission-sets/{set_id}/assignees/user-groups/ user_groups.permission_sets.assignees.user_groups.add
DELETE /api/user-groups/{group_id}/permission-sets/{set_id}/assignees/user-groups/ user_groups.permission_sets.assignees.user_groups.remove
GET /api/security/ security.retrieve
PATCH /api/security/ security.update
GET /api/users/me/second-factors/ users.me.second_factors.list
POST /api/users/me/second-factors/ users.me.second_factors.create
GET /api/users/me/second-factors/{id}/ users.me.second_factors.retrieve
DELETE /api/users/me/second-factors/{id}/ users.me.second_factors.delete
POST /api/users/me/second-factors/{id}/confirm/ users.me.second_factors.confirm
GET /api/users/me/second-factors/recovery-codes/ users.me.second_factors.recovery_codes.retrieve
POST /api/users/me/second-factors/recovery-codes/ users.me.second_factors.recovery_codes.replace
GET /api/security/second-factors/ security.second_factors.retrieve
PATCH /api/security/second-factors/ security.second_factors.update
POST /api/users/{id}/reset-second-factors/ users.reset_second_factors
GET /api/single-sign-on/ single_sign_on.list
POST /api/single-sign-on/ single_sign_on.create
GET /api/single-sign-on/{id}/ single_sign_on.retrieve
PATCH /api/single-sign-on/{id}/ single_sign_on.update
DELETE /api/single-sign-on/{id}/ single_sign_on.delete
GET /api/single-sign-on/login/ single_sign_on.login.list
POST /api/single-sign-on/login/ single_sign_on.login.start
POST /api/single-sign-on/{id}/link/ single_sign_on.link
POST /api/auth/ticket/ auth.ticket
GET /api/users/me/identities/ users.me.identities.list
DELETE /api/users/me/identities/{id}/ users.me.identities.delete
GET /api/users/{user_id}/identities/ users.identities.list
DELETE /api/users/{user_id}/identities/{id}/ users.identities.delete
POST /api/single-sign-on/{id}/test/ single_sign_on.test
GET /api/administration/sign-ins/ administration.sign_ins.list
GET /api/administration/company-details/ administration.company_details.retrieve
PATCH /api/administration/company-details/ administration.company_details.update
GET /api/administration/smtp-settings/ administration.smtp_settings.retrieve
PATCH /api/administration/smtp-settings/ administration.smtp_settings.update
POST /api/administration/smtp-settings/test/ administration.smtp_settings.test
POST /api/administration/messages/preview/ administration.messages.preview
GET /api/authentication-objects/ authentication_objects.list
POST /api/authentication-objects/ authentication_objects.create
GET /api/authentication-objects/{id}/ authentication_objects.retrieve
PATCH /api/authentication-objects/{id}/ authentication_objects.update
DELETE /api/authentication-objects/{id}/ authentication_objects.delete
POST /api/authentication-objects/{id}/test/ authentication_objects.test
GET /api/administration/log/ administration.log.list
GET /api/limits/ limits.retrieve
GET /api/builds/{build_domain}/limits/ builds.limits.retrieve
PATCH /api/builds/{build_domain}/limits/ builds.limits.update
POST /api/files/upload/ files.upload
GET /api/files/public-storage/ files.public_storage.list
POST /api/files/public-storage/ files.public_storage.create
GET /api/files/public-storage/{uuid}/ files.public_storage.retrieve
DELETE /api/files/public-storage/{uuid}/ files.public_storage.delete
GET /healthz healthz
GET /readyz readyz
";
