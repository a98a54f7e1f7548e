//! `chancery check`: compares what the databases say with each other and with the stored files (`docs/moving.md`, "Checks"). It
//! changes nothing and may run while servers do. What servers change meanwhile can then appear as a finding.

use super::{MoveError, Progress, ShowProgress, engine, open_store};
use crate::MIGRATIONS;
use files::{Storage, storage_key};
use futures_util::TryStreamExt;
use kit::app::App;
use kit::build::{Build, database_name};
use records::classes::table;
use records::restored;
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::pin::pin;
use store::blobs::{BlobContent, BlobError, BlobListing};
use store::{Conn, Sql, Store, StoreError};

/// The age from which on events that wait for the history service are a finding, in microseconds.
const OLD_EVENT_US: i64 = 86_400_000_000;
/// The number of files that are compared at a time.
const FILES_IN_PAGE: usize = 500;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is lost or contradicts itself.
    Error,
    /// Something needs attention, but nothing is lost.
    Warning,
}

/// Something that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The domain of the build; `None`: the list of builds.
    pub build: Option<String>,
    /// `database`, `files`, `references`, `counts` or `outbox`.
    pub part: &'static str,
    pub severity: Severity,
    pub line: String,
}

impl Finding {
    /// Returns the finding as a JSON object.
    pub fn to_json(&self) -> Json {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        json!({"build": self.build, "part": self.part, "severity": severity, "message": self.line})
    }
}

/// Findings of one build, or of the list of builds.
struct Findings {
    build: Option<String>,
    found: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, part: &'static str, severity: Severity, line: String) {
        self.found.push(Finding { build: self.build.clone(), part, severity, line });
    }
}

/// Rows that refer to rows that do not exist: what they are, and the statement that counts them.
const REFERENCES: [(&str, &str); 7] = [
    (
        "files of records that do not exist",
        "SELECT count(*) FROM files f WHERE f.record > 0 AND NOT EXISTS (SELECT 1 FROM records r WHERE r.id = f.record) \
         AND NOT EXISTS (SELECT 1 FROM deleted_records d WHERE d.id = f.record)",
    ),
    (
        "files of document templates that do not exist",
        "SELECT count(*) FROM files f WHERE f.template IS NOT NULL AND NOT EXISTS (SELECT 1 FROM document_templates t WHERE t.id = f.template)",
    ),
    (
        "files of tasks that do not exist",
        "SELECT count(*) FROM files f WHERE f.task IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = f.task)",
    ),
    (
        "files of repositories that do not exist",
        "SELECT count(*) FROM files f WHERE f.component_repository IS NOT NULL AND NOT EXISTS \
         (SELECT 1 FROM custom_component_repositories c WHERE c.id = f.component_repository)",
    ),
    (
        "records of classes that do not exist",
        "SELECT count(*) FROM records r WHERE NOT EXISTS (SELECT 1 FROM object_classes c WHERE c.id = r.class_id)",
    ),
    (
        "assignments to records that do not exist",
        "SELECT count(*) FROM record_assignees a WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.id = a.record)",
    ),
    (
        "assignments to tasks that do not exist",
        "SELECT count(*) FROM task_assignees a WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = a.task)",
    ),
];

/// Counters of limits, and the statements that count their rows.
const COUNTERS: [(&str, &str); 4] = [
    ("roles", "SELECT count(*) FROM roles"),
    ("user_groups", "SELECT count(*) FROM user_groups"),
    ("object_classes", "SELECT count(*) FROM object_classes"),
    (
        "storage_bytes",
        "SELECT CAST(COALESCE((SELECT sum(COALESCE(f.counted, f.size)) FROM files f), 0) + \
         COALESCE((SELECT c.n FROM counters c WHERE c.name = 'event_file_bytes'), 0) AS BIGINT)",
    ),
];

/// Checks all builds, or the build of a domain.
pub async fn check(app: &App, domain: Option<&str>, show: ShowProgress<'_>) -> Result<Vec<Finding>, MoveError> {
    let store = open_store(engine(app), MIGRATIONS.build.len()).await?;
    let checked = check_all(app, &store, domain, show).await;
    store.close().await;
    checked
}

async fn check_all(
    app: &App,
    store: &Store,
    domain: Option<&str>,
    show: ShowProgress<'_>,
) -> Result<Vec<Finding>, MoveError> {
    let mut findings = Findings { build: None, found: Vec::new() };
    let sql = Sql::new("SELECT id, domain, uid, state FROM builds ORDER BY domain");
    let read = move |conn: &mut Conn| {
        let rows = conn.query_all(&sql, |row| {
            Ok((row.int(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned(), row.text(3)?.to_owned()))
        })?;
        Ok::<_, StoreError>((rows, conn.damages()?))
    };
    let (builds, damages) = store.control().read(read).await?;
    damages.into_iter().for_each(|line| findings.add("database", Severity::Error, line));
    let chosen: Vec<_> = builds.into_iter().filter(|build| domain.is_none_or(|domain| build.1 == domain)).collect();
    if let (Some(domain), true) = (domain, chosen.is_empty()) {
        return Err(MoveError::Refused(format!("{domain}: there is no such build")));
    }
    for (done, (id, domain, uid, state)) in chosen.iter().enumerate() {
        show(Progress { step: "builds", done: done as u64, total: chosen.len() as u64 });
        if state != "active" {
            let line = format!("{domain}: the build is in the state {state}; repeat its creation, import or deletion");
            findings.add("database", Severity::Warning, line);
            continue;
        }
        let build = app.new_build(*id, domain, uid.clone());
        let mut of_build = Findings { build: Some(domain.clone()), found: Vec::new() };
        match check_build(app, store, (&build, *id), &mut of_build).await {
            // The build was deleted meanwhile.
            Err(MoveError::Store(StoreError::Missing)) => {
                of_build.add("database", Severity::Error, "its database does not exist".to_owned());
            }
            checked => checked?,
        }
        findings.found.extend(of_build.found);
    }
    Ok(findings.found)
}

async fn check_build(
    app: &App,
    store: &Store,
    (build, id): (&Build, i64),
    findings: &mut Findings,
) -> Result<(), MoveError> {
    let (database, now) = (store.database(&database_name(id)), app.clock.now());
    let domain = findings.build.clone();
    let found = database.read::<_, StoreError>(move |conn: &mut Conn| {
        let mut findings = Findings { build: domain.clone(), found: Vec::new() };
        conn.damages()?.into_iter().for_each(|line| findings.add("database", Severity::Error, line));
        check_references(conn, &mut findings)?;
        check_counts(conn, &mut findings)?;
        check_outbox(conn, now, &mut findings)?;
        Ok(findings.found)
    });
    findings.found.extend(found.await?);
    check_files(app, &database, build, findings).await
}

fn count(conn: &mut Conn, sql: &Sql) -> Result<i64, StoreError> {
    conn.query_one(sql, |row| row.int(0))
}

fn check_references(conn: &mut Conn, findings: &mut Findings) -> Result<(), StoreError> {
    for (what, sql) in REFERENCES {
        let rows = count(conn, &Sql::new(sql))?;
        if rows > 0 {
            findings.add("references", Severity::Error, format!("{what}: {rows}"));
        }
    }
    for class in restored::class_ids(conn)? {
        let name = table(class);
        let mut unlisted = Sql::new("SELECT count(*) FROM ");
        unlisted.name(&name).push(" t WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.id = t.id AND r.class_id = ");
        let unlisted = count(conn, unlisted.bind(class).push(")"))?;
        let mut unstored = Sql::new("SELECT count(*) FROM records r WHERE r.class_id = ");
        unstored.bind(class).push(" AND NOT EXISTS (SELECT 1 FROM ").name(&name).push(" t WHERE t.id = r.id)");
        let unstored = count(conn, &unstored)?;
        if unlisted + unstored > 0 {
            let line = format!(
                "class {class}: {unlisted} records without an entry in the list of records, {unstored} entries without a record"
            );
            findings.add("references", Severity::Error, line);
        }
    }
    Ok(())
}

fn check_counts(conn: &mut Conn, findings: &mut Findings) -> Result<(), StoreError> {
    for class in restored::class_ids(conn)? {
        let mut stored = Sql::new("SELECT count(*) FROM ");
        let stored = count(conn, stored.name(&table(class)))?;
        let counted = Sql::new("SELECT CAST(COALESCE(sum(n), 0) AS BIGINT) FROM record_counts WHERE class_id = $1");
        let counted = count(conn, &counted.arg(class))?;
        if stored != counted {
            findings.add(
                "counts",
                Severity::Error,
                format!("class {class}: {stored} records, but {counted} are counted"),
            );
        }
    }
    for (name, sql) in COUNTERS {
        let stored = count(conn, &Sql::new(sql))?;
        let counted =
            Sql::new("SELECT CAST(COALESCE(sum(n), 0) AS BIGINT) FROM all_counters WHERE name = $1").arg(name);
        let counted = count(conn, &counted)?;
        if stored != counted {
            findings.add("counts", Severity::Error, format!("{name}: {stored}, but {counted} are counted"));
        }
    }
    Ok(())
}

fn check_outbox(conn: &mut Conn, now: i64, findings: &mut Findings) -> Result<(), StoreError> {
    let refused = count(conn, &Sql::new("SELECT count(*) FROM outbox_refused"))?;
    if refused > 0 {
        findings.add("outbox", Severity::Warning, format!("the history service has refused {refused} events"));
    }
    let old = count(conn, &Sql::new("SELECT count(*) FROM outbox WHERE created_at < $1").arg(now - OLD_EVENT_US))?;
    if old > 0 {
        let line = format!("{old} events wait for the history service for more than a day");
        findings.add("outbox", Severity::Warning, line);
    }
    Ok(())
}

/// Compares the rows of files with the stored files, in both directions.
async fn check_files(
    app: &App,
    database: &store::Database,
    build: &Build,
    findings: &mut Findings,
) -> Result<(), MoveError> {
    let blobs = &app.slot::<Storage>().blobs;
    let failed = |error: BlobError| MoveError::Refused(format!("{}: files: {error}", build.domain));
    let mut after = 0;
    loop {
        let sql =
            Sql::new("SELECT id, uuid, size FROM files WHERE kept_until IS NULL AND id > $1 ORDER BY id LIMIT $2");
        let sql = sql.arg(after).arg(FILES_IN_PAGE as i64);
        let read = move |conn: &mut Conn| {
            conn.query_all(&sql, |row| Ok((row.int(0)?, row.text(1)?.to_owned(), row.int(2)?.unsigned_abs())))
        };
        let page = database.read::<_, StoreError>(read).await?;
        let Some((last, _, _)) = page.last() else { break };
        after = *last;
        for (_, uuid, size) in page {
            match blobs.read(&storage_key(build, &uuid), Some(0..0)).await {
                Ok(BlobContent::File { size: stored, .. } | BlobContent::Stream { size: stored, .. })
                    if stored == size => {}
                Ok(_) => findings.add("files", Severity::Error, format!("{uuid}: it has another size than its row")),
                Err(BlobError::Missing) => findings.add("files", Severity::Error, format!("{uuid}: it is missing")),
                Err(error) => return Err(failed(error)),
            }
        }
    }
    let (mut listed, mut page, mut unnamed) = (pin!(blobs.list(&build.uid)), Vec::new(), 0);
    while let Some(BlobListing { name, .. }) = listed.try_next().await.map_err(failed)? {
        page.push(name);
        if page.len() >= FILES_IN_PAGE {
            unnamed += count_unnamed(database, std::mem::take(&mut page)).await?;
        }
    }
    unnamed += count_unnamed(database, page).await?;
    if unnamed > 0 {
        findings.add("files", Severity::Warning, format!("{unnamed} stored files are named by no row"));
    }
    Ok(())
}

/// Counts the stored files that no row names and that do not wait for their removal.
async fn count_unnamed(database: &store::Database, names: Vec<String>) -> Result<usize, MoveError> {
    if names.is_empty() {
        return Ok(0);
    }
    let asked = names.clone();
    let read = move |conn: &mut Conn| {
        let mut known = HashSet::new();
        for table in ["files", "removed_files"] {
            let mut sql = Sql::new("SELECT uuid FROM ");
            sql.name(table).push(" WHERE uuid IN (");
            for (at, name) in asked.iter().enumerate() {
                sql.push(if at > 0 { ", " } else { "" }).bind(name.as_str());
            }
            known.extend(conn.query_all(sql.push(")"), |row| Ok(row.text(0)?.to_owned()))?);
        }
        Ok::<_, StoreError>(known)
    };
    let known = database.read(read).await?;
    Ok(names.iter().filter(|name| !known.contains(*name)).count())
}
