//! Attacks on the MCP server (`docs/reference/mcp-server.md`): tokens for another purpose, invalid messages, and calls that
//! continue after the end of their agent.

use crate::TestServer;
use crate::dance::agent;
use crate::mcp::with_all_tools;
use crate::scene::{SETS, Scene};
use crate::set_up::{CONNECTORS, INTEGRATIONS, number};
use kit::caller::RouteAccess;
use kit::route::{Handler, Route, Schema};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use testkit::{DOMAIN, PASSWORD, UUID, message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

impl Scene {
    /// The scene with record 1, which the agent may view and edit.
    async fn with_record() -> Scene {
        let scene = Scene::new().await;
        scene.record(json!({"title": "Before"}), true).await;
        scene
    }

    async fn title(&self) -> Value {
        self.api.get("/api/object-records/1/").await.ok()["fields"]["title"].clone()
    }

    /// The message by which the agent changes the title of record 1.
    fn change(&self) -> Value {
        let arguments = json!({"object_record": 1, "fields": {"title": "Stolen"}});
        let params = json!({"name": "update_record", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    }
}

/// A path with 1 in place of each id and name.
fn path(route: &str) -> String {
    let part = |part: &str| match part {
        "{build_domain}" => DOMAIN.to_owned(),
        "{uuid}" => UUID.to_owned(),
        part if part.starts_with('{') => "1".to_owned(),
        part => part.to_owned(),
    };
    route.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn no_token_of_an_agent_opens_any_route_of_the_main_api() {
    let scene = Scene::with_record().await;
    // This includes the agent of a super admin, whose own token opens every route.
    let of_admin = scene.agent.grant(&scene.server, "admin@example.com").await;
    let mut tried = 0;
    for route in TestServer::table().routes() {
        let is_open = route.access == RouteAccess::Public && !route.optional_sign_in;
        if is_open || route.access == RouteAccess::ApiKey || route.own_admission.is_some() {
            continue;
        }
        for tokens in [&scene.tokens, &of_admin] {
            for (scheme, token) in [("JWT", &tokens.access), ("Bearer", &tokens.access), ("Bearer", &tokens.refresh)] {
                let client = scene.server.anonymous().with_header("authorization", &format!("{scheme} {token}"));
                let call = client.call(route.method.as_str(), &path(route.path));
                let call = match (&route.body, &route.handler) {
                    (_, Handler::Upload(..)) => call.body("application/octet-stream", "x"),
                    (Schema::Nothing, _) => call,
                    (Schema::Ids, _) => call.json(&json!([1])),
                    _ => call.json(&json!({})),
                };
                let reply = call.send().await;
                let (method, path) = (&route.method, route.path);
                if *method == http::Method::HEAD {
                    assert_eq!(reply.status, 401, "{method} {path}");
                } else {
                    assert_eq!(reply, (401, message::bad_token()), "{method} {path}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[tokio::test]
async fn no_other_token_opens_the_server_of_a_connector() {
    let scene = Scene::with_record().await;
    let (server, api) = (&scene.server, &scene.api);
    let other = agent(api, "Other").await;
    with_all_tools(api, &other).await;
    let of_other = other.grant(server, &scene.person.username).await;
    let mut tampered = scene.tokens.access.clone();
    let last = tampered.pop().unwrap();
    tampered.push(if last == 'A' { 'B' } else { 'A' });
    let foreign = server.build("b.example").await;
    let there = foreign.admin().await;
    let agent_there = agent(&there, "There").await;
    let of_there = agent_there.grant(&foreign, "admin@example.com").await;
    // The claims of one token with the signature of another.
    let parts = |token: &str| -> Vec<String> { token.split('.').map(str::to_owned).collect() };
    let (own, others) = (parts(&scene.tokens.access), parts(&of_other.access));
    let mixed = format!("{}.{}.{}", own[0], own[1], others[2]);
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", own[1]);
    let tokens = [
        ("a session", scene.person.token.clone()),
        ("a super admin", api.token.clone()),
        ("the refresh token of a session", scene.person.refresh_token.clone()),
        ("its own refresh token", scene.tokens.refresh.clone()),
        ("another connector", of_other.access.clone()),
        ("another connector's refresh token", of_other.refresh.clone()),
        ("another build", of_there.access.clone()),
        ("a session of another build", there.token.clone()),
        ("another signature", tampered),
        ("a mixture", mixed),
        ("no signature", unsigned),
        ("the secret of the client", scene.agent.secret.clone()),
        ("the key of the deployment", testkit::API_KEY.to_owned()),
    ];
    for (what, token) in tokens {
        for scheme in ["Bearer", "JWT", "Basic"] {
            let call = scene.agent.message(server, "", &scene.change());
            let reply = call.header("authorization", &format!("{scheme} {token}")).send().await;
            assert_eq!(reply.status, 401, "{scheme} {what}: {reply:?}");
            assert!(reply.header("www-authenticate").contains("resource_metadata=\"https://a.example/"), "{what}");
        }
    }
    // A token outside the header is ignored, and so is a key of the deployment beside it.
    let path = format!("/mcp/{}/?access_token={}", scene.agent.uuid, scene.tokens.access);
    let call = server.anonymous().call("POST", &path).json(&scene.change());
    let call = call.header("accept", "application/json, text/event-stream").header("x-api-key", testkit::API_KEY);
    assert_eq!(call.header("cookie", &format!("token={}", scene.tokens.access)).send().await.status, 401);
    assert_eq!(scene.title().await, "Before");
    scene.agent.message(server, &scene.tokens.access, &scene.change()).send().await.ok();
    assert_eq!(scene.title().await, "Stolen");
}

/// A message whose first half was sent. The server has admitted the agent by then.
struct HalfSentMessage {
    stream: TcpStream,
    second_half: String,
}

impl HalfSentMessage {
    async fn begin(scene: &Scene) -> HalfSentMessage {
        let body = scene.change().to_string();
        let (half, second_half) = body.split_at(body.len() / 2);
        let address: SocketAddr = scene.server.address;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /mcp/{}/ HTTP/1.1\r\nHost: {DOMAIN}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
            scene.agent.uuid,
            scene.tokens.access,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            said.push(stream.read_u8().await.unwrap());
        }
        assert!(said.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&said));
        stream.write_all(half.as_bytes()).await.unwrap();
        HalfSentMessage { stream, second_half: second_half.to_owned() }
    }

    /// Sends the second half, and returns the answer.
    async fn finish(mut self) -> String {
        let _ = self.stream.write_all(self.second_half.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = self.stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// The events that end or pause an agent, with the status of its later calls.
const ENDS: [(&str, u16); 9] = [
    ("disabled", 401),
    ("integration", 401),
    ("reset", 401),
    ("deleted", 401),
    ("revoked", 401),
    ("session", 401),
    ("deactivated", 401),
    ("elsewhere", 403),
    ("expired", 401),
];

async fn end(scene: &Scene, how: &str) {
    let (api, agent) = (&scene.api, &scene.agent);
    let (connector_path, user) = (format!("{CONNECTORS}1/"), format!("/api/users/{}/", scene.person.id));
    match how {
        "disabled" => drop(api.patch(&connector_path, json!({"is_enabled": false})).await.ok()),
        "integration" => {
            api.patch(&format!("{INTEGRATIONS}{}/", agent.integration), json!({"is_enabled": false})).await.ok();
        }
        "reset" => drop(api.post(&format!("{connector_path}reset-client-secret/"), json!({})).await.ok()),
        "deleted" => api.delete(&connector_path).await.expect_empty(),
        "revoked" => {
            let token = [("token", scene.tokens.refresh.as_str())];
            assert_eq!(agent.send(&scene.server, "/oauth/revoke", &token).await.status, 200);
        }
        "session" => {
            let grant = number(&scene.server, "SELECT id FROM sessions WHERE connector IS NOT NULL").await;
            scene.person.delete(&format!("/api/users/me/sessions/{grant}/")).await.expect_empty();
        }
        "deactivated" => drop(api.post(&format!("{user}deactivate/"), json!({})).await.ok()),
        "elsewhere" => {
            let ranges = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["203.0.113.0/24"]});
            api.patch(&user, ranges).await.ok();
        }
        _ => scene.server.advance(16 * testkit::MINUTE),
    }
}

#[tokio::test]
async fn a_call_does_not_outlive_its_agent_while_its_body_drips_in() {
    for (how, status) in ENDS {
        let scene = Scene::with_record().await;
        let half = HalfSentMessage::begin(&scene).await;
        end(&scene, how).await;
        let answer = half.finish().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{how}: {answer}");
        assert!(
            status != 401 || answer.contains("www-authenticate: Bearer error=\"invalid_token\""),
            "{how}: {answer}"
        );
        assert!(!answer.contains("\"result\""), "{how}: {answer}");
        // An executed call would have stored its event.
        let count_sql = |text: &str| format!("SELECT count(*) FROM outbox WHERE body LIKE '%{text}%'");
        let events = [
            number(&scene.server, count_sql("Before").leak()).await,
            number(&scene.server, count_sql("Stolen").leak()).await,
        ];
        assert_eq!(events, [1, 0], "{how}");
    }
    // The rights by sets and the tools also count at the end of the message.
    for what in ["sets", "tools", "classes"] {
        let scene = Scene::with_record().await;
        let half = HalfSentMessage::begin(&scene).await;
        let api = &scene.api;
        match what {
            "sets" => {
                let none = json!({"object_records": [], "tasks": []});
                let nothing = json!({"mcp_permissions": [{"connector": 1, "permissions": none}]});
                api.patch(&format!("{SETS}1/"), nothing).await.ok();
            }
            "tools" => drop(api.patch(&format!("{CONNECTORS}1/"), json!({"allowed_tools": ["get_record"]})).await.ok()),
            _ => {
                let integration_path = format!("{INTEGRATIONS}{}/", scene.agent.integration);
                api.patch(&integration_path, json!({"object_classes": []})).await.ok();
            }
        }
        let answer = half.finish().await;
        let refused = if what == "tools" { "-32602" } else { "Not found." };
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(refused), "{what}: {answer}");
        assert_eq!(scene.title().await, "Before", "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waits_does_not_outlive_its_agent() {
    for how in ["disabled", "integration", "grant", "person", "tools"] {
        let scene = Scene::with_record().await;
        // Another transaction locks the record, and ends the agent while its write waits.
        let (locked, is_locked) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let goes_on = std::sync::Mutex::new(goes_on);
        let ends = move |conn: &mut Conn| {
            conn.query_optional(&Sql::new("SELECT id FROM records WHERE id = 1 FOR UPDATE"), |_| Ok(()))?;
            conn.query_optional(&Sql::new("SELECT id FROM r1 WHERE id = 1 FOR UPDATE"), |_| Ok(()))?;
            let _ = locked.send(());
            let _ = goes_on.lock().unwrap().recv_timeout(Duration::from_secs(20));
            conn.exec(&Sql::new(match how {
                "disabled" => "UPDATE mcp_connectors SET is_enabled = 0",
                "integration" => "UPDATE integrations SET is_enabled = 0",
                "grant" => "UPDATE sessions SET ended_at = 1 WHERE connector IS NOT NULL",
                "tools" => "UPDATE mcp_connectors SET allowed_tools = '[\"get_record\"]'",
                _ => "UPDATE users SET status = 'deactivated' WHERE account_type = 'internal'",
            }))?;
            conn.exec(&Sql::new("UPDATE versions SET n = n + 1 WHERE name = 'rights'")).map(drop)
        };
        let db = scene.server.build.db.clone();
        let holder = tokio::spawn(async move { db.write::<_, StoreError>(ends).await });
        tokio::task::spawn_blocking(move || is_locked.recv().unwrap()).await.unwrap();
        let call = scene.agent.message(&scene.server, &scene.tokens.access, &scene.change());
        let call = tokio::spawn(call.send());
        // The call waits by now, or arrives after the end of its agent. Both are refused.
        tokio::time::sleep(Duration::from_millis(100)).await;
        go_on.send(()).unwrap();
        holder.await.unwrap().unwrap();
        let reply = call.await.unwrap();
        if how == "tools" {
            let error = json!({"code": -32602, "message": "The tool update_record is not allowed."});
            assert_eq!((reply.status, &reply.json["error"]), (200, &error), "{reply:?}");
            let activity = scene.api.get(&format!("{CONNECTORS}1/activity/")).await.ok();
            assert_eq!((&activity["total_count"], &activity["results"][0]["outcome"]), (&json!(1), &json!("refused")));
        } else {
            assert_eq!(reply.status, 401, "{how}: {reply:?}");
            assert!(reply.header("www-authenticate").contains("error=\"invalid_token\""), "{how}: {reply:?}");
        }
        assert_eq!(scene.title().await, "Before", "{how}");
    }
}

/// A call of a tool with these arguments.
fn with_arguments(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"search_records","arguments":{arguments}}}}}"#
    )
}

/// Bodies that no client sends, made from a valid change.
fn bodies_of_any_shape(change: &str) -> Vec<String> {
    let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    let with_id = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    vec![
        // A batch with more messages than the first revision with the header allows.
        format!("[{}{change}]", format!("{change},").repeat(20)),
        "[]".to_owned(),
        format!("{change}{change}"),
        change.replace("\"2.0\"", "\"1.0\""),
        change.replace("\"2.0\"", "2.0"),
        change.replace("\"tools/call\"", "[\"tools/call\"]"),
        change.replace("\"update_record\"", "[\"update_record\"]"),
        change.replace("\"update_record\"", "\"Update_Record\""),
        change.replace("\"update_record\"", "\"update_record \""),
        change.replace("\"update_record\"", "null"),
        change.replace("\"object_record\":1", "\"object_record\":[1]"),
        change.replace("\"object_record\":1", "\"object_record\":1.5"),
        change.replace("\"object_record\":1", "\"object_record\":\"1/../1\""),
        change.replace("\"object_record\":1", "\"object_record\":\"1/owners\""),
        change.replace("\"object_record\":1", "\"object_record\":-1"),
        change.replace("\"object_record\":1", "\"object_record\":99999999999999999999"),
        change.replace("\"fields\":{", "\"fields\":[{").replace("}}}", "}]}}"),
        with_id("[]"),
        with_id("{}"),
        with_id("true"),
        with_id("1.5"),
        with_id("-1"),
        with_id("\"\""),
        with_id(&format!("\"{}\"", "x".repeat(100_000))),
        with_id("99999999999999999999"),
        with_arguments(&deep(100)),
        with_arguments(&deep(100_000)),
        with_arguments(&format!("{{\"object_class\":1,\"filters\":{}}}", deep(120))),
        with_arguments("{\"object_class\":{},\"filters\":{\"title\":{\"a\":[null]}}}"),
        with_arguments("{\"object_class\":1,\"limit\":1e400}"),
        with_arguments("{\"object_class\":1,\"cursor\":\"9223372036854775807\"}"),
        with_arguments("{\"object_class\":1,\"search\":\"\\u0000\"}"),
        with_arguments("{\"object_class\":\"1 OR 1=1\"}"),
        with_arguments("{\"object_class\":1,\"ordering\":\"id;DROP TABLE users\"}"),
        with_arguments("{\"object_class\":1,\"filters\":{\"title&limit=100\":\"x\"}}"),
        with_arguments("{\"object_class\":1,\"fields\":[\"title\",\"title&search=x\"]}"),
        "\u{feff}{}".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".to_owned(),
    ]
}

#[tokio::test]
async fn messages_of_any_shape_are_answered_and_change_nothing() {
    let scene = Scene::with_record().await;
    let (server, change) = (&scene.server, scene.change().to_string());
    let post = |body: String| {
        let call = server.anonymous().call("POST", &format!("/mcp/{}/", scene.agent.uuid));
        let call = call.body("application/json", body).header("accept", "application/json, text/event-stream");
        call.header("authorization", &format!("Bearer {}", scene.tokens.access)).send()
    };
    for body in bodies_of_any_shape(&change) {
        let reply = post(body.clone()).await;
        assert!([200, 202, 400].contains(&reply.status), "{body:.300}: {reply:?}");
        assert!(
            reply.status == 202 || reply.json["error"].is_object() || reply.json["result"].is_object(),
            "{body:.300}: {reply:?}"
        );
        assert_ne!(reply.json["error"]["code"], -32603, "{body:.300}");
    }
    assert_eq!(scene.title().await, "Before");
    // A body above the maximum of a request.
    let reply = post(with_arguments(&format!("{{\"object_class\":\"{}\"}}", "x".repeat(3 << 20)))).await;
    assert_eq!(reply.status, 413, "{reply:?}");
    // Of a repeated key the last one counts everywhere, or the message is refused. So a filter in front of the server sees the call
    // that runs.
    let twice = change.replace("\"name\":\"update_record\"", "\"name\":\"get_record\",\"name\":\"update_record\"");
    let reply = post(twice).await;
    assert!(reply.json["error"].is_object() || scene.title().await == "Stolen", "{reply:?}");
    // A cursor adds no other parameters.
    for cursor in ["1&limit=100", "-1", "0x1", "1 ", "99999999999999999999"] {
        let arguments = json!({"object_class": 1, "cursor": cursor});
        let refused = scene.agent.expect_refusal(server, &scene.tokens, "search_records", arguments).await;
        assert_eq!(refused, json!({"cursor": ["Enter a valid value."]}), "{cursor}");
    }
}

#[tokio::test]
async fn headers_of_any_kind_are_answered() {
    let scene = Scene::with_record().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let path = format!("/mcp/{}/", scene.agent.uuid);
    let authorization = format!("Bearer {}", scene.tokens.access);
    let send = |headers: Vec<(&'static str, &'static str)>| {
        let call = scene.server.anonymous().call("POST", &path).json(&ping).header("authorization", &authorization);
        headers.into_iter().fold(call, |call, (name, value)| call.header(name, value)).send()
    };
    let takes = ("accept", "application/json, text/event-stream");
    for (headers, status) in [
        (vec![], 200),
        (vec![("accept", "text/html")], 200),
        (vec![("accept", "*/*")], 200),
        (vec![takes, ("mcp-protocol-version", "2099-01-01")], 400),
        (vec![takes, ("mcp-protocol-version", "")], 400),
        (vec![takes, ("mcp-protocol-version", "2025-06-18")], 200),
        (vec![takes, ("mcp-session-id", "another")], 200),
        (vec![takes, ("last-event-id", "1")], 200),
        (vec![takes, ("x-http-method-override", "DELETE")], 200),
    ] {
        let reply = send(headers.clone()).await;
        assert_eq!(reply.status, status, "{headers:?}: {reply:?}");
        assert_eq!(reply.header("mcp-session-id"), "", "{headers:?}");
    }
    // A page of this build in a person's browser has no token of an agent. The server ignores cookies and sessions here.
    let person = scene.person.clone().with_header("cookie", "session=1");
    let reply = person.call("POST", &path).json(&ping).header(takes.0, takes.1).send().await;
    assert_eq!(reply.status, 401);
    let session = scene.server.sign_in(&scene.person.username, PASSWORD).await;
    session.get("/api/users/me/").await.ok();
}

/// The routes below `/mcp/` have one method.
#[tokio::test]
async fn the_server_of_a_connector_has_one_route() {
    let is_mcp = |route: &&Route| route.path.starts_with("/mcp/");
    let routes: Vec<_> = TestServer::table().routes().filter(is_mcp).map(|route| route.method.as_str()).collect();
    assert_eq!(routes, ["POST"]);
    let own: Vec<_> =
        TestServer::table().routes().filter(|route| route.own_admission.is_some()).map(|of| of.path).collect();
    assert_eq!(own, ["/mcp/{uuid}/"], "another one that takes tokens of its own is a decision");
}
