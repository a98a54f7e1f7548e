//! Synchronous scripts on the store's threads beside asynchronous ones on the runtime, with the same statements on PostgreSQL:
//! `scripts postgres://…` (docs/decisions/0001). They alternate, for several rounds, 16 at a time.

use std::time::{Duration, Instant};
use store::{Conn, Migration, Migrations, Options, Sql, Store, StoreEngine, StoreError};
use tokio_postgres::NoTls;

const AT_A_TIME: usize = 16;
const EACH: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
const GET: &str = "SELECT id, name FROM things WHERE id = $1";
const SET: &str = "UPDATE things SET n = n + 1 WHERE id = $1";

const THINGS: Migration =
    Migration::sql("0001", "CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT NOT NULL, n BIGINT NOT NULL)");

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: scripts postgres://…")?;
    let migrations = Migrations { control: &[], build: &[THINGS] };
    let store = Store::open(StoreEngine::Postgres { url: url.clone() }, migrations, Options::default()).await?;
    store.drop_database("scripts").await?;
    store.create("scripts").await?;
    let fill = Sql::new("INSERT INTO things SELECT i, 'thing ' || i, 0 FROM generate_series(1, 10000) i");
    store.database("scripts").write(move |conn| conn.exec(&fill)).await?;

    println!("| round | script | synchronous/s | asynchronous/s |\n|---|---|---|---|");
    for round in 1..=ROUNDS {
        let reads = (synchronous(&store, false).await, asynchronous(&url, false).await?);
        let writes = (synchronous(&store, true).await, asynchronous(&url, true).await?);
        println!("| {round} | read one | {:.0} | {:.0} |", reads.0, reads.1);
        println!("| {round} | read and write in a transaction | {:.0} | {:.0} |", writes.0, writes.1);
    }
    store.drop_database("scripts").await?;
    Ok(())
}

/// Returns ids that are distributed over the table, a sequence for each task.
fn ids(task: usize) -> impl Iterator<Item = i64> {
    (0..).map(move |n: i64| 1 + (n * 7919 + task as i64 * 613) % 10_000)
}

fn get(conn: &mut Conn, id: i64) -> Result<String, StoreError> {
    conn.query_one(&Sql::new(GET).arg(id), |row| Ok(row.text(1)?.to_owned()))
}

async fn synchronous(store: &Store, writes: bool) -> f64 {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..AT_A_TIME {
        let database = store.database("scripts");
        tasks.spawn(async move {
            let (end, mut done) = (Instant::now() + EACH, 0_u32);
            for id in ids(task) {
                let answer = if writes {
                    let script = move |conn: &mut Conn| {
                        get(conn, id)?;
                        conn.exec(&Sql::new(SET).arg(id)).map(drop)
                    };
                    database.write(script).await
                } else {
                    database.read_short(move |conn| get(conn, id)).await.map(drop)
                };
                done += u32::from(answer.is_ok());
                if Instant::now() > end {
                    break;
                }
            }
            f64::from(done) / EACH.as_secs_f64()
        });
    }
    tasks.join_all().await.into_iter().sum()
}

async fn asynchronous(url: &str, writes: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..AT_A_TIME {
        let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("SET search_path TO scripts").await?;
        let (select, update) = (client.prepare(GET).await?, client.prepare(SET).await?);
        tasks.spawn(async move {
            let (end, mut done) = (Instant::now() + EACH, 0_u32);
            for id in ids(task) {
                let answer = if writes {
                    async {
                        let transaction = client.transaction().await?;
                        transaction.query_one(&select, &[&id]).await?;
                        transaction.execute(&update, &[&id]).await?;
                        transaction.commit().await
                    }
                    .await
                } else {
                    client.query_one(&select, &[&id]).await.map(drop)
                };
                done += u32::from(answer.is_ok());
                if Instant::now() > end {
                    break;
                }
            }
            f64::from(done) / EACH.as_secs_f64()
        });
    }
    Ok(tasks.join_all().await.into_iter().sum())
}
