//! Whoever guesses learns nothing: no answer tells an account that there is from one that there is not, neither by its
//! bytes nor by its time. Times are compared by `reliability/guessing` alone.

use crate::TestServer;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, Reply, eventually, without_its_id};

/// How far the medians may be apart.
const TOLERANCE: f64 = 0.05;
/// The machine may have been busy with something else.
const ATTEMPTS: usize = 3;

/// Nobody, and somebody in each state that tells something; each is called by the state.
const PEOPLE: [&str; 5] = ["nobody", "active", "locked", "inactive", "sso"];

fn username(who: &str) -> String {
    format!("{who}@example.com")
}

/// Where one may guess.
#[derive(Clone, Copy, Debug)]
enum GuessTarget {
    Login,
    Reset,
    SingleSignOn,
}

impl GuessTarget {
    const ALL: [GuessTarget; 3] = [GuessTarget::Login, GuessTarget::Reset, GuessTarget::SingleSignOn];

    /// So many answers have a median that stays the same: a hash takes its time, and the others are soon there.
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

/// A server with these people, on which further guesses lock nobody and no address has to wait.
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

/// The hashes of a build wait behind each other, and not in front of another build's.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_sign_ins_at_one_build_keeps_no_other_waiting() {
    let server = TestServer::start_with(|config| {
        (config.identity.address_attempts, config.identity.lock_attempts) = (0, 1_000_000);
        // Cheap ones would not wait for each other.
        config.identity.hash_cost = Default::default();
    })
    .await;
    let other = server.build("b.example").await;
    let client = server.anonymous();
    let (served, refused, is_over) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    // More at a time than may wait.
    let burst: Vec<_> = (0..300)
        .map(|_| {
            let (client, served, refused) = (client.clone(), served.clone(), refused.clone());
            let is_over = is_over.clone();
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let reply = client.login(ADMIN, "wrong").await;
                    if reply.status == 503 {
                        assert_eq!(reply.header("retry-after"), "1");
                        reply.expect_reply(503, json!({"detail": "The server is busy. Please try again."}));
                        refused.fetch_add(1, Ordering::Relaxed);
                        // A client that was turned away does not come back at once.
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
        refused.load(Ordering::Relaxed) > 0
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

/// The median of each person's answers, in milliseconds.
async fn medians(client: &ApiClient, way: GuessTarget) -> [f64; PEOPLE.len()] {
    let mut times = [const { Vec::new() }; PEOPLE.len()];
    for round in 0..way.samples() {
        // What one request leaves to be done may slow the next, so that everybody comes after everybody else as often.
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

/// How far the greatest is above the least.
fn spread(medians: &[f64]) -> f64 {
    let (least, greatest) = medians.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
    greatest / least - 1.0
}
