//! How tools run: as calls of this API in the name of an agent, whose answers are cut to what a model needs.

use super::arguments::{Arguments, Name, text};
use crate::activity::notes::{self, Line};
use http::{Method, StatusCode};
use kit::domain::registered;
use kit::inner_call::{Admitted, Around, InnerCall, call};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::table::Table;
use resource::message;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Conn, Error, Sql};

/// What a tool answers.
pub type Ran = Json;

/// How many results a list has, unless told, and at most.
const USUAL_LIMIT: i64 = 10;
const MAX_LIMIT: i64 = 100;
/// Parameters of lists that are no filters.
const NO_FILTERS: [&str; 5] = ["limit", "offset", "ordering", "search", "fields"];

/// The routes that tools call.
static ROUTES: LazyLock<Table> =
    LazyLock::new(|| Table::new(registered().iter().flat_map(|domain| (domain.routes)()).collect()));

/// A call of a tool: the request that it came with, the agent, and what is noted of it.
pub struct Call {
    pub request: Arc<Request>,
    pub by: Admitted,
    pub line: Line,
    /// The class that the call is about, once it is known.
    pub object_class: OnceLock<i64>,
    /// Whether the call was noted with what it wrote.
    pub is_noted: Arc<AtomicBool>,
}

/// A page of results that is asked for.
pub struct Page {
    pub limit: i64,
    pub offset: i64,
}

impl Page {
    pub fn of(arguments: &Arguments) -> Result<Page, Refusal> {
        let limit = arguments.get("limit").map_or(Some(USUAL_LIMIT), Json::as_i64);
        let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let offset = arguments.get("cursor").map_or(Some(0), |cursor| cursor.as_str()?.parse().ok());
        let offset = offset.filter(|offset| *offset >= 0);
        let limit = limit.ok_or_else(|| Refusal::field("limit", format!("Ensure this value is from 1 to {MAX_LIMIT}.")))?;
        let offset = offset.ok_or_else(|| Refusal::field("cursor", message::VALUE))?;
        Ok(Page { limit, offset })
    }

    /// The answer with these results.
    pub fn answer(&self, results: Vec<Json>, total: i64, filtered: i64) -> Ran {
        let end = self.offset + results.len() as i64;
        let next = (end < filtered && !results.is_empty()).then(|| end.to_string());
        json!({"results": results, "total_count": total, "filtered_count": filtered, "next_cursor": next})
    }
}

impl Call {
    /// The request with the agent as its caller, for looks into the database.
    pub fn as_agent(&self) -> Request {
        self.request.by(self.by.caller.clone())
    }

    /// Reads in one snapshot.
    pub async fn read<T: Send + 'static>(
        &self,
        script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, Refusal> {
        let request = self.as_agent();
        self.request.build.db.read(move |conn| script(&request, conn)).await
    }

    async fn call(&self, method: Method, path: String, query: String, body: Json) -> Result<Json, Refusal> {
        let inner = InnerCall { method, path, query, body };
        let answer = call(&self.request, &self.by, &ROUTES, inner, self.note()).await?;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(json!({"done": true}));
        }
        let wrong = |error: serde_json::Error| Refusal::from(Error::Db(format!("an answer is no JSON: {error}")));
        serde_json::from_slice(answer.body.whole()).map_err(wrong)
    }

    /// Notes a write in its transaction.
    fn note(&self) -> Around {
        let (line, is_noted) = (self.line.clone(), self.is_noted.clone());
        Arc::new(move |request, conn, handler| {
            // What is deleted is looked at before.
            let before = match request.path.strip_prefix("/api/tasks/") {
                Some(_) => record_of_task(conn, request.id())?,
                None => line.record,
            };
            let class = class_of_record(conn, before)?;
            let answer = handler(request, conn)?;
            let shown: Json = serde_json::from_slice(answer.body.whole()).unwrap_or_default();
            let of_new = if line.tool == "create_record" { &shown["id"] } else { &shown["object_record"] };
            let record = before.or(of_new.as_i64());
            let object_class = class.or(shown["object_class"].as_i64()).or(class_of_record(conn, record)?);
            notes::note_write(conn, &Line { record, object_class, ..line.clone() })?;
            request.effects.after_commit(|app, build| kit::jobs::wake(app, build));
            is_noted.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }

    pub async fn get(&self, path: String, query: String) -> Result<Ran, Refusal> {
        self.call(Method::GET, path, query, Json::Null).await
    }

    pub async fn options(&self, path: String) -> Result<Ran, Refusal> {
        self.call(Method::OPTIONS, path, String::new(), Json::Null).await
    }

    pub async fn send(&self, method: Method, path: String, body: Json) -> Result<Ran, Refusal> {
        self.call(method, path, String::new(), body).await
    }

    pub async fn delete(&self, path: String) -> Result<Ran, Refusal> {
        self.call(Method::DELETE, path, String::new(), Json::Null).await
    }

    /// A page of a list, filtered by `filters`, with these parameters besides.
    pub async fn list(&self, path: String, arguments: &mut Arguments, names: &[Name]) -> Result<Ran, Refusal> {
        let page = Page::of(arguments)?;
        let query = {
            let mut query = form_urlencoded::Serializer::new(arguments.query(names));
            query.append_pair("limit", &page.limit.to_string()).append_pair("offset", &page.offset.to_string());
            for (name, value) in filters(arguments)? {
                query.append_pair(name, &text(value));
            }
            query.finish()
        };
        let mut answer = self.get(path, query).await?;
        let count = |name: &str| answer[name].as_i64().unwrap_or(0);
        let (total, filtered) = (count("total_count"), count("filtered_count"));
        let Json::Array(mut results) = answer["results"].take() else { return Ok(page.answer(Vec::new(), total, filtered)) };
        results.iter_mut().for_each(shorten);
        Ok(page.answer(results, total, filtered))
    }
}

fn record_of_task(conn: &mut Conn, task: i64) -> Result<Option<i64>, Error> {
    let sql = Sql::new("SELECT record FROM tasks WHERE id = $1").arg(task);
    Ok(conn.opt(&sql, |row| row.opt_int(0))?.flatten())
}

fn class_of_record(conn: &mut Conn, record: Option<i64>) -> Result<Option<i64>, Error> {
    let Some(record) = record else { return Ok(None) };
    conn.opt(&Sql::new("SELECT class_id FROM records WHERE id = $1").arg(record), |row| row.int(0))
}

/// The filters that were sent.
pub fn filters(arguments: &Arguments) -> Result<Vec<(&str, &Json)>, Refusal> {
    let Some(sent) = arguments.get("filters") else { return Ok(Vec::new()) };
    let wrong = || Refusal::field("filters", "Expected an object of `field__operator` and value.");
    let filters = sent.as_object().ok_or_else(wrong)?;
    match filters.keys().find(|name| NO_FILTERS.contains(&name.as_str())) {
        Some(name) => Err(Refusal::field("filters", format!("`{name}` is an argument beside `filters`."))),
        None => Ok(filters.iter().map(|(name, value)| (name.as_str(), value)).collect()),
    }
}

/// Leaves out of an item of a list what its instance tells when it is asked for.
fn shorten(item: &mut Json) {
    let Some(item) = item.as_object_mut() else { return };
    ["created_by", "modified_at", "modified_by"].iter().for_each(|name| drop(item.shift_remove(*name)));
    if let Some(meta) = item.get_mut("_meta").and_then(Json::as_object_mut) {
        meta.shift_remove("permissions");
    }
}
