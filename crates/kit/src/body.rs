//! Reads and parses the body of a request within bounds. Uploads are read in `upload.rs`.
//!
//! Four bounds limit the memory of bodies (`docs/reference/conventions.md`):
//! - a maximum size (16 KiB on a public route)
//! - a total for all bodies in flight of the process and of each build
//! - a maximum depth and number of values
//! - the storage as text instead of a tree of values ([`resource::sent`])

use crate::app::App;
use crate::bodies::{IDLE_TIMEOUT, MIN_LONG_RATE, PRESSED_RATE, ROOM_TIMEOUT, refuse};
use crate::caller::RouteAccess;
use crate::idempotency::key::body_hash;
use crate::refusal::Refusal;
use crate::route::{Route, Schema};
use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use hyper::body::{Body as _, Incoming};
use resource::{JsonBody, Query};
use serde_json::{Map, Value as Json};
use std::time::Duration;
use store::StoreError;
use tokio::time::{Instant, interval};
use web::listener::{BodyError, BodyReader};
use web::pace::Pace;
use web::shares::{Permit, PermitHolder};

/// The maximum size of a body that is not an upload, in bytes.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The maximum size of a body on a public route, in bytes.
pub(crate) const MAX_PUBLIC_BODY: usize = 16 * 1024;
/// The maximum number of values in a body on a public route.
const MAX_PUBLIC_VALUES: usize = 1000;
/// The step by which the buffer of a long body grows, in bytes.
const BUFFER_STEP: usize = 64 * 1024;
/// The largest body, in bytes, that is parsed on the thread of its request. A larger one would block other requests.
const MAX_PARSED_INLINE: usize = 64 * 1024;
/// The interval at which a long body is compared with its pace.
const PACE_INTERVAL: Duration = Duration::from_secs(1);

/// The body of a request that was read to its end.
pub struct ReceivedBody {
    /// The body, or the status and message of its error.
    pub sent: Result<JsonBody, (StatusCode, String)>,
    /// The memory that it has reserved.
    pub room: Option<Permit>,
    /// The hash of its bytes, in hexadecimal digits, if it was requested.
    pub hash: Option<String>,
}

/// The use of a body's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    Parsed,
    /// The bytes are hashed too, for an `Idempotency-Key`.
    ParsedAndHashed,
}

/// Returns whether a route reads a body.
pub fn has_body(route: &Route) -> bool {
    !matches!(route.method, Method::GET | Method::OPTIONS)
}

/// Reads and parses the body of a request.
pub async fn read(
    app: &App,
    holder: &PermitHolder,
    route: &Route,
    headers: &HeaderMap,
    body: Incoming,
    body_use: BodyUse,
) -> Result<ReceivedBody, Refusal> {
    if !has_body(route) {
        return Ok(ReceivedBody { sent: Ok(JsonBody::from_json(&Json::Null)), room: None, hash: None });
    }
    let is_public = route.access == RouteAccess::Public;
    let most = if is_public { MAX_PUBLIC_BODY } else { MAX_BODY };
    let (bytes, room) = bytes(app, holder, most, body).await?;
    if bytes.is_empty() {
        let sent = Ok(JsonBody::from_json(&Json::Object(Map::new())));
        return Ok(ReceivedBody { sent, room, hash: hash_for(body_use, &bytes) });
    }
    // A body without a type is JSON, except on a public route. There a page of another site could send it
    // without a preflight request.
    let untyped = if is_public { "" } else { "application/json" };
    let media_type = headers.get(header::CONTENT_TYPE).map_or(untyped, |value| value.to_str().unwrap_or("?"));
    let essence = media_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let most_values = if is_public { MAX_PUBLIC_VALUES } else { usize::MAX };
    Ok(match (&route.body, essence.as_str()) {
        (Schema::Form(_), "application/x-www-form-urlencoded") => {
            ReceivedBody { sent: form(&bytes, most_values), room, hash: hash_for(body_use, &bytes) }
        }
        (_, essence) if essence == "application/json" || route.media_type == Some(essence) => {
            parse(app, bytes, most_values, room, body_use).await?
        }
        _ => {
            let detail = format!("Unsupported media type \"{media_type}\" in request.");
            let sent = Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
            ReceivedBody { sent, room, hash: hash_for(body_use, &bytes) }
        }
    })
}

/// Reserves memory for the bytes of a body and reads them.
async fn bytes(
    app: &App,
    holder: &PermitHolder,
    most: usize,
    body: Incoming,
) -> Result<(Vec<u8>, Option<Permit>), Refusal> {
    let announced = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut reader = BodyReader::new(body, most as u64, IDLE_TIMEOUT).map_err(refuse)?;
    let (mut bytes, mut permit) = (Vec::new(), None);
    if announced.is_none_or(|announced| announced <= MAX_PUBLIC_BODY) {
        // Memory is reserved as the bytes arrive, so that a slow sender occupies little of it.
        loop {
            let Some(chunk) = reader.chunk().await.map_err(refuse)? else { return Ok((bytes, permit)) };
            let needed = bytes.len() + chunk.len();
            let larger = needed.next_power_of_two();
            if needed > bytes.capacity() {
                let more = app.bodies.short.acquire(holder, larger - bytes.capacity(), ROOM_TIMEOUT).await;
                let more = more.ok_or_else(Refusal::overloaded)?;
                permit = Some(more.join(permit));
                reader.begin_anew();
                bytes.reserve_exact(larger - bytes.len());
            }
            bytes.extend_from_slice(&chunk);
            if needed > MAX_PUBLIC_BODY {
                break;
            }
        }
    }
    // All of the memory is reserved before the next byte is read: many bodies with a part each would block each other.
    let long = announced.unwrap_or(most);
    let permit = app.bodies.long.acquire(holder, long, ROOM_TIMEOUT).await.ok_or_else(Refusal::overloaded)?;
    reader.begin_anew();
    let time = IDLE_TIMEOUT + Duration::from_secs_f64(long as f64 / MIN_LONG_RATE);
    let pace = Pace { demand: permit.demand(), rates: PRESSED_RATE };
    let outcome = tokio::time::timeout(time, read_remaining(reader, bytes, &pace)).await;
    Ok((outcome.map_err(|_| refuse(BodyError::Slow))?.map_err(refuse)?, Some(permit)))
}

async fn read_remaining(mut reader: BodyReader, mut bytes: Vec<u8>, pace: &Pace) -> Result<Vec<u8>, BodyError> {
    let (began, mut checks) = (Instant::now(), interval(PACE_INTERVAL));
    loop {
        let chunk = tokio::select! {
            biased;
            _ = checks.tick() => match pace.is_missed(bytes.len() as u64, began.elapsed()) {
                true => return Err(BodyError::Slow),
                false => continue,
            },
            chunk = reader.chunk() => chunk?,
        };
        let Some(chunk) = chunk else { return Ok(bytes) };
        let needed = bytes.len() + chunk.len();
        if needed > bytes.capacity() {
            bytes.reserve_exact(needed.next_multiple_of(BUFFER_STEP) - bytes.len());
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// Runs work on a text of `bytes` bytes. Work on a long text would block other requests, so it runs on a blocking
/// thread, with few others at a time. It must own its input, since it continues when the client disconnects.
pub async fn work_on<T: Send + 'static>(
    app: &App,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    if bytes <= MAX_PARSED_INLINE {
        return Ok(work());
    }
    // The semaphore is never closed.
    let permit = app.bodies.parsing.clone().acquire_owned().await;
    let working = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(permit);
        result
    });
    working.await.map_err(|error| StoreError::internal(format_args!("work on a text ended early: {error}")))
}

async fn parse(
    app: &App,
    bytes: Vec<u8>,
    most_values: usize,
    room: Option<Permit>,
    body_use: BodyUse,
) -> Result<ReceivedBody, StoreError> {
    let length = bytes.len();
    let parsing = move || {
        let hash = hash_for(body_use, &bytes);
        let parsed = JsonBody::parse(bytes, most_values);
        let sent = parsed.map_err(|error| (StatusCode::BAD_REQUEST, format!("JSON parse error - {error}")));
        ReceivedBody { sent, room, hash }
    };
    work_on(app, length, parsing).await
}

fn hash_for(body_use: BodyUse, bytes: &[u8]) -> Option<String> {
    (body_use == BodyUse::ParsedAndHashed).then(|| body_hash(bytes))
}

/// Parses the fields of a form into an object of texts.
fn form(bytes: &[u8], most_values: usize) -> Result<JsonBody, (StatusCode, String)> {
    let text = String::from_utf8_lossy(bytes);
    let fields = Query::parse_first(&text, most_values);
    let mut object: Map<String, Json> = Map::new();
    for (name, value) in fields.pairs() {
        // A field that is sent twice is not a text, so that two programs cannot read different values of it.
        let is_again = object.insert(name.to_owned(), value.into()).is_some();
        if is_again {
            object.insert(name.to_owned(), Json::Array(Vec::new()));
        }
    }
    Ok(JsonBody::from_json(&Json::Object(object)))
}
