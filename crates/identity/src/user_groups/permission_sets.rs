//! The permission sets of a group (`docs/reference/permission-sets.md`).

use super::rights::{DELETE, EDIT, EDIT_PERM_SET, VIEW, check_exists, lock, needs};
use kit::answer::{Answer, Outcome};
use kit::limits::{self, Limit, LimitSummary};
use kit::permission_set::{self, Action, PERMISSIONS, RESERVED, Vocabulary, grants_schema};
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

/// The permission sets of a group, those of the system counted.
pub static GROUP_SETS: Limit = Limit {
    name: "user_group_permission_set",
    default: 10,
    many: "User Group Permission Sets",
    summary: LimitSummary::Additional("user_group_permission_sets"),
    ..Limit::EMPTY
};

static NAME: Key<String> = Key::new("name");
static TYPE: Key<String> = Key::new("type");
static GRANTS: Key<Json> = Key::new(PERMISSIONS);

/// The types of sets: value, text, and whether only the system makes sets of the type. No set has the type `owners`,
/// but schema documents list it.
const TYPES: [(&str, &str, bool); 4] = [
    ("everyone", "Everyone", true),
    ("members", "Members", true),
    ("owners", "Owners", true),
    ("custom", "Custom", false),
];

static VOCABULARY: Vocabulary = Vocabulary(&[permission_set::PermissionKey {
    name: "user_groups",
    actions: &[
        Action { name: "view", text: "View", bit: VIEW, needs: 0 },
        Action { name: "edit", text: "Edit", bit: EDIT, needs: VIEW },
        Action { name: "delete", text: "Delete", bit: DELETE, needs: VIEW },
    ],
}]);

/// A permission set of a group.
pub static SET: LazyLock<Resource> = LazyLock::new(|| {
    let types = TYPES.map(|(value, text, system)| Choice { system: Some(system), ..Choice::new(value, text) });
    let fields = [
        Field::id(),
        NAME.text(100)
            .example("Readers")
            .min_length(1)
            .required()
            .unique("user_group_permission_sets_name")
            .folded()
            .reserved(&RESERVED),
        TYPE.is(Kind::Enum { choices: types.into() }).read_only(),
        GRANTS.is(Kind::Object).schema(grants_schema).stored_by_resource(),
    ];
    let fields = fields.into_iter().chain(Field::audit());
    Resource::new("user_group_permission_sets", "UserGroupPermissionSet", "user_group_permission_sets", fields)
        .unselectable()
        .limit_items(GROUP_SETS.default)
});

static SHAPE: Shape = Shape::new(Declaration::Static(&SET), "t.permissions", write_grants);

pub fn routes() -> Vec<Route> {
    let collection = "/api/user-groups/{group_id}/permission-sets/";
    let single = "/api/user-groups/{group_id}/permission-sets/{set_id}/";
    vec![
        Route::list(collection, &SET, list).instance("user_groups.view"),
        Route::create(collection, &SET, create).instance("user_groups.edit_perm_set"),
        Route::options_below(collection, document),
        Route::edit(single, &SET, edit).instance("user_groups.edit_perm_set"),
        Route::delete(single, delete).instance("user_groups.edit_perm_set"),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    check_exists(conn, request.id())?;
    let mut document = options::document(&SET);
    VOCABULARY.describe(&mut document);
    document["restrictions"]["limit_items"] = limits::value(conn, &GROUP_SETS)?.into();
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let group = request.id();
    needs(conn, request.caller()?, group, VIEW)?;
    rows::list(request, conn, &SHAPE, Scope::of(Sql::new("t.group_id = $1").arg(group)).cacheable())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let group = request.id();
    lock(conn, group)?;
    needs(conn, request.caller()?, group, EDIT_PERM_SET)?;
    let (changes, grants) = accept(request, conn, group, None)?;
    let sql = Sql::new("SELECT count(*) FROM user_group_permission_sets WHERE group_id = $1").arg(group);
    let count = conn.one(&sql, |row| row.int(0))?;
    limits::check(conn, &GROUP_SETS, count, 1)?;
    let columns = [("group_id", group.into()), ("type", "custom".into()), ("permissions", grants.into())];
    let id = rows::insert(request, conn, &SET, &changes, &columns)?;
    rows::created(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let (group, id) = (request.id(), request.second_id());
    let set = change_target(request, conn)?;
    let (changes, grants) = accept(request, conn, group, Some(&set))?;
    let mut before = rows::load(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)?;
    before.set(&GRANTS, Value::Json(VOCABULARY.to_json(set.grants)));
    rows::update(request, conn, &SET, id, &before, &changes, &[("permissions", grants.into())])?;
    if set.grants & !grants != 0 {
        rights::object_rights_ended(request);
    }
    rows::changed(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let set = change_target(request, conn)?;
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
    resource: "user_group_permission_sets",
    when: When::Leaving,
    run: |_, conn, id| {
        for text in [
            "DELETE FROM user_group_set_users WHERE set_id = $1",
            "DELETE FROM user_group_set_groups WHERE set_id = $1",
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
    grants: i64,
}

impl Set {
    /// Whether the system made the set: it keeps its name, cannot be deleted, and has no assignees.
    pub fn is_system(&self) -> bool {
        self.kind != "custom"
    }

    /// The actions that the set's type accepts, as bits.
    fn allowed(&self) -> i64 {
        if self.kind == "everyone" { VIEW } else { VIEW | EDIT | DELETE }
    }
}

/// A set of a group, with its row locked; 404 when the group has no such set.
pub fn load_for_change(conn: &mut Conn, group: i64, id: i64) -> Result<Set, Refusal> {
    let sql = Sql::new(
        "SELECT name, type, permissions FROM user_group_permission_sets WHERE id = $1 AND group_id = $2 FOR UPDATE",
    );
    let set = conn.opt(&sql.arg(id).arg(group), |row| {
        Ok(Set { id, name: row.text(0)?.to_owned(), kind: row.text(1)?.to_owned(), grants: row.int(2)? })
    })?;
    set.ok_or_else(Refusal::not_found)
}

/// The path's set with its row locked, when the caller has the right and `If-Match` fits.
fn change_target(request: &Request, conn: &mut Conn) -> Result<Set, Refusal> {
    let set = load_for_change(conn, request.id(), request.second_id())?;
    needs(conn, request.caller()?, request.id(), EDIT_PERM_SET)?;
    rows::check_if_match(request, conn, &SHAPE, set.id)?;
    Ok(set)
}

/// Accepts a body: its changes, and the actions that the set has afterwards, as bits.
fn accept(request: &Request, conn: &mut Conn, group: i64, set: Option<&Set>) -> Result<(Changes, i64), Refusal> {
    let own_name = set.filter(|set| set.is_system()).map(|set| set.name.as_str());
    let id = set.map(|set| set.id);
    let mut accepted = permission_set::accepted(conn, &SET, &request.object()?, id, ("group_id", group), own_name)?;
    let (current, allowed) = set.map_or((0, VIEW | EDIT | DELETE), |set| (set.grants, set.allowed()));
    let mut grants = current;
    if let Some(Json::Object(sent)) = accepted.changes.get(&GRANTS) {
        match VOCABULARY.merge(&sent, current, allowed) {
            Ok(merged) => grants = merged,
            Err(errors) => accepted.errors.merge(errors),
        }
        accepted.changes.set(&GRANTS, Value::Json(VOCABULARY.to_json(grants)));
    }
    accepted.errors.refuse()?;
    Ok((accepted.changes, grants))
}

/// Inserts the two sets that the system makes for every group. They have no creator and no entry in the log.
pub fn insert_system_sets(request: &Request, conn: &mut Conn, group: i64) -> Result<(), Refusal> {
    for (kind, grants) in [("everyone", 0), ("members", VIEW)] {
        let mut changes = Changes::new();
        changes.set(&NAME, kind);
        let columns = [("group_id", group.into()), ("type", Arg::from(kind)), ("permissions", grants.into())];
        rows::insert_row(conn, &SET, &changes, &columns, request.now, None)?;
    }
    Ok(())
}

fn write_grants(out: &mut Writer, _: Form, row: &Cell<'_>, at: usize, _: &Request) -> Result<(), Error> {
    VOCABULARY.write(out.name(PERMISSIONS), row.int(at)?.unwrap_or(0));
    Ok(())
}
