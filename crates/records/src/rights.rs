//! The rights on a class and its records (`docs/reference/object-classes.md`). It declares the actions as bits, and computes the
//! actions of a caller by account type, roles, ownership and class permission sets. It also selects the classes that a caller may
//! view. `object_records/record_access.rs` computes the rights on single records by their sets and owners. `visible_records.rs` selects
//! the records of a class that a caller may view.

use identity::principals::{principals, set_applies_to_caller};
use kit::caller::{Agent, Caller};
use kit::ids::{ClassId, UserId};
use kit::permission_set::{PermissionKey, SetAction, Vocabulary};
use kit::permissions::Permissions;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::tokens;
use kit::rows::{CALLER, OWNER};
use store::{Conn, Row, Sql, StoreError};

pub const CLASS_VIEW: i64 = 1;
pub const CLASS_EDIT: i64 = 1 << 1;
pub const CLASS_DELETE: i64 = 1 << 2;
pub const CLASS_EDIT_PERM_SET: i64 = 1 << 3;
pub const CREATE: i64 = 1 << 4;
pub const LIST: i64 = 1 << 5;
pub const VIEW: i64 = 1 << 6;
pub const EDIT: i64 = 1 << 7;
pub const DELETE: i64 = 1 << 8;
pub const EDIT_OWNERS: i64 = 1 << 9;
pub const TASKS_CREATE: i64 = 1 << 10;
pub const TASKS_EDIT: i64 = 1 << 11;
pub const TASKS_VIEW: i64 = 1 << 12;
pub const TASKS_DELETE: i64 = 1 << 13;
pub const TASKS_COMPLETE: i64 = 1 << 14;
pub const TASKS_ASSIGN: i64 = 1 << 15;

/// Every action on a class and its records.
pub const ALL: i64 = (1 << 16) - 1;
/// Every action on a single record and its tasks.
pub const RECORD_ALL: i64 = ALL & !(CLASS_VIEW | CLASS_EDIT | CLASS_DELETE | CLASS_EDIT_PERM_SET | CREATE | LIST);
/// The actions that each make the class visible to their holder.
const OPENS_CLASS: i64 = CLASS_VIEW | CREATE | VIEW;
// The SQL of this file contains these numbers.
const _: () = assert!(ALL == 65535 && OPENS_CLASS == 81 && TASKS_VIEW == 4096);

/// The actions on a class.
pub const CLASS_ACTIONS: PermissionKey = PermissionKey {
    name: "object_classes",
    actions: &[
        SetAction { name: "view", text: "View", bit: CLASS_VIEW, needs: 0 },
        SetAction { name: "edit", text: "Edit", bit: CLASS_EDIT, needs: CLASS_VIEW },
        SetAction { name: "delete", text: "Delete", bit: CLASS_DELETE, needs: CLASS_VIEW },
        SetAction { name: "edit_perm_set", text: "Edit permission sets", bit: CLASS_EDIT_PERM_SET, needs: CLASS_VIEW },
    ],
};

/// The actions on tasks of records.
pub const TASK_ACTIONS: PermissionKey = PermissionKey {
    name: "tasks",
    actions: &[
        SetAction { name: "create", text: "Create", bit: TASKS_CREATE, needs: TASKS_VIEW },
        SetAction { name: "edit", text: "Edit", bit: TASKS_EDIT, needs: TASKS_VIEW },
        SetAction { name: "view", text: "View", bit: TASKS_VIEW, needs: VIEW },
        SetAction { name: "delete", text: "Delete", bit: TASKS_DELETE, needs: TASKS_VIEW },
        SetAction { name: "complete", text: "Complete", bit: TASKS_COMPLETE, needs: TASKS_VIEW },
        SetAction { name: "assign", text: "Assign", bit: TASKS_ASSIGN, needs: TASKS_EDIT | TASKS_VIEW },
    ],
};

/// The actions on all records of a class.
pub const RECORD_ACTIONS: PermissionKey = PermissionKey {
    name: "object_records",
    actions: &[
        SetAction { name: "create", text: "Create", bit: CREATE, needs: 0 },
        SetAction { name: "list", text: "List", bit: LIST, needs: VIEW },
        SetAction { name: "view", text: "View", bit: VIEW, needs: LIST },
        SetAction { name: "edit", text: "Edit", bit: EDIT, needs: VIEW },
        SetAction { name: "delete", text: "Delete", bit: DELETE, needs: VIEW },
        SetAction { name: "edit_owners", text: "Edit owners", bit: EDIT_OWNERS, needs: VIEW },
    ],
};

/// The actions that a permission set of a class can grant: on the class, and on all of its records and their tasks.
pub static CLASS_VOCABULARY: Vocabulary = Vocabulary(&[CLASS_ACTIONS, RECORD_ACTIONS, TASK_ACTIONS]);

/// The actions that a record permission set can grant: on a single record and its tasks.
pub static RECORD_VOCABULARY: Vocabulary = Vocabulary(&[
    PermissionKey {
        name: "object_records",
        actions: &[
            SetAction { name: "edit", text: "Edit", bit: EDIT, needs: VIEW },
            SetAction { name: "view", text: "View", bit: VIEW, needs: 0 },
            SetAction { name: "delete", text: "Delete", bit: DELETE, needs: VIEW },
        ],
    },
    TASK_ACTIONS,
]);

/// The actions of a caller on every class, by account type and roles.
pub fn global(caller: &Caller) -> i64 {
    if caller.is_super() { ALL } else { from_permissions(caller.permissions) }
}

/// The actions that global permissions grant on every class.
pub fn from_permissions(permissions: Permissions) -> i64 {
    let bits_of = |key: PermissionKey| {
        let actions = key.actions.iter().filter(|action| permissions.contains(key.name, action.name));
        actions.fold(0, |bits_so_far, action| bits_so_far | action.bit)
    };
    bits_of(CLASS_ACTIONS) | bits_of(RECORD_ACTIONS)
}

/// SQL that tests whether the class permission set `s` applies to `{caller}`.
macro_rules! counts_for_caller {
    () => {
        set_applies_to_caller!("object_class_set_users", "object_class_set_groups", "")
    };
}

/// SQL for the actions of `{caller}` on the class `t`, as its owner if that is `{owner}`, and by its class permission sets.
pub const HELD: &str = concat!(
    "(CASE WHEN EXISTS (SELECT 1 FROM object_class_owners o WHERE o.class_id = t.id AND o.user_id = {owner}) \
     THEN 65535 ELSE COALESCE((SELECT ",
    "bit_or(s.permissions) \
     FROM object_class_permission_sets s WHERE s.class_id = t.id AND s.permissions <> 0 AND ",
    counts_for_caller!(),
    "), 0) END)"
);

/// SQL for the ids of the classes in which `{caller}` may view a single record, as its owner or by a record permission set. Each
/// of these sets that grants an action also grants `view`.
const CLASSES_OF_RECORDS: &str = concat!(
    "SELECT v.class_id FROM record_viewers v WHERE v.principal = {owner} GROUP BY v.class_id HAVING sum(v.owned) > 0 \
     UNION ALL SELECT s.class_id FROM record_permission_sets s WHERE s.permissions <> 0 \
     AND s.class_id IN (SELECT v.class_id FROM record_viewers v WHERE v.principal IN ",
    principals!(),
    ") AND EXISTS (SELECT 1 FROM record_assignees a WHERE a.permission_set = s.id AND a.principal IN ",
    principals!(),
    ")"
);

/// SQL for the ids of the classes that `{caller}` may view as their owner or by their class permission sets.
const CLASSES_OF_SETS: &str = concat!(
    "SELECT o.class_id FROM object_class_owners o WHERE o.user_id = {owner} \
     UNION ALL SELECT s.class_id FROM object_class_permission_sets s WHERE (s.permissions & 81) <> 0 AND ",
    counts_for_caller!()
);

/// SQL for the ids of the classes in which `{caller}` may view the tasks of all records. The reason is the ownership of the class
/// or a class permission set.
pub(crate) const CLASSES_OF_TASKS: &str = concat!(
    "SELECT o.class_id FROM object_class_owners o WHERE o.user_id = {owner} \
     UNION ALL SELECT s.class_id FROM object_class_permission_sets s WHERE (s.permissions & 4096) <> 0 AND ",
    counts_for_caller!()
);

/// The values of `{caller}` and `{owner}` for a caller. The second one owns nothing if ownership grants the caller nothing.
pub(crate) fn principal_tokens(caller: &Caller) -> [(&'static str, UserId); 2] {
    [("{caller}", caller.user), ("{owner}", caller.ownership())]
}

/// The placeholders of `{caller}` and `{owner}` in the columns of a shape.
pub const SHAPE_TOKENS: [(&str, i64); 2] = [("{caller}", CALLER), ("{owner}", OWNER)];

/// Returns the condition on `object_classes t` for the classes that a caller may view.
pub fn visible_classes(caller: &Caller) -> Sql {
    if let Some(agent) = &caller.agent {
        let mut sql = Sql::new("t.id IN (");
        select_associated(&mut sql, agent);
        sql.push(")");
        return sql;
    }
    if global(caller) & OPENS_CLASS != 0 {
        return Sql::new("1 = 1");
    }
    let values = principal_tokens(caller);
    let mut sql = Sql::new("t.id IN (");
    tokens(&mut sql, CLASSES_OF_SETS, &values);
    tokens(sql.push(" UNION ALL "), CLASSES_OF_RECORDS, &values);
    sql.push(")");
    sql
}

/// Appends the column of the caller's actions on `object_classes t`, for [`ClassRights::new`].
pub fn select_held(sql: &mut Sql, caller: &Caller) {
    match caller.agent {
        Some(_) => drop(sql.push("CAST(0 AS BIGINT)")),
        None => tokens(sql, HELD, &principal_tokens(caller)),
    }
}

/// Appends the statement that selects the classes of an agent's connector.
pub fn select_associated(sql: &mut Sql, agent: &Agent) {
    sql.push("SELECT k.object_class FROM mcp_connector_classes k WHERE k.connector = ").bind(agent.connector);
}

/// Appends two columns on `object_classes t` that [`ClassRights::read`] reads.
pub fn select_rights(sql: &mut Sql, caller: &Caller) {
    let values = principal_tokens(caller);
    select_held(sql, caller);
    if let Some(agent) = &caller.agent {
        select_associated(sql.push(", CASE WHEN t.id IN ("), agent);
        sql.push(") THEN 1 ELSE 0 END");
        return;
    }
    if global(caller) & OPENS_CLASS != 0 {
        sql.push(", 1");
        return;
    }
    sql.push(", CASE WHEN t.id IN (");
    tokens(sql, CLASSES_OF_RECORDS, &values);
    sql.push(") THEN 1 ELSE 0 END");
}

/// The rights of a caller on a class and on all of its records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassRights {
    held: i64,
    views_records: bool,
}

impl ClassRights {
    /// Reads the columns of [`select_rights`], which begin at `at`.
    pub fn read(caller: &Caller, row: &Row<'_>, at: usize) -> Result<ClassRights, StoreError> {
        Ok(ClassRights { held: row.int(at)? | global(caller), views_records: row.flag(at + 1)? })
    }

    /// Creates the rights from the actions on a class, without the visibility of its records.
    pub fn new(caller: &Caller, bits: i64) -> ClassRights {
        ClassRights { held: bits | global(caller), views_records: false }
    }

    /// The actions on the class and on all of its records.
    pub fn actions(self) -> i64 {
        self.held
    }

    /// The actions of the caller on one record of the class. An owner has all of them. Others have the actions on all records,
    /// and those that record permission sets grant on this one.
    pub fn record_actions(self, caller: &Caller, owner: Option<UserId>, granted: i64) -> i64 {
        if caller.has_rights_of(owner) { RECORD_ALL } else { (self.held & RECORD_ALL) | granted }
    }

    pub fn allows(self, action: i64) -> bool {
        self.held & action == action
    }

    /// Returns whether the class may be viewed: by a right on it, or because one of its records may be viewed or created.
    pub fn sees_class(self) -> bool {
        self.views_records || self.held & OPENS_CLASS != 0
    }

    /// Answers 404 unless the class may be viewed, and 403 without the action.
    pub fn require(self, action: i64) -> Result<(), Refusal> {
        self.needs_to_see()?;
        if self.allows(action) { Ok(()) } else { Err(Refusal::forbidden()) }
    }

    /// Answers 404 unless the class may be viewed.
    pub fn needs_to_see(self) -> Result<(), Refusal> {
        if self.sees_class() { Ok(()) } else { Err(Refusal::not_found()) }
    }
}

/// Loads the rights of a caller on a class. Answers 404 if there is no such class, or the caller may not view it.
pub fn load_class_rights(conn: &mut Conn, caller: &Caller, class: ClassId) -> Result<ClassRights, Refusal> {
    let rights = load_class_actions(conn, caller, class)?.ok_or_else(Refusal::not_found)?;
    rights.needs_to_see()?;
    Ok(rights)
}

/// Returns the same as [`load_class_rights`], in two steps. First it reads the rights on the class itself, which nearly all
/// writers have. Only if these do not show the class, it reads whether the caller may view one of its records, which is slower.
pub fn load_class_rights_for_write(conn: &mut Conn, caller: &Caller, class: ClassId) -> Result<ClassRights, Refusal> {
    let mut sql = Sql::new("SELECT ");
    select_held(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id = ").bind(class);
    let stored_rights = conn.query_optional(&sql, |row| Ok(ClassRights::new(caller, row.int(0)?)))?;
    match stored_rights.ok_or_else(Refusal::not_found)? {
        rights if rights.sees_class() => Ok(rights),
        _ => load_class_rights(conn, caller, class),
    }
}

/// Loads the rights of a caller on a class, even if there are none. `None` if there is no such class.
pub fn load_class_actions(conn: &mut Conn, caller: &Caller, class: ClassId) -> Result<Option<ClassRights>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    select_rights(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id = ").bind(class);
    conn.query_optional(&sql, |row| ClassRights::read(caller, row, 0))
}

/// Loads the caller's rights on the path's class. Answers 404 if they may not view it.
pub fn rights_on_class(request: &Request, conn: &mut Conn) -> Result<ClassRights, Refusal> {
    load_class_rights(conn, request.caller()?, request.id())
}

/// Locks the row of a class for a change of the class or its parts, and returns its name. Answers 404 if there is no such class.
pub fn lock_class(conn: &mut Conn, class: ClassId) -> Result<String, Refusal> {
    let sql = Sql::new("SELECT name FROM object_classes WHERE id = $1 FOR UPDATE").arg(class);
    conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?.ok_or_else(Refusal::not_found)
}

/// Returns whether a user owns a class.
pub fn owns_class(conn: &mut Conn, user: UserId, class: ClassId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM object_class_owners WHERE class_id = $1 AND user_id = $2").arg(class).arg(user);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns whether an account has rights on single classes or records: it owns one, or is assigned to a set, directly or through
/// a group.
pub fn holds_records(conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT CASE WHEN EXISTS (");
    let values = [("{caller}", user)];
    tokens(&mut sql, "SELECT 1 FROM object_class_owners o WHERE o.user_id = {caller}", &values);
    tokens(sql.push(") OR EXISTS ("), "SELECT 1 FROM object_class_set_users a WHERE a.user_id = {caller}", &values);
    tokens(
        sql.push(") OR EXISTS ("),
        "SELECT 1 FROM object_class_set_groups a JOIN user_group_members m ON m.group_id = a.group_id WHERE m.user_id = {caller}",
        &values,
    );
    tokens(
        sql.push(") OR EXISTS ("),
        concat!(
            "SELECT 1 FROM record_assignees a JOIN record_permission_sets s ON s.id = a.permission_set WHERE a.principal IN ",
            principals!()
        ),
        &values,
    );
    tokens(
        sql.push(") OR EXISTS ("),
        "SELECT v.class_id FROM record_viewers v WHERE v.principal = {caller} GROUP BY v.class_id HAVING sum(v.owned) > 0",
        &values,
    );
    sql.push(") THEN 1 ELSE 0 END");
    conn.query_one(&sql, |row| row.flag(0))
}
