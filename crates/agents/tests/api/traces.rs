//! The activity of agents and its retention (`docs/reference/mcp-server.md`).

use crate::TestServer;
use crate::dance::agent;
use crate::scene::Scene;
use agents::activity::notes::enforce_retention;
use kit::answer_cache::AnswerCache;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreEngine, StoreError};
use testkit::{ApiClient, DAY, HOUR, MINUTE, PostgreSql, SECOND, eventually};

const ACTIVITY: &str = "/api/mcp/connectors/1/activity/";

#[tokio::test]
async fn the_log_of_a_task_tells_what_an_agent_did() {
    let scene = Scene::new().await;
    let template = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    scene.api.post("/api/task-templates/", template).await.expect_created();
    let record = scene.record(json!({"title": "A"}), true).await;
    let run = async |tool: &str, arguments: Value| scene.agent.run(&scene.server, &scene.tokens, tool, arguments).await;
    let task = run("create_task", json!({"task_template": 1, "object_record": record, "name": "Look"})).await;
    let task = task["id"].as_i64().unwrap();
    run("update_task", json!({"task": task, "name": "Look again"})).await;
    run("assign_task", json!({"task": task, "assignees": [scene.person.id]})).await;
    run("complete_task", json!({"task": task, "response": {}})).await;
    scene.api.post(&format!("/api/tasks/{task}/reopen/"), json!({})).await.ok();
    let log = scene.api.get(&format!("/api/tasks/{task}/log/")).await.ok();
    let entries: Vec<Value> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| json!([entry["action"], entry["source_type"], entry["by"]["id"]]))
        .collect();
    let person = scene.person.id;
    let by_agent = |action: &str| json!([action, "mcp", person]);
    let expected =
        [json!(["reopen", "user", 1]), by_agent("complete"), by_agent("assign"), by_agent("edit"), by_agent("create")];
    assert_eq!(entries, expected);
}

/// The number of stored lines.
async fn count_stored_lines(server: &TestServer) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM agent_activity"), |row| row.int(0));
    server.app.store.control().read::<i64, StoreError>(count).await.unwrap()
}

/// The number of calls of the stored lines.
async fn count_calls(server: &TestServer) -> i64 {
    let sum = "SELECT CAST(COALESCE(sum(calls), 0) AS BIGINT) FROM agent_activity";
    let sum = move |conn: &mut Conn| conn.query_one(&Sql::new(sum), |row| row.int(0));
    server.app.store.control().read::<i64, StoreError>(sum).await.unwrap()
}

#[tokio::test]
async fn activity_is_kept_for_90_days_though_no_agent_calls_any_more() {
    let scene = Scene::new().await;
    scene.agent.run(&scene.server, &scene.tokens, "list_object_classes", json!({})).await;
    let count = async || scene.api.get(ACTIVITY).await.ok()["total_count"].clone();
    assert_eq!((count().await, count_stored_lines(&scene.server).await), (json!(1), 1));
    scene.server.advance(90 * DAY + 1);
    let api = scene.server.admin().await;
    // Lists omit the line immediately, and it is deleted soon after.
    assert_eq!(api.get(ACTIVITY).await.ok()["total_count"], 0);
    eventually(async || {
        // The sweeps of builds are spread over an hour.
        scene.server.advance(HOUR);
        kit::jobs::wake(&scene.server.app, &scene.server.build);
        count_stored_lines(&scene.server).await == 0
    })
    .await;
}

#[tokio::test]
async fn of_too_many_lines_each_connector_keeps_its_own_newest() {
    let scene = Scene::new().await;
    let other = agent(&scene.api, "Other").await;
    let of_other = other.grant(&scene.server, &scene.person.username).await;
    let listed = async |connector: i64, query: &str| {
        scene.api.get(&format!("/api/mcp/connectors/{connector}/activity/{query}")).await.ok()
    };
    other.run(&scene.server, &of_other, "list_object_classes", json!({})).await;
    for n in 1..=5 {
        scene.server.advance(MINUTE);
        scene.run("list_object_classes", json!({})).await;
        assert_eq!(listed(1, "").await["total_count"], n);
    }
    let newest = listed(1, "?limit=3").await["results"].clone();
    for _ in 0..2 {
        enforce_retention(&scene.server.app, &scene.server.build, 3).await.unwrap();
        let left = listed(1, "").await;
        assert_eq!((&left["results"], &left["total_count"]), (&newest, &json!(3)));
    }
    // The oldest line belongs to the other connector.
    assert_eq!(listed(2, "").await["total_count"], 1);
}

#[tokio::test]
async fn equal_reads_of_a_minute_are_one_line() {
    let scene = Scene::new().await;
    let (first, second) = (scene.record(json!({}), true).await, scene.record(json!({}), true).await);
    let of_other = scene.agent.grant(&scene.server, "admin@example.com").await;
    let get = async |record: i64| drop(scene.run("get_record", json!({"object_record": record})).await);
    for _ in 0..3 {
        get(first).await;
    }
    get(second).await;
    // Calls are added to lines that are already stored.
    assert_eq!(scene.api.get(ACTIVITY).await.ok()["total_count"], 2);
    scene.server.advance(SECOND);
    get(first).await;
    scene.refused("get_record", json!({"object_record": 999})).await;
    scene.refused("get_record", json!({"object_record": 999})).await;
    scene.agent.expect_refusal(&scene.server, &of_other, "get_record", json!({"object_record": 999})).await;
    // Each write has its own line, even if it is refused.
    let change = json!({"object_record": first, "fields": {"title": "A"}});
    scene.run("update_record", change.clone()).await;
    scene.run("update_record", change).await;
    scene.refused("update_record", json!({"object_record": 999})).await;
    scene.refused("update_record", json!({"object_record": 999})).await;
    scene.server.advance(MINUTE);
    get(first).await;
    let listed = scene.api.get(&format!("{ACTIVITY}?ordering=at")).await.ok();
    let mut lines: Vec<Value> = listed["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            json!([line["at"], line["tool"], line["record_id"], line["user"]["id"], line["outcome"], line["count"]])
        })
        .collect();
    lines.sort_by_key(Value::to_string);
    let [began, later, after] = ["09:30:00", "09:30:01", "09:31:01"].map(|time| format!("2026-01-31T{time}.000000Z"));
    let person = scene.person.id;
    let mut expected = [
        json!([began, "get_record", first, person, "done", 4]),
        json!([began, "get_record", second, person, "done", 1]),
        json!([later, "get_record", 999, person, "refused", 2]),
        json!([later, "get_record", 999, 1, "refused", 1]),
        json!([later, "update_record", first, person, "done", 1]),
        json!([later, "update_record", first, person, "done", 1]),
        json!([later, "update_record", 999, person, "refused", 1]),
        json!([later, "update_record", 999, person, "refused", 1]),
        json!([after, "get_record", first, person, "done", 1]),
    ];
    expected.sort_by_key(Value::to_string);
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn nothing_names_the_programs_of_a_person_who_was_anonymized() {
    let scene = Scene::new().await;
    let of_admin = scene.agent.grant(&scene.server, "admin@example.com").await;
    let client = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "Anna's laptop", "version": "1"},
    });
    scene.agent.send_request(&scene.server, &scene.tokens, "initialize", client.clone()).await.ok();
    scene.agent.send_request(&scene.server, &of_admin, "initialize", client).await.ok();
    let record = scene.record(json!({}), true).await;
    scene.run("get_record", json!({"object_record": record})).await;
    scene.run("update_record", json!({"object_record": record, "fields": {"title": "A"}})).await;
    scene.agent.run(&scene.server, &of_admin, "list_object_classes", json!({})).await;
    let clients = async |api: &ApiClient| {
        let lines = api.get(ACTIVITY).await.ok();
        let person_and_client = |line: &Value| json!([line["user"]["id"], line["client"]]);
        let mut all: Vec<Value> = lines["results"].as_array().unwrap().iter().map(person_and_client).collect();
        all.sort_by_key(Value::to_string);
        json!(all)
    };
    let (name, person) = ("Anna's laptop 1", scene.person.id);
    assert_eq!(clients(&scene.api).await, json!([[1, name], [person, name], [person, name]]));
    scene.api.post(&format!("/api/users/{person}/deactivate/"), json!({})).await.ok();
    scene.api.post(&format!("/api/users/{person}/anonymize/"), json!({})).await.ok();
    // Lists omit the names immediately, and they are erased soon after.
    assert_eq!(clients(&scene.api).await, json!([[1, name], [person, ""], [person, ""]]));
    let named = async || {
        let sql = "SELECT count(*) FROM agent_activity WHERE client <> ''";
        scene
            .server
            .app
            .store
            .control()
            .read::<i64, StoreError>(|conn| conn.query_one(&Sql::new(sql), |row| row.int(0)))
            .await
    };
    assert_eq!(named().await.unwrap(), 3);
    eventually(async || {
        // The sweeps of builds are spread over an hour.
        scene.server.advance(HOUR);
        kit::jobs::wake(&scene.server.app, &scene.server.build);
        named().await == Ok(1)
    })
    .await;
}

#[tokio::test]
async fn the_name_that_an_agent_tells_makes_no_other_caller_be_read_again() {
    let scene = Scene::new().await;
    let version = async || {
        let read = |conn: &mut Conn| {
            conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'rights'"), |row| row.int(0))
        };
        scene.server.build.db.read::<i64, StoreError>(read).await.unwrap()
    };
    let before = version().await;
    for version in ["1", "2", "1"] {
        scene.server.advance(MINUTE);
        let client = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "Scribe", "version": version},
        });
        scene.agent.send_request(&scene.server, &scene.tokens, "initialize", client).await.ok();
        scene.agent.run(&scene.server, &scene.tokens, "list_object_classes", json!({})).await;
        let newest = scene.api.get(ACTIVITY).await.ok()["results"][0].clone();
        assert_eq!(newest["client"], format!("Scribe {version}"));
    }
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn reads_of_agents_do_not_invalidate_cached_answers() {
    // The test has its own server, since every write on a server changes the state of all its builds.
    let postgresql = PostgreSql::start();
    let url = postgresql.as_ref().map(PostgreSql::url);
    let server = TestServer::start_with(|config| {
        if let Some(url) = url {
            config.engine = StoreEngine::Postgres { url };
        }
    });
    let server = server.await;
    let scene = Scene::on(server).await;
    let record = scene.record(json!({"title": "A"}), true).await;
    let (path, arguments) = (format!("/api/object-records/{record}/"), json!({"object_record": record}));
    let hits = || scene.server.app.slot::<AnswerCache>().hits();
    let (mut reused, mut lost) = (0, 0);
    while reused + lost < 20 {
        let before = hits();
        scene.api.get(&path).await.ok();
        if hits() == before {
            // The first answer was not cached yet.
            continue;
        }
        let calls = count_calls(&scene.server).await;
        scene.run("get_record", arguments.clone()).await;
        // The list writes the waiting lines.
        scene.api.get(ACTIVITY).await.ok();
        assert_eq!(count_calls(&scene.server).await, calls + 1);
        let before = hits();
        scene.api.get(&path).await.ok();
        if hits() > before { reused += 1 } else { lost += 1 }
    }
    // The database may run statements of its own.
    assert!(reused >= 18, "{lost} of 20 were lost");
}
