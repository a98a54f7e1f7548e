//! Runs a request with an `Idempotency-Key`, or answers its repetition by the stored answer of the first one.

use super::key::RequestKey;
use super::rows::{KeyState, StoredAnswer, insert, state};
use super::script::at_work;
use super::turns::Turns;
use crate::answer::{Answer, Outcome};
use crate::inner_call::{self, AdmittedCaller, InnerCall};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::route::Route;
use crate::serve;
use crate::table::RouteTable;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use resource::JsonBody;
use serde_json::Value as Json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{Conn, StoreError};
use tokio::time::Instant;

/// The header of a replayed answer.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The time for which a request waits for another one with the same key.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The first and the longest pause between two questions whether another process still works on a key.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The maximum size of an answer that is read again, in bytes.
const MAX_READ_AGAIN: usize = 32 * 1024 * 1024;

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
            KeyState::Answered(stored) => return replay(request, key, *stored).await,
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

fn state_of(request: &Request, conn: &mut Conn) -> Result<KeyState, Refusal> {
    match &request.idempotency {
        Some(key) => Ok(state(request, conn, key)?),
        None => Ok(KeyState::Free),
    }
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

/// Answers with the status and the body of the first answer, without any change.
///
/// A large body is read again at the address of the object. The answer about a record or a task that the caller may not view any
/// longer has the id alone.
///
/// # Errors
/// 422 if the first request had another body.
async fn replay(request: &Arc<Request>, key: &RequestKey, stored: StoredAnswer) -> Outcome {
    if stored.request_body != key.body {
        let detail = "Idempotency-Key was used with another body.";
        return Err(Refusal::detail(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    let is_visible = match &stored.guard {
        Some(address) => read(request, address).await?.is_some(),
        None => true,
    };
    let reference = Shown { body: stored.reference.to_string().into(), etag: None };
    let shown = match (stored.body, &stored.address) {
        _ if !is_visible => reference,
        (Some(body), _) => Shown { body: body.into(), etag: stored.etag },
        (None, Some(address)) => read(request, address).await?.unwrap_or(reference),
        (None, None) => reference,
    };
    Ok(answer(status, shown, stored.change_id))
}

/// The shown body, and the tag of its state.
struct Shown {
    body: Bytes,
    etag: Option<String>,
}

fn answer(status: StatusCode, shown: Shown, change_id: Option<String>) -> Answer {
    let is_empty = shown.body.is_empty();
    let mut answer = Answer::json(status, shown.body);
    if is_empty {
        answer.content_type = None;
    }
    answer.headers.push((REPLAYED, HeaderValue::from_static("true")));
    for (name, value) in [(header::ETAG, shown.etag), (HeaderName::from_static("x-change-id"), change_id)] {
        answer.headers.extend(value.and_then(|value| HeaderValue::try_from(value).ok()).map(|value| (name, value)));
    }
    answer
}

/// Reads an address in the name of the caller; `None` if the object is deleted, or hidden from the caller.
async fn read(request: &Arc<Request>, address: &str) -> Result<Option<Shown>, Refusal> {
    let (Some(caller), Some(admission)) = (request.caller.clone(), request.admission) else { return Ok(None) };
    let call = InnerCall {
        method: Method::GET,
        path: address.to_owned(),
        query: String::new(),
        body: JsonBody::from_json(&Json::Null),
    };
    let by = AdmittedCaller { caller, admission };
    let outcome = inner_call::call(
        request,
        &by,
        request.app.slot::<RouteTable>().table(),
        call,
        Arc::new(|request, conn, run| run(request, conn)),
    );
    match outcome.await {
        Ok(answer) => {
            let etag = answer.tag.map(|tag| tag.to_string());
            let read = answer.body.into_bytes(MAX_READ_AGAIN).await;
            let body = read.map_err(|error| StoreError::internal(format_args!("an answer ended early: {error}")))?;
            Ok(body.map(|body| Shown { body, etag }))
        }
        Err(refusal) if matches!(refusal.status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}
