//! The endpoints: their methods and paths, and the required credentials.

use http::Method;
use http::header::HeaderName;
use web::metrics::{MeasuredRoute, MetricsText, RequestCounts};

/// The header of the service's key.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The header of the tenant's client id.
pub const CLIENT_ID: HeaderName = HeaderName::from_static("x-client-id");

/// The header of the service's id (`GET /api/service`): a service with another id refuses the request.
pub const SERVICE_ID: HeaderName = HeaderName::from_static("x-history-service");

/// The handlers of `serve.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Endpoint {
    Health,
    Readiness,
    Description,
    Service,
    Home,
    Page,
    PageFile,
    CreateEvent,
    Batch,
    HistoryEvents,
    EventFile,
    SystemEvents,
    Initialize,
    Delete,
    UploadUrl,
}

impl Endpoint {
    /// Returns whether the answer has an `ETag`.
    pub fn is_tagged(self) -> bool {
        matches!(self, Endpoint::Description | Endpoint::HistoryEvents | Endpoint::SystemEvents | Endpoint::PageFile)
    }

    /// Returns whether answers may be compressed. Excluded are answers with a secret (a signed address is equivalent to
    /// a key), and files that are compressed already.
    pub fn is_compressed(self) -> bool {
        !matches!(self, Endpoint::UploadUrl | Endpoint::EventFile | Endpoint::Initialize | Endpoint::PageFile)
    }
}

/// The credentials that a caller must send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequiredCredentials {
    /// No credentials.
    Public,
    /// The key.
    Key,
    /// The key, and a client id unless the body names the tenant.
    KeyOrClient,
    /// The key and a client id.
    Client,
}

pub struct HistoryRoute {
    pub endpoint: Endpoint,
    pub method: Method,
    /// The path without a slash at its end. A name between braces stands for a value.
    pub path: &'static str,
    pub access: RequiredCredentials,
    /// The answered requests.
    pub requests: RequestCounts,
}

impl HistoryRoute {
    const fn new(endpoint: Endpoint, method: Method, path: &'static str, access: RequiredCredentials) -> HistoryRoute {
        HistoryRoute { endpoint, method, path, access, requests: RequestCounts::new() }
    }
}

impl HistoryRoute {
    /// Returns the name of the value in the path, if it has one.
    pub fn value_name(&self) -> Option<&'static str> {
        self.path.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(name, _)| name)
    }
}

pub static ROUTES: [HistoryRoute; 15] = [
    HistoryRoute::new(Endpoint::Home, Method::GET, "/", RequiredCredentials::Public),
    HistoryRoute::new(Endpoint::Health, Method::GET, "/healthz", RequiredCredentials::Public),
    HistoryRoute::new(Endpoint::Readiness, Method::GET, "/readyz", RequiredCredentials::Public),
    HistoryRoute::new(Endpoint::Description, Method::GET, "/api/openapi.json", RequiredCredentials::Public),
    HistoryRoute::new(Endpoint::Page, Method::GET, "/api/docs", RequiredCredentials::Public),
    HistoryRoute::new(Endpoint::PageFile, Method::GET, "/api/docs/{name}", RequiredCredentials::Public),
    HistoryRoute::new(Endpoint::Service, Method::GET, "/api/service", RequiredCredentials::Key),
    HistoryRoute::new(
        Endpoint::CreateEvent,
        Method::POST,
        "/api/event-bridge/create-event",
        RequiredCredentials::KeyOrClient,
    ),
    HistoryRoute::new(Endpoint::Batch, Method::POST, "/api/system-events/batch", RequiredCredentials::Client),
    HistoryRoute::new(Endpoint::SystemEvents, Method::GET, "/api/system-events", RequiredCredentials::Client),
    HistoryRoute::new(Endpoint::HistoryEvents, Method::GET, "/api/history/events", RequiredCredentials::Client),
    HistoryRoute::new(
        Endpoint::EventFile,
        Method::GET,
        "/api/history/events/{event_id}/file",
        RequiredCredentials::Client,
    ),
    HistoryRoute::new(Endpoint::Initialize, Method::POST, "/api/initialize-tenant", RequiredCredentials::Key),
    HistoryRoute::new(Endpoint::Delete, Method::DELETE, "/api/delete-tenant", RequiredCredentials::Client),
    HistoryRoute::new(Endpoint::UploadUrl, Method::GET, "/api/files/upload-url", RequiredCredentials::Client),
];

/// The requests without a route, and those of the contents of files.
static WITHOUT_ROUTE: RequestCounts = RequestCounts::new();

/// Returns the counts for a path.
pub fn counts(path: &str) -> &'static RequestCounts {
    find(path).map_or(&WITHOUT_ROUTE, |(route, _)| &route.requests)
}

/// Writes the metrics of the history service.
pub fn write_metrics(out: &mut MetricsText) {
    let of_routes = ROUTES.iter().map(|route| MeasuredRoute {
        method: route.method.as_str(),
        route: route.path,
        counts: &route.requests,
    });
    let others = MeasuredRoute { method: "", route: "none", counts: &WITHOUT_ROUTE };
    out.requests("chancery_history", "the history service", &of_routes.chain([others]).collect::<Vec<_>>());
}

/// Returns the route of a path, with or without a slash at its end, and the value in the path or an empty text.
pub fn find(path: &str) -> Option<(&'static HistoryRoute, &str)> {
    let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
    ROUTES.iter().find_map(|route| match route.path.split_once('{') {
        None => (route.path == path).then_some((route, "")),
        Some((before, rest)) => {
            let after = rest.split_once('}').map_or("", |(_, after)| after);
            let value = path.strip_prefix(before)?.strip_suffix(after)?;
            (!value.contains('/')).then_some((route, value))
        }
    })
}
