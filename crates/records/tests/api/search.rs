//! `/api/search/` (`docs/reference/search.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, assignees, class, group, set, with_class_set};
use serde_json::{Value, json};
use testkit::{ApiClient, eventually};

const SEARCH: &str = "/api/search/?text=";

/// Creates class 1, `Order`, with a number as label field, and a note.
async fn with_orders(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    class(&api, "Order", json!([{"label": "Number", "type": "string"}, {"label": "Note", "type": "text"}])).await;
    api
}

async fn order(api: &ApiClient, number: &str, note: &str) -> i64 {
    api.post(RECORDS, json!({"owner": null, "fields": {"number": number, "note": note}})).await.id()
}

async fn user(api: &ApiClient, first_name: &str, last_name: &str) -> i64 {
    let ascii: String = last_name.chars().filter(char::is_ascii).collect();
    let body = json!({
        "username": format!("{}@example.com", ascii.to_lowercase()), "account_type": "external",
        "first_name": first_name, "last_name": last_name, "delay_activation": true,
    });
    api.post("/api/users/", body).await.id()
}

fn order_result(id: i64, label: &str) -> Value {
    json!({"type": "object_record", "id": id, "label": label, "object_class": 1})
}

fn result(kind: &str, id: i64, label: &str) -> Value {
    json!({"type": kind, "id": id, "label": label, "object_class": null})
}

async fn expect_results(api: &ApiClient, query: &str, results: Value) {
    let reply = api.get(&format!("{SEARCH}{query}")).await;
    assert_eq!(reply, (200, json!({"results": results})), "{query}");
}

#[tokio::test]
async fn labels_that_begin_with_the_text_come_first() {
    let server = TestServer::start().await;
    let api = with_orders(&server).await;
    let suppliers = class(&api, "Supplier", json!([{"label": "Name", "type": "string"}])).await;
    let supplier = json!({"fields": {"name": "Acme"}});
    let supplier = api.post(&format!("/api/object-classes/{suppliers}/object-records/"), supplier).await.id();
    let noted = order(&api, "O-1", "for ACME, quickly").await;
    let begun = order(&api, "Acme once more", "").await;
    let (person, people) = (user(&api, "Acme", "Clerk").await, group(&api, "Beta (Acme)", &[]).await);
    let first = [
        json!({"type": "object_record", "id": supplier, "label": "Acme", "object_class": suppliers}),
        result("user", person, "Acme Clerk"),
        order_result(begun, "Acme once more"),
    ];
    let then = [result("user_group", people, "Beta (Acme)"), order_result(noted, "O-1")];
    expect_results(&api, "acme", first.iter().chain(&then).cloned().collect()).await;
    expect_results(&api, "%20ACME%20", first.iter().chain(&then).cloned().collect()).await;
    expect_results(&api, "acme&limit=3", json!(first)).await;
    expect_results(&api, "acme%20on", json!([first[2]])).await;
    // All words must occur, in any order in the text. The last one may be a prefix.
    expect_results(&api, "quick%20acme", json!([])).await;
    expect_results(&api, "acme%20quick", json!([then[1]])).await;
    expect_results(&api, "clerk%20acme", json!([first[1]])).await;
    // Users are found by their usernames too.
    expect_results(&api, "clerk@example", json!([first[1]])).await;
    expect_results(&api, "nothing", json!([])).await;
}

#[tokio::test]
async fn accents_make_no_difference_and_pairs_of_characters_are_found() {
    let server = TestServer::start().await;
    let api = with_orders(&server).await;
    let (person, people) = (user(&api, "Ana", "Garci\u{301}a").await, group(&api, "Über García", &[]).await);
    let order = order(&api, "Garcia 7", "東京都").await;
    let all = json!([
        order_result(order, "Garcia 7"),
        result("user", person, "Ana Garci\u{301}a"),
        result("user_group", people, "Über García")
    ]);
    for text in ["garcia", "GARC%C3%8DA", "garci%CC%81a"] {
        expect_results(&api, text, all.clone()).await;
    }
    expect_results(&api, "uber", json!([result("user_group", people, "Über García")])).await;
    expect_results(&api, "京都", json!([order_result(order, "Garcia 7")])).await;
}

#[tokio::test]
async fn records_without_a_label_are_found_by_their_number() {
    let server = TestServer::start().await;
    let api = with_orders(&server).await;
    let plain = class(&api, "Plain", json!([])).await;
    let plain_one = api.post(&format!("/api/object-classes/{plain}/object-records/"), json!({})).await.id();
    let named = order(&api, "A", "").await;
    let unnamed = api.post(RECORDS, json!({})).await.id();
    let label = format!("#{plain_one}");
    let found = json!({"type": "object_record", "id": plain_one, "label": label, "object_class": plain});
    expect_results(&api, &format!("%23{plain_one}"), json!([found])).await;
    expect_results(&api, &format!("%23{unnamed}"), json!([order_result(unnamed, &format!("#{unnamed}"))])).await;
    for text in [&format!("%23{named}"), "%23", "%23-1", "%2399999999999999999999", "%2312x"] {
        expect_results(&api, text, json!([])).await;
    }
}

#[tokio::test]
async fn an_index_finds_labels_without_words() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Sign", json!([{"label": "Sign", "type": "string", "is_indexed": true}])).await;
    let signs = ["→ exit", "→ Way", "← back"];
    for sign in signs {
        api.post(RECORDS, json!({"fields": {"sign": sign}})).await.expect_created();
    }
    let found = json!([order_result(1, signs[0]), order_result(2, signs[1])]);
    eventually(async || api.get(&format!("{SEARCH}→")).await.ok()["results"] == found).await;
    expect_results(&api, "→", found).await;
    expect_results(&api, "→%20w", json!([order_result(2, signs[1])])).await;
    // The record matches by its words and by the index, but appears once.
    api.post(RECORDS, json!({"fields": {"sign": "Stop"}})).await.expect_created();
    expect_results(&api, "stop", json!([order_result(4, "Stop")])).await;
}

#[tokio::test]
async fn only_what_the_caller_may_view_or_list() {
    let server = TestServer::start().await;
    let api = with_orders(&server).await;
    for number in ["Walnut 1", "Walnut 2", "Walnut 3"] {
        order(&api, number, "").await;
    }
    let member = user(&api, "Walnut", "Member").await;
    let stranger = user(&api, "Walnut", "Stranger").await;
    let clerk = server.as_type("external").await;
    let hidden = group(&api, "Walnut hidden", &[]).await;
    let visible_group = group(&api, "Walnut seen", &[member]).await;
    expect_results(&clerk, "walnut", json!([])).await;
    // The caller sees records by a set and as owner.
    let view = set(&api, "View", json!({"object_records": ["view"]})).await;
    api.post(&assignees(2, view), json!([clerk.id])).await.expect_created();
    expect_results(&clerk, "walnut", json!([order_result(2, "Walnut 2")])).await;
    api.post("/api/object-records/3/owners/", json!([clerk.id])).await.expect_created();
    expect_results(&clerk, "walnut", json!([order_result(2, "Walnut 2"), order_result(3, "Walnut 3")])).await;
    expect_results(&clerk, "%231", json!([])).await;
    // The owner of a group sees the group and its members.
    api.post(&format!("/api/user-groups/{visible_group}/owners/users/"), json!([clerk.id])).await.expect_created();
    let people = [result("user", member, "Walnut Member"), result("user_group", visible_group, "Walnut seen")];
    let records = [order_result(2, "Walnut 2"), order_result(3, "Walnut 3")];
    expect_results(&clerk, "walnut", records.iter().chain(&people).cloned().collect()).await;
    // The caller sees all records of the class.
    let all = json!({"object_records": ["list", "view"], "object_classes": ["view"]});
    with_class_set(&api, clerk.id, all).await;
    expect_results(&clerk, "walnut%201", json!([order_result(1, "Walnut 1")])).await;
    // Other account types list all users and groups.
    let lister = server.as_type("internal").await;
    let everybody = json!([
        result("user_group", hidden, "Walnut hidden"),
        result("user", member, "Walnut Member"),
        result("user_group", visible_group, "Walnut seen"),
        result("user", stranger, "Walnut Stranger"),
    ]);
    expect_results(&lister, "walnut", everybody).await;
}

#[tokio::test]
async fn many_classes_are_searched_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 0..60 {
        let id = class(&api, &format!("Class {n}"), json!([{"label": "Name", "type": "string"}])).await;
        let record = json!({"fields": {"name": format!("Thing {n:02}")}});
        api.post(&format!("/api/object-classes/{id}/object-records/"), record).await.expect_created();
    }
    let labels = async |query: &str| {
        let found = api.get(&format!("{SEARCH}{query}")).await.ok();
        found["results"].as_array().unwrap().iter().map(|result| result["label"].clone()).collect::<Vec<_>>()
    };
    let things = |range: std::ops::Range<i32>| range.map(|n| json!(format!("Thing {n:02}"))).collect::<Vec<_>>();
    assert_eq!(labels("thing").await, things(0..10));
    assert_eq!(labels("thing&limit=50").await, things(0..50));
    assert_eq!(labels("59").await, things(59..60));
    // This caller may view all classes and one record.
    let viewer = server.with_role(json!({"object_classes": ["list", "view"]})).await;
    expect_results(&viewer, "thing", json!([])).await;
    api.patch("/api/object-records/31/", json!({"owner": viewer.id})).await.ok();
    expect_results(
        &viewer,
        "thing",
        json!([{"type": "object_record", "id": 31, "label": "Thing 30", "object_class": 31}]),
    )
    .await;
    // Another build has its own classes and records.
    let other = server.build("b.example").await.admin().await;
    expect_results(&other, "thing", json!([])).await;
    class(&other, "Class", json!([{"label": "Name", "type": "string"}])).await;
    other.post(RECORDS, json!({"fields": {"name": "Thing"}})).await.expect_created();
    expect_results(&other, "thing", json!([order_result(1, "Thing")])).await;
    assert_eq!(labels("thing&limit=1").await, things(0..1));
}

#[tokio::test]
async fn parameters_that_are_wrong() {
    let server = TestServer::start().await;
    let api = with_orders(&server).await;
    let (long, longest) = ("ä".repeat(201), "ä".repeat(200));
    let limit = |text: &str| json!({"limit": [text]});
    for (query, errors) in [
        ("", json!({"text": ["This field is required."]})),
        ("?text=", json!({"text": ["This field is required."]})),
        ("?text=%20%09", json!({"text": ["This field is required."]})),
        (&format!("?text={long}"), json!({"text": ["Ensure this field has no more than 200 characters."]})),
        ("?text=a%00b", json!({"text": ["Null characters are not allowed."]})),
        ("?text=a&limit=0", limit("Ensure this value is greater than or equal to 1.")),
        ("?text=a&limit=51", limit("Ensure this value is less than or equal to 50.")),
        ("?text=a&limit=x", limit("A valid integer is required.")),
        ("?limit=x", json!({"text": ["This field is required."], "limit": ["A valid integer is required."]})),
    ] {
        api.get(&format!("/api/search/{query}")).await.refuses(errors);
    }
    for text in [
        &longest,
        "-",
        "%25",
        "_",
        "'",
        "\"",
        "*",
        "q*",
        "(",
        "q%20OR%20a",
        "NEAR(q)",
        "%F4%8F%BF%BF",
        &"q ".repeat(99),
    ] {
        expect_results(&api, &text.replace(' ', "%20"), json!([])).await;
    }
}
