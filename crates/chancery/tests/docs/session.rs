//! Runs a page from its top to its end, with servers of its own.

use crate::BINARY;
use crate::TestServer;
use crate::answers::{self, DocumentedAnswer};
use crate::page::DocPage;
use crate::pattern::{self, Placeholders};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue};
use platform::events::history_client::HistoryAddress;
use std::time::Duration;
use store::StoreEngine;
use testkit::{
    API_KEY, ApiClient, CodeGenerator, DOMAIN, Forger, HISTORY_KEY, HistoryServer, Installation, Reply, SECOND,
    SECRET_KEY, TestSettings,
};

/// The `Host` of requests to the history service.
const HISTORY: &str = "history.example";
/// The first line of a body that is a Word document. Its paragraphs follow.
const WORD_DOCUMENT: &str = "(a Word document)\n";
/// The paths with background work: the state of a generated document, and of an import.
const IN_THE_BACKGROUND: [&str; 2] = ["/documents/", "/custom-components/repository/"];
const TYPES: [&str; 7] =
    ["internal", "external", "full", "one_time_completion", "super_admin", "service_internal", "service_external"];

/// The servers of a page.
struct PageSession {
    server: TestServer,
    history: HistoryServer,
    provider: Forger,
    engine: StoreEngine,
    names: Placeholders,
}

/// A request of a page.
struct PageRequest {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Returns the differences between the page and the servers.
pub async fn run(page: DocPage) -> Vec<String> {
    let (mut session, mut changes, mut pending_request) = (PageSession::start().await, Vec::new(), None::<PageRequest>);
    for block in page.blocks() {
        let text = &page.text[block.place.clone()];
        let at = || format!("docs/reference/{}:{}", page.name, block.line);
        let now = match block.language.as_str() {
            "http" if text.starts_with("HTTP/") => {
                let call = pending_request.take().unwrap_or_else(|| panic!("{}: an answer without a request", at()));
                session.answer(&call, text).await
            }
            "http" => {
                assert!(pending_request.is_none(), "{}: the request before has no answer", at());
                pending_request = Some(session.call(text, &at()).await);
                continue;
            }
            "mail" => session.mail(text).await,
            "console" => session.console(text).await,
            _ => continue,
        };
        changes.push((block, now));
    }
    assert!(pending_request.is_none(), "docs/reference/{}: the last request has no answer", page.name);
    page.settle(changes)
}

impl PageSession {
    async fn start() -> PageSession {
        let (history, provider, mut engine) = (HistoryServer::start().await, Forger::start().await, None);
        let change = |settings: &mut TestSettings| {
            engine = Some(settings.engine.clone());
            settings.identity.sso_provider_a_issuer = Some(provider.issuer_setting());
            settings.identity.sso_provider_b_issuer = Some(provider.issuer_setting());
            let url = format!("http://{}", history.address);
            settings.events.history = Some(HistoryAddress { url, api_key: HISTORY_KEY.to_owned() });
        };
        let server = TestServer::start_with(change).await;
        let admin = server.admin().await;
        let names = [("admin", admin.token.as_str()), ("api_key", API_KEY), ("history_key", HISTORY_KEY)];
        let names = names.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        PageSession { server, history, provider, engine: engine.unwrap(), names }
    }

    /// Parses a request into its sent form. A name that is an account type is the token of an account of that type.
    async fn call(&mut self, text: &str, at: &str) -> PageRequest {
        for name in pattern::names(text) {
            if TYPES.contains(&name) && !self.names.contains_key(name) {
                let token = self.server.as_type(name).await.token;
                self.names.insert(name.to_owned(), token);
            }
            self.name_code(name);
            assert!(self.names.contains_key(name), "{at}: nothing has named {{{name}}}");
        }
        let text = pattern::filled(text, &self.names);
        let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
        let mut lines = head.lines();
        let first = lines.next().and_then(|line| line.split_once(' '));
        let (method, target) = first.unwrap_or_else(|| panic!("{at}: a request begins with a method and a path"));
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{at}: no header: {line}"));
            (name.to_owned(), value.to_owned())
        };
        let headers = lines.map(header).collect();
        PageRequest { method: method.to_owned(), target: target.to_owned(), headers, body: body.trim_end().to_owned() }
    }

    /// Gives `code` and `next_code` the codes of the generator that an answer has shown as `secret`.
    fn name_code(&mut self, name: &str) {
        let steps = match name {
            "code" => 0,
            "next_code" => 1,
            _ => return,
        };
        if let Some(secret) = self.names.get("secret") {
            let code = CodeGenerator::new(secret).code(self.server.clock.now() + steps * 30 * SECOND);
            self.names.insert(name.to_owned(), code);
        }
    }

    /// Returns the answer to a request. Requests to the history service, which receives events in the background, and requests
    /// about documents are repeated for a while.
    async fn answer(&mut self, call: &PageRequest, before: &str) -> String {
        let host = call.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let is_history = host.is_some_and(|(_, host)| host == HISTORY);
        let is_later = is_history || IN_THE_BACKGROUND.iter().any(|path| call.target.contains(path));
        let attempts = if is_later && call.method == "GET" { 10 } else { 1 };
        for attempt in 1.. {
            let (mut names, answer) = (self.names.clone(), self.send(call, is_history).await);
            let now = answers::render_answer(before, &answer, &mut names);
            if now == before || attempt == attempts {
                self.names = names;
                return now;
            }
            // The attempts are few, so that a permanent difference is reported soon.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        unreachable!("it ends with the last attempt")
    }

    async fn send(&self, call: &PageRequest, is_history: bool) -> DocumentedAnswer {
        if call.target.starts_with("http") {
            return self.provider_answers(&call.target);
        }
        let address = if is_history { self.history.address } else { self.server.address };
        let is_type = |name: &str| name.eq_ignore_ascii_case("content-type");
        let mut client = ApiClient::new(address, DOMAIN);
        for (name, value) in call.headers.iter().filter(|(name, _)| !is_type(name)) {
            client = client.with_header(name, value);
        }
        let content_type = call.headers.iter().find(|(name, _)| is_type(name)).map_or("", |(_, value)| value);
        let request = client.call(&call.method, &call.target);
        let request = match call.body.strip_prefix(WORD_DOCUMENT) {
            Some(paragraphs) => request.body(content_type, testkit::docx(paragraphs.lines())),
            None if call.body.is_empty() => request,
            None => request.body(content_type, call.body.clone()),
        };
        let Reply { status, headers, text, .. } = request.send().await;
        DocumentedAnswer { status, headers, text }
    }

    /// Simulates a sign-in at a provider: it sends the browser back with a code.
    fn provider_answers(&self, authorization: &str) -> DocumentedAnswer {
        let query = testkit::parameters(authorization);
        let code = self.provider.authorize(authorization);
        let location = format!("{}?code={code}&state={}", query["redirect_uri"], query["state"]);
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(&location).unwrap())]);
        DocumentedAnswer { status: 302, headers, text: String::new() }
    }

    /// Returns the last mail to the address in `To:`.
    async fn mail(&mut self, before: &str) -> String {
        let to = before.lines().find_map(|line| line.strip_prefix("To: ")).unwrap();
        let mail = self.server.mail_to(to).await;
        let now = format!("To: {}\nSubject: {}\n\n{}\n", mail.to, mail.subject, mail.text.trim_end());
        if pattern::matches(before, &now, &mut self.names) { before.to_owned() } else { now }
    }

    /// Runs commands (`$ chancery …`) and returns them with their output. If they have placeholders, they are run again for a
    /// while, because a server does some work in the background.
    async fn console(&mut self, before: &str) -> String {
        let mut now = self.run_commands(before);
        for _ in 0..50 {
            if pattern::matches(before, &now, &mut self.names) {
                return before.to_owned();
            }
            if !pattern::has_holes(before) {
                break;
            }
            // The attempts are few, so that a permanent difference is reported soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            now = self.run_commands(before);
        }
        now
    }

    fn run_commands(&self, page: &str) -> String {
        let installation = Installation::embedded(BINARY)
            .set("CHANCERY_DATA", self.server.data().to_str().unwrap())
            .set("CHANCERY_SECRET_KEY", SECRET_KEY);
        let installation = match &self.engine {
            StoreEngine::Postgres { url } => installation.set("CHANCERY_DATABASE_URL", url),
            StoreEngine::Sqlite { .. } => installation,
        };
        let command = |line: &str| {
            let filled = pattern::filled(line, &self.names);
            let output = installation.run(&filled.split_whitespace().skip(2).collect::<Vec<_>>());
            format!("{line}{}{}", output.stdout, output.stderr)
        };
        page.split_inclusive('\n').filter(|line| line.starts_with("$ chancery ")).map(command).collect()
    }
}
