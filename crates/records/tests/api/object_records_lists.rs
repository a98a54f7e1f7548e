//! Order and size of the pages of `/api/object-classes/{id}/object-records/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, assignees, class, options, set, with_class};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};

#[tokio::test]
async fn people_sort_by_their_ids() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let field = json!({"label": "Clerk", "type": "user"});
    api.post("/api/object-classes/1/fields/", field).await.expect_created();
    // The order of their names differs from that of their ids.
    let [second, third] = [server.as_type("internal").await.id, server.as_type("external").await.id];
    assert!(1 < second && second < third);
    for (owner, clerk) in
        [(Some(second), Some(third)), (Some(third), Some(1)), (None, Some(second)), (Some(1), None::<i64>)]
    {
        api.post(RECORDS, json!({"owner": owner, "fields": {"clerk": clerk}})).await.expect_created();
    }
    for (ordering, ids) in
        [("owner", [3, 4, 1, 2]), ("-owner", [2, 1, 4, 3]), ("clerk", [4, 2, 3, 1]), ("-clerk", [1, 3, 2, 4])]
    {
        assert_eq!(api.get(&format!("{RECORDS}?ordering={ordering}")).await.ids(), ids, "{ordering}");
    }
}

#[tokio::test]
async fn options_sort_by_their_places() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let fields = json!([
        {"label": "Level", "type": "enum", "options": options(&["high", "low", "medium"])},
        {"label": "Stage", "type": "status", "options": options(&["new", "done", "hold"]), "initial": "new"},
    ]);
    class(&api, "Order", fields).await;
    for (level, stage) in [(Some("medium"), "hold"), (Some("high"), "done"), (None, "new"), (Some("low"), "done")] {
        api.post(RECORDS, json!({"fields": {"level": level, "stage": stage}})).await.expect_created();
    }
    for (ordering, ids) in
        [("level", [3, 2, 4, 1]), ("-level", [1, 4, 2, 3]), ("stage", [3, 2, 4, 1]), ("-stage,level", [1, 2, 4, 3])]
    {
        assert_eq!(api.get(&format!("{RECORDS}?ordering={ordering}")).await.ids(), ids, "{ordering}");
        // A filter uses another statement for the page.
        let some = api.get(&format!("{RECORDS}?ordering={ordering}&id__gt=0&limit=2&offset=1")).await;
        assert_eq!(some.ids(), ids[1..3], "{ordering}");
    }
    // The order of the options is the current one.
    let turned = json!({"options": options(&["medium", "low", "high"])});
    api.patch("/api/object-classes/1/fields/1/", turned).await.ok();
    assert_eq!(api.get(&format!("{RECORDS}?ordering=level")).await.ids(), [3, 1, 4, 2]);
}

#[tokio::test]
async fn texts_sort_naturally_where_they_are_asked_to() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let fields = json!([{"label": "Code", "type": "string"}, {"label": "Note", "type": "text"}]);
    class(&api, "Item", fields).await;
    let sorted = [
        "-",
        "Item",
        "item 1",
        "Item 2",
        "item 002b",
        "item 10",
        "item 10.9",
        "item 10.10",
        "item 123456789012",
        "item x",
        "Ä 3",
    ];
    let mut shuffled: Vec<usize> = (0..sorted.len()).collect();
    shuffled.rotate_left(4);
    shuffled.swap(1, 6);
    for at in &shuffled {
        api.post(RECORDS, json!({"fields": {"code": sorted[*at]}})).await.expect_created();
    }
    api.post(RECORDS, json!({})).await.expect_created();
    let codes = async |query: &str| -> Vec<Value> {
        let list = api.get(&format!("{RECORDS}?{query}")).await.ok();
        list["results"].as_array().unwrap().iter().map(|record| record["fields"]["code"].clone()).collect()
    };
    let expected: Vec<Value> = [Value::Null].into_iter().chain(sorted.map(Value::from)).collect();
    assert_eq!(codes("ordering=code__natural").await, expected);
    assert_eq!(codes("ordering=-code__natural").await, expected.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(codes("ordering=code__natural&search=item&limit=3&offset=2").await, expected[4..7]);
    for wrong in ["note__natural", "id__natural", "code__natural__natural"] {
        let message = format!("Select a valid choice. {wrong} is not one of the available choices.");
        api.get(&format!("{RECORDS}?ordering={wrong}")).await.refuses(json!({"ordering": [message]}));
    }
}

#[tokio::test]
async fn one_text_in_several_normal_forms_is_one_text() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let fields = json!([
        {"label": "Name", "type": "string", "is_unique": true},
        {"label": "Mail", "type": "email", "is_unique": true},
        {"label": "Kind", "type": "enum", "options": options(&["é"])},
    ]);
    class(&api, "Person", fields).await;
    let (composed, decomposed) = ("Müller", "Mu\u{308}ller");
    let first = api.post(RECORDS, json!({"fields": {"name": decomposed, "kind": "é"}})).await.expect_created();
    assert_eq!(first["fields"]["name"], decomposed, "it is stored as it was sent");
    let taken = json!({"fields": {"name": ["This field must be unique."]}});
    api.post(RECORDS, json!({"fields": {"name": composed}})).await.refuses(taken.clone());
    api.post(RECORDS, json!({"fields": {"name": decomposed}})).await.refuses(taken);
    // Uniqueness is exact otherwise.
    api.post(RECORDS, json!({"fields": {"name": "MÜLLER"}})).await.expect_created();
    api.patch("/api/object-records/1/", json!({"fields": {"name": composed}})).await.ok();
    api.patch("/api/object-records/1/", json!({"fields": {"name": decomposed}})).await.ok();
    for (query, ids) in [
        ("name=M%C3%BCller", vec![1]),
        ("name=Mu%CC%88ller", vec![1]),
        ("name__exclude=M%C3%BCller", vec![2]),
        ("name__iexact=m%C3%BCller", vec![1, 2]),
        ("name__contains=%C3%BCl", vec![1]),
        ("name__icontains=M%C3%9CLL", vec![1, 2]),
        ("name__startswith=Mu%CC%88", vec![1]),
        ("name__endswith=u%CC%88ller", vec![1]),
        ("name__contains=u", vec![]),
        ("kind=e%CC%81", vec![1]),
        ("search=m%C3%BCller", vec![1, 2]),
        ("search=mu%CC%88l", vec![1, 2]),
        ("search=muller", vec![1, 2]),
        ("ordering=name", vec![1, 2]),
    ] {
        assert_eq!(api.get(&format!("{RECORDS}?{query}")).await.ids(), ids, "{query}");
    }
    let labels = api.get(&format!("{RECORDS}autocomplete/?text__icontains=M%C3%BC")).await;
    assert_eq!(labels.column("value"), [1, 2]);
    // Names of classes are compared in the same way, as are all other names.
    api.post("/api/object-classes/", json!({"name": "Caf\u{e9}", "alias": "first"})).await.expect_created();
    api.post("/api/object-classes/", json!({"name": "Cafe\u{301}", "alias": "second"}))
        .await
        .refuses(json!({"name": ["This field must be unique."]}));
    assert_eq!(api.get("/api/object-classes/?name=Cafe%CC%81").await.ids(), [2]);
}

#[tokio::test]
async fn a_search_finds_accents_and_scripts_without_blanks() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Note", json!([{"label": "Title", "type": "string"}, {"label": "Text", "type": "text"}])).await;
    let clerk = server.as_type("external").await;
    let view = set(&api, "View", json!({"object_records": ["view"]})).await;
    for (title, text) in [
        ("García", "café au lait"),
        ("Garcia", "cafe\u{301}s"),
        ("Sørensen", "Straße"),
        ("私は東京に住んでいます", "ภาษาไทย"),
        ("ພາສາລາວ", "ភាសាខ្មែរ"),
    ] {
        let id = api.post(RECORDS, json!({"fields": {"title": title, "text": text}})).await.id();
        api.post(&assignees(id, view), json!([clerk.id])).await.expect_created();
    }
    for (text, ids) in [
        ("garcia", vec![1, 2]),
        ("GARCÍA", vec![1, 2]),
        ("cafe", vec![1, 2]),
        ("cafés", vec![2]),
        ("caf", vec![1, 2]),
        ("sorensen", vec![]),
        ("sør", vec![3]),
        ("strasse", vec![3]),
        ("東京", vec![4]),
        ("東京に住", vec![4]),
        ("京", vec![4]),
        ("京東", vec![]),
        ("東京 ไทย", vec![4]),
        ("ษาไท", vec![4]),
        ("ສາລ", vec![5]),
        ("ខ្មែរ", vec![5]),
    ] {
        // The search uses the index for one caller, and the few visible records for the other.
        for caller in [&api, &clerk] {
            let query: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            assert_eq!(caller.get(&format!("{RECORDS}?search={query}")).await.ids(), ids, "{text}");
        }
    }
    // Filters are exact.
    assert_eq!(api.get(&format!("{RECORDS}?title__icontains=garcia")).await.ids(), [2]);
}

#[tokio::test]
async fn a_page_has_a_bound_in_bytes_but_one_record_always_fits() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let texts = (0..31).map(|n| json!({"label": format!("T {n}"), "type": "text"}));
    let above = json!({"label": "Shelf", "type": "relation", "related_object_class": 1});
    let fields: Vec<Value> = texts.chain([above]).collect();
    let [books, papers] = [class(&api, "Book", json!(fields)).await, class(&api, "Paper", json!(fields)).await];
    let path = |class: i64| format!("/api/object-classes/{class}/object-records/");
    let shelf = api.post(RECORDS, json!({})).await.id();
    let long = "x".repeat(65_000);
    let mut values: serde_json::Map<String, Value> = (0..31).map(|n| (format!("t_{n}"), json!(long))).collect();
    values.insert("shelf".to_owned(), json!(shelf));
    // Sixteen records have two million bytes each, which is less than 32 MiB. The seventeenth is too much.
    for _ in 0..16 {
        api.post(&path(books), json!({"fields": values})).await.expect_created();
    }
    assert_eq!(api.get(&path(books)).await.ids().len(), 16);
    api.post(&path(papers), json!({"fields": values})).await.expect_created();
    let too_large = json!({"limit": ["Ensure that the page has at most 32 MiB."]});
    // Children of several classes count together.
    let children = format!("/api/object-records/{shelf}/children/");
    api.get(&children).await.refuses(too_large.clone());
    assert_eq!(api.get(&format!("{children}?limit=16")).await.ids().len(), 16);
    assert_eq!(api.get(&format!("{children}?fields=shelf")).await.ids().len(), 17);

    let last = api.post(&path(books), json!({"fields": values})).await.id();
    for query in ["", "?limit=17", "?ordering=-id", "?search=xxx"] {
        api.get(&format!("{}{query}", path(books))).await.refuses(too_large.clone());
    }
    for (query, count) in [("?limit=16", 16), ("?offset=1", 16), ("?fields=t_0,t_1", 17), ("?limit=1", 1)] {
        let list = api.get(&format!("{}{query}", path(books))).await;
        assert_eq!((list.ids().len(), &list["filtered_count"]), (count, &json!(17)), "{query}");
    }

    // Callers cannot write a record as large as a page, but a stored one is shown.
    let huge = "y".repeat(33 * 1024 * 1024);
    let enlarge =
        move |conn: &mut Conn| conn.exec(&Sql::new("UPDATE r2 SET f1 = $1 WHERE id = $2").arg(huge.as_str()).arg(last));
    server.build.db.write::<_, StoreError>(enlarge).await.unwrap();
    assert_eq!(books, 2);
    let size = |reply: &Value| reply["fields"]["t_0"].as_str().map(str::len);
    assert_eq!(size(&api.get(&format!("/api/object-records/{last}/")).await.ok()), Some(33 * 1024 * 1024));
    let list = api.get(&format!("{}?ordering=-id&limit=1", path(books))).await.ok();
    assert_eq!(size(&list["results"][0]), Some(33 * 1024 * 1024));
    api.get(&format!("{}?ordering=-id&limit=2", path(books))).await.refuses(too_large.clone());
    assert_eq!(api.get(&format!("{children}?limit=1&offset=17")).await.ids(), [last]);
    api.get(&format!("{children}?limit=2&offset=16")).await.refuses(too_large);
}
