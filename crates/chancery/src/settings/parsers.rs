//! Parsers for the values of settings. Their errors state the expected value. Values that may contain a password are not
//! repeated in errors.

use crate::secrets_file::{API_KEY_TOO_SHORT, is_short_api_key};
use platform::kit::signing::SigningKey;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// The bounds of most numbers. The upper one can be added to any time without an overflow.
pub const POSITIVE: RangeInclusive<i64> = 1..=MAX;

/// The upper bound of most numbers.
pub const MAX: i64 = 1_000_000_000;

pub const HTTP_SCHEMES: &[&str] = &["http", "https"];
pub const POSTGRESQL: &[&str] = &["postgres", "postgresql"];

/// Parses the text of a setting.
pub struct Parser<T> {
    pub(super) form: ValueForm,
    pub(super) parse: Box<ParseText<T>>,
}

/// Returns the value of a text, or the second part of the error message, behind the name of the setting.
type ParseText<T> = dyn Fn(&str) -> Result<T, String>;

/// The form of a value, apart from its meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// A text, or a whole number of the settings file. Spaces around it are removed.
    Text,
    /// A text with its spaces, which may be part of a password.
    Secret,
    /// `true` or `false`; in the settings file also the boolean.
    Boolean,
    /// Comma-separated texts; in the settings file also a list of texts.
    List,
}

impl<T> Parser<T> {
    fn new(form: ValueForm, parse: impl Fn(&str) -> Result<T, String> + 'static) -> Parser<T> {
        Parser { form, parse: Box::new(parse) }
    }
}

pub fn text() -> Parser<String> {
    Parser::new(ValueForm::Text, |value| Ok(value.to_owned()))
}

pub fn path() -> Parser<PathBuf> {
    Parser::new(ValueForm::Text, |value| Ok(value.into()))
}

/// Parses a domain, in lower case.
pub fn domain() -> Parser<String> {
    Parser::new(ValueForm::Text, |value| Ok(value.to_lowercase()))
}

/// Parses a key or a password.
pub fn secret() -> Parser<String> {
    Parser::new(ValueForm::Secret, |value| Ok(value.to_owned()))
}

/// Parses the key that signs receipts.
pub fn signing_key() -> Parser<String> {
    Parser::new(ValueForm::Secret, |value| match SigningKey::parse(value) {
        Err(reason) => Err(reason.to_owned()),
        Ok(_) => Ok(value.to_owned()),
    })
}

/// Parses an `X-API-Key`.
pub fn api_key() -> Parser<String> {
    Parser::new(ValueForm::Secret, |value| match is_short_api_key(value) {
        true => Err(API_KEY_TOO_SHORT.to_owned()),
        false => Ok(value.to_owned()),
    })
}

pub fn boolean() -> Parser<bool> {
    Parser::new(ValueForm::Boolean, |value| value.parse().map_err(|_| format!("{value:?} is neither true nor false")))
}

pub fn number<T: FromStr + PartialOrd + Display + 'static>(range: RangeInclusive<T>) -> Parser<T> {
    Parser::new(ValueForm::Text, move |value| {
        let number = value.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("{value:?} is no whole number from {} to {}", range.start(), range.end()))
    })
}

/// Parses the address and the port of a listener. The error names the example.
pub fn listener(example: &'static str) -> Parser<SocketAddr> {
    Parser::new(ValueForm::Text, move |value| {
        value.parse().map_err(|_| format!("{value:?} is no address with a port, such as {example}"))
    })
}

/// The form of the log (`CHANCERY_LOG_FORMAT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    Json,
    Pretty,
}

/// Parses the form of the log.
pub fn log_format() -> Parser<LogFormat> {
    Parser::new(ValueForm::Text, |value| match value {
        "auto" => Ok(LogFormat::Auto),
        "json" => Ok(LogFormat::Json),
        "pretty" => Ok(LogFormat::Pretty),
        _ => Err(format!("{value:?} is none of auto, json, pretty")),
    })
}

/// Parses a URL with one of these schemes. An empty list permits every scheme.
pub fn url(schemes: &'static [&'static str]) -> Parser<String> {
    Parser::new(ValueForm::Text, |value| match is_url(value, schemes) {
        true => Ok(value.to_owned()),
        false => Err(expected_schemes(schemes)),
    })
}

/// Parses a public URL of this deployment, and removes slashes at its end, since paths are appended to it.
pub fn public_url() -> Parser<String> {
    Parser::new(ValueForm::Text, |value| {
        if !is_url(value, HTTP_SCHEMES) || value.contains(['?', '#', '@']) {
            return Err("expected an address http://… or https://… without query and user".into());
        }
        Ok(value.trim_end_matches('/').to_string())
    })
}

/// Parses a comma-separated list.
pub fn list<T: 'static>(parse: fn(&str) -> Result<T, String>) -> Parser<T> {
    Parser::new(ValueForm::List, parse)
}

/// Parses comma-separated origins, in lower case as browsers send them.
pub fn origins() -> Parser<Vec<String>> {
    list(|text| text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(parse_origin).collect())
}

fn parse_origin(text: &str) -> Result<String, String> {
    let authority = text.split_once("://").map_or("", |(_, authority)| authority);
    // Browsers send only scheme, host and port, so a longer entry would never match.
    if !is_url(text, HTTP_SCHEMES) || authority.contains(['/', '?', '#', '@', '*']) {
        return Err(format!("{text:?} is no origin, such as https://app.example.com"));
    }
    Ok(text.to_lowercase())
}

fn expected_schemes(schemes: &[&str]) -> String {
    match schemes {
        [] => "expected a URL".into(),
        schemes => format!("expected {}", schemes.iter().map(|s| format!("{s}://…")).collect::<Vec<_>>().join(" or ")),
    }
}

/// Returns true for a value with one of the schemes and a remainder without spaces. The code that connects checks the
/// remainder.
fn is_url(value: &str, schemes: &[&str]) -> bool {
    let Some((scheme, remainder)) = value.split_once("://") else { return false };
    let has_scheme = if schemes.is_empty() {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    } else {
        schemes.iter().any(|allowed| allowed.eq_ignore_ascii_case(scheme))
    };
    let is_clean = !remainder.contains(|c: char| c.is_whitespace() || c.is_control());
    // Stores of files may lack a host (`memory:///`, `file:///srv`); the host of PostgreSQL may be a parameter.
    let has_host = schemes.is_empty() || schemes == POSTGRESQL || !remainder.starts_with(['/', '?', '#']);
    has_scheme && is_clean && has_host && !remainder.is_empty()
}
