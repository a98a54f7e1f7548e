//! Tests the specifics of PostgreSQL: deadlocks, lost connections, schemas that are removed. They need a server, named
//! by CHANCERY_TEST_DATABASE_URL; without one these tests do nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Fixture, MIGRATIONS, count, insert};
use store::{Argument, Conn, Options, Sql, Store, StoreEngine, StoreError};

async fn fixture() -> Option<Fixture> {
    Fixture::postgres(Options { postgres_connections: 4, ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again() {
    let Some(mut fixture) = fixture().await else { return };
    let database = fixture.database().await;
    let add = |name: &'static str| Sql::new("UPDATE counters SET value = value + 1 WHERE name = $1").arg(name);
    let second = Sql::new("INSERT INTO counters (name, value) VALUES ('teams', 0)");
    database.write(move |conn| conn.exec(&second)).await.map_err(|error: StoreError| error).unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let writers: Vec<_> = [("users", "teams"), ("teams", "users")]
        .map(|(first, second)| {
            let (database, runs) = (database.clone(), runs.clone());
            tokio::spawn(async move {
                let write = database.write(move |conn| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    conn.exec(&add(first))?;
                    // The other writer locks its first row meanwhile.
                    std::thread::sleep(Duration::from_millis(200));
                    conn.exec(&add(second))
                });
                write.await
            })
        })
        .into();
    for writer in writers {
        assert_eq!(writer.await.unwrap(), Ok::<_, StoreError>(1));
    }
    assert!(runs.load(Ordering::Relaxed) > 2);
    let values = |conn: &mut Conn| conn.query_all(&Sql::new("SELECT value FROM counters"), |row| row.int(0));
    assert_eq!(database.read(values).await, Ok::<_, StoreError>(vec![2, 2]));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_on_a_dying_connection_is_not_repeated() {
    let Some(mut fixture) = fixture().await else { return };
    let database = fixture.database().await;
    let runs = Arc::new(AtomicU32::new(0));
    let run_count = runs.clone();
    let kill = || Sql::new("SELECT pg_terminate_backend(pg_backend_pid())");
    let killed = database.write(move |conn| {
        run_count.fetch_add(1, Ordering::Relaxed);
        insert(conn, "Ada")?;
        conn.query_one(&kill(), |row| row.int(0))
    });
    assert!(matches!(killed.await, Err(StoreError::Unavailable(_))));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    // A read is repeated, but only a few times.
    let run_count = runs.clone();
    let killed = database.read(move |conn| {
        if run_count.fetch_add(1, Ordering::Relaxed) < 2 {
            conn.query_one(&kill(), |row| row.int(0))?;
        }
        conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0))
    });
    assert_eq!(killed.await, Ok::<_, StoreError>(0));
    let killed = database.read_short(move |conn| conn.query_one(&kill(), |row| row.int(0)));
    assert!(matches!(killed.await, Err(StoreError::Unavailable(_))));
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    assert_eq!(count(&database).await, 1);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_dropped_elsewhere_is_missing() {
    let Some(mut fixture) = fixture().await else { return };
    let database = fixture.database().await;
    let options = Options { postgres_connections: 1, ..Options::default() };
    let other = Store::open(fixture.engine.clone(), MIGRATIONS, options).await.unwrap();
    let all = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0));
    for _ in 0..2 {
        assert_eq!(count(&database).await, 0);
        assert_eq!(database.read_short(all).await, Ok::<_, StoreError>(0));
        database.write(|conn| insert(conn, "Ada")).await.unwrap();
        other.drop_database(database.name()).await.unwrap();
        assert_eq!(database.write(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
        assert_eq!(database.read(all).await, Err::<i64, _>(StoreError::Missing));
        assert_eq!(database.read_short(all).await, Err::<i64, _>(StoreError::Missing));
        other.create(database.name()).await.unwrap();
    }
    // A missing table is another error.
    let none = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM nothing"), |row| row.int(0));
    assert!(matches!(database.read(none).await, Err::<i64, _>(StoreError::SchemaChanged(_))));
    assert!(matches!(database.write(none).await, Err::<i64, _>(StoreError::SchemaChanged(_))));
    assert_eq!(count(&database).await, 0);
    other.close().await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_do_not_see_each_other() {
    let Some(mut fixture) = fixture().await else { return };
    let mut databases = Vec::new();
    for _ in 0..8 {
        databases.push(fixture.database().await);
    }
    let visits: Vec<_> = (0..200)
        .map(|at| {
            let database = databases[at % 8].clone();
            tokio::spawn(async move {
                database.write(move |conn| insert(conn, &format!("user {at}"))).await.unwrap();
                let schema = |conn: &mut Conn| {
                    conn.query_one(&Sql::new("SELECT current_schema()"), |r| r.text(0).map(str::to_owned))
                };
                assert_eq!(database.read_short::<_, StoreError>(schema).await.unwrap(), database.name());
            })
        })
        .collect();
    for visit in visits {
        visit.await.unwrap();
    }
    for database in &databases {
        assert_eq!(count(database).await, 25);
    }
    assert!(matches!(fixture.store.backup(None, "x".into()).await, Err(StoreError::Db(_))));
    assert!(!fixture.store.is_embedded());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_on_a_connection_that_died_while_idle_is_repeated() {
    let one = || Options { postgres_connections: 1, ..Options::default() };
    let Some(mut fixture) = Fixture::postgres(one()).await else { return };
    let database = fixture.database().await;
    let other = Store::open(fixture.engine.clone(), MIGRATIONS, one()).await.unwrap();
    let process = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT pg_backend_pid()"), |row| row.int(0));
    let process: Result<i64, StoreError> = database.read(process).await;
    let kill = Sql::new("SELECT pg_terminate_backend(CAST($1 AS INTEGER), 5000)").arg(process.unwrap());
    let kill = move |conn: &mut Conn| conn.query_one(&kill, |row| row.int(0));
    other.database(database.name()).read(kill).await.map_err(|error: StoreError| error).unwrap();
    assert!(database.write(|conn| insert(conn, "Ada")).await.is_ok());
    assert_eq!(count(&database).await, 1);
    other.close().await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_reads_on_one_connection_get_their_own_answers() {
    let one = Options { postgres_connections: 1, ..Options::default() };
    let Some(mut fixture) = Fixture::postgres(one).await else { return };
    let databases = [fixture.database().await, fixture.database().await];
    let runs = Arc::new(AtomicU32::new(0));
    let ask = |at: i64| {
        let (database, runs) = (databases[usize::from(at % 5 == 0)].clone(), runs.clone());
        tokio::spawn(async move {
            let number = |conn: &mut Conn, n: i64| {
                conn.query_one(&Sql::new("SELECT CAST($1 AS BIGINT), current_schema()").arg(n), |row| {
                    Ok((row.int(0)?, row.text(1)?.to_owned()))
                })
            };
            let kill = || Sql::new("SELECT pg_terminate_backend(pg_backend_pid())");
            let seen = runs.clone();
            let read = database.read_short(move |conn| {
                seen.fetch_add(1, Ordering::Relaxed);
                match at % 60 {
                    7 => conn.query_one(&Sql::new("SELECT 1 / 0"), |row| row.int(0)).map(|_| (0, String::new())),
                    8 => number(conn, at).and_then(|(first, _)| number(conn, first * 2)),
                    9 => {
                        conn.query_one(&Sql::new("SELECT 1 WHERE 1 = 2"), |row| row.int(0)).map(|_| (0, String::new()))
                    }
                    11 => conn.exec(&kill()).map(|_| (0, String::new())),
                    13 => conn.query_optional(&kill(), |_| Ok((0, String::new()))).map(Option::unwrap_or_default),
                    14 => Ok((at, "asks nothing".to_owned())),
                    _ => number(conn, at),
                }
            });
            let answer: Result<(i64, String), StoreError> = read.await;
            match at % 60 {
                7 => assert!(matches!(answer, Err(StoreError::Db(_))), "{answer:?}"),
                8 => assert_eq!(answer, Ok((at * 2, database.name().to_owned()))),
                9 => assert_eq!(answer, Err(StoreError::NotFound)),
                11 | 13 => assert!(answer.is_err(), "{answer:?}"),
                14 => assert_eq!(answer, Ok((at, "asks nothing".to_owned()))),
                _ => assert_eq!(answer, Ok((at, database.name().to_owned()))),
            }
        })
    };
    for from in (0..600).step_by(30) {
        let asked: Vec<_> = (from..from + 30).map(ask).collect();
        for read in asked {
            read.await.unwrap();
        }
    }
    // The script runs once to record the statement, and once with its rows.
    assert!(runs.load(Ordering::Relaxed) > 900, "{runs:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_connection_serves_one_database_after_another() {
    let Some(mut fixture) = fixture().await else { return };
    let mut databases = Vec::new();
    for _ in 0..3 * std::thread::available_parallelism().unwrap().get() {
        databases.push(fixture.database().await);
    }
    let schema =
        |conn: &mut Conn| conn.query_one(&Sql::new("SELECT current_schema()"), |row| row.text(0).map(str::to_owned));
    for _ in 0..3 {
        for database in &databases {
            // A caller that disconnects leaves the connection usable.
            let slow =
                |conn: &mut Conn| conn.query_one(&Sql::new("SELECT current_schema(), pg_sleep(0.2)"), |_| Ok(()));
            let given_up = tokio::time::timeout(Duration::from_millis(5), database.read_short::<_, StoreError>(slow));
            assert!(given_up.await.is_err());
            for _ in 0..3 {
                assert_eq!(database.read_short::<_, StoreError>(schema).await.unwrap(), database.name());
            }
        }
        // After this time idle connections may serve another database.
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_short_read_does_not_delay_others() {
    let Some(mut fixture) = fixture().await else { return };
    let database = fixture.database().await;
    let quick = || database.read_short::<_, StoreError>(|conn| conn.query_one(&Sql::new("SELECT 1"), |row| row.int(0)));
    // The shared connections are open after these reads.
    for _ in 0..100 {
        assert_eq!(quick().await, Ok(1));
    }
    let sleep = |conn: &mut Conn| conn.query_optional(&Sql::new("SELECT pg_sleep(3)"), |_| Ok(()));
    let [slow, given_up] = [(); 2].map(|()| {
        let database = database.clone();
        tokio::spawn(async move { database.read_short::<_, StoreError>(sleep).await })
    });
    // Both reads run by then.
    tokio::time::sleep(Duration::from_millis(50)).await;
    given_up.abort();
    let begun = Instant::now();
    for _ in 0..40 {
        assert_eq!(quick().await, Ok(1));
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(slow.await.unwrap(), Ok(Some(())));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_read_that_takes_too_long_is_stopped_once() {
    let limited = Options { time_limit: Duration::from_secs(1), ..Options::default() };
    let Some(mut fixture) = Fixture::postgres(limited).await else { return };
    let database = fixture.database().await;
    for _ in 0..100 {
        assert_eq!(
            database.read_short::<_, StoreError>(|conn| conn.query_one(&Sql::new("SELECT 1"), |row| row.int(0))).await,
            Ok(1)
        );
    }
    let begun = Instant::now();
    let sleep = |conn: &mut Conn| conn.query_optional(&Sql::new("SELECT pg_sleep(5)"), |_| Ok(()));
    assert_eq!(database.read_short::<_, StoreError>(sleep).await, Err(StoreError::Slow));
    assert!(begun.elapsed() < Duration::from_millis(1900), "{:?}", begun.elapsed());
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_scripts_do_not_delay_others() {
    let few = 2 * std::thread::available_parallelism().unwrap().get();
    // One database may use at most half of them.
    let more = Options { postgres_connections: 2 * (few + 2), ..Options::default() };
    let Some(mut fixture) = Fixture::postgres(more).await else { return };
    let database = fixture.database().await;
    let slow: Vec<_> = (0..few)
        .map(|_| {
            let database = database.clone();
            let sleep = |conn: &mut Conn| conn.query_optional(&Sql::new("SELECT pg_sleep(3)"), |_| Ok(()));
            tokio::spawn(async move { database.read::<_, StoreError>(sleep).await })
        })
        .collect();
    // The first reads run while the tasks do not count as slow yet, the others later.
    let begun = Instant::now();
    for _ in 0..40 {
        assert_eq!(
            database.read_short::<_, StoreError>(|conn| conn.query_one(&Sql::new("SELECT 1"), |row| row.int(0))).await,
            Ok(1)
        );
        assert_eq!(count(&database).await, 0);
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for slow in slow {
        assert_eq!(slow.await.unwrap(), Ok(Some(())));
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_may_have_other_types_in_another_database() {
    let Some(mut fixture) = fixture().await else { return };
    let (numbers, words) = (fixture.database().await, fixture.database().await);
    for (database, make) in [(&numbers, "CREATE TABLE class_1 (f1 BIGINT)"), (&words, "CREATE TABLE class_1 (f1 TEXT)")]
    {
        database.write(move |conn| conn.exec(&Sql::new(make))).await.map_err(|error: StoreError| error).unwrap();
    }
    for _ in 0..10 {
        for (database, value) in [(&numbers, Argument::Int(7)), (&words, Argument::Text("seven".to_owned()))] {
            let written = database.write(move |conn| {
                conn.exec(&Sql::new("DELETE FROM class_1 WHERE f1 = $1").arg(value.clone()))?;
                conn.exec(&Sql::new("INSERT INTO class_1 (f1) VALUES ($1)").arg(value.clone()))?;
                let find = Sql::new("SELECT f1 FROM class_1 WHERE f1 = $1").arg(value.clone());
                conn.query_one(&find, |row| Ok(Argument::from(row.int(0).is_ok())))
            });
            let is_number = i64::from(database.name() == numbers.name());
            assert_eq!(written.await, Ok::<_, StoreError>(Argument::Int(is_number)));
        }
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_stores_begin_at_once() {
    let Ok(url) = std::env::var("CHANCERY_TEST_DATABASE_URL") else { return };
    let name = format!("test_{}_0", std::process::id());
    let openings: Vec<_> = (0..6)
        .map(|_| {
            let (engine, name) = (StoreEngine::Postgres { url: url.clone() }, name.clone());
            tokio::spawn(async move {
                let options = Options { postgres_connections: 1, ..Options::default() };
                let store = Store::open(engine, MIGRATIONS, options).await.unwrap();
                let created = store.create(&name).await;
                assert_eq!(count(&store.database(&name)).await, 0);
                (store, created)
            })
        })
        .collect();
    let (mut stores, mut created) = (Vec::new(), 0);
    for opening in openings {
        let (store, outcome) = opening.await.unwrap();
        stores.push(store);
        match outcome {
            Ok(()) => created += 1,
            Err(error) => assert_eq!(error, StoreError::Exists),
        }
    }
    assert_eq!(created, 1);
    stores[0].drop_database(&name).await.unwrap();
    for store in stores {
        store.close().await;
    }
}

/// A script that sleeps simulates a server that occupies its connections and does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_does_not_hold_callers() {
    let Some(mut fixture) = fixture().await else { return };
    let name = fixture.database().await.name().to_owned();
    let time_limit = Duration::from_secs(1);
    let options = Options { postgres_connections: 2, time_limit, ..Options::default() };
    let store = Store::open(fixture.engine.clone(), MIGRATIONS, options).await.unwrap();
    let database = store.database(&name);
    let stand_still = || {
        let database = database.clone();
        tokio::spawn(async move {
            let sleep = |conn: &mut Conn| {
                conn.exec(&Sql::new("SELECT 1"))?;
                // Longer than the time limit and the wait for a connection.
                std::thread::sleep(Duration::from_secs(5));
                Ok::<_, StoreError>(())
            };
            database.read_short(sleep).await
        })
    };
    let (one, other) = tokio::join!(stand_still(), stand_still());
    // One of the two has the only connection that a database gets, and the other one never had its turn.
    let mut outcomes = [one.unwrap(), other.unwrap()];
    outcomes.sort_by_key(|outcome| *outcome == Err(StoreError::Busy));
    assert!(matches!(outcomes, [Err(StoreError::Unavailable(_)), Err(StoreError::Busy)]), "{outcomes:?}");
    // All connections wait, but callers do not.
    let began = Instant::now();
    assert!(matches!(database.write(|conn| insert(conn, "Ada")).await, Err(StoreError::Unavailable(_))));
    assert!(began.elapsed() < time_limit, "{:?}", began.elapsed());
    // The scripts that occupy the connections end within this time.
    tokio::time::sleep(Duration::from_secs(5)).await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    assert_eq!(count(&database).await, 1);

    // Closing the store does not wait for them either.
    let waiting = stand_still();
    // The script runs by then.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    store.close().await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    waiting.await.unwrap().unwrap_err();
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_calls_fail_at_once() {
    let started = Instant::now();
    let engine = StoreEngine::Postgres { url: "postgres://nobody@127.0.0.1:1/nothing".to_owned() };
    let opened = Store::open(engine, MIGRATIONS, Options::default()).await;
    assert!(matches!(opened.err(), Some(StoreError::Unavailable(_))));
    let engine = StoreEngine::Postgres { url: "postgres://:::".to_owned() };
    assert!(matches!(Store::open(engine, MIGRATIONS, Options::default()).await.err(), Some(StoreError::Url(_))));
    assert!(started.elapsed() < Duration::from_secs(40));
}

/// A proxy before the server that can be stopped and started.
struct StoppableProxy {
    port: u16,
    open: Arc<AtomicBool>,
    passing: Arc<Mutex<Vec<TcpStream>>>,
}

impl StoppableProxy {
    fn start_before(server: String) -> io::Result<StoppableProxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let (open, passing) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
        let (is_open, all) = (open.clone(), passing.clone());
        std::thread::spawn(move || {
            for inside in listener.incoming() {
                let (Ok(inside), true) = (inside, is_open.load(Ordering::SeqCst)) else { continue };
                let outside = TcpStream::connect(&server).unwrap();
                all.lock().unwrap().extend([inside.try_clone().unwrap(), outside.try_clone().unwrap()]);
                for (mut from, mut to) in [(inside.try_clone(), outside.try_clone()), (Ok(outside), Ok(inside))]
                    .map(|(from, to)| (from.unwrap(), to.unwrap()))
                {
                    std::thread::spawn(move || io::copy(&mut from, &mut to));
                }
            }
        });
        Ok(StoppableProxy { port, open, passing })
    }

    fn set(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
        if !open {
            for stream in self.passing.lock().unwrap().drain(..) {
                // The connection may have been closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_goes_away_and_comes_back() {
    let Some(mut fixture) = fixture().await else { return };
    let StoreEngine::Postgres { url } = fixture.engine.clone() else { return };
    let direct = fixture.database().await;
    let at = url.rfind('@').unwrap() + 1;
    let end = url[at..].find('/').map_or(url.len(), |slash| at + slash);
    let door = StoppableProxy::start_before(url[at..end].to_owned()).unwrap();
    let url = format!("{}127.0.0.1:{}{}", &url[..at], door.port, &url[end..]);
    let options = Options { postgres_connections: 3, ..Options::default() };
    let store = Store::open(StoreEngine::Postgres { url }, MIGRATIONS, options).await.unwrap();
    let database = store.database(direct.name());
    for round in 0..2 {
        let writes: Vec<_> = (0..6)
            .map(|at| {
                let database = database.clone();
                tokio::spawn(async move {
                    let write = database.write(move |conn| {
                        // The writes occupy all three connections at once.
                        std::thread::sleep(Duration::from_millis(20));
                        insert(conn, &format!("user {round} {at}"))
                    });
                    write.await
                })
            })
            .collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        assert_eq!(count(&database).await, 6 * (round + 1));

        // A restart before the next call goes unnoticed.
        door.set(false);
        door.set(true);
        store.ready().await.unwrap();
        let touch = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE counters SET value = value + 1"));
        for _ in 0..6 {
            assert_eq!(database.write(touch).await, Ok::<_, StoreError>(1));
        }
        assert_eq!(count(&database).await, 6 * (round + 1));

        door.set(false);
        for _ in 0..10 {
            let started = Instant::now();
            assert!(matches!(database.write(touch).await, Err::<u64, _>(StoreError::Unavailable(_))));
            assert!(matches!(database.read(touch).await, Err::<u64, _>(StoreError::Unavailable(_))));
            assert!(matches!(database.read_short(touch).await, Err::<u64, _>(StoreError::Unavailable(_))));
            assert!(store.ready().await.is_err());
            assert!(started.elapsed() < Duration::from_secs(40));
        }
        door.set(true);
        // Failed attempts to connect count for a second.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        store.ready().await.unwrap();
    }
    assert_eq!(count(&direct).await, 12);
    store.close().await;
    fixture.end().await;
}

#[tokio::test]
async fn indexes_are_made_concurrently_outside_a_transaction() {
    let Some(mut fixture) = fixture().await else { return };
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let create = |conn: &mut Conn| conn.exec(&Sql::new("CREATE INDEX CONCURRENTLY users_active ON users (active)"));
    assert!(matches!(database.write(create).await, Err(StoreError::Db(_))));
    database.run_outside_transaction(create).await.unwrap();
    let indexes = Sql::new("SELECT COUNT(*) FROM pg_indexes WHERE schemaname = $1 AND indexname = 'users_active'");
    let indexes = indexes.arg(database.name());
    assert_eq!(database.read(move |conn| conn.query_one(&indexes, |row| row.int(0))).await, Ok::<_, StoreError>(1));
    fixture.end().await;
}
