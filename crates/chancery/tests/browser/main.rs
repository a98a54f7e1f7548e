//! The pages for people in Chromium: axe-core finds nothing, the console is silent, and journeys lead where they should.
//!
//! The journeys are the scripts beside this file, driven by `playwright-core` against the real binary. They need `node`,
//! `npm` and `/usr/bin/chromium` (Debian's package). `SCREENSHOTS=directory` keeps what each page looks like. They run on
//! the embedded engine alone: what the pages read is tested on both elsewhere.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use testkit::{
    ADMIN, Authority, Client, GIT_TOKEN, GIT_USERNAME, GitServer, Installation, Mail, PASSWORD, Process, npm,
    test_database,
};

const BINARY: &str = env!("CARGO_BIN_EXE_chancery");

const SOURCES: [(&str, &str); 12] = [
    ("package.json", include_str!("package.json")),
    ("package-lock.json", include_str!("package-lock.json")),
    ("browser.mjs", include_str!("browser.mjs")),
    ("pages.mjs", include_str!("pages.mjs")),
    ("docs.mjs", include_str!("docs.mjs")),
    ("task.mjs", include_str!("task.mjs")),
    ("component.mjs", include_str!("component.mjs")),
    ("agent.mjs", include_str!("agent.mjs")),
    ("console.mjs", include_str!("console.mjs")),
    ("console_steps.mjs", include_str!("console_steps.mjs")),
    ("console_large.mjs", include_str!("console_large.mjs")),
    ("console_component.mjs", include_str!("console_component.mjs")),
];

/// Runs a script; what it says if it fails.
fn run(script: &str, mut settings: Value) {
    settings["screenshots"] = std::env::var("SCREENSHOTS").map_or(Value::Null, Value::from);
    let program = npm::installed("browser", &SOURCES).join(script);
    let output = Command::new("node").arg(program).arg(settings.to_string()).output();
    let output = output.unwrap_or_else(|error| panic!("node does not start (it must be installed): {error}"));
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn wait_until(what: &str, happened: impl AsyncFn() -> bool) {
    for _ in 0..1000 {
        if happened().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} is still missing");
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
    admin.post("/api/users/", ann).await.created();
    admin.post("/api/auth/password-reset/", json!({"username": ADMIN})).await.is_empty();
    let mails = || Mail::all(&installation.data(), "localhost");
    wait_until("two mails", async || mails().len() == 2).await;
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
    let mails = || Mail::all(&installation.data(), "localhost");
    wait_until("a mail", async || mails().len() == 1).await;
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
    wait_until("the tenant of the build", async || tenant().is_some()).await;
    let client_id = &tenant().unwrap();
    let history = Client::new(server.history(), "127.0.0.1").with_header("x-api-key", api_key.trim());
    let history = history.with_header("x-client-id", client_id);
    wait_until("an event", async || history.get("/api/system-events").await["total_count"].as_i64() > Some(0)).await;
    run(
        "docs.mjs",
        json!({
            "api": address(&server), "history": format!("http://{}", server.history()),
            "username": ADMIN, "token": admin.token, "apiKey": api_key.trim(), "clientId": client_id,
        }),
    );
}

/// What would run where a text of somebody were taken as HTML.
const HOSTILE: &str = "<img src=x onerror=\"ran=1;alert(1)\"><script>ran=1</script>";

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_for_everybody() {
    if test_database().is_some() {
        return;
    }
    let installation = Installation::embedded(BINARY).and_build();
    let server = installation.serve();
    let admin = server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    for number in 1..=30 {
        let person = json!({
            "username": format!("person{number}@example.com"), "account_type": "internal", "delay_activation": true,
            "first_name": "Person", "last_name": format!("Number {number}"), "company_name": HOSTILE,
        });
        admin.post("/api/users/", person).await.created();
    }
    admin.post("/api/roles/", json!({"name": HOSTILE, "description": HOSTILE})).await.created();
    admin.post("/api/user-groups/", json!({"name": HOSTILE, "description": HOSTILE})).await.created();
    admin.post("/api/object-classes/", json!({"name": HOSTILE})).await.created();
    admin.post("/api/object-classes/", json!({"name": "Order"})).await.created();
    let option = json!({"value": "new", "text": HOSTILE});
    for field in [
        json!({"label": "Title", "type": "string", "description": HOSTILE}),
        json!({"label": "Total", "type": "decimal"}),
        json!({"label": "Due", "type": "date"}),
        json!({"label": "Is paid", "type": "boolean"}),
        json!({"label": "State", "type": "enum", "options": [option]}),
        json!({"label": "Papers", "type": "document", "max_num_of_files": 5}),
    ] {
        admin.post("/api/object-classes/2/fields/", field).await.created();
    }
    admin.patch("/api/object-classes/2/", json!({"label_field": "title"})).await.ok();
    for number in 1..=30 {
        let fields =
            json!({"title": format!("{HOSTILE} {number}"), "total": number, "due": "2026-02-28", "is_paid": true});
        admin.post("/api/object-classes/2/object-records/", json!({"fields": fields})).await.created();
    }
    admin.delete("/api/object-records/30/").await.is_empty();
    admin.post("/api/object-classes/2/record-permission-sets/", json!({"name": HOSTILE})).await.created();
    let config = json!({"task_type": "tt_form", "prompt": HOSTILE, "configuration": {"questions": [{"name": "why"}]}});
    let template = json!({"name": HOSTILE, "complete_by": "asap", "plugin_config": config});
    admin.post("/api/task-templates/", template).await.created();
    for record in [1, 2] {
        let task = json!({"task_template": 1, "object_record": record, "assignees": [1]});
        admin.post("/api/tasks/", task).await.created();
    }
    let agents =
        json!({"type": "ai_mcp", "name": HOSTILE, "object_classes": [2], "redirect_uris": ["http://127.0.0.1/"]});
    let agents = admin.post("/api/integrations/", agents).await.created()["uuid"].take();
    admin.post("/api/mcp/connectors/", json!({"name": HOSTILE, "integration": agents})).await.created();
    let integration = format!("/admin/integrations/{}", agents.as_str().unwrap());
    let provider = json!({
        "name": HOSTILE, "client_id": "a", "client_secret": "b", "tenant_id": "c", "provider": "provider_a",
    });
    admin.post("/api/single-sign-on/", provider).await.created();
    let screens = [
        "/",
        "/me",
        "/admin/users",
        "/admin/users/2",
        "/admin/users/new",
        "/admin/roles",
        "/admin/roles/1",
        "/admin/roles/new",
        "/admin/groups/1",
        "/admin/single-sign-on/1",
        "/admin/single-sign-on/new",
        "/admin/sign-in",
        "/admin/sign-ins",
        "/admin/mail",
        "/admin/company",
        "/admin/authentication-objects/new",
        "/admin/log",
        "/admin/limits",
        "/admin/interface",
        "/admin/interface/home",
        "/admin/interface/lists?class=2",
        "/admin/interface/records?class=2",
        "/admin/interface/theme",
        "/admin/classes",
        "/admin/classes/1",
        "/admin/task-templates/new",
        "/admin/integrations/new",
        "/admin/connectors/new",
        "/admin/components",
        "/admin/components/new",
        "/admin/components/repositories",
        "/admin/classes/2",
        "/admin/task-templates/1",
        "/admin/connectors/1",
        &integration,
        "/records",
        "/records/order",
        "/records/order/new",
        "/records/order/1",
        "/records/order/import",
        "/records/order/deleted",
        "/search?text=img",
        "/tasks",
        "/tasks/board",
        "/tasks/1",
        "/nowhere",
    ];
    run(
        "console.mjs",
        json!({
            "api": address(&server), "username": ADMIN, "password": PASSWORD, "screens": &screens[..], "hostile": HOSTILE,
        }),
    );
}

/// A name of a hundred characters in a script that is written from right to left.
fn long_name(number: usize) -> String {
    format!("{number} {}", "קטלוג מסמכים ישנים של החברה ".repeat(5)).chars().take(100).collect()
}

/// Makes what is numbered from 1 to `count`, a few at once.
async fn many<F: Future<Output = ()> + Send + 'static>(count: usize, make: impl Fn(usize) -> F) {
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
            async move { drop(admin.post(path, body(number)).await.created()) }
        }
    };
    many(500, create("/api/object-classes/", |number| json!({"name": long_name(number)}))).await;
    many(200, create("/api/roles/", |number| json!({"name": long_name(number)}))).await;
    many(
        500,
        create(
            "/api/object-classes/1/fields/",
            |number| json!({"label": long_name(number), "alias": format!("field_{number}"), "type": "string"}),
        ),
    )
    .await;
    admin.patch("/api/object-classes/1/", json!({"label_field": "field_1"})).await.ok();
    let alias = admin.get("/api/object-classes/1/").await.ok()["alias"].take();
    let fields = json!({"field_1": long_name(1), "field_500": "last"});
    let record = admin.post("/api/object-classes/1/object-records/", json!({"fields": fields})).await.id();
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
    wait_until("the tenant of the build", async || tenant().is_some()).await;
    let history = Client::new(server.history(), "127.0.0.1").with_header("x-api-key", api_key.trim());
    let history = history.with_header("x-client-id", &tenant().unwrap());
    many(10_000, |number| {
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
            history.post("/api/event-bridge/create-event", event).await.created();
        }
    })
    .await;
    run(
        "console_large.mjs",
        json!({"api": address(&server), "username": ADMIN, "password": PASSWORD, "alias": alias, "record": record, "person": person}),
    );
}

/// The page of a component, whose script tries what none may do, and shows what came of it.
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

/// The page of a component in the console, whose script speaks the protocol and tries what goes beyond it.
const CONSOLE_COMPONENT: [(&str, &str); 4] = [
    ("config.json", r#"{"version": "1", "publisher": "P"}"#),
    (
        "index.html",
        "<!doctype html><title>App</title><button id=choose>Choose</button><button id=wrong>Wrong</button>\
         <button id=leave>Leave</button><script src=app.js></script>",
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
    admin.post("/api/custom-components/repository/", body).await.created();
    let uses = json!({
        "landing_page": true, "object_class_create_form": false, "object_class_summary_form": false,
        "object_class_standalone_form": false, "task_template_form": false,
    });
    let body = json!({"name": "App", "repository": 1, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", body).await.created();
    let one = "/api/custom-components/1/";
    wait_until("its files", async || admin.get(one).await["status"] == "installed").await;
    let shown = admin.get(one).await.ok();
    let path = shown["index_url"].as_str().unwrap().split_once("/components/").unwrap().1.to_owned();
    let index = format!("{}/components/{path}", address(&server));
    run("component.mjs", json!({"api": address(&server), "index": index, "token": admin.token}));

    git.commit("console.git", &CONSOLE_COMPONENT.map(|(path, text)| (path, text.as_bytes())));
    let body = json!({"repository_url": git.url("console.git"), "username": GIT_USERNAME, "token": GIT_TOKEN});
    admin.post("/api/custom-components/repository/", body).await.created();
    let uses = json!({
        "landing_page": true, "object_class_create_form": true, "object_class_summary_form": false,
        "object_class_standalone_form": true, "task_template_form": false,
    });
    let body = json!({"name": "In the console", "repository": 2, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", body).await.created();
    let two = "/api/custom-components/2/";
    wait_until("its files", async || admin.get(two).await["status"] == "installed").await;
    admin.post("/api/object-classes/", json!({"name": "Berth"})).await.created();
    admin.post("/api/object-classes/1/fields/", json!({"label": "Place", "type": "string"})).await.created();
    let configuration = json!({"version": 1, "sections": [{"items": [{"component": 2, "field": "place"}]}]});
    let form = json!({
        "name": "New berth", "object_class": 1, "type": "create", "configuration": configuration, "is_enabled": true,
        "custom_components": [2],
    });
    let form = admin.post("/api/object-class-forms/", form).await.created()["uuid"].take();
    run(
        "console_component.mjs",
        json!({"api": address(&server), "username": ADMIN, "password": PASSWORD, "component": 2, "silent": 1, "form": form}),
    );
    assert_eq!(admin.get("/api/object-records/1/").await.ok()["fields"]["place"], "Harbour");
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
    let integration = admin.post("/api/integrations/", agents).await.created()["uuid"].clone();
    let body = json!({"name": "Assistant", "integration": integration});
    let connector = admin.post("/api/mcp/connectors/", body).await.created();
    run(
        "agent.mjs",
        json!({
            "api": address(&server), "username": ADMIN, "password": PASSWORD,
            "clientId": connector["client_id"], "clientSecret": connector["client_secret"],
        }),
    );
}
