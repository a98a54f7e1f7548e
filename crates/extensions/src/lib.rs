//! The module of extensions: integrations with their webhooks and document copies, custom components of front ends, and UI
//! configurations (`docs/reference/integrations.md`, `custom-components.md`, `ui-config.md`).

mod custom_components;
mod integrations;
mod settings;
mod ui_config;

pub use custom_components::git;
pub use settings::ExtensionSettings;

use events::outbox::HistoryHooks;
use kit::domain::Module;
use settings::Documents;

/// The registration of the extensions module.
pub static MODULE: Module = Module {
    name: "extensions",
    routes: || {
        [integrations::routes(), custom_components::routes(), ui_config::routes()].into_iter().flatten().collect()
    },
    tags: &[
        ("integrations", "Webhooks, copies of documents, and agents: how a build works with other systems."),
        ("custom-components", "Web pages that front ends embed, imported from git repositories."),
        (
            "ui-config",
            "Configuration of front ends, by component: JSON of their own, custom components, fields for uploads.",
        ),
    ],
    permissions: &[integrations::PERMISSIONS, custom_components::PERMISSIONS, ui_config::PERMISSION],
    limits: &[&custom_components::CUSTOM_COMPONENTS, &ui_config::UI_CONFIGS],
    reactions: &integrations::REACTIONS,
    sealed_columns: &[integrations::SECRETS, custom_components::TOKEN_COLUMN],
    slots: |settings, _, slots| {
        let settings: ExtensionSettings = settings.domains.get();
        let store = Documents::open(&settings).map_err(|cause| format!("CHANCERY_DOCUMENT_STORE_URL: {cause}"))?;
        slots.insert(store);
        slots.insert(settings);
        slots.insert(integrations::Webhooks::default());
        slots.insert(custom_components::CommitPermits::default());
        slots.entry::<HistoryHooks>().0.push(integrations::take_events);
        Ok(())
    },
    build_slots: |slots| {
        slots.insert(integrations::KnownSubscriptions::default());
        slots.insert(integrations::WebhooksOfBuild::default());
    },
    jobs: &[&integrations::COPY, &custom_components::IMPORT],
    standing_jobs: &[&integrations::DELIVERY, &custom_components::INSTALL],
    metrics: integrations::write_metrics,
    start: integrations::start,
    ..Module::EMPTY
};
