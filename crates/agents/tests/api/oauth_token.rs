//! `/oauth/token` and `/oauth/revoke` (`docs/reference/agent-sign-in.md`).

use crate::dance::{GrantTokens, exchange, fails, with_agent};
use crate::set_up::CONNECTORS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use testkit::{Browser, DAY, MINUTE, SECOND, send_concurrently, statuses};

#[tokio::test]
async fn a_code_is_exchanged_once_for_tokens_that_are_refreshed() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let code = agent.code(&mut Browser::new(&server), &username).await;
    let reply = agent.exchange(&server, &code).await;
    let body = reply.ok();
    assert_eq!(body["token_type"], "Bearer");
    assert_eq!(body["expires_in"], 900);
    assert_eq!((&body["scope"], body.as_object().unwrap().len()), (&json!("offline_access"), 5));
    assert_eq!(reply.header("cache-control"), "no-store");
    let first = GrantTokens::from_reply(&reply);
    let tools = agent.send_request(&server, &first, "tools/list", json!({})).await.ok();
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 9);

    server.advance(14 * MINUTE);
    assert!(agent.may_call(&server, &first).await);
    server.advance(2 * MINUTE);
    assert!(!agent.may_call(&server, &first).await, "an access token holds for 15 minutes");
    let second = GrantTokens::from_reply(&agent.refresh(&server, &first.refresh).await);
    assert!(agent.may_call(&server, &second).await);
    // Each refresh extends the grant.
    server.advance(6 * DAY);
    let third = GrantTokens::from_reply(&agent.refresh(&server, &second.refresh).await);
    server.advance(6 * DAY);
    let fourth = GrantTokens::from_reply(&agent.refresh(&server, &third.refresh).await);
    assert!(agent.may_call(&server, &fourth).await);
    server.advance(8 * DAY);
    fails(&agent.refresh(&server, &fourth.refresh).await, 400, "invalid_grant");
}

#[tokio::test]
async fn a_client_authenticates_by_basic_or_in_the_form() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    let mut tokens = agent.grant(&server, &username).await;
    let basic = |id: &str, secret: &str| format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
    let refresh = async |header: &str, more: &[(&str, &str)], token: &str| {
        let form = [&[("grant_type", "refresh_token"), ("refresh_token", token)][..], more].concat();
        let mut call = server.anonymous().call("POST", "/oauth/token").form(&form);
        if !header.is_empty() {
            call = call.header("authorization", header);
        }
        call.send().await
    };
    let right = basic(&agent.client_id, &agent.secret);
    let encoded = basic(&agent.client_id.replace('-', "%2D"), &agent.secret);
    for (header, more) in [
        (right.as_str(), vec![]),
        (&encoded, vec![]),
        (&right, vec![("client_id", agent.client_id.as_str())]),
        ("", vec![("client_id", agent.client_id.as_str()), ("client_secret", &agent.secret)]),
    ] {
        tokens = GrantTokens::from_reply(&refresh(header, &more, &tokens.refresh).await);
    }
    let other = crate::dance::agent(&api, "Other").await;
    for (header, more) in [
        (String::new(), vec![]),
        (String::new(), vec![("client_id", agent.client_id.as_str())]),
        (String::new(), vec![("client_secret", agent.secret.as_str())]),
        (String::new(), vec![("client_id", agent.client_id.as_str()), ("client_secret", &other.secret)]),
        (String::new(), vec![("client_id", &other.client_id), ("client_secret", &agent.secret)]),
        (String::new(), vec![("client_id", "\0"), ("client_secret", &agent.secret)]),
        (basic(&agent.client_id, "x"), vec![]),
        (basic(&agent.client_id, ""), vec![]),
        (basic("", &agent.secret), vec![]),
        (right.clone(), vec![("client_secret", &agent.secret)]),
        (right.clone(), vec![("client_id", &other.client_id)]),
        (right.replace("Basic", "Bearer"), vec![]),
        ("Basic !".to_owned(), vec![]),
        ("Basic".to_owned(), vec![]),
        (format!("Bearer {}", tokens.access), vec![]),
    ] {
        let reply = refresh(&header, &more, &tokens.refresh).await;
        fails(&reply, 401, "invalid_client");
        assert_eq!(reply.header("www-authenticate"), "Basic realm=\"oauth\"", "{header} {more:?}");
    }
    // None of these requests has used the token.
    tokens = GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
    api.patch(&format!("{CONNECTORS}1/"), json!({"is_enabled": false})).await.ok();
    fails(&agent.refresh(&server, &tokens.refresh).await, 401, "invalid_client");
    api.patch(&format!("{CONNECTORS}1/"), json!({"is_enabled": true})).await.ok();
    GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
}

#[tokio::test]
async fn wrong_requests_are_told_apart() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let code = agent.code(&mut Browser::new(&server), &username).await;
    let without = |name: &str| exchange(&code).into_iter().filter(|(known, _)| *known != name).collect::<Vec<_>>();
    for (form, error) in [
        (without("grant_type"), "invalid_request"),
        (without("code"), "invalid_request"),
        (without("redirect_uri"), "invalid_request"),
        (without("code_verifier"), "invalid_request"),
        (vec![("grant_type", "refresh_token")], "invalid_request"),
        (vec![("grant_type", "password"), ("username", "x")], "unsupported_grant_type"),
        (vec![("grant_type", "client_credentials")], "unsupported_grant_type"),
        ([exchange(&code).as_slice(), &[("code", "x")]].concat(), "invalid_request"),
        ([exchange(&code).as_slice(), &[("resource", "https://evil.example/")]].concat(), "invalid_target"),
        (exchange("unknown").to_vec(), "invalid_grant"),
        (vec![("grant_type", "refresh_token"), ("refresh_token", &code)], "invalid_grant"),
    ] {
        fails(&agent.token(&server, &form).await, 400, error);
    }
    // None of these requests has used the code. Scopes are ignored.
    let form = [exchange(&code).as_slice(), &[("resource", &agent.server_url), ("scope", "x")]].concat();
    let reply = agent.token(&server, &form).await;
    assert_eq!((&reply.ok()["scope"], reply.json.as_object().unwrap().len()), (&json!("offline_access"), 5));
    let renewed = agent.refresh(&server, &GrantTokens::from_reply(&reply).refresh).await.ok();
    assert_eq!(renewed["scope"], "offline_access");
    let other = server.anonymous().call("POST", "/oauth/token").body("text/plain", "x").send().await;
    assert_eq!(other.status, 415);
    assert_eq!(server.anonymous().get("/oauth/token").await.status, 405);
}

#[tokio::test]
async fn a_code_is_bound_to_its_request() {
    let (server, api, agent) = with_agent().await;
    let other = crate::dance::agent(&api, "Other").await;
    let username = server.account("internal").await;
    let fresh = async || agent.code(&mut Browser::new(&server), &username).await;
    // Another client gets no information, and does not use up the code.
    let code = fresh().await;
    fails(&other.exchange(&server, &code).await, 400, "invalid_grant");
    GrantTokens::from_reply(&agent.exchange(&server, &code).await);
    // A client with the secret, but with other fields of the code, ends the grant.
    for (name, wrong) in [
        ("redirect_uri", "http://127.0.0.1/callback"),
        ("redirect_uri", "https://agent.example/callback/"),
        ("code_verifier", "another-verifier-of-43-characters-0123456789"),
        ("code_verifier", "short"),
    ] {
        let code = fresh().await;
        let form = exchange(&code).map(|(known, value)| (known, if known == name { wrong } else { value }));
        fails(&agent.token(&server, &form).await, 400, "invalid_grant");
        fails(&agent.exchange(&server, &code).await, 400, "invalid_grant");
    }
    let code = fresh().await;
    server.advance(59 * SECOND);
    GrantTokens::from_reply(&agent.exchange(&server, &code).await);
    let code = fresh().await;
    server.advance(60 * SECOND);
    fails(&agent.exchange(&server, &code).await, 400, "invalid_grant");
}

#[tokio::test]
async fn a_code_or_a_refresh_token_that_comes_twice_ends_the_grant() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let code = agent.code(&mut Browser::new(&server), &username).await;
    let tokens = GrantTokens::from_reply(&agent.exchange(&server, &code).await);
    // This also applies hours later.
    server.advance(MINUTE * 10);
    assert!(agent.may_call(&server, &tokens).await);
    fails(&agent.exchange(&server, &code).await, 400, "invalid_grant");
    assert!(!agent.may_call(&server, &tokens).await);
    fails(&agent.refresh(&server, &tokens.refresh).await, 400, "invalid_grant");

    let stolen = agent.grant(&server, &username).await;
    let thief = GrantTokens::from_reply(&agent.refresh(&server, &stolen.refresh).await);
    assert!(agent.may_call(&server, &thief).await);
    fails(&agent.refresh(&server, &stolen.refresh).await, 400, "invalid_grant");
    assert!(!agent.may_call(&server, &thief).await && !agent.may_call(&server, &stolen).await);
    fails(&agent.refresh(&server, &thief.refresh).await, 400, "invalid_grant");
}

#[tokio::test]
async fn one_of_many_at_once_wins() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let client = [("client_id", agent.client_id.as_str()), ("client_secret", agent.secret.as_str())];
    let code = agent.code(&mut Browser::new(&server), &username).await;
    let form = [&client[..], &exchange(&code)].concat();
    let replies = send_concurrently((0..6).map(|_| server.anonymous().call("POST", "/oauth/token").form(&form))).await;
    assert!(statuses(&replies).iter().filter(|status| **status == 200).count() <= 1, "{:?}", statuses(&replies));
    for reply in replies.iter().filter(|reply| reply.status == 200) {
        assert!(!agent.may_call(&server, &GrantTokens::from_reply(reply)).await, "the others have ended it");
    }
    let tokens = agent.grant(&server, &username).await;
    let form = [&client[..], &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)]].concat();
    let replies = send_concurrently((0..6).map(|_| server.anonymous().call("POST", "/oauth/token").form(&form))).await;
    assert!(statuses(&replies).iter().filter(|status| **status == 200).count() <= 1, "{:?}", statuses(&replies));
    assert!(!agent.may_call(&server, &tokens).await);
}

#[tokio::test]
async fn a_token_is_given_back() {
    let (server, api, agent) = with_agent().await;
    let other = crate::dance::agent(&api, "Other").await;
    let username = server.account("internal").await;
    for by_access in [true, false] {
        let tokens = agent.grant(&server, &username).await;
        let token = if by_access { &tokens.access } else { &tokens.refresh };
        // A token of another client and an unknown text have the same answer, and change nothing.
        for (client, token) in [(&other, token.as_str()), (&agent, "unknown"), (&agent, "a.b.c")] {
            let reply = client.send(&server, "/oauth/revoke", &[("token", token)]).await;
            assert_eq!((reply.status, reply.text.as_str()), (200, ""));
        }
        assert!(agent.may_call(&server, &tokens).await);
        let form = [("token", token.as_str()), ("token_type_hint", "wrong")];
        assert_eq!(agent.send(&server, "/oauth/revoke", &form).await.status, 200);
        assert!(!agent.may_call(&server, &tokens).await);
        fails(&agent.refresh(&server, &tokens.refresh).await, 400, "invalid_grant");
    }
    fails(&agent.send(&server, "/oauth/revoke", &[]).await, 400, "invalid_request");
    let wrong = [("client_id", agent.client_id.as_str()), ("client_secret", "x"), ("token", "x")];
    fails(&server.anonymous().call("POST", "/oauth/revoke").form(&wrong).send().await, 401, "invalid_client");
}
