//! How tools run: as calls of this API in the name of an agent, whose answers are cut to what a model needs.

use super::arguments::{Arguments, Name, text};
use super::tools::ToolKind;
use crate::activity::notes::{self, Line};
use bytes::Bytes;
use http::{Method, StatusCode};
use kit::answer::{Answer, AnswerBody};
use kit::answer_cache;
use kit::domain::registered;
use kit::inner_call::{Admitted, Around, InnerCall, call};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::table::Table;
use resource::message;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Conn, Error, Sql};

/// What a tool answers: JSON.
pub type Ran = String;

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
    /// Until when the answer of the API behind a tool is given again ([`Answer::cacheable_until`]); 0 where that is not known.
    pub cacheable_until: AtomicI64,
}

/// The answer of a tool, and what it is about.
pub struct Told {
    /// The members of a result that hold the answer: `"content"`, as text, and `"structuredContent"`.
    pub members: Bytes,
    pub object_class: Option<i64>,
    pub record: Option<i64>,
}

/// Runs a tool.
pub async fn run(call: &Call, tool: &'static ToolKind, arguments: Arguments) -> Result<Told, Refusal> {
    let answer = (tool.run)(call, arguments).await?;
    let about: About = serde_json::from_str(&answer).map_err(broken)?;
    let object_class = call.object_class.get().copied().or(about.object_class.as_i64());
    let record = call.line.record.or(about.object_record.as_i64());
    Ok(Told { members: members(Vec::new(), &answer)?.into(), object_class, record })
}

/// Appends the members of a result that hold an answer.
fn members(mut to: Vec<u8>, answer: &str) -> Result<Vec<u8>, Refusal> {
    to.reserve(answer.len() * 5 / 2);
    to.extend_from_slice(br#""content":[{"type":"text","text":"#);
    serde_json::to_writer(&mut to, answer).map_err(broken)?;
    to.extend_from_slice(br#"}],"structuredContent":"#);
    to.extend_from_slice(answer.as_bytes());
    Ok(to)
}

/// Runs a tool that only reads. What it answered before it answers again, as long as nothing was written.
pub async fn read(call: &Call, tool: &'static ToolKind, arguments: Arguments) -> Result<Told, Refusal> {
    let (request, sent) = (Arc::new(call.as_agent()), arguments.text());
    let look = async |_| {
        let told = run(call, tool, arguments).await?;
        // What it is about stands before it.
        let mut body = Vec::with_capacity(told.members.len() + NUMBERS);
        [told.object_class, told.record].iter().for_each(|id| body.extend(id.unwrap_or(0).to_le_bytes()));
        body.extend_from_slice(&told.members);
        let until = call.cacheable_until.load(Ordering::Relaxed);
        Ok(Answer { cacheable_until: Some(until).filter(|until| *until > 0), ..Answer::json(StatusCode::OK, body) })
    };
    let shown = answer_cache::answer_call(request, ["tool", tool.name, &sent], look).await?;
    let AnswerBody::Whole(body) = shown.body else { return Err(Error::Db("an answer is no text".to_owned()).into()) };
    let numbers = body.first_chunk::<NUMBERS>().map(|numbers| numbers.as_chunks::<8>().0);
    let Some([object_class, record]) = numbers else {
        return Err(Error::Db("an answer is too short".to_owned()).into());
    };
    let number = |bytes: &[u8; 8]| Some(i64::from_le_bytes(*bytes)).filter(|id| *id > 0);
    Ok(Told { members: body.slice(NUMBERS..), object_class: number(object_class), record: number(record) })
}

/// How many bytes the ids of class and record take.
const NUMBERS: usize = 16;

/// The members of an answer that say what it is about.
#[derive(Default, Deserialize)]
#[serde(default)]
struct About {
    object_class: Json,
    object_record: Json,
}

fn broken(error: serde_json::Error) -> Refusal {
    Error::Db(format!("an answer is no JSON: {error}")).into()
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
        let limit =
            limit.ok_or_else(|| Refusal::field("limit", format!("Ensure this value is from 1 to {MAX_LIMIT}.")))?;
        let offset = offset.ok_or_else(|| Refusal::field("cursor", message::VALUE))?;
        Ok(Page { limit, offset })
    }

    /// The answer with these results, each as JSON.
    pub fn answer(&self, results: &[String], total: i64, filtered: i64) -> Ran {
        let end = self.offset + results.len() as i64;
        let next = (end < filtered && !results.is_empty()).then(|| end.to_string());
        let (results, next) = (results.join(","), json!(next));
        format!(r#"{{"results":[{results}],"total_count":{total},"filtered_count":{filtered},"next_cursor":{next}}}"#)
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

    async fn call(&self, method: Method, path: String, query: String, body: Json) -> Result<Ran, Refusal> {
        let inner = InnerCall { method, path, query, body };
        let answer = call(&self.request, &self.by, &ROUTES, inner, self.note()).await?;
        self.cacheable_until.store(answer.cacheable_until.unwrap_or(0), Ordering::Relaxed);
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(r#"{"done":true}"#.to_owned());
        }
        let text = String::from_utf8(answer.body.whole().to_vec());
        text.map_err(|error| broken(serde::de::Error::custom(error)))
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
            request.effects.after_commit(kit::jobs::wake);
            is_noted.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }

    pub async fn get(&self, path: String, query: String) -> Result<Ran, Refusal> {
        self.call(Method::GET, path, query, Json::Null).await
    }

    pub async fn options(&self, path: String) -> Result<Json, Refusal> {
        let document = self.call(Method::OPTIONS, path, String::new(), Json::Null).await?;
        serde_json::from_str(&document).map_err(broken)
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
        let answer = self.get(path, query).await?;
        let listed: Listed<'_> = serde_json::from_str(&answer).map_err(broken)?;
        let results: Result<Vec<String>, _> = listed.results.into_iter().map(shortened).collect();
        Ok(page.answer(&results.map_err(broken)?, listed.total_count, listed.filtered_count))
    }
}

/// A list of the API, whose items are taken as they are.
#[derive(Deserialize)]
struct Listed<'a> {
    total_count: i64,
    filtered_count: i64,
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

/// An item of a list without what its instance tells when it is asked for.
pub fn shortened(item: &RawValue) -> Result<String, serde_json::Error> {
    without(item, &["created_by", "modified_at", "modified_by"], |name, value| match name {
        "_meta" => without(value, &["permissions"], |_, value| Ok(value.get().to_owned())),
        _ => Ok(value.get().to_owned()),
    })
}

/// An object without the members of these names, the others as they are `shown`.
fn without(
    object: &RawValue,
    names: &[&str],
    shown: impl Fn(&str, &RawValue) -> Result<String, serde_json::Error>,
) -> Result<String, serde_json::Error> {
    let Members(members) = serde_json::from_str(object.get())?;
    let mut text = String::with_capacity(object.get().len());
    for (name, value) in members.iter().filter(|(name, _)| !names.contains(&name.as_ref())) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(&shown(name, value)?);
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    Ok(text)
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
