//! The state between the two steps of a sign-in.

use crate::second_factors::challenges::{self, ChallengePurpose};
use crate::second_factors::proof::SecondStep;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, StoreError};

/// Returns the schema of an answer that asks for the second step.
pub fn second_step_schema() -> Json {
    let methods = json!({"type": "array", "items": {"type": "string", "enum": ["totp", "passkey", "recovery_code"]}});
    let seconds = json!({"type": "integer", "description": "Seconds until the challenge ends"});
    let mut step = object([("challenge", json!({"type": "string"})), ("methods", methods), ("expires_in", seconds)]);
    step["properties"]["options"] =
        json!({"type": "object", "description": "The options of WebAuthn, if `methods` contains `passkey`"});
    titled("SecondFactorChallenge", step)
}

/// Begins the second step of a user, whose row must be locked. Returns `None` if the user has no factor any more.
pub fn begin_second_step(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    purpose: ChallengePurpose,
) -> Result<Option<SecondStep>, StoreError> {
    let challenge = challenges::begin(request, conn, user, purpose)?;
    SecondStep::load(request, conn, user, challenge)
}

/// Returns the second step of a challenge, if the challenge still lives. A page shows it again.
pub async fn repeat_second_step(
    request: &Arc<Request>,
    challenge: String,
    purpose: ChallengePurpose,
) -> Result<Option<SecondStep>, Refusal> {
    let shared = request.clone();
    let load_user = move |conn: &mut Conn| match challenges::find(&shared, conn, &challenge, purpose)?
        .and_then(|challenge_row| challenge_row.user)
    {
        Some(user) => SecondStep::load(&shared, conn, user, challenge.clone()),
        None => Ok(None),
    };
    Ok(request.build.db.read::<_, StoreError>(load_user).await?)
}
