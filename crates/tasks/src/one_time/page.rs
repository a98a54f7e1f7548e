//! `/task/`: the page of a link, which shows the task and completes it, without scripts, sessions or cookies
//! (`docs/reference/task-links.md`). Its form is multipart. The first part is the token of the link.

use super::answers::{COMMENT, Typed};
use super::html;
use super::inputs::{self, Input};
use super::links::{self, TaskLink};
use super::sign_in::{find, invalid_token};
use crate::task_templates::form::TT_UPDATE;
use crate::tasks::acting;
use crate::tasks::response::{RESPONSE, load_task_files as files_of_task};
use crate::tasks::task::{self, IN_APPROVAL, OPEN, ShownTask};
use crate::tasks::task_access;
use files::file_name;
use files::uploads::{self, MAX_BYTES};
use http::{Method, StatusCode};
use identity::{as_caller, attempts, sessions};
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::commit::write;
use kit::html::{alert, escape, page};
use kit::multipart::{FormPart, MAX_TEXTS, MultipartForm};
use kit::refusal::{Refusal, RefusalReason};
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use kit::upload::{Chunks, Upload};
use resource::openapi::query;
use resource::{FieldErrors, JsonBody, message};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, StoreError};

/// The path of the page.
const PATH: &str = "/task/";
const TOKEN: &str = "token";
/// The maximum number of files in a form.
const MAX_FILES: usize = 25;
/// The maximum size of a task on a page, in bytes of the API's JSON.
const MAX_TASK: usize = 256 * 1024;
/// The maximum number of choices of all inputs of a page together.
const MAX_CHOICES: usize = 2_000;
/// The maximum size of a form in bytes: its files, its texts, and the overhead of its parts.
const MAX_FORM: u64 = MAX_FILES as u64 * MAX_BYTES + 8 * MAX_TEXTS as u64;

pub fn routes() -> Vec<Route> {
    let parameters = || vec![query(TOKEN, "The token of the link in the mail", json!({"type": "string"}))];
    vec![
        Route::new(Method::GET, PATH, "Page of the link to a task", Handler::Async(open))
            .public()
            .parameters(parameters)
            .answers(200, Schema::Html)
            .also_answers(400, Schema::Html)
            .also_answers(429, Schema::Html),
        Route::upload(PATH, MAX_FORM, send)
            .summary("Complete a task from its page")
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Multipart(&[TOKEN, COMMENT]))
            .answers(200, Schema::Html)
            .also_answers(400, Schema::Html),
    ]
}

/// The task and the account of a link.
struct OpenedLink {
    token: String,
    link: TaskLink,
    /// The account of the link, restricted to the task.
    caller: Arc<Caller>,
    /// The parts of the task for the page, in the format of the API. Null if the task is too large for a page.
    task: Json,
    inputs: Vec<Input>,
}

impl OpenedLink {
    fn is_open(&self) -> bool {
        self.task["status"] == OPEN
    }

    fn is_update(&self) -> bool {
        self.task["form"]["task_type"] == TT_UPDATE
    }

    /// The page with its form.
    fn page(&self, request: &Request, status: StatusCode, typed: Option<&Typed>, errors: &[String]) -> Answer {
        if self.task.is_null() {
            let note = alert("This task is too large for this page. Ask whoever sent you the link.");
            return page(request, StatusCode::BAD_REQUEST, "Task", &note);
        }
        let form = match self.is_open() {
            true => html::form(&self.token, &self.task, &self.inputs, typed, errors),
            false => "<p>This task was completed, and waits for somebody to approve the answer.</p>".to_owned(),
        };
        let name = self.task["name"].as_str().unwrap_or("");
        page(request, status, &escape(name), &format!("{}{form}", html::task_header(&self.task)))
    }
}

/// The page of a link that does not work. It reveals nothing about the task, because the link does not open it any more.
fn expired_page(request: &Request) -> Answer {
    let note = alert("This link does not work. It is not complete, or the task has ended or is not yours any more.");
    let body = format!("{note}<p>If you expected to find a task here, ask whoever sent you the link.</p>");
    page(request, StatusCode::BAD_REQUEST, "Task", &body)
}

fn open(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let token = request.query.last_value(TOKEN).unwrap_or("").to_owned();
        if token.is_empty() {
            return Ok(page(&request, StatusCode::OK, "Task", "<p>Open the link from your mail.</p>"));
        }
        Ok(match opened(&request, token).await? {
            Some(opened) => opened.page(&request, StatusCode::OK, None, &[]),
            None => expired_page(&request),
        })
    })
}

/// Loads the task of a token's link. Returns `None` if the link does not work, which counts as a failed attempt of the address.
async fn opened(request: &Arc<Request>, token: String) -> Result<Option<OpenedLink>, Refusal> {
    match find(request, &token).await {
        Ok(_) => {}
        Err(refusal) if refusal.status == StatusCode::BAD_REQUEST => return Ok(None),
        Err(refusal) => return Err(refusal),
    }
    let shared = request.clone();
    request.build.db.read(move |conn| load(&shared, conn, token.clone())).await
}

fn load(request: &Request, conn: &mut Conn, token: String) -> Result<Option<OpenedLink>, Refusal> {
    let Some(link) = links::find(request, conn, &token)? else { return Ok(None) };
    let caller = Arc::new(Caller { narrowed_to: Some(link.task), ..as_caller(conn, link.user)? });
    let request = request.with_caller(caller.clone());
    let Some(access) = task_access::load(&request, conn, link.task)? else { return Ok(None) };
    let shown = ShownTask::load(&request, conn, &access)?;
    let answer = task::answer(&request, conn, StatusCode::OK, shown)?;
    // An answer in pieces is too large for a page.
    let mut task = match answer.body.in_memory_bytes() {
        bytes if bytes.is_empty() || bytes.len() > MAX_TASK => Json::Null,
        bytes => {
            serde_json::from_slice(bytes).map_err(|error| StoreError::internal(format_args!("a task: {error}")))?
        }
    };
    let files =
        files_of_task(conn, link.task)?.into_iter().map(|(uuid, task_file)| (uuid, task_file.file.name)).collect();
    let mut inputs = inputs::inputs_for_task(&task, &files);
    if inputs.iter().map(|input| input.choices.len()).sum::<usize>() > MAX_CHOICES {
        (task, inputs) = (Json::Null, Vec::new());
    }
    Ok(Some(OpenedLink { token, link, caller, task: without_inputs(task), inputs }))
}

/// Returns a task without the values of its inputs, because it is in memory while a form arrives.
fn without_inputs(mut task: Json) -> Json {
    if let Some(task) = task.as_object_mut() {
        task.retain(|name, _| {
            ["name", "description", "instructions", "due_at", "status", "form"].contains(&name.as_str())
        });
    }
    if let Some(form) = task.get_mut("form").and_then(Json::as_object_mut) {
        form.retain(|name, _| !["values", "labels", "approval_conditions"].contains(&name.as_str()));
        form.entry("fields").and_modify(|fields| *fields = json!([]));
        form.entry("configuration").and_modify(|configuration| {
            *configuration = json!({"instructions": configuration["instructions"]});
        });
    }
    task
}

fn send(request: Arc<Request>, body: Upload) -> HandlerFuture {
    Box::pin(async move {
        let mut form = MultipartForm::from_request(&request, body)?;
        let token = match form.next().await? {
            Some(part) if part.name() == TOKEN && !part.is_file() => form.text(part).await?,
            _ => String::new(),
        };
        let Some(opened) = opened(&request, token).await? else { return Ok(expired_page(&request)) };
        if !opened.is_open() {
            return Ok(opened.page(&request, StatusCode::BAD_REQUEST, None, &[]));
        }
        form.admit();
        let caller = Arc::new(request.with_caller(opened.caller.clone()));
        let mut typed = Typed::default();
        let outcome = match read(&caller, &mut form, &opened, &mut typed).await {
            Ok(()) => complete(&caller, &opened, &mut typed).await,
            Err(refusal) => Err(refusal),
        };
        if !matches!(outcome, Ok(Some(_))) {
            uploads::give_up(&caller, typed.tokens()).await?;
        }
        match outcome {
            Ok(Some(status)) => Ok(completed_page(&request, &status)),
            Ok(None) => Ok(opened.page(&request, StatusCode::BAD_REQUEST, Some(&typed), &[])),
            Err(refusal) => page_with_errors(&request, &opened, typed, refusal),
        }
    })
}

/// Reads the parts of the form after its token. Files become uploads of the account. Errors of a file are reported at its input.
async fn read(
    request: &Arc<Request>,
    form: &mut MultipartForm,
    opened: &OpenedLink,
    typed: &mut Typed,
) -> Result<(), Refusal> {
    let mut files = 0;
    while let Some(part) = form.next().await? {
        let name = part.name().to_owned();
        let takes_files = opened.inputs.iter().any(|input| input.name == name && input.kind.takes_files());
        if !part.is_file() {
            let text = form.text(part).await?;
            typed.add_text(&name, &text);
            continue;
        }
        let mut part = part.with_max_bytes(MAX_BYTES);
        let file_name = file_name::file_name_from_headers(part.headers()).map(|name| name.replace("%22", "\""));
        let (Some(file_name), true) = (file_name, takes_files) else {
            drain(part).await?;
            continue;
        };
        typed.had_files = true;
        files += 1;
        if files > MAX_FILES {
            typed.add_error(&name, message::too_many(MAX_FILES));
            drain(part).await?;
            continue;
        }
        // The link may have been ended since the form began.
        require_valid_link(request, opened).await?;
        match uploads::receive(request, file_name, None, &mut part).await {
            Ok(token) => typed.add_file(&name, token),
            Err(refusal) if refusal.is_by_rule() && refusal.status == StatusCode::BAD_REQUEST => {
                refusal.reason.messages().into_iter().for_each(|message| typed.add_error(&name, message));
                drain(part).await?;
            }
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// Reads and discards the rest of a part.
async fn drain(part: FormPart) -> Result<(), Refusal> {
    let mut part = part.with_max_bytes(u64::MAX);
    while Chunks::next(&mut part).await?.is_some() {}
    Ok(())
}

/// Refuses the token of a link that has ended meanwhile.
async fn require_valid_link(request: &Arc<Request>, opened: &OpenedLink) -> Result<(), Refusal> {
    let (shared, token) = (request.clone(), opened.token.clone());
    let stored_link = request.build.db.read(move |conn| links::find(&shared, conn, &token)).await?;
    if stored_link == Some(opened.link) { Ok(()) } else { Err(invalid_token()) }
}

/// Completes the task, and returns its status. Returns `None` if the form has errors.
async fn complete(request: &Arc<Request>, opened: &OpenedLink, typed: &mut Typed) -> Result<Option<String>, Refusal> {
    let allows_comment = opened.task["form"]["allow_comment"] == true;
    let Some(body) = typed.body(&opened.inputs, opened.is_update(), allows_comment) else { return Ok(None) };
    let (body, link, token) = (JsonBody::from_json(&body), opened.link, opened.token.clone());
    let completed = write(request, move |request, conn| {
        // The record, the task and the account are locked, in this order, before the last check of the link.
        let locked = task_access::lock(request, conn, link.task)?;
        sessions::may_use_link(request, conn, link.user, true)?;
        if links::find(request, conn, &token)? != Some(link) {
            return Err(invalid_token());
        }
        let body = body.as_value().as_object(|_| true).ok_or_else(|| Refusal::field(RESPONSE, message::VALUE));
        let locked = locked.ok_or_else(Refusal::not_found)?;
        Ok(acting::complete_with(request, conn, locked, body)?.status())
    });
    completed.await.map(Some)
}

/// The page of a completed task.
fn completed_page(request: &Request, status: &str) -> Answer {
    let body = match status {
        IN_APPROVAL => "<p>Thank you. Your answer waits for somebody to approve it.</p>",
        _ => "<p>Thank you. The task is completed.</p>",
    };
    page(request, StatusCode::OK, "Done", body)
}

/// The page again, with errors beside the inputs or above them. Refusals that are not errors of the form are returned.
fn page_with_errors(request: &Request, opened: &OpenedLink, mut typed: Typed, refusal: Refusal) -> Outcome {
    if !refusal.is_by_rule() || refusal.status != StatusCode::BAD_REQUEST {
        return Err(refusal);
    }
    let RefusalReason::Errors(errors) = &refusal.reason else {
        return Ok(opened.page(request, StatusCode::BAD_REQUEST, Some(&typed), &refusal.reason.messages()));
    };
    if errors.has_field(TOKEN) {
        return Ok(expired_page(request));
    }
    let mut general_messages = Vec::new();
    for (name, of_member) in errors.iter() {
        match of_member {
            FieldErrors::Nested(nested) if name == RESPONSE => {
                for (alias, of_field) in nested.iter().filter_map(fields_of_update).flatten() {
                    let input = opened.inputs.iter().find(|input| input.of == *alias);
                    of_field.messages().into_iter().for_each(|text| match input {
                        Some(input) => typed.add_error(&input.name, text),
                        None => general_messages.push(text),
                    });
                }
            }
            _ if name == COMMENT => {
                of_member.messages().into_iter().for_each(|text| typed.add_error(COMMENT, text));
            }
            _ => general_messages.extend(of_member.messages()),
        }
    }
    Ok(opened.page(request, StatusCode::BAD_REQUEST, Some(&typed), &general_messages))
}

/// The errors of the fields of an update; `None` for those of another member of a response.
fn fields_of_update<'a>(
    (name, errors): (&str, &'a FieldErrors),
) -> Option<impl Iterator<Item = (&'a str, &'a FieldErrors)>> {
    match errors {
        FieldErrors::Nested(fields) if name == "fields" => Some(fields.iter()),
        _ => None,
    }
}
