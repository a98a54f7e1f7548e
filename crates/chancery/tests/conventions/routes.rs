//! The rules of every endpoint, read from the table of routes: sign-in, permissions, OPTIONS, both forms of a path, and the
//! generated files. Ids of other builds are in `tenancy.rs`.

use crate::TestServer;
use crate::bodies::expect_refusal;
use crate::message;
use http::Method;
use platform::kit::caller::RouteAccess;
use platform::kit::route::{Route, Schema};
use platform::table;
use resource::{Field, FieldKind, JsonBody, check_value};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use store::{Conn, Sql, StoreError};
use testkit::{API_KEY, ApiClient, DOMAIN, PASSWORD, Reply, TestBuild, UUID, docx, eventually, without_its_id};

pub fn routes() -> Vec<&'static Route> {
    table().routes().collect()
}

/// Returns each path with its routes.
fn paths() -> BTreeMap<&'static str, Vec<&'static Route>> {
    let mut paths: BTreeMap<_, Vec<_>> = BTreeMap::new();
    routes().into_iter().for_each(|route| paths.entry(route.path).or_default().push(route));
    paths
}

/// Returns the routes that accounts call: neither public routes, nor those of operators, nor those of agents
/// (`crates/agents/tests/api/mcp.rs`).
fn routes_of_accounts() -> impl Iterator<Item = &'static Route> {
    table().routes().filter(|route| is_of_accounts(route))
}

pub fn is_of_accounts(route: &Route) -> bool {
    !matches!(route.access, RouteAccess::Public | RouteAccess::ApiKey) && route.own_admission.is_none()
}

/// Returns a path with these ids instead of its parameters. The last id is repeated for further parameters. The first build's
/// domain replaces a build, and [`UUID`] a uuid.
pub fn with_ids(path: &str, ids: &[i64]) -> String {
    let mut rest = ids.iter().copied().chain(std::iter::repeat(ids[ids.len() - 1]));
    let part = |part: &str| match part {
        "{build_domain}" => DOMAIN.to_owned(),
        "{uuid}" => UUID.to_owned(),
        part if part.starts_with('{') => rest.next().unwrap().to_string(),
        part => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Returns the uuids of a build for the path of a route.
pub async fn uuids(tenant: &TestBuild, path: &str) -> Vec<String> {
    let rows = match path {
        "/api/files/public-storage/{uuid}/" => "files WHERE is_public = 1",
        "/api/object-records/{record_id}/files/{uuid}/" => "files WHERE record > 0",
        "/api/files/response/file/{uuid}/" => "files WHERE task IS NOT NULL",
        "/api/object-records/{record_id}/documents/{template_id}/download/{uuid}/" => "files WHERE run IS NOT NULL",
        path if path.starts_with("/api/object-class-forms/{uuid}/") => "object_class_forms",
        path if path.starts_with("/api/integrations/{uuid}/") => "integrations",
        path if path.starts_with("/api/sequence-runs/{uuid}/") => "sequence_runs",
        "/.well-known/oauth-protected-resource/mcp/{uuid}/" | "/mcp/{uuid}/" => "mcp_connectors",
        path => panic!("{path} is new: say here which uuids it takes"),
    };
    let read = move |conn: &mut Conn| {
        let mut sql = Sql::new("SELECT uuid FROM ");
        conn.query_all(sql.push(rows).push(" ORDER BY id"), |row| Ok(row.text(0)?.to_owned()))
    };
    tenant.build.db.read::<_, StoreError>(read).await.unwrap()
}

/// Returns the same as [`with_ids`], with a uuid of the build.
pub async fn with_ids_of(tenant: &TestBuild, path: &str, ids: &[i64]) -> String {
    let path_with_ids = with_ids(path, ids);
    if !path.contains("{uuid}") {
        return path_with_ids;
    }
    path_with_ids.replace(UUID, &uuids(tenant, path).await[0])
}

/// Calls a route with a body of its content type.
async fn call(client: &ApiClient, route: &Route, path: &str) -> Reply {
    let call = client.call(route.method.as_str(), path);
    match route.body {
        Schema::Nothing => call.send().await,
        Schema::Ids => call.json(&json!([1])).send().await,
        Schema::Form(_) => call.form(&[]).send().await,
        Schema::Binary => {
            let call = call.header("content-disposition", "attachment; filename=a.csv");
            call.body("application/octet-stream", "a;b").send().await
        }
        _ => call.json(&json!({})).send().await,
    }
}

#[tokio::test]
async fn without_a_token_every_endpoint_but_the_public_ones_answers_401() {
    let server = TestServer::start().await;
    let anonymous = server.anonymous();
    for route in
        routes().into_iter().filter(|route| route.access != RouteAccess::Public && route.own_admission.is_none())
    {
        let reply = call(&anonymous, route, &with_ids(route.path, &[1])).await;
        assert_eq!(reply, (401, message::unauthenticated()), "{} {}", route.method, route.path);
        assert_eq!(reply.header("www-authenticate"), "JWT", "{} {}", route.method, route.path);
    }
}

#[tokio::test]
async fn a_token_that_does_not_hold_here_is_answered_with_401_everywhere() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await.admin().await;
    let admin = server.admin().await;
    let refresh_token = admin.refresh_token.clone();
    for token in [other.token.as_str(), "garbage", "", refresh_token.as_str()] {
        let caller = server.anonymous().with_token(token);
        for route in routes_of_accounts() {
            let reply = call(&caller, route, &with_ids(route.path, &[1])).await;
            assert_eq!(reply, (401, message::bad_token()), "{} {} with {token:?}", route.method, route.path);
            assert_eq!(reply.header("www-authenticate"), "JWT", "{} {}", route.method, route.path);
        }
    }
}

#[tokio::test]
async fn operator_routes_require_only_the_key_of_the_deployment() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let keyless = TestServer::start_with(|settings| settings.api_key = None).await;
    let all: Vec<_> = routes().into_iter().filter(|route| route.access == RouteAccess::ApiKey).collect();
    let names: Vec<String> = all.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    let expected = ["GET", "PATCH", "OPTIONS"].map(|method| format!("{method} /api/builds/{{build_domain}}/limits/"));
    assert_eq!(names, expected, "a new endpoint for operators is a decision");
    for route in all {
        let (path, what) = (with_ids(route.path, &[1]), format!("{} {}", route.method, route.path));
        let unknown = path.replace(DOMAIN, "unknown.example");
        // An account is never an operator, independent of its permissions.
        for client in [&admin, &server.anonymous(), &keyless.anonymous()] {
            for path in [&path, &unknown] {
                assert_eq!(call(client, route, path).await, (401, message::unauthenticated()), "{what}");
            }
        }
        let wrong =
            ["", "x", &API_KEY[1..], &API_KEY[..API_KEY.len() - 1], &format!("{API_KEY}x"), &API_KEY.to_uppercase()];
        for key in wrong {
            let client = admin.with_header("x-api-key", key);
            for path in [&path, &unknown] {
                assert_eq!(call(&client, route, path).await, (403, message::forbidden()), "{what} with {key:?}");
                let broken = client.call(route.method.as_str(), path).body("text/csv", "a;b").send().await;
                assert_eq!(broken, (403, message::forbidden()), "{what} with {key:?}");
            }
        }
        for key in ["", API_KEY] {
            let reply = call(&keyless.anonymous().with_header("x-api-key", key), route, &path).await;
            assert_eq!(reply, (403, message::forbidden()), "{what} where there is no key");
        }
        for host in [DOMAIN, "nowhere.example", "127.0.0.1"] {
            let operator = ApiClient::new(server.address, host).with_header("x-api-key", API_KEY);
            assert_eq!(call(&operator, route, &path).await.status, route.status, "{what} at {host}");
            assert_eq!(call(&operator, route, &unknown).await, (404, message::not_found()), "{what} at {host}");
        }
    }
}

#[tokio::test]
async fn public_endpoints_need_no_token() {
    let server = TestServer::start().await;
    let public: Vec<String> = routes()
        .into_iter()
        .filter(|route| route.access == RouteAccess::Public)
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    let expected = [
        "GET /",
        "GET /api/openapi.json",
        "GET /api/docs/",
        "GET /api/docs/{name}/",
        "GET /.well-known/oauth-protected-resource/mcp/{uuid}/",
        "GET /.well-known/oauth-authorization-server/",
        "GET /oauth/authorize/",
        "POST /oauth/authorize/sign-in/",
        "POST /oauth/authorize/second-factor/",
        "POST /oauth/authorize/single-sign-on/",
        "POST /oauth/authorize/consent/",
        "POST /oauth/token/",
        "POST /oauth/revoke/",
        "GET /components/{id}/{commit}/{*path}",
        "GET /ui-config/{*component}/",
        "POST /api/auth/task/",
        "GET /task/",
        "POST /task/",
        "GET /api/object-classes/{class_id}/object-records/export/download/",
        "POST /api/auth/login/",
        "POST /api/auth/refresh/",
        "POST /api/auth/logout/",
        "POST /api/auth/second-factor/",
        "POST /api/auth/passkey/",
        "POST /api/auth/passkey/confirm/",
        "POST /api/auth/activate/",
        "POST /api/auth/password-reset/",
        "POST /api/auth/password-reset/confirm/",
        "GET /sign-in/",
        "POST /sign-in/",
        "POST /sign-in/second-factor/",
        "POST /sign-in/passkey/",
        "POST /sign-in/single-sign-on/",
        "GET /activate/",
        "POST /activate/",
        "GET /password-reset/",
        "POST /password-reset/",
        "POST /api/auth/browser/token/",
        "POST /api/auth/browser/logout/",
        "GET /api/security/",
        "GET /api/single-sign-on/login/",
        "POST /api/single-sign-on/login/",
        "GET /api/single-sign-on/{id}/callback/",
        "POST /api/auth/ticket/",
        "GET /api/single-sign-on/{id}/logout/",
        "GET /api/files/public-storage/{uuid}/",
    ];
    assert_eq!(public, expected, "a new public endpoint is a decision");
    for route in routes().into_iter().filter(|route| route.access == RouteAccess::Public) {
        // Only one of its components is public.
        let path = if route.path == "/ui-config/{*component}/" { "/ui-config/theme/" } else { route.path };
        let reply = call(&server.anonymous(), route, path).await;
        assert_ne!(reply.json, message::unauthenticated(), "{} {}", route.method, route.path);
    }
}

#[tokio::test]
async fn a_permission_that_the_caller_lacks_is_answered_with_403_before_anything_else() {
    let server = TestServer::start().await;
    let external = server.as_type("external").await;
    // Every signed-in user has the other permissions (`docs/reference/object-classes.md`).
    let held = [("object_classes", "list"), ("mcp_connectors", "list")];
    let may_lack = |route: &&Route| match route.access {
        RouteAccess::Permission(resource, action) => !held.contains(&(resource, action)),
        _ => false,
    };
    for route in routes().into_iter().filter(may_lack) {
        let reply = call(&external, route, &with_ids(route.path, &[1])).await;
        assert_eq!(reply, (403, message::forbidden()), "{} {}", route.method, route.path);
        let broken = external
            .call(route.method.as_str(), &with_ids(route.path, &[999_999]))
            .body("text/csv", "a;b")
            .send()
            .await;
        assert_eq!(broken, (403, message::forbidden()), "{} {} of an unknown id", route.method, route.path);
    }
}

/// Creates a number of rows of everything in a build. Classes have three fields, templates and sets of each kind. Objects below the
/// second class therefore have the numbers 4 to 6, like the sets of the second group.
pub async fn create_rows(tenant: &TestBuild, count: i64) {
    let admin = tenant.admin().await;
    for n in 1..=count {
        let user = json!({"username": format!("u{n}@example.com"), "account_type": "internal", "first_name": "U", "last_name": "N"});
        let user = admin.post("/api/users/", user).await.id();
        admin.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
        let object = json!({"name": format!("Object {n}"), "provider": "basic"});
        admin.post("/api/authentication-objects/", object).await.expect_created();
        let sso = json!({"name": format!("SSO {n}"), "client_id": "c", "client_secret": "s", "tenant_id": "t", "provider": "provider_a"});
        admin.post("/api/single-sign-on/", sso).await.expect_created();
        bind_identity(tenant, user).await;
        add_factor(tenant, n).await;
        let group = admin.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.id();
        let sets = format!("/api/user-groups/{n}/permission-sets/");
        admin.post(&sets, json!({"name": "Readers", "permissions": {"user_groups": ["view"]}})).await.expect_created();
        fill_class(&admin, n, user, group).await;
        let update =
            json!({"task_type": "tt_object_record_update", "configuration": {"object_class": n, "fields": ["title"]}});
        for config in [json!({"task_type": "tt_form"}), update] {
            let template = json!({"name": format!("Task {n}"), "complete_by": "asap", "plugin_config": config});
            admin.post("/api/task-templates/", template).await.expect_created();
        }
        let task = json!({
            "task_template": 2 * n, "object_record": n, "assignees": [user], "assignee_groups": [group],
        });
        admin.post("/api/tasks/", task).await.expect_created();
        let task = admin.post("/api/tasks/", json!({"task_template": 2 * n - 1})).await.id();
        let answer = json!({"response": {"file": admin.upload("answer.csv", "a;b").await}});
        admin.post(&format!("/api/tasks/{task}/complete/"), answer).await.ok();
        fill_component(tenant, &admin, n).await;
        let form = json!({
            "name": "Form", "object_class": n, "type": "create", "configuration": {}, "custom_components": [n],
        });
        admin.post("/api/object-class-forms/", form).await.expect_created();
        let webhook = json!({
            "type": "webhook", "name": format!("Webhook {n}"), "object_class": n, "authentication_object": n,
            "url": "https://receiver.example/", "secret": "sixteen letters!",
        });
        admin.post("/api/integrations/", webhook).await.expect_created();
        let agents = json!({
            "type": "ai_mcp", "name": format!("Agents {n}"), "redirect_uris": ["https://agent.example/callback"],
        });
        let agents = admin.post("/api/integrations/", agents).await.expect_created();
        let connector = json!({"name": format!("Connector {n}"), "integration": agents["uuid"]});
        admin.post("/api/mcp/connectors/", connector).await.expect_created();
        let token = admin.upload("public.csv", "a;b").await;
        admin.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
        admin
            .post(&format!("/ui-config/{n}/"), json!({"content": "{}", "custom_components": [n]}))
            .await
            .expect_created();
        let preference = admin.call("PUT", &format!("/api/users/me/preferences/{n}/")).json(&json!({"value": n}));
        preference.send().await.expect_created();
        tenant.admin().await;
    }
    // Deletions come last, so that the records before them have the numbers of their classes. Fields beyond three come last for the
    // same reason.
    for n in 1..=count {
        let field = json!({"label": "Papers", "type": "document"});
        admin.post(&format!("/api/object-classes/{n}/fields/"), field).await.expect_created();
        let papers = json!({"papers": [admin.upload("paper.csv", "a;b").await]});
        admin.patch(&format!("/api/object-records/{n}/"), json!({"fields": papers})).await.ok();
    }
    generate(&admin, 1, 3).await;
    for n in 1..=count {
        let record = admin.post(&format!("/api/object-classes/{n}/object-records/"), json!({})).await.id();
        admin.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
    }
    fill_keys(&admin, count).await;
    for n in 1..=count {
        let comment = json!({"text": "Said"});
        admin.post(&format!("/api/object-records/{n}/comments/"), comment).await.expect_created();
    }
    for n in 1..=count {
        fill_sequence(&admin, n).await;
    }
}

/// Publishes a sequence that people start for records of a class, and starts it.
async fn fill_sequence(admin: &ApiClient, n: i64) {
    let definition = json!({
        "trigger": {"type": "manual", "object_class": n}, "steps": [{"key": "end", "type": "stop", "as": "completed"}],
    });
    let created =
        admin.post("/api/sequences/", json!({"name": format!("Sequence {n}"), "definition": definition})).await;
    let path = format!("/api/sequences/{}/", created.id());
    let publish = admin.call("POST", &format!("{path}publish/")).header("if-match", created.header("etag"));
    publish.json(&json!({})).send().await.ok();
    let run = admin.post(&format!("{path}start/"), json!({"object_record": n})).await.expect_created()["uuid"].clone();
    let run = format!("/api/sequence-runs/{}/", run.as_str().unwrap());
    testkit::eventually(async || admin.get(&run).await.json["status"] == "completed").await;
}

/// Creates a service account with API keys, and tokens of directories.
async fn fill_keys(admin: &ApiClient, count: i64) {
    let service = json!({
        "username": "service@example.com", "account_type": "service_external", "first_name": "S", "last_name": "E",
        "password": PASSWORD,
    });
    let service = admin.post("/api/users/", service).await.id();
    for n in 1..=count {
        let key = json!({"name": format!("Key {n}"), "permissions": null, "expires_at": "2026-03-01T00:00:00Z"});
        admin.post(&format!("/api/users/{service}/api-keys/"), key).await.expect_created();
        let token = json!({"name": format!("Token {n}"), "single_sign_on": n});
        admin.post("/api/scim/tokens/", token).await.expect_created();
    }
}

/// Adds a factor to the super admin, who is not asked for it.
async fn add_factor(tenant: &TestBuild, n: i64) {
    let factor = Sql::new(
        "INSERT INTO second_factors(user_id, type, name, name_fold, created_at, confirmed_at, secret_row) \
         VALUES (1, 'totp', $1, $1, 0, 0, '')",
    )
    .arg(format!("factor {n}"));
    let rule = Sql::new("UPDATE security SET second_factor_super_admin = 'off' WHERE id = 1");
    let add = move |conn: &mut Conn| conn.exec(&factor).and_then(|_| conn.exec(&rule));
    tenant.build.db.write::<_, StoreError>(add).await.unwrap();
}

/// Binds an identity to a user, like a sign-in at a provider.
async fn bind_identity(tenant: &TestBuild, user: i64) {
    let sql = Sql::new(
        "INSERT INTO single_sign_on_identities(issuer, subject, user_id, is_linked, created_at) \
         VALUES ('https://provider.example', $1, $2, 0, 0)",
    );
    let sql = sql.arg(user.to_string()).arg(user);
    tenant.build.db.write::<_, StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
}

/// Creates a custom component, and its repository in the state after an import.
async fn fill_component(tenant: &TestBuild, admin: &ApiClient, n: i64) {
    let repository = json!({"repository_url": "https://127.0.0.1:1/a.git", "username": "u", "token": "t"});
    let id = admin.post("/api/custom-components/repository/", repository).await.id();
    let imported = Sql::new(
        "UPDATE custom_component_repositories SET status = 'imported', errors = NULL, import_n = 2 WHERE id = $1",
    )
    .arg(id);
    tenant.build.db.write::<_, StoreError>(move |conn| conn.exec(&imported)).await.unwrap();
    let uses = json!({
        "landing_page": true, "object_class_create_form": true, "object_class_summary_form": true,
        "object_class_standalone_form": true, "task_template_form": true,
    });
    let component =
        json!({"name": format!("Component {n}"), "repository": id, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", component).await.expect_created();
}

/// Generates a document of a record and a template.
async fn generate(admin: &ApiClient, record: i64, template: i64) {
    let body = json!({"object_record": record, "document_template": template});
    admin.post("/api/object-records/documents/", body).await.expect_created();
    let path = format!("/api/object-records/{record}/documents/{template}/");
    eventually(async || {
        let run = admin.get(&path).await.ok()["generated_document"].take();
        if run["status"] == "completed" { Ok(()) } else { Err(run) }
    })
    .await;
}

/// Creates a class with a relation to itself, and a record that this user and this group may view.
async fn fill_class(admin: &ApiClient, n: i64, user: i64, group: i64) {
    let class = admin.post("/api/object-classes/", json!({"name": format!("Class {n}")})).await.id();
    let class = format!("/api/object-classes/{class}/");
    for field in [
        json!({"label": "Title", "type": "string"}),
        json!({"label": "Person", "type": "user"}),
        json!({"label": "Above", "type": "relation", "related_object_class": n}),
    ] {
        admin.post(&format!("{class}fields/"), field).await.expect_created();
    }
    admin.post(&format!("{class}owners/"), json!([user])).await.expect_created();
    let sets = format!("{class}permission-sets/");
    let mut set = 0;
    for name in ["Clerks", "Auditors"] {
        let permissions = json!({"object_records": ["view"]});
        set = admin.post(&sets, json!({"name": name, "permissions": permissions})).await.id();
    }
    admin.post(&format!("{sets}{set}/assignees/users/"), json!([user])).await.expect_created();
    admin.post(&format!("{sets}{set}/assignees/user-groups/"), json!([group])).await.expect_created();
    let mut assignment = json!({"users": [user], "user_groups": [group]});
    for name in ["Viewers", "Editors", "Deleters"] {
        let set = json!({"name": name, "permissions": {"object_records": ["view"]}});
        assignment["permission_set"] = admin.post(&format!("{class}record-permission-sets/"), set).await.id().into();
    }
    for name in ["Letter", "Invoice", "Reminder"] {
        let token = admin.upload(&format!("{name}.docx"), docx(["{{ title }} of {{ above.title }}"])).await;
        let template = json!({"name": name, "template_file": token});
        admin.post(&format!("{class}document-templates/"), template).await.expect_created();
    }
    let record = json!({"fields": {"title": "Record", "person": user}, "permission_sets": [assignment]});
    admin.post(&format!("{class}object-records/"), record).await.expect_created();
}

#[tokio::test]
async fn a_path_with_and_without_its_slash_is_the_same() {
    let server = TestServer::start().await;
    let admin = server.admin().await.with_header("x-api-key", API_KEY);
    for route in routes().into_iter().filter(|route| route.method == Method::GET || route.method == Method::OPTIONS) {
        let path = with_ids(route.path, &[1]);
        let bare = call(&admin, route, path.trim_end_matches('/')).await;
        let slash = call(&admin, route, &format!("{}/", path.trim_end_matches('/'))).await;
        assert_eq!(without_its_id(bare), without_its_id(slash), "{} {}", route.method, route.path);
    }
}

/// The fields of bodies with names of people and of objects.
const NAMES: [&str; 4] = ["name", "first_name", "last_name", "company_name"];

#[test]
fn no_name_reorders_the_text_around_it() {
    let mut checked = BTreeSet::new();
    for route in routes() {
        let Schema::Body(declared, true) = route.body else { continue };
        let is_name = |field: &&Field| {
            NAMES.contains(&field.name.as_ref()) && field.is_writable() && matches!(field.kind, FieldKind::Text { .. })
        };
        for field in declared.fields.iter().filter(is_name) {
            let sent = JsonBody::from_json(&json!("a\u{202e}b"));
            assert_eq!(
                check_value(field, sent.as_value()),
                Err(vec!["Enter a valid value.".to_owned()]),
                "{}",
                route.path
            );
            checked.insert(format!("{} {}", route.path, field.name));
        }
    }
    assert!(checked.len() >= 14, "{checked:?}");
}

fn is_instance_by_id(path: &str) -> bool {
    path.trim_end_matches('/').ends_with("id}")
}

/// Returns whether a path needs a schema document: lists, collections that arrays of ids change, and instances without an id.
fn needs_a_schema_document(path: &str, routes: &[&'static Route]) -> bool {
    let is_collection = |route: &&Route| {
        matches!(route.answer, Schema::Page(_) | Schema::PageOf(_) | Schema::Records(_))
            || route.method == Method::POST && matches!(route.body, Schema::Body(_, true))
    };
    // A route for several records has the schema document of their list. SCIM describes its resources itself.
    let is_single =
        |route: &&Route| route.method == Method::PATCH && !path.ends_with("/batch/") && route.own_admission.is_none();
    !is_instance_by_id(path) && routes.iter().any(|route| is_collection(route) || is_single(route))
}

#[tokio::test]
async fn collections_and_single_instances_have_a_schema_document_and_ids_have_none() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let (admin, external) = (server.admin().await, server.as_type("external").await);
    let external = external.with_header("x-api-key", API_KEY);
    admin.patch("/api/tasks/1/", json!({"assignees": [external.id]})).await.ok();
    // Only users who may view a class may view the objects below it.
    let everyone = json!({"permissions": {"object_records": ["view"]}});
    admin.patch("/api/object-classes/1/permission-sets/1/", everyone).await.ok();
    for (path, routes) in paths() {
        // An aggregate describes its columns instead.
        let is_document = |route: &&Route| route.method == Method::OPTIONS && !path.ends_with("/aggregate/");
        let has_document = routes.iter().any(is_document);
        assert_eq!(has_document, needs_a_schema_document(path, &routes), "{path}");
        if has_document {
            let document = external.options(&with_ids_of(&server, path, &[1]).await).await.ok();
            assert!(document["details"]["schema"].is_array(), "{path}: {document:#}");
            assert_eq!(document["list"]["columns"].is_array(), routes.iter().any(|route| route.is_list()), "{path}");
        }
        if is_instance_by_id(path) && routes.iter().all(|route| route.own_admission.is_none()) {
            let path = with_ids(path, &[1]);
            admin.options(&path).await.expect_reply(405, message::detail("Method \"OPTIONS\" not allowed."));
            let is_public = routes.iter().any(|route| route.access == RouteAccess::Public);
            let refused = server.anonymous().options(&path).await;
            match is_public {
                true => refused.expect_reply(405, message::detail("Method \"OPTIONS\" not allowed.")),
                false => refused.expect_reply(401, message::unauthenticated()),
            }
        }
    }
}

#[tokio::test]
async fn a_method_that_a_path_lacks_is_answered_with_405_and_those_that_it_has() {
    let server = TestServer::start().await;
    let admin = server.admin().await.with_header("x-api-key", API_KEY);
    // The routes of agents are tested in `crates/agents/tests/api/mcp.rs`.
    for (path, routes) in
        paths().into_iter().filter(|(_, routes)| routes.iter().all(|route| route.own_admission.is_none()))
    {
        let mut declared_methods: BTreeSet<&str> = routes.iter().map(|route| route.method.as_str()).collect();
        if declared_methods.contains("GET") {
            declared_methods.insert("HEAD");
        }
        let method = if declared_methods.contains("PUT") { "PATCH" } else { "PUT" };
        let reply = admin.call(method, &with_ids(path, &[1])).json(&json!({})).send().await;
        let shown = routes.iter().find(|route| route.answers_pages()).unwrap_or(&routes[0]);
        expect_refusal(shown, &reply, 405, &format!("Method \"{method}\" not allowed."));
        let allowed: BTreeSet<&str> = reply.header("allow").split(", ").collect();
        assert_eq!(allowed, declared_methods, "{path}");
    }
}

#[tokio::test]
async fn a_required_password_change_blocks_all_other_routes() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    let user = server.as_type("internal").await;
    server.advance(testkit::DAY);
    let user = server.sign_in(&user.username, PASSWORD).await;
    for route in routes_of_accounts() {
        let reply = call(&user, route, &with_ids(route.path, &[1])).await;
        let is_open = route.path == "/api/auth/password-change/";
        assert_eq!(
            reply != (403, message::detail("Password change required.")),
            is_open,
            "{} {}: {reply:?}",
            route.method,
            route.path
        );
    }
    let again = user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token})).await.ok();
    user.post("/api/auth/logout/", json!({"refresh_token": again["refresh_token"]})).await.expect_empty();
}

#[tokio::test]
async fn a_lacking_second_factor_blocks_all_other_routes() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    admin.patch("/api/security/second-factors/", json!({"internal": "required"})).await.ok();
    let mut open = Vec::new();
    for route in routes_of_accounts() {
        let reply = call(&user, route, &with_ids(route.path, &[1])).await;
        if reply != (403, message::detail("Second factor required.")) {
            open.push(format!("{} {}", route.method, route.path));
        }
    }
    let expected = [
        "GET /api/users/permissions/",
        "GET /api/users/me/",
        "POST /api/auth/password-change/",
        "GET /api/users/me/second-factors/",
        "POST /api/users/me/second-factors/",
        "OPTIONS /api/users/me/second-factors/",
        "GET /api/users/me/second-factors/{id}/",
        "DELETE /api/users/me/second-factors/{id}/",
        "POST /api/users/me/second-factors/{id}/confirm/",
        "GET /api/users/me/second-factors/recovery-codes/",
        "POST /api/users/me/second-factors/recovery-codes/",
    ];
    assert_eq!(BTreeSet::from_iter(open.iter().map(String::as_str)), BTreeSet::from(expected));
}

#[test]
fn every_endpoint_is_described() {
    let mut seen = BTreeSet::new();
    for route in routes() {
        assert!(seen.insert((route.path, route.method.as_str())), "{} {} stands twice", route.method, route.path);
        assert!(!route.summary.is_empty(), "{} {}", route.method, route.path);
        let is_file = route.path.ends_with(".json") || route.path.contains("{*");
        assert!(route.path.ends_with('/') || is_file, "{}", route.path);
    }
}

/// The directory of the stored answers to OPTIONS.
const OPTIONS: &str = "crates/chancery/tests/conventions/options";

#[tokio::test]
async fn the_schema_documents_are_up_to_date() {
    let server = TestServer::start().await;
    create_rows(&server, 1).await;
    let admin = server.admin().await.with_header("x-api-key", API_KEY);
    let mut files = BTreeSet::new();
    for route in routes().into_iter().filter(|route| route.method == Method::OPTIONS) {
        let parts: Vec<&str> =
            route.path.split('/').filter(|part| !part.is_empty() && *part != "api" && !part.starts_with('{')).collect();
        let file = format!("{}.json", parts.join("."));
        let path = with_ids_of(&server, route.path, &[1]).await;
        compare(&format!("{OPTIONS}/{file}"), &admin.options(&path).await.ok());
        assert!(files.insert(file), "{} needs a file name of its own", route.path);
    }
    let there: BTreeSet<String> = std::fs::read_dir(root().join(OPTIONS))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, files, "{OPTIONS}/ holds a document for each collection and nothing else");
}

pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Compares a generated file with the checked-in file. `UPDATE=1` writes it.
pub fn compare(file: &str, document: &Value) {
    let (path, text) = (root().join(file), format!("{document:#}\n"));
    if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(path, text).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    let different = checked_in.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(
        checked_in == text,
        "{file} is not what the program says now, first at {different:?}. Write it by: UPDATE=1 cargo test -p chancery --test conventions up_to_date"
    );
}
