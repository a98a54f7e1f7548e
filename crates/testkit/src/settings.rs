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
pub struct TestSettings {
    pub kit: kit::settings::KitSettings,
    pub events: events::EventSettings,
    pub identity: identity::IdentitySettings,
}

impl From<kit::settings::KitSettings> for TestSettings {
    fn from(kit: kit::settings::KitSettings) -> TestSettings {
        TestSettings { kit, events: Default::default(), identity: Default::default() }
    }
}

impl From<TestSettings> for kit::settings::KitSettings {
    fn from(settings: TestSettings) -> kit::settings::KitSettings {
        let TestSettings { mut kit, events, identity } = settings;
        kit.domains = kit.domains.with_settings(events).with_settings(identity);
        kit
    }
}

impl Deref for TestSettings {
    type Target = kit::settings::KitSettings;
    fn deref(&self) -> &kit::settings::KitSettings {
        &self.kit
    }
}

impl DerefMut for TestSettings {
    fn deref_mut(&mut self) -> &mut kit::settings::KitSettings {
        &mut self.kit
    }
}
