//! The classes and records that narrowed API keys see (`docs/reference/api-keys.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, assignees, set, with_class};
use serde_json::{Value, json};
use testkit::message;
use testkit::{ApiClient, TestBuild};

/// Creates a key of an account. Returns a client that uses it.
async fn with_key(tenant: &TestBuild, api: &ApiClient, account: i64, name: &str, permissions: Value) -> ApiClient {
    let body = json!({"name": name, "permissions": permissions, "expires_at": "2026-03-01T00:00:00Z"});
    let made = api.post(&format!("/api/users/{account}/api-keys/"), body).await.expect_created();
    tenant.anonymous().with_token(made["key"].as_str().unwrap())
}

#[tokio::test]
async fn account_type_and_ownership_grant_nothing() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let service = server.as_type("service_internal").await.id;
    let whole = with_key(&server, &api, service, "Whole", json!(null)).await;
    let narrowed = with_key(&server, &api, service, "Narrowed", json!({})).await;
    // The account owns a class and a record, and is a super admin.
    whole.post("/api/object-classes/", json!({"name": "Own"})).await.expect_created();
    let own = whole.post(RECORDS, json!({"owner": service})).await.id();
    let path = format!("/api/object-records/{own}/");
    for class in [1, 2] {
        let class = format!("/api/object-classes/{class}/");
        narrowed.get(&class).await.expect_reply(404, message::not_found());
        narrowed.patch(&class, json!({"name": "Mine"})).await.expect_reply(404, message::not_found());
        narrowed.get(&format!("{class}object-records/")).await.expect_reply(404, message::not_found());
        whole.get(&class).await.ok();
    }
    narrowed.get("/api/object-classes/").await.expect_reply(403, message::forbidden());
    narrowed.get(&path).await.expect_reply(404, message::not_found());
    narrowed.post(RECORDS, json!({})).await.expect_reply(404, message::not_found());
    let found = narrowed.get("/api/search/?text=own").await.ok();
    assert!(!found.to_string().contains("Own"), "{found}");

    // A permission set grants the rights on one record, and no more.
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    let second = whole.post(RECORDS, json!({"owner": service})).await.id();
    api.post(&assignees(second, readers), json!([service])).await.expect_created();
    assert_eq!(narrowed.get(RECORDS).await.ids(), [second]);
    assert_eq!(whole.get(RECORDS).await.ids(), [own, second]);
    assert_eq!(narrowed.get(RECORDS).await.ids(), [second]);
    narrowed.get(&format!("/api/object-records/{second}/")).await.ok();
    narrowed.get(&path).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_permission_gives_what_a_role_gives() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let service = server.as_type("service_internal").await.id;
    let permissions = json!({"object_records": ["list", "view"], "object_classes": ["view"]});
    let narrowed = with_key(&server, &api, service, "Reader", permissions).await;
    let record = api.post(RECORDS, json!({})).await.id();
    let path = format!("/api/object-records/{record}/");
    let shown = narrowed.get(&path).await.ok();
    assert_eq!(shown["_meta"]["permissions"]["edit"], false);
    narrowed.patch(&path, json!({"fields": {}})).await.expect_reply(403, message::forbidden());
    narrowed.post(RECORDS, json!({})).await.expect_reply(403, message::forbidden());
    // It does not become the owner by its account's type.
    narrowed.patch(&path, json!({"owner": service})).await.expect_reply(403, message::forbidden());
    assert_eq!(narrowed.get(RECORDS).await.ids(), [record]);
}

#[tokio::test]
async fn access_tells_what_the_key_may_do() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let service = server.as_type("service_internal").await.id;
    let permissions = json!({"object_records": ["list", "view"], "object_classes": ["view"]});
    let narrowed = with_key(&server, &api, service, "Reader", permissions).await;
    let whole = with_key(&server, &api, service, "Whole", json!(null)).await;
    let own = whole.post(RECORDS, json!({"owner": service})).await.id();
    let granted = |answer: &Value, resource: &str| -> Vec<String> {
        let actions = answer["permissions"][resource].as_object().unwrap();
        actions.iter().filter(|(_, is_granted)| **is_granted == json!(true)).map(|(name, _)| name.clone()).collect()
    };
    for path in [format!("/api/object-records/{own}/access/"), "/api/object-classes/1/access/".to_owned()] {
        let answer = narrowed.get(&path).await.ok();
        for action in granted(&answer, "object_records") {
            assert!(["list", "view"].contains(&action.as_str()), "{path}: {answer}");
        }
        let ways = answer["ways"].as_array().unwrap();
        assert!(!ways.is_empty() && ways.iter().all(|way| way["source"] == "account_type"), "{path}: {answer}");
        assert!(granted(&whole.get(&path).await.ok(), "object_records").contains(&"delete".to_owned()));
    }
}
