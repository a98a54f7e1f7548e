//! ClickHouse, by its HTTP interface. Any number of processes may serve the same server; what they share is in it.
//!
//! - `server`: statements and errors
//! - `tenants`: which tenants there are
//! - `tables`: a tenant's tables
//! - `session`, `writer`, `known`: how events are written, once each

mod known;
mod server;
mod session;
mod tables;
mod tenants;
mod writer;

use crate::engine::{Error, LARGEST_PAGE, Listed, Tenant};
use crate::event::{HistoryEvent, SystemEvent};
use crate::filter::Page;
use server::Server;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tables::Event;
use tenants::Tenants;
use uuid::Uuid;
use writer::{Queued, Writer};

/// What the ids that are remembered may take, over all tenants, in bytes.
const MEMORY: usize = 64 << 20;
/// The database of tenants, if the address names none.
const REGISTRY: &str = "chancery_history";
/// How long [`ClickHouse::close`] waits for what was accepted.
const CLOSING: Duration = Duration::from_secs(25);

/// One database for each tenant on a server.
pub struct ClickHouse {
    server: Server,
    tenants: Tenants,
    holder: Arc<str>,
    writers: Mutex<HashMap<Uuid, Arc<Writer>>>,
    started: Instant,
}

impl ClickHouse {
    /// Takes `http(s)://user:password@host:port/database`; the database is that of the tenants' entries, and need not
    /// exist. Nothing is asked of the server yet.
    pub fn open(url: &str) -> Result<ClickHouse, Error> {
        let server = Server::open(url)?;
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        let registry = path.split(['?', '#']).next().unwrap_or("").trim_end_matches('/');
        let registry = if registry.is_empty() { REGISTRY } else { registry };
        if !registry.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Error::Failed("the database's name in its address is not letters and digits alone".to_owned()));
        }
        Ok(ClickHouse {
            tenants: Tenants { server: server.clone(), registry: registry.to_owned() },
            server,
            holder: Uuid::new_v4().simple().to_string().into(),
            writers: Mutex::default(),
            started: Instant::now(),
        })
    }

    /// Whether it answers.
    pub async fn ready(&self) -> Result<(), Error> {
        Ok(self.server.rows_once::<u8>("SELECT 1").await.map(drop)?)
    }

    /// The tenant with a client id, unless it is unknown or being deleted.
    pub async fn tenant(&self, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        self.tenants.get(client_id).await
    }

    /// The tenant with a database name, unless it is unknown or being deleted.
    pub async fn tenant_named(&self, database_name: &str) -> Result<Option<Tenant>, Error> {
        self.tenants.named(database_name).await
    }

    /// See [`crate::engine::Engine::initialize`].
    pub async fn initialize(&self, tenant: &Tenant) -> Result<bool, Error> {
        self.tenants.initialize(tenant).await
    }

    /// See [`crate::engine::Engine::begin_delete`].
    pub async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        self.tenants.begin_delete(client_id).await
    }

    /// See [`crate::engine::Engine::delete`].
    pub async fn delete(&self, tenant: &Tenant) -> Result<(), Error> {
        self.writers().remove(&tenant.client_id);
        self.tenants.delete(tenant).await
    }

    /// Stores an event; `false` if its id was stored before.
    pub async fn add_history_event(&self, tenant: &Tenant, event: HistoryEvent) -> Result<bool, Error> {
        self.add(tenant, vec![event]).await.map(|count| count == 1)
    }

    /// Stores events whose ids differ from each other; how many were not stored before.
    pub async fn add_system_events(&self, tenant: &Tenant, events: Vec<SystemEvent>) -> Result<u64, Error> {
        if events.is_empty() { Ok(0) } else { self.add(tenant, events).await }
    }

    /// One event.
    pub async fn history_event(&self, tenant: &Tenant, id: Uuid) -> Result<Option<HistoryEvent>, Error> {
        let (columns, table) = (HistoryEvent::READ, Self::table::<HistoryEvent>(tenant));
        let sql = format!("SELECT {columns} FROM {table} WHERE event_id = {} LIMIT 1", tables::ids(&[id]));
        let found: Vec<tables::HistoryRow> = self.server.rows(&sql).await?;
        Ok(found.into_iter().next().map(Into::into))
    }

    /// Part of the list of history events.
    pub async fn history_events(&self, tenant: &Tenant, page: Page) -> Result<Listed<HistoryEvent>, Error> {
        self.list(tenant, &page).await
    }

    /// Part of the list of system events.
    pub async fn system_events(&self, tenant: &Tenant, page: Page) -> Result<Listed<SystemEvent>, Error> {
        self.list(tenant, &page).await
    }

    /// Ends the sessions when what was accepted is written.
    pub async fn close(&self) {
        let writers: Vec<Arc<Writer>> = self.writers().values().cloned().collect();
        writers.iter().for_each(|writer| writer.hurry());
        let until = Instant::now() + CLOSING;
        while !writers.iter().all(|writer| writer.is_idle()) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn writers(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Writer>>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table<E: Event>(tenant: &Tenant) -> String {
        format!("{}.{}", tenants::database(tenant.client_id), E::TABLE)
    }

    async fn add<E: Queued>(&self, tenant: &Tenant, events: Vec<E>) -> Result<u64, Error> {
        let writer = self.writer(tenant.client_id);
        let added = writer.add(events).await;
        if added == Err(Error::NoTenant) {
            self.writers().remove(&tenant.client_id);
        }
        added
    }

    /// The tenant's writer. Ids of those that were not used for longest are forgotten when they take too much memory.
    fn writer(&self, client_id: Uuid) -> Arc<Writer> {
        let mut writers = self.writers();
        let new = || {
            let database = tenants::database(client_id);
            Arc::new(Writer::new(self.server.clone(), database, self.holder.clone()))
        };
        let writer = writers.entry(client_id).or_insert_with(new).clone();
        let now = usize::try_from(self.started.elapsed().as_millis()).unwrap_or(usize::MAX);
        writer.used.store(now, Ordering::Relaxed);
        let weight = |writer: &Arc<Writer>| writer.weight.load(Ordering::Relaxed);
        let mut total: usize = writers.values().map(weight).sum();
        if total > MEMORY {
            let mut oldest: Vec<&Arc<Writer>> = writers.values().filter(|other| weight(other) > 0).collect();
            oldest.sort_by_key(|writer| writer.used.load(Ordering::Relaxed));
            for writer in oldest {
                if total <= MEMORY {
                    break;
                }
                let before = weight(writer);
                writer.forget();
                total -= before.saturating_sub(weight(writer));
            }
        }
        writer
    }

    async fn list<E: Event>(&self, tenant: &Tenant, page: &Page) -> Result<Listed<E>, Error>
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
                     SETTINGS max_result_bytes = {LARGEST_PAGE}"
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
        Ok(Listed { total, filtered: filtered.unwrap_or(total), results })
    }
}
