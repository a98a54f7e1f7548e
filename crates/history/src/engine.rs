//! The two engines behind one face: where tenants and their events are kept.
//!
//! What every engine promises:
//! - an id that is stored already, or is being stored by another request or process, is written once, and exactly one
//!   caller is told that he wrote it;
//! - what is answered with `Ok` survives the end of the process at any moment;
//! - failures that may pass have been retried, five times at most and within 20 seconds, when [`Error::Unavailable`] is answered.

use crate::clickhouse::ClickHouse;
use crate::event::{HistoryEvent, SystemEvent};
use crate::filter::Page;
use crate::sqlite::Sqlite;
use uuid::Uuid;

/// A tenant as the engines know it. Its database is named after the client id, so that any permitted name is safe.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// What callers name it by; never used twice.
    pub client_id: Uuid,
    /// SHA-256 of the client's secret, as hexadecimal digits.
    pub secret_hash: String,
    /// The name that it was given.
    pub database_name: String,
    /// The label that it was given.
    pub client_label: String,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// All events of the tenant.
    pub total: i64,
    /// Those that the conditions leave.
    pub filtered: i64,
    /// The page.
    pub results: Vec<T>,
}

/// The most bytes of texts in a page, since a page of the largest events would not fit into any memory. One event fits.
pub const LARGEST_PAGE: usize = 32 << 20;

/// Why an engine did not do it.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// There is no such tenant (any more).
    NoTenant,
    /// The page has more than [`LARGEST_PAGE`] bytes.
    PageTooLarge,
    /// The engine does not answer, or is overloaded: trying again later may help (503).
    Unavailable(String),
    /// It refused (500).
    Failed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoTenant => f.write_str("there is no such tenant"),
            Error::PageTooLarge => f.write_str("the page is too large"),
            Error::Unavailable(cause) | Error::Failed(cause) => f.write_str(cause),
        }
    }
}

/// An engine. Each method is the same on both.
pub enum Engine {
    /// One file for each tenant, in the data directory.
    Sqlite(Sqlite),
    /// One database for each tenant, on a ClickHouse server.
    ClickHouse(ClickHouse),
}

macro_rules! on_both {
    ($self:ident, $engine:ident => $call:expr) => {
        match $self {
            Engine::Sqlite($engine) => $call,
            Engine::ClickHouse($engine) => $call,
        }
    };
}

impl Engine {
    /// Whether it answers.
    pub async fn ready(&self) -> Result<(), Error> {
        on_both!(self, engine => engine.ready().await)
    }

    /// The tenant with a client id, unless it is unknown or being deleted.
    pub async fn tenant(&self, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        on_both!(self, engine => engine.tenant(client_id).await)
    }

    /// The tenant with a database name, unless it is unknown or being deleted.
    pub async fn tenant_named(&self, database_name: &str) -> Result<Option<Tenant>, Error> {
        on_both!(self, engine => engine.tenant_named(database_name).await)
    }

    /// Makes a tenant with an empty database; `false` if another one, even one that is being deleted, has the same name
    /// or label. Of several at the same time one wins. One that was cut short is out of the way within a minute.
    pub async fn initialize(&self, tenant: &Tenant) -> Result<bool, Error> {
        on_both!(self, engine => engine.initialize(tenant).await)
    }

    /// From now on the tenant is unknown to all but [`Engine::delete`]; `None` if it was unknown before. It answers
    /// again for one that was begun and not ended, so that a deletion can be repeated.
    pub async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        on_both!(self, engine => engine.begin_delete(client_id).await)
    }

    /// Removes the database of a tenant whose deletion was begun, and then the tenant; its name is free again.
    pub async fn delete(&self, tenant: &Tenant) -> Result<(), Error> {
        on_both!(self, engine => engine.delete(tenant).await)
    }

    /// Stores an event, durably; `false` if its id was stored before.
    pub async fn add_history_event(&self, tenant: &Tenant, event: HistoryEvent) -> Result<bool, Error> {
        on_both!(self, engine => engine.add_history_event(tenant, event).await)
    }

    /// Stores events, durably, whose ids differ from each other; how many were not stored before. All or none.
    pub async fn add_system_events(&self, tenant: &Tenant, events: Vec<SystemEvent>) -> Result<u64, Error> {
        on_both!(self, engine => engine.add_system_events(tenant, events).await)
    }

    /// One event.
    pub async fn history_event(&self, tenant: &Tenant, id: Uuid) -> Result<Option<HistoryEvent>, Error> {
        on_both!(self, engine => engine.history_event(tenant, id).await)
    }

    /// Part of the list of history events, newest first (see [`HistoryEvent::rank`]).
    pub async fn history_events(&self, tenant: &Tenant, page: Page) -> Result<Listed<HistoryEvent>, Error> {
        on_both!(self, engine => engine.history_events(tenant, page).await)
    }

    /// Part of the list of system events, newest first.
    pub async fn system_events(&self, tenant: &Tenant, page: Page) -> Result<Listed<SystemEvent>, Error> {
        on_both!(self, engine => engine.system_events(tenant, page).await)
    }

    /// Finishes what was accepted.
    pub async fn close(&self) {
        on_both!(self, engine => engine.close().await)
    }
}
