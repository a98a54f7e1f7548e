//! `POST /api/authentication-objects/{id}/test/`: requests a token and drops it (`docs/reference/mail.md`). A failure names only
//! one of three reasons, so that the endpoint cannot serve as a port scanner.

use crate::client_credentials::{self, ClientCredentials, TABLE, VENDOR};
use crate::mail::queue::TestPlaces;
use crate::mail::smtp::Reason;
use kit::answer::Answer;
use kit::commit::write;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Sql};
use tokio::time::{Instant, timeout_at};

/// The maximum time of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/authentication-objects/{id}/test/", "Ask for a token, and drop it", Handler::Async(run))
            .requires("authentication_objects", "edit")
            .answers(200, Schema::Json(shape)),
    ]
}

fn shape() -> Json {
    let status = json!({"type": "string", "enum": ["success", "failure"]});
    titled("AuthenticationObjectTest", object([("status", status), ("msg", json!({"type": "string"}))]))
}

/// The part of an object that can be tested.
enum TokenTest {
    Credentials(ClientCredentials),
    /// The object has no secret, or its secret cannot be decrypted.
    NoSecret,
    /// The provider of the object does not issue tokens.
    NoTokens,
}

fn run(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let deadline = Instant::now() + TEST_TIMEOUT;
        // The test writes nothing, but a write transaction refuses callers that have lost the permission meanwhile.
        let issued = match write(&request, prepare).await? {
            TokenTest::Credentials(credentials) => request_token(&request, &credentials, deadline).await,
            TokenTest::NoSecret => Err(Reason::SignIn),
            TokenTest::NoTokens => return Ok(failure("Objects of this provider issue no tokens.")),
        };
        Ok(match issued {
            Ok(()) => Answer::value(&json!({"status": "success", "msg": "A token was issued."})),
            Err(reason) => failure(&format!("Please check the token URL, the client and the secret: {reason}")),
        })
    })
}

fn failure(msg: &str) -> Answer {
    Answer::value(&json!({"status": "failure", "msg": msg}))
}

fn prepare(request: &Request, conn: &mut Conn) -> Result<TokenTest, Refusal> {
    let mut sql = Sql::new("SELECT provider FROM ");
    sql.name(TABLE).push(" WHERE id = ").bind(request.id::<i64>());
    let provider = conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?.ok_or_else(Refusal::not_found)?;
    if provider != VENDOR {
        return Ok(TokenTest::NoTokens);
    }
    let stored = client_credentials::load(&request.app, &request.build, conn, request.id())?;
    Ok(stored.map_or(TokenTest::NoSecret, TokenTest::Credentials))
}

async fn request_token(request: &Request, credentials: &ClientCredentials, deadline: Instant) -> Result<(), Reason> {
    let places = request.app.slot::<TestPlaces>().for_build(&request.build);
    let token_request = timeout_at(deadline, async {
        let _place = places.acquire().await.map_err(|_| Reason::Connect)?;
        client_credentials::token(credentials, &request.app.settings.outbound_allow).await.map(drop)
    });
    let issued = token_request.await.unwrap_or(Err(Reason::Connect));
    if let Err(reason) = issued {
        tracing::info!(%reason, build = request.build.domain, "a test of an authentication object failed");
    }
    issued
}
