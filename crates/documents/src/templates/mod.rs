//! Document templates of classes: `/api/object-classes/{id}/document-templates/`
//! (`docs/reference/document-templates.md`).

pub mod check;
pub mod merge_fields;
mod report;
pub mod warnings;

use crate::generation::runs;
use check::CheckedFile;
use files::file_name::{extension, split};
use files::stored_files::{
    EndedReferences, FILE_COLUMNS, FileReference, StoredFile, add_reference, labels_schema, release,
};
use files::uploads::{invalid_token, load_by_token, load_by_tokens};
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::commit::{write, write_answer};
use kit::ids::{ClassId, DocumentTemplateId, FileId};
use kit::limits::{self, Limit, LimitSummary};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{HandlerFuture, Route};
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use kit::snapshot;
use merge_fields::{InvalidTag, LeavingParts, Meanings, MergeField, may_view};
use records::record_values::class_of_id;
use records::rights::{CLASS_EDIT, load_class_actions, lock_class};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{
    Changes, Checked, CheckedValue, Errors, Field, FieldKey, FieldKind, Resource, UNDIRECTED, fold, message, openapi,
};
use std::sync::{Arc, LazyLock};
use store::{Argument, Conn, Sql, StoreError};

/// The maximum number of templates of a class.
pub static TEMPLATES: Limit = Limit {
    name: "object_class_document_templates",
    default: 1000,
    many: "Document Templates",
    summary: LimitSummary::Additional("object_class_document_templates"),
    ..Limit::EMPTY
};

const UNREADABLE: &str = "Error while parsing document. Please check the syntax.";
const DOCX: &str = "docx";
const TABLE: &str = "document_templates";
const COLLECTION: &str = "/api/object-classes/{class_id}/document-templates/";
const ONE: &str = "/api/object-classes/{class_id}/document-templates/{template_id}/";
const DOWNLOAD: &str = "/api/object-classes/{class_id}/document-templates/{template_id}/download/";

static NAME: FieldKey<String> = FieldKey::new("name");
static TEMPLATE_FILE: FieldKey<FileId> = FieldKey::new("template_file");
static ON_DEMAND: FieldKey<bool> = FieldKey::new("allow_on_demand_generation");

static TEMPLATE: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        TABLE,
        "DocumentTemplate",
        TABLE,
        [
            Field::new("id", FieldKind::Integer { min: 1, max: i64::MAX }).read_only().sort(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("Invoice")
                .required()
                .unique("document_templates_name")
                .folded()
                .filter()
                .sort(),
            Field::new("description", FieldKind::text(500)).default(""),
            TEMPLATE_FILE.declare(FieldKind::File { extension: DOCX }).column("file").required(),
            Field::new("template_file_name", FieldKind::text(255)).folded().read_only().list_only().filter(),
            ON_DEMAND.boolean().default(true).filter().sort(),
            Field::new("warning", FieldKind::text(1000)).folded().read_only().filter(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit_items(TEMPLATES.default)
    .with_extra_schemas(|_| {
        vec![("_meta", openapi::object([("labels", openapi::object([("files", labels_schema())]))]))]
    })
});

static SHAPE: RowShape = RowShape::new(
    Declaration::Static(&TEMPLATE),
    "t.class_id, t.id, t.file, (SELECT f.name FROM files f WHERE f.id = t.file), \
     (SELECT f.size FROM files f WHERE f.id = t.file)",
    write_meta,
);

pub fn routes() -> Vec<Route> {
    let right = "object_classes.edit";
    vec![
        Route::list(COLLECTION, &TEMPLATE, list).instance(right),
        Route::create_async(COLLECTION, &TEMPLATE, create).instance(right),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &TEMPLATE, view).instance(right),
        Route::edit_async(ONE, &TEMPLATE, edit).instance(right),
        Route::delete(ONE, delete).instance(right),
        Route::download(DOWNLOAD, download).named_by_path().instance(right),
        report::route().instance(right),
    ]
}

/// Refuses with 404 if the caller may not view the class of the path, and with 403 if they may not change it.
fn require_read(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    load_class_actions(conn, request.caller()?, request.id())?.ok_or_else(Refusal::not_found)?.require(CLASS_EDIT)
}

/// Refuses with 403 if the caller may not change the class of the path, or may not view it.
fn require_write(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    let rights = load_class_actions(conn, request.caller()?, request.id())?;
    match rights.is_some_and(|rights| rights.sees_class() && rights.allows(CLASS_EDIT)) {
        true => Ok(()),
        false => Err(Refusal::forbidden()),
    }
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    load_class_actions(conn, request.caller()?, request.id())?.ok_or_else(Refusal::not_found)?.needs_to_see()?;
    let mut document = rows::document(conn, &TEMPLATE)?;
    document["restrictions"]["limit_items"] = limits::value(conn, &TEMPLATES)?.into();
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    require_read(request, conn)?;
    rows::list(request, conn, &SHAPE, Scope::matching(Sql::new("t.class_id = $1").arg(request.id::<ClassId>())))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    require_read(request, conn)?;
    check_class(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.second_id())?))
}

/// Refuses with 404 unless the template of the path belongs to the class of the path.
fn check_class(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT 1 FROM document_templates WHERE id = $1 AND class_id = $2");
    let row = conn
        .query_optional(&sql.arg(request.second_id::<DocumentTemplateId>()).arg(request.id::<ClassId>()), |_| Ok(()))?;
    row.ok_or_else(Refusal::not_found)
}

fn create(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let checked_file = read_sent(&request).await?;
        write_answer(&request, move |request, conn| insert(request, conn, checked_file.as_ref())).await
    })
}

fn edit(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let checked_file = read_sent(&request).await?;
        write(&request, move |request, conn| update(request, conn, checked_file.as_ref())).await
    })
}

/// Reads the file whose token is in the body, if the caller may change the class. The write reports errors, after it has checked
/// the caller's rights again.
async fn read_sent(request: &Arc<Request>) -> Result<Option<CheckedFile>, Refusal> {
    let find = |request: &Request, conn: &mut Conn| match require_write(request, conn).and_then(|()| request.object()) {
        Ok(body) => match body.get(TEMPLATE_FILE.name()).and_then(|value| value.as_str()) {
            Some(token) => load_by_token(request, conn, &token),
            None => Ok(None),
        },
        Err(refusal) if refusal.cause.is_some() || refusal.is_outdated() => Err(refusal),
        Err(_) => Ok(None),
    };
    match snapshot::read(request, find).await?.filter(|file| is_docx(&file.name)) {
        Some(file) => check::read(request, &file).await.map(Some),
        None => Ok(None),
    }
}

fn is_docx(name: &str) -> bool {
    extension(name).eq_ignore_ascii_case(DOCX)
}

fn insert(request: &Request, conn: &mut Conn, checked_file: Option<&CheckedFile>) -> Outcome {
    require_write(request, conn)?;
    lock_class(conn, request.id())?;
    let CheckedTemplate { mut changes, file, extra, classes } = accept(request, conn, None, checked_file)?;
    let count = Sql::new("SELECT count(*) FROM document_templates WHERE class_id = $1").arg(request.id::<ClassId>());
    let count = conn.query_one(&count, |row| row.int(0))?;
    limits::check(conn, &TEMPLATES, count, 1)?;
    if let Some(file) = &file {
        changes.set(&TEMPLATE_FILE, file.id);
    }
    let mut columns: Vec<(&'static str, Argument)> =
        vec![("class_id", request.id::<ClassId>().into()), ("warning", "".into()), ("warning_fold", "".into())];
    columns.extend(extra);
    let id = DocumentTemplateId::new(rows::insert(request, conn, &TEMPLATE, &changes, &columns)?);
    if let Some(file) = file {
        add_reference(conn, file.id, FileReference::Template(id))?;
    }
    warnings::set_classes(conn, id, classes)?;
    rows::created_answer(request, conn, &SHAPE, id.get())
}

fn update(request: &Request, conn: &mut Conn, checked_file: Option<&CheckedFile>) -> Outcome {
    require_write(request, conn)?;
    lock_class(conn, request.id())?;
    check_class(request, conn)?;
    let id: DocumentTemplateId = request.second_id();
    let before = rows::load_for_change(request, conn, &SHAPE, id.get())?;
    let CheckedTemplate { mut changes, file, mut extra, classes } =
        accept(request, conn, Some((id, &before)), checked_file)?;
    if let Some(file) = &file {
        changes.set(&TEMPLATE_FILE, file.id);
        release(request, conn, EndedReferences::OfTemplates(vec![id]))?;
        add_reference(conn, file.id, FileReference::Template(id))?;
        // The merge fields of the new file exist.
        extra.extend([("warning", "".into()), ("warning_fold", "".into())]);
        warnings::set_classes(conn, id, classes)?;
    }
    rows::update(request, conn, &TEMPLATE, id.get(), &before, &changes, &extra)?;
    rows::edited_answer(request, conn, &SHAPE, id.get())
}

/// A valid body.
struct CheckedTemplate {
    changes: Changes,
    /// The new file, whose token is unspent.
    file: Option<StoredFile>,
    /// The columns that depend on the file.
    extra: Vec<(&'static str, Argument)>,
    /// The other classes that its merge fields name, locked against changes.
    classes: Vec<ClassId>,
}

/// Checks a body and the file that it names. `read` is the result of reading the file.
fn accept(
    request: &Request,
    conn: &mut Conn,
    before: Option<(DocumentTemplateId, &Changes)>,
    checked_file: Option<&CheckedFile>,
) -> Result<CheckedTemplate, Refusal> {
    let body = request.object()?;
    let accepted =
        rows::accepted_within(conn, &TEMPLATE, &body, before.map(|(id, _)| id.get()), ("class_id", request.id()))?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    let file = file_sent(request, conn, &mut changes, before.map(|(_, before)| before), &mut errors)?;
    errors.refuse()?;
    let Some(file) = file else {
        return Ok(CheckedTemplate { changes, file: None, extra: Vec::new(), classes: Vec::new() });
    };
    let unreadable = || Refusal::field("error", UNREADABLE);
    // A token that was spent and created again in the meantime names another file.
    let checked_file =
        checked_file.filter(|checked_file| checked_file.file == file.id).ok_or_else(Refusal::outdated)?;
    let fields = checked_file.fields.as_deref().ok_or_else(unreadable)?;
    let class = class_of_id(request, conn, request.id())?.ok_or_else(Refusal::not_found)?;
    let mut meanings = Meanings::for_caller(request, class);
    let named = meanings.classes(conn, fields)?;
    for class in &named {
        // These include the class of a related record whose label is shown.
        if !may_view(request, conn, *class)? {
            return Err(unreadable());
        }
    }
    // From now on, the deletion of one of their fields waits, and then sets the warning of the template.
    let mut locked = Sql::new("SELECT id FROM object_classes WHERE id");
    locked.push_any(named.iter().copied().collect::<Vec<_>>()).push(" ORDER BY id FOR SHARE");
    conn.query_all(&locked, |_| Ok(()))?;
    check_meanings(conn, &mut meanings, fields)?;
    let (name, _) = split(&file.name);
    let extra = vec![
        ("template_file_name", name.into()),
        ("template_file_name_fold", fold(name).into()),
        ("merge_fields", MergeField::to_json(fields).to_string().into()),
    ];
    Ok(CheckedTemplate { changes, file: Some(file), extra, classes: named.into_iter().collect() })
}

/// Returns the file that a body names by its token. Removes the id of the present file from the changes.
fn file_sent(
    request: &Request,
    conn: &mut Conn,
    changes: &mut Changes,
    before: Option<&Changes>,
    errors: &mut Errors,
) -> Result<Option<StoredFile>, Refusal> {
    let name = TEMPLATE_FILE.name();
    match changes.remove_value(name) {
        Some(CheckedValue::Text(token)) => match load_by_tokens(request, conn, &[&token])?.remove(&token) {
            Some(file) if is_docx(&file.name) => return Ok(Some(file)),
            Some(_) => errors.add(name, "Invalid file type."),
            None => errors.add(name, invalid_token(&token)),
        },
        Some(CheckedValue::Int(id))
            if before.and_then(|before| before.get(&TEMPLATE_FILE)) != Some(FileId::new(id)) =>
        {
            errors.add(name, message::STRING);
        }
        _ => {}
    }
    Ok(None)
}

/// Refuses merge fields without a meaning for the caller.
fn check_meanings(conn: &mut Conn, meanings: &mut Meanings<'_>, fields: &[MergeField]) -> Result<(), Refusal> {
    for field in fields {
        match meanings.meaning(conn, field)? {
            Checked::Valid(_) => {}
            Checked::Invalid(InvalidTag::Unknown) => return Err(Refusal::field("error", UNREADABLE)),
            Checked::Invalid(InvalidTag::Unrelated { class, around: outer_class }) => {
                return Err(Refusal::field("error", unrelated(field, class, outer_class)));
            }
        }
    }
    Ok(())
}

/// Returns the message for a merge field of a class that is not related to the class around it.
fn unrelated(field: &MergeField, class: ClassId, outer_class: ClassId) -> String {
    let name = field.name();
    format!("Merge field {name} refers to object class {class}, which is not related to object class {outer_class}.")
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    require_write(request, conn)?;
    lock_class(conn, request.id())?;
    check_class(request, conn)?;
    let id: DocumentTemplateId = request.second_id();
    let before = rows::load_for_change(request, conn, &SHAPE, id.get())?;
    leave(request, conn, vec![id])?;
    rows::delete(request, conn, &TEMPLATE, id.get(), &before.get(&NAME).unwrap_or_default())?;
    Ok(Answer::empty())
}

/// Removes the data of deleted templates: their files, and their runs with the files of these.
fn leave(request: &Request, conn: &mut Conn, templates: Vec<DocumentTemplateId>) -> Result<(), StoreError> {
    for template in &templates {
        runs::leave_template(request, conn, *template)?;
    }
    let mut sql = Sql::new("DELETE FROM document_template_classes WHERE template");
    conn.exec(sql.push_any(templates.clone()))?;
    release(request, conn, EndedReferences::OfTemplates(templates))
}

/// Deletes the templates of a deleted class. Templates of other classes that name it get a warning.
pub const ON_CLASS_LEAVING: Reaction = Reaction {
    resource: "object_classes",
    when: ReactionTime::Leaving,
    run: |request, conn, class| {
        let class = ClassId::new(class);
        warnings::look_again(request, conn, &[class], LeavingParts { class: Some(class), field: None })?;
        let sql = Sql::new("SELECT id FROM document_templates WHERE class_id = $1 ORDER BY id").arg(class);
        let templates = conn.query_all(&sql, |row| row.id(0))?;
        if !templates.is_empty() {
            leave(request, conn, templates)?;
            conn.exec(&Sql::new("DELETE FROM document_templates WHERE class_id = $1").arg(class))?;
        }
        conn.exec(&Sql::new("DELETE FROM document_template_classes WHERE class_id = $1").arg(class))?;
        Ok(())
    },
};

fn download(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let find = |request: &Request, conn: &mut Conn| {
            require_read(request, conn)?;
            check_class(request, conn)?;
            let mut sql = Sql::new("SELECT ");
            sql.push(FILE_COLUMNS).push(" FROM document_templates t JOIN files f ON f.id = t.file WHERE t.id = ");
            conn.query_optional(sql.bind(request.second_id::<DocumentTemplateId>()), |row| StoredFile::read(row, 0))?
                .ok_or_else(Refusal::not_found)
        };
        let file = snapshot::read(&request, find).await?;
        files::send(&request, &file).await
    })
}

fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let (class, template) = (row.int(at)?.unwrap_or(0), row.int(at + 1)?.unwrap_or(0));
    out.name("_meta").raw("{").name("labels").raw("{").name("files").raw("{");
    let file = StoredFile {
        id: FileId::new(row.int(at + 2)?.unwrap_or(0)),
        uuid: String::new(),
        name: row.text(at + 3)?.unwrap_or("").to_owned(),
        size: row.int(at + 4)?.unwrap_or(0),
    };
    let address = request.app.address_of(&request.build);
    file.write_label(out, &format!("{address}/api/object-classes/{class}/document-templates/{template}/download/"));
    out.raw("}}}");
    Ok(())
}
