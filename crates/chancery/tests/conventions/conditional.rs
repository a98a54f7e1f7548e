//! `If-None-Match` on reads, and `If-Match` on writes (RFC 9110, section 13.1).

use crate::TestServer;
use crate::message;
use crate::routes::create_rows;
use platform::kit::answer_cache::AnswerCache;
use serde_json::json;
use testkit::{ApiClient, Reply};

const KNOWN: &str = "\"0123456789abcdef\"";

async fn get_unless(client: &ApiClient, path: &str, known: &str) -> Reply {
    client.call("GET", path).header("if-none-match", known).send().await
}

#[track_caller]
fn expect_not_modified(reply: &Reply, shown: &Reply) {
    assert_eq!((reply.status, reply.text.as_str(), reply.header("content-type")), (304, "", ""), "{reply:?}");
    for header in ["etag", "vary", "cache-control"] {
        assert_eq!(reply.header(header), shown.header(header), "{header}");
    }
    assert!(shown.header("etag").starts_with('"') && shown.header("vary") == "accept-encoding", "{:?}", shown.headers);
}

#[tokio::test]
async fn a_list_or_an_instance_that_the_client_knows_is_answered_with_304() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    create_rows(&server, 1).await;
    for path in [
        "/api/object-classes/1/",
        "/api/object-classes/",
        "/api/object-classes/1/fields/",
        "/api/object-classes/1/fields/1/",
        "/api/object-classes/1/object-records/",
        "/api/object-classes/1/object-records/?title=Record&fields=title",
        "/api/object-classes/1/object-records/autocomplete/",
        "/api/object-records/1/",
        "/api/object-records/1/owners/",
        "/api/roles/1/",
        "/api/roles/",
        "/api/users/?limit=1",
        "/api/users/autocomplete/",
        "/api/users/me/",
        "/api/users/permissions/",
        "/api/limits/",
        "/api/security/",
        "/api/openapi.json",
    ] {
        // From the second request on, the answer can come from the cache.
        for _ in 0..4 {
            let shown = admin.get(path).await;
            let tag = shown.header("etag");
            for known in [tag, &format!("W/{tag}"), &format!("{KNOWN}, {tag}"), &format!("{KNOWN} ,W/{tag}"), "*"] {
                expect_not_modified(&get_unless(&admin, path, known).await, &shown);
            }
            let head = admin.call("HEAD", path).header("if-none-match", tag).send().await;
            expect_not_modified(&head, &shown);
            for unknown in [KNOWN, tag.trim_matches('"'), "", ",", "\"", "W/", "w/\"\"", "é", "**"] {
                let reply = get_unless(&admin, path, unknown).await;
                assert_eq!((reply.status, &reply.text), (200, &shown.text), "{path} {unknown}");
            }
        }
    }
    assert!(server.app.slot::<AnswerCache>().hits() > 0);
}

#[tokio::test]
async fn a_changed_object_is_answered_in_full() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    for path in ["/api/roles/1/", "/api/roles/"] {
        let known = admin.get(path).await.header("etag").to_owned();
        admin.patch("/api/roles/1/", json!({"description": path})).await.ok();
        let shown = get_unless(&admin, path, &known).await;
        assert!(shown.status == 200 && shown.text.contains(path), "{shown:?}");
        get_unless(&admin, path, shown.header("etag")).await.expect(304);
    }
}

#[tokio::test]
async fn only_whoever_may_read_learns_that_nothing_changed() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    let tag = admin.get("/api/roles/1/").await.header("etag").to_owned();
    let nobody = server.as_type("full").await;
    for if_none_match in [tag.as_str(), "*"] {
        get_unless(&server.anonymous(), "/api/roles/1/", if_none_match)
            .await
            .expect_reply(401, message::unauthenticated());
        get_unless(&nobody, "/api/roles/1/", if_none_match).await.expect(403);
        get_unless(&nobody, "/api/roles/", if_none_match).await.expect(403);
        get_unless(&admin, "/api/roles/2/", if_none_match).await.expect(404);
        get_unless(&admin, "/api/roles/?limit=0", if_none_match).await.expect(400);
    }
}

#[tokio::test]
async fn if_none_match_is_for_reads() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let patch = admin.call("PATCH", "/api/users/me/").header("if-none-match", "*").json(&json!({"job_title": "x"}));
    assert_eq!(patch.send().await.ok()["job_title"], "x");
}

#[tokio::test]
async fn a_weak_tag_never_matches_in_if_match() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let tag = admin.post("/api/roles/", json!({"name": "x"})).await.header("etag").to_owned();
    let patch = |known: String| {
        admin.call("PATCH", "/api/roles/1/").header("if-match", &known).json(&json!({"description": "y"})).send()
    };
    for known in [format!("W/{tag}"), format!("{KNOWN}, W/{tag}"), String::new(), "é".to_owned(), "W/*".to_owned()] {
        patch(known).await.expect_reply(412, message::detail("Object has been changed."));
    }
    patch(format!("W/{tag}, {tag}")).await.ok();
}
