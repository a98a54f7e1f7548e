//! `chancery build export`: writes a build as an archive. The rows are those of one snapshot. Files never change after they are
//! stored, so they follow the rows.

use super::archive::{ArchiveWriter, HEADER};
use super::contents::for_each_row;
use super::history::HistorySource;
use super::rows::{Lines, Value, value};
use super::tables::{ACTIVITY, ColumnRule, Extent, JOBS, STAYING_JOBS, column_rules, in_order};
use super::{
    CHECKED_TEXT, Counts, FILES, FORMAT, Header, MAX_MISSING, MoveError, Progress, SEALED_FOR, SecretsHeader,
    ShowProgress, TABLES, TableHeader, VERSION, archive_context, archive_keys, engine, history, open_store,
};
use crate::MIGRATIONS;
use files::{Storage, storage_key};
use kit::app::App;
use kit::build::Build;
use kit::jobs::PAYLOAD;
use kit::secret::{Context, Keys, SealedColumn};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use store::blobs::BlobError;
use store::{ColumnInfo, Conn, Row, Sql, Store, StoreError, StoredKind, TableInfo};
use uuid::Uuid;
use web::clock::random_token;
use web::lock;

/// Options of an export.
pub struct ExportOptions {
    pub extent: Extent,
    /// The passphrase that seals the secrets; `None`: the archive has none.
    pub passphrase: Option<String>,
    /// The history of the build; `None`: the archive has none.
    pub history: Option<Box<dyn HistorySource>>,
    /// The time of the export, in microseconds since 1970.
    pub now: i64,
}

/// The result of an export.
#[derive(Debug, Default)]
pub struct ExportReport {
    pub rows: u64,
    pub files: u64,
    pub file_bytes: u64,
    /// The names of files whose bytes the storage does not have.
    pub missing_files: Vec<String>,
    /// The number of emptied secrets for each table and column.
    pub emptied: BTreeMap<String, u64>,
    /// The number of secrets that the key of the deployment does not open. They are emptied.
    pub unopened: u64,
    pub history_events: u64,
    pub system_events: u64,
    /// The number of bytes of the archive.
    pub bytes: u64,
}

/// The output of an export, which scripts of the store share with the rest.
type SharedWriter<W> = Arc<Mutex<Option<ArchiveWriter<BufWriter<W>>>>>;

/// The size of the buffer before the output, in bytes.
const BUFFER: usize = 256 * 1024;

/// Writes a build to an output, and returns the output.
pub async fn export<W: Write + Send + 'static>(
    app: &App,
    build: &Build,
    out: W,
    options: ExportOptions,
    show: ShowProgress<'_>,
) -> Result<(W, ExportReport), MoveError> {
    let secrets = match options.passphrase.clone() {
        Some(passphrase) => Some(seal_secrets(passphrase).await?),
        None => None,
    };
    let store = open_store(engine(app), MIGRATIONS.build.len()).await?;
    let exported = export_from(app, &store, build, out, (options, secrets), show).await;
    store.close().await;
    exported
}

/// The keys of an archive and their entry in its header.
type ArchiveSecrets = (Keys, SecretsHeader);

async fn seal_secrets(passphrase: String) -> Result<ArchiveSecrets, MoveError> {
    let derived = tokio::task::spawn_blocking(move || {
        let salt = random_token();
        let keys = archive_keys(&passphrase, &salt)?;
        let check = keys.seal(&check_context(&salt), CHECKED_TEXT);
        Ok((keys, SecretsHeader { salt, check }))
    });
    derived.await.map_err(std::io::Error::other)?
}

/// Returns the place of the seal that tells whether a passphrase is right.
pub(super) fn check_context(salt: &str) -> Context<'_> {
    Context { build: SEALED_FOR, table: PAYLOAD.table, column: PAYLOAD.column, row: salt }
}

async fn export_from<W: Write + Send + 'static>(
    app: &App,
    store: &Store,
    build: &Build,
    out: W,
    (mut options, secrets): (ExportOptions, Option<ArchiveSecrets>),
    show: ShowProgress<'_>,
) -> Result<(W, ExportReport), MoveError> {
    let shared: SharedWriter<W> = Arc::new(Mutex::new(Some(ArchiveWriter::new(BufWriter::with_capacity(BUFFER, out)))));
    show(Progress { step: "rows", done: 0, total: 1 });
    let written = write_tables(app, store, build, &shared, (&options, secrets)).await?;
    let TablesWritten { mut counts, mut report, files } = written;
    let mut writer = lock(&shared).take().ok_or_else(|| MoveError::Refused("the output is gone".to_owned()))?;
    show(Progress { step: "rows", done: 1, total: 1 });
    writer = write_activity(store, build, writer, &mut counts).await?;
    writer = write_files(app, build, writer, (files, &mut counts), show).await?;
    if let Some(source) = &mut options.history {
        writer = history::write(source.as_mut(), writer, &mut counts, show).await?;
    }
    report.rows = counts.tables.values().sum();
    (report.files, report.file_bytes) = (counts.files, counts.file_bytes);
    (report.history_events, report.system_events) = (counts.history_events, counts.system_events);
    report.missing_files.clone_from(&counts.missing_files);
    counts.emptied.clone_from(&report.emptied);
    let manifest = serde_json::to_value(&counts).map_err(std::io::Error::other)?;
    let finished = tokio::task::spawn_blocking(move || {
        let bytes = writer.written;
        let out = writer.finish(manifest)?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        Ok::<_, std::io::Error>((out, bytes))
    });
    let (out, bytes) = finished.await.map_err(std::io::Error::other)??;
    report.bytes = bytes;
    Ok((out, report))
}

/// A file that a row names.
struct NamedFile {
    uuid: Uuid,
    size: i64,
    /// Is true if its bytes may be missing, since the upload is not finished or not used.
    is_waiting: bool,
}

struct TablesWritten {
    counts: Counts,
    report: ExportReport,
    files: Vec<NamedFile>,
}

/// Writes the header and the rows of a build in one snapshot.
async fn write_tables<W: Write + Send + 'static>(
    app: &App,
    store: &Store,
    build: &Build,
    shared: &SharedWriter<W>,
    (options, secrets): (&ExportOptions, Option<ArchiveSecrets>),
) -> Result<TablesWritten, MoveError> {
    let uid = build.uid.clone();
    let control = store.control();
    let created_at = control.read::<_, StoreError>(move |conn: &mut Conn| {
        conn.query_one(&Sql::new("SELECT created_at FROM builds WHERE uid = $1").arg(&uid), |row| row.int(0))
    });
    let created_at = created_at.await?;
    let (archive_keys, secrets) = secrets.map_or((None, None), |(keys, header)| (Some(keys), Some(header)));
    let header = Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        exported_at: options.now,
        domain: build.domain.clone(),
        created_at,
        schema: MIGRATIONS.build.len(),
        extent: options.extent,
        secrets,
        has_history: options.history.is_some(),
        tables: Vec::new(),
    };
    let (seals, has_begun) =
        (Seals { of_app: app.keys.clone(), of_archive: archive_keys, uid: build.uid.clone() }, AtomicBool::new(false));
    let (shared, header) = (shared.clone(), Mutex::new(header));
    let script = move |conn: &mut Conn| {
        // The output cannot be taken back, so a lost connection ends the export.
        if has_begun.swap(true, Ordering::Relaxed) {
            return Err(MoveError::Refused("the connection to the database was lost; export again".to_owned()));
        }
        let mut writer = lock(&shared);
        let writer = writer.as_mut().ok_or_else(|| MoveError::Refused("the output is gone".to_owned()))?;
        write_snapshot(conn, writer, &mut lock(&header), &seals)
    };
    store.database(build.db.name()).read(script).await
}

/// The keys of the secrets of a build.
struct Seals {
    of_app: Keys,
    /// The keys of the archive; `None`: it has no secrets.
    of_archive: Option<Keys>,
    uid: String,
}

fn write_snapshot<W: Write>(
    conn: &mut Conn,
    writer: &mut ArchiveWriter<W>,
    header: &mut Header,
    seals: &Seals,
) -> Result<TablesWritten, MoveError> {
    let tables = in_order(conn.tables()?, header.extent);
    for table in &tables {
        let last_number = match &table.numbered {
            Some(column) => Some(conn.last_number(&table.name, column)?),
            None => None,
        };
        let columns = table.columns.iter().filter(|column| column.kind != StoredKind::Other);
        let columns = columns.map(|column| column.name.clone()).collect();
        header.tables.push(TableHeader { name: table.name.clone(), columns, last_number });
    }
    header.tables.push(TableHeader {
        name: ACTIVITY.to_owned(),
        columns: activity_columns().into_iter().map(|column| column.name).collect(),
        last_number: None,
    });
    writer
        .entry(HEADER, format!("{:#}\n", serde_json::to_value(&*header).map_err(std::io::Error::other)?).as_bytes())?;
    let (mut counts, mut report) = (Counts::default(), ExportReport::default());
    for table in &tables {
        let rows = write_table(conn, writer, table, (header.extent, seals), &mut report)?;
        counts.tables.insert(table.name.clone(), rows);
    }
    let mut files = Vec::new();
    let sql = Sql::new("SELECT uuid, size, kept_until FROM files ORDER BY id");
    conn.for_each_row(&sql, |row| {
        let uuid = Uuid::try_parse(row.text(0)?).map_err(|_| StoreError::internal("the name of a file is no UUID"))?;
        files.push(NamedFile { uuid, size: row.int(1)?, is_waiting: row.opt_int(2)?.is_some() });
        Ok(())
    })?;
    Ok(TablesWritten { counts, report, files })
}

/// Writes the rows of a table. Returns their number.
fn write_table<W: Write>(
    conn: &mut Conn,
    writer: &mut ArchiveWriter<W>,
    table: &TableInfo,
    (extent, seals): (Extent, &Seals),
    report: &mut ExportReport,
) -> Result<u64, MoveError> {
    let mut entries = TableEntries::new(&table.name);
    let moved = TableInfo {
        columns: table.columns.iter().filter(|column| column.kind != StoredKind::Other).cloned().collect(),
        ..table.clone()
    };
    let rules = column_rules(&moved, extent);
    let kind = moved.columns.iter().position(|column| column.name == "kind").filter(|_| table.name == JOBS);
    let mut failure = None;
    let read = for_each_row(conn, &moved, |row, _| {
        if kind.is_some_and(|at| row.text(at).is_ok_and(|kind| STAYING_JOBS.contains(&kind))) {
            return Ok(());
        }
        if !push_row(&mut entries.lines, row, (&moved, &rules), seals, report)? {
            entries.lines.drop_line();
            return Ok(());
        }
        entries.end_line(writer).map_err(|error| stop_reading(&mut failure, error))
    });
    if let Some(failure) = failure {
        return Err(MoveError::Archive(failure));
    }
    read?;
    entries.finish(writer)?;
    Ok(entries.rows)
}

/// Stores why an archive cannot be written, and returns the error that ends the reading of rows.
fn stop_reading(failure: &mut Option<std::io::Error>, error: std::io::Error) -> StoreError {
    *failure = Some(error);
    StoreError::FileStore("the archive cannot be written".to_owned())
}

/// Appends a row. Returns false if the row cannot move: a job whose payload does not open.
fn push_row(
    lines: &mut Lines,
    row: &Row<'_>,
    (table, rules): (&TableInfo, &[ColumnRule]),
    seals: &Seals,
    report: &mut ExportReport,
) -> Result<bool, StoreError> {
    for (at, (column, rule)) in table.columns.iter().zip(rules).enumerate() {
        let stored = value(row, at, column.kind)?;
        match (*rule, stored) {
            (ColumnRule::Kept, _) => lines.push(stored),
            (ColumnRule::Emptied, _) => lines.push(empty(column)),
            (_, Value::Null) => lines.push(Value::Null),
            (ColumnRule::Payload { row: key }, Value::Text(sealed)) => {
                let plain = seals.open(&PAYLOAD, row.text(key)?, sealed);
                match plain.and_then(|plain| String::from_utf8(plain).ok()) {
                    Some(payload) => lines.push(Value::Text(&payload)),
                    None => {
                        report.unopened += 1;
                        return Ok(false);
                    }
                }
            }
            (ColumnRule::Sealed { column: sealed_column, row: key }, Value::Text(sealed)) => {
                let key = row.text(key)?;
                match seals.seal_again(sealed_column, key, sealed, report) {
                    Some(resealed) => lines.push(Value::Text(&resealed)),
                    None => lines.push(empty(column)),
                }
            }
            (ColumnRule::Payload { .. } | ColumnRule::Sealed { .. }, _) => {
                return Err(StoreError::internal("a sealed value is no text"));
            }
        }
    }
    Ok(true)
}

/// Returns the empty value of a column.
fn empty(column: &ColumnInfo) -> Value<'static> {
    match column.kind {
        _ if column.is_nullable => Value::Null,
        StoredKind::Int => Value::Int(0),
        _ => Value::Text(""),
    }
}

impl Seals {
    fn open(&self, column: &SealedColumn, row: &str, sealed: &str) -> Option<Vec<u8>> {
        self.of_app.open(&Context { build: &self.uid, table: column.table, column: column.column, row }, sealed)
    }

    /// Returns a secret under the key of the archive; `None` if the archive has no secrets, or the secret does not open.
    fn seal_again(&self, column: &SealedColumn, row: &str, sealed: &str, report: &mut ExportReport) -> Option<String> {
        let plain = self.open(column, row, sealed);
        report.unopened += u64::from(plain.is_none());
        let resealed = self.of_archive.as_ref().zip(plain.as_ref());
        let resealed = resealed.map(|(keys, plain)| keys.seal(&archive_context(column, row), plain));
        if resealed.is_none() {
            *report.emptied.entry(format!("{}.{}", column.table, column.column)).or_default() += 1;
        }
        resealed
    }
}

/// Writes the lines of a table in entries of about a mebibyte.
pub(super) struct TableEntries {
    prefix: String,
    pub(super) lines: Lines,
    number: u32,
    pub(super) rows: u64,
}

impl TableEntries {
    fn new(table: &str) -> TableEntries {
        TableEntries { prefix: format!("{TABLES}{table}/"), lines: Lines::default(), number: 0, rows: 0 }
    }

    fn end_line<W: Write>(&mut self, writer: &mut ArchiveWriter<W>) -> std::io::Result<()> {
        self.rows += 1;
        if self.lines.end_line().map_err(std::io::Error::other)? { self.finish(writer) } else { Ok(()) }
    }

    fn finish<W: Write>(&mut self, writer: &mut ArchiveWriter<W>) -> std::io::Result<()> {
        let Some(lines) = self.lines.take() else { return Ok(()) };
        self.number += 1;
        writer.entry(&format!("{}{:06}.ndjson", self.prefix, self.number), &lines)
    }
}

/// Returns the columns of the control database with the calls of agents of a build. The ids are those of all builds together, so
/// the lines get new ones.
pub(super) fn activity_columns() -> Vec<ColumnInfo> {
    let columns = [
        ("connector", StoredKind::Int),
        ("at", StoredKind::Int),
        ("user_id", StoredKind::Int),
        ("client", StoredKind::Text),
        ("tool", StoredKind::Text),
        ("object_class", StoredKind::Int),
        ("record_id", StoredKind::Int),
        ("outcome", StoredKind::Text),
        ("write_id", StoredKind::Int),
        ("calls", StoredKind::Int),
        ("read_key", StoredKind::Text),
    ];
    let nullable = ["object_class", "record_id", "write_id", "read_key"];
    let column = |(name, kind): (&str, StoredKind)| ColumnInfo {
        name: name.to_owned(),
        kind,
        is_nullable: nullable.contains(&name),
    };
    columns.map(column).into()
}

/// Writes the calls of agents, which the control database has.
async fn write_activity<W: Write + Send + 'static>(
    store: &Store,
    build: &Build,
    writer: ArchiveWriter<BufWriter<W>>,
    counts: &mut Counts,
) -> Result<ArchiveWriter<BufWriter<W>>, MoveError> {
    let (uid, slot) = (build.uid.clone(), Arc::new(Mutex::new(Some(writer))));
    let shared = slot.clone();
    let script = move |conn: &mut Conn| {
        let mut writer = lock(&shared)
            .take()
            .ok_or_else(|| MoveError::Refused("the connection to the database was lost; export again".to_owned()))?;
        let (columns, mut entries, mut failure) = (activity_columns(), TableEntries::new(ACTIVITY), None);
        let mut sql = Sql::new("SELECT ");
        for (at, column) in columns.iter().enumerate() {
            sql.push(if at > 0 { ", " } else { "" }).name(&column.name);
        }
        sql.push(" FROM agent_activity WHERE build = ").bind(uid.as_str()).push(" ORDER BY id");
        let read = conn.for_each_row(&sql, |row| {
            for (at, column) in columns.iter().enumerate() {
                entries.lines.push(value(row, at, column.kind)?);
            }
            entries.end_line(&mut writer).map_err(|error| stop_reading(&mut failure, error))
        });
        if let Some(failure) = failure {
            return Err(MoveError::Archive(failure));
        }
        read?;
        entries.finish(&mut writer)?;
        *lock(&shared) = Some(writer);
        Ok(entries.rows)
    };
    let rows = store.control().read(script).await?;
    counts.tables.insert(ACTIVITY.to_owned(), rows);
    lock(&slot).take().ok_or_else(|| MoveError::Refused("the output is gone".to_owned()))
}

/// Writes the stored files.
async fn write_files<W: Write + Send + 'static>(
    app: &App,
    build: &Build,
    mut writer: ArchiveWriter<BufWriter<W>>,
    (files, counts): (Vec<NamedFile>, &mut Counts),
    show: ShowProgress<'_>,
) -> Result<ArchiveWriter<BufWriter<W>>, MoveError> {
    let blobs = &app.slot::<Storage>().blobs;
    let total = files.iter().map(|file| file.size.unsigned_abs()).sum();
    for NamedFile { uuid, size, is_waiting } in files {
        let name = uuid.to_string();
        let found = match blobs.local(&storage_key(build, &name)).await {
            Ok(file) => Some((file.metadata()?.len(), file)),
            Err(BlobError::Missing) => None,
            Err(error) => return Err(MoveError::Refused(format!("{name}: {error}"))),
        };
        match found.filter(|(length, _)| is_waiting || size.unsigned_abs() == *length) {
            Some((length, file)) => {
                let copied = tokio::task::spawn_blocking(move || {
                    writer.copy(&format!("{FILES}{name}"), length, file).map(|_| writer)
                });
                writer = copied.await.map_err(std::io::Error::other)??;
                counts.files += 1;
                counts.file_bytes += length;
            }
            None if is_waiting => {}
            None if counts.missing_files.len() >= MAX_MISSING => {
                return Err(MoveError::Refused(format!("more than {MAX_MISSING} files are missing in the storage")));
            }
            None => counts.missing_files.push(name),
        }
        show(Progress { step: "files", done: counts.file_bytes, total });
    }
    Ok(writer)
}
