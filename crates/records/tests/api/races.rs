//! Tests concurrent writes of records: unique values, the last record within the limit, owners, relations, options
//! (`docs/reference/object-records.md`). `object_records_together.rs` and `object_class_fields_races.rs` test restores, deletions
//! and fields. `reliability/records` repeats them.

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, assignees, class, group, history, set};
use serde_json::{Value, json};
use store::StoreError;
use testkit::message::{self, limit_exceeded};
use testkit::{ApiClient, PreparedCall, Reply, one_wins, rounds, send_concurrently};

/// The number of concurrent calls.
const CROWD: usize = 60;

fn path(record: i64) -> String {
    format!("/api/object-records/{record}/")
}

/// Asserts that rows, counts, words and versions are consistent.
async fn expect_consistent(server: &TestServer) {
    let broken = server.build.db.read::<_, StoreError>(testkit::broken_rules).await.unwrap();
    assert_eq!(broken, Vec::<String>::new());
}

/// Creates a class of orders with a title and these fields.
async fn orders(server: &TestServer, mut fields: Value) -> ApiClient {
    let api = server.admin().await;
    fields.as_array_mut().unwrap().insert(0, json!({"label": "Title", "type": "string"}));
    class(&api, "Order", fields).await;
    api
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_value_is_held_once() {
    let server = TestServer::start().await;
    let api = orders(
        &server,
        json!([
            {"label": "Number", "type": "integer", "is_unique": true},
            {"label": "Code", "type": "string", "is_unique": true},
        ]),
    )
    .await;
    let mut others = Vec::new();
    for _ in 0..CROWD {
        others.push(api.post(RECORDS, json!({})).await.id());
    }
    for round in 0..rounds(1) {
        for fields in [json!({"number": round}), json!({"code": format!("C {round}")})] {
            let name = fields.as_object().unwrap().keys().next().unwrap().clone();
            let not_unique = json!({"fields": {name.as_str(): ["This field must be unique."]}});
            let body = json!({"fields": fields});
            let won = one_wins(
                &send_concurrently((0..CROWD).map(|_| api.call("POST", RECORDS).json(&body))).await,
                201,
                &not_unique,
            );
            api.delete(&path(won["id"].as_i64().unwrap())).await.expect_empty();
            let calls = others.iter().map(|id| api.call("PATCH", &path(*id)).json(&body));
            let won = one_wins(&send_concurrently(calls).await, 200, &not_unique);
            let id = won["id"].as_i64().unwrap();
            // A batch is refused as a whole. A restore omits the value, or is refused if it is taken meanwhile.
            let batch = json!({"items": [{"fields": {"title": "Other"}}, {"fields": fields}]});
            let refused = json!({"items": {"1": not_unique}});
            api.delete(&path(id)).await.expect_empty();
            let mut calls: Vec<PreparedCall> = (0..10).map(|_| api.call("POST", BATCH).json(&batch)).collect();
            calls.insert(5, api.call("POST", &format!("{}restore/", path(id))).json(&json!({})));
            let mut replies = send_concurrently(calls).await;
            let restored = replies.remove(5);
            let holds = restored.status == 201 && restored["fields"][&name] == fields[&name];
            assert!(restored.status == 201 || restored == (400, not_unique.clone()), "{restored:?}");
            let made = replies.iter().filter(|reply| reply.status == 201).count();
            assert_eq!(made + usize::from(holds), 1, "{replies:?}");
            for reply in replies.iter().filter(|reply| reply.status != 201) {
                assert_eq!((reply.status, &reply.json), (400, &refused));
            }
            let found = api.get(&format!("{RECORDS}?{name}={}", filter_text(&fields[&name]))).await;
            assert_eq!(found["filtered_count"], 1);
            api.patch(&path(found.ids()[0]), json!({"fields": {name.as_str(): null}})).await.ok();
            // Each batch of changes reports the index of the value that another record has.
            let batches = others.chunks(2).map(|ids| {
                let items =
                    json!({"items": [{"id": ids[0], "fields": {"title": "Other"}}, {"id": ids[1], "fields": fields}]});
                api.call("PATCH", BATCH).json(&items)
            });
            let won = one_wins(&send_concurrently(batches.collect::<Vec<_>>()).await, 200, &refused);
            let holder = won["ids"][1].as_i64().unwrap();
            api.patch(&path(holder), json!({"fields": {name: null}})).await.ok();
        }
    }
    expect_consistent(&server).await;
}

/// Returns a value in the format of a filter.
fn filter_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.replace(' ', "+"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_place_of_a_class_is_taken_once() {
    let server = TestServer::start().await;
    let api = orders(&server, json!([])).await;
    for _ in 0..9 {
        api.post(RECORDS, json!({"fields": {"title": "One"}})).await.expect_created();
    }
    server.set_limit("object_records_per_object_class", 10).await;
    for _ in 0..rounds(2) {
        let replies = send_concurrently((0..CROWD).map(|_| api.call("POST", RECORDS).json(&json!({})))).await;
        let won = one_wins(&replies, 201, &limit_exceeded("10 Object Records"));
        assert_eq!(api.get(RECORDS).await["total_count"], 10);
        api.delete(&path(won["id"].as_i64().unwrap())).await.expect_empty();
        // The calls are batches and a restore.
        let batch = json!({"items": [{}]});
        let restore = format!("{}restore/", path(won["id"].as_i64().unwrap()));
        let mut calls: Vec<PreparedCall> = (0..CROWD).map(|_| api.call("POST", BATCH).json(&batch)).collect();
        calls.insert(CROWD / 2, api.call("POST", &restore).json(&json!({})));
        one_wins(&send_concurrently(calls).await, 201, &limit_exceeded("10 Object Records"));
        expect_consistent(&server).await;
        let newest = api.get(&format!("{RECORDS}?ordering=-id")).await.ids()[0];
        api.delete(&path(newest)).await.expect_empty();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_was_lowered_holds_at_once() {
    let server = TestServer::start().await;
    let api = orders(&server, json!([])).await;
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let limits = format!("/api/builds/{}/limits/", testkit::DOMAIN);
    for _ in 0..rounds(1) {
        // The limit is so high that creates read only their own slot.
        server.set_limit("object_records_per_object_class", 1_000_000).await;
        let create = || api.call("POST", RECORDS).json(&json!({}));
        let before: Vec<_> = (0..CROWD).map(|_| tokio::spawn(create().send())).collect();
        let lowered = json!({"object_records_per_object_class": 20});
        operator.patch(&limits, lowered).await.ok();
        // Creates that begin now respect the new limit.
        let after = send_concurrently((0..CROWD).map(|_| create())).await;
        let mut made = 0;
        for reply in before {
            let reply = reply.await.unwrap();
            assert!(reply.status == 201 || reply == (400, limit_exceeded("20 Object Records")), "{reply:?}");
            made += usize::from(reply.status == 201);
        }
        let late = after.iter().filter(|reply| reply.status == 201).count();
        let all = api.get(&format!("{RECORDS}?limit=1000")).await.ids();
        assert_eq!(all.len(), made + late);
        assert!(late == 0 || all.len() <= 20, "{late} came late, {made} before");

        // The limit allows one more record.
        let limit = all.len() + 1;
        operator.patch(&limits, json!({"object_records_per_object_class": limit})).await.ok();
        one_wins(
            &send_concurrently((0..CROWD).map(|_| create())).await,
            201,
            &limit_exceeded(&format!("{limit} Object Records")),
        );
        // The limit is below the current number, so every create is refused.
        operator.patch(&limits, json!({"object_records_per_object_class": 5})).await.ok();
        for reply in send_concurrently((0..CROWD).map(|_| create())).await {
            reply.expect_reply(400, limit_exceeded("5 Object Records"));
        }
        expect_consistent(&server).await;
        let ids = api.get(&format!("{RECORDS}?limit=1000")).await.ids();
        api.delete_all(BATCH, json!({"ids": ids})).await.expect_empty();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_gets_one_owner() {
    let server = TestServer::start().await;
    let api = orders(&server, json!([])).await;
    let mut users = Vec::new();
    for _ in 0..10 {
        users.push(server.as_type("external").await.id);
    }
    let record = api.post(RECORDS, json!({"owner": null})).await.id();
    let owners = format!("{}owners/", path(record));
    let mut change_count = 0;
    for _ in 0..rounds(2) {
        let calls = (0..CROWD).map(|n| api.call("POST", &owners).json(&json!([users[n % users.len()]])));
        let replies = send_concurrently(calls).await;
        let owner = api.get(&owners).await.ok()["results"][0].clone();
        for (n, reply) in replies.iter().enumerate() {
            // The current owner is accepted.
            match users[n % users.len()] == owner["owner_id"] {
                true => reply.expect_reply(201, owner.clone()),
                false => reply.expect_reply(400, limit_exceeded("1 Object Record Owners")),
            }
        }
        change_count += 1;
        assert_eq!(history(&server, record, &[3]).await.len(), change_count);
        expect_consistent(&server).await;
        // The owner is removed once, and many callers set another one. Each event names the actual users.
        let ownership = format!("{owners}{}/", owner["id"]);
        let replies = send_concurrently((0..CROWD).map(|_| api.call("DELETE", &ownership))).await;
        assert_eq!(replies.iter().filter(|reply| reply.status == 204).count(), 1);
        assert!(replies.iter().all(|reply| matches!(reply.status, 204 | 404)), "{replies:?}");
        let give = |n: usize| api.call("PATCH", &path(record)).json(&json!({"owner": users[n % users.len()]}));
        for reply in send_concurrently((0..CROWD).map(give)).await {
            reply.ok();
        }
        let mut owner = None;
        for (kind, people) in history(&server, record, &[3, 4]).await {
            let person = people[0]["id"].as_i64();
            match kind {
                3 => assert_eq!(owner.replace(person), None),
                _ => assert_eq!(owner.take(), Some(person)),
            }
        }
        expect_consistent(&server).await;
        api.patch(&path(record), json!({"owner": null})).await.ok();
        change_count = history(&server, record, &[3]).await.len();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_close_no_circle() {
    let server = TestServer::start().await;
    let fields = json!([
        {"label": "Parent", "type": "relation", "related_object_class": 1},
        {"label": "Other", "type": "relation", "related_object_class": 1},
    ]);
    let api = orders(&server, fields).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(api.post(RECORDS, json!({})).await.id());
    }
    let point = |child: usize, alias: &str, parent: usize| {
        api.call("PATCH", &path(ids[child])).json(&json!({"fields": {alias: ids[parent]}}))
    };
    for round in 0..rounds(5) {
        // Two records relate to each other over two relations, or three in a cycle, one of them in a batch.
        let replies = match round % 2 {
            0 => send_concurrently([point(0, "parent", 1), point(1, "other", 0)]).await,
            _ => {
                let batch = json!({"items": [{"id": ids[2], "fields": {"other": ids[0]}}]});
                send_concurrently([point(0, "parent", 1), point(1, "parent", 2), api.call("PATCH", BATCH).json(&batch)])
                    .await
            }
        };
        let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.status != 200).collect();
        assert_eq!(refused.len(), 1, "{replies:?}");
        let text = refused[0].json.to_string();
        assert!(refused[0].status == 400 && text.contains("Circular relations are not allowed."), "{text}");
        for id in &ids {
            api.patch(&path(*id), json!({"fields": {"parent": null, "other": null}})).await.ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_child_points_at_a_parent_that_cleared_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Parent", json!([{"label": "Title", "type": "string"}])).await;
    let relation = json!({"label": "Of", "type": "relation", "related_object_class": 1, "on_delete": "clear"});
    class(&api, "Child", json!([relation])).await;
    let children = "/api/object-classes/2/object-records/";
    for _ in 0..rounds(5) {
        let parent = api.post(RECORDS, json!({})).await.id();
        let other = api.post(children, json!({})).await.id();
        let of = json!({"fields": {"of": parent}});
        let mut calls: Vec<PreparedCall> = (0..5).map(|_| api.call("POST", children).json(&of)).collect();
        calls.insert(2, api.call("DELETE", &path(parent)));
        calls.push(api.call("PATCH", &path(other)).json(&of));
        let mut replies = send_concurrently(calls).await;
        replies.remove(2).expect_empty();
        for reply in &replies {
            let wrong = format!("Invalid pk {parent} - object does not exist.");
            assert!(
                matches!(reply.status, 200 | 201) || *reply == (400, json!({"fields": {"of": [wrong]}})),
                "{reply:?}"
            );
        }
        assert_eq!(api.get(&format!("{children}?of__isnull=false")).await["filtered_count"], 0);
    }
    expect_consistent(&server).await;
}

/// Tests that a child with a new parent retains it when its former parent is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_parent_clears_what_points_at_it_and_nothing_else() {
    let server = TestServer::start().await;
    let api = orders(&server, json!([])).await;
    let fields = json!({"label": "Of", "type": "relation", "related_object_class": 1, "on_delete": "clear"});
    class(&api, "Child", json!([fields])).await;
    let batch = "/api/object-classes/2/object-records/batch/";
    for _ in 0..rounds(3) {
        let [former, later] = [api.post(RECORDS, json!({})).await.id(), api.post(RECORDS, json!({})).await.id()];
        let items = vec![json!({"fields": {"of": former}}); CROWD];
        let ids = api.post(batch, json!({"items": items})).await.expect_created()["ids"].clone();
        let ids: Vec<i64> = ids.as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
        let body = json!({"fields": {"of": later}});
        let mut calls: Vec<PreparedCall> = ids.iter().map(|id| api.call("PATCH", &path(*id)).json(&body)).collect();
        calls.insert(CROWD / 4, api.call("DELETE", &path(former)));
        let mut replies = send_concurrently(calls).await;
        replies.remove(CROWD / 4).expect_empty();
        replies.iter().for_each(|reply| drop(reply.ok()));
        let found = api.get(&format!("/api/object-classes/2/object-records/?of={later}")).await;
        assert_eq!(found["filtered_count"], CROWD);
    }
    expect_consistent(&server).await;
}

/// Tests that counts, words, versions and assignments match the rows after any concurrent writes.
#[tokio::test(flavor = "multi_thread")]
async fn all_belongs_together_after_everything_at_once() {
    let server = TestServer::start().await;
    let api = orders(&server, json!([{"label": "Number", "type": "integer", "is_unique": true}])).await;
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let (ann, ben) = (server.as_type("internal").await, server.as_type("external").await);
    let team = group(&api, "Team", &[ben.id]).await;
    for round in 0..rounds(3) {
        let mut ids = Vec::new();
        for n in 0..8 {
            ids.push(api.post(RECORDS, json!({"fields": {"title": format!("Of {round} {n}")}})).await.id());
        }
        let assigned = json!([{"permission_set": readers, "users": [ann.id], "user_groups": [team]}]);
        let new = json!({"fields": {"number": round}, "permission_sets": assigned, "owner": ben.id});
        let mut calls = Vec::new();
        for (n, id) in ids.iter().enumerate() {
            calls.push(api.call("POST", &assignees(*id, readers)).json(&json!([ann.id, ben.id])));
            calls.push(api.call("POST", &format!("{}user-groups/", assignees(*id, readers))).json(&json!([team])));
            calls.push(api.call("PATCH", &path(*id)).json(&json!({"owner": ann.id, "fields": {"title": "Changed"}})));
            calls.push(api.call("DELETE", &path(*id)));
            calls.push(api.call("POST", &format!("{}restore/", path(*id))).json(&json!({})));
            calls.push(api.call("POST", RECORDS).json(&new));
            calls.push(api.call("POST", BATCH).json(&json!({"items": [new, {"fields": {"title": "B"}}]})));
            calls.push(api.call("DELETE", BATCH).json(&json!({"ids": [ids[(n + 1) % 8], ids[n]]})));
            let change = |id: i64| json!({"id": id, "owner": ben.id});
            let changes = json!({"items": [change(ids[(n + 2) % 8]), change(*id)]});
            calls.push(api.call("PATCH", BATCH).json(&changes));
        }
        for reply in send_concurrently(calls).await {
            // 403 answers assignments to a deleted record.
            assert!(matches!(reply.status, 200 | 201 | 204 | 400 | 403 | 404), "{reply:?}");
        }
        expect_consistent(&server).await;
        // Each user sees exactly their own records.
        let owned = |id: i64| format!("{RECORDS}?owner={id}&limit=1000");
        let of_ann = api.get(&owned(ann.id)).await.ids();
        let visible = ann.get(&format!("{RECORDS}?limit=1000")).await;
        if visible.status == 200 {
            assert!(of_ann.iter().all(|id| visible.ids().contains(id)), "{of_ann:?} {visible:?}");
            for id in visible.ids() {
                ann.get(&path(id)).await.ok();
            }
        } else {
            assert_eq!((of_ann, visible.json.clone()), (vec![], message::not_found()));
        }
        let taken = api.get(&format!("{RECORDS}?number={round}")).await.ids();
        assert!(taken.len() <= 1, "{taken:?}");
    }
}
