//! The body of a request: read within bounds, and found to be JSON or not. Those of uploads are in `upload.rs`.
//!
//! What a byte of it costs is bounded in four ways (`docs/reference/conventions.md`): by the route (a stranger sends 16
//! KiB), by the room that all bodies in flight share (and those of a build among them), by depth and number of values,
//! and by what is made of it: its text is kept, and no tree ([`resource::sent`]).

use crate::app::App;
use crate::bodies::{ANSWERS_OF_BUILD, PROGRESS, SLOWEST_LONG, busy, refuse};
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
use web::listener::{BodyError, BodyReader};
use web::room::Taken;

/// The largest body but of uploads.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The largest body of a route that anybody may call, and its most values.
const MAX_PUBLIC_BODY: usize = 16 * 1024;
const MAX_PUBLIC_VALUES: usize = 1000;
/// How much more memory a body is given at a time.
const STEP: usize = 64 * 1024;
/// Bodies up to this size are read where the request is; larger ones would hold up what else runs there.
const SHORT: usize = 64 * 1024;
/// How long a body waits for room.
const PATIENCE: Duration = Duration::from_secs(20);
/// An answer with more bytes than this takes room until it is sent.
const LARGE_ANSWER: usize = 64 * 1024;
/// The room of an answer until it is sent, which a slow reader may hold up; 503 where there is none. What was done is
/// not refused afterwards: the answer to a write waits, and goes out all the same.
pub async fn of_answer(app: &App, build: &Build, bytes: usize, is_read: bool) -> Result<Taken, Refusal> {
    let (mut taken, all, own) = (Taken::default(), &app.bodies.answers, &build.bodies.answers);
    // One that is larger than all the room has the whole of it.
    let bytes = bytes.min(ANSWERS_OF_BUILD);
    let has_room = bytes <= LARGE_ANSWER
        || own.take(bytes, PATIENCE, &mut taken).await && all.take(bytes, PATIENCE, &mut taken).await;
    if has_room || !is_read { Ok(taken) } else { Err(busy()) }
}

/// A body, or the status and text of what is wrong with it, and the room that it takes.
pub type Read = (Result<Body, (StatusCode, String)>, Taken);

/// Whether a route looks at bodies.
pub fn has_body(route: &Route) -> bool {
    !matches!(route.method, Method::GET | Method::OPTIONS)
}

/// Reads the body of a request.
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
    // What programs send without a type is JSON; what a page of another site may send without asking is not taken.
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

/// The bytes of a body, in memory for which there is room.
async fn bytes(app: &App, build: &Build, most: usize, body: Incoming) -> Result<(Vec<u8>, Taken), Refusal> {
    let announced = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut reader = BodyReader::new(body, most as u64, PROGRESS).map_err(refuse)?;
    let (mut bytes, mut taken) = (Vec::new(), Taken::default());
    if announced.is_none_or(|announced| announced <= MAX_PUBLIC_BODY) {
        // As its bytes come: one that drips has little.
        loop {
            let Some(chunk) = reader.chunk().await.map_err(refuse)? else { return Ok((bytes, taken)) };
            let needed = bytes.len() + chunk.len();
            let larger = needed.next_power_of_two();
            if needed > bytes.capacity() {
                if !app.bodies.short.take(larger - bytes.capacity(), PATIENCE, &mut taken).await {
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
    // All of it before the next byte, in turns: of many that had a part each, none would come to its end.
    let (long, all, own) = (announced.unwrap_or(most), &app.bodies.long, &build.bodies.long);
    if !(own.take(long, PATIENCE, &mut taken).await && all.take(long, PATIENCE, &mut taken).await) {
        return Err(busy());
    }
    reader.begin_anew();
    let time = PROGRESS + Duration::from_secs_f64(long as f64 / SLOWEST_LONG);
    let read = tokio::time::timeout(time, rest(reader, bytes)).await;
    Ok((read.map_err(|_| refuse(BodyError::Slow))?.map_err(refuse)?, taken))
}

async fn rest(mut reader: BodyReader, mut bytes: Vec<u8>) -> Result<Vec<u8>, BodyError> {
    while let Some(chunk) = reader.chunk().await? {
        let needed = bytes.len() + chunk.len();
        if needed > bytes.capacity() {
            bytes.reserve_exact(needed.next_multiple_of(STEP) - bytes.len());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

async fn parse(app: &App, bytes: Vec<u8>, most_values: usize, taken: Taken) -> Read {
    let (parsed, taken) = if bytes.len() <= SHORT {
        (Body::parse(bytes, most_values), taken)
    } else {
        // It is never closed. The turn and the room stay with the bytes, also when the client hangs up meanwhile.
        let turn = app.bodies.parsing.clone().acquire_owned().await;
        let parsing = tokio::task::spawn_blocking(move || {
            let parsed = Body::parse(bytes, most_values);
            drop(turn);
            (parsed, taken)
        });
        parsing.await.unwrap_or_else(|error| (Err(error.to_string()), Taken::default()))
    };
    (parsed.map_err(|error| (StatusCode::BAD_REQUEST, format!("JSON parse error - {error}"))), taken)
}

/// The fields of a form, as the object that they are.
fn form(bytes: &[u8], most_values: usize) -> Result<Body, (StatusCode, String)> {
    let text = String::from_utf8_lossy(bytes);
    let fields = Query::parse_first(&text, most_values);
    let fields: Map<String, Json> = fields.pairs().map(|(name, value)| (name.to_owned(), value.into())).collect();
    Ok(Body::of(&Json::Object(fields)))
}
