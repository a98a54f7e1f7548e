//! Wakes the engine of a build, after a commit that made runs due.

use kit::app::App;
use kit::build::Build;
use kit::ids::SequenceRunId;
use kit::jobs::{self, StandingJob};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The job that does the steps of due runs.
pub struct EngineJob(pub &'static StandingJob);

/// The runs of a build that this process works on.
#[derive(Default)]
pub struct EngineOfBuild {
    pub claimed: Mutex<HashSet<SequenceRunId>>,
    pub woken: Notify,
}

/// Wakes the engine of a build.
pub fn wake(app: &App, build: &Arc<Build>) {
    build.slot::<EngineOfBuild>().woken.notify_one();
    jobs::wake_for(app, build, app.slot::<EngineJob>().0);
}
