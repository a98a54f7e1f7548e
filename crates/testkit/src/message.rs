//! Bodies of refusals that many tests expect.

use serde_json::{Value, json};

pub fn detail(text: &str) -> Value {
    json!({"detail": text})
}
pub fn unauthenticated() -> Value {
    detail("Authentication credentials were not provided.")
}
pub fn bad_token() -> Value {
    detail("Invalid or expired token.")
}
pub fn forbidden() -> Value {
    detail("You do not have permission to perform this action.")
}
pub fn not_found() -> Value {
    detail("Not found.")
}
/// Returns the refusal of a create beyond a limit, such as `100 Roles`.
pub fn limit_exceeded(limit: &str) -> Value {
    json!({"detail": format!("Limit of {limit} has been exceeded."), "error_code": "ERR_LIMIT_EXCEEDED"})
}
