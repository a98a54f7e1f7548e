//! The actions of a caller on single records (`docs/reference/object-records.md`). They come from the rights on the class, from
//! ownership, and from the record permission sets that are assigned to the caller or their groups. All add up.

use crate::classes::{Class, class_at, table};
use crate::rights::{ClassRights, RECORD_ACTIONS, RECORD_ALL, VIEW, select_held};
use crate::tables::lock_for_write;
use identity::principals::push_principals;
use kit::caller::Caller;
use kit::ids::{ClassId, ConnectorId, RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::tokens;
use resource::Id;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// A record with the caller's actions on it.
#[derive(Clone)]
pub struct RecordAccess {
    pub id: RecordId,
    /// The number of the record within the class.
    pub n: i64,
    pub owner: Option<UserId>,
    pub class: Arc<Class>,
    /// The actions that the caller may perform on the record.
    pub actions: i64,
}

impl RecordAccess {
    pub fn allows(&self, action: i64) -> bool {
        self.actions & action == action
    }

    /// Refuses a caller without an action by 403. Every caller with an action may view the record.
    pub fn require(&self, action: i64) -> Result<(), Refusal> {
        if self.allows(action) { Ok(()) } else { Err(Refusal::forbidden()) }
    }
}

/// Loads the record of this id with the caller's actions. `None` if the caller may not view such a record.
pub fn load_record_access(request: &Request, conn: &mut Conn, id: RecordId) -> Result<Option<RecordAccess>, Refusal> {
    Ok(load(request, conn, id, false)?.filter(|record| record.allows(VIEW)))
}

/// Loads the record of this id for a change and locks its row. `None` if the caller may not view such a record.
pub fn for_change(request: &Request, conn: &mut Conn, id: RecordId) -> Result<Option<RecordAccess>, Refusal> {
    Ok(load(request, conn, id, true)?.filter(|record| record.allows(VIEW)))
}

/// Loads the record of the path. Answers 404 if the caller may not view such a record.
pub fn load_from_path(request: &Request, conn: &mut Conn) -> Result<RecordAccess, Refusal> {
    load_record_access(request, conn, request.id())?.ok_or_else(Refusal::not_found)
}

/// Loads the record of this id with the caller's actions, even if there are none. `for_change` locks its row.
pub fn load(
    request: &Request,
    conn: &mut Conn,
    id: RecordId,
    for_change: bool,
) -> Result<Option<RecordAccess>, Refusal> {
    let caller = request.caller()?;
    let mut sql = Sql::new("SELECT t.id, t.version, ");
    select_held(&mut sql, caller);
    let from = ["records r", "r.id", " JOIN object_classes t ON t.id = r.class_id"];
    from_open(&mut sql, caller, VIEW, &Sql::new("$1").arg(id), from, id);
    let class_row =
        conn.query_optional(&sql, |row| Ok((row.id(0)?, row.int(1)?, ClassRights::new(caller, row.int(2)?))))?;
    let Some((class, version, on_class)) = class_row else { return Ok(None) };
    if for_change {
        lock_for_write(conn, class)?;
    }
    let mut sql = Sql::new("SELECT t.n, t.owner, ");
    if for_change {
        // The class may have changed during the wait for the lock of its table. For the same reason assignments are read after
        // the lock of the row.
        sql.push("(SELECT c.version FROM object_classes c WHERE c.id = ").bind(class).push("), CAST(NULL AS BIGINT)");
    } else {
        sql.push("CAST(").bind(version).push(" AS BIGINT), ");
        select_granted(&mut sql, caller, "id");
    }
    sql.push(" FROM ").name(&table(class)).push(" t WHERE t.id = ").bind(id);
    sql.push(if for_change { " FOR UPDATE" } else { "" });
    let read_row = |row: &store::Row<'_>| Ok((row.int(0)?, row.opt_id(1)?, row.int(2)?, row.opt_int(3)?));
    let Some((n, owner, version, granted)) = conn.query_optional(&sql, read_row)? else { return Ok(None) };
    let Some(class) = class_at(&request.app, &request.build, conn, class, version)? else { return Ok(None) };
    let mut actions = on_class.record_actions(caller, owner, granted.unwrap_or(0));
    if for_change && actions != RECORD_ALL {
        actions |= load_set_actions(conn, caller, &[id])?.remove(&id).unwrap_or(0);
    }
    Ok(Some(RecordAccess { id, n, owner, class, actions }))
}

/// SQL for the assignments to records, with their sets. The `+ 0` prevents SQLite from reading all assignments of the caller by
/// the index of principals.
const GRANTS: &str = "record_assignees a JOIN record_permission_sets s ON s.id = a.permission_set + 0";

/// Appends the assignments, after the actions that the sets grant to the caller. An agent has the actions that they grant to its
/// connector. The connector must be associated with their class.
fn select_grants(sql: &mut Sql, caller: &Caller, columns: [&'static str; 3]) {
    let [before, after, from] = columns;
    let Some(agent) = &caller.agent else {
        sql.push(before).push("s.permissions").push(after).push(from).push(GRANTS);
        return;
    };
    sql.push(before).push("s.permissions & x.permissions").push(after).push(from).push(GRANTS);
    sql.push(" JOIN record_set_connectors x ON x.permission_set = s.id AND x.connector = ").bind(agent.connector);
    sql.push(" JOIN mcp_connector_classes k ON k.connector = x.connector AND k.object_class = s.class_id");
}

/// SQL for the condition that an assignment belongs to `{caller}`.
const BY_CALLER: &str = " AND (a.principal + 0 = {caller} OR EXISTS (SELECT 1 FROM user_group_members m \
    WHERE m.user_id = {caller} AND m.group_id = -a.principal))";

/// Appends the FROM of a statement about one record, or about a part of it. It selects the row whose column `id_column` is `id`, and
/// optionally has a further `JOIN`. For an agent it begins with `o`, a row with the `record` if the agent may perform an action
/// on it. Hidden and missing records run the same statement, so timing reveals nothing. It reads the same rows for both and for
/// any other assignees, and the record only afterwards. `record` is an expression, null for a missing row.
pub fn from_open(
    sql: &mut Sql,
    caller: &Caller,
    action: i64,
    record: &Sql,
    [table, id_column, join]: [&'static str; 3],
    id: impl Id,
) {
    let Some(agent) = &caller.agent else {
        sql.push(" FROM ").push(table).push(join).push(" WHERE ").push(id_column).push(" = ").bind(id.to_number());
        return;
    };
    open_to_agent(sql.push(" FROM "), caller.user, agent.connector, action, record);
    sql.push(" o LEFT JOIN ").push(table).push(" ON ").push(id_column).push(" = ").bind(id.to_number());
    if !join.is_empty() {
        sql.push(" LEFT").push(join);
    }
}

/// Appends a table with one row, or with none if an agent may not perform an action on a record. It reads from the sets of the
/// class to the assignments of the person. For a missing record, or a class without the connector, it reads the sets of another
/// class.
fn open_to_agent(sql: &mut Sql, user: UserId, connector: ConnectorId, action: i64, record: &Sql) {
    sql.push("(SELECT w.record FROM (SELECT COALESCE(CAST(").append(record);
    sql.push(
        " AS BIGINT), 0) AS record, (SELECT MIN(k.object_class) FROM mcp_connector_classes k WHERE k.connector = ",
    );
    sql.bind(connector).push(
        ") AS other) w CROSS JOIN record_permission_sets s CROSS JOIN record_set_connectors x CROSS JOIN record_assignees a \
         WHERE s.class_id = COALESCE((SELECT k.object_class FROM records r CROSS JOIN mcp_connector_classes k \
         WHERE r.id = w.record AND k.object_class = r.class_id AND k.connector = ",
    );
    sql.bind(connector).push("), w.other) AND x.permission_set = s.id AND x.connector = ").bind(connector);
    sql.push(" AND (s.permissions & x.permissions & ").bind(action).push(") <> 0 AND a.record = w.record");
    push_principals(sql.push(" AND a.permission_set = s.id AND a.principal IN "), user);
    sql.push(" LIMIT 1)");
}

/// Appends the column of the actions that record permission sets grant the caller on a record. `column` of the table `t` contains
/// the id of the record. The value is null if they grant none.
pub fn select_granted(sql: &mut Sql, caller: &Caller, column: &str) {
    select_grants(sql.push("(SELECT "), caller, ["bit_or(", ")", " FROM "]);
    sql.push(" WHERE a.record = t.").name(column);
    tokens(sql, BY_CALLER, &[("{caller}", caller.user)]);
    sql.push(")");
}

/// The actions that record permission sets grant the caller on each of these records.
pub fn load_set_actions(
    conn: &mut Conn,
    caller: &Caller,
    records: &[RecordId],
) -> Result<HashMap<RecordId, i64>, StoreError> {
    let mut actions_by_record: HashMap<RecordId, i64> = HashMap::new();
    if records.is_empty() {
        return Ok(actions_by_record);
    }
    let mut sql = Sql::new("SELECT a.record, ");
    select_grants(&mut sql, caller, ["", "", " FROM "]);
    sql.push(" WHERE a.record").push_any(records.iter().copied());
    tokens(&mut sql, BY_CALLER, &[("{caller}", caller.user)]);
    conn.for_each_row(&sql, |row| {
        *actions_by_record.entry(row.id(0)?).or_default() |= row.int(1)?;
        Ok(())
    })?;
    Ok(actions_by_record)
}

/// The caller's actions on each of these records of one class. Records are pairs of an id and an owner.
pub fn actions(
    conn: &mut Conn,
    caller: &Caller,
    on_class: ClassRights,
    records: &[(RecordId, Option<UserId>)],
) -> Result<HashMap<RecordId, i64>, StoreError> {
    // Sets cannot add anything to all actions.
    let needs_sets = |owner: Option<UserId>| on_class.record_actions(caller, owner, 0) != RECORD_ALL;
    let ids: Vec<RecordId> = records.iter().filter(|(_, owner)| needs_sets(*owner)).map(|(id, _)| *id).collect();
    let sets = load_set_actions(conn, caller, &ids)?;
    let entry_of = |(id, owner): &(RecordId, Option<UserId>)| {
        (*id, on_class.record_actions(caller, *owner, sets.get(id).copied().unwrap_or(0)))
    };
    Ok(records.iter().map(entry_of).collect())
}

/// Returns the ids of the records of a class that the caller may view. These records are locked against deletion until the end of
/// a write.
pub fn viewable(conn: &mut Conn, caller: &Caller, class: ClassId, ids: &[RecordId]) -> Result<Vec<RecordId>, Refusal> {
    let mut open = ids.to_vec();
    if let Some(agent) = &caller.agent {
        for id in ids {
            let mut sql = Sql::new("SELECT o.record FROM ");
            open_to_agent(&mut sql, caller.user, agent.connector, VIEW, &Sql::new("$1").arg(*id));
            if conn.query_optional(sql.push(" o"), |_| Ok(()))?.is_none() {
                open.retain(|other_id| other_id != id);
            }
        }
    }
    if open.is_empty() {
        return Ok(open);
    }
    let mut sql = Sql::new("SELECT ");
    select_held(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id = ").bind(class);
    let Some(on_class) = conn.query_optional(&sql, |row| Ok(ClassRights::new(caller, row.int(0)?)))? else {
        return Ok(Vec::new());
    };
    let mut sql = Sql::new("SELECT t.id, t.owner FROM ");
    sql.name(&table(class)).push(" t WHERE t.id").push_any(open);
    sql.push(" ORDER BY t.id FOR SHARE");
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.opt_id(1)?)))?;
    let actions = actions(conn, caller, on_class, &rows)?;
    Ok(rows.into_iter().map(|(id, _)| id).filter(|id| actions.get(id).is_some_and(|bits| bits & VIEW != 0)).collect())
}

/// The permissions on a record that answers show, in this order.
pub const SHOWN: [(&str, i64); 4] = RECORD_ACTIONS.named(["view", "edit", "delete", "edit_owners"]);
