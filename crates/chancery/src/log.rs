//! The log: a line of JSON on standard error for each event, a request among them.
//!
//! Every request has its line, so a line must be cheap: it is written straight into one buffer that its thread keeps,
//! and goes out in one piece.

use resource::json::Writer;
use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

/// Starts the log; `RUST_LOG` says how much it tells.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Refused where there is a log already.
    let _ = registry().with(filter).with(Lines).try_init();
}

/// Writes the lines.
struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        thread_local!(static LINE: RefCell<Line> = RefCell::default());
        LINE.with_borrow_mut(|line| {
            line.write(event);
            // Nobody is left to be told of a log that cannot be written.
            let _ = std::io::stderr().write_all(line.json.bytes());
        });
    }
}

/// A line in the making.
#[derive(Default)]
struct Line {
    json: Writer,
    /// A value that has to be shown before it can be written.
    shown: String,
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

    fn show(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        self.shown.clear();
        let _ = self.shown.write_fmt(value);
        self.json.name(field.name()).text(&self.shown);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.show(field, format_args!("{value:?}"));
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
            Err(_) => self.show(field, format_args!("{value}")),
        }
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.json.name(field.name()).value(&value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.json.name(field.name()).bool(value);
    }
}
