//! The shared state of the endpoints: the engine, the files, the memory of bodies, and the cached tenants.

use crate::body::{BodyMemory, shares_of_half};
use crate::engine::{self, HistoryEngine, Tenant};
use crate::files::Files;
use crate::reply::HistoryRefusal;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};
use uuid::Uuid;
use web::shares::Shares;

/// The validity of a cached tenant, since another process may delete the tenant.
const TENANT_MAX_AGE: Duration = Duration::from_millis(500);
const MAX_CACHED_TENANTS: usize = 10_000;
/// The size in bytes from which on a body is not parsed on the thread that received it, because it would block other
/// requests.
const LONG_BODY: usize = 64 * 1024;
/// The memory of large answers until they are sent, in bytes. A tenant may use half.
const ANSWERS_TOGETHER: usize = 128 << 20;
/// The maximum number of batches and long bodies that are parsed at a time.
const PARSED_AT_A_TIME: usize = 1;

/// The settings of an operator.
pub struct HistorySettings {
    /// The value that callers must send as `X-API-Key`.
    pub api_key: String,
    /// The maximum number of events of a batch.
    pub batch_events: usize,
}

/// The history service: the state that its requests share.
pub struct HistoryService {
    pub engine: HistoryEngine,
    pub(crate) files: Files,
    pub(crate) settings: HistorySettings,
    /// The OpenAPI document for each audience. It is created once, since anybody may request it.
    pub(crate) descriptions: [OnceLock<Vec<u8>>; 2],
    pub(crate) bodies: BodyMemory,
    /// The memory of large answers until they are sent.
    pub(crate) answers: Shares,
    id: OnceCell<String>,
    parsing: Semaphore,
    /// Tenants, and the time at which each was read from the engine.
    cached_tenants: Mutex<HashMap<Uuid, (Instant, Arc<Tenant>)>>,
    /// The client ids of tenants that this process is deleting.
    deletions: Mutex<HashSet<Uuid>>,
}

impl HistoryService {
    /// Creates a service on an engine, with files for its events.
    pub fn new(engine: HistoryEngine, files: Files, settings: HistorySettings) -> HistoryService {
        HistoryService {
            engine,
            files,
            settings,
            descriptions: Default::default(),
            bodies: BodyMemory::default(),
            answers: shares_of_half(ANSWERS_TOGETHER),
            id: OnceCell::new(),
            parsing: Semaphore::new(PARSED_AT_A_TIME),
            cached_tenants: Mutex::default(),
            deletions: Mutex::default(),
        }
    }

    /// Begins to check periodically whether the store of files answers, for `/readyz`.
    pub fn start_watch(&self) {
        self.files.start_watch();
    }

    /// Returns the id of the service (see [`HistoryEngine::id`]).
    pub async fn id(&self) -> Result<&str, engine::EngineError> {
        Ok(self.id.get_or_try_init(|| self.engine.id()).await?)
    }

    /// Parses a body: a short one immediately, a long one as [`HistoryService::parse_aside`] does.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        body: Bytes,
        parse: fn(&[u8]) -> Result<T, HistoryRefusal>,
    ) -> Result<T, HistoryRefusal> {
        if body.len() < LONG_BODY {
            return parse(&body);
        }
        self.parse_aside(body, "A server error occurred.", parse).await
    }

    /// Parses a body on a thread for blocking work, at most [`PARSED_AT_A_TIME`] at once. A long body needs its memory
    /// twice while it is parsed. `failed` is the answer if that thread panics.
    pub(crate) async fn parse_aside<T: Send + 'static>(
        &self,
        body: Bytes,
        failed: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, HistoryRefusal> + Send + 'static,
    ) -> Result<T, HistoryRefusal> {
        let _permit = self.parsing.acquire().await;
        let parsed = tokio::task::spawn_blocking(move || parse(&body)).await;
        parsed.map_err(|error| HistoryRefusal::internal_error(failed, &error.to_string()))?
    }

    /// Returns the tenant with a client id, from the cache during its validity.
    pub(crate) async fn tenant(&self, client_id: Uuid) -> Result<Option<Arc<Tenant>>, HistoryRefusal> {
        let cached = self.cached_tenants().get(&client_id).cloned();
        if let Some((asked_at, tenant)) = cached
            && asked_at.elapsed() < TENANT_MAX_AGE
        {
            return Ok(Some(tenant));
        }
        let stored_tenant = self.engine.tenant(client_id).await.map_err(HistoryRefusal::unreadable)?.map(Arc::new);
        let mut cached = self.cached_tenants();
        match &stored_tenant {
            Some(tenant) => {
                if cached.len() >= MAX_CACHED_TENANTS {
                    cached.clear();
                }
                cached.insert(client_id, (Instant::now(), tenant.clone()));
            }
            None => drop(cached.remove(&client_id)),
        }
        Ok(stored_tenant)
    }

    /// Returns the tenant with a database name.
    pub(crate) async fn tenant_named(&self, database_name: &str) -> Result<Option<Arc<Tenant>>, HistoryRefusal> {
        Ok(self.engine.tenant_named(database_name).await.map_err(HistoryRefusal::unreadable)?.map(Arc::new))
    }

    /// Removes a tenant that is being deleted from the cache.
    pub(crate) fn forget_tenant(&self, client_id: Uuid) {
        self.cached_tenants().remove(&client_id);
    }

    /// Begins the deletion of a tenant. Returns `None` while another request of this process is deleting it.
    pub(crate) fn begin_deletion(&self, client_id: Uuid) -> Option<Deletion<'_>> {
        let is_first = self.deletions().insert(client_id);
        is_first.then(|| Deletion { service: self, client_id })
    }

    fn cached_tenants(&self) -> MutexGuard<'_, HashMap<Uuid, (Instant, Arc<Tenant>)>> {
        web::lock(&self.cached_tenants)
    }

    fn deletions(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        web::lock(&self.deletions)
    }
}

/// The deletion of a tenant, which lasts until this is dropped.
pub(crate) struct Deletion<'a> {
    service: &'a HistoryService,
    client_id: Uuid,
}

impl Drop for Deletion<'_> {
    fn drop(&mut self) {
        self.service.deletions().remove(&self.client_id);
    }
}
