//! `GET /api/history/events/{event_id}/file` and `GET /api/files/upload-url` (`docs/reference/history.md`).

use crate::engine::EngineError;
use crate::reply::{HistoryOutcome, HistoryRefusal, HistoryReply};
use crate::schema::{object, required, text, uuid};
use crate::service::HistoryService;
use http::StatusCode;
use resource::openapi::titled;
use serde_json::{Value as Json, json};
use uuid::Uuid;

/// Redirects to the file of an event; to the first one if it names several.
pub async fn redirect(service: &HistoryService, client_id: Uuid, event_id: Option<Uuid>) -> HistoryOutcome {
    let tenant = service.tenant(client_id).await?.ok_or_else(HistoryRefusal::tenant_unavailable)?;
    let event_id = event_id.ok_or_else(HistoryRefusal::not_found)?;
    let event = service.engine.history_event(&tenant, event_id).await.map_err(HistoryRefusal::unreadable)?;
    let file_id = event.and_then(|event| event.files().first().copied()).ok_or_else(HistoryRefusal::not_found)?;
    let address = service.files.download_address(&tenant, file_id).await;
    let address = address.map_err(|error| address_failure(error, HistoryRefusal::tenant_unavailable))?;
    Ok(HistoryReply::redirect(&address))
}

/// Returns an address to which the content of a new file can be uploaded.
pub async fn upload_address(service: &HistoryService, client_id: Uuid) -> HistoryOutcome {
    let no_tenant = || HistoryRefusal::tenant_not_found(&client_id.to_string());
    let tenant = service.tenant(client_id).await?.ok_or_else(no_tenant)?;
    let address = service.files.upload_address(&tenant).await;
    let (file_id, upload_url) = address.map_err(|error| address_failure(error, no_tenant))?;
    Ok(HistoryReply::json(StatusCode::OK, &json!({"upload_url": upload_url, "file_id": file_id.to_string()})))
}

/// Returns the schema of the answer of [`upload_address`].
pub fn upload_address_schema() -> Json {
    titled("UploadAddress", object([("upload_url", required(text())), ("file_id", required(uuid()))]))
}

fn address_failure(error: EngineError, no_tenant: impl FnOnce() -> HistoryRefusal) -> HistoryRefusal {
    match error {
        EngineError::Unavailable(cause) => HistoryRefusal::unavailable("File storage temporarily unavailable.", cause),
        error => HistoryRefusal::engine(error, "Failed to reach the files.", no_tenant),
    }
}
