//! Attacks on the sign-in of an agent (`docs/reference/agent-sign-in.md`).

use crate::TestServer;
use crate::dance::{ADDRESS, TestAgent, agent, hidden_field, signed_in, with_agent};
use crate::set_up::number;
use serde_json::json;
use testkit::{ApiClient, Browser, PASSWORD, Reply, TestBuild};

const CONSENT: &str = "/oauth/authorize/consent/";
const SIGN_IN: &str = "/oauth/authorize/sign-in/";

/// The cookie that an answer sets.
fn cookie_of(reply: &Reply) -> String {
    reply.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// A consent page in a browser: the cookie, the agent's request and the token.
struct OpenConsentPage {
    cookie: String,
    request: String,
    token: String,
}

/// Signs in at the page of an agent, and opens the consent page.
async fn open(client: &ApiClient, agent: &TestAgent, username: &str) -> OpenConsentPage {
    let path = agent.authorization(&[]).replace(ADDRESS, "");
    let page = client.get(&path).await;
    let (request, token) = (hidden_field(&page, "request"), hidden_field(&page, "token"));
    let form = [("request", request.as_str()), ("token", &token), ("username", username), ("password", PASSWORD)];
    let led = client.call("POST", SIGN_IN).header("cookie", &cookie_of(&page)).form(&form).send().await;
    let cookie = cookie_of(&led);
    let page = client.call("GET", led.header("location")).header("cookie", &cookie).send().await;
    OpenConsentPage { cookie, request: hidden_field(&page, "request"), token: hidden_field(&page, "token") }
}

impl OpenConsentPage {
    fn form(&self) -> [(&str, &str); 3] {
        [("request", &self.request), ("token", &self.token), ("decision", "allow")]
    }

    async fn consent(&self, client: &ApiClient, headers: &[(&str, &str)]) -> Reply {
        let call = client.call("POST", CONSENT).header("cookie", &self.cookie).form(&self.form());
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send().await
    }
}

async fn grants(server: &TestServer) -> i64 {
    number(server, "SELECT count(*) FROM sessions WHERE connector IS NOT NULL").await
}

#[tokio::test]
async fn pages_of_other_sites_neither_sign_in_nor_consent() {
    let origin = "https://front.example";
    let server = TestServer::start_with(|settings| settings.cors_origins = vec![origin.to_owned()]).await;
    let agent = agent(&server.admin().await, "Assistant").await;
    let client = server.anonymous();
    let username = server.account("internal").await;
    let open = open(&client, &agent, &username).await;
    for headers in [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        // A front end of the deployment is also another site.
        vec![("origin", origin)],
        vec![("origin", origin), ("sec-fetch-site", "same-site")],
    ] {
        assert_eq!(open.consent(&client, &headers).await.status, 403, "{headers:?}");
        for path in [SIGN_IN, "/oauth/authorize/single-sign-on/"] {
            let call = client.call("POST", path).header("cookie", &open.cookie).form(&open.form());
            let reply = headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send().await;
            assert_eq!(reply.status, 403, "{path} {headers:?}");
        }
    }
    assert_eq!(grants(&server).await, 0);
    // The server's own page is accepted, also behind a proxy that terminates TLS.
    assert_eq!(open.consent(&client, &[("origin", "https://a.example")]).await.status, 303);
    // Servers of agents and scripts of front ends call the token endpoint from any origin.
    let form = [("grant_type", "refresh_token")];
    for headers in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let reply = client.call("POST", "/oauth/token").header(headers.0, headers.1).form(&form).send().await;
        assert_eq!(reply.status, 401);
        assert_eq!(reply.header("access-control-allow-origin"), "");
    }
    let reply = client.call("POST", "/oauth/token").header("origin", origin).form(&form).send().await;
    assert_eq!(reply.header("access-control-allow-origin"), origin);
}

#[tokio::test]
async fn a_consent_needs_the_browser_and_the_form_in_which_the_person_signed_in() {
    let (server, api, agent) = with_agent().await;
    let client = server.anonymous();
    let username = server.account("internal").await;
    let person = open(&client, &agent, &username).await;
    // Another browser, without a sign-in or with another person, and with its own token or the person's.
    let stranger = client.get(&agent.authorization(&[]).replace(ADDRESS, "")).await;
    let (cookie, token) = (cookie_of(&stranger), hidden_field(&stranger, "token"));
    let other = open(&client, &agent, &server.account("external").await).await;
    for (cookie, token) in [
        ("", person.token.as_str()),
        (&cookie, &person.token),
        (&cookie, &token),
        (&other.cookie, &person.token),
        (&person.cookie, &other.token),
        (&person.cookie, &token),
        (&person.cookie, ""),
        (&person.cookie.replace('=', "=x"), &person.token),
    ] {
        let form = [("request", person.request.as_str()), ("token", token), ("decision", "allow")];
        let reply = client.call("POST", CONSENT).header("cookie", cookie).form(&form).send().await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{cookie} {token}");
    }
    // The consent to one request does not count for another: of another agent, with another state, to another address.
    let second = crate::dance::agent(&api, "Other").await;
    for url in [
        second.authorization(&[]),
        agent.authorization(&[("state", "x")]),
        agent.authorization(&[("redirect_uri", "http://127.0.0.1:9/callback")]),
        agent.authorization(&[("code_challenge", &"x".repeat(43))]),
    ] {
        let query = url.split_once('?').unwrap().1;
        let form = [("request", query), ("token", person.token.as_str()), ("decision", "allow")];
        let reply = client.call("POST", CONSENT).header("cookie", &person.cookie).form(&form).send().await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{url}");
        // The name of the cookie does not change that.
        let page = client.get(&format!("/oauth/authorize?{query}")).await;
        let name = cookie_of(&page).split_once('=').unwrap().0.to_owned();
        let renamed = format!("{name}={}", person.cookie.split_once('=').unwrap().1);
        let reply = client.call("POST", CONSENT).header("cookie", &renamed).form(&form).send().await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{url}");
    }
    assert_eq!(grants(&server).await, 0);
    // The person's own form works once, even if another browser has a copy.
    assert_eq!(person.consent(&client, &[]).await.status, 303);
    let repeated = person.consent(&client, &[]).await;
    assert!(repeated.status == 400 && repeated.text.contains("This page was used already."), "{repeated:?}");
    assert_eq!(grants(&server).await, 1);
}

#[tokio::test]
async fn a_sign_in_here_is_none_at_another_build() {
    let (server, _, agent) = with_agent().await;
    let other = server.build("b.example").await;
    let client = server.anonymous();
    let username = server.account("internal").await;
    let person = open(&client, &agent, &username).await;
    let foreign: &TestBuild = &other;
    let reply = person.consent(&foreign.anonymous(), &[]).await;
    assert_eq!((reply.status, reply.header("location")), (400, ""));
    // The client is unknown in the other build.
    let reply = foreign.anonymous().get(&agent.authorization(&[]).replace(ADDRESS, "")).await;
    assert!(reply.status == 400 && reply.text.contains("This agent is not known here."), "{reply:?}");
    let tokens = agent.grant(&server, &username).await;
    assert_eq!(agent.refresh(foreign, &tokens.refresh).await.status, 401);
    assert_eq!(agent.send_request(foreign, &tokens, "ping", json!({})).await.status, 401);
    assert!(agent.may_call(&server, &tokens).await);
}

#[tokio::test]
async fn parameters_of_an_agent_are_escaped_on_the_page() {
    let (server, _, agent) = with_agent().await;
    let mut browser = Browser::new(&server);
    let username = server.account("internal").await;
    let state = "\"><script>alert(1)</script>";
    let page = signed_in(&mut browser, &agent.authorization(&[("state", state)]), &username, PASSWORD).await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("<script"), "{}", page.text);
    // Line ends in a state do not begin a header.
    let url = agent.authorization(&[("state", "x\r\nset-cookie: a=b"), ("response_type", "token")]);
    let reply = browser.open(&url, None).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (302, ""));
    assert!(reply.header("location").contains("state=x%0D%0Aset-cookie%3A+a%3Db"), "{}", reply.header("location"));
}

#[tokio::test]
async fn any_parameters_are_answered() {
    let (server, _, agent) = with_agent().await;
    let client = server.anonymous();
    let odd =
        ["", "\0", "%", "\u{fffd}", "'; DROP TABLE users; --", "a b&c=d#e", &"x".repeat(9_000), "[]", "\\", "\u{202e}"];
    for name in ["client_id", "redirect_uri", "response_type", "state", "code_challenge", "resource", "scope"] {
        for value in odd.iter().filter(|value| value.len() < 5_000) {
            let reply = client.get(&agent.authorization(&[(name, value)]).replace(ADDRESS, "")).await;
            assert!([200, 302, 400].contains(&reply.status), "{name} {value:?}: {reply:?}");
        }
    }
    let forms: [(&str, &[&str]); 5] = [
        (
            "/oauth/token",
            &["grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "client_id", "client_secret"],
        ),
        ("/oauth/revoke", &["token", "client_id", "client_secret"]),
        (SIGN_IN, &["request", "token", "username", "password"]),
        ("/oauth/authorize/single-sign-on/", &["request", "token", "id"]),
        (CONSENT, &["request", "token", "decision"]),
    ];
    for (path, names) in forms {
        for name in names {
            for value in odd {
                let mut form = vec![("client_id", agent.client_id.as_str()), ("client_secret", agent.secret.as_str())];
                form.extend([("grant_type", "refresh_token"), ("refresh_token", "x"), ("code", "x")]);
                form.retain(|(known, _)| known != name);
                form.push((name, value));
                let reply = client.call("POST", path).form(&form).send().await;
                assert!((200..500).contains(&reply.status), "{path} {name} {value:?}: {reply:?}");
            }
        }
    }
}
