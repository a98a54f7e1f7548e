//! `chancery serve`: the main API, the history service, or both in one process.

use crate::data_directory;
use crate::descriptors;
use crate::log;
use crate::metrics::{self, Measured};
use crate::open::{
    CommandFailure, connect_history, first_start, is_history_api_key_lost, is_history_api_key_unknown, open,
    open_history,
};
use crate::output::print_line;
use crate::passed_sockets::{API, HISTORY, PassedSockets};
use crate::secrets_file::HISTORY_API_KEY;
use crate::settings::{ProgramSettings, address_of};
use history::engine::HistoryEngine;
use history::file_removal;
use history::service::HistoryService;
use platform::builds;
use platform::events::own_history::{self, ForeignService, ServiceFailure};
use platform::events::relay;
use platform::kit;
use platform::kit::app::App;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use web::listener::{self, Limits};
use web::places::SpeaksForMany;

/// The time for which the history service runs longer than the main API, to receive the last events.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// The maximum number of connections that wait in the kernel until they are accepted. When this queue is full, a client sees an
/// open connection, while the kernel repeats the handshake after 1, 3, 7 and 15 seconds. Linux limits it to `net.core.somaxconn`,
/// which is 4,096 by default.
const BACKLOG: u32 = 4096;

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum ServeStage {
    Serving,
    /// The main API accepts no more requests.
    Stopping,
    /// The history service accepts no more requests either.
    Stopped,
}

/// A running main API.
struct ServedApi {
    app: App,
    task: JoinHandle<()>,
    /// Locks other servers out of an embedded database.
    _lock: Option<File>,
}

/// A running history service.
struct HistoryListener {
    service: Arc<HistoryService>,
    bound: SocketAddr,
    task: JoinHandle<()>,
    /// The task that removes files without an event.
    removal: JoinHandle<()>,
    /// Signals to commands that the embedded history is served.
    _lock: Option<File>,
}

/// Serves until SIGTERM or SIGINT, then finishes the running requests.
pub async fn run(settings: ProgramSettings, api: bool, history: bool) -> Result<(), CommandFailure> {
    // Signals are watched from the beginning, so that a signal during the start ends it.
    let mut signals = Signals::watch()?;
    let (stop, stage) = watch::channel(ServeStage::Serving);
    let is_making = AtomicBool::new(false);
    let mut starting = pin!(start(&settings, stage, api, history, &is_making));
    let (api, history) = tokio::select! {
        started = &mut starting => {
            let started = started?;
            signals.wait_for_signal().await;
            started
        }
        // The first build must not remain half-created.
        () = signals.wait_for_signal() => match is_making.load(Ordering::Relaxed) {
            true => starting.await?,
            false => return Ok(()),
        },
    };
    tracing::info!("stopping");
    shut_down(stop, api, history).await;
    Ok(())
}

async fn start(
    settings: &ProgramSettings,
    stage: watch::Receiver<ServeStage>,
    api: bool,
    history: bool,
    is_making: &AtomicBool,
) -> Result<(Option<ServedApi>, Option<HistoryListener>), CommandFailure> {
    let filter = log::filter()?;
    let mut sockets = PassedSockets::take(api, history)?;
    let trusted = settings.trusted_proxies.clone();
    let usual = Limits {
        speaks_for_many: SpeaksForMany::new(move |peer| peer.is_loopback() || trusted.contains(peer)),
        ..Limits::default()
    };
    let (of_api, of_history) = descriptors::connections(descriptors::raise(), usual.connections, api, history);
    let is_key_lost = history && is_history_api_key_lost(settings);
    let is_key_new = !history && settings.history_url.is_some() && is_history_api_key_unknown(settings);
    let metrics_listener =
        settings.metrics_listen.map(|address| bind(address, "CHANCERY_METRICS_LISTEN")).transpose()?;
    let history_listener = match history {
        true => match sockets.remove(HISTORY) {
            Some(passed) => Some(passed),
            None => Some(bind(settings.history_listen, "CHANCERY_HISTORY_LISTEN")?),
        },
        false => None,
    };
    // The main API is opened first. If the database refuses the start, neither a history nor its key is created.
    let opened = match api {
        true => Some(open_api(settings, sockets.remove(API), history).await?),
        false => None,
    };
    // The history service is served first, because the creation of a build calls it.
    let mut listeners = Vec::new();
    let history = if let Some(listener) = history_listener {
        // The history service begins to stop later than the main API, and must end at the same time.
        let stop = usual.stop.saturating_sub(FLUSH_TIME);
        let limits = Limits { stop, connections: of_history, counts: Arc::default(), ..usual.clone() };
        listeners.push(("history", limits.counts.clone()));
        Some(serve_history(settings, listener, limits, stage.clone()).await?)
    } else {
        None
    };
    let api = match opened {
        Some(opened) => {
            connect_history(&opened.app, settings, history.as_ref().map(|history| history.bound))?;
            if let Some(history) = &history {
                check_history(settings, &opened.app, history).await?;
            }
            first_start(&opened.app, settings, is_making).await?;
            let console = console_address(&opened.app).await?;
            log::start(filter.clone(), settings.log_format);
            listeners.push(("api", usual.counts.clone()));
            Some(serve_api(opened, console, Limits { connections: of_api, ..usual }, stage.clone()))
        }
        None => None,
    };
    if let Some(history) = &history {
        log::start(filter, settings.log_format);
        let _ = print_line(format_args!("The history service listens on http://{}", history.bound));
    }
    serve_metrics(
        metrics_listener,
        Measured::new(api.as_ref().map(|api| &api.app), history.is_some(), listeners),
        stage,
    );
    warn_about_settings(settings, is_key_new, is_key_lost);
    Ok((api, history))
}

fn serve_metrics(listener: Option<TcpListener>, measured: Measured, stage: watch::Receiver<ServeStage>) {
    let Some(listener) = listener else { return };
    if let Ok(bound) = listener.local_addr() {
        let _ = print_line(format_args!("Metrics are at http://{bound}/metrics"));
    }
    // The listener ends with the process, which does not wait for it.
    drop(metrics::serve(listener, measured, wait_for_stage(stage, ServeStage::Stopped)));
}

/// Warns of a new or a lost key of the history service, and of variables that are no settings.
fn warn_about_settings(settings: &ProgramSettings, is_key_new: bool, is_key_lost: bool) {
    if is_key_new {
        let file = settings.data.join(HISTORY_API_KEY);
        let (file, url) = (file.display(), settings.history_url.as_deref().unwrap_or_default());
        tracing::warn!(%file, url, "CHANCERY_HISTORY_API_KEY is not set, so a key was made: the history service must have it");
    }
    if is_key_lost {
        let file = settings.data.join(HISTORY_API_KEY);
        let file = file.display();
        tracing::warn!(%file, "the key of the history service was lost and is another one now: callers with the old one get 401");
    }
    if !settings.unknown_variables.is_empty() {
        tracing::warn!(variables = settings.unknown_variables.join(", "), "no settings: nothing reads these variables");
    }
}

async fn serve_history(
    settings: &ProgramSettings,
    listener: TcpListener,
    limits: Limits,
    stage: watch::Receiver<ServeStage>,
) -> Result<HistoryListener, CommandFailure> {
    let bound = listener.local_addr().map_err(|error| format!("CHANCERY_HISTORY_LISTEN: {error}"))?;
    let is_embedded = settings.history_database_url.is_none();
    let lock = match is_embedded {
        true => Some(data_directory::serve_history(&settings.data.join("history")).await?),
        false => None,
    };
    let service = Arc::new(open_history(settings, bound).await?);
    service.start_watch();
    let served = service.clone();
    let handler = move |request, peer| served.clone().answer(request, peer);
    let task =
        tokio::spawn(listener::serve(listener, handler, limits, wait_for_stage(stage.clone(), ServeStage::Stopped)));
    let removing = file_removal::run(service.clone());
    // The removal can be interrupted anywhere.
    let removal = tokio::spawn(async {
        tokio::select! { () = removing => {}, () = wait_for_stage(stage, ServeStage::Stopped) => {} }
    });
    Ok(HistoryListener { service, bound, task, removal, _lock: lock })
}

/// The main API before it is served.
struct OpenedApi {
    app: App,
    listener: TcpListener,
    bound: SocketAddr,
    lock: Option<File>,
}

/// Opens the main API. `passed` is its socket, if systemd has opened it. `with_history` is true if this process also serves the
/// history service.
async fn open_api(
    settings: &ProgramSettings,
    passed: Option<TcpListener>,
    with_history: bool,
) -> Result<OpenedApi, CommandFailure> {
    let listener = match passed {
        Some(passed) => passed,
        None => bind(settings.listen, "CHANCERY_LISTEN")?,
    };
    let bound = listener.local_addr().map_err(|error| format!("CHANCERY_LISTEN: {error}"))?;
    let lock = match settings.database_url {
        None => Some(data_directory::serve_alone(&settings.data).await?),
        Some(_) => None,
    };
    let app = open(settings, bound).await?;
    let has_history =
        settings.history_database_url.is_some() || settings.data.join("history").join("control.db").exists();
    if with_history && !has_history {
        let notes = own_history::notes(&app.store).await.map_err(|error| error.to_string())?;
        notes.check(Some("one that is still to be made")).map_err(|foreign| refusal(settings, &foreign))?;
    }
    Ok(OpenedApi { app, listener, bound, lock })
}

/// Returns the address of the console: of the fallback build, or else of the only build. With several builds it depends on the
/// host.
async fn console_address(app: &App) -> Result<Option<String>, CommandFailure> {
    if !app.settings.console {
        return Ok(None);
    }
    let builds = builds::list(app).await?;
    let active: Vec<_> = builds.iter().filter(|build| build.state == "active").map(|build| &build.domain).collect();
    let fallback = app.settings.fallback_build.as_ref().filter(|domain| active.contains(domain));
    let domain = match (fallback, &active[..]) {
        (Some(domain), _) | (None, &[domain]) => domain,
        _ => return Ok(None),
    };
    let build = app.build(domain).await.map_err(|error| error.to_string())?;
    Ok(build.map(|build| app.address_of(&build)))
}

fn serve_api(
    opened: OpenedApi,
    console: Option<String>,
    limits: Limits,
    stage: watch::Receiver<ServeStage>,
) -> ServedApi {
    let OpenedApi { app, listener, bound, lock } = opened;
    kit::secret_key::warn_if_short(&app.settings.secret_key);
    platform::start(&app);
    let served = app.clone();
    let handler = move |request, peer| kit::serve::answer(served.clone(), platform::table(), request, peer);
    let task = tokio::spawn(listener::serve(listener, handler, limits, wait_for_stage(stage, ServeStage::Stopping)));
    let _ = print_line(format_args!("The main API listens on http://{bound}"));
    if let Some(address) = console {
        let _ = print_line(format_args!("Open {address}/"));
    }
    ServedApi { app, task, _lock: lock }
}

/// Refuses to deliver into an embedded history that belongs to another database, for example that of a second server on one
/// PostgreSQL. Other services are checked when they are called, because they may be unavailable now.
async fn check_history(settings: &ProgramSettings, app: &App, history: &HistoryListener) -> Result<(), CommandFailure> {
    let HistoryEngine::Sqlite(engine) = &history.service.engine else { return Ok(()) };
    let url = address_of(history.bound);
    own_history::store_service(&app.store, Some(engine.id()), Some(&url)).await.map_err(|failure| match failure {
        ServiceFailure::Foreign(foreign) => refusal(settings, &foreign),
        ServiceFailure::Store(error) => error.to_string(),
    })
}

/// Returns the reason for which this process does not serve the embedded history of its data directory beside the main API.
fn refusal(settings: &ProgramSettings, foreign: &ForeignService) -> CommandFailure {
    let data = settings.data.display();
    match foreign {
        ForeignService::OfOriginal => format!("CHANCERY_HISTORY_URL: {data}/history: {foreign}"),
        ForeignService::Other(_) => format!(
            "CHANCERY_HISTORY_URL: {data}/history: {}; for a further server run `chancery serve api` with \
             CHANCERY_HISTORY_URL and CHANCERY_HISTORY_API_KEY set to those of that service, or give all of them one \
             ClickHouse (CHANCERY_HISTORY_DATABASE_URL); if that service is gone for good, run `chancery history adopt`",
            foreign.reason()
        ),
    }
}

/// Stops the main API first, so that the history service still receives the events of its last requests.
async fn shut_down(stop: watch::Sender<ServeStage>, mut api: Option<ServedApi>, history: Option<HistoryListener>) {
    let _ = stop.send(ServeStage::Stopping);
    if let Some(ServedApi { app, task, .. }) = &mut api {
        let flushed = async {
            let _ = task.await;
            platform::agents::finish(app).await;
            relay::finish(app, FLUSH_TIME).await;
        };
        let _ = tokio::time::timeout(FLUSH_TIME, flushed).await;
    }
    let _ = stop.send(ServeStage::Stopped);
    if let Some(ServedApi { app, task, _lock }) = api {
        if !task.is_finished() {
            let _ = task.await;
        }
        relay::finish(&app, Duration::ZERO).await;
        app.store.close().await;
    }
    if let Some(HistoryListener { service, task, removal, _lock, .. }) = history {
        let _ = task.await;
        let _ = removal.await;
        service.engine.close().await;
    }
}

fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, CommandFailure> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarted server can listen immediately, while the kernel still has connections of the former process.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error: io::Error| format!("{setting}: {address}: {error}"))
}

async fn wait_for_stage(mut stage: watch::Receiver<ServeStage>, awaited_stage: ServeStage) {
    let _ = stage.wait_for(|stage| *stage >= awaited_stage).await;
}

/// The signals that ask the process to stop.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn watch() -> Result<Self, CommandFailure> {
        let watched = |kind| signal(kind).map_err(|error| format!("signals cannot be watched: {error}"));
        Ok(Self { terminate: watched(SignalKind::terminate())?, interrupt: watched(SignalKind::interrupt())? })
    }

    pub async fn wait_for_signal(&mut self) {
        tokio::select! { _ = self.terminate.recv() => {}, _ = self.interrupt.recv() => {} }
    }
}
