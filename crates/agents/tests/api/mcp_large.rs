//! Large data (`docs/reference/mcp-server.md`): classes with thousands of options, answers, arguments and messages.

use crate::dance::{GrantTokens, TestAgent};
use crate::scene::Scene;
use crate::set_up::class;
use serde_json::{Value, json};

const FIELDS: &str = "/api/object-classes/1/fields/";

/// The documents of a class whose options have more than 1 MiB are sent in pieces.
#[tokio::test]
async fn a_class_with_many_options_is_described_and_its_tasks_are_completed() {
    let scene = Scene::new().await;
    scene.server.set_limit("api_object_field_enum_options_max_count", 2000).await;
    let text = "ä".repeat(90);
    for name in ["A", "B", "C", "D"] {
        let option = |n: usize| json!({"value": format!("{name}{n}"), "text": format!("{n}-{text}")});
        let options: Vec<Value> = (0..1900).map(option).collect();
        scene.api.post(FIELDS, json!({"label": name, "type": "enum", "options": options})).await.expect_created();
    }
    let described = scene.run("describe_object_class", json!({"object_class": 1})).await;
    let field = |described: &Value, alias: &str| {
        let fields = described["fields"].as_array().unwrap();
        fields.iter().find(|field| field["alias"] == alias).unwrap().clone()
    };
    for alias in ["a", "b", "c", "d"] {
        let field = field(&described, alias);
        assert_eq!((field["values"].as_array().unwrap().len(), &field["values_left_out"]), (100, &json!(1800)));
    }
    assert_eq!(field(&described, "state")["values_left_out"], Value::Null);
    let named = scene.run("describe_object_class", json!({"object_class": 1, "fields": ["a", "id"]})).await;
    assert_eq!(named["fields"].as_array().unwrap().len(), 2, "{:.500}", named.to_string());
    assert_eq!(field(&named, "a")["values"].as_array().unwrap().len(), 1900);
    let too_many = json!({"object_class": 1, "fields": ["a", "b", "c", "d"]});
    let too_long = json!({"detail": "The answer is longer than 1 MiB. Name the few `fields` that you need."});
    assert_eq!(scene.refused("describe_object_class", too_many).await, too_long);
    let unknown = scene.refused("describe_object_class", json!({"object_class": 1, "fields": ["e"]})).await;
    assert_eq!(unknown, json!({"fields": ["There is no field e."]}));

    let configuration = json!({"object_class": 1, "fields": ["a", "b", "c", "d"], "instructions": ""});
    let config = json!({"task_type": "tt_object_record_update", "configuration": configuration});
    let template = json!({"name": "Update", "complete_by": "asap", "plugin_config": config});
    let template = scene.api.post("/api/task-templates/", template).await.id();
    let record = scene.record(json!({"title": "One"}), true).await;
    let made = scene.run("create_task", json!({"object_record": record, "task_template": template})).await;
    let task = &made["id"];
    for (tool, arguments) in [
        ("get_task", json!({"task": task})),
        ("update_task", json!({"task": task, "name": "Choose"})),
        ("assign_task", json!({"task": task, "assignees": [scene.person.id]})),
    ] {
        let answer = scene.run(tool, arguments).await;
        let fields = &answer["form"]["fields"];
        assert_eq!(fields[3]["values"].as_array().unwrap().len(), 100, "{tool}");
        assert_eq!(fields[3]["values_left_out"], 1800, "{tool}");
    }
    // The answer to a person contains all options.
    let whole = scene.api.get(&format!("/api/tasks/{task}/")).await.ok();
    assert_eq!(whole["form"]["fields"][3]["values"].as_array().unwrap().len(), 1900);
    let response = json!({"fields": {"a": "A7"}});
    let done = scene.run("complete_task", json!({"task": task, "response": response})).await;
    assert_eq!(done["status"], "completed");
    let changed = scene.run("get_record", json!({"object_record": record, "fields": ["a"]})).await;
    assert_eq!(changed["fields"]["a"], "A7");
}

/// Adds fields of long texts to class 1: `text_1`, ….
async fn with_texts(scene: &Scene, count: usize) -> Value {
    let mut fields = json!({});
    for n in 1..=count {
        scene.api.post(FIELDS, json!({"label": format!("Text {n}"), "type": "text"})).await.expect_created();
        fields[format!("text_{n}")] = "x".repeat(64_000).into();
    }
    fields
}

#[tokio::test]
async fn an_answer_has_at_most_a_mebibyte_and_a_page_what_fits_into_it() {
    let scene = Scene::new().await;
    let long = with_texts(&scene, 17).await;
    let short: Value = (1..=5).map(|n| (format!("text_{n}"), long["text_1"].clone())).collect();
    for n in 0..7 {
        let mut fields = short.clone();
        fields["amount"] = n.into();
        scene.record(fields, true).await;
    }
    let (mut cursor, mut pages) = (Value::Null, Vec::new());
    loop {
        let mut arguments = json!({"object_class": 1, "ordering": "amount"});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = scene.run("search_records", arguments).await;
        assert_eq!((&page["total_count"], &page["filtered_count"]), (&json!(7), &json!(7)));
        let shown = page["results"].as_array().unwrap().iter();
        pages.push(shown.map(|of| of["fields"]["amount"].as_i64().unwrap()).collect::<Vec<_>>());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(pages, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);

    let record = scene.record(json!({"title": "Long"}), true).await;
    // A committed write is confirmed, even if its answer is too long.
    let mut fields = long.clone();
    fields["title"] = "Longer".into();
    let changed = scene.run("update_record", json!({"object_record": record, "fields": fields})).await;
    assert_eq!((&changed["id"], &changed["object_class"]), (&json!(record), &json!(1)));
    assert!(changed["left_out"].as_str().unwrap().starts_with("It was done."), "{changed:.300}");
    let too_long = json!({"detail": "The answer is longer than 1 MiB. Name the few `fields` that you need."});
    assert_eq!(scene.refused("get_record", json!({"object_record": record})).await, too_long);
    let search_arguments = json!({"object_class": 1, "filters": {"title": "Longer"}});
    assert_eq!(scene.refused("search_records", search_arguments).await, too_long);
    let shown = scene.run("get_record", json!({"object_record": record, "fields": ["title"]})).await;
    assert_eq!(shown["fields"], json!({"title": "Longer"}));
    let done = scene.api.get("/api/mcp/connectors/1/activity/?tool=update_record").await.ok();
    assert_eq!((&done["results"][0]["outcome"], &done["results"][0]["record_id"]), (&json!("done"), &json!(record)));
}

/// A message as clients of the newest revision send it.
fn newest_message(tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "Teller", "version": "3"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

async fn call_in_newest(scene: &Scene, message: &Value) -> testkit::Reply {
    let (agent, tokens): (&TestAgent, &GrantTokens) = (&scene.agent, &scene.tokens);
    let call = scene.server.anonymous().call("POST", &format!("/mcp/{}/", agent.uuid)).json(message);
    let call = call.header("accept", "application/json, text/event-stream");
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    let name = message["params"]["name"].as_str().unwrap().to_owned();
    call.header("mcp-name", &name).header("authorization", &format!("Bearer {}", tokens.access)).send().await
}

#[tokio::test]
async fn a_client_that_names_itself_in_each_call_is_named_from_the_first_one_on() {
    let scene = Scene::new().await;
    let record = scene.record(json!({"title": "One"}), true).await;
    let change = newest_message("update_record", json!({"object_record": record, "fields": {"title": "Two"}}));
    let reply = call_in_newest(&scene, &change).await.ok();
    assert_eq!(reply["result"]["structuredContent"]["fields"]["title"], "Two", "{reply}");
    let read = newest_message("get_record", json!({"object_record": record}));
    call_in_newest(&scene, &read).await.ok();
    let listed = scene.api.get("/api/mcp/connectors/1/activity/").await.ok();
    let clients: Vec<&Value> = listed["results"].as_array().unwrap().iter().map(|line| &line["client"]).collect();
    assert_eq!(clients, ["Teller 3", "Teller 3"]);
}

#[tokio::test]
async fn long_arguments_are_read_as_text_and_other_parts_of_messages_are_short() {
    let scene = Scene::new().await;
    let record = scene.record(json!({"title": "One"}), true).await;
    let limit = json!({"detail": "The arguments are too long: together they may have 64 KiB."});
    let search = json!({"object_class": 1, "search": "x".repeat(65_536)});
    assert_eq!(scene.refused("search_records", search).await, limit);
    let filters: Value = (0..2_000).map(|n| (format!("a{n}"), json!(1))).collect();
    let refused = scene.refused("search_records", json!({"object_class": 1, "filters": filters})).await;
    assert!(refused["detail"].is_string(), "{refused}");
    // The arguments of a tool that writes may be as long as a body, in calls of every revision.
    let many = json!(vec![json!([0]); 200_000]);
    let change = json!({"object_record": record, "fields": {"title": "Two", "amount": many}});
    let wrong = json!({"fields": {"amount": ["A valid integer is required."]}});
    assert_eq!(scene.refused("update_record", change.clone()).await, wrong);
    let reply = call_in_newest(&scene, &newest_message("update_record", change)).await.ok();
    assert_eq!(reply["result"]["structuredContent"], wrong);
    // The rest of the message has its own bound.
    let mut message = newest_message("get_record", json!({"object_record": record}));
    message["params"]["_meta"]["x"] = json!(vec![0; 1_000]);
    let refused = |message: &str| json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": message}});
    call_in_newest(&scene, &message).await.expect_reply(400, refused("too many values."));
    message["params"]["_meta"]["x"] = "x".repeat(65_536).into();
    call_in_newest(&scene, &message).await.expect_reply(400, refused("Only the arguments of a tool may be long."));
    message["params"]["_meta"]["x"] = json!(1);
    assert_eq!(call_in_newest(&scene, &message).await.ok()["result"]["structuredContent"]["id"], record);
}

#[tokio::test]
async fn filters_that_there_are_not_are_refused() {
    let scene = Scene::new().await;
    let hidden = class(&scene.api, "Hidden").await;
    let relation = json!({"label": "Secret", "type": "relation", "related_object_class": hidden});
    scene.api.post(FIELDS, relation).await.expect_created();
    let record = scene.record(json!({"title": "One"}), true).await;
    let of_class = "describe_object_class tells the fields and their operators.";
    let of_tool = "The tool's description names those that there are.";
    let search = |filters: Value| json!({"object_class": 1, "filters": filters});
    let tasks = |filters: Value| json!({"filters": filters});
    let history = |filters: Value| json!({"object_record": record, "filters": filters});
    for (tool, arguments, unknown, advice) in [
        ("search_records", search(json!({"above.titel": "x"})), "above.titel", of_class),
        ("search_records", search(json!({"above.above.title": "x"})), "above.above.title", of_class),
        ("search_records", search(json!({"title.title": "x"})), "title.title", of_class),
        ("search_records", search(json!({"nothing.title": "x"})), "nothing.title", of_class),
        ("list_tasks", tasks(json!({"state": "open"})), "state", of_tool),
        ("list_tasks", tasks(json!({"status__above": "open"})), "status__above", of_tool),
        ("list_tasks", tasks(json!({"assignee": "me"})), "assignee", of_tool),
        ("get_record_history", history(json!({"type": "x"})), "type", of_tool),
        ("get_record_history", history(json!({"event_data": "x"})), "event_data", of_tool),
    ] {
        let refused = json!({"filters": [format!("There is no filter {unknown}. {advice}")]});
        assert_eq!(scene.refused(tool, arguments).await, refused, "{tool}");
    }
    // An agent does not learn which fields a class has that it may not view.
    for filters in [json!({"above.title": "x"}), json!({"secret.whatever": 1}), json!({"secret.id": 1})] {
        assert_eq!(scene.run("search_records", search(filters)).await["filtered_count"], 0);
    }
    for filters in [
        json!({"status": "open"}),
        json!({"status__exact": "open", "id__gte": 2}),
        json!({"assignees": "me", "object_record": record}),
        json!({"assignees__in": ["me", 7], "task_template": 1, "created_at__gte": "2020-01-01"}),
    ] {
        assert_eq!(scene.run("list_tasks", tasks(filters)).await["filtered_count"], 0);
    }
}

#[tokio::test]
async fn a_class_tells_the_ids_that_creating_needs() {
    let scene = Scene::new().await;
    let form = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    scene.api.post("/api/task-templates/", form).await.expect_created();
    let other = json!({"name": "Nothing for agents", "permissions": {"object_records": ["view"]}});
    scene.api.post("/api/object-classes/1/record-permission-sets/", other).await.expect_created();
    let describe = async || scene.run("describe_object_class", json!({"object_class": 1})).await;
    // The person may not view the class, and the class has no record for which the agent may create tasks.
    let description = describe().await;
    assert_eq!((&description["permission_sets"], &description["task_templates"]), (&json!([]), &json!([])));
    scene.record(json!({}), true).await;
    let description = describe().await;
    let gives = json!({
        "object_records": ["view", "edit"], "tasks": ["create", "edit", "view", "delete", "complete", "assign"],
    });
    let mut sets = description["permission_sets"].clone();
    assert_eq!(
        (sets.as_array().unwrap().len(), &sets[0]["id"], &sets[0]["name"]),
        (1, &json!(1), &json!("Everything"))
    );
    for (resource, actions) in gives.as_object().unwrap() {
        let mut described: Vec<String> = serde_json::from_value(sets[0]["permissions"][resource].take()).unwrap();
        let mut expected: Vec<String> = serde_json::from_value(actions.clone()).unwrap();
        described.sort();
        expected.sort();
        assert_eq!(described, expected);
    }
    assert_eq!(description["task_templates"], json!([{"id": 1, "name": "Check", "task_type": "tt_form"}]));
    // Without the right to create tasks the description has no template.
    let nothing = json!({"object_records": ["view"], "tasks": []});
    let given = json!({"mcp_permissions": [{"connector": 1, "permissions": nothing}]});
    scene.api.patch("/api/object-classes/1/record-permission-sets/1/", given).await.ok();
    assert_eq!(describe().await["task_templates"], json!([]));
}
