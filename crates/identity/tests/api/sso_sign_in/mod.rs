//! Signing in by single sign-on (`docs/reference/single-sign-on.md`), against the certified provider and against a provider that
//! forges its answers for a test.

mod accounts;
mod browser;
mod certified;
mod identities;
mod sessions;
mod tokens;
mod trial;
mod vouching;

use crate::TestServer;
use crate::message;
use kit::account_type::AccountType;
use serde_json::{Value, json};
use testkit::{
    ADMIN, ApiClient, Browser, CLIENT_ID, CLIENT_SECRET, Forger, HOUR, MINUTE, OpenIdProvider, PASSWORD, Reply, SECOND,
    TENANT_ID, parameters,
};
use web::clock::Clock;

const LOGIN: &str = "/api/single-sign-on/login/";

fn failure_body() -> Value {
    message::detail("Sign-in failed.")
}

fn refusal_body() -> Value {
    message::detail("Unable to sign in with the credentials given.")
}

/// Creates the configuration 1, with additional fields.
async fn configure(api: &ApiClient, fields: Value) {
    let mut body = json!({
        "name": "Company", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "tenant_id": TENANT_ID,
        "provider": "provider_b", "is_enabled": true,
    });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    api.post("/api/single-sign-on/", body).await.expect_created();
}

/// Starts a server whose `provider_b` is a forger, with the configuration 1 and the internal user `ann@example.com`.
async fn with_forger(fields: Value) -> (TestServer, Forger, ApiClient) {
    let forger = Forger::start().await;
    let issuer = Some(forger.issuer_setting());
    let server = TestServer::start_with(|config| {
        (config.identity.sso_provider_a_issuer, config.identity.sso_provider_b_issuer) = (issuer.clone(), issuer);
    })
    .await;
    let api = server.admin().await;
    configure(&api, fields).await;
    ann(&server, "internal").await;
    (server, forger, api)
}

/// Creates the active user `ann@example.com`.
async fn ann(server: &TestServer, account_type: &str) {
    let made = identity::builds::create_user(
        &server.app,
        &server.build,
        "ann@example.com",
        AccountType::parse(account_type).unwrap(),
        PASSWORD,
    )
    .await;
    made.unwrap();
}

/// A sign-in that has begun.
struct SignInRedirect {
    address: String,
    cookie: String,
    query: std::collections::HashMap<String, String>,
}

fn started_sign_in(reply: &Reply) -> SignInRedirect {
    let address = reply.ok()["redirect_uri"].as_str().unwrap().to_owned();
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    SignInRedirect { query: parameters(&address), address, cookie }
}

async fn begin(client: &ApiClient) -> SignInRedirect {
    started_sign_in(&client.post(LOGIN, json!({"id": 1})).await)
}

/// Calls the callback like a browser after the redirect of the provider.
async fn come_back(client: &ApiClient, begun: &SignInRedirect, code: &str) -> Reply {
    let path = format!("/api/single-sign-on/1/callback/?code={code}&state={}", begun.query["state"]);
    client.call("GET", &path).header("cookie", &begun.cookie).send().await
}

/// Performs a whole sign-in at a forger.
async fn sign_in(server: &TestServer, forger: &Forger) -> Reply {
    let client = server.anonymous();
    let begun = begin(&client).await;
    come_back(&client, &begun, &forger.authorize(&begun.address)).await
}

/// Returns the type, the user and the reason of the last event.
async fn last_event(server: &TestServer) -> (i64, i64, Value) {
    let events = testkit::events(server).await;
    let last = events.last().unwrap();
    (last.event_type, last.source_id, last.data["reason"].clone())
}

#[tokio::test]
async fn the_authorization_address_has_everything_and_the_cookie_binds_the_browser() {
    let (server, forger, _) = with_forger(json!({})).await;
    let reply = server.anonymous().post(LOGIN, json!({"id": 1})).await;
    let begun = started_sign_in(&reply);
    assert!(
        begun.address.starts_with(&format!("{}/authorize?tenant=1&response_type=code&", forger.issuer())),
        "{}",
        begun.address
    );
    for (name, value) in [
        ("client_id", CLIENT_ID),
        ("redirect_uri", "https://a.example/api/single-sign-on/1/callback/"),
        ("scope", "openid email profile"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(begun.query[name], value, "{name}");
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(begun.query[name].len(), 43, "{name}");
    }
    let cookie = reply.header("set-cookie");
    let attributes = "; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure";
    assert!(cookie.starts_with("__Host-chancery_sso_") && cookie.ends_with(attributes), "{cookie}");
    for secret in ["state", "nonce"] {
        assert!(!cookie.contains(&begun.query[secret]), "{secret}");
    }
}

#[tokio::test]
async fn over_plain_http_the_cookie_is_not_marked_secure() {
    let forger = Forger::start().await;
    let issuer = Some(forger.issuer_setting());
    let server = TestServer::start_with(|config| {
        config.identity.sso_provider_b_issuer = issuer;
        config.base_url = "http://chancery.example:8000".to_owned();
    })
    .await;
    configure(&server.admin().await, json!({})).await;
    let reply = server.anonymous().post(LOGIN, json!({"id": 1})).await;
    assert_eq!(started_sign_in(&reply).query["redirect_uri"], "http://a.example:8000/api/single-sign-on/1/callback/");
    assert!(reply.header("set-cookie").ends_with("; SameSite=Lax"), "{}", reply.header("set-cookie"));
}

#[tokio::test]
async fn a_sign_in_requires_an_enabled_configuration_and_a_reachable_provider() {
    let (server, forger, api) = with_forger(json!({})).await;
    let anonymous = server.anonymous();
    anonymous.get(LOGIN).await.expect_reply(200, json!([{"id": 1, "name": "Company"}]));
    for (body, errors) in [
        (json!({}), json!({"id": ["This field is required."]})),
        (json!({"id": null}), json!({"id": ["This field may not be null."]})),
        (json!({"id": "1"}), json!({"id": ["Incorrect type. Expected pk value, received str."]})),
        (json!({"id": 1.5}), json!({"id": ["Incorrect type. Expected pk value, received float."]})),
        (json!({"id": 2}), json!({"id": ["Invalid pk 2 - object does not exist."]})),
        (
            json!({"id": 18446744073709551615_u64}),
            json!({"id": ["Invalid pk 18446744073709551615 - object does not exist."]}),
        ),
    ] {
        anonymous.post(LOGIN, body).await.refuses(errors);
    }
    forger.state().discovery = json!({"issuer": "https://elsewhere.example"});
    anonymous.post(LOGIN, json!({"id": 1})).await.refuses(failure_body());
    // The provider is not called for some seconds, then called again.
    forger.state().discovery = json!({});
    anonymous.post(LOGIN, json!({"id": 1})).await.refuses(failure_body());
    assert_eq!(forger.state().calls["/.well-known/openid-configuration"], 1);
    server.advance(5 * SECOND);
    anonymous.post(LOGIN, json!({"id": 1})).await.ok();
    // The discovery document is cached for an hour.
    anonymous.post(LOGIN, json!({"id": 1})).await.ok();
    assert_eq!(forger.state().calls["/.well-known/openid-configuration"], 2);
    server.advance(HOUR);
    anonymous.post(LOGIN, json!({"id": 1})).await.ok();
    assert_eq!(forger.state().calls["/.well-known/openid-configuration"], 3);

    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await;
    let api = server.admin().await;
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    anonymous.post(LOGIN, json!({"id": 1})).await.refuses(message::detail("Single sign-on configuration is disabled."));
    api.post("/api/single-sign-on/1/link/", json!({}))
        .await
        .refuses(message::detail("Single sign-on configuration is disabled."));
    api.post("/api/single-sign-on/2/link/", json!({})).await.expect_reply(404, message::not_found());
    anonymous.get(LOGIN).await.expect_reply(200, json!([]));
}

#[tokio::test]
async fn a_provider_without_an_issuer_cannot_be_signed_in_with() {
    let server = TestServer::start().await;
    configure(&server.admin().await, json!({})).await;
    server.anonymous().post(LOGIN, json!({"id": 1})).await.refuses(failure_body());
}

#[tokio::test]
async fn somebody_known_signs_in_and_is_known_again() {
    let (server, forger, api) = with_forger(json!({})).await;
    let pair = sign_in(&server, &forger).await.ok();
    let ann = server.anonymous().with_pair("ann@example.com", &pair);
    assert_eq!(ann.get("/api/users/me/").await["username"], "ann@example.com");
    assert_eq!(pair["expires_in"], 900);
    ann.post("/api/auth/refresh/", json!({"refresh_token": ann.refresh_token})).await.ok();
    assert_eq!(last_event(&server).await, (1, ann.id, json!("single_sign_on")));
    let log = api.get("/api/administration/log/?action=link_identity").await;
    assert_eq!((log.column("object_id"), log.column("by")[0]["id"].clone()), (vec![json!(ann.id)], json!(ann.id)));

    // The identity is bound to issuer and subject. Addresses and names no longer count.
    forger.state().claims = json!({"email": ADMIN, "email_verified": false, "preferred_username": ADMIN});
    let again = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    assert_eq!(again.id, ann.id);
    let users = api.get("/api/users/?username=ann@example.com").await;
    assert!(users["results"][0]["last_login"].is_string(), "{users:?}");
}

#[tokio::test]
async fn a_code_is_exchanged_once() {
    let (server, forger, _) = with_forger(json!({})).await;
    let client = server.anonymous();
    let first = begin(&client).await;
    let code = forger.authorize(&first.address);
    // A state begins only one session, even if the provider accepts a code twice.
    forger.state().repeats_codes = true;
    let reply = come_back(&client, &first, &code).await;
    reply.ok();
    assert!(reply.header("set-cookie").contains("; Max-Age=0; "), "{}", reply.header("set-cookie"));
    come_back(&client, &first, &code).await.expect_reply(400, failure_body());
    assert_eq!(last_event(&server).await, (3, 0, json!("state")));
    // The code with another state has another verifier, too.
    let second = begin(&client).await;
    come_back(&client, &second, &code).await.expect_reply(400, failure_body());
    assert_eq!(last_event(&server).await, (3, 0, json!("provider")));
}

#[tokio::test]
async fn the_state_must_be_of_this_browser_this_configuration_and_this_hour() {
    let (server, forger, api) = with_forger(json!({})).await;
    configure(&api, json!({"name": "Other"})).await;
    let client = server.anonymous();
    let begun = begin(&client).await;
    let code = forger.authorize(&begun.address);
    let other = begin(&client).await;
    let state = &begun.query["state"];
    let callback = |id: i64, state: &str, cookie: &str| {
        let call = client.call("GET", &format!("/api/single-sign-on/{id}/callback/?code={code}&state={state}"));
        if cookie.is_empty() { call } else { call.header("cookie", cookie) }.send()
    };
    let renamed = format!("{}={}", begun.cookie.split('=').next().unwrap(), other.cookie.split_once('=').unwrap().1);
    for (id, state, cookie) in [
        (1, state.as_str(), ""),
        (1, state, other.cookie.as_str()),
        (1, state, &renamed),
        (1, &other.query["state"], &begun.cookie),
        (1, "wrong", &begun.cookie),
        (1, "", &begun.cookie),
        (2, state, &begun.cookie),
        (3, state, &begun.cookie),
    ] {
        callback(id, state, cookie).await.expect_reply(400, failure_body());
    }
    client.get("/api/single-sign-on/1/callback/").await.expect_reply(400, failure_body());
    assert!(!forger.state().calls.contains_key("/token"), "no code goes out");
    // Two tabs do not interfere: the browser sends both cookies.
    let both = format!("{}; {}; theme=dark", other.cookie, begun.cookie);
    callback(1, state, &both).await.ok();

    let late = begin(&client).await;
    server.advance(10 * MINUTE);
    come_back(&client, &late, &forger.authorize(&late.address)).await.expect_reply(400, failure_body());
    // The cookie of one build is not valid in another.
    let build = server.build("b.example").await;
    configure(&build.admin().await, json!({})).await;
    let begun = begin(&client).await;
    come_back(&build.anonymous(), &begun, &forger.authorize(&begun.address)).await.expect_reply(400, failure_body());
}

#[tokio::test]
async fn errors_of_the_provider_end_in_400() {
    let (server, forger, api) = with_forger(json!({})).await;
    let client = server.anonymous();
    let callback = async |rest: &str| {
        let begun = begin(&client).await;
        let path = format!("/api/single-sign-on/1/callback/?state={}&{rest}", begun.query["state"]);
        client.call("GET", &path).header("cookie", &begun.cookie).send().await
    };
    callback("error=access_denied").await.expect_reply(400, failure_body());
    callback("code=made-up").await.expect_reply(400, failure_body());
    callback("").await.expect_reply(400, failure_body());
    callback("code=x&iss=https://elsewhere.example").await.expect_reply(400, failure_body());
    // A wrong secret.
    let begun = begin(&client).await;
    let code = forger.authorize(&begun.address);
    api.patch("/api/single-sign-on/1/", json!({"client_secret": "wrong"})).await.ok();
    come_back(&client, &begun, &code).await.expect_reply(400, failure_body());
    // The configuration is disabled meanwhile.
    api.patch("/api/single-sign-on/1/", json!({"client_secret": CLIENT_SECRET})).await.ok();
    let begun = begin(&client).await;
    let code = forger.authorize(&begun.address);
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    come_back(&client, &begun, &code).await.expect_reply(400, failure_body());
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    sign_in(&server, &forger).await.ok();
}
