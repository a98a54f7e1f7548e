//! The application: the state that all requests share, and the builds that it serves.

use crate::bodies::ProcessBounds;
use crate::build::{Build, MAX_DOMAIN, database_name};
use crate::callers::STALE_AFTER;
use crate::secret::Keys;
use crate::secret_key::{self, KeyError};
use crate::settings::KitSettings;
use crate::slots::Slots;
use crate::unnamed_proxy::UnnamedProxy;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use store::{Conn, Migrations, Sql, Store, StoreError};
use web::clock::Clock;

/// A handle to the state that all requests share. It is cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppState>);

/// The state behind [`App`].
pub struct AppState {
    pub settings: KitSettings,
    pub store: Store,
    pub keys: Keys,
    pub clock: Clock,
    pub bodies: ProcessBounds,
    pub unnamed_proxy: UnnamedProxy,
    /// The modules' state of the process.
    slots: Slots,
    for_builds: BuildHooks,
    builds: Mutex<KnownBuilds>,
}

/// The hooks that run for each build that this process finds.
#[derive(Default)]
pub struct BuildHooks {
    /// The functions that put the modules' state of a build into its slots.
    pub slots: Vec<fn(&mut Slots)>,
    /// The functions that are called when a build is found for the first time.
    pub found: Vec<fn(&App, &Arc<Build>)>,
}

/// The cache of builds by domain, each entry with the time at which the control database was read.
#[derive(Default)]
struct KnownBuilds {
    found: HashMap<String, (Instant, Arc<Build>)>,
    /// Domains without a build. Every request to a fallback build may use such a domain.
    unknown: HashMap<String, Instant>,
}

/// The state of a domain in the cache of builds.
enum KnownDomain {
    /// The domain had this build less than [`STALE_AFTER`] ago.
    Build(Arc<Build>),
    /// The domain had no build less than [`STALE_AFTER`] ago.
    WithoutBuild,
    /// The domain was never read, or was last read [`STALE_AFTER`] ago.
    Outdated,
}

/// The maximum size of the cache of unknown domains. A full cache is cleared, since clients can send any domain.
const MAX_UNKNOWN: usize = 1024;

impl Deref for App {
    type Target = AppState;
    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl AppState {
    /// Returns a module's state of the process, found by its type.
    pub fn slot<T: 'static>(&self) -> &T {
        self.slots.get()
    }
}

impl App {
    /// Opens the store and checks that the databases were written with this secret key.
    pub(crate) async fn open(
        settings: KitSettings,
        keys: Keys,
        migrations: Migrations,
        slots: Slots,
        for_builds: BuildHooks,
    ) -> Result<App, OpenError> {
        let store = Store::open(settings.engine.clone(), migrations, settings.store.clone()).await?;
        secret_key::check(&store, &settings.secret_key, &keys).await?;
        Ok(App(Arc::new(AppState {
            clock: settings.clock.clone(),
            bodies: ProcessBounds::default(),
            unnamed_proxy: UnnamedProxy::default(),
            builds: Mutex::default(),
            slots,
            for_builds,
            keys,
            store,
            settings,
        })))
    }

    /// Returns the build that serves a host; `None` if there is none.
    pub async fn build_of_host(&self, host: &str) -> Result<Option<Arc<Build>>, StoreError> {
        let domain = host.to_ascii_lowercase();
        if let Some(build) = self.build(&domain).await? {
            return Ok(Some(build));
        }
        match &self.settings.fallback_build {
            Some(fallback) if *fallback != domain => self.build(fallback).await,
            _ => Ok(None),
        }
    }

    /// Returns the build of a domain; `None` if there is none. Both results are cached and read again after
    /// [`STALE_AFTER`]. The process therefore notices within a second that another process created or deleted a build.
    pub async fn build(&self, domain: &str) -> Result<Option<Arc<Build>>, StoreError> {
        match self.builds().entry(domain) {
            KnownDomain::Build(build) => return Ok(Some(build)),
            KnownDomain::WithoutBuild => return Ok(None),
            KnownDomain::Outdated => {}
        }
        let (name, asked_at) = (domain.to_owned(), Instant::now());
        let row = self.store.control().read_short(move |conn| find(conn, &name)).await?;
        let Some((id, uid, key)) = row else {
            self.builds().remember_unknown(domain, asked_at);
            return Ok(None);
        };
        // Other processes could not decrypt the values that this one would write.
        if key.is_none_or(|key| key != self.keys.fingerprint()) {
            return Err(StoreError::Unavailable("the secret key was changed; this process must be ended".to_owned()));
        }
        let (build, is_new) = self.cache_build(domain, asked_at, id, uid);
        if is_new {
            // A process that died may have left jobs.
            self.for_builds.found.iter().for_each(|hook| hook(self, &build));
        }
        Ok(Some(build))
    }

    /// Returns the domains of the builds that are served, in ascending order. [`App::build`] finds a build, which starts its
    /// background work. With many builds, a process should find them one after the other.
    pub async fn active_domains(&self) -> Result<Vec<String>, StoreError> {
        let sql = Sql::new("SELECT domain FROM builds WHERE state = 'active' ORDER BY domain");
        self.store.control().read(move |conn| conn.query_all(&sql, |row| Ok(row.text(0)?.to_owned()))).await
    }

    /// Returns a new handle to a build, with empty caches.
    pub fn new_build(&self, id: i64, domain: &str, uid: String) -> Build {
        let mut slots = Slots::default();
        self.for_builds.slots.iter().for_each(|fill| fill(&mut slots));
        Build::new(domain, uid, self.store.database(&database_name(id)), slots)
    }

    /// Caches a build and returns whether it is new to this process. Concurrent callers get the same build,
    /// so that they share its caches.
    fn cache_build(&self, domain: &str, asked_at: Instant, id: i64, uid: String) -> (Arc<Build>, bool) {
        let mut builds = self.builds();
        let cached_build = builds.found.get(domain).map(|(_, build)| build.clone()).filter(|build| build.uid == uid);
        let is_new = cached_build.is_none();
        let build = cached_build.unwrap_or_else(|| Arc::new(self.new_build(id, domain, uid)));
        builds.unknown.remove(domain);
        builds.found.insert(domain.to_owned(), (asked_at, build.clone()));
        (build, is_new)
    }

    /// Drops the cached fact that a domain has no build. The process that created the build must call it.
    pub fn forget_unknown(&self, domain: &str) {
        self.builds().unknown.remove(domain);
    }

    fn builds(&self) -> MutexGuard<'_, KnownBuilds> {
        web::lock(&self.0.builds)
    }

    /// Returns the public address of a build (`docs/operations.md`), without a slash at its end.
    pub fn address_of(&self, build: &Build) -> String {
        let base = self.settings.base_url.trim_end_matches('/');
        if self.settings.fallback_build.as_deref() == Some(&build.domain) {
            return base.to_owned();
        }
        let (scheme, after_scheme) = base.split_once("://").unwrap_or(("http", base));
        let authority = after_scheme.split('/').next().unwrap_or(after_scheme);
        let port = authority
            .rsplit_once(':')
            .map(|(_, port)| port)
            .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        match port {
            Some(port) => format!("{scheme}://{}:{port}", build.domain),
            None => format!("{scheme}://{}", build.domain),
        }
    }

    /// Returns the address of a build's own front end, without a slash at its end; `None` if it is not set.
    pub fn front_end_of(&self, build: &Build) -> Option<String> {
        let url = self.settings.sign_in_url.as_ref()?;
        Some(url.replace("{build}", &build.domain).trim_end_matches('/').to_owned())
    }
}

impl KnownBuilds {
    fn entry(&self, domain: &str) -> KnownDomain {
        match (self.found.get(domain), self.unknown.get(domain)) {
            (Some((asked_at, build)), _) if asked_at.elapsed() < STALE_AFTER => KnownDomain::Build(build.clone()),
            (None, Some(asked_at)) if asked_at.elapsed() < STALE_AFTER => KnownDomain::WithoutBuild,
            _ => KnownDomain::Outdated,
        }
    }

    fn remember_unknown(&mut self, domain: &str, asked_at: Instant) {
        if domain.len() > MAX_DOMAIN || self.found.get(domain).is_some_and(|(cached_at, _)| *cached_at > asked_at) {
            return;
        }
        self.found.remove(domain);
        if self.unknown.len() >= MAX_UNKNOWN {
            self.unknown.clear();
        }
        self.unknown.insert(domain.to_owned(), asked_at);
    }
}

/// Reads the id and the uid of a domain's active build, and the stored fingerprint of the secret key.
fn find(conn: &mut Conn, domain: &str) -> Result<Option<(i64, String, Option<String>)>, StoreError> {
    let sql = Sql::new(
        "SELECT id, uid, (SELECT value FROM settings WHERE name = 'key') FROM builds WHERE domain = $1 AND state = 'active'",
    );
    conn.query_optional(&sql.arg(domain), |row| {
        Ok((row.int(0)?, row.text(1)?.to_owned(), row.opt_text(2)?.map(str::to_owned)))
    })
}

/// The reason why the application does not start.
#[derive(Debug)]
pub enum OpenError {
    Key(KeyError),
    /// A setting of a module is wrong; the line names it.
    Setting(String),
    /// The store could not be opened.
    Store(StoreError),
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::InUse => OpenError::Key(KeyError::Changes),
            error => OpenError::Store(error),
        }
    }
}

impl From<KeyError> for OpenError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error.into(),
            error => OpenError::Key(error),
        }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Key(error) => error.fmt(f),
            OpenError::Setting(line) => f.write_str(line),
            OpenError::Store(error) => write!(f, "CHANCERY_DATABASE_URL: {error}"),
        }
    }
}
