//! Calls that wait for another transaction, which only happens on PostgreSQL: SQLite has one writer.

use crate::client::PreparedCall;
use crate::eventually::eventually;
use crate::reply::Reply;
use crate::server::TestBuild;
use std::sync::mpsc;
use std::time::Duration;
use store::{Conn, Sql, StoreError};

/// The wait of the call. It is long enough for a write to check its decision again (`kit/src/commit.rs`).
const LONG: Duration = Duration::from_millis(20);

impl TestBuild {
    /// Sends a call that waits for the locks of a statement, runs `happens`, and undoes the statement. Returns the
    /// answer to the call.
    pub async fn while_it_waits(
        &self,
        statement: &'static str,
        call: PreparedCall,
        happens: impl AsyncFnOnce(),
    ) -> Reply {
        let (sender, mut holder) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = mpsc::channel::<()>();
        let hold = move |conn: &mut Conn| {
            conn.for_each_row(&Sql::new(statement), |_| Ok(()))?;
            let pid = conn.query_one(&Sql::new("SELECT CAST(pg_backend_pid() AS BIGINT)"), |row| row.int(0))?;
            let _ = sender.send(pid);
            // The channel carries no values: this returns when the sender is dropped.
            let _ = released.recv();
            Err::<(), StoreError>(StoreError::NotFound)
        };
        let db = self.build.db.clone();
        let holding = tokio::spawn(async move { db.write(hold).await });
        let holder = holder.recv().await.expect("the statement runs");
        let mut reply = tokio::spawn(call.send());
        eventually(async || {
            assert!(!reply.is_finished(), "it does not wait: {:?}", (&mut reply).await);
            self.waiting_for(holder).await > 0
        })
        .await;
        happens().await;
        // The write has to wait for longer than this, and its waiting time cannot be observed.
        tokio::time::sleep(LONG).await;
        drop(release);
        assert_eq!(holding.await.expect("it ends"), Err(StoreError::NotFound));
        reply.await.expect("it is answered")
    }

    /// Returns the number of transactions that wait for that of a connection.
    async fn waiting_for(&self, pid: i64) -> i64 {
        let count = move |conn: &mut Conn| {
            let sql =
                "SELECT count(*) FROM pg_stat_activity a WHERE $1 = ANY(CAST(pg_blocking_pids(a.pid) AS BIGINT[]))";
            conn.query_one(&Sql::new(sql).arg(pid), |row| row.int(0))
        };
        self.build.db.read::<_, StoreError>(count).await.expect("the database answers")
    }
}
