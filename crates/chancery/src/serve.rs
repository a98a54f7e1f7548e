//! `chancery serve`: the main API, the history service, or both in one process.

use crate::commands::{Failure, first_start, open, open_history};
use crate::log;
use crate::settings::Settings;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use web::listener::{self, Limits};

/// Serves until SIGTERM or SIGINT, then finishes what is in flight.
pub async fn run(settings: Settings, api: bool, history: bool) -> Result<(), Failure> {
    let (stop, stopped) = watch::channel(false);
    let mut services = tokio::task::JoinSet::new();
    let mut opened = None;
    let mut history_service = None;
    let mut history_bound = None;
    // First, since a new build has its tenant made there.
    if history {
        let listener = bind(settings.history_listen, "CHANCERY_HISTORY_LISTEN").await?;
        let bound = listener.local_addr().map_err(|error| format!("CHANCERY_HISTORY_LISTEN: {error}"))?;
        let service = Arc::new(open_history(&settings, bound).await?);
        log::start();
        let served = service.clone();
        let handler = move |request, peer| served.clone().answer(request, peer);
        services.spawn(listener::serve(listener, handler, Limits::default(), until(stopped.clone())));
        println!("The history service listens on http://{bound}");
        history_service = Some(service);
        history_bound = Some(bound);
    }
    if api {
        let listener = bind(settings.listen, "CHANCERY_LISTEN").await?;
        let bound = listener.local_addr().map_err(|error| format!("CHANCERY_LISTEN: {error}"))?;
        let app = open(&settings, bound, history_bound).await?;
        first_start(&app, &settings).await?;
        log::start();
        platform::mail_queue::Worker::start(&app);
        platform::relay::Relay::start(&app);
        let served = app.clone();
        let handler = move |request, peer| platform::serve::answer(served.clone(), request, peer);
        services.spawn(listener::serve(listener, handler, Limits::default(), until(stopped.clone())));
        println!("The main API listens on http://{bound}");
        opened = Some(app);
    }
    signalled().await;
    tracing::info!("stopping");
    let _ = stop.send(true);
    while services.join_next().await.is_some() {}
    if let Some(app) = opened {
        app.relay.stop();
        app.store.close().await;
    }
    if let Some(service) = history_service {
        service.engine.close().await;
    }
    Ok(())
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| format!("{setting}: {address}: {error}"))
}

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn signalled() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }
        _ => std::future::pending().await,
    }
}
