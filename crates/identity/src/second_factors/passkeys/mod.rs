//! Passkeys (WebAuthn level 3): the options for browsers, and the check of their answers. The keys of a build's accounts belong to
//! the host of the build's address (`docs/decisions/0019-passkeys-are-verified-here.md`).

mod attestation;
mod cbor;
mod credential;
mod public_key;

use attestation::AuthenticatorData;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credential::{ClientData, SentCredential};
use kit::ids::UserId;
use kit::request::Request;
use public_key::PublicKey;
use reqwest::Url;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use web::clock::random_token;

/// The time that a browser waits for a person, in milliseconds.
const TIMEOUT_MS: i64 = super::challenges::SECONDS * 1000;

/// The relying party of a build: the host of its address, and the origins whose pages may use its passkeys.
pub struct RelyingParty {
    pub id: String,
    origins: Vec<String>,
}

/// A new credential.
pub struct CreatedCredential {
    /// Its id in base64url.
    pub id: String,
    pub public_key: String,
    pub sign_count: i64,
}

/// The expected answer of a passkey.
pub struct AssertionRequest<'a> {
    /// The challenge that it signs.
    pub challenge: &'a str,
    /// The owner of the passkey; `None`: any account.
    pub user: Option<UserId>,
    /// Is true if the passkey must have verified its user, for example by a PIN.
    pub must_verify_user: bool,
}

/// The outcome of an answer.
pub enum AssertionOutcome {
    Right(UserId),
    Wrong,
    /// The signature is right, but the passkey counts fewer uses than before.
    Copied(UserId),
}

impl RelyingParty {
    /// Returns the relying party of a request's build; `None` if the address of the build has no host.
    pub fn new(request: &Request) -> Option<RelyingParty> {
        let address = request.app.address_of(&request.build);
        RelyingParty::from_addresses(&address, request.app.front_end_of(&request.build).as_deref())
    }

    /// The address of a front end counts if its host is that of the build or below it.
    fn from_addresses(address: &str, front_end: Option<&str>) -> Option<RelyingParty> {
        let own = Url::parse(address).ok()?;
        let id = own.host_str()?.to_owned();
        let is_below = |url: &Url| {
            url.host_str()
                .is_some_and(|host| host.strip_suffix(&id).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')))
        };
        let front_end = front_end.and_then(|address| Url::parse(address).ok()).filter(is_below);
        let origins = [own].into_iter().chain(front_end).map(|url| url.origin().ascii_serialization()).collect();
        Some(RelyingParty { id, origins })
    }

    /// Checks the answer to a creation. Returns `None` if it is wrong.
    pub fn check_creation(&self, text: &str, is_challenge: impl Fn(&str) -> bool) -> Option<CreatedCredential> {
        let credential = SentCredential::parse(text)?;
        let client_data = credential.client_data()?;
        self.check_client_data(&client_data, "webauthn.create", is_challenge)?;
        let data = attestation::authenticator_data(&credential.attestation_object()?)?;
        let data = AuthenticatorData::parse(&data)?;
        let created = data.credential.as_ref()?;
        let id = URL_SAFE_NO_PAD.encode(created.id);
        let is_right = self.has_created(&data, false) && id == credential.id;
        let public_key = PublicKey::from_cose(created.cose_key)?.to_text();
        is_right.then_some(CreatedCredential { id, public_key, sign_count: data.sign_count.into() })
    }

    /// Checks the answer to a request, except for the count. Returns the count of the passkey.
    fn check_assertion(
        &self,
        stored: &StoredPasskey,
        credential: &SentCredential,
        assertion_request: &AssertionRequest<'_>,
    ) -> Option<i64> {
        let client_data = credential.client_data()?;
        let is_challenge =
            |challenge: &str| bool::from(challenge.as_bytes().ct_eq(assertion_request.challenge.as_bytes()));
        self.check_client_data(&client_data, "webauthn.get", is_challenge)?;
        let bytes = credential.authenticator_data()?;
        let data = AuthenticatorData::parse(&bytes)?;
        // A passkey alone must name its owner, since no password has named the account.
        let is_of_owner = match credential.user_handle() {
            Some(handle) => handle == stored.user_handle,
            None => !assertion_request.must_verify_user,
        };
        if !is_of_owner || !self.has_created(&data, assertion_request.must_verify_user) {
            return None;
        }
        let signed = [bytes.as_slice(), &Sha256::digest(credential.client_data_bytes()?)].concat();
        let is_signed = PublicKey::from_text(&stored.public_key)?.verify(&signed, &credential.signature()?);
        is_signed.then_some(data.sign_count.into())
    }

    fn check_client_data(&self, data: &ClientData, kind: &str, is_challenge: impl Fn(&str) -> bool) -> Option<()> {
        let is_right = data.kind == kind
            && is_challenge(&data.challenge)
            && self.origins.contains(&data.origin)
            && data.cross_origin != Some(true);
        is_right.then_some(())
    }

    /// Returns whether an authenticator made its data for this relying party, in the presence of a person.
    fn has_created(&self, data: &AuthenticatorData<'_>, must_verify_user: bool) -> bool {
        let is_of_party = data.relying_party_hash == Sha256::digest(self.id.as_bytes()).as_slice();
        is_of_party && data.is_user_present && (data.is_user_verified || !must_verify_user)
    }
}

/// A stored passkey.
struct StoredPasskey {
    id: i64,
    user: UserId,
    user_handle: String,
    public_key: String,
    sign_count: i64,
}

/// Checks the answer of a passkey and stores its use. The row of the owner must be locked, or be locked afterwards and before the
/// answer takes effect.
pub fn use_assertion(
    request: &Request,
    conn: &mut Conn,
    credential: &str,
    assertion_request: &AssertionRequest<'_>,
) -> Result<AssertionOutcome, StoreError> {
    let Some(sent_credential) = SentCredential::parse(credential) else { return Ok(AssertionOutcome::Wrong) };
    let Some(stored) = load(conn, &sent_credential.id)? else { return Ok(AssertionOutcome::Wrong) };
    let is_asked = assertion_request.user.is_none_or(|user| user == stored.user);
    let count = RelyingParty::new(request)
        .filter(|_| is_asked)
        .and_then(|party| party.check_assertion(&stored, &sent_credential, assertion_request));
    let Some(count) = count else { return Ok(AssertionOutcome::Wrong) };
    if count != 0 && stored.sign_count != 0 && count <= stored.sign_count {
        return Ok(AssertionOutcome::Copied(stored.user));
    }
    let sql = Sql::new("UPDATE second_factors SET last_used_at = $1, sign_count = $2 WHERE id = $3");
    conn.exec(&sql.arg(request.now).arg(count.max(stored.sign_count)).arg(stored.id))?;
    Ok(AssertionOutcome::Right(stored.user))
}

fn load(conn: &mut Conn, credential_id: &str) -> Result<Option<StoredPasskey>, StoreError> {
    let sql = Sql::new(
        "SELECT id, user_id, user_handle, public_key, sign_count FROM second_factors WHERE credential_id = $1 \
         AND confirmed_at IS NOT NULL",
    );
    conn.query_optional(&sql.arg(credential_id), |row| {
        Ok(StoredPasskey {
            id: row.int(0)?,
            user: row.id(1)?,
            user_handle: row.text(2)?.to_owned(),
            public_key: row.text(3)?.to_owned(),
            sign_count: row.int(4)?,
        })
    })
}

/// Returns the owner of the passkey that a credential names.
pub fn owner(conn: &mut Conn, credential: &str) -> Result<Option<UserId>, StoreError> {
    let Some(sent_credential) = SentCredential::parse(credential) else { return Ok(None) };
    Ok(load(conn, &sent_credential.id)?.map(|stored| stored.user))
}

/// Returns whether a passkey with an id exists.
pub fn is_known(conn: &mut Conn, credential_id: &str) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM second_factors WHERE credential_id = $1").arg(credential_id);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns the handle of a user for passkeys. It is random, and the same for all passkeys of the user.
pub fn user_handle(conn: &mut Conn, user: UserId) -> Result<String, StoreError> {
    let sql = Sql::new(
        "SELECT user_handle FROM second_factors WHERE user_id = $1 AND user_handle IS NOT NULL ORDER BY id LIMIT 1",
    );
    Ok(conn.query_optional(&sql.arg(user), |row| Ok(row.text(0)?.to_owned()))?.unwrap_or_else(random_token))
}

/// Returns the descriptors of a user's passkeys.
fn descriptors(conn: &mut Conn, user: UserId) -> Result<Vec<Json>, StoreError> {
    let sql = Sql::new(
        "SELECT credential_id FROM second_factors WHERE user_id = $1 AND credential_id IS NOT NULL AND confirmed_at IS NOT NULL \
         ORDER BY id",
    );
    conn.query_all(&sql.arg(user), |row| Ok(json!({"type": "public-key", "id": row.text(0)?})))
}

/// Returns the options of WebAuthn for a new passkey of a user.
pub fn creation_options(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    username: &str,
    user_handle: &str,
    challenge: &str,
) -> Result<Json, StoreError> {
    let party = RelyingParty::new(request).map(|party| party.id).unwrap_or_default();
    let algorithms = public_key::ALGORITHMS.map(|algorithm| json!({"type": "public-key", "alg": algorithm}));
    Ok(json!({
        "rp": {"id": party, "name": request.build.domain},
        "user": {"id": user_handle, "name": username, "displayName": username},
        "challenge": challenge,
        "pubKeyCredParams": algorithms,
        "timeout": TIMEOUT_MS,
        "excludeCredentials": descriptors(conn, user)?,
        "authenticatorSelection": {"residentKey": "preferred", "requireResidentKey": false, "userVerification": "preferred"},
        "attestation": "none",
    }))
}

/// Returns the options of WebAuthn for the use of one of a user's passkeys after a password.
pub fn request_options(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    challenge: &str,
) -> Result<Option<Json>, StoreError> {
    let allowed = descriptors(conn, user)?;
    Ok(options_of_party(request, challenge, allowed, "preferred"))
}

/// Returns the options of WebAuthn for a sign-in by a passkey alone.
pub fn open_request_options(request: &Request, challenge: &str) -> Option<Json> {
    options_of_party(request, challenge, Vec::new(), "required")
}

fn options_of_party(request: &Request, challenge: &str, allowed: Vec<Json>, verification: &str) -> Option<Json> {
    let party = RelyingParty::new(request)?;
    Some(json!({
        "challenge": challenge,
        "timeout": TIMEOUT_MS,
        "rpId": party.id,
        "allowCredentials": allowed,
        "userVerification": verification,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origins_are_the_build_and_its_front_end_below_it() {
        let origins = |address, front_end| {
            let party = RelyingParty::from_addresses(address, front_end).unwrap();
            (party.id, party.origins)
        };
        let own = "https://a.example".to_owned();
        for (front_end, expected) in [
            (None, vec![own.clone()]),
            (Some("https://app.a.example/sign-in"), vec![own.clone(), "https://app.a.example".to_owned()]),
            (Some("https://a.example:8443"), vec![own.clone(), "https://a.example:8443".to_owned()]),
            (Some("https://xa.example"), vec![own.clone()]),
            (Some("https://example"), vec![own.clone()]),
            (Some("no address"), vec![own.clone()]),
        ] {
            assert_eq!(origins("https://a.example", front_end), ("a.example".to_owned(), expected));
        }
        assert_eq!(
            origins("http://localhost:8000", None),
            ("localhost".to_owned(), vec!["http://localhost:8000".to_owned()])
        );
    }
}
