//! Stored answers of requests with an `Idempotency-Key`: the table `idempotency_keys`.

use super::addresses::{AnswerAddresses, addresses};
use super::key::RequestKey;
use crate::answer::{Answer, AnswerBody};
use crate::app::App;
use crate::build::Build;
use crate::jobs::{self, JobFuture, StandingJob};
use crate::reactions::{Reaction, ReactionTime};
use crate::request::Request;
use crate::secret::{Context, SealedColumn};
use crate::table::RouteTable;
use http::{HeaderName, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Conn, Sql, StoreError};
use web::clock::random_token;

/// The sealed column of stored answers.
pub const ANSWER: SealedColumn = SealedColumn { table: "idempotency_keys", column: "answer", row: "row_key" };
/// Deletes expired answers.
pub static EXPIRY: StandingJob = StandingJob { name: "idempotency_keys", at_a_time: 4, due: next_expiry, run: expire };
/// Deletes the answers of a user who is deleted or anonymized, since they may contain personal data.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, user| {
        conn.exec(&Sql::new("DELETE FROM idempotency_keys WHERE account = $1").arg(user))?;
        Ok(())
    },
};

/// The time for which an answer is stored, in microseconds.
const RETENTION_US: i64 = 86_400_000_000;
/// The maximum number of stored answers of an account.
const MAX_OF_ACCOUNT: i64 = 10_000;
/// The maximum number of stored answers of a build.
const MAX_OF_BUILD: i64 = 100_000;
/// The number of new answers after which the number of a build is checked.
const BUILD_CHECK_INTERVAL: i64 = 64;
/// The maximum size of a stored body, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// The number of rows that one transaction of [`EXPIRY`] deletes.
const PAGE: i64 = 1_000;
/// The header with the change that an answer names.
const CHANGE_ID: HeaderName = HeaderName::from_static("x-change-id");

/// The state of a key.
pub(crate) enum KeyState {
    /// The key was not used in the last 24 hours.
    Free,
    /// The transaction of another process works on it.
    AtWork,
    Answered(Box<StoredAnswer>),
}

/// The stored answer of a request.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredAnswer {
    /// The hash of the request's body.
    pub request_body: String,
    pub status: u16,
    /// The body of the answer; `None` if it was larger than [`MAX_BODY`].
    pub body: Option<String>,
    pub etag: Option<String>,
    pub change_id: Option<String>,
    /// The address of the created or changed object.
    pub address: Option<String>,
    /// The address that the caller must still be able to read, or the answer is hidden.
    pub guard: Option<String>,
    /// `{"id": …}` or `{"uuid": …}` of the object.
    pub reference: Json,
}

impl StoredAnswer {
    /// Returns the parts of an answer that a replay needs.
    pub(crate) fn new(request: &Request, key: &RequestKey, answer: &Answer) -> StoredAnswer {
        let whole = match &answer.body {
            AnswerBody::Whole(bytes) => Some(bytes),
            AnswerBody::File { .. } | AnswerBody::Pieces { .. } => None,
        };
        let text = whole.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let sent: Json = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let AnswerAddresses { object, guard, reference } =
            addresses(request.app.slot::<RouteTable>().table(), &request.path, answer.subject, &sent);
        let text_of = |name: &HeaderName| {
            let value = answer.headers.iter().find(|(sent, _)| sent == name);
            value.and_then(|(_, value)| Some(value.to_str().ok()?.to_owned()))
        };
        StoredAnswer {
            request_body: key.body.clone(),
            status: answer.status.as_u16(),
            body: text.filter(|text| text.len() <= MAX_BODY).map(str::to_owned),
            etag: answer.tag.map(|tag| tag.to_string()).or_else(|| text_of(&header::ETAG)),
            change_id: text_of(&CHANGE_ID),
            address: object,
            guard,
            reference,
        }
    }
}

/// Returns the state of a key. In a transaction of PostgreSQL the key then belongs to this transaction until its end.
pub(crate) fn state(request: &Request, conn: &mut Conn, key: &RequestKey) -> Result<KeyState, StoreError> {
    if !conn.is_embedded() && !acquire(conn, key)? {
        return Ok(KeyState::AtWork);
    }
    let sql = Sql::new("SELECT row_key, answer FROM idempotency_keys WHERE key_hash = $1 AND created_at > $2");
    let sql = sql.arg(&key.hash).arg(request.now - RETENTION_US);
    let found = conn.query_optional(&sql, |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
    let opened = found.and_then(|(row, sealed)| request.app.keys.open(&context(&request.build, &row), &sealed));
    // An answer that cannot be opened belongs to another secret key.
    let stored = opened.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(stored.map_or(KeyState::Free, |stored| KeyState::Answered(Box::new(stored))))
}

/// Acquires the advisory lock of a key for the transaction. Returns whether no other transaction has it.
fn acquire(conn: &mut Conn, key: &RequestKey) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "SELECT CASE WHEN pg_catalog.pg_try_advisory_xact_lock($1) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END",
    );
    // 60 bits of the hash: a collision only lets two keys wait for each other.
    let lock = key.hash.get(..15).and_then(|digits| i64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    conn.query_one(&sql.arg(lock), |row| row.flag(0))
}

fn context<'a>(build: &'a Build, row: &'a str) -> Context<'a> {
    Context { build: &build.uid, table: ANSWER.table, column: ANSWER.column, row }
}

/// Inserts an answer, and deletes the oldest ones beyond the bounds.
pub(crate) fn insert(
    request: &Request,
    conn: &mut Conn,
    key: &RequestKey,
    stored: &StoredAnswer,
) -> Result<(), StoreError> {
    let (row, stored) = (random_token(), json!(stored).to_string());
    let sealed = request.app.keys.seal(&context(&request.build, &row), stored.as_bytes());
    conn.exec(&Sql::new("DELETE FROM idempotency_keys WHERE key_hash = $1").arg(&key.hash))?;
    let sql = Sql::new(
        "INSERT INTO idempotency_keys(account, key_hash, row_key, answer, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id",
    );
    let sql = sql.arg(key.account).arg(&key.hash).arg(row).arg(sealed).arg(request.now);
    let id = conn.query_one(&sql, |row| row.int(0))?;
    delete_oldest(conn, key, id)?;
    key.is_stored.store(true, Ordering::Relaxed);
    Ok(())
}

fn delete_oldest(conn: &mut Conn, key: &RequestKey, id: i64) -> Result<(), StoreError> {
    let of_account = Sql::new(
        "DELETE FROM idempotency_keys WHERE account = $1 AND id <= \
         (SELECT k.id FROM idempotency_keys k WHERE k.account = $1 ORDER BY k.id DESC LIMIT 1 OFFSET $2)",
    );
    conn.exec(&of_account.arg(key.account).arg(MAX_OF_ACCOUNT))?;
    if id % BUILD_CHECK_INTERVAL == 0 {
        let of_build = Sql::new(
            "DELETE FROM idempotency_keys WHERE id <= \
             (SELECT k.id FROM idempotency_keys k ORDER BY k.id DESC LIMIT 1 OFFSET $1)",
        );
        conn.exec(&of_build.arg(MAX_OF_BUILD - BUILD_CHECK_INTERVAL))?;
    }
    Ok(())
}

/// Deletes all stored answers of a build, since they may contain the name of a user who is anonymized.
pub fn delete_all(conn: &mut Conn) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM idempotency_keys")).map(drop)
}

/// Returns the time at which the oldest answer expires. A new answer does not wake the job, so the job looks once a day.
fn next_expiry(_: &App, _: &Build, conn: &mut Conn, now: i64) -> Result<Option<i64>, StoreError> {
    let oldest = conn.query_one(&Sql::new("SELECT min(created_at) FROM idempotency_keys"), |row| row.opt_int(0))?;
    Ok(Some(oldest.unwrap_or(now) + RETENTION_US))
}

fn expire(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let _permit = jobs::acquire_permit(&app, EXPIRY.name).await;
        loop {
            let last = app.clock.now() - RETENTION_US;
            let delete = move |conn: &mut Conn| {
                let sql = Sql::new(
                    "DELETE FROM idempotency_keys WHERE id IN (SELECT k.id FROM idempotency_keys k \
                     WHERE k.created_at <= $1 ORDER BY k.created_at LIMIT $2)",
                );
                conn.exec(&sql.arg(last).arg(PAGE))
            };
            if build.db.write_unshown(delete).await? < PAGE as u64 {
                return Ok::<_, StoreError>(());
            }
        }
    })
}
