//! Passwords: slow hashing on threads of its own, and the complexity rules.
//!
//! A hash takes some 50 ms and 19 MiB (security.md, row "passwords"), so it neither runs on the threads that serve
//! requests nor in unbounded numbers: as many run at once as there are threads, and a bounded number waits. They take
//! turns: the builds, and in a build the networks that its requests come from (document 4, section 7, "attempts of one
//! address").

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, PasswordVerifier, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::attempts::{name, networks};
use crate::fair_queue::FairQueue;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use web::clock::random_bytes;

/// How many hashes wait for a thread before more are refused.
const QUEUE: usize = 512;
/// How many of one build do.
const QUEUE_OF_A_BUILD: usize = 256;
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const DIGEST_BYTES: usize = 32;

/// Verified when there is no hash, with the same cost as a real one. Its digest is not one of any known password.
const DUMMY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Too many hashes wait already. The caller answers 503; nothing was learned or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl From<Busy> for Refusal {
    fn from(_: Busy) -> Refusal {
        Refusal::busy("The server is busy. Please try again.")
    }
}

/// Whose turn a hash takes: a build's, and in it that of a network (of IPv6 a /48, and in it a /64).
#[derive(Clone, Debug)]
pub struct Turn([String; 3]);

impl Turn {
    /// The turn of who sent the request.
    pub fn of(request: &Request) -> Turn {
        Turn::at(&request.build.uid, request.address)
    }

    fn at(build: &str, address: IpAddr) -> Turn {
        let mut networks = networks(address).into_iter();
        let narrow = networks.next().map_or_else(String::new, |network| name(&network));
        // An address of IPv4 has no wider network: it is one of its own among them.
        let wide = networks.next().map_or_else(|| narrow.clone(), |network| name(&network));
        Turn([build.to_owned(), wide, narrow])
    }

    /// The turn of a command.
    pub fn of_operator(build: &Build) -> Turn {
        Turn([build.uid.clone(), String::new(), String::new()])
    }
}

/// Hashes and verifies passwords by argon2id (m = 19456 KiB, t = 2, p = 1). Clones share the threads, which end with the
/// last clone.
#[derive(Clone)]
pub struct Hasher(Arc<Door>);

/// Where jobs come in; closed when it is dropped.
struct Door(Arc<Queue>);

struct Queue {
    waiting: Mutex<Waiting>,
    has_come: Condvar,
}

struct Waiting {
    jobs: FairQueue<Job>,
    is_closed: bool,
}

type Job = Box<dyn FnOnce() + Send>;

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, waited for; none when no more will come.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.lock();
        loop {
            match waiting.jobs.pop() {
                None if waiting.is_closed => return None,
                None => waiting = self.has_come.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                job => return job,
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.has_come.notify_all();
    }
}

impl Hasher {
    /// Starts the threads; at most so many hashes run at once, each with 19 MiB that are freed when it ends.
    ///
    /// # Panics
    /// When the system gives no thread, at the start of the process.
    pub fn start(threads: usize) -> Hasher {
        let jobs = FairQueue::new(QUEUE, QUEUE_OF_A_BUILD);
        let waiting = Mutex::new(Waiting { jobs, is_closed: false });
        let queue = Arc::new(Queue { waiting, has_come: Condvar::new() });
        for _ in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name("password".into())
                .spawn(move || work(&queue))
                .expect("a thread for hashing passwords starts");
        }
        Hasher(Arc::new(Door(queue)))
    }

    /// The PHC string (`$argon2id$v=19$…`) of a password under a new random salt.
    pub async fn hash(&self, turn: &Turn, password: String) -> Result<String, Busy> {
        self.run(turn, move || {
            let salt = random_bytes::<16>();
            let hash = argon2().hash_password_with_salt(password.as_bytes(), &salt);
            hash.expect("parameters and salt are valid").to_string()
        })
        .await
    }

    /// Whether the password is that of the PHC string. `None`, or a string that is none, takes the time of a real one
    /// and is false, so that an unknown user cannot be told from a wrong password.
    pub async fn verify(&self, turn: &Turn, password: String, hash: Option<String>) -> Result<bool, Busy> {
        self.run(turn, move || {
            use argon2::password_hash::phc::PasswordHash;
            let hash = hash.as_deref().and_then(|text| PasswordHash::new(text).ok());
            let known = hash.is_some();
            let hash = hash.unwrap_or_else(|| PasswordHash::new(DUMMY).expect("the dummy is a PHC string"));
            argon2().verify_password(password.as_bytes(), &hash).is_ok() && known
        })
        .await
    }

    /// A digest of the password under a given salt, as base64. The reuse history keeps these with one salt for each
    /// user, so that one hash is compared with 24 earlier ones. The salt may be any text.
    pub async fn digest(&self, turn: &Turn, password: String, salt: String) -> Result<String, Busy> {
        self.run(turn, move || {
            // argon2 wants at least eight bytes of salt; a digest of it is always as long as that.
            let salt = Sha256::digest(salt.as_bytes());
            let mut digest = [0; DIGEST_BYTES];
            argon2()
                .hash_password_into(password.as_bytes(), &salt, &mut digest)
                .expect("parameters and salt are valid");
            STANDARD_NO_PAD.encode(digest)
        })
        .await
    }

    async fn run<T: Send + 'static>(&self, turn: &Turn, hash: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            // A hash that nobody waits for any more is not worth its time.
            if !answer.is_closed() {
                let _ = answer.send(hash());
            }
        });
        let queue = &self.0.0;
        // Whoever had to go learns it by the end of his channel.
        let gone = queue.lock().jobs.push(&turn.0, job);
        drop(gone);
        queue.has_come.notify_one();
        answered.await.map_err(|_| Busy)
    }
}

fn work(queue: &Queue) {
    while let Some(job) = queue.next() {
        // A hash that panics (no memory) must not take its thread along; its caller is told that we are busy.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a password hash panicked");
        }
    }
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(DIGEST_BYTES)).expect("the parameters are valid");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// The password rules of a build (document 1, security resource). Zero, or less, switches a rule off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Complexity {
    /// The most times that one character may follow itself, the first included.
    pub max_repeating_chars: i64,
    /// Letters of any script.
    pub min_letters: i64,
    /// Numbers of any script.
    pub min_numbers: i64,
    /// Characters that are neither letter, number nor space.
    pub min_symbols: i64,
    /// Lower-case letters.
    pub min_lower_case: i64,
    /// Upper-case letters.
    pub min_upper_case: i64,
    /// Characters in all.
    pub min_length: i64,
}

impl Complexity {
    /// One message for each broken rule, in the order of the fields (document 4, section 3, rows "complexity messages"
    /// and "what complexity counts"); empty when the password will do.
    pub fn broken(&self, password: &str) -> Vec<String> {
        let count = |counts: fn(char) -> bool| password.chars().filter(|&c| counts(c)).count() as i64;
        let mut messages = Vec::new();
        if self.max_repeating_chars > 0 && longest_run(password) > self.max_repeating_chars {
            messages.push(format!("Max repeating chars {}", self.max_repeating_chars));
        }
        for (name, least, found) in [
            ("letters", self.min_letters, count(char::is_alphabetic)),
            ("numbers", self.min_numbers, count(char::is_numeric)),
            ("symbols", self.min_symbols, count(is_symbol)),
            ("lower case", self.min_lower_case, count(char::is_lowercase)),
            ("upper case", self.min_upper_case, count(char::is_uppercase)),
            ("length", self.min_length, count(|_| true)),
        ] {
            if found < least {
                messages.push(format!("Min {name} {least}"));
            }
        }
        messages
    }
}

fn is_symbol(c: char) -> bool {
    !c.is_alphabetic() && !c.is_numeric() && !c.is_whitespace()
}

/// The most times that one character follows itself.
fn longest_run(text: &str) -> i64 {
    let (mut longest, mut run, mut last) = (0, 0, None);
    for c in text.chars() {
        run = if last == Some(c) { run + 1 } else { 1 };
        longest = longest.max(run);
        last = Some(c);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(build: &str, network: &str) -> Turn {
        Turn([build.to_owned(), String::new(), network.to_owned()])
    }

    fn anybodys() -> Turn {
        turn("a", "192.0.2.1")
    }

    #[test]
    fn each_address_of_ipv4_has_a_turn_as_each_48_of_ipv6_has() {
        let turn = |address: &str| Turn::at("a", address.parse().unwrap()).0;
        let ([_, one, _], [_, other, _]) = (turn("192.0.2.1"), turn("192.0.2.2"));
        assert_ne!(one, other);
        let ([_, one, first], [_, same, second]) = (turn("2001:db8:1:1::1"), turn("2001:db8:1:2::1"));
        assert!(one == same && first != second);
    }

    #[tokio::test]
    async fn a_password_verifies_against_its_own_hash_only() {
        let (hasher, turn) = (Hasher::start(2), anybodys());
        let hash = hasher.hash(&turn, "correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hasher.hash(&turn, "correct horse".into()).await.unwrap());
        assert_eq!(hasher.verify(&turn, "correct horse".into(), Some(hash.clone())).await, Ok(true));
        assert_eq!(hasher.verify(&turn, "Correct horse".into(), Some(hash)).await, Ok(false));
    }

    #[tokio::test]
    async fn an_unknown_user_is_hashed_for_all_the_same() {
        let (hasher, turn) = (Hasher::start(1), anybodys());
        assert_eq!(hasher.verify(&turn, "x".into(), None).await, Ok(false));
        assert_eq!(hasher.verify(&turn, "x".into(), Some("not a hash".into())).await, Ok(false));
        // The dummy costs what a real hash costs: the same algorithm, version and parameters.
        let real = hasher.hash(&turn, "x".into()).await.unwrap();
        let settings = |hash: &str| hash.split('$').take(4).collect::<Vec<_>>().join("$");
        assert_eq!(settings(DUMMY), settings(&real));
        assert_eq!(DUMMY.len(), real.len());
    }

    #[tokio::test]
    async fn a_digest_repeats_for_the_same_salt() {
        let (hasher, turn) = (Hasher::start(2), anybodys());
        let digest = hasher.digest(&turn, "secret".into(), "7".into()).await.unwrap();
        assert_eq!(digest, hasher.digest(&turn, "secret".into(), "7".into()).await.unwrap());
        assert_ne!(digest, hasher.digest(&turn, "secret".into(), "8".into()).await.unwrap());
        assert_ne!(digest, hasher.digest(&turn, "Secret".into(), "7".into()).await.unwrap());
    }

    /// A hasher whose only thread is held until the sender is dropped.
    async fn held() -> (Hasher, std::sync::mpsc::Sender<()>) {
        let hasher = Hasher::start(1);
        let (started, has_started) = oneshot::channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let blocker = hasher.clone();
        tokio::spawn(async move {
            let block = move || {
                let _ = started.send(());
                let _ = held.recv();
            };
            blocker.run(&turn("blocker", ""), block).await
        });
        has_started.await.unwrap();
        (hasher, release)
    }

    /// Lets a job of this turn wait, which says its name when it is served; what becomes of it.
    async fn wait_in_line(
        hasher: &Hasher,
        turn: Turn,
        served: &Arc<Mutex<Vec<String>>>,
    ) -> tokio::task::JoinHandle<Result<(), Busy>> {
        let (waiting, served) = (hasher.clone(), served.clone());
        let whose = turn.0[0].clone();
        let job = tokio::spawn(async move { waiting.run(&turn, move || served.lock().unwrap().push(whose)).await });
        // On the one thread of the test it runs now, until it waits.
        tokio::task::yield_now().await;
        job
    }

    #[tokio::test]
    async fn a_panic_leaves_the_thread_alive() {
        let hasher = Hasher::start(1);
        assert_eq!(hasher.run(&anybodys(), || panic!("no memory")).await, Err::<(), _>(Busy));
        assert_eq!(hasher.run(&anybodys(), || 5).await, Ok(5));
    }

    #[tokio::test]
    async fn a_burst_at_one_build_keeps_another_waiting_for_one_hash() {
        let (hasher, release) = held().await;
        let (served, mut jobs) = (Arc::default(), Vec::new());
        for n in 0..200 {
            jobs.push(wait_in_line(&hasher, turn("burst", &format!("192.0.2.{n}")), &served).await);
        }
        jobs.push(wait_in_line(&hasher, turn("other", "198.51.100.1"), &served).await);
        drop(release);
        for job in jobs {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        let served = served.lock().unwrap();
        assert_eq!((served.len(), &served[..3]), (201, &["burst", "other", "burst"].map(str::to_owned)[..]));
    }

    #[tokio::test]
    async fn a_queue_that_is_full_for_one_build_has_room_for_another() {
        let (hasher, release) = held().await;
        let (served, mut jobs) = (Arc::default(), Vec::new());
        for _ in 0..QUEUE_OF_A_BUILD {
            jobs.push(wait_in_line(&hasher, anybodys(), &served).await);
        }
        assert_eq!(hasher.hash(&anybodys(), "x".into()).await, Err(Busy));
        jobs.push(wait_in_line(&hasher, turn("b", "192.0.2.1"), &served).await);
        // Somebody else of the same build takes the place of the last of whoever has most.
        jobs.push(wait_in_line(&hasher, turn("a", "192.0.2.2"), &served).await);
        assert_eq!(jobs.remove(QUEUE_OF_A_BUILD - 1).await.unwrap(), Err(Busy));
        drop(release);
        for job in jobs {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
    }

    #[test]
    fn each_broken_rule_has_its_message_in_order() {
        let rules = Complexity {
            max_repeating_chars: 2,
            min_letters: 4,
            min_numbers: 1,
            min_symbols: 1,
            min_lower_case: 2,
            min_upper_case: 1,
            min_length: 8,
        };
        assert_eq!(rules.broken("Aab1!xyz"), Vec::<String>::new());
        assert_eq!(
            rules.broken("   "),
            [
                "Max repeating chars 2",
                "Min letters 4",
                "Min numbers 1",
                "Min symbols 1",
                "Min lower case 2",
                "Min upper case 1",
                "Min length 8"
            ]
        );
    }

    #[test]
    fn counting_follows_unicode() {
        let letters = Complexity { min_letters: 3, ..Complexity::default() };
        assert!(letters.broken("éßж").is_empty());
        let numbers = Complexity { min_numbers: 1, ..Complexity::default() };
        assert!(numbers.broken("٣").is_empty());
        let upper = Complexity { min_upper_case: 1, ..Complexity::default() };
        assert!(upper.broken("Ж").is_empty());
        assert_eq!(upper.broken("ж"), ["Min upper case 1"]);
        let symbols = Complexity { min_symbols: 1, ..Complexity::default() };
        assert!(symbols.broken("😀").is_empty());
        assert_eq!(symbols.broken("a 1"), ["Min symbols 1"]);
        let length = Complexity { min_length: 3, ..Complexity::default() };
        assert!(length.broken("äöü").is_empty());
    }

    #[test]
    fn zero_switches_a_rule_off_and_runs_need_the_same_character() {
        assert!(Complexity::default().broken("").is_empty());
        let runs = Complexity { max_repeating_chars: 1, ..Complexity::default() };
        assert!(runs.broken("ababAa").is_empty());
        assert_eq!(runs.broken("abba"), ["Max repeating chars 1"]);
    }
}
