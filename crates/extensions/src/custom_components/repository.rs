//! Git repositories of custom components: `/api/custom-components/repository/` (`docs/reference/custom-components.md`).

use super::{PERMISSIONS, config, import, is_used, wait_again};
use files::stored_files::{self, EndedReferences};
use http::StatusCode;
use kit::answer::{Answer, Outcome, etag};
use kit::ids::ComponentRepositoryId;
use kit::limits::{self, Limit};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape};
use kit::secret::SealedColumn;
use reqwest::Url;
use resource::{Changes, Errors, Field, FieldKey, FieldKind, LINE, Resource, message, options};
use serde_json::json;
use std::sync::LazyLock;
use store::{Argument, Conn, Sql, StoreError};

/// The maximum number of repositories of a build.
static REPOSITORIES: Limit =
    Limit { name: "custom_component_repositories", default: 200, many: "Repositories", ..Limit::EMPTY };

const TABLE: &str = "custom_component_repositories";
/// The column of the sealed tokens.
pub const TOKEN_COLUMN: SealedColumn = SealedColumn { table: TABLE, column: "token", row: "token_row" };
/// The maximum length of an address, in characters.
pub const MAX_URL: usize = 2048;

const COLLECTION: &str = "/api/custom-components/repository/";
const ONE: &str = "/api/custom-components/repository/{id}/";
const REPOSITORY_IMPORT: &str = "/api/custom-components/repository/{id}/import/";

static REPOSITORY_URL: FieldKey<String> = FieldKey::new("repository_url");
static USERNAME: FieldKey<String> = FieldKey::new("username");
pub static TOKEN: FieldKey<String> = FieldKey::new("token");

const STATUSES: &[(&str, &str)] = &[("processing", "Processing"), ("imported", "Imported"), ("failed", "Failed")];

/// The declaration of a repository for GET.
pub static REPOSITORY: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, ..] = Field::audit();
    let of_import = |name, kind| Field::new(name, kind).nullable().read_only();
    Resource::new(
        TABLE,
        "CustomComponentRepository",
        TABLE,
        credentials().into_iter().chain([
            Field::new("status", FieldKind::choices(STATUSES)).read_only(),
            of_import("errors", FieldKind::Object).schema(errors_schema),
            of_import("version", FieldKind::text(config::MAX_TEXT)),
            of_import("publisher", FieldKind::text(config::MAX_TEXT)),
            of_import("publisher_url", FieldKind::Url { max: config::MAX_URL }),
            of_import("logo", FieldKind::Url { max: config::MAX_URL }),
            of_import("imported_at", FieldKind::DateTime),
            created_at,
            created_by,
        ]),
    )
    .limit(&REPOSITORIES)
});
/// The declaration of a repository for the answer to a creation.
static NEW_REPOSITORY: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, ..] = Field::audit();
    let fields = credentials().into_iter().chain([created_at, created_by]);
    Resource::new(TABLE, "CustomComponentRepositoryCreated", TABLE, fields)
        .body_title("CustomComponentRepositoryImport")
        .limit(&REPOSITORIES)
});
/// The declaration of the body of another import.
static IMPORTED_WITH: LazyLock<Resource> = LazyLock::new(|| {
    let fields = credentials().into_iter().filter(|field| [USERNAME.name(), TOKEN.name()].contains(&&*field.name));
    Resource::new(TABLE, "CustomComponentRepositoryImportAgain", TABLE, fields)
});

fn credentials() -> [Field; 4] {
    [
        Field::id(),
        REPOSITORY_URL
            .declare(FieldKind::Url { max: MAX_URL })
            .required()
            .create_only()
            .example("https://git.example.com/components/map.git"),
        USERNAME.text(100).charset(LINE).required().example("deploy"),
        TOKEN
            .declare(FieldKind::Secret { min: 0, max: 150 })
            .charset(LINE)
            .required()
            .encrypted(TOKEN_COLUMN.column, TOKEN_COLUMN.row)
            .example("glpat-4Dk"),
    ]
}

fn errors_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "additionalProperties": true,
        "description": "Errors of the import: the messages of each file, of `repository_url`, or of the members of `config.json`",
    })
}

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&REPOSITORY));
static NEW_SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&NEW_REPOSITORY));

pub fn routes() -> Vec<Route> {
    let import = Route::post(REPOSITORY_IMPORT, "Import again", Handler::Write(import_again))
        .with_body(Schema::Body(&IMPORTED_WITH, false))
        .answers(200, Schema::One(&REPOSITORY))
        .requires(PERMISSIONS.name, "edit");
    vec![
        Route::create(COLLECTION, &NEW_REPOSITORY, create).requires(PERMISSIONS.name, "create"),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &REPOSITORY, view).requires(PERMISSIONS.name, "view"),
        Route::delete(ONE, delete).requires(PERMISSIONS.name, "edit"),
        import,
    ]
}

/// Returns the schema document with the fields of the body of a creation.
fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = options::instance_document(&NEW_REPOSITORY);
    if let Some(entries) = document["details"]["schema"].as_array_mut() {
        let is_sent = |alias: &str| [REPOSITORY_URL.name(), USERNAME.name(), TOKEN.name()].contains(&alias);
        entries.retain(|entry| entry["alias"].as_str().is_some_and(is_sent));
    }
    document["restrictions"] = json!({"limit_items": limits::value(conn, &REPOSITORIES)?});
    Ok(Answer::value(&document))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::check_body(conn, &NEW_REPOSITORY, &request.object()?, None)?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    if changes.get(&REPOSITORY_URL).is_some_and(|url| !is_git_address(&url)) {
        errors.add(REPOSITORY_URL.name(), message::URL);
    }
    errors.refuse()?;
    name_by_url(&mut changes);
    let user = request.caller()?.user;
    let extra: [(&'static str, Argument); 2] = [("status", "processing".into()), ("import_by", user.into())];
    let id = rows::insert(request, conn, &NEW_REPOSITORY, &changes, &extra)?;
    import::enqueue_import(request, conn, ComponentRepositoryId::new(id))?;
    // The tag is that of GET.
    let tag = etag(&rows::view_id(request, conn, &SHAPE, id)?);
    let answer = rows::created_answer(request, conn, &NEW_SHAPE, id)?;
    Ok(Answer { tag: Some(tag), ..answer })
}

/// Imports again, with other credentials if the body contains them. The address does not change, so a stored token is never sent to
/// another server.
fn import_again(request: &Request, conn: &mut Conn) -> Outcome {
    let id: ComponentRepositoryId = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id.get())?;
    let accepted = rows::check_body(conn, &IMPORTED_WITH, &request.object()?, Some(id.get()))?;
    accepted.errors.refuse()?;
    let mut changes = accepted.changes;
    let diff = log::diff_of_edit(&REPOSITORY, &before, &changes);
    // The log contains the request of the import and its other changes, but not the status.
    changes.insert("status", "processing".into());
    let user = request.caller()?.user;
    let extra: [(&'static str, Argument); 2] = [("errors", Argument::Null), ("import_by", user.into())];
    rows::update(request, conn, &UNLOGGED, id.get(), &before, &changes, &extra)?;
    let next = Sql::new("UPDATE custom_component_repositories SET import_n = import_n + 1 WHERE id = $1").arg(id);
    conn.exec(&next)?;
    wait_again(conn, id)?;
    import::enqueue_import(request, conn, id)?;
    log::write(request, conn, "import", &REPOSITORY, id.get(), &before.get(&REPOSITORY_URL).unwrap_or_default(), diff)?;
    rows::edited_answer(request, conn, &SHAPE, id.get())
}

/// The declaration for updates whose log entry is written separately.
static UNLOGGED: LazyLock<Resource> = LazyLock::new(|| REPOSITORY.clone().unlogged());

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id: ComponentRepositoryId = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id.get())?;
    if is_used(conn, id)? {
        return Err(Refusal::bad_request("Repository is used by a custom component and cannot be deleted."));
    }
    import::cancel(request, conn, id)?;
    conn.exec(&Sql::new("DELETE FROM custom_component_files WHERE repository = $1").arg(id))?;
    stored_files::release(request, conn, EndedReferences::OfComponentRepository(id))?;
    rows::delete(request, conn, &REPOSITORY, id.get(), &before.get(&REPOSITORY_URL).unwrap_or_default())?;
    Ok(Answer::empty())
}

/// Returns whether the last import of a repository failed. The caller has locked the row.
pub fn has_failed(conn: &mut Conn, id: ComponentRepositoryId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM custom_component_repositories WHERE id = $1 AND status = 'failed'").arg(id);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Adds the address as the name of the repository in the administration log. The table has no such column.
fn name_by_url(changes: &mut Changes) {
    let url = changes.get(&REPOSITORY_URL).unwrap_or_default();
    changes.insert("name", url.into());
}

/// Returns whether an address is an `https` address without user information, query and fragment. Answers would show user
/// information, and git appends paths to an address. The connection checks whether a build may call its host.
fn is_git_address(url: &str) -> bool {
    let is_fit = |url: &Url| {
        let is_bare = url.username().is_empty() && url.password().is_none();
        url.scheme() == "https" && url.has_host() && is_bare && url.query().is_none() && url.fragment().is_none()
    };
    Url::parse(url).is_ok_and(|parsed| is_fit(&parsed)) && !url.contains('\\')
}

/// Returns the errors of a failed import.
pub fn failure_of_url(text: &str) -> Errors {
    Errors::single(REPOSITORY_URL.name(), text)
}

#[cfg(test)]
mod tests {
    use super::is_git_address;

    #[test]
    fn an_address_is_of_the_web_by_tls_and_holds_no_credentials() {
        for url in ["https://git.example.com/a/b.git", "HTTPS://git.example.com:8443/", "https://[2606::1]/x"] {
            assert!(is_git_address(url), "{url}");
        }
        for url in [
            "http://git.example.com/a.git",
            "https://user@git.example.com/a.git",
            "https://user:token@git.example.com/a.git",
            "https://:token@git.example.com/a.git",
            "ssh://git@git.example.com/a.git",
            "git@git.example.com:a.git",
            "git://git.example.com/a.git",
            "file:///etc/passwd",
            "ext::sh -c id",
            "https://",
            "https://git.example.com/a.git?x=1",
            "https://git.example.com/a.git#x",
            "https://git.example.com\\@127.0.0.1/a.git",
            "/etc",
            "-oProxyCommand=id",
        ] {
            assert!(!is_git_address(url), "{url}");
        }
    }
}
