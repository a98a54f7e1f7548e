//! The operations of operators on builds and their accounts (`chancery build …`, `chancery user …`;
//! `docs/operations.md`). They may run while other processes serve.

use crate::hasher::QueuePath;
use crate::passwords;
use crate::second_factors;
use crate::security;
use crate::sessions;
use crate::users::create;
use crate::users::user::USER;
use events::history_client::{CALL_TIMEOUT, HistoryClient};
use events::history_tenants::{self, BuildTenant, TenantError};
use events::own_history;
use kit::account_type::AccountType;
use kit::app::App;
use kit::build::{Build, MAX_DOMAIN, database_name};
use kit::callers::STALE_AFTER;
use kit::domain;
use kit::log;
use kit::refusal::{LIMIT_EXCEEDED, Refusal, RefusalReason};
use kit::rights;
use kit::rows;
use resource::{FieldErrors, JsonBody};
use serde_json::json;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Sql, StoreError};

/// The reason why a command failed, in one line.
pub type BuildFailure = String;

/// The maximum time for which the creation of a build waits for its history tenant. The tenant can also be created later.
const TENANT_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum time for the creation of a build, in microseconds. After it another process removes the unfinished build.
const CREATION_TIMEOUT_US: i64 = 60_000_000;

/// A row of `chancery build list`.
pub struct BuildRow {
    pub id: i64,
    pub domain: String,
    pub state: String,
    pub created_at: i64,
    /// The tenant in the history service: its `database_name` and, after its creation, its client id.
    pub history: Option<(String, Option<String>)>,
}

/// Checks a domain, which consists of letters, digits, hyphens and dots. Returns it in lower case.
fn parse_domain(text: &str) -> Result<String, BuildFailure> {
    let domain = text.trim().to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if domain.len() <= MAX_DOMAIN && domain.split('.').all(label) {
        Ok(domain)
    } else {
        Err(format!("{text}: not a domain name"))
    }
}

/// Creates a build with its first super admin. This process serves it immediately. Other processes serve it after
/// [`STALE_AFTER`], since they may have cached that the domain has no build.
pub async fn create(
    app: &App,
    name: &str,
    admin_username: &str,
    admin_password: &str,
) -> Result<Arc<Build>, BuildFailure> {
    let domain = parse_domain(name)?;
    remove_unfinished(app, &domain, CREATION_TIMEOUT_US).await?;
    create_new(app, domain, admin_username, admin_password).await
}

/// Creates the build of a first start. Removes an unfinished build of an earlier start immediately, since no other server creates
/// it: this server owns the lock of the embedded store.
pub async fn create_first(
    app: &App,
    name: &str,
    admin_username: &str,
    admin_password: &str,
) -> Result<Arc<Build>, BuildFailure> {
    let domain = parse_domain(name)?;
    remove_unfinished(app, &domain, 0).await?;
    create_new(app, domain, admin_username, admin_password).await
}

async fn create_new(
    app: &App,
    domain: String,
    admin_username: &str,
    admin_password: &str,
) -> Result<Arc<Build>, BuildFailure> {
    let (now, uid) = (app.clock.now(), uuid::Uuid::new_v4().to_string());
    let (stored_domain, stored_uid) = (domain.clone(), uid.clone());
    let control = app.store.control();
    let inserted = control.write(move |conn| {
        let sql =
            Sql::new("INSERT INTO builds(domain, uid, state, created_at) VALUES ($1, $2, 'creating', $3) RETURNING id");
        let id = conn.query_one(&sql.arg(&stored_domain).arg(&stored_uid).arg(now), |row| row.int(0))?;
        history_tenants::insert(conn, &stored_domain, &stored_uid, now)?;
        Ok(id)
    });
    let id = match inserted.await {
        Ok(id) => id,
        Err(StoreError::Unique(_)) => return Err(format!("{domain}: there is such a build already")),
        Err(error) => return Err(error.to_string()),
    };
    let filled = create_database(app, id, &domain, &uid, admin_username, admin_password).await;
    if filled.is_err() {
        remove(app, id).await?;
    }
    filled?;
    app.store
        .control()
        .write(move |conn| conn.exec(&Sql::new("UPDATE builds SET state = 'active' WHERE id = $1").arg(id)))
        .await
        .map_err(error_line)?;
    app.forget_unknown(&domain);
    let build =
        app.build(&domain).await.map_err(error_line)?.ok_or_else(|| format!("{domain}: the build is gone again"))?;
    if let Some(service) = events::client(app)
        && let Err(reason) = create_tenant(app, service, &build).await
    {
        tracing::warn!(%reason, build = domain, "the build has no history tenant yet");
    }
    Ok(build)
}

/// A build that an import fills. Nobody is served from it before [`finish_import`].
#[derive(Clone)]
pub struct ImportedBuild {
    pub id: i64,
    pub domain: String,
    pub uid: String,
}

/// The time after which an import that does not renew its claim counts as interrupted, in microseconds.
const IMPORT_LEASE_US: i64 = 20_000_000;

/// Claims a domain for an import. Waits for the end of the claim of an interrupted import, and removes what that one left.
///
/// # Errors
/// A line with the reason, for example that the domain has a build.
pub async fn begin_import(app: &App, name: &str) -> Result<ImportedBuild, BuildFailure> {
    let domain = parse_domain(name)?;
    let mut waited = 0;
    loop {
        forget_unfinished_history(app, &domain).await?;
        remove_unfinished(app, &domain, CREATION_TIMEOUT_US).await?;
        match state_of(app, &domain).await? {
            None => break,
            Some(state) if state == "creating" && waited <= IMPORT_LEASE_US => {}
            Some(_) => return Err(format!("{domain}: there is such a build already")),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        waited += 1_000_000;
    }
    let (lease, uid) = (import_lease(app), uuid::Uuid::new_v4().to_string());
    let (stored_domain, stored_uid) = (domain.clone(), uid.clone());
    let control = app.store.control();
    let inserted = control.write(move |conn| {
        let sql =
            Sql::new("INSERT INTO builds(domain, uid, state, created_at) VALUES ($1, $2, 'creating', $3) RETURNING id");
        let id = conn.query_one(&sql.arg(&stored_domain).arg(&stored_uid).arg(lease), |row| row.int(0))?;
        history_tenants::insert(conn, &stored_domain, &stored_uid, lease)?;
        Ok(id)
    });
    match inserted.await {
        Ok(id) => Ok(ImportedBuild { id, domain, uid }),
        Err(StoreError::Unique(_)) => Err(format!("{domain}: there is such a build already")),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the time of creation of a build that becomes removable as unfinished when the lease of an import ends.
fn import_lease(app: &App) -> i64 {
    app.clock.now() + IMPORT_LEASE_US - CREATION_TIMEOUT_US
}

/// Renews the claim of an import, which must happen every few seconds.
pub async fn renew_import(app: &App, build: &ImportedBuild) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE builds SET created_at = $1 WHERE id = $2 AND state = 'creating'");
    let sql = sql.arg(import_lease(app)).arg(build.id);
    app.store.control().write(move |conn| conn.exec(&sql)).await.map(drop)
}

/// Serves an imported build from now on. `created_at` is the time at which the original was created.
pub async fn finish_import(app: &App, build: &ImportedBuild, created_at: i64) -> Result<(), BuildFailure> {
    let sql = Sql::new("UPDATE builds SET state = 'active', created_at = $1 WHERE id = $2 AND state = 'creating'");
    let sql = sql.arg(created_at).arg(build.id);
    match app.store.control().write(move |conn| conn.exec(&sql)).await.map_err(error_line)? {
        0 => Err(format!("{}: another command has removed the unfinished import", build.domain)),
        _ => {
            app.forget_unknown(&build.domain);
            let build = find(app, &build.domain).await?;
            if let Some(service) = events::client(app)
                && let Err(reason) = create_tenant(app, service, &build).await
            {
                tracing::warn!(%reason, build = build.domain, "the build has no history tenant yet");
            }
            Ok(())
        }
    }
}

/// Removes a build whose import failed, and the history that was imported with it.
pub async fn abandon_import(app: &App, build: &ImportedBuild) -> Result<(), BuildFailure> {
    forget_history(app, &build.domain, &build.uid).await?;
    remove(app, build.id).await
}

/// Deletes the history of a build that an interrupted import has left, if the command is connected to its service.
async fn forget_unfinished_history(app: &App, domain: &str) -> Result<(), BuildFailure> {
    let sql = Sql::new("SELECT uid FROM builds WHERE domain = $1 AND state = 'creating' AND created_at <= $2");
    let sql = sql.arg(domain).arg(app.clock.now() - CREATION_TIMEOUT_US);
    let read = move |conn: &mut Conn| conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()));
    match app.store.control().read(read).await.map_err(error_line)? {
        Some(uid) => forget_history(app, domain, &uid).await,
        None => Ok(()),
    }
}

async fn forget_history(app: &App, domain: &str, uid: &str) -> Result<(), BuildFailure> {
    match history_of(app, uid).await? {
        Some(tenant) if events::client(app).is_some() => delete_history(app, domain, uid, &tenant).await.map(drop),
        _ => Ok(()),
    }
}

/// Creates the history tenant of a new build, if the process is connected to a history service, and returns it.
pub async fn make_tenant(app: &App, build: &Build) -> Result<BuildTenant, BuildFailure> {
    let service = events::client(app).ok_or_else(|| "the history service is not reached".to_owned())?;
    let at_service = |reason: TenantError| format!("CHANCERY_HISTORY_URL: {}: {reason}", service.url());
    own_history::verify(app, service, CALL_TIMEOUT).await.map_err(at_service)?;
    history_tenants::ensure(app, service, build, CALL_TIMEOUT).await.map_err(at_service)
}

/// Returns the history tenant of a build, if it was created.
pub async fn tenant(app: &App, build: &Build) -> Result<Option<BuildTenant>, BuildFailure> {
    history_of(app, &build.uid).await
}

async fn state_of(app: &App, domain: &str) -> Result<Option<String>, BuildFailure> {
    let sql = Sql::new("SELECT state FROM builds WHERE domain = $1").arg(domain);
    let read = move |conn: &mut Conn| conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()));
    app.store.control().read(read).await.map_err(error_line)
}

async fn create_tenant(app: &App, service: &HistoryClient, build: &Build) -> Result<(), TenantError> {
    own_history::verify(app, service, TENANT_TIMEOUT).await?;
    history_tenants::ensure(app, service, build, TENANT_TIMEOUT).await.map(drop)
}

/// Creates the database of a build and its first super admin.
async fn create_database(
    app: &App,
    id: i64,
    domain: &str,
    uid: &str,
    username: &str,
    password: &str,
) -> Result<(), BuildFailure> {
    app.store.create(&database_name(id)).await.map_err(error_line)?;
    let build = app.new_build(id, domain, uid.to_owned());
    create_user(app, &build, username, AccountType::SuperAdmin, password).await
}

/// Removes a build of this domain whose deletion was interrupted, or whose creation began at least `age_us` ago.
async fn remove_unfinished(app: &App, domain: &str, age_us: i64) -> Result<(), BuildFailure> {
    let (domain, before) = (domain.to_owned(), app.clock.now() - age_us);
    let control = app.store.control();
    let unfinished = control.read(move |conn| {
        let sql = Sql::new("SELECT id FROM builds WHERE domain = $1 AND (state = 'deleting' OR state = 'creating' AND created_at <= $2)");
        conn.query_optional(&sql.arg(&domain).arg(before), |row| row.int(0))
    });
    match unfinished.await.map_err(error_line)? {
        Some(id) => remove(app, id).await,
        None => Ok(()),
    }
}

/// Drops the database of a build, removes its files and deletes its row.
async fn remove(app: &App, id: i64) -> Result<(), BuildFailure> {
    app.store.drop_database(&database_name(id)).await.map_err(error_line)?;
    let uid = Sql::new("SELECT uid FROM builds WHERE id = $1").arg(id);
    let load_uid = move |conn: &mut Conn| conn.query_optional(&uid, |row| Ok(row.text(0)?.to_owned()));
    if let Some(uid) = app.store.control().read::<_, StoreError>(load_uid).await.map_err(error_line)? {
        for domain in domain::registered() {
            (domain.remove_build)(app.clone(), uid.clone()).await.map_err(error_line)?;
        }
    }
    let now = app.clock.now();
    let delete_row = move |conn: &mut Conn| {
        let sql = Sql::new("DELETE FROM builds WHERE id = $1 RETURNING uid").arg(id);
        match conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))? {
            Some(uid) => history_tenants::build_deleted(conn, &uid, now),
            None => Ok(()),
        }
    };
    app.store.control().write(delete_row).await.map_err(error_line)
}

/// Lists all builds, ordered by domain.
pub async fn list(app: &App) -> Result<Vec<BuildRow>, BuildFailure> {
    let sql = Sql::new(
        "SELECT builds.id, builds.domain, builds.state, builds.created_at, history_tenants.database_name, \
         history_tenants.client_id FROM builds LEFT JOIN history_tenants ON history_tenants.build_uid = builds.uid \
         ORDER BY builds.domain",
    );
    let load_list = move |conn: &mut Conn| {
        conn.query_all(&sql, |row| {
            Ok(BuildRow {
                id: row.int(0)?,
                domain: row.text(1)?.to_owned(),
                state: row.text(2)?.to_owned(),
                created_at: row.int(3)?,
                history: row.opt_text(4)?.map(str::to_owned).zip(Some(row.opt_text(5)?.map(str::to_owned))),
            })
        })
    };
    app.store.control().read(load_list).await.map_err(error_line)
}

/// Returns whether a user has ever signed in to a build.
pub async fn was_signed_in(app: &App, id: i64) -> Result<bool, BuildFailure> {
    let sql = Sql::new("SELECT 1 FROM users WHERE last_login IS NOT NULL LIMIT 1");
    let load_sign_in = move |conn: &mut Conn| conn.query_optional(&sql, |_| Ok(()));
    Ok(app.store.database(&database_name(id)).read(load_sign_in).await.map_err(error_line)?.is_some())
}

/// Returns whether a build has its tenant in the history service. Returns true if no history service is configured.
pub async fn has_history(app: &App, build: &Build) -> Result<bool, BuildFailure> {
    Ok(events::client(app).is_none() || history_of(app, &build.uid).await?.is_some())
}

async fn history_of(app: &App, uid: &str) -> Result<Option<BuildTenant>, BuildFailure> {
    history_tenants::find(app, uid).await.map_err(error_line)
}

/// Deletes a build, and its history first if `with_history`. Returns the outcome for the history.
pub async fn delete(app: &App, name: &str, with_history: bool) -> Result<HistoryOfDeleted, BuildFailure> {
    let deletion = begin_deletion(app, name, with_history).await?;
    end_deletion(app, deletion).await
}

/// A build that is no longer served and whose data is still there.
pub struct Deletion {
    pub id: i64,
    pub domain: String,
    pub uid: String,
    /// The time at which the build was created, in microseconds since 1970.
    pub created_at: i64,
    tenant: Option<BuildTenant>,
    history: Option<HistoryOfDeleted>,
}

/// Begins a deletion. The build is no longer served before its data is deleted, so that an interrupted deletion can be repeated.
pub async fn begin_deletion(app: &App, name: &str, with_history: bool) -> Result<Deletion, BuildFailure> {
    let domain = parse_domain(name)?;
    let uid = uid_of(app, &domain).await?.ok_or_else(|| format!("{domain}: there is no such build"))?;
    let tenant = history_of(app, &uid).await?;
    let mut history = None;
    if let (true, Some(tenant)) = (with_history, &tenant) {
        history = Some(delete_history(app, &domain, &uid, tenant).await?);
    }
    let deleted = domain.clone();
    let control = app.store.control();
    let deletion = control.write(move |conn| {
        let sql = Sql::new("UPDATE builds SET state = 'deleting' WHERE domain = $1 RETURNING id, created_at");
        conn.query_optional(&sql.arg(&deleted), |row| Ok((row.int(0)?, row.int(1)?)))
    });
    let deletion = deletion.await.map_err(error_line)?;
    let (id, created_at) = deletion.ok_or_else(|| format!("{domain}: there is no such build"))?;
    // Waits until the other processes no longer serve the build from their caches.
    tokio::time::sleep(STALE_AFTER).await;
    if with_history && let Some(tenant) = history_of(app, &uid).await? {
        // The tenant was created meanwhile.
        history = Some(delete_history(app, &domain, &uid, &tenant).await?);
    }
    Ok(Deletion { id, domain, uid, created_at, tenant, history })
}

/// Deletes the data of a build. Returns the outcome for the history.
pub async fn end_deletion(app: &App, deletion: Deletion) -> Result<HistoryOfDeleted, BuildFailure> {
    let undelivered = count_undelivered(app, deletion.id).await;
    remove(app, deletion.id).await?;
    Ok(match (deletion.history, deletion.tenant) {
        (Some(history), _) => history,
        (None, Some(tenant)) => HistoryOfDeleted::Kept { tenant, undelivered },
        (None, None) => HistoryOfDeleted::None { undelivered },
    })
}

/// The outcome for the history of a deleted build.
#[derive(Debug, PartialEq)]
pub enum HistoryOfDeleted {
    /// The build did not have a tenant. `undelivered` events were deleted with the build.
    None { undelivered: i64 },
    /// The history was deleted, too.
    Deleted,
    /// The history service did not contain the tenant.
    Unknown(BuildTenant),
    /// The history stays in its tenant. `undelivered` events were deleted with the build before their delivery.
    Kept { tenant: BuildTenant, undelivered: i64 },
}

async fn uid_of(app: &App, domain: &str) -> Result<Option<String>, BuildFailure> {
    let sql = Sql::new("SELECT uid FROM builds WHERE domain = $1").arg(domain);
    let load_uid = move |conn: &mut Conn| conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()));
    app.store.control().read(load_uid).await.map_err(error_line)
}

async fn count_undelivered(app: &App, id: i64) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM outbox"), |row| row.int(0));
    // If a deletion is repeated, the database may not exist any more.
    app.store.database(&database_name(id)).read::<i64, StoreError>(count).await.unwrap_or(0)
}

async fn delete_history(
    app: &App,
    domain: &str,
    uid: &str,
    tenant: &BuildTenant,
) -> Result<HistoryOfDeleted, BuildFailure> {
    let unable = |reason: String| format!("{domain}: nothing was deleted, since its history was not: {reason}");
    let service = events::client(app).ok_or_else(|| {
        unable("set CHANCERY_HISTORY_URL and CHANCERY_HISTORY_API_KEY to its history service".to_owned())
    })?;
    let at_service = |reason: &dyn Display| unable(format!("CHANCERY_HISTORY_URL: {}: {reason}", service.url()));
    own_history::verify(app, service, CALL_TIMEOUT).await.map_err(|reason| at_service(&reason))?;
    let is_known = service.delete_tenant(&tenant.client_id).await.map_err(|reason| at_service(&reason))?;
    let uid = uid.to_owned();
    app.store.control().write(move |conn| history_tenants::remove(conn, &uid)).await.map_err(error_line)?;
    Ok(if is_known { HistoryOfDeleted::Deleted } else { HistoryOfDeleted::Unknown(tenant.clone()) })
}

/// Returns the build of a domain.
pub async fn find(app: &App, name: &str) -> Result<Arc<Build>, BuildFailure> {
    let domain = parse_domain(name)?;
    app.build(&domain).await.map_err(error_line)?.ok_or_else(|| format!("{domain}: there is no such build"))
}

/// Lets super admins sign in with passwords again.
pub async fn allow_passwords(app: &App, build: &Build) -> Result<(), BuildFailure> {
    let now = app.clock.now();
    build.db.write(move |conn| security::allow_passwords(conn, now)).await.map_err(refusal_line)
}

/// Creates an active user with a password.
pub async fn create_user(
    app: &App,
    build: &Build,
    username: &str,
    account_type: AccountType,
    password: &str,
) -> Result<(), BuildFailure> {
    let prepared =
        passwords::prepare(app, &QueuePath::operator_path(build), password, None).await.map_err(refusal_line)?;
    let first_name: String = username.split('@').next().unwrap_or("").chars().take(100).collect();
    let last_name = account_type.text();
    let body = json!({"username": username, "account_type": account_type.name(), "first_name": first_name, "last_name": last_name});
    let (now, password, body) = (app.clock.now(), password.to_owned(), JsonBody::from_json(&body));
    build
        .db
        .write(move |conn| {
            let body = body.as_value().as_object(|_| true).unwrap_or_default();
            let mut accepted = rows::check_body(conn, &USER, &body, None)?;
            passwords::broken_rules(conn, None, &password, None)?
                .into_iter()
                .for_each(|message| accepted.errors.add("password", message));
            if !accepted.errors.is_empty() {
                return Err(accepted.errors.into());
            }
            create::insert_by_operator(conn, accepted.changes, &prepared, now)
        })
        .await
        .map_err(refusal_line)
}

/// Sets a user's password, ends all sessions and unlocks the account.
pub async fn set_password(app: &App, build: &Build, username: &str, password: &str) -> Result<(), BuildFailure> {
    let name = resource::fold(username.trim());
    let load_salt = move |conn: &mut Conn| {
        let sql =
            Sql::new("SELECT id, password_salt FROM users WHERE username_fold = $1 AND is_deleted = 0").arg(&name);
        conn.query_optional(&sql, |row| Ok((row.id(0)?, row.opt_text(1)?.map(str::to_owned))))
    };
    let row = build.db.read(load_salt).await.map_err(error_line)?;
    let (user, salt) = row.ok_or_else(|| format!("{username}: there is no such user"))?;
    let prepared =
        passwords::prepare(app, &QueuePath::operator_path(build), password, salt).await.map_err(refusal_line)?;
    let (now, password, username) = (app.clock.now(), password.to_owned(), username.to_owned());
    build
        .db
        .write(move |conn| {
            let broken = passwords::broken_rules(conn, Some(user), &password, Some(&prepared))?;
            if !broken.is_empty() {
                return Err(Refusal::field("password", broken.join(" ")));
            }
            passwords::store(conn, user, &prepared, now)?;
            let sql = Sql::new("UPDATE users SET status = 'active', activated_at = COALESCE(activated_at, $1) WHERE id = $2 AND status IN ('pending', 'invited')");
            conn.exec(&sql.arg(now).arg(user))?;
            sessions::end_all(conn, user, now, None)?;
            rights::raise_version(conn)?;
            log::write_by_operator(conn, now, "set_password", &USER, user.get(), &username, log::Diff::new())
        })
        .await
        .map_err(refusal_line)
}

/// Removes the second factors of a user, and ends all sessions.
pub async fn reset_second_factors(app: &App, build: &Arc<Build>, username: &str) -> Result<(), BuildFailure> {
    match second_factors::reset_by_operator(app, build, username).await.map_err(refusal_line)? {
        true => Ok(()),
        false => Err(format!("{username}: there is no such user")),
    }
}

/// Formats an error of the store as the line of a failed command.
pub fn error_line(error: StoreError) -> BuildFailure {
    error.to_string()
}

/// Formats a refusal as the line of a failed command: the fields with their messages.
pub fn refusal_line(refusal: Refusal) -> BuildFailure {
    if let Some(cause) = &refusal.cause {
        return cause.to_string();
    }
    let line = |(field, errors): (&str, &FieldErrors)| format!("{field}: {}", errors.messages().join(" "));
    match &refusal.reason {
        RefusalReason::Errors(errors) => errors.iter().map(line).collect::<Vec<_>>().join("; "),
        RefusalReason::Limit(detail) => format!("{detail}; error_code: {LIMIT_EXCEEDED}"),
        RefusalReason::Detail(_) | RefusalReason::Coded { .. } | RefusalReason::LimitAsList(_) => refusal.log_text(),
    }
}
