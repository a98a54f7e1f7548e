//! `chancery build import`: creates a build from an archive, which may be hostile. The build is not served before everything in the
//! archive is stored and compared with its counts and hashes. An interrupted import leaves an unfinished build, which the next
//! import of the domain removes.

use super::archive::{ArchiveReader, Entry, HEADER, MANIFEST, invalid};
use super::export::{activity_columns, check_context};
use super::history::HistoryTarget;
use super::rows;
use super::tables::{
    ACTIVITY, ColumnRule, Extent, JOBS, STAYING_JOBS, check_name, class_table, column_rules, in_order,
};
use super::{
    CHECKED_TEXT, Counts, FILES, FORMAT, Header, MoveError, Progress, ShowProgress, TABLES, TableHeader, VERSION,
    archive_context, archive_keys, engine, history, open_store,
};
use crate::MIGRATIONS;
use crate::builds::{self, ImportedBuild};
use files::{Storage, storage_key};
use kit::app::App;
use kit::build::{Build, database_name};
use kit::ids::ClassId;
use kit::jobs::PAYLOAD;
use kit::secret::{Context, Keys};
use records::restored;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use store::blobs::BlobError;
use store::{Argument, BorrowedArgument, ColumnInfo, Conn, Database, Sql, Store, StoreError, StoredKind, TableInfo};
use tokio::task::JoinHandle;
use uuid::Uuid;
use web::clock::random_token;

/// The size of the rows whose words one transaction adds to the text search, in bytes of the archive.
const WORDS_BYTES: u64 = 4 * 1024 * 1024;
/// The maximum number of these rows.
const WORDS_IN_PAGE: u64 = 1_000;
/// The pause between two renewals of the import's claim on its domain.
const RENEWAL: Duration = Duration::from_secs(3);
/// The maximum number of tables in an archive.
const MAX_TABLES: usize = 100_000;

/// Options of an import.
pub struct ImportOptions {
    /// The domain of the new build; `None`: that of the archive.
    pub domain: Option<String>,
    /// The passphrase of the archive's secrets.
    pub passphrase: Option<String>,
    /// Stores the history of the archive; `None`: it is not imported.
    pub history: Option<Box<dyn HistoryTarget>>,
    /// The size of the archive in bytes, for the progress; 0 if it is unknown.
    pub size: u64,
}

/// The result of an import.
#[derive(Debug, Default)]
pub struct ImportReport {
    pub domain: String,
    pub rows: u64,
    pub files: u64,
    pub file_bytes: u64,
    /// The names of files whose bytes the archive does not have.
    pub missing_files: Vec<String>,
    /// The number of emptied secrets for each table and column.
    pub emptied: BTreeMap<String, u64>,
    pub history_events: u64,
    pub system_events: u64,
    /// Is true if the archive has a history that was not imported.
    pub has_left_history: bool,
}

/// Creates a build from an archive.
pub async fn import(
    app: &App,
    from: impl Read + Send,
    mut options: ImportOptions,
    show: ShowProgress<'_>,
) -> Result<ImportReport, MoveError> {
    let mut reader = ArchiveReader::new(from);
    let header = read_header(&mut reader)?;
    let keys = open_secrets(&header, options.passphrase.as_deref())?;
    if options.history.is_some() && !header.has_history {
        return Err(MoveError::Refused("the archive has no history; leave out --with-history".to_owned()));
    }
    let domain = options.domain.clone().unwrap_or_else(|| header.domain.clone());
    let claimed = builds::begin_import(app, &domain).await?;
    let renewal = Renewal::start(app, &claimed);
    let build = app.new_build(claimed.id, &claimed.domain, claimed.uid.clone());
    let mut target = options.history.take();
    let import = Import { app, build: &build, claimed: &claimed, header: &header, keys, size: options.size, show };
    let imported = import.run(reader, &mut target).await;
    drop(renewal);
    match imported {
        Ok(report) => {
            builds::finish_import(app, &claimed, header.created_at).await?;
            Ok(report)
        }
        Err(failure) => {
            // A failure of the removal is less important: the next import of the domain repeats it.
            if let Err(error) = builds::abandon_import(app, &claimed).await {
                tracing::warn!(%error, domain, "an unfinished import was not removed, the next one removes it");
            }
            Err(failure)
        }
    }
}

/// Renews the claim on the domain until it is dropped.
struct Renewal(JoinHandle<()>);

impl Renewal {
    fn start(app: &App, build: &ImportedBuild) -> Renewal {
        let (app, build) = (app.clone(), build.clone());
        Renewal(tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                if let Err(error) = builds::renew_import(&app, &build).await {
                    tracing::warn!(%error, domain = build.domain, "the claim of an import was not renewed, will retry");
                }
            }
        }))
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn read_header(reader: &mut ArchiveReader<impl Read>) -> Result<Header, MoveError> {
    let entry = reader.next_entry()?;
    if entry.name != HEADER {
        return Err(invalid(format!("{}: expected {HEADER}", entry.name)).into());
    }
    let bytes = reader.read_whole(&entry)?;
    let json: Json = serde_json::from_slice(&bytes).map_err(|_| invalid(format!("{HEADER}: no JSON")))?;
    let (format, version) = (json["format"].as_str(), json["version"].as_u64());
    if format != Some(FORMAT) || version.is_none() {
        return Err(invalid(format!("{HEADER}: it is not an archive of a build")).into());
    }
    if version > Some(VERSION.into()) {
        return Err(invalid(format!("{HEADER}: a later version of Chancery wrote the archive")).into());
    }
    let header: Header = serde_json::from_value(json).map_err(|error| invalid(format!("{HEADER}: {error}")))?;
    if header.schema > MIGRATIONS.build.len() {
        return Err(invalid(format!("{HEADER}: a later version of Chancery wrote the archive")).into());
    }
    // The first version that wrote archives had this many.
    if header.schema < FIRST_SCHEMA || header.tables.len() > MAX_TABLES {
        return Err(invalid(format!("{HEADER}: its numbers are impossible")).into());
    }
    let mut names = std::collections::HashSet::new();
    for table in &header.tables {
        check_name(&table.name, header.extent)?;
        if !names.insert(&table.name) {
            return Err(invalid(format!("{HEADER}: {}: the table occurs twice", table.name)).into());
        }
    }
    Ok(header)
}

/// The number of migrations of the first version that wrote archives.
const FIRST_SCHEMA: usize = 30;

/// Returns the keys of the archive's secrets, after a check of the passphrase.
fn open_secrets(header: &Header, passphrase: Option<&str>) -> Result<Option<Keys>, MoveError> {
    let Some(secrets) = &header.secrets else {
        return match passphrase {
            Some(_) => Err(MoveError::Refused("the archive has no secrets; leave out --with-secrets".to_owned())),
            None => Ok(None),
        };
    };
    let Some(passphrase) = passphrase else {
        let line = "the archive has secrets; say --with-secrets and give their passphrase";
        return Err(MoveError::Refused(line.to_owned()));
    };
    if secrets.salt.len() != random_token().len() {
        return Err(invalid(format!("{HEADER}: salt: it is not one")).into());
    }
    let keys = archive_keys(passphrase, &secrets.salt)?;
    match keys.open(&check_context(&secrets.salt), &secrets.check) {
        Some(text) if text == CHECKED_TEXT => Ok(Some(keys)),
        _ => Err(MoveError::Refused("the passphrase is wrong".to_owned())),
    }
}

/// A running import.
struct Import<'a> {
    app: &'a App,
    build: &'a Build,
    claimed: &'a ImportedBuild,
    header: &'a Header,
    keys: Option<Keys>,
    /// The size of the archive in bytes; 0 if it is unknown.
    size: u64,
    show: ShowProgress<'a>,
}

/// The table into which the rows of an entry go.
struct Target {
    table: TableInfo,
    /// The columns of the archive.
    columns: Vec<ColumnInfo>,
    rules: Vec<ColumnRule>,
    rows: u64,
    /// The size of its entries, in bytes.
    bytes: u64,
    /// The number of the last entry.
    entries: u32,
}

impl Target {
    /// Returns the number of rows of usual size that one transaction may read as a whole.
    fn rows_in_page(&self) -> i64 {
        let size = self.bytes / self.rows.max(1);
        (WORDS_BYTES / size.max(1)).clamp(1, WORDS_IN_PAGE) as i64
    }
}

/// Counts of the content that has arrived.
#[derive(Default)]
struct Arrived {
    files: u64,
    file_bytes: u64,
    /// The number of files that something refers to.
    referred_files: u64,
}

impl Import<'_> {
    async fn run(
        &self,
        mut reader: ArchiveReader<impl Read + Send>,
        history: &mut Option<Box<dyn HistoryTarget>>,
    ) -> Result<ImportReport, MoveError> {
        let store = open_store(engine(self.app), self.header.schema).await?;
        let filled = self.fill(&store, &mut reader).await;
        store.close().await;
        // From here on the database has all migrations of this program.
        let (mut entry, rows) = filled?;
        let mut arrived = Arrived::default();
        while let Some(name) = entry.name.strip_prefix(FILES) {
            let name = name.to_owned();
            self.store_file(&mut reader, (&entry, &name), &mut arrived).await?;
            self.show_bytes("files", reader.read);
            entry = reader.next_entry()?;
        }
        let mut events = history::Stored::default();
        if self.header.has_history {
            if let Some(target) = history {
                target.begin(self.app, self.build).await?;
            }
            let target = history.as_deref_mut().map(|target| target as &mut dyn HistoryTarget);
            let show = |at| self.show_bytes("history", at);
            entry = history::read(target, &mut reader, entry, &mut events, show).await?;
        }
        let manifest = reader.finish(&entry)?;
        let counts: Counts =
            serde_json::from_value(manifest).map_err(|error| invalid(format!("{MANIFEST}: {error}")))?;
        self.compare(&counts, &rows, &arrived, &events).await?;
        Ok(ImportReport {
            domain: self.claimed.domain.clone(),
            rows: rows.values().sum(),
            files: arrived.files,
            file_bytes: arrived.file_bytes,
            missing_files: counts.missing_files,
            emptied: counts.emptied,
            history_events: events.history_events,
            system_events: events.system_events,
            has_left_history: self.header.has_history && history.is_none(),
        })
    }

    fn show_bytes(&self, step: &'static str, done: u64) {
        (self.show)(Progress { step, done, total: self.size });
    }

    /// Creates the database and fills its tables. Returns the first entry behind the rows, and the number of rows by table.
    async fn fill(
        &self,
        store: &Store,
        reader: &mut ArchiveReader<impl Read + Send>,
    ) -> Result<(Entry, BTreeMap<String, u64>), MoveError> {
        let name = database_name(self.claimed.id);
        store.create(&name).await?;
        let db = store.database(&name);
        let extent = self.header.extent;
        let order = db.write(move |conn: &mut Conn| empty_tables(conn, extent)).await?;
        let mut targets = self.targets(order)?;
        let mut has_class_tables = false;
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        loop {
            let entry = reader.next_entry()?;
            let Some((table, number)) = rows_entry(&entry.name) else {
                if !has_class_tables {
                    self.add_class_tables(&db, &mut targets).await?;
                }
                rows.extend(targets.iter().map(|(name, target)| (name.clone(), target.rows)));
                self.complete(&db, &targets).await?;
                return Ok((entry, rows));
            };
            if class_table(table).is_some() && !std::mem::replace(&mut has_class_tables, true) {
                self.add_class_tables(&db, &mut targets).await?;
            }
            let unexpected = || invalid(format!("{}: it is not expected here", entry.name));
            let target = targets.get_mut(table).ok_or_else(unexpected)?;
            target.entries += 1;
            if target.entries != number {
                return Err(unexpected().into());
            }
            let bytes = reader.read_whole(&entry)?;
            let parsed = rows::parse(&entry.name, &bytes, &target.columns)?;
            target.bytes += bytes.len() as u64;
            drop(bytes);
            target.rows += parsed.len() as u64;
            let parsed = self.convert(&entry.name, target, parsed)?;
            self.insert(&db, target, parsed).await.map_err(|error| refused_rows(&entry.name, error))?;
            self.show_bytes("rows", reader.read);
        }
    }

    /// Returns the targets of the tables that exist, by name, and checks the columns of the archive.
    fn targets(&self, tables: Vec<TableInfo>) -> Result<HashMap<String, Target>, MoveError> {
        let activity = TableInfo {
            name: ACTIVITY.to_owned(),
            columns: activity_columns(),
            key: Vec::new(),
            references: Vec::new(),
            numbered: None,
        };
        let known: HashMap<String, TableInfo> =
            tables.into_iter().chain([activity]).map(|table| (table.name.clone(), table)).collect();
        let mut targets = HashMap::new();
        for declared in &self.header.tables {
            let Some(table) = known.get(&declared.name) else {
                if class_table(&declared.name).is_some() {
                    continue;
                }
                return Err(invalid(format!("{HEADER}: {}: there is no such table", declared.name)).into());
            };
            targets.insert(declared.name.clone(), self.target(declared, table)?);
        }
        Ok(targets)
    }

    fn target(&self, declared: &TableHeader, table: &TableInfo) -> Result<Target, MoveError> {
        let find = |name: &String| {
            let column = table.columns.iter().find(|column| column.name == *name && column.kind != StoredKind::Other);
            column.cloned().ok_or_else(|| invalid(format!("{HEADER}: {}.{name}: there is no such column", table.name)))
        };
        let columns: Vec<ColumnInfo> = declared.columns.iter().map(find).collect::<Result<_, _>>()?;
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() != columns.len() || columns.is_empty() {
            return Err(invalid(format!("{HEADER}: {}: its columns are impossible", table.name)).into());
        }
        let table = TableInfo { columns: columns.clone(), ..table.clone() };
        let rules = column_rules(&table, Extent::Full);
        Ok(Target { table, columns, rules, rows: 0, bytes: 0, entries: 0 })
    }

    /// Creates the tables of the classes, whose fields are stored by now.
    async fn add_class_tables(&self, db: &Database, targets: &mut HashMap<String, Target>) -> Result<(), MoveError> {
        let classes = db.read::<_, StoreError>(restored::class_ids).await?;
        for class in classes {
            let created = db.write::<_, StoreError>(move |conn: &mut Conn| restored::create_tables(conn, class)).await;
            created.map_err(|error| invalid(format!("the fields of class {class}: {error}")))?;
        }
        let extent = self.header.extent;
        let tables = db.read(move |conn: &mut Conn| Ok::<_, StoreError>(in_order(conn.tables()?, extent))).await?;
        let by_name: HashMap<&str, &TableInfo> = tables.iter().map(|table| (table.name.as_str(), table)).collect();
        for declared in self.header.tables.iter().filter(|table| class_table(&table.name).is_some()) {
            let missing = || invalid(format!("{HEADER}: {}: there is no such class", declared.name));
            let table = by_name.get(declared.name.as_str()).ok_or_else(missing)?;
            targets.insert(declared.name.clone(), self.target(declared, table)?);
        }
        Ok(())
    }

    /// Seals the secrets of rows for this build. Refuses jobs that never move, names of files that are no UUIDs, and impossible
    /// numbers of records.
    fn convert(
        &self,
        name: &str,
        target: &Target,
        mut rows: Vec<Vec<Argument>>,
    ) -> Result<Vec<Vec<Argument>>, MoveError> {
        let place = |column: &str| target.columns.iter().position(|known| known.name == column);
        let uuid = place("uuid").filter(|_| target.table.name == "files");
        let kind = place("kind").filter(|_| target.table.name == JOBS);
        let number = place("n").filter(|_| class_table(&target.table.name).is_some());
        let enabled = place("is_enabled").filter(|_| target.table.name == "single_sign_on");
        for row in &mut rows {
            if uuid.is_some_and(|at| !is_uuid(text_at(row, at))) {
                return Err(invalid(format!("{name}: the name of a file is no UUID")).into());
            }
            // Sets of records are bitmaps over these numbers.
            let is_number = |value: &Argument| matches!(value, Argument::Int(n) if (1..=u32::MAX.into()).contains(n));
            if number.is_some_and(|at| !is_number(&row[at])) {
                return Err(invalid(format!("{name}: the number of a record is impossible")).into());
            }
            if kind.is_some_and(|at| STAYING_JOBS.contains(&text_at(row, at))) {
                return Err(invalid(format!("{name}: a job of this kind never moves")).into());
            }
            for (at, rule) in target.rules.iter().enumerate() {
                match self.reseal(name, rule, row, at)? {
                    SecretOfRow::None => {}
                    SecretOfRow::Sealed(sealed) => row[at] = Argument::Text(sealed),
                    // Nobody can sign in by a configuration without its secret.
                    SecretOfRow::Emptied => enabled.into_iter().for_each(|at| row[at] = Argument::Int(0)),
                }
            }
        }
        Ok(rows)
    }

    /// Seals a value of a row for this build, if its column is sealed.
    fn reseal(&self, name: &str, rule: &ColumnRule, row: &[Argument], at: usize) -> Result<SecretOfRow, MoveError> {
        match rule {
            ColumnRule::Kept | ColumnRule::Emptied => Ok(SecretOfRow::None),
            ColumnRule::Payload { row: key } => {
                self.payload(name, text_at(row, at), text_at(row, *key)).map(SecretOfRow::Sealed)
            }
            ColumnRule::Sealed { .. } if row[at] == Argument::Null => Ok(SecretOfRow::None),
            ColumnRule::Sealed { .. } if text_at(row, at).is_empty() => Ok(SecretOfRow::Emptied),
            ColumnRule::Sealed { column, row: key } => {
                let Some(keys) = &self.keys else {
                    return Err(invalid(format!("{name}: it has secrets, unlike its header")).into());
                };
                let key = text_at(row, *key);
                let plain = keys.open(&archive_context(column, key), text_at(row, at));
                let plain = plain.ok_or_else(|| invalid(format!("{name}: a secret does not open")))?;
                Ok(SecretOfRow::Sealed(self.app.keys.seal(&self.context(column.table, column.column, key), &plain)))
            }
        }
    }

    /// Seals the payload of a job, which is JSON.
    fn payload(&self, name: &str, payload: &str, row: &str) -> Result<String, MoveError> {
        let is_json = serde_json::from_str::<Json>(payload).is_ok();
        if !is_json {
            return Err(invalid(format!("{name}: the payload of a job is no JSON")).into());
        }
        Ok(self.app.keys.seal(&self.context(PAYLOAD.table, PAYLOAD.column, row), payload.as_bytes()))
    }

    fn context<'k>(&'k self, table: &'k str, column: &'k str, row: &'k str) -> Context<'k> {
        Context { build: &self.build.uid, table, column, row }
    }

    async fn insert(&self, db: &Database, target: &Target, rows: Vec<Vec<Argument>>) -> Result<(), StoreError> {
        let mut columns: Vec<String> = target.columns.iter().map(|column| column.name.clone()).collect();
        let (table, mut rows) = (target.table.name.clone(), rows);
        let is_activity = table == ACTIVITY;
        if is_activity {
            columns.push("build".to_owned());
            rows.iter_mut().for_each(|row| row.push(Argument::from(self.build.uid.as_str())));
        }
        let rows = Arc::new(rows);
        let script = move |conn: &mut Conn| {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            let rows: Vec<Vec<BorrowedArgument<'_>>> =
                rows.iter().map(|row| row.iter().map(Argument::borrowed).collect()).collect();
            conn.insert_rows(&table, &columns, &rows, "").map(drop)
        };
        if is_activity { self.app.store.control().write(script).await } else { db.write(script).await }
    }

    /// Continues the numbers of the tables, and creates the indexes, words and counts of the classes.
    async fn complete(&self, db: &Database, targets: &HashMap<String, Target>) -> Result<(), MoveError> {
        let numbers: Vec<(String, i64)> =
            self.header.tables.iter().filter_map(|table| Some((table.name.clone(), table.last_number?))).collect();
        let continued = db.write::<_, StoreError>(move |conn: &mut Conn| {
            let by_name: HashMap<&str, i64> = numbers.iter().map(|(name, last)| (name.as_str(), *last)).collect();
            for table in conn.tables()? {
                if let (Some(column), Some(last)) = (&table.numbered, by_name.get(table.name.as_str())) {
                    conn.continue_numbers(&table.name, column, *last)?;
                }
            }
            Ok(())
        });
        continued.await?;
        let classes = db.read::<_, StoreError>(restored::class_ids).await?;
        for (done, class) in classes.iter().copied().enumerate() {
            (self.show)(Progress { step: "indexes", done: done as u64, total: classes.len() as u64 });
            let page = targets.get(&records::classes::table(class)).map_or(1, Target::rows_in_page);
            self.complete_class(db, class, page).await?;
        }
        Ok(())
    }

    async fn complete_class(&self, db: &Database, class: ClassId, most: i64) -> Result<(), MoveError> {
        let indexed = db.write::<_, StoreError>(move |conn: &mut Conn| {
            restored::count_records(conn, class)?;
            restored::create_indexes(conn, class)
        });
        indexed.await.map_err(|error| match error {
            StoreError::Unique(_) => {
                invalid(format!("r{class}: two records have the same value in a unique field")).into()
            }
            error => MoveError::Store(error),
        })?;
        let mut after = 0;
        loop {
            let page = move |conn: &mut Conn| restored::add_words(conn, class, after, most);
            match db.write::<_, StoreError>(page).await? {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// Stores a file, which a row must name.
    async fn store_file(
        &self,
        reader: &mut ArchiveReader<impl Read + Send>,
        (entry, uuid): (&Entry, &str),
        arrived: &mut Arrived,
    ) -> Result<(), MoveError> {
        let sql = Sql::new("SELECT size, CASE WHEN kept_until IS NULL THEN 0 ELSE 1 END FROM files WHERE uuid = $1");
        let sql = sql.arg(uuid);
        let read = move |conn: &mut Conn| conn.query_optional(&sql, |row| Ok((row.int(0)?, row.flag(1)?)));
        let row = self.build.db.read_short::<_, StoreError>(read).await?;
        let (size, is_waiting) = row.ok_or_else(|| invalid(format!("{}: no row names this file", entry.name)))?;
        if !is_waiting && size.unsigned_abs() != entry.size {
            return Err(invalid(format!("{}: its row has another size", entry.name)).into());
        }
        let failed = |error: BlobError| MoveError::Refused(format!("{uuid}: {error}"));
        let blobs = &self.app.slot::<Storage>().blobs;
        if arrived.files == 0 {
            blobs.make_group(&self.build.uid).await.map_err(failed)?;
        }
        let mut blob = blobs.begin().await.map_err(failed)?;
        reader.copy(entry, blob.file())?;
        blob.finish(&storage_key(self.build, uuid)).await.map_err(failed)?;
        arrived.files += 1;
        arrived.file_bytes += entry.size;
        arrived.referred_files += u64::from(!is_waiting);
        Ok(())
    }

    /// Compares what has arrived with the counts of the archive.
    async fn compare(
        &self,
        counts: &Counts,
        rows: &BTreeMap<String, u64>,
        arrived: &Arrived,
        events: &history::Stored,
    ) -> Result<(), MoveError> {
        let differs = |what: &str| Err(invalid(format!("{MANIFEST}: {what}: there are others in the archive")).into());
        if counts.tables != *rows {
            return differs("tables");
        }
        if (counts.files, counts.file_bytes) != (arrived.files, arrived.file_bytes) {
            return differs("files");
        }
        let of_manifest = (counts.history_events, counts.system_events, counts.history_files);
        if of_manifest != (events.history_events, events.system_events, events.files) {
            return differs("history");
        }
        let named = |conn: &mut Conn| {
            conn.query_one(&Sql::new("SELECT count(*) FROM files WHERE kept_until IS NULL"), |row| row.int(0))
        };
        let named = self.build.db.read::<_, StoreError>(named).await?.unsigned_abs();
        if named != arrived.referred_files + counts.missing_files.len() as u64 {
            return differs("missing_files");
        }
        Ok(())
    }
}

/// The value of a row in a sealed column.
enum SecretOfRow {
    /// The column is not sealed, or has no value.
    None,
    /// The export left out the secret.
    Emptied,
    /// The secret, sealed for this build.
    Sealed(String),
}

fn text_at(row: &[Argument], at: usize) -> &str {
    match row.get(at) {
        Some(Argument::Text(text)) => text,
        _ => "",
    }
}

fn is_uuid(text: &str) -> bool {
    Uuid::try_parse(text).is_ok_and(|uuid| uuid.to_string() == text)
}

/// Deletes the rows of a new database that the archive replaces. Returns the tables in the order of an archive.
fn empty_tables(conn: &mut Conn, extent: Extent) -> Result<Vec<TableInfo>, MoveError> {
    let tables = in_order(conn.tables()?, extent);
    for table in tables.iter().rev() {
        let mut sql = Sql::new("DELETE FROM ");
        conn.exec(sql.name(&table.name))?;
    }
    Ok(tables)
}

/// Returns the table and the number of an entry with rows.
fn rows_entry(name: &str) -> Option<(&str, u32)> {
    let (table, file) = name.strip_prefix(TABLES)?.split_once('/')?;
    let digits = file.strip_suffix(".ndjson")?;
    let number: u32 = digits.parse().ok()?;
    (format!("{number:06}") == digits).then_some((table, number))
}

/// Says which rows the database has refused. Its own text may repeat them.
fn refused_rows(name: &str, error: StoreError) -> MoveError {
    match error {
        StoreError::Full | StoreError::Busy | StoreError::Slow | StoreError::Unavailable(_) | StoreError::Missing => {
            MoveError::Store(error)
        }
        error => invalid(format!("{name}: the database refuses its rows: {error}")).into(),
    }
}
