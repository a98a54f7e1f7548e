//! The settings and the migrations of test servers.

use migrations::Conversions;
use std::ops::{Deref, DerefMut};
use store::Migrations;

/// The migrations of the main API.
pub const MIGRATIONS: Migrations = Migrations {
    control: &migrations::CONTROL,
    build: &migrations::build(&Conversions {
        vouching: identity::single_sign_on::migrate_vouching,
        anonymized: identity::users::migrate_anonymized,
    }),
};

/// The settings of a test server: those of the kit, and those of the modules that every server has. A test changes the
/// settings of another module by `domains.edit`.
#[derive(Clone)]
pub struct Settings {
    pub kit: kit::settings::Settings,
    pub events: events::Settings,
    pub identity: identity::Settings,
}

impl From<kit::settings::Settings> for Settings {
    fn from(kit: kit::settings::Settings) -> Settings {
        Settings { kit, events: Default::default(), identity: Default::default() }
    }
}

impl From<Settings> for kit::settings::Settings {
    fn from(settings: Settings) -> kit::settings::Settings {
        let Settings { mut kit, events, identity } = settings;
        kit.domains = kit.domains.with(events).with(identity);
        kit
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
