//! The bounds of bodies: bytes, depth, values and types, for anonymous and for signed-in callers (`docs/reference/conventions.md`).
//! `reliability/bodies` measures the memory.

use crate::TestServer;
use crate::message;
use http::Method;
use platform::kit::caller::RouteAccess;
use platform::kit::html::escape;
use platform::kit::route::{Route, Schema};
use platform::table;
use serde_json::json;
use testkit::Reply;

const JSON: &str = "application/json";

fn public_posts() -> Vec<&'static Route> {
    let is_public_post = |route: &&Route| route.access == RouteAccess::Public && route.method == Method::POST;
    table().routes().filter(is_public_post).collect()
}

/// Checks that a refusal has this detail, as a page if the route answers with pages.
#[track_caller]
pub fn expect_refusal(route: &Route, reply: &Reply, status: u16, detail: &str) {
    if route.answers_pages() {
        let told = format!("<h1>Not possible</h1><p role=\"alert\">{}</p>", escape(detail));
        assert!(reply.status == status && reply.text.contains(&told), "{}: {reply:?}", route.path);
    } else {
        reply.expect_reply(status, message::detail(detail));
    }
}

/// Returns `[[[…]]]` with this number of levels.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[tokio::test]
async fn a_stranger_sends_16_kib_of_at_most_1000_values() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 0).await;
    let stranger = server.anonymous();
    for route in public_posts() {
        let post = |body: String| stranger.call("POST", route.path).body(JSON, body).send();
        if matches!(route.body, Schema::Multipart(_)) {
            // A form that is read as a stream, within the same bound until its token is validated:
            // `tests/api/one_time_multipart.rs` of `tasks`.
            let detail = "Unsupported media type \"application/json\" in request.";
            expect_refusal(route, &post("{}".to_owned()).await, 415, detail);
            continue;
        }
        let padded = |bytes: usize| format!("{{\"pad\": \"{}\"}}", "x".repeat(bytes - 11));
        expect_refusal(route, &post(padded(16 * 1024 + 1)).await, 413, "Request body is too large.");
        assert_ne!(post(padded(16 * 1024)).await.status, 413, "{}", route.path);
        let list = |values: usize| format!("{{\"pad\": [{}]}}", vec!["0"; values - 2].join(","));
        expect_refusal(route, &post(list(1001)).await, 400, "JSON parse error - too many values.");
        assert!(!post(list(1000)).await.text.contains("too many values."), "{}", route.path);
        expect_refusal(route, &post(nested(101)).await, 400, "JSON parse error - too deep.");
    }
}

#[tokio::test]
async fn signed_in_callers_may_send_2_mib_of_values_100_deep() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let post = |body: String| admin.call("POST", "/api/roles/").body(JSON, body).send();

    post(nested(101)).await.refuses(message::detail("JSON parse error - too deep."));
    post(format!("{{\"name\": \"a\", \"pad\": {}}}", nested(99))).await.expect_created();
    post(nested(100_000)).await.refuses(message::detail("JSON parse error - too deep."));
    // Undeclared members are read at low cost. A declared member reports its expected type.
    for (name, pad) in [("b", "[[0],[0],[0],[0]]"), ("c", "[0,0,0,0,0,0,0,0]"), ("d", "{\"\":0,\"\":{}}   ")] {
        let many = vec![pad; 100_000].join(",");
        post(format!("{{\"name\": \"{name}\", \"pad\": [{many}]}}")).await.expect_created();
        let reply = post(format!("{{\"name\": [{many}], \"description\": \"\\n\", \"name\": \"{name}\"}}")).await;
        reply.refuses(json!({"name": ["This field must be unique."]}));
        let reply = post(format!("{{\"name\": \"x{name}\", \"permissions\": {{\"users\": [{many}]}}}}")).await;
        reply.refuses(json!({"permissions": ["Value is too large."]}));
    }
    let reply =
        admin.call("POST", "/api/user-groups/1/members/users/").body(JSON, format!("[{}1]", "1,".repeat(900_000)));
    assert_eq!(reply.send().await.status, 404);
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let server = TestServer::start().await;
    let large = |depth: usize| format!("{}{}", " ".repeat(2 * 1024 * 1024), nested(depth));
    let call = |token: &str| server.anonymous().with_token(token).call("POST", "/api/roles/").body(JSON, large(101));
    call("garbage").send().await.expect_reply(401, message::bad_token());
    call(&server.as_type("external").await.token).send().await.expect_reply(403, message::forbidden());
    let admin = server.admin().await;
    call(&admin.token).send().await.expect_reply(413, message::detail("Request body is too large."));
    admin.patch("/api/roles/9/", json!({})).await.expect_reply(404, message::not_found());
    let broken = admin.call("PATCH", "/api/roles/9/").body(JSON, nested(101)).send().await;
    broken.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_public_body_is_json_or_what_the_page_sends() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 0).await;
    let stranger = server.anonymous();
    for route in public_posts() {
        for kind in ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"] {
            let reply = stranger.call("POST", route.path).body(kind, "username=x&id=1").send().await;
            let is_form = match route.body {
                Schema::Form(_) => kind.ends_with("urlencoded"),
                Schema::Multipart(_) => kind.starts_with("multipart"),
                _ => false,
            };
            if is_form {
                assert_ne!(reply.status, 415, "{} {kind}: {reply:?}", route.path);
            } else {
                expect_refusal(route, &reply, 415, &format!("Unsupported media type \"{kind}\" in request."));
            }
        }
        let untyped = raw::post(&server, route.path, "", "{\"username\": \"x\"}").await;
        assert!(untyped.starts_with("HTTP/1.1 415 "), "{}: {untyped}", route.path);
        let none = raw::post(&server, route.path, "", "").await;
        assert!(!none.starts_with("HTTP/1.1 415 "), "no body needs no type: {}: {none}", route.path);
    }
}

/// Requests that HTTP libraries do not send.
pub mod raw {
    use crate::TestServer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// Returns the answer to these bytes.
    pub async fn send(server: &TestServer, text: &str) -> String {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a POST with these header lines, each with its line end.
    pub async fn post(server: &TestServer, path: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: {length}\r\n");
        send(server, &format!("{head}{headers}\r\n{body}")).await
    }
}
