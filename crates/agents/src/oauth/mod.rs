//! The sign-in of agents on a person's behalf: OAuth 2.1 (`docs/reference/agent-sign-in.md`).
//!
//! An agent sends a person to `/oauth/authorize`, where he signs in and consents. The agent gets a code, which it exchanges
//! at `/oauth/token` for tokens of a grant.

pub mod authorization;
mod authorize;
pub mod client;
pub mod metadata;
mod pages;
mod token;
mod transaction;

pub use authorize::WAY_BACK;

use kit::route::Route;

pub fn routes() -> Vec<Route> {
    [metadata::routes(), authorize::routes(), token::routes()].into_iter().flatten().collect()
}
