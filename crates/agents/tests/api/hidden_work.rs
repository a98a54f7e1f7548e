//! A hidden object costs as much as a missing one, so that timing reveals nothing. Calls with the id of a record or a task run the
//! same number of statements for both. For filtered lists SQLite also executes the same number of instructions. One statement
//! checks a class before all others (`mcp/classes.rs`). A history is read after its record. `bench/agents` measures the time.

use crate::TestServer;
use crate::dance::{TestAgent, with_agent};
use crate::mcp::with_all_tools;
use crate::set_up::{INTEGRATIONS, class};
use http::{HeaderMap, Method};
use identity::agent_sessions;
use kit::caller::{Caller, CredentialClaims};
use kit::refusal::Refusal;
use kit::request::{Effects, ReceivedRequest, Request};
use kit::route::Handler;
use resource::{JsonBody, Query};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Conn, Sql, StoreError};
use testkit::ApiClient;

const RECORDS: &str = "/api/object-classes/1/object-records/";
const SETS: &str = "/api/object-classes/1/record-permission-sets/";
const UNKNOWN: i64 = 999_999;
const FIND: &str = "find";

/// The agent as the caller of requests.
async fn caller(server: &TestServer) -> Arc<Caller> {
    let load = |conn: &mut Conn| {
        let sql = Sql::new("SELECT id, user_id FROM sessions WHERE connector IS NOT NULL");
        let (session, user) = conn.query_one(&sql, |row| Ok((row.int(0)?, row.int(1)?)))?;
        let claims = CredentialClaims { user, session, expires_at: i64::MAX };
        agent_sessions::load(conn, claims, testkit::NOW)
    };
    Arc::new(server.build.db.read::<_, StoreError>(load).await.unwrap().unwrap())
}

/// The cost of a call: its statements, and the instructions of their queries.
type CallCost = (u64, u64);

/// Makes a call like a tool does, and returns its cost and its answer.
async fn call(server: &TestServer, caller: &Arc<Caller>, method: Method, path: &str, body: Value) -> (CallCost, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let found = TestServer::table().find(path).unwrap();
    let route = found.routes.iter().copied().find(|route| route.method == method).unwrap();
    let received = ReceivedRequest {
        app: server.app.clone(),
        build: server.build.clone(),
        requirement: route.requirement(),
        declared_names: route.declared_names(),
        path_values: found.path_values,
        method,
        path: path.to_owned(),
        query: Query::parse(query),
        body: Ok(JsonBody::from_json(&body)),
        room: Default::default(),
        answer_room: Default::default(),
        headers: HeaderMap::new(),
        address: [127, 0, 0, 1].into(),
        origin: "https://a.example".to_owned(),
        now: testkit::NOW,
        admission: None,
        effects: Effects::default(),
    };
    let request = Arc::new(Request::new(Some(caller.clone()), received));
    let counted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (shared, count, handler) = (request.clone(), counted.clone(), route.handler);
    let run = move |conn: &mut Conn| {
        let before = conn.instructions();
        let outcome = match &handler {
            Handler::Read(handler) | Handler::ShortRead(handler) | Handler::Write(handler) => handler(&shared, conn),
            Handler::Peek(peek, handler) => match peek(&shared, conn) {
                Ok(None) => handler(&shared, conn),
                Ok(Some(answer)) => Ok(answer),
                Err(refusal) => Err(refusal),
            },
            _ => panic!("{} is none of one transaction", shared.path),
        };
        count[0].store(conn.statements(), Ordering::Relaxed);
        count[1].store(conn.instructions() - before, Ordering::Relaxed);
        outcome
    };
    let is_write = matches!(route.handler, Handler::Write(_));
    let outcome =
        if is_write { server.build.db.write::<_, Refusal>(run).await } else { server.build.db.read(run).await };
    let told = match outcome {
        Ok(answer) => serde_json::from_slice(answer.body.in_memory_bytes()).unwrap_or_default(),
        Err(refusal) => refusal.body,
    };
    let [statements, instructions] = [0, 1].map(|at: usize| counted[at].load(Ordering::Relaxed));
    ((statements, instructions), told)
}

/// The minimum cost of three equal calls: another connection may need a few more instructions once.
async fn minimum_cost(
    server: &TestServer,
    caller: &Arc<Caller>,
    (method, path, body): (Method, String, Value),
) -> (CallCost, String, Value) {
    let (mut least, mut told) = ((u64::MAX, u64::MAX), Value::Null);
    for _ in 0..3 {
        let work;
        (work, told) = call(server, caller, method.clone(), &path, body.clone()).await;
        least = least.min(work);
    }
    (least, path, told)
}

/// A server with class 1, whose records have a number and `above` another one, and set 1, which gives an agent all rights.
async fn scene() -> (TestServer, ApiClient, TestAgent, i64) {
    let (server, api, agent) = with_agent().await;
    with_all_tools(&api, &agent).await;
    class(&api, "Order").await;
    for field in [
        json!({"label": "Title", "type": "string"}),
        json!({"label": "Number", "type": "string", "is_unique": true}),
        json!({"label": "Above", "type": "relation", "related_object_class": 1}),
    ] {
        api.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    let classes = json!({"object_classes": [1]});
    api.patch(&format!("{INTEGRATIONS}{}/", agent.integration), classes).await.ok();
    let all = json!({
        "object_records": ["view", "edit", "delete"],
        "tasks": ["create", "edit", "view", "delete", "complete", "assign"],
    });
    api.post(SETS, json!({"name": "All", "permissions": all})).await.expect_created();
    api.post(SETS, json!({"name": "Others", "permissions": all})).await.expect_created();
    let given = json!({"mcp_permissions": [{"connector": 1, "permissions": all}]});
    api.patch(&format!("{SETS}1/"), given).await.ok();
    let template = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    api.post("/api/task-templates/", template).await.expect_created();
    let person = server.as_type("internal").await;
    agent.grant(&server, &person.username).await;
    (server, api, agent, person.id)
}

#[tokio::test]
async fn what_is_hidden_is_looked_for_as_what_is_not_there() {
    let (server, api, _agent, person) = scene().await;
    let record = async |set: i64, users: Value| {
        let assigned = if set == 0 { json!([]) } else { json!([{"permission_set": set, "users": users}]) };
        let id = api.post(RECORDS, json!({"fields": {"title": "A"}, "permission_sets": assigned})).await.id();
        api.patch(&format!("/api/object-records/{id}/"), json!({"fields": {"number": format!("n{id}x")}})).await.ok();
        id
    };
    let seen = record(1, json!([person])).await;
    let below = record(1, json!([person])).await;
    api.patch(&format!("/api/object-records/{below}/"), json!({"fields": {"above": seen}})).await.ok();
    // Hidden records: without assignments, of another user, and of the person by a set that gives the connector no rights.
    let hidden = [record(0, json!([])).await, record(1, json!([1])).await, record(2, json!([person])).await];
    let task = async |record: i64| {
        let body = json!({"task_template": 1, "object_record": record, "assignees": [person]});
        api.post("/api/tasks/", body).await.id()
    };
    let task_seen = task(seen).await;
    let tasks_hidden = [task(hidden[0]).await, task(hidden[1]).await, task(hidden[2]).await];
    let caller = caller(&server).await;
    let of_record = |id: i64| format!("/api/object-records/{id}/");
    let of_task = |id: i64| format!("/api/tasks/{id}/");
    let title = json!({"fields": {"title": "B"}});
    type CallBuilder<'a> = Box<dyn Fn(i64) -> (Method, String, Value) + 'a>;
    fn search_call<'a>(path: impl Fn(i64) -> String + 'a) -> (&'static str, CallBuilder<'a>) {
        (FIND, Box::new(move |id| (Method::GET, path(id), Value::Null)))
    }
    let of_records: Vec<(&str, CallBuilder)> = vec![
        ("get", Box::new(|id| (Method::GET, of_record(id), Value::Null))),
        ("get some fields", Box::new(|id| (Method::GET, format!("{}?fields=title", of_record(id)), Value::Null))),
        ("change", Box::new(|id| (Method::PATCH, of_record(id), title.clone()))),
        ("delete", Box::new(|id| (Method::DELETE, of_record(id), Value::Null))),
        ("point at", Box::new(|id| (Method::PATCH, of_record(seen), json!({"fields": {"above": id}})))),
        (
            "create one that points at it",
            Box::new(|id| (Method::POST, RECORDS.to_owned(), json!({"fields": {"above": id}}))),
        ),
        (
            "make a task",
            Box::new(|id| (Method::POST, "/api/tasks/".to_owned(), json!({"task_template": 1, "object_record": id}))),
        ),
        search_call(|id| format!("{RECORDS}?id={id}")),
        search_call(|id| format!("{RECORDS}?id__in={id},0&ordering=number")),
        search_call(|id| format!("{RECORDS}?number=n{id}x")),
        search_call(|id| format!("{RECORDS}?number__startswith=n{id}&limit=1")),
        search_call(|id| format!("{RECORDS}?number__exclude=n{id}x")),
        search_call(|id| format!("{RECORDS}?number__startswith__exclude=n{id}&ordering=number__natural")),
        search_call(|id| format!("{RECORDS}?search=n{id}")),
        search_call(|id| format!("{RECORDS}?search=a+n{id}")),
        search_call(|id| format!("{RECORDS}?above={id}")),
        search_call(|id| format!("{RECORDS}?above.id={id}")),
        search_call(|id| format!("{RECORDS}?above.number=n{id}x")),
        search_call(|id| format!("{RECORDS}?above.number__exclude=n{id}x")),
        search_call(|id| format!("/api/tasks/?object_record={id}")),
    ];
    let of_tasks: Vec<(&str, CallBuilder)> = vec![
        ("get", Box::new(|id| (Method::GET, of_task(id), Value::Null))),
        ("change", Box::new(|id| (Method::PATCH, of_task(id), json!({"name": "B"})))),
        ("assign", Box::new(|id| (Method::PATCH, of_task(id), json!({"assignees": [person]})))),
        ("complete", Box::new(|id| (Method::POST, format!("{}complete/", of_task(id)), json!({"response": {}})))),
        ("delete", Box::new(|id| (Method::DELETE, of_task(id), Value::Null))),
        search_call(|id| format!("/api/tasks/?id={id}")),
        search_call(|id| format!("/api/tasks/?id={id}&assignees={person}&ordering=-created_at")),
    ];
    // Visible records are in the answers.
    for (id, made) in [(seen, &of_records[0].1), (task_seen, &of_tasks[0].1)] {
        let (method, path, body) = made(id);
        assert_eq!(call(&server, &caller, method, &path, body).await.1["id"], id);
    }
    let mut wrong = Vec::new();
    for (all, ids) in [(&of_records, hidden), (&of_tasks, tasks_hidden)] {
        for (what, made) in all {
            let (expected, _, told) = minimum_cost(&server, &caller, made(UNKNOWN)).await;
            for id in ids {
                let (work, path, told_of) = minimum_cost(&server, &caller, made(id)).await;
                assert_eq!(
                    told_of.to_string().replace(&format!("pk {id} "), "pk "),
                    told.to_string().replace("pk 999999 ", "pk "),
                    "{what} {path}"
                );
                let is_same = if *what == FIND { work == expected } else { work.0 == expected.0 };
                if !is_same {
                    wrong.push(format!("{what} {path}: {work:?} for {id}, {expected:?} for what is not there"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_search_of_people_who_may_view_few_records_costs_the_same_whatever_is_hidden() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    api.post("/api/object-classes/1/fields/", json!({"label": "Title", "type": "string"})).await.expect_created();
    api.post(SETS, json!({"name": "Viewers", "permissions": {"object_records": ["view"]}})).await.expect_created();
    let person = server.as_type("external").await;
    let record = async |title: &str, users: Value| {
        let assigned = json!([{"permission_set": 1, "users": users}]);
        api.post(RECORDS, json!({"fields": {"title": title}, "permission_sets": assigned})).await.id()
    };
    let seen = record("walnut seen", json!([person.id])).await;
    for n in 0..20 {
        record(&format!("walnut hidden hidden{n}"), json!([1])).await;
    }
    let user = person.id;
    let load = move |conn: &mut Conn| identity::as_caller(conn, user);
    let caller = Arc::new(server.build.db.read::<_, StoreError>(load).await.unwrap());
    let search = async |text: &str| {
        let path = format!("{RECORDS}?search={text}");
        let (work, _, told) = minimum_cost(&server, &caller, (Method::GET, path, Value::Null)).await;
        (work, told["results"].as_array().unwrap().iter().map(|found| found["id"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(search("walnut").await.1, [seen]);
    let of_nothing = search("nowhere").await;
    assert_eq!(of_nothing.1, [0; 0]);
    for text in ["hidden", "hidden1", "hid", "walnut+hidden", "seen+hid"] {
        assert_eq!(search(text).await, of_nothing, "{text}");
    }
}
