//! `POST /api/files/upload/`.

use crate::TestServer;
use crate::{stored_names, wait_for_stored};
use serde_json::json;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, DAY, HOUR, Reply, eventually, message, one_wins, send_concurrently, statuses};

const UPLOAD: &str = "/api/files/upload/";
const PUBLIC: &str = "/api/files/public-storage/";
const MEBIBYTE: usize = 1024 * 1024;

async fn upload(client: &ApiClient, disposition: &str, body: impl Into<bytes::Bytes>) -> Reply {
    let call = client.call("POST", UPLOAD).header("content-disposition", disposition);
    call.body("application/octet-stream", body).send().await
}

#[tokio::test]
async fn an_upload_answers_a_token_and_is_stored() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let reply = upload(&api, "attachment; filename=report.pdf", "content").await;
    let token = reply["token"].as_str().unwrap().to_owned();
    reply.expect_reply(201, json!({"token": token}));
    assert!(token.len() == 32, "{token}");
    let stored = stored_names(&server);
    assert_eq!(stored.len(), 1);
    let path = server.data().join("files").join(&server.build.uid).join(&stored[0]);
    assert_eq!(std::fs::read(path).unwrap(), b"content");
    // The stored name is not the name from the client, and the token is not in the database.
    assert!(!stored[0].contains("report") && stored[0] != token);
    let read =
        |conn: &mut Conn| conn.query_one(&Sql::new("SELECT token FROM files"), |row| Ok(row.text(0)?.to_owned()));
    assert_ne!(server.build.db.read::<_, StoreError>(read).await.unwrap(), token);
}

#[tokio::test]
async fn the_name_and_the_content_must_be_right() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let missing = "Missing filename. Request should include a Content-Disposition header with a filename parameter.";
    let missing = message::detail(missing);
    api.call("POST", UPLOAD).body("application/pdf", "x").send().await.refuses(missing.clone());
    for disposition in
        ["attachment", "attachment; filename=", "attachment; filename=\"..\"", "attachment; filename=\"a/\""]
    {
        upload(&api, disposition, "x").await.refuses(missing.clone());
    }
    let allowed = "csv, doc, docx, dot, gif, jfif, jpe, jpeg, jpg, json, odf, ods, odt, pdf, png, pot, potx, ppa, pps, ppsx, \
                   ppt, pptx, pwz, rdf, rtf, rtx, text, txt, wiz, wsdl, xla, xlb, xlc, xlm, xls, xlsx, xlt, xlw, xml, xpdl, xsl";
    for (name, extension) in
        [("a.exe", "exe"), ("a.pdf.HTML", "HTML"), ("a.pdf ", "pdf"), ("README", ""), ("a.", ""), (".pdf", "")]
    {
        let reply = upload(&api, &format!("attachment; filename=\"{name}\""), "x").await;
        if extension == "pdf" {
            reply.expect_created();
            continue;
        }
        let text = format!("File extension {extension} is not allowed. Allowed extensions are: {allowed}.");
        reply.refuses(message::detail(&text));
    }
    upload(&api, "attachment; filename=A.PDF", "x").await.expect_created();
    upload(&api, "attachment; filename=a.pdf", "").await.refuses(message::detail("Empty content."));
    assert_eq!(stored_names(&server).len(), 2);
}

#[tokio::test]
async fn an_upload_has_at_most_fifty_mebibytes() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let name = "attachment; filename=a.txt";
    upload(&api, name, vec![b'x'; 50 * MEBIBYTE]).await.expect_created();
    // The answer may arrive before the client has sent the whole body.
    let call = api.call("POST", UPLOAD).header("content-disposition", name);
    if let Some(reply) = call.body("text/plain", vec![b'x'; 50 * MEBIBYTE + 1]).try_send().await {
        reply.refuses(message::detail("Max file size is 50.0 MB."));
    }
    wait_for_stored(&server, 1).await;
}

#[tokio::test]
async fn uploads_need_sign_in_and_nothing_else() {
    let server = TestServer::start().await;
    upload(&server.anonymous(), "attachment; filename=a.pdf", "x").await.expect_reply(401, message::unauthenticated());
    for account_type in ["external", "internal", "full", "service_external"] {
        upload(&server.as_type(account_type).await, "attachment; filename=a.pdf", "x").await.expect_created();
    }
}

#[tokio::test]
async fn extensions_are_those_of_the_build() {
    let server = TestServer::start().await;
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let limits = format!("/api/builds/{}/limits/", server.build.domain);
    operator.patch(&limits, json!({"allowed_file_extensions": ["dwg"]})).await.ok();
    let api = server.admin().await;
    upload(&api, "attachment; filename=plan.DWG", "x").await.expect_created();
    let text = "File extension pdf is not allowed. Allowed extensions are: dwg.";
    upload(&api, "attachment; filename=a.pdf", "x").await.refuses(message::detail(text));
}

#[tokio::test]
async fn a_user_has_at_most_a_hundred_unspent_uploads() {
    let server = TestServer::start().await;
    let (api, other) = (server.admin().await, server.as_type("super_admin").await);
    for _ in 0..98 {
        api.upload("a.txt", "x").await;
    }
    let call = || api.call("POST", UPLOAD).header("content-disposition", "attachment; filename=a.txt");
    let replies = send_concurrently((0..8).map(|_| call().body("text/plain", "x"))).await;
    assert_eq!(statuses(&replies), [201, 201, 400, 400, 400, 400, 400, 400]);
    let refused = replies.iter().find(|reply| reply.status == 400).unwrap();
    refused.refuses(message::detail("Limit of 100 uploads has been exceeded."));
    upload(&other, "attachment; filename=a.txt", "x").await.expect_created();
    wait_for_stored(&server, 101).await;
    server.advance(DAY + 1);
    let api = server.admin().await;
    upload(&api, "attachment; filename=a.txt", "x").await.expect_created();
}

#[tokio::test]
async fn unspent_uploads_of_a_build_are_bounded_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.upload("a.txt", "x").await;
    let fill =
        |conn: &mut Conn| conn.exec(&Sql::new("UPDATE files SET size = $1").arg(10_i64 * 1024 * 1024 * 1024 - 10));
    server.build.db.write::<_, StoreError>(fill).await.unwrap();
    upload(&api, "attachment; filename=a.txt", "12345678901")
        .await
        .expect_reply(503, message::detail("The storage is full."));
    upload(&api, "attachment; filename=a.txt", "1234567890").await.expect_created();
}

const GIGABYTE: i64 = 1 << 30;

/// Sets the build's limit to one gigabyte and leaves `bytes` of it free.
async fn leave_room(server: &TestServer, bytes: i64) {
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let limits = format!("/api/builds/{}/limits/", server.build.domain);
    operator.patch(&limits, json!({"storage_gigabytes": 1})).await.ok();
    let fill = move |conn: &mut Conn| {
        let sql = Sql::new("UPDATE counters SET n = $1 WHERE name = 'storage_bytes'").arg(GIGABYTE - bytes);
        conn.exec(&sql)
    };
    server.build.db.write::<_, StoreError>(fill).await.unwrap();
}

/// Returns the bytes that count against the limit of storage.
async fn counted(server: &TestServer) -> i64 {
    let sql = "SELECT n FROM counters WHERE name = 'storage_bytes'";
    server
        .build
        .db
        .read::<_, StoreError>(move |conn: &mut Conn| conn.query_one(&Sql::new(sql), |row| row.int(0)))
        .await
        .unwrap()
}

fn storage_full_body() -> serde_json::Value {
    json!({"detail": "Limit of 1 GB of storage has been exceeded.", "error_code": "ERR_LIMIT_EXCEEDED"})
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_uploads_fill_the_storage_to_its_last_byte() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    leave_room(&server, 30).await;
    let call = || api.call("POST", UPLOAD).header("content-disposition", "attachment; filename=a.txt");
    let replies = send_concurrently((0..60).map(|_| call().body("text/plain", "x"))).await;
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status != 201).collect();
    assert_eq!(refused.len(), 30, "{:?}", statuses(&replies));
    for reply in refused {
        reply.refuses(storage_full_body());
    }
    assert_eq!(counted(&server).await, GIGABYTE);
    wait_for_stored(&server, 30).await;
}

#[tokio::test]
async fn an_upload_of_unknown_length_counts_when_it_is_there() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    leave_room(&server, 10).await;
    for (body, status) in [("12345678901", "400"), ("1234567890", "201"), ("1", "400")] {
        let answer = upload_in_chunks(&server, &api, body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{body}: {answer}");
        assert_eq!(answer.contains("Limit of 1 GB of storage has been exceeded."), status == "400", "{answer}");
    }
    assert_eq!(counted(&server).await, GIGABYTE);
    wait_for_stored(&server, 1).await;
}

/// Uploads a text without its length. Returns the answer.
async fn upload_in_chunks(server: &TestServer, api: &ApiClient, body: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "POST {UPLOAD} HTTP/1.1\r\nhost: {}\r\nauthorization: JWT {}\r\ncontent-disposition: attachment; filename=a.txt\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        server.build.domain,
        api.token,
        body.len(),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_build_above_its_limit_keeps_its_files_and_publishes_no_more() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let [kept, token] = [api.upload("kept.txt", "kept").await, api.upload("a.txt", "x").await];
    let kept = api.post(PUBLIC, json!({"token": kept})).await.expect_created();
    leave_room(&server, -1).await;
    api.post(PUBLIC, json!({"token": token})).await.refuses(storage_full_body());
    upload(&api, "attachment; filename=a.txt", "x").await.refuses(storage_full_body());
    let path = format!("{PUBLIC}{}/", kept["uuid"].as_str().unwrap());
    assert_eq!(&api.get(&path).await.bytes[..], b"kept");
    // The removal of a file frees storage.
    api.delete(&path).await.expect_empty();
    wait_for_stored(&server, 1).await;
    assert_eq!(counted(&server).await, GIGABYTE - 3);
    api.post(PUBLIC, json!({"token": token})).await.expect_created();
    upload(&api, "attachment; filename=a.txt", "1234").await.refuses(storage_full_body());
    upload(&api, "attachment; filename=a.txt", "123").await.expect_created();
}

#[tokio::test]
async fn files_are_counted_again_when_processes_of_the_former_version_have_stopped() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.upload("a.txt", "12345").await;
    // A migrated build in which a former version has removed one file and created another.
    let migrated = |conn: &mut Conn| {
        conn.exec(&Sql::new("UPDATE counters SET n = 1000 WHERE name = 'storage_bytes'"))?;
        conn.exec(&Sql::new("UPDATE counters SET n = 100 WHERE name = 'event_file_bytes'"))?;
        conn.exec(&Sql::new("UPDATE files SET counted = NULL, size = 7"))?;
        conn.exec(&Sql::new("INSERT INTO counters(name, n) VALUES ('storage_count_due', 0)"))
    };
    server.build.db.write::<_, StoreError>(migrated).await.unwrap();
    let count = async |expected: i64| {
        eventually(async || {
            kit::jobs::wake(&server.app, &server.build);
            let counted = counted(&server).await;
            if counted == expected { Ok(()) } else { Err(counted) }
        })
        .await;
    };
    count(107).await;
    let late = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE files SET size = 9"));
    server.build.db.write::<_, StoreError>(late).await.unwrap();
    server.advance(300 * testkit::SECOND);
    count(109).await;
    let left = "SELECT count(*) FROM counters WHERE name = 'storage_count_due'";
    let left = move |conn: &mut Conn| conn.query_one(&Sql::new(left), |row| row.int(0));
    assert_eq!(server.build.db.read::<_, StoreError>(left).await.unwrap(), 0);
}

#[tokio::test]
async fn a_token_works_once_for_its_uploader_and_for_a_day() {
    let server = TestServer::start().await;
    let (api, other) = (server.admin().await, server.as_type("super_admin").await);
    let invalid = |token: &str| json!({"token": [format!("Invalid token {token}.")]});
    let token = api.upload("a.txt", "x").await;
    other.post(PUBLIC, json!({"token": token})).await.refuses(invalid(&token));
    api.post(PUBLIC, json!({"token": token})).await.expect_created();
    api.post(PUBLIC, json!({"token": token})).await.refuses(invalid(&token));

    let token = api.upload("a.txt", "x").await;
    server.advance(23 * HOUR);
    let api = server.admin().await;
    api.post(PUBLIC, json!({"token": token})).await.expect_created();
    let token = api.upload("a.txt", "x").await;
    server.advance(24 * HOUR);
    let api = server.admin().await;
    api.post(PUBLIC, json!({"token": token})).await.refuses(invalid(&token));
    wait_for_stored(&server, 2).await;
}

#[tokio::test]
async fn one_token_serves_one_of_many_requests() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let token = api.upload("a.txt", "x").await;
    let calls = (0..20).map(|_| api.call("POST", PUBLIC).json(&json!({"token": token})));
    one_wins(&send_concurrently(calls).await, 201, &json!({"token": [format!("Invalid token {token}.")]}));
    assert_eq!(api.get(PUBLIC).await["total_count"], 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_nothing() {
    use tokio::io::AsyncWriteExt;
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {UPLOAD} HTTP/1.1\r\nhost: {}\r\nauthorization: JWT {}\r\ncontent-disposition: attachment; filename=a.txt\r\n\
         content-length: 1000000\r\n\r\n",
        server.build.domain, api.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; 200_000]).await.unwrap();
    drop(stream);
    let rows = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM files"), |row| row.int(0));
    eventually(async || {
        let arriving = std::fs::read_dir(server.data().join("files").join(".arriving")).map_or(0, Iterator::count);
        arriving == 0 && server.build.db.read::<i64, StoreError>(rows).await == Ok(0)
    })
    .await;
    assert_eq!(stored_names(&server), [""; 0]);
}
