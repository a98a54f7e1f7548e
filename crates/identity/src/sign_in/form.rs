//! The fields of the forms of the pages.

use kit::refusal::Refusal;
use kit::request::Request;

/// Returns a field of a form; empty if the form does not contain it. Removes NUL: usernames, tokens and passwords do not contain
/// it, and PostgreSQL refuses it.
pub fn form_field(request: &Request, name: &str) -> Result<String, Refusal> {
    let value = request.object()?.get(name).and_then(|value| value.as_str());
    Ok(value.map_or_else(String::new, |text| text.replace('\0', "")))
}
