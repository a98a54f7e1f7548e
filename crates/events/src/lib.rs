//! What happened, on its way to the history service: the outbox of each build, the relay that delivers it, the tenants
//! that builds have there, and the calls.

pub mod history_client;
pub mod history_tenants;
pub mod outbox;
pub mod relay;

use history_client::{HistoryAddress, HistoryClient};
use history_tenants::MakingTenant;
use kit::app::App;
use kit::domain::Domain;
use outbox::Backlog;
use relay::{Delivery, Relay};

/// This domain.
pub static DOMAIN: Domain = Domain {
    name: "events",
    slots: |settings, _, slots| {
        let settings: Settings = settings.domains.get();
        let client = settings.history.as_ref().map(HistoryClient::new).transpose()?;
        slots.put(Client(client));
        slots.put(settings);
        slots.put(Relay::default());
        Ok(())
    },
    build_slots: |slots| {
        slots.put(Backlog::default());
        slots.put(MakingTenant::default());
        slots.put(Delivery::default());
    },
    standing_jobs: &[&relay::DELIVERY],
    health: Some(relay::health),
    start: relay::start,
    ..Domain::EMPTY
};

/// What an operator sets.
#[derive(Clone)]
pub struct Settings {
    /// Where the history service is; `None`: nothing is delivered.
    pub history: Option<HistoryAddress>,
    /// How many bytes of a build's events may wait for it (`CHANCERY_OUTBOX_BYTES`).
    pub outbox_bytes: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { history: None, outbox_bytes: 268_435_456 }
    }
}

struct Client(Option<HistoryClient>);

/// How this process calls the history service, if it does.
pub fn client(app: &App) -> Option<&HistoryClient> {
    app.slot::<Client>().0.as_ref()
}

fn settings(app: &App) -> &Settings {
    app.slot()
}
