//! The account of a person who signs in at a provider (`docs/reference/single-sign-on.md`).
//!
//! It is the account to which the identity (issuer and subject) is bound. At a first sign-in it is the account whose username is
//! the person's verified address, if the configuration vouches for that (`vouching.rs`). The identity is then bound to it. An
//! account that already has an identity of a provider in use is not bound by address. A new colleague with the former address of
//! another person therefore does not get that person's account. A super admin binds an identity only by linking it while signed in.

use super::configuration::{ROLES, SignInConfiguration, enabled_issuers, is_enabled};
use super::failure::ProviderFailure;
use super::transaction::Linking;
use super::vouching::Vouching;
use crate::account::{SignInAccount, account_type_of, authentication_method};
use crate::attempts::count_failure;
use crate::system_events::{self, AuthEvent};
use crate::users::create;
use crate::users::user::USER;
use kit::account_type::AccountType;
use kit::ids::{SingleSignOnId, UserId};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use resource::{Changes, JsonBody, UNDIRECTED};
use serde_json::{Map, Value as Json, json};
use store::{Conn, Sql, StoreError};

/// A person according to the claims of a provider.
#[derive(Clone, Debug)]
pub struct ProviderPerson {
    issuer: String,
    subject: String,
    /// The e-mail address; `None` unless the provider has verified it.
    pub address: Option<String>,
    given_name: String,
    family_name: String,
}

impl ProviderPerson {
    /// Reads the claims of a verified ID token. `preferred_username`, `upn` and similar claims are not read, since a provider does
    /// not verify them.
    pub fn from_claims(configuration: &SignInConfiguration, claims: &Map<String, Json>) -> ProviderPerson {
        let text = |name: &str| claims.get(name).and_then(Json::as_str).map(str::trim).unwrap_or("").to_owned();
        let is_true = |name: &str| claims.get(name) == Some(&Json::Bool(true));
        let is_verified = is_true("email_verified") || configuration.provider == "provider_a" && is_true("xms_edov");
        ProviderPerson {
            issuer: text("iss"),
            subject: claims.get("sub").and_then(Json::as_str).unwrap_or("").to_owned(),
            address: Some(text("email")).filter(|address| is_verified && can_be_address(address)),
            given_name: text("given_name"),
            family_name: text("family_name"),
        }
    }
}

/// Returns whether a text can be an address. Other texts are not searched for, since a database refuses some of them.
fn can_be_address(text: &str) -> bool {
    (1..=320).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// The decision on a sign-in whose tokens were valid.
pub enum Decision {
    /// The account of this user gets a session.
    SignIn(UserId),
    /// An identity was linked, but its account may not sign in by single sign-on.
    Linked,
    /// The account does not exist, or it may not sign in: 401.
    Refused,
    /// The configuration has changed, or the identity could not be linked: 400.
    Failed,
}

/// The reason why a person cannot sign in.
pub struct SignInRefusal {
    pub event: AuthEvent,
    pub user: Option<UserId>,
    pub reason: &'static str,
}

impl SignInRefusal {
    fn new(user: impl Into<Option<UserId>>, reason: &'static str) -> SignInRefusal {
        SignInRefusal { event: AuthEvent::LoginFailedSso, user: user.into(), reason }
    }

    /// Refuses because the limit of accounts of the new account's type is reached.
    pub fn account_limit() -> SignInRefusal {
        SignInRefusal::new(None, "account_limit")
    }
}

/// The result of the search for a person's account.
pub enum AccountLookup {
    /// The account to which the identity is bound.
    Account(UserId),
    /// The account to which the identity will be bound, found by its address.
    Bind(UserId),
    /// No account exists. An account will be created with these values.
    Create(Changes),
    Obstacle(SignInRefusal),
}

/// Decides on a sign-in, or links the identity. Writes the decision, even a refusal. Only an `Err` rolls it back.
pub fn decide(
    request: &Request,
    conn: &mut Conn,
    configuration: &SignInConfiguration,
    person: &ProviderPerson,
    linking: Option<Linking>,
) -> Result<Decision, Refusal> {
    // The configuration may have changed during the requests to the provider.
    let Some(configuration) = &configuration.reload_unchanged(request, conn)? else {
        record_failure(request, conn, None, "state")?;
        return Ok(Decision::Failed);
    };
    if let Some(linking) = linking {
        if !link_identity(request, conn, person, linking)? {
            record_failure(request, conn, None, "not_linked")?;
            return Ok(Decision::Failed);
        }
        return Ok(match find_obstacle(request, conn, linking.user)? {
            None => Decision::SignIn(linking.user),
            Some(_) => Decision::Linked,
        });
    }
    let obstacle = match load_account(request, conn, configuration, person)? {
        AccountLookup::Account(user) => return Ok(Decision::SignIn(user)),
        AccountLookup::Bind(user) => {
            bind_identity(request, conn, person, user, false)?;
            return Ok(Decision::SignIn(user));
        }
        AccountLookup::Create(values) => match create::insert_at_sign_in(request, conn, values)? {
            Some(user) => {
                bind_identity(request, conn, person, user, false)?;
                return Ok(Decision::SignIn(user));
            }
            None => SignInRefusal::account_limit(),
        },
        AccountLookup::Obstacle(obstacle) => obstacle,
    };
    let SignInRefusal { event, user, reason } = obstacle;
    system_events::write(request, conn, event, user, Some(reason))?;
    count_failure(request, conn)?;
    Ok(Decision::Refused)
}

/// Searches for the account of a person and locks it. Writes nothing.
pub fn load_account(
    request: &Request,
    conn: &mut Conn,
    configuration: &SignInConfiguration,
    person: &ProviderPerson,
) -> Result<AccountLookup, Refusal> {
    match find_identity(conn, person)? {
        Some(identity) => account_by_identity(request, conn, configuration, person, identity),
        None => account_by_address(request, conn, configuration, person),
    }
}

/// Records a sign-in that failed before an account was found: its system event, and the failed attempt of the address.
pub fn record_failure(request: &Request, conn: &mut Conn, user: Option<UserId>, reason: &str) -> Result<(), Refusal> {
    system_events::write(request, conn, AuthEvent::LoginFailedSso, user, Some(reason))?;
    count_failure(request, conn)?;
    Ok(())
}

/// Logs for operators the reason why a provider could not be used.
pub fn log_failure(request: &Request, configuration: &SignInConfiguration, failure: &ProviderFailure) {
    tracing::warn!(
        build = request.build.domain,
        single_sign_on = configuration.id.get(),
        issuer = configuration.issuer.as_deref().unwrap_or(""),
        reason = failure.log_line(),
        "a single sign-on failed"
    );
}

/// A stored identity of a provider.
#[derive(Clone, Copy)]
struct ProviderIdentity {
    user: UserId,
    /// Is true if the user linked it while signed in. Otherwise it was bound by address.
    is_linked: bool,
}

fn find_identity(conn: &mut Conn, person: &ProviderPerson) -> Result<Option<ProviderIdentity>, StoreError> {
    let sql = Sql::new("SELECT user_id, is_linked FROM single_sign_on_identities WHERE issuer = $1 AND subject = $2");
    conn.query_optional(&sql.arg(&person.issuer).arg(&person.subject), |row| {
        Ok(ProviderIdentity { user: row.id(0)?, is_linked: row.flag(1)? })
    })
}

fn bind_identity(
    request: &Request,
    conn: &mut Conn,
    person: &ProviderPerson,
    user: UserId,
    is_linked: bool,
) -> Result<(), Refusal> {
    let sql = Sql::new(
        "INSERT INTO single_sign_on_identities(issuer, subject, user_id, is_linked, created_at) VALUES ($1, $2, $3, $4, $5)",
    );
    conn.exec(&sql.arg(&person.issuer).arg(&person.subject).arg(user).arg(is_linked).arg(request.now))?;
    let name = Sql::new("SELECT username FROM users WHERE id = $1").arg(user);
    let name = conn.query_one(&name, |row| Ok(row.text(0)?.to_owned()))?;
    log::write_by(request, conn, Some(user), "link_identity", &USER, user.get(), &name, log::Diff::new())
}

/// Links an identity to the user who requested it. Returns false if that user is no longer signed in, or if the identity belongs to
/// another user.
fn link_identity(
    request: &Request,
    conn: &mut Conn,
    person: &ProviderPerson,
    linking: Linking,
) -> Result<bool, Refusal> {
    let account = SignInAccount::load_by_id_for_change(conn, linking.user)?.filter(|account| account.is_active);
    let identity = find_identity(conn, person)?;
    let sql =
        Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND user_id = $2 AND ended_at IS NULL AND expires_at > $3");
    let session = conn.query_optional(&sql.arg(linking.session).arg(linking.user).arg(request.now), |_| Ok(()))?;
    match identity {
        _ if account.is_none() || session.is_none() => return Ok(false),
        Some(identity) if identity.user != linking.user => return Ok(false),
        Some(identity) if identity.is_linked => {}
        Some(_) => {
            let sql = Sql::new("UPDATE single_sign_on_identities SET is_linked = 1 WHERE issuer = $1 AND subject = $2");
            conn.exec(&sql.arg(&person.issuer).arg(&person.subject))?;
        }
        None => bind_identity(request, conn, person, linking.user, true)?,
    }
    Ok(true)
}

fn account_by_identity(
    request: &Request,
    conn: &mut Conn,
    configuration: &SignInConfiguration,
    person: &ProviderPerson,
    identity: ProviderIdentity,
) -> Result<AccountLookup, Refusal> {
    if let Some(obstacle) = find_obstacle(request, conn, identity.user)? {
        return Ok(AccountLookup::Obstacle(obstacle));
    }
    // The identity may have been deleted before the account was locked.
    let Some(identity) = find_identity(conn, person)?.filter(|now| now.user == identity.user) else {
        return account_by_address(request, conn, configuration, person);
    };
    if !identity.is_linked && account_type_of(conn, identity.user)? == AccountType::SuperAdmin {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(identity.user, "not_linked")));
    }
    Ok(AccountLookup::Account(identity.user))
}

fn account_by_address(
    request: &Request,
    conn: &mut Conn,
    configuration: &SignInConfiguration,
    person: &ProviderPerson,
) -> Result<AccountLookup, Refusal> {
    let Some(address) = &person.address else {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(None, "address_not_verified")));
    };
    let Some(user) = user_of_address(conn, address)? else {
        return account_to_make(request, conn, configuration, person, address);
    };
    if let Some(obstacle) = find_obstacle(request, conn, user)? {
        return Ok(AccountLookup::Obstacle(obstacle));
    }
    // The username may have changed before the account was locked.
    if user_of_address(conn, address)? != Some(user) {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(None, "unknown_account")));
    }
    if !matches!(account_type_of(conn, user)?, AccountType::Internal | AccountType::External | AccountType::Full) {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(user, "not_linked")));
    }
    if find_identity(conn, person)?.is_some_and(|identity| identity.user == user) {
        // Another sign-in at the same time has bound the identity after this one searched for it.
        return Ok(AccountLookup::Account(user));
    }
    if has_identity_in_use(request, conn, configuration, user)?
        || !Vouching::load(conn, configuration.id)?.covers_account(conn, user)?
    {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(user, "not_vouched")));
    }
    Ok(AccountLookup::Bind(user))
}

/// Returns whether an account has an identity of an enabled provider, or of this configuration's provider. Identities of former
/// providers do not count, so that a company can change its provider.
fn has_identity_in_use(
    request: &Request,
    conn: &mut Conn,
    configuration: &SignInConfiguration,
    user: UserId,
) -> Result<bool, StoreError> {
    let mut in_use = enabled_issuers(request, conn)?;
    in_use.extend(configuration.issuer.clone());
    let sql = Sql::new("SELECT issuer FROM single_sign_on_identities WHERE user_id = $1").arg(user);
    Ok(conn
        .query_all(&sql, |row| {
            Ok(in_use.iter().any(|issuer| row.text(0).is_ok_and(|stored_issuer| stored_issuer == issuer)))
        })?
        .contains(&true))
}

/// Returns the user whose username is an address. The folded username is compared first, since it has an index. Then the address
/// itself is compared, since different addresses can have the same folding.
fn user_of_address(conn: &mut Conn, address: &str) -> Result<Option<UserId>, StoreError> {
    let sql = Sql::new("SELECT id, username FROM users WHERE username_fold = $1 AND is_deleted = 0");
    let row = conn.query_optional(&sql.arg(resource::fold(address)), |row| {
        Ok((row.id(0)?, is_same_address(row.text(1)?, address)))
    })?;
    Ok(row.filter(|(_, is_same)| *is_same).map(|(user, _)| user))
}

/// Returns whether two texts are the same address, compared in lower case, character by character.
fn is_same_address(first: &str, second: &str) -> bool {
    first.chars().map(lower_case).eq(second.chars().map(lower_case))
}

/// Returns the lower case of a character. A character outside ASCII whose lower case is in ASCII (the Kelvin sign) does not change.
fn lower_case(character: char) -> char {
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) if lower.is_ascii() == character.is_ascii() => lower,
        _ => character,
    }
}

/// Returns the reason why an account may not sign in by single sign-on. Its state is checked first. A lock concerns only passwords.
fn find_obstacle(request: &Request, conn: &mut Conn, user: UserId) -> Result<Option<SignInRefusal>, StoreError> {
    let Some(account) = SignInAccount::load_by_id_for_change(conn, user)? else {
        return Ok(Some(SignInRefusal::new(None, "unknown_account")));
    };
    Ok(if !account.is_active {
        Some(SignInRefusal { event: AuthEvent::LoginFailedInactiveAccount, user: Some(user), reason: "single_sign_on" })
    } else if !account.may_use_single_sign_on() {
        Some(SignInRefusal {
            event: AuthEvent::LoginFailedInvalidAuthMethod,
            user: Some(user),
            reason: "single_sign_on",
        })
    } else if !account.may_call_from(request) {
        Some(SignInRefusal::new(user, "address_not_allowed"))
    } else {
        None
    })
}

/// Returns whether the user of a ticket may still sign in by its configuration. Records a failure.
pub fn may_redeem_ticket(
    request: &Request,
    conn: &mut Conn,
    configuration: SingleSignOnId,
    user: UserId,
) -> Result<bool, Refusal> {
    let obstacle = match is_enabled(conn, configuration)? {
        true => find_obstacle(request, conn, user)?,
        false => Some(SignInRefusal::new(user, "state")),
    };
    let Some(SignInRefusal { event, user, reason }) = obstacle else { return Ok(true) };
    system_events::write(request, conn, event, user, Some(reason))?;
    Ok(false)
}

/// Returns the account that will be created for a person without one.
fn account_to_make(
    request: &Request,
    conn: &mut Conn,
    configuration: &SignInConfiguration,
    person: &ProviderPerson,
    address: &str,
) -> Result<AccountLookup, Refusal> {
    if !configuration.auto_create_user {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(None, "unknown_account")));
    }
    if !Vouching::load(conn, configuration.id)?.covers_new_account(conn, configuration.id)? {
        return Ok(AccountLookup::Obstacle(SignInRefusal::new(None, "not_vouched")));
    }
    let sql = Sql::new("SELECT role_id FROM single_sign_on_roles WHERE single_sign_on_id = $1 ORDER BY role_id");
    let roles = conn.query_all(&sql.arg(configuration.id), |row| row.int(0))?;
    let account_type = if roles.is_empty() { AccountType::Internal } else { AccountType::Full };
    if authentication_method(conn, account_type)? == "password" {
        let event = AuthEvent::LoginFailedInvalidAuthMethod;
        return Ok(AccountLookup::Obstacle(SignInRefusal { event, user: None, reason: "single_sign_on" }));
    }
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, address));
    let body = json!({
        "username": address,
        "account_type": account_type.name(),
        "first_name": name_or(&person.given_name, local),
        "last_name": name_or(&person.family_name, domain),
        ROLES.name(): roles,
    });
    let body = JsonBody::from_json(&body);
    let body = body.as_value().as_object(|_| true).unwrap_or_default();
    let accepted = rows::check_body(conn, &USER, &body, None)?;
    if !accepted.errors.is_empty() {
        return match user_of_address(conn, address)? {
            // Another sign-in at the same time has created the account after this one searched for it.
            Some(_) => account_by_address(request, conn, configuration, person),
            None => Ok(AccountLookup::Obstacle(SignInRefusal::new(None, "unusable_claims"))),
        };
    }
    Ok(AccountLookup::Create(accepted.changes))
}

/// Returns a claimed name in the form that a user may have, or another text if nothing of it remains.
fn name_or(claimed: &str, instead: &str) -> String {
    let may_stay = |c: &char| !c.is_control() && (UNDIRECTED.allows)(*c);
    let claimed: String = claimed.chars().filter(may_stay).take(100).collect();
    let claimed = claimed.trim();
    if claimed.is_empty() { instead.chars().take(100).collect() } else { claimed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{is_same_address, name_or};

    #[test]
    fn addresses_are_compared_in_lower_case_character_by_character() {
        for (address, other_address) in
            [("Ann@Example.com", "ann@example.COM"), ("JÖRG@example.com", "jörg@example.com")]
        {
            assert!(is_same_address(address, other_address), "{address} {other_address}");
        }
        for (address, other_address) in [
            ("straße@example.com", "strasse@example.com"),
            ("\u{212a}arl@example.com", "karl@example.com"),
            ("\u{17f}am@example.com", "sam@example.com"),
            ("\u{130}da@example.com", "i\u{307}da@example.com"),
            ("ﬁn@example.com", "fin@example.com"),
            ("ann@example.com", "ann@example.co"),
        ] {
            assert!(
                !is_same_address(address, other_address) && !is_same_address(other_address, address),
                "{address} {other_address}"
            );
        }
    }

    #[test]
    fn a_claimed_name_leaves_out_what_no_name_may_have() {
        assert_eq!(name_or(" An\u{202e}na\n ", "ann"), "Anna");
        assert_eq!(name_or("\u{2066}\u{2069}", "ann"), "ann");
    }
}
