//! What agents send: calls of tools, and the parameters of their sign-in.

use platform::agents::mcp::arguments::{Arguments, text};
use platform::agents::mcp::run::{Page, filters, shortened};
use platform::agents::mcp::tools::TOOLS;
use platform::agents::oauth::client::{allows, basic};
use platform::kit::refusal::Refusal;
use resource::Query;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use url::Url;

/// A message of the protocol, the arguments of a tool, and an item of a list.
pub fn messages(data: &[u8]) {
    if let Ok(ClientJsonRpcMessage::Request(request)) = serde_json::from_slice(data)
        && let ClientRequest::CallToolRequest(call) = request.request
    {
        tools(&call.params.arguments.unwrap_or_default());
    }
    if let Ok(sent) = serde_json::from_slice::<Map<String, Json>>(data) {
        tools(&sent);
    }
    if let Ok(item) = serde_json::from_slice::<&RawValue>(data)
        && let Ok(short) = shortened(item)
    {
        let (Ok(whole), Ok(short)) = (object(item.get()), object(&short)) else { panic!("{item} became {short}") };
        for (name, value) in whole {
            let is_left_out = ["created_by", "modified_at", "modified_by"].contains(&name.as_str());
            assert_eq!(short.contains_key(&name), !is_left_out, "{name}");
            assert!(is_left_out || name == "_meta" || short[&name] == value, "{name}");
        }
    }
}

fn object(text: &str) -> serde_json::Result<Map<String, Json>> {
    serde_json::from_str(text)
}

/// What every tool makes of arguments: a request that says the same, or a refusal that names one of them.
fn tools(sent: &Map<String, Json>) {
    for tool in TOOLS {
        let arguments = match Arguments::of(sent.clone(), tool.arguments) {
            Ok(arguments) => arguments,
            Err(refusal) => {
                names(&refusal, |name| sent.contains_key(name));
                continue;
            }
        };
        let query = Query::parse(&arguments.query(tool.arguments));
        let said: Vec<(&str, &str)> = query.pairs().collect();
        let meant: Vec<(&str, String)> =
            tool.arguments.iter().filter_map(|name| Some((name.name, text(arguments.get(name.name)?)))).collect();
        assert_eq!(said.len(), meant.len(), "{sent:?}");
        assert!(said.iter().zip(&meant).all(|(said, meant)| said.0 == meant.0 && said.1 == meant.1), "{sent:?}");
        match Page::of(&arguments) {
            Ok(page) => assert!((1..=100).contains(&page.limit) && page.offset >= 0, "{sent:?}"),
            Err(refusal) => names(&refusal, |name| ["limit", "cursor"].contains(&name)),
        }
        if let Err(refusal) = filters(&arguments) {
            names(&refusal, |name| name == "filters");
        }
        for name in tool.arguments {
            match arguments.id(name) {
                Ok(id) => assert!(id > 0, "{sent:?}"),
                Err(refusal) => names(&refusal, |named| named == name.name),
            }
        }
    }
}

fn names(refusal: &Refusal, is_expected: impl Fn(&str) -> bool) {
    let named = refusal.body.as_object().is_some_and(|body| body.keys().all(|name| is_expected(name)));
    assert!(named && refusal.status == 400 && refusal.cause.is_none(), "{refusal:?}");
}

/// The credentials of a client, and where it asks to return to.
pub fn sign_ins(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Some((name, password)) = basic(text) {
        assert!(text.len() >= "Basic ".len() + (name.len() + password.len()) / 3, "{text:?}");
    }
    for known in
        ["https://agent.example/callback", "http://localhost/callback", "http://127.0.0.1:8080/", "http://[::1]/a?b=c"]
    {
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
