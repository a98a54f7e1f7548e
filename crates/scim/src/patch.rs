//! The body of a PATCH: a list of operations (RFC 7644, section 3.5.2).

use crate::draft::Operation;
use crate::error::{bad_request, invalid_value};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;

/// The maximum number of operations of a request.
const MAX_OPERATIONS: usize = 1_000;

/// An operation with its path and its value.
pub struct PatchOperation {
    pub operation: Operation,
    pub path: Option<String>,
    /// `None` if the operation has none.
    pub value: Option<Json>,
}

/// Reads the body of a request, which is an object.
pub fn body(request: &Request) -> Result<Json, Refusal> {
    request.object()?;
    serde_json::from_str(request.sent_text()?).map_err(|error| bad_request("invalidSyntax", error.to_string()))
}

/// Reads the operations of a PATCH. The names of members and operations have any case.
pub fn operations(request: &Request) -> Result<Vec<PatchOperation>, Refusal> {
    let Json::Object(body) = body(request)? else { return Err(no_operations()) };
    let operations = body.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("Operations")).map(|(_, value)| value);
    let Some(Json::Array(operations)) =
        operations.filter(|value| value.as_array().is_some_and(|items| !items.is_empty()))
    else {
        return Err(no_operations());
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(invalid_value("Operations", &format!("Limit of {MAX_OPERATIONS} operations has been exceeded.")));
    }
    operations.into_iter().map(operation).collect()
}

fn no_operations() -> Refusal {
    bad_request("invalidSyntax", "A PATCH has a list of Operations.")
}

fn operation(json: Json) -> Result<PatchOperation, Refusal> {
    let Json::Object(members) = json else { return Err(bad_request("invalidSyntax", "An operation is an object.")) };
    let (mut name, mut path, mut value) = (None, None, None);
    for (member, member_value) in members {
        match member.to_ascii_lowercase().as_str() {
            "op" => name = member_value.as_str().map(str::to_ascii_lowercase),
            "path" => path = Some(member_value),
            "value" => value = Some(member_value),
            _ => {}
        }
    }
    let operation = match name.as_deref() {
        Some("add") => Operation::Add,
        Some("replace") => Operation::Replace,
        Some("remove") => Operation::Remove,
        _ => return Err(bad_request("invalidSyntax", "The op of an operation is add, replace or remove.")),
    };
    let path = match path {
        None | Some(Json::Null) => None,
        Some(Json::String(path)) => Some(path),
        Some(_) => return Err(bad_request("invalidPath", "A path is a text.")),
    };
    Ok(PatchOperation { operation, path, value })
}
