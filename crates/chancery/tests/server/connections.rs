//! The service beside connections that do nothing: half-sent headers, idle connections, slow bodies. `reliability/connections`
//! tests it with thousands of connections against a release build.

use crate::BINARY;
use serde_json::json;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The maximum time of half-sent headers: ten seconds, and a margin for a busy machine.
const REAPED: Duration = Duration::from_secs(15);

/// The minimum time of an accepted connection. A shorter one was refused.
const HELD: Duration = Duration::from_secs(5);

/// The number of connections of each kind.
struct ConnectionCounts {
    half_sent: usize,
    idle: usize,
    slow: usize,
}

/// The results of a load.
struct LoadResult {
    /// The number of half-sent headers and idle connections that were refused.
    turned_away: usize,
    /// The time until the last half-sent header was closed.
    reaped: Duration,
    /// The number of idle connections that were still open then, because proxies use such connections.
    idle: usize,
    /// The times of ordinary calls, sorted.
    honest: Vec<Duration>,
    /// The growth of the process in MiB.
    growth: u64,
}

/// Opens a connection, sends this, and waits for its end. Returns the time from then on.
async fn hold_connection(address: SocketAddr, sent: &'static str) -> Duration {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let begun = Instant::now();
    // A reset counts as an end, too, even of a connection that is refused before this is sent.
    if stream.write_all(sent.as_bytes()).await.is_ok() {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    begun.elapsed()
}

/// Sends one byte of a body per second.
async fn send_slow_body(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /api/auth/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await;
    while stream.write_all(b" ").await.is_ok() {
        // The client is slow.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Sends ordinary calls, one after the other, until `done`. Returns their times.
async fn honest(client: ApiClient, done: tokio::sync::watch::Receiver<bool>) -> Vec<Duration> {
    let mut times = Vec::new();
    while !*done.borrow() {
        let begun = Instant::now();
        client.get("/api/users/me/").await.ok();
        times.push(begun.elapsed());
        // A client pauses between its calls.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    times
}

async fn hold_all(counts: ConnectionCounts) -> LoadResult {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve();
    let client = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let (before, address) = (process.peak_memory(), process.api());
    let (tell, done) = tokio::sync::watch::channel(false);
    let honest = tokio::spawn(honest(client.clone(), done));

    let (mut waiting, mut idle, mut dripping) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    (0..counts.slow).for_each(|_| drop(dripping.spawn(send_slow_body(address))));
    (0..counts.half_sent)
        .for_each(|_| drop(waiting.spawn(hold_connection(address, "GET /api/users/me/ HTTP/1.1\r\nHost: loc"))));
    (0..counts.idle)
        .for_each(|_| drop(idle.spawn(hold_connection(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))));
    let lasted = waiting.join_all().await;
    let mut turned_away = lasted.iter().filter(|lasted| **lasted < HELD).count();
    while let Some(ended) = idle.try_join_next() {
        turned_away += usize::from(ended.unwrap() < HELD);
    }
    let still_idle = idle.len();
    let reaped = lasted.into_iter().max().unwrap_or_default();
    drop(dripping.join_all().await);
    tell.send_replace(true);
    let mut honest = honest.await.unwrap();
    honest.sort();
    client.patch("/api/users/me/", json!({})).await.ok();
    LoadResult { turned_away, reaped, idle: still_idle, honest, growth: process.peak_memory().saturating_sub(before) }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_held_for_nothing_end_and_disturb_nobody() {
    let seen = hold_all(ConnectionCounts { half_sent: 200, idle: 200, slow: 20 }).await;
    assert!(seen.reaped >= Duration::from_secs(9) && seen.growth < 256, "{:?} {} MiB", seen.reaped, seen.growth);
    assert!(seen.turned_away == 0 && seen.idle == 200 && !seen.honest.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is timed and needs many file descriptors: reliability/connections"]
async fn thousands_of_connections_end_within_15_seconds_and_disturb_nobody() {
    let result = hold_all(ConnectionCounts { half_sent: 5000, idle: 5000, slow: 200 }).await;
    let p99 = result.honest[result.honest.len() * 99 / 100];
    println!(
        "half-sent headers gone after {:.1} s, {} idle connections still open, {} turned away; {} honest calls, p99 {:.1} ms; memory grew by \
         {} MiB",
        result.reaped.as_secs_f64(),
        result.idle,
        result.turned_away,
        result.honest.len(),
        p99.as_secs_f64() * 1000.0,
        result.growth
    );
    assert_eq!(result.turned_away, 0);
    assert!(result.reaped <= REAPED && p99 <= Duration::from_millis(250) && result.growth <= 256);
}

/// Returns an address of this machine that is not loopback, because peers on loopback have no limit. `None` if there is none.
fn own_address() -> Option<IpAddr> {
    // Connecting a UDP socket sends nothing.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Opens one connection after the other and leaves each open until the server closes it or the test ends.
async fn open_many_connections(address: SocketAddr, open: Arc<AtomicUsize>, most: Arc<AtomicUsize>) {
    loop {
        let begun = Instant::now();
        if let Ok(mut stream) = TcpStream::connect(address).await {
            most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            let _ = stream.write_all(b"GET /api/users/me/ HTTP/1.1\r\nHost: loc").await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            open.fetch_sub(1, Ordering::Relaxed);
        }
        if begun.elapsed() < Duration::from_secs(1) {
            // A refused client waits before its next attempt.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Sends a call over a connection of its own. Returns its time, or `None` if it was not served.
async fn call_anew(address: SocketAddr) -> Option<Duration> {
    let begun = Instant::now();
    let call = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = "GET /api/security/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        answer.starts_with(b"HTTP/1.1 200 ").then_some(())
    };
    tokio::time::timeout(Duration::from_secs(10), call).await.ok()??;
    Some(begun.elapsed())
}

/// Runs one peer that requests all connections of a server with this number of descriptors. Returns the times of other calls,
/// sorted.
async fn one_peer_wants_all(descriptors: u32, connection_count: usize, lasts: Duration) -> Option<Vec<Duration>> {
    let Some(address) = own_address() else {
        println!("SKIPPED: this machine has no address but loopback, which is not bounded");
        return None;
    };
    let installation = Installation::with_build(BINARY).listening_at("0.0.0.0:0").with_descriptors(descriptors);
    let process = installation.serve();
    let port = process.api().port();
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut hogs = JoinSet::new();
    for _ in 0..connection_count {
        hogs.spawn(open_many_connections(SocketAddr::new(address, port), open.clone(), most.clone()));
    }
    // By then, the peer has the maximum number of its connections.
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Loopback is another peer.
    let (begun, mut times, mut unserved) = (Instant::now(), Vec::new(), 0);
    while begun.elapsed() < lasts {
        match call_anew(SocketAddr::from(([127, 0, 0, 1], port))).await {
            Some(time) => times.push(time),
            None => unserved += 1,
        }
        // A client pauses between its calls.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    hogs.abort_all();
    times.sort();
    println!(
        "{descriptors} descriptors, one peer with up to {} connections of {connection_count}; {} honest calls on new connections, \
         p99 {:.1} ms, {unserved} not served",
        most.load(Ordering::Relaxed),
        times.len(),
        times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    );
    assert_eq!(unserved, 0);
    assert!(times.len() > 10 && open.load(Ordering::Relaxed) > 0);
    Some(times)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_peer_does_not_close_the_door_to_others() {
    one_peer_wants_all(256, 400, Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is timed and needs many file descriptors: reliability/descriptors"]
async fn with_1024_descriptors_one_peer_does_not_close_the_door_to_others() {
    let Some(times) = one_peer_wants_all(1024, 3000, Duration::from_secs(20)).await else { return };
    assert!(times[times.len() * 99 / 100] <= Duration::from_millis(250));
}
