//! A burst of sign-ins at one build does not delay the users of another (security, promise "builds do not feel each other"). The
//! test measures times, so `reliability/sign-ins` runs it against a release build.

use crate::BINARY;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{ADMIN, Installation, PASSWORD};
use tokio::task::JoinSet;

/// The number of concurrent sign-ins at the busy build.
const BURST: usize = 300;
/// The duration of the burst.
const LASTS: Duration = Duration::from_secs(30);
/// The maximum of the 99th percentile of the other sign-ins.
const PATIENCE: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is timed: reliability/sign-ins"]
async fn a_burst_at_one_build_delays_no_sign_in_at_another() {
    let installation = Installation::with_build(BINARY)
        .set("CHANCERY_TRUSTED_PROXIES", "127.0.0.1")
        .set("CHANCERY_LOCK_ATTEMPTS", "1000000");
    installation.succeeds(&["build", "create", "b.example"]);
    let process = installation.serve();
    let over = Arc::new(AtomicBool::new(false));
    let mut burst = JoinSet::new();
    for n in 0..BURST {
        let (client, over) = (process.client("localhost"), over.clone());
        // Each client has an address of its own, so that limits of addresses do not apply.
        let client = client.with_header("x-forwarded-for", &format!("198.51.{}.{}", 100 + n / 250, n % 250));
        burst.spawn(async move {
            let (username, password) = match n % 3 {
                0 => (ADMIN, PASSWORD),
                1 => (ADMIN, "wrong"),
                _ => ("nobody@example.com", "wrong"),
            };
            let mut statuses = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let reply = client.login(username, password).await;
                statuses.push(reply.status);
                if let Ok(seconds) = reply.header("retry-after").parse() {
                    // A refused client waits for the time that the answer names.
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
            }
            statuses
        });
    }
    // By then, the burst fills the queue.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let honest = process.client("b.example").with_header("x-forwarded-for", "203.0.113.7");
    let (begun, mut sign_ins, mut calls, mut refused) = (Instant::now(), Vec::new(), Vec::new(), 0);
    while begun.elapsed() < LASTS {
        let at = Instant::now();
        refused += usize::from(honest.login(ADMIN, PASSWORD).await.status != 200);
        sign_ins.push(at.elapsed());
        let at = Instant::now();
        honest.get("/api/security/").await.ok();
        calls.push(at.elapsed());
    }
    over.store(true, Ordering::Relaxed);
    let mut statuses = BTreeMap::new();
    for status in burst.join_all().await.into_iter().flatten() {
        *statuses.entry(status).or_insert(0) += 1;
    }
    let p99 = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() * 99 / 100]
    };
    let (count, sign_in, call) = (sign_ins.len(), p99(&mut sign_ins), p99(&mut calls));
    println!(
        "{BURST} at one build, answered {statuses:?}; at another {count} sign-ins, {refused} refused, \
         p99 {:.1} ms, and calls, p99 {:.1} ms",
        sign_in.as_secs_f64() * 1000.0,
        call.as_secs_f64() * 1000.0
    );
    assert!(statuses.keys().all(|status| matches!(status, 200 | 401 | 429 | 503)), "{statuses:?}");
    assert!(statuses.values().sum::<i32>() > 300, "the burst is served, too: {statuses:?}");
    assert_eq!(refused, 0);
    assert!(sign_in <= PATIENCE && call <= PATIENCE);
}
