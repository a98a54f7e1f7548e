//! A build with many users, the same every time: names, references to the users who created them, a few roles.

use crate::failure::Failure;
use platform::ApiSettings;
use platform::builds;
use platform::identity::access_tokens::AccessTokens;
use platform::kit::app::App;
use platform::kit::build::Build;
use platform::kit::ids::UserId;
use platform::kit::secret::Keys;
use platform::kit::settings;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use store::{Argument, Conn, Sql, StoreEngine, StoreError};

/// The key with which the servers are started.
pub const SECRET: &str = "the benchmark's own key, which protects nothing";
/// The super admin, who is user 1.
pub const ADMIN: (&str, &str) = ("admin@example.com", "Correct-Horse-7");
const DAY: i64 = 86_400_000_000;
/// 2021-01-01.
const START: i64 = 1_609_459_200_000_000;
const BATCH: usize = 500;

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
    ["ann", "ber", "cas", "eli", "fal", "gre", "har", "ing", "lar", "lud", "mar", "nil", "ori", "ste", "vik", "zem"];

/// A generator with the same numbers each time (xorshift).
pub struct Dice(u64);

impl Dice {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }
    /// Returns a number from 0 to below `sides`.
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

/// Creates the build `localhost` with this number of users, or with those of a CSV file (the columns of [`Person::read`]).
pub fn run(directory: &str, users: &str, url: Option<&str>) -> Result<(), Failure> {
    let people: Vec<Person> = match users.parse() {
        Ok(users) => (2..=users).map(Person::made_up).collect(),
        // The first user is the super admin, who exists in every build.
        Err(_) => csv::Reader::from_path(users)?
            .deserialize()
            .skip(1)
            .map(|row| Person::read(&row?))
            .collect::<Result<_, Failure>>()?,
    };
    std::fs::create_dir_all(directory)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let app = platform::open(config(directory, url)).await.map_err(|error| error.to_string())?;
        let build = builds::create(&app, "localhost", ADMIN.0, ADMIN.1).await?;
        for part in people.chunks(BATCH) {
            let part = part.to_vec();
            build.db.write(move |conn| part.iter().try_for_each(|person| person.insert(conn))).await?;
        }
        build.db.write(count).await?;
        std::fs::write(Path::new(directory).join("token"), token(&app, &build).await?)?;
        std::fs::write(Path::new(directory).join("key"), key())?;
        app.store.close().await;
        Ok(())
    })
}

/// Returns the database of a directory, or the one at this address.
pub fn engine(directory: &str, url: Option<&str>) -> StoreEngine {
    match url {
        Some(url) => StoreEngine::Postgres { url: url.to_owned() },
        None => StoreEngine::Sqlite { directory: directory.into() },
    }
}

/// Returns the settings, which the servers use too.
pub fn config(directory: &str, url: Option<&str>) -> ApiSettings {
    let mut settings: ApiSettings = settings::KitSettings::new(engine(directory, url), directory.into(), SECRET).into();
    settings.base_url = "http://localhost".to_owned();
    settings.identity.address_attempts = 0;
    (settings.identity.access_token_seconds, settings.identity.refresh_token_seconds) = (86_400, 86_400);
    settings
}

/// A user in the form of the insert. Times are in microseconds.
#[derive(Clone)]
struct Person {
    username: String,
    account_type: String,
    first_name: String,
    last_name: String,
    job_title: String,
    company_name: String,
    phone: String,
    mobile: String,
    timezone: String,
    status: &'static str,
    last_login: Option<i64>,
    activated_at: Option<i64>,
    link_sent_at: Option<i64>,
    link_sent_by: Option<i64>,
    created_at: Option<i64>,
    created_by: Option<i64>,
    modified_at: Option<i64>,
    modified_by: Option<i64>,
}

impl Person {
    /// Returns the same person for the same id, every time.
    fn made_up(id: i64) -> Person {
        let mut dice = Dice::new(id.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (first, last) = (dice.of(&FIRST_NAMES), dice.of(&LAST_NAMES));
        let account_type = match dice.roll(100) {
            0..30 => "internal",
            30..80 => "external",
            80..85 => "full",
            _ => "one_time_completion",
        };
        let is_active = dice.roll(100) < 85;
        let created = START + id * 97 * 60_000_000 + dice.roll(1_000_000);
        let active = |after: i64| is_active.then_some(created + after * DAY / 24);
        let someone = |dice: &mut Dice| Some(1 + dice.roll(id.clamp(2, 20) - 1));
        let link_sent_by = (dice.roll(10) < 3).then(|| someone(&mut dice)).flatten();
        Person {
            username: format!("{first}.{last}.{id}@example.com").to_lowercase(),
            account_type: account_type.to_owned(),
            first_name: first.to_owned(),
            last_name: last.to_owned(),
            job_title: dice.of(&JOBS).to_owned(),
            company_name: dice.of(&COMPANIES).to_owned(),
            phone: format!("+49 30 {:07}", dice.roll(10_000_000)),
            mobile: format!("+49 170 {:07}", dice.roll(10_000_000)),
            timezone: "UTC".to_owned(),
            status: if is_active { "active" } else { "invited" },
            last_login: active(24 * dice.roll(300)),
            activated_at: active(dice.roll(90)),
            link_sent_at: Some(created + 300_000_000),
            link_sent_by,
            created_at: Some(created),
            created_by: someone(&mut dice),
            modified_at: Some(created + dice.roll(400) * DAY),
            modified_by: someone(&mut dice),
        }
    }

    /// Reads a row of a file with a column for each field.
    fn read(row: &HashMap<String, String>) -> Result<Person, Failure> {
        let text = |name: &str| row.get(name).cloned().ok_or_else(|| format!("the file has no column {name}"));
        let id: i64 = text("id")?.parse()?;
        // A user must not be created by a later user.
        let someone =
            |name: &str| text(name).map(|text| text.parse().ok().map(|user: i64| if user < id { user } else { 1 }));
        let time_of = |name: &str| text(name).map(|text| resource::time::parse(&text));
        Ok(Person {
            username: text("username")?,
            account_type: text("account_type")?,
            first_name: text("first_name")?,
            last_name: text("last_name")?,
            job_title: text("job_title")?,
            company_name: text("company_name")?,
            phone: text("phone")?,
            mobile: text("mobile")?,
            timezone: text("timezone")?,
            status: if text("status")? == "active" { "active" } else { "invited" },
            last_login: time_of("last_login")?,
            activated_at: time_of("activated_at")?,
            link_sent_at: time_of("link_sent_at")?,
            link_sent_by: someone("link_sent_by")?,
            created_at: time_of("created_at")?,
            created_by: someone("created_by")?,
            modified_at: time_of("modified_at")?,
            modified_by: someone("modified_by")?,
        })
    }

    fn insert(&self, conn: &mut Conn) -> Result<(), StoreError> {
        let name = format!("{} {}", self.first_name, self.last_name);
        let optional = |number: Option<i64>| number.map_or(Argument::Null, Argument::from);
        let sql = Sql::new(
            "INSERT INTO users(username, username_fold, account_type, first_name, last_name, full_name, full_name_fold, \
             job_title, company_name, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges, status, \
             last_login, activated_at, password_set_at, link_sent_at, link_sent_by, created_at, created_by, modified_at, modified_by) \
             VALUES ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, '[]', $12, $13, $14, $14, $15, $16, $17, $18, $19, $20)",
        );
        let sql = sql.arg(&self.username).arg(&self.account_type).arg(&self.first_name).arg(&self.last_name);
        let sql = sql.arg(&name).arg(name.to_lowercase()).arg(&self.job_title).arg(&self.company_name);
        let sql = sql.arg(&self.phone).arg(&self.mobile).arg(&self.timezone).arg(self.status);
        let sql = sql.arg(optional(self.last_login)).arg(optional(self.activated_at));
        let sql = sql.arg(optional(self.link_sent_at)).arg(optional(self.link_sent_by));
        let sql = sql.arg(optional(self.created_at)).arg(optional(self.created_by));
        conn.exec(&sql.arg(optional(self.modified_at)).arg(optional(self.modified_by)))?;
        Ok(())
    }
}

/// Inserts the same person for the same id every time, with this account type.
pub fn insert_person(conn: &mut Conn, id: i64, account_type: &str) -> Result<(), StoreError> {
    let person = Person { account_type: account_type.to_owned(), status: "active", ..Person::made_up(id) };
    person.insert(conn)
}

/// Sets the data beside the users: the counters, limits above the numbers, roles for the users of type `full`.
fn count(conn: &mut Conn) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM counters WHERE name LIKE 'users_%'"))?;
    conn.exec(&Sql::new("DELETE FROM counter_slots WHERE name LIKE 'users_%'"))?;
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

/// Returns a token of the super admin.
pub async fn token(app: &App, build: &Build) -> Result<String, Failure> {
    token_of(app, build, 1).await
}

/// Returns a token of a user's session, which is valid for a day.
pub async fn token_of(app: &App, build: &Build, user: i64) -> Result<String, Failure> {
    let now = app.clock.now();
    let sql = "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent) \
               VALUES ($3, $1, $1, $2, '127.0.0.1', 'bench') RETURNING id";
    let sql = Sql::new(sql).arg(now).arg(now + DAY).arg(user);
    let session = build.db.write(move |conn| conn.query_one(&sql, |row| row.id(0))).await?;
    Ok(app.slot::<AccessTokens>().issue(&build.uid, UserId::new(user), session, now, 86_400))
}

/// Returns the key of the tokens as hexadecimal digits, for the floor.
fn key() -> String {
    Keys::new(SECRET).tokens().iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
