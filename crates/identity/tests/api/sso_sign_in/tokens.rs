//! The checks of a provider's documents, tokens and claims.

use super::*;

#[tokio::test]
async fn a_discovery_document_must_be_whole_small_and_where_it_is_said_to_be() {
    for break_it in [
        |forger: &Forger| forger.state().discovery = json!({"issuer": forger.issuer() + "/"}),
        |forger: &Forger| forger.state().discovery = json!({"token_endpoint": null}),
        |forger: &Forger| forger.state().discovery = json!({"jwks_uri": "file:///etc/passwd"}),
        |forger: &Forger| forger.state().discovery = json!({"authorization_endpoint": "javascript:alert(1)"}),
        |forger: &Forger| forger.state().padding = 2_000_000,
        |forger: &Forger| forger.state().status = 500,
    ] {
        let (server, forger, _) = with_forger(json!({})).await;
        break_it(&forger);
        server.anonymous().post(LOGIN, json!({"id": 1})).await.refuses(failure_body());
    }
    // A redirect is not followed.
    let (server, forger, _) = with_forger(json!({})).await;
    let other = Forger::start().await;
    forger.state().redirects_to = Some(other.issuer());
    server.anonymous().post(LOGIN, json!({"id": 1})).await.refuses(failure_body());
    assert!(other.state().calls.is_empty());
}

#[tokio::test]
async fn a_token_that_is_wrong_in_any_way_is_no_way_in() {
    let (server, forger, _) = with_forger(json!({})).await;
    let now = forger.state().now;
    sign_in(&server, &forger).await.ok();
    for claims in [
        json!({"iss": "https://elsewhere.example"}),
        json!({"iss": format!("{}/", forger.issuer())}),
        json!({"iss": null}),
        json!({"aud": "somebody-else"}),
        json!({"aud": ["somebody-else"]}),
        json!({"aud": null}),
        json!({"aud": [CLIENT_ID, "somebody-else"]}),
        json!({"aud": [CLIENT_ID, "somebody-else"], "azp": "somebody-else"}),
        json!({"azp": "somebody-else"}),
        json!({"nonce": "another"}),
        json!({"nonce": null}),
        json!({"exp": now - 60}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"iat": now + 61}),
        json!({"iat": null}),
        json!({"nbf": now + 61}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sub": "x".repeat(256)}),
    ] {
        forger.state().claims = claims.clone();
        let reply = sign_in(&server, &forger).await;
        assert_eq!(reply, (400, failure_body()), "{claims}");
    }
    // Clocks may differ by a minute.
    for claims in [
        json!({"exp": now - 59}),
        json!({"iat": now + 60}),
        json!({"nbf": now + 60}),
        json!({"aud": [CLIENT_ID]}),
        json!({"aud": [CLIENT_ID, "somebody-else"], "azp": CLIENT_ID}),
    ] {
        forger.state().claims = claims.clone();
        assert_eq!(sign_in(&server, &forger).await.status, 200, "{claims}");
    }
    forger.state().claims = json!({});
    for header in [
        json!({"alg": "HS256"}),
        json!({"alg": "none"}),
        json!({"alg": "ES384"}),
        json!({"alg": "RS256"}),
        json!({"crit": ["exp"]}),
    ] {
        forger.state().header = header.clone();
        assert_eq!(sign_in(&server, &forger).await, (400, failure_body()), "{header}");
    }
    forger.state().header = json!({});
    for secret in [CLIENT_SECRET, ""] {
        forger.state().hmac = Some(secret.to_owned());
        assert_eq!(sign_in(&server, &forger).await, (400, failure_body()), "{secret:?}");
    }
    forger.state().hmac = None;
    sign_in(&server, &forger).await.ok();
}

#[tokio::test]
async fn keys_are_kept_and_fetched_anew_for_an_unknown_one_once_a_minute() {
    let (server, forger, _) = with_forger(json!({})).await;
    let fetched = || forger.state().calls["/keys"];
    sign_in(&server, &forger).await.ok();
    sign_in(&server, &forger).await.ok();
    assert_eq!(fetched(), 1);
    // Rotated keys are fetched.
    (forger.state().signs_with, forger.state().publishes) = (1, vec![1]);
    sign_in(&server, &forger).await.ok();
    assert_eq!(fetched(), 2);
    // The old key no longer signs, and a forger does not cause repeated fetches.
    forger.state().signs_with = 0;
    for _ in 0..3 {
        sign_in(&server, &forger).await.expect_reply(400, failure_body());
    }
    assert_eq!(fetched(), 2);
    server.advance(MINUTE);
    sign_in(&server, &forger).await.expect_reply(400, failure_body());
    assert_eq!(fetched(), 3);
    // A token with the id of another key, and a token without a key id.
    forger.state().header = json!({"kid": "key-1"});
    sign_in(&server, &forger).await.expect_reply(400, failure_body());
    (forger.state().header, forger.state().signs_with) = (json!({"kid": null}), 1);
    forger.state().now += 60;
    sign_in(&server, &forger).await.ok();
}

#[tokio::test]
async fn user_info_is_asked_when_the_token_names_no_address() {
    let (server, forger, _) = with_forger(json!({})).await;
    {
        let mut state = forger.state();
        state.claims = json!({"email": null, "email_verified": null});
        state.discovery = json!({"userinfo_endpoint": format!("{}/me", forger.issuer())});
        state.user_info = json!({"sub": "subject-2", "email": "ann@example.com", "email_verified": true});
    }
    // The user info is of another subject.
    sign_in(&server, &forger).await.expect_reply(400, failure_body());
    forger.state().user_info = json!({"sub": "subject-1", "email": "ann@example.com", "email_verified": false});
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    forger.state().user_info =
        json!({"sub": "subject-1", "email": "ann@example.com", "email_verified": true, "iss": "x"});
    sign_in(&server, &forger).await.ok();
}
