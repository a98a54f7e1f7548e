//! `/api/object-records/{id}/owners/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, assignees, history, record, set, set_limits, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, page, user};
use testkit::{ApiClient, send_concurrently};

fn owners(record: i64) -> String {
    format!("/api/object-records/{record}/owners/")
}

/// Creates a record of class 1 without an owner and returns its id.
async fn without_owner(api: &ApiClient) -> i64 {
    api.post(RECORDS, json!({"owner": null})).await.id()
}

#[tokio::test]
async fn a_record_has_one_owner_or_none() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let record_id = without_owner(&api).await;
    let (ann, ben) = (server.as_type("internal").await, server.as_type("external").await);
    api.get(&owners(record_id)).await.expect_reply(200, page(json!([])));
    let added = api.post(&owners(record_id), json!([ann.id])).await;
    let id = added.id();
    let shown = json!({
        "id": id, "owner_id": ann.id, "type": "user", "name": "internal Internal", "created_at": START,
        "created_by": "admin Super Admin", "user": user(&ann, "internal"),
    });
    added.expect_reply(201, shown.clone());
    // The current owner is accepted, and duplicates of the id count once. A second owner is refused.
    api.post(&owners(record_id), json!([ann.id])).await.expect_reply(201, shown.clone());
    api.post(&owners(record_id), json!([ann.id, ann.id])).await.expect_reply(201, shown.clone());
    api.post(&owners(record_id), json!([ben.id]))
        .await
        .expect_reply(400, message::limit_exceeded("1 Object Record Owners"));
    ann.get(&owners(record_id)).await.expect_reply(200, page(json!([shown])));
    for query in ["ordering=-name", "owner_id=2&ordering=id", "name__icontains=INTERN", "created_by=1"] {
        assert_eq!(ann.get(&format!("{}?{query}", owners(record_id))).await.ids(), [id], "{query}");
    }
    assert_eq!(ann.get(&format!("{}?owner_id=1", owners(record_id))).await["filtered_count"], 0);
    let path = format!("{}{id}/", owners(record_id));
    api.get(&path).await.expect_reply(405, message::detail("Method \"GET\" not allowed."));
    api.delete(&format!("{}{}/", owners(record_id), id + 1)).await.expect_reply(404, message::not_found());
    ann.delete(&path).await.expect_empty();
    ann.get(&owners(record_id)).await.expect_reply(404, message::not_found());
    api.delete(&path).await.expect_reply(404, message::not_found());
    api.get(&owners(record_id)).await.expect_reply(200, page(json!([])));
    // Ids of ownerships are unique in the build.
    assert_ne!(api.post(&owners(record_id), json!([ben.id])).await.id(), id);
    assert_eq!(ben.get(RECORDS).await.ids(), [record_id]);
    let person = |client: &ApiClient, name: &str| json!([{"id": client.id, "type": "user", "name": name}]);
    let (ann, ben) = (person(&ann, "internal Internal"), person(&ben, "external External"));
    assert_eq!(history(&server, record_id, &[3, 4]).await, [(3, ann.clone()), (4, ann), (3, ben)]);
}

#[tokio::test]
async fn a_change_of_the_record_changes_its_owner() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let record_id = record(&api).await;
    let ann = server.as_type("internal").await;
    for owner in [json!(ann.id), json!(ann.id), Value::Null] {
        api.patch(&format!("/api/object-records/{record_id}/"), json!({"owner": owner})).await.ok();
    }
    let admin = json!([{"id": 1, "type": "user", "name": "admin Super Admin"}]);
    let ann = json!([{"id": ann.id, "type": "user", "name": "internal Internal"}]);
    let told = [(2, admin.clone()), (4, admin), (3, ann.clone()), (4, ann)];
    assert_eq!(history(&server, record_id, &[2, 3, 4, 7]).await, told);
}

#[tokio::test]
async fn the_creator_of_a_record_owns_it_except_service_accounts() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    for account_type in ["internal", "external", "full", "super_admin", "service_internal", "service_external"] {
        let maker = server.as_type(account_type).await;
        with_class_set(&api, maker.id, json!({"object_records": ["create", "view"]})).await;
        let by = user(&maker, account_type);
        let is_service = account_type.starts_with("service");
        let first = if is_service { Value::Null } else { by.clone() };
        let made = maker.post(RECORDS, json!({})).await;
        assert_eq!((&made.expect_created()["owner"], &made["created_by"]), (&first, &by), "{account_type}");
        assert_eq!(history(&server, made.id(), &[2]).await.len(), usize::from(!is_service), "{account_type}");
        // Every caller may send their own id, or null.
        let items = json!({"items": [{}, {"owner": maker.id}, {"owner": null}]});
        let ids = maker.post(BATCH, items).await.expect_created()["ids"].clone();
        for (id, owner) in ids.as_array().unwrap().iter().zip([first, by, Value::Null]) {
            assert_eq!(api.get(&format!("/api/object-records/{id}/")).await["owner"], owner, "{account_type}");
        }
    }
}

#[tokio::test]
async fn a_higher_limit_makes_no_room_for_a_second_owner() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    set_limits(&server, json!({"object_record_owners": 3})).await;
    let (record_id, ann) = (record(&api).await, server.as_type("internal").await);
    api.post(&owners(record_id), json!([ann.id]))
        .await
        .expect_reply(400, message::limit_exceeded("1 Object Record Owners"));
    api.post(&owners(record_id), json!([1, ann.id])).await.expect_reply(400, message::detail("Up to 1 item allowed."));
    assert_eq!(api.get(&owners(record_id)).await.column("owner_id"), [1]);
    let restrictions = json!({"limit_items": 1, "limit_items_in_batch": 1});
    assert_eq!(api.options(&owners(record_id)).await.ok()["restrictions"], restrictions);
}

#[tokio::test]
async fn owners_of_a_record_require_edit_owners() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let editors = set(&api, "Editors", json!({"object_records": ["edit", "delete"]})).await;
    let record_id = without_owner(&api).await;
    let (stranger, editor, keeper) =
        (server.as_type("internal").await, server.as_type("internal").await, server.as_type("internal").await);
    api.post(&assignees(record_id, editors), json!([editor.id])).await.expect_created();
    with_class_set(&api, keeper.id, json!({"object_records": ["edit_owners"]})).await;
    for (caller, id) in [(&stranger, record_id), (&api, 999)] {
        let unknown = format!("Invalid pk {id} - object does not exist.");
        caller.post(&owners(id), json!([1])).await.expect_reply(400, message::detail(&unknown));
        caller.get(&owners(id)).await.expect_reply(404, message::not_found());
        caller.options(&owners(id)).await.expect_reply(404, message::not_found());
        caller.delete(&format!("{}1/", owners(id))).await.expect_reply(404, message::not_found());
    }
    let large = "/api/object-records/99999999999999999999/owners/";
    api.post(large, json!([1]))
        .await
        .expect_reply(400, message::detail("Invalid pk 99999999999999999999 - object does not exist."));
    // `edit` is not enough.
    editor.get(&owners(record_id)).await.ok();
    editor.post(&owners(record_id), json!([editor.id])).await.expect_reply(403, message::forbidden());
    // A caller cannot become the owner by a class set alone.
    keeper.post(&owners(record_id), json!([keeper.id])).await.expect_reply(403, message::forbidden());
    let role = server.with_role(json!({"object_records": ["edit_owners"], "users": ["list"]})).await;
    role.post(&owners(record_id), json!([role.id])).await.expect_reply(403, message::forbidden());
    let id = keeper.post(&owners(record_id), json!([editor.id])).await.id();
    editor.delete(&format!("{}{id}/", owners(record_id))).await.expect_empty();
    // Owners of the class and super admins may become owners.
    api.post("/api/object-classes/1/owners/", json!([editor.id])).await.expect_created();
    editor.post(&owners(record_id), json!([editor.id])).await.expect_created();
    let document = editor.options(&owners(record_id)).await.ok();
    let names: Vec<&Value> = document["list"]["columns"].as_array().unwrap().iter().map(|it| &it["alias"]).collect();
    assert_eq!(names, ["id", "owner_id", "name", "created_at", "created_by"]);
    assert_eq!(document["restrictions"], json!({"limit_items": 1, "limit_items_in_batch": 1}));
    assert!(document["batch"]["autocomplete"].as_str().unwrap().contains("account_type__exclude=one_time_completion"));
}

#[tokio::test]
async fn wrong_bodies_are_refused() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let record_id = without_owner(&api).await;
    server.account("one_time_completion").await;
    let one_time = api.get("/api/users/?account_type=one_time_completion").await.ids()[0];
    for (body, detail) in [
        (json!([]), "This list may not be empty.".to_owned()),
        (json!({}), "Expected a list of items but got type dict.".to_owned()),
        (json!(["1"]), "Incorrect type. Expected pk value, received str.".to_owned()),
        (json!([1, 2]), "Up to 1 item allowed.".to_owned()),
        (json!([999]), "Invalid pk 999 - object does not exist.".to_owned()),
        (json!([one_time]), format!("1 Time Completion account {one_time} cannot be owner.")),
    ] {
        api.post(&owners(record_id), body).await.expect_reply(400, message::detail(&detail));
    }
    // Errors of the record's id are reported too.
    for (record, detail) in [
        ("abc", "Incorrect type. Expected pk value, received str."),
        ("999", "Invalid pk 999 - object does not exist."),
    ] {
        let path = format!("/api/object-records/{record}/owners/");
        api.post(&path, json!([1])).await.expect_reply(400, message::detail(detail));
        api.get(&path).await.expect_reply(404, message::not_found());
        api.options(&path).await.expect_reply(404, message::not_found());
    }
    let external = server.as_type("external").await;
    with_class_set(&api, external.id, json!({"object_records": ["edit_owners"]})).await;
    let detail = "You do not have permission to make user 1 the owner of the record.";
    external.post(&owners(record_id), json!([1])).await.expect_reply(400, message::detail(detail));
}

#[tokio::test]
async fn an_account_that_is_gone_takes_no_place() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let ann = server.as_type("internal").await;
    let record_id = record(&ann_with_create(&api, &ann).await).await;
    assert_eq!(api.get(&owners(record_id)).await.column("owner_id"), [json!(ann.id)]);
    let id = api.get(&owners(record_id)).await.ids()[0];
    api.delete(&format!("/api/users/{}/", ann.id)).await.expect_empty();
    // The record still names the account as its owner, but the account owns nothing.
    let shown = api.get(&format!("/api/object-records/{record_id}/")).await.ok();
    assert_eq!((&shown["owner"]["id"], &shown["owner"]["is_deleted"]), (&json!(ann.id), &json!(true)));
    api.get(&owners(record_id)).await.expect_reply(200, page(json!([])));
    api.delete(&format!("{}{id}/", owners(record_id))).await.expect_reply(404, message::not_found());
    api.post(&owners(record_id), json!([1])).await.expect_created();
    assert_eq!(api.get(&format!("/api/object-records/{record_id}/")).await["owner"]["id"], 1);
}

async fn ann_with_create(api: &ApiClient, ann: &ApiClient) -> ApiClient {
    with_class_set(api, ann.id, json!({"object_records": ["create"]})).await;
    ann.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_becomes_the_owner() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let mut users = Vec::new();
    for _ in 0..10 {
        users.push(server.as_type("internal").await.id);
    }
    for _ in 0..testkit::rounds(2) {
        let record_id = without_owner(&api).await;
        let path = owners(record_id);
        let calls = (0..60).map(|n| api.call("POST", &path).json(&json!([users[n % 10]])));
        let replies = send_concurrently(calls).await;
        let owner = api.get(&path).await.column("owner_id");
        assert_eq!(owner.len(), 1);
        for reply in replies {
            // The current owner is accepted.
            match reply.status {
                201 => assert_eq!(reply["owner_id"], owner[0]),
                _ => reply.expect_reply(400, message::limit_exceeded("1 Object Record Owners")),
            }
        }
        assert_eq!(history(&server, record_id, &[3]).await.len(), 1);
    }
}
