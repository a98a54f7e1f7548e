//! `/api/object-classes/{id}/document-templates/`.

use crate::TestServer;
use crate::set_up::{TEMPLATES, docx, paragraphs, template, wait_for, with_classes};
use serde_json::{Value, json};
use testkit::shown::{START, page, user};
use testkit::{ApiClient, SECOND, message, one_wins, send_concurrently};

async fn token(api: &ApiClient, texts: &[&str]) -> String {
    api.upload("My template.docx", docx(texts)).await
}

#[tokio::test]
async fn a_template_from_its_upload_to_its_end() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let body = json!({"name": " Invoice ", "description": "For customers", "template_file": token(&api, &["{{ number }}"]).await});
    let made = api.post(TEMPLATES, body).await;
    let creator = user(&api, "super_admin");
    let size = docx(["{{ number }}"]).len().to_string();
    let label = json!({
        "name": "My template.docx", "url": "https://a.example/api/object-classes/1/document-templates/1/download/",
        "size": size, "type": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    });
    let mut shown = json!({
        "id": 1, "name": "Invoice", "description": "For customers", "template_file": 1, "allow_on_demand_generation": true,
        "warning": "", "created_at": START, "created_by": creator, "modified_at": START, "modified_by": creator,
        "_meta": {"labels": {"files": {"1": label}}},
    });
    made.expect_reply(201, shown.clone());
    api.get(&format!("{TEMPLATES}1/")).await.expect_reply(200, shown.clone());
    let mut listed = shown.clone();
    listed["template_file_name"] = json!("My template");
    api.get(TEMPLATES).await.expect_reply(200, page(json!([listed])));
    let file = api.get(&format!("{TEMPLATES}1/download/")).await;
    assert_eq!(paragraphs(&file.bytes), ["{{ number }}"]);
    assert_eq!(file.header("content-disposition"), "attachment; filename*=UTF-8''My%20template.docx");
    assert_eq!(file.header("content-type"), "application/force-download");

    server.advance(SECOND);
    let second = api.upload("Second.DOCX", docx(["{{ amount }}"])).await;
    let body = json!({"name": "Bill", "template_file": second, "allow_on_demand_generation": false, "description": ""});
    let changed = api.patch(&format!("{TEMPLATES}1/"), body).await.ok();
    shown = changed;
    assert_eq!(
        (&shown["name"], &shown["template_file"], &shown["allow_on_demand_generation"], &shown["description"]),
        (&json!("Bill"), &json!(2), &json!(false), &json!(""))
    );
    assert_eq!(paragraphs(&api.get(&format!("{TEMPLATES}1/download/")).await.bytes), ["{{ amount }}"]);
    // The former file is deleted.
    wait_for(&server, "SELECT count(*) FROM files", 1).await;
    // A body may contain the id of the present file.
    api.patch(&format!("{TEMPLATES}1/"), json!({"template_file": 2})).await.ok();

    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    api.get(&format!("{TEMPLATES}1/")).await.expect_reply(404, message::not_found());
    api.get(&format!("{TEMPLATES}1/download/")).await.expect_reply(404, message::not_found());
    wait_for(&server, "SELECT count(*) FROM files", 0).await;
    let log = api.get("/api/administration/log/?resource=document_templates").await;
    assert_eq!(log.column("action"), [json!("delete"), json!("edit"), json!("create")]);
    assert_eq!(log.column("object_name"), [json!("Bill"), json!("Bill"), json!("Invoice")]);
}

#[tokio::test]
async fn the_body_must_be_right() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let (good, text) = (token(&api, &["x"]).await, api.upload("a.txt", "x").await);
    let required = "This field is required.";
    for (body, errors) in [
        (json!({}), json!({"name": [required], "template_file": [required]})),
        (
            json!({"name": null, "template_file": null}),
            json!({"name": ["This field may not be null."], "template_file": ["This field may not be null."]}),
        ),
        (json!({"name": "  ", "template_file": good}), json!({"name": ["This field may not be blank."]})),
        (
            json!({"name": "x".repeat(101), "template_file": good}),
            json!({"name": ["Ensure this field has no more than 100 characters."]}),
        ),
        (
            json!({"name": "A", "description": "x".repeat(501), "template_file": good}),
            json!({"description": ["Ensure this field has no more than 500 characters."]}),
        ),
        (
            json!({"name": "A", "template_file": good, "allow_on_demand_generation": "maybe"}),
            json!({"allow_on_demand_generation": ["Must be a valid boolean."]}),
        ),
        (json!({"name": "A", "template_file": "x"}), json!({"template_file": ["Invalid token x."]})),
        (json!({"name": "A", "template_file": text}), json!({"template_file": ["Invalid file type."]})),
        (json!({"name": "A", "template_file": 7}), json!({"template_file": ["Not a valid string."]})),
        (json!({"name": "A", "template_file": [good]}), json!({"template_file": ["Not a valid string."]})),
    ] {
        api.post(TEMPLATES, body).await.refuses(errors);
    }
    // None of these requests has spent the token.
    api.post(TEMPLATES, json!({"name": "Invoice", "template_file": good})).await.expect_created();
    let again = json!({"name": "INVOICE", "template_file": token(&api, &["x"]).await});
    api.post(TEMPLATES, again).await.refuses(json!({"name": ["This field must be unique."]}));
    let elsewhere = json!({"name": "Invoice", "template_file": token(&api, &["x"]).await});
    api.post("/api/object-classes/2/document-templates/", elsewhere).await.expect_created();
    api.patch(&format!("{TEMPLATES}1/"), json!({"name": null}))
        .await
        .refuses(json!({"name": ["This field may not be null."]}));
    api.patch(&format!("{TEMPLATES}1/"), json!({"name": "invoice"})).await.ok();
}

#[tokio::test]
async fn merge_fields_must_be_there() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    for texts in [
        vec!["{{ number }} {{ customer.city }} {{ customer }}"],
        vec!["{{#line}}{{ text }} {{ price | number \"#,##0.00\" }} {{ number }}{{/line}}"],
        vec!["{{#line.invoice}}{{ invoice.number }}{{/line.invoice}}"],
        vec!["{{?paid}}paid{{/paid}} {{ today | date \"dd MMMM yyyy\" }} {{ owner.full_name }}"],
        vec!["{{ company.admin_email_address }} {{ papers }}"],
        vec!["no tags"],
    ] {
        let body = json!({"name": format!("{texts:?}").chars().take(90).collect::<String>(), "template_file": token(&api, &texts).await});
        api.post(TEMPLATES, body).await.expect_created();
    }
    let unreadable = json!({"error": ["Error while parsing document. Please check the syntax."]});
    for texts in [
        vec!["{{ numbr }}"],
        vec!["{{ customer.zip }}"],
        vec!["{{ number.city }}"],
        vec!["{{ text }}"],
        vec!["{{#line}}{{ colour }}{{/line}}"],
        vec!["{{#lines}}{{/lines}}"],
        // A parent is related, but is not a child.
        vec!["{{#customer}}{{/customer}}"],
        vec!["{{#line.customer}}{{/line.customer}}"],
        vec!["{{ number"],
        vec!["{{#line}}"],
        vec!["{{ number | shout }}"],
        vec!["{{#line}}{{#a}}{{#b}}{{#c}}{{/c}}{{/b}}{{/a}}{{/line}}"],
        vec!["{{ owner }}"],
        vec!["{{ owner.password }}"],
        vec!["{{ company.name }}"],
    ] {
        let body = json!({"name": "Wrong", "template_file": token(&api, &texts).await});
        api.post(TEMPLATES, body).await.refuses(unreadable.clone());
    }
    for (tag, class) in [("#other", 4)] {
        let name = &tag[1..];
        let texts = format!("{{{{{tag}}}}}{{{{/{name}}}}}");
        let body = json!({"name": "Wrong", "template_file": token(&api, &[&texts]).await});
        let text =
            format!("Merge field {name} refers to object class {class}, which is not related to object class 1.");
        api.post(TEMPLATES, body).await.refuses(json!({"error": [text]}));
    }
    // Two relations lead to this class, so the tag must name one.
    let second = json!({"label": "Second", "type": "relation", "related_object_class": 1});
    api.post("/api/object-classes/3/fields/", second).await.expect_created();
    let body = json!({"name": "Both", "template_file": token(&api, &["{{#line}}{{/line}}"]).await});
    api.post(TEMPLATES, body).await.refuses(unreadable.clone());
    let body =
        json!({"name": "Both", "template_file": token(&api, &["{{#line.second}}{{ text }}{{/line.second}}"]).await});
    api.post(TEMPLATES, body).await.expect_created();
    for bytes in [b"no document".to_vec(), docx(["x"])[..300].to_vec()] {
        let body = json!({"name": "Wrong", "template_file": api.upload("a.docx", bytes).await});
        api.post(TEMPLATES, body).await.refuses(unreadable.clone());
    }
}

#[tokio::test]
async fn templates_are_for_those_who_may_change_the_class() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    template(&api, "Invoice", &["{{ number }}"]).await;
    let viewer = server.with_role(json!({"object_classes": ["list", "view"]})).await;
    let stranger = server.as_type("internal").await;
    let editor = server.with_role(json!({"object_classes": ["list", "view", "edit"]})).await;
    let template_path = format!("{TEMPLATES}1/");
    for (client, read) in [(&viewer, (403, message::forbidden())), (&stranger, (404, message::not_found()))] {
        for path in [TEMPLATES, &template_path, &format!("{template_path}download/")] {
            assert_eq!(client.get(path).await, read, "{path}");
        }
        let token = client.upload("a.docx", docx(["x"])).await;
        client
            .post(TEMPLATES, json!({"name": "A", "template_file": token}))
            .await
            .expect_reply(403, message::forbidden());
        client.patch(&template_path, json!({"name": "A"})).await.expect_reply(403, message::forbidden());
        client.delete(&template_path).await.expect_reply(403, message::forbidden());
    }
    viewer.options(TEMPLATES).await.ok();
    stranger.options(TEMPLATES).await.expect_reply(404, message::not_found());
    for path in ["/api/object-classes/99/document-templates/", "/api/object-classes/99/document-templates/1/"] {
        api.get(path).await.expect_reply(404, message::not_found());
    }
    let body = json!({"name": "A", "template_file": "x"});
    api.post("/api/object-classes/99/document-templates/", body).await.expect_reply(403, message::forbidden());
    api.patch("/api/object-classes/99/document-templates/1/", json!({})).await.expect_reply(403, message::forbidden());
    api.patch(&format!("{TEMPLATES}99/"), json!({})).await.expect_reply(404, message::not_found());
    // The template is unknown under another class.
    api.get("/api/object-classes/2/document-templates/1/").await.expect_reply(404, message::not_found());
    // The editor of one class names fields of a class that they may not view.
    let token = editor.upload("a.docx", docx(["{{ customer.city }}"])).await;
    editor.post(TEMPLATES, json!({"name": "A", "template_file": token})).await.expect_created();
    let owner = server.as_type("internal").await;
    api.post("/api/object-classes/1/owners/", json!([owner.id])).await.expect_created();
    let token = owner.upload("a.docx", docx(["{{ customer.city }}"])).await;
    let unreadable = json!({"error": ["Error while parsing document. Please check the syntax."]});
    owner.post(TEMPLATES, json!({"name": "B", "template_file": token})).await.refuses(unreadable.clone());
    // The relation alone shows its label.
    let token = owner.upload("a.docx", docx(["{{ customer }}"])).await;
    owner.post(TEMPLATES, json!({"name": "B", "template_file": token})).await.refuses(unreadable);
    let token = owner.upload("a.docx", docx(["{{ number }}"])).await;
    owner.post(TEMPLATES, json!({"name": "B", "template_file": token})).await.expect_created();
}

#[tokio::test]
async fn lists_are_sorted_and_filtered() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    for (name, file) in [("b", "Two.docx"), ("A", "one.docx"), ("c", "three.docx")] {
        let token = api.upload(file, docx(["x"])).await;
        api.post(TEMPLATES, json!({"name": name, "template_file": token, "allow_on_demand_generation": name == "c"}))
            .await
            .expect_created();
        server.advance(SECOND);
    }
    for (query, names) in [
        ("", vec!["b", "A", "c"]),
        ("?ordering=name", vec!["A", "b", "c"]),
        ("?ordering=-allow_on_demand_generation,id", vec!["c", "b", "A"]),
        ("?ordering=-created_at", vec!["c", "A", "b"]),
        ("?ordering=-modified_at", vec!["c", "A", "b"]),
        ("?name__icontains=a", vec!["A"]),
        ("?template_file_name=Two", vec!["b"]),
        ("?template_file_name__istartswith=T", vec!["b", "c"]),
        ("?allow_on_demand_generation=true", vec!["c"]),
        ("?warning=", vec!["b", "A", "c"]),
        ("?uuid=anything", vec!["b", "A", "c"]),
        (&format!("?created_by={}", api.id), vec!["b", "A", "c"]),
    ] {
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        assert_eq!(api.get(&format!("{TEMPLATES}{query}")).await.column("name"), names, "{query}");
    }
    api.get(&format!("{TEMPLATES}?ordering=description")).await.expect(400);
}

#[tokio::test]
async fn the_limit_is_exact() {
    let server = TestServer::start().await;
    server.set_limit("object_class_document_templates", 2).await;
    let api = with_classes(&server).await;
    template(&api, "First", &["x"]).await;
    let mut bodies = Vec::new();
    for n in 0..6 {
        bodies.push(json!({"name": format!("T{n}"), "template_file": token(&api, &["x"]).await}));
    }
    let calls = bodies.iter().map(|body| api.call("POST", TEMPLATES).json(body));
    one_wins(&send_concurrently(calls).await, 201, &message::limit_exceeded("2 Document Templates"));
    let document = api.options(TEMPLATES).await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 2}));
    let entry =
        document["details"]["schema"].as_array().unwrap().iter().find(|field| field["alias"] == "template_file");
    let entry = entry.unwrap();
    assert_eq!((&entry["type"], &entry["required"]), (&json!("file"), &json!(true)));
    let validators = json!([{"name": "max_items", "value": 1}, {"name": "extension", "value": ".docx"}]);
    assert_eq!(entry["validators"], validators);
}

#[tokio::test]
async fn a_change_of_another_state_is_refused() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    template(&api, "Invoice", &["x"]).await;
    let one = format!("{TEMPLATES}1/");
    let tag = api.get(&one).await.header("etag").to_owned();
    let patch =
        |tag: &str, name: &str| api.call("PATCH", &one).header("if-match", tag).json(&json!({"name": name})).send();
    patch(&tag, "Bill").await.ok();
    patch(&tag, "Receipt").await.expect_reply(412, message::detail("Object has been changed."));
}
