//! Documents of records: `/api/object-records/documents/` and `/api/object-records/{id}/documents/`.

use crate::TestServer;
use crate::set_up::{
    GENERATE, RECORDS, TEMPLATES, address, file, generated, number, record, template, wait_for, wait_for_run,
    with_classes,
};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::shown::{START, page, user};
use testkit::{ApiClient, HOUR, SECOND, message, one_wins, quiet_period, send_concurrently};

fn body(record: i64, template: i64) -> Value {
    json!({"object_record": record, "document_template": template})
}

#[tokio::test]
async fn a_document_shows_the_record_its_parent_and_its_children() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let customer = record(&api, 2, json!({"name": "Müller & Söhne <GmbH>", "city": "Köln"})).await;
    let fields = json!({"number": "R-1", "amount": "1234.5", "customer": customer, "paid": true});
    let invoice = record(&api, 1, fields).await;
    for (text, price) in [("Screws\n10 mm", "2.50"), ("Nails", "-3")] {
        record(&api, 3, json!({"text": text, "price": price, "invoice": invoice})).await;
    }
    record(&api, 3, json!({"text": "Of no invoice"})).await;
    let template = template(
        &api,
        "Invoice",
        &[
            "{{ number }} of {{ today }} for {{ customer.name }}, {{ customer.city | upper }} ({{ customer }})",
            "{{#line}}",
            "{{ text }}: {{ price | number \"#,##0.00\" }} of {{ number }}",
            "{{/line}}",
            "{{?paid}}Paid: {{ amount | number \"#,##0.00\" }}{{/paid}}{{ papers | default \"no papers\" }} {{ owner.full_name }}",
        ],
    )
    .await;
    let started = api.post(GENERATE, body(invoice, template)).await;
    started.expect_reply(
        201,
        json!({
            "object_record": invoice, "document_template": template, "object_record_field": null, "status": "processing",
            "_meta": {"labels": {"object_record": "R-1", "document_template": "Invoice"}},
        }),
    );
    let run = wait_for_run(&api, invoice, template).await;
    let file_id = run["document"].clone();
    let url = &run["_meta"]["labels"]["document"]["url"];
    let shown = json!({
        "id": 1, "status": "completed", "error_message": "", "document": file_id, "generated_at": START,
        "generated_by": user(&api, "super_admin"),
        "_meta": {"labels": {"document": {
            "name": "Invoice.docx", "url": url, "size": run["_meta"]["labels"]["document"]["size"],
            "type": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        }}},
    });
    assert_eq!(run, shown);
    let item = json!({
        "id": template, "name": "Invoice", "allow_on_demand_generation": true, "generated_document": shown,
    });
    api.get(&format!("/api/object-records/{invoice}/documents/")).await.expect_reply(200, page(json!([item])));
    api.get(&format!("/api/object-records/{invoice}/documents/{template}/")).await.expect_reply(200, item);

    assert_eq!(
        file(&api, &run).await,
        [
            "R-1 of 2026-01-31 for Müller & Söhne <GmbH>, KÖLN (Müller & Söhne <GmbH>)".to_owned(),
            "Screws10 mm: 2.50 of R-1".to_owned(),
            "Nails: -3.00 of R-1".to_owned(),
            "Paid: 1,234.50no papers admin Super Admin".to_owned(),
        ]
    );
    let reply = api.get(&address(&run)).await;
    assert_eq!(reply.header("content-type"), "application/force-download");
    assert_eq!(reply.header("content-disposition"), "attachment; filename*=UTF-8''Invoice.docx");
}

#[tokio::test]
async fn a_finished_run_takes_the_place_of_the_one_before() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    assert_eq!(
        api.get(&format!("/api/object-records/{invoice}/documents/{id}/")).await["generated_document"],
        Value::Null
    );
    let first = generated(&api, invoice, id, None).await;
    api.patch(&format!("/api/object-records/{invoice}/"), json!({"fields": {"number": "R-2"}})).await.ok();
    let second = generated(&api, invoice, id, None).await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(file(&api, &second).await, ["R-2"]);
    api.get(&address(&first)).await.expect_reply(404, message::not_found());
    // The remaining files are the template's and the second document.
    wait_for(&server, "SELECT count(*) FROM files", 2).await;
    assert_eq!(number(&server, "SELECT count(*) FROM document_runs").await, 1);
}

#[tokio::test]
async fn a_document_is_put_into_a_field() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let path = format!("/api/object-records/{invoice}/");
    let fields = format!("{path}document-fields/");
    let field = json!({"alias": "papers", "label": "Papers", "max_num_of_files": 2, "is_available": true});
    api.get(&fields).await.expect_reply(200, page(json!([field])));
    let first = generated(&api, invoice, id, Some("papers")).await;
    assert_eq!((&first["status"], &first["error_message"]), (&json!("field_updated"), &json!("")));
    let shown = api.get(&path).await.ok();
    assert_eq!(shown["fields"]["papers"], json!([first["document"]]));
    let label = &shown["_meta"]["labels"]["files"][first["document"].to_string()];
    assert_eq!(label["name"], "Invoice.docx");
    let second = generated(&api, invoice, id, Some("papers")).await;
    assert_eq!(api.get(&path).await["fields"]["papers"], json!([first["document"], second["document"]]));
    assert_eq!(api.get(&fields).await["results"][0]["is_available"], false);
    // The file of the first run remains in the field of the record.
    api.get(&address(&first)).await.expect_reply(404, message::not_found());
    let url = label["url"].as_str().unwrap().strip_prefix("https://a.example").unwrap().to_owned();
    assert_eq!(api.get(&url).await.status, 200);
    // The end of the run reports a full field.
    let third = generated(&api, invoice, id, Some("papers")).await;
    assert_eq!(
        (&third["status"], &third["error_message"]),
        (&json!("field_not_updated"), &json!("The field is full."))
    );
    assert_eq!(file(&api, &third).await, ["R-1"]);
    // The deletion of the template removes its runs. The record retains its files.
    api.delete(&format!("{TEMPLATES}{id}/")).await.expect_empty();
    wait_for(&server, "SELECT count(*) FROM document_runs", 0).await;
    wait_for(&server, "SELECT count(*) FROM files", 2).await;
    assert_eq!(api.get(&url).await.status, 200);
}

#[tokio::test]
async fn requests_must_be_right() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({})).await;
    let customer = record(&api, 2, json!({})).await;
    let id = template(&api, "Invoice", &["x"]).await;
    let required =
        json!({"object_record": ["This field is required."], "document_template": ["This field is required."]});
    for (request_body, errors) in [
        (json!({}), required),
        (
            json!({"object_record": null, "document_template": null}),
            json!({"object_record": ["This field may not be null."], "document_template": ["This field may not be null."]}),
        ),
        (
            json!({"object_record": "x", "document_template": 1.5}),
            json!({
                "object_record": ["Incorrect type. Expected pk value, received str."],
                "document_template": ["Incorrect type. Expected pk value, received float."],
            }),
        ),
        (
            body(99, 98),
            json!({
                "object_record": ["Invalid pk 99 - object does not exist."],
                "document_template": ["Invalid pk 98 - object does not exist."],
            }),
        ),
        (
            body(customer, id),
            json!({"non_field_errors": ["Record and document template must belong to the same object class."]}),
        ),
        (
            json!({"object_record": invoice, "document_template": id, "object_record_field": "nothing"}),
            json!({"object_record_field": ["Invalid name nothing - field does not exist."]}),
        ),
        (
            json!({"object_record": invoice, "document_template": id, "object_record_field": "number"}),
            json!({"object_record_field": ["Invalid type - field number is not Document type."]}),
        ),
    ] {
        api.post(GENERATE, request_body).await.refuses(errors);
    }
    api.patch(&format!("{TEMPLATES}{id}/"), json!({"allow_on_demand_generation": false})).await.ok();
    let text = format!("Invalid pk {id} - You do not have permission for this Document.");
    api.post(GENERATE, body(invoice, id)).await.refuses(json!({"document_template": [text]}));
    for path in [
        "/api/object-records/99/documents/",
        "/api/object-records/1/documents/99/",
        "/api/object-records/99/document-fields/",
    ] {
        api.get(path).await.expect_reply(404, message::not_found());
    }
    server.anonymous().get("/api/object-records/1/documents/1/").await.expect_reply(401, message::unauthenticated());
    let path = format!("/api/object-records/{invoice}/documents/{id}/cancel/");
    api.post(&path, json!({})).await.expect_reply(404, message::not_found());
    api.post(&format!("/api/object-records/{invoice}/documents/99/cancel/"), json!({}))
        .await
        .expect_reply(404, message::not_found());
}

#[tokio::test]
async fn of_many_requests_for_one_document_one_runs() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    kit::jobs::stop(&server.app);
    let refused = message::detail("Your request is already processing.");
    one_wins(
        &send_concurrently((0..12).map(|_| api.call("POST", GENERATE).json(&body(invoice, id)))).await,
        201,
        &refused,
    );
    let path = format!("/api/object-records/{invoice}/documents/{id}/");
    assert_eq!(api.get(&path).await["generated_document"]["status"], "processing");
    assert_eq!(api.get(&path).await["generated_document"]["document"], Value::Null);
    kit::jobs::start(&server.app);
    assert_eq!(wait_for_run(&api, invoice, id).await["status"], "completed");
}

#[tokio::test]
async fn an_account_begins_sixty_runs_an_hour_for_a_record() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let (invoice, other) = (record(&api, 1, json!({"number": "R-1"})).await, record(&api, 1, json!({})).await);
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let second = template(&api, "Letter", &["{{ number }}"]).await;
    kit::jobs::stop(&server.app);
    let begin = async |api: &ApiClient, template: i64| {
        let reply = api.post(GENERATE, body(invoice, template)).await;
        if reply.status == 201 {
            let cancel = format!("/api/object-records/{invoice}/documents/{template}/cancel/");
            api.post(&cancel, json!({})).await.expect_created();
        }
        reply
    };
    for _ in 0..30 {
        begin(&api, id).await.expect_created();
        server.advance(SECOND);
        begin(&api, second).await.expect_created();
        // A refused request does not create a run.
        api.post(GENERATE, body(99, second)).await.expect(400);
    }
    let refused = begin(&api, id).await;
    refused.expect_reply(429, message::detail("Too many requests."));
    assert_eq!(refused.header("retry-after"), (3600 - 30).to_string());
    assert_eq!(refused.header("ratelimit-policy"), r#""document-runs";q=60;w=3600"#);
    assert_eq!(refused.header("ratelimit"), r#""document-runs";r=0;t=3570"#);
    // Other records and other accounts have counters of their own.
    let counted = api.post(GENERATE, body(other, id)).await;
    assert_eq!((counted.status, counted.header("ratelimit")), (201, r#""document-runs";r=59;t=3600"#));
    server.as_type("super_admin").await.post(GENERATE, body(invoice, id)).await.expect_created();
    let cancel = format!("/api/object-records/{invoice}/documents/{id}/cancel/");
    api.post(&cancel, json!({})).await.expect_created();
    // The first request is an hour old.
    server.advance(HOUR - 30 * SECOND);
    let api = server.admin().await;
    begin(&api, id).await.expect_created();
    begin(&api, second).await.expect_reply(429, message::detail("Too many requests."));
}

#[tokio::test]
async fn of_many_requests_at_once_sixty_begin() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let mut bodies = Vec::new();
    for n in 0..66 {
        bodies.push(body(invoice, template(&api, &format!("T{n}"), &["x"]).await));
    }
    kit::jobs::stop(&server.app);
    let replies = send_concurrently(bodies.iter().map(|body| api.call("POST", GENERATE).json(body))).await;
    let with = |status| replies.iter().filter(|reply| reply.status == status).count();
    assert_eq!((with(201), with(429)), (60, 6));
}

#[tokio::test]
async fn a_run_is_canceled_for_good() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    kit::jobs::stop(&server.app);
    api.post(GENERATE, body(invoice, id)).await.expect_created();
    let path = format!("/api/object-records/{invoice}/documents/{id}/");
    let cancel = format!("{path}cancel/");
    api.post(&cancel, json!({})).await.expect_reply(
        201,
        json!({
            "object_record": invoice, "document_template": id, "object_record_field": null, "status": "cancelled",
            "_meta": {"labels": {"object_record": "R-1", "document_template": "Invoice"}},
        }),
    );
    assert_eq!(api.get(&path).await["generated_document"]["status"], "canceled");
    let over = message::detail("Document has already been processed.");
    let no_object = json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got list."]});
    api.post(&cancel, json!([])).await.refuses(no_object);
    api.post(&cancel, json!({})).await.refuses(over.clone());
    kit::jobs::start(&server.app);
    quiet_period().await;
    assert_eq!(api.get(&path).await["generated_document"]["status"], "canceled");
    // Another document can be requested.
    assert_eq!(generated(&api, invoice, id, None).await["status"], "completed");
    api.post(&cancel, json!({})).await.refuses(over);
}

/// Returns a client whose account may view only these records, by a permission set.
async fn viewer_of(server: &TestServer, api: &ApiClient, records: &[i64], classes: &[i64]) -> ApiClient {
    let viewer = server.as_type("internal").await;
    for class in classes {
        let sets = format!("/api/object-classes/{class}/record-permission-sets/");
        let name = format!("Viewers of {}", viewer.id);
        let set = api.post(&sets, json!({"name": name, "permissions": {"object_records": ["view"]}})).await.id();
        for record in records {
            let path = format!("/api/object-records/{record}/permission-sets/{set}/assignees/");
            let of_class = api.get(&format!("/api/object-records/{record}/")).await["object_class"].clone();
            if of_class == json!(class) {
                api.post(&path, json!([viewer.id])).await.expect_created();
            }
        }
    }
    viewer
}

#[tokio::test]
async fn a_document_requires_view_on_its_classes_and_records() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let (visible, hidden) =
        (record(&api, 2, json!({"city": "Köln"})).await, record(&api, 2, json!({"city": "Bonn"})).await);
    let invoice = record(&api, 1, json!({"number": "R-1", "customer": visible})).await;
    let second = record(&api, 1, json!({"number": "R-2", "customer": hidden})).await;
    let third = record(&api, 1, json!({"number": "R-3"})).await;
    let (first_line, second_line) = (
        record(&api, 3, json!({"text": "seen", "invoice": invoice})).await,
        record(&api, 3, json!({"text": "hidden", "invoice": invoice})).await,
    );
    let city = template(&api, "City", &["{{ customer.city }}"]).await;
    let lines = template(&api, "Lines", &["{{#line}}{{ text }};{{/line}}"]).await;
    let plain = template(&api, "Plain", &["{{ number }}"]).await;
    let stranger = viewer_of(&server, &api, &[invoice], &[1]).await;
    let viewer = viewer_of(&server, &api, &[invoice, second, visible, first_line], &[1, 2, 3]).await;

    let refused = |name: &str, text: String| json!({name: [text]});
    let no_document = |id: i64| format!("Invalid pk {id} - You do not have permission for this Document.");
    stranger.post(GENERATE, body(invoice, city)).await.refuses(refused("document_template", no_document(city)));
    let no_record = format!("Invalid pk {third} - You do not have permission for this Record.");
    stranger.post(GENERATE, body(third, plain)).await.refuses(refused("object_record", no_record));
    assert_eq!(
        stranger.get(&format!("/api/object-records/{invoice}/documents/")).await.column("name"),
        [json!("Plain")]
    );
    let field = json!({"object_record": invoice, "document_template": plain, "object_record_field": "papers"});
    let no_field = "Invalid name papers - You do not have permission for this field.".to_owned();
    stranger.post(GENERATE, field).await.refuses(refused("object_record_field", no_field));
    assert_eq!(
        stranger.get(&format!("/api/object-records/{invoice}/document-fields/")).await["results"][0]["is_available"],
        false
    );

    // Children that the requester may not view are omitted. A parent that they may not view makes the run fail.
    let run = generated(&viewer, invoice, lines, None).await;
    assert_eq!(file(&viewer, &run).await, ["seen;"]);
    let run = generated(&viewer, invoice, city, None).await;
    assert_eq!(file(&viewer, &run).await, ["Köln"]);
    let failed = generated(&viewer, second, city, None).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error_message"], "You do not have permission for a related record.");
    assert_eq!(failed["document"], Value::Null);

    // The file shows the data that its requester may view. Other callers need the right to view the same records.
    let all = generated(&api, invoice, lines, None).await;
    assert_eq!(file(&api, &all).await, ["seen;hidden;"]);
    viewer.get(&address(&all)).await.expect_reply(403, message::forbidden());
    stranger.get(&address(&all)).await.expect_reply(403, message::forbidden());
    let cancel = format!("/api/object-records/{invoice}/documents/{lines}/cancel/");
    stranger.post(&cancel, json!({})).await.expect_reply(403, message::forbidden());
    api.delete(&format!("/api/object-records/{second_line}/")).await.expect_empty();
    let without = generated(&api, invoice, lines, None).await;
    assert_eq!(viewer.get(&address(&without)).await.status, 200);
    let nobody = server.as_type("internal").await;
    nobody.get(&address(&without)).await.expect_reply(404, message::not_found());
    // A caller who may view all records of a class may view its deleted records too.
    api.delete(&format!("/api/object-records/{first_line}/")).await.expect_empty();
    viewer.get(&address(&without)).await.expect_reply(403, message::forbidden());
    assert_eq!(server.as_type("super_admin").await.get(&address(&without)).await.status, 200);
    api.get(&address(&without).replace(&format!("/documents/{lines}/"), &format!("/documents/{city}/")))
        .await
        .expect_reply(404, message::not_found());
}

/// Creates the classes 5 `Part` (name, line) below the lines of [`with_classes`], and 6 `Maker` (name, part) below the parts.
async fn with_parts(api: &ApiClient) {
    for (class, above) in [(5, 3), (6, 5)] {
        let (name, relation) = [("Part", "Line"), ("Maker", "Part")][class - 5];
        api.post("/api/object-classes/", json!({"name": name})).await.expect_created();
        let fields = format!("/api/object-classes/{class}/fields/");
        api.post(&fields, json!({"label": "Name", "type": "string"})).await.expect_created();
        let relation = json!({"label": relation, "type": "relation", "related_object_class": above});
        api.post(&fields, relation).await.expect_created();
    }
}

const PARTS: &str = "{{#line}}{{ @number }} {{ text }} of {{ number }}{{#part}}, {{ name }}{{#maker}} by {{ name }} ({{ text }})\
                     {{/maker}}{{/part}}; {{/line}}{{^amount}}no amount{{/amount}}";

#[tokio::test]
async fn loops_stand_in_loops() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    with_parts(&api).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let second = record(&api, 1, json!({"number": "R-2"})).await;
    let mut lines = Vec::new();
    for (text, invoice) in [("Lamp", invoice), ("Desk", invoice), ("Chair", second)] {
        lines.push(record(&api, 3, json!({"text": text, "invoice": invoice})).await);
    }
    let mut parts = Vec::new();
    for (name, line) in [("bulb", lines[0]), ("leg", lines[1]), ("shade", lines[0]), ("seat", lines[2])] {
        parts.push(record(&api, 5, json!({"name": name, "line": line})).await);
    }
    let maker = record(&api, 6, json!({"name": "Lux", "part": parts[0]})).await;
    let id = template(&api, "Parts", &[PARTS]).await;
    let run = generated(&api, invoice, id, None).await;
    let all = "1 Lamp of R-1, bulb by Lux (Lamp), shade; 2 Desk of R-1, leg; no amount";
    assert_eq!(file(&api, &run).await, [all]);

    // Children that the requester may not view are omitted, together with their own children.
    let visible_records = [invoice, lines[0], lines[1], parts[1], parts[2], maker];
    let viewer = viewer_of(&server, &api, &visible_records, &[1, 3, 5, 6]).await;
    let own = generated(&viewer, invoice, id, None).await;
    assert_eq!(file(&viewer, &own).await, ["1 Lamp of R-1, shade; 2 Desk of R-1, leg; no amount"]);
    // A document with more records is not available to them.
    let all = generated(&api, invoice, id, None).await;
    viewer.get(&address(&all)).await.expect_reply(403, message::forbidden());
    // The template names the classes of inner loops.
    let stranger = viewer_of(&server, &api, &visible_records, &[1, 3]).await;
    let text = format!("Invalid pk {id} - You do not have permission for this Document.");
    stranger.post(GENERATE, body(invoice, id)).await.refuses(json!({"document_template": [text]}));
    // The repetitions of all loops count together.
    for _ in 0..5 {
        let items: Vec<Value> = (0..1000).map(|_| json!({"fields": {"line": lines[0]}})).collect();
        api.post("/api/object-classes/5/object-records/batch/", json!({"items": items})).await.expect_created();
    }
    let failed = generated(&api, invoice, id, None).await;
    assert_eq!(
        (&failed["status"], &failed["error_message"]),
        (&json!("failed"), &json!("The document has too many repetitions."))
    );
}

#[tokio::test]
async fn a_document_shows_what_each_record_has() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let customer = record(&api, 2, json!({"name": "Ada"})).await;
    let invoice = record(&api, 1, json!({"number": "R-1", "customer": customer, "amount": "1234.5"})).await;
    server.advance(15 * HOUR);
    let api = server.admin().await;
    let line = record(&api, 3, json!({"text": "Lamp", "invoice": invoice})).await;
    let id = template(
        &api,
        "Own",
        &[
            "{{ id }} {{ created_at }} {{ modified_at | date \"d MMMM yyyy HH:mm\" \"Europe/Berlin\" \"de\" }} {{ customer.id }}",
            "{{#line}}{{ id }} {{ created_at | date 'dd.MM.yyyy HH:mm' 'Europe/Berlin' }}{{/line}}",
            "{{ today }} {{ today | date \"d MMMM\" \"Europe/Berlin\" \"pl\" }} {{ amount | number '#.##0,00' }} {{ paid | default ‘n/a’ }}",
        ],
    )
    .await;
    let run = generated(&api, invoice, id, None).await;
    assert_eq!(
        file(&api, &run).await,
        [
            format!("{invoice} 2026-01-31T09:30:00.000000Z 31 Januar 2026 10:30 {customer}"),
            format!("{line} 01.02.2026 01:30"),
            "2026-02-01 1 lutego 1.234,50 n/a".to_owned(),
        ]
    );
}

#[tokio::test]
async fn runs_go_with_their_record_and_their_class() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let run = generated(&api, invoice, id, None).await;
    api.delete(&format!("/api/object-records/{invoice}/")).await.expect_empty();
    api.get(&address(&run)).await.expect_reply(404, message::not_found());
    api.post(&format!("/api/object-records/{invoice}/restore/"), json!({})).await.expect_created();
    assert_eq!(file(&api, &run).await, ["R-1"]);
    api.delete(&format!("/api/object-records/{invoice}/")).await.expect_empty();
    api.delete(&format!("{RECORDS}deleted/{invoice}/")).await.expect_empty();
    wait_for(&server, "SELECT count(*) FROM document_runs", 0).await;
    wait_for(&server, "SELECT count(*) FROM files", 1).await;
}

const FILES: &str = "SELECT count(*) FROM files";
const COUNTED: &str = "SELECT n FROM counters WHERE name = 'storage_bytes'";

/// Limits the build to one gigabyte, with this number of bytes available.
async fn leave_room(server: &TestServer, bytes: i64) {
    server.set_limit("storage_gigabytes", 1).await;
    let fill = move |conn: &mut Conn| {
        let sql = Sql::new("UPDATE counters SET n = $1 WHERE name = 'storage_bytes'").arg((1 << 30) - bytes);
        conn.exec(&sql)
    };
    server.build.db.write::<_, StoreError>(fill).await.unwrap();
}

#[tokio::test]
async fn a_full_storage_refuses_a_request_and_ends_a_run() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let body = json!({"object_record": invoice, "document_template": id});
    let full = "Limit of 1 GB of storage has been exceeded.";
    leave_room(&server, 0).await;
    api.post(GENERATE, body.clone()).await.refuses(json!({"detail": full, "error_code": "ERR_LIMIT_EXCEEDED"}));
    leave_room(&server, 1).await;
    let run = generated(&api, invoice, id, None).await;
    assert_eq!((&run["status"], &run["error_message"]), (&json!("failed"), &json!(full)));
    assert_eq!((number(&server, COUNTED).await, number(&server, FILES).await), ((1 << 30) - 1, 1));
    leave_room(&server, 1 << 20).await;
    assert_eq!(generated(&api, invoice, id, None).await["status"], "completed");
}

#[tokio::test]
async fn an_equal_document_takes_no_more_room() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let first = generated(&api, invoice, id, None).await;
    // The remaining storage is too small for another file.
    leave_room(&server, 1).await;
    for (field, status) in [(None, "completed"), (Some("papers"), "field_updated")] {
        let again = generated(&api, invoice, id, field).await;
        assert_eq!((&again["status"], &again["document"]), (&json!(status), &first["document"]), "{again:#}");
        assert_ne!(again["id"], first["id"]);
        assert_eq!(file(&api, &again).await, ["R-1"]);
    }
    assert_eq!(number(&server, COUNTED).await, (1 << 30) - 1);
    // A file in a field of the record belongs to the record, so the next document needs a file of its own.
    assert_eq!(generated(&api, invoice, id, None).await["status"], "failed");
    leave_room(&server, 1 << 20).await;
    let other = generated(&api, invoice, id, None).await;
    assert_ne!(other["document"], first["document"]);
    assert_eq!(generated(&api, invoice, id, None).await["document"], other["document"]);
    let record = api.get(&format!("/api/object-records/{invoice}/")).await.ok();
    assert_eq!(record["fields"]["papers"], json!([first["document"]]));
    // A document with other content needs a file of its own too.
    api.patch(&format!("/api/object-records/{invoice}/"), json!({"fields": {"number": "R-2"}})).await.ok();
    let changed = generated(&api, invoice, id, None).await;
    assert_ne!(changed["document"], other["document"]);
    assert_eq!(file(&api, &changed).await, ["R-2"]);
    wait_for(&server, FILES, 3).await;
}

#[tokio::test]
async fn a_run_has_the_rights_of_the_api_key_that_asked_for_it() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let customer = record(&api, 2, json!({"name": "Secret"})).await;
    let invoice = record(&api, 1, json!({"number": "R-1", "customer": customer})).await;
    let template = template(&api, "Invoice", &["{{ number }} for {{ customer.name }}"]).await;
    let service = server.as_type("service_internal").await.id;
    let editors = json!({
        "name": "Editors",
        "permissions": {"object_classes": ["view"], "object_records": ["list", "view", "edit"]},
    });
    let sets = "/api/object-classes/1/permission-sets/";
    let set = api.post(sets, editors).await.id();
    api.post(&format!("{sets}{set}/assignees/users/"), json!([service])).await.expect_created();
    let key = async |name: &str, permissions: Value| {
        let body = json!({"name": name, "permissions": permissions, "expires_at": "2026-03-01T00:00:00Z"});
        let made = api.post(&format!("/api/users/{service}/api-keys/"), body).await.expect_created();
        server.anonymous().with_token(made["key"].as_str().unwrap())
    };
    let (whole, narrowed) = (key("Whole", json!(null)).await, key("Narrowed", json!({})).await);
    let run = generated(&whole, invoice, template, None).await;
    assert_eq!(run["status"], "completed", "{run:#}");
    // The customers are hidden from the narrowed key, although its account is a super admin.
    let refused = narrowed.post(GENERATE, body(invoice, template)).await;
    assert!(refused.status >= 400, "{refused:?}");
    // Nor does it get the document that its account requested by another key.
    whole.get(&address(&run)).await.ok();
    narrowed.get(&address(&run)).await.expect_reply(403, message::forbidden());
    // The job reads the key again.
    let caller = server.build.db.read::<_, StoreError>(move |conn| {
        identity::as_caller_by_key(conn, kit::ids::UserId::new(service), kit::ids::ApiKeyId::new(2), 0)
    });
    let caller = caller.await.unwrap().unwrap();
    assert!(!caller.is_super() && caller.ownership() == kit::ids::UserId::NONE, "{caller:?}");
}
