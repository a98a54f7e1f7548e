//! The pages of a sign-in. They work without scripts.

use super::authorization::AuthorizationRequest;
use super::transaction::ConsentTransaction;
use crate::mcp::tools::{TOOLS, ToolKind};
use http::{HeaderName, HeaderValue, StatusCode, header};
use identity::second_factors::proof::SecondStep;
use identity::sign_in::second_form;
use identity::single_sign_on::start::EnabledConfiguration;
use kit::answer::Answer;
use kit::html::{alert, escape, page};
use kit::request::Request;

/// The address of the form to sign in with a password.
pub const SIGN_IN: &str = "/oauth/authorize/sign-in/";
/// The address of the form to prove a second factor.
pub const SECOND_STEP: &str = "/oauth/authorize/second-factor/";
/// The address of the form to sign in at a provider.
pub const SINGLE_SIGN_ON: &str = "/oauth/authorize/single-sign-on/";
/// The address of the form to consent.
pub const CONSENT: &str = "/oauth/authorize/consent/";

/// A page that no other page may show in a frame.
fn unframed_page(request: &Request, status: StatusCode, title: &str, body: &str) -> Answer {
    let mut answer = page(request, status, title, body);
    answer.headers.push((header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")));
    answer
}

/// The page of an invalid request.
pub fn refusal_page(request: &Request, reason: &str) -> Answer {
    let body = format!("{}<p>Go back to the agent, and tell whoever looks after it.</p>", alert(reason));
    unframed_page(request, StatusCode::BAD_REQUEST, "Not possible", &body)
}

/// The page of a step that the person has to begin again.
pub fn begin_again(request: &Request, status: StatusCode, reason: &str, query: &str) -> Answer {
    let address = escape(&format!("/oauth/authorize?{query}"));
    unframed_page(
        request,
        status,
        "Not possible",
        &format!("{}<p><a href=\"{address}\">Begin again</a></p>", alert(reason)),
    )
}

/// The page of a person whose password is too old.
pub fn password_too_old(request: &Request) -> Answer {
    let body = "<p>Your password is too old. <a href=\"/password-reset/\">Choose a new one</a>, and begin again at the agent.</p>";
    unframed_page(request, StatusCode::OK, "Choose a new password", body)
}

/// The hidden fields of every form.
fn hidden_fields(authorization: &AuthorizationRequest, transaction: &ConsentTransaction) -> String {
    format!(
        "<input name=\"request\" type=\"hidden\" value=\"{}\"><input name=\"token\" type=\"hidden\" value=\"{}\">",
        escape(&authorization.query),
        escape(&transaction.token)
    )
}

/// The status of a sign-in page, with the error and the user name of a failed sign-in.
#[derive(Clone, Copy, Default)]
pub struct SignInNotice<'a> {
    pub status: StatusCode,
    pub error: &'a str,
    pub username: &'a str,
}

/// The page to sign in.
pub fn sign_in(
    request: &Request,
    authorization: &AuthorizationRequest,
    transaction: &ConsentTransaction,
    SignInNotice { status, error, username }: SignInNotice<'_>,
    configurations: &[EnabledConfiguration],
) -> Answer {
    let hidden = hidden_fields(authorization, transaction);
    let at_providers: String = configurations
        .iter()
        .map(|configuration| {
            format!(
                "<form method=\"post\" action=\"{SINGLE_SIGN_ON}\">{hidden}<input name=\"id\" type=\"hidden\" value=\"{}\">\
                 <p><button>Sign in with {}</button></p></form>",
                configuration.id,
                escape(&configuration.name)
            )
        })
        .collect();
    let (at_username, at_password) = if username.is_empty() { (" autofocus", "") } else { ("", " autofocus") };
    let body = format!(
        "{}<p><strong>{}</strong> asks to work for you. Sign in to see what it may do.</p>\
         <form method=\"post\" action=\"{SIGN_IN}\">{hidden}<label>E-mail address \
         <input name=\"username\" type=\"email\" value=\"{}\" autocomplete=\"username\" required{at_username}></label>\
         <label>Password \
         <input name=\"password\" type=\"password\" autocomplete=\"current-password\" required{at_password}></label>\
         <button>Sign in</button></form><p><a href=\"/password-reset/\">Forgot the password?</a></p>{at_providers}",
        alert(error),
        escape(&authorization.client.name),
        escape(username),
    );
    let mut answer = unframed_page(request, status, "Sign in", &body);
    answer.headers.push(transaction.cookie(request));
    answer
}

/// The page to prove a second factor, with the error of a former attempt.
pub fn second_step(
    request: &Request,
    authorization: &AuthorizationRequest,
    transaction: &ConsentTransaction,
    step: &SecondStep,
    status: StatusCode,
    error: &str,
) -> Answer {
    let hidden = hidden_fields(authorization, transaction);
    let body =
        second_form::form(step, SECOND_STEP, &hidden, error, &format!("/oauth/authorize?{}", authorization.query));
    let mut answer = unframed_page(request, status, "Sign in", &body);
    second_form::permit_script(&mut answer);
    answer.headers.push(transaction.cookie(request));
    answer
}

/// The page to consent. It lists the tools that the connector offers.
pub fn consent(
    request: &Request,
    authorization: &AuthorizationRequest,
    transaction: &ConsentTransaction,
    username: &str,
) -> Answer {
    let offered: Vec<&ToolKind> =
        TOOLS.iter().filter(|tool| authorization.client.tools.iter().any(|name| name == tool.name)).collect();
    let names: Vec<&str> = offered.iter().map(|tool| tool.name).collect();
    let tools: String =
        offered.iter().map(|tool| format!("<li>{} (<code>{}</code>)</li>", tool.title, tool.name)).collect();
    let tools = match tools.as_str() {
        "" => "<p>Its connector offers no tools now.</p>".to_owned(),
        tools => format!("<p>Its connector offers these tools:</p><ul>{tools}</ul>"),
    };
    let location = if authorization.returns_to_loopback() { ", a program on this computer" } else { "" };
    let body = format!(
        "<p><strong>{}</strong> asks to work for you, <strong>{}</strong>.</p>{tools}\
         <p>It reaches the records that you are assigned to by permission sets which let this connector do so.</p>\
         <p>You will be sent to <strong>{}</strong>{location}. Go on only if you have begun this there.</p>\
         <form method=\"post\" action=\"{CONSENT}\">{}<input name=\"tools\" type=\"hidden\" value=\"{}\"><p><button name=\"decision\" value=\"allow\">Allow</button> \
         <button name=\"decision\" value=\"deny\">Deny</button></p></form>",
        escape(&authorization.client.name),
        escape(username),
        escape(&authorization.host()),
        hidden_fields(authorization, transaction),
        names.join(" ")
    );
    let mut answer = unframed_page(request, StatusCode::OK, "Let an agent work for you", &body);
    // The answer to the form redirects to the agent, and browsers apply the policy of the page to this redirect.
    let targets = if authorization.returns_to_loopback() { "'self' https: http:" } else { "'self' https:" };
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; form-action {targets}; frame-ancestors 'none'; base-uri 'none'"
    );
    answer.headers.retain(|(name, _): &(HeaderName, _)| *name != header::CONTENT_SECURITY_POLICY);
    answer.headers.extend(HeaderValue::from_str(&policy).ok().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
    answer
}
