//! Roles: `/api/roles/` (`docs/reference/roles.md`).

use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::autocomplete;
use kit::caller::Caller;
use kit::limits::{Limit, LimitSummary};
use kit::permission_set::grants_schema;
use kit::permissions::{Permissions, accept_permissions, assignable, describe_assignable};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::json::{JsonWriter, RowForm};
use resource::{Changes, CheckedValue, Errors, Field, FieldKey, FieldKind, Resource, UNDIRECTED, openapi};
use serde_json::Value as Json;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of roles of a build.
pub static ROLES: Limit = Limit {
    name: "roles",
    default: 100,
    many: "Roles",
    is_counted: true,
    summary: LimitSummary::Counter("roles"),
    ..Limit::EMPTY
};

static NAME: FieldKey<String> = FieldKey::new("name");
static DESCRIPTION: FieldKey<String> = FieldKey::new("description");
static PERMISSIONS: FieldKey<Json> = FieldKey::new("permissions");

/// A role.
pub static ROLE: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "roles",
        "Role",
        "roles",
        [
            Field::id(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("Group editors")
                .required()
                .unique("roles_name")
                .folded()
                .filter()
                .sort(),
            DESCRIPTION.text(500).default(""),
            PERMISSIONS
                .declare(FieldKind::Object)
                .schema(grants_schema)
                .default(CheckedValue::Json(Json::Object(Default::default()))),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit(&ROLES)
    .with_extra_schemas(|_| vec![("_meta", openapi::meta(ACTIONS))])
});

/// The actions in `_meta`.
const ACTIONS: [&str; 5] = ["list", "view", "create", "edit", "delete"];

static SHAPE: RowShape = RowShape::new(Declaration::Static(&ROLE), "t.permissions", write_meta);

pub fn routes() -> Vec<Route> {
    vec![
        Route::list("/api/roles/", &ROLE, list).requires("roles", "list"),
        Route::create("/api/roles/", &ROLE, create).requires("roles", "create"),
        Route::options_below("/api/roles/", document),
        autocomplete::route("/api/roles/autocomplete/", complete),
        Route::view("/api/roles/{id}/", &ROLE, view).requires("roles", "view"),
        Route::edit("/api/roles/{id}/", &ROLE, edit).requires("roles", "edit"),
        Route::delete("/api/roles/{id}/", delete).requires("roles", "delete"),
    ]
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &ROLE)?;
    describe_assignable(&mut document);
    document["permissions"] = assignable();
    Ok(Answer::value(&document))
}

fn complete(request: &Request, conn: &mut Conn) -> Outcome {
    let scope =
        Scope::matching(if request.caller()?.has_permission("roles", "list") { "1 = 1" } else { "1 = 0" }).cacheable();
    autocomplete::answer(
        request,
        conn,
        &autocomplete::LabelSource { table: "roles", text: "name", fold: "name_fold" },
        scope,
    )
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::check_body(conn, &ROLE, &request.object()?, None)?;
    let changes = with_grants(request.caller()?, Permissions::NONE, accepted.changes, accepted.errors)?;
    let id = rows::insert(request, conn, &ROLE, &changes, &[])?;
    rows::created_answer(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let before_grants = Permissions::from_actions(&before.get(&PERMISSIONS).unwrap_or_default());
    check_covered(request.caller()?, before_grants)?;
    let accepted = rows::check_body(conn, &ROLE, &request.object()?, Some(id))?;
    let changes = with_grants(request.caller()?, before_grants, accepted.changes, accepted.errors)?;
    rows::update(request, conn, &ROLE, id, &before, &changes, &[])?;
    if changes.contains(&PERMISSIONS) {
        rights::mark_rights_changed(request, conn)?;
    }
    rows::edited_answer(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    rows::delete(request, conn, &ROLE, id, &before.get(&NAME).unwrap_or_default())?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// Removes a deleted role from its users.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "roles",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        conn.exec(&Sql::new("DELETE FROM user_roles WHERE role_id = $1").arg(id))?;
        Ok(())
    },
};

/// Replaces the permissions of the body by all permissions that they imply. Permissions that the caller lacks are refused first,
/// since 403 comes before 400.
fn with_grants(
    caller: &Caller,
    before: Permissions,
    mut changes: Changes,
    mut errors: Errors,
) -> Result<Changes, Refusal> {
    if let Some(Json::Object(grants)) = changes.get(&PERMISSIONS) {
        match accept_permissions(&grants, before) {
            Ok(granted) => {
                check_covered(caller, granted)?;
                changes.set(&PERMISSIONS, CheckedValue::Json(granted.to_actions()));
            }
            Err(wrong) => errors.merge(wrong),
        }
    }
    errors.refuse()?;
    Ok(changes)
}

/// Refuses permissions that the caller does not have. Callers cannot grant more than their own permissions.
fn check_covered(caller: &Caller, granted: Permissions) -> Result<(), Refusal> {
    if caller.permissions.covers(granted) { Ok(()) } else { Err(Refusal::forbidden()) }
}

fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let grants: Json = row.0.opt_json(at)?.unwrap_or_default();
        let covered = caller.permissions.covers(Permissions::from_actions(&grants));
        let holds =
            |action: &'static str| (action, caller.has_permission("roles", action) && (action != "edit" || covered));
        write_permissions(out, &ACTIONS.map(holds));
    }
    out.raw("}");
    Ok(())
}
