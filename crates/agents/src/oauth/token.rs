//! `/oauth/token` and `/oauth/revoke`: where agents exchange codes and refresh tokens, and give tokens back (RFC 6749, 7009).
//! Their callers are servers as a rule, which authenticate with the secret of the connector.

use super::authorization::are_resource;
use super::client::{self, OAuthClient};
use crate::grants::{self, CodeExchange, GrantRefusal, OFFLINE_ACCESS};
use http::{StatusCode, header};
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use store::Conn;

const OF_TOKEN: &[&str] = &[
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
const OF_REVOKE: &[&str] = &["token", "token_type_hint", "client_id", "client_secret"];

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
        send("/oauth/token/", "Exchange a code or a refresh token", token, OF_TOKEN)
            .answers(200, Schema::Json(tokens_schema))
            .also_answers(403, Schema::Json(error_schema)),
        send("/oauth/revoke/", "Give a token back", revoke, OF_REVOKE).answers(200, Schema::Nothing),
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

/// An error as OAuth has it. It is an answer, since a refusal would undo what the transaction ended.
fn error(status: StatusCode, error: &str, why: &str) -> Answer {
    Answer::json(status, json!({"error": error, "error_description": why}).to_string())
}

fn token_error(code: &str, why: &str) -> Answer {
    error(StatusCode::BAD_REQUEST, code, why)
}

/// A field of the form: `None` when it was not sent or empty; an answer when it was sent twice.
fn field(request: &Request, name: &str) -> Result<Result<Option<String>, Answer>, Refusal> {
    Ok(match request.object()?.get(name) {
        None => Ok(None),
        Some(sent) => match sent.as_str() {
            Some(text) => Ok(Some(text.into_owned()).filter(|text| !text.is_empty() && !text.contains('\0'))),
            None => Err(token_error("invalid_request", &format!("{name} was sent twice, or is no text."))),
        },
    })
}

/// The fields of these names.
fn fields<const N: usize>(request: &Request, names: [&str; N]) -> Result<Result<[Option<String>; N], Answer>, Refusal> {
    let mut values = [const { None }; N];
    for (value, name) in values.iter_mut().zip(names) {
        match field(request, name)? {
            Ok(sent) => *value = sent,
            Err(answer) => return Ok(Err(answer)),
        }
    }
    Ok(Ok(values))
}

/// The client that sends a request, with its connector kept as it is. One that is disabled is no client.
fn client_of(request: &Request, conn: &mut Conn) -> Result<Result<OAuthClient, Answer>, Refusal> {
    let [id, secret] = match fields(request, ["client_id", "client_secret"])? {
        Ok(fields) => fields,
        Err(answer) => return Ok(Err(answer)),
    };
    let sent = client::credentials(request, id.as_deref(), secret.as_deref());
    if let Some((id, secret)) = sent
        && let Some(client) = OAuthClient::find(conn, &id, true)?
        && client.has_secret(&secret)
        && client.is_enabled
    {
        return Ok(Ok(client));
    }
    let mut answer =
        error(StatusCode::UNAUTHORIZED, "invalid_client", "The client is not known, or its secret is wrong.");
    answer.headers.push((header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Basic realm=\"oauth\"")));
    Ok(Err(answer))
}

fn token(request: &Request, conn: &mut Conn) -> Outcome {
    let client = match client_of(request, conn)? {
        Ok(client) => client,
        Err(answer) => return Ok(answer),
    };
    let names = ["grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "resource"];
    let [grant_type, code, redirect_uri, verifier, refresh_token, resource] = match fields(request, names)? {
        Ok(fields) => fields,
        Err(answer) => return Ok(answer),
    };
    if !are_resource(request, &client, resource.as_deref().into_iter()) {
        return Ok(token_error("invalid_target", "resource is not the address of the client's connector."));
    }
    let missing = |name: &str| Ok(token_error("invalid_request", &format!("{name} is required.")));
    let exchanged = match grant_type.as_deref() {
        None => return missing("grant_type"),
        Some("authorization_code") => {
            let Some(code) = code else { return missing("code") };
            let Some(redirect_uri) = redirect_uri else { return missing("redirect_uri") };
            let Some(verifier) = verifier else { return missing("code_verifier") };
            grants::exchange(request, conn, &client, &CodeExchange { code, redirect_uri, verifier })?
        }
        Some("refresh_token") => {
            let Some(refresh_token) = refresh_token else { return missing("refresh_token") };
            grants::refresh(request, conn, &client, &refresh_token)?
        }
        Some(_) => {
            let why = "grant_type must be authorization_code or refresh_token.";
            return Ok(token_error("unsupported_grant_type", why));
        }
    };
    Ok(match exchanged {
        Ok(tokens) => Answer::value(&tokens),
        Err(GrantRefusal::Invalid) => {
            token_error("invalid_grant", "It is not valid: unknown, used, too old, or of another request.")
        }
        Err(GrantRefusal::Elsewhere) => {
            let why = "Access from this address is not allowed.";
            let body = json!({"error": "invalid_grant", "error_description": why, "detail": why});
            Answer::json(StatusCode::FORBIDDEN, body.to_string())
        }
    })
}

fn revoke(request: &Request, conn: &mut Conn) -> Outcome {
    let client = match client_of(request, conn)? {
        Ok(client) => client,
        Err(answer) => return Ok(answer),
    };
    let [token] = match fields(request, ["token"])? {
        Ok(fields) => fields,
        Err(answer) => return Ok(answer),
    };
    let Some(token) = token else { return Ok(token_error("invalid_request", "token is required.")) };
    grants::revoke(request, conn, &client, &token)?;
    let mut answer = Answer::empty();
    answer.status = StatusCode::OK;
    Ok(answer)
}
