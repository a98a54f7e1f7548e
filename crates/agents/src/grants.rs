//! Grants: what a person's consent gives to an agent, the codes and tokens by which the agent uses it, and who stands behind
//! a token (`docs/reference/agent-sign-in.md`).
//!
//! A grant is a session of its own kind (`identity/agent_sessions.rs`). It begins with the consent and lasts for a minute,
//! in which its code may be exchanged once; each refresh makes it last longer.

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
use kit::path::PathValue;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::OwnAdmission;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_token, sha256_hex};

/// How long a code may be exchanged, in microseconds.
const CODE_LIFETIME_US: i64 = 60_000_000;
/// How long an access token holds, in seconds.
const ACCESS_SECONDS: i64 = 900;
/// The only scope: that a refresh token is issued.
pub const OFFLINE_ACCESS: &str = "offline_access";
/// How many agents a process remembers of a build. When it is full, all are read again.
const MAX_KNOWN: usize = 10_000;
/// For how long an agent is not read again, in microseconds.
const MAX_KNOWN_AGE_US: i64 = 60_000_000;

/// Begins a grant for a person who has consented to these tools, and returns its code.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    asked: &AuthorizationRequest,
    consent: &Consent,
) -> Result<String, Refusal> {
    let expires_at = request.now + CODE_LIFETIME_US;
    let tools = json!(consent.tools).to_string();
    let new = NewGrant { connector: asked.client.id, client: &asked.client.name, tools: &tools, expires_at };
    let grant = agent_sessions::begin(request, conn, consent.user, consent.way, &new)?;
    // Codes of grants that are over; those of others are kept, so that a second use is noticed.
    let sql = Sql::new(
        "DELETE FROM agent_codes WHERE hash IN (SELECT k.hash FROM agent_codes k JOIN sessions s ON s.id = k.session_id \
         WHERE k.expires_at <= $1 AND (s.ended_at IS NOT NULL OR s.expires_at <= $1) LIMIT 100)",
    );
    conn.exec(&sql.arg(request.now))?;
    let code = random_token();
    let sql = Sql::new(
        "INSERT INTO agent_codes(hash, session_id, redirect_uri, challenge, expires_at) VALUES ($1, $2, $3, $4, $5)",
    );
    let sql = sql.arg(sha256_hex(&code)).arg(grant).arg(&asked.redirect_uri).arg(&asked.challenge).arg(expires_at);
    conn.exec(&sql)?;
    Ok(code)
}

/// The consent of a person.
pub struct Consent {
    pub user: i64,
    pub way: SessionOrigin,
    /// The names of the tools that the page showed.
    pub tools: Vec<String>,
}

/// What an agent sends to exchange a code.
pub struct CodeExchange {
    pub code: String,
    pub redirect_uri: String,
    pub verifier: String,
}

/// Why an agent gets no tokens.
pub enum GrantRefusal {
    Invalid,
    /// The person may not be worked for from the agent's address.
    Elsewhere,
}

/// Exchanges a code, which works once, for the first tokens of its grant. Whatever else is wrong ends the grant, too, since
/// the code is in other hands then.
pub fn exchange(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    sent: &CodeExchange,
) -> Result<Result<Json, GrantRefusal>, Refusal> {
    let hash = sha256_hex(&sent.code);
    let sql =
        Sql::new("SELECT session_id, redirect_uri, challenge, expires_at FROM agent_codes WHERE hash = $1").arg(&hash);
    let found = conn
        .query_optional(&sql, |row| Ok((row.int(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned(), row.int(3)?)))?;
    let Some((grant, redirect_uri, challenge, expires_at)) = found else { return Ok(Err(GrantRefusal::Invalid)) };
    // A session is locked before what hangs on it, so that no two transactions deadlock.
    if !agent_sessions::lock(request, conn, grant, client.id)? {
        return Ok(Err(GrantRefusal::Invalid));
    }
    let sql = Sql::new("UPDATE agent_codes SET used_at = $1 WHERE hash = $2 AND used_at IS NULL");
    let is_first = conn.exec(&sql.arg(request.now).arg(&hash))? == 1;
    let is_theirs = redirect_uri == sent.redirect_uri && fulfils(&sent.verifier, &challenge);
    if !is_first || !is_theirs || expires_at <= request.now {
        agent_sessions::end(request, conn, grant)?;
        return Ok(Err(GrantRefusal::Invalid));
    }
    tokens(request, conn, client, grant)
}

/// Whether a verifier is the one of a challenge (RFC 7636).
fn fulfils(verifier: &str, challenge: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let computed = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    (43..=128).contains(&verifier.len())
        && verifier.bytes().all(is_unreserved)
        && bool::from(computed.as_bytes().ct_eq(challenge.as_bytes()))
}

/// Exchanges a refresh token, which works once, for new tokens. A second use ends the grant.
pub fn refresh(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    token: &str,
) -> Result<Result<Json, GrantRefusal>, Refusal> {
    let hash = sha256_hex(token);
    let sql = Sql::new("SELECT session_id FROM agent_refresh_tokens WHERE hash = $1 AND expires_at > $2");
    let Some(grant) = conn.query_optional(&sql.arg(&hash).arg(request.now), |row| row.int(0))? else {
        return Ok(Err(GrantRefusal::Invalid));
    };
    if !agent_sessions::lock(request, conn, grant, client.id)? {
        return Ok(Err(GrantRefusal::Invalid));
    }
    let sql = Sql::new("UPDATE agent_refresh_tokens SET used_at = $1 WHERE hash = $2 AND used_at IS NULL");
    if conn.exec(&sql.arg(request.now).arg(&hash))? == 0 {
        agent_sessions::end(request, conn, grant)?;
        return Ok(Err(GrantRefusal::Invalid));
    }
    let renewed = tokens(request, conn, client, grant)?;
    if matches!(renewed, Err(GrantRefusal::Elsewhere)) {
        // It was not used: it may be from where the agent may be.
        let sql = Sql::new("UPDATE agent_refresh_tokens SET used_at = NULL WHERE hash = $1").arg(&hash);
        conn.exec(&sql)?;
    }
    Ok(renewed)
}

/// Renews a grant that is locked, and makes its next tokens.
fn tokens(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    grant: i64,
) -> Result<Result<Json, GrantRefusal>, Refusal> {
    let seconds = request.app.slot::<identity::IdentitySettings>().refresh_token_seconds;
    let expires_at = request.now + seconds * 1_000_000;
    let user = match agent_sessions::renew(request, conn, grant, expires_at)? {
        GrantRenewal::Done(user) => user,
        GrantRenewal::Elsewhere => return Ok(Err(GrantRefusal::Elsewhere)),
        GrantRenewal::Refused => return Ok(Err(GrantRefusal::Invalid)),
    };
    // Used ones are kept until they would have expired, so that a second use is noticed. Each new one takes some away.
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
    Ok(Ok(json!({
        "access_token": access_token,
        "token_type": "Bearer",
        "expires_in": seconds,
        "refresh_token": refresh_token,
        // A refresh token is always issued. Other scopes are ignored.
        "scope": OFFLINE_ACCESS,
    })))
}

/// What an access token is for: one connector of one build.
fn audience(build: &Build, connector: &str) -> String {
    format!("{}/mcp/{connector}", build.uid)
}

/// Ends the grant of a token of a client, an access token or a refresh token; another text is ignored.
pub fn revoke(request: &Request, conn: &mut Conn, client: &OAuthClient, token: &str) -> Result<(), Refusal> {
    let signed = request.app.slot::<AccessTokens>();
    let of_access = signed.verify_of_grant(token, &audience(&request.build, &client.uuid), request.now);
    let grant = match of_access {
        Some(claims) => Some(claims.session),
        None => {
            let sql = Sql::new("SELECT session_id FROM agent_refresh_tokens WHERE hash = $1").arg(sha256_hex(token));
            conn.query_optional(&sql, |row| row.int(0))?
        }
    };
    match grant {
        Some(grant) if agent_sessions::lock(request, conn, grant, client.id)? => {
            agent_sessions::end(request, conn, grant)
        }
        _ => Ok(()),
    }
}

/// A connector as its agents find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledConnector {
    pub id: i64,
    pub uuid: String,
    pub name: String,
    /// The names of the tools that it offers.
    pub allowed_tools: Vec<String>,
}

/// An agent that calls: for whom, through which connector, by which grant.
#[derive(Debug)]
pub struct GrantedAgent {
    /// The person. His own rights are not the agent's (`docs/reference/mcp-connectors.md`).
    pub caller: Arc<Caller>,
    pub connector: EnabledConnector,
    /// The names of the tools that the person's consent showed.
    pub consented_tools: Vec<String>,
    /// The agent's name and version, or the connector's name before it has told them.
    pub client: String,
}

impl GrantedAgent {
    /// Whether it may call a tool: the connector offers it, and the person has consented to it.
    pub fn offers(&self, tool: &str) -> bool {
        [&self.connector.allowed_tools, &self.consented_tools].iter().all(|names| names.iter().any(|name| name == tool))
    }
}

/// An agent, and how its writes are admitted again when they take effect.
#[derive(Clone)]
pub struct AdmittedAgent {
    pub agent: Arc<GrantedAgent>,
    pub admission: Admission,
}

/// The agents that a process has read, by their grants, and when it did. One counts while the caller that it holds is the one
/// that is cached, and for a minute: so long another process may not know the name that the client has told since.
#[derive(Default)]
pub struct KnownAgents(Mutex<HashMap<i64, (Arc<GrantedAgent>, i64)>>);

/// How the calls of agents are authenticated. No endpoint of the main API takes their tokens, so it is not registered.
static BY_GRANT: Authenticate = Authenticate {
    read: |_, _, _, _| None,
    identify: |build, claims, now| {
        Box::pin(async move { Ok(identify(build, claims, now).await?.map(|agent| agent.caller.clone())) })
            as Identifying<'_>
    },
    load: |conn, claims, now| Ok(load(conn, claims, now)?.and_then(|agent| Arc::into_inner(agent.caller))),
};

/// How the requests of agents to their connector are admitted (`Authorization: Bearer …`). 401, naming the metadata of the
/// connector, where the token is none that holds here, and where connector or integration are disabled or gone; 403 where the
/// person may not be worked for from there, or must change his password first.
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
        let error = if refusal.body == Refusal::unauthenticated().body { "" } else { "error=\"invalid_token\", " };
        let metadata = resource_metadata(app, build, &uuid(path_values), AddressForm::load_from_path(path));
        refusal.headers.clear();
        refusal.header(header::WWW_AUTHENTICATE, &format!("Bearer {error}resource_metadata=\"{metadata}\""))
    },
};

/// The uuid of the connector that a path names.
fn uuid(path: &[PathValue]) -> String {
    path.iter().find_map(PathValue::uuid).unwrap_or_default().to_string()
}

/// The agent behind a request that was admitted so; 401 when its grant is over meanwhile.
pub async fn load_agent(request: &Request) -> Result<AdmittedAgent, Refusal> {
    let admission = request.admission.ok_or_else(Refusal::unauthenticated)?;
    let agent = identify(&request.build, admission.claims, request.app.clock.now()).await?;
    let agent = agent.ok_or_else(Refusal::bad_token)?;
    Ok(AdmittedAgent { agent, admission })
}

/// The agent of the claims of a token, from the cache or the database; `None` when its grant is over.
async fn identify(
    build: &Arc<Build>,
    claims: CredentialClaims,
    now: i64,
) -> Result<Option<Arc<GrantedAgent>>, StoreError> {
    if claims.expires_at <= now {
        return Ok(None);
    }
    let (mut cached, is_fresh) = build.callers.get(claims.session);
    if cached.is_some() && !is_fresh {
        build.callers.mark_version_read(build.db.read_short(rights::version).await?);
        cached = build.callers.get(claims.session).0;
    }
    let known: &KnownAgents = build.slot();
    let mut agent = None;
    if let Some(caller) = cached {
        let agents = known.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |(agent, at): &&(Arc<GrantedAgent>, i64)| {
            Arc::ptr_eq(&agent.caller, &caller) && now - at < MAX_KNOWN_AGE_US
        };
        agent = agents.get(&claims.session).filter(holds).map(|(agent, _)| agent.clone());
    }
    let agent = match agent {
        Some(agent) => agent,
        None => {
            let script = move |conn: &mut Conn| load(conn, claims, now);
            let Some(agent) = build.db.read(script).await?.map(Arc::new) else { return Ok(None) };
            build.callers.store(&agent.caller);
            let mut agents = known.0.lock().unwrap_or_else(PoisonError::into_inner);
            if agents.len() >= MAX_KNOWN {
                agents.clear();
            }
            agents.insert(claims.session, (agent.clone(), now));
            agent
        }
    };
    if agent.caller.user != claims.user {
        return Ok(None);
    }
    agent_sessions::record_use(build, &agent.caller, now);
    Ok(Some(agent))
}

/// Reads an agent, whose connector and integration are enabled, in one snapshot.
fn load(conn: &mut Conn, claims: CredentialClaims, now: i64) -> Result<Option<GrantedAgent>, StoreError> {
    let Some(caller) = agent_sessions::load(conn, claims, now)? else { return Ok(None) };
    // A grant of a former version, which another process began a moment ago, has the tools of its connector until it is exchanged.
    let sql = Sql::new(
        "SELECT c.id, c.uuid, c.name, c.allowed_tools, COALESCE(s.tools, c.allowed_tools), s.user_agent \
         FROM sessions s JOIN mcp_connectors c ON c.id = s.connector \
         JOIN integrations i ON i.id = c.integration WHERE s.id = $1 AND c.is_enabled = 1 AND i.is_enabled = 1",
    );
    let caller = Arc::new(caller);
    conn.query_optional(&sql.arg(claims.session), |row| {
        let names = |at| Ok::<Vec<String>, StoreError>(serde_json::from_str(row.text(at)?).unwrap_or_default());
        Ok(GrantedAgent {
            caller: caller.clone(),
            connector: EnabledConnector {
                id: row.int(0)?,
                uuid: row.text(1)?.to_owned(),
                name: row.text(2)?.to_owned(),
                allowed_tools: names(3)?,
            },
            consented_tools: names(4)?,
            client: row.text(5)?.to_owned(),
        })
    })
}

/// Notes the name and the version that an agent tells of itself, by which its grant is listed. It is no right: the caches of
/// the build's callers stay.
pub fn name_client(conn: &mut Conn, grant: i64, client: &str) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE sessions SET user_agent = $1 WHERE id = $2 AND connector IS NOT NULL AND ended_at IS NULL AND user_agent <> $1",
    );
    conn.exec(&sql.arg(client_name(client)).arg(grant)).map(drop)
}

/// Has an agent read again at its next call, by which its new name is known.
pub fn evict_agent(build: &Build, grant: i64) {
    build.slot::<KnownAgents>().0.lock().unwrap_or_else(PoisonError::into_inner).remove(&grant);
}

/// The name of a client as it is kept.
pub fn client_name(told: &str) -> String {
    told.chars().filter(|character| !character.is_control()).take(255).collect()
}
