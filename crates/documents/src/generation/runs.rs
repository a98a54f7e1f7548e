//! Runs: the rows with the state and the outcome of each generation of a document (`docs/reference/document-generation.md`). At
//! most one run of a record and a template is processing. A finished run replaces the runs before it.

use super::work::GENERATE;
use events::file_copies::FileCopy;
use files::stored_files::{EndedReferences, FILE_COLUMNS, StoredFile, release_by_job};
use kit::ids::{ApiKeyId, ClassId, DocumentTemplateId, FieldId, FileId, RecordId, RunId, UserId};
use kit::jobs::{self, JobKind, NewJob};
use kit::rate_limit::RateLimit;
use kit::reactions::Removal;
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use store::{Conn, Sql, StoreError};

/// The number of runs that one transaction removes.
const PAGE: i64 = 500;
const HOUR_US: i64 = 3_600_000_000;
/// The maximum number of runs that an account begins for one record within an hour.
static RUNS: RateLimit = RateLimit { name: "document-runs", most: 60, seconds: 3600 };

pub const PROCESSING: &str = "processing";
pub const CANCELED: &str = "canceled";
pub const COMPLETED: &str = "completed";
pub const FIELD_UPDATED: &str = "field_updated";
pub const FIELD_NOT_UPDATED: &str = "field_not_updated";
pub const FAILED: &str = "failed";
/// All states of a run.
pub const STATES: [&str; 6] = [PROCESSING, CANCELED, COMPLETED, FIELD_UPDATED, FIELD_NOT_UPDATED, FAILED];

/// The records in a document beside its own record, by class.
pub type RelatedRecords = BTreeMap<ClassId, Vec<RecordId>>;

/// Serializes related records for the database. Serde reads them.
pub fn related_to_json(related: &RelatedRecords) -> String {
    let members: Map<String, Json> = related.iter().map(|(class, ids)| (class.to_string(), json!(ids))).collect();
    Json::Object(members).to_string()
}

/// A run that is processing.
#[derive(Clone)]
pub struct Run {
    pub id: RunId,
    pub record: RecordId,
    pub template: DocumentTemplateId,
    pub field: Option<FieldId>,
    pub requester: UserId,
    /// The requester's API key, by whose rights the run reads; `None`: a session.
    pub api_key: Option<ApiKeyId>,
}

/// Loads a run that is processing. `None` if it was canceled or has ended.
pub fn processing(conn: &mut Conn, id: RunId, lock: &'static str) -> Result<Option<Run>, StoreError> {
    let sql = Sql::new(
        "SELECT id, record, template, field, requester, api_key FROM document_runs WHERE status = 'processing' AND id = ",
    );
    let mut sql = sql;
    sql.bind(id).push(lock);
    conn.query_optional(&sql, |row| {
        let (record, template) = (row.id(1)?, row.id(2)?);
        Ok(Run {
            id: row.id(0)?,
            record,
            template,
            field: row.opt_id(3)?,
            requester: row.id(4)?,
            api_key: row.opt_id(5)?,
        })
    })
}

/// Counts a run that an account begins for a record, or refuses it with 429. Removed runs count too.
pub fn count(request: &Request, conn: &mut Conn, record: RecordId, requester: UserId) -> Result<(), Refusal> {
    // The lock serializes the requests of one account.
    let lock = Sql::new("SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE").arg(requester);
    conn.query_optional(&lock, |_| Ok(()))?;
    let forget = Sql::new("DELETE FROM document_requests WHERE requester = $1 AND at <= $2");
    conn.exec(&forget.arg(requester).arg(request.now - HOUR_US))?;
    let recent =
        Sql::new("SELECT count(*), COALESCE(min(at), 0) FROM document_requests WHERE requester = $1 AND record = $2");
    let (runs, first) = conn.query_one(&recent.arg(requester).arg(record), |row| Ok((row.int(0)?, row.int(1)?)))?;
    request.count_call(&RUNS, runs, first)?;
    let sql = Sql::new("INSERT INTO document_requests(requester, record, at) VALUES ($1, $2, $3)");
    Ok(conn.exec(&sql.arg(requester).arg(record).arg(request.now)).map(drop)?)
}

/// Begins a run, in the transaction of the request. [`StoreError::Unique`]: another run is processing.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    record: RecordId,
    template: DocumentTemplateId,
    field: Option<FieldId>,
    requester: UserId,
) -> Result<RunId, StoreError> {
    // Former runs without a file have no use any more.
    let former = Sql::new(
        "DELETE FROM document_runs WHERE record = $1 AND template = $2 AND file IS NULL AND status <> 'processing'",
    );
    conn.exec(&former.arg(record).arg(template))?;
    let sql = Sql::new(
        "INSERT INTO document_runs(record, template, field, requester, status, error_message, shown, created_at, api_key) \
         VALUES ($1, $2, $3, $4, 'processing', '', '{}', $5, $6) RETURNING id",
    );
    let api_key = request.caller.as_ref().and_then(|caller| caller.key).map(|key| key.id);
    let sql = sql.arg(record).arg(template).arg(field).arg(requester).arg(request.now).arg(api_key);
    let id = conn.query_one(&sql, |row| row.id(0))?;
    let job = NewJob { kind: &GENERATE, payload: json!({"run": id}), key: None, not_before: request.now };
    let job = jobs::enqueue(request, conn, &job)?;
    conn.exec(&Sql::new("UPDATE document_runs SET job = $1 WHERE id = $2").arg(job).arg(id))?;
    Ok(id)
}

/// Ends a processing run without a file.
pub fn end(
    conn: &mut Conn,
    id: RunId,
    status: &'static str,
    error_message: &str,
    now: i64,
) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "UPDATE document_runs SET status = $1, error_message = $2, ended_at = $3 WHERE id = $4 AND status = 'processing'",
    );
    Ok(conn.exec(&sql.arg(status).arg(error_message).arg(now).arg(id))? == 1)
}

/// The document with which the last run of a record and a template ended.
pub struct FormerDocument {
    pub file: StoredFile,
    /// True if it is in a field of the record.
    pub is_in_field: bool,
    /// Its copy in the history service.
    pub copy: Option<FileCopy>,
}

/// Returns the document of the last run of the same record and template, if it has this content.
pub fn equal_document(conn: &mut Conn, run: &Run, hash: &str, size: i64) -> Result<Option<FormerDocument>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(", f.field, r.copy_tenant, r.copy_file, r.content_hash FROM document_runs r ");
    sql.push("JOIN files f ON f.id = r.file WHERE r.record = ").bind(run.record);
    sql.push(" AND r.template = ").bind(run.template).push(" AND r.id < ").bind(run.id);
    let former = conn.query_optional(sql.push(" ORDER BY r.id DESC LIMIT 1"), |row| {
        let text = |at: usize| Ok::<_, StoreError>(row.opt_text(at)?.map(str::to_owned));
        let copy = match (text(5)?, text(6)?) {
            (Some(client_id), Some(file_id)) => Some(FileCopy { client_id, file_id }),
            _ => None,
        };
        Ok((FormerDocument { file: StoredFile::read(row, 0)?, is_in_field: row.opt_int(4)?.is_some(), copy }, text(7)?))
    })?;
    let equal = former.filter(|(former, stored_hash)| stored_hash.as_deref() == Some(hash) && former.file.size == size);
    Ok(equal.map(|(former, _)| former))
}

/// The file with which a run ends.
pub struct RunFile<'a> {
    pub status: &'static str,
    pub error_message: &'static str,
    pub file: FileId,
    pub content_hash: &'a str,
    pub copy: Option<&'a FileCopy>,
    pub related: &'a RelatedRecords,
}

/// Ends a run with a file and removes the finished runs before it.
pub fn end_with_file(request: &Request, conn: &mut Conn, run: &Run, outcome: &RunFile<'_>) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE document_runs SET status = $1, error_message = $2, ended_at = $3, file = $4, shown = $5, \
         content_hash = $6, copy_tenant = $7, copy_file = $8 WHERE id = $9",
    );
    let sql = sql.arg(outcome.status).arg(outcome.error_message).arg(request.now).arg(outcome.file);
    let sql = sql.arg(related_to_json(outcome.related)).arg(outcome.content_hash);
    let sql = sql.arg(outcome.copy.map(|copy| copy.client_id.clone()));
    conn.exec(&sql.arg(outcome.copy.map(|copy| copy.file_id.clone())).arg(run.id))?;
    let former = Sql::new("SELECT id FROM document_runs WHERE record = $1 AND template = $2 AND id < $3");
    let former = conn.query_all(&former.arg(run.record).arg(run.template).arg(run.id), |row| row.id(0))?;
    remove(conn, former)
}

/// Removes runs and releases their files.
fn remove(conn: &mut Conn, runs: Vec<RunId>) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    release_by_job(conn, EndedReferences::OfRuns(runs.clone()))?;
    conn.exec(Sql::new("DELETE FROM document_runs WHERE id").push_any(runs)).map(drop)
}

/// Removes the runs of records that are deleted permanently.
pub const RECORDS_REMOVED: Removal = Removal {
    resource: "object_records",
    run: |conn, records| {
        let mut sql = Sql::new("SELECT id FROM document_runs WHERE record");
        let runs = conn.query_all(sql.push_any(records.iter().copied()), |row| row.id(0))?;
        remove(conn, runs)
    },
};

/// Removes the runs of a deleted template. The job works in pages, because there can be a million runs.
pub static LEFT_RUNS: JobKind = JobKind {
    name: "document_runs",
    run: |_, _, job| {
        let template = DocumentTemplateId::new(job.payload["template"].as_i64().unwrap_or(0));
        let page = move |conn: &mut Conn, _: i64| {
            let sql = Sql::new("SELECT id FROM document_runs WHERE template = $1 ORDER BY id LIMIT $2");
            let runs = conn.query_all(&sql.arg(template).arg(PAGE), |row| row.id(0))?;
            let last = runs.last().copied().map(RunId::get);
            remove(conn, runs)?;
            Ok(last)
        };
        Box::pin(async move { job.run_in_pages(PAGE, page).await })
    },
    ..JobKind::LONG
};

/// Enqueues the removal of a deleted template's runs.
pub fn leave_template(request: &Request, conn: &mut Conn, template: DocumentTemplateId) -> Result<(), StoreError> {
    let key = template.to_string();
    let payload = json!({"template": template});
    let job = NewJob { kind: &LEFT_RUNS, payload, key: Some(&key), not_before: request.now };
    jobs::enqueue(request, conn, &job).map(drop)
}
