//! The endpoints of files (`docs/reference/files.md`).

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod downloads;
mod public_storage;
mod removal;
mod s3;
mod uploads;

use testkit::{TestBuild, eventually};

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] =
        &[&events::MODULE, &files::MODULE, &administration::MODULE, &identity::MODULE];
}

type TestServer = testkit::TestServer<Api>;

/// Returns the names of the stored files of a build, in the data directory.
fn stored_names(tenant: &TestBuild) -> Vec<String> {
    let directory = tenant.data().join("files").join(&tenant.build.uid);
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until `count` files are stored. Wakes the jobs, since the clock of a test may have moved on since they last ran.
async fn wait_for_stored(server: &TestServer, count: usize) {
    eventually(async || {
        kit::jobs::wake(&server.app, &server.build);
        let stored = stored_names(server);
        if stored.len() == count { Ok(()) } else { Err(stored) }
    })
    .await;
}
