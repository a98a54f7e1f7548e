//! Users: `/api/users/` (document 1, "User" and "Users"; document 4, section 4).

pub mod actions;
mod autocomplete;
pub mod me;
mod rename;
mod rules;

pub(crate) use actions::forget_the_anonymized;
pub(crate) use rules::{holds_objects, may_give_roles};

use crate::administration_log as log;
use crate::caller::{self, Caller, is_super};
use crate::http::{Answer, Instance, Outcome, Refusal, Request};
use crate::limits;
use crate::password::Turn;
use crate::passwords::{self, Prepared};
use crate::routes::{Pending, Route, Schema};
use crate::rows::{self, Cell, Declaration, Lasts, Scope, Shape, write_permissions};
use crate::serve::write;
use crate::{address::Ranges, links, super_admin_access, timezones};
use http::StatusCode;
use resource::json::{Cells, Form, Writer};
use resource::{After, Changes, Field, Key, Kind, Resource, Target, options};
use serde_json::json;
use std::sync::{Arc, LazyLock};
use store::{Conn, Error, Sql};

/// Account types and their display texts, in the order of document 1.
pub const ACCOUNT_TYPES: &[(&str, &str)] = &[
    ("internal", "Internal"),
    ("external", "External"),
    ("full", "Full"),
    ("one_time_completion", "1 Time Completion"),
    ("super_admin", "Super Admin"),
    ("service_internal", "Service Internal"),
    ("service_external", "Service External"),
];
const STATUSES: &[(&str, &str)] = &[
    ("pending", "Pending"),
    ("invited", "Invited"),
    ("active", "Active"),
    ("locked", "Locked"),
    ("inactive", "Inactive"),
    ("anonymized", "Anonymized"),
];

pub(crate) static USERNAME: Key<String> = Key::new("username");
pub(crate) static ACCOUNT_TYPE: Key<String> = Key::new("account_type");
pub(crate) static FIRST_NAME: Key<String> = Key::new("first_name");
pub(crate) static LAST_NAME: Key<String> = Key::new("last_name");
pub(crate) static FULL_NAME: Key<String> = Key::new("full_name");
static JOB_TITLE: Key<String> = Key::new("job_title");
static COMPANY_NAME: Key<String> = Key::new("company_name");
static PHONE: Key<String> = Key::new("phone");
static MOBILE: Key<String> = Key::new("mobile");
static PASSWORD: Key<String> = Key::new("password");
static ROLES: Key<Vec<i64>> = Key::new("roles");
static DELAY_ACTIVATION: Key<bool> = Key::new("delay_activation");
static TIMEZONE: Key<String> = Key::new("timezone");
static IS_RESTRICTED: Key<bool> = Key::new("is_ip_restriction_enabled");
static RANGES: Key<Vec<String>> = Key::new("allowed_ip_ranges");
static STATUS: Key<String> = Key::new("status");

/// The state that people see: a lock is over when its time is.
const SHOWN_STATUS: &str = "(CASE WHEN t.status = 'active' AND t.locked_until > {now} THEN 'locked' ELSE t.status END)";
const IS_AVAILABLE: &str =
    "(CASE WHEN t.status = 'active' AND (t.locked_until IS NULL OR t.locked_until <= {now}) THEN 1 ELSE 0 END)";
const IS_SUPER_ADMIN: &str = "(CASE WHEN t.account_type = 'super_admin' THEN 1 ELSE 0 END)";
const EXPIRES_AT: &str = "(t.password_set_at + (SELECT NULLIF(x.password_rotation_interval, 0) FROM security x WHERE x.id = 1) * 86400000000)";

/// A user.
pub static USER: LazyLock<Resource> = LazyLock::new(|| {
    let moment = |name: &'static str| Field::new(name, Kind::DateTime).read_only().nullable();
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "users",
        "User",
        "users",
        [
            Field::id(),
            USERNAME
                .is(Kind::Email { max: 100 })
                .required()
                .unique("users_username")
                .folded()
                .filter()
                .sort()
                .personal(),
            ACCOUNT_TYPE.is(Kind::choices(ACCOUNT_TYPES)).required().filter(),
            FIRST_NAME.text(100).min_length(1).required().detail_only().personal(),
            LAST_NAME.text(100).min_length(1).required().detail_only().personal(),
            FULL_NAME.text(201).folded().read_only().list_only().filter().personal(),
            JOB_TITLE.text(100).default("").detail_only().personal(),
            COMPANY_NAME.text(100).default("").detail_only().personal(),
            PHONE.text(20).default("").detail_only().personal(),
            MOBILE.text(20).default("").detail_only().personal(),
            PASSWORD.is(Kind::Secret { max: passwords::MAX_LENGTH }).write_only().stored_by_resource(),
            ROLES
                .is(Kind::References {
                    target: Target {
                        table: "roles".into(),
                        autocomplete: Some("/api/roles/autocomplete/?text__icontains=".into()),
                    },
                    max_items: 100,
                })
                .members("user_roles", "user_id", "role_id")
                .filter(),
            DELAY_ACTIVATION.boolean().write_only().stored_by_resource(),
            TIMEZONE
                .is(Kind::Listed { is_listed: timezones::is_timezone, all: timezones::all })
                .default("UTC")
                .detail_only()
                .personal(),
            IS_RESTRICTED.boolean().default(false).detail_only(),
            RANGES
                .is(Kind::Texts {
                    max_items: limits::USER_RANGES.default as usize,
                    are_valid: |ranges| Ranges::parse(ranges).is_some(),
                    invalid: "Must be a valid set of IPv4 or IPv6 network addresses.",
                    too_many: format!("Limit of {} IP restrictions has been exceeded.", limits::USER_RANGES.default)
                        .into(),
                })
                .default(resource::Value::List(Vec::new()))
                .detail_only()
                .personal(),
            STATUS.is(Kind::choices(STATUSES)).sql(SHOWN_STATUS).read_only().filter(),
            Field::new("is_available", Kind::Boolean).sql(IS_AVAILABLE).filter_only(),
            Field::new("is_super_admin", Kind::Boolean).sql(IS_SUPER_ADMIN).filter_only(),
            moment("last_login").list_only().filter().sort(),
            moment("activated_at").filter().sort(),
            moment("password_set_at").filter().sort(),
            moment("password_expires_at").sql(EXPIRES_AT),
            moment("link_sent_at").filter().sort(),
            Field::new("link_sent_by", Kind::User).read_only().nullable().filter(),
            Field::new("next_actions", Kind::List).read_only().stored_by_resource(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
});

/// How users are shown.
pub static SHAPE: Shape = Shape::new(
    Declaration::Static(&USER),
    "t.account_type, (CASE WHEN t.status = 'active' AND t.locked_until > {now} THEN 'locked' ELSE t.status END), \
     (SELECT string_agg(x.name, '\n') FROM (SELECT r.name FROM user_roles ur JOIN roles r ON r.id = ur.role_id \
     WHERE ur.user_id = t.id ORDER BY ur.role_id) x)",
    write_meta,
)
.changes_at("t.locked_until");
/// Lists do without the names of roles.
static LIST: Shape = Shape::new(
    Declaration::Static(&USER),
    "t.account_type, (CASE WHEN t.status = 'active' AND t.locked_until > {now} THEN 'locked' ELSE t.status END)",
    write_meta,
);

/// The routes of this resource.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list("/api/users/", &USER, list).summary("The users whom the caller may list"),
        Route::create("/api/users/", &USER, |_, _| Err(Refusal::not_found())).steps(create).needs("users", "create"),
        Route::options("/api/users/", |_| Ok(Answer::value(&options::document(&USER)))),
        Route::new(http::Method::GET, "/api/users/permissions/", "What the caller may do", crate::routes::Handler::Plain(permissions))
            .answers(200, Schema::Json(|| json!({"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "boolean"}}}))),
        Route::view("/api/users/{id}/", &USER, view).needs("users", "view"),
        Route::edit("/api/users/{id}/", &USER, |_, _| Err(Refusal::not_found())).steps(edit).needs("users", "edit"),
        Route::delete("/api/users/{id}/", delete).needs("users", "delete"),
    ];
    routes.extend(actions::routes());
    routes.extend(autocomplete::routes());
    routes.extend(me::routes());
    routes
}

fn permissions(request: &Request) -> Outcome {
    Ok(Answer::value(&request.caller()?.permissions.to_json()))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let scope = scope(request.caller()?, conn, request.now)?;
    rows::list(request, conn, &LIST, scope)
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, shown(request, conn, request.id())?))
}

/// The user as an instance shows it; 404 when there is none, or it is deleted.
pub fn shown(request: &Request, conn: &mut Conn, id: i64) -> Result<Instance, Refusal> {
    let condition = Sql::new("t.id = $1 AND t.is_deleted = 0").arg(id);
    rows::view(request, conn, &SHAPE, &condition)?.ok_or_else(Refusal::not_found)
}

/// Whom the caller may list: holders of `users.list` everyone, others themselves and the members of groups that they
/// may view (document 4, section 4, "who may list whom").
pub fn visible_to(caller: &Caller) -> Sql {
    if caller.may("users", "list") {
        return Sql::new("t.is_deleted = 0");
    }
    let mut condition = Sql::new("t.is_deleted = 0 AND (t.id = ");
    condition.bind(caller.user).push(" OR t.id IN (SELECT m.user_id FROM user_group_members m WHERE ");
    condition.append(&crate::user_groups::may_view(caller, "m.group_id")).push("))");
    condition
}

/// The same with what is known of them without counting.
fn scope(caller: &Caller, conn: &mut Conn, now: i64) -> Result<Scope, Error> {
    let mut scope = Scope { lasts: Lasts::Unknown, ..Scope::of(visible_to(caller)) };
    if caller.may("users", "list") {
        // A lock that ends is all that time changes in what is shown of users.
        let sql = Sql::new(
            "SELECT CAST(COALESCE(sum(n), 0) AS BIGINT), (SELECT min(u.locked_until) FROM users u WHERE u.locked_until > $1) \
             FROM counters WHERE name LIKE 'users_%'",
        );
        let (total, unlocked_at) = conn.one(&sql.arg(now), |row| Ok((row.int(0)?, row.opt_int(1)?)))?;
        (scope.total, scope.lasts) = (Some(total), Lasts::Until(unlocked_at));
    }
    Ok(scope)
}

fn create(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let body = request.object()?;
        let text = |name| body.get(name).and_then(|value| value.as_str());
        let is_service = text("account_type").is_some_and(|account_type| rules::is_service(&account_type));
        let sent = text("password").filter(|_| is_service);
        let prepared = match sent {
            Some(password) => Some(passwords::prepare(&request.app, &Turn::of(&request), &password, None).await?),
            None => None,
        };
        write(&request, move |request, conn| {
            let id = create_user(request, conn, prepared.as_ref())?;
            Ok(Answer::instance(StatusCode::CREATED, shown(request, conn, id)?))
        })
        .await
    })
}

fn create_user(request: &Request, conn: &mut Conn, prepared: Option<&Prepared>) -> Result<i64, Refusal> {
    let caller = request.caller()?;
    let body = request.object()?;
    let mut accepted = rows::accepted(conn, &USER, &body, None)?;
    let account_type = accepted.changes.get(&ACCOUNT_TYPE).unwrap_or_default();
    if is_super(&account_type) && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    rules::may_give_roles(conn, caller, &[], &accepted.changes.get(&ROLES).unwrap_or_default())?;
    rules::password_on_create(conn, &accepted.changes, &body, prepared, &mut accepted.errors)?;
    accepted.errors.refuse()?;
    let changes = accepted.changes;
    rules::over_several_fields(&After { before: None, sent: &changes }).refuse()?;
    insert(request, conn, &account_type, changes, prepared)
}

fn insert(
    request: &Request,
    conn: &mut Conn,
    account_type: &str,
    mut changes: Changes,
    prepared: Option<&Prepared>,
) -> Result<i64, Refusal> {
    changes.set(&FULL_NAME, rules::full_name(&After { before: None, sent: &changes }));
    let is_active = rules::is_active_from_creation(account_type);
    let invited = !is_active && changes.get(&DELAY_ACTIVATION) != Some(true);
    let status = if is_active { "active" } else { "pending" };
    let mut extra = vec![("status", status.into())];
    if is_active {
        extra.push(("activated_at", request.now.into()));
    }
    let prepared = prepared.filter(|_| rules::is_service(account_type));
    if prepared.is_none() {
        changes.remove(&PASSWORD);
    }
    if let Some(prepared) = prepared {
        extra.extend(prepared.columns(request.now));
    }
    let id = rows::insert(request, conn, &USER, &changes, &extra)?;
    if let Some(prepared) = prepared {
        passwords::remember(conn, id, prepared)?;
    }
    if invited {
        links::send_activation(request, conn, id)?;
    }
    // Last, since other creates wait for the counter's row until this is committed.
    limits::take(conn, limits::of_accounts(account_type), |limit| rules::account_limit(limit, account_type))?;
    Ok(id)
}

/// An active user with a password, made by the command line.
pub fn insert_by_operator(conn: &mut Conn, mut changes: Changes, prepared: &Prepared, now: i64) -> Result<(), Refusal> {
    let account_type = changes.get(&ACCOUNT_TYPE).unwrap_or_default();
    limits::take(conn, limits::of_accounts(&account_type), |limit| rules::account_limit(limit, &account_type))?;
    changes.set(&FULL_NAME, rules::full_name(&After { before: None, sent: &changes }));
    let mut extra = vec![("status", "active".into()), ("activated_at", now.into())];
    extra.extend(prepared.columns(now));
    let id = rows::insert_row(conn, &USER, &changes, &extra, now, None)?;
    passwords::remember(conn, id, prepared)?;
    log::note_operator(conn, now, "create", &USER, id, &log::name_of(&changes), log::created(&USER, &changes))
}

/// An active user without a password, made at a single sign-on; `None` when the type has no place left.
pub(crate) fn insert_at_sign_in(
    request: &Request,
    conn: &mut Conn,
    mut changes: Changes,
) -> Result<Option<i64>, Refusal> {
    let account_type = changes.get(&ACCOUNT_TYPE).unwrap_or_default();
    let taken =
        limits::take(conn, limits::of_accounts(&account_type), |limit| rules::account_limit(limit, &account_type));
    match taken {
        Err(refusal) if refusal.cause.is_none() => return Ok(None),
        taken => taken?,
    }
    changes.set(&FULL_NAME, rules::full_name(&After { before: None, sent: &changes }));
    let extra = [("status", "active".into()), ("activated_at", request.now.into())];
    rows::insert(request, conn, &USER, &changes, &extra).map(Some)
}

fn edit(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let id = request.id();
        // Only what can become a password is worth hashing: a super admin's, for an account that exists.
        let is_super_admin = request.caller()?.account_type == "super_admin";
        let sent = request.object().ok().and_then(|body| Some(body.get("password")?.as_str()?.into_owned()));
        let target = match sent.filter(|_| is_super_admin) {
            Some(password) => {
                let salt = request.build.db.read_short(move |conn| rules::salt_of_service(conn, id)).await?;
                match salt {
                    Some(salt) => Some(passwords::prepare(&request.app, &Turn::of(&request), &password, salt).await?),
                    None => None,
                }
            }
            None => None,
        };
        write(&request, move |request, conn| {
            edit_user(request, conn, target.as_ref())?;
            Ok(Answer::instance(StatusCode::OK, shown(request, conn, request.id())?))
        })
        .await
    })
}

fn edit_user(request: &Request, conn: &mut Conn, prepared: Option<&Prepared>) -> Result<(), Refusal> {
    let (caller, id) = (request.caller()?, request.id());
    let before = load(conn, id)?;
    let current_type = before.get(&ACCOUNT_TYPE).unwrap_or_default();
    rules::may_change(caller, &current_type)?;
    request.check_if_match(|| Ok(crate::http::etag(&shown(request, conn, id)?)))?;
    let body = request.object()?;
    let sets_password = body.contains_key("password") && rules::is_service(&current_type);
    if sets_password && caller.account_type != "super_admin" {
        return Err(Refusal::forbidden());
    }
    let mut accepted = rows::accepted(conn, &USER, &body, Some(id))?;
    let new_type = accepted.changes.get(&ACCOUNT_TYPE).unwrap_or_else(|| current_type.clone());
    if is_super(&new_type) && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    let held = before.get(&ROLES).unwrap_or_default();
    rules::may_give_roles(conn, caller, &held, &accepted.changes.get(&ROLES).unwrap_or_default())?;
    let is_renamed = rename::is_change(&before, &accepted.changes);
    if is_renamed {
        rename::may_rename(conn, caller, id, &before)?;
    }
    if sets_password {
        rules::password_on_edit(conn, id, &accepted.changes, prepared, &mut accepted.errors)?;
    }
    accepted.errors.refuse()?;
    let mut changes = accepted.changes;
    let mut errors = rules::over_several_fields(&After { before: Some(&before), sent: &changes });
    rules::account_type_change(&current_type, &new_type, &mut errors);
    errors.refuse()?;
    let has_new_type = new_type != current_type;
    let is_concerned = current_type == "super_admin" && (has_new_type || is_renamed);
    let access = super_admin_access::guard(request, conn, is_concerned)?;
    if has_new_type && new_type != "full" {
        changes.set(&ROLES, resource::Value::List(Vec::new()));
    }
    if changes.has(&FIRST_NAME) || changes.has(&LAST_NAME) {
        changes.set(&FULL_NAME, rules::full_name(&After { before: Some(&before), sent: &changes }));
    }
    let prepared = prepared.filter(|_| sets_password && changes.has(&PASSWORD));
    if prepared.is_none() {
        changes.remove(&PASSWORD);
    }
    let extra = prepared.map(|prepared| prepared.columns(request.now)).unwrap_or_default();
    rows::update(request, conn, &USER, id, &before, &changes, &extra)?;
    if is_renamed {
        rename::follow(request, conn, id, &before)?;
    }
    access.keep(request, conn)?;
    // Whoever is anonymized counts as that, whatever the type.
    if has_new_type && actions::stored_status(conn, id)? != "anonymized" {
        let (from, to) = (limits::of_accounts(&current_type), limits::of_accounts(&new_type));
        limits::change(conn, from, to, |limit| rules::account_limit(limit, &new_type))?;
    }
    if let Some(prepared) = prepared {
        passwords::remember(conn, id, prepared)?;
        crate::sign_in::sessions::end_all(conn, id, request.now, None)?;
    }
    let touches_rights =
        changes.has(&ACCOUNT_TYPE) || changes.has(&ROLES) || changes.has(&IS_RESTRICTED) || changes.has(&RANGES);
    if touches_rights || is_renamed || prepared.is_some() {
        caller::rights_changed(request, conn)?;
    }
    Ok(())
}

/// A stored user that is not deleted, locked for the change to come; else 404.
pub fn load(conn: &mut Conn, id: i64) -> Result<Changes, Refusal> {
    // The row itself stays for ever, so whoever only refers to it need not wait.
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 FOR NO KEY UPDATE").arg(id);
    if conn.opt(&sql, |_| Ok(()))?.is_none() {
        return Err(Refusal::not_found());
    }
    rows::load_shared(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, id) = (request.caller()?, request.id());
    let before = load(conn, id)?;
    let account_type = before.get(&ACCOUNT_TYPE).unwrap_or_default();
    rules::may_change(caller, &account_type)?;
    request.check_if_match(|| Ok(crate::http::etag(&shown(request, conn, id)?)))?;
    let access = super_admin_access::guard(request, conn, account_type == "super_admin")?;
    actions::leave_everything(conn, id, request.now)?;
    let is_anonymized = actions::stored_status(conn, id)? == "anonymized";
    let sql = Sql::new("UPDATE users SET is_deleted = 1, modified_at = $1, modified_by = $2 WHERE id = $3")
        .arg(request.now)
        .arg(caller.user)
        .arg(id);
    conn.exec(&sql)?;
    access.keep(request, conn)?;
    limits::give_back(conn, if is_anonymized { actions::ANONYMIZED } else { limits::of_accounts(&account_type) })?;
    log::note(request, conn, "delete", &USER, id, &log::name_of(&before), log::Diff::new())?;
    caller::rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// `next_actions` and `_meta`.
fn write_meta(out: &mut Writer, form: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
    let account_type = row.text(at)?.unwrap_or("");
    let status = row.text(at + 1)?.unwrap_or("");
    out.name("next_actions").raw("[");
    for action in actions::next(status, account_type) {
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
    write_permissions(
        out,
        &[
            ("list", true),
            ("view", caller.may("users", "view")),
            ("create", caller.may("users", "create")),
            ("edit", caller.may("users", "edit") && may_change),
            ("delete", caller.may("users", "delete") && may_change),
        ],
    );
    if form == Form::Detail {
        out.name("allowed_account_type_changes").raw("[");
        for new_type in rules::allowed_changes(caller, account_type) {
            out.comma().text(new_type);
        }
        out.raw("]");
    }
    out.raw("}");
    Ok(())
}
