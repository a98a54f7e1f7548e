//! The description of a setting, and the macro that derives everything else from it.

use std::fmt;

/// The prefix of the environment variables of all settings.
pub const PREFIX: &str = "CHANCERY_";

/// The description of a setting.
pub struct Setting {
    /// The key in the settings file. The names of the flag and of the variable follow from it.
    pub key: &'static str,
    /// The form or the unit of the value: `URL`, `SECONDS`.
    pub unit: &'static str,
    /// The effect of a setting without a value.
    pub default: SettingDefault,
    /// The lines of the doc comment. The first paragraph is the help of the flag.
    pub doc: &'static [&'static str],
}

/// The effect of a setting without a value.
pub enum SettingDefault {
    /// The setting has this value. The empty text stands for an empty list.
    Value(&'static str),
    /// The setting has no value, with this consequence.
    NoValue(&'static str),
}

impl Setting {
    /// Returns the name of the environment variable, for example `CHANCERY_HISTORY_LISTEN`.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_uppercase())
    }

    /// Returns the flag, for example `--history-listen`.
    pub fn flag(&self) -> String {
        format!("--{}", self.key.replace('_', "-"))
    }

    /// Returns the help of the flag.
    pub fn help(&self) -> String {
        format!("{} [default: {}]", self.paragraphs().0, self.default)
    }

    /// Returns the first paragraph of the doc comment as one line, and all further paragraphs as another line.
    pub fn paragraphs(&self) -> (String, String) {
        let end = self.doc.iter().position(|line| line.trim().is_empty()).unwrap_or(self.doc.len());
        let (summary, details) = self.doc.split_at(end);
        let one_line = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        (one_line(summary), one_line(details).trim().to_owned())
    }
}

impl fmt::Display for SettingDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettingDefault::Value("") => "none",
            SettingDefault::Value(text) | SettingDefault::NoValue(text) => text,
        })
    }
}

/// Declares the settings. Each is written as
///
/// ```text
/// /// Help of the flag, in one line
/// ///
/// /// More sentences for the table of `docs/operations.md`.
/// key: Type { unit: "SECONDS", parse: parser, default: "900" }
/// ```
///
/// `default` is a value that `parser` reads. A setting without such a value has the type `Option<…>`, and `no_value`
/// instead of `default` states the consequence.
///
/// The macro derives the description ([`Setting`]) of each setting, the list of all settings, [`Flags`](super::Flags) for the
/// command line, [`ProgramSettings`](super::ProgramSettings), and a method of [`Sources`](super::sources::Sources) that
/// reads the setting.
macro_rules! declare_settings {
    ($(
        $(#[doc = $doc:literal])+
        $key:ident: $type:ty { unit: $unit:literal, parse: $parse:expr, $default:ident: $text:literal $(,)? }
    )+) => {
        /// The descriptions of the settings, by their keys.
        #[allow(non_upper_case_globals, reason = "a constant has the key of its setting")]
        pub mod described {
            use super::{Setting, SettingDefault, declare_settings};
            $(pub const $key: Setting = Setting {
                key: stringify!($key),
                unit: $unit,
                default: declare_settings!(@describe $default $text),
                doc: &[$($doc),+],
            };)+
        }

        /// All settings, in the order of their declaration.
        pub const SETTINGS: &[Setting] = &[$(described::$key),+];

        /// The settings as the command line gives them. Each is a text that is parsed later, so a wrong value gets the same
        /// message from every source.
        #[derive(clap::Args, Default, Clone)]
        #[command(next_help_heading = "Settings (also as CHANCERY_… in the environment, or in chancery.toml)")]
        pub struct Flags {
            $(#[arg(long, global = true, value_name = described::$key.unit, help = described::$key.help())]
            pub $key: Option<String>,)+
        }

        impl Flags {
            /// Returns the given flags, by the keys of their settings.
            pub fn by_key(&self) -> std::collections::BTreeMap<&'static str, String> {
                let flags = [$((stringify!($key), &self.$key)),+];
                flags.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))).collect()
            }
        }

        /// The settings after validation.
        #[derive(Clone)]
        pub struct ProgramSettings {
            $($(#[doc = $doc])+
            pub $key: $type,)+
            /// The variables `CHANCERY_…` that are not settings, except those of an orchestrator.
            pub unknown_variables: Vec<String>,
        }

        impl ProgramSettings {
            /// Reads each setting, in the order of their declaration.
            pub(super) fn read(
                sources: &Sources,
                unknown_variables: Vec<String>,
            ) -> Result<ProgramSettings, SettingError> {
                Ok(ProgramSettings { $($key: sources.$key()?,)+ unknown_variables })
            }
        }

        impl ProgramSettings {
            /// The mistakes of all settings, in the order of their declaration.
            pub(super) fn mistakes(sources: &Sources) -> Vec<SettingError> {
                [$(sources.$key().err()),+].into_iter().flatten().collect()
            }
        }

        impl Sources {
            $(pub(super) fn $key(&self) -> Result<$type, SettingError> {
                declare_settings!(@read $default $text, self, &described::$key, $parse)
            })+
        }
    };
    (@describe default $value:literal) => { SettingDefault::Value($value) };
    (@describe no_value $consequence:literal) => { SettingDefault::NoValue($consequence) };
    (@read default $value:literal, $sources:expr, $setting:expr, $parse:expr) => {
        $sources.read($setting, $value, $parse)
    };
    (@read no_value $consequence:literal, $sources:expr, $setting:expr, $parse:expr) => {
        $sources.read_optional($setting, $parse)
    };
}

pub(super) use declare_settings;
