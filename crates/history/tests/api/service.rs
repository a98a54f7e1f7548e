//! Tests the id of the service, by which callers distinguish it from every other one.

use crate::system_event;
use serde_json::json;
use testkit::HistoryServer;
use uuid::Uuid;

#[tokio::test]
async fn each_service_has_an_id_of_its_own() {
    let (first_server, second_server) = (HistoryServer::start().await, HistoryServer::start().await);
    let refused = json!({"detail": "Unauthorized API Key."});
    first_server.client_without_key().get("/api/service").await.expect_reply(401, refused);

    let service = first_server.client_with_key().get("/api/service").await.ok();

    let id = service["id"].as_str().unwrap();
    assert_eq!(service, json!({"id": id}));
    assert_eq!(Uuid::parse_str(id).unwrap().get_version_num(), 4);
    assert_eq!(first_server.client_with_key().get("/api/service/").await.ok(), service);
    assert_ne!(second_server.client_with_key().get("/api/service").await.ok(), service);
}

#[tokio::test]
async fn a_request_that_is_meant_for_another_service_is_refused() {
    let server = HistoryServer::start().await;
    let api = server.tenant("mine").await;
    let id = server.client_with_key().get("/api/service").await.ok()["id"].as_str().unwrap().to_owned();
    let events = json!({"events": [system_event(1)]});
    let for_other = api.with_header("x-history-service", "7c9e6679-7425-40de-944b-e07fc1f90ae7");
    let refused = json!({"detail": "This is another history service."});

    for_other.post("/api/system-events/batch", events.clone()).await.expect_reply(421, refused.clone());
    for_other.delete("/api/delete-tenant").await.expect_reply(421, refused.clone());
    let both = for_other.call("DELETE", "/api/delete-tenant").header("x-history-service", &id);
    both.send().await.expect_reply(421, refused);
    // The key is checked first.
    let stranger = server.client_without_key().with_header("x-history-service", "another");
    stranger.get("/api/service").await.expect_reply(401, json!({"detail": "Unauthorized API Key."}));

    let for_this = api.with_header("x-history-service", &id);
    for_this.post("/api/system-events/batch", events).await.expect_reply(201, json!({"inserted": 1}));
    for_this.delete("/api/delete-tenant").await.expect_empty();
}
