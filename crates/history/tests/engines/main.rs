//! Tests the engines without the service: the common behaviour of both, and that ClickHouse stores each event once.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod alike;
mod clickhouse;

use history::engine::HistoryEngine;
use history::sqlite::HistorySqlite;
use web::clock::Clock;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_does_what_every_engine_does() {
    let directory = tempfile::tempdir().unwrap();
    let engine =
        HistoryEngine::Sqlite(HistorySqlite::open(directory.path().join("history"), Clock::system()).await.unwrap());
    alike::check(&engine).await;
    engine.close().await;
}
