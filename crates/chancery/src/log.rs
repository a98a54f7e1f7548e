//! The log: a line of JSON on standard error for each event and each request.
//!
//! Every request writes a line, so a line must be cheap: each thread reuses one buffer, and writes it with one call.

use resource::json::Writer;
use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

/// Starts the log. `RUST_LOG` sets its level.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Fails when the log was started before, which is no error.
    let _ = registry().with(filter).with(Lines).try_init();
}

/// The layer that writes a line for each event.
struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        thread_local!(static LINE: RefCell<Line> = RefCell::default());
        LINE.with_borrow_mut(|line| {
            line.write(event);
            // An error of the log itself cannot be reported anywhere.
            let _ = std::io::stderr().write_all(line.json.bytes());
        });
    }
}

/// The buffer of a line.
#[derive(Default)]
struct Line {
    json: Writer,
    /// The buffer of a value that is formatted before it is written as JSON.
    formatted: String,
}

impl Line {
    fn write(&mut self, event: &Event<'_>) {
        let metadata = event.metadata();
        self.json.clear();
        self.json.raw("{").name("timestamp").moment(Some(web::clock::Clock::system().now()));
        self.json.name("level").text(metadata.level().as_str());
        event.record(self);
        self.json.name("target").text(metadata.target()).raw("}\n");
    }

    fn write_formatted(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        self.formatted.clear();
        let _ = self.formatted.write_fmt(value);
        self.json.name(field.name()).text(&self.formatted);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write_formatted(field, format_args!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.json.name(field.name()).text(value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.json.name(field.name()).int(value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => drop(self.json.name(field.name()).int(value)),
            Err(_) => self.write_formatted(field, format_args!("{value}")),
        }
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.json.name(field.name()).value(&value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.json.name(field.name()).bool(value);
    }
}
