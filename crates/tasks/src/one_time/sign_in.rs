//! Exchanges the token of a link for a session that is restricted to the task: `POST /api/auth/task/`
//! (`docs/reference/task-links.md`).

use super::links::{self, TaskLink};
use identity::attempts::{self, AddressAttempt, check_address, count_failure};
use identity::sessions;
use kit::answer::Answer;
use kit::commit::write;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{filled_text, object, titled};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::Conn;

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/auth/task/", "Sign in by the link to a task", Handler::Async(sign_in))
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Json(|| titled("TaskLink", object([("token", filled_text())]))))
            .answers(200, Schema::Json(tokens_schema))
            .answers_secret(),
    ]
}

fn tokens_schema() -> Json {
    let mut schema = sessions::tokens_schema();
    schema["title"] = "TaskTokens".into();
    schema["properties"]["task"] =
        json!({"type": "integer", "description": "The id of the task to which the session is narrowed"});
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("task".into());
    }
    schema
}

fn sign_in(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let [token] = request.texts(["token"])?;
        find(&request, &token).await?;
        let tokens = write(&request, move |request, conn| begin(request, conn, &token)).await?;
        Ok(Answer::value(&tokens))
    })
}

/// Returns the link of a token. A link that does not work counts as a failed attempt of the address.
pub async fn find(request: &Arc<Request>, token: &str) -> Result<TaskLink, Refusal> {
    let mut attempt = AddressAttempt::begin(request)?;
    let (shared, token) = (request.clone(), token.to_owned());
    let look = move |conn: &mut Conn| {
        check_address(&shared, conn)?;
        Ok::<_, Refusal>(links::find(&shared, conn, &token)?)
    };
    let page_link = request.build.db.read(look).await?;
    attempt.check()?;
    if let Some(link) = page_link {
        return Ok(link);
    }
    attempt.count_as_failed();
    write(request, |request, conn| {
        check_address(request, conn)?;
        Ok(count_failure(request, conn)?)
    })
    .await?;
    Err(invalid_token())
}

fn begin(request: &Request, conn: &mut Conn, token: &str) -> Result<Json, Refusal> {
    check_address(request, conn)?;
    let link = links::find_for_change(request, conn, token)?.ok_or_else(invalid_token)?;
    let mut tokens = sessions::begin_by_link(request, conn, link.user, link.task)?;
    tokens["task"] = link.task.into();
    Ok(tokens)
}

pub fn invalid_token() -> Refusal {
    Refusal::field("token", "Invalid token.")
}
