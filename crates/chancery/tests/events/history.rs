//! The main API together with the real history service.

use crate::BINARY;
use serde_json::{Value as Json, json};
use testkit::{ADMIN, ApiClient, HISTORY_KEY, Installation, PASSWORD, Process, eventually};

fn installation() -> Installation {
    let installation = Installation::embedded(BINARY)
        .set("CHANCERY_ADMIN_PASSWORD", PASSWORD)
        .set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY);
    match testkit::history_database_url() {
        Some(url) => installation.set("CHANCERY_HISTORY_DATABASE_URL", &url),
        None => installation,
    }
}

/// Returns a caller of the history service with the tenant of a build, from the output of `build list`.
pub fn tenant(installation: &Installation, process: &Process, domain: &str) -> ApiClient {
    let listed = installation.succeeds(&["build", "list"]);
    let line = listed.lines().find(|line| line.starts_with(&format!("{domain}\t"))).unwrap();
    let client_id = line.split('\t').nth(4).unwrap();
    ApiClient::new(process.history(), "history.example")
        .with_header("x-api-key", HISTORY_KEY)
        .with_header("x-client-id", client_id)
}

/// Returns the first list of system events with at least this number.
pub async fn events(history: &ApiClient, count: usize) -> Vec<Json> {
    eventually(async || {
        let listed = history.get("/api/system-events").await.ok();
        let results = listed["results"].as_array().unwrap().clone();
        if results.len() >= count { Ok(results) } else { Err(results) }
    })
    .await
}

fn event_pairs(events: &[Json]) -> Vec<(Json, Json)> {
    events.iter().map(|event| (event["event_type"].clone(), event["source_id"].clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_arrive_in_the_history_of_their_build() {
    let installation = installation();
    let process = installation.serve();
    installation.succeeds(&["build", "create", "b.example", "--history-url", &format!("http://{}", process.history())]);
    let (here, there) = (process.client("localhost"), process.client("b.example"));
    here.login(ADMIN, "wrong").await.expect(401);
    here.login(ADMIN, PASSWORD).await.ok();
    there.login("nobody@example.com", PASSWORD).await.expect(401);
    let of_localhost = events(&tenant(&installation, &process, "localhost"), 2).await;
    assert_eq!(event_pairs(&of_localhost), [(json!("login_success"), json!(1)), (json!("login_failed"), json!(1))]);
    assert_eq!(of_localhost[1]["source_ip"], "127.0.0.1");
    let of_the_other = events(&tenant(&installation, &process, "b.example"), 1).await;
    assert_eq!(event_pairs(&of_the_other), [(json!("login_failed"), json!(0))]);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_has_the_history() {
    if testkit::history_database_url().is_some() {
        // ClickHouse has its own backups.
        return;
    }
    let installation = installation();
    let process = installation.serve();
    process.client("localhost").login(ADMIN, PASSWORD).await.ok();
    let history = tenant(&installation, &process, "localhost");
    let before = events(&history, 1).await;
    let upload = history.get("/api/files/upload-url").await.ok();
    let address = upload["upload_url"].as_str().unwrap().split_once("/api/").unwrap().1.to_owned();
    let put = history.call("PUT", &format!("/api/{address}")).body("text/plain", "content").send().await;
    assert_eq!(put.status, 200);
    installation.succeeds(&["backup", "copy"]);
    process.stop();

    let copy = installation.home().join("copy");
    let process = installation.serve_with(&["--data", copy.to_str().unwrap()]);
    let history = tenant(&installation, &process, "localhost");
    let mut after = events(&history, 1).await;
    after.retain(|event| before.contains(event));
    assert_eq!(after, before);
    let id = "00000000-0000-4000-8000-000000000001";
    let data = json!({"document_template_id": 1, "field_id": 0, "file_id": upload["file_id"]}).to_string();
    let event = json!({
        "version": "0", "id": id, "detail-type": "event", "source": "", "account": "", "time": "2026-01-31T09:30:00Z",
        "region": "", "resources": [], "detail": {
            "event_id": id, "event_time": "2026-01-31T09:30:00Z", "event_type_id": 9, "record_id": 1, "source_id": 1,
            "source_type_id": 1, "event_data": [data],
        },
    });
    history.post("/api/event-bridge/create-event", event).await.expect_created();
    let reply = history.get(&format!("/api/history/events/{id}/file")).await;
    let address = reply.header("location").split_once("/api/").unwrap().1.to_owned();
    assert_eq!(history.get(&format!("/api/{address}")).await.text, "content");
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_history_service_stops_nothing() {
    let installation = installation();
    let both = installation.serve();
    both.client("localhost").login(ADMIN, PASSWORD).await.ok();
    let first = events(&tenant(&installation, &both, "localhost"), 1).await;
    both.stop();
    // Only the main API runs, so its deliveries get no answer.
    let api = installation.serve_api();
    for _ in 0..3 {
        api.client("localhost").login(ADMIN, PASSWORD).await.ok();
    }
    // A commit at the time of the process's first count can be missing until the next count.
    eventually(async || api.client("localhost").get("/readyz").await.ok()["history"]["waiting"] == 3).await;
    let ready = api.client("localhost").get("/readyz").await.ok();
    assert_eq!((&ready["status"], &ready["history"]["waiting"]), (&json!("ok"), &json!(3)));
    api.kill();
    let both = installation.serve();
    let all = events(&tenant(&installation, &both, "localhost"), 4).await;
    assert_eq!(all.len(), 4);
    assert_eq!(all[3], first[0]);
    both.stop();
}

/// A batch of 10,000 events that fills the largest body.
fn full_batch(number: usize) -> String {
    const LARGEST: usize = 16 * 1024 * 1024;
    let event = |n: usize, data: &str| {
        format!(
            r#"{{"id":"{number:08x}-0000-4000-8000-{n:012x}","event_timestamp":"2026-01-31T09:30:00.123456Z","category":1,"event_type":1,"event_data":"{data}"}}"#
        )
    };
    let data = "x".repeat((LARGEST - 20) / 10_000 - event(0, "").len() - 1);
    let events: Vec<String> = (0..10_000).map(|n| event(n, &data)).collect();
    let body = format!(r#"{{"events":[{}]}}"#, events.join(","));
    assert!((LARGEST - 100_000..=LARGEST).contains(&body.len()), "{}", body.len());
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn four_full_batches_at_once_take_less_than_200_mib() {
    let installation = installation();
    let process = installation.serve_history();
    let api = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    let wanted = json!({"database_name": "large", "client_label": "large"});
    let made = api.post("/api/initialize-tenant", wanted).await.expect_created();
    let api = api.with_header("x-client-id", made["client_id"].as_str().unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let (api, body) = (api.clone(), full_batch(number));
            tokio::spawn(async move {
                api.call("POST", "/api/system-events/batch").body("application/json", body).send().await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().expect_reply(201, json!({"inserted": 10_000}));
    }
    let mebibytes = process.peak_memory();
    assert!(mebibytes < 200, "{mebibytes} MiB");
}
