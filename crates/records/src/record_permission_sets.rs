//! The permission sets for single records of a class, and the actions of them that each connector of agents has:
//! `/api/object-classes/{id}/record-permission-sets/` (`docs/reference/object-records.md`).
//! The actions of a connector are always a part of its set's actions: both are changed under the lock of the set's row.

use crate::object_records::leaving;
use crate::rights::{
    ALL, CLASS_EDIT_PERM_SET, ClassRights, EDIT, RECORD_VOCABULARY, TASKS_CREATE, VIEW, load_class_rights, lock_class,
    rights_on_class,
};
use identity::principals::push_principals;
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, ConnectorId, RecordId, RecordSetId, UserId};
use kit::limits::{Limit, LimitSummary};
use kit::permission_set::{GRANTS, NAME, PERMISSIONS, PermissionSets, grants_schema};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{
    Changes, CheckedValue, Errors, Field, FieldKey, FieldKind, JsonValue, Resource, UNDIRECTED, check_value, message,
    openapi, parse_id,
};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of record permission sets of a class.
pub static RECORD_SETS: Limit = Limit {
    name: "records_permission_set",
    default: 10,
    many: "Object Class Permission Sets",
    summary: LimitSummary::Additional("records_permission_sets"),
    ..Limit::EMPTY
};

/// The name of the field with the actions of each connector.
const MCP_PERMISSIONS: &str = "mcp_permissions";
/// The member of an item with the id of the connector.
const CONNECTOR: &str = "connector";

static MCP_GRANTS: FieldKey<Json> = FieldKey::new(MCP_PERMISSIONS);

/// A record permission set.
static SET: LazyLock<Resource> = LazyLock::new(|| declaration(|field| field));
/// A new set, for which connectors have no actions yet.
static NEW_SET: LazyLock<Resource> = LazyLock::new(|| declaration(Field::read_only));

static SETS: PermissionSets<ClassId, RecordSetId> = PermissionSets {
    resource: &SET,
    vocabulary: &RECORD_VOCABULARY,
    limit: &RECORD_SETS,
    parent_column: "class_id",
    ids: PhantomData,
};

fn declaration(mcp_permissions: fn(Field) -> Field) -> Resource {
    let fields = [
        Field::id(),
        NAME.text(100)
            .charset(UNDIRECTED)
            .example("Reviewers")
            .min_length(1)
            .required()
            .unique("record_permission_sets_name")
            .folded(),
        GRANTS.declare(FieldKind::Object).schema(set_schema).stored_by_resource(),
        mcp_permissions(MCP_GRANTS.declare(FieldKind::List).schema(connectors_schema).stored_by_resource()),
    ];
    let fields = fields.into_iter().chain(Field::audit());
    Resource::new("record_permission_sets", "RecordPermissionSet", "record_permission_sets", fields)
        .unselectable()
        .limit_items(RECORD_SETS.default)
        .with_extra_schemas(|_| {
            let name = openapi::object([("name", json!({"type": "string"}))]);
            let names =
                json!({"type": "object", "description": "By the id of the connector", "additionalProperties": name});
            vec![("_meta", openapi::object([("labels", openapi::object([("connectors", names)]))]))]
        })
}

fn set_schema() -> Json {
    let mut schema = grants_schema();
    schema["examples"] = json!([{"object_records": ["view"], "tasks": []}]);
    schema
}

fn connectors_schema() -> Json {
    let item = openapi::object([(CONNECTOR, json!({"type": "integer"})), (PERMISSIONS, set_schema())]);
    json!({"type": "array", "items": item})
}

pub fn routes() -> Vec<Route> {
    let collection = "/api/object-classes/{class_id}/record-permission-sets/";
    let single = "/api/object-classes/{class_id}/record-permission-sets/{set_id}/";
    vec![
        Route::list(collection, &SET, list).instance("object_class.view"),
        Route::create(collection, &NEW_SET, create).instance("object_class.edit_perm_set"),
        Route::options_below(collection, document),
        Route::edit(single, &SET, edit).instance("object_class.edit_perm_set"),
        Route::delete(single, delete).instance("object_class.edit_perm_set"),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    SETS.document(conn)
}

/// Lists the sets of a class for callers who may view the class.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    let connectors = connectors(conn, request.id(), None)?;
    let total = connectors.len() as i64;
    let scope = Scope::matching(Sql::new("t.class_id = $1").arg(request.id::<ClassId>())).cacheable();
    rows::list(request, conn, &shape(connectors), Scope { total: Some(total), ..scope })
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let class: ClassId = request.id();
    let rights = rights_for_change(request, conn)?;
    let accepted = accept(request, conn, rights, None)?;
    SETS.check_limit(conn, class)?;
    let columns = [("class_id", class.into()), ("permissions", accepted.grants.into())];
    let id = rows::insert(request, conn, &NEW_SET, &accepted.changes, &columns)?;
    let connectors = connectors(conn, class, Some(RecordSetId::new(id)))?;
    rows::created_answer(request, conn, &shape(connectors), id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let class = request.id();
    let (set, rights) = change_target(request, conn)?;
    let accepted = accept(request, conn, rights, Some(&set))?;
    let mut before =
        rows::load(conn, &STORED, set.id.get())?.ok_or_else(|| StoreError::internal("a locked set is missing"))?;
    before.set(&MCP_GRANTS, to_value(&set.connectors));
    SETS.update(request, conn, set.id, before, &accepted.changes, (set.grants, accepted.grants))?;
    store_connectors(conn, &set, &accepted)?;
    let connectors = connectors(conn, class, Some(set.id))?;
    rows::edited_answer(request, conn, &shape(connectors), set.id.get())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (set, _) = change_target(request, conn)?;
    rows::delete(request, conn, &SET, set.id.get(), &set.name)?;
    rights::object_rights_ended(request);
    Ok(Answer::empty())
}

/// Deletes the connectors' actions of a deleted set, and queues the removal of its assignments.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "record_permission_sets",
    when: ReactionTime::Leaving,
    run: |request, conn, id| {
        conn.exec(&Sql::new("DELETE FROM record_set_connectors WHERE permission_set = $1").arg(id))?;
        Ok(leaving::queue_set_removal(request, conn, RecordSetId::new(id))?)
    },
};

/// A stored set.
struct RecordPermissionSet {
    id: RecordSetId,
    name: String,
    /// The actions, as bits.
    grants: i64,
    connectors: Vec<AssociatedConnector>,
}

/// A connector that is associated with the class, with its actions of a set.
#[derive(Clone)]
struct AssociatedConnector {
    id: ConnectorId,
    name: String,
    /// The actions, as bits.
    grants: i64,
}

/// The actions of connectors in the format of `mcp_permissions`.
fn to_value(connectors: &[AssociatedConnector]) -> CheckedValue {
    let item = |connector: &AssociatedConnector| json!({CONNECTOR: connector.id, PERMISSIONS: RECORD_VOCABULARY.to_json(connector.grants)});
    CheckedValue::Json(connectors.iter().map(item).collect())
}

/// The sets of a class, or one of them, each with the connectors that are associated with the class.
fn connectors(
    conn: &mut Conn,
    class: ClassId,
    set: Option<RecordSetId>,
) -> Result<BTreeMap<RecordSetId, Vec<AssociatedConnector>>, StoreError> {
    let mut sql = Sql::new(
        "SELECT s.id, c.id, c.name, COALESCE(x.permissions, 0) FROM record_permission_sets s \
         LEFT JOIN mcp_connector_classes k ON k.object_class = s.class_id LEFT JOIN mcp_connectors c ON c.id = k.connector \
         LEFT JOIN record_set_connectors x ON x.permission_set = s.id AND x.connector = c.id WHERE s.class_id = ",
    );
    sql.bind(class);
    if let Some(set) = set {
        sql.push(" AND s.id = ").bind(set);
    }
    let mut of_sets: BTreeMap<RecordSetId, Vec<AssociatedConnector>> = BTreeMap::new();
    conn.for_each_row(sql.push(" ORDER BY s.id, c.id"), |row| {
        let connectors = of_sets.entry(row.id(0)?).or_default();
        if let Some(id) = row.opt_id(1)? {
            connectors.push(AssociatedConnector { id, name: row.text(2)?.to_owned(), grants: row.int(3)? });
        }
        Ok(())
    })?;
    Ok(of_sets)
}

/// The actions of a set that a connector has.
pub struct ConnectorActions {
    pub id: RecordSetId,
    pub name: String,
    /// The actions, as bits.
    grants: i64,
    /// True if the set assigns the person to a record.
    is_assigned: bool,
}

impl ConnectorActions {
    /// The actions in the format of sets.
    pub fn permissions(&self) -> Json {
        RECORD_VOCABULARY.to_json(self.grants)
    }
}

/// The sets of a class that grant actions to a connector, in ascending order of their ids, for an agent of a person.
pub fn sets_of_connector(
    conn: &mut Conn,
    class: ClassId,
    connector: ConnectorId,
    person: UserId,
) -> Result<Vec<ConnectorActions>, StoreError> {
    let mut sql = Sql::new("SELECT s.id, s.name, s.permissions & x.permissions, CASE WHEN EXISTS (SELECT 1 ");
    from_assignments(&mut sql, person).push(" AND a.permission_set = s.id) THEN 1 ELSE 0 END ");
    sql.push(
        "FROM record_permission_sets s JOIN record_set_connectors x ON x.permission_set = s.id AND x.connector = ",
    );
    sql.bind(connector).push(" WHERE s.class_id = ").bind(class);
    sql.push(" AND (s.permissions & x.permissions) <> 0 ORDER BY s.id");
    conn.query_all(&sql, |row| {
        let (id, name) = (row.id(0)?, row.text(1)?.to_owned());
        Ok(ConnectorActions { id, name, grants: row.int(2)?, is_assigned: row.flag(3)? })
    })
}

/// Returns a record for which an agent may create tasks by one of these sets. It prefers a record that the agent may edit.
pub fn record_for_tasks(
    conn: &mut Conn,
    sets: &[ConnectorActions],
    person: UserId,
) -> Result<Option<RecordId>, StoreError> {
    let makes = |set: &&ConnectorActions| set.is_assigned && set.grants & (VIEW | TASKS_CREATE) == VIEW | TASKS_CREATE;
    let Some(set) = sets.iter().filter(makes).max_by_key(|set| set.grants & EDIT) else { return Ok(None) };
    let mut sql = Sql::new("SELECT a.record ");
    from_assignments(&mut sql, person).push(" AND a.permission_set = ").bind(set.id).push(" LIMIT 1");
    conn.query_optional(&sql, |row| row.id(0))
}

/// Appends the assignments of a person and of their groups.
fn from_assignments(sql: &mut Sql, person: UserId) -> &mut Sql {
    push_principals(sql.push("FROM record_assignees a WHERE a.principal IN "), person);
    sql
}

/// Locks the row of the path's class and returns the caller's rights on it. Refuses callers who may not change its sets.
fn rights_for_change(request: &Request, conn: &mut Conn) -> Result<ClassRights, Refusal> {
    lock_class(conn, request.id())?;
    let rights = load_class_rights(conn, request.caller()?, request.id())?;
    rights.require(CLASS_EDIT_PERM_SET)?;
    Ok(rights)
}

/// Loads the path's set, and locks its row and the associations of its class. Refuses callers without the right, and an
/// `If-Match` that differs.
fn change_target(request: &Request, conn: &mut Conn) -> Result<(RecordPermissionSet, ClassRights), Refusal> {
    let (class, id) = (request.id::<ClassId>(), request.second_id::<RecordSetId>());
    let rights = rights_for_change(request, conn)?;
    let sql =
        Sql::new("SELECT name, permissions FROM record_permission_sets WHERE id = $1 AND class_id = $2 FOR UPDATE");
    let row = conn.query_optional(&sql.arg(id).arg(class), |row| Ok((row.text(0)?.to_owned(), row.int(1)?)))?;
    let (name, grants) = row.ok_or_else(Refusal::not_found)?;
    let associated = "SELECT connector FROM mcp_connector_classes WHERE object_class = $1 ORDER BY connector FOR SHARE";
    conn.for_each_row(&Sql::new(associated).arg(class), |_| Ok(()))?;
    let of_sets = connectors(conn, class, Some(id))?;
    rows::check_if_match(request, conn, &shape(of_sets.clone()), id.get())?;
    let connectors = of_sets.into_values().next().unwrap_or_default();
    Ok((RecordPermissionSet { id, name, grants, connectors }, rights))
}

/// A valid body.
struct CheckedSet {
    changes: Changes,
    /// The set's actions after the write, as bits.
    grants: i64,
    /// The actions of each connector after the write, in the order of the connectors.
    connectors: Vec<i64>,
}

/// Checks a body. Callers cannot grant actions that they lack on all records of the class, neither by the set nor to a connector.
fn accept(
    request: &Request,
    conn: &mut Conn,
    rights: ClassRights,
    set: Option<&RecordPermissionSet>,
) -> Result<CheckedSet, Refusal> {
    let body = request.object()?;
    let own = body.clone().filter_members(|name| name != MCP_PERMISSIONS);
    let scope = ("class_id", request.id());
    let mut accepted = rows::accepted_within(conn, &SET, &own, set.map(|set| set.id.get()), scope)?;
    let before = set.map_or(0, |set| set.grants);
    let grants = RECORD_VOCABULARY.accept(&mut accepted, before, ALL);
    let stored_connectors: &[AssociatedConnector] = set.map_or(&[], |set| &set.connectors);
    // If a set shrinks, the actions of all its connectors shrink too, even of those that were not sent.
    let mut connectors: Vec<AssociatedConnector> = stored_connectors
        .iter()
        .map(|connector| AssociatedConnector { grants: connector.grants & grants, ..connector.clone() })
        .collect();
    if let Some(list) = body.get(MCP_PERMISSIONS).filter(|_| set.is_some()) {
        merge_connectors(list, &mut connectors, &mut accepted.errors);
    }
    let is_new = |(before, after): (&AssociatedConnector, &AssociatedConnector)| after.grants & !before.grants;
    let new_bits = stored_connectors
        .iter()
        .zip(&connectors)
        .map(is_new)
        .fold(grants & !before, |bits_so_far, bits| bits_so_far | bits);
    if !rights.allows(new_bits) {
        return Err(Refusal::forbidden());
    }
    if !accepted.errors.has_field(PERMISSIONS) {
        connectors.iter().for_each(|connector| refuse_excess(connector, grants, &mut accepted.errors));
    }
    accepted.errors.refuse()?;
    if set.is_some() {
        accepted.changes.set(&MCP_GRANTS, to_value(&connectors));
    }
    Ok(CheckedSet {
        changes: accepted.changes,
        grants,
        connectors: connectors.iter().map(|connector| connector.grants).collect(),
    })
}

/// Applies the `mcp_permissions` of a body to the connectors of a set. Connectors and keys that are not sent remain unchanged.
fn merge_connectors(list: JsonValue<'_>, connectors: &mut [AssociatedConnector], errors: &mut Errors) {
    // Among one more item than connectors, one is unknown or a duplicate.
    let Some((items, _)) = list.as_list(connectors.len() + 1) else {
        let wrong = if list.is_null() { message::NULL.to_owned() } else { message::not_a_list(list.type_name()) };
        return errors.add(MCP_PERMISSIONS, wrong);
    };
    let mut unique_ids = Vec::new();
    for item in items {
        let Some(item) = item.as_object(|name| name == CONNECTOR || name == PERMISSIONS) else {
            errors.add(MCP_PERMISSIONS, message::not_an_object(item.type_name()));
            continue;
        };
        let Some(id) = item.get(CONNECTOR) else {
            errors.add_nested(MCP_PERMISSIONS, CONNECTOR, message::REQUIRED);
            continue;
        };
        let connector = match parse_id(id) {
            Ok(id) => connectors
                .iter_mut()
                .find(|connector| connector.id == id)
                .ok_or_else(|| message::invalid_id_message(id)),
            Err(wrong) => Err(wrong),
        };
        let connector = match connector {
            Ok(connector) if unique_ids.contains(&connector.id) => {
                Err("This list must contain unique connectors.".to_owned())
            }
            other => other,
        };
        match connector {
            Ok(connector) => {
                unique_ids.push(connector.id);
                merge_connector(item.get(PERMISSIONS), connector, errors);
            }
            Err(wrong) => errors.add(MCP_PERMISSIONS, wrong),
        }
    }
}

fn merge_connector(grants: Option<JsonValue<'_>>, connector: &mut AssociatedConnector, errors: &mut Errors) {
    let Some(grants) = grants else { return errors.add_nested(MCP_PERMISSIONS, PERMISSIONS, message::REQUIRED) };
    let refused = match check_value(&GRANTS.declare(FieldKind::Object), grants) {
        Ok(CheckedValue::Json(Json::Object(grants_by_name))) => {
            match RECORD_VOCABULARY.merge(&grants_by_name, connector.grants, ALL) {
                Ok(merged) => return connector.grants = merged,
                Err(refused) => refused,
            }
        }
        Ok(_) => return,
        Err(wrong) => {
            let mut refused = Errors::new();
            wrong.into_iter().for_each(|wrong| refused.add(PERMISSIONS, wrong));
            refused
        }
    };
    // Messages about the list as a whole remain.
    if !errors.has_field(MCP_PERMISSIONS) {
        errors.nest(MCP_PERMISSIONS, refused);
    }
}

/// Refuses actions of a connector that its set does not grant.
fn refuse_excess(connector: &AssociatedConnector, grants: i64, errors: &mut Errors) {
    let excess = connector.grants & !grants;
    if excess == 0 {
        return;
    }
    let names = RECORD_VOCABULARY.0.iter().flat_map(|key| {
        let beyond = key.actions.iter().filter(|action| action.bit & excess != 0);
        beyond.map(|action| format!("{}.{}", key.name, action.name))
    });
    let names: Vec<String> = names.collect();
    let (id, names) = (connector.id, names.join(", "));
    errors.add(MCP_PERMISSIONS, format!("Permissions of connector {id} exceed the permissions of the set: {names}"));
}

/// Stores the connectors' actions of a set.
fn store_connectors(conn: &mut Conn, set: &RecordPermissionSet, accepted: &CheckedSet) -> Result<(), StoreError> {
    for (connector, grants) in set.connectors.iter().zip(&accepted.connectors) {
        if connector.grants == *grants {
            continue;
        }
        let sql = Sql::new(
            "INSERT INTO record_set_connectors(permission_set, connector, permissions) VALUES ($1, $2, $3) \
             ON CONFLICT (permission_set, connector) DO UPDATE SET permissions = excluded.permissions",
        );
        conn.exec(&sql.arg(set.id).arg(connector.id).arg(*grants))?;
    }
    // The rows of former associations must stay within the set too.
    let sql = Sql::new("UPDATE record_set_connectors SET permissions = permissions & $1 WHERE permission_set = $2");
    conn.exec(&sql.arg(accepted.grants).arg(set.id))?;
    conn.exec(
        &Sql::new("DELETE FROM record_set_connectors WHERE permission_set = $1 AND permissions = 0").arg(set.id),
    )?;
    Ok(())
}

/// The stored values of a set.
static STORED: RowShape = RowShape::from_declaration(Declaration::Static(&SET));

/// The shape of sets with these connectors.
fn shape(of_sets: BTreeMap<RecordSetId, Vec<AssociatedConnector>>) -> RowShape {
    RowShape::with_declaration(
        Declaration::Static(&SET),
        Sql::new("t.id, t.permissions"),
        move |out, _: RowForm, row, at, _| {
            let connectors = of_sets.get(&RecordSetId::new(row.int(at)?.unwrap_or(0))).map_or(&[][..], Vec::as_slice);
            RECORD_VOCABULARY.write(out.name(PERMISSIONS), row.int(at + 1)?.unwrap_or(0));
            write_connectors(out, connectors);
            Ok(())
        },
    )
}

fn write_connectors(out: &mut JsonWriter, connectors: &[AssociatedConnector]) {
    out.name(MCP_PERMISSIONS).raw("[");
    for connector in connectors {
        RECORD_VOCABULARY
            .write(out.comma().raw("{").name(CONNECTOR).int(connector.id.get()).name(PERMISSIONS), connector.grants);
        out.raw("}");
    }
    out.raw("]").name("_meta").raw("{").name("labels").raw("{").name("connectors").raw("{");
    for connector in connectors {
        out.name(&connector.id.to_string()).raw("{").name("name").text(&connector.name).raw("}");
    }
    out.raw("}}}");
}
