//! Passwords: slow hashing on its own threads, and the complexity rules.
//!
//! A hash takes about 50 ms and 19 MiB. Hashes therefore run on a pool of threads, one hash per thread, and the number of waiting
//! hashes is bounded. The queue serves the builds in turn, and within a build the networks of its clients
//! (`docs/reference/sign-in.md`).

use crate::attempts::{network_name, networks_of};
use crate::fair_queue::FairQueue;
use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, PasswordVerifier, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use web::clock::random_bytes;
use web::metrics::{Counter, Gauge, MetricsText};

/// The maximum number of hashes that wait for a thread.
const MAX_WAITING: usize = 512;
/// The maximum number of hashes of one build that wait for a thread.
const MAX_WAITING_OF_BUILD: usize = 256;
const LANES: u32 = 1;
const DIGEST_BYTES: usize = 32;

/// The cost of a new hash by argon2id. A stored hash contains its own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashCost {
    memory_kib: u32,
    passes: u32,
}

impl HashCost {
    /// The lowest cost, for tests that need a hash and not its cost.
    pub const LEAST: HashCost = HashCost { memory_kib: 8, passes: 1 };

    fn argon2(self) -> Argon2<'static> {
        let params = Params::new(self.memory_kib, self.passes, LANES, Some(DIGEST_BYTES));
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params.expect("the parameters are valid"))
    }

    /// Returns the PHC string that is verified when an account has no hash, at the cost of a real one. No known password has its
    /// digest.
    fn dummy_hash(self) -> String {
        let HashCost { memory_kib, passes } = self;
        let (salt, digest) = ("A".repeat(22), "A".repeat(43));
        format!("$argon2id$v=19$m={memory_kib},t={passes},p={LANES}${salt}${digest}")
    }
}

impl Default for HashCost {
    /// Returns the cost in operation: 42 to 97 ms of a processor.
    fn default() -> HashCost {
        HashCost { memory_kib: 19_456, passes: 2 }
    }
}

/// The refusal of a hash because too many hashes wait: 503. Nothing was checked or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl From<Busy> for Refusal {
    fn from(_: Busy) -> Refusal {
        Refusal::service_busy("The server is busy. Please try again.")
    }
}

/// The path under which a hash waits: its build, and within it the network of the client (of IPv6 the /48, then the /64).
#[derive(Clone, Debug)]
pub struct QueuePath([String; 3]);

impl QueuePath {
    /// Returns the path of a request.
    pub fn request_path(request: &Request) -> QueuePath {
        QueuePath::new(&request.build.uid, request.address)
    }

    fn new(build: &str, address: IpAddr) -> QueuePath {
        let mut networks = networks_of(address).into_iter();
        let narrow = networks.next().map_or_else(String::new, |network| network_name(&network));
        // An IPv4 address does not have a wider network, so its narrow network replaces the wider one.
        let wide = networks.next().map_or_else(|| narrow.clone(), |network| network_name(&network));
        QueuePath([build.to_owned(), wide, narrow])
    }

    /// Returns the path of an operator's command.
    pub fn operator_path(build: &Build) -> QueuePath {
        QueuePath([build.uid.clone(), String::new(), String::new()])
    }
}

/// A pool of threads that hash and verify passwords by argon2id (m = 19456 KiB, t = 2, p = 1). Clones share the
/// threads, which end with the last clone.
#[derive(Clone)]
pub struct Hasher {
    owner: Arc<QueueOwner>,
    cost: HashCost,
}

/// The side of the queue that adds jobs. Dropping it ends the threads.
struct QueueOwner(Arc<HashQueue>);

struct HashQueue {
    waiting: Mutex<QueuedHash>,
    changed: Condvar,
    running: Gauge,
    done: Counter,
    refused: Counter,
}

struct QueuedHash {
    jobs: FairQueue<HashTask>,
    is_closed: bool,
}

type HashTask = Box<dyn FnOnce() + Send>;

impl HashQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedHash> {
        web::lock(&self.waiting)
    }

    /// Waits for the next job. Returns `None` if the queue is closed and empty.
    fn next(&self) -> Option<HashTask> {
        let mut waiting = self.lock();
        loop {
            match waiting.jobs.pop() {
                None if waiting.is_closed => return None,
                None => waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                job => return job,
            }
        }
    }
}

impl Drop for QueueOwner {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Hasher {
    /// Starts the threads. A running hash of the default cost allocates 19 MiB and frees them when it ends.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn start(threads: usize, cost: HashCost) -> Hasher {
        let jobs = FairQueue::new(MAX_WAITING, MAX_WAITING_OF_BUILD);
        let waiting = Mutex::new(QueuedHash { jobs, is_closed: false });
        let queue = Arc::new(HashQueue {
            waiting,
            changed: Condvar::new(),
            running: Gauge::default(),
            done: Counter::new(),
            refused: Counter::new(),
        });
        for _ in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name("password".into())
                .spawn(move || run_jobs(&queue))
                .expect("a thread for hashing passwords starts");
        }
        Hasher { owner: Arc::new(QueueOwner(queue)), cost }
    }

    /// Returns the PHC string (`$argon2id$v=19$…`) of a password under a new random salt.
    pub async fn hash(&self, path: &QueuePath, password: String) -> Result<String, Busy> {
        let cost = self.cost;
        self.run(path, move || {
            let salt = random_bytes::<16>();
            let hash = cost.argon2().hash_password_with_salt(password.as_bytes(), &salt);
            hash.expect("parameters and salt are valid").to_string()
        })
        .await
    }

    /// Returns whether a password matches a PHC string. `None` and an invalid string return false after the same time, so that a
    /// timing side channel does not reveal unknown users.
    pub async fn verify(&self, path: &QueuePath, password: String, hash: Option<String>) -> Result<bool, Busy> {
        let cost = self.cost;
        self.run(path, move || {
            use argon2::password_hash::phc::PasswordHash;
            let hash = hash.as_deref().and_then(|text| PasswordHash::new(text).ok());
            let is_known = hash.is_some();
            let dummy = cost.dummy_hash();
            let hash = hash.unwrap_or_else(|| PasswordHash::new(&dummy).expect("the dummy is a PHC string"));
            cost.argon2().verify_password(password.as_bytes(), &hash).is_ok() && is_known
        })
        .await
    }

    /// Returns the digest of a password under `salt`, as base64. A user's password history stores digests under one salt, so that
    /// one hash is compared with 24 earlier passwords. The salt may be any text.
    pub async fn digest(&self, path: &QueuePath, password: String, salt: String) -> Result<String, Busy> {
        let cost = self.cost;
        self.run(path, move || {
            // argon2 needs at least eight bytes of salt, so its salt is a digest of the text.
            let salt = Sha256::digest(salt.as_bytes());
            let mut digest = [0; DIGEST_BYTES];
            cost.argon2()
                .hash_password_into(password.as_bytes(), &salt, &mut digest)
                .expect("parameters and salt are valid");
            STANDARD_NO_PAD.encode(digest)
        })
        .await
    }

    /// Writes the metrics of the queue.
    pub fn write_metrics(&self, out: &mut MetricsText) {
        let queue = &self.owner.0;
        let waiting = queue.lock().jobs.len();
        out.single("chancery_hashing_waiting", "gauge", "Password hashes that wait for a thread.", waiting);
        out.single("chancery_hashing_running", "gauge", "Password hashes that run.", queue.running.get());
        out.single("chancery_hashing_done_total", "counter", "Password hashes that ended.", queue.done.get());
        out.single(
            "chancery_hashing_refused_total",
            "counter",
            "Password hashes that a full queue refused.",
            queue.refused.get(),
        );
    }

    async fn run<T: Send + 'static>(
        &self,
        path: &QueuePath,
        hash: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (answer, answered) = oneshot::channel();
        let job: HashTask = Box::new(move || {
            // Skips a hash whose caller has disconnected.
            if !answer.is_closed() {
                let _ = answer.send(hash());
            }
        });
        let queue = &self.owner.0;
        // Dropping the displaced job closes its channel, which wakes its caller. It is dropped outside the lock.
        let displaced = queue.lock().jobs.push(&path.0, job);
        if displaced.is_some() {
            queue.refused.increment();
        }
        drop(displaced);
        queue.changed.notify_one();
        answered.await.map_err(|_| Busy)
    }
}

fn run_jobs(queue: &HashQueue) {
    while let Some(job) = queue.next() {
        queue.running.increment();
        // A hash that panics (out of memory) must not end its thread. Its caller gets `Busy`.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a password hash panicked");
        }
        queue.running.decrement();
        queue.done.increment();
    }
}

/// The password rules of a build (`docs/reference/security-rules.md`). A rule of zero or less is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Complexity {
    /// The maximum length of a run of one character.
    pub max_repeating_chars: i64,
    /// The minimum number of letters, of any script.
    pub min_letters: i64,
    /// The minimum number of numeric characters, of any script.
    pub min_numbers: i64,
    /// The minimum number of characters that are neither letters, numbers nor spaces.
    pub min_symbols: i64,
    pub min_lower_case: i64,
    pub min_upper_case: i64,
    /// The minimum number of characters.
    pub min_length: i64,
}

impl Complexity {
    /// Returns the messages of the rules that a password breaks, in the order of the fields (`docs/reference/security-rules.md`).
    pub fn broken_rules(&self, password: &str) -> Vec<String> {
        let mut messages = Vec::new();
        if self.max_repeating_chars > 0 && longest_run(password) > self.max_repeating_chars {
            messages.push(self.repetition_message());
        }
        for minimum in self.minimum_rules() {
            let count = password.chars().filter(|&c| (minimum.counts)(c)).count() as i64;
            if count < minimum.least {
                messages.push(minimum.message());
            }
        }
        messages
    }

    /// Returns the enabled rules as sentences for people who choose a password. The length comes first.
    pub fn sentences(&self) -> Vec<String> {
        let minima = self.minimum_rules().into_iter().rev().filter(|minimum| minimum.least > 0);
        let mut sentences: Vec<String> = minima.map(|minimum| minimum.rule_text()).collect();
        if self.max_repeating_chars > 0 {
            sentences.push(self.repetition_sentence());
        }
        sentences
    }

    /// Returns the sentence for people that belongs to a message of [`Complexity::broken_rules`].
    pub fn sentence_of(&self, message: &str) -> Option<String> {
        if message == self.repetition_message() {
            return Some(self.repetition_sentence());
        }
        self.minimum_rules().iter().find(|minimum| minimum.message() == message).map(Minimum::rule_text)
    }

    fn repetition_message(&self) -> String {
        format!("Max repeating chars {}", self.max_repeating_chars)
    }

    fn repetition_sentence(&self) -> String {
        let most = self.max_repeating_chars;
        format!("No character more than {most} time{} in a row", plural(most))
    }

    fn minimum_rules(&self) -> [Minimum; 6] {
        let minimum = |name, characters, least, counts| Minimum { name, what: characters, least, counts };
        [
            minimum("letters", "letter", self.min_letters, char::is_alphabetic),
            minimum("numbers", "digit", self.min_numbers, char::is_numeric),
            minimum("symbols", "symbol", self.min_symbols, is_symbol),
            minimum("lower case", "lower-case letter", self.min_lower_case, char::is_lowercase),
            minimum("upper case", "upper-case letter", self.min_upper_case, char::is_uppercase),
            minimum("length", "character", self.min_length, |_| true),
        ]
    }
}

/// The minimum number of characters of a kind.
struct Minimum {
    /// The kind as messages name it.
    name: &'static str,
    /// The name of one character of the kind, for people.
    what: &'static str,
    least: i64,
    counts: fn(char) -> bool,
}

impl Minimum {
    fn message(&self) -> String {
        format!("Min {} {}", self.name, self.least)
    }

    fn rule_text(&self) -> String {
        format!("At least {} {}{}", self.least, self.what, plural(self.least))
    }
}

fn plural(count: i64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn is_symbol(c: char) -> bool {
    !c.is_alphabetic() && !c.is_numeric() && !c.is_whitespace()
}

/// Returns the length of the longest run of one character.
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

    fn path(build: &str, network: &str) -> QueuePath {
        QueuePath([build.to_owned(), String::new(), network.to_owned()])
    }

    fn some_path() -> QueuePath {
        path("a", "192.0.2.1")
    }

    #[test]
    fn an_ipv4_address_has_a_path_of_its_own_as_an_ipv6_48_has() {
        let path = |address: &str| QueuePath::new("a", address.parse().unwrap()).0;
        let ([_, first_path, _], [_, second_path, _]) = (path("192.0.2.1"), path("192.0.2.2"));
        assert_ne!(first_path, second_path);
        let ([_, first_path, first], [_, third_path, second]) = (path("2001:db8:1:1::1"), path("2001:db8:1:2::1"));
        assert!(first_path == third_path && first != second);
    }

    #[tokio::test]
    async fn a_password_verifies_against_its_own_hash_only() {
        let (hasher, path) = (Hasher::start(2, HashCost::default()), some_path());
        let hash = hasher.hash(&path, "correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hasher.hash(&path, "correct horse".into()).await.unwrap());
        assert_eq!(hasher.verify(&path, "correct horse".into(), Some(hash.clone())).await, Ok(true));
        assert_eq!(hasher.verify(&path, "Correct horse".into(), Some(hash)).await, Ok(false));
    }

    #[tokio::test]
    async fn verifying_without_a_hash_costs_the_same() {
        let (hasher, path) = (Hasher::start(1, HashCost::default()), some_path());
        assert_eq!(hasher.verify(&path, "x".into(), None).await, Ok(false));
        assert_eq!(hasher.verify(&path, "x".into(), Some("not a hash".into())).await, Ok(false));
        // The dummy costs the same as a real hash: the same algorithm, version and parameters.
        let real = hasher.hash(&path, "x".into()).await.unwrap();
        let settings = |hash: &str| hash.split('$').take(4).collect::<Vec<_>>().join("$");
        let dummy = HashCost::default().dummy_hash();
        assert_eq!(settings(&dummy), settings(&real));
        assert_eq!(dummy.len(), real.len());
    }

    #[tokio::test]
    async fn a_digest_repeats_for_the_same_salt() {
        let (hasher, path) = (Hasher::start(2, HashCost::default()), some_path());
        let digest = hasher.digest(&path, "secret".into(), "7".into()).await.unwrap();
        assert_eq!(digest, hasher.digest(&path, "secret".into(), "7".into()).await.unwrap());
        assert_ne!(digest, hasher.digest(&path, "secret".into(), "8".into()).await.unwrap());
        assert_ne!(digest, hasher.digest(&path, "Secret".into(), "7".into()).await.unwrap());
    }

    /// Returns a hasher whose only thread is blocked until the sender is dropped.
    async fn blocked_hasher() -> (Hasher, std::sync::mpsc::Sender<()>) {
        let hasher = Hasher::start(1, HashCost::default());
        let (started, has_started) = oneshot::channel();
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let blocker = hasher.clone();
        tokio::spawn(async move {
            let block = move || {
                let _ = started.send(());
                let _ = gate.recv();
            };
            blocker.run(&path("blocker", ""), block).await
        });
        has_started.await.unwrap();
        (hasher, release)
    }

    /// Queues a job under this path. When it runs, it adds the name of its build to `served`.
    async fn queue_job(
        hasher: &Hasher,
        path: QueuePath,
        served: &Arc<Mutex<Vec<String>>>,
    ) -> tokio::task::JoinHandle<Result<(), Busy>> {
        let (waiting, served) = (hasher.clone(), served.clone());
        let build = path.0[0].clone();
        let job = tokio::spawn(async move { waiting.run(&path, move || served.lock().unwrap().push(build)).await });
        // The test has one thread, so the task runs now until it waits.
        tokio::task::yield_now().await;
        job
    }

    #[tokio::test]
    async fn a_panic_leaves_the_thread_alive() {
        let hasher = Hasher::start(1, HashCost::default());
        assert_eq!(hasher.run(&some_path(), || panic!("no memory")).await, Err::<(), _>(Busy));
        assert_eq!(hasher.run(&some_path(), || 5).await, Ok(5));
    }

    #[tokio::test]
    async fn a_burst_at_one_build_keeps_another_waiting_for_one_hash() {
        let (hasher, release) = blocked_hasher().await;
        let (served, mut jobs) = (Arc::default(), Vec::new());
        for n in 0..200 {
            jobs.push(queue_job(&hasher, path("burst", &format!("192.0.2.{n}")), &served).await);
        }
        jobs.push(queue_job(&hasher, path("other", "198.51.100.1"), &served).await);
        drop(release);
        for job in jobs {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        let served = served.lock().unwrap();
        assert_eq!((served.len(), &served[..3]), (201, &["burst", "other", "burst"].map(str::to_owned)[..]));
    }

    #[tokio::test]
    async fn a_queue_that_is_full_for_one_build_has_room_for_another() {
        let (hasher, release) = blocked_hasher().await;
        let (served, mut jobs) = (Arc::default(), Vec::new());
        for _ in 0..MAX_WAITING_OF_BUILD {
            jobs.push(queue_job(&hasher, some_path(), &served).await);
        }
        assert_eq!(hasher.hash(&some_path(), "x".into()).await, Err(Busy));
        jobs.push(queue_job(&hasher, path("b", "192.0.2.1"), &served).await);
        // Another network of the same build displaces the newest hash of the network with the most hashes.
        jobs.push(queue_job(&hasher, path("a", "192.0.2.2"), &served).await);
        assert_eq!(jobs.remove(MAX_WAITING_OF_BUILD - 1).await.unwrap(), Err(Busy));
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
        assert_eq!(rules.broken_rules("Aab1!xyz"), Vec::<String>::new());
        assert_eq!(
            rules.sentences(),
            [
                "At least 8 characters",
                "At least 1 upper-case letter",
                "At least 2 lower-case letters",
                "At least 1 symbol",
                "At least 1 digit",
                "At least 4 letters",
                "No character more than 2 times in a row"
            ]
        );
        assert_eq!(
            rules.broken_rules("   "),
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
        assert!(letters.broken_rules("éßж").is_empty());
        let numbers = Complexity { min_numbers: 1, ..Complexity::default() };
        assert!(numbers.broken_rules("٣").is_empty());
        let upper = Complexity { min_upper_case: 1, ..Complexity::default() };
        assert!(upper.broken_rules("Ж").is_empty());
        assert_eq!(upper.broken_rules("ж"), ["Min upper case 1"]);
        let symbols = Complexity { min_symbols: 1, ..Complexity::default() };
        assert!(symbols.broken_rules("😀").is_empty());
        assert_eq!(symbols.broken_rules("a 1"), ["Min symbols 1"]);
        let length = Complexity { min_length: 3, ..Complexity::default() };
        assert!(length.broken_rules("äöü").is_empty());
    }

    #[test]
    fn zero_switches_a_rule_off_and_runs_need_the_same_character() {
        assert!(Complexity::default().broken_rules("").is_empty() && Complexity::default().sentences().is_empty());
        let runs = Complexity { max_repeating_chars: 1, ..Complexity::default() };
        assert!(runs.broken_rules("ababAa").is_empty());
        assert_eq!(runs.broken_rules("abba"), ["Max repeating chars 1"]);
    }
}
