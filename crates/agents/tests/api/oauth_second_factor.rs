//! Second factors at the sign-in of agents (`docs/reference/second-factors.md`).

use crate::TestServer;
use crate::dance::{ADDRESS, GrantTokens, decide, hidden_field, redirect_parameters, send_password, with_agent};
use serde_json::json;
use testkit::{ADMIN, ApiClient, Browser, CodeGenerator, DAY, PASSWORD, Reply, SECOND, message};

const FACTORS: &str = "/api/users/me/second-factors/";
const RULES: &str = "/api/security/second-factors/";

/// Adds a generator to an account. The clock moves, so that the next code was not used.
async fn add_generator(server: &TestServer, api: &ApiClient) -> CodeGenerator {
    let added = api.post(FACTORS, json!({"type": "totp", "name": "Phone"})).await.expect_created();
    let generator = CodeGenerator::new(added["secret"].as_str().unwrap());
    let code = json!({"code": generator.code(server.clock.now())});
    api.post(&format!("{FACTORS}{}/confirm/", added["id"]), code).await.ok();
    server.advance(60 * SECOND);
    generator
}

/// Sends the second form of a page.
async fn send_code(browser: &mut Browser, page: &Reply, code: &str) -> Reply {
    let [request, token, challenge] = ["request", "token", "challenge"].map(|name| hidden_field(page, name));
    let form = [("request", request.as_str()), ("token", &token), ("challenge", &challenge), ("code", code)];
    browser.open(&format!("{ADDRESS}/oauth/authorize/second-factor/"), Some(&form)).await
}

#[tokio::test]
async fn the_page_asks_for_a_code_before_the_consent() {
    let (server, api, agent) = with_agent().await;
    let generator = add_generator(&server, &api).await;
    let mut browser = Browser::new(&server);
    let first = browser.open(&agent.authorization(&[]), None).await;
    let page = send_password(&mut browser, &first, ADMIN, PASSWORD).await;
    assert_eq!((page.status, page.header("x-frame-options")), (200, "DENY"));
    assert!(page.text.contains("Code of your authenticator app, or a recovery code"), "{}", page.text);
    // The password alone does not lead to the consent.
    let again = browser.open(&agent.authorization(&[]), None).await;
    assert!(again.text.contains("name=\"password\""), "{}", again.text);

    let wrong = send_code(&mut browser, &page, "123").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("Unable to sign in with the credentials given."), "{}", wrong.text);
    let led = send_code(&mut browser, &wrong, &generator.code(server.clock.now())).await;
    assert_eq!(led.status, 303);
    let consent = browser.open(&format!("{ADDRESS}{}", led.header("location")), None).await;
    let code = redirect_parameters(&decide(&mut browser, &consent, "allow").await)["code"].clone();
    let tokens = GrantTokens::from_reply(&agent.exchange(&server, &code).await);
    assert!(agent.may_call(&server, &tokens).await);
    // The challenge was used.
    let late = send_code(&mut browser, &wrong, "123456").await;
    assert_ne!(late.status, 303);
}

#[tokio::test]
async fn a_challenge_of_the_page_begins_no_session() {
    let (server, api, agent) = with_agent().await;
    let generator = add_generator(&server, &api).await;
    let mut browser = Browser::new(&server);
    let first = browser.open(&agent.authorization(&[]), None).await;
    let page = send_password(&mut browser, &first, ADMIN, PASSWORD).await;
    let code = generator.code(server.clock.now());
    let body = json!({"challenge": hidden_field(&page, "challenge"), "code": code});
    assert_eq!(server.anonymous().post("/api/auth/second-factor/", body).await.status, 401);
    // Nor does a challenge of a session lead to the consent.
    let step = server.anonymous().login(ADMIN, PASSWORD).await.expect(202);
    let [request, token] = ["request", "token"].map(|name| hidden_field(&page, name));
    let challenge = step["challenge"].as_str().unwrap();
    let form = [("request", request.as_str()), ("token", &token), ("challenge", challenge), ("code", &code)];
    let refused = browser.open(&format!("{ADDRESS}/oauth/authorize/second-factor/"), Some(&form)).await;
    assert_eq!(refused.status, 401);
    assert!(refused.text.contains("name=\"password\""), "{}", refused.text);
    assert_eq!(send_code(&mut browser, &page, &code).await.status, 303);
}

#[tokio::test]
async fn a_password_that_is_too_old_is_told_before_the_code() {
    let (server, api, agent) = with_agent().await;
    add_generator(&server, &api).await;
    api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    server.advance(DAY);
    let mut browser = Browser::new(&server);
    let first = browser.open(&agent.authorization(&[]), None).await;
    let page = send_password(&mut browser, &first, ADMIN, PASSWORD).await;
    assert!(page.text.contains("Your password is too old."), "{}", page.text);
}

#[tokio::test]
async fn a_grant_pauses_while_its_person_lacks_a_required_factor() {
    let (server, api, agent) = with_agent().await;
    let person = server.as_type("internal").await;
    let tokens = agent.grant(&server, &person.username).await;
    assert!(agent.may_call(&server, &tokens).await);
    api.patch(RULES, json!({"internal": "required"})).await.ok();
    let refused = agent.send_request(&server, &tokens, "ping", json!({})).await;
    assert_eq!((refused.status, refused.json), (403, message::detail("Second factor required.")));
    add_generator(&server, &person).await;
    assert!(agent.may_call(&server, &tokens).await);
}
