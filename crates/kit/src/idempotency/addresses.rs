//! The addresses of the object that an answer shows: where it is read, and where the right to view it is checked.

use crate::answer::AnswerSubject;
use crate::route::Route;
use crate::table::Table;
use http::Method;
use serde_json::{Value as Json, json};

/// The addresses of the object that an answer shows.
pub struct AnswerAddresses {
    /// The address at which the object is read; `None` if it has none.
    pub object: Option<String>,
    /// The address of the record or the task that the answer shows, or to which the object belongs.
    pub guard: Option<String>,
    /// `{"id": …}` or `{"uuid": …}`; empty if the answer names none.
    pub reference: Json,
}

/// Finds the addresses of the object of an answer to a POST. Candidates are the subject of the answer, the id in the answer below
/// the path of the request, and the objects whose addresses begin the path.
pub fn addresses(table: &Table, path: &str, subject: Option<AnswerSubject>, answer: &Json) -> AnswerAddresses {
    let collection = format!("{}/", path.strip_suffix('/').unwrap_or(path));
    let id = ["id", "uuid"].into_iter().find_map(|name| Some((name, answer.get(name)?)));
    let id_text = |id: &Json| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let below = id.map(|(_, id)| format!("{collection}{}/", id_text(id)));
    let above = collection.match_indices('/').rev().skip(1).map(|(end, _)| collection[..=end].to_owned());
    let candidates: Vec<String> =
        subject.and_then(AnswerSubject::address).into_iter().chain(below).chain(above).collect();
    let first = |is_wanted: fn(&Route) -> bool| {
        let is_read = |address: &&String| {
            let matched = table.find(address);
            matched
                .is_some_and(|found| found.routes.iter().any(|route| route.method == Method::GET && is_wanted(route)))
        };
        candidates.iter().find(is_read).cloned()
    };
    let (object, guard) = (first(Route::is_instance), first(|route| route.guards_replays));
    let last_number = || {
        let last = object.as_deref()?.trim_end_matches('/').rsplit('/').next()?;
        last.parse::<i64>().ok().map(|id| json!({"id": id}))
    };
    let reference = match id {
        Some((name, id)) => json!({name: id}),
        None => last_number().unwrap_or_else(|| json!({})),
    };
    AnswerAddresses { object, guard, reference }
}
