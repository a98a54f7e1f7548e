//! `POST /api/initialize-tenant` and `DELETE /api/delete-tenant` (`docs/reference/history.md`).

use crate::engine::{self, Tenant};
use crate::fields::{self, Scalar, fields};
use crate::reply::{HistoryOutcome, HistoryRefusal, HistoryReply, PathStep, Problem, Problems};
use crate::schema::{object, required, text};
use crate::service::HistoryService;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use resource::openapi::titled;
use serde_json::{Value as Json, json};
use uuid::Uuid;
use web::clock::{random_token, sha256_hex};

/// The maximum number of characters of a `database_name`.
const MAX_NAME_CHARS: usize = 64;
/// The maximum number of characters of a `client_label`. The specification does not limit it, but it is indexed.
const MAX_LABEL_CHARS: usize = 1000;

/// Creates a tenant. Only this answer contains its secret.
pub async fn initialize(service: &HistoryService, headers: &HeaderMap, body: Incoming) -> HistoryOutcome {
    let body = service.bodies.read(None, headers, body).await?;
    let (database_name, client_label) = service.parse(body.bytes, read).await?;
    let client_secret = random_token();
    let tenant =
        Tenant { client_id: Uuid::new_v4(), secret_hash: sha256_hex(&client_secret), database_name, client_label };
    if !service.engine.initialize(&tenant).await.map_err(engine_failure)? {
        return Err(HistoryRefusal::bad_request("Client already exist."));
    }
    let Tenant { client_id, database_name, .. } = tenant;
    let shown = json!({
        "client_id": client_id.to_string(), "client_secret": client_secret, "database_name": database_name,
    });
    Ok(HistoryReply::json(StatusCode::CREATED, &shown))
}

/// Deletes a tenant with its events and files. After the first step all other requests treat it as unknown. A repeated
/// request completes an interrupted deletion.
pub async fn delete(service: &HistoryService, client_id: Uuid) -> HistoryOutcome {
    let _deletion = service.begin_deletion(client_id).ok_or_else(HistoryRefusal::tenant_unavailable)?;
    let tenant = service
        .engine
        .begin_delete(client_id)
        .await
        .map_err(engine_failure)?
        .ok_or_else(HistoryRefusal::tenant_unavailable)?;
    service.forget_tenant(client_id);
    service.files.delete_tenant(&tenant).await.map_err(|error| {
        let mut refusal = HistoryRefusal::bad_request(&format!("Tenant files not deleted: {}.", tenant.database_name));
        refusal.cause = Some(error.to_string());
        refusal
    })?;
    service.engine.delete(&tenant).await.map_err(engine_failure)?;
    Ok(HistoryReply::empty())
}

fn engine_failure(error: engine::EngineError) -> HistoryRefusal {
    HistoryRefusal::engine(error, "Failed to change tenants.", HistoryRefusal::tenant_unavailable)
}

/// Reads the database name and the label of a body.
fn read(body: &[u8]) -> Result<(String, String), HistoryRefusal> {
    let tenant_fields = fields::read(body, TenantFields::default())?;
    let name = tenant_fields.database_name.string().and_then(|name| match &name {
        name if name.chars().count() > MAX_NAME_CHARS => Err(Problem::TooLong(MAX_NAME_CHARS)),
        name if !is_identifier(name) => Err(Problem::NoMatch),
        _ => Ok(name),
    });
    let label = tenant_fields.client_label.string().and_then(|label| match &label {
        label if label.chars().count() > MAX_LABEL_CHARS => Err(Problem::TooLong(MAX_LABEL_CHARS)),
        _ => Ok(label),
    });
    match (name, label) {
        (Ok(name), Ok(label)) => Ok((name, label)),
        (name, label) => {
            let mut problems = Problems::default();
            for (field, problem) in [("database_name", name.err()), ("client_label", label.err())] {
                if let Some(problem) = problem {
                    problems.add(&[PathStep::Name("body"), PathStep::Name(field)], problem);
                }
            }
            Err(problems.into())
        }
    }
}

/// Returns whether a name consists of letters, digits and underscores, and does not start with a digit.
fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fields! {
    /// The body of `initialize-tenant`.
    TenantFields {
        "database_name" => database_name: Scalar<'a> =
            required(json!({"type": "string", "maxLength": MAX_NAME_CHARS, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}));
        "client_label" => client_label: Scalar<'a> = required(json!({"type": "string", "maxLength": MAX_LABEL_CHARS}));
    }
}

/// Returns the schemas of the body of `initialize-tenant` and of its answer.
pub fn schemas() -> (Json, Json) {
    let shown = ["client_id", "client_secret", "database_name"].map(|name| (name, required(text())));
    (titled("TenantCreate", TenantFields::schema()), titled("Tenant", object(shown)))
}
