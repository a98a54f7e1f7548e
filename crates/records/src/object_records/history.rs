//! The history of a record: `/api/object-records/{id}/history/` (`docs/reference/history.md`).

use super::{history_for_agent, record_access};
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
    vec![list, Route::options_below(path, document).with_read(document)]
}

/// Returns the schema document of the list to callers who may view the record.
fn document(request: &Request, conn: &mut Conn) -> Outcome {
    record_access::load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&HISTORY_EVENT)))
}

/// Returns the history of a record that the caller may view. The history of a deleted record is for super admins only, because it
/// reveals whether a record of this id existed.
async fn history(request: Arc<Request>) -> Outcome {
    let shared = request.clone();
    let look = move |conn: &mut Conn| record_access::load_record_access(&shared, conn, shared.id());
    let access = request.build.db.read::<_, Refusal>(look).await?;
    let is_there = access.is_some();
    if let Some(record) = access.filter(|_| request.caller.as_ref().is_some_and(|caller| caller.agent.is_some())) {
        return history_for_agent::history(&request, record).await;
    }
    if !is_there && !request.caller()?.is_super() {
        return Err(Refusal::not_found());
    }
    let history = history_of_record(&request, request.id()).await?;
    if is_there || history.total_count > 0 { Ok(history.answer) } else { Err(Refusal::not_found()) }
}
