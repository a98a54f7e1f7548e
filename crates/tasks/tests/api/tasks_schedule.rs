//! The scheduled changes of tasks: they expire, remind and are renewed (`docs/reference/tasks.md`). The tests move the clock of
//! the server, so that years pass in milliseconds.

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, nothing_is_due, number, record, sql, wait_for};
use serde_json::{Value, json};
use testkit::{ApiClient, MailFile, NOW, eventually};

const TASKS: &str = "/api/tasks/";
const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;
const NOTHING_DUE: &str = "SELECT count(*) FROM task_moments WHERE is_done = 0 AND at <= 0";

/// Creates a template of forms with these rules, and returns its id.
async fn template(api: &ApiClient, rules: Value) -> i64 {
    let mut body = json!({"name": "Survey", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    for (name, value) in rules.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = api.post(TEMPLATES, body).await;
    made.expect_created();
    made.id()
}

/// Starts a server whose tokens are valid for the years of a test.
async fn server() -> TestServer {
    let years = |settings: &mut testkit::TestSettings| {
        let identity = &mut settings.identity;
        (identity.access_token_seconds, identity.refresh_token_seconds) = (1 << 32, 1 << 32);
    };
    TestServer::start_with(years).await
}

async fn task(api: &ApiClient, body: Value) -> i64 {
    let made = api.post(TASKS, body).await;
    made.expect_created();
    made.id()
}

/// Moves the clock to this time after the start, and waits until all due changes are done.
async fn advance_clock(server: &TestServer, since_start: i64) {
    server.advance(NOW + since_start - server.clock.now());
    kit::jobs::wake(&server.app, &server.build);
    nothing_is_due(server, server.clock.now()).await;
}

/// Waits for this number of mails, and returns the mails of the build.
async fn mails(server: &TestServer, count: usize) -> Vec<MailFile> {
    let mails = eventually(async || {
        let mails = MailFile::read_all(server.data(), testkit::DOMAIN);
        let is_complete = mails.len() >= count && number(server, "SELECT count(*) FROM jobs").await == 0;
        if is_complete { Ok(mails) } else { Err(mails) }
    });
    let mails = mails.await;
    assert_eq!(mails.len(), count, "{mails:#?}");
    mails
}

async fn field(api: &ApiClient, id: i64, name: &str) -> Value {
    api.get(&format!("/api/tasks/{id}/")).await.ok()[name].clone()
}

#[tokio::test]
async fn tasks_expire_at_their_time() {
    let server = server().await;
    let api = server.admin().await;
    let other = server.as_type("super_admin").await;
    let frame = json!({
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 1, "expiry_time_rel_to": "assigned",
    });
    template(&api, frame).await;
    for _ in 0..3 {
        task(&api, json!({"task_template": 1, "assignees": [other.id]})).await;
    }
    let approved = json!({
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 1, "expiry_time_rel_to": "assigned",
        "plugin_config": {"task_type": "tt_form", "approval_required": true},
    });
    template(&api, approved).await;
    task(&api, json!({"task_template": 2})).await;
    api.post("/api/tasks/2/complete/", json!({"response": 1})).await.ok();
    api.post("/api/tasks/3/cancel/", json!({})).await.ok();
    api.post("/api/tasks/4/complete/", json!({"response": 1})).await.ok();
    advance_clock(&server, DAY - 1).await;
    assert_eq!(api.get("/api/tasks/?status=expired").await.ids(), Vec::<i64>::new());
    advance_clock(&server, DAY).await;
    assert_eq!(api.get("/api/tasks/?status=expired").await.ids(), [1, 2, 4]);
    assert_eq!(field(&api, 3, "status").await, "canceled");
    let at = "2026-02-01T09:30:00.000000Z";
    let entry = api.get("/api/tasks/1/log/").await.ok()["results"][0].clone();
    assert_eq!(
        entry,
        json!({
            "id": entry["id"], "at": at, "by": null, "source_type": "system", "action": "expire",
            "changes": {"status": ["open", "expired"]},
        })
    );
    let expired = api.get("/api/tasks/1/").await.ok();
    assert_eq!((&expired["modified_at"], &expired["modified_by"]), (&json!(at), &Value::Null));
    assert_eq!(other.get("/api/tasks/?assignees=me&status=open").await.ids(), Vec::<i64>::new());

    // A reopened task loses a past expiry.
    let open = api.post("/api/tasks/1/reopen/", json!({})).await.ok();
    assert_eq!((&open["status"], &open["expires_at"]), (&json!("open"), &Value::Null));
    advance_clock(&server, 2 * DAY).await;
    assert_eq!(field(&api, 1, "status").await, "open");
    // An expiry in the past ends the task immediately.
    api.patch("/api/tasks/1/", json!({"expires_at": "2026-02-01T00:00:00Z"})).await.ok();
    advance_clock(&server, 2 * DAY).await;
    assert_eq!(field(&api, 1, "status").await, "expired");
}

#[tokio::test]
async fn an_expiry_may_count_from_the_completion() {
    let server = server().await;
    let api = server.admin().await;
    let other = server.as_type("super_admin").await;
    let rules = json!({
        "expiry": "time_frame", "expiry_time_unit": "months", "expiry_time_value": 1,
        "expiry_time_rel_to": "completed", "plugin_config": {"task_type": "tt_form", "approval_required": true},
    });
    template(&api, rules).await;
    let id = task(&api, json!({"task_template": 1})).await;
    advance_clock(&server, 10 * DAY).await;
    api.post(&format!("/api/tasks/{id}/complete/"), json!({"response": 1})).await.ok();
    assert_eq!(field(&api, id, "expires_at").await, Value::Null);
    advance_clock(&server, 28 * DAY).await;
    let approved = other.post(&format!("/api/tasks/{id}/approve/"), json!({})).await.ok();
    assert_eq!(approved["expires_at"], "2026-03-28T09:30:00.000000Z");
    let open = other.post(&format!("/api/tasks/{id}/reopen/"), json!({})).await.ok();
    assert_eq!(open["expires_at"], Value::Null);
    advance_clock(&server, 90 * DAY).await;
    assert_eq!(field(&api, id, "status").await, "open");
}

#[tokio::test]
async fn assignees_and_members_of_groups_are_reminded_once() {
    let server = server().await;
    let api = server.admin().await;
    let reminder = |notice_type: &str, unit: &str, value: i64| json!({"notice_type": notice_type, "time_unit": unit, "time_value": value});
    let rules = json!({
        "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 10,
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 30, "expiry_time_rel_to": "assigned",
        "reminders": [
            reminder("before_due", "days", 3), reminder("after_due", "weeks", 1),
            reminder("before_expiry", "days", 5), reminder("before_due", "months", 1),
        ],
    });
    template(&api, rules).await;
    let ann = server.as_type("internal").await;
    let ben = server.as_type("external").await;
    let gone = server.as_type("internal").await;
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([ann.id, ben.id, gone.id]))
        .await
        .expect_created();
    api.post(&format!("/api/users/{}/deactivate/", gone.id), json!({})).await;
    let body =
        json!({"task_template": 1, "name": "Count\tthe stock", "assignees": [ann.id], "assignee_groups": [group]});
    task(&api, body).await;
    advance_clock(&server, 7 * DAY - 1).await;
    assert_eq!(mails(&server, 0).await, []);
    // The reminder a month before was past when the task was created.
    advance_clock(&server, 7 * DAY).await;
    let reminders = mails(&server, 2).await;
    assert_eq!(reminders[0].to, ann.username);
    assert_eq!(reminders[0].subject, "Reminder: Count the stock");
    assert!(
        reminders[0].text.contains("Count the stock\n\nDue: 2026-02-10 09:30 UTC\nExpires: 2026-03-02 09:30 UTC"),
        "{reminders:?}"
    );
    assert_eq!(reminders[1].to, ben.username);
    advance_clock(&server, 17 * DAY).await;
    mails(&server, 4).await;
    // A completed task reminds of its expiry only.
    ann.post("/api/tasks/1/complete/", json!({"response": 1})).await.ok();
    advance_clock(&server, 25 * DAY).await;
    mails(&server, 6).await;
    advance_clock(&server, 40 * DAY).await;
    mails(&server, 6).await;
    assert_eq!(field(&api, 1, "status").await, "expired");
}

#[tokio::test]
async fn after_an_outage_each_person_gets_one_mail_for_a_task() {
    let server = server().await;
    let api = server.admin().await;
    let reminder =
        |notice_type: &str, days: i64| json!({"notice_type": notice_type, "time_unit": "days", "time_value": days});
    let mut reminders: Vec<Value> = [30, 14, 7, 3, 1].map(|days| reminder("before_due", days)).into();
    let before = json!({"complete_by": "date", "complete_by_date": "2026-03-31", "reminders": reminders});
    reminders.extend([1, 7].map(|days| reminder("after_due", days)));
    let both = json!({"complete_by": "date", "complete_by_date": "2026-03-31", "reminders": reminders});
    template(&api, before).await;
    template(&api, both).await;
    let (ann, ben) = (server.as_type("internal").await, server.as_type("internal").await);
    for template in [1, 2] {
        let name = format!("Task {template}");
        task(&api, json!({"task_template": template, "name": name, "assignees": [ann.id, ben.id]})).await;
    }
    let since = |days: i64| days * DAY;
    // 20 March: two reminders have become due for each task, and only the latest is sent.
    advance_clock(&server, since(48)).await;
    assert_eq!(mails(&server, 4).await.iter().filter(|mail| mail.to == ann.username).count(), 2);
    // 11 April: the tasks have been due for days. The first template has no later reminder.
    advance_clock(&server, since(70)).await;
    let sent = mails(&server, 6).await;
    let late: Vec<_> = sent[4..].iter().map(|mail| (mail.subject.as_str(), &mail.to)).collect();
    assert_eq!(late, [("Reminder: Task 2", &ann.username), ("Reminder: Task 2", &ben.username)]);
    // A date is shown as a day without a zone.
    assert!(sent[4].text.contains("\n\nDue: 2026-03-31\n"), "{}", sent[4].text);
    advance_clock(&server, since(400)).await;
    mails(&server, 6).await;
}

#[tokio::test]
async fn a_task_that_is_due_later_reminds_again_and_an_ended_one_never() {
    let server = server().await;
    let api = server.admin().await;
    let rules = json!({
        "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 10,
        "reminders": [{"notice_type": "before_due", "time_unit": "days", "time_value": 1}],
    });
    template(&api, rules).await;
    for _ in 0..3 {
        task(&api, json!({"task_template": 1, "assignees": [1]})).await;
    }
    api.post("/api/tasks/2/complete/", json!({"response": 1})).await.ok();
    api.post("/api/tasks/3/cancel/", json!({})).await.ok();
    advance_clock(&server, 9 * DAY).await;
    mails(&server, 1).await;
    // A new name does not alter the scheduled changes. Neither does the same due time again.
    api.patch("/api/tasks/1/", json!({"name": "x"})).await.ok();
    api.patch("/api/tasks/1/", json!({"due_at": "2026-02-10T09:30:00Z"})).await.ok();
    advance_clock(&server, 9 * DAY + HOUR).await;
    mails(&server, 1).await;
    api.patch("/api/tasks/1/", json!({"due_at": "2026-03-10T09:30:00Z"})).await.ok();
    advance_clock(&server, 37 * DAY).await;
    mails(&server, 2).await;
    advance_clock(&server, 60 * DAY).await;
    mails(&server, 2).await;
    assert_eq!(number(&server, NOTHING_DUE).await, 0);
}

#[tokio::test]
async fn a_completed_task_is_renewed_before_it_expires() {
    let server = server().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    let ann = server.as_type("internal").await;
    let rules = json!({
        "expiry": "annually", "expiry_periodic_day": 31, "expiry_periodic_month": 12,
        "renewals": [{"renewal_time_unit": "months", "renewal_time_value": 1}, {"renewal_time_unit": "weeks", "renewal_time_value": 1}],
    });
    template(&api, rules).await;
    let body = json!({"task_template": 1, "object_record": 1, "assignees": [ann.id], "name": "The certificate"});
    task(&api, body).await;
    assert_eq!(field(&api, 1, "expires_at").await, "2026-12-31T23:59:59.999999Z");
    ann.post("/api/tasks/1/complete/", json!({"response": 1})).await.ok();
    // 30 November is a month before the expiry. Then the new task is open, so the second renewal creates no other one.
    advance_clock(&server, 300 * DAY).await;
    assert_eq!(api.get(TASKS).await.ids(), [1]);
    advance_clock(&server, 304 * DAY).await;
    assert_eq!(api.get(TASKS).await.ids(), [1, 2]);
    advance_clock(&server, 330 * DAY).await;
    assert_eq!(api.get(TASKS).await.ids(), [1, 2]);
    let renewed = api.get("/api/tasks/2/").await.ok();
    assert_eq!(
        [
            &renewed["name"],
            &renewed["status"],
            &renewed["object_record"],
            &renewed["assignees"][0]["id"],
            &renewed["created_by"]["id"]
        ],
        [&json!("The certificate"), &json!("open"), &json!(1), &json!(ann.id), &json!(1)]
    );
    let entry = api.get("/api/tasks/2/log/").await.ok()["results"][0].clone();
    assert_eq!(
        (&entry["action"], &entry["source_type"], &entry["by"]),
        (&json!("create"), &json!("system"), &Value::Null)
    );
    assert_eq!(renewed["expires_at"], "2027-12-31T23:59:59.999999Z");
    advance_clock(&server, 335 * DAY).await;
    assert_eq!(field(&api, 1, "status").await, "expired");
    // A task that is completed after its renewal time is renewed immediately.
    advance_clock(&server, 690 * DAY).await;
    ann.post("/api/tasks/2/complete/", json!({"response": 1})).await.ok();
    advance_clock(&server, 690 * DAY).await;
    assert_eq!(api.get(TASKS).await.ids(), [1, 2, 3]);
    assert_eq!(field(&api, 3, "expires_at").await, "2028-12-31T23:59:59.999999Z");
    // Without its template a task is not renewed.
    ann.post("/api/tasks/3/complete/", json!({"response": 1})).await.ok();
    api.delete(&format!("{TEMPLATES}1/")).await.expect_empty();
    advance_clock(&server, 3_000 * DAY).await;
    assert_eq!(number(&server, "SELECT count(*) FROM tasks WHERE status <> 'expired'").await, 0);
    wait_for(&server, "SELECT count(*) FROM task_moments WHERE is_done = 0", 0).await;
}

#[tokio::test]
async fn a_task_that_would_expire_at_once_is_not_renewed() {
    let server = server().await;
    let api = server.admin().await;
    let rules = json!({
        "expiry": "date", "expiry_date": "2026-12-31", "renewals": [{}, {"renewal_time_unit": "months", "renewal_time_value": 1}],
    });
    template(&api, rules).await;
    task(&api, json!({"task_template": 1})).await;
    api.post("/api/tasks/1/complete/", json!({"response": 1})).await.ok();
    advance_clock(&server, 400 * DAY).await;
    assert_eq!(api.get(TASKS).await.column("status"), ["expired"]);
    // At the time of the expiry, a task is renewed before it expires.
    let rules = json!({
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 10,
        "expiry_time_rel_to": "completed", "renewals": [{}],
    });
    template(&api, rules).await;
    task(&api, json!({"task_template": 2})).await;
    api.post("/api/tasks/2/complete/", json!({"response": 1})).await.ok();
    advance_clock(&server, 409 * DAY).await;
    assert_eq!(api.get(TASKS).await.column("status"), ["expired", "completed"]);
    advance_clock(&server, 410 * DAY).await;
    assert_eq!(api.get(TASKS).await.column("status"), ["expired", "expired", "open"]);
}

#[tokio::test]
async fn overdue_steps_run_once_at_the_next_start() {
    let server = server().await;
    let api = server.admin().await;
    let rules = json!({
        "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 2,
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 20, "expiry_time_rel_to": "assigned",
        "reminders": [{"notice_type": "before_due", "time_unit": "days", "time_value": 1}],
        "renewals": [{"renewal_time_unit": "days", "renewal_time_value": 5}],
    });
    template(&api, rules).await;
    task(&api, json!({"task_template": 1, "assignees": [1]})).await;
    task(&api, json!({"task_template": 1, "assignees": [1]})).await;
    api.post("/api/tasks/2/complete/", json!({"response": 1})).await.ok();
    api.post("/api/tasks/1/cancel/", json!({})).await.ok();
    task(&api, json!({"task_template": 1, "assignees": [1]})).await;
    api.post("/api/tasks/3/cancel/", json!({})).await.ok();
    task(&api, json!({"task_template": 1, "object_record": null})).await;
    // A month passes at once: the completed task is renewed before it expires, and the open one expires.
    advance_clock(&server, 31 * DAY).await;
    let states = api.get(&format!("{TASKS}?ordering=id")).await.column("status");
    assert_eq!(states[..4], ["canceled", "expired", "canceled", "expired"]);
    // The clock moves back and forth, and nothing is repeated.
    let tasks = number(&server, "SELECT count(*) FROM tasks").await;
    let done = number(&server, "SELECT count(*) FROM task_log").await;
    let mail_count = MailFile::read_all(server.data(), testkit::DOMAIN).len();
    for days in [5, 31, 0, 30] {
        advance_clock(&server, days * DAY).await;
    }
    assert_eq!(number(&server, "SELECT count(*) FROM tasks").await, tasks);
    assert_eq!(number(&server, "SELECT count(*) FROM task_log").await, done);
    assert_eq!(MailFile::read_all(server.data(), testkit::DOMAIN).len(), mail_count);
}

#[tokio::test]
async fn a_reminder_to_very_many_is_put_into_the_queue_in_turns() {
    let server = server().await;
    let api = server.admin().await;
    let rules = json!({
        "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 3,
        // Two reminders at the same time count as one.
        "reminders": [
            {"notice_type": "before_due", "time_unit": "days", "time_value": 1},
            {"notice_type": "before_due", "time_unit": "days", "time_value": 1},
        ],
    });
    template(&api, rules).await;
    let group = api.post("/api/user-groups/", json!({"name": "Everybody"})).await.id();
    sql(&server, MANY).await;
    for assigned in [json!({"assignee_groups": [group]}), json!({"assignees": [1], "assignee_groups": [group]})] {
        let mut body = assigned;
        body["task_template"] = json!(1);
        task(&api, body).await;
    }
    advance_clock(&server, 2 * DAY).await;
    assert_eq!(number(&server, "SELECT count(*) FROM task_moments WHERE reminded_to > 0 AND is_done = 1").await, 1);
    wait_for(&server, "SELECT count(*) FROM jobs", 0).await;
    let mut to: Vec<_> = MailFile::read_all(server.data(), testkit::DOMAIN).into_iter().map(|mail| mail.to).collect();
    assert_eq!(to.len(), 1_201);
    to.sort_unstable();
    to.dedup();
    assert_eq!(to.len(), 601);
}

/// Inserts 600 accounts into group 1.
const MANY: &[&str] = &[
    "INSERT INTO users(id, username, username_fold, account_type, first_name, last_name, full_name, full_name_fold, job_title, \
     company_name, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges, status, created_at, modified_at) \
     WITH RECURSIVE c(n) AS (SELECT CAST(1000 AS BIGINT) UNION ALL SELECT n + 1 FROM c WHERE n < 1599) \
     SELECT n, 'u' || n || '@example.com', 'u' || n || '@example.com', 'external', 'U', 'U', 'U U', 'u u', '', '', '', '', 'UTC', \
     0, '[]', 'active', 0, 0 FROM c",
    "INSERT INTO user_group_members(group_id, user_id, created_at) SELECT 1, id, 0 FROM users WHERE id >= 1000",
];

#[tokio::test]
async fn an_opened_task_expires_again_at_the_same_time() {
    let server = server().await;
    let api = server.admin().await;
    template(&api, json!({})).await;
    task(&api, json!({"task_template": 1})).await;
    let expires_at = json!({"expires_at": "2026-02-01T09:30:00Z"});
    api.patch("/api/tasks/1/", expires_at.clone()).await.ok();
    advance_clock(&server, DAY).await;
    assert_eq!(field(&api, 1, "status").await, "expired");
    api.post("/api/tasks/1/reopen/", json!({})).await.ok();
    // The clock is corrected, and the same expiry is set again.
    advance_clock(&server, 0).await;
    api.patch("/api/tasks/1/", expires_at).await.ok();
    advance_clock(&server, DAY - 1).await;
    assert_eq!(field(&api, 1, "status").await, "open");
    advance_clock(&server, DAY).await;
    assert_eq!(field(&api, 1, "status").await, "expired");
}

#[tokio::test]
async fn without_a_record_each_set_of_assignees_has_a_renewal_of_its_own() {
    let server = server().await;
    let api = server.admin().await;
    let ann = server.as_type("internal").await;
    let ben = server.as_type("internal").await;
    let rules = json!({
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 10, "expiry_time_rel_to": "assigned",
        "renewals": [{"renewal_time_unit": "days", "renewal_time_value": 2}],
    });
    template(&api, rules).await;
    for assignees in [json!([ann.id]), json!([ben.id]), json!([ann.id])] {
        let id = task(&api, json!({"task_template": 1, "assignees": assignees})).await;
        api.post(&format!("/api/tasks/{id}/complete/"), json!({"response": 1})).await.ok();
    }
    advance_clock(&server, 8 * DAY).await;
    let renewed = api.get(&format!("{TASKS}?status=open&ordering=id")).await.ok();
    let assigned: Vec<_> =
        renewed["results"].as_array().unwrap().iter().map(|task| &task["assignees"][0]["id"]).collect();
    assert_eq!(assigned, [&json!(ann.id), &json!(ben.id)]);
}

#[tokio::test]
async fn many_tasks_are_renewed_and_remind_whatever_else_is_due() {
    let server = server().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    let rules = json!({
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 20, "expiry_time_rel_to": "assigned",
        "reminders": [{"notice_type": "before_expiry", "time_unit": "days", "time_value": 7}],
        "renewals": [{"renewal_time_unit": "days", "renewal_time_value": 5}],
    });
    template(&api, rules).await;
    for _ in 0..60 {
        let record = record(&api, 1).await;
        let id = task(&api, json!({"task_template": 1, "object_record": record})).await;
        api.post(&format!("/api/tasks/{id}/complete/"), json!({"response": 1})).await.ok();
    }
    // No process has run for days, and more changes are due than one transaction reads.
    advance_clock(&server, 16 * DAY).await;
    assert_eq!(number(&server, "SELECT count(*) FROM tasks WHERE status = 'open'").await, 60);
    assert_eq!(number(&server, "SELECT count(DISTINCT record) FROM tasks WHERE status = 'open'").await, 60);
}

#[tokio::test]
async fn expired_tasks_do_not_send_reminders() {
    let server = server().await;
    let api = server.admin().await;
    let rules = json!({
        "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 3,
        "expiry": "time_frame", "expiry_time_unit": "days", "expiry_time_value": 5, "expiry_time_rel_to": "assigned",
        "reminders": [
            {"notice_type": "before_due", "time_unit": "days", "time_value": 1},
            {"notice_type": "before_expiry", "time_unit": "days", "time_value": 1},
        ],
    });
    template(&api, rules).await;
    for _ in 0..2 {
        task(&api, json!({"task_template": 1, "assignees": [1]})).await;
    }
    // No process has run until both tasks had expired.
    advance_clock(&server, 6 * DAY).await;
    assert_eq!(api.get(TASKS).await.column("status"), ["expired", "expired"]);
    assert_eq!(mails(&server, 0).await, []);
}
