//! `/api/users/me/preferences/` (`docs/reference/preferences.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, page};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND, send_concurrently};

const ALL: &str = "/api/users/me/preferences/";

fn preference_path(key: &str) -> String {
    format!("{ALL}{key}/")
}

async fn put_preference(api: &ApiClient, key: &str, value: Value) -> testkit::Reply {
    api.call("PUT", &preference_path(key)).json(&json!({"value": value})).send().await
}

#[tokio::test]
async fn a_preference_from_its_making_to_its_end() {
    let server = TestServer::start().await;
    let api = server.as_type("external").await;
    api.get(ALL).await.expect_reply(200, page(json!([])));
    api.get(&preference_path("grid")).await.expect_reply(404, message::not_found());
    let value = json!({"columns": ["title", "Ä\n"], "width": 0.5, "none": null});
    let made = put_preference(&api, "grid", value.clone()).await;
    let grid = json!({"key": "grid", "value": value, "modified_at": START});
    made.expect_reply(201, grid.clone());
    let got = api.get(&preference_path("grid")).await;
    got.expect_reply(200, grid);
    assert_eq!(got.header("etag"), made.header("etag"));

    server.advance(SECOND);
    let if_match = |method: &str, key: &str, known: &str| {
        api.call(method, &preference_path(key)).header("if-match", known).json(&json!({"value": null}))
    };
    let changed = message::detail("Object has been changed.");
    if_match("PUT", "grid", "\"other\"").send().await.expect_reply(412, changed.clone());
    if_match("PUT", "new", "\"other\"").send().await.expect_reply(412, changed.clone());
    let replaced = if_match("PUT", "grid", made.header("etag")).send().await;
    let grid = json!({"key": "grid", "value": null, "modified_at": "2026-01-31T09:30:01.000000Z"});
    replaced.expect_reply(200, grid.clone());
    api.get(ALL).await.expect_reply(200, page(json!([grid])));
    if_match("DELETE", "grid", made.header("etag")).send().await.expect_reply(412, changed);
    if_match("DELETE", "grid", replaced.header("etag")).send().await.expect_empty();
    api.delete(&preference_path("grid")).await.expect_reply(404, message::not_found());
    if_match("DELETE", "grid", made.header("etag")).send().await.expect_reply(404, message::not_found());

    let log = server.admin().await.get("/api/administration/log/?resource=user_preferences").await.ok();
    assert_eq!(log["filtered_count"], 0);
}

#[tokio::test]
async fn lists_are_sorted_and_filtered_by_key() {
    let server = TestServer::start().await;
    let api = server.as_type("internal").await;
    for key in ["b", "a.2", "a-1", "0", "a_3"] {
        put_preference(&api, key, json!([key])).await.expect_created();
    }
    for (query, keys) in [
        ("", json!(["b", "a.2", "a-1", "0", "a_3"])),
        ("?ordering=key", json!(["0", "a-1", "a.2", "a_3", "b"])),
        ("?ordering=-key", json!(["b", "a_3", "a.2", "a-1", "0"])),
        ("?key=a-1", json!(["a-1"])),
        ("?key__startswith=a&ordering=key", json!(["a-1", "a.2", "a_3"])),
        ("?key__icontains=A", json!(["a.2", "a-1", "a_3"])),
        ("?key__iexact=B", json!(["b"])),
    ] {
        assert_eq!(json!(api.get(&format!("{ALL}{query}")).await.column("key")), keys, "{query}");
    }
    for (query, errors) in [
        ("?ordering=value", json!({"ordering": ["Select a valid choice. value is not one of the available choices."]})),
        ("?key__gt=a", json!({"key__gt": ["Select a valid choice. gt is not one of the available choices."]})),
    ] {
        api.get(&format!("{ALL}{query}")).await.refuses(errors);
    }
}

#[tokio::test]
async fn keys_have_their_rules() {
    let server = TestServer::start().await;
    let api = server.as_type("internal").await;
    let invalid = json!({"key": ["Enter a valid value."]});
    let long = "a".repeat(101);
    for key in ["A", "-a", ".a", "_a", "a%20", "a%2Fb", "a,b", "%C3%A4", "%00", "%ff", long.as_str(), &"a".repeat(3000)]
    {
        put_preference(&api, key, json!(1)).await.refuses(invalid.clone());
        api.get(&preference_path(key)).await.refuses(invalid.clone());
        api.delete(&preference_path(key)).await.refuses(invalid.clone());
    }
    for key in ["a", "0", "a.b_c-9", "a%2Eb", &long[..100]] {
        put_preference(&api, key, json!(1)).await.expect_created();
    }
    put_preference(&api, "a.b", json!(1)).await.ok();
}

#[tokio::test]
async fn values_are_any_json_within_their_bounds() {
    let server = TestServer::start().await;
    let api = server.as_type("internal").await;
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    for value in [json!(null), json!(false), json!(1.5), json!(""), json!([]), nested(32), text(65_536)] {
        assert_eq!(put_preference(&api, "a", value.clone()).await["value"], value);
        assert_eq!(api.get(&preference_path("a")).await.ok()["value"], value);
    }
    for value in [nested(33), text(65_537)] {
        put_preference(&api, "a", value).await.refuses(json!({"value": ["Value is too large."]}));
    }
    put_preference(&api, "a", json!(["a\0"])).await.refuses(json!({"value": ["Null characters are not allowed."]}));
    let send = |body: &'static str| api.call("PUT", &preference_path("a")).body("application/json", body).send();
    send("{\"value\": {\"a\": 1, \"a\": 2}}").await.refuses(json!({"value": ["Enter a valid value."]}));
    send("{}").await.refuses(json!({"value": ["This field is required."]}));
    let no_object = "Invalid data. Expected a dictionary, but got int.";
    send("1").await.refuses(json!({"non_field_errors": [no_object]}));
}

#[tokio::test]
async fn each_account_sees_its_own_alone_and_takes_them_along() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let (one_user, other) = (server.as_type("internal").await, server.as_type("service_external").await);
    put_preference(&one_user, "a", json!(1)).await.expect_created();
    for user in [&other, &admin] {
        user.get(ALL).await.expect_reply(200, page(json!([])));
        user.get(&preference_path("a")).await.expect_reply(404, message::not_found());
        user.delete(&preference_path("a")).await.expect_reply(404, message::not_found());
        put_preference(user, "a", json!(2)).await.expect_created();
    }
    assert_eq!(one_user.get(&preference_path("a")).await["value"], 1);
    server.anonymous().get(ALL).await.expect_reply(401, message::unauthenticated());
    let count = async || {
        let sql = store::Sql::new("SELECT count(*) FROM user_preferences");
        server.build.db.read::<_, store::StoreError>(move |conn| conn.query_one(&sql, |row| row.int(0))).await.unwrap()
    };
    assert_eq!(count().await, 3);
    admin.delete(&format!("/api/users/{}/", one_user.id)).await.expect_empty();
    assert_eq!(count().await, 2);
    let person = server.as_type("full").await;
    put_preference(&person, "a", json!("secret")).await.expect_created();
    admin.post(&format!("/api/users/{}/deactivate/", person.id), json!({})).await.ok();
    assert_eq!(count().await, 3);
    admin.post(&format!("/api/users/{}/anonymize/", person.id), json!({})).await.ok();
    assert_eq!(count().await, 2);
}

#[tokio::test]
async fn at_the_limit_one_of_many_is_made_and_each_may_be_replaced() {
    let server = TestServer::start().await;
    let api = server.as_type("internal").await;
    put_preference(&api, "a", json!(1)).await.expect_created();
    server.set_limit("user_preferences", 2).await;
    assert_eq!(api.options(ALL).await.ok()["restrictions"]["limit_items"], 2);
    let calls = (0..20).map(|n| api.call("PUT", &preference_path(&format!("k{n}"))).json(&json!({"value": n})));
    testkit::one_wins(&send_concurrently(calls).await, 201, &message::limit_exceeded("2 User Preferences"));
    put_preference(&api, "a", json!(2)).await.ok();
    // Preferences of other users do not count.
    put_preference(&server.admin().await, "b", json!(1)).await.expect_created();
    // Concurrent calls with the same key create one preference.
    server.set_limit("user_preferences", 3).await;
    let calls = (0..20).map(|n| api.call("PUT", &preference_path("same")).json(&json!({"value": n})));
    let statuses = testkit::statuses(&send_concurrently(calls).await);
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 201].contains(status)), "{statuses:?}");
}
