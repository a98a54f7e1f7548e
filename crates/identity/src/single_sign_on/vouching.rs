//! For whom a configuration vouches (document 4, section 7): whoever decides where people of a configuration come from
//! can say of anybody that he has an address. So an address binds only accounts that hold no more than whoever decided
//! that, held then.

use crate::account::{account_type_of, permissions_of_roles};
use kit::app::App;

use kit::domain::holds_objects;
use kit::permissions::Permissions;
use resource::Changes;
use serde_json::Value as Json;
use store::{Conn, Error, Sql};

/// A PATCH that sends one of these vouches anew, whether it changes it or not.
const VOUCHED_FIELDS: [&str; 5] = ["client_id", "client_secret", "tenant_id", "is_enabled", "auto_create_user"];

/// What stands in `vouches_for` when there is no bound.
const EVERYTHING: &str = "everything";

/// [`VOUCHED_FIELDS`] of the configuration `t`, as they are: a secret is stored under a new key each time. None of the
/// texts can hold a space.
macro_rules! state {
    () => {
        "(t.client_id || ' ' || t.tenant_id || ' ' || t.secret_key || ' ' || t.is_enabled || ' ' || t.auto_create_user)"
    };
}

/// Who vouches, for `_meta.labels`: `super_admin`, a username, or null when nobody does.
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

/// What a configuration vouches for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vouching {
    /// Every `internal`, `external` and `full` account.
    Everything,
    /// Those of them that hold no more than this, by their roles or by anything else.
    Within(Permissions),
    /// None.
    Nothing,
}

impl Vouching {
    /// What a configuration vouches for now.
    pub fn of(conn: &mut Conn, configuration: i64) -> Result<Vouching, Error> {
        let sql = Sql::new(concat!(
            "SELECT CASE WHEN t.vouched_state = ",
            state!(),
            " THEN t.vouches_for END FROM single_sign_on t WHERE t.id = $1"
        ));
        let stored = conn.opt(&sql.arg(configuration), |row| Ok(row.opt_text(0)?.map(str::to_owned)))?.flatten();
        Ok(match stored.as_deref() {
            Some(EVERYTHING) => Vouching::Everything,
            Some(grants) => serde_json::from_str(grants)
                .map_or(Vouching::Nothing, |grants| Vouching::Within(Permissions::from_grants(&grants))),
            None => Vouching::Nothing,
        })
    }

    /// What an account can vouch for: everything for super admins, else what it holds.
    fn by_account(conn: &mut Conn, user: i64) -> Result<Vouching, Error> {
        let account_type = account_type_of(conn, user)?;
        if account_type.is_super() {
            return Ok(Vouching::Everything);
        }
        Ok(Vouching::Within(Permissions::of_account(account_type).union(permissions_of_roles(conn, user)?)))
    }

    /// Whether it vouches for an account. That its type is bound by an address at all is for others to say.
    pub fn covers_account(self, conn: &mut Conn, user: i64) -> Result<bool, Error> {
        Ok(match self {
            Vouching::Everything => true,
            Vouching::Within(held) => held.covers(permissions_of_roles(conn, user)?) && !holds_objects(conn, user)?,
            Vouching::Nothing => false,
        })
    }

    /// Whether it vouches for an account that is still to be made, with the roles of the configuration.
    pub fn covers_new_account(self, conn: &mut Conn, configuration: i64) -> Result<bool, Error> {
        let sql = Sql::new(
            "SELECT r.permissions FROM single_sign_on_roles sr JOIN roles r ON r.id = sr.role_id WHERE sr.single_sign_on_id = $1",
        );
        let grants: Vec<Json> =
            conn.all(&sql.arg(configuration), |row| Ok(serde_json::from_str(row.text(0)?).unwrap_or_default()))?;
        Ok(match self {
            Vouching::Everything => true,
            Vouching::Within(held) => grants.iter().all(|grants| held.covers(Permissions::from_grants(grants))),
            Vouching::Nothing => false,
        })
    }

    fn to_text(self) -> Option<String> {
        match self {
            Vouching::Everything => Some(EVERYTHING.to_owned()),
            Vouching::Within(held) => Some(held.to_grants().to_string()),
            Vouching::Nothing => None,
        }
    }

    fn store(self, conn: &mut Conn, configuration: i64, by: Option<i64>) -> Result<(), Error> {
        let sql = Sql::new(concat!(
            "UPDATE single_sign_on AS t SET vouches_for = $1, vouched_by = $2, vouched_state = ",
            state!(),
            " WHERE t.id = $3"
        ));
        conn.exec(&sql.arg(self.to_text()).arg(by).arg(configuration)).map(drop)
    }
}

/// Whether a PATCH of a configuration, with what it sent, says anew for whom it vouches.
pub fn is_renewed_by(sent: &Changes) -> bool {
    VOUCHED_FIELDS.iter().any(|field| sent.value(field).is_some())
}

/// Lets a user vouch with what he holds at this moment. To be called after the row is written.
pub fn renew(conn: &mut Conn, configuration: i64, by: i64) -> Result<(), Error> {
    Vouching::by_account(conn, by)?.store(conn, configuration, Some(by))
}

/// What configurations vouch for that were made before anybody vouched: the last change counts as the word of whoever
/// made it, with what he holds now, which is nothing where he is deleted or anonymized.
pub fn migrate(conn: &mut Conn) -> Result<(), Error> {
    let sql = Sql::new(
        "SELECT t.id, t.modified_by, CASE WHEN u.is_deleted = 1 OR u.status = 'anonymized' THEN 1 ELSE 0 END \
         FROM single_sign_on t LEFT JOIN users u ON u.id = t.modified_by",
    );
    for (configuration, by, is_gone) in conn.all(&sql, |row| Ok((row.int(0)?, row.opt_int(1)?, row.flag(2)?)))? {
        let word = match by {
            // The command line.
            None => Vouching::Everything,
            Some(by) => Vouching::by_account(conn, by)?,
        };
        match word {
            Vouching::Within(_) if is_gone => Vouching::Within(Permissions::NONE).store(conn, configuration, by)?,
            word => word.store(conn, configuration, by)?,
        }
    }
    Ok(())
}

/// Logs a warning for each configuration that does not vouch with everything, once at the start of a server: people who
/// hold more find no way in there until a super admin takes the configuration over.
pub fn warn_at_start(app: &App) {
    let app = app.clone();
    tokio::spawn(async move {
        let builds = match app.active_builds().await {
            Ok(builds) => builds,
            Err(error) => return tracing::error!(%error, "the single sign-on configurations were not looked at"),
        };
        for build in builds {
            let bounded = build.db.read(bounded).await.unwrap_or_else(|error: Error| {
                tracing::error!(%error, build = build.domain, "the single sign-on configurations were not looked at");
                Vec::new()
            });
            for single_sign_on in bounded {
                tracing::warn!(
                    build = build.domain,
                    single_sign_on,
                    "a single sign-on configuration does not vouch for every account; a super admin changes that by a PATCH of it"
                );
            }
        }
    });
}

fn bounded(conn: &mut Conn) -> Result<Vec<i64>, Error> {
    let all = conn.all(&Sql::new("SELECT id FROM single_sign_on ORDER BY id"), |row| row.int(0))?;
    let mut bounded = Vec::new();
    for id in all {
        if Vouching::of(conn, id)? != Vouching::Everything {
            bounded.push(id);
        }
    }
    Ok(bounded)
}
