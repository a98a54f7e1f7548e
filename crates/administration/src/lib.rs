//! The administration of a build: company details, mail settings and outbound mail, authentication objects, limits, and
//! the endpoint of the administration log.

pub mod administration_log;
pub mod authentication_objects;
mod client_credentials;
pub mod company_details;
pub mod limits;
mod limits_to_come;
pub mod mail;
mod messages;
mod smtp_settings;
mod token_test;

pub use client_credentials::TABLE as AUTHENTICATION_OBJECTS_TABLE;
pub use smtp_settings::IS_MAIL_SET_UP;

use kit::domain::Module;
use kit::permissions::PermissionResource;
use kit::secret::SealedColumn;
use mail::queue::{MailKinds, TestPlaces};

/// The registration of the administration module.
pub static MODULE: Module = Module {
    name: "administration",
    routes: || {
        let routes = [
            company_details::routes(),
            smtp_settings::routes(),
            messages::routes(),
            authentication_objects::routes(),
            token_test::routes(),
            administration_log::routes(),
            limits::routes(),
        ];
        routes.into_iter().flatten().collect()
    },
    tags: &[
        ("administration", "Company details, the settings of outbound mail, and the log of who changed what."),
        ("authentication-objects", "Credentials for other services, such as a mail server's."),
        ("limits", "The limits of the build and their use."),
        ("builds", "Builds, for operators of the deployment, by `X-API-Key`."),
    ],
    permissions: &[
        PermissionResource::crud("authentication_objects"),
        PermissionResource::assignable("company_details", &["view", "edit"]),
        PermissionResource::assignable("outbound_mail_setup", &["view", "edit"]),
        PermissionResource::assignable("administration_log", &["list"]),
    ],
    limits: &[&authentication_objects::AUTHENTICATION_OBJECTS],
    reactions: &[smtp_settings::ON_OBJECT_DELETION, kit::idempotency::rows::ON_USER_LEAVING],
    sealed_columns: &[
        SealedColumn { table: "authentication_objects", column: "client_secret", row: "row_key" },
        kit::jobs::PAYLOAD,
        kit::idempotency::rows::ANSWER,
        SealedColumn { table: "mail_jobs", column: "sealed", row: "row_key" },
        SealedColumn { table: "smtp_settings", column: "password", row: "row_key" },
    ],
    slots: |_, _, slots| {
        slots.insert(TestPlaces::default());
        slots.entry::<MailKinds>();
        Ok(())
    },
    jobs: &[&mail::queue::MAIL],
    standing_jobs: &[&mail::queue::FORMER_MAILS, &kit::idempotency::rows::EXPIRY],
    ..Module::EMPTY
};
