//! `Idempotency-Key`: a POST that a program repeats has one effect (`docs/reference/conventions.md`).
//!
//! The answer of a POST with a key is stored in the transaction of its change (`rows.rs`). A repetition gets the stored answer
//! (`replay.rs`). Two requests with the same key never run at the same time: in a process they wait for each other
//! ([`Turns`]), and on PostgreSQL the transaction of each acquires an advisory lock.

mod addresses;
mod replay;
mod rows;

use crate::answer::{Answer, Outcome};
use crate::build::Build;
use crate::caller::RouteAccess;
use crate::ids::UserId;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::route::{Handler, Route};
use crate::serve;
use crate::table::Table;
use http::header::HeaderMap;
use http::{HeaderName, Method, StatusCode};
use resource::Query;
pub use rows::{ANSWER, EXPIRY, ON_USER_LEAVING, delete_all};
use rows::{KeyState, StoredAnswer, insert, state};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::Conn;
use tokio::time::{Instant, timeout_at};
use web::clock::hex;

/// The header with the key of a request.
const KEY: &str = "idempotency-key";
/// The header of a replayed answer.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The maximum length of a key, in characters.
const MAX_KEY: usize = 255;
/// The time for which a request waits for another one with the same key.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The first and the longest pause between two questions whether another process still works on a key.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The beginnings of paths below which keys are refused.
const REFUSING_PATHS: [&str; 3] = ["/api/auth/", "/oauth/", "/mcp/"];

/// The effect of a key on the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySupport {
    /// The key has no effect.
    Ignored,
    /// A request with a key is refused with 400.
    Refused,
    /// The answer is stored and replayed.
    Stored,
}

impl Route {
    /// Returns the effect of an `Idempotency-Key` on the requests of the route.
    pub fn key_support(&self) -> KeySupport {
        if self.method != Method::POST {
            return KeySupport::Ignored;
        }
        if REFUSING_PATHS.iter().any(|start| self.path.starts_with(start)) {
            return KeySupport::Refused;
        }
        // A caller with an own admission, such as a directory, has no account.
        if matches!(self.access, RouteAccess::Public | RouteAccess::ApiKey) || self.own_admission.is_some() {
            return KeySupport::Ignored;
        }
        let is_upload = matches!(self.handler, Handler::Upload(..));
        if is_upload || self.answers_secret { KeySupport::Refused } else { KeySupport::Stored }
    }
}

/// The key of a request, as the client sent it.
pub(crate) enum SentKey {
    /// The request has no key, or its key has no effect.
    Nothing,
    Key(String),
    Refused(Refusal),
}

impl SentKey {
    /// Reads the key of a request.
    pub(crate) fn read(route: &Route, headers: &HeaderMap, query: Option<&str>) -> SentKey {
        let mut sent = headers.get_all(KEY).iter();
        let Some(first) = sent.next() else { return SentKey::Nothing };
        match route.key_support() {
            KeySupport::Ignored => return SentKey::Nothing,
            KeySupport::Refused => {
                return SentKey::Refused(Refusal::bad_request("Idempotency-Key is not supported here."));
            }
            KeySupport::Stored => {}
        }
        if query.is_some_and(|query| Query::parse(query).last_value("dry_run") == Some("true")) {
            return SentKey::Nothing;
        }
        let key = first
            .to_str()
            .ok()
            .filter(|key| (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
        match (key, sent.next()) {
            (Some(key), None) => SentKey::Key(key.to_owned()),
            _ => SentKey::Refused(Refusal::bad_request("Invalid Idempotency-Key.")),
        }
    }

    /// Returns whether the bytes of the body decide about a replay.
    pub(crate) fn is_key(&self) -> bool {
        matches!(self, SentKey::Key(_))
    }
}

/// The key of a request, with the hashes by which a repetition is recognized.
pub struct RequestKey {
    /// A hash of the build, the account, the method, the path, the query string and the key, in hexadecimal digits.
    hash: String,
    /// The hash of the body, in hexadecimal digits.
    body: String,
    account: UserId,
    /// The routes, by which the address of a created object is found.
    table: &'static Table,
    /// Is true if the transaction of the request has stored the answer.
    is_stored: AtomicBool,
}

/// The parts of a request that distinguish its key from others.
pub(crate) struct KeyParts<'a> {
    pub build: &'a Build,
    pub account: UserId,
    pub path: &'a str,
    pub query: &'a str,
    pub key: &'a str,
    /// The hash of the body, in hexadecimal digits.
    pub body: String,
}

impl RequestKey {
    pub(crate) fn new(table: &'static Table, parts: KeyParts<'_>) -> RequestKey {
        let account = parts.account.get().to_string();
        let path = parts.path.strip_suffix('/').unwrap_or(parts.path);
        let mut hash = Sha256::new();
        for part in [parts.build.uid.as_str(), &account, "POST", path, parts.query, parts.key] {
            // The length separates the parts.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let (hash, body) = (hex(&hash.finalize()), parts.body);
        RequestKey { hash, body, account: parts.account, table, is_stored: AtomicBool::new(false) }
    }
}

/// Returns the hash of a body, in hexadecimal digits.
pub(crate) fn body_hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The requests of this process that wait for another one with the same key, by the hash of the key.
#[derive(Default)]
pub struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

/// The right to be the only request of this process with a key.
struct Turn<'a> {
    turns: &'a Turns,
    hash: &'a str,
    lock: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until no other request has the key; `None` if this takes too long.
    async fn acquire<'a>(&'a self, hash: &'a str, deadline: Instant) -> Option<Turn<'a>> {
        let lock = web::lock(&self.0).entry(hash.to_owned()).or_default().clone();
        let lock = timeout_at(deadline, lock.lock_owned()).await.ok()?;
        Some(Turn { turns: self, hash, lock: Some(lock) })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = web::lock(&self.turns.0);
        self.lock = None;
        // Only the table refers to a lock for which nobody waits.
        if all.get(self.hash).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            all.remove(self.hash);
        }
    }
}

/// Runs a request with a key, or replays the answer of an earlier one.
///
/// # Errors
/// 422 if the key was used with another body, 409 if the first request is still at work, and the refusals of the route.
pub(crate) async fn run(route: &'static Route, request: Arc<Request>) -> Outcome {
    // The turn lasts until the work has ended, even if the client disconnects.
    serve::detached(async move {
        match &request.idempotency {
            Some(key) => run_in_turn(route, &request, key).await,
            None => serve::run_declared(route, &request, None).await,
        }
    })
    .await
}

async fn run_in_turn(route: &'static Route, request: &Arc<Request>, key: &RequestKey) -> Outcome {
    let (deadline, mut pause) = (Instant::now() + MAX_WAIT, FIRST_PAUSE);
    let turns = request.app.slot::<Turns>();
    let _turn = turns.acquire(&key.hash, deadline).await.ok_or_else(at_work)?;
    loop {
        let asking = request.clone();
        match request.build.db.read_short(move |conn| state_of(&asking, conn)).await? {
            KeyState::Answered(stored) => return replay::replay(request, key, *stored).await,
            KeyState::AtWork => {}
            KeyState::Free => match serve::run_declared(route, request, None).await {
                Err(refusal) if refusal.meets_used_key() => {}
                outcome => return store_if_missing(request, key, outcome?).await,
            },
        }
        if Instant::now() + pause > deadline {
            return Err(at_work());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn at_work() -> Refusal {
    Refusal::detail(StatusCode::CONFLICT, "A request with this Idempotency-Key is at work.")
        .header(http::header::RETRY_AFTER, "1")
}

fn state_of(request: &Request, conn: &mut Conn) -> Result<KeyState, Refusal> {
    match &request.idempotency {
        Some(key) => Ok(state(request, conn, key)?),
        None => Ok(KeyState::Free),
    }
}

/// Runs the script of a write. If the request has a key, stores the answer in the same transaction.
///
/// # Errors
/// A refusal with [`Refusal::meets_used_key`] if another process works on the key, or has stored its answer.
pub(crate) fn run_script(
    request: &Request,
    conn: &mut Conn,
    script: impl Fn(&Request, &mut Conn) -> Outcome,
) -> Outcome {
    let Some(key) = &request.idempotency else { return script(request, conn) };
    key.is_stored.store(false, Ordering::Relaxed);
    match state(request, conn, key)? {
        KeyState::Free => {}
        KeyState::AtWork | KeyState::Answered(_) => return Err(at_work().with_used_key()),
    }
    let answer = script(request, conn)?;
    // The key of any other answer stays free.
    if answer.status.is_success() {
        insert(request, conn, key, &StoredAnswer::new(request, key, &answer))?;
    }
    Ok(answer)
}

/// Stores the answer of a handler whose transaction has not stored it: one that changes nothing here, such as a test message.
async fn store_if_missing(request: &Arc<Request>, key: &RequestKey, answer: Answer) -> Outcome {
    if key.is_stored.load(Ordering::Relaxed) || !answer.status.is_success() {
        return Ok(answer);
    }
    let (storing, stored) = (request.clone(), StoredAnswer::new(request, key, &answer));
    let write = move |conn: &mut Conn| match &storing.idempotency {
        Some(key) => insert(&storing, conn, key, &stored),
        None => Ok(()),
    };
    if let Err(error) = request.build.db.write_unshown(write).await {
        let build = &request.build.domain;
        tracing::warn!(%error, build, "the answer of a request with a key was not stored, a repetition will run again");
    }
    Ok(answer)
}
