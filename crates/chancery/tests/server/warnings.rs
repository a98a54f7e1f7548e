//! The warnings of a start.

use crate::BINARY;
use serde_json::{Value, json};
use testkit::{Installation, PASSWORD, eventually};

const PATH: &str = "/api/single-sign-on/";

fn configuration(name: &str) -> Value {
    json!({"name": name, "client_id": "client-1", "client_secret": "s3cret-X", "tenant_id": "tenant-1", "provider": "provider_a"})
}

#[tokio::test]
async fn a_start_warns_of_each_configuration_that_does_not_vouch_with_everything() {
    let installation = Installation::with_build(BINARY);
    let user = ["user", "create", "--build", "localhost", "--username", "root@example.com"];
    installation.succeeds(&[&user[..], &["--account-type", "service_internal", "--password", PASSWORD]].concat());
    let clerk = ["user", "create", "--build", "localhost", "--username", "clerk@example.com"];
    installation.succeeds(&[&clerk[..], &["--account-type", "full", "--password", PASSWORD]].concat());
    let server = installation.serve_api();
    let root = server.client("localhost").sign_in("root@example.com", PASSWORD).await;
    let clerk = server.client("localhost").sign_in("clerk@example.com", PASSWORD).await;
    let role = json!({"name": "Clerks", "permissions": {"single_sign_on": ["create"]}});
    let role = root.post("/api/roles/", role).await.id();
    root.patch(&format!("/api/users/{}/", clerk.id), json!({"roles": [role]})).await.ok();
    root.post(PATH, configuration("With everything")).await.expect_created();
    for name in ["One", "Two"] {
        clerk.post(PATH, configuration(name)).await.expect_created();
    }
    server.stop();

    let server = installation.serve_api();
    let warnings = || {
        let log = server.stderr();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let warnings = lines.filter(|line| line.to_string().contains("does not vouch for every account"));
        warnings.map(|line| (line["build"].clone(), line["single_sign_on"].clone())).collect::<Vec<_>>()
    };
    eventually(async || warnings().len() >= 2).await;
    server.client("localhost").get("/api/single-sign-on/login/").await.ok();
    assert_eq!(warnings(), [(json!("localhost"), json!(2)), (json!("localhost"), json!(3))]);
}

#[tokio::test]
async fn a_proxy_that_the_settings_do_not_name_is_warned_of_once() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve_api();
    let caller = server.client("localhost");
    assert_eq!(caller.get("/readyz").await.ok().get("warnings"), None);

    for (header, value) in [("x-forwarded-proto", "https"), ("x-forwarded-for", "203.0.113.9")] {
        caller.with_header(header, value).get("/api/security/").await.ok();
    }

    let warning = "127.0.0.1 sends X-Forwarded-… headers and is not in CHANCERY_TRUSTED_PROXIES: if it is a proxy of \
                   yours, name it there; until then all who come through it count as one address, and failed sign-ins \
                   of some refuse all";
    assert_eq!(caller.get("/readyz").await.ok()["warnings"], json!([warning]));
    let log = server.stderr();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.filter(|line| line["setting"] == "CHANCERY_TRUSTED_PROXIES").collect();
    let [line] = &lines[..] else { panic!("one line, not {lines:#?}") };
    assert_eq!((&line["level"], &line["peer"]), (&json!("WARN"), &json!("127.0.0.1")));
    assert_eq!(line["message"], warning);
    server.stop();

    let installation = installation.set("CHANCERY_TRUSTED_PROXIES", "127.0.0.1");
    let server = installation.serve_api();
    let caller = server.client("localhost").with_header("x-forwarded-for", "203.0.113.9");
    assert_eq!(caller.get("/readyz").await.ok().get("warnings"), None);
}
