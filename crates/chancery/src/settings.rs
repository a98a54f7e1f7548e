//! The settings of a deployment (`docs/operations.md`).
//!
//! A setting is written once, as a field of [`Flags`]. Its other names follow from that one: `history_listen` is the
//! flag `--history-listen`, the environment variable `CHANCERY_HISTORY_LISTEN` and the key `history_listen` of
//! `chancery.toml`. The first of these that is given is used, otherwise the default. An empty value counts as not
//! given, since a container file passes an unset variable on as an empty one.
//!
//! The error of a wrong value is one line that names the setting as it was given. Values that may have a password are
//! not repeated in that line, and [`ProgramSettings`] has no `Debug` form.
//!
//! Unknown keys of the file are errors, and so are variables `CHANCERY_…` that are nearly a setting. Others are told of
//! in the log alone, since machines set such variables, too (`CHANCERY_PORT` for a service called chancery).

use platform::identity;
use platform::kit::address::{Ranges, TrustedProxies};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use sources::{Environment, HTTP_SCHEMES, POSTGRESQL, PREFIX, SettingsFile, Sources, is_url, names_and_values};

mod sources;

/// The settings file when `--config` names no other one. It may be missing.
const DEFAULT_FILE: &str = "chancery.toml";

/// The bounds of numbers and durations. The upper one is small enough to be added to any time without an overflow.
const POSITIVE: RangeInclusive<i64> = 1..=1_000_000_000;

/// The settings as the command line gives them. Each is a text that is checked later, so that a wrong value gets the
/// same message wherever it was given.
#[derive(clap::Args, Serialize, Default, Clone)]
#[command(next_help_heading = "Settings (also as CHANCERY_… in the environment, or in chancery.toml)")]
pub struct Flags {
    /// Where the embedded stores, files and generated keys live [default: ./chancery-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<String>,
    /// Address of the main API [default: 127.0.0.1:8000]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Address of the history service [default: 127.0.0.1:8001]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub history_listen: Option<String>,
    /// postgres://… [default: SQLite under the data directory]
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// http(s)://user:password@host:8123 of ClickHouse [default: embedded under the data directory]
    #[arg(long, global = true, value_name = "URL")]
    pub history_database_url: Option<String>,
    /// s3://bucket/prefix, for instance [default: the data directory]
    #[arg(long, global = true, value_name = "URL")]
    pub files_url: Option<String>,
    /// Store of the document management integration [default: none]
    #[arg(long, global = true, value_name = "URL")]
    pub document_store_url: Option<String>,
    /// Public address of the main API [default: its listener]
    #[arg(long, global = true, value_name = "URL")]
    pub base_url: Option<String>,
    /// Public address of the history service [default: its listener]
    #[arg(long, global = true, value_name = "URL")]
    pub history_url: Option<String>,
    /// Front end that mails and single sign-on lead to; {build} stands for the build's domain [default: the build's own]
    #[arg(long, global = true, value_name = "URL")]
    pub sign_in_url: Option<String>,
    /// Key for tokens and for secrets at rest [default: generated; required with PostgreSQL]
    #[arg(long, global = true, value_name = "KEY")]
    pub secret_key: Option<String>,
    /// Key that `chancery keys rotate` puts in its place [default: none]
    #[arg(long, global = true, value_name = "KEY")]
    pub new_secret_key: Option<String>,
    /// X-API-Key of the main API [default: generated]
    #[arg(long, global = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// X-API-Key of the history service [default: generated]
    #[arg(long, global = true, value_name = "KEY")]
    pub history_api_key: Option<String>,
    /// Super admin of a new build [default: admin@example.com]
    #[arg(long, global = true, value_name = "EMAIL")]
    pub admin_username: Option<String>,
    /// That super admin's password [default: random, printed once]
    #[arg(long, global = true, value_name = "PASSWORD")]
    pub admin_password: Option<String>,
    /// Build that serves unknown hosts [default: localhost; none with PostgreSQL]
    #[arg(long, global = true, value_name = "DOMAIN")]
    pub fallback_build: Option<String>,
    /// Private networks that addresses of tenants may lead to, comma-separated [default: none]
    #[arg(long, global = true, value_name = "NETWORKS")]
    pub outbound_allow: Option<String>,
    /// Addresses or networks of proxies whose X-Forwarded-… count, comma-separated [default: none]
    #[arg(long, global = true, value_name = "NETWORKS")]
    pub trusted_proxies: Option<String>,
    /// Origins of separate front ends, comma-separated [default: none]
    #[arg(long, global = true, value_name = "ORIGINS")]
    pub cors_origins: Option<String>,
    /// Whether the console is served, and the sign-in page leads to it: true or false [default: true]
    #[arg(long, global = true, value_name = "BOOLEAN")]
    pub console: Option<String>,
    /// Wrong passwords in a row that lock an account [default: 5]
    #[arg(long, global = true, value_name = "NUMBER")]
    pub lock_attempts: Option<String>,
    /// How long a lock lasts, and within what time the attempts count [default: 900]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub lock_seconds: Option<String>,
    /// Failed sign-ins and reset requests of one address in five minutes; 0: no bound [default: 100]
    #[arg(long, global = true, value_name = "NUMBER")]
    pub address_attempts: Option<String>,
    /// How long an access token lasts [default: 900]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub access_token_seconds: Option<String>,
    /// How long a refresh token lasts [default: 604800]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub refresh_token_seconds: Option<String>,
    /// How long an upload waits for its use [default: 86400]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub upload_seconds: Option<String>,
    /// The most system events that the history service takes in one batch [default: 10000]
    #[arg(long, global = true, value_name = "NUMBER")]
    pub history_batch_events: Option<String>,
    /// Most bytes of a build's events that wait for the history service [default: 268435456]
    #[arg(long, global = true, value_name = "BYTES")]
    pub outbox_bytes: Option<String>,
    /// Issuer of provider_a, with {tenant_id} in it [default: none]
    #[arg(long, global = true, value_name = "URL")]
    pub sso_provider_a_issuer: Option<String>,
    /// Issuer of provider_b, with {tenant_id} in it [default: none]
    #[arg(long, global = true, value_name = "URL")]
    pub sso_provider_b_issuer: Option<String>,
}

/// The settings after validation.
#[derive(Clone)]
pub struct ProgramSettings {
    /// The directory of the embedded stores, files and generated keys.
    pub data: PathBuf,
    /// Listener of the main API.
    pub listen: SocketAddr,
    /// Listener of the history service.
    pub history_listen: SocketAddr,
    /// `postgres://…`; `None`: embedded SQLite.
    pub database_url: Option<String>,
    /// `http(s)://…` of ClickHouse; `None`: embedded.
    pub history_database_url: Option<String>,
    /// A URL of the object store for files; `None`: the data directory.
    pub files_url: Option<String>,
    /// A URL of the object store of the document management integration; `None`: the integration cannot be chosen.
    pub document_store_url: Option<String>,
    /// Public address of the main API without a slash at its end; see [`ProgramSettings::base_url`].
    pub base_url: Option<String>,
    /// Public address of the history service without a slash at its end; see [`ProgramSettings::history_url`].
    pub history_url: Option<String>,
    /// Front end for links, with `{build}` for the domain, without a slash at its end; `None`: the build's own address.
    pub sign_in_url: Option<String>,
    /// Key for tokens and secrets at rest; `None`: the generated one. Always set with PostgreSQL.
    pub secret_key: Option<String>,
    /// The key with which `chancery keys rotate` replaces the secret key.
    pub new_secret_key: Option<String>,
    /// `X-API-Key` of the main API; `None`: the generated one.
    pub api_key: Option<String>,
    /// `X-API-Key` of the history service; `None`: the generated one.
    pub history_api_key: Option<String>,
    /// User name of a new build's super admin.
    pub admin_username: String,
    /// Password of a new build's super admin; `None`: a random one, printed once.
    pub admin_password: Option<String>,
    /// Domain of the build that serves unknown hosts, in lower case.
    pub fallback_build: Option<String>,
    /// Private networks that addresses of tenants may lead to.
    pub outbound_allow: Ranges,
    /// Proxies whose `X-Forwarded-…` headers count.
    pub trusted_proxies: TrustedProxies,
    /// Origins of separate front ends, in lower case as browsers send them.
    pub cors_origins: Vec<String>,
    /// Whether the console is served.
    pub console: bool,
    /// Settings of identity: locks, attempts, tokens, and the issuers of single sign-on.
    pub identity: identity::IdentitySettings,
    /// How long an upload waits for its use.
    pub upload_seconds: i64,
    /// The most system events of one batch.
    pub history_batch_events: usize,
    /// Most bytes of a build's events that wait for the history service.
    pub outbox_bytes: i64,
    /// The variables `CHANCERY_…` that are no settings, but for those of an orchestrator.
    pub unknown_variables: Vec<String>,
}

/// A wrong setting: one line that names it and says what is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError(String);

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

impl ProgramSettings {
    /// The settings of this process: its flags, its environment, and `config` (it must exist) or `chancery.toml` in the
    /// working directory (it may be absent).
    pub fn load(flags: &Flags, config: Option<&Path>) -> Result<ProgramSettings, SettingError> {
        let path = config.unwrap_or(Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && config.is_none() => String::new(),
            Err(error) => return Err(SettingError(format!("{}: {error}", path.display()))),
        };
        let file = SettingsFile::parse(&path.display().to_string(), &text)?;
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        ProgramSettings::from_sources(flags, environment.filter(|(name, _)| name.starts_with(PREFIX)).collect(), file)
    }

    fn from_sources(
        flags: &Flags,
        environment: Environment,
        file: SettingsFile,
    ) -> Result<ProgramSettings, SettingError> {
        let sources = Sources { flags: names_and_values(flags), environment, file };
        let unknown_variables = sources.refuse_unknown()?;

        let database_url = sources.url("database_url", POSTGRESQL)?;
        let secret_key = sources.secret("secret_key")?;
        if let (Some(database), None) = (sources.value_of("database_url")?, &secret_key) {
            return Err(SettingError(format!(
                "CHANCERY_SECRET_KEY: must be set with {}, the same for all processes",
                database.name
            )));
        }
        let embedded = database_url.is_none();
        let fallback_build = sources.text("fallback_build")?.map(|domain| domain.to_lowercase());

        let defaults = identity::IdentitySettings::default();
        Ok(ProgramSettings {
            data: sources.text("data")?.unwrap_or_else(|| "./chancery-data".into()).into(),
            listen: sources.listener("listen", 8000)?,
            history_listen: sources.listener("history_listen", 8001)?,
            database_url,
            history_database_url: sources.url("history_database_url", HTTP_SCHEMES)?,
            files_url: sources.url("files_url", &[])?,
            document_store_url: sources.url("document_store_url", &[])?,
            base_url: sources.public_url("base_url")?,
            history_url: sources.public_url("history_url")?,
            sign_in_url: sources.public_url("sign_in_url")?,
            secret_key,
            new_secret_key: sources.secret("new_secret_key")?,
            api_key: sources.api_key("api_key")?,
            history_api_key: sources.api_key("history_api_key")?,
            admin_username: sources.text("admin_username")?.unwrap_or_else(|| "admin@example.com".into()),
            admin_password: sources.secret("admin_password")?,
            fallback_build: fallback_build.or_else(|| embedded.then(|| "localhost".into())),
            outbound_allow: sources.parse_setting("outbound_allow", Ranges::parse_list)?.unwrap_or_default(),
            trusted_proxies: sources.parse_setting("trusted_proxies", TrustedProxies::parse)?.unwrap_or_default(),
            cors_origins: sources.parse_setting("cors_origins", origins)?.unwrap_or_default(),
            console: sources.parse_setting("console", boolean)?.unwrap_or(true),
            identity: identity::IdentitySettings {
                lock_attempts: sources.number("lock_attempts", defaults.lock_attempts, POSITIVE)?,
                lock_seconds: sources.number("lock_seconds", defaults.lock_seconds, POSITIVE)?,
                address_attempts: sources.number("address_attempts", defaults.address_attempts, 0..=*POSITIVE.end())?,
                access_token_seconds: sources.number(
                    "access_token_seconds",
                    defaults.access_token_seconds,
                    POSITIVE,
                )?,
                refresh_token_seconds: sources.number(
                    "refresh_token_seconds",
                    defaults.refresh_token_seconds,
                    POSITIVE,
                )?,
                sso_provider_a_issuer: sources.url("sso_provider_a_issuer", HTTP_SCHEMES)?,
                sso_provider_b_issuer: sources.url("sso_provider_b_issuer", HTTP_SCHEMES)?,
                hash_cost: Default::default(),
            },
            upload_seconds: sources.number("upload_seconds", 86_400, POSITIVE)?,
            history_batch_events: sources.number("history_batch_events", 10_000, 1..=100_000)?.unsigned_abs() as usize,
            outbox_bytes: sources.number("outbox_bytes", 268_435_456, 1_048_576..=1_099_511_627_776)?,
            unknown_variables,
        })
    }

    /// The public address of the main API; `bound` is where it really listens.
    pub fn base_url(&self, bound: SocketAddr) -> String {
        self.base_url.clone().unwrap_or_else(|| address_of(bound))
    }

    /// The public address of the history service; `bound` is where it really listens.
    pub fn history_url(&self, bound: SocketAddr) -> String {
        self.history_url.clone().unwrap_or_else(|| address_of(bound))
    }
}

/// The address of a listener, with the loopback address for one that listens on all addresses.
pub fn address_of(bound: SocketAddr) -> String {
    let mut address = bound;
    if bound.ip().is_unspecified() {
        address.set_ip(match bound {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    format!("http://{address}")
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is neither true nor false"))
}

fn origins(list: &str) -> Result<Vec<String>, String> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let origin = |entry: &str| {
        let rest = entry.split_once("://").map_or("", |(_, rest)| rest);
        // Browsers send only scheme, host and port, so anything more would never match.
        if !is_url(entry, HTTP_SCHEMES) || rest.contains(['/', '?', '#', '@', '*']) {
            return Err(format!("{entry:?} is no origin, such as https://app.example.com"));
        }
        Ok(entry.to_lowercase())
    };
    entries.map(origin).collect()
}

#[cfg(test)]
mod tests {
    use super::sources::variable;
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    fn load(flags: &Flags, environment: &[(&str, &str)], file: &str) -> Result<ProgramSettings, String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        let file = SettingsFile::parse(DEFAULT_FILE, file).map_err(|error| error.to_string())?;
        ProgramSettings::from_sources(flags, environment, file).map_err(|error| error.to_string())
    }

    fn from_environment(name: &str, value: &str) -> Result<ProgramSettings, String> {
        load(&Flags::default(), &[(name, value)], "")
    }

    fn problem(settings: Result<ProgramSettings, String>) -> String {
        settings.err().expect("the setting is wrong")
    }

    #[test]
    fn defaults_are_those_of_document_4() {
        let settings = load(&Flags::default(), &[], "").unwrap();
        assert_eq!(settings.data, Path::new("./chancery-data"));
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8000");
        assert_eq!(settings.history_listen.to_string(), "127.0.0.1:8001");
        assert_eq!(settings.admin_username, "admin@example.com");
        assert_eq!(settings.fallback_build.as_deref(), Some("localhost"));
        assert_eq!(
            (settings.identity.lock_attempts, settings.identity.lock_seconds, settings.identity.address_attempts),
            (5, 900, 100)
        );
        assert_eq!((settings.identity.access_token_seconds, settings.identity.refresh_token_seconds), (900, 604_800));
        assert_eq!((settings.upload_seconds, settings.outbox_bytes), (86_400, 268_435_456));
        assert!(settings.cors_origins.is_empty() && settings.outbound_allow.is_empty());
        assert_eq!(settings.trusted_proxies, TrustedProxies::default());
        for absent in [settings.database_url, settings.secret_key, settings.api_key, settings.admin_password] {
            assert_eq!(absent, None);
        }
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let flags = Flags { lock_attempts: Some("7".into()), ..Flags::default() };
        let environment = [("CHANCERY_LOCK_ATTEMPTS", "8"), ("CHANCERY_LOCK_SECONDS", "80"), ("CHANCERY_DATA", "")];
        let file = "lock_attempts = 9\nlock_seconds = 90\naccess_token_seconds = 99\ndata = '/srv/chancery'";
        let settings = load(&flags, &environment, file).unwrap();
        assert_eq!(settings.identity.lock_attempts, 7);
        assert_eq!(settings.identity.lock_seconds, 80);
        assert_eq!(settings.identity.access_token_seconds, 99);
        assert_eq!(settings.data, Path::new("/srv/chancery"), "an empty variable is as if not set");
    }

    #[test]
    fn a_wrong_setting_is_one_line_that_names_it() {
        for (name, value, expected) in [
            (
                "CHANCERY_LISTEN",
                "localhost",
                "CHANCERY_LISTEN: \"localhost\" is no address with a port, such as 127.0.0.1:8000",
            ),
            ("CHANCERY_LOCK_ATTEMPTS", "0", "CHANCERY_LOCK_ATTEMPTS: \"0\" is no whole number from 1 to 1000000000"),
            (
                "CHANCERY_DATABASE_URL",
                "mysql://u:pw@h/d",
                "CHANCERY_DATABASE_URL: expected postgres://… or postgresql://…",
            ),
            (
                "CHANCERY_BASE_URL",
                "example.com",
                "CHANCERY_BASE_URL: expected an address http://… or https://… without query and user",
            ),
            (
                "CHANCERY_HISTORY_API_KEY",
                "nineteen characters",
                "CHANCERY_HISTORY_API_KEY: expected at least 20 characters",
            ),
            (
                "CHANCERY_TRUSTED_PROXIES",
                "10.0.0.0/8, proxy",
                "CHANCERY_TRUSTED_PROXIES: \"proxy\" is neither an address nor a network",
            ),
            (
                "CHANCERY_CORS_ORIGINS",
                "https://a.example/app",
                "CHANCERY_CORS_ORIGINS: \"https://a.example/app\" is no origin, such as https://app.example.com",
            ),
        ] {
            assert_eq!(problem(from_environment(name, value)), expected);
        }
        let flags = Flags { history_listen: Some("x\ny".into()), ..Flags::default() };
        let line = problem(load(&flags, &[], ""));
        assert_eq!(line, "--history-listen: \"x\\ny\" is no address with a port, such as 127.0.0.1:8001");
    }

    #[test]
    fn the_file_is_checked_as_strictly() {
        let file = |text| problem(load(&Flags::default(), &[], text));
        assert_eq!(file("lock_atempts = 3"), "chancery.toml: unknown setting \"lock_atempts\"");
        assert_eq!(file("lock_seconds = true"), "chancery.toml, lock_seconds: expected a text or a whole number");
        assert_eq!(file("cors_origins = [1]"), "chancery.toml, cors_origins: expected a text or a list of texts");
        assert_eq!(
            file("lock_seconds = -1"),
            "chancery.toml, lock_seconds: \"-1\" is no whole number from 1 to 1000000000"
        );
        let broken = file("data = 'x'\nlisten = = 1");
        assert!(broken.starts_with("chancery.toml, line 2: ") && broken.lines().count() == 1, "{broken}");
    }

    #[test]
    fn lists_are_comma_separated_or_lists_of_the_file() {
        let origins = ["https://a.example", "http://localhost:5173"];
        let settings = from_environment("CHANCERY_CORS_ORIGINS", "https://A.example, http://localhost:5173").unwrap();
        assert_eq!(settings.cors_origins, origins);
        let file = "cors_origins = ['https://a.example', 'http://localhost:5173']\noutbound_allow = '127.0.0.0/8'";
        let settings = load(&Flags::default(), &[], file).unwrap();
        assert_eq!(settings.cors_origins, origins);
        assert!(settings.outbound_allow.contains(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn postgresql_needs_the_key_and_has_no_fallback_build() {
        let database = ("CHANCERY_DATABASE_URL", "postgres://u:pw@db/chancery");
        assert_eq!(
            problem(load(&Flags::default(), &[database], "")),
            "CHANCERY_SECRET_KEY: must be set with CHANCERY_DATABASE_URL, the same for all processes"
        );
        let settings = load(&Flags::default(), &[database, ("CHANCERY_SECRET_KEY", " k ")], "").unwrap();
        assert_eq!(settings.fallback_build, None);
        assert_eq!(settings.secret_key.as_deref(), Some(" k "), "a key is not trimmed");
    }

    #[test]
    fn addresses_default_to_where_the_listeners_are() {
        let settings = from_environment("CHANCERY_BASE_URL", "https://chancery.example/").unwrap();
        assert_eq!(settings.base_url("127.0.0.1:9".parse().unwrap()), "https://chancery.example");
        assert_eq!(settings.history_url("127.0.0.1:9".parse().unwrap()), "http://127.0.0.1:9");
        assert_eq!(settings.history_url("0.0.0.0:9".parse().unwrap()), "http://127.0.0.1:9");
        assert_eq!(settings.history_url("[::]:9".parse().unwrap()), "http://[::1]:9");
    }

    #[test]
    fn templates_and_stores_are_taken_as_they_are() {
        let environment = [
            ("CHANCERY_SIGN_IN_URL", "https://{build}/app/"),
            ("CHANCERY_SSO_PROVIDER_A_ISSUER", "https://login.example/{tenant_id}/v2.0"),
            ("CHANCERY_FILES_URL", "s3://bucket/prefix"),
            ("CHANCERY_DOCUMENT_STORE_URL", "file:///srv/documents"),
            ("CHANCERY_HISTORY_DATABASE_URL", "http://user:pw@host:8123"),
        ];
        let settings = load(&Flags::default(), &environment, "").unwrap();
        assert_eq!(settings.sign_in_url.as_deref(), Some("https://{build}/app"));
        assert_eq!(settings.identity.sso_provider_a_issuer.as_deref(), Some("https://login.example/{tenant_id}/v2.0"));
        assert_eq!(settings.files_url.as_deref(), Some("s3://bucket/prefix"));
        assert_eq!(settings.document_store_url.as_deref(), Some("file:///srv/documents"));
    }

    #[test]
    fn a_misspelt_variable_is_refused_and_others_are_told() {
        for (name, meant) in [
            ("CHANCERY_LOCK_ATEMPTS", "CHANCERY_LOCK_ATTEMPTS"),
            ("CHANCERY_SECRETKEY", "CHANCERY_SECRET_KEY"),
            ("CHANCERY_lock_seconds", "CHANCERY_LOCK_SECONDS"),
        ] {
            assert_eq!(problem(from_environment(name, "9")), format!("{name}: unknown setting; {meant} is one"));
        }
        let variables = ["CHANCERY_IMAGE_TAG", "CHANCERY_PORT", "CHANCERY_API_PORT_8000_TCP", "CHANCERY_SERVICE_HOST"];
        let settings = load(&Flags::default(), &variables.map(|name| (name, "x")), "").unwrap();
        assert_eq!(settings.unknown_variables, ["CHANCERY_IMAGE_TAG"]);
    }

    #[test]
    fn the_host_of_postgresql_may_be_a_parameter() {
        let key = ("CHANCERY_SECRET_KEY", "k");
        for url in ["postgres:///db?host=/run/postgresql", "postgresql://u@%2Frun%2Fpostgresql/db"] {
            let settings = load(&Flags::default(), &[("CHANCERY_DATABASE_URL", url), key], "").unwrap();
            assert_eq!(settings.database_url.as_deref(), Some(url));
        }
    }

    /// The variables in the first column of the table of `docs/operations.md`.
    fn documented() -> BTreeSet<String> {
        let page = include_str!("../../../docs/operations.md");
        let rows = page.lines().skip_while(|line| !line.starts_with("| Setting |")).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let names =
            rows.flat_map(|row| row.split('|').nth(1).unwrap().split(',').map(|name| name.trim().trim_matches('`')));
        names.map(str::to_owned).collect()
    }

    #[test]
    fn the_settings_of_the_operations_page_are_those_of_the_program() {
        let others = ["--config", "RUST_LOG"].map(str::to_owned);
        let read: BTreeSet<String> =
            names_and_values(&Flags::default()).keys().map(|key| variable(key)).chain(others).collect();
        assert_eq!(documented(), read);
    }
}
