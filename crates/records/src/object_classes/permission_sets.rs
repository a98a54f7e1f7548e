//! The permission sets of a class, which grant actions on the class and on all of its records
//! (`docs/reference/object-classes.md`).

use crate::rights::{
    ALL, CLASS_EDIT_PERM_SET, CLASS_VIEW, CLASS_VOCABULARY, CREATE, ClassRights, LIST, VIEW, load_class_rights,
    lock_class, rights_on_class,
};
use kit::answer::Outcome;
use kit::ids::{ClassId, ClassSetId};
use kit::limits::{Limit, LimitSummary};
use kit::permission_set::{self, PERMISSIONS, PermissionSets, StoredSet};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Changes, Resource};
use std::marker::PhantomData;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of permission sets of a class, including the system's set.
pub static CLASS_SETS: Limit = Limit {
    name: "object_class_permission_set",
    default: 10,
    many: "Object Class Permission Sets",
    summary: LimitSummary::Additional("object_class_permission_sets"),
    ..Limit::EMPTY
};

/// The types of sets: value, text, and true if only the system creates sets of the type.
const TYPES: [(&str, &str, bool); 2] = [("everyone", "Everyone", true), ("custom", "Custom", false)];

/// A permission set of a class.
pub static SET: LazyLock<Resource> = LazyLock::new(|| {
    let fields = permission_set::fields(TYPES, "Bookkeepers", "object_class_permission_sets_name");
    Resource::new("object_class_permission_sets", "ObjectClassPermissionSet", "object_class_permission_sets", fields)
        .unselectable()
        .limit_items(CLASS_SETS.default)
});

/// The permission sets of classes.
pub static SETS: PermissionSets<ClassId, ClassSetId> = PermissionSets {
    resource: &SET,
    vocabulary: &CLASS_VOCABULARY,
    limit: &CLASS_SETS,
    parent_column: "class_id",
    ids: PhantomData,
};

static SHAPE: RowShape = RowShape::new(Declaration::Static(&SET), "t.permissions", write_grants);

pub fn routes() -> Vec<Route> {
    let collection = "/api/object-classes/{class_id}/permission-sets/";
    let single = "/api/object-classes/{class_id}/permission-sets/{set_id}/";
    vec![
        Route::list(collection, &SET, list).instance("object_class.view"),
        Route::create(collection, &SET, create).instance("object_class.edit_perm_set"),
        Route::options_below(collection, document),
        Route::edit(single, &SET, edit).instance("object_class.edit_perm_set"),
        Route::delete(single, delete).instance("object_class.edit_perm_set"),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    SETS.document(conn)
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?.require(CLASS_VIEW)?;
    rows::list(
        request,
        conn,
        &SHAPE,
        Scope::matching(Sql::new("t.class_id = $1").arg(request.id::<ClassId>())).cacheable(),
    )
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let rights = rights_for_change(request, conn)?;
    let (changes, grants) = accept(request, conn, rights, None)?;
    let id = SETS.insert(request, conn, request.id(), &changes, grants)?;
    rows::created_answer(request, conn, &SHAPE, id.get())
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let (set, rights) = change_target(request, conn)?;
    let (changes, grants) = accept(request, conn, rights, Some(&set))?;
    let before =
        rows::load(conn, &SHAPE, set.id.get())?.ok_or_else(|| StoreError::internal("a locked set is missing"))?;
    SETS.update(request, conn, set.id, before, &changes, (set.grants, grants))?;
    rows::edited_answer(request, conn, &SHAPE, set.id.get())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (set, _) = change_target(request, conn)?;
    SETS.delete(request, conn, &set)
}

/// Deletes the assignments to a deleted set.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "object_class_permission_sets",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        for text in [
            "DELETE FROM object_class_set_users WHERE set_id = $1",
            "DELETE FROM object_class_set_groups WHERE set_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(())
    },
};

/// Locks the row of the path's class and returns the caller's rights on it. Refuses callers who may not change its sets.
fn rights_for_change(request: &Request, conn: &mut Conn) -> Result<ClassRights, Refusal> {
    lock_class(conn, request.id())?;
    let rights = load_class_rights(conn, request.caller()?, request.id())?;
    rights.require(CLASS_EDIT_PERM_SET)?;
    Ok(rights)
}

/// Loads the path's set and locks its row. Refuses callers without the right, and an `If-Match` that differs.
fn change_target(request: &Request, conn: &mut Conn) -> Result<(StoredSet<ClassSetId>, ClassRights), Refusal> {
    let rights = rights_for_change(request, conn)?;
    let set = SETS.load_for_change(conn, request.id(), request.second_id())?;
    rows::check_if_match(request, conn, &SHAPE, set.id.get())?;
    Ok((set, rights))
}

/// Checks a body. Returns its changes, and the set's actions after the write, as bits. Callers cannot grant actions that they
/// lack.
fn accept(
    request: &Request,
    conn: &mut Conn,
    rights: ClassRights,
    set: Option<&StoredSet<ClassSetId>>,
) -> Result<(Changes, i64), Refusal> {
    let mut accepted = SETS.check_body(conn, &request.object()?, request.id(), set)?;
    let (current, allowed) = set.map_or((0, ALL), |set| (set.grants, allowed(set)));
    let grants = CLASS_VOCABULARY.accept(&mut accepted, current, allowed);
    if !rights.allows(grants & !current) {
        return Err(Refusal::forbidden());
    }
    accepted.errors.refuse()?;
    Ok((accepted.changes, grants))
}

/// The actions that the type of a set allows, as bits.
fn allowed(set: &StoredSet<ClassSetId>) -> i64 {
    if set.kind == "everyone" { CLASS_VIEW | CREATE | LIST | VIEW } else { ALL }
}

fn write_grants(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    _: &Request,
) -> Result<(), StoreError> {
    CLASS_VOCABULARY.write(out.name(PERMISSIONS), row.int(at)?.unwrap_or(0));
    Ok(())
}
