//! SQLite in the data directory.

use crate::engine::{Error, Listed, Tenant};
use crate::event::{HistoryEvent, SystemEvent};
use crate::filter::Page;
use uuid::Uuid;

/// One file per tenant.
pub struct Sqlite;

#[allow(missing_docs, clippy::unused_async)]
impl Sqlite {
    pub async fn ready(&self) -> Result<(), Error> {
        unimplemented!()
    }
    pub async fn tenant(&self, _client_id: Uuid) -> Result<Option<Tenant>, Error> {
        unimplemented!()
    }
    pub async fn tenant_named(&self, _database_name: &str) -> Result<Option<Tenant>, Error> {
        unimplemented!()
    }
    pub async fn initialize(&self, _tenant: &Tenant) -> Result<bool, Error> {
        unimplemented!()
    }
    pub async fn begin_delete(&self, _client_id: Uuid) -> Result<Option<Tenant>, Error> {
        unimplemented!()
    }
    pub async fn delete(&self, _tenant: &Tenant) -> Result<(), Error> {
        unimplemented!()
    }
    pub async fn add_history_event(&self, _tenant: &Tenant, _event: HistoryEvent) -> Result<bool, Error> {
        unimplemented!()
    }
    pub async fn add_system_events(&self, _tenant: &Tenant, _events: Vec<SystemEvent>) -> Result<u64, Error> {
        unimplemented!()
    }
    pub async fn history_event(&self, _tenant: &Tenant, _id: Uuid) -> Result<Option<HistoryEvent>, Error> {
        unimplemented!()
    }
    pub async fn history_events(&self, _tenant: &Tenant, _page: Page) -> Result<Listed<HistoryEvent>, Error> {
        unimplemented!()
    }
    pub async fn system_events(&self, _tenant: &Tenant, _page: Page) -> Result<Listed<SystemEvent>, Error> {
        unimplemented!()
    }
    pub async fn close(&self) {}
}
