//! `/sign-in/`, `/activate/`, `/password-reset/`: small plain pages with a form that work without scripts, so that an
//! installation without a front end is usable (document 4, section 3, "pages").

use super::{login, set_password};
use crate::attempts;
use crate::mailed_links::Kind;
use crate::single_sign_on::start::{self, Named};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::html::{alert, escape, messages, page};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Pending, Route, Schema};
use serde_json::Value as Json;
use std::sync::Arc;
use store::Conn;

/// The pages, each with the form that it sends to itself.
pub fn routes() -> Vec<Route> {
    let show = |path, summary, handler| {
        Route::new(Method::GET, path, summary, Handler::NoDatabase(handler)).public().answers(200, Schema::Html)
    };
    let send = |path, summary, handler, fields| {
        Route::post(path, summary, handler)
            .public()
            .guarded(attempts::guard)
            .takes(Schema::Form(fields))
            .answers(200, Schema::Html)
    };
    vec![
        Route::new(Method::GET, "/sign-in/", "Page to sign in", Handler::ShortRead(show_sign_in))
            .public()
            .answers(200, Schema::Html),
        send("/sign-in/", "Sign in from the page", Handler::Async(sign_in), &["username", "password"]),
        send(
            "/sign-in/single-sign-on/",
            "Sign in at a provider from the page",
            Handler::Async(sign_in_elsewhere),
            &["id"],
        ),
        show("/activate/", "Page to choose the first password", |request| {
            Ok(choose_page(StatusCode::OK, Kind::Activation, request.query.last("token").unwrap_or(""), &[]))
        }),
        send(
            "/activate/",
            "Activate from the page",
            Handler::Async(|request| choose(request, Kind::Activation)),
            &["token", "password"],
        ),
        show("/password-reset/", "Page to reset a password", |request| {
            Ok(match request.query.last("token") {
                Some(token) => choose_page(StatusCode::OK, Kind::Reset, token, &[]),
                None => ask_page(StatusCode::OK, ""),
            })
        }),
        send("/password-reset/", "Reset from the page", Handler::Async(reset), &["username", "token", "password"]),
    ]
}

/// A field of a form. No name, token or password holds a NUL.
fn field(request: &Request, name: &str) -> Result<String, Refusal> {
    let sent = request.object()?.get(name).and_then(|sent| sent.as_str());
    Ok(sent.map_or_else(String::new, |text| text.replace('\0', "")))
}

fn sign_in(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let (username, password) = (field(&request, "username")?, field(&request, "password")?);
        match login::sign_in(&request, username, password).await {
            Ok(tokens) => Ok(tokens_page(&tokens)),
            Err(refusal) if !refusal.is_by_rule() => Err(refusal),
            Err(refusal) => sign_in_failed(&request, &refusal).await,
        }
    })
}

fn show_sign_in(_: &Request, conn: &mut Conn) -> Outcome {
    Ok(sign_in_page(StatusCode::OK, "", &start::enabled(conn)?))
}

fn sign_in_elsewhere(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let id = field(&request, "id")?.parse().unwrap_or(0);
        match start::start_page(&request, id).await {
            Err(refusal) if !refusal.is_by_rule() => Err(refusal),
            Err(refusal) => sign_in_failed(&request, &refusal).await,
            page => page,
        }
    })
}

/// The page to sign in, with what went wrong.
pub async fn sign_in_failed(request: &Request, refusal: &Refusal) -> Outcome {
    let enabled = request.build.db.read_short(start::enabled).await?;
    Ok(sign_in_page(refusal.status, &messages(refusal).join(" "), &enabled))
}

fn reset(request: Arc<Request>) -> Pending {
    if request.object().is_ok_and(|body| body.contains_key("token")) {
        return choose(request, Kind::Reset);
    }
    Box::pin(async move {
        let username = field(&request, "username")?;
        Ok(match set_password::ask_for_reset(&request, username).await {
            Ok(()) => page(
                StatusCode::OK,
                "Check your mail",
                "<p>If there is such an account, a link to choose a new password is on its way.</p>",
            ),
            Err(refusal) if !refusal.is_by_rule() => return Err(refusal),
            Err(refusal) => ask_page(refusal.status, &messages(&refusal).join(" ")),
        })
    })
}

fn choose(request: Arc<Request>, kind: Kind) -> Pending {
    Box::pin(async move {
        let (token, password) = (field(&request, "token")?, field(&request, "password")?);
        let outcome: Outcome = set_password::by_link(&request, token.clone(), password, kind).await;
        Ok(match outcome {
            Ok(_) => {
                page(StatusCode::OK, "Password set", "<p>Your password is set. <a href=\"/sign-in/\">Sign in</a></p>")
            }
            Err(refusal) if !refusal.is_by_rule() => return Err(refusal),
            Err(refusal) => choose_page(refusal.status, kind, &token, &messages(&refusal)),
        })
    })
}

fn sign_in_page(status: StatusCode, error: &str, elsewhere: &[Named]) -> Answer {
    let elsewhere: Vec<String> = elsewhere
        .iter()
        .map(|named| {
            format!(
                "<form method=\"post\" action=\"/sign-in/single-sign-on/\"><input name=\"id\" type=\"hidden\" value=\"{}\">\
                 <p><button>Sign in with {}</button></p></form>",
                named.id,
                escape(&named.name)
            )
        })
        .collect();
    let form = format!(
        "{}<form method=\"post\" action=\"/sign-in/\">\
         <label>E-mail address <input name=\"username\" type=\"email\" autocomplete=\"username\" required autofocus></label>\
         <label>Password <input name=\"password\" type=\"password\" autocomplete=\"current-password\" required></label>\
         <button>Sign in</button></form><p><a href=\"/password-reset/\">Forgot the password?</a></p>{}",
        alert(error),
        elsewhere.concat()
    );
    page(status, "Sign in", &form)
}

fn ask_page(status: StatusCode, error: &str) -> Answer {
    let form = format!(
        "{}<form method=\"post\" action=\"/password-reset/\">\
         <label>E-mail address <input name=\"username\" type=\"email\" autocomplete=\"username\" required autofocus></label>\
         <button>Send a link</button></form>",
        alert(error)
    );
    page(status, "Reset your password", &form)
}

fn choose_page(status: StatusCode, kind: Kind, token: &str, errors: &[String]) -> Answer {
    let (title, action) = match kind {
        Kind::Activation => ("Activate your account", "/activate/"),
        Kind::Reset => ("Choose a new password", "/password-reset/"),
    };
    let form = format!(
        "{}<form method=\"post\" action=\"{action}\"><input name=\"token\" type=\"hidden\" value=\"{}\">\
         <label>New password <input name=\"password\" type=\"password\" autocomplete=\"new-password\" required autofocus></label>\
         <button>Set password</button></form>",
        alert(&errors.join(" ")),
        escape(token)
    );
    page(status, title, &form)
}

/// Shows the pair, since there is no front end that could keep it.
pub fn tokens_page(tokens: &Json) -> Answer {
    let shown = |name: &str| escape(tokens.get(name).and_then(Json::as_str).unwrap_or(""));
    let body = format!(
        "<p>You are signed in. A program uses these as <code>Authorization: JWT …</code>; keep them to yourself.</p>\
         <label>Access token <textarea readonly rows=\"4\" name=\"access_token\">{}</textarea></label>\
         <label>Refresh token <textarea readonly rows=\"2\" name=\"refresh_token\">{}</textarea></label>",
        shown("access_token"),
        shown("refresh_token")
    );
    page(StatusCode::OK, "Signed in", &body)
}
