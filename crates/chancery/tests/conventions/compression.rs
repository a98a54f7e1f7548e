//! Answers are compressed for clients that accept it, unless they contain a secret.

use crate::TestServer;
use crate::streams::serve_table;
use flate2::read::GzDecoder;
use http::Method;
use platform::kit::answer::{Answer, Outcome};
use platform::kit::caller::RouteAccess;
use platform::kit::request::Request;
use platform::kit::route::{Handler, Route, Schema};
use platform::kit::table::Table;
use serde_json::{Map, Value, json};
use std::io::{self, Read};
use std::sync::LazyLock;
use std::time::Duration;
use testkit::{ApiClient, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const USERS: &str = "/api/users/";

async fn get(client: &ApiClient, path: &str, accepted: &str) -> Reply {
    client.call("GET", path).header("accept-encoding", accepted).send().await
}

/// Returns the decoded body of an answer.
fn decoded(reply: &Reply) -> String {
    let mut text = String::new();
    match reply.header("content-encoding") {
        "gzip" => drop(GzDecoder::new(reply.bytes.as_ref()).read_to_string(&mut text).unwrap()),
        "zstd" => text = String::from_utf8(zstd::decode_all(reply.bytes.as_ref()).unwrap()).unwrap(),
        _ => text.clone_from(&reply.text),
    }
    text
}

async fn server_with_users() -> (TestServer, ApiClient) {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for n in 0..5 {
        let user = json!({"username": format!("user{n}@example.com"), "account_type": "full", "first_name": "x", "last_name": "y"});
        admin.post(USERS, user).await.expect_created();
    }
    (server, admin)
}

#[tokio::test]
async fn a_list_is_compressed_as_it_is_accepted() {
    let (_server, admin) = server_with_users().await;
    let plain = admin.get(USERS).await;
    assert!(plain.text.len() > 1024 && plain.header("content-encoding").is_empty());
    assert_eq!(plain.header("vary"), "accept-encoding");
    for (accepted, expected) in [
        ("gzip", "gzip"),
        ("GZIP;q=0.1", "gzip"),
        ("x-gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0.5, gzip;q=0.8", "gzip"),
        ("*", "gzip"),
        ("identity;q=0, gzip", "gzip"),
        ("identity;q=0.5, gzip;q=0.4", ""),
        ("gzip;q=0, zstd;q=0.000", ""),
        ("gzip;q=0, *", ""),
        ("", ""),
        ("br, deflate", ""),
        // The server supports none of these. An uncompressed answer is better than a refusal.
        ("br, identity;q=0", ""),
        ("*;q=0", ""),
        ("gzip;q=2, zstd;q=x, ;;q=1, gzip;level=9", ""),
        ("é", ""),
    ] {
        // From the second request on, the answer can come from the cache.
        for _ in 0..3 {
            let reply = get(&admin, USERS, accepted).await;
            assert_eq!((reply.status, reply.header("content-encoding")), (200, expected), "{accepted}");
            assert_eq!(decoded(&reply), plain.text, "{accepted}");
            for header in ["etag", "vary", "content-type", "cache-control"] {
                assert_eq!(reply.header(header), plain.header(header), "{accepted} {header}");
            }
            assert_eq!(reply.header("content-length"), reply.bytes.len().to_string(), "{accepted}");
            assert!(expected.is_empty() || 2 * reply.bytes.len() < plain.text.len(), "{accepted}");
        }
    }
}

#[tokio::test]
async fn a_tag_is_the_same_whether_compressed_or_not() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = json!({"username": "user@example.com", "account_type": "full", "first_name": "x", "last_name": "y"});
    let created = admin.call("POST", USERS).header("accept-encoding", "gzip").json(&user).send().await;
    assert_eq!((created.status, created.header("content-encoding")), (201, "gzip"));
    let path = "/api/users/2/";
    let tag = created.header("etag").to_owned();
    for accepted in ["gzip", "zstd", "identity"] {
        assert_eq!(get(&admin, path, accepted).await.header("etag"), tag);
        let known = admin.call("GET", path).header("accept-encoding", accepted).header("if-none-match", &tag);
        let known = known.send().await;
        assert_eq!((known.status, known.bytes.len(), known.header("content-encoding")), (304, 0, ""));
    }
    let change = admin.call("PATCH", path).header("accept-encoding", "zstd").header("if-match", &tag);
    change.json(&json!({"job_title": "z"})).send().await.expect(200);
}

#[tokio::test]
async fn a_short_answer_is_sent_as_it_is() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let reply = get(&admin, "/api/roles/", "gzip, zstd").await;
    assert!(reply.text.len() < 1024 && reply.header("content-encoding").is_empty());
    let reply = get(&admin, "/api/roles/", "identity;q=0, zstd").await;
    assert_eq!((reply.header("content-encoding"), decoded(&reply)), ("zstd", admin.get("/api/roles/").await.text));
}

#[tokio::test]
async fn head_says_what_get_would() {
    let (_server, admin) = server_with_users().await;
    for accepted in ["gzip", "identity"] {
        let shown = get(&admin, USERS, accepted).await;
        let head = admin.call("HEAD", USERS).header("accept-encoding", accepted).send().await;
        assert_eq!((head.status, head.bytes.len()), (200, 0));
        for header in ["etag", "vary", "content-encoding", "content-length", "content-type"] {
            assert_eq!(head.header(header), shown.header(header), "{accepted} {header}");
        }
    }
}

/// 3 MiB of text with some repetition.
static TEXT: LazyLock<String> =
    LazyLock::new(|| (0..200_000).map(|n: u64| format!("{} {n}\n", n * n % 8191)).collect());

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let get = |path, handler: fn(&Request) -> Outcome| {
        Route::new(Method::GET, path, "", Handler::NoDatabase(handler)).answers(200, Schema::Binary)
    };
    Table::new(vec![
        get("/api/test/whole/", |_| Ok(Answer::json(http::StatusCode::OK, TEXT.as_str()))),
        get("/api/test/pieces/", |_| {
            Ok(Answer::pieces("text/csv; charset=utf-8", Some(TEXT.len() as u64), |producer| async move {
                for piece in TEXT.as_bytes().chunks(50_000) {
                    producer.send(piece).await?;
                }
                Ok(())
            }))
        }),
        get("/api/test/slow/", |_| {
            Ok(Answer::pieces("text/plain", None, |producer| async move {
                producer.send("first").await?;
                producer.closed().await;
                Ok(())
            }))
        }),
        get("/api/test/broken/", |_| {
            Ok(Answer::pieces("text/plain", None, |producer| async move {
                producer.send(TEXT.as_str()).await?;
                Err(io::Error::other("as the test wants it"))
            }))
        }),
        get("/api/test/file/", |_| file("text/plain")),
        get("/api/test/image/", |_| file("image/png")),
        get("/api/test/archive/", |_| file("application/zip")),
        get("/api/test/encoded/", |_| with_header(http::header::CONTENT_ENCODING, "br")),
        get("/api/test/ranges/", |_| with_header(http::header::ACCEPT_RANGES, "bytes")),
        get("/api/test/secret/", |_| Ok(Answer::json(http::StatusCode::OK, TEXT.as_str()))).answers_secret(),
    ])
});

fn file(content_type: &'static str) -> Outcome {
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, TEXT.as_bytes()).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    Ok(Answer::file(content_type, file, TEXT.len() as u64, None))
}

fn with_header(name: http::HeaderName, value: &'static str) -> Outcome {
    let mut answer = Answer::json(http::StatusCode::OK, TEXT.as_str());
    answer.headers.push((name, http::HeaderValue::from_static(value)));
    Ok(answer)
}

#[tokio::test]
async fn long_answers_streams_and_files_are_compressed_while_they_are_sent() {
    let server = TestServer::start().await;
    let client = serve_table(&server, &server.admin().await, &TABLE).await;
    for path in ["/api/test/whole/", "/api/test/pieces/", "/api/test/file/"] {
        for accepted in ["gzip", "zstd"] {
            let reply = get(&client, path, accepted).await;
            assert_eq!((reply.status, reply.header("content-encoding")), (200, accepted), "{path}");
            assert!(decoded(&reply) == *TEXT && 2 * reply.bytes.len() < TEXT.len(), "{path} {accepted}");
            let head = client.call("HEAD", path).header("accept-encoding", accepted).send().await;
            assert_eq!((head.header("content-encoding"), head.header("content-length")), (accepted, ""), "{path}");
            // A range applies to the uncompressed content.
            let part = client.call("GET", path).header("accept-encoding", accepted).header("range", "bytes=0-9");
            assert_eq!(part.send().await.header("content-encoding"), "", "{path}");
        }
    }
}

#[tokio::test]
async fn compressed_partial_and_secret_answers_are_not_compressed() {
    let server = TestServer::start().await;
    let client = serve_table(&server, &server.admin().await, &TABLE).await;
    for name in ["image", "archive", "encoded", "ranges", "secret"] {
        let reply = get(&client, &format!("/api/test/{name}/"), "gzip, zstd").await;
        let coding = if name == "encoded" { "br" } else { "" };
        assert_eq!((reply.header("content-encoding"), reply.header("vary")), (coding, ""), "{name}");
        assert_eq!(reply.text, *TEXT, "{name}");
    }
}

/// Returns the received part of the body of a chunked answer.
fn chunks(answer: &[u8]) -> Option<Vec<u8>> {
    let begin = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let (mut input, mut body) = (&answer[begin..], Vec::new());
    while let Some(end) = input.windows(2).position(|window| window == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&input[..end]).ok()?, 16).ok()?;
        let Some(chunk) = input.get(end + 2..end + 2 + length) else { break };
        body.extend_from_slice(chunk);
        input = input.get(end + 4 + length..).unwrap_or_default();
    }
    Some(body)
}

#[tokio::test]
async fn a_piece_is_sent_when_the_next_one_lets_wait() {
    let server = TestServer::start().await;
    let client = serve_table(&server, &server.admin().await, &TABLE).await;
    for accepted in ["gzip", "zstd"] {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        let (host, token) = (testkit::DOMAIN, &client.token);
        let head = format!(
            "GET /api/test/slow/ HTTP/1.1\r\nHost: {host}\r\nAuthorization: JWT {token}\r\nAccept-Encoding: {accepted}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut answer, mut begin) = (Vec::new(), [0; 5]);
        while &begin != b"first" {
            let read = stream.read_buf(&mut answer);
            assert!(tokio::time::timeout(Duration::from_secs(5), read).await.unwrap().unwrap() > 0);
            let body = chunks(&answer).unwrap_or_default();
            let _ = match accepted {
                "gzip" => GzDecoder::new(body.as_slice()).read_exact(&mut begin),
                _ => zstd::Decoder::new(body.as_slice()).and_then(|mut decoder| decoder.read_exact(&mut begin)),
            };
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_seen_to_be_incomplete() {
    let server = TestServer::start().await;
    let client = serve_table(&server, &server.admin().await, &TABLE).await;
    for accepted in ["gzip", "zstd"] {
        let reply = client.call("GET", "/api/test/broken/").header("accept-encoding", accepted).try_send().await;
        assert!(reply.is_none(), "{accepted}");
    }
}

#[tokio::test]
async fn no_token_is_compressed() {
    let server = TestServer::start().await;
    let body = json!({"username": testkit::ADMIN, "password": testkit::PASSWORD, "more": "x".repeat(2000)});
    let call = server.anonymous().call("POST", "/api/auth/login/").header("accept-encoding", "identity;q=0, gzip");
    let reply = call.json(&body).send().await;
    assert_eq!((reply.status, reply.header("content-encoding"), reply.header("vary")), (200, "", ""));
}

/// Returns whether a member has a secret or an address with a secret as its value. Times and ids of secrets do not count.
fn names_a_secret(name: &str) -> bool {
    let words = ["token", "secret", "password", "ticket", "key", "code", "link"];
    let is_secret = words.iter().any(|word| name == *word || name.ends_with(&format!("_{word}")));
    is_secret || matches!(name, "logout_url" | "location" | "url")
}

fn members(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            let properties = object.get("properties").and_then(Value::as_object);
            let names_of = |properties: &Map<String, Value>| properties.keys().cloned().collect::<Vec<_>>();
            let all = properties.map(names_of).unwrap_or_default();
            // The address of a file requires a token in a header, or is public.
            let is_of_file = all.iter().any(|name| name == "size" || name == "filename");
            names.extend(all.into_iter().filter(|name| !is_of_file || name != "url"));
            object.values().for_each(|value| members(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, names)),
        _ => {}
    }
}

#[test]
fn every_answer_with_a_secret_says_so_and_so_does_what_comes_compressed() {
    let mut secret = Vec::new();
    for route in platform::table().routes() {
        let mut names = Vec::new();
        let answers = std::iter::once(&route.answer).chain(route.otherwise.iter().map(|(_, answer)| answer));
        answers.for_each(|answer| members(&answer.to_json(), &mut names));
        let secrets: Vec<_> = names.iter().filter(|name| names_a_secret(name)).collect();
        // The names of configuration fields, whose values are not secrets.
        let is_plain = |name: &str| match name {
            "logout_url" => route.access != RouteAccess::Public,
            "url" => route.path.starts_with("/api/integrations/"),
            // The name of a preference of a user.
            "key" => route.path.starts_with("/api/users/me/preferences/"),
            _ => false,
        };
        let are_plain = secrets.iter().all(|name| is_plain(name));
        assert!(are_plain || !route.is_compressed(), "{}: {secrets:?}", route.path);
        if !route.is_compressed() {
            secret.push(format!("{} {}", route.method, route.path));
        }
    }
    assert_eq!(
        secret,
        [
            "GET /api/docs/",
            "GET /api/docs/{name}/",
            "POST /api/mcp/connectors/",
            "POST /api/mcp/connectors/{id}/reset-client-secret/",
            "GET /oauth/authorize/",
            "POST /oauth/authorize/sign-in/",
            "POST /oauth/authorize/second-factor/",
            "POST /oauth/authorize/single-sign-on/",
            "POST /oauth/authorize/consent/",
            "POST /oauth/token/",
            "POST /oauth/revoke/",
            "GET /api/files/response/file/{uuid}/",
            "POST /api/auth/task/",
            "GET /task/",
            "POST /task/",
            "GET /api/object-classes/{class_id}/document-templates/{template_id}/download/",
            "GET /api/object-records/{record_id}/documents/{template_id}/download/{uuid}/",
            "POST /api/object-classes/{class_id}/object-records/export/link/",
            "GET /api/object-records/{record_id}/files/{uuid}/",
            "POST /api/scim/tokens/",
            "POST /api/auth/login/",
            "POST /api/auth/refresh/",
            "POST /api/auth/logout/",
            "POST /api/auth/second-factor/",
            "POST /api/auth/passkey/",
            "POST /api/auth/passkey/confirm/",
            "GET /sign-in/",
            "POST /sign-in/",
            "POST /sign-in/second-factor/",
            "POST /sign-in/passkey/",
            "POST /sign-in/single-sign-on/",
            "GET /activate/",
            "POST /activate/",
            "GET /password-reset/",
            "POST /password-reset/",
            "POST /api/auth/browser/token/",
            "POST /api/auth/browser/logout/",
            "POST /api/users/{id}/activation-link/",
            "POST /api/users/{user_id}/api-keys/",
            "POST /api/users/me/second-factors/",
            "POST /api/users/me/second-factors/{id}/confirm/",
            "POST /api/users/me/second-factors/recovery-codes/",
            "POST /api/single-sign-on/login/",
            "POST /api/single-sign-on/{id}/link/",
            "GET /api/single-sign-on/{id}/callback/",
            "POST /api/auth/ticket/",
            "POST /api/single-sign-on/{id}/test/",
            "POST /api/files/upload/",
            "GET /api/files/public-storage/{uuid}/",
        ]
    );
}
