//! A server that is killed while many write: what it acknowledged is there when it comes back, and nothing is half
//! done (security, promise "an acknowledged write survives").

use crate::BINARY;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{ADMIN, Client, Installation, PASSWORD};

const WRITERS: usize = 20;
const ROUNDS: usize = 5;

/// Creates roles one after the other until the server is gone; notes the names of those that were acknowledged.
async fn create_roles(client: Client, round: usize, writer: usize, acknowledged: Arc<Mutex<BTreeSet<String>>>) {
    for n in 0.. {
        let name = format!("{round}-{writer}-{n}");
        let body = json!({"name": name, "permissions": {"users": ["view"]}});
        // Deleted again at once, since there may be 100 roles at a time; the log keeps them all.
        let Some(reply) = client.call("POST", "/api/roles/").json(&body).try_send().await else { return };
        if reply.status != 201 {
            continue;
        }
        acknowledged.lock().unwrap().insert(format!("create {name}"));
        let path = format!("/api/roles/{}/", reply.json["id"]);
        let Some(reply) = client.call("DELETE", &path).try_send().await else { return };
        if reply.status == 204 {
            acknowledged.lock().unwrap().insert(format!("delete {name}"));
        }
    }
}

/// Every page of a list.
async fn all(client: &Client, path: &str) -> Vec<Json> {
    let mut rows = Vec::new();
    loop {
        let page = client.get(&format!("{path}?limit=1000&offset={}", rows.len())).await.ok();
        let results = page["results"].as_array().unwrap().clone();
        if results.is_empty() {
            return rows;
        }
        rows.extend(results);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost() {
    let installation = Installation::with_build(BINARY);
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    for round in 0..ROUNDS {
        let process = installation.serve();
        let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(create_roles(admin.clone(), round, writer, acknowledged.clone())))
            .collect();
        // In the midst of it: when enough has been acknowledged in this round, and a moment later.
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if acknowledged.lock().unwrap().len() > (round + 1) * 2 * WRITERS {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(17 * round as u64)).await;
        process.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }

    let process = installation.serve();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let entries = all(&admin, "/api/administration/log/").await;
    let of_roles = entries.iter().filter(|entry| entry["resource"] == "roles");
    let logged: BTreeSet<String> = of_roles
        .map(|entry| format!("{} {}", entry["action"].as_str().unwrap(), entry["object_name"].as_str().unwrap()))
        .collect();
    let acknowledged = acknowledged.lock().unwrap().clone();
    let lost: Vec<&String> = acknowledged.difference(&logged).collect();
    assert!(lost.is_empty(), "{} of {} acknowledged writes were lost: {lost:?}", lost.len(), acknowledged.len());
    assert!(acknowledged.len() > ROUNDS * WRITERS, "too few writes to show anything: {}", acknowledged.len());

    // A row and its entry in the log came together or not at all.
    let stored: BTreeSet<String> =
        all(&admin, "/api/roles/").await.iter().map(|role| role["name"].as_str().unwrap().to_owned()).collect();
    let created = logged.iter().filter_map(|entry| entry.strip_prefix("create "));
    let expected: BTreeSet<String> =
        created.filter(|name| !logged.contains(&format!("delete {name}"))).map(str::to_owned).collect();
    assert_eq!(stored, expected);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_mail_survives_and_arrives_once_more_is_served() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    let process = installation.serve();
    // The place where mails go is a file: none can be written until it is out of the way.
    std::fs::write(installation.data().join("mail"), "").unwrap();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let anna =
        json!({"username": "anna@example.com", "account_type": "internal", "first_name": "Anna", "last_name": "Berg"});
    admin.post("/api/users/", anna).await.created();
    process.kill();

    std::fs::remove_file(installation.data().join("mail")).unwrap();
    let process = installation.serve();
    process.client("localhost").get("/api/security/").await.ok();
    for _ in 0..600 {
        if let [mail] = &testkit::Mail::all(&installation.data(), "localhost")[..] {
            assert_eq!(mail.to, "anna@example.com");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the mail did not arrive");
}
