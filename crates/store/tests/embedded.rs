//! Tests the specifics of the embedded engine: files, full disks, other processes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Fixture, MIGRATIONS, count, insert};
use store::{Conn, Database, Options, Sql, Store, StoreEngine, StoreError};

async fn names(database: &Database) -> BTreeSet<String> {
    let all = Sql::new("SELECT name FROM users");
    let all = database.read::<_, StoreError>(move |conn| conn.query_all(&all, |row| row.text(0).map(str::to_owned)));
    all.await.unwrap().into_iter().collect()
}

/// Starts a script that occupies the writer for a moment, so that the next scripts form a group. The script runs when
/// this returns.
async fn occupy(database: &Database) -> tokio::task::JoinHandle<Result<(), StoreError>> {
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let script = move |_: &mut Conn| {
        let _ = begun.send(());
        // Longer than a test needs to queue its scripts.
        std::thread::sleep(Duration::from_millis(150));
        Ok(())
    };
    let database = database.clone();
    let occupied = tokio::spawn(async move { database.write(script).await });
    has_begun.recv().await.unwrap();
    occupied
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_no_acknowledged_write() {
    let mut fixture = Fixture::sqlite(Options { page_limit: Some(40), ..Options::default() }).await;
    let database = fixture.database().await;
    let runs = Arc::new(AtomicU32::new(0));
    let occupied = occupy(&database).await;
    let writers: Vec<_> = (0..60)
        .map(|at| {
            let (database, runs) = (database.clone(), runs.clone());
            tokio::spawn(async move {
                let name = format!("user {at:02}");
                let username = name.clone();
                let outcome = database.write(move |conn| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    // Every third photo exceeds the remaining space; the last ones do not fit at all.
                    let photo = vec![1; if at % 3 == 1 { 400_000 } else { 3_000 }];
                    let sql = Sql::new("INSERT INTO users (name, photo) VALUES ($1, $2)").arg(&username).arg(photo);
                    conn.exec(&sql).map(|_| ())
                });
                match outcome.await {
                    Ok(()) => Some(name),
                    Err(StoreError::Full) => None,
                    Err(other) => panic!("{other:?}"),
                }
            })
        })
        .collect();
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    occupied.await.unwrap().unwrap();
    assert_eq!(names(&database).await, acknowledged);
    assert!((5..40).contains(&acknowledged.len()), "{}", acknowledged.len());
    // Some scripts were rolled back with another one of their group and run again.
    assert!(runs.load(Ordering::Relaxed) > 60);
    // A script that ignores the error of a full disk fails nevertheless.
    let swallowed = database.write(|conn| {
        let sql = Sql::new("INSERT INTO users (name, photo) VALUES ('large', $1)").arg(vec![1; 400_000]);
        assert_eq!(conn.exec(&sql), Err(StoreError::Full));
        assert_eq!(insert(conn, "small"), Err(StoreError::Full));
        Ok(())
    });
    assert_eq!(swallowed.await, Err(StoreError::Full));
    assert_eq!(names(&database).await, acknowledged);
    // The rows survive a restart.
    fixture.store.close().await;
    let store = Store::open(fixture.engine.clone(), MIGRATIONS, Options::default()).await.unwrap();
    let database = store.database(database.name());
    assert_eq!(names(&database).await, acknowledged);
    database.write(|conn| insert(conn, "room again")).await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_ends_the_transaction_is_refused() {
    let mut fixture = Fixture::sqlite(Options::default()).await;
    let database = fixture.database().await;
    let occupied = occupy(&database).await;
    let neighbour = database.clone();
    let neighbour = tokio::spawn(async move { neighbour.write(|conn| insert(conn, "neighbour")).await });
    // The neighbour's script waits by then.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = database.write(|conn| {
        insert(conn, "Ada")?;
        conn.exec(&Sql::new("ROLLBACK"))
    });
    assert!(matches!(refused.await, Err(StoreError::Db(_))));
    neighbour.await.unwrap().unwrap();
    occupied.await.unwrap().unwrap();
    assert_eq!(names(&database).await, BTreeSet::from(["neighbour".to_owned()]));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constraint_checked_at_commit_fails_only_the_script_that_broke_it() {
    const DEFERRED: store::Migrations = store::Migrations {
        control: &[],
        build: &[store::Migration::sql(
            "0001",
            "CREATE TABLE users (id {id}, name TEXT, boss BIGINT REFERENCES users (id) DEFERRABLE INITIALLY DEFERRED);",
        )],
    };
    let directory = tempfile::tempdir().unwrap();
    let engine = StoreEngine::Sqlite { directory: directory.path().to_owned() };
    let store = Store::open(engine, DEFERRED, Options::default()).await.unwrap();
    store.create("build_1").await.unwrap();
    let database = store.database("build_1");
    let occupied = occupy(&database).await;
    let writers: Vec<_> = (0..10)
        .map(|at| {
            let database = database.clone();
            tokio::spawn(async move {
                let sql = Sql::new("INSERT INTO users (name, boss) VALUES ('x', $1)");
                database.write(move |conn| conn.exec(&sql.clone().arg((at == 5).then_some(99)))).await
            })
        })
        .collect();
    for (at, writer) in writers.into_iter().enumerate() {
        assert_eq!(writer.await.unwrap(), if at == 5 { Err(StoreError::Referenced) } else { Ok(1) });
    }
    occupied.await.unwrap().unwrap();
    assert_eq!(count(&database).await, 9);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_created_and_removed() {
    let mut fixture = Fixture::sqlite(Options::default()).await;
    let builds = fixture.directory().join("data/builds");
    let files = || {
        let entries = std::fs::read_dir(&builds).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let name = fixture.name();
    let database = fixture.store.database(&name);
    assert_eq!(database.write(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
    assert_eq!(files(), BTreeSet::new());

    // Leftovers of an interrupted removal are not part of a new database of the same name.
    fixture.store.create(&name).await.unwrap();
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let log = std::fs::read(builds.join(format!("{name}.db-wal"))).unwrap();
    assert!(!log.is_empty());
    fixture.store.drop_database(&name).await.unwrap();
    assert_eq!(files(), BTreeSet::new());
    std::fs::write(builds.join(format!("{name}.db-wal")), log).unwrap();
    fixture.store.create(&name).await.unwrap();
    assert_eq!(count(&database).await, 0);
    fixture.store.drop_database(&name).await.unwrap();
    std::fs::write(builds.join(format!("{name}.db-shm")), "rest").unwrap();
    fixture.store.drop_database(&name).await.unwrap();
    assert_eq!(files(), BTreeSet::new());

    // After closing, each database has one file, and the template is removed.
    let other = fixture.database().await;
    other.write(|conn| insert(conn, "Ada")).await.unwrap();
    assert_eq!(count(&other).await, 1);
    fixture.store.close().await;
    assert_eq!(std::fs::metadata(builds.join(format!("{}.db-wal", other.name()))).map_or(0, |file| file.len()), 0);
    let beside: BTreeSet<_> = std::fs::read_dir(fixture.directory().join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("control.db-"))
        .collect();
    assert_eq!(beside, ["builds", "control.db", "lock", "open"].map(str::to_owned).into());
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let mut fixture = Fixture::sqlite(Options::default()).await;
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let data = fixture.directory().join("data");
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(data.join("builds")).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_databases_than_open_files() {
    let mut fixture = Fixture::sqlite(Options { writers: 1, ..Options::default() }).await;
    let mut databases = Vec::new();
    for _ in 0..80 {
        databases.push(fixture.database().await);
    }
    for turn in 1..=2 {
        for database in &databases {
            database.write(move |conn| insert(conn, &format!("user {turn}"))).await.unwrap();
            let all = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0));
            assert_eq!(database.read_short(all).await, Ok::<_, StoreError>(turn));
            assert_eq!(count(database).await, turn);
        }
    }
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count());
    assert!(open < 500, "{open} open files");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_are_complete() {
    let mut fixture = Fixture::sqlite(Options::default()).await;
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let target = fixture.directory().join("copy's.db");
    fixture.store.backup(Some(database.name()), target.clone()).await.unwrap();
    assert_eq!(fixture.store.backup(Some(database.name()), target.clone()).await, Err(StoreError::Exists));
    assert_eq!(fixture.store.backup(None, fixture.directory().join("control copy.db")).await, Ok(()));
    let nowhere = fixture.directory().join("no/where.db");
    assert!(matches!(
        fixture.store.backup(None, nowhere.clone()).await,
        Err(StoreError::Unavailable(_) | StoreError::Db(_))
    ));
    let unknown = fixture.name();
    assert_eq!(fixture.store.backup(Some(&unknown), nowhere).await, Err(StoreError::Missing));

    // A backup that replaces the file of a build is that build.
    let restored = fixture.name();
    std::fs::rename(&target, fixture.directory().join(format!("data/builds/{restored}.db"))).unwrap();
    let restored = fixture.store.database(&restored);
    assert_eq!(names(&restored).await, BTreeSet::from(["Ada".to_owned()]));
    assert_eq!(restored.write(|conn| insert(conn, "Bob")).await, Ok(2));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_tasks_are_refused() {
    let mut fixture = Fixture::sqlite(Options { writers: 1, readers: 1, ..Options::default() }).await;
    let database = fixture.database().await;
    let occupied = occupy(&database).await;
    let writers: Vec<_> = (0..4_200)
        .map(|_| {
            let database = database.clone();
            tokio::spawn(async move { database.write::<_, StoreError>(|_| Ok(())).await })
        })
        .collect();
    let other = fixture.store.database("other");
    assert_eq!(other.write::<(), StoreError>(|_| Ok(())).await, Err(StoreError::Missing));
    let mut refused = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, StoreError::Busy);
                refused += 1;
            }
        }
    }
    occupied.await.unwrap().unwrap();
    // One database gets half of the places, so another one still finds some.
    assert_eq!(refused, 4_200 - 2_048);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_database_does_not_delay_another() {
    let mut fixture = Fixture::sqlite(Options { writers: 1, ..Options::default() }).await;
    let (busy, quiet) = (fixture.database().await, fixture.database().await);
    let writers: Vec<_> = (0..400)
        .map(|at| {
            let busy = busy.clone();
            tokio::spawn(async move {
                busy.write(move |conn| {
                    // 400 of these writes take 800 ms.
                    std::thread::sleep(Duration::from_millis(2));
                    insert(conn, &format!("user {at}"))
                })
                .await
                .unwrap()
            })
        })
        .collect();
    // The writes are queued by then.
    tokio::time::sleep(Duration::from_millis(20)).await;
    quiet.write(|conn| insert(conn, "Ada")).await.unwrap();
    assert!(count(&busy).await < 300);
    for writer in writers {
        writer.await.unwrap();
    }
    fixture.end().await;
}

/// Two stores simulate two processes, which SQLite distinguishes only by their connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_to_one_file() {
    let mut fixture = Fixture::sqlite(Options::default()).await;
    let database = fixture.database().await;
    let second = Store::open(fixture.engine.clone(), MIGRATIONS, Options::default()).await.unwrap();
    assert_eq!(second.create(database.name()).await, Err(StoreError::Exists));
    let writers: Vec<_> = (0..40)
        .map(|at| {
            let database = if at % 2 == 0 { database.clone() } else { second.database(database.name()) };
            tokio::spawn(async move { database.write(move |conn| insert(conn, &format!("user {at}"))).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(count(&database).await, 40);
    second.close().await;
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_stores_open_a_new_directory_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let engine = StoreEngine::Sqlite { directory: directory.path().join("a/b") };
    let openings: Vec<_> =
        (0..6).map(|_| tokio::spawn(Store::open(engine.clone(), MIGRATIONS, Options::default()))).collect();
    let mut stores = Vec::new();
    for opening in openings {
        stores.push(opening.await.unwrap().unwrap());
    }
    let creations: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = store.clone();
            tokio::spawn(async move { store.create("build_1").await })
        })
        .collect();
    let mut created = 0;
    for creation in creations {
        match creation.await.unwrap() {
            Ok(()) => created += 1,
            Err(error) => assert_eq!(error, StoreError::Exists),
        }
    }
    assert_eq!(created, 1);
    for store in stores {
        store.ready().await.unwrap();
        assert!(store.is_embedded());
        store.close().await;
    }
}

#[tokio::test]
#[should_panic(expected = "not a database name")]
async fn names_are_checked() {
    let fixture = Fixture::sqlite(Options::default()).await;
    fixture.store.database("../control");
}

#[tokio::test]
async fn a_process_that_is_alone_keeps_others_out_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let engine = StoreEngine::Sqlite { directory: directory.path().join("data") };
    let alone = || Options { alone: true, ..Options::default() };
    let open = |options| Store::open(engine.clone(), MIGRATIONS, options);
    let first = open(alone()).await.unwrap();
    for options in [alone(), Options::default()] {
        assert_eq!(open(options).await.map(drop), Err(StoreError::InUse));
    }
    first.ready().await.unwrap();
    first.close().await;
    drop(first);
    open(Options::default()).await.unwrap().ready().await.unwrap();
}
