//! The same sign-in with the certified provider, which is a process of its own, and a browser with cookies.

use super::*;

/// Starts a server with the machine's clock whose `provider_a` is the certified provider.
pub async fn with_certified(claims_in_token: bool, sign_in_url: Option<&str>) -> (TestServer, OpenIdProvider) {
    let provider = OpenIdProvider::start(claims_in_token);
    let issuer = Some(provider.issuer_setting());
    let server = TestServer::start_with(|config| {
        (config.identity.sso_provider_a_issuer, config.clock) = (issuer, Clock::system());
        config.sign_in_url = sign_in_url.map(str::to_owned);
    })
    .await;
    configure(&server.admin().await, json!({"provider": "provider_a", "auto_create_user": true})).await;
    ann(&server, "internal").await;
    (server, provider)
}

/// Signs in at the certified provider with a new browser. Returns the browser and the address of its redirect.
async fn sign_in_at_provider(server: &TestServer, person: &str) -> (Browser, String) {
    let mut browser = Browser::new(server);
    let reply = server.anonymous().post(LOGIN, json!({"id": 1})).await;
    browser.store_all_cookies(&reply);
    let back = browser.sign_in_at_provider(reply.ok()["redirect_uri"].as_str().unwrap(), person).await;
    (browser, back)
}

#[tokio::test]
async fn the_certified_provider_signs_somebody_in() {
    for claims_in_token in [true, false] {
        let (server, provider) = with_certified(claims_in_token, None).await;
        let (mut browser, back) = sign_in_at_provider(&server, "s1,ann@example.com,true").await;
        assert_eq!(parameters(&back)["iss"], provider.issuer());
        let ann = server.anonymous().with_pair("", &browser.open(&back, None).await.ok());
        assert_eq!(ann.get("/api/users/me/").await["username"], "ann@example.com");
        assert_eq!(browser.cookies_of_build(), 0);
        browser.open(&back, None).await.expect_reply(400, failure_body());
        // A new person with names.
        let (mut browser, back) = sign_in_at_provider(&server, "s2,nina@example.com,true").await;
        let nina = server.anonymous().with_pair("", &browser.open(&back, None).await.ok());
        let me = nina.get("/api/users/me/").await.ok();
        assert_eq!((&me["first_name"], &me["last_name"]), (&json!("Nina"), &json!("Example")));
        // An unverified address, an address of a super admin, the name of another user.
        for person in
            ["s3,bob@example.com,false", "s4,admin@example.com,true", "s5,admin@example.com,false,ann@example.com"]
        {
            let (mut browser, back) = sign_in_at_provider(&server, person).await;
            browser.open(&back, None).await.expect_reply(401, refusal_body());
        }
        // Another browser does not have the cookie.
        let (_, back) = sign_in_at_provider(&server, "s1,ann@example.com,true").await;
        Browser::new(&server).open(&back, None).await.expect_reply(400, failure_body());
    }
}

#[tokio::test]
async fn the_certified_provider_takes_a_code_once_and_only_with_its_verifier() {
    let (server, _provider) = with_certified(true, None).await;
    let (mut browser, back) = sign_in_at_provider(&server, "s1,ann@example.com,true").await;
    let code = parameters(&back)["code"].clone();
    // The code of one sign-in in the callback of another: state and cookie are valid, the verifier is not.
    let (mut other, mine) = sign_in_at_provider(&server, "s9,eve@example.com,true").await;
    let mixed = mine.replace(&parameters(&mine)["code"], &code);
    other.open(&mixed, None).await.expect_reply(400, failure_body());
    browser.open(&back, None).await.ok();
    let (mut other, mine) = sign_in_at_provider(&server, "s1,ann@example.com,true").await;
    other.open(&mine.replace(&parameters(&mine)["code"], &code), None).await.expect_reply(400, failure_body());
}

#[tokio::test]
async fn the_certified_provider_may_change_its_key() {
    let (server, provider) = with_certified(true, None).await;
    for _ in 0..2 {
        let (mut browser, back) = sign_in_at_provider(&server, "s1,ann@example.com,true").await;
        browser.open(&back, None).await.ok();
        provider.rotate().await;
    }
}

#[tokio::test]
async fn a_front_end_with_the_certified_provider_from_ticket_to_logout() {
    let (server, provider) = with_certified(true, Some("https://front.example/sign-in")).await;
    let (mut browser, back) = sign_in_at_provider(&server, "s1,ann@example.com,true").await;
    let reply = browser.open(&back, None).await;
    assert_eq!(reply.status, 302);
    let ticket = parameters(reply.header("location"))["ticket"].clone();
    let client = server.anonymous();
    let ann = client.with_pair("", &client.post("/api/auth/ticket/", json!({"ticket": ticket})).await.ok());
    let body = json!({"refresh_token": ann.refresh_token, "single_sign_on": true});
    let answer = ann.post("/api/auth/logout/", body).await.ok();
    let there = browser.open(answer["logout_url"].as_str().unwrap(), None).await;
    assert!(there.header("location").starts_with(&format!("{}/session/end?", provider.issuer())), "{there:?}");
    // The provider accepts the client and the address for the redirect, and requests a confirmation.
    let asked = browser.open(there.header("location"), None).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    ann.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}
