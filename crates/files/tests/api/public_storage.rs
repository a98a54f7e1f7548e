//! `/api/files/public-storage/`.

use crate::TestServer;
use crate::wait_for_stored;
use serde_json::{Value, json};
use testkit::shown::{START, page, user};
use testkit::{ApiClient, SECOND, message};

const PUBLIC: &str = "/api/files/public-storage/";

async fn make(api: &ApiClient, name: &str) -> Value {
    let token = api.upload(name, format!("content of {name}")).await;
    api.post(PUBLIC, json!({"token": token})).await.expect_created()
}

#[tokio::test]
async fn a_public_file_from_its_upload_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let token = api.upload("my report.final.PDF", "content").await;
    let made = api.post(PUBLIC, json!({"token": token})).await;
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    let url = format!("https://a.example/api/files/public-storage/{uuid}/");
    let creator = user(&api, "super_admin");
    made.expect_reply(
        201,
        json!({
            "uuid": uuid, "filename": "my report.final", "extension": ".PDF", "url": url,
            "created_at": START, "created_by": creator, "_meta": {"permissions": {"delete": true}, "labels": {}},
        }),
    );
    let listed = json!({
        "uuid": uuid, "filename": "my report.final", "extension": ".PDF", "url": url,
        "created_at": START, "created_by": creator, "modified_at": START, "modified_by": creator,
        "_meta": {"permissions": {"delete": true}, "labels": {}},
    });
    api.get(PUBLIC).await.expect_reply(200, page(json!([listed])));

    let path = format!("{PUBLIC}{uuid}/");
    let reply = server.anonymous().get(&path).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "content"));
    assert_eq!(reply.header("content-type"), "application/force-download");
    assert_eq!(reply.header("content-disposition"), "attachment; filename*=UTF-8''my%20report.final.PDF");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    assert_eq!(reply.header("content-security-policy"), "sandbox");

    api.delete(&path).await.expect_empty();
    api.delete(&path).await.expect_reply(404, message::not_found());
    server.anonymous().get(&path).await.expect_reply(404, message::not_found());
    api.get(PUBLIC).await.expect_reply(200, page(json!([])));
    wait_for_stored(&server, 0).await;

    let log = api.get("/api/administration/log/?resource=files").await;
    let name = json!(format!("{uuid} my report.final.PDF"));
    assert_eq!(log.column("action"), [json!("delete"), json!("create")]);
    assert_eq!(log.column("object_id"), [Value::Null, Value::Null]);
    assert_eq!(log.column("object_name"), [name.clone(), name]);
}

#[tokio::test]
async fn the_token_must_be_right() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (body, wrong) in [
        (json!({}), "This field is required."),
        (json!({"token": null}), "This field may not be null."),
        (json!({"token": ""}), "This field may not be blank."),
        (json!({"token": 7}), "Not a valid string."),
        (json!({"token": "x".repeat(37)}), "Ensure this field has no more than 36 characters."),
        (json!({"token": "unknown"}), "Invalid token unknown."),
        (
            json!({"token": "9cf2d3a0-8d5e-4c3e-9a51-1f9a4b8b7f11"}),
            "Invalid token 9cf2d3a0-8d5e-4c3e-9a51-1f9a4b8b7f11.",
        ),
    ] {
        api.post(PUBLIC, body).await.refuses(json!({"token": [wrong]}));
    }
}

#[tokio::test]
async fn each_action_needs_its_permission() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let file = make(&api, "a.txt").await;
    let path = format!("{PUBLIC}{}/", file["uuid"].as_str().unwrap());
    let full = server.as_type("full").await;
    let token = full.upload("b.txt", "x").await;
    full.get(PUBLIC).await.expect_reply(403, message::forbidden());
    full.post(PUBLIC, json!({"token": token})).await.expect_reply(403, message::forbidden());
    full.delete(&path).await.expect_reply(403, message::forbidden());
    full.options(PUBLIC).await.ok();

    let keeper = server.with_role(json!({"files": ["list", "store"]})).await;
    let token = keeper.upload("b.txt", "x").await;
    let made = keeper.post(PUBLIC, json!({"token": token})).await.expect_created();
    assert_eq!(made["_meta"]["permissions"], json!({"delete": false}));
    assert_eq!(keeper.get(PUBLIC).await["total_count"], 2);
    keeper.delete(&path).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn lists_are_sorted_and_filtered() {
    let server = TestServer::start().await;
    let (api, other) = (server.admin().await, server.as_type("super_admin").await);
    for (client, name) in [(&api, "b.txt"), (&other, "A.pdf"), (&api, "c.pdf")] {
        make(client, name).await;
        server.advance(SECOND);
    }
    for (query, names) in [
        ("", vec!["b", "A", "c"]),
        ("?ordering=filename", vec!["A", "b", "c"]),
        ("?ordering=-filename", vec!["c", "b", "A"]),
        ("?ordering=-created_at", vec!["c", "A", "b"]),
        ("?filename=A", vec!["A"]),
        ("?filename__icontains=a", vec!["A"]),
        ("?filename__startswith=b", vec!["b"]),
        (&format!("?created_at__gt={}", START.replace(':', "%3A")), vec!["A", "c"]),
        (&format!("?created_by={}", other.username), vec!["A"]),
        (&format!("?created_by={}", other.username.to_uppercase()), vec![]),
        (&format!("?created_by__iexact={}", other.username.to_uppercase()), vec!["A"]),
        ("?created_by__istartswith=ADMIN", vec!["b", "c"]),
    ] {
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        assert_eq!(api.get(&format!("{PUBLIC}{query}")).await.column("filename"), names, "{query}");
    }
    api.get(&format!("{PUBLIC}?ordering=extension")).await.expect(400);
}

#[tokio::test]
async fn the_limit_is_that_of_the_build() {
    let server = TestServer::start().await;
    server.set_limit("public_files", 1).await;
    let api = server.admin().await;
    let file = make(&api, "a.txt").await;
    let token = api.upload("b.txt", "x").await;
    let full = json!({"detail": "Limit of 1 Public Files has been exceeded.", "error_code": "ERR_LIMIT_EXCEEDED"});
    api.post(PUBLIC, json!({"token": token})).await.refuses(full);
    assert_eq!(api.options(PUBLIC).await["restrictions"], json!({"limit_items": 1}));
    // The token was not used up.
    api.delete(&format!("{PUBLIC}{}/", file["uuid"].as_str().unwrap())).await.expect_empty();
    api.post(PUBLIC, json!({"token": token})).await.expect_created();
}

#[tokio::test]
async fn options_describe_the_collection() {
    let server = TestServer::start().await;
    let document = server.admin().await.options(PUBLIC).await.ok();
    let columns: Vec<&str> = document["list"]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["alias"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["uuid", "filename", "extension", "url", "created_at", "created_by"]);
    let token =
        document["details"]["schema"].as_array().unwrap().iter().find(|field| field["alias"] == "token").unwrap();
    let validators = token["validators"].as_array().unwrap();
    assert!(validators.contains(&json!({"name": "max_length", "value": 36})), "{token:#}");
    assert_eq!(document["restrictions"], json!({"limit_items": 10_000}));
}
