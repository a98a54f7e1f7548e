//! The sign-in of an agent's person at a provider (`docs/reference/agent-sign-in.md`).

use crate::TestServer;
use crate::dance::{ADDRESS, GrantTokens, TestAgent, agent, decide, fails, hidden_field, redirect_parameters};
use crate::set_up::number;
use kit::account_type::AccountType;
use serde_json::json;
use testkit::{ApiClient, Browser, CLIENT_ID, CLIENT_SECRET, Forger, PASSWORD, Reply, TENANT_ID, parameters};

/// A server with an agent and a provider, at which `ann@example.com` may sign in. `front_end` is `CHANCERY_SIGN_IN_URL`.
async fn with_provider(front_end: Option<&str>) -> (TestServer, Forger, ApiClient, TestAgent) {
    let forger = Forger::start().await;
    let (issuer, front_end) = (Some(forger.issuer_setting()), front_end.map(str::to_owned));
    let server = TestServer::start_with(|settings| {
        settings.identity.sso_provider_b_issuer = issuer;
        settings.sign_in_url = front_end;
    })
    .await;
    let api = server.admin().await;
    let body = json!({
        "name": "Company", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "tenant_id": TENANT_ID,
        "provider": "provider_b", "is_enabled": true,
    });
    api.post("/api/single-sign-on/", body).await.expect_created();
    let ann = "ann@example.com";
    identity::builds::create_user(&server.app, &server.build, ann, AccountType::Internal, PASSWORD).await.unwrap();
    let agent = agent(&api, "Assistant").await;
    (server, forger, api, agent)
}

/// Signs in at the provider, and returns the answer of its callback.
async fn call_back(browser: &mut Browser, forger: &Forger, agent: &TestAgent) -> Reply {
    let page = browser.open(&agent.authorization(&[]), None).await;
    let (request, token) = (hidden_field(&page, "request"), hidden_field(&page, "token"));
    let form = [("request", request.as_str()), ("token", &token), ("id", "1")];
    let page = browser.open(&format!("{ADDRESS}/oauth/authorize/single-sign-on/"), Some(&form)).await;
    assert_eq!(page.status, 200, "{page:?}");
    let address = page.text.split_once("<p><a href=\"").unwrap().1.split_once('"').unwrap().0.replace("&amp;", "&");
    let (code, state) = (forger.authorize(&address), parameters(&address)["state"].clone());
    browser.open(&format!("{ADDRESS}/api/single-sign-on/1/callback/?code={code}&state={state}"), None).await
}

/// The tokens of a grant of the person who signs in at the provider.
async fn grant(server: &TestServer, forger: &Forger, agent: &TestAgent) -> GrantTokens {
    let mut browser = Browser::new(server);
    let reply = call_back(&mut browser, forger, agent).await;
    assert_eq!((reply.status, reply.text.as_str()), (303, ""), "{reply:?}");
    let page = browser.open(&format!("{ADDRESS}{}", reply.header("location")), None).await;
    assert!(page.text.contains("<strong>ann@example.com</strong>"), "{}", page.text);
    let parameters = redirect_parameters(&decide(&mut browser, &page, "allow").await);
    assert_eq!(browser.cookies_of_build(), 0);
    GrantTokens::from_reply(&agent.exchange(server, &parameters["code"]).await)
}

#[tokio::test]
async fn a_sign_in_at_a_provider_leads_back_to_the_agent() {
    for front_end in [None, Some("https://front.example")] {
        let (server, forger, _, agent) = with_provider(front_end).await;
        let before = number(&server, "SELECT count(*) FROM sessions").await;
        let tokens = grant(&server, &forger, &agent).await;
        assert!(agent.may_call(&server, &tokens).await);
        // The sign-in begins no session of the main API, issues no ticket, and has one event.
        assert_eq!(number(&server, "SELECT count(*) FROM sessions").await, before + 1);
        assert_eq!(number(&server, "SELECT count(*) FROM single_sign_on_tickets").await, 0);
        let events = testkit::events(&server).await;
        let last = events.last().unwrap();
        assert_eq!((last.event_type, last.data["reason"].clone()), (1, json!("single_sign_on")));
        GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
    }
}

#[tokio::test]
async fn a_refused_sign_in_offers_another_attempt() {
    let (server, forger, _, agent) = with_provider(None).await;
    forger.state().claims = json!({"email": "nobody@example.com"});
    let mut browser = Browser::new(&server);
    let reply = call_back(&mut browser, &forger, &agent).await;
    assert_eq!((reply.status, reply.header("x-frame-options")), (401, "DENY"));
    assert!(reply.text.contains("Unable to sign in with the credentials given."), "{}", reply.text);
    let link = agent.authorization(&[]).replace(ADDRESS, "").replace('&', "&amp;");
    assert!(reply.text.contains(&format!("<a href=\"{link}\">Begin again</a>")), "{}", reply.text);
    let page = browser.open(&agent.authorization(&[]), None).await;
    assert!(page.text.contains("name=\"password\"") && page.text.contains("Sign in with Company"));
    // An invalid code of the provider, and a repeated callback.
    let (request, token) = (hidden_field(&page, "request"), hidden_field(&page, "token"));
    let form = [("request", request.as_str()), ("token", &token), ("id", "1")];
    let page = browser.open(&format!("{ADDRESS}/oauth/authorize/single-sign-on/"), Some(&form)).await;
    let state = page.text.split_once("state=").unwrap().1.split('&').next().unwrap().to_owned();
    let callback = format!("{ADDRESS}/api/single-sign-on/1/callback/?code=wrong&state={state}");
    let reply = browser.open(&callback, None).await;
    assert!(reply.status == 400 && reply.text.contains("Sign-in failed.") && reply.text.contains("Begin again"));
    browser.open(&callback, None).await.expect_reply(400, json!({"detail": "Sign-in failed."}));
    let unknown = [("request", request.as_str()), ("token", &token), ("id", "9")];
    let page = browser.open(&format!("{ADDRESS}/oauth/authorize/single-sign-on/"), Some(&unknown)).await;
    assert!(page.status == 400 && page.text.contains("This way to sign in is no longer available."), "{page:?}");
}

#[tokio::test]
async fn a_grant_by_single_sign_on_ends_with_its_configuration_or_method() {
    let configuration_path = "/api/single-sign-on/1/";
    for round in 0..3 {
        let (server, forger, api, agent) = with_provider(None).await;
        let tokens = grant(&server, &forger, &agent).await;
        // Rules of passwords do not apply.
        api.patch("/api/security/", json!({"authentication_method": {"internal": "sso"}})).await.ok();
        api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
        api.patch(configuration_path, json!({"name": "Others"})).await.ok();
        assert!(agent.may_call(&server, &tokens).await);
        match round {
            0 => drop(api.patch(configuration_path, json!({"is_enabled": false})).await.ok()),
            1 => api.delete(configuration_path).await.expect_empty(),
            _ => {
                drop(api.patch("/api/security/", json!({"authentication_method": {"internal": "password"}})).await.ok())
            }
        }
        assert!(!agent.may_call(&server, &tokens).await, "{round}");
        fails(&agent.refresh(&server, &tokens.refresh).await, 400, "invalid_grant");
    }
}
