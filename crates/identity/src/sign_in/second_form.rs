//! The form for the second step of a sign-in on a page. Codes work without scripts. Passkeys need the script of the form.

use crate::second_factors::proof::{Proof, SecondStep};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, header};
use kit::answer::Answer;
use kit::html::{alert, escape};
use kit::refusal::Refusal;
use kit::request::Request;
use sha2::{Digest, Sha256};

use super::form::form_field;

/// Lets the button ask a passkey, and sends its answer with the form.
const SCRIPT: &str = include_str!("second_form.js");

/// The names of the fields of the form, in addition to those of its page.
pub const FIELDS: [&str; 3] = ["challenge", "code", "credential"];

/// The content of a sent form.
pub struct SentForm {
    pub challenge: String,
    pub proof: Proof,
}

/// Reads a sent form.
pub fn read(request: &Request) -> Result<SentForm, Refusal> {
    let [challenge, code, credential] = FIELDS.map(|name| form_field(request, name));
    Ok(SentForm { challenge: challenge?, proof: Proof::from_form(code?, credential?)? })
}

/// Returns the form, which is sent to `action` with the hidden fields of its page, below the error of a former attempt. A link leads
/// back to the first step.
pub fn form(step: &SecondStep, action: &str, hidden: &str, error: &str, first_step: &str) -> String {
    let has_method = |method: &str| step.methods.contains(&method);
    let label = match (has_method("totp"), has_method("recovery_code")) {
        (true, true) => "Code of your authenticator app, or a recovery code",
        (true, false) => "Code of your authenticator app",
        (false, true) => "Recovery code",
        (false, false) => "",
    };
    let code = match label {
        "" => "<input name=\"code\" type=\"hidden\">".to_owned(),
        label => format!(
            "<label>{label} <input name=\"code\" autocomplete=\"one-time-code\" maxlength=\"40\" required autofocus></label>\
             <button>Continue</button>"
        ),
    };
    let passkey = match &step.options {
        Some(options) => format!(
            "<input name=\"credential\" type=\"hidden\">\
             <p><button class=\"second\" type=\"button\" data-options=\"{}\" hidden>Use a passkey</button></p>\
             <noscript><p>A passkey needs a browser with scripts.</p></noscript><script>{SCRIPT}</script>",
            escape(&options.to_string())
        ),
        None => String::new(),
    };
    format!(
        "{}<form method=\"post\" action=\"{action}\">{hidden}<input name=\"challenge\" type=\"hidden\" value=\"{}\">\
         {code}{passkey}</form><p><a href=\"{}\">Begin again</a></p>",
        alert(error),
        escape(&step.challenge),
        escape(first_step)
    )
}

/// Permits the script of the form on its page.
pub fn permit_script(answer: &mut Answer) {
    let source = format!("; script-src 'sha256-{}'", STANDARD.encode(Sha256::digest(SCRIPT)));
    let with_script = |(name, value): &mut (HeaderName, HeaderValue)| {
        if *name == header::CONTENT_SECURITY_POLICY
            && let Ok(policy) = value.to_str()
            && let Ok(policy) = HeaderValue::try_from(format!("{policy}{source}"))
        {
            *value = policy;
        }
    };
    answer.headers.iter_mut().for_each(with_script);
}
