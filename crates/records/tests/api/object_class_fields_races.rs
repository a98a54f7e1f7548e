//! Tests rules of class fields under concurrent declarations and concurrent writes of records. Each group is small, so that it
//! runs with the other tests. `CHANCERY_TEST_ROUNDS` repeats it.

use crate::TestServer;
use crate::set_up::{FIELDS, RECORDS, options};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::{Conn, StoreError};
use testkit::message::limit_exceeded;
use testkit::{ApiClient, PreparedCall, one_wins, rounds, send_concurrently};
use tokio::task::JoinSet;

/// Starts a server with this number of classes, and returns it with its first super admin.
async fn with_classes(count: usize) -> (TestServer, ApiClient) {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 1..=count {
        api.post("/api/object-classes/", json!({"name": format!("Class {n}")})).await.expect_created();
    }
    (server, api)
}

/// Sixteen callers that repeat the same work until they are stopped.
struct ConcurrentCallers {
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<Duration>,
}

impl ConcurrentCallers {
    fn start<F: Future + Send>(
        api: &ApiClient,
        work: impl Fn(ApiClient) -> F + Clone + Send + 'static,
    ) -> ConcurrentCallers {
        let (is_over, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for _ in 0..16 {
            let (api, is_over, work) = (api.clone(), is_over.clone(), work.clone());
            tasks.spawn(async move {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    work(api.clone()).await;
                    longest = longest.max(started.elapsed());
                }
                longest
            });
        }
        ConcurrentCallers { is_over, tasks }
    }

    /// Stops the callers and returns the longest duration of a single call.
    async fn stop(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.into_iter().max().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_gets_one_status() {
    let (_server, api) = with_classes(1).await;
    for _ in 0..rounds(2) {
        let body =
            |n: usize| json!({"label": format!("s{n}"), "type": "status", "options": options(&["a"]), "initial": "a"});
        let replies = send_concurrently((0..8).map(|n| api.call("POST", FIELDS).json(&body(n)))).await;
        let won = one_wins(&replies, 201, &json!({"type": ["A class has one status field at most."]}));
        api.delete(&format!("{FIELDS}{}/", won["id"])).await.expect_empty();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_is_given_once() {
    let (_server, api) = with_classes(1).await;
    let body = json!({"label": "A", "type": "integer", "alias": "a"});
    let replies = send_concurrently((0..8).map(|_| api.call("POST", FIELDS).json(&body))).await;
    one_wins(&replies, 201, &json!({"alias": ["This field must be unique."]}));
    // Aliases that follow from a label are all different.
    let body = json!({"label": "A", "type": "integer"});
    for reply in send_concurrently((0..8).map(|_| api.call("POST", FIELDS).json(&body))).await {
        reply.expect_created();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_made_at_once_get_different_aliases() {
    let (_server, api) = with_classes(0).await;
    let names = ["Part", "Part!", "Part?", "Part.", "(Part)", "Part;", "Part:", "-Part-"];
    let replies =
        send_concurrently(names.map(|name| api.call("POST", "/api/object-classes/").json(&json!({"name": name}))))
            .await;
    let mut aliases: Vec<String> =
        replies.iter().map(|reply| reply.expect_created()["alias"].as_str().unwrap().to_owned()).collect();
    aliases.sort();
    assert_eq!(aliases, ["part", "part_2", "part_3", "part_4", "part_5", "part_6", "part_7", "part_8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn relations_at_once_close_no_circle() {
    let (_server, api) = with_classes(3).await;
    for _ in 0..rounds(3) {
        let relate = |child: usize, parent: usize| {
            let body = json!({"label": "Parent", "type": "relation", "related_object_class": parent});
            api.call("POST", &format!("/api/object-classes/{child}/fields/")).json(&body)
        };
        let replies = send_concurrently([relate(1, 2), relate(2, 3), relate(3, 1)]).await;
        let made: Vec<usize> = (0..3).filter(|n| replies[*n].status == 201).collect();
        assert_eq!(made.len(), 2, "{replies:?}");
        let circle = json!({"related_object_class": ["Circular relations are not allowed."]});
        assert!(replies.iter().any(|reply| *reply == (400, circle.clone())), "{replies:?}");
        for n in made {
            let field = replies[n].json["id"].clone();
            api.delete(&format!("/api/object-classes/{}/fields/{field}/", n + 1)).await.expect_empty();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn places_that_are_left_are_taken_once() {
    let (server, api) = with_classes(6).await;
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let limits = json!({"object_class_fields": 3, "object_relations_top_parent": 1, "object_relations_children": 1});
    operator.patch(&format!("/api/builds/{}/limits/", testkit::DOMAIN), limits).await.ok();
    let relation = json!({"label": "Parent", "type": "relation", "related_object_class": 6});
    let of_one = send_concurrently((0..6).map(|_| api.call("POST", FIELDS).json(&relation))).await;
    let won = one_wins(&of_one, 201, &limit_exceeded("1 Object Relation Parents"));
    api.delete(&format!("{FIELDS}{}/", won["id"])).await.expect_empty();
    let paths = (1..=5).map(|class| format!("/api/object-classes/{class}/fields/"));
    let to_one = send_concurrently(paths.map(|path| api.call("POST", &path).json(&relation))).await;
    one_wins(&to_one, 201, &limit_exceeded("1 Object Relation Children"));

    let field = json!({"label": "x", "type": "date"});
    let collection = "/api/object-classes/6/fields/";
    api.post(collection, field.clone()).await.expect_created();
    api.post(collection, field.clone()).await.expect_created();
    let replies = send_concurrently((0..8).map(|_| api.call("POST", collection).json(&field))).await;
    one_wins(&replies, 201, &limit_exceeded("3 Object Class Fields"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_becomes_unique_holds_no_value_twice() {
    let (_server, api) = with_classes(1).await;
    api.post(FIELDS, json!({"label": "No", "type": "integer"})).await.expect_created();
    let field = "/api/object-classes/1/fields/1/";
    for round in 0..rounds(10) {
        let record = json!({"fields": {"no": round}});
        let mut calls: Vec<PreparedCall> = (0..2).map(|_| api.call("POST", RECORDS).json(&record)).collect();
        calls.insert(1, api.call("PATCH", field).json(&json!({"is_unique": true})));
        let replies = send_concurrently(calls).await;
        let made: Vec<i64> = [0, 2]
            .iter()
            .filter(|n| replies[**n].status == 201)
            .filter_map(|n| replies[*n].json["id"].as_i64())
            .collect();
        match replies[1].status {
            200 => {
                let unique = json!({"fields": {"no": ["This field must be unique."]}});
                assert_eq!(made.len(), 1, "{replies:?}");
                assert!([0, 2].iter().any(|n| replies[*n] == (400, unique.clone())), "{replies:?}");
            }
            _ => {
                assert_eq!(replies[1], (400, json!({"is_unique": ["This field must be unique."]})));
                assert_eq!(made.len(), 2, "{replies:?}");
                api.delete(&format!("/api/object-records/{}/", made[0])).await.expect_empty();
            }
        }
        api.patch(field, json!({"is_unique": false})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_option_is_removed_or_taken_but_not_both() {
    let (_server, api) = with_classes(1).await;
    let both = json!({"label": "Kind", "type": "enum", "options": options(&["a", "b"])});
    api.post(FIELDS, both.clone()).await.expect_created();
    let field = "/api/object-classes/1/fields/1/";
    for _ in 0..rounds(10) {
        let replies = send_concurrently([
            api.call("POST", RECORDS).json(&json!({"fields": {"kind": "b"}})),
            api.call("PATCH", field).json(&json!({"options": options(&["a"])})),
        ])
        .await;
        match replies[1].status {
            200 => assert_eq!(replies[0], (400, json!({"fields": {"kind": ["b is not a valid choice."]}}))),
            _ => {
                assert_eq!(replies[1], (400, json!({"options": ["Option b is in use."]})));
                let made = replies[0].json["id"].clone();
                api.delete(&format!("/api/object-records/{made}/")).await.expect_empty();
            }
        }
        api.patch(field, json!({"options": both["options"]})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_come_and_go_while_records_are_written() {
    let (_server, api) = with_classes(1).await;
    api.post(FIELDS, json!({"label": "No", "type": "integer"})).await.expect_created();
    let writers = ConcurrentCallers::start(&api, |api: ApiClient| async move {
        let made = api.post(RECORDS, json!({"fields": {"no": 1}})).await.expect_created();
        api.get(&format!("/api/object-records/{}/", made["id"])).await.ok();
        api.get(&format!("{RECORDS}?no=1&limit=1")).await.ok();
    });
    for n in 0..rounds(8) {
        let field =
            json!({"label": format!("f{n}"), "type": "string", "is_indexed": n % 2 == 0, "is_unique": n % 3 == 0});
        let id = api.post(FIELDS, field).await.expect_created()["id"].clone();
        if n % 2 == 1 {
            api.delete(&format!("{FIELDS}{id}/")).await.expect_empty();
        }
    }
    let longest = writers.stop().await;
    assert!(longest < Duration::from_secs(6), "three requests took {longest:?}");
}

/// Inserts records of the first class into the database, without events and words.
async fn insert_records(server: &TestServer, count: i64) {
    for first in (1_000_000..1_000_000 + count).step_by(10_000) {
        let write = move |conn: &mut Conn| {
            let rows: Vec<[store::BorrowedArgument<'_>; 2]> = (first..first + 10_000)
                .map(|id| [store::BorrowedArgument::Int(id), store::BorrowedArgument::Int(id)])
                .collect();
            conn.insert_rows("r1", &["id", "created_at"], &rows, "").map(drop)
        };
        server.build.db.write::<_, StoreError>(write).await.unwrap();
    }
}

/// The class has the maximum number of records. Each write must take less than two seconds.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes twenty seconds"]
async fn a_class_of_a_million_records_gets_fields_while_others_write() {
    let (server, api) = with_classes(1).await;
    insert_records(&server, 1_000_000).await;
    let writers = ConcurrentCallers::start(&api, |api: ApiClient| async move {
        api.post(RECORDS, json!({"fields": {}})).await.expect_created();
    });
    for field in [
        json!({"label": "text", "type": "string"}),
        json!({"label": "unique", "type": "string", "is_unique": true}),
        json!({"label": "status", "type": "status", "options": options(&["a"]), "initial": "a"}),
        json!({"label": "relation", "type": "relation", "related_object_class": 1}),
    ] {
        let started = Instant::now();
        api.post(FIELDS, field.clone()).await.expect_created();
        println!("{}: {:?}", field["label"], started.elapsed());
    }
    // The pause lets the writers run together with the jobs that the fields have queued.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let longest = writers.stop().await;
    println!("the longest write took {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}
