//! The listener of metrics, and the log's form and addresses. `reliability/prometheus` loads them into Prometheus.

use crate::BINARY;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, eventually};

/// Returns a client of the listener of metrics.
async fn metrics_client(process: &Process) -> ApiClient {
    let address = eventually(async || {
        let printed = process.stdout();
        let (_, line) = printed.split_once("Metrics are at http://")?;
        Some(line.split('/').next()?.parse().expect("an address"))
    });
    ApiClient::new(address.await, "localhost")
}

/// Returns the samples of the metrics, by name and labels.
async fn samples(client: &ApiClient) -> BTreeMap<String, f64> {
    let reply = client.get("/metrics").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let lines = reply.text.lines().filter(|line| !line.starts_with('#'));
    let parts = lines.map(|line| line.rsplit_once(' ').expect("a name and a value"));
    parts.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_by_route_and_contain_no_data_of_a_build() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_with(&["--metrics-listen", "127.0.0.1:0"]);
    let metrics = metrics_client(&process).await;
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    admin.post("/api/roles/", json!({"name": "Zanzibar"})).await.expect_created();
    for _ in 0..3 {
        admin.get("/api/roles/1/").await.ok();
    }
    admin.get("/api/roles/77777/").await.expect(404);
    admin.get("/api/zanzibar/").await.expect(404);

    let samples = samples(&metrics).await;
    let of_role = r#"method="GET",route="/api/roles/{id}/""#;
    for (name, value) in [
        (format!("chancery_http_requests_total{{{of_role},status=\"200\"}}"), 3.0),
        (format!("chancery_http_requests_total{{{of_role},status=\"404\"}}"), 1.0),
        (format!("chancery_http_request_duration_seconds_count{{{of_role}}}"), 4.0),
        (format!("chancery_http_request_duration_seconds_bucket{{{of_role},le=\"+Inf\"}}"), 4.0),
        (r#"chancery_http_requests_total{method="",route="none",status="404"}"#.to_owned(), 1.0),
        ("chancery_hashing_done_total".to_owned(), 1.0),
        ("chancery_hashing_waiting".to_owned(), 0.0),
        ("chancery_files_available".to_owned(), 1.0),
        (r#"chancery_store_waiting{engine="sqlite"}"#.to_owned(), 0.0),
    ] {
        let is_of_other_engine = name.contains("sqlite") && installation.database_url().is_some();
        assert!(is_of_other_engine || samples.get(&name) == Some(&value), "{name} {value}: {samples:#?}");
    }
    for name in [
        r#"chancery_connections{listener="api"}"#,
        r#"chancery_connections{listener="history"}"#,
        r#"chancery_jobs{state="waiting"}"#,
        r#"chancery_job_attempts_total{kind="mail",outcome="done"}"#,
        "chancery_outbox_waiting",
        "chancery_outbox_lag_seconds",
        "chancery_history_reachable",
        r#"chancery_delivery_attempts_total{outcome="accepted"}"#,
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        r#"chancery_free_bytes{for="answers"}"#,
    ] {
        assert!(samples.contains_key(name), "{name}: {samples:#?}");
    }
    let text = metrics.get("/metrics").await.text;
    for data in ["Zanzibar", "zanzibar", "77777", "admin@example.com", "127.0.0.1", "localhost"] {
        assert!(!text.contains(data), "{data}: {text}");
    }
    // Every metric is described once, before its samples.
    let described: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let mut distinct = described.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(described.len(), distinct.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_of_metrics_answers_nothing_else_and_is_off_by_default() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_with(&["--metrics-listen", "127.0.0.1:0"]);
    let metrics = metrics_client(&process).await;
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/api/roles/", 404),
        ("GET", "/readyz", 404),
        ("POST", "/metrics", 405),
        ("HEAD", "/metrics", 200),
    ] {
        assert_eq!(metrics.call(method, path).send().await.status, status, "{method} {path}");
    }
    process.client("localhost").get("/metrics").await.expect(404);
    process.stop();
    let process = installation.serve();
    assert!(!process.stdout().contains("Metrics"), "{}", process.stdout());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_logged_with_the_address_of_its_client() {
    let installation = Installation::with_build(BINARY).set("CHANCERY_TRUSTED_PROXIES", "127.0.0.1");
    let process = installation.serve_api();
    process.client("localhost").with_header("x-forwarded-for", "203.0.113.9").get("/api/roles/").await.expect(401);
    let line = eventually(async || {
        let log = process.stderr();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["path"] == "/api/roles/")
    })
    .await;
    assert_eq!((&line["address"], &line["status"]), (&json!("203.0.113.9"), &json!(401)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_for_people_on_request() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_with(&["--log-format", "pretty"]);
    process.client("localhost").get("/api/roles/").await.expect(401);
    let line = eventually(async || {
        let log = process.stderr();
        log.lines().find(|line| line.contains("path=/api/roles/")).map(str::to_owned)
    })
    .await;
    assert!(
        line.contains(" INFO  request ") && line.contains(" status=401 ") && line.contains(" address=127.0.0.1"),
        "{line}"
    );
    let refused = installation.fails(&["serve", "--log-format", "loud"]);
    assert_eq!(refused, "chancery: --log-format: \"loud\" is none of auto, json, pretty\n");
}
