//! `/api/object-classes/{id}/object-records/` and `/api/object-records/{id}/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, class, options};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, admin, page, user};
use testkit::{ApiClient, RecordEvent, SECOND, record_events};

/// The permissions of a caller with all actions on a record.
fn all_permissions() -> Value {
    json!({
        "view": true, "edit": true, "delete": true, "edit_owners": true,
        "tasks": {"create": true, "edit": true, "view": true, "delete": true, "complete": true, "assign": true},
    })
}

/// Creates a class with a field of every type, besides class 1 of suppliers.
async fn invoices(api: &ApiClient) -> i64 {
    class(api, "Supplier", json!([{"label": "Name", "type": "string"}])).await;
    let fields = json!([
        {"label": "Number", "type": "string", "max_length": 20, "is_required": true, "is_unique": true},
        {"label": "Notes", "type": "text"},
        {"label": "Site", "type": "url"},
        {"label": "Contact", "type": "email"},
        {"label": "Pages", "type": "integer", "min_value": 0, "max_value": 500},
        {"label": "Total", "type": "decimal", "precision": 8, "scale": 2},
        {"label": "Paid", "type": "boolean", "default": false},
        {"label": "Due", "type": "date"},
        {"label": "Sent at", "type": "datetime"},
        {"label": "Priority", "type": "enum", "options": options(&["low", "high"])},
        {"label": "Tags", "type": "set", "options": options(&["red", "green", "blue"])},
        {"label": "State", "type": "status", "options": options(&["draft", "done"]), "initial": "draft"},
        {"label": "Clerk", "type": "user"},
        {"label": "Scans", "type": "document"},
        {"label": "Supplier", "type": "relation", "related_object_class": 1},
    ]);
    class(api, "Invoice", fields).await
}

#[tokio::test]
async fn a_record_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Note", json!([{"label": "Title", "type": "string"}])).await;
    let mut record = json!({
        "id": 1,
        "object_class": 1,
        "owner": admin(),
        "fields": {"title": "First"},
        "created_at": START,
        "created_by": admin(),
        "modified_at": START,
        "modified_by": admin(),
        "_meta": {"permissions": all_permissions(), "labels": {"object_class": "Note", "fields": {}, "files": {}}},
    });
    let created = api.post(RECORDS, json!({"fields": {"title": " First "}, "planet": "Mars", "id": 9})).await;
    created.expect_reply(201, record.clone());
    api.get("/api/object-records/1/").await.expect_reply(200, record.clone());
    api.get(RECORDS).await.expect_reply(200, page(json!([record])));
    let autocomplete = api.get(&format!("{RECORDS}autocomplete/?text__icontains=FIR")).await;
    autocomplete.expect_reply(200, page(json!([{"value": 1, "text": "First"}])));
    assert_eq!(api.get("/api/object-classes/1/").await["num_of_records"], 1);

    server.advance(SECOND);
    let tag = created.header("etag").to_owned();
    record["fields"]["title"] = json!("Second");
    record["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    let change = json!({"fields": {"title": "Second"}});
    let path = "/api/object-records/1/";
    api.call("PATCH", path).header("if-match", &tag).json(&change).send().await.expect_reply(200, record);
    let outdated = api.call("PATCH", path).header("if-match", &tag).json(&change).send().await;
    outdated.expect_reply(412, json!({"detail": "Object has been changed."}));
    let outdated = api.call("DELETE", path).header("if-match", &tag).send().await;
    outdated.expect_reply(412, json!({"detail": "Object has been changed."}));
    // The tag is that of the whole record, independent of the shown fields.
    let part = api.get("/api/object-records/1/?fields=").await;
    assert_eq!((&part["fields"], part.header("etag")), (&json!({}), api.get(path).await.header("etag")));
    let known = api.call("GET", "/api/object-records/1/?fields=").header("if-none-match", part.header("etag"));
    assert_eq!(known.send().await.status, 304);
    let same = api.call("PATCH", "/api/object-records/1/?fields=title").header("if-match", part.header("etag"));
    same.json(&change).send().await.ok();

    api.delete(path).await.expect_empty();
    api.get(path).await.expect_reply(404, message::not_found());
    api.get(RECORDS).await.expect_reply(200, page(json!([])));
    let title =
        |value: &str| json!([{"field_id": 1, "field_type": "string", "field_value": value, "field_name": "Title"}]);
    let event = |kind: &'static str, data: Value| RecordEvent { record: 1, kind, data };
    assert_eq!(
        record_events(&server).await,
        [
            event("record_created", title("First")),
            event("owner_initialized", json!([{"id": 1, "type": "user", "name": "admin Super Admin"}])),
            event("field_values_changed", title("Second")),
            event("record_deleted", json!([])),
        ]
    );
    // Records have a history, but no entries in the administration log.
    assert_eq!(api.get("/api/administration/log/?resource=object_records").await["filtered_count"], 0);
}

#[tokio::test]
async fn labels_do_not_change_the_tag_of_a_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let clerk = server.as_type("internal").await;
    let supplier = api.post(RECORDS, json!({"fields": {"name": "ACME"}})).await.id();
    let fields = json!({"number": "A-1", "clerk": clerk.id, "supplier": supplier, "state": "draft"});
    let made = api.post(&format!("/api/object-classes/{class}/object-records/"), json!({"fields": fields})).await;
    let path = format!("/api/object-records/{}/", made.id());
    let tag = made.header("etag").to_owned();
    let mut record = made.expect_created();
    let state = api.get(&format!("/api/object-classes/{class}/fields/?alias=state")).await.ids()[0];
    let draft = json!([{"value": "draft", "text": "Begun"}, {"value": "done", "text": "DONE"}]);
    for (other, change, label, text) in [
        (format!("/api/object-records/{supplier}/"), json!({"fields": {"name": "New"}}), "/fields/supplier", "New"),
        (format!("/api/users/{}/", clerk.id), json!({"first_name": "Ann"}), "/fields/clerk", "Ann Internal"),
        (format!("/api/object-classes/{class}/fields/{state}/"), json!({"options": draft}), "/fields/state", "Begun"),
        (format!("/api/object-classes/{class}/"), json!({"name": "Bill"}), "/object_class", "Bill"),
    ] {
        api.patch(&other, change).await.ok();
        *record["_meta"]["labels"].pointer_mut(label).unwrap() = json!(text);
        let now = api.get(&path).await;
        now.expect_reply(200, record.clone());
        assert_eq!(now.header("etag"), tag, "{label}");
    }
    // A caller who read the record before these writes may still change it.
    let change = json!({"fields": {"pages": 3}});
    let changed = api.call("PATCH", &path).header("if-match", &tag).json(&change).send().await;
    changed.ok();
    assert_ne!(changed.header("etag"), tag);
}

#[tokio::test]
async fn values_of_every_type() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let records = format!("/api/object-classes/{class}/object-records/");
    let supplier = api.post(RECORDS, json!({"fields": {"name": "ACME"}})).await.id();
    let fields = json!({
        "number": " A-1 ", "notes": "long", "site": "https://a.example/x", "contact": "a@b.example", "pages": 12,
        "total": "-7.5", "paid": true, "due": "2026-02-28", "sent_at": "2026-01-31T10:00:00+01:00", "priority": "high",
        "tags": ["blue", "red", "blue"], "state": "done", "clerk": 1, "scans": [], "supplier": supplier,
    });
    let record = api.post(&records, json!({"fields": fields})).await.expect_created();
    assert_eq!(
        record["fields"],
        json!({
            "number": "A-1", "notes": "long", "site": "https://a.example/x", "contact": "a@b.example", "pages": 12,
            "total": "-7.50", "paid": true, "due": "2026-02-28", "sent_at": "2026-01-31T09:00:00.000000Z",
            "priority": "high", "tags": ["red", "blue"], "state": "done", "clerk": 1, "scans": null, "supplier": supplier,
        })
    );
    assert_eq!(
        record["_meta"]["labels"],
        json!({
            "object_class": "Invoice",
            "fields": {
                "priority": "HIGH", "tags": ["RED", "BLUE"], "state": "DONE", "clerk": "admin Super Admin", "supplier": "ACME",
            },
            "files": {},
        })
    );
    // Values that are not sent become the default, otherwise null. A status becomes its initial value.
    let bare = api.post(&records, json!({"fields": {"number": "A-2"}})).await.expect_created();
    assert_eq!(
        bare["fields"],
        json!({
            "number": "A-2", "notes": null, "site": null, "contact": null, "pages": null, "total": null, "paid": false,
            "due": null, "sent_at": null, "priority": null, "tags": null, "state": "draft", "clerk": null, "scans": null,
            "supplier": null,
        })
    );
    let id = bare["id"].as_i64().unwrap();
    let some = api.get(&format!("/api/object-records/{id}/?fields=state,number,planet")).await;
    assert_eq!(some["fields"], json!({"number": "A-2", "state": "draft"}));
    // An empty text becomes null.
    let cleared =
        api.patch(&format!("/api/object-records/{id}/"), json!({"fields": {"notes": "  ", "pages": null}})).await;
    assert_eq!(cleared.ok()["fields"]["notes"], Value::Null);
}

#[tokio::test]
async fn a_decimal_that_is_sent_as_a_number_keeps_every_digit() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Payment", json!([{"label": "Sum", "type": "decimal"}])).await;
    // The number is sent as text, because a float would already be rounded here.
    let post = async |path: &str, body: String| api.call("POST", path).body("application/json", body).send().await;
    for (number, shown) in [
        ("999999999999999.99", "999999999999999.99"),
        ("1234567890123456.78", "1234567890123456.78"),
        ("1e17", "100000000000000000.00"),
    ] {
        let reply = post(RECORDS, format!("{{\"fields\": {{\"sum\": {number}}}}}")).await.expect_created();
        assert_eq!(reply["fields"]["sum"], shown);
    }
    let digits = "Ensure that there are no more than 20 digits in total.";
    let reply = post(RECORDS, "{\"fields\": {\"sum\": 12345678901234567890.12}}".to_owned()).await;
    reply.refuses(json!({"fields": {"sum": [digits]}}));
    let field = "{\"label\": \"Most\", \"type\": \"decimal\", \"default\": 1234567890123456.78}";
    let field = post("/api/object-classes/1/fields/", field.to_owned()).await.expect_created();
    assert_eq!(field["default"], "1234567890123456.78");
}

#[tokio::test]
async fn records_are_found_by_the_labels_that_are_shown() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Note", json!([{"label": "Title", "type": "string"}])).await;
    for title in [json!(null), json!("Über #1")] {
        api.post(RECORDS, json!({"fields": {"title": title}})).await.expect_created();
    }
    let [first, second] = [json!({"value": 1, "text": "#1"}), json!({"value": 2, "text": "Über #1"})];
    for (text, found) in [("%231", json!([first, second])), ("%C3%BCB", json!([second])), ("%232", json!([]))] {
        let list = api.get(&format!("{RECORDS}autocomplete/?text__icontains={text}")).await.ok();
        assert_eq!((&list["results"], &list["filtered_count"]), (&found, &json!(found.as_array().unwrap().len())));
    }
}

#[tokio::test]
async fn every_wrong_value_is_told_under_fields() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let records = format!("/api/object-classes/{class}/object-records/");
    api.post(&records, json!({"fields": {"number": "A-1"}})).await.expect_created();
    let fields = json!({
        "number": "A-1", "notes": 5, "site": "nowhere", "contact": "nobody", "pages": 501, "total": "1234567.123",
        "paid": "true", "due": "2026-02-30", "sent_at": "soon", "priority": "huge", "tags": ["red", "pink"],
        "state": null, "clerk": 99, "scans": ["token"], "supplier": 1, "planet": "Mars",
    });
    api.post(&records, json!({"fields": fields, "owner": 99})).await.refuses(json!({
        "owner": ["Invalid pk 99 - object does not exist."],
        "fields": {
            "number": ["This field must be unique."],
            "notes": ["Not a valid string."],
            "site": ["Enter a valid URL."],
            "contact": ["Enter a valid email address."],
            "pages": ["Ensure this value is less than or equal to 500."],
            "total": ["Ensure that there are no more than 8 digits in total.", "Ensure that there are no more than 2 decimal places."],
            "paid": ["Must be a valid boolean."],
            "due": ["Enter a valid date."],
            "sent_at": ["Enter a valid date/time."],
            "priority": ["huge is not a valid choice."],
            "tags": ["pink is not a valid choice."],
            "state": ["This field may not be null."],
            "clerk": ["Invalid pk 99 - object does not exist."],
            "scans": ["Invalid token token."],
            "supplier": ["Invalid pk 1 - object does not exist."],
            "planet": ["This field does not exist."],
        },
    }));
    for (body, errors) in [
        (json!({}), json!({"fields": {"number": ["This field is required."]}})),
        (json!({"fields": {"number": " "}}), json!({"fields": {"number": ["This field may not be blank."]}})),
        (json!({"fields": {"number": null}}), json!({"fields": {"number": ["This field may not be null."]}})),
        (json!({"fields": null}), json!({"fields": ["This field may not be null."]})),
        (json!({"fields": []}), json!({"fields": ["Invalid data. Expected a dictionary, but got list."]})),
    ] {
        api.post(&records, body).await.refuses(errors);
    }
    // Uniqueness within a class is exact.
    api.post(&records, json!({"fields": {"number": "a-1"}})).await.expect_created();
    // An empty list of files is null, which a field that has become required refuses.
    let scans = api.get(&format!("/api/object-classes/{class}/fields/?alias=scans")).await.ids()[0];
    api.patch(&format!("/api/object-classes/{class}/fields/{scans}/"), json!({"is_required": true})).await.ok();
    api.patch("/api/object-records/1/", json!({"fields": {"scans": [], "tags": []}}))
        .await
        .refuses(json!({"fields": {"scans": ["This list may not be empty."]}}));
}

#[tokio::test]
async fn a_decimal_keeps_its_places_when_the_scale_changes() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Price", json!([{"label": "Net", "type": "decimal", "precision": 6, "scale": 2}])).await;
    let field = "/api/object-classes/1/fields/1/";
    let net = async |id: i64| api.get(&format!("/api/object-records/{id}/")).await["fields"]["net"].clone();
    for (id, value) in [(1, "12.34"), (2, "12.5")] {
        assert_eq!(api.post(RECORDS, json!({"fields": {"net": value}})).await.id(), id);
    }
    assert_eq!(api.patch(field, json!({"scale": 4})).await.ok()["scale"], 4);
    assert_eq!([net(1).await, net(2).await], ["12.3400", "12.5000"]);
    api.patch("/api/object-records/2/", json!({"fields": {"net": "0.1234"}})).await.ok();
    api.patch(field, json!({"scale": 7}))
        .await
        .refuses(json!({"scale": ["Ensure this value is less than or equal to 6."]}));
    // Stored values remain outside a lowered bound, and a restore returns them unchanged.
    api.patch(field, json!({"scale": 1, "precision": 3})).await.ok();
    assert_eq!([net(1).await, net(2).await], ["12.34", "0.1234"]);
    let places = json!({"fields": {"net": ["Ensure that there are no more than 1 decimal places."]}});
    api.patch("/api/object-records/1/", json!({"fields": {"net": "1.25"}})).await.refuses(places);
    api.delete("/api/object-records/2/").await.expect_empty();
    api.post("/api/object-records/2/restore/", json!({})).await.expect_created();
    assert_eq!(net(2).await, "0.1234");
    assert_eq!(api.get(&format!("{RECORDS}?net=0.1234")).await.ids(), [2]);
}

#[tokio::test]
async fn filters_of_every_type_and_over_a_relation() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let records = format!("/api/object-classes/{class}/object-records/");
    let mut suppliers = Vec::new();
    for name in ["ACME", "Größe"] {
        suppliers.push(api.post(RECORDS, json!({"fields": {"name": name}})).await.id());
    }
    let rows = [
        json!({"number": "alpha", "notes": "Straße nach Rom", "pages": 1, "total": "-10", "due": "2026-01-01", "priority": "low", "tags": ["red"], "clerk": 1, "supplier": suppliers[0]}),
        json!({"number": "Beta", "pages": 20, "total": "2", "paid": true, "due": "2026-02-01", "priority": "high", "tags": ["red", "blue"], "state": "done", "supplier": suppliers[1]}),
        json!({"number": "gamma", "notes": "nach Mailand", "total": "10.5", "sent_at": "2026-03-01T00:00:00Z"}),
    ];
    for row in rows {
        api.post(&records, json!({"fields": row})).await.expect_created();
    }
    let [a, b, c] = [3, 4, 5];
    for (query, ids) in [
        ("number=Beta", vec![b]),
        ("number__icontains=A", vec![a, b, c]),
        ("number__iexact=BETA", vec![b]),
        ("number__contains=et", vec![b]),
        ("number__startswith=Be", vec![b]),
        ("number__istartswith=be", vec![b]),
        ("number__endswith=mma", vec![c]),
        ("number__iendswith=MA", vec![c]),
        ("pages__gte=20", vec![b]),
        ("notes__icontains=STRASSE", vec![a]),
        ("notes__isnull=true", vec![b]),
        ("pages__range=1,20", vec![a, b]),
        ("total__lt=2.01", vec![a, b]),
        ("paid=true", vec![b]),
        ("due__lte=2026-01-01", vec![a]),
        ("sent_at__gt=2026-01-01T00:00:00Z", vec![c]),
        ("priority__in=low,high", vec![a, b]),
        ("tags=blue,red", vec![b]),
        ("tags=", vec![]),
        ("tags__in=blue,green", vec![b]),
        ("state=draft", vec![a, c]),
        ("clerk=1", vec![a]),
        ("supplier=1", vec![a]),
        ("supplier__in=1,2", vec![a, b]),
        ("supplier__isnull=true", vec![c]),
        ("scans__isnull=true", vec![a, b, c]),
        ("supplier.name=ACME", vec![a]),
        ("supplier.name__istartswith=gr%C3%96", vec![b]),
        ("supplier.name__isnull=true", vec![c]),
        ("supplier.id=2", vec![b]),
        ("id__in=3,5", vec![a, c]),
        ("owner=1&created_by=1", vec![a, b, c]),
        ("owner__isnull=true", vec![]),
        ("search=nach", vec![a, c]),
        ("search=NACH+strasse", vec![a]),
        ("search=mail", vec![c]),
        ("search=nach+mail", vec![c]),
        ("search=mail+nach", vec![]),
        ("search=nach+xyz", vec![]),
        ("ordering=-total", vec![c, b, a]),
        ("ordering=pages", vec![c, a, b]),
        ("ordering=-number", vec![c, b, a]),
        ("ordering=supplier,-id", vec![c, a, b]),
        ("planet=Mars&supplier.planet=x&nothing.name=y", vec![a, b, c]),
    ] {
        let list = api.get(&format!("{records}?{query}")).await;
        assert_eq!(list.ids(), ids, "{query} {list:?}");
        assert_eq!((&list["filtered_count"], &list["total_count"]), (&json!(ids.len()), &json!(3)), "{query}");
        let one = api.get(&format!("{records}?{query}&limit=1")).await;
        assert_eq!(one["filtered_count"], ids.len(), "{query}");
        // The complement of a filter finds the other records, including those without a value.
        if let Some((name, value)) = query.split_once('=').filter(|(_, value)| !value.contains('='))
            && !["search", "ordering"].contains(&name)
        {
            let others: Vec<i64> = [a, b, c].into_iter().filter(|id| !ids.contains(id)).collect();
            let list = api.get(&format!("{records}?{name}__exclude={value}")).await;
            assert_eq!(list.ids(), others, "{name}__exclude={value} {list:?}");
        }
    }
    for (query, ids) in [
        ("number__exact__exclude=Beta&pages__exclude=1", vec![c]),
        ("supplier.name__exclude=ACME&supplier.name__isnull__exclude=true", vec![b]),
        ("supplier.name__exclude=ACME&supplier.id__exclude=2", vec![c]),
        ("planet__exclude=Mars&supplier.planet__exclude=x", vec![a, b, c]),
    ] {
        assert_eq!(api.get(&format!("{records}?{query}")).await.ids(), ids, "{query}");
    }
    api.get(&format!("{records}?pages__exclude=x&number__gt__exclude=1&tags__exclude=pink")).await.refuses(json!({
        "pages__exclude": ["A valid integer is required."],
        "number__gt__exclude": ["Select a valid choice. gt is not one of the available choices."],
        "tags__exclude": ["Select a valid choice. pink is not one of the available choices."],
    }));
    api.get(&format!("{records}?ordering=notes&pages=x&supplier.name__gt=1&tags__gt=red&scans=1")).await.refuses(
        json!({
            "ordering": ["Select a valid choice. notes is not one of the available choices."],
            "pages": ["A valid integer is required."],
            "supplier.name__gt": ["Select a valid choice. gt is not one of the available choices."],
            "tags__gt": ["Select a valid choice. gt is not one of the available choices."],
            "scans": ["Select a valid choice. exact is not one of the available choices."],
        }),
    );
    let many = "number__exclude=a&".repeat(20) + "supplier.name=b";
    api.get(&format!("{records}?{many}"))
        .await
        .expect_reply(400, json!({"detail": "Limit of 20 filters has been exceeded."}));
}

#[tokio::test]
async fn decimals_are_compared_as_numbers_whatever_their_length() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Length", json!([{"label": "Whole", "type": "decimal", "precision": 30, "scale": 0}])).await;
    let most = "9".repeat(30);
    for whole in ["12", &most, &format!("-{most}")] {
        api.post(RECORDS, json!({"fields": {"whole": whole}})).await.expect_created();
    }
    let more = format!("1{}", "0".repeat(30));
    for (query, ids) in [
        ("whole=12.00000000000".to_owned(), vec![1]),
        ("whole=012.000000000001".to_owned(), vec![]),
        ("whole__gt=11.99999999999999&whole__lt=12.000000000001".to_owned(), vec![1]),
        (format!("whole={most}"), vec![2]),
        (format!("whole={more}"), vec![]),
        (format!("whole__lt={more}"), vec![1, 2, 3]),
        (format!("whole__range=-{more},0"), vec![3]),
    ] {
        assert_eq!(api.get(&format!("{RECORDS}?{query}")).await.ids(), ids, "{query}");
    }
}

#[tokio::test]
async fn sets_are_found_by_whole_members() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let values = ["q\"a", "a", "[", "\"", "x[", "b]"];
    class(&api, "Note", json!([{"label": "Tags", "type": "set", "options": options(&values)}])).await;
    for tags in [json!(["q\"a"]), json!(["a", "["]), json!(["x[", "b]"]), json!([]), json!(null)] {
        api.post(RECORDS, json!({"fields": {"tags": tags}})).await.expect_created();
    }
    for (query, ids) in [
        ("tags__in=a", vec![2]),
        ("tags__in=q%22a", vec![1]),
        ("tags__in=%5B", vec![2]),
        ("tags__in=%22", vec![]),
        ("tags__in=b%5D,a", vec![2, 3]),
        ("tags=a", vec![]),
        ("tags=", vec![4]),
        ("tags__isnull=true", vec![5]),
    ] {
        assert_eq!(api.get(&format!("{RECORDS}?{query}")).await.ids(), ids, "{query}");
    }
    let keep =
        async |values: &[&str]| api.patch("/api/object-classes/1/fields/1/", json!({"options": options(values)})).await;
    for (kept, used) in [(["a", "[", "x[", "b]"], "q\"a"), (["q\"a", "[", "x[", "b]"], "a")] {
        keep(&kept).await.refuses(json!({"options": [format!("Option {used} is in use.")]}));
    }
    keep(&["q\"a", "a", "[", "x[", "b]"]).await.ok();
}

#[tokio::test]
async fn thousands_of_filters_and_options_are_no_deep_conditions() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let raised = json!({
        "api_filters_on_object_models_object_records_list": 4000, "api_object_field_set_options_max_count": 2000,
    });
    operator.patch(&format!("/api/builds/{}/limits/", testkit::DOMAIN), raised).await.ok();
    let values: Vec<String> = (0..1100).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let set = json!({"label": "Set", "type": "set", "options": options(&values)});
    let above = json!({"label": "Up", "type": "relation", "related_object_class": 1});
    class(&api, "Note", json!([set, {"label": "N", "type": "integer"}, above])).await;
    api.post(RECORDS, json!({"fields": {"set": ["7", "1099"], "n": 1}})).await.expect_created();
    api.post(RECORDS, json!({"fields": {"n": 1, "up": 1}})).await.expect_created();
    for (query, ids) in [
        (format!("set__in={}", values.join(",")), vec![1]),
        (vec!["n=1"; 4000].join("&"), vec![1, 2]),
        (vec!["up.n=1"; 1100].join("&"), vec![2]),
        (vec!["up.up__isnull=1"; 1100].join("&"), vec![1, 2]),
    ] {
        assert_eq!(api.get(&format!("{RECORDS}?{query}")).await.ids(), ids, "{query:.20}");
    }
    api.patch("/api/object-classes/1/fields/1/", json!({"options": options(&["7"])}))
        .await
        .refuses(json!({"options": ["Option 1099 is in use."]}));
}

#[tokio::test]
async fn an_alias_that_ends_in_an_underscore_takes_every_predicate() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Note", json!([{"label": "Überschrift", "type": "string", "alias": "field_"}])).await;
    let child = class(&api, "Part", json!([{"label": "Note", "type": "relation", "related_object_class": 1}])).await;
    for title in ["First", "Second"] {
        let note = api.post(RECORDS, json!({"fields": {"field_": title}})).await.id();
        api.post(&format!("/api/object-classes/{child}/object-records/"), json!({"fields": {"note": note}})).await;
    }
    assert_eq!(api.get(&format!("{RECORDS}?field___icontains=SEC")).await.ids(), [3]);
    assert_eq!(api.get(&format!("{RECORDS}?field___isnull=true")).await.ids(), [0; 0]);
    let children = format!("/api/object-classes/{child}/object-records/?note.field___startswith=F");
    assert_eq!(api.get(&children).await.ids(), [2]);
    api.get(&format!("{RECORDS}?field___gt=x"))
        .await
        .refuses(json!({"field___gt": ["Select a valid choice. gt is not one of the available choices."]}));
}

#[tokio::test]
async fn a_related_record_that_the_caller_may_not_view_counts_as_null() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let records = format!("/api/object-classes/{class}/object-records/");
    let person = server.as_type("internal").await;
    let supplier = api.post(RECORDS, json!({"fields": {"name": "Secret"}})).await.id();
    let body = json!({"fields": {"number": "1", "supplier": supplier}, "owner": person.id});
    let record = api.post(&records, body).await.id();
    let seen = person.get(&format!("/api/object-records/{record}/")).await.ok();
    assert_eq!(seen["fields"]["supplier"], supplier);
    assert_eq!(seen["_meta"]["labels"]["fields"], json!({"state": "DRAFT", "supplier": null}));
    let filters = [
        ("supplier.name=Secret", 0),
        ("supplier.name__startswith=S", 0),
        ("supplier.name__isnull=true", 1),
        ("supplier.name__isnull=false", 0),
    ];
    // A class that the caller may not view reveals neither its fields nor their types.
    let of_any_field = [
        ("supplier.planet=Secret", 0),
        ("supplier.planet__isnull=true", 1),
        ("supplier.name__gt=x", 0),
        ("supplier.id=x", 0),
        ("supplier.name__nonsense=x", 0),
    ];
    let check = async |filters: &[(&str, usize)]| {
        for (query, count) in filters {
            let list = person.get(&format!("{records}?{query}")).await;
            assert_eq!((list.ids().len(), &list["filtered_count"]), (*count, &json!(count)), "{query}");
        }
    };
    check(&filters).await;
    check(&of_any_field).await;
    // The result is the same if the caller may view the class, but not the record.
    api.post(RECORDS, json!({"fields": {"name": "His"}, "owner": person.id})).await.expect_created();
    check(&filters).await;
    check(&[("supplier.planet=Secret", 1)]).await;
    // The stored value may be sent again. Another value must be visible to the caller.
    let path = format!("/api/object-records/{record}/");
    person.patch(&path, json!({"fields": {"supplier": supplier, "pages": 3}})).await.ok();
    let other = api.post(RECORDS, json!({"fields": {"name": "Other"}})).await.id();
    let message = format!("Invalid pk {other} - object does not exist.");
    person
        .patch(&path, json!({"fields": {"supplier": other}}))
        .await
        .refuses(json!({"fields": {"supplier": [message]}}));
}

#[tokio::test]
async fn a_patch_of_the_owner_requires_edit_owners() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Note", json!([{"label": "Title", "type": "string"}])).await;
    let owner = server.as_type("internal").await;
    let (editor, changer) = (server.as_type("external").await, server.as_type("external").await);
    let sets = "/api/object-classes/1/permission-sets/";
    for (set, person, actions) in [(2, &editor, json!(["edit"])), (3, &changer, json!(["edit", "edit_owners"]))] {
        let body = json!({"name": format!("Set {set}"), "permissions": {"object_records": actions}});
        api.post(sets, body).await.expect_created();
        api.post(&format!("{sets}{set}/assignees/users/"), json!([person.id])).await.expect_created();
    }
    let record = api.post(RECORDS, json!({"owner": owner.id})).await.expect_created();
    assert_eq!(record["owner"], user(&owner, "internal"));
    let path = "/api/object-records/1/";
    // `edit` is not enough. The member is ignored without an error.
    assert_eq!(editor.patch(path, json!({"owner": editor.id})).await.ok()["owner"]["id"], owner.id);
    // A caller cannot become the owner by a role alone.
    changer.patch(path, json!({"owner": changer.id})).await.expect_reply(403, message::forbidden());
    changer.patch(path, json!({"owner": editor.id})).await.expect_reply(
        400,
        json!({"owner": [format!("You do not have permission to make user {} the owner of the record.", editor.id)]}),
    );
    assert_eq!(changer.patch(path, json!({"owner": null})).await.ok()["owner"], Value::Null);
    assert_eq!(api.patch(path, json!({"owner": owner.id})).await.ok()["owner"]["id"], owner.id);
    owner.get(path).await.ok();
    // A caller who gives the record to another owner cannot view it any more.
    api.patch("/api/object-classes/1/permission-sets/1/", json!({"permissions": {"object_records": ["create"]}}))
        .await
        .ok();
    let given = owner.patch(path, json!({"owner": 1})).await.ok();
    assert_eq!(given, json!({"id": 1, "object_class": 1}));
    owner.get(path).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_parent_stays_while_it_has_children_and_clears_relations_where_they_say_so() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Parent", json!([{"label": "Name", "type": "string"}])).await;
    let child = class(
        &api,
        "Child",
        json!([
            {"label": "Parent", "type": "relation", "related_object_class": 1},
            {"label": "Other", "type": "relation", "related_object_class": 1, "on_delete": "clear"},
        ]),
    )
    .await;
    let children = format!("/api/object-classes/{child}/object-records/");
    api.post(RECORDS, json!({"fields": {"name": "a"}})).await.expect_created();
    let first = api.post(&children, json!({"fields": {"parent": 1}})).await.id();
    api.delete("/api/object-records/1/")
        .await
        .expect_reply(400, json!({"detail": "Object record has related records and cannot be deleted."}));
    api.patch(&format!("/api/object-records/{first}/"), json!({"fields": {"parent": null, "other": 1}})).await.ok();
    api.delete("/api/object-records/1/").await.expect_empty();
    assert_eq!(api.get(&format!("/api/object-records/{first}/")).await["fields"]["other"], Value::Null);
}

#[tokio::test]
async fn records_of_a_class_make_no_circle() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Part", json!([{"label": "Name", "type": "string"}])).await;
    api.post("/api/object-classes/1/fields/", json!({"label": "Whole", "type": "relation", "related_object_class": 1}))
        .await
        .expect_created();
    let mut last = Value::Null;
    for _ in 0..10 {
        last = json!(api.post(RECORDS, json!({"fields": {"whole": last}})).await.id());
    }
    let refused = |message: &str| json!({"fields": {"whole": [message]}});
    api.post(RECORDS, json!({"fields": {"whole": last}}))
        .await
        .refuses(refused("Limit of 10 relation levels has been exceeded."));
    for parent in [1, 5, 10] {
        api.patch("/api/object-records/1/", json!({"fields": {"whole": parent}}))
            .await
            .refuses(refused("Circular relations are not allowed."));
    }
    // Stored values are accepted, even though chains of ten are too long now.
    server.set_limit("object_relations_depth", 5).await;
    api.patch("/api/object-records/10/", json!({"fields": {"whole": 9, "name": "last"}})).await.ok();
    api.patch("/api/object-records/10/", json!({"fields": {"whole": 8}}))
        .await
        .refuses(refused("Limit of 5 relation levels has been exceeded."));
}

#[tokio::test]
async fn a_default_that_is_gone_is_none() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Parent", json!([{"label": "Name", "type": "string"}])).await;
    api.post(RECORDS, json!({"fields": {"name": "a"}})).await.expect_created();
    let child =
        class(&api, "Child", json!([{"label": "Parent", "type": "relation", "related_object_class": 1, "default": 1}]))
            .await;
    let children = format!("/api/object-classes/{child}/object-records/");
    let first = api.post(&children, json!({})).await.expect_created();
    assert_eq!(first["fields"], json!({"parent": 1}));
    api.delete(&format!("/api/object-records/{}/", first["id"])).await.expect_empty();
    api.delete("/api/object-records/1/").await.expect_empty();
    assert_eq!(api.post(&children, json!({})).await.expect_created()["fields"], json!({"parent": null}));
    // A sent value that is unknown is refused, in a batch too.
    let other = api.post(RECORDS, json!({"fields": {"name": "b"}})).await.id();
    let items = json!({"items": [{}, {"fields": {"parent": 1}}, {"fields": {"parent": other}}]});
    let wrong = json!({"1": {"fields": {"parent": ["Invalid pk 1 - object does not exist."]}}});
    api.post(&format!("{children}batch/"), items).await.refuses(json!({"items": wrong}));
    let items = json!({"items": [{}, {"fields": {"parent": null}}, {"fields": {"parent": other}}]});
    let ids = api.post(&format!("{children}batch/"), items).await.expect_created()["ids"].clone();
    for (id, parent) in ids.as_array().unwrap().iter().zip([json!(null), json!(null), json!(other)]) {
        assert_eq!(api.get(&format!("/api/object-records/{id}/")).await["fields"], json!({"parent": parent}));
    }
}
