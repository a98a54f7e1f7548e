//! The main API, run inside the test's own process.

use crate::client::Client;
use crate::database::{Contents, Database};
use crate::eventually::eventually;
use crate::mails::Mail;
use crate::settings::{MIGRATIONS, Settings};
use identity::builds;
use kit::AnswerRoom;
use kit::account_type::AccountType;
use kit::app::App;
use kit::authenticate::Admission;
use kit::build::Build;
use kit::domain::{self, Domain};
use kit::path::placeholders;
use kit::request::{Effects, Received, Request};
use kit::route::Route;
use kit::serve;
use kit::table::Table;
use resource::{Body, Query};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use store::{Conn, Engine, Error, Sql};
use tempfile::TempDir;
use tokio::net::TcpListener;
use web::clock::Clock;
use web::listener::{self, Limits};

/// A uuid that nothing has.
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

/// The API that a test crate serves. Its set-up names it once: `type Server = testkit::Server<Api>`.
pub trait Api {
    /// The modules, each after those that it uses. [`identity::DOMAIN`] is one of them, since every caller has an account.
    const DOMAINS: &'static [&'static Domain];
}

/// A server of an API with the build [`DOMAIN`]. Its clock stands still until a test advances it, and its data is deleted
/// when it is dropped.
pub struct Server<A> {
    first: Tenant,
    api: PhantomData<A>,
}

/// A build of a server.
#[derive(Clone)]
pub struct Tenant {
    inner: Arc<Inner>,
    /// The build as the application has it.
    pub build: Arc<Build>,
}

/// The state that all builds of a server share.
pub struct Inner {
    /// The application.
    pub app: App,
    /// The clock of the application.
    pub clock: Clock,
    /// The address of the listener.
    pub address: SocketAddr,
    accounts: Mutex<HashMap<String, u32>>,
    data: TempDir,
    database: Option<Database>,
}

impl<A: Api> Server<A> {
    /// Starts a server with the usual settings.
    pub async fn start() -> Server<A> {
        Server::with(|_| {}).await
    }

    /// Starts a server with changed settings.
    pub async fn with(change: impl FnOnce(&mut Settings)) -> Server<A> {
        Server::at(bind().await, change).await
    }

    /// Starts a server with changed settings whose public address is that of its listener, such as
    /// `http://127.0.0.1:49152`, for programs that follow addresses. As with the embedded default, its build answers for
    /// all hosts.
    pub async fn at_its_address(change: impl FnOnce(&mut Settings)) -> Server<A> {
        let listener = bind().await;
        let address = listener.local_addr().expect("a bound listener has an address");
        let with_address = move |settings: &mut Settings| {
            settings.base_url = format!("http://{address}");
            settings.fallback_build = Some(DOMAIN.to_owned());
            change(settings);
        };
        Server::at(listener, with_address).await
    }

    async fn at(listener: TcpListener, change: impl FnOnce(&mut Settings)) -> Server<A> {
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        let mut config = config(Engine::Sqlite { directory: data.path().to_owned() }, &data);
        change(&mut config);
        Server { first: Tenant::first(A::DOMAINS, listener, data, config).await, api: PhantomData }
    }

    /// The routes of the API, also before a server is started.
    pub fn table() -> &'static Table {
        domain::register(A::DOMAINS);
        domain::table()
    }

    /// Creates another build, with the usual super admin.
    pub async fn build(&self, domain: &str) -> Tenant {
        Tenant::create(self.inner.clone(), domain).await
    }

    /// Advances the clock.
    pub fn advance(&self, micros: i64) {
        self.clock.advance(micros);
    }
}

impl Drop for Inner {
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

impl<A> Deref for Server<A> {
    type Target = Tenant;
    fn deref(&self) -> &Tenant {
        &self.first
    }
}

impl Deref for Tenant {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

async fn open(domains: &'static [&'static Domain], settings: Settings) -> App {
    let app = domain::open(settings.into(), MIGRATIONS, domains).await;
    app.unwrap_or_else(|error| panic!("the application does not open: {error}"))
}

/// Whether a server's first build is stored as that of any other server.
fn is_as_usual(settings: &Settings) -> bool {
    settings.secret_key == SECRET_KEY && settings.clock.now() == NOW && settings.events.history.is_none()
}

/// Creates the first build before anything else writes there.
async fn make_ready(domains: &'static [&'static Domain], database: &Database, settings: Settings) {
    let app = open(domains, settings).await;
    let made = builds::create(&app, DOMAIN, ADMIN, PASSWORD).await;
    made.unwrap_or_else(|error| panic!("{DOMAIN} is not made: {error}"));
    app.store.close().await;
    database.keep_ready();
}

fn config(engine: Engine, data: &TempDir) -> Settings {
    let mut settings = kit::settings::Settings::new(engine, data.path().to_owned(), SECRET_KEY);
    settings.api_key = Some(API_KEY.to_owned());
    settings.base_url = "https://chancery.example".to_owned();
    settings.clock = Clock::fixed(NOW);
    let mut settings = Settings::from(settings);
    settings.identity.hash_cost = identity::hasher::HashCost::LEAST;
    settings
}

impl Tenant {
    /// Starts a server and returns its first build.
    async fn first(
        domains: &'static [&'static Domain],
        listener: TcpListener,
        data: TempDir,
        mut config: Settings,
    ) -> Tenant {
        let contents = if is_as_usual(&config) { Contents::Ready } else { Contents::Nothing };
        // A test may have a server of its own.
        let is_embedded = matches!(&config.engine, Engine::Sqlite { .. });
        let database = if is_embedded { Database::claim(contents) } else { None };
        if let Some(database) = &database {
            config.engine = Engine::Postgres { url: database.url.clone() };
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
        let inner =
            Arc::new(Inner { clock: app.clock.clone(), app, address, accounts: Mutex::default(), data, database });
        match ready {
            Some(build) => Tenant { build, inner },
            None => Tenant::create(inner, DOMAIN).await,
        }
    }

    async fn create(inner: Arc<Inner>, domain: &str) -> Tenant {
        let build = builds::create(&inner.app, domain, ADMIN, PASSWORD).await;
        Tenant { build: build.unwrap_or_else(|error| panic!("{domain} is not made: {error}")), inner }
    }

    /// Sets a limit of the first build, by the name under which it is stored.
    pub async fn set_limit(&self, name: &'static str, value: i64) {
        let set = move |conn: &mut Conn| -> Result<(), Error> {
            let sql = "INSERT INTO limits(name, value) VALUES ($1, $2) ON CONFLICT(name) DO UPDATE SET value = $2";
            conn.exec(&Sql::new(sql).arg(name).arg(value)).map(|_| ())
        };
        self.build.db.write(set).await.expect("the limit is set");
    }

    /// A client that is not signed in.
    pub fn anonymous(&self) -> Client {
        Client::new(self.address, &self.build.domain)
    }

    /// Signs in with a username and a password.
    #[track_caller]
    pub fn sign_in(&self, username: &str, password: &str) -> impl Future<Output = Client> + use<> {
        self.anonymous().sign_in(username, password)
    }

    /// Signs in as the first super admin, whose id is 1.
    #[track_caller]
    pub fn admin(&self) -> impl Future<Output = Client> + use<> {
        self.sign_in(ADMIN, PASSWORD)
    }

    /// Creates an active account of a type with the usual password, and returns its username, such as
    /// `internal@example.com` for the first and `internal-2@example.com` for the second one.
    pub async fn account(&self, account_type: &str) -> String {
        let name = format!("{}/{account_type}", self.build.domain);
        let n = {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            let n = accounts.entry(name).or_insert(0);
            *n += 1;
            *n
        };
        let local = account_type.replace('_', "-");
        let username = if n == 1 { format!("{local}@example.com") } else { format!("{local}-{n}@example.com") };
        let made = builds::create_user(
            &self.app,
            &self.build,
            &username,
            AccountType::of(account_type).expect("an account type"),
            PASSWORD,
        )
        .await;
        made.unwrap_or_else(|error| panic!("{username} is not made: {error}"));
        username
    }

    /// Creates an account as [`Tenant::account`] does, and signs in.
    pub async fn as_type(&self, account_type: &str) -> Client {
        let username = self.account(account_type).await;
        self.sign_in(&username, PASSWORD).await
    }

    /// Creates a configuration administrator whose only role has these permissions (`{resource: [action, …]}`), and
    /// signs in.
    pub async fn with_role(&self, permissions: Json) -> Client {
        let admin = self.admin().await;
        let username = self.account("full").await;
        let role = admin
            .post("/api/roles/", json!({"name": format!("Role of {username}"), "permissions": permissions}))
            .await
            .created();
        let user = self.sign_in(&username, PASSWORD).await;
        admin.patch(&format!("/api/users/{}/", user.id), json!({"roles": [role["id"]]})).await.ok();
        user
    }

    /// A request as the handler of a route gets it, for tests without HTTP. `None`: the caller is not signed in. Each
    /// path value is 1 or [`UUID`], and each member of the body is a text.
    pub async fn request(&self, caller: Option<&Client>, route: &'static Route, query: &str) -> Request {
        let (build, now) = (&self.build, self.clock.now());
        let (_, by) = &identity::DOMAIN.callers[0];
        let claims = caller.and_then(|caller| (by.read)(&self.app, build, &caller.token, now));
        let caller = match claims {
            Some(claims) => (by.identify)(build, claims, now).await.expect("the database answers"),
            None => None,
        };
        let names = route.declared_names();
        let received = Received {
            app: self.app.clone(),
            build: build.clone(),
            requirement: route.requirement(),
            declared_names: names,
            path_values: placeholders(route.path).filter_map(|(_, kind)| kind.read("1").or(kind.read(UUID))).collect(),
            method: route.method.clone(),
            path: route.path.to_owned(),
            query: Query::parse(query),
            body: Ok(Body::of(&names.into_iter().flatten().map(|name| (name.clone(), Json::from("x"))).collect())),
            room: None,
            answer_room: AnswerRoom::default(),
            headers: Default::default(),
            address: [127, 0, 0, 1].into(),
            origin: format!("http://{}", build.domain),
            now,
            admission: claims.map(|claims| Admission { claims, by }),
            effects: Effects::default(),
        };
        Request::new(caller, received)
    }

    /// Waits until no mail of the build is queued, and returns all that were sent.
    pub async fn mails(&self) -> Vec<Mail> {
        let sql = "SELECT (SELECT count(*) FROM jobs WHERE kind = 'mail') + (SELECT count(*) FROM mail_jobs)";
        let waiting = move |conn: &mut Conn| conn.one(&Sql::new(sql), |row| row.int(0));
        eventually(async || self.build.db.read::<i64, Error>(waiting).await == Ok(0)).await;
        Mail::all(self.data.path(), &self.build.domain)
    }

    /// The latest mail to a receiver.
    pub async fn mail_to(&self, receiver: &str) -> Mail {
        let mails = self.mails().await;
        let last = mails.iter().rev().find(|mail| mail.to == receiver);
        last.unwrap_or_else(|| panic!("no mail to {receiver} among {mails:#?}")).clone()
    }

    /// The data directory.
    pub fn data(&self) -> &std::path::Path {
        self.data.path()
    }
}
