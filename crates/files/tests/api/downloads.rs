//! Downloads: ranges, tags, HEAD, other origins.

use crate::TestServer;
use serde_json::json;
use testkit::Reply;

async fn public(server: &TestServer, content: &str) -> String {
    let api = server.admin().await;
    let token = api.upload("a.txt", content.to_owned()).await;
    let made = api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    format!("/api/files/public-storage/{}/", made["uuid"].as_str().unwrap())
}

fn answer_headers(reply: &Reply) -> (u16, &str, &str, &str) {
    (reply.status, &reply.text, reply.header("content-range"), reply.header("content-length"))
}

#[tokio::test]
async fn parts_of_a_file_are_sent() {
    let server = TestServer::start().await;
    let path = public(&server, "0123456789").await;
    let get = async |range: &str| server.anonymous().call("GET", &path).header("range", range).send().await;
    let whole = server.anonymous().get(&path).await;
    assert_eq!(answer_headers(&whole), (200, "0123456789", "", "10"));
    assert_eq!(whole.header("accept-ranges"), "bytes");
    let tag = whole.header("etag").to_owned();
    for (range, expected) in [
        ("bytes=0-3", (206, "0123", "bytes 0-3/10", "4")),
        ("bytes=7-", (206, "789", "bytes 7-9/10", "3")),
        ("bytes=-2", (206, "89", "bytes 8-9/10", "2")),
        ("bytes=8-100", (206, "89", "bytes 8-9/10", "2")),
        ("bytes=5-4", (200, "0123456789", "", "10")),
        ("bytes=0-1,4-5", (200, "0123456789", "", "10")),
    ] {
        let reply = get(range).await;
        assert_eq!(answer_headers(&reply), expected, "{range}");
        assert_eq!(reply.header("etag"), tag);
    }
    let reply = get("bytes=10-").await;
    assert_eq!((reply.status, reply.header("content-range")), (416, "bytes */10"));
    assert_eq!(reply.json, json!({"detail": "The requested range is not satisfiable."}));
    let resumed = |state: &str| {
        let call = server.anonymous().call("GET", &path).header("range", "bytes=5-").header("if-range", state);
        call.send()
    };
    assert_eq!(answer_headers(&resumed(&tag).await), (206, "56789", "bytes 5-9/10", "5"));
    assert_eq!(answer_headers(&resumed("\"other\"").await), (200, "0123456789", "", "10"));
}

#[tokio::test]
async fn a_matching_etag_is_answered_with_304() {
    let server = TestServer::start().await;
    let path = public(&server, "content").await;
    let tag = server.anonymous().get(&path).await.header("etag").to_owned();
    for state in [tag.as_str(), &format!("W/{tag}"), "*"] {
        let reply = server.anonymous().call("GET", &path).header("if-none-match", state).send().await;
        assert_eq!((reply.status, reply.text.as_str(), reply.header("etag")), (304, "", tag.as_str()), "{state}");
    }
    let head = server.anonymous().call("HEAD", &path).send().await;
    assert_eq!((head.status, head.header("content-length"), head.header("etag")), (200, "7", tag.as_str()));
}

#[tokio::test]
async fn nothing_is_compressed() {
    let server = TestServer::start().await;
    let path = public(&server, &"compressible ".repeat(10_000)).await;
    let reply = server.anonymous().call("GET", &path).header("accept-encoding", "gzip, zstd").send().await;
    assert_eq!((reply.header("content-encoding"), reply.bytes.len()), ("", 130_000));
}

#[tokio::test]
async fn a_front_end_of_another_origin_reads_the_headers() {
    let server =
        TestServer::start_with(|settings| settings.cors_origins = vec!["https://app.example".to_owned()]).await;
    let path = public(&server, "content").await;
    let reply = server.anonymous().call("GET", &path).header("origin", "https://app.example").send().await;
    let exposed = reply.header("access-control-expose-headers");
    for name in ["content-disposition", "content-range", "etag"] {
        assert!(exposed.contains(name), "{exposed}");
    }
}
