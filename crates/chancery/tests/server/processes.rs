//! Several processes over the same database: what one changes, the others see within a second. An embedded database is served by one process alone; the
//! command line is the other one there.

use crate::{BINARY, message};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{ADMIN, Client, Installation, PASSWORD};

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
    let one = installation.serve();
    let second = installation.database_url().map(|_| installation.serve());
    let two = second.as_ref().unwrap_or(&one);
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
    let no_fallback = ["--fallback-build", ""];
    let one = installation.serve_with(&no_fallback);
    let second = installation.database_url().map(|_| installation.serve_with(&no_fallback));
    let two = second.as_ref().unwrap_or(&one);
    // Both are asked for it all the time, so that they know that there is none.
    let asked = [&one, two].map(|process| {
        let client = process.client("b.example");
        tokio::spawn(async move { while client.get("/api/users/me/").await.status == 404 {} })
    });
    installation.succeeds(&["build", "create", "b.example"]);
    for process in [&one, two] {
        process.client("B.Example").sign_in(ADMIN, PASSWORD).await.get("/api/users/me/").await.ok();
    }
    for asked in asked {
        asked.await.unwrap();
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

/// A balancer and who calls through it. It learns late that a process goes, so it knows addresses where nobody listens
/// any more.
#[derive(Clone)]
struct Balancer {
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    token: String,
}

impl Balancer {
    /// The answer of the first process that can be connected to, beginning with the `turn`th.
    async fn call(
        &self,
        clients: &mut Vec<(SocketAddr, Client)>,
        turn: usize,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let addresses = self.addresses.lock().unwrap().clone();
        for at in 0..addresses.len() {
            let address = addresses[(turn + at) % addresses.len()];
            let client = match clients.iter().position(|(known, _)| *known == address) {
                Some(known) => clients[known].1.clone(),
                None => {
                    let client = Client::new(address, "localhost").with_token(&self.token);
                    clients.push((address, client.clone()));
                    client
                }
            };
            if let Some(reply) = client.call(method, path).json(body).send_if_connected().await {
                return (reply.status, reply.json);
            }
        }
        panic!("nobody listens on {addresses:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_request() {
    let Some(installation) = Installation::postgresql(BINARY).map(Installation::and_build) else { return };
    let mut processes = [installation.serve_api(), installation.serve_api()];
    let admin = processes[0].client("localhost").sign_in(ADMIN, PASSWORD).await;
    let addresses = Arc::new(Mutex::new(processes.iter().map(|process| process.api()).collect::<Vec<_>>()));
    let balancer = Balancer { addresses: addresses.clone(), token: admin.token.clone() };
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..12)
        .map(|caller| {
            let (balancer, over) = (balancer.clone(), over.clone());
            tokio::spawn(async move {
                let (mut clients, mut calls) = (Vec::new(), 0);
                while !over.load(Ordering::Relaxed) {
                    let name = json!({"name": format!("Role {caller} {calls}")});
                    let (status, role) = balancer.call(&mut clients, calls, "POST", "/api/roles/", &name).await;
                    assert_eq!(status, 201, "{role}");
                    let path = format!("/api/roles/{}/", role["id"]);
                    // Seen by all at once, whoever made it.
                    let (status, seen) = balancer.call(&mut clients, calls + 1, "GET", &path, &json!({})).await;
                    assert_eq!((status, &seen["name"]), (200, &name["name"]));
                    let (status, left) = balancer.call(&mut clients, calls + 2, "DELETE", &path, &json!({})).await;
                    assert_eq!(status, 204, "{left}");
                    calls += 3;
                }
                calls
            })
        })
        .collect();
    for _ in 0..testkit::rounds(1) {
        for process in &mut processes {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let new = installation.serve_api();
            addresses.lock().unwrap().push(new.api());
            let old = std::mem::replace(process, new);
            let gone = old.api();
            tokio::task::spawn_blocking(move || old.stop()).await.unwrap();
            addresses.lock().unwrap().retain(|address| *address != gone);
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    println!("rolling restarts: {} of 2 processes, {calls} requests, none failed", testkit::rounds(1));
    assert!(calls > 100, "too few to show anything: {calls}");
}
