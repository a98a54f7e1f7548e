//! The metrics of the main API (`docs/operations.md`): requests, the store, jobs, memory, and those of the modules.

use crate::app::App;
use crate::domain::{registered, table};
use crate::jobs;
use crate::route::Route;
use std::time::Duration;
use web::metrics::{MeasuredRoute, MetricsText, RequestCounts};

/// The requests of the front end that is part of the program.
static FRONT_END: RequestCounts = RequestCounts::new();
/// The requests without a route: unknown paths and methods, `/healthz`, `/readyz`, preflights.
static WITHOUT_ROUTE: RequestCounts = RequestCounts::new();

/// Counts an answered request.
pub(crate) fn count(route: Option<&Route>, is_front_end: bool, status: u16, duration: Duration) {
    let counts = match route {
        Some(route) => &*route.requests,
        None if is_front_end => &FRONT_END,
        None => &WITHOUT_ROUTE,
    };
    counts.count(status, duration);
}

/// Writes the metrics of the main API. No label contains data of a build.
pub fn write(app: &App, out: &mut MetricsText) {
    let of_routes = table().routes().map(|route| MeasuredRoute {
        method: route.method.as_str(),
        route: route.path,
        counts: &route.requests,
    });
    let others = [("console", &FRONT_END), ("none", &WITHOUT_ROUTE)];
    let others = others.map(|(route, counts)| MeasuredRoute { method: "", route, counts });
    out.requests("chancery_http", "the main API", &of_routes.chain(others).collect::<Vec<_>>());
    write_store(app, out);
    jobs::write_metrics(app, out);
    write_memory(app, out);
    for module in registered() {
        (module.metrics)(app, out);
    }
}

fn write_store(app: &App, out: &mut MetricsText) {
    let counts = app.store.counts();
    let engine = [("engine", if app.store.is_embedded() { "sqlite" } else { "postgresql" })];
    for (name, kind, help, number) in [
        ("chancery_store_waiting", "gauge", "Database scripts that wait for a connection.", counts.waiting.get()),
        ("chancery_store_running", "gauge", "Database scripts that run.", counts.running.get()),
        ("chancery_store_scripts_total", "counter", "Database scripts that ended.", counts.ended.get()),
        ("chancery_store_failures_total", "counter", "Database scripts that the store failed.", counts.failed.get()),
    ] {
        out.metric(name, kind, help);
        out.sample(name, &engine, number);
    }
}

/// Writes the free parts of what requests share.
fn write_memory(app: &App, out: &mut MetricsText) {
    let bodies = &app.bodies;
    let name = "chancery_free_bytes";
    out.metric(name, "gauge", "Free memory for bodies and large answers, in bytes.");
    for (what, shares) in [("short_bodies", &bodies.short), ("long_bodies", &bodies.long), ("answers", &bodies.answers)]
    {
        out.sample(name, &[("for", what)], shares.free_amount());
    }
    let name = "chancery_free_permits";
    out.metric(name, "gauge", "Free permits for uploads and downloads.");
    for (what, shares) in [("uploads", &bodies.uploads), ("downloads", &bodies.downloads)] {
        out.sample(name, &[("for", what)], shares.free_amount());
    }
}
