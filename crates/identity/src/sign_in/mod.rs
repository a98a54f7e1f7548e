//! Signing in: `/api/auth/…` and the small pages (`docs/reference/sign-in.md`).

pub mod aim;
pub mod login;
pub mod pages;
pub mod set_password;

use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;

pub fn routes() -> Vec<Route> {
    [login::routes(), set_password::routes(), pages::routes()].into_iter().flatten().collect()
}

/// A field of a form, empty when it was not sent. NUL is removed: no username, token or password has one, and
/// PostgreSQL refuses it.
fn form_field(request: &Request, name: &str) -> Result<String, Refusal> {
    let sent = request.object()?.get(name).and_then(|sent| sent.as_str());
    Ok(sent.map_or_else(String::new, |text| text.replace('\0', "")))
}
