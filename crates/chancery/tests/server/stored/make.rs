//! Creates the stored data of one version. `reliability/stored-data` runs this with that version's binary.

use super::*;
use testkit::{FakeServer, MailFile, eventually};

/// The validity of tokens and of the lock of an account is thirty years, so that the stored data never expires.
const THIRTY_YEARS: &str = "1000000000";
/// Returns the permissions of administrators who are not super admins.
fn administrators_permissions() -> Value {
    json!({"single_sign_on": ["list", "view", "create", "edit"], "users": ["list", "view"]})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes files: reliability/stored-data"]
async fn make() {
    let version = std::env::var("CHANCERY_TEST_STORED").expect("CHANCERY_TEST_STORED names the version");
    let with_settings = |installation: Installation| {
        installation
            .set("CHANCERY_REFRESH_TOKEN_SECONDS", THIRTY_YEARS)
            .set("CHANCERY_ACCESS_TOKEN_SECONDS", THIRTY_YEARS)
            .set("CHANCERY_LOCK_SECONDS", THIRTY_YEARS)
            .set("CHANCERY_TRUSTED_PROXIES", "127.0.0.1")
            .set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8")
    };
    // Version 0003 accepted values that later versions refuse.
    let is_lenient = version == "0003";
    // One installation has a generated key, the other a key of the operator.
    let embedded = StoredDataWriter::new(with_settings(Installation::embedded(BINARY)), None, is_lenient).await;
    embedded.run(&stem(&version, "embedded")).await;
    if let Some(installation) = Installation::postgresql(BINARY) {
        let key = if is_lenient { SHORT_KEY } else { LONG_KEY };
        let installation = with_settings(installation).set("CHANCERY_SECRET_KEY", key);
        StoredDataWriter::new(installation, Some(key), is_lenient).await.run(&stem(&version, "postgresql")).await;
    }
}

struct StoredDataWriter {
    installation: Installation,
    forger: Forger,
    secret_key: Option<&'static str>,
    /// True if the version accepts mail settings without TLS, and sign-ins through any configuration.
    is_lenient: bool,
    accounts: Vec<Value>,
    sessions: Vec<Value>,
}

impl StoredDataWriter {
    async fn new(installation: Installation, secret_key: Option<&'static str>, is_lenient: bool) -> StoredDataWriter {
        let forger = Forger::start().await;
        let nobody = format!("http://127.0.0.1:{}", FakeServer::closed_port().await);
        let installation = installation
            .set("CHANCERY_SSO_PROVIDER_B_ISSUER", &forger.issuer_setting())
            .set("CHANCERY_HISTORY_URL", &nobody)
            .and_build();
        installation.succeeds(&["build", "create", "b.example"]);
        StoredDataWriter { installation, forger, secret_key, is_lenient, accounts: Vec::new(), sessions: Vec::new() }
    }

    async fn run(mut self, stem: &Path) {
        self.forger.state().now = Clock::system().now() / 1_000_000;
        self.make_people();
        let is_embedded = self.installation.database_url().is_none();
        // On the embedded engine, some events are in the history beside it; on PostgreSQL all of them wait.
        let process = if is_embedded { self.installation.serve() } else { self.installation.serve_api() };
        let mut manifest = self.fill_build(&process).await;
        if is_embedded {
            self.everything_is_delivered(&process).await;
        }
        process.stop();
        let process = self.installation.serve_api();
        self.leave_waiting(&process, &mut manifest).await;
        manifest["lists"] = lists(&process.client("localhost").with_token(&self.admins_token())).await;
        process.stop();
        for (path, _) in manifest["lists"].as_object().unwrap() {
            assert!(!manifest["lists"][path].as_array().unwrap().is_empty(), "{path} is empty");
        }
        manifest["accounts"] = json!(self.accounts);
        manifest["sessions"] = json!(self.sessions);
        manifest["secret_key"] = json!(self.secret_key);
        manifest["issuer"] = json!(self.forger.issuer());
        self.installation.save_as(stem);
        std::fs::write(known_file(stem), format!("{manifest:#}\n")).unwrap();
        println!("{} is made", stem.display());
    }

    fn admins_token(&self) -> String {
        self.sessions[0]["access_token"].as_str().unwrap().to_owned()
    }

    /// Creates active accounts with the command line.
    fn make_people(&mut self) {
        let mut people: Vec<(String, &str)> = [
            ("second.admin", "super_admin"),
            ("internal", "internal"),
            ("external", "external"),
            ("full", "full"),
            ("service.internal", "service_internal"),
            ("service.external", "service_external"),
            ("administrator", "full"),
            ("former.administrator", "full"),
            ("locked", "internal"),
            ("inactive", "external"),
            ("deleted", "internal"),
            ("sso.session", "internal"),
            ("sso.disabled", "internal"),
            ("bound.before", "full"),
        ]
        .map(|(name, account_type)| (name.to_owned(), account_type))
        .into();
        for configuration in CONFIGURATIONS {
            people.extend(KINDS.map(|kind| {
                let account_type = if matches!(kind, "weaker" | "stronger") { "full" } else { "internal" };
                (format!("{kind}.{configuration}"), account_type)
            }));
        }
        self.accounts.push(json!({"username": ADMIN, "status": "active"}));
        for (name, account_type) in people {
            let username = address(&name);
            let account = ["--username", &username, "--account-type", account_type, "--password", PASSWORD];
            self.installation.succeeds(&[&["user", "create", "--build", "localhost"][..], &account[..]].concat());
            let status = match name.as_str() {
                "locked" | "inactive" | "deleted" => name.as_str(),
                "former.administrator" => "deleted",
                _ => "active",
            };
            self.accounts.push(json!({"username": username, "status": status}));
        }
    }

    async fn fill_build(&mut self, process: &Process) -> Value {
        let client = process.client("localhost");
        let api = self.session(&client, ADMIN).await;
        let security = json!({"systemconf": {"activation_link_valid_period": 0, "password_prevent_reuse": true}});
        api.patch("/api/security/", security).await.ok();
        let company = json!({"admin_first_name": "Bérénice", "admin_last_name": "O'Neill", "admin_phone_number": "1"});
        api.patch("/api/administration/company-details/", company).await.ok();
        let id = async |name: &str| {
            let found = api.get(&format!("/api/users/?username={}", address(name))).await;
            found.ids()[0]
        };

        let role = async |name: &str, permissions: Value| {
            api.post("/api/roles/", json!({"name": name, "permissions": permissions})).await.id()
        };
        let administrators = role("Administrators", administrators_permissions()).await;
        let weaker = role("Readers", json!({"users": ["list", "view"]})).await;
        let stronger = role("Deleters", json!({"users": ["list", "view", "delete"]})).await;
        role("Nobody's", json!({})).await;
        let give = async |name: &str, role: i64| {
            api.patch(&format!("/api/users/{}/", id(name).await), json!({"roles": [role]})).await.ok();
        };
        give("administrator", administrators).await;
        give("former.administrator", administrators).await;
        give("bound.before", stronger).await;
        give("full", weaker).await;

        let group = api.post("/api/user-groups/", json!({"name": "Team", "description": "Ours"})).await.id();
        let sets = format!("/api/user-groups/{group}/permission-sets/");
        let set = json!({"name": "Editors", "permissions": {"user_groups": ["edit"]}});
        let set = api.post(&sets, set).await.id();
        let other = api.post("/api/user-groups/", json!({"name": "Other"})).await.id();
        let add = async |path: &str, ids: Value| {
            api.post(&format!("/api/user-groups/{group}/{path}"), ids).await.expect_created();
        };
        add("members/users/", json!([id("internal").await, id("external").await])).await;
        add(&format!("permission-sets/{set}/assignees/user-groups/"), json!([other])).await;
        for configuration in CONFIGURATIONS {
            give(&format!("weaker.{configuration}"), weaker).await;
            give(&format!("stronger.{configuration}"), stronger).await;
            add("owners/users/", json!([id(&format!("owner.{configuration}")).await])).await;
            let assignee = json!([id(&format!("assignee.{configuration}")).await]);
            add(&format!("permission-sets/{set}/assignees/users/"), assignee).await;
        }
        self.configure(&client, &api).await;
        // Events of every kind.
        for _ in 0..5 {
            client.login(&address("locked"), "wrong").await.expect(401);
        }
        client.login("nobody@example.com", "wrong").await.expect(401);
        for name in ["inactive", "former.administrator", "deleted"] {
            let path = format!("/api/users/{}/", id(name).await);
            if name == "inactive" {
                api.post(&format!("{path}deactivate/"), json!({})).await.ok();
            } else {
                api.delete(&path).await.expect_empty();
            }
        }
        let mut manifest = json!({"anonymized": self.anonymized(&client, &api).await});
        // A link that remains unused.
        manifest["activation"] =
            json!({"username": address("invited"), "token": self.invite_user(&api, "invited").await});
        self.accounts.push(json!({"username": address("invited"), "status": "invited"}));
        let pending = with_field(&account("pending"), "delay_activation", json!(true));
        api.post("/api/users/", pending).await.expect_created();
        self.accounts.push(json!({"username": address("pending"), "status": "pending"}));
        let once = with_field(&account("once"), "account_type", json!("one_time_completion"));
        api.post("/api/users/", once).await.expect_created();
        for name in ["internal", "external", "full", "service.external"] {
            self.session(&client, &address(name)).await;
        }
        manifest
    }

    /// Creates the configurations. The name of each contains the account of its last change.
    async fn configure(&mut self, client: &ApiClient, api: &ApiClient) {
        let administrator = self.session(client, &address("administrator")).await;
        let former = client.sign_in(&address("former.administrator"), PASSWORD).await;
        let make = async |by: &ApiClient, name: &str| {
            let body = json!({
                "name": name, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "tenant_id": TENANT_ID,
                "provider": "provider_b", "is_enabled": true,
            });
            let id = by.post("/api/single-sign-on/", body).await.id();
            format!("/api/single-sign-on/{id}/")
        };
        // The creator of a configuration is not the account of its last change.
        for (name, maker, changer) in [
            ("By a super admin", &administrator, Some(api)),
            ("By an administrator", api, Some(&administrator)),
            ("By a deleted administrator", api, Some(&former)),
            ("By the command line", &administrator, None),
            ("Disabled", api, Some(api)),
        ] {
            let path = make(maker, &format!("{name}, at first")).await;
            changer.unwrap_or(maker).patch(&path, json!({"name": name, "is_enabled": true})).await.ok();
        }
        // No command creates one.
        let sql = "UPDATE single_sign_on SET modified_by = NULL WHERE name = 'By the command line'";
        self.installation.sql("build_1", sql);

        let of_an_administrator = if self.is_lenient { 2 } else { 1 };
        for (name, configuration) in [("sso.session", 1), ("sso.disabled", 5), ("bound.before", of_an_administrator)] {
            let pair = start_sign_in(client, &self.forger, configuration, name).await.ok();
            if name != "bound.before" {
                self.keep_session(&address(name), &pair, Some(configuration));
            }
        }
        api.patch("/api/single-sign-on/5/", json!({"is_enabled": false})).await.ok();
        // A super admin links their own account.
        let begun = api.post("/api/single-sign-on/1/link/", json!({})).await;
        come_back(client, &self.forger, 1, &begun, "admin").await.ok();
    }

    /// Creates and anonymizes a person. Returns the texts that must not be stored.
    async fn anonymized(&self, client: &ApiClient, api: &ApiClient) -> Value {
        let mut body = account("zacharias.zander");
        for (field, value) in [
            ("first_name", "Zacharias"),
            ("last_name", "Zander"),
            ("phone", "+49 151 5550123"),
            ("mobile", "+49 151 5550124"),
            ("job_title", "Zookeeper"),
            ("company_name", "Zander & Sons"),
        ] {
            body[field] = json!(value);
        }
        let id = api.post("/api/users/", body).await.id();
        let token = token_in(&self.mail_to("zacharias.zander").await.text);
        client.post("/api/auth/activate/", json!({"token": token, "password": PASSWORD})).await.expect_empty();
        let browser =
            client.with_header("user-agent", "Zacharias's browser").with_header("x-forwarded-for", "203.0.113.77");
        let zacharias = browser.sign_in(&address("zacharias.zander"), PASSWORD).await;
        zacharias.patch("/api/users/me/", json!({"phone": "+49 151 5550125"})).await.ok();
        let path = format!("/api/users/{id}/");
        let changed = json!({"last_name": "Zimmer", "username": "zacharias.zimmer@example.com"});
        api.patch(&path, changed).await.ok();
        api.post(&format!("{path}anonymize/"), json!({})).await.ok();
        json!({"id": id, "texts": ["zacharias", "zander", "zimmer", "zookeeper", "5550123", "5550124", "5550125"]})
    }

    /// Invites a user. Returns the token of their link.
    async fn invite_user(&self, api: &ApiClient, name: &str) -> String {
        api.post("/api/users/", account(name)).await.expect_created();
        token_in(&self.mail_to(name).await.text)
    }

    async fn mail_to(&self, name: &str) -> MailFile {
        eventually(async || {
            let mails = MailFile::read_all(&self.installation.data(), "localhost");
            mails.into_iter().rev().find(|mail| mail.to == address(name))
        })
        .await
    }

    /// Signs in a user, and stores their tokens.
    async fn session(&mut self, client: &ApiClient, username: &str) -> ApiClient {
        let pair = client.login(username, PASSWORD).await.ok();
        self.keep_session(username, &pair, None);
        client.with_pair(username, &pair)
    }

    fn keep_session(&mut self, username: &str, pair: &Value, configuration: Option<i64>) {
        self.sessions.push(json!({
            "username": username, "access_token": pair["access_token"], "refresh_token": pair["refresh_token"],
            "configuration": configuration,
        }));
    }

    async fn everything_is_delivered(&self, process: &Process) {
        for build in ["localhost", "b.example"] {
            process.client(build).login("nobody@example.com", "wrong").await.expect(401);
        }
        eventually(async || {
            let waiting = [1, 2].map(|n| self.installation.sql(&format!("build_{n}"), "SELECT id FROM outbox").len());
            if waiting == [0, 0] { Ok(()) } else { Err(waiting) }
        })
        .await;
    }

    /// Leaves undelivered mails and events.
    async fn leave_waiting(&mut self, process: &Process, manifest: &mut Value) {
        let client = process.client("localhost");
        let api = client.sign_in(ADMIN, PASSWORD).await;
        let mut settings = json!({
            "host": "localhost", "port": 1, "tls": true, "username": MAIL_USERNAME, "password": MAIL_PASSWORD,
            "from_email": "no-reply@a.example", "failure_email": "ops@a.example",
        });
        api.patch("/api/administration/smtp-settings/", settings.clone()).await.ok();
        for name in ["waiting.one", "waiting.two"] {
            api.post("/api/users/", account(name)).await.expect_created();
            self.accounts.push(json!({"username": address(name), "status": "invited"}));
        }
        for name in ["internal", "external", "nobody"] {
            client.post("/api/auth/password-reset/", json!({"username": address(name)})).await.expect_empty();
        }
        client.login(&address("internal"), "wrong").await.expect(401);

        let there = process.client("b.example").sign_in(ADMIN, PASSWORD).await;
        let vendor = json!({
            "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "client",
            "client_secret": MAIL_PASSWORD, "token_url": "https://localhost:1/token", "scope": "mail.send",
        });
        let vendor = there.post("/api/authentication-objects/", vendor).await.id();
        settings.as_object_mut().unwrap().remove("password");
        settings["authorization_method"] = json!("vendor_client_credentials");
        settings["authentication_object"] = json!(vendor);
        settings["tls"] = json!(!self.is_lenient);
        there.patch("/api/administration/smtp-settings/", settings).await.ok();
        there.post("/api/users/", account("waiting.there")).await.expect_created();

        let here = ["waiting.one", "waiting.two", "internal", "external"].map(address);
        manifest["mails"] = json!({"localhost": here, "b.example": [address("waiting.there")]});
        // Each mail was tried, and the one without a recipient is removed.
        for (build, count) in [("build_1", 4), ("build_2", 1)] {
            let tried = "SELECT min(attempts), count(*) FROM mail_jobs";
            let wanted = vec![vec![Some("1".to_owned()), Some(count.to_string())]];
            eventually(async || match self.installation.sql(build, tried) {
                waiting if waiting == wanted => Ok(()),
                waiting => Err((build, waiting)),
            })
            .await;
        }
    }
}

/// Returns the body of a new internal account.
fn account(name: &str) -> Value {
    json!({"username": address(name), "account_type": "internal", "first_name": "Ann", "last_name": name})
}

fn with_field(body: &Value, field: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[field] = value;
    body
}
