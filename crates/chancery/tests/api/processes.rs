//! Several processes over the same database: what one changes, the others see within a second (document 4, section 3,
//! "access token"; section 1, "build create").

use crate::{BINARY, message};
use serde_json::json;
use std::time::Duration;
use testkit::{ADMIN, Installation, PASSWORD};

/// What another process may go without seeing.
const A_SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn rights_sessions_and_accounts_end_in_every_process() {
    let installation = Installation::with_build(BINARY);
    for name in ["bob", "eve"] {
        let username = format!("{name}@example.com");
        installation.succeeds(&[
            "user",
            "create",
            "--build",
            "localhost",
            "--username",
            &username,
            "--account-type",
            "full",
            "--password",
            PASSWORD,
        ]);
    }
    let (one, two) = (installation.serve(), installation.serve());
    let admin = one.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let bob = two.client("localhost").sign_in("bob@example.com", PASSWORD).await;
    let eve = two.client("localhost").sign_in("eve@example.com", PASSWORD).await;
    bob.get("/api/roles/").await.is(403, message::forbidden());
    eve.get("/api/users/me/").await.ok();

    // A role given here counts there.
    let role =
        admin.post("/api/roles/", json!({"name": "Readers", "permissions": {"roles": ["list"]}})).await.created();
    admin.patch("/api/users/2/", json!({"roles": [role["id"]]})).await.ok();
    tokio::time::sleep(A_SECOND).await;
    bob.get("/api/roles/").await.ok();

    // A session that ends here is over there, and so is an account.
    let sessions = bob.get("/api/users/me/sessions/").await.ok();
    let bob_here = one.client("localhost").with_token(&bob.token);
    bob_here.delete(&format!("/api/users/me/sessions/{}/", sessions["results"][0]["id"])).await.expect(204);
    bob_here.get("/api/users/me/").await.is(401, message::bad_token());
    admin.post("/api/users/3/deactivate/", json!({})).await.ok();
    tokio::time::sleep(A_SECOND).await;
    bob.get("/api/users/me/").await.is(401, message::bad_token());
    eve.get("/api/users/me/").await.is(401, message::bad_token());

    // The command line is a process, too.
    let admin_there = two.client("localhost").sign_in(ADMIN, PASSWORD).await;
    installation.succeeds(&[
        "user",
        "set-password",
        "--build",
        "localhost",
        "--username",
        ADMIN,
        "--password",
        "another battery",
    ]);
    tokio::time::sleep(A_SECOND).await;
    admin_there.get("/api/users/me/").await.is(401, message::bad_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_build_serves_at_once_and_a_deleted_one_no_more() {
    let installation = Installation::with_build(BINARY);
    let (one, two) =
        (installation.serve_with(&["--fallback-build", ""]), installation.serve_with(&["--fallback-build", ""]));
    installation.succeeds(&["build", "create", "b.example"]);
    for process in [&one, &two] {
        process.client("B.Example").sign_in(ADMIN, PASSWORD).await.get("/api/users/me/").await.ok();
    }
    installation.succeeds(&["build", "delete", "b.example", "--yes"]);
    tokio::time::sleep(A_SECOND).await;
    let fallback_or_none = two.client("b.example").get("/api/users/me/").await.status;
    assert!(matches!(fallback_or_none, 401 | 404), "{fallback_or_none}");
    // The same name again is another build: it knows none of the old one's accounts.
    installation.succeeds(&["build", "create", "b.example", "--admin-username", "new@example.com"]);
    two.client("b.example").login(ADMIN, PASSWORD).await.expect(401);
    two.client("b.example").sign_in("new@example.com", PASSWORD).await;
}
