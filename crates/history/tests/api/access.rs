//! Tests keys, client ids, methods and paths.

use crate::{detail, envelope, system_event};
use resource::openapi::Audience;
use serde_json::json;
use testkit::HistoryServer;

const ENDPOINTS: [(&str, &str); 8] = [
    ("POST", "/api/event-bridge/create-event"),
    ("POST", "/api/system-events/batch"),
    ("GET", "/api/history/events"),
    ("GET", "/api/history/events/00000000-0000-4000-8000-000000000001/file"),
    ("GET", "/api/system-events"),
    ("POST", "/api/initialize-tenant"),
    ("DELETE", "/api/delete-tenant"),
    ("GET", "/api/files/upload-url"),
];
const STRANGER: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

#[tokio::test]
async fn every_endpoint_needs_the_key() {
    let server = HistoryServer::start().await;
    let refused = json!({"detail": "Unauthorized API Key."});
    for (method, path) in ENDPOINTS {
        for form in [path.to_owned(), format!("{path}/")] {
            server.client_without_key().call(method, &form).send().await.expect_reply(401, refused.clone());
            let wrong = server.client_without_key().with_header("x-api-key", "another");
            wrong.call(method, &form).send().await.expect_reply(401, refused.clone());
            // Two keys are refused, even if both are right.
            let doubled = server.client_with_key().call(method, &form).header("x-api-key", testkit::HISTORY_KEY);
            doubled.send().await.expect_reply(401, refused.clone());
        }
    }
    server.client_without_key().get("/healthz").await.expect_reply(200, json!({"status": "ok"}));
    server.client_without_key().get("/readyz/").await.expect_reply(200, json!({"status": "ok"}));
}

#[tokio::test]
async fn a_client_id_is_one_uuid_of_version_4() {
    let server = HistoryServer::start().await;
    let refused = json!({"detail": "Unauthorized Client."});
    let body = json!({"events": []});
    for (method, path) in ENDPOINTS.into_iter().filter(|(_, path)| *path != "/api/initialize-tenant") {
        if path != "/api/event-bridge/create-event" {
            server.client_with_key().call(method, path).json(&body).send().await.expect_reply(400, refused.clone());
        }
        // The wrong ids are of version 1, in braces, without hyphens, or words.
        for wrong in [
            "",
            "abc",
            "7c9e6679-7425-10de-944b-e07fc1f90ae7",
            "{7c9e6679-7425-40de-944b-e07fc1f90ae7}",
            "7c9e6679742540de944be07fc1f90ae7",
        ] {
            let client = server.client_with_key().with_header("x-client-id", wrong);
            client.call(method, path).json(&body).send().await.expect_reply(400, refused.clone());
        }
        let doubled = server.client_with_key().with_header("x-client-id", STRANGER).call(method, path).json(&body);
        doubled.header("x-client-id", STRANGER).send().await.expect_reply(400, refused.clone());
    }
}

#[tokio::test]
async fn an_unknown_tenant_is_refused_as_documented() {
    let server = HistoryServer::start().await;
    let client = server.client_with_key().with_header("x-client-id", STRANGER);
    let not_found = json!({"detail": format!("{STRANGER} tenant not found in database.")});
    let no_connection = json!({"detail": "Failed to connect to tenant db."});
    let event = envelope("nobody", detail(1, 1, 1, "2026-01-31T09:30:00Z"));
    client.post("/api/event-bridge/create-event", event.clone()).await.expect_reply(400, not_found.clone());
    client
        .post("/api/system-events/batch", json!({"events": [system_event(1)]}))
        .await
        .expect_reply(400, not_found.clone());
    client.get("/api/files/upload-url").await.expect_reply(400, not_found);
    for path in ["/api/history/events", "/api/system-events", ENDPOINTS[3].1] {
        client.get(path).await.expect_reply(400, no_connection.clone());
    }
    client.delete("/api/delete-tenant").await.expect_reply(400, no_connection);
    // Without a client id, the envelope names the tenant.
    let by_source = server.client_with_key().post("/api/event-bridge/create-event", event).await;
    by_source.expect_reply(400, json!({"detail": "nobody tenant not found in database."}));
}

#[tokio::test]
async fn methods_and_paths() {
    let server = HistoryServer::start().await;
    let api = server.tenant("paths").await;
    for (documented, path) in ENDPOINTS {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            if method != documented {
                let reply = api.call(method, path).send().await;
                reply.expect_reply(405, json!({"detail": format!("Method \"{method}\" not allowed.")}));
                assert!(reply.header("allow").contains(documented), "{method} {path}: {reply:?}");
            }
        }
    }
    // A wrong method is refused before the key is checked.
    server
        .client_without_key()
        .get("/api/delete-tenant")
        .await
        .expect_reply(405, json!({"detail": "Method \"GET\" not allowed."}));
    server
        .client_without_key()
        .post("/healthz", json!({}))
        .await
        .expect_reply(405, json!({"detail": "Method \"POST\" not allowed."}));
    for path in ["/api", "/api/history", "/api/history/events//file", "/api/history/events/a/b/file", "/x"] {
        api.get(path).await.expect_reply(404, json!({"detail": "Not found."}));
    }
    let reply = api.call("HEAD", "/api/history/events").send().await;
    assert!(reply.status == 200 && reply.text.is_empty());
}

#[tokio::test]
async fn the_description_has_a_page_to_which_the_root_leads() {
    let server = HistoryServer::start().await;
    let browser = server.client_without_key();
    let root = browser.get("/").await;
    assert_eq!((root.status, root.header("location")), (302, "/api/docs/"));
    let page = browser.get("/api/docs/").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(
        page.header("content-security-policy").starts_with("default-src 'none'; script-src 'self'; style-src 'self';")
    );
    let files: Vec<&str> = page.text.split('"').filter(|text| text.starts_with("/api/docs/")).collect();
    assert_eq!(files.len(), 4, "{}", page.text);
    for path in files {
        let file = browser.get(path).await;
        assert_eq!((file.status, file.header("x-content-type-options")), (200, "nosniff"), "{path}");
        assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable");
        assert!(!file.header("etag").is_empty() && !file.text.is_empty(), "{path}");
    }
    browser.get("/api/docs/page.js").await.expect_reply(404, json!({"detail": "Not found."}));
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let server = HistoryServer::start().await;
    let reply = server.client_without_key().with_header("x-request-id", "mine-1").get("/api/history/events").await;
    assert_eq!((reply.status, reply.header("x-request-id")), (401, "mine-1"));
    assert_eq!(server.client_with_key().get("/healthz").await.header("x-request-id").len(), 32);
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused_alike_everywhere() {
    let server = HistoryServer::start().await;
    let api = server.tenant("malformed").await;
    for (_, path) in ENDPOINTS.into_iter().filter(|(method, _)| *method == "POST") {
        for body in ["", "{", "{\"a\": nul}", "[1,]", "{} x", "{\"a\": \"\u{1}\"}"] {
            let reply = api.call("POST", path).body("application/json", body.to_owned()).send().await;
            reply.expect_reply(400, json!({"detail": "Invalid JSON body."}));
        }
        let deep = "[".repeat(100_000);
        let reply = api.call("POST", path).body("application/json", deep).send().await;
        reply.expect_reply(400, json!({"detail": "Invalid JSON body."}));
        let reply = api.call("POST", path).body("application/json", "[]").send().await;
        reply.expect_reply(
            422,
            json!({"detail": [{"loc": ["body"], "msg": "value is not a valid dict", "type": "type_error.dict"}]}),
        );
    }
}

#[tokio::test]
async fn reads_with_an_etag_are_described_with_it_and_with_304() {
    let server = HistoryServer::start().await;
    let tenant = server.tenant("acme").await;
    let document = history::openapi::document(10_000, Audience::All);
    let reads =
        ["/healthz", "/readyz", "/api/service", "/api/openapi.json", "/api/system-events", "/api/history/events"];
    for path in reads {
        let has_tag = !tenant.get(path).await.header("etag").is_empty();
        let described = &document["paths"][path]["get"];
        let shown = described["responses"]["200"]["headers"]["ETag"].is_object();
        let unchanged = &described["responses"]["304"];
        let parameters = described["parameters"].to_string();
        let of_description = (
            shown,
            *unchanged == json!({"$ref": "#/components/responses/NotModified"}),
            parameters.contains("If-None-Match"),
        );
        assert_eq!(of_description, (has_tag, has_tag, has_tag), "{path}");
    }
    assert_eq!(document["components"]["responses"]["NotModified"].get("content"), None);
}

#[tokio::test]
async fn the_description_is_served_to_anyone() {
    let server = HistoryServer::start().await;
    let reply = server.client_without_key().get("/api/openapi.json").await;
    reply.expect_reply(200, history::openapi::document(10_000, Audience::All));
    let for_clients = server.client_without_key().get("/api/openapi.json?audience=clients").await;
    for_clients.expect_reply(200, history::openapi::document(10_000, Audience::Clients));
    let unknown = server.client_without_key().get("/api/openapi.json?audience=robots").await;
    let problem = json!({
        "loc": ["query", "audience"], "msg": "value is not a valid enumeration member", "type": "type_error.enum",
    });
    unknown.expect_reply(422, json!({"detail": [problem]}));
}
