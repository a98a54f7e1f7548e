//! The whole main API: the list of its modules, its settings, and the operations of operators on builds.

pub mod key_rotation;
pub mod limits;
mod text_forms;

pub use identity::builds;
pub use {administration, agents, documents, events, extensions, files, identity, kit, records, tasks};

use kit::app::{App, OpenError};
use kit::domain::{self, Domain};
use kit::route::Route;
use kit::table::Table;
use migrations::Conversions;
use std::ops::{Deref, DerefMut};
use store::Migrations;

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

/// The migrations of the control database and of builds, with the conversions that modules implement.
pub const MIGRATIONS: Migrations = Migrations {
    control: &migrations::CONTROL,
    build: &migrations::build(&Conversions {
        vouching: identity::single_sign_on::migrate_vouching,
        anonymized: identity::users::migrate_anonymized,
    }),
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
    domain::start(app);
}

/// Creates all routes of the main API.
pub fn all_routes() -> Vec<Route> {
    domain::register(&DOMAINS);
    domain::all_routes()
}

/// Returns the table of all routes, which is created once.
pub fn table() -> &'static Table {
    domain::register(&DOMAINS);
    domain::table()
}
