//! Imports and exports that are killed at any moment.

use crate::BINARY;
use std::time::{Duration, Instant};
use testkit::{ADMIN, Installation, PASSWORD};

#[tokio::test]
async fn a_killed_import_leaves_no_build_and_runs_again() {
    let from = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    from.serve().stop();
    from.succeeds(&["demo", "a.example"]);
    from.succeeds(&["build", "export", "a.example", "a.tar"]);
    let archive = from.home().join("a.tar");
    let to = Installation::postgresql(BINARY).unwrap_or_else(|| Installation::embedded(BINARY));
    let to = to.set("CHANCERY_ADMIN_PASSWORD", PASSWORD).set("CHANCERY_FALLBACK_BUILD", "localhost");
    to.serve_history().stop();
    to.succeeds(&["build", "create", "localhost"]);
    let server = to.serve();

    let import = ["build", "import", archive.to_str().unwrap()];
    for milliseconds in [30, 120, 400] {
        if to.run_killed(&import, Duration::from_millis(milliseconds)).is_some() {
            // This machine is fast; the rest of the test holds anyway.
            to.succeeds(&["build", "delete", "a.example", "--yes"]);
        }
        let listed = to.succeeds(&["build", "list"]);
        assert!(!listed.contains("a.example\tactive"), "{listed}");
    }
    let started = Instant::now();
    to.succeeds(&import);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let admin = server.client("a.example").sign_in(ADMIN, PASSWORD).await;
    assert_eq!(admin.get("/api/object-classes/3/object-records/").await.ok()["total_count"], 700);
    let listed = to.succeeds(&["build", "list"]);
    assert_eq!(listed.lines().filter(|line| line.starts_with("a.example\tactive")).count(), 1, "{listed}");
}

#[test]
fn a_killed_export_leaves_no_archive() {
    let from = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    from.serve().stop();
    from.succeeds(&["demo", "a.example"]);
    for milliseconds in [10, 40, 80] {
        let ended = from.run_killed(&["build", "export", "a.example", "a.tar"], Duration::from_millis(milliseconds));
        assert_eq!(from.home().join("a.tar").exists(), ended.is_some());
        let _ = std::fs::remove_file(from.home().join("a.tar"));
    }
    from.succeeds(&["build", "export", "a.example", "a.tar"]);
    assert!(!from.home().join("a.tar.partial").exists());
}
