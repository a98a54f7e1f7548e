//! An agent, the browser of a person, and the steps of a sign-in.

use crate::TestServer;
use crate::set_up::{CALLBACK, connector, integration};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use testkit::{ApiClient, Browser, PASSWORD, Reply, TestBuild, parameters};

pub const ADDRESS: &str = "https://a.example";
pub const VERIFIER: &str = "a-verifier-of-43-characters-at-least-0123456789";
/// A uuid, an address or a secret that is not in use.
pub const NOBODY: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// An agent with the secret of its connector.
#[derive(Clone, Debug)]
pub struct TestAgent {
    pub id: i64,
    pub uuid: String,
    pub integration: String,
    pub server_url: String,
    pub client_id: String,
    pub secret: String,
}

/// A server with an agent of connector 1, and its first super admin.
pub async fn with_agent() -> (TestServer, ApiClient, TestAgent) {
    with_agent_on(TestServer::start().await).await
}

/// As [`with_agent`], on a given server.
pub async fn with_agent_on(server: TestServer) -> (TestServer, ApiClient, TestAgent) {
    let api = server.admin().await;
    let agent = agent(&api, "Assistant").await;
    (server, api, agent)
}

/// An agent with a connector and an integration of this name.
pub async fn agent(api: &ApiClient, name: &str) -> TestAgent {
    let integration = integration(api, name, &[]).await;
    let made = connector(api, name, &integration).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let server_url = text("server_url");
    let uuid = server_url.rsplit('/').next().unwrap().to_owned();
    let id = made["id"].as_i64().unwrap();
    TestAgent { id, uuid, integration, server_url, client_id: text("client_id"), secret: text("client_secret") }
}

pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// An address with parameters.
fn address_with(address: &str, fields: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    format!("{address}?{query}")
}

impl TestAgent {
    /// The address to which the agent sends a person. The given parameters replace the valid ones or are added. An empty one is
    /// omitted.
    pub fn authorization(&self, changed: &[(&str, &str)]) -> String {
        let challenge = challenge(VERIFIER);
        let right = [
            ("client_id", self.client_id.as_str()),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("state", "a state & more"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &self.server_url),
        ];
        let others = changed.iter().filter(|(name, _)| !right.iter().any(|(known, _)| known == name));
        let fields: Vec<(&str, &str)> = right
            .iter()
            .map(|(name, value)| *changed.iter().find(|(changed, _)| changed == name).unwrap_or(&(*name, *value)))
            .chain(others.copied())
            .filter(|(_, value)| !value.is_empty())
            .collect();
        address_with(&format!("{}/oauth/authorize", self.address()), &fields)
    }

    /// The address of the agent's build.
    fn address(&self) -> &str {
        self.server_url.split_once("/mcp/").unwrap().0
    }

    /// Sends a form to the token endpoint, with the client in it.
    pub async fn token(&self, tenant: &TestBuild, fields: &[(&str, &str)]) -> Reply {
        self.send(tenant, "/oauth/token", fields).await
    }

    pub async fn send(&self, tenant: &TestBuild, path: &str, fields: &[(&str, &str)]) -> Reply {
        let client = [("client_id", self.client_id.as_str()), ("client_secret", self.secret.as_str())];
        tenant.anonymous().call("POST", path).form(&[&client, fields].concat()).send().await
    }

    /// Exchanges a code with valid fields.
    pub async fn exchange(&self, tenant: &TestBuild, code: &str) -> Reply {
        self.token(tenant, &exchange(code)).await
    }

    pub async fn refresh(&self, tenant: &TestBuild, token: &str) -> Reply {
        self.token(tenant, &[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }

    /// The tokens of a new grant of a person with the usual password.
    pub async fn grant(&self, tenant: &TestBuild, username: &str) -> GrantTokens {
        let mut browser = Browser::new(tenant);
        let code = self.code(&mut browser, username).await;
        GrantTokens::from_reply(&self.exchange(tenant, &code).await)
    }

    /// The code that a browser gets after a person has signed in and consented.
    pub async fn code(&self, browser: &mut Browser, username: &str) -> String {
        let address = self.address();
        let page = signed_in_at(browser, address, &self.authorization(&[]), [username, PASSWORD]).await;
        told_by(&decide_at(browser, address, &page, "allow").await, address)["code"].clone()
    }

    /// Returns whether an access token is valid.
    pub async fn may_call(&self, server: &TestServer, tokens: &GrantTokens) -> bool {
        self.send_request(server, tokens, "ping", json!({})).await.status == 200
    }
}

/// The fields of an exchange of a code.
pub fn exchange(code: &str) -> [(&str, &str); 4] {
    [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", CALLBACK), ("code_verifier", VERIFIER)]
}

/// The tokens of a grant.
#[derive(Clone, Debug)]
pub struct GrantTokens {
    pub access: String,
    pub refresh: String,
}

impl GrantTokens {
    #[track_caller]
    pub fn from_reply(reply: &Reply) -> GrantTokens {
        let body = reply.ok();
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        GrantTokens { access: text("access_token"), refresh: text("refresh_token") }
    }
}

/// The parameters of a redirect to the agent's callback.
#[track_caller]
pub fn redirect_parameters(reply: &Reply) -> HashMap<String, String> {
    told_by(reply, ADDRESS)
}

/// The parameters of a redirect to the agent's callback, by the build of this address.
#[track_caller]
fn told_by(reply: &Reply, address: &str) -> HashMap<String, String> {
    let location = reply.header("location");
    assert!([302, 303].contains(&reply.status), "{reply:?}");
    assert!(location.starts_with(&format!("{CALLBACK}?")), "{location}");
    let answer = parameters(location);
    assert_eq!((answer["state"].as_str(), answer["iss"].as_str()), ("a state & more", address));
    answer
}

/// The value of a hidden field of a page.
#[track_caller]
pub fn hidden_field(page: &Reply, name: &str) -> String {
    let begin = format!("<input name=\"{name}\" type=\"hidden\" value=\"");
    let tail = page.text.split_once(&begin).unwrap_or_else(|| panic!("no {name} in {page:?}")).1;
    let value = tail.split_once('"').unwrap().0;
    value.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Sends the form of the sign-in page.
pub async fn send_password(browser: &mut Browser, page: &Reply, username: &str, password: &str) -> Reply {
    send_password_at(browser, ADDRESS, page, [username, password]).await
}

async fn send_password_at(browser: &mut Browser, address: &str, page: &Reply, person: [&str; 2]) -> Reply {
    let [username, password] = person;
    let (request, token) = (hidden_field(page, "request"), hidden_field(page, "token"));
    let form = [("request", request.as_str()), ("token", &token), ("username", username), ("password", password)];
    browser.open(&format!("{address}/oauth/authorize/sign-in/"), Some(&form)).await
}

/// Opens the address to which an agent sends a person, signs in there, and returns the consent page.
pub async fn signed_in(browser: &mut Browser, url: &str, username: &str, password: &str) -> Reply {
    signed_in_at(browser, ADDRESS, url, [username, password]).await
}

async fn signed_in_at(browser: &mut Browser, address: &str, url: &str, person: [&str; 2]) -> Reply {
    let page = browser.open(url, None).await;
    let reply = send_password_at(browser, address, &page, person).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    let next = format!("{address}{}", reply.header("location"));
    browser.open(&next, None).await
}

/// Sends the form of the consent page.
pub async fn decide(browser: &mut Browser, page: &Reply, decision: &str) -> Reply {
    decide_at(browser, ADDRESS, page, decision).await
}

async fn decide_at(browser: &mut Browser, address: &str, page: &Reply, decision: &str) -> Reply {
    let (request, token) = (hidden_field(page, "request"), hidden_field(page, "token"));
    let form = [("request", request.as_str()), ("token", &token), ("decision", decision)];
    browser.open(&format!("{address}/oauth/authorize/consent/"), Some(&form)).await
}

/// An error of OAuth.
#[track_caller]
pub fn fails(reply: &Reply, status: u16, error: &str) {
    assert!(reply.status == status && reply.json["error"] == error, "expected {status} {error}, but it is {reply:?}");
}

/// The sessions of a person except the current one, as they list them.
pub async fn sessions(client: &ApiClient) -> Vec<Value> {
    let all = client.get("/api/users/me/sessions/").await.ok();
    let all = all["results"].as_array().unwrap().clone();
    all.into_iter().filter(|session| session["is_current"] == json!(false)).collect()
}
