//! `/task/`, the page of a link (`docs/reference/task-links.md`).

use crate::TestServer;
use crate::multipart::{TestPart, file, send, text};
use crate::one_time::{TASKS, call_action, create_one_time_account, links, task, task_path};
use crate::set_up::{TEMPLATES, form_template, number, wait_for};
use serde_json::{Value, json};
use testkit::{ApiClient, Reply};

/// Creates a template whose form has these questions, and returns its id.
async fn with_questions(api: &ApiClient, questions: Value) -> i64 {
    let config = json!({
        "task_type": "tt_form", "prompt": "Please <answer>.", "configuration": {"instructions": "First line\nsecond line", "questions": questions},
    });
    let body = json!({
        "name": "Survey", "description": "About & around",
        "complete_by": "asap", "plugin_config": config,
    });
    api.post(TEMPLATES, body).await.id()
}

/// Creates a task of a template for a new account. Returns it with the token of its link.
async fn linked(server: &TestServer, api: &ApiClient, template: i64) -> (i64, String) {
    let (user, address) = create_one_time_account(server, api).await;
    let task = task(api, template, user).await;
    (task, links(server, &address).await.pop().unwrap())
}

async fn page(server: &TestServer, token: &str) -> Reply {
    server.anonymous().get(&format!("/task/?token={token}")).await
}

/// Returns the texts of the alerts of a page.
fn alerts(page: &Reply) -> Vec<String> {
    let mut tail = page.text.as_str();
    let mut texts = Vec::new();
    while let Some(at) = tail.find("role=\"alert\">") {
        tail = &tail[at + "role=\"alert\">".len()..];
        let end = tail.find("</p>").into_iter().chain(tail.find("</div>")).min().unwrap();
        texts.push(
            tail[..end]
                .replace("<br>", "")
                .replace("<ul>", " ")
                .replace("</ul>", "")
                .replace("<li>", "")
                .replace("</li>", ""),
        );
    }
    texts
}

#[tokio::test]
async fn a_task_is_shown_and_completed_without_scripts_or_cookies() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let questions = json!([
        {"name": "city", "label": "Your city", "required": true, "help": "Where you live"},
        {"name": "why", "label": "Why?", "type": "longtext"},
        {"name": "many", "type": "integer"}, {"name": "much", "type": "decimal"}, {"name": "really", "type": "boolean"},
        {"name": "day", "type": "date"}, {"name": "at", "type": "datetime"},
        {"name": "one", "type": "choice", "options": [{"value": "a", "text": "A"}, {"value": "b", "text": "B"}]},
        {"name": "all", "type": "choices", "options": [{"value": "a", "text": "A"}, {"value": "b", "text": "B"}]},
        {"name": "proof", "type": "file"},
    ]);
    let template = with_questions(&api, questions).await;
    let (task, token) = linked(&server, &api, template).await;
    let shown = page(&server, &token).await;
    assert_eq!((shown.status, shown.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(shown.header("referrer-policy"), "same-origin");
    assert_eq!(shown.header("cache-control"), "no-store");
    assert!(shown.header("content-security-policy").starts_with("default-src 'none'"));
    for absent in ["set-cookie", "content-encoding"] {
        assert_eq!(shown.header(absent), "", "{absent}");
    }
    assert_eq!(alerts(&shown), Vec::<String>::new());
    let (_, main) = shown.text.split_once("<main>").unwrap();
    let (main, _) = main.split_once("</main>").unwrap();
    let expected = format!(
        "<h1>Survey</h1><p>About &amp; around</p><p>First line<br>second line</p><p>Due: 2026-01-31 09:30 UTC</p>\
         <p>Please &lt;answer&gt;.</p>\
         <form method=\"post\" action=\"/task/\" enctype=\"multipart/form-data\"><input name=\"token\" type=\"hidden\" value=\"{token}\">\
         <label>Your city * <input name=\"q0\" type=\"text\" value=\"\" required></label><p>Where you live</p>\
         <label>Why? <textarea name=\"q1\" rows=\"5\">\n</textarea></label>\
         <label>many <input name=\"q2\" type=\"text\" inputmode=\"numeric\" value=\"\"></label>\
         <label>much <input name=\"q3\" type=\"text\" inputmode=\"decimal\" value=\"\"></label>\
         <label>really <select name=\"q4\"><option value=\"\" selected></option><option value=\"true\">Yes</option>\
         <option value=\"false\">No</option></select></label>\
         <label>day <input name=\"q5\" type=\"date\" value=\"\"></label>\
         <label>at (UTC) <input name=\"q6\" type=\"datetime-local\" step=\"any\" value=\"\"></label>\
         <label>one <select name=\"q7\"><option value=\"\" selected></option><option value=\"a\">A</option>\
         <option value=\"b\">B</option></select></label>\
         <fieldset><legend>all</legend><label><input name=\"q8\" type=\"checkbox\" value=\"a\"> A</label>\
         <label><input name=\"q8\" type=\"checkbox\" value=\"b\"> B</label></fieldset>\
         <fieldset><legend>proof</legend><input name=\"q9\" type=\"file\" aria-label=\"proof\"></fieldset>\
         <label>Comment <textarea name=\"comment\" rows=\"3\">\n</textarea></label>\
         <p><button>Complete the task</button></p></form>"
    );
    assert_eq!(main, expected);

    let anonymous = server.anonymous();
    let parts = [
        text("token", &token),
        text("q0", "Basel"),
        text("q1", "Be\r\ncause"),
        text("q2", "3"),
        text("q3", "1.50"),
        text("q4", "true"),
        text("q5", "2026-02-28"),
        text("q6", "2026-02-28T12:00"),
        text("q7", "b"),
        text("q8", "a"),
        text("q8", "b"),
        file("q9", "proof.csv", "a;b"),
        text("comment", "Well done."),
    ];
    let reply = send(&anonymous, &parts).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert!(reply.text.contains("Thank you. The task is completed.") && reply.header("set-cookie").is_empty());
    let done = api.get(&task_path(task)).await.ok();
    let uuid = done["response"]["proof"]["file"].as_str().unwrap().to_owned();
    let response = json!({
        "city": "Basel", "why": "Be\ncause", "many": 3, "much": "1.50", "really": true, "day": "2026-02-28",
        "at": "2026-02-28T12:00:00.000000Z", "one": "b", "all": ["a", "b"], "proof": {"file": uuid},
    });
    assert_eq!(
        (&done["response"], &done["comment"], &done["status"]),
        (&response, &json!("Well done."), &json!("completed"))
    );
    assert_eq!(done["completed_by"]["account_type"], "one_time_completion");
    assert_eq!(api.get(&format!("/api/files/response/file/{uuid}/")).await.text, "a;b");
    assert_eq!(number(&server, "SELECT count(*) FROM sessions WHERE task IS NOT NULL").await, 0);

    // The link has ended, for the page and for its form.
    for reply in [page(&server, &token).await, send(&anonymous, &parts).await] {
        assert_eq!(reply.status, 400);
        assert!(alerts(&reply)[0].starts_with("This link does not work."), "{}", reply.text);
        assert!(!reply.text.contains("Survey"));
    }
    // The page of a reopened task shows the former answer.
    call_action(&api, task, "reopen", json!({})).await.ok();
    let token = server.mails().await.last().unwrap().token();
    let second_page = page(&server, &token).await.text;
    for shown in [
        "value=\"Basel\"",
        "\nBe\ncause</textarea>",
        "value=\"1.50\"",
        "<option value=\"true\" selected>",
        "value=\"2026-02-28T12:00\"",
        "value=\"a\" checked> A",
        "checked> Keep proof.csv",
    ] {
        assert!(second_page.contains(shown), "{shown} in {second_page}");
    }
    let kept = [text("token", &token), text("q0", "Bern"), text("q9", &uuid)];
    assert_eq!(send(&anonymous, &kept).await.status, 200);
    let done = api.get(&task_path(task)).await.ok();
    assert_eq!((&done["response"]["city"], &done["response"]["proof"]), (&json!("Bern"), &json!({"file": uuid})));
}

#[tokio::test]
async fn errors_appear_at_their_inputs_with_the_submitted_values() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let questions = json!([
        {"name": "city", "required": true}, {"name": "many", "type": "integer"}, {"name": "proof", "type": "file"},
    ]);
    let template = with_questions(&api, questions).await;
    let (task, token) = linked(&server, &api, template).await;
    let anonymous = server.anonymous();
    let parts = [
        text("token", &token),
        text("q0", " "),
        text("q1", "x\"<b>"),
        file("q2", "good.csv", "a"),
        text("comment", "So & so"),
    ];
    let reply = send(&anonymous, &parts).await;
    assert_eq!(reply.status, 400);
    assert_eq!(
        alerts(&reply),
        [
            "The task was not completed. The files were not kept. Please choose them again.",
            "This field is required.",
            "A valid integer is required.",
        ]
    );
    assert!(reply.text.contains("<title>Failed: Survey"));
    for kept in ["value=\"x&quot;&lt;b&gt;\"", ">\nSo &amp; so</textarea>"] {
        assert!(reply.text.contains(kept), "{kept} in {}", reply.text);
    }
    for (name, content, message) in [
        ("bad.exe", "a", "File extension exe is not allowed."),
        ("empty.csv", "", "Empty content."),
        (".csv", "a", "File extension"),
    ] {
        let parts = [text("token", &token), file("q2", name, content), text("q0", "Basel")];
        let reply = send(&anonymous, &parts).await;
        assert_eq!(reply.status, 400, "{name}");
        assert!(alerts(&reply)[1].starts_with(message), "{name}: {:?}", alerts(&reply));
        // The parts behind the file are read too.
        assert!(reply.text.contains("value=\"Basel\""));
    }
    // Files of a refused form are removed immediately, with their contents.
    assert_eq!(api.get(&task_path(task)).await.ok()["status"], "open");
    wait_for(&server, "SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM removed_files)", 0).await;
    let parts = [text("token", &token), text("q0", "Basel"), file("q2", "", "")];
    assert_eq!(send(&anonymous, &parts).await.status, 200);
    assert_eq!(api.get(&task_path(task)).await.ok()["response"], json!({"city": "Basel", "many": null, "proof": null}));
}

#[tokio::test]
async fn a_form_without_questions_takes_a_text() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Plain").await;
    let (task, token) = linked(&server, &api, template).await;
    assert!(
        page(&server, &token)
            .await
            .text
            .contains("<label>Your answer <textarea name=\"q0\" rows=\"5\">\n</textarea></label>")
    );
    let reply = send(&server.anonymous(), &[text("token", &token), text("q0", "Yes.")]).await;
    assert_eq!(reply.status, 200);
    assert_eq!(api.get(&task_path(task)).await.ok()["response"], json!({"text": "Yes."}));
}

#[tokio::test]
async fn an_answer_that_needs_approval_is_shown_as_waiting() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let config = json!({"task_type": "tt_form", "approval_required": true, "allow_comment": false});
    let body = json!({"name": "Approved", "complete_by": "asap", "plugin_config": config});
    let template = api.post(TEMPLATES, body).await.id();
    let (task, token) = linked(&server, &api, template).await;
    let shown = page(&server, &token).await.text;
    assert!(shown.contains("Somebody else will approve or reject your answer.") && !shown.contains("Comment"));
    // A comment is ignored if the page does not ask for one.
    let parts = [text("token", &token), text("q0", "a"), text("comment", "b")];
    let reply = send(&server.anonymous(), &parts).await;
    assert!(reply.status == 200 && reply.text.contains("waits for somebody to approve it"), "{}", reply.text);
    assert_eq!(api.get(&task_path(task)).await.ok()["comment"], Value::Null);
    let (shown, sent) = (page(&server, &token).await, send(&server.anonymous(), &parts).await);
    assert_eq!((shown.status, sent.status), (200, 400));
    for reply in [shown, sent] {
        assert!(reply.text.contains("waits for somebody") && !reply.text.contains("<form"), "{}", reply.text);
    }
    call_action(&api, task, "reject", json!({})).await.ok();
    assert_eq!(page(&server, &token).await.status, 400);
}

/// Returns fields of every type, by their aliases.
fn every_field() -> Vec<Value> {
    let options = json!([{"value": "a", "text": "A <1>"}, {"value": "b", "text": "B"}]);
    let mut fields: Vec<Value> =
        ["string", "text", "url", "email", "integer", "decimal", "boolean", "date", "datetime", "document", "user"]
            .iter()
            .map(|kind| json!({"label": format!("My {kind}"), "type": kind}))
            .collect();
    fields.extend(["enum", "set"].map(|kind| json!({"label": format!("My {kind}"), "type": kind, "options": options})));
    fields.push(json!({"label": "My status", "type": "status", "options": options, "initial": "a"}));
    fields
}

#[tokio::test]
async fn the_fields_of_a_record_are_inputs_by_their_types() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = api.post("/api/object-classes/", json!({"name": "Contracts"})).await.id();
    let mut aliases = Vec::new();
    for field in every_field() {
        let made = api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
        aliases.push(made["alias"].clone());
    }
    let relation = json!({"label": "My relation", "type": "relation", "related_object_class": class});
    aliases.push(
        api.post(&format!("/api/object-classes/{class}/fields/"), relation).await.expect_created()["alias"].clone(),
    );
    let record = api.post(&format!("/api/object-classes/{class}/object-records/"), json!({})).await.id();
    let parent = api.post(&format!("/api/object-classes/{class}/object-records/"), json!({})).await.id();
    let configuration = json!({"object_class": class, "fields": aliases, "instructions": "Fill in."});
    let config = json!({"task_type": "tt_object_record_update", "configuration": configuration});
    let body = json!({"name": "All", "complete_by": "asap", "plugin_config": config});
    let template = api.post(TEMPLATES, body).await.id();
    let (user, address) = create_one_time_account(&server, &api).await;
    let body = json!({"task_template": template, "object_record": record, "assignees": [user]});
    let task = api.post(TASKS, body).await.id();
    let fields = json!({
        "my_string": "x", "my_user": 1, "my_relation": parent, "my_document": [api.upload("old.csv", "a").await, ],
        "my_datetime": "2026-01-31T09:30:05.123456Z", "my_set": ["b"], "my_text": "a\r\nb",
    });
    api.patch(&format!("/api/object-records/{record}/"), json!({"fields": fields})).await.ok();
    let before = api.get(&format!("/api/object-records/{record}/")).await.ok()["fields"].clone();
    let token = links(&server, &address).await.pop().unwrap();
    let shown = page(&server, &token).await;
    for expected in [
        "<p>Fill in.</p>",
        "<label>My string <input name=\"f.my_string\" type=\"text\" value=\"x\"></label>",
        "name=\"f.my_url\" type=\"url\"",
        "name=\"f.my_email\" type=\"email\"",
        "<label>My datetime (UTC) <input name=\"f.my_datetime\" type=\"datetime-local\" step=\"any\" value=\"2026-01-31T09:30:05\"></label>",
        "<select name=\"f.my_status\"><option value=\"\"></option><option value=\"a\" selected>A &lt;1&gt;</option>",
        "<label><input name=\"f.my_set\" type=\"checkbox\" value=\"b\" checked> B</label>",
        "checked> Keep old.csv</label><input name=\"f.my_document\" type=\"file\" aria-label=\"My document\" multiple>",
        "<p>My user: <strong>",
        "<p>My relation: <strong>",
    ] {
        assert!(shown.text.contains(expected), "{expected} in {}", shown.text);
    }
    // The parts are those of a browser after a change of only one field.
    let anonymous = server.anonymous();
    let mut parts = vec![text("token", &token)];
    parts.extend(inputs_of(&shown.text));
    let wrong: Vec<TestPart> = parts
        .iter()
        .map(|part| if part.has_name("f.my_email") { text("f.my_email", "x") } else { part.clone() })
        .collect();
    let reply = send(&anonymous, &wrong).await;
    assert_eq!(
        (reply.status, alerts(&reply)),
        (
            400,
            vec![
                "The task was not completed. What is wrong stands below.".to_owned(),
                "Enter a valid email address.".to_owned()
            ]
        )
    );
    // Another user's concurrent change of another field is retained.
    api.patch(&format!("/api/object-records/{record}/"), json!({"fields": {"my_string": "changed"}})).await.ok();
    let mut right = inputs_of(&reply.text);
    right.insert(0, text("token", &token));
    for part in &mut right {
        for (name, value) in
            [("f.my_email", "a@b.example"), ("f.my_integer", "7"), ("f.my_decimal", "1.5"), ("f.my_boolean", "false")]
        {
            if part.has_name(name) {
                *part = text(name, value);
            }
        }
    }
    right.push(file("f.my_document", "new.csv", "b"));
    let reply = send(&anonymous, &right).await;
    assert_eq!(reply.status, 400);
    // A document field accepts one file by default, so the box of the old file must be cleared.
    right.retain(|part| !part.has_name("f.my_document") || part.is_file());
    assert_eq!(send(&anonymous, &right).await.status, 200);
    let mut after = api.get(&format!("/api/object-records/{record}/")).await.ok()["fields"].clone();
    assert_ne!(after["my_document"], before["my_document"]);
    let mut expected = before;
    for (name, value) in [
        ("my_string", json!("changed")),
        ("my_email", json!("a@b.example")),
        ("my_integer", json!(7)),
        ("my_decimal", json!("1.50")),
        ("my_boolean", json!(false)),
    ] {
        expected[name] = value;
    }
    expected["my_document"] = after["my_document"].take();
    after["my_document"] = expected["my_document"].clone();
    assert_eq!(after, expected);
    assert_eq!(api.get(&task_path(task)).await.ok()["status"], "completed");
}

/// Returns the parts that a browser sends for the inputs of a page, without its files and its token.
fn inputs_of(html: &str) -> Vec<TestPart> {
    let attribute = |tag: &str, name: &str| {
        let (_, tail) = tag.split_once(&format!("{name}=\""))?;
        Some(unescape(tail.split('"').next()?))
    };
    let mut parts = Vec::new();
    for tag in html.split('<').skip(1) {
        let (inside, behind) = tag.split_once('>').unwrap_or((tag, ""));
        let Some(name) = attribute(inside, "name") else { continue };
        let kind = attribute(inside, "type").unwrap_or_default();
        let value = attribute(inside, "value").unwrap_or_default();
        match inside.split(' ').next().unwrap() {
            "input" if name == "token" || kind == "file" => {}
            "input" if kind == "checkbox" && !inside.ends_with("checked") => {}
            "input" => parts.push(text(&name, &value)),
            "textarea" => parts.push(text(&name, &unescape(&behind[1..]).replace("\r\n", "\n").replace('\n', "\r\n"))),
            "select" => {
                let (_, tail) = html.split_once(&format!("<{inside}>")).unwrap();
                let (options, _) = tail.split_once("</select>").unwrap();
                let chosen = options.split('<').find(|option| option.contains(" selected>")).unwrap();
                parts.push(text(&name, &attribute(chosen, "value").unwrap()));
            }
            _ => {}
        }
    }
    parts
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    plain.replace("&amp;", "&")
}

#[tokio::test]
async fn nothing_that_a_page_shows_becomes_html() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let evil = "</textarea></title>\"'><script>alert(1)</script>&amp;";
    let options = json!([{"value": evil, "text": evil}]);
    let questions = json!([
        {"name": evil, "label": evil, "help": evil}, {"name": "long", "type": "longtext", "label": evil},
        {"name": "one", "type": "choice", "label": evil, "options": options},
        {"name": "all", "type": "choices", "label": evil, "options": options},
        {"name": "at", "type": "datetime", "label": evil}, {"name": "file", "type": "file", "label": evil},
    ]);
    let config = json!({"task_type": "tt_form", "prompt": evil, "configuration": {"questions": questions, "instructions": evil}});
    let body = json!({
        "name": evil, "description": evil, "instructions": evil, "complete_by": "asap", "plugin_config": config,
    });
    let template = api.post(TEMPLATES, body).await.id();
    let (task, token) = linked(&server, &api, template).await;
    let name = "\"><script>x.csv";
    let parts = [
        text("token", &token),
        text("q0", evil),
        text("q1", evil),
        text("q2", evil),
        text("q3", evil),
        text("q4", ""),
        file("q5", &name.replace('"', "%22"), "a"),
        text("comment", evil),
    ];
    let wrong: Vec<TestPart> =
        parts.iter().map(|part| if part.has_name("q4") { text("q4", evil) } else { part.clone() }).collect();
    let shown = page(&server, &token).await;
    let refused = send(&server.anonymous(), &wrong).await;
    assert_eq!((refused.status, alerts(&refused).len()), (400, 2));
    assert_eq!(send(&server.anonymous(), &parts).await.status, 200);
    call_action(&api, task, "reopen", json!({})).await.ok();
    let again = page(&server, &server.mails().await.last().unwrap().token()).await;
    assert!(again.text.contains("Keep &quot;&gt;&lt;script&gt;x.csv"), "{}", again.text);
    for reply in [shown, refused, again] {
        assert!(!reply.text.contains("<script") && !reply.text.contains("\"'>"), "{}", reply.text);
        assert_eq!(reply.text.matches("</title>").count(), 1);
        assert_eq!(reply.text.matches("<textarea").count(), reply.text.matches("</textarea>").count());
    }
}

#[tokio::test]
async fn the_page_tells_nothing_of_what_its_link_does_not_open() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 4).await;
    let anonymous = server.anonymous();
    let open = anonymous.get("/task/").await;
    assert!(open.status == 200 && open.text.contains("Open the link from your mail."));
    for token in ["x", "unsent-1"] {
        let shown = page(&server, token).await;
        assert_eq!(shown.status, 400);
        let sent = send(&anonymous, &[text("token", token), text("q0", "a")]).await;
        assert_eq!((sent.status, sent.text), (400, shown.text));
    }
    // Four wrong tokens were sent.
    for reply in [page(&server, "x").await, send(&anonymous, &[text("token", "x")]).await] {
        assert!(reply.status == 429 && !reply.header("retry-after").is_empty(), "{}", reply.text);
        assert!(reply.text.contains("Too many requests."));
    }
    let other = server.build("b.example").await;
    assert_eq!(other.anonymous().call("HEAD", "/task/?token=x").send().await.status, 400);
    let foreign = anonymous.with_header("origin", "https://other.example");
    assert_eq!(send(&foreign, &[text("token", "x")]).await.status, 403);
}

#[tokio::test]
async fn a_task_that_is_too_large_for_a_page_says_so() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let options = |count: usize| (0..count).collect::<Vec<_>>();
    let choices = |name: &str, count: usize| json!({"name": name, "type": "choices", "options": options(count)});
    let most = with_questions(&api, json!([choices("a", 1_000), choices("b", 1_000)])).await;
    let more = with_questions(&api, json!([choices("a", 1_000), choices("b", 1_001)])).await;
    let long = with_questions(&api, json!([{"name": "a", "help": "x".repeat(256 * 1024)}])).await;
    let (_, token) = linked(&server, &api, most).await;
    let shown = page(&server, &token).await;
    assert_eq!((shown.status, shown.text.matches("type=\"checkbox\"").count()), (200, 2_000));
    for template in [more, long] {
        let (task, token) = linked(&server, &api, template).await;
        for reply in [page(&server, &token).await, send(&server.anonymous(), &[text("token", &token)]).await] {
            assert_eq!(reply.status, 400);
            assert_eq!(alerts(&reply), ["This task is too large for this page. Ask whoever sent you the link."]);
        }
        assert_eq!(api.get(&task_path(task)).await.ok()["status"], "open");
    }
}

#[tokio::test]
async fn the_page_shows_the_day_of_a_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({
        "name": "Survey", "complete_by": "date", "complete_by_date": "2026-12-31", "plugin_config": {"task_type": "tt_form"},
    });
    let template = api.post(TEMPLATES, body).await.id();
    let (task, token) = linked(&server, &api, template).await;
    assert_eq!(api.get(&task_path(task)).await.ok()["due_at"], "2026-12-31T23:59:59.999999Z");
    let shown = page(&server, &token).await;
    assert!(shown.text.contains("<p>Due: 2026-12-31</p>"), "{}", shown.text);
    api.patch(&task_path(task), json!({"due_at": "2026-12-31T23:59:59Z"})).await.ok();
    let shown = page(&server, &token).await;
    assert!(shown.text.contains("<p>Due: 2026-12-31 23:59 UTC</p>"), "{}", shown.text);
}
