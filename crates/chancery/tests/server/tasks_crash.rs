//! Servers that are killed while tasks remind, are renewed and expire. Each assignee receives each reminder once, and each task is
//! renewed once and expires once, independent of the order of kills and starts. On PostgreSQL two processes do the work at once.

use crate::BINARY;
use crate::workload::{admin, expect_served, prepare_installation, reconnect};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Installation, MailFile, PASSWORD, Process, eventually_within, rounds};
use web::clock::Clock;

/// The number of tasks of each kind in a round.
const TASKS: usize = 12;
/// The number of kills in a round.
const KILLS: u64 = 4;
/// The time until the first task of a round is due, and the time between the first and the last.
const BEGINS: Duration = Duration::from_secs(5);
const LASTS: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);
/// The recipients of counted mails: an assignee who is also a member of the group, and another member.
const REMINDED: [&str; 2] = ["ann@example.com", "ben@example.com"];
/// Counts that differ from those of the tasks.
const WRONG_COUNTS: &str = "SELECT count(*) FROM (SELECT x.audience FROM (SELECT audience, class_id, status, n FROM task_counts \
    UNION ALL SELECT '', COALESCE(class_id, 0), status, CAST(-1 AS BIGINT) FROM tasks \
    UNION ALL SELECT audience, COALESCE(class_id, 0), status, CAST(-1 AS BIGINT) FROM tasks WHERE audience <> '') x \
    GROUP BY x.audience, x.class_id, x.status HAVING sum(x.n) <> 0) y";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn no_reminder_and_no_renewal_is_lost_or_doubled_when_servers_are_killed() {
    let installation = prepare_installation(Installation::with_build(BINARY));
    for name in REMINDED {
        let args = [
            "user",
            "create",
            "--build",
            "localhost",
            "--account-type",
            "internal",
            "--password",
            PASSWORD,
            "--username",
            name,
        ];
        installation.succeeds(&args);
    }
    let mut processes = vec![installation.serve()];
    processes.extend(installation.database_url().map(|_| installation.serve()));
    let mut admin = admin(&processes[0]).await;
    prepare(&admin).await;
    let rounds = rounds(2);
    for round in 0..rounds {
        begin(&admin, round).await;
        let mut wait = Duration::from_millis(1_500 + 400 * round as u64 % 1_000);
        for kill in 0..KILLS {
            // Each kill meets the process at another step of its work.
            tokio::time::sleep(wait).await;
            // The other process, if there are two.
            processes.remove(0).kill();
            processes.push(installation.serve());
            wait = Duration::from_millis((613 * (round as u64 + 1) * (kill + 3)) % 1_700);
        }
        admin = reconnect(&processes[0], &admin);
        expect_served(&admin).await;
    }
    wait_for_tasks(&installation, &admin, rounds).await;
    check(&installation, &admin, rounds).await;
    println!(
        "| {} kills | {} reminders | {} renewals | {} expiries |",
        rounds as u64 * KILLS,
        2 * rounds * TASKS,
        rounds * TASKS,
        2 * rounds * TASKS
    );
    processes.into_iter().for_each(Process::stop);
}

/// Creates a group, a class and two templates. Tasks of template 1 remind when they are due, tasks of template 2 are renewed when
/// they expire.
async fn prepare(admin: &ApiClient) {
    let group = admin.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    admin.post(&format!("/api/user-groups/{group}/members/users/"), json!([2, 3])).await.expect_created();
    admin.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let template = |rules: Json| {
        // A task that is due now would remind now.
        let mut body = json!({
            "name": "Check", "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 9,
            "plugin_config": {"task_type": "tt_form"},
        });
        body.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
        body
    };
    let reminds = json!({"reminders": [{"notice_type": "before_due", "time_unit": "days", "time_value": 0}]});
    let renewed = json!({
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 9, "expiry_time_rel_to": "assigned",
        "renewals": [{}],
    });
    for rules in [reminds, renewed] {
        admin.post("/api/task-templates/", template(rules)).await.expect_created();
    }
}

/// Creates the tasks of a round, which are due or expire a few seconds later.
async fn begin(admin: &ApiClient, round: usize) {
    let mut made = Vec::new();
    for n in 0..TASKS {
        let record = admin.post("/api/object-classes/1/object-records/", json!({})).await.id();
        for (kind, body) in [
            ("Remind", json!({"task_template": 1, "assignees": [2], "assignee_groups": [1]})),
            ("Expire", json!({"task_template": 1})),
            ("Renew", json!({"task_template": 2, "object_record": record, "assignees": [3]})),
        ] {
            let mut body = body;
            body["name"] = json!(format!("{kind} {round}-{n}"));
            made.push((n, kind, admin.post("/api/tasks/", body).await.id()));
        }
    }
    let begins = Clock::system().now() + BEGINS.as_micros() as i64;
    let changes: tokio::task::JoinSet<()> = made
        .into_iter()
        .map(|(n, kind, task)| {
            let (admin, at) = (admin.clone(), begins + LASTS.as_micros() as i64 * n as i64 / TASKS as i64);
            let field = if kind == "Remind" { "due_at" } else { "expires_at" };
            async move {
                let path = format!("/api/tasks/{task}/");
                admin.patch(&path, json!({field: resource::time::show(at)})).await.ok();
                if kind == "Renew" {
                    admin.post(&format!("{path}complete/"), json!({"response": n})).await.ok();
                }
            }
        })
        .collect();
    changes.join_all().await;
    assert!(Clock::system().now() < begins, "what is due was set too late");
}

/// Waits until all work is done.
async fn wait_for_tasks(installation: &Installation, admin: &ApiClient, rounds: usize) {
    let count = async |query: &str| admin.get(&format!("/api/tasks/?{query}")).await.ok()["filtered_count"].clone();
    eventually_within(PATIENCE, async || {
        let expired = count("status=expired").await;
        let is_done = expired == 2 * rounds * TASKS && number(installation, "SELECT count(*) FROM jobs").await == 0;
        if is_done { Ok(()) } else { Err(format!("{expired} have expired")) }
    })
    .await;
}

async fn number(installation: &Installation, text: &'static str) -> i64 {
    let store = installation.store().await;
    let read = |conn: &mut Conn| conn.query_one(&Sql::new(text), |row| row.int(0));
    let found = store.database("build_1").read::<i64, StoreError>(read).await.unwrap();
    store.close().await;
    found
}

async fn check(installation: &Installation, admin: &ApiClient, rounds: usize) {
    let mut reminders: BTreeMap<(String, String), usize> = BTreeMap::new();
    for mail in MailFile::read_all(&installation.data(), "localhost") {
        if let Some(task) = mail.subject.strip_prefix("Reminder: ") {
            *reminders.entry((task.to_owned(), mail.to)).or_default() += 1;
        }
    }
    let tasks = crate::workload::fetch_all_pages(admin, "/api/tasks/").await;
    for (round, n) in (0..rounds).flat_map(|round| (0..TASKS).map(move |n| (round, n))) {
        let named = |kind: &str| {
            let name = format!("{kind} {round}-{n}");
            tasks.iter().filter(|task| task["name"] == name).collect::<Vec<_>>()
        };
        for receiver in REMINDED {
            let reminder = (format!("Remind {round}-{n}"), receiver.to_owned());
            assert_eq!(reminders.remove(&reminder), Some(1), "{reminder:?}");
        }
        let states = |kind: &str| named(kind).iter().map(|task| task["status"].clone()).collect::<Vec<_>>();
        assert_eq!(
            [states("Remind"), states("Expire"), states("Renew")].concat(),
            ["open", "expired", "expired", "open"]
        );
        for task in [named("Expire")[0], named("Renew")[0]] {
            let log = admin.get(&format!("/api/tasks/{}/log/", task["id"])).await.column("action");
            assert_eq!(log.iter().filter(|action| **action == "expire").count(), 1, "{}: {log:?}", task["name"]);
        }
    }
    assert_eq!(reminders, BTreeMap::new(), "of others");
    assert_eq!(number(installation, WRONG_COUNTS).await, 0);
}
