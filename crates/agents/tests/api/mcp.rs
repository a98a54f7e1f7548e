//! `/mcp/{uuid}/` (`docs/reference/mcp-server.md`): its callers, and the messages of the protocol.

use crate::TestServer;
use crate::dance::{GrantTokens, NOBODY, TestAgent, agent, with_agent, with_agent_on};
use crate::set_up::CONNECTORS;
use serde_json::{Value, json};
use testkit::{ApiClient, MINUTE, PASSWORD, PreparedCall, Reply, TestBuild};

/// The revision of the protocol in these tests.
const REVISION: &str = "2025-06-18";
/// The `Accept` of a client.
const TAKES: &str = "application/json, text/event-stream";

impl TestAgent {
    /// Sends a message to the agent's server, with any token.
    pub fn message(&self, tenant: &TestBuild, token: &str, message: &Value) -> PreparedCall {
        let call = tenant.anonymous().call("POST", &format!("/mcp/{}/", self.uuid)).json(message);
        let call = call.header("accept", TAKES).header("mcp-protocol-version", REVISION);
        if token.is_empty() { call } else { call.header("authorization", &format!("Bearer {token}")) }
    }

    /// The answer to a request of the agent's server.
    pub async fn send_request(&self, tenant: &TestBuild, tokens: &GrantTokens, method: &str, params: Value) -> Reply {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.message(tenant, &tokens.access, &message).send().await
    }

    /// The result of a tool.
    pub async fn call(&self, tenant: &TestBuild, tokens: &GrantTokens, tool: &str, arguments: Value) -> Value {
        let reply =
            self.send_request(tenant, tokens, "tools/call", json!({"name": tool, "arguments": arguments})).await;
        let result = reply.ok()["result"].clone();
        assert!(result.is_object(), "{tool}: {reply:?}");
        assert_eq!(result["content"][0]["text"].as_str().unwrap(), result["structuredContent"].to_string());
        result
    }

    /// The answer of a tool that succeeds.
    pub async fn run(&self, tenant: &TestBuild, tokens: &GrantTokens, tool: &str, arguments: Value) -> Value {
        let result = self.call(tenant, tokens, tool, arguments).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// The body of the refusal of a tool.
    pub async fn expect_refusal(
        &self,
        tenant: &TestBuild,
        tokens: &GrantTokens,
        tool: &str,
        arguments: Value,
    ) -> Value {
        let result = self.call(tenant, tokens, tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }
}

/// Lets the connector of an agent offer all tools.
pub async fn with_all_tools(api: &testkit::ApiClient, agent: &TestAgent) {
    let tools = [
        "list_object_classes",
        "describe_object_class",
        "search_records",
        "get_record",
        "create_record",
        "update_record",
        "delete_record",
        "list_tasks",
        "get_task",
        "create_task",
        "update_task",
        "assign_task",
        "complete_task",
        "delete_task",
        "get_record_history",
        "list_startable_sequences",
        "start_sequence",
        "get_sequence_run",
    ];
    api.patch(&format!("{CONNECTORS}{}/", agent.id), json!({"allowed_tools": tools})).await.ok();
}

/// The tools that only read, in the order of the list.
const READING_TOOLS: [&str; 9] = [
    "list_object_classes",
    "describe_object_class",
    "search_records",
    "get_record",
    "list_tasks",
    "get_task",
    "get_record_history",
    "list_startable_sequences",
    "get_sequence_run",
];

/// Begins like a client, and expects the declarations of the server.
async fn initialize(server: &TestServer, agent: &TestAgent, tokens: &GrantTokens) {
    let client = json!({
        "protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "Scribe", "version": "1.2"},
    });
    let begun = agent.send_request(server, tokens, "initialize", client).await.ok();
    let result = &begun["result"];
    assert_eq!((&begun["jsonrpc"], &begun["id"]), (&json!("2.0"), &json!(1)));
    assert_eq!(result["protocolVersion"], REVISION);
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!(result["serverInfo"]["name"], "chancery");
    assert!(result["instructions"].as_str().unwrap().contains("list_object_classes"));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let reply = agent.message(server, &tokens.access, &initialized).send().await;
    assert_eq!((reply.status, reply.text.as_str()), (202, ""));
    assert_eq!(agent.send_request(server, tokens, "ping", json!({})).await.ok()["result"], json!({}));
}

/// Expects the schemas and the hints of a tool in the list.
fn expect_declaration(tool: &Value) {
    let name = tool["name"].as_str().unwrap();
    assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
    assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
    let reads = READING_TOOLS.contains(&name);
    let overwrites = ["update_record", "delete_record", "update_task", "assign_task", "complete_task", "delete_task"];
    let hints = json!({
        "readOnlyHint": reads, "destructiveHint": overwrites.contains(&name), "openWorldHint": false,
        "idempotentHint": !["create_record", "create_task", "complete_task", "start_sequence"].contains(&name),
    });
    assert_eq!(tool["annotations"], hints, "{name}");
}

#[tokio::test]
async fn a_client_begins_and_lists_the_tools_that_its_connector_offers() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    let tokens = agent.grant(&server, &username).await;
    initialize(&server, &agent, &tokens).await;
    let names = |list: &Value| -> Vec<String> {
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let listed = agent.send_request(&server, &tokens, "tools/list", json!({})).await.ok();
    assert_eq!(names(&listed), READING_TOOLS);
    // Tools that the connector offers later need a new consent.
    with_all_tools(&api, &agent).await;
    let listed = agent.send_request(&server, &tokens, "tools/list", json!({})).await.ok();
    assert_eq!(names(&listed), READING_TOOLS);
    let tokens = agent.grant(&server, &username).await;
    let listed = agent.send_request(&server, &tokens, "tools/list", json!({})).await.ok();
    assert_eq!(names(&listed).len(), 18);
    listed["result"]["tools"].as_array().unwrap().iter().for_each(expect_declaration);

    api.patch(&format!("{CONNECTORS}1/"), json!({"allowed_tools": []})).await.ok();
    assert_eq!(names(&agent.send_request(&server, &tokens, "tools/list", json!({})).await.ok()).len(), 0);
    let call = json!({"name": "get_record", "arguments": {"object_record": 7}});
    let refused = agent.send_request(&server, &tokens, "tools/call", call).await.ok();
    assert_eq!(refused["error"]["code"], -32602);
    let noted = api.get(&format!("{CONNECTORS}1/activity/")).await.ok()["results"][0].clone();
    let noted = (&noted["tool"], &noted["record_id"], &noted["outcome"]);
    assert_eq!(noted, (&json!("get_record"), &json!(7), &json!("refused")));
    let unknown = agent.send_request(&server, &tokens, "tools/call", json!({"name": "drop_tables"})).await.ok();
    assert_eq!(unknown["error"]["code"], -32602);
    let unknown = agent.send_request(&server, &tokens, "records/drop", json!({})).await.ok();
    assert_eq!(unknown["error"]["code"], -32601);
}

#[tokio::test]
async fn only_tokens_of_its_own_agents_open_a_connector() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    let tokens = agent.grant(&server, &username).await;
    let other = crate::dance::agent(&api, "Other").await;
    let of_other = other.grant(&server, &username).await;
    let person = server.anonymous().login(&username, PASSWORD).await.ok();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    // The metadata in the challenge has the form of the called address, here with a slash at its end.
    let metadata = agent.server_url.replace("/mcp/", "/.well-known/oauth-protected-resource/mcp/") + "/";
    for token in ["x", &of_other.access, &tokens.refresh, person["access_token"].as_str().unwrap()] {
        let reply = agent.message(&server, token, &ping).send().await;
        assert_eq!(reply.status, 401, "{token}");
        let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{metadata}\"");
        assert_eq!(reply.header("www-authenticate"), challenge);
    }
    let reply = agent.message(&server, "", &ping).send().await;
    assert_eq!(reply.status, 401);
    assert_eq!(reply.header("www-authenticate"), format!("Bearer resource_metadata=\"{metadata}\""));
    let bare = server.anonymous().call("POST", &format!("/mcp/{}", agent.uuid)).json(&ping).send().await;
    let challenge = format!("Bearer resource_metadata=\"{}\"", metadata.trim_end_matches('/'));
    assert_eq!((bare.status, bare.header("www-authenticate")), (401, challenge.as_str()));
    let nobody = TestAgent { uuid: NOBODY.to_owned(), ..agent.clone() };
    assert_eq!(nobody.message(&server, &tokens.access, &ping).send().await.status, 401);
    // Tokens of agents open no other endpoint.
    let main = server.anonymous().with_token(&tokens.access);
    for path in ["/api/users/me/", "/api/object-classes/", "/api/tasks/", "/api/openapi.json"] {
        let status = main.get(path).await.status;
        assert_eq!(status, if path == "/api/openapi.json" { 200 } else { 401 }, "{path}");
    }

    assert_eq!(agent.message(&server, &tokens.access, &ping).send().await.status, 200);
    for method in ["GET", "DELETE", "PUT"] {
        let path = format!("/mcp/{}/", agent.uuid);
        let call = server.anonymous().call(method, &path).header("authorization", &format!("Bearer {}", tokens.access));
        let reply = call.send().await;
        assert_eq!((reply.status, reply.header("allow")), (405, "POST"), "{method}");
    }
    for (origin, status) in [("https://evil.example", 403), ("null", 403), ("https://a.example", 200)] {
        let reply = agent.message(&server, &tokens.access, &ping).header("origin", origin).send().await;
        assert_eq!(reply.status, status, "{origin}");
    }
    for (change, back) in [
        (format!("{CONNECTORS}1/"), json!({"is_enabled": true})),
        (format!("/api/integrations/{}/", agent.integration), json!({"is_enabled": true})),
    ] {
        api.patch(&change, json!({"is_enabled": false})).await.ok();
        assert_eq!(agent.message(&server, &tokens.access, &ping).send().await.status, 401, "{change}");
        api.patch(&change, back).await.ok();
        assert_eq!(agent.message(&server, &tokens.access, &ping).send().await.status, 200, "{change}");
    }
    server.advance(16 * MINUTE);
    assert_eq!(agent.message(&server, &tokens.access, &ping).send().await.status, 401);
}

/// If a build answers for all hosts, the owner of any name can make it resolve to the build (DNS rebinding).
#[tokio::test]
async fn a_page_at_another_name_does_not_reach_a_connector() {
    let (server, _, agent) = with_agent_on(TestServer::start_at_public_address(|_| {}).await).await;
    let username = server.account("internal").await;
    let tokens = agent.grant(&server, &username).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let (address, path) = (server.address, format!("/mcp/{}/", agent.uuid));
    for (host, origin, status) in [
        ("evil.example", "http://evil.example", 403),
        ("evil.example:8000", "http://evil.example:8000", 403),
        ("a.example.evil.example", "http://a.example.evil.example", 403),
        ("evil.example", "null", 403),
        // A program sends no `Origin`.
        ("evil.example", "", 200),
        ("a.example", "http://a.example", 200),
        ("localhost:8000", "http://localhost:8000", 200),
        ("127.0.0.1:8000", "http://127.0.0.1:8000", 200),
        ("127.0.0.1", "http://evil.example", 403),
    ] {
        let call = ApiClient::new(address, host).call("POST", &path).json(&ping).header("accept", TAKES);
        let call = call.header("authorization", &format!("Bearer {}", tokens.access));
        let call = if origin.is_empty() { call } else { call.header("origin", origin) };
        assert_eq!(call.send().await.status, status, "{host} {origin}");
    }
}

/// Agents begin with a refused call, and continue immediately.
#[tokio::test]
async fn a_call_that_is_refused_unread_says_that_its_connection_ends() {
    let (server, _, agent) = with_agent().await;
    let username = server.account("internal").await;
    let tokens = agent.grant(&server, &username).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (token, status, connection) in [("", 401, "close"), ("x", 401, "close"), (&tokens.access, 200, "")] {
        let reply = agent.message(&server, token, &ping).send().await;
        let connection_header = reply.headers.get("connection").map_or("", |value| value.to_str().unwrap());
        assert_eq!((reply.status, connection_header), (status, connection));
    }
}

#[tokio::test]
async fn one_agent_is_not_another() {
    let (server, api, first) = with_agent().await;
    let second = agent(&api, "Second").await;
    let username = server.account("internal").await;
    let (of_first, of_second) = (first.grant(&server, &username).await, second.grant(&server, &username).await);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (agent, tokens, status) in
        [(&first, &of_first, 200), (&second, &of_second, 200), (&first, &of_second, 401), (&second, &of_first, 401)]
    {
        assert_eq!(agent.message(&server, &tokens.access, &ping).send().await.status, status);
    }
    // A new secret ends only the grants of its connector.
    api.post(&format!("{CONNECTORS}1/reset-client-secret/"), json!({})).await.ok();
    assert_eq!(first.message(&server, &of_first.access, &ping).send().await.status, 401);
    assert_eq!(second.message(&server, &of_second.access, &ping).send().await.status, 200);
}
