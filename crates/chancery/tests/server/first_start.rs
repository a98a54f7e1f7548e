//! The first start of a server: the build that it creates, or the line with the command that creates one.

use crate::{BINARY, message};
use store::{Conn, Sql};
use testkit::{ADMIN, Installation, PASSWORD};

/// Returns the word after another text in the output of a command.
pub fn word_after<'t>(text: &'t str, before: &str) -> &'t str {
    text.split_once(before)
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("{before:?} is not in {text:?}"))
}

#[tokio::test]
async fn the_first_start_makes_a_build_and_prints_its_password_once() {
    let installation = Installation::embedded(BINARY);
    let server = installation.serve();
    let printed = server.stdout();
    let password = word_after(&printed, "with the password ");
    assert!(
        printed.starts_with("The build localhost was made. Sign in as admin@example.com with the password "),
        "{printed}"
    );
    assert!(password.len() >= 32, "{password} can be guessed");
    let admin = server.client("localhost").sign_in("admin@example.com", password).await;
    assert_eq!(admin.get("/api/users/me/").await.ok()["account_type"], "super_admin");
    // This build serves hosts that match no build.
    server.client("127.0.0.1:8000").sign_in("admin@example.com", password).await;
    server.stop();

    let server = installation.serve();
    assert!(!server.stdout().contains("password"), "{}", server.stdout());
    server.client("localhost").sign_in("admin@example.com", password).await;
    assert!(!server.stderr().contains(password), "a password in the log");
}

#[tokio::test]
async fn the_first_super_admin_may_be_given() {
    let installation = Installation::embedded(BINARY)
        .set("CHANCERY_ADMIN_USERNAME", "root@example.org")
        .set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    let server = installation.serve();
    assert!(
        server.stdout().starts_with("The build localhost was made. Sign in as root@example.org.\n"),
        "{}",
        server.stdout()
    );
    assert!(!server.stdout().contains(PASSWORD));
    server.client("localhost").sign_in("root@example.org", PASSWORD).await;
}

#[tokio::test]
async fn a_first_start_that_was_killed_is_made_good_by_the_next_one() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    installation.serve().stop();
    half_made(&installation).await;

    let server = installation.serve();

    assert!(server.stdout().starts_with("The build localhost was made. Sign in as "), "{}", server.stdout());
    server.client("localhost").sign_in(ADMIN, PASSWORD).await;
}

/// Puts the builds into the state after a process died during their creation.
async fn half_made(installation: &Installation) {
    let store = installation.store().await;
    let sql = Sql::new("UPDATE builds SET state = 'creating'");
    store.control().write(move |conn: &mut Conn| conn.exec(&sql)).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_first_password_that_nobody_saw_can_be_set_anew() {
    let installation = Installation::embedded(BINARY);
    // The process was killed before it printed the password.
    installation.serve().stop();
    let server = installation.serve();
    let hint = "Nobody has signed in to the build localhost yet. If nobody knows its password: `chancery user \
                set-password --build localhost --username admin@example.com`.\n";
    assert!(server.stdout().starts_with(hint), "{}", server.stdout());
    let user = ["--build", "localhost", "--username", ADMIN, "--password", PASSWORD];
    installation.succeeds(&[&["user", "set-password"][..], &user].concat());
    server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    server.stop();
    assert!(!installation.serve().stdout().contains("Nobody has signed in"));
}

#[tokio::test]
async fn a_fallback_build_that_is_not_there_is_told() {
    let installation = Installation::embedded(BINARY);
    installation.succeeds(&["build", "create", "a.example", "--admin-password", PASSWORD]);
    let server = installation.serve();
    let line = "CHANCERY_FALLBACK_BUILD: there is no build localhost; other hosts than those of the builds get 404.\n";
    assert!(server.stdout().starts_with(line), "{}", server.stdout());
    server.client("localhost").get("/api/security/").await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_lost_key_of_the_history_service_is_told_in_the_log() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    let server = installation.serve();
    assert!(!server.stderr().contains("was lost"), "{}", server.stderr());
    server.stop();
    std::fs::remove_file(installation.data().join("history-api-key")).unwrap();
    let server = installation.serve();
    let log = server.stderr();
    let line = log.lines().find(|line| line.contains("was lost")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("\"WARN\"") && line.contains("history-api-key"), "{line}");
}

#[tokio::test]
async fn a_build_that_is_only_half_made_is_none() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    installation.succeeds(&["build", "create", "a.example", "--admin-password", PASSWORD]);
    half_made(&installation).await;
    let server = installation.serve();
    assert!(server.stdout().contains("There is no build yet"), "{}", server.stdout());
}

#[test]
fn on_postgresql_no_build_is_made_by_itself_and_the_start_says_how_to_make_one() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    let server = installation.serve();
    let line = "There is no build yet, so every page is a 404: `chancery build create DOMAIN --admin-username EMAIL` makes \
                one, which is served at once to requests for that host.\n";
    assert!(server.stdout().contains(line), "{}", server.stdout());
    server.stop();
    assert_eq!(installation.succeeds(&["build", "list"]), "");
}

#[tokio::test]
async fn on_postgresql_a_host_that_matches_no_build_is_not_found() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    installation.succeeds(&["build", "create", "a.example", "--admin-password", PASSWORD]);
    let server = installation.serve();
    server.client("localhost").get("/api/security/").await.expect_reply(404, message::not_found());
    server.client("b.example").get("/api/security/").await.expect_reply(404, message::not_found());
    server.client("a.example").get("/api/security/").await.ok();

    assert!(!server.stdout().contains("no build"), "{}", server.stdout());

    let installation = installation.set("CHANCERY_FALLBACK_BUILD", "A.Example");
    installation.serve().client("b.example").get("/api/security/").await.ok();
}
