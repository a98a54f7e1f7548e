//! Messages of the protocol (`docs/reference/mcp-server.md`): invalid messages, invalid calls, batches, revisions, and `Accept`.

use crate::scene::Scene;
use crate::set_up::CONNECTORS;
use serde_json::{Value, json};
use testkit::{PASSWORD, Reply};

impl Scene {
    /// The answer to a body with these headers. The body is JSON unless they say otherwise.
    async fn send(&self, body: &str, headers: &[(&'static str, &'static str)]) -> Reply {
        let content_type =
            headers.iter().find(|(name, _)| *name == "content-type").map_or("application/json", |of| of.1);
        let path = format!("/mcp/{}", self.agent.uuid);
        let call = self.server.anonymous().call("POST", &path).body(content_type, body.to_owned());
        let call = call.header("authorization", &format!("Bearer {}", self.tokens.access));
        let others = headers.iter().filter(|(name, _)| *name != "content-type");
        others.fold(call, |call, (name, value)| call.header(name, value)).send().await
    }

    /// The status, the id and the error code of the answer to a body in a revision.
    async fn error(&self, body: &str, revision: &'static str) -> (u16, Value, i64) {
        let reply = self.send(body, &[("mcp-protocol-version", revision)]).await;
        assert_eq!(reply.header("content-type"), "application/json", "{body}: {reply:?}");
        assert_eq!(reply.json["jsonrpc"], "2.0", "{body}: {reply:?}");
        assert!(reply.json["error"]["message"].is_string(), "{body}: {reply:?}");
        (reply.status, reply.json["id"].clone(), reply.json["error"]["code"].as_i64().unwrap())
    }
}

#[tokio::test]
async fn invalid_messages_get_protocol_errors() {
    let scene = Scene::new().await;
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(70_000));
    let wide = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":[{}0]}}}}"#, "0,".repeat(1_000));
    for (body, status, id, code) in [
        ("", 400, json!(null), -32600),
        ("{", 400, json!(null), -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}{}", 400, json!(null), -32700),
        ("[]", 400, json!(null), -32600),
        ("\"x\"", 400, json!(null), -32600),
        ("1", 400, json!(null), -32600),
        ("null", 400, json!(null), -32600),
        ("{}", 400, json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, json!(1), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, 400, json!(1), -32600),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, 400, json!("a"), -32600),
        (r#"{"id":1,"method":"ping"}"#, 400, json!(1), -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#, 400, json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#, 400, json!(null), -32600),
        (&long, 400, json!(null), -32600),
        (&wide, 400, json!(null), -32600),
    ] {
        assert_eq!(scene.error(body, "2025-06-18").await, (status, id, code), "{body:.200}");
    }
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(scene.send(ping, &[("content-type", "text/plain")]).await.status, 415);
    assert_eq!(scene.error(ping, "1999-01-01").await, (400, json!(1), -32600));
    // An answer to a request, though this server sends no requests, and a notification.
    let answer = scene.send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, &[]).await;
    assert_eq!((answer.status, &answer.json["error"]["code"]), (400, &json!(-32600)), "{answer:?}");
    let notified = scene.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await;
    assert_eq!((notified.status, notified.text.as_str()), (202, ""));
}

#[tokio::test]
async fn wrong_calls_are_answered_with_32602() {
    let scene = Scene::new().await;
    let request = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"call","method":"{method}","params":{params}}}"#)
    };
    for (method, params) in [
        ("tools/call", "[]"),
        ("tools/call", "\"get_record\""),
        ("tools/call", "null"),
        ("tools/call", "{}"),
        ("tools/call", r#"{"arguments":{}}"#),
        ("tools/call", r#"{"name":null}"#),
        ("tools/call", r#"{"name":["get_record"]}"#),
        ("tools/call", r#"{"name":"get_record","arguments":[]}"#),
        ("tools/call", r#"{"name":"get_record","arguments":"{}"}"#),
        ("tools/call", r#"{"name":"get_record","arguments":1}"#),
        ("tools/call", r#"{"name":"drop_tables","arguments":{}}"#),
        ("tools/list", "[]"),
        ("tools/list", r#"{"cursor":1}"#),
        ("tools/list", r#"{"cursor":"x"}"#),
        ("prompts/get", "{}"),
        ("prompts/get", r#"{"name":"x"}"#),
        ("resources/read", "{}"),
        ("initialize", "{}"),
        ("initialize", r#"{"protocolVersion":1,"capabilities":{},"clientInfo":{"name":"a","version":"1"}}"#),
    ] {
        let error = scene.error(&request(method, params), "2025-06-18").await;
        assert_eq!(error, (200, json!("call"), -32602), "{method} {params}");
    }
    let without = r#"{"jsonrpc":"2.0","id":"call","method":"tools/call"}"#;
    assert_eq!(scene.error(without, "2025-06-18").await, (200, json!("call"), -32602));
    // Revisions before 2026-07-28 have a separate code for this.
    let resource = request("resources/read", r#"{"uri":"record://order/1"}"#);
    assert_eq!(scene.error(&resource, "2025-06-18").await, (200, json!("call"), -32002));
    // An unknown method.
    assert_eq!(scene.error(&request("tools/drop", "{}"), "2025-06-18").await, (200, json!("call"), -32601));
    // A null is the same as missing arguments.
    for arguments in ["", r#","arguments":{}"#, r#","arguments":null"#] {
        let call = request("tools/call", &format!(r#"{{"name":"list_object_classes"{arguments}}}"#));
        let result = scene.send(&call, &[("mcp-protocol-version", "2025-06-18")]).await.ok()["result"].clone();
        assert_eq!(result["structuredContent"]["total_count"], 1, "{arguments}");
    }
    // A refusal of the tool is a result, which a model reads.
    let call = request("tools/call", r#"{"name":"get_record","arguments":{"object_record":"x"}}"#);
    let result = scene.send(&call, &[("mcp-protocol-version", "2025-06-18")]).await.ok()["result"].clone();
    assert_eq!(
        (&result["isError"], &result["structuredContent"]),
        (&json!(true), &json!({"object_record": ["A valid integer is required."]}))
    );
}

#[tokio::test]
async fn whatever_a_client_takes_it_is_answered_with_json() {
    let scene = Scene::new().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_object_classes"}}"#;
    for accept in
        ["*/*", "application/json", "text/event-stream", "text/html", "application/json, text/event-stream", ""]
    {
        for body in [ping, call] {
            for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
                let headers = [("accept", accept), ("mcp-protocol-version", revision)];
                let reply = scene.send(body, &headers[usize::from(accept.is_empty())..]).await;
                assert_eq!(
                    (reply.status, reply.header("content-type")),
                    (200, "application/json"),
                    "{accept}: {reply:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn revisions_before_2025_03_26_are_refused() {
    let scene = Scene::new().await;
    let begin = |revision: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "Scribe", "version": "1.2"},
        }})
        .to_string()
    };
    let supported = json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
    let data = json!({"requested": "2024-11-05", "supported": supported});
    let refused = scene.send(&begin("2024-11-05"), &[]).await;
    let error = json!({"code": -32602, "message": "Unsupported protocol version", "data": data});
    refused.expect_reply(200, json!({"jsonrpc": "2.0", "id": 1, "error": error}));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let refused = scene.send(ping, &[("mcp-protocol-version", "2024-11-05")]).await;
    let error = json!({"code": -32600, "message": "Unsupported protocol version", "data": data});
    refused.expect_reply(400, json!({"jsonrpc": "2.0", "id": null, "error": error}));
    for (asked, answered) in [("2025-03-26", "2025-03-26"), ("2025-11-25", "2025-11-25"), ("2099-01-01", "2025-11-25")]
    {
        let begun = scene.send(&begin(asked), &[]).await.ok();
        assert_eq!(begun["result"]["protocolVersion"], answered, "{begun}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order_where_its_revision_has_batches() {
    let scene = Scene::new().await;
    let request =
        |id: i64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let list = json!({"name": "list_object_classes", "arguments": {}});
    let begin =
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "A", "version": "1"}});
    let batch = json!([
        request(1, "ping", json!({})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "tools/call", list.clone()),
        request(3, "initialize", begin),
        request(4, "tools/call", json!({"name": "drop_tables"})),
        {"jsonrpc": "2.0", "id": 5},
        7,
        request(6, "tools/list", json!({})),
    ]);
    for headers in [&[][..], &[("mcp-protocol-version", "2025-03-26")]] {
        let reply = scene.send(&batch.to_string(), headers).await;
        let answers = reply.ok().as_array().unwrap().clone();
        let outcomes: Vec<Value> = answers
            .iter()
            .map(|answer| json!([answer["id"], answer["error"]["code"], answer["result"].is_object()]))
            .collect();
        assert_eq!(
            json!(outcomes),
            json!([
                [1, null, true],
                [2, null, true],
                [3, -32600, false],
                [4, -32602, false],
                [5, -32600, false],
                [null, -32600, false],
                [6, null, true],
            ])
        );
        assert_eq!(answers[1]["result"]["structuredContent"]["total_count"], 1);
        assert_eq!(answers[6]["result"]["tools"].as_array().unwrap().len(), 18);
    }
    let notifications = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    let reply = scene.send(&notifications.to_string(), &[]).await;
    assert_eq!((reply.status, reply.text.as_str()), (202, ""));

    let pings = |count: i64| json!((0..count).map(|id| request(id, "ping", json!({}))).collect::<Vec<_>>()).to_string();
    assert_eq!(scene.send(&pings(20), &[]).await.ok().as_array().unwrap().len(), 20);
    for (body, revision) in [
        (pings(21), "2025-03-26"),
        ("[]".to_owned(), "2025-03-26"),
        (pings(1), "2025-06-18"),
        (pings(1), "2025-11-25"),
        (pings(1), "2026-07-28"),
    ] {
        assert_eq!(scene.error(&body, revision).await, (400, json!(null), -32600), "{revision}: {body}");
    }
    // The bounds of one message apply to the whole batch.
    let half = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(40_000));
    assert_eq!(scene.send(&format!("[{half}]"), &[]).await.status, 200);
    assert_eq!(scene.error(&format!("[{half},{half}]"), "2025-03-26").await, (400, json!(null), -32600));
}

#[tokio::test]
async fn a_grant_calls_tools_600_times_a_minute() {
    let scene = Scene::new().await;
    let revision = [("mcp-protocol-version", "2025-03-26")];
    let call = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "list_object_classes"}});
    let batch = json!((0..20).map(call).collect::<Vec<_>>()).to_string();
    for _ in 0..29 {
        assert_eq!(scene.send(&batch, &revision).await.status, 200);
    }
    // Both ways through the server count.
    for revision in ["2025-06-18", "2025-03-26"] {
        for id in 0..9 {
            scene.send(&call(id).to_string(), &[("mcp-protocol-version", revision)]).await.ok();
        }
    }
    // Two calls are left, and a batch runs as a whole or not at all.
    let three = json!([call(1), call(2), call(3)]).to_string();
    let too_many =
        |id: Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "Too many requests."}});
    let refused = scene.send(&three, &revision).await;
    assert_eq!((refused.status, &refused.json, refused.header("retry-after")), (429, &too_many(json!(null)), "60"));
    assert_eq!(refused.header("ratelimit-policy"), r#""tool-calls";q=600;w=60"#);
    assert_eq!(refused.header("ratelimit"), r#""tool-calls";r=2;t=60"#);
    scene.send(&json!([call(1), call(2)]).to_string(), &revision).await.ok();
    scene.server.advance(testkit::SECOND);
    for revision in ["2025-06-18", "2025-03-26"] {
        let refused = scene.send(&call(7).to_string(), &[("mcp-protocol-version", revision)]).await;
        assert_eq!((refused.status, &refused.json, refused.header("retry-after")), (429, &too_many(json!(7)), "59"));
    }
    // Only calls of tools count, and other grants continue.
    scene.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, &revision).await.ok();
    let other = scene.agent.grant(&scene.server, "internal@example.com").await;
    scene.agent.run(&scene.server, &other, "list_object_classes", json!({})).await;
    // Refused calls have no line. The calls of the first minute are one line, since they are equal.
    let activity = scene.api.get(&format!("{CONNECTORS}1/activity/?ordering=at")).await.ok();
    let counts: Vec<&Value> = activity["results"].as_array().unwrap().iter().map(|line| &line["count"]).collect();
    assert_eq!(counts.iter().map(|count| count.as_i64().unwrap()).sum::<i64>(), 601, "{activity:#}");
    scene.server.advance(59 * testkit::SECOND);
    scene.send(&call(8).to_string(), &revision).await.ok();
    // The grant stays valid.
    assert!(scene.server.sign_in("internal@example.com", PASSWORD).await.get("/api/users/me/").await.status == 200);
}
