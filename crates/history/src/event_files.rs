//! `GET /api/history/events/{event_id}/file` and `GET /api/files/upload-url` (`docs/reference/history.md`).

use crate::engine::Error;
use crate::reply::{Outcome, Refusal, Reply};
use crate::schema::{object, required, text, uuid};
use crate::service::Service;
use http::StatusCode;
use resource::openapi::titled;
use serde_json::{Value as Json, json};
use uuid::Uuid;

/// Redirects to the file of an event, the first if it names several.
pub async fn redirect(service: &Service, client_id: Uuid, event_id: Option<Uuid>) -> Outcome {
    let tenant = service.tenant(client_id).await?.ok_or_else(Refusal::no_connection)?;
    let event_id = event_id.ok_or_else(Refusal::not_found)?;
    let event = service.engine.history_event(&tenant, event_id).await.map_err(Refusal::unreadable)?;
    let file_id = event.and_then(|event| event.files().first().copied()).ok_or_else(Refusal::not_found)?;
    let address = service.files.download_address(&tenant, file_id).await;
    let address = address.map_err(|error| no_address(error, Refusal::no_connection))?;
    Ok(Reply::redirect(&address))
}

/// Answers an address to which the content of a new file can be uploaded.
pub async fn upload_address(service: &Service, client_id: Uuid) -> Outcome {
    let no_tenant = || Refusal::no_tenant(&client_id.to_string());
    let tenant = service.tenant(client_id).await?.ok_or_else(no_tenant)?;
    let given = service.files.upload_address(&tenant).await;
    let (file_id, upload_url) = given.map_err(|error| no_address(error, no_tenant))?;
    Ok(Reply::json(StatusCode::OK, &json!({"upload_url": upload_url, "file_id": file_id.to_string()})))
}

/// The schema of what [`upload_address`] answers.
pub fn upload_address_schema() -> Json {
    titled("UploadAddress", object([("upload_url", required(text())), ("file_id", required(uuid()))]))
}

fn no_address(error: Error, no_tenant: impl FnOnce() -> Refusal) -> Refusal {
    match error {
        Error::Unavailable(cause) => Refusal::unavailable("File storage temporarily unavailable.", cause),
        error => Refusal::engine(error, "Failed to reach the files.", no_tenant),
    }
}
