//! Delivers events to the history service. This crate has the outbox of each build, the relay that delivers it, and
//! the HTTP client of the service. It also has the tenants of builds and the copies of documents in the service.

pub mod file_copies;
pub mod history_client;
mod history_lists;
pub mod history_tenants;
pub mod outbox;
pub mod own_history;
pub mod record_events;
pub mod record_history;
pub mod relay;
pub mod system_history;

use history_client::{HistoryAddress, HistoryClient};
use history_tenants::TenantCreationLock;
use kit::app::App;
use kit::domain::Module;
use outbox::{Backlog, HistoryHooks};
use relay::{Relay, RelayState};
use std::sync::OnceLock;

/// The registration of the events module.
pub static MODULE: Module = Module {
    name: "events",
    slots: |settings, _, slots| {
        let settings: EventSettings = settings.domains.get();
        let client = OnceLock::new();
        if let Some(address) = &settings.history {
            let _ = client.set(HistoryClient::new(address)?);
        }
        slots.insert(HistoryClientSlot(client));
        slots.insert(settings);
        slots.insert(Relay::default());
        slots.insert(HistoryHooks::default());
        Ok(())
    },
    build_slots: |slots| {
        slots.insert(Backlog::default());
        slots.insert(TenantCreationLock::default());
        slots.insert(RelayState::default());
    },
    standing_jobs: &[&relay::DELIVERY],
    health: Some(relay::health),
    metrics: relay::write_metrics,
    health_schema: Some((relay::HEALTH, relay::health_schema)),
    start: relay::start,
    ..Module::EMPTY
};

/// The settings of this module.
#[derive(Clone)]
pub struct EventSettings {
    /// The address of the history service; `None`: nothing is delivered.
    pub history: Option<HistoryAddress>,
    /// The maximum size of a build's events that may wait in its outbox, in bytes (`CHANCERY_OUTBOX_BYTES`).
    pub outbox_bytes: i64,
}

impl Default for EventSettings {
    fn default() -> EventSettings {
        EventSettings { history: None, outbox_bytes: 268_435_456 }
    }
}

struct HistoryClientSlot(OnceLock<HistoryClient>);

/// Returns the client of the history service; `None` if nothing is delivered.
pub fn client(app: &App) -> Option<&HistoryClient> {
    app.slot::<HistoryClientSlot>().0.get()
}

/// Connects a process that was opened without a history service. A command reads the address from the database.
pub fn connect(app: &App, client: HistoryClient) {
    let _ = app.slot::<HistoryClientSlot>().0.set(client);
}

fn settings(app: &App) -> &EventSettings {
    app.slot()
}
