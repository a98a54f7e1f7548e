//! The contents of a build as counts and hashes, for the receipt of its deletion.

use super::rows::{Lines, value};
use super::{MoveError, engine, open_store};
use crate::MIGRATIONS;
use files::{Storage, storage_key};
use kit::app::App;
use kit::build::Build;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use store::blobs::BlobError;
use store::{Conn, Sql, StoreError, StoredKind, TableInfo};
use web::clock::{hex, sha256_hex_of};

/// The tables and files of a build.
pub struct BuildContents {
    /// For each table the number of its rows and their SHA-256, as in an archive.
    pub tables: Json,
    /// The number, bytes and SHA-256 of the stored files, and the number of missing ones.
    pub files: Json,
}

/// Reads all tables in one snapshot, and all stored files.
pub async fn read_contents(app: &App, build: &Build) -> Result<BuildContents, MoveError> {
    let store = open_store(engine(app), MIGRATIONS.build.len()).await?;
    let read = store.database(build.db.name()).read::<_, StoreError>(read_tables).await;
    store.close().await;
    let (tables, uuids) = read?;
    Ok(BuildContents { tables, files: read_files(app, build, uuids).await? })
}

/// Returns the tables, and the names of the files.
fn read_tables(conn: &mut Conn) -> Result<(Json, Vec<String>), StoreError> {
    let mut tables = Map::new();
    for table in conn.tables()? {
        let (mut rows, mut hash, mut lines) = (0_u64, Sha256::new(), Lines::default());
        for_each_row(conn, &table, |row, columns| {
            for (at, kind) in columns.iter().enumerate() {
                lines.push(value(row, at, *kind)?);
            }
            rows += 1;
            if lines.end_line()? {
                hash.update(lines.take().unwrap_or_default());
            }
            Ok(())
        })?;
        hash.update(lines.take().unwrap_or_default());
        tables.insert(table.name, json!({"rows": rows, "sha256": hex(&hash.finalize())}));
    }
    let sql = Sql::new("SELECT uuid FROM files ORDER BY uuid");
    Ok((tables.into(), conn.query_all(&sql, |row| Ok(row.text(0)?.to_owned()))?))
}

/// Calls `row` for each row of a table in the order of its key, with the types of its columns.
pub fn for_each_row(
    conn: &mut Conn,
    table: &TableInfo,
    mut row: impl FnMut(&store::Row<'_>, &[StoredKind]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let columns = || table.columns.iter().filter(|column| column.kind != StoredKind::Other);
    let kinds: Vec<StoredKind> = columns().map(|column| column.kind).collect();
    let mut sql = Sql::new("SELECT ");
    for (at, column) in columns().enumerate() {
        sql.push(if at > 0 { ", " } else { "" }).name(&column.name);
    }
    sql.push(" FROM ").name(&table.name);
    // The number of a record is unique, too, and is the key on SQLite.
    let has_number = table.columns.first().is_some_and(|column| column.name == "n");
    let key: Vec<&str> = if has_number { vec!["n"] } else { table.key.iter().map(String::as_str).collect() };
    for (at, column) in key.into_iter().enumerate() {
        sql.push(if at == 0 { " ORDER BY " } else { ", " }).name(column);
    }
    conn.for_each_row(&sql, |found| row(found, &kinds))
}

async fn read_files(app: &App, build: &Build, uuids: Vec<String>) -> Result<Json, MoveError> {
    let blobs = &app.slot::<Storage>().blobs;
    let (mut count, mut bytes, mut missing, mut all) = (0_u64, 0_u64, 0_u64, Sha256::new());
    for uuid in uuids {
        let file = match blobs.local(&storage_key(build, &uuid)).await {
            Ok(file) => file,
            Err(BlobError::Missing) => {
                missing += 1;
                continue;
            }
            Err(error) => return Err(MoveError::Refused(format!("{uuid}: {error}"))),
        };
        bytes += file.metadata()?.len();
        count += 1;
        let hashed = tokio::task::spawn_blocking(move || sha256_hex_of(file)).await.map_err(std::io::Error::other)?;
        all.update(format!("{}  {uuid}\n", hashed?));
    }
    Ok(json!({"count": count, "bytes": bytes, "sha256": hex(&all.finalize()), "missing": missing}))
}
