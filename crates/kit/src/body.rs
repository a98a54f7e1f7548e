//! Reads and parses the body of a request within bounds. Uploads are read in `upload.rs`.
//!
//! The memory of bodies is bounded in four ways (`docs/reference/conventions.md`): by a maximum size (16 KiB on a public route),
//! by a total for all bodies in flight of the process and of each build, by the depth and the number of values, and by
//! keeping the text instead of a tree of values ([`resource::sent`]).

use crate::app::App;
use crate::bodies::{ANSWERS_OF_BUILD, IDLE_TIMEOUT, MIN_LONG_RATE, busy, refuse};
use crate::build::Build;
use crate::caller::Access;
use crate::refusal::Refusal;
use crate::route::{Route, Schema};
use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use hyper::body::{Body as _, Incoming};
use resource::{Body, Query};
use serde_json::{Map, Value as Json};
use std::time::Duration;
use tokio::task::JoinError;
use web::listener::{BodyError, BodyReader};
use web::room::Taken;

/// The maximum size of a body that is not an upload, in bytes.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The maximum size of a body on a public route, in bytes.
pub(crate) const MAX_PUBLIC_BODY: usize = 16 * 1024;
/// The maximum number of values in a body on a public route.
const MAX_PUBLIC_VALUES: usize = 1000;
/// By how many bytes the buffer of a long body grows at a time.
const BUFFER_STEP: usize = 64 * 1024;
/// The largest body, in bytes, that is parsed on the thread of its request. A larger one would block other requests.
const MAX_PARSED_INLINE: usize = 64 * 1024;
/// How long a body or an answer waits for memory.
pub(crate) const ROOM_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest answer, in bytes, that is sent without reserving memory.
const MAX_UNRESERVED_ANSWER: usize = 64 * 1024;

/// Reserves memory for an answer until it is sent, which may take long with a slow client. When none becomes free, a
/// read is refused with 503; the answer to a write, which is committed already, is sent without.
pub async fn of_answer(app: &App, build: &Build, bytes: usize, is_read: bool) -> Result<Taken, Refusal> {
    let (mut taken, all, own) = (Taken::default(), &app.bodies.answers, &build.bodies.answers);
    // An answer that is larger than the total reserves all of it.
    let bytes = bytes.min(ANSWERS_OF_BUILD);
    let has_room = bytes <= MAX_UNRESERVED_ANSWER
        || own.take(bytes, ROOM_TIMEOUT, &mut taken).await && all.take(bytes, ROOM_TIMEOUT, &mut taken).await;
    if has_room || !is_read { Ok(taken) } else { Err(busy()) }
}

/// A body, or the status and message of what is wrong with it, and the memory that it has reserved.
pub type Read = (Result<Body, (StatusCode, String)>, Taken);

/// Whether a route reads a body.
pub fn has_body(route: &Route) -> bool {
    !matches!(route.method, Method::GET | Method::OPTIONS)
}

/// Reads and parses the body of a request.
pub async fn read(
    app: &App,
    build: &Build,
    route: &Route,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Read, Refusal> {
    if !has_body(route) {
        return Ok((Ok(Body::of(&Json::Null)), Taken::default()));
    }
    let is_public = route.access == Access::Public;
    let most = if is_public { MAX_PUBLIC_BODY } else { MAX_BODY };
    let (bytes, taken) = bytes(app, build, most, body).await?;
    if bytes.is_empty() {
        return Ok((Ok(Body::of(&Json::Object(Map::new()))), taken));
    }
    // A body without a type is JSON, but not on a public route, where a page of another site could send it without a
    // preflight request.
    let untyped = if is_public { "" } else { "application/json" };
    let media_type = headers.get(header::CONTENT_TYPE).map_or(untyped, |value| value.to_str().unwrap_or("?"));
    let essence = media_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let most_values = if is_public { MAX_PUBLIC_VALUES } else { usize::MAX };
    Ok(match (&route.body, essence.as_str()) {
        (Schema::Form(_), "application/x-www-form-urlencoded") => (form(&bytes, most_values), taken),
        (_, "application/json") => parse(app, bytes, most_values, taken).await,
        _ => {
            let detail = format!("Unsupported media type \"{media_type}\" in request.");
            (Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)), taken)
        }
    })
}

/// Reads the bytes of a body, reserving the memory first.
async fn bytes(app: &App, build: &Build, most: usize, body: Incoming) -> Result<(Vec<u8>, Taken), Refusal> {
    let announced = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut reader = BodyReader::new(body, most as u64, IDLE_TIMEOUT).map_err(refuse)?;
    let (mut bytes, mut taken) = (Vec::new(), Taken::default());
    if announced.is_none_or(|announced| announced <= MAX_PUBLIC_BODY) {
        // Memory is reserved as the bytes arrive, so that a slow sender holds little of it.
        loop {
            let Some(chunk) = reader.chunk().await.map_err(refuse)? else { return Ok((bytes, taken)) };
            let needed = bytes.len() + chunk.len();
            let larger = needed.next_power_of_two();
            if needed > bytes.capacity() {
                if !app.bodies.short.take(larger - bytes.capacity(), ROOM_TIMEOUT, &mut taken).await {
                    return Err(busy());
                }
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
    let (long, all, own) = (announced.unwrap_or(most), &app.bodies.long, &build.bodies.long);
    if !(own.take(long, ROOM_TIMEOUT, &mut taken).await && all.take(long, ROOM_TIMEOUT, &mut taken).await) {
        return Err(busy());
    }
    reader.begin_anew();
    let time = IDLE_TIMEOUT + Duration::from_secs_f64(long as f64 / MIN_LONG_RATE);
    let read = tokio::time::timeout(time, rest(reader, bytes)).await;
    Ok((read.map_err(|_| refuse(BodyError::Slow))?.map_err(refuse)?, taken))
}

async fn rest(mut reader: BodyReader, mut bytes: Vec<u8>) -> Result<Vec<u8>, BodyError> {
    while let Some(chunk) = reader.chunk().await? {
        let needed = bytes.len() + chunk.len();
        if needed > bytes.capacity() {
            bytes.reserve_exact(needed.next_multiple_of(BUFFER_STEP) - bytes.len());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Does work on a text of so many bytes: on the thread of its request, or, where it would block other requests, elsewhere, with few
/// others at a time. Such work owns all that it needs, since it goes on when the client disconnects.
pub async fn work_on<T: Send + 'static>(
    app: &App,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if bytes <= MAX_PARSED_INLINE {
        return Ok(work());
    }
    // The semaphore is never closed.
    let permit = app.bodies.parsing.clone().acquire_owned().await;
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    working.await
}

async fn parse(app: &App, bytes: Vec<u8>, most_values: usize, taken: Taken) -> Read {
    let parsing = work_on(app, bytes.len(), move || (Body::parse(bytes, most_values), taken));
    let (parsed, taken) = parsing.await.unwrap_or_else(|error| (Err(error.to_string()), Taken::default()));
    (parsed.map_err(|error| (StatusCode::BAD_REQUEST, format!("JSON parse error - {error}"))), taken)
}

/// Parses the fields of a form into an object of texts.
fn form(bytes: &[u8], most_values: usize) -> Result<Body, (StatusCode, String)> {
    let text = String::from_utf8_lossy(bytes);
    let fields = Query::parse_first(&text, most_values);
    let mut object: Map<String, Json> = Map::new();
    for (name, value) in fields.pairs() {
        // A field that is sent twice is no text, so that nobody takes another one of them than somebody else did.
        let is_again = object.insert(name.to_owned(), value.into()).is_some();
        if is_again {
            object.insert(name.to_owned(), Json::Array(Vec::new()));
        }
    }
    Ok(Body::of(&Json::Object(object)))
}
