//! The permission sets of a class, which give actions on the class and on all of its records
//! (`docs/reference/object-classes.md`).

use crate::rights::{
    ALL, CLASS_EDIT_PERM_SET, CLASS_VIEW, CLASS_VOCABULARY, CREATE, ClassRights, LIST, VIEW, lock_class, of_class,
    rights_on_class,
};
use kit::answer::{Answer, Outcome};
use kit::limits::{self, Limit, LimitSummary};
use kit::permission_set::{self, PERMISSIONS, RESERVED, grants_schema};
use kit::reactions::{Reaction, When};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::Route;
use kit::rows::{self, Cell, Declaration, Scope, Shape};
use resource::json::{Cells, Form, Writer};
use resource::{Changes, Choice, Field, Key, Kind, Resource, Value, options};
use serde_json::Value as Json;
use std::sync::LazyLock;
use store::{Arg, Conn, Error, Sql};

/// The permission sets of a class, that of the system counted.
pub static CLASS_SETS: Limit = Limit {
    name: "object_class_permission_set",
    default: 10,
    many: "Object Class Permission Sets",
    summary: LimitSummary::Additional("object_class_permission_sets"),
    ..Limit::EMPTY
};

static NAME: Key<String> = Key::new("name");
static TYPE: Key<String> = Key::new("type");
static GRANTS: Key<Json> = Key::new(PERMISSIONS);

/// The types of sets: value, text, and whether only the system makes sets of the type.
const TYPES: [(&str, &str, bool); 2] = [("everyone", "Everyone", true), ("custom", "Custom", false)];

/// A permission set of a class.
pub static SET: LazyLock<Resource> = LazyLock::new(|| {
    let types = TYPES.map(|(value, text, system)| Choice { system: Some(system), ..Choice::new(value, text) });
    let fields = [
        Field::id(),
        NAME.text(100)
            .example("Bookkeepers")
            .min_length(1)
            .required()
            .unique("object_class_permission_sets_name")
            .folded()
            .reserved(&RESERVED),
        TYPE.is(Kind::Enum { choices: types.into() }).read_only(),
        GRANTS.is(Kind::Object).schema(grants_schema).stored_by_resource(),
    ];
    let fields = fields.into_iter().chain(Field::audit());
    Resource::new("object_class_permission_sets", "ObjectClassPermissionSet", "object_class_permission_sets", fields)
        .unselectable()
        .limit_items(CLASS_SETS.default)
});

static SHAPE: Shape = Shape::new(Declaration::Static(&SET), "t.permissions", write_grants);

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
    let mut document = options::document(&SET);
    CLASS_VOCABULARY.describe(&mut document);
    document["restrictions"]["limit_items"] = limits::value(conn, &CLASS_SETS)?.into();
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?.needs(CLASS_VIEW)?;
    rows::list(request, conn, &SHAPE, Scope::of(Sql::new("t.class_id = $1").arg(request.id())).cacheable())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let class = request.id();
    let rights = rights_for_change(request, conn)?;
    let (changes, grants) = accept(request, conn, rights, None)?;
    let count = Sql::new("SELECT count(*) FROM object_class_permission_sets WHERE class_id = $1").arg(class);
    let count = conn.one(&count, |row| row.int(0))?;
    limits::check(conn, &CLASS_SETS, count, 1)?;
    let columns = [("class_id", class.into()), ("type", "custom".into()), ("permissions", grants.into())];
    let id = rows::insert(request, conn, &SET, &changes, &columns)?;
    rows::created(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let (set, rights) = change_target(request, conn)?;
    let (changes, grants) = accept(request, conn, rights, Some(&set))?;
    let mut before = rows::load(conn, &SHAPE, set.id)?.ok_or_else(Refusal::not_found)?;
    before.set(&GRANTS, Value::Json(CLASS_VOCABULARY.to_json(set.grants)));
    rows::update(request, conn, &SET, set.id, &before, &changes, &[("permissions", grants.into())])?;
    if set.grants & !grants != 0 {
        rights::object_rights_ended(request);
    }
    rows::changed(request, conn, &SHAPE, set.id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (set, _) = change_target(request, conn)?;
    if set.is_system() {
        let text = SET.field(TYPE.name()).and_then(|field| field.kind.choice_text(&set.kind)).unwrap_or_default();
        return Err(Refusal::bad(format!("Permission set of type {text} is restricted and cannot be deleted.")));
    }
    rows::delete(request, conn, &SET, set.id, &set.name)?;
    rights::object_rights_ended(request);
    Ok(Answer::empty())
}

/// Deletes the assignments to a set that is deleted.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "object_class_permission_sets",
    when: When::Leaving,
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

/// A stored set.
pub struct Set {
    pub id: i64,
    pub name: String,
    kind: String,
    /// The actions, as bits.
    pub grants: i64,
}

impl Set {
    /// Whether the system made the set: it keeps its name, cannot be deleted, and has no assignees.
    pub fn is_system(&self) -> bool {
        self.kind != "custom"
    }

    /// The actions that the set's type accepts, as bits.
    fn allowed(&self) -> i64 {
        if self.kind == "everyone" { CLASS_VIEW | CREATE | LIST | VIEW } else { ALL }
    }
}

/// A set of a class, with its row locked; 404 when the class has no such set.
pub fn load_for_change(conn: &mut Conn, class: i64, id: i64) -> Result<Set, Refusal> {
    let sql = Sql::new(
        "SELECT name, type, permissions FROM object_class_permission_sets WHERE id = $1 AND class_id = $2 FOR UPDATE",
    );
    let set = conn.opt(&sql.arg(id).arg(class), |row| {
        Ok(Set { id, name: row.text(0)?.to_owned(), kind: row.text(1)?.to_owned(), grants: row.int(2)? })
    })?;
    set.ok_or_else(Refusal::not_found)
}

/// What the caller holds on the path's class, whose row is locked and whose sets he may change.
fn rights_for_change(request: &Request, conn: &mut Conn) -> Result<ClassRights, Refusal> {
    lock_class(conn, request.id())?;
    let rights = of_class(conn, request.caller()?, request.id())?;
    rights.needs(CLASS_EDIT_PERM_SET)?;
    Ok(rights)
}

/// The path's set with its row locked, when the caller has the right and `If-Match` fits.
fn change_target(request: &Request, conn: &mut Conn) -> Result<(Set, ClassRights), Refusal> {
    let rights = rights_for_change(request, conn)?;
    let set = load_for_change(conn, request.id(), request.second_id())?;
    rows::check_if_match(request, conn, &SHAPE, set.id)?;
    Ok((set, rights))
}

/// Accepts a body: its changes, and the actions that the set has afterwards, as bits. Nobody gives an action that he lacks.
fn accept(
    request: &Request,
    conn: &mut Conn,
    rights: ClassRights,
    set: Option<&Set>,
) -> Result<(Changes, i64), Refusal> {
    let own_name = set.filter(|set| set.is_system()).map(|set| set.name.as_str());
    let id = set.map(|set| set.id);
    let scope = ("class_id", request.id());
    let mut accepted = permission_set::accepted(conn, &SET, &request.object()?, id, scope, own_name)?;
    let (current, allowed) = set.map_or((0, ALL), |set| (set.grants, set.allowed()));
    let mut grants = current;
    if let Some(Json::Object(sent)) = accepted.changes.get(&GRANTS) {
        match CLASS_VOCABULARY.merge(&sent, current, allowed) {
            Ok(merged) => grants = merged,
            Err(errors) => accepted.errors.merge(errors),
        }
        accepted.changes.set(&GRANTS, Value::Json(CLASS_VOCABULARY.to_json(grants)));
    }
    if !rights.has(grants & !current) {
        return Err(Refusal::forbidden());
    }
    accepted.errors.refuse()?;
    Ok((accepted.changes, grants))
}

/// Inserts the set that the system makes for every class. It has no creator and no entry in the log.
pub fn insert_system_set(request: &Request, conn: &mut Conn, class: i64) -> Result<(), Refusal> {
    let mut changes = Changes::new();
    changes.set(&NAME, "everyone");
    let columns = [("class_id", class.into()), ("type", Arg::from("everyone")), ("permissions", 0.into())];
    rows::insert_row(conn, &SET, &changes, &columns, request.now, None)?;
    Ok(())
}

fn write_grants(out: &mut Writer, _: Form, row: &Cell<'_>, at: usize, _: &Request) -> Result<(), Error> {
    CLASS_VOCABULARY.write(out.name(PERMISSIONS), row.int(at)?.unwrap_or(0));
    Ok(())
}
