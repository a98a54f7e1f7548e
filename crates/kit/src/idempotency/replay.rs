//! Answers the repetition of a request by the stored answer of the first one.

use super::rows::StoredAnswer;
use super::{REPLAYED, RequestKey};
use crate::answer::{Answer, Outcome};
use crate::inner_call::{self, AdmittedCaller, InnerCall};
use crate::refusal::Refusal;
use crate::request::Request;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use resource::JsonBody;
use serde_json::Value as Json;
use std::sync::Arc;
use store::StoreError;

/// The maximum size of an answer that is read again, in bytes.
const MAX_READ_AGAIN: usize = 32 * 1024 * 1024;

/// Answers with the status and the body of the first answer, without any change.
///
/// A large body is read again at the address of the object. The answer about a record or a task that the caller may not view any
/// longer has the id alone.
///
/// # Errors
/// 422 if the first request had another body.
pub async fn replay(request: &Arc<Request>, key: &RequestKey, stored: StoredAnswer) -> Outcome {
    if stored.request_body != key.body {
        let detail = "Idempotency-Key was used with another body.";
        return Err(Refusal::detail(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    let is_visible = match &stored.guard {
        Some(address) => read(request, key, address).await?.is_some(),
        None => true,
    };
    let reference = Shown { body: stored.reference.to_string().into(), etag: None };
    let shown = match (stored.body, &stored.address) {
        _ if !is_visible => reference,
        (Some(body), _) => Shown { body: body.into(), etag: stored.etag },
        (None, Some(address)) => read(request, key, address).await?.unwrap_or(reference),
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
async fn read(request: &Arc<Request>, key: &RequestKey, address: &str) -> Result<Option<Shown>, Refusal> {
    let (Some(caller), Some(admission)) = (request.caller.clone(), request.admission) else { return Ok(None) };
    let call = InnerCall {
        method: Method::GET,
        path: address.to_owned(),
        query: String::new(),
        body: JsonBody::from_json(&Json::Null),
    };
    let by = AdmittedCaller { caller, admission };
    let outcome = inner_call::call(request, &by, key.table, call, Arc::new(|request, conn, run| run(request, conn)));
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
