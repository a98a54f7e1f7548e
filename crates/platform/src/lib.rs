//! The main API of Chancery: one file or folder for each resource of the specification, and under them the deep
//! modules that all of them share. `docs/architecture.md` draws the path of a request.

pub mod address;
pub mod administration_log;
pub mod app;
mod assignees;
mod attempts;
mod authentication_objects;
mod autocomplete;
mod body;
pub mod builds;
pub mod caller;
mod client_credentials;
mod company_details;
mod fair_queue;
pub mod history_service;
pub mod history_tenants;
pub mod http;
pub mod limits;
mod links;
pub mod mail;
pub mod mail_queue;
mod messages;
pub mod openapi;
pub mod origin;
#[doc(hidden)]
pub mod outbound;
pub mod outbox;
pub mod pages;
pub mod password;
pub mod passwords;
mod permission_set;
pub mod permissions;
pub mod relay;
pub mod roles;
pub mod routes;
pub mod rows;
pub mod secret;
pub mod secret_key;
pub mod security;
mod select_sql;
pub mod serve;
pub mod sign_in;
pub mod single_sign_on;
mod smtp;
mod smtp_settings;
mod super_admin_access;
mod system_events;
pub mod timezones;
pub mod token;
pub mod user_groups;
pub mod users;

use routes::Route;
pub use web::{clock, listener};

/// Every route of the main API.
pub fn all_routes() -> Vec<Route> {
    let resources = [
        openapi::routes(),
        sign_in::routes(),
        users::routes(),
        roles::routes(),
        user_groups::routes(),
        security::routes(),
        company_details::routes(),
        smtp_settings::routes(),
        authentication_objects::routes(),
        single_sign_on::routes(),
        administration_log::routes(),
    ];
    resources.into_iter().flatten().collect()
}
