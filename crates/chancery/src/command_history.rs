//! How a command reaches the history service of its database: the embedded one directly while no server runs, otherwise
//! where `CHANCERY_HISTORY_URL` says, or where a server last reached it. Whichever answers must be the database's own.

use crate::data_directory;
use crate::open::{Failure, history_at, history_engine, history_service};
use crate::output::remark;
use crate::settings::{Settings, address_of};
use history::engine::Engine;
use history::service::Service;
use history::sqlite::Sqlite;
use platform::builds;
use platform::events;
use platform::events::history_client::{Failure as CallFailure, HistoryAddress, HistoryClient};
use platform::events::history_tenants::TenantError;
use platform::events::own_history::{self, Notes};
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

/// How long the service may take to tell its id.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a command found; [`events::client`] calls the service from now on, if its address is known.
#[derive(Default)]
pub struct Reached {
    /// Why the service does not answer as it should: a line that names address and setting.
    pub away: Option<String>,
    served: Option<ServedHistory>,
}

impl Reached {
    /// Waits until running servers serve a new build, also those that have just learnt of no such build, and remarks where it
    /// has no tenant yet.
    pub async fn finish_new_build(&self, app: &App, build: &Build) -> Result<(), Failure> {
        tokio::time::sleep(STALE_AFTER).await;
        if let Some(reason) = &self.away {
            remark("The history service was not reached; a running server makes the build's tenant there.");
            remark(reason);
        } else if !builds::has_history(app, build).await? {
            remark("The history service did not make the build's tenant; a running server does it later.");
        }
        Ok(())
    }

    /// Ends what was begun for the command.
    pub async fn close(self) {
        if let Some(served) = self.served {
            served.task.abort();
            served.service.engine.close().await;
        }
    }
}

/// Connects a command to the history service of its database. A service that is not its own is refused. Where neither the
/// database nor the settings say which one it is, the command has none.
pub async fn connect(app: &App, settings: &Settings) -> Result<Reached, Failure> {
    let notes = own_history::notes(&app.store).await.map_err(|error| error.to_string())?;
    let mut asked = match &settings.history_url {
        Some(url) => Some(ask(app, settings, url).await?),
        None => None,
    };
    // The address may be the public one of a server that does not run.
    let is_answered = asked.as_ref().is_some_and(|asked| asked.away.is_none());
    let embedded = if is_answered { None } else { own_embedded(settings, &notes).await? };
    let mut url = notes.url;
    if let Some(engine) = embedded {
        if let Some(locks) = data_directory::without_server(&history_directory(settings)).await? {
            let served = ServedHistory::start(settings, engine, locks).await?;
            let asked = verify(app, HistoryClient::of_command(&served.address)?).await?;
            return Ok(Reached { served: Some(served), ..asked.connect(app) });
        }
        engine.close().await;
        url = url.or_else(|| Some(address_of(settings.history_listen)));
    }
    match (&asked, url) {
        (None, Some(url)) => asked = Some(ask(app, settings, &url).await?),
        (Some(Asked { away: Some(_), .. }), Some(url)) if settings.history_url.as_ref() != Some(&url) => {
            // Whatever is wrong there, the address that is set is the one to name.
            if let Ok(noted @ Asked { away: None, .. }) = ask(app, settings, &url).await {
                asked = Some(noted);
            }
        }
        _ => {}
    }
    Ok(asked.map_or_else(Reached::default, |asked| asked.connect(app)))
}

/// A service that was asked for its id.
struct Asked {
    client: Option<HistoryClient>,
    /// See [`Reached::away`].
    away: Option<String>,
}

impl Asked {
    fn connect(self, app: &App) -> Reached {
        if let Some(client) = self.client {
            events::connect(app, client);
        }
        Reached { away: self.away, served: None }
    }
}

/// Makes the history service that the settings name the database's own: what `chancery history adopt` does. Returns a
/// line that says which one that is.
pub async fn adopt(app: &App, settings: &Settings, new_tenants: bool) -> Result<String, Failure> {
    let (id, url, place) = match &settings.history_url {
        Some(url) => {
            let told = client(settings, url)?.service_id(PATIENCE).await;
            let id = told
                .map_err(|reason| at(url, &format!("{reason}; without this setting the embedded history is meant")))?;
            let id = id.ok_or_else(|| at(url, &"the history service is of a version that has no id"))?;
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
    Ok(format!("The history service of this database is {id} now ({place})."))
}

fn history_directory(settings: &Settings) -> PathBuf {
    settings.data.join("history")
}

/// A line about a service: the setting, the address, and what is wrong.
fn at(url: &str, reason: &dyn Display) -> Failure {
    format!("CHANCERY_HISTORY_URL: {url}: {reason}")
}

fn client(settings: &Settings, url: &str) -> Result<HistoryClient, Failure> {
    HistoryClient::of_command(&history_at(settings, url)?)
}

async fn ask(app: &App, settings: &Settings, url: &str) -> Result<Asked, Failure> {
    match client(settings, url) {
        Ok(client) => verify(app, client).await,
        Err(missing) => Ok(Asked { client: None, away: Some(missing) }),
    }
}

/// Refuses a service that is not the database's own.
async fn verify(app: &App, client: HistoryClient) -> Result<Asked, Failure> {
    let away = match own_history::verify(app, &client, PATIENCE).await {
        Ok(()) => None,
        Err(TenantError::Service(CallFailure::Foreign(reason))) => {
            return Err(at(client.url(), &reason));
        }
        Err(TenantError::Service(failure)) => Some(at(client.url(), &failure)),
        Err(TenantError::Store(error)) => return Err(error.to_string()),
    };
    Ok(Asked { client: Some(client), away })
}

/// The embedded history of the data directory, if it is the database's own: the one that is noted, or, where none is, the
/// one that a server with these settings would use.
async fn own_embedded(settings: &Settings, notes: &Notes) -> Result<Option<Sqlite>, Failure> {
    let directory = history_directory(settings);
    if !directory.join("control.db").exists() {
        return Ok(None);
    }
    let engine = Sqlite::open(directory, Clock::system()).await.map_err(|error| format!("CHANCERY_DATA: {error}"))?;
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

/// The embedded history, which this process serves to itself, on a port of its own, while no server does.
pub struct ServedHistory {
    address: HistoryAddress,
    service: Arc<Service>,
    task: JoinHandle<()>,
    _locks: [File; 2],
}

impl ServedHistory {
    async fn start(settings: &Settings, engine: Sqlite, locks: [File; 2]) -> Result<ServedHistory, Failure> {
        let failed = |error: std::io::Error| format!("the embedded history cannot be served: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        // Nobody else needs this key.
        let address = HistoryAddress { url: address_of(bound), api_key: random_token() };
        let service = history_service(settings, Engine::Sqlite(engine), bound, address.api_key.clone())?;
        let service = Arc::new(service);
        let served = service.clone();
        let handler = move |request, peer| served.clone().answer(request, peer);
        let task = tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
        Ok(ServedHistory { address, service, task, _locks: locks })
    }
}
