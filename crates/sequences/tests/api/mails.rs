//! Tests the step that sends mails.

use crate::TestServer;
use crate::set_up::{ended_runs, invoices, on, publish, published, record, sequence, steps};
use serde_json::{Value, json};
use testkit::message;

fn mail(to: Value, subject: &str, text: &str) -> Value {
    json!([{"key": "tell", "type": "send_mail", "to": to, "subject": {"text": subject}, "text": {"text": text}}])
}

#[tokio::test]
async fn accounts_get_mails_about_records_that_they_may_view() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let (owner, stranger) = (server.as_type("internal").await, server.as_type("internal").await);
    let to = json!([{"owner": true}, {"users": [owner.id, stranger.id]}]);
    let steps_of = mail(to, "{{ record.number }}", "{{ record.number }} costs {{ record.amount }}.");
    let id = published(&api, "Tell", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let body = json!({"fields": {"number": "A\tB", "amount": "12.5"}, "owner": owner.id});
    let set = json!({"name": "Owners", "permissions": {"object_records": ["view"]}});
    api.post(&format!("/api/object-classes/{class}/record-permission-sets/"), set).await.expect_created();
    api.post(&format!("/api/object-classes/{class}/object-records/"), body).await.expect_created();
    let run = ended_runs(&api, id, 1).await.remove(0);
    let step = steps(&api, &run).await.remove(0);
    assert_eq!(step["output"], json!({"sent": [owner.id], "left_out": [stranger.id]}), "{step:#}");
    let mail = server.mail_to(&owner.username).await;
    assert_eq!(mail.subject, "A B");
    assert!(mail.text.starts_with("A\tB costs 12.50.\n\n-- \nThe sequence \"Tell\" of "), "{}", mail.text);
}

#[tokio::test]
async fn texts_without_values_go_to_everybody_named() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let stranger = server.as_type("internal").await;
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([stranger.id])).await.expect_created();
    let steps_of = mail(json!([{"user_groups": [group]}]), "News", "There is something new.");
    let id = published(&api, "Tell", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    record(&api, class, json!({})).await;
    let run = ended_runs(&api, id, 1).await.remove(0);
    assert_eq!(steps(&api, &run).await[0]["output"], json!({"sent": [stranger.id], "left_out": []}));
    assert_eq!(server.mail_to(&stranger.username).await.subject, "News");
}

#[tokio::test]
async fn addresses_are_for_super_admins() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let email = json!({"label": "Email", "type": "email"});
    api.post(&format!("/api/object-classes/{class}/fields/"), email).await.expect_created();
    let rights = json!({"sequences": ["edit"], "object_classes": ["view"], "object_records": ["view", "edit"]});
    let publisher = server.with_role(rights).await;
    let to = json!([{"email_field": "email"}, {"address": "partner@b.example"}]);
    let steps_of = mail(to, "News", "{{ record.number }}");
    let id = sequence(&api, "Tell", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    publish(&publisher, id).await.expect_reply(403, message::forbidden());
    publish(&api, id).await.ok();
    record(&api, class, json!({"number": "A", "email": "customer@c.example"})).await;
    let run = ended_runs(&api, id, 1).await.remove(0);
    assert_eq!(run["status"], "completed", "{run:#}");
    for address in ["partner@b.example", "customer@c.example"] {
        assert!(server.mail_to(address).await.text.starts_with("A\n"));
    }
    let wrong = mail(json!([{"email_field": "number"}, {"address": "nobody"}]), "News", "News");
    let id = sequence(&api, "Wrong", json!({"trigger": on(class, &["created"]), "steps": wrong})).await;
    let expected = json!({"definition": {"steps": {"tell": {"to": {
        "0": {"email_field": ["Expected email, but got string."]}, "1": {"address": ["Enter a valid value."]},
    }}}}});
    publish(&api, id).await.expect_reply(400, expected);
}

#[tokio::test]
async fn mails_of_a_day_are_limited() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    server.set_limit("sequence_mails_per_day", 1).await;
    let steps_of = mail(json!([{"users": [api.id]}]), "News", "News");
    let id = published(&api, "Tell", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    record(&api, class, json!({})).await;
    ended_runs(&api, id, 1).await;
    record(&api, class, json!({})).await;
    let runs = ended_runs(&api, id, 2).await;
    assert_eq!(runs[0]["status"], "completed");
    let error = json!({"step": "tell", "status": 400, "body": message::detail("Limit of 1 mails has been exceeded.")});
    assert_eq!(runs[1]["error"], error);
}
