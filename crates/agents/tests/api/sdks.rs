//! The official SDKs of the protocol and MCP Inspector as agents. They need only the address of a connector.

use crate::TestServer;
use crate::dance::sessions;
use crate::program::{BrowserPerson, CALLBACK, Program, node, node_programs, packages, python, run_with};
use crate::scene::Scene;
use crate::set_up::{CONNECTORS, INTEGRATIONS};
use events::history_client::HistoryAddress;
use serde_json::{Value, json};
use std::process::Command;
use testkit::{ApiClient, HISTORY_KEY, HistoryServer, MINUTE, PASSWORD, eventually};

const SETS: &str = "/api/object-classes/1/record-permission-sets/";

/// A scene that delivers to a history service. Sign-ins of programs at its connector may return to [`CALLBACK`].
async fn scene(history: &HistoryServer) -> Scene {
    let service = HistoryAddress { url: format!("http://{}", history.address), api_key: HISTORY_KEY.to_owned() };
    let server = TestServer::start_at_public_address(|settings| settings.events.history = Some(service)).await;
    let scene = Scene::on(server).await;
    let set = json!({"name": "Makers", "permissions": {"object_records": ["create"]}});
    let set = scene.api.post("/api/object-classes/1/permission-sets/", set).await.id();
    let makers = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    scene.api.post(&makers, json!([scene.person.id])).await.expect_created();
    let template = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    scene.api.post("/api/task-templates/", template).await.expect_created();
    scene
}

fn settings(scene: &Scene, more: Value) -> Value {
    let agent = &scene.agent;
    let mut settings = json!({
        "serverUrl": agent.server_url, "clientId": agent.client_id, "clientSecret": agent.secret, "redirectUri": CALLBACK,
    });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

/// A program signs in, calls every tool, continues after the expiry of its access token, and gets a clear refusal of other actions.
async fn run_program(command: Command, more: Value, revision: Value, errors: [(&str, &str); 2]) {
    let history = HistoryServer::start().await;
    let scene = scene(&history).await;
    let username = "internal@example.com";
    let allowing = BrowserPerson { server: &scene.server, username, decision: "allow" };
    let mut program = Program::start(command, &settings(&scene, more));
    let begun = program.send_command(json!({"do": "connect"}), Some(&allowing)).await;
    assert_eq!(
        begun["result"],
        json!({"server": {"name": "chancery", "version": env!("CARGO_PKG_VERSION")}, "revision": revision}),
        "{begun}"
    );
    let tools = program.send_command(json!({"do": "list"}), None).await["result"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 18, "{tools}");

    let record = use_record_tools(&mut program).await;
    use_task_tools(&mut program, &record, scene.person.id).await;
    expect_history(&mut program, &record).await;

    // An access token is valid for 15 minutes. The person does not take part in a refresh.
    scene.server.advance(16 * MINUTE);
    program.send_command(json!({"do": "later", "seconds": 16 * 60}), None).await;
    program.call_tool("list_object_classes", json!({})).await;
    let (api, person) = (scene.server.admin().await, scene.server.sign_in(username, PASSWORD).await);
    let grants: Vec<Value> =
        sessions(&person).await.into_iter().filter(|session| session["user_agent"] == "Scribe 1.2").collect();
    assert_eq!(grants.len(), 1, "{grants:?}");

    expect_refusal_and_grant(&mut program, &api, &record).await;
    // A tool that the connector does not offer is an error of the protocol.
    api.patch(&format!("{CONNECTORS}1/"), json!({"allowed_tools": ["get_record"]})).await.ok();
    let call = json!({"do": "call", "tool": "list_object_classes", "arguments": {}});
    let refused = program.send_command(call.clone(), None).await["error"].clone();
    let [(name, message), ended] = errors;
    assert_eq!(refused, json!({"name": name, "code": -32602, "message": message}));

    // After the person has ended the grant, the program asks again, and the person denies.
    person.delete(&format!("/api/users/me/sessions/{}/", grants[0]["id"])).await.expect_empty();
    let denying = BrowserPerson { decision: "deny", ..allowing };
    let refused = program.send_command(call, Some(&denying)).await["error"].clone();
    assert_eq!((refused["name"].as_str(), refused["message"].as_str()), (Some(ended.0), Some(ended.1)));
}

/// Calls the tools of classes and records, and returns the id of a new record.
async fn use_record_tools(program: &mut Program) -> Value {
    let classes = program.call_tool("list_object_classes", json!({})).await;
    assert_eq!(classes["results"][0]["alias"], "order");
    let class = program.call_tool("describe_object_class", json!({"object_class": "order"})).await;
    assert_eq!(class["may_create"], true);
    let made = json!({
        "object_class": "order", "fields": {"title": "One", "amount": 5}, "permission_sets": [{"permission_set": 1}],
    });
    let record = program.call_tool("create_record", made).await["id"].clone();
    let filters = json!({"object_class": "order", "filters": {"amount__gte": 5, "state": "open"}, "fields": ["title"]});
    let page = program.call_tool("search_records", filters).await;
    assert_eq!((&page["filtered_count"], &page["results"][0]["fields"]), (&json!(1), &json!({"title": "One"})));
    let changed = json!({"object_record": record, "fields": {"state": "closed"}});
    assert_eq!(program.call_tool("update_record", changed).await["fields"]["state"], "closed");
    let shown = program.call_tool("get_record", json!({"object_record": record})).await;
    assert_eq!(shown["_meta"]["labels"]["fields"]["state"], "Closed");
    record
}

/// Calls the tools of tasks for a record.
async fn use_task_tools(program: &mut Program, record: &Value, person: i64) {
    let made = json!({"object_record": record, "task_template": 1, "name": "Look"});
    let task = program.call_tool("create_task", made).await["id"].clone();
    let listed = program.call_tool("list_tasks", json!({"filters": {"status": "open"}, "ordering": "-id"})).await;
    assert_eq!(listed["results"][0]["id"], task);
    let assigned = json!({"task": task, "assignees": [person]});
    assert_eq!(program.call_tool("assign_task", assigned).await["assignees"][0]["id"], person);
    let changed = json!({"task": task, "due_at": "2030-01-01T00:00:00Z", "description": "Soon"});
    assert_eq!(program.call_tool("update_task", changed).await["description"], "Soon");
    assert_eq!(program.call_tool("get_task", json!({"task": task})).await["form"]["task_type"], "tt_form");
    let done = json!({"task": task, "response": {"ok": true}});
    assert_eq!(program.call_tool("complete_task", done).await["status"], "completed");
    assert_eq!(program.call_tool("delete_task", json!({"task": task})).await, json!({"done": true}));
}

/// Waits until the history of a record contains its change by the program.
async fn expect_history(program: &mut Program, record: &Value) {
    let happened = eventually(async || {
        let happened = program.call_tool("get_record_history", json!({"object_record": record, "limit": 50})).await;
        let mut events = happened["results"].as_array().unwrap().iter();
        let is_there = events.any(|event| event["event_type"] == "field_values_changed");
        if is_there { Ok(happened) } else { Err(happened) }
    })
    .await;
    let event = &happened["results"][0];
    assert_eq!((&event["source_type"], &event["source_info"]), (&json!("mcp"), &json!("Scribe 1.2")), "{happened}");
}

/// Expects the refusal of a deletion until the connector has the right.
async fn expect_refusal_and_grant(program: &mut Program, api: &ApiClient, record: &Value) {
    // A refusal by rights is a result. The model reads the body of the API and the advice.
    let result = program.calls("delete_record", json!({"object_record": record})).await;
    assert_eq!(
        (&result["isError"], &result["structuredContent"]),
        (&json!(true), &json!({"detail": "You do not have permission to perform this action."}))
    );
    assert!(result["content"][1]["text"].as_str().unwrap().starts_with("You are not allowed to do this"), "{result}");
    let given = json!({"mcp_permissions": [{"connector": 1, "permissions": {"object_records": ["view", "delete"]}}]});
    api.patch(&format!("{SETS}1/"), given).await.ok();
    assert_eq!(program.call_tool("delete_record", json!({"object_record": record})).await, json!({"done": true}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_on_the_first_line_of_the_typescript_sdk_works() {
    let programs = node_programs();
    let refused = ("McpError", "MCP error -32602: The tool list_object_classes is not allowed.");
    let errors = [refused, ("UnauthorizedError", "Unauthorized")];
    run_program(node(&programs, "agent.mjs"), json!({"line": 1}), Value::Null, errors).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_on_the_second_line_of_the_typescript_sdk_works() {
    let programs = node_programs();
    let errors =
        [("ProtocolError", "The tool list_object_classes is not allowed."), ("UnauthorizedError", "Unauthorized")];
    for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let more = json!({"line": 2, "mode": mode});
        run_program(node(&programs, "agent.mjs"), more, json!(revision), errors).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_on_the_python_sdk_works() {
    let denied = "access_denied: The person has denied it.";
    let errors = [("MCPError", "The tool list_object_classes is not allowed."), ("RuntimeError", denied)];
    for (mode, revision, method) in
        [("auto", "2026-07-28", "client_secret_basic"), ("legacy", "2025-11-25", "client_secret_post")]
    {
        run_program(python(), json!({"mode": mode, "authMethod": method}), json!(revision), errors).await;
    }
}

/// The tests above connect to the address of the connector, which has no slash at its end.
#[tokio::test(flavor = "multi_thread")]
async fn agents_connect_by_an_address_with_a_slash_at_its_end_too() {
    let scene = Scene::on(TestServer::start_at_public_address(|_| {}).await).await;
    let person = BrowserPerson { server: &scene.server, username: "internal@example.com", decision: "allow" };
    assert!(!scene.agent.server_url.ends_with('/'));
    let address = format!("{}/", scene.agent.server_url);
    let programs = node_programs();
    for (command, more) in [
        (node(&programs, "agent.mjs"), json!({"line": 1})),
        (node(&programs, "agent.mjs"), json!({"line": 2, "mode": "auto"})),
        (python(), json!({"mode": "auto", "authMethod": "client_secret_basic"})),
    ] {
        let mut more = more;
        more["serverUrl"] = json!(address);
        let mut program = Program::start(command, &settings(&scene, more));
        let begun = program.send_command(json!({"do": "connect"}), Some(&person)).await;
        assert_eq!(begun["result"]["server"]["name"], "chancery", "{begun}");
        let tools = program.send_command(json!({"do": "list"}), None).await["result"].clone();
        assert_eq!(tools.as_array().unwrap().len(), 18, "{tools}");
    }
}

/// The commands of MCP Inspector in a page, each as its words.
fn commands(page: &str) -> Vec<Vec<String>> {
    let page = page.replace("\\\n", " ");
    let lines = page.lines().map(|line| line.trim().trim_start_matches("$ "));
    lines
        .filter_map(|line| line.strip_prefix("npx @modelcontextprotocol/inspector "))
        .map(|words| words.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_inspector_connects_as_the_documentation_says() {
    let scene = Scene::on(TestServer::start_at_public_address(|_| {}).await).await;
    let record = scene.record(json!({"title": "One"}), true).await;
    let callback = json!({"redirect_uris": ["http://127.0.0.1/oauth/callback"]});
    scene.api.patch(&format!("{INTEGRATIONS}{}/", scene.agent.integration), callback).await.ok();
    let person = BrowserPerson { server: &scene.server, username: "internal@example.com", decision: "allow" };
    let home = tempfile::tempdir().unwrap();
    let run = async |words: &[String], more: &[&str]| -> Value {
        let mut inspector = Command::new(packages().join("node_modules/.bin/mcp-inspector"));
        for word in words {
            inspector.arg(match word.as_str() {
                "<server_url>" => &scene.agent.server_url,
                "<client_id>" => &scene.agent.client_id,
                "<client_secret>" => &scene.agent.secret,
                word => word,
            });
        }
        inspector.args(["--quiet", "--format", "json"]).args(more);
        // Inspector stores its secrets in this directory. Without a browser it prints the address of the sign-in page.
        inspector.env("HOME", home.path()).env("MCP_AUTO_OPEN_ENABLED", "true");
        inspector.env("PATH", std::env::var("PATH").unwrap()).env("MCP_INSPECTOR_SECRET_STORE", "memory");
        let (succeeds, output) = run_with(&person, inspector).await;
        assert!(succeeds, "{words:?}: {output}");
        let answer: Value = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
        answer["result"].clone()
    };
    let documented = commands(include_str!("../../../../docs/agents.md"));
    assert_eq!(
        commands(include_str!("../../../../docs/tutorial.md")),
        documented[..1],
        "the tutorial has the first of them"
    );
    let [list, search] = &documented[..] else { panic!("there are other commands: {documented:?}") };
    // Tests run in parallel, so the port is any free one.
    let callback = ["--callback-url", "http://127.0.0.1:0/oauth/callback"];
    let listed = run(list, &callback).await;
    assert_eq!(listed["tools"].as_array().unwrap().len(), 18, "{listed}");
    let page = run(search, &callback).await;
    assert_eq!(page["structuredContent"]["results"][0]["id"], record, "{page}");

    // With a token in place of the client id and the secret.
    let bearer = format!("Authorization: Bearer {}", scene.tokens.access);
    let of_client = list.iter().position(|word| word == "--client-id").unwrap();
    let listed = run(&[&list[..of_client], &list[of_client + 4..]].concat(), &["--header", &bearer, "--strict"]).await;
    assert_eq!(listed["tools"].as_array().unwrap().len(), 18, "{listed}");
}
