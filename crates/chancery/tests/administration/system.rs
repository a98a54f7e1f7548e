//! `GET /api/administration/system/` (`docs/reference/system.md`).

use crate::TestServer;
use crate::message;
use serde_json::json;

const PATH: &str = "/api/administration/system/";

#[tokio::test]
async fn super_admins_read_the_state_of_their_build() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Readers"})).await.expect_created();

    let system = admin.get(PATH).await.ok();

    assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
    let engine = if server.app.store.is_embedded() { "sqlite" } else { "postgresql" };
    assert_eq!(system["database"], json!({"engine": engine}));
    assert_eq!(system["storage"], json!({"bytes": 0, "limit_gigabytes": 100}));
    let limits = system["limits"].as_array().unwrap();
    let users = limits.iter().find(|limit| limit["name"] == "roles").unwrap();
    assert_eq!(users["count"], 1, "{users}");
    assert_eq!(system["jobs"], json!([]));
    assert_eq!(system["deliveries"], json!({"waiting": 0, "failing": []}));
    assert_eq!(system["mail"], json!({"is_set_up": false, "waiting": 0, "failed": 0}));
    assert_eq!(system["history"]["is_reachable"], true);
}

#[tokio::test]
async fn others_may_not() {
    let server = TestServer::start().await;
    server.anonymous().get(PATH).await.expect_reply(401, message::unauthenticated());
    let auditor = server.with_role(json!({"administration_log": ["list"]})).await;
    auditor.get(PATH).await.expect_reply(403, message::forbidden());
}
