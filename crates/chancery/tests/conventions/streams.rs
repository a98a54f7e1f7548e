//! Streamed bodies over routes of the tests: uploads that handlers read, and answers that are produced while they are sent.
//! `streams_memory.rs` measures their memory.

use crate::TestServer;
use crate::message;
use http::Method;
use platform::kit::answer::{Answer, Outcome};
use platform::kit::answer_cache::AnswerCache;
use platform::kit::commit;
use platform::kit::openapi;
use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use platform::kit::route::{Handler, HandlerFuture, Route, Schema};
use platform::kit::serve;
use platform::kit::table::Table;
use platform::kit::upload::{Chunks, Upload, UploadError};
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, TestBuild};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use web::listener::{self, Limits};

const UPLOAD: &str = "/api/test/uploads/";
const MIB: usize = 1024 * 1024;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let get =
        |path, handler| Route::new(Method::GET, path, "", Handler::NoDatabase(handler)).answers(200, Schema::Binary);
    Table::new(vec![
        Route::upload(UPLOAD, 50 * MIB as u64, upload).requires("roles", "create").answers(201, Schema::Nothing),
        Route::upload("/api/test/words-of-its-own/", 10, upload_with_words),
        get("/api/test/pieces/", pieces),
        get("/api/test/left/", abandoned_stream),
        get("/api/test/file/", file),
        Route::new(Method::GET, "/api/test/cached/", "", Handler::Read(cached))
            .answers(200, Schema::OneOf(|| json!({}))),
    ])
});

/// Serves routes of the test. Returns a client with the account of another client.
pub async fn serve_table(tenant: &TestBuild, client: &ApiClient, table: &'static Table) -> ApiClient {
    let (app, listener) = (tenant.app.clone(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let handler = move |request, peer| serve::answer(app.clone(), table, request, peer);
    tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
    client.for_server(address)
}

async fn client(tenant: &TestBuild, of: &ApiClient) -> ApiClient {
    serve_table(tenant, of, &TABLE).await
}

/// Answers with the number of received bytes.
fn upload(request: Arc<Request>, mut upload: Upload) -> HandlerFuture {
    Box::pin(async move {
        let (mut bytes, mut pieces) = (0, 0);
        while let Some(piece) = upload.next().await? {
            (bytes, pieces) = (bytes + piece.len(), pieces + 1);
        }
        let note = move |_: &Request, conn: &mut Conn| -> Result<(), Refusal> {
            let sql = "UPDATE users SET company_name = $1 WHERE id = 1";
            conn.exec(&Sql::new(sql).arg(bytes.to_string()))?;
            Ok(())
        };
        commit::write(&request, note).await?;
        Ok(Answer::json(http::StatusCode::CREATED, json!({"bytes": bytes, "are_several": pieces > 1}).to_string()))
    })
}

fn upload_with_words(_: Arc<Request>, mut upload: Upload) -> HandlerFuture {
    Box::pin(async move {
        loop {
            match upload.next().await {
                Ok(None) => return Ok(Answer::empty()),
                Ok(Some(_)) => {}
                Err(UploadError::TooLarge) => return Err(Refusal::bad_request("Max file size is 50.0 MB.")),
                Err(error) => return Err(error.into()),
            }
        }
    })
}

static MADE: AtomicUsize = AtomicUsize::new(0);

/// Answers with ten times 100,000 bytes. `?length=` announces this length, and `?fail=` fails after this number of pieces.
fn pieces(request: &Request) -> Outcome {
    let number = |wanted: &str| {
        request.query.pairs().find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let (length, fail) = (number("length"), number("fail").unwrap_or(u64::MAX));
    Ok(Answer::pieces("text/plain", length, move |producer| async move {
        MADE.fetch_add(1, Ordering::Relaxed);
        for n in 0..10 {
            if n == fail {
                return Err(io::Error::other("as the test wants it"));
            }
            producer.send(vec![b'x'; 100_000]).await?;
        }
        Ok(())
    }))
}

static LEFT: Notify = Notify::const_new();

/// Sends one piece, and no other before the client has disconnected.
fn abandoned_stream(_: &Request) -> Outcome {
    Ok(Answer::pieces("text/plain", None, |producer| async move {
        producer.send("first").await?;
        producer.closed().await;
        LEFT.notify_one();
        producer.send("second").await
    }))
}

fn file(_: &Request) -> Outcome {
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &vec![b'f'; 300_000]).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    Ok(Answer::file("text/plain", file, 300_000, None))
}

fn cached(_: &Request, _: &mut Conn) -> Outcome {
    let pieces = |producer: web::content::PieceSender| async move { producer.send("[]").await };
    Ok(Answer { cacheable_until: Some(i64::MAX), ..Answer::pieces("application/json", Some(2), pieces) })
}

/// Sends only the head of an upload.
async fn begin(client: &ApiClient, path: &str, lines: &str) -> TcpStream {
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let token = &client.token;
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: JWT {token}\r\n{lines}\r\n", testkit::DOMAIN);
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn answer(stream: &mut TcpStream) -> String {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let read = async {
        // The connection stays open if the whole upload was read.
        while !bytes.ends_with(b"}") {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), read).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn assert_answer(answer: &str, status: u16, body: serde_json::Value) {
    let sent = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let is_right = answer.starts_with(&format!("HTTP/1.1 {status} ")) && serde_json::from_str(sent).ok() == Some(body);
    assert!(is_right, "{answer}");
}

async fn activity_text(server: &TestServer) -> String {
    let sql = Sql::new("SELECT company_name FROM users WHERE id = 1");
    let read = move |conn: &mut Conn| -> Result<String, StoreError> {
        conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))
    };
    server.build.db.read(read).await.unwrap()
}

#[tokio::test]
async fn an_upload_comes_in_pieces() {
    let server = TestServer::start().await;
    let client = client(&server, &server.admin().await).await;
    let whole = client.call("POST", UPLOAD).body("image/png", vec![0; 5 * MIB]).send().await;
    whole.expect_reply(201, json!({"bytes": 5 * MIB, "are_several": true}));
    assert_eq!(activity_text(&server).await, (5 * MIB).to_string());
    let mut chunked = begin(&client, UPLOAD, "Transfer-Encoding: chunked\r\n").await;
    chunked.write_all(b"3\r\nabc\r\n").await.unwrap();
    // The second chunk arrives in a segment of its own.
    tokio::time::sleep(Duration::from_millis(50)).await;
    chunked.write_all(b"2\r\nde\r\n0\r\n\r\n").await.unwrap();
    assert_answer(&answer(&mut chunked).await, 201, json!({"bytes": 5, "are_several": true}));
    client.call("POST", UPLOAD).send().await.expect_reply(201, json!({"bytes": 0, "are_several": false}));
}

#[tokio::test]
async fn an_upload_is_refused_before_its_first_byte() {
    let server = TestServer::start().await;
    let admin = client(&server, &server.admin().await).await;
    let length = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 50 * MIB);
    for (token, status, body) in [
        ("garbage", 401, message::bad_token()),
        (server.as_type("external").await.token.as_str(), 403, message::forbidden()),
    ] {
        let mut stream = begin(&admin.with_token(token), UPLOAD, &length).await;
        assert_answer(&answer(&mut stream).await, status, body);
    }
    let mut large = begin(&admin, UPLOAD, &format!("Content-Length: {}\r\n", 50 * MIB + 1)).await;
    assert_answer(&answer(&mut large).await, 413, message::detail("Request body is too large."));
}

#[tokio::test]
async fn an_upload_that_is_too_large_incomplete_or_slow_is_refused() {
    let server = TestServer::start().await;
    let client = client(&server, &server.admin().await).await;
    let mut slow = begin(&client, UPLOAD, "Content-Length: 1000000\r\n").await;
    slow.write_all(b"a few bytes").await.unwrap();

    let words = "/api/test/words-of-its-own/";
    client.call("POST", words).body("x/y", "0123456789").send().await.expect_empty();
    client
        .call("POST", words)
        .body("x/y", "0123456789a")
        .send()
        .await
        .refuses(message::detail("Max file size is 50.0 MB."));
    let mut chunked = begin(&client, words, "Transfer-Encoding: chunked\r\n").await;
    chunked.write_all(b"b\r\n0123456789a\r\n").await.unwrap();
    assert_answer(&answer(&mut chunked).await, 400, message::detail("Max file size is 50.0 MB."));
    let mut broken = begin(&client, UPLOAD, "Transfer-Encoding: chunked\r\n").await;
    broken.write_all(b"3\r\nabc\r\nno length\r\n").await.unwrap();
    assert_answer(&answer(&mut broken).await, 400, message::detail("The request body is incomplete."));

    assert_answer(&answer(&mut slow).await, 408, message::detail("The request body did not arrive in time."));
    assert_eq!(activity_text(&server).await, "");
}

#[tokio::test]
async fn the_token_of_an_upload_counts_at_its_begin_and_the_session_at_its_end() {
    let server = TestServer::start().await;
    let (admin, other) = (server.admin().await, server.admin().await);
    let (client, of_other) = (client(&server, &admin).await, client(&server, &other).await);
    let mut long = begin(&client, UPLOAD, "Content-Length: 6\r\n").await;
    let mut ended = begin(&of_other, UPLOAD, "Content-Length: 7\r\n").await;
    long.write_all(b"123").await.unwrap();
    ended.write_all(b"123").await.unwrap();
    // By then, the upload has begun.
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.post("/api/auth/logout/", json!({"refresh_token": other.refresh_token})).await.expect_empty();
    ended.write_all(b"4567").await.unwrap();
    assert_answer(&answer(&mut ended).await, 401, message::bad_token());
    assert_eq!(activity_text(&server).await, "");

    server.advance(3_600_000_000);
    admin.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    long.write_all(b"456").await.unwrap();
    assert_answer(&answer(&mut long).await, 201, json!({"bytes": 6, "are_several": true}));
    assert_eq!(activity_text(&server).await, "6");
}

/// An account may have 64 concurrent uploads, or fewer with fewer descriptors.
#[tokio::test]
async fn uploads_that_stand_still_give_their_places_to_one_that_waits() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    let (client, of_other) = (client(&server, &server.admin().await).await, client(&other, &other.admin().await).await);
    let mut uploads = Vec::new();
    for _ in 0..65 {
        let mut stream = begin(&client, UPLOAD, "Content-Length: 9\r\nExpect: 100-continue\r\n").await;
        // The server requests the body after the upload has its permit.
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        uploads.push(stream);
        let mut reply = [0; 4096];
        if let Ok(length) = uploads[0].try_read(&mut reply) {
            let reply = String::from_utf8_lossy(&reply[..length]);
            assert_answer(&reply, 408, message::detail("The request body did not arrive in time."));
            of_other.call("POST", UPLOAD).body("x/y", "123").send().await.expect_created();
            return;
        }
    }
    panic!("nobody was asked to make room");
}

#[tokio::test]
async fn an_answer_is_made_while_it_is_sent() {
    let server = TestServer::start().await;
    let client = client(&server, &server.admin().await).await;
    for (query, length) in [("?length=1000000", "1000000"), ("", "")] {
        let before = MADE.load(Ordering::Relaxed);
        let path = format!("/api/test/pieces/{query}");
        let reply = client.get(&path).await;
        assert_eq!((reply.status, reply.text.len()), (200, 1_000_000));
        assert_eq!(reply.headers.get("content-length").map_or("", |length| length.to_str().unwrap()), length);
        assert!(MADE.load(Ordering::Relaxed) > before);
        let head = client.call("HEAD", &path).send().await;
        assert_eq!((head.status, head.text.as_str()), (200, ""));
        assert_eq!(head.headers.get("content-length").map_or("", |length| length.to_str().unwrap()), length);
    }
    let reply = client.get("/api/test/file/").await;
    assert_eq!((reply.text.len(), reply.header("content-type")), (300_000, "text/plain"));
    assert_eq!(client.call("HEAD", "/api/test/file/").send().await.header("content-length"), "300000");
}

#[tokio::test]
async fn an_answer_that_fails_half_way_is_seen_to_be_incomplete() {
    let server = TestServer::start().await;
    let client = client(&server, &server.admin().await).await;
    for query in ["fail=5", "fail=5&length=1000000", "length=1000001", "length=999999"] {
        let reply = client.call("GET", &format!("/api/test/pieces/?{query}")).try_send().await;
        assert!(reply.is_none(), "{query}: {reply:?}");
    }
    client.get("/api/test/file/").await.ok();
}

#[tokio::test]
async fn a_producer_learns_that_its_client_is_gone() {
    let server = TestServer::start().await;
    let client = client(&server, &server.admin().await).await;
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let head = format!(
        "GET /api/test/left/ HTTP/1.1\r\nHost: {}\r\nAuthorization: JWT {}\r\n\r\n",
        testkit::DOMAIN,
        client.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains("first") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0);
        bytes.extend_from_slice(&piece[..count]);
    }
    drop(stream);
    tokio::time::timeout(Duration::from_secs(30), LEFT.notified()).await.unwrap();
}

#[tokio::test]
async fn an_answer_in_pieces_is_not_kept() {
    let server = TestServer::start().await;
    let client = client(&server, &server.admin().await).await;
    let hits = server.app.slot::<AnswerCache>().hits();
    for _ in 0..5 {
        assert_eq!(client.get("/api/test/cached/").await.ok(), json!([]));
    }
    assert_eq!(server.app.slot::<AnswerCache>().hits(), hits);
}

#[test]
fn openapi_describes_them() {
    let document = openapi::document(&TABLE, openapi::Audience::All);
    let upload = &document["paths"][UPLOAD]["post"];
    assert_eq!(
        upload["requestBody"],
        json!({"required": true, "content": {"application/octet-stream": {"schema": {}}}})
    );
    let statuses: Vec<&String> = upload["responses"].as_object().unwrap().keys().collect();
    assert_eq!(statuses, ["201", "400", "401", "403", "404", "408", "413", "503"]);
    let answer = &document["paths"]["/api/test/pieces/"]["get"]["responses"]["200"];
    assert_eq!(answer["content"], json!({"application/octet-stream": {"schema": {}}}));
}
