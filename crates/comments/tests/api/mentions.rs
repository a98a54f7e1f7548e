//! Mentions in comments (`docs/reference/comments.md`).

use crate::TestServer;
use crate::set_up::{COMMENTS, comment, grant, with_record};
use serde_json::{Value, json};
use testkit::ApiClient;

async fn mentioned(client: &ApiClient, id: i64) -> Vec<i64> {
    let shown = client.get(&format!("{COMMENTS}{id}/")).await.ok();
    shown["mentions"].as_array().unwrap().iter().map(|user| user["id"].as_i64().unwrap()).collect()
}

fn unknown(ids: &[i64]) -> Value {
    json!({"mentions": ids.iter().map(|id| format!("Invalid pk {id} - object does not exist.")).collect::<Vec<_>>()})
}

#[tokio::test]
async fn each_account_is_mentioned_once_in_the_order_of_the_text() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let [second, third] = [server.as_type("internal").await.id, server.as_type("external").await.id];
    let text = format!("@[{third}] please ask @[{second}], @[{third}] @[0{second}]");
    let id = comment(&api, json!({"text": text})).await;
    assert_eq!(mentioned(&api, id).await, [third, second]);
    api.patch(&format!("{COMMENTS}{id}/"), json!({"text": format!("@[{second}]")})).await.ok();
    assert_eq!(mentioned(&api, id).await, [second]);
}

#[tokio::test]
async fn only_known_accounts_are_mentioned() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let writer = server.as_type("external").await;
    let stranger = server.as_type("internal").await.id;
    let service = server.as_type("service_external").await.id;
    grant(&api, writer.id, json!(["view"])).await;
    api.post(COMMENTS, json!({"text": format!("@[99] @[{service}]")})).await.expect_reply(400, unknown(&[99, service]));
    // The caller may not list the stranger, but the writers of comments and itself.
    writer.post(COMMENTS, json!({"text": format!("@[{stranger}]")})).await.expect_reply(400, unknown(&[stranger]));
    comment(&api, json!({"text": "Hello"})).await;
    let id = comment(&writer, json!({"text": format!("@[{}] @[1]", writer.id)})).await;
    assert_eq!(mentioned(&writer, id).await, [writer.id, 1]);
    // Only staff are mentioned among staff.
    let internal = json!({"text": format!("@[{}]", writer.id), "is_internal": true});
    api.post(COMMENTS, internal).await.expect_reply(400, unknown(&[writer.id]));
    let many: String = (1..=21).map(|id| format!("@[{id}]")).collect();
    api.post(COMMENTS, json!({"text": many})).await.expect_reply(400, json!({"mentions": ["Up to 20 items allowed."]}));
}

#[tokio::test]
async fn callers_who_may_ask_see_whom_a_comment_reaches() {
    let server = TestServer::start().await;
    let api = with_record(&server).await;
    let reader = server.as_type("internal").await;
    let stranger = server.as_type("internal").await.id;
    grant(&api, reader.id, json!(["view"])).await;
    let text = format!("@[{}] @[{stranger}]", reader.id);
    let made = api.post(COMMENTS, json!({"text": text})).await.expect_created();
    assert_eq!(made["reaches"], json!([true, false]));
    let path = format!("{COMMENTS}{}/", made["id"]);
    assert_eq!(reader.get(&path).await.ok()["reaches"], json!(null));
    assert!(api.get(COMMENTS).await.ok()["results"][0].get("reaches").is_none());
}
