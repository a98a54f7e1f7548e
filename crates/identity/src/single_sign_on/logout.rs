//! Ends a session here and at its provider (`docs/reference/single-sign-on.md`). A client sends `POST /api/auth/logout/` with
//! `single_sign_on` and opens the `logout_url` of the answer in the browser. That address ends the session and redirects the
//! browser to the provider, which ends its own session. The provider may redirect the browser to the same address without a ticket.
//! The browser is then redirected to the sign-in page.

use super::account;
use super::configuration::{SignInConfiguration, endpoint_address};
use super::provider::{Providers, with_query};
use super::tickets::{invalid_ticket, make_ticket};
use crate::sessions;
use http::{Method, StatusCode};
use kit::answer::Answer;
use kit::commit::write;
use kit::ids::{SessionId, SingleSignOnId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::message;
use resource::openapi::query;
use serde_json::json;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use web::clock::sha256_hex;

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/api/single-sign-on/{id}/logout/",
            "End the session of a ticket, then that at the provider",
            Handler::Async(logout),
        )
        .public()
        .named_by_path()
        .internal()
        .parameters(|| {
            vec![query("ticket", "That of `logout_url`; without it the browser comes back", json!({"type": "string"}))]
        })
        .answers(302, Schema::Nothing)
        .also_answers(400, Schema::Refusal),
    ]
}

/// Returns whether a logout also ends the session at the provider.
pub fn wants_single_sign_on(request: &Request) -> Result<bool, Refusal> {
    match request.object()?.get("single_sign_on") {
        None => Ok(false),
        Some(value) if value.is_null() => Err(Refusal::field("single_sign_on", message::NULL)),
        Some(value) => value.as_bool().ok_or_else(|| Refusal::field("single_sign_on", message::BOOLEAN)),
    }
}

/// Returns the address that ends a session here and at its provider. Returns `None` if the session did not begin by single sign-on,
/// or its configuration was deleted.
pub fn logout_url(request: &Request, conn: &mut Conn, session: SessionId) -> Result<Option<String>, StoreError> {
    let sql = Sql::new(
        "SELECT s.user_id, t.id FROM sessions s JOIN single_sign_on t ON t.id = s.single_sign_on_id WHERE s.id = $1",
    );
    let Some((user, id)) = conn.query_optional(&sql.arg(session), |row| Ok((row.id(0)?, row.id(1)?)))? else {
        return Ok(None);
    };
    let ticket = make_ticket(conn, id, user, Some(session), request.now)?;
    Ok(Some(with_query(&endpoint_address(&request.app, &request.build, id, "logout"), &[("ticket", &ticket)])))
}

fn logout(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let home = match request.app.front_end_of(&request.build) {
            Some(front_end) => front_end,
            None => format!("{}/sign-in/", request.app.address_of(&request.build)),
        };
        let Some(ticket) = request.query.last_value("ticket").map(str::to_owned) else {
            return Ok(Answer::redirect(StatusCode::FOUND, &home));
        };
        let configuration = write(&request, move |request, conn| end_session(request, conn, &ticket)).await?;
        let Some(issuer) = &configuration.issuer else { return Ok(Answer::redirect(StatusCode::FOUND, &home)) };
        match request.app.slot::<Providers>().provider(issuer).discovery(&request.app.clock).await {
            Ok(discovery) => Ok(Answer::redirect(
                StatusCode::FOUND,
                &match discovery.end_session_endpoint {
                    Some(endpoint) => {
                        let back = endpoint_address(&request.app, &request.build, configuration.id, "logout");
                        let client = configuration.client_id.as_str();
                        with_query(&endpoint, &[("client_id", client), ("post_logout_redirect_uri", &back)])
                    }
                    None => home,
                },
            )),
            Err(failure) => {
                account::log_failure(&request, &configuration, &failure);
                Ok(Answer::redirect(StatusCode::FOUND, &home))
            }
        }
    })
}

fn end_session(request: &Request, conn: &mut Conn, ticket: &str) -> Result<SignInConfiguration, Refusal> {
    let sql = Sql::new(
        "DELETE FROM single_sign_on_tickets WHERE hash = $1 AND single_sign_on_id = $2 AND session_id IS NOT NULL \
         AND expires_at > $3 RETURNING session_id",
    );
    let spent = conn
        .query_optional(&sql.arg(sha256_hex(ticket)).arg(request.id::<SingleSignOnId>()).arg(request.now), |row| {
            row.id(0)
        })?;
    let session = spent.ok_or_else(invalid_ticket)?;
    sessions::end(conn, session, request.now)?;
    rights::mark_rights_changed(request, conn)?;
    SignInConfiguration::load(request, conn, request.id())?.ok_or_else(Refusal::not_found)
}
