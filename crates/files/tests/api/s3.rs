//! The same tests with files on S3.

use crate::TestServer;
use serde_json::json;
use testkit::{DAY, S3Server, eventually, message};

async fn start(s3: &S3Server) -> TestServer {
    let (url, environment) = (s3.url("prefix"), s3.environment());
    TestServer::start_with(|settings| {
        settings.domains.edit::<files::FileSettings>().files_url = Some(url);
        settings.domains.edit::<files::FileSettings>().environment = Some(environment);
    })
    .await
}

#[tokio::test]
async fn files_are_stored_sent_and_removed_on_s3() {
    let s3 = S3Server::start();
    let server = start(&s3).await;
    let api = server.admin().await;
    let content = "0123456789".repeat(100_000);
    let token = api.upload("a.txt", content.clone()).await;
    let made = api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    let path = format!("/api/files/public-storage/{}/", made["uuid"].as_str().unwrap());
    assert!(server.anonymous().get(&path).await.text == content);
    let part = server.anonymous().call("GET", &path).header("range", "bytes=999998-").send().await;
    assert_eq!(
        (part.status, part.text.as_str(), part.header("content-range")),
        (206, "89", "bytes 999998-999999/1000000")
    );
    let head = server.anonymous().call("HEAD", &path).send().await;
    assert_eq!((head.status, head.header("content-length")), (200, "1000000"));
    assert_eq!(s3.keys().len(), 1);

    // This file stays: the S3 server of the tests removes an empty directory even if another file has arrived in it meanwhile.
    let token = api.upload("kept.txt", "x").await;
    api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    api.upload("unused.txt", "x").await;
    assert_eq!(s3.keys().len(), 3);
    api.delete(&path).await.expect_empty();
    server.advance(DAY);
    server.admin().await.upload("later.txt", "x").await;
    eventually(async || {
        let keys = s3.keys();
        if keys.len() == 2 { Ok(()) } else { Err(keys) }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_away_is_told_and_comes_back() {
    let server = TestServer::start_with(|settings| {
        settings.domains.edit::<files::FileSettings>().files_url = Some("s3://files/prefix".to_owned());
        let environment = [
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT", "http://127.0.0.1:1"),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        settings.domains.edit::<files::FileSettings>().environment =
            Some(environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    })
    .await;
    let api = server.admin().await;
    let call = api.call("POST", "/api/files/upload/").header("content-disposition", "attachment; filename=a.txt");
    call.body("text/plain", "x").send().await.expect_reply(503, message::detail("The storage is not available."));
}
