//! How users are shown, and which of them a caller may list (`docs/reference/users.md`).

use super::rules;
use super::user::{ACTIONS, USER};
use crate::account::read_account_type;
use crate::visibility::visible_users;
use kit::answer::Instance;
use kit::caller::Caller;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::{self, Cacheable, Cell, Declaration, Scope, Shape, write_permissions};
use resource::Changes;
use resource::json::{Cells, Form, Writer};
use store::{Conn, Error, Sql};

/// How a single user is shown.
pub static SHAPE: Shape = Shape::new(
    Declaration::Static(&USER),
    "t.account_type, (CASE WHEN t.status = 'active' AND t.locked_until > {now} THEN 'locked' ELSE t.status END), \
     (SELECT string_agg(x.name, '\n') FROM (SELECT r.name FROM user_roles ur JOIN roles r ON r.id = ur.role_id \
     WHERE ur.user_id = t.id ORDER BY ur.role_id) x)",
    write_meta,
)
.changes_at("t.locked_until");
/// How lists show users: without the names of their roles.
pub static LIST: Shape = Shape::new(
    Declaration::Static(&USER),
    "t.account_type, (CASE WHEN t.status = 'active' AND t.locked_until > {now} THEN 'locked' ELSE t.status END)",
    write_meta,
);

/// A user as its instance shows it; 404 when there is none, or it is deleted.
pub fn instance(request: &Request, conn: &mut Conn, id: i64) -> Result<Instance, Refusal> {
    let condition = Sql::new("t.id = $1 AND t.is_deleted = 0").arg(id);
    rows::view(request, conn, &SHAPE, &condition)?.ok_or_else(Refusal::not_found)
}

/// The users whom the caller may list. For those who may list everyone, the counters give the total.
pub fn scope(caller: &Caller, conn: &mut Conn, now: i64) -> Result<Scope, Error> {
    let mut scope = Scope::of(visible_users(caller));
    if caller.may("users", "list") {
        // The end of a lock is the only thing that time alone changes in a list of users.
        let sql = Sql::new(
            "SELECT CAST(COALESCE(sum(n), 0) AS BIGINT), (SELECT min(u.locked_until) FROM users u WHERE u.locked_until > $1) \
             FROM counters WHERE name LIKE 'users_%'",
        );
        let (total, unlocked_at) = conn.one(&sql.arg(now), |row| Ok((row.int(0)?, row.opt_int(1)?)))?;
        (scope.total, scope.cacheable) = (Some(total), Cacheable::Until(unlocked_at));
    }
    Ok(scope)
}

/// A stored user with its row locked; 404 when there is none, or it is deleted.
pub fn load(conn: &mut Conn, id: i64) -> Result<Changes, Refusal> {
    // No stronger lock: users are never removed, so inserting a reference to one need not wait.
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 FOR NO KEY UPDATE").arg(id);
    if conn.opt(&sql, |_| Ok(()))?.is_none() {
        return Err(Refusal::not_found());
    }
    rows::load_shared(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)
}

/// Writes `next_actions` and `_meta`.
fn write_meta(out: &mut Writer, form: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
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
    if form == Form::Detail {
        out.name("labels").raw("{").name("roles").raw("[");
        for name in row.text(at + 2)?.unwrap_or("").split('\n').filter(|name| !name.is_empty()) {
            out.comma().text(name);
        }
        out.raw("]}");
    }
    let may_change = rules::may_change(caller, account_type).is_ok();
    let holds = |action| match action {
        "list" => true,
        "edit" | "delete" => caller.may("users", action) && may_change,
        _ => caller.may("users", action),
    };
    write_permissions(out, &ACTIONS.map(|action| (action, holds(action))));
    if form == Form::Detail {
        out.name("allowed_account_type_changes").raw("[");
        for new_type in rules::allowed_type_changes(caller, account_type) {
            out.comma().text(new_type.name());
        }
        out.raw("]");
    }
    out.raw("}");
    Ok(())
}
