//! How tools run: as calls of this API in the name of an agent, whose answers are cut to what a model needs.

use super::arguments::{ArgumentName, Arguments};
use super::pages::{MAX_ANSWER, ToolPage, invalid_answer_refusal, too_long};
use super::tools::ToolKind;
use crate::activity::notes::{self, ActivityLine};
use bytes::Bytes;
use http::{Method, StatusCode};
use kit::answer::{Answer, AnswerBody};
use kit::answer_cache;
use kit::domain::registered;
use kit::inner_call::{AdmittedCaller, InnerCall, WriteWrapper, call};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::table::Table;
use kit::work_on;
use resource::JsonBody;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Conn, Sql, StoreError};

/// What a tool answers: JSON.
pub type AnswerJson = String;

/// The longest arguments of a tool that only reads, in bytes. They become parameters, of which requests have no more either.
const MAX_ASKED: usize = 64 * 1024;

/// The routes that tools call.
static ROUTES: LazyLock<Table> =
    LazyLock::new(|| Table::new(registered().iter().flat_map(|domain| (domain.routes)()).collect()));

/// A call of a tool: the request that it came with, the agent, and what is noted of it.
pub struct ToolRun {
    pub request: Arc<Request>,
    pub by: AdmittedCaller,
    pub line: ActivityLine,
    /// The class that the call is about, once it is known.
    pub object_class: OnceLock<i64>,
    /// Whether the call was noted with what it wrote.
    pub is_noted: Arc<AtomicBool>,
    /// Whether the connector did not offer the tool any more when its write was to take effect.
    pub is_withdrawn: Arc<AtomicBool>,
    /// Until when the answer of the API behind a tool is given again ([`Answer::cacheable_until`]); 0 where that is not known.
    pub cacheable_until: AtomicI64,
}

/// The answer of a tool, and what it is about.
pub struct ToolAnswer {
    /// The members of a result that hold the answer: `"content"`, as text, and `"structuredContent"`.
    pub members: Bytes,
    pub object_class: Option<i64>,
    pub record: Option<i64>,
}

/// Runs a tool.
pub async fn run(call: &ToolRun, tool: &'static ToolKind, arguments: &Arguments) -> Result<ToolAnswer, Refusal> {
    let answer = (tool.run)(call, arguments).await?;
    let about: ToolSubject = serde_json::from_str(&answer).map_err(invalid_answer_refusal)?;
    let object_class = call.object_class.get().copied().or(about.object_class.as_i64());
    let record = call.line.record.or(about.object_record.as_i64());
    Ok(ToolAnswer { members: members(Vec::new(), &answer)?.into(), object_class, record })
}

/// Appends the members of a result that hold an answer.
fn members(mut to: Vec<u8>, answer: &str) -> Result<Vec<u8>, Refusal> {
    to.reserve(answer.len() * 5 / 2);
    to.extend_from_slice(br#""content":[{"type":"text","text":"#);
    serde_json::to_writer(&mut to, answer).map_err(invalid_answer_refusal)?;
    to.extend_from_slice(br#"}],"structuredContent":"#);
    to.extend_from_slice(answer.as_bytes());
    Ok(to)
}

/// Runs a tool that only reads. What it answered before it answers again, as long as nothing was written.
pub async fn read(call: &ToolRun, tool: &'static ToolKind, arguments: &Arguments) -> Result<ToolAnswer, Refusal> {
    let (request, sent) = (Arc::new(call.as_agent()), arguments.text());
    if sent.len() > MAX_ASKED {
        return Err(Refusal::bad_request("The arguments are too long: together they may have 64 KiB."));
    }
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
    let AnswerBody::Whole(body) = shown.body else {
        return Err(StoreError::Db("an answer is no text".to_owned()).into());
    };
    let numbers = body.first_chunk::<NUMBERS>().map(|numbers| numbers.as_chunks::<8>().0);
    let Some([object_class, record]) = numbers else {
        return Err(StoreError::Db("an answer is too short".to_owned()).into());
    };
    let number = |bytes: &[u8; 8]| Some(i64::from_le_bytes(*bytes)).filter(|id| *id > 0);
    Ok(ToolAnswer { members: body.slice(NUMBERS..), object_class: number(object_class), record: number(record) })
}

/// How many bytes the ids of class and record take.
const NUMBERS: usize = 16;

/// The members of an answer that say what it is about.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolSubject {
    id: Json,
    object_class: Json,
    object_record: Json,
}

impl ToolSubject {
    fn from_answer(answer: &[u8]) -> ToolSubject {
        serde_json::from_slice(answer).unwrap_or_default()
    }
}

impl ToolRun {
    /// The request with the agent as its caller, for looks into the database.
    pub fn as_agent(&self) -> Request {
        self.request.with_caller(self.by.caller.clone())
    }

    /// Reads in one snapshot.
    pub async fn read<T: Send + 'static>(
        &self,
        script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, Refusal> {
        let request = self.as_agent();
        self.request.build.db.read(move |conn| script(&request, conn)).await
    }

    async fn answer(&self, method: Method, path: String, query: String, body: JsonBody) -> Result<Answer, Refusal> {
        let inner = InnerCall { method, path, query, body };
        let answer = call(&self.request, &self.by, &ROUTES, inner, self.record_write()).await?;
        self.cacheable_until.store(answer.cacheable_until.unwrap_or(0), Ordering::Relaxed);
        Ok(answer)
    }

    /// Reads what a model has use for; refuses what is longer.
    pub async fn get(&self, path: String, query: String) -> Result<AnswerJson, Refusal> {
        let answer = self.answer(Method::GET, path, query, JsonBody::from_json(&Json::Null)).await?;
        let body = answer.body.into_bytes(MAX_ANSWER).await.map_err(unfinished_answer)?;
        text(body.ok_or_else(too_long)?)
    }

    /// Writes, and answers what came of it. What is committed is never told as refused, however long the answer is.
    pub async fn send(&self, method: Method, path: String, body: JsonBody) -> Result<AnswerJson, Refusal> {
        let answer = self.answer(method, path, String::new(), body).await?;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(r#"{"done":true}"#.to_owned());
        }
        let whole = match &answer.body {
            AnswerBody::Whole(bytes) => bytes.clone(),
            _ => Bytes::new(),
        };
        if let Ok(Some(body)) = answer.body.into_bytes(MAX_ANSWER).await {
            return text(body);
        }
        let about =
            work_on(&self.request.app, whole.len(), move || ToolSubject::from_answer(&whole)).await.unwrap_or_default();
        let mut told = json!({"left_out": "It was done. What it is now is too long to be told as a whole."});
        let known = [("id", about.id), ("object_class", about.object_class), ("object_record", about.object_record)];
        for (name, value) in known.into_iter().filter(|(_, value)| value.is_number()) {
            told[name] = value;
        }
        Ok(told.to_string())
    }

    pub async fn delete(&self, path: String) -> Result<AnswerJson, Refusal> {
        self.send(Method::DELETE, path, JsonBody::from_json(&Json::Null)).await
    }

    /// Notes a write in its transaction.
    fn record_write(&self) -> WriteWrapper {
        let (line, is_noted, is_withdrawn) = (self.line.clone(), self.is_noted.clone(), self.is_withdrawn.clone());
        Arc::new(move |request, conn, handler| {
            // What is deleted is looked at before.
            let before = match request.path.strip_prefix("/api/tasks/") {
                Some(_) => record_of_task(conn, request.id())?,
                None => line.record,
            };
            let class = class_of_record(conn, before)?;
            let answer = handler(request, conn)?;
            // Behind the write, which may have waited while an administrator took the tool away.
            is_withdrawn.store(!offers(conn, &line)?, Ordering::Relaxed);
            if is_withdrawn.load(Ordering::Relaxed) {
                return Err(Refusal::forbidden());
            }
            let shown = ToolSubject::from_answer(answer.body.in_memory_bytes());
            let of_new = if line.tool == "create_record" { shown.id } else { shown.object_record };
            let record = before.or(of_new.as_i64());
            let object_class = class.or(shown.object_class.as_i64()).or(class_of_record(conn, record)?);
            notes::note_write(conn, &ActivityLine { record, object_class, ..line.clone() })?;
            request.effects.after_commit(kit::jobs::wake);
            is_noted.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }

    /// A page of a list, filtered by `filters`, with these parameters besides.
    pub async fn list(
        &self,
        path: String,
        arguments: &Arguments,
        names: &[ArgumentName],
    ) -> Result<AnswerJson, Refusal> {
        let page = ToolPage::from_arguments(arguments)?;
        let query = {
            let mut query = form_urlencoded::Serializer::new(arguments.query(names));
            query.append_pair("limit", &page.limit.to_string()).append_pair("offset", &page.offset.to_string());
            query.extend_pairs(arguments.filters()?);
            query.finish()
        };
        let answer = self.answer(Method::GET, path, query, JsonBody::from_json(&Json::Null)).await?;
        let AnswerBody::Whole(list) = answer.body else {
            return Err(StoreError::Db("a list is no text".to_owned()).into());
        };
        // The request has reserved the memory of the page, which may be much longer than what is told of it.
        let cut = work_on(&self.request.app, list.len(), move || page.page_from_list(&list));
        cut.await.map_err(|error| StoreError::Db(error.to_string()))?
    }

    /// A page of a list whose filters are the same for all, of which others are refused: the API ignores parameters that it does not
    /// know, and an agent would take the answer for that of its question.
    pub async fn list_checked(
        &self,
        path: String,
        arguments: &Arguments,
        names: &[ArgumentName],
    ) -> Result<AnswerJson, Refusal> {
        match arguments.filters()?.into_iter().find(|(name, _)| !has_parameter(&path, name)) {
            Some((unknown, _)) => Err(filter_refusal(&unknown, "The tool's description names those that there are.")),
            None => self.list(path, arguments, names).await,
        }
    }
}

/// The refusal of a filter.
pub fn filter_refusal(unknown: &str, advice: &str) -> Refusal {
    let unknown: String = unknown.chars().take(100).collect();
    Refusal::field("filters", format!("There is no filter {unknown}. {advice}"))
}

/// The parameters that routes declare for their lists, by their paths.
static PARAMETERS: LazyLock<HashMap<&'static str, HashSet<String>>> = LazyLock::new(|| {
    let names = |route: &Route| -> Option<HashSet<String>> {
        let declared = (route.parameters?)();
        Some(declared.iter().filter_map(|parameter| parameter["name"].as_str()).map(str::to_owned).collect())
    };
    let lists = ROUTES.routes().filter(|route| route.method == Method::GET);
    lists.filter_map(|route| Some((route.path, names(route)?))).collect()
});

/// Whether a list has a parameter.
fn has_parameter(path: &str, name: &str) -> bool {
    let found = ROUTES.find(path);
    let known = found.and_then(|found| PARAMETERS.get(found.routes.first()?.path));
    known.is_some_and(|known| known.contains(name.strip_suffix("__exact").unwrap_or(name)))
}

fn unfinished_answer(error: std::io::Error) -> Refusal {
    StoreError::Db(format!("an answer could not be made: {error}")).into()
}

fn text(body: Bytes) -> Result<AnswerJson, Refusal> {
    String::from_utf8(body.into()).map_err(|error| invalid_answer_refusal(serde::de::Error::custom(error)))
}

/// Whether the connector of a call offers its tool now.
fn offers(conn: &mut Conn, line: &ActivityLine) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT allowed_tools FROM mcp_connectors WHERE id = $1").arg(line.connector);
    let offered = conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?.unwrap_or_default();
    let offered: Vec<&str> = serde_json::from_str(&offered).unwrap_or_default();
    Ok(offered.contains(&line.tool))
}

fn record_of_task(conn: &mut Conn, task: i64) -> Result<Option<i64>, StoreError> {
    let sql = Sql::new("SELECT record FROM tasks WHERE id = $1").arg(task);
    Ok(conn.query_optional(&sql, |row| row.opt_int(0))?.flatten())
}

fn class_of_record(conn: &mut Conn, record: Option<i64>) -> Result<Option<i64>, StoreError> {
    let Some(record) = record else { return Ok(None) };
    conn.query_optional(&Sql::new("SELECT class_id FROM records WHERE id = $1").arg(record), |row| row.int(0))
}
