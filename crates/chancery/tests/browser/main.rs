//! The pages for people in Chromium: axe-core reports no errors, the browser's console is empty, and journeys reach their pages.
//!
//! The journeys are the scripts beside this file. `playwright-core` runs them against the real binary. They need `node`, `npm` and
//! `/usr/bin/chromium` (Debian's package). `SCREENSHOTS=directory` saves an image of each page. With `EVERY_LOOK=1` the pages are
//! also tested dark, with large text and in forced colours (`./test all journeys`). They run only on the embedded engine, because
//! other tests cover the data of the pages on both.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use testkit::{
    ADMIN, ApiClient, Authority, GIT_TOKEN, GIT_USERNAME, GitServer, Installation, MailFile, PASSWORD, Process,
    eventually, npm, test_database,
};

const BINARY: &str = env!("CARGO_BIN_EXE_chancery");

mod accounts;
mod everywhere;
mod office;

const SOURCES: [(&str, &str); 19] = [
    ("package.json", include_str!("package.json")),
    ("package-lock.json", include_str!("package-lock.json")),
    ("browser.mjs", include_str!("browser.mjs")),
    ("pages.mjs", include_str!("pages.mjs")),
    ("docs.mjs", include_str!("docs.mjs")),
    ("task.mjs", include_str!("task.mjs")),
    ("component.mjs", include_str!("component.mjs")),
    ("agent.mjs", include_str!("agent.mjs")),
    ("console_steps.mjs", include_str!("console_steps.mjs")),
    ("console_screens.mjs", include_str!("console_screens.mjs")),
    ("console_looks.mjs", include_str!("console_looks.mjs")),
    ("console_keys.mjs", include_str!("console_keys.mjs")),
    ("console_hurt.mjs", include_str!("console_hurt.mjs")),
    ("console_attacks.mjs", include_str!("console_attacks.mjs")),
    ("console_large.mjs", include_str!("console_large.mjs")),
    ("console_office.mjs", include_str!("console_office.mjs")),
    ("console_component.mjs", include_str!("console_component.mjs")),
    ("console_values.mjs", include_str!("console_values.mjs")),
    ("console_accounts.mjs", include_str!("console_accounts.mjs")),
];

/// Returns whether pages are tested in every appearance and with the maximum number of objects.
fn every_look() -> bool {
    std::env::var_os("EVERY_LOOK").is_some()
}

/// Runs a script and prints the time of each journey. Panics with its output if it fails.
fn run(script: &str, settings: Value) {
    run_asking(script, settings, |asked| panic!("{script} asks for {asked}"));
}

/// Runs a script that requests actions by lines that begin with `! `.
fn run_asking(script: &str, mut settings: Value, mut on_question: impl FnMut(&str)) {
    settings["screenshots"] = std::env::var("SCREENSHOTS").map_or(Value::Null, Value::from);
    settings["everyLook"] = Value::from(every_look());
    let program = npm::ensure_installed("browser", &SOURCES).join(script);
    let mut node = Command::new("node");
    node.arg(program).arg(settings.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut node = node.spawn().unwrap_or_else(|error| panic!("node does not start (it must be installed): {error}"));
    let (mut input, output) = (node.stdin.take().unwrap(), BufReader::new(node.stdout.take().unwrap()));
    for line in output.lines().map(Result::unwrap) {
        match line.strip_prefix("! ") {
            Some(what) => {
                on_question(what);
                writeln!(input).unwrap();
            }
            None => println!("{script}: {line}"),
        }
    }
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn address(server: &Process) -> String {
    format!("http://127.0.0.1:{}", server.api().port())
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_activate_and_reset() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    admin.patch("/api/security/", json!({"password_complexity": {"min_length": 12}})).await.ok();
    let details = json!({"admin_email_address": "ada@company.example"});
    admin.patch("/api/administration/company-details/", details).await.ok();
    let ann =
        json!({"username": "ann@example.com", "account_type": "internal", "first_name": "Ann", "last_name": "Berg"});
    admin.post("/api/users/", ann).await.expect_created();
    admin.post("/api/auth/password-reset/", json!({"username": ADMIN})).await.expect_empty();
    let mails = || MailFile::read_all(&installation.data(), "localhost");
    eventually(async || mails().len() == 2).await;
    let token = |receiver| mails().iter().find(|mail| mail.to == receiver).unwrap().token();
    let (activation, reset) = (token("ann@example.com"), token(ADMIN));
    run(
        "pages.mjs",
        json!({"api": address(&server), "username": ADMIN, "password": PASSWORD, "activation": activation, "reset": reset}),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_time_account_completes_a_task() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let guest = json!({"username": "guest@example.com", "account_type": "one_time_completion", "first_name": "G", "last_name": "G"});
    let guest = admin.post("/api/users/", guest).await.id();
    let options = json!([{"value": "all", "text": "Everything"}, {"value": "vegan", "text": "Vegan"}]);
    let questions = json!([
        {"name": "city", "label": "City", "required": true, "help": "Where you live"}, {"name": "why", "type": "longtext"},
        {"name": "many", "type": "integer"}, {"name": "meal", "type": "choice", "options": options},
        {"name": "meals", "type": "choices", "options": options}, {"name": "day", "type": "date"},
        {"name": "at", "type": "datetime"}, {"name": "proof", "label": "Proof", "type": "file"},
    ]);
    let config = json!({"task_type": "tt_form", "prompt": "Tell us.", "configuration": {"questions": questions}});
    let template = json!({"name": "Visit", "complete_by": "asap", "plugin_config": config});
    let template = admin.post("/api/task-templates/", template).await.id();
    let task = admin.post("/api/tasks/", json!({"task_template": template, "assignees": [guest]})).await.id();
    let mails = || MailFile::read_all(&installation.data(), "localhost");
    eventually(async || mails().len() == 1).await;
    run("task.mjs", json!({"api": address(&server), "link": mails()[0].token()}));
    let done = admin.get(&format!("/api/tasks/{task}/")).await.ok();
    let uuid = done["response"]["proof"]["file"].as_str().unwrap().to_owned();
    let answers = json!({
        "city": "Basel \"&\" <Bern>", "why": "one\ntwo", "many": 3, "meal": "vegan", "meals": ["vegan"],
        "day": "2026-02-28", "at": "2026-02-28T12:30:00.000000Z", "proof": {"file": uuid},
    });
    assert_eq!((&done["response"], &done["comment"]), (&answers, &json!("Well.")));
    let file = admin.get(&format!("/api/files/response/file/{uuid}/")).await;
    assert_eq!(file.text, "a;b");
    assert!(file.header("content-disposition").contains("%22b%22"), "{}", file.header("content-disposition"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_descriptions_are_searched_and_tried_out() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let api_key = std::fs::read_to_string(installation.data().join("history-api-key")).unwrap();
    let tenant = || {
        let builds: Value = serde_json::from_str(&installation.succeeds(&["build", "list", "--json"])).unwrap();
        builds[0]["history"]["client_id"].as_str().map(str::to_owned)
    };
    let client_id = &eventually(async || tenant()).await;
    let history = ApiClient::new(server.history(), "127.0.0.1").with_header("x-api-key", api_key.trim());
    let history = history.with_header("x-client-id", client_id);
    eventually(async || history.get("/api/system-events").await["total_count"].as_i64() > Some(0)).await;
    run(
        "docs.mjs",
        json!({
            "api": address(&server), "history": format!("http://{}", server.history()),
            "username": ADMIN, "token": admin.token, "apiKey": api_key.trim(), "clientId": client_id,
        }),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_for_everybody() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let mut settings = everywhere::fill_build(&server, &admin).await;
    for (name, value) in [("api", &address(&server)[..]), ("username", ADMIN), ("password", PASSWORD)] {
        settings[name] = value.into();
    }
    run("console_screens.mjs", settings.clone());
    run("console_looks.mjs", settings);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_needs_no_mouse_and_lets_no_other_site_in() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let settings = json!({"api": address(&server), "username": ADMIN, "password": PASSWORD});
    run("console_keys.mjs", settings.clone());
    run("console_attacks.mjs", settings);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_stores_what_is_typed_and_imports_what_it_exports() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let settings = json!({"api": address(&server), "username": ADMIN, "password": PASSWORD});
    run("console_values.mjs", settings);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_loses_nothing_that_was_typed() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let free = installation.serve();
    let listen = free.api().to_string();
    free.stop();
    let installation = installation.listening_at(&listen);
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    for number in 1..=5 {
        let person = json!({
            "username": format!("person{number}@example.com"), "account_type": "internal", "delay_activation": true,
            "first_name": "Person", "last_name": format!("Number {number}"),
        });
        admin.post("/api/users/", person).await.expect_created();
    }
    let second = "second@example.com";
    let person = json!({"username": second, "account_type": "internal", "first_name": "Second", "last_name": "Person"});
    admin.post("/api/users/", person).await.expect_created();
    let mails = || MailFile::read_all(&installation.data(), "localhost");
    eventually(async || mails().len() == 1).await;
    let activation = json!({"token": mails()[0].token(), "password": PASSWORD});
    admin.anonymous().post("/api/auth/activate/", activation).await.expect_empty();
    let settings =
        json!({"api": format!("http://{listen}"), "username": ADMIN, "password": PASSWORD, "second": second});
    let mut running = Some(server);
    run_asking("console_hurt.mjs", settings, |asked| match asked {
        "stop" => running.take().unwrap().kill(),
        "start" => running = Some(installation.serve()),
        _ => panic!("nobody knows how to {asked}"),
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_what_is_so() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    office::fill_build(&admin).await;
    let mails = || MailFile::read_all(&installation.data(), "localhost");
    eventually(async || mails().len() == 2).await;
    for mail in mails() {
        let activation = json!({"token": mail.token(), "password": PASSWORD});
        admin.anonymous().post("/api/auth/activate/", activation).await.expect_empty();
    }
    run(
        "console_office.mjs",
        json!({
            "api": address(&server), "username": ADMIN, "password": PASSWORD, "fia": office::FIA, "anna": office::ANNA,
        }),
    );
}

/// Returns a name of a hundred characters in a script that is written from right to left.
fn long_name(number: usize) -> String {
    format!("{number} {}", "קטלוג מסמכים ישנים של החברה ".repeat(5)).chars().take(100).collect()
}

/// Creates the objects with the numbers 1 to `count`, a few at once.
async fn create_numbered<F: Future<Output = ()> + Send + 'static>(count: usize, make: impl Fn(usize) -> F) {
    let mut making = tokio::task::JoinSet::new();
    for number in 1..=count {
        if making.len() == 16 {
            making.join_next().await.unwrap().unwrap();
        }
        making.spawn(make(number));
    }
    while let Some(made) = making.join_next().await {
        made.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_a_large_build_in_pages() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    installation.succeeds(&["build", "limits", "localhost", "roles", "200"]);
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let create = |path: &'static str, body: fn(usize) -> Value| {
        let admin = admin.clone();
        move |number| {
            let admin = admin.clone();
            async move { drop(admin.post(path, body(number)).await.expect_created()) }
        }
    };
    // The maximum number, or a page and a half.
    let most = if every_look() { 500 } else { 150 };
    create_numbered(most, create("/api/object-classes/", |number| json!({"name": long_name(number)}))).await;
    create_numbered(200, create("/api/roles/", |number| json!({"name": long_name(number)}))).await;
    create_numbered(
        most,
        create(
            "/api/object-classes/1/fields/",
            |number| json!({"label": long_name(number), "alias": format!("field_{number}"), "type": "string"}),
        ),
    )
    .await;
    // A class can have at most ten relations.
    let choosing = |number: usize| {
        let kind = match number {
            1..=10 => json!({"type": "relation", "related_object_class": 3}),
            11..=100 => json!({"type": "user"}),
            _ => json!({"type": "string"}),
        };
        let mut field = json!({"label": long_name(number), "alias": format!("field_{number}")});
        field.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        field
    };
    create_numbered(most, create("/api/object-classes/2/fields/", choosing)).await;
    admin.patch("/api/object-classes/1/", json!({"label_field": "field_1"})).await.ok();
    let alias = admin.get("/api/object-classes/1/").await.ok()["alias"].take();
    let fields = json!({"field_1": long_name(1), format!("field_{most}"): "last"});
    let record = admin.post("/api/object-classes/1/object-records/", json!({"fields": fields})).await.id();
    let wide = admin.get("/api/object-classes/2/").await.ok()["alias"].take();
    let fields = json!({"field_11": 1, "field_101": "Wide"});
    let wide_record = admin.post("/api/object-classes/2/object-records/", json!({"fields": fields})).await.id();
    let person = json!({
        "username": "person@example.com", "account_type": "full", "delay_activation": true,
        "first_name": long_name(1), "last_name": long_name(2), "roles": (1..=100).collect::<Vec<_>>(),
    });
    let person = admin.post("/api/users/", person).await.id();

    let api_key = std::fs::read_to_string(installation.data().join("history-api-key")).unwrap();
    let tenant = || {
        let builds: Value = serde_json::from_str(&installation.succeeds(&["build", "list", "--json"])).unwrap();
        builds[0]["history"]["client_id"].as_str().map(str::to_owned)
    };
    let client_id = eventually(async || tenant()).await;
    let history = ApiClient::new(server.history(), "127.0.0.1").with_header("x-api-key", api_key.trim());
    let history = history.with_header("x-client-id", &client_id);
    create_numbered(if every_look() { 10_000 } else { 1000 }, |number| {
        let history = history.clone();
        async move {
            let value = json!({"field_id": 1, "field_type": "string", "field_value": number.to_string(), "field_name": "field_1"});
            let event = json!({
                "version": "0", "id": "1", "detail-type": "record", "source": "", "account": "", "region": "",
                "time": "2026-01-31T09:30:00Z", "resources": [],
                "detail": {
                    "event_id": format!("00000000-0000-4000-8000-{number:012}"), "event_time": "2026-01-31T09:30:00Z",
                    "event_type_id": 7, "record_id": record, "source_id": 1, "source_type_id": 1,
                    "event_data": [value.to_string()],
                },
            });
            history.post("/api/event-bridge/create-event", event).await.expect_created();
        }
    })
    .await;
    run(
        "console_large.mjs",
        json!({
            "api": address(&server), "username": ADMIN, "password": PASSWORD, "alias": alias, "record": record, "wide": wide,
            "wideRecord": wide_record, "person": person,
        }),
    );
}

/// The page of a component. Its script tries forbidden actions and shows the results.
const COMPONENT: [(&str, &str); 5] = [
    ("config.json", r#"{"version": "1", "publisher": "P"}"#),
    (
        "index.html",
        "<!doctype html><title>wait</title><link rel=stylesheet href=style.css><pre id=found></pre>\
         <form method=post action=/api/auth/login/ target=_self></form><script type=module src=app.js></script>",
    ),
    ("style.css", "#found { color: rgb(1, 2, 3) }"),
    ("module.js", "export const loaded = 'loaded'"),
    ("app.js", include_str!("component_app.js")),
];

/// The page of a component in the console. Its script uses the protocol and tries actions beyond it.
const CONSOLE_COMPONENT: [(&str, &str); 4] = [
    ("config.json", r#"{"version": "1", "publisher": "P"}"#),
    (
        "index.html",
        "<!doctype html><title>App</title><button id=choose>Choose</button><button id=wrong>Wrong</button>\
         <button id=leave>Leave</button><button id=flood>Flood</button><button id=beside>Beside</button>\
         <script src=app.js></script>",
    ),
    ("other.html", "<!doctype html><title>Other</title>"),
    ("app.js", include_str!("console_component_app.js")),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_component_reaches_nothing_of_its_viewers() {
    if test_database().is_some() {
        return;
    }
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let git = GitServer::start(&authority).await;
    git.commit("app.git", &COMPONENT.map(|(path, text)| (path, text.as_bytes())));
    let installation = Installation::embedded(BINARY)
        .set("SSL_CERT_FILE", authority.write_root(certificates.path()).to_str().unwrap())
        .set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8")
        .and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let body = json!({"repository_url": git.url("app.git"), "username": GIT_USERNAME, "token": GIT_TOKEN});
    admin.post("/api/custom-components/repository/", body).await.expect_created();
    let uses = json!({
        "landing_page": true, "object_class_create_form": false, "object_class_summary_form": false,
        "object_class_standalone_form": false, "task_template_form": false,
    });
    let body = json!({"name": "App", "repository": 1, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", body).await.expect_created();
    let one = "/api/custom-components/1/";
    eventually(async || admin.get(one).await["status"] == "installed").await;
    let shown = admin.get(one).await.ok();
    let path = shown["index_url"].as_str().unwrap().split_once("/components/").unwrap().1.to_owned();
    let index = format!("{}/components/{path}", address(&server));
    run("component.mjs", json!({"api": address(&server), "index": index, "token": admin.token}));

    git.commit("console.git", &CONSOLE_COMPONENT.map(|(path, text)| (path, text.as_bytes())));
    let body = json!({"repository_url": git.url("console.git"), "username": GIT_USERNAME, "token": GIT_TOKEN});
    admin.post("/api/custom-components/repository/", body).await.expect_created();
    let uses = json!({
        "landing_page": true, "object_class_create_form": true, "object_class_summary_form": false,
        "object_class_standalone_form": true, "task_template_form": false,
    });
    let body = json!({"name": "In the console", "repository": 2, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", body).await.expect_created();
    let two = "/api/custom-components/2/";
    eventually(async || admin.get(two).await["status"] == "installed").await;
    admin.post("/api/object-classes/", json!({"name": "Berth"})).await.expect_created();
    admin.post("/api/object-classes/1/fields/", json!({"label": "Place", "type": "string"})).await.expect_created();
    admin.post("/api/object-classes/1/fields/", json!({"label": "Price", "type": "string"})).await.expect_created();
    let record = json!({"fields": {"place": "Quay", "price": "not for the component"}});
    admin.post("/api/object-classes/1/object-records/", record).await.expect_created();
    let content = json!({"version": 1, "summary": {"component": 2, "parameters": {"zoom": 3}, "fields": ["place"]}});
    let beside = json!({"content": content.to_string(), "custom_components": [2]});
    admin.post("/ui-config/record-1/", beside).await.expect_created();
    let configuration = json!({"version": 1, "sections": [{"items": [{"component": 2, "field": "place"}]}]});
    let form = json!({
        "name": "New berth", "object_class": 1, "type": "create", "configuration": configuration, "is_enabled": true,
        "custom_components": [2],
    });
    let form = admin.post("/api/object-class-forms/", form).await.expect_created()["uuid"].take();
    run(
        "console_component.mjs",
        json!({"api": address(&server), "username": ADMIN, "password": PASSWORD, "component": 2, "silent": 1, "form": form}),
    );
    assert_eq!(admin.get("/api/object-records/2/").await.ok()["fields"]["place"], "Harbour");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_lets_an_agent_work_for_him() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let agents = json!({
        "type": "ai_mcp", "name": "Agents", "is_enabled": true, "redirect_uris": ["http://127.0.0.1/callback"],
    });
    let integration = admin.post("/api/integrations/", agents).await.expect_created()["uuid"].clone();
    let body = json!({"name": "Assistant", "integration": integration});
    let connector = admin.post("/api/mcp/connectors/", body).await.expect_created();
    run(
        "agent.mjs",
        json!({
            "api": address(&server), "username": ADMIN, "password": PASSWORD,
            "clientId": connector["client_id"], "clientSecret": connector["client_secret"],
        }),
    );
}
