//! The engine on a ClickHouse server, through its HTTP interface. Any number of processes may use the same server. They
//! share only the stored data.
//!
//! - `server`: statements and errors
//! - `tenants`: the registry of tenants
//! - `tables`: a tenant's tables
//! - `session`: the lease on writing a tenant's events
//! - `writer`, `stored_ids`, `known_ids`: writing each event once

mod known_ids;
mod server;
mod session;
mod stored_ids;
mod tables;
mod tenants;
mod writer;

use crate::engine::contract::{EngineError, EngineList, MAX_PAGE_BYTES, Tenant};
use crate::event::{HistoryEvent, SystemEvent};
use crate::filter::PageRange;
use server::ClickHouseClient;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tables::EventTable;
use tenants::Tenants;
use uuid::Uuid;
use writer::{Queued, TenantWriter};

/// The maximum size of the cached ids of all tenants in bytes.
const MAX_KNOWN_IDS_BYTES: usize = 64 << 20;
/// The database of the registry, if the address does not name one.
const DEFAULT_REGISTRY: &str = "chancery_history";
/// The time for which [`ClickHouseEngine::close`] waits for events to be written.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(25);

/// The engine, with one database on the server for each tenant.
pub struct ClickHouseEngine {
    server: ClickHouseClient,
    tenants: Tenants,
    /// The name of this process as a holder of sessions.
    holder: Arc<str>,
    /// By client id.
    writers: Mutex<HashMap<Uuid, Arc<TenantWriter>>>,
    opened_at: Instant,
}

impl ClickHouseEngine {
    /// Opens the engine at the address `http(s)://user:password@host:port/database`. Its database is that of the
    /// registry and need not exist. It does not send a request.
    pub fn open(url: &str) -> Result<ClickHouseEngine, EngineError> {
        let server = ClickHouseClient::open(url)?;
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        let registry = path.split(['?', '#']).next().unwrap_or("").trim_end_matches('/');
        let registry = if registry.is_empty() { DEFAULT_REGISTRY } else { registry };
        if !registry.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(EngineError::Failed(
                "the name of the database in the address may only have ASCII letters, digits and underscores"
                    .to_owned(),
            ));
        }
        Ok(ClickHouseEngine {
            tenants: Tenants { server: server.clone(), registry: registry.to_owned() },
            server,
            holder: Uuid::new_v4().simple().to_string().into(),
            writers: Mutex::default(),
            opened_at: Instant::now(),
        })
    }

    pub async fn ready(&self) -> Result<(), EngineError> {
        Ok(self.server.rows_once::<u8>("SELECT 1").await.map(drop)?)
    }

    pub async fn id(&self) -> Result<String, EngineError> {
        self.tenants.service_id().await
    }

    pub async fn tenant(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        self.tenants.get(client_id).await
    }

    pub async fn tenant_named(&self, database_name: &str) -> Result<Option<Tenant>, EngineError> {
        self.tenants.find_by_name(database_name).await
    }

    pub async fn tenants(&self, after: Option<Uuid>, limit: u16) -> Result<Vec<Tenant>, EngineError> {
        self.tenants.list(after, limit).await
    }

    pub async fn initialize(&self, tenant: &Tenant) -> Result<bool, EngineError> {
        self.tenants.initialize(tenant).await
    }

    pub async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        self.tenants.begin_delete(client_id).await
    }

    pub async fn delete(&self, tenant: &Tenant) -> Result<(), EngineError> {
        self.writers().remove(&tenant.client_id);
        self.tenants.delete(tenant).await
    }

    pub async fn add_history_event(&self, tenant: &Tenant, event: HistoryEvent) -> Result<bool, EngineError> {
        self.add(tenant, vec![event]).await.map(|count| count == 1)
    }

    pub async fn add_system_events(&self, tenant: &Tenant, events: Vec<SystemEvent>) -> Result<u64, EngineError> {
        if events.is_empty() { Ok(0) } else { self.add(tenant, events).await }
    }

    pub async fn history_event(&self, tenant: &Tenant, id: Uuid) -> Result<Option<HistoryEvent>, EngineError> {
        let (columns, table) = (HistoryEvent::READ, Self::table::<HistoryEvent>(tenant));
        let sql = format!("SELECT {columns} FROM {table} WHERE event_id = {} LIMIT 1", tables::ids(&[id]));
        let rows: Vec<tables::HistoryRow> = self.server.rows(&sql).await?;
        Ok(rows.into_iter().next().map(Into::into))
    }

    pub async fn history_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<HistoryEvent>, EngineError> {
        self.list(tenant, &page).await
    }

    pub async fn named_files(&self, tenant: &Tenant, files: &[Uuid]) -> Result<HashSet<Uuid>, EngineError> {
        let sql = tables::named_files(&Self::table::<HistoryEvent>(tenant), files);
        let named: Vec<String> = self.server.rows(&sql).await?;
        Ok(named.iter().filter_map(|file| Uuid::try_parse(file).ok()).collect())
    }

    pub async fn system_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<SystemEvent>, EngineError> {
        self.list(tenant, &page).await
    }

    /// Closes the sessions after all accepted events are written.
    pub async fn close(&self) {
        let writers: Vec<Arc<TenantWriter>> = self.writers().values().cloned().collect();
        writers.iter().for_each(|writer| writer.stop_lingering());
        let deadline = Instant::now() + MAX_CLOSE_TIME;
        while !writers.iter().all(|writer| writer.is_idle()) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn writers(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<TenantWriter>>> {
        web::lock(&self.writers)
    }

    fn table<E: EventTable>(tenant: &Tenant) -> String {
        format!("{}.{}", tenants::database(tenant.client_id), E::TABLE)
    }

    async fn add<E: Queued>(&self, tenant: &Tenant, events: Vec<E>) -> Result<u64, EngineError> {
        let writer = self.writer(tenant.client_id);
        let added = writer.add(events).await;
        if added == Err(EngineError::NoTenant) {
            self.writers().remove(&tenant.client_id);
        }
        added
    }

    /// Returns the tenant's writer. If the cached ids exceed their limit, those of the least recently used writers are
    /// evicted.
    fn writer(&self, client_id: Uuid) -> Arc<TenantWriter> {
        let mut writers = self.writers();
        let new = || {
            let database = tenants::database(client_id);
            Arc::new(TenantWriter::new(self.server.clone(), database, self.holder.clone()))
        };
        let writer = writers.entry(client_id).or_insert_with(new).clone();
        let now = usize::try_from(self.opened_at.elapsed().as_millis()).unwrap_or(usize::MAX);
        writer.used_at.store(now, Ordering::Relaxed);
        let bytes = |writer: &Arc<TenantWriter>| writer.known_ids_bytes.load(Ordering::Relaxed);
        let mut total: usize = writers.values().map(bytes).sum();
        if total > MAX_KNOWN_IDS_BYTES {
            let mut oldest: Vec<&Arc<TenantWriter>> = writers.values().filter(|writer| bytes(writer) > 0).collect();
            oldest.sort_by_key(|writer| writer.used_at.load(Ordering::Relaxed));
            for writer in oldest {
                if total <= MAX_KNOWN_IDS_BYTES {
                    break;
                }
                let before = bytes(writer);
                writer.forget_ids();
                total -= before.saturating_sub(bytes(writer));
            }
        }
        writer
    }

    async fn list<E: EventTable>(&self, tenant: &Tenant, page: &PageRange) -> Result<EngineList<E>, EngineError>
    where
        E::Read: Into<E>,
    {
        let table = Self::table::<E>(tenant);
        let condition = tables::condition(&page.conditions);
        let count = format!("SELECT toInt64(count()) FROM {table}");
        let rows = async {
            let (columns, limit, offset) = (E::READ, page.limit, page.offset);
            let order: String =
                E::ORDER.split(", ").map(|column| format!("{column} DESC")).collect::<Vec<_>>().join(", ");
            let sql = format!(
                "SELECT {columns} FROM {table}{condition} ORDER BY {order} LIMIT {limit} OFFSET {offset} \
                     SETTINGS max_result_bytes = {MAX_PAGE_BYTES}"
            );
            self.server.rows::<E::Read>(&sql).await
        };
        let filtered = async {
            if condition.is_empty() {
                Ok(None)
            } else {
                self.server.row::<i64>(&format!("{count}{condition}")).await.map(Some)
            }
        };
        let (total, filtered, rows) = tokio::try_join!(self.server.row::<i64>(&count), filtered, rows)?;
        let results = rows.into_iter().map(Into::into).collect();
        Ok(EngineList { total, filtered: filtered.unwrap_or(total), results })
    }
}
