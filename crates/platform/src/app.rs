//! The application: what every request shares, and the builds that it serves.

use crate::address::{Ranges, Trusted};
use crate::attempts::Attempts;
use crate::body::{Bodies, BodiesOfBuild};
use crate::builds::LONGEST_DOMAIN;
use crate::caller::Callers;
use crate::clock::Clock;
use crate::history_service::{self, HistoryService};
use crate::outbox;
use crate::pages::Pages;
use crate::password::Hasher;
use crate::secret::Keys;
use crate::secret_key;
use crate::token::AccessTokens;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{Conn, Database, Engine, Error, Migration, Migrations, Sql, Store};

/// The ordered folders of portable SQL.
pub const MIGRATIONS: Migrations = Migrations {
    control: &[
        Migration::sql("0001_builds", include_str!("../migrations/control/0001_builds.sql")),
        Migration::sql("0002_history_tenants", include_str!("../migrations/control/0002_history_tenants.sql")),
    ],
    build: &[
        Migration::sql("0001_identity", include_str!("../migrations/build/0001_identity.sql")),
        Migration::sql("0002_outbound_mail", include_str!("../migrations/build/0002_outbound_mail.sql")),
        Migration::sql("0003_single_sign_on", include_str!("../migrations/build/0003_single_sign_on.sql")),
        Migration::sql("0004_vouching", include_str!("../migrations/build/0004_vouching.sql"))
            .then(crate::single_sign_on::migrate_vouching),
        Migration::sql("0005_signing_in", include_str!("../migrations/build/0005_signing_in.sql")),
        Migration::sql(
            "0006_personal_data_and_keys",
            include_str!("../migrations/build/0006_personal_data_and_keys.sql"),
        )
        .then(crate::users::forget_the_anonymized),
    ],
};

/// How long another process's changes may go unseen (document 4, section 3: within one second).
pub const FRESH: Duration = Duration::from_millis(500);

/// What an operator sets (document 4, section 1).
#[derive(Clone)]
#[allow(missing_docs, reason = "named as the settings of document 4, section 1")]
pub struct Config {
    pub engine: Engine,
    pub data: PathBuf,
    pub secret_key: String,
    pub base_url: String,
    pub sign_in_url: Option<String>,
    pub fallback_build: Option<String>,
    pub outbound_allow: Ranges,
    pub trusted_proxies: Trusted,
    pub cors_origins: Vec<String>,
    pub lock_attempts: i64,
    pub lock_seconds: i64,
    pub address_attempts: i64,
    pub access_token_seconds: i64,
    pub refresh_token_seconds: i64,
    /// With `{tenant_id}` in it; `None`: the provider cannot be signed in with.
    pub sso_provider_a_issuer: Option<String>,
    pub sso_provider_b_issuer: Option<String>,
    /// `None`: nothing is delivered.
    pub history: Option<HistoryService>,
    /// The bound of what waits for it in a build.
    pub outbox_bytes: i64,
    pub clock: Clock,
}

/// A cheap handle on everything shared.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// See [`App`].
#[allow(missing_docs, reason = "the types say it")]
pub struct Shared {
    pub config: Config,
    pub store: Store,
    pub keys: Keys,
    pub tokens: AccessTokens,
    pub hasher: Hasher,
    pub clock: Clock,
    pub mail: crate::mail_queue::Worker,
    pub providers: crate::single_sign_on::Providers,
    pub history: Option<history_service::Caller>,
    pub relay: crate::relay::Relay,
    pub pages: Pages,
    pub bodies: Bodies,
    builds: Mutex<Builds>,
}

/// What a process remembers of the names in the control database, each with when it asked.
#[derive(Default)]
struct Builds {
    known: HashMap<String, (Instant, Arc<Build>)>,
    /// Names that no build has: a fallback build is asked for by one all the time.
    strangers: HashMap<String, Instant>,
}

/// More strange names than this are forgotten together: anybody may send them.
const MOST_STRANGERS: usize = 1024;

impl Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// A tenant: a domain with a database of its own.
pub struct Build {
    /// The host by which it is reached.
    pub domain: String,
    /// What tokens and sealed secrets are bound to; never used twice, unlike a domain.
    pub uid: String,
    /// The only way to its rows.
    pub db: Database,
    /// Who calls, as far as known.
    pub callers: Callers,
    /// Attempts to sign in, as far as known.
    pub attempts: Arc<Attempts>,
    /// What waits for the history service, as far as known.
    pub outbox: outbox::Gauge,
    /// Held while its tenant in the history service is made: at its creation an event may want one, too.
    pub making_tenant: tokio::sync::Mutex<()>,
    /// What its bodies in flight may take of what those of all builds may.
    pub bodies: BodiesOfBuild,
}

impl Build {
    /// A build of which nothing is known yet.
    pub(crate) fn new(domain: &str, uid: String, db: Database) -> Build {
        Build {
            domain: domain.to_owned(),
            uid,
            db,
            callers: Callers::default(),
            attempts: Arc::default(),
            outbox: outbox::Gauge::default(),
            making_tenant: tokio::sync::Mutex::default(),
            bodies: BodiesOfBuild::default(),
        }
    }
}

impl App {
    /// Opens the stores and checks that the key is the one that the database knows.
    pub async fn open(config: Config) -> Result<App, OpenError> {
        let history = config.history.as_ref().map(history_service::Caller::new).transpose();
        let history = history.map_err(OpenError::History)?;
        let store = Store::open(config.engine.clone(), MIGRATIONS, store::Options::default()).await?;
        let keys = Keys::new(&config.secret_key);
        secret_key::check(&store, &config.secret_key, &keys).await?;
        let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get()).min(4);
        let app = App(Arc::new(Shared {
            tokens: AccessTokens::new(&keys.tokens()),
            hasher: Hasher::start(threads),
            clock: config.clock.clone(),
            mail: crate::mail_queue::Worker::default(),
            providers: crate::single_sign_on::Providers::default(),
            relay: crate::relay::Relay::default(),
            pages: Pages::default(),
            bodies: Bodies::default(),
            history,
            builds: Mutex::default(),
            keys,
            store,
            config,
        }));
        Ok(app)
    }

    /// The build that serves a host; `None` when none does.
    pub async fn build_of_host(&self, host: &str) -> Result<Option<Arc<Build>>, Error> {
        let domain = host.to_ascii_lowercase();
        if let Some(build) = self.build(&domain).await? {
            return Ok(Some(build));
        }
        match &self.config.fallback_build {
            Some(fallback) if *fallback != domain => self.build(fallback).await,
            _ => Ok(None),
        }
    }

    /// The build of a domain. What is remembered, be it that there is none, is asked again after [`FRESH`], so that a
    /// build made or deleted by another process is seen within a second.
    pub async fn build(&self, domain: &str) -> Result<Option<Arc<Build>>, Error> {
        if let Some(fresh) = self.builds().fresh(domain) {
            return Ok(fresh);
        }
        let (name, asked) = (domain.to_owned(), Instant::now());
        let found = self.store.control().read_short(move |conn| find(conn, &name)).await?;
        let Some((id, uid, key)) = found else {
            self.builds().note_stranger(domain, asked);
            return Ok(None);
        };
        // What this process would seal, nobody could open.
        if key.is_none_or(|key| key != self.keys.fingerprint()) {
            return Err(Error::Unavailable("the secret key was changed; this process must be ended".to_owned()));
        }
        let (build, is_new) = self.remember(domain, asked, id, uid);
        if is_new {
            // A process that died may have left messages and events behind.
            self.mail.wake(self, &build);
            self.relay.wake(self, &build);
        }
        Ok(Some(build))
    }

    /// One build of a uid, however many ask for it at once: what it remembers is shared.
    fn remember(&self, domain: &str, asked: Instant, id: i64, uid: String) -> (Arc<Build>, bool) {
        let mut builds = self.builds();
        let known = builds.known.get(domain).map(|(_, build)| build.clone()).filter(|build| build.uid == uid);
        let is_new = known.is_none();
        let build = known.unwrap_or_else(|| Arc::new(Build::new(domain, uid, self.store.database(&database_name(id)))));
        builds.strangers.remove(domain);
        builds.known.insert(domain.to_owned(), (asked, build.clone()));
        (build, is_new)
    }

    /// A build has been made in this process: that there was none is not true any more.
    pub fn welcome(&self, domain: &str) {
        self.builds().strangers.remove(domain);
    }

    fn builds(&self) -> std::sync::MutexGuard<'_, Builds> {
        self.0.builds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The public address of a build (document 4, section 1, "public address of a build"), without a slash at its end.
    pub fn address_of(&self, build: &Build) -> String {
        let base = self.config.base_url.trim_end_matches('/');
        if self.config.fallback_build.as_deref() == Some(&build.domain) {
            return base.to_owned();
        }
        let (scheme, rest) = base.split_once("://").unwrap_or(("http", base));
        let authority = rest.split('/').next().unwrap_or(rest);
        let port = authority
            .rsplit_once(':')
            .map(|(_, port)| port)
            .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        match port {
            Some(port) => format!("{scheme}://{}:{port}", build.domain),
            None => format!("{scheme}://{}", build.domain),
        }
    }
}

impl Builds {
    /// What was learnt of a domain less than [`FRESH`] ago; `Some(None)` if no build has it.
    fn fresh(&self, domain: &str) -> Option<Option<Arc<Build>>> {
        match self.known.get(domain) {
            Some((asked, build)) => (asked.elapsed() < FRESH).then(|| Some(build.clone())),
            None => self.strangers.get(domain).filter(|asked| asked.elapsed() < FRESH).map(|_| None),
        }
    }

    fn note_stranger(&mut self, domain: &str, asked: Instant) {
        if domain.len() > LONGEST_DOMAIN || self.known.get(domain).is_some_and(|(known, _)| *known > asked) {
            return;
        }
        self.known.remove(domain);
        if self.strangers.len() >= MOST_STRANGERS {
            self.strangers.clear();
        }
        self.strangers.insert(domain.to_owned(), asked);
    }
}

/// The name of a build's database.
pub fn database_name(id: i64) -> String {
    format!("build_{id}")
}

/// The id and the uid of a build that is served, and the key that the databases know.
fn find(conn: &mut Conn, domain: &str) -> Result<Option<(i64, String, Option<String>)>, Error> {
    let sql = Sql::new(
        "SELECT id, uid, (SELECT value FROM settings WHERE name = 'key') FROM builds WHERE domain = $1 AND state = 'active'",
    );
    conn.opt(&sql.arg(domain), |row| Ok((row.int(0)?, row.text(1)?.to_owned(), row.opt_text(2)?.map(str::to_owned))))
}

/// Why the application does not start.
#[derive(Debug)]
pub enum OpenError {
    /// The database knows another key (document 4, section 1, `CHANCERY_SECRET_KEY`).
    OtherKey,
    /// A new database is not made with so short a key.
    ShortKey,
    /// The key is being changed, or that was not finished.
    KeyChanges,
    /// How the history service is called cannot be right: a line that names the setting.
    History(String),
    /// The store's own words.
    Store(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        match error {
            Error::InUse => OpenError::KeyChanges,
            error => OpenError::Store(error),
        }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::OtherKey => f.write_str("CHANCERY_SECRET_KEY: the database was made with another key"),
            OpenError::ShortKey => write!(f, "CHANCERY_SECRET_KEY: {}", secret_key::TOO_SHORT),
            OpenError::KeyChanges => f.write_str(
                "CHANCERY_SECRET_KEY: `chancery keys rotate` is at work, or was interrupted: then call it again with the same two keys",
            ),
            OpenError::History(line) => f.write_str(line),
            OpenError::Store(error) => write!(f, "CHANCERY_DATABASE_URL: {error}"),
        }
    }
}
