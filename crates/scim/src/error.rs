//! Refusals in the form of SCIM (RFC 7644, section 3.12).

use http::StatusCode;
use kit::answer::Answer;
use kit::refusal::{Refusal, RefusalReason};
use resource::{Errors, message};
use serde_json::{Value as Json, json};

/// The media type of bodies and answers.
pub const MEDIA_TYPE: &str = "application/scim+json";
const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// Returns a refusal with 400 and a `scimType`.
pub fn bad_request(scim_type: &'static str, detail: impl Into<String>) -> Refusal {
    Refusal::coded(StatusCode::BAD_REQUEST, scim_type, detail)
}

/// Returns the refusal of a wrong value of an attribute.
pub fn invalid_value(attribute: &str, detail: &str) -> Refusal {
    bad_request("invalidValue", format!("{attribute}: {detail}"))
}

/// Returns the refusal of a value that another resource has.
pub fn uniqueness(attribute: &str) -> Refusal {
    Refusal::coded(StatusCode::CONFLICT, "uniqueness", format!("{attribute}: {}", message::UNIQUE))
}

/// Returns the refusal of a part of SCIM that the server lacks.
pub fn not_implemented(feature: &str) -> Refusal {
    Refusal::detail(StatusCode::NOT_IMPLEMENTED, format!("{feature} is not supported."))
}

/// Renders a refusal. Its status may change: a limit and a taken name are conflicts.
pub fn render(refusal: &Refusal) -> Answer {
    let (status, scim_type, detail) = match &refusal.reason {
        RefusalReason::Limit(detail) => (StatusCode::CONFLICT, None, detail.clone()),
        RefusalReason::Coded { code, detail } => (refusal.status, Some(*code), detail.clone()),
        RefusalReason::Errors(errors) => of_errors(errors),
        reason => {
            let scim_type = (refusal.status == StatusCode::BAD_REQUEST).then_some("invalidSyntax");
            (refusal.status, scim_type, reason.messages().join(" "))
        }
    };
    let mut body = json!({"schemas": [ERROR], "status": status.as_u16().to_string(), "detail": detail});
    if let Some(scim_type) = scim_type {
        body["scimType"] = scim_type.into();
    }
    let mut answer = scim_answer(status, &body);
    answer.headers.clone_from(&refusal.headers);
    answer
}

/// Returns the status, the `scimType` and the text for errors of fields.
fn of_errors(errors: &Errors) -> (StatusCode, Option<&'static str>, String) {
    let texts: Vec<(String, Vec<String>)> =
        errors.iter().map(|(field, messages)| (attribute(field).to_owned(), messages.messages())).collect();
    let is_conflict = texts.iter().all(|(_, messages)| messages.iter().all(|text| text == message::UNIQUE));
    let detail: Vec<String> = texts.iter().map(|(name, messages)| format!("{name}: {}", messages.join(" "))).collect();
    match is_conflict {
        true => (StatusCode::CONFLICT, Some("uniqueness"), detail.join(" ")),
        false => (StatusCode::BAD_REQUEST, Some("invalidValue"), detail.join(" ")),
    }
}

/// Returns the name of an attribute for a field of a user or group.
fn attribute(field: &str) -> &str {
    match field {
        "username" => "userName",
        "first_name" => "name.givenName",
        "last_name" => "name.familyName",
        "job_title" => "title",
        "company_name" => "organization",
        "phone" | "mobile" => "phoneNumbers",
        "account_type" => "userType",
        "name" => "displayName",
        other => other,
    }
}

/// Returns an answer with the media type of SCIM.
pub fn scim_answer(status: StatusCode, body: &Json) -> Answer {
    let mut answer = Answer::json(status, body.to_string());
    answer.content_type = Some(MEDIA_TYPE);
    answer
}
