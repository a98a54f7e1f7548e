//! `GET /api/openapi.json`: what it says of every endpoint, and how clients will call it.

use crate::routes::{compare, routes};
use platform::kit::openapi::{self, Audience};
use platform::table;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::Server;

#[test]
fn each_operation_has_a_name_of_its_own() {
    let document = openapi::document(table(), Audience::All);
    let ids: Vec<&str> =
        operations(&document).map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "each operation has a name of its own");
    assert_eq!(ids.len(), routes().len());
}

/// The operations of a document, each with its method and path.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, operations)| {
        let named = move |(method, operation): (&String, _)| (format!("{} {path}", method.to_uppercase()), operation);
        operations.as_object().unwrap().iter().map(named)
    })
}

/// A client's code has these names, so a change of one is a decision.
#[test]
fn operations_are_named_after_their_paths_and_what_they_do() {
    let document = openapi::document(table(), Audience::Clients);
    let named: Vec<String> = operations(&document)
        .map(|(route, operation)| format!("{route} {}", operation["operationId"].as_str().unwrap()))
        .collect();
    assert_eq!(named.join("\n"), NAMES.trim());
}

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
            || !route.contains(" /api/")
            || ["GET /api/docs/", "GET /api/docs/{name}/", "GET /api/single-sign-on/{id}/callback/"]
                .contains(&route.as_str());
        assert_eq!(is_internal(operation), is_of_no_client, "{route}");
    }
}

/// What a component is called is what clients call the type.
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
                assert!(is_named(&content["schema"]), "{route} {status} {kind}: {}", content["schema"]);
            }
        }
    }
    let user = &document["components"]["schemas"]["User"];
    assert_eq!(
        user["properties"]["_meta"]["properties"]["permissions"]["required"],
        json!(["list", "view", "create", "edit", "delete"])
    );
    assert_eq!(
        document["components"]["schemas"]["Errors"]["additionalProperties"]["anyOf"][1],
        json!({"$ref": "#/components/schemas/Errors"})
    );
}

/// The answers of an operation, by status, those that are shared looked up.
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
    let server = Server::start().await;
    let served = server.anonymous().get("/api/openapi.json").await.ok();
    assert_eq!(served, openapi::document(table(), Audience::All));
    assert_eq!(served["servers"][0]["url"], "/");
    let for_clients = server.anonymous().get("/api/openapi.json?audience=clients").await.ok();
    assert_eq!(for_clients, openapi::document(table(), Audience::Clients));
    let unknown = server.anonymous().get("/api/openapi.json?audience=robots").await;
    unknown.is(400, json!({"audience": ["Select a valid choice. robots is not one of the available choices."]}));
}

#[test]
fn openapi_json_is_up_to_date() {
    compare("openapi.json", &openapi::document(table(), Audience::All));
    compare("openapi-clients.json", &openapi::document(table(), Audience::Clients));
    compare("openapi-history.json", &history::openapi::document(10_000, Audience::All));
    compare("openapi-history-clients.json", &history::openapi::document(10_000, Audience::Clients));
}

const NAMES: &str = "
GET /api/openapi.json openapi.retrieve
POST /api/auth/login/ auth.login
POST /api/auth/refresh/ auth.refresh
POST /api/auth/logout/ auth.logout
POST /api/auth/activate/ auth.activate
POST /api/auth/password-reset/ auth.password_reset
POST /api/auth/password-reset/confirm/ auth.password_reset.confirm
POST /api/auth/password-change/ auth.password_change
GET /api/users/ users.list
POST /api/users/ users.create
GET /api/users/permissions/ users.permissions.retrieve
GET /api/users/{id}/ users.retrieve
PATCH /api/users/{id}/ users.update
DELETE /api/users/{id}/ users.delete
POST /api/users/{id}/send-activation-link/ users.send_activation_link
POST /api/users/{id}/deactivate/ users.deactivate
POST /api/users/{id}/reactivate/ users.reactivate
POST /api/users/{id}/unlock/ users.unlock
POST /api/users/{id}/anonymize/ users.anonymize
GET /api/users/autocomplete/ users.autocomplete
GET /api/users/me/ users.me.retrieve
PATCH /api/users/me/ users.me.update
GET /api/users/me/sessions/ users.me.sessions.list
DELETE /api/users/me/sessions/{id}/ users.me.sessions.delete
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
GET /api/single-sign-on/ single_sign_on.list
POST /api/single-sign-on/ single_sign_on.create
GET /api/single-sign-on/{id}/ single_sign_on.retrieve
PATCH /api/single-sign-on/{id}/ single_sign_on.update
DELETE /api/single-sign-on/{id}/ single_sign_on.delete
GET /api/single-sign-on/login/ single_sign_on.login.list
POST /api/single-sign-on/login/ single_sign_on.login
POST /api/single-sign-on/{id}/link/ single_sign_on.link
POST /api/auth/ticket/ auth.ticket
GET /api/single-sign-on/{id}/logout/ single_sign_on.logout
GET /api/administration/company-details/ administration.company_details.retrieve
PATCH /api/administration/company-details/ administration.company_details.update
GET /api/administration/smtp-settings/ administration.smtp_settings.retrieve
PATCH /api/administration/smtp-settings/ administration.smtp_settings.update
POST /api/administration/smtp-settings/test/ administration.smtp_settings.test
GET /api/authentication-objects/ authentication_objects.list
POST /api/authentication-objects/ authentication_objects.create
GET /api/authentication-objects/{id}/ authentication_objects.retrieve
PATCH /api/authentication-objects/{id}/ authentication_objects.update
DELETE /api/authentication-objects/{id}/ authentication_objects.delete
GET /api/administration/log/ administration.log.list
GET /api/limits/ limits.retrieve
GET /api/builds/{build_domain}/limits/ builds.limits.retrieve
PATCH /api/builds/{build_domain}/limits/ builds.limits.update
";
