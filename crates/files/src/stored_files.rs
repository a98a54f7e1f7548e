//! Files and their references. The row of a file is written before its bytes and removed before them, so that a process may die at
//! any time. A file without a row does not exist for the API. A row without references is removed with its bytes (`removal.rs`).

use crate::file_name::media_type;
use crate::storage_limit;
use kit::app::App;
use kit::build::Build;
use kit::ids::{ComponentRepositoryId, DocumentTemplateId, FieldId, FileId, RecordId, RunId, TaskId, UserId};
use kit::reactions::Removal;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::json::JsonWriter;
use resource::openapi;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::Arc;
use store::{BorrowedArgument, Conn, Sql, StoreError};
use uuid::Uuid;

/// A stored file.
#[derive(Clone, Debug)]
pub struct StoredFile {
    pub id: FileId,
    /// The name under which its bytes are stored. Addresses contain it.
    pub uuid: String,
    /// The name with its extension.
    pub name: String,
    /// The size in bytes.
    pub size: i64,
}

/// The columns that [`StoredFile::read`] reads.
pub const FILE_COLUMNS: &str = "f.id, f.uuid, f.name, f.size";

impl StoredFile {
    /// Reads a row that has [`FILE_COLUMNS`] at this position.
    pub fn read(row: &store::Row<'_>, at: usize) -> Result<StoredFile, StoreError> {
        let (uuid, name) = (row.text(at + 1)?.to_owned(), row.text(at + 2)?.to_owned());
        Ok(StoredFile { id: row.id(at)?, uuid, name, size: row.int(at + 3)? })
    }

    /// Writes the label of the file. The name of the member is its id.
    pub fn write_label(&self, out: &mut JsonWriter, url: &str) {
        self.write_as(out, &self.id.to_string(), url);
    }

    /// Writes the label of the file as a member of this name.
    pub fn write_as(&self, out: &mut JsonWriter, name: &str, url: &str) {
        out.name(name).raw("{").name("name").text(&self.name).name("url").text(url);
        out.name("size").text(&self.size.to_string()).name("type").text(media_type(&self.name)).raw("}");
    }
}

/// Returns the schema of the label of a file.
pub fn label_schema() -> Json {
    let file = openapi::object(["name", "url", "size", "type"].map(|name| (name, json!({"type": "string"}))));
    openapi::titled("FileLabel", file)
}

/// Returns the schema of the labels of files, each under its id.
pub fn labels_schema() -> Json {
    json!({"type": "object", "description": "By the id of the file", "additionalProperties": label_schema()})
}

/// A reference to a file. Its run and a record may both refer to a generated document. Other files have one reference.
#[derive(Clone, Copy, Debug)]
pub enum FileReference {
    /// The value of a field of a record.
    Record { record: RecordId, field: FieldId },
    /// A document template.
    Template(DocumentTemplateId),
    /// A run that generates a document.
    Run(RunId),
    /// The response of a task.
    Task(TaskId),
    /// A repository of custom components.
    ComponentRepository(ComponentRepositoryId),
    /// Public storage.
    Public,
}

/// The size in bytes of a file that will be written.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    Exactly(i64),
    /// The size is unknown. The file counts against the limit of storage when it has arrived.
    AtMost(i64),
}

/// Inserts the row of a file whose bytes must be written until `kept_until` (microseconds since 1970). Without a reference at that time
/// it is removed. Refuses a file that exceeds the limit of storage.
pub fn announce(
    conn: &mut Conn,
    name: &str,
    size: Size,
    user: Option<UserId>,
    [now, kept_until]: [i64; 2],
) -> Result<(FileId, String), Refusal> {
    let (size, counted) = match size {
        Size::Exactly(size) => (size, size),
        Size::AtMost(size) => (size, 0),
    };
    match counted {
        0 => storage_limit::check(conn, 1)?,
        _ => storage_limit::reserve_bytes(conn, counted)?,
    }
    let uuid = Uuid::new_v4().to_string();
    let sql = Sql::new(
        "INSERT INTO files(uuid, name, size, counted, kept_until, created_at, created_by) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
    );
    let sql = sql.arg(&uuid).arg(name).arg(size).arg(counted).arg(kept_until).arg(now).arg(user);
    Ok((conn.query_one(&sql, |row| row.id(0))?, uuid))
}

/// Deletes the rows of files that meet a condition, and subtracts their bytes from the counter. The job that removes files removes
/// the bytes.
pub(crate) fn delete(conn: &mut Conn, condition: &Sql) -> Result<(), StoreError> {
    let mut sql = Sql::new("DELETE FROM files WHERE ");
    sql.append(condition).push(" RETURNING uuid, COALESCE(counted, size)");
    let deleted_files = conn.query_all(&sql, |row| Ok((row.text(0)?.to_owned(), row.int(1)?)))?;
    if deleted_files.is_empty() {
        return Ok(());
    }
    storage_limit::give_back(conn, deleted_files.iter().map(|(_, bytes)| bytes).sum())?;
    let rows = deleted_files.iter().map(|(uuid, _)| [BorrowedArgument::Text(uuid)]);
    conn.exec_each("INSERT INTO removed_files(uuid) VALUES ($1)", rows, |_| {})
}

/// Removes an announced file before its time is over, unless it has a reference by now. The job that removes files removes its
/// bytes, if they exist. If this fails, the same job later removes the row, too.
pub async fn remove_announced_file(app: &App, build: &Arc<Build>, file: FileId) {
    let forget = move |conn: &mut Conn| delete(conn, &Sql::new("kept_until IS NOT NULL AND id = $1").arg(file));
    let _ = build.db.write::<_, StoreError>(forget).await;
    kit::jobs::wake(app, build);
}

/// Adds a reference to a file that waits for one. Returns [`StoreError::NotFound`] if it has waited too long and was removed.
pub fn add_reference(conn: &mut Conn, file: FileId, holder: FileReference) -> Result<(), StoreError> {
    let mut sql = Sql::new("UPDATE files SET token = NULL, kept_until = NULL");
    match holder {
        FileReference::Record { record, field } => sql.push(", record = ").bind(record).push(", field = ").bind(field),
        FileReference::Template(template) => sql.push(", template = ").bind(template),
        FileReference::Run(run) => sql.push(", run = ").bind(run),
        // Processes of the former version do not have tasks. The record protects the file from them.
        FileReference::Task(task) => sql.push(", record = COALESCE(record, 0), task = ").bind(task),
        // The same as for tasks. Records never have the number 0.
        FileReference::ComponentRepository(repository) => {
            sql.push(", record = 0, component_repository = ").bind(repository)
        }
        FileReference::Public => sql.push(", is_public = 1"),
    };
    match conn.exec(sql.push(" WHERE id = ").bind(file))? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// The references that end.
pub enum EndedReferences {
    /// The references of a record to these files.
    OfRecord { record: RecordId, files: Vec<FileId> },
    /// The references of permanently removed records.
    OfRecords(Vec<RecordId>),
    /// The references of templates.
    OfTemplates(Vec<DocumentTemplateId>),
    /// The references of runs.
    OfRuns(Vec<RunId>),
    /// The references of a task to these files.
    OfTask { task: TaskId, files: Vec<FileId> },
    /// The references of tasks.
    OfTasks(Vec<TaskId>),
    /// The reference of a repository of custom components.
    OfComponentRepository(ComponentRepositoryId),
    /// The reference of public storage to this file.
    OfPublic(FileId),
}

/// Ends the reference of a record. A file of a task has 0 as its record.
const NO_RECORD: &str = "record = CASE WHEN task IS NULL THEN NULL ELSE 0 END, field = NULL";
const NO_TASK: &str = "task = NULL, record = CASE WHEN record = 0 THEN NULL ELSE record END";

/// Ends references. Files without further references are removed after the commit.
pub fn release(request: &Request, conn: &mut Conn, ending: EndedReferences) -> Result<(), StoreError> {
    request.effects.after_commit(kit::jobs::wake);
    release_by_job(conn, ending)
}

/// Ends references without a request, in a job. The jobs of the build are checked again after it.
pub fn release_by_job(conn: &mut Conn, ending: EndedReferences) -> Result<(), StoreError> {
    let mut sql = Sql::new("UPDATE files SET ");
    match ending {
        EndedReferences::OfRecord { record, files } => {
            sql.push(NO_RECORD).push(" WHERE record = ").bind(record).push(" AND id").push_any(files)
        }
        EndedReferences::OfRecords(records) => sql.push(NO_RECORD).push(" WHERE record").push_any(records),
        EndedReferences::OfTemplates(templates) => sql.push("template = NULL WHERE template").push_any(templates),
        EndedReferences::OfRuns(runs) => sql.push("run = NULL WHERE run").push_any(runs),
        EndedReferences::OfTask { task, files } => {
            sql.push(NO_TASK).push(" WHERE task = ").bind(task).push(" AND id").push_any(files)
        }
        EndedReferences::OfTasks(tasks) => sql.push(NO_TASK).push(" WHERE task").push_any(tasks),
        EndedReferences::OfComponentRepository(repository) => {
            sql.push("record = NULL, component_repository = NULL WHERE component_repository = ").bind(repository)
        }
        EndedReferences::OfPublic(file) => sql.push("is_public = 0 WHERE id = ").bind(file),
    };
    conn.exec(&sql).map(drop)
}

/// Ends the references of permanently removed records.
pub const RECORDS_REMOVED: Removal = Removal {
    resource: "object_records",
    run: |conn, ids| release_by_job(conn, EndedReferences::OfRecords(ids.iter().copied().map(RecordId::new).collect())),
};

/// Ends the references of at most `most` records to the files of a deleted field. Returns false if none were left.
pub fn release_page_of_field(conn: &mut Conn, field: FieldId, most: i64) -> Result<bool, StoreError> {
    let mut sql = Sql::new("UPDATE files SET ");
    sql.push(NO_RECORD)
        .push(" WHERE id IN (SELECT f.id FROM files f WHERE f.field = ")
        .bind(field)
        .push(" ORDER BY f.id LIMIT ")
        .bind(most)
        .push(")");
    Ok(conn.exec(&sql)? > 0)
}

/// Loads files by their ids.
pub fn load_by_ids(conn: &mut Conn, ids: Vec<FileId>) -> Result<HashMap<FileId, StoredFile>, StoreError> {
    let mut files = HashMap::new();
    if ids.is_empty() {
        return Ok(files);
    }
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(" FROM files f WHERE f.id").push_any(ids);
    conn.for_each_row(&sql, |row| {
        let file = StoredFile::read(row, 0)?;
        files.insert(file.id, file);
        Ok(())
    })?;
    Ok(files)
}
