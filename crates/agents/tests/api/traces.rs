//! What calls of agents leave behind, and for how long (`docs/reference/mcp-server.md`).

use crate::mcp_tools::Scene;
use platform::agents::activity::notes::keep;
use platform::kit::answer_cache::AnswerCache;
use serde_json::{Value, json};
use store::{Conn, Engine, Error, Sql};
use testkit::{DAY, HOUR, PostgreSql, Server};

const ACTIVITY: &str = "/api/mcp/connectors/1/activity/";

#[tokio::test]
async fn the_log_of_a_task_tells_what_an_agent_did() {
    let scene = Scene::on(Server::start().await).await;
    let template = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    scene.api.post("/api/task-templates/", template).await.created();
    let record = scene.record(json!({"title": "A"}), true).await;
    let run = async |tool: &str, arguments: Value| scene.agent.run(&scene.server, &scene.tokens, tool, arguments).await;
    let task = run("create_task", json!({"task_template": 1, "object_record": record, "name": "Look"})).await;
    let task = task["id"].as_i64().unwrap();
    run("update_task", json!({"task": task, "name": "Look again"})).await;
    run("assign_task", json!({"task": task, "assignees": [scene.person.id]})).await;
    run("complete_task", json!({"task": task, "response": {}})).await;
    scene.api.post(&format!("/api/tasks/{task}/reopen/"), json!({})).await.ok();
    let log = scene.api.get(&format!("/api/tasks/{task}/log/")).await.ok();
    let told: Vec<Value> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| json!([entry["action"], entry["source_type"], entry["by"]["id"]]))
        .collect();
    let person = scene.person.id;
    let by_agent = |action: &str| json!([action, "mcp", person]);
    let expected =
        [json!(["reopen", "user", 1]), by_agent("complete"), by_agent("assign"), by_agent("edit"), by_agent("create")];
    assert_eq!(told, expected);
}

/// How many lines are stored.
async fn stored(server: &Server) -> i64 {
    let count = |conn: &mut Conn| conn.one(&Sql::new("SELECT count(*) FROM agent_activity"), |row| row.int(0));
    server.app.store.control().read::<i64, Error>(count).await.unwrap()
}

#[tokio::test]
async fn activity_is_kept_for_90_days_though_no_agent_calls_any_more() {
    let scene = Scene::on(Server::start().await).await;
    scene.agent.run(&scene.server, &scene.tokens, "list_object_classes", json!({})).await;
    let count = async || scene.api.get(ACTIVITY).await.ok()["total_count"].clone();
    assert_eq!((count().await, stored(&scene.server).await), (json!(1), 1));
    scene.server.advance(90 * DAY + 1);
    let api = scene.server.admin().await;
    // It is listed no more at once, and gone soon after.
    assert_eq!(api.get(ACTIVITY).await.ok()["total_count"], 0);
    let mut left = 1;
    for _ in 0..500 {
        left = stored(&scene.server).await;
        if left == 0 {
            break;
        }
        // Builds take turns within an hour.
        scene.server.advance(HOUR);
        platform::kit::jobs::wake(&scene.server.app, &scene.server.build);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(left, 0);
}

#[tokio::test]
async fn of_too_many_lines_the_newest_are_kept() {
    let scene = Scene::on(Server::start().await).await;
    let count = async || scene.api.get(ACTIVITY).await.ok()["total_count"].clone();
    for (n, limit) in (1..=5).enumerate() {
        scene.server.advance(testkit::SECOND);
        scene.run("list_object_classes", json!({"limit": limit})).await;
        assert_eq!(count().await, n + 1);
    }
    let newest = scene.api.get(&format!("{ACTIVITY}?limit=3")).await.ok()["results"].clone();
    keep(&scene.server.app, &scene.server.build, 3).await.unwrap();
    let left = scene.api.get(ACTIVITY).await.ok();
    assert_eq!((&left["results"], &left["total_count"]), (&newest, &json!(3)));
    keep(&scene.server.app, &scene.server.build, 3).await.unwrap();
    assert_eq!(count().await, 3);
}

#[tokio::test]
async fn the_name_that_an_agent_tells_makes_no_other_caller_be_read_again() {
    let scene = Scene::on(Server::start().await).await;
    let version = async || {
        let read =
            |conn: &mut Conn| conn.one(&Sql::new("SELECT n FROM versions WHERE name = 'rights'"), |row| row.int(0));
        scene.server.build.db.read::<i64, Error>(read).await.unwrap()
    };
    let before = version().await;
    for version in ["1", "2", "1"] {
        let client = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "Scribe", "version": version},
        });
        scene.agent.ask(&scene.server, &scene.tokens, "initialize", client).await.ok();
        scene.agent.run(&scene.server, &scene.tokens, "list_object_classes", json!({})).await;
        let newest = scene.api.get(ACTIVITY).await.ok()["results"][0].clone();
        assert_eq!(newest["client"], format!("Scribe {version}"));
    }
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn what_agents_read_takes_no_answer_from_what_is_kept() {
    // A server of its own, since every write on a server changes the state of all its builds.
    let postgresql = PostgreSql::start();
    let url = postgresql.as_ref().map(PostgreSql::url);
    let server = Server::with(|config| {
        if let Some(url) = url {
            config.engine = Engine::Postgres { url };
        }
    });
    let server = server.await;
    let scene = Scene::on(server).await;
    let record = scene.record(json!({"title": "A"}), true).await;
    let (path, arguments) = (format!("/api/object-records/{record}/"), json!({"object_record": record}));
    let hits = || scene.server.app.slot::<AnswerCache>().hits();
    let (mut kept, mut lost) = (0, 0);
    while kept + lost < 20 {
        let before = hits();
        scene.api.get(&path).await.ok();
        if hits() == before {
            // It was not kept yet.
            continue;
        }
        let lines = stored(&scene.server).await;
        scene.run("get_record", arguments.clone()).await;
        // This has the lines written that wait.
        scene.api.get(ACTIVITY).await.ok();
        assert_eq!(stored(&scene.server).await, lines + 1);
        let before = hits();
        scene.api.get(&path).await.ok();
        if hits() > before { kept += 1 } else { lost += 1 }
    }
    // The database may do something by itself.
    assert!(kept >= 18, "{lost} of 20 were lost");
}
