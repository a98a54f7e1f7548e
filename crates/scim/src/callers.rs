//! Identifies a directory by its token, and admits it to the addresses of SCIM alone (`docs/reference/scim.md`).
//!
//! The cache of callers stores it like a session. The deletion of a token raises the version of the rights, so other processes notice
//! it within [`kit::callers::STALE_AFTER`]. Its expiry is compared at each use.

use crate::error;
use http::{HeaderMap, header};
use identity::bearer_secrets::{claims, record_use};
use identity::identify_by;
use kit::account_type::AccountType;
use kit::authenticate::{Admission, Authenticate, Identifying};
use kit::build::Build;
use kit::caller::{Caller, CredentialClaims};
use kit::ids::{SessionId, SingleSignOnId, UserId};
use kit::permissions::Permissions;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::OwnAdmission;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use store::{Conn, Sql, StoreError};
use web::clock::hex;

/// The beginning of every token.
pub const PREFIX: &str = "chs_";

/// Admits the requests of directories. Refusals have the form of SCIM.
pub const ADMISSION: OwnAdmission = OwnAdmission {
    admit: |_, _, headers, _| admit(headers),
    refuse: |mut refusal, _, _, _, _| {
        if refusal.headers.iter().any(|(name, _)| name == header::WWW_AUTHENTICATE) {
            refusal.headers.clear();
            return refusal.header(header::WWW_AUTHENTICATE, "Bearer");
        }
        refusal
    },
    render: Some(error::render),
    scheme: ("scim", "The token of a directory from `POST /api/scim/tokens/`"),
};

static BY_TOKEN: Authenticate = Authenticate {
    read: |_, _, _, _| None,
    identify: |build, claims, now| Box::pin(identify(build, claims, now)) as Identifying<'_>,
    load,
};

fn admit(headers: &HeaderMap) -> Result<Admission, Refusal> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = authorization.and_then(|text| text.split_once(' ')).ok_or_else(Refusal::unauthenticated)?;
    if !scheme.eq_ignore_ascii_case("Bearer") {
        return Err(Refusal::unauthenticated());
    }
    let claims = claims(PREFIX, token.trim()).ok_or_else(Refusal::bad_token)?;
    Ok(Admission { claims, by: &BY_TOKEN })
}

async fn identify(build: &Arc<Build>, claims: CredentialClaims, now: i64) -> Result<Option<Arc<Caller>>, StoreError> {
    let caller = identify_by(build, claims, now, load).await?.filter(|caller| caller.session_expires_at > now);
    if let (Some(caller), Some(hash)) = (&caller, claims.secret) {
        let text = "UPDATE scim_tokens SET last_used_at = $1 WHERE hash = $2 AND COALESCE(last_used_at, 0) < $1";
        record_use(build, caller, now, text, hex(&hash));
    }
    Ok(caller)
}

/// Reads a token. Its caller is not a user and has no rights; the handlers work for the token.
fn load(conn: &mut Conn, claims: CredentialClaims, now: i64) -> Result<Option<Caller>, StoreError> {
    let Some(hash) = claims.secret else { return Ok(None) };
    let version = rights::version(conn)?;
    let sql = Sql::new(
        "SELECT COALESCE(expires_at, $1), COALESCE(last_used_at, 0) FROM scim_tokens \
         WHERE hash = $2 AND (expires_at IS NULL OR expires_at > $3)",
    );
    conn.query_optional(&sql.arg(i64::MAX).arg(hex(&hash)).arg(now), |row| {
        Ok(Caller {
            user: UserId::NONE,
            session: SessionId::NONE,
            account_type: AccountType::OneTimeCompletion,
            narrowed_to: None,
            agent: None,
            key: None,
            permissions: Permissions::NONE,
            version,
            password_expires_at: None,
            lacks_second_factor: false,
            session_expires_at: row.int(0)?,
            ranges: None,
            last_used_at: AtomicI64::new(row.int(1)?),
        })
    })
}

/// The directory of a request.
pub struct Directory {
    /// The request without a caller. The administration log names the token.
    pub request: Request,
    /// The configuration whose accounts and groups the directory maintains.
    pub configuration: SingleSignOnId,
}

impl Directory {
    /// Loads the directory of a request.
    pub fn load(request: &Request, conn: &mut Conn) -> Result<Directory, Refusal> {
        let hash =
            request.admission.and_then(|admission| admission.claims.secret).ok_or_else(Refusal::unauthenticated)?;
        let sql = Sql::new("SELECT name, single_sign_on FROM scim_tokens WHERE hash = $1").arg(hex(&hash));
        let row = conn.query_optional(&sql, |row| Ok((row.text(0)?.to_owned(), row.id(1)?)))?;
        let (name, configuration) = row.ok_or_else(Refusal::bad_token)?;
        Ok(Directory { request: request.without_caller("scim_token", &name), configuration })
    }
}
