//! The form for the second step of a sign-in on a page. Codes work without scripts. Passkeys need the script of the form.

use crate::second_factors::proof::{Proof, SecondStep};
use kit::answer::Answer;
use kit::html::{alert, escape};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;

use super::form::form_field;
use super::page_script::PageScript;

/// Lets the button ask a passkey, and sends its answer with the form.
const SCRIPT: PageScript = PageScript { text: include_str!("second_form.js"), directives: "" };

/// The message of the script if a passkey gives no answer.
const FAILED: &str = "No passkey was used. Try again, or use another way.";

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
/// back to the first step. A passkey precedes recovery codes, but follows the codes of an app, which need no script.
pub fn form(step: &SecondStep, action: &str, hidden: &str, error: &str, first_step: &str) -> String {
    let code = code_field(step);
    let fields = match &step.options {
        Some(options) if step.methods.contains(&"totp") => code + &passkey_button(options, "second"),
        Some(options) => passkey_button(options, "") + &code,
        None => code,
    };
    let script = step.options.as_ref().map_or_else(String::new, |_| SCRIPT.element());
    format!(
        "{}<p>Confirm with your second factor that it is you.</p><form method=\"post\" action=\"{action}\">{hidden}<input name=\"challenge\" type=\"hidden\" value=\"{}\">\
         {fields}{script}</form><p><a href=\"{}\">Begin again</a></p>",
        alert(error),
        escape(&step.challenge),
        escape(first_step)
    )
}

/// Returns the field for codes, which has the focus unless a passkey precedes it.
fn code_field(step: &SecondStep) -> String {
    let has = |method: &str| step.methods.contains(&method);
    let label = match (has("totp"), has("recovery_code")) {
        (true, true) => "Code of your authenticator app, or a recovery code",
        (true, false) => "Code of your authenticator app",
        (false, true) => "Recovery code",
        (false, false) => return "<input name=\"code\" type=\"hidden\">".to_owned(),
    };
    let (focus, class) = match step.options.is_some() && !has("totp") {
        true => ("", " class=\"second\""),
        false => (" autofocus", ""),
    };
    format!(
        "<label>{label} <input name=\"code\" autocomplete=\"one-time-code\" maxlength=\"40\" required{focus}></label>\
         <button{class}>Continue</button>"
    )
}

/// Returns the button that asks a passkey. The script shows it.
fn passkey_button(options: &Json, class: &str) -> String {
    format!(
        "<input name=\"credential\" type=\"hidden\">\
         <p hidden><button class=\"{class}\" type=\"button\" data-options=\"{}\" data-failed=\"{FAILED}\">Use a passkey</button></p>\
         <noscript><p>A passkey needs a browser with scripts.</p></noscript>",
        escape(&options.to_string())
    )
}

/// Permits the script of the form on its page.
pub fn permit_script(answer: &mut Answer) {
    SCRIPT.permit(answer);
}
