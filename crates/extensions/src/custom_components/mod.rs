//! Custom components, which front ends embed. They are imported from git repositories: `/api/custom-components/`
//! (`docs/reference/custom-components.md`).

mod config;
pub mod git;
mod import;
mod repository;
mod serve;

pub use import::{CommitPermits, IMPORT, INSTALL};
pub use repository::TOKEN_COLUMN;

use http::Method;
use kit::answer::{Answer, Outcome};
use kit::ids::ComponentRepositoryId;
use kit::jobs;
use kit::limits::{Limit, LimitSummary};
use kit::permissions::PermissionResource;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{
    CheckedValue, Errors, Field, FieldKey, FieldKind, ReferenceTarget, Resource, SentObject, UNDIRECTED, message,
    openapi, options,
};
use serde_json::{Map, Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of custom components of a build.
pub static CUSTOM_COMPONENTS: Limit = Limit {
    name: "custom_components",
    default: 100,
    many: "Custom Components",
    is_counted: true,
    summary: LimitSummary::Counter("custom_components"),
    ..Limit::EMPTY
};

/// The permissions of custom components and their repositories. Only super admins have them.
pub const PERMISSIONS: PermissionResource =
    PermissionResource { name: "custom_component", actions: ACTIONS, assignable: &[], held_by: &[] };

const ACTIONS: &[&str] = &["list", "view", "create", "edit"];

const COLLECTION: &str = "/api/custom-components/";
const ONE: &str = "/api/custom-components/{id}/";
const FRAME: &str = "/api/custom-components/frames/{id}/";

static NAME: FieldKey<String> = FieldKey::new("name");
static REPOSITORY: FieldKey<ComponentRepositoryId> = FieldKey::new("repository");
static AVAILABLE_USE: FieldKey<Json> = FieldKey::new("available_use");

/// The states of a component: its import runs, its files are served, or its import failed.
const STATUSES: &[(&str, &str)] = &[("processing", "Processing"), ("installed", "Installed"), ("failed", "Failed")];

static COMPONENT: LazyLock<Resource> = LazyLock::new(|| {
    let repositories = ReferenceTarget { table: "custom_component_repositories".into(), autocomplete: None };
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "custom_components",
        "CustomComponent",
        "custom_components",
        [
            Field::id(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("Map")
                .required()
                .unique("custom_components_name")
                .folded()
                .filter()
                .sort(),
            Field::new("description", FieldKind::text(500)).default(""),
            REPOSITORY
                .declare(FieldKind::Reference { target: repositories })
                .required()
                .create_only()
                .unique("custom_components_repository")
                .example(1),
            Field::new("repository_url", FieldKind::Url { max: repository::MAX_URL })
                .sql("(SELECT r.repository_url FROM custom_component_repositories r WHERE r.id = t.repository)")
                .read_only()
                .list_only(),
            Field::new("is_enabled", FieldKind::Boolean).default(false).filter(),
            Field::new("status", FieldKind::choices(STATUSES)).read_only().filter(),
            AVAILABLE_USE.declare(FieldKind::Object).schema(|| openapi::request(&AVAILABLE, true)).required(),
            Field::new("index_url", FieldKind::Url { max: 2048 }).nullable().read_only().stored_by_resource(),
            load_by_repository(
                "version",
                "(SELECT r.version FROM custom_component_repositories r WHERE r.id = t.repository)",
            ),
            load_by_repository(
                "publisher",
                "(SELECT r.publisher FROM custom_component_repositories r WHERE r.id = t.repository)",
            ),
            Field::new("publisher_url", FieldKind::Url { max: config::MAX_URL })
                .sql("(SELECT r.publisher_url FROM custom_component_repositories r WHERE r.id = t.repository)")
                .nullable()
                .read_only(),
            Field::new("parameters", FieldKind::List)
                .schema(config::parameters_schema)
                .sql("(SELECT r.parameters FROM custom_component_repositories r WHERE r.id = t.repository)")
                .read_only()
                .detail_only(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit(&CUSTOM_COMPONENTS)
    .with_extra_schemas(|_| vec![("_meta", openapi::meta(ACTIONS.iter().copied()))])
});

fn load_by_repository(name: &'static str, sql: &'static str) -> Field {
    Field::new(name, FieldKind::text(config::MAX_TEXT)).sql(sql).nullable().read_only()
}

/// The places in which front ends offer a component.
static AVAILABLE: LazyLock<Resource> = LazyLock::new(|| {
    let places = [
        "landing_page",
        "object_class_create_form",
        "object_class_summary_form",
        "object_class_standalone_form",
        "task_template_form",
    ];
    let field = |name| Field::new(name, FieldKind::Boolean).required().example(false);
    Resource::new("", "CustomComponentUse", "", places.map(field))
});

/// The shape of a component. The extra columns are its id and the commit that is served.
static SHAPE: RowShape = RowShape::new(
    Declaration::Static(&COMPONENT),
    "t.id, (SELECT r.commit_id FROM custom_component_repositories r WHERE r.id = t.repository)",
    write_rest,
);

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list(COLLECTION, &COMPONENT, list).requires(PERMISSIONS.name, "view"),
        Route::create(COLLECTION, &COMPONENT, create).requires(PERMISSIONS.name, "create"),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &COMPONENT, view).requires(PERMISSIONS.name, "view"),
        Route::edit(ONE, &COMPONENT, edit).requires(PERMISSIONS.name, "edit"),
        Route::delete(ONE, delete).requires(PERMISSIONS.name, "edit"),
        Route::new(Method::GET, FRAME, "The address of the component in a frame", Handler::Read(frame_address))
            .answers(200, Schema::Json(frame_schema)),
    ];
    routes.extend(repository::routes());
    routes.extend(serve::routes());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &COMPONENT)?;
    for entry in document["details"]["schema"].as_array_mut().into_iter().flatten() {
        match entry["alias"].as_str() {
            Some("available_use") => entry["schema"] = options::details(&AVAILABLE)["schema"].take(),
            Some("parameters") => entry["schema"] = config::described_parameters(),
            _ => {}
        }
    }
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(http::StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

/// Returns the address of an enabled component to any signed-in caller, since forms and pages of all users show it in a frame.
fn frame_address(request: &Request, conn: &mut Conn) -> Outcome {
    let sql = Sql::new(
        "SELECT t.name, r.commit_id FROM custom_components t JOIN custom_component_repositories r ON r.id = t.repository \
         WHERE t.id = $1 AND t.is_enabled = 1 AND r.commit_id IS NOT NULL",
    );
    let row = conn
        .query_optional(&sql.arg(request.id::<i64>()), |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
    let (name, commit) = row.ok_or_else(Refusal::not_found)?;
    let index_url = serve::address(request, request.id(), &commit, config::INDEX);
    Ok(Answer::value(&json!({"id": request.id::<i64>(), "name": name, "index_url": index_url})))
}

fn frame_schema() -> Json {
    let fields = [
        ("id", json!({"type": "integer"})),
        ("name", json!({"type": "string"})),
        ("index_url", json!({"type": "string", "format": "uri"})),
    ];
    openapi::titled("CustomComponentFrame", openapi::object(fields))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let accepted = rows::check_body(conn, &COMPONENT, &body, None)?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    accept_use(&body, &mut changes, &mut errors);
    if let Some(repository) = changes.get(&REPOSITORY)
        && repository::has_failed(conn, repository)?
    {
        errors.add(REPOSITORY.name(), "Repository import has failed.");
    }
    errors.refuse()?;
    // The job `INSTALL` sets the status when the files exist.
    request.effects.after_commit(jobs::wake);
    let id = rows::insert(request, conn, &COMPONENT, &changes, &[("status", "processing".into())])?;
    rows::created_answer(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let body = request.object()?;
    let accepted = rows::check_body(conn, &COMPONENT, &body, Some(id))?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    accept_use(&body, &mut changes, &mut errors);
    errors.refuse()?;
    rows::update(request, conn, &COMPONENT, id, &before, &changes, &[])?;
    rows::edited_answer(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    rows::delete(request, conn, &COMPONENT, id, &before.get(&NAME).unwrap_or_default())?;
    Ok(Answer::empty())
}

/// Checks the members of `available_use` if it is an object. All of them are required.
fn accept_use(body: &SentObject<'_>, changes: &mut resource::Changes, errors: &mut Errors) {
    let available_use = body.get(AVAILABLE_USE.name()).filter(|_| !errors.has_field(AVAILABLE_USE.name()));
    let Some(object) = available_use.and_then(|value| value.as_object(|name| AVAILABLE.field(name).is_some())) else {
        return;
    };
    let (mut places, mut wrong) = (Map::new(), Errors::new());
    for field in &AVAILABLE.fields {
        match object.get(&field.name) {
            None => wrong.add(&field.name, message::REQUIRED),
            Some(value) if value.is_null() => wrong.add(&field.name, message::NULL),
            Some(value) => match value.as_bool() {
                Some(flag) => {
                    places.insert(field.name.to_string(), flag.into());
                }
                None => wrong.add(&field.name, message::BOOLEAN),
            },
        }
    }
    errors.nest(AVAILABLE_USE.name(), wrong);
    changes.set(&AVAILABLE_USE, CheckedValue::Json(Json::Object(places)));
}

fn write_rest(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let (id, commit) = (row.int(at)?.unwrap_or(0), row.text(at + 1)?);
    let index = commit.map(|commit| serve::address(request, id, commit, config::INDEX));
    out.name("index_url").opt_text(index.as_deref());
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let permissions: Vec<(&str, bool)> =
            ACTIONS.iter().map(|action| (*action, caller.has_permission(PERMISSIONS.name, action))).collect();
        write_permissions(out, &permissions);
    }
    out.raw("}");
    Ok(())
}

/// Makes the failed components of a repository wait for the new import.
fn wait_again(conn: &mut Conn, repository: ComponentRepositoryId) -> Result<(), StoreError> {
    let sql = "UPDATE custom_components SET status = 'processing' WHERE repository = $1 AND status = 'failed'";
    conn.exec(&Sql::new(sql).arg(repository)).map(drop)
}

/// Returns whether a component uses a repository. The repository is locked.
fn is_used(conn: &mut Conn, repository: ComponentRepositoryId) -> Result<bool, Refusal> {
    let sql = Sql::new("SELECT 1 FROM custom_components WHERE repository = $1").arg(repository);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}
