//! `/api/object-records/{id}/task-templates/` (`docs/reference/task-templates.md`).

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, form_template, record, update_template};
use serde_json::{Value, json};
use testkit::shown::page;
use testkit::{ApiClient, message};

const HERE: &str = "/api/object-records/1/task-templates/";

/// Grants a user actions on record 1 by a separate record permission set.
async fn grant_on_record(api: &ApiClient, user: i64, permissions: Value) {
    let body = json!({"name": format!("Of {user}"), "permissions": permissions});
    let set = api.post("/api/object-classes/1/record-permission-sets/", body).await.id();
    let assignees = format!("/api/object-records/1/permission-sets/{set}/assignees/");
    api.post(&assignees, json!([user])).await.expect_created();
}

#[tokio::test]
async fn templates_for_a_record_require_tasks_create() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    class(&api, "Invoice").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    update_template(&api, "Change", 1, "manual").await;
    update_template(&api, "Elsewhere", 2, "manual").await;
    update_template(&api, "Always", 1, "automatic").await;
    api.patch(&format!("{TEMPLATES}1/"), json!({"description": "Of customers"})).await.ok();
    let item = |id: i64, name: &str, task_type: &str| json!({"id": id, "name": name, "description": "", "task_type": task_type});
    let mut survey = item(1, "Survey", "tt_form");
    survey["description"] = json!("Of customers");
    let update = "tt_object_record_update";
    let all = page(json!([survey, item(2, "Change", update), item(4, "Always", update)]));
    api.get(HERE).await.expect_reply(200, all.clone());

    // Without the right to edit the record, templates that change it are not listed.
    let clerk = server.as_type("external").await;
    grant_on_record(&api, clerk.id, json!({"tasks": ["create"]})).await;
    clerk.get(HERE).await.expect_reply(200, page(json!([survey])));
    let editor = server.as_type("internal").await;
    grant_on_record(&api, editor.id, json!({"object_records": ["edit"], "tasks": ["create"]})).await;
    editor.get(HERE).await.expect_reply(200, all.clone());
    let owner = server.as_type("internal").await;
    api.patch("/api/object-records/1/", json!({"owner": owner.id})).await.ok();
    owner.get(HERE).await.expect_reply(200, all);
    clerk.get(TEMPLATES).await.expect_reply(403, message::forbidden());

    // The callers may only view the record, or not even view it.
    let viewer = server.as_type("internal").await;
    grant_on_record(&api, viewer.id, json!({"object_records": ["edit"], "tasks": ["view"]})).await;
    viewer.get(HERE).await.expect_reply(403, message::forbidden());
    viewer.options(HERE).await.ok();
    let stranger = server.with_role(json!({"task_templates": ["list", "view", "edit"]})).await;
    for reply in [stranger.get(HERE).await, stranger.options(HERE).await] {
        reply.expect_reply(404, message::not_found());
    }
    api.get("/api/object-records/9/task-templates/").await.expect_reply(404, message::not_found());
    server.anonymous().get(HERE).await.expect_reply(401, message::unauthenticated());
    server.anonymous().options(HERE).await.expect_reply(401, message::unauthenticated());
}

#[tokio::test]
async fn they_are_sorted_and_filtered() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    for name in ["b", "A", "c"] {
        form_template(&api, name).await;
    }
    for (query, names) in [
        ("", vec!["b", "A", "c"]),
        ("?ordering=-id", vec!["c", "A", "b"]),
        ("?ordering=name", vec!["A", "b", "c"]),
        ("?id__gte=2", vec!["A", "c"]),
        ("?name__icontains=a", vec!["A"]),
        ("?task_type=tt_none&description=x", vec!["b", "A", "c"]),
        ("?limit=1&offset=1", vec!["A"]),
    ] {
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        assert_eq!(api.get(&format!("{HERE}{query}")).await.column("name"), names, "{query}");
    }
    api.get(&format!("{HERE}?ordering=task_type"))
        .await
        .refuses(json!({"ordering": ["Select a valid choice. task_type is not one of the available choices."]}));
    let document = api.options(HERE).await.ok();
    let columns = document["list"]["columns"].as_array().unwrap();
    let aliases: Vec<&Value> = columns.iter().map(|column| &column["alias"]).collect();
    assert_eq!(aliases, ["id", "name", "description", "task_type"]);
    assert_eq!(document["details"]["schema"][1]["editable"], false);
}
