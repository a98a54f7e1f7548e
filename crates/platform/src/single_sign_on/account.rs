//! Who somebody from a provider is here (document 4, section 3, "the user behind a sign-in"): whoever the identity
//! (issuer and subject) is bound to, or at the first sign-in the account that a verified address names. An address binds
//! an account once: another subject of the same issuer with the same address, as when an address is given to a new
//! colleague, is refused. A super admin is bound by linking while signed in, and in no other way.

use super::provider::Failure;
use super::transaction::Linking;
use super::{Configuration, ROLES};
use crate::administration_log as log;
use crate::http::{Refusal, Request};
use crate::rows;
use crate::sign_in::{self, Account, count_address};
use crate::system_events::{self, Event};
use crate::users::{self, USER};
use resource::Body;
use serde_json::{Map, Value as Json, json};
use store::{Conn, Error, Sql};

/// What a provider says of somebody.
#[derive(Clone, Debug)]
pub struct Person {
    issuer: String,
    subject: String,
    /// None unless it is verified.
    address: Option<String>,
    given_name: String,
    family_name: String,
}

impl Person {
    /// Reads verified claims. `preferred_username`, `upn` and the like are not looked at: they are nobody's to vouch for.
    pub fn of(configuration: &Configuration, claims: &Map<String, Json>) -> Person {
        let text = |name: &str| claims.get(name).and_then(Json::as_str).map(str::trim).unwrap_or("").to_owned();
        let is_true = |name: &str| claims.get(name) == Some(&Json::Bool(true));
        let is_verified = is_true("email_verified") || configuration.provider == "provider_a" && is_true("xms_edov");
        Person {
            issuer: text("iss"),
            subject: claims.get("sub").and_then(Json::as_str).unwrap_or("").to_owned(),
            address: Some(text("email")).filter(|address| is_verified && is_text(address)),
            given_name: text("given_name"),
            family_name: text("family_name"),
        }
    }
}

/// Whether a text can be an address at all: some can not even be looked for.
fn is_text(text: &str) -> bool {
    (1..=320).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// What became of a sign-in whose tokens were right.
pub enum Settled {
    /// The account may have a session.
    Welcome(i64),
    /// An identity was bound, but its account does not sign in this way.
    Linked,
    /// The account, or that there is none, stands in the way: 401.
    Refused,
    /// The link is not to be made: 400.
    Failed,
}

/// Why an account has no way in.
struct Obstacle {
    event: Event,
    user: Option<i64>,
    reason: &'static str,
}

impl Obstacle {
    fn of(user: impl Into<Option<i64>>, reason: &'static str) -> Obstacle {
        Obstacle { event: Event::LoginFailedSso, user: user.into(), reason }
    }
}

/// Decides who it is. The outer refusal undoes everything; what is decided is kept.
pub fn settle(
    request: &Request,
    conn: &mut Conn,
    configuration: &Configuration,
    person: &Person,
    linking: Option<Linking>,
) -> Result<Settled, Refusal> {
    let bound = identity(conn, person)?;
    let found = match linking {
        Some(linking) => {
            if !link(request, conn, person, bound, linking)? {
                failed(request, conn, None, "not_linked")?;
                return Ok(Settled::Failed);
            }
            return Ok(match may_sign_in(request, conn, linking.user)? {
                None => Settled::Welcome(linking.user),
                Some(_) => Settled::Linked,
            });
        }
        None => match bound {
            Some(bound) => by_identity(request, conn, bound)?,
            None => by_address(request, conn, configuration, person)?,
        },
    };
    match found {
        Ok(user) => Ok(Settled::Welcome(user)),
        Err(obstacle) => {
            let Obstacle { event, user, reason } = obstacle;
            system_events::note(request, conn, event, user, Some(reason))?;
            count_address(request, conn)?;
            Ok(Settled::Refused)
        }
    }
}

/// Notes a sign-in that failed before anybody was found.
pub fn failed(request: &Request, conn: &mut Conn, user: Option<i64>, reason: &str) -> Result<(), Refusal> {
    system_events::note(request, conn, Event::LoginFailedSso, user, Some(reason))?;
    count_address(request, conn)?;
    Ok(())
}

/// Tells operators what went wrong between us and a provider.
pub fn log(request: &Request, configuration: &Configuration, failure: &Failure) {
    tracing::warn!(
        build = request.build.domain,
        single_sign_on = configuration.id,
        issuer = configuration.issuer.as_deref().unwrap_or(""),
        reason = failure.0,
        "a single sign-on failed"
    );
}

#[derive(Clone, Copy)]
struct Bound {
    user: i64,
    is_linked: bool,
}

fn identity(conn: &mut Conn, person: &Person) -> Result<Option<Bound>, Error> {
    let sql = Sql::new("SELECT user_id, is_linked FROM single_sign_on_identities WHERE issuer = $1 AND subject = $2");
    conn.opt(&sql.arg(&person.issuer).arg(&person.subject), |row| {
        Ok(Bound { user: row.int(0)?, is_linked: row.flag(1)? })
    })
}

fn bind(request: &Request, conn: &mut Conn, person: &Person, user: i64, is_linked: bool) -> Result<(), Refusal> {
    let sql = Sql::new(
        "INSERT INTO single_sign_on_identities(issuer, subject, user_id, is_linked, created_at) VALUES ($1, $2, $3, $4, $5)",
    );
    conn.exec(&sql.arg(&person.issuer).arg(&person.subject).arg(user).arg(is_linked).arg(request.now))?;
    let name = Sql::new("SELECT username FROM users WHERE id = $1").arg(user);
    let name = conn.one(&name, |row| Ok(row.text(0)?.to_owned()))?;
    log::note_by(request, conn, Some(user), "link_identity", &USER, user, &name, log::Diff::new())
}

/// Binds the identity to whoever asked for it, if he is still signed in and it is nobody else's.
fn link(
    request: &Request,
    conn: &mut Conn,
    person: &Person,
    bound: Option<Bound>,
    linking: Linking,
) -> Result<bool, Refusal> {
    let account = Account::of_for_change(conn, linking.user)?.filter(|account| account.is_active);
    let sql =
        Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND user_id = $2 AND ended_at IS NULL AND expires_at > $3");
    let session = conn.opt(&sql.arg(linking.session).arg(linking.user).arg(request.now), |_| Ok(()))?;
    match bound {
        _ if account.is_none() || session.is_none() => return Ok(false),
        Some(bound) if bound.user != linking.user => return Ok(false),
        Some(bound) if bound.is_linked => {}
        Some(_) => {
            let sql = Sql::new("UPDATE single_sign_on_identities SET is_linked = 1 WHERE issuer = $1 AND subject = $2");
            conn.exec(&sql.arg(&person.issuer).arg(&person.subject))?;
        }
        None => bind(request, conn, person, linking.user, true)?,
    }
    Ok(true)
}

fn by_identity(request: &Request, conn: &mut Conn, bound: Bound) -> Result<Result<i64, Obstacle>, Refusal> {
    if let Some(obstacle) = may_sign_in(request, conn, bound.user)? {
        return Ok(Err(obstacle));
    }
    if !bound.is_linked && account_type(conn, bound.user)? == "super_admin" {
        return Ok(Err(Obstacle::of(bound.user, "not_linked")));
    }
    Ok(Ok(bound.user))
}

fn by_address(
    request: &Request,
    conn: &mut Conn,
    configuration: &Configuration,
    person: &Person,
) -> Result<Result<i64, Obstacle>, Refusal> {
    let Some(address) = &person.address else { return Ok(Err(Obstacle::of(None, "address_not_verified"))) };
    let Some(user) = user_of(conn, address)? else {
        return create(request, conn, configuration, person, address);
    };
    if let Some(obstacle) = may_sign_in(request, conn, user)? {
        return Ok(Err(obstacle));
    }
    if !matches!(account_type(conn, user)?.as_str(), "internal" | "external" | "full") {
        return Ok(Err(Obstacle::of(user, "not_linked")));
    }
    let sql = Sql::new("SELECT subject FROM single_sign_on_identities WHERE user_id = $1 AND issuer = $2");
    let subjects = conn.all(&sql.arg(user).arg(&person.issuer), |row| Ok(row.text(0)?.to_owned()))?;
    if subjects.is_empty() {
        bind(request, conn, person, user, false)?;
    } else if !subjects.contains(&person.subject) {
        return Ok(Err(Obstacle::of(user, "other_identity")));
    }
    // Else a sign-in at the same time has bound it, after this one looked for it.
    Ok(Ok(user))
}

fn user_of(conn: &mut Conn, address: &str) -> Result<Option<i64>, Error> {
    let sql = Sql::new("SELECT id FROM users WHERE username_fold = $1 AND is_deleted = 0");
    conn.opt(&sql.arg(resource::fold(address)), |row| row.int(0))
}

/// What keeps an account from signing in by single sign-on, the state of the account first.
fn may_sign_in(request: &Request, conn: &mut Conn, user: i64) -> Result<Option<Obstacle>, Error> {
    let Some(account) = Account::of_for_change(conn, user)? else {
        return Ok(Some(Obstacle::of(None, "unknown_account")));
    };
    Ok(if !account.is_active {
        Some(Obstacle { event: Event::LoginFailedInactiveAccount, user: Some(user), reason: "single_sign_on" })
    } else if !account.may_use_single_sign_on() {
        Some(Obstacle { event: Event::LoginFailedInvalidAuthMethod, user: Some(user), reason: "single_sign_on" })
    } else if account.is_locked(request.now) {
        Some(Obstacle::of(user, "locked"))
    } else if !account.may_call_from(request) {
        Some(Obstacle::of(user, "address_not_allowed"))
    } else {
        None
    })
}

/// Whether an account may still have the session that a ticket promises it.
pub fn is_welcome(request: &Request, conn: &mut Conn, user: i64) -> Result<bool, Refusal> {
    let Some(Obstacle { event, user, reason }) = may_sign_in(request, conn, user)? else { return Ok(true) };
    system_events::note(request, conn, event, user, Some(reason))?;
    Ok(false)
}

fn account_type(conn: &mut Conn, user: i64) -> Result<String, Error> {
    let sql = Sql::new("SELECT account_type FROM users WHERE id = $1").arg(user);
    conn.one(&sql, |row| Ok(row.text(0)?.to_owned()))
}

/// Makes an account for somebody new (document 4, section 3, "auto-created users").
fn create(
    request: &Request,
    conn: &mut Conn,
    configuration: &Configuration,
    person: &Person,
    address: &str,
) -> Result<Result<i64, Obstacle>, Refusal> {
    if !configuration.auto_create_user {
        return Ok(Err(Obstacle::of(None, "unknown_account")));
    }
    let sql = Sql::new("SELECT role_id FROM single_sign_on_roles WHERE single_sign_on_id = $1 ORDER BY role_id");
    let roles = conn.all(&sql.arg(configuration.id), |row| row.int(0))?;
    let account_type = if roles.is_empty() { "internal" } else { "full" };
    if sign_in::method_of(conn, account_type)? == "password" {
        let event = Event::LoginFailedInvalidAuthMethod;
        return Ok(Err(Obstacle { event, user: None, reason: "single_sign_on" }));
    }
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, address));
    let body = json!({
        "username": address,
        "account_type": account_type,
        "first_name": name(&person.given_name, local),
        "last_name": name(&person.family_name, domain),
        ROLES.name(): roles,
    });
    let body = Body::of(&body);
    let body = body.sent().as_object(|_| true).unwrap_or_default();
    let accepted = rows::accepted(conn, &USER, &body, None)?;
    if !accepted.errors.is_empty() {
        return match user_of(conn, address)? {
            // Made by a sign-in at the same time, after this one looked for it.
            Some(_) => by_address(request, conn, configuration, person),
            None => Ok(Err(Obstacle::of(None, "unusable_claims"))),
        };
    }
    let Some(user) = users::insert_at_sign_in(request, conn, accepted.changes)? else {
        return Ok(Err(Obstacle::of(None, "account_limit")));
    };
    bind(request, conn, person, user, false)?;
    Ok(Ok(user))
}

/// A name as a user may have it, else what stands in for it.
fn name(claimed: &str, instead: &str) -> String {
    let claimed: String = claimed.chars().filter(|c| !c.is_control()).take(100).collect();
    let claimed = claimed.trim();
    if claimed.is_empty() { instead.chars().take(100).collect() } else { claimed.to_owned() }
}
