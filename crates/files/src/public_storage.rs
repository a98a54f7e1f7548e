//! `/api/files/public-storage/` (`docs/reference/files.md`): files that anybody may download who knows their address.

use crate::download::{send, tag};
use crate::file_name::split;
use crate::held::{self, Ending, FILE_COLUMNS, File, Holder};
use crate::storage_limit;
use crate::uploads::{MAX_TOKEN, invalid_token, of_tokens};
use kit::answer::{Answer, Outcome};
use kit::limits::{self, Limit, LimitSummary};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Pending, Route};
use kit::rows::{self, Cell, Declaration, Scope, Shape, write_permissions};
use resource::json::{Cells, Form, Writer};
use resource::{Changes, Field, Key, Kind, Resource, openapi};
use serde_json::json;
use std::sync::{Arc, LazyLock};
use store::{Conn, Error, Sql};

/// How many public files a build may have.
pub static PUBLIC_FILES: Limit = Limit {
    name: "public_files",
    default: 10_000,
    many: "Public Files",
    is_counted: true,
    summary: LimitSummary::Additional("public_files"),
    ..Limit::EMPTY
};

static TOKEN: Key<String> = Key::new("token");

const COLLECTION: &str = "/api/files/public-storage/";
const ONE: &str = "/api/files/public-storage/{uuid}/";

static PUBLIC_FILE: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, mut created_by, mut modified_at, mut modified_by] = Field::audit();
    for field in [&mut created_by, &mut modified_at, &mut modified_by] {
        field.filter = false;
    }
    let mut creator = Field::new("created_by", Kind::text(255)).column("creator").filter_only();
    creator.folded = Some("creator_fold".into());
    Resource::new(
        "files",
        "PublicFile",
        "public_files",
        [
            Field::new("uuid", Kind::Uuid).read_only(),
            Field::new("filename", Kind::text(255)).folded().read_only().filter().sort(),
            Field::new("extension", Kind::text(255)).read_only(),
            created_at.sort(),
            created_by,
            modified_at.list_only(),
            modified_by.list_only(),
            Field::new("url", Kind::Url { max: 2048 }).read_only().stored_by_resource(),
            TOKEN.text(MAX_TOKEN).required().write_only().stored_by_resource(),
            // Filters take the creator's username.
            creator,
        ],
    )
    .limit(&PUBLIC_FILES)
    .shows(|_| {
        let mut meta = openapi::meta(["delete"]);
        openapi::require(&mut meta, "labels", json!({"type": "object"}));
        vec![("_meta", meta)]
    })
});

static SHAPE: Shape = Shape::new(Declaration::Static(&PUBLIC_FILE), "t.uuid", write_rest);

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &PUBLIC_FILE, list).needs("files", "list"),
        Route::create(COLLECTION, &PUBLIC_FILE, create).needs("files", "store"),
        Route::options_below(COLLECTION, document),
        Route::download(ONE, download).public(),
        Route::delete(ONE, delete).needs("files", "delete"),
    ]
}

/// The columns of the list, without those that only answers show.
fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &PUBLIC_FILE)?;
    let order = ["uuid", "filename", "extension", "url", "created_at", "created_by"];
    if let Some(columns) = document["list"]["columns"].as_array_mut() {
        let mut of =
            |alias: &&str| columns.iter().position(|column| column["alias"] == *alias).map(|at| columns.remove(at));
        let mut shown: Vec<_> = order.iter().filter_map(&mut of).collect();
        // A user in answers, a username in filters.
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
    scope.total = Some(limits::taken(conn, &PUBLIC_FILES)?);
    rows::list(request, conn, &SHAPE, scope)
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::accepted(conn, &PUBLIC_FILE, &request.object()?, None)?;
    accepted.errors.refuse()?;
    let token = accepted.changes.get(&TOKEN).unwrap_or_default();
    let file = of_tokens(request, conn, &[&token])?.remove(&token);
    let file = file.ok_or_else(|| Refusal::field(TOKEN.name(), invalid_token(&token)))?;
    // The upload counts already.
    storage_limit::check(conn, 0)?;
    held::hold(conn, file.id, Holder::Public)?;
    let (name, extension) = split(&file.name);
    let mut values = Changes::new();
    for (field, value) in [("uuid", file.uuid.as_str()), ("filename", name), ("extension", extension)] {
        values.insert(field, value.into());
    }
    let by = request.caller()?.user;
    let id = rows::insert_row(conn, &PUBLIC_FILE, &values, &[("file", file.id.into())], request.now, Some(by))?;
    log::write(request, conn, "create", &PUBLIC_FILE, None, &logged(&file), made(&values))?;
    limits::take(conn, &PUBLIC_FILES)?;
    // Its tag is that of the file, which is at its address.
    let answer = rows::created(request, conn, &SHAPE, id)?;
    Ok(Answer { tag: Some(tag(&file)), ..answer })
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let file = of_uuid(request, conn)?.ok_or_else(Refusal::not_found)?;
    request.check_if_match(|| Ok(tag(&file)))?;
    if conn.exec(&Sql::new("DELETE FROM public_files WHERE file = $1").arg(file.id))? == 0 {
        return Err(Refusal::not_found());
    }
    held::release(request, conn, Ending::OfPublic(file.id))?;
    limits::give_back(conn, &PUBLIC_FILES)?;
    log::write(request, conn, "delete", &PUBLIC_FILE, None, &logged(&file), log::Diff::new())?;
    Ok(Answer::empty())
}

/// What the administration log tells of a new file.
fn made(values: &Changes) -> log::Diff {
    values.iter().map(|(name, value)| (name.to_owned(), json!([null, value.to_json()]))).collect()
}

/// What the administration log calls a file.
fn logged(file: &File) -> String {
    format!("{} {}", file.uuid, file.name)
}

/// The public file of the path.
fn of_uuid(request: &Request, conn: &mut Conn) -> Result<Option<File>, Error> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(" FROM public_files p JOIN files f ON f.id = p.file WHERE p.uuid = ");
    conn.opt(sql.bind(request.uuid().to_string()), |row| File::read(row, 0))
}

fn download(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let asked = request.clone();
        let found = request.build.db.read_short(move |conn| of_uuid(&asked, conn)).await?;
        send(&request, &found.ok_or_else(Refusal::not_found)?).await
    })
}

fn write_rest(out: &mut Writer, _: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
    let uuid = row.text(at)?.unwrap_or("");
    out.name("url").text(&format!("{}/api/files/public-storage/{uuid}/", request.app.address_of(&request.build)));
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        write_permissions(out, &[("delete", caller.may("files", "delete"))]);
    }
    out.name("labels").raw("{}").raw("}");
    Ok(())
}
