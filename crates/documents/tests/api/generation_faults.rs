//! The outcome of runs if rights end, processes die, or documents cannot be generated.

use crate::TestServer;
use crate::set_up::{GENERATE, TEMPLATES, docx, file, number, record, template, wait_for, wait_for_run, with_classes};
use kit::jobs;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::message;

#[tokio::test]
async fn rights_are_asked_for_again_when_a_run_ends() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let mut runs = Vec::new();
    for (account, ends) in [("internal", "owner"), ("internal", "account"), ("internal", "field"), ("full", "none")] {
        let owner = server.as_type(account).await;
        let body = json!({"fields": {"number": ends}, "owner": owner.id});
        let invoice = api.post("/api/object-classes/1/object-records/", body).await.id();
        runs.push((owner, invoice, ends));
    }
    jobs::stop(&server.app);
    for (owner, invoice, _) in &runs {
        let body = json!({"object_record": invoice, "document_template": id, "object_record_field": "papers"});
        owner.post(GENERATE, body).await.expect_created();
    }
    for (owner, invoice, ends) in &runs {
        let path = format!("/api/object-records/{invoice}/");
        match *ends {
            "owner" => drop(api.patch(&path, json!({"owner": null})).await.ok()),
            "account" => drop(api.patch(&format!("/api/users/{}/", owner.id), json!({"status": "deactivated"})).await),
            _ => {}
        }
    }
    let sets = "/api/object-classes/1/record-permission-sets/";
    let set = api.post(sets, json!({"name": "Viewers", "permissions": {"object_records": ["view"]}})).await.id();
    let (owner, invoice, _) = &runs[2];
    let path = format!("/api/object-records/{invoice}/");
    api.post(&format!("{path}permission-sets/{set}/assignees/"), json!([owner.id])).await.expect_created();
    api.patch(&path, json!({"owner": null})).await.ok();
    jobs::start(&server.app);
    for (_, invoice, ends) in &runs {
        let run = wait_for_run(&api, *invoice, id).await;
        let papers = api.get(&format!("/api/object-records/{invoice}/")).await["fields"]["papers"].clone();
        let (status, message) = match *ends {
            "owner" => ("failed", "The record no longer exists, or you do not have permission to view it."),
            "field" => ("field_not_updated", "You do not have permission to edit the record."),
            "none" => ("field_updated", ""),
            _ => continue,
        };
        assert_eq!((&run["status"], &run["error_message"]), (&json!(status), &json!(message)), "{ends}");
        assert_eq!(papers == Value::Null, *ends != "none", "{ends}");
    }
}

#[tokio::test]
async fn a_field_or_a_template_may_go_while_a_run_waits() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let (first, second) =
        (record(&api, 1, json!({"number": "1"})).await, record(&api, 1, json!({"number": "2"})).await);
    let (remaining_template, deleted_template) =
        (template(&api, "Kept", &["{{ number }}"]).await, template(&api, "Gone", &["x"]).await);
    jobs::stop(&server.app);
    let body =
        json!({"object_record": first, "document_template": remaining_template, "object_record_field": "papers"});
    api.post(GENERATE, body).await.expect_created();
    api.post(GENERATE, json!({"object_record": second, "document_template": deleted_template})).await.expect_created();
    api.delete("/api/object-classes/1/fields/4/").await.expect_empty();
    api.delete(&format!("{TEMPLATES}{deleted_template}/")).await.expect_empty();
    jobs::start(&server.app);
    let run = wait_for_run(&api, first, remaining_template).await;
    assert_eq!(
        (&run["status"], &run["error_message"]),
        (&json!("field_not_updated"), &json!("The field no longer exists."))
    );
    assert_eq!(file(&api, &run).await, ["1"]);
    wait_for(&server, "SELECT count(*) FROM document_runs", 1).await;
    wait_for(&server, "SELECT count(*) FROM files", 2).await;
    wait_for(&server, "SELECT count(*) FROM jobs", 0).await;
}

#[tokio::test]
async fn a_run_of_a_killed_process_is_taken_up_and_ends_once() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    jobs::stop(&server.app);
    let body = json!({"object_record": invoice, "document_template": id, "object_record_field": "papers"});
    api.post(GENERATE, body).await.expect_created();
    // The process with the job died after it had written the file.
    let killed = |conn: &mut Conn| {
        conn.exec(&Sql::new("UPDATE jobs SET held_until = 1, holder = 'gone' WHERE kind = 'documents'"))?;
        let sql = "INSERT INTO files(uuid, name, size, kept_until, created_at) VALUES ('0b0e3c1a-0000-4000-8000-000000000000', 'x', 1, 1, 1)";
        conn.exec(&Sql::new(sql))
    };
    server.build.db.write::<_, StoreError>(killed).await.unwrap();
    jobs::start(&server.app);
    assert_eq!(wait_for_run(&api, invoice, id).await["status"], "field_updated");
    let papers = api.get(&format!("/api/object-records/{invoice}/")).await["fields"]["papers"].clone();
    assert_eq!(papers.as_array().map(Vec::len), Some(1));
    wait_for(&server, "SELECT count(*) FROM files", 2).await;
}

#[tokio::test]
async fn a_document_of_too_many_children_fails() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{#line}}{{ text }}{{/line}}"]).await;
    for n in 0..6 {
        let count = if n < 5 { 1000 } else { 1 };
        let items: Vec<Value> = (0..count).map(|_| json!({"fields": {"text": "x", "invoice": invoice}})).collect();
        api.post("/api/object-classes/3/object-records/batch/", json!({"items": items})).await.expect_created();
    }
    let body = json!({"object_record": invoice, "document_template": id});
    api.post(GENERATE, body.clone()).await.expect_created();
    let run = wait_for_run(&api, invoice, id).await;
    assert_eq!(
        (&run["status"], &run["error_message"]),
        (&json!("failed"), &json!("The document has too many repetitions."))
    );
    let last = number(&server, "SELECT max(id) FROM records").await;
    api.delete(&format!("/api/object-records/{last}/")).await.expect_empty();
    api.post(GENERATE, body).await.expect_created();
    let run = wait_for_run(&api, invoice, id).await;
    assert_eq!(file(&api, &run).await, ["x".repeat(5000)]);
}

#[tokio::test]
async fn a_template_that_was_broken_shows_nothing_for_what_is_gone() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1", "amount": "2"})).await;
    let id = template(&api, "Invoice", &["[{{ number }}] {{ amount }}"]).await;
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    api.post(GENERATE, json!({"object_record": invoice, "document_template": id})).await.expect_created();
    let run = wait_for_run(&api, invoice, id).await;
    assert_eq!(file(&api, &run).await, ["[] 2.00"]);
}

#[tokio::test]
async fn hostile_templates_are_refused_and_others_served() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let mut bomb = docx(["x"]);
    let half = bomb.len() / 2;
    bomb.truncate(half);
    let unreadable = json!({"error": ["Error while parsing document. Please check the syntax."]});
    for bytes in [bomb, vec![0; 1_000_000], b"PK\x03\x04".to_vec()] {
        let token = api.upload("a.docx", bytes).await;
        api.post(TEMPLATES, json!({"name": "A", "template_file": token})).await.refuses(unreadable.clone());
    }
    api.get(&format!("{TEMPLATES}1/")).await.expect_reply(404, message::not_found());
}
