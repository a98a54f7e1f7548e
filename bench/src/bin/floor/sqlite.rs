//! SQLite: reads on a connection of the calling thread, writes on a thread of their own. All writes in its queue share one
//! transaction, and so one sync of the disk.

use crate::json::{Columns, LIST, Page, SEARCH, VIEW, user};
use crate::{Change, NewUser, now};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

const GROUP: usize = 64;

/// The texts in SQLite's dialect.
struct Texts {
    list: String,
    search: String,
    view: String,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    let text = |canonical: &str| canonical.replace('$', "?").replace("strpos(", "instr(");
    Texts { list: text(LIST), search: text(SEARCH), view: text(VIEW) }
});

const PATCH: &str =
    "UPDATE users SET job_title = ?2, modified_at = ?3, modified_by = ?4 WHERE id = ?1 AND is_deleted = 0";
const CREATE: &str = "INSERT INTO users(username, username_fold, account_type, first_name, last_name, full_name,
        full_name_fold, job_title, company_name, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges,
        status, created_at, created_by, modified_at, modified_by)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, '[]', 'pending', ?13, ?14, ?13, ?14)";
const COUNT: &str = "UPDATE counters SET n = n + 1 WHERE name = 'users_' || ?1";

/// The database.
pub struct Sqlite {
    file: String,
    writer: Sender<Job>,
}

/// A write: the statement that creates or changes a user, the caller, and the receiver of the user.
struct Job {
    what: What,
    caller: i64,
    reply: oneshot::Sender<Option<Vec<u8>>>,
}

enum What {
    Patch(i64, Change),
    Create(NewUser),
}

impl Columns for Row<'_> {
    fn int(&self, at: usize) -> Option<i64> {
        self.get_ref(at).ok()?.as_i64_or_null().expect("a number")
    }
    fn text(&self, at: usize) -> Option<&str> {
        self.get_ref(at).ok()?.as_str_or_null().expect("a text")
    }
}

impl Sqlite {
    /// Opens a build's file.
    pub fn open(file: String) -> Sqlite {
        let connection = connect(&file);
        let (writer, jobs) = channel();
        std::thread::spawn(move || write(&connection, &jobs));
        Sqlite { file, writer }
    }

    fn read<T>(&self, script: impl FnOnce(&Connection) -> T) -> T {
        thread_local!(static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) });
        CONNECTION.with_borrow_mut(|connection| script(connection.get_or_insert_with(|| connect(&self.file))))
    }

    /// Returns the newest users. With a part, returns those whose name contains it.
    pub fn list(&self, limit: i64, part: Option<&str>) -> Page {
        self.read(|connection| {
            let mut page = Page::default();
            let text = if part.is_some() { &TEXTS.search } else { &TEXTS.list };
            let mut statement = connection.prepare_cached(text).expect("the statement is right");
            let mut rows = match part {
                Some(part) => statement.query(params![now(), limit, part.to_lowercase()]),
                None => statement.query(params![now(), limit]),
            }
            .expect("the arguments are right");
            while let Some(row) = rows.next().expect("the file can be read") {
                page.add(row);
            }
            page
        })
    }

    /// Returns one user.
    pub fn view(&self, id: i64) -> Option<Vec<u8>> {
        self.read(|connection| view(connection, id))
    }

    /// Changes a user.
    pub async fn patch(&self, caller: i64, id: i64, change: Change) -> Option<Vec<u8>> {
        self.write(caller, What::Patch(id, change)).await
    }

    /// Creates a user.
    pub async fn create(&self, caller: i64, user: NewUser) -> Option<Vec<u8>> {
        self.write(caller, What::Create(user)).await
    }

    async fn write(&self, caller: i64, what: What) -> Option<Vec<u8>> {
        let (reply, done) = oneshot::channel();
        self.writer.send(Job { what, caller, reply }).ok()?;
        done.await.ok()?
    }
}

fn connect(file: &str) -> Connection {
    let connection = Connection::open(file).expect("FLOOR_DATABASE can be opened");
    let settings = "PRAGMA synchronous = FULL; PRAGMA mmap_size = 268435456; PRAGMA cache_size = -65536;
                    PRAGMA wal_autocheckpoint = 4000; PRAGMA busy_timeout = 5000;";
    connection.execute_batch(settings).expect("the settings are right");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).expect("the setting is right");
    connection
}

fn view(connection: &Connection, id: i64) -> Option<Vec<u8>> {
    let mut statement = connection.prepare_cached(&TEXTS.view).expect("the statement is right");
    statement.query_row([now(), id], |row| Ok(user(row))).optional().expect("the file can be read")
}

fn write(connection: &Connection, jobs: &Receiver<Job>) {
    let control = |text| connection.prepare_cached(text).and_then(|mut text| text.execute([])).expect("the disk works");
    while let Ok(first) = jobs.recv() {
        control("BEGIN IMMEDIATE");
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            done.push((run(connection, &job.what, job.caller), job.reply));
            next = if done.len() < GROUP { jobs.try_recv().ok() } else { None };
        }
        control("COMMIT");
        for (user, reply) in done {
            drop(reply.send(user));
        }
    }
}

fn run(connection: &Connection, what: &What, caller: i64) -> Option<Vec<u8>> {
    let execute = |text, arguments: &[&dyn rusqlite::ToSql]| connection.prepare_cached(text)?.execute(arguments);
    match what {
        What::Patch(id, change) => {
            execute(PATCH, params![id, change.job_title, now(), caller]).ok()?;
            view(connection, *id)
        }
        What::Create(new) => {
            let name = format!("{} {}", new.first_name, new.last_name);
            let arguments = params![
                new.username,
                new.username.to_lowercase(),
                new.account_type,
                new.first_name,
                new.last_name,
                name,
                name.to_lowercase(),
                new.job_title,
                new.company_name,
                new.phone,
                new.mobile,
                new.timezone,
                now(),
                caller
            ];
            execute(CREATE, arguments).ok()?;
            let id = connection.last_insert_rowid();
            execute(COUNT, params![new.account_type]).ok()?;
            view(connection, id)
        }
    }
}
