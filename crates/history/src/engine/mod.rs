//! The engine of a deployment, which stores tenants and their events: SQLite or ClickHouse, behind one interface.

pub mod clickhouse;
mod contract;
pub mod sqlite;

pub use contract::{EngineError, EngineList, MAX_FILES, MAX_PAGE_BYTES, Tenant};

use crate::event::{HistoryEvent, SystemEvent};
use crate::filter::PageRange;
use clickhouse::ClickHouseEngine;
use sqlite::HistorySqlite;
use std::collections::HashSet;
use uuid::Uuid;

/// Either engine. Each method calls the method of the same name.
pub enum HistoryEngine {
    /// One file for each tenant, in the data directory.
    Sqlite(HistorySqlite),
    /// One database for each tenant, on a ClickHouse server.
    ClickHouse(ClickHouseEngine),
}

macro_rules! delegate {
    ($self:ident, $engine:ident => $call:expr) => {
        match $self {
            HistoryEngine::Sqlite($engine) => $call,
            HistoryEngine::ClickHouse($engine) => $call,
        }
    };
}

impl HistoryEngine {
    /// Checks that the engine answers.
    pub async fn ready(&self) -> Result<(), EngineError> {
        delegate!(self, engine => engine.ready().await)
    }

    /// Returns the id of the service that owns this data: a UUID that is created with the data and is unique.
    pub async fn id(&self) -> Result<String, EngineError> {
        match self {
            HistoryEngine::Sqlite(engine) => Ok(engine.id().to_owned()),
            HistoryEngine::ClickHouse(engine) => engine.id().await,
        }
    }

    /// Returns the tenant with a client id, unless it is unknown or being deleted.
    pub async fn tenant(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        delegate!(self, engine => engine.tenant(client_id).await)
    }

    /// Returns the tenant with a database name, unless it is unknown or being deleted.
    pub async fn tenant_named(&self, database_name: &str) -> Result<Option<Tenant>, EngineError> {
        delegate!(self, engine => engine.tenant_named(database_name).await)
    }

    /// Returns the first tenants after a client id (`None`: of all), in the order of their client ids, at most `limit`.
    /// Tenants that are being deleted are left out.
    pub async fn tenants(&self, after: Option<Uuid>, limit: u16) -> Result<Vec<Tenant>, EngineError> {
        delegate!(self, engine => engine.tenants(after, limit).await)
    }

    /// Creates a tenant with an empty database. Returns `false` if another tenant, even one that is being deleted, has
    /// the same name or label. One of several concurrent requests succeeds. The leftovers of a process that dies
    /// meanwhile block the name for at most a minute.
    pub async fn initialize(&self, tenant: &Tenant) -> Result<bool, EngineError> {
        delegate!(self, engine => engine.initialize(tenant).await)
    }

    /// Begins a deletion. All methods except [`HistoryEngine::delete`] and this one then treat the tenant as unknown.
    /// This one returns it again, so that an interrupted deletion can be repeated. `None` if the tenant does not exist.
    pub async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        delegate!(self, engine => engine.begin_delete(client_id).await)
    }

    /// Ends a deletion: removes the tenant's database, and then the tenant. This releases its name and label.
    pub async fn delete(&self, tenant: &Tenant) -> Result<(), EngineError> {
        delegate!(self, engine => engine.delete(tenant).await)
    }

    /// Stores an event durably. Returns `false` if its id was stored before.
    pub async fn add_history_event(&self, tenant: &Tenant, event: HistoryEvent) -> Result<bool, EngineError> {
        delegate!(self, engine => engine.add_history_event(tenant, event).await)
    }

    /// Stores all of these events durably, or none. Their ids must differ. Returns the number of new ones.
    pub async fn add_system_events(&self, tenant: &Tenant, events: Vec<SystemEvent>) -> Result<u64, EngineError> {
        delegate!(self, engine => engine.add_system_events(tenant, events).await)
    }

    /// Returns the history event with an id.
    pub async fn history_event(&self, tenant: &Tenant, id: Uuid) -> Result<Option<HistoryEvent>, EngineError> {
        delegate!(self, engine => engine.history_event(tenant, id).await)
    }

    /// Returns a page of the history events, newest first (see [`HistoryEvent::rank`]).
    pub async fn history_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<HistoryEvent>, EngineError> {
        delegate!(self, engine => engine.history_events(tenant, page).await)
    }

    /// Returns those of these files that events of the tenant name ([`HistoryEvent::files`]). At most [`MAX_FILES`] may
    /// be passed.
    pub async fn named_files(&self, tenant: &Tenant, files: &[Uuid]) -> Result<HashSet<Uuid>, EngineError> {
        delegate!(self, engine => engine.named_files(tenant, files).await)
    }

    /// Returns a page of the system events, newest first.
    pub async fn system_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<SystemEvent>, EngineError> {
        delegate!(self, engine => engine.system_events(tenant, page).await)
    }

    /// Finishes the accepted requests.
    pub async fn close(&self) {
        delegate!(self, engine => engine.close().await)
    }
}
