//! The migrations of the main API in the order in which they run. Each is portable SQL, some with a step in Rust.
//!
//! The crate is below all modules, so that the tests of any module open databases with all tables. A step that needs the rules
//! of a module is one of the [`Conversions`].

pub mod text_forms;

use store::{DroppedReference, Migration, MigrationStep};

/// The steps of migrations that modules implement.
pub struct Conversions {
    /// Sets the accounts that older single sign-on configurations vouch for.
    pub vouching: MigrationStep,
    /// Erases the traces of users who were anonymized by older versions.
    pub anonymized: MigrationStep,
}

/// The migrations of the control database.
pub const CONTROL: [Migration; 4] = [
    Migration::sql("0001_builds", include_str!("../control/0001_builds.sql")),
    Migration::sql("0002_history_tenants", include_str!("../control/0002_history_tenants.sql")),
    Migration::sql("0003_agent_activity", include_str!("../control/0003_agent_activity.sql")),
    Migration::sql("0004_agent_calls", include_str!("../control/0004_agent_calls.sql")),
];

/// References to users in the rows that every write changes or adds. Users are never removed, so the constraints protected
/// nothing. With them SQLite wrote every index of a changed user, and PostgreSQL read and locked the row of the caller.
const REFERENCES_TO_USERS: [DroppedReference; 4] = [
    DroppedReference { table: "users", column: "link_sent_by", referenced: "users" },
    DroppedReference { table: "users", column: "created_by", referenced: "users" },
    DroppedReference { table: "users", column: "modified_by", referenced: "users" },
    DroppedReference { table: "administration_log", column: "by_user", referenced: "users" },
];

/// Returns the migrations of the database of a build.
pub const fn build(conversions: &Conversions) -> [Migration; 33] {
    [
        Migration::sql("0001_identity", include_str!("../build/0001_identity.sql")),
        Migration::sql("0002_outbound_mail", include_str!("../build/0002_outbound_mail.sql")),
        Migration::sql("0003_single_sign_on", include_str!("../build/0003_single_sign_on.sql")),
        Migration::sql("0004_vouching", include_str!("../build/0004_vouching.sql")).with_step(conversions.vouching),
        Migration::sql("0005_signing_in", include_str!("../build/0005_signing_in.sql")),
        Migration::sql("0006_personal_data_and_keys", include_str!("../build/0006_personal_data_and_keys.sql"))
            .with_step(conversions.anonymized),
        Migration::sql("0007_jobs", include_str!("../build/0007_jobs.sql")),
        Migration::sql("0008_file_extensions", include_str!("../build/0008_file_extensions.sql")),
        Migration::sql("0009_object_classes", include_str!("../build/0009_object_classes.sql")),
        Migration::sql("0010_object_rights", include_str!("../build/0010_object_rights.sql")),
        Migration::sql("0011_files", include_str!("../build/0011_files.sql")),
        Migration::sql("0012_documents", include_str!("../build/0012_documents.sql")),
        Migration::sql("0013_forms", include_str!("../build/0013_forms.sql")),
        Migration::sql("0014_tasks", include_str!("../build/0014_tasks.sql")),
        Migration::sql("0015_integrations", include_str!("../build/0015_integrations.sql")),
        Migration::sql("0016_custom_components", include_str!("../build/0016_custom_components.sql")),
        Migration::sql("0017_ui_config", include_str!("../build/0017_ui_config.sql")),
        Migration::sql("0018_agents", include_str!("../build/0018_agents.sql")),
        Migration::sql("0019_agent_activity", include_str!("../build/0019_agent_activity.sql")),
        Migration::sql("0020_browser_sessions", include_str!("../build/0020_browser_sessions.sql")),
        Migration::sql("0021_consented_tools", include_str!("../build/0021_consented_tools.sql")),
        Migration::sql("0022_storage", include_str!("../build/0022_storage.sql")),
        Migration::sql("0023_task_links", include_str!("../build/0023_task_links.sql")),
        Migration::sql("0024_text_forms", include_str!("../build/0024_text_forms.sql")).with_step(text_forms::migrate),
        Migration::sql("0025_document_requests", include_str!("../build/0025_document_requests.sql")),
        Migration::sql("0026_references_to_users", "").without_references(&REFERENCES_TO_USERS),
        Migration::sql("0027_counter_slots", include_str!("../build/0027_counter_slots.sql")),
        Migration::sql("0028_second_factors", include_str!("../build/0028_second_factors.sql")),
        Migration::sql("0029_api_keys", include_str!("../build/0029_api_keys.sql")),
        Migration::sql("0030_scim", include_str!("../build/0030_scim.sql")),
        Migration::sql("0031_idempotency_keys", include_str!("../build/0031_idempotency_keys.sql")),
        Migration::sql("0033_sequences", include_str!("../build/0033_sequences.sql")),
        Migration::sql("0034_comments", include_str!("../build/0034_comments.sql")),
    ]
}
