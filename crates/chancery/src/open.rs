//! Opens the application and the history service with the settings of the deployment, and reads or generates its keys
//! (`docs/operations.md`).

use crate::data_directory;
use crate::output::print_line;
use crate::secrets_file::{
    self, API_KEY, API_KEY_TOO_SHORT, HISTORY_API_KEY, SECRET_KEY, SIGNING_KEY, is_short_api_key, read_or_create,
};
use crate::settings::{FIRST_BUILD, ProgramSettings, address_of};
use history::clickhouse::ClickHouseEngine;
use history::engine::HistoryEngine;
use history::files::Files;
use history::service::HistoryService;
use history::sqlite::HistorySqlite;
use platform::builds::{self, BuildRow};
use platform::events::history_client::{HistoryAddress, HistoryClient};
use platform::kit::app::{App, OpenError};
use platform::kit::secret_key::{self, KeyError};
use platform::kit::signing::SigningKey;
use platform::{events, kit};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use web::clock::{Clock, random_token};

/// The reason for which a command failed, in one line.
pub type CommandFailure = String;

/// Opens the application without a history service. `bound` is the listener of the main API. Creates an embedded database if none
/// exists.
pub async fn open(settings: &ProgramSettings, bound: SocketAddr) -> Result<App, CommandFailure> {
    platform::open(config(settings, bound)?).await.map_err(|error| match error {
        OpenError::Store(error) if settings.database_url.is_none() => format!("CHANCERY_DATA: {error}"),
        OpenError::Key(error @ KeyError::Other) if settings.secret_key.is_none() => {
            format!("{error}, not with that of {}; put the right one back", settings.data.join(SECRET_KEY).display())
        }
        error => error.to_string(),
    })
}

/// Opens the application of a command. The command connects to the history service when it needs it ([`crate::command_history`]).
pub async fn open_for_command(settings: &ProgramSettings) -> Result<App, CommandFailure> {
    data_directory::must_exist(settings)?;
    open(settings, settings.listen).await
}

/// Connects the application of a server to its history service. `served` is the listener of the service in this process, if any.
pub fn connect_history(
    app: &App,
    settings: &ProgramSettings,
    served: Option<SocketAddr>,
) -> Result<(), CommandFailure> {
    let address = match (served, &settings.history_url) {
        // The application calls it directly, not by its public address.
        (Some(bound), _) => HistoryAddress { url: address_of(bound), api_key: history_api_key(settings)? },
        (None, Some(url)) => HistoryAddress { url: url.clone(), api_key: history_api_key(settings)? },
        // Another process serves it from the same data directory, with the same key.
        (None, None) => {
            HistoryAddress { url: address_of(settings.history_listen), api_key: history_api_key(settings)? }
        }
    };
    events::connect(app, HistoryClient::new(&address)?);
    Ok(())
}

/// Returns whether a key of the history service is neither set nor stored.
pub fn is_history_api_key_unknown(settings: &ProgramSettings) -> bool {
    settings.history_api_key.is_none() && matches!(read_kept(settings, HISTORY_API_KEY), Ok(None))
}

/// Returns the address of a history service for a command. The key must exist, because commands do not generate it.
pub fn history_at(settings: &ProgramSettings, url: &str) -> Result<HistoryAddress, CommandFailure> {
    let api_key = match &settings.history_api_key {
        Some(key) => Some(key.clone()),
        None => read_kept(settings, HISTORY_API_KEY)?,
    };
    let missing = || format!("CHANCERY_HISTORY_API_KEY: must be set to the key of the history service at {url}");
    Ok(HistoryAddress { url: url.to_owned(), api_key: api_key.ok_or_else(missing)? })
}

fn config(settings: &ProgramSettings, bound: SocketAddr) -> Result<platform::ApiSettings, CommandFailure> {
    let secret_key = secret_key(settings)?;
    Ok(platform::ApiSettings {
        kit: kit::settings::KitSettings {
            engine: engine(settings),
            store: Default::default(),
            data: settings.data.clone(),
            secret_key,
            api_key: api_key(settings)?,
            base_url: settings.base_url(bound),
            sign_in_url: settings.sign_in_url.clone(),
            fallback_build: settings.fallback_build.clone(),
            outbound_allow: settings.outbound_allow.clone(),
            trusted_proxies: settings.trusted_proxies.clone(),
            cors_origins: settings.cors_origins.clone(),
            console: settings.console,
            clock: Clock::system(),
            domains: Default::default(),
        },
        events: settings.events(),
        files: settings.files(),
        identity: settings.identity(),
        extensions: settings.extensions(),
        sequences: settings.sequences(),
    })
}

pub fn engine(settings: &ProgramSettings) -> store::StoreEngine {
    match &settings.database_url {
        Some(url) => store::StoreEngine::Postgres { url: url.clone() },
        None => store::StoreEngine::Sqlite { directory: settings.data.clone() },
    }
}

/// Returns the secret key: the one that is set, otherwise the one in the data directory. A key is generated only together with the
/// database, because another key could not decrypt the secrets in it.
pub fn secret_key(settings: &ProgramSettings) -> Result<String, CommandFailure> {
    if settings.database_url.is_some() {
        let missing = || "CHANCERY_SECRET_KEY: must be set with PostgreSQL, the same for all processes".to_owned();
        return settings.secret_key.clone().ok_or_else(missing);
    }
    let is_new = !settings.data.join("control.db").exists();
    match &settings.secret_key {
        Some(key) if is_new && secret_key::is_short(key) => {
            Err(format!("CHANCERY_SECRET_KEY: {}", secret_key::TOO_SHORT))
        }
        Some(key) => Ok(key.clone()),
        None if is_new => generated(&settings.data, SECRET_KEY),
        None => {
            let lost = || {
                let file = settings.data.join(SECRET_KEY);
                format!(
                    "CHANCERY_SECRET_KEY: must be set, or {} put back: the database was made with it",
                    file.display()
                )
            };
            read_kept(settings, SECRET_KEY)?.ok_or_else(lost)
        }
    }
}

/// Opens the history service; `bound` is its listener.
pub async fn open_history(settings: &ProgramSettings, bound: SocketAddr) -> Result<HistoryService, CommandFailure> {
    // The key comes first, because its failure names the file.
    let api_key = history_api_key(settings)?;
    history_service(settings, history_engine(settings).await?, bound, api_key)
}

/// Opens the engine of the history service.
pub async fn history_engine(settings: &ProgramSettings) -> Result<HistoryEngine, CommandFailure> {
    match &settings.history_database_url {
        Some(url) => {
            let engine =
                ClickHouseEngine::open(url).map_err(|error| format!("CHANCERY_HISTORY_DATABASE_URL: {error}"))?;
            Ok(HistoryEngine::ClickHouse(engine))
        }
        None => {
            let engine = HistorySqlite::open(settings.data.join("history"), Clock::system()).await;
            Ok(HistoryEngine::Sqlite(engine.map_err(|error| format!("CHANCERY_DATA: {error}"))?))
        }
    }
}

/// Creates the history service on an engine. `bound` is its listener.
pub fn history_service(
    settings: &ProgramSettings,
    engine: HistoryEngine,
    bound: SocketAddr,
    api_key: String,
) -> Result<HistoryService, CommandFailure> {
    let files = Files::open(
        settings.files_url.as_deref(),
        settings.data.join("history").join("files"),
        settings.history_url(bound),
        // Every process of the history service has this key, so each can check the file links of the others.
        api_key.as_bytes(),
        Clock::system(),
    )?;
    let settings = history::service::HistorySettings { api_key, batch_events: settings.history_batch_events };
    Ok(HistoryService::new(engine, files, settings))
}

/// Returns the key that clients of the history service send: the one that is set, otherwise a generated one.
pub fn history_api_key(settings: &ProgramSettings) -> Result<String, CommandFailure> {
    match &settings.history_api_key {
        Some(key) => Ok(key.clone()),
        None => long_enough(settings, HISTORY_API_KEY, generated(&settings.data, HISTORY_API_KEY)?),
    }
}

/// Returns the key that signs receipts: the one that is set, otherwise the one in the data directory, which the first call
/// generates. `None` with PostgreSQL and without the setting, since each machine would generate another one.
pub fn signing_key(settings: &ProgramSettings) -> Result<Option<SigningKey>, CommandFailure> {
    let text = match &settings.signing_key {
        Some(key) => key.clone(),
        None if settings.database_url.is_some() => return Ok(None),
        None => generated(&settings.data, SIGNING_KEY)?,
    };
    let failed = |reason| format!("CHANCERY_SIGNING_KEY: {}: {reason}", settings.data.join(SIGNING_KEY).display());
    SigningKey::parse(&text).map(Some).map_err(failed)
}

/// Returns the `X-API-Key` of the main API: the one that is set, otherwise the one in the data directory, if it exists. A key that
/// is too short is an error.
pub fn api_key(settings: &ProgramSettings) -> Result<Option<String>, CommandFailure> {
    match (&settings.api_key, read_kept(settings, API_KEY)?) {
        (Some(key), _) => Ok(Some(key.clone())),
        (None, Some(stored_key)) => long_enough(settings, API_KEY, stored_key).map(Some),
        (None, None) => Ok(None),
    }
}

/// Refuses a stored key that is too short.
pub fn long_enough(settings: &ProgramSettings, name: &str, key: String) -> Result<String, CommandFailure> {
    if is_short_api_key(&key) {
        let (setting, file) = (name.replace('-', "_").to_uppercase(), settings.data.join(name));
        return Err(format!("CHANCERY_{setting}: {}: {API_KEY_TOO_SHORT}", file.display()));
    }
    Ok(key)
}

/// Reads a key from the data directory, if it exists.
pub fn read_kept(settings: &ProgramSettings, name: &str) -> Result<Option<String>, CommandFailure> {
    secrets_file::read_kept(&settings.data, name).map_err(|error| format!("CHANCERY_DATA: {error}"))
}

/// Reads a key from the data directory, or generates it there.
pub fn generated(data: &Path, name: &str) -> Result<String, CommandFailure> {
    read_or_create(data, name).map_err(|error| format!("CHANCERY_DATA: {error}"))
}

/// Returns whether the key of the embedded history was lost. A new key is then generated, and the service refuses callers with the
/// lost one.
pub fn is_history_api_key_lost(settings: &ProgramSettings) -> bool {
    let history = settings.data.join("history").join("control.db");
    settings.history_api_key.is_none() && history.exists() && !settings.data.join(HISTORY_API_KEY).exists()
}

/// Creates the build `localhost` with a super admin when the embedded store is empty (`docs/operations.md`, "Embedded"). On
/// PostgreSQL it prints the command that creates a build. `is_making` is true while an interruption would leave a build whose
/// password nobody has seen.
pub async fn first_start(app: &App, settings: &ProgramSettings, is_making: &AtomicBool) -> Result<(), CommandFailure> {
    let builds = builds::list(app).await?;
    if builds.iter().any(|build| build.state == "active") {
        return tell_of_builds(app, settings, &builds).await;
    }
    if settings.database_url.is_some() || builds.iter().any(|build| build.state != "creating") {
        let _ = print_line(
            "There is no build yet, so every page is a 404: `chancery build create DOMAIN --admin-username EMAIL` makes \
             one, which is served at once to requests for that host.",
        );
        return Ok(());
    }
    is_making.store(true, Ordering::Relaxed);
    let result = make_first(app, settings).await;
    is_making.store(false, Ordering::Relaxed);
    result
}

async fn make_first(app: &App, settings: &ProgramSettings) -> Result<(), CommandFailure> {
    let password = settings.admin_password.clone().unwrap_or_else(random_token);
    builds::create_first(app, FIRST_BUILD, &settings.admin_username, &password).await.map_err(|error| {
        // The user's fields come from settings here.
        error.replace("username: ", "CHANCERY_ADMIN_USERNAME: ").replace("password: ", "CHANCERY_ADMIN_PASSWORD: ")
    })?;
    let (message, username) = ("The build localhost was made.", &settings.admin_username);
    let _ = match settings.admin_password {
        Some(_) => print_line(format_args!("{message} Sign in as {username}.")),
        None => print_line(format_args!(
            "{message} Sign in as {username} with the password {password} (it is shown this once)."
        )),
    };
    Ok(())
}

/// Prints hints for the operator: a first password without a sign-in, and a fallback build that does not exist.
async fn tell_of_builds(app: &App, settings: &ProgramSettings, builds: &[BuildRow]) -> Result<(), CommandFailure> {
    let is_embedded = settings.database_url.is_none();
    if let [build] = builds
        && is_embedded
        && build.domain == FIRST_BUILD
        && settings.admin_password.is_none()
        && !builds::was_signed_in(app, build.id).await?
    {
        let _ = print_line(format_args!(
            "Nobody has signed in to the build localhost yet. If nobody knows its password: `chancery user set-password \
             --build localhost --username {}`.",
            settings.admin_username
        ));
    }
    if let Some(fallback) = &settings.fallback_build
        && !builds.iter().any(|build| build.domain == *fallback)
    {
        let _ = print_line(format_args!(
            "CHANCERY_FALLBACK_BUILD: there is no build {fallback}; other hosts than those of the builds get 404."
        ));
    }
    Ok(())
}
