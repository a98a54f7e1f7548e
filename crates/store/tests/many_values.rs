//! Tests statements with many values, on both engines: lists of integers, bits, and many rows at once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[macro_use]
mod common;

use common::{Fixture, insert};
use store::{BorrowedArgument, Conn, Options, Sql, StoreError};

on_both! {
    one_of_many_integers,
    a_bit_of_a_blob,
    rows_are_inserted_in_their_order,
    rows_that_are_there_already_are_changed,
    a_refused_row_leaves_none,
    one_statement_for_many_rows,
}

/// Finds `users` by a list of ids of any length.
async fn one_of_many_integers(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let ids = database
        .write(|conn| ["Ada", "Bob", "Carol"].iter().map(|name| insert(conn, name)).collect::<Result<Vec<_>, _>>())
        .await
        .unwrap();
    let find = |ids: Vec<i64>| {
        move |conn: &mut Conn| {
            let mut sql = Sql::new("SELECT name FROM users WHERE active = $1 AND id").arg(true);
            sql.push_any(ids.clone()).push(" ORDER BY id LIMIT ").bind(2);
            conn.query_all(&sql, |row| row.text(0).map(str::to_owned))
        }
    };
    for (ids, names) in [
        (vec![], vec![]),
        (vec![ids[2]], vec!["Carol"]),
        (vec![ids[2], ids[0], ids[2], -1, i64::MIN, i64::MAX], vec!["Ada", "Carol"]),
        (ids.iter().copied().chain(1000..20_000).collect(), vec!["Ada", "Bob"]),
    ] {
        assert_eq!(
            database.read(find(ids.clone())).await,
            Ok::<_, StoreError>(names.iter().map(ToString::to_string).collect())
        );
        assert_eq!(database.read_short(find(ids)).await.unwrap(), names);
    }
}

async fn a_bit_of_a_blob(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let numbers = [0, 1, 2, 7, 8, 15, 16, 1_000_000_000_000];
    database
        .write(move |conn| {
            let rows: Vec<_> =
                numbers.iter().map(|number| [BorrowedArgument::Int(*number), BorrowedArgument::Text("x")]).collect();
            conn.exec(&Sql::new("CREATE TABLE r (n BIGINT NOT NULL, f1 TEXT)"))?;
            conn.insert_rows("r", &["n", "f1"], &rows, "")
        })
        .await
        .map_err(|error: StoreError| error)
        .unwrap();
    let set = |conn: &mut Conn| {
        let sql = Sql::new("SELECT n FROM r WHERE CASE WHEN n < $1 THEN get_bit($2, n) END = 1 ORDER BY n");
        conn.query_all(&sql.arg(16).arg(vec![0b0000_0101, 0b1000_0000]), |row| row.int(0))
    };
    assert_eq!(database.read(set).await, Ok::<_, StoreError>(vec![0, 2, 15]));
    assert_eq!(database.read_short(set).await, Ok::<_, StoreError>(vec![0, 2, 15]));
    assert_eq!(database.write(set).await, Ok::<_, StoreError>(vec![0, 2, 15]));
    let null = |conn: &mut Conn| {
        conn.query_one(&Sql::new("SELECT get_bit($1, n) FROM r LIMIT 1").arg(None::<Vec<u8>>), |row| row.opt_int(0))
    };
    assert_eq!(database.read(null).await, Ok::<_, StoreError>(None));
}

const COLUMNS: [&str; 5] = ["name", "email", "team", "active", "photo"];

fn row(name: &str) -> [BorrowedArgument<'_>; 5] {
    [
        BorrowedArgument::Text(name),
        BorrowedArgument::Null,
        BorrowedArgument::Null,
        BorrowedArgument::Int(1),
        BorrowedArgument::Blob(&[0, 255]),
    ]
}

async fn rows_are_inserted_in_their_order(fixture: &mut Fixture) {
    let database = fixture.database().await;
    for count in [0, 1, 2, 12_000] {
        let inserted = database.write(move |conn| {
            let names: Vec<_> = (0..count).map(|at| format!("{count}, {}", (at * 7919) % 12_000)).collect();
            let rows: Vec<_> = names.iter().map(|name| row(name)).collect();
            let ids = conn.insert_rows("users", &COLUMNS, &rows, "RETURNING id")?;
            let mut sql = Sql::new("SELECT name FROM users WHERE id");
            sql.push_any(ids.clone()).push(" ORDER BY id");
            assert!(ids.is_sorted());
            assert_eq!(conn.query_all(&sql, |row| row.text(0).map(str::to_owned))?, names);
            Ok::<_, StoreError>(ids.len())
        });
        assert_eq!(inserted.await, Ok(count));
    }
    // These rows have no column to return. One column is all null, others are mixed.
    let inserted_rows = database.write(|conn| {
        let mut rows = [row("Ada"), row("Bob")];
        rows[1][1] = BorrowedArgument::Text("bob@example.com");
        rows[1][4] = BorrowedArgument::Null;
        assert_eq!(conn.insert_rows("users", &COLUMNS, &rows, "")?, [0_i64; 0]);
        conn.query_all(
            &Sql::new("SELECT email, team, photo FROM users WHERE name IN ('Ada', 'Bob') ORDER BY name"),
            |row| {
                let email = row.opt_text(0)?.map(str::to_owned);
                Ok((email, row.opt_int(1)?, row.opt_blob(2)?.map(<[u8]>::to_vec)))
            },
        )
    });
    let inserted_rows = inserted_rows.await.map_err(|error: StoreError| error).unwrap();
    assert_eq!(inserted_rows, [(None, None, Some(vec![0, 255])), (Some("bob@example.com".to_owned()), None, None)]);
}

async fn rows_that_are_there_already_are_changed(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let sums = database.write(|conn| {
        conn.exec(&Sql::new("CREATE TABLE sums (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)"))?;
        let add = "ON CONFLICT (id) DO UPDATE SET n = sums.n + excluded.n";
        for rows in [vec![[1, 10]], vec![[1, 5], [2, 7], [3, 9]], vec![[2, 1]], vec![[3, 1], [1, 1]]] {
            let rows: Vec<_> = rows.into_iter().map(|row| row.map(BorrowedArgument::Int)).collect();
            assert_eq!(conn.insert_rows("sums", &["id", "n"], &rows, add)?, [0_i64; 0]);
        }
        conn.query_all(&Sql::new("SELECT n FROM sums ORDER BY id"), |row| row.int(0))
    });
    assert_eq!(sums.await, Ok::<_, StoreError>(vec![16, 8, 10]));
}

async fn a_refused_row_leaves_none(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let twice =
        |conn: &mut Conn| conn.insert_rows("users", &COLUMNS, &[row("Ada"), row("Bob"), row("Ada")], "RETURNING id");
    assert_eq!(database.write(twice).await, Err(StoreError::Unique("users_name".to_owned())));
    let too_few =
        |conn: &mut Conn| conn.insert_rows("users", &["name", "email"], &[[BorrowedArgument::Text("Ada")]], "");
    assert_eq!(database.write(too_few).await, Err(StoreError::Db("users: a row has not 2 values".to_owned())));
    assert_eq!(common::count(&database).await, 0);
}

async fn one_statement_for_many_rows(fixture: &mut Fixture) {
    let database = fixture.database().await;
    let changed = database.write(|conn| {
        insert(conn, "Ada")?;
        let mut sql = Sql::new("UPDATE ");
        sql.name("users").push(" SET ").name("email").push(" = $2 WHERE name = $1");
        let rows = [
            vec![BorrowedArgument::Text("Ada"), BorrowedArgument::Text("a@b")],
            vec![BorrowedArgument::Text("Bob"), BorrowedArgument::Null],
        ];
        let mut changed = Vec::new();
        conn.exec_each(sql, rows.iter(), |count| changed.push(count))?;
        Ok::<_, StoreError>((changed, conn.statements()))
    });
    assert_eq!(changed.await, Ok((vec![1, 0], 3)));
}
