//! Helpers for the set-up of record tests.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::ApiClient;

pub const SETS: &str = "/api/object-classes/1/record-permission-sets/";
pub const FIELDS: &str = "/api/object-classes/1/fields/";
pub const RECORDS: &str = "/api/object-classes/1/object-records/";
pub const BATCH: &str = "/api/object-classes/1/object-records/batch/";

/// Creates class 1, `Order`, and returns the first super admin.
pub async fn with_class(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    api
}

/// Creates a class with these fields, owned by the caller, and returns its id.
pub async fn class(api: &ApiClient, name: &str, fields: Value) -> i64 {
    let class = api.post("/api/object-classes/", json!({"name": name})).await.id();
    for field in fields.as_array().unwrap() {
        api.post(&format!("/api/object-classes/{class}/fields/"), field.clone()).await.expect_created();
    }
    class
}

/// Creates class 1, `Node`, whose records may have another one as parent. Returns the first super admin.
pub async fn with_nodes(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    class(&api, "Node", json!([])).await;
    let relation = json!({"label": "Parent", "type": "relation", "related_object_class": 1});
    api.post(FIELDS, relation).await.expect_created();
    api
}

/// Returns options of a field. The text of each is its value in capitals.
pub fn options(values: &[&str]) -> Value {
    values.iter().map(|value| json!({"value": value, "text": value.to_uppercase()})).collect()
}

/// Creates a record permission set of class 1 and returns its id.
pub async fn set(api: &ApiClient, name: &str, permissions: Value) -> i64 {
    let set = api.post(SETS, json!({"name": name, "permissions": permissions})).await;
    set.expect_created();
    set.id()
}

/// Creates a record of class 1 and returns its id.
pub async fn record(api: &ApiClient) -> i64 {
    let record = api.post(RECORDS, json!({})).await;
    record.expect_created();
    record.id()
}

/// Grants a user actions on class 1 and its records by a separate class permission set.
pub async fn with_class_set(api: &ApiClient, user: i64, permissions: Value) {
    let body = json!({"name": format!("Of {user}"), "permissions": permissions});
    let set = api.post("/api/object-classes/1/permission-sets/", body).await.id();
    let assignees = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    api.post(&assignees, json!([user])).await.expect_created();
}

/// Creates a group with these members and returns its id.
pub async fn group(api: &ApiClient, name: &str, members: &[i64]) -> i64 {
    let id = api.post("/api/user-groups/", json!({"name": name})).await.id();
    if !members.is_empty() {
        api.post(&format!("/api/user-groups/{id}/members/users/"), json!(members)).await.expect_created();
    }
    id
}

/// Creates this number of users who have not signed in, and returns their ids.
pub async fn users(api: &ApiClient, count: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    for n in 0..count {
        let body = json!({
            "username": format!("u{n}@example.com"), "account_type": "external", "first_name": "U",
            "last_name": n.to_string(), "delay_activation": true,
        });
        ids.push(api.post("/api/users/", body).await.id());
    }
    ids
}

/// Sets limits of the build.
pub async fn set_limits(server: &TestServer, limits: Value) {
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    operator.patch(&format!("/api/builds/{}/limits/", testkit::DOMAIN), limits).await.ok();
}

/// Returns the address of the users assigned to a record by a set. Appending `user-groups/` selects the groups.
pub fn assignees(record: i64, set: i64) -> String {
    format!("/api/object-records/{record}/permission-sets/{set}/assignees/")
}

/// Runs statements.
pub async fn sql(server: &TestServer, texts: &'static [&'static str]) {
    let run = move |conn: &mut Conn| texts.iter().try_for_each(|text| conn.exec(&Sql::new(text)).map(drop));
    server.build.db.write::<(), StoreError>(run).await.unwrap();
}

/// Returns the number that a statement selects.
pub async fn number(server: &TestServer, text: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(text), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}

/// Returns the history events of a record with these types, in order: type and data.
pub async fn history(server: &TestServer, record: i64, types: &[i64]) -> Vec<(i64, Value)> {
    let read = |conn: &mut Conn| {
        let sql = Sql::new("SELECT body FROM outbox WHERE kind = 'history' ORDER BY n");
        conn.query_all(&sql, |row| Ok(serde_json::from_str::<Value>(row.text(0)?).unwrap()))
    };
    let all = server.build.db.read::<Vec<Value>, StoreError>(read).await.unwrap();
    let data = |event: &Value| -> Value {
        let texts = event["event_data"].as_array().unwrap();
        texts.iter().map(|text| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap()).collect()
    };
    let wanted = all.iter().filter(|event| event["record_id"] == json!(record));
    let events = wanted.map(|event| (event["event_type_id"].as_i64().unwrap(), data(event)));
    events.filter(|(event_type, _)| types.contains(event_type)).collect()
}

/// Inserts these connectors in place of the `agents` module: numbers and names, in the order of the numbers. The last one is not
/// associated with a class, the others are with class 1.
pub async fn connectors(server: &TestServer, wanted: &'static [(i64, &'static str)]) {
    let last = wanted.last().map_or(0, |(id, _)| *id);
    let insert = move |conn: &mut Conn| {
        for (id, name) in wanted {
            let sql = "INSERT INTO mcp_connectors(id, name, name_fold, uuid, client_id) VALUES ($1, $2, $3, $4, $4)";
            let sql = Sql::new(sql).arg(*id).arg(*name).arg(name.to_lowercase());
            conn.exec(&sql.arg(format!("connector {id}")))?;
            if *id != last {
                let sql = Sql::new("INSERT INTO mcp_connector_classes(connector, object_class) VALUES ($1, 1)");
                conn.exec(&sql.arg(*id))?;
            }
        }
        Ok(())
    };
    server.build.db.write::<(), StoreError>(insert).await.unwrap();
}
