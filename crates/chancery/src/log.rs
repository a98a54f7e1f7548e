//! The log: a line on standard error for each event and each request, as JSON or for people.
//!
//! Every request writes a line, so a line must be cheap. Each thread reuses one buffer, and writes it with one call.

use crate::open::CommandFailure;
use crate::settings::LogFormat;
use resource::json::JsonWriter;
use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::io::{IsTerminal, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// Returns the filter of the log: `RUST_LOG`, or `info` when it is not set.
///
/// Words that are not levels are refused, although the filter accepts them as names of crates. `RUST_LOG=inof` would log nothing.
pub fn filter() -> Result<Targets, CommandFailure> {
    let set = std::env::var_os("RUST_LOG").unwrap_or_default();
    parse(set.to_str().ok_or("RUST_LOG: not valid UTF-8")?)
}

fn parse(set: &str) -> Result<Targets, CommandFailure> {
    let wrong = |part: &str| {
        format!(
            "RUST_LOG: {part:?} is none of off, error, warn, info, debug, trace, nor one of them for a part of the \
             program, such as store=debug"
        )
    };
    let parts: Vec<&str> = set.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    // The parser would accept the empty text as a level.
    let is_level = |level: &str| !level.is_empty() && level.parse::<LevelFilter>().is_ok();
    let is_directive = |part: &str| match part.rsplit_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level.trim()) && part.parse::<Targets>().is_ok(),
        None => is_level(part),
    };
    match parts.iter().find(|part| !is_directive(part)) {
        Some(part) => Err(wrong(part)),
        None if parts.is_empty() => Ok(Targets::new().with_default(LevelFilter::INFO)),
        None => parts.join(",").parse().map_err(|_| wrong(set)),
    }
}

/// Starts the log, once in a process.
pub fn start(filter: Targets, format: LogFormat) {
    let is_terminal = std::io::stderr().is_terminal();
    let is_pretty = format == LogFormat::Pretty || (format == LogFormat::Auto && is_terminal);
    // The call fails if the log was started before, which is not an error.
    let _ = match is_pretty {
        true => registry().with(filter).with(PrettyLogLayer { has_colors: is_terminal }).try_init(),
        false => registry().with(filter).with(JsonLogLayer).try_init(),
    };
}

/// The layer that writes a line for people: time, level, message, fields and target.
struct PrettyLogLayer {
    has_colors: bool,
}

impl<S: Subscriber> Layer<S> for PrettyLogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        thread_local!(static LINE: RefCell<PrettyLine> = RefCell::default());
        LINE.with_borrow_mut(|line| {
            line.write(event, self.has_colors);
            let _ = std::io::stderr().write_all(line.text.as_bytes());
        });
    }
}

/// The buffers of a line for people.
#[derive(Default)]
struct PrettyLine {
    text: String,
    message: String,
    fields: String,
    value: String,
}

impl PrettyLine {
    fn write(&mut self, event: &Event<'_>, has_colors: bool) {
        let metadata = event.metadata();
        [&mut self.text, &mut self.message, &mut self.fields].into_iter().for_each(String::clear);
        event.record(self);
        let color = match *metadata.level() {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            _ => "2",
        };
        let time = resource::time::show(web::clock::Clock::system().now());
        let time = time.get(11..23).unwrap_or(&time);
        let level = metadata.level().as_str();
        let (message, fields, target) = (&self.message, &self.fields, metadata.target());
        let _ = match has_colors {
            true => {
                writeln!(self.text, "{time} \x1b[{color}m{level:5}\x1b[0m {message}{fields} \x1b[2m{target}\x1b[0m")
            }
            false => writeln!(self.text, "{time} {level:5} {message}{fields} {target}"),
        };
    }

    fn write_formatted(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        self.value.clear();
        let _ = self.value.write_fmt(value);
        // A control character of a value must not start a line or change the terminal.
        let is_plain = !self.value.chars().any(char::is_control);
        let _ = match (field.name(), is_plain) {
            ("message", true) => write!(self.message, "{}", self.value),
            ("message", false) => write!(self.message, "{}", self.value.escape_debug()),
            (_, _) if self.value.is_empty() => Ok(()),
            (name, true) if !self.value.contains([' ', '"', '=']) => write!(self.fields, " {name}={}", self.value),
            (name, _) => write!(self.fields, " {name}={:?}", self.value),
        };
    }
}

impl Visit for PrettyLine {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write_formatted(field, format_args!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write_formatted(field, format_args!("{value}"));
    }
}

/// The layer that writes a line for each event.
struct JsonLogLayer;

impl<S: Subscriber> Layer<S> for JsonLogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        thread_local!(static LINE: RefCell<LineBuffer> = RefCell::default());
        LINE.with_borrow_mut(|line| {
            line.write(event);
            // An error of the log itself cannot be reported anywhere.
            let _ = std::io::stderr().write_all(line.json.bytes());
        });
    }
}

/// The buffer of a line.
#[derive(Default)]
struct LineBuffer {
    json: JsonWriter,
    /// The buffer of a value that is formatted before it is written as JSON.
    formatted: String,
}

impl LineBuffer {
    fn write(&mut self, event: &Event<'_>) {
        let metadata = event.metadata();
        self.json.clear();
        self.json.raw("{").name("timestamp").datetime(Some(web::clock::Clock::system().now()));
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

impl Visit for LineBuffer {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an event in the form for people, without its time.
    fn pretty(event: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Lines(std::sync::Arc<std::sync::Mutex<String>>);
        impl<S: Subscriber> Layer<S> for Lines {
            fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
                let mut line = PrettyLine::default();
                line.write(event, false);
                *web::lock(&self.0) = line.text[13..].to_owned();
            }
        }
        let lines = Lines::default();
        tracing::subscriber::with_default(registry().with(lines.clone()), event);
        web::lock(&lines.0).clone()
    }

    #[test]
    fn a_line_for_people_begins_with_the_message() {
        let line = pretty(|| tracing::info!(method = "GET", status = 200, user = None::<i64>, build = "", "request"));
        assert_eq!(line, "INFO  request method=GET status=200 chancery::log::tests\n");
        let line = pretty(|| tracing::error!(reason = "no \x1b[31m answer\n", "a job was given up"));
        assert_eq!(line, "ERROR a job was given up reason=\"no \\u{1b}[31m answer\\n\" chancery::log::tests\n");
    }

    #[test]
    fn levels_and_levels_of_parts_are_taken() {
        for set in ["", " ", "debug", "WARN", "off", "warn,store=debug", "info, kit::serve=off"] {
            assert!(parse(set).is_ok(), "{set}");
        }
        assert_eq!(parse("").unwrap().to_string(), "info");
    }

    #[test]
    fn anything_else_is_refused_with_the_part_that_is_wrong() {
        for (set, part) in [
            ("inof", "inof"),
            ("info,store", "store"),
            ("store=loud", "store=loud"),
            ("store=", "store="),
            ("=debug", "=debug"),
            ("info;debug", "info;debug"),
        ] {
            let line = parse(set).unwrap_err();
            assert!(line.starts_with(&format!("RUST_LOG: {part:?} is none of off, ")), "{set}: {line}");
        }
    }
}
