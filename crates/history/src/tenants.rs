//! `POST /api/initialize-tenant` and `DELETE /api/delete-tenant` (document 3, "History service"; document 4, section 6).

use crate::engine::{self, Tenant};
use crate::openapi::{needed, object, text};
use crate::reply::{Outcome, Problem, Problems, Refusal, Reply, Step};
use crate::scalar::{Reading, Scalar, fields};
use crate::service::{self, Service};
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value as Json, json};
use uuid::Uuid;
use web::clock::{random_token, sha256_hex};

/// The longest `database_name`, in characters.
const LONGEST_NAME: usize = 64;
/// The longest `client_label`; no document bounds it, an index does.
const LONGEST_LABEL: usize = 1000;

/// Makes a tenant. Its secret is shown this once.
pub async fn initialize(service: &Service, headers: &HeaderMap, body: Incoming) -> Outcome {
    let held = service.room.read(None, headers, body).await?;
    let (database_name, client_label) = service.off_the_runtime_if_long(held.bytes, read).await?;
    let client_secret = random_token();
    let tenant =
        Tenant { client_id: Uuid::new_v4(), secret_hash: sha256_hex(&client_secret), database_name, client_label };
    if !service.engine.initialize(&tenant).await.map_err(failed)? {
        return Err(Refusal::bad("Client already exist."));
    }
    let Tenant { client_id, database_name, .. } = tenant;
    let shown = json!({
        "client_id": client_id.to_string(), "client_secret": client_secret, "database_name": database_name,
    });
    Ok(Reply::json(StatusCode::CREATED, &shown))
}

/// Deletes a tenant: from the first step on nobody else knows it, and the steps can be repeated.
pub async fn delete(service: &Service, client_id: Uuid) -> Outcome {
    let _one = service.begin_deletion(client_id).ok_or_else(Refusal::no_connection)?;
    let tenant = service.engine.begin_delete(client_id).await.map_err(failed)?.ok_or_else(Refusal::no_connection)?;
    service.forget(client_id);
    service.files.delete_tenant(&tenant).await.map_err(|error| {
        let mut refusal = Refusal::bad(&format!("Tenant files not deleted: {}.", tenant.database_name));
        refusal.cause = Some(error.to_string());
        refusal
    })?;
    service.engine.delete(&tenant).await.map_err(failed)?;
    Ok(Reply::empty())
}

fn failed(error: engine::Error) -> Refusal {
    Refusal::engine(error, "Failed to change tenants.", Refusal::no_connection)
}

fn read(body: &[u8]) -> Result<(String, String), Refusal> {
    let body = service::json(body, Reading(Wanted::default()))?;
    let mut problems = Problems::default();
    let Some(wanted) = body.0 else {
        problems.add(&[Step::Name("body")], Problem::NotAnObject);
        return Err(problems.into());
    };
    let name = wanted.database_name.string().and_then(|name| match &name {
        name if name.chars().count() > LONGEST_NAME => Err(Problem::TooLong(LONGEST_NAME)),
        name if !is_identifier(name) => Err(Problem::NoMatch),
        _ => Ok(name),
    });
    let label = wanted.client_label.string().and_then(|label| match &label {
        label if label.chars().count() > LONGEST_LABEL => Err(Problem::TooLong(LONGEST_LABEL)),
        _ => Ok(label),
    });
    match (name, label) {
        (Ok(name), Ok(label)) => Ok((name, label)),
        (name, label) => {
            for (field, problem) in [("database_name", name.err()), ("client_label", label.err())] {
                if let Some(problem) = problem {
                    problems.add(&[Step::Name("body"), Step::Name(field)], problem);
                }
            }
            Err(problems.into())
        }
    }
}

/// Letters, digits and underscore, not starting with a digit.
fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fields! {
    /// A tenant as it is asked for.
    Wanted {
        "database_name" => database_name: Scalar<'a> =
            needed(json!({"type": "string", "maxLength": LONGEST_NAME, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}));
        "client_label" => client_label: Scalar<'a> = needed(json!({"type": "string", "maxLength": LONGEST_LABEL}));
    }
}

/// The body of `initialize-tenant`, and what is answered.
pub fn schemas() -> (Json, Json) {
    let shown = ["client_id", "client_secret", "database_name"].map(|name| (name, needed(text())));
    (Wanted::schema(), object(shown))
}
