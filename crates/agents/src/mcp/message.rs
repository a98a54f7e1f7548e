//! Reads the messages of the protocol. The arguments of a tool may be long, so they stay text. The library never gets them, since it
//! parses every message into a tree of values.

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

/// The maximum length of a message without the arguments of its tool, or of all such messages of a batch, in bytes.
const MAX_ENVELOPE: usize = 64 * 1024;
/// The maximum number of values in such a message or batch.
const MAX_VALUES: usize = 1_000;
/// The maximum number of messages in a batch.
const MAX_BATCH: usize = 20;

/// The messages in the body of a request.
pub enum McpMessages {
    One(Result<McpMessage, MessageError>),
    Batch(Vec<Result<McpMessage, MessageError>>),
}

/// A valid message.
pub struct McpMessage {
    /// The JSON of its id; `None`: the message expects no answer.
    pub id: Option<String>,
    pub is_call: bool,
    pub content: MessageContent,
}

/// The content of a message, by the way in which it is answered.
pub enum MessageContent {
    /// A call of a tool with only a name and arguments, which is the usual message of a client. It is answered without the library, by
    /// the same bytes. The library needs about 100 µs more for each message, as much as the call itself
    /// (`docs/decisions/0018-plain-calls-are-answered-without-the-library.md`, `bench/README.md`).
    Plain(ToolCall),
    /// Another message, which the library answers. An empty object replaces the arguments of its tool.
    Other(String, Option<ToolCall>),
}

/// A call of an existing tool.
pub struct ToolCall {
    pub tool: &'static ToolKind,
    pub arguments: Arguments,
}

/// The error of a message, with the id of the message if it is valid.
pub struct MessageError {
    id: Option<String>,
    status: StatusCode,
    error: Box<ErrorData>,
}

impl MessageError {
    /// The body is not JSON.
    pub fn invalid_json(detail: &str) -> MessageError {
        MessageError {
            id: None,
            status: StatusCode::BAD_REQUEST,
            error: Box::new(ErrorData::parse_error(detail.to_owned(), None)),
        }
    }

    /// The body is not a message, or a message that is not allowed there.
    pub fn invalid_message(id: Option<String>, reason: impl Into<String>) -> MessageError {
        MessageError {
            id,
            status: StatusCode::BAD_REQUEST,
            error: Box::new(ErrorData::invalid_request(reason.into(), None)),
        }
    }

    /// The parameters have another form. The answer to a notification is only a status.
    fn params(id: Option<String>, reason: impl Into<String>) -> MessageError {
        let status = if id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        MessageError { id, status, error: Box::new(ErrorData::invalid_params(reason.into(), None)) }
    }

    pub fn answer(&self) -> Answer {
        error(self.status, self.id.as_deref(), &self.error)
    }
}

/// An error of the protocol, as the answer to the request with this id. The id is JSON from the request.
pub fn error(status: StatusCode, id: Option<&str>, error: &ErrorData) -> Answer {
    let id: Json = id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or_default();
    Answer::json(status, json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

/// The properties of a request's headers that decide how its body is read.
#[derive(Clone, Copy)]
pub struct MessageHeaders {
    /// Is true if the headers are those of a plain call.
    pub may_be_plain: bool,
    /// Is true if the revision of the protocol has batches.
    pub has_batches: bool,
    /// Is true if the revision has `initialize`. Otherwise the library answers it as an unknown method.
    pub has_initialize: bool,
}

impl McpMessages {
    /// Reads a text that is valid JSON.
    pub fn parse(text: &str, headers: MessageHeaders) -> McpMessages {
        if headers.may_be_plain
            && let Some((id, call)) = parse_plain_call(text)
        {
            return McpMessages::One(Ok(McpMessage {
                id: Some(id.to_owned()),
                is_call: true,
                content: MessageContent::Plain(call),
            }));
        }
        if text.trim_start().starts_with('[') {
            return parse_batch(text, headers).unwrap_or_else(|error| McpMessages::One(Err(error)));
        }
        let envelope = MessageEnvelope::parse(text);
        McpMessages::One(check_bounds(&envelope.text).and_then(|()| envelope.into_message(headers)))
    }
}

/// Reads a batch. The bounds of one message apply to the whole batch.
fn parse_batch(text: &str, headers: MessageHeaders) -> Result<McpMessages, MessageError> {
    let invalid_batch = |reason: &str| MessageError::invalid_message(None, reason);
    if !headers.has_batches {
        return Err(invalid_batch("This revision of the protocol has no batches."));
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| MessageError::invalid_json(&error.to_string()))?;
    let (items, count) = JsonValue::from(raw).as_list(MAX_BATCH).unwrap_or_default();
    if count == 0 || count > MAX_BATCH {
        return Err(invalid_batch("A batch has 1 to 20 messages."));
    }
    let envelopes: Vec<MessageEnvelope> = items.into_iter().map(|item| MessageEnvelope::parse(item.text())).collect();
    let texts: Vec<&str> = envelopes.iter().map(|envelope| envelope.text.as_str()).collect();
    check_bounds(&["[", &texts.join(","), "]"].concat())?;
    let messages = envelopes.into_iter().map(|envelope| {
        let is_initialize = envelope.method().as_deref() == Some("initialize");
        match envelope.into_message(headers) {
            Ok(message) if is_initialize => {
                Err(MessageError::invalid_message(message.id, "initialize is not sent in a batch."))
            }
            message => message,
        }
    });
    Ok(McpMessages::Batch(messages.collect()))
}

/// Refuses a message or a batch that is too large without the arguments of its tools.
fn check_bounds(envelope: &str) -> Result<(), MessageError> {
    if envelope.len() > MAX_ENVELOPE {
        return Err(MessageError::invalid_message(None, "Only the arguments of a tool may be long."));
    }
    let checked = JsonBody::parse(envelope.as_bytes().to_vec(), MAX_VALUES);
    checked.map(drop).map_err(|reason| MessageError::invalid_message(None, reason))
}

/// A message in which an empty object replaces the arguments of its tool.
struct MessageEnvelope {
    text: String,
    /// The call with the arguments that were replaced.
    call: Option<ToolCall>,
}

impl MessageEnvelope {
    fn parse(text: &str) -> MessageEnvelope {
        MessageEnvelope::split(text).unwrap_or_else(|| MessageEnvelope { text: text.to_owned(), call: None })
    }

    /// Splits the arguments from a call of a tool; `None`: the message is not a call, or has no arguments.
    fn split(text: &str) -> Option<MessageEnvelope> {
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        let message = JsonValue::from(raw).as_object(|name| ["method", "params"].contains(&name))?;
        if message.get("method")?.as_str()? != "tools/call" {
            return None;
        }
        let params = message.get("params")?.as_object(|name| ["name", "arguments"].contains(&name))?;
        let arguments = params.get("arguments").filter(|arguments| arguments.text().starts_with('{'))?;
        let call = params
            .get("name")
            .and_then(JsonValue::as_str)
            .and_then(|name| tools::find_tool(&name))
            .and_then(|tool| Some(ToolCall { tool, arguments: Arguments::parse(arguments, tool.arguments)? }));
        // The arguments are a slice of the text.
        let begin = arguments.text().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        let (before, after) = (text.get(..begin)?, text.get(begin + arguments.text().len()..)?);
        Some(MessageEnvelope { text: [before, "{}", after].concat(), call })
    }

    /// The members that the protocol declares; `None`: the message is not an object.
    fn members(&self) -> Option<SentObject<'_>> {
        let raw: &RawValue = serde_json::from_str(&self.text).ok()?;
        let members = ["jsonrpc", "id", "method", "params", "result", "error"];
        JsonValue::from(raw).as_object(|name| members.contains(&name))
    }

    fn method(&self) -> Option<String> {
        Some(self.members()?.get("method")?.as_str()?.into_owned())
    }

    /// Checks the members of every message, and the parameters of the requests that this server answers.
    fn into_message(self, headers: MessageHeaders) -> Result<McpMessage, MessageError> {
        let members = self.members().ok_or_else(|| MessageError::invalid_message(None, "A message is an object."))?;
        let id = match members.get("id") {
            Some(id) if is_id(id) => Some(id.text().to_owned()),
            Some(_) => return Err(MessageError::invalid_message(None, "An id is a text or an integer.")),
            None => None,
        };
        if members.get("jsonrpc").and_then(JsonValue::as_str).is_none_or(|version| version != "2.0") {
            return Err(MessageError::invalid_message(id, "jsonrpc is \"2.0\"."));
        }
        let is_call = match members.get("method").map(JsonValue::as_str) {
            Some(Some(method)) => {
                check_params(&method, members.get("params"), headers)
                    .map_err(|reason| MessageError::params(id.clone(), reason))?;
                method == "tools/call"
            }
            // The answer to a request. This server sends no requests, so the library ignores it.
            None if id.is_some() && (members.contains_key("result") || members.contains_key("error")) => false,
            _ => return Err(MessageError::invalid_message(id, "A message has a method.")),
        };
        Ok(McpMessage { id, is_call, content: MessageContent::Other(self.text, self.call) })
    }
}

/// Returns whether a value is a valid id of a request.
fn is_id(value: JsonValue<'_>) -> bool {
    value.text().starts_with('"') || value.as_i64().is_some_and(|number| number.to_string() == value.text())
}

/// Checks the form of a method's parameters. The error is a sentence.
fn check_params(method: &str, params: Option<JsonValue<'_>>, headers: MessageHeaders) -> Result<(), String> {
    if params.is_some_and(|params| !params.text().starts_with('{')) {
        return Err("params is an object.".to_owned());
    }
    match (method, params) {
        ("initialize", _) if !headers.has_initialize => Ok(()),
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

/// Reads the id and the call of a message that is a plain call.
fn parse_plain_call(text: &str) -> Option<(&str, ToolCall)> {
    let PlainCall { jsonrpc, id, method, params } = serde_json::from_str(text).ok()?;
    if jsonrpc != "2.0" || method != "tools/call" || !is_id(id.into()) || id.get().len() > MAX_ENVELOPE {
        return None;
    }
    let tool = tools::find_tool(params.name)?;
    let arguments = match params.arguments {
        Some(arguments) => Arguments::parse(arguments.into(), tool.arguments)?,
        None => Arguments::default(),
    };
    Some((id.get(), ToolCall { tool, arguments }))
}
