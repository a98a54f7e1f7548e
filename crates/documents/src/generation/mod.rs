//! Documents of records: `/api/object-records/documents/`, `/api/object-records/{id}/documents/` and
//! `/api/object-records/{id}/document-fields/` (`docs/reference/document-generation.md`).

pub mod runs;
mod values;
pub mod work;

use crate::templates::merge_fields::{hidden_classes, may_view, may_view_classes};
use files::storage_limit;
use files::stored_files::{FILE_COLUMNS, StoredFile, label_schema};
use http::StatusCode;
use kit::answer::{Answer, AnswerSubject, Outcome};
use kit::ids::{ClassId, DocumentTemplateId, FileId, RecordId, UserId};
use kit::jobs;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use kit::snapshot;
use records::classes::ClassField;
use records::field_type::FieldType;
use records::record_values::may_view_all;
use records::rights::EDIT;
use records::single_records::{RecordAccess, class_of, files_of, label, load_from_path, load_record_access};
use resource::json::{JsonWriter, USER_REFERENCE, write_user};
use resource::{
    Errors, Field, FieldKind, Id, JsonValue, Resource, SentObject, message, openapi, options, parse_id, select,
};
use runs::{CANCELED, PROCESSING, RelatedRecords, STATES};
use serde_json::{Value as Json, json};
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};

const OBJECT_RECORD: &str = "object_record";
const DOCUMENT_TEMPLATE: &str = "document_template";
const FIELD: &str = "object_record_field";

const ALL: &str = "/api/object-records/{record_id}/documents/";
const FIELDS: &str = "/api/object-records/{record_id}/document-fields/";
const ONE: &str = "/api/object-records/{record_id}/documents/{template_id}/";

/// A template with the latest run for a record.
static DOCUMENT: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "document_templates",
        "RecordDocument",
        "document_templates",
        [
            Field::id().also_in(),
            Field::new("name", FieldKind::text(100)).folded().read_only().filter().sort(),
            Field::new("allow_on_demand_generation", FieldKind::Boolean).read_only().filter().sort(),
            Field::new("generated_document", FieldKind::Json { max_bytes: 0, max_depth: 0 })
                .read_only()
                .nullable()
                .schema(run_schema)
                .stored_by_resource(),
        ],
    )
});

/// A field that can contain generated documents.
static DOCUMENT_FIELD: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("alias", FieldKind::text(50)).read_only(),
        Field::new("label", FieldKind::text(100)).read_only(),
        Field::new("max_num_of_files", FieldKind::Integer { min: 1, max: 25 }).read_only(),
        Field::new("is_available", FieldKind::Boolean).read_only(),
    ];
    Resource::new("document_fields", "DocumentField", "object_class_fields", fields).unselectable()
});

pub fn routes() -> Vec<Route> {
    let viewer = "object_records.view";
    let of_classes = "object_records.view, and view of each class that the template names";
    vec![
        Route::post("/api/object-records/documents/", "Generate a document", Handler::Write(generate))
            .with_body(Schema::Json(body_schema))
            .answers(201, Schema::Json(started_schema))
            .also_answers(429, Schema::Refusal)
            .action("create")
            .instance(viewer),
        Route::list(ALL, &DOCUMENT, list).instance("object_records.list"),
        Route::options_below(ALL, document).with_read(document).instance("object_records.list"),
        Route::view(ONE, &DOCUMENT, view).with_read(view).instance(viewer),
        Route::post(
            "/api/object-records/{record_id}/documents/{template_id}/cancel/",
            "Cancel a run",
            Handler::Write(cancel),
        )
        .answers(201, Schema::Json(started_schema))
        .named_by_path()
        .instance(of_classes),
        Route::download("/api/object-records/{record_id}/documents/{template_id}/download/{uuid}/", download)
            .named_by_path()
            .instance(of_classes),
        Route::list(FIELDS, &DOCUMENT_FIELD, fields).instance(viewer),
        Route::options_below(FIELDS, document_of_fields).with_read(document_of_fields).instance(viewer),
    ]
}

fn body_schema() -> Json {
    openapi::titled(
        "DocumentToGenerate",
        json!({
            "type": "object",
            "required": [OBJECT_RECORD, DOCUMENT_TEMPLATE],
            "properties": {
                OBJECT_RECORD: {"type": "integer"},
                DOCUMENT_TEMPLATE: {"type": "integer"},
                FIELD: {
                    "type": ["string", "null"],
                    "description": "The alias of a document field into which the file is put",
                },
            },
        }),
    )
}

fn started_schema() -> Json {
    let text = || json!({"type": "string"});
    let labels = openapi::object([(OBJECT_RECORD, text()), (DOCUMENT_TEMPLATE, text())]);
    openapi::titled(
        "DocumentRun",
        openapi::object([
            (OBJECT_RECORD, json!({"type": "integer"})),
            (DOCUMENT_TEMPLATE, json!({"type": "integer"})),
            (FIELD, json!({"type": ["string", "null"]})),
            ("status", json!({"type": "string", "enum": ["processing", "cancelled"]})),
            ("_meta", openapi::object([("labels", labels)])),
        ]),
    )
}

fn run_schema() -> Json {
    let labels = json!({"type": "object", "properties": {"document": label_schema()}});
    let run = openapi::object([
        ("id", json!({"type": "integer"})),
        ("status", json!({"type": "string", "enum": STATES})),
        ("error_message", json!({"type": "string"})),
        ("document", json!({"type": ["integer", "null"], "description": "The id of the file"})),
        ("generated_at", json!({"type": ["string", "null"], "format": "date-time"})),
        ("generated_by", json!({"anyOf": [openapi::user_reference(), {"type": "null"}]})),
        ("_meta", openapi::object([("labels", labels)])),
    ]);
    json!({"anyOf": [openapi::titled("GeneratedDocument", run), {"type": "null"}]})
}

// ---- Begin and cancel ----------------------------------------------------------------------------------------------

/// A valid body of a request for a document.
struct RunRequest {
    held: RecordAccess,
    template: DocumentTemplateId,
    template_name: String,
    field: Option<ClassField>,
}

fn generate(request: &Request, conn: &mut Conn) -> Outcome {
    let run_request = check_run_request(request, conn)?;
    // The size of the document is not available before its generation.
    storage_limit::check(conn, 1)?;
    let (requester, field) = (request.caller()?.user, run_request.field.as_ref());
    runs::count(request, conn, run_request.held.id, requester)?;
    let run =
        runs::begin(request, conn, run_request.held.id, run_request.template, field.map(|field| field.id), requester);
    if let Err(StoreError::Unique(_)) = run {
        return Err(already_processing());
    }
    run?;
    started(conn, &run_request, "processing")
}

fn already_processing() -> Refusal {
    Refusal::bad_request("Your request is already processing.")
}

fn started(conn: &mut Conn, run_request: &RunRequest, status: &str) -> Outcome {
    let label = label(conn, &run_request.held.class, run_request.held.id)?;
    let body = json!({
        OBJECT_RECORD: run_request.held.id,
        DOCUMENT_TEMPLATE: run_request.template,
        FIELD: run_request.field.as_ref().map(|field| &field.alias),
        "status": status,
        "_meta": {"labels": {OBJECT_RECORD: label, DOCUMENT_TEMPLATE: run_request.template_name}},
    });
    let subject = AnswerSubject::Record { id: run_request.held.id, class: Some(run_request.held.class.id) };
    Ok(Answer { subject: Some(subject), ..Answer::json(StatusCode::CREATED, body.to_string()) })
}

/// Returns the id in a required member of a body.
fn id_of<I: Id>(body: &SentObject<'_>, name: &str, errors: &mut Errors) -> Option<I> {
    match body.get(name) {
        None => errors.add(name, message::REQUIRED),
        Some(id_value) if id_value.is_null() => errors.add(name, message::NULL),
        Some(id_value) => match parse_id(id_value) {
            Ok(id) => return Some(id),
            Err(wrong) => errors.add(name, wrong),
        },
    }
    None
}

/// Checks a body. All errors are reported together.
fn check_run_request(request: &Request, conn: &mut Conn) -> Result<RunRequest, Refusal> {
    let (body, mut errors) = (request.object()?, Errors::new());
    let record = id_of(&body, OBJECT_RECORD, &mut errors);
    let template = id_of(&body, DOCUMENT_TEMPLATE, &mut errors);
    let record_access = match record {
        Some(id) => record_of(request, conn, id, &mut errors)?,
        None => None,
    };
    let template = match template {
        Some(id) => template_of(request, conn, id, &mut errors)?,
        None => None,
    };
    let field = match &record_access {
        Some(access) => field_of(access, body.get(FIELD), &mut errors),
        None => None,
    };
    if let (Some(access), Some(template)) = (&record_access, &template)
        && access.class.id != template.class
    {
        errors.add("non_field_errors", "Record and document template must belong to the same object class.");
    }
    errors.refuse()?;
    let (Some(access), Some(template)) = (record_access, template) else { return Err(Refusal::not_found()) };
    Ok(RunRequest { held: access, template: template.id, template_name: template.name, field })
}

fn record_of(
    request: &Request,
    conn: &mut Conn,
    id: RecordId,
    errors: &mut Errors,
) -> Result<Option<RecordAccess>, Refusal> {
    if let Some(access) = load_record_access(request, conn, id)? {
        return Ok(Some(access));
    }
    match class_of(conn, id)? {
        Some(_) => errors.add(OBJECT_RECORD, format!("Invalid pk {id} - You do not have permission for this Record.")),
        None => errors.add(OBJECT_RECORD, message::invalid_id_message(id)),
    }
    Ok(None)
}

/// The columns of a template that requests for documents need.
struct RunTemplate {
    id: DocumentTemplateId,
    class: ClassId,
    name: String,
    is_on_demand: bool,
}

fn find_template(conn: &mut Conn, id: DocumentTemplateId) -> Result<Option<RunTemplate>, StoreError> {
    let sql = Sql::new("SELECT id, class_id, name, allow_on_demand_generation FROM document_templates WHERE id = $1");
    conn.query_optional(&sql.arg(id), |row| {
        Ok(RunTemplate { id: row.id(0)?, class: row.id(1)?, name: row.text(2)?.to_owned(), is_on_demand: row.flag(3)? })
    })
}

fn template_of(
    request: &Request,
    conn: &mut Conn,
    id: DocumentTemplateId,
    errors: &mut Errors,
) -> Result<Option<RunTemplate>, Refusal> {
    let Some(template) = find_template(conn, id)? else {
        errors.add(DOCUMENT_TEMPLATE, message::invalid_id_message(id));
        return Ok(None);
    };
    let may = template.is_on_demand && may_view(request, conn, template.class)? && may_view_classes(request, conn, id)?;
    if !may {
        errors.add(DOCUMENT_TEMPLATE, format!("Invalid pk {id} - You do not have permission for this Document."));
        return Ok(None);
    }
    Ok(Some(template))
}

/// Returns the field for the file, if the body names one.
fn field_of(record: &RecordAccess, value: Option<JsonValue<'_>>, errors: &mut Errors) -> Option<ClassField> {
    let value = value.filter(|value| !value.is_null())?;
    let Some(alias) = value.as_str() else {
        errors.add(FIELD, message::STRING);
        return None;
    };
    match record.class.field(&alias) {
        None => errors.add(FIELD, format!("Invalid name {alias} - field does not exist.")),
        Some(field) if field.kind != FieldType::Document => {
            errors.add(FIELD, format!("Invalid type - field {alias} is not Document type."));
        }
        Some(_) if !record.allows(EDIT) => {
            errors.add(FIELD, format!("Invalid name {alias} - You do not have permission for this field."));
        }
        Some(field) => return Some(field.clone()),
    }
    None
}

fn cancel(request: &Request, conn: &mut Conn) -> Outcome {
    let record = load_from_path(request, conn)?;
    let template = template_of_path(conn, request, &record)?;
    needs_classes(request, conn, template.id)?;
    request.object()?;
    let sql = Sql::new(
        "SELECT id, status, field, job FROM document_runs WHERE record = $1 AND template = $2 ORDER BY id DESC LIMIT 1 FOR UPDATE",
    );
    let run = conn.query_optional(&sql.arg(record.id).arg(template.id), |row| {
        Ok((row.id(0)?, row.text(1)?.to_owned(), row.opt_id(2)?, row.opt_id(3)?))
    })?;
    let (run, status, field, job) = run.ok_or_else(Refusal::not_found)?;
    if status != PROCESSING || !runs::end(conn, run, CANCELED, "", request.now)? {
        return Err(Refusal::bad_request("Document has already been processed."));
    }
    if let Some(job) = job {
        jobs::cancel(request, conn, job)?;
    }
    let field = record.class.fields.iter().find(|candidate| Some(candidate.id) == field).cloned();
    let run_request = RunRequest { template: template.id, template_name: template.name, field, held: record };
    started(conn, &run_request, "cancelled")
}

/// Returns the template of the path. Refuses with 404 if it does not belong to the record's class.
fn template_of_path(conn: &mut Conn, request: &Request, record: &RecordAccess) -> Result<RunTemplate, Refusal> {
    let template = find_template(conn, request.second_id())?;
    template.filter(|template| template.class == record.class.id).ok_or_else(Refusal::not_found)
}

/// Refuses with 403 unless the caller may view each class that a template names.
fn needs_classes(request: &Request, conn: &mut Conn, template: DocumentTemplateId) -> Result<(), Refusal> {
    if may_view_classes(request, conn, template)? { Ok(()) } else { Err(Refusal::forbidden()) }
}

// ---- Read ----------------------------------------------------------------------------------------------------------

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&DOCUMENT)))
}

fn document_of_fields(request: &Request, conn: &mut Conn) -> Outcome {
    load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&DOCUMENT_FIELD)))
}

/// Selects the templates of a record's class with the record's latest run of each.
fn shape(request: &Request, record: RecordId) -> RowShape {
    let mut extra = Sql::new("");
    let latest = |sql: &mut Sql, column: &'static str| {
        sql.push(column).push(" FROM document_runs r WHERE r.record = ").bind(record);
        sql.push(" AND r.template = t.id ORDER BY r.id DESC LIMIT 1)");
    };
    latest(&mut extra, "(SELECT r.id");
    latest(&mut extra, ", (SELECT r.status");
    latest(&mut extra, ", (SELECT r.error_message");
    latest(&mut extra, ", (SELECT r.file");
    latest(&mut extra, ", (SELECT r.ended_at");
    extra.push(", (SELECT CAST(json_build_array(");
    for (n, shown) in USER_REFERENCE.iter().enumerate() {
        extra.push(if n > 0 { ", u." } else { "u." }).name(shown);
    }
    latest(extra.push(") AS TEXT) FROM users u WHERE u.id = "), "(SELECT r.requester");
    extra.push(")");
    for column in ["uuid", "name", "size"] {
        latest(extra.push(", (SELECT f.").name(column).push(" FROM files f WHERE f.id = "), "(SELECT r.file");
        extra.push(")");
    }
    extra.push(", t.id");
    let address = request.app.address_of(&request.build);
    RowShape::with_declaration(Declaration::Static(&DOCUMENT), extra, move |out, _, row, at, _| {
        write_run(out.name("generated_document"), row, at, record, &address)
    })
}

fn write_run(
    out: &mut JsonWriter,
    row: &RowCells<'_>,
    at: usize,
    record: RecordId,
    address: &str,
) -> Result<(), StoreError> {
    use resource::json::Cells;
    let Some(id) = row.int(at)? else {
        out.raw("null");
        return Ok(());
    };
    let file = match row.int(at + 3)? {
        Some(id) => Some(StoredFile {
            id: FileId::new(id),
            uuid: row.text(at + 6)?.unwrap_or("").to_owned(),
            name: row.text(at + 7)?.unwrap_or("").to_owned(),
            size: row.int(at + 8)?.unwrap_or(0),
        }),
        None => None,
    };
    out.raw("{").name("id").int(id).name("status").opt_text(row.text(at + 1)?);
    out.name("error_message").opt_text(row.text(at + 2)?).name("document");
    match &file {
        Some(file) => out.int(file.id.get()),
        None => out.raw("null"),
    };
    out.name("generated_at").datetime(row.int(at + 4)?);
    write_user(out.name("generated_by"), row.user(at + 5)?);
    out.name("_meta").raw("{").name("labels").raw("{");
    if let Some(file) = file {
        let template = row.int(at + 9)?.unwrap_or(0);
        let url = format!("{address}/api/object-records/{record}/documents/{template}/download/{}/", file.uuid);
        file.write_as(out, "document", &url);
    }
    out.raw("}}}");
    Ok(())
}

/// Lists the templates whose merge fields name only classes that the caller may view.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let record = load_from_path(request, conn)?;
    let named = Sql::new(
        "SELECT c.class_id FROM document_template_classes c JOIN document_templates d ON d.id = c.template \
         WHERE d.class_id = $1",
    );
    let hidden = hidden_classes(request, conn, &named.arg(record.class.id))?;
    let mut scope = Sql::new("t.class_id = ");
    scope.bind(record.class.id);
    if !hidden.is_empty() {
        scope.push(" AND t.id NOT IN (SELECT c.template FROM document_template_classes c WHERE c.class_id");
        scope.push_any(hidden).push(")");
    }
    rows::list(request, conn, &shape(request, record.id), Scope::matching(scope))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let record = load_from_path(request, conn)?;
    let template = template_of_path(conn, request, &record)?;
    let instance = rows::view_id(request, conn, &shape(request, record.id), template.id.get())?;
    Ok(Answer::instance(StatusCode::OK, instance))
}

/// Sends the file of a run to its requester, and to callers who may view everything in it.
fn download(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let file = snapshot::read(&request, |request: &Request, conn: &mut Conn| downloadable(request, conn)).await?;
        files::send(&request, &file).await
    })
}

fn downloadable(request: &Request, conn: &mut Conn) -> Result<StoredFile, Refusal> {
    let record = load_from_path(request, conn)?;
    let template = template_of_path(conn, request, &record)?;
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS)
        .push(", r.requester, r.shown, r.api_key FROM document_runs r JOIN files f ON f.id = r.file WHERE r.record = ");
    sql.bind(record.id).push(" AND r.template = ").bind(template.id);
    sql.push(" AND f.uuid = ").bind(request.uuid().to_string());
    let row = conn.query_optional(&sql, |row| {
        Ok((StoredFile::read(row, 0)?, row.id::<UserId>(4)?, row.json::<RelatedRecords>(5)?, row.opt_id(6)?))
    })?;
    let (file, requester, shown, key) = row.ok_or_else(Refusal::not_found)?;
    let caller = request.caller()?;
    // A narrowed key may view less than its account, which may have requested the document in a session or by another key.
    let is_requester = match caller.key.filter(|own| own.is_narrowed) {
        Some(own) => key == Some(own.id),
        None => true,
    };
    if caller.user == requester && is_requester {
        return Ok(file);
    }
    needs_classes(request, conn, template.id)?;
    for (class, ids) in shown {
        if !may_view_all(request, conn, class, &ids)? {
            return Err(Refusal::forbidden());
        }
    }
    Ok(file)
}

/// Lists the fields of a record that can contain a document.
fn fields(request: &Request, conn: &mut Conn) -> Outcome {
    let record = load_from_path(request, conn)?;
    let page = select(&DOCUMENT_FIELD, &request.query)?;
    let fields: Vec<ClassField> =
        record.class.fields.iter().filter(|field| field.kind == FieldType::Document).cloned().collect();
    let files = files_of(conn, &record.class, record.id)?;
    let mut out = JsonWriter::with_capacity(512);
    out.raw("[");
    for field in fields.iter().skip(page.offset as usize).take(page.limit as usize) {
        let most = field.max_num_of_files.unwrap_or(1);
        let count = files.get(&field.alias).map_or(0, Vec::len) as i64;
        out.comma().raw("{").name("alias").text(&field.alias).name("label").text(&field.label);
        out.name("max_num_of_files").int(most).name("is_available").bool(record.allows(EDIT) && count < most).raw("}");
    }
    out.raw("]");
    let total = fields.len() as i64;
    let body = rows::envelope(request, page.limit, page.offset, total, total, out.into_bytes());
    Ok(Answer::json(StatusCode::OK, body))
}
