//! The accounts for which a configuration vouches (`docs/reference/single-sign-on.md`). A user who configures a provider controls
//! the addresses that it claims to have verified. An address therefore binds only accounts within the permissions that this user
//! had when the configuration was last changed.

use crate::account::{account_type_of, permissions_of_roles};
use kit::app::App;
use kit::caller::Caller;
use kit::domain::holds_objects;
use kit::ids::{SingleSignOnId, UserId};
use kit::jobs;
use kit::permissions::Permissions;
use resource::Changes;
use serde_json::Value as Json;
use store::{Conn, Sql, StoreError};

/// The fields that renew the vouching when a PATCH contains one, even with the stored value.
const VOUCHED_FIELDS: [&str; 5] = ["client_id", "client_secret", "tenant_id", "is_enabled", "auto_create_user"];

/// The value of `vouches_for` for all accounts.
const EVERYTHING: &str = "everything";

/// SQL for the present state of [`VOUCHED_FIELDS`] of the configuration `t`. The secret is represented by its key, which is new
/// each time it is stored. The texts cannot contain a space.
macro_rules! state {
    () => {
        "(t.client_id || ' ' || t.tenant_id || ' ' || t.secret_key || ' ' || t.is_enabled || ' ' || t.auto_create_user)"
    };
}

/// SQL for the label `vouched_by` in `_meta.labels`: `super_admin`, a username, or null if the configuration does not vouch.
macro_rules! vouched_by {
    () => {
        concat!(
            "(CASE WHEN t.vouches_for IS NULL OR t.vouched_state <> ",
            crate::single_sign_on::vouching::state!(),
            " THEN NULL WHEN t.vouches_for = 'everything' THEN 'super_admin' \
             ELSE (SELECT u.username FROM users u WHERE u.id = t.vouched_by) END)"
        )
    };
}
pub(super) use {state, vouched_by};

/// The accounts for which a configuration vouches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vouching {
    /// All `internal`, `external` and `full` accounts.
    Everything,
    /// Those of them whose roles are within these permissions, and that are without rights on single objects.
    Within(Permissions),
    /// No account.
    Nothing,
}

impl Vouching {
    /// Loads the present vouching of a configuration.
    pub fn load(conn: &mut Conn, configuration: SingleSignOnId) -> Result<Vouching, StoreError> {
        let sql = Sql::new(concat!(
            "SELECT CASE WHEN t.vouched_state = ",
            state!(),
            " THEN t.vouches_for END FROM single_sign_on t WHERE t.id = $1"
        ));
        let stored =
            conn.query_optional(&sql.arg(configuration), |row| Ok(row.opt_text(0)?.map(str::to_owned)))?.flatten();
        Ok(match stored.as_deref() {
            Some(EVERYTHING) => Vouching::Everything,
            Some(grants) => serde_json::from_str(grants)
                .map_or(Vouching::Nothing, |grants| Vouching::Within(Permissions::from_actions(&grants))),
            None => Vouching::Nothing,
        })
    }

    /// Returns the vouching of a user: for all accounts by a super admin, otherwise for the permissions of the user's account.
    fn vouch_by_account(conn: &mut Conn, user: UserId) -> Result<Vouching, StoreError> {
        let account_type = account_type_of(conn, user)?;
        if account_type.is_super() {
            return Ok(Vouching::Everything);
        }
        Ok(Vouching::Within(Permissions::for_account_type(account_type).union(permissions_of_roles(conn, user)?)))
    }

    /// Returns whether it covers an account. The caller checks that the account's type can be bound by address.
    pub fn covers_account(self, conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
        Ok(match self {
            Vouching::Everything => true,
            Vouching::Within(limit) => limit.covers(permissions_of_roles(conn, user)?) && !holds_objects(conn, user)?,
            Vouching::Nothing => false,
        })
    }

    /// Returns whether it covers a new account with the roles of the configuration.
    pub fn covers_new_account(self, conn: &mut Conn, configuration: SingleSignOnId) -> Result<bool, StoreError> {
        let sql = Sql::new(
            "SELECT r.permissions FROM single_sign_on_roles sr JOIN roles r ON r.id = sr.role_id WHERE sr.single_sign_on_id = $1",
        );
        let grants: Vec<Json> = conn.query_all(&sql.arg(configuration), |row| row.json(0))?;
        Ok(match self {
            Vouching::Everything => true,
            Vouching::Within(limit) => grants.iter().all(|grants| limit.covers(Permissions::from_actions(grants))),
            Vouching::Nothing => false,
        })
    }

    fn to_text(self) -> Option<String> {
        match self {
            Vouching::Everything => Some(EVERYTHING.to_owned()),
            Vouching::Within(limit) => Some(limit.to_actions().to_string()),
            Vouching::Nothing => None,
        }
    }

    fn store(self, conn: &mut Conn, configuration: SingleSignOnId, by: Option<UserId>) -> Result<(), StoreError> {
        let sql = Sql::new(concat!(
            "UPDATE single_sign_on AS t SET vouches_for = $1, vouched_by = $2, vouched_state = ",
            state!(),
            " WHERE t.id = $3"
        ));
        conn.exec(&sql.arg(self.to_text()).arg(by).arg(configuration)).map(drop)
    }
}

/// Returns whether a PATCH of a configuration renews its vouching.
pub fn is_renewed_by(changes: &Changes) -> bool {
    VOUCHED_FIELDS.iter().any(|field| changes.value(field).is_some())
}

/// Renews the vouching of a configuration by a caller, with the caller's present permissions. Call it after the row is written.
pub fn renew(conn: &mut Conn, configuration: SingleSignOnId, by: &Caller) -> Result<(), StoreError> {
    let vouching = if by.is_super() { Vouching::Everything } else { Vouching::Within(by.permissions) };
    vouching.store(conn, configuration, Some(by.user))
}

/// Sets the vouching of configurations that are older than vouching (a migration). The user who last changed a configuration
/// vouches, with the user's present permissions. A deleted or anonymized user has none.
pub fn migrate(conn: &mut Conn) -> Result<(), StoreError> {
    let sql = Sql::new(
        "SELECT t.id, t.modified_by, CASE WHEN u.is_deleted = 1 OR u.status = 'anonymized' THEN 1 ELSE 0 END \
         FROM single_sign_on t LEFT JOIN users u ON u.id = t.modified_by",
    );
    for (configuration, by, is_gone) in conn.query_all(&sql, |row| Ok((row.id(0)?, row.opt_id(1)?, row.flag(2)?)))? {
        let vouching = match by {
            // The command line changed the configuration.
            None => Vouching::Everything,
            Some(by) => Vouching::vouch_by_account(conn, by)?,
        };
        match vouching {
            Vouching::Within(_) if is_gone => Vouching::Within(Permissions::NONE).store(conn, configuration, by)?,
            vouching => vouching.store(conn, configuration, by)?,
        }
    }
    Ok(())
}

/// Logs a warning at the start of a server for each configuration that does not vouch for all accounts. People with more
/// permissions cannot sign in with it for the first time until a super admin renews it.
pub fn warn_at_start(app: &App) {
    let app = app.clone();
    tokio::spawn(async move {
        let domains = match app.active_domains().await {
            Ok(domains) => domains,
            Err(error) => return tracing::error!(%error, "the single sign-on configurations could not be checked"),
        };
        for domain in domains {
            let Ok(Some(build)) = app.build(&domain).await else { continue };
            jobs::start_task_and_wait(&app, &build).await;
            let limited = build.db.read(limited_configurations).await.unwrap_or_else(|error: StoreError| {
                tracing::error!(%error, build = build.domain, "the single sign-on configurations could not be checked");
                Vec::new()
            });
            for single_sign_on in limited {
                tracing::warn!(
                    build = build.domain,
                    single_sign_on = single_sign_on.get(),
                    "a single sign-on configuration does not vouch for every account; a super admin changes that by a PATCH of it"
                );
            }
        }
    });
}

fn limited_configurations(conn: &mut Conn) -> Result<Vec<SingleSignOnId>, StoreError> {
    let ids = conn.query_all(&Sql::new("SELECT id FROM single_sign_on ORDER BY id"), |row| row.id(0))?;
    let mut limited = Vec::new();
    for id in ids {
        if Vouching::load(conn, id)? != Vouching::Everything {
            limited.push(id);
        }
    }
    Ok(limited)
}
