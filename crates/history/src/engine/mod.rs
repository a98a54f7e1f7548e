//! The engine of a deployment, which keeps tenants and their events: SQLite or ClickHouse, behind one interface.

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
    /// Whether the engine answers.
    pub async fn ready(&self) -> Result<(), EngineError> {
        delegate!(self, engine => engine.ready().await)
    }

    /// The id of the service whose data this is: a UUID that is made with the data and tells it from every other one.
    pub async fn id(&self) -> Result<String, EngineError> {
        match self {
            HistoryEngine::Sqlite(engine) => Ok(engine.id().to_owned()),
            HistoryEngine::ClickHouse(engine) => engine.id().await,
        }
    }

    /// The tenant with a client id, unless it is unknown or being deleted.
    pub async fn tenant(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        delegate!(self, engine => engine.tenant(client_id).await)
    }

    /// The tenant with a database name, unless it is unknown or being deleted.
    pub async fn tenant_named(&self, database_name: &str) -> Result<Option<Tenant>, EngineError> {
        delegate!(self, engine => engine.tenant_named(database_name).await)
    }

    /// The first tenants behind a client id (`None`: of all), in the order of their client ids, at most so many. Those
    /// that are being deleted are left out.
    pub async fn tenants(&self, behind: Option<Uuid>, limit: u16) -> Result<Vec<Tenant>, EngineError> {
        delegate!(self, engine => engine.tenants(behind, limit).await)
    }

    /// Makes a tenant with an empty database; `false` if another tenant, even one that is being deleted, has the same
    /// name or label. Of several requests at the same time, one succeeds. What a process leaves behind that dies
    /// meanwhile is in the way for at most a minute.
    pub async fn initialize(&self, tenant: &Tenant) -> Result<bool, EngineError> {
        delegate!(self, engine => engine.initialize(tenant).await)
    }

    /// Begins a deletion: from now on the tenant is unknown to all methods but [`HistoryEngine::delete`] and this one, which
    /// answers it again, so that a deletion that was cut short can be repeated. `None` if there is no such tenant.
    pub async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        delegate!(self, engine => engine.begin_delete(client_id).await)
    }

    /// Ends a deletion: removes the tenant's database, and then the tenant, whose name and label are free again.
    pub async fn delete(&self, tenant: &Tenant) -> Result<(), EngineError> {
        delegate!(self, engine => engine.delete(tenant).await)
    }

    /// Stores an event durably; `false` if its id was stored before.
    pub async fn add_history_event(&self, tenant: &Tenant, event: HistoryEvent) -> Result<bool, EngineError> {
        delegate!(self, engine => engine.add_history_event(tenant, event).await)
    }

    /// Stores all of these events durably, or none. Their ids differ from each other. Returns how many were not stored
    /// before.
    pub async fn add_system_events(&self, tenant: &Tenant, events: Vec<SystemEvent>) -> Result<u64, EngineError> {
        delegate!(self, engine => engine.add_system_events(tenant, events).await)
    }

    /// The history event with an id.
    pub async fn history_event(&self, tenant: &Tenant, id: Uuid) -> Result<Option<HistoryEvent>, EngineError> {
        delegate!(self, engine => engine.history_event(tenant, id).await)
    }

    /// A page of the history events, newest first (see [`HistoryEvent::rank`]).
    pub async fn history_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<HistoryEvent>, EngineError> {
        delegate!(self, engine => engine.history_events(tenant, page).await)
    }

    /// Which of these files events of the tenant name ([`HistoryEvent::files`]). At most [`MAX_FILES`] are asked for at
    /// once.
    pub async fn named_files(&self, tenant: &Tenant, files: &[Uuid]) -> Result<HashSet<Uuid>, EngineError> {
        delegate!(self, engine => engine.named_files(tenant, files).await)
    }

    /// A page of the system events, newest first.
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
