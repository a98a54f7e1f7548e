//! Figures: creates by a directory beside those by people, and a filter by name among many users.

use crate::TestServer;
use crate::set_up::{USERS, send, with_directory};
use serde_json::json;
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};

/// The number of users of the filter's test.
const MANY: i64 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_by_name_reads_an_index() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let fill = |conn: &mut Conn| -> Result<(), StoreError> {
        for n in 0..MANY {
            let sql = Sql::new(
                "INSERT INTO users(username, username_fold, account_type, first_name, last_name, full_name, full_name_fold, \
                 job_title, company_name, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges, status, \
                 created_at, modified_at) \
                 VALUES ($1, $1, 'internal', 'A', 'B', 'A B', 'a b', '', '', '', '', 'UTC', 0, '[]', 'active', 0, 0)",
            );
            conn.exec(&sql.arg(format!("n{n}@example.com")))?;
        }
        Ok(())
    };
    server.build.db.write::<_, StoreError>(fill).await.unwrap();
    let mut took = Vec::new();
    for n in 0..50 {
        let began = Instant::now();
        let path = format!("{USERS}?filter=userName%20eq%20%22n{}@example.com%22", n * 199);
        assert_eq!(client.get(&path).await.ok()["totalResults"], 1);
        took.push(began.elapsed());
    }
    took.sort();
    println!("a filter by name among {MANY} users: {:?}", took[25]);
    // Debug builds on busy machines take longer than the figure of 2 ms.
    assert!(took[25] < Duration::from_millis(20), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_keep_pace_with_those_by_people() {
    const ROUNDS: usize = 60;
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let (mut by_people, mut by_directory) = (Duration::ZERO, Duration::ZERO);
    for n in 0..ROUNDS {
        let body = json!({
            "username": format!("p{n}@example.com"), "account_type": "internal", "first_name": "A", "last_name": "B",
        });
        let began = Instant::now();
        api.post("/api/users/", body).await.expect_created();
        by_people += began.elapsed();
        let body = json!({
            "userName": format!("d{n}@example.com"), "externalId": format!("{n}"),
            "name": {"givenName": "A", "familyName": "B"},
        });
        let began = Instant::now();
        send(&client, "POST", USERS, body).await.expect_created();
        by_directory += began.elapsed();
    }
    println!("{ROUNDS} creates took {by_people:?} by people and {by_directory:?} by a directory");
    assert!(by_directory < by_people * 3 / 2, "{by_directory:?} and {by_people:?}");
}
