//! Second factors at the running program: several processes, the command line, another secret key
//! (`docs/reference/second-factors.md`).

use crate::{BINARY, message};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::{
    ADMIN, ApiClient, CodeGenerator, Installation, PASSWORD, eventually_within, other_processes_notice,
    send_concurrently, statuses,
};
use web::clock::Clock;

const FACTORS: &str = "/api/users/me/second-factors/";
const PROVE: &str = "/api/auth/second-factor/";
/// A step of a code, in microseconds.
const STEP: i64 = 30_000_000;

/// Creates an account with the usual password.
pub fn create_account(installation: &Installation, build: &str, username: &str) {
    let account = ["--build", build, "--username", username, "--account-type", "internal", "--password", PASSWORD];
    installation.succeeds(&[&["user", "create"], account.as_slice()].concat());
}

/// Adds a generator to an account, confirmed by the code of the step before the present one. Codes of the present step and of
/// the next one were not used.
pub async fn add_generator(api: &ApiClient) -> CodeGenerator {
    let added = api.post(FACTORS, json!({"type": "totp", "name": "Phone"})).await.expect_created();
    let generator = CodeGenerator::new(added["secret"].as_str().unwrap());
    let code = generator.code(Clock::system().now() - STEP / 2);
    api.post(&format!("{FACTORS}{}/confirm/", added["id"]), json!({"code": code})).await.ok();
    generator
}

async fn challenge(client: &ApiClient) -> Value {
    client.login(ADMIN, PASSWORD).await.expect(202)["challenge"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_works_once_in_all_processes() {
    let installation = Installation::with_build(BINARY);
    let first = installation.serve();
    let second = installation.database_url().map(|_| installation.serve());
    let clients = [first.client("localhost"), second.as_ref().unwrap_or(&first).client("localhost")];
    let generator = add_generator(&clients[0].sign_in(ADMIN, PASSWORD).await).await;
    let code = generator.code(Clock::system().now() + STEP / 2);
    let mut calls = Vec::new();
    for client in clients.iter().chain(&clients) {
        let body = json!({"challenge": challenge(client).await, "code": code});
        calls.push(client.call("POST", PROVE).json(&body));
    }
    // The processes share the challenges, too.
    let shared = challenge(&clients[0]).await;
    assert_eq!(statuses(&send_concurrently(calls).await), [200, 401, 401, 401]);
    let wrong = json!({"challenge": shared, "code": code});
    assert_eq!(clients[1].post(PROVE, wrong).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_factor_holds_for_sessions_of_other_processes() {
    let installation = Installation::with_build(BINARY);
    let first = installation.serve();
    let second = installation.database_url().map(|_| installation.serve());
    let second = second.as_ref().unwrap_or(&first);
    create_account(&installation, "localhost", "ann@example.com");
    let ann = second.client("localhost").sign_in("ann@example.com", PASSWORD).await;
    let admin = first.client("localhost").sign_in(ADMIN, PASSWORD).await;
    ann.get("/api/users/").await.ok();
    admin.patch("/api/security/second-factors/", json!({"internal": "required"})).await.ok();
    other_processes_notice().await;
    ann.get("/api/users/").await.expect_reply(403, message::detail("Second factor required."));
    // The account gets its factor at one process, and may call the other.
    let ann_there = first.client("localhost").with_token(&ann.token);
    add_generator(&ann_there).await;
    other_processes_notice().await;
    ann.get("/api/users/").await.ok();
}

#[tokio::test]
async fn the_command_line_removes_the_lost_factor_of_the_only_super_admin() {
    let installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let anyone = server.client("localhost");
    let admin = anyone.sign_in(ADMIN, PASSWORD).await;
    add_generator(&admin).await;
    admin.patch("/api/security/second-factors/", json!({"super_admin": "required"})).await.ok();
    challenge(&anyone).await;
    let reset = |username| ["user", "reset-second-factors", "--build", "localhost", "--username", username];

    let done = installation.succeeds(&reset("ADMIN@example.com"));

    assert_eq!(done, "The second factors of ADMIN@example.com were removed.\n");
    let ended = async || admin.get("/api/users/me/").await == (401, message::bad_token());
    eventually_within(Duration::from_secs(5), ended).await;
    let admin = anyone.sign_in(ADMIN, PASSWORD).await;
    admin.get("/api/users/").await.expect_reply(403, message::detail("Second factor required."));
    add_generator(&admin).await;
    admin.get("/api/users/").await.ok();
    let unknown = installation.fails(&reset("x@example.com"));
    assert_eq!(unknown, "chancery: x@example.com: there is no such user\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn factors_work_with_another_secret_key() {
    const NEW_KEY: &str = "another secret key of this deployment";
    let mut installation = Installation::with_build(BINARY);
    let server = installation.serve();
    let generator = add_generator(&server.client("localhost").sign_in(ADMIN, PASSWORD).await).await;
    let before = challenge(&server.client("localhost")).await;
    server.stop();
    installation.succeeds(&["keys", "rotate", "--new-secret-key", NEW_KEY]);
    if installation.database_url().is_some() {
        installation = installation.set("CHANCERY_SECRET_KEY", NEW_KEY);
    }
    let server = installation.serve();
    let client = server.client("localhost");
    let code = generator.code(Clock::system().now() + STEP / 2);
    let ended = json!({"challenge": before, "code": code});
    assert_eq!(client.post(PROVE, ended).await.status, 401);
    let body = json!({"challenge": challenge(&client).await, "code": code});
    client.post(PROVE, body).await.ok();
}
