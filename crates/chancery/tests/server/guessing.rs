//! Guesses reveal nothing: answers for an existing account and for a missing one have the same bytes and the same time. Only
//! `reliability/guessing` compares times.

use crate::TestServer;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, Reply, eventually, without_its_id};

/// The maximum relative difference of the medians.
const TOLERANCE: f64 = 0.05;
/// The number of attempts, because the machine can be busy.
const ATTEMPTS: usize = 3;

/// The names of the accounts: one that does not exist, and one in each state that must stay secret.
const PEOPLE: [&str; 5] = ["nobody", "active", "locked", "inactive", "sso"];

fn username(who: &str) -> String {
    format!("{who}@example.com")
}

/// The targets of guesses.
#[derive(Clone, Copy, Debug)]
enum GuessTarget {
    Login,
    Reset,
    SingleSignOn,
}

impl GuessTarget {
    const ALL: [GuessTarget; 3] = [GuessTarget::Login, GuessTarget::Reset, GuessTarget::SingleSignOn];

    /// Returns the number of answers for a stable median. A hash is slow, the other answers are fast.
    fn samples(self) -> usize {
        if matches!(self, GuessTarget::Login) { 300 } else { 3000 }
    }

    async fn guess(self, client: &ApiClient, who: &str) -> Reply {
        let username = username(who);
        match self {
            GuessTarget::Login => client.login(&username, "a wrong guess").await,
            GuessTarget::Reset => client.post("/api/auth/password-reset/", json!({"username": username})).await,
            GuessTarget::SingleSignOn => client.get(&format!("/api/single-sign-on/login/?username={username}")).await,
        }
    }
}

/// Starts a server with these accounts. Guesses neither lock an account nor delay an address.
async fn serve() -> (Installation, Process) {
    let installation = Installation::with_build(crate::BINARY).set("CHANCERY_ADDRESS_ATTEMPTS", "1000000");
    for who in &PEOPLE[1..] {
        let (username, account_type) = (username(who), if *who == "sso" { "external" } else { "internal" });
        let account = ["user", "create", "--build", "localhost", "--username", &username, "--account-type"];
        installation.succeeds(&[&account[..], &[account_type, "--password", PASSWORD]].concat());
    }
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let inactive = api.get("/api/users/?username=inactive@example.com").await.ids()[0];
    api.post(&format!("/api/users/{inactive}/deactivate/"), json!({})).await.ok();
    api.patch("/api/security/", json!({"authentication_method": {"external": "sso"}})).await.ok();
    for _ in 0..5 {
        process.client("localhost").login(&username("locked"), "wrong").await.expect(401);
    }
    process.stop();
    let installation = installation.set("CHANCERY_LOCK_ATTEMPTS", "1000000");
    let process = installation.serve();
    process.client("localhost").login(&username("locked"), PASSWORD).await.expect(401);
    (installation, process)
}

#[tokio::test]
async fn no_answer_tells_who_there_is() {
    let (_installation, process) = serve().await;
    let client = process.client("localhost");
    for way in GuessTarget::ALL {
        let nobody = without_its_id(way.guess(&client, "nobody").await);
        for who in &PEOPLE[1..] {
            assert_eq!(without_its_id(way.guess(&client, who).await), nobody, "{way:?} as {who}");
        }
    }
}

/// The hashes of a build wait for each other, and do not delay the hashes of another build.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_sign_ins_at_one_build_keeps_no_other_waiting() {
    let server = TestServer::start_with(|config| {
        (config.identity.address_attempts, config.identity.lock_attempts) = (0, 1_000_000);
        // Cheap hashes would not wait for each other.
        config.identity.hash_cost = Default::default();
    })
    .await;
    let other = server.build("b.example").await;
    let client = server.anonymous();
    let (served, refused, is_over) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    // The number exceeds the waiting sign-ins that are permitted. An unknown account costs a hash of this server. The stored hash
    // of an account may be a cheap one, of the server that made the build.
    let burst: Vec<_> = (0..300)
        .map(|_| {
            let (client, served, refused) = (client.clone(), served.clone(), refused.clone());
            let is_over = is_over.clone();
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let reply = client.login("nobody@example.com", "wrong").await;
                    if reply.status == 503 {
                        assert_eq!(reply.header("retry-after"), "1");
                        reply.expect_reply(503, json!({"detail": "The server is busy. Please try again."}));
                        refused.fetch_add(1, Ordering::Relaxed);
                        // A refused client waits before its next attempt.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    } else {
                        reply.expect(401);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    eventually(async || {
        assert!(burst.iter().all(|task| !task.is_finished()), "a sign-in of the burst was answered otherwise");
        let served = served.load(Ordering::Relaxed);
        if refused.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err(format!("{served} were served, none refused")) }
    })
    .await;
    let mut ahead = Vec::new();
    for _ in 0..5 {
        let before = served.load(Ordering::Relaxed);
        other.anonymous().login(ADMIN, PASSWORD).await.ok();
        ahead.push(served.load(Ordering::Relaxed) - before);
    }
    is_over.store(true, Ordering::Relaxed);
    for task in burst {
        task.await.unwrap();
    }
    ahead.sort_unstable();
    assert!(ahead[2] <= 12, "sign-ins of the burst that were answered while another build's was waiting: {ahead:?}");
}

#[tokio::test]
#[ignore = "it is timed: reliability/guessing"]
async fn no_time_tells_who_there_is() {
    let (_installation, process) = serve().await;
    let client = process.client("localhost");
    for way in GuessTarget::ALL {
        let mut spreads = Vec::new();
        for _ in 0..ATTEMPTS {
            spreads.push(spread(&medians(&client, way).await));
            if spreads.last().is_some_and(|spread| *spread <= TOLERANCE) {
                break;
            }
        }
        assert!(spreads.last().is_some_and(|spread| *spread <= TOLERANCE), "{way:?} tells who there is: {spreads:?}");
    }
}

/// Returns the median time of each account's answers in milliseconds.
async fn medians(client: &ApiClient, way: GuessTarget) -> [f64; PEOPLE.len()] {
    let mut times = [const { Vec::new() }; PEOPLE.len()];
    for round in 0..way.samples() {
        // The after-effects of a request can slow the next one, so every account follows every other equally often.
        for n in 0..PEOPLE.len() {
            let who = (n * (1 + round % (PEOPLE.len() - 1)) + round) % PEOPLE.len();
            let begun = Instant::now();
            way.guess(client, PEOPLE[who]).await;
            times[who].push(begun.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[way.samples() / 2]
    });
    let told: Vec<String> = PEOPLE.iter().zip(medians).map(|(who, median)| format!("{who} {median:.3} ms")).collect();
    println!("{way:?}: {}; {:.1} % apart", told.join(", "), spread(&medians) * 100.0);
    medians
}

/// Returns the relative difference of the greatest and the least.
fn spread(medians: &[f64]) -> f64 {
    let (least, greatest) = medians.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
    greatest / least - 1.0
}
