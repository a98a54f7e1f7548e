//! Tests concurrent writes of records: restores against limits and unique values, and deletions against new children
//! (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, class};
use serde_json::json;
use testkit::{rounds, send_concurrently};

#[tokio::test]
async fn a_record_is_restored_once_and_within_the_limit() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order", json!([{"label": "Number", "type": "integer", "is_unique": true}])).await;
    server.set_limit("object_records_per_object_class", 5).await;
    for round in 0..rounds(3) {
        // Three are deleted and restored, each by two callers, while three others are created. The limit is five.
        let mut ids = Vec::new();
        for n in 0..3 {
            ids.push(api.post(RECORDS, json!({"fields": {"number": n}})).await.id());
        }
        let batch = "/api/object-classes/1/object-records/batch/";
        api.delete_all(batch, json!({"ids": ids})).await.expect_empty();
        let restores = ids.iter().chain(&ids).map(|id| format!("/api/object-records/{id}/restore/"));
        let creates = (0..3).map(|n| api.call("POST", RECORDS).json(&json!({"fields": {"number": n}})));
        let calls = restores.map(|path| api.call("POST", &path).json(&json!({}))).chain(creates);
        let replies = send_concurrently(calls.collect::<Vec<_>>()).await;
        for reply in &replies {
            assert!([201, 400, 404].contains(&reply.status), "round {round}: {reply:?}");
        }
        let made = replies.iter().filter(|reply| reply.status == 201).count();
        let list = api.get(RECORDS).await;
        assert_eq!((list.ids().len(), &list["total_count"]), (made, &json!(made)));
        assert!(made <= 5, "{replies:?}");
        // Each number occurs in one record only.
        let mut numbers: Vec<i64> =
            list.column("fields").iter().filter_map(|fields| fields["number"].as_i64()).collect();
        numbers.sort_unstable();
        let all = numbers.len();
        numbers.dedup();
        assert_eq!(all, numbers.len());
        api.delete_all(batch, json!({"ids": list.ids()})).await.expect_empty();
    }
}

#[tokio::test]
async fn no_child_loses_its_parent() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Parent", json!([])).await;
    class(&api, "Child", json!([{"label": "Of", "type": "relation", "related_object_class": 1}])).await;
    let children = "/api/object-classes/2/object-records/";
    for _ in 0..rounds(5) {
        let parent = api.post(RECORDS, json!({})).await.id();
        let path = format!("/api/object-records/{parent}/");
        let create = || api.call("POST", children).json(&json!({"fields": {"of": parent}}));
        let replies = send_concurrently([create(), api.call("DELETE", &path), create(), create()]).await;
        let made = [0, 2, 3].iter().filter(|at| replies[**at].status == 201).count();
        let is_there = api.get(&path).await.status == 200;
        assert_eq!(replies[1].status, if is_there { 400 } else { 204 });
        assert_eq!(is_there, made > 0, "{replies:?}");
        let found = api.get(&format!("{children}?of={parent}")).await;
        assert_eq!(found["filtered_count"], made);
        for at in [0, 2, 3].into_iter().filter(|at| replies[*at].status != 201) {
            let wrong = format!("Invalid pk {parent} - object does not exist.");
            replies[at].refuses(json!({"fields": {"of": [wrong]}}));
        }
    }
}
