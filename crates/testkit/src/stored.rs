//! Saves and restores the data of an installation, so that tests open data of an older version. The data is a data
//! directory, or a dump of a PostgreSQL database. `reliability/stored-data` creates these files.

use crate::postgresql;
use crate::process::Installation;
use rusqlite::types::ValueRef;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A row as text; `None` stands for NULL.
pub type TextRow = Vec<Option<String>>;

impl Installation {
    /// Saves all data as `{stem}.tar.gz` (the data directory) or `{stem}.sql.gz` (a dump that PostgreSQL 14 and later
    /// accept). No process may serve the installation meanwhile.
    pub fn save_as(&self, stem: &Path) {
        match self.database_url() {
            None => {
                let archive = with_extension(stem, "tar.gz");
                let tar = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"];
                succeeds(Command::new("tar").args(tar).arg(archive).arg("-C").arg(self.home()).arg("chancery-data"));
            }
            Some(url) => {
                // The dump consists of statements only, so that any client can run it.
                let options = ["--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=100"];
                let mut dump = Command::new(postgresql::programs().join("pg_dump"));
                let text = succeeds(dump.args(options).arg(url));
                // The file must not contain commands of psql, nor settings that some versions do not have.
                let is_kept = |line: &&str| {
                    let is_setting = line.starts_with("SET ") || line.contains("pg_catalog.set_config");
                    !is_setting && !line.starts_with('\\') && !line.starts_with("--") && !line.is_empty()
                };
                let statements: Vec<&str> = text.lines().filter(is_kept).collect();
                let file = with_extension(stem, "sql");
                std::fs::write(&file, statements.join("\n")).expect("the directory can be written");
                succeeds(Command::new("gzip").args(["-9nf"]).arg(file));
            }
        }
    }

    /// Restores the data that [`Installation::save_as`] has saved, into an empty installation.
    pub fn restore(&self, stem: &Path) {
        if self.database_url().is_none() {
            let archive = with_extension(stem, "tar.gz");
            succeeds(Command::new("tar").arg("--no-same-owner").arg("-xzf").arg(archive).arg("-C").arg(self.home()));
        } else {
            let dump = succeeds(Command::new("gzip").arg("-dc").arg(with_extension(stem, "sql.gz")));
            self.postgresql_client(move |client| client.batch_execute(&dump));
        }
    }

    /// Runs an SQL statement on `control` or a build (`build_1`) and returns its rows. The database is not migrated,
    /// and a server may be running.
    pub fn sql(&self, database: &str, statement: &str) -> Vec<TextRow> {
        let statement = statement.to_owned();
        self.query(database, move |query| query(&statement))
    }

    /// Returns all rows of a build by table, sorted, so that they can be compared.
    pub fn tables(&self, build: &str) -> BTreeMap<String, Vec<TextRow>> {
        let names = match self.database_url() {
            Some(_) => format!("SELECT tablename FROM pg_tables WHERE schemaname = '{build}'"),
            None => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'".to_owned(),
        };
        self.query(build, move |query| {
            let names = query(&names).into_iter().filter_map(|row| row.into_iter().next().flatten());
            names
                .map(|name| {
                    let mut rows = query(&format!("SELECT * FROM \"{name}\""));
                    rows.sort();
                    (name, rows)
                })
                .collect()
        })
    }

    /// Calls `script` with a function that runs a statement on a database.
    fn query<T: Send + 'static>(
        &self,
        database: &str,
        script: impl FnOnce(&mut dyn FnMut(&str) -> Vec<TextRow>) -> T + Send + 'static,
    ) -> T {
        if self.database_url().is_some() {
            let schema = if database == "control" { "chancery" } else { database };
            let schema = format!("SET search_path TO \"{schema}\"");
            return self.postgresql_client(move |client| {
                client.batch_execute(&schema)?;
                let mut query = |statement: &str| {
                    let messages = client.simple_query(statement);
                    let messages = messages.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
                    messages.iter().filter_map(text_row).collect()
                };
                Ok(script(&mut query))
            });
        }
        let file = match database {
            "control" => self.data().join("control.db"),
            build => self.data().join("builds").join(format!("{build}.db")),
        };
        let connection =
            rusqlite::Connection::open(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut query = |statement: &str| {
            sqlite(&connection, statement).unwrap_or_else(|error| panic!("{}: {statement}: {error}", file.display()))
        };
        script(&mut query)
    }

    /// Runs `script` with a connection to PostgreSQL, in a thread of its own, since the blocking driver must not run
    /// inside a test's runtime.
    fn postgresql_client<T: Send + 'static>(
        &self,
        script: impl FnOnce(&mut postgres::Client) -> Result<T, postgres::Error> + Send + 'static,
    ) -> T {
        let url = self.database_url().unwrap_or_default().to_owned();
        let run = move || script(&mut postgres::Client::connect(&url, postgres::NoTls)?);
        let outcome = std::thread::spawn(run).join().expect("the driver does not panic");
        outcome.unwrap_or_else(|error| panic!("PostgreSQL: {error:?}"))
    }
}

fn text_row(message: &postgres::SimpleQueryMessage) -> Option<TextRow> {
    let postgres::SimpleQueryMessage::Row(row) = message else { return None };
    Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
}

fn sqlite(database: &rusqlite::Connection, statement: &str) -> rusqlite::Result<Vec<TextRow>> {
    database.busy_timeout(std::time::Duration::from_secs(10))?;
    let mut prepared = database.prepare(statement)?;
    let columns = prepared.column_count();
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Some(format!("{bytes:?}")),
    };
    let mut rows = prepared.query([])?;
    let mut text_rows = Vec::new();
    while let Some(row) = rows.next()? {
        text_rows.push((0..columns).map(|at| Ok(text(row.get_ref(at)?))).collect::<rusqlite::Result<TextRow>>()?);
    }
    Ok(text_rows)
}

fn with_extension(stem: &Path, extension: &str) -> std::path::PathBuf {
    let name = stem.file_name().unwrap_or_default().to_string_lossy();
    stem.with_file_name(format!("{name}.{extension}"))
}

/// Runs a program that must succeed, and returns its standard output.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{:?} does not start: {error}", command.get_program()));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
