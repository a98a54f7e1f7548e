//! Tests tables that are created at run time, on both engines.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[macro_use]
mod common;

use std::time::{Duration, Instant};

use common::Fixture;
use store::{
    BorrowedArgument, ColumnKind, Conn, Database, Index, IndexKind, Options, Row, Sql, Store, StoreError, TableColumn,
    TableLock,
};

on_both! {
    a_table_of_records,
    columns_come_and_go,
    an_extension_table,
    indexes,
    an_index_outside_transactions,
    changes_of_tables_are_undone,
    a_lock_holds_up_those_who_change_the_declaration,
    a_change_waits_for_a_long_reader,
    a_change_is_given_up,
    statements_that_do_not_fit_any_more,
}

const COLUMNS: [TableColumn<'static>; 4] = [
    TableColumn { name: "owner", kind: ColumnKind::Int },
    TableColumn { name: "f31", kind: ColumnKind::Text },
    TableColumn { name: "f31_fold", kind: ColumnKind::SortedText },
    TableColumn { name: "f32", kind: ColumnKind::SortedText },
];

/// A database with the table `r12`.
async fn with_table(fixture: &mut Fixture) -> Database {
    let database = fixture.database().await;
    database.alter(|conn| conn.create_table("r12", &COLUMNS)).await.map_err(|error: StoreError| error).unwrap();
    database
}

/// Inserts `(id, f31)` pairs, and returns their `n`.
fn insert_rows(conn: &mut Conn, rows: &[(i64, Option<&str>)]) -> Result<Vec<i64>, StoreError> {
    let rows: Vec<_> = rows
        .iter()
        .map(|(id, text)| [BorrowedArgument::Int(*id), text.map_or(BorrowedArgument::Null, BorrowedArgument::Text)])
        .collect();
    conn.insert_rows("r12", &["id", "f31"], &rows, "RETURNING n")
}

fn texts(conn: &mut Conn, sql: &'static str) -> Result<Vec<Option<String>>, StoreError> {
    conn.query_all(&Sql::new(sql), |row| row.opt_text(0).map(|text| text.map(str::to_owned)))
}

async fn a_table_of_records(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let numbers = database.write(|conn| insert_rows(conn, &[(70, Some("a")), (50, None), (60, Some("b"))])).await;
    assert_eq!(numbers, Ok(vec![1, 2, 3]));
    // A number is never reused.
    database
        .write(|conn| conn.exec(&Sql::new("DELETE FROM r12 WHERE n > 1")))
        .await
        .map_err(|e: StoreError| e)
        .unwrap();
    assert_eq!(database.write(|conn| insert_rows(conn, &[(61, None)])).await, Ok(vec![4]));
    let twice = database.write(|conn| insert_rows(conn, &[(70, None)]));
    assert_eq!(twice.await, Err(StoreError::Unique("r12_pkey".to_owned())));

    database.alter(|conn| conn.drop_table("r12")).await.map_err(|e: StoreError| e).unwrap();
    database.alter(|conn| conn.drop_table("r12")).await.map_err(|e: StoreError| e).unwrap();
    let gone = database.read(|conn| texts(conn, "SELECT f31 FROM r12")).await;
    assert!(matches!(gone, Err(StoreError::SchemaChanged(_))), "{gone:?}");
}

async fn columns_come_and_go(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    database.write(|conn| insert_rows(conn, &[(70, Some("a"))])).await.unwrap();
    let fields =
        [TableColumn { name: "f33", kind: ColumnKind::Text }, TableColumn { name: "f34", kind: ColumnKind::Int }];
    let change = move |conn: &mut Conn| {
        conn.add_columns("r12", &fields)?;
        conn.exec(&Sql::new("UPDATE r12 SET f33 = 'b', f34 = 7"))?;
        for (name, columns, kind) in
            [("r12_f31", ["f31"], IndexKind::Unique), ("r12_f31_fold", ["f31_fold"], IndexKind::Sorted)]
        {
            conn.create_index(&Index { name, table: "r12", columns: &columns, kind })?;
        }
        // The columns have indexes.
        let are_left = conn.drop_columns("r12", &["f31", "f31_fold"])?;
        conn.drop_columns("r12", &[])?;
        let row = |row: &Row<'_>| Ok((row.text(0)?.to_owned(), row.int(1)?));
        Ok((are_left, conn.query_one(&Sql::new("SELECT f33, f34 FROM r12"), row)?))
    };
    let are_left = fixture.store.is_embedded();
    assert_eq!(database.alter(change).await, Ok::<_, StoreError>((are_left, ("b".to_owned(), 7))));
    if !are_left {
        let gone = database.read(|conn| texts(conn, "SELECT f31 FROM r12")).await;
        assert!(matches!(gone, Err(StoreError::SchemaChanged(_))), "{gone:?}");
        return;
    }
    let emptied = database.write(|conn| {
        insert_rows(conn, &[(71, Some("b")), (72, None), (73, Some("c"))])?;
        let mut pages = Vec::new();
        while let Some(last) = conn.empty_columns("r12", &["f31", "f31_fold"], pages.last().copied().unwrap_or(0), 3)? {
            pages.push(last);
        }
        Ok((pages, texts(conn, "SELECT f31 FROM r12")?, texts(conn, "SELECT f33 FROM r12 WHERE f33 IS NOT NULL")?))
    });
    assert_eq!(emptied.await, Ok::<_, StoreError>((vec![3, 4], vec![None; 4], vec![Some("b".to_owned())])));
}

async fn an_extension_table(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let made = database.alter(|conn| {
        let columns = [TableColumn { name: "f131", kind: ColumnKind::SortedText }];
        conn.create_extension_table("r12_1", "r12", &columns)?;
        let kind = IndexKind::SortedExtension;
        conn.create_index(&Index { name: "r12_f131", table: "r12_1", columns: &["f131"], kind })?;
        insert_rows(conn, &[(70, Some("a")), (71, Some("b"))])?;
        let rows = [70, 71].map(|id| [BorrowedArgument::Int(id), BorrowedArgument::Text("x")]);
        conn.insert_rows("r12_1", &["id", "f131"], &rows, "")?;
        conn.exec(&Sql::new("DELETE FROM r12 WHERE id = 70"))?;
        texts(conn, "SELECT f31 FROM r12 JOIN r12_1 USING (id)")
    });
    assert_eq!(made.await, Ok(vec![Some("b".to_owned())]));
    let left = |conn: &mut Conn| conn.query_all(&Sql::new("SELECT id FROM r12_1"), |row| row.int(0));
    assert_eq!(database.read(left).await, Ok::<_, StoreError>(vec![71]));
    let orphan = |conn: &mut Conn| conn.exec(&Sql::new("INSERT INTO r12_1 (id) VALUES (99)"));
    assert_eq!(database.write(orphan).await, Err(StoreError::Referenced));
    let drop = |conn: &mut Conn| conn.drop_table("r12_1").and_then(|()| conn.drop_table("r12"));
    assert_eq!(database.alter(drop).await, Ok::<_, StoreError>(()));
}

const UNIQUE: Index<'_> = Index { name: "r12_f31", table: "r12", columns: &["f31"], kind: IndexKind::Unique };
const SORTED: Index<'_> = Index { name: "r12_f32", table: "r12", columns: &["f32"], kind: IndexKind::Sorted };

async fn indexes(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let make = |conn: &mut Conn| conn.create_index(&UNIQUE).and_then(|()| conn.create_index(&SORTED));
    database.alter(make).await.map_err(|e: StoreError| e).unwrap();
    database.write(|conn| insert_rows(conn, &[(1, Some("a")), (2, None), (3, None)])).await.unwrap();
    let twice = database.write(|conn| insert_rows(conn, &[(4, Some("a"))]));
    assert_eq!(twice.await, Err(StoreError::Unique("r12_f31".to_owned())));
    // The order by a field and `id` comes from its index, which contains `n`, too.
    let is_embedded = fixture.store.is_embedded();
    let plan = database.write(move |conn| {
        if is_embedded {
            let sql = Sql::new("EXPLAIN QUERY PLAN SELECT n FROM r12 ORDER BY f32, id");
            return conn.query_all(&sql, |row| row.text(3).map(str::to_owned));
        }
        conn.exec(&Sql::new("SET LOCAL enable_seqscan = off"))?;
        texts(conn, "EXPLAIN (COSTS OFF) SELECT n FROM r12 ORDER BY f32 NULLS FIRST, id")
            .map(|lines| lines.into_iter().flatten().collect())
    });
    let expected =
        if is_embedded { "SCAN r12 USING COVERING INDEX r12_f32" } else { "Index Only Scan using r12_f32 on r12" };
    assert_eq!(plan.await, Ok::<_, StoreError>(vec![expected.to_owned()]));

    let drop = |conn: &mut Conn| conn.drop_index("r12_f31").and_then(|()| conn.drop_index("r12_f31"));
    database.alter(drop).await.map_err(|e: StoreError| e).unwrap();
    database.write(|conn| insert_rows(conn, &[(4, Some("a"))])).await.unwrap();
    let refused = database.alter(|conn| conn.create_index(&UNIQUE));
    assert_eq!(refused.await, Err(StoreError::Unique("r12_f31".to_owned())));
}

async fn an_index_outside_transactions(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    database.write(|conn| insert_rows(conn, &[(1, Some("a")), (2, Some("a"))])).await.unwrap();
    let make = |conn: &mut Conn| conn.create_index_concurrently(&UNIQUE);
    for _ in 0..2 {
        assert_eq!(database.run_outside_transaction(make).await, Err(StoreError::Unique("r12_f31".to_owned())));
        // No leftover refuses this row.
        database.write(|conn| insert_rows(conn, &[(3, Some("a"))])).await.unwrap();
        database
            .write(|conn| conn.exec(&Sql::new("DELETE FROM r12 WHERE id = 3")))
            .await
            .map_err(|e: StoreError| e)
            .unwrap();
    }
    if !fixture.store.is_embedded() {
        // This is the leftover of an attempt that was killed.
        let leave = |conn: &mut Conn| conn.exec(&Sql::new("CREATE UNIQUE INDEX CONCURRENTLY r12_f31 ON r12 (f31)"));
        assert_eq!(database.run_outside_transaction(leave).await, Err(StoreError::Unique("r12_f31".to_owned())));
    }
    database
        .write(|conn| conn.exec(&Sql::new("DELETE FROM r12 WHERE id = 2")))
        .await
        .map_err(|e: StoreError| e)
        .unwrap();
    for _ in 0..2 {
        assert_eq!(database.run_outside_transaction(make).await, Ok::<_, StoreError>(()));
        assert_eq!(
            database.run_outside_transaction(|conn| conn.create_index_concurrently(&SORTED)).await,
            Ok::<_, StoreError>(())
        );
    }
    let twice = database.write(|conn| insert_rows(conn, &[(4, Some("a"))]));
    assert_eq!(twice.await, Err(StoreError::Unique("r12_f31".to_owned())));
}

async fn changes_of_tables_are_undone(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let undone = database.alter(|conn| {
        conn.add_columns("r12", &[TableColumn { name: "f33", kind: ColumnKind::Int }])?;
        conn.drop_columns("r12", &["f31"])?;
        conn.create_table("r13", &COLUMNS)?;
        Err::<(), _>(StoreError::NotFound)
    });
    assert_eq!(undone.await, Err(StoreError::NotFound));
    assert_eq!(database.read(|conn| texts(conn, "SELECT f31 FROM r12")).await, Ok(vec![]));
    let made = database.read(|conn| texts(conn, "SELECT f31 FROM r13")).await;
    assert!(matches!(made, Err(StoreError::SchemaChanged(_))), "{made:?}");
}

/// Runs a transaction that locks `r12` for a time.
async fn hold_lock(
    database: &Database,
    lock: TableLock,
    time: Duration,
) -> tokio::task::JoinHandle<Result<(), StoreError>> {
    let database = database.clone();
    let (held, holds) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let task = tokio::spawn(async move {
        let hold = database.write(move |conn| {
            conn.lock_table("r12", lock)?;
            // A lock against declarations is acquired with the next statement.
            conn.query_all(&Sql::new("SELECT 1"), |row| row.int(0))?;
            held.lock().unwrap().send(()).unwrap();
            // The caller chooses the duration of the lock.
            std::thread::sleep(time);
            Ok(())
        });
        hold.await
    });
    tokio::task::spawn_blocking(move || holds.recv().unwrap()).await.unwrap();
    task
}

async fn a_lock_holds_up_those_who_change_the_declaration(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let time = Duration::from_millis(300);
    let lock = |lock| database.write(move |conn: &mut Conn| conn.lock_table("r12", lock));
    for (held_lock, requested_lock, waits) in [
        (TableLock::Rows, TableLock::Rows, false),
        (TableLock::Rows, TableLock::Declaration, true),
        (TableLock::Declaration, TableLock::Rows, true),
        (TableLock::Declaration, TableLock::Declaration, true),
    ] {
        let holder = hold_lock(&database, held_lock, time).await;
        let started = Instant::now();
        assert_eq!(lock(requested_lock).await, Ok::<_, StoreError>(()));
        // On SQLite the writers always take turns.
        let waited = started.elapsed() > time / 2;
        assert_eq!(waited, waits || fixture.store.is_embedded(), "{held_lock:?} {requested_lock:?}");
        assert_eq!(holder.await.unwrap(), Ok(()));
    }
}

fn add(conn: &mut Conn) -> Result<(), StoreError> {
    conn.add_columns("r12", &[TableColumn { name: "f33", kind: ColumnKind::Int }])
}

async fn a_change_waits_for_a_long_reader(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let holder = hold_lock(&database, TableLock::Rows, Duration::from_millis(3000)).await;
    let (started, changing) = (Instant::now(), database.clone());
    let change = tokio::spawn(async move { changing.alter(add).await });
    // A writer that comes after the change waits for two seconds at most, although the first transaction continues.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(database.write(|conn| insert_rows(conn, &[(1, None)])).await, Ok(vec![1]));
    let waited = started.elapsed();
    assert_eq!(change.await.unwrap(), Ok(()));
    if !fixture.store.is_embedded() {
        assert!(waited > Duration::from_millis(1800) && waited < Duration::from_millis(2800), "{waited:?}");
        assert!(started.elapsed() < Duration::from_millis(4500), "{:?}", started.elapsed());
    }
    assert_eq!(holder.await.unwrap(), Ok(()));
}

async fn a_change_is_given_up(fixture: &mut Fixture) {
    if fixture.store.is_embedded() {
        return;
    }
    let database = with_table(fixture).await;
    let options = Options { time_limit: Duration::from_secs(20), postgres_connections: 1, ..Options::default() };
    let other = Store::open(fixture.engine.clone(), common::MIGRATIONS, options).await.unwrap();
    let holder = hold_lock(&other.database(database.name()), TableLock::Rows, Duration::from_secs(13)).await;
    let started = Instant::now();
    assert_eq!(database.alter(add).await, Err(StoreError::Busy));
    assert!(started.elapsed() > Duration::from_secs(10) && started.elapsed() < Duration::from_secs(13));
    assert_eq!(holder.await.unwrap(), Ok(()));
    other.close().await;
}

async fn statements_that_do_not_fit_any_more(fixture: &mut Fixture) {
    let database = with_table(fixture).await;
    let select = |conn: &mut Conn| texts(conn, "SELECT f31 FROM r12");
    let star = |conn: &mut Conn| conn.query_all(&Sql::new("SELECT * FROM r12"), |row| row.int(1));
    let insert = |conn: &mut Conn| {
        conn.insert_rows("r12", &["id", "f31"], &[[BorrowedArgument::Int(1), BorrowedArgument::Null]], "")
    };
    let update = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE r12 SET f31 = 'a'"));
    // These reads prepare the statements on several connections.
    for _ in 0..8 {
        assert_eq!(database.read(select).await, Ok(vec![]));
        assert_eq!(database.read_short(select).await, Ok(vec![]));
        assert_eq!(database.read(star).await, Ok::<_, StoreError>(vec![]));
        assert_eq!(database.write(update).await, Ok::<_, StoreError>(0));
    }
    let drop = |conn: &mut Conn| conn.exec(&Sql::new("ALTER TABLE r12 DROP COLUMN f31"));
    database.alter(drop).await.map_err(|e: StoreError| e).unwrap();
    for _ in 0..8 {
        let outcomes = [
            database.read(select).await.map(drop_it),
            database.read_short(select).await.map(drop_it),
            database.write(insert).await.map(drop_it),
            database.write(update).await.map(drop_it),
            database.run_outside_transaction(update).await.map(drop_it),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(StoreError::SchemaChanged(_))), "{outcome:?}");
        }
        // This statement fits when it is prepared again.
        assert_eq!(database.read(star).await, Ok::<_, StoreError>(vec![]));
    }
    // Other mistakes are other errors.
    let wrong = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE r12 SET"));
    assert!(matches!(database.write(wrong).await, Err(StoreError::Db(_))));
}

fn drop_it<T>(_: T) {}
