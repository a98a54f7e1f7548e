//! The history of a record: `/api/object-records/{id}/history/` (`docs/reference/history.md`).

use super::held;
use events::record_history::{HISTORY_EVENT, history_of_record, parameters};
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::options;
use std::sync::Arc;
use store::Conn;

pub fn routes() -> Vec<Route> {
    let path = "/api/object-records/{record_id}/history/";
    let handler = Handler::Async(|request| Box::pin(history(request)));
    let list = Route::new(Method::GET, path, "History", handler)
        .answers(200, Schema::Page(&HISTORY_EVENT))
        .parameters(parameters)
        .instance("object_records.view")
        .action("list");
    vec![list, Route::options_below(path, document).reads(document)]
}

/// The document of the list, for whoever may view the record.
fn document(request: &Request, conn: &mut Conn) -> Outcome {
    held::of_path(request, conn)?;
    Ok(Answer::value(&options::document(&HISTORY_EVENT)))
}

/// The history of a record that the caller may view. That of a deleted one is for super admins, who learn from it whether
/// there ever was a record of this id.
async fn history(request: Arc<Request>) -> Outcome {
    let shared = request.clone();
    let look = move |conn: &mut Conn| Ok::<_, Refusal>(held::of_record(&shared, conn, shared.id())?.is_some());
    let is_there = request.build.db.read(look).await?;
    if !is_there && !request.caller()?.is_super() {
        return Err(Refusal::not_found());
    }
    let history = history_of_record(&request, request.id()).await?;
    if is_there || history.total_count > 0 { Ok(history.answer) } else { Err(Refusal::not_found()) }
}
