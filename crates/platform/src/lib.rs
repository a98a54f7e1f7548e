//! The whole main API: the list of its domains, all migrations, and the operations of operators on builds.

pub mod builds;
mod description;
pub mod key_rotation;
pub mod limits;
mod text_forms;

pub use {administration, agents, documents, events, extensions, files, identity, kit, records, tasks};

use kit::app::{App, OpenError};
use kit::domain::{self, Domain};
use kit::route::Route;
use kit::table::Table;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use store::{Migration, Migrations};

/// All domains. A domain uses only those before it.
pub static DOMAINS: [&Domain; 11] = [
    &events::DOMAIN,
    &files::DOMAIN,
    &administration::DOMAIN,
    &identity::DOMAIN,
    &records::DOMAIN,
    &documents::DOMAIN,
    &tasks::DOMAIN,
    &extensions::DOMAIN,
    &agents::DOMAIN,
    &web_console::DOMAIN,
    &text_forms::DOMAIN,
];

/// The migrations of the control database and of builds, in order. Each is portable SQL, some with a step in Rust.
pub const MIGRATIONS: Migrations = Migrations {
    control: &[
        Migration::sql("0001_builds", include_str!("../migrations/control/0001_builds.sql")),
        Migration::sql("0002_history_tenants", include_str!("../migrations/control/0002_history_tenants.sql")),
        Migration::sql("0003_agent_activity", include_str!("../migrations/control/0003_agent_activity.sql")),
        Migration::sql("0004_agent_calls", include_str!("../migrations/control/0004_agent_calls.sql")),
    ],
    build: &[
        Migration::sql("0001_identity", include_str!("../migrations/build/0001_identity.sql")),
        Migration::sql("0002_outbound_mail", include_str!("../migrations/build/0002_outbound_mail.sql")),
        Migration::sql("0003_single_sign_on", include_str!("../migrations/build/0003_single_sign_on.sql")),
        Migration::sql("0004_vouching", include_str!("../migrations/build/0004_vouching.sql"))
            .then(identity::single_sign_on::migrate_vouching),
        Migration::sql("0005_signing_in", include_str!("../migrations/build/0005_signing_in.sql")),
        Migration::sql(
            "0006_personal_data_and_keys",
            include_str!("../migrations/build/0006_personal_data_and_keys.sql"),
        )
        .then(identity::users::migrate_anonymized),
        Migration::sql("0007_jobs", include_str!("../migrations/build/0007_jobs.sql")),
        Migration::sql("0008_file_extensions", include_str!("../migrations/build/0008_file_extensions.sql")),
        Migration::sql("0009_object_classes", include_str!("../migrations/build/0009_object_classes.sql")),
        Migration::sql("0010_object_rights", include_str!("../migrations/build/0010_object_rights.sql")),
        Migration::sql("0011_files", include_str!("../migrations/build/0011_files.sql")),
        Migration::sql("0012_documents", include_str!("../migrations/build/0012_documents.sql")),
        Migration::sql("0013_forms", include_str!("../migrations/build/0013_forms.sql")),
        Migration::sql("0014_tasks", include_str!("../migrations/build/0014_tasks.sql")),
        Migration::sql("0015_integrations", include_str!("../migrations/build/0015_integrations.sql")),
        Migration::sql("0016_custom_components", include_str!("../migrations/build/0016_custom_components.sql")),
        Migration::sql("0017_ui_config", include_str!("../migrations/build/0017_ui_config.sql")),
        Migration::sql("0018_agents", include_str!("../migrations/build/0018_agents.sql")),
        Migration::sql("0019_agent_activity", include_str!("../migrations/build/0019_agent_activity.sql")),
        Migration::sql("0020_browser_sessions", include_str!("../migrations/build/0020_browser_sessions.sql")),
        Migration::sql("0021_consented_tools", include_str!("../migrations/build/0021_consented_tools.sql")),
        Migration::sql("0022_storage", include_str!("../migrations/build/0022_storage.sql")),
        Migration::sql("0023_task_links", include_str!("../migrations/build/0023_task_links.sql")),
        Migration::sql("0024_text_forms", include_str!("../migrations/build/0024_text_forms.sql"))
            .then(text_forms::migrate),
        Migration::sql("0025_document_requests", include_str!("../migrations/build/0025_document_requests.sql")),
    ],
};

/// The settings of the main API (`docs/operations.md`): those of the kit and of the domains that have settings.
#[derive(Clone)]
pub struct Settings {
    pub kit: kit::settings::Settings,
    pub events: events::Settings,
    pub files: files::Settings,
    pub identity: identity::Settings,
    pub extensions: extensions::Settings,
}

impl From<kit::settings::Settings> for Settings {
    fn from(kit: kit::settings::Settings) -> Settings {
        Settings {
            kit,
            events: Default::default(),
            files: Default::default(),
            identity: Default::default(),
            extensions: Default::default(),
        }
    }
}

impl Deref for Settings {
    type Target = kit::settings::Settings;
    fn deref(&self) -> &kit::settings::Settings {
        &self.kit
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut kit::settings::Settings {
        &mut self.kit
    }
}

/// Opens the application with every domain.
pub async fn open(settings: Settings) -> Result<App, OpenError> {
    let Settings { mut kit, events, files, identity, extensions } = settings;
    kit.domains = kit.domains.with(events).with(files).with(identity).with(extensions);
    domain::open(kit, MIGRATIONS, &DOMAINS).await
}

/// Starts the background work of a server.
pub fn start(app: &App) {
    kit::jobs::start(app);
    DOMAINS.iter().for_each(|domain| (domain.start)(app));
}

/// Creates all routes of the main API.
pub fn all_routes() -> Vec<Route> {
    domain::register(&DOMAINS);
    let domain_routes = DOMAINS.iter().rev().flat_map(|domain| (domain.routes)());
    description::routes().into_iter().chain(domain_routes).collect()
}

/// The table of all routes, created once.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(all_routes()));
    &TABLE
}
