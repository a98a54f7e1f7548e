//! `/api/object-classes/{id}/document-templates/check/`.

use crate::TestServer;
use crate::set_up::{TEMPLATES, docx, with_classes};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{ApiClient, message, send_concurrently};

const CHECK: &str = "/api/object-classes/1/document-templates/check/";

async fn check(api: &ApiClient, texts: &[&str]) -> Value {
    let token = api.upload("a.docx", docx(texts)).await;
    api.post(CHECK, json!({"template_file": token})).await.ok()
}

fn known_field(field: &str, object_class: impl Into<Value>) -> Value {
    json!({"field": field, "place": "document", "object_class": object_class.into(), "is_known": true})
}

fn unknown(field: &str, object_class: impl Into<Value>) -> Value {
    json!({"field": field, "place": "document", "object_class": object_class.into(), "is_known": false})
}

#[tokio::test]
async fn merge_fields_are_told_with_their_classes() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let texts = [
        "{{ number }} {{ number }} {{ customer.city }} {{ customer }}",
        "{{#line}}{{ text }} {{ amount }} {{ invoice.number }}{{/line}}",
        "{{?paid}}paid{{/paid}} {{ today }} {{ owner.full_name }} {{ company.admin_email_address }}",
    ];
    let report = json!({
        "merge_fields": [
            known_field("number", 1), known_field("customer.city", 2), known_field("customer", 1),
            known_field("line", 3), known_field("text", 3), known_field("amount", 1), known_field("invoice.number", 1),
            known_field("paid", 1), known_field("today", null()), known_field("owner.full_name", null()),
            known_field("company.admin_email_address", null()),
        ],
        "errors": [],
    });
    assert_eq!(check(&api, &texts).await, report);
    assert_eq!(check(&api, &["no tags"]).await, json!({"merge_fields": [], "errors": []}));
}

fn null() -> Value {
    Value::Null
}

#[tokio::test]
async fn all_that_is_wrong_is_told() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let texts = [
        "{{ numbr }} {{ numbr | upper }} {{ customer.zip }} {{ number }}",
        "{{#other}}{{/other}}{{#customer}}{{/customer}}",
    ];
    let report = json!({
        "merge_fields": [
            unknown("numbr", null()), unknown("customer.zip", null()), known_field("number", 1), unknown("other", 4),
            unknown("customer", null()),
        ],
        "errors": [
            "Merge field numbr does not exist.",
            "Merge field customer.zip does not exist.",
            "Merge field other refers to object class 4, which is not related to object class 1.",
            "Merge field customer does not exist.",
        ],
    });
    assert_eq!(check(&api, &texts).await, report);
    let unreadable = "Error while parsing document. Please check the syntax.";
    for (bytes, reason) in [
        (docx(["{{ number | shout }}"]), "word/document.xml: "),
        (docx(["{{#line}}"]), "word/document.xml: "),
        (docx(["{{ number"]), "word/document.xml: "),
        (b"no document".to_vec(), ""),
        (docx(["x"])[..300].to_vec(), ""),
    ] {
        let token = api.upload("a.docx", bytes).await;
        let report = api.post(CHECK, json!({"template_file": token})).await.ok();
        assert_eq!(report["merge_fields"], json!([]));
        let [error] = &report["errors"].as_array().unwrap()[..] else { panic!("{report}") };
        assert!(error.as_str().unwrap().starts_with(&format!("{unreadable} {reason}")), "{error}");
        assert!(error.as_str().unwrap().len() > unreadable.len() + 10, "{error}");
    }
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let long = "n".repeat(51);
    let texts = ["{{ number | shout }}", "}} {{ number }}", &format!("{{{{ {long} }}}}"), "{{ number"];
    let unreadable = "Error while parsing document. Please check the syntax. word/document.xml:";
    let errors = [
        "unknown filter shout in \"{{ number | shout }}\"".to_owned(),
        "}} without {{ before it, after \"\"".to_owned(),
        format!("a name of more than 50 characters in \"{{{{ {long} }}}}\""),
        "a tag that never ends: \"{{ number\"".to_owned(),
    ];
    let errors: Vec<String> = errors.iter().map(|error| format!("{unreadable} {error}")).collect();
    let report = check(&api, &texts).await;
    assert_eq!(report["merge_fields"], json!([]));
    assert_eq!(report["errors"], json!(errors));
    // The report contains at most 100 errors.
    let report = check(&api, &["{{ ! }}"; 150]).await;
    assert_eq!(report["errors"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn a_token_stays_unspent() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let token = api.upload("a.docx", docx(["{{ number }}"])).await;
    for _ in 0..2 {
        let report = api.post(CHECK, json!({"template_file": token})).await.ok();
        assert_eq!(report, json!({"merge_fields": [known_field("number", 1)], "errors": []}));
    }
    api.post(TEMPLATES, json!({"name": "Letter", "template_file": token})).await.expect_created();
    let spent = json!({"template_file": [format!("Invalid token {token}.")]});
    api.post(CHECK, json!({"template_file": token})).await.refuses(spent);
    // A check does not write to the log.
    let log = api.get("/api/administration/log/?resource=document_templates").await;
    assert_eq!(log.column("action"), [json!("create")]);
}

#[tokio::test]
async fn the_body_must_be_right() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let text = api.upload("a.txt", "x").await;
    let others = server.as_type("super_admin").await.upload("a.docx", docx(["x"])).await;
    for (body, error) in [
        (json!({}), "This field is required."),
        (json!({"template_file": null}), "This field may not be null."),
        (json!({"template_file": 7}), "Not a valid string."),
        (json!({"template_file": ["x"]}), "Not a valid string."),
        (json!({"template_file": "x"}), "Invalid token x."),
        (json!({"template_file": others}), &format!("Invalid token {others}.")),
        (json!({"template_file": text}), "Invalid file type."),
    ] {
        api.post(CHECK, body).await.refuses(json!({"template_file": [error]}));
    }
}

#[tokio::test]
async fn it_is_for_those_who_may_change_the_class_and_tells_what_they_may_view() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let viewer = server.with_role(json!({"object_classes": ["list", "view"]})).await;
    let stranger = server.as_type("internal").await;
    for client in [&viewer, &stranger] {
        let token = client.upload("a.docx", docx(["x"])).await;
        client.post(CHECK, json!({"template_file": token})).await.expect_reply(403, message::forbidden());
    }
    let nowhere = "/api/object-classes/99/document-templates/check/";
    api.post(nowhere, json!({"template_file": "x"})).await.expect_reply(403, message::forbidden());
    // The owner of one class may not view others: neither fields, nor labels of records.
    let owner = server.as_type("internal").await;
    api.post("/api/object-classes/1/owners/", json!([owner.id])).await.expect_created();
    let report = json!({
        "merge_fields": [unknown("customer.city", null()), unknown("customer", 1), known_field("number", 1)],
        "errors": ["Merge field customer.city does not exist.", "Merge field customer does not exist."],
    });
    assert_eq!(check(&owner, &["{{ customer.city }} {{ customer }} {{ number }}"]).await, report);
}

#[tokio::test]
async fn loops_in_loops_name_their_classes() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let part = api.post("/api/object-classes/", json!({"name": "Part"})).await.id();
    for field in [
        json!({"label": "Code", "type": "string"}),
        json!({"label": "Line", "type": "relation", "related_object_class": 3}),
    ] {
        api.post(&format!("/api/object-classes/{part}/fields/"), field).await.expect_created();
    }
    let texts = [
        "{{#line}}{{ @number }}{{ id }}{{#part}}{{ code }}{{ text }}{{ created_at }}{{/part}}{{^amount}}-{{/amount}}{{/line}}",
    ];
    let report = json!({
        "merge_fields": [
            known_field("line", 3), known_field("@number", null()), known_field("id", 3), known_field("part", part), known_field("code", part),
            known_field("text", 3), known_field("created_at", part), known_field("amount", 1),
        ],
        "errors": [],
    });
    assert_eq!(check(&api, &texts).await, report);
    // Each class must be related to the class around it. A relation to the template's class is not sufficient.
    let report = check(
        &api,
        &["{{#line}}{{#line}}{{/line}}{{/line}}{{#part}}{{/part}}{{#line}}{{#other}}{{ id }}{{/other}}{{/line}}"],
    )
    .await;
    assert_eq!(
        report["errors"],
        json!([
            "Merge field line refers to object class 3, which is not related to object class 3.",
            format!("Merge field part refers to object class {part}, which is not related to object class 1."),
            "Merge field other refers to object class 4, which is not related to object class 3.",
        ])
    );
    let token = api.upload("a.docx", docx(["{{#line}}{{#other}}{{/other}}{{/line}}"])).await;
    let unrelated =
        json!({"error": ["Merge field other refers to object class 4, which is not related to object class 3."]});
    api.post(TEMPLATES, json!({"name": "A", "template_file": token})).await.refuses(unrelated);
    // A class inside that the caller may not view is reported like a missing one.
    let owner = server.as_type("internal").await;
    for class in [1, 3] {
        api.post(&format!("/api/object-classes/{class}/owners/"), json!([owner.id])).await.expect_created();
    }
    let report = check(&owner, &["{{#line}}{{ text }}{{#part}}{{/part}}{{/line}}"]).await;
    assert_eq!(report["errors"], json!(["Merge field part does not exist."]));
    let token = owner.upload("a.docx", docx(["{{#line}}{{#part}}{{/part}}{{/line}}"])).await;
    let unreadable = json!({"error": ["Error while parsing document. Please check the syntax."]});
    owner.post(TEMPLATES, json!({"name": "A", "template_file": token})).await.refuses(unreadable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_checks_long_templates_leaves_a_place_to_others() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let other = server.build("b.example").await.admin().await;
    other.post("/api/object-classes/", json!({"name": "Invoice"})).await.expect_created();
    let short = other.upload("a.docx", docx(["{{ id }}"])).await;
    let token = api.upload("a.docx", docx(vec!["{{ number }}"; 4_000])).await;

    // One of them is read at a time, sixteen wait, and the others are refused immediately.
    let calls: Vec<_> = (0..40).map(|_| api.call("POST", CHECK).json(&json!({"template_file": token}))).collect();
    let checks = tokio::spawn(send_concurrently(calls));
    let began = Instant::now();
    other.post(CHECK, json!({"template_file": short})).await.ok();
    let took = began.elapsed();
    let replies = checks.await.unwrap();
    println!("a check beside 40 of another build took {took:.1?}, all of them {:.1?}", began.elapsed());
    let (read, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    assert!(!read.is_empty() && !refused.is_empty(), "{} were read", read.len());
    for reply in refused {
        reply.expect_reply(503, message::detail("The server is busy. Please try again."));
        assert_eq!(reply.headers["retry-after"], "1");
    }
    assert!(took < Duration::from_secs(5) && took < began.elapsed() / 2, "{took:?} of {:?}", began.elapsed());
}
