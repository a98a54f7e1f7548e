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
use kit::ids::UserId;
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
        let (session, user) = conn.query_one(&sql, |row| Ok((row.id(0)?, row.id(1)?)))?;
        let claims = CredentialClaims::of_session(user, session, i64::MAX);
        agent_sessions::load(conn, claims, testkit::NOW)
    };
    Arc::new(server.build.db.read::<_, StoreError>(load).await.unwrap().unwrap())
}

/// The cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallCost {
    statements: u64,
    /// The instructions of the queries.
    instructions: u64,
}

/// A call of the API.
struct ApiCall {
    method: Method,
    path: String,
    body: Value,
}

/// The cost and the answer of a call.
struct CallResult {
    cost: CallCost,
    answer: Value,
}

/// Makes a call like a tool does, and returns its cost and its answer.
async fn call(server: &TestServer, caller: &Arc<Caller>, call: &ApiCall) -> CallResult {
    let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
    let matched = TestServer::table().find(path).unwrap();
    let route = matched.routes.iter().copied().find(|route| route.method == call.method).unwrap();
    let received = ReceivedRequest {
        app: server.app.clone(),
        build: server.build.clone(),
        requirement: route.requirement(),
        declared_names: route.declared_names(),
        path_values: matched.path_values,
        method: call.method.clone(),
        path: path.to_owned(),
        query: Query::parse(query),
        body: Ok(JsonBody::from_json(&call.body)),
        room: Default::default(),
        answer_room: Default::default(),
        headers: HeaderMap::new(),
        address: [127, 0, 0, 1].into(),
        origin: "https://a.example".to_owned(),
        now: testkit::NOW,
        admission: None,
        effects: Effects::default(),
        idempotency: None,
        run: None,
    };
    let request = Arc::new(Request::new(Some(caller.clone()), received));
    let counted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (shared, count, handler) = (request.clone(), counted.clone(), route.handler);
    let run = move |conn: &mut Conn| {
        let before = conn.instructions();
        let outcome = match &handler {
            Handler::Read(handler) | Handler::ShortRead(handler) | Handler::Write(handler) => handler(&shared, conn),
            Handler::ReadInOneStatement(peek, handler) => match peek(&shared, conn) {
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
    let answer = match outcome {
        Ok(answer) => serde_json::from_slice(answer.body.in_memory_bytes()).unwrap_or_default(),
        Err(refusal) => refusal.body(),
    };
    let [statements, instructions] = [0, 1].map(|at: usize| counted[at].load(Ordering::Relaxed));
    CallResult { cost: CallCost { statements, instructions }, answer }
}

/// The minimum cost of three equal calls: another connection may need a few more instructions once.
async fn minimum_cost(server: &TestServer, caller: &Arc<Caller>, api_call: &ApiCall) -> CallResult {
    let mut minimum = call(server, caller, api_call).await;
    for _ in 0..2 {
        let CallResult { cost, answer } = call(server, caller, api_call).await;
        minimum = CallResult { cost: minimum.cost.min(cost), answer };
    }
    minimum
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

/// A call for an object, by its id.
struct HiddenCall<'a> {
    name: &'static str,
    build: Box<dyn Fn(i64) -> ApiCall + 'a>,
}

fn named_call<'a>(name: &'static str, build: impl Fn(i64) -> ApiCall + 'a) -> HiddenCall<'a> {
    HiddenCall { name, build: Box::new(build) }
}

fn search_call<'a>(path: impl Fn(i64) -> String + 'a) -> HiddenCall<'a> {
    named_call(FIND, move |id| ApiCall { method: Method::GET, path: path(id), body: Value::Null })
}

fn record_path(id: i64) -> String {
    format!("/api/object-records/{id}/")
}

fn task_path(id: i64) -> String {
    format!("/api/tasks/{id}/")
}

/// The calls for a record, with a visible record that can relate to it.
fn record_calls(visible: i64) -> Vec<HiddenCall<'static>> {
    let title = json!({"fields": {"title": "B"}});
    let get = |path: String| ApiCall { method: Method::GET, path, body: Value::Null };
    let post = |path: &str, body: Value| ApiCall { method: Method::POST, path: path.to_owned(), body };
    vec![
        named_call("get", move |id| get(record_path(id))),
        named_call("get some fields", move |id| get(format!("{}?fields=title", record_path(id)))),
        named_call("change", move |id| ApiCall { method: Method::PATCH, path: record_path(id), body: title.clone() }),
        named_call("delete", |id| ApiCall { method: Method::DELETE, path: record_path(id), body: Value::Null }),
        named_call("point at", move |id| ApiCall {
            method: Method::PATCH,
            path: record_path(visible),
            body: json!({"fields": {"above": id}}),
        }),
        named_call("create one that points at it", move |id| post(RECORDS, json!({"fields": {"above": id}}))),
        named_call("make a task", move |id| post("/api/tasks/", json!({"task_template": 1, "object_record": id}))),
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
    ]
}

/// The calls for a task.
fn task_calls(person: i64) -> Vec<HiddenCall<'static>> {
    let send = |method: Method, path: String, body: Value| ApiCall { method, path, body };
    vec![
        named_call("get", move |id| send(Method::GET, task_path(id), Value::Null)),
        named_call("change", move |id| send(Method::PATCH, task_path(id), json!({"name": "B"}))),
        named_call("assign", move |id| send(Method::PATCH, task_path(id), json!({"assignees": [person]}))),
        named_call("complete", move |id| {
            send(Method::POST, format!("{}complete/", task_path(id)), json!({"response": {}}))
        }),
        named_call("delete", move |id| send(Method::DELETE, task_path(id), Value::Null)),
        search_call(|id| format!("/api/tasks/?id={id}")),
        search_call(move |id| format!("/api/tasks/?id={id}&assignees={person}&ordering=-created_at")),
    ]
}

/// Compares the costs and answers of calls for hidden objects with those for a missing one, and returns the differences in cost.
async fn compare_hidden(
    server: &TestServer,
    caller: &Arc<Caller>,
    calls: &[HiddenCall<'_>],
    hidden: &[i64],
) -> Vec<String> {
    let mut differences = Vec::new();
    for HiddenCall { name, build } in calls {
        let missing = minimum_cost(server, caller, &build(UNKNOWN)).await;
        for id in hidden {
            let (api_call, expected) = (build(*id), missing.cost);
            let CallResult { cost, answer } = minimum_cost(server, caller, &api_call).await;
            let path = &api_call.path;
            assert_eq!(
                answer.to_string().replace(&format!("pk {id} "), "pk "),
                missing.answer.to_string().replace("pk 999999 ", "pk "),
                "{name} {path}"
            );
            let is_same = if *name == FIND { cost == expected } else { cost.statements == expected.statements };
            if !is_same {
                differences.push(format!("{name} {path}: {cost:?} for {id}, {expected:?} for a missing one"));
            }
        }
    }
    differences
}

#[tokio::test]
async fn hidden_and_missing_objects_run_the_same_statements() {
    let (server, api, _agent, person) = scene().await;
    let record = async |set: i64, users: Value| {
        let assigned = if set == 0 { json!([]) } else { json!([{"permission_set": set, "users": users}]) };
        let id = api.post(RECORDS, json!({"fields": {"title": "A"}, "permission_sets": assigned})).await.id();
        api.patch(&record_path(id), json!({"fields": {"number": format!("n{id}x")}})).await.ok();
        id
    };
    let visible = record(1, json!([person])).await;
    let below = record(1, json!([person])).await;
    api.patch(&record_path(below), json!({"fields": {"above": visible}})).await.ok();
    // Hidden records: without assignments, of another user, and of the person by a set that gives the connector no rights.
    let hidden = [record(0, json!([])).await, record(1, json!([1])).await, record(2, json!([person])).await];
    let task = async |record: i64| {
        let body = json!({"task_template": 1, "object_record": record, "assignees": [person]});
        api.post("/api/tasks/", body).await.id()
    };
    let visible_task = task(visible).await;
    let hidden_tasks = [task(hidden[0]).await, task(hidden[1]).await, task(hidden[2]).await];
    let caller = caller(&server).await;
    let (record_calls, task_calls) = (record_calls(visible), task_calls(person));
    // Visible records are in the answers.
    for (id, get) in [(visible, &record_calls[0]), (visible_task, &task_calls[0])] {
        assert_eq!(call(&server, &caller, &(get.build)(id)).await.answer["id"], id);
    }
    let mut differences = compare_hidden(&server, &caller, &record_calls, &hidden).await;
    differences.extend(compare_hidden(&server, &caller, &task_calls, &hidden_tasks).await);
    assert!(differences.is_empty(), "{differences:#?}");
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
    let visible = record("walnut seen", json!([person.id])).await;
    for n in 0..20 {
        record(&format!("walnut hidden hidden{n}"), json!([1])).await;
    }
    let user = UserId::new(person.id);
    let load = move |conn: &mut Conn| identity::as_caller(conn, user);
    let caller = Arc::new(server.build.db.read::<_, StoreError>(load).await.unwrap());
    let search = async |text: &str| {
        let path = format!("{RECORDS}?search={text}");
        let get = ApiCall { method: Method::GET, path, body: Value::Null };
        let CallResult { cost, answer } = minimum_cost(&server, &caller, &get).await;
        (cost, answer["results"].as_array().unwrap().iter().map(|record| record["id"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(search("walnut").await.1, [visible]);
    let missing = search("nowhere").await;
    assert_eq!(missing.1, [0; 0]);
    for text in ["hidden", "hidden1", "hid", "walnut+hidden", "seen+hid"] {
        assert_eq!(search(text).await, missing, "{text}");
    }
}
