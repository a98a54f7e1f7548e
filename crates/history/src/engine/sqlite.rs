//! The embedded engine: one SQLite file for each tenant below the data directory. It uses the store of the main API,
//! with its group commit. The primary key makes ids unique, so the database detects events that were stored before.

use crate::engine::contract::{EngineError, EngineList, MAX_PAGE_BYTES, Tenant};
use crate::event::{DOCUMENT_GENERATED, HistoryEvent, SystemEvent, files_in};
use crate::filter::{Condition, FilterColumn, PageRange, Test};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{BorrowedArgument, Conn, Database, Migration, Migrations, Options, Row, Sql, Store};
use uuid::Uuid;
use web::clock::Clock;

const MIGRATIONS: Migrations = Migrations {
    control: &[
        Migration::sql("0001_tenants", include_str!("../../migrations/control.sql")),
        Migration::sql("0002_settings", include_str!("../../migrations/settings.sql")),
    ],
    build: &[
        Migration::sql("0001_events", include_str!("../../migrations/tenant.sql")),
        Migration::sql("0002_event_files", include_str!("../../migrations/event_files.sql"))
            .with_step(note_files_of_stored_events),
    ],
};

/// The maximum number of retries of a write after transient failures.
const MAX_RETRIES: u32 = 5;
/// The delay before the first retry; it doubles with each further one.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The time after which no retry begins: on a locked database each attempt needs seconds.
const MAX_RETRY_TIME: Duration = Duration::from_secs(10);

/// The engine in one data directory.
pub struct HistorySqlite {
    store: Store,
    clock: Clock,
    id: String,
}

impl From<store::StoreError> for EngineError {
    fn from(error: store::StoreError) -> EngineError {
        match error {
            store::StoreError::Missing => EngineError::NoTenant,
            store::StoreError::Busy
            | store::StoreError::Full
            | store::StoreError::Slow
            | store::StoreError::Unavailable(_) => EngineError::Unavailable(error.to_string()),
            _ => EngineError::Failed(error.to_string()),
        }
    }
}

impl HistorySqlite {
    /// Opens the databases below a directory. Creates missing ones.
    pub async fn open(directory: PathBuf, clock: Clock) -> Result<HistorySqlite, EngineError> {
        let store = open_store(directory).await?;
        let id = match store.control().read(stored_id).await? {
            Some(id) => id,
            None => {
                let new = Uuid::new_v4().to_string();
                let insert = move |conn: &mut Conn| {
                    let sql = "INSERT INTO settings(name, value) VALUES ('id', $1) ON CONFLICT DO NOTHING";
                    conn.exec(&Sql::new(sql).arg(&new))?;
                    stored_id(conn)
                };
                store.control().write(insert).await?.ok_or(store::StoreError::NotFound)?
            }
        };
        Ok(HistorySqlite { store, clock, id })
    }

    /// Returns the id of the service that owns this data, created with the data.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) async fn ready(&self) -> Result<(), EngineError> {
        Ok(self.store.ready().await?)
    }

    pub(crate) async fn tenant(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        let sql = Sql::new(
            "SELECT client_id, secret_hash, database_name, client_label FROM tenants WHERE client_id = $1 AND state = 'active'",
        );
        let sql = sql.arg(client_id.to_string());
        self.store.control().read_short(move |conn| Ok(conn.query_optional(&sql, tenant)?)).await
    }

    pub(crate) async fn tenant_named(&self, database_name: &str) -> Result<Option<Tenant>, EngineError> {
        let sql = Sql::new(
            "SELECT client_id, secret_hash, database_name, client_label FROM tenants WHERE database_name = $1 AND state = 'active'",
        );
        let sql = sql.arg(database_name);
        self.store.control().read_short(move |conn| Ok(conn.query_optional(&sql, tenant)?)).await
    }

    pub(crate) async fn tenants(&self, after: Option<Uuid>, limit: u16) -> Result<Vec<Tenant>, EngineError> {
        let sql = Sql::new(
            "SELECT client_id, secret_hash, database_name, client_label FROM tenants \
             WHERE client_id > $1 AND state = 'active' ORDER BY client_id LIMIT $2",
        );
        // Every id is greater than the empty text.
        let sql = sql.arg(after.map_or_else(String::new, |id| id.to_string())).arg(i64::from(limit));
        self.store.control().read(move |conn| Ok(conn.query_all(&sql, tenant)?)).await
    }

    /// Creates the database first. A process that dies after that leaves an unused file, but no claimed name.
    pub(crate) async fn initialize(&self, tenant: &Tenant) -> Result<bool, EngineError> {
        let conflict = Sql::new("SELECT 1 FROM tenants WHERE database_name = $1 OR client_label = $2")
            .arg(&tenant.database_name)
            .arg(&tenant.client_label);
        if self.store.control().read(move |conn| conn.query_optional(&conflict, |_| Ok(()))).await?.is_some() {
            return Ok(false);
        }
        let name = database_name(tenant);
        self.store.create(&name).await?;
        let insert = Sql::new(
            "INSERT INTO tenants(client_id, secret_hash, database_name, client_label, state, created_at) \
             VALUES ($1, $2, $3, $4, 'active', $5)",
        );
        let insert = insert
            .arg(tenant.client_id.to_string())
            .arg(&tenant.secret_hash)
            .arg(&tenant.database_name)
            .arg(&tenant.client_label)
            .arg(self.clock.now());
        match self.store.control().write(move |conn| conn.exec(&insert)).await {
            Ok(_) => Ok(true),
            Err(error) => {
                self.store.drop_database(&name).await?;
                if matches!(error, store::StoreError::Unique(_)) { Ok(false) } else { Err(error.into()) }
            }
        }
    }

    pub(crate) async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        let sql = Sql::new(
            "UPDATE tenants SET state = 'deleting' WHERE client_id = $1 \
             RETURNING client_id, secret_hash, database_name, client_label",
        );
        let sql = sql.arg(client_id.to_string());
        self.store.control().write(move |conn| Ok(conn.query_optional(&sql, tenant)?)).await
    }

    pub(crate) async fn delete(&self, tenant: &Tenant) -> Result<(), EngineError> {
        self.store.drop_database(&database_name(tenant)).await?;
        let sql = Sql::new("DELETE FROM tenants WHERE client_id = $1").arg(tenant.client_id.to_string());
        self.store.control().write(move |conn| conn.exec(&sql)).await?;
        Ok(())
    }

    pub(crate) async fn add_history_event(&self, tenant: &Tenant, event: HistoryEvent) -> Result<bool, EngineError> {
        let event = Arc::new(event);
        self.write(tenant, move |conn| insert_history_event(conn, &event)).await
    }

    pub(crate) async fn add_system_events(
        &self,
        tenant: &Tenant,
        events: Vec<SystemEvent>,
    ) -> Result<u64, EngineError> {
        let events = Arc::new(events);
        self.write(tenant, move |conn| insert_system_events(conn, &events)).await
    }

    pub(crate) async fn history_event(&self, tenant: &Tenant, id: Uuid) -> Result<Option<HistoryEvent>, EngineError> {
        let mut sql = Sql::new(SELECT_HISTORY);
        sql.push(" WHERE id = ").bind(id.as_bytes().to_vec());
        self.database(tenant).read_short(move |conn| Ok(conn.query_optional(&sql, history_event)?)).await
    }

    pub(crate) async fn history_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<HistoryEvent>, EngineError> {
        self.database(tenant)
            .read(move |conn| list(conn, &HISTORY_LIST, &page, history_event, HistoryEvent::size))
            .await
    }

    pub(crate) async fn named_files(&self, tenant: &Tenant, files: &[Uuid]) -> Result<HashSet<Uuid>, EngineError> {
        let mut sql = Sql::new("SELECT file_id FROM event_files WHERE file_id IN (");
        for (at, file) in files.iter().enumerate() {
            sql.push(if at == 0 { "" } else { ", " }).bind(file.as_bytes().to_vec());
        }
        sql.push(")");
        Ok(self.database(tenant).read(move |conn| conn.query_all(&sql, id)).await?.into_iter().collect())
    }

    pub(crate) async fn system_events(
        &self,
        tenant: &Tenant,
        page: PageRange,
    ) -> Result<EngineList<SystemEvent>, EngineError> {
        self.database(tenant).read(move |conn| list(conn, &SYSTEM_LIST, &page, system_event, SystemEvent::size)).await
    }

    /// Creates a consistent copy of all data, for `chancery backup`. The copy is another service, whose id is created
    /// when it is first opened. The directories of the copy must exist. The list of tenants is copied first, so that
    /// each tenant in it is copied after it. `progress` receives the number of copied tenants, and the number of all.
    pub async fn backup(&self, target: &Path, progress: impl Fn(u64, u64)) -> Result<(), EngineError> {
        self.store.backup(None, target.join("control.db")).await?;
        let copy = open_store(target.to_owned()).await?;
        copy.control().write(|conn: &mut Conn| conn.exec(&Sql::new("DELETE FROM settings WHERE name = 'id'"))).await?;
        copy.close().await;
        let sql = Sql::new("SELECT client_id, secret_hash, database_name, client_label FROM tenants");
        let tenants: Vec<Tenant> = self.store.control().read(move |conn| conn.query_all(&sql, tenant)).await?;
        for (done_count, tenant) in tenants.iter().enumerate() {
            progress(done_count as u64, tenants.len() as u64);
            let name = database_name(tenant);
            match self.store.backup(Some(&name), target.join("tenants").join(format!("{name}.db"))).await {
                // The tenant was deleted meanwhile, and is not in the copy either.
                Ok(()) | Err(store::StoreError::Missing) => {}
                Err(error) => return Err(error.into()),
            }
        }
        progress(tenants.len() as u64, tenants.len() as u64);
        Ok(())
    }

    /// Ends the threads after all accepted work is done.
    pub async fn close(&self) {
        self.store.close().await;
    }

    fn database(&self, tenant: &Tenant) -> Database {
        self.store.database(&database_name(tenant))
    }

    /// Runs a write, with retries while the engine is busy. Repeating it is safe, since the ids of events are unique.
    async fn write<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        script: impl Fn(&mut Conn) -> Result<T, store::StoreError> + Clone + Send + 'static,
    ) -> Result<T, EngineError> {
        let database = self.database(tenant);
        let (started, mut delay) = (Instant::now(), FIRST_RETRY_DELAY);
        for _ in 0..MAX_RETRIES {
            match database.write(script.clone()).await {
                Err(store::StoreError::Busy | store::StoreError::Unavailable(_))
                    if started.elapsed() < MAX_RETRY_TIME =>
                {
                    tokio::time::sleep(delay).await;
                }
                outcome => return Ok(outcome?),
            }
            delay *= 2;
        }
        Ok(database.write(script).await?)
    }
}

fn options() -> Options {
    // Each writer may need the memory of a large batch.
    Options { folder: "tenants", writers: 2, ..Options::default() }
}

async fn open_store(directory: PathBuf) -> Result<Store, store::StoreError> {
    Store::open(store::StoreEngine::Sqlite { directory }, MIGRATIONS, options()).await
}

fn stored_id(conn: &mut Conn) -> Result<Option<String>, store::StoreError> {
    conn.query_optional(&Sql::new("SELECT value FROM settings WHERE name = 'id'"), |row| Ok(row.text(0)?.to_owned()))
}

fn database_name(tenant: &Tenant) -> String {
    format!("tenant_{}", tenant.client_id.simple())
}

fn tenant(row: &Row<'_>) -> Result<Tenant, store::StoreError> {
    Ok(Tenant {
        client_id: row.text(0)?.parse().map_err(|_| store::StoreError::internal("a stored client id is no UUID"))?,
        secret_hash: row.text(1)?.to_owned(),
        database_name: row.text(2)?.to_owned(),
        client_label: row.text(3)?.to_owned(),
    })
}

fn insert_history_event(conn: &mut Conn, event: &HistoryEvent) -> Result<bool, store::StoreError> {
    let sql = Sql::new(
        "INSERT INTO history_events(id, at, rank, event_type, record_id, source_id, source_type, source_name, source_info, data) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING",
    );
    let sql = sql
        .arg(event.id.as_bytes().to_vec())
        .arg(event.at)
        .arg(i64::from(event.rank()))
        .arg(i64::from(event.event_type))
        .arg(event.record_id)
        .arg(event.source_id)
        .arg(i64::from(event.source_type))
        .arg(event.source_name.as_deref())
        .arg(&event.source_info)
        .arg(&event.data);
    if conn.exec(&sql)? == 0 {
        return Ok(false);
    }
    note_files(conn, &event.files())?;
    let count = Sql::new(
        "INSERT INTO history_event_counts(event_type, source_type, n) VALUES ($1, $2, 1) \
         ON CONFLICT (event_type, source_type) DO UPDATE SET n = history_event_counts.n + 1",
    );
    conn.exec(&count.arg(i64::from(event.event_type)).arg(i64::from(event.source_type)))?;
    Ok(true)
}

/// Stores the files that an event names.
fn note_files(conn: &mut Conn, files: &[Uuid]) -> Result<(), store::StoreError> {
    let rows = files.iter().map(|file| [BorrowedArgument::Blob(file.as_bytes())]);
    conn.exec_each("INSERT INTO event_files(file_id) VALUES ($1) ON CONFLICT (file_id) DO NOTHING", rows, |_| {})
}

/// Stores the files of events from a former version.
fn note_files_of_stored_events(conn: &mut Conn) -> Result<(), store::StoreError> {
    let sql = Sql::new("SELECT data FROM history_events WHERE event_type = $1").arg(i64::from(DOCUMENT_GENERATED));
    let mut files = Vec::new();
    conn.for_each_row(&sql, |row| {
        files.extend(files_in(row.text(0)?));
        Ok(())
    })?;
    note_files(conn, &files)
}

fn insert_system_events(conn: &mut Conn, events: &[SystemEvent]) -> Result<u64, store::StoreError> {
    let rows = events.iter().map(|event| {
        [
            BorrowedArgument::Blob(event.id.as_bytes()),
            BorrowedArgument::Int(event.at),
            BorrowedArgument::Int(event.category.into()),
            BorrowedArgument::Int(event.event_type.into()),
            BorrowedArgument::Int(event.source_id),
            BorrowedArgument::Int(event.source_type.into()),
            BorrowedArgument::Text(&event.source_info),
            BorrowedArgument::Text(&event.source_ip),
            BorrowedArgument::Text(&event.data),
        ]
    });
    let mut counts: BTreeMap<(u8, u8), i64> = BTreeMap::new();
    let mut written = events.iter();
    conn.exec_each(
        "INSERT INTO system_events(id, at, category, event_type, source_id, source_type, source_info, source_ip, data) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING",
        rows,
        |changed| {
            if let Some(event) = written.next()
                && changed == 1
            {
                *counts.entry((event.category, event.event_type)).or_default() += 1;
            }
        },
    )?;
    for ((category, event_type), n) in &counts {
        let sql = Sql::new(
            "INSERT INTO system_event_counts(category, event_type, n) VALUES ($1, $2, $3) \
             ON CONFLICT (category, event_type) DO UPDATE SET n = system_event_counts.n + excluded.n",
        );
        conn.exec(&sql.arg(i64::from(*category)).arg(i64::from(*event_type)).arg(*n))?;
    }
    Ok(counts.values().sum::<i64>().unsigned_abs())
}

const SELECT_HISTORY: &str =
    "SELECT id, at, event_type, record_id, source_id, source_type, source_name, source_info, data FROM history_events";

/// The SQL of a list.
struct ListSql {
    select: &'static str,
    order: &'static str,
    /// Counts the rows.
    count: &'static str,
    /// Adds up the stored counts, which are grouped by [`ListSql::stored_count_columns`].
    stored_count: &'static str,
    stored_count_columns: [FilterColumn; 2],
}

const HISTORY_LIST: ListSql = ListSql {
    select: SELECT_HISTORY,
    order: " ORDER BY at DESC, rank DESC, id DESC",
    count: "SELECT count(*) FROM history_events",
    stored_count: "SELECT COALESCE(sum(n), 0) FROM history_event_counts",
    stored_count_columns: [FilterColumn::EventType, FilterColumn::SourceType],
};

const SYSTEM_LIST: ListSql = ListSql {
    select: "SELECT id, at, category, event_type, source_id, source_type, source_info, source_ip, data FROM system_events",
    order: " ORDER BY at DESC, id DESC",
    count: "SELECT count(*) FROM system_events",
    stored_count: "SELECT COALESCE(sum(n), 0) FROM system_event_counts",
    stored_count_columns: [FilterColumn::Category, FilterColumn::EventType],
};

fn list<T>(
    conn: &mut Conn,
    list: &ListSql,
    page: &PageRange,
    read_event: impl Fn(&Row<'_>) -> Result<T, store::StoreError>,
    size: impl Fn(&T) -> usize,
) -> Result<EngineList<T>, EngineError> {
    let total = conn.query_one(&Sql::new(list.stored_count), |row| row.int(0))?;
    let filtered = if page.conditions.is_empty() {
        total
    } else {
        let is_stored = page.conditions.iter().all(|condition| list.stored_count_columns.contains(&condition.column));
        let mut sql = Sql::new(if is_stored { list.stored_count } else { list.count });
        push_conditions(&mut sql, &page.conditions, !is_stored);
        conn.query_one(&sql, |row| row.int(0))?
    };
    if page.offset >= filtered {
        return Ok(EngineList { total, filtered, results: Vec::new() });
    }
    let mut sql = Sql::new(list.select);
    push_conditions(&mut sql, &page.conditions, true);
    sql.push(list.order).page(page.limit, page.offset);
    let (mut results, mut bytes) = (Vec::new(), 0);
    let outcome = conn.for_each_row_until(&sql, |row| {
        let event = read_event(row)?;
        bytes += size(&event);
        if bytes > MAX_PAGE_BYTES {
            return Ok(ControlFlow::Break(EngineError::PageTooLarge));
        }
        results.push(event);
        Ok(ControlFlow::Continue(()))
    })?;
    match outcome {
        ControlFlow::Continue(()) => Ok(EngineList { total, filtered, results }),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Writes the conditions so that the planner can use one index only. It is the index of a column that is compared with
/// one value and has the fewest rows per value. A `+` before each other column excludes its index, whose rows would
/// have to be sorted.
fn push_conditions(sql: &mut Sql, conditions: &[Condition], has_indexes: bool) {
    let has_one_value = |condition: &&Condition| {
        !condition.is_excluded && matches!(&condition.test, Test::In(values) if values.len() == 1)
    };
    let asks_for_one =
        |column: FilterColumn| conditions.iter().filter(has_one_value).any(|condition| condition.column == column);
    // A record has few events, so its index is good for several records, too.
    let of_records = |condition: &Condition| {
        condition.column == FilterColumn::RecordId && !condition.is_excluded && matches!(condition.test, Test::In(_))
    };
    let best_index = if conditions.iter().any(of_records) {
        Some(FilterColumn::RecordId)
    } else {
        [FilterColumn::SourceId, FilterColumn::EventType].into_iter().find(|column| asks_for_one(*column))
    };
    for (at, condition) in conditions.iter().enumerate() {
        sql.push(if at == 0 { " WHERE " } else { " AND " });
        if condition.is_excluded {
            sql.push("NOT ");
        }
        let column = condition.column;
        let can_use_index = column == FilterColumn::At || best_index == Some(column);
        sql.push(if has_indexes && !can_use_index { "(+" } else { "(" }).push(match column {
            FilterColumn::RecordId => "record_id",
            FilterColumn::EventType => "event_type",
            FilterColumn::Category => "category",
            FilterColumn::SourceType => "source_type",
            FilterColumn::SourceId => "source_id",
            FilterColumn::At => "at",
        });
        match &condition.test {
            Test::In(values) if values.len() == 1 => drop(sql.push(" = ").bind(values[0])),
            Test::In(values) => {
                sql.push(" IN (");
                for (at, value) in values.iter().enumerate() {
                    sql.push(if at == 0 { "" } else { ", " }).bind(*value);
                }
                sql.push(")");
            }
            Test::Above(value) => drop(sql.push(" > ").bind(*value)),
            Test::From(value) => drop(sql.push(" >= ").bind(*value)),
            Test::Below(value) => drop(sql.push(" < ").bind(*value)),
            Test::UpTo(value) => drop(sql.push(" <= ").bind(*value)),
            Test::Between(from, to) => drop(sql.push(" BETWEEN ").bind(*from).push(" AND ").bind(*to)),
        }
        sql.push(")");
    }
}

fn id(row: &Row<'_>) -> Result<Uuid, store::StoreError> {
    Uuid::from_slice(row.blob(0)?).map_err(|_| store::StoreError::internal("a stored id is no UUID"))
}

fn byte(row: &Row<'_>, column: usize) -> Result<u8, store::StoreError> {
    u8::try_from(row.int(column)?)
        .map_err(|_| store::StoreError::internal(format_args!("the number in column {column} is too large")))
}

fn history_event(row: &Row<'_>) -> Result<HistoryEvent, store::StoreError> {
    Ok(HistoryEvent {
        id: id(row)?,
        at: row.int(1)?,
        event_type: byte(row, 2)?,
        record_id: row.int(3)?,
        source_id: row.int(4)?,
        source_type: byte(row, 5)?,
        source_name: row.opt_text(6)?.map(str::to_owned),
        source_info: row.text(7)?.to_owned(),
        data: row.text(8)?.to_owned(),
    })
}

fn system_event(row: &Row<'_>) -> Result<SystemEvent, store::StoreError> {
    Ok(SystemEvent {
        id: id(row)?,
        at: row.int(1)?,
        category: byte(row, 2)?,
        event_type: byte(row, 3)?,
        source_id: row.int(4)?,
        source_type: byte(row, 5)?,
        source_info: row.text(6)?.to_owned(),
        source_ip: row.text(7)?.to_owned(),
        data: row.text(8)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn files_that_a_former_version_did_not_note_are_named() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("history");
        let former = Migrations { build: &MIGRATIONS.build[..1], ..MIGRATIONS };
        let engine = store::StoreEngine::Sqlite { directory: directory.clone() };
        let store = Store::open(engine, former, options()).await.unwrap();
        let tenant = Tenant {
            client_id: Uuid::new_v4(),
            secret_hash: String::new(),
            database_name: "acme".to_owned(),
            client_label: "Acme".to_owned(),
        };
        store.create(&database_name(&tenant)).await.unwrap();
        let [first, second, of_another_type] = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
        let insert = move |conn: &mut Conn| {
            for (n, event_type, file) in [(1, 9, first), (2, 9, second), (3, 7, of_another_type), (4, 9, first)] {
                let sql = Sql::new(
                    "INSERT INTO history_events(id, at, rank, event_type, record_id, source_id, source_type, source_info, data) \
                     VALUES ($1, 0, 2, $2, 1, 1, 1, '', $3)",
                );
                let sql = sql.arg(Uuid::from_u128(n).as_bytes().to_vec()).arg(event_type);
                conn.exec(&sql.arg(format!(r#"[{{"file_id": "{file}"}}]"#)))?;
            }
            Ok::<_, store::StoreError>(())
        };
        store.database(&database_name(&tenant)).write(insert).await.unwrap();
        store.close().await;

        let engine = HistorySqlite::open(directory, Clock::system()).await.unwrap();
        let named = engine.named_files(&tenant, &[first, second, of_another_type, Uuid::new_v4()]).await;
        assert_eq!(named, Ok(HashSet::from([first, second])));
        engine.close().await;
    }
}
