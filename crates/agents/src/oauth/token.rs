//! `/oauth/token` and `/oauth/revoke`: exchange codes and refresh tokens for tokens, and revoke tokens (RFC 6749, 7009).
//! The callers are usually servers. They authenticate with the secret of the connector.

use super::StepFailure;
use super::authorization::are_resource;
use super::client::{self, OAuthClient};
use crate::grants::{self, CodeExchange, GrantExchange, OFFLINE_ACCESS};
use http::{StatusCode, header};
use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use store::Conn;

/// The fields of a token request.
const TOKEN_FIELDS: &[&str] = &[
    "grant_type",
    "code",
    "redirect_uri",
    "code_verifier",
    "refresh_token",
    "client_id",
    "client_secret",
    "resource",
    "scope",
];
/// The fields of a revocation.
const REVOKE_FIELDS: &[&str] = &["token", "token_type_hint", "client_id", "client_secret"];

pub fn routes() -> Vec<Route> {
    let send = |path, summary, handler, fields| {
        Route::post(path, summary, Handler::Write(handler))
            .public()
            .from_any_site()
            .with_body(Schema::Form(fields))
            .also_answers(400, Schema::Json(error_schema))
            .also_answers(401, Schema::Json(error_schema))
            .answers_secret()
    };
    vec![
        send("/oauth/token/", "Exchange a code or a refresh token", token, TOKEN_FIELDS)
            .answers(200, Schema::Json(tokens_schema))
            .also_answers(403, Schema::Json(error_schema)),
        send("/oauth/revoke/", "Give a token back", revoke, REVOKE_FIELDS).answers(200, Schema::Nothing),
    ]
}

fn tokens_schema() -> Json {
    let fields = [
        ("access_token", json!({"type": "string"})),
        ("token_type", json!({"const": "Bearer"})),
        ("expires_in", json!({"type": "integer", "description": "Seconds until the access token ends"})),
        ("refresh_token", json!({"type": "string"})),
        ("scope", json!({"const": OFFLINE_ACCESS})),
    ];
    titled("AgentTokens", object(fields))
}

fn error_schema() -> Json {
    titled(
        "OAuthError",
        object([("error", json!({"type": "string"})), ("error_description", json!({"type": "string"}))]),
    )
}

/// An error of OAuth. It is an answer, since a refusal would roll back the end of a grant.
fn error(status: StatusCode, error: &str, reason: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": reason}).to_string())
}

fn token_error(code: &str, reason: &str) -> Answer {
    error(StatusCode::BAD_REQUEST, code, reason)
}

/// Reads a field of the form; `None`: it is missing or empty. A repeated field is an error.
fn read_field(request: &Request, name: &str) -> Result<Option<String>, StepFailure> {
    let Some(value) = request.object()?.get(name) else { return Ok(None) };
    match value.as_str() {
        Some(text) => Ok(Some(text.into_owned()).filter(|text| !text.is_empty() && !text.contains('\0'))),
        None => {
            let reason = format!("{name} was sent twice, or is no text.");
            Err(StepFailure::answer(token_error("invalid_request", &reason)))
        }
    }
}

/// Reads the fields of these names.
fn read_fields<const N: usize>(request: &Request, names: [&str; N]) -> Result<[Option<String>; N], StepFailure> {
    let mut values = [const { None }; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = read_field(request, name)?;
    }
    Ok(values)
}

/// Authenticates the client that sends a request, and locks its connector. A disabled client is refused.
fn authenticate_client(request: &Request, conn: &mut Conn) -> Result<OAuthClient, StepFailure> {
    let [id, secret] = read_fields(request, ["client_id", "client_secret"])?;
    if let Some(credentials) = client::credentials(request, id.as_deref(), secret.as_deref())
        && let Some(client) = OAuthClient::find(conn, &credentials.id, true)?
        && client.has_secret(&credentials.secret)
        && client.is_enabled
    {
        return Ok(client);
    }
    let mut answer =
        error(StatusCode::UNAUTHORIZED, "invalid_client", "The client is not known, or its secret is wrong.");
    answer.headers.push((header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Basic realm=\"oauth\"")));
    Err(StepFailure::answer(answer))
}

fn token(request: &Request, conn: &mut Conn) -> Outcome {
    issue_tokens(request, conn).or_else(StepFailure::into_outcome)
}

/// The fields of a token request that depend on its `grant_type`.
struct TokenRequest {
    grant_type: Option<String>,
    code: Option<String>,
    redirect_uri: Option<String>,
    verifier: Option<String>,
    refresh_token: Option<String>,
}

fn issue_tokens(request: &Request, conn: &mut Conn) -> Result<Answer, StepFailure> {
    let client = authenticate_client(request, conn)?;
    let names = ["grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "resource"];
    let [grant_type, code, redirect_uri, verifier, refresh_token, resource] = read_fields(request, names)?;
    if !are_resource(request, &client, resource.as_deref().into_iter()) {
        return Ok(token_error("invalid_target", "resource is not the address of the client's connector."));
    }
    let fields = TokenRequest { grant_type, code, redirect_uri, verifier, refresh_token };
    Ok(match exchange(request, conn, &client, fields)? {
        GrantExchange::Issued(tokens) => Answer::value(&tokens),
        GrantExchange::Invalid => {
            token_error("invalid_grant", "It is not valid: unknown, used, too old, or of another request.")
        }
        GrantExchange::Elsewhere => {
            let reason = "Access from this address is not allowed.";
            let body = json!({"error": "invalid_grant", "error_description": reason, "detail": reason});
            Answer::json(StatusCode::FORBIDDEN, body.to_string())
        }
    })
}

/// Exchanges the code or the refresh token of a request. A missing field is an error.
fn exchange(
    request: &Request,
    conn: &mut Conn,
    client: &OAuthClient,
    fields: TokenRequest,
) -> Result<GrantExchange, StepFailure> {
    let require = |name: &str, value: Option<String>| {
        value.ok_or_else(|| StepFailure::answer(token_error("invalid_request", &format!("{name} is required."))))
    };
    match require("grant_type", fields.grant_type)?.as_str() {
        "authorization_code" => {
            let code = require("code", fields.code)?;
            let redirect_uri = require("redirect_uri", fields.redirect_uri)?;
            let verifier = require("code_verifier", fields.verifier)?;
            Ok(grants::exchange(request, conn, client, &CodeExchange { code, redirect_uri, verifier })?)
        }
        "refresh_token" => {
            let refresh_token = require("refresh_token", fields.refresh_token)?;
            Ok(grants::refresh(request, conn, client, &refresh_token)?)
        }
        _ => {
            let reason = "grant_type must be authorization_code or refresh_token.";
            Err(StepFailure::answer(token_error("unsupported_grant_type", reason)))
        }
    }
}

fn revoke(request: &Request, conn: &mut Conn) -> Outcome {
    revoke_token(request, conn).or_else(StepFailure::into_outcome)
}

fn revoke_token(request: &Request, conn: &mut Conn) -> Result<Answer, StepFailure> {
    let client = authenticate_client(request, conn)?;
    let Some(token) = read_field(request, "token")? else {
        return Ok(token_error("invalid_request", "token is required."));
    };
    grants::revoke(request, conn, &client, &token)?;
    let mut answer = Answer::empty();
    answer.status = StatusCode::OK;
    Ok(answer)
}
