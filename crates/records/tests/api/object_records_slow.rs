//! Lists, exports and batches of records that take too long, and a build that exceeds its share
//! (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, record, sql, with_class};
use serde_json::json;
use std::time::Duration;
use testkit::{message, send_concurrently};

/// Starts a server whose database cancels running statements and waiting requests after this time.
async fn limited(time_limit: Duration) -> TestServer {
    TestServer::start_with(|settings| settings.store.time_limit = time_limit).await
}

/// Makes reads of the records of class 1 endless.
async fn make_endless(server: &TestServer) {
    const VIEW: &str = "CREATE VIEW r1 AS SELECT * FROM r1_stored WHERE 0 < \
        (WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n)";
    sql(server, &["ALTER TABLE r1 RENAME TO r1_stored", VIEW]).await;
}

#[tokio::test]
async fn slow_queries_are_stopped_with_advice() {
    let server = limited(Duration::from_secs(3)).await;
    let api = with_class(&server).await;
    let number = json!({"label": "Number", "type": "integer", "is_unique": true});
    api.post("/api/object-classes/1/fields/", number).await.expect_created();
    api.post(RECORDS, json!({"fields": {"number": 7}})).await.expect_created();
    let link = api.post(&format!("{RECORDS}export/link/"), json!({})).await;
    let link = link.expect_created()["url"].as_str().unwrap().replace("http://a.example", "");
    make_endless(&server).await;
    let advice = || message::detail("The query takes too long. Use an indexed field.");
    // There are only a few requests. A request that waits for a thread until the time limit is refused as busy.
    let lists = [RECORDS.to_owned(), format!("{RECORDS}?number=7"), format!("{RECORDS}autocomplete/")];
    for reply in send_concurrently(lists.map(|path| api.call("GET", &path))).await {
        reply.expect_reply(503, advice());
    }
    let exports = [api.call("GET", &format!("{RECORDS}export/")), server.anonymous().call("GET", &link)];
    for reply in send_concurrently(exports).await {
        reply.expect_reply(503, advice());
    }
    api.post(BATCH, json!({"items": [{"fields": {"number": 7}}]})).await.expect_reply(503, advice());
    api.patch(BATCH, json!({"items": [{"id": 1, "fields": {"number": 1}}]})).await.expect_reply(503, advice());
    api.delete_all(BATCH, json!({"ids": [1]})).await.expect_reply(503, advice());
    // A single record has no field that could be indexed.
    api.get("/api/object-records/1/").await.expect_reply(503, message::detail("The query takes too long."));
}

#[tokio::test]
async fn a_build_whose_lists_are_slow_leaves_threads_to_another() {
    let server = limited(Duration::from_secs(4)).await;
    let api = with_class(&server).await;
    record(&api).await;
    let other = server.build("b.example").await.admin().await;
    other.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    record(&other).await;
    other.get(RECORDS).await.ok();
    make_endless(&server).await;

    let slow = tokio::spawn(send_concurrently((0..20).map(|_| api.call("GET", RECORDS)).collect::<Vec<_>>()));
    // The start of all slow reads cannot be observed, so this pause lets them begin.
    tokio::time::sleep(Duration::from_millis(200)).await;
    // A request that queued behind the slow ones would wait until they are cancelled.
    for _ in 0..20 {
        other.get(RECORDS).await.ok();
    }
    assert!(!slow.is_finished());

    // Requests with a thread are cancelled, and the others give up.
    let mut counts = [0, 0];
    for reply in slow.await.unwrap() {
        let texts = ["The query takes too long. Use an indexed field.", "The server is busy. Please try again."];
        let at = texts.iter().position(|text| reply["detail"] == **text).unwrap_or_else(|| panic!("{reply:?}"));
        assert_eq!(reply.status, 503);
        counts[at] += 1;
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
