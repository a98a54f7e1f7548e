//! Checks an uploaded file as a template of a class before it becomes one: `/api/object-classes/{id}/document-templates/check/`
//! (`docs/reference/document-templates.md`).

use super::check;
use super::merge_fields::{InvalidTag, Meanings, MergeField, may_view};
use super::{TEMPLATE_FILE, UNREADABLE, is_docx, require_write, unrelated};
use crate::docx::TemplateError;
use crate::merge::TemplateReport;
use files::stored_files::StoredFile;
use files::uploads::{invalid_token, load_by_token};
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::commit::write;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use kit::snapshot;
use records::record_values::class_of_id;
use resource::{Checked, message, openapi};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::Arc;
use store::Conn;

const PATH: &str = "/api/object-classes/{class_id}/document-templates/check/";
/// The maximum length of a reported reason in characters. A reason can quote the file.
const MAX_REASON: usize = 300;

pub fn route() -> Route {
    Route::post(PATH, "Check a file before it becomes a template", Handler::Async(check))
        .with_body(Schema::Json(body_schema))
        .answers(200, Schema::Json(report_schema))
}

fn body_schema() -> Json {
    let name = TEMPLATE_FILE.name();
    let token = json!({"type": "string", "description": "The token of an upload, which is not spent"});
    openapi::titled(
        "DocumentTemplateToCheck",
        json!({"type": "object", "required": [name], "properties": {name: token}}),
    )
}

fn report_schema() -> Json {
    let field = openapi::object([
        ("field", json!({"type": "string", "description": "As the tag has it"})),
        ("place", json!({"type": "string", "description": "In which part it stands, such as `document`"})),
        (
            "object_class",
            json!({"type": ["integer", "null"], "description": "The class whose field, or records, it names"}),
        ),
        ("is_known", json!({"type": "boolean"})),
    ]);
    let fields = json!({"type": "array", "items": openapi::titled("CheckedMergeField", field)});
    let errors =
        json!({"type": "array", "items": {"type": "string"}, "description": "Without any it may be a template"});
    openapi::titled("DocumentTemplateCheck", openapi::object([("merge_fields", fields), ("errors", errors)]))
}

fn check(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        // The check stores nothing. The write checks the caller's rights again, because the body took time to arrive.
        let (file, caller) = write(&request, file_sent).await?;
        let request = Arc::new(request.with_caller(caller));
        let survey = Arc::new(check::survey(&request, &file).await?);
        snapshot::read(&request, move |request, conn| report(request, conn, &survey)).await
    })
}

/// Returns the file that the body names by its token, which stays unspent, and the present state of the caller.
fn file_sent(request: &Request, conn: &mut Conn) -> Result<(StoredFile, Arc<Caller>), Refusal> {
    require_write(request, conn)?;
    let caller = request.caller.clone().ok_or_else(Refusal::unauthenticated)?;
    let wrong = |message: String| Refusal::field(TEMPLATE_FILE.name(), message);
    let body = request.object()?;
    let value = body.get(TEMPLATE_FILE.name()).ok_or_else(|| wrong(message::REQUIRED.to_owned()))?;
    if value.is_null() {
        return Err(wrong(message::NULL.to_owned()));
    }
    let token = value.as_str().ok_or_else(|| wrong(message::STRING.to_owned()))?;
    let file = load_by_token(request, conn, &token)?.ok_or_else(|| wrong(invalid_token(&token)))?;
    if is_docx(&file.name) { Ok((file, caller)) } else { Err(wrong("Invalid file type.".to_owned())) }
}

fn report(request: &Request, conn: &mut Conn, survey: &TemplateReport) -> Outcome {
    // The read of the file took time, so the rights are checked again.
    require_write(request, conn)?;
    let class = class_of_id(request, conn, request.id())?.ok_or_else(Refusal::not_found)?;
    let mut meanings = Meanings::for_caller(request, class);
    let (mut shown, mut unique_errors) = (HashSet::new(), HashSet::new());
    let (mut fields, mut errors) = (Vec::new(), survey.errors.iter().map(unreadable).collect::<Vec<_>>());
    for tag in &survey.tags {
        if !shown.insert((tag.kind as u8, &tag.path, &tag.within, tag.place)) {
            continue;
        }
        let field = MergeField::from(tag);
        let name = field.name();
        let meaning = meanings.meaning(conn, &field)?;
        let error = match &meaning {
            Checked::Valid(_) => match meanings.related_by_label(conn, &field)? {
                Some(class) if !may_view(request, conn, class)? => Some(unknown(&name)),
                _ => None,
            },
            Checked::Invalid(InvalidTag::Unknown) => Some(unknown(&name)),
            Checked::Invalid(InvalidTag::Unrelated { class, around: outer_class }) => {
                Some(unrelated(&field, *class, *outer_class))
            }
        };
        let object_class = meanings.class_named(conn, &field, &meaning)?;
        let is_known = error.is_none();
        fields.push(json!({
            "field": name, "place": tag.place, "object_class": object_class, "is_known": is_known,
        }));
        errors.extend(error.filter(|error| unique_errors.insert(error.clone())));
    }
    Ok(Answer::value(&json!({"merge_fields": fields, "errors": errors})))
}

fn unknown(name: &str) -> String {
    format!("Merge field {name} does not exist.")
}

/// Returns the message for an unusable part: the message of an upload, with the place and the reason.
fn unreadable(error: &TemplateError) -> String {
    let reason: String = error.reason.chars().take(MAX_REASON).collect();
    match &error.place {
        Some(place) => format!("{UNREADABLE} {}: {reason}", place.chars().take(MAX_REASON).collect::<String>()),
        None => format!("{UNREADABLE} {reason}"),
    }
}
