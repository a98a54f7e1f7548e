//! Object classes: `/api/object-classes/` (`docs/reference/object-classes.md`), with their owners, their permission sets, and the
//! assignees of a set.

mod access;
pub(crate) mod assignees;
pub(crate) mod class;
mod description;
pub(crate) mod fields;
pub(crate) mod owners;
pub(crate) mod permission_sets;

use crate::rights::{
    CLASS_DELETE, CLASS_EDIT, CLASS_VIEW, HELD, SHAPE_TOKENS, global, load_class_rights, lock_class, rights_on_class,
    visible_classes,
};
use crate::tables;
use crate::visible_records;
use class::{
    ALIAS, CLASS, CLASS_ACTIONS, LABEL_FIELD, NAME, OBJECT_CLASSES, RECORD_ACTIONS, free_class_alias, is_alias,
};
use http::StatusCode;
use kit::answer::{Answer, EntityTag, Instance, Outcome, etag};
use kit::autocomplete;
use kit::caller::Caller;
use kit::ids::ClassId;
use kit::limits;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::sql::{OWN, conditions, order, tokens};
use kit::rows::{self, Declaration, Relations, RowCells, RowShape, Scope};
use resource::json::{Cells, JsonWriter};
use resource::{Changes, CheckedBody, message, select};
use std::collections::HashMap;
use std::sync::Mutex;
use store::{Conn, Sql, StoreError};

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list("/api/object-classes/", &CLASS, list).requires("object_classes", "list"),
        Route::create("/api/object-classes/", &CLASS, create).requires("object_classes", "create").alters_tables(),
        Route::options_below("/api/object-classes/", document),
        autocomplete::route("/api/object-classes/autocomplete/", complete),
        Route::view("/api/object-classes/{class_id}/", &CLASS, view).with_read(view).instance("object_classes.view"),
        Route::edit("/api/object-classes/{class_id}/", &CLASS, edit).instance("object_classes.edit"),
        Route::delete("/api/object-classes/{class_id}/", delete).instance("object_classes.delete").alters_tables(),
    ];
    routes.push(description::route());
    routes.extend(fields::routes());
    routes.extend(owners::routes());
    routes.extend(permission_sets::routes());
    routes.extend(assignees::routes());
    routes.extend(access::routes());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::value(&rows::document(conn, &CLASS)?))
}

fn complete(request: &Request, conn: &mut Conn) -> Outcome {
    let source = autocomplete::LabelSource { table: "object_classes", text: "name", fold: "name_fold" };
    let scope = scope(request.caller()?, conn)?;
    autocomplete::answer(request, conn, &source, scope)
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let scope = scope(request.caller()?, conn)?;
    // The classes of the page are read first, so that one query counts their records together.
    let select = select(&CLASS, &request.query)?;
    let mut page = Sql::new("SELECT t.id FROM object_classes t WHERE ");
    page.append(&scope.condition);
    conditions(&mut page, OWN, &select.filters, &Relations::new(), request.now);
    order(&mut page, OWN, &CLASS, &select.ordering);
    page.page(select.limit, select.offset);
    let classes = conn.query_all(&page, |row| row.id(0))?;
    let counts = visible_records::counts(request, conn, &classes)?;
    rows::list(request, conn, &RecordCounts::new(counts).shape(), scope)
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    load_class_rights(conn, request.caller()?, request.id())?;
    answer(request, conn, StatusCode::OK, request.id())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let caller = request.caller()?;
    // The lock ensures that an alias that is found free is still free when it is stored.
    fields::relations::lock_all(conn)?;
    let mut accepted = check_body(request, conn, None)?;
    if accepted.changes.get(&ALIAS).is_none() {
        let name = accepted.changes.get(&NAME).unwrap_or_default();
        accepted.changes.set(&ALIAS, free_class_alias(conn, &name)?);
    }
    let id = ClassId::new(rows::insert(request, conn, &CLASS, &accepted.changes, &[])?);
    tables::create_class(conn, id)?;
    let name = accepted.changes.get(&NAME).unwrap_or_default();
    owners::make_first_owner(request, conn, id, name, caller.user)?;
    permission_sets::SETS.insert_system_set(request, conn, id, "everyone", 0)?;
    answer(request, conn, StatusCode::CREATED, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id: ClassId = request.id();
    let before = load_for_change(request, conn, CLASS_EDIT)?;
    let changes = check_body(request, conn, Some(id))?.changes;
    rows::update(request, conn, &CLASS, id.get(), &before, &changes, &[])?;
    raise_version(conn, id)?;
    answer(request, conn, StatusCode::OK, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    rights_on_class(request, conn)?.require(CLASS_DELETE)?;
    // The table is locked before the row, as by writers of records.
    tables::lock_for_change(conn, id)?;
    let before = load_for_change(request, conn, CLASS_DELETE)?;
    let relations = Sql::new("SELECT 1 FROM object_class_fields WHERE related_object_class = $1 AND class_id <> $1");
    if tables::has_records(conn, id)? {
        return Err(Refusal::bad_request("Object class has records and cannot be deleted."));
    }
    if conn.query_optional(&relations.arg(id), |_| Ok(()))?.is_some() {
        return Err(Refusal::bad_request("Object class is in use."));
    }
    rows::delete(request, conn, &CLASS, id.get(), &before.get(&NAME).unwrap_or_default())?;
    Ok(Answer::empty())
}

/// Checks a body: the rules of the declaration, the form of the alias, and that the label field is a field of the type `string`.
fn check_body(request: &Request, conn: &mut Conn, id: Option<ClassId>) -> Result<CheckedBody, Refusal> {
    let mut accepted = rows::check_body(conn, &CLASS, &request.object()?, id.map(ClassId::get))?;
    let alias = accepted.changes.get(&ALIAS);
    if alias.is_some_and(|alias| !is_alias(&alias)) && !accepted.errors.has_field(ALIAS.name()) {
        accepted.errors.add(ALIAS.name(), message::VALUE);
    }
    if let Some(label) = accepted.changes.get(&LABEL_FIELD) {
        let sql = Sql::new("SELECT 1 FROM object_class_fields WHERE class_id = $1 AND alias = $2 AND type = 'string'");
        if conn.query_optional(&sql.arg(id).arg(&label), |_| Ok(()))?.is_none() {
            accepted.errors.add(LABEL_FIELD.name(), message::choice(label));
        }
    }
    accepted.errors.refuse()?;
    Ok(CheckedBody { changes: accepted.changes, ..Default::default() })
}

/// Loads the stored class and locks its row. Refuses callers without the action on it, and an `If-Match` that differs.
fn load_for_change(request: &Request, conn: &mut Conn, action: i64) -> Result<Changes, Refusal> {
    let id = request.id();
    lock_class(conn, id)?;
    load_class_rights(conn, request.caller()?, id)?.require(action)?;
    let shape = RecordCounts::new(HashMap::new());
    request.check_if_match(|| Ok(instance(request, conn, shape, id)?.1))?;
    let stored = rows::load(conn, &RowShape::from_declaration(Declaration::Static(&CLASS)), id.get())?;
    Ok(stored.ok_or_else(|| StoreError::internal("a locked class is missing"))?)
}

/// Raises the version of a class after a change of it, its fields or their options. Cached declarations become outdated.
pub fn raise_version(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    conn.exec(&Sql::new("UPDATE object_classes SET version = version + 1 WHERE id = $1").arg(class)).map(|_| ())
}

/// The classes that the caller may view. For callers who may view every class, the counter is the total.
fn scope(caller: &Caller, conn: &mut Conn) -> Result<Scope, StoreError> {
    let mut scope = Scope::matching(visible_classes(caller)).cacheable();
    if global(caller) & CLASS_VIEW != 0 {
        scope.total = Some(limits::count_used(conn, &OBJECT_CLASSES)?);
    }
    Ok(scope)
}

fn answer(request: &Request, conn: &mut Conn, status: StatusCode, id: ClassId) -> Outcome {
    let counts = visible_records::counts(request, conn, &[id])?;
    let (instance, tag) = instance(request, conn, RecordCounts::new(counts), id)?;
    Ok(Answer { tag: Some(tag), ..Answer::instance(status, instance) })
}

/// Returns a class as an instance, and its tag, which does not depend on the number of records.
fn instance(
    request: &Request,
    conn: &mut Conn,
    counted: RecordCounts,
    id: ClassId,
) -> Result<(Instance, EntityTag), Refusal> {
    let place = counted.place.clone();
    let instance = rows::view_id(request, conn, &counted.shape(), id.get())?;
    let (begin, end) = *web::lock(&place);
    let tag = etag(&[&instance.body[..begin], &instance.body[end..]].concat());
    Ok((instance, tag))
}

/// The number of records of each class that the caller may view, for `num_of_records`.
struct RecordCounts {
    counts: HashMap<ClassId, i64>,
    /// The position of the number in the bytes that were written last.
    place: std::sync::Arc<Mutex<(usize, usize)>>,
}

impl RecordCounts {
    fn new(counts: HashMap<ClassId, i64>) -> RecordCounts {
        RecordCounts { counts, place: Default::default() }
    }

    fn shape(self) -> RowShape {
        let mut extra = Sql::new("t.id, ");
        tokens(&mut extra, HELD, &SHAPE_TOKENS);
        RowShape::with_declaration(Declaration::Static(&CLASS), extra, move |out, _, row, at, request| {
            self.write(out, row, at, request)
        })
    }

    /// Writes `num_of_records` and `_meta`. A caller who receives a class may view it.
    fn write(&self, out: &mut JsonWriter, row: &RowCells<'_>, at: usize, request: &Request) -> Result<(), StoreError> {
        let class = ClassId::new(row.int(at)?.unwrap_or(0));
        let begin = out.name("num_of_records").bytes().len();
        let end = out.int(self.counts.get(&class).copied().unwrap_or(0)).bytes().len();
        *web::lock(&self.place) = (begin, end);
        let actions = row.int(at + 1)?.unwrap_or(0) | request.caller.as_deref().map_or(0, global);
        out.name("_meta").raw("{").name("permissions").raw("{");
        for (action, bit) in CLASS_ACTIONS {
            out.name(action).bool(action == "view" || actions & bit != 0);
        }
        out.name("object_records").raw("{");
        for (action, bit) in RECORD_ACTIONS {
            out.name(action).bool(actions & bit != 0);
        }
        out.raw("}}}");
        Ok(())
    }
}

/// Deletes the data of a deleted class, and its tables.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "object_classes",
    when: ReactionTime::Leaving,
    run: |request, conn, id| {
        let id = ClassId::new(id);
        crate::object_records::files::leave_class(request, conn, id)?;
        for text in [
            "DELETE FROM mcp_connector_classes WHERE object_class = $1",
            "DELETE FROM record_set_connectors WHERE permission_set IN (SELECT s.id FROM record_permission_sets s WHERE s.class_id = $1)",
            "DELETE FROM record_permission_sets WHERE class_id = $1",
            "DELETE FROM object_class_set_users WHERE set_id IN (SELECT s.id FROM object_class_permission_sets s WHERE s.class_id = $1)",
            "DELETE FROM object_class_set_groups WHERE set_id IN (SELECT s.id FROM object_class_permission_sets s WHERE s.class_id = $1)",
            "DELETE FROM object_class_permission_sets WHERE class_id = $1",
            "DELETE FROM object_class_owners WHERE class_id = $1",
            "DELETE FROM object_class_fields WHERE class_id = $1",
            "DELETE FROM deleted_records WHERE class_id = $1",
            "DELETE FROM record_counts WHERE class_id = $1",
            "DELETE FROM record_viewers WHERE class_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(tables::drop_class(conn, id)?)
    },
};
