//! The tools of a grant are those of its consent page (`docs/reference/agent-sign-in.md`).

use crate::TestServer;
use crate::dance::{ADDRESS, GrantTokens, TestAgent, decide, hidden_field, redirect_parameters, signed_in, with_agent};
use crate::set_up::CONNECTORS;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Browser, PASSWORD, Reply};

async fn offer(api: &ApiClient, tools: Value) {
    api.patch(&format!("{CONNECTORS}1/"), json!({"allowed_tools": tools})).await.ok();
}

/// The names of the tools that an agent lists.
async fn list_tools(server: &TestServer, agent: &TestAgent, tokens: &GrantTokens) -> Value {
    let list = agent.send_request(server, tokens, "tools/list", json!({})).await.ok();
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
}

/// Sends the form of the consent page, with or without these tools.
async fn allow(browser: &mut Browser, page: &Reply, tools: Option<&str>) -> Reply {
    let (request, token) = (hidden_field(page, "request"), hidden_field(page, "token"));
    let mut form = vec![("request", request.as_str()), ("token", &token), ("decision", "allow")];
    form.extend(tools.map(|tools| ("tools", tools)));
    browser.open(&format!("{ADDRESS}/oauth/authorize/consent/"), Some(&form)).await
}

#[tokio::test]
async fn a_tool_that_a_connector_gets_later_needs_a_new_consent() {
    let (server, api, agent) = with_agent().await;
    offer(&api, json!(["get_record", "list_tasks"])).await;
    let username = server.account("internal").await;
    let tokens = agent.grant(&server, &username).await;
    offer(&api, json!(["get_record", "update_record"])).await;
    // The grant loses a tool that the connector no longer offers, and gets no other tool.
    assert_eq!(list_tools(&server, &agent, &tokens).await, json!(["get_record"]));
    for revision in ["2025-06-18", "2025-03-26"] {
        let call = json!({"name": "update_record", "arguments": {"object_record": 1, "fields": {}}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
        let call = agent.message(&server, &tokens.access, &message).header("mcp-protocol-version", revision);
        let error = json!({"code": -32602, "message": "The tool update_record is not allowed."});
        assert_eq!(call.send().await.ok()["error"], error);
    }
    // A refresh adds no tools either.
    let renewed = GrantTokens::from_reply(&agent.refresh(&server, &tokens.refresh).await);
    assert_eq!(list_tools(&server, &agent, &renewed).await, json!(["get_record"]));
    // A tool that the connector offers again is in the consent.
    offer(&api, json!(["list_tasks"])).await;
    assert_eq!(list_tools(&server, &agent, &renewed).await, json!(["list_tasks"]));
    offer(&api, json!(["get_record", "update_record"])).await;
    let later_tokens = agent.grant(&server, &username).await;
    assert_eq!(list_tools(&server, &agent, &later_tokens).await, json!(["get_record", "update_record"]));
}

#[tokio::test]
async fn a_grant_has_the_tools_that_the_consent_page_showed() {
    let (server, api, agent) = with_agent().await;
    let username = server.account("internal").await;
    for (field, expected) in [
        ("as shown", json!(["get_record"])),
        // Tools that the connector does not offer are not in the consent.
        ("more", json!(["get_record", "update_record"])),
        // The page of an earlier version has no field with its tools.
        ("nothing", json!(["get_record", "update_record"])),
    ] {
        offer(&api, json!(["get_record", "list_tasks"])).await;
        let mut browser = Browser::new(&server);
        let page = signed_in(&mut browser, &agent.authorization(&[]), &username, PASSWORD).await;
        assert_eq!(hidden_field(&page, "tools"), "get_record list_tasks");
        offer(&api, json!(["get_record", "update_record"])).await;
        let reply = match field {
            "as shown" => allow(&mut browser, &page, Some(&hidden_field(&page, "tools"))).await,
            "more" => allow(&mut browser, &page, Some("get_record update_record delete_record drop_tables")).await,
            _ => allow(&mut browser, &page, None).await,
        };
        let tokens = GrantTokens::from_reply(&agent.exchange(&server, &redirect_parameters(&reply)["code"]).await);
        offer(&api, json!(["get_record", "list_tasks", "update_record", "delete_record"])).await;
        assert_eq!(list_tools(&server, &agent, &tokens).await, expected, "{field}");
    }
    // A denial counts with every value of the field.
    let mut browser = Browser::new(&server);
    let page = signed_in(&mut browser, &agent.authorization(&[]), &username, PASSWORD).await;
    assert_eq!(redirect_parameters(&decide(&mut browser, &page, "deny").await)["error"], "access_denied");
}

/// During an upgrade a process of an earlier version may begin grants without tools.
#[tokio::test]
async fn a_grant_that_a_former_version_began_has_the_tools_of_its_exchange() {
    let (server, api, agent) = with_agent().await;
    offer(&api, json!(["get_record"])).await;
    let username = server.account("internal").await;
    let code = agent.code(&mut Browser::new(&server), &username).await;
    let forget = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE sessions SET tools = NULL WHERE connector IS NOT NULL"));
    server.build.db.write::<_, StoreError>(forget).await.unwrap();
    let tokens = GrantTokens::from_reply(&agent.exchange(&server, &code).await);
    offer(&api, json!(["get_record", "update_record"])).await;
    assert_eq!(list_tools(&server, &agent, &tokens).await, json!(["get_record"]));
}
