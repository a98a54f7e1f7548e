//! Who somebody from a provider is here (document 4, section 3, "the user behind a sign-in"; section 7): whoever the
//! identity (issuer and subject) is bound to, or at the first sign-in the account that a verified address names, if the
//! configuration vouches for it (`vouching.rs`). An account that has an identity of a provider in use is bound by no
//! address: another subject with the same address, as when an address is given to a new colleague, is refused. A super
//! admin is bound by linking while signed in, and in no other way.

use super::configuration::{Configuration, ROLES, enabled_issuers, is_enabled};
use super::failure::Failure;
use super::transaction::Linking;
use super::vouching::Vouching;
use crate::account::{Account, method_of, type_of};
use crate::attempts::count_address;
use crate::system_events::{self, Event};
use crate::users::create;
use crate::users::user::USER;
use kit::account_type::AccountType;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
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
pub enum Decision {
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

/// Who somebody is found to be.
enum Found {
    Account(i64),
    Obstacle(Obstacle),
}

/// Decides who it is. The outer refusal undoes everything; what is decided is kept.
pub fn decide(
    request: &Request,
    conn: &mut Conn,
    asked: &Configuration,
    person: &Person,
    linking: Option<Linking>,
) -> Result<Decision, Refusal> {
    // Asking the provider has taken its time.
    let Some(configuration) = &asked.still(request, conn)? else {
        failed(request, conn, None, "state")?;
        return Ok(Decision::Failed);
    };
    let found = match linking {
        Some(linking) => {
            if !link(request, conn, person, linking)? {
                failed(request, conn, None, "not_linked")?;
                return Ok(Decision::Failed);
            }
            return Ok(match may_sign_in(request, conn, linking.user)? {
                None => Decision::Welcome(linking.user),
                Some(_) => Decision::Linked,
            });
        }
        None => match identity(conn, person)? {
            Some(bound) => by_identity(request, conn, configuration, person, bound)?,
            None => by_address(request, conn, configuration, person)?,
        },
    };
    match found {
        Found::Account(user) => Ok(Decision::Welcome(user)),
        Found::Obstacle(obstacle) => {
            let Obstacle { event, user, reason } = obstacle;
            system_events::note(request, conn, event, user, Some(reason))?;
            count_address(request, conn)?;
            Ok(Decision::Refused)
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
    log::write_by(request, conn, Some(user), "link_identity", &USER, user, &name, log::Diff::new())
}

/// Binds the identity to whoever asked for it, if he is still signed in and it is nobody else's.
fn link(request: &Request, conn: &mut Conn, person: &Person, linking: Linking) -> Result<bool, Refusal> {
    let account = Account::of_for_change(conn, linking.user)?.filter(|account| account.is_active);
    let bound = identity(conn, person)?;
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

fn by_identity(
    request: &Request,
    conn: &mut Conn,
    configuration: &Configuration,
    person: &Person,
    bound: Bound,
) -> Result<Found, Refusal> {
    if let Some(obstacle) = may_sign_in(request, conn, bound.user)? {
        return Ok(Found::Obstacle(obstacle));
    }
    // It may have ended before the account was locked.
    let Some(bound) = identity(conn, person)?.filter(|now| now.user == bound.user) else {
        return by_address(request, conn, configuration, person);
    };
    if !bound.is_linked && type_of(conn, bound.user)? == AccountType::SuperAdmin {
        return Ok(Found::Obstacle(Obstacle::of(bound.user, "not_linked")));
    }
    Ok(Found::Account(bound.user))
}

fn by_address(
    request: &Request,
    conn: &mut Conn,
    configuration: &Configuration,
    person: &Person,
) -> Result<Found, Refusal> {
    let Some(address) = &person.address else { return Ok(Found::Obstacle(Obstacle::of(None, "address_not_verified"))) };
    let Some(user) = user_of(conn, address)? else {
        return create(request, conn, configuration, person, address);
    };
    if let Some(obstacle) = may_sign_in(request, conn, user)? {
        return Ok(Found::Obstacle(obstacle));
    }
    // It may have been given another name before it was locked.
    if user_of(conn, address)? != Some(user) {
        return Ok(Found::Obstacle(Obstacle::of(None, "unknown_account")));
    }
    if !matches!(type_of(conn, user)?, AccountType::Internal | AccountType::External | AccountType::Full) {
        return Ok(Found::Obstacle(Obstacle::of(user, "not_linked")));
    }
    if identity(conn, person)?.is_some_and(|bound| bound.user == user) {
        // By a sign-in at the same time, after this one looked for it.
        return Ok(Found::Account(user));
    }
    if has_identity_in_use(request, conn, user)? || !Vouching::of(conn, configuration.id)?.covers_account(conn, user)? {
        return Ok(Found::Obstacle(Obstacle::of(user, "not_vouched")));
    }
    bind(request, conn, person, user, false)?;
    Ok(Found::Account(user))
}

/// Whether an account has an identity of a provider in use. Others do not count, so that a company can change its
/// provider.
fn has_identity_in_use(request: &Request, conn: &mut Conn, user: i64) -> Result<bool, Error> {
    let enabled = enabled_issuers(request, conn)?;
    let sql = Sql::new("SELECT issuer FROM single_sign_on_identities WHERE user_id = $1").arg(user);
    Ok(conn
        .all(&sql, |row| Ok(enabled.iter().any(|issuer| row.text(0).is_ok_and(|known| known == issuer))))?
        .contains(&true))
}

/// The account that an address names. Usernames are unique under a folding that takes different addresses for one.
fn user_of(conn: &mut Conn, address: &str) -> Result<Option<i64>, Error> {
    let sql = Sql::new("SELECT id, username FROM users WHERE username_fold = $1 AND is_deleted = 0");
    let found =
        conn.opt(&sql.arg(resource::fold(address)), |row| Ok((row.int(0)?, is_same_address(row.text(1)?, address))))?;
    Ok(found.filter(|(_, is_same)| *is_same).map(|(user, _)| user))
}

/// Whether two texts are one address: in lower case, character by character (document 4, section 7).
fn is_same_address(one: &str, other: &str) -> bool {
    one.chars().map(lower_case).eq(other.chars().map(lower_case))
}

/// The lower case of a character. One that is not ASCII stays as it is where ASCII would come of it (the Kelvin sign).
fn lower_case(character: char) -> char {
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) if one.is_ascii() == character.is_ascii() => one,
        _ => character,
    }
}

/// What keeps an account from signing in by single sign-on, the state of the account first. A lock is about passwords.
fn may_sign_in(request: &Request, conn: &mut Conn, user: i64) -> Result<Option<Obstacle>, Error> {
    let Some(account) = Account::of_for_change(conn, user)? else {
        return Ok(Some(Obstacle::of(None, "unknown_account")));
    };
    Ok(if !account.is_active {
        Some(Obstacle { event: Event::LoginFailedInactiveAccount, user: Some(user), reason: "single_sign_on" })
    } else if !account.may_use_single_sign_on() {
        Some(Obstacle { event: Event::LoginFailedInvalidAuthMethod, user: Some(user), reason: "single_sign_on" })
    } else if !account.may_call_from(request) {
        Some(Obstacle::of(user, "address_not_allowed"))
    } else {
        None
    })
}

/// Whether an account may still have the session that a ticket of a configuration promises it.
pub fn is_welcome(request: &Request, conn: &mut Conn, configuration: i64, user: i64) -> Result<bool, Refusal> {
    let obstacle = match is_enabled(conn, configuration)? {
        true => may_sign_in(request, conn, user)?,
        false => Some(Obstacle::of(user, "state")),
    };
    let Some(Obstacle { event, user, reason }) = obstacle else { return Ok(true) };
    system_events::note(request, conn, event, user, Some(reason))?;
    Ok(false)
}

/// Makes an account for somebody new (document 4, section 3, "auto-created users").
fn create(
    request: &Request,
    conn: &mut Conn,
    configuration: &Configuration,
    person: &Person,
    address: &str,
) -> Result<Found, Refusal> {
    if !configuration.auto_create_user {
        return Ok(Found::Obstacle(Obstacle::of(None, "unknown_account")));
    }
    if !Vouching::of(conn, configuration.id)?.covers_new_account(conn, configuration.id)? {
        return Ok(Found::Obstacle(Obstacle::of(None, "not_vouched")));
    }
    let sql = Sql::new("SELECT role_id FROM single_sign_on_roles WHERE single_sign_on_id = $1 ORDER BY role_id");
    let roles = conn.all(&sql.arg(configuration.id), |row| row.int(0))?;
    let account_type = if roles.is_empty() { AccountType::Internal } else { AccountType::Full };
    if method_of(conn, account_type)? == "password" {
        let event = Event::LoginFailedInvalidAuthMethod;
        return Ok(Found::Obstacle(Obstacle { event, user: None, reason: "single_sign_on" }));
    }
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, address));
    let body = json!({
        "username": address,
        "account_type": account_type.name(),
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
            None => Ok(Found::Obstacle(Obstacle::of(None, "unusable_claims"))),
        };
    }
    let Some(user) = create::insert_at_sign_in(request, conn, accepted.changes)? else {
        return Ok(Found::Obstacle(Obstacle::of(None, "account_limit")));
    };
    bind(request, conn, person, user, false)?;
    Ok(Found::Account(user))
}

/// A name as a user may have it, else what stands in for it.
fn name(claimed: &str, instead: &str) -> String {
    let claimed: String = claimed.chars().filter(|c| !c.is_control()).take(100).collect();
    let claimed = claimed.trim();
    if claimed.is_empty() { instead.chars().take(100).collect() } else { claimed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::is_same_address;

    #[test]
    fn addresses_are_compared_in_lower_case_character_by_character() {
        for (one, other) in [("Ann@Example.com", "ann@example.COM"), ("JÖRG@example.com", "jörg@example.com")] {
            assert!(is_same_address(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("straße@example.com", "strasse@example.com"),
            ("\u{212a}arl@example.com", "karl@example.com"),
            ("\u{17f}am@example.com", "sam@example.com"),
            ("\u{130}da@example.com", "i\u{307}da@example.com"),
            ("ﬁn@example.com", "fin@example.com"),
            ("ann@example.com", "ann@example.co"),
        ] {
            assert!(!is_same_address(one, other) && !is_same_address(other, one), "{one} {other}");
        }
    }
}
