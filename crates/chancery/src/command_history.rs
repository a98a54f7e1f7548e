//! Connects commands to the history service of their database. While no server runs, a command opens the embedded one. Otherwise it
//! uses `CHANCERY_HISTORY_URL`, or the address at which a server last reached the service. The command refuses the service of
//! another database.

use crate::data_directory;
use crate::open::{CommandFailure, history_at, history_engine, history_service};
use crate::output::print_error_line;
use crate::settings::{ProgramSettings, address_of};
use history::engine::HistoryEngine;
use history::service::HistoryService;
use history::sqlite::HistorySqlite;
use platform::builds;
use platform::events;
use platform::events::history_client::{CallFailure, HistoryAddress, HistoryClient};
use platform::events::history_tenants::TenantError;
use platform::events::own_history::{self, StoredService};
use platform::kit::app::App;
use platform::kit::build::Build;
use platform::kit::callers::STALE_AFTER;
use std::fmt::Display;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use web::clock::{Clock, random_token};
use web::listener::{self, Limits};

/// The maximum time in which the service must return its id.
const PATIENCE: Duration = Duration::from_secs(3);

/// The result of a command's search. If the address is available, [`events::client`] calls the service from now on.
#[derive(Default)]
pub struct ReachedService {
    /// The reason for which the service does not answer correctly: a line with address and setting.
    pub away: Option<String>,
    served: Option<CommandHistory>,
}

impl ReachedService {
    /// Waits until running servers serve a new build, including servers that have just cached its absence. Prints a remark if it
    /// has no tenant yet.
    pub async fn finish_new_build(&self, app: &App, build: &Build) -> Result<(), CommandFailure> {
        tokio::time::sleep(STALE_AFTER).await;
        if let Some(reason) = &self.away {
            print_error_line("The history service was not reached; a running server makes the build's tenant there.");
            print_error_line(reason);
        } else if !builds::has_history(app, build).await? {
            print_error_line("The history service did not make the build's tenant; a running server does it later.");
        }
        Ok(())
    }

    /// Ends the service that was started for the command.
    pub async fn close(self) {
        if let Some(served) = self.served {
            served.task.abort();
            served.service.engine.close().await;
        }
    }
}

/// Connects a command to the history service of its database. Refuses a service of another database. If neither the database nor
/// the settings name a service, the command has none.
pub async fn connect(app: &App, settings: &ProgramSettings) -> Result<ReachedService, CommandFailure> {
    let notes = own_history::notes(&app.store).await.map_err(|error| error.to_string())?;
    let mut remote = match &settings.history_url {
        Some(url) => Some(fetch_service_id(app, settings, url).await?),
        None => None,
    };
    // The address can be the public one of a server that does not run.
    let is_answered = remote.as_ref().is_some_and(|remote| remote.away.is_none());
    let embedded = if is_answered { None } else { own_embedded(settings, &notes).await? };
    let mut url = notes.url;
    if let Some(engine) = embedded {
        if let Some(locks) = data_directory::without_server(&history_directory(settings)).await? {
            let served = CommandHistory::start(settings, engine, locks).await?;
            let remote = verify(app, HistoryClient::for_command(&served.address)?).await?;
            return Ok(ReachedService { served: Some(served), ..remote.connect(app) });
        }
        engine.close().await;
        url = url.or_else(|| Some(address_of(settings.history_listen)));
    }
    match (&remote, url) {
        (None, Some(url)) => remote = Some(fetch_service_id(app, settings, &url).await?),
        (Some(ServiceIdentity { away: Some(_), .. }), Some(url)) if settings.history_url.as_ref() != Some(&url) => {
            // Errors of the stored address are ignored, because messages must name the address of the settings.
            if let Ok(noted @ ServiceIdentity { away: None, .. }) = fetch_service_id(app, settings, &url).await {
                remote = Some(noted);
            }
        }
        _ => {}
    }
    Ok(remote.map_or_else(ReachedService::default, |remote| remote.connect(app)))
}

/// A history service and the result of the request for its id.
struct ServiceIdentity {
    client: Option<HistoryClient>,
    /// See [`ReachedService::away`].
    away: Option<String>,
}

impl ServiceIdentity {
    fn connect(self, app: &App) -> ReachedService {
        if let Some(client) = self.client {
            events::connect(app, client);
        }
        ReachedService { away: self.away, served: None }
    }
}

/// The history service that a database uses from now on.
pub struct AdoptedService {
    pub id: String,
    /// Its address, its directory, or the setting that names its database.
    pub place: String,
}

/// Adopts the history service of the settings for the database, for `chancery history adopt`.
pub async fn adopt(app: &App, settings: &ProgramSettings, new_tenants: bool) -> Result<AdoptedService, CommandFailure> {
    let (id, url, place) = match &settings.history_url {
        Some(url) => {
            let service_answer = client(settings, url)?.service_id(PATIENCE).await;
            let id = service_answer.map_err(|reason| {
                service_failure(url, &format!("{reason}; without this setting the embedded history is meant"))
            })?;
            let id = id.ok_or_else(|| service_failure(url, &"the history service is of a version that has no id"))?;
            (id, Some(url.as_str()), url.clone())
        }
        None => {
            let directory = history_directory(settings);
            let is_embedded = settings.history_database_url.is_none();
            if is_embedded && !directory.join("control.db").exists() {
                let place = directory.display();
                return Err(format!(
                    "CHANCERY_HISTORY_URL: must be set, since there is no history in {place} (`chancery serve history` \
                     makes one)"
                ));
            }
            let place = match is_embedded {
                true => directory.display().to_string(),
                false => "CHANCERY_HISTORY_DATABASE_URL".to_owned(),
            };
            let engine = history_engine(settings).await?;
            let id = engine.id().await.map_err(|error| format!("{place}: {error}"))?;
            engine.close().await;
            (id, None, place)
        }
    };
    own_history::adopt(&app.store, &id, url, new_tenants).await.map_err(|error| error.to_string())?;
    Ok(AdoptedService { id, place })
}

fn history_directory(settings: &ProgramSettings) -> PathBuf {
    settings.data.join("history")
}

/// Formats a line about a service: the setting, the address and the error.
fn service_failure(url: &str, reason: &dyn Display) -> CommandFailure {
    format!("CHANCERY_HISTORY_URL: {url}: {reason}")
}

fn client(settings: &ProgramSettings, url: &str) -> Result<HistoryClient, CommandFailure> {
    HistoryClient::for_command(&history_at(settings, url)?)
}

async fn fetch_service_id(app: &App, settings: &ProgramSettings, url: &str) -> Result<ServiceIdentity, CommandFailure> {
    match client(settings, url) {
        Ok(client) => verify(app, client).await,
        Err(missing) => Ok(ServiceIdentity { client: None, away: Some(missing) }),
    }
}

/// Refuses a history service that belongs to another database.
async fn verify(app: &App, client: HistoryClient) -> Result<ServiceIdentity, CommandFailure> {
    let outage = match own_history::verify(app, &client, PATIENCE).await {
        Ok(()) => None,
        Err(TenantError::Service(CallFailure::Foreign(reason))) => {
            return Err(service_failure(client.url(), &reason));
        }
        Err(TenantError::Service(failure)) => Some(service_failure(client.url(), &failure)),
        Err(TenantError::Store(error)) => return Err(error.to_string()),
    };
    Ok(ServiceIdentity { client: Some(client), away: outage })
}

/// Opens the embedded history of the data directory, if it belongs to the database. That is the stored service or, without one,
/// the service that a server with these settings would use.
async fn own_embedded(
    settings: &ProgramSettings,
    notes: &StoredService,
) -> Result<Option<HistorySqlite>, CommandFailure> {
    let directory = history_directory(settings);
    if !directory.join("control.db").exists() {
        return Ok(None);
    }
    let engine =
        HistorySqlite::open(directory, Clock::system()).await.map_err(|error| format!("CHANCERY_DATA: {error}"))?;
    let is_usual = settings.database_url.is_none()
        && settings.history_url.is_none()
        && settings.history_database_url.is_none()
        && notes.id.is_none()
        && notes.check(Some(engine.id())).is_ok();
    if is_usual || notes.id.as_deref() == Some(engine.id()) {
        return Ok(Some(engine));
    }
    engine.close().await;
    Ok(None)
}

/// The embedded history. This process serves it to itself on a port of its own, while no server does.
pub struct CommandHistory {
    address: HistoryAddress,
    service: Arc<HistoryService>,
    task: JoinHandle<()>,
    _locks: [File; 2],
}

impl CommandHistory {
    async fn start(
        settings: &ProgramSettings,
        engine: HistorySqlite,
        locks: [File; 2],
    ) -> Result<CommandHistory, CommandFailure> {
        let failed = |error: std::io::Error| format!("the embedded history cannot be served: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        // Only this process uses the key.
        let address = HistoryAddress { url: address_of(bound), api_key: random_token() };
        let service = history_service(settings, HistoryEngine::Sqlite(engine), bound, address.api_key.clone())?;
        let service = Arc::new(service);
        let served = service.clone();
        let handler = move |request, peer| served.clone().answer(request, peer);
        let task = tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
        Ok(CommandHistory { address, service, task, _locks: locks })
    }
}
