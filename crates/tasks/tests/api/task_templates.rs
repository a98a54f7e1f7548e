//! `/api/task-templates/` (`docs/reference/task-templates.md`).

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, form_template, number, sql, update_template};
use serde_json::{Value, json};
use testkit::shown::{START, admin, page, user};
use testkit::{SECOND, message, one_wins, send_concurrently, statuses};

/// Template 1 as [`form_template`] creates it.
fn template_json() -> Value {
    json!({
        "id": 1, "name": "Survey", "description": "", "instructions": "", "task_creation": "manual",
        "complete_by": "asap", "complete_by_date": null, "complete_by_time_unit": null, "complete_by_time_value": null,
        "expiry": null, "expiry_time_unit": null, "expiry_time_value": null, "expiry_time_rel_to": null,
        "expiry_date": null, "expiry_day": null, "expiry_periodic_day": null, "expiry_periodic_month": null,
        "plugin_config": {
            "task_type": "tt_form", "configuration": {}, "approval_conditions": [], "prompt": "", "allow_comment": true,
            "approval_required": false, "_meta": {"labels": {"task_type": "Complete standalone form"}},
        },
        "reminders": [], "renewals": [], "num_of_tasks_created": 0, "last_task_created": null,
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {"permissions": {"list": true, "view": true, "create": true, "edit": true, "delete": true}},
    })
}

#[tokio::test]
async fn a_template_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.get(TEMPLATES).await.expect_reply(200, page(json!([])));
    let body = json!({"name": " Survey ", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    api.post(TEMPLATES, body).await.expect_reply(201, template_json());
    let template_path = format!("{TEMPLATES}1/");
    api.get(&template_path).await.expect_reply(200, template_json());
    let listed = json!({
        "id": 1, "name": "Survey", "description": "", "task_type": "tt_form", "task_creation": "manual",
        "plugin_config": template_json()["plugin_config"], "num_of_tasks_created": 0, "last_task_created": null,
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": template_json()["_meta"],
    });
    api.get(TEMPLATES).await.expect_reply(200, page(json!([listed])));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    let mut changed = template_json();
    for (name, value) in [
        ("name", json!("Poll")),
        ("description", json!("Of customers")),
        ("complete_by", json!("time_frame")),
        ("complete_by_time_unit", json!("weeks")),
        ("complete_by_time_value", json!(2)),
        ("expiry", json!("annually")),
        ("expiry_periodic_day", json!(31)),
        ("expiry_periodic_month", json!(2)),
        ("expiry_date", json!("2026-02-01")),
        ("reminders", json!([{"notice_type": "before_due", "time_unit": "days", "time_value": 0}])),
        ("renewals", json!([{"renewal_time_unit": "months", "renewal_time_value": null}])),
    ] {
        changed[name] = value;
    }
    let mut body = changed.clone();
    body["renewals"] = json!([{"renewal_time_unit": "months", "planet": "Mars"}]);
    // Fixed and unknown members are ignored without a check.
    for (name, value) in [
        ("id", json!(7)),
        ("instructions", json!("none")),
        ("task_creation", json!("never")),
        ("plugin_config", json!({"task_type": "none"})),
        ("planet", json!("Mars")),
    ] {
        body[name] = value;
    }
    changed["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    changed["modified_by"] = user(&second, "super_admin");
    second.patch(&template_path, body).await.expect_reply(200, changed.clone());
    second.patch(&template_path, json!({"expiry": null, "renewals": []})).await.ok();
    changed["expiry"] = Value::Null;
    changed["renewals"] = json!([]);
    api.get(&template_path).await.expect_reply(200, changed);

    api.delete(&template_path).await.expect_empty();
    for reply in
        [api.get(&template_path).await, api.delete(&template_path).await, api.patch(&template_path, json!({})).await]
    {
        reply.expect_reply(404, message::not_found());
    }
    api.get(TEMPLATES).await.expect_reply(200, page(json!([])));
    assert_eq!(number(&server, "SELECT count(*) FROM task_forms").await, 0);
    // Its id is not used again.
    assert_eq!(form_template(&api, "Next").await, 2);
}

#[tokio::test]
async fn all_that_can_be_said_is_kept() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    let config = json!({
        "task_type": "tt_object_record_update",
        "configuration": {"object_class": 1, "fields": ["amount", "title", "amount"], "instructions": " Be exact. "},
        "approval_conditions": [{"name": " Fine "}, {"name": "x".repeat(255), "id": 5}],
        "prompt": "Is it right?", "allow_comment": false, "approval_required": true, "planet": "Mars",
    });
    let body = json!({
        "name": "Check", "description": "Of orders", "task_creation": "automatic",
        "complete_by": "date", "complete_by_date": "2026-02-01", "complete_by_time_unit": "days", "complete_by_time_value": 100,
        "expiry": "time_frame", "expiry_time_unit": "months", "expiry_time_value": 0, "expiry_time_rel_to": "completed",
        "expiry_date": "2027-01-01", "expiry_day": 31, "expiry_periodic_day": 1, "expiry_periodic_month": 12,
        "reminders": [
            {"notice_type": "after_due", "time_unit": "weeks", "time_value": 100},
            {"notice_type": "before_expiry", "time_unit": "months", "time_value": 1},
        ],
        "renewals": [{}, {"renewal_time_unit": "weeks", "renewal_time_value": 3}, {"renewal_time_value": 4}],
        "plugin_config": config,
    });
    let mut shown = template_json();
    for (name, value) in body.as_object().unwrap() {
        shown[name] = value.clone();
    }
    shown["instructions"] = json!("Be exact.");
    shown["renewals"] = json!([
        {"renewal_time_unit": null, "renewal_time_value": null},
        {"renewal_time_unit": "weeks", "renewal_time_value": 3},
        {"renewal_time_unit": null, "renewal_time_value": 4},
    ]);
    shown["plugin_config"] = json!({
        "task_type": "tt_object_record_update",
        "configuration": {"object_class": 1, "fields": ["amount", "title"], "instructions": "Be exact."},
        "approval_conditions": [{"name": "Fine"}, {"name": "x".repeat(255)}],
        "prompt": "Is it right?", "allow_comment": false, "approval_required": true,
        "_meta": {"labels": {"task_type": "Object Record update"}},
    });
    api.post(TEMPLATES, body).await.expect_reply(201, shown.clone());
    api.get(&format!("{TEMPLATES}1/")).await.expect_reply(200, shown);
}

#[tokio::test]
async fn lists_are_sorted_and_filtered() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    form_template(&api, "b").await;
    server.advance(SECOND);
    update_template(&api, "A", 1, "automatic").await;
    server.advance(SECOND);
    form_template(&api, "c").await;
    server.advance(SECOND);
    api.patch(&format!("{TEMPLATES}1/"), json!({"description": "Of Customers"})).await.ok();
    sql(
        &server,
        &["INSERT INTO task_template_counts(template, slot, n, last_at) VALUES (1, 0, 2, 1000000), (1, 1, 3, 3000000), (3, 0, 9, 2000000)"],
    )
    .await;
    for (query, names) in [
        ("", vec!["b", "A", "c"]),
        ("?ordering=-id", vec!["c", "A", "b"]),
        ("?ordering=name", vec!["A", "b", "c"]),
        ("?ordering=-created_at", vec!["c", "A", "b"]),
        ("?ordering=modified_at", vec!["A", "c", "b"]),
        ("?ordering=num_of_tasks_created", vec!["A", "b", "c"]),
        ("?ordering=-num_of_tasks_created&limit=1", vec!["c"]),
        ("?ordering=last_task_created", vec!["A", "c", "b"]),
        ("?ordering=-last_task_created", vec!["b", "c", "A"]),
        ("?id__gt=1", vec!["A", "c"]),
        ("?name__icontains=a", vec!["A"]),
        ("?description__istartswith=of c", vec!["b"]),
        ("?task_type=tt_form", vec!["b", "c"]),
        ("?task_type__in=tt_form,tt_object_record_update", vec!["b", "A", "c"]),
        ("?task_creation=automatic", vec!["A"]),
        ("?num_of_tasks_created=5", vec!["b"]),
        ("?num_of_tasks_created__range=0,5", vec!["b", "A"]),
        ("?last_task_created__gte=1970-01-01T00:00:02Z", vec!["b", "c"]),
        ("?created_at__lt=2026-01-31T09:30:01Z", vec!["b"]),
        ("?modified_at__gt=2026-01-31T09:30:02Z", vec!["b"]),
        ("?created_by=1&modified_by=1", vec!["b", "A", "c"]),
        ("?plugin_config=x&complete_by=date&uuid=1", vec!["b", "A", "c"]),
    ] {
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        assert_eq!(api.get(&format!("{TEMPLATES}{query}")).await.column("name"), names, "{query}");
    }
    let listed = api.get(TEMPLATES).await.ok();
    assert_eq!(
        (&listed["results"][0]["num_of_tasks_created"], &listed["results"][0]["last_task_created"]),
        (&json!(5), &json!("1970-01-01T00:00:03.000000Z"))
    );
    for (query, errors) in [
        (
            "?ordering=description",
            json!({"ordering": ["Select a valid choice. description is not one of the available choices."]}),
        ),
        ("?task_type=task", json!({"task_type": ["Select a valid choice. task is not one of the available choices."]})),
        (
            "?task_creation__gt=manual",
            json!({"task_creation__gt": ["Select a valid choice. gt is not one of the available choices."]}),
        ),
        ("?num_of_tasks_created=many", json!({"num_of_tasks_created": ["A valid integer is required."]})),
        ("?last_task_created=never", json!({"last_task_created": ["Enter a valid date/time."]})),
    ] {
        api.get(&format!("{TEMPLATES}{query}")).await.refuses(errors);
    }
}

#[tokio::test]
async fn a_permission_opens_what_it_names() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    form_template(&api, "Survey").await;
    let template_path = format!("{TEMPLATES}1/");
    let body = || json!({"name": "New", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    for account_type in ["internal", "external", "full", "service_external"] {
        let client = server.as_type(account_type).await;
        for reply in [
            client.get(TEMPLATES).await,
            client.get(&template_path).await,
            client.get(&format!("{TEMPLATES}9/")).await,
            client.post(TEMPLATES, json!({})).await,
            client.patch(&template_path, json!({"name": null})).await,
            client.delete(&template_path).await,
        ] {
            reply.expect_reply(403, message::forbidden());
        }
        client.options(TEMPLATES).await.ok();
    }
    let service = server.as_type("service_internal").await;
    service.post(TEMPLATES, body()).await.expect_created();
    let anonymous = server.anonymous();
    for reply in
        [anonymous.get(TEMPLATES).await, anonymous.options(TEMPLATES).await, anonymous.get(&template_path).await]
    {
        reply.expect_reply(401, message::unauthenticated());
    }
    for (actions, works) in [
        (json!(["list"]), [true, false, false, false, false]),
        (json!(["view"]), [true, true, false, false, false]),
        (json!(["create"]), [true, true, true, false, false]),
        (json!(["edit"]), [true, true, false, true, false]),
        (json!(["delete"]), [true, true, false, false, true]),
    ] {
        let client = server.with_role(json!({"task_templates": actions})).await;
        let template = form_template(&api, "Another").await;
        let template_path = format!("{TEMPLATES}{template}/");
        let list = client.get(TEMPLATES).await.ok();
        let [lists, views, creates, edits, deletes] = works;
        let held = json!({"list": lists, "view": views, "create": creates, "edit": edits, "delete": deletes});
        assert_eq!(list["results"][0]["_meta"]["permissions"], held, "{actions}");
        let replies = [
            (client.get(&template_path).await, views, 200),
            (client.post(TEMPLATES, body()).await, creates, 201),
            (client.patch(&template_path, json!({"name": "Changed"})).await, edits, 200),
            (client.delete(&template_path).await, deletes, 204),
        ];
        for (reply, is_allowed, status) in replies {
            assert_eq!(reply.status, if is_allowed { status } else { 403 }, "{actions}: {reply:?}");
        }
        // Creating a template that changes records requires the ownership of its class.
        if creates {
            let config = json!({
                "task_type": "tt_object_record_update", "configuration": {"object_class": 1, "fields": ["title"]},
            });
            let body = json!({"name": "Update", "complete_by": "asap", "plugin_config": config});
            let unknown = json!({"object_class": ["Invalid pk 1 - object does not exist."]});
            let unknown = json!({"plugin_config": {"configuration": unknown}});
            client.post(TEMPLATES, body.clone()).await.refuses(unknown);
            api.post("/api/object-classes/1/owners/", json!([client.id])).await.expect_created();
            client.post(TEMPLATES, body).await.expect_created();
        }
    }
    let permissions = api.get("/api/users/permissions/").await.ok();
    let all = json!({"list": true, "view": true, "create": true, "edit": true, "delete": true});
    assert_eq!(permissions["task_templates"], all);
}

#[tokio::test]
async fn the_limit_is_exact() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    server.set_limit("task_templates", 3).await;
    let body = json!({"name": "T", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    for _ in 0..2 {
        api.post(TEMPLATES, body.clone()).await.expect_created();
    }
    let calls = (0..60).map(|_| api.call("POST", TEMPLATES).json(&body));
    let exceeded = message::limit_exceeded("3 Task Templates");
    one_wins(&send_concurrently(calls).await, 201, &exceeded);
    assert_eq!(api.options(TEMPLATES).await.ok()["restrictions"], json!({"limit_items": 3}));
    assert_eq!(number(&server, "SELECT count(*) FROM task_forms").await, 3);
    let limits = api.get("/api/limits/").await.ok();
    assert_eq!(limits["task_templates"], json!({"limit": 3, "count": 3}), "{limits:#}");
    // Errors of the body are reported before the limit.
    api.post(TEMPLATES, json!({"name": "T", "complete_by": "asap"}))
        .await
        .refuses(json!({"plugin_config": ["This field is required."]}));
    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    api.post(TEMPLATES, body.clone()).await.expect_created();
    api.post(TEMPLATES, body).await.expect_reply(400, exceeded);
}

#[tokio::test]
async fn ten_templates_of_a_class_are_automatic() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    class(&api, "Invoice").await;
    let version = "SELECT version FROM object_classes WHERE id = 1";
    let before = number(&server, version).await;
    for n in 0..9 {
        update_template(&api, &format!("T{n}"), 1, "automatic").await;
    }
    assert_eq!(number(&server, version).await, before + 9);
    let config = json!({"task_type": "tt_object_record_update", "configuration": {"object_class": 1, "fields": []}});
    let body = json!({"name": "T", "complete_by": "asap", "task_creation": "automatic", "plugin_config": config});
    let calls = (0..60).map(|_| api.call("POST", TEMPLATES).json(&body));
    let exceeded = json!({"task_creation": ["Limit of 10 automatic templates has been exceeded."]});
    one_wins(&send_concurrently(calls).await, 201, &exceeded);
    // Manual templates and templates of other classes do not count.
    update_template(&api, "By hand", 1, "manual").await;
    update_template(&api, "Elsewhere", 2, "automatic").await;
    assert_eq!(number(&server, version).await, before + 10);
    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    assert_eq!(number(&server, version).await, before + 11);
    api.post(TEMPLATES, body.clone()).await.expect_created();
    api.post(TEMPLATES, body).await.refuses(exceeded);
}

#[tokio::test]
async fn a_change_of_another_state_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    form_template(&api, "Survey").await;
    let template_path = format!("{TEMPLATES}1/");
    let tag = api.get(&template_path).await.header("etag").to_owned();
    // The tasks of a template change its counts, but not its tag.
    sql(&server, &["INSERT INTO task_template_counts(template, slot, n, last_at) VALUES (1, 0, 2, 1000000)"]).await;
    let counted = api.get(&template_path).await;
    assert_eq!((counted.ok()["num_of_tasks_created"].clone(), counted.header("etag")), (json!(2), tag.as_str()));
    let call = |method: &str, tag: &str| api.call(method, &template_path).header("if-match", tag);
    let changed = call("PATCH", &tag).json(&json!({"name": "Poll"})).send().await;
    changed.ok();
    assert_eq!(api.get(&template_path).await.header("etag"), changed.header("etag"));
    assert_ne!(changed.header("etag"), tag);
    let outdated = message::detail("Object has been changed.");
    call("PATCH", &tag).json(&json!({"name": null})).send().await.expect_reply(412, outdated.clone());
    call("DELETE", &tag).send().await.expect_reply(412, outdated);
    call("DELETE", changed.header("etag")).send().await.expect_empty();
}

#[tokio::test]
async fn the_log_tells_what_was_done() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    let config = json!({"task_type": "tt_form", "configuration": {"questions": ["Why?"]}, "prompt": "Please"});
    let body = json!({"name": "Survey", "complete_by": "asap", "plugin_config": config});
    api.post(TEMPLATES, body).await.expect_created();
    update_template(&api, "Update", 1, "manual").await;
    let reminders = json!([{"notice_type": "before_due", "time_unit": "days", "time_value": 1}]);
    let body = json!({"name": "Poll", "complete_by": "asap", "reminders": reminders, "renewals": []});
    api.patch(&format!("{TEMPLATES}1/"), body).await.ok();
    api.patch(&format!("{TEMPLATES}1/"), json!({"reminders": reminders})).await.ok();
    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    let log = api.get("/api/administration/log/?resource=task_templates&ordering=id").await;
    assert_eq!(log.column("action"), ["create", "create", "edit", "delete"]);
    assert_eq!(log.column("object_id"), [1, 2, 1, 1]);
    assert_eq!(log.column("object_name"), ["Survey", "Update", "Poll", "Poll"]);
    // The questions of a form are not logged, because they may be long.
    let logged = json!({
        "task_type": "tt_form", "approval_conditions": [], "prompt": "Please", "allow_comment": true,
        "approval_required": false,
    });
    let mut created = json!({
        "name": [null, "Survey"], "plugin_config": [null, logged], "task_creation": [null, "manual"],
        "description": [null, ""], "complete_by": [null, "asap"], "reminders": [null, []], "renewals": [null, []],
    });
    assert_eq!(log.column("changes")[0], created);
    let configuration = json!({"object_class": 1, "fields": ["title"], "instructions": "Look."});
    created["name"][1] = json!("Update");
    created["plugin_config"][1] = json!({
        "task_type": "tt_object_record_update", "approval_conditions": [], "prompt": "", "allow_comment": true,
        "approval_required": false, "configuration": configuration,
    });
    assert_eq!(log.column("changes")[1], created);
    assert_eq!(log.column("changes")[2], json!({"name": ["Survey", "Poll"], "reminders": [[], reminders]}));
    assert_eq!(log.column("changes")[3], json!({}));
}

#[tokio::test]
async fn templates_go_with_their_class() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    class(&api, "Invoice").await;
    for (name, of_class, creation) in [("A", 1, "manual"), ("B", 2, "automatic"), ("C", 1, "automatic")] {
        update_template(&api, name, of_class, creation).await;
    }
    form_template(&api, "D").await;
    sql(&server, &["INSERT INTO task_template_counts(template, slot, n, last_at) VALUES (1, 0, 2, 5), (2, 0, 3, 5)"])
        .await;
    api.delete("/api/object-classes/1/").await.expect_empty();
    assert_eq!(api.get(TEMPLATES).await.column("name"), ["B", "D"]);
    let limits = api.get("/api/limits/").await.ok();
    assert_eq!(limits["task_templates"], json!({"limit": 500, "count": 2}));
    assert_eq!(number(&server, "SELECT count(*) FROM task_forms").await, 2);
    assert_eq!(number(&server, "SELECT count(*) FROM task_template_counts").await, 1);
    // The deletion is covered by the entry of the class.
    let log = api.get("/api/administration/log/?resource=task_templates&action=delete").await;
    assert_eq!(log.column("object_id"), [json!(null); 0]);
}

#[tokio::test]
async fn a_form_stays_while_a_task_has_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    form_template(&api, "Survey").await;
    form_template(&api, "Poll").await;
    api.post("/api/tasks/", json!({"task_template": 1})).await.expect_created();
    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    api.delete(&format!("{TEMPLATES}2/")).await.expect_empty();
    assert_eq!(number(&server, "SELECT CAST(sum(id) AS BIGINT) FROM task_forms").await, 1);
    assert_eq!(api.get("/api/tasks/1/").await.ok()["form"]["task_type"], "tt_form");
    api.delete("/api/tasks/1/").await.expect_empty();
    assert_eq!(number(&server, "SELECT count(*) FROM task_forms").await, 0);
}

#[tokio::test]
async fn a_template_and_its_class_leave_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 1..9 {
        class(&api, &format!("Class {n}")).await;
        update_template(&api, "A", n, "automatic").await;
        let class = format!("/api/object-classes/{n}/");
        let template = format!("{TEMPLATES}{n}/");
        let config =
            json!({"task_type": "tt_object_record_update", "configuration": {"object_class": n, "fields": []}});
        let body = json!({"name": "B", "complete_by": "asap", "task_creation": "automatic", "plugin_config": config});
        let replies = send_concurrently([api.call("DELETE", &class), api.call("DELETE", &template)]).await;
        assert!([204, 404].contains(&replies[1].status), "{replies:?}");
        replies[0].expect_empty();
        // The class is deleted, so a template for it cannot be created.
        let unknown = json!({"object_class": [format!("Invalid pk {n} - object does not exist.")]});
        api.post(TEMPLATES, body).await.refuses(json!({"plugin_config": {"configuration": unknown}}));
    }
    assert_eq!(number(&server, "SELECT count(*) FROM task_templates").await, 0);
    assert_eq!(number(&server, "SELECT count(*) FROM task_forms").await, 0);
    assert_eq!(number(&server, "SELECT COALESCE(max(n), 0) FROM counters WHERE name = 'task_templates'").await, 0);
}

#[tokio::test]
async fn nothing_is_made_of_a_class_that_leaves_meanwhile() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 1..9 {
        class(&api, &format!("Class {n}")).await;
        let config =
            json!({"task_type": "tt_object_record_update", "configuration": {"object_class": n, "fields": ["title"]}});
        let body = json!({"name": "A", "complete_by": "asap", "task_creation": "automatic", "plugin_config": config});
        let calls = [api.call("DELETE", &format!("/api/object-classes/{n}/")), api.call("POST", TEMPLATES).json(&body)];
        let replies = send_concurrently(calls).await;
        assert!([vec![201, 204], vec![204, 400]].contains(&statuses(&replies)), "{replies:?}");
    }
    assert_eq!(number(&server, "SELECT count(*) FROM task_templates").await, 0);
    assert_eq!(number(&server, "SELECT count(*) FROM task_forms").await, 0);
    assert_eq!(number(&server, "SELECT COALESCE(max(n), 0) FROM counters WHERE name = 'task_templates'").await, 0);
}

#[tokio::test]
async fn a_page_of_large_templates_is_bounded() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let large = "x".repeat(1024 * 1024 - 2);
    let config = json!({"task_type": "tt_form", "configuration": large});
    let body = json!({"name": "Large", "complete_by": "asap", "plugin_config": config});
    for _ in 0..33 {
        api.post(TEMPLATES, body.clone()).await.expect_created();
    }
    let refused = json!({"limit": ["Ensure that the page has at most 32 MiB."]});
    api.get(&format!("{TEMPLATES}?limit=40")).await.refuses(refused);
    let list = api.get(&format!("{TEMPLATES}?limit=31&offset=2")).await.ok();
    assert_eq!(list["filtered_count"], 33);
    assert_eq!(list["results"].as_array().unwrap().len(), 31);
}
