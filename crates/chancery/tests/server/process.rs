//! The binary in the use of operators (`docs/operations.md`).

use crate::first_start::word_after;
use crate::{BINARY, message};
use http::Method;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use store::{Conn, Sql};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, SECRET_KEY, eventually_within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

// ---- Builds and users ----------------------------------------------------------------------------------------------

#[tokio::test]
async fn builds_come_and_go_while_the_server_runs() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();

    let made = installation.succeeds(&[
        "build",
        "create",
        "B.Example",
        "--admin-username",
        "boss@b.example",
        "--admin-password",
        "long enough",
    ]);
    assert_eq!(made, "The build b.example was made.\n");
    let boss = server.client("b.example").sign_in("boss@b.example", "long enough").await;
    boss.get("/api/users/").await.ok();
    // The accounts of one build do not exist in the other.
    assert_eq!(server.client("b.example").login(ADMIN, PASSWORD).await.status, 401);
    assert_eq!(server.client("localhost").login("boss@b.example", "long enough").await.status, 401);

    let listed = installation.succeeds(&["build", "list"]);
    let domains: Vec<&str> = listed.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(domains, ["b.example", "localhost"]);

    let unsure = installation.fails(&["build", "delete", "b.example"]);
    assert!(unsure.contains("--yes") && unsure.lines().count() == 1, "{unsure}");
    let deleted = installation.succeeds(&["build", "delete", "b.example", "--yes"]);
    assert!(deleted.starts_with("The build b.example was deleted.\n"), "{deleted}");
    boss.get("/api/users/").await.expect_reply(401, message::bad_token());
    assert!(!installation.succeeds(&["build", "list"]).contains("b.example"));

    // A second build with the same domain is another build: former accounts and sessions are not valid.
    installation.succeeds(&[
        "build",
        "create",
        "b.example",
        "--admin-username",
        "boss@b.example",
        "--admin-password",
        "quite different",
    ]);
    boss.get("/api/users/").await.expect_reply(401, message::bad_token());
    assert_eq!(server.client("b.example").login("boss@b.example", "long enough").await.status, 401);
    server.client("b.example").sign_in("boss@b.example", "quite different").await;
}

#[test]
fn failed_build_commands_print_one_line() {
    let installation = Installation::with_build(BINARY);
    for (args, line) in [
        (vec!["build", "create", "LOCALHOST"], "chancery: localhost: there is such a build already\n"),
        (vec!["build", "create", "a b"], "chancery: a b: not a domain name\n"),
        (vec!["build", "create", ""], "chancery: : not a domain name\n"),
        (vec!["build", "create", "../x"], "chancery: ../x: not a domain name\n"),
        (
            vec!["build", "create", "c.example", "--admin-username", "nobody"],
            "chancery: username: Enter a valid email address.\n",
        ),
        (vec!["build", "create", "c.example", "--admin-password", "short"], "chancery: password: Min length 8\n"),
        (vec!["build", "delete", "nowhere.example", "--yes"], "chancery: nowhere.example: there is no such build\n"),
    ] {
        assert_eq!(installation.fails(&args), line, "{args:?}");
    }
    assert_eq!(installation.succeeds(&["build", "list"]).lines().count(), 1, "what was refused left nothing behind");
    installation.succeeds(&["build", "create", "c.example"]);
}

#[tokio::test]
async fn users_are_made_by_operators() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let create = ["user", "create", "--build", "localhost", "--username"];
    let with = |username: &'static str, arguments: &[&'static str]| [&create[..], &[username], arguments].concat();

    let made =
        installation.succeeds(&with("Ann@example.com", &["--account-type", "internal", "--password", "long enough"]));

    assert_eq!(made, "The user Ann@example.com was made.\n");
    let ann = server.client("localhost").sign_in("ann@example.com", "long enough").await;
    let shown = ann.get("/api/users/me/").await.ok();
    assert_eq!(
        (&shown["username"], &shown["account_type"], &shown["status"]),
        (&json!("Ann@example.com"), &json!("internal"), &json!("active"))
    );

    for account_type in ["external", "full", "super_admin", "service_internal", "service_external"] {
        let username = format!("{account_type}@example.com");
        let args = [
            "user",
            "create",
            "--build",
            "localhost",
            "--username",
            &username,
            "--account-type",
            account_type,
            "--password",
            "long enough",
        ];
        installation.succeeds(&args);
        server.client("localhost").sign_in(&username, "long enough").await;
    }
    for (arguments, line) in [
        (
            vec!["ANN@example.com", "--account-type", "full", "--password", "long enough"],
            "chancery: username: This field must be unique.\n",
        ),
        (
            vec!["nobody", "--account-type", "full", "--password", "long enough"],
            "chancery: username: Enter a valid email address.\n",
        ),
        (vec!["x@example.com", "--account-type", "full", "--password", "short"], "chancery: password: Min length 8\n"),
        (
            vec!["x@example.com", "--account-type", "service_internal", "--password", "long enough"],
            "chancery: Limit of 1 service_internal accounts has been exceeded.; error_code: ERR_LIMIT_EXCEEDED\n",
        ),
        (
            vec!["x@example.com", "--account-type", "full"],
            "chancery: --password: must be given where there is no terminal to ask on\n",
        ),
    ] {
        assert_eq!(installation.fails(&[&create[..], &arguments].concat()), line, "{arguments:?}");
    }
    let elsewhere = installation.fails(&[
        "user",
        "create",
        "--build",
        "b.example",
        "--username",
        "x@example.com",
        "--account-type",
        "full",
        "--password",
        "long enough",
    ]);
    assert_eq!(elsewhere, "chancery: b.example: there is no such build\n");
    let robot = installation
        .run(&[&create[..], &["x@example.com", "--account-type", "robot", "--password", "long enough"]].concat());
    assert_eq!((robot.code, robot.stdout.as_str()), (2, ""));
    assert!(robot.stderr.contains("'robot'"), "{}", robot.stderr);
}

#[tokio::test]
async fn passwords_are_read_from_standard_input_and_from_files() {
    let installation = Installation::with_build(BINARY);
    let home = installation.home();
    let file = |name: &str, text: &str| std::fs::write(home.join(name), text).unwrap();
    let from_input = |args: &[&str], input: &str| {
        file("input", input);
        installation.run_with_input(args, &home.join("input"))
    };
    let user =
        |command: &'static str, name: &'static str| ["user", command, "--build", "localhost", "--username", name];

    let made = from_input(&["build", "create", "b.example", "--password-stdin"], "the first password\n");
    assert_eq!((made.code, made.stdout.as_str()), (0, "The build b.example was made.\n"), "{}", made.stderr);
    file("second", "the second password");
    let create = [&user("create", "anna@example.com")[..], &["--account-type", "full", "--password-file", "second"]];
    assert_eq!(installation.succeeds(&create.concat()), "The user anna@example.com was made.\n");
    let set = [&user("set-password", ADMIN)[..], &["--password-stdin"]].concat();
    let done = from_input(&set, "the third password\r\n");
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert_eq!(done.stdout, "The password of admin@example.com was set.\n");

    let server = installation.serve_api();
    server.client("b.example").sign_in(ADMIN, "the first password").await;
    server.client("localhost").sign_in("anna@example.com", "the second password").await;
    server.client("localhost").sign_in(ADMIN, "the third password").await;

    let empty = from_input(&set, "\n");
    assert_eq!((empty.code, empty.stderr.as_str()), (1, "chancery: --password-stdin: the password is empty\n"));
    let missing = installation.fails(&["build", "create", "c.example", "--password-file", "nowhere"]);
    assert_eq!(missing, "chancery: --password-file: nowhere: No such file or directory (os error 2)\n");
    assert!(!installation.succeeds(&["build", "list"]).contains("c.example"));
}

#[test]
fn builds_are_listed_for_people_scripts_and_programs() {
    let installation = Installation::with_build(BINARY);
    let lines = installation.succeeds(&["build", "list"]);
    assert!(lines.starts_with("localhost\tactive\t2") && lines.lines().count() == 1, "{lines}");
    let listed: serde_json::Value = serde_json::from_str(&installation.succeeds(&["build", "list", "--json"])).unwrap();
    let created_at = lines.split('\t').nth(2).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed[0]["domain"], &listed[0]["state"], &listed[0]["created_at"]),
        (&json!("localhost"), &json!("active"), &json!(created_at))
    );
    assert!(listed[0]["history"]["database_name"].as_str().unwrap().starts_with("localhost_"), "{listed}");
    let on_terminal = installation.run_on_terminal(&["build", "list"]);
    let header: Vec<&str> = on_terminal.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["DOMAIN", "STATE", "CREATED", "HISTORY", "DATABASE", "CLIENT", "ID"], "{on_terminal}");
}

#[tokio::test]
async fn set_password_unlocks_the_account_and_ends_its_sessions() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let anyone = server.client("localhost");
    let admin = anyone.sign_in(ADMIN, PASSWORD).await;
    for _ in 0..5 {
        assert_eq!(anyone.login(ADMIN, "wrong").await.status, 401);
    }
    assert_eq!(anyone.login(ADMIN, PASSWORD).await.status, 401, "the account is locked");

    let set = installation.succeeds(&[
        "user",
        "set-password",
        "--build",
        "localhost",
        "--username",
        "ADMIN@example.com",
        "--password",
        "another one",
    ]);

    assert_eq!(set, "The password of ADMIN@example.com was set.\n");
    eventually_within(NOTICED_WITHIN, async || admin.get("/api/users/me/").await == (401, message::bad_token())).await;
    anyone.sign_in(ADMIN, "another one").await;
    let short = installation.fails(&[
        "user",
        "set-password",
        "--build",
        "localhost",
        "--username",
        ADMIN,
        "--password",
        "short",
    ]);
    assert_eq!(short, "chancery: password: Min length 8\n");
    let unknown = installation.fails(&[
        "user",
        "set-password",
        "--build",
        "localhost",
        "--username",
        "x@example.com",
        "--password",
        "long enough",
    ]);
    assert_eq!(unknown, "chancery: x@example.com: there is no such user\n");
}

/// The time in which a process must see a change of another one: normally a second, with a margin for a busy machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

// ---- Settings ------------------------------------------------------------------------------------------------------

#[test]
fn a_wrong_setting_stops_the_start_with_one_line_that_names_it() {
    for (name, value) in [
        ("CHANCERY_LISTEN", "localhost"),
        ("CHANCERY_LISTEN", "256.0.0.1:80"),
        ("CHANCERY_HISTORY_LISTEN", "8001"),
        ("CHANCERY_DATABASE_URL", "mysql://u:hidden@h/d"),
        ("CHANCERY_DATABASE_URL", "postgres://u:hidden@127.0.0.1:1/d"),
        ("CHANCERY_DATABASE_URL", "postgres:///d?host=/nowhere&password=hidden"),
        ("CHANCERY_DATABASE_URL", "postgres://u:hidden@127.0.0.1:1/d?sslmode=perhaps"),
        ("CHANCERY_DATABASE_URL", "postgres://u:hidden@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=/nowhere"),
        ("RUST_LOG", "loud"),
        ("CHANCERY_LOCK_ATEMPTS", "3"),
        ("CHANCERY_HISTORY_DATABASE_URL", "ftp://u:hidden@h"),
        ("CHANCERY_BASE_URL", "chancery.example"),
        ("CHANCERY_SIGN_IN_URL", "app"),
        ("CHANCERY_DATA", "/dev/null/data"),
        ("CHANCERY_TRUSTED_PROXIES", "10.0.0.0/99"),
        ("CHANCERY_OUTBOUND_ALLOW", "everything"),
        ("CHANCERY_CORS_ORIGINS", "app.example"),
        ("CHANCERY_LOCK_ATTEMPTS", "0"),
        ("CHANCERY_LOCK_SECONDS", "soon"),
        ("CHANCERY_ADDRESS_ATTEMPTS", "-1"),
        ("CHANCERY_ACCESS_TOKEN_SECONDS", "15m"),
        ("CHANCERY_REFRESH_TOKEN_SECONDS", "1.5"),
        ("CHANCERY_ADMIN_USERNAME", "nobody"),
        ("CHANCERY_ADMIN_PASSWORD", "short"),
    ] {
        let mut installation = Installation::embedded(BINARY)
            .set("CHANCERY_LISTEN", "127.0.0.1:0")
            .set("CHANCERY_HISTORY_LISTEN", "127.0.0.1:0");
        if value.starts_with("postgres") {
            installation = installation.set("CHANCERY_SECRET_KEY", SECRET_KEY);
        }
        let line = installation.set(name, value).fails(&["serve"]);
        assert!(
            line.starts_with(&format!("chancery: {name}: ")) && line.lines().count() == 1,
            "{name}={value}: {line}"
        );
        assert!(!line.contains("hidden"), "{line}");
    }
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let installation = Installation::embedded(BINARY);
    std::fs::write(
        installation.home().join("chancery.toml"),
        "api_key = 'the key of the settings file'\nhistory_api_key = 'the key of the settings file'\n",
    )
    .unwrap();
    let keys = |api: &str| format!("CHANCERY_API_KEY={api}\nCHANCERY_HISTORY_API_KEY=the key of the settings file\n");
    assert!(installation.succeeds(&["keys"]).starts_with(&keys("the key of the settings file")));
    let installation = installation.set("CHANCERY_API_KEY", "the key of the environment");
    assert!(installation.succeeds(&["keys"]).starts_with(&keys("the key of the environment")));
    let flag = "the key of the command line";
    assert!(installation.succeeds(&["keys", "--api-key", flag]).starts_with(&keys(flag)));

    std::fs::write(installation.home().join("chancery.toml"), "lock_atempts = 3\n").unwrap();
    assert_eq!(installation.fails(&["keys"]), "chancery: chancery.toml: unknown setting \"lock_atempts\"\n");
}

#[test]
fn a_wrong_flag_is_named_as_it_was_given() {
    let installation = Installation::embedded(BINARY);
    let line = installation.fails(&["serve", "--listen", "here"]);
    assert_eq!(line, "chancery: --listen: \"here\" is no address with a port, such as 127.0.0.1:8000\n");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = Installation::embedded(BINARY).fails(&["serve", "--listen", &address]);
    assert!(
        line.starts_with(&format!("chancery: CHANCERY_LISTEN: {address}: ")) && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    for directory in ["/dev/null/data", "/proc/data"] {
        let installation = Installation::embedded(BINARY).set("CHANCERY_DATA", directory);
        let line = installation.fails(&["serve"]);
        assert!(
            line.starts_with(&format!("chancery: CHANCERY_DATA: {directory}")) && line.lines().count() == 1,
            "{line}"
        );
        let line = installation.set("CHANCERY_SECRET_KEY", SECRET_KEY).fails(&["serve"]);
        assert!(line.starts_with("chancery: CHANCERY_DATA: ") && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn postgresql_needs_the_key_to_be_set() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    let line = installation.set("CHANCERY_SECRET_KEY", "").fails(&["serve"]);
    assert!(line.starts_with("chancery: CHANCERY_SECRET_KEY: ") && line.lines().count() == 1, "{line}");
}

#[test]
fn a_start_with_another_secret_key_is_refused() {
    let installation = Installation::with_build(BINARY);
    let line = installation.set("CHANCERY_SECRET_KEY", "quite different").fails(&["serve"]);
    assert!(line.starts_with("chancery: CHANCERY_SECRET_KEY: ") && line.lines().count() == 1, "{line}");
    assert!(!line.contains("quite different"), "{line}");
}

// ---- Backup --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_backup_made_while_the_server_runs_has_everything() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    let server = installation.serve();
    installation.succeeds(&["build", "create", "b.example"]);
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    admin.post("/api/roles/", json!({"name": "Kept"})).await.expect_created();
    let keys = installation.succeeds(&["keys"]);

    installation.succeeds(&["backup", "copy"]);

    admin.post("/api/roles/", json!({"name": "Too late"})).await.expect_created();
    let copy = installation.home().join("copy").display().to_string();
    let restored = Installation::embedded(BINARY).set("CHANCERY_DATA", &copy);
    assert_eq!(restored.succeeds(&["keys"]), keys);
    let second = restored.serve();
    assert!(!second.stdout().contains("was made"), "{}", second.stdout());
    let admin = second.client("localhost").sign_in(ADMIN, PASSWORD).await;
    assert_eq!(admin.get("/api/roles/").await.column("name"), ["Kept"]);
    second.client("b.example").sign_in(ADMIN, PASSWORD).await;

    let again = installation.fails(&["backup", "copy"]);
    assert_eq!(again, "chancery: copy: is there already and is no unfinished backup\n");
    // An empty directory is accepted like a missing one.
    let empty = installation.home().join("empty");
    std::fs::create_dir(&empty).unwrap();
    installation.succeeds(&["backup", "empty"]);
    assert_eq!(std::fs::metadata(&empty).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(installation.succeeds(&["build", "list", "--data", "empty"]).lines().count(), 2);
    let nothing = installation.fails(&["backup", "copy2", "--data", "nowhere"]);
    assert_eq!(nothing, "chancery: nowhere: there is no data directory\n");
    assert!(!installation.home().join("copy2").exists());
}

// ---- Commands ----------------------------------------------------------------------------------------------------

#[test]
fn commands_make_no_database_where_there_is_none() {
    let installation = Installation::embedded(BINARY);
    for args in [&["build", "list"][..], &["build", "limits", "a.example"], &["history", "adopt"]] {
        let line = installation.fails(args);
        assert_eq!(line, "chancery: ./chancery-data: there is no data directory\n");
    }
    assert!(!installation.data().exists());
}

#[test]
fn a_full_output_is_a_line_of_its_own() {
    let installation = Installation::embedded(BINARY);
    installation.succeeds(&["build", "create", "a.example", "--admin-password", PASSWORD]);
    for args in [&["build", "list"][..], &["keys"], &["build", "limits", "a.example"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = std::process::Command::new(BINARY);
        let output = command.args(args).arg("--data").arg(installation.data()).stdout(full).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        let expected = "chancery: standard output: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), line.as_str()), (Some(1), expected), "{args:?}");
    }
}

#[test]
fn generated_keys_are_kept_and_private() {
    let installation = Installation::embedded(BINARY);
    let printed = installation.succeeds(&["keys"]);
    let (api, history) = (word_after(&printed, "CHANCERY_API_KEY="), word_after(&printed, "CHANCERY_HISTORY_API_KEY="));
    assert_ne!(api, history);
    assert!(api.len() >= 32 && history.len() >= 32);
    assert_eq!(printed.lines().count(), 4);
    assert_eq!(installation.succeeds(&["keys"]), printed);
    installation.serve().stop();
    assert_eq!(installation.succeeds(&["keys"]), printed);
    for file in ["secret-key", "api-key", "history-api-key", "signing-key"] {
        let mode = std::fs::metadata(installation.data().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }

    let installation = installation.set("CHANCERY_API_KEY", "mine, and long enough");
    let mine = format!("CHANCERY_API_KEY=mine, and long enough\nCHANCERY_HISTORY_API_KEY={history}\n");
    assert!(installation.succeeds(&["keys"]).starts_with(&mine));
}

// ---- Serving -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn both_listeners_tell_their_health_without_sign_in() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let lag = json!({"waiting": 0, "lag_seconds": 0, "is_reachable": true, "refused": 0});
    let jobs = json!({"waiting": 0, "running": 0, "failed": 0});
    let ready = [
        (server.api(), json!({"status": "ok", "jobs": jobs, "files": {"status": "ok"}, "history": lag})),
        (server.history(), json!({"status": "ok", "files": {"status": "ok"}})),
    ];
    for (address, ready) in ready {
        let anyone = ApiClient::new(address, "no build at all");
        anyone.get("/healthz").await.expect_reply(200, json!({"status": "ok"}));
        let mut body = anyone.get("/readyz").await.ok();
        let since = body["files"].as_object_mut().unwrap().remove("since").unwrap();
        assert!(since.as_str().unwrap().ends_with('Z'), "{since}");
        assert_eq!(body, ready);
    }
}

#[tokio::test]
async fn a_server_whose_database_is_gone_is_up_but_not_ready() {
    let Some(mut installation) = Installation::postgresql(BINARY) else { return };
    let server = installation.serve_api();
    let anyone = server.client("localhost");
    anyone.get("/readyz").await.ok();
    installation.lose_database();
    anyone.get("/healthz").await.ok();
    let reply = anyone.get("/readyz").await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{reply:?}");
    assert!(!reply.text.contains("postgres"), "what the operator sees in the log is not for everybody: {reply:?}");
}

#[tokio::test]
async fn one_service_is_served_alone() {
    let installation = Installation::with_build(BINARY);
    let api = installation.serve_api();
    api.client("localhost").get("/api/security/").await.ok();
    assert!(!api.stdout().contains("history"), "{}", api.stdout());
    let history = installation.serve_history();
    ApiClient::new(history.history(), "localhost").get("/healthz").await.ok();
    assert!(!history.stdout().contains("main API"), "{}", history.stdout());
}

#[tokio::test]
async fn preflight_requests_of_configured_origins_are_answered() {
    let installation =
        Installation::with_build(BINARY).set("CHANCERY_CORS_ORIGINS", "https://app.example, http://localhost:5173");
    let server = installation.serve_api();
    let call = server
        .client("localhost")
        .call(Method::OPTIONS.as_str(), "/api/users/")
        .header("origin", "http://localhost:5173");
    let reply = call.header("access-control-request-method", "PATCH").send().await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, "http://localhost:5173"));
}

#[tokio::test]
async fn every_request_is_a_line_of_the_log_without_secrets() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve_api();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    admin.call("GET", "/api/users/?username=secret-search").header("x-request-id", "find-me").send().await.ok();

    let log = server.stderr();

    let line = log.lines().find(|line| line.contains("find-me")).unwrap_or_else(|| panic!("not in {log}"));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["method"], &line["path"], &line["status"]), (&json!("GET"), &json!("/api/users/"), &json!(200)));
    assert_eq!((&line["build"], &line["user"]), (&json!("localhost"), &json!(1)));
    for secret in [PASSWORD, &admin.token, &admin.refresh_token, "secret-search"] {
        assert!(!log.contains(secret), "{secret} stands in the log");
    }
}

#[tokio::test]
async fn a_long_path_is_cut_in_the_log() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve_api();
    let path = format!("/api/{}/", "x".repeat(20_000));
    let reply = server.client("localhost").call("GET", &path).header("x-request-id", "find-me").send().await;
    assert_eq!(reply.status, 404);
    let log = server.stderr();
    let line = log.lines().find(|line| line.contains("find-me")).unwrap_or_else(|| panic!("not in {log}"));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["path"], path[..200]);
}

#[tokio::test]
async fn an_operator_lets_super_admins_sign_in_with_passwords_again() {
    let installation = Installation::with_build(BINARY);
    let sso = Sql::new("UPDATE security SET method_super_admin = 'sso'");
    let store = installation.store().await;
    store.database("build_1").write(move |conn: &mut Conn| conn.exec(&sso)).await.unwrap();
    store.close().await;
    let server = installation.serve_api();
    let anyone = server.client("localhost");
    assert_eq!(anyone.login(ADMIN, PASSWORD).await.status, 401);

    let output = installation.run(&["build", "allow-passwords", "nobody.example"]);
    assert_eq!((output.code, output.stderr.as_str()), (1, "chancery: nobody.example: there is no such build\n"));
    installation.succeeds(&["build", "allow-passwords", "localhost"]);

    let admin = anyone.sign_in(ADMIN, PASSWORD).await;
    assert_eq!(admin.get("/api/security/").await.ok()["authentication_method"]["super_admin"], "any");
    let entry = admin.get("/api/administration/log/?resource=standard_authentication").await.ok()["results"][0].take();
    assert_eq!(
        (&entry["by"], &entry["action"], &entry["changes"]),
        (&json!(null), &json!("edit"), &json!({"super_admin": ["sso", "any"]}))
    );
}

/// Sends a request with half of its body.
async fn half_a_request(server: &Process) -> (TcpStream, Vec<u8>) {
    let body = json!({"username": ADMIN, "password": PASSWORD}).to_string().into_bytes();
    let mut stream = TcpStream::connect(server.api()).await.unwrap();
    let head = format!(
        "POST /api/auth/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body[..10]).await.unwrap();
    // After it answers later requests, the server has received this one.
    server.client("localhost").get("/healthz").await.ok();
    (stream, body[10..].to_vec())
}

#[tokio::test]
async fn a_signal_stops_it_after_the_request_in_flight() {
    for signal in ["TERM", "INT"] {
        let installation = Installation::with_build(BINARY);
        let mut server = installation.serve();
        let (mut stream, second_half) = half_a_request(&server).await;

        server.signal(signal);

        let limit = Duration::from_secs(20);
        eventually_within(limit, async || TcpStream::connect(server.api()).await.is_err()).await;
        stream.write_all(&second_half).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("access_token"), "{answer}");
        assert_eq!(server.end().code(), Some(0));
        // The acknowledged sign-in is stored.
        let server = installation.serve();
        let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
        assert_eq!(admin.get("/api/users/me/sessions/").await["total_count"], 2);
    }
}

#[test]
fn it_takes_memory_in_small_pages() {
    let server = Installation::with_build(BINARY).serve();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    // Systems before Linux 5.0 do not report it.
    if let Some(line) = status.lines().find(|line| line.starts_with("THP_enabled:")) {
        assert_eq!(line.split_whitespace().last(), Some("0"));
    }
}
