//! Grants: the rights of an agent by a person's consent, their codes and tokens, and the agent of a token
//! (`docs/reference/agent-sign-in.md`).
//!
//! A grant is a kind of session (`identity/agent_sessions.rs`). It begins with the consent and expires after a minute. The agent may
//! exchange its code once within this minute. Each refresh extends the grant.

use crate::connectors::AddressForm;
use crate::oauth::authorization::AuthorizationRequest;
use crate::oauth::client::OAuthClient;
use crate::oauth::metadata::resource_metadata;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{StatusCode, header};
use identity::access_tokens::AccessTokens;
use identity::agent_sessions::{self, GrantRenewal, NewGrant};
use identity::sessions::SessionOrigin;
use kit::authenticate::{Admission, Authenticate, Identifying};
use kit::build::Build;
use kit::caller::{Caller, CredentialClaims};
use kit::ids::{ConnectorId, SessionId, UserId};
use kit::path::PathValue;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::OwnAdmission;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_token, sha256_hex};

/// The validity of a code, in microseconds.
const CODE_LIFETIME_US: i64 = 60_000_000;
/// The validity of an access token, in seconds.
const ACCESS_SECONDS: i64 = 900;
/// The only scope: the grant has a refresh token.
pub const OFFLINE_ACCESS: &str = "offline_access";
/// The maximum number of agents of a build in the cache of a process. A full cache is cleared.
const MAX_CACHED: usize = 10_000;
/// The validity of a cached agent, in microseconds.
const CACHE_LIFETIME_US: i64 = 60_000_000;

/// Begins a grant for a person who has consented to these tools, and returns its code.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    authorization: &AuthorizationRequest,
    consent: &Consent,
) -> Result<String, Refusal> {
    let expires_at = request.now + CODE_LIFETIME_US;
    let tools = json!(consent.tools).to_string();
    let client = &authorization.client;
    let new = NewGrant { connector: client.id, client: &client.name, tools: &tools, expires_at };
    let grant = agent_sessions::begin(request, conn, consent.user, consent.way, &new)?;
    // Deletes the codes of grants that have ended. A used code of another grant stays, so that a second use is detected.
    let sql = Sql::new(
        "DELETE FROM agent_codes WHERE hash IN (SELECT k.hash FROM agent_codes k JOIN sessions s ON s.id = k.session_id \
         WHERE k.expires_at <= $1 AND (s.ended_at IS NOT NULL OR s.expires_at <= $1) LIMIT 100)",
    );
    conn.exec(&sql.arg(request.now))?;
    let code = random_token();
    let sql = Sql::new(
        "INSERT INTO agent_codes(hash, session_id, redirect_uri, challenge, expires_at) VALUES ($1, $2, $3, $4, $5)",
    );
    let sql = sql.arg(sha256_hex(&code)).arg(grant).arg(&authorization.redirect_uri);
    conn.exec(&sql.arg(&authorization.challenge).arg(expires_at))?;
    Ok(code)
}

/// The consent of a person.
pub struct Consent {
    pub user: UserId,
    pub way: SessionOrigin,
    /// The names of the tools that the page showed.
    pub tools: Vec<String>,
}

/// The fields of a request to exchange a code.
pub struct CodeExchange {
    pub code: String,
    pub redirect_uri: String,
    pub verifier: String,
}

/// The outcome of an exchange of a code or a refresh token.
pub enum GrantExchange {
    /// The answer with the tokens.
    Issued(Json),
    /// The code or the token is not valid.
    Invalid,
    /// The person does not allow access from the agent's address.
    Elsewhere,
}

/// A stored code.
struct StoredCode {
    grant: SessionId,
    redirect_uri: String,
    challenge: String,
    expires_at: i64,
}

/// Exchanges a code for the first tokens of its grant. A second use and any other error end the grant, since somebody else may have
/// the code.
pub fn exchange(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    fields: &CodeExchange,
) -> Result<GrantExchange, Refusal> {
    let hash = sha256_hex(&fields.code);
    let sql =
        Sql::new("SELECT session_id, redirect_uri, challenge, expires_at FROM agent_codes WHERE hash = $1").arg(&hash);
    let stored = conn.query_optional(&sql, |row| {
        let text = |column| Ok::<_, StoreError>(row.text(column)?.to_owned());
        Ok(StoredCode { grant: row.id(0)?, redirect_uri: text(1)?, challenge: text(2)?, expires_at: row.int(3)? })
    })?;
    let Some(stored) = stored else { return Ok(GrantExchange::Invalid) };
    // The session is locked before its codes, so that transactions do not deadlock.
    if !agent_sessions::lock(request, conn, stored.grant, client.id)? {
        return Ok(GrantExchange::Invalid);
    }
    let sql = Sql::new("UPDATE agent_codes SET used_at = $1 WHERE hash = $2 AND used_at IS NULL");
    let is_first = conn.exec(&sql.arg(request.now).arg(&hash))? == 1;
    let is_same_client = stored.redirect_uri == fields.redirect_uri && fulfils(&fields.verifier, &stored.challenge);
    if !is_first || !is_same_client || stored.expires_at <= request.now {
        agent_sessions::end(request, conn, stored.grant)?;
        return Ok(GrantExchange::Invalid);
    }
    issue_tokens(request, conn, client, stored.grant)
}

/// Returns whether a verifier fits a challenge (RFC 7636).
fn fulfils(verifier: &str, challenge: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let computed = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    (43..=128).contains(&verifier.len())
        && verifier.bytes().all(is_unreserved)
        && bool::from(computed.as_bytes().ct_eq(challenge.as_bytes()))
}

/// Exchanges a refresh token for new tokens. A second use ends the grant.
pub fn refresh(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    token: &str,
) -> Result<GrantExchange, Refusal> {
    let hash = sha256_hex(token);
    let sql = Sql::new("SELECT session_id FROM agent_refresh_tokens WHERE hash = $1 AND expires_at > $2");
    let Some(grant) = conn.query_optional(&sql.arg(&hash).arg(request.now), |row| row.id(0))? else {
        return Ok(GrantExchange::Invalid);
    };
    if !agent_sessions::lock(request, conn, grant, client.id)? {
        return Ok(GrantExchange::Invalid);
    }
    let sql = Sql::new("UPDATE agent_refresh_tokens SET used_at = $1 WHERE hash = $2 AND used_at IS NULL");
    if conn.exec(&sql.arg(request.now).arg(&hash))? == 0 {
        agent_sessions::end(request, conn, grant)?;
        return Ok(GrantExchange::Invalid);
    }
    let renewed = issue_tokens(request, conn, client, grant)?;
    if matches!(renewed, GrantExchange::Elsewhere) {
        // The token stays unused, so that the agent can use it from an allowed address.
        let sql = Sql::new("UPDATE agent_refresh_tokens SET used_at = NULL WHERE hash = $1").arg(&hash);
        conn.exec(&sql)?;
    }
    Ok(renewed)
}

/// Renews a locked grant, and issues its next tokens.
fn issue_tokens(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    grant: SessionId,
) -> Result<GrantExchange, Refusal> {
    let seconds = request.app.slot::<identity::IdentitySettings>().refresh_token_seconds;
    let expires_at = request.now + seconds * 1_000_000;
    let user = match agent_sessions::renew(request, conn, grant, expires_at)? {
        GrantRenewal::Done(user) => user,
        GrantRenewal::Elsewhere => return Ok(GrantExchange::Elsewhere),
        GrantRenewal::Refused => return Ok(GrantExchange::Invalid),
    };
    // A used token stays until it would have expired, so that a second use is detected. Each new token deletes some expired ones.
    let sql = Sql::new(
        "DELETE FROM agent_refresh_tokens WHERE hash IN (SELECT t.hash FROM agent_refresh_tokens t WHERE t.expires_at <= $1 LIMIT 100)",
    );
    conn.exec(&sql.arg(request.now))?;
    let refresh_token = random_token();
    let sql = Sql::new("INSERT INTO agent_refresh_tokens(hash, session_id, expires_at) VALUES ($1, $2, $3)");
    conn.exec(&sql.arg(sha256_hex(&refresh_token)).arg(grant).arg(expires_at))?;
    let audience = audience(&request.build, &client.uuid);
    let signed = request.app.slot::<AccessTokens>();
    let seconds = seconds.min(ACCESS_SECONDS);
    let access_token = signed.issue_of_grant(&audience, user, grant, request.now, seconds);
    Ok(GrantExchange::Issued(json!({
        "access_token": access_token,
        "token_type": "Bearer",
        "expires_in": seconds,
        "refresh_token": refresh_token,
        // Every grant has a refresh token. Other scopes are ignored.
        "scope": OFFLINE_ACCESS,
    })))
}

/// The audience of an access token: one connector of one build.
fn audience(build: &Build, connector: &str) -> String {
    format!("{}/mcp/{connector}", build.uid)
}

/// Ends the grant of a client's access token or refresh token. Another text is ignored.
pub fn revoke(request: &Request, conn: &mut Conn, client: &OAuthClient, token: &str) -> Result<(), Refusal> {
    let signed = request.app.slot::<AccessTokens>();
    let claims = signed.verify_of_grant(token, &audience(&request.build, &client.uuid), request.now);
    let grant = match claims {
        Some(claims) => Some(claims.session),
        None => {
            let sql = Sql::new("SELECT session_id FROM agent_refresh_tokens WHERE hash = $1").arg(sha256_hex(token));
            conn.query_optional(&sql, |row| row.id(0))?
        }
    };
    match grant {
        Some(grant) if agent_sessions::lock(request, conn, grant, client.id)? => {
            agent_sessions::end(request, conn, grant)
        }
        _ => Ok(()),
    }
}

/// An enabled connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledConnector {
    pub id: ConnectorId,
    pub uuid: String,
    pub name: String,
    /// The names of the tools that the connector offers.
    pub allowed_tools: Vec<String>,
}

/// An agent with its person and its connector.
#[derive(Debug)]
pub struct GrantedAgent {
    /// The person. The agent does not have all rights of the person (`docs/reference/mcp-connectors.md`).
    pub caller: Arc<Caller>,
    pub connector: EnabledConnector,
    /// The names of the tools on the consent page of the person.
    pub consented_tools: Vec<String>,
    /// The name and version of the agent's program, or the name of the connector until the program sends them.
    pub client: String,
}

impl GrantedAgent {
    /// Returns whether the connector offers a tool and the person has consented to it.
    pub fn offers(&self, tool: &str) -> bool {
        [&self.connector.allowed_tools, &self.consented_tools].iter().all(|names| names.iter().any(|name| name == tool))
    }
}

/// An agent with the admission of its request. A write checks the admission again in its transaction.
#[derive(Clone)]
pub struct AdmittedAgent {
    pub agent: Arc<GrantedAgent>,
    pub admission: Admission,
}

/// The agents of a build in the cache of a process, by their grants. A cached agent is valid for a minute, while the cache of callers
/// has the same caller. For this minute a process may use a former name of the client that another process has replaced.
#[derive(Default)]
pub struct KnownAgents(Mutex<HashMap<SessionId, CachedAgent>>);

struct CachedAgent {
    agent: Arc<GrantedAgent>,
    /// The time of the read, in microseconds since 1970.
    read_at: i64,
}

impl KnownAgents {
    fn cache(&self) -> MutexGuard<'_, HashMap<SessionId, CachedAgent>> {
        web::lock(&self.0)
    }

    /// The cached agent of a grant, if it is valid and has this caller.
    fn get(&self, grant: SessionId, caller: &Arc<Caller>, now: i64) -> Option<Arc<GrantedAgent>> {
        let cache = self.cache();
        let cached = cache.get(&grant)?;
        let is_valid = Arc::ptr_eq(&cached.agent.caller, caller) && now - cached.read_at < CACHE_LIFETIME_US;
        is_valid.then(|| cached.agent.clone())
    }

    fn store(&self, grant: SessionId, agent: &Arc<GrantedAgent>, now: i64) {
        let mut cache = self.cache();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(grant, CachedAgent { agent: agent.clone(), read_at: now });
    }
}

/// Authenticates the calls of agents. It is not registered, since endpoints of the main API do not accept their tokens.
static BY_GRANT: Authenticate = Authenticate {
    read: |_, _, _, _| None,
    identify: |build, claims, now| {
        Box::pin(async move { Ok(identify(build, claims, now).await?.map(|agent| agent.caller.clone())) })
            as Identifying<'_>
    },
    load: |conn, claims, now| Ok(load(conn, claims, now)?.and_then(|agent| Arc::into_inner(agent.caller))),
};

/// Admits the requests of agents to their connector (`Authorization: Bearer …`). 401 with the metadata of the connector: the token is
/// not valid, or the connector or its integration is disabled or deleted. 403: the person does not allow access from the address, or
/// must change their password first.
pub const ADMISSION: OwnAdmission = OwnAdmission {
    admit: |app, build, headers, path| {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer")).map(|(_, token)| token.trim());
        let token = token.ok_or_else(Refusal::unauthenticated)?;
        let claims = app.slot::<AccessTokens>().verify_of_grant(token, &audience(build, &uuid(path)), app.clock.now());
        Ok(Admission { claims: claims.ok_or_else(Refusal::bad_token)?, by: &BY_GRANT })
    },
    refuse: |mut refusal, app, build, path, path_values| {
        if refusal.status != StatusCode::UNAUTHORIZED {
            return refusal;
        }
        let error = if refusal.reason == Refusal::unauthenticated().reason { "" } else { "error=\"invalid_token\", " };
        let metadata = resource_metadata(app, build, &uuid(path_values), AddressForm::from_path(path));
        refusal.headers.clear();
        refusal.header(header::WWW_AUTHENTICATE, &format!("Bearer {error}resource_metadata=\"{metadata}\""))
    },
    render: None,
    scheme: ("agent", "The access token of an agent from `POST /oauth/token`"),
};

/// The uuid of the connector in a path.
fn uuid(path: &[PathValue]) -> String {
    path.iter().find_map(PathValue::uuid).unwrap_or_default().to_string()
}

/// Loads the agent of a request with this admission. 401 if its grant has ended since.
pub async fn load_agent(request: &Request) -> Result<AdmittedAgent, Refusal> {
    let admission = request.admission.ok_or_else(Refusal::unauthenticated)?;
    let agent = identify(&request.build, admission.claims, request.app.clock.now()).await?;
    let agent = agent.ok_or_else(Refusal::bad_token)?;
    Ok(AdmittedAgent { agent, admission })
}

/// The agent of a token's claims, from the cache or the database; `None`: its grant has ended.
async fn identify(
    build: &Arc<Build>,
    claims: CredentialClaims,
    now: i64,
) -> Result<Option<Arc<GrantedAgent>>, StoreError> {
    if claims.expires_at <= now {
        return Ok(None);
    }
    let agent = match cached_agent(build, claims, now).await? {
        Some(agent) => agent,
        None => {
            let script = move |conn: &mut Conn| load(conn, claims, now);
            let Some(agent) = build.db.read(script).await?.map(Arc::new) else { return Ok(None) };
            build.callers.store(claims.cache_key(), &agent.caller);
            build.slot::<KnownAgents>().store(claims.session, &agent, now);
            agent
        }
    };
    if agent.caller.user != claims.user {
        return Ok(None);
    }
    agent_sessions::record_use(build, &agent.caller, now);
    Ok(Some(agent))
}

/// The cached agent of a token's claims. Reads the version of the rights first, if the cache of callers requires it.
async fn cached_agent(
    build: &Arc<Build>,
    claims: CredentialClaims,
    now: i64,
) -> Result<Option<Arc<GrantedAgent>>, StoreError> {
    let (mut caller, is_fresh) = build.callers.get(claims.cache_key());
    if caller.is_some() && !is_fresh {
        build.callers.mark_version_read(build.db.read_short(rights::version).await?);
        caller = build.callers.get(claims.cache_key()).0;
    }
    let agents: &KnownAgents = build.slot();
    Ok(caller.and_then(|caller| agents.get(claims.session, &caller, now)))
}

/// Reads an agent in one snapshot; `None`: its grant has ended, or its connector or integration is disabled.
fn load(conn: &mut Conn, claims: CredentialClaims, now: i64) -> Result<Option<GrantedAgent>, StoreError> {
    let Some(caller) = agent_sessions::load(conn, claims, now)? else { return Ok(None) };
    // During an upgrade another process may begin a grant without tools. Until its exchange it has the tools of its connector.
    let sql = Sql::new(
        "SELECT c.id, c.uuid, c.name, c.allowed_tools, COALESCE(s.tools, c.allowed_tools), s.user_agent \
         FROM sessions s JOIN mcp_connectors c ON c.id = s.connector \
         JOIN integrations i ON i.id = c.integration WHERE s.id = $1 AND c.is_enabled = 1 AND i.is_enabled = 1",
    );
    let caller = Arc::new(caller);
    conn.query_optional(&sql.arg(claims.session), |row| {
        Ok(GrantedAgent {
            caller: caller.clone(),
            connector: EnabledConnector {
                id: row.id(0)?,
                uuid: row.text(1)?.to_owned(),
                name: row.text(2)?.to_owned(),
                allowed_tools: row.json(3)?,
            },
            consented_tools: row.json(4)?,
            client: row.text(5)?.to_owned(),
        })
    })
}

/// Stores the name and version of an agent's program, which the list of sessions shows. The cache of callers stays valid, since the
/// name is not a right.
pub fn name_client(conn: &mut Conn, grant: SessionId, client: &str) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE sessions SET user_agent = $1 WHERE id = $2 AND connector IS NOT NULL AND ended_at IS NULL AND user_agent <> $1",
    );
    conn.exec(&sql.arg(client_name(client)).arg(grant)).map(drop)
}

/// Removes an agent from the cache, so that its next call reads its new name.
pub fn evict_agent(build: &Build, grant: SessionId) {
    build.slot::<KnownAgents>().cache().remove(&grant);
}

/// The stored form of a client's name: at most 255 characters, without control characters.
pub fn client_name(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(255).collect()
}
