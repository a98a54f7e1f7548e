//! Tasks of records (`docs/reference/tasks.md`): the permissions on them, answers that change a record, automatic tasks, and
//! deletions with a record.

use crate::TestServer;
use crate::set_up::{class, form_template, grant_on_record, number, record, update_template};
use serde_json::{Value, json};
use testkit::{ApiClient, message, send_concurrently};

const TASKS: &str = "/api/tasks/";

async fn task(api: &ApiClient, body: Value) -> i64 {
    let made = api.post(TASKS, body).await;
    made.expect_created();
    made.id()
}

async fn permissions(api: &ApiClient, id: i64) -> Value {
    api.get(&format!("/api/tasks/{id}/")).await.ok()["_meta"]["permissions"].clone()
}

fn all_permissions(may: bool) -> Value {
    json!({"view": may, "edit": may, "delete": may, "complete": may, "assign": may})
}

#[tokio::test]
async fn the_rights_of_a_record_are_those_of_its_tasks() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    let id = task(&api, json!({"task_template": 1, "object_record": 1})).await;
    let hidden = task(&api, json!({"task_template": 1})).await;
    let path = format!("/api/tasks/{id}/");

    let class_owner = server.as_type("internal").await;
    api.post("/api/object-classes/1/owners/", json!([class_owner.id])).await.expect_created();
    let by_class_set = server.as_type("external").await;
    let set = json!({"name": "All", "permissions": {"object_records": ["view"], "tasks": ["complete"]}});
    let set = api.post("/api/object-classes/1/permission-sets/", set).await.id();
    let assignees = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    api.post(&assignees, json!([by_class_set.id])).await.expect_created();
    let by_role = server.with_role(json!({"object_records": ["list", "view", "edit", "delete"]})).await;
    let assignee = server.as_type("internal").await;
    api.patch(&path, json!({"assignees": [assignee.id]})).await.ok();
    let member = server.as_type("internal").await;
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([member.id])).await.expect_created();
    api.patch(&path, json!({"assignee_groups": [group]})).await.ok();
    let of_assignee = json!({"view": true, "edit": false, "delete": false, "complete": true, "assign": false});
    for (who, expected) in [
        (&class_owner, all_permissions(true)),
        (&by_class_set, of_assignee.clone()),
        (&assignee, of_assignee.clone()),
        (&member, of_assignee),
    ] {
        assert_eq!(permissions(who, id).await, expected, "{}", who.username);
        assert_eq!(who.get(TASKS).await.ids(), [id], "{}", who.username);
        assert_eq!(who.get(TASKS).await.json["total_count"], 1);
        who.get(&format!("/api/tasks/{hidden}/")).await.expect_reply(404, message::not_found());
    }
    let owner = server.as_type("internal").await;
    api.patch("/api/object-records/1/", json!({"owner": owner.id})).await.ok();
    assert_eq!(permissions(&owner, id).await, all_permissions(true));
    assert_eq!(owner.get(TASKS).await.ids(), [id]);

    // Rights on records grant no rights on tasks.
    for who in [&by_role, &server.as_type("internal").await] {
        for reply in [
            who.get(&path).await,
            who.patch(&path, json!({})).await,
            who.delete(&path).await,
            who.get(&format!("{path}log/")).await,
        ] {
            reply.expect_reply(404, message::not_found());
        }
        for action in ["complete", "approve", "reject", "cancel", "reopen", "send-link"] {
            who.post(&format!("{path}{action}/"), json!({})).await.expect_reply(404, message::not_found());
        }
        who.get(TASKS).await.expect_reply(200, testkit::shown::page(json!([])));
    }
}

#[tokio::test]
async fn each_right_of_a_set_allows_what_it_says_and_no_more() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    for (action, allowed) in [
        ("view", vec!["view"]),
        ("create", vec!["view"]),
        ("edit", vec!["view", "edit"]),
        ("delete", vec!["view", "delete"]),
        ("complete", vec!["view", "complete"]),
        ("assign", vec!["view", "edit", "assign"]),
    ] {
        let who = server.as_type("internal").await;
        grant_on_record(&api, who.id, json!({"tasks": [action]})).await;
        let id = task(&api, json!({"task_template": 1, "object_record": 1})).await;
        let path = format!("/api/tasks/{id}/");
        let told = permissions(&who, id).await;
        let may = |what: &str| allowed.contains(&what);
        for what in ["view", "edit", "delete", "complete", "assign"] {
            assert_eq!(told[what], may(what), "{action}: {what}");
        }
        let expect = |is_allowed: bool, reply: testkit::Reply| match is_allowed {
            true => assert!(reply.status < 300, "{action}: {reply:?}"),
            false => reply.expect_reply(403, message::forbidden()),
        };
        expect(may("edit"), who.patch(&path, json!({"name": "x"})).await);
        expect(may("edit"), who.patch(&path, json!({})).await);
        expect(may("assign"), who.patch(&path, json!({"assignees": [who.id]})).await);
        api.patch(&path, json!({"assignees": []})).await.ok();
        expect(may("assign"), who.post(&format!("{path}send-link/"), json!({})).await);
        expect(action == "create", who.post(TASKS, json!({"task_template": 1, "object_record": 1})).await);
        expect(false, who.post(TASKS, json!({"task_template": 1, "object_record": 1, "assignees": [who.id]})).await);
        expect(false, who.post(TASKS, json!({"task_template": 1})).await);
        expect(may("edit"), who.post(&format!("{path}cancel/"), json!({})).await);
        api.post(&format!("{path}cancel/"), json!({})).await;
        expect(may("edit"), who.post(&format!("{path}reopen/"), json!({})).await);
        api.post(&format!("{path}reopen/"), json!({})).await;
        expect(may("complete"), who.post(&format!("{path}complete/"), json!({"response": 1})).await);
        expect(may("delete"), who.delete(&path).await);
    }
}

#[tokio::test]
async fn an_answer_changes_the_record_as_if_the_completer_wrote_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    class(&api, "Customer").await;
    for field in [
        json!({"label": "Papers", "type": "document", "max_num_of_files": 3}),
        json!({"label": "Customer", "type": "relation", "related_object_class": 2}),
        json!({"label": "Kind", "type": "enum", "options": [{"value": "a", "text": "An A"}]}),
        json!({"label": "Code", "type": "string", "max_length": 5, "is_required": true, "default": "none"}),
    ] {
        api.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    let order = record(&api, 1).await;
    let customer = record(&api, 2).await;
    let fields = json!(["kind", "title", "papers", "customer", "code"]);
    let config =
        json!({"task_type": "tt_object_record_update", "configuration": {"object_class": 1, "fields": fields}});
    let body = json!({"name": "Change", "complete_by": "asap", "plugin_config": config});
    api.post("/api/task-templates/", body).await.expect_created();
    let clerk = server.as_type("internal").await;
    let id = task(&api, json!({"task_template": 1, "object_record": order, "assignees": [clerk.id]})).await;
    let form = clerk.get(&format!("/api/tasks/{id}/")).await.ok()["form"].clone();
    let aliases: Vec<_> = form["fields"].as_array().unwrap().iter().map(|field| field["alias"].clone()).collect();
    assert_eq!(json!(aliases), fields);
    assert_eq!(form["values"], json!({"title": null, "papers": null, "customer": null, "kind": null, "code": "none"}));
    let complete = format!("/api/tasks/{id}/complete/");
    let pk = |id: i64| json!([format!("Invalid pk {id} - object does not exist.")]);
    for (response, errors) in [
        (json!([]), json!(["Invalid data. Expected a dictionary, but got list."])),
        (json!({}), json!({"fields": ["This field is required."]})),
        (json!({"fields": 1}), json!({"fields": ["Invalid data. Expected a dictionary, but got int."]})),
        (
            json!({"fields": {"amount": 1, "nothing": 2, "kind": "b", "code": "longer", "customer": customer, "title": "x".repeat(256)}}),
            json!({"fields": {
                "amount": ["This field does not exist."], "nothing": ["This field does not exist."],
                "kind": ["b is not a valid choice."], "code": ["Ensure this field has no more than 5 characters."],
                "customer": pk(customer), "title": ["Ensure this field has no more than 255 characters."],
            }}),
        ),
        (
            json!({"fields": {"code": null, "papers": ["none"]}}),
            json!({"fields": {
                "code": ["This field may not be null."], "papers": ["Invalid token none."],
            }}),
        ),
        (
            json!({"fields": {"papers": [1, {"file": "none"}, []]}}),
            json!({"fields": {
                "papers": ["Incorrect type. Expected pk value, received list."],
            }}),
        ),
    ] {
        let told = clerk.post(&complete, json!({"response": response})).await;
        assert_eq!(told.status, 400, "{told:?}");
        assert_eq!(told.json, json!({"response": errors}));
    }
    api.patch("/api/builds/a.example/limits/", json!({})).await;
    let token = clerk.upload("a.txt", "one").await;
    let response = json!({"fields": {"title": " New ", "kind": "a", "papers": [token], "code": "C-1"}});
    server.advance(1_000_000);
    let done = clerk.post(&complete, json!({"response": response})).await.ok();
    let uuid = done["response"]["fields"]["papers"][0]["file"].as_str().unwrap().to_owned();
    assert_eq!(done["status"], "completed");
    assert_eq!(done["form"]["labels"]["fields"], json!({"kind": "An A"}));
    let shown = api.get(&format!("/api/object-records/{order}/")).await.ok();
    assert_eq!(shown["fields"]["title"], "New");
    assert_eq!(shown["modified_by"]["id"], clerk.id);
    let file = shown["fields"]["papers"][0].as_i64().unwrap();
    assert_eq!(clerk.get(&format!("/api/files/response/file/{uuid}/")).await.status, 200);
    assert_eq!(api.get(&format!("/api/object-records/{order}/files/{uuid}/")).await.status, 200);

    // The record releases the file and the task retains it, and then the reverse.
    api.patch(&format!("/api/object-records/{order}/"), json!({"fields": {"papers": null}})).await.ok();
    api.get(&format!("/api/object-records/{order}/files/{uuid}/")).await.expect_reply(404, message::not_found());
    assert_eq!(clerk.get(&format!("/api/files/response/file/{uuid}/")).await.status, 200);
    api.post(&format!("/api/tasks/{id}/reopen/"), json!({})).await.ok();
    let again = json!({"fields": {"papers": [{"file": uuid}]}});
    clerk.post(&complete, json!({"response": again})).await.ok();
    let shown = api.get(&format!("/api/object-records/{order}/")).await.ok();
    assert_eq!(shown["fields"]["papers"], json!([file]));
    api.delete(&format!("/api/tasks/{id}/")).await.expect_empty();
    clerk.get(&format!("/api/files/response/file/{uuid}/")).await.expect_reply(404, message::not_found());
    assert_eq!(api.get(&format!("/api/object-records/{order}/files/{uuid}/")).await.status, 200);
}

#[tokio::test]
async fn a_response_is_validated_again_at_its_approval() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    let fields = json!({"label": "Papers", "type": "document"});
    api.post("/api/object-classes/1/fields/", fields).await.expect_created();
    let code = json!({"label": "Code", "type": "string", "is_unique": true});
    let code = api.post("/api/object-classes/1/fields/", code).await.id();
    let order = record(&api, 1).await;
    let other = record(&api, 1).await;
    let configuration = json!({"object_class": 1, "fields": ["code", "papers"]});
    let config =
        json!({"task_type": "tt_object_record_update", "configuration": configuration, "approval_required": true});
    let body = json!({"name": "Change", "complete_by": "asap", "plugin_config": config});
    api.post("/api/task-templates/", body).await.expect_created();
    let clerk = server.as_type("internal").await;
    let id = task(&api, json!({"task_template": 1, "object_record": order, "assignees": [clerk.id]})).await;
    let token = clerk.upload("a.txt", "one").await;
    let response = json!({"fields": {"code": "A-1", "papers": [token]}});
    let waiting = clerk.post(&format!("/api/tasks/{id}/complete/"), json!({"response": response})).await.ok();
    let uuid = waiting["response"]["fields"]["papers"][0]["file"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("/api/files/response/file/{uuid}/")).await.status, 200);
    api.patch(&format!("/api/object-records/{other}/"), json!({"fields": {"code": "A-1"}})).await.ok();
    let approve = format!("/api/tasks/{id}/approve/");
    api.post(&approve, json!({}))
        .await
        .refuses(json!({"response": {"fields": {"code": ["This field must be unique."]}}}));
    assert_eq!(api.get(&format!("/api/tasks/{id}/")).await.ok()["status"], "in_approval");
    api.patch(&format!("/api/object-records/{other}/"), json!({"fields": {"code": null}})).await.ok();
    assert_eq!(api.post(&approve, json!({})).await.ok()["status"], "completed");
    let shown = api.get(&format!("/api/object-records/{order}/")).await.ok();
    assert_eq!((&shown["fields"]["code"], &shown["modified_by"]["id"]), (&json!("A-1"), &json!(1)));
    assert_eq!(shown["fields"]["papers"].as_array().unwrap().len(), 1);

    // The field is deleted before the approval.
    let id = task(&api, json!({"task_template": 1, "object_record": order, "assignees": [clerk.id]})).await;
    clerk.post(&format!("/api/tasks/{id}/complete/"), json!({"response": {"fields": {"code": "B"}}})).await.ok();
    api.delete(&format!("/api/object-classes/1/fields/{code}/")).await.expect_empty();
    api.post(&format!("/api/tasks/{id}/approve/"), json!({}))
        .await
        .refuses(json!({"response": {"fields": {"code": ["This field does not exist."]}}}));
    api.post(&format!("/api/tasks/{id}/reject/"), json!({})).await.ok();
}

#[tokio::test]
async fn a_caller_without_edit_cannot_assign_a_change_of_the_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    update_template(&api, "Change", 1, "manual").await;
    let manager = server.as_type("internal").await;
    grant_on_record(&api, manager.id, json!({"tasks": ["create", "assign"]})).await;
    manager.post(TASKS, json!({"task_template": 1, "object_record": 1})).await.expect_reply(403, message::forbidden());
    let id = task(&api, json!({"task_template": 1, "object_record": 1, "assignees": [1]})).await;
    let path = format!("/api/tasks/{id}/");
    manager.patch(&path, json!({"assignees": [1, manager.id]})).await.expect_reply(403, message::forbidden());
    manager.patch(&path, json!({"name": "Other", "assignees": []})).await.ok();
    manager.post(&format!("{path}send-link/"), json!({})).await.expect_empty();
    manager.post(&format!("{path}cancel/"), json!({})).await.ok();
    manager.post(&format!("{path}reopen/"), json!({})).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn automatic_templates_make_a_task_for_each_new_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    update_template(&api, "Check", 1, "automatic").await;
    update_template(&api, "Manual", 1, "manual").await;
    let owner = server.as_type("internal").await;
    let records = "/api/object-classes/1/object-records/";
    api.post(records, json!({"owner": owner.id})).await.expect_created();
    api.post(&format!("{records}batch/?dry_run=true"), json!({"items": [{}]})).await.expect_created();
    api.post(&format!("{records}batch/"), json!({"items": [{}, {"owner": null}]})).await.expect_created();
    let tasks = api.get(&format!("{TASKS}?ordering=id")).await;
    let shown = |task: &Value| {
        json!([
            task["object_record"],
            task["name"],
            task["assignees"].as_array().unwrap().iter().map(|user| user["id"].clone()).collect::<Vec<_>>()
        ])
    };
    assert_eq!(
        tasks.json["results"].as_array().unwrap().iter().map(shown).collect::<Vec<_>>(),
        [json!([2, "Check", [owner.id]]), json!([3, "Check", [1]]), json!([4, "Check", []])]
    );
    let entry = api.get("/api/tasks/1/log/").await.ok()["results"][0].clone();
    assert_eq!(
        (&entry["source_type"], &entry["by"]["id"], &entry["action"]),
        (&json!("system"), &json!(1), &json!("create"))
    );
    assert_eq!(api.get("/api/task-templates/1/").await.ok()["num_of_tasks_created"], 3);

    // Tasks are deleted with their records, and are not restored with them.
    api.delete("/api/object-records/2/").await.expect_empty();
    api.delete_all(&format!("{records}batch/"), json!({"ids": [3, 4]})).await.expect_empty();
    assert_eq!(number(&server, "SELECT count(*) FROM tasks").await, 0);
    for table in ["task_assignees", "task_log", "task_moments"] {
        let count = match table {
            "task_assignees" => number(&server, "SELECT count(*) FROM task_assignees").await,
            "task_log" => number(&server, "SELECT count(*) FROM task_log").await,
            _ => number(&server, "SELECT count(*) FROM task_moments").await,
        };
        assert_eq!(count, 0, "{table}");
    }
    api.post("/api/object-records/2/restore/", json!({})).await.expect_created();
    assert_eq!(number(&server, "SELECT count(*) FROM tasks").await, 0);
    let log = api.get("/api/administration/log/?resource=tasks&action=delete").await;
    assert_eq!(log.column("object_id").len(), 3);

    // A changed or deleted template applies to the next record, in this process and in others.
    api.patch("/api/task-templates/1/", json!({"name": "Look"})).await.ok();
    api.post(records, json!({})).await.expect_created();
    assert_eq!(api.get(TASKS).await.column("name"), ["Look"]);
    api.delete("/api/task-templates/1/").await.expect_empty();
    api.post(records, json!({})).await.expect_created();
    assert_eq!(api.get(TASKS).await.ids().len(), 1);
    update_template(&api, "Anew", 1, "automatic").await;
    api.post(records, json!({})).await.expect_created();
    assert_eq!(api.get(TASKS).await.column("name"), ["Look", "Anew"]);
}

#[tokio::test]
async fn a_completion_and_a_change_of_the_record_at_once_are_both_or_one() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    let title = json!({"label": "Code", "type": "string", "is_unique": true});
    api.post("/api/object-classes/1/fields/", title).await.expect_created();
    let configuration = json!({"object_class": 1, "fields": ["code", "title"]});
    let config = json!({"task_type": "tt_object_record_update", "configuration": configuration});
    api.post("/api/task-templates/", json!({"name": "Change", "complete_by": "asap", "plugin_config": config}))
        .await
        .expect_created();
    for round in 0..20 {
        let order = record(&api, 1).await;
        let id = task(&api, json!({"task_template": 1, "object_record": order})).await;
        let code = format!("C-{round}");
        let response = json!({"response": {"fields": {"code": code, "title": "by the task"}}});
        let complete = || api.call("POST", &format!("/api/tasks/{id}/complete/")).json(&response);
        let record = format!("/api/object-records/{order}/");
        let patch = api.call("PATCH", &record).json(&json!({"fields": {"title": "by hand"}}));
        let replies = send_concurrently([complete(), complete(), patch, api.call("DELETE", &record)]).await;
        let [done, again, patched, deleted] = [0, 1, 2, 3].map(|n| replies[n].status);
        assert!([done, again].iter().filter(|status| **status == 200).count() <= 1, "{replies:?}");
        assert_eq!(deleted, 204, "{replies:?}");
        assert!([200, 404].contains(&patched), "{replies:?}");
        for status in [done, again] {
            assert!([200, 400, 404].contains(&status), "{replies:?}");
        }
    }
    assert_eq!(number(&server, "SELECT count(*) FROM tasks").await, 0);
    // The same without the deletion: only an answered task has changed its record.
    for _ in 0..20 {
        let order = record(&api, 1).await;
        let id = task(&api, json!({"task_template": 1, "object_record": order})).await;
        let response = json!({"response": {"fields": {"title": "by the task"}}});
        let complete = api.call("POST", &format!("/api/tasks/{id}/complete/")).json(&response);
        let patch = api.call("PATCH", &format!("/api/object-records/{order}/")).json(&json!({"fields": {"amount": 7}}));
        let replies = send_concurrently([complete, patch]).await;
        assert_eq!([replies[0].status, replies[1].status], [200, 200]);
        let shown = api.get(&format!("/api/object-records/{order}/")).await.ok();
        assert_eq!([&shown["fields"]["title"], &shown["fields"]["amount"]], [&json!("by the task"), &json!("7.00")]);
    }
}

#[tokio::test]
async fn a_file_of_an_answer_serves_one_field() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    for label in ["Papers", "Picture"] {
        let field = json!({"label": label, "type": "document"});
        api.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    record(&api, 1).await;
    let configuration = json!({"object_class": 1, "fields": ["papers", "picture"]});
    let config = json!({"task_type": "tt_object_record_update", "configuration": configuration});
    let body = json!({"name": "Change", "complete_by": "asap", "plugin_config": config});
    api.post("/api/task-templates/", body).await.expect_created();
    let id = task(&api, json!({"task_template": 1, "object_record": 1, "assignees": [1]})).await;
    let complete = format!("/api/tasks/{id}/complete/");
    let token = api.upload("a.txt", "one").await;
    let both = json!({"response": {"fields": {"papers": [token], "picture": [token]}}});
    let wrong = json!({"response": {"fields": {"picture": [format!("Invalid token {token}.")]}}});
    api.post(&complete, both).await.refuses(wrong);
    let done = api.post(&complete, json!({"response": {"fields": {"papers": [token]}}})).await.ok();
    let file = done["response"]["fields"]["papers"][0].clone();
    api.post(&format!("/api/tasks/{id}/reopen/"), json!({})).await.ok();
    let moved = json!({"response": {"fields": {"papers": null, "picture": [file]}}});
    let wrong =
        json!({"response": {"fields": {"picture": [format!("Invalid token {}.", file["file"].as_str().unwrap())]}}});
    api.post(&complete, moved).await.refuses(wrong);
    api.post(&complete, json!({"response": {"fields": {"papers": [file]}}})).await.ok();
}

#[tokio::test]
async fn a_change_answers_what_the_caller_may_do_after_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    let clerk = server.as_type("internal").await;
    grant_on_record(&api, clerk.id, json!({"tasks": ["assign", "view"]})).await;
    api.post("/api/user-groups/", json!({"name": "Clerks"})).await.expect_created();
    let id = task(&api, json!({"task_template": 1, "object_record": 1, "assignees": [clerk.id]})).await;
    let mut may = json!({"view": true, "edit": true, "delete": false, "complete": true, "assign": true});
    assert_eq!(permissions(&clerk, id).await, may);
    let changed = clerk.patch(&format!("/api/tasks/{id}/"), json!({"assignees": []})).await.ok();
    may["complete"] = json!(false);
    assert_eq!(changed["_meta"]["permissions"], may);
    // Rights are checked before anything else.
    let reader = server.as_type("internal").await;
    grant_on_record(&api, reader.id, json!({"tasks": ["view"]})).await;
    for status in ["open", "canceled"] {
        for body in [json!({"name": 1}), json!([]), json!({"name": "x"})] {
            reader.patch(&format!("/api/tasks/{id}/"), body).await.expect_reply(403, message::forbidden());
        }
        for action in ["complete", "approve", "reject", "cancel", "reopen", "send-link"] {
            reader.post(&format!("/api/tasks/{id}/{action}/"), json!([])).await.expect_reply(403, message::forbidden());
        }
        if status == "open" {
            api.post(&format!("/api/tasks/{id}/cancel/"), json!({})).await.ok();
        }
    }
}

#[tokio::test]
async fn many_tasks_go_with_their_records_and_each_is_logged() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    form_template(&api, "Survey").await;
    let mut records = Vec::new();
    for n in 0..20 {
        records.push(record(&api, 1).await);
        for _ in 0..2 {
            let id = task(&api, json!({"task_template": 1, "object_record": records[n], "assignees": [1]})).await;
            if n < 2 {
                api.post(&format!("/api/tasks/{id}/complete/"), json!({"response": n})).await.ok();
            }
            if n == 0 {
                api.post(&format!("/api/tasks/{id}/reopen/"), json!({})).await.ok();
            }
        }
    }
    let batch = "/api/object-classes/1/object-records/batch/";
    api.delete_all(batch, json!({"ids": records})).await.expect_empty();
    assert_eq!(number(&server, "SELECT count(*) FROM tasks").await, 0);
    let log = api.get("/api/administration/log/?resource=tasks&ordering=id&limit=100").await.ok();
    let entries = log["results"].as_array().unwrap();
    assert_eq!(entries.len(), 40);
    let changes = |n: usize| {
        let entry = entries.iter().find(|entry| entry["object_id"] == json!(n)).unwrap();
        assert_eq!([&entry["action"], &entry["object_name"]], [&json!("delete"), &json!("Survey")]);
        entry["changes"].clone()
    };
    let at = "2026-01-31T09:30:00.000000Z";
    let completed = |record: usize, status: &str| {
        json!({
            "object_record": [records[record], null], "status": [status, null], "completed_at": [at, null],
            "completed_by": [1, null],
        })
    };
    assert_eq!([changes(1), changes(3)], [completed(0, "open"), completed(1, "completed")]);
    assert_eq!(changes(40), json!({"object_record": [records[19], null], "status": ["open", null]}));
}
