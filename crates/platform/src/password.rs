//! Passwords: slow hashing on threads of its own, and the complexity rules.
//!
//! A hash takes some 50 ms and 19 MiB (security.md, row "passwords"), so it neither runs on the threads that serve
//! requests nor in unbounded numbers: as many run at once as there are threads, 256 wait, and the next is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, PasswordVerifier, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::clock::random_bytes;

/// How many hashes wait for a thread before more are refused.
const QUEUE: usize = 256;
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const DIGEST_BYTES: usize = 32;

/// Verified when there is no hash, with the same cost as a real one. Its digest is not one of any known password.
const DUMMY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Too many hashes wait already. The caller answers 503; nothing was learned or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Hashes and verifies passwords by argon2id (m = 19456 KiB, t = 2, p = 1). Clones share the threads, which end with the
/// last clone.
#[derive(Clone)]
pub struct Hasher {
    queue: SyncSender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Hasher {
    /// Starts the threads; at most so many hashes run at once, each with 19 MiB that are freed when it ends.
    ///
    /// # Panics
    /// When the system gives no thread, at the start of the process.
    pub fn start(threads: usize) -> Hasher {
        let (queue, jobs) = sync_channel::<Job>(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..threads.max(1) {
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new()
                .name("password".into())
                .spawn(move || work(&jobs))
                .expect("a thread for hashing passwords starts");
        }
        Hasher { queue }
    }

    /// The PHC string (`$argon2id$v=19$…`) of a password under a new random salt.
    pub async fn hash(&self, password: String) -> Result<String, Busy> {
        self.run(move || {
            let salt = random_bytes::<16>();
            let hash = argon2().hash_password_with_salt(password.as_bytes(), &salt);
            hash.expect("parameters and salt are valid").to_string()
        })
        .await
    }

    /// Whether the password is that of the PHC string. `None`, or a string that is none, takes the time of a real one
    /// and is false, so that an unknown user cannot be told from a wrong password.
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Busy> {
        self.run(move || {
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
    pub async fn digest(&self, password: String, salt: String) -> Result<String, Busy> {
        self.run(move || {
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

    async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            // Nobody waits any more when the client has hung up: a flood that does not wait costs no hashing.
            if !answer.is_closed() {
                let _ = answer.send(hash());
            }
        });
        self.queue.try_send(job).map_err(|_| Busy)?;
        answered.await.map_err(|_| Busy)
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
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

    #[tokio::test]
    async fn a_password_verifies_against_its_own_hash_only() {
        let hasher = Hasher::start(2);
        let hash = hasher.hash("correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hasher.hash("correct horse".into()).await.unwrap());
        assert_eq!(hasher.verify("correct horse".into(), Some(hash.clone())).await, Ok(true));
        assert_eq!(hasher.verify("Correct horse".into(), Some(hash)).await, Ok(false));
    }

    #[tokio::test]
    async fn an_unknown_user_is_hashed_for_all_the_same() {
        let hasher = Hasher::start(1);
        assert_eq!(hasher.verify("x".into(), None).await, Ok(false));
        assert_eq!(hasher.verify("x".into(), Some("not a hash".into())).await, Ok(false));
        // The dummy costs what a real hash costs: the same algorithm, version and parameters.
        let real = hasher.hash("x".into()).await.unwrap();
        let settings = |hash: &str| hash.split('$').take(4).collect::<Vec<_>>().join("$");
        assert_eq!(settings(DUMMY), settings(&real));
        assert_eq!(DUMMY.len(), real.len());
    }

    #[tokio::test]
    async fn a_digest_repeats_for_the_same_salt() {
        let hasher = Hasher::start(2);
        let digest = hasher.digest("secret".into(), "7".into()).await.unwrap();
        assert_eq!(digest, hasher.digest("secret".into(), "7".into()).await.unwrap());
        assert_ne!(digest, hasher.digest("secret".into(), "8".into()).await.unwrap());
        assert_ne!(digest, hasher.digest("Secret".into(), "7".into()).await.unwrap());
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_panic_leaves_the_thread_alive() {
        let hasher = Hasher::start(1);
        assert_eq!(hasher.run(|| panic!("no memory")).await, Err::<(), _>(Busy));

        let (started, has_started) = oneshot::channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let blocker = hasher.clone();
        let blocked = tokio::spawn(async move {
            blocker
                .run(move || {
                    let _ = started.send(());
                    let _ = held.recv();
                })
                .await
        });
        has_started.await.unwrap();
        for _ in 0..QUEUE {
            hasher.queue.try_send(Box::new(|| ())).unwrap();
        }
        assert_eq!(hasher.hash("x".into()).await, Err(Busy));
        release.send(()).unwrap();
        assert_eq!(blocked.await.unwrap(), Ok(()));
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
