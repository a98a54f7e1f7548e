//! Messages of the protocol as they are sent. The arguments of a tool, which may be long, are kept as text and never come to the library,
//! which makes trees of values of all that it is given.

use super::arguments::Arguments;
use super::tools::{self, ToolKind};
use resource::{Body, Sent};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest message without the arguments of a tool, in bytes.
const MAX_REST: usize = 64 * 1024;
/// The maximum number of values in it.
const MAX_VALUES: usize = 1_000;

/// A message.
pub enum Message {
    /// A call of a tool with nothing but its name and arguments, as clients send nearly all that they send, with its id as it was
    /// sent. It is answered as the library would, without the task and the channels that the library has for each message, which
    /// cost more than the call.
    Plain(String, Called),
    /// Another one, with an empty object in the place of the arguments of a tool.
    Other(String, Option<Called>),
}

/// A call of a tool that there is.
pub struct Called {
    pub tool: &'static ToolKind,
    pub arguments: Arguments,
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

impl Message {
    /// Reads a text that was checked to be JSON. `may_be_plain` says whether the headers are those of a plain call.
    ///
    /// # Errors
    /// What is wrong with it: without the arguments of a tool it is too long.
    pub fn of(text: &str, may_be_plain: bool) -> Result<Message, String> {
        if may_be_plain && let Some((id, called)) = plain(text) {
            return Ok(Message::Plain(id.to_owned(), called));
        }
        let (rest, called) = apart(text).unwrap_or_else(|| (text.to_owned(), None));
        if rest.len() > MAX_REST {
            return Err("Only the arguments of a tool may be long.".to_owned());
        }
        let rest = Body::parse(rest.into_bytes(), MAX_VALUES).map_err(|wrong| format!("JSON parse error - {wrong}"))?;
        Ok(Message::Other(rest.sent().text().to_owned(), called))
    }
}

/// The id of a plain call, and the call.
fn plain(text: &str) -> Option<(&str, Called)> {
    let PlainCall { jsonrpc, id, method, params } = serde_json::from_str(text).ok()?;
    let id = id.get();
    let is_number = id.parse::<i64>().is_ok_and(|number| number.to_string() == id);
    if jsonrpc != "2.0" || method != "tools/call" || !(id.starts_with('"') || is_number) {
        return None;
    }
    let tool = tools::named(params.name)?;
    let arguments = match params.arguments {
        Some(sent) => Arguments::of(sent.into(), tool.arguments)?,
        None => Arguments::default(),
    };
    Some((id, Called { tool, arguments }))
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
