//! `POST /api/administration/messages/preview/`: previews a message with sample values (`docs/reference/mail.md`).

use crate::company_details;
use crate::mail::message::MailMessage;
use crate::mail::templates::{self, MergeFields};
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows;
use resource::{EnumOption, FieldKey, FieldKind, Resource, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::Conn;

/// A message that has a preview.
struct PreviewMessage {
    name: &'static str,
    text: &'static str,
    make: fn(String, &MergeFields) -> MailMessage,
    /// The page that its link opens; empty for messages without a link.
    page: &'static str,
}

static MESSAGES: [PreviewMessage; 5] = [
    PreviewMessage { name: "activation", text: "Activation", make: templates::activation, page: "activate" },
    PreviewMessage { name: "reset", text: "Password reset", make: templates::reset, page: "password-reset" },
    PreviewMessage { name: "test", text: "Test", make: templates::test, page: "" },
    PreviewMessage { name: "reminder", text: "Reminder of a task", make: templates::reminder, page: "" },
    PreviewMessage { name: "task_link", text: "Link to a task", make: templates::task_link, page: "task" },
];

/// Sample values of the merge fields that are not company details.
const SAMPLES: [(&str, &str); 4] = [
    ("first_name", "Ann"),
    ("task", "Check the order"),
    ("due_at", "2026-01-31 09:30 UTC"),
    ("expires_at", "2026-02-28 09:30 UTC"),
];
/// The text in place of the token of a link. It is shorter than every token.
const SAMPLE_TOKEN: &str = "sample";

static NAME: FieldKey<String> = FieldKey::new("name");

static PREVIEW: LazyLock<Resource> = LazyLock::new(|| {
    let choices = MESSAGES.iter().map(|message| EnumOption::new(message.name, message.text)).collect();
    let name = NAME.declare(FieldKind::Enum { choices }).required();
    Resource::new("messages", "MessageToPreview", "messages", [name])
});

pub fn routes() -> Vec<Route> {
    let preview = Handler::Write(preview);
    vec![
        Route::post("/api/administration/messages/preview/", "A message as it will look", preview)
            .requires("company_details", "view")
            .with_body(Schema::Json(|| openapi::request(&PREVIEW, true)))
            .answers(200, Schema::Json(shape)),
    ]
}

fn shape() -> Json {
    openapi::titled(
        "MessagePreview",
        openapi::object(["subject", "text"].map(|name| (name, json!({"type": "string"})))),
    )
}

fn preview(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::check_body(conn, &PREVIEW, &request.object()?, None)?;
    accepted.errors.refuse()?;
    let name = accepted.changes.get(&NAME).unwrap_or_default();
    let Some(message) = MESSAGES.iter().find(|message| message.name == name) else { return Err(Refusal::not_found()) };
    let base = request.app.front_end_of(&request.build).unwrap_or_else(|| request.app.address_of(&request.build));
    let fields = company_details::merge_fields(conn)?.with_field("domain", &request.build.domain);
    let fields = fields.with_field("link", format!("{base}/{}/?token={SAMPLE_TOKEN}", message.page));
    let fields = SAMPLES.into_iter().fold(fields, |fields, (name, value)| fields.with_field(name, value));
    let MailMessage { subject, text, .. } = (message.make)(String::new(), &fields);
    Ok(Answer::value(&json!({"subject": subject, "text": text})))
}
