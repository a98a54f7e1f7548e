//! `/api/object-classes/{id}/object-records/aggregate/` (`docs/reference/aggregates.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, assignees, class, options, set, with_class};
use serde_json::{Value, json};
use testkit::{ApiClient, message};

const AGGREGATE: &str = "/api/object-classes/1/object-records/aggregate/";

async fn with_invoices(api: &ApiClient, records: Value) {
    let fields = json!([
        {"label": "State", "type": "status", "options": options(&["open", "paid"]), "initial": "open"},
        {"label": "Amount", "type": "decimal"},
        {"label": "Pieces", "type": "integer"},
        {"label": "Urgent", "type": "boolean"},
        {"label": "Due", "type": "date"},
        {"label": "Paid at", "type": "datetime"},
        {"label": "Clerk", "type": "user"},
        {"label": "Note", "type": "string"},
        {"label": "Parent", "type": "relation", "related_object_class": 1},
    ]);
    class(api, "Invoice", fields).await;
    for fields in records.as_array().unwrap() {
        api.post(RECORDS, json!({"fields": fields})).await.expect_created();
    }
}

/// Returns the keys and the counts of the groups.
fn groups(answer: &Value) -> Vec<(Value, i64)> {
    let group = |group: &Value| (group["keys"].clone(), group["count"].as_i64().unwrap());
    answer["groups"].as_array().unwrap().iter().map(group).collect()
}

#[tokio::test]
async fn the_numbers_of_all_records_without_groups() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    with_invoices(
        &api,
        json!([
            {"amount": "0.10", "pieces": 3, "due": "2026-03-31", "paid_at": "2026-03-01T10:00:00Z"},
            {"amount": "0.20", "pieces": -4, "due": "2026-01-01"},
            {"amount": "-12.00"},
            {},
        ]),
    )
    .await;
    let path = format!("{AGGREGATE}?_sum=amount,pieces&_avg=amount&_min=due,amount,pieces&_max=due,paid_at");
    api.get(&path).await.expect_reply(
        200,
        json!({
            "groups": [], "num_of_groups": 0,
            "total": {
                "count": 4, "sum": {"amount": "-11.70", "pieces": "-1"}, "avg": {"amount": "-3.9000000000"},
                "min": {"amount": "-12.00", "pieces": -4, "due": "2026-01-01"},
                "max": {"due": "2026-03-31", "paid_at": "2026-03-01T10:00:00.000000Z"},
            },
        }),
    );
    // Without a value there is no number.
    api.get(&format!("{AGGREGATE}?_sum=amount&_max=due&id=4")).await.expect_reply(
        200,
        json!({
            "groups": [], "num_of_groups": 0,
            "total": {"count": 1, "sum": {"amount": null}, "avg": {}, "min": {}, "max": {"due": null}},
        }),
    );
}

#[tokio::test]
async fn groups_have_the_keys_and_labels_of_records() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    with_invoices(
        &api,
        json!([
            {"state": "paid", "amount": "5", "urgent": true, "clerk": 1},
            {"state": "open", "amount": "7", "urgent": false, "parent": 1},
            {"state": "open", "amount": "1", "clerk": 1, "parent": 1},
        ]),
    )
    .await;
    let numbers =
        |count: i64, sum: &str| json!({"count": count, "sum": {"amount": sum}, "avg": {}, "min": {}, "max": {}});
    let group = |keys: Value, labels: Value, count: i64, sum: &str| {
        let mut group = numbers(count, sum);
        (group["keys"], group["labels"]) = (keys, labels);
        group
    };
    let by = |columns: &str| format!("{AGGREGATE}?_group_by={columns}&_sum=amount");
    api.get(&by("state")).await.expect_reply(
        200,
        json!({
            "groups": [group(json!(["open"]), json!(["OPEN"]), 2, "8.00"), group(json!(["paid"]), json!(["PAID"]), 1, "5.00")],
            "num_of_groups": 2, "total": numbers(3, "13.00"),
        }),
    );
    assert_eq!(
        api.get(&by("urgent&ordering=key")).await.ok()["groups"],
        json!([
            group(json!([null]), json!([null]), 1, "1.00"),
            group(json!([false]), json!(["No"]), 1, "7.00"),
            group(json!([true]), json!(["Yes"]), 1, "5.00"),
        ])
    );
    let name = "admin Super Admin";
    assert_eq!(
        api.get(&by("clerk,parent&ordering=key")).await.ok()["groups"],
        json!([
            group(json!([null, 1]), json!([null, "#1"]), 1, "7.00"),
            group(json!([1, null]), json!([name, null]), 1, "5.00"),
            group(json!([1, 1]), json!([name, "#1"]), 1, "1.00"),
        ])
    );
    let by_creator = api.get(&by("created_by")).await.ok();
    assert_eq!(
        by_creator["groups"][0]["keys"][0],
        api.get(&format!("{RECORDS}?limit=1")).await.ok()["results"][0]["created_by"]
    );
    assert_eq!(by_creator["groups"][0]["labels"], json!([name]));
}

#[tokio::test]
async fn parts_of_dates_begin_on_their_first_day_in_a_zone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    with_invoices(
        &api,
        json!([
            {"due": "2026-03-29", "paid_at": "2026-03-31T22:30:00Z"},
            {"due": "2026-03-30", "paid_at": "2026-03-31T21:30:00Z"},
            {"due": null},
        ]),
    )
    .await;
    for (column, keys) in [
        ("due__day", json!([null, "2026-03-29", "2026-03-30"])),
        ("due__week", json!([null, "2026-03-23", "2026-03-30"])),
        ("due__month", json!([null, "2026-03-01"])),
        ("due__quarter", json!([null, "2026-01-01"])),
        ("due__year", json!([null, "2026-01-01"])),
        ("paid_at__day", json!([null, "2026-03-31"])),
        ("paid_at__day&_time_zone=Europe/Berlin", json!([null, "2026-03-31", "2026-04-01"])),
        ("paid_at__month&_time_zone=Europe/Berlin", json!([null, "2026-03-01", "2026-04-01"])),
    ] {
        let answer = api.get(&format!("{AGGREGATE}?_group_by={column}&ordering=key")).await.ok();
        let shown: Vec<Value> = groups(&answer).into_iter().map(|(keys, _)| keys[0].clone()).collect();
        assert_eq!(Value::from(shown), keys, "{column}");
    }
    // The zone of the account decides if none is sent.
    api.patch("/api/users/me/", json!({"timezone": "Europe/Berlin"})).await.ok();
    let answer = api.get(&format!("{AGGREGATE}?_group_by=paid_at__day&ordering=-key")).await.ok();
    assert_eq!(groups(&answer)[0], (json!(["2026-04-01"]), 1));
}

#[tokio::test]
async fn the_order_and_the_limit_of_groups() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    with_invoices(
        &api,
        json!([
            {"due": "2026-01-01", "amount": "1"},
            {"due": "2026-01-01", "amount": "1"},
            {"due": "2026-01-02", "amount": "9"},
            {"due": "2026-01-03"},
        ]),
    )
    .await;
    for (parameters, days) in [
        ("", [1, 2, 3]),
        ("&ordering=-count", [1, 2, 3]),
        ("&ordering=count", [2, 3, 1]),
        ("&ordering=-key", [3, 2, 1]),
        ("&ordering=-sum.amount", [2, 1, 3]),
        ("&ordering=max.amount", [3, 1, 2]),
        ("&ordering=-avg.amount", [2, 1, 3]),
    ] {
        let path = format!("{AGGREGATE}?_group_by=due__day&_sum=amount&_avg=amount&_max=amount{parameters}");
        let keys: Vec<Value> = groups(&api.get(&path).await.ok()).into_iter().map(|(keys, _)| keys).collect();
        assert_eq!(keys, days.map(|day| json!([format!("2026-01-0{day}")])), "{parameters}");
    }
    let answer = api.get(&format!("{AGGREGATE}?_group_by=due__day&limit=1&offset=1")).await.ok();
    assert_eq!(groups(&answer), [(json!(["2026-01-01"]), 2)]);
    assert_eq!((&answer["num_of_groups"], &answer["total"]["count"]), (&json!(3), &json!(4)));
}

#[tokio::test]
async fn a_caller_counts_only_what_it_may_view() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let reader = server.as_type("internal").await;
    let readers = set(&api, "Readers", json!({"object_records": ["view"]})).await;
    for _ in 0..3 {
        api.post(RECORDS, json!({})).await.expect_created();
    }
    reader.get(AGGREGATE).await.expect_reply(404, message::not_found());
    reader.options(AGGREGATE).await.expect_reply(404, message::not_found());
    api.post(&assignees(2, readers), json!([reader.id])).await.expect_created();
    let by_owner = format!("{AGGREGATE}?_group_by=created_by");
    assert_eq!(reader.get(&by_owner).await.ok()["total"]["count"], 1);
    assert_eq!(reader.get(&format!("{AGGREGATE}?id=1")).await.ok()["total"]["count"], 0);
    assert_eq!(api.get(&by_owner).await.ok()["total"]["count"], 3);
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    with_invoices(&api, json!([])).await;
    let choice = |value: &str| format!("Select a valid choice. {value} is not one of the available choices.");
    for (parameters, errors) in [
        ("_group_by=amount", json!({"_group_by": [choice("amount")]})),
        ("_group_by=note", json!({"_group_by": [choice("note")]})),
        ("_group_by=due", json!({"_group_by": [choice("due")]})),
        ("_group_by=state__day", json!({"_group_by": [choice("state__day")]})),
        ("_group_by=id", json!({"_group_by": [choice("id")]})),
        ("_group_by=state,urgent,clerk", json!({"_group_by": ["Up to 2 items allowed."]})),
        ("_group_by=state,state", json!({"_group_by": ["This field must be unique."]})),
        ("_sum=due&_min=state", json!({"_sum": [choice("due")], "_min": [choice("state")]})),
        (
            "_sum=amount,pieces&_avg=amount,pieces&_min=amount,pieces,due&_max=amount,pieces,due,paid_at",
            json!({"_max": ["Up to 10 items allowed."]}),
        ),
        ("_time_zone=Mars/Base", json!({"_time_zone": ["Mars/Base is not a valid choice."]})),
        ("ordering=sum.amount", json!({"ordering": [choice("sum.amount")]})),
        ("ordering=-id", json!({"ordering": [choice("-id")]})),
        ("limit=0", json!({"limit": ["Ensure this value is greater than or equal to 1."]})),
        ("limit=1001", json!({"limit": ["Ensure this value is less than or equal to 1000."]})),
        ("amount=x", json!({"amount": ["A valid number is required."]})),
    ] {
        api.get(&format!("{AGGREGATE}?{parameters}")).await.expect_reply(400, errors);
    }
}

#[tokio::test]
async fn options_tell_what_may_be_sent() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Invoice", json!([{"label": "Amount", "type": "decimal"}, {"label": "Due", "type": "date"}, {"label": "Note", "type": "text"}])).await;
    let parts = |alias: &str| ["day", "week", "month", "quarter", "year"].map(|part| format!("{alias}__{part}"));
    api.options(AGGREGATE).await.expect_reply(
        200,
        json!({"columns": [
            {"alias": "owner", "type": "user", "group_by": ["owner"], "aggregates": []},
            {"alias": "created_at", "type": "datetime", "group_by": parts("created_at"), "aggregates": []},
            {"alias": "created_by", "type": "user", "group_by": ["created_by"], "aggregates": []},
            {"alias": "modified_at", "type": "datetime", "group_by": parts("modified_at"), "aggregates": []},
            {"alias": "amount", "type": "decimal", "group_by": [], "aggregates": ["sum", "avg", "min", "max"]},
            {"alias": "due", "type": "date", "group_by": parts("due"), "aggregates": ["min", "max"]},
        ]}),
    );
}
