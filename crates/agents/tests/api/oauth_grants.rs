//! Grants and their ends (`docs/reference/agent-sign-in.md`).

use crate::TestServer;
use crate::dance::{GrantTokens, TestAgent, fails, sessions, with_agent};
use crate::set_up::{CONNECTORS, INTEGRATIONS, number};
use serde_json::{Value, json};
use testkit::{ApiClient, Browser, DAY, PASSWORD, message};

#[tokio::test]
async fn a_grant_is_listed_and_ended_by_its_person() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    let person = server.sign_in(&username, PASSWORD).await;
    let tokens = agent.grant(&server, &username).await;
    let listed = sessions(&person).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["user_agent"], &listed[0]["ip"]), (&json!("Assistant"), &json!("127.0.0.1")));
    // Every process uses the name and version that the agent has sent.
    let client = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "Helper\n", "version": "1.2"},
    });
    agent.send_request(&server, &tokens, "initialize", client).await.ok();
    // The session always names the connector as well.
    let named = sessions(&person).await[0].clone();
    let connector = json!({"connector": {"id": 1, "name": "Assistant"}});
    assert_eq!((&named["user_agent"], &named["agent"]), (&json!("Helper 1.2"), &connector));
    api.patch(&format!("{CONNECTORS}1/"), json!({"name": "The \"Helper\""})).await.ok();
    assert_eq!(sessions(&person).await[0]["agent"]["connector"]["name"], "The \"Helper\"");
    let own = person.get("/api/users/me/sessions/").await.ok();
    let own = own["results"].as_array().unwrap().iter().find(|session| session["is_current"] == true).unwrap().clone();
    assert_eq!(own["agent"], Value::Null);
    let grant = listed[0]["id"].as_i64().unwrap();

    person.delete(&format!("/api/users/me/sessions/{grant}/")).await.expect_empty();
    assert!(!agent.may_call(&server, &tokens).await);
    fails(&agent.refresh(&server, &tokens.refresh).await, 400, "invalid_grant");
    person.get("/api/users/me/").await.ok();
}

#[tokio::test]
async fn no_token_of_a_grant_is_good_for_a_session_nor_the_other_way_round() {
    let (server, api, agent) = with_agent().await;
    let other = crate::dance::agent(&api, "Other").await;
    let username = server.account("internal").await;
    let person = server.sign_in(&username, PASSWORD).await;
    let tokens = agent.grant(&server, &username).await;
    for scheme in ["JWT", "Bearer"] {
        for token in [&tokens.access, &tokens.refresh] {
            let call =
                server.anonymous().call("GET", "/api/users/me/").header("authorization", &format!("{scheme} {token}"));
            call.send().await.expect_reply(401, message::bad_token());
        }
    }
    for token in [&tokens.access, &tokens.refresh] {
        let body = json!({"refresh_token": token});
        person.anonymous().post("/api/auth/refresh/", body.clone()).await.expect_reply(401, message::bad_token());
        person.anonymous().post("/api/auth/logout/", body).await.expect_empty();
    }
    assert!(agent.may_call(&server, &tokens).await);
    // Tokens of the main API and of another connector, edited tokens, and no token.
    for token in [&person.token, &person.refresh_token, &tokens.refresh, "", "x", &tokens.access[1..]] {
        let tokens = GrantTokens { access: token.to_owned(), ..tokens.clone() };
        assert!(!agent.may_call(&server, &tokens).await, "{token}");
    }
    assert!(!other.may_call(&server, &tokens).await);
    fails(&agent.refresh(&server, &person.refresh_token).await, 400, "invalid_grant");
    fails(&agent.refresh(&server, &tokens.access).await, 400, "invalid_grant");
    fails(&other.refresh(&server, &tokens.refresh).await, 400, "invalid_grant");
    agent.send(&server, "/oauth/revoke", &[("token", &person.refresh_token)]).await.ok_or_empty();
    person.get("/api/users/me/").await.ok();
    GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
}

/// Accepts an answer without a body.
trait OkOrEmpty {
    fn ok_or_empty(&self);
}

impl OkOrEmpty for testkit::Reply {
    #[track_caller]
    fn ok_or_empty(&self) {
        assert_eq!((self.status, self.text.as_str()), (200, ""));
    }
}

/// The effect of an event on a grant.
#[derive(Clone, Copy, PartialEq)]
enum GrantEnding {
    /// Ends the grant.
    Grant,
    /// Refuses its calls while the state lasts.
    Calls,
}

/// Changes the account or the connector, and checks the agent's tokens.
async fn check(
    what: &str,
    ends: GrantEnding,
    change: impl AsyncFn(&TestServer, &ApiClient, i64, &TestAgent),
    back: impl AsyncFn(&ApiClient, i64, &TestAgent),
) {
    let (server, api, agent) = with_agent().await;
    let person = server.as_type("internal").await;
    let tokens = agent.grant(&server, &person.username).await;
    let second = GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
    assert!(agent.may_call(&server, &second).await, "{what}");
    change(&server, &api, person.id, &agent).await;
    assert!(!agent.may_call(&server, &second).await, "{what}: at once");
    back(&api, person.id, &agent).await;
    assert_eq!(agent.may_call(&server, &second).await, ends == GrantEnding::Calls, "{what}: afterwards");
    let refreshed = agent.refresh(&server, &second.refresh).await.status == 200;
    assert_eq!(refreshed, ends == GrantEnding::Calls, "{what}: refresh");
}

#[tokio::test]
async fn a_grant_ends_with_the_sessions_of_its_person() {
    let action = |api: &ApiClient, id: i64, name: &str| {
        let (api, path) = (api.clone(), format!("/api/users/{id}/{name}/"));
        async move { api.post(&path, json!({})).await.ok() }
    };
    check(
        "deactivated",
        GrantEnding::Grant,
        async |_, api, id, _| drop(action(api, id, "deactivate").await),
        async |api, id, _| drop(action(api, id, "reactivate").await),
    )
    .await;
    check(
        "anonymized",
        GrantEnding::Grant,
        async |_, api, id, _| drop(action(api, id, "anonymize").await),
        async |_, _, _| {},
    )
    .await;
    check(
        "deleted",
        GrantEnding::Grant,
        async |_, api, id, _| api.delete(&format!("/api/users/{id}/")).await.expect_empty(),
        async |_, _, _| {},
    )
    .await;
    check(
        "renamed",
        GrantEnding::Grant,
        async |_, api, id, _| {
            drop(api.patch(&format!("/api/users/{id}/"), json!({"username": "b@example.com"})).await.ok())
        },
        async |_, _, _| {},
    )
    .await;
    check(
        "a changed password",
        GrantEnding::Grant,
        async |server, _, _, _| {
            let person = server.sign_in("internal@example.com", PASSWORD).await;
            let body = json!({"current_password": PASSWORD, "new_password": "Another password 2"});
            person.post("/api/auth/password-change/", body).await.expect_empty();
        },
        async |_, _, _| {},
    )
    .await;
}

async fn method(api: &ApiClient, account_type: &str, method: &str) {
    let mut methods = json!({});
    methods[account_type] = json!(method);
    api.patch("/api/security/", json!({"authentication_method": methods})).await.ok();
}

#[tokio::test]
async fn a_grant_ends_with_what_let_its_person_in() {
    check(
        "a forbidden method",
        GrantEnding::Grant,
        async |_, api, _, _| method(api, "internal", "sso").await,
        async |api, _, _| method(api, "internal", "any").await,
    )
    .await;
    check(
        "another account type",
        GrantEnding::Grant,
        async |_, api, id, _| {
            method(api, "external", "sso").await;
            api.patch(&format!("/api/users/{id}/"), json!({"account_type": "external"})).await.ok();
        },
        async |api, id, _| {
            api.patch(&format!("/api/users/{id}/"), json!({"account_type": "internal"})).await.ok();
        },
    )
    .await;
}

async fn enable(api: &ApiClient, path: &str, is_enabled: bool) {
    api.patch(path, json!({"is_enabled": is_enabled})).await.ok();
}

#[tokio::test]
async fn a_connector_ends_its_grants_or_refuses() {
    let connector_path = format!("{CONNECTORS}1/");
    check(
        "a disabled connector",
        GrantEnding::Calls,
        async |_, api, _, _| enable(api, &connector_path, false).await,
        async |api, _, _| enable(api, &connector_path, true).await,
    )
    .await;
    let integration_path = |agent: &TestAgent| format!("{INTEGRATIONS}{}/", agent.integration);
    check(
        "a disabled integration",
        GrantEnding::Calls,
        async |_, api, _, agent| enable(api, &integration_path(agent), false).await,
        async |api, _, agent| enable(api, &integration_path(agent), true).await,
    )
    .await;
    check(
        "deleted",
        GrantEnding::Grant,
        async |_, api, _, _| api.delete(&connector_path).await.expect_empty(),
        async |_, _, _| {},
    )
    .await;
    let reset = format!("{connector_path}reset-client-secret/");
    check(
        "a new secret",
        GrantEnding::Grant,
        async |_, api, _, _| drop(api.post(&reset, json!({})).await.ok()),
        async |_, _, _| {},
    )
    .await;
}

#[tokio::test]
async fn a_new_secret_takes_the_place_of_the_old_one_at_once() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    let (tokens, code) =
        (agent.grant(&server, &username).await, agent.code(&mut Browser::new(&server), &username).await);
    let answer = api.post(&format!("{CONNECTORS}1/reset-client-secret/"), json!({})).await.ok();
    fails(&agent.refresh(&server, &tokens.refresh).await, 401, "invalid_client");
    let agent = TestAgent { secret: answer["client_secret"].as_str().unwrap().to_owned(), ..agent };
    fails(&agent.refresh(&server, &tokens.refresh).await, 400, "invalid_grant");
    // A code from before is refused, too.
    fails(&agent.exchange(&server, &code).await, 400, "invalid_grant");
    assert!(!agent.may_call(&server, &tokens).await);
    let tokens = agent.grant(&server, &username).await;
    assert!(agent.may_call(&server, &tokens).await);
}

/// The refusal of an agent's call.
async fn expect_refusal(server: &TestServer, agent: &TestAgent, tokens: &GrantTokens) -> (u16, Value) {
    let refused = agent.send_request(server, tokens, "ping", json!({})).await;
    (refused.status, refused.json)
}

#[tokio::test]
async fn rotation_and_the_addresses_of_the_person_hold_for_the_agent() {
    let (server, api, agent) = with_agent().await;
    let person = server.as_type("internal").await;
    let tokens = agent.grant(&server, &person.username).await;
    let user = format!("/api/users/{}/", person.id);
    let code = agent.code(&mut Browser::new(&server), &person.username).await;
    let elsewhere = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["10.0.0.0/8"]});
    api.patch(&user, elsewhere).await.ok();
    let not_from_here = message::detail("Access from this address is not allowed.");
    assert_eq!(expect_refusal(&server, &agent, &tokens).await, (403, not_from_here));
    let error = json!({
        "error": "invalid_grant", "error_description": "Access from this address is not allowed.",
        "detail": "Access from this address is not allowed.",
    });
    agent.refresh(&server, &tokens.refresh).await.expect_reply(403, error.clone());
    agent.exchange(&server, &code).await.expect_reply(403, error);
    api.patch(&user, json!({"is_ip_restriction_enabled": false})).await.ok();
    assert!(agent.may_call(&server, &tokens).await);
    let tokens = GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);

    api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    server.advance(DAY);
    let tokens = GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
    assert_eq!(expect_refusal(&server, &agent, &tokens).await, (403, message::detail("Password change required.")));
}

#[tokio::test]
async fn a_person_has_twenty_grants_on_a_connector_at_most() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let first = agent.grant(&server, &username).await;
    let mut last = first.clone();
    for _ in 0..20 {
        last = agent.grant(&server, &username).await;
    }
    assert!(!agent.may_call(&server, &first).await && agent.may_call(&server, &last).await);
    let live = "SELECT count(*) FROM sessions WHERE connector = 1 AND ended_at IS NULL";
    assert_eq!(number(&server, live).await, 20);
    // Codes and tokens of ended grants are deleted.
    server.advance(8 * DAY);
    agent.grant(&server, &username).await;
    assert_eq!(number(&server, "SELECT count(*) FROM agent_codes").await, 1);
    assert_eq!(number(&server, "SELECT count(*) FROM agent_refresh_tokens").await, 1);
}
