//! And back: the code becomes tokens, the tokens a person, the person a session. The answer is the token pair, or with a
//! front end (`CHANCERY_SIGN_IN_URL`) a redirect to it with a one-time ticket, which keeps tokens out of addresses.

use super::account::{self, Person, Settled};
use super::provider::{Failure, with_query};
use super::transaction::Transaction;
use super::{Configuration, id_token};
use crate::clock::{random_token, sha256_hex};
use crate::http::{Answer, Outcome, Refusal, Request};
use crate::links;
use crate::routes::{Handler, Pending, Route, Schema};
use crate::serve::write;
use crate::sign_in::{check_address, login, pages, sessions, texts};
use crate::system_events::{self, Event};
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use store::{Conn, Error, Sql};

/// How long a ticket may be exchanged, in microseconds.
pub const TICKET: i64 = 60_000_000;

/// The routes of the way back.
pub fn routes() -> Vec<Route> {
    let ticket = || json!({"type": "object", "required": ["ticket"], "properties": {"ticket": {"type": "string"}}});
    vec![
        Route::new(
            Method::GET,
            "/api/single-sign-on/{id}/callback/",
            "Where a provider sends people back to",
            Handler::Steps(callback),
        )
        .public()
        .answers(200, Schema::Json(login::pair))
        // To a page, to somebody who has only linked himself, to a front end.
        .or(200, Schema::Html)
        .or(204, Schema::Nothing)
        .or(302, Schema::Nothing)
        .or(400, Schema::Refusal)
        .or(400, Schema::Html)
        .or(401, Schema::Refusal)
        .or(401, Schema::Html)
        .or(429, Schema::Refusal),
        Route::post(
            "/api/auth/ticket/",
            "Exchange the ticket of a single sign-on for a pair",
            Handler::Write(exchange),
        )
        .public()
        .takes(Schema::Json(ticket))
        .answers(200, Schema::Json(login::pair)),
    ]
}

/// How a sign-in ended.
enum End {
    /// With a pair, or with the ticket that stands for one.
    Tokens(Json),
    Ticket(String),
    /// Bound, without a session.
    Linked,
    /// 401.
    Refused,
    /// 400.
    Failed,
}

fn callback(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let state = request.query.last("state").unwrap_or("").to_owned();
        // Any page can send a browser here. Without the cookie of a sign-in that was begun it is none: neither counted nor
        // told, or strangers could use up the attempts of an address, and fill the queue of events.
        let Some(transaction) = Transaction::of_callback(&request, &state) else {
            return answer(&request, End::Failed, false).await;
        };
        let (end, from_page) = (come_back(&request, &transaction).await?, transaction.from_page);
        let mut answer = answer(&request, end, from_page).await?;
        let redirect_uri = super::address(&request.app, &request.build, request.id(), "callback");
        answer.headers.push(Transaction::forget(&state, &redirect_uri));
        Ok(answer)
    })
}

async fn come_back(request: &Arc<Request>, transaction: &Transaction) -> Result<End, Refusal> {
    let spent = transaction.clone();
    let configuration = write(request, move |request, conn| {
        check_address(request, conn)?;
        let configuration = Configuration::load(request, conn, request.id())?.filter(|found| found.is_enabled);
        let is_first = spent.spend(conn, request.now)?;
        Ok(configuration.filter(|_| is_first))
    })
    .await?;
    let Some(configuration) = configuration else { return fail(request, "state").await };
    let person = match identify(request, &configuration, transaction).await {
        Ok(person) => person,
        Err(failure) => {
            account::log(request, &configuration, &failure);
            return fail(request, "provider").await;
        }
    };
    let linking = transaction.linking;
    let decide = move |request: &Request, conn: &mut Conn| {
        let settled = account::settle(request, conn, &configuration, &person, linking)?;
        end(request, conn, configuration.id, settled)
    };
    match write(request, decide.clone()).await {
        // Two first sign-ins at once: the other one has made the account or bound the identity.
        Err(refusal) if is_taken(&refusal) => write(request, decide).await,
        outcome => outcome,
    }
}

fn is_taken(refusal: &Refusal) -> bool {
    refusal.status == StatusCode::BAD_REQUEST || matches!(refusal.cause.as_deref(), Some(Error::Unique(_)))
}

async fn fail(request: &Arc<Request>, reason: &'static str) -> Result<End, Refusal> {
    write(request, move |request, conn| account::failed(request, conn, None, reason)).await?;
    Ok(End::Failed)
}

/// Asks the provider who it is.
async fn identify(
    request: &Request,
    configuration: &Configuration,
    transaction: &Transaction,
) -> Result<Person, Failure> {
    let clock = &request.app.clock;
    let issuer = configuration.issuer.as_deref().ok_or("the provider's issuer is not set")?;
    let provider = request.app.providers.of(issuer);
    // A response of another provider (mix-up, RFC 9207).
    match request.query.last("iss") {
        Some(named) if named != issuer => return Err("another issuer answered".into()),
        None if provider.discovered(clock).await?.names_issuer_in_response => {
            return Err("the provider's answer does not name it".into());
        }
        _ => {}
    }
    if request.query.last("error").is_some() {
        return Err("the provider answered with an error".into());
    }
    let code = request.query.last("code").ok_or("the provider's answer has no code")?;
    let tokens = provider.exchange(clock, configuration, code, &transaction.verifier).await?;
    let unverified = id_token::read(&tokens.id_token)?;
    let keys = provider.keys(clock, unverified.key_id.as_deref()).await?;
    let expected =
        id_token::Expected { issuer, client_id: &configuration.client_id, nonce: &transaction.nonce, now: clock.now() };
    let mut claims = unverified.verify(&keys, &expected)?;
    if !claims.contains_key("email")
        && let Some(access_token) = &tokens.access_token
        && let Some(more) = provider.user_info(clock, access_token).await?
    {
        add(&mut claims, more)?;
    }
    Ok(Person::of(configuration, &claims))
}

/// Takes claims of the user-info endpoint in: of the same subject, and none that the ID token has.
fn add(claims: &mut Map<String, Json>, more: Map<String, Json>) -> Result<(), Failure> {
    if more.get("sub") != claims.get("sub") {
        return Err("the user info is of another subject".into());
    }
    for (name, value) in more {
        claims.entry(name).or_insert(value);
    }
    Ok(())
}

/// What follows from the decision, in its transaction.
fn end(request: &Request, conn: &mut Conn, single_sign_on: i64, settled: Settled) -> Result<End, Refusal> {
    Ok(match settled {
        Settled::Welcome(user) if request.app.config.sign_in_url.is_some() => {
            End::Ticket(make_ticket(conn, single_sign_on, user, None, request.now)?)
        }
        Settled::Welcome(user) => End::Tokens(begin(request, conn, single_sign_on, user)?),
        Settled::Linked => End::Linked,
        Settled::Refused => End::Refused,
        Settled::Failed => End::Failed,
    })
}

fn begin(request: &Request, conn: &mut Conn, single_sign_on: i64, user: i64) -> Result<Json, Refusal> {
    conn.exec(&Sql::new("UPDATE users SET last_login = $1 WHERE id = $2").arg(request.now).arg(user))?;
    system_events::note(request, conn, Event::LoginSuccess, Some(user), Some("single_sign_on"))?;
    Ok(sessions::begin(request, conn, user, Some(single_sign_on))?)
}

/// A ticket for a user's session that is to begin, or for one that is to end.
pub fn make_ticket(
    conn: &mut Conn,
    single_sign_on: i64,
    user: i64,
    session: Option<i64>,
    now: i64,
) -> Result<String, Error> {
    conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE expires_at <= $1").arg(now))?;
    let ticket = random_token();
    let sql = Sql::new(
        "INSERT INTO single_sign_on_tickets(hash, single_sign_on_id, user_id, session_id, expires_at) VALUES ($1, $2, $3, $4, $5)",
    );
    conn.exec(&sql.arg(sha256_hex(&ticket)).arg(single_sign_on).arg(user).arg(session).arg(now + TICKET))?;
    Ok(ticket)
}

/// The refusal of a ticket that is unknown, spent or too old.
pub fn invalid_ticket() -> Refusal {
    Refusal::field("ticket", "Invalid token.")
}

fn exchange(request: &Request, conn: &mut Conn) -> Outcome {
    let [ticket] = texts(request, ["ticket"])?;
    let sql = Sql::new(
        "DELETE FROM single_sign_on_tickets WHERE hash = $1 AND session_id IS NULL AND expires_at > $2 \
         RETURNING single_sign_on_id, user_id",
    );
    let spent = conn.opt(&sql.arg(sha256_hex(&ticket)).arg(request.now), |row| Ok((row.int(0)?, row.int(1)?)))?;
    let (single_sign_on, user) = spent.ok_or_else(invalid_ticket)?;
    if !account::is_welcome(request, conn, single_sign_on, user)? {
        // Not an Err, which would give the ticket back.
        return Ok(Answer::refusal(&login::refused()));
    }
    Ok(Answer::value(&begin(request, conn, single_sign_on, user)?))
}

async fn answer(request: &Arc<Request>, end: End, from_page: bool) -> Outcome {
    if let Some(front_end) = links::front_end(&request.app, &request.build) {
        return Ok(redirect(&match end {
            End::Ticket(ticket) => with_query(&front_end, &[("ticket", &ticket)]),
            End::Linked => with_query(&front_end, &[("linked", "true")]),
            _ => with_query(&front_end, &[("error", "sign_in_failed")]),
        }));
    }
    let refusal = match end {
        End::Tokens(tokens) if from_page => return Ok(pages::tokens_page(&tokens)),
        End::Tokens(tokens) => return Ok(Answer::value(&tokens)),
        End::Linked | End::Ticket(_) => return Ok(Answer::empty()),
        End::Refused => login::refused(),
        End::Failed => Refusal::bad("Sign-in failed."),
    };
    if from_page { pages::sign_in_failed(request, &refusal).await } else { Err(refusal) }
}

/// A redirect that no cache keeps and that tells the next server nothing of this address.
pub fn redirect(address: &str) -> Answer {
    let mut answer = Answer::empty();
    answer.status = StatusCode::FOUND;
    answer.headers.extend(HeaderValue::from_str(address).ok().map(|address| (header::LOCATION, address)));
    answer.headers.push((header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")));
    answer
}
