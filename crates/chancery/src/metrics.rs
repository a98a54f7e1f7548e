//! The listener of metrics (`docs/operations.md`): `GET /metrics` in the text format of Prometheus.

use history::routes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use platform::kit::app::App;
use platform::kit::metrics;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use web::content::BodyContent;
use web::listener::{self, ConnectionCounts, Limits};
use web::metrics::{CONTENT_TYPE, MetricsText, write_process};

/// The maximum number of connections of the listener.
const MAX_CONNECTIONS: u32 = 32;

/// A listener of the process, by its name in the metrics.
pub type NamedListener = (&'static str, Arc<ConnectionCounts>);

/// The measured parts of the process.
#[derive(Clone)]
pub struct Measured {
    /// The main API, if this process serves it.
    app: Option<App>,
    /// Is true if this process serves the history service.
    has_history: bool,
    listeners: Vec<NamedListener>,
}

impl Measured {
    pub fn new(app: Option<&App>, has_history: bool, listeners: Vec<NamedListener>) -> Measured {
        Measured { app: app.cloned(), has_history, listeners }
    }

    fn text(&self) -> String {
        let mut out = MetricsText::default();
        out.metric("chancery_build_info", "gauge", "The version of the program.");
        out.sample("chancery_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        write_process(&mut out);
        out.metric("chancery_connections", "gauge", "Open connections.");
        for (name, counts) in &self.listeners {
            out.sample("chancery_connections", &[("listener", name)], counts.open.get());
        }
        let name = "chancery_connections_refused_total";
        out.metric(name, "counter", "Connections that were answered with 503, since too many were open.");
        for (listener, counts) in &self.listeners {
            out.sample(name, &[("listener", listener)], counts.turned_away.get());
        }
        if let Some(app) = &self.app {
            metrics::write(app, &mut out);
        }
        if self.has_history {
            routes::write_metrics(&mut out);
        }
        out.into_text()
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<BodyContent> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_known = matches!(request.uri().path(), "/metrics" | "/metrics/");
        let (status, body) = match (is_known, is_read) {
            (false, _) => (StatusCode::NOT_FOUND, String::new()),
            (true, false) => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
            (true, true) => (StatusCode::OK, self.text()),
        };
        let mut response = Response::new(BodyContent::Whole(Full::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        response
    }
}

/// Serves the metrics until `stop` ends.
pub fn serve(
    listener: TcpListener,
    measured: Measured,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
    let handler = move |request: Request<Incoming>, _| {
        let measured = measured.clone();
        async move { measured.answer(&request) }
    };
    tokio::spawn(listener::serve(listener, handler, limits, stop))
}
