//! The output of commands for programs, and commands that check a deployment (`docs/operations.md`, "Commands").

use crate::BINARY;
use serde_json::{Value, json};
use std::net::TcpListener;
use testkit::{ADMIN, Installation, PASSWORD};

fn printed(installation: &Installation, args: &[&str]) -> Value {
    let text = installation.succeeds(&[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn commands_print_json() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();

    let made = printed(&installation, &["build", "create", "b.example", "--admin-username", ADMIN]);
    assert_eq!(made, json!({"domain": "b.example", "username": ADMIN, "password": null}), "the operator set it");
    server.client("b.example").sign_in(ADMIN, PASSWORD).await;

    let set = printed(&installation, &["build", "limits", "b.example", "roles", "7"]);
    assert_eq!(set, json!([{"key": "roles", "value": 7, "is_default": false, "count": 0}]));
    let limits = printed(&installation, &["build", "limits", "b.example"]);
    let extensions = limits.as_array().unwrap().iter().find(|limit| limit["value"].is_array()).unwrap();
    assert!(extensions["value"].as_array().unwrap().contains(&json!("pdf")), "{extensions}");
    assert_eq!(extensions["count"], Value::Null);

    let keys = printed(&installation, &["keys"]);
    let lines = format!(
        "CHANCERY_API_KEY={}\nCHANCERY_HISTORY_API_KEY={}\n",
        keys["api_key"].as_str().unwrap(),
        keys["history_api_key"].as_str().unwrap()
    );
    assert!(installation.succeeds(&["keys"]).starts_with(&lines));
    let signing = &keys["signing_key"];
    // Without a data directory the key for signatures is a setting.
    assert!(signing.is_null() || signing["public_key"].is_string() && signing["id"].is_string(), "{keys}");

    let deleted = printed(&installation, &["build", "delete", "b.example", "--yes"]);
    let (database, client) = (&deleted["history"]["database_name"], &deleted["history"]["client_id"]);
    assert_eq!(
        deleted,
        json!({
            "domain": "b.example",
            "history": {"state": "retained", "database_name": database, "client_id": client},
            "undelivered_events": deleted["undelivered_events"], "receipt": deleted["receipt"],
        })
    );
    assert!(
        database.is_string() && client.is_string() && deleted["receipt"].is_string() == signing.is_object(),
        "{deleted}"
    );
}

#[test]
fn a_generated_password_is_part_of_the_json() {
    let installation = Installation::embedded(BINARY);
    let made = printed(&installation, &["build", "create", "a.example"]);
    assert_eq!((&made["domain"], &made["username"]), (&json!("a.example"), &json!("admin@example.com")));
    assert_eq!(made["password"].as_str().map(str::len), Some(43));
    let rotated = printed(&installation, &["keys", "rotate", "--new-secret-key", &"k".repeat(32)]);
    assert_eq!(rotated, json!({"rotated_builds": 1, "unopened_values": 0, "is_in_file": true}));
}

#[test]
fn a_check_of_the_settings_names_every_mistake_and_no_secret() {
    let installation = Installation::embedded(BINARY);
    assert_eq!(installation.succeeds(&["config", "check"]), "The settings are valid.\n");
    assert!(!installation.data().exists(), "a check creates nothing");

    std::fs::write(installation.home().join("chancery.toml"), "lock_seconds = 0\napi_key = 'hidden-key'\n").unwrap();
    let installation = installation
        .set("CHANCERY_DATABASE_URL", "mysql://chancery:hidden-password@db/chancery")
        .set("CHANCERY_LISTEN", "localhost")
        .set("RUST_LOG", "inof");
    let lines = installation.fails(&["config", "check", "--upload-seconds", "soon"]);
    assert_eq!(
        lines,
        "chancery: CHANCERY_LISTEN: \"localhost\" is no address with a port, such as 127.0.0.1:8000\n\
         chancery: CHANCERY_DATABASE_URL: expected postgres://… or postgresql://…\n\
         chancery: chancery.toml, api_key: expected at least 20 characters\n\
         chancery: chancery.toml, lock_seconds: \"0\" is no whole number from 1 to 1000000000\n\
         chancery: --upload-seconds: \"soon\" is no whole number from 1 to 1000000000\n\
         chancery: RUST_LOG: \"inof\" is none of off, error, warn, info, debug, trace, nor one of them for a part of the \
         program, such as store=debug\n"
    );

    let output = installation.run(&["config", "check", "--json"]);
    let checked: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, output.stderr.as_str(), &checked["is_valid"]), (1, "", &json!(false)));
    assert_eq!(checked["mistakes"].as_array().unwrap().len(), 5, "{checked}");
    assert_eq!(
        checked["mistakes"][2],
        json!({"setting": "chancery.toml, api_key", "problem": "expected at least 20 characters"})
    );
    assert!(!output.stdout.contains("hidden"), "{}", output.stdout);
}

#[test]
fn a_check_finds_mistakes_that_stop_a_start() {
    let home = || Installation::embedded(BINARY).set("CHANCERY_SECRET_KEY", &"k".repeat(32));
    for (installation, line) in [
        (
            home().set("CHANCERY_DATABASE_URL", "postgres://u:hidden@db/chancery?sslmode=prefer"),
            "chancery: CHANCERY_DATABASE_URL: sslmode: ",
        ),
        (home().set("CHANCERY_HISTORY_LISTEN", "127.0.0.1:0"), ""),
        (
            home().set("CHANCERY_HISTORY_LISTEN", "127.0.0.1:9").set("CHANCERY_LISTEN", "127.0.0.1:9"),
            "chancery: CHANCERY_HISTORY_LISTEN: 127.0.0.1:9: the main API listens there\n",
        ),
        (home().set("CHANCERY_SECRET_KEY", "short"), "chancery: CHANCERY_SECRET_KEY: "),
        (home().set("CHANCERY_FILES_URL", "ftp://hidden@bucket"), "chancery: CHANCERY_FILES_URL: "),
    ] {
        let output = installation.run(&["config", "check"]);
        assert!(output.stderr.starts_with(line) && !output.stderr.contains("hidden"), "{line}: {output:#?}");
        assert_eq!(output.code, i32::from(!line.is_empty()), "{output:#?}");
    }
}

#[test]
fn a_check_connects_only_if_asked() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let installation = Installation::embedded(BINARY)
        .set("CHANCERY_SECRET_KEY", &"k".repeat(32))
        .set("CHANCERY_DATABASE_URL", &format!("postgres://u:hidden@{unused}/chancery"))
        .set("CHANCERY_HISTORY_DATABASE_URL", &format!("http://u:hidden@{unused}"));
    installation.succeeds(&["config", "check"]);
    let lines = installation.fails(&["config", "check", "--connect"]);
    let settings: Vec<&str> = lines.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(settings, ["CHANCERY_DATABASE_URL", "CHANCERY_HISTORY_DATABASE_URL"], "{lines}");
    assert!(!lines.contains("hidden"), "{lines}");
    if let Some(installation) = Installation::postgresql(BINARY) {
        installation.succeeds(&["config", "check", "--connect"]);
    }
}

#[test]
fn a_running_service_reports_its_health() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let (api, history) = (server.api().to_string(), server.history().to_string());
    assert_eq!(installation.succeeds(&["health", "--listen", &api]), "ready\n");
    assert_eq!(installation.succeeds(&["health", "history", "--history-listen", &history]), "ready\n");
    let answer: Value = serde_json::from_str(&installation.succeeds(&["health", "--json", "--listen", &api])).unwrap();
    assert_eq!(answer["status"], "ok");
    server.stop();
    let refused = installation.fails(&["health", "--listen", &api]);
    assert!(refused.starts_with(&format!("chancery: http://{api}/readyz: Connection refused")), "{refused}");
}

#[test]
fn completions_are_printed_for_every_shell() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_LISTEN", "not an address");
    for (shell, text) in [
        ("bash", "complete -F _chancery"),
        ("zsh", "#compdef chancery"),
        ("fish", "complete -c chancery"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion"),
    ] {
        let script = installation.succeeds(&["completions", shell]);
        assert!(script.contains(text) && script.contains("config"), "{shell}");
    }
}
