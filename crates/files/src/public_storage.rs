//! `/api/files/public-storage/` (`docs/reference/files.md`): files that anybody with their address may download.

use crate::download::{send, tag};
use crate::file_name::split;
use crate::storage_limit;
use crate::stored_files::{self, EndedReferences, FILE_COLUMNS, FileReference, StoredFile};
use crate::uploads::{MAX_TOKEN, invalid_token, load_by_tokens};
use kit::answer::{Answer, Outcome};
use kit::limits::{self, Limit, LimitSummary};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{HandlerFuture, Route};
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Changes, Field, FieldKey, FieldKind, Resource, openapi};
use serde_json::json;
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};

/// The maximum number of public files of a build.
pub static PUBLIC_FILES: Limit = Limit {
    name: "public_files",
    default: 10_000,
    many: "Public Files",
    is_counted: true,
    summary: LimitSummary::Additional("public_files"),
    ..Limit::EMPTY
};

static TOKEN: FieldKey<String> = FieldKey::new("token");

const COLLECTION: &str = "/api/files/public-storage/";
const ONE: &str = "/api/files/public-storage/{uuid}/";

static PUBLIC_FILE: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, mut created_by, mut modified_at, mut modified_by] = Field::audit();
    for field in [&mut created_by, &mut modified_at, &mut modified_by] {
        field.filter = false;
    }
    let mut creator = Field::new("created_by", FieldKind::text(255)).column("creator").filter_only();
    creator.folded = Some("creator_fold".into());
    Resource::new(
        "files",
        "PublicFile",
        "public_files",
        [
            Field::new("uuid", FieldKind::Uuid).read_only(),
            Field::new("filename", FieldKind::text(255)).folded().read_only().filter().sort(),
            Field::new("extension", FieldKind::text(255)).read_only(),
            created_at.sort(),
            created_by,
            modified_at.list_only(),
            modified_by.list_only(),
            Field::new("url", FieldKind::Url { max: 2048 }).read_only().stored_by_resource(),
            TOKEN.text(MAX_TOKEN).required().write_only().stored_by_resource(),
            // Filters use the creator's username.
            creator,
        ],
    )
    .limit(&PUBLIC_FILES)
    .with_extra_schemas(|_| {
        let mut meta = openapi::meta(["delete"]);
        openapi::require(&mut meta, "labels", json!({"type": "object"}));
        vec![("_meta", meta)]
    })
});

static SHAPE: RowShape = RowShape::new(Declaration::Static(&PUBLIC_FILE), "t.uuid", write_rest);

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &PUBLIC_FILE, list).requires("files", "list"),
        Route::create(COLLECTION, &PUBLIC_FILE, create).requires("files", "store"),
        Route::options_below(COLLECTION, document),
        Route::download(ONE, download).public(),
        Route::delete(ONE, delete).requires("files", "delete"),
    ]
}

/// Returns the schema document with the columns of the list, without those that only answers show.
fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &PUBLIC_FILE)?;
    let order = ["uuid", "filename", "extension", "url", "created_at", "created_by"];
    if let Some(columns) = document["list"]["columns"].as_array_mut() {
        let mut take_column =
            |alias: &&str| columns.iter().position(|column| column["alias"] == *alias).map(|at| columns.remove(at));
        let mut shown: Vec<_> = order.iter().filter_map(&mut take_column).collect();
        // The field is a user in answers and a username in filters.
        let of_texts = shown[1]["predicates"].clone();
        shown[5]["predicates"] = of_texts;
        shown[5].as_object_mut().map(|column| column.shift_remove("autocomplete"));
        *columns = shown;
    }
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let mut scope = Scope::from(Sql::new(
        "SELECT p.*, u.username AS creator, u.username_fold AS creator_fold FROM public_files p \
         LEFT JOIN users u ON u.id = p.created_by",
    ));
    scope.total = Some(limits::count_used(conn, &PUBLIC_FILES)?);
    rows::list(request, conn, &SHAPE, scope)
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::check_body(conn, &PUBLIC_FILE, &request.object()?, None)?;
    accepted.errors.refuse()?;
    let token = accepted.changes.get(&TOKEN).unwrap_or_default();
    let file = load_by_tokens(request, conn, &[&token])?.remove(&token);
    let file = file.ok_or_else(|| Refusal::field(TOKEN.name(), invalid_token(&token)))?;
    // The upload already counts.
    storage_limit::check(conn, 0)?;
    stored_files::add_reference(conn, file.id, FileReference::Public)?;
    let (name, extension) = split(&file.name);
    let mut values = Changes::new();
    for (field, value) in [("uuid", file.uuid.as_str()), ("filename", name), ("extension", extension)] {
        values.insert(field, value.into());
    }
    let user = request.caller()?.user;
    let id = rows::insert_row(conn, &PUBLIC_FILE, &values, &[("file", file.id.into())], request.now, Some(user))?;
    log::write(request, conn, "create", &PUBLIC_FILE, None, &log_name(&file), diff_of_create(&values))?;
    limits::count_row(conn, &PUBLIC_FILES)?;
    // The tag is that of the file at its address.
    let answer = rows::created_answer(request, conn, &SHAPE, id)?;
    Ok(Answer { tag: Some(tag(&file)), ..answer })
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let file = load_from_path(request, conn)?.ok_or_else(Refusal::not_found)?;
    request.check_if_match(|| Ok(tag(&file)))?;
    if conn.exec(&Sql::new("DELETE FROM public_files WHERE file = $1").arg(file.id))? == 0 {
        return Err(Refusal::not_found());
    }
    stored_files::release(request, conn, EndedReferences::OfPublic(file.id))?;
    limits::give_back(conn, &PUBLIC_FILES)?;
    log::write(request, conn, "delete", &PUBLIC_FILE, None, &log_name(&file), log::Diff::new())?;
    Ok(Answer::empty())
}

/// Returns the changes of a new file for the administration log.
fn diff_of_create(values: &Changes) -> log::Diff {
    values.iter().map(|(name, value)| (name.to_owned(), json!([null, value.to_json()]))).collect()
}

/// Returns the name of a file in the administration log.
fn log_name(file: &StoredFile) -> String {
    format!("{} {}", file.uuid, file.name)
}

/// Returns the public file of the path.
fn load_from_path(request: &Request, conn: &mut Conn) -> Result<Option<StoredFile>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(" FROM public_files p JOIN files f ON f.id = p.file WHERE p.uuid = ");
    conn.query_optional(sql.bind(request.uuid().to_string()), |row| StoredFile::read(row, 0))
}

fn download(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let shared = request.clone();
        let file = request.build.db.read_short(move |conn| load_from_path(&shared, conn)).await?;
        send(&request, &file.ok_or_else(Refusal::not_found)?).await
    })
}

fn write_rest(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let uuid = row.text(at)?.unwrap_or("");
    out.name("url").text(&format!("{}/api/files/public-storage/{uuid}/", request.app.address_of(&request.build)));
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        write_permissions(out, &[("delete", caller.has_permission("files", "delete"))]);
    }
    out.name("labels").raw("{}").raw("}");
    Ok(())
}
