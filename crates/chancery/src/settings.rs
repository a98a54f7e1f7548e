//! The settings of a deployment (`docs/operations.md`).
//!
//! A setting is declared once, in `settings/declared.rs`. The declaration of `history_listen` is also that of the flag
//! `--history-listen`, of the environment variable `CHANCERY_HISTORY_LISTEN`, of the key `history_listen` in
//! `chancery.toml` and of the row in the documentation. The first source with a value is used, otherwise the default. An
//! empty value counts as unset, since a container file passes on an unset variable as an empty one.
//!
//! The error of a wrong value is one line that names the setting in its source. [`ProgramSettings`] does not implement
//! `Debug`, since it contains passwords.
//!
//! Unknown keys of the file and misspelled variables are errors. Other unknown variables `CHANCERY_…` cause a warning,
//! since machines also set such variables (`CHANCERY_PORT` for a service called chancery).

use declared::described;
use platform::{events, extensions, files, identity, sequences};
use setting::PREFIX;
use sources::{Environment, SettingError, SettingsFile, Sources};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

pub use declared::{Flags, ProgramSettings, SETTINGS};
pub use parsers::LogFormat;
#[cfg(test)]
pub use setting::Setting;

mod declared;
mod parsers;
mod setting;
mod sources;
#[cfg(test)]
mod tests;

/// The settings file without `--config`. It may be missing.
const DEFAULT_FILE: &str = "chancery.toml";

/// The build that the first start of an embedded deployment creates, and that then serves unknown hosts.
pub const FIRST_BUILD: &str = "localhost";

impl ProgramSettings {
    /// The settings of this process: its flags, its environment, and `config` (it must exist) or `chancery.toml` in the
    /// working directory (it may be absent).
    pub fn load(flags: &Flags, config: Option<&Path>) -> Result<ProgramSettings, SettingError> {
        ProgramSettings::from_sources(flags, process_environment(), read_file(config)?)
    }

    /// Reads the settings as [`ProgramSettings::load`] does. Returns all mistakes, where that returns the first one.
    pub fn check(flags: &Flags, config: Option<&Path>) -> Result<ProgramSettings, Vec<SettingError>> {
        match read_file(config) {
            Ok(file) => ProgramSettings::check_sources(flags, process_environment(), file),
            Err(mistake) => {
                let others = ProgramSettings::check_sources(flags, process_environment(), SettingsFile::default());
                Err([vec![mistake], others.err().unwrap_or_default()].concat())
            }
        }
    }

    fn check_sources(
        flags: &Flags,
        environment: Environment,
        file: SettingsFile,
    ) -> Result<ProgramSettings, Vec<SettingError>> {
        let sources = Sources { flags: flags.by_key(), environment: environment.clone(), file: file.clone() };
        let mut mistakes = sources.unknown_settings(SETTINGS).mistakes;
        mistakes.extend(ProgramSettings::mistakes(&sources));
        if let Err(mistake) = refuse_unshared_key(&sources)
            && !mistakes.contains(&mistake)
        {
            mistakes.push(mistake);
        }
        match mistakes.is_empty() {
            true => ProgramSettings::from_sources(flags, environment, file).map_err(|mistake| vec![mistake]),
            false => Err(mistakes),
        }
    }

    fn from_sources(
        flags: &Flags,
        environment: Environment,
        file: SettingsFile,
    ) -> Result<ProgramSettings, SettingError> {
        let sources = Sources { flags: flags.by_key(), environment, file };
        let unknown_variables = sources.refuse_unknown(SETTINGS)?;
        refuse_unshared_key(&sources)?;
        let fallback_build = fallback_build(&sources)?;
        Ok(ProgramSettings { fallback_build, ..ProgramSettings::read(&sources, unknown_variables)? })
    }

    /// The settings of the module events, without the address of the history service.
    pub fn events(&self) -> events::EventSettings {
        events::EventSettings { history: None, outbox_bytes: self.outbox_bytes }
    }

    /// The settings of the module files.
    pub fn files(&self) -> files::FileSettings {
        files::FileSettings {
            files_url: self.files_url.clone(),
            upload_seconds: self.upload_seconds,
            environment: None,
        }
    }

    /// The settings of the module identity.
    pub fn identity(&self) -> identity::IdentitySettings {
        identity::IdentitySettings {
            lock_attempts: self.lock_attempts,
            lock_seconds: self.lock_seconds,
            address_attempts: self.address_attempts,
            access_token_seconds: self.access_token_seconds,
            refresh_token_seconds: self.refresh_token_seconds,
            sso_provider_a_issuer: self.sso_provider_a_issuer.clone(),
            sso_provider_b_issuer: self.sso_provider_b_issuer.clone(),
            hash_cost: Default::default(),
        }
    }

    /// The settings of the module extensions.
    pub fn extensions(&self) -> extensions::ExtensionSettings {
        extensions::ExtensionSettings { document_store_url: self.document_store_url.clone(), ..Default::default() }
    }

    /// The settings of the module sequences.
    pub fn sequences(&self) -> sequences::SequenceSettings {
        sequences::SequenceSettings { runs: self.sequences }
    }

    /// The public address of the main API; `bound` is where it really listens.
    pub fn base_url(&self, bound: SocketAddr) -> String {
        self.base_url.clone().unwrap_or_else(|| address_of(bound))
    }

    /// The public address of the history service; `bound` is where it really listens.
    pub fn history_url(&self, bound: SocketAddr) -> String {
        self.history_url.clone().unwrap_or_else(|| address_of(bound))
    }
}

/// Reads the settings file: `config` (it must exist) or `chancery.toml` in the working directory (it may be absent).
fn read_file(config: Option<&Path>) -> Result<SettingsFile, SettingError> {
    let path = config.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && config.is_none() => String::new(),
        Err(error) => return Err(SettingError(format!("{}: {error}", path.display()))),
    };
    SettingsFile::parse(&path.display().to_string(), &text)
}

/// The variables `CHANCERY_…` of this process.
fn process_environment() -> Environment {
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    variables.filter(|(name, _)| name.starts_with(PREFIX)).collect()
}

/// Refuses PostgreSQL without a secret key, since each process would generate its own key.
fn refuse_unshared_key(sources: &Sources) -> Result<(), SettingError> {
    let (database_url, secret_key) = (sources.database_url()?, sources.secret_key()?);
    match sources.name_in_source(&described::database_url)? {
        Some(name) if database_url.is_some() && secret_key.is_none() => {
            Err(SettingError(format!("CHANCERY_SECRET_KEY: must be set with {name}, the same for all processes")))
        }
        _ => Ok(()),
    }
}

/// The build that serves unknown hosts. Only an embedded deployment has one without the setting.
fn fallback_build(sources: &Sources) -> Result<Option<String>, SettingError> {
    let is_embedded = sources.database_url()?.is_none();
    Ok(sources.fallback_build()?.or_else(|| is_embedded.then(|| FIRST_BUILD.to_owned())))
}

/// The address of a listener, with the loopback address for one that listens on all addresses.
pub fn address_of(bound: SocketAddr) -> String {
    let mut address = bound;
    if bound.ip().is_unspecified() {
        address.set_ip(match bound {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    format!("http://{address}")
}
