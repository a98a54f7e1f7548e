//! `/api/object-records/{id}/history/` (`docs/reference/history.md`).

use crate::TestServer;
use crate::set_up::class;
use serde_json::json;
use testkit::{FakeHistory, HistoryServer, eventually, message};

#[tokio::test]
async fn without_the_service_a_history_is_unavailable_to_those_who_may_see_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order", json!([])).await;
    let id = api.post("/api/object-classes/1/object-records/", json!({})).await.id();
    let path = format!("/api/object-records/{id}/history/");
    let unavailable = json!({"detail": "History is unavailable."});
    api.get(&path).await.expect_reply(503, unavailable.clone());
    api.get(&format!("{path}?limit=0&event_type=x")).await.refuses(json!({
        "limit": ["Ensure this value is greater than or equal to 1."],
        "event_type": ["Select a valid choice. x is not one of the available choices."],
    }));
    let stranger = server.as_type("internal").await;
    stranger.get(&path).await.expect_reply(404, message::not_found());
    // The history of a deleted record is only in the history service.
    api.delete(&format!("/api/object-records/{id}/")).await.expect_empty();
    api.get(&path).await.expect_reply(503, unavailable);
    stranger.get(&path).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_history_outlives_its_record_for_super_admins() {
    let history = HistoryServer::start().await;
    let service = FakeHistory::service_at(history.address.port());
    let server = TestServer::start_with(|settings| settings.events.history = service).await;
    let api = server.admin().await;
    class(&api, "Order", json!([{"label": "Title", "type": "string"}])).await;
    let owner = server.as_type("internal").await;
    let body = json!({"fields": {"title": "A"}, "owner": owner.id});
    let id = api.post("/api/object-classes/1/object-records/", body).await.id();
    let path = format!("/api/object-records/{id}/history/");
    let types = async |count: usize| {
        let mut types = eventually(async || {
            let reply = api.get(&path).await;
            // The service counts and reads in sequence, so an event may arrive in between.
            let is_complete =
                reply.status == 200 && reply["total_count"] == count && reply.column("event_type").len() == count;
            if is_complete { Ok(reply.column("event_type")) } else { Err(reply) }
        })
        .await;
        types.sort_by_key(|name| name.to_string());
        types
    };
    assert_eq!(types(2).await, ["owner_initialized", "record_created"]);
    assert_eq!(owner.get(&path).await.ok()["total_count"], 2);
    assert_eq!(api.get(&format!("{path}?event_type=record_created")).await["filtered_count"], 1);
    api.delete(&format!("/api/object-records/{id}/")).await.expect_empty();
    assert_eq!(types(3).await, ["owner_initialized", "record_created", "record_deleted"]);
    owner.get(&path).await.expect_reply(404, message::not_found());
    api.get("/api/object-records/99/history/").await.expect_reply(404, message::not_found());
}
