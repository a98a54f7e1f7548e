//! The actions of a user on a class or a record, and their sources (`docs/reference/object-classes.md`,
//! `docs/reference/object-records.md`). The answers use the checks of requests themselves.

use crate::rights::{ALL, CLASS_VIEW, from_permissions, global, load_class_actions};
use identity::visibility::{visible_groups, visible_users};
use identity::{as_caller, as_caller_by_key, roles_of};
use kit::caller::Caller;
use kit::ids::{ClassId, GroupId, UserId};
use kit::permissions::Permissions;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::json::{JsonWriter, USER_REFERENCE};
use resource::{Errors, message, openapi};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use store::{Conn, Row, Sql, StoreError};

/// A resource with its actions, in the order of answers.
pub type ResourceActions = (&'static str, Vec<(&'static str, i64)>);

/// The user whose access is requested.
pub struct AccessSubject {
    /// The user as a caller.
    pub caller: Caller,
    /// True if the account can become active again. An anonymized account has no actions.
    pub is_usable: bool,
    /// True if the account is active.
    is_active: bool,
    reference: Vec<u8>,
    is_caller: bool,
}

/// The sources of actions, in the order of `ways`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessWay {
    AccountType,
    Owner,
    ClassOwner,
    Role,
    ClassPermissionSet,
    RecordPermissionSet,
}

impl AccessWay {
    const ALL: [AccessWay; 6] = [
        AccessWay::AccountType,
        AccessWay::Owner,
        AccessWay::ClassOwner,
        AccessWay::Role,
        AccessWay::ClassPermissionSet,
        AccessWay::RecordPermissionSet,
    ];

    fn name(self) -> &'static str {
        match self {
            AccessWay::AccountType => "account_type",
            AccessWay::Owner => "owner",
            AccessWay::ClassOwner => "class_owner",
            AccessWay::Role => "role",
            AccessWay::ClassPermissionSet => "class_permission_set",
            AccessWay::RecordPermissionSet => "record_permission_set",
        }
    }
}

/// The group through which a grant comes. It has neither id nor name if the caller may not view it.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantGroup {
    id: Option<GroupId>,
    name: Option<String>,
}

/// A source that grants actions to a user.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub source: AccessWay,
    /// The id of the role or set. `None` for other sources, and if the caller may not view it.
    pub id: Option<i64>,
    pub group: Option<GrantGroup>,
    pub name: Option<String>,
    /// The actions, as bits.
    pub bits: i64,
}

impl Grant {
    pub fn owner_access(source: AccessWay, bits: i64) -> Grant {
        Grant { source, id: None, group: None, name: None, bits }
    }

    /// Reads a set from the columns id, name, permissions, and id and name of the group.
    pub fn set_access(source: AccessWay, row: &Row<'_>) -> Result<Grant, StoreError> {
        let group = match row.opt_id(3)? {
            Some(id) => Some(GrantGroup { id: Some(id), name: row.opt_text(4)?.map(str::to_owned) }),
            None => None,
        };
        Ok(Grant { source, id: Some(row.int(0)?), group, name: Some(row.text(1)?.to_owned()), bits: row.int(2)? })
    }
}

impl AccessSubject {
    /// Returns the user of the parameter `user`, or the caller. Refuses other users unless the caller `may_ask`. If there is no
    /// such user, adds an error and returns `None`.
    pub fn subject_from_query(
        request: &Request,
        conn: &mut Conn,
        may_ask: bool,
        errors: &mut Errors,
    ) -> Result<Option<AccessSubject>, Refusal> {
        let caller = request.caller()?;
        let user_parameter = request.query.last_value("user");
        let user = user_parameter.map_or(Some(caller.user), |id| id.parse().ok().map(UserId::new));
        if user != Some(caller.user) && !may_ask {
            return Err(Refusal::forbidden());
        }
        let mut sql = Sql::new("SELECT t.status");
        for column in USER_REFERENCE {
            sql.push(", t.").name(column);
        }
        sql.push(" FROM users t WHERE t.id = ").bind(user.unwrap_or(UserId::NONE));
        sql.push(" AND ").append(&visible_users(caller));
        let row = conn.query_optional(&sql, |row| Ok((row.id(1)?, row.text(0)?.to_owned(), reference(row, 1)?)))?;
        let Some((user, status, reference)) = row else {
            errors.add("user", message::invalid_id_message(user_parameter.unwrap_or_default()));
            return Ok(None);
        };
        let (is_usable, is_active) = (status != "anonymized", status == "active");
        let is_caller = user == caller.user;
        let subject = match caller.key.filter(|_| is_caller) {
            Some(key) => as_caller_by_key(conn, user, key.id, request.now)?.ok_or_else(Refusal::forbidden)?,
            None => as_caller(conn, user)?,
        };
        Ok(Some(AccessSubject { caller: subject, is_usable, is_active, reference, is_caller }))
    }

    /// Removes ids and names that the caller may not view from the grants of another user. These are roles, the permission sets
    /// of the class, and groups.
    pub fn hide(
        &self,
        request: &Request,
        conn: &mut Conn,
        class: ClassId,
        grants: &mut [Grant],
    ) -> Result<(), Refusal> {
        if self.is_caller {
            return Ok(());
        }
        let caller = request.caller()?;
        let views_roles = ["view", "list"].iter().any(|action| caller.has_permission("roles", action));
        // Every caller who may view a record of the class may list its record permission sets.
        let views_sets = load_class_actions(conn, caller, class)?.is_some_and(|rights| rights.allows(CLASS_VIEW));
        let groups = grants.iter().filter_map(|grant| grant.group.as_ref()?.id);
        let groups = viewable_groups(conn, caller, groups.collect())?;
        for grant in grants {
            let is_viewable = match grant.source {
                AccessWay::Role => views_roles,
                AccessWay::ClassPermissionSet => views_sets,
                AccessWay::AccountType | AccessWay::Owner | AccessWay::ClassOwner | AccessWay::RecordPermissionSet => {
                    true
                }
            };
            if !is_viewable {
                (grant.id, grant.name) = (None, None);
                grant.group = grant.group.take().map(|_| GrantGroup::default());
            }
            if let Some(group) = grant.group.as_mut().filter(|group| group.id.is_some_and(|id| !groups.contains(&id))) {
                *group = GrantGroup::default();
            }
        }
        Ok(())
    }

    /// The grants of the account type, the roles, the ownership of a class and its sets.
    pub fn grants_of_class(&self, conn: &mut Conn, class: ClassId) -> Result<Vec<Grant>, StoreError> {
        let user = self.caller.user;
        let account_type = self.caller.account_type;
        // A service account has no roles, so all permissions of its key come from the account type.
        let bits = match account_type.is_super() || self.caller.key.is_some() {
            true => global(&self.caller),
            false => from_permissions(Permissions::for_account_type(account_type)),
        };
        let mut grants = vec![Grant {
            name: Some(account_type.name().to_owned()),
            ..Grant::owner_access(AccessWay::AccountType, bits)
        }];
        if crate::rights::owns_class(conn, self.caller.ownership(), class)? {
            grants.push(Grant::owner_access(AccessWay::ClassOwner, ALL));
        }
        grants.extend(roles_of(conn, user)?.into_iter().map(|role| Grant {
            source: AccessWay::Role,
            id: Some(role.id),
            group: None,
            name: Some(role.name),
            bits: from_permissions(role.permissions),
        }));
        let mut sql = Sql::new(
            "SELECT s.id, s.name, s.permissions, CAST(NULL AS BIGINT), CAST(NULL AS TEXT) \
             FROM object_class_permission_sets s WHERE s.class_id = ",
        );
        sql.bind(class)
            .push(" AND (s.id IN (SELECT a.set_id FROM object_class_set_users a WHERE a.user_id = ")
            .bind(user);
        sql.push(if account_type.is_standard() { ") OR s.type = 'everyone')" } else { "))" });
        sql.push(
            " UNION ALL SELECT s.id, s.name, s.permissions, g.id, g.name FROM object_class_permission_sets s \
             JOIN object_class_set_groups a ON a.set_id = s.id JOIN user_group_members m ON m.group_id = a.group_id \
             JOIN user_groups g ON g.id = a.group_id WHERE s.class_id = ",
        );
        sql.bind(class).push(" AND m.user_id = ").bind(user);
        grants.extend(conn.query_all(&sql, |row| Grant::set_access(AccessWay::ClassPermissionSet, row))?);
        Ok(grants)
    }

    /// Returns the answer: the actions that the user may perform (a part of `bits`), and the sources of each.
    pub fn answer(&self, actions: &[ResourceActions], bits: i64, mut grants: Vec<Grant>) -> Vec<u8> {
        let bits = if self.is_active { bits } else { 0 };
        grants.sort_unstable();
        let mut out = JsonWriter::with_capacity(4096);
        out.raw("{").name("user").raw_bytes(&self.reference).name("permissions").raw("{");
        for (resource, actions) in actions {
            out.name(resource).raw("{");
            for (action, bit) in actions {
                out.name(action).bool(bits & bit != 0);
            }
            out.raw("}");
        }
        out.raw("}").name("ways").raw("[");
        for (resource, actions) in actions {
            for (action, bit) in actions {
                for grant in grants.iter().filter(|grant| grant.bits & bit != 0) {
                    out.comma().raw("{").name("resource").text(resource).name("action").text(action);
                    write_grant(&mut out, grant);
                    out.raw("}");
                }
            }
        }
        out.raw("]}");
        out.into_bytes()
    }
}

fn write_grant(out: &mut JsonWriter, grant: &Grant) {
    out.name("source").text(grant.source.name()).name("id");
    match grant.id {
        Some(id) => out.int(id),
        None => out.raw("null"),
    };
    out.name("name").opt_text(grant.name.as_deref()).name("user_group");
    match &grant.group {
        Some(group) => {
            match group.id {
                Some(id) => out.raw("{").name("id").int(id.get()),
                None => out.raw("{").name("id").raw("null"),
            };
            out.name("name").opt_text(group.name.as_deref()).raw("}")
        }
        None => out.raw("null"),
    };
}

/// The groups among these that the caller may view.
fn viewable_groups(conn: &mut Conn, caller: &Caller, groups: Vec<GroupId>) -> Result<HashSet<GroupId>, StoreError> {
    if groups.is_empty() {
        return Ok(HashSet::new());
    }
    let mut sql = Sql::new("SELECT t.id FROM user_groups t WHERE t.id");
    sql.push_any(groups).push(" AND (").append(&visible_groups(caller)).push(")");
    Ok(conn.query_all(&sql, |row| row.id(0))?.into_iter().collect())
}

/// Reads the user reference in the columns from `at` on.
/// Loads the references to users, as JSON, and their full names.
pub fn load_references(conn: &mut Conn, users: Vec<UserId>) -> Result<HashMap<UserId, (Vec<u8>, String)>, StoreError> {
    if users.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sql = Sql::new("SELECT t.full_name");
    for column in USER_REFERENCE {
        sql.push(", t.").name(column);
    }
    sql.push(" FROM users t WHERE t.id").push_any(users);
    let read = |row: &Row<'_>| Ok((row.id(1)?, (reference(row, 1)?, row.text(0)?.to_owned())));
    Ok(conn.query_all(&sql, read)?.into_iter().collect())
}

fn reference(row: &Row<'_>, at: usize) -> Result<Vec<u8>, StoreError> {
    let mut out = JsonWriter::with_capacity(256);
    out.raw("{");
    for (n, name) in USER_REFERENCE.into_iter().enumerate() {
        out.name(name);
        match name {
            "id" => out.int(row.int(at + n)?),
            "is_deleted" => out.bool(row.flag(at + n)?),
            _ => out.text(row.text(at + n)?),
        };
    }
    out.raw("}");
    Ok(out.into_bytes())
}

/// The schema of the answer.
pub fn schema(title: &'static str, actions: &[ResourceActions]) -> Json {
    let bools = |actions: &[(&'static str, i64)]| {
        openapi::object(actions.iter().map(|(action, _)| (*action, json!({"type": "boolean"}))))
    };
    let permissions = openapi::object(actions.iter().map(|(resource, actions)| (*resource, bools(actions))));
    let nullable = |schema: Json| json!({"anyOf": [schema, {"type": "null"}]});
    let group = openapi::object([
        ("id", json!({"type": ["integer", "null"]})),
        ("name", json!({"type": ["string", "null"], "description": "Null, as the id, if the caller may not view it"})),
    ]);
    let way = openapi::object([
        ("resource", json!({"type": "string"})),
        ("action", json!({"type": "string"})),
        ("source", json!({"type": "string", "enum": AccessWay::ALL.map(AccessWay::name)})),
        (
            "id",
            json!({"type": ["integer", "null"], "description": "Of the role or set; null if the caller may not view it"}),
        ),
        ("name", json!({"type": ["string", "null"], "description": "Of the role or set, or the account type"})),
        ("user_group", nullable(openapi::titled("GroupOfWay", group))),
    ]);
    let ways = json!({"type": "array", "items": way, "description": "Sources of each action"});
    let answer = [("user", openapi::user_reference()), ("permissions", permissions), ("ways", ways)];
    openapi::titled(title, openapi::object(answer))
}

/// The query parameter `user`.
pub fn user_parameter() -> Json {
    openapi::query(
        "user",
        "The id of the user who is asked about; the caller, if it is not sent",
        json!({"type": "integer"}),
    )
}
