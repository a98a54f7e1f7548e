//! The whole main API: the list of its modules, its settings, and the operations of operators on builds.

pub mod key_rotation;
pub mod limits;
pub mod moving;
mod system;
mod text_forms;

pub use identity::builds;
pub use {
    administration, agents, comments, documents, events, extensions, files, identity, kit, records, scim, sequences,
    tasks,
};

use kit::app::{App, OpenError};
use kit::domain::{self, Module};
use kit::route::Route;
use kit::table::Table;
use migrations::Conversions;
use std::ops::{Deref, DerefMut};
use store::Migrations;

/// All modules. A module uses only those before it.
pub static MODULES: [&Module; 15] = [
    &events::MODULE,
    &files::MODULE,
    &administration::MODULE,
    &identity::MODULE,
    &scim::MODULE,
    &records::MODULE,
    &documents::MODULE,
    &tasks::MODULE,
    &comments::MODULE,
    &extensions::MODULE,
    &agents::MODULE,
    &sequences::MODULE,
    &web_console::MODULE,
    &text_forms::MODULE,
    &system::MODULE,
];

/// The migrations of the control database and of builds, with the conversions that modules implement.
pub const MIGRATIONS: Migrations = Migrations {
    control: &migrations::CONTROL,
    build: &migrations::build(&Conversions {
        vouching: identity::single_sign_on::migrate_vouching,
        anonymized: identity::users::migrate_anonymized,
    }),
};

/// The settings of the main API (`docs/operations.md`): those of the kit and of the modules with settings.
#[derive(Clone)]
pub struct ApiSettings {
    pub kit: kit::settings::KitSettings,
    pub events: events::EventSettings,
    pub files: files::FileSettings,
    pub identity: identity::IdentitySettings,
    pub extensions: extensions::ExtensionSettings,
    pub sequences: sequences::SequenceSettings,
}

impl From<kit::settings::KitSettings> for ApiSettings {
    fn from(kit: kit::settings::KitSettings) -> ApiSettings {
        ApiSettings {
            kit,
            events: Default::default(),
            files: Default::default(),
            identity: Default::default(),
            extensions: Default::default(),
            sequences: Default::default(),
        }
    }
}

impl Deref for ApiSettings {
    type Target = kit::settings::KitSettings;
    fn deref(&self) -> &kit::settings::KitSettings {
        &self.kit
    }
}

impl DerefMut for ApiSettings {
    fn deref_mut(&mut self) -> &mut kit::settings::KitSettings {
        &mut self.kit
    }
}

/// Opens the application with every module.
pub async fn open(settings: ApiSettings) -> Result<App, OpenError> {
    let ApiSettings { mut kit, events, files, identity, extensions, sequences } = settings;
    kit.domains = kit
        .domains
        .with_settings(events)
        .with_settings(files)
        .with_settings(identity)
        .with_settings(extensions)
        .with_settings(sequences);
    domain::open(kit, MIGRATIONS, &MODULES).await
}

/// Starts the background work of a server.
pub fn start(app: &App) {
    domain::start(app);
}

/// Creates all routes of the main API.
pub fn all_routes() -> Vec<Route> {
    domain::register(&MODULES);
    domain::all_routes()
}

/// Returns the table of all routes, which is created once.
pub fn table() -> &'static Table {
    domain::register(&MODULES);
    domain::table()
}
