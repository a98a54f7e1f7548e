//! `/api/administration/sign-ins/` (`docs/reference/administration-log.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, user};
use serde_json::{Value, json};
use testkit::{ApiClient, FakeHistory, HistoryServer, MINUTE, PASSWORD, eventually};

const PATH: &str = "/api/administration/sign-ins/";

/// Returns the list when `count` events have arrived in the history.
async fn with_events(api: &ApiClient, count: usize) -> Vec<Value> {
    eventually(async || {
        let reply = api.get(PATH).await;
        let is_complete = reply.status == 200 && reply["total_count"] == count;
        if is_complete { Ok(reply["results"].as_array().unwrap().clone()) } else { Err(reply) }
    })
    .await
}

#[tokio::test]
async fn sign_ins_are_listed_newest_first_with_their_users_and_reasons() {
    let history = HistoryServer::start().await;
    let service = FakeHistory::service_at(history.address.port());
    let server = TestServer::start_with(|settings| settings.events.history = service).await;
    let api = server.admin().await;
    with_events(&api, 1).await;
    server.advance(MINUTE);
    let ann = server.as_type("internal").await;
    with_events(&api, 2).await;
    server.advance(MINUTE);
    server.anonymous().login("nobody@example.com", PASSWORD).await.expect(401);

    let list = with_events(&api, 3).await;

    let shown: Vec<Value> = list
        .iter()
        .map(|event| json!([event["at"], event["event_type"], event["user"], event["ip"], event["reason"]]))
        .collect();
    assert_eq!(
        shown,
        [
            json!(["2026-01-31T09:32:00.000000Z", "login_failed", null, "127.0.0.1", "unknown_account"]),
            json!(["2026-01-31T09:31:00.000000Z", "login_success", user(&ann, "internal"), "127.0.0.1", "password"]),
            json!([START, "login_success", admin(), "127.0.0.1", "password"]),
        ]
    );
    let names: Vec<&String> = list[0].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "at", "event_type", "user", "ip", "reason"]);
    for (query, count) in [
        (format!("user={}", ann.id), 1),
        (format!("user__in=1,{}", ann.id), 2),
        ("user=999".to_owned(), 0),
        // An event without an account is not about a user 0.
        ("user=0".to_owned(), 0),
        ("event_type=login_failed".to_owned(), 1),
        ("event_type__in=login_failed,login_success".to_owned(), 3),
        (format!("at={START}"), 1),
        (format!("at__gt={START}"), 2),
        ("at__range=2026-01-31T09:30:30Z,2026-01-31T09:31:30Z".to_owned(), 1),
        ("event_type=login_success&user=1".to_owned(), 1),
    ] {
        let reply = api.get(&format!("{PATH}?{query}")).await.ok();
        let counts = [&reply["total_count"], &reply["filtered_count"]];
        assert_eq!(counts, [&json!(3), &json!(count)], "{query}");
    }
    let page = api.get(&format!("{PATH}?limit=1&offset=1&event_type=login_success")).await.ok();
    assert_eq!(
        [&page["next"], &page["previous"], &page["results"][0]["user"]],
        [&Value::Null, &json!(format!("http://a.example{PATH}?limit=1&event_type=login_success")), &admin()]
    );
}

#[tokio::test]
async fn without_the_service_sign_ins_are_unavailable_to_those_who_may_see_them() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let unavailable = json!({"detail": "History is unavailable."});
    api.get(PATH).await.expect_reply(503, unavailable.clone());
    server.with_role(json!({"administration_log": ["list"]})).await.get(PATH).await.expect_reply(503, unavailable);
    server.as_type("internal").await.get(PATH).await.expect_reply(403, message::forbidden());
    api.get(&format!("{PATH}?limit=0&event_type=x&user=y&at__exclude=now")).await.refuses(json!({
        "limit": ["Ensure this value is greater than or equal to 1."],
        "event_type": ["Select a valid choice. x is not one of the available choices."],
        "user": ["A valid integer is required."],
        "at__exclude": ["Select a valid choice. exclude is not one of the available choices."],
    }));
}
