//! Removes files that no event names. The main API first puts a file here and then writes the event that names it. If
//! it dies in between, the file stays without an event.
//!
//! It may end at any time and run in several processes at once: each round does the remaining work.

use crate::engine::{self, MAX_FILES, Tenant};
use crate::service::HistoryService;
use futures_util::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use uuid::Uuid;

/// The age at which a file that no event names is removed, in microseconds: 7 days. An event may arrive long after its
/// file, since it waits in the main API until its delivery succeeds.
pub const UNNAMED_AGE: i64 = 7 * 24 * 3_600_000_000;

/// The time between a start and the first round. After an outage of days, waiting events are delivered before it.
const FIRST_PAUSE: Duration = Duration::from_secs(3600);
/// The pause between two rounds.
const PAUSE: Duration = Duration::from_secs(24 * 3600);
const TENANTS_AT_A_TIME: u16 = 500;

/// Removes files without an event once a day, while it is polled.
pub async fn run(service: Arc<HistoryService>) {
    // This runs immediately, so that every service that uses the bucket is recorded long before the first file is removed.
    if let Err(error) = is_only_user(&service).await {
        tracing::warn!(%error, "the users of the stored files could not be read");
    }
    sleep(FIRST_PAUSE).await;
    loop {
        match remove_unnamed(&service).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "files without an event were removed"),
            Err(error) => tracing::warn!(%error, "files without an event could not be removed"),
        }
        sleep(PAUSE).await;
    }
}

/// Removes the files of all tenants that are older than [`UNNAMED_AGE`] and that no event names. Returns their number.
/// If that fails for one tenant, it continues with the others.
pub async fn remove_unnamed(service: &HistoryService) -> Result<u64, engine::EngineError> {
    if !is_only_user(service).await? {
        return Ok(0);
    }
    let (mut count, mut after) = (0, None);
    loop {
        let tenants = service.engine.tenants(after, TENANTS_AT_A_TIME).await?;
        let Some(last) = tenants.last() else { return Ok(count) };
        after = Some(last.client_id);
        for tenant in &tenants {
            match remove_unnamed_of(service, tenant, &mut count).await {
                // The tenant was deleted meanwhile, with its files.
                Ok(()) | Err(engine::EngineError::NoTenant) => {}
                Err(error) => {
                    let client_id = tenant.client_id.to_string();
                    tracing::warn!(client_id, %error, "files without an event of a tenant could not be removed");
                }
            }
        }
    }
}

async fn remove_unnamed_of(
    service: &HistoryService,
    tenant: &Tenant,
    count: &mut u64,
) -> Result<(), engine::EngineError> {
    let mut old = service.files.older_than(tenant, UNNAMED_AGE).try_chunks(MAX_FILES);
    while let Some(files) = old.try_next().await.map_err(|failed| failed.1)? {
        let named = service.engine.named_files(tenant, &files).await?;
        let unnamed: Vec<Uuid> = files.into_iter().filter(|file| !named.contains(file)).collect();
        for file in unnamed {
            service.files.remove(tenant, file).await?;
            *count += 1;
        }
    }
    Ok(())
}

/// Returns whether no other history service uses the same bucket. The files of another one, for example those of a
/// copy, are named by events that are not here.
async fn is_only_user(service: &HistoryService) -> Result<bool, engine::EngineError> {
    let other_services = service.files.other_users(service.id().await?).await?;
    if !other_services.is_empty() {
        let other_services = other_services.join(" ");
        tracing::warn!(
            others = other_services,
            "other history services use the same bucket, so no file without an event is removed"
        );
    }
    Ok(other_services.is_empty())
}
