//! `/oauth/authorize` and the metadata (`docs/reference/agent-sign-in.md`).

use crate::TestServer;
use crate::dance::{
    ADDRESS, NOBODY, agent, challenge, decide, hidden_field, redirect_parameters, send_password, sessions, signed_in,
    with_agent,
};
use crate::set_up::{CALLBACK, CONNECTORS, INTEGRATIONS, number};
use serde_json::json;
use testkit::{Browser, MINUTE, PASSWORD, Reply, message};

#[tokio::test]
async fn metadata_tells_where_agents_sign_in() {
    let (server, api, agent) = with_agent().await;
    let stranger = server.anonymous();
    assert_eq!(agent.server_url, format!("{ADDRESS}/mcp/{}", agent.uuid));
    let of_connector = format!("/.well-known/oauth-protected-resource/mcp/{}", agent.uuid);
    // A client compares `resource` with the form of its own address.
    for end in ["", "/"] {
        let expected = json!({
            "resource": format!("{}{end}", agent.server_url), "authorization_servers": [ADDRESS],
            "bearer_methods_supported": ["header"],
        });
        stranger.get(&format!("{of_connector}{end}")).await.expect_reply(200, expected);
    }
    let unknown = format!("/.well-known/oauth-protected-resource/mcp/{NOBODY}");
    stranger.get(&unknown).await.expect_reply(404, message::not_found());
    let methods = json!(["client_secret_basic", "client_secret_post"]);
    let server_metadata = json!({
        "issuer": ADDRESS,
        "authorization_endpoint": format!("{ADDRESS}/oauth/authorize"),
        "token_endpoint": format!("{ADDRESS}/oauth/token"),
        "revocation_endpoint": format!("{ADDRESS}/oauth/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "scopes_supported": ["offline_access"],
    });
    stranger.get("/.well-known/oauth-authorization-server").await.expect_reply(200, server_metadata.clone());
    stranger.get("/.well-known/oauth-authorization-server/").await.expect_reply(200, server_metadata);
    api.delete(&format!("{CONNECTORS}1/")).await.expect_empty();
    stranger.get(&of_connector).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_person_signs_in_and_consents() {
    let (server, api, agent) = with_agent().await;
    let tools = json!({"allowed_tools": ["get_record", "create_record"], "name": "Anna's <Assistant>"});
    api.patch(&format!("{CONNECTORS}1/"), tools).await.ok();
    let username = server.account("internal").await;
    let mut browser = Browser::new(&server);
    let url = agent.authorization(&[]);

    let page = browser.open(&url, None).await;
    assert_eq!(page.status, 200);
    for (name, value) in
        [("x-frame-options", "DENY"), ("cache-control", "no-store"), ("referrer-policy", "same-origin")]
    {
        assert_eq!(page.header(name), value);
    }
    assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with("chancery_agent_"), "{cookie}");
    assert!(cookie.ends_with("; Path=/oauth; Max-Age=600; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    assert!(page.text.contains("<strong>Anna&#39;s &lt;Assistant&gt;</strong> asks to work for you"), "{}", page.text);
    assert!(!page.text.contains("<script") && !page.text.contains("get_record"));
    assert_eq!(number(&server, "SELECT count(*) FROM sessions").await, 1, "a stranger leaves no row");

    let wrong = send_password(&mut browser, &page, &username, "wrong").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("Unable to sign in with the credentials given.") && wrong.text.contains(&username));
    let led = send_password(&mut browser, &wrong, &username, PASSWORD).await;
    assert_eq!(led.status, 303);
    let consent = browser.open(&format!("{ADDRESS}{}", led.header("location")), None).await;
    assert_eq!(number(&server, "SELECT count(*) FROM sessions").await, 1, "nor does a sign-in alone");
    for shown in [
        "<strong>Anna&#39;s &lt;Assistant&gt;</strong> asks to work for you, <strong>internal@example.com</strong>",
        "<li>Get a record (<code>get_record</code>)</li><li>Create a record (<code>create_record</code>)</li>",
        "You will be sent to <strong>agent.example</strong>. Go on only",
    ] {
        assert!(consent.text.contains(shown), "{shown} in {}", consent.text);
    }
    assert_eq!(consent.header("x-frame-options"), "DENY");
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self' https:; frame-ancestors 'none'; base-uri 'none'";
    assert_eq!(consent.header("content-security-policy"), policy);

    let reply = decide(&mut browser, &consent, "allow").await;
    assert_eq!((reply.status, reply.header("referrer-policy")), (303, "no-referrer"));
    let parameters = redirect_parameters(&reply);
    assert_eq!(parameters["code"].len(), 43);
    assert_eq!(parameters.len(), 3);
    assert_eq!(browser.cookies_of_build(), 0);
    let person = server.sign_in(&username, PASSWORD).await;
    let all = sessions(&person).await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["user_agent"], "Anna's <Assistant>");

    // Each request of the agent begins with a new sign-in.
    let next_page = browser.open(&url, None).await;
    assert!(next_page.text.contains("name=\"password\""));
    let events = testkit::events(&server).await;
    let of_person: Vec<_> = events.iter().map(|event| (event.event_type, event.data["reason"].clone())).collect();
    assert_eq!(of_person[1..3], [(2, json!("wrong_password")), (1, json!("password"))]);
}

#[tokio::test]
async fn a_person_may_deny() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let mut browser = Browser::new(&server);
    let page = signed_in(&mut browser, &agent.authorization(&[]), &username, PASSWORD).await;
    let reply = decide(&mut browser, &page, "deny").await;
    assert_eq!(redirect_parameters(&reply)["error"], "access_denied");
    assert_eq!(browser.cookies_of_build(), 0);
    assert_eq!(number(&server, "SELECT count(*) FROM sessions WHERE connector IS NOT NULL").await, 0);
    // Neither value is a decision.
    let page = signed_in(&mut browser, &agent.authorization(&[]), &username, PASSWORD).await;
    assert_eq!(decide(&mut browser, &page, "perhaps").await.status, 400);
}

/// Expects a 400 page without a redirect.
#[track_caller]
fn expect_page(reply: &Reply, says: &str) {
    assert_eq!((reply.status, reply.header("location")), (400, ""), "{reply:?}");
    assert!(reply.header("content-type").starts_with("text/html") && reply.text.contains(says), "{reply:?}");
    assert_eq!((reply.header("x-frame-options"), reply.header("set-cookie")), ("DENY", ""));
}

#[tokio::test]
async fn a_wrong_client_or_address_is_a_page_and_never_a_redirect() {
    let (server, api, agent) = with_agent().await;
    let other = crate::dance::agent(&api, "Other").await;
    let mut browser = Browser::new(&server);
    let (unknown, elsewhere) =
        ("This agent is not known here.", "This agent may not return to the address that it named.");
    for (changed, says) in [
        (vec![("client_id", "")], unknown),
        (vec![("client_id", NOBODY)], unknown),
        (vec![("client_id", "\0")], unknown),
        (vec![("redirect_uri", "")], elsewhere),
        (vec![("redirect_uri", "https://evil.example/callback")], elsewhere),
        (vec![("redirect_uri", "https://agent.example/callback/")], elsewhere),
        (vec![("redirect_uri", "https://agent.example/callback?x=1")], elsewhere),
        (vec![("redirect_uri", "https://agent.example.evil.example/callback")], elsewhere),
        (vec![("redirect_uri", "https://agent.example@evil.example/callback")], elsewhere),
        (vec![("redirect_uri", "http://agent.example/callback")], elsewhere),
        (vec![("redirect_uri", "http://127.0.0.1:80@evil.example/callback")], elsewhere),
        (vec![("redirect_uri", "http://localhost/callback")], elsewhere),
        (vec![("redirect_uri", "javascript:alert(1)")], elsewhere),
        (vec![("state", &"x".repeat(2_400))], "The request of the agent is too long."),
        // An address that is not the agent's own gets no error.
        (vec![("redirect_uri", "https://evil.example/"), ("response_type", "token")], elsewhere),
    ] {
        expect_page(&browser.open(&agent.authorization(&changed), None).await, says);
    }
    let twice = format!("{}&redirect_uri=https%3A%2F%2Fevil.example%2F", agent.authorization(&[]));
    expect_page(&browser.open(&twice, None).await, elsewhere);
    let twice = format!("{}&client_id={}", agent.authorization(&[]), other.client_id);
    expect_page(&browser.open(&twice, None).await, unknown);

    // A disabled connector is refused, and so is one of a disabled integration.
    api.patch(&format!("{CONNECTORS}1/"), json!({"is_enabled": false})).await.ok();
    expect_page(&browser.open(&agent.authorization(&[]), None).await, "This agent&#39;s connector is disabled.");
    api.patch(&format!("{CONNECTORS}1/"), json!({"is_enabled": true})).await.ok();
    let integration = format!("{INTEGRATIONS}{}/", agent.integration);
    api.patch(&integration, json!({"is_enabled": false})).await.ok();
    expect_page(&browser.open(&agent.authorization(&[]), None).await, "This agent&#39;s connector is disabled.");
    api.patch(&integration, json!({"is_enabled": true})).await.ok();
    api.delete(&format!("{CONNECTORS}1/")).await.expect_empty();
    expect_page(&browser.open(&agent.authorization(&[]), None).await, unknown);
    assert_eq!(browser.open(&other.authorization(&[]), None).await.status, 200);
}

#[tokio::test]
async fn other_errors_are_told_to_the_agent() {
    let (server, api, agent) = with_agent().await;
    let other = crate::dance::agent(&api, "Other").await;
    let mut browser = Browser::new(&server);
    let short = challenge("x")[1..].to_owned();
    for (changed, error) in [
        (vec![("response_type", "token")], "unsupported_response_type"),
        (vec![("response_type", "")], "invalid_request"),
        (vec![("code_challenge", "")], "invalid_request"),
        (vec![("code_challenge", &short)], "invalid_request"),
        (vec![("code_challenge", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx+/")], "invalid_request"),
        (vec![("code_challenge_method", "")], "invalid_request"),
        (vec![("code_challenge_method", "plain")], "invalid_request"),
        (vec![("resource", &other.server_url)], "invalid_target"),
        (vec![("resource", "https://evil.example/mcp/")], "invalid_target"),
        (vec![("resource", "http://a.example")], "invalid_target"),
        (vec![("resource", "https://a.example:8443")], "invalid_target"),
        (vec![("resource", "https://a.example/mcp")], "invalid_target"),
        (vec![("response_mode", "fragment")], "invalid_request"),
        (vec![("request", "x")], "request_not_supported"),
        (vec![("request_uri", "https://evil.example/")], "request_uri_not_supported"),
    ] {
        let reply = browser.open(&agent.authorization(&changed), None).await;
        assert_eq!(reply.status, 302, "{changed:?}");
        let parameters = redirect_parameters(&reply);
        assert_eq!(parameters["error"], error, "{changed:?}");
        assert!(parameters["error_description"].ends_with('.'));
    }
    let twice = format!("{}&code_challenge=x", agent.authorization(&[]));
    assert_eq!(redirect_parameters(&browser.open(&twice, None).await)["error"], "invalid_request");
    // Valid requests: without a resource, with each form of it, with its origin, with a port of this computer, without a state.
    let (uuid, with_slash) = (&agent.uuid, format!("{}/", agent.server_url));
    let other_case = format!("HTTPS://A.Example:443/mcp/{uuid}");
    for changed in [
        vec![("resource", "")],
        vec![("resource", with_slash.as_str())],
        vec![("resource", &other_case)],
        vec![("resource", ADDRESS)],
        vec![("resource", "https://a.example/")],
        vec![("redirect_uri", "http://127.0.0.1:49152/callback")],
        vec![("state", "")],
        vec![("scope", "anything"), ("prompt", "consent")],
    ] {
        assert_eq!(browser.open(&agent.authorization(&changed), None).await.status, 200, "{changed:?}");
    }
}

#[tokio::test]
async fn only_people_who_may_sign_in_here_consent() {
    let (server, api, agent) = with_agent().await;
    let mut browser = Browser::new(&server);
    let page = browser.open(&agent.authorization(&[]), None).await;
    for account_type in ["service_internal", "service_external", "one_time_completion"] {
        let username = server.account(account_type).await;
        assert_eq!(send_password(&mut browser, &page, &username, PASSWORD).await.status, 401, "{account_type}");
    }
    for account_type in ["internal", "external", "full", "super_admin"] {
        let username = server.account(account_type).await;
        let page = signed_in(&mut browser, &agent.authorization(&[]), &username, PASSWORD).await;
        redirect_parameters(&decide(&mut browser, &page, "allow").await);
    }
    // The lock and the sign-in method apply as to every other sign-in.
    let page = browser.open(&agent.authorization(&[]), None).await;
    for _ in 0..5 {
        assert_eq!(send_password(&mut browser, &page, "external@example.com", "wrong").await.status, 401);
    }
    assert_eq!(send_password(&mut browser, &page, "external@example.com", PASSWORD).await.status, 401);
    api.patch("/api/security/", json!({"authentication_method": {"full": "sso"}})).await.ok();
    assert_eq!(send_password(&mut browser, &page, "full@example.com", PASSWORD).await.status, 401);
    // A password that is too old is not sufficient here.
    api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    server.advance(24 * 60 * MINUTE);
    let page = browser.open(&agent.authorization(&[]), None).await;
    let old = send_password(&mut browser, &page, "internal@example.com", PASSWORD).await;
    assert!(old.status == 200 && old.text.contains("Your password is too old."), "{old:?}");
    assert!(browser.open(&agent.authorization(&[]), None).await.text.contains("name=\"password\""));
}

#[tokio::test]
async fn attempts_of_an_address_are_bounded() {
    let server = TestServer::start_with(|settings| settings.identity.address_attempts = 3).await;
    let api = server.admin().await;
    let agent = agent(&api, "Assistant").await;
    let mut browser = Browser::new(&server);
    let page = browser.open(&agent.authorization(&[]), None).await;
    for _ in 0..3 {
        assert_eq!(send_password(&mut browser, &page, "nobody@example.com", "x").await.status, 401);
    }
    let reply = send_password(&mut browser, &page, "admin@example.com", PASSWORD).await;
    assert!(reply.status == 429 && reply.header("content-type").starts_with("text/html"), "{reply:?}");
}

#[tokio::test]
async fn changes_while_the_consent_page_is_open_take_effect() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    let person = api.get(&format!("/api/users/?username={username}")).await.ids()[0];
    let url = agent.authorization(&[]);
    let mut browser = Browser::new(&server);
    let integration = format!("{INTEGRATIONS}{}/", agent.integration);

    // The account is deactivated and activated again.
    let page = signed_in(&mut browser, &url, &username, PASSWORD).await;
    server.advance(MINUTE);
    api.post(&format!("/api/users/{person}/deactivate/"), json!({})).await.ok();
    let begin_again = "Please sign in again.";
    let reply = decide(&mut browser, &page, "allow").await;
    assert!(reply.status == 400 && reply.text.contains(begin_again), "{reply:?}");
    api.post(&format!("/api/users/{person}/reactivate/"), json!({})).await.ok();
    let reply = decide(&mut browser, &page, "allow").await;
    assert!(reply.status == 400 && reply.text.contains(begin_again), "{reply:?}");

    // The sign-in method, the allowed addresses of the person, the client, and the addresses of its callbacks.
    server.advance(MINUTE);
    let fresh = async || {
        let mut browser = Browser::new(&server);
        let page = signed_in(&mut browser, &url, &username, PASSWORD).await;
        (browser, page)
    };
    let (mut browser, page) = fresh().await;
    api.patch("/api/security/", json!({"authentication_method": {"internal": "sso"}})).await.ok();
    assert!(decide(&mut browser, &page, "allow").await.text.contains(begin_again));
    api.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    let user = format!("/api/users/{person}/");
    let elsewhere = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["10.0.0.0/8"]});
    api.patch(&user, elsewhere).await.ok();
    assert!(decide(&mut browser, &page, "allow").await.text.contains(begin_again));
    api.patch(&user, json!({"is_ip_restriction_enabled": false})).await.ok();
    api.patch(&format!("{CONNECTORS}1/"), json!({"is_enabled": false})).await.ok();
    assert_eq!(decide(&mut browser, &page, "allow").await.status, 400);
    api.patch(&format!("{CONNECTORS}1/"), json!({"is_enabled": true})).await.ok();
    api.patch(&integration, json!({"redirect_uris": ["https://other.example/"]})).await.ok();
    assert_eq!(decide(&mut browser, &page, "allow").await.status, 400);
    api.patch(&integration, json!({"redirect_uris": [CALLBACK]})).await.ok();
    // The page was open for too long.
    server.advance(11 * MINUTE);
    let reply = decide(&mut browser, &page, "allow").await;
    assert!(reply.status == 400 && reply.text.contains("This page was open for too long"), "{reply:?}");
    assert_eq!(number(&server, "SELECT count(*) FROM sessions WHERE connector IS NOT NULL").await, 0);
    let (mut browser, page) = fresh().await;
    assert_eq!(hidden_field(&page, "request"), url.split_once('?').unwrap().1);
    redirect_parameters(&decide(&mut browser, &page, "allow").await);
}
