//! Tests the guarantees of the store on both engines. PostgreSQL requires a server, named by
//! CHANCERY_TEST_DATABASE_URL.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[macro_use]
mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Fixture, count, endless_statement, insert};
use store::{Argument, Conn, Database, Options, Sql, Store, StoreError};
use testkit::{eventually, eventually_within};

on_both! {
    short_reads_have_some_statements_or_more,
    reads_and_writes,
    values_are_read_as_written,
    unreadable_json_is_a_mistake_of_the_program,
    refused_writes_leave_nothing,
    a_panic_harms_no_other_script,
    unique_indexes_are_named,
    foreign_keys_refuse,
    a_failed_statement_fails_its_transaction,
    a_deferred_statement_is_part_of_its_transaction,
    a_constraint_checked_at_the_end_of_a_statement,
    sixty_writers_lose_nothing,
    a_failing_script_leaves_the_others,
    a_counter_is_exact,
    missing_databases,
    create_drop_create,
    dropped_while_in_use,
    two_stores_migrate_at_once,
    a_dropped_reference_refuses_nothing,
    slow_scripts_are_stopped(Options { time_limit: Duration::from_millis(300), ..Options::default() }),
    outside_scripts_have_no_transaction_and_no_time_limit(
        Options { time_limit: Duration::from_millis(300), ..Options::default() }
    ),
    a_dropped_future_still_writes,
    reads_are_snapshots,
    reads_cannot_write,
    a_database_leaves_threads_to_others(Options { readers: 4, ..Options::default() }),
    statements_that_wait_too_long_for_a_thread_are_refused(
        Options { readers: 4, time_limit: Duration::from_secs(1), ..Options::default() }
    ),
    long_statements_are_not_kept,
    tables_made_at_run_time,
    the_control_database,
    a_process_is_not_alone_beside_others,
    state_tags,
    a_closed_store_refuses,
}

async fn short_reads_have_some_statements_or_more(fixture: &mut Fixture) {
    let database = fixture.database().await;
    for count in 1..=5 {
        let steps = move |conn: &mut Conn| {
            (0..count).try_fold(0, |sum, _| {
                let next = Sql::new("SELECT CAST($1 AS BIGINT) + 1").arg(sum);
                conn.query_one(&next, |row| row.int(0))
            })
        };
        assert_eq!(database.read_short(steps).await, Ok::<_, StoreError>(count));
    }
}

async fn a_process_is_not_alone_beside_others(fixture: &mut Fixture) {
    let alone = Options { alone: true, ..Options::default() };
    let refused = Store::open(fixture.engine.clone(), common::MIGRATIONS, alone).await.map(drop);
    assert_eq!(refused, Err(StoreError::InUse));
    // Other processes may still open the databases.
    let options = Options { postgres_connections: 2, ..Options::default() };
    let second = Store::open(fixture.engine.clone(), common::MIGRATIONS, options).await.unwrap();
    second.ready().await.unwrap();
    second.close().await;
}

async fn reads_and_writes(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let id = database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let find = Sql::new("SELECT id, name FROM users WHERE name = $1 AND strpos(name, $2) > 0 FOR UPDATE");
    let names = database
        .write(move |conn| {
            let find = find.clone().arg("Ada").arg("d");
            conn.query_all(&find, |row| Ok((row.int(0)?, row.text(1)?.to_owned())))
        })
        .await
        .map_err(|error: StoreError| error);
    assert_eq!(names, Ok(vec![(id, "Ada".to_owned())]));

    let update = || Sql::new("UPDATE users SET email = $2 WHERE name = $1").arg("Ada").arg("ada@example.com");
    assert_eq!(database.write(move |conn| conn.exec(&update())).await, Ok::<_, StoreError>(1));
    let none = || Sql::new("UPDATE users SET email = NULL WHERE id = $1").arg(-1);
    assert_eq!(database.write(move |conn| conn.exec(&none())).await, Ok::<_, StoreError>(0));

    for _ in 0..2 {
        let email = |conn: &mut Conn| {
            let sql = Sql::new("SELECT email FROM users WHERE name = $1").arg("Ada");
            conn.query_one(&sql, |row| row.text(0).map(str::to_owned))
        };
        assert_eq!(database.read_short::<_, StoreError>(email).await.unwrap(), "ada@example.com");
        assert_eq!(database.read::<_, StoreError>(email).await.unwrap(), "ada@example.com");
    }
    let nobody = || Sql::new("SELECT id FROM users WHERE name = $1").arg("Bob");
    assert_eq!(
        database.read_short(move |conn| conn.query_optional(&nobody(), |row| row.int(0))).await,
        Ok::<_, StoreError>(None)
    );
    assert_eq!(
        database.read_short(move |conn| conn.query_one(&nobody(), |row| row.int(0))).await,
        Err(StoreError::NotFound)
    );

    let mut sum = 0;
    database.write(|conn| insert(conn, "Bob")).await.unwrap();
    let each = database.read(|conn| {
        let mut sum = 0;
        conn.for_each_row(&Sql::new("SELECT id FROM users ORDER BY id"), |row| {
            sum += row.int(0)?;
            Ok(())
        })?;
        Ok::<_, StoreError>(sum)
    });
    sum += each.await.unwrap();
    assert_eq!(sum, id + id + 1);

    let first = database.read(|conn| {
        let mut rows = 0;
        let ended = conn.for_each_row_until(&Sql::new("SELECT id FROM users ORDER BY id"), |row| {
            rows += 1;
            Ok(ControlFlow::Break(row.int(0)?))
        })?;
        Ok::<_, StoreError>((rows, ended))
    });
    assert_eq!(first.await, Ok((1, ControlFlow::Break(id))));
}

async fn unreadable_json_is_a_mistake_of_the_program(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let read = database.write(|conn| {
        let sql = "INSERT INTO users (name, email, active, photo) VALUES ($1, $2, $3, $4) RETURNING name, email, photo";
        let sql = Sql::new(sql).arg("[1,2]").arg("confidential").arg(false).arg(vec![0]);
        conn.query_one(&sql, |row| {
            let Err(StoreError::Internal(why)) = row.json::<Vec<i64>>(1) else { panic!("it was read") };
            assert!(why.contains("both.rs") && !why.contains("confidential"), "{why}");
            row.opt_json::<Vec<i64>>(0)
        })
    });
    assert_eq!(read.await, Ok::<_, StoreError>(Some(vec![1, 2])));
}

async fn values_are_read_as_written(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let values = database.write(|conn| {
        let sql = "INSERT INTO users (name, email, active, photo) VALUES ($1, $2, $3, $4) RETURNING name, email, active, photo";
        let sql = Sql::new(sql).arg("Zoë 'x' $1").arg(None::<&str>).arg(false).arg(vec![0, 255]);
        conn.query_one(&sql, |row| {
            assert!(matches!(row.int(0), Err(StoreError::Db(_))));
            assert!(matches!(row.text(1), Err(StoreError::Db(_))));
            assert!(matches!(row.text(2), Err(StoreError::Db(_))));
            assert!(matches!(row.text(3), Err(StoreError::Db(_))));
            assert!(matches!(row.blob(0), Err(StoreError::Db(_))));
            assert!(matches!(row.int(4), Err(StoreError::Db(_))));
            assert_eq!((row.opt_text(1)?, row.opt_int(1).is_ok()), (None, fixture_is_lenient(row)));
            Ok((row.text(0)?.to_owned(), row.flag(2)?, row.blob(3)?.to_vec(), row.opt_blob(3)?.is_some()))
        })
    });
    assert_eq!(values.await, Ok::<_, StoreError>(("Zoë 'x' $1".to_owned(), false, vec![0, 255], true)));

    // The engines' results of computations with integers are read as integers.
    let numbers = database.read(|conn| {
        let sql = "SELECT COUNT(*), SUM(active), MAX(id), CAST(SUM(id) AS BIGINT), 7, -40000 * SUM(id), SUM(active) * 100000000 \
                   FROM users WHERE id > $1 LIMIT $2";
        conn.query_one(&Sql::new(sql).arg(0).arg(10), |row| {
            (0..7).map(|column| row.int(column)).collect::<Result<Vec<_>, _>>()
        })
    });
    assert_eq!(numbers.await, Ok::<_, StoreError>(vec![1, 0, 1, 1, 7, -40_000, 0]));
    let compared = database.read(|conn| {
        let sql = Sql::new("SELECT COUNT(*) FROM users GROUP BY name HAVING SUM(id) + $1 = $2")
            .arg(-123_456_789)
            .arg(-123_456_788);
        conn.query_optional(&sql, |row| row.int(0))
    });
    assert_eq!(compared.await, Ok::<_, StoreError>(Some(1)));

    let too_few =
        database.read(|conn| conn.query_optional(&Sql::new("SELECT id FROM users WHERE id = $1"), |row| row.int(0)));
    assert!(matches!(too_few.await, Err(StoreError::Db(_))));
    let wrong = database.read(|conn| conn.query_optional(&Sql::new("SELECT nickname FROM users"), |row| row.int(0)));
    assert!(matches!(wrong.await, Err(StoreError::SchemaChanged(_))));
    let arg: Argument = Some("x").into();
    assert_eq!(arg, Argument::Text("x".to_owned()));
}

/// Returns whether the engine ignores the type of a NULL: SQLite does, PostgreSQL does not.
fn fixture_is_lenient(row: &store::Row<'_>) -> bool {
    row.opt_blob(1).is_ok()
}

async fn refused_writes_leave_nothing(fixture: &mut Fixture) {
    #[derive(Debug, PartialEq)]
    struct TestRefusal(u16);
    impl From<StoreError> for TestRefusal {
        fn from(_: StoreError) -> TestRefusal {
            TestRefusal(500)
        }
    }
    let database = fixture.database().await;
    let refused = database.write(|conn| {
        insert(conn, "Ada")?;
        Err::<(), _>(TestRefusal(400))
    });
    assert_eq!(refused.await, Err(TestRefusal(400)));
    assert_eq!(count(&database).await, 0);
}

async fn a_panic_harms_no_other_script(fixture: &mut Fixture) {
    let database = fixture.database().await;
    for _ in 0..5 {
        let panics = database.write::<i64, StoreError>(|conn| {
            insert(conn, "Ada")?;
            panic!("as the test wants it")
        });
        assert!(matches!(panics.await, Err(StoreError::Db(text)) if text.contains("as the test wants it")));
        let panics = database.read::<i64, StoreError>(|_| panic!("as the test wants it"));
        assert!(matches!(panics.await, Err(StoreError::Db(_))));
        let panics = database.read_short::<i64, StoreError>(|conn| {
            conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |_| panic!("as the test wants it"))
        });
        assert!(matches!(panics.await, Err(StoreError::Db(_))));
    }
    assert_eq!(count(&database).await, 0);
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    assert_eq!(count(&database).await, 1);
}

async fn unique_indexes_are_named(fixture: &mut Fixture) {
    let database = fixture.database().await;
    database
        .write(|conn| {
            conn.exec(&Sql::new("INSERT INTO teams (id, name) VALUES (1, 'a')"))?;
            conn.exec(&Sql::new("INSERT INTO users (id, name, email, team) VALUES (7, 'Ada', 'a@b', 1)"))?;
            conn.exec(&Sql::new("INSERT INTO codes (code, label) VALUES ('x', 'y')"))
        })
        .await
        .map_err(|error: StoreError| error)
        .unwrap();
    for (sql, index) in [
        ("INSERT INTO users (name) VALUES ('Ada')", "users_name"),
        ("INSERT INTO users (name, email, team) VALUES ('Bob', 'a@b', 1)", "users_team_email"),
        ("INSERT INTO users (id, name) VALUES (7, 'Bob')", "users_pkey"),
        ("INSERT INTO counters (name, value) VALUES ('users', 1)", "counters_pkey"),
        ("INSERT INTO codes (code) VALUES ('x')", "codes_code_key"),
        ("INSERT INTO codes (code, label) VALUES ('X', 'Y')", "codes_label_upper"),
    ] {
        let refused = database.write(move |conn| conn.exec(&Sql::new(sql)));
        assert_eq!(refused.await, Err(StoreError::Unique(index.to_owned())));
    }
    let kept = "INSERT INTO users (name, email, team, active) VALUES ('Bob', 'a@b', 1, 0) ON CONFLICT DO NOTHING";
    assert_eq!(database.write(move |conn| conn.exec(&Sql::new(kept))).await, Ok::<_, StoreError>(1));
    assert_eq!(database.write(move |conn| conn.exec(&Sql::new(kept))).await, Ok::<_, StoreError>(0));
}

async fn foreign_keys_refuse(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let refused = database.write(|conn| conn.exec(&Sql::new("INSERT INTO users (name, team) VALUES ('Ada', 9)")));
    assert_eq!(refused.await, Err(StoreError::Referenced));
    assert_eq!(count(&database).await, 0);
}

async fn a_failed_statement_fails_its_transaction(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let swallowed = database.write(|conn| {
        insert(conn, "Ada")?;
        assert_eq!(insert(conn, "Ada"), Err(StoreError::Unique("users_name".to_owned())));
        assert_eq!(insert(conn, "Bob"), Err(StoreError::Unique("users_name".to_owned())));
        Ok::<_, StoreError>(())
    });
    assert_eq!(swallowed.await, Err(StoreError::Unique("users_name".to_owned())));
    assert_eq!(count(&database).await, 0);
    // An error that does not come from the engine does not fail the transaction.
    let fine = database.write(|conn| {
        assert!(matches!(
            conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.text(0).map(drop)),
            Err(StoreError::Db(_))
        ));
        assert_eq!(conn.query_one(&Sql::new("SELECT id FROM users"), |row| row.int(0)), Err(StoreError::NotFound));
        insert(conn, "Ada")
    });
    assert!(fine.await.is_ok());
    assert_eq!(count(&database).await, 1);
}

async fn a_deferred_statement_is_part_of_its_transaction(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let add = |name: &str| Sql::new("INSERT INTO users (name) VALUES ($1)").arg(name);
    // More statements than are sent together, in their order, with and without a statement behind them.
    let many = database.write(move |conn| {
        (0..150).try_for_each(|n| conn.exec_later(&add(&format!("u{n}"))))?;
        conn.exec_later(&Sql::new("DELETE FROM users WHERE name <> 'u149'"))
    });
    assert_eq!(many.await, Ok::<_, StoreError>(()));
    assert_eq!(count(&database).await, 1);
    // A large statement keeps its place.
    let large = database.write(move |conn| {
        conn.exec_later(&add("small"))?;
        conn.exec_later(&add(&"x".repeat(20_000)))?;
        conn.exec_later(&Sql::new("DELETE FROM users WHERE name <> 'u149'"))
    });
    assert_eq!(large.await, Ok::<_, StoreError>(()));
    assert_eq!(count(&database).await, 1);
    let read_behind = database.write(move |conn| {
        conn.exec_later(&add("Ada"))?;
        conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0))
    });
    assert_eq!(read_behind.await, Ok::<_, StoreError>(2));
    // An error reaches the script or the commit, and nothing of the transaction remains.
    let unique = StoreError::Unique("users_name".to_owned());
    let at_commit = database.write(move |conn| {
        conn.exec_later(&add("Bob"))?;
        conn.exec_later(&add("Ada"))
    });
    assert_eq!(at_commit.await, Err(unique.clone()));
    let swallowed = database.write(move |conn| {
        conn.exec_later(&add("Bob"))?;
        drop(conn.exec_later(&add("Ada")));
        let read = conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0));
        assert_eq!(read, Err(StoreError::Unique("users_name".to_owned())));
        Ok::<_, StoreError>(())
    });
    assert_eq!(swallowed.await, Err(unique));
    let refused = database.write(move |conn| conn.exec_later(&add("Bob")).and(Err::<(), _>(StoreError::NotFound)));
    assert_eq!(refused.await, Err(StoreError::NotFound));
    assert_eq!(count(&database).await, 2);
}

async fn a_constraint_checked_at_the_end_of_a_statement(fixture: &mut Fixture) {
    let database = fixture.database().await;
    // The row is returned before the constraint refuses.
    for broken_row in [false, true] {
        let refused = database.write(move |conn| {
            let sql = Sql::new("INSERT INTO users (name, team) VALUES ('Ada', 9) RETURNING id");
            conn.query_one(&sql, |row| if broken_row { row.text(0).map(|_| 0) } else { row.int(0) })
        });
        assert_eq!(refused.await, Err(StoreError::Referenced));
    }
    assert_eq!(count(&database).await, 0);
}

async fn sixty_writers_lose_nothing(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let other = fixture.database().await;
    let writers: Vec<_> = (0..60)
        .map(|at| {
            let database = if at % 10 == 0 { other.clone() } else { database.clone() };
            tokio::spawn(async move {
                for turn in 0..5 {
                    let name = format!("user {at} {turn}");
                    let id = database.write(move |conn| insert(conn, &name)).await.unwrap();
                    // A committed row is visible to all readers.
                    let sql = Sql::new("SELECT name FROM users WHERE id = $1").arg(id);
                    let name = database
                        .read_short(move |conn| conn.query_one(&sql, |row| row.text(0).map(str::to_owned)))
                        .await;
                    assert_eq!(name, Ok::<_, StoreError>(format!("user {at} {turn}")));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!((count(&database).await, count(&other).await), (270, 30));
}

async fn a_failing_script_leaves_the_others(fixture: &mut Fixture) {
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "taken")).await.unwrap();
    // The slow script makes the others form a group behind it.
    let first = database.clone();
    let first = tokio::spawn(async move {
        first
            .write(|conn| {
                // Longer than the others need to queue.
                std::thread::sleep(Duration::from_millis(100));
                insert(conn, "first")
            })
            .await
    });
    // The first script runs by then.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let writers: Vec<_> = (0..40)
        .map(|at| {
            let database = database.clone();
            tokio::spawn(async move {
                let outcome = database.write(move |conn| {
                    let id = insert(conn, &format!("user {at}"))?;
                    match at % 4 {
                        1 => Err(StoreError::NotFound),
                        2 => insert(conn, "taken"),
                        3 => panic!("as the test wants it"),
                        _ => Ok(id),
                    }
                });
                let outcome = outcome.await;
                match at % 4 {
                    0 => assert!(outcome.is_ok(), "{outcome:?}"),
                    1 => assert_eq!(outcome, Err(StoreError::NotFound)),
                    2 => assert_eq!(outcome, Err(StoreError::Unique("users_name".to_owned()))),
                    _ => assert!(matches!(outcome, Err(StoreError::Db(_)))),
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    first.await.unwrap().unwrap();
    assert_eq!(count(&database).await, 12);
}

async fn a_counter_is_exact(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let writers: Vec<_> = (0..30)
        .map(|at| {
            let database = database.clone();
            tokio::spawn(async move {
                let outcome = database.write(move |conn| {
                    let used = Sql::new("SELECT value FROM counters WHERE name = 'users' FOR UPDATE");
                    let used = conn.query_one(&used, |row| row.int(0))?;
                    if used >= 10 {
                        return Err(StoreError::NotFound);
                    }
                    conn.exec(&Sql::new("UPDATE counters SET value = $1 WHERE name = 'users'").arg(used + 1))?;
                    insert(conn, &format!("user {at}"))
                });
                outcome.await.is_ok()
            })
        })
        .collect();
    let mut succeeded = 0;
    for writer in writers {
        succeeded += i64::from(writer.await.unwrap());
    }
    assert_eq!((succeeded, count(&database).await), (10, 10));
}

async fn missing_databases(fixture: &mut Fixture) {
    let name = fixture.name();
    let database = fixture.store.database(&name);
    for _ in 0..2 {
        assert_eq!(database.read(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
        assert_eq!(database.read_short(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
        assert_eq!(database.write(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
    }
    fixture.store.create(&name).await.unwrap();
    assert!(database.write(|conn| insert(conn, "Ada")).await.is_ok());
}

async fn create_drop_create(fixture: &mut Fixture) {
    let name = fixture.name();
    let store = fixture.store.clone();
    let database = store.database(&name);
    for _ in 0..3 {
        store.drop_database(&name).await.unwrap();
        store.drop_database(&name).await.unwrap();
        assert_eq!(database.read_short(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
        assert_eq!(database.write(|conn| insert(conn, "Ada")).await, Err(StoreError::Missing));
        store.create(&name).await.unwrap();
        assert_eq!(store.create(&name).await, Err(StoreError::Exists));
        assert_eq!(count(&database).await, 0);
        assert_eq!(database.write(|conn| insert(conn, "Ada")).await, Ok(1));
        let all = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0));
        for _ in 0..8 {
            assert_eq!(database.read_short(all).await, Ok::<_, StoreError>(1));
            assert_eq!(database.read(all).await, Ok::<_, StoreError>(1));
        }
    }
}

async fn dropped_while_in_use(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let workers: Vec<_> = (0..12)
        .map(|at| {
            let database = database.clone();
            tokio::spawn(async move {
                for turn in 0.. {
                    let name = format!("user {at} {turn}");
                    let outcome = match at % 3 {
                        0 => database.write(move |conn| insert(conn, &name)).await,
                        1 => {
                            database
                                .read_short(|conn| {
                                    conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |r| r.int(0))
                                })
                                .await
                        }
                        _ => {
                            database
                                .read(|conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |r| r.int(0)))
                                .await
                        }
                    };
                    match outcome {
                        Ok(_) => {}
                        Err(StoreError::Missing) => return,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        })
        .collect();
    // The workers are in the middle of their calls.
    tokio::time::sleep(Duration::from_millis(100)).await;
    fixture.store.drop_database(database.name()).await.unwrap();
    for worker in workers {
        tokio::time::timeout(Duration::from_secs(10), worker).await.unwrap().unwrap();
    }
    fixture.store.create(database.name()).await.unwrap();
    assert_eq!(count(&database).await, 0);
}

async fn two_stores_migrate_at_once(fixture: &mut Fixture) {
    const LATER: store::Migrations = store::Migrations {
        control: common::MIGRATIONS.control,
        build: &[
            common::MIGRATIONS.build[0],
            common::MIGRATIONS.build[1],
            store::Migration::sql("0003_more", "CREATE TABLE more (id {id}, note {text});\n").with_step(|conn| {
                // This function runs in the same transaction as the SQL.
                let users = conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0))?;
                conn.exec(&Sql::new("INSERT INTO more (note) VALUES ($1)").arg(format!("once, over {users} users")))?;
                Ok(())
            }),
        ],
    };
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(
            Store::open(fixture.engine.clone(), LATER, Options { postgres_connections: 2, ..Options::default() })
                .await
                .unwrap(),
        );
    }
    let openings: Vec<_> = stores
        .iter()
        .flat_map(|store| (0..4).map(|_| store.database(database.name())))
        .map(|database| {
            tokio::spawn(async move {
                let notes = |conn: &mut Conn| {
                    conn.query_all(&Sql::new("SELECT note FROM more"), |row| Ok(row.text(0)?.to_owned()))
                };
                assert_eq!(database.read(notes).await, Ok::<_, StoreError>(vec!["once, over 1 users".to_owned()]));
            })
        })
        .collect();
    for opening in openings {
        opening.await.unwrap();
    }
    for store in stores {
        store.close().await;
    }
    // An older program with the database open continues; one that opens it now refuses.
    assert_eq!(count(&database).await, 1);
    let options = Options { postgres_connections: 2, ..Options::default() };
    let older = Store::open(fixture.engine.clone(), common::MIGRATIONS, options).await.unwrap();
    let refused = older.database(database.name()).read(|conn| insert(conn, "Bob")).await;
    assert!(matches!(refused, Err(StoreError::Db(text)) if text.contains("version 3")));
    older.close().await;
}

async fn a_dropped_reference_refuses_nothing(fixture: &mut Fixture) {
    const NOTES: store::Migration = store::Migration::sql(
        "0003_notes",
        "CREATE TABLE notes (id {id}, author BIGINT REFERENCES users(id), reader BIGINT REFERENCES users(id));",
    );
    const DROPPED: [store::DroppedReference; 1] =
        [store::DroppedReference { table: "notes", column: "author", referenced: "users" }];
    const BEFORE: store::Migrations = store::Migrations {
        control: common::MIGRATIONS.control,
        build: &[common::MIGRATIONS.build[0], common::MIGRATIONS.build[1], NOTES],
    };
    const AFTER: store::Migrations = store::Migrations {
        control: common::MIGRATIONS.control,
        build: &[
            common::MIGRATIONS.build[0],
            common::MIGRATIONS.build[1],
            NOTES,
            store::Migration::sql("0004_no_authors", "").without_references(&DROPPED),
        ],
    };
    let note = |database: Database, author: i64, reader: i64| async move {
        let sql = Sql::new("INSERT INTO notes (author, reader) VALUES ($1, $2)").arg(author).arg(reader);
        database.write(move |conn| conn.exec(&sql)).await
    };
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let options = || Options { postgres_connections: 2, ..Options::default() };
    let before = Store::open(fixture.engine.clone(), BEFORE, options()).await.unwrap();
    let open_before = before.database(database.name());
    note(open_before.clone(), 1, 1).await.unwrap();
    assert!(matches!(note(open_before.clone(), 7, 1).await, Err(StoreError::Referenced)));

    let after = Store::open(fixture.engine.clone(), AFTER, options()).await.unwrap();
    // The process of the former version has the database open.
    for database in [after.database(database.name()), open_before] {
        note(database.clone(), 7, 1).await.unwrap();
        assert!(matches!(note(database, 7, 7).await, Err(StoreError::Referenced)));
    }
    let migrated = after.database(database.name());
    let rows = migrated.read(|conn| {
        conn.query_all(&Sql::new("SELECT author, reader FROM notes ORDER BY id"), |row| Ok((row.int(0)?, row.int(1)?)))
    });
    assert_eq!(rows.await.unwrap(), [(1, 1), (7, 1), (7, 1)]);
    before.close().await;
    after.close().await;
}

async fn slow_scripts_are_stopped(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let started = Instant::now();
    // Other scripts in the same group succeed.
    let innocent: Vec<_> = (0..5)
        .map(|at| {
            let database = database.clone();
            tokio::spawn(async move { database.write(move |conn| insert(conn, &format!("user {at}"))).await })
        })
        .collect();
    let slow = database.write(|conn| {
        insert(conn, "slow")?;
        conn.query_one(&endless_statement(), |row| row.int(0))
    });
    assert_eq!(slow.await, Err(StoreError::Slow));
    for innocent in innocent {
        innocent.await.unwrap().unwrap();
    }
    let update = database.write(|conn| {
        let sql = "INSERT INTO users (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT CAST(i AS TEXT) FROM n WHERE i > 1";
        conn.exec(&Sql::new(sql))
    });
    assert_eq!(update.await, Err(StoreError::Slow));
    assert_eq!(
        database.read(|conn| conn.query_one(&endless_statement(), |row| row.int(0))).await,
        Err(StoreError::Slow)
    );
    assert_eq!(
        database.read_short(|conn| conn.query_one(&endless_statement(), |row| row.int(0))).await,
        Err(StoreError::Slow)
    );
    // Many short statements are stopped, too.
    let many = database.write(|conn| {
        loop {
            conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0))?;
        }
        #[allow(unreachable_code, reason = "gives the script its type")]
        Ok::<i64, StoreError>(0)
    });
    assert_eq!(many.await, Err(StoreError::Slow));
    assert!(started.elapsed() < Duration::from_secs(40));
    assert_eq!(count(&database).await, 5);
}

async fn outside_scripts_have_no_transaction_and_no_time_limit(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let tag = database.state_tag().await.unwrap().unwrap();
    let outside = database.run_outside_transaction(|conn| {
        insert(conn, "Ada")?;
        // Longer than the time limit of other scripts.
        std::thread::sleep(Duration::from_millis(600));
        insert(conn, "Bob")?;
        insert(conn, "Bob").map(drop)
    });
    assert_eq!(outside.await, Err(StoreError::Unique("users_name".to_owned())));
    assert_eq!(count(&database).await, 2, "each statement is committed by itself");
    assert_ne!(database.state_tag().await.unwrap().unwrap(), tag);
    // Far more rows than are counted within the time limit.
    let slow = Sql::new(
        "WITH RECURSIVE n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < 5000000) SELECT MAX(i) FROM n",
    );
    let began = Instant::now();
    let counted = database.run_outside_transaction(move |conn| conn.query_one(&slow, |row| row.int(0))).await;
    assert_eq!(counted, Ok::<_, StoreError>(5_000_000));
    assert!(began.elapsed() > Duration::from_millis(300), "{:?}", began.elapsed());
    // A script that leaves a transaction open has no effect on others. The next scripts have their time limit again.
    let open = database.run_outside_transaction(|conn| {
        conn.exec(&Sql::new("BEGIN"))?;
        insert(conn, "Carol").map(drop)
    });
    open.await.unwrap_or_else(|error: StoreError| panic!("{error}"));
    for _ in 0..4 {
        assert_eq!(
            database.write(|conn| conn.query_one(&endless_statement(), |row| row.int(0))).await,
            Err(StoreError::Slow)
        );
    }
    assert_eq!(count(&database).await, 2);
}

async fn a_dropped_future_still_writes(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let runs = Arc::new(AtomicU32::new(0));
    for at in 0..10 {
        let runs = runs.clone();
        let write = database.write(move |conn| {
            // Longer than the caller waits.
            std::thread::sleep(Duration::from_millis(20));
            runs.fetch_add(1, Ordering::Relaxed);
            insert(conn, &format!("user {at}"))
        });
        assert!(tokio::time::timeout(Duration::from_millis(1), write).await.is_err());
    }
    eventually_within(Duration::from_secs(5), async || count(&database).await >= 10).await;
    assert_eq!((count(&database).await, runs.load(Ordering::Relaxed)), (10, 10));
}

async fn reads_are_snapshots(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let reader = database.clone();
    let reading = tokio::spawn(async move {
        let all = || Sql::new("SELECT COUNT(*) FROM users");
        reader
            .read(move |conn| {
                let before = conn.query_one(&all(), |row| row.int(0))?;
                // Long enough for the write below.
                std::thread::sleep(Duration::from_millis(300));
                Ok::<_, StoreError>((before, conn.query_one(&all(), |row| row.int(0))?))
            })
            .await
    });
    // The reader has read for the first time by then.
    tokio::time::sleep(Duration::from_millis(100)).await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let (before, after) = reading.await.unwrap().unwrap();
    assert_eq!(before, after);
    assert_eq!(count(&database).await, 1);
}

async fn reads_cannot_write(fixture: &mut Fixture) {
    let database = fixture.database().await;
    assert!(matches!(database.read(|conn| insert(conn, "Ada")).await, Err(StoreError::Db(_))));
    assert_eq!(count(&database).await, 0);
}

async fn tables_made_at_run_time(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let table = |text: &'static str, rest: &'static str| {
        let mut sql = Sql::new(text);
        sql.name("class_1").push(rest);
        sql
    };
    let make = table("CREATE TABLE ", " (id BIGINT NOT NULL, f1 TEXT)");
    assert_eq!(database.write(move |conn| conn.exec(&make)).await, Ok::<_, StoreError>(0));
    let all = table("SELECT f1 FROM ", " ORDER BY id");
    let select = move |conn: &mut Conn| conn.query_all(&all, |row| row.opt_text(0).map(|text| text.map(str::to_owned)));
    let insert = table("INSERT INTO ", " (id, f1) VALUES (1, 'one')");
    assert_eq!(database.write(move |conn| conn.exec(&insert)).await, Ok::<_, StoreError>(1));
    // The statement runs on every connection, before and after the table changes.
    for _ in 0..8 {
        assert_eq!(database.read_short(select.clone()).await, Ok::<_, StoreError>(vec![Some("one".to_owned())]));
        assert_eq!(database.read(select.clone()).await, Ok::<_, StoreError>(vec![Some("one".to_owned())]));
    }
    let add = table("ALTER TABLE ", " ADD COLUMN f2 TEXT");
    database.write(move |conn| conn.exec(&add)).await.map_err(|error: StoreError| error).unwrap();
    let star = table("SELECT * FROM ", " ORDER BY id");
    let columns = move |conn: &mut Conn| conn.query_one(&star, |row| row.opt_text(2).map(|text| text.is_none()));
    let remake = table("ALTER TABLE ", " ADD COLUMN f3 BIGINT");
    let star_again = columns.clone();
    for _ in 0..8 {
        assert_eq!(database.read(columns.clone()).await, Ok::<_, StoreError>(true));
    }
    database.write(move |conn| conn.exec(&remake)).await.map_err(|error: StoreError| error).unwrap();
    for _ in 0..8 {
        assert_eq!(database.read_short(star_again.clone()).await, Ok::<_, StoreError>(true));
        assert_eq!(database.read(star_again.clone()).await, Ok::<_, StoreError>(true));
        assert_eq!(database.write(star_again.clone()).await, Ok::<_, StoreError>(true));
    }
}

/// Reads that run until a gate is opened, and the number of ended ones.
struct GatedReads {
    gate: Arc<AtomicBool>,
    ended: Arc<AtomicU32>,
    reads: Vec<tokio::task::JoinHandle<Result<(), StoreError>>>,
}

impl GatedReads {
    async fn begin(database: &Database, count: usize) -> GatedReads {
        let (gate, begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)), Arc::default());
        let reads = (0..count).map(|_| {
            let (database, gate, begun, ended) =
                (database.clone(), gate.clone(), begun.clone(), Arc::<AtomicU32>::clone(&ended));
            tokio::spawn(async move {
                let read = move |_: &mut Conn| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while !gate.load(Ordering::SeqCst) {
                        // A script blocks its thread until the test opens the gate.
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                };
                let outcome = database.read::<(), StoreError>(read).await;
                ended.fetch_add(1, Ordering::SeqCst);
                outcome
            })
        });
        let held = GatedReads { gate: gate.clone(), ended: ended.clone(), reads: reads.collect() };
        eventually(async || begun.load(Ordering::SeqCst) > 0).await;
        // All reads that get a thread have begun by then.
        tokio::time::sleep(Duration::from_millis(50)).await;
        held
    }
}

async fn a_database_leaves_threads_to_others(fixture: &mut Fixture) {
    let (greedy, second, honest) = (fixture.database().await, fixture.database().await, fixture.database().await);
    let all_of = [GatedReads::begin(&greedy, 60).await, GatedReads::begin(&second, 20).await];
    for _ in 0..20 {
        assert_eq!(count(&honest).await, 0);
    }
    assert!(all_of.iter().all(|held| held.ended.load(Ordering::SeqCst) == 0), "the honest one waited for none of them");
    for held in all_of {
        held.gate.store(true, Ordering::SeqCst);
        for read in held.reads {
            assert_eq!(read.await.unwrap(), Ok(()));
        }
    }
}

async fn statements_that_wait_too_long_for_a_thread_are_refused(fixture: &mut Fixture) {
    let (greedy, honest) = (fixture.database().await, fixture.database().await);
    // They occupy all threads that one database gets.
    let blocked_reads = GatedReads::begin(&greedy, 2).await;
    let ran = Arc::new(AtomicBool::new(false));
    let has_run = ran.clone();
    let waits = greedy.read(move |_: &mut Conn| {
        has_run.store(true, Ordering::SeqCst);
        Ok::<_, StoreError>(())
    });
    assert_eq!(tokio::time::timeout(Duration::from_millis(1400), waits).await, Ok(Err(StoreError::Busy)));
    assert_eq!(blocked_reads.ended.load(Ordering::SeqCst), 0);
    assert_eq!(count(&honest).await, 0);
    blocked_reads.gate.store(true, Ordering::SeqCst);
    for read in blocked_reads.reads {
        assert_eq!(read.await.unwrap(), Ok(()));
    }
    assert_eq!(count(&greedy).await, 0);
    assert!(!ran.load(Ordering::SeqCst), "what was given up does not run later");
}

async fn long_statements_are_not_kept(fixture: &mut Fixture) {
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    // The same long statement runs twice with a short one in between: none depends on the cache.
    for count in [5000, 3, 5000, 4999] {
        let result = database.read(move |conn| {
            let mut sql = Sql::new("SELECT name FROM users WHERE id IN (");
            for id in 1..=count {
                sql.push(if id > 1 { ", " } else { "" }).bind(id);
            }
            sql.push(")");
            conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))
        });
        assert_eq!(result.await, Ok::<_, StoreError>("Ada".to_owned()));
    }
}

async fn the_control_database(fixture: &mut Fixture) {
    let name = fixture.name();
    fixture.store.ready().await.unwrap();
    let control = fixture.store.control();
    let insert = Sql::new("INSERT INTO builds (name) VALUES ($1)").arg(&name);
    let delete = Sql::new("DELETE FROM builds WHERE name = $1").arg(&name);
    let again = insert.clone();
    assert_eq!(control.write(move |conn| conn.exec(&insert)).await, Ok::<_, StoreError>(1));
    assert_eq!(control.write(move |conn| conn.exec(&again)).await, Err(StoreError::Unique("builds_name".to_owned())));
    assert_eq!(control.write(move |conn| conn.exec(&delete)).await, Ok::<_, StoreError>(1));
}

async fn state_tags(fixture: &mut Fixture) {
    let database = fixture.database().await;
    database.write(|conn| insert(conn, "Ada")).await.unwrap();
    let tag = database.state_tag().await.unwrap().unwrap();
    // Neither reads nor rolled-back writes change the tag.
    assert_eq!(count(&database).await, 1);
    let undone = |conn: &mut Conn| insert(conn, "Bob").and(Err::<(), _>(StoreError::NotFound));
    database.write(undone).await.unwrap_err();
    if fixture.store.is_embedded() {
        assert_eq!(database.state_tag().await.unwrap().unwrap(), tag);
    }
    // Every commit of any process changes it.
    let options = Options { postgres_connections: 2, ..Options::default() };
    let other = Store::open(fixture.engine.clone(), common::MIGRATIONS, options).await.unwrap();
    let there = other.database(database.name());
    let mut former_tags = vec![tag];
    for n in 0..10 {
        let writer = if n % 2 == 0 { &database } else { &there };
        writer.write(move |conn| insert(conn, &format!("Carol {n}"))).await.unwrap();
        let tag = database.state_tag().await.unwrap().unwrap();
        assert!(!former_tags.contains(&tag), "{n}: {tag:?} of {former_tags:?}");
        assert!(tag.is_of_same_source(&former_tags[0]));
        assert_eq!(database.state_tag().await.unwrap().unwrap(), tag);
        former_tags.push(tag);
    }
    // Writes outside visible data change the tag in neither process.
    let note = |n: i64| {
        move |conn: &mut Conn| conn.exec(&Sql::new("INSERT INTO builds (name) VALUES ($1)").arg(format!("unshown {n}")))
    };
    let mut changes = 0;
    for n in 0..20 {
        let before = database.state_tag().await.unwrap().unwrap();
        let writer = if n % 3 == 0 { other.control() } else { fixture.store.control() };
        writer.write_unshown(note(n)).await.unwrap();
        changes += i32::from(database.state_tag().await.unwrap().unwrap() != before);
    }
    // The server may have run background work.
    assert!(changes <= 2, "{changes} of 20");
    // Concurrent visible writes change it.
    let before = database.state_tag().await.unwrap().unwrap();
    let unshown = tokio::spawn({
        let control = fixture.store.control();
        async move {
            for n in 20..40 {
                control.write_unshown(note(n)).await.unwrap();
            }
        }
    });
    let mut tags = vec![before];
    for n in 0..20 {
        there.write(move |conn| insert(conn, &format!("Dave {n}"))).await.unwrap();
        let tag = database.state_tag().await.unwrap().unwrap();
        assert!(!tags.contains(&tag), "{n}: {tag:?} of {tags:?}");
        tags.push(tag);
    }
    unshown.await.unwrap();
    other.close().await;
}

async fn a_closed_store_refuses(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let all = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT COUNT(*) FROM users"), |row| row.int(0));
    let options = Options { postgres_connections: 2, ..Options::default() };
    let store = Store::open(fixture.engine.clone(), common::MIGRATIONS, options).await.unwrap();
    let same = store.database(database.name());
    let writers: Vec<_> = (0..20)
        .map(|at| {
            let same = same.clone();
            tokio::spawn(async move { same.write(move |conn| insert(conn, &format!("user {at}"))).await.is_ok() })
        })
        .collect();
    // Some writes have begun by then and others wait.
    tokio::time::sleep(Duration::from_millis(5)).await;
    store.close().await;
    store.close().await;
    let mut acknowledged = 0;
    for writer in writers {
        acknowledged += i64::from(writer.await.unwrap());
    }
    assert_eq!(count(&database).await, acknowledged);
    for _ in 0..2 {
        assert!(matches!(same.read_short(all).await, Err::<i64, _>(StoreError::Unavailable(_))));
        assert!(matches!(same.read(all).await, Err::<i64, _>(StoreError::Unavailable(_))));
        assert!(matches!(same.write(all).await, Err::<i64, _>(StoreError::Unavailable(_))));
    }
}
