//! `chancery demo`: a build for people who want to try the product (`docs/operations.md`, "Commands").

use crate::BINARY;
use crate::first_start::word_after;
use serde_json::{Value as Json, json};
use std::process::{Command, Stdio};
use testkit::paragraphs;
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, eventually};

const DOMAIN: &str = "demo.localhost";

#[tokio::test]
async fn a_demo_has_what_it_says() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();

    let report: Json = serde_json::from_str(&installation.succeeds(&["demo", "--json"])).unwrap();

    let made = json!({
        "users": 13, "roles": 2, "user_groups": 3, "object_classes": 3, "object_records": 1000, "document_templates": 1,
        "object_class_forms": 1, "task_templates": 3, "tasks": 12, "integrations": 1, "mcp_connectors": 1,
    });
    assert_eq!(report["made"], made);
    assert_eq!((&report["domain"], &report["address"]), (&json!(DOMAIN), &json!("http://demo.localhost:8000/")));
    let usernames = report["accounts"].as_array().unwrap().iter().map(|account| account["username"].clone());
    assert_eq!(Json::from_iter(usernames), json!([ADMIN, "anna.berg@demo.example", "jonas.weber@demo.example"]));
    // The operator has set the super admin's password.
    assert_eq!(report["accounts"][0]["password"], Json::Null);

    let admin = server.client(DOMAIN).sign_in(ADMIN, PASSWORD).await;
    for resource in ["users", "roles", "user_groups", "object_classes", "task_templates", "tasks", "integrations"] {
        let path = format!("/api/{}/", resource.replace('_', "-"));
        assert_eq!(admin.get(&path).await.ok()["total_count"], made[resource], "{resource}");
    }
    for (path, count) in [
        ("/api/object-class-forms/", 1),
        ("/api/mcp/connectors/", 1),
        ("/api/object-classes/1/object-records/", 80),
        ("/api/object-classes/2/object-records/", 220),
        ("/api/object-classes/3/object-records/", 700),
        ("/api/object-classes/2/document-templates/?warning=", 1),
        ("/api/users/?status=inactive", 1),
        ("/api/users/?status=pending", 2),
        ("/api/users/?status=invited", 0),
        ("/api/tasks/?status=open", 6),
        ("/api/tasks/?status=in_approval", 1),
        ("/api/tasks/?status=completed", 3),
        ("/api/tasks/?status=rejected", 1),
        ("/api/tasks/?status=canceled", 1),
        ("/api/object-classes/2/object-records/?signed_copy__isnull=false", 3),
    ] {
        assert_eq!(admin.get(path).await.ok()["filtered_count"], count, "{path}");
    }
    assert_eq!(admin.get("/api/administration/company-details/").await.ok()["admin_first_name"], "Anna");

    // The accounts may view the demo's data for them.
    for (account, open_tasks) in [(1, 3), (2, 4)] {
        let person = &report["accounts"][account];
        let signed_in = server.client(DOMAIN);
        let signed_in =
            signed_in.sign_in(person["username"].as_str().unwrap(), person["password"].as_str().unwrap()).await;
        assert_eq!(signed_in.get("/api/users/me/").await.ok()["account_type"], person["account_type"]);
        assert_eq!(signed_in.get("/api/object-classes/").await.ok()["total_count"], 3);
        let open = signed_in.get("/api/tasks/?assignees=me&status=open").await.ok();
        assert_eq!(open["filtered_count"], open_tasks, "{person}");
    }
    let readers = "/api/object-classes/3/record-permission-sets/";
    let sets = admin.get(readers).await.ok();
    assert_eq!(sets["results"][0]["mcp_permissions"][0]["permissions"]["object_records"], json!(["view"]));
    assert!(!installation.data().join("mail").exists(), "a mail was written");
    assert!(document(&admin).await[0].starts_with("Contract C-1001"));
    assert_eq!(fields(&admin, 3).await, other_demo(&installation, &server).await);

    let again = installation.fails(&["demo", "Demo.localhost"]);
    let refusal = "chancery: demo.localhost: there is such a build already; name another domain (`chancery demo DOMAIN`), \
                   or delete it first (`chancery build delete demo.localhost --yes`)\n";
    assert_eq!(again, refusal);
}

/// Returns the texts of a document that is generated for the first contract.
async fn document(admin: &ApiClient) -> Vec<String> {
    let contracts = admin.get("/api/object-classes/2/object-records/?number=C-1001").await.ok();
    let contract = &contracts["results"][0]["id"];
    let run = json!({"object_record": contract, "document_template": 1});
    admin.post("/api/object-records/documents/", run).await.expect_created();
    let path = format!("/api/object-records/{contract}/documents/1/");
    let url = eventually(async || {
        let run = admin.get(&path).await.ok()["generated_document"].take();
        run["_meta"]["labels"]["document"]["url"].as_str().map(str::to_owned).ok_or(run)
    })
    .await;
    paragraphs(&admin.get(&url[url.find("/api/").unwrap()..]).await.bytes)
}

/// Returns the values of the records of a class, except users and files.
async fn fields(admin: &ApiClient, class: i64) -> Vec<Json> {
    let listed = admin.get(&format!("/api/object-classes/{class}/object-records/?limit=100&offset=600")).await.ok();
    listed["results"].as_array().unwrap().iter().map(|record| record["fields"].clone()).collect()
}

/// Returns the invoices of another demo.
async fn other_demo(installation: &Installation, server: &Process) -> Vec<Json> {
    installation.succeeds(&["demo", "other.localhost"]);
    let admin = server.client("other.localhost").sign_in(ADMIN, PASSWORD).await;
    fields(&admin, 3).await
}

#[tokio::test]
async fn a_demo_that_fails_leaves_nothing() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let tenants = || {
        let entries = std::fs::read_dir(installation.data().join("history/tenants")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|found| found == "db")).count()
    };
    // Waits until the existing build has its tenant. The next tenant then belongs to the build of the demo.
    server.client("localhost").sign_in(ADMIN, PASSWORD).await;
    eventually(async || !installation.succeeds(&["build", "list"]).ends_with("\t\n")).await;

    // The demo creates Anna, whose user name already exists.
    let failed = installation.fails(&["demo", "--admin-username", "anna.berg@demo.example"]);

    let refusal = "chancery: POST /api/users/: 400 {\"username\":[\"This field must be unique.\"]}; the build \
                   demo.localhost was removed again\n";
    assert_eq!(failed, refusal);
    assert_eq!(installation.succeeds(&["build", "list"]).lines().count(), 1);
    assert_eq!(tenants(), 1);
    installation.succeeds(&["demo"]);
}

#[tokio::test]
async fn a_demo_comes_before_the_first_start() {
    let installation = Installation::embedded(BINARY);

    let printed = installation.succeeds(&["demo", "acme.localhost"]);

    assert!(printed.starts_with("The build acme.localhost was made: 13 people and programs, "), "{printed}");
    assert!(printed.contains("Open http://acme.localhost:8000/ "), "{printed}");
    let (_, counts) = printed.lines().next().unwrap().split_once(": ").unwrap();
    let page = include_str!("../../../../docs/operations.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(counts.trim_end_matches('.')), "docs/operations.md does not say {counts}");
    let server = installation.serve();
    // The build localhost does not exist here, so that address would be a 404.
    let open = format!("Open http://acme.localhost:{}/\n", server.api().port());
    assert!(server.stdout().contains(&open), "{}", server.stdout());
    for (username, account_type) in
        [(ADMIN, "super_admin"), ("anna.berg@demo.example", "full"), ("jonas.weber@demo.example", "internal")]
    {
        let password = word_after(&printed, &format!("{username} ({account_type}) with the password "));
        server.client("acme.localhost").sign_in(username, password).await;
    }
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing() {
    let installation = Installation::embedded(BINARY);
    let mut command = Command::new(BINARY);
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CHANCERY_")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.arg("demo").current_dir(installation.home()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let demo = command.spawn().unwrap();
    while !installation.run(&["build", "list"]).stdout.contains(DOMAIN) {}

    Command::new("kill").arg("-INT").arg(demo.id().to_string()).status().unwrap();

    let ended = demo.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    let left = installation.succeeds(&["build", "list"]);
    // The command can end before the signal arrives.
    if ended.status.code() != Some(0) {
        assert!(told.ends_with("it was interrupted; the build demo.localhost was removed again\n"), "{told}");
        assert_eq!(left, "");
    }
}
