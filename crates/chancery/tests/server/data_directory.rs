//! Only one server serves a data directory, and only a complete one.

use crate::BINARY;
use std::fs;
use testkit::{ADMIN, Installation, PASSWORD, Process};

fn embedded() -> Installation {
    Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD)
}

/// The arguments of a start on free ports, for starts that fail.
const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--history-listen", "127.0.0.1:0"];

#[test]
fn a_second_server_on_one_directory_is_refused() {
    let installation = embedded();
    let servers: [fn(&Installation) -> Process; 2] = [Installation::serve, Installation::serve_api];
    for serve in servers {
        let process = serve(&installation);
        let line = "chancery: CHANCERY_DATA: ./chancery-data: another server serves this directory; only PostgreSQL takes several\n";
        assert_eq!(installation.fails(&SERVE), line);
        installation.succeeds(&["build", "list"]);
        // A killed server leaves no lock behind.
        process.kill();
    }
    installation.serve().stop();
}

#[tokio::test]
async fn an_unfinished_backup_is_never_served_and_begun_again() {
    let installation = embedded();
    installation.serve().stop();
    // The link cannot be read as a file.
    let obstacle = installation.data().join("loop");
    std::os::unix::fs::symlink("loop", &obstacle).unwrap();

    let line = installation.fails(&["backup", "copy"]);

    let end = "; the copy in copy is not finished: call it again, or remove the directory\n";
    assert!(line.starts_with("chancery: ./chancery-data/loop: ") && line.ends_with(end), "{line}");
    for args in [&SERVE[..], &["build", "list"], &["keys"], &["backup", "another"]] {
        let line = installation.fails(&[args, &["--data", "copy"]].concat());
        assert_eq!(
            line,
            "chancery: CHANCERY_DATA: copy: `chancery backup` was not finished here; make the copy again\n"
        );
    }
    // The state after a process was killed.
    fs::write(installation.home().join("copy/builds/build_7.db.partial"), "half").unwrap();
    fs::remove_file(obstacle).unwrap();
    installation.succeeds(&["backup", "copy"]);
    assert!(!installation.home().join("copy/builds/build_7.db.partial").exists());
    installation.serve_with(&["--data", "copy"]).client("localhost").sign_in(ADMIN, PASSWORD).await;

    let line = installation.fails(&["backup", "chancery-data/copy"]);
    assert_eq!(line, "chancery: chancery-data/copy: the copy must not be in the data directory\n");
    // Only a directory of an unfinished backup is changed.
    let line = installation.fails(&["backup", "copy"]);
    assert!(line.starts_with("chancery: copy: ") && line.lines().count() == 1, "{line}");
    installation.serve_with(&["--data", "copy"]).client("localhost").sign_in(ADMIN, PASSWORD).await;
}

#[test]
fn a_directory_without_its_list_of_builds_is_not_taken_for_a_new_one() {
    let installation = embedded();
    installation.serve().stop();
    for file in ["control.db", "secret-key"] {
        fs::remove_file(installation.data().join(file)).unwrap();
    }
    let line = "chancery: CHANCERY_DATA: ./chancery-data: control.db is missing beside the builds; put it back\n";
    assert_eq!(installation.fails(&SERVE), line);
    assert!(!installation.data().join("secret-key").exists());
}

#[test]
fn a_wrong_key_file_is_named() {
    let installation = embedded();
    installation.serve().stop();
    fs::write(installation.data().join("secret-key"), "the key of quite another data directory\n").unwrap();
    let line = "chancery: CHANCERY_SECRET_KEY: the database was made with another key, not with that of ./chancery-data/secret-key; put the right one back\n";
    assert_eq!(installation.fails(&SERVE), line);
    assert_eq!(installation.fails(&["build", "list"]), line);
}
