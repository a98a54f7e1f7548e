//! Files in `document` fields, and `/api/object-records/{id}/files/{uuid}/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, class, history, number};
use serde_json::{Value, json};
use testkit::shown::START;
use testkit::{ApiClient, DAY, eventually, message, one_wins, send_concurrently};

/// Creates class 1 with a name, up to three papers and a picture. Returns the first super admin.
async fn with_papers(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    let fields = json!([
        {"label": "Name", "type": "string"},
        {"label": "Papers", "type": "document", "max_num_of_files": 3},
        {"label": "Picture", "type": "document"},
    ]);
    class(&api, "Order", fields).await;
    api
}

fn path(record: &Value) -> String {
    format!("/api/object-records/{}/", record["id"])
}

/// Creates a record with files of these names as its papers.
async fn with_files(api: &ApiClient, names: &[&str]) -> Value {
    let mut tokens = Vec::new();
    for name in names {
        tokens.push(api.upload(name, format!("content of {name}")).await);
    }
    api.post(RECORDS, json!({"fields": {"papers": tokens}})).await.expect_created()
}

fn field_error(alias: &str, text: &str) -> Value {
    json!({"fields": {alias: [text]}})
}

/// Returns the address of a file in the labels of a record, without scheme and host.
fn url(record: &Value, file: &Value) -> String {
    let url = record["_meta"]["labels"]["files"][file.to_string()]["url"].as_str().expect("an address");
    url.strip_prefix("https://a.example").expect("an address of the build").to_owned()
}

async fn wait_for_rows(server: &TestServer, count: i64) {
    let rows = "SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM removed_files)";
    eventually(async || match number(server, rows).await {
        rows if rows == count => Ok(()),
        rows => Err(rows),
    })
    .await;
}

#[tokio::test]
async fn a_record_holds_files_and_shows_them() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let record = with_files(&api, &["a b.pdf", "c.TXT"]).await;
    assert_eq!(record["fields"], json!({"name": null, "papers": [1, 2], "picture": null}));
    let files = &record["_meta"]["labels"]["files"];
    let first = url(&record, &json!(1));
    let uuid = first.strip_prefix(&format!("{}files/", path(&record))).unwrap().trim_end_matches('/').to_owned();
    assert_eq!(uuid.len(), 36);
    assert_eq!(
        files["1"],
        json!({
            "name": "a b.pdf", "url": format!("https://a.example{first}"), "size": "18", "type": "application/pdf",
        })
    );
    assert_eq!(files["2"]["type"], "text/plain");
    for shown in [api.get(&path(&record)).await.ok(), api.get(RECORDS).await["results"][0].clone()] {
        assert_eq!((&shown["fields"], &shown["_meta"]["labels"]["files"]), (&record["fields"], files));
    }
    let reply = api.get(&first).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "content of a b.pdf"));
    assert_eq!(reply.header("content-type"), "application/force-download");
    assert_eq!(reply.header("content-disposition"), "attachment; filename*=UTF-8''a%20b.pdf");
    assert_eq!(reply.header("content-security-policy"), "sandbox");
    let part = api.call("GET", &first).header("range", "bytes=0-6").send().await;
    assert_eq!((part.status, part.text.as_str()), (206, "content"));

    let events = history(&server, record["id"].as_i64().unwrap(), &[1]).await;
    let data = events[0].1.as_array().unwrap();
    assert!(data.iter().any(|item| item["field_name"] == "Papers" && item["field_value"] == json!([1, 2])), "{data:?}");
    let csv = api.get(&format!("{RECORDS}export/?format=csv&fields=papers")).await;
    assert_eq!(csv.text.lines().last().unwrap().rsplit_once(",\"").unwrap().1, "1, 2\"", "{}", csv.text);
    let line = api.get(&format!("{RECORDS}export/?format=ndjson")).await;
    assert_eq!(&line.json["_meta"]["labels"]["files"], files);
    for (query, count) in [("papers__isnull=true", 0), ("papers__isnull=false", 1), ("picture__isnull=true", 1)] {
        assert_eq!(api.get(&format!("{RECORDS}?{query}")).await["filtered_count"], count, "{query}");
    }
}

#[tokio::test]
async fn a_change_keeps_takes_and_gives_up_files() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let record = with_files(&api, &["a.pdf", "b.pdf"]).await;
    let (record_address, gone) = (path(&record), url(&record, &json!(1)));
    let token = api.upload("c.pdf", "c").await;
    let changed = api.patch(&record_address, json!({"fields": {"papers": [token, 2]}})).await.ok();
    assert_eq!(changed["fields"]["papers"], json!([3, 2]));
    api.get(&gone).await.expect_reply(404, message::not_found());
    wait_for_rows(&server, 2).await;
    let events = history(&server, record["id"].as_i64().unwrap(), &[7]).await;
    assert_eq!(events.len(), 1, "{events:?}");
    // The same files in the same order are not a change, but another order is.
    api.patch(&record_address, json!({"fields": {"papers": [3, 2]}})).await.ok();
    assert_eq!(history(&server, record["id"].as_i64().unwrap(), &[7]).await.len(), 1);
    assert_eq!(
        api.patch(&record_address, json!({"fields": {"papers": [2, 3, 2]}})).await.ok()["fields"]["papers"],
        json!([2, 3])
    );
    assert_eq!(
        api.patch(&record_address, json!({"fields": {"papers": []}})).await.ok()["fields"]["papers"],
        Value::Null
    );
    wait_for_rows(&server, 0).await;
    assert_eq!(api.get(&record_address).await["_meta"]["labels"]["files"], json!({}));
}

#[tokio::test]
async fn only_own_unspent_tokens_and_files_of_the_field_are_taken() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let other = server.as_type("super_admin").await;
    let record = with_files(&api, &["a.pdf"]).await;
    let second = with_files(&api, &["b.pdf"]).await;
    let theirs = other.upload("c.pdf", "c").await;
    let own = api.upload("d.pdf", "d").await;
    let record_address = path(&record);
    for (value, text) in [
        (json!(["x"]), "Invalid token x.".to_owned()),
        (json!([theirs]), format!("Invalid token {theirs}.")),
        (json!([own, own]), format!("Invalid token {own}.")),
        // A file of another record, and a file that does not exist.
        (json!([2]), "Invalid pk 2 - object does not exist.".to_owned()),
        (json!([1, 99]), "Invalid pk 99 - object does not exist.".to_owned()),
        (json!("x"), "Expected a list of items but got type str.".to_owned()),
        (json!([own, 1, 1, 1]), "Up to 3 items allowed.".to_owned()),
    ] {
        api.patch(&record_address, json!({"fields": {"papers": value}})).await.refuses(field_error("papers", &text));
    }
    // A file of one field is unknown in another one.
    let text = "Invalid pk 1 - object does not exist.";
    api.patch(&record_address, json!({"fields": {"picture": [1]}})).await.refuses(field_error("picture", text));
    api.post(RECORDS, json!({"fields": {"papers": [1]}})).await.refuses(field_error("papers", text));
    // A token in two fields works for one of them.
    let both = json!({"fields": {"papers": [own], "picture": [own]}});
    api.patch(&record_address, both).await.refuses(field_error("picture", &format!("Invalid token {own}.")));
    api.patch(&record_address, json!({"fields": {"papers": [1, own]}})).await.ok();
    api.patch(&path(&second), json!({"fields": {"papers": [own]}})).await.expect(400);
}

#[tokio::test]
async fn a_token_serves_one_of_many_records() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let token = api.upload("a.pdf", "a").await;
    let body = json!({"fields": {"papers": [token]}});
    let refused = field_error("papers", &format!("Invalid token {token}."));
    one_wins(&send_concurrently((0..16).map(|_| api.call("POST", RECORDS).json(&body))).await, 201, &refused);
    assert_eq!(api.get(RECORDS).await["total_count"], 1);
}

#[tokio::test]
async fn a_required_field_needs_a_file() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order", json!([{"label": "Contract", "type": "document", "is_required": true}])).await;
    api.post(RECORDS, json!({"fields": {}})).await.refuses(field_error("contract", "This field is required."));
    api.post(RECORDS, json!({"fields": {"contract": null}}))
        .await
        .refuses(field_error("contract", "This field may not be null."));
    let empty = field_error("contract", "This list may not be empty.");
    api.post(RECORDS, json!({"fields": {"contract": []}})).await.refuses(empty.clone());
    let token = api.upload("a.pdf", "a").await;
    let record = api.post(RECORDS, json!({"fields": {"contract": [token]}})).await.expect_created();
    api.patch(&path(&record), json!({"fields": {"contract": []}})).await.refuses(empty);
}

#[tokio::test]
async fn tokens_in_a_batch_serve_one_place_each() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let (first, second) = (api.upload("a.pdf", "a").await, api.upload("b.pdf", "b").await);
    let items = json!({"items": [{"fields": {"papers": [first]}}, {"fields": {"papers": [second, first]}}]});
    let invalid = json!({"items": {"1": {"fields": {"papers": [format!("Invalid token {first}.")]}}}});
    api.post(BATCH, items).await.refuses(invalid);
    let items = json!({"items": [{"fields": {"papers": [first]}}, {"fields": {"papers": [second]}}]});
    // A dry run does not spend a token.
    api.post(&format!("{BATCH}?dry_run=true"), items.clone()).await.expect_reply(201, json!({"ids": null}));
    api.post(BATCH, items).await.expect_reply(201, json!({"ids": [1, 2]}));
    let third = api.upload("c.pdf", "c").await;
    let items = json!({"items": [{"id": 1, "fields": {"papers": [1, third]}}, {"id": 2, "fields": {"papers": [1]}}]});
    let invalid = json!({"items": {"1": {"fields": {"papers": ["Invalid pk 1 - object does not exist."]}}}});
    api.patch(BATCH, items).await.refuses(invalid);
    let items = json!({"items": [{"id": 1, "fields": {"papers": [1, third]}}, {"id": 2, "fields": {"papers": []}}]});
    api.patch(BATCH, items).await.expect_reply(200, json!({"ids": [1, 2]}));
    assert_eq!(api.get("/api/object-records/1/").await["fields"]["papers"], json!([1, 3]));
    wait_for_rows(&server, 2).await;
}

#[tokio::test]
async fn files_are_for_those_who_may_view_the_record() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let record = with_files(&api, &["a.pdf"]).await;
    let second = with_files(&api, &["b.pdf"]).await;
    let file = url(&record, &json!(1));
    server.anonymous().get(&file).await.expect_reply(401, message::unauthenticated());
    let stranger = server.as_type("internal").await;
    stranger.get(&file).await.expect_reply(404, message::not_found());
    api.patch(&path(&record), json!({"owner": stranger.id})).await.ok();
    assert_eq!(stranger.get(&file).await.status, 200);
    // The file is not found under another record.
    let uuid = file.trim_end_matches('/').rsplit('/').next().unwrap();
    api.get(&format!("{}files/{uuid}/", path(&second))).await.expect_reply(404, message::not_found());
    let unknown = format!("{}{}", if uuid.starts_with('0') { "1" } else { "0" }, &uuid[1..]);
    api.get(&format!("{}files/{unknown}/", path(&record))).await.expect_reply(404, message::not_found());
    let other = server.build("b.example").await.admin().await;
    other.get(&file).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_deleted_record_keeps_its_files_until_it_is_gone() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let record = with_files(&api, &["a.pdf"]).await;
    let file = url(&record, &json!(1));
    api.delete(&path(&record)).await.expect_empty();
    api.get(&file).await.expect_reply(404, message::not_found());
    server.advance(29 * DAY);
    let api = server.admin().await;
    let restored = api.post(&format!("{}restore/", path(&record)), json!({})).await.expect_created();
    assert_eq!(restored["fields"]["papers"], json!([1]));
    assert_eq!(api.get(&file).await.text, "content of a.pdf");
    assert_eq!(restored["created_at"], START);

    api.delete(&path(&record)).await.expect_empty();
    api.delete(&format!("/api/object-classes/1/object-records/deleted/{}/", record["id"])).await.expect_empty();
    wait_for_rows(&server, 0).await;
    let record = with_files(&api, &["b.pdf"]).await;
    api.delete(&path(&record)).await.expect_empty();
    server.advance(30 * DAY);
    // Any write wakes due jobs.
    server.admin().await.upload("c.pdf", "c").await;
    wait_for_rows(&server, 1).await;
}

#[tokio::test]
async fn files_go_with_their_field_and_their_class() {
    let server = TestServer::start().await;
    let api = with_papers(&server).await;
    let picture = api.upload("c.png", "c").await;
    let record = with_files(&api, &["a.pdf", "b.pdf"]).await;
    api.patch(&path(&record), json!({"fields": {"picture": [picture]}})).await.ok();
    api.delete("/api/object-classes/1/fields/2/").await.expect_empty();
    api.get(&url(&record, &json!(2))).await.expect_reply(404, message::not_found());
    wait_for_rows(&server, 1).await;
    let labels = api.get(&path(&record)).await["_meta"]["labels"]["files"].clone();
    assert_eq!(labels.as_object().unwrap().keys().collect::<Vec<_>>(), ["1"]);
    api.delete(&path(&record)).await.expect_empty();
    api.delete("/api/object-classes/1/").await.expect_empty();
    wait_for_rows(&server, 0).await;
}
