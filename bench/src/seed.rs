//! A build with many users, the same every time: names, references to the users who made them, a few roles.

use crate::Failure;
use platform::app::{App, Build, Config};
use platform::clock::Clock;
use platform::secret::Keys;
use platform::{address::Trusted, builds};
use std::fmt::Write as _;
use std::path::Path;
use store::{Arg, Conn, Engine, Error, Sql};

/// The key that the servers are started with.
pub const SECRET: &str = "the benchmark's own key, which protects nothing";
/// The super admin, who is user 1.
pub const ADMIN: (&str, &str) = ("admin@example.com", "Correct-Horse-7");
const DAY: i64 = 86_400_000_000;
/// 2021-01-01.
const START: i64 = 1_609_459_200_000_000;
const BATCH: i64 = 500;

const FIRST_NAMES: [&str; 40] = [
    "Agnes", "Albert", "Amira", "Anton", "Beatrice", "Bruno", "Camille", "Casper", "Celia", "Dario", "Dorothea",
    "Edgar", "Elif", "Emeka", "Esther", "Fatima", "Florian", "Greta", "Gustav", "Hiro", "Ingrid", "Isaac", "Jasmin",
    "Johann", "Katalin", "Lars", "Leonie", "Ludovic", "Maren", "Milan", "Naomi", "Nils", "Oriana", "Pascal", "Ravi",
    "Sabine", "Samuel", "Tilda", "Viktor", "Yuki",
];
const LAST_NAMES: [&str; 40] = [
    "Almeida",
    "Arnold",
    "Bakker",
    "Baumann",
    "Bernard",
    "Blom",
    "Castro",
    "Christensen",
    "Cruz",
    "Demir",
    "Dumont",
    "Engel",
    "Falk",
    "Ferreira",
    "Fontaine",
    "Gallo",
    "Hartmann",
    "Hoekstra",
    "Ivanova",
    "Jacobs",
    "Kaya",
    "Kimura",
    "Krause",
    "Lindgren",
    "Lombardi",
    "Mancini",
    "Mendes",
    "Mori",
    "Nielsen",
    "Nowak",
    "Okoye",
    "Palmer",
    "Rojas",
    "Santos",
    "Sharma",
    "Steiner",
    "Takahashi",
    "Vidal",
    "Winter",
    "Zeman",
];
const JOBS: [&str; 8] =
    ["Archivist", "Bookkeeper", "Chemist", "Draughtsman", "Examiner", "Inspector", "Registrar", "Translator"];
const COMPANIES: [&str; 6] =
    ["Alder & Ash", "Brightwater Ltd", "Copperfield AG", "Dovetail GmbH", "Elmstead Records", "Fenwick SA"];
/// Parts of names, for the search.
pub const PARTS: [&str; 16] =
    ["ann", "ber", "cas", "ela", "fal", "gre", "har", "ing", "lar", "lud", "mar", "nil", "ori", "ste", "vik", "zem"];

/// The same numbers each time (xorshift).
pub struct Dice(u64);

impl Dice {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }
    /// A number from 0 to below `sides`.
    pub fn roll(&mut self, sides: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % sides.unsigned_abs()) as i64
    }
    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.roll(texts.len() as i64) as usize]
    }
}

/// Makes the build `localhost`.
pub fn run(directory: &str, users: &str, url: Option<&str>) -> Result<(), Failure> {
    let users: i64 = users.parse()?;
    std::fs::create_dir_all(directory)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = App::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let build = builds::create(&app, "localhost", ADMIN.0, ADMIN.1).await?;
        let mut at = 2;
        while at <= users {
            let until = (at + BATCH - 1).min(users);
            build.db.write(move |conn| fill(conn, at, until)).await?;
            at = until + 1;
        }
        build.db.write(count).await?;
        std::fs::write(Path::new(directory).join("token"), token(&app, &build).await?)?;
        std::fs::write(Path::new(directory).join("key"), key())?;
        app.store.close().await;
        Ok(())
    })
}

/// What the servers are started with, too.
pub fn config(directory: &str, url: Option<&str>) -> Config {
    let engine = match url {
        Some(url) => Engine::Postgres { url: url.to_owned() },
        None => Engine::Sqlite { directory: directory.into() },
    };
    Config {
        engine,
        data: directory.into(),
        secret_key: SECRET.to_owned(),
        base_url: "http://localhost".to_owned(),
        sign_in_url: None,
        fallback_build: None,
        trusted_proxies: Trusted::default(),
        outbound_allow: platform::address::Ranges::default(),
        cors_origins: Vec::new(),
        lock_attempts: 5,
        lock_seconds: 900,
        address_attempts: 0,
        access_token_seconds: 86_400,
        refresh_token_seconds: 86_400,
        sso_provider_a_issuer: None,
        sso_provider_b_issuer: None,
        history: None,
        outbox_bytes: 268_435_456,
        clock: Clock::system(),
    }
}

/// Inserts the users who get these ids.
fn fill(conn: &mut Conn, from: i64, until: i64) -> Result<(), Error> {
    for id in from..=until {
        let mut dice = Dice::new(id.unsigned_abs() * 0x9e37_79b9_7f4a_7c15);
        let (first, last) = (dice.of(&FIRST_NAMES), dice.of(&LAST_NAMES));
        let account_type = match dice.roll(100) {
            0..30 => "internal",
            30..80 => "external",
            80..85 => "full",
            _ => "one_time_completion",
        };
        let is_active = dice.roll(100) < 85;
        let created = START + id * 97 * 60_000_000 + dice.roll(1_000_000);
        let active = |after: i64| if is_active { Arg::from(created + after * DAY / 24) } else { Arg::Null };
        let someone = |dice: &mut Dice| 1 + dice.roll(id.clamp(2, 20) - 1);
        let sent_by = (dice.roll(10) < 3).then(|| someone(&mut dice));
        let name = format!("{first} {last}");
        let sql = Sql::new(
            "INSERT INTO users(username, username_fold, account_type, first_name, last_name, full_name, full_name_fold, \
             job_title, company_name, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges, status, \
             last_login, activated_at, password_set_at, link_sent_at, link_sent_by, created_at, created_by, modified_at, modified_by) \
             VALUES ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'UTC', 0, '[]', $11, $12, $13, $13, $14, $15, $16, $17, $18, $19)",
        );
        let sql = sql.arg(format!("{first}.{last}.{id}@example.com").to_lowercase()).arg(account_type);
        let sql =
            sql.arg(first).arg(last).arg(&name).arg(name.to_lowercase()).arg(dice.of(&JOBS)).arg(dice.of(&COMPANIES));
        let sql = sql
            .arg(format!("+49 30 {:07}", dice.roll(10_000_000)))
            .arg(format!("+49 170 {:07}", dice.roll(10_000_000)));
        let sql = sql.arg(if is_active { "active" } else { "invited" });
        let sql = sql.arg(active(24 * dice.roll(300))).arg(active(dice.roll(90)));
        let sql = sql.arg(created + 300_000_000).arg(sent_by).arg(created).arg(someone(&mut dice));
        let sql = sql.arg(created + dice.roll(400) * DAY).arg(someone(&mut dice));
        conn.exec(&sql)?;
    }
    Ok(())
}

/// What stands beside the users: the counters, limits that leave room, roles for the users of type `full`.
fn count(conn: &mut Conn) -> Result<(), Error> {
    conn.exec(&Sql::new("DELETE FROM counters WHERE name LIKE 'users_%'"))?;
    conn.exec(&Sql::new(
        "INSERT INTO counters(name, n) SELECT 'users_' || account_type, count(*) FROM users GROUP BY account_type",
    ))?;
    conn.exec(&Sql::new(
        "INSERT INTO limits(name, value) SELECT name, 1000000000 FROM counters WHERE name LIKE 'users_%'",
    ))?;
    let sql = "INSERT INTO roles(name, name_fold, description, permissions, created_at, created_by, modified_at, modified_by) \
               VALUES ('Registrars', 'registrars', '', '{\"users\":[\"list\",\"view\"]}', $1, 1, $1, 1), \
               ('Auditors', 'auditors', '', '{\"administration_log\":[\"list\"]}', $1, 1, $1, 1)";
    conn.exec(&Sql::new(sql).arg(START))?;
    conn.exec(&Sql::new("INSERT INTO user_roles(user_id, role_id) SELECT u.id, r.id FROM users u CROSS JOIN roles r WHERE u.account_type = 'full'"))?;
    Ok(())
}

/// A token of a session that lasts a day.
pub async fn token(app: &App, build: &Build) -> Result<String, Failure> {
    let now = app.clock.now();
    let sql = "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent) \
               VALUES (1, $1, $1, $2, '127.0.0.1', 'bench') RETURNING id";
    let sql = Sql::new(sql).arg(now).arg(now + DAY);
    let session = build.db.write(move |conn| conn.one(&sql, |row| row.int(0))).await?;
    Ok(app.tokens.issue(&build.uid, 1, session, now, 86_400))
}

/// The key of the tokens as hexadecimal digits, for the floor.
fn key() -> String {
    Keys::new(SECRET).tokens().iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
