//! Where settings come from: flags, the environment and the settings file, and how their values are read.

use super::{Flags, SettingError};
use crate::secrets_file::{API_KEY_TOO_SHORT, is_short_api_key};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// What the variables of all settings begin with.
pub(super) const PREFIX: &str = "CHANCERY_";

/// By how many letters a variable may miss the name of a setting to be taken for a misspelt one.
const MAX_TYPOS: usize = 2;

pub(super) const HTTP_SCHEMES: &[&str] = &["http", "https"];
pub(super) const POSTGRESQL: &[&str] = &["postgres", "postgresql"];

/// A value and the name under which it was given.
pub(super) struct GivenValue {
    pub(super) name: String,
    value: String,
}

impl GivenValue {
    /// The error that this value is wrong.
    fn error(&self, problem: impl fmt::Display) -> SettingError {
        SettingError(format!("{}: {problem}", self.name))
    }
}

/// The three sources of settings, in order of precedence.
pub(super) struct Sources {
    pub(super) flags: SettingsTable,
    pub(super) environment: Environment,
    pub(super) file: SettingsFile,
}

/// The variables `CHANCERY_…`.
pub(super) type Environment = BTreeMap<String, OsString>;

pub(super) type SettingsTable = serde_json::Map<String, serde_json::Value>;

/// The variable of a setting.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase())
}

/// Whether Kubernetes or Docker set a variable for a service whose name begins with `chancery`: `CHANCERY_PORT`,
/// `CHANCERY_SERVICE_HOST`, `CHANCERY_API_PORT_8000_TCP_ADDR`.
fn is_of_orchestrator(name: &str) -> bool {
    name.split('_').any(|word| ["PORT", "SERVICE"].contains(&word))
}

/// The value of every setting by its name; null for a flag that is not given.
pub(super) fn names_and_values(flags: &Flags) -> SettingsTable {
    match serde_json::to_value(flags) {
        Ok(serde_json::Value::Object(names)) => names,
        _ => unreachable!("a struct of optional texts is an object"),
    }
}

impl Sources {
    /// Refuses unknown keys of the file, and variables that are a misspelt setting. Returns the other variables that are
    /// no settings.
    pub(super) fn refuse_unknown(&self) -> Result<Vec<String>, SettingError> {
        if let Some(key) = self.file.values.keys().find(|key| !self.flags.contains_key(*key)) {
            return Err(SettingError(format!("{}: unknown setting {key:?}", self.file.name)));
        }
        let mut unknown = Vec::new();
        for name in self.environment.keys().filter(|name| !is_of_orchestrator(name)) {
            let key = name.strip_prefix(PREFIX).unwrap_or(name).to_lowercase();
            if name == &variable(&key) && self.flags.contains_key(&key) {
                continue;
            }
            match self.flags.keys().find(|known| strsim::damerau_levenshtein(known, &key) <= MAX_TYPOS) {
                Some(meant) => {
                    return Err(SettingError(format!("{name}: unknown setting; {} is one", variable(meant))));
                }
                None => unknown.push(name.clone()),
            }
        }
        Ok(unknown)
    }

    /// The value of a setting from the first source that has one.
    pub(super) fn value_of(&self, key: &str) -> Result<Option<GivenValue>, SettingError> {
        if let Some(value) = self.flags.get(key).and_then(|value| value.as_str())
            && !value.is_empty()
        {
            return Ok(Some(GivenValue { name: format!("--{}", key.replace('_', "-")), value: value.into() }));
        }
        let name = variable(key);
        if let Some(value) = self.environment.get(&name).filter(|value| !value.is_empty()) {
            let Ok(value) = value.clone().into_string() else {
                return Err(SettingError(format!("{name}: not valid UTF-8")));
            };
            return Ok(Some(GivenValue { name, value }));
        }
        self.file.value_of(key)
    }

    /// The value of a setting with its spaces, which may be part of a password.
    pub(super) fn secret(&self, key: &str) -> Result<Option<String>, SettingError> {
        Ok(self.value_of(key)?.map(|given| given.value))
    }

    /// The value of an `X-API-Key`.
    pub(super) fn api_key(&self, key: &str) -> Result<Option<String>, SettingError> {
        match self.value_of(key)? {
            Some(given) if is_short_api_key(&given.value) => Err(given.error(API_KEY_TOO_SHORT)),
            given => Ok(given.map(|given| given.value)),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, SettingError> {
        self.parse_setting(key, |value| Ok(value.to_string()))
    }

    /// The value of a setting, parsed by `read`, which gets it without surrounding spaces. The error of `read` says what
    /// is wrong with the value.
    pub(super) fn parse_setting<T>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingError> {
        let Some(given) = self.value_of(key)? else { return Ok(None) };
        read(given.value.trim()).map(Some).map_err(|problem| given.error(problem))
    }

    pub(super) fn number(&self, key: &str, default: i64, range: RangeInclusive<i64>) -> Result<i64, SettingError> {
        let read = |value: &str| {
            let number = value.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| format!("{value:?} is no whole number from {} to {}", range.start(), range.end()))
        };
        Ok(self.parse_setting(key, read)?.unwrap_or(default))
    }

    pub(super) fn listener(&self, key: &str, default_port: u16) -> Result<SocketAddr, SettingError> {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, default_port));
        let read =
            |value: &str| value.parse().map_err(|_| format!("{value:?} is no address with a port, such as {default}"));
        Ok(self.parse_setting(key, read)?.unwrap_or(default))
    }

    /// A URL with one of these schemes, or with any scheme when there are none. The error does not repeat the value,
    /// since it may have a password.
    pub(super) fn url(&self, key: &str, schemes: &[&str]) -> Result<Option<String>, SettingError> {
        self.parse_setting(key, |value| {
            is_url(value, schemes).then(|| value.to_string()).ok_or_else(|| expected_schemes(schemes))
        })
    }

    /// A public URL of this deployment, to which paths are appended.
    pub(super) fn public_url(&self, key: &str) -> Result<Option<String>, SettingError> {
        self.parse_setting(key, |value| {
            if !is_url(value, HTTP_SCHEMES) || value.contains(['?', '#', '@']) {
                return Err("expected an address http://… or https://… without query and user".into());
            }
            Ok(value.trim_end_matches('/').to_string())
        })
    }
}

fn expected_schemes(schemes: &[&str]) -> String {
    match schemes {
        [] => "expected a URL".into(),
        schemes => format!("expected {}", schemes.iter().map(|s| format!("{s}://…")).collect::<Vec<_>>().join(" or ")),
    }
}

/// Whether a value has one of the schemes and something behind it, without spaces. The rest is checked by the code that
/// connects.
pub(super) fn is_url(value: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = value.split_once("://") else { return false };
    let allowed = if schemes.is_empty() {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    } else {
        schemes.iter().any(|allowed| allowed.eq_ignore_ascii_case(scheme))
    };
    let clean = !rest.contains(|c: char| c.is_whitespace() || c.is_control());
    // Stores of files may lack a host, as `memory:///` and `file:///srv` do; that of PostgreSQL may be a parameter.
    let has_host = schemes.is_empty() || schemes == POSTGRESQL || !rest.starts_with(['/', '?', '#']);
    allowed && clean && has_host && !rest.is_empty()
}

/// The values of `chancery.toml`: texts, whole numbers, and lists of texts for settings that are comma-separated
/// elsewhere.
pub(super) struct SettingsFile {
    name: String,
    values: toml::Table,
}

impl SettingsFile {
    pub(super) fn parse(name: &str, text: &str) -> Result<SettingsFile, SettingError> {
        let values = text.parse::<toml::Table>().map_err(|error| {
            let line = 1 + error.span().map_or(0, |span| text[..span.start].matches('\n').count());
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            SettingError(format!("{name}, line {line}: {message}"))
        })?;
        Ok(SettingsFile { name: name.into(), values })
    }

    pub(super) fn value_of(&self, key: &str) -> Result<Option<GivenValue>, SettingError> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let name = format!("{}, {key}", self.name);
        let list = matches!(key, "cors_origins" | "outbound_allow" | "trusted_proxies");
        let value = match value {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            toml::Value::Boolean(value) if key == "console" => Some(value.to_string()),
            toml::Value::Array(items) if list => {
                items.iter().map(|item| item.as_str()).collect::<Option<Vec<_>>>().map(|items| items.join(","))
            }
            _ => None,
        };
        match value {
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => Ok(Some(GivenValue { name, value })),
            None if list => Err(SettingError(format!("{name}: expected a text or a list of texts"))),
            None => Err(SettingError(format!("{name}: expected a text or a whole number"))),
        }
    }
}
