//! Stored data of former versions. This binary starts with it, signs in every account, decrypts each secret, sends the waiting
//! mails once and delivers the waiting events.
//!
//! The data is in `tests/stored/`, and `reliability/stored-data` creates it, with the last version before a migration. A new
//! migration after a released version therefore needs a name in [`VERSIONS`]. The file `VERSION-ENGINE.json` beside the data and
//! `make.rs` describe its content.

mod changed;
mod make;

use crate::BINARY;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use testkit::{
    ADMIN, ApiClient, Authority, CLIENT_ID, CLIENT_SECRET, Forger, HISTORY_KEY, Installation, MAIL_PASSWORD,
    MAIL_USERNAME, MailOptions, MailServer, PASSWORD, Process, Reply, TENANT_ID, eventually, parameters,
};
use web::clock::Clock;

/// The versions, each named after its last migration of builds.
const VERSIONS: [&str; 1] = ["0003"];
/// The single sign-on configurations that are enabled.
const CONFIGURATIONS: [i64; 4] = [1, 2, 3, 4];
/// Accounts with one instance for each configuration: `plain.1@example.com`, … Their additional properties are: none; a role that
/// an administrator's roles include; a role that they do not include; owner of a group; assignment to a set.
const KINDS: [&str; 5] = ["plain", "weaker", "stronger", "owner", "assignee"];
/// A key that the first versions accepted.
const SHORT_KEY: &str = "short secret";
/// A key that later versions accept.
const LONG_KEY: &str = "a key for stored data, longer than it must be";

fn stem(version: &str, engine: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stored")).join(format!("{version}-{engine}"))
}

fn known_file(stem: &Path) -> PathBuf {
    stem.with_extension("json")
}

fn address(name: &str) -> String {
    format!("{name}@example.com")
}

/// A former version's data, before this binary starts with it.
struct FormerData {
    installation: Installation,
    forger: Forger,
    /// The description that `make.rs` wrote.
    known: Value,
}

impl FormerData {
    /// Opens the data of each version, on the engine of the tests.
    async fn open_versions() -> Vec<FormerData> {
        let mut all = Vec::new();
        for version in VERSIONS {
            all.push(FormerData::restore(version).await);
        }
        all
    }

    async fn restore(version: &str) -> FormerData {
        let postgresql = Installation::postgresql(BINARY);
        let stem = stem(version, if postgresql.is_some() { "postgresql" } else { "embedded" });
        let text = std::fs::read_to_string(known_file(&stem)).unwrap();
        let known: Value = serde_json::from_str(&text).unwrap();
        let forger = Forger::start().await;
        forger.state().now = Clock::system().now() / 1_000_000;
        let installation = postgresql
            .unwrap_or_else(|| Installation::embedded(BINARY))
            .set("CHANCERY_FALLBACK_BUILD", "localhost")
            .set("CHANCERY_SSO_PROVIDER_B_ISSUER", &forger.issuer_setting())
            .set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8")
            .set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY)
            .set("CHANCERY_ADDRESS_ATTEMPTS", "0");
        let installation = match known["secret_key"].as_str() {
            Some(key) => installation.set("CHANCERY_SECRET_KEY", key),
            None => installation,
        };
        installation.restore(&stem);
        // The provider has another port now.
        let issuer = format!("UPDATE single_sign_on_identities SET issuer = '{}'", forger.issuer());
        installation.sql("build_1", &issuer);
        FormerData { installation, forger, known }
    }

    fn texts<'a>(&'a self, list: &'a Value) -> Vec<&'a str> {
        list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
    }

    fn accounts(&self) -> impl Iterator<Item = (&str, &str)> {
        let accounts = self.known["accounts"].as_array().unwrap();
        accounts.iter().map(|account| (account["username"].as_str().unwrap(), account["status"].as_str().unwrap()))
    }

    fn sessions(&self) -> impl Iterator<Item = &Value> {
        self.known["sessions"].as_array().unwrap().iter()
    }

    /// Returns the ids of a build's waiting events.
    fn waiting_events(&self, build: &str) -> BTreeSet<String> {
        let rows = self.installation.sql(build, "SELECT id FROM outbox");
        rows.into_iter().map(|row| row[0].clone().unwrap()).collect()
    }

    /// Points the mail settings to an existing server. Their secrets remain sealed as before.
    fn lead_mails_to(&self, mail: &MailServer) {
        for build in ["build_1", "build_2"] {
            self.installation.sql(build, &format!("UPDATE smtp_settings SET port = {}", mail.port));
            let url = format!("https://localhost:{}/token", mail.token_port);
            self.installation.sql(build, &format!("UPDATE authentication_objects SET token_url = '{url}'"));
        }
    }
}

/// Starts a sign-in through a configuration, and calls back as the person with this name.
async fn start_sign_in(client: &ApiClient, forger: &Forger, configuration: i64, name: &str) -> Reply {
    let begun = client.post("/api/single-sign-on/login/", json!({"id": configuration})).await;
    come_back(client, forger, configuration, &begun, name).await
}

async fn come_back(client: &ApiClient, forger: &Forger, configuration: i64, begun: &Reply, name: &str) -> Reply {
    let authorization = begun.ok()["redirect_uri"].as_str().unwrap().to_owned();
    let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
    forger.state().claims = json!({"sub": format!("subject of {name}"), "email": address(name)});
    let code = forger.authorize(&authorization);
    let state = parameters(&authorization)["state"].clone();
    let path = format!("/api/single-sign-on/{configuration}/callback/?code={code}&state={state}");
    client.call("GET", &path).header("cookie", &cookie).send().await
}

/// Returns the token of the link in a mail. The mail is quoted-printable if a name is not ASCII.
fn token_in(text: &str) -> String {
    let text = text.replace("=\n", "").replace("=3D", "=");
    text.split("?token=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("").to_owned()
}

/// Returns the columns of lists that do not depend on the time.
async fn lists(api: &ApiClient) -> Value {
    let mut lists = json!({});
    for (path, columns) in [
        ("/api/users/", &["id", "username", "account_type", "status", "roles", "first_name"][..]),
        ("/api/roles/", &["id", "name", "permissions"]),
        ("/api/user-groups/", &["id", "name", "description"]),
        ("/api/user-groups/1/members/users/", &["user"]),
        ("/api/user-groups/1/owners/users/", &["user"]),
        ("/api/user-groups/1/permission-sets/", &["id", "name", "type", "permissions"]),
        ("/api/user-groups/1/permission-sets/3/assignees/users/", &["user"]),
        ("/api/user-groups/1/permission-sets/3/assignees/user-groups/", &["id", "name"]),
        ("/api/single-sign-on/", &["id", "name", "client_id", "tenant_id", "provider", "is_enabled"]),
    ] {
        let mut rows = Vec::new();
        for row in crate::workload::fetch_all_pages(api, path).await {
            rows.push(columns.iter().map(|column| row[column].clone()).collect::<Vec<_>>());
        }
        rows.sort_by_key(|row| row[0].as_i64());
        lists[path] = json!(rows);
    }
    lists
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_and_sessions_of_former_data_still_work() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let client = process.client("localhost");
        let api = client.with_token(stored.sessions().next().unwrap()["access_token"].as_str().unwrap());
        let now = lists(&api).await;
        for (path, before) in stored.known["lists"].as_object().unwrap() {
            assert_eq!(&now[path], before, "{path}");
        }

        for (username, status) in stored.accounts() {
            // The accounts for single sign-on have the same password, and each sign-in is slow, so they are skipped.
            if KINDS.iter().any(|kind| username.starts_with(&format!("{kind}."))) {
                continue;
            }
            let reply = client.login(username, PASSWORD).await;
            assert_eq!(reply.status, if status == "active" { 200 } else { 401 }, "{username} is {status}: {reply:?}");
        }
        for session in stored.sessions() {
            client.with_token(session["access_token"].as_str().unwrap()).get("/api/users/me/").await.ok();
            if session["configuration"] != 5 {
                let pair = client.post("/api/auth/refresh/", json!({"refresh_token": session["refresh_token"]})).await;
                let again = client.with_pair("", &pair.ok()).get("/api/users/me/").await.ok();
                assert_eq!(again["username"], session["username"]);
            }
        }

        let activation = &stored.known["activation"];
        let password = json!({"token": activation["token"], "password": "a new battery"});
        client.post("/api/auth/activate/", password.clone()).await.expect_empty();
        client.post("/api/auth/activate/", password).await.refuses(json!({"token": ["Invalid token."]}));
        client.sign_in(activation["username"].as_str().unwrap(), "a new battery").await;
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn single_sign_on_goes_on_with_each_secret_and_each_identity() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let client = process.client("localhost");
        let sign_in = async |configuration: i64, name: &str| {
            let reply = start_sign_in(&client, &stored.forger, configuration, name).await;
            assert_eq!(reply.status, 200, "{name} through {configuration}: {reply:?}");
            client.with_pair("", &reply.json).get("/api/users/me/").await.ok()["username"].clone()
        };
        // Identities from before show the secret of the third configuration.
        for configuration in [1, 2, 4] {
            let name = format!("plain.{configuration}");
            assert_eq!(sign_in(configuration, &name).await, address(&name));
        }
        // Identities from before remain, independent of the rights of a configuration.
        for name in ["admin", "sso.session", "bound.before"] {
            assert_eq!(sign_in(3, name).await, address(name));
        }
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_that_waited_arrive_once() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let root = authority.write_root(certificates.path());
    for mut stored in FormerData::open_versions().await {
        let mail = MailServer::start(&authority, &MailOptions::default());
        stored.installation = stored.installation.set("SSL_CERT_FILE", root.to_str().unwrap());
        stored.lead_mails_to(&mail);
        stored.installation.sql("build_2", "UPDATE smtp_settings SET tls = 1");
        let process = stored.installation.serve_api();

        let mut expected = stored.texts(&stored.known["mails"]["localhost"]);
        expected.extend(stored.texts(&stored.known["mails"]["b.example"]));
        expected.sort_unstable();
        mail.wait_for(expected.len()).await;
        // Nothing waits any more that could arrive later.
        for build in ["build_1", "build_2"] {
            let jobs = "SELECT id FROM mail_jobs UNION SELECT id FROM jobs";
            eventually(async || stored.installation.sql(build, jobs).is_empty()).await;
        }
        let messages = mail.messages();
        let mut arrived: Vec<&str> = messages.iter().map(|message| message.to[0].as_str()).collect();
        arrived.sort_unstable();
        assert_eq!(arrived, expected);
        assert!(messages.iter().all(|message| message.is_secured && message.is_signed_in));
        // The password of one build's settings, and the secret of the other's authentication object.
        assert!(mail.sign_ins().iter().all(|(_, is_accepted)| *is_accepted), "{:?}", mail.sign_ins());
        assert!(mail.sign_ins().contains(&("XOAUTH2".to_owned(), true)));
        assert_eq!(mail.token_requests()[0]["form"]["client_secret"], MAIL_PASSWORD);

        for message in &messages {
            let host = if message.to[0] == address("waiting.there") { "b.example" } else { "localhost" };
            let text = message.text();
            let token = token_in(&text);
            let is_reset = text.contains("/password-reset/");
            let path = if is_reset { "/api/auth/password-reset/confirm/" } else { "/api/auth/activate/" };
            let client = process.client(host);
            client.post(path, json!({"token": token, "password": "a new battery"})).await.expect_empty();
            client.sign_in(&message.to[0], "a new battery").await;
        }
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_waited_arrive_once_beside_those_that_had() {
    for stored in FormerData::open_versions().await {
        let waiting = ["build_1", "build_2"].map(|build| stored.waiting_events(build));
        assert!(waiting.iter().all(|events| !events.is_empty()), "{waiting:?}");
        let process = stored.installation.serve();
        for (domain, waiting) in ["localhost", "b.example"].into_iter().zip(waiting) {
            let arrived = eventually(async || {
                // The tenant may not exist yet.
                let builds = stored.installation.succeeds(&["build", "list"]);
                let line = builds.lines().find(|line| line.starts_with(&format!("{domain}\t"))).unwrap();
                let history = ApiClient::new(process.history(), "history.example")
                    .with_header("x-api-key", HISTORY_KEY)
                    .with_header("x-client-id", line.split('\t').nth(4).unwrap_or(""));
                let page = history.get("/api/system-events?limit=1000").await;
                if page.status != 200 {
                    return Err(format!("{domain}: {page:?}"));
                }
                let arrived: Vec<_> = page.column("id").iter().map(|id| id.as_str().unwrap().to_owned()).collect();
                match waiting.iter().all(|id| arrived.contains(id)) {
                    true => Ok(arrived),
                    false => Err(format!("{domain}: {waiting:?} are expected, but these arrived: {arrived:?}")),
                }
            })
            .await;
            let once: BTreeSet<&String> = arrived.iter().collect();
            assert_eq!(once.len(), arrived.len(), "an event is there twice");
            // On the embedded engine, the history is stored data too.
            assert_eq!(arrived.len() > waiting.len(), stored.installation.database_url().is_none(), "{domain}");
        }
        process.stop();
    }
}
