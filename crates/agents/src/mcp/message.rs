//! Messages of the protocol as they are sent. The arguments of a tool, which may be long, are kept as text and never come to the library,
//! which makes trees of values of all that it is given.

use super::arguments::Arguments;
use super::tools::{self, ToolKind};
use http::StatusCode;
use kit::answer::Answer;
use resource::{Body, Object, Sent};
use rmcp::model::{
    ErrorData, GetPromptRequestParams, InitializeRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

/// The longest message without the arguments of its tool, in bytes; of a batch, all of its messages together.
const MAX_REST: usize = 64 * 1024;
/// The maximum number of values in it.
const MAX_VALUES: usize = 1_000;
/// The maximum number of messages in a batch.
const MAX_BATCH: usize = 20;

/// What the body of a request holds.
pub enum Messages {
    One(Result<Message, Wrong>),
    Batch(Vec<Result<Message, Wrong>>),
}

/// A message.
pub struct Message {
    /// Its id as it was sent; `None` where it wants no answer.
    pub id: Option<String>,
    pub is_call: bool,
    pub content: Content,
}

/// What a message says.
pub enum Content {
    /// A call of a tool with nothing but its name and arguments, as clients send nearly all that they send. It is answered as the library
    /// would, without the task and the channels that the library has for each message, which cost more than the call.
    Plain(Called),
    /// Another one, with an empty object in the place of the arguments of a tool.
    Other(String, Option<Called>),
}

/// A call of a tool that there is.
pub struct Called {
    pub tool: &'static ToolKind,
    pub arguments: Arguments,
}

/// What is wrong with a message, and its id as far as it can be told.
pub struct Wrong {
    id: Option<String>,
    status: StatusCode,
    error: Box<ErrorData>,
}

impl Wrong {
    /// What was sent is no JSON.
    pub fn no_json(detail: &str) -> Wrong {
        Wrong {
            id: None,
            status: StatusCode::BAD_REQUEST,
            error: Box::new(ErrorData::parse_error(detail.to_owned(), None)),
        }
    }

    /// What was sent is no message, or none that may be sent so.
    pub fn no_message(id: Option<String>, why: impl Into<String>) -> Wrong {
        Wrong { id, status: StatusCode::BAD_REQUEST, error: Box::new(ErrorData::invalid_request(why.into(), None)) }
    }

    /// The parameters of a request have another form. A notification has no answer but the status.
    fn params(id: Option<String>, why: impl Into<String>) -> Wrong {
        let status = if id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        Wrong { id, status, error: Box::new(ErrorData::invalid_params(why.into(), None)) }
    }

    pub fn answer(&self) -> Answer {
        error(self.status, self.id.as_deref(), &self.error)
    }
}

/// An error of the protocol, as the answer to the request with this id.
pub fn error(status: StatusCode, id: Option<&str>, error: &ErrorData) -> Answer {
    let id: Json = id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or_default();
    Answer::json(status, json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

/// How the headers of a request let its body be read.
#[derive(Clone, Copy)]
pub struct Reading {
    /// Whether the headers are those of a plain call.
    pub may_be_plain: bool,
    /// Whether the revision of the protocol has batches.
    pub has_batches: bool,
    /// Whether the revision has `initialize`. Where it has not, the library answers it as a method that there is not.
    pub has_initialize: bool,
}

impl Messages {
    /// Reads a text that was checked to be JSON.
    pub fn of(text: &str, reading: Reading) -> Messages {
        if reading.may_be_plain
            && let Some((id, called)) = plain(text)
        {
            return Messages::One(Ok(Message {
                id: Some(id.to_owned()),
                is_call: true,
                content: Content::Plain(called),
            }));
        }
        match text.trim_start().starts_with('[') {
            true => batch(text, reading).unwrap_or_else(|wrong| Messages::One(Err(wrong))),
            false => {
                let rest = Rest::of(text);
                Messages::One(check_bounds(&rest.text).and_then(|()| rest.message(reading)))
            }
        }
    }
}

/// Reads a batch, to which the bounds of one message apply as a whole.
fn batch(text: &str, reading: Reading) -> Result<Messages, Wrong> {
    let wrong = |why: &str| Wrong::no_message(None, why);
    if !reading.has_batches {
        return Err(wrong("This revision of the protocol has no batches."));
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| Wrong::no_json(&error.to_string()))?;
    let (items, count) = Sent::from(raw).as_list(MAX_BATCH).unwrap_or_default();
    if count == 0 || count > MAX_BATCH {
        return Err(wrong("A batch has 1 to 20 messages."));
    }
    let rests: Vec<Rest> = items.into_iter().map(|item| Rest::of(item.text())).collect();
    let texts: Vec<&str> = rests.iter().map(|rest| rest.text.as_str()).collect();
    check_bounds(&format!("[{}]", texts.join(",")))?;
    let messages = rests.into_iter().map(|rest| {
        let begins = rest.method().as_deref() == Some("initialize");
        match rest.message(reading) {
            Ok(message) if begins => Err(Wrong::no_message(message.id, "initialize is not sent in a batch.")),
            message => message,
        }
    });
    Ok(Messages::Batch(messages.collect()))
}

/// Refuses a message, or a batch, that is too large without the arguments of its tools.
fn check_bounds(rest: &str) -> Result<(), Wrong> {
    if rest.len() > MAX_REST {
        return Err(Wrong::no_message(None, "Only the arguments of a tool may be long."));
    }
    let checked = Body::parse(rest.as_bytes().to_vec(), MAX_VALUES);
    checked.map(drop).map_err(|wrong| Wrong::no_message(None, wrong))
}

/// A message without the arguments of its tool, and these.
struct Rest {
    text: String,
    called: Option<Called>,
}

impl Rest {
    fn of(text: &str) -> Rest {
        let (text, called) = apart(text).unwrap_or_else(|| (text.to_owned(), None));
        Rest { text, called }
    }

    /// Its members, as far as the protocol names them; `None` where it is no object.
    fn members(&self) -> Option<Object<'_>> {
        let raw: &RawValue = serde_json::from_str(&self.text).ok()?;
        let members = ["jsonrpc", "id", "method", "params", "result", "error"];
        Sent::from(raw).as_object(|name| members.contains(&name))
    }

    fn method(&self) -> Option<String> {
        Some(self.members()?.get("method")?.as_str()?.into_owned())
    }

    /// Checks what every message has, and the parameters of the requests that this server knows.
    fn message(self, reading: Reading) -> Result<Message, Wrong> {
        let members = self.members().ok_or_else(|| Wrong::no_message(None, "A message is an object."))?;
        let id = match members.get("id") {
            Some(sent) if is_id(sent) => Some(sent.text().to_owned()),
            Some(_) => return Err(Wrong::no_message(None, "An id is a text or an integer.")),
            None => None,
        };
        if members.get("jsonrpc").and_then(Sent::as_str).is_none_or(|version| version != "2.0") {
            return Err(Wrong::no_message(id, "jsonrpc is \"2.0\"."));
        }
        let is_call = match members.get("method").map(Sent::as_str) {
            Some(Some(method)) => {
                check_params(&method, members.get("params"), reading).map_err(|why| Wrong::params(id.clone(), why))?;
                method == "tools/call"
            }
            // An answer to a request, of which this server sends none.
            None if id.is_some() && (members.contains_key("result") || members.contains_key("error")) => false,
            _ => return Err(Wrong::no_message(id, "A message has a method.")),
        };
        Ok(Message { id, is_call, content: Content::Other(self.text, self.called) })
    }
}

/// Whether a value may be the id of a request.
fn is_id(sent: Sent<'_>) -> bool {
    sent.text().starts_with('"') || sent.as_i64().is_some_and(|number| number.to_string() == sent.text())
}

/// Checks the form of the parameters of a method; says what is wrong with them.
fn check_params(method: &str, params: Option<Sent<'_>>, reading: Reading) -> Result<(), String> {
    if params.is_some_and(|params| !params.text().starts_with('{')) {
        return Err("params is an object.".to_owned());
    }
    match (method, params) {
        ("initialize", _) if !reading.has_initialize => Ok(()),
        ("tools/call", Some(params)) => check_call(params),
        ("tools/call" | "initialize" | "prompts/get" | "resources/read", None) => Err("params is required.".to_owned()),
        ("initialize", Some(params)) => check_form::<InitializeRequestParams>(params),
        ("prompts/get", Some(params)) => check_form::<GetPromptRequestParams>(params),
        ("resources/read", Some(params)) => check_form::<ReadResourceRequestParams>(params),
        ("tools/list" | "prompts/list" | "resources/list" | "resources/templates/list", Some(params)) => {
            check_form::<PaginatedRequestParams>(params)
        }
        _ => Ok(()),
    }
}

fn check_form<T: DeserializeOwned>(params: Sent<'_>) -> Result<(), String> {
    serde_json::from_str::<T>(params.text()).map(drop).map_err(|error| format!("params: {error}"))
}

fn check_call(params: Sent<'_>) -> Result<(), String> {
    let params = params.as_object(|name| ["name", "arguments"].contains(&name));
    let params = params.ok_or_else(|| "params is an object.".to_owned())?;
    if params.get("name").and_then(Sent::as_str).is_none() {
        return Err("name is required, the name of a tool.".to_owned());
    }
    match params.get("arguments") {
        Some(arguments) if !arguments.is_null() && !arguments.text().starts_with('{') => {
            Err("arguments is an object.".to_owned())
        }
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainCall<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: PlainParams<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainParams<'a> {
    name: &'a str,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// The id of a plain call, and the call.
fn plain(text: &str) -> Option<(&str, Called)> {
    let PlainCall { jsonrpc, id, method, params } = serde_json::from_str(text).ok()?;
    if jsonrpc != "2.0" || method != "tools/call" || !is_id(id.into()) || id.get().len() > MAX_REST {
        return None;
    }
    let tool = tools::named(params.name)?;
    let arguments = match params.arguments {
        Some(sent) => Arguments::of(sent.into(), tool.arguments)?,
        None => Arguments::default(),
    };
    Some((id.get(), Called { tool, arguments }))
}

/// A call of a tool without its arguments, and these; `None` where it is none, or has none.
fn apart(text: &str) -> Option<(String, Option<Called>)> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let object = Sent::from(raw).as_object(|name| ["method", "params"].contains(&name))?;
    if object.get("method")?.as_str()? != "tools/call" {
        return None;
    }
    let params = object.get("params")?.as_object(|name| ["name", "arguments"].contains(&name))?;
    let sent = params.get("arguments").filter(|sent| sent.text().starts_with('{'))?;
    let called = params
        .get("name")
        .and_then(Sent::as_str)
        .and_then(|name| tools::named(&name))
        .and_then(|tool| Some(Called { tool, arguments: Arguments::of(sent, tool.arguments)? }));
    // It is a part of the text.
    let begin = sent.text().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let (before, after) = (text.get(..begin)?, text.get(begin + sent.text().len()..)?);
    Some(([before, "{}", after].concat(), called))
}
