//! Attacks by and on directories.

use crate::TestServer;
use crate::set_up::{
    GROUPS, TOKENS, USERS, configuration, directory, expect_refusal, group, patch, send, user, with_body,
    with_directory,
};
use serde_json::{Value, json};
use testkit::{PASSWORD, message, send_concurrently, statuses};

#[tokio::test]
async fn a_token_is_good_for_scim_alone() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    for path in [
        "/api/users/",
        "/api/users/me/",
        TOKENS,
        "/api/user-groups/",
        "/api/users/permissions/",
        "/api/single-sign-on/",
    ] {
        client.get(path).await.expect_reply(401, message::bad_token());
        client.post(path, json!({})).await.expect_reply(401, message::bad_token());
    }
    // A token of another build.
    let other = server.build("b.example").await;
    let api = server.admin().await;
    let made = api.post(TOKENS, json!({"name": "Again", "single_sign_on": 1})).await.expect_created();
    let token = made["token"].as_str().unwrap();
    let there = other.anonymous().with_header("authorization", &format!("Bearer {token}"));
    expect_refusal(&there.get(USERS).await, 401, None);
    for header in [
        format!("JWT {token}"),
        format!("Basic {token}"),
        format!("Bearer {token}x"),
        format!("Bearer {}", &token[4..]),
    ] {
        expect_refusal(&server.anonymous().with_header("authorization", &header).get(USERS).await, 401, None);
    }
}

#[tokio::test]
async fn nothing_else_is_good_for_scim() {
    let server = TestServer::start().await;
    let (api, _) = with_directory(&server).await;
    let service = server.as_type("service_internal").await;
    let body = json!({"name": "Key", "permissions": null, "expires_at": "2026-03-01T00:00:00Z"});
    let made = api.post(&format!("/api/users/{}/api-keys/", service.id), body).await.expect_created();
    let key = made["key"].as_str().unwrap();
    let by_key = server.anonymous().with_header("authorization", &format!("Bearer {key}"));
    let by_token = server.anonymous().with_header("authorization", &format!("Bearer {}", api.token));
    for caller in [&by_key, &by_token, &api, &server.anonymous()] {
        for (method, path) in [
            ("GET", USERS.to_owned()),
            ("POST", USERS.to_owned()),
            ("GET", format!("{USERS}1")),
            ("PUT", format!("{USERS}1")),
            ("PATCH", format!("{USERS}1")),
            ("DELETE", format!("{USERS}1")),
            ("GET", GROUPS.to_owned()),
            ("GET", "/api/scim/v2/ServiceProviderConfig".to_owned()),
            ("GET", "/api/scim/v2/Me".to_owned()),
            // A method that the path lacks.
            ("PUT", USERS.to_owned()),
        ] {
            let refused = send(caller, method, &path, json!({"userName": "x@example.com"})).await;
            expect_refusal(&refused, 401, None);
            assert_eq!(refused.header("www-authenticate"), "Bearer", "{method} {path}");
        }
    }
    // An API key makes no tokens.
    by_key.post(TOKENS, json!({"name": "A", "single_sign_on": 1})).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn super_admins_are_out_of_reach() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let id = user(&client, "a@example.com").await;
    let path = format!("{USERS}{id}");
    // Renaming an account into one of a super admin, or making one.
    for (operations, status, scim_type) in [
        (json!([{"op": "replace", "path": "userName", "value": "admin@example.com"}]), 409, "uniqueness"),
        (json!([{"op": "replace", "path": "userType", "value": "super_admin"}]), 400, "invalidValue"),
        (json!([{"op": "replace", "path": "account_type", "value": "super_admin"}]), 200, ""),
        (
            json!([{"op": "replace", "value": {"roles": [1], "account_type": "super_admin", "password": "x", "status": "active"}}]),
            200,
            "",
        ),
    ] {
        let reply = patch(&client, &path, operations).await;
        match status {
            200 => drop(reply.ok()),
            status => expect_refusal(&reply, status, Some(scim_type)),
        }
    }
    assert_eq!(api.get(&format!("/api/users/{id}/")).await.ok()["account_type"], "internal");
    // An account that people promote leaves the sight of the directory.
    api.patch(&format!("/api/users/{id}/"), json!({"account_type": "super_admin"})).await.ok();
    expect_refusal(&client.get(&path).await, 404, None);
    expect_refusal(&client.delete(&path).await, 404, None);
    let again = send(&client, "POST", USERS, json!({"userName": "a@example.com"})).await;
    expect_refusal(&again, 409, Some("uniqueness"));
    let found = client.get(&format!("{USERS}?filter=userName%20eq%20%22a@example.com%22")).await.ok();
    assert_eq!(found["totalResults"], 0);
}

#[tokio::test]
async fn a_deleted_account_that_is_promoted_is_not_revived() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let id = user(&client, "a@example.com").await;
    client.delete(&format!("{USERS}{id}")).await.expect_empty();
    api.patch(&format!("/api/users/{id}/"), json!({"account_type": "full"})).await.ok();
    let again = send(&client, "POST", USERS, json!({"userName": "a@example.com"})).await;
    expect_refusal(&again, 409, Some("uniqueness"));
    assert_eq!(api.get(&format!("/api/users/{id}/")).await.ok()["status"], "inactive");
}

#[tokio::test]
async fn external_ids_belong_to_a_configuration() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let second = configuration(&api, "Second").await;
    let other = directory(&server, &api, "Second", second).await;
    let body = |name: &str| json!({"userName": format!("{name}@example.com"), "externalId": "1"});
    let made = send(&client, "POST", USERS, body("a")).await.expect_created();
    expect_refusal(&send(&client, "POST", USERS, body("b")).await, 409, Some("uniqueness"));
    send(&other, "POST", USERS, body("b")).await.expect_created();
    let seen = other.get(&format!("{USERS}{}", made["id"].as_str().unwrap())).await.ok();
    assert_eq!(seen["externalId"], Value::Null);
    // The refused account was not created.
    assert_eq!(client.get(USERS).await.ok()["totalResults"], 2);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let path = format!("{USERS}{}", user(&client, "a@example.com").await);
    let comparisons = ["id%20eq%20%221%22"; 11].join("%20and%20");
    expect_refusal(&client.get(&format!("{USERS}?filter={comparisons}")).await, 400, Some("invalidFilter"));
    for attribute in ["userName", "externalId", "displayName"] {
        let filter = format!("{USERS}?filter={attribute}%20eq%20%22%5Cu0000%22");
        expect_refusal(&client.get(&filter).await, 400, Some("invalidFilter"));
    }
    let operation = json!({"op": "replace", "path": "title", "value": "x"});
    patch(&client, &path, json!(vec![&operation; 1_000])).await.ok();
    expect_refusal(&patch(&client, &path, json!(vec![&operation; 1_001])).await, 400, Some("invalidValue"));
    let large = json!({"userName": "b@example.com", "x": "y".repeat(3 * 1024 * 1024)});
    expect_refusal(&send(&client, "POST", USERS, large).await, 413, None);
    let deep = "[".repeat(100_000);
    let deep = client.call("POST", USERS).body("application/scim+json", format!("{{\"userName\":{deep}")).send().await;
    expect_refusal(&deep, 400, Some("invalidSyntax"));
    let members: Vec<Value> = (10..60_000).map(|id| json!({"value": id.to_string()})).collect();
    let team = format!("{GROUPS}{}", group(&client, "Team", &[]).await);
    let missing = patch(&client, &team, json!([{"op": "replace", "path": "members"}])).await;
    expect_refusal(&missing, 400, Some("invalidValue"));
    let many = patch(&client, &team, json!([{"op": "add", "path": "members", "value": members}])).await;
    expect_refusal(&many, 409, None);
    assert_eq!(many["detail"], "Limit of 1000 User Group Members has been exceeded.");
    assert_eq!(client.get(&team).await.ok()["members"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_exact() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    server.set_limit("users_internal", 3).await;
    user(&client, "a@example.com").await;
    user(&client, "b@example.com").await;
    let calls =
        (0..20).map(|n| with_body(client.call("POST", USERS), &json!({"userName": format!("u{n}@example.com")})));
    let replies = send_concurrently(calls).await;
    assert_eq!(statuses(&replies)[..2], [201, 409]);
    let refused = replies.iter().find(|reply| reply.status == 409).unwrap();
    expect_refusal(refused, 409, None);
    assert_eq!(refused["detail"], "Limit of 3 internal accounts has been exceeded.");
    assert_eq!(client.get(USERS).await.ok()["totalResults"], 3);

    server.set_limit("user_groups", 1).await;
    let calls = (0..10).map(|n| with_body(client.call("POST", GROUPS), &json!({"displayName": format!("G{n}")})));
    assert_eq!(statuses(&send_concurrently(calls).await)[..2], [201, 409]);
    server.set_limit("user_group_members", 1).await;
    let calls = ["2", "3", "4"].map(|id| {
        let body = json!({"Operations": [{"op": "add", "path": "members", "value": [{"value": id}]}]});
        with_body(client.call("PATCH", &format!("{GROUPS}1")), &body)
    });
    assert_eq!(statuses(&send_concurrently(calls).await), [200, 409, 409]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_changes_at_once_do_not_undo_each_other() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let mut ids = Vec::new();
    for n in 0..8 {
        ids.push(user(&client, &format!("u{n}@example.com")).await);
    }
    let (team, path) = (format!("{GROUPS}{}", group(&client, "Team", &[]).await), format!("{USERS}{}", ids[0]));
    let adding = ids.iter().map(|id| {
        let body = json!({"Operations": [{"op": "add", "path": "members", "value": [{"value": id}]}]});
        with_body(client.call("PATCH", &team), &body)
    });
    let fields = [("title", "A"), ("name.givenName", "B"), ("name.familyName", "C"), ("timezone", "Europe/Berlin")];
    let changing = fields.map(|(field, value)| {
        with_body(
            client.call("PATCH", &path),
            &json!({"Operations": [{"op": "replace", "path": field, "value": value}]}),
        )
    });
    let replies = send_concurrently(adding.chain(changing)).await;
    assert_eq!(statuses(&replies), [200; 12]);
    assert_eq!(client.get(&team).await.ok()["members"].as_array().unwrap().len(), 8);
    let changed = client.get(&path).await.ok();
    assert_eq!(
        (&changed["title"], &changed["displayName"], &changed["timezone"]),
        (&json!("A"), &json!("B C"), &json!("Europe/Berlin"))
    );
    // The same name at once.
    let calls = (0..8)
        .map(|_| with_body(client.call("POST", USERS), &json!({"userName": "same@example.com", "externalId": "s"})));
    assert_eq!(statuses(&send_concurrently(calls).await), [201, 409, 409, 409, 409, 409, 409, 409]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_deleted_and_revived_while_groups_change() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let id = user(&client, "a@example.com").await;
    let mut teams = Vec::new();
    for n in 0..4 {
        teams.push(format!("{GROUPS}{}", group(&client, &format!("Team {n}"), &[&id]).await));
    }
    let path = format!("{USERS}{id}");
    let add = json!({"Operations": [{"op": "add", "path": "members", "value": [{"value": id}]}]});
    let remove = json!({"Operations": [{"op": "remove", "path": "members"}]});
    let changes = teams.iter().flat_map(|team| [&remove, &add].map(|body| with_body(client.call("PATCH", team), body)));
    let calls: Vec<_> = changes.chain([client.call("DELETE", &path)]).collect();
    for status in statuses(&send_concurrently(calls).await) {
        assert!([200, 204, 400].contains(&status), "{status}");
    }
    for team in &teams {
        assert_eq!(client.get(team).await.ok()["members"], json!([]));
    }
    // One of several POSTs revives it.
    let calls = (0..6).map(|_| with_body(client.call("POST", USERS), &json!({"userName": "a@example.com"})));
    assert_eq!(statuses(&send_concurrently(calls).await), [201, 409, 409, 409, 409, 409]);
    for team in &teams {
        assert_eq!(client.get(team).await.ok()["members"], json!([]));
    }
}

#[tokio::test]
async fn a_deactivated_account_is_out_at_once() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    server.account("internal").await;
    let person = server.sign_in("internal@example.com", PASSWORD).await;
    person.get("/api/users/me/").await.ok();
    let path = format!("{USERS}{}", person.id);
    patch(&client, &path, json!([{"op": "replace", "path": "active", "value": false}])).await.ok();
    person.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn a_group_of_a_directory_lends_what_a_set_gives() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    server.account("external").await;
    let person = server.sign_in("external@example.com", PASSWORD).await;
    let team = group(&client, "Team", &[]).await;
    let target = api.post("/api/user-groups/", json!({"name": "Target"})).await.id();
    let set = json!({"name": "Readers", "permissions": {"user_groups": ["view"]}});
    let sets = format!("/api/user-groups/{target}/permission-sets/");
    let set = api.post(&sets, set).await.id();
    let team_id: i64 = team.parse().unwrap();
    api.post(&format!("{sets}{set}/assignees/user-groups/"), json!([team_id])).await.expect_created();
    let path = format!("/api/user-groups/{target}/");
    person.get(&path).await.expect_reply(403, message::forbidden());
    let add = json!([{"op": "add", "path": "members", "value": [{"value": person.id.to_string()}]}]);
    patch(&client, &format!("{GROUPS}{team}"), add).await.ok();
    person.get(&path).await.ok();
    patch(&client, &format!("{GROUPS}{team}"), json!([{"op": "remove", "path": "members"}])).await.ok();
    person.get(&path).await.expect_reply(403, message::forbidden());
}
