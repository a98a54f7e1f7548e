//! `/api/custom-components/`, its repositories and `/components/`. Imports fail immediately, or their outcome is written into the
//! database (`docs/reference/custom-components.md`). Real imports are in `crates/chancery/tests/extensions`.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::message;
use testkit::shown::{START, admin, page};
use testkit::{ApiClient, Reply, SECOND, TestBuild, eventually, one_wins, send_concurrently};

const ALL: &str = "/api/custom-components/";
const REPOSITORIES: &str = "/api/custom-components/repository/";
/// An address without a server, which must not be called.
const NOWHERE: &str = "https://127.0.0.1:1/map.git";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

async fn sql(tenant: &TestBuild, text: String) {
    let text: &'static str = text.leak();
    let write = move |conn: &mut Conn| conn.exec(&Sql::new(text)).map(drop);
    tenant.build.db.write::<(), StoreError>(write).await.unwrap();
}

async fn number(tenant: &TestBuild, text: &'static str) -> i64 {
    tenant.build.db.read::<_, StoreError>(move |conn| conn.query_one(&Sql::new(text), |row| row.int(0))).await.unwrap()
}

fn component_path(id: i64) -> String {
    format!("{ALL}{id}/")
}

fn repository_at(id: i64) -> String {
    format!("{REPOSITORIES}{id}/")
}

/// Waits until the status is not `processing`.
async fn wait_for_end(api: &ApiClient, path: &str) -> Value {
    eventually(async || {
        let found = api.get(path).await.ok();
        if found["status"] == "processing" { Err(found) } else { Ok(found) }
    })
    .await
}

/// Creates a repository whose import has failed.
async fn create_failed_repository(api: &ApiClient) -> i64 {
    let body = json!({"repository_url": NOWHERE, "username": "deploy", "token": "t0ken"});
    let id = api.post(REPOSITORIES, body).await.id();
    wait_for_end(api, &repository_at(id)).await;
    id
}

/// Creates a repository in the state after an import.
async fn create_imported_repository(tenant: &TestBuild, api: &ApiClient) -> i64 {
    let id = create_failed_repository(api).await;
    let parameters = r#"[{"parameter_description":"","parameter_name":"zoom","parameter_type":"integer","parameter_limit":20,"parameter_options":[]}]"#;
    let text = format!(
        "UPDATE custom_component_repositories SET status = 'imported', errors = NULL, version = '1.2', publisher = 'Maps Ltd', \
         publisher_url = 'https://maps.example', logo = 'https://maps.example/logo.svg', parameters = '{parameters}', \
         commit_id = '{COMMIT}', imported_at = created_at WHERE id = {id}"
    );
    sql(tenant, text).await;
    id
}

fn uses_body(holds: bool) -> Value {
    json!({
        "landing_page": holds, "object_class_create_form": true, "object_class_summary_form": false,
        "object_class_standalone_form": true, "task_template_form": false,
    })
}

fn body(name: &str, repository: i64) -> Value {
    json!({"name": name, "repository": repository, "available_use": uses_body(true)})
}

/// Creates a component with its own repository.
async fn component(tenant: &TestBuild, api: &ApiClient, name: &str) -> i64 {
    let repository = create_imported_repository(tenant, api).await;
    let id = api.post(ALL, body(name, repository)).await.id();
    wait_for_end(api, &component_path(id)).await;
    id
}

fn without_members(mut value: Value, names: &[&str]) -> Value {
    names.iter().for_each(|name| drop(value.as_object_mut().unwrap().shift_remove(*name)));
    value
}

fn with_member(mut value: Value, name: &str, sent: Value) -> Value {
    value[name] = sent;
    value
}

const UNREACHABLE: &str = "Repository is not reachable, or access to it is not permitted.";

#[tokio::test]
async fn a_repository_from_its_making_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let made = api.post(REPOSITORIES, json!({
        "repository_url": NOWHERE, "username": " deploy ", "token": "t0ken", "status": "imported", "id": 7, "version": "9",
    })).await;
    made.expect_reply(
        201,
        json!({
            "id": 1, "repository_url": NOWHERE, "username": "deploy", "created_at": START, "created_by": admin(),
        }),
    );
    let mut shown = json!({
        "id": 1, "repository_url": NOWHERE, "username": "deploy", "status": "failed", "errors": {"repository_url": [UNREACHABLE]},
        "version": null, "publisher": null, "publisher_url": null, "logo": null, "imported_at": null,
        "created_at": START, "created_by": admin(),
    });
    assert_eq!(wait_for_end(&api, &repository_at(1)).await, shown);
    // A repository cannot be changed. It can be imported again, even with other credentials.
    api.patch(&repository_at(1), json!({"username": "other"}))
        .await
        .expect_reply(405, message::detail("Method \"PATCH\" not allowed."));
    let import = format!("{}import/", repository_at(1));
    let again = api
        .post(&import, json!({"username": "other", "token": "s3cret", "repository_url": "https://evil.example"}))
        .await;
    shown["username"] = "other".into();
    again.expect_reply(
        200,
        with_member(with_member(shown.clone(), "status", json!("processing")), "errors", json!(null)),
    );
    assert_eq!(wait_for_end(&api, &repository_at(1)).await, shown);
    api.post(&import, json!({})).await.ok();
    wait_for_end(&api, &repository_at(1)).await;
    api.post(&import, json!({"username": "", "token": null})).await.refuses(json!({
        "username": ["This field may not be blank."], "token": ["This field may not be null."],
    }));
    let state = api.get(&repository_at(1)).await;
    let delete = |known: &str| api.call("DELETE", &repository_at(1)).header("if-match", known);
    delete("\"other\"").send().await.expect_reply(412, message::detail("Object has been changed."));
    delete(state.header("etag")).send().await.expect_empty();
    for path in [repository_at(1), repository_at(99)] {
        api.get(&path).await.expect_reply(404, message::not_found());
        api.delete(&path).await.expect_reply(404, message::not_found());
        api.post(&format!("{path}import/"), json!({})).await.expect_reply(404, message::not_found());
    }
    let log = api.get("/api/administration/log/?resource=custom_component_repositories&ordering=id").await;
    assert_eq!(log.column("action"), ["create", "import", "import", "delete"]);
    assert_eq!(log.column("object_name"), [NOWHERE; 4]);
    assert_eq!(
        log.column("changes"),
        [
            json!({"repository_url": [null, NOWHERE], "username": [null, "deploy"], "token": [null, "***"]}),
            json!({"username": ["deploy", "other"], "token": ["***", "***"]}),
            json!({}),
            json!({}),
        ]
    );
    // The token is stored encrypted.
    assert_eq!(number(&server, "SELECT count(*) FROM custom_component_repositories").await, 0);
}

#[tokio::test]
async fn wrong_repositories_are_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let required = json!(["This field is required."]);
    api.post(REPOSITORIES, json!({}))
        .await
        .refuses(json!({"repository_url": required, "username": required, "token": required}));
    let long = |count: usize| "x".repeat(count);
    api.post(
        REPOSITORIES,
        json!({"repository_url": format!("https://{}", long(2041)), "username": long(101), "token": long(151)}),
    )
    .await
    .refuses(json!({
        "repository_url": ["Ensure this field has no more than 2048 characters."],
        "username": ["Ensure this field has no more than 100 characters."],
        "token": ["Ensure this field has no more than 150 characters."],
    }));
    api.post(REPOSITORIES, json!({"repository_url": 5, "username": null, "token": ""})).await.refuses(json!({
        "repository_url": ["Not a valid string."], "username": ["This field may not be null."],
        "token": ["This field may not be blank."],
    }));
    for url in [
        "git",
        "ext::sh -c id",
        "file:///etc/passwd",
        "ssh://git@git.example/a",
        "http://git.example/a",
        "https://user@git.example/a",
        "https://user:token@git.example/a",
        "https://git.example/a?b",
        "https://",
    ] {
        api.post(REPOSITORIES, json!({"repository_url": url, "username": "u", "token": "t"}))
            .await
            .refuses(json!({"repository_url": ["Enter a valid URL."]}));
    }
    assert_eq!(number(&server, "SELECT count(*) FROM custom_component_repositories").await, 0);
}

#[tokio::test]
async fn a_repository_at_a_closed_address_fails() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for host in
        ["10.0.0.1", "127.1", "0x7f.1", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254", "localhost", "nowhere.invalid"]
    {
        let body = json!({"repository_url": format!("https://{host}/a.git"), "username": "u", "token": "t"});
        let id = api.post(REPOSITORIES, body).await.id();
        assert_eq!(
            wait_for_end(&api, &repository_at(id)).await["errors"],
            json!({"repository_url": [UNREACHABLE]}),
            "{host}"
        );
    }
}

#[tokio::test]
async fn a_build_has_so_many_repositories() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    create_failed_repository(&api).await;
    server.set_limit("custom_component_repositories", 2).await;
    create_failed_repository(&api).await;
    let body = json!({"repository_url": NOWHERE, "username": "deploy", "token": "t"});
    let refusal = json!({"detail": "Limit of 2 Repositories has been exceeded.", "error_code": "ERR_LIMIT_EXCEEDED"});
    api.post(REPOSITORIES, body.clone()).await.expect_reply(400, refusal);
    api.delete(&repository_at(1)).await.expect_empty();
    api.post(REPOSITORIES, body).await.expect_created();
}

#[tokio::test]
async fn the_schema_of_a_repository_has_what_a_create_takes() {
    let server = TestServer::start().await;
    let document = server.admin().await.options(REPOSITORIES).await.ok();
    let least = json!({"name": "min_length", "value": 1});
    let most = |max: i64| json!({"name": "max_length", "value": max});
    assert_eq!(
        document["details"]["schema"],
        json!([
            {"alias": "repository_url", "type": "url", "required": true, "editable": false, "validators": [most(2048)]},
            {"alias": "username", "type": "string", "required": true, "editable": true, "validators": [least, most(100)]},
            {
                "alias": "token", "type": "string", "required": true, "editable": true, "validators": [most(150)],
                "write_only": true,
            },
        ])
    );
    assert_eq!(document["restrictions"], json!({"limit_items": 200}));
}

#[tokio::test]
async fn a_component_from_its_making_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let repository = create_imported_repository(&server, &api).await;
    api.get(ALL).await.expect_reply(200, page(json!([])));
    let made = api
        .post(
            ALL,
            json!({
                "name": " Map ", "description": "Shows places", "repository": repository, "is_enabled": true,
                "available_use": with_member(uses_body(true), "planet", json!(1)), "status": "failed", "version": "9",
            }),
        )
        .await;
    let permissions = json!({"permissions": {"list": true, "view": true, "create": true, "edit": true}});
    let index = format!("https://a.example/components/1/{COMMIT}/index.html");
    let mut shown = json!({
        "id": 1, "name": "Map", "description": "Shows places", "repository": repository, "is_enabled": true,
        "status": "processing", "available_use": uses_body(true), "version": "1.2", "publisher": "Maps Ltd",
        "publisher_url": "https://maps.example",
        "parameters": [{
            "parameter_description": "", "parameter_name": "zoom", "parameter_type": "integer", "parameter_limit": 20,
            "parameter_options": [],
        }],
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "index_url": index, "_meta": permissions,
    });
    made.expect_reply(201, shown.clone());
    shown["status"] = "installed".into();
    assert_eq!(wait_for_end(&api, &component_path(1)).await, shown);
    let listed = with_member(without_members(shown.clone(), &["parameters"]), "repository_url", NOWHERE.into());
    api.get(ALL).await.expect_reply(200, page(json!([listed])));

    server.advance(SECOND);
    let component = api.get(&component_path(1)).await;
    let edit = |etag: &str| {
        api.call("PATCH", &component_path(1)).header("if-match", etag).json(&json!({
        "name": "Chart", "description": "", "is_enabled": false, "repository": 99, "status": "failed", "available_use": uses_body(false),
    }))
    };
    edit("\"other\"").send().await.expect_reply(412, message::detail("Object has been changed."));
    for (name, value) in [
        ("name", json!("Chart")),
        ("description", json!("")),
        ("is_enabled", json!(false)),
        ("available_use", uses_body(false)),
        ("modified_at", json!("2026-01-31T09:30:01.000000Z")),
    ] {
        shown[name] = value;
    }
    edit(component.header("etag")).send().await.expect_reply(200, shown.clone());
    api.patch(&component_path(1), json!({})).await.expect_reply(200, shown);
    api.delete(&repository_at(repository))
        .await
        .refuses(message::detail("Repository is used by a custom component and cannot be deleted."));

    api.delete(&component_path(1)).await.expect_empty();
    for path in [component_path(1), component_path(99)] {
        api.get(&path).await.expect_reply(404, message::not_found());
        api.patch(&path, json!({})).await.expect_reply(404, message::not_found());
        api.delete(&path).await.expect_reply(404, message::not_found());
    }
    // Its repository stays and can be used again.
    api.post(ALL, body("Map", repository)).await.expect_created();
    let log = api.get("/api/administration/log/?resource=custom_components&ordering=id").await;
    assert_eq!(log.column("action"), ["create", "edit", "delete", "create"]);
    assert_eq!(log.column("object_name"), ["Map", "Chart", "Chart", "Map"]);
    assert_eq!(
        log.column("changes")[1],
        json!({
            "name": ["Map", "Chart"], "description": ["Shows places", ""], "is_enabled": [true, false],
            "available_use": [uses_body(true), uses_body(false)],
        })
    );
}

#[tokio::test]
async fn wrong_components_are_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    component(&server, &api, "Taken").await;
    let (other, broken) = (create_imported_repository(&server, &api).await, create_failed_repository(&api).await);
    let required = json!(["This field is required."]);
    api.post(ALL, json!({}))
        .await
        .refuses(json!({"name": required, "repository": required, "available_use": required}));
    for (name, value, wrong) in [
        ("name", json!("x".repeat(101)), json!(["Ensure this field has no more than 100 characters."])),
        ("name", json!("tAKEN"), json!(["This field must be unique."])),
        ("name", json!(" "), json!(["This field may not be blank."])),
        ("name", json!(null), json!(["This field may not be null."])),
        ("description", json!("x".repeat(501)), json!(["Ensure this field has no more than 500 characters."])),
        ("description", json!(null), json!(["This field may not be null."])),
        ("is_enabled", json!("true"), json!(["Must be a valid boolean."])),
        ("repository", json!(99), json!(["Invalid pk 99 - object does not exist."])),
        ("repository", json!("a"), json!(["Incorrect type. Expected pk value, received str."])),
        ("repository", json!(null), json!(["This field may not be null."])),
        ("repository", json!(1), json!(["This field must be unique."])),
        ("repository", json!(broken), json!(["Repository import has failed."])),
        ("available_use", json!(null), json!(["This field may not be null."])),
        ("available_use", json!([]), json!(["Invalid data. Expected a dictionary, but got list."])),
        (
            "available_use",
            without_members(uses_body(true), &["landing_page", "task_template_form"]),
            json!({"landing_page": required, "task_template_form": required}),
        ),
        (
            "available_use",
            with_member(with_member(uses_body(true), "landing_page", json!(1)), "task_template_form", json!(null)),
            json!({"landing_page": ["Must be a valid boolean."], "task_template_form": ["This field may not be null."]}),
        ),
    ] {
        api.post(ALL, with_member(body("New", other), name, value.clone())).await.refuses(json!({name: wrong}));
        if name != "repository" && wrong != json!(["This field must be unique."]) {
            api.patch(&component_path(1), json!({name: value})).await.refuses(json!({name: wrong}));
        }
    }
    // All errors are reported together.
    api.post(ALL, json!({"name": "", "repository": broken, "available_use": {}})).await.refuses(json!({
        "name": ["This field may not be blank."],
        "available_use": {
            "landing_page": required, "object_class_create_form": required, "object_class_summary_form": required,
            "object_class_standalone_form": required, "task_template_form": required,
        },
        "repository": ["Repository import has failed."],
    }));
    assert_eq!(api.get(ALL).await["total_count"], 1);
}

#[tokio::test]
async fn the_list_is_sorted_and_filtered() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["b", "C", "a"] {
        component(&server, &api, name).await;
        server.advance(SECOND);
    }
    api.patch(&component_path(2), json!({"is_enabled": true})).await.ok();
    for (query, ids) in [
        ("ordering=name", vec![3, 1, 2]),
        ("ordering=-id", vec![3, 2, 1]),
        ("ordering=-created_at", vec![3, 2, 1]),
        ("ordering=-modified_at", vec![2, 3, 1]),
        ("id__gt=1", vec![2, 3]),
        ("name__icontains=c", vec![2]),
        ("is_enabled=true", vec![2]),
        ("status=installed", vec![1, 2, 3]),
        ("status=failed", vec![]),
        ("created_by=1", vec![1, 2, 3]),
        ("modified_by=2", vec![]),
        ("created_at__gt=2026-01-31T09:30:00Z", vec![2, 3]),
        ("repository=1", vec![1, 2, 3]),
        ("publisher=x", vec![1, 2, 3]),
    ] {
        assert_eq!(api.get(&format!("{ALL}?{query}")).await.ids(), ids, "{query}");
    }
    api.get(&format!("{ALL}?ordering=status")).await.expect(400);
    api.get(&format!("{ALL}?status=gone"))
        .await
        .refuses(json!({"status": ["Select a valid choice. gone is not one of the available choices."]}));
}

#[tokio::test]
async fn a_component_waits_for_its_repository() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let repository = create_failed_repository(&api).await;
    // Its import has not run yet.
    sql(&server, "UPDATE custom_component_repositories SET status = 'processing'".to_owned()).await;
    let made = api.post(ALL, body("Map", repository)).await;
    assert_eq!(
        (made["status"].clone(), made["index_url"].clone(), made["version"].clone()),
        (json!("processing"), json!(null), json!(null))
    );
    assert_eq!(made["parameters"], json!([]));
    api.post(&format!("{}import/", repository_at(repository)), json!({})).await.ok();
    assert_eq!(wait_for_end(&api, &component_path(1)).await["status"], "failed");
    // The component waits again when another import is requested.
    let import = format!("{}import/", repository_at(repository));
    api.post(&import, json!({})).await.ok();
    assert_eq!(wait_for_end(&api, &component_path(1)).await["status"], "failed");
    // An installed component stays installed when a later import fails.
    sql(&server, format!("UPDATE custom_component_repositories SET commit_id = '{COMMIT}'")).await;
    api.post(&import, json!({})).await.ok();
    assert_eq!(wait_for_end(&api, &component_path(1)).await["status"], "installed");
    assert_eq!(wait_for_end(&api, &repository_at(repository)).await["status"], "failed");
    api.post(&import, json!({})).await.ok();
    wait_for_end(&api, &repository_at(repository)).await;
    assert_eq!(api.get(&component_path(1)).await["status"], "installed");
}

#[tokio::test]
async fn a_build_has_so_many_components() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    server.set_limit("custom_components", 1).await;
    component(&server, &api, "Map").await;
    let repository = create_imported_repository(&server, &api).await;
    let refusal =
        json!({"detail": "Limit of 1 Custom Components has been exceeded.", "error_code": "ERR_LIMIT_EXCEEDED"});
    api.post(ALL, body("Chart", repository)).await.expect_reply(400, refusal);
    assert_eq!(api.get("/api/limits/").await["custom_components"], json!({"count": 1, "limit": 1}));
    api.delete(&component_path(1)).await.expect_empty();
    api.post(ALL, body("Chart", repository)).await.expect_created();
}

#[tokio::test]
async fn only_super_admins_have_components() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    component(&server, &api, "Map").await;
    assert!(!api.options("/api/roles/").await.text.contains("custom_component\":[\"list"));
    api.post("/api/roles/", json!({"name": "R", "permissions": {"custom_component": ["view"]}}))
        .await
        .refuses(json!({"permissions": ["Invalid resource custom_component."]}));
    for account_type in ["internal", "external", "full"] {
        let other = server.as_type(account_type).await;
        assert_eq!(
            other.get("/api/users/permissions/").await["custom_component"],
            json!({"list": false, "view": false, "create": false, "edit": false})
        );
        let refused = |reply: Reply| reply.expect_reply(403, message::forbidden());
        for path in [ALL.to_owned(), component_path(1), repository_at(1)] {
            refused(other.get(&path).await);
        }
        refused(other.post(ALL, json!({})).await);
        refused(other.post(REPOSITORIES, json!({})).await);
        refused(other.post(&format!("{}import/", repository_at(1)), json!({})).await);
        refused(other.patch(&component_path(1), json!({})).await);
        refused(other.delete(&component_path(1)).await);
        refused(other.delete(&repository_at(1)).await);
        other.options(ALL).await.ok();
        other.options(REPOSITORIES).await.ok();
    }
}

#[tokio::test]
async fn everybody_who_is_signed_in_can_show_an_enabled_component() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    component(&server, &api, "Map").await;
    let clerk = server.as_type("external").await;
    let frame = "/api/custom-components/frames/1/";
    clerk.get(frame).await.expect_reply(404, message::not_found());
    api.patch(&component_path(1), json!({"is_enabled": true})).await.ok();
    let index = format!("https://a.example/components/1/{COMMIT}/index.html");
    clerk.get(frame).await.expect_reply(200, json!({"id": 1, "name": "Map", "index_url": index}));
    clerk.get("/api/custom-components/frames/9/").await.expect_reply(404, message::not_found());
    server.anonymous().get(frame).await.expect_reply(401, message::unauthenticated());
}

#[tokio::test]
async fn a_component_that_goes_leaves_forms() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["Map", "Chart"] {
        let id = component(&server, &api, name).await;
        api.patch(&component_path(id), json!({"is_enabled": true})).await.ok();
    }
    let class = api.post("/api/object-classes/", json!({"name": "Order"})).await.id();
    let form = json!({
        "name": "New order", "object_class": class, "type": "create", "configuration": {}, "custom_components": [1, 2],
    });
    let uuid = api.post("/api/object-class-forms/", form).await.expect_created()["uuid"].as_str().unwrap().to_owned();
    api.delete(&component_path(1)).await.expect_empty();
    assert_eq!(api.get(&format!("/api/object-class-forms/{uuid}/")).await["custom_components"], json!([2]));
}

#[tokio::test]
async fn of_creates_at_once_one_has_the_repository_and_one_the_last_place() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let repository = create_imported_repository(&server, &api).await;
    let creates =
        (0..8).map(|n| api.call("POST", ALL).json(&body(&format!("Map {n}"), repository))).collect::<Vec<_>>();
    one_wins(&send_concurrently(creates).await, 201, &json!({"repository": ["This field must be unique."]}));
    let mut repositories = Vec::new();
    for _ in 0..4 {
        repositories.push(create_imported_repository(&server, &api).await);
    }
    server.set_limit("custom_components", 2).await;
    let creates = repositories.into_iter().map(|id| api.call("POST", ALL).json(&body(&format!("Chart {id}"), id)));
    one_wins(&send_concurrently(creates).await, 201, &message::limit_exceeded("2 Custom Components"));
}
