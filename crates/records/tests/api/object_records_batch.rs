//! `/api/object-classes/{id}/object-records/batch/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{BATCH, FIELDS, RECORDS, class, history, number, with_class_set, with_nodes};
use serde_json::{Value, json};
use testkit::shown::{START, page};
use testkit::{ApiClient, SECOND, message};

/// Creates a class of orders: a required title, a unique number, an amount.
async fn orders(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    let fields = json!([
        {"label": "Title", "type": "string", "is_required": true},
        {"label": "Number", "type": "integer", "is_unique": true},
        {"label": "Amount", "type": "decimal"},
    ]);
    class(&api, "Order", fields).await;
    api
}

fn items(fields: &[Value]) -> Value {
    json!({"items": fields.iter().map(|fields| json!({"fields": fields})).collect::<Vec<_>>()})
}

#[tokio::test]
async fn many_are_made_changed_and_deleted_in_one_request() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let other = server.as_type("internal").await;
    let body = json!({"items": [
        {"fields": {"title": "A", "number": 1}},
        {"fields": {"title": "B"}, "owner": null},
        {"fields": {"title": "C", "number": 3}, "owner": other.id, "planet": "Mars"},
    ]});
    api.post(BATCH, body).await.expect_reply(201, json!({"ids": [1, 2, 3]}));
    let list = api.get(RECORDS).await;
    assert_eq!(list.ids(), [1, 2, 3]);
    assert_eq!(list["results"][0]["created_at"], START);
    let owners: Vec<Value> = list.column("owner").iter().map(|owner| owner["id"].clone()).collect();
    assert_eq!(owners, [json!(1), Value::Null, json!(other.id)]);

    let body =
        json!({"items": [{"id": 3, "fields": {"title": "c"}, "owner": 1}, {"id": 1, "fields": {"amount": "7"}}]});
    api.patch(BATCH, body).await.expect_reply(200, json!({"ids": [3, 1]}));
    assert_eq!(
        api.get(RECORDS).await.column("fields"),
        [
            json!({"title": "A", "number": 1, "amount": "7.00"}),
            json!({"title": "B", "number": null, "amount": null}),
            json!({"title": "c", "number": 3, "amount": null}),
        ]
    );
    assert_eq!(api.get("/api/object-records/3/").await["owner"]["id"], 1);

    api.delete_all(BATCH, json!({"ids": [1, 3]})).await.expect_empty();
    assert_eq!(api.get(RECORDS).await.ids(), [2]);
    // Missing fields count as an empty object, so the required title is missing in a create, but not in a change.
    api.post(BATCH, json!({"items": [{}]}))
        .await
        .refuses(json!({"items": {"0": {"fields": {"title": ["This field is required."]}}}}));
    api.patch(BATCH, json!({"items": [{"id": 2}]})).await.expect_reply(200, json!({"ids": [2]}));
}

#[tokio::test]
async fn all_errors_are_told_by_their_places_and_nothing_is_written() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    class(&api, "Other", json!([])).await;
    let elsewhere = api.post("/api/object-classes/2/object-records/", json!({})).await.id();
    let first = api.post(RECORDS, json!({"fields": {"title": "first", "number": 1}})).await.id();
    let second = api.post(RECORDS, json!({"fields": {"title": "second", "number": 2}})).await.id();
    let body = json!({"items": [
        {"fields": {"title": "right", "number": 9}},
        {"fields": {"number": 1}},
        7,
        {"fields": {"title": "x", "number": 9, "planet": 1}, "owner": 99},
        {"fields": []},
    ]});
    api.post(BATCH, body).await.refuses(json!({"items": {
        "1": {"fields": {"title": ["This field is required."], "number": ["This field must be unique."]}},
        "2": {"non_field_errors": ["Invalid data. Expected a dictionary, but got int."]},
        "3": {
            "owner": ["Invalid pk 99 - object does not exist."],
            "fields": {"number": ["This field must be unique."], "planet": ["This field does not exist."]},
        },
        "4": {"fields": ["Invalid data. Expected a dictionary, but got list."]},
    }}));
    let body = json!({"items": [
        {"id": first, "fields": {"number": 2}},
        {"id": first, "fields": {}},
        {"fields": {}},
        {"id": "1"},
        {"id": 99},
        {"id": elsewhere},
        {"id": second, "fields": {"title": null}},
    ]});
    api.patch(BATCH, body).await.refuses(json!({"items": {
        "0": {"fields": {"number": ["This field must be unique."]}},
        "1": {"id": ["This field must be unique."]},
        "2": {"id": ["This field is required."]},
        "3": {"id": ["Incorrect type. Expected pk value, received str."]},
        "4": {"id": ["Invalid pk 99 - object does not exist."]},
        "5": {"id": [format!("Invalid pk {elsewhere} - object does not exist.")]},
        "6": {"fields": {"title": ["This field may not be null."]}},
    }}));
    api.delete_all(BATCH, json!({"ids": [first, 99, first, true, elsewhere]})).await.refuses(json!({"ids": {
        "1": ["Invalid pk 99 - object does not exist."],
        "2": ["This field must be unique."],
        "3": ["Incorrect type. Expected pk value, received bool."],
        "4": [format!("Invalid pk {elsewhere} - object does not exist.")],
    }}));
    let many = |n: usize| json!(vec![json!({"id": 1}); n]);
    for (body, message) in [
        (json!({}), "This field is required."),
        (json!({"items": null}), "This field may not be null."),
        (json!({"items": {}}), "Expected a list of items but got type dict."),
        (json!({"items": []}), "This list may not be empty."),
        (json!({"items": many(1001)}), "Up to 1000 items allowed."),
    ] {
        api.post(BATCH, body.clone()).await.refuses(json!({"items": [message]}));
        api.patch(BATCH, body).await.refuses(json!({"items": [message]}));
    }
    api.delete_all(BATCH, json!({"ids": []})).await.refuses(json!({"ids": ["This list may not be empty."]}));
    api.delete_all(BATCH, json!({})).await.refuses(json!({"ids": ["This field is required."]}));
    assert_eq!(api.get(RECORDS).await.column("fields").len(), 2);
    assert_eq!(api.get(&format!("/api/object-records/{first}/")).await["fields"]["number"], 1);
}

#[tokio::test]
async fn unique_values_count_as_they_will_be_after_the_request() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let fields = json!([
        {"label": "Code", "type": "string", "is_unique": true},
        {"label": "Number", "type": "integer", "is_unique": true},
    ]);
    class(&api, "Order", fields).await;
    for (code, number) in [("A", 1), ("B", 2), ("C", 3), ("Zoë", 4)] {
        api.post(RECORDS, json!({"fields": {"code": code, "number": number}})).await.expect_created();
    }
    let codes = async || -> Vec<Value> {
        let fields = api.get(RECORDS).await.column("fields");
        fields.iter().map(|fields| fields["code"].clone()).collect()
    };
    let change = async |codes: &[(i64, Value)]| {
        let items: Vec<Value> = codes.iter().map(|(id, code)| json!({"id": id, "fields": {"code": code}})).collect();
        api.patch(BATCH, json!({"items": items})).await
    };
    // Two records swap values, three rotate them, and one takes over the value that another gives up.
    change(&[(1, json!("B")), (2, json!("A"))]).await.expect_reply(200, json!({"ids": [1, 2]}));
    assert_eq!(codes().await, ["B", "A", "C", "Zoë"]);
    change(&[(3, json!("B")), (1, json!("A")), (2, json!("C"))]).await.expect_reply(200, json!({"ids": [3, 1, 2]}));
    assert_eq!(codes().await, ["A", "C", "B", "Zoë"]);
    change(&[(1, json!("Zoe\u{308}")), (4, json!(null))]).await.expect_reply(200, json!({"ids": [1, 4]}));
    assert_eq!(codes().await, [json!("Zoe\u{308}"), json!("C"), json!("B"), json!(null)]);
    change(&[(4, json!("A")), (1, json!("Zoë"))]).await.expect_reply(200, json!({"ids": [4, 1]}));
    let numbers = json!({"items": [{"id": 1, "fields": {"number": 2}}, {"id": 2, "fields": {"number": 1}}]});
    api.patch(&format!("{BATCH}?dry_run=true"), numbers.clone()).await.expect_reply(200, json!({"ids": [1, 2]}));
    api.patch(BATCH, numbers).await.expect_reply(200, json!({"ids": [1, 2]}));
    assert_eq!(api.get(&format!("{RECORDS}?number=1&code=C")).await.ids(), [2]);
    // Searches find the new values.
    assert_eq!(api.get(&format!("{RECORDS}?search=zoe")).await.ids(), [1]);
    // A value that another record retains is refused, and so is a value of an earlier item.
    let unique = |places: &[&str]| {
        let wrong = |place: &&str| ((*place).to_owned(), json!({"fields": {"code": ["This field must be unique."]}}));
        json!({"items": places.iter().map(wrong).collect::<serde_json::Map<_, _>>()})
    };
    change(&[(1, json!("C")), (3, json!("D"))]).await.refuses(unique(&["0"]));
    change(&[(1, json!("C")), (2, json!("C"))]).await.refuses(unique(&["0"]));
    change(&[(1, json!("X")), (2, json!("X"))]).await.refuses(unique(&["1"]));
    change(&[(1, json!("C")), (2, json!("Zo\u{65}\u{308}")), (3, json!("C"))]).await.refuses(unique(&["2"]));
    assert_eq!(codes().await, ["Zoë", "C", "B", "A"]);
}

#[tokio::test]
async fn children_that_go_in_the_same_request_do_not_count() {
    let server = TestServer::start().await;
    let api = with_nodes(&server).await;
    let mut ids = vec![api.post(RECORDS, json!({})).await.id()];
    for at in 0..3 {
        ids.push(api.post(RECORDS, json!({"fields": {"parent": ids[at]}})).await.id());
    }
    let children = "Object record has related records and cannot be deleted.";
    api.delete_all(BATCH, json!({"ids": [ids[2], ids[1], 99, ids[0]]})).await.refuses(json!({"ids": {
        "0": [children], "2": ["Invalid pk 99 - object does not exist."],
    }}));
    api.delete_all(BATCH, json!({"ids": [ids[1], ids[0]]})).await.refuses(json!({"ids": {"0": [children]}}));
    api.delete_all(BATCH, json!({"ids": [ids[0], ids[1], ids[2], ids[3]]})).await.expect_empty();
    assert!(api.get(RECORDS).await.ids().is_empty());
}

#[tokio::test]
async fn children_are_counted_for_each_parent() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Parent", json!([])).await;
    let relation = |label: &str, on_delete: &str| json!({"label": label, "type": "relation", "related_object_class": 1, "on_delete": on_delete});
    class(&api, "Child", json!([relation("Kept", "refuse"), relation("Cleared", "clear")])).await;
    let children = "/api/object-classes/2/object-records/";
    let make = async |alias: &str, parent: i64, count: usize| {
        let item = json!({"fields": {alias: parent}});
        for some in vec![item; count].chunks(1000) {
            api.post(&format!("{children}batch/"), json!({"items": some})).await.expect_created();
        }
    };
    let mut parents = Vec::new();
    for _ in 0..6 {
        parents.push(api.post(RECORDS, json!({})).await.id());
    }
    let [many, more, too_many, crowd, single, none] = parents[..] else { unreachable!() };
    for (alias, parent, count) in [
        ("cleared", many, 600),
        ("cleared", more, 1000),
        ("cleared", too_many, 1001),
        ("kept", crowd, 1010),
        ("kept", single, 1),
    ] {
        make(alias, parent, count).await;
    }
    // All records with too many children are reported, independent of the number of the first one.
    let refused = "Object record has related records and cannot be deleted.";
    api.delete_all(BATCH, json!({"ids": parents}))
        .await
        .refuses(json!({"ids": {"2": [refused], "3": [refused], "4": [refused]}}));
    api.delete_all(BATCH, json!({"ids": [many, none, more]})).await.expect_empty();
    let cleared = api.get(&format!("{children}?cleared__isnull=false&limit=1")).await;
    assert_eq!((&cleared["filtered_count"], &cleared["total_count"]), (&json!(1001), &json!(3612)));
    assert_eq!(cleared["results"][0]["fields"]["cleared"], too_many);
}

/// Six long texts of a record may have more bytes than the limit for all records in memory.
#[tokio::test]
async fn records_of_long_texts_are_changed_and_deleted_in_parts() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let texts: Vec<Value> = (0..6).map(|n| json!({"label": format!("T {n}"), "type": "text"})).collect();
    class(&api, "Note", json!(texts)).await;
    let new = |n: usize| json!({"t_0": format!("first{n}"), "t_1": format!("same{n} both"), "t_5": null});
    let ids = api.post(BATCH, items(&(0..40).map(new).collect::<Vec<_>>())).await.expect_created()["ids"].clone();
    let ids: Vec<i64> = ids.as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
    let change = |(n, id): (usize, &i64)| json!({"id": id, "fields": {"t_0": format!("second{n}")}});
    let changes: Vec<Value> = ids.iter().enumerate().map(change).collect();
    api.patch(BATCH, json!({"items": changes})).await.ok();
    let search_ids = async |words: &str| api.get(&format!("{RECORDS}?search={words}")).await.ids();
    for (n, id) in [(0, ids[0]), (20, ids[20]), (39, ids[39])] {
        assert_eq!(search_ids(&format!("second{n}+same{n}+both")).await, [id]);
        assert_eq!(search_ids(&format!("first{n}")).await, Vec::<i64>::new());
    }
    api.delete_all(BATCH, json!({"ids": ids})).await.expect_empty();
    let last = api.post(&format!("/api/object-records/{}/restore/", ids[39]), json!({})).await.expect_created();
    assert_eq!(last["fields"]["t_0"], "second39");
    assert_eq!(search_ids("same39").await, [ids[39]]);
}

#[tokio::test]
async fn the_values_of_a_record_have_a_bound_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let texts: Vec<Value> = (0..33).map(|n| json!({"label": format!("T {n}"), "type": "text"})).collect();
    class(&api, "Book", json!(texts)).await;
    let long = "x".repeat(65_000);
    let all = |numbers: std::ops::Range<usize>| -> Value {
        numbers.map(|n| (format!("t_{n}"), json!(long))).collect::<serde_json::Map<_, _>>().into()
    };
    let id = api.post(RECORDS, json!({"fields": all(0..20)})).await.id();
    let path = format!("/api/object-records/{id}/");
    let large = json!({"fields": ["Value is too large."]});
    api.patch(&path, json!({"fields": all(20..33)})).await.refuses(large.clone());
    api.patch(BATCH, json!({"items": [{"id": id, "fields": all(20..33)}]}))
        .await
        .refuses(json!({"items": {"0": large}}));
    api.patch(&path, json!({"fields": all(20..32)})).await.ok();
    // The new text counts instead of the one that it replaces.
    api.patch(&path, json!({"fields": {"t_32": long}})).await.refuses(large);
    api.patch(&path, json!({"fields": {"t_32": long, "t_31": "short"}})).await.ok();
    // The length in JSON counts.
    let escaped = "\u{1}".repeat(65_000 / 6);
    api.patch(&path, json!({"fields": {"t_30": escaped}})).await.ok();
    api.patch(&path, json!({"fields": {"t_30": escaped.repeat(2)}}))
        .await
        .refuses(json!({"fields": ["Value is too large."]}));
}

#[tokio::test]
async fn relations_are_checked_as_they_will_be_after_the_request() {
    let server = TestServer::start().await;
    let api = with_nodes(&server).await;
    api.post(BATCH, items(&vec![json!({}); 12])).await.expect_created();
    let relate = |pairs: &[(i64, Option<i64>)]| {
        let item = |(id, parent): &(i64, Option<i64>)| json!({"id": id, "fields": {"parent": parent}});
        api.patch(BATCH, json!({"items": pairs.iter().map(item).collect::<Vec<_>>()}))
    };
    let wrong = |message: &str| json!({"fields": {"parent": [message]}});
    let circle = wrong("Circular relations are not allowed.");
    let long = wrong("Limit of 10 relation levels has been exceeded.");
    // A cycle that only several items close together, and a record below it.
    relate(&[(1, Some(2)), (2, Some(3)), (3, Some(1)), (4, Some(1)), (5, Some(6))])
        .await
        .refuses(json!({"items": {"0": circle, "1": circle, "2": circle, "3": long}}));
    relate(&[(1, Some(1))]).await.refuses(json!({"items": {"0": circle}}));
    // Eleven records in a chain are too many for each of its relations, in any order.
    let mut chain: Vec<(i64, Option<i64>)> = (2..=11).map(|id| (id, Some(id - 1))).collect();
    chain.reverse();
    let all_long: Value = (0..10).map(|at| (at.to_string(), long.clone())).collect::<serde_json::Map<_, _>>().into();
    relate(&chain).await.refuses(json!({"items": all_long}));
    relate(&chain[1..]).await.ok();
    relate(&[(12, Some(10))]).await.refuses(json!({"items": {"0": long}}));
    relate(&[(1, Some(12))]).await.refuses(json!({"items": {"0": long}}));
    // Relations that the request removes do not count: the chain is reversed in one request.
    let mut turned: Vec<(i64, Option<i64>)> = (1..=9).map(|id| (id, Some(id + 1))).collect();
    let mut wrong: serde_json::Map<_, _> = (0..8).map(|at| (at.to_string(), long.clone())).collect();
    wrong.insert("8".to_owned(), circle);
    relate(&turned).await.refuses(json!({"items": wrong}));
    turned.push((10, None));
    relate(&turned).await.ok();
    assert_eq!(api.get("/api/object-records/1/").await["fields"]["parent"], 2);
}

#[tokio::test]
async fn a_record_without_the_right_forbids_all_unless_another_is_hidden() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let person = server.as_type("external").await;
    let set = |actions: Value| json!({"name": actions[0], "permissions": {"object_records": actions}});
    let viewers = api.post("/api/object-classes/1/record-permission-sets/", set(json!(["view"]))).await.id();
    let editors = api.post("/api/object-classes/1/record-permission-sets/", set(json!(["edit", "delete"]))).await.id();
    let assigned = |set: i64| json!([{"permission_set": set, "users": [person.id]}]);
    let body = json!({"items": [
        {"fields": {"title": "viewed"}, "permission_sets": assigned(viewers)},
        {"fields": {"title": "edited"}, "permission_sets": assigned(editors)},
        {"fields": {"title": "hidden"}},
    ]});
    api.post(BATCH, body).await.expect_reply(201, json!({"ids": [1, 2, 3]}));
    let edits = |ids: &[i64]| {
        let item = |id: &i64| json!({"id": id, "fields": {"title": ""}});
        json!({"items": ids.iter().map(item).collect::<Vec<_>>()})
    };
    let blank = json!({"fields": {"title": ["This field may not be blank."]}});
    let hidden = json!({"id": ["Invalid pk 3 - object does not exist."]});
    person.patch(BATCH, edits(&[1, 2])).await.expect_reply(403, message::forbidden());
    person.patch(BATCH, edits(&[1, 2, 3])).await.refuses(json!({"items": {"1": blank, "2": hidden}}));
    person.delete_all(BATCH, json!({"ids": [2, 1]})).await.expect_reply(403, message::forbidden());
    person
        .delete_all(BATCH, json!({"ids": [2, 1, 3]}))
        .await
        .refuses(json!({"ids": {"2": ["Invalid pk 3 - object does not exist."]}}));
    person.post(BATCH, items(&[json!({"title": "x"})])).await.expect_reply(403, message::forbidden());
    person
        .patch(BATCH, json!({"items": [{"id": 2, "fields": {"title": "new"}}]}))
        .await
        .expect_reply(200, json!({"ids": [2]}));
    person.delete_all(BATCH, json!({"ids": [2]})).await.expect_empty();
    let stranger = server.as_type("external").await;
    stranger.post(BATCH, json!({})).await.expect_reply(404, message::not_found());
    stranger.patch(BATCH, json!({})).await.expect_reply(404, message::not_found());
    stranger.delete_all(BATCH, json!({})).await.expect_reply(404, message::not_found());
    api.post("/api/object-classes/9/object-records/batch/", json!({})).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_trial_answers_as_the_real_one_and_writes_nothing() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let trial = format!("{BATCH}?dry_run=true");
    let both = items(&[json!({"title": "A", "number": 1}), json!({"title": "B"})]);
    let twice = items(&[json!({"title": "A", "number": 1}), json!({"title": "B", "number": 1})]);
    let unique = json!({"items": {"1": {"fields": {"number": ["This field must be unique."]}}}});
    api.post(&trial, both.clone()).await.expect_reply(201, json!({"ids": null}));
    api.post(&trial, twice.clone()).await.refuses(unique.clone());
    assert_eq!(api.get("/api/object-classes/1/").await["num_of_records"], 0);
    // A dry run uses no ids.
    api.post(BATCH, both.clone()).await.expect_reply(201, json!({"ids": [1, 2]}));
    api.patch(&trial, json!({"items": [{"id": 2, "fields": {"title": "C"}}]}))
        .await
        .expect_reply(200, json!({"ids": [2]}));
    assert_eq!(api.get("/api/object-records/2/").await["fields"]["title"], "B");
    api.delete_all(&trial, json!({"ids": [1, 2]})).await.expect_empty();
    assert_eq!(api.get(RECORDS).await.ids(), [1, 2]);
    server.set_limit("object_records_per_object_class", 3).await;
    let full = message::limit_exceeded("3 Object Records");
    let two = items(&[json!({"title": "A"}), json!({"title": "B"})]);
    api.post(&trial, two.clone()).await.refuses(full.clone());
    api.post(BATCH, two).await.refuses(full);
    let wrong = json!({"dry_run": ["Must be a valid boolean."]});
    api.post(&format!("{BATCH}?dry_run=maybe"), both).await.refuses(wrong);
}

#[tokio::test]
async fn a_trial_refuses_as_the_real_one_and_changes_nothing() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let relation = json!({"label": "Parent", "type": "relation", "related_object_class": 1});
    api.post(FIELDS, relation).await.expect_created();
    let viewer = server.as_type("external").await;
    let set = json!({"name": "Viewers", "permissions": {"object_records": ["view"]}});
    api.post("/api/object-classes/1/record-permission-sets/", set).await.expect_created();
    let body = json!({"items": [
        {"fields": {"title": "A", "number": 1}, "permission_sets": [{"permission_set": 1, "users": [viewer.id]}]},
        {"fields": {"title": "B", "number": 2}},
    ]});
    api.post(BATCH, body).await.expect_reply(201, json!({"ids": [1, 2]}));
    api.patch("/api/object-records/2/", json!({"fields": {"parent": 1}})).await.ok();
    server.advance(SECOND);
    let events = "SELECT count(*) FROM outbox WHERE kind = 'history'";
    let (list, count) = (api.get(RECORDS).await.json, number(&server, events).await);
    let stranger = server.as_type("external").await;
    let wrong = json!({"items": [
        {"id": 1, "fields": {"number": 2, "planet": 1}}, {"id": 1}, {"id": 99}, {}, 7,
        {"id": 2, "fields": {"title": null, "amount": "x"}, "owner": 99},
    ]});
    let (edit, many) = (json!({"items": [{"id": 1, "fields": {"title": "C"}}]}), json!({"items": vec![1; 1001]}));
    for (caller, method, body, status) in [
        (&api, "PATCH", wrong.clone(), 400),
        (&api, "PATCH", json!({"items": [{"id": 1, "fields": {"parent": 2}}]}), 400),
        (&api, "PATCH", many, 400),
        (&api, "PATCH", json!({}), 400),
        (&viewer, "PATCH", edit.clone(), 403),
        (&viewer, "PATCH", wrong, 400),
        (&stranger, "PATCH", edit, 404),
        (&api, "DELETE", json!({"ids": [1]}), 400),
        (&api, "DELETE", json!({"ids": [1, 99, 1, "2"]}), 400),
        (&api, "DELETE", json!({"ids": []}), 400),
        (&api, "DELETE", json!({"ids": vec![1; 1001]}), 400),
        (&viewer, "DELETE", json!({"ids": [1]}), 403),
        (&viewer, "DELETE", json!({"ids": [1, 2]}), 400),
        (&stranger, "DELETE", json!({"ids": [1]}), 404),
    ] {
        let trial = caller.call(method, &format!("{BATCH}?dry_run=true")).json(&body).send().await;
        let real = caller.call(method, BATCH).json(&body).send().await;
        assert_eq!(real.status, status, "{method} {body}: {real:?}");
        trial.expect_reply(real.status, real.json);
    }
    // A valid dry run does not write either.
    let trial = format!("{BATCH}?dry_run=true");
    let items =
        json!({"items": [{"id": 1, "fields": {"title": "C"}, "owner": null}, {"id": 2, "fields": {"parent": null}}]});
    api.patch(&trial, items).await.expect_reply(200, json!({"ids": [1, 2]}));
    api.delete_all(&trial, json!({"ids": [2, 1]})).await.expect_empty();
    for method in ["PATCH", "DELETE"] {
        let reply = api.call(method, &format!("{BATCH}?dry_run=1")).json(&json!({})).send().await;
        reply.refuses(json!({"dry_run": ["Must be a valid boolean."]}));
    }
    api.get(RECORDS).await.expect_reply(200, list);
    assert_eq!(number(&server, events).await, count);
    api.get("/api/object-classes/1/object-records/deleted/").await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn an_owner_counts_where_the_caller_may_change_it() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let (editor, changer) = (server.as_type("external").await, server.as_type("external").await);
    with_class_set(&api, editor.id, json!({"object_records": ["edit"]})).await;
    with_class_set(&api, changer.id, json!({"object_records": ["edit", "edit_owners"]})).await;
    let of = |owner: Value| json!({"fields": {"title": "old"}, "owner": owner});
    let body = json!({"items": [of(json!(1)), of(json!(editor.id)), of(Value::Null)]});
    api.post(BATCH, body).await.expect_reply(201, json!({"ids": [1, 2, 3]}));
    let are = async |titles: [&str; 3], owners: [Option<i64>; 3]| {
        let list = api.get(RECORDS).await;
        let found: Vec<Value> = list.column("owner").iter().map(|owner| owner["id"].clone()).collect();
        assert_eq!(found, owners.map(|owner| json!(owner)));
        let found: Vec<Value> = list.column("fields").iter().map(|fields| fields["title"].clone()).collect();
        assert_eq!(found, titles);
    };
    let item = |id: i64, title: &str, owner: Value| json!({"id": id, "fields": {"title": title}, "owner": owner});
    // The owner is ignored without a check if the caller may only edit. The caller may give away their own record.
    let items = [item(1, "a", json!(editor.id)), item(2, "b", Value::Null), item(3, "c", json!("nobody"))];
    editor.patch(BATCH, json!({"items": items})).await.expect_reply(200, json!({"ids": [1, 2, 3]}));
    are(["a", "b", "c"], [Some(1), None, None]).await;

    // A caller cannot become the owner by a class set alone, and nothing of the request is written.
    let own = item(2, "x", json!(changer.id));
    changer
        .patch(BATCH, json!({"items": [item(1, "x", Value::Null), own]}))
        .await
        .expect_reply(403, message::forbidden());
    let unknown = json!({"id": ["Invalid pk 99 - object does not exist."]});
    changer.patch(BATCH, json!({"items": [own, {"id": 99}]})).await.refuses(json!({"items": {"1": unknown}}));
    let refused = format!("You do not have permission to make user {} the owner of the record.", editor.id);
    changer
        .patch(BATCH, json!({"items": [item(1, "x", Value::Null), item(2, "x", json!(editor.id))]}))
        .await
        .refuses(json!({"items": {"1": {"owner": [refused]}}}));
    are(["a", "b", "c"], [Some(1), None, None]).await;
    changer.patch(BATCH, json!({"items": [item(1, "d", Value::Null)]})).await.expect_reply(200, json!({"ids": [1]}));
    are(["d", "b", "c"], [None, None, None]).await;

    // An owner of the class may become the owner.
    api.post("/api/object-classes/1/owners/", json!([changer.id])).await.expect_created();
    changer.patch(BATCH, json!({"items": [own]})).await.expect_reply(200, json!({"ids": [2]}));
    are(["d", "x", "c"], [None, Some(changer.id), None]).await;
    let told: Vec<(i64, Value)> = history(&server, 2, &[3, 4]).await;
    let told: Vec<(i64, &Value)> = told.iter().map(|(kind, owners)| (*kind, &owners[0]["id"])).collect();
    assert_eq!(told, [(4, &json!(editor.id)), (3, &json!(changer.id))]);
}

#[tokio::test]
async fn a_thousand_records_of_twenty_fields() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let fields: Vec<Value> = (0..20).map(|n| json!({"label": format!("F {n}"), "type": "string"})).collect();
    class(&api, "Wide", json!(fields)).await;
    let item = |n: usize| {
        let fields = (0..20).map(|f| (format!("f_{f}"), json!(format!("value {n} of the field {f}"))));
        json!({"fields": fields.collect::<serde_json::Map<_, _>>()})
    };
    let body = json!({"items": (0..1000).map(item).collect::<Vec<_>>()});
    let ids = api.post(BATCH, body).await.expect_created();
    assert_eq!(ids["ids"].as_array().unwrap().len(), 1000);
    assert_eq!(api.get("/api/object-classes/1/").await["num_of_records"], 1000);
    assert_eq!(api.get(&format!("{RECORDS}?search=value+77+fiel&limit=1")).await["filtered_count"], 1);
    let body = json!({"items": (1..=1000).map(|id| json!({"id": id, "fields": {"f_0": "new"}})).collect::<Vec<_>>()});
    api.patch(BATCH, body).await.ok();
    assert_eq!(api.get(&format!("{RECORDS}?f_0=new&limit=1")).await["filtered_count"], 1000);
    api.delete_all(BATCH, json!({"ids": (1..=1000).collect::<Vec<_>>()})).await.expect_empty();
    assert_eq!(api.get("/api/object-classes/1/").await["num_of_records"], 0);
}
