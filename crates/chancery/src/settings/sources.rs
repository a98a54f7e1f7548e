//! The sources of settings: flags, the environment and the settings file.

use super::parsers::{Parser, ValueForm};
use super::setting::{PREFIX, Setting};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// The maximum number of wrong letters in a variable that counts as a misspelled setting.
const MAX_TYPOS: usize = 2;

/// A wrong setting: one line that names it and states the expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError(pub(super) String);

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

/// A value, and the name of the setting in the source of the value.
struct GivenValue {
    name: String,
    text: String,
}

impl GivenValue {
    fn parse<T>(&self, parser: &Parser<T>) -> Result<T, SettingError> {
        let text = if parser.form == ValueForm::Secret { &self.text } else { self.text.trim() };
        (parser.parse)(text).map_err(|problem| SettingError(format!("{}: {problem}", self.name)))
    }
}

/// The names in the sources that are not settings.
pub(super) struct UnknownSettings {
    /// Unknown keys of the file, then misspelled variables.
    pub mistakes: Vec<SettingError>,
    /// Variables that resemble no setting.
    pub others: Vec<String>,
}

/// The three sources of settings, in the order of precedence. The method with the key of a setting reads that setting.
pub(super) struct Sources {
    /// The flags, by the keys of their settings.
    pub(super) flags: BTreeMap<&'static str, String>,
    pub(super) environment: Environment,
    pub(super) file: SettingsFile,
}

/// The variables `CHANCERY_…`.
pub(super) type Environment = BTreeMap<String, OsString>;

impl Sources {
    /// Refuses unknown keys of the file and misspelled variables. Returns the other variables that are not settings.
    pub(super) fn refuse_unknown(&self, settings: &[Setting]) -> Result<Vec<String>, SettingError> {
        let UnknownSettings { mistakes, others } = self.unknown_settings(settings);
        mistakes.into_iter().next().map_or(Ok(others), Err)
    }

    /// The names in the file and in the environment that are not settings.
    pub(super) fn unknown_settings(&self, settings: &[Setting]) -> UnknownSettings {
        let is_unknown = |key: &&String| settings.iter().all(|setting| setting.key != **key);
        let unknown_key = |key| SettingError(format!("{}: unknown setting {key:?}", self.file.name));
        let mut mistakes: Vec<_> = self.file.values.keys().filter(is_unknown).map(unknown_key).collect();
        let mut others = Vec::new();
        for name in self.environment.keys().filter(|name| !is_of_orchestrator(name)) {
            if settings.iter().any(|setting| setting.variable() == *name) {
                continue;
            }
            let key = name.strip_prefix(PREFIX).unwrap_or(name).to_lowercase();
            let similar = |setting: &&Setting| strsim::damerau_levenshtein(setting.key, &key) <= MAX_TYPOS;
            match settings.iter().find(similar) {
                Some(setting) => {
                    mistakes.push(SettingError(format!("{name}: unknown setting; {} is one", setting.variable())));
                }
                None => others.push(name.clone()),
            }
        }
        UnknownSettings { mistakes, others }
    }

    /// Reads a setting with a default.
    pub(super) fn read<T>(&self, setting: &Setting, default: &str, parser: Parser<T>) -> Result<T, SettingError> {
        let sourced_value = self.value_of(setting, parser.form)?;
        let default_value = || GivenValue { name: format!("default of {}", setting.key), text: default.to_owned() };
        sourced_value.unwrap_or_else(default_value).parse(&parser)
    }

    /// Reads a setting without a default.
    pub(super) fn read_optional<T>(&self, setting: &Setting, parser: Parser<T>) -> Result<Option<T>, SettingError> {
        self.value_of(setting, parser.form)?.map(|sourced_value| sourced_value.parse(&parser)).transpose()
    }

    /// The name of a setting in the first source that has a value for it.
    pub(super) fn name_in_source(&self, setting: &Setting) -> Result<Option<String>, SettingError> {
        Ok(self.value_of(setting, ValueForm::Text)?.map(|sourced_value| sourced_value.name))
    }

    /// The value of a setting from the first source that has one. An empty text is not a value.
    fn value_of(&self, setting: &Setting, form: ValueForm) -> Result<Option<GivenValue>, SettingError> {
        if let Some(text) = self.flags.get(setting.key).filter(|text| !text.is_empty()) {
            return Ok(Some(GivenValue { name: setting.flag(), text: text.clone() }));
        }
        let name = setting.variable();
        if let Some(value) = self.environment.get(&name).filter(|value| !value.is_empty()) {
            return match value.clone().into_string() {
                Ok(text) => Ok(Some(GivenValue { name, text })),
                Err(_) => Err(SettingError(format!("{name}: not valid UTF-8"))),
            };
        }
        self.file.value_of(setting, form)
    }
}

/// Returns true for a variable that Kubernetes or Docker set for a service whose name begins with `chancery`:
/// `CHANCERY_PORT`, `CHANCERY_SERVICE_HOST`, `CHANCERY_API_PORT_8000_TCP_ADDR`.
fn is_of_orchestrator(name: &str) -> bool {
    name.split('_').any(|word| ["PORT", "SERVICE"].contains(&word))
}

/// The values of `chancery.toml`.
#[derive(Clone, Default)]
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

    fn value_of(&self, setting: &Setting, form: ValueForm) -> Result<Option<GivenValue>, SettingError> {
        let Some(value) = self.values.get(setting.key) else { return Ok(None) };
        let name = format!("{}, {}", self.name, setting.key);
        match (text_of(value, form), form) {
            (Some(text), _) => {
                Ok(Some(GivenValue { name, text }).filter(|sourced_value| !sourced_value.text.is_empty()))
            }
            (None, ValueForm::List) => Err(SettingError(format!("{name}: expected a text or a list of texts"))),
            (None, _) => Err(SettingError(format!("{name}: expected a text or a whole number"))),
        }
    }
}

/// The text of a value of the file, or `None` for a value of another form.
fn text_of(value: &toml::Value, form: ValueForm) -> Option<String> {
    match (value, form) {
        (toml::Value::String(text), _) => Some(text.clone()),
        (toml::Value::Integer(number), _) => Some(number.to_string()),
        (toml::Value::Boolean(value), ValueForm::Boolean) => Some(value.to_string()),
        (toml::Value::Array(items), ValueForm::List) => {
            let texts = items.iter().map(|item| item.as_str()).collect::<Option<Vec<_>>>();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}
