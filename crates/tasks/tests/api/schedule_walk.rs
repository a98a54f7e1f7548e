//! Compares random tasks with a simple model of their scheduled changes, while their states and times change and the clock
//! moves forward and back. `crates/chancery/tests/server/tasks_crash.rs` kills real servers.

use crate::TestServer;
use crate::set_up::{SeededRandom, TEMPLATES, class, nothing_is_due, record, wait_for};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::{ApiClient, MailFile, NOW, rounds};

const TASKS: &str = "/api/tasks/";
const DAY: i64 = 86_400_000_000;
const STEPS: usize = 80;

/// The kinds of scheduled changes. Changes of the same time are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    Renew,
    Remind,
    Expire,
}

/// The rules of a template, in days.
#[derive(Clone, Debug)]
struct TemplateRules {
    expires_after: Option<i64>,
    is_approved: bool,
    reminders: Vec<(&'static str, i64)>,
    renewals: Vec<i64>,
}

#[derive(Clone, Debug)]
struct ModelTask {
    id: i64,
    template: usize,
    name: String,
    record: Option<i64>,
    /// The assigned users, and whether the group is assigned.
    assigned: (BTreeSet<i64>, bool),
    /// All users who are assigned directly or through the group.
    principals: BTreeSet<i64>,
    status: &'static str,
    due_at: Option<i64>,
    expires_at: Option<i64>,
    /// The scheduled changes by kind and index: the time, and whether it was handled or skipped.
    changes: BTreeMap<(ChangeKind, usize), (i64, bool)>,
}

/// The expected state.
#[derive(Default)]
struct ScheduleModel {
    templates: Vec<TemplateRules>,
    tasks: Vec<ModelTask>,
    /// The expected number of reminders of each user for tasks of this name.
    mails: BTreeMap<(String, i64), usize>,
}

impl ModelTask {
    fn expected_changes(&self, rules: &TemplateRules) -> BTreeMap<(ChangeKind, usize), i64> {
        let mut expected = BTreeMap::new();
        for (n, (notice, days)) in rules.reminders.iter().enumerate() {
            let at = match (*notice, self.status) {
                ("before_due", "open") => self.due_at.map(|due| due - days * DAY),
                ("after_due", "open") => self.due_at.map(|due| due + days * DAY),
                ("before_expiry", "open" | "completed") => self.expires_at.map(|expires| expires - days * DAY),
                _ => None,
            };
            // Two reminders at the same time count as one.
            let is_new = |at: &i64| !expected.values().any(|other| other == at);
            expected.extend(at.filter(is_new).map(|at| ((ChangeKind::Remind, n), at)));
        }
        if let Some(expires) = self.expires_at {
            if ["open", "in_approval", "completed"].contains(&self.status) {
                expected.insert((ChangeKind::Expire, 0), expires);
            }
            if self.status == "completed" {
                expected.extend(
                    rules.renewals.iter().enumerate().map(|(n, days)| ((ChangeKind::Renew, n), expires - days * DAY)),
                );
            }
        }
        expected
    }

    /// Updates the scheduled changes after an edit. Handled changes that stay are not repeated, except expiries. Past reminders are
    /// skipped.
    fn mark_past_changes(&mut self, rules: &TemplateRules, now: i64) {
        let wanted = self.expected_changes(rules);
        self.changes.retain(|key, (at, is_over)| {
            wanted.get(key).map_or(*is_over, |wanted| wanted == at && !(key.0 == ChangeKind::Expire && *is_over))
        });
        for (key, at) in wanted {
            if key.0 != ChangeKind::Remind || at >= now {
                self.changes.entry(key).or_insert((at, false));
            }
        }
    }
}

impl ScheduleModel {
    fn change(&mut self, at: usize, now: i64, change: impl FnOnce(&mut ModelTask)) {
        let task = &mut self.tasks[at];
        change(task);
        task.mark_past_changes(&self.templates[task.template], now);
    }

    /// Handles all due changes. Mails are sent afterwards, for tasks that have not ended by then.
    fn advance_to(&mut self, now: i64) {
        let mut reminded = Vec::new();
        self.apply_due_changes(now, &mut reminded);
        for (place, n) in reminded {
            let task = &self.tasks[place];
            let of_expiry = self.templates[task.template].reminders[n].0 == "before_expiry";
            if task.status == "open" || (of_expiry && task.status == "completed") {
                for user in &task.principals {
                    *self.mails.entry((task.name.clone(), *user)).or_default() += 1;
                }
            }
        }
    }

    fn apply_due_changes(&mut self, now: i64, reminded: &mut Vec<(usize, usize)>) {
        loop {
            let mut due = Vec::new();
            for (place, task) in self.tasks.iter().enumerate() {
                let open = task.changes.iter().filter(|(_, (at, is_over))| !is_over && *at <= now);
                due.extend(open.map(|((kind, n), (at, _))| (*at, place, *kind, *n)));
            }
            if due.is_empty() {
                return;
            }
            due.sort_unstable();
            // Only the latest of several due reminders of a task is sent. Reminders before the due time are not sent after it.
            let mut latest = BTreeMap::new();
            for (at, place, kind, n) in due {
                let Some((_, is_over)) = self.tasks[place].changes.get_mut(&(kind, n)) else { continue };
                *is_over = true;
                let task = &self.tasks[place];
                match kind {
                    ChangeKind::Renew => self.renew(place, now),
                    ChangeKind::Remind => {
                        let is_before = self.templates[task.template].reminders[n].0 == "before_due";
                        let is_late = is_before && task.due_at.is_some_and(|due| at < due && due <= now);
                        if !is_late {
                            latest.insert(place, n);
                        }
                    }
                    ChangeKind::Expire if ["open", "in_approval", "completed"].contains(&task.status) => {
                        self.change(place, now, |task| task.status = "expired");
                    }
                    _ => {}
                }
            }
            reminded.extend(latest);
        }
    }

    fn renew(&mut self, place: usize, now: i64) {
        let former = self.tasks[place].clone();
        let is_open = |task: &ModelTask| {
            (task.template, task.record) == (former.template, former.record)
                && (task.record.is_some() || task.assigned == former.assigned)
                && ["open", "in_approval"].contains(&task.status)
        };
        let expires_at = self.templates[former.template].expires_after.map(|days| now + days * DAY);
        let lasts_longer = expires_at.is_none() || expires_at > former.expires_at;
        if former.status == "completed" && lasts_longer && !self.tasks.iter().any(is_open) {
            self.tasks.push(ModelTask {
                id: 0,
                status: "open",
                due_at: Some(now),
                expires_at,
                changes: BTreeMap::new(),
                ..former
            });
            self.change(self.tasks.len() - 1, now, |_| {});
        }
    }
}

struct ScheduleWalk {
    server: TestServer,
    api: ApiClient,
    random: SeededRandom,
    model: ScheduleModel,
    people: Vec<i64>,
    group: i64,
}

impl ScheduleWalk {
    async fn begin(seed: u64) -> ScheduleWalk {
        let years = |settings: &mut testkit::TestSettings| {
            let identity = &mut settings.identity;
            (identity.access_token_seconds, identity.refresh_token_seconds) = (1 << 32, 1 << 32);
        };
        let server = TestServer::start_with(years).await;
        let api = server.admin().await;
        class(&api, "Order").await;
        record(&api, 1).await;
        record(&api, 1).await;
        let mut people = Vec::new();
        for _ in 0..3 {
            people.push(server.as_type("internal").await.id);
        }
        let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
        api.post(&format!("/api/user-groups/{group}/members/users/"), json!(people[..2])).await.expect_created();
        let random = SeededRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut walk = ScheduleWalk { server, api, random, model: ScheduleModel::default(), people, group };
        for _ in 0..4 {
            walk.make_template().await;
        }
        walk
    }

    fn current_time(&self) -> i64 {
        self.server.clock.now()
    }

    async fn make_template(&mut self) {
        let random = &mut self.random;
        let mut reminders = Vec::new();
        for _ in 0..random.number_below(4) {
            reminders
                .push((random.choose(&["before_due", "after_due", "before_expiry"]), random.number_below(5) as i64));
        }
        let rules = TemplateRules {
            expires_after: (random.number_below(3) > 0).then_some(3 + random.number_below(9) as i64),
            is_approved: random.number_below(4) == 0,
            reminders,
            renewals: (0..random.number_below(3)).map(|_| random.number_below(4) as i64).collect(),
        };
        let reminder =
            |(notice, days): &(&str, i64)| json!({"notice_type": notice, "time_unit": "days", "time_value": days});
        let renewal = |days: &i64| json!({"renewal_time_unit": "days", "renewal_time_value": days});
        let mut body = json!({
            "name": "Check", "complete_by": "asap",
            "plugin_config": {"task_type": "tt_form", "approval_required": rules.is_approved},
            "reminders": rules.reminders.iter().map(reminder).collect::<Vec<_>>(),
            "renewals": rules.renewals.iter().map(renewal).collect::<Vec<_>>(),
        });
        if let Some(days) = rules.expires_after {
            (body["expiry"], body["expiry_time_unit"]) = (json!("time_frame"), json!("days"));
            (body["expiry_time_value"], body["expiry_time_rel_to"]) = (json!(days), json!("assigned"));
        }
        self.api.post(TEMPLATES, body).await.expect_created();
        self.model.templates.push(rules);
    }

    async fn make(&mut self) {
        let template = self.random.number_below(self.model.templates.len());
        let name = format!("Task {}", self.model.tasks.len());
        let mut principals: BTreeSet<i64> = self.random.sample(&self.people).into_iter().collect();
        let record = self.random.choose(&[None, None, Some(1), Some(2)]);
        let mut body =
            json!({"task_template": template + 1, "name": name, "object_record": record, "assignees": principals});
        let assigned = (principals.clone(), self.random.number_below(3) == 0);
        if assigned.1 {
            body["assignee_groups"] = json!([self.group]);
            principals.extend(&self.people[..2]);
        }
        let id = self.api.post(TASKS, body).await.id();
        let now = self.current_time();
        let expires_at = self.model.templates[template].expires_after.map(|days| now + days * DAY);
        let changes = BTreeMap::new();
        let task = ModelTask {
            id,
            template,
            name,
            record,
            assigned,
            principals,
            status: "open",
            due_at: Some(now),
            expires_at,
            changes,
        };
        self.model.tasks.push(task);
        self.model.change(self.model.tasks.len() - 1, now, |_| {});
    }

    /// Sets a time of a task, at a different second each time.
    async fn postpone(&mut self, place: usize, now: i64) {
        let at =
            now + (self.random.number_below(20) as i64 - 3) * DAY + self.random.number_below(80_000) as i64 * 1_000_000;
        let at = (self.random.number_below(6) > 0).then_some(at);
        let (field, is_due) = self.random.choose(&[("due_at", true), ("expires_at", false)]);
        let shown = at.map(resource::time::show);
        let path = format!("{TASKS}{}/", self.model.tasks[place].id);
        let is_allowed = ["open", "in_approval"].contains(&self.model.tasks[place].status);
        let reply = self.api.patch(&path, json!({field: shown})).await;
        assert_eq!(reply.status, if is_allowed { 200 } else { 400 }, "{reply:?}");
        if is_allowed {
            self.model.change(place, now, |task| match is_due {
                true => task.due_at = at,
                false => task.expires_at = at,
            });
        }
    }

    async fn run_random_step(&mut self, place: usize, now: i64) {
        let (action, body) = self.random.choose(&[
            ("complete", json!({"response": 1})),
            ("complete", json!({"response": 1})),
            ("complete", json!({"response": 1})),
            ("cancel", json!({})),
            ("reopen", json!({})),
        ]);
        let task = &self.model.tasks[place];
        let completed = if self.model.templates[task.template].is_approved { "in_approval" } else { "completed" };
        let status = match (action, task.status) {
            ("complete", "open") => completed,
            ("cancel", "open" | "in_approval") => "canceled",
            ("reopen", "completed" | "expired" | "canceled") => "open",
            _ => "",
        };
        let reply = self.api.post(&format!("{TASKS}{}/{action}/", task.id), body).await;
        assert_eq!(reply.status, if status.is_empty() { 400 } else { 200 }, "{action} {task:?} {reply:?}");
        if !status.is_empty() {
            self.model.change(place, now, |task| {
                task.status = status;
                if action == "reopen" {
                    task.expires_at = task.expires_at.filter(|at| *at > now);
                }
            });
        }
    }

    /// Moves the clock, and waits until all due changes are handled.
    async fn advance_to(&mut self, micros: i64) {
        self.server.advance(micros);
        kit::jobs::wake(&self.server.app, &self.server.build);
        let now = self.current_time();
        self.model.advance_to(now);
        nothing_is_due(&self.server, now).await;
        wait_for(&self.server, "SELECT count(*) FROM jobs", 0).await;
        self.compare().await;
    }

    async fn compare(&mut self) {
        let page = self.api.get(&format!("{TASKS}?ordering=id&limit=1000")).await.ok();
        let stored = page["results"].as_array().unwrap();
        for (task, stored) in self.model.tasks.iter_mut().zip(stored) {
            // A renewed task has no id in the model yet.
            if task.id == 0 {
                task.id = stored["id"].as_i64().unwrap();
            }
        }
        let shown = |at: Option<i64>| json!(at.map(resource::time::show));
        let expected: Vec<Value> = self
            .model
            .tasks
            .iter()
            .map(|task| {
                json!([task.id, task.name, task.status, shown(task.due_at), shown(task.expires_at), task.record])
            })
            .collect();
        let actual: Vec<Value> = stored
            .iter()
            .map(|task| {
                json!(["id", "name", "status", "due_at", "expires_at", "object_record"].map(|name| &task[name]))
            })
            .collect();
        assert_eq!(actual, expected, "at {}", resource::time::show(self.current_time()));
    }

    async fn step(&mut self) {
        let now = self.current_time();
        let place = self.random.number_below(self.model.tasks.len().max(1));
        let (back, on) =
            (self.random.number_below(2 * DAY as usize) as i64, self.random.number_below(5 * DAY as usize) as i64);
        match self.random.number_below(12) {
            0..3 => self.make().await,
            _ if self.model.tasks.is_empty() => {}
            3..5 => self.postpone(place, now).await,
            5..8 => self.run_random_step(place, now).await,
            // The clock must not go back before the sign-in.
            8 => self.advance_to(-back.min(now - NOW)).await,
            _ => self.advance_to(on).await,
        }
        // New due changes are handled immediately, or by the next step.
        if !self.model.tasks.is_empty() {
            self.advance_to(0).await;
        }
    }

    async fn end(mut self) {
        self.advance_to(NOW + 1000 * DAY - self.current_time()).await;
        wait_for(&self.server, "SELECT count(*) FROM jobs", 0).await;
        let mut mails: BTreeMap<(String, String), usize> = BTreeMap::new();
        for mail in MailFile::read_all(self.server.data(), testkit::DOMAIN) {
            if let Some(task) = mail.subject.strip_prefix("Reminder: ") {
                *mails.entry((task.to_owned(), mail.to)).or_default() += 1;
            }
        }
        let mut names = BTreeMap::new();
        for id in &self.people {
            names.insert(
                *id,
                self.api.get(&format!("/api/users/{id}/")).await.ok()["username"].as_str().unwrap().to_owned(),
            );
        }
        let expected: BTreeMap<(String, String), usize> =
            self.model.mails.into_iter().map(|((task, user), n)| ((task, names[&user].clone()), n)).collect();
        assert_eq!(mails, expected);
        println!("{} tasks, {} mails", self.model.tasks.len(), expected.values().sum::<usize>());
    }
}

#[tokio::test]
async fn the_schedule_matches_a_simple_model() {
    for seed in 1..=rounds(2) as u64 {
        println!("seed {seed}");
        let mut walk = ScheduleWalk::begin(seed).await;
        for _ in 0..STEPS {
            walk.step().await;
        }
        walk.end().await;
    }
}
