//! Accounts and builds share the memory of long bodies and file descriptors, but cannot use the share of another (security, promise
//! "builds do not feel each other"). `reliability/answers` tests it with a release build.

use crate::BINARY;
use crate::TestServer;
use crate::hostile_bodies::{honest, p99};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The maximum size of a body.
const LARGEST: usize = 2 * 1024 * 1024;

/// Sends a body of 2 MiB at 20 kB per second, and returns the status.
async fn send_slowly(client: ApiClient) -> u16 {
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let head = format!(
        "PATCH /api/users/me/ HTTP/1.1\r\nHost: {}\r\nAuthorization: JWT {}\r\nContent-Type: application/json\r\n\
         Content-Length: {LARGEST}\r\n\r\n",
        testkit::DOMAIN,
        client.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let sending = tokio::spawn(async move {
        while writer.write_all(&[b' '; 2000]).await.is_ok() {
            // The client is slow.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let status = status(&mut reader).await;
    sending.abort();
    status
}

/// Returns the status of an answer, or 0 if the connection was closed without one.
async fn status(reader: &mut (impl tokio::io::AsyncRead + Unpin)) -> u16 {
    let mut head = [0; 12];
    let _ = reader.read_exact(&mut head).await;
    std::str::from_utf8(&head).ok().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_an_account_leave_room_to_others() {
    let server = TestServer::start().await;
    let (admin, user) = (server.admin().await, server.as_type("internal").await);
    let mut slow = JoinSet::new();
    for _ in 0..14 {
        slow.spawn(send_slowly(user.clone()));
    }
    // By then, the slow bodies have their permits.
    tokio::time::sleep(Duration::from_secs(1)).await;

    // A long body of another account is read immediately.
    let begun = Instant::now();
    let refused = admin.patch("/api/users/me/", json!({"first_name": "x".repeat(LARGEST / 2)})).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    println!("a body of 1 MiB beside 14 slow ones of another account: {:.1?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());

    // Some bodies of the account wait, so the bodies that are read must arrive faster.
    let first = slow.join_next().await.unwrap().unwrap();
    assert!(first == 408 && begun.elapsed() < Duration::from_secs(15), "{first} after {:?}", begun.elapsed());
}

/// Reads a kilobyte per second of a download, and returns the status.
async fn download_slowly(address: SocketAddr, path: String, lasts: Duration) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let Ok(mut stream) = socket.connect(address).await else { return 0 };
    let mut answered = 0;
    let reading = async {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        answered = status(&mut stream).await;
        let mut piece = [0; 1000];
        while stream.read(&mut piece).await.is_ok_and(|count| count > 0) {
            // The client is slow.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let _ = tokio::time::timeout(lasts, reading).await;
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_downloads_leave_descriptors_to_others() {
    let installation = Installation::with_build(BINARY).set("CHANCERY_ADDRESS_ATTEMPTS", "0").with_descriptors(1024);
    let process = installation.serve();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let token = admin.upload("a.txt", vec![b'x'; 20 * 1024 * 1024]).await;
    let made = admin.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    let path = format!("/api/files/public-storage/{}/", made["uuid"].as_str().unwrap());
    admin.patch("/api/users/me/", json!({"phone": "1"})).await.ok();

    let (tell, done) = watch::channel(false);
    let mut downloads = JoinSet::new();
    for _ in 0..400 {
        downloads.spawn(download_slowly(process.api(), path.clone(), Duration::from_secs(12)));
    }
    // By then, the downloads have begun.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let honest = tokio::spawn(honest(admin.clone(), done));
    for _ in 0..5 {
        // Uploads have permits of their own, so the client gets its token.
        assert!(!admin.upload("b.txt", vec![b'x'; 100_000]).await.is_empty());
    }
    let mut statuses = BTreeMap::new();
    for status in downloads.join_all().await {
        *statuses.entry(status).or_insert(0) += 1;
    }
    tell.send_replace(true);
    let mut times = honest.await.unwrap();
    times.sort();
    println!(
        "400 slow downloads with 1,024 descriptors: {statuses:?}; {} honest calls, p99 {:.1?}",
        times.len(),
        p99(&times)
    );
    assert!(statuses.keys().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses[&200] >= 15 && statuses[&503] > 0, "{statuses:?}");
}
