//! The deployment's keys (`docs/operations.md`): their length, their loss, and the sealed values after a change of the secret key.

use crate::TestServer;
use crate::{BINARY, message};
use platform::kit::secret::{Context, Keys, OF_HISTORY_TENANTS, SealedColumn};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use store::{Conn, Database, Sql, Store, StoreError};
use testkit::{ADMIN, ApiClient, Installation, MailFile, PASSWORD, Process, SECRET_KEY, eventually, rounds};
use web::clock::Clock;

const SHORT: &str = "thirty-one characters is short.";
const LONG: &str = "thirty-two characters are enough";

// ---- Their length --------------------------------------------------------------------------------------------------

fn installations() -> Vec<Installation> {
    [Some(Installation::embedded(BINARY)), Installation::postgresql(BINARY)].into_iter().flatten().collect()
}

#[test]
fn a_new_database_is_not_made_with_a_short_key() {
    for installation in installations() {
        let installation = installation.set("CHANCERY_SECRET_KEY", SHORT);
        let line = "chancery: CHANCERY_SECRET_KEY: expected at least 32 characters for a new database\n";
        assert_eq!(installation.fails(&["serve"]), line);
        assert_eq!(installation.fails(&["build", "create", "a.example"]), line);
        assert!(!installation.data().join("control.db").exists());
        installation.set("CHANCERY_SECRET_KEY", LONG).succeeds(&["build", "create", "a.example"]);
    }
}

/// Returns every sealed column of the modules, and that of the control database.
fn sealed_columns() -> impl Iterator<Item = &'static SealedColumn> {
    platform::MODULES.iter().flat_map(|domain| domain.sealed_columns).chain([&OF_HISTORY_TENANTS])
}

#[tokio::test]
async fn a_database_of_a_shorter_key_starts_with_a_warning_each_time() {
    let installation = Installation::with_build(BINARY).set("CHANCERY_SECRET_KEY", "short");
    set_key(&installation.store().await.control(), &Keys::new("short").fingerprint()).await;
    for _ in 0..2 {
        let process = installation.serve_api();
        process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let warnings = process.stderr().matches("CHANCERY_SECRET_KEY has fewer than 32 characters").count();
        assert_eq!(warnings, 1, "{}", process.stderr());
        assert!(!process.stderr().contains("short\""));
    }
}

#[test]
fn a_short_api_key_stops_the_start_with_one_line_that_names_it() {
    let short = "nineteen characters";
    for (setting, file, key) in
        [("CHANCERY_API_KEY", "api-key", short), ("CHANCERY_HISTORY_API_KEY", "history-api-key", short)]
    {
        let installation = Installation::embedded(BINARY);
        std::fs::create_dir(installation.data()).unwrap();
        std::fs::write(installation.data().join(file), key).unwrap();
        let kept = format!("chancery: {setting}: ./chancery-data/{file}: expected at least 20 characters\n");
        assert_eq!(installation.fails(&["serve"]), kept);
        assert_eq!(installation.fails(&["serve", "api"]), kept);
        assert_eq!(installation.fails(&["keys"]), kept);
        let set = format!("chancery: {setting}: expected at least 20 characters\n");
        assert_eq!(installation.set(setting, key).fails(&["serve"]), set);
    }
    let installation = Installation::embedded(BINARY);
    std::fs::write(installation.home().join("chancery.toml"), format!("api_key = '{short}'\n")).unwrap();
    let line = installation.fails(&["serve"]);
    assert_eq!(line, "chancery: chancery.toml, api_key: expected at least 20 characters\n");
    let history = Installation::embedded(BINARY).set("CHANCERY_HISTORY_API_KEY", short).fails(&["serve", "history"]);
    assert_eq!(history, "chancery: CHANCERY_HISTORY_API_KEY: expected at least 20 characters\n");
}

#[test]
fn a_lost_key_is_not_replaced_by_another() {
    let installation = Installation::embedded(BINARY);
    installation.serve().stop();
    let file = installation.data().join("secret-key");
    let key = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let line = "chancery: CHANCERY_SECRET_KEY: must be set, or ./chancery-data/secret-key put back: the database was made with it\n";
    for args in [&["serve"][..], &["build", "list"], &["keys", "rotate", "--new-secret-key", LONG]] {
        assert_eq!(installation.fails(args), line);
        assert!(!file.exists());
    }
    installation.set("CHANCERY_SECRET_KEY", key.trim()).serve().stop();
}

// ---- Backups -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_backup_without_keys_holds_none() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    installation.serve().stop();
    let keys = installation.succeeds(&["keys"]);
    let secret = std::fs::read_to_string(installation.data().join("secret-key")).unwrap();
    let held = installation.succeeds(&["backup", "with"]);
    assert_eq!(held, "The copy holds the secret key beside what it seals: keep it safe, or make one --without-keys.\n");
    let free = installation.succeeds(&["backup", "--without-keys", "without"]);
    assert_eq!(
        free,
        "The copy is of no use without the secret key, which is not in it: keep both, in different places.\n"
    );

    let texts = contents(&installation.home().join("without"));
    let words = |line: &str| line.split_once('=').unwrap().1.to_owned();
    for key in keys.lines().filter(|line| line.starts_with("CHANCERY_")).map(words).chain([secret.trim().to_owned()]) {
        assert!(texts.iter().all(|(_, bytes)| !contains_key(bytes, key.as_bytes())), "a key is in the copy");
        assert!(
            contents(&installation.home().join("with")).iter().any(|(_, bytes)| contains_key(bytes, key.as_bytes()))
        );
    }
    let copy = installation.home().join("without").display().to_string();
    let restored = Installation::embedded(BINARY).set("CHANCERY_DATA", &copy);
    let line = restored.fails(&["serve"]);
    assert!(line.starts_with("chancery: CHANCERY_SECRET_KEY: must be set, or ") && line.lines().count() == 1, "{line}");
    assert!(!std::path::Path::new(&copy).join("secret-key").exists());
    let restored = restored.set("CHANCERY_SECRET_KEY", secret.trim());
    restored.serve().client("localhost").sign_in(ADMIN, PASSWORD).await;
}

fn contents(directory: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => contents(&path),
            false => vec![(path.display().to_string(), std::fs::read(&path).unwrap())],
        })
        .collect()
}

fn contains_key(bytes: &[u8], key: &[u8]) -> bool {
    bytes.windows(key.len()).any(|window| window == key)
}

// ---- Another secret key --------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_key_opens_everything_and_the_old_one_nothing() {
    for installation in installations() {
        let mut installation = with_builds(installation, 1);
        let link = seal_values(&installation, &["localhost"]).await;
        let old = Keys::new(&secret_key(&installation));
        let process = installation.serve();
        let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;

        let rotate = ["keys", "rotate", "--new-secret-key", LONG];
        let line = installation.fails(&rotate);
        assert_eq!(line, "chancery: a server or another command is running; end it first\n");
        admin.get("/api/users/me/").await.ok();
        process.stop();
        leave_in_former_queue(&installation, &old).await;
        // The list contains every sealed column, and only those.
        let listed: BTreeSet<String> =
            sealed_columns().map(|known| format!("{}.{}", known.table, known.column)).collect();
        assert_eq!(sealed(&installation, &old).await.columns, listed);
        assert_eq!(sealed(&installation, &Keys::new(LONG)).await, SealedValue::default());

        let short = installation.fails(&["keys", "rotate", "--new-secret-key", SHORT]);
        assert_eq!(short, "chancery: CHANCERY_NEW_SECRET_KEY: expected at least 32 characters\n");
        let none = installation.fails(&["keys", "rotate"]);
        assert_eq!(none, "chancery: CHANCERY_NEW_SECRET_KEY: must be set to the key that is to come\n");
        let before = sealed(&installation, &old).await;

        let told = installation.succeeds(&rotate);

        let done = "The secret key was changed (builds: 1). All sessions and links in mails have ended.\n";
        assert!(told.starts_with(done), "{told}");
        assert_eq!(sealed(&installation, &old).await, SealedValue::default());
        assert_eq!(sealed(&installation, &Keys::new(LONG)).await, before);
        if is_embedded(&installation) {
            assert_eq!(std::fs::read_to_string(installation.data().join("secret-key")).unwrap(), format!("{LONG}\n"));
        } else {
            let line = installation.fails(&["serve"]);
            assert_eq!(line, "chancery: CHANCERY_SECRET_KEY: the database was made with another key\n");
            installation = installation.set("CHANCERY_SECRET_KEY", LONG);
        }
        assert!(installation.succeeds(&rotate).starts_with("The secret key is the new one already.\n"));

        let process = installation.serve();
        let anyone = process.client("localhost");
        anyone.with_token(&admin.token).get("/api/users/me/").await.expect_reply(401, message::bad_token());
        let refresh = anyone.post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token})).await;
        refresh.expect_reply(401, message::bad_token());
        let activate = anyone.post("/api/auth/activate/", json!({"token": link, "password": "a good password"})).await;
        activate.refuses(json!({"token": ["Invalid token."]}));
        let admin = anyone.sign_in(ADMIN, PASSWORD).await;
        assert_eq!(admin.get("/api/users/me/sessions/").await["total_count"], 1);
        process.stop();
    }
}

/// A half-changed key does not open the data: no server starts, and the same command continues.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn killed_in_the_middle_it_goes_on() {
    let builds = ["localhost", "b.example", "c.example", "d.example", "e.example", "f.example"];
    let installation = Installation::postgresql(BINARY).unwrap_or_else(|| Installation::embedded(BINARY));
    let mut installation = with_builds(installation, builds.len());
    seal_values(&installation, &builds).await;
    let before = sealed(&installation, &Keys::new(&secret_key(&installation))).await;
    let required_kills = rounds(4);
    let (mut killed, mut tried, mut whole) = (0, 0_u32, Duration::from_millis(400));
    for number in 0.. {
        let (old, new) = (secret_key(&installation), format!("the key of the round {number}, which is long"));
        installation = installation.set("CHANCERY_NEW_SECRET_KEY", &new);
        loop {
            tried += 1;
            // The time is within the duration of an undisturbed change.
            let kill_time = whole.mul_f64(f64::from(tried * 37 % 101) / 100.0);
            let began = Instant::now();
            match installation.run_killed(&["keys", "rotate"], kill_time) {
                Some(output) => {
                    assert_eq!(output.code, 0, "{output:?}");
                    whole = began.elapsed();
                    break;
                }
                None if is_in_the_middle(&installation).await => {
                    killed += 1;
                    let line = installation.fails(&["serve"]);
                    let expected = "chancery: CHANCERY_SECRET_KEY: `chancery keys rotate` is at work, or was interrupted: \
                                    then call it again with the same two keys\n";
                    assert_eq!(line, expected);
                    let others = installation.fails(&["keys", "rotate", "--new-secret-key", LONG]);
                    assert!(others.contains("with two other keys") && others.lines().count() == 1, "{others}");
                }
                None => {}
            }
            // By the tenth attempt at the latest, the change is finished, so that the keys differ.
            if tried.is_multiple_of(10) {
                installation.succeeds(&["keys", "rotate"]);
                break;
            }
        }
        if !is_embedded(&installation) {
            installation = installation.set("CHANCERY_SECRET_KEY", &new);
        }
        assert_eq!(secret_key(&installation), new);
        assert_eq!(sealed(&installation, &Keys::new(&old)).await, SealedValue::default(), "after round {number}");
        assert_eq!(sealed(&installation, &Keys::new(&new)).await, before, "after round {number}");
        if killed >= required_kills {
            break;
        }
        assert!(tried < 200 + 100 * required_kills as u32, "it was killed in the middle {killed} times of {tried}");
    }
    println!("killed {killed} times in the middle");
    let process = installation.serve();
    for build in builds {
        process.client(build).sign_in(ADMIN, PASSWORD).await;
    }
}

/// A process that continues to run during a change of the key, such as one of an earlier version, seals nothing with the old key.
#[tokio::test]
async fn a_process_with_the_old_key_stops_serving() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.get("/api/users/me/").await.ok();
    set_key(&server.app.store.control(), &Keys::new(LONG).fingerprint()).await;
    // The process caches callers for this time.
    tokio::time::sleep(platform::kit::callers::STALE_AFTER).await;
    for reply in [admin.get("/api/users/me/").await, admin.post("/api/roles/", json!({"name": "Late"})).await] {
        assert_eq!((reply.status, &reply["detail"]), (503, &json!("The storage is not available.")));
    }
    set_key(&server.app.store.control(), &Keys::new(SECRET_KEY).fingerprint()).await;
    admin.get("/api/users/me/").await.ok();
}

// ---- What they share -----------------------------------------------------------------------------------------------

fn is_embedded(installation: &Installation) -> bool {
    installation.data().join("control.db").exists()
}

/// Returns the key of the next start.
fn secret_key(installation: &Installation) -> String {
    let kept = || std::fs::read_to_string(installation.data().join("secret-key")).unwrap().trim().to_owned();
    installation.variable("CHANCERY_SECRET_KEY").map_or_else(kept, str::to_owned)
}

fn with_builds(installation: Installation, count: usize) -> Installation {
    let installation = installation.and_build();
    for domain in ["b.example", "c.example", "d.example", "e.example", "f.example"].iter().take(count - 1) {
        installation.succeeds(&["build", "create", domain]);
    }
    installation
}

/// Stores a value in every sealed column of the builds. Returns the token of an unused link of `localhost`.
async fn seal_values(installation: &Installation, builds: &[&str]) -> String {
    let process = installation.serve();
    for build in builds {
        fill_build(installation, &process, build).await;
    }
    eventually(async || {
        let builds = installation.succeeds(&["build", "list"]);
        let have_tenants = builds.lines().all(|line| !line.ends_with('\t'));
        if have_tenants { Ok(()) } else { Err(builds) }
    })
    .await;
    process.stop();
    MailFile::read_all(&installation.data(), "localhost")[0].token()
}

async fn fill_build(installation: &Installation, process: &Process, build: &str) {
    let admin = process.client(build).sign_in(ADMIN, PASSWORD).await;
    invite(&admin, "first@example.com").await;
    // The first message is written as a file. Later messages wait for a server that does not exist.
    eventually(async || !MailFile::read_all(&installation.data(), build).is_empty()).await;
    // The job of the message ends after it has written the file.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let settings = json!({
        "host": "127.0.0.1", "port": 1, "tls": true, "username": "mailer", "password": "the mail password",
        "from_email": "no-reply@example.com", "failure_email": "ops@example.com",
    });
    admin.patch("/api/administration/smtp-settings/", settings).await.ok();
    for n in 0..3 {
        invite(&admin, &format!("u{n}@example.com")).await;
    }
    let object = json!({"name": "Basic", "provider": "basic", "client_id": "c", "client_secret": "the object's"});
    admin.post("/api/authentication-objects/", object).await.expect_created();
    let configuration = json!({
        "name": "Company", "client_id": "c", "client_secret": "s3cret-X", "tenant_id": "t", "provider": "provider_a",
    });
    admin.post("/api/single-sign-on/", configuration).await.expect_created();
    crate::second_factors::create_account(installation, build, "coder@example.com");
    let coder = process.client(build).sign_in("coder@example.com", PASSWORD).await;
    crate::second_factors::add_generator(&coder).await;
    let repository = json!({"repository_url": "https://127.0.0.1:1/a.git", "username": "u", "token": "the token"});
    admin.post("/api/custom-components/repository/", repository).await.expect_created();
    let webhook = json!({
        "type": "webhook", "name": "Orders", "url": "https://receiver.example/", "secret": "the webhook's own secret",
    });
    admin.post("/api/integrations/", webhook).await.expect_created();
    fail_sequence(&admin).await;
    let role = admin.call("POST", "/api/roles/").header("idempotency-key", "first");
    role.json(&json!({"name": "Repeated"})).send().await.expect_created();
}

/// Starts a sequence whose second step fails.
async fn fail_sequence(admin: &ApiClient) {
    let class = admin.post("/api/object-classes/", json!({"name": "Order"})).await.id();
    let steps = json!([
        {"key": "make", "type": "create_record", "object_class": class},
        {"key": "fail", "type": "delete_record", "record": {"first": [null]}},
    ]);
    let definition = json!({
        "trigger": {"type": "manual", "inputs": [{"name": "why", "type": "string"}]}, "steps": steps,
    });
    let created = admin.post("/api/sequences/", json!({"name": "Fail", "definition": definition})).await;
    let path = format!("/api/sequences/{}/", created.id());
    let publish = admin.call("POST", &format!("{path}publish/")).header("if-match", created.header("etag"));
    publish.json(&json!({})).send().await.ok();
    admin.post(&format!("{path}start/"), json!({"inputs": {"why": "a secret reason"}})).await.expect_created();
    eventually(async || admin.get(&format!("{path}runs/")).await.column("status") == ["failed"]).await;
}

async fn invite(admin: &ApiClient, username: &str) {
    let user = json!({"username": username, "account_type": "internal", "first_name": "Ann", "last_name": "Bee"});
    admin.post("/api/users/", user).await.expect_created();
}

/// Adds a message to the queue of former versions, which servers do not write any more.
async fn leave_in_former_queue(installation: &Installation, keys: &Keys) {
    let store = installation.store().await;
    let uid = |conn: &mut Conn| {
        conn.query_one(&Sql::new("SELECT uid FROM builds WHERE id = 1"), |row| Ok(row.text(0)?.to_owned()))
    };
    let uid = store.control().read::<String, StoreError>(uid).await.unwrap();
    let place = Context { build: &uid, table: "mail_jobs", column: "sealed", row: "r" };
    let sql = Sql::new("INSERT INTO mail_jobs(row_key, sealed, created_at, next_at) VALUES ('r', $1, $2, $2)");
    let sql = sql.arg(keys.seal(&place, br#"{"renamed": ["former@example.com", "Ann"]}"#)).arg(Clock::system().now());
    store.database("build_1").write::<_, StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
    store.close().await;
}

async fn set_key(control: &Database, value: &str) {
    let sql = Sql::new("UPDATE settings SET value = $1 WHERE name = 'key'").arg(value);
    control.write(move |conn: &mut Conn| conn.exec(&sql)).await.unwrap();
}

async fn is_in_the_middle(installation: &Installation) -> bool {
    let store = installation.store().await;
    let sql = Sql::new("SELECT value FROM settings WHERE name = 'key'");
    let read = move |conn: &mut Conn| conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()));
    let key = store.control().read::<String, StoreError>(read).await.unwrap();
    store.close().await;
    key.contains('>')
}

/// The values that a key has sealed: their columns and their content.
#[derive(Debug, Default, PartialEq)]
struct SealedValue {
    columns: BTreeSet<String>,
    /// The decrypted values, each with its database.
    values: BTreeSet<(String, Vec<u8>)>,
}

/// Searches every text of every table for the fingerprint of the key, and decrypts the values.
async fn sealed(installation: &Installation, keys: &Keys) -> SealedValue {
    let store = installation.store().await;
    let mut sealed_values = SealedValue::default();
    let builds = |conn: &mut Conn| {
        conn.query_all(&Sql::new("SELECT id, uid FROM builds"), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))
    };
    let builds = store.control().read::<_, StoreError>(builds).await.unwrap();
    let uids: BTreeMap<String, String> = builds.into_iter().map(|(id, uid)| (format!("build_{id}"), uid)).collect();
    for database in std::iter::once(store.control()).chain(uids.keys().map(|name| store.database(name))) {
        for (table, column) in text_columns(&store, &database).await {
            let name = format!("{table}.{column}");
            let known = sealed_columns().copied().find(|known| format!("{}.{}", known.table, known.column) == name);
            let mut sql = Sql::new("SELECT ");
            sql.name(&column).push(", ").name(known.map_or(&column, |known| known.row));
            sql.push(", ").name(if table == "history_tenants" { "build_uid" } else { &column });
            sql.push(" FROM ").name(&table).push(" WHERE ").name(&column).push(" IS NOT NULL");
            let texts = |row: &store::Row| Ok([0, 1, 2].map(|at| row.text(at).unwrap_or_default().to_owned()));
            let rows = database.read::<_, StoreError>(move |conn| conn.query_all(&sql, texts)).await.unwrap();
            for [text, row, uid] in rows.into_iter().filter(|[text, ..]| keys.is_named_by(text)) {
                let build = uids.get(database.name()).unwrap_or(&uid);
                let place = Context { build, table: &table, column: &column, row: &row };
                let plain = keys.open(&place, &text).unwrap_or_else(|| panic!("{name} does not open"));
                sealed_values.values.insert((database.name().to_owned(), plain));
                sealed_values.columns.insert(name.clone());
            }
        }
    }
    store.close().await;
    sealed_values
}

async fn text_columns(store: &Store, database: &Database) -> Vec<(String, String)> {
    let sql = Sql::new(if store.is_embedded() {
        "SELECT m.name, p.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p \
         WHERE m.type = 'table' AND p.type = 'TEXT' AND m.name NOT LIKE 'sqlite_%'"
    } else {
        "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns \
         WHERE table_schema = current_schema() AND data_type = 'text'"
    });
    let texts = |row: &store::Row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()));
    let columns = database.read::<_, StoreError>(move |conn| conn.query_all(&sql, texts)).await.unwrap();
    assert!(!columns.is_empty());
    columns
}
