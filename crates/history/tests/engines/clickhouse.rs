//! Tests the ClickHouse engine on a ClickHouse server. Two handles stand for two processes: they share only the
//! address.

use crate::alike::{self, EARLY, event, events, system_event, tenant};
use ::clickhouse::Client;
use history::clickhouse::ClickHouseEngine;
use history::engine::{EngineError, HistoryEngine, Tenant};
use history::event::{EARLIEST, LATEST};
use history::filter::PageRange;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::eventually;
use uuid::Uuid;

fn handle() -> Arc<ClickHouseEngine> {
    open(&testkit::ClickHouseServer::start())
}

fn open(url: &str) -> Arc<ClickHouseEngine> {
    Arc::new(ClickHouseEngine::open(url).expect("the address is right"))
}

/// Returns a client for statements that the engine does not have.
fn direct(url: &str) -> Client {
    Client::default().with_url(url)
}

async fn create_tenant(handle: &ClickHouseEngine) -> Tenant {
    let tenant = tenant();
    assert_eq!(handle.initialize(&tenant).await, Ok(true));
    tenant
}

fn database(tenant: &Tenant) -> String {
    format!("tenant_{}", tenant.client_id.simple())
}

const FIRST: PageRange = PageRange { conditions: Vec::new(), limit: 1000, offset: 0 };

#[tokio::test(flavor = "multi_thread")]
async fn it_does_what_every_engine_does() {
    let engine = HistoryEngine::ClickHouse(
        ClickHouseEngine::open(&testkit::ClickHouseServer::start()).expect("the address is right"),
    );
    alike::check(&engine).await;
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_parallel_initializations_with_one_name_one_wins() {
    let handles = [handle(), handle()];
    let (name, label) = (tenant().database_name, tenant().client_label);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let handle = handles[n % 2].clone();
        let mut tenant = tenant();
        // Half of them have the same name, the other half the same label, and one has both.
        if n < 5 {
            tenant.database_name.clone_from(&name);
        }
        if n >= 4 {
            tenant.client_label.clone_from(&label);
        }
        tasks.spawn(async move { (n, handle.initialize(&tenant).await, tenant) });
    }
    let done = tasks.join_all().await;
    let won: Vec<_> = done.iter().filter(|(_, made, _)| *made == Ok(true)).collect();
    assert!(done.iter().all(|(_, made, _)| made.is_ok()), "{done:?}");
    let count = |which: &dyn Fn(&Tenant) -> bool| won.iter().filter(|(.., tenant)| which(tenant)).count();
    assert!(count(&|tenant| tenant.database_name == name) <= 1, "{won:?}");
    assert!(count(&|tenant| tenant.client_label == label) <= 1, "{won:?}");
    assert!(!won.is_empty(), "{done:?}");
    for (_, _, tenant) in won {
        assert_eq!(handles[0].tenant(tenant.client_id).await, Ok(Some(tenant.clone())));
        assert_eq!(handles[1].tenant_named(&tenant.database_name).await, Ok(Some(tenant.clone())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_initialization_that_was_cut_short_is_out_of_the_way() {
    let handle = handle();
    let url = testkit::ClickHouseServer::start();
    let dead = create_tenant(&handle).await;
    let direct = direct(&url);
    // This is the state after a process died before the last step.
    let id = dead.client_id.simple();
    let rename = format!("RENAME TABLE chancery_history.client_{id} TO chancery_history.pending_{id}");
    direct.query(&rename).execute().await.expect("the entry is renamed");
    let new_tenant = Tenant { client_id: Uuid::new_v4(), ..dead.clone() };
    assert_eq!(handle.initialize(&new_tenant).await, Ok(false), "it may still be completed");
    eventually(async || match handle.initialize(&new_tenant).await {
        Ok(true) => Ok(()),
        answer => Err(answer),
    })
    .await;
    assert_eq!(handle.tenant(dead.client_id).await, Ok(None));
    assert_eq!(handle.tenant_named(&dead.database_name).await, Ok(Some(new_tenant)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_was_cut_short_is_repeated_and_the_name_is_free() {
    let handles = [handle(), handle()];
    let old = create_tenant(&handles[0]).await;
    assert_eq!(handles[1].add_system_events(&old, events(10)).await, Ok(10));
    assert_eq!(handles[0].begin_delete(old.client_id).await, Ok(Some(old.clone())));
    assert_eq!(handles[1].tenant(old.client_id).await, Ok(None));
    assert_eq!(handles[1].tenant_named(&old.database_name).await, Ok(None));
    let new = Tenant { client_id: Uuid::new_v4(), ..old.clone() };
    assert_eq!(handles[0].initialize(&new).await, Ok(false), "the name is in use until it is deleted");
    // The first process dies after it dropped the database.
    let direct = direct(&testkit::ClickHouseServer::start());
    direct.query(&format!("DROP DATABASE {} SYNC", database(&old))).execute().await.expect("it is dropped");
    assert_eq!(handles[1].begin_delete(old.client_id).await, Ok(Some(old.clone())));
    assert_eq!(handles[1].delete(&old).await, Ok(()));
    assert_eq!(handles[1].begin_delete(old.client_id).await, Ok(None));
    assert_eq!(handles[0].initialize(&new).await, Ok(true));
    // A repeated deletion does not release the name of the new tenant.
    assert_eq!(handles[0].delete(&old).await, Ok(()));
    assert_eq!(handles[0].tenant_named(&new.database_name).await, Ok(Some(new.clone())));
    let other = Tenant { client_id: Uuid::new_v4(), ..new.clone() };
    assert_eq!(handles[0].initialize(&other).await, Ok(false));
    assert_eq!(handles[1].system_events(&new, FIRST).await.map(|list| list.total), Ok(0));
    assert_eq!(handles[1].add_system_events(&old, events(1)).await, Err(EngineError::NoTenant));
    assert_eq!(handles[1].system_events(&old, FIRST).await, Err(EngineError::NoTenant));
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_batches_in_parallel_from_two_processes_are_stored_once() {
    let handles = [handle(), handle()];
    let tenant = create_tenant(&handles[0]).await;
    let batches: Vec<_> = (0..3).map(|_| events(2000)).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let (handle, tenant, batch) = (handles[n % 2].clone(), tenant.clone(), batches[n / 2 % 3].clone());
        tasks.spawn(async move { handle.add_system_events(&tenant, batch).await });
    }
    let inserted: u64 = tasks.join_all().await.into_iter().map(|done| done.expect("it is stored")).sum();
    assert_eq!(inserted, 6000);
    assert_eq!(distinct(&tenant, "system_events").await, (6000, 6000));
    // These batches overlap, one after the other.
    let mut half = batches[0][..1000].to_vec();
    half.extend(events(500));
    assert_eq!(handles[0].add_system_events(&tenant, half.clone()).await, Ok(500));
    assert_eq!(handles[1].add_system_events(&tenant, half).await, Ok(0));
    assert_eq!(distinct(&tenant, "system_events").await, (6500, 6500));
}

#[tokio::test(flavor = "multi_thread")]
async fn single_events_in_parallel_are_stored_once() {
    let handles = [handle(), handle()];
    let tenant = create_tenant(&handles[0]).await;
    let singles: Vec<_> = (0..60).map(|n| event(EARLY + n, 3, n)).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for single in &singles {
        for handle in &handles {
            let (handle, tenant, single) = (handle.clone(), tenant.clone(), single.clone());
            tasks.spawn(async move { handle.add_history_event(&tenant, single).await });
        }
    }
    let written = tasks.join_all().await.into_iter().filter(|done| *done == Ok(true)).count();
    assert_eq!(written, 60);
    assert_eq!(distinct(&tenant, "history_events").await, (60, 60));
}

async fn distinct(tenant: &Tenant, table: &str) -> (u64, u64) {
    let sql = format!("SELECT count(), uniqExact(event_id) FROM {}.{table}", database(tenant));
    direct(&testkit::ClickHouseServer::start()).query(&sql).fetch_one().await.expect("it is counted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_four_hundred_years_is_one_part() {
    let handle = handle();
    let tenant = create_tenant(&handle).await;
    let mut batch = events(10_000);
    let step = (LATEST - EARLIEST) / 9999;
    for (event, n) in batch.iter_mut().zip(0..) {
        event.at = EARLIEST + n * step;
        event.data = "x".repeat(1500);
    }
    assert_eq!(handle.add_system_events(&tenant, batch.clone()).await, Ok(10_000));
    let sql = format!("SELECT uniqExact(_part) FROM {}.system_events", database(&tenant));
    let parts: u64 = direct(&testkit::ClickHouseServer::start()).query(&sql).fetch_one().await.expect("it is counted");
    assert_eq!(parts, 1);
    let newest = handle.system_events(&tenant, PageRange { limit: 1, ..FIRST }).await.expect("it is listed");
    assert_eq!(newest.results, batch[9999..]);
    assert_eq!(handle.add_system_events(&tenant, batch).await, Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_dead_process_is_taken_over() {
    let handles = [handle(), handle()];
    let url = testkit::ClickHouseServer::start();
    let tenant = create_tenant(&handles[0]).await;
    assert_eq!(handles[0].add_system_events(&tenant, events(10)).await, Ok(10));
    handles[0].close().await;
    // This is the state after a process died in a session.
    let number: u64 = direct(&url)
        .query(&format!(
            "SELECT max(toUInt64(substring(name, 8))) FROM system.tables WHERE database = '{}' AND name LIKE 'writer_%'",
            database(&tenant)
        ))
        .fetch_one()
        .await
        .expect("it is there");
    let create = format!(
        "CREATE TABLE {}.writer_{} (held UInt8) ENGINE = Null COMMENT 'somebody'",
        database(&tenant),
        number + 1
    );
    direct(&url).query(&create).execute().await.expect("it is made");
    let began = Instant::now();
    assert_eq!(handles[1].add_system_events(&tenant, events(10)).await, Ok(10));
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(2) && waited < Duration::from_secs(15), "{waited:?}");
    // An insert of the dead process arrives late.
    let late = format!(
        "INSERT INTO {0}.system_events (event_id) SELECT toFixedString('late', 16) \
         WHERE hasColumnInTable('{0}', 'writer_{1}', 'held')",
        database(&tenant),
        number + 1
    );
    assert!(direct(&url).query(&late).execute().await.is_err(), "its session is over");
    assert_eq!(distinct(&tenant, "system_events").await, (20, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let mut server = testkit::ClickHouseServer::start_private();
    let handles = [open(&server.url()), open(&server.url())];
    let tenant = create_tenant(&handles[0]).await;
    let until = Instant::now() + Duration::from_secs(9);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..4 {
        let (handle, tenant) = (handles[n % 2].clone(), tenant.clone());
        tasks.spawn(async move {
            let (mut acknowledged, mut doubtful) = (HashSet::new(), HashSet::new());
            while Instant::now() < until {
                let batch = events(300);
                let ids: Vec<Uuid> = batch.iter().map(|event| event.id).collect();
                match handle.add_system_events(&tenant, batch).await {
                    Ok(count) => {
                        assert_eq!(count, 300, "these are new");
                        acknowledged.extend(ids);
                    }
                    Err(EngineError::Unavailable(_)) => doubtful.extend(ids),
                    Err(error) => panic!("{error}"),
                }
            }
            (acknowledged, doubtful)
        });
    }
    let server = tokio::task::spawn_blocking(move || {
        for _ in 0..2 {
            // The writers succeed for a while, then fail for a while.
            std::thread::sleep(Duration::from_millis(1500));
            server.kill();
            // The server is unavailable for the writers meanwhile.
            std::thread::sleep(Duration::from_millis(700));
            server.restart();
        }
        server
    })
    .await
    .expect("it is restarted");
    let (mut acknowledged, mut doubtful) = (HashSet::new(), HashSet::new());
    for (some, others) in tasks.join_all().await {
        acknowledged.extend(some);
        doubtful.extend(others);
    }
    assert!(!acknowledged.is_empty());
    let sql = format!("SELECT hex(event_id) FROM {}.system_events", database(&tenant));
    let rows: Vec<String> = direct(&server.url()).query(&sql).fetch_all().await.expect("they are read");
    let stored: HashSet<Uuid> = rows.iter().filter_map(|id| Uuid::try_parse(id).ok()).collect();
    assert_eq!(rows.len(), stored.len(), "none is stored twice");
    assert_eq!(acknowledged.difference(&stored).count(), 0, "none that was acknowledged is lost");
    assert_eq!(stored.difference(&acknowledged).filter(|id| !doubtful.contains(id)).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_unavailable() {
    let mut server = testkit::ClickHouseServer::start_private();
    let handle = open(&server.url());
    let tenant = create_tenant(&handle).await;
    server.stop();
    assert!(matches!(handle.ready().await, Err(EngineError::Unavailable(_))));
    let began = Instant::now();
    let added = handle.add_history_event(&tenant, event(EARLY, 3, 1)).await;
    assert!(matches!(added, Err(EngineError::Unavailable(_))), "{added:?}");
    assert!(began.elapsed() < Duration::from_secs(25));
    server.restart();
    assert_eq!(handle.ready().await, Ok(()));
    assert_eq!(handle.add_system_events(&tenant, vec![system_event(EARLY)]).await, Ok(1));
}

#[test]
fn addresses_that_cannot_be_right_are_refused() {
    for url in
        ["", "localhost:8123", "postgres://host", "http://", "http://user@", "http://host/a-b", "http://%ff@host"]
    {
        assert!(ClickHouseEngine::open(url).is_err(), "{url}");
    }
    for url in ["http://host", "https://a%40b:p%2Fw@host:8443/", "http://[::1]:8123/events_of_b"] {
        assert!(ClickHouseEngine::open(url).is_ok(), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_of_a_dead_process_that_still_runs_is_waited_for_or_ended() {
    let url = testkit::ClickHouseServer::start();
    // One insert ends in time, the other is killed after eight seconds.
    for (seconds, is_stored) in [(5, true), (14, false)] {
        let handle = handle();
        let tenant = create_tenant(&handle).await;
        let database = database(&tenant);
        let create = format!("CREATE TABLE {database}.writer_1 (held UInt8) ENGINE = Null COMMENT 'somebody'");
        direct(&url).query(&create).execute().await.expect("it is made");
        let insert = format!(
            "INSERT INTO {database}.system_events (event_id) SELECT toFixedString(toString(number), 16) \
             FROM numbers({seconds}) WHERE hasColumnInTable('{database}', 'writer_1', 'held') AND sleepEachRow(1) = 0 \
             SETTINGS max_block_size = 1, max_threads = 1"
        );
        let dead = direct(&url).with_setting("query_id", format!("{database}/1/dead"));
        let dead = tokio::spawn(async move { dead.query(&insert).execute().await });
        // The insert has begun by then; `sleepEachRow` delays it for seconds.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut batch = events(3);
        batch[1].id = Uuid::from_bytes(*b"3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let added = handle.add_system_events(&tenant, batch).await;
        assert_eq!(added, Ok(if is_stored { 2 } else { 3 }));
        assert_eq!(dead.await.expect("it ends").is_ok(), is_stored);
        let rows = if is_stored { 7 } else { 3 };
        assert_eq!(distinct(&tenant, "system_events").await, (rows, rows));
    }
}
