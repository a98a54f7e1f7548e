//! Messages of the protocol as they are sent. The arguments of a tool, which may be long, are kept as text and never come to the library,
//! which makes trees of values of all that it is given.

use super::arguments::Arguments;
use super::tools::{self, ToolKind};
use http::StatusCode;
use kit::answer::Answer;
use resource::{JsonBody, JsonValue, SentObject};
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
pub enum McpMessages {
    One(Result<McpMessage, MessageError>),
    Batch(Vec<Result<McpMessage, MessageError>>),
}

/// A message.
pub struct McpMessage {
    /// Its id as it was sent; `None` where it wants no answer.
    pub id: Option<String>,
    pub is_call: bool,
    pub content: MessageContent,
}

/// What a message says.
pub enum MessageContent {
    /// A call of a tool with nothing but its name and arguments, as clients send nearly all that they send. It is answered as the library
    /// would, without the task and the channels that the library has for each message, which cost more than the call.
    Plain(ToolCall),
    /// Another one, with an empty object in the place of the arguments of a tool.
    Other(String, Option<ToolCall>),
}

/// A call of a tool that there is.
pub struct ToolCall {
    pub tool: &'static ToolKind,
    pub arguments: Arguments,
}

/// What is wrong with a message, and its id as far as it can be told.
pub struct MessageError {
    id: Option<String>,
    status: StatusCode,
    error: Box<ErrorData>,
}

impl MessageError {
    /// What was sent is no JSON.
    pub fn invalid_json(detail: &str) -> MessageError {
        MessageError {
            id: None,
            status: StatusCode::BAD_REQUEST,
            error: Box::new(ErrorData::parse_error(detail.to_owned(), None)),
        }
    }

    /// What was sent is no message, or none that may be sent so.
    pub fn invalid_message(id: Option<String>, why: impl Into<String>) -> MessageError {
        MessageError {
            id,
            status: StatusCode::BAD_REQUEST,
            error: Box::new(ErrorData::invalid_request(why.into(), None)),
        }
    }

    /// The parameters of a request have another form. A notification has no answer but the status.
    fn params(id: Option<String>, why: impl Into<String>) -> MessageError {
        let status = if id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        MessageError { id, status, error: Box::new(ErrorData::invalid_params(why.into(), None)) }
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
pub struct MessageHeaders {
    /// Whether the headers are those of a plain call.
    pub may_be_plain: bool,
    /// Whether the revision of the protocol has batches.
    pub has_batches: bool,
    /// Whether the revision has `initialize`. Where it has not, the library answers it as a method that there is not.
    pub has_initialize: bool,
}

impl McpMessages {
    /// Reads a text that was checked to be JSON.
    pub fn parse(text: &str, reading: MessageHeaders) -> McpMessages {
        if reading.may_be_plain
            && let Some((id, called)) = parse_plain_call(text)
        {
            return McpMessages::One(Ok(McpMessage {
                id: Some(id.to_owned()),
                is_call: true,
                content: MessageContent::Plain(called),
            }));
        }
        match text.trim_start().starts_with('[') {
            true => batch(text, reading).unwrap_or_else(|wrong| McpMessages::One(Err(wrong))),
            false => {
                let rest = MessageWithoutArguments::parse(text);
                McpMessages::One(check_bounds(&rest.text).and_then(|()| rest.message(reading)))
            }
        }
    }
}

/// Reads a batch, to which the bounds of one message apply as a whole.
fn batch(text: &str, reading: MessageHeaders) -> Result<McpMessages, MessageError> {
    let wrong = |why: &str| MessageError::invalid_message(None, why);
    if !reading.has_batches {
        return Err(wrong("This revision of the protocol has no batches."));
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| MessageError::invalid_json(&error.to_string()))?;
    let (items, count) = JsonValue::from(raw).as_list(MAX_BATCH).unwrap_or_default();
    if count == 0 || count > MAX_BATCH {
        return Err(wrong("A batch has 1 to 20 messages."));
    }
    let rests: Vec<MessageWithoutArguments> =
        items.into_iter().map(|item| MessageWithoutArguments::parse(item.text())).collect();
    let texts: Vec<&str> = rests.iter().map(|rest| rest.text.as_str()).collect();
    check_bounds(&format!("[{}]", texts.join(",")))?;
    let messages = rests.into_iter().map(|rest| {
        let begins = rest.method().as_deref() == Some("initialize");
        match rest.message(reading) {
            Ok(message) if begins => {
                Err(MessageError::invalid_message(message.id, "initialize is not sent in a batch."))
            }
            message => message,
        }
    });
    Ok(McpMessages::Batch(messages.collect()))
}

/// Refuses a message, or a batch, that is too large without the arguments of its tools.
fn check_bounds(rest: &str) -> Result<(), MessageError> {
    if rest.len() > MAX_REST {
        return Err(MessageError::invalid_message(None, "Only the arguments of a tool may be long."));
    }
    let checked = JsonBody::parse(rest.as_bytes().to_vec(), MAX_VALUES);
    checked.map(drop).map_err(|wrong| MessageError::invalid_message(None, wrong))
}

/// A message without the arguments of its tool, and these.
struct MessageWithoutArguments {
    text: String,
    called: Option<ToolCall>,
}

impl MessageWithoutArguments {
    fn parse(text: &str) -> MessageWithoutArguments {
        let (text, called) = split_arguments(text).unwrap_or_else(|| (text.to_owned(), None));
        MessageWithoutArguments { text, called }
    }

    /// Its members, as far as the protocol names them; `None` where it is no object.
    fn members(&self) -> Option<SentObject<'_>> {
        let raw: &RawValue = serde_json::from_str(&self.text).ok()?;
        let members = ["jsonrpc", "id", "method", "params", "result", "error"];
        JsonValue::from(raw).as_object(|name| members.contains(&name))
    }

    fn method(&self) -> Option<String> {
        Some(self.members()?.get("method")?.as_str()?.into_owned())
    }

    /// Checks what every message has, and the parameters of the requests that this server knows.
    fn message(self, reading: MessageHeaders) -> Result<McpMessage, MessageError> {
        let members = self.members().ok_or_else(|| MessageError::invalid_message(None, "A message is an object."))?;
        let id = match members.get("id") {
            Some(sent) if is_id(sent) => Some(sent.text().to_owned()),
            Some(_) => return Err(MessageError::invalid_message(None, "An id is a text or an integer.")),
            None => None,
        };
        if members.get("jsonrpc").and_then(JsonValue::as_str).is_none_or(|version| version != "2.0") {
            return Err(MessageError::invalid_message(id, "jsonrpc is \"2.0\"."));
        }
        let is_call = match members.get("method").map(JsonValue::as_str) {
            Some(Some(method)) => {
                check_params(&method, members.get("params"), reading)
                    .map_err(|why| MessageError::params(id.clone(), why))?;
                method == "tools/call"
            }
            // An answer to a request, of which this server sends none.
            None if id.is_some() && (members.contains_key("result") || members.contains_key("error")) => false,
            _ => return Err(MessageError::invalid_message(id, "A message has a method.")),
        };
        Ok(McpMessage { id, is_call, content: MessageContent::Other(self.text, self.called) })
    }
}

/// Whether a value may be the id of a request.
fn is_id(sent: JsonValue<'_>) -> bool {
    sent.text().starts_with('"') || sent.as_i64().is_some_and(|number| number.to_string() == sent.text())
}

/// Checks the form of the parameters of a method; says what is wrong with them.
fn check_params(method: &str, params: Option<JsonValue<'_>>, reading: MessageHeaders) -> Result<(), String> {
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

fn check_form<T: DeserializeOwned>(params: JsonValue<'_>) -> Result<(), String> {
    serde_json::from_str::<T>(params.text()).map(drop).map_err(|error| format!("params: {error}"))
}

fn check_call(params: JsonValue<'_>) -> Result<(), String> {
    let params = params.as_object(|name| ["name", "arguments"].contains(&name));
    let params = params.ok_or_else(|| "params is an object.".to_owned())?;
    if params.get("name").and_then(JsonValue::as_str).is_none() {
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
fn parse_plain_call(text: &str) -> Option<(&str, ToolCall)> {
    let PlainCall { jsonrpc, id, method, params } = serde_json::from_str(text).ok()?;
    if jsonrpc != "2.0" || method != "tools/call" || !is_id(id.into()) || id.get().len() > MAX_REST {
        return None;
    }
    let tool = tools::find_tool(params.name)?;
    let arguments = match params.arguments {
        Some(sent) => Arguments::parse(sent.into(), tool.arguments)?,
        None => Arguments::default(),
    };
    Some((id.get(), ToolCall { tool, arguments }))
}

/// A call of a tool without its arguments, and these; `None` where it is none, or has none.
fn split_arguments(text: &str) -> Option<(String, Option<ToolCall>)> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let object = JsonValue::from(raw).as_object(|name| ["method", "params"].contains(&name))?;
    if object.get("method")?.as_str()? != "tools/call" {
        return None;
    }
    let params = object.get("params")?.as_object(|name| ["name", "arguments"].contains(&name))?;
    let sent = params.get("arguments").filter(|sent| sent.text().starts_with('{'))?;
    let called = params
        .get("name")
        .and_then(JsonValue::as_str)
        .and_then(|name| tools::find_tool(&name))
        .and_then(|tool| Some(ToolCall { tool, arguments: Arguments::parse(sent, tool.arguments)? }));
    // It is a part of the text.
    let begin = sent.text().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let (before, after) = (text.get(..begin)?, text.get(begin + sent.text().len()..)?);
    Some(([before, "{}", after].concat(), called))
}
