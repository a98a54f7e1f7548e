//! `chancery serve`: the main API, the history service, or both in one process.

use crate::commands::{Failure, first_start, open, open_history};
use crate::descriptors;
use crate::log;
use crate::settings::Settings;
use platform::events::relay;
use platform::kit;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use web::listener::{self, Limits};
use web::places::SpeaksForMany;

/// How long the history service outlasts the main API, so that it takes the last events.
const FLUSH: Duration = Duration::from_secs(2);

/// Connections that wait in the kernel until they are accepted. When its queue is full, a client takes itself for
/// connected while the kernel tries the handshake again after 1, 3, 7 and 15 seconds. Linux grants no more than
/// `net.core.somaxconn`, which is 4,096 unless it was changed.
const BACKLOG: u32 = 4096;

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Stage {
    Serving,
    /// The main API takes no more requests.
    Stopping,
    /// Nobody does.
    Stopped,
}

/// Serves until SIGTERM or SIGINT, then finishes what is in flight.
pub async fn run(settings: Settings, api: bool, history: bool) -> Result<(), Failure> {
    let trusted = settings.trusted_proxies.clone();
    let usual = Limits {
        speaks_for_many: SpeaksForMany::new(move |peer| peer.is_loopback() || trusted.contains(peer)),
        ..Limits::default()
    };
    let (of_api, of_history) = descriptors::connections(descriptors::raise(), usual.connections, api, history);
    let (stop, stopped) = watch::channel(Stage::Serving);
    let mut opened = None;
    let mut history_service = None;
    let mut history_bound = None;
    // First, since a new build has its tenant made there.
    if history {
        let listener = bind(settings.history_listen, "CHANCERY_HISTORY_LISTEN")?;
        let bound = listener.local_addr().map_err(|error| format!("CHANCERY_HISTORY_LISTEN: {error}"))?;
        let service = Arc::new(open_history(&settings, bound).await?);
        let served = service.clone();
        let handler = move |request, peer| served.clone().answer(request, peer);
        // It stops a little later than the main API, and by the same time.
        let stop = usual.stop.saturating_sub(FLUSH);
        let limits = Limits { stop, connections: of_history, ..usual.clone() };
        let served = listener::serve(listener, handler, limits, until(stopped.clone(), Stage::Stopped));
        history_service = Some((service, tokio::spawn(served)));
        history_bound = Some(bound);
    }
    if api {
        let listener = bind(settings.listen, "CHANCERY_LISTEN")?;
        let bound = listener.local_addr().map_err(|error| format!("CHANCERY_LISTEN: {error}"))?;
        let app = open(&settings, bound, history_bound).await?;
        first_start(&app, &settings).await?;
        log::start();
        kit::secret_key::warn_if_short(&app);
        platform::start(&app);
        let served = app.clone();
        let limits = Limits { connections: of_api, ..usual };
        let handler = move |request, peer| kit::serve::answer(served.clone(), platform::table(), request, peer);
        let served = listener::serve(listener, handler, limits, until(stopped.clone(), Stage::Stopping));
        println!("The main API listens on http://{bound}");
        opened = Some((app, tokio::spawn(served)));
    }
    if let Some(bound) = history_bound {
        log::start();
        println!("The history service listens on http://{bound}");
    }
    signalled().await;
    tracing::info!("stopping");
    let _ = stop.send(Stage::Stopping);
    // The main API first, so that the history service still takes what its last requests caused.
    if let Some((app, served)) = &mut opened {
        let flushed = async {
            let _ = served.await;
            relay::finish(app, FLUSH).await;
        };
        let _ = tokio::time::timeout(FLUSH, flushed).await;
    }
    let _ = stop.send(Stage::Stopped);
    if let Some((app, served)) = opened {
        if !served.is_finished() {
            let _ = served.await;
        }
        relay::finish(&app, Duration::ZERO).await;
        app.store.close().await;
    }
    if let Some((service, served)) = history_service {
        let _ = served.await;
        service.engine.close().await;
    }
    Ok(())
}

fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart need not wait until the kernel has forgotten the connections of the process before.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error: io::Error| format!("{setting}: {address}: {error}"))
}

async fn until(mut stage: watch::Receiver<Stage>, wanted: Stage) {
    let _ = stage.wait_for(|stage| *stage >= wanted).await;
}

async fn signalled() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }
        _ => std::future::pending().await,
    }
}
