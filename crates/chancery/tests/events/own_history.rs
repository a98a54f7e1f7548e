//! Each database has a history service of its own, whose id it stores at the first contact. The server never delivers to another
//! one and never deletes there, and commands find their own without settings.

use crate::BINARY;
use crate::TestServer;
use crate::history::{events, tenant};
use serde_json::{Value as Json, json};
use std::path::Path;
use testkit::{ADMIN, ApiClient, FakeHistory, FakeServer, HISTORY_KEY, Installation, PASSWORD, Process, eventually};

const ANOTHER: &str = "0b9d2f4e-8a55-4c39-9a2f-3d5c0e6b7a11";
const WHAT_TO_DO: &str =
    "set CHANCERY_HISTORY_URL to its own, or run `chancery history adopt` to use this one from now on";

/// Returns an installation on the embedded engines without settings of the history service.
fn embedded() -> Installation {
    Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD)
}

/// Returns an installation with the key of the other tests of history.
fn installation_with_key() -> Installation {
    embedded().set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY)
}

/// Returns a backup as an installation whose history service has this address.
fn copy(original: &Installation, url: &str) -> Installation {
    original.succeeds(&["backup", "copy"]);
    let data = original.home().join("copy");
    installation_with_key().set("CHANCERY_DATA", data.to_str().unwrap()).set("CHANCERY_HISTORY_URL", url)
}

fn url_of(process: &Process) -> String {
    format!("http://{}", process.history())
}

/// Returns the client id of a build's tenant. Empty if it has none.
fn client_id(installation: &Installation, domain: &str) -> String {
    let listed = installation.succeeds(&["build", "list"]);
    let line = listed.lines().find(|line| line.starts_with(&format!("{domain}\t"))).unwrap();
    line.split('\t').nth(4).unwrap().to_owned()
}

async fn readiness(process: &Process) -> Json {
    process.client("localhost").get("/readyz").await.ok()["history"].clone()
}

// ---- Copies --------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_deletes_its_own_history_and_leaves_that_of_the_original() {
    let original = installation_with_key();
    let process = original.serve();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    let history = tenant(&original, &process, "localhost");
    let before = events(&history, 1).await;
    original.succeeds(&["backup", "copy"]);

    let gone = original.succeeds(&["build", "delete", "localhost", "--yes", "--with-history", "--data", "copy"]);

    assert_eq!(without_receipt(&gone), "The build localhost was deleted.\nIts history was deleted, too.\n");
    assert_eq!(events(&history, 1).await, before);
    // A command does not create anything there either.
    let url = url_of(&process);
    let line = original.fails(&["build", "create", "b.example", "--data", "copy", "--history-url", &url]);
    let refused =
        format!("chancery: CHANCERY_HISTORY_URL: {url}: not the history service of this database; {WHAT_TO_DO}\n");
    assert_eq!(line, refused);
    assert!(original.succeeds(&["build", "list"]).starts_with("localhost\tactive"));
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_delivers_nothing_to_the_history_service_of_the_original_until_an_operator_says_so() {
    let original = installation_with_key();
    let process = original.serve();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    let history = tenant(&original, &process, "localhost");
    events(&history, 1).await;
    let url = url_of(&process);
    let copy = copy(&original, &url);

    let api = copy.serve_api();
    api.client("localhost").login(ADMIN, PASSWORD).await.ok();

    let waits = json!({
        "waiting": 1, "lag_seconds": 0, "is_reachable": false, "refused": 0,
        "warning": "CHANCERY_HISTORY_URL: not the history service of this database",
    });
    eventually(async || {
        let mut now = readiness(&api).await;
        now["lag_seconds"] = json!(0);
        now == waits
    })
    .await;
    let log = api.stderr();
    let line = log.lines().find(|line| line.contains("chancery history adopt")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("\"ERROR\"") && line.contains(&url), "{line}");
    assert_eq!(events(&history, 1).await.len(), 1);

    let copied = "this database is a copy made by `chancery backup`, and this is, or may be, the history service of the original";
    let advice = "give the copy a history service of its own; only if the original is gone for good, run `chancery history adopt`";
    let refused = format!("chancery: CHANCERY_HISTORY_URL: {url}: {copied}; {advice}\n");
    assert!(line.contains(advice), "{line}");
    assert_eq!(copy.fails(&["build", "create", "b.example"]), refused);
    assert_eq!(copy.fails(&["build", "delete", "localhost", "--yes", "--with-history"]), refused);
    assert_eq!(copy.succeeds(&["build", "list"]).lines().count(), 1);
    api.stop();

    // The original is deleted, and the copy replaces it.
    let adopted = copy.succeeds(&["history", "adopt"]);
    assert!(adopted.starts_with("The history service of this database is "), "{adopted}");
    assert!(adopted.ends_with(&format!(" now ({url}).\n")), "{adopted}");
    let api = copy.serve_api();
    assert_eq!(events(&history, 2).await.len(), 2);
    assert_eq!(readiness(&api).await["warning"], Json::Null);
    api.stop();
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_its_own_history_service_from_its_first_start_on() {
    let original = installation_with_key();
    let process = original.serve();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    let before = events(&tenant(&original, &process, "localhost"), 1).await;
    let id = |process: &Process| {
        let service = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
        async move { service.get("/api/service").await.ok()["id"].as_str().unwrap().to_owned() }
    };
    let of_original = id(&process).await;
    original.succeeds(&["backup", "copy"]);
    // A copy of the copy.
    original.succeeds(&["backup", "copy-of-copy", "--data", "copy"]);

    for directory in ["copy", "copy-of-copy"] {
        let served = original.serve_with(&["--data", directory]);
        assert_ne!(id(&served).await, of_original);
        served.client("localhost").login(ADMIN, PASSWORD).await.ok();
        assert_eq!(events(&tenant(&original, &served, "localhost"), 2).await[1..], before);
        served.stop();
    }
    assert_eq!(events(&tenant(&original, &process, "localhost"), 1).await, before);
    process.stop();
    let line = original.run(&["build", "delete", "localhost", "--yes", "--with-history", "--data", "copy-of-copy"]);
    assert_eq!((line.code, line.stderr.as_str()), (0, ""));
    assert_eq!(id(&original.serve()).await, of_original);
}

// ---- Commands ------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn commands_find_the_history_service_of_their_server_by_themselves() {
    let installation = embedded();
    let process = installation.serve();

    let made = installation.run(&["build", "create", "b.example"]);

    assert_eq!((made.code, made.stdout.as_str(), made.stderr.as_str()), (0, "The build b.example was made.\n", ""));
    assert_eq!(client_id(&installation, "b.example").len(), 36);
    let gone = installation.succeeds(&["build", "delete", "b.example", "--yes", "--with-history"]);
    assert_eq!(without_receipt(&gone), "The build b.example was deleted.\nIts history was deleted, too.\n");
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_use_the_embedded_history_while_no_server_runs() {
    let installation = embedded();
    // Before the first start there is no history yet, so the server creates the tenant later.
    let made = installation.run(&["build", "create", "a.example"]);
    assert_eq!((made.code, made.stdout.as_str(), made.stderr.as_str()), (0, "The build a.example was made.\n", ""));
    assert_eq!(client_id(&installation, "a.example"), "");
    assert!(!installation.data().join("history-api-key").exists());
    let process = installation.serve();
    eventually(async || !client_id(&installation, "a.example").is_empty()).await;
    process.stop();
    std::fs::remove_file(installation.data().join("history-api-key")).unwrap();

    installation.succeeds(&["build", "create", "b.example"]);

    let made = client_id(&installation, "b.example");
    let database = installation.data().join("history/tenants").join(format!("tenant_{}.db", made.replace('-', "")));
    assert!(database.exists());
    let gone = installation.succeeds(&["build", "delete", "b.example", "--yes", "--with-history"]);
    assert_eq!(without_receipt(&gone), "The build b.example was deleted.\nIts history was deleted, too.\n");
    assert!(!database.exists());
    assert!(!installation.data().join("history-api-key").exists(), "no command leaves a key that nobody has");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_the_databases_own_is_refused_by_commands() {
    let (own, other) = (FakeHistory::start().await, FakeHistory::start().await);
    other.set_id(Some(ANOTHER));
    let (own_url, other_url) = (format!("http://{}", own.address), format!("http://{}", other.address));
    let installation = installation_with_key().set("CHANCERY_HISTORY_URL", &own_url);
    installation.succeeds(&["build", "create", "localhost"]);
    let process = installation.serve_api();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    own.wait_for_events(1).await;
    process.stop();

    let not_own = format!("not the history service of this database, which was last reached at {own_url}");
    let refused = format!("chancery: CHANCERY_HISTORY_URL: {other_url}: {not_own}; {WHAT_TO_DO}\n");
    for args in
        [&["build", "create", "b.example"][..], &["build", "delete", "localhost", "--yes", "--with-history"][..]]
    {
        assert_eq!(installation.fails(&[args, &["--history-url", &other_url]].concat()), refused);
    }
    assert_eq!(installation.succeeds(&["build", "list"]).lines().count(), 1);
    assert_eq!((own.tenants().len(), own.deleted().len(), other.tenants().len()), (1, 0, 0));

    // If the configured address does not answer, or none is set, the command uses the address at which a server last reached the
    // service.
    let closed = format!("http://127.0.0.1:{}", FakeServer::closed_port().await);
    let made = installation.run(&["build", "create", "c.example", "--history-url", &closed]);
    assert_eq!((made.code, made.stderr.as_str(), own.tenants().len()), (0, "", 2));
    installation.succeeds(&["build", "delete", "c.example", "--yes", "--with-history", "--history-url", &closed]);
    let installation = installation.set("CHANCERY_HISTORY_URL", "");
    installation.succeeds(&["build", "create", "b.example"]);
    assert_eq!(own.tenants().len(), 2);

    // A missing tenant is not reported as deleted.
    let tenant = own.tenants()[1].clone();
    own.remove_tenant(&tenant.client_id);
    let gone = installation.succeeds(&["build", "delete", "b.example", "--yes", "--with-history"]);
    let unknown = format!("database {}, client id {}", tenant.database_name, tenant.client_id);
    assert_eq!(
        without_receipt(&gone),
        format!("The build b.example was deleted.\nIts history service knows no history of it: {unknown}.\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_reached_is_named_with_its_setting() {
    let url = format!("http://127.0.0.1:{}", FakeServer::closed_port().await);
    let installation = installation_with_key().set("CHANCERY_HISTORY_URL", &url);
    let made = installation.run(&["build", "create", "b.example"]);
    assert_eq!((made.code, made.stdout.as_str()), (0, "The build b.example was made.\n"));
    let lines: Vec<&str> = made.stderr.lines().collect();
    let later = "The history service was not reached; a running server makes the build's tenant there.";
    assert!(lines.len() == 2 && lines[0] == later, "{lines:?}");
    assert!(lines[1].starts_with(&format!("CHANCERY_HISTORY_URL: {url}: ")), "{lines:?}");

    // A wrong key is reported too, and a missing key is not generated.
    let history = FakeHistory::start().await;
    let url = format!("http://{}", history.address);
    let installation = embedded().set("CHANCERY_HISTORY_URL", &url);
    let made = installation.run(&["build", "create", "c.example"]);
    let missing = format!("CHANCERY_HISTORY_API_KEY: must be set to the key of the history service at {url}");
    assert_eq!(made.stderr.lines().last(), Some(missing.as_str()));
    assert!(!installation.data().join("history-api-key").exists());
    let installation = installation.set("CHANCERY_HISTORY_API_KEY", "not the key of that service");
    let made = installation.run(&["build", "create", "d.example"]);
    let last = made.stderr.lines().last().unwrap_or("");
    assert!(last.starts_with(&format!("CHANCERY_HISTORY_URL: {url}: 401 ")), "{last}");
    assert!(last.ends_with("(CHANCERY_HISTORY_API_KEY)"), "{last}");
}

#[tokio::test]
async fn a_server_that_makes_the_key_of_another_history_service_says_so() {
    let installation = embedded().set("CHANCERY_HISTORY_URL", "http://127.0.0.1:1");
    let process = installation.serve_api();
    let logged = process.stderr();
    assert!(logged.contains("CHANCERY_HISTORY_API_KEY is not set, so a key was made"), "{logged}");
    assert!(installation.data().join("history-api-key").exists());
    process.stop();
    let process = installation.serve_api();
    assert!(!process.stderr().contains("CHANCERY_HISTORY_API_KEY"), "it has one now");
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_takes_the_place_of_a_lost_one_gets_new_tenants() {
    let (lost, new) = (FakeHistory::start().await, FakeHistory::start().await);
    new.set_id(Some(ANOTHER));
    let at = |history: &FakeHistory| format!("http://{}", history.address);
    let installation = installation_with_key().set("CHANCERY_HISTORY_URL", &at(&lost));
    let process = installation.serve_api();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    lost.wait_for_events(1).await;
    process.stop();

    let installation = installation.set("CHANCERY_HISTORY_URL", &at(&new));
    installation.succeeds(&["history", "adopt", "--new-tenants"]);

    assert_eq!(client_id(&installation, "localhost"), "");
    let process = installation.serve_api();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    new.wait_for_events(1).await;
    assert_eq!((lost.tenants().len(), new.tenants().len()), (1, 1));
    assert_ne!(lost.tenants()[0].database_name, new.tenants()[0].database_name);
    process.stop();
}

// ---- Delivery ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn another_service_at_the_address_gets_nothing_and_nothing_is_lost() {
    let history = FakeHistory::start().await;
    let service = history.service();
    let server =
        TestServer::start_with(|config| (config.events.history, config.identity.address_attempts) = (service, 0)).await;
    server.admin().await;
    history.wait_for_events(1).await;

    history.set_id(Some(ANOTHER));
    server.admin().await;

    let anyone = server.anonymous();
    eventually(async || {
        let now = anyone.get("/readyz").await.ok()["history"].clone();
        now["warning"] == "CHANCERY_HISTORY_URL: not the history service of this database" && now["waiting"] == 1
    })
    .await;
    assert_eq!((history.system_events().len(), history.tenants().len()), (1, 1));
    history.set_id(Some("7c9e6679-7425-40de-944b-e07fc1f90ae7"));
    assert_eq!(history.wait_for_events(2).await.len(), 2);
    eventually(async || anyone.get("/readyz").await.ok()["history"]["warning"] == Json::Null).await;
}

#[tokio::test]
async fn a_service_of_a_former_version_is_taken_while_none_is_noted() {
    let history = FakeHistory::start().await;
    history.set_id(None);
    let service = history.service();
    let server =
        TestServer::start_with(|config| (config.events.history, config.identity.address_attempts) = (service, 0)).await;
    server.admin().await;
    history.wait_for_events(1).await;
    let notes = async || platform::events::own_history::notes(&server.app.store).await.unwrap();
    assert_eq!(notes().await.id, None);

    // The service is upgraded, so its new id is stored.
    history.set_id(Some(ANOTHER));
    eventually(async || {
        server.admin().await;
        notes().await.id.as_deref() == Some(ANOTHER)
    })
    .await;
    assert_eq!(notes().await.url, Some(format!("http://{}", history.address)));
    assert_eq!(history.tenants().len(), 1);
}

// ---- Two servers ---------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_second_server_on_one_postgresql_with_a_history_of_its_own_is_refused() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    let process = installation.serve();
    let second = ["serve", "--data", "second", "--listen", "127.0.0.1:0", "--history-listen", "127.0.0.1:0"];

    let line = installation.fails(&second);

    let foreign = format!("not the history service of this database, which was last reached at {}", url_of(&process));
    let expected = format!(
        "chancery: CHANCERY_HISTORY_URL: second/history: {foreign}; for a further server run `chancery serve api` with \
         CHANCERY_HISTORY_URL and CHANCERY_HISTORY_API_KEY set to those of that service, or give all of them one \
         ClickHouse (CHANCERY_HISTORY_DATABASE_URL); if that service is gone for good, run `chancery history adopt`\n"
    );
    assert_eq!(line, expected);
    assert!(!installation.home().join("second").exists(), "a refused server leaves neither a history nor a key");
    let nothing = installation.fails(&["history", "adopt", "--data", "nowhere"]);
    let missing = "chancery: CHANCERY_HISTORY_URL: must be set, since there is no history in nowhere/history (`chancery serve \
                   history` makes one)\n";
    assert_eq!(nothing, missing);
    // With the same data directory, both servers share their history.
    installation.serve().stop();
    process.stop();
    let second = installation.home().join("second");
    Installation::embedded(BINARY).set("CHANCERY_DATA", second.to_str().unwrap()).serve_history().stop();
    let adopted = installation.succeeds(&["history", "adopt", "--data", "second"]);
    assert!(adopted.ends_with(" now (second/history).\n"), "{adopted}");
    installation.serve_with(&["--data", "second"]).stop();
    assert!(Path::new(&installation.home().join("second/history/control.db")).exists());
}

/// Returns what a deletion prints before the place of its receipt.
fn without_receipt(printed: &str) -> &str {
    printed.split_once("The receipt is in ").map_or(printed, |(before, _)| before)
}
