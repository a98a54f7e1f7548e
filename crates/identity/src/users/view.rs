//! The shapes of users, and the users that a caller may list (`docs/reference/users.md`).

use super::rules;
use super::user::{ACTIONS, SHOWN_STATUS, USER};
use crate::account::read_account_type;
use crate::visibility::visible_users;
use administration::IS_MAIL_SET_UP;
use http::StatusCode;
use kit::answer::{Answer, EntityTag, Instance, Outcome, etag};
use kit::caller::Caller;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::tokens;
use kit::rows::{self, Cacheable, Declaration, NOW, RowCells, RowShape, Scope, write_permissions};
use memchr::memmem;
use resource::Changes;
use resource::json::{Cells, JsonWriter, RowForm};
use std::borrow::Cow;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// SQL for the names of a user's roles, in the order of their ids: JSON strings separated by commas. Only `full` accounts have
/// roles.
const ROLE_NAMES: &str = ", (CASE WHEN t.account_type = 'full' THEN (SELECT string_agg(x.name, ',') FROM \
    (SELECT CAST(json_build_array(r.name) AS TEXT) AS name FROM user_roles ur JOIN roles r ON r.id = ur.role_id \
    WHERE ur.user_id = t.id ORDER BY ur.role_id) x) END)";

/// The shape of a single user.
pub static SHAPE: LazyLock<RowShape> = LazyLock::new(|| {
    let mut extra = extra_columns();
    extra.push(", ").push(IS_MAIL_SET_UP);
    RowShape::with_declaration(Declaration::Static(&USER), extra, write_meta).changes_at("t.locked_until")
});
/// The shape of users in lists.
pub static LIST: LazyLock<RowShape> =
    LazyLock::new(|| RowShape::with_declaration(Declaration::Static(&USER), extra_columns(), write_meta));

/// Returns the columns from which [`write_meta`] writes the members that the declaration cannot express.
fn extra_columns() -> Sql {
    let mut extra = Sql::new("t.account_type, ");
    tokens(&mut extra, SHOWN_STATUS, &[("{now}", NOW)]);
    extra.push(ROLE_NAMES).push(", t.id");
    extra
}

/// Returns the answer with a user. Refuses with 404 if the user does not exist or is deleted.
pub fn answer(request: &Request, conn: &mut Conn, status: StatusCode, id: UserId) -> Outcome {
    let instance = instance(request, conn, id)?;
    let tag = tag_of(&instance);
    Ok(Answer { tag: Some(tag), ..Answer::instance(status, instance) })
}

/// Returns the tag of a user. Refuses with 404 if the user does not exist or is deleted.
pub fn tag(request: &Request, conn: &mut Conn, id: UserId) -> Result<EntityTag, Refusal> {
    Ok(tag_of(&instance(request, conn, id)?))
}

/// Returns the tag of an instance. It does not depend on `link_sent_at`, since the mail of a new account is sent while its creator
/// still edits the account.
fn tag_of(instance: &Instance) -> EntityTag {
    // JSON escapes quotation marks in strings, so these bytes are only found as members.
    let find = |member: &[u8]| memmem::find(instance, member);
    match (find(b",\"link_sent_at\":"), find(b",\"link_sent_by\":")) {
        (Some(begin), Some(end)) if begin < end => etag(&[&instance[..begin], &instance[end..]].concat()),
        _ => etag(instance),
    }
}

/// Returns the instance of a user. Refuses with 404 if the user does not exist or is deleted.
pub fn instance(request: &Request, conn: &mut Conn, id: UserId) -> Result<Instance, Refusal> {
    let condition = Sql::new("t.id = $1 AND t.is_deleted = 0").arg(id);
    rows::view(request, conn, &SHAPE, &condition)?.ok_or_else(Refusal::not_found)
}

/// Returns the users that the caller may list. If the caller may list all users, the counters are the total.
pub fn scope(caller: &Caller, conn: &mut Conn, now: i64) -> Result<Scope, StoreError> {
    let mut scope = Scope::matching(visible_users(caller));
    if caller.has_permission("users", "list") {
        // In a list of users only the end of a lock depends on the time.
        let sql = Sql::new(
            "SELECT CAST(COALESCE(sum(n), 0) AS BIGINT), (SELECT min(u.locked_until) FROM users u WHERE u.locked_until > $1) \
             FROM all_counters WHERE name LIKE 'users_%'",
        );
        let (total, unlocked_at) = conn.query_one(&sql.arg(now), |row| Ok((row.int(0)?, row.opt_int(1)?)))?;
        (scope.total, scope.cacheable) = (Some(total), Cacheable::Until(unlocked_at));
    }
    Ok(scope)
}

/// Returns a stored user with its row locked. Refuses with 404 if the user does not exist or is deleted.
pub fn load(conn: &mut Conn, id: UserId) -> Result<Changes, Refusal> {
    // This lock is sufficient: users are never removed, so the insertion of a reference to a user does not wait.
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 FOR NO KEY UPDATE").arg(id);
    if conn.query_optional(&sql, |_| Ok(()))?.is_none() {
        return Err(Refusal::not_found());
    }
    rows::load_shared(conn, &SHAPE, id.get())?.ok_or_else(Refusal::not_found)
}

/// Writes `next_actions` and `_meta`.
fn write_meta(
    out: &mut JsonWriter,
    form: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let account_type = read_account_type(row.text(at)?.unwrap_or(""))?;
    let status = row.text(at + 1)?.unwrap_or("");
    out.name("next_actions").raw("[");
    for action in rules::next_actions(status, account_type) {
        out.comma().text(action);
    }
    out.raw("]").name("_meta").raw("{");
    let Some(caller) = request.caller.as_deref() else {
        out.raw("}");
        return Ok(());
    };
    let may_name_roles = form == RowForm::Detail
        || ["list", "view"].iter().any(|action| caller.has_permission("roles", action))
        || caller.has_permission("users", "view");
    out.name("labels").raw("{").name("roles").raw("[");
    let names = format!("[{}]", row.text(at + 2)?.unwrap_or(""));
    let names: Vec<[Cow<'_, str>; 1]> =
        serde_json::from_str(&names).map_err(|error| StoreError::internal(format_args!("names of roles: {error}")))?;
    for [name] in &names {
        out.comma().opt_text(may_name_roles.then_some(name));
    }
    out.raw("]}");
    let id = UserId::new(row.int(at + 3)?.unwrap_or_default());
    let is_other = rules::require_other_account(caller, id).is_ok();
    let may_change = is_other && rules::require_change(caller, account_type).is_ok();
    let holds = |action| match action {
        "list" => true,
        "edit" | "delete" => caller.has_permission("users", action) && may_change,
        _ => caller.has_permission("users", action),
    };
    write_permissions(out, &ACTIONS.map(|action| (action, holds(action))));
    if form == RowForm::Detail {
        out.name("allowed_account_type_changes").raw("[");
        for new_type in rules::allowed_type_changes(caller, account_type) {
            out.comma().text(new_type.name());
        }
        out.raw("]").name("is_mail_set_up").bool(row.int(at + 4)? == Some(1));
    }
    out.raw("}");
    Ok(())
}
