//! Several processes over the same database. A change at one is visible at the others within a second, and for classes and records
//! immediately. Only one process serves an embedded database; the command line is the other process there.

use crate::workload::reconnect;
use crate::{BINARY, message};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{
    ADMIN, ApiClient, CLIENT_ID, CLIENT_SECRET, Forger, Installation, MailFile, PASSWORD, Process, TENANT_ID,
    eventually, other_processes_notice, send_concurrently, statuses,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_tasks_work_and_end_in_every_process() {
    let Some(installation) = Installation::postgresql(BINARY).map(Installation::and_build) else { return };
    let (first_process, second_process) = (installation.serve_api(), installation.serve_api());
    let admin = first_process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let guest = json!({"username": "guest@example.com", "account_type": "one_time_completion", "first_name": "G", "last_name": "G"});
    let guest = admin.post("/api/users/", guest).await.id();
    let template = json!({"name": "Survey", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    let template = admin.post("/api/task-templates/", template).await.id();
    for end in ["cancel", "complete"] {
        let before = MailFile::read_all(&installation.data(), "localhost").len();
        let task = admin.post("/api/tasks/", json!({"task_template": template, "assignees": [guest]})).await.id();
        let mail = eventually(async || {
            let mut mails = MailFile::read_all(&installation.data(), "localhost");
            if mails.len() > before { mails.pop() } else { None }
        });
        let token = json!({"token": mail.await.token()});
        let here = first_process.client("localhost");
        let here = here.with_pair("", &here.post("/api/auth/task/", token.clone()).await.ok());
        let there = second_process.client("localhost");
        let there = there.with_pair("", &there.post("/api/auth/task/", token.clone()).await.ok());
        let path = format!("/api/tasks/{task}/");
        for client in [&here, &there] {
            assert_eq!(client.get(&path).await.ok()["status"], "open");
        }
        match end {
            "cancel" => admin.post(&format!("{path}cancel/"), json!({})).await.ok(),
            _ => here.post(&format!("{path}complete/"), json!({"response": {}})).await.ok(),
        };
        here.get(&path).await.expect_reply(401, message::bad_token());
        let refused = json!({"token": ["Invalid token."]});
        there.post("/api/auth/task/", token).await.expect_reply(400, refused);
        // A write sees it immediately, a read within a second.
        there.post(&format!("{path}complete/"), json!({"response": {}})).await.expect_reply(401, message::bad_token());
        other_processes_notice().await;
        there.get(&path).await.expect_reply(401, message::bad_token());
        let refresh = json!({"refresh_token": there.refresh_token});
        there.post("/api/auth/refresh/", refresh).await.expect_reply(401, message::bad_token());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_one_effect_in_all_processes() {
    let Some(installation) = Installation::postgresql(BINARY).map(Installation::and_build) else { return };
    let processes = [installation.serve_api(), installation.serve_api()];
    let admin = processes[0].client("localhost").sign_in(ADMIN, PASSWORD).await;
    let clients = processes.each_ref().map(|process| process.client("localhost").with_token(&admin.token));
    for round in 0..20 {
        let (key, body) = (format!("round {round}").replace(' ', "-"), json!({"name": format!("Role {round}")}));
        let call = |client: &ApiClient| client.call("POST", "/api/roles/").header("idempotency-key", &key).json(&body);
        let replies = send_concurrently((0..10).map(|n| call(&clients[n % 2]))).await;
        assert_eq!(statuses(&replies), [201; 10], "{replies:?}");
        assert!(replies.iter().all(|reply| reply.text == replies[0].text), "{replies:?}");
        let replayed = replies.iter().filter(|reply| reply.header("idempotency-replayed") == "true");
        assert_eq!(replayed.count(), 9);
    }
    assert_eq!(admin.get("/api/roles/").await["total_count"], 20);
}

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
    let first_process = installation.serve();
    let second = installation.database_url().map(|_| installation.serve());
    let second_process = second.as_ref().unwrap_or(&first_process);
    let admin = first_process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let bob = second_process.client("localhost").sign_in("bob@example.com", PASSWORD).await;
    let eve = second_process.client("localhost").sign_in("eve@example.com", PASSWORD).await;
    bob.get("/api/roles/").await.expect_reply(403, message::forbidden());
    eve.get("/api/users/me/").await.ok();

    // A role that is assigned at one process applies at the other.
    let role = admin
        .post("/api/roles/", json!({"name": "Readers", "permissions": {"roles": ["list"]}}))
        .await
        .expect_created();
    admin.patch("/api/users/2/", json!({"roles": [role["id"]]})).await.ok();
    other_processes_notice().await;
    bob.get("/api/roles/").await.ok();

    // A session that ends at one process is invalid at the other, and so is an account.
    let sessions = bob.get("/api/users/me/sessions/").await.ok();
    let bob_here = first_process.client("localhost").with_token(&bob.token);
    bob_here.delete(&format!("/api/users/me/sessions/{}/", sessions["results"][0]["id"])).await.expect(204);
    bob_here.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    admin.post("/api/users/3/deactivate/", json!({})).await.ok();
    other_processes_notice().await;
    bob.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    eve.get("/api/users/me/").await.expect_reply(401, message::bad_token());

    // The command line is another process too.
    let admin_there = second_process.client("localhost").sign_in(ADMIN, PASSWORD).await;
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
    other_processes_notice().await;
    admin_there.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_key_ends_in_every_process() {
    let installation = Installation::with_build(BINARY);
    let first_process = installation.serve();
    let second = installation.database_url().map(|_| installation.serve());
    let second_process = second.as_ref().unwrap_or(&first_process);
    let admin = first_process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let service = json!({
        "username": "s@example.com", "account_type": "service_external", "first_name": "S", "last_name": "E",
        "password": PASSWORD,
    });
    let service = admin.post("/api/users/", service).await.id();
    let now = web::clock::Clock::system().now();
    let expires_at = resource::time::show(now + testkit::DAY);
    let mut programs = Vec::new();
    for name in ["Deleted", "Other"] {
        let key = json!({"name": name, "permissions": null, "expires_at": expires_at});
        let made = admin.post(&format!("/api/users/{service}/api-keys/"), key).await.expect_created();
        let program = second_process.client("localhost").with_token(made["key"].as_str().unwrap());
        program.get("/api/users/me/").await.ok();
        programs.push(program);
    }
    admin.delete(&format!("/api/users/{service}/api-keys/1/")).await.expect_empty();
    other_processes_notice().await;
    programs[0].get("/api/users/me/").await.expect_reply(401, message::bad_token());
    programs[1].get("/api/users/me/").await.ok();
    admin.post(&format!("/api/users/{service}/deactivate/"), json!({})).await.ok();
    other_processes_notice().await;
    programs[1].get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_build_serves_at_once_and_a_deleted_one_no_more() {
    let installation = Installation::with_build(BINARY);
    let no_fallback = ["--fallback-build", ""];
    let first_process = installation.serve_with(&no_fallback);
    let second = installation.database_url().map(|_| installation.serve_with(&no_fallback));
    let second_process = second.as_ref().unwrap_or(&first_process);
    // Both receive requests for it continuously, so that they have cached its absence.
    let requests = [&first_process, second_process].map(|process| {
        let client = process.client("b.example");
        tokio::spawn(async move { while client.get("/api/users/me/").await.status == 404 {} })
    });
    installation.succeeds(&["build", "create", "b.example"]);
    for process in [&first_process, second_process] {
        process.client("B.Example").sign_in(ADMIN, PASSWORD).await.get("/api/users/me/").await.ok();
    }
    for request in requests {
        request.await.unwrap();
    }
    installation.succeeds(&["build", "delete", "b.example", "--yes"]);
    other_processes_notice().await;
    let fallback_or_none = second_process.client("b.example").get("/api/users/me/").await.status;
    assert!(matches!(fallback_or_none, 401 | 404), "{fallback_or_none}");
    // A second build with the same name is another build: the old one's accounts do not exist in it.
    installation.succeeds(&["build", "create", "b.example", "--admin-username", "new@example.com"]);
    second_process.client("b.example").login(ADMIN, PASSWORD).await.expect(401);
    second_process.client("b.example").sign_in("new@example.com", PASSWORD).await;
}

const CLASSES: &str = "/api/object-classes/";
const FIELDS: &str = "/api/object-classes/1/fields/";
const RECORDS: &str = "/api/object-classes/1/object-records/";

/// Starts two processes, or one that has both roles, and returns them with a super admin at each.
async fn two_processes(installation: &Installation) -> (Vec<Process>, ApiClient, ApiClient) {
    let mut processes = vec![installation.serve()];
    processes.extend(installation.database_url().map(|_| installation.serve()));
    let one = processes[0].client("localhost").sign_in(ADMIN, PASSWORD).await;
    let two = reconnect(&processes[processes.len() - 1], &one);
    (processes, one, two)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_one_process_changes_is_served_as_it_is_by_the_other() {
    let installation = Installation::with_build(BINARY);
    let (_processes, first_admin, second_admin) = two_processes(&installation).await;
    let unknown = json!({"fields": {"state": ["This field does not exist."]}});
    for _ in 0..testkit::rounds(3) {
        let class = first_admin.post(CLASSES, json!({"name": "Order"})).await.expect_created();
        let class = format!("{CLASSES}{}/", class["id"]);
        let (fields, records) = (format!("{class}fields/"), format!("{class}object-records/"));
        second_admin.post(&records, json!({"fields": {"state": "a"}})).await.expect_reply(400, unknown.clone());
        second_admin.get(&format!("{records}?limit=1")).await.ok();
        // A new field.
        let options =
            |values: &[&str]| -> Value { values.iter().map(|value| json!({"value": value, "text": value})).collect() };
        let state = json!({"label": "State", "type": "enum", "options": options(&["a"])});
        let state = format!("{fields}{}/", first_admin.post(&fields, state).await.expect_created()["id"]);
        let a = json!({"fields": {"state": "a"}});
        let record = second_admin.post(&records, a.clone()).await.expect_created();
        assert_eq!(record["fields"], a["fields"]);
        let found = async || second_admin.get(&format!("{records}?state=a")).await.ok();
        assert_eq!((found().await, found().await["filtered_count"].clone()), (found().await, json!(1)));
        assert_eq!(second_admin.options(&records).await.ok(), first_admin.options(&records).await.ok());
        // A new option, a bound, another label.
        let b = json!({"fields": {"state": "b"}});
        let no_choice = json!({"fields": {"state": ["b is not a valid choice."]}});
        second_admin.post(&records, b.clone()).await.expect_reply(400, no_choice.clone());
        first_admin.patch(&state, json!({"options": options(&["a", "b"])})).await.ok();
        let second = second_admin.post(&records, b.clone()).await.id();
        second_admin.delete(&format!("/api/object-records/{second}/")).await.expect_empty();
        first_admin.patch(&state, json!({"options": options(&["a"])})).await.ok();
        second_admin.post(&records, b).await.expect_reply(400, no_choice);
        first_admin.patch(&state, json!({"label": "Stage", "is_required": true})).await.ok();
        second_admin
            .post(&records, json!({}))
            .await
            .expect_reply(400, json!({"fields": {"state": ["This field is required."]}}));
        assert_eq!(second_admin.get(&class).await.ok(), first_admin.get(&class).await.ok());
        // A deleted field.
        first_admin.delete(&state).await.expect_empty();
        second_admin.post(&records, a).await.expect_reply(400, unknown.clone());
        assert_eq!(second_admin.get(&records).await.ok()["results"][0]["fields"], json!({}));
        let all = format!("{records}?state=a");
        assert_eq!(second_admin.get(&all).await.ok(), first_admin.get(&all).await.ok());
        second_admin.delete(&format!("/api/object-records/{}/", record["id"])).await.expect_empty();
        first_admin.delete(&class).await.expect_empty();
        second_admin.get(&records).await.expect_reply(404, message::not_found());
        second_admin.post(&records, json!({})).await.expect_reply(404, message::not_found());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trials_of_single_sign_on_are_counted_by_all_processes_together() {
    let forger = Forger::start().await;
    let installation = Installation::with_build(BINARY).set("CHANCERY_SSO_PROVIDER_B_ISSUER", &forger.issuer_setting());
    let (_processes, first_admin, second_admin) = two_processes(&installation).await;
    let configuration = json!({
        "name": "Company", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "tenant_id": TENANT_ID,
        "provider": "provider_b",
    });
    first_admin.post("/api/single-sign-on/", configuration).await.expect_created();
    let calls = (0..30)
        .map(|n| [&first_admin, &second_admin][n % 2].call("POST", "/api/single-sign-on/1/test/").json(&json!({})));
    assert_eq!(statuses(&send_concurrently(calls).await), [vec![200; 20], vec![429; 10]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_of_an_export_works_once_at_any_process() {
    let installation = Installation::with_build(BINARY);
    let (processes, first_admin, second_admin) = two_processes(&installation).await;
    first_admin.post(CLASSES, json!({"name": "Order"})).await.expect_created();
    first_admin.post(RECORDS, json!({})).await.expect_created();
    let link = async || {
        let url = first_admin
            .post(&format!("{RECORDS}export/link/"), json!({"format": "ndjson"}))
            .await
            .expect_created()["url"]
            .take();
        let (_, path) = url.as_str().and_then(|url| url.split_once("/api/")).unwrap();
        format!("/api/{path}")
    };
    for [here, there] in [[&first_admin, &second_admin], [&second_admin, &first_admin]] {
        let path = link().await;
        let (here, there) = (here.anonymous(), there.anonymous());
        assert_eq!(here.get(&path).await.text.lines().count(), 1);
        there.get(&path).await.expect_reply(404, message::not_found());
        here.get(&path).await.expect_reply(404, message::not_found());
        let (_, token) = path.split_once("token=").unwrap();
        assert!(processes.iter().all(|process| !process.stderr().contains(token)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_come_and_go_at_one_process_while_the_other_serves_records() {
    let installation = Installation::with_build(BINARY);
    let (_processes, first_admin, second_admin) = two_processes(&installation).await;
    first_admin.post(CLASSES, json!({"name": "Order"})).await.expect_created();
    first_admin.post(FIELDS, json!({"label": "Title", "type": "string"})).await.expect_created();
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let (second_admin, over) = (second_admin.clone(), over.clone());
            tokio::spawn(async move {
                let unknown = json!({"fields": {"number": ["This field does not exist."]}});
                let (mut with, mut without) = (0, 0);
                while !over.load(Ordering::Relaxed) {
                    let body = json!({"fields": {"title": format!("Of {caller}"), "number": with}});
                    let made = second_admin.post(RECORDS, body).await;
                    match made.status {
                        201 => with += 1,
                        _ => {
                            made.expect_reply(400, unknown.clone());
                            without += 1;
                        }
                    }
                    second_admin.get(&format!("{RECORDS}?limit=5&search=of&ordering=-id")).await.ok();
                }
                (with, without)
            })
        })
        .collect();
    for _ in 0..testkit::rounds(5) {
        let number = json!({"label": "Number", "type": "integer", "is_indexed": true});
        let number = first_admin.post(FIELDS, number).await.expect_created();
        // The writers use the field for a while.
        tokio::time::sleep(Duration::from_millis(100)).await;
        first_admin.delete(&format!("{FIELDS}{}/", number["id"])).await.expect_empty();
        // The writers continue without the field for a while.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    over.store(true, Ordering::Relaxed);
    let (mut with, mut without) = (0, 0);
    for caller in callers {
        let (more_with, more_without) = caller.await.unwrap();
        (with, without) = (with + more_with, without + more_without);
    }
    assert!(with > 0 && without > 0, "{with} with the field, {without} without");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_visible_to_a_user_at_both_processes_or_at_neither() {
    let installation = Installation::with_build(BINARY);
    let ann = ["--username", "ann@example.com", "--account-type", "internal", "--password", PASSWORD];
    installation.succeeds(&[&["user", "create", "--build", "localhost"][..], &ann[..]].concat());
    let (processes, first_admin, _) = two_processes(&installation).await;
    let ann = processes[processes.len() - 1].client("localhost").sign_in("ann@example.com", PASSWORD).await;
    first_admin.post(CLASSES, json!({"name": "Order"})).await.expect_created();
    first_admin.post(FIELDS, json!({"label": "Title", "type": "string"})).await.expect_created();
    let sets = "/api/object-classes/1/record-permission-sets/";
    let readers = json!({"name": "Readers", "permissions": {"object_records": ["view"]}});
    let set = first_admin.post(sets, readers.clone()).await.id();
    let team = first_admin.post("/api/user-groups/", json!({"name": "Team"})).await.id();
    let mut ids = Vec::new();
    for title in ["a", "b", "c"] {
        ids.push(first_admin.post(RECORDS, json!({"fields": {"title": title}})).await.id());
    }
    // Checks the list, the count and single records.
    let sees = async |expected_ids: &[i64]| {
        let list = ann.get(RECORDS).await;
        match expected_ids {
            [] => list.expect_reply(404, message::not_found()),
            _ => assert_eq!((list.ids(), &list["total_count"]), (expected_ids.to_vec(), &json!(expected_ids.len()))),
        }
        for id in &ids {
            let status = ann.get(&format!("/api/object-records/{id}/")).await.status;
            assert_eq!(status, if expected_ids.contains(id) { 200 } else { 404 }, "{id} of {expected_ids:?}");
        }
    };
    let assignees = |id: i64| format!("/api/object-records/{id}/permission-sets/{set}/assignees/");
    let (groups, members) =
        (format!("{}user-groups/", assignees(ids[1])), format!("/api/user-groups/{team}/members/users/"));
    let (of_set, third) = (format!("{sets}{set}/"), format!("/api/object-records/{}/", ids[2]));
    for _ in 0..testkit::rounds(5) {
        sees(&[]).await;
        // A new assignment.
        let assigned = first_admin.post(&assignees(ids[0]), json!([ann.id])).await.expect_created();
        sees(&[ids[0]]).await;
        // A group, and its members.
        first_admin.post(&groups, json!([team])).await.expect_created();
        sees(&[ids[0]]).await;
        first_admin.post(&members, json!([ann.id])).await.expect_created();
        sees(&[ids[0], ids[1]]).await;
        // A new owner.
        first_admin.patch(&third, json!({"owner": ann.id})).await.ok();
        sees(&ids).await;
        // The permissions of a set.
        first_admin.patch(&of_set, json!({"permissions": {"object_records": []}})).await.ok();
        sees(&[ids[2]]).await;
        first_admin.patch(&of_set, json!({"permissions": readers["permissions"]})).await.ok();
        sees(&ids).await;
        // A deleted record that is restored without assignees.
        first_admin.delete(&third).await.expect_empty();
        sees(&ids[..2]).await;
        first_admin.post(&format!("{third}restore/"), json!({})).await.expect_created();
        sees(&ids).await;
        // The removal of all of these.
        first_admin.patch(&third, json!({"owner": null})).await.ok();
        sees(&ids[..2]).await;
        first_admin.delete_all(&members, json!([ann.id])).await.expect_empty();
        sees(&ids[..1]).await;
        first_admin.delete_all(&assignees(ids[0]), json!([assigned[0]["id"]])).await.expect_empty();
        sees(&[]).await;
        first_admin.delete_all(&groups, json!([team])).await.expect_empty();
    }
}

/// A load balancer with its callers. It learns late that a process ends, so it has addresses without a listener.
#[derive(Clone)]
struct Balancer {
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    token: String,
}

impl Balancer {
    /// Returns the answer of the first process that accepts a connection, beginning with the `turn`th.
    async fn call(
        &self,
        clients: &mut Vec<(SocketAddr, ApiClient)>,
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
                    let client = ApiClient::new(address, "localhost").with_token(&self.token);
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
                    // All processes see it immediately, independent of the process that created it.
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
            // The callers use these processes for a while.
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
