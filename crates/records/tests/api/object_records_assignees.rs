//! `/api/object-records/{id}/permission-sets/{id}/assignees/`, and `permission_sets` of a create
//! (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{
    RECORDS, SETS, assignees, group, history, number, record, set, set_limits, sql, users, with_class, with_class_set,
};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, admin, page, user};
use testkit::{ApiClient, SECOND, eventually, send_concurrently};

fn invalid_pk(id: i64) -> Value {
    message::detail(&format!("Invalid pk {id} - object does not exist."))
}

#[tokio::test]
async fn users_are_assigned_and_taken_away() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (set, record_id) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let path = assignees(record_id, set);
    let (ann, ben) = (server.as_type("internal").await, server.as_type("service_external").await);
    let shown = |id: i64, client: &ApiClient, account_type: &str, at: &str| json!({"id": id, "user": user(client, account_type), "created_at": at, "created_by": admin()});
    let first = shown(1, &ann, "internal", START);
    api.post(&path, json!([ann.id])).await.expect_reply(201, json!([first]));
    server.advance(SECOND);
    let second = shown(2, &ben, "service_external", "2026-01-31T09:30:01.000000Z");
    api.post(&path, json!([ben.id, ann.id, ben.id])).await.expect_reply(201, json!([second, first]));
    // Reading requires the right to view the record. There are neither orders nor filters.
    ann.get(&format!("{path}?ordering=-id&user=1")).await.expect_reply(200, page(json!([first, second])));
    assert_eq!(ann.get(RECORDS).await.ids(), [record_id]);

    api.delete_all(&path, json!([1, 99])).await.expect_reply(400, invalid_pk(99));
    api.delete_all(&path, json!([1, 1])).await.expect_empty();
    api.get(&path).await.expect_reply(200, page(json!([second])));
    ann.get(&path).await.expect_reply(403, message::forbidden());
    ann.get(RECORDS).await.expect_reply(404, message::not_found());
    api.delete_all(&path, json!([1])).await.expect_reply(400, invalid_pk(1));

    // Assignees that were present already cause no event.
    let person = |client: &ApiClient, last: &str| {
        let name = format!("{} {last}", client.username.split('@').next().unwrap());
        json!({"id": client.id, "type": "user", "name": name, "permission_set": {"id": set, "name": "Readers"}})
    };
    let expected = [
        (5, json!([person(&ann, "Internal")])),
        (5, json!([person(&ben, "Service External")])),
        (6, json!([person(&ann, "Internal")])),
    ];
    assert_eq!(history(&server, record_id, &[5, 6]).await, expected);
}

#[tokio::test]
async fn groups_are_assigned_and_taken_away() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (set, record_id) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let path = format!("{}user-groups/", assignees(record_id, set));
    let ann = server.as_type("external").await;
    let (team, other) = (group(&api, "Team", &[ann.id]).await, group(&api, "Other", &[]).await);
    let shown = |id: i64, name: &str| json!({"id": id, "name": name, "created_by": admin(), "created_at": START});
    api.post(&path, json!([other])).await.expect_reply(201, json!([shown(other, "Other")]));
    api.post(&path, json!([team, other])).await.expect_reply(201, json!([shown(team, "Team"), shown(other, "Other")]));
    ann.get(&path).await.expect_reply(200, page(json!([shown(other, "Other"), shown(team, "Team")])));
    // A new member of the group sees the record immediately.
    let ben = server.as_type("external").await;
    ben.get(RECORDS).await.expect_reply(404, message::not_found());
    api.post(&format!("/api/user-groups/{team}/members/users/"), json!([ben.id])).await.expect_created();
    assert_eq!(ben.get(RECORDS).await.ids(), [record_id]);
    api.delete_all(&path, json!([team])).await.expect_empty();
    ben.get(RECORDS).await.expect_reply(404, message::not_found());
    api.delete_all(&path, json!([team])).await.expect_reply(400, invalid_pk(team));
    let told =
        json!([{"id": team, "type": "user_group", "name": "Team", "permission_set": {"id": set, "name": "Readers"}}]);
    assert_eq!(history(&server, record_id, &[6]).await, [(6, told)]);
}

#[tokio::test]
async fn assignees_of_a_record_require_edit_owners() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let editors = set(&api, "Editors", json!({"object_records": ["edit"]})).await;
    let record_id = record(&api).await;
    let (stranger, reader, keeper) =
        (server.as_type("internal").await, server.as_type("internal").await, server.as_type("internal").await);
    api.post(&assignees(record_id, readers), json!([reader.id])).await.expect_created();
    with_class_set(&api, keeper.id, json!({"object_records": ["edit_owners"]})).await;
    for end in ["", "user-groups/"] {
        let path = |record: i64, set: i64| format!("{}{end}", assignees(record, set));
        // A hidden record is answered like an unknown one.
        for (caller, id) in [(&stranger, record_id), (&api, 999)] {
            caller.get(&path(id, readers)).await.expect_reply(403, message::forbidden());
            caller.post(&path(id, readers), json!([1])).await.expect_reply(403, message::forbidden());
            caller.delete_all(&path(id, readers), json!([1])).await.expect_reply(403, message::forbidden());
            caller.options(&path(id, readers)).await.expect_reply(404, message::not_found());
        }
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            let reply = api.call(method, &path(record_id, 99)).json(&json!([1])).send().await;
            reply.expect_reply(404, message::not_found());
        }
        reader.post(&path(record_id, readers), json!([1])).await.expect_reply(403, message::forbidden());
        reader.delete_all(&path(record_id, readers), json!([1])).await.expect_reply(403, message::forbidden());
        for method in ["GET", "PATCH", "PUT", "DELETE", "OPTIONS"] {
            let reply = api.call(method, &format!("{}1/", path(record_id, readers))).json(&json!({})).send().await;
            assert_eq!(reply.status, 405, "{method}");
        }
    }
    // The caller needs the actions of a set on the record to assign it.
    keeper.post(&assignees(record_id, readers), json!([keeper.id])).await.expect_created();
    keeper.post(&assignees(record_id, editors), json!([keeper.id])).await.expect_reply(403, message::forbidden());
    let document = reader.options(&assignees(record_id, readers)).await.ok();
    let names: Vec<&Value> = document["list"]["columns"].as_array().unwrap().iter().map(|it| &it["alias"]).collect();
    assert_eq!(names, ["id", "user", "created_at", "created_by"]);
    assert_eq!(document["restrictions"], json!({"limit_items": 100, "limit_items_in_batch": 100}));
    let document = reader.options(&format!("{}user-groups/", assignees(record_id, readers))).await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 10, "limit_items_in_batch": 10}));
}

#[tokio::test]
async fn wrong_ids_are_refused() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (set, one) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let path = assignees(one, set);
    for (body, detail) in [
        (json!([]), "This list may not be empty."),
        (json!({"users": [1]}), "Expected a list of items but got type dict."),
        (json!(["1"]), "Incorrect type. Expected pk value, received str."),
        (json!([999]), "Invalid pk 999 - object does not exist."),
        (json!((1..=101).collect::<Vec<_>>()), "Up to 100 items allowed."),
    ] {
        api.post(&path, body.clone()).await.expect_reply(400, message::detail(detail));
        api.delete_all(&path, body).await.expect_reply(400, message::detail(detail));
    }
    server.account("one_time_completion").await;
    let one_time = api.get("/api/users/?account_type=one_time_completion").await.ids()[0];
    let refused = message::detail(&format!("1 Time Completion account {one_time} cannot be assignee."));
    api.post(&path, json!([one_time])).await.expect_reply(400, refused);
    // The caller cannot assign users that they may not list.
    let external = server.as_type("external").await;
    with_class_set(&api, external.id, json!({"object_records": ["edit_owners"]})).await;
    let detail = "You do not have permission to assign user 1 to the permission set.";
    external.post(&path, json!([1])).await.expect_reply(400, message::detail(detail));
    let team = group(&api, "Team", &[]).await;
    let detail = format!("You do not have permission to assign user group {team} to the permission set.");
    external.post(&format!("{path}user-groups/"), json!([team])).await.expect_reply(400, message::detail(&detail));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_place_is_taken_once() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (set, one) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let path = assignees(one, set);
    let users = users(&api, 120).await;
    api.post(&path, json!(users[..99])).await.expect_created();
    let replies = send_concurrently(users[99..].iter().map(|id| api.call("POST", &path).json(&json!([id])))).await;
    let detail = message::limit_exceeded("100 Permission Set Assignees");
    let refused = replies.iter().filter(|reply| **reply == (400, detail.clone())).count();
    assert_eq!((refused, replies.iter().filter(|reply| reply.status == 201).count()), (20, 1), "{replies:?}");
    // Existing assignees are accepted again. A removal allows a new assignee immediately.
    api.post(&path, json!([users[0]])).await.expect_created();
    api.delete(&format!("/api/users/{}/", users[0])).await.expect_empty();
    let there = api.get(&format!("{path}?limit=200")).await;
    assert_eq!(there["total_count"], 99);
    let next = users[99..].iter().find(|id| !there.column("user").iter().any(|user| user["id"] == json!(id))).unwrap();
    api.post(&path, json!([next])).await.expect_created();
    let mut groups = Vec::new();
    for n in 0..11 {
        groups.push(group(&api, &format!("Group {n}"), &[]).await);
    }
    let path = format!("{path}user-groups/");
    api.post(&path, json!(groups[..10])).await.expect_created();
    let detail = message::limit_exceeded("10 Permission Set Assignees");
    api.post(&path, json!([groups[10]])).await.expect_reply(400, detail);
}

#[tokio::test]
async fn a_changed_limit_holds_at_once() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (set, record_id) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let (people, teams) = (users(&api, 3).await, [group(&api, "A", &[]).await, group(&api, "B", &[]).await]);
    let limits = json!({
        "object_record_permission_set_assignees": 2, "object_record_permission_set_users_groups_assignees": 1,
    });
    set_limits(&server, limits).await;
    for (end, most, in_batch, ids) in [("", 2, 100, &people[..]), ("user-groups/", 1, 10, &teams[..])] {
        let path = format!("{}{end}", assignees(record_id, set));
        let restrictions = json!({"limit_items": most, "limit_items_in_batch": in_batch});
        assert_eq!(api.options(&path).await.ok()["restrictions"], restrictions);
        let exceeded = message::limit_exceeded(&format!("{most} Permission Set Assignees"));
        api.post(&path, json!(ids)).await.expect_reply(400, exceeded);
        api.post(&path, json!(ids[..most])).await.expect_created();
    }
}

#[tokio::test]
async fn assignments_of_what_is_gone_are_removed() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let others = set(&api, "Others", json!({"object_records": ["view"]})).await;
    let ids = users(&api, 3).await;
    let (team, gone) = (group(&api, "Team", &ids).await, group(&api, "Gone", &ids).await);
    for _ in 0..3 {
        let one = record(&api).await;
        for set in [readers, others] {
            api.post(&assignees(one, set), json!(ids)).await.expect_created();
            api.post(&format!("{}user-groups/", assignees(one, set)), json!([team, gone])).await.expect_created();
        }
    }
    assert_eq!(number(&server, "SELECT count(*) FROM record_assignees").await, 30);
    api.delete(&format!("/api/users/{}/", ids[0])).await.expect_empty();
    // A pending account cannot be anonymized, an active one can.
    sql(&server, &["UPDATE users SET status = 'active' WHERE username = 'u1@example.com'"]).await;
    api.post(&format!("/api/users/{}/anonymize/", ids[1]), json!({})).await.ok();
    api.delete(&format!("/api/user-groups/{gone}/")).await.expect_empty();
    api.delete(&format!("{SETS}{others}/")).await.expect_empty();
    // They stop being assignees immediately. The job then removes their rows.
    let there = api.get(&assignees(1, readers)).await;
    assert_eq!(there.column("user").iter().map(|user| user["id"].as_i64().unwrap()).collect::<Vec<_>>(), [ids[2]]);
    assert_eq!(api.get(&format!("{}user-groups/", assignees(1, readers))).await.ids(), [team]);
    eventually(async || number(&server, "SELECT count(*) FROM jobs").await == 0).await;
    assert_eq!(number(&server, "SELECT count(*) FROM record_assignees").await, 6);
    assert_eq!(history(&server, 1, &[6]).await, []);
}

#[tokio::test]
async fn a_record_is_made_with_its_assignees() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let editors = set(&api, "Editors", json!({"object_records": ["edit"]})).await;
    let ann = server.as_type("external").await;
    let team = group(&api, "Team", &[ann.id]).await;
    let entries = json!([
        {"permission_set": readers, "users": [ann.id, 1, ann.id], "user_groups": [team]},
        {"permission_set": editors, "users": [ann.id]},
        {"permission_set": readers, "users": [ann.id]},
    ]);
    let reply = api.post(RECORDS, json!({"permission_sets": entries})).await;
    reply.expect_created();
    let record_id = reply.id();
    let shown = api.get(&assignees(record_id, readers)).await;
    assert_eq!(shown.column("user").iter().map(|user| user["id"].as_i64().unwrap()).collect::<Vec<_>>(), [ann.id, 1]);
    assert_eq!(api.get(&format!("{}user-groups/", assignees(record_id, readers))).await.ids(), [team]);
    assert_eq!(ann.get(RECORDS).await.ids(), [record_id]);
    ann.patch(&format!("/api/object-records/{record_id}/"), json!({"fields": {}})).await.ok();
    let told = history(&server, record_id, &[1, 2, 5]).await;
    assert_eq!(told.iter().map(|(event_type, _)| *event_type).collect::<Vec<_>>(), [1, 2, 5]);
    let of = |place: usize| (told[2].1[place]["id"].clone(), told[2].1[place]["permission_set"]["id"].clone());
    assert_eq!(
        (0..4).map(of).collect::<Vec<_>>(),
        [
            (json!(ann.id), json!(readers)),
            (json!(1), json!(readers)),
            (json!(team), json!(readers)),
            (json!(ann.id), json!(editors)),
        ]
    );

    let nobody = "Invalid pk 999 - object does not exist.";
    for (permission_sets, errors) in [
        (json!(null), json!(["This field may not be null."])),
        (json!({}), json!(["Expected a list of items but got type dict."])),
        (json!(vec![json!({"permission_set": readers}); 11]), json!(["Up to 10 items allowed."])),
        (json!([5]), json!({"0": ["Invalid data. Expected a dictionary, but got int."]})),
        (json!([{"users": [1]}]), json!({"0": ["This field is required."]})),
        (json!([{"permission_set": "1"}]), json!({"0": ["Incorrect type. Expected pk value, received str."]})),
        (
            json!([{"permission_set": readers, "users": [1]}, {"permission_set": 999}, {"permission_set": readers, "users": [999]}]),
            json!({"1": [nobody], "2": [nobody]}),
        ),
        (
            json!([{"permission_set": readers, "users": 1}]),
            json!({"0": ["Expected a list of items but got type int."]}),
        ),
        (json!([{"permission_set": readers, "users": []}]), json!({"0": ["This list may not be empty."]})),
        (
            json!([{"permission_set": readers, "user_groups": (1..12).collect::<Vec<_>>()}]),
            json!({"0": ["Up to 10 items allowed."]}),
        ),
        (json!([{"permission_set": readers, "user_groups": [999]}]), json!({"0": [nobody]})),
    ] {
        api.post(RECORDS, json!({"permission_sets": permission_sets}))
            .await
            .refuses(json!({"permission_sets": errors}));
    }
    api.post(RECORDS, json!({"permission_sets": []})).await.expect_created();
    sql(&server, &["INSERT INTO limits(name, value) VALUES ('object_record_permission_set_assignees', 1)"]).await;
    let detail = message::limit_exceeded("1 Permission Set Assignees");
    let two = json!([{"permission_set": readers, "users": [1]}, {"permission_set": readers, "users": [ann.id]}]);
    api.post(RECORDS, json!({"permission_sets": two})).await.expect_reply(400, detail);
    assert_eq!(number(&server, "SELECT count(*) FROM record_assignees").await, 4);
}

#[tokio::test]
async fn assignments_in_a_create_require_ownership_or_edit_owners() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let editors = set(&api, "Editors", json!({"object_records": ["edit"], "tasks": ["view"]})).await;
    let (maker, keeper) = (server.as_type("internal").await, server.as_type("internal").await);
    with_class_set(&api, maker.id, json!({"object_records": ["create"]})).await;
    with_class_set(&api, keeper.id, json!({"object_records": ["create", "edit_owners", "edit"]})).await;
    let body =
        |owner: Value| json!({"owner": owner, "permission_sets": [{"permission_set": editors, "users": [maker.id]}]});
    // An owner can grant all actions. Another caller can grant only their own actions.
    maker.post(RECORDS, body(json!(maker.id))).await.expect_created();
    maker.post(RECORDS, body(json!(1))).await.expect_reply(403, message::forbidden());
    maker.post(RECORDS, body(json!(null))).await.expect_reply(403, message::forbidden());
    keeper.post(RECORDS, body(json!(keeper.id))).await.expect_created();
    keeper.post(RECORDS, body(json!(null))).await.expect_reply(403, message::forbidden());
    api.patch(&format!("{SETS}{editors}/"), json!({"permissions": {"tasks": []}})).await.ok();
    keeper.post(RECORDS, body(json!(null))).await.expect_created();
    maker.post(RECORDS, json!({"owner": 1, "permission_sets": []})).await.expect_created();
}

#[tokio::test]
async fn many_assignments_of_several_classes_are_removed_in_pages() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    api.post("/api/object-classes/", json!({"name": "Other"})).await.expect_created();
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let (one, ann) = (record(&api).await, server.as_type("internal").await);
    api.post(&assignees(one, readers), json!([ann.id])).await.expect_created();
    // The records belong to class 1 and 2 alternately. They have no rows in their tables, which the removal does not read.
    sql(
        &server,
        &[
            "INSERT INTO records(id, class_id) WITH RECURSIVE c(n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM c WHERE n < 2599) \
             SELECT n, 1 + n % 2 FROM c",
            "INSERT INTO record_assignees(record, permission_set, principal, n, created_at) \
             SELECT r.id, 1, (SELECT max(u.id) FROM users u), r.id, 0 FROM records r WHERE r.id >= 100",
        ],
    )
    .await;
    const VERSIONS: &str = "SELECT CAST(sum(v.version) AS BIGINT) FROM record_viewers v WHERE v.principal = (SELECT max(u.id) FROM users u)";
    let before = number(&server, VERSIONS).await;
    api.delete(&format!("/api/users/{}/", ann.id)).await.expect_empty();
    eventually(async || number(&server, "SELECT count(*) FROM jobs").await == 0).await;
    assert_eq!(number(&server, "SELECT count(*) FROM record_assignees").await, 0);
    assert!(number(&server, VERSIONS).await >= before + 3);
}

#[tokio::test]
async fn records_of_a_batch_are_made_with_their_assignees() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let ids = users(&api, 3).await;
    let ann = server.as_type("external").await;
    let batch = format!("{RECORDS}batch/");
    let item = |users: Value| json!({"permission_sets": [{"permission_set": readers, "users": users}]});
    let items = json!([item(json!([1])), item(json!([999])), {}, {"permission_sets": [{"permission_set": 9}]}]);
    let nobody = |id: i64| json!({"permission_sets": {"0": [format!("Invalid pk {id} - object does not exist.")]}});
    api.post(&batch, json!({"items": items})).await.refuses(json!({"items": {"1": nobody(999), "3": nobody(9)}}));
    assert_eq!(number(&server, "SELECT count(*) FROM records").await, 0);

    let all: Vec<Value> = (0..1000).map(|n| item(json!([ids[n % 3], ann.id]))).collect();
    let made = api.post(&batch, json!({"items": all})).await.expect_created();
    assert_eq!(number(&server, "SELECT count(*) FROM record_assignees").await, 2000);
    let seen = ann.get(&format!("{RECORDS}?limit=1")).await;
    assert_eq!((seen.ids(), seen["total_count"].clone()), (vec![made["ids"][0].as_i64().unwrap()], json!(1000)));
    // The total is limited, because a short body can contain many assignments.
    let mut sets = vec![readers];
    for n in 0..4 {
        sets.push(set(&api, &format!("Set {n}"), json!({"object_records": ["view"]})).await);
    }
    let everybody = json!([1, ids[0], ids[1], ids[2], ann.id]);
    let entries: Vec<Value> = sets.iter().map(|set| json!({"permission_set": set, "users": everybody})).collect();
    let full = message::limit_exceeded("20000 Assignments");
    let many = vec![json!({"permission_sets": entries}); 801];
    api.post(&batch, json!({"items": many})).await.refuses(full);
    assert_eq!(number(&server, "SELECT count(*) FROM record_assignees").await, 2000);
    // Without the right for one of the records, no assignment of the batch is written.
    with_class_set(&api, ann.id, json!({"object_records": ["create"]})).await;
    let mixed =
        json!([item(json!([1])), {"owner": 1, "permission_sets": [{"permission_set": readers, "users": [ann.id]}]}]);
    ann.post(&batch, json!({"items": mixed})).await.expect_reply(403, message::forbidden());
}
