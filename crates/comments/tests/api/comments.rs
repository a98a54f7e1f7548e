//! `/api/object-records/{id}/comments/` and `/api/tasks/{id}/comments/` (`docs/reference/comments.md`).

use crate::TestServer;
use crate::set_up::{COMMENTS, comment, grant, with_record};
use serde_json::json;
use testkit::message;

#[tokio::test]
async fn a_comment_from_its_creation_to_its_deletion() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let record = api.get("/api/object-records/1/").await;
    let reply = api.post(COMMENTS, json!({"text": " First line\nsecond line "})).await;
    let me = api.get("/api/object-records/1/").await.ok()["created_by"].clone();
    let mut shown = json!({
        "id": 1, "text": "First line\nsecond line", "is_internal": false, "reply_to": null, "created_at": testkit::shown::START,
        "created_by": me, "source_type": "user", "edited_at": null, "is_deleted": false, "mentions": [], "reaches": [],
        "_meta": {"permissions": {"edit": true, "delete": true}},
    });
    reply.expect_reply(201, shown.clone());
    let path = format!("{COMMENTS}1/");
    api.get(&path).await.expect_reply(200, shown.clone());
    // A comment changes nothing of its record.
    assert_eq!(api.get("/api/object-records/1/").await.header("etag"), record.header("etag"));

    server.advance(60_000_000);
    let edited = api.patch(&path, json!({"text": "Better"})).await.ok();
    assert_eq!((&edited["text"], edited["edited_at"].is_null()), (&json!("Better"), false));

    api.delete(&path).await.expect(204);
    api.delete(&path).await.expect(204);
    shown = api.get(&path).await.ok();
    assert_eq!((&shown["text"], &shown["is_deleted"]), (&json!(null), &json!(true)));
    api.patch(&path, json!({"text": "Again"})).await.expect_reply(400, message::detail("Action is not available."));
    assert_eq!(api.get(COMMENTS).await.ok()["total_count"], 1);
    // The writer's own deletion is not logged.
    assert_eq!(api.get("/api/administration/log/?resource=comments").await.ok()["filtered_count"], 0);
}

#[tokio::test]
async fn only_the_writer_edits_and_only_for_a_day() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let writer = server.as_type("internal").await;
    let reader = server.as_type("internal").await;
    grant(&api, writer.id, json!(["view"])).await;
    grant(&api, reader.id, json!(["view"])).await;
    let id = comment(&writer, json!({"text": "Mine"})).await;
    let path = format!("{COMMENTS}{id}/");
    for other in [&api, &reader] {
        other.patch(&path, json!({"text": "Yours"})).await.expect_reply(403, message::forbidden());
    }
    reader.delete(&path).await.expect_reply(403, message::forbidden());
    assert_eq!(reader.get(&path).await.ok()["_meta"]["permissions"], json!({"edit": false, "delete": false}));
    server.advance(24 * 3600 * 1_000_000);
    let writer = server.sign_in(&writer.username, testkit::PASSWORD).await;
    writer.patch(&path, json!({"text": "Late"})).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn a_deletion_by_another_account_is_logged() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let writer = server.as_type("internal").await;
    grant(&api, writer.id, json!(["view"])).await;
    let id = comment(&writer, json!({"text": "Mine"})).await;
    api.delete(&format!("{COMMENTS}{id}/")).await.expect(204);
    let log = api.get("/api/administration/log/?resource=comments").await.ok();
    let entry = &log["results"][0];
    assert_eq!(
        (&entry["action"], &entry["object_id"], &entry["object_name"]),
        (&json!("delete"), &json!(id), &json!("#1"))
    );
}

#[tokio::test]
async fn internal_comments_are_for_staff() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let staff = server.as_type("internal").await;
    let customer = server.as_type("external").await;
    grant(&api, staff.id, json!(["view"])).await;
    grant(&api, customer.id, json!(["view"])).await;
    let open = comment(&api, json!({"text": "For all"})).await;
    let internal = comment(&staff, json!({"text": "Among us", "is_internal": true})).await;
    assert_eq!(staff.get(COMMENTS).await.ids(), [open, internal]);
    let seen = customer.get(COMMENTS).await;
    assert_eq!((seen.ids(), &seen.ok()["total_count"]), (vec![open], &json!(1)));
    customer.get(&format!("{COMMENTS}{internal}/")).await.expect_reply(404, message::not_found());
    let unknown = json!({"reply_to": [format!("Invalid pk {internal} - object does not exist.")]});
    customer.post(COMMENTS, json!({"text": "Aha", "reply_to": internal})).await.expect_reply(400, unknown);
    customer
        .post(COMMENTS, json!({"text": "Me too", "is_internal": true}))
        .await
        .expect_reply(403, message::forbidden());
    // A reply to an internal comment is internal.
    let reply = staff.post(COMMENTS, json!({"text": "Yes", "reply_to": internal, "is_internal": false})).await;
    assert_eq!(reply.expect_created()["is_internal"], true);
}

#[tokio::test]
async fn replies_are_to_comments_of_the_same_record() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    api.post("/api/object-classes/1/object-records/", json!({})).await.expect_created();
    let first = comment(&api, json!({"text": "First"})).await;
    let reply = comment(&api, json!({"text": "Reply", "reply_to": first})).await;
    let deleted = comment(&api, json!({"text": "Deleted"})).await;
    api.delete(&format!("{COMMENTS}{deleted}/")).await.expect(204);
    let elsewhere = api.post("/api/object-records/2/comments/", json!({"text": "Elsewhere"})).await.id();
    for id in [reply, deleted, elsewhere, 99] {
        let unknown = json!({"reply_to": [format!("Invalid pk {id} - object does not exist.")]});
        api.post(COMMENTS, json!({"text": "A", "reply_to": id})).await.expect_reply(400, unknown);
    }
    api.get(&format!("{COMMENTS}{elsewhere}/")).await.expect_reply(404, message::not_found());
    assert_eq!(api.get(&format!("{COMMENTS}?reply_to={first}")).await.ids(), [reply]);
    assert_eq!(api.get(&format!("{COMMENTS}?reply_to__isnull=true&ordering=-id")).await.ids(), [deleted, first]);
}

#[tokio::test]
async fn comments_go_and_come_with_their_record() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let id = comment(&api, json!({"text": "Stay"})).await;
    api.delete("/api/object-records/1/").await.expect(204);
    api.get(COMMENTS).await.expect_reply(404, message::not_found());
    api.options(COMMENTS).await.expect_reply(404, message::not_found());
    api.post("/api/object-records/1/restore/", json!({})).await;
    assert_eq!(api.get(COMMENTS).await.ids(), [id]);
}

#[tokio::test]
async fn callers_who_may_not_view_the_record_find_nothing() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let stranger = server.as_type("internal").await;
    let id = comment(&api, json!({"text": "Hidden"})).await;
    let not_found = message::not_found();
    stranger.get(COMMENTS).await.expect_reply(404, not_found.clone());
    stranger.post(COMMENTS, json!({"text": ""})).await.expect_reply(404, not_found.clone());
    stranger.options(COMMENTS).await.expect_reply(404, not_found.clone());
    stranger.get(&format!("{COMMENTS}{id}/")).await.expect_reply(404, not_found);
}

#[tokio::test]
async fn wrong_bodies_are_named() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    for (body, errors) in [
        (json!({}), json!({"text": ["This field is required."]})),
        (json!({"text": null}), json!({"text": ["This field may not be null."]})),
        (json!({"text": "  "}), json!({"text": ["This field may not be blank."]})),
        (
            json!({"text": "x".repeat(10_001)}),
            json!({"text": ["Ensure this field has no more than 10000 characters."]}),
        ),
        (json!({"text": "x", "is_internal": 3}), json!({"is_internal": ["Must be a valid boolean."]})),
    ] {
        api.post(COMMENTS, body).await.expect_reply(400, errors);
    }
}

#[tokio::test]
async fn three_hundred_comments_an_hour() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    for n in 0..300 {
        comment(&api, json!({"text": format!("{n}")})).await;
    }
    let refused = api.post(COMMENTS, json!({"text": "More"})).await;
    refused.expect_reply(429, message::detail("Too many requests."));
    assert_eq!(refused.header("retry-after"), "3600");
    server.advance(3600 * 1_000_000);
    let api = server.sign_in(&api.username, testkit::PASSWORD).await;
    comment(&api, json!({"text": "More"})).await;
}
