//! `POST /api/administration/smtp-settings/test/`: connects to the server, secures the connection, signs in and sends one message
//! (`docs/reference/mail.md`). A failure names only one of four reasons, so that the endpoint cannot serve as a port scanner.

use super::check::{CheckPurpose, check_settings};
use super::server;
use super::settings::SHAPE;
use crate::company_details;
use crate::mail::message::{self, ComposedMessage};
use crate::mail::queue::TestPlaces;
use crate::mail::smtp::{self, Reason, RequiredReceivers, SmtpServer};
use crate::mail::templates;
use kit::answer::Answer;
use kit::commit::write;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::HandlerFuture;
use kit::rows;
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, StoreError};
use tokio::time::{Instant, timeout_at};

/// The maximum time of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

pub fn shape() -> Json {
    titled("TestMessage", object(["status", "msg"].map(|name| (name, json!({"type": "string"})))))
}

pub fn run(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let deadline = Instant::now() + TEST_TIMEOUT;
        // The test writes nothing, but the check of the ids in a body locks their rows, which needs a write transaction.
        let prepared = write(&request, prepare).await?;
        let outcome = match &prepared {
            Some((server, message)) => send(&request, server, message, deadline).await,
            None => Err(Reason::SignIn),
        };
        match outcome {
            Ok(()) => Ok(Answer::value(&json!({"status": "success", "msg": "Test message sent."}))),
            Err(reason) => Err(test_refusal(reason)),
        }
    })
}

/// Applies the body to the stored settings and returns the server and the test message. Returns `None` if a stored secret cannot be
/// decrypted.
fn prepare(request: &Request, conn: &mut Conn) -> Result<Option<(SmtpServer, ComposedMessage)>, Refusal> {
    let mut settings =
        rows::load_shared(conn, &SHAPE, 1)?.ok_or_else(|| StoreError::internal("the settings are missing"))?;
    let changes = check_settings(conn, request.caller()?, &request.object()?, &settings, CheckPurpose::Test)?;
    changes.iter().for_each(|(name, value)| settings.insert(name.to_owned(), value.clone()));
    let outbound = server::outbound_from(&request.app, &request.build, conn, &settings)?;
    let Some(server) = outbound.server else { return Ok(None) };
    let domain = &request.build.domain;
    let fields = company_details::merge_fields(conn)?.with_field("domain", domain);
    let message = templates::test(outbound.failure_email, &fields);
    let id = format!("<{}@{domain}>", web::clock::random_token());
    let composed = message::compose(&server.from, &message, request.now, &id);
    composed.map(|composed| Some((server, composed))).map_err(|_| test_refusal(Reason::Recipient))
}

async fn send(
    request: &Request,
    server: &SmtpServer,
    message: &ComposedMessage,
    deadline: Instant,
) -> Result<(), Reason> {
    let (app, domain) = (&request.app, &request.build.domain);
    let places = app.slot::<TestPlaces>().for_build(&request.build);
    let place = timeout_at(deadline, places.acquire()).await.map_err(|_| Reason::Connect)?;
    let outcome =
        smtp::send(server, domain, message, RequiredReceivers::All, &app.settings.outbound_allow, deadline).await;
    drop(place);
    outcome.map_err(|failure| {
        tracing::info!(%failure, build = domain, "a test message was not sent");
        failure.reason
    })
}

fn test_refusal(reason: Reason) -> Refusal {
    Refusal::bad_request(format!(
        "Please check the username, the authentication object and the mail API settings: {reason}"
    ))
}
