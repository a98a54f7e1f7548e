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

const SOURCES: [(&str, &str); 8] = [
    ("package.json", include_str!("package.json")),
    ("package-lock.json", include_str!("package-lock.json")),
    ("browser.mjs", include_str!("browser.mjs")),
    ("pages.mjs", include_str!("pages.mjs")),
    ("docs.mjs", include_str!("docs.mjs")),
    ("task.mjs", include_str!("task.mjs")),
    ("component.mjs", include_str!("component.mjs")),
    ("agent.mjs", include_str!("agent.mjs")),
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
