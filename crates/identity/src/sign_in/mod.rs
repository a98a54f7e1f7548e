//! Signing in: `/api/auth/…` and the small pages (`docs/reference/sign-in.md`).

pub mod aim;
mod form;
pub mod login;
mod page_script;
pub mod pages;
pub mod passkey;
pub mod second_factor;
pub mod second_form;
pub mod second_step;
pub mod set_password;

use kit::route::Route;

pub fn routes() -> Vec<Route> {
    [login::routes(), second_factor::routes(), passkey::routes(), set_password::routes(), pages::routes()]
        .into_iter()
        .flatten()
        .collect()
}
