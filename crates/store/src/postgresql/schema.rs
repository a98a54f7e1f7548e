//! Creating schemas, and running their migrations.

use std::sync::Arc;

use crate::conn::Conn;
use crate::error::StoreError;
use crate::migrate::{self, DroppedReference, Migration};
use crate::slot::Slot;

/// Begins a transaction that creates, changes or removes a schema, without a time limit.
pub(super) const BEGIN_SCHEMA: &str = "BEGIN; SET LOCAL statement_timeout = 0";

/// The condition on which a schema is created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Create {
    /// Never: it must exist.
    No,
    /// Creates it if it does not exist.
    IfMissing,
    /// Always: it must not exist.
    New,
}

/// Makes a database the current one of a connection. Runs the migrations that it lacks if this process has not yet done
/// so.
pub(super) fn select_database(conn: &mut Conn, slot: &Arc<Slot>, migrations: &[Migration]) -> Result<(), StoreError> {
    if !slot.is_prepared() {
        prepare(conn, slot, migrations)?;
    }
    conn.as_postgres().set_search_path(slot)
}

/// Runs the migrations that a schema lacks, once per process.
fn prepare(conn: &mut Conn, slot: &Slot, migrations: &[Migration]) -> Result<(), StoreError> {
    let generation = slot.generation();
    let version = conn.as_postgres().version(slot)?;
    let from = version.map_or(Ok(0), |version| migrate::first_missing(&slot.name, version, migrations.len()))?;
    if version.is_none() || from < migrations.len() {
        conn.as_postgres().control(BEGIN_SCHEMA)?;
        let migrated = prepare_schema(conn, slot, migrations, Create::No);
        if let Err(error) = migrated.and_then(|()| conn.as_postgres().control("COMMIT")) {
            conn.as_postgres().roll_back();
            return Err(error);
        }
    }
    slot.set_prepared(generation);
    Ok(())
}

/// Drops foreign keys, by the names that PostgreSQL gave them.
fn drop_references(conn: &mut Conn, dropped: &[DroppedReference]) -> Result<(), StoreError> {
    for DroppedReference { table, column, .. } in dropped {
        conn.as_postgres().control(&format!("ALTER TABLE {table} DROP CONSTRAINT {table}_{column}_fkey"))?;
    }
    Ok(())
}

/// Creates a schema if requested, and runs the migrations that it lacks. Call it inside a transaction. It acquires a
/// lock, so that processes that start at the same time do not collide.
pub(super) fn prepare_schema(
    conn: &mut Conn,
    slot: &Slot,
    migrations: &[Migration],
    create: Create,
) -> Result<(), StoreError> {
    let (name, connection) = (&slot.name, conn.as_postgres());
    connection.lock_schema(name)?;
    match create {
        Create::No => {}
        Create::IfMissing => connection.control(&format!("CREATE SCHEMA IF NOT EXISTS \"{name}\""))?,
        Create::New => connection.control(&format!("CREATE SCHEMA \"{name}\""))?,
    }
    connection.control(&format!("SET LOCAL search_path TO \"{name}\""))?;
    let version = match connection.version(slot)? {
        Some(version) => version,
        None => {
            connection.control(
                "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (0)",
            )?;
            0
        }
    };
    let from = migrate::first_missing(name, version, migrations.len())?;
    for migration in &migrations[from..] {
        let result = conn.as_postgres().control(&migrate::for_postgres(migration.sql));
        let result = result.and_then(|()| drop_references(conn, migration.dropped_references));
        let result = result.and_then(|()| migrate::run_step(migration, conn));
        result.map_err(|error| migrate::migration_error(name, migration.name, error))?;
    }
    if from < migrations.len() {
        conn.as_postgres().control(&format!("UPDATE schema_version SET version = {}", migrations.len()))?;
        tracing::info!(database = name, from, to = migrations.len(), "migrated");
    }
    Ok(())
}
