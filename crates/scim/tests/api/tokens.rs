//! `/api/scim/tokens/` (`docs/reference/scim.md`).

use crate::TestServer;
use crate::set_up::{TOKENS, USERS, configuration, directory, expect_refusal, group, user, with_directory};
use serde_json::{Value, json};
use testkit::shown::{START, admin, page};
use testkit::{MINUTE, eventually, message, one_wins, send_concurrently};

#[tokio::test]
async fn a_token_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let configuration = configuration(&api, "Company").await;
    let body = json!({"name": " Directory ", "single_sign_on": configuration});
    let mut made = api.post(TOKENS, body).await.expect_created();
    let token = made["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("chs_"), "{token}");
    made.as_object_mut().unwrap().remove("token");
    let mut shown = json!({
        "id": 1, "name": "Directory", "single_sign_on": configuration, "expires_at": null, "created_at": START,
        "created_by": admin(), "last_used_at": null,
    });
    assert_eq!(made, shown);
    api.get(TOKENS).await.expect_reply(200, page(json!([shown])));

    let client = server.anonymous().with_header("authorization", &format!("Bearer {token}"));
    client.get(USERS).await.ok();
    shown["last_used_at"] = json!(START);
    eventually(async || api.get(TOKENS).await.ok()["results"][0] == shown).await;

    api.delete(&format!("{TOKENS}1/")).await.expect_empty();
    api.delete(&format!("{TOKENS}1/")).await.expect_reply(404, message::not_found());
    let refused = client.get(USERS).await;
    expect_refusal(&refused, 401, None);
    assert_eq!(refused.header("www-authenticate"), "Bearer");

    let log = api.get("/api/administration/log/?resource=scim_tokens&ordering=id").await.ok();
    assert!(!log.to_string().contains(&token), "{log}");
    let actions: Vec<&Value> = log["results"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["create", "delete"]);
}

#[tokio::test]
async fn the_fields_have_the_standard_rules() {
    let server = TestServer::start().await;
    let (api, _) = with_directory(&server).await;
    api.post(TOKENS, json!({})).await.refuses(json!({
        "name": ["This field is required."], "single_sign_on": ["This field is required."],
    }));
    let body = json!({"name": "DIRECTORY", "single_sign_on": 99, "expires_at": null});
    api.post(TOKENS, body).await.refuses(json!({
        "name": ["This field must be unique."], "single_sign_on": ["Invalid pk 99 - object does not exist."],
    }));
    let body = json!({"name": "Other", "single_sign_on": 1, "expires_at": START});
    api.post(TOKENS, body).await.refuses(json!({"expires_at": ["Date must be in the future."]}));
}

#[tokio::test]
async fn only_super_admins_manage_tokens() {
    let server = TestServer::start().await;
    let (_, _) = with_directory(&server).await;
    let all = json!({"users": ["list", "edit"], "single_sign_on": ["list", "view", "edit", "create", "delete"]});
    let full = server.with_role(all).await;
    for reply in [
        full.get(TOKENS).await,
        full.post(TOKENS, json!({"name": "A", "single_sign_on": 1})).await,
        full.delete(&format!("{TOKENS}1/")).await,
    ] {
        reply.expect_reply(403, message::forbidden());
    }
    let service = server.as_type("service_internal").await;
    service.post(TOKENS, json!({"name": "A", "single_sign_on": 1})).await.expect_created();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_has_ten_tokens_at_most() {
    let server = TestServer::start().await;
    let (api, _) = with_directory(&server).await;
    for n in 2..10 {
        api.post(TOKENS, json!({"name": format!("Token {n}"), "single_sign_on": 1})).await.expect_created();
    }
    let body = |n: usize| json!({"name": format!("Token {n}"), "single_sign_on": 1});
    let calls = (10..20).map(|n| api.call("POST", TOKENS).json(&body(n)));
    one_wins(&send_concurrently(calls).await, 201, &message::limit_exceeded("10 SCIM Tokens"));
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_its_configuration() {
    let server = TestServer::start().await;
    let (api, _) = with_directory(&server).await;
    let body = json!({"name": "Soon", "single_sign_on": 1, "expires_at": "2026-01-31T09:31:00Z"});
    let made = api.post(TOKENS, body).await.expect_created();
    let soon = server.anonymous().with_header("authorization", &format!("Bearer {}", made["token"].as_str().unwrap()));
    soon.get(USERS).await.ok();
    server.advance(MINUTE);
    expect_refusal(&soon.get(USERS).await, 401, None);

    let second = configuration(&api, "Second").await;
    let client = directory(&server, &api, "Second", second).await;
    let member = user(&client, "a@example.com").await;
    let made = group(&client, "Team", &[&member]).await;
    api.delete(&format!("/api/single-sign-on/{second}/")).await.expect_empty();
    expect_refusal(&client.get(USERS).await, 401, None);
    assert_eq!(api.get(TOKENS).await.ok()["total_count"], 2);
    // The account and the group stay. The limit of tokens has room again.
    api.get(&format!("/api/users/{member}/")).await.ok();
    api.get(&format!("/api/user-groups/{made}/")).await.ok();
}
