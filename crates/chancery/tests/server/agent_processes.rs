//! Agents at several processes over one PostgreSQL. If one process ends a grant, the others refuse it: writes immediately, reads
//! within a second. A code or a refresh token that is used at two of them works at one. The actions of agents at both are listed.

use crate::BINARY;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{
    ADMIN, ApiClient, Installation, PASSWORD, Process, Reply, eventually, parameters, send_concurrently, statuses,
};

const CALLBACK: &str = "https://agent.example/callback";
/// A verifier and its S256 challenge (RFC 7636).
const VERIFIER: &str = "a-verifier-of-43-characters-at-least-0123456789";
const CHALLENGE: &str = "OxMXhuY6OY0ynrxoYA9X_dVrrN-jG5wV3XHj98ltTyY";
const CONNECTORS: &str = "/api/mcp/connectors/";
const RECORD: &str = "/api/object-records/1/";
const SET: &str = "/api/object-classes/1/record-permission-sets/1/";

/// Two processes, a super admin at each, and the connector of an agent that may view and edit record 1 for the super admin.
struct TwoProcesses {
    _installation: Installation,
    processes: [Process; 2],
    admins: [ApiClient; 2],
    connector: i64,
    integration: String,
    /// The path of the connector's server, and the client.
    path: String,
    client: [String; 2],
}

/// Returns the value of a hidden field of a page.
fn hidden_field(page: &Reply, name: &str) -> String {
    let begin = format!("<input name=\"{name}\" type=\"hidden\" value=\"");
    let rest = page.text.split_once(&begin).unwrap_or_else(|| panic!("no {name} in {page:?}")).1;
    let value = rest.split_once('"').unwrap().0;
    value.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Returns the cookie that an answer sets.
fn cookie(reply: &Reply) -> String {
    reply.header("set-cookie").split(';').next().unwrap().to_owned()
}

impl TwoProcesses {
    /// Starts the processes. Returns `None` without a PostgreSQL server.
    async fn start() -> Option<TwoProcesses> {
        let installation = Installation::postgresql(BINARY).map(Installation::and_build)?;
        let processes = [installation.serve_api(), installation.serve_api()];
        let first_admin = processes[0].client("localhost").sign_in(ADMIN, PASSWORD).await;
        let two = processes[1].client("localhost").sign_in(ADMIN, PASSWORD).await;
        first_admin.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
        first_admin
            .post("/api/object-classes/1/fields/", json!({"label": "Title", "type": "string"}))
            .await
            .expect_created();
        let body = json!({
            "type": "ai_mcp", "name": "Agents", "is_enabled": true, "object_classes": [1], "redirect_uris": [CALLBACK],
        });
        let integration =
            first_admin.post("/api/integrations/", body).await.expect_created()["uuid"].as_str().unwrap().to_owned();
        let tools = ["list_object_classes", "get_record", "update_record"];
        let body = json!({"name": "Assistant", "integration": integration, "allowed_tools": tools});
        let made = first_admin.post(CONNECTORS, body).await.expect_created();
        let all = json!({"object_records": ["view", "edit"]});
        first_admin
            .post("/api/object-classes/1/record-permission-sets/", json!({"name": "All", "permissions": all}))
            .await
            .expect_created();
        let connector = made["id"].as_i64().unwrap();
        let assigned = json!([{"permission_set": 1, "users": [1]}]);
        first_admin
            .post("/api/object-classes/1/object-records/", json!({"permission_sets": assigned}))
            .await
            .expect_created();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let path = format!("/mcp/{}", text("server_url").split_once("/mcp/").unwrap().1);
        let client = [text("client_id"), text("client_secret")];
        let scene = TwoProcesses {
            _installation: installation,
            processes,
            admins: [first_admin, two],
            connector,
            integration,
            path,
            client,
        };
        scene.set_connector_actions(json!(["view", "edit"])).await;
        Some(scene)
    }

    async fn set_connector_actions(&self, actions: Value) {
        let given = json!([{"connector": self.connector, "permissions": {"object_records": actions}}]);
        self.admins[0].patch(SET, json!({"mcp_permissions": given})).await.ok();
    }

    fn client_at(&self, process: usize) -> ApiClient {
        self.processes[process].client("localhost")
    }

    /// Returns the code of a new grant of the super admin, who signs in and consents at a process.
    async fn code(&self, process: usize) -> String {
        let client = self.client_at(process);
        let path = format!(
            "/oauth/authorize?client_id={}&redirect_uri=https%3A%2F%2Fagent.example%2Fcallback&response_type=code&state=x\
             &code_challenge={CHALLENGE}&code_challenge_method=S256",
            self.client[0]
        );
        let page = client.get(&path).await;
        let (request, token) = (hidden_field(&page, "request"), hidden_field(&page, "token"));
        let form = [("request", request.as_str()), ("token", &token), ("username", ADMIN), ("password", PASSWORD)];
        let call = client.call("POST", "/oauth/authorize/sign-in/").header("cookie", &cookie(&page));
        let led = call.form(&form).send().await;
        let cookie = cookie(&led);
        let page = client.call("GET", led.header("location")).header("cookie", &cookie).send().await;
        let (request, token) = (hidden_field(&page, "request"), hidden_field(&page, "token"));
        let form = [("request", request.as_str()), ("token", &token), ("decision", "allow")];
        let call = client.call("POST", "/oauth/authorize/consent/").header("cookie", &cookie).form(&form);
        parameters(call.send().await.header("location"))["code"].clone()
    }

    /// Prepares a call of the token endpoint of a process.
    fn token(&self, process: usize, fields: &[(&str, &str)]) -> testkit::PreparedCall {
        let [id, secret] = &self.client;
        let client = [("client_id", id.as_str()), ("client_secret", secret)];
        self.client_at(process).call("POST", "/oauth/token").form(&[&client, fields].concat())
    }

    fn exchange(&self, process: usize, code: &str) -> testkit::PreparedCall {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        self.token(process, &fields)
    }

    /// Returns the tokens of a new grant.
    async fn grant(&self) -> [String; 2] {
        let answer = self.exchange(0, &self.code(0).await).send().await.ok();
        ["access_token", "refresh_token"].map(|name| answer[name].as_str().unwrap().to_owned())
    }

    async fn call(&self, process: usize, token: &str, tool: &str, arguments: Value) -> Reply {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let call = self.client_at(process).call("POST", &self.path).json(&message);
        let call = call.header("accept", "application/json, text/event-stream");
        call.header("authorization", &format!("Bearer {token}")).send().await
    }

    /// Changes the title of the record as an agent at a process.
    async fn write(&self, process: usize, token: &str, title: &str) -> Reply {
        self.call(process, token, "update_record", json!({"object_record": 1, "fields": {"title": title}})).await
    }

    async fn read(&self, process: usize, token: &str) -> Reply {
        self.call(process, token, "get_record", json!({"object_record": 1})).await
    }

    async fn title(&self) -> Value {
        self.admins[0].get(RECORD).await.ok()["fields"]["title"].clone()
    }

    async fn enable(&self, path: &str, is_enabled: bool) {
        self.admins[0].patch(path, json!({"is_enabled": is_enabled})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_ended_at_one_process_is_refused_at_the_other() {
    let Some(mut scene) = TwoProcesses::start().await else { return };
    let connector = format!("{CONNECTORS}{}/", scene.connector);
    let integration = format!("/api/integrations/{}/", scene.integration);
    for how in ["connector", "integration", "session", "revoked", "secret"] {
        let [access, refresh] = scene.grant().await;
        for process in [0, 1] {
            assert_eq!(scene.write(process, &access, how).await.ok()["result"]["isError"], false, "{how}");
            scene.read(process, &access).await.ok();
        }
        match how {
            "connector" => scene.enable(&connector, false).await,
            "integration" => scene.enable(&integration, false).await,
            "session" => {
                let sessions = scene.admins[0].get("/api/users/me/sessions/?limit=1000").await.ok();
                let sessions = sessions["results"].as_array().unwrap();
                // The latest session belongs to the agent.
                let grant = sessions.iter().filter_map(|of| of["id"].as_i64()).max().unwrap();
                scene.admins[0].delete(&format!("/api/users/me/sessions/{grant}/")).await.expect_empty();
            }
            "revoked" => {
                let [id, secret] = &scene.client;
                let fields = [("client_id", id.as_str()), ("client_secret", secret), ("token", &refresh)];
                assert_eq!(scene.client_at(0).call("POST", "/oauth/revoke").form(&fields).send().await.status, 200);
            }
            _ => {
                let answer = scene.admins[0].post(&format!("{connector}reset-client-secret/"), json!({})).await.ok();
                scene.client[1] = answer["client_secret"].as_str().unwrap().to_owned();
            }
        }
        let ended = Instant::now();
        // A write reads the database, so it is refused immediately.
        let reply = scene.write(1, &access, "Too late").await;
        assert_eq!(reply.status, 401, "{how}: {reply:?}");
        assert!(reply.header("www-authenticate").contains("resource_metadata"), "{how}: {reply:?}");
        assert_eq!(scene.title().await, how);
        // A read is refused after the process has received the change, within a second.
        while scene.read(1, &access).await.status == 200 {
            assert!(ended.elapsed() < Duration::from_secs(5), "{how}");
        }
        assert_eq!(scene.write(0, &access, "Too late").await.status, 401, "{how}");
        let refused = scene.token(1, &[("grant_type", "refresh_token"), ("refresh_token", &refresh)]).send().await;
        assert!([400, 401].contains(&refused.status), "{how}: {refused:?}");
        scene.enable(&connector, true).await;
        scene.enable(&integration, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_revoked_from_a_connector_end_at_every_process_at_once() {
    let Some(scene) = TwoProcesses::start().await else { return };
    let [access, _] = scene.grant().await;
    let body = |reply: Reply| reply.ok()["result"]["structuredContent"].clone();
    for round in 0..10 {
        scene.set_connector_actions(json!(["view", "edit"])).await;
        let title = format!("Title {round}");
        assert_eq!(body(scene.write(1, &access, &title).await)["fields"]["title"], title.as_str());
        scene.set_connector_actions(json!(["view"])).await;
        let forbidden = json!({"detail": "You do not have permission to perform this action."});
        assert_eq!(body(scene.write(1, &access, "Too late").await), forbidden);
        assert_eq!(body(scene.read(1, &access).await)["_meta"]["permissions"]["edit"], false);
        scene.set_connector_actions(json!([])).await;
        let not_found = json!({"detail": "Not found."});
        assert_eq!(body(scene.read(1, &access).await), not_found);
        assert_eq!(body(scene.write(1, &access, "Too late").await), not_found);
        let listed = body(scene.call(1, &access, "list_object_classes", json!({})).await);
        assert_eq!(listed["results"][0]["num_of_records"], 0);
        assert_eq!(scene.title().await, title.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_or_a_refresh_token_works_at_one_process_of_two() {
    let Some(scene) = TwoProcesses::start().await else { return };
    for _ in 0..testkit::rounds(5) {
        let code = scene.code(0).await;
        let replies = send_concurrently([0, 1, 0, 1].map(|process| scene.exchange(process, &code))).await;
        assert_eq!(statuses(&replies), [200, 400, 400, 400], "{replies:?}");
        let [access, refresh] = scene.grant().await;
        assert_eq!(scene.read(1, &access).await.status, 200);
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        let replies = send_concurrently([0, 1].map(|process| scene.token(process, &fields))).await;
        assert_eq!(statuses(&replies), [200, 400], "{replies:?}");
        let lost = replies.iter().find(|reply| reply.status == 400).unwrap();
        assert_eq!(lost.json["error"], "invalid_grant");
        // The code was used a second time, so the grant is revoked, with the tokens of the first use.
        let won = replies.iter().find(|reply| reply.status == 200).unwrap();
        let ended = Instant::now();
        for process in [0, 1] {
            while scene.read(process, won["access_token"].as_str().unwrap()).await.status == 200 {
                assert!(ended.elapsed() < Duration::from_secs(5));
            }
            let fields = [("grant_type", "refresh_token"), ("refresh_token", won["refresh_token"].as_str().unwrap())];
            assert_eq!(scene.token(process, &fields).send().await.status, 400);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_at_every_process_is_listed_at_each() {
    let Some(scene) = TwoProcesses::start().await else { return };
    let [access, _] = scene.grant().await;
    for process in [0, 1, 0, 1, 1] {
        scene.read(process, &access).await.ok();
        scene.write(process, &access, "A").await.ok();
    }
    for admin in &scene.admins {
        let path = format!("{CONNECTORS}{}/activity/?limit=100", scene.connector);
        let listed = eventually(async || {
            let listed = admin.get(&path).await.ok();
            let lines = listed["results"].as_array().unwrap();
            let calls = lines.iter().map(|line| line["count"].as_i64().unwrap()).sum::<i64>();
            if calls == 10 { Ok(listed) } else { Err(listed) }
        })
        .await;
        let lines = listed["results"].as_array().unwrap();
        let calls = |tool: &str| {
            let of_tool = lines.iter().filter(|line| line["tool"] == tool && line["outcome"] == "done");
            of_tool.map(|line| line["count"].as_i64().unwrap()).sum::<i64>()
        };
        assert_eq!((calls("get_record"), calls("update_record")), (5, 5), "{listed:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_grant_are_bounded_over_all_processes() {
    let Some(scene) = TwoProcesses::start().await else { return };
    let [access, _] = scene.grant().await;
    // The calls are batches. A call without a header of the revision has the revision that supports them.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_object_classes"}});
    let batch = |count: usize| json!(vec![call.clone(); count]);
    let send = async |process: usize, count: usize| {
        let call = scene.client_at(process).call("POST", &scene.path).json(&batch(count));
        call.header("authorization", &format!("Bearer {access}")).send().await.status
    };
    let begun = Instant::now();
    for process in [0, 1] {
        for _ in 0..14 {
            assert_eq!(send(process, 20).await, 200);
        }
    }
    // There are 560 calls. Each process receives the counts of the other within about a second, with its own calls.
    for process in [0, 1].repeat(10) {
        // The processes exchange their counts in the meantime, which the test cannot observe.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(send(process, 1).await, 200, "{:?}", begun.elapsed());
    }
    // The pause is longer than the exchange of the processes' counts.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for process in [0, 1] {
        assert_eq!(send(process, 20).await, 200);
        // The other process receives the count of these calls.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    for process in [0, 1] {
        let status = send(process, 20).await;
        // On a slow machine, the minute is over.
        assert!(
            status == 429 || begun.elapsed() > Duration::from_secs(55),
            "{process}: {status} {:?}",
            begun.elapsed()
        );
    }
}
