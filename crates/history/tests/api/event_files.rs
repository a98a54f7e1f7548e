//! Tests `/api/files/upload-url` and `/api/history/events/{event_id}/file`.

use crate::{detail, envelope, id};
use serde_json::{Value as Json, json};
use testkit::{ApiClient, HistoryServer, Reply};

const TIME: &str = "2026-01-31T09:30:00Z";

async fn add_generated(api: &ApiClient, n: u32, file_id: &Json) {
    let mut event = detail(n, 1, 9, TIME);
    let data = json!({"document_template_id": 1, "field_id": 0, "file_id": file_id});
    event["event_data"] = json!([data.to_string()]);
    api.post("/api/event-bridge/create-event", envelope("files", event)).await.expect_created();
}

/// Returns the path and query of an address.
fn path(server: &HistoryServer, address: &str) -> String {
    address.strip_prefix(&format!("http://{}", server.address)).expect("an address of the service").to_owned()
}

#[tokio::test]
async fn a_file_goes_up_and_comes_down_without_a_key() {
    let server = HistoryServer::start().await;
    let api = server.tenant("files").await;
    let upload = api.get("/api/files/upload-url").await.ok();
    let members: Vec<&String> = upload.as_object().unwrap().keys().collect();
    assert_eq!(members, ["upload_url", "file_id"]);
    let (upload_url, file_id) = (upload["upload_url"].as_str().unwrap(), upload["file_id"].as_str().unwrap());
    assert!(upload_url.contains(&format!("/files/{file_id}")), "the key begins with the tenant's name: {upload_url}");
    let body = b"%PDF-1.7 \x00\xff".to_vec();
    let put = server.client_without_key().call("PUT", &path(&server, upload_url)).body("application/pdf", body.clone());
    assert_eq!(put.send().await.status, 200);

    add_generated(&api, 1, &upload["file_id"]).await;
    let reply = api.get(&format!("/api/history/events/{}/file", id(1))).await;
    assert_eq!(reply.status, 302);
    let reply = server.client_without_key().get(&path(&server, reply.header("location"))).await;
    assert_eq!((reply.status, reply.text.as_bytes()), (200, String::from_utf8_lossy(&body).as_bytes()));
    assert_eq!(reply.header("content-disposition"), "attachment");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn other_events_have_no_file() {
    let server = HistoryServer::start().await;
    let (api, other) = (server.tenant("files").await, server.tenant("other").await);
    let not_found = json!({"detail": "Not found."});
    api.post("/api/event-bridge/create-event", envelope("files", detail(1, 1, 7, TIME))).await.expect_created();
    add_generated(&api, 2, &json!("../../etc/passwd")).await;
    add_generated(&api, 3, &json!(5)).await;
    for n in 1..=4 {
        api.get(&format!("/api/history/events/{}/file", id(n))).await.expect_reply(404, not_found.clone());
    }
    api.get("/api/history/events/nothing/file").await.expect_reply(404, not_found.clone());
    // The answer for another tenant's event is that for an unknown one.
    let given = api.get("/api/files/upload-url").await.ok();
    add_generated(&api, 5, &given["file_id"]).await;
    other.get(&format!("/api/history/events/{}/file", id(5))).await.expect_reply(404, not_found);
}

#[tokio::test]
async fn ids_of_another_tenant_are_ids_that_nobody_has() {
    let server = HistoryServer::start().await;
    let (api, other) = (server.tenant("files").await, server.tenant("other").await);
    let upload = api.get("/api/files/upload-url").await.ok();
    let address = path(&server, upload["upload_url"].as_str().unwrap());
    assert_eq!(server.client_without_key().call("PUT", &address).body("text/plain", "theirs").send().await.status, 200);
    add_generated(&api, 1, &upload["file_id"]).await;
    // Equal answers are expected, without the headers that differ from call to call.
    let alike = |first: Reply, second: Reply| {
        let bare = |mut reply: Reply| {
            ["x-request-id", "date", "location"].into_iter().for_each(|name| drop(reply.headers.remove(name)));
            (reply.status, reply.headers, reply.text)
        };
        assert_eq!(bare(first), bare(second));
    };
    let (theirs, unknown) = (id(1), id(99));
    for address in ["/api/history/events/{id}/file", "/api/history/events?event_id={id}", "/api/system-events?id={id}"]
    {
        let get = async |id: &str| other.get(&address.replace("{id}", id)).await;
        alike(get(&theirs).await, get(&unknown).await);
    }
    for filter in ["record_id", "source_id", "record_id__in", "source_id__in"] {
        let get = async |id: i64| other.get(&format!("/api/history/events?{filter}={id}")).await;
        alike(get(1).await, get(99).await);
        alike(get(7).await, get(99).await);
    }
    // An event with the id or the file of another tenant's event is stored like any new event.
    let event = |n: u32, file_id: &Json| {
        let mut event = detail(n, 1, 9, TIME);
        event["event_data"] = json!([json!({"file_id": file_id}).to_string()]);
        // The header decides, not the tenant in the envelope.
        envelope("files", event)
    };
    let add = async |event: Json| other.post("/api/event-bridge/create-event", event).await;
    alike(add(event(1, &upload["file_id"])).await, add(event(2, &json!(unknown))).await);
    let mut files = Vec::new();
    for n in [1, 2] {
        let reply = other.get(&format!("/api/history/events/{}/file", id(n))).await;
        files.push(server.client_without_key().get(&path(&server, reply.header("location"))).await);
        assert_eq!((reply.status, files[files.len() - 1].status), (302, 404));
    }
    alike(files.remove(0), files.remove(0));
    assert_eq!(api.get("/api/history/events").await["total_count"], 1);
}

#[tokio::test]
async fn an_edited_or_expired_address_is_refused() {
    let server = HistoryServer::start().await;
    let api = server.tenant("files").await;
    let given = api.get("/api/files/upload-url").await.ok();
    let address = path(&server, given["upload_url"].as_str().unwrap());
    let put = async |address: &str| {
        server.client_without_key().call("PUT", address).body("text/plain", "x").send().await.status
    };
    assert_eq!(put(&address.replace("expires=", "expires=1")).await, 403);
    assert_eq!(put(&address.replace("/content/files/", "/content/other/")).await, 403);
    assert_eq!(put(&address.replace("&signature=", "&signature=0")).await, 403);
    // An upload address does not permit a download.
    assert_eq!(server.client_without_key().get(&address).await.status, 403);
    server.clock.advance(15 * testkit::MINUTE + testkit::SECOND);
    assert_eq!(put(&address).await, 403);
}

#[tokio::test]
async fn files_are_deleted_with_their_tenant() {
    let server = HistoryServer::start().await;
    let api = server.tenant("files").await;
    let given = api.get("/api/files/upload-url").await.ok();
    let address = path(&server, given["upload_url"].as_str().unwrap());
    let put = async || server.client_without_key().call("PUT", &address).body("text/plain", "x").send().await.status;
    assert_eq!(put().await, 200);
    add_generated(&api, 1, &given["file_id"]).await;
    let down = api.get(&format!("/api/history/events/{}/file", id(1))).await;
    let down = path(&server, down.header("location"));
    assert_eq!(server.client_without_key().get(&down).await.text, "x");
    api.delete("/api/delete-tenant").await.expect_empty();
    assert_eq!(server.client_without_key().get(&down).await.status, 404);
    assert_eq!(put().await, 404);
}
