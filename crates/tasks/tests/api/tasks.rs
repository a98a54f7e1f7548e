//! `/api/tasks/` (`docs/reference/tasks.md`): bodies, lists, changes and deletions of tasks.

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, form_template, grant_on_record, record, update_template};
use serde_json::{Value, json};
use testkit::shown::{START, admin, page};
use testkit::{ApiClient, UUID, message};

const TASKS: &str = "/api/tasks/";

/// A task without a record in the view of its creator.
fn task_json(id: i64, name: &str) -> Value {
    json!({
        "id": id, "name": name, "description": "", "instructions": "", "task_template": 1, "object_record": null,
        "status": "open", "assignees": [], "assignee_groups": [], "due_at": START, "expires_at": null,
        "completed_at": null, "completed_by": null, "response": null, "comment": null, "approval": null,
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {
            "permissions": {"view": true, "edit": true, "delete": true, "complete": true, "assign": true},
            "labels": {"object_record": null, "task_template": "Survey"},
        },
    })
}

fn with_form(mut task: Value) -> Value {
    task["form"] = json!({
        "task_type": "tt_form", "prompt": "", "allow_comment": true, "approval_required": false,
        "approval_conditions": [], "configuration": {},
    });
    task
}

/// Creates a task and returns its id.
async fn create_task(api: &ApiClient, body: Value) -> i64 {
    let task = api.post(TASKS, body).await;
    task.expect_created();
    task.id()
}

#[tokio::test]
async fn a_task_without_a_record_is_made_listed_changed_and_deleted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    form_template(&api, "Survey").await;
    api.post(
        TASKS,
        json!({"task_template": 1, "due_at": START, "description": "ignored", "id": 7, "status": "completed"}),
    )
    .await
    .expect_reply(201, with_form(task_json(1, "Survey")));
    create_task(&api, json!({"task_template": 1, "name": "  Another "})).await;
    api.get(TASKS).await.expect_reply(200, page(json!([task_json(1, "Survey"), task_json(2, "Another")])));
    api.get("/api/tasks/2/").await.expect_reply(200, with_form(task_json(2, "Another")));

    server.advance(1_000_000);
    let body = json!({
        "name": "Later", "description": "When there is time", "due_at": "2026-03-01T00:00:00+01:00",
        "expires_at": "2027-01-01", "task_template": 9, "object_record": 9, "status": "canceled", "response": 1,
    });
    let mut changed = task_json(2, "Later");
    changed["description"] = json!("When there is time");
    changed["due_at"] = json!("2026-02-28T23:00:00.000000Z");
    changed["expires_at"] = json!("2027-01-01T00:00:00.000000Z");
    changed["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    let reply = api.patch("/api/tasks/2/", body).await;
    reply.expect_reply(200, with_form(changed.clone()));
    api.get("/api/tasks/2/").await.expect_reply(200, with_form(changed));
    let entries = api.get("/api/tasks/2/log/").await.ok()["results"].clone();
    assert_eq!(
        entries[0]["changes"],
        json!({
            "name": ["Another", "Later"], "description": ["", "When there is time"],
            "due_at": [START, "2026-02-28T23:00:00.000000Z"], "expires_at": [null, "2027-01-01T00:00:00.000000Z"],
        })
    );
    assert_eq!((entries[0]["action"].clone(), entries[1]["action"].clone()), (json!("edit"), json!("create")));
    api.patch("/api/tasks/2/", json!({"due_at": null, "expires_at": null})).await.ok();
    assert_eq!(api.get("/api/tasks/2/").await.ok()["due_at"], Value::Null);

    let tag = reply.header("etag").to_owned();
    let stale = json!({"detail": "Object has been changed."});
    api.call("PATCH", "/api/tasks/2/")
        .header("if-match", &tag)
        .json(&json!({"name": "x"}))
        .send()
        .await
        .expect_reply(412, stale.clone());
    api.call("DELETE", "/api/tasks/2/").header("if-match", &tag).send().await.expect_reply(412, stale);
    api.delete("/api/tasks/2/").await.expect_empty();
    for reply in [api.get("/api/tasks/2/").await, api.delete("/api/tasks/2/").await, api.get("/api/tasks/2/log/").await]
    {
        reply.expect_reply(404, message::not_found());
    }
    let template = api.get(&format!("{TEMPLATES}1/")).await.ok();
    assert_eq!((&template["num_of_tasks_created"], &template["last_task_created"]), (&json!(2), &json!(START)));
}

#[tokio::test]
async fn labels_name_what_the_caller_may_see() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    api.patch("/api/object-classes/1/", json!({"label_field": "title"})).await.ok();
    record(&api, 1).await;
    let called = async |title: &str| {
        api.patch("/api/object-records/1/", json!({"fields": {"title": title}})).await.ok();
    };
    called("Order 17").await;
    form_template(&api, "Survey").await;
    let [clerk, viewer, maker] =
        [server.as_type("internal").await, server.as_type("internal").await, server.as_type("internal").await];
    let reader = server.with_role(json!({"task_templates": ["list"]})).await;
    grant_on_record(&api, viewer.id, json!({"object_records": ["view"], "tasks": ["view"]})).await;
    grant_on_record(&api, maker.id, json!({"tasks": ["view", "create"]})).await;
    create_task(&api, json!({"task_template": 1, "object_record": 1, "assignees": [clerk.id, reader.id]})).await;
    let labels = async |caller: &ApiClient| {
        let (one, list) = (caller.get("/api/tasks/1/").await, caller.get(TASKS).await);
        assert_eq!(one.ok()["_meta"]["labels"], list.ok()["results"][0]["_meta"]["labels"], "{}", caller.username);
        let labels = one["_meta"]["labels"].clone();
        (labels["object_record"].clone(), labels["task_template"].clone())
    };
    for (caller, record, template) in [
        (&api, json!("Order 17"), json!("Survey")),
        (&viewer, json!("Order 17"), json!(null)),
        // A caller who may create tasks of a record may see the names of templates.
        (&maker, json!("Order 17"), json!("Survey")),
        (&reader, json!(null), json!("Survey")),
        (&clerk, json!(null), json!(null)),
    ] {
        assert_eq!(labels(caller).await, (record, template), "{}", caller.username);
    }
    // The label of a record is not part of the state of its tasks.
    let tag = api.get("/api/tasks/1/").await.header("etag").to_owned();
    called("Order 18").await;
    assert_eq!(labels(&api).await, (json!("Order 18"), json!("Survey")));
    let change = api.call("PATCH", "/api/tasks/1/").header("if-match", &tag).json(&json!({"name": "Again"}));
    assert_eq!(change.send().await.ok()["_meta"]["labels"]["object_record"], "Order 18");
    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    assert_eq!(labels(&api).await, (json!("Order 18"), json!(null)));
}

#[tokio::test]
async fn all_errors_of_a_new_task_are_reported_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    class(&api, "Invoice").await;
    form_template(&api, "Survey").await;
    update_template(&api, "Change", 1, "manual").await;
    let order = record(&api, 1).await;
    let invoice = record(&api, 2).await;
    let pk = |id: i64| format!("Invalid pk {id} - object does not exist.");
    for (body, errors) in [
        (json!({}), json!({"task_template": ["This field is required."]})),
        (
            json!({"task_template": null, "name": "", "assignees": null, "assignee_groups": 1}),
            json!({
                "name": ["This field may not be blank."], "task_template": ["This field may not be null."],
                "assignees": ["This field may not be null."],
                "assignee_groups": ["Expected a list of items but got type int."],
            }),
        ),
        (
            json!({"task_template": "1", "object_record": "x", "name": "n".repeat(101), "assignees": ["a"]}),
            json!({
                "name": ["Ensure this field has no more than 100 characters."],
                "task_template": ["Incorrect type. Expected pk value, received str."],
                "object_record": ["Incorrect type. Expected pk value, received str."],
                "assignees": ["Incorrect type. Expected pk value, received str."],
            }),
        ),
        (
            json!({"task_template": 9, "object_record": 99, "assignees": [98], "assignee_groups": [97]}),
            json!({
                "task_template": [pk(9)], "object_record": [pk(99)], "assignees": [pk(98)], "assignee_groups": [pk(97)],
            }),
        ),
        (json!({"task_template": 2}), json!({"object_record": ["This field is required."]})),
        (
            json!({"task_template": 2, "object_record": invoice}),
            json!({"non_field_errors": ["Record and task template must belong to the same object class."]}),
        ),
        (
            json!({"task_template": 1, "assignees": (1..=101).collect::<Vec<i64>>()}),
            json!({"assignees": ["Up to 100 items allowed."]}),
        ),
        (
            json!({"task_template": 1, "assignee_groups": (1..=11).collect::<Vec<i64>>()}),
            json!({"assignee_groups": ["Up to 10 items allowed."]}),
        ),
        (json!([]), json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got list."]})),
    ] {
        api.post(TASKS, body).await.refuses(errors);
    }
    create_task(&api, json!({"task_template": 2, "object_record": order, "assignees": [1, 1], "assignee_groups": []}))
        .await;
    assert_eq!(api.get(TASKS).await.ids(), [1]);
    for path in ["/api/tasks/9/", &format!("/api/tasks/{UUID}/")] {
        api.get(path).await.expect_reply(404, message::not_found());
    }
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_counted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    form_template(&api, "Survey").await;
    form_template(&api, "Check").await;
    let order = record(&api, 1).await;
    let ann = server.as_type("internal").await;
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([ann.id])).await.expect_created();
    for (template, name, body) in [
        (1, "b", json!({"assignees": [1]})),
        (1, "a", json!({"assignees": [1, ann.id]})),
        (2, "d", json!({"assignee_groups": [group]})),
        (2, "C", json!({"object_record": order})),
    ] {
        server.advance(60_000_000);
        let mut body = body;
        (body["task_template"], body["name"]) = (json!(template), json!(name));
        create_task(&api, body).await;
    }
    api.post("/api/tasks/1/cancel/", json!({})).await.ok();
    api.patch("/api/tasks/2/", json!({"due_at": null})).await.ok();
    for (query, ids) in [
        ("", vec![1, 2, 3, 4]),
        ("ordering=name", vec![2, 1, 4, 3]),
        ("ordering=-due_at", vec![4, 3, 1, 2]),
        ("ordering=status,-id", vec![1, 4, 3, 2]),
        ("ordering=-created_at", vec![4, 3, 2, 1]),
        ("status=open", vec![2, 3, 4]),
        ("status__in=canceled,completed", vec![1]),
        ("name__icontains=c", vec![4]),
        ("name=C", vec![4]),
        ("id__gt=2", vec![3, 4]),
        ("task_template=2", vec![3, 4]),
        ("task_template__in=1,2&status=canceled", vec![1]),
        ("object_record=1", vec![4]),
        ("due_at__isnull=true", vec![2]),
        ("due_at__lt=2026-01-31T09:32:00Z", vec![1]),
        ("created_at__gte=2026-01-31T09:33:00Z", vec![3, 4]),
        ("assignees=1", vec![1, 2]),
        ("assignees=me", vec![1, 2]),
        ("assignees__in=me,2", vec![1, 2]),
        ("assignees=1&assignees=2", vec![2]),
        ("assignees=77", vec![]),
        ("search=x&nonsense=1", vec![1, 2, 3, 4]),
    ] {
        let reply = api.get(&format!("{TASKS}?{query}")).await;
        assert_eq!(reply.ids(), ids, "{query}");
        assert_eq!(
            (&reply.json["total_count"], &reply.json["filtered_count"]),
            (&json!(4), &json!(ids.len())),
            "{query}"
        );
    }
    // One task is assigned to the caller directly, the other one through a group.
    let mine = ann.get(&format!("{TASKS}?assignees=me&ordering=-id&limit=1")).await;
    assert_eq!((mine.ids(), mine.json["filtered_count"].clone()), (vec![3], json!(2)));
    assert_eq!(ann.get(&format!("{TASKS}?assignees=1")).await.ids(), [2]);
    assert_eq!(mine.json["next"], "http://a.example/api/tasks/?limit=1&offset=1&assignees=me&ordering=-id");
    let choice = |value: &str| format!("Select a valid choice. {value} is not one of the available choices.");
    for (query, errors) in [
        ("ordering=response", json!({"ordering": [choice("response")]})),
        ("status=done", json!({"status": [choice("done")]})),
        ("assignees=you", json!({"assignees": [choice("you")]})),
        ("assignees__gt=1", json!({"assignees__gt": [choice("gt")]})),
        ("assignees__in=1,x", json!({"assignees__in": [choice("x")]})),
        ("object_record=x", json!({"object_record": ["A valid integer is required."]})),
        ("due_at__gt=x", json!({"due_at__gt": ["Enter a valid date/time."]})),
    ] {
        api.get(&format!("{TASKS}?{query}")).await.refuses(errors);
    }
}

#[tokio::test]
async fn assignees_are_users_and_groups_whom_the_caller_may_list() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    let external = server.as_type("external").await;
    grant_on_record(&api, external.id, json!({"tasks": ["create", "assign"]})).await;
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    let pk = |id: i64| json!([format!("Invalid pk {id} - object does not exist.")]);
    let body = json!({"task_template": 1, "object_record": 1, "assignees": [1], "assignee_groups": [group]});
    external.post(TASKS, body).await.refuses(json!({"assignees": pk(1), "assignee_groups": pk(group)}));
    let body =
        json!({"task_template": 1, "object_record": 1, "assignees": [1, external.id], "assignee_groups": [group]});
    let task = create_task(&api, body).await;
    let path = format!("/api/tasks/{task}/");
    // Existing assignees stay, even if the caller may not list them.
    let reply = external.patch(&path, json!({"assignees": [1], "name": "Survey of orders"})).await.ok();
    assert_eq!(reply["assignees"][0]["id"], 1);
    assert_eq!(reply["assignee_groups"], json!([{"id": group, "name": "Clerks"}]));
    let entries = external.get(&format!("{path}log/")).await.ok()["results"].clone();
    assert_eq!(entries[0]["action"], "assign");
    assert_eq!(entries[0]["changes"], json!({"assignees": [[1, external.id], [1]]}));
    assert_eq!(entries[1]["changes"], json!({"name": ["Survey", "Survey of orders"]}));
    external.patch(&path, json!({"assignees": []})).await.ok();
    external.patch(&path, json!({"assignees": [1]})).await.refuses(json!({"assignees": pk(1)}));

    // A deleted user is not an assignee any more.
    let gone = server.as_type("internal").await;
    api.patch(&path, json!({"assignees": [gone.id]})).await.ok();
    api.delete(&format!("/api/users/{}/", gone.id)).await.expect_empty();
    assert_eq!(api.get(&path).await.ok()["assignees"], json!([]));
    api.delete(&format!("/api/user-groups/{group}/")).await.expect_empty();
    assert_eq!(api.get(&path).await.ok()["assignee_groups"], json!([]));
    crate::set_up::wait_for(&server, "SELECT count(*) FROM task_assignees", 0).await;
}
