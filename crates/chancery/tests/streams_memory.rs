//! Many concurrent uploads that handlers do not read and answers that clients do not read, in a process of their own, whose memory
//! is measured.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "served/mod.rs"]
mod served;

use http::Method;
use platform::kit::answer::{Answer, Outcome};
use platform::kit::request::Request;
use platform::kit::route::{Handler, HandlerFuture, Route, Schema};
use platform::kit::serve;
use platform::kit::table::Table;
use platform::kit::upload::{Chunks, Upload};
use served::TestServer;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use testkit::eventually;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use web::listener::{self, Limits};

const STREAMS: usize = 50;
const MIB: usize = 1024 * 1024;
/// The maximum growth. Each stream needs 64 KiB and a connection. 32 of the compressed streams need up to 400 KiB more. The rest is
/// for the process. Without bounds, these streams would need 2.5 GiB.
const MAX_GROWTH: usize = 24 * MIB;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(vec![
        Route::upload("/api/test/uploads/", 50 * MIB as u64, upload),
        Route::new(Method::GET, "/api/test/pieces/", "", Handler::NoDatabase(pieces)).answers(200, Schema::Binary),
    ])
});

static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Reads one piece per second, more slowly than they arrive.
fn upload(_: Arc<Request>, mut upload: Upload) -> HandlerFuture {
    Box::pin(async move {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        while upload.next().await?.is_some() {
            // The time is longer than the arrival of a piece.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(Answer::empty())
    })
}

/// Answers with 50 MB. The database produces each piece.
fn pieces(request: &Request) -> Outcome {
    let db = request.build.db.clone();
    Ok(Answer::pieces("text/plain", None, move |producer| async move {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        for n in 0..50 * MIB / 16_000 {
            let sql = Sql::new("SELECT count(*) FROM users");
            let read = move |conn: &mut Conn| -> Result<i64, StoreError> { conn.query_one(&sql, |row| row.int(0)) };
            let count = db.read(read).await.map_err(io::Error::other)?;
            producer.send(incompressible_bytes(n as u64 + count as u64)).await?;
        }
        Ok(())
    }))
}

/// Returns 16,000 bytes that compression hardly shortens.
fn incompressible_bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    };
    (0..4000).flat_map(|_| next().to_le_bytes()).collect()
}

/// Returns the present memory of the process in bytes. Its peak would be that of a sign-in.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_uploads_and_slow_readers_take_little() {
    // Files are never in the database.
    if testkit::test_database().is_some() {
        return;
    }
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let (app, listener) = (server.app.clone(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let handler = move |request, peer| serve::answer(app.clone(), &TABLE, request, peer);
    tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
    let head = |line: &str, more: &str| {
        format!("{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: JWT {}\r\n{more}\r\n", testkit::DOMAIN, admin.token)
    };
    let chunk: &'static [u8] = vec![b'x'; MIB].leak();

    // The threads and connections of the store are created before the measurement.
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 * STREAMS {
        let admin = admin.clone();
        calls.spawn(async move { admin.get("/api/users/?limit=1").await.ok() });
    }
    calls.join_all().await;

    let compressed = "Accept-Encoding: zstd\r\n";
    for (is_upload, more) in [(true, ""), (false, ""), (false, compressed)] {
        AT_WORK.store(0, Ordering::Relaxed);
        let before = memory();
        let mut uploads = Vec::new();
        for _ in 0..STREAMS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = match is_upload {
                true => head("POST /api/test/uploads/", &format!("Content-Length: {}\r\n", 50 * MIB)),
                false => head("GET /api/test/pieces/", more),
            };
            stream.write_all(head.as_bytes()).await.unwrap();
            // Sends the amount that the server reads.
            uploads.push(tokio::spawn(async move {
                while is_upload && stream.write_all(chunk).await.is_ok() {}
                // The connection stays open until the test aborts this task.
                tokio::time::sleep(Duration::from_secs(60)).await;
            }));
        }
        eventually(async || AT_WORK.load(Ordering::Relaxed) >= STREAMS).await;
        let mut most = before;
        for _ in 0..40 {
            // The interval at which memory is measured.
            tokio::time::sleep(Duration::from_millis(100)).await;
            most = most.max(memory());
        }
        // Other callers do not wait for them.
        admin.get("/api/users/").await.ok();
        let grown = most - before;
        println!("grown by {} KiB", grown >> 10);
        assert!(grown < MAX_GROWTH, "{} KiB", grown >> 10);
        for task in uploads {
            task.abort();
        }
    }
}
