//! Memory stays bounded for any body, and other callers are served (security, promise "resources stay bounded").
//! `reliability/bodies` sends 200 bodies at once of each shape to a release build.

use crate::BINARY;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, Reply, parameters};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The maximum size of a body of the main API.
const LARGEST: usize = 2 * 1024 * 1024;
/// The maximum growth of memory in MiB.
const GROWTH: u64 = 256;
/// The maximum time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The targets of bodies. `true` means that a signed-in user sends them.
const TARGETS: [(&str, &str, bool); 7] = [
    ("POST", "/api/auth/login/", false),
    ("POST", "/api/auth/password-reset/", false),
    // An anonymous caller gets 401 before sending a body.
    ("POST", "/api/users/", false),
    ("PATCH", "/api/users/me/", true),
    ("POST", "/api/roles/", true),
    ("POST", "/api/object-classes/1/object-records/", true),
    ("POST", "/api/object-classes/1/object-records/batch/", true),
];

/// The headers of an agent's message, beside its token, for the revision with batches, for a later one, and for the newest.
const OF_MESSAGES: [&str; 3] = [
    "MCP-Protocol-Version: 2025-03-26\r\n",
    "MCP-Protocol-Version: 2025-06-18\r\n",
    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: update_record\r\n",
];

/// Returns the names and bodies of all shapes. Each body is slightly below the limit.
fn shapes() -> Vec<(&'static str, Vec<u8>)> {
    let repeated = |begin: &str, part: &str, end: &str| {
        let count = (LARGEST - begin.len() - end.len()) / part.len();
        [begin, part.repeat(count).trim_end_matches(','), end].concat().into_bytes()
    };
    let deep = |open: &str, middle: &str, close: &str| {
        let count = (LARGEST - middle.len()) / (open.len() + close.len());
        [open.repeat(count), middle.to_owned(), close.repeat(count)].concat().into_bytes()
    };
    let keys: String = (0..).map(|n| format!("\"{n:x}\":0,")).take(160_000).collect();
    vec![
        ("lists in a list", repeated("[", "[0],", "]")),
        ("numbers in a list", repeated("[", "0,", "]")),
        ("objects in a list", repeated("[", "{},", "]")),
        ("numbers in a field", repeated("{\"permissions\":[", "0,", "]}")),
        ("deep lists", deep("[", "", "]")),
        ("deep objects", deep("{\"a\":", "0", "}")),
        ("escapes in a text", repeated("{\"first_name\":\"", "\\u0041", "\"}")),
        ("numbers in a field of a record", repeated("{\"fields\":{\"kinds\":[", "0,", "]}}")),
        ("escapes in a field of a record", repeated("{\"fields\":{\"title\":\"", "\\u0041", "\"}}")),
        ("unknown fields of a record", format!("{{\"fields\":{{{}}}}}", keys.trim_end_matches(',')).into_bytes()),
        (
            "arguments of a tool",
            repeated(&format!("{}{{\"object_record\":1,\"fields\":{{\"title\":[", CALL), "[0],", "]}}}}"),
        ),
        ("arguments that no tool takes", repeated(&format!("{}{{\"x\":[", CALL), "{},", "]}}}")),
        ("around the arguments of a tool", repeated(&format!("{}{{}},\"_meta\":{{\"x\":[", CALL), "[0],", "]}}}")),
        ("many records", repeated("{\"items\":[", "{},", "]}")),
        ("many keys", format!("{{{}}}", keys.trim_end_matches(',')).into_bytes()),
        ("no JSON", vec![b'{'; LARGEST]),
    ]
}

/// The beginning of a call of a tool.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"update_record","arguments":"#;

/// Returns the value of a hidden field of a page. Only `&` is escaped in it.
fn hidden_field(page: &Reply, name: &str) -> String {
    let rest = page.text.split_once(&format!("<input name=\"{name}\" type=\"hidden\" value=\"")).unwrap().1;
    rest.split_once('"').unwrap().0.replace("&amp;", "&")
}

/// Returns the path of a connector's server, and the token of a super admin's agent.
pub async fn agent(process: &Process, admin: &ApiClient) -> (String, String) {
    const CALLBACK: &str = "https://agent.example/callback";
    // A verifier and its challenge (RFC 7636).
    const VERIFIER: &str = "a-verifier-of-43-characters-at-least-0123456789";
    const CHALLENGE: &str = "OxMXhuY6OY0ynrxoYA9X_dVrrN-jG5wV3XHj98ltTyY";
    let integration = json!({"type": "ai_mcp", "name": "Agents", "is_enabled": true, "redirect_uris": [CALLBACK]});
    let integration = admin.post("/api/integrations/", integration).await.expect_created()["uuid"].clone();
    let connector = json!({"name": "Assistant", "integration": integration, "allowed_tools": ["update_record"]});
    let made = admin.post("/api/mcp/connectors/", connector).await.expect_created();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let client = process.client("localhost");
    let cookie = |reply: &Reply| reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let send = async |path: &str, page: &Reply, cookie: &str, more: &[(&str, &str)]| {
        let (request, token) = (hidden_field(page, "request"), hidden_field(page, "token"));
        let form = [&[("request", request.as_str()), ("token", &token)], more].concat();
        client.call("POST", path).header("cookie", cookie).form(&form).send().await
    };
    let query = format!(
        "client_id={}&redirect_uri=https%3A%2F%2Fagent.example%2Fcallback&response_type=code&code_challenge={CHALLENGE}\
         &code_challenge_method=S256",
        text("client_id")
    );
    let page = client.get(&format!("/oauth/authorize?{query}")).await;
    let person = [("username", ADMIN), ("password", PASSWORD)];
    let led = send("/oauth/authorize/sign-in/", &page, &cookie(&page), &person).await;
    let cookie = cookie(&led);
    let page = client.call("GET", led.header("location")).header("cookie", &cookie).send().await;
    let told = send("/oauth/authorize/consent/", &page, &cookie, &[("decision", "allow")]).await;
    let code = parameters(told.header("location"))["code"].clone();
    let form = [
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
        ("client_id", &text("client_id")),
        ("client_secret", &text("client_secret")),
    ];
    let tokens = client.call("POST", "/oauth/token").form(&form).send().await.ok();
    let path = format!("/mcp/{}", text("server_url").split_once("/mcp/").unwrap().1);
    (path, tokens["access_token"].as_str().unwrap().to_owned())
}

/// Returns the heads of the requests for a body, without its length.
fn request_heads(caller: &ApiClient, (path, token): &(String, String)) -> Vec<String> {
    let head = |method: &str, path: &str, more: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}")
    };
    let authorization = format!("Authorization: JWT {}\r\n", caller.token);
    let of_api =
        TARGETS.map(|(method, path, is_signed_in)| head(method, path, if is_signed_in { &authorization } else { "" }));
    let of_agents = OF_MESSAGES.map(|headers| {
        let accept = "Accept: application/json, text/event-stream\r\n";
        head("POST", path, &format!("{accept}{headers}Authorization: Bearer {token}\r\n"))
    });
    of_api.into_iter().chain(of_agents).collect()
}

/// Sends a head and a body and waits for an answer within the time. Returns the status, or 0 if the connection was closed without
/// one.
async fn send(address: SocketAddr, head: Arc<String>, body: Arc<Vec<u8>>, patience: Duration) -> u16 {
    let Ok(mut stream) = TcpStream::connect(address).await else { return 0 };
    let mut answer = [0; 12];
    let exchange = async {
        // After an early refusal, the connection can be closed.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(&body).await;
        let _ = stream.read_exact(&mut answer).await;
    };
    let _ = tokio::time::timeout(patience, exchange).await;
    std::str::from_utf8(&answer).ok().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.parse().ok()).unwrap_or(0)
}

/// Sends ordinary calls, one after the other, until `done`. Returns their times.
pub async fn honest(client: ApiClient, done: watch::Receiver<bool>) -> Vec<Duration> {
    let mut times = Vec::new();
    while !*done.borrow() {
        for method in ["GET", "PATCH"] {
            let call = client.call(method, "/api/users/me/");
            let call = if method == "GET" { call } else { call.json(&json!({"phone": "1"})) };
            let begun = Instant::now();
            call.send().await.ok();
            times.push(begun.elapsed());
        }
        // A client pauses between its calls.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    times
}

/// The results for the bodies of one shape.
struct ShapeResult {
    honest: Vec<Duration>,
    /// The number of answers with each status.
    statuses: BTreeMap<u16, usize>,
}

/// Sends a number of bodies to each target. Without `held`, whole bodies go to one target after the other. With `held`, halves go
/// to all targets at once for that time, and the other halves never follow.
async fn attack(
    process: &Process,
    (caller, heads): (&ApiClient, &[String]),
    count: usize,
    body: Vec<u8>,
    hold_time: Option<Duration>,
) -> ShapeResult {
    let (tell, done) = watch::channel(false);
    let honest = tokio::spawn(honest(caller.clone(), done));
    let body = Arc::new(body);
    let length = if hold_time.is_some() { 2 * body.len() } else { body.len() };
    let mut statuses = BTreeMap::new();
    let mut sending = JoinSet::new();
    for head in heads {
        let head = Arc::new(format!("{head}Content-Length: {length}\r\n\r\n"));
        for _ in 0..count {
            sending.spawn(send(process.api(), head.clone(), body.clone(), hold_time.unwrap_or(PATIENCE)));
        }
        while hold_time.is_none()
            && let Some(status) = sending.join_next().await
        {
            *statuses.entry(status.unwrap()).or_insert(0) += 1;
        }
    }
    for status in sending.join_all().await {
        *statuses.entry(status).or_insert(0) += 1;
    }
    tell.send_replace(true);
    ShapeResult { honest: honest.await.unwrap(), statuses }
}

async fn attack_with_each_shape(count: usize, hold_time: Duration) -> (u64, Vec<Duration>) {
    let installation = Installation::with_build(BINARY).set("CHANCERY_ADDRESS_ATTEMPTS", "0");
    let process = installation.serve();
    let caller = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    caller.patch("/api/users/me/", json!({"phone": "1"})).await.ok();
    caller.post("/api/object-classes/", json!({"name": "Class"})).await.expect_created();
    let options = json!([{"value": "a", "text": "A"}]);
    for field in
        [json!({"label": "Title", "type": "text"}), json!({"label": "Kinds", "type": "set", "options": options})]
    {
        caller.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    let heads = request_heads(&caller, &agent(&process, &caller).await);
    let before = process.peak_memory();
    let mut times = Vec::new();
    let shapes = shapes().into_iter().map(|(shape, body)| (shape, body, None));
    let halves = [("half of a body", vec![b' '; LARGEST / 2], Some(hold_time))];
    for (shape, body, hold_time) in shapes.chain(halves) {
        let mut result = attack(&process, (&caller, &heads), count, body, hold_time).await;
        result.honest.sort();
        println!(
            "{count} at once, {shape}: {:?}; memory has grown by {} MiB so far; {} honest calls, p99 {:.1} ms",
            result.statuses,
            process.peak_memory() - before,
            result.honest.len(),
            p99(&result.honest).as_secs_f64() * 1000.0
        );
        let is_fault = |status: &&u16| **status >= 500 && **status != 503;
        assert!(!result.statuses.keys().any(|status| is_fault(&status)), "{shape}: {:?}", result.statuses);
        assert!(
            process.peak_memory() - before <= GROWTH,
            "{shape}: memory grew by {} MiB",
            process.peak_memory() - before
        );
        times.extend(result.honest);
    }
    caller.get("/api/users/me/").await.ok();
    times.sort();
    (process.peak_memory() - before, times)
}

pub fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_shape_of_a_body_takes_much_memory() {
    attack_with_each_shape(3, Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is timed: reliability/bodies"]
async fn two_hundred_bodies_of_any_shape_disturb_nobody() {
    let (growth, times) = attack_with_each_shape(200, Duration::from_secs(8)).await;
    println!(
        "{} honest calls, p99 {:.1} ms; memory grew by {growth} MiB",
        times.len(),
        p99(&times).as_secs_f64() * 1000.0
    );
    assert!(p99(&times) <= Duration::from_millis(250));
}
