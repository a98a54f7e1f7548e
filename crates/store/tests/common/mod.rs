//! A store of either engine, with databases that are removed at the end.

#![allow(dead_code, unused_macros, reason = "not every test file needs all of it")]

use std::sync::atomic::{AtomicU64, Ordering};

use store::{Conn, Database, Migration, Migrations, Options, Sql, Store, StoreEngine, StoreError};
use tempfile::TempDir;

pub const MIGRATIONS: Migrations = Migrations {
    control: &[Migration::sql(
        "0001_builds",
        "CREATE TABLE builds (id {id}, name {text} NOT NULL);\nCREATE UNIQUE INDEX builds_name ON builds (name);\n",
    )],
    build: &[
        Migration::sql(
            "0001_users",
            "-- People; and where they belong.
             CREATE TABLE teams (id {id}, name {text} NOT NULL);
             CREATE TABLE users (
                 id {id},
                 name {text} NOT NULL,
                 email {text},
                 team BIGINT REFERENCES teams (id),
                 active BIGINT NOT NULL DEFAULT 1,
                 photo {blob}
             );
             CREATE UNIQUE INDEX users_name ON users (name);
             CREATE UNIQUE INDEX users_team_email ON users (team, email) WHERE active = 1;
             CREATE INDEX users_email ON users (email {nulls_first});
             ",
        ),
        Migration::sql(
            "0002_counters",
            "CREATE TABLE counters (name {text} PRIMARY KEY, value BIGINT NOT NULL);
             INSERT INTO counters (name, value) VALUES ('users', 0);
             CREATE TABLE codes (code {text} UNIQUE, label {text});
             CREATE UNIQUE INDEX codes_label_upper ON codes (upper(label));
             ",
        ),
    ],
};

/// A store for one test, and the databases that it removes at the end.
pub struct Fixture {
    pub store: Store,
    pub engine: StoreEngine,
    directory: Option<TempDir>,
    names: Vec<String>,
}

impl Fixture {
    pub async fn sqlite(options: Options) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let engine = StoreEngine::Sqlite { directory: directory.path().join("data") };
        let store = Store::open(engine.clone(), MIGRATIONS, options).await.unwrap();
        Fixture { store, engine, directory: Some(directory), names: Vec::new() }
    }

    /// Returns `None` without a server.
    pub async fn postgres(options: Options) -> Option<Fixture> {
        let url = std::env::var("CHANCERY_TEST_DATABASE_URL").ok()?;
        let engine = StoreEngine::Postgres { url };
        let store = Store::open(engine.clone(), MIGRATIONS, options).await.unwrap();
        Some(Fixture { store, engine, directory: None, names: Vec::new() })
    }

    /// Returns a database name that is unique among the tests.
    pub fn name(&mut self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        self.names.push(name.clone());
        name
    }

    /// Returns a new database.
    pub async fn database(&mut self) -> Database {
        let name = self.name();
        self.store.create(&name).await.unwrap();
        self.store.database(&name)
    }

    pub fn directory(&self) -> &std::path::Path {
        self.directory.as_ref().unwrap().path()
    }

    pub async fn end(self) {
        for name in &self.names {
            self.store.drop_database(name).await.unwrap();
        }
        self.store.close().await;
    }
}

pub fn insert(conn: &mut Conn, name: &str) -> Result<i64, StoreError> {
    conn.query_one(&Sql::new("INSERT INTO users (name) VALUES ($1) RETURNING id").arg(name), |row| row.int(0))
}

pub async fn count(database: &Database) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0));
    database.read::<i64, StoreError>(count).await.unwrap()
}

/// A statement that never ends.
pub fn endless_statement() -> Sql {
    Sql::new("WITH RECURSIVE n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n")
}

/// Creates a test for each engine from functions with a fixture. Options may follow a name in brackets.
macro_rules! on_both {
    ($($name:ident $(($options:expr))?),* $(,)?) => {
        mod sqlite {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                #[allow(unused_mut, unused_assignments, reason = "not every test has options")]
                let mut options = Options::default();
                $(options = $options;)?
                let mut fixture = Fixture::sqlite(options).await;
                super::$name(&mut fixture).await;
                fixture.end().await;
            })*
        }
        mod postgres {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                #[allow(unused_mut, unused_assignments, reason = "not every test has options")]
                let mut options = Options { postgres_connections: 4, ..Options::default() };
                $(options = Options { postgres_connections: 4, ..$options };)?
                if let Some(mut fixture) = Fixture::postgres(options).await {
                    super::$name(&mut fixture).await;
                    fixture.end().await;
                }
            })*
        }
    };
}
