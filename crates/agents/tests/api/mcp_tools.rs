//! The tools of the MCP server (`docs/reference/mcp-server.md`): the effect of each, for an agent with and without the right.

use crate::scene::{SETS, Scene};
use crate::set_up::class;
use serde_json::{Value, json};
use testkit::eventually;

#[tokio::test]
async fn an_agent_finds_its_way_from_the_classes_to_a_record() {
    let scene = Scene::new().await;
    let hidden = class(&scene.api, "Hidden").await;
    let visible = scene.record(json!({"title": "One", "amount": 5}), true).await;
    scene.record(json!({"title": "Two", "amount": 7}), false).await;
    let listed = scene.run("list_object_classes", json!({})).await;
    let order = json!({"id": 1, "alias": "order", "name": "Order", "description": "", "num_of_records": 1});
    assert_eq!(listed, json!({"results": [order], "total_count": 1, "filtered_count": 1, "next_cursor": null}));

    let described = scene.run("describe_object_class", json!({"object_class": "order"})).await;
    assert_eq!((&described["id"], &described["may_create"]), (&json!(1), &json!(false)));
    let field = |alias: &str| {
        let fields = described["fields"].as_array().unwrap();
        fields.iter().find(|field| field["alias"] == alias).unwrap().clone()
    };
    assert_eq!(field("state")["values"][0], json!({"value": "open", "text": "Open"}));
    assert_eq!((&field("above")["type"], &field("above")["related_object_class"]), (&json!("relation"), &json!(1)));
    assert!(field("amount")["operators"].as_array().unwrap().contains(&json!("gte")));
    assert_eq!(field("title")["sort"], true);
    for unknown in [json!(hidden), json!("hidden"), json!(999), json!("")] {
        let not_found = scene.refused("describe_object_class", json!({"object_class": unknown})).await;
        assert_eq!(not_found, json!({"detail": "Not found."}), "{unknown}");
    }

    let page = scene.run("search_records", json!({"object_class": "order", "filters": {"amount__gte": 1}})).await;
    assert_eq!((&page["total_count"], &page["filtered_count"]), (&json!(1), &json!(1)));
    assert_eq!((&page["results"][0]["id"], &page["results"][0]["fields"]["title"]), (&json!(visible), &json!("One")));
    let none = scene.run("search_records", json!({"object_class": 1, "filters": {"title": "Two"}})).await;
    assert_eq!((&none["filtered_count"], &none["results"]), (&json!(0), &json!([])));
    let named = scene.run("search_records", json!({"object_class": 1, "search": "on", "fields": ["amount"]})).await;
    assert_eq!(named["results"][0]["fields"], json!({"amount": 5}));
    let record = scene.run("get_record", json!({"object_record": visible})).await;
    assert_eq!(record["_meta"]["permissions"]["edit"], true);
    assert_eq!(record["_meta"]["permissions"]["delete"], false);
    assert_eq!(record["_meta"]["labels"]["fields"]["state"], "Open");
}

#[tokio::test]
async fn wrong_arguments_are_told_with_what_to_do_next() {
    let scene = Scene::new().await;
    for (tool, arguments, body) in [
        ("get_record", json!({}), json!({"object_record": ["This field is required."]})),
        ("get_record", json!({"object_record": "x"}), json!({"object_record": ["A valid integer is required."]})),
        ("get_record", json!({"object_record": 1, "id": 1}), json!({"id": ["This field does not exist."]})),
        (
            "search_records",
            json!({"object_class": 1, "limit": 101}),
            json!({"limit": ["Ensure this value is from 1 to 100."]}),
        ),
        ("search_records", json!({"object_class": 1, "cursor": "-1"}), json!({"cursor": ["Enter a valid value."]})),
        (
            "search_records",
            json!({"object_class": 1, "filters": []}),
            json!({"filters": ["Expected an object of `field__operator` and value."]}),
        ),
        (
            "search_records",
            json!({"object_class": 1, "filters": {"limit": 1000}}),
            json!({"filters": ["`limit` is an argument beside `filters`."]}),
        ),
        (
            "search_records",
            json!({"object_class": 1, "filters": {"titel": "x"}}),
            json!({"filters": ["There is no filter titel. describe_object_class tells the fields and their operators."]}),
        ),
        (
            "search_records",
            json!({"object_class": 1, "filters": {"amount": "x"}}),
            json!({"amount": ["A valid integer is required."]}),
        ),
        ("update_record", json!({"object_record": 1}), json!({"detail": "Not found."})),
        (
            "create_record",
            json!({"object_class": 1}),
            json!({"detail": "You do not have permission to perform this action."}),
        ),
    ] {
        assert_eq!(scene.refused(tool, arguments.clone()).await, body, "{tool} {arguments}");
    }
    let result = scene.agent.call(&scene.server, &scene.tokens, "get_record", json!({"object_record": 1})).await;
    let advice = result["content"][1]["text"].as_str().unwrap();
    assert!(advice.starts_with("There is no such thing, or you may not see it."), "{advice}");
}

#[tokio::test]
async fn an_agent_changes_what_its_connector_may_and_history_names_it() {
    let scene = Scene::new().await;
    let record = scene.record(json!({"title": "One"}), true).await;
    let changed = json!({"object_record": record, "fields": {"title": "Changed", "state": "closed"}});
    let changed = scene.run("update_record", changed).await;
    assert_eq!((&changed["fields"]["title"], &changed["fields"]["state"]), (&json!("Changed"), &json!("closed")));
    assert_eq!(changed["modified_by"]["id"], scene.person.id);
    let wrong = json!({"object_record": record, "fields": {"amount": "x", "nothing": 1}});
    let wrong = scene.refused("update_record", wrong).await;
    assert_eq!(wrong["fields"]["nothing"], json!(["This field does not exist."]));
    // The set gives deletion to the person, and not to the agent.
    let forbidden = json!({"detail": "You do not have permission to perform this action."});
    assert_eq!(scene.refused("delete_record", json!({"object_record": record})).await, forbidden);
    let all = json!({"object_records": ["view", "edit", "delete"]});
    let given = json!({"mcp_permissions": [{"connector": 1, "permissions": all}]});
    scene.api.patch(&format!("{SETS}1/"), given).await.ok();
    assert_eq!(scene.run("delete_record", json!({"object_record": record})).await, json!({"done": true}));
    scene.api.get(&format!("/api/object-records/{record}/")).await.expect_reply(404, json!({"detail": "Not found."}));
}

#[tokio::test]
async fn a_new_record_needs_the_right_of_the_person_who_becomes_its_owner() {
    let scene = Scene::new().await;
    let set = json!({"name": "Makers", "permissions": {"object_records": ["create"]}});
    let set = scene.api.post("/api/object-classes/1/permission-sets/", set).await.id();
    let makers = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    scene.api.post(&makers, json!([scene.person.id])).await.expect_created();
    assert_eq!(scene.run("describe_object_class", json!({"object_class": 1})).await["may_create"], true);

    // Without a set that assigns the person, the agent has no rights on its new record.
    let made = scene.run("create_record", json!({"object_class": 1, "fields": {"title": "Mine"}})).await;
    let first = made["id"].as_i64().unwrap();
    let owned = scene.person.get(&format!("/api/object-records/{first}/")).await.ok();
    assert_eq!(owned["owner"]["id"], scene.person.id);
    assert_eq!(scene.refused("get_record", json!({"object_record": first})).await, json!({"detail": "Not found."}));

    let sets = json!([{"permission_set": 1}]);
    let made = json!({"object_class": "order", "fields": {"title": "Ours"}, "permission_sets": sets});
    let second = scene.run("create_record", made).await["id"].as_i64().unwrap();
    assert_eq!(scene.run("get_record", json!({"object_record": second})).await["fields"]["title"], "Ours");
    for others in [json!({"users": [1]}), json!({"user_groups": [1]}), json!({"users": [scene.person.id, 1]})] {
        let mut entry = others;
        entry["permission_set"] = json!(1);
        let made = json!({"object_class": 1, "fields": {}, "permission_sets": [entry]});
        let refused = scene.refused("create_record", made).await;
        assert_eq!(refused, json!({"detail": "You do not have permission to perform this action."}));
    }
    // A record that the agent may not view is not accepted as a parent.
    let child = json!({"object_class": 1, "fields": {"above": first}});
    let refused = scene.refused("create_record", child).await;
    assert_eq!(refused, json!({"fields": {"above": [format!("Invalid pk {first} - object does not exist.")]}}));
}

#[tokio::test]
async fn pages_go_on_behind_their_cursor() {
    let scene = Scene::new().await;
    for n in 0..25 {
        scene.record(json!({"amount": n}), n % 2 == 0).await;
    }
    let (mut cursor, mut ids) = (Value::Null, Vec::new());
    loop {
        let mut arguments = json!({"object_class": 1, "ordering": "amount", "limit": 5, "fields": ["amount"]});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = scene.run("search_records", arguments).await;
        assert_eq!((&page["total_count"], &page["filtered_count"]), (&json!(13), &json!(13)));
        ids.extend(page["results"].as_array().unwrap().iter().map(|of| of["fields"]["amount"].as_i64().unwrap()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(ids, (0..25).filter(|n| n % 2 == 0).collect::<Vec<_>>());
}

#[tokio::test]
async fn tasks_are_those_of_records_whose_tasks_the_connector_may_view() {
    let scene = Scene::new().await;
    let (visible, other) = (scene.record(json!({}), true).await, scene.record(json!({}), false).await);
    let template = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    scene.api.post("/api/task-templates/", template).await.expect_created();
    let make = async |record: Value| {
        let body = json!({"task_template": 1, "object_record": record, "assignees": [scene.person.id]});
        scene.api.post("/api/tasks/", body).await.id()
    };
    let task = make(json!(visible)).await;
    // An assignment of the task gives the agent no rights.
    let hidden = [make(json!(other)).await, make(Value::Null).await];
    let listed = scene.run("list_tasks", json!({"filters": {"status": "open", "assignees": "me"}})).await;
    assert_eq!((&listed["total_count"], &listed["filtered_count"]), (&json!(1), &json!(1)));
    assert_eq!(listed["results"][0]["id"], task);
    for task in hidden {
        for (tool, more) in
            [("get_task", json!({})), ("complete_task", json!({"response": 1})), ("delete_task", json!({}))]
        {
            let mut arguments = more;
            arguments["task"] = json!(task);
            assert_eq!(scene.refused(tool, arguments).await, json!({"detail": "Not found."}), "{tool}");
        }
    }
    let shown = scene.run("get_task", json!({"task": task})).await;
    assert_eq!(shown["form"]["task_type"], "tt_form");
    let due = json!({"task": task, "name": "Look", "due_at": "2030-01-01T00:00:00Z"});
    assert_eq!(scene.run("update_task", due).await["name"], "Look");
    assert_eq!(scene.run("assign_task", json!({"task": task, "assignees": []})).await["assignees"], json!([]));
    let done = scene.run("complete_task", json!({"task": task, "response": {"ok": true}})).await;
    assert_eq!((&done["status"], &done["completed_by"]["id"]), (&json!("completed"), &json!(scene.person.id)));
    assert_eq!(scene.run("delete_task", json!({"task": task})).await, json!({"done": true}));
    let made = json!({"object_record": visible, "task_template": 1, "name": "New", "assignees": [scene.person.id]});
    assert_eq!(scene.run("create_task", made).await["name"], "New");
    let elsewhere = json!({"object_record": other, "task_template": 1});
    let refused = scene.refused("create_task", elsewhere).await;
    assert_eq!(refused, json!({"object_record": [format!("Invalid pk {other} - object does not exist.")]}));
    assert_eq!(
        scene.refused("create_task", json!({"task_template": 1})).await,
        json!({"object_record": ["This field is required."]})
    );
}

#[tokio::test]
async fn calls_of_an_agent_are_listed_as_activity() {
    let scene = Scene::new().await;
    let record = scene.record(json!({}), true).await;
    scene.run("search_records", json!({"object_class": 1})).await;
    scene.run("update_record", json!({"object_record": record, "fields": {"title": "x"}})).await;
    scene.refused("delete_record", json!({"object_record": record})).await;
    scene.refused("get_record", json!({"object_record": 99})).await;
    let path = "/api/mcp/connectors/1/activity/";
    let activity = eventually(async || {
        let activity = scene.api.get(path).await.ok();
        if activity["total_count"] == 4 { Ok(activity) } else { Err(activity) }
    })
    .await;
    let lines = activity["results"].as_array().unwrap().clone();
    let times: Vec<&str> = lines.iter().map(|line| line["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|later, earlier| later >= earlier), "{times:?}");
    let description = |tool: &str| {
        let line = lines.iter().find(|line| line["tool"] == tool).unwrap();
        json!([line["object_class"], line["record_id"], line["outcome"], line["client"], line["user"]["id"]])
    };
    let person = scene.person.id;
    assert_eq!(description("search_records"), json!([1, null, "done", "Assistant", person]));
    assert_eq!(description("update_record"), json!([1, record, "done", "Assistant", person]));
    assert_eq!(description("delete_record")[2], "refused");
    assert_eq!(description("get_record"), json!([null, 99, "refused", "Assistant", person]));
    for (filter, count) in
        [("tool=update_record", 1), ("outcome=refused", 2), ("outcome=done", 2), ("user=99", 0), ("record_id=99", 1)]
    {
        let filtered = scene.api.get(&format!("{path}?{filter}")).await.ok();
        assert_eq!((&filtered["total_count"], &filtered["filtered_count"]), (&json!(4), &json!(count)), "{filter}");
    }
    scene
        .person
        .get(path)
        .await
        .expect_reply(403, json!({"detail": "You do not have permission to perform this action."}));
    scene.api.get("/api/mcp/connectors/9/activity/").await.expect_reply(404, json!({"detail": "Not found."}));
}
