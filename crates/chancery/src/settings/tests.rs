use super::setting::SettingDefault;
use super::*;
use platform::kit::address::TrustedProxies;
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
fn defaults_have_the_documented_values() {
    let settings = load(&Flags::default(), &[], "").unwrap();
    assert_eq!(settings.data, Path::new("./chancery-data"));
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8000");
    assert_eq!(settings.history_listen.to_string(), "127.0.0.1:8001");
    assert_eq!(settings.admin_username, "admin@example.com");
    assert_eq!(settings.fallback_build.as_deref(), Some("localhost"));
    assert_eq!((settings.lock_attempts, settings.lock_seconds, settings.address_attempts), (5, 900, 100));
    assert_eq!((settings.access_token_seconds, settings.refresh_token_seconds), (900, 604_800));
    assert_eq!((settings.upload_seconds, settings.outbox_bytes), (86_400, 268_435_456));
    assert_eq!(settings.history_batch_events, 10_000);
    assert!(settings.cors_origins.is_empty() && settings.outbound_allow.is_empty());
    assert_eq!(settings.trusted_proxies, TrustedProxies::default());
    for absent in [settings.database_url, settings.secret_key, settings.api_key, settings.admin_password] {
        assert_eq!(absent, None);
    }
}

#[test]
fn a_setting_has_a_flag_with_a_help_and_a_variable() {
    let setting = described::history_listen;
    assert_eq!((setting.flag(), setting.variable()), ("--history-listen".into(), "CHANCERY_HISTORY_LISTEN".into()));
    assert_eq!(setting.help(), "Address on which the history service listens [default: 127.0.0.1:8001]");
    assert!(described::cors_origins.help().ends_with(" comma-separated [default: none]"));
}

#[test]
fn the_modules_have_the_same_defaults() {
    let settings = load(&Flags::default(), &[], "").unwrap();
    assert_eq!(settings.events().outbox_bytes, events::EventSettings::default().outbox_bytes);
    assert_eq!(settings.files().upload_seconds, files::FileSettings::default().upload_seconds);
    assert_eq!(settings.identity(), identity::IdentitySettings::default());
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let flags = Flags { lock_attempts: Some("7".into()), ..Flags::default() };
    let environment = [("CHANCERY_LOCK_ATTEMPTS", "8"), ("CHANCERY_LOCK_SECONDS", "80"), ("CHANCERY_DATA", "")];
    let file = "lock_attempts = 9\nlock_seconds = 90\naccess_token_seconds = 99\ndata = '/srv/chancery'";
    let settings = load(&flags, &environment, file).unwrap();
    assert_eq!(settings.lock_attempts, 7);
    assert_eq!(settings.lock_seconds, 80);
    assert_eq!(settings.access_token_seconds, 99);
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
        ("CHANCERY_DATABASE_URL", "mysql://u:pw@h/d", "CHANCERY_DATABASE_URL: expected postgres://… or postgresql://…"),
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
    let environment = [database, ("CHANCERY_LISTEN", "here")];
    let line = problem(load(&Flags::default(), &environment, ""));
    assert!(line.starts_with("CHANCERY_SECRET_KEY: "), "the key is checked before the other settings: {line}");
    let settings = load(&Flags::default(), &[database, ("CHANCERY_SECRET_KEY", " k ")], "").unwrap();
    assert_eq!(settings.fallback_build, None);
    assert_eq!(settings.secret_key.as_deref(), Some(" k "), "a key is not trimmed");
}

#[test]
fn a_check_returns_every_mistake() {
    let flags = Flags { lock_attempts: Some("0".into()), ..Flags::default() };
    let environment = [
        ("CHANCERY_DATABASE_URL", "postgres://u:pw@db/chancery"),
        ("CHANCERY_LISTEN", "localhost"),
        ("CHANCERY_LOCK_SECONS", "9"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), OsString::from(value))).into();
    let file = SettingsFile::parse(DEFAULT_FILE, "console = 'yes'\nport = 8000\nhost = '::'").unwrap();
    let mistakes = ProgramSettings::check_sources(&flags, environment, file).err().expect("the settings are wrong");
    assert_eq!(
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "chancery.toml: unknown setting \"host\"",
            "chancery.toml: unknown setting \"port\"",
            "CHANCERY_LOCK_SECONS: unknown setting; CHANCERY_LOCK_SECONDS is one",
            "CHANCERY_LISTEN: \"localhost\" is no address with a port, such as 127.0.0.1:8000",
            "chancery.toml, console: \"yes\" is neither true nor false",
            "--lock-attempts: \"0\" is no whole number from 1 to 1000000000",
            "CHANCERY_SECRET_KEY: must be set with CHANCERY_DATABASE_URL, the same for all processes",
        ]
    );
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
    assert_eq!(settings.sso_provider_a_issuer.as_deref(), Some("https://login.example/{tenant_id}/v2.0"));
    assert_eq!(settings.files_url.as_deref(), Some("s3://bucket/prefix"));
    assert_eq!(settings.document_store_url.as_deref(), Some("file:///srv/documents"));
}

#[test]
fn a_misspelled_variable_is_refused_and_others_are_returned() {
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

/// The row of a setting in the table of `docs/operations.md`.
fn documented_row(setting: &Setting) -> String {
    let (summary, details) = setting.paragraphs();
    let meaning = if details.is_empty() { summary } else { format!("{summary}. {details}") };
    let default = match setting.default {
        SettingDefault::Value(text) if !text.is_empty() => format!("`{text}`"),
        _ => setting.default.to_string(),
    };
    let row = format!("| `{}` | {} | {default} | {meaning} |\n", setting.variable(), setting.unit);
    assert_eq!(row.matches('|').count(), 5, "a cell contains the separator of cells: {row}");
    row
}

#[test]
fn the_table_of_the_operations_page_is_that_of_the_declaration() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(path).unwrap();
    let head = "| Setting | Value | Default | Meaning |\n|---|---|---|---|\n";
    let (before, table) = page.split_once(head).expect("the page has the head of the table");
    let end = table.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum::<usize>();
    let rows: String = SETTINGS.iter().map(documented_row).collect();
    let expected = [before, head, &rows, &table[end..]].concat();
    if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
        return std::fs::write(path, expected).unwrap();
    }
    let difference = page.lines().zip(expected.lines()).find(|(line, expected)| line != expected);
    let command = "UPDATE=1 cargo test -p chancery --bin chancery operations_page";
    assert!(page == expected, "docs/operations.md differs, first at {difference:?}. Write it by: {command}");
}
