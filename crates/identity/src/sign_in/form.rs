//! What the forms of the pages send.

use kit::refusal::Refusal;
use kit::request::Request;

/// A field of a form, empty when it was not sent. NUL is removed: no username, token or password has one, and
/// PostgreSQL refuses it.
pub fn form_field(request: &Request, name: &str) -> Result<String, Refusal> {
    let sent = request.object()?.get(name).and_then(|sent| sent.as_str());
    Ok(sent.map_or_else(String::new, |text| text.replace('\0', "")))
}
