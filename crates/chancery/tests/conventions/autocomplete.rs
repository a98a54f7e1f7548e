//! `…/autocomplete/` (`docs/reference/conventions.md`).

use crate::TestServer;
use crate::message;
use crate::shown::page;
use serde_json::{Value, json};
use testkit::ApiClient;

/// Returns the labels of a path's results, in the order of the answer.
async fn labels(caller: &ApiClient, path: &str) -> Vec<Value> {
    caller.get(path).await.column("text")
}

#[tokio::test]
async fn users_by_a_part_of_their_names() {
    let server = TestServer::start().await;
    let internal = server.as_type("internal").await;
    let full = server.as_type("full").await;
    internal.get("/api/users/autocomplete/").await.expect_reply(
        200,
        page(json!([
            {"value": 1, "text": "admin Super Admin"},
            {"value": internal.id, "text": "internal Internal"},
            {"value": full.id, "text": "full Full"},
        ])),
    );
    let found = internal.get("/api/users/autocomplete/?text__icontains=FULL").await;
    found.expect_reply(
        200,
        json!({
            "limit": 25, "offset": 0, "total_count": 3, "filtered_count": 1, "next": null, "previous": null,
            "results": [{"value": full.id, "text": "full Full"}],
        }),
    );
    assert_eq!(labels(&full, "/api/users/autocomplete/?text__icontains=nobody").await, Vec::<Value>::new());
    let both = "/api/users/autocomplete/?text__icontains=i&text__icontains=super";
    assert_eq!(labels(&full, both).await, ["admin Super Admin"]);
}

#[tokio::test]
async fn letters_are_compared_ignoring_case_in_all_of_unicode() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["Straße", "ÅNGSTRÖM", "100%_\\"] {
        api.post("/api/roles/", json!({"name": name})).await.expect_created();
    }
    for (text, expected) in [
        ("STRASSE", vec!["Straße"]),
        ("%C3%A5ngstr%C3%B6m", vec!["ÅNGSTRÖM"]),
        ("%25_%5C", vec!["100%_\\"]),
        ("%25", vec!["100%_\\"]),
        ("", vec!["Straße", "ÅNGSTRÖM", "100%_\\"]),
    ] {
        assert_eq!(labels(&api, &format!("/api/roles/autocomplete/?text__icontains={text}")).await, expected, "{text}");
    }
}

#[tokio::test]
async fn pages_keep_the_text() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["Reds", "Blues", "Greens"] {
        api.post("/api/user-groups/", json!({"name": name})).await.expect_created();
    }
    let reply = api.get("/api/user-groups/autocomplete/?text__icontains=e&limit=1&offset=1").await;
    let address = "http://a.example/api/user-groups/autocomplete/";
    reply.expect_reply(
        200,
        json!({
            "limit": 1, "offset": 1, "total_count": 3, "filtered_count": 3,
            "next": format!("{address}?limit=1&offset=2&text__icontains=e"),
            "previous": format!("{address}?limit=1&text__icontains=e"),
            "results": [{"value": 2, "text": "Blues"}],
        }),
    );
    api.get("/api/roles/autocomplete/?limit=0")
        .await
        .refuses(json!({"limit": ["Ensure this value is greater than or equal to 1."]}));
}

#[tokio::test]
async fn only_what_the_caller_may_list_is_found() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let (internal, external) = (server.as_type("internal").await, server.as_type("external").await);
    let colleague = server.as_type("external").await;
    api.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    api.post("/api/user-groups/", json!({"name": "Team"})).await.expect_created();
    api.post("/api/user-groups/", json!({"name": "Others"})).await.expect_created();
    api.post("/api/user-groups/1/members/users/", json!([external.id, colleague.id])).await.expect_created();

    // All accounts may list all groups with `user_groups.list`, and all users with `users.list`.
    assert_eq!(labels(&internal, "/api/user-groups/autocomplete/").await, ["Team", "Others"]);
    assert_eq!(internal.get("/api/users/autocomplete/").await["total_count"], 4);
    internal.get("/api/roles/autocomplete/").await.expect_reply(200, page(json!([])));
    let lister = server.with_role(json!({"roles": ["list"]})).await;
    assert_eq!(labels(&lister, "/api/roles/autocomplete/?text__icontains=clerk").await, ["Clerks"]);

    // An external account may view its groups and their members.
    assert_eq!(labels(&external, "/api/user-groups/autocomplete/").await, ["Team"]);
    let seen = external.get("/api/users/autocomplete/").await;
    seen.expect_reply(
        200,
        page(json!([
            {"value": external.id, "text": "external External"},
            {"value": colleague.id, "text": "external-2 External"},
        ])),
    );
    let stranger = server.as_type("external").await;
    stranger.get("/api/user-groups/autocomplete/").await.expect_reply(200, page(json!([])));
    assert_eq!(labels(&stranger, "/api/users/autocomplete/").await, ["external-3 External"]);
    stranger.get("/api/roles/autocomplete/").await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn everyone_is_asked_to_sign_in() {
    let server = TestServer::start().await;
    server.admin().await.post("/api/object-classes/", json!({"name": "Class"})).await.expect_created();
    for path in [
        "/api/users/autocomplete/",
        "/api/user-groups/autocomplete/",
        "/api/roles/autocomplete/",
        "/api/object-classes/autocomplete/",
        "/api/object-classes/1/object-records/autocomplete/",
    ] {
        server.anonymous().get(path).await.expect_reply(401, message::unauthenticated());
        let reply = server.admin().await.post(path, json!({})).await;
        reply.expect_reply(405, message::detail("Method \"POST\" not allowed."));
        assert_eq!(reply.header("allow"), "GET, HEAD");
    }
}

#[tokio::test]
async fn the_address_that_assignees_name_leaves_out_one_time_accounts() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    server.account("one_time_completion").await;
    assert_eq!(api.get("/api/users/autocomplete/").await["total_count"], 2);
    let path = "/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains=";
    api.get(path).await.expect_reply(200, page(json!([{"value": 1, "text": "admin Super Admin"}])));
}
