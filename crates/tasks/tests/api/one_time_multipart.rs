//! Tests forms that the page never sends, and truncated bodies, for `POST /task/`.

use crate::TestServer;
use crate::multipart::{BOUNDARY, CONTENT_TYPE, TestPart, body, file, send, text};
use crate::one_time::{create_one_time_account, links, task, task_path};
use crate::set_up::{TEMPLATES, number, wait_for};
use serde_json::json;
use std::time::{Duration, Instant};
use testkit::{ApiClient, Reply, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Starts a server with a task that asks for a text and two files. Returns it with the token of the task's link.
async fn started() -> (TestServer, ApiClient, i64, String) {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let questions = json!([{"name": "a"}, {"name": "f", "type": "file"}, {"name": "g", "type": "file"}]);
    let config = json!({"task_type": "tt_form", "configuration": {"questions": questions}});
    let template = json!({"name": "Survey", "complete_by": "asap", "plugin_config": config});
    let template = api.post(TEMPLATES, template).await.id();
    let (user, address) = create_one_time_account(&server, &api).await;
    let task = task(&api, template, user).await;
    let token = links(&server, &address).await.pop().unwrap();
    (server, api, task, token)
}

async fn send_bytes(client: &ApiClient, content_type: &str, bytes: Vec<u8>) -> Reply {
    client.call("POST", "/task/").body(content_type, bytes).send().await
}

/// Returns the error text of a page.
fn alert(reply: &Reply) -> String {
    let (_, rest) = reply.text.split_once("role=\"alert\">").unwrap_or_else(|| panic!("no alert in {}", reply.text));
    rest.split("</").next().unwrap().to_owned()
}

#[tokio::test]
async fn other_bodies_are_no_form() {
    let (server, api, task, token) = started().await;
    let client = server.anonymous();
    let right = body(&[text("token", &token), text("q0", "x")]);
    for kind in [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/mixed; boundary=x",
        "multipart",
        "",
    ] {
        let reply = send_bytes(&client, kind, right.clone()).await;
        assert_eq!(
            (reply.status, alert(&reply)),
            (415, format!("Unsupported media type &quot;{kind}&quot; in request."))
        );
    }
    let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
    for kind in ["multipart/form-data", "multipart/form-data; boundary=", &long] {
        let reply = send_bytes(&client, kind, right.clone()).await;
        assert_eq!(reply.status, 400, "{kind}");
        assert!(alert(&reply).starts_with("Multipart form parse error"), "{kind}: {}", alert(&reply));
    }
    // The boundary in the body differs from the announced one.
    let reply = send_bytes(&client, "multipart/form-data; boundary=other", right.clone()).await;
    assert_eq!(reply.status, 400);
    // The content type is parsed case-insensitively, and the boundary may be quoted.
    let kind = format!("Multipart/Form-Data; charset=utf-8; boundary=\"{BOUNDARY}\"");
    assert_eq!(send_bytes(&client, &kind, right).await.status, 200);
    assert_eq!(api.get(&task_path(task)).await.ok()["response"], json!({"a": "x", "f": null, "g": null}));
}

#[tokio::test]
async fn the_token_comes_first_and_counts_once() {
    let (server, api, task, token) = started().await;
    let client = server.anonymous();
    let big = "x".repeat(100_000);
    for parts in [
        vec![],
        vec![text("q0", "x"), text("token", &token)],
        vec![file("token", "token.csv", token.as_str()), text("q0", "x")],
        vec![text("token", "wrong"), text("token", &token), text("q0", "x")],
        vec![text("Token", &token), text("q0", "x")],
        vec![text("token", &format!("{token}x")), text("q0", &big)],
        vec![text("token", &format!(" {token}")), text("q0", "x")],
    ] {
        let reply = send(&client, &parts).await;
        assert_eq!(reply.status, 400, "{parts:?}");
        assert!(alert(&reply).starts_with("This link does not work."), "{parts:?}: {}", reply.text);
    }
    assert_eq!(api.get(&task_path(task)).await.ok()["status"], "open");
    // Further tokens and unknown inputs are ignored.
    let parts = [
        text("token", &token),
        text("token", "wrong"),
        text("q9", "x"),
        text("", "y"),
        text("q0", "x"),
        file("q0", "a.csv", "b"),
    ];
    assert_eq!(send(&client, &parts).await.status, 200);
    assert_eq!(api.get(&task_path(task)).await.ok()["response"], json!({"a": "x", "f": null, "g": null}));
    assert_eq!(number(&server, "SELECT count(*) FROM files").await, 0);
}

#[tokio::test]
async fn before_the_token_is_good_no_more_is_read_than_of_other_public_bodies() {
    let (server, _, _, token) = started().await;
    let client = server.anonymous();
    let long = "x".repeat(17_000);
    for parts in [vec![text("token", &long)], vec![text(&long, &token)]] {
        let reply = send(&client, &parts).await;
        assert_eq!((reply.status, alert(&reply)), (413, "Request body is too large.".to_owned()));
    }
    let mut preamble = vec![b'x'; 17_000];
    preamble.extend(body(&[text("token", &token), text("q0", "x")]));
    assert_eq!(send_bytes(&client, CONTENT_TYPE, preamble).await.status, 413);
    let header = format!("--{BOUNDARY}\r\nX: {}", "y".repeat(100_000)).into_bytes();
    assert_eq!(send_bytes(&client, CONTENT_TYPE, header).await.status, 413);
    // The server does not read the body after a wrong token.
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let start = format!(
        "POST /task/ HTTP/1.1\r\nHost: a.example\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: 1000000\r\n\r\n\
         --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nwrong\r\n--{BOUNDARY}\r\n"
    );
    stream.write_all(start.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    let begun = Instant::now();
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 400");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn texts_files_and_parts_are_bounded() {
    let (server, api, task, token) = started().await;
    let client = server.anonymous();
    let with = |parts: Vec<TestPart>| [vec![text("token", &token)], parts].concat();
    for parts in [
        with(vec![text("q0", &"x".repeat(1_100_000))]),
        with((0..11).map(|n| text(&format!("q{n}"), &"x".repeat(100_000))).collect()),
        with((0..10_000).map(|_| text("q0", "x")).collect()),
        with(vec![text(&"x".repeat(100_000), "x")]),
        with(vec![file("q1", &"x".repeat(100_000), "x")]),
    ] {
        let reply = send(&client, &parts).await;
        assert_eq!((reply.status, alert(&reply)), (413, "Request body is too large.".to_owned()));
    }
    let many: Vec<TestPart> = (0..26).map(|n| file("q1", &format!("{n}.csv"), "x")).collect();
    let reply = send(&client, &with(many)).await;
    assert!(reply.status == 400 && reply.text.contains("Up to 25 items allowed."), "{}", reply.text);
    let large = vec![b'x'; 50 * 1024 * 1024 + 1];
    let reply = send(&client, &with(vec![file("q1", "large.csv", large), text("q0", "kept")])).await;
    assert!(reply.status == 400 && reply.text.contains("Max file size is 50.0 MB."), "{}", reply.text);
    assert!(reply.text.contains("value=\"kept\""));
    assert_eq!(api.get(&task_path(task)).await.ok()["status"], "open");
    wait_for(&server, "SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM removed_files)", 0).await;
    // A form just below the limits is accepted.
    let just = with(vec![file("q1", "a.csv", vec![b'x'; 50 * 1024 * 1024]), text("q0", &"x".repeat(1_000_000))]);
    assert_eq!(send(&client, &just).await.status, 200);
}

#[tokio::test]
async fn broken_forms_are_refused_and_leave_nothing() {
    let (server, api, task, token) = started().await;
    let client = server.anonymous();
    let part = |headers: &str, content: &str| format!("--{BOUNDARY}\r\n{headers}\r\n\r\n{content}\r\n");
    let first = part("Content-Disposition: form-data; name=\"token\"", &token);
    let end = format!("--{BOUNDARY}--\r\n");
    for (broken, status) in [
        // Parts without a name are ignored.
        (part("Content-Disposition: form-data", "x") + &end, 200),
        (part("Content-Disposition: form-data; name=", "x") + &end, 200),
        (part("Content-Disposition: form-data; name=\"q0", "x") + &end, 200),
        (part("Content-Disposition: form-data; name=\"q1\"; filename=\"\\\"", "x") + &end, 200),
        (part("Content-Type: text/html", "x") + &end, 200),
        (part("no header", "x") + &end, 400),
        (part(&"X: y\r\n".repeat(40), "x") + &end, 400),
        (part("X\0: y", "x") + &end, 400),
        // The body is truncated.
        (String::new(), 400),
        (part("Content-Disposition: form-data; name=\"q0\"", "x"), 400),
        (
            format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"q1\"; filename=\"a.csv\"\r\n\r\nhalf a file"
            ),
            400,
        ),
        (format!("--{BOUNDARY}"), 400),
        (format!("--{BOUNDARY}\r\n"), 400),
        (format!("--{BOUNDARY}garbage\r\n\r\n"), 400),
    ] {
        let reply = send_bytes(&client, CONTENT_TYPE, (first.clone() + &broken).into_bytes()).await;
        assert_eq!(reply.status, status, "{broken:?}: {}", reply.text);
        if status == 200 {
            crate::one_time::call_action(&api, task, "reopen", json!({})).await.ok();
            let token_now = server.mails().await.last().unwrap().token();
            // The next round needs the same link.
            return_link(&server, &token_now, &token).await;
        }
    }
    assert_eq!(api.get(&task_path(task)).await.ok()["status"], "open");
    wait_for(&server, "SELECT count(*) FROM files", 0).await;
}

/// Replaces the token of a link by another one that the test has.
async fn return_link(server: &TestServer, token: &str, known: &str) {
    let (old, new) = (web::clock::sha256_hex(token), web::clock::sha256_hex(known));
    let run = move |conn: &mut store::Conn| {
        let sql = store::Sql::new("UPDATE task_links SET hash = $1 WHERE hash = $2");
        conn.exec(&sql.arg(new.as_str()).arg(old.as_str())).map(drop)
    };
    server.build.db.write::<(), store::StoreError>(run).await.unwrap();
}

#[tokio::test]
async fn a_link_that_ends_while_its_form_arrives_completes_nothing() {
    let (server, api, task, token) = started().await;
    let whole = body(&[text("token", &token), text("q0", "x"), file("q1", "a.csv", "a"), file("q2", "b.csv", "b")]);
    let text_of = String::from_utf8(whole.clone()).unwrap();
    let second_file = text_of.find("b.csv").unwrap();
    for (at, is_file_left) in [(second_file, true), (whole.len() - 4, false)] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST /task/ HTTP/1.1\r\nHost: a.example\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            whole.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&whole[..at]).await.unwrap();
        // The first file has arrived.
        eventually(async || number(&server, "SELECT count(*) FROM files WHERE token IS NOT NULL").await > 0).await;
        if is_file_left {
            crate::one_time::call_action(&api, task, "send-link", json!({})).await.expect_empty();
        } else {
            api.patch(&task_path(task), json!({"assignees": []})).await.ok();
        }
        stream.write_all(&whole[at..]).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("This link does not work."), "{answer}");
        assert_eq!(api.get(&task_path(task)).await.ok()["status"], "open");
        let new = server.mails().await.last().unwrap().token();
        return_link(&server, &new, &token).await;
    }
    assert_eq!(number(&server, "SELECT count(*) FROM files WHERE token IS NOT NULL AND kept_until > 0").await, 0);
}
