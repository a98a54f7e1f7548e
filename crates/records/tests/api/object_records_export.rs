//! `/api/object-classes/{id}/object-records/export/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, class, options};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Download, Reply, SECOND, message};

const EXPORT: &str = "/api/object-classes/1/object-records/export/";
const LINK: &str = "/api/object-classes/1/object-records/export/link/";

async fn orders(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    let fields = json!([
        {"label": "Title", "type": "string"},
        {"label": "Amount", "type": "decimal"},
        {"label": "Tags", "type": "set", "options": options(&["a", "b"])},
        {"label": "Person", "type": "user"},
        {"label": "Done", "type": "boolean"},
    ]);
    class(&api, "Purchase order", fields).await;
    api
}

async fn make(api: &ApiClient, fields: Value) -> i64 {
    api.post(RECORDS, json!({"fields": fields})).await.id()
}

/// Parses the lines of an answer as JSON.
fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_csv_has_a_line_for_each_record() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    make(&api, json!({"title": "=1+1, \"quoted\"", "amount": "-1.5", "tags": ["b", "a"], "person": 1, "done": true}))
        .await;
    let person = server.as_type("internal").await;
    server.advance(SECOND);
    api.post(RECORDS, json!({"fields": {"title": "-x"}, "owner": person.id})).await.expect_created();
    let reply = api.get(EXPORT).await;
    assert_eq!(reply.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(reply.header("content-disposition"), "attachment; filename*=UTF-8''purchase_order.csv");
    let [first, second] = ["2026-01-31T09:30:00.000000Z", "2026-01-31T09:30:01.000000Z"];
    let expected = format!(
        "id,owner,created_at,created_by,modified_at,modified_by,title,amount,tags,person,done\r\n\
         1,admin@example.com,{first},admin@example.com,{first},admin@example.com,\
         \"'=1+1, \"\"quoted\"\"\",-1.50,\"a, b\",admin@example.com,true\r\n\
         2,internal@example.com,{second},admin@example.com,{second},admin@example.com,'-x,,,,\r\n"
    );
    assert_eq!(reply.text, expected);
    assert_eq!(api.get(&format!("{EXPORT}?format=csv")).await.text, expected);
    let part = api.get(&format!("{EXPORT}?fields=done,title&ordering=-title&limit=1")).await;
    let names: Vec<&str> = part.text.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(names, ["id", "1", "2"]);
    assert!(part.text.starts_with("id,owner,created_at,created_by,modified_at,modified_by,title,done\r\n"));
    // An export has no pages and ignores their parameters.
    assert_eq!(api.get(&format!("{EXPORT}?limit=0&offset=x")).await.text, expected);
    let head = api.call("HEAD", EXPORT).send().await;
    assert_eq!((head.status, head.text.as_str(), head.header("content-type")), (200, "", "text/csv; charset=utf-8"));
}

#[tokio::test]
async fn a_csv_may_begin_with_a_byte_order_mark() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    make(&api, json!({"title": "Zoë"})).await;
    let plain = api.get(EXPORT).await.text.clone();
    assert!(plain.starts_with("id,"));
    assert_eq!(api.get(&format!("{EXPORT}?bom=true")).await.text, format!("\u{feff}{plain}"));
    assert_eq!(api.get(&format!("{EXPORT}?bom=false&format=csv")).await.text, plain);
    let link = api.post(LINK, json!({"bom": true})).await;
    assert_eq!(api.anonymous().get(&path_of(&link)).await.text, format!("\u{feff}{plain}"));
    for (query, wrong) in [
        ("bom=1", "Must be a valid boolean."),
        ("bom=true&format=ndjson", "This field is not allowed here."),
        ("bom=false&format=ndjson", "This field is not allowed here."),
    ] {
        api.get(&format!("{EXPORT}?{query}")).await.refuses(json!({"bom": [wrong]}));
    }
    let body = json!({"bom": true, "format": "ndjson"});
    api.post(LINK, body).await.refuses(json!({"bom": ["This field is not allowed here."]}));
}

#[tokio::test]
async fn people_whom_the_caller_may_not_list_stand_with_their_full_names() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let person = server.as_type("external").await;
    api.post(RECORDS, json!({"fields": {"title": "a", "person": 1}, "owner": person.id})).await.expect_created();
    let admin = api.get("/api/users/1/").await.ok();
    let name = format!("{} {}", admin["first_name"].as_str().unwrap(), admin["last_name"].as_str().unwrap());
    let columns = |text: &str| -> Vec<String> { text.lines().nth(1).unwrap().split(',').map(str::to_owned).collect() };
    let seen = columns(&person.get(EXPORT).await.text);
    assert_eq!([&seen[1], &seen[3], &seen[9]], ["external@example.com", &name, &name]);
    let seen = columns(&api.get(EXPORT).await.text);
    assert_eq!([&seen[1], &seen[3], &seen[9]], ["external@example.com", "admin@example.com", "admin@example.com"]);
}

#[tokio::test]
async fn a_filter_that_the_class_does_not_have_is_refused() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    for title in ["a", "b"] {
        make(&api, json!({"title": title})).await;
    }
    assert_eq!(
        ids_in(
            &api.get(&format!(
                "{EXPORT}?format=ndjson&title=a&fields=title&search=a&ordering=id&dry_run=1&delimiter=;"
            ))
            .await
            .text
        ),
        [1]
    );
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    let gone = json!({"title": ["This filter does not exist."], "x.y__in": ["This filter does not exist."]});
    for format in ["csv", "ndjson"] {
        api.get(&format!("{EXPORT}?title=a&x.y__in=1&format={format}")).await.refuses(gone.clone());
    }
    api.post(LINK, json!({"title": "a", "x.y__in": 1})).await.refuses(gone);
    // Lists ignore it.
    assert_eq!(api.get(&format!("{RECORDS}?title=a")).await.ids(), [1, 2]);
}

#[tokio::test]
async fn ndjson_has_the_records_of_the_list_without_permissions() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    for n in 0..3 {
        make(&api, json!({"title": format!("t{n}"), "tags": ["a"], "person": 1})).await;
    }
    let reply = api.get(&format!("{EXPORT}?format=ndjson&ordering=-id&title__icontains=T&fields=tags,person")).await;
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    assert_eq!(reply.header("content-disposition"), "attachment; filename*=UTF-8''purchase_order.ndjson");
    let mut expected =
        api.get(&format!("{RECORDS}?ordering=-id&title__icontains=T&fields=tags,person")).await["results"].clone();
    for record in expected.as_array_mut().unwrap() {
        record["_meta"].as_object_mut().unwrap().remove("permissions");
    }
    assert_eq!(json!(lines(&reply)), expected);
    assert_eq!(lines(&api.get(&format!("{EXPORT}?format=ndjson&search=t1")).await)[0]["fields"]["title"], "t1");
}

#[tokio::test]
async fn wrong_parameters_and_hidden_classes() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let wrong = json!({"format": ["xml is not a valid choice."]});
    api.get(&format!("{EXPORT}?format=xml")).await.refuses(wrong.clone());
    api.get(&format!("{EXPORT}?amount=x")).await.refuses(json!({"amount": ["A valid number is required."]}));
    let stranger = server.as_type("external").await;
    for path in [EXPORT, "/api/object-classes/9/object-records/export/"] {
        stranger.get(path).await.expect_reply(404, message::not_found());
    }
    stranger.post(LINK, json!({"format": "xml"})).await.expect_reply(404, message::not_found());
    api.post(LINK, json!({"format": "xml"})).await.refuses(wrong);
    api.post(LINK, json!({"amount": "x", "title": {}})).await.refuses(json!({"title": ["Not a valid string."]}));
    api.post(LINK, json!({"amount": "x"})).await.refuses(json!({"amount": ["A valid number is required."]}));
    api.post(LINK, json!({"title": "x".repeat(9000)}))
        .await
        .refuses(json!({"non_field_errors": ["Value is too large."]}));
}

#[tokio::test]
async fn only_visible_records_are_exported() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let person = server.as_type("external").await;
    make(&api, json!({"title": "hidden"})).await;
    let own = api.post(RECORDS, json!({"owner": person.id})).await;
    let reply = person.get(&format!("{EXPORT}?format=ndjson")).await;
    assert_eq!(lines(&reply).iter().map(|record| record["id"].clone()).collect::<Vec<_>>(), [own["id"].clone()]);
    let set = json!({"name": "Makers", "permissions": {"object_records": ["create"]}});
    let set = api.post("/api/object-classes/1/permission-sets/", set).await.id();
    let maker = server.as_type("external").await;
    let path = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    api.post(&path, json!([maker.id])).await.expect_created();
    assert_eq!(maker.get(EXPORT).await.text.lines().count(), 1);
}

#[tokio::test]
async fn an_export_of_many_pieces_has_every_record_once_in_order() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let long = "x".repeat(250);
    for part in 0..2 {
        let item = |n: usize| json!({"fields": {"title": format!("{:04}{long}", 2000 - (part * 1000 + n))}});
        let body = json!({"items": (0..1000).map(item).collect::<Vec<_>>()});
        api.post("/api/object-classes/1/object-records/batch/", body).await.expect_created();
    }
    let reply = api.get(&format!("{EXPORT}?format=ndjson&ordering=title")).await;
    let ids: Vec<i64> = lines(&reply).iter().filter_map(|record| record["id"].as_i64()).collect();
    assert_eq!(ids, (1..=2000).rev().collect::<Vec<_>>());
}

/// Returns the path and the query of a link.
fn path_of(reply: &Reply) -> String {
    let url = reply.expect_created()["url"].as_str().unwrap().to_owned();
    url.strip_prefix("http://a.example").unwrap_or_else(|| panic!("{url}")).to_owned()
}

#[tokio::test]
async fn a_link_exports_once_within_a_minute_without_a_header() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    for title in ["a & b", "c"] {
        make(&api, json!({"title": title})).await;
    }
    let body = json!({"format": "ndjson", "title": "a & b", "id__in": "1,2", "fields": "title"});
    let path = path_of(&api.post(LINK, body).await);
    let anonymous = server.anonymous();
    let head = anonymous.call("HEAD", &path).send().await;
    assert_eq!((head.status, head.text.as_str(), head.header("content-type")), (200, "", "application/x-ndjson"));
    let reply = anonymous.get(&path).await;
    assert_eq!(lines(&reply).len(), 1);
    assert_eq!(lines(&reply)[0]["fields"], json!({"title": "a & b"}));
    assert_eq!(reply.header("content-disposition"), "attachment; filename*=UTF-8''purchase_order.ndjson");
    anonymous.get(&path).await.expect_reply(404, message::not_found());
    assert_eq!(anonymous.call("HEAD", &path).send().await.status, 404);
    for wrong in ["", "?token=", "?token=x"] {
        let path = format!("/api/object-classes/1/object-records/export/download/{wrong}");
        anonymous.get(&path).await.expect_reply(404, message::not_found());
    }
    // A link belongs to its class.
    let path = path_of(&api.post(LINK, json!({})).await).replace("/1/", "/2/");
    anonymous.get(&path).await.expect_reply(404, message::not_found());
    let path = path_of(&api.post(LINK, json!({})).await);
    server.advance(60 * SECOND);
    anonymous.get(&path).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn lists_in_the_body_of_a_link_are_values_of_one_parameter() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    for tags in [json!(["a"]), json!(["a", "b"]), json!([])] {
        make(&api, json!({"title": "x", "tags": tags})).await;
    }
    let anonymous = server.anonymous();
    for (mut body, ids) in [
        (json!({"id__in": [1, 3], "fields": ["title", "done"]}), vec![1, 3]),
        (json!({"tags": ["a", "b"], "fields": "title,done"}), vec![2]),
        (json!({"tags": [], "limit": 0, "fields": ["done", "title"]}), vec![3]),
    ] {
        body["format"] = json!("ndjson");
        let records = lines(&anonymous.get(&path_of(&api.post(LINK, body).await)).await);
        assert_eq!(records.iter().map(|record| record["id"].as_i64().unwrap()).collect::<Vec<_>>(), ids);
        assert_eq!(records[0]["fields"], json!({"title": "x", "done": null}));
    }
    let text = || json!(["Not a valid string."]);
    api.post(LINK, json!({"id__in": [1, [2]], "title": {}})).await.refuses(json!({"id__in": text(), "title": text()}));
    api.post(LINK, json!({"id__in": vec![1; 9000]}))
        .await
        .refuses(json!({"non_field_errors": ["Value is too large."]}));
}

#[tokio::test]
async fn a_link_has_the_rights_of_its_maker_when_it_is_used() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let person = server.as_type("external").await;
    let id = api.post(RECORDS, json!({"owner": person.id})).await.id();
    api.post(RECORDS, json!({"owner": person.id})).await.expect_created();
    let anonymous = server.anonymous();
    let path = path_of(&person.post(LINK, json!({"format": "ndjson"})).await);
    api.patch(&format!("/api/object-records/{id}/"), json!({"owner": null})).await.ok();
    assert_eq!(lines(&anonymous.get(&path).await).len(), 1);
    // A link of an ended session exports nothing.
    let path = path_of(&person.post(LINK, json!({})).await);
    person.post("/api/auth/logout/", json!({"refresh_token": person.refresh_token})).await;
    anonymous.get(&path).await.expect_reply(401, message::bad_token());
    // A link of a deactivated account exports nothing either.
    let person = server.as_type("external").await;
    api.post(RECORDS, json!({"owner": person.id})).await.expect_created();
    let path = path_of(&person.post(LINK, json!({})).await);
    api.post(&format!("/api/users/{}/deactivate/", person.id), json!({})).await.ok();
    anonymous.get(&path).await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn a_link_is_kept_as_a_hash_and_while_it_works() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let stored_hashes = async || {
        let read = |conn: &mut Conn| {
            conn.query_all(&Sql::new("SELECT token FROM export_links"), |row| Ok(row.text(0)?.to_owned()))
        };
        server.build.db.read::<Vec<String>, StoreError>(read).await.unwrap()
    };
    let path = path_of(&api.post(LINK, json!({})).await);
    let (_, token) = path.split_once("?token=").unwrap();
    assert_eq!(stored_hashes().await, [web::clock::sha256_hex(token)]);
    server.advance(SECOND);
    for _ in 0..101 {
        api.post(LINK, json!({})).await.expect_created();
    }
    assert_eq!(stored_hashes().await.len(), 100);
    server.anonymous().get(&path).await.expect_reply(404, message::not_found());
    server.advance(60 * SECOND);
    api.post(LINK, json!({})).await.expect_created();
    assert_eq!(stored_hashes().await.len(), 1);
}

#[tokio::test]
async fn a_link_of_a_restricted_account_works_from_its_addresses_only() {
    let trusted = kit::address::TrustedProxies::parse("127.0.0.1").unwrap();
    let server = TestServer::start_with(|settings| settings.trusted_proxies = trusted).await;
    let api = orders(&server).await;
    let person = server.as_type("external").await;
    api.post(RECORDS, json!({"owner": person.id})).await.expect_created();
    let restricted = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["203.0.113.0/24"]});
    api.patch(&format!("/api/users/{}/", person.id), restricted).await.ok();
    let from = |client: &ApiClient, address: &str| client.with_header("x-forwarded-for", address);
    let link = async || path_of(&from(&person, "203.0.113.7").post(LINK, json!({"format": "ndjson"})).await);
    let [inside, outside] = ["203.0.113.8", "198.51.100.1"].map(|address| from(&server.anonymous(), address));
    assert_eq!(lines(&inside.get(&link().await).await).len(), 1);
    let path = link().await;
    outside.get(&path).await.expect_reply(403, message::detail("Access from this address is not allowed."));
    // The link is spent nevertheless.
    inside.get(&path).await.expect_reply(404, message::not_found());
}

/// The number of records of 50 kB, which exceed the buffers of a connection.
const MANY: i64 = 400;

/// Creates a user who owns many records.
async fn owner_of_many(server: &TestServer, api: &ApiClient) -> ApiClient {
    let person = server.as_type("external").await;
    let items = json!({"items": vec![json!({"owner": person.id}); MANY as usize]});
    api.post(BATCH, items).await.expect_created();
    let fill = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE r1 SET f1 = $1").arg("x".repeat(50_000))).map(drop);
    server.build.db.write::<(), StoreError>(fill).await.unwrap();
    person
}

/// Creates a user who owns many records and has begun to export them.
async fn half_an_export(server: &TestServer, api: &ApiClient) -> (ApiClient, Download) {
    let person = owner_of_many(server, api).await;
    let download = person.call("GET", &format!("{EXPORT}?format=ndjson")).download().await;
    (person, download)
}

/// Returns the ids in the complete lines of a body.
fn ids_in(body: &str) -> Vec<i64> {
    let whole = body.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn a_link_that_finds_no_place_may_be_used_again() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let person = owner_of_many(&server, &api).await;
    let path = path_of(&person.post(LINK, json!({"fields": ""})).await);
    // An account has three permits, its build four. A download that nobody reads is soon ended, so they begin together.
    let begin = |client: &ApiClient| client.call("GET", EXPORT).download();
    let downloads = tokio::join!(begin(&person), begin(&person), begin(&person), begin(&api));
    let refused = server.anonymous().get(&path).await;
    refused.expect_reply(503, message::detail("The server is busy. Please try again."));
    drop(downloads);
    assert_eq!(server.anonymous().get(&path).await.text.lines().count() as i64, MANY + 1);
}

#[tokio::test]
async fn an_export_breaks_off_when_its_session_ends() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let (person, download) = half_an_export(&server, &api).await;
    person.post("/api/auth/logout/", json!({"refresh_token": person.refresh_token})).await;
    let (body, is_whole) = download.read().await;
    let ids = ids_in(&body);
    assert_eq!((is_whole, ids.first(), ids.last() < Some(&MANY)), (false, Some(&1), true));
}

#[tokio::test]
async fn an_export_breaks_off_when_the_right_goes() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let (_, download) = half_an_export(&server, &api).await;
    let items: Vec<Value> = (1..=MANY).map(|id| json!({"id": id, "owner": null})).collect();
    api.patch(BATCH, json!({"items": items})).await.ok();
    let (body, is_whole) = download.read().await;
    let ids = ids_in(&body);
    assert_eq!((is_whole, ids.first(), ids.last() < Some(&MANY)), (false, Some(&1), true));
}

#[tokio::test]
async fn an_export_leaves_out_what_is_gone_or_hidden_meanwhile() {
    let server = TestServer::start().await;
    let api = orders(&server).await;
    let (_, download) = half_an_export(&server, &api).await;
    api.delete(&format!("/api/object-records/{}/", MANY - 1)).await.expect_empty();
    api.patch(&format!("/api/object-records/{MANY}/"), json!({"owner": null})).await.ok();
    let (body, is_whole) = download.read().await;
    assert_eq!((is_whole, ids_in(&body)), (true, (1..=MANY - 2).collect()));
}
