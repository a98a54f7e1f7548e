//! The main API, run inside the test's own process.

use crate::client::ApiClient;
use crate::database::{ClaimedDatabase, Contents};
use crate::eventually::eventually;
use crate::mails::MailFile;
use crate::settings::{MIGRATIONS, TestSettings};
use identity::builds;
use kit::AnswerRoom;
use kit::account_type::AccountType;
use kit::app::App;
use kit::authenticate::Admission;
use kit::build::Build;
use kit::domain::{self, Module};
use kit::path::placeholders;
use kit::request::{Effects, ReceivedRequest, Request};
use kit::route::Route;
use kit::serve;
use kit::table::Table;
use resource::{JsonBody, Query};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use store::{Conn, Sql, StoreEngine, StoreError};
use tempfile::TempDir;
use tokio::net::TcpListener;
use web::clock::Clock;
use web::listener::{self, Limits};

/// A uuid without an object.
pub const UUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
/// The domain of a server's first build.
pub const DOMAIN: &str = "a.example";
/// The username of each build's first super admin.
pub const ADMIN: &str = "admin@example.com";
/// The password of every account.
pub const PASSWORD: &str = "correct horse battery";
/// The secret key of test servers.
pub const SECRET_KEY: &str = "a key for tests, long enough for a new database";
/// The `X-API-Key` of test servers.
pub const API_KEY: &str = "a key of the deployment, for tests";
/// The time of a server's clock at its start: 2026-01-31T09:30:00Z.
pub const NOW: i64 = 1_769_851_800_000_000;

/// The API that a test crate serves. Its set-up names it once: `type TestServer = testkit::TestServer<Api>`.
pub trait Api {
    /// The modules, each after those that it uses. They include [`identity::MODULE`], since every caller has an
    /// account.
    const MODULES: &'static [&'static Module];
}

/// A server of an API with the build [`MODULE`]. Its clock stands still until a test advances it, and its data is deleted
/// when it is dropped.
pub struct TestServer<A> {
    first: TestBuild,
    api: PhantomData<A>,
}

/// A build of a server.
#[derive(Clone)]
pub struct TestBuild {
    inner: Arc<ServerState>,
    /// The build as an object of the application.
    pub build: Arc<Build>,
}

/// The state that all builds of a server share.
pub struct ServerState {
    /// The application.
    pub app: App,
    /// The clock of the application.
    pub clock: Clock,
    /// The address of the listener.
    pub address: SocketAddr,
    accounts: Mutex<HashMap<String, u32>>,
    data: TempDir,
    database: Option<ClaimedDatabase>,
}

impl<A: Api> TestServer<A> {
    /// Starts a server with the usual settings.
    pub async fn start() -> TestServer<A> {
        TestServer::start_with(|_| {}).await
    }

    /// Starts a server with changed settings.
    pub async fn start_with(change: impl FnOnce(&mut TestSettings)) -> TestServer<A> {
        TestServer::start_on_listener(bind().await, change).await
    }

    /// Starts a server with changed settings whose public address is that of its listener, such as
    /// `http://127.0.0.1:49152`, for programs that follow addresses. Its build answers for all hosts, as with the
    /// embedded default.
    pub async fn start_at_public_address(change: impl FnOnce(&mut TestSettings)) -> TestServer<A> {
        let listener = bind().await;
        let address = listener.local_addr().expect("a bound listener has an address");
        let with_address = move |settings: &mut TestSettings| {
            settings.base_url = format!("http://{address}");
            settings.fallback_build = Some(DOMAIN.to_owned());
            change(settings);
        };
        TestServer::start_on_listener(listener, with_address).await
    }

    async fn start_on_listener(listener: TcpListener, change: impl FnOnce(&mut TestSettings)) -> TestServer<A> {
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        let mut config = config(StoreEngine::Sqlite { directory: data.path().to_owned() }, &data);
        change(&mut config);
        TestServer { first: TestBuild::first(A::MODULES, listener, data, config).await, api: PhantomData }
    }

    /// Returns the routes of the API. It does not require a started server.
    pub fn table() -> &'static Table {
        domain::register(A::MODULES);
        domain::table()
    }

    /// Creates another build, with the usual super admin.
    pub async fn build(&self, domain: &str) -> TestBuild {
        TestBuild::create(self.inner.clone(), domain).await
    }

    /// Advances the clock.
    pub fn advance(&self, micros: i64) {
        self.clock.advance(micros);
    }
}

impl Drop for ServerState {
    /// Closes the store before the database is released, so that the next server does not share it.
    fn drop(&mut self) {
        if self.database.is_none() {
            return;
        }
        let store = self.app.store.clone();
        let closing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.map(|runtime| runtime.block_on(store.close()))
        });
        let _ = closing.join();
    }
}

impl<A> Deref for TestServer<A> {
    type Target = TestBuild;
    fn deref(&self) -> &TestBuild {
        &self.first
    }
}

impl Deref for TestBuild {
    type Target = ServerState;
    fn deref(&self) -> &ServerState {
        &self.inner
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

async fn open(domains: &'static [&'static Module], settings: TestSettings) -> App {
    let app = domain::open(settings.into(), MIGRATIONS, domains).await;
    app.unwrap_or_else(|error| panic!("the application does not open: {error}"))
}

/// Returns whether the stored first build of a server is the same as that of all others.
fn is_as_usual(settings: &TestSettings) -> bool {
    settings.secret_key == SECRET_KEY && settings.clock.now() == NOW && settings.events.history.is_none()
}

/// Creates the first build before any other write to the database.
async fn make_ready(domains: &'static [&'static Module], database: &ClaimedDatabase, settings: TestSettings) {
    let app = open(domains, settings).await;
    let build = builds::create(&app, DOMAIN, ADMIN, PASSWORD).await;
    build.unwrap_or_else(|error| panic!("{DOMAIN} is not made: {error}"));
    app.store.close().await;
    database.keep_ready();
}

fn config(engine: StoreEngine, data: &TempDir) -> TestSettings {
    let mut settings = kit::settings::KitSettings::new(engine, data.path().to_owned(), SECRET_KEY);
    settings.api_key = Some(API_KEY.to_owned());
    settings.base_url = "https://chancery.example".to_owned();
    settings.clock = Clock::fixed(NOW);
    let mut settings = TestSettings::from(settings);
    settings.identity.hash_cost = identity::hasher::HashCost::LEAST;
    settings
}

impl TestBuild {
    /// Starts a server and returns its first build.
    async fn first(
        domains: &'static [&'static Module],
        listener: TcpListener,
        data: TempDir,
        mut config: TestSettings,
    ) -> TestBuild {
        let contents = if is_as_usual(&config) { Contents::Ready } else { Contents::Nothing };
        // A test may use a PostgreSQL server of its own.
        let is_embedded = matches!(&config.engine, StoreEngine::Sqlite { .. });
        let database = if is_embedded { ClaimedDatabase::claim(contents) } else { None };
        if let Some(database) = &database {
            config.engine = StoreEngine::Postgres { url: database.url.clone() };
            if contents == Contents::Ready && !database.is_ready {
                make_ready(domains, database, config.clone()).await;
            }
        }
        let app = open(domains, config).await;
        domain::start(&app);
        let address = listener.local_addr().expect("a bound listener has an address");
        let served = app.clone();
        let handler = move |request, peer| serve::answer(served.clone(), domain::table(), request, peer);
        // The task ends with the runtime of the test.
        tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
        let ready = app.build(DOMAIN).await.expect("the control database answers");
        let inner = Arc::new(ServerState {
            clock: app.clock.clone(),
            app,
            address,
            accounts: Mutex::default(),
            data,
            database,
        });
        match ready {
            Some(build) => TestBuild { build, inner },
            None => TestBuild::create(inner, DOMAIN).await,
        }
    }

    async fn create(inner: Arc<ServerState>, domain: &str) -> TestBuild {
        let build = builds::create(&inner.app, domain, ADMIN, PASSWORD).await;
        TestBuild { build: build.unwrap_or_else(|error| panic!("{domain} is not made: {error}")), inner }
    }

    /// Sets a limit of the build, by the name under which it is stored.
    pub async fn set_limit(&self, name: &'static str, value: i64) {
        let set = move |conn: &mut Conn| -> Result<(), StoreError> {
            let sql = "INSERT INTO limits(name, value) VALUES ($1, $2) ON CONFLICT(name) DO UPDATE SET value = $2";
            conn.exec(&Sql::new(sql).arg(name).arg(value)).map(|_| ())
        };
        self.build.db.write(set).await.expect("the limit is set");
    }

    /// Returns a client that is not signed in.
    pub fn anonymous(&self) -> ApiClient {
        ApiClient::new(self.address, &self.build.domain)
    }

    /// Signs in with a username and a password.
    #[track_caller]
    pub fn sign_in(&self, username: &str, password: &str) -> impl Future<Output = ApiClient> + use<> {
        self.anonymous().sign_in(username, password)
    }

    /// Signs in as the first super admin, whose id is 1.
    #[track_caller]
    pub fn admin(&self) -> impl Future<Output = ApiClient> + use<> {
        self.sign_in(ADMIN, PASSWORD)
    }

    /// Creates an active account of a type with the usual password. Returns its username: the first is for example
    /// `internal@example.com`, the second `internal-2@example.com`.
    pub async fn account(&self, account_type: &str) -> String {
        let name = format!("{}/{account_type}", self.build.domain);
        let n = {
            let mut accounts = web::lock(&self.accounts);
            let n = accounts.entry(name).or_insert(0);
            *n += 1;
            *n
        };
        let local = account_type.replace('_', "-");
        let username = if n == 1 { format!("{local}@example.com") } else { format!("{local}-{n}@example.com") };
        let user = builds::create_user(
            &self.app,
            &self.build,
            &username,
            AccountType::parse(account_type).expect("an account type"),
            PASSWORD,
        )
        .await;
        user.unwrap_or_else(|error| panic!("{username} is not made: {error}"));
        username
    }

    /// Creates an account as [`TestBuild::account`] does, and signs in.
    pub async fn as_type(&self, account_type: &str) -> ApiClient {
        let username = self.account(account_type).await;
        self.sign_in(&username, PASSWORD).await
    }

    /// Creates a configuration administrator whose only role has these permissions (`{resource: [action, …]}`), and
    /// signs in.
    pub async fn with_role(&self, permissions: Json) -> ApiClient {
        let admin = self.admin().await;
        let username = self.account("full").await;
        let role = admin
            .post("/api/roles/", json!({"name": format!("Role of {username}"), "permissions": permissions}))
            .await
            .expect_created();
        let user = self.sign_in(&username, PASSWORD).await;
        admin.patch(&format!("/api/users/{}/", user.id), json!({"roles": [role["id"]]})).await.ok();
        user
    }

    /// Returns a request as the handler of a route receives it, for tests without HTTP. `None` as the caller is not
    /// signed in. Each path value is 1 or [`UUID`], and each member of the body is a text.
    pub async fn request(&self, caller: Option<&ApiClient>, route: &'static Route, query: &str) -> Request {
        let (build, now) = (&self.build, self.clock.now());
        let (_, functions) = &identity::MODULE.callers[0];
        let claims = caller.and_then(|caller| (functions.read)(&self.app, build, &caller.token, now));
        let caller = match claims {
            Some(claims) => (functions.identify)(build, claims, now).await.expect("the database answers"),
            None => None,
        };
        let names = route.declared_names();
        let request_parts = ReceivedRequest {
            app: self.app.clone(),
            build: build.clone(),
            requirement: route.requirement(),
            declared_names: names,
            path_values: placeholders(route.path).filter_map(|(_, kind)| kind.read("1").or(kind.read(UUID))).collect(),
            method: route.method.clone(),
            path: route.path.to_owned(),
            query: Query::parse(query),
            body: Ok(JsonBody::from_json(
                &names.into_iter().flatten().map(|name| (name.clone(), Json::from("x"))).collect(),
            )),
            room: None,
            answer_room: AnswerRoom::default(),
            headers: Default::default(),
            address: [127, 0, 0, 1].into(),
            origin: format!("http://{}", build.domain),
            now,
            admission: claims.map(|claims| Admission { claims, by: functions }),
            effects: Effects::default(),
            idempotency: None,
            run: None,
        };
        Request::new(caller, request_parts)
    }

    /// Waits until no mail of the build is queued, and returns all sent mails.
    pub async fn mails(&self) -> Vec<MailFile> {
        let sql = "SELECT (SELECT count(*) FROM jobs WHERE kind = 'mail') + (SELECT count(*) FROM mail_jobs)";
        let waiting = move |conn: &mut Conn| conn.query_one(&Sql::new(sql), |row| row.int(0));
        eventually(async || self.build.db.read::<i64, StoreError>(waiting).await == Ok(0)).await;
        MailFile::read_all(self.data.path(), &self.build.domain)
    }

    /// Returns the latest mail to a receiver.
    pub async fn mail_to(&self, receiver: &str) -> MailFile {
        let mails = self.mails().await;
        let last = mails.iter().rev().find(|mail| mail.to == receiver);
        last.unwrap_or_else(|| panic!("no mail to {receiver} among {mails:#?}")).clone()
    }

    /// The data directory.
    pub fn data(&self) -> &std::path::Path {
        self.data.path()
    }
}
