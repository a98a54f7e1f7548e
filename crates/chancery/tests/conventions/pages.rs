//! Cached answers of lists and instances: they never differ from an answer that is read again (`crates/platform/src/pages.rs`).

use crate::BINARY;
use crate::TestServer;
use platform::kit::answer_cache::AnswerCache;
use serde_json::{Value, json};
use store::StoreEngine;
use testkit::{ADMIN, ApiClient, DOMAIN, Installation, PASSWORD, PostgreSql, Reply};

const USERS: &str = "/api/users/?ordering=-id&limit=3";

/// Starts a server with a database of its own. On PostgreSQL, any write on its database server invalidates the cache.
async fn start_alone() -> (Option<PostgreSql>, TestServer) {
    let postgresql = PostgreSql::start();
    let url = postgresql.as_ref().map(PostgreSql::url);
    let server = TestServer::start_with(|config| {
        if let Some(url) = url {
            config.engine = StoreEngine::Postgres { url };
        }
        config.identity.lock_seconds = 60;
    });
    (postgresql, server.await)
}

/// Sends requests until the answer comes from the cache.
async fn shown_again(server: &TestServer, api: &ApiClient, path: &str) -> Reply {
    let before = server.app.slot::<AnswerCache>().hits();
    for _ in 0..100 {
        let reply = api.get(path).await;
        if server.app.slot::<AnswerCache>().hits() > before {
            return reply;
        }
    }
    panic!("{path} is looked up every time");
}

const ROLES: &str = "/api/roles/?ordering=name";

async fn names(api: &ApiClient) -> Vec<Value> {
    api.get(ROLES).await.column("name")
}

#[tokio::test]
async fn an_answer_is_kept_while_nothing_is_written() {
    let (_postgresql, server) = start_alone().await;
    let api = server.admin().await;
    let role = api.post("/api/roles/", json!({"name": "Clerks"})).await.id();
    let lists = [USERS, "/api/roles/", "/api/user-groups/", "/api/administration/log/", "/api/users/?status=active"];
    let role = format!("/api/roles/{role}/");
    let instances =
        [&role, "/api/users/me/", "/api/administration/company-details/", "/api/administration/smtp-settings/"];
    for path in lists.into_iter().chain(instances) {
        let first = api.get(path).await;
        let second = shown_again(&server, &api, path).await;
        assert_eq!((second.status, &second.text), (200, &first.text));
        for header in ["content-type", "etag", "cache-control", "x-content-type-options"] {
            assert_eq!(second.header(header), first.header(header));
        }
        assert_ne!(second.header("x-request-id"), first.header("x-request-id"));
    }
    assert!(api.get(&role).await.header("etag").starts_with('"'));
}

#[tokio::test]
async fn a_page_whose_rows_end_by_themselves_is_never_kept() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for _ in 0..20 {
        api.get("/api/users/me/sessions/").await.ok();
    }
    assert_eq!(server.app.slot::<AnswerCache>().hits(), 0);
}

#[tokio::test]
async fn every_write_is_in_the_next_page() {
    let (_postgresql, server) = start_alone().await;
    let api = server.admin().await;
    let mut expected: Vec<String> = Vec::new();
    for n in 0..20 {
        assert_eq!(shown_again(&server, &api, ROLES).await.column("name"), expected);
        let name = format!("Role {n:02}");
        let role = api.post("/api/roles/", json!({"name": name})).await.id();
        expected.push(name);
        assert_eq!(names(&api).await, expected);
        if n % 4 == 0 {
            let path = format!("/api/roles/{role}/");
            api.patch(&path, json!({"name": format!("Role {n:02} b")})).await.ok();
            expected[n] = format!("Role {n:02} b");
            assert_eq!(names(&api).await, expected);
        }
    }
}

#[tokio::test]
async fn every_write_is_in_the_next_look_at_an_instance() {
    let (_postgresql, server) = start_alone().await;
    let api = server.admin().await;
    let maker = server.as_type("super_admin").await;
    let role = maker.post("/api/roles/", json!({"name": "Clerks"})).await.id();
    let (role, maker) = (format!("/api/roles/{role}/"), format!("/api/users/{}/", maker.id));
    for n in 0..10 {
        let seen = shown_again(&server, &api, &role).await;
        let change = json!({"name": format!("Clerks {n}")});
        let tag = seen.header("etag");
        let changed = api.with_header("if-match", tag).patch(&role, change.clone()).await.ok();
        assert_eq!(changed["name"], change["name"]);
        assert_eq!(api.get(&role).await.ok(), changed);
        api.with_header("if-match", tag).patch(&role, change).await.expect(412);
        // The instance shows data of the user that it references.
        shown_again(&server, &api, &role).await;
        let name = format!("Maker {n}");
        api.patch(&maker, json!({"first_name": name})).await.ok();
        assert_eq!(api.get(&role).await["created_by"]["first_name"], name);
    }
    shown_again(&server, &api, &role).await;
    api.delete(&role).await.expect_empty();
    api.get(&role).await.expect(404);
}

const RECORDS: &str = "/api/object-classes/1/object-records/";

/// A new page reflects everything that determines a caller's records and their content: the records, their class, assignments,
/// groups, sets, owners and roles.
#[tokio::test]
async fn whatever_changes_a_list_of_records_is_in_the_next_one() {
    let (_postgresql, server) = start_alone().await;
    let (api, reader) = (server.admin().await, server.as_type("full").await);
    let (group, role) = (
        api.post("/api/user-groups/", json!({"name": "Readers"})).await.id(),
        api.post("/api/roles/", json!({"name": "All", "permissions": {"object_records": ["list", "view"]}})).await.id(),
    );
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    api.post("/api/object-classes/1/fields/", json!({"label": "Title", "type": "string"})).await.expect_created();
    let set = json!({"name": "Viewers", "permissions": {"object_records": ["view"]}});
    let set = api.post("/api/object-classes/1/record-permission-sets/", set).await.id();
    for title in ["a", "b", "c"] {
        api.post(RECORDS, json!({"fields": {"title": title}})).await.expect_created();
    }
    let assignees = format!("/api/object-records/1/permission-sets/{set}/assignees/");
    // A cached list is followed by a list with the change, here with the remaining ids.
    let next = async |ids: &[i64]| {
        let before = server.app.slot::<AnswerCache>().hits();
        assert_eq!(reader.get(RECORDS).await.ids(), ids);
        for _ in 0..20 {
            assert_eq!(reader.get(RECORDS).await.ids(), ids);
        }
        assert!(server.app.slot::<AnswerCache>().hits() > before);
    };
    reader.get(RECORDS).await.expect(404);
    let assignment = api.post(&assignees, json!([reader.id])).await.expect_created()[0]["id"].clone();
    next(&[1]).await;
    api.patch("/api/object-records/2/", json!({"owner": reader.id})).await.ok();
    next(&[1, 2]).await;
    api.patch("/api/object-records/1/", json!({"fields": {"title": "other"}})).await.ok();
    assert_eq!(reader.get(&format!("{RECORDS}?title=other")).await.ids(), [1]);
    assert_eq!(reader.get(&format!("{RECORDS}?title=a")).await.ids(), Vec::<i64>::new());
    api.delete_all(&assignees, json!([assignment])).await.expect_empty();
    next(&[2]).await;
    api.post(&format!("{assignees}user-groups/"), json!([group])).await.expect_created();
    next(&[2]).await;
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([reader.id])).await.expect_created();
    next(&[1, 2]).await;
    let path = format!("/api/object-classes/1/record-permission-sets/{set}/");
    api.patch(&path, json!({"permissions": {"object_records": []}})).await.ok();
    next(&[2]).await;
    api.patch(&path, json!({"permissions": {"object_records": ["view"]}})).await.ok();
    next(&[1, 2]).await;
    api.delete("/api/object-records/1/").await.expect_empty();
    next(&[2]).await;
    let everyone = api.get("/api/object-classes/1/permission-sets/").await.ids()[0];
    let everyone = format!("/api/object-classes/1/permission-sets/{everyone}/");
    api.patch(&everyone, json!({"permissions": {"object_records": ["view"]}})).await.ok();
    next(&[2, 3]).await;
    api.patch(&everyone, json!({"permissions": {"object_records": []}})).await.ok();
    next(&[2]).await;
    api.patch(&format!("/api/users/{}/", reader.id), json!({"roles": [role]})).await.ok();
    next(&[2, 3]).await;
    api.post(RECORDS, json!({"fields": {"title": "d"}})).await.expect_created();
    assert_eq!(reader.get(RECORDS).await["total_count"], 3);
    // A new or removed field changes the declaration.
    api.post("/api/object-classes/1/fields/", json!({"label": "Note", "type": "text"})).await.expect_created();
    assert_eq!(reader.get(RECORDS).await["results"][0]["fields"], json!({"title": "b", "note": null}));
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    assert_eq!(reader.get(RECORDS).await["results"][0]["fields"], json!({"note": null}));
    api.patch(&format!("/api/users/{}/", reader.id), json!({"roles": []})).await.ok();
    next(&[2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_write_see_at_once_what_they_wrote() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let api = api.clone();
            tokio::spawn(async move {
                for n in 0..10 {
                    let name = format!("{writer}-{n}");
                    let role = api.post("/api/roles/", json!({"name": name})).await.id();
                    let path = format!("/api/roles/?name={name}");
                    for _ in 0..5 {
                        assert_eq!(api.get(&path).await.ids(), [role]);
                        assert_eq!(api.get(&format!("/api/roles/{role}/")).await["name"], name);
                    }
                    api.delete(&format!("/api/roles/{role}/")).await.expect_empty();
                    for _ in 0..5 {
                        assert_eq!(api.get(&path).await.ids(), Vec::<i64>::new());
                        api.get(&format!("/api/roles/{role}/")).await.expect(404);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_another_process_are_in_the_next_page() {
    let Some(installation) = Installation::postgresql(BINARY).map(Installation::and_build) else { return };
    let (one, two) = (installation.serve_api(), installation.serve_api());
    let here = one.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let there = two.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let changing = format!("/api/roles/{}/", here.post("/api/roles/", json!({"name": "Changing"})).await.id());
    for n in 0..10 {
        for _ in 0..10 {
            for path in ["/api/roles/", &changing] {
                here.get(path).await.ok();
                there.get(path).await.ok();
            }
        }
        let (writer, reader) = if n % 2 == 0 { (&here, &there) } else { (&there, &here) };
        writer.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
        assert_eq!(reader.get("/api/roles/").await["total_count"], n + 2);
        let name = format!("Changed {n}");
        writer.patch(&changing, json!({"name": name})).await.ok();
        assert_eq!(reader.get(&changing).await["name"], name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_a_command_are_in_the_next_page() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_api();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    for n in 0..5 {
        for _ in 0..10 {
            assert_eq!(api.get(USERS).await["total_count"], n + 1);
        }
        let username = format!("new-{n}@example.com");
        let create = ["user", "create", "--build", "localhost", "--account-type", "internal", "--password", PASSWORD];
        installation.succeeds(&[&create[..], &["--username", &username]].concat());
        assert_eq!(api.get(USERS).await["total_count"], n + 2);
    }
}

#[tokio::test]
async fn a_lock_is_over_when_its_time_is_though_nothing_is_written() {
    let (_postgresql, server) = start_alone().await;
    let api = server.admin().await;
    let user = server.as_type("internal").await;
    let path = format!("/api/users/{}/", user.id);
    let statuses = async || {
        let statuses = api.get(USERS).await.column("status");
        assert_eq!(statuses[0], api.get(&path).await["status"]);
        statuses
    };
    for _ in 0..5 {
        user.login(&user.username, "wrong").await.expect(401);
    }
    assert_eq!(statuses().await, ["locked", "active"]);
    shown_again(&server, &api, USERS).await;
    shown_again(&server, &api, &path).await;
    assert_eq!(statuses().await, ["locked", "active"]);
    server.advance(59 * testkit::SECOND);
    assert_eq!(statuses().await, ["locked", "active"]);
    server.advance(testkit::SECOND);
    assert_eq!(statuses().await, ["active", "active"]);
    assert_eq!(api.get("/api/users/?status=locked").await.ids(), Vec::<i64>::new());
}

#[tokio::test]
async fn each_caller_has_pages_of_his_own() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let other = server.build("b.example").await.admin().await;
    let (full, external) = (server.as_type("full").await, server.as_type("external").await);
    let viewed = format!("/api/users/{}/", external.id);
    for _ in 0..10 {
        assert_eq!(admin.get(&viewed).await.ok()["_meta"]["permissions"]["edit"], true);
        assert_eq!(full.get(&viewed).await.ok()["_meta"]["permissions"]["edit"], false);
        other.get(&viewed).await.expect(404);
        assert_eq!(admin.get("/api/users/").await["total_count"], 3);
        assert_eq!(external.get("/api/users/").await.ids(), [external.id]);
        assert_eq!(other.get("/api/users/").await["total_count"], 1);
        assert_eq!(
            full.get("/api/users/?limit=1&ordering=-id").await["results"][0]["_meta"]["permissions"]["edit"],
            false
        );
    }
    // Changed rights lead to new pages. Another host leads to other addresses in them.
    let role = json!({"name": "Listers", "permissions": {"users": ["list", "view", "edit"]}});
    let role = admin.post("/api/roles/", role).await.id();
    admin.patch(&format!("/api/users/{}/", full.id), json!({"roles": [role]})).await.ok();
    for _ in 0..10 {
        let page = full.get("/api/users/?limit=1&ordering=-id").await.ok();
        assert_eq!(
            (&page["total_count"], &page["results"][0]["_meta"]["permissions"]["edit"]),
            (&json!(3), &json!(true))
        );
        assert_eq!(
            full.get(&viewed).await.ok()["_meta"]["permissions"],
            json!({
                "list": true, "view": true, "create": false, "edit": true, "delete": false,
            })
        );
    }
    for port in ["1111", "2222"] {
        let host = format!("{DOMAIN}:{port}");
        for _ in 0..10 {
            let page = admin.with_header("host", &host).get("/api/users/?limit=1").await;
            assert_eq!(page["next"], format!("http://{host}/api/users/?limit=1&offset=1"));
        }
    }
}
