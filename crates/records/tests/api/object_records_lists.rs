//! Order and size of the pages of `/api/object-classes/{id}/object-records/` (`docs/reference/object-records.md`).

use crate::set_up::{RECORDS, class, with_class};
use serde_json::{Value, json};
use store::{Conn, Error, Sql};
use testkit::Server;

#[tokio::test]
async fn people_sort_by_their_ids() {
    let server = Server::start().await;
    let api = with_class(&server).await;
    let field = json!({"label": "Clerk", "type": "user"});
    api.post("/api/object-classes/1/fields/", field).await.created();
    // Their names are in another order than their ids.
    let [second, third] = [server.as_type("internal").await.id, server.as_type("external").await.id];
    assert!(1 < second && second < third);
    for (owner, clerk) in
        [(Some(second), Some(third)), (Some(third), Some(1)), (None, Some(second)), (Some(1), None::<i64>)]
    {
        api.post(RECORDS, json!({"owner": owner, "fields": {"clerk": clerk}})).await.created();
    }
    for (ordering, ids) in
        [("owner", [3, 4, 1, 2]), ("-owner", [2, 1, 4, 3]), ("clerk", [4, 2, 3, 1]), ("-clerk", [1, 3, 2, 4])]
    {
        assert_eq!(api.get(&format!("{RECORDS}?ordering={ordering}")).await.ids(), ids, "{ordering}");
    }
}

#[tokio::test]
async fn a_page_has_a_bound_in_bytes_but_one_record_always_fits() {
    let server = Server::start().await;
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
    // Sixteen take two million bytes each, which is less than 32 MiB; the seventeenth is too much.
    for _ in 0..16 {
        api.post(&path(books), json!({"fields": values})).await.created();
    }
    assert_eq!(api.get(&path(books)).await.ids().len(), 16);
    api.post(&path(papers), json!({"fields": values})).await.created();
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

    // No caller makes a record as large as a page, but one that is there is shown.
    let huge = "y".repeat(33 * 1024 * 1024);
    let enlarge =
        move |conn: &mut Conn| conn.exec(&Sql::new("UPDATE r2 SET f1 = $1 WHERE id = $2").arg(huge.as_str()).arg(last));
    server.build.db.write::<_, Error>(enlarge).await.unwrap();
    assert_eq!(books, 2);
    let size = |reply: &Value| reply["fields"]["t_0"].as_str().map(str::len);
    assert_eq!(size(&api.get(&format!("/api/object-records/{last}/")).await.ok()), Some(33 * 1024 * 1024));
    let list = api.get(&format!("{}?ordering=-id&limit=1", path(books))).await.ok();
    assert_eq!(size(&list["results"][0]), Some(33 * 1024 * 1024));
    api.get(&format!("{}?ordering=-id&limit=2", path(books))).await.refuses(too_large.clone());
    assert_eq!(api.get(&format!("{children}?limit=1&offset=17")).await.ids(), [last]);
    api.get(&format!("{children}?limit=2&offset=16")).await.refuses(too_large);
}
