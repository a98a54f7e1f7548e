//! Compares lists of tasks that use stored counts and the indexes of principals with plain lists, for all callers.

use crate::TestServer;
use crate::set_up::{SeededRandom, class, form_template, number, record, sql, wait_for};
use serde_json::{Value, json};
use testkit::{ApiClient, rounds};

const TASKS: &str = "/api/tasks/";
/// A filter that matches each task and that stored counts do not support.
const PLAIN: &str = "created_at__gte=2000-01-01T00:00:00Z";
const QUERIES: [&str; 12] = [
    "assignees=me&status=open&ordering=due_at",
    "assignees=me&status=open&ordering=due_at&limit=2&offset=1",
    "assignees=me&status__in=open,canceled&ordering=-due_at",
    "assignees=me&ordering=due_at&limit=3",
    "assignees__in=me&ordering=-due_at&offset=2",
    "assignees=me&status=open&ordering=name",
    "status=open&ordering=due_at",
    "status__in=open,completed",
    "status__exclude=open",
    "assignees=me&status__in__exclude=open,canceled&ordering=due_at",
    "assignees__exclude=me",
    "assignees=me&assignees__in__exclude=2,3",
];
/// Selects counts that differ from those of the tasks.
const WRONG_COUNTS: &str = "SELECT count(*) FROM (SELECT x.audience FROM (SELECT audience, class_id, status, n FROM task_counts \
    UNION ALL SELECT '', COALESCE(class_id, 0), status, CAST(-1 AS BIGINT) FROM tasks \
    UNION ALL SELECT audience, COALESCE(class_id, 0), status, CAST(-1 AS BIGINT) FROM tasks WHERE audience <> '') x \
    GROUP BY x.audience, x.class_id, x.status HAVING sum(x.n) <> 0) y";
/// Selects assignees who do not belong to the audience of their task, or who have a different status of it.
const WRONG_ASSIGNEES: &str = "SELECT count(*) FROM task_assignees a JOIN tasks t ON t.id = a.task WHERE a.status <> t.status \
    OR NOT EXISTS (SELECT 1 FROM task_audiences m WHERE m.principal = a.principal AND m.audience = t.audience)";

async fn compare(server: &TestServer, callers: &[&ApiClient]) {
    for caller in callers {
        let counted = async |query: &str| {
            let page = caller.get(&format!("{TASKS}?{query}")).await;
            (page.ids(), page.ok()["filtered_count"].clone(), page.ok()["total_count"].clone())
        };
        let all = counted(PLAIN).await.1;
        for query in QUERIES {
            let (ids, filtered, total) = counted(query).await;
            let plain = counted(&format!("{query}&{PLAIN}")).await;
            assert_eq!((&ids, &filtered), (&plain.0, &plain.1), "{} {query}", caller.username);
            assert_eq!((&total, &plain.2), (&all, &all), "{} {query}", caller.username);
        }
    }
    assert_eq!([number(server, WRONG_COUNTS).await, number(server, WRONG_ASSIGNEES).await], [0, 0]);
}

/// A server with two classes, and users who see tasks by different rights.
struct TaskScene {
    server: TestServer,
    admin: ApiClient,
    people: Vec<ApiClient>,
    groups: Vec<i64>,
    records: Vec<i64>,
}

async fn start_scene() -> TaskScene {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let mut records = Vec::new();
    for name in ["Order", "Invoice"] {
        let class = class(&admin, name).await;
        for _ in 0..5 {
            records.push(record(&admin, class).await);
        }
    }
    form_template(&admin, "Survey").await;
    let mut people = Vec::new();
    for account_type in ["internal", "internal", "external", "internal", "super_admin"] {
        people.push(server.as_type(account_type).await);
    }
    let mut groups = Vec::new();
    for (name, members) in [("a", vec![0, 1]), ("b", vec![0]), ("c", vec![1, 2])] {
        let group = admin.post("/api/user-groups/", json!({"name": name})).await.id();
        let members: Vec<i64> = members.into_iter().map(|member: usize| people[member].id).collect();
        admin.post(&format!("/api/user-groups/{group}/members/users/"), json!(members)).await.expect_created();
        groups.push(group);
    }
    // The second user owns a class. The third user sees the tasks of some records through a group.
    admin.post("/api/object-classes/2/owners/", json!([people[1].id])).await.expect_created();
    for class in [1, 2] {
        let set = json!({"name": "Tasks", "permissions": {"tasks": ["view"]}});
        let set = admin.post(&format!("/api/object-classes/{class}/record-permission-sets/"), set).await.id();
        for record in records.iter().skip(5 * (class - 1)).take(5).step_by(2) {
            let assignees = format!("/api/object-records/{record}/permission-sets/{set}/assignees/");
            admin.post(&assignees, json!([people[2].id, people[0].id])).await.expect_created();
        }
    }
    TaskScene { server, admin, people, groups, records }
}

impl TaskScene {
    /// Performs a random change.
    async fn step(&mut self, random: &mut SeededRandom, tasks: &mut Vec<i64>) {
        let due = [Value::Null, json!("2026-03-01T00:00:00Z"), json!("2026-04-01T00:00:00Z")];
        let (due, one) = (random.choose(&due), random.choose(tasks));
        let assignee_ids: Vec<i64> = random.sample(&self.people).into_iter().map(|client| client.id).collect();
        let path = format!("{TASKS}{one}/");
        match random.number_below(10) {
            0..4 => {
                let mut body = json!({"task_template": 1, "assignees": assignee_ids, "assignee_groups": random.sample(&self.groups)});
                if random.number_below(3) > 0 {
                    body["object_record"] = json!(random.choose(&self.records));
                }
                let creator = if body.get("object_record").is_none() { &self.people[4] } else { &self.admin };
                let made = creator.post(TASKS, body).await;
                if made.status == 201 {
                    tasks.push(made.id());
                }
            }
            4 => drop(self.admin.patch(&path, json!({"due_at": due})).await),
            5 => drop(self.admin.patch(&path, json!({"assignees": assignee_ids})).await),
            6 => drop(
                self.admin.patch(&path, json!({"assignee_groups": random.sample(&self.groups), "due_at": due})).await,
            ),
            7 => drop(self.admin.post(&format!("{path}{}/", random.choose(&["cancel", "reopen"])), json!({})).await),
            8 => drop(self.admin.post(&format!("{path}complete/"), json!({"response": 1})).await),
            _ => drop(self.admin.delete(&path).await),
        }
    }
}

#[tokio::test]
async fn each_list_shows_what_a_plain_one_shows() {
    for seed in 1..=rounds(1) as u64 {
        let mut office = start_scene().await;
        let mut random = SeededRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut tasks = vec![1];
        for step in 0..60 {
            office.step(&mut random, &mut tasks).await;
            if step % 20 == 19 {
                let callers: Vec<&ApiClient> = office.people.iter().chain([&office.admin]).collect();
                compare(&office.server, &callers).await;
            }
        }
        // The deletions of a record, a user and a group remove tasks and assignments.
        let TaskScene { server, admin, people, groups, records } = &office;
        admin.delete(&format!("/api/object-records/{}/", records[0])).await.expect_empty();
        admin.delete(&format!("/api/users/{}/", people[3].id)).await.expect_empty();
        admin.delete(&format!("/api/user-groups/{}/", groups[0])).await.expect_empty();
        wait_for(server, "SELECT count(*) FROM jobs WHERE kind = 'task_assignees'", 0).await;
        let callers: Vec<&ApiClient> = people.iter().filter(|client| client.id != people[3].id).collect();
        compare(server, &callers).await;
    }
}

#[tokio::test]
async fn the_filter_of_assignees_counts_as_any_other() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let repeated = |name: &str, count: usize| vec![format!("{name}=1"); count].join("&");
    let list = |query: String| format!("/api/tasks/?{query}");
    api.get(&list(format!("{}&{}", repeated("assignees", 25), repeated("id", 25)))).await.ok();
    let too_many = json!({"detail": "Limit of 50 filters has been exceeded."});
    for query in [repeated("assignees", 51), format!("{}&{}", repeated("assignees__in", 25), repeated("id", 26))] {
        api.get(&list(query)).await.expect_reply(400, too_many.clone());
    }
    for (query, wrong) in [
        ("assignees=me,5", json!({"assignees": ["Select a valid choice. me,5 is not one of the available choices."]})),
        (
            "assignees__in=1,x",
            json!({"assignees__in": ["Select a valid choice. x is not one of the available choices."]}),
        ),
        (
            "assignees__gt=1",
            json!({"assignees__gt": ["Select a valid choice. gt is not one of the available choices."]}),
        ),
        (
            "assignees__exclude=x",
            json!({"assignees__exclude": ["Select a valid choice. x is not one of the available choices."]}),
        ),
    ] {
        api.get(&list(query.to_owned())).await.refuses(wrong);
    }
}

#[tokio::test]
async fn the_tasks_of_many_records_are_counted() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let ann = server.as_type("internal").await;
    class(&admin, "Order").await;
    form_template(&admin, "Survey").await;
    let items: Vec<Value> = (0..1_000).map(|_| json!({})).collect();
    let records =
        admin.post("/api/object-classes/1/object-records/batch/", json!({"items": items})).await.expect_created();
    let records: Vec<i64> = records["ids"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
    let set = json!({"name": "Tasks", "permissions": {"tasks": ["view"]}});
    admin.post("/api/object-classes/1/record-permission-sets/", set).await.expect_created();
    assert_eq!(ann.id, 2);
    let assigned = [
        "INSERT INTO record_assignees(record, n, permission_set, principal, created_at) SELECT id, n, 1, 2, 0 FROM r1 WHERE n % 3 > 0",
        "INSERT INTO record_viewers(principal, class_id, slot, version, owned) VALUES (2, 1, 0, 1, 0)",
    ];
    sql(&server, Box::leak(Box::new(assigned))).await;
    let mut random = SeededRandom(7);
    for at in 0..30 {
        let record = random.choose(&records);
        let assignees: Vec<i64> = random.sample(&[1, 2]);
        let made =
            admin.post(TASKS, json!({"task_template": 1, "object_record": record, "assignees": assignees})).await;
        let task = made.id();
        match at % 10 {
            3 => admin.delete(&format!("{TASKS}{task}/")).await.expect_empty(),
            6 => admin.delete(&format!("/api/object-records/{record}/")).await.expect_empty(),
            9 => compare(&server, &[&admin, &ann]).await,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_filter_and_its_complement_make_the_whole_list() {
    let mut office = start_scene().await;
    let (mut random, mut tasks) = (SeededRandom(7), vec![1]);
    for _ in 0..30 {
        office.step(&mut random, &mut tasks).await;
    }
    let TaskScene { people, admin, records, .. } = &office;
    let record = records[0];
    for caller in people.iter().chain([admin]) {
        let ids = async |query: &str| caller.get(&format!("{TASKS}?limit=1000&{query}")).await.ids();
        let all = ids("").await;
        for (name, value) in [
            ("id__lte", "3".to_owned()),
            ("name__icontains", "a".to_owned()),
            ("task_template", "1".to_owned()),
            ("object_record", record.to_string()),
            ("object_record__gt", record.to_string()),
            ("status", "open".to_owned()),
            ("status__in", "open,completed".to_owned()),
            ("due_at__lt", "2026-02-01T00:00:00Z".to_owned()),
            ("due_at__isnull", "true".to_owned()),
            ("assignees", "me".to_owned()),
            ("assignees__in", "me,1,2".to_owned()),
        ] {
            let found = ids(&format!("{name}={value}")).await;
            let others: Vec<i64> = all.iter().copied().filter(|id| !found.contains(id)).collect();
            assert_eq!(ids(&format!("{name}__exclude={value}")).await, others, "{} {name}={value}", caller.username);
        }
    }
}
