//! Tests `/api/sequences/` and `/api/sequences/{id}/`.

use crate::TestServer;
use crate::set_up::{SEQUENCES, invoices, on, publish, published, sequence};
use serde_json::json;
use testkit::message;
use testkit::shown::{START, admin, page};

#[tokio::test]
async fn a_draft_is_created_changed_and_deleted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let created = api.post(SEQUENCES, json!({"name": "Approve"})).await;
    let draft = json!({
        "id": 1,
        "name": "Approve",
        "description": "",
        "definition": {"trigger": null, "steps": []},
        "status": "draft",
        "paused_because": "",
        "warning": "",
        "published_version": null,
        "has_changes": true,
        "runs_as": null,
        "trigger_type": null,
        "object_class": null,
        "created_at": START,
        "created_by": admin(),
        "modified_at": START,
        "modified_by": admin(),
        "num_of_runs_in_progress": 0,
        "last_run_at": null,
        "_meta": {
            "permissions": {
                "list": true, "view": true, "edit": true, "delete": true, "publish": true, "pause": true, "start": false,
            },
            "labels": {"object_class": null, "status": "Draft", "trigger_type": null},
        },
        "problems": [
            {"path": "trigger", "message": "This field is required."},
            {"path": "steps", "message": "This list may not be empty."},
        ],
    });
    created.expect_reply(201, draft.clone());
    let mut listed = draft.clone();
    listed.as_object_mut().unwrap().remove("definition");
    listed.as_object_mut().unwrap().remove("problems");
    api.get(SEQUENCES).await.expect_reply(200, page(json!([listed])));
    api.get("/api/sequences/autocomplete/?text__icontains=APPR")
        .await
        .expect_reply(200, page(json!([{"value": 1, "text": "Approve"}])));
    let changed = api.patch("/api/sequences/1/", json!({"description": "Large ones", "status": "running"})).await.ok();
    assert_eq!((&changed["description"], &changed["status"]), (&json!("Large ones"), &json!("draft")));
    api.delete("/api/sequences/1/").await.expect_empty();
    api.get("/api/sequences/1/").await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_body_is_checked() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    sequence(&api, "Approve", json!({})).await;
    api.post(SEQUENCES, json!({})).await.refuses(json!({"name": ["This field is required."]}));
    api.post(SEQUENCES, json!({"name": "approve"})).await.refuses(json!({"name": ["This field must be unique."]}));
    let with = |definition| json!({"name": "Other", "definition": definition});
    api.post(SEQUENCES, with(json!([])))
        .await
        .refuses(json!({"definition": ["Invalid data. Expected a dictionary, but got list."]}));
    api.post(SEQUENCES, with(json!({"trigers": 1})))
        .await
        .refuses(json!({"definition": {"trigers": ["This field does not exist."]}}));
    let long = "a".repeat(256 * 1024);
    api.post(SEQUENCES, with(json!({"steps": long}))).await.refuses(json!({"definition": ["Value is too large."]}));
    let deep = (0..32).fold(json!(1), |inside, _| json!([inside]));
    api.post(SEQUENCES, with(json!({"steps": deep}))).await.refuses(json!({"definition": ["Value is too large."]}));
    // Half-made drafts are kept.
    api.post(SEQUENCES, with(json!({"steps": [{"type": "somersault"}]}))).await.expect_created();
}

#[tokio::test]
async fn a_build_has_at_most_as_many_as_its_limit() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    server.set_limit("sequences", 1).await;
    sequence(&api, "One", json!({})).await;
    api.post(SEQUENCES, json!({"name": "Two"})).await.expect_reply(400, message::limit_exceeded("1 Sequences"));
    let limits = api.get("/api/limits/").await.ok();
    assert_eq!(limits["sequences"], json!({"count": 1, "limit": 1}));
    assert_eq!(limits["additional_limits"]["sequence_steps"], 100);
    assert_eq!(limits["additional_limits"]["sequence_runs_in_progress"], 100_000);
}

#[tokio::test]
async fn a_tag_names_the_state_of_the_draft() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let definition =
        json!({"trigger": on(class, &["created"]), "steps": [{"key": "end", "type": "stop", "as": "completed"}]});
    let id = published(&api, "Count", definition).await;
    let path = format!("{SEQUENCES}{id}/");
    let tag = api.get(&path).await.header("etag").to_owned();
    crate::set_up::record(&api, class, json!({})).await;
    crate::set_up::ended_runs(&api, id, 1).await;
    assert_eq!(api.get(&path).await.header("etag"), tag, "runs do not change the tag");
    let patch = |tag: &str| api.call("PATCH", &path).header("if-match", tag).json(&json!({"description": "x"})).send();
    patch(&tag).await.ok();
    patch(&tag).await.expect_reply(412, message::detail("Object has been changed."));
}

#[tokio::test]
async fn who_may_not_view_one_does_not_find_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let end = json!([{"key": "end", "type": "stop", "as": "completed"}]);
    let id = published(&api, "Count", json!({"trigger": on(class, &["created"]), "steps": end})).await;
    let path = format!("{SEQUENCES}{id}/");
    // Nothing is open to them.
    let other = server.as_type("internal").await;
    other.get(SEQUENCES).await.expect_reply(403, message::forbidden());
    other.get(&path).await.expect_reply(404, message::not_found());
    other.patch(&path, json!({})).await.expect_reply(404, message::not_found());
    // A right to list alone shows nothing.
    let lister = server.with_role(json!({"sequences": ["list"]})).await;
    lister.get(SEQUENCES).await.expect_reply(200, page(json!([])));
    lister.get(&path).await.expect_reply(404, message::not_found());
    let viewer = server.with_role(json!({"sequences": ["view"]})).await;
    assert_eq!(viewer.get(SEQUENCES).await.ids(), [id]);
    assert_eq!(viewer.get(&path).await.ok()["name"], "Count");
    viewer.patch(&path, json!({})).await.expect_reply(403, message::forbidden());
    viewer.delete(&path).await.expect_reply(403, message::forbidden());
    viewer.post(&format!("{path}pause/"), json!({})).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn owners_of_a_class_view_and_pause_what_is_published_about_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let owner = server.as_type("internal").await;
    api.post(&format!("/api/object-classes/{class}/owners/"), json!([owner.id])).await.expect_created();
    let end = json!([{"key": "end", "type": "stop", "as": "completed"}]);
    let definition = json!({"trigger": on(class, &["created"]), "steps": end});
    let id = published(&api, "Count", definition.clone()).await;
    sequence(&api, "A draft about nothing", json!({})).await;
    api.patch(&format!("{SEQUENCES}{id}/"), json!({"definition": {"trigger": null, "steps": []}})).await.ok();
    assert_eq!(owner.get(SEQUENCES).await.ids(), [id]);
    let path = format!("{SEQUENCES}{id}/");
    let seen = owner.get(&path).await.ok();
    assert_eq!(seen["definition"], definition, "the published version stands in place of the draft");
    let permissions = json!({
        "list": true, "view": true, "edit": false, "delete": false, "publish": false, "pause": true, "start": false,
    });
    assert_eq!(seen["_meta"]["permissions"], permissions);
    assert_eq!(owner.post(&format!("{path}pause/"), json!({})).await.ok()["status"], "paused");
    // They take back what they have paused.
    assert_eq!(owner.post(&format!("{path}resume/"), json!({})).await.ok()["status"], "running");
    owner.patch(&path, json!({})).await.expect_reply(403, message::forbidden());
    publish(&owner, id).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn the_schema_document_describes_triggers_and_steps() {
    let server = TestServer::start().await;
    let document = server.admin().await.options(SEQUENCES).await.ok();
    let types = |name: &str| {
        let types = document["details"][name].as_object().unwrap();
        types.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(types("schema_by_trigger_type"), ["record", "task", "schedule", "manual"]);
    assert_eq!(types("schema_by_step_type").len(), 14);
    assert_eq!(document["restrictions"]["limit_items"], 100);
}
