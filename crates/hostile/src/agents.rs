//! Input from agents: calls of tools, and the parameters of their sign-in.

use platform::agents::mcp::arguments::{Arguments, text};
use platform::agents::mcp::message::{McpMessage, McpMessages, MessageContent, MessageHeaders, ToolCall};
use platform::agents::mcp::pages::{ToolPage, shorten_item};
use platform::agents::mcp::tools::{TOOLS, ToolKind};
use platform::agents::oauth::authorization::{RedirectTarget, challenge, redirect_address, to_query_text};
use platform::agents::oauth::client::{ClientCredentials, allows, basic};
use platform::kit::refusal::Refusal;
use resource::{JsonBody, Query};
use rmcp::model::{CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, RequestId};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use url::{Url, form_urlencoded};

/// Parses the input as a message of the protocol, as the arguments of a tool, and as an item of a list.
pub fn messages(data: &[u8]) {
    // Text that is not JSON, or too deep, does not reach the server of agents.
    let Ok(body) = JsonBody::parse(data.to_vec(), usize::MAX) else { return };
    let sent = body.as_value().text();
    message(sent);
    if object(sent).is_ok() {
        TOOLS.iter().for_each(|tool| tool_takes(tool, sent));
    }
    if let Ok(item) = serde_json::from_str::<&RawValue>(sent)
        && let Ok(short) = shorten_item(item)
    {
        let (Ok(whole), Ok(short)) = (object(item.get()), object(&short)) else { panic!("{item} became {short}") };
        for (name, value) in whole {
            let is_left_out = ["created_by", "modified_at", "modified_by"].contains(&name.as_str());
            assert_eq!(short.contains_key(&name), !is_left_out, "{name}");
            assert!(is_left_out || name == "_meta" || short[&name] == value, "{name}");
        }
    }
}

/// Returns the library's result for a message, if it is a call of a tool.
fn library_call(message: &str) -> Option<(RequestId, CallToolRequestParams)> {
    let Ok(ClientJsonRpcMessage::Request(request)) = serde_json::from_str(message) else { return None };
    match request.request {
        ClientRequest::CallToolRequest(call) => Some((request.id, call.params)),
        _ => None,
    }
}

/// Checks that a message parsed without the library equals the library's result.
fn message(sent: &str) {
    let reading = MessageHeaders { may_be_plain: true, has_batches: true, has_initialize: true };
    match McpMessages::parse(sent, reading) {
        McpMessages::One(Ok(message)) => compare_with_library(message, sent),
        McpMessages::One(Err(wrong)) => drop(wrong.answer()),
        // The library does not parse batches.
        McpMessages::Batch(messages) => assert!(!messages.is_empty(), "{sent}"),
    }
}

fn compare_with_library(message: McpMessage, sent: &str) {
    match message.content {
        MessageContent::Plain(called) => {
            let id = message.id.unwrap_or_default();
            let (known, params) = library_call(sent).unwrap_or_else(|| panic!("the library knows no call in {sent}"));
            assert_eq!(serde_json::from_str::<RequestId>(&id).ok(), Some(known), "{sent}");
            are_alike(&called, &params, sent);
            assert!(params.meta.is_none(), "{sent}");
        }
        MessageContent::Other(rest, called) => {
            let (whole, rest) = (library_call(sent), library_call(&rest));
            assert_eq!(whole.is_some(), rest.is_some(), "{sent}");
            let Some(((id, params), (of_rest, params_of_rest))) = whole.zip(rest) else { return };
            assert_eq!((id, &params.name), (of_rest, &params_of_rest.name), "{sent}");
            match called {
                Some(called) if called.tool.name == params.name => are_alike(&called, &params, sent),
                Some(called) => panic!("{} is not {} in {sent}", called.tool.name, params.name),
                None => assert!(params.arguments.is_none() || TOOLS.iter().all(|of| of.name != params.name), "{sent}"),
            }
            assert!(params_of_rest.arguments.unwrap_or_default().is_empty(), "{sent}");
        }
    }
}

/// Asserts that a call equals the result of the library.
fn are_alike(called: &ToolCall, params: &CallToolRequestParams, sent: &str) {
    assert_eq!(called.tool.name, params.name, "{sent}");
    let read: Map<String, Json> = object(&called.arguments.text()).unwrap_or_default();
    let known = params.arguments.clone().unwrap_or_default();
    let is_known = |name: &String| called.tool.arguments.iter().any(|of| of.name == name.as_str());
    assert_eq!(called.arguments.check().is_ok(), known.keys().all(is_known), "{sent}");
    let known: Map<String, Json> = known.into_iter().filter(|(name, _)| is_known(name)).collect();
    assert_eq!(read, known, "{sent}");
}

fn object(text: &str) -> serde_json::Result<Map<String, Json>> {
    serde_json::from_str(text)
}

/// Checks the result of a tool for arguments: an equivalent request, or a refusal that names one of them.
fn tool_takes(tool: &'static ToolKind, text_of_all: &str) {
    let Ok(sent) = object(text_of_all) else { return };
    let body = JsonBody::from_checked_text(text_of_all.to_owned());
    let Some(arguments) = Arguments::parse(body.as_value(), tool.arguments) else {
        panic!("{text_of_all} is an object")
    };
    if let Err(refusal) = arguments.check() {
        let is_of = |named: &str| sent.keys().any(|name| name.chars().take(100).eq(named.chars()));
        names(&refusal, is_of);
    }
    let query = Query::parse(&arguments.query(tool.arguments));
    let said: Vec<(&str, &str)> = query.pairs().collect();
    let meant: Vec<(&str, String)> =
        tool.arguments.iter().filter_map(|name| Some((name.name, text(arguments.get(name.name)?)))).collect();
    assert_eq!(said.len(), meant.len(), "{sent:?}");
    assert!(said.iter().zip(&meant).all(|(said, meant)| said.0 == meant.0 && said.1 == meant.1), "{sent:?}");
    let all = object(arguments.body(tool.arguments).as_value().text()).unwrap_or_default();
    let known = sent.iter().filter(|(name, _)| tool.arguments.iter().any(|of| of.name == name.as_str()));
    assert!(known.clone().count() == all.len() && known.clone().all(|(name, value)| all[name] == *value), "{sent:?}");
    match ToolPage::from_arguments(&arguments) {
        Ok(page) => assert!((1..=100).contains(&page.limit) && page.offset >= 0, "{sent:?}"),
        Err(refusal) => names(&refusal, |name| ["limit", "cursor"].contains(&name)),
    }
    if let Err(refusal) = arguments.filters() {
        names(&refusal, |name| ["filters", "detail"].contains(&name));
    }
    for name in tool.arguments {
        match arguments.id(name) {
            Ok(id) => assert!(id > 0, "{sent:?}"),
            Err(refusal) => names(&refusal, |named| named == name.name),
        }
    }
}

fn names(refusal: &Refusal, is_expected: impl Fn(&str) -> bool) {
    let named = refusal.body().as_object().is_some_and(|body| body.keys().all(|name| is_expected(name)));
    assert!(named && refusal.status == 400 && refusal.cause.is_none(), "{refusal:?}");
}

/// Parses the credentials of a client, and its return address.
pub fn sign_ins(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Some(ClientCredentials { id, secret }) = basic(text) {
        assert!(text.len() >= "Basic ".len() + (id.len() + secret.len()) / 3, "{text:?}");
    }
    parameters(text);
    for known in LISTED {
        if !allows(known, text) || known == text {
            continue;
        }
        let (Ok(known), Ok(asked)) = (Url::parse(known), Url::parse(text)) else { panic!("{text:?} is no address") };
        let parts = |url: &Url| {
            let texts = [url.scheme(), url.path(), url.username()].map(str::to_owned);
            (
                texts,
                url.host().map(|host| host.to_owned()),
                url.query().map(str::to_owned),
                url.fragment().map(str::to_owned),
            )
        };
        assert_eq!(parts(&known), parts(&asked), "{text:?}");
        assert_ne!(known.host_str(), Some("agent.example"), "{text:?}");
    }
}

/// Addresses that an integration may list.
const LISTED: [&str; 4] =
    ["https://agent.example/callback", "http://localhost/callback", "http://127.0.0.1:8080/", "http://[::1]/a?b=c"];

/// Checks the parameters with which an agent requests consent. The answer goes only to a listed address, once.
fn parameters(text: &str) {
    const ISSUER: &str = "https://a.example";
    let sent = Query::parse(text);
    let RedirectTarget { redirect_uri, state, .. } = RedirectTarget::from_query(&sent);
    let asked = challenge(&sent, |resource| resource == "https://a.example/mcp/1/");
    // The cookie of a sign-in contains the same parameters.
    let carried = Query::parse(&to_query_text(&sent));
    assert_eq!(challenge(&carried, |resource| resource == "https://a.example/mcp/1/"), asked, "{text:?}");
    assert_eq!(
        (RedirectTarget::from_query(&carried).redirect_uri, RedirectTarget::from_query(&carried).state),
        (redirect_uri, state),
        "{text:?}"
    );
    if !LISTED.iter().any(|known| allows(known, redirect_uri)) {
        return;
    }
    let told = match &asked {
        Ok(challenge) => {
            assert_eq!(challenge.len(), 43, "{text:?}");
            vec![("code", "a code")]
        }
        Err(error) => vec![("error", error.code), ("error_description", error.why)],
    };
    let address = redirect_address(redirect_uri, &told, state, ISSUER);
    assert!(http::HeaderValue::from_str(&address).is_ok(), "{address:?}");
    let query = address.strip_prefix(redirect_uri).unwrap_or_else(|| panic!("{address:?} is elsewhere"));
    let query = query.strip_prefix(if redirect_uri.contains('?') { '&' } else { '?' });
    let query = query.unwrap_or_else(|| panic!("{address:?} goes on otherwise"));
    let mut read: HashMap<String, Vec<String>> = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        read.entry(name.into_owned()).or_default().push(value.into_owned());
    }
    let expected = told.into_iter().chain(state.map(|state| ("state", state))).chain([("iss", ISSUER)]);
    let expected: HashMap<String, Vec<String>> =
        expected.map(|(name, value)| (name.to_owned(), vec![value.to_owned()])).collect();
    assert_eq!(read, expected, "{address:?}");
}
