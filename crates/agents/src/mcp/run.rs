//! Runs tools: as calls of this API in the name of an agent, whose answers are shortened for a model.

use super::arguments::{ArgumentName, Arguments, ListFilter};
use super::pages::{ApiList, MAX_ANSWER, ToolPage, invalid_answer_refusal, too_long};
use super::tools::{ToolKind, ToolSubject};
use crate::activity::notes::{self, ActivityLine};
use bytes::Bytes;
use http::{Method, StatusCode};
use kit::answer::{Answer, AnswerBody, AnswerSubject};
use kit::answer_cache;
use kit::domain::registered;
use kit::ids::{ClassId, RecordId, TaskId};
use kit::inner_call::{AdmittedCaller, InnerCall, WriteWrapper, call};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::table::Table;
use kit::work_on;
use resource::JsonBody;
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Conn, Sql, StoreError};

/// The maximum length of the arguments of a tool that only reads, in bytes. They become parameters, whose bound is the same.
const MAX_READ_ARGUMENTS: usize = 64 * 1024;

/// The routes that tools call.
static ROUTES: LazyLock<Table> =
    LazyLock::new(|| Table::new(registered().iter().flat_map(|domain| (domain.routes)()).collect()));

/// A call of a tool that runs: the request, the agent, and the line of the activity log.
pub struct ToolRun {
    pub request: Arc<Request>,
    pub by: AdmittedCaller,
    pub tool: &'static ToolKind,
    /// The line of the call, without its class and its outcome.
    pub line: ActivityLine,
    /// The class that the arguments name, once it is loaded.
    pub object_class: OnceLock<ClassId>,
    /// Is true once the transaction of the write has stored the line.
    pub is_noted: Arc<AtomicBool>,
    /// Is true if the connector did not offer the tool any more when the write was to take effect.
    pub is_withdrawn: Arc<AtomicBool>,
}

/// The JSON that a tool returns.
pub struct ToolOutput {
    pub json: Bytes,
    /// The object that the answer of the API shows.
    pub subject: Option<AnswerSubject>,
    /// The validity of the answer of the API ([`Answer::cacheable_until`]); `None`: the output is not cached.
    pub cacheable_until: Option<i64>,
}

impl ToolOutput {
    /// An output that is not cached, and that shows no single object.
    pub fn uncached(json: impl Into<Bytes>) -> ToolOutput {
        ToolOutput { json: json.into(), subject: None, cacheable_until: None }
    }
}

/// A list that the API answers, with the subject and the validity of the answer.
pub struct ReadList {
    pub list: ApiList,
    subject: Option<AnswerSubject>,
    cacheable_until: Option<i64>,
}

/// The answer of a tool, as it is sent and cached.
pub struct ToolAnswer {
    /// The members `"content"`, as text, and `"structuredContent"` of a result.
    pub members: Bytes,
    /// The object of the call, for the activity log.
    pub subject: Option<AnswerSubject>,
    cacheable_until: Option<i64>,
}

/// Runs a tool.
pub async fn run(call: &ToolRun, arguments: &Arguments) -> Result<ToolAnswer, Refusal> {
    let ToolOutput { json, subject, cacheable_until } = (call.tool.run)(call, arguments).await?;
    let subject = subject.or_else(|| call.named_subject());
    Ok(ToolAnswer { members: result_members(&json)?, subject, cacheable_until })
}

/// The members of a result with this JSON.
fn result_members(json: &[u8]) -> Result<Bytes, Refusal> {
    let text = str::from_utf8(json).map_err(|error| invalid_answer_refusal(serde::de::Error::custom(error)))?;
    let mut members = Vec::with_capacity(json.len() * 5 / 2);
    members.extend_from_slice(br#""content":[{"type":"text","text":"#);
    serde_json::to_writer(&mut members, text).map_err(invalid_answer_refusal)?;
    members.extend_from_slice(br#"}],"structuredContent":"#);
    members.extend_from_slice(json);
    Ok(members.into())
}

/// Runs a tool that only reads, or returns its cached answer if nothing was written since.
pub async fn read(call: &ToolRun, arguments: &Arguments) -> Result<ToolAnswer, Refusal> {
    let (request, text) = (Arc::new(call.as_agent()), arguments.text());
    if text.len() > MAX_READ_ARGUMENTS {
        return Err(Refusal::bad_request("The arguments are too long: together they may have 64 KiB."));
    }
    let run_uncached = async |_| {
        let ToolAnswer { members, subject, cacheable_until } = run(call, arguments).await?;
        Ok(Answer { subject, cacheable_until, ..Answer::json(StatusCode::OK, members) })
    };
    let answer = answer_cache::answer_call(request, ["tool", call.tool.name, &text], run_uncached).await?;
    let AnswerBody::Whole(members) = answer.body else {
        return Err(StoreError::internal("an answer is no text").into());
    };
    Ok(ToolAnswer { members, subject: answer.subject, cacheable_until: answer.cacheable_until })
}

impl ToolRun {
    /// The request with the agent as its caller, for reads of the database.
    pub fn as_agent(&self) -> Request {
        self.request.with_caller(self.by.caller.clone())
    }

    /// The object that the arguments name, as far as it is known.
    pub fn named_subject(&self) -> Option<AnswerSubject> {
        let class = self.object_class.get().copied();
        match self.line.record {
            Some(id) => Some(AnswerSubject::Record { id, class }),
            None => class.map(AnswerSubject::Class),
        }
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
        call(&self.request, &self.by, &ROUTES, inner, self.note_write()).await
    }

    /// Sends GET. Refuses an answer above [`MAX_ANSWER`].
    pub async fn get(&self, path: String, query: String) -> Result<ToolOutput, Refusal> {
        let answer = self.answer(Method::GET, path, query, JsonBody::from_json(&Json::Null)).await?;
        let json = answer.body.into_bytes(MAX_ANSWER).await.map_err(unfinished_answer)?.ok_or_else(too_long)?;
        Ok(ToolOutput { json, subject: answer.subject, cacheable_until: answer.cacheable_until })
    }

    /// Sends a write and returns its answer. A committed write is never refused: a long answer is replaced by the ids in it.
    pub async fn send(&self, method: Method, path: String, body: JsonBody) -> Result<ToolOutput, Refusal> {
        let answer = self.answer(method, path, String::new(), body).await?;
        let subject = answer.subject;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(ToolOutput::uncached(r#"{"done":true}"#));
        }
        let json = match answer.body.into_bytes(MAX_ANSWER).await {
            Ok(Some(json)) => json,
            Ok(None) | Err(_) => long_answer(subject),
        };
        Ok(ToolOutput { subject, ..ToolOutput::uncached(json) })
    }

    pub async fn delete(&self, path: String) -> Result<ToolOutput, Refusal> {
        self.send(Method::DELETE, path, JsonBody::from_json(&Json::Null)).await
    }

    /// Stores the line of a write in the transaction of the write.
    fn note_write(&self) -> WriteWrapper {
        let (line, tool) = (self.line.clone(), self.tool);
        let (is_noted, is_withdrawn) = (self.is_noted.clone(), self.is_withdrawn.clone());
        Arc::new(move |request, conn, handler| {
            // A deletion removes the record, so its class is read before.
            let named_record = match tool.subject {
                ToolSubject::Record => line.record,
                ToolSubject::Task => load_record_of_task(conn, request.id())?,
                ToolSubject::Nothing | ToolSubject::Class | ToolSubject::NewRecord | ToolSubject::NewTask => None,
            };
            let named_class = load_class_of_record(conn, named_record)?;
            let answer = handler(request, conn)?;
            // The write may have waited while an administrator withdrew the tool, so this is checked after it.
            is_withdrawn.store(!offers(conn, &line)?, Ordering::Relaxed);
            if is_withdrawn.load(Ordering::Relaxed) {
                return Err(Refusal::forbidden());
            }
            let record = named_record.or(answer.subject.and_then(AnswerSubject::record));
            let object_class = match named_class.or(answer.subject.and_then(AnswerSubject::object_class)) {
                Some(class) => Some(class),
                None => load_class_of_record(conn, record)?,
            };
            notes::note_write(conn, &ActivityLine { record, object_class, ..line.clone() })?;
            request.effects.after_commit(kit::jobs::wake);
            is_noted.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }

    /// A page of a list, restricted by the argument `filters`, with the parameters `names`.
    pub async fn list(
        &self,
        path: String,
        arguments: &Arguments,
        names: &[ArgumentName],
    ) -> Result<ToolOutput, Refusal> {
        let page = ToolPage::from_arguments(arguments)?;
        let query = {
            let mut query = form_urlencoded::Serializer::new(arguments.query(names));
            query.append_pair("limit", &page.limit.to_string()).append_pair("offset", &page.offset.to_string());
            query.extend_pairs(arguments.filters()?.into_iter().map(|ListFilter { name, value }| (name, value)));
            query.finish()
        };
        let ReadList { list, subject, cacheable_until } = self.get_list(path, query).await?;
        // The request has reserved the memory of the list, which may be much longer than the page.
        let page = work_on(&self.request.app, list.body.len(), move || page.page_from_list(&list)).await;
        Ok(ToolOutput { json: page??, subject, cacheable_until })
    }

    /// Sends GET to a list.
    pub async fn get_list(&self, path: String, query: String) -> Result<ReadList, Refusal> {
        let answer = self.answer(Method::GET, path, query, JsonBody::from_json(&Json::Null)).await?;
        let (AnswerBody::Whole(body), Some(listed)) = (answer.body, answer.listed) else {
            return Err(StoreError::internal("an answer is no list").into());
        };
        let list = ApiList { listed, body };
        Ok(ReadList { list, subject: answer.subject, cacheable_until: answer.cacheable_until })
    }

    /// A page of a list whose route declares all filters. Other filters are refused: the API ignores unknown parameters, and an
    /// agent would misread the unfiltered answer.
    pub async fn list_checked(
        &self,
        path: String,
        arguments: &Arguments,
        names: &[ArgumentName],
    ) -> Result<ToolOutput, Refusal> {
        match arguments.filters()?.into_iter().find(|filter| !has_parameter(&path, &filter.name)) {
            Some(unknown) => Err(filter_refusal(&unknown.name, "The tool's description names those that there are.")),
            None => self.list(path, arguments, names).await,
        }
    }
}

/// The output of a committed write whose answer is above [`MAX_ANSWER`]: the ids of the object.
fn long_answer(subject: Option<AnswerSubject>) -> Bytes {
    let mut json = json!({"left_out": "It was done. What it is now is too long to be told as a whole."});
    let ids = match subject {
        Some(AnswerSubject::Record { id, class }) => {
            [("id", Some(id.get())), ("object_class", class.map(ClassId::get))]
        }
        Some(AnswerSubject::Task { id, record }) => {
            [("id", Some(id.get())), ("object_record", record.map(RecordId::get))]
        }
        Some(AnswerSubject::Class(id)) => [("id", Some(id.get())), ("object_class", None)],
        None => [("id", None), ("object_class", None)],
    };
    for (name, id) in ids {
        if let Some(id) = id {
            json[name] = id.into();
        }
    }
    json.to_string().into()
}

/// The refusal of an unknown filter.
pub fn filter_refusal(unknown: &str, advice: &str) -> Refusal {
    let unknown: String = unknown.chars().take(100).collect();
    Refusal::field("filters", format!("There is no filter {unknown}. {advice}"))
}

/// The parameters that routes declare for their lists, by path.
static PARAMETERS: LazyLock<HashMap<&'static str, HashSet<String>>> = LazyLock::new(|| {
    let names = |route: &Route| -> Option<HashSet<String>> {
        let declared = (route.parameters?)();
        Some(declared.iter().filter_map(|parameter| parameter["name"].as_str()).map(str::to_owned).collect())
    };
    let lists = ROUTES.routes().filter(|route| route.method == Method::GET);
    lists.filter_map(|route| Some((route.path, names(route)?))).collect()
});

/// Returns whether the list of a path declares a parameter.
fn has_parameter(path: &str, name: &str) -> bool {
    let matched = ROUTES.find(path);
    let parameters = matched.and_then(|matched| PARAMETERS.get(matched.routes.first()?.path));
    parameters.is_some_and(|parameters| parameters.contains(name.strip_suffix("__exact").unwrap_or(name)))
}

fn unfinished_answer(error: std::io::Error) -> Refusal {
    StoreError::internal(format_args!("an answer could not be made: {error}")).into()
}

/// Returns whether the connector of a call offers its tool now.
fn offers(conn: &mut Conn, line: &ActivityLine) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT allowed_tools FROM mcp_connectors WHERE id = $1").arg(line.connector);
    let allows = conn.query_optional(&sql, |row| Ok(row.json::<Vec<&str>>(0)?.contains(&line.tool)))?;
    Ok(allows.unwrap_or(false))
}

fn load_record_of_task(conn: &mut Conn, task: TaskId) -> Result<Option<RecordId>, StoreError> {
    let sql = Sql::new("SELECT record FROM tasks WHERE id = $1").arg(task);
    Ok(conn.query_optional(&sql, |row| row.opt_id(0))?.flatten())
}

fn load_class_of_record(conn: &mut Conn, record: Option<RecordId>) -> Result<Option<ClassId>, StoreError> {
    let Some(record) = record else { return Ok(None) };
    conn.query_optional(&Sql::new("SELECT class_id FROM records WHERE id = $1").arg(record), |row| row.id(0))
}
